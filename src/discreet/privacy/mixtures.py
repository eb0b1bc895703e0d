"""Exact profiles of records drawn from a mixture with a public law, and of subsampled randomised response."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.lazy import special
from discreet._core.numeric import Floats, LogRatio, log_binomial, log_error, not_above, up
from discreet.privacy.profile import ConstantProfile, Profile, power
from discreet.privacy.urn import MixturePair

# Exact divergences of a mixture with the uniform distribution whose weight ``q_i`` depends on the smallest count ``i``,
# whatever the weights (T7, docs/theory/data-specific-reveal-or-obscure.md); ``N = n/k``.

_LARGEST_LOSS = 600.0
_COMPOSED = 1000  # draws up to which the one-draw profile is composed; it takes half a second
_ROUNDING = 4e-15  # relative, of a loss: a dozen operations
_TOLD_APART = 4096  # weights of a schedule: among more, losses differ by less than their rounding


@sealed
@dataclass(frozen=True, kw_only=True, eq=False)
class MinimumPairs(Profile):
    """Profile of ``size`` draws with a weight that depends on the smallest count, of ``n`` records in 2 cells or more.

    One draw: the maximum over the types, exact. More: the least of the chord's bound and, up to 1,000 draws, that of
    composing the one-draw profile.
    """

    n: int
    cells: int
    weights: Floats  # shape (at most n // cells + 1,): ``q_i``; zero for the smallest counts that are left out
    size: int = 1

    @property
    def exact(self) -> bool:
        """Whether it is one draw, of a schedule short enough for no two types to be confused by rounding."""
        return self.size == 1 and len(self.weights) <= _TOLD_APART

    @cached_property
    def pure(self) -> float:
        """The largest loss of a draw, times the number of draws."""
        return math.inf if self._end is None else LogRatio(self._end.ratio, self.size).ceiling()

    @property
    def loss(self) -> float:
        """The largest loss of one draw, rounded up: its pure epsilon."""
        return super().pure

    @cached_property
    def _end(self) -> LogRatio | None:
        """The largest loss of one draw: of the cells that come near it in floating point, in rational numbers."""
        losses = [(np.abs(self._loss(*pair)), pair) for pair in self._pairs()]
        largest = max(float(loss.max(initial=0.0)) for loss, _ in losses)
        if largest == math.inf:
            return None
        ratio = Fraction(1)
        for loss, pair in losses:
            for a, q, b, r in set(zip(*(v[loss >= largest * (1.0 - 1e-13)].tolist() for v in pair), strict=True)):
                left, right = self._f(a, Fraction(q)), self._f(b, Fraction(r))
                ratio = max(ratio, left / right, right / left)
        return LogRatio(ratio)

    def chord(self, group: int = 1) -> Profile:
        """Return the profile that dominates the draws for a group of records, from total variation and loss alone."""
        # A chain of g neighbours has g times both. A loss above 600 is taken for infinite.
        loss = up(group * self.loss)
        moved = min(group * self._one(0.0), math.tanh(0.5 * loss))
        if loss > _LARGEST_LOSS:
            value = 1.0 if moved > 0.999999 else up(-math.expm1(self.size * math.log1p(-moved)), 8)
            return ConstantProfile(value=value, tight=False)
        return MixturePair(size=self.size, base=moved / math.expm1(loss), moved=moved, tight=False)

    def _delta(self, epsilon: float) -> float:
        if self.size == 1:
            return self._one(not_above(epsilon))
        bound = self.chord().delta(epsilon)
        if self.size > _COMPOSED:
            return bound
        return min(bound, self._composed.delta(epsilon))

    @cached_property
    def _composed(self) -> Profile:
        return power(MinimumPairs(n=self.n, cells=self.cells, weights=self.weights), self.size)

    def _f(self, a: Any, q: Any) -> Any:
        """Return ``k f(a, q)``, a rational number where the weight is one."""
        return self.cells * a * (1 - q) + self.n * q

    def _loss(self, a: Any, q: Any, b: Any, r: Any) -> Any:
        """Return ``log f(a, q)/f(b, r)`` to a few units in the last place, from ``f(a, q) - f(b, r)`` in two terms."""
        difference = self.cells * (a - b) * (1.0 - r) + (q - r) * (self.n - self.cells * a)
        with np.errstate(divide="ignore"):
            return np.log1p(difference / self._f(b, r))

    @cached_property
    def _weights(self) -> Floats:
        """Two zeros more: at larger counts still, with zeros alone, neighbours are closer."""
        return np.append(self.weights, (0.0, 0.0))

    @cached_property
    def _same(self) -> tuple[Any, Any]:
        """Smallest counts (and weights) that both of two neighbours can have: in three cells, or two that swap."""
        counts = np.arange(len(self._weights))
        able = self.n > self.cells * counts if self.cells > 2 else self.n == 2 * counts + 1
        return counts[able], self._weights[able]

    @cached_property
    def _next(self) -> tuple[Any, Any, Any, Any]:
        """Smallest counts ``i`` of a table and ``i - 1`` of its neighbour, their weights, and the largest cell."""
        i = np.arange(1, min(len(self._weights) - 1, self.n // self.cells) + 1)
        return i, self._weights[i], self._weights[i - 1], self.n - (self.cells - 1) * i

    def _pairs(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Yield counts and weights ``a, q, b, r`` of a cell under two neighbours, where ratios can be extreme."""
        i, q = self._same
        yield i + 1, q, i, q
        i, q, r, top = self._next
        yield i, q, i - 1, r  # the cell that lost the record
        yield top, q, top + 1, r  # the one that gained it, the largest
        if self.cells > 2:
            yield i, q, i + 1, r  # or the smallest
            yield i, q, i, r  # a cell that changed nothing but its weight
            yield top, q, top, r

    @cached_property
    def _excesses(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Losses and ``k f(b, r)``: where neighbours have one smallest count, and where they have two."""
        i, q = self._same
        equal = (i + 1, q, i, q)
        i, q, r, top = self._next
        pairs = [(i, q, i - 1, r), (i, q, i, r), (top, q, top + 1, r)]  # that lost, kept, gained
        if self.cells > 2:
            pairs += [(i, q, i + 1, r), (top, q, top, r)]
        both = [(pair, pair[2:] + pair[:2]) for pair in pairs]  # the two neighbours, in both orders
        losses = np.array([[self._loss(*pair) for pair in orders] for orders in both])
        shares = np.array([[self._f(*pair[2:]) for pair in orders] for orders in both])
        return (self._loss(*equal), self._f(*equal[2:])), (losses, shares)

    def _one(self, epsilon: float) -> float:
        """Return the exact delta of one draw at ``epsilon``, rounded up."""
        e, k = math.exp(epsilon), self.cells

        def excess(loss: Floats, share: Floats) -> Floats:
            """Return ``(k f(a, q) - e^eps k f(b, r))_+``, without cancellation but next to the loss itself."""
            gap = loss - epsilon + _ROUNDING * (np.abs(loss) + epsilon)
            return np.asarray(share * e * np.expm1(np.maximum(0.0, gap)))

        equal, unequal = self._excesses
        loss, rest, gain, *third = excess(*unequal)
        deltas = [excess(*equal), loss + gain + (k - 2) * rest]
        if k > 2:
            deltas.append(loss + third[0] + third[1] + (k - 3) * rest)
        best = max(float(d.max(initial=0.0)) for d in deltas)
        return min(1.0, up(best / (float(k) * self.n) * (1.0 + 1e-14), 4))


# Profile of distinct records, each through randomised response: docs/theory/subsampled-randomised-response.md (T13).

_SUMMED = 64  # sizes up to which G is summed over; beyond, it is replaced by a high quantile
_SLACK = 1e-11  # relative error of a binomial tail


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampledPair(Profile):
    """Profile of ``size`` distinct records of ``n``, each replaced by a uniform cell with probability ``mixing``."""

    # An upper bound, since the pair reveals more than a release, and attained at delta = 0. Above 64 draws G is
    # replaced by a high quantile, and what lies beyond is added.

    n: int
    size: int
    cells: int
    mixing: float

    @property
    def _odds(self) -> float:
        return self.cells * (1.0 - self.mixing) / self.mixing

    @property
    def pure(self) -> float:
        """``log(1 + (m/n) k (1-q)/q)``, rounded up."""
        return up(math.log1p(self.size / self.n * self._odds), 8)

    def _delta(self, epsilon: float) -> float:
        epsilon = not_above(epsilon)
        q, m, h = self.mixing, self.size, math.expm1(epsilon)
        share = 1.0 / self.cells
        if m <= _SUMMED:
            total = 0.0
            for g in range(m):
                chance = math.exp(float(log_binomial(float(m), float(g)) + (m - g) * math.log(q))) * (1.0 - q) ** g
                total += chance * _excess(m - g, share, (self.n - g) * h / self._odds, math.exp(epsilon))
            return up(min(1.0, self._odds / self.n * total), 64)
        mean = m * (1.0 - q)
        reach, chance = _bernstein(mean * q)
        total = _excess(m, q * share, (self.n - min(m, math.ceil(mean + reach))) * h / self._odds, math.exp(epsilon))
        return up(min(1.0, (self._odds * total + h * m * chance) / self.n), 64)


def _excess(m: int, p: float, offset: float, factor: float) -> float:
    """Return ``E[(S - factor T - offset)_+]``, rounded up: ``S``, ``T`` count two outcomes of chance ``p`` in ``m``."""
    # T is summed over; given it, S is binomial, and the mean of its excess is a difference of two of its tails.
    mean = m * p
    reach, chance = _bernstein(mean)
    low, high = max(0, math.floor(mean - reach)), min(m, math.ceil(mean + reach))
    t = np.arange(low, high + 1, dtype=np.float64)
    t = t[factor * t + offset < m - t]
    total = 0.0
    if len(t):
        log_chance = log_binomial(float(m), t) + t * math.log(p) + (m - t) * math.log1p(-p)
        level = factor * t + offset
        draws, share = m - t, min(1.0, p / (1.0 - p))
        least = np.floor(level) + 1.0  # the least value above: 1 to draws
        tail = np.where(least > 1.0, special.betainc(np.maximum(least - 1.0, 1.0), draws - least + 1.0, share), 1.0)
        upper, lower = draws * share * tail, level * special.betainc(least, draws - least + 1.0, share)
        excess = np.maximum(0.0, upper - lower) + _SLACK * (upper + lower)
        total = float((np.exp(log_chance) * excess).sum()) * math.exp(log_error(m, m))
    if low > 0 or high < m:
        total += 2.0 * m * chance
    return total


def _bernstein(variance: float) -> tuple[float, float]:
    """Return a distance from a binomial mean, and Bernstein's bound on the probability beyond it on one side."""
    distance = 12.0 * math.sqrt(variance) + 40.0
    return distance, math.exp(-(distance**2) / (2.0 * (variance + distance / 3.0)))
