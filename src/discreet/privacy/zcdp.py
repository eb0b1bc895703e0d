"""Approximate zCDP (Bun and Steinke 2016, definition 8.1) of a profile, and back to epsilon: docs/theory/filters.md."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from discreet._core.errors import BudgetError
from discreet._core.numeric import below, least_real, log_ratio, up, written
from discreet.privacy.profile import Profile, fallen_to

SUMMED = Fraction(1, 10)
"""The share of a total delta that the sum of the releases' deltas may come to; the rest is the conversion's."""

_DOTS = 250
_FINEST = 1e-8  # of the reach
_NODES = 16
_TINY = 1e-100
_STEEP = 20.0  # of the exponent, over one piece of the grid, up to which the quadrature errs by less than 1e-11
_FIRST, _GROWTH = 1e-3, 1.05  # of alpha - 1
_MARGIN = 1e-9  # relative: of the quadrature, and of sums of positive terms
_PURE_COSTS = 1.01  # times the rho of a cut profile, up to which no delta at all is preferred


def approximate_zcdp(profile: Profile, *, cut: float) -> tuple[float, float]:
    """Return ``(rho, delta)``, rounded up, such that whatever has a profile is delta-approximate rho-zCDP."""
    # cut: how much of the tail, above its floor profile.delta(inf), may become delta; 0 where rho has to be pure,
    # infinite where there is neither floor nor end.
    pure, floor = profile.pure, profile.delta(math.inf)
    whole = _largest_rho(profile, pure, 0.0) if pure <= 700.0 else math.inf
    if cut == 0.0 and math.isinf(pure) and profile.delta(0.0) <= floor:
        return 0.0, floor
    if cut == 0.0:
        return whole, 0.0
    reach = fallen_to(profile, min(1.0, floor + cut), relative=1e-3)
    lost = profile.delta(reach)
    rho = _largest_rho(profile, reach, lost)
    if whole <= _PURE_COSTS * rho:
        return whole, 0.0
    return rho, lost


def _largest_rho(profile: Profile, reach: float, lost: float) -> float:
    """Return a bound on ``D_alpha/alpha`` for all ``alpha > 1``, where what remains of delta at the reach is lost."""
    if reach == 0.0 or lost >= 1.0:
        return 0.0
    if reach < _TINY:
        return _TINY**2  # rho is below the square of the largest loss
    # The grid is even, and finer towards 0; between its points the profile is bounded by chords, at a quadrature's
    # nodes.
    grid = np.union1d(np.linspace(0.0, reach, _DOTS + 1), np.geomspace(_FINEST * reach, reach, _DOTS))
    height = np.maximum(np.array([profile.delta(e) for e in grid.tolist()]) - lost, 0.0) / (1.0 - lost)
    step = np.diff(grid)[:, None]
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    inside = 0.5 * (node + 1.0) * step
    left = np.expm1(step - inside) / np.expm1(step) * np.exp(inside)  # of the chord in e^eps
    chord = left * height[:-1, None] + np.maximum(0.0, 1.0 - left) * height[1:, None]
    epsilon, mass = grid[:-1, None] + inside, 0.5 * weight * step * chord

    def moment(alpha: float) -> float:
        """Return a bound on ``(alpha - 1) D_alpha`` of the pair without infinite losses."""
        scale = (alpha - 1.0) * float(epsilon[-1, -1])
        grown = np.exp((alpha - 1.0) * epsilon - scale) + np.exp(-alpha * epsilon - scale)
        total = float((mass * grown).sum())
        if total == 0.0:
            return 0.0
        return float(np.logaddexp(0.0, math.log(alpha * (alpha - 1.0) * total * (1.0 + _MARGIN)) + scale))

    widest = float(step.max())
    best, low, at_low, excess = 0.0, 1.0, 0.0, _FIRST
    while reach / low > best and excess * widest <= _STEEP:
        high, at_high = 1.0 + excess, moment(1.0 + excess)
        best = max(best, _largest(low, at_low, high, at_high))
        low, at_low, excess = high, at_high, _GROWTH * excess
    # No loss is above the reach: from here on D_alpha/alpha is at most reach/alpha.
    return up(max(best, reach / low) * (1.0 + _MARGIN))


def _largest(low: float, at_low: float, high: float, at_high: float) -> float:
    """Return the largest ``chord(alpha)/(alpha (alpha - 1))`` on ``[low, high]``, of the chord through two moments."""
    # The quotient has one peak: at x + sqrt(x (x - 1)), where x is the chord's zero.
    slope = (at_high - at_low) / (high - low)
    if low == 1.0:
        return at_high / (high - 1.0)
    if slope <= 0.0:
        return at_high / (low * (low - 1.0))
    zero = max(1.0, low - at_low / slope)
    peak = min(high, max(low, zero + math.sqrt(zero * (zero - 1.0))))
    ends = (at_low / (low * (low - 1.0)), at_high / (high * (high - 1.0)))
    return max(*ends, slope * (peak - zero) / (peak * (peak - 1.0)))


def pair_as_zcdp(epsilon: float, delta: float) -> tuple[float, float]:
    """Return ``(epsilon tanh(epsilon/2), delta)``, the zCDP of a pair, rounded up (Harrison and Manurangsi 2025)."""
    exact = up(epsilon, 1)  # not below the decimal that it is written as
    return up(exact * math.tanh(0.5 * exact), 8), delta


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta such that rho-zCDP implies (epsilon, delta)-DP, rounded up; above 0 it is at least 1e-300."""
    # The infimum over alpha > 1 of e^((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^(alpha-1) / alpha (Canonne, Kamath
    # and Steinke 2020, Proposition 12).
    if rho == 0.0:
        return 0.0

    def slope(excess: float) -> float:
        """Return the derivative of the logarithm at ``1 + excess``, which increases."""
        return (2.0 * excess + 1.0) * rho - epsilon + math.log(excess) - math.log1p(excess)

    low, high = 1e-12, 1.0
    while slope(high) < 0.0 and high < 1e300:
        high *= 4.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        if slope(middle) < 0.0:
            low = middle
        else:
            high = middle
        if high <= low * (1.0 + 1e-12):
            break
    alpha = 1.0 + high  # any gives a bound
    terms = (high * alpha * rho, -high * epsilon, high * (math.log(high) - math.log1p(high)), -math.log1p(high))
    rounding = 1e-14 * math.fsum(map(abs, terms))
    return min(1.0, max(1e-300, up(math.exp(min(0.0, math.fsum(terms) + rounding)))))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon such that rho-zCDP implies (epsilon, delta)-DP, within one part in 1e9 of the least known."""
    if delta <= 0.0:
        raise BudgetError("rho in zero-concentrated differential privacy is no pure epsilon. Give a delta above 0")
    most = rho + 2.0 * math.sqrt(rho * -math.log(delta)) + 1e-9  # Bun and Steinke's conversion
    epsilon = least_real(lambda e: log_ratio(zcdp_delta(rho, e), delta), 0.0, most, relative=1e-10, absolute=1e-12)
    return up(most) if epsilon is None else epsilon


def zcdp_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return ``(rho, delta / 10)``, rounded down, such that this zCDP implies (epsilon, delta)-DP, both above 0."""
    if epsilon <= 0.0 or delta <= 0.0:
        raise BudgetError("a ledger in zcdp promises no pure epsilon: epsilon and delta must be above 0. Choose sums")
    summed = below(written(delta) * SUMMED)
    conversion = below(written(delta) - written(summed))
    exact = math.nextafter(epsilon, 0.0)
    inverse = least_real(lambda s: log_ratio(zcdp_delta(1.0 / s, exact), conversion), 1.0 / (epsilon + 1.0), 1e40)
    if inverse is None:
        raise BudgetError("this epsilon is too small for a ledger in zcdp. Choose sums")
    return math.nextafter(1.0 / inverse, 0.0) * (1.0 - 1e-12), summed
