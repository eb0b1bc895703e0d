"""What ``marginals`` chooses: labels in the private step; cells to merge and tables to measure by what it released."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from discreet._core.numeric import Booleans, Floats, Integers
from discreet.domain import Column, Counts, Domain, Parts, Records
from discreet.mechanisms.base import CellCounts
from discreet.mechanisms.latent_classes import Merged, Pair
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.reading import nearest_probabilities
from discreet.mechanisms.slots import SlotUse
from discreet.mechanisms.wide_facts import HALF_FOLDED, MOST_CELLS, WideFacts, measurable_pairs, open_columns

if TYPE_CHECKING:
    from discreet.mechanisms.three_way_tables import ThreeWayTables
    from discreet.mechanisms.tree import Nodes

Statistic: TypeAlias = Callable[[Iterator[Any]], Any]
"""Arrays, or counts by label, in a list or a mapping: those of a table are the sums of those of its parts."""


def sums(x: Any, closed: Any, columns: Sequence[int], statistic: Statistic) -> Any:
    """Return a statistic of a table on a :func:`closed_domain`, made where its parts are. Confidential."""
    work = statistic
    if columns or (closed and closed.differences):
        work = partial(_closed_sums, closed, columns, statistic)
    return x.sums(work) if hasattr(x, "sums") else work(x.parts())


def _closed_sums(closed: Domain, columns: Sequence[int], statistic: Statistic, parts: Iterator[Counts]) -> Any:
    return statistic(coded_parts(parts, closed, columns))


def label_counts(x: Parts, columns: Sequence[int]) -> list[dict[str, int]]:
    """Return how many records hold each label of some columns, in ascending order: confidential. A null is no label."""
    if not columns:
        return []
    return [dict(sorted(column.items())) for column in sums(x, None, (), partial(_labels_of, columns))]


def _labels_of(columns: Sequence[int], parts: Iterator[Counts]) -> list[dict[str, int]]:
    counts: list[dict[str, int]] = [{} for _ in columns]
    for part in parts:
        for column, i in zip(counts, columns, strict=True):
            for label, count in zip(part.records.columns[i].tolist(), part.frequencies.tolist(), strict=True):
                if label is not None:
                    column[label] = column.get(label, 0) + count
    return counts


class KeptLabels(NamedTuple):
    """The released labels of an open column, ascending, and their noisy counts times the units of its table."""

    labels: tuple[str, ...]
    counts: CellCounts


class LabelledTables(NamedTuple):
    """The labels of each open column, in the order of the domain, and noisy counts and scores on these labels."""

    kept: tuple[KeptLabels, ...]
    tables: CellCounts


def kept_labels(facts: WideFacts, counts: Mapping[str, int], *, rng: np.random.Generator) -> KeptLabels:
    """Return the labels whose noisy count reaches the threshold, ascending, with these; ``counts``: confidential."""
    q, labels = facts.label_q, list(counts)
    noisy = q * q * np.array(list(counts.values()), dtype=np.int64)
    noisy += GAUSSIAN.draw(q * facts.scale, len(counts), rng=rng)
    places = np.flatnonzero(noisy >= q * q * (facts.threshold or 0))
    return KeptLabels(tuple(labels[i] for i in places.tolist()), noisy[places])


def log_prob_of_labels(facts: WideFacts, y: KeptLabels, counts: Mapping[str, int]) -> float:
    """Return the log-probability of the labels that are kept and of their noisy counts."""
    units, released = facts.label_q**2, dict(zip(y.labels, y.counts.tolist(), strict=True))
    if not released.keys() <= counts.keys():
        return -math.inf
    exact, noisy = [units * count for count in counts.values()], [released.get(label, 0) for label in counts]
    return GAUSSIAN.log_thresholded(facts.label_q * facts.scale, exact, noisy, units * (facts.threshold or 0))


def coded_parts(parts: Iterable[Counts], closed: Domain, columns: Sequence[int]) -> Iterator[Counts]:
    """Yield the parts of a table with codes of a :func:`closed_domain` in some columns. Confidential."""
    labels = {i: list(closed.columns.values())[i].labels or () for i in columns}
    code = {i: {label: code for code, label in enumerate((*names, None))} for i, names in labels.items()}
    for part in parts:
        codes = list(part.records.columns)
        for i in columns:
            absent = len(labels[i]) - 1
            codes[i] = np.array([code[i].get(label, absent) for label in codes[i].tolist()], dtype=np.int64)
        for difference in closed.differences:
            difference.replace(codes, difference.cells_of)
        yield Counts(records=Records(columns=tuple(codes)), frequencies=part.frequencies)


def closed_domain(domain: Domain, kept_labels: Sequence[KeptLabels], *, most: int = MOST_CELLS) -> Domain:
    """Return the domain with a category for each open column: the labels that were kept, and one for all others."""
    # The latter is named by the reserved prefix, which no label has. most: cells of a column, of the commonest labels.
    from discreet.domain import Category, OpenLabels

    columns = dict(domain.columns)
    for i, (labels, counts) in zip(open_columns(domain), kept_labels, strict=True):
        column = columns[domain.names[i]]
        assert isinstance(column, OpenLabels)
        commonest = np.sort(np.argsort(-counts, kind="stable")[: most - 2])
        categories = [*(labels[place] for place in commonest.tolist()), f"{column.prefix}*"]
        columns[domain.names[i]] = Category(categories=categories, nulls=column.nulls)
    return replace(domain, columns=columns)


def labelled(
    chunks: Iterator[Records], domain: Domain, closed: Domain, rng: np.random.Generator, *, first_new: int = 1
) -> Iterator[Records]:
    """Return records with their labels; where not kept, with new reserved ones, numbered from ``first_new``."""
    number = dict.fromkeys(open_columns(domain), first_new)
    columns, categories = list(domain.columns.values()), list(closed.columns.values())
    for chunk in chunks:
        codes = list(chunk.columns)
        for difference in domain.differences:
            difference.replace(codes, difference.codes_of)
        for i in number:
            names = categories[i].labels or ()
            labels = np.array([*names, None], dtype=object)[codes[i].astype(np.int64)]
            new = np.flatnonzero(codes[i] == len(names) - 1)
            labels[new] = columns[i].draw(len(new), rng, first=number[i])
            number[i] += len(new)
            codes[i] = labels
        yield Records(columns=tuple(codes))


@dataclass(frozen=True, eq=False)
class OneWay:
    """Noisy counts of one column, of its cells or of the nodes above them: the mean of its measurements."""

    noisy: Floats
    units: float  # of each cell's count
    nodes: Nodes | None = None  # None where cells are counted

    def total(self) -> tuple[float, float]:
        """Return the sum of the counts, and its units: the inverse of its variance, with noise of scale 1."""
        if self.nodes is None:
            return float(self.noisy.sum()), self.units / len(self.noisy)
        starts = np.cumsum(self.nodes.widths) - self.nodes.widths
        sums, q = np.add.reduceat(self.noisy, starts), self.nodes.multiples[starts]
        weights = (q / q[-1]) ** 2 / self.nodes.widths
        return float(sums @ weights / weights.sum()), self.units * float(weights.sum())

    def counts(self, total: float, scale: float = 1.0) -> tuple[Floats, Floats]:
        """Return the best unbiased counts of cells, and their standard errors."""
        if self.nodes is None:
            return self.noisy, np.full(len(self.noisy), scale / np.sqrt(self.units))
        counts, variances = self.nodes.consistent(total).counts(self.noisy)
        return counts, np.asarray(scale * np.sqrt(variances / self.units))

    def positive(self, total: float) -> Floats:
        """Return counts of cells of which sums are not too large: of those below nodes none is negative."""
        return self.noisy if self.nodes is None else total * self.shares(total)

    def variances(self, cells: Merged) -> Floats:
        """Return the variances of the counts of merged cells, in units of that of a cell's noise."""
        if self.nodes is None:
            return cells.sums(np.ones(len(cells.cell_of)))
        best = self.nodes.consistent(0.0)
        return np.array([best.variance((cells.cell_of == cell).astype(np.float64)) for cell in range(cells.count)])

    def shares(self, total: float) -> Floats:
        """Return probabilities of cells."""
        if self.nodes is None:
            return nearest_probabilities(self.noisy / total)
        return self.nodes.consistent(total).probabilities(self.noisy)


