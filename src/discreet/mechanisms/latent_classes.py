"""Latent classes: a mixture of independent columns that turns noisy tables of one and two columns into records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from discreet._core.numeric import Booleans, Floats, Integers

if TYPE_CHECKING:
    from discreet.mechanisms.three_way_tables import LastColumn

_FEWEST, _MOST = 100, 400  # classes
_ROUNDS, _STEPS = 200, 200
_ROUNDS_OF_DRAWS = 800
_RAKED, _FITTED = 30, 40
_LEAST = 1e-12
_PROJECTIONS = 100
_CLEAR = 0.25  # share of a number that is kept, above which a draw of it is not shrunk
LEAST_SHARE = 1e-3  # of a table of independent columns, in a table of positive probabilities

Pair = tuple[int, int]  # numbers of two columns, in ascending order


@dataclass(frozen=True, eq=False)
class Merged:
    """The merged cells of one column. Public."""

    cell_of: Integers  # shape (cells,): the merged cell of each cell
    count: int

    def sums(self, values: Floats) -> Floats:
        """Return the sums of some numbers over the merged cells."""
        return np.bincount(self.cell_of, weights=values, minlength=self.count).astype(np.float64)

    def grouping(self, parts: Merged) -> Merged:
        """Return the merged cells of finer cells, of which each is a part of one."""
        cell_of = np.zeros(parts.count, dtype=np.int64)
        cell_of[parts.cell_of] = self.cell_of
        return Merged(cell_of, self.count)

    def grouped(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the texts of the cells in each merged one."""
        return [[texts[cell] for cell in np.flatnonzero(self.cell_of == i).tolist()] for i in range(self.count)]

    def texts(self, texts: Sequence[str], ordered: bool) -> list[str]:
        """Return what merged cells are, in words, by the texts of cells that may be ordered: a run's first and last."""
        words = []
        for cells in self.grouped(texts):
            if len(cells) == 1:
                words += cells
            elif ordered:
                words.append(f"{cells[0].split(' to ')[0]} to {cells[-1].split(' to ')[-1]}")
            else:
                words.append("any other")
        return words

    def within(self, shares: Floats) -> Floats:
        """Return the share of each cell in its merged cell; alike where noise left none of them."""
        shares = shares + 1e-9 / len(shares)
        return np.asarray(shares / self.sums(shares)[self.cell_of])


@dataclass(frozen=True, eq=False)
class PairTable:
    """A measured table of two columns: its counts less those of independent columns, and their standard errors."""

    excess: Floats
    error: Floats


def denoised(
    tables: Mapping[Pair, PairTable], sizes: Sequence[int], rng: np.random.Generator | None = None
) -> dict[Pair, Floats]:
    """Return the tables' excess with less noise: empirical Bayes in axes that each column shares among its tables."""
    # A column's axes are the eigenvectors of the sum of D D^T / error^2 over its tables D. In these, number (u, v) of
    # table (i, j) has a prior variance t_ij a_iu a_jv, whose factors are fitted to all tables, and is shrunk to its
    # posterior mean. rng: draws it from its posterior instead, with a flat prior where it is clear.
    if not tables:
        return {}
    outer = [np.zeros((size, size)) for size in sizes]
    for (i, j), table in tables.items():
        scaled = table.excess / table.error
        outer[i] += scaled @ scaled.T - len(scaled.T) * np.eye(sizes[i])
        outer[j] += scaled.T @ scaled - len(scaled) * np.eye(sizes[j])
    values, axes = zip(*map(np.linalg.eigh, outer), strict=True)
    spread = [_normal(np.maximum(column, 1e-3)) for column in values]
    turned = {(i, j): axes[i].T @ table.excess @ axes[j] for (i, j), table in tables.items()}
    noise = {pair: float(np.mean(table.error**2)) for pair, table in tables.items()}
    size = {pair: c.size * noise[pair] for pair, c in turned.items()}
    strength = {pair: max(float((c * c).sum()) - size[pair], 0.05 * size[pair]) for pair, c in turned.items()}
    for _ in range(5):
        sums = [np.zeros(size) for size in sizes]
        for (i, j), c in turned.items():
            shape, error = np.outer(spread[i], spread[j]), noise[i, j]
            shrunk = strength[i, j] * shape / (strength[i, j] * shape + error)
            squares = ((shrunk * c) ** 2 + shrunk * error) / shape
            strength[i, j] = float(squares.mean())
            squares *= shape / strength[i, j]
            sums[i] += (squares / spread[j]).mean(axis=1)
            sums[j] += (squares / spread[i][:, None]).mean(axis=0)
        spread = [_normal(np.maximum(_normal(column), 1e-6)) if column.any() else column for column in sums]
    smooth = {}
    for (i, j), c in turned.items():
        prior, error = strength[i, j] * np.outer(spread[i], spread[j]), noise[i, j]
        shrunk = prior / (prior + error)
        numbers = shrunk * c
        if rng is not None:
            shrunk = np.where((shrunk > _CLEAR) | (c**2 > 4.0 * error), 1.0, shrunk)
            numbers = shrunk * c + np.sqrt(np.maximum(shrunk, _CLEAR) * error) * rng.normal(size=c.shape)
        smooth[i, j] = axes[i] @ numbers @ axes[j].T
    return smooth


