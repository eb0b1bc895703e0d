"""The prior of cells' masses, and how counts weigh in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import choice, real
from discreet.mechanisms import NoiseLaw

# The strength of the first splits: shares of halves are uniform; and where little is seen, so that much is left to the
# prior, as likely near 0 and 1 as Jeffreys' law has it.
WIDE, WIDE_FOR_LITTLE = 2.0, 1.0
# The least depth of the last splits of this strength: given counts, and given records, which show less of heaps.
FIRMER, FIRMER_FOR_RECORDS = 4, 5
_FURTHER = (0, 2, math.inf)  # depths below the first at which splits may become firmer: trees of equal probability
# From depth to depth: shares of halves under a smooth density differ by half as much, one step further down. No split
# is firmer than 8: one of two neighbouring values may be round, and hold several times as many as the other.
_GROWTH, _FIRMEST = 4.0, 8.0
_SOFTER = 0.5  # from depth to depth, as the splits of a Dirichlet process are
_LEAST = 1e-290
_SMOOTH = 32.0  # steps from 0, beyond which the weights within a step are alike


def log_prior(alpha: Any, counts: Floats, step: int = 1, rate: float = 0.0) -> Floats:
    """Return the logarithm of ``Gamma(alpha + c) / (Gamma(alpha) c!)`` times ``e^(rate c)``, ``rate`` at most 0.

    ``step``: above 1, the sum over all whole numbers that round to a multiple. The rate belongs into the sum: what it
    is multiplied with may grow manifold within a step.
    """
    from scipy.special import gammaln

    single = gammaln(alpha + counts) - gammaln(alpha) - gammaln(counts + 1.0) + rate * counts
    if step == 1:
        return np.asarray(single)
    slope = np.log1p((alpha - 1.0) / (counts + 1.0)) + rate
    half = np.minimum(np.abs(slope) * step / 2.0, 300.0)
    level = np.log(np.where(half > 1e-6, np.sinh(half) / np.maximum(half, 1e-6), 1.0)) - slope / 2.0 * (step % 2 == 0)
    sums = np.asarray(math.log(step) + single + level)
    near = counts < _SMOOTH * step
    before = counts[near] - step // 2 - 1.0
    summed = _log_binomial_sum if rate < 0.0 else _log_sum
    sums[near] = summed(alpha, before, before + step, rate, sums[near])
    return sums


def _log_sum(alpha: float, before: Floats, last: Floats, _rate: float, _otherwise: Floats) -> Floats:
    """Return what :func:`log_prior` sums up at rate 0, by the closed form of sums from 0."""
    from scipy.special import gammaln

    def upto(last: Floats) -> Floats:
        return np.asarray(gammaln(alpha + 1.0 + last) - gammaln(alpha + 1.0) - gammaln(last + 1.0))

    total = upto(last)
    below = np.where(before < 0.0, -math.inf, upto(np.maximum(before, 0.0)))
    return np.asarray(total + np.log(-np.expm1(np.minimum(below - total, -1e-300))))


def _log_binomial_sum(alpha: float, before: Floats, last: Floats, rate: float, otherwise: Floats) -> Floats:
    """Return what :func:`log_prior` sums up at a negative rate: a part of a negative binomial law.

    ``before``: the number below the first. ``otherwise``: for sums that are too small to be told from 0.
    """
    from scipy.special import betainc, betaincc

    failure = -math.expm1(rate)
    low, high, first = np.maximum(before, 0.0) + 1.0, last + 1.0, before < 0.0
    left = last < alpha * math.exp(rate) / failure  # of the mean: each tail is exact on its own side
    right = ~left
    mass = np.empty_like(last)
    below, above = betainc(alpha, low[left], failure), betaincc(alpha, low[right], failure)
    mass[left] = betainc(alpha, high[left], failure) - np.where(first[left], 0.0, below)
    mass[right] = np.where(first[right], 1.0, above) - betaincc(alpha, high[right], failure)
    positive = mass > _LEAST
    return np.where(positive, np.log(np.where(positive, mass, 1.0)) - alpha * math.log(failure), otherwise)


def strength_at(depth: int, start: float, wide: float = WIDE, growth: float = _GROWTH) -> float:
    """Return the strength of a split that lies so many steps below the whole."""
    return min(_FIRMEST, float(wide * growth ** max(0.0, depth - start)))


@dataclass(frozen=True)
class Halves:
    """Sets of neighbouring cells, or of sets, of a tree, each with the share of the set above that is expected in it.

    ``of``: for each cell or set of the level below, the set that it is in; sets have the numbers 0, 1, ... in order.
    ``masses``: of each set, in the law of the split of the next level's set that it is in.
    ``strength``: of the law by which each of these sets is split.
    """

    of: Integers
    masses: Floats
    strength: float


@dataclass(frozen=True)
class Prior:
    """A Dirichlet process on cells, or a tree of splits that are each a Dirichlet distribution.

    In a tree the count ``c`` of a set with mass ``a`` in the law of the split above, itself split with strength ``b``,
    weighs ``(a)_c / (b)_c``: the factors ``c!`` of a set as a part and as a whole cancel. Splits have one strength down
    to some depth below the whole; from there on it grows fourfold from depth to depth, up to 8, or halves.

    ``alpha``: masses of the cells, in the process or in the splits of the sets that they are in.
    ``levels``: of the tree, from the smallest sets on. ``order``: the cells, neighbours in the tree beside one another.
    ``base``: the base measure of a tree, not in its order.
    ``start``: depth of the last splits of the whole's strength, ``wide``; infinite where all have it.
    """

    alpha: Floats
    levels: tuple[Halves, ...] = ()
    order: Integers | None = None
    base: Floats | None = None
    start: float = math.inf
    wide: float = WIDE
    growth: float = _GROWTH

    @classmethod
    def learned(
        cls,
        base: Floats,
        sets: Sequence[Integers] = (),
        order: Integers | None = None,
        *,
        firmer: int,
        wide: float = WIDE,
        softer: bool = False,
    ) -> list[Prior]:
        """Return trees, of halves or of given sets, of which a release tells which is near.

        ``firmer``: the least depth of the last splits of the whole's strength, which is ``wide``.
        ``softer``: whether one more has splits that get softer from depth to depth, like those of a Dirichlet process.
        """
        depth_of_tree = len(sets or _halves(len(base)))
        starts = [firmer + depth for depth in _FURTHER if depth == math.inf or firmer + depth + 1 < depth_of_tree]
        trees = [cls.nested(base, sets, order, start=start, wide=wide) for start in starts]
        return trees + [cls.nested(base, sets, order, start=0.0, wide=wide, growth=_SOFTER)] * softer

    @classmethod
    def nested(
        cls,
        base: Floats,
        sets: Sequence[Integers] = (),
        order: Integers | None = None,
        *,
        start: float = math.inf,
        wide: float = WIDE,
        growth: float = _GROWTH,
    ) -> Prior:
        """Return the tree of sets, the last of which is all, or of halves; the base measure is in the tree's order."""
        sets = sets or _halves(len(base))
        mass, masses, plain = base, [], base.copy()
        if order is not None:
            plain[order] = base
        depths = reversed(range(len(sets)))
        strengths = [strength_at(depth, start, wide, growth) for depth in depths]  # of the splits of each level
        for of, strength in zip(sets, strengths, strict=True):
            above = np.asarray(np.bincount(of, weights=mass), dtype=np.float64)
            masses.append(strength * mass / above[of])
            mass = above
        if not sets:
            return cls(np.ones_like(base), (), order, plain, start, wide, growth)
        levels = tuple(map(Halves, sets[:-1], masses[1:], strengths[:-1]))
        return cls(masses[0], levels, order, plain, start, wide, growth)

    def log_rates(self, guess: Floats, spread: float) -> list[Floats]:
        """Return a power of each cell's count, and of each set's, level by level, that changes no draw.

        With ``(a)_c / c!`` times ``e`` to this power times ``c``, the parts of a set add up to about the count that is
        guessed. The next level takes the power of their sum off again. Guesses are rounded, so that few laws differ.

        ``guess``, shape (k,): in the tree's order. ``spread``: how much larger than guessed a count may well be: a
        power that is too steep for it would leave nothing of its weight.
        """
        if self.base is None:
            return [np.zeros(len(guess))]
        rates: list[Floats] = []
        sums = guess
        root = np.zeros(len(self.levels[-1].masses) if self.levels else len(guess), dtype=np.int64)
        for of, strength in [*((level.of, level.strength) for level in self.levels), (root, self.wide)]:
            sums = np.asarray(np.bincount(of, weights=sums), dtype=np.float64)
            rates.append(-np.log1p(strength / 2.0 ** np.rint(np.log2(np.maximum(sums + spread, 0.5))))[of])
        return rates

    def log_weights(self, tables: Integers) -> Floats:
        """Return the logarithms of the weights of whole tables' counts, a row each, up to one number for all tables."""
        sums = tables[:, np.arange(tables.shape[1]) if self.order is None else self.order].astype(np.float64)
        weights = log_prior(self.alpha, sums).sum(axis=1)
        for level in self.levels:
            sums = np.add.reduceat(sums, np.searchsorted(level.of, np.arange(len(level.masses))), axis=1)
            weights += (log_prior(level.masses, sums) - log_prior(level.strength, sums)).sum(axis=1)
        return np.asarray(weights)

    def masses(self, counts: Floats, rng: np.random.Generator) -> Floats:
        """Draw the cells' masses given counts, a row each."""
        order = np.arange(counts.shape[1]) if self.order is None else self.order
        sums, alphas = [counts[:, order]], [self.alpha]
        for level in self.levels:
            starts = np.searchsorted(level.of, np.arange(len(level.masses)))
            sums.append(np.add.reduceat(sums[-1], starts, axis=1))
            alphas.append(level.masses)
        above = np.ones((len(counts), 1))
        sets = [*(level.of for level in self.levels), np.zeros(len(alphas[-1]), dtype=np.int64)]
        for of, alpha, counts_of_sets in zip(reversed(sets), reversed(alphas), reversed(sums), strict=True):
            gammas = np.maximum(rng.standard_gamma(alpha + counts_of_sets), 1e-300)
            starts = np.searchsorted(of, np.arange(above.shape[1]))
            above = above[:, of] * gammas / np.add.reduceat(gammas, starts, axis=1)[:, of]
        masses = np.empty_like(above)
        masses[:, order] = above
        return masses


