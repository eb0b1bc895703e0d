"""Single columns of a wide table: kept labels, merged cells, one-way counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.domain import Category, Column, Counts, Domain, OpenLabels, Parts, Records
from discreet.mechanisms.base import KeptLabels
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.projections import nearest_probabilities
from discreet.mechanisms.tree import Consistent, Tree, node_counts

# Columns of open labels: which labels are kept is released first, and from then on such a column is a category.
#
# Its cells are the labels that were kept, and one cell for all other labels.


def open_columns(domain: Domain) -> list[int]:
    """Return the numbers of the columns of open labels."""
    return [i for i, column in enumerate(domain.columns.values()) if column.open]


# -- the private step ---------------------------------------------------------------------------------------------


def held_labels(x: Parts, columns: Sequence[int]) -> list[dict[str, int]]:
    """Return how many records hold each label of some columns: confidential. A null is no label.

    Labels are in ascending order, which does not depend on that of the records.
    """
    held: list[dict[str, int]] = [{} for _ in columns]
    for part in x.parts():
        for found, i in zip(held, columns, strict=True):
            for label, count in zip(part.records.columns[i].tolist(), part.frequencies.tolist(), strict=True):
                if label is not None:
                    found[label] = found.get(label, 0) + count
    return [dict(sorted(found.items())) for found in held]


def keep(held: Mapping[str, int], *, q: int, scale: float, threshold: int, rng: np.random.Generator) -> KeptLabels:
    """Return the labels whose noisy counts reach a threshold, in ascending order, and these counts.

    ``held``: confidential.
    ``q``: counts are multiplied by ``q^2``, and have noise of ``q`` times the scale.
    ``scale``: of the noise of one unit.
    ``threshold``: in records.
    """
    noisy = q * q * np.array(list(held.values()), dtype=np.int64) + GAUSSIAN.draw(q * scale, len(held), rng=rng)
    kept = np.flatnonzero(noisy >= q * q * threshold)
    labels = list(held)
    return KeptLabels(tuple(labels[i] for i in kept.tolist()), noisy[kept])


def log_kept(y: KeptLabels, held: Mapping[str, int], *, q: int, scale: float, threshold: int) -> float:
    """Return the log-probability of the labels that are kept and of their noisy counts."""
    least = q * q * threshold
    released = dict(zip(y.labels, y.counts.tolist(), strict=True))
    if not released.keys() <= held.keys() or any(noisy < least for noisy in released.values()):
        return -np.inf
    noise = [released[label] - q * q * held[label] for label in y.labels]
    left_out = {count for label, count in held.items() if label not in released}
    below = {count: GAUSSIAN.log_below(q * scale, least - q * q * count) for count in left_out}
    rest = sum(below[count] for label, count in held.items() if label not in released)
    return float(GAUSSIAN.log_pmf(q * scale, np.array(noise, dtype=np.int64)).sum()) + rest


@dataclass(frozen=True, eq=False)
class Coded:
    """A table in parts whose open columns are coded by the labels that were kept. Confidential.

    ``x``: the table.
    ``closed``: the domain that :func:`closed_domain` made.
    ``columns``: numbers of its columns that are open.
    """

    x: Parts
    closed: Domain
    columns: Sequence[int]

    @property
    def n(self) -> int:
        """Number of records."""
        return self.x.n

    def parts(self) -> Iterator[Counts]:
        """Yield the parts of the table."""
        closed = list(self.closed.columns.values())
        for part in self.x.parts():
            columns = list(part.records.columns)
            for i in self.columns:
                labels = closed[i].labels or ()
                place: dict[str | None, int] = {label: code for code, label in enumerate(labels)}
                other = len(place) - 1
                place[None] = len(labels)
                codes = [place.get(label, other) for label in columns[i].tolist()]
                columns[i] = np.array(codes, dtype=np.int64)
            yield Counts(records=Records(columns=tuple(columns)), frequencies=part.frequencies)


# -- what is public -----------------------------------------------------------------------------------------------


def closed_domain(domain: Domain, kept: Sequence[KeptLabels], *, most: int) -> Domain:
    """Return the domain with a category for each open column: the labels that were kept, and one for all others.

    The latter is named by the reserved prefix, which no label has. A null stays one.

    ``most``: cells of a column. Of more labels, the commonest are taken.
    """
    columns = dict(domain.columns)
    for i, each in zip(open_columns(domain), kept, strict=True):
        column = columns[domain.names[i]]
        assert isinstance(column, OpenLabels)
        commonest = np.sort(np.argsort(-each.counts, kind="stable")[: most - 2])
        labels = [each.labels[place] for place in commonest.tolist()]
        columns[domain.names[i]] = Category(categories=[*labels, f"{column.prefix}*"], nulls=column.nulls)
    return replace(domain, columns=columns)


def labelled(
    chunks: Iterator[Records], domain: Domain, closed: Domain, rng: np.random.Generator, *, first_new: int = 1
) -> Iterator[Records]:
    """Return records with their labels. One whose label was not kept gets a new one, of the reserved namespace.

    ``first_new``: number of the first new label of each column.
    """
    places = open_columns(domain)
    first = dict.fromkeys(places, first_new)
    wide, narrow = list(domain.columns.values()), list(closed.columns.values())
    for chunk in chunks:
        columns = list(chunk.columns)
        for i in places:
            known = narrow[i].labels or ()
            labels = np.array([*known, None], dtype=object)[columns[i].astype(np.int64)]
            others = np.flatnonzero(columns[i] == len(known) - 1)
            labels[others] = wide[i].draw(len(others), rng, first=first[i])
            first[i] += len(others)
            columns[i] = labels
        yield Records(columns=tuple(columns))


# Neighbouring and rare cells of a column merged, from its noisy counts: what pairs of columns are measured on.

_MOST_MERGED = 256
_FEWEST, _MOST_BINS = 6, 100
_CLEAR = 3.0  # standard errors


@dataclass(frozen=True, eq=False)
class Merged:
    """The merged cells of one column. Public.

    ``of``, shape (cells,): the merged cell of each cell.
    ``count``: how many there are.
    """

    of: Integers
    count: int

    def sums(self, values: Floats) -> Floats:
        """Return the sums of some numbers over the merged cells."""
        return np.bincount(self.of, weights=values, minlength=self.count).astype(np.float64)


def merged(column: Column, noisy: Floats, error: float, precision: float) -> Merged:
    """Merge the cells of a column whose counts are too small to be told from noise, or from their neighbours'.

    The cells of an ordered column become at most ``sqrt(precision)`` runs of about equal counts (6 to 100 of them), a
    null by itself. Where the column has no more cells than that, only neighbours below 3 standard errors join.
    Of another column, every cell keeps its own number whose count is above 3 standard errors, the 255
    commonest at most; the rest become one.

    ``noisy``, shape (cells,): released.
    ``error``: their standard error.
    ``precision``: records held, in standard errors of a total, for each column.
    """
    bins = int(min(_MOST_BINS, max(_FEWEST, round(math.sqrt(precision)))))
    values = len(noisy) if column.values is None else column.values
    if column.on_a_line:
        of, counts = np.full(len(noisy), -1), np.maximum(noisy[:values], 0.0)
        of[:values] = _runs(counts, float(counts.sum()) / bins if values > bins else _CLEAR * error)
        of[values:] = of[values - 1] + 1
    else:
        of = np.zeros(len(noisy), dtype=np.int64)
        kept = np.argsort(-noisy, kind="stable")[: _MOST_MERGED - 1]
        kept = np.sort(kept[noisy[kept] > _CLEAR * error])
        of[kept] = np.arange(1, len(kept) + 1)
        if len(kept) == len(noisy):
            of -= 1
    return Merged(of.astype(np.int64), int(of.max()) + 1)


def _runs(counts: Floats, enough: float) -> Integers:
    """Return which run each cell is in: a cell that is large enough is a run of its own."""
    of, run, held, begun = np.zeros(len(counts), dtype=np.int64), 0, 0.0, False
    for cell, count in enumerate(counts.tolist()):
        if begun and (held + 0.5 * count > enough or count > enough):
            run, held = run + 1, 0.0
        of[cell], held, begun = run, held + count, count <= enough
        if not begun:
            run, held = run + 1, 0.0
    return of


# What noisy counts of one column tell of its cells: of a long ordered column, counts on levels of a tree. Public.

_LONG = 512  # cells of an ordered column, beyond which sums of them are measured too
_RUNS = 64  # of as many runs of cells, each with noise of its own, a sum over many cells has the noise


@dataclass(frozen=True, eq=False)
class Nodes:
    """What is counted of a long ordered column: the nodes of every other level of a tree of its cells.

    ``tree``: of the column.
    ``levels``: that are counted; a record is in one node of each.
    ``leaf``, shape (cells,): the leaf that each cell is.
    """

    tree: Tree
    levels: tuple[int, ...]
    leaf: Integers

    @property
    def count(self) -> int:
        """How many nodes."""
        return sum(self.tree.nodes(level) for level in self.levels)

    def sums(self, cells: Integers) -> Integers:
        """Return the nodes' counts, one level after the other."""
        return node_counts(
            self.tree, self.levels, np.bincount(self.leaf, weights=cells, minlength=len(cells)).astype(np.float64)
        )


