"""The released table in pictures, and beside it, for its custodian, the confidential one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.charts import Chart, band_chart, column_chart, forest_chart, release_figure
from discreet._core.errors import DiscreetError, FileProblem
from discreet._core.lazy import pl
from discreet._core.text import about, as_written, counted, full_sentence, percent_as_written, rounded_up
from discreet.confidential.source import Source, open_source
from discreet.domain import Domain
from discreet.domain.temporal import moment_text
from discreet.inference import posterior
from discreet.inference.population import Posterior
from discreet.inference.summary import Estimate, bounded, jumps, points
from discreet.mechanisms.likelihood import no_posterior
from discreet.privacy.guarantee import TradeOff
from discreet.releases import Certificate
from discreet.releases.verification import guarantee_of
from discreet.report.promise import Promise
from discreet.utility.columns import Bins, Shares, bins_of

MOST_COLUMNS = 40
"""Columns that a report draws."""

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedColumn:
    """One column of a release, counted in bins. Public."""

    bins: Bins
    shares: Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPicture:
    """One column as the page shows it: a picture where it is ordered, else rows with bars.

    ``rows``: the bin, its share as text and as a length up to 100, and both for confidential records that are shown.
    """

    name: str
    kind: str
    chart: Chart | None
    rows: tuple[tuple[str, str, float, str | None, float], ...]


def released_columns(
    paths: Sequence[Path], domain: Domain, *, counts: bool
) -> tuple[tuple[int, ...], dict[str, ReleasedColumn]]:
    """Return the number of rows of each file of a release, and its first forty columns counted in all of its tables.

    Raises FileProblem when a file cannot be read, or does not fit the domain.
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
    chart = None
    if bins.cuts is not None and bins.names:
        confidential = None if other is None else other.bins
        chart = column_chart(name, bins.starts, shares.bins, confidential, points=bins.points)
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


def picture(released: Any, certificate: Certificate, out: str | os.PathLike[str], *, confidential: Any = None) -> Path:
    """Draw the released values of the first column beside the trade-off of the best attacker, as PNG, SVG or PDF.

    Parameters
    ----------
    released : polars.DataFrame
        The released records.
    certificate : Certificate
        Of the release.
    out : path
        File to write.
    confidential : polars.DataFrame, optional
        When given, its values are drawn too, and the picture is marked confidential.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileProblem
        When the file cannot be written, or exists and was not written by this package.
    ParameterError
        When matplotlib is not installed.
    """
    facts = certificate.facts
    name = Domain.from_dict(facts.domain).names[0]
    return release_figure(
        out,
        title=f"{counted(facts.size or 0, 'synthetic record')} from {facts.records:,}: "
        f"epsilon {rounded_up(certificate.epsilon, 6)}, delta {rounded_up(certificate.delta)} "
        f"({facts.mechanism.name})",
        column=name,
        released=released[name].drop_nulls().to_numpy(),
        confidential=None if confidential is None else confidential[name].drop_nulls().to_numpy(),
        power=TradeOff.of(guarantee_of(certificate).profile).power,
    )


# What a release tells of the population, in pictures with intervals: from the release and its certificate alone.

LEVEL = 0.95
_DRAWS = 400
_MOST_CELLS = 1_000  # a posterior of more takes seconds
_ASKED = ("mean", "q25", "q50", "q75")
_MOST_GROUPS, _MOST_WAYS = 12, 3

