"""How many of the guesses about who is in a table can be right, if a release keeps its promise: the law of the null.

Of each pair a fair coin put one into the table. Theorem and proof: docs/theory/audit-of-a-release.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Floats, Integers
from discreet._core.boundary import sealed
from discreet._core.checks import integer, real
from discreet.privacy import HeldTable, InstanceDelta, OpeningPair, Profile, UrnPair

POWER = 0.95
"""Of the epsilon that a test says it would have detected."""

_SHARES = (1.0, 0.5, 0.25, 0.1)  # of the pairs that are guessed about
_EPSILONS = 64  # at which the profile is asked; any of them gives a bound, and the least is taken
_NEGLIGIBLE = 1e-12
_FURTHEST = 40.0
_TINY = 1e-200  # below, a tail is not compared with its first term but with a geometric series
_ROUNDING = 1e-9  # relative, upwards


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedProfile(Profile):
    """The profile of a bare claim of (epsilon, delta): the largest that satisfies it."""

    furthest: ClassVar[float] = 100.0

    epsilon_stated: float
    delta_stated: float

    @property
    def pure(self) -> float:
        """The epsilon where delta is 0, infinity otherwise."""
        return self.epsilon_stated if self.delta_stated == 0.0 else np.inf

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_stated:
            return self.delta_stated
        excess = -np.expm1(epsilon - self.epsilon_stated) / (1.0 + np.exp(-self.epsilon_stated))
        return float(min(1.0, (self.delta_stated + (1.0 - self.delta_stated) * excess) * (1.0 + _ROUNDING)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """A claim, as points of its profile between tables of which one record is exchanged."""

    epsilons: Floats
    deltas: Floats

    @classmethod
    def from_profile(cls, profile: Profile) -> Null:
        """Return the bounds that follow from a profile."""
        last = min(profile.pure, _FURTHEST)
        if np.isinf(profile.pure):
            last = min(profile.epsilon(_NEGLIGIBLE), _FURTHEST)
        epsilons = np.linspace(0.0, last, _EPSILONS)
        if isinstance(profile, StatedProfile):
            epsilons = np.append(epsilons, profile.epsilon_stated)
        epsilons = np.unique(epsilons)
        return cls(epsilons=epsilons, deltas=np.array([profile.delta(float(epsilon)) for epsilon in epsilons]))

    def tail(self, guesses: int, pairs: int) -> Floats:
        """Bound the probability that at least v guesses, of a number fixed beforehand, are right, for each v from 0."""
        from scipy.special import bdtr, bdtrc, gammaln

        v = np.arange(1, guesses + 1, dtype=np.float64)
        arrangements = gammaln(guesses + 1.0) - gammaln(v + 1.0) - gammaln(guesses - v + 1.0)
        best = np.ones(guesses + 1)
        for epsilon, delta in zip(self.epsilons.tolist(), self.deltas.tolist(), strict=True):
            right = 1.0 / (1.0 + np.exp(-epsilon))
            above, below = bdtrc(v - 1.0, guesses, right), bdtr(v - 1.0, guesses, right)
            log_exactly = arrangements - v * np.log1p(np.exp(-epsilon)) - (guesses - v) * np.log1p(np.exp(epsilon))
            next_to_it = (guesses - v) / (v + 1.0) * np.exp(epsilon)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                ratio = np.where(above > _TINY, np.exp(np.log(above) - log_exactly), 1.0 / (1.0 - next_to_it))
                bound = (above + pairs * delta * ratio * below / v) * (1.0 + _ROUNDING) + 1e-300
            best[1:] = np.minimum(best[1:], np.where(np.isfinite(bound) & (bound > 0.0), bound, 1.0))
        return best

    def tails(self, pairs: int) -> dict[float, Floats]:
        """Return the tail of each share of the pairs, times the number of shares: the release may choose among them."""
        fixed = {share: self.tail(max(1, round(share * pairs)), pairs) for share in _SHARES}
        return {share: np.minimum(1.0, len(_SHARES) * tail) for share, tail in fixed.items()}


def detectable(rejecting: Integers, guesses: int, *, power: float = POWER) -> float | None:
    """Return the least epsilon, in steps of 0.01, whose best guesses are rejected with a power; None beyond 40."""
    from scipy.special import bdtrc

    if len(rejecting) == 0:
        return None
    least = int(rejecting.max())
    while least - 1 in rejecting:  # the upper end of the set: nothing is said of rejections below a gap
        least -= 1
    for epsilon in np.arange(0.01, _FURTHEST, 0.01):
        if bdtrc(least - 1.0, guesses, 1.0 / (1.0 + np.exp(-epsilon))) >= power:
            return round(float(epsilon), 2)
    return None


# The papers' delta by simulation: it checks T11's sums by another route, and reproduces tables made by simulation. The
# estimate stays confidential, so that floating-point variates will do.

_MOST_STEPS = 100_000_000  # openings followed, over all iterations


@sealed
class MonteCarlo(NamedTuple):
    """A proportion estimated by simulation.

    Parameters
    ----------
    estimate : float
        Share of the iterations.
    lower, upper : float
        Clopper-Pearson bounds: both hold with at least the confidence, however few the events.
    iterations : int
        How many.
    confidence : float
        Of the two bounds together.
    """

    estimate: float
    lower: float
    upper: float
    iterations: int
    confidence: float


def clopper_pearson(events: int, iterations: int, *, confidence: float = 1.0 - 1e-6) -> MonteCarlo:
    """Return a proportion with bounds that hold at any sample size: no events never read as "0 +- 0"."""
    integer("events", events, least=0, most=integer("iterations", iterations, least=1))
    real("confidence", confidence, above=0, below=1)
    from scipy.special import betaincinv

    half = 0.5 * (1.0 - confidence)
    lower = 0.0 if events == 0 else float(betaincinv(events, iterations - events + 1, half))
    upper = 1.0 if events == iterations else float(betaincinv(events + 1, iterations - events, 1.0 - half))
    return MonteCarlo(events / iterations, lower, upper, iterations, confidence)


def simulate(
    table: HeldTable, reading: InstanceDelta, epsilon: float, *, iterations: int, rng: np.random.Generator
) -> MonteCarlo:
    """Draw releases and count how often the loss of a reading's change, of the papers' delta, exceeds epsilon."""
    pair = reading.pair
    if pair is None:
        mass = 1.0 - table.discount
        exceeds = rng.binomial(table.size, rng.beta(mass, table.total - mass, size=iterations)) > 0
    elif isinstance(pair, UrnPair):
        s, t = _draws(pair.size, (pair.a + 1.0, pair.b, pair.rest), iterations, rng)[:2]
        exceeds = np.log1p(s / pair.a) - np.log1p(t / pair.b) > epsilon
    else:
        exceeds = _opening(pair, reading.forward, epsilon, iterations, rng)
    return clopper_pearson(int(exceeds.sum()), len(exceeds))


def _draws(size: int, masses: Sequence[float], iterations: int, rng: np.random.Generator) -> list[Integers]:
    """Return the counts of an urn's cells, one array per cell."""
    gammas = rng.standard_gamma(np.tile(np.asarray(masses, dtype=np.float64), (iterations, 1)))
    counts = rng.multinomial(size, gammas / gammas.sum(axis=1, keepdims=True))
    return list(counts.T)