def nodes_of(column: Column) -> Nodes | None:
    """Return the nodes of a long ordered column; None of another column, whose cells are counted."""
    if not column.on_a_line or int(column.values or 0) <= _LONG:
        return None
    tree = Tree.from_domain(Domain(columns={"column": column}))
    cells = Records(columns=(np.arange(int(column.size or 0)),))
    return Nodes(tree, tuple(range(tree.depth, 0, -2))[::-1], tree.leaf_of(cells))


@dataclass(frozen=True, eq=False)
class OneWay:
    """Noisy counts of one column: the mean of its measurements.

    ``noisy``: of the cells, or of the nodes.
    ``units``: of each count.
    ``nodes``: None where cells are counted.
    """

    noisy: Floats
    units: float
    nodes: Nodes | None = None

    def again(self, noisy: Floats, units: float) -> OneWay:
        """Return the counts with those of another measurement."""
        mean = (self.noisy * self.units + noisy * units) / (self.units + units)
        return replace(self, noisy=mean, units=self.units + units)

    def total(self) -> tuple[float, float]:
        """Return the sum of the counts, and its units: the inverse of its variance, with noise of scale 1."""
        if self.nodes is None:
            return float(self.noisy.sum()), self.units / len(self.noisy)
        ends = np.cumsum([self.nodes.tree.nodes(level) for level in self.nodes.levels])
        sums = np.array([part.sum() for part in np.split(self.noisy, ends[:-1])])
        weights = 1.0 / np.diff(ends, prepend=0)
        return float(sums @ weights / weights.sum()), self.units * float(weights.sum())

    @property
    def precision(self) -> float:
        """Units per cell of a sum of many cells."""
        return self.units if self.nodes is None else self.units * max(1.0, len(self.nodes.leaf) / _RUNS)

    def counts(self, total: float) -> Floats:
        """Return the best unbiased counts of cells."""
        return self.noisy if self.nodes is None else self._consistent(total).counts(self.noisy)[0][self.nodes.leaf]

    def errors(self, scale: float) -> Floats:
        """Return the standard errors of these counts."""
        if self.nodes is None:
            return np.full(len(self.noisy), scale / np.sqrt(self.units))
        variances = self._consistent(1.0).counts(self.noisy)[1][self.nodes.leaf]
        return np.asarray(scale * np.sqrt(variances / self.units))

    def shares(self, total: float) -> Floats:
        """Return probabilities of cells."""
        if self.nodes is None:
            return nearest_probabilities(self.noisy / total)
        return self._consistent(total).probabilities(self.noisy)[self.nodes.leaf]

    def _consistent(self, total: float) -> Consistent:
        assert self.nodes is not None  # of cells, nothing has to be made consistent
        return Consistent(self.nodes.tree, self.nodes.levels, total)
