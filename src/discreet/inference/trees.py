"""The confidential counts given what was released along a tree of noisy counts: docs/theory/tree-posterior.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Floats, Indices, Integers
from discreet.inference.prior import log_prior, strength_at
from discreet.mechanisms import Tree

# The part of a tree that a release tells of, as a binary tree: a node that is not opened stands undivided, one with a
# single child is that child. Of released records, nodes without any stay closed: at most one child of a split is.


@dataclass(frozen=True, slots=True)
class Splits:
    """Splits from the root downwards, and leaves in their order. The first child has no released record, or is left."""

    leaf: Indices  # shape (k,): the leaf that each leaf of the whole tree lies in
    told: Floats  # released records of each leaf, or its consistent count
    children: Indices  # shape (splits, 2, 2): for either child, the first of its leaves and the one after its last
    share: Floats  # shape (splits,): the first child's share ``w`` of an error of their parent's count
    variance: Floats  # shape (splits,): of the split's own error, in units of the noise's variance
    depth: Indices  # increasing

    @classmethod
    def from_tree(
        cls, tree: Tree, variances: list[Floats], told: Floats, opened: list[Booleans] | None = None
    ) -> Splits:
        """Return the splits of a tree by variances of upward estimates; by default nodes with records are opened."""
        sums, sizes, families = level_sums(tree, told), level_sums(tree, np.ones(len(told))), _families(tree)
        opened = [level > 0 for level in sums] if opened is None else opened
        order, leaf = tree.in_order(), np.empty(len(told), dtype=np.intp)
        found: list[tuple[int, list[tuple[int, int]], float, float]] = []
        leaves: list[float] = []
        placed = 0

        def visit(level: int, node: int, depth: int) -> None:
            nonlocal placed
            children = [node]
            while len(children) == 1 and level < tree.depth and opened[level][children[0]]:
                node, (members, starts) = children[0], families[level]
                children = members[starts[node] : starts[node + 1]].tolist()
                level += 1
            if len(children) == 1:
                size = int(sizes[level][children[0]])
                leaf[order[placed : placed + size]] = len(leaves)
                placed += size
                leaves.append(float(sums[level][children[0]]))
                return
            start, (left, right) = len(leaves), children
            visit(level, left, depth + 1)
            middle = len(leaves)
            visit(level, right, depth + 1)
            one, other = (float(variances[level].ravel()[child]) for child in (left, right))
            parts = [(start, middle), (middle, len(leaves))]
            if not sums[level][right]:
                one, other, parts = other, one, parts[::-1]
            found.append((depth, parts, one / (one + other), one * other / (one + other)))

        visit(0, 0, 0)
        found.sort(key=lambda split: split[0])
        depth, children, share, variance = ([split[i] for split in found] for i in range(4))
        pairs = np.array(children, dtype=np.intp).reshape(-1, 2, 2)
        numbers = np.array(leaves)
        return cls(leaf, numbers, pairs, np.array(share, float), np.array(variance, float), np.array(depth, np.intp))


WHOLE = 2048  # leaves, up to which a tree is divided down to them
_LEAST_MASS, _LEAST_MOMENT = 2.0**-10, 2.0**-17  # of a node that is divided: its share, or that times its width


def opened_nodes(tree: Tree, shares: Floats) -> list[Booleans]:
    """Return which nodes to divide, level by level: so that what lies within the others moves no number that counts."""
    masses, widths = level_sums(tree, shares), level_sums(tree, np.full(len(shares), 1.0 / len(shares)))
    levels = zip(masses, widths, strict=True)
    return [(mass > _LEAST_MASS) | (mass * width > _LEAST_MOMENT) for mass, width in levels]


def level_sums(tree: Tree, leaves: Floats) -> list[Floats]:
    """Return the sum over each node's leaves, level by level from the root down."""
    sums = [leaves.astype(np.float64).reshape(tree.shape(tree.depth))]
    for level in range(tree.depth, 0, -1):
        sums.append(tree.up(level, sums[-1]))
    return [level.ravel() for level in sums[::-1]]


def _families(tree: Tree) -> list[tuple[Indices, Indices]]:
    """Return, level by level, all children, left to right, and where those of each node begin."""
    families = []
    for level in range(1, tree.depth + 1):
        numbers = np.arange(float(tree.nodes(level - 1))).reshape(tree.shape(level - 1))
        parent = tree.down(level, numbers).ravel().astype(np.intp)
        members = np.argsort(parent, kind="stable")
        families.append((members, np.searchsorted(parent[members], np.arange(tree.nodes(level - 1) + 1))))
    return families


_MOST_NEAR = 65  # points of a part's law that are kept
_FEW = 64  # points of a node's lattice from 0, up to which its law given its parent's count is listed
_FINE = 4.0  # points of a node's lattice in a standard deviation, about
_REACH = 6.5  # standard deviations
_MANY = 12  # released records of a child, from which fewer nodes do
_ROUNDING = 1.0 / 6.0  # variance of what systematic draws add to a node's number
_QUADRATURE, _COARSE = np.polynomial.hermite_e.hermegauss(9), np.polynomial.hermite_e.hermegauss(5)


