"""The confidential counts given records drawn along a tree of noisy counts, nearly: docs/theory/tree-posterior.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet.inference.prior import log_prior, strength_at
from discreet.inference.sums import each_once
from discreet.mechanisms import Tree

# The part of a tree that released records reach, as a binary tree: a node without any stands undivided, one with a
# single child is that child, and at most one child of a split is without released records.


@dataclass(frozen=True, slots=True)
class Splits:
    """Splits from the root downwards, and leaves in their order. The first child has no released record, or is left."""

    leaf: Indices  # shape (k,): the leaf that each leaf of the whole tree lies in
    drawn: Integers  # released records of each leaf
    children: Indices  # shape (splits, 2, 2): for either child, the first of its leaves and the one after its last
    share: Floats  # shape (splits,): the first child's share ``w`` of an error of their parent's count
    variance: Floats  # shape (splits,): of the split's own error, in units of the noise's variance
    depth: Indices  # increasing

    @classmethod
    def from_tree(cls, tree: Tree, variances: list[Floats], drawn: Integers) -> Splits:
        """Return the splits of a tree with so many released records of each leaf, by variances of upward estimates."""
        held, sizes, families = _levels(tree, drawn)
        order, leaf = tree.in_order(), np.empty(len(drawn), dtype=np.intp)
        found: list[tuple[int, list[tuple[int, int]], float, float]] = []
        leaves: list[int] = []
        placed = 0

        def visit(level: int, node: int, depth: int) -> None:
            nonlocal placed
            while level < tree.depth and held[level][node] and len(families[level][node]) == 1:
                level, node = level + 1, families[level][node][0]
            if level == tree.depth or not held[level][node]:
                size = sizes[level][node]
                leaf[order[placed : placed + size]] = len(leaves)
                placed += size
                leaves.append(held[level][node])
                return
            start, (left, right) = len(leaves), families[level][node]
            visit(level + 1, left, depth + 1)
            middle = len(leaves)
            visit(level + 1, right, depth + 1)
            one, other = (float(variances[level + 1].ravel()[child]) for child in (left, right))
            parts = [(start, middle), (middle, len(leaves))]
            if not held[level + 1][right]:
                one, other, parts = other, one, parts[::-1]
            found.append((depth, parts, one / (one + other), one * other / (one + other)))

        visit(0, 0, 0)
        found.sort(key=lambda split: split[0])
        depth, children, share, variance = ([split[i] for split in found] for i in range(4))
        pairs = np.array(children, dtype=np.intp).reshape(-1, 2, 2)
        numbers = np.array(leaves, dtype=np.int64)
        return cls(leaf, numbers, pairs, np.array(share, float), np.array(variance, float), np.array(depth, np.intp))


def _levels(tree: Tree, drawn: Integers) -> tuple[list[list[int]], list[list[int]], list[list[list[int]]]]:
    """Return, level by level, the released records and the leaves of each node, and its children, left to right."""
    held: list[Floats] = [drawn.astype(np.float64).reshape(tree.shape(tree.depth))]
    sizes: list[Floats] = [np.ones(tree.shape(tree.depth))]
    families: list[list[list[int]]] = []
    for level in range(tree.depth, 0, -1):
        held.append(tree.up(level, held[-1]))
        sizes.append(tree.up(level, sizes[-1]))
        numbers = np.arange(tree.nodes(level - 1)).reshape(tree.shape(level - 1)).astype(np.float64)
        family: list[list[int]] = [[] for _ in range(tree.nodes(level - 1))]
        for child, parent in enumerate(tree.down(level, numbers).ravel().astype(int).tolist()):
            family[parent].append(child)
        families.append(family)

    def plain(values: list[Floats]) -> list[list[int]]:
        return [np.rint(level).astype(int).ravel().tolist() for level in values[::-1]]

    return plain(held), plain(sizes), families[::-1]


_FEW = 64  # points of a node's lattice from 0, up to which its law given its parent's count is listed
_FINE = 6.0  # points of a node's lattice in a standard deviation
_REACH = 8.0  # standard deviations
_MANY = 12  # released records of a child, from which fewer nodes do
_ROUNDING = 1.0 / 6.0  # variance of what systematic draws add to a node's number
_QUADRATURE, _COARSE = np.polynomial.hermite_e.hermegauss(9), np.polynomial.hermite_e.hermegauss(5)


class _Node(NamedTuple):
    """What is known of a node's count before anything is computed."""

    drawn: int
    noise: float  # variance of its estimate's error
    at: Floats  # the counts at which the weights of what lies below are kept
    step: int


