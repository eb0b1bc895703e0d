"""Tables of a declared outcome and two other columns, and outcomes that are drawn last so that these are met."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet._core.numeric import Floats, Integers
from discreet.domain import Counts, Units
from discreet.mechanisms.latent_classes import LatentClasses, Merged, Pair, Within
from discreet.mechanisms.reading import draw_cells
from discreet.mechanisms.wide_facts import OUTCOMES, WideFacts

if TYPE_CHECKING:
    from discreet.mechanisms.measured_tables import MeasuredTables

SHARE = 0.2  # of the units of tables with an outcome, what tables of three columns get where the records allow them
_ENOUGH = 6.0  # standard errors of noise in the count of a cell, were all cells of a table alike
_MOST_GROUPS, _OUTCOME_GROUPS = 4, 3  # of a column's merged cells
_SAMPLE, _MOST_NUMBERS = 50_000, 400_000  # records that an outcome is fitted with, and their probabilities
_CYCLES, _ROUNDS, _LEAST_CHANGE = 8, 3, 0.02
_CLEAR = 4.0  # standard errors that a table exceeds its noise by
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


class GroupedTable(NamedTuple):
    """The columns of a table, and the groups of each one's cells."""

    columns: tuple[int, ...]
    groups: tuple[Merged, ...]

    def places(self, codes: Mapping[int, Any] | Sequence[Any]) -> Integers:
        """Return the number of each record's cell."""
        groups = [level.cell_of[codes[i].astype(np.int64)] for i, level in zip(*self, strict=True)]
        return np.asarray(np.ravel_multi_index(groups, self.shape), dtype=np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups each column has."""
        return tuple([level.count for level in self.groups])


class ThreeWayTables:
    """Whether ``records`` allow tables of each outcome and two other columns: of all pairs of these, or of none."""

    def __init__(self, facts: WideFacts, counts: Sequence[int], records: float) -> None:
        # counts: how many merged cells each column has
        names = {facts.domain.names.index(name) for name in facts.domain.outcome}
        ruled = {i for columns in (*facts.joint, *facts.domain.dependencies) for i in columns}
        exceptions = ruled | {totals.column for totals in facts.domain.published}
        self.outcomes = [i for i in sorted(names - exceptions) if counts[i] > 1]
        self.others = [i for i, count in enumerate(counts) if count > 1 and i not in names]
        self.number = len(self.outcomes) * math.comb(len(self.others), 2)
        units = int(SHARE * int(OUTCOMES[len(facts.pairs) > 0] * facts.allocation.remaining))
        self.q = math.isqrt(units // max(1, self.number))
        cells = max([min(counts[i], _OUTCOME_GROUPS) for i in self.outcomes], default=1)
        self.most_groups = min(_MOST_GROUPS, math.isqrt(int(records * self.q / (_ENOUGH * facts.scale * cells))))
        if self.most_groups < 2:
            self.number, self.q = 0, 0
        self.units = self.number * self.q**2

    def tables(self, measured: MeasuredTables) -> list[GroupedTable]:
        """Return the tables, each of an outcome and two others, grouped by the noisy tables of one and two columns."""
        tables = []
        for y in self.outcomes:
            groups = {i: self._grouped(measured, i, y, self.most_groups) for i in self.others}
            groups[y] = self._grouped(measured, y, y, _OUTCOME_GROUPS)
            for i, j in combinations(self.others, 2):
                tables.append(GroupedTable((y, i, j), (groups[y], groups[i], groups[j])))
        return tables

    @staticmethod
    def counts(tables: Sequence[GroupedTable], parts: Iterator[Counts | Units]) -> list[Integers]:
        """Return the counts of tables, cell after cell. Confidential."""
        counts = [np.zeros(math.prod(table.shape), dtype=np.int64) for table in tables]
        for part in parts:
            for number, table in enumerate(tables):
                places = table.places(part.records.columns)
                sums = np.bincount(places, weights=part.frequencies, minlength=len(counts[number]))
                counts[number] += np.rint(sums).astype(np.int64)
        return counts

    def noisy(self, measured: MeasuredTables) -> list[tuple[GroupedTable, Floats, float]]:
        """Return these tables with their noisy counts, from the end of an output, and the standard error of these."""
        tables = self.tables(measured)
        ends = np.cumsum([math.prod(table.shape) for table in tables])
        parts, error = np.split(measured.last_counts / float(self.q**2), ends[:-1]), measured.facts.scale / self.q
        return [(table, part, error) for table, part in zip(tables, parts, strict=True)]

    def _grouped(self, measured: MeasuredTables, i: int, y: int, most: int) -> Merged:
        """Return groups of about equal counts: of an ordered column of neighbours, else of cells alike in ``y``."""
        choice, values = measured.choice, -np.arange(measured.choice.counts[i], dtype=np.float64)
        shares = choice.coarse[i]
        if not list(choice.facts.domain.measured_columns.values())[i].on_a_line:
            values, pair = shares, (min(i, y), max(i, y))
            if pair in measured.two_way:
                counts = np.moveaxis(measured.two_way[pair][1], pair.index(i), 0)
                values = counts[:, int(np.argmax(choice.coarse[y]))] / shares
        group_of, group, total = np.empty(len(shares), dtype=np.int64), 0, 0.0
        for cell in np.argsort(-values, kind="stable").tolist():
            if total and group < most - 1 and total + 0.5 * shares[cell] > 1.0 / most:
                group, total = group + 1, 0.0
            group_of[cell], total = group, total + shares[cell]
        return Merged(group_of[choice.merged[i].cell_of], group + 1)


# -- outcomes are drawn last --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LastColumn:
    """A column that is drawn given the others: by shares of its cells, and factors by which others change them."""

    cells: Within
    shares: Floats
    terms: list[tuple[GroupedTable, Floats]]  # the latter: shape (cells of the table, cells of the column)
    tables: dict[Pair, Floats]  # of measured pairs with it, on merged cells: what its records have on average

    def probabilities(self, cells: Mapping[int, Integers], part: slice = slice(None)) -> Floats:
        """Return the probabilities of its cells, shape (records, cells), for a part of records."""
        records = {i: codes[part] for i, codes in cells.items()}
        probabilities = np.tile(self.shares, (len(next(iter(records.values()))), 1))
        for table, factors in self.terms:
            probabilities *= factors[table.places(records)]
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def draw(self, cells: Mapping[int, Integers], *, stratified: bool, rng: np.random.Generator) -> Integers:
        """Return its cells for records of which the other columns' are given."""
        size, step = len(next(iter(cells.values()))), max(1, _MOST_NUMBERS // len(self.shares))
        places, points = np.empty(size, dtype=np.int64), rng.random(size)
        for start in range(0, size, step):
            part = slice(start, start + step)
            ends = np.cumsum(self.probabilities(cells, part), axis=1)
            if stratified:  # records of nearly the same probabilities get points that are far from each other
                points[part][np.argsort(ends[:, 0])] = (points[start] + _GOLDEN * np.arange(len(ends))) % 1.0
            places[part] = (ends[:, :-1] < points[part, None]).sum(axis=1)
        return self.cells.cells(places, rng.random(size))


def with_last_columns(
    model: LatentClasses,
    measured: MeasuredTables,
    targets: Mapping[Pair, Floats],
    strong: Mapping[Pair, Floats],
    rng: np.random.Generator,
) -> LatentClasses:
    """Return the model with outcomes that are drawn last: their tables of two columns are met, then those of three."""
    # targets: tables of two columns on merged cells, with less noise. strong: on fine cells, in place of those
    choice, outcomes = measured.choice, measured.last
    last_blocks = [block for block in model.blocks if not outcomes.isdisjoint(block.columns)]
    mixture = [block for block in model.blocks if block not in last_blocks]
    most = max([len(block.inside) for block in last_blocks])
    size = max(1, min(_SAMPLE, round(measured.total), _MOST_NUMBERS // most))
    classes = next(draw_cells(model.shares, size, sampling="stratified", rng=rng))
    cells = model.records(classes, mixture, stratified=True, rng=rng)
    last = {}
    for block in last_blocks:
        (y,), fine = block.columns, choice.fine[block.columns[0]]
        assert block.within is not None
        column, coarse = LastColumn(block.within, block.inside @ model.shares, [], {}), choice.merged[y].grouping(fine)
        probabilities, fits = column.probabilities(cells), []
        partners = {i: pair for pair in targets if y in pair for i in pair if i != y and i in cells}
        for i, pair in partners.items():
            target, level, groups = targets[pair], choice.merged[i], coarse
            if pair in strong:
                target, level, groups = strong[pair], choice.fine[i], Merged(np.arange(fine.count), fine.count)
            fits.append(_Fit(GroupedTable((i,), (level,)), groups, np.moveaxis(target, pair.index(i), 0), cells))
        for fit in fits * _CYCLES:
            fit.meet(probabilities)
        assert choice.three_way is not None
        for (columns, levels), counts, error in choice.three_way.noisy(measured):
            if columns[0] != y:
                continue
            target = counts.reshape(levels[0].count, -1).T / measured.total
            fit = _Fit(GroupedTable(columns[1:], levels[1:]), levels[0].grouping(fine), target, cells)
            if fit.denoise(probabilities, error / measured.total):
                fits.append(fit)
                for _ in range(_ROUNDS):
                    fit.meet(probabilities)
        column.terms.extend([(fit.table, fit.factors) for fit in fits])
        for i, pair in partners.items():
            table = _modelled(probabilities, choice.merged[i].cell_of[cells[i]], choice.counts[i], coarse)
            column.tables[pair] = np.moveaxis(table, 0, pair.index(i))
        last[y], cells[y] = column, column.draw(cells, stratified=True, rng=rng)
    return replace(model, last=last)


def _modelled(probabilities: Floats, places: Integers, cells: int, groups: Merged) -> Floats:
    """Return what probabilities of a column for some records come to, shape (cells of the records, groups)."""
    sums = np.zeros((groups.count, cells))
    for group, column in zip(groups.cell_of.tolist(), probabilities.T, strict=True):
        sums[group] += np.bincount(places, weights=column, minlength=cells)
    return np.asarray(sums.T / len(probabilities))


class _Fit:
    """The factors with which probabilities of a column for some records meet a table of it and others."""

    def __init__(self, table: GroupedTable, level: Merged, goal: Floats, cells: Mapping[int, Integers]) -> None:
        # level: of the column's cells. goal: shape (cells of the table, groups)
        self.table, self._groups, self._target, self._places = table, level, goal, table.places(cells)
        self.factors = np.ones((len(goal), len(level.cell_of)))

    def meet(self, probabilities: Floats) -> None:
        """Change the probabilities towards the table, whose records are as many as theirs in each of its cells."""
        sums = _modelled(probabilities, self._places, len(self.factors), self._groups)
        goal = self._target * (sums.sum(axis=1) / np.maximum(self._target.sum(axis=1), 1e-300))[:, None]
        step = np.clip(goal / np.maximum(sums, 1e-300), _LEAST_CHANGE, 1.0 / _LEAST_CHANGE)[:, self._groups.cell_of]
        self.factors *= step
        probabilities *= step[self._places]
        probabilities /= probabilities.sum(axis=1, keepdims=True)

    def denoise(self, probabilities: Floats, error: float) -> bool:
        """Free the target of its noise. Return False, and change nothing, where it says no more than noise does."""
        # Only what its tables of two columns do not tell: a gap is prior, of a variance that grows with a cell's own
        # under a change of its odds, and noise.
        sums = _modelled(probabilities, self._places, len(self.factors), self._groups)
        gap = (self._target - sums).reshape(*self.table.shape, -1)
        for axis in range(gap.ndim):
            gap = gap - gap.mean(axis=axis, keepdims=True)
        weight = ((sums * (1.0 - sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300))) ** 2).reshape(gap.shape)
        noise = error**2 * math.prod([count - 1 for count in gap.shape]) / gap.size
        squares, excess = float((weight**2).sum()), float((weight * (gap**2 - noise)).sum())
        if excess <= _CLEAR * error * math.sqrt(2.0 * noise * squares):
            return False
        prior = excess / squares * weight
        self._target = np.maximum(sums + (gap * prior / (prior + error**2)).reshape(sums.shape), 0.1 * sums)
        return True
