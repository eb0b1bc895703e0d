"""Estimates from several synthetic tables of one release, each of its own posterior draw."""

from __future__ import annotations

import itertools
import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from discreet import wording
from discreet._core.boundary import quietly
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet._core.numeric import Booleans, Floats, row_numbers
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Domain, Records
from discreet.inference.bounds import UnseenCells
from discreet.inference.combining import Combined, combine
from discreet.inference.dependence import OpenDependence, hidden_cells
from discreet.inference.functionals import Evaluated, Functional, Group, confined, groups_of, known_functionals, ordered
from discreet.inference.line import Draws, piece_ends
from discreet.inference.models import FormulaDesign, regression
from discreet.inference.population import Posterior
from discreet.inference.released import Released, analysed_mechanism, read_release, released_table
from discreet.inference.samplers import watched
from discreet.inference.summary import Estimate, Summary, bounded, marked
from discreet.releases import Release, unreadable

_RESAMPLES = 100  # of each table; what counts is their mean variance over all tables
_REFITS = 25  # of each table for regressions, which take longer
_BLOCK = 1 << 22  # numbers in memory


def estimate_tables(
    release: Release, functionals: Sequence[Evaluated], column: str | None, by: str | None, level: float, progress: Any
) -> Summary:
    """Estimate numbers of the population from several synthetic tables: for parameters see ``Release.estimate``."""
    # Each table is analysed as if it were a sample, and the rule for fully synthetic tables combines the estimates.
    # Variances within a table: formulas for means and shares of a column without nulls, else a bootstrap. Rows of units
    # are drawn by their units.
    several = SeveralTables(release, level)
    parsed = known_functionals(functionals, several.domain, column)
    groups: list[Group] = []
    if by is not None:
        groups = groups_of(several.domain, by)  # a misprint is told before tables are read
    used, tables = _tables_read(several, parsed, column, by)
    domain = tables[0].domain
    groups = [group._replace(place=domain.names.index(by or "")) for group in groups]
    name = column or used[0]
    place, hidden = domain.names.index(name), several.hidden(tables)
    closed = not groups and len(domain.names) == 1 and not domain.columns[name].nullable and tables[0].units is None
    rng = seeded(0)

    def evaluated(table: Released, weights: Floats) -> Floats:
        """Return numbers, group after group, with the least and the greatest that cells allow: a row per weights."""
        unseen = UnseenCells(np.isin(table.records.columns[place], np.flatnonzero(hidden[name])))
        posterior = Posterior.of_arrays(domain, table.records, weights, bounds=True, unseen=unseen)
        parts = [posterior._of_block(group, posterior.block(0))[0] for group in groups] or [posterior]
        return np.concatenate([part._evaluate(parsed, column) for part in parts], axis=1)

    formulas = parsed if closed else []
    parts = (_estimated(table, formulas, evaluated, rng) for table in watched(tables, progress, len(tables)))
    numbers = np.stack([*parts])  # table, number, 3, 2
    facts: list[dict[str, Any]] = []
    for group in groups:
        masses = [confined(group, t.records, Draws((t.counts / t.counts.sum())[None]))[1][0] for t in tables]
        facts.append({"group": group.label, "share": float(np.mean(masses))})
    limits = [
        functional.level and several.quantile(tables, place, functional.level, group)
        for group in (groups or (None,))
        for functional in parsed
    ]
    shifts, codes = np.zeros((len(limits), 2)), dict[str, Any]()
    if len(used) > 1:
        dependence = OpenDependence(several, tables, hidden, used)
        codes = {"codes": dependence.codes()}
        shifts = dependence.shifts(lambda t: evaluated(t, t.counts[None] / t.size)[0, :, 0], emptied=by is None)
    about, ends = domain.columns[name], (-math.inf, math.inf)
    if ordered(about) and about.values is not None:
        values = piece_ends(about, np.arange(about.values))
        ends = float(values[0].min()), float(values[1].max())
    labels = [(functional, group | codes) for group in facts or [{}] for functional in parsed]
    notes = several.notes(used, tables)
    return several.summary(numbers, labels, shifts, limits, kind=about.kind, by=by or "", notes=notes, ends=ends)