_Part = tuple[float, int, float]  # the mass of a part, the step of its counts, and their rate


class _Node(NamedTuple):
    """What is known of a node's count before anything is computed: it is kept at multiples of ``step``."""

    told: float
    noise: float  # variance of its estimate's error
    step: int  # a power of two
    low: float
    high: float

    @property
    def numbers(self) -> Integers:
        return np.arange(math.ceil(self.low / self.step), max(self.low, self.high) // self.step + 1).astype(np.int64)


class TreeCounts:
    """Counts of the leaves of ``splits``, with prior masses ``alpha``, given what was released along the tree."""

    # spread: standard deviation of a node's noise; sampling: how records were drawn, none where counts were released;
    # start: of the strengths of the splits' laws, as that of a prior; none where the leaves have one law.

    def __init__(
        self,
        alpha: Floats,
        records: int,
        splits: Splits,
        *,
        spread: float,
        sampling: str | None,
        start: float | None = None,
    ) -> None:
        self._alpha, self._records, self._splits, self._sampling = alpha, records, splits, sampling
        self._size = float(splits.told.sum())
        self._each = records / self._size
        self._rounding = 0.0 if sampling is None else _ROUNDING * self._each**2
        self._variance = splits.variance * spread**2
        self._upto = np.concatenate(([0.0], np.cumsum(splits.told)))
        self._nodes: dict[tuple[int, int], _Node] = {}
        root, upto = (0, len(alpha)), np.concatenate(([0.0], np.cumsum(alpha)))
        self._masses: dict[tuple[int, int], float] = {}
        self._strengths: dict[tuple[int, int], float] = {}
        self._near: dict[_Part, Floats] = {}  # laws of few steps
        self._together: dict[tuple[_Part, _Part], Floats] = {}
        self._pairs = [((a, b), (c, d), (min(a, c), max(b, d))) for (a, b), (c, d) in splits.children.tolist()]
        for (one, other, parent), depth in zip(self._pairs, splits.depth.tolist(), strict=True):
            mass = upto[parent[1]] - upto[parent[0]]
            self._strengths[parent] = _rounded(mass if start is None else strength_at(depth, start))
            for child in (one, other):
                self._masses[child] = _rounded(self._strengths[parent] * (upto[child[1]] - upto[child[0]]) / mass)
        self._nodes[root] = _Node(self._size, 0.0, 1, float(records), float(records))
        for split in range(len(splits.depth)):
            self._place(split)
        for one, other, parent in reversed(self._pairs):  # sums of counts are multiples of the finer step
            if parent != root:
                least = min(self._nodes[one].step, self._nodes[other].step)
                node = self._nodes[parent]
                self._nodes[parent] = node._replace(step=max(node.step, least))
        self._below: dict[tuple[int, int], Floats] = {}
        for split, (*_, parent) in reversed([*enumerate(self._pairs)]):
            node = self._nodes[parent]
            logs = self._logs(split, node.step * node.numbers.astype(np.float64))
            largest = logs.max(axis=1)
            self._below[parent] = largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1))

    @property
    def log(self) -> float:
        """The logarithm of the weight of all counts."""
        return float(self._below[0, len(self._alpha)][0]) if self._below else 0.0

    @property
    def step(self) -> int:
        """The largest step in which a count is followed."""
        return max(node.step for node in self._nodes.values())

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the leaves' counts, a row each."""
        counts = {(0, len(self._alpha)): np.full(draws, float(self._records))}
        for split, (*_, parent) in enumerate(self._pairs):
            listed, derived = self._by_step(split)
            sums, node = counts.pop(parent), self._nodes[listed]
            held, row = np.unique(sums, return_inverse=True)
            logs = self._logs(split, held)
            cumulated = np.cumsum(np.exp(logs - logs.max(axis=1)[:, None]), axis=1)
            line = (np.arange(len(held))[:, None] + cumulated / cumulated[:, -1:]).ravel()
            width = logs.shape[1]
            place = np.searchsorted(line, row + rng.random(draws), side="right") - width * row
            counts[listed] = np.minimum(node.step * node.numbers[np.minimum(place, width - 1)], sums)
            counts[derived] = sums - counts[listed]
        return np.stack([counts[leaf, leaf + 1] for leaf in range(len(self._alpha))], axis=1)

    def _by_step(self, split: int) -> list[tuple[int, int]]:
        """Return the children: before the other the one whose counts are listed, as it is known better."""
        return sorted(self._pairs[split][:2], key=lambda child: self._nodes[child].step)

    def _place(self, split: int) -> None:
        """Say where the counts of a split's children may lie."""
        one, other, parent = self._pairs[split]
        above, share = self._nodes[parent].noise, float(self._splits.share[split])
        for (start, end), own in ((one, share), (other, 1.0 - share)):
            told = float(self._upto[end] - self._upto[start])
            noise = own**2 * above + float(self._variance[split])
            sampled, more = self._rounding, 0.0
            if self._sampling == "iid":
                sampled, more = self._each**2 * (told * (1.0 - told / self._size) + 1.0), 12.0 * self._each
            spread = math.sqrt(noise + sampled)
            step = 2 ** max(0, round(math.log2(spread / _FINE)))
            centre, most = self._each * told, float(self._records)
            low = min(most, max(0.0, centre - _REACH * spread))
            high = min(most, max(0.0, centre) + _REACH * spread + more)
            self._nodes[start, end] = _Node(told, noise, step, low, high)

    def _told(self, node: tuple[int, int], counts: Floats) -> Floats:
        """Return the logarithm of what the splits below a node tell of its counts; -inf outside its lattice."""
        if node[1] - node[0] == 1:
            return np.where(counts >= 0.0, 0.0, -math.inf)
        known = self._nodes[node]
        return np.interp(counts, known.step * known.numbers, self._below[node], left=-math.inf, right=-math.inf)

    def _logs(self, split: int, sums: Floats) -> Floats:
        """Return, for each count of the parent (rows) and each of the listed child, the logarithm of their weight."""
        (listed, derived), (first, _, parent) = self._by_step(split), self._pairs[split]
        numbers, step = self._nodes[listed].numbers, self._nodes[listed].step
        at, whole = step * numbers.astype(np.float64), np.rint(sums / step).astype(np.int64)
        rest = whole[:, None] - numbers
        low, high = max(0, int(rest.min())), max(0, int(rest.max()))
        strength = self._strengths[parent]
        guess = 2.0 ** round(math.log2(max(0.5, self._each * self._nodes[parent].told)))
        rate = -math.log1p(strength / guess) if step > 1 else 0.0  # makes parts vary little
        one, other = (self._masses[listed], step, rate), (self._masses[derived], step, rate)
        told = self._told(derived, step * np.arange(low, high + 1.0)) + self._law(*other, low, high) - math.log(step)
        logs = np.where(rest < 0, -math.inf, told[np.maximum(rest - low, 0)])
        logs += self._told(listed, at) + self._law(*one, int(numbers[0]), int(numbers[-1]))
        together = log_prior(strength, sums, 1, rate)
        if step > 1:
            few = whole < _FEW
            together[few] = self._sum(one, other)[whole[few]]
        firsts = at if listed == first else sums[:, None] - at
        return np.maximum(logs - together[:, None] + self._log_split(split, firsts, sums[:, None]), -1e300)

    def _law(self, mass: float, step: int, rate: float, low: int, high: int) -> Floats:
        """Return the logarithms of a part's weight at the lattice's numbers from ``low`` to ``high``."""
        key = mass, step, rate
        if key not in self._near:
            self._near[key] = log_prior(mass, step * np.arange(float(_MOST_NEAR)), step, rate)
        near = self._near[key][low : high + 1]
        if high < _MOST_NEAR:
            return near
        far = step * np.arange(max(low, _MOST_NEAR), high + 1.0)
        return np.concatenate((near, log_prior(mass, far, step, rate)))

    def _sum(self, one: _Part, other: _Part) -> Floats:
        """Return the logarithms of what all pairs weigh, by their sum: there rounded laws add up to no law."""
        if (one, other) not in self._together:
            rest = np.arange(_FEW)[:, None] - np.arange(_FEW + 1)
            logs = self._law(*other, 0, _FEW)[np.maximum(rest, 0)] - math.log(one[1]) + self._law(*one, 0, _FEW)
            self._together[one, other] = np.logaddexp.reduce(np.where(rest < 0, -math.inf, logs), axis=1)
        return self._together[one, other]

    def _log_split(self, split: int, one: Floats, sums: Floats) -> Floats:
        """Return the log-likelihood of what a split tells, given the counts of its first child and of both."""
        first, _, above = self._pairs[split]
        parent = self._nodes[above]
        told, both, share = self._nodes[first].told, parent.told, float(self._splits.share[split])
        variance = float(self._variance[split])
        if self._sampling != "iid":
            estimate = one + share * (self._each * both - sums)  # of the first child, but for the split's own error
            apart = (self._each * told - estimate) / math.sqrt(variance + self._rounding)
            return _log_below(apart) if self._sampling and told == 0 else -0.5 * apart**2
        spread = math.sqrt(variance + (told / both - share) ** 2 * parent.noise)
        return _log_drawn(told, both, one, np.maximum(sums, 1.0), spread)


def _rounded(mass: float) -> float:
    """Return a mass without what rounding makes different of equal ones."""
    return float(f"{mass:.12g}")


def _log_drawn(drawn: float, both: float, one: Floats, sums: Floats, spread: float) -> Floats:
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
