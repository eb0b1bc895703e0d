"""A binary tree over the cells of a finite product domain, level by level, and estimates that are consistent on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from math import prod

import numpy as np

from discreet._core.lazy import special
from discreet._core.numeric import Booleans, Floats, Integers
from discreet.domain import Domain, Records
from discreet.mechanisms.noise import NoiseLaw

DEEPEST = 22  # levels below the root


@dataclass(frozen=True)
class Tree:
    """The number of codes of each column, and how often each column has been cut at levels ``0 .. depth``."""

    sizes: tuple[int, ...]
    cuts: tuple[tuple[int, ...], ...]

    @classmethod
    def from_domain(cls, domain: Domain) -> Tree:
        """Halve, at each level, the column of the longest blocks (metric weight times share), down to cells."""
        sizes = tuple(int(column.size or 1) for column in domain.columns.values())
        return _whole(sizes, tuple((domain.metric_weights or {}).get(name, 1.0) for name in domain.columns))

    def down_to(self, depth: int) -> Tree:
        """Return the tree without the levels below ``depth``."""
        return Tree(self.sizes, self.cuts[: depth + 1])

    @property
    def depth(self) -> int:
        """Number of levels below the root."""
        return len(self.cuts) - 1

    def shape(self, level: int) -> tuple[int, ...]:
        """Return the number of blocks of each column at a level."""
        return tuple(min(2**j, size) for j, size in zip(self.cuts[level], self.sizes, strict=True))

    def nodes(self, level: int) -> int:
        """Return the number of nodes of a level."""
        return prod(self.shape(level))

    def edges(self, level: int) -> list[Integers]:
        """Return, for each column, the first codes of the blocks of a level, and the number of codes."""
        return [_edges(size, j) for size, j in zip(self.sizes, self.cuts[level], strict=True)]

    def column_cut(self, level: int) -> int:
        """Return the column that a level (from 1) cuts."""
        return next(c for c, (a, b) in enumerate(zip(self.cuts[level - 1], self.cuts[level], strict=True)) if a != b)

    def leaf_of(self, records: Records) -> Integers:
        """Return the leaf each record lies in, numbered in row-major order."""
        leaves = np.zeros(len(records), dtype=np.int64)
        for edges, codes in zip(self.edges(self.depth), records.columns, strict=True):
            leaves = leaves * (len(edges) - 1) + np.searchsorted(edges, codes, side="right") - 1
        return leaves

    def cells_per_leaf(self) -> Integers:
        """Return the number of cells of each leaf."""
        widths = [np.diff(edges) for edges in self.edges(self.depth)]
        return reduce(np.multiply.outer, widths, np.ones(1, dtype=np.int64)).ravel()

    def largest_leaf(self) -> int:
        """Return the number of cells of the largest leaf."""
        return prod(int(np.diff(edges).max()) for edges in self.edges(self.depth))

    def records_in(self, leaves: Integers, rng: np.random.Generator) -> Records:
        """Draw a record in each leaf, uniform over its cells."""
        columns = []
        for edges in reversed(self.edges(self.depth)):
            leaves, block = np.divmod(leaves, len(edges) - 1)
            width, code = np.diff(edges), edges[block]
            columns.append(code if width.max() == 1 else code + rng.integers(0, width[block]))
        return Records(columns=tuple(reversed(columns)))

    def in_order(self) -> Integers:
        """Return the leaves' numbers from left to right in the tree: every node's leaves follow one another."""
        place = np.zeros((1,) * len(self.sizes), dtype=np.int64)
        for level in range(1, self.depth + 1):
            axis, starts, count = self._family(level)
            is_second = np.arange(count.sum()) - np.repeat(starts, count)
            across = tuple(c for c in range(place.ndim) if c != axis)
            place = 2 * np.repeat(place, count, axis=axis) + np.expand_dims(is_second, across)
        return np.argsort(place, axis=None)

    def up(self, level: int, values: Floats) -> Floats:
        """Return the sums of children: an array of ``level`` becomes one of the level above."""
        axis, starts, _ = self._family(level)
        return np.asarray(np.add.reduceat(values, starts, axis=axis))

    def down(self, level: int, values: Floats) -> Floats:
        """Give every child its parent's value: an array of the level above becomes one of ``level``."""
        axis, _, count = self._family(level)
        return np.repeat(values, count, axis=axis)

    def _family(self, level: int) -> tuple[int, Integers, Integers]:
        """Return the axis a level cuts, each parent's first child along it, and its number of children, 1 or 2."""
        axis = self.column_cut(level)
        above, below = (_edges(self.sizes[axis], self.cuts[j][axis]) for j in (level - 1, level))
        starts = np.searchsorted(below, above)
        return axis, starts[:-1], np.diff(starts)


