"""Chains over counts and released shares where records were drawn along a tree of noisy counts.

Theory: docs/theory/tree-posterior.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Floats, Indices, Integers
from discreet.inference._chains.model import Model, apportion
from discreet.inference._chains.pairs import move
from discreet.inference._chains.splits import Splits

__all__ = ["TreeRecords"]

_REACH = 12.0  # standard deviations of normal noise beyond which no count is looked for
_TINY = 1e-300
_LEAST = 0.1  # records; noise below leaves no doubt about a count, and chains that are held that tightly do not move
_STEPS = 8  # of a slice sampler; few pairs need more, and they wait for the next sweep


class TreeRecords(Model):
    r"""Counts of the leaves and the positive estimates that records were drawn from, both latent.

    ``alpha``, shape (k,): Prior masses of the tree's leaves.
    ``records``: number of confidential records, ``n``.
    ``splits``: what the released records reach of the tree.
    ``spread``: standard deviation of the noise of a node, in records; positive.
    ``stratified``: whether the records were drawn systematically along the tree.

    Notes
    -----
    In a split of ``v`` into a first child ``c`` and a second one, the estimates ``u`` are
    ``u_c = max(x_c, 0)`` with ``x_c = C_c + w (u_v - C_v) + e_v``, and the second child's is the rest. The errors
    ``e_v`` are uncorrelated, with variances in the ratio that ``Splits`` holds; here they are independent and normal.
    The state is ``C`` and ``x`` of the leaves (``x = u`` but for a leaf without released records, where it may be
    negative), and for stratified records the offset of the systematic draws.
    """

    def __init__(self, alpha: Floats, records: int, splits: Splits, *, spread: float, stratified: bool) -> None:
        super().__init__(np.asarray(np.bincount(splits.leaf, weights=alpha), dtype=np.float64), records)
        self._all, self._splits, self._stratified = alpha, splits, stratified
        self._drawn = splits.drawn.astype(np.float64)
        self._size = int(splits.drawn.sum())
        self._rounds = 6 if 4 * self._size < records else 2  # of few records the release says more than of the noise
        # an empty leaf is as likely as about that many orders of magnitude, under fixed estimates and along with them
        self._spike = np.clip(1.0 / self.alpha, 0.5, 50.0)
        self._room = np.clip(self._spike / (1.0 + self._drawn), 0.5, 50.0)
        self._variance = splits.variance * max(spread, _LEAST) ** 2
        self._pull = splits.pull
        scaled = splits.pull / np.append(self._variance, 1.0)[splits.path]
        self._scaled = scaled
        stiffness = np.cumsum((splits.pull * scaled)[:, ::-1], axis=1)[:, ::-1]
        self._stiffness = np.concatenate((stiffness, np.zeros((len(stiffness), 1))), axis=1)
        self._reached = np.flatnonzero(splits.drawn)
        low, high = splits.children[:, 0, 0], splits.children[:, 0, 1]
        self._lone = (high - low == 1) & (splits.drawn[low] == 0)  # first children without released records
        self._levels = np.split(np.arange(len(splits.depth)), np.flatnonzero(np.diff(splits.depth)) + 1)
        self._ends = np.cumsum(splits.drawn)
        self._cumulated = np.append(0.0, np.cumsum(1.0 + 5.0 * self._drawn / max(self._drawn.mean(), 1.0)))

    @property
    def cells(self) -> int:
        """Number of leaves of the whole tree."""
        return len(self._all)

    def masses(self, rng: np.random.Generator) -> Floats:
        """Draw the probabilities of all leaves given the counts; within what stands undivided, from the prior."""
        undivided, leaf = super().masses(rng), self._splits.leaf
        if len(self.alpha) == len(self._all):
            return undivided[:, leaf]
        order = np.argsort(leaf, kind="stable")
        starts = np.searchsorted(leaf[order], np.arange(len(self.alpha)))
        gammas = np.maximum(rng.standard_gamma(np.broadcast_to(self._all, (len(undivided), len(leaf)))), _TINY)
        sums = np.add.reduceat(gammas[:, order], starts, axis=1)
        return np.asarray(undivided[:, leaf] * gammas / sums[:, leaf])

    def start(self, chains: int, rng: np.random.Generator) -> None:
        """Begin without noise: at shares that the released records would have without it, or near where they lie."""
        if self._stratified:
            self._offset = rng.random(chains)
            ends = np.clip((self._ends + self._offset[:, None] - 0.5) / self._size, 0.0, 1.0)
            ends[:, -1] = 1.0
            self._held = self.records * np.diff(ends, axis=1, prepend=0.0)
        else:
            shape = (chains, len(self.alpha))
            gammas = np.maximum(rng.standard_gamma(np.broadcast_to(self.alpha + self._drawn, shape)), _TINY)
            self._held = self.records * gammas / gammas.sum(axis=1, keepdims=True)
        self.counts = apportion(self._held, self.records)
        if not self._stratified and (self.counts[:, self._reached] > 0).all():
            self._held = self.counts.astype(np.float64)

    def sweep(self, rng: np.random.Generator, *, tune: bool) -> None:
        """Move records with their shares, counts under fixed shares and shares over fixed counts."""
        if not self._levels:
            return
        for pairs in self._neighbours() if self._stratified else [self._at_random(rng) for _ in range(self._rounds)]:
            self._together(*pairs, rng)
        errors = self._errors()
        for level in (*reversed(self._levels), *reversed(self._levels)):  # in sparse places they are slower
            self._move_counts(level, errors, rng)
        for level in reversed(self._levels):
            self._move_shares(level, errors, rng)
        if self._stratified:
            self._move_offset(rng)

    # -- the errors of the splits ---------------------------------------------------------------------------------

    def _errors(self) -> Floats:
        """Return the errors of all splits, one row per chain, and a last column of zeros."""
        estimates = np.maximum(self._held, 0.0)
        excess = _before(estimates - self.counts)
        first, second = self._splits.children[:, 0], self._splits.children[:, 1]
        one = excess[:, first[:, 1]] - excess[:, first[:, 0]]
        other = excess[:, second[:, 1]] - excess[:, second[:, 0]]
        errors = (1.0 - self._splits.share) * one - self._splits.share * other
        lone = np.flatnonzero(self._lone)
        errors[:, lone] += np.minimum(self._held[:, first[lone, 0]], 0.0)
        return np.concatenate((errors, np.zeros((len(errors), 1))), axis=1)

    def _along(self, leaf: Indices, depth: int, errors: Floats) -> tuple[Floats, Floats]:
        """Return, below a depth, what a record more in each leaf costs: ``A g^2/2 + B g`` in negative log-density."""
        path, scaled = self._splits.path[leaf, depth + 1 :], self._scaled[leaf, depth + 1 :]
        slope = np.einsum("cpd,pd->cp", errors[:, path], scaled)
        return self._stiffness[leaf, depth + 1], slope

    def _shift(self, leaf: Indices, depth: int, gain: Floats | Integers, errors: Floats) -> None:
        """Change the errors below a depth by what ``gain`` records more in each leaf change them."""
        for t in range(depth + 1, self._splits.path.shape[1]):
            below = np.flatnonzero(self._splits.path[leaf, t] < len(self._splits.depth))
            splits = self._splits.path[leaf[below], t]
            errors[:, splits] += self._pull[leaf[below], t] * gain[:, below]

    # -- moves ----------------------------------------------------------------------------------------------------

    def _at_random(self, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """Pair the leaves at random."""
        order, half = rng.permutation(len(self.alpha)), len(self.alpha) // 2
        return order[:half], order[half : 2 * half]

    def _together(self, a: Indices, b: Indices, rng: np.random.Generator) -> None:
        """Move records between pairs of leaves along with their estimates: the errors stay as they are."""
        chains, width = len(self.counts), len(a)
        cells_a, cells_b = np.tile(a, chains), np.tile(b, chains)
        first, held_a, held_b = self.counts[:, a].ravel(), self._held[:, a].ravel(), self._held[:, b].ravel()
        total = np.where((held_a > 0) & (held_b > 0), first + self.counts[:, b].ravel(), 0)
        low, high = -held_a, held_b
        if self._stratified:
            low, high = (
                end.ravel() for end in self._slack(a, b, -held_a.reshape(chains, -1), held_b.reshape(chains, -1))
            )
        drawn_a, drawn_b = self._drawn[cells_a], self._drawn[cells_b]

        def log_term(which: Indices, c: Integers) -> Floats:
            gain = (c - first[which]).astype(np.float64)
            inside = ((gain > low[which]) & (gain < high[which])) | (gain == 0.0)
            log = self._prior.log(cells_a[which], c) + self._prior.log(cells_b[which], total[which] - c)
            log += drawn_a[which] * np.log(np.maximum(held_a[which] + gain, _TINY))
            log += drawn_b[which] * np.log(np.maximum(held_b[which] - gain, _TINY))
            return np.where(inside, log, -np.inf)

        limits = _whole(first + low, first + high, first, total)
        room = self._room[cells_a], self._room[cells_b]
        moved = move(first, total, log_term, rng=rng, room=room, between=limits, steps=_STEPS).reshape(chains, width)
        gain = moved - self.counts[:, a]
        self.counts[:, a] = moved
        self.counts[:, b] -= gain
        self._held[:, a] += gain
        self._held[:, b] -= gain

    def _move_counts(self, level: Indices, errors: Floats, rng: np.random.Generator) -> None:
        """Move records between a leaf of the first and one of the second child, the estimates staying as they are."""
        depth, chains = int(self._splits.depth[level[0]]), len(self.counts)
        low, high = self._splits.children[level, :, 0], self._splits.children[level, :, 1]
        least, most = self._cumulated[low], self._cumulated[high]
        place = np.searchsorted(self._cumulated, least + rng.random(low.shape) * (most - least), side="right") - 1
        a, b = np.clip(place, low, high - 1).T
        stiff_a, slope_a = self._along(a, depth, errors)
        stiff_b, slope_b = self._along(b, depth, errors)
        stiffness = np.broadcast_to(stiff_a + stiff_b + 1.0 / self._variance[level], slope_a.shape).ravel()
        slope = (slope_a - slope_b - errors[:, level] / self._variance[level]).ravel()
        cells_a, cells_b = np.tile(a, chains), np.tile(b, chains)
        first = self.counts[:, a].ravel()
        total = first + self.counts[:, b].ravel()

        def log_term(which: Indices, c: Integers) -> Floats:
            gain = c - first[which]
            log = self._prior.log(cells_a[which], c) + self._prior.log(cells_b[which], total[which] - c)
            return np.asarray(log - gain * (0.5 * stiffness[which] * gain + slope[which]))

        centre, reach = first - slope / stiffness, _REACH / np.sqrt(stiffness)
        limits = _whole(centre - reach, centre + reach, first, total)
        room = self._spike[cells_a], self._spike[cells_b]
        moved = move(first, total, log_term, rng=rng, room=room, between=limits, steps=_STEPS)
        gain = (moved - first).reshape(chains, -1)
        self.counts[:, a] += gain
        self.counts[:, b] -= gain
        errors[:, level] -= gain
        self._shift(a, depth, gain, errors)
        self._shift(b, depth, -gain, errors)

    def _move_shares(self, level: Indices, errors: Floats, rng: np.random.Generator) -> None:
        """Move the estimates of a leaf of the first and one of the second child, the counts staying as they are."""
        depth = int(self._splits.depth[level[0]])
        a, b = self._reached_leaves(level, rng)
        stiff_a, slope_a = self._along(a, depth, errors)
        stiff_b, slope_b = self._along(b, depth, errors)
        held_a, held_b, own = self._held[:, a], self._held[:, b], errors[:, level]
        lone = self._lone[level]
        floor = np.where(lone, -np.inf, -held_a)
        stiffness = np.broadcast_to(stiff_a + stiff_b, own.shape).ravel()
        wide = 12.0 / np.sqrt(stiff_a + stiff_b + 1.0 / self._variance[level])
        variance = np.broadcast_to(self._variance[level], own.shape).ravel()
        term = _ShareTerm(
            own.ravel(),
            variance,
            stiffness,
            (slope_a - slope_b).ravel(),
            held_a.ravel(),
            held_b.ravel(),
            np.broadcast_to(self._drawn[a], own.shape).ravel(),
            np.broadcast_to(self._drawn[b], own.shape).ravel(),
            np.broadcast_to(lone, own.shape).ravel(),
        )
        least, most = floor, np.where(lone, held_b + np.maximum(-held_a, 0.0), held_b)
        if self._stratified:
            least, most = self._slack(a, b, least, most, lone)
        wide = np.where(lone, 12.0 * np.sqrt(self._variance[level]), wide)
        gain = _slide(least.ravel(), most.ravel(), np.broadcast_to(wide, own.shape).ravel(), term, rng).reshape(
            own.shape
        )
        moved = np.where(lone, np.maximum(held_a + gain, 0.0) - np.maximum(held_a, 0.0), gain)
        self._held[:, a] += gain
        self._held[:, b] -= moved
        errors[:, level] += gain
        self._shift(a, depth, -moved, errors)
        self._shift(b, depth, moved, errors)

    def _reached_leaves(self, level: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """Return a leaf with released records below each child, or the first child itself where it has none."""
        low, high = self._splits.children[level, :, 0], self._splits.children[level, :, 1]
        least, most = np.searchsorted(self._reached, low), np.searchsorted(self._reached, high)
        place = least + (rng.random(low.shape) * (most - least)).astype(np.intp)
        if self._stratified:  # those next to the boundary between the children
            right = low > low[:, ::-1]
            place = np.where(right, least, most - 1)
        a, b = self._reached[np.clip(place, 0, len(self._reached) - 1)].T
        return np.where(most[:, 0] > least[:, 0], a, low[:, 0]), b

    # -- systematic draws -----------------------------------------------------------------------------------------

    def _neighbours(self) -> list[tuple[Indices, Indices]]:
        """Return pairs of neighbouring leaves, and of leaves that are neighbours but for ones without records."""
        pairs = []
        for leaves in (np.arange(len(self.alpha)), self._reached):
            for first in (0, 1):
                a = leaves[first:-1:2]
                pairs.append((a, leaves[first + 1 :: 2][: len(a)]))
        return pairs

    def _slack(
        self, a: Indices, b: Indices, low: Floats, high: Floats, lone: Booleans | None = None
    ) -> tuple[Floats, Floats]:
        """Return how much leaf ``a`` can gain from ``b`` so that the same records are drawn, within given limits."""
        ends = _before(np.maximum(self._held, 0.0))
        left, right = np.minimum(a, b), np.maximum(a, b)
        step = self.records / self._size
        top = (self._ends[left] + self._offset[:, None]) * step
        down, up = top - step - ends[:, left + 1], top - ends[:, right]
        swapped = a > b
        low_slack, high_slack = np.where(swapped, -up, down), np.where(swapped, -down, up)
        if lone is not None:  # of such a leaf the estimate gains only what lifts it above 0
            hidden = np.minimum(self._held[:, a], 0.0)
            held = np.maximum(self._held[:, a], 0.0)
            low_slack = np.where(lone, np.where(low_slack <= -held, -np.inf, low_slack), low_slack)
            high_slack = np.where(lone, high_slack - hidden, high_slack)
        return np.maximum(low, low_slack), np.minimum(high, high_slack)

    def _move_offset(self, rng: np.random.Generator) -> None:
        """Draw the offset given the estimates."""
        ends = _before(np.maximum(self._held, 0.0))[:, 1:-1]
        ahead = self._size / self.records * ends - self._ends[:-1]
        least = np.maximum(ahead.max(axis=1), 0.0)
        most = np.minimum(ahead.min(axis=1) + 1.0, 1.0)
        self._offset = least + rng.random(len(least)) * np.maximum(most - least, 0.0)


class _ShareTerm(NamedTuple):
    """The log-density of a change of estimates, as :meth:`TreeRecords._move_shares` makes it."""

    own: Floats
    variance: Floats
    stiffness: Floats
    slope: Floats
    held_a: Floats
    held_b: Floats
    drawn_a: Floats
    drawn_b: Floats
    lone: Booleans

    def at(self, which: Indices, gain: Floats) -> Floats:
        """Return it for some of the pairs."""
        own, variance, stiffness, slope, held_a, held_b, drawn_a, drawn_b, lone = (part[which] for part in self)
        after = held_a + gain
        moved = np.where(lone, np.maximum(after, 0.0) - np.maximum(held_a, 0.0), gain)
        error = own + gain
        log = -error * error / (2.0 * variance) - moved * (0.5 * stiffness * moved - slope)
        log += drawn_a * np.log(np.maximum(after, _TINY))
        return np.asarray(log + drawn_b * np.log(np.maximum(held_b - moved, _TINY)))


def _slide(low: Floats, high: Floats, width: Floats, term: _ShareTerm, rng: np.random.Generator) -> Floats:
    """Return changes from 0, each by a slice-sampling step in a window of some width at random around it."""
    left = -width * rng.random(len(width))
    right = np.minimum(left + width, high)
    left = np.maximum(left, low)
    result, active = np.zeros(len(width)), np.arange(len(width))
    level = term.at(active, result) - rng.standard_exponential(len(width))
    for _ in range(_STEPS):
        at = left[active] + rng.random(len(active)) * (right[active] - left[active])
        fits = term.at(active, at) >= level[active]
        result[active[fits]] = at[fits]
        active, at = active[~fits], at[~fits]
        left[active] = np.where(at < 0.0, at, left[active])
        right[active] = np.where(at < 0.0, right[active], at)
    return result


def _whole(low: Floats, high: Floats, first: Integers, total: Integers) -> tuple[Integers, Integers]:
    """Return the whole numbers between two limits that are counts of the first of two leaves."""
    least = np.clip(np.floor(low), 0.0, first).astype(np.int64)
    most = np.clip(np.ceil(high), first, np.maximum(total, first)).astype(np.int64)
    return least, most


def _before(numbers: Floats) -> Floats:
    """Return, along rows, the sums of the numbers before each place, and of all."""
    out = np.zeros((len(numbers), numbers.shape[1] + 1))
    np.cumsum(numbers, axis=1, out=out[:, 1:])
    return out
