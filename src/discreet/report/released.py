"""The released table in pictures, and beside it, for its custodian, the confidential one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet import wording
from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetError, FileProblem
from discreet._core.lazy import pl
from discreet._core.page import Chart, band_chart, column_chart, forest_chart, release_figure
from discreet._core.text import about, as_written, counted, full_sentence, percent_as_written, rounded_up
from discreet.confidential import Source, open_source, texts_of
from discreet.domain import Domain, moment_text
from discreet.inference import Estimate, Posterior, bounded, groups_of, points, posterior
from discreet.mechanisms import Mechanism, no_posterior
from discreet.privacy import Code, TradeOff
from discreet.releases import Certificate, guarantee_of
from discreet.report.promise import Promise
from discreet.utility import Bins, Shares, bins_of

MOST_COLUMNS = 40
"""Columns that a report draws."""

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A column as the page shows it: a chart, where there is one, and rows of texts."""

    name: str
    chart: Chart | None
    rows: Sequence[tuple[Any, ...]]
    kind: str = ""  # of the column
    groups: tuple[Picture, ...] = ()  # pictures of its mean by other columns, named as they are


def released_columns(
    paths: Sequence[Path], domain: Domain, *, counts: bool
) -> tuple[tuple[int, ...], dict[str, tuple[Bins, Shares]]]:
    """Return the number of rows of each file of a release, and its first forty columns counted in all of its tables."""
    misfit = FileProblem(paths[0], "it does not fit the domain of its certificate", "give the file that belongs to it")
    sources = [open_source(path) for path in paths]
    try:
        rows = tuple(sum(batch.height for batch in source.batches(source.names[:1])) for source in sources)
        columns = {name: _binned(sources, name, domain, counts=counts) for name in domain.names[:MOST_COLUMNS]}
    except (DiscreetError, ValueError):
        raise misfit from None
    return rows, columns


def _binned(sources: Sequence[Source], name: str, domain: Domain, *, counts: bool) -> tuple[Bins, Shares]:
    column = domain.columns[name]
    key, needed, weight = name, [name], pl.len().cast(pl.Float64)
    if counts:
        key = name if name in sources[0].names else f"{name}_from"  # cells that are intervals are named by their ends
        needed, weight = [key, "count"], pl.col("count").cast(pl.Float64).sum()
    parts = [pl.DataFrame({"value": pl.Series([], dtype=pl.Null), "weight": pl.Series([], dtype=pl.Float64)})]
    parts += [
        batch.group_by(pl.col(key).alias("value")).agg(weight.alias("weight"))
        for source in [source for source in sources if key in source.names] or sources  # of linked tables, one
        for batch in source.batches(needed)
    ]
    grouped = pl.concat(parts, how="vertical_relaxed").group_by("value").agg(pl.col("weight").sum()).sort("value")
    values = column.read(texts_of(grouped["value"].alias(key), column, sources[0]))
    weights: npt.NDArray[Any] = grouped["weight"].to_numpy()
    bins = bins_of(column, values, weights)
    return bins, bins.shares(values, weights)


def pictures(columns: Mapping[str, Any], confidential: Mapping[str, Shares] | None = None) -> list[Picture]:
    """Draw columns, beside confidential ones if given; rows hold the bin and each side's share, text and length."""
    drawings = []
    for name, (bins, shares) in columns.items():
        sides, chart = [shares], None
        if confidential is not None:
            sides.append(confidential[name])
        if bins.cuts is not None and bins.names:
            chart = column_chart(name, bins.starts, *[side.bins for side in sides], points=bins.points)
        parts = np.array([[*side.bins, side.beyond, side.nulls] for side in sides])
        longest, rows = max(1e-9, float(parts.max())), []
        for i, label in enumerate((*bins.names, "all other values", "no value (null)")):
            part = parts[:, i].tolist()
            if i < len(bins.names) or max(part) > 0:
                texts = [(f"{about(100.0 * share, 4)} %", round(100.0 * share / longest, 2)) for share in part]
                rows.append((label, texts))
        drawings.append(Picture(name=name, kind=bins.column.kind.replace("_", " "), chart=chart, rows=rows))
    return drawings


