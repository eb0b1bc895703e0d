"""Exact profiles of the two sampling mechanisms: the urn (T4) and the mixture with uniform (T5).

Each states what :mod:`discreet.privacy._ancillary_sum` sums: the law of the number of draws in the two cells, and where
and by how much one more draw adds to the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet._core.numeric import LogRatio, log_beta_binomial, log_binomial
from discreet._core.text import as_written
from discreet.privacy._ancillary_sum import SamplingPair

_LEAST_MASS = 1e-150
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrnPair(SamplingPair):
    """Profile of ``DirMult(m; a+1, b, rest)`` against ``DirMult(m; a, b+1, rest)`` (theorem T4, one order).

    Parameters
    ----------
    size : int
        Number of records drawn, ``m >= 1``.
    a, b : float
        Prior mass of the cell that lost the record and of the one that gained it, at least 1e-150: sums with smaller
        ones leave the range of numbers.
    rest : float
        All other mass in the urn, ``A - a - b - 1 >= 0``; 0 is the two-cell domain.
    tight : bool
        Whether this pair is itself a pair of neighbours' laws.

    Notes
    -----
    The loss on the outcome ``(s, t)`` is ``log((a+s)/a) - log((b+t)/b)``, at most ``log(1 + m/a)``
    (Machanavajjhala's condition). ``U ~ BetaBin(m; a+b+1, rest)``. Given ``U = u``:
    ``w_u = BetaBin(u; a, b)`` and ``g_u(s) = F_u (y_u - t)`` with
    ``F_u = (a+b)(b + e^eps a) / (a b (a+b+u))`` and ``y_u = b (u - a (e^eps - 1)) / (b + e^eps a)``.
    """

    size: int
    a: float
    b: float
    rest: float
    tight: bool = True

    def __post_init__(self) -> None:
        if not min(self.a, self.b) >= _LEAST_MASS:
            raise ParameterError(f"the masses of an urn's cells must be at least {as_written(_LEAST_MASS)}")

    @property
    def _end(self) -> LogRatio:
        return LogRatio(1 + self.size / Fraction(self.a))

    @property
    def _bells(self) -> bool:
        return self.a >= 1.0 and self.b >= 1.0

    @property
    def _total(self) -> float:
        return self.size + self.a + self.b + self.rest + 1.0

    def _log_ancillary(self, u: Floats) -> Floats:
        result: Floats = log_beta_binomial(u, float(self.size), self.a + self.b + 1.0, self.rest)
        return result

    def _ancillary_moments(self) -> tuple[float, float]:
        total = self.a + self.b + 1.0 + self.rest
        share = (self.a + self.b + 1.0) / total
        mean = self.size * share
        variance = mean * (1.0 - share) * (self.size + total) / (total + 1.0)
        return mean, (math.sqrt(variance) if self.rest > 0 else 0.0)

    def _ratio(self, u: int) -> float:
        if self.rest < 1.0:
            return 1.0
        m, both = self.size, self.a + self.b + 1.0
        return (m - u) / (u + 1.0) * (both + u) / (self.rest + m - u - 1.0)

    def _crossing(self, u: Floats, epsilon: float) -> Floats:
        y = self.b * (u - self.a * math.expm1(epsilon)) / (self.b + math.exp(epsilon) * self.a)
        doubt = self._doubt(0.0, epsilon)
        return np.where(np.abs(y) <= doubt, doubt, y)

    def _doubt(self, y: Any, epsilon: float) -> Any:
        """Return a bound on the rounding error of ``y``: a few units of it, and of what is taken away in it.

        Of that term: one unit for the exponential, half for the product. Of ``y``: three for the quotient.
        """
        a, b = self.a, self.b
        return 4 * _EPS * (np.abs(y) + b * (a * math.expm1(epsilon) / (b + math.exp(epsilon) * a)))

    def _factor(self, u: Any, epsilon: float) -> Any:
        a, b = self.a, self.b
        return (a + b) / (a + b + u) * (1.0 / a + math.exp(epsilon) / b)

    def _increment(self, u: Floats, tau: Floats, y: Floats, epsilon: float) -> Floats:
        a, b = self.a, self.b
        s = u - tau
        weight = np.exp(log_beta_binomial(s, u, a, b))
        # y carries rounding errors: widen both sides of the crossing by them.
        rounding = self._doubt(y, epsilon)
        up_step = (a + s) / (a + b + u) * (y - tau + rounding)
        down_step = (b + tau) / (a + b + u) * (tau + 1.0 - y + rounding)
        result: Floats = weight * self._factor(u + 1.0, epsilon) * np.minimum(up_step, down_step)
        return result

    def _log_terms(self, u: float, t: Floats, y: float, epsilon: float) -> Floats:
        rounding = self._doubt(y, epsilon)
        weight = log_beta_binomial(u - t, u, self.a, self.b)
        result: Floats = weight + np.log(self._factor(u, epsilon) * (y - t + rounding))
        return result

    def _limit(self, epsilon: float) -> float:
        from scipy.special import betainc

        a, b = self.a, self.b
        odds = math.exp(-epsilon) * b / a  # (1-x)/x at the crossing
        above = odds / (1.0 + odds)
        left, right = betainc(b, a + 1.0, above), math.exp(epsilon) * betainc(b + 1.0, a, above)
        return float(min(1.0, left - right + 1e-12 * left))


@dataclass(frozen=True, slots=True, kw_only=True)
class MixturePair(SamplingPair):
    """Profile of ``m`` independent draws from ``(b+s, b, rest)`` against ``(b, b+s, rest)`` (theorem T5).

    Parameters
    ----------
    size : int
        Number of independent draws, ``m >= 1``.
    base : float or Fraction
        ``b = q/k``, the probability that a draw falls in a given cell by the uniform part alone, positive.
    moved : float or Fraction
        ``s = g (1-q)/n``, the probability that the changed records carry, positive.
    tight : bool
        Whether this pair is itself a pair of neighbours' laws.

    Notes
    -----
    The loss is ``(S - T) l`` with ``l = log(1 + s/b)``, at most ``m l``. ``U ~ Bin(m, 2b+s)``. Given ``U = u`` the
    pair is randomised response repeated ``u`` times, with base law ``Bin(u, 1/2)`` and likelihoods
    ``cosh(l/2)^-u e^{+-(s-t) l/2}``.
    """

    furthest: ClassVar[float] = 1e15
    _bells: ClassVar[bool] = True

    size: int
    base: float | Fraction
    moved: float | Fraction
    tight: bool = True

    @property
    def _unit(self) -> float:
        return math.log1p(float(self.moved / self.base))

    @property
    def _end(self) -> LogRatio:
        return LogRatio(1 + Fraction(self.moved) / Fraction(self.base), self.size)

    @property
    def _total(self) -> float:
        return float(self.size)

    @property
    def _both(self) -> float:
        return min(1.0, float(2 * self.base + self.moved))

    def _log_ancillary(self, u: Floats) -> Floats:
        p, m = self._both, float(self.size)
        result: Floats = log_binomial(m, u) + u * math.log(p) + (m - u) * math.log1p(-p)
        return result

    def _ancillary_moments(self) -> tuple[float, float]:
        p = self._both
        return self.size * p, math.sqrt(self.size * p * max(0.0, 1.0 - p)) if p < 1.0 - 1e-12 else 0.0

    def _ratio(self, u: int) -> float:
        return (self.size - u) / (u + 1.0) * self._both / (1.0 - self._both)

    def _crossing(self, u: Floats, epsilon: float) -> Floats:
        y = 0.5 * (u - epsilon / self._unit)
        doubt = 4 * _EPS * (u + epsilon / self._unit)
        return np.where(np.abs(y) <= doubt, doubt, y)

    def _log_likelihood(self, u: Any, difference: Any) -> Any:
        half = 0.5 * self._unit
        # log cosh(half) without cancellation
        log_cosh = (
            half + math.log1p(math.expm1(-2.0 * half) / 2.0)
            if half > 1e-3
            else math.log1p(2.0 * math.sinh(0.5 * half) ** 2)
        )
        return half * difference - u * log_cosh

    def _increment(self, u: Floats, tau: Floats, y: Floats, epsilon: float) -> Floats:
        unit = self._unit
        high = u + 1.0 - 2.0 * tau  # s - t just above the crossing
        low = high - 2.0
        weight = log_binomial(u, tau) - (u + 1.0) * math.log(2.0)
        rounding = 8 * _EPS * (epsilon + np.abs(high) * unit)
        gain = -np.expm1(np.minimum(0.0, epsilon - high * unit)) + rounding
        loss = np.expm1(np.maximum(0.0, epsilon - low * unit)) + rounding
        above = self._log_likelihood(u + 1.0, high) + np.log(gain)
        below = self._log_likelihood(u + 1.0, low) + np.log(loss)
        result: Floats = np.exp(weight + np.minimum(above, below))
        return result

    def _log_terms(self, u: float, t: Floats, y: float, epsilon: float) -> Floats:
        difference = u - 2.0 * t
        rounding = 8 * _EPS * (epsilon + np.abs(difference) * self._unit)
        log_weight = log_binomial(u, t) - u * math.log(2.0) + self._log_likelihood(u, difference)
        positive = -np.expm1(np.minimum(0.0, epsilon - difference * self._unit)) + rounding
        result: Floats = log_weight + np.log(positive)
        return result

    def _limit(self, epsilon: float) -> float:
        return 1.0