def _normal(values: Floats) -> Floats:
    return np.asarray(values / max(float(values.sum()), 1e-300))


def centred(table: Floats) -> Floats:
    """Return a table less the means of its rows and columns."""
    table = table - table.mean(axis=1, keepdims=True)
    return np.asarray(table - table.mean(axis=0, keepdims=True))


def nearest_table(table: Floats, rows: Floats, columns: Floats, moments: Floats) -> Floats:
    """Return positive probabilities near a table, of nearly the given margins: the nearest non-negative ones."""
    # moments, shape (number, cells): orthonormal, of rows and columns that sum to 0. Dykstra's alternating projections
    # keep them: without, what negative counts are set off against is mostly the dependence of the two.
    (a, b), values = table.shape, moments @ table.ravel()
    moved, below = table, np.zeros_like(table)
    nearest = np.maximum(table, 0.0)
    for _ in range(_PROJECTIONS):
        below += moved - nearest
        row_gaps, column_gaps = rows - nearest.sum(axis=1), columns - nearest.sum(axis=0)
        moved = nearest + row_gaps[:, None] / b + column_gaps / a - float(row_gaps.sum()) / (a * b)
        moved += ((values - moments @ moved.ravel()) @ moments).reshape(a, b)
        nearest = np.maximum(moved + below, 0.0)
    nearest += LEAST_SHARE * np.outer(rows, columns)
    return np.asarray(nearest / nearest.sum())


def with_moments(table: Floats, moments: Floats, other: Floats) -> Floats:
    """Return a table with some moments, orthonormal rows, of another one."""
    return np.asarray(table + ((moments @ (other - table).ravel()) @ moments).reshape(table.shape))


# -- the model ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Block:
    """Columns that are drawn together, independent of all others given a record's class."""

    columns: tuple[int, ...]
    codes: tuple[Integers, ...]  # per column, the cell that each joint cell stands for
    inside: Floats  # shape (joint cells, classes): probabilities of the joint cells in each class
    within: Within | None = None  # of a single column, what its merged cells are drawn apart by
    link: Link | None = None  # of a column that is drawn given another one too

    def draw(self, classes: Integers, points: Floats) -> tuple[Integers, ...]:
        """Return the columns' cells at points in ``[0, 1)`` of the classes' distribution functions."""
        count = len(self.inside)
        ends = np.cumsum(self.inside, axis=0)
        ends /= ends[-1]
        ends[-1] = 1.0
        line = (ends + np.arange(ends.shape[1])).T.ravel()
        places = np.searchsorted(line, classes + np.minimum(points, 1.0 - 1e-9), side="right")
        cells = np.clip(places - classes * count, 0, count - 1)
        if self.within is None:
            return tuple(codes[cells] for codes in self.codes)
        end = ends[cells, classes]
        start = np.where(cells > 0, ends[cells - 1, classes], 0.0)
        return (self.within.cells(cells, np.clip((points - start) / np.maximum(end - start, 1e-300), 0.0, 1.0)),)