def example_unit(paths: Sequence[Path], domain: Domain) -> list[tuple[str, dict[str, str]]]:
    """Return what is the same in all rows of a released unit, and its rows, or gaps of a panel, by a heading each."""
    # The first unit of the commonest number of rows above one in the first table of rows.
    linked, table_name = domain.units is not None, next(iter(domain.row_tables), None)
    if table_name is None:
        return []
    source, table = open_source(paths[linked]), domain.row_tables[table_name]
    more_tables = dict(zip([*domain.row_tables][1:], paths[2:], strict=False))
    name, slots, domain = table.unit, table.slots, domain.rows_of(table_name)
    batch = next(source.batches([each for each in (name, *domain.names) if each in source.names]), pl.DataFrame())
    if not batch.height:
        return []
    if linked:  # with the columns of its own row
        units = open_source(paths[0])
        batch = batch.join(pl.concat(list(units.batches(units.names))), on=name, maintain_order="left")
    sizes = batch.group_by(name, maintain_order=True).len().head(max(1, batch[name].n_unique() - 1))
    sizes = sizes.filter((pl.col("len") > 1) | (pl.col("len").max() == 1))
    unit = batch.filter(pl.col(name) == sizes.filter(pl.col("len") == sizes["len"].mode().min())[name][0])
    texts = unit.with_columns(pl.selectors.float().round_sig_figs(6)).select(pl.all().cast(pl.String).fill_null("null"))
    rows = texts.select(list(table.held_columns)).to_dicts()
    headings = [f"row {number}" for number in range(1, len(rows) + 1)]
    if (column := table.columns.get(slots)) is not None:  # of a panel
        codes = column.encode(column.read(texts_of(unit[slots], column, source)), name=slots).tolist()
        headings = [group.label for group in groups_of(domain, slots)]
        row_of = dict(zip(codes, rows, strict=True))
        rows = [row_of.get(code, {}) for code in range(len(headings))]
    facts = {key: texts[key][0] for key in texts.columns if key not in (name, *table.columns)}
    parts = [("", facts), *zip(headings, rows, strict=True)]
    for table_name, path in more_tables.items():
        source = open_source(path)
        of_unit = pl.col(name).cast(pl.Int64) == int(texts[name][0])
        batches = [batch.filter(of_unit) for batch in source.batches(source.names)]
        rows = pl.concat(batches).drop(name).select(pl.all().cast(pl.String).fill_null("null")).to_dicts()
        parts += [(f"{table_name}, row {number}", row) for number, row in enumerate(rows, 1)]
    return parts


_KINDS = {(0, 1): "of the unit", (0, 0): "of the unit with a row", (1, 1): "within a row", (1, 0): "between rows"}


def kinds_of_pairs(domain: Domain, losses: Iterable[tuple[str, float, float]]) -> list[tuple[str, ...]]:
    """Return of each kind of pair of a unit's columns how many were measured, the mean loss, the largest, and whose."""
    if domain.slots is None:
        return []
    slots = dict(zip(domain.names, np.maximum(0, domain.slots).tolist(), strict=True))
    kinds = {f"{a}*{b}": _KINDS[min(i, j) > 0, i == j] for a, i in slots.items() for b, j in slots.items()}
    rows = [(kinds[pair], loss, pair) for pair, loss, _ in losses if pair in kinds]  # the largest loss first
    frame = pl.DataFrame(rows, ["kind", "loss", "pair"], orient="row").group_by("kind", maintain_order=True)
    grouped = frame.agg(pl.len(), pl.col("loss").mean().alias("mean"), pl.all().first())
    return [
        (kind, f"{number:,}", f"{about(100.0 * mean, 3)} %", f"{about(100.0 * most, 3)} %", pair)
        for kind, number, mean, most, pair in grouped.iter_rows()
    ]


def declared(domain: Domain) -> list[tuple[str, str, str, str]]:
    """Return name, type, cells and other declared facts of each column of a domain, as text."""
    rows = []
    for name, column in domain.columns.items():
        facts = column.to_dict()
        kind = str(facts.pop("type")).replace("_", " ")
        words = ", ".join(f"{key.replace('_', ' ')}: {fact(value)}" for key, value in facts.items())
        rows.append((name, kind, f"{column.size:,}" if column.size is not None else "not finite", words))
    return rows


