"""The released table in pictures, and beside it, for its custodian, the confidential one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DiscreetError, FileProblem
from discreet._core.lazy import pl
from discreet._core.text import about, as_written
from discreet.confidential._source import Source, open_source
from discreet.domain import Domain
from discreet.report._charts import Chart, column_chart
from discreet.utility._marginals import Bins, Shares, bins_of

MOST_COLUMNS = 40
"""Columns that a report draws."""

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedColumn:
    """One column of a release, counted. Public.

    ``bins``: where its values are counted.
    ``shares``: how they are spread.
    """

    bins: Bins
    shares: Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPicture:
    """One column as the page shows it.

    ``name``, ``kind``: the column, and its declared type.
    ``chart``: the picture of an ordered column; unordered ones are shown as rows with bars.
    ``rows``: name of each bin, share among the released records (text, and length of a bar from 0 to 100), and the same
    for the confidential records where they are shown.
    """

    name: str
    kind: str
    chart: Chart | None
    rows: tuple[tuple[str, str, float, str | None, float], ...]


def released_columns(
    paths: Sequence[Path], domain: Domain, *, counts: bool
) -> tuple[tuple[int, ...], dict[str, ReleasedColumn]]:
    """Read a release and count each of its first forty columns, in all of its tables together.

    Raises FileProblem when a file cannot be read, or does not fit the domain.

    ``paths``: the released files: one, or all of a folder.
    ``domain``: as the certificate states it.
    ``counts``: whether it is a table of counts.
    Returns: the number of rows of each file, and the columns by name.
    """
    misfit = FileProblem(paths[0], "it does not fit the domain of its certificate", "give the file that belongs to it")
    sources = [open_source(path) for path in paths]
    try:
        rows = tuple(sum(batch.height for batch in source.batches(source.names[:1])) for source in sources)
        found = {name: _counted(sources, name, domain, counts=counts) for name in domain.names[:MOST_COLUMNS]}
    except (DiscreetError, ValueError):
        raise misfit from None
    return rows, found


def _counted(sources: Sequence[Source], name: str, domain: Domain, *, counts: bool) -> ReleasedColumn:
    column = domain.columns[name]
    key, wanted, weight = name, [name], pl.len().cast(pl.Float64)
    if counts:
        key = name if name in sources[0].names else f"{name}_from"  # cells that are intervals are named by their ends
        wanted, weight = [key, "count"], pl.col("count").cast(pl.Float64).sum()
    parts = [pl.DataFrame({"value": pl.Series([], dtype=pl.Null), "weight": pl.Series([], dtype=pl.Float64)})]
    parts += [
        batch.group_by(pl.col(key).alias("value")).agg(weight.alias("weight"))
        for source in sources
        for batch in source.batches(wanted)
    ]
    grouped = pl.concat(parts, how="vertical_relaxed").group_by("value").agg(pl.col("weight").sum()).sort("value")
    values = grouped["value"]
    if key in sources[0].texts and grouped.height:
        values = column.parse(values)
        if values.null_count() > grouped["value"].null_count():
            raise ValueError
    weights: npt.NDArray[Any] = grouped["weight"].to_numpy()
    bins = bins_of(column, values, weights)
    return ReleasedColumn(bins=bins, shares=bins.shares(values, weights))


def pictures(
    columns: Mapping[str, ReleasedColumn], confidential: Mapping[str, Shares] | None = None
) -> list[ColumnPicture]:
    """Draw columns, beside the confidential ones where they are given."""
    return [
        _picture(name, column, None if confidential is None else confidential[name]) for name, column in columns.items()
    ]


def _picture(name: str, column: ReleasedColumn, other: Shares | None) -> ColumnPicture:
    bins, shares = column.bins, column.shares
    drawn = bool(bins.cuts is not None and bins.names)
    sides = [shares] if other is None else [shares, other]
    parts = [np.array([*side.bins, side.beyond, side.nulls]) for side in sides]
    top = max(1e-9, *(float(part.max()) for part in parts))
    names = (*bins.names, "all other values", "no value (null)")
    rows = []
    for i, label in enumerate(names):
        if i >= len(bins.names) and not any(part[i] > 0 for part in parts):
            continue
        mine = float(parts[0][i])
        yours = None if other is None else float(parts[1][i])
        rows.append(
            (
                label,
                _share(mine),
                round(100.0 * mine / top, 2),
                None if yours is None else _share(yours),
                0.0 if yours is None else round(100.0 * yours / top, 2),
            )
        )
    chart = column_chart(name, bins, shares, other) if drawn else None
    return ColumnPicture(name=name, kind=bins.column.kind.replace("_", " "), chart=chart, rows=tuple(rows))


def _share(share: float) -> str:
    return f"{about(100.0 * share, 4)} %"


def declared(domain: Domain) -> list[tuple[str, str, str, str]]:
    """Return name, type, cells and other declared facts of each column of a domain, as text."""
    rows = []
    for name, column in domain.columns.items():
        facts = column.to_dict()
        kind = str(facts.pop("type")).replace("_", " ")
        words = ", ".join(f"{key.replace('_', ' ')}: {fact(value)}" for key, value in facts.items())
        rows.append((name, kind, f"{column.size:,}" if column.size is not None else "not finite", words))
    return rows


def fact(value: Any) -> str:
    """Return a public fact as text."""
    if isinstance(value, Mapping):
        return "; ".join(f"{str(key).replace('_', ' ')} {fact(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        more = f", … ({len(value):,} in all)" if len(value) > _MOST_LISTED else ""
        return ", ".join(map(str, value[:_MOST_LISTED])) + more
    if isinstance(value, float):
        return as_written(value)
    return str(value)