def _opening(pair: OpeningPair, forward: bool, epsilon: float, iterations: int, rng: np.random.Generator) -> Booleans:
    """Simulate the draws of a pair whose tables hold different values."""
    masses = [pair.a + 1.0, pair.phi, pair.others]
    if not forward:
        masses = [pair.a, pair.phi + pair.discount, pair.others, 1.0 - pair.discount]
    opening = masses[1]
    expected = pair.size * opening / (pair.a + 1.0 + pair.phi + pair.others)
    if not pair.filtered and pair.discount > 0:
        iterations = min(iterations, max(100, round(_MOST_STEPS / (1.0 + expected))))
    s, dropped, *others = _draws(pair.size, masses, iterations, rng)
    if pair.filtered:
        from scipy.special import gammaln

        first, second = pair.phi, pair.phi + pair.discount
        grown = gammaln(second + dropped) - gammaln(second) - gammaln(first + dropped) + gammaln(first)
    else:
        grown = np.log1p(_opened(dropped, opening, pair.discount, rng) * pair.discount / pair.phi)
    loss = np.log1p(s / pair.a) - grown
    exceeds: Booleans = loss > epsilon if forward else (-loss > epsilon) | (others[1] > 0)
    return exceeds


def _opened(draws: Integers, opening: float, discount: float, rng: np.random.Generator) -> Integers:
    """Return how many values are opened by given numbers of draws of new values."""
    opened = np.zeros(len(draws), dtype=np.int64)
    if discount == 0.0:
        return opened
    order = np.argsort(-draws)
    longest = draws[order]
    for i in range(int(draws.max(initial=0))):
        live = int(np.searchsorted(-longest, -i, side="left"))  # those with more than i draws
        chance = (opening + opened[:live] * discount) / (opening + i)
        opened[:live] += rng.random(live) < chance
    result = np.empty_like(opened)
    result[order] = opened
    return result