class Link(NamedTuple):
    """Another column, its merged cell of each cell, and by what factors each of these changes a column's cells."""

    column: int
    cell_of: Integers
    factors: Floats
    present: Booleans  # shape (classes,): which of them have the other column

    def records(
        self, inside: Floats, parents: Integers, classes: Integers, *, stratified: bool, rng: np.random.Generator
    ) -> Integers:
        """Return a merged cell for each record, by its merged cell of the other column and its class."""
        # Stratified numbers of records are rounded one after the other. What rounding leaves goes half to the next
        # class and half to the next cell of the other column, so that the tables with both nearly have their shares.
        factors = np.vstack((self.factors, np.ones(self.factors.shape[1])))  # last, of records without the other column
        (rows, columns), number = factors.shape, inside.shape[1]
        groups = parents * number + classes
        order = np.lexsort((rng.random(len(groups)), groups))
        sizes = np.bincount(groups, minlength=rows * number).reshape(rows, number)
        starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        cells = np.empty(len(groups), dtype=np.int64)
        row_left, class_left = np.zeros((rows, columns)), np.zeros((number, columns))
        for step in range(rows + number - 1):
            i = np.arange(max(0, step - number + 1), min(rows, step + 1))
            i = i[sizes[i, step - i] > 0]
            c, size = step - i, sizes[i, step - i]
            shares = factors[i] * inside[:, c].T + 1e-300
            shares *= (size / shares.sum(axis=1))[:, None]
            expected = shares + row_left[i] + class_left[c]
            above = np.clip(expected, 0.0, 3.0 * shares)
            ends = np.cumsum(above * (size / above.sum(axis=1))[:, None], axis=1) + rng.random((len(i), 1))
            ends[:, -1] = size + 0.5
            counts = np.diff(np.floor(ends), axis=1, prepend=0.0)
            row_left[i] = class_left[c] = 0.5 * (expected - counts)
            if not stratified:
                counts = rng.multinomial(size, np.minimum(shares / size[:, None], 1.0))  # rounding
            places = np.repeat(starts[i, c] - np.cumsum(size) + size, size) + np.arange(size.sum())
            cells[order[places]] = np.repeat(np.tile(np.arange(columns), len(i)), counts.ravel().astype(np.int64))
        return cells