def _halves(size: int) -> list[Integers]:
    sets = []
    while size > 1:
        sets.append(np.arange(size) // 2)
        size = int(sets[-1][-1]) + 1
    return sets


# The law of the noise on counts, as an analyst knows it: for inference, in floating point.


@dataclass(frozen=True)
class Noise:
    """Independent noise with a known law.

    ``law``: ``P(z)`` proportional to ``e^(-|z|/scale)`` or ``e^(-z^2/(2 scale^2))``, or a function that returns the
    logarithm of ``P(z)``, up to a constant; ``scale`` is then about its standard deviation.
    """

    law: str | Callable[[Floats], Floats]
    scale: float

    def __post_init__(self) -> None:
        real("scale", self.scale, above=0)
        if not callable(self.law):
            choice("noise", self.law, ("laplace", "gaussian"))

    @classmethod
    def of(cls, law: NoiseLaw, scale: float) -> Noise:
        """Return a law of this library; one that has no formula here by its log-probabilities."""
        return cls(law.name if law.name in ("laplace", "gaussian") else partial(law.log_pmf, scale), scale)

    @property
    def reach(self) -> float:
        """Beyond this distance from where it is likeliest, the noise has a share below 1e-17 of the posterior."""
        return self.scale * (9.0 if self.law == "gaussian" else 40.0) + 1.0

    @property
    def spread(self) -> float:
        """About its standard deviation."""
        return self.scale * (math.sqrt(2.0) if self.law == "laplace" else 1.0)

    def log_pmf(self, values: Floats) -> Floats:
        """Return the log-probability of noise values, up to a constant."""
        if callable(self.law):
            return np.asarray(self.law(values), dtype=np.float64)
        if self.law == "laplace":
            return np.asarray(np.abs(values) / -self.scale)
        return np.asarray((values * values) / (-2.0 * self.scale * self.scale))

    @cached_property
    def log_whole(self) -> float:
        """The logarithm of the sum of what :meth:`log_pmf` gives for all whole numbers."""
        if self.law == "laplace":
            return -math.log(math.tanh(0.5 / self.scale))
        if self.law == "gaussian" and self.scale > 5.0:  # the sum is the integral, to all digits
            return math.log(self.scale * math.sqrt(2.0 * math.pi))
        numbers = np.arange(-math.ceil(self.reach), math.ceil(self.reach) + 1.0)
        return float(np.log(np.exp(self.log_pmf(numbers)).sum()))

    def below(self, numbers: Integers) -> Floats:
        """Return the probability of noise below whole numbers."""
        far = math.ceil(self.reach)
        cumulated = np.cumsum(np.exp(self.log_pmf(np.arange(-far, far + 1.0)) - self.log_whole))
        return np.append(0.0, cumulated)[np.clip(numbers + far, 0, 2 * far + 1)]