# -- merged cells: what pairs of columns are measured on ------------------------------------------------------------

_MOST_MERGED = 256
_FEWEST, _MOST_BINS = 6, 100
_CLEAR = 3.0  # standard errors
_MOST_PARTS = 18  # of a column's runs, where a pair is clear


def most_runs(precision: float) -> int:
    """Return how many merged cells an ordered column has at most, without its null."""
    return int(min(_MOST_BINS, max(_FEWEST, round(math.sqrt(precision)))))


def merged(column: Column, noisy: Floats, error: float, precision: float, *, fewest: int = 0) -> Merged:
    """Merge the cells of a column whose counts are too small to be told from noise, or from their neighbours'."""
    # An ordered column's become runs of about equal counts, a null by itself, or where there are few cells, neighbours
    # that are not clear join; of another column all that are not clear, or not among the commonest, become one.
    # precision: records, in standard errors of a total, per column. fewest: commonest cells that stay, clear or not.
    bins = most_runs(precision)
    if column.on_a_line:
        values = int(column.values or 0)
        counts = np.maximum(noisy[:values], 0.0)
        many = values > bins or fewest > 0
        runs = _runs(counts, float(counts.sum()) / bins if many else _CLEAR * error)
        cell_of = np.append(runs, np.full(len(noisy) - values, runs[-1] + 1))
    else:
        cell_of = np.zeros(len(noisy), dtype=np.int64)
        commonest = np.argsort(-noisy, kind="stable")[: _MOST_MERGED - 1]
        clear = np.sort(commonest[: max(fewest, int((noisy[commonest] > _CLEAR * error).sum()))])
        cell_of[clear] = np.arange(1, len(clear) + 1)
        if len(clear) == len(noisy):
            cell_of -= 1
    return Merged(cell_of, int(cell_of.max()) + 1)


