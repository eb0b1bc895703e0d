"""Profile of distinct records, each through randomised response (theorem T13).

The dominating pair reveals how many of the ``m`` draws are uniform. With ``G`` the number of others, ``S`` and ``T``
the uniform draws in the two cells, ``(S, T, G)`` multinomial with probabilities ``(b, b, 1-q)``, the likelihoods
relative to that law are ``(n - G + lambda S) / n`` and ``(n - G + lambda T) / n``, ``lambda = k (1-q) / q``. So

``delta(eps) = (lambda / n) E[(S - e^eps T - (n - G) (e^eps - 1) / lambda)_+]``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.numeric import log_binomial, not_above, up
from discreet._core.numeric._log_space import log_error
from discreet.privacy._profile import Profile

_SUMMED = 64  # sizes up to which G is summed over; beyond, it is replaced by a high quantile
_SLACK = 1e-11  # relative error of a binomial tail


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampledPair(Profile):
    """Profile of ``size`` distinct records of ``n``, each replaced by a uniform cell with probability ``mixing``.

    ``n``, ``size``, ``cells``: numbers of records held and drawn, ``m <= n``, and of cells, at least 2.
    ``mixing``: ``q``, in ``(0, 1]``.

    Notes
    -----
    An upper bound, since the pair reveals more than a release, and attained at delta = 0. Above 64 draws ``G`` is
    replaced by a high quantile, and what lies beyond is added.
    """

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
        reach, chance = _reach(mean * q)
        most = min(m, math.ceil(mean + reach))
        total = _excess(m, q * share, (self.n - most) * h / self._odds, math.exp(epsilon))
        return up(min(1.0, (self._odds * total + h * m * chance) / self.n), 64)


def _excess(m: int, p: float, offset: float, factor: float) -> float:
    """Return ``E[(S - factor T - offset)_+]``, rounded up: ``S``, ``T`` count two outcomes of chance ``p`` in ``m``.

    ``T`` is summed over; given it, ``S`` is binomial, and the mean of its excess is a difference of two of its tails.
    """
    mean = m * p
    reach, chance = _reach(mean)
    low, high = max(0, math.floor(mean - reach)), min(m, math.ceil(mean + reach))
    t = np.arange(low, high + 1, dtype=np.float64)
    t = t[factor * t + offset < m - t]
    total = 0.0
    if len(t):
        log_chance = log_binomial(float(m), t) + t * math.log(p) + (m - t) * math.log1p(-p)
        level = factor * t + offset
        excess = _above(m - t, min(1.0, p / (1.0 - p)), level)
        total = float((np.exp(log_chance) * excess).sum()) * math.exp(log_error(m, m))
    return total + (2.0 * m * chance if low > 0 or high < m else 0.0)


def _reach(variance: float) -> tuple[float, float]:
    """Return a distance from a binomial mean, and Bernstein's bound on the probability beyond it on one side."""
    distance = 12.0 * math.sqrt(variance) + 40.0
    return distance, math.exp(-(distance**2) / (2.0 * (variance + distance / 3.0)))


def _above(draws: Floats, p: float, level: Floats) -> Any:
    """Return ``E[(S - level)_+]`` for binomial ``S``, rounded up."""
    from scipy.special import betainc

    first = np.floor(level) + 1.0  # the least value above: 1 to draws
    upper = draws * p * np.where(first > 1.0, betainc(np.maximum(first - 1.0, 1.0), draws - first + 1.0, p), 1.0)
    lower = level * betainc(first, draws - first + 1.0, p)
    return np.maximum(0.0, upper - lower) + _SLACK * (upper + lower)
