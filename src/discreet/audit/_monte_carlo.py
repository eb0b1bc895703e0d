"""The papers' delta by simulation: how often the loss of the worst change exceeds epsilon, with exact bounds.

It checks the sums of theorem T11 by another route, and reproduces tables that were made by simulation. The randomness
only serves an estimate that stays confidential, so that floating-point variates will do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Integers
from discreet._core.checks import integer, real
from discreet.privacy import UrnPair
from discreet.privacy._held_table import HeldTable, Reading
from discreet.privacy._opening_pair import OpeningPair

_MOST_STEPS = 100_000_000  # openings followed, over all iterations


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
    """Return a proportion with bounds that hold at any sample size, so that no events never read as "0 +- 0".

    Parameters
    ----------
    events, iterations : int
        How often it happened, among how many.
    confidence : float
        Between 0 and 1; the thesis' ``1 - 1e-6`` by default.

    Raises
    ------
    ParameterError
        When the numbers contradict each other.

    References
    ----------
    Clopper and Pearson (1934).

    Examples
    --------
    >>> clopper_pearson(0, 10_000).upper < 0.00146
    True
    """
    integer("events", events, least=0, most=integer("iterations", iterations, least=1))
    real("confidence", confidence, above=0, below=1)
    from scipy.special import betaincinv

    half = 0.5 * (1.0 - confidence)
    lower = 0.0 if events == 0 else float(betaincinv(events, iterations - events + 1, half))
    upper = 1.0 if events == iterations else float(betaincinv(events + 1, iterations - events, 1.0 - half))
    return MonteCarlo(events / iterations, lower, upper, iterations, confidence)


def simulate(
    table: HeldTable, reading: Reading, epsilon: float, *, iterations: int, rng: np.random.Generator
) -> MonteCarlo:
    """Draw releases and count how often the loss of a reading's change exceeds epsilon.

    ``table``: confidential.
    ``reading``: Whose change; of the papers' delta.
    ``epsilon``: positive.
    ``iterations``: how many releases; fewer where following their openings would take too long.
    ``rng``: source of the draws.
    """
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


def _draws(size: int, masses: tuple[float, ...], iterations: int, rng: np.random.Generator) -> list[Integers]:
    """Return the counts of an urn's cells, one array per cell."""
    gammas = rng.standard_gamma(np.tile(np.asarray(masses, dtype=np.float64), (iterations, 1)))
    counts = rng.multinomial(size, gammas / gammas.sum(axis=1, keepdims=True))
    return list(counts.T)


def _opening(pair: OpeningPair, forward: bool, epsilon: float, iterations: int, rng: np.random.Generator) -> Booleans:
    """Simulate the draws of a pair whose tables hold different values."""
    opening = pair.phi if forward else pair.phi + pair.discount
    expected = pair.size * opening / (pair.a + 1.0 + pair.phi + pair.others)
    if not pair.filtered and pair.discount > 0:
        iterations = min(iterations, max(100, round(_MOST_STEPS / (1.0 + expected))))
    masses = (pair.a + forward, opening, pair.others) + (() if forward else (1.0 - pair.discount,))
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