class TreeRecords:
    """Counts of the leaves of ``splits``, with prior masses ``alpha``, given records drawn along the tree."""

    # spread: standard deviation of a node's noise; stratified: whether the records were drawn systematically along the
    # tree; start: of the strengths of the splits' laws, as that of a prior; none where the leaves have one law.

    def __init__(
        self,
        alpha: Floats,
        records: int,
        splits: Splits,
        *,
        spread: float,
        stratified: bool,
        start: float | None = None,
    ) -> None:
        self._alpha, self._records, self._splits, self._stratified = alpha, records, splits, stratified
        self._size = int(splits.drawn.sum())
        self._each = records / self._size
        self._variance = splits.variance * spread**2
        self._upto = np.concatenate(([0], np.cumsum(splits.drawn)))
        self._nodes: dict[tuple[int, int], _Node] = {}
        root = (0, len(alpha))
        self._masses: dict[tuple[int, int], float] = {}
        self._strengths: dict[tuple[int, int], float] = {}
        for split, depth in enumerate(splits.depth.tolist()):
            parent = self._parent(split)
            mass = float(alpha[slice(*parent)].sum())
            self._strengths[parent] = mass if start is None else strength_at(depth, start)
            for child in self._children(split):
                self._masses[child] = self._strengths[parent] * float(alpha[slice(*child)].sum()) / mass
        self._nodes[root] = _Node(self._size, 0.0, np.array([float(records)]), 1)
        for split in range(len(splits.depth)):
            self._place(split)
        self._below: dict[tuple[int, int], Floats] = {}
        for split in reversed(range(len(splits.depth))):
            parent = self._parent(split)
            logs = self._logs(split, self._nodes[parent].at)
            largest = logs.max(axis=1)
            self._below[parent] = largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1))

    @property
    def log(self) -> float:
        """The logarithm of the weight of all counts."""
        return float(self._below[0, len(self._alpha)][0]) if self._below else 0.0

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the leaves' counts, a row each."""
        counts = {(0, len(self._alpha)): np.full(draws, float(self._records))}
        for split in range(len(self._splits.depth)):
            listed, derived = self._by_step(split)
            sums = counts.pop(self._parent(split))
            held, row = np.unique(sums, return_inverse=True)
            logs = self._logs(split, held)
            cumulated = np.cumsum(np.exp(logs - logs.max(axis=1)[:, None]), axis=1)[row]
            place = np.count_nonzero(cumulated <= (cumulated[:, -1] * rng.random(draws))[:, None], axis=1)
            counts[listed] = np.minimum(self._nodes[listed].at[place], sums)
            counts[derived] = sums - counts[listed]
        return np.stack([counts[leaf, leaf + 1] for leaf in range(len(self._alpha))], axis=1)

    def _children(self, split: int) -> tuple[tuple[int, int], tuple[int, int]]:
        (a, b), (c, d) = self._splits.children[split].tolist()
        return (a, b), (c, d)

    def _parent(self, split: int) -> tuple[int, int]:
        first, second = self._children(split)
        return min(first[0], second[0]), max(first[1], second[1])

    def _by_step(self, split: int) -> list[tuple[int, int]]:
        """Return the children: before the other the one whose counts are listed, as it is known better."""
        return sorted(self._children(split), key=lambda child: self._nodes[child].step)

    def _place(self, split: int) -> None:
        """Say where the counts of a split's children may lie."""
        above, share = self._nodes[self._parent(split)].noise, float(self._splits.share[split])
        for (start, end), own in zip(self._children(split), (share, 1.0 - share), strict=True):
            drawn = int(self._upto[end] - self._upto[start])
            noise = own**2 * above + float(self._variance[split])
            sampled, more = drawn * (1.0 - drawn / self._size) + 1.0, 12.0 * self._each
            if self._stratified:
                sampled, more = _ROUNDING, 0.0
            spread = math.sqrt(noise + self._each**2 * sampled)
            step = max(1, int(spread / _FINE))
            centre = self._each * drawn
            low = max(0.0, centre - _REACH * spread)
            high = min(float(self._records), centre + _REACH * spread + more)
            at = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1.0)
            self._nodes[start, end] = _Node(drawn, noise, np.minimum(at, self._records), step)

    def _told(self, node: tuple[int, int], counts: Floats) -> Floats:
        """Return the logarithm of what the splits below a node tell of its counts; -inf outside its lattice."""
        if node[1] - node[0] == 1:
            return np.where(counts >= 0.0, 0.0, -math.inf)
        return np.interp(counts, self._nodes[node].at, self._below[node], left=-math.inf, right=-math.inf)

    def _logs(self, split: int, sums: Floats) -> Floats:
        """Return, for each count of the parent (rows) and each of the listed child, the logarithm of their weight."""
        listed, derived = self._by_step(split)
        node = self._nodes[listed]
        counts = {listed: node.at, derived: sums[:, None] - node.at}
        told = self._told(listed, node.at) + self._told(derived, counts[derived])
        told = told + self._log_split(split, counts[self._children(split)[0]], sums[:, None])
        return np.maximum(self._log_prior(split, listed, derived, sums) + told, -1e300)

    def _log_prior(self, split: int, listed: tuple[int, int], other: tuple[int, int], sums: Floats) -> Floats:
        """Return the logarithm of the law of the listed child's count, rounded to its lattice, given its parent's."""
        node, parent = self._nodes[listed], self._parent(split)
        strength = self._strengths[parent]
        rate = -math.log1p(strength / max(0.5, self._each * self._nodes[parent].drawn))  # makes parts vary little

        def pairs(at: Floats, sums: Floats) -> Floats:
            """Return a step's sum of the listed child, and the other one's mean over a step."""
            own = log_prior(self._masses[listed], at, node.step, rate)

            def mean(counts: Integers) -> Floats:
                logs = log_prior(self._masses[other], np.maximum(counts, 0).astype(np.float64), node.step, rate)
                return np.where(counts < 0, -math.inf, logs - math.log(node.step))

            rest = (sums[:, None] - at).astype(np.int64)
            return np.asarray(own + each_once(mean, rest.ravel()).reshape(rest.shape))

        whole = log_prior(strength, sums, 1, rate)
        few = sums < _FEW * node.step
        if node.step > 1 and few.any():  # there the sum of rounded laws is no law of its own
            whole[few] = np.logaddexp.reduce(pairs(node.step * np.arange(_FEW + 1.0), sums[few]), axis=1)
        return pairs(node.at, sums) - whole[:, None]

    def _log_split(self, split: int, one: Floats, sums: Floats) -> Floats:
        """Return the log-likelihood of a split of released records, given the counts of its first child and of both."""
        first = self._children(split)[0]
        parent = self._nodes[self._parent(split)]
        drawn, both, share = self._nodes[first].drawn, parent.drawn, float(self._splits.share[split])
        variance = float(self._variance[split])
        if self._stratified:
            estimate = one + share * (self._each * both - sums)  # of the first child, but for the split's own error
            spread = math.sqrt(variance + _ROUNDING * self._each**2)
            apart = (self._each * drawn - estimate) / spread
            return _log_below(apart) if drawn == 0 else -0.5 * apart**2
        spread = math.sqrt(variance + (drawn / both - share) ** 2 * parent.noise)
        return _log_drawn(drawn, both, one, np.maximum(sums, 1.0), spread)