def refined(column: Column, cells: Merged, noisy: Floats, error: float, parts: int) -> Merged:
    """Return parts of the merged cells: of an ordered column so many of each run, at least 3 standard errors large."""
    if not column.on_a_line or parts < 2:
        return cells
    cell_of, count = np.empty_like(cells.cell_of), 0
    for cell in range(cells.count):
        run = np.flatnonzero(cells.cell_of == cell)
        counts = np.maximum(noisy[run], 0.0)
        cell_of[run] = count + _runs(counts, max(float(counts.sum()) / parts, _CLEAR * error))
        count = int(cell_of[run[-1]]) + 1
    return Merged(cell_of, count)


def _runs(counts: Floats, enough: float) -> Integers:
    """Return which run each cell is in: a cell that is large enough is a run of its own."""
    run_of, run, total, begun = np.zeros(len(counts), dtype=np.int64), 0, 0.0, False
    for cell, count in enumerate(counts.tolist()):
        if begun and (total + 0.5 * count > enough or count > enough):
            run, total = run + 1, 0.0
        run_of[cell], total, begun = run, total + count, count <= enough
        if not begun:
            run, total = run + 1, 0.0
    return run_of


# -- two-way tables -----------------------------------------------------------------------------------------------

_NO_SIGNAL, _ALL_SIGNAL = 0.2, 0.5  # share of the scores that is more than scatter