_Rows = tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPicture:
    """The mean of an ordered column in each group, as the page shows it, with its interval."""

    by: str
    chart: Chart
    rows: _Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatePicture:
    """One ordered column of the population: its distribution function, some numbers, and its mean by group."""

    name: str
    chart: Chart
    rows: _Rows
    groups: tuple[GroupsPicture, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """What a report says of the population: pictures, what their intervals assume, or why there are none."""

    pictures: tuple[EstimatePicture, ...] = ()
    notes: tuple[str, ...] = ()
    without: str = ""

    @classmethod
    def of(cls, promise: Promise, release: Path) -> Estimates:
        """Return what a release tells, if its certificate is confirmed and it takes no longer than a report may."""
        if why := _without(promise):
            return cls(without=why)
        try:
            found = posterior(release, promise.certificate, draws=_DRAWS)
        except DiscreetError:  # the release does not fit what a posterior needs: the page says so elsewhere
            return cls(without="The release could not be read for them.")
        names = [name for name in found.domain.names if _ordered(found, name)][:MOST_COLUMNS]
        if not names:
            return cls(without="No column has an order; discreet estimate gives the shares of categories.")
        told = [_told(found, name) for name in names]
        notes = dict.fromkeys(note for _, notes in told for note in notes)
        return cls(pictures=tuple(picture for picture, _ in told), notes=tuple(notes))


def _without(promise: Promise) -> str:
    """Return why there are no intervals, as a sentence; empty where there are."""
    if promise.disagreements:
        return "Claims of the certificate were not confirmed."
    if promise.certificate.several:
        return "Numbers from several tables are combined: see discreet estimate."
    mechanism = promise.mechanism
    if why := no_posterior(mechanism):
        return full_sentence(why)
    if (mechanism.domain.size or 0) > _MOST_CELLS:
        return f"They take longer than a report where there are more than {_MOST_CELLS:,} cells: see discreet estimate."
    return ""


def _ordered(found: Posterior, name: str) -> bool:
    return found.domain.columns[name].on_a_line


def _groups(found: Posterior) -> list[str]:
    """Return columns of few categories or truth values."""
    few = [name for name, column in found.domain.columns.items() if 1 < (column.size or 0) <= _MOST_GROUPS]
    return [name for name in few if not _ordered(found, name)][:_MOST_WAYS]


def _told(found: Posterior, name: str) -> tuple[EstimatePicture, list[str]]:
    column = found.domain.columns[name]
    at = points(found, name)
    band = found.cdf(at, column=name, level=LEVEL)
    logarithmic = column.logarithmic and at[0] > 0.0
    level = percent_as_written(LEVEL)

    def text(value: float) -> str:
        return moment_text(column.kind, value, sep=" ") if column.kind in ("date", "datetime") else about(value, 6)

    def place(value: float) -> str:
        return text(10.0**value if logarithmic else value)

    where, curves = np.log10(at) if logarithmic else at, np.array(band[1:])
    if jumps(found, name):  # flat up to the next value
        where, curves = np.repeat(where, 2)[1:], np.repeat(curves, 2, axis=1)[:, :-1]
    summary = found.summary(_ASKED, column=name, level=LEVEL)
    by_group = [found.summary(["mean"], column=name, by=by, level=LEVEL) for by in _groups(found)]
    picture = EstimatePicture(
        name=name,
        chart=band_chart(name, where, curves, text=place, level=level),
        rows=tuple((row.name, *_numbers(row, text)) for row in summary.rows),
        groups=tuple(
            GroupsPicture(
                by=str(one.by),
                chart=forest_chart(f"Mean of {name} by {one.by} in the population", rows, text=text, level=level),
                rows=tuple((str(row.group), *_numbers(row, text)) for row in one.rows),
            )
            for one in by_group
            if (rows := [(str(row.group), *each) for row in one.rows if np.isfinite(each := _ends(row)).all()])
        ),
    )
    of_groups = [note for one in by_group for note in one.notes if note not in bounded(one.rows)]  # said of all before
    return picture, [*summary.notes, *of_groups]


def _numbers(row: Estimate, text: Callable[[float], str]) -> tuple[str, str, str]:
    mean, lower, upper = (text(each) if np.isfinite(each) else "-" for each in _ends(row))
    return mean, lower, upper


def _ends(row: Estimate) -> tuple[float, float, float]:
    return row.mean, row.lower, row.upper