def _log_drawn(drawn: int, both: int, one: Floats, sums: Floats, spread: float) -> Floats:
    """Return the log-probability that so many of ``both`` records fall on a child, whose estimate has an error."""
    if both - drawn < drawn:
        drawn, one = both - drawn, sums - one
    if drawn == 0:  # the estimate is 0 or less, or none of the records falls on it
        tilt, x = spread * both / sums, one / spread
        return np.logaddexp(_log_below(-x), np.minimum(_log_below(x - tilt) - x * tilt + 0.5 * tilt**2, 0.0))
    nodes, weights = _QUADRATURE if drawn < _MANY else _COARSE
    total = np.zeros(np.broadcast_shapes(one.shape, sums.shape))
    if (spread / float(sums.mean())) ** 2 * both**3 > drawn * (both - drawn):
        from scipy.special import betaincinv, ndtr  # the noise is wider than the law of the share given the records

        for share, weight in zip(betaincinv(drawn + 1.0, both - drawn + 1.0, ndtr(nodes)), weights, strict=True):
            total += weight * np.exp(-0.5 * ((share * sums - one) / spread) ** 2)
        return np.log(np.maximum(total, 1e-300) * sums)
    rest = both - drawn
    most = drawn * math.log(drawn / both) + rest * math.log(rest / both)
    for node, weight in zip(nodes, weights, strict=True):
        share = np.clip((one + node * spread) / sums, 1e-12, 1.0 - 1e-12)
        total += weight * np.exp(drawn * np.log(share) + rest * np.log1p(-share) - most)
    return np.log(np.maximum(total, 1e-300))


def _log_below(x: Floats) -> Floats:
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(x))