class ChosenTables:
    """What the first stages of an output choose: merged cells, and the tables of the last stage. Public."""

    def __init__(self, facts: WideFacts, y: CellCounts) -> None:
        self.facts = facts
        self.scored = sum(facts.lengths)  # where the scores begin
        first, self._pair_scores = y[: self.scored], y[self.scored : self.scored + len(facts.pairs)]
        one_way = one_way_counts(facts, np.asarray(first, dtype=np.int64))
        self.total = number_of_records(facts, one_way)
        self._use, self.one_way = SlotUse.from_tables(facts, one_way, self.total)
        outcome_pairs, scored_pairs = measurable_pairs(facts.domain, facts.workload)
        self.candidates = outcome_pairs + scored_pairs  # two-way tables that may be measured
        self.three_way: ThreeWayTables | None = None  # of an outcome and two other columns
        self._clearness = math.sqrt(facts.units) / (facts.scale * len(facts.sizes))  # of a record, in standard errors
        if facts.domain.outcome:
            from discreet.mechanisms.three_way_tables import ThreeWayTables

            tables = ThreeWayTables(facts, self.counts, self.total)
            if tables.number:
                self.three_way = tables

    @cached_property
    def merged(self) -> list[Merged]:
        """The merged cells of every column."""
        domain, columns = self.facts.domain, enumerate(self.facts.domain.measured_columns.items())
        told = [i for pair in domain.dependencies for i in pair]
        return [
            Merged(np.arange(self.facts.sizes[i]), self.facts.sizes[i])
            if i in self._use.shares
            else merged(
                column,
                table.positive(self.total),
                self.facts.scale / math.sqrt(table.units),
                self.total * self._clearness,
                fewest=max(_FEWEST if name in domain.outcome else 0, _MOST_MERGED if i in told else 0),
            )
            for (i, (name, column)), table in zip(columns, self.one_way, strict=True)
        ]

    @cached_property
    def counts(self) -> list[int]:
        """How many merged cells each column has."""
        return [cells.count for cells in self.merged]

    @cached_property
    def fine(self) -> list[Merged]:
        """Parts of the merged cells of every column, on which clear pairs are measured."""
        columns = zip(self.facts.domain.measured_columns.values(), self.merged, self.one_way, strict=True)
        parts = int(_MOST_PARTS / max(_FEWEST, math.sqrt(self.total * self._clearness)))
        return [
            refined(column, cells, table.positive(self.total), self.facts.scale / math.sqrt(table.units), parts)
            for column, cells, table in columns
        ]

    def summed(self, pair: Pair, table: Any) -> Any:
        """Return a table of fine cells, or of merged ones already, on merged cells."""
        i, j = pair
        if table.shape == (self.counts[i], self.counts[j]):
            return table
        sums = np.zeros((self.counts[i], self.counts[j]), dtype=table.dtype)
        np.add.at(sums, np.ix_(*[self.merged[k].grouping(self.fine[k]).cell_of for k in pair]), table)
        return sums

    def cells(self, pair: Pair) -> tuple[Merged, Merged]:
        """Return the cells of each column on which a pair is measured."""
        level = self.fine if pair in self.clear else self.merged
        return level[pair[0]], level[pair[1]]

    @cached_property
    def coarse(self) -> list[Floats]:
        """The probabilities of every column's merged cells."""
        return self.shares(self.one_way, {}, self._use, self.total)

    def shares(
        self, one_way: Sequence[OneWay], two_way: Mapping[Pair, tuple[Floats, Floats]], use: SlotUse, total: float
    ) -> list[Floats]:
        """Return the probabilities of merged cells, from one-way tables and the margins of two-way ones together."""
        # two_way: variances, of noise of scale 1, and counts of each, shape (merged cells, merged cells).
        columns = list(zip(one_way, self.merged, self._merged_variances, strict=True))
        weights = [table.units / variances for table, _, variances in columns]
        counted = [cells.sums(table.counts(total)[0]) for table, cells, _ in columns]
        sums = [counts * weight for counts, weight in zip(counted, weights, strict=True)]
        for pair, (variances, counts) in two_way.items():
            # an axis tells of its column where the table counts all that use its slot
            for axis, i in [(axis, i) for axis, i in enumerate(pair) if use.share(pair) > use.used[i] - 1e-9]:
                used = float(use.used[i])
                weight = used**2 / variances.sum(axis=1 - axis)
                sums[i], weights[i] = sums[i] + counts.sum(axis=1 - axis) / used * weight, weights[i] + weight
        means = [column / weight for column, weight in zip(sums, weights, strict=True)]
        positive = [total * nearest_probabilities(column / total) + 0.5 for column in means]
        return [np.asarray(column / column.sum()) for column in positive]

    @cached_property
    def _merged_variances(self) -> list[Floats]:
        """Of each column's merged cells by its one-way table, in units of the noise of a cell."""
        return [table.variances(cells) for table, cells in zip(self.one_way, self.merged, strict=True)]

    def expected(self, i: int, j: int) -> Integers:
        """Return the two-way table that the one-way tables would make of independent columns, in whole records."""
        return np.rint(self.total * (self._use.share((i, j)) * np.outer(*self._margins[i, j]))).astype(np.int64)

    @cached_property
    def _margins(self) -> dict[Pair, tuple[Floats, Floats]]:
        return self._use.margins(self.coarse, self.merged, {}, 0.0)

    @cached_property
    def _worth(self) -> tuple[Integers, Integers, Integers, Booleans]:
        levels = [[cells.count for cells in level] for level in (self.merged, self.fine)]
        shapes, finer = [[(counts[i], counts[j]) for i, j in self.candidates] for counts in levels]
        units = 0 if self.three_way is None else self.three_way.units
        alike = self._use.alike(self.candidates)
        return self.facts.allocation.worth(self._gains(), shapes, finer, self.facts.scale, self.total, units, alike)

    @cached_property
    def repeats(self) -> list[tuple[int, int]]:
        """The columns whose one-way tables the last stage measures again, and the ``q`` of each."""
        return [(i, q) for i, q in enumerate(self._worth[2].tolist()) if q]

    @cached_property
    def pairs(self) -> list[tuple[Pair, int]]:
        """The two-way tables of the last stage, which come after those, and the ``q`` of each."""
        tables = zip(self._worth[0].tolist(), self._worth[1].tolist(), strict=True)
        return [(self.candidates[place], q) for place, q in tables if q]

    @cached_property
    def clear(self) -> set[Pair]:
        """The pairs that are measured on fine cells."""
        return {self.candidates[place] for place in self._worth[0][self._worth[3]].tolist()}

    @property
    def lengths(self) -> list[int]:
        """How many counts each table of the last stage has."""
        lengths = [self.facts.lengths[i] for i, _ in self.repeats]
        return lengths + [a.count * b.count for a, b in [self.cells(pair) for pair, _ in self.pairs]]

    def _gains(self) -> Floats:
        """Return how many records each two-way table would put elsewhere, and a measurement of it gains."""
        # Scores are shrunk to their mean, by how much of their variance is noise. Where little of them is more than
        # scatter, less than a half, scatter is taken off: it is what a measurement would follow in vain.
        if not self.facts.pairs:
            return np.empty(0)
        q = math.isqrt(self.facts.score_units or 1)
        scores, noise = self._pair_scores / float(q * q), (self.facts.scale / q) ** 2
        scatter = np.array([self._scatter(i, j) for i, j in self.facts.pairs])
        signal = float((scores - scatter).mean()) / max(float(scores.mean()), 1e-9)
        gains = scores - scatter * min(1.0, max(0.0, (_ALL_SIGNAL - signal) / (_ALL_SIGNAL - _NO_SIGNAL)))
        differences = gains - gains.mean()
        spread = max(0.0, float((differences**2).mean()) - noise)
        return np.asarray(gains.mean() + differences * spread / (spread + noise))

    def _scatter(self, i: int, j: int) -> float:
        """Return what no measurement of two columns gains: the scatter of records that drowns in noise, and noise."""
        facts, a, b = self.facts, self.coarse[i], self.coarse[j]
        rows, columns = [facts.scale**2 / self.one_way[k].units * self._merged_variances[k] for k in (i, j)]
        noise = (np.outer(rows, b**2) + np.outer(a**2, columns)) * self._use.share((i, j)) ** 2
        expected = self.total * (self._use.share((i, j)) * np.outer(*self._margins[i, j]))
        usual = facts.scale**2 * 2.0 * len(facts.pairs) / facts.units  # squared error, half the units
        lost = expected * usual / (expected + usual) + noise
        return float(np.minimum(HALF_FOLDED * np.sqrt(lost), expected + HALF_FOLDED * np.sqrt(noise)).sum())


