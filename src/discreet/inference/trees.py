"""The confidential counts given what was released along a tree of noisy counts: docs/theory/tree-posterior.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet._core.lazy import special
from discreet._core.numeric import Booleans, Floats, Indices, Integers
from discreet.inference.prior import Strength, above_atom, log_prior
from discreet.mechanisms import Tree

# The part of a tree that a release tells of, as a binary tree: a node that is not opened stands undivided, one with a
# single child is that child. Of released records, nodes without any stay closed: at most one child of a split is.


@dataclass(frozen=True, slots=True)
class Splits:
    """Splits from the root downwards, and leaves in their order. The first child has no released record, or is left."""

    leaf: Indices  # shape (k,): the leaf that each leaf of the whole tree lies in
    evidence: Floats  # released records of each leaf, or its consistent count
    children: Indices  # shape (splits, 2, 2): for either child, the first of its leaves and the one after its last
    share: Floats  # shape (splits,): the first child's share ``w`` of an error of their parent's count
    variance: Floats  # shape (splits,): of the split's own error, in units of the noise's variance
    depth: Indices  # increasing
    sampling: str | None = None  # how records were drawn, if any

    @classmethod
    def from_tree(
        cls, tree: Tree, variances: list[Floats], evidence: Floats, sampling: str | None, opened: list[Booleans]
    ) -> Splits:
        """Return the splits of a tree, of nodes that are opened, by variances of upward estimates."""
        sums, sizes, levels = level_sums(tree, evidence), level_sums(tree, np.ones(len(evidence))), _families(tree)
        rows: list[tuple[int, list[tuple[int, int]], float, float]] = []
        leaves: list[tuple[float, float]] = []  # the evidence of each, and its size

        def visit(level: int, node: int, depth: int) -> None:
            children = [node]
            while len(children) == 1 and level < tree.depth and opened[level][children[0]]:
                members, starts = levels[level]
                children = members[starts[children[0]] : starts[children[0] + 1]].tolist()
                level += 1
            if len(children) == 1:
                leaves.append((sums[level][children[0]], sizes[level][children[0]]))
                return
            start = len(leaves)
            visit(level, children[0], depth + 1)
            middle = len(leaves)
            visit(level, children[1], depth + 1)
            parts = [(start, middle), (middle, len(leaves))]
            if not sums[level][children[1]]:
                children, parts = children[::-1], parts[::-1]
            a, b = (float(variances[level].ravel()[child]) for child in children)
            rows.append((depth, parts, a / (a + b), a * b / (a + b)))

        visit(0, 0, 0)
        rows.sort(key=lambda row: row[0])
        depths, pairs, shares, errors = (np.array([row[i] for row in rows]) for i in range(4))
        pairs, (own, lengths) = pairs.astype(np.intp).reshape(-1, 2, 2), np.transpose(leaves)
        leaf = np.repeat(np.arange(len(leaves)), lengths.astype(np.intp))[np.argsort(tree.in_order())]
        return cls(leaf, own, pairs, shares, errors, depths.astype(np.intp), sampling)


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


WHOLE = 2048  # leaves, up to which a tree is divided down to them
_FEW = 64  # points of a node's lattice from 0, up to which its law given its parent's count is listed
_FINE = 4.0  # points of a node's lattice in a standard deviation, about
_REACH = 6.5  # standard deviations
_MANY = 12  # released records of a child, from which fewer nodes do
_ROUNDING = 1.0 / 6.0  # variance of what systematic draws add to a node's number
_QUADRATURE, _COARSE = np.polynomial.hermite_e.hermegauss(9), np.polynomial.hermite_e.hermegauss(5)
_Span = tuple[int, int]  # a node's first leaf, and the one after its last
_Part = tuple[float, int, float]  # the mass of a part, the step of its counts, and their rate


class _Node(NamedTuple):
    """What is known of a node's count before anything is computed: it is kept at multiples of a power of two."""

    evidence: float
    noise: float  # variance of its estimate's error
    step: int
    low: float
    high: float

    @property
    def numbers(self) -> Integers:
        return np.arange(math.ceil(self.low / self.step), max(self.low, self.high) // self.step + 1).astype(np.int64)


class TreeCounts:
    """Counts of the leaves of ``splits``, with prior masses ``alpha``, given what was released along the tree."""

    # spread: standard deviation of a node's noise; strength: of the splits' laws; none where the leaves have one law.

    def __init__(
        self,
        alpha: Floats,
        records: int,
        splits: Splits,
        *,
        spread: float,
        strength: Strength | None = None,
        atoms: Booleans | None = None,  # which leaves hold some
    ) -> None:
        self._records, self._splits, self._sampling = records, splits, splits.sampling
        self._size = float(splits.evidence.sum())
        self._each = records / self._size
        self._rounding = 0.0 if splits.sampling is None else _ROUNDING * self._each**2
        self._variance = splits.variance * spread**2
        self._root = (0, len(alpha))
        self._nodes: dict[_Span, _Node] = {self._root: _Node(self._size, 0.0, 1, records, records)}
        self._laws: dict[_Part, Floats] = {}
        self._pair_laws: dict[tuple[_Part, _Part], Floats] = {}
        self._pairs = [((a, b), (c, d), (min(a, c), max(b, d))) for (a, b), (c, d) in splits.children.tolist()]
        self._masses: dict[_Span, float] = {}
        self._strengths: dict[_Span, float] = {}
        parts = (alpha, splits.evidence, np.zeros(len(alpha)) if atoms is None else atoms)
        totals, evidence, heaps = (np.concatenate(([0.0], np.cumsum(part))) for part in parts)
        for split, (*children, parent) in enumerate(self._pairs):
            mass = totals[parent[1]] - totals[parent[0]]
            law = above_atom if heaps[parent[1]] > heaps[parent[0]] else strength
            self._strengths[parent] = _rounded(mass if law is None else law(splits.depth[split]))
            for (first, end), share in zip(children, (splits.share[split], 1.0 - splits.share[split]), strict=True):
                self._masses[first, end] = _rounded(self._strengths[parent] * (totals[end] - totals[first]) / mass)
                noise = share**2 * self._nodes[parent].noise + self._variance[split]
                self._nodes[first, end] = self._node(float(evidence[end] - evidence[first]), float(noise))
        for *children, parent in self._pairs[:0:-1]:  # sums of counts are multiples of the finer step
            node, least = self._nodes[parent], min(self._nodes[child].step for child in children)
            self._nodes[parent] = node._replace(step=max(node.step, least))
        self._below: dict[_Span, Floats] = {}
        for split in reversed(range(len(self._pairs))):
            node = self._nodes[self._pairs[split][2]]
            logs = self._logs(split, node.step * node.numbers.astype(np.float64))
            largest = logs.max(axis=1)
            self._below[self._pairs[split][2]] = largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1))
        self.log = float(self._below.get(self._root, np.zeros(1))[0])  # the logarithm of the weight of all counts
        self.step = max(node.step for node in self._nodes.values())  # the largest in which a count is followed

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the leaves' counts, a row each."""
        counts = {self._root: np.full(draws, float(self._records))}
        for split, (*_, parent) in enumerate(self._pairs):
            listed, derived = self._by_step(split)
            sums, node = counts.pop(parent), self._nodes[listed]
            values, row = np.unique(sums, return_inverse=True)
            logs = self._logs(split, values)
            cumulated = np.cumsum(np.exp(logs - logs.max(axis=1)[:, None]), axis=1)
            line = (np.arange(len(values))[:, None] + cumulated / cumulated[:, -1:]).ravel()
            width = logs.shape[1]
            place = np.searchsorted(line, row + rng.random(draws), side="right") - width * row
            counts[listed] = np.minimum(node.step * node.numbers[np.minimum(place, width - 1)], sums)
            counts[derived] = sums - counts[listed]
        return np.stack([counts[leaf, leaf + 1] for leaf in range(self._root[1])], axis=1)

    def _by_step(self, split: int) -> list[_Span]:
        """Return the children: before the other the one whose counts are listed, as it is known better."""
        return sorted(self._pairs[split][:2], key=lambda child: self._nodes[child].step)

    def _node(self, evidence: float, noise: float) -> _Node:
        """Return where a node's counts may lie."""
        sampled, more = self._rounding, 0.0
        if self._sampling == "iid":
            sampled, more = self._each**2 * (evidence * (1.0 - evidence / self._size) + 1.0), 12.0 * self._each
        spread, centre = math.sqrt(noise + sampled), self._each * evidence
        low, high = centre - _REACH * spread, max(0.0, centre) + _REACH * spread + more
        step = 2 ** max(0, round(math.log2(spread / _FINE)))
        return _Node(evidence, noise, step, min(self._records, max(0.0, low)), min(self._records, high))

    def _told(self, span: _Span, counts: Floats) -> Floats:
        """Return the logarithm of what the splits below a node tell of its counts; -inf outside its lattice."""
        if span[1] - span[0] == 1:
            return np.where(counts >= 0.0, 0.0, -math.inf)
        node = self._nodes[span]
        return np.interp(counts, node.step * node.numbers, self._below[span], left=-math.inf, right=-math.inf)

    def _logs(self, split: int, sums: Floats) -> Floats:
        """Return, for each count of the parent (rows) and each of the listed child, the logarithm of their weight."""
        (listed, derived), parent = self._by_step(split), self._pairs[split][2]
        numbers, step, strength = self._nodes[listed].numbers, self._nodes[listed].step, self._strengths[parent]
        counts, totals = step * numbers.astype(np.float64), np.rint(sums / step).astype(np.int64)
        remainders = totals[:, None] - numbers
        low, high = max(0, int(remainders.min())), max(0, int(remainders.max()))
        guess = 2.0 ** round(math.log2(max(0.5, self._each * self._nodes[parent].evidence)))
        rate = -math.log1p(strength / guess) if step > 1 else 0.0  # makes parts vary little
        part, sibling = (self._masses[listed], step, rate), (self._masses[derived], step, rate)
        logs = self._told(derived, step * np.arange(low, high + 1.0)) + self._law(sibling, low, high) - math.log(step)
        logs = np.where(remainders < 0, -math.inf, logs[np.maximum(remainders - low, 0)])
        logs += self._told(listed, counts) + self._law(part, int(numbers[0]), int(numbers[-1]))
        pairs = log_prior(strength, sums, 1, rate)
        if step > 1:
            small = totals < _FEW
            pairs[small] = self._pair_law(part, sibling)[totals[small]]
        counts = np.broadcast_to(counts, remainders.shape)
        if listed != self._pairs[split][0]:
            counts = sums[:, None] - counts
        return np.maximum(logs - pairs[:, None] + self._log_split(split, counts, sums[:, None]), -1e300)

    def _law(self, part: _Part, low: int, high: int) -> Floats:
        """Return the logarithms of a part's weight at the lattice's numbers from ``low`` to ``high``."""
        mass, step, rate = part
        if part not in self._laws:  # the first numbers, which take longest
            self._laws[part] = log_prior(mass, step * np.arange(_FEW + 1.0), step, rate)
        beyond = step * np.arange(max(low, _FEW + 1), high + 1.0)
        return np.concatenate((self._laws[part][low : high + 1], log_prior(mass, beyond, step, rate)))

    def _pair_law(self, part: _Part, sibling: _Part) -> Floats:
        """Return the logarithms of what all pairs weigh, by their sum: there rounded laws add up to no law."""
        if (part, sibling) not in self._pair_laws:
            remainders = np.arange(_FEW)[:, None] - np.arange(_FEW + 1)
            logs = self._law(sibling, 0, _FEW)[np.maximum(remainders, 0)] - math.log(part[1]) + self._law(part, 0, _FEW)
            self._pair_laws[part, sibling] = np.logaddexp.reduce(np.where(remainders < 0, -math.inf, logs), axis=1)
        return self._pair_laws[part, sibling]

    def _log_split(self, split: int, counts: Floats, sums: Floats) -> Floats:
        """Return the log-likelihood of what a split tells, given the counts of its first child and of both."""
        node, parent = self._nodes[self._pairs[split][0]], self._nodes[self._pairs[split][2]]
        share, variance = float(self._splits.share[split]), float(self._variance[split])
        if self._sampling == "iid":
            spread = math.sqrt(variance + (node.evidence / parent.evidence - share) ** 2 * parent.noise)
            return _log_drawn(node.evidence, parent.evidence, counts, np.maximum(sums, 1.0), spread)
        estimate = counts + share * (self._each * parent.evidence - sums)  # but for the split's own error
        distance = (self._each * node.evidence - estimate) / math.sqrt(variance + self._rounding)
        if self._sampling and node.evidence == 0:
            return np.asarray(special.log_ndtr(distance))
        return -0.5 * distance**2