def unmeasured_pairs(mechanism: Mechanism, outcome: Sequence[Code]) -> list[str]:
    """Return the pairs of columns of which an outcome says that they were not measured."""
    names, measured = mechanism.domain.names, {pair for pair, *_ in wording.losses_of(outcome)}
    pairs = [f"{names[i]}*{names[j]}" for i, j in getattr(mechanism, "pairs", ())]
    listed = [pair for pair in pairs if pair not in measured]
    claim = ("unmeasured-pairs", len(listed))
    return listed if any((code.name, code.numbers.get("pairs")) == claim for code in outcome) else []


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


@sealed
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
        power=TradeOff.from_profile(guarantee_of(certificate).profile).power,
    )


LEVEL = 0.95
_DRAWS = 400
_MOST_CELLS = 1_000  # a posterior of more takes seconds
_NUMBERS = ("mean", "q25", "q50", "q75")
_MOST_GROUPS, _MOST_WAYS = 12, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationPictures:
    """What a report says of the population: pictures, what their intervals assume, or why there are none."""

    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    without: str = ""


def population(promise: Promise, release: Path) -> PopulationPictures:
    """Return what a release tells, if its certificate is confirmed and it takes no longer than a report may."""
    mechanism, reason, names = promise.mechanism, "", list[str]()
    if promise.disagreements:
        reason = "Claims of the certificate were not confirmed."
    elif promise.certificate.several and promise.certificate.table_names == [""]:
        reason = "Numbers from several tables are combined: see discreet estimate."
    elif obstacle := no_posterior(mechanism, promise.certificate.facts.records):
        reason = full_sentence(obstacle)
    elif (mechanism.domain.size or 0) > _MOST_CELLS:
        reason = f"They take longer than a report with more than {_MOST_CELLS:,} cells: see discreet estimate."
    else:
        try:
            draws = posterior(release, promise.certificate, draws=_DRAWS)
        except DiscreetError:  # the release does not fit what a posterior needs: the page says so elsewhere
            reason = "The release could not be read for them."
        else:
            names = [name for name, column in draws.domain.columns.items() if column.on_a_line][:MOST_COLUMNS]
            reason = "No column has an order; discreet estimate gives the shares of categories."
    if not names:
        return PopulationPictures(without=reason)
    columns = [_estimate(draws, name) for name in names]
    notes = dict.fromkeys(note for _, notes in columns for note in notes)
    return PopulationPictures(pictures=tuple(picture for picture, _ in columns), notes=tuple(notes))


def _estimate(draws: Posterior, name: str) -> tuple[Picture, list[str]]:
    """Return the distribution function of an ordered column, some numbers, its mean by group, and notes on them."""
    columns = draws.domain.columns
    column, (values, jumps) = columns[name], points(draws, name)
    curves = np.array(draws.cdf(values, column=name, level=LEVEL)[1:])
    logarithmic = column.logarithmic and values[0] > 0.0
    level = percent_as_written(LEVEL)

    def text(value: float) -> str:
        return moment_text(column.kind, value, sep=" ") or about(value, 6)

    def texts(row: Estimate) -> list[str]:
        return [text(value) if np.isfinite(value) else "-" for value in _ends(row)]

    label: Callable[[float], str] = text
    places = values
    if logarithmic:
        places, label = np.log10(values), lambda place: text(10.0**place)
    if jumps:  # flat up to the next value
        places, curves = np.repeat(places, 2)[1:], np.repeat(curves, 2, axis=1)[:, :-1]
    summary = draws.summary(_NUMBERS, column=name, level=LEVEL)
    groups, notes = [], list(summary.notes)
    ways = [key for key, way in columns.items() if 1 < (way.size or 0) <= _MOST_GROUPS and not way.on_a_line]
    for way in ways[:_MOST_WAYS]:
        means = draws.summary(["mean"], column=name, by=way, level=LEVEL)
        notes += [note for note in means.notes if note not in bounded(means.rows)]  # said of all before
        rows = [(str(row.group), *_ends(row)) for row in means.rows if np.isfinite(_ends(row)).all()]
        if rows:
            chart = forest_chart(f"Mean of {name} by {way} in the population", rows, text=text, level=level)
            groups.append(Picture(name=way, chart=chart, rows=[(str(row.group), *texts(row)) for row in means.rows]))
    picture = Picture(
        name=name,
        chart=band_chart(name, places, curves, text=label, level=level),
        rows=[(row.name, *texts(row)) for row in summary.rows],
        groups=tuple(groups),
    )
    return picture, notes


def _ends(row: Estimate) -> tuple[float, float, float]:
    return row.mean, row.lower, row.upper