def one_way_counts(facts: WideFacts, y: CellCounts) -> list[OneWay]:
    """Return the counts of the first round, with which an output begins."""
    parts = np.split(y[: sum(facts.lengths)], np.cumsum(facts.lengths)[:-1])
    squares = [(q * multiples) ** 2.0 for q, multiples in zip(facts.allocation.first, facts.multiples, strict=True)]
    columns = zip(parts, squares, facts.nodes, strict=True)
    return [OneWay(part / units, float(units[-1]), nodes) for part, units, nodes in columns]


def number_of_records(facts: WideFacts, one_way: Sequence[OneWay]) -> float:
    """Return the published or declared number of records, or the noisy tables' own, 4 standard errors from both."""
    slots = facts.domain.slots
    counted = one_way if slots is None else [one_way[i] for i in np.flatnonzero(slots <= 0).tolist()]
    sums, units = np.array([table.total() for table in counted]).T
    noisy, error = float(sums @ units / units.sum()), facts.scale / math.sqrt(float(units.sum()))
    stated = [float(totals.counts.sum()) for totals in facts.domain.published[:1]] + [float(facts.records)]
    agreeing = [total for total in stated if abs(noisy - total) <= 4.0 * error]
    return agreeing[0] if agreeing else max(1.0, noisy)