def _rounded(mass: float) -> float:
    """Return a mass without what rounding makes different of equal ones."""
    return float(f"{mass:.12g}")


def _log_drawn(drawn: float, both: float, one: Floats, sums: Floats, spread: float) -> Floats:
    """Return the log-probability that so many of ``both`` records fall on a child, whose estimate has an error."""
    if both - drawn < drawn:
        drawn, one = both - drawn, sums - one
    if drawn == 0:  # the estimate is 0 or less, or none of the records falls on it
        tilt, x = spread * both / sums, one / spread
        more = special.log_ndtr(x - tilt) - x * tilt + 0.5 * tilt**2
        return np.asarray(np.logaddexp(special.log_ndtr(-x), np.minimum(more, 0.0)))
    nodes, weights = _QUADRATURE if drawn < _MANY else _COARSE
    total = np.zeros(np.broadcast_shapes(one.shape, sums.shape))
    # where the noise is wider than the law of the share given the records
    if (spread / float(sums.mean())) ** 2 * both**3 > drawn * (both - drawn):
        shares = special.betaincinv(drawn + 1.0, both - drawn + 1.0, special.ndtr(nodes))
        for share, weight in zip(shares, weights, strict=True):
            total += weight * np.exp(-0.5 * ((share * sums - one) / spread) ** 2)
        return np.log(np.maximum(total, 1e-300) * sums)
    rest = both - drawn
    most = drawn * math.log(drawn / both) + rest * math.log(rest / both)
    for node, weight in zip(nodes, weights, strict=True):
        share = np.clip((one + node * spread) / sums, 1e-12, 1.0 - 1e-12)
        total += weight * np.exp(drawn * np.log(share) + rest * np.log1p(-share) - most)
    return np.log(np.maximum(total, 1e-300))
