"""Latent classes: the graphical model that turns noisy tables of one and two columns into records. Public.

Each record has a class that nobody sees, and given its class its columns are independent. Any number of tables can be
fitted together, with no limit on how they overlap, and records are drawn at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.domain import Domain, Records
from discreet.mechanisms.reading import WHOLE, CellShares, Portion
from discreet.mechanisms.wide_columns import labelled

_FEWEST, _MOST = 100, 400  # classes
_ROUNDS, _STEPS = 200, 200
_ROUNDS_OF_DRAWS = 800
_RAKED = 30
_LEAST = 1e-12
_CLEAR = 0.25  # share of a number that is kept, above which a draw of it is not shrunk

Pair = tuple[int, int]
"""Numbers of two columns, in ascending order."""


@dataclass(frozen=True, eq=False)
class Table:
    """A measured table of two columns. Public.

    ``excess``, shape (a, b): its counts less those of independent columns.
    ``error``: standard error of each count.
    """

    excess: Floats
    error: float


def denoised(
    tables: Mapping[Pair, Table], sizes: Sequence[int], rng: np.random.Generator | None = None
) -> dict[Pair, Floats]:
    """Return the tables' excess with less noise: empirical Bayes in axes that each column shares among its tables.

    What a column has to do with the others lies along few of its axes: the eigenvectors of the sum of ``D D^T /
    error^2`` over its tables ``D``. In these axes, number ``(u, v)`` of table ``(i, j)`` has a prior variance ``t_ij
    a_iu a_jv``, whose factors are fitted to all tables by expectation-maximisation; each number is then shrunk to its
    posterior mean.

    ``sizes``: numbers of cells of the columns.
    ``rng``: where given, each number is drawn from its normal posterior instead. Those of which more than a quarter
    would be kept, or that exceed two standard errors, have a flat prior there: what is taken off a true dependence, no
    interval would tell. The variance of the others is at least a quarter of the noise's.
    """
    outer = [np.zeros((size, size)) for size in sizes]
    for (i, j), table in tables.items():
        scaled = table.excess / table.error
        outer[i] += scaled @ scaled.T - len(scaled.T) * np.eye(sizes[i])
        outer[j] += scaled.T @ scaled - len(scaled) * np.eye(sizes[j])
    found = [np.linalg.eigh(matrix) for matrix in outer]
    axes = [vectors for _, vectors in found]
    spread = [_shares(np.maximum(values, 1e-3)) for values, _ in found]
    turned = {(i, j): axes[i].T @ table.excess @ axes[j] for (i, j), table in tables.items()}
    noise = {pair: table.error**2 for pair, table in tables.items()}
    strength = {
        pair: max(float((c * c).sum()) - c.size * noise[pair], 0.05 * c.size * noise[pair])
        for pair, c in turned.items()
    }
    for _ in range(5):
        sums = [np.zeros(size) for size in sizes]
        for pair, c in turned.items():
            i, j = pair
            shape = np.outer(spread[i], spread[j])
            kept = strength[pair] * shape / (strength[pair] * shape + noise[pair])
            second = ((kept * c) ** 2 + kept * noise[pair]) / shape
            strength[pair] = float(second.mean())
            second *= shape / strength[pair]
            sums[i] += (second / spread[j]).mean(axis=1)
            sums[j] += (second / spread[i][:, None]).mean(axis=0)
        spread = [_shares(np.maximum(_shares(each), 1e-6)) if each.any() else each for each in sums]
    smoothed = {}
    for (i, j), c in turned.items():
        prior = strength[i, j] * np.outer(spread[i], spread[j])
        kept = prior / (prior + noise[i, j])
        numbers = kept * c if rng is None else _drawn_numbers(c, kept, noise[i, j], rng)
        smoothed[i, j] = axes[i] @ numbers @ axes[j].T
    return smoothed


def _drawn_numbers(noisy: Floats, kept: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Return draws of numbers given noisy ones: normal, of mean ``kept * noisy`` and variance ``kept * noise``."""
    kept = np.where((kept > _CLEAR) | (noisy**2 > 4.0 * noise), 1.0, kept)
    return np.asarray(kept * noisy + np.sqrt(np.maximum(kept, _CLEAR) * noise) * rng.normal(size=noisy.shape))


def _shares(values: Floats) -> Floats:
    return np.asarray(values / max(float(values.sum()), 1e-300))