@lru_cache(maxsize=64)
def _whole(sizes: tuple[int, ...], weights: tuple[float, ...]) -> Tree:
    """Return the tree of columns of these sizes and metric weights."""
    cuts = [(0,) * len(sizes)]
    while len(cuts) <= DEEPEST:
        last = cuts[-1]
        divisible = [c for c, size in enumerate(sizes) if 2 ** last[c] < size]
        if not divisible:
            break
        longest = max(divisible, key=lambda c: weights[c] * 2.0 ** -last[c])
        cuts.append(tuple(j + (c == longest) for c, j in enumerate(last)))
    return Tree(sizes, tuple(cuts))


@lru_cache(maxsize=64)
def _edges(size: int, cuts: int) -> Integers:
    """Return the edges ``floor(i size / 2^cuts)`` of a column's blocks, those without codes left out."""
    quotient, remainder = divmod(size, 2**cuts)
    i = np.arange(2**cuts + 1, dtype=np.int64)
    edges = np.unique(i * quotient + i * remainder // 2**cuts)
    edges.flags.writeable = False
    return edges


def node_counts(tree: Tree, levels: Sequence[int], leaves: Floats) -> Integers:
    """Return the counts of the nodes of some levels, one level after the other, from those of the leaves."""
    node, parts = leaves.reshape(tree.shape(tree.depth)), []
    for level in range(tree.depth, 0, -1):
        if level in levels:
            parts.append(np.rint(node).astype(np.int64).ravel())
        node = tree.up(level, node)
    return np.concatenate([*parts[::-1], np.empty(0, dtype=np.int64)])


_WIDEST = 4  # of the steps between levels
_OCCUPIED = 0.125  # share of the nodes that hold records: tables are more concentrated than their bounds


def predicted_error(domain: Domain, n: int, law: NoiseLaw, scale: float, levels: Sequence[int]) -> float:
    """Predict how far a record is displaced on average, as a share of the domain's diameter."""
    tree = Tree.from_domain(domain)
    measured = np.zeros((1, tree.depth), dtype=bool)
    measured[0, [level - 1 for level in levels]] = True
    return float(_predicted_errors(tree, domain, n, measured, np.array([law.standard_deviation(scale)]), 1.0)[0])


def chosen_levels(domain: Domain, n: int, law: NoiseLaw, scales: Sequence[float]) -> tuple[int, ...]:
    """Return the levels with the least predicted error, what lies within leaves included."""
    # Every level, or every second, third or fourth, up from any deepest one: upper levels show where nothing is, though
    # predictions do not say so. scales: for one level and for all of them; between, a power of the number.
    tree = Tree.from_domain(domain)
    depth = tree.depth
    power = math.log(scales[1] / scales[0]) / math.log(max(2, depth))
    spread = np.array([0.0] + [law.standard_deviation(scales[0] * s**power) for s in range(1, depth + 1)])
    level = np.arange(1, depth + 1)
    steps = range(1, _WIDEST + 1)
    options = np.array([(level <= last) & ((last - level) % step == 0) for step in steps for last in level])
    errors = _predicted_errors(tree, domain, n, options, spread[options.sum(axis=1)], _OCCUPIED)
    return tuple(level[options[errors.argmin()]].tolist())


def _predicted_errors(tree: Tree, domain: Domain, n: int, measured: Booleans, spread: Floats, filled: float) -> Floats:
    """Return the predicted error for each row of measured levels, with noise of standard deviations ``spread``."""
    # Splitting a node into halves whose counts have variance v moves E|N(0, v/2)| records by the distance of the
    # halves, and half of the node's at most, as below the last measured level. Categories are all at distance 1.
    weights = [(domain.metric_weights or {}).get(name, 1.0) for name in domain.columns]
    diameter = sum(weights) or 1.0
    ordered = [column.on_a_line for column in domain.columns.values()]
    spread = np.maximum(spread, 1e-300)
    precision = np.zeros(len(measured))  # of a node's count, from its children
    uncut = 0.0  # what the tree does not cut, were it cut further
    for c, cuts in enumerate(tree.cuts[-1]):
        uncut_share = max(0.0, 1.0 - 2.0**cuts / tree.sizes[c])
        uncut += weights[c] / diameter * uncut_share * (0.5 * 2.0**-cuts if ordered[c] else 1.0)
    levels = [np.full(len(measured), uncut)]
    for level in range(measured.shape[1], 0, -1):
        precision = precision + measured[:, level - 1]
        splits = filled * (tree.nodes(level) - tree.nodes(level - 1))
        c = tree.column_cut(level)
        cuts = tree.cuts[level][c]
        distance, most = 1.0, min(0.5, 2.0 ** (cuts - 1) / tree.sizes[c])
        if ordered[c]:
            distance, most = 2.0**-cuts, 0.5 * 2.0**-cuts
        with np.errstate(divide="ignore"):
            moved = splits * spread * np.sqrt(1.0 / (math.pi * precision))  # E|N(0, v/2)| = sqrt(v/pi)
        levels.append(weights[c] / diameter * np.minimum(distance * moved / n, most))
        precision = 0.5 * precision
    if len(weights) == 1 and ordered[0]:
        return np.asarray(math.sqrt(4.0 / 3.0) * np.sqrt(np.square(levels).sum(axis=0)))
    return np.asarray(np.sum(levels, axis=0))


@dataclass(frozen=True)
class Consistent:
    """The best linear unbiased estimate given the noisy counts of a tree's measured levels and the exact total (T9)."""

    tree: Tree
    measured: tuple[int, ...]
    total: float
    above: float = 1.0  # variance of the noise above the leaves, in units of that of the leaves

    def upward(self, y: Integers | Floats) -> tuple[list[Floats], list[Floats]]:
        """Return each node's estimate from what lies below it, and its variance."""
        tree, ends = self.tree, np.cumsum([self.tree.nodes(level) for level in self.measured])
        pairs = zip(self.measured, np.split(np.asarray(y, dtype=np.float64), ends[:-1]), strict=True)
        noisy = {level: part.reshape(tree.shape(level)) for level, part in pairs}
        # A node's own noisy count (variance v) and the sum over its children (variance s) are independent: their best
        # combination has weights s/(v+s), v/(v+s), variance vs/(v+s).
        values, variances = [noisy[tree.depth]], [np.ones(tree.shape(tree.depth))]
        for level in range(tree.depth - 1, -1, -1):
            value, variance = tree.up(level + 1, values[-1]), tree.up(level + 1, variances[-1])
            if level in noisy:
                gain = variance / (self.above + variance)
                value, variance = value + gain * (noisy[level] - value), self.above * gain
            values.append(value)
            variances.append(variance)
        return values[::-1], variances[::-1]

    def leaf_counts(self, values: Sequence[Floats], variances: Sequence[Floats], *, positive: bool) -> Floats:
        """Return the leaves' counts: what a sum lacks is shared by variance, from the root downwards."""
        # positive: counts are kept at least 0 on the way, and so at most their parent's; else they are unbiased.
        tree, node = self.tree, np.full((1,) * len(self.tree.sizes), float(self.total))
        for level in range(1, tree.depth + 1):
            missing = (node - tree.up(level, values[level])) / tree.up(level, variances[level])
            child = values[level] + variances[level] * tree.down(level, missing)
            if positive:
                child = np.clip(child, 0.0, tree.down(level, node))
            node = child
        return node

    @property
    def variances(self) -> list[Floats]:
        """The variance of each node's estimate from what lies below it, in units of the noise's."""
        return self.upward(np.zeros(sum(self.tree.nodes(level) for level in self.measured)))[1]

    def probabilities(self, y: Integers | Floats) -> Floats:
        """Return the leaves' probabilities: the estimates, kept non-negative from the root downwards."""
        if not self.measured:
            return np.ones(1)
        return self.leaf_counts(*self.upward(y), positive=True).ravel() / self.total

    def expected(self, counts: Floats, spread: float) -> Floats:
        """Return about the leaves' expected shares given unbiased counts, by normal noise and uniform splits."""
        # From the root down, each child has the mean of a normal law between 0 and what its parent has.
        tree, variances, values = self.tree, self.variances, [counts.reshape(self.tree.shape(self.tree.depth))]
        for level in range(tree.depth, 0, -1):
            values.append(tree.up(level, values[-1]))
        node = np.full((1,) * len(tree.sizes), self.total)
        for level, value in enumerate(values[-2::-1], 1):
            share = variances[level] / tree.down(level, tree.up(level, variances[level]))
            most, own = tree.down(level, node), np.sqrt(variances[level] * (1.0 - share))
            centre = value + share * (most - tree.down(level, tree.up(level, value)))
            below, scale = 2.0 * centre <= most, spread * np.maximum(own, 1e-9)
            least = np.where(below, -centre, centre - most) / scale  # from the nearer end, where tails are exact
            highest = least + most / scale
            chance = np.maximum(special.ndtr(-least) - special.ndtr(-highest), 1e-300)
            moved = (np.exp(-0.5 * least**2) - np.exp(-0.5 * highest**2)) / (math.sqrt(2.0 * math.pi) * chance)
            inside = np.where(most > 1e-6 * scale, scale * np.clip(moved - least, 0.0, highest - least), 0.5 * most)
            node = np.where(share < 1.0, np.where(below, inside, most - inside), most)
        return np.asarray(node.ravel() / node.sum())

    def counts(self, y: Integers | Floats) -> tuple[Floats, Floats]:
        """Return the leaves' unbiased counts, and their variances in units of the noise's."""
        tree, (values, variances) = self.tree, self.upward(y)
        counts = self.leaf_counts(values, variances, positive=False)
        error = np.zeros((1,) * len(tree.sizes))
        for level in range(1, tree.depth + 1):
            share = variances[level] / tree.down(level, tree.up(level, variances[level]))
            error = variances[level] * (1.0 - share) + share**2 * tree.down(level, error)
        return counts.ravel(), error.ravel()

    def variance(self, leaves: Floats) -> float:
        """Return the variance of the unbiased estimate of a sum of leaves, in units of the noise's."""
        # The estimates of counts y = A c + noise of inverse variances W are (A'WA)^-1 A'W y, and their covariance is
        # (A'WA)^-1: what is estimated from y of 0 above the leaves.
        above = np.zeros(sum(self.tree.nodes(level) for level in self.measured[:-1]))
        return float(leaves @ replace(self, total=0.0).counts(np.concatenate((above, leaves)))[0])


_STEP = 3  # levels from one that is counted to the next
_LEAF_Q = 2  # of the q of sums of cells, that of the cells


@dataclass(frozen=True, eq=False)
class Nodes:
    """The counts of a long ordered column: those of the nodes of every third level of a tree, down to its cells."""

    tree: Tree
    levels: tuple[int, ...]  # that are counted; a record is in one node of each

    @classmethod
    def from_size(cls, size: int) -> Nodes:
        """Return the nodes of a column of so many cells, each of which is a leaf."""
        tree = _whole((size,), (1.0,))
        return cls(tree, tuple(range(tree.depth, 0, -_STEP))[::-1])

    @property
    def copies(self) -> int:
        """How many units the table takes for one of its ``q^2``: those of all counts that a record is in."""
        return len(self.levels) - 1 + _LEAF_Q**2

    @cached_property
    def multiples(self) -> Integers:
        """Of the column's ``q``, that of each count, shape (nodes,): 2 for cells, 1 for sums of them."""
        return np.repeat([*[1] * (len(self.levels) - 1), _LEAF_Q], self.widths)

    @cached_property
    def widths(self) -> Integers:
        """How many nodes each level has."""
        return np.array([self.tree.nodes(level) for level in self.levels])

    def consistent(self, total: float) -> Consistent:
        """Return the best estimate of the cells, of so many records."""
        return Consistent(self.tree, self.levels, total, above=float(_LEAF_Q**2))

    def sums(self, cells: Integers) -> Integers:
        """Return the nodes' counts, one level after the other."""
        return node_counts(self.tree, self.levels, cells.astype(np.float64))