def _tables_read(
    several: SeveralTables, functionals: Sequence[Functional], column: str | None, by: str | None
) -> tuple[list[str], list[Released]]:
    """Return which columns a question is about, and the tables with these or more."""
    used = list(several.domain.names) if column is None else list(dict.fromkeys([column, by or column]))
    if column is None and len(several.row_tables) > 1:  # a record tells which columns are looked at
        record = several.domain.draw_base(1, seeded(0))
        rows = several.rows_named([*_columns_read(functionals, several.domain, record, np.ones(1)), by or ""])
        columns = several.unit_columns | set(several.row_tables[rows].columns if rows else ())
        used = [name for name in used if name in columns]
    tables = several.read(used)
    if column is None and len(used) > 1:
        table = tables[0]
        names = _columns_read(functionals, table.domain, table.records, table.counts / table.size)
        used = list(dict.fromkeys([*names, *filter(None, [by])]))
        if len(columns := several.unit_columns) > 1 and columns.issuperset(used):
            tables = several.read(sorted(columns))
    return used, tables


def _estimated(
    table: Released, closed: Sequence[Functional], evaluated: Callable[[Released, Floats], Floats], rng: Generator
) -> Floats:
    """Return each number of a table, and its variance in samples of that size: by a formula if ``closed``."""
    shares, size = table.counts / table.counts.sum(), int(table.size)
    estimates = evaluated(table, shares[None])[0]
    variances = np.full(estimates.shape, np.nan)
    for place, functional in enumerate(closed):
        if functional.is_share:
            variances[place] = np.maximum(0.0, estimates[place] * (1.0 - estimates[place])) / size
        elif functional.name == "mean" and functional.function is None:
            posterior = Posterior.of_arrays(table.domain, table.records, shares[None])
            variances[place] = posterior.evaluate("variance")[0] / size
    if np.isnan(variances).any():
        rows = max(1, _BLOCK // len(shares))
        blocks = [min(rows, _RESAMPLES - start) for start in range(0, _RESAMPLES, rows)]
        samples = [evaluated(table, table.resampled(block, rng=rng)) for block in blocks]
        variances = np.where(np.isnan(variances), _variances_over(np.concatenate(samples)), variances)
    return np.stack([estimates, variances], axis=2)


def _columns_read(functionals: Sequence[Functional], domain: Domain, records: Records, shares: Floats) -> list[str]:
    """Return the columns that functions of records look at: all, where they do not take them by name."""
    posterior = Posterior.of_arrays(domain, records, shares[None])
    values, weights = posterior._values(posterior.block(0), None)
    names: dict[str, None] = {}

    class Columns(dict[str, Any]):
        """Columns that remember which of them were looked at."""

        def __getitem__(self, name: str) -> Any:
            names[name] = None
            return super().__getitem__(name)

    for functional in functionals:
        if functional.function is not None:
            functional.function(Columns(values), weights)
    return [name for name in domain.names if name in names] or list(domain.names)


def regress_tables(
    release: Release, formula: str, kind: Literal["linear", "logistic"] | None, level: float, progress: Any
) -> Summary:
    """Return the coefficients of a regression in the population, from bootstraps: see ``Posterior.regress``."""
    several = SeveralTables(release, level)
    used = FormulaDesign(several.domain, formula).used
    tables = several.read(used)
    records, domain = Records.concatenate(table.records for table in tables), tables[0].domain
    rows = row_numbers(np.stack([np.asarray(codes, dtype=np.int64) for codes in records.columns], axis=1))
    distinct = np.unique(rows, return_index=True)[1]
    parts = np.split(rows, np.cumsum([len(table.counts) for table in tables])[:-1])
    rng = seeded(0)

    def blocks() -> Iterator[Draws]:
        for table, part in zip(watched(tables, progress, len(tables)), parts, strict=True):
            weights = np.zeros((1 + _REFITS, len(distinct)))
            weights[:, part] = np.concatenate((table.counts[None] / table.size, table.resampled(_REFITS, rng=rng)))
            yield Draws(weights)

    coefficients = regression(domain, records.take(distinct), blocks(), formula, kind)
    draws = coefficients.draws.reshape(len(tables), 1 + _REFITS, -1)
    if np.isnan(draws[:, 0]).any() or (np.isnan(draws).mean(axis=1) > 0.5).any():
        raise ParameterError("not all tables determine all coefficients. Leave rare categories or columns out")
    numbers = np.stack([draws[:, 0], _variances_over(np.swapaxes(draws[:, 1:], 0, 1))], axis=2)
    numbers = np.repeat(numbers[:, :, None], 3, axis=2)

    def coefficients_of(table: Released) -> Floats:
        try:
            solution = regression(domain, table.records, [Draws(table.counts[None] / table.size)], formula, kind)
        except ParameterError:  # without hidden cells, or with other dependence, a coefficient is not determined
            return np.full(len(coefficients.names), np.nan)
        solved = dict(zip(solution.names, solution.draws[0].tolist(), strict=True))
        return np.array([solved.get(name, np.nan) for name in coefficients.names])

    dependence = OpenDependence(several, tables, several.hidden(tables), domain.names)
    shifts = dependence.shifts(coefficients_of, emptied=True)
    codes = dependence.codes()
    labels = [(Functional(name), {"codes": codes}) for name in coefficients.names]
    return several.summary(numbers, labels, shifts, notes=[*coefficients.notes, *several.notes(used, tables)])


def _variances_over(samples: Floats) -> Floats:
    """Return variances over the samples that have a number; NaN where fewer than two have it."""
    with warnings.catch_warnings(action="ignore"):  # of those that too few have
        return np.asarray(np.nanvar(samples, axis=0, ddof=1))


class SeveralTables:
    """A release of several tables, as it is analysed. ``unit``: the column that names it, if there is one."""

    def __init__(self, release: Release, level: float) -> None:
        self._release, self._level, self._facts = release, level, release.certificate.facts
        self.released = self._facts.released
        self.measured = set(map(frozenset, self.released.pairs_measured or ()))
        self.mechanism = analysed_mechanism(release.certificate)
        if self.mechanism.contents(self._facts.records).tables is None:
            raise ParameterError("this is for releases of several tables. For one take discreet.inference.posterior")
        # the domain of the rows of all tables, with the numbers of rows of a unit, but those of panels
        self.domain = self._records = Domain.from_dict(self._facts.domain)
        self.row_tables = self._records.row_tables
        self.unit, self.unit_columns = self._records.unit, set[str]()  # columns that are the same in all rows
        if self._records.tables:
            numbers = [f"number of {name}" for name in self._records.tables]
            columns = {name: column for name, column in self._records.columns.items() if name in numbers}
            self.domain = Domain(columns={**columns, **self._records.row_domain.columns})
            self.unit_columns = {*columns, *self._records.own_columns}

    @cached_property
    def sources(self) -> list[list[Any]]:
        """The tables of each draw, or their files: one, or that of the units and those of their rows."""
        tables, number = self._release._sources, len(self._release.certificate.table_names)
        return [tables[place : place + number] for place in range(0, len(tables), number)]

    def read(self, used: Sequence[str]) -> list[Released]:
        """Return some columns of all tables; where no column of a unit's rows is used, each record is a unit."""
        domain = Domain(columns={name: column for name, column in self.domain.columns.items() if name in used})
        if (unit := self.unit) is None:
            return [read_release(source, domain) for (source,) in self.sources]
        name, key = self.rows_named(used), pl.col(unit).cast(pl.Int64)  # a text in CSV

        def frame(*files: Any) -> pl.DataFrame:
            lazies = [released_table(file).with_columns(key) for file in files]
            rows = dict(zip(self.row_tables, lazies[-len(self.row_tables) :], strict=True))
            units = lazies[0]
            if self._records.units is None:
                units = units.unique(unit).select(unit, *self._records.own_columns)
            for table, lazy in rows.items():
                number = f"number of {table}"
                count = lazy.group_by(unit).agg(pl.len().cast(pl.Int64).alias(number))
                if number in domain.columns:  # a unit without rows is one, too
                    units = units.join(count, on=unit, how="left").with_columns(pl.col(number).fill_null(0))
            if name is None:
                return units.collect()
            unit_columns = [column for column in units.collect_schema().names() if column in domain.columns]
            return rows[name].select(unit, *domain.columns.keys() - unit_columns).join(units, on=unit).collect()

        frames = (quietly(partial(frame, *files), unreadable()) for files in self.sources)
        return [read_release(part, domain, unit=name and unit, units=self._facts.size) for part in frames]

    def rows_named(self, names: Sequence[str]) -> str | None:
        """Return the table whose rows have some columns; None where they are the unit's. Raises ParameterError."""
        tables = [name for name, table in self.row_tables.items() if table.columns.keys() & set(names)]
        if len(tables) > 1:
            raise ParameterError(f"no row has columns of both {tables[0]} and {tables[1]}. Name those of one table")
        return next(iter(tables), None)

    def places(self, *names: str) -> list[tuple[float, list[str]]]:
        """Return which columns of the mechanism's records tell some columns, for each share of the records."""
        if (name := self.rows_named(names)) is None:
            return [(1.0, list(names))]
        table, columns = self.row_tables[name], self._records.parts(self._records.names)[name]
        shares = enumerate(self.slot_shares[name], 1)
        return [(share, table.sources(names, slot, columns)) for slot, share in shares if share > 0.0]

    @cached_property
    def slot_shares(self) -> dict[str, list[float]]:
        """Which share of the rows of the first draw is in each slot, by table."""
        shares = {}
        for place, (name, table) in enumerate(self.row_tables.items(), -len(self.row_tables)):
            rows = released_table(self.sources[0][place]).collect()
            slots = rows.select(pl.int_range(pl.len()).over(table.unit)).to_series().to_numpy()
            if (column := table.columns.get(table.slots)) is not None:  # of a panel
                slots = column.encode(rows[table.slots], name=table.slots)
            shares[name] = (np.bincount(slots, minlength=table.number) / max(1, len(slots))).tolist()
        return shares

    def _combined(self, estimates: Floats, variances: Floats) -> Combined:
        sizes = {"size": self._facts.size, "n": self._facts.records}
        return combine(estimates, variances, kind="fully", **sizes, level=self._level)

    def hidden(self, tables: Sequence[Released]) -> dict[str, Booleans]:
        """Return which cells of each column may be empty, for all that noise tells."""
        records, names, slots = self._facts.records, tables[0].domain.names, dict[str, int]()
        for table in self.row_tables.values():
            slots |= dict.fromkeys(table.columns, table.number)  # noise of its own in each
        return {name: hidden_cells(tables, i, records, slots.get(name, 1)) for i, name in enumerate(names)}

    def quantile(self, tables: Sequence[Released], axis: int, level: float, group: Group | None) -> tuple[float, float]:
        """Return the ends of a quantile's interval: where those of the shares up to each cell reach its level."""
        codes = [table.records.columns[axis] for table in tables]
        support, places = np.unique(np.concatenate(codes), return_inverse=True)
        low, high, _ = piece_ends(list(tables[0].domain.columns.values())[axis], support)
        order = np.argsort(low)[: np.count_nonzero(~np.isnan(low))]
        ranks = np.split(np.argsort(np.argsort(low))[places], np.cumsum(list(map(len, codes)))[:-1])
        inside = [rank < len(order) for rank in ranks]
        if group is not None:
            members = [t.records.columns[group.place] == group.code for t in tables]
            inside = list(map(np.logical_and, inside, members))

        def first(side: str) -> int:
            """Return the first cell up to which the end of the interval of the share reaches the level."""

            def end(cell: int) -> float:
                parts = zip(tables, ranks, inside, strict=True)
                shares = [table.share(part & (rank <= cell), part) for table, rank, part in parts]
                return float(getattr(self._combined(*np.transpose(shares)), side))

            return bisect_left(range(len(order) - 1), level, key=end)

        return float(low[order[first("upper")]]), float(high[order[first("lower")]])

    def notes(self, used: Sequence[str], tables: Sequence[Released]) -> list[str]:
        """Say what counts once, and what of some columns together was not measured."""
        counts_once = list[str]()
        if self.unit is not None and tables[0].units is None:
            counts_once = [f"each {self.unit!r} counts once, whatever its number of rows"]
        elif self.unit is not None:
            counts_once = [f"each row counts once, and all rows of one {self.unit!r} vary together"]
        difference = self.domain.difference
        differences = [] if difference is None or difference["of"] not in used else [difference]
        used = list(dict.fromkeys([*used, *(part["from"] for part in differences)]))
        if self.released.pairs_measured is None and len(used) > 1:  # of a certificate that does not say so
            return [*counts_once, "what columns do together holds where their tables of two columns were measured"]
        together = [part for _, part in self.places(*used)]
        pairs = {frozenset(pair) for part in together for pair in itertools.combinations(part, 2)}
        notes = wording.lost_pairs(self.released.outcome, *together, unmeasured=not pairs <= self.measured)
        text = "{of} is {from} and a difference that was measured with it on merged cells"
        notes += map(text.format_map, differences)
        if len(used) > 2:
            text = "three or more columns were not measured together"
            notes.append(f"{text}. It is assumed that nothing but their pairs links them")
        return counts_once + notes

    def summary(
        self,
        numbers: Floats,
        labels: Sequence[tuple[Functional, dict[str, Any]]],
        shifts: Floats,
        limits: Sequence[Any] = (),
        *,
        kind: str = "",
        by: str = "",
        notes: Sequence[str] = (),
        ends: tuple[float, float] = (-math.inf, math.inf),
    ) -> Summary:
        """Combine estimates and variances, shape (tables, numbers, 3, 2), of which the last two are bounds."""
        # labels: the functional of each number, and further facts of its estimate; shifts, shape (numbers, 2): how far
        # intervals are to reach further down and up; limits: ends of quantiles; ends: of the column's values.
        noun, count = "record" if self.unit is None else "unit", len(numbers)
        size, records = (counted(number, noun) for number in (self._facts.size or 0, self._facts.records))
        rows, adjusted, absent = [], {}, {}
        for place, (functional, facts) in enumerate(labels):
            values, (down, up) = numbers[:, place], shifts[place].tolist()
            if by and not np.isfinite(values).all():
                absent[facts["group"]] = True
                continue
            combined, lowest, highest = (self._combined(*values[:, end].T) for end in range(3))
            reach = min(combined.lower, lowest.lower), max(combined.upper, highest.upper)
            lower, upper = (limits and limits[place]) or reach
            least, most = functional.limits(*ends)
            if combined.adjusted:
                adjusted[functional.name] = True
            estimate = Estimate(
                name=functional.name,
                mean=combined.estimate,
                sd=math.sqrt(combined.variance),
                lower=max(least, lower + down),
                upper=min(most, upper + up),
                effective_draws=float(count),
                unit=functional.unit,
                bounds=down < up or not np.allclose(values[:, 1, 0], values[:, 2, 0], rtol=1e-12, atol=1e-12),
                **facts,
            )
            rows.append(estimate)
        messages = [
            f"{counted(count, 'table')} of {size}, each analysed by itself, and combined by the rule for fully "
            "synthetic tables (Raghunathan, Reiter and Rubin, 2003); intervals are for the population",
            *notes,
            *bounded(rows),
            *marked(rows),
        ]
        if adjusted:
            sample = f"that of a sample of {records}, which was taken, for {', '.join(adjusted)}"
            messages.append(f"the rule's variance was below {sample}")
        if absent:
            messages.append(f"groups of {by} that not every table has, left out: {', '.join(absent)}")
        return Summary(rows=tuple(rows), level=self._level, kind=kind, notes=tuple(messages), by=by)