@dataclass(frozen=True, eq=False)
class Block:
    """Columns that are drawn together, independent of all others given a record's class. Public.

    ``columns``: their numbers.
    ``codes``: per column, the cell that each joint cell stands for.
    ``inside``, shape (joint cells, classes): probabilities of the joint cells in each class.
    ``within``: of a single column, what its merged cells are drawn apart by; else None.
    """

    columns: tuple[int, ...]
    codes: tuple[Integers, ...]
    inside: Floats
    within: Within | None = None

    def draw(self, classes: Integers, at: Floats) -> tuple[Integers, ...]:
        """Return the columns' cells at places in ``[0, 1)`` of the classes' distribution functions."""
        cells, left = _placed(self.inside, classes, at)
        if self.within is not None:
            return (self.within.cells(cells, left),)
        return tuple(codes[cells] for codes in self.codes)


@dataclass(frozen=True, eq=False)
class Within:
    """The cells in merged ones, and the share of each. Public.

    ``order``: the cells, by merged cell.
    ``line``: number of the merged cell, and where in it each cell ends.
    """

    order: Integers
    line: Floats

    @classmethod
    def from_merged(cls, merged: Integers, shares: Floats) -> Within:
        """Return the cells of a column by its merged cells; ``shares`` of each merged cell sum to one."""
        order = np.argsort(merged, kind="stable")
        ends = np.cumsum(shares[order])
        last = np.flatnonzero(np.diff(merged[order], append=merged.max() + 1))
        before = np.concatenate(([0.0], ends[last[:-1]]))[merged[order]]
        line = merged[order].astype(np.float64) + np.minimum(ends - before, 1.0)
        line[last] = merged[order][last] + 1.0
        return cls(order, line)

    def cells(self, merged: Integers, at: Floats) -> Integers:
        """Return the cell at each place of a merged cell."""
        found = np.searchsorted(self.line, merged + np.minimum(at, 1.0 - 1e-9), side="right")
        return np.asarray(self.order[np.minimum(found, len(self.order) - 1)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """A mixture of distributions with independent blocks of columns. Public.

    ``shares``, shape (classes,): of the records.
    ``blocks``: every column is in one.
    """

    shares: Floats
    blocks: tuple[Block, ...]

    def where(self, column: int, cells: Integers) -> LatentClasses:
        """Return the model of the records whose value of a column is in some cells, given by the domain's numbers.

        The column must not be drawn by merged cells.
        """
        (at,) = (i for i, block in enumerate(self.blocks) if column in block.columns)
        block = self.blocks[at]
        kept = np.flatnonzero(np.isin(block.codes[block.columns.index(column)], cells))
        inside = block.inside[kept]
        mass = inside.sum(axis=0)
        held = Block(block.columns, tuple(codes[kept] for codes in block.codes), inside / mass)
        shares = self.shares * mass
        blocks = (*self.blocks[:at], held, *self.blocks[at + 1 :])
        return LatentClasses(shares / shares.sum(), blocks)

    def raked(self, targets: Mapping[int, Floats]) -> LatentClasses:
        """Return the model with given probabilities of some columns: cells are reweighted alike in every class.

        ``targets``: by the number of the column, on its cells; what no cell of its block has counts for nothing. The
        columns must not be drawn by merged cells.
        """
        model = self
        for _ in range(_RAKED if targets else 0):
            for at, block in enumerate(model.blocks):
                for column, codes in zip(block.columns, block.codes, strict=True):
                    if column in targets:
                        model = model._reweighted(at, codes, targets[column])
        return model

    def _reweighted(self, at: int, codes: Integers, target: Floats) -> LatentClasses:
        block = self.blocks[at]
        held = np.bincount(codes, weights=block.inside @ self.shares, minlength=len(target))
        wanted = np.where(np.bincount(codes, minlength=len(target)) > 0, target, 0.0)
        factor = (wanted / max(float(wanted.sum()), 1e-300)) / np.maximum(held, 1e-300)
        joint = block.inside * self.shares * factor[codes][:, None] + 1e-300
        shares = joint.sum(axis=0)
        reweighted = replace(block, inside=joint / shares)
        return LatentClasses(shares / shares.sum(), (*self.blocks[:at], reweighted, *self.blocks[at + 1 :]))

    def strata(self, column: int, group: Integers) -> tuple[Floats, Block]:
        """Return the shares of strata, which are a group of a column's cells and a class, group by group.

        And the block of the column with strata in place of classes.
        """
        (block,) = (block for block in self.blocks if column in block.columns)
        of, groups = group[block.codes[block.columns.index(column)]], int(group.max()) + 1
        inside = np.concatenate([block.inside * (of == g)[:, None] for g in range(groups)], axis=1) + 1e-300
        mass = inside.sum(axis=0)
        return np.tile(self.shares, groups) * mass, replace(block, inside=inside / mass)

    def records(
        self, classes: Integers, *, stratified: bool, rng: np.random.Generator, blocks: Sequence[Block] | None = None
    ) -> dict[int, Integers]:
        """Return the columns' cells, by the columns' numbers, for records whose classes are given.

        ``stratified``: every cell gets its share of each class's records to within one, in an order that says nothing.
        ``blocks``: that are drawn; by default all.
        """
        drawn: dict[int, Integers] = {}
        for block in self.blocks if blocks is None else blocks:
            held = np.bincount(classes, minlength=block.inside.shape[1])
            at = rng.random(len(classes))
            if stratified:
                order = np.argsort(classes + rng.random(len(classes)))  # by class, in a random order within it
                place = np.empty(len(classes))
                place[order] = np.arange(len(classes)) - np.repeat(np.cumsum(held) - held, held)
                at = (place + at) / held[classes]
            drawn |= zip(block.columns, block.draw(classes, at), strict=True)
        return drawn


def _placed(inside: Floats, classes: Integers, at: Floats) -> tuple[Integers, Floats]:
    """Return the cell at each place of its class's distribution function, and where in the cell it is."""
    cells, count = inside.shape
    below = np.cumsum(inside, axis=0)
    below /= below[-1]
    below[-1] = 1.0
    line = (below + np.arange(count)).T.ravel()
    found = np.searchsorted(line, classes + np.minimum(at, 1.0 - 1e-9), side="right")
    place = np.clip(found - classes * cells, 0, cells - 1)
    end = below[place, classes]
    start = np.where(place > 0, below[place - 1, classes], 0.0)
    left = np.clip((at - start) / np.maximum(end - start, 1e-300), 0.0, 1.0)
    return np.asarray(place, dtype=np.int64), np.asarray(left)


def fitted(
    ones: Sequence[Floats],
    smooth: Mapping[Pair, Floats],
    tables: Mapping[Pair, Table],
    total: float,
    *,
    rng: np.random.Generator,
) -> tuple[Floats, list[Floats]]:
    """Fit a mixture to columns and tables of two columns.

    Returns the classes' shares, and the columns' probabilities in each class.

    First, 200 rounds of expectation-maximisation for tables without noise: in each, a column's probabilities are
    multiplied by how much more of it the tables have than the model, in every table that it is in. Then 200 steps of
    exponentiated gradient for the measured tables themselves, weighted by their errors. These end before the model
    follows the noise: more steps fit better, and release worse. Tables that are a draw have no noise to be kept from:
    800 rounds, and no steps, which would follow the draw's negative counts at the cost of dependence.

    ``ones``: the columns' probabilities.
    ``smooth``: probabilities of the tables, positive, less noise.
    ``tables``: as they were measured; none where the others are a draw.
    ``total``: number of records.
    ``rng``: of the start.
    """
    if not smooth:
        return np.ones(1), [one[:, None] / one.sum() for one in ones]
    fit = _Fit.from_shares(ones)
    classes = min(_MOST, max(_FEWEST, len(fit.own) // 2))
    shares = np.full(classes, 1.0 / classes)
    inside = fit.normal((fit.own[:, None] + _LEAST) * np.exp(0.5 * rng.normal(size=(len(fit.own), classes))))
    shares, inside = fit.maximised(shares, inside, fit.square(smooth), _ROUNDS if tables else _ROUNDS_OF_DRAWS)
    if tables:
        measured = {(i, j): np.outer(ones[i], ones[j]) + table.excess / total for (i, j), table in tables.items()}
        weight = {pair: np.full(table.excess.shape, (total / table.error) ** 2) for pair, table in tables.items()}
        shares, inside = fit.descended(shares, inside, fit.square(measured), fit.square(weight))
    return shares, [inside[a:b] for a, b in pairwise(fit.ends)]


@dataclass(frozen=True, eq=False)
class _Fit:
    """All columns' cells one after the other, so that all tables are blocks of one square.

    ``ends``: where the columns begin, and the end of the last.
    ``own``: the columns' probabilities.
    """

    ends: list[int]
    own: Floats

    @classmethod
    def from_shares(cls, ones: Sequence[Floats]) -> _Fit:
        return cls([0, *np.cumsum([len(one) for one in ones]).tolist()], np.concatenate(list(ones)))

    def normal(self, values: Floats) -> Floats:
        """Return values divided by the sums of their columns."""
        sums = np.add.reduceat(values, self.ends[:-1], axis=0)
        return np.asarray(values / np.repeat(sums, np.diff(self.ends), axis=0))

    def square(self, tables: Mapping[Pair, Floats]) -> Floats:
        """Return tables in their places, and 0 where there is none."""
        found = np.zeros((len(self.own), len(self.own)))
        for (i, j), table in tables.items():
            rows, columns = slice(*self.ends[i : i + 2]), slice(*self.ends[j : j + 2])
            found[rows, columns], found[columns, rows] = table, table.T
        return found

    def maximised(self, shares: Floats, inside: Floats, wanted: Floats, rounds: int) -> tuple[Floats, Floats]:
        """Return the mixture after rounds of expectation-maximisation."""
        for _ in range(rounds):
            joint = inside * shares
            ratio = wanted / np.maximum(joint @ inside.T, _LEAST)
            more = ratio @ inside + (self.own / np.maximum(joint.sum(axis=1), _LEAST))[:, None]
            joint *= more
            inside, shares = self.normal(joint + 1e-15), joint.sum(axis=0)
            shares /= shares.sum()
        return shares, inside

    def descended(self, shares: Floats, inside: Floats, wanted: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Return the mixture after steps of exponentiated gradient: each is kept if it lowers the squared error."""
        most = float(weight.max())
        held = 3.0 * most  # of the columns' own probabilities

        def error(shares: Floats, inside: Floats) -> tuple[float, Floats, Floats]:
            apart = (inside * shares) @ inside.T - wanted
            pull, beside = weight * apart, inside @ shares - self.own
            return 0.25 * float((pull * apart).sum()) + 0.5 * held * float(beside @ beside), pull, beside

        step, (least, pull, beside) = 1e-3 / most, error(shares, inside)
        for _ in range(_STEPS):
            slope = pull @ inside
            each = (inside * (0.5 * slope + held * beside[:, None])).sum(axis=0)
            moved = self.normal(inside * np.exp(-np.clip(step * (slope + held * beside[:, None]), -3.0, 3.0)))
            weights = shares * np.exp(-np.clip(step * each, -3.0, 3.0))
            weights /= weights.sum()
            found, *rest = error(weights, moved)
            if found < least:
                shares, inside, least, (pull, beside), step = weights, moved, found, rest, 1.5 * step
            else:
                step *= 0.4
        return shares, inside


# Records that are drawn from the model of measured tables, given their strata.


@dataclass(frozen=True, eq=False)
class StratumShares(CellShares):
    """Items that are strata of a model: a class, or a group of one column's cells and a class, group by group.

    ``by_stratum``: blocks that are drawn by stratum.
    ``by_class``: those that are drawn by class.
    ``labels``: of open columns, the domain and that of the labels that were kept.
    """

    model: LatentClasses
    by_stratum: tuple[Block, ...]
    by_class: tuple[Block, ...]
    labels: tuple[Domain, Domain] | None = None

    def records_in(self, items: Integers, *, rng: np.random.Generator) -> Records:
        """Return a record of each stratum; cells are stratified as strata are, and open labels are cells."""
        stratified = self.sampling == "stratified"
        drawn = self.model.records(items, stratified=stratified, rng=rng, blocks=self.by_stratum)
        classes = items % len(self.model.shares)
        drawn |= self.model.records(classes, stratified=stratified, rng=rng, blocks=self.by_class)
        return Records(columns=tuple(drawn[i] for i in range(len(drawn))))

    def draw(self, size: int, *, rng: np.random.Generator, portion: Portion = WHOLE) -> Iterator[Records]:
        """Yield records with their labels; one whose label was not kept gets a new one."""
        chunks = super().draw(size, rng=rng, portion=portion)
        if self.labels is None:
            return chunks
        return labelled(chunks, *self.labels, rng, first_new=portion.first_label)