@dataclass(frozen=True, eq=False)
class Within:
    """The cells in merged ones, and the share of each."""

    order: Integers  # the cells, by merged cell
    line: Floats  # number of the merged cell, and where in it each cell ends

    @classmethod
    def from_merged(cls, merged: Integers, shares: Floats) -> Within:
        """Return the cells of a column by its merged cells; ``shares`` of each merged cell sum to one."""
        order = np.argsort(merged, kind="stable")
        ends = np.cumsum(shares[order])
        last = np.flatnonzero(np.diff(merged[order], append=merged.max() + 1))
        starts = np.concatenate(([0.0], ends[last[:-1]]))[merged[order]]
        line = merged[order].astype(np.float64) + np.minimum(ends - starts, 1.0)
        line[last] = merged[order][last] + 1.0
        return cls(order, line)

    def cells(self, merged: Integers, points: Floats) -> Integers:
        """Return the cell at each point of a merged cell."""
        places = np.searchsorted(self.line, merged + np.minimum(points, 1.0 - 1e-9), side="right")
        return np.asarray(self.order[np.minimum(places, len(self.order) - 1)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """A mixture of distributions with independent blocks of columns: every column is in one block."""

    shares: Floats  # shape (classes,): of the records
    blocks: tuple[Block, ...]
    dependencies: tuple[tuple[int, int, Integers], ...] = ()  # a column, one without a block, and its cell for each
    last: Mapping[int, LastColumn] = field(default_factory=dict)  # columns that are drawn again in the end

    def where(self, column: int, cells: Integers) -> LatentClasses:
        """Return the model of the records in some cells of a column, which is not drawn by merged ones."""
        ((place, block),) = ((i, block) for i, block in enumerate(self.blocks) if column in block.columns)
        rows = np.flatnonzero(np.isin(block.codes[block.columns.index(column)], cells))
        mass = block.inside[rows].sum(axis=0)
        part = Block(block.columns, tuple(codes[rows] for codes in block.codes), block.inside[rows] / mass)
        return self._with_block(place, part, self.shares * mass)

    def _with_block(self, place: int, block: Block, shares: Floats) -> LatentClasses:
        blocks = (*self.blocks[:place], block, *self.blocks[place + 1 :])
        return replace(self, shares=shares / shares.sum(), blocks=blocks)

    def raked(self, targets: Mapping[int, Floats], uses: Mapping[int, Booleans]) -> LatentClasses:
        """Return the model with given probabilities of some columns: cells are reweighted alike in every class."""
        # targets: by the number of the column, not drawn by merged cells; what no cell of its block has counts for
        # nothing. uses: which classes use the slot of a column; the others keep its cells.
        model = self
        columns = [
            (place, number, targets[column], uses[column])
            for place, block in enumerate(self.blocks)
            for number, column in enumerate(block.columns)
            if column in targets
        ]
        for place, number, target, used in columns * _RAKED:
            block, shares = model.blocks[place], model.shares * used
            codes = block.codes[number]
            current = np.bincount(codes, weights=block.inside @ shares, minlength=len(target))
            possible = np.where(np.bincount(codes, minlength=len(target)) > 0, target, 0.0)
            mass = 1.0 if used.all() else float(shares.sum())
            factor = (mass * possible / max(float(possible.sum()), 1e-300)) / np.maximum(current, 1e-300)
            joint = block.inside * model.shares * np.where(used, factor[codes][:, None], 1.0) + 1e-300
            shares = joint.sum(axis=0)
            model = model._with_block(place, replace(block, inside=joint / shares), shares)
        return model

    def strata(self, column: int, group: Integers) -> tuple[Floats, Block]:
        """Return the shares of strata (group of the column's cells, class), and its block with them as classes."""
        (block,) = (block for block in self.blocks if column in block.columns)
        groups_of, groups = group[block.codes[block.columns.index(column)]], int(group.max()) + 1
        parts = [block.inside * (groups_of == number)[:, None] for number in range(groups)]
        inside = np.concatenate(parts, axis=1) + 1e-300
        mass = inside.sum(axis=0)
        return np.tile(self.shares, groups) * mass, replace(block, inside=inside / mass)

    def records(
        self, classes: Integers, blocks: Sequence[Block], *, stratified: bool, rng: np.random.Generator
    ) -> dict[int, Integers]:
        """Return the cells of some blocks, by the numbers of their columns, for records of given classes."""
        # stratified: every cell gets its share of each class's records to within one, in an order that says nothing.
        cells: dict[int, Integers] = {}
        for block in blocks:
            sizes = np.bincount(classes, minlength=block.inside.shape[1])
            points = rng.random(len(classes))
            if stratified:
                order = np.argsort(classes + rng.random(len(classes)))  # by class, in a random order within it
                place = np.empty(len(classes))
                place[order] = np.arange(len(classes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
                points = (place + points) / sizes[classes]
            if block.link is None:
                cells |= zip(block.columns, block.draw(classes, points), strict=True)
                continue
            parents = block.link.cell_of[cells[block.link.column]]
            parents = np.where(block.link.present[classes], parents, len(block.link.factors))
            merged_cells = block.link.records(block.inside, parents, classes, stratified=stratified, rng=rng)
            assert block.within is not None
            cells[block.columns[0]] = block.within.cells(merged_cells, rng.random(len(classes)))
        for source, target, cell_of in self.dependencies:
            if source in cells:
                cells[target] = cell_of[cells[source]]
        return cells

    def linked(self, tables: Mapping[Pair, Floats], cell_of: Sequence[Integers]) -> LatentClasses:
        """Return the model with tables of pairs that it meets without circles; ``cell_of``: merged, by column."""
        # One column of a pair is drawn by class, with probabilities that factors change, given the other column.
        blocks, joint = {block.columns: block for block in self.blocks}, {}
        neighbours = [pair for ends in tables for pair in (ends, ends[::-1])]
        for root, _ in neighbours:
            if root in joint:
                continue
            joint[root], columns = blocks[root,].inside * self.shares, [root]
            for i in columns:
                for j in [j for end, j in neighbours if end == i and j not in joint]:
                    block = blocks.pop((j,))
                    inside, table = block.inside, tables[i, j] if (i, j) in tables else tables[j, i].T
                    masses = joint[i] * (inside.sum(axis=0) > _LEAST)
                    present = joint[i].sum(axis=0) > _LEAST * self.shares
                    target = table * (masses.sum(axis=1) / table.sum(axis=1))[:, None]
                    factors = target / np.maximum(masses @ inside.T, _LEAST)
                    for _ in range(_FITTED):
                        parts = masses / np.maximum(factors @ inside, 1e-300)
                        factors *= target / np.maximum(factors * (parts @ inside.T), _LEAST)
                        factors /= factors.max()
                    moved = inside * (factors.T @ (masses / np.maximum(factors @ inside, 1e-300)))
                    joint[j] = np.where(present, moved, inside * self.shares)
                    columns.append(j)
                    blocks[j,] = replace(block, link=Link(i, cell_of[i], factors, present))
        return replace(self, blocks=tuple(blocks.values()))


# -- its fit ------------------------------------------------------------------------------------------------------


def fitted(
    columns: Sequence[Floats],
    targets: Mapping[Pair, Floats],
    noisy: Mapping[Pair, Floats],
    weights: Mapping[Pair, Floats],
    *,
    rng: np.random.Generator,
    possible: Callable[[int], Booleans] | None = None,
) -> tuple[Floats, list[Floats]]:
    """Return the classes' shares, and the columns' probabilities in each class, of a mixture fitted to tables."""
    # columns, targets: positive probabilities, of the tables less noise. noisy: as they were measured, and the weights
    # of their squared errors; more steps towards these fit better, and release worse. None where the targets are a
    # draw, whose negative counts steps would follow. possible: which cells each of so many classes has.
    if not targets and possible is None:
        return np.ones(1), [column[:, None] / column.sum() for column in columns]
    ends, margins = np.cumsum([0, *map(len, columns)]), np.concatenate(list(columns))
    cells, classes = len(margins), min(_MOST, max(_FEWEST, len(margins) // 2) * (1 + (possible is not None)))
    mask = 1.0 if possible is None else possible(classes)

    def normal(values: Floats) -> Floats:
        """Return values divided by their sums over the cells of each column."""
        return np.asarray(values / np.repeat(np.add.reduceat(values, ends[:-1], axis=0), np.diff(ends), axis=0))

    def square(tables: Mapping[Pair, Floats]) -> Floats:
        """Return tables as blocks of one square of all cells, 0 where there is none."""
        square = np.zeros((cells, cells))
        for (i, j), table in tables.items():
            rows, columns = slice(*ends[i : i + 2]), slice(*ends[j : j + 2])
            square[rows, columns], square[columns, rows] = table, table.T
        return square

    shares = np.full(classes, 1.0 / classes)
    inside = normal((margins[:, None] + _LEAST) * np.exp(0.5 * rng.normal(size=(cells, classes))) * mask)
    goal = square(targets)
    for _ in range(_ROUNDS if noisy else _ROUNDS_OF_DRAWS):
        joint = inside * shares
        ratio = goal / np.maximum(joint @ inside.T, _LEAST)
        joint *= ratio @ inside + (margins / np.maximum(joint.sum(axis=1), _LEAST))[:, None]
        inside, shares = normal((joint + 1e-15) * mask), joint.sum(axis=0)
        shares /= shares.sum()
    if noisy:
        shares, inside = _descended(shares, inside, margins, square(noisy), square(weights), normal)
    return shares, np.split(inside, ends[1:-1])


def _descended(
    shares: Floats, inside: Floats, margins: Floats, noisy: Floats, weight: Floats, normal: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return the mixture after steps of exponentiated gradient: each is kept if it lowers the squared error."""
    most = float(weight.max())
    margin_weight = 3.0 * most

    def error(shares: Floats, inside: Floats) -> tuple[float, Floats, Floats]:
        gaps = (inside * shares) @ inside.T - noisy
        pull, margin_gaps = weight * gaps, inside @ shares - margins
        squares = 0.25 * float((pull * gaps).sum()) + 0.5 * margin_weight * float(margin_gaps @ margin_gaps)
        return squares, pull, margin_gaps

    step, (least, pull, margin_gaps) = 1e-3 / most, error(shares, inside)
    for _ in range(_STEPS):
        slope, margin_slope = pull @ inside, margin_weight * margin_gaps[:, None]
        moved = normal(inside * np.exp(-np.clip(step * (slope + margin_slope), -3.0, 3.0)))
        class_slope = (inside * (0.5 * slope + margin_slope)).sum(axis=0)
        weights = shares * np.exp(-np.clip(step * class_slope, -3.0, 3.0))
        weights /= weights.sum()
        squares, *gradient = error(weights, moved)
        if squares < least:
            shares, inside, least, (pull, margin_gaps), step = weights, moved, squares, gradient, 1.5 * step
        else:
            step *= 0.4
    return shares, inside
