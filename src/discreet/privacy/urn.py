"""Exact profiles of the two sampling mechanisms: the urn (T4) and the mixture with uniform (T5)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError
from discreet._core.lazy import special
from discreet._core.numeric import Floats, LogRatio, log_beta_binomial, log_binomial, log_error, not_above, up
from discreet._core.text import as_written
from discreet.privacy.profile import Profile

# The one-dimensional sum behind both, whose terms are positive: lemma 6 of docs/theory/sampling-is-noise.md, with its
# bounds on what is left out. Where these may exceed 1 %, the profile says that it is not exact.

_NEGLIGIBLE = -760.0  # log of less than the least positive double
_DROPS = (60.0, 240.0, 760.0)  # how far, in nats, U's law is followed below its top
_LONGEST = 4_000_000  # terms summed directly
_CHUNK = 1 << 16
_AT_ONCE = 64  # numbers that a search tries together
_EPS = float(np.finfo(float).eps)


def _least_number(holds: Callable[[Floats], npt.NDArray[np.bool_]], low: int, high: int) -> int:
    """Return the least whole number in ``[low, high)`` where a monotone condition holds, ``high`` if there is none."""
    while low < high:
        tried = np.arange(low, high, max(1, (high - low) // _AT_ONCE))
        false = int(np.count_nonzero(~holds(tried.astype(np.float64))))
        if false < len(tried):
            high = int(tried[false])
        if false:
            low = int(tried[false - 1]) + 1
    return low


class SamplingPair(Profile):
    """What the urn and the mixture share: the sum over the ancillary ``U``."""

    __slots__ = ()

    size: int
    tight: bool

    @property
    def exact(self) -> bool:
        """Whether some neighbours attain the profile, and few draws are possible, or ``U`` falls off within the sum."""
        if not self.tight or self.size > 10**8:
            return False
        mean, deviation = self._ancillary_moments()
        if self.size <= _LONGEST or deviation == 0.0:
            return self.size <= _LONGEST
        end = mean + _LONGEST
        return end >= self.size or self._log_at(end) < self._log_at(mean) - _DROPS[0]

    def _log_at(self, u: float) -> float:
        return float(self._log_ancillary(np.array([math.floor(u)], dtype=np.float64))[0])

    @abstractmethod
    def _log_ancillary(self, u: Floats) -> Floats:
        """Return ``log P(U = u)``."""

    @abstractmethod
    def _ancillary_moments(self) -> tuple[float, float]:
        """Return the mean and standard deviation of ``U``; the deviation is 0 when ``U = size`` surely."""

    @abstractmethod
    def _ratio(self, u: int) -> float:
        """Return ``P(U = u + 1) / P(U = u)`` where it falls with ``u``, 1 where it need not."""

    @abstractmethod
    def _crossing(self, u: Floats, epsilon: float) -> Floats:
        """Return ``y``: after ``u`` draws, ``g > 0`` exactly where ``t < y``; above 0 where rounding leaves a doubt."""

    @abstractmethod
    def _increment(self, u: Floats, tau: Floats, y: Floats, epsilon: float) -> Floats:
        """Return ``delta_{u+1} - delta_u``, with ``tau`` the largest ``t`` where ``g_{u+1} > 0`` and ``y`` its root."""

    @abstractmethod
    def _log_terms(self, u: float, t: Floats, y: float, epsilon: float) -> Floats:
        """Return ``log(w_u(u - t) g_u(u - t))`` for ``t < y``."""

    def _limit(self, epsilon: float) -> float:
        """Return an upper bound on ``delta_u`` for all ``u``."""
        return 1.0

    @property
    @abstractmethod
    def _bells(self) -> bool:
        """Whether ``w_u`` is log-concave, so that the terms of ``delta_u``, once falling, fall for good."""

    @property
    @abstractmethod
    def _total(self) -> float:
        """Return the total mass, for the rounding bound."""

    def _delta(self, epsilon: float) -> float:
        epsilon = not_above(epsilon)
        mean, deviation = self._ancillary_moments()
        slack = math.exp(log_error(self.size, self._total))
        # the least u at which one more draw can reveal more than epsilon
        least = _least_number(lambda u: self._crossing(u + 1.0, epsilon) > 0.0, 0, self.size)
        if least >= self.size:
            return 0.0
        most = self._limit(epsilon) * (1.0 + 1e-9)
        if deviation == 0.0:
            sure = self._conditional(self.size, epsilon) if self.size <= _LONGEST else most
            return up(min(1.0, sure * slack))
        # Everything that can happen before u is reached adds up to delta_u: use it for the long, nearly certain start.
        initial = 0.0
        start = max(least, math.floor(mean - 8.0 * deviation))
        if self._bells and start > least + 4096:
            initial = self._conditional(start, epsilon)
        else:
            start = least
        value = 1.0
        for drop in _DROPS:
            last = self._last(start, mean, drop)
            stop = min(last, start + _LONGEST)
            tail = self._beyond(stop, mean)
            value = initial + self._sum(start, stop, epsilon, tail)
            # What is left is at most P(U > stop) (delta_infinity - delta_stop).
            remainder = tail * most
            done = remainder <= 1e-4 * value
            if not done and (stop < last or drop == _DROPS[-1]):
                remainder, done = tail * max(0.0, most - self._conditional(stop, epsilon)), True
            value += remainder
            if done:
                break
        value *= slack
        return up(value) if value < 1.0 else 1.0  # a sum that is not a number promises nothing

    def _beyond(self, stop: int, mean: float) -> float:
        """Return an upper bound on ``P(U > stop)``: the geometric series of the ratio at ``stop``."""
        if stop >= self.size:
            return 0.0
        ratio = self._ratio(stop)
        if stop <= mean or ratio >= 1.0:
            return 1.0
        return min(1.0, math.exp(min(0.0, self._log_at(stop))) * ratio / (1.0 - ratio) * (1.0 + 1e-12) + 1e-305)

    def _sum(self, start: int, stop: int, epsilon: float, tail: float) -> float:
        """Return the sum of ``P(U > u) (delta_{u+1} - delta_u)`` over ``start <= u < stop``, given ``P(U > stop)``."""
        value, survival = 0.0, tail
        for top in range(stop, start, -_CHUNK):
            u = np.arange(max(start, top - _CHUNK), top, dtype=np.float64)
            mass = np.exp(self._log_ancillary(u + 1.0))  # P(U = u + 1)
            above = survival + np.cumsum(mass[::-1])[::-1]  # P(U > u)
            y = self._crossing(u + 1.0, epsilon)
            tau = np.ceil(y) - 1.0
            live = tau >= 0.0
            if live.any():
                value += float(np.minimum(above[live], 1.0) @ self._increment(u[live], tau[live], y[live], epsilon))
            survival = float(above[0])
        return value

    def _last(self, start: int, mean: float, drop: float) -> int:
        """Return a ``u`` where ``log P(U = u)`` is ``drop`` below its top from ``start`` on, or ``size``."""
        low = max(start, math.floor(mean) + 1)
        if low >= self.size:
            return self.size
        level = max(_NEGLIGIBLE, self._log_at(low) - drop)
        return _least_number(lambda u: self._log_ancillary(u) < level, low, self.size)

    def _conditional(self, u: int, epsilon: float) -> float:
        """Return ``delta_u``, the profile after exactly ``u`` draws in the two cells."""
        y = float(self._crossing(np.array([float(u)]), epsilon)[0])
        top = min(math.ceil(y) - 1, u)
        value, terms = 0.0, 0
        while top >= 0:
            bottom = max(0, top - _CHUNK + 1)
            log_part = self._log_terms(float(u), np.arange(bottom, top + 1, dtype=np.float64), y, epsilon)
            value += float(np.exp(log_part).sum())
            terms += len(log_part)
            top = bottom - 1
            if top >= 0 and self._bells and log_part[0] < log_part[1]:
                beyond = (top + 1) * math.exp(log_part[0])
                if beyond <= 1e-12 * value or log_part[0] < _NEGLIGIBLE:
                    return value + beyond
            if terms > 16 * _LONGEST:
                return value + float(top >= 0)
        return value


_LEAST_MASS = 1e-150


@sealed
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
        return np.asarray(log_beta_binomial(u, float(self.size), self.a + self.b + 1.0, self.rest))

    def _ancillary_moments(self) -> tuple[float, float]:
        total = self.a + self.b + 1.0 + self.rest
        share = (self.a + self.b + 1.0) / total
        mean = self.size * share
        if self.rest <= 0.0:  # all draws are of the two
            return mean, 0.0
        return mean, math.sqrt(mean * (1.0 - share) * (self.size + total) / (total + 1.0))

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
        """Return a bound on the rounding error of ``y``: a few units of it, and of what is taken away in it."""
        # Of that term: one unit for the exponential, half for the product. Of y: three for the quotient.
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
        return np.asarray(weight * self._factor(u + 1.0, epsilon) * np.minimum(up_step, down_step))

    def _log_terms(self, u: float, t: Floats, y: float, epsilon: float) -> Floats:
        rounding = self._doubt(y, epsilon)
        weight = log_beta_binomial(u - t, u, self.a, self.b)
        return np.asarray(weight + np.log(self._factor(u, epsilon) * (y - t + rounding)))

    def _limit(self, epsilon: float) -> float:
        a, b = self.a, self.b
        odds = math.exp(-epsilon) * b / a  # (1-x)/x at the crossing
        above = odds / (1.0 + odds)
        left, right = special.betainc(b, a + 1.0, above), math.exp(epsilon) * special.betainc(b + 1.0, a, above)
        return float(min(1.0, left - right + 1e-12 * left))


@sealed
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
        return np.asarray(log_binomial(m, u) + u * math.log(p) + (m - u) * math.log1p(-p))

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
        log_cosh = half + math.log1p(math.expm1(-2.0 * half) / 2.0)
        if half <= 1e-3:
            log_cosh = math.log1p(2.0 * math.sinh(0.5 * half) ** 2)
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
        return np.asarray(np.exp(weight + np.minimum(above, self._log_likelihood(u + 1.0, low) + np.log(loss))))

    def _log_terms(self, u: float, t: Floats, y: float, epsilon: float) -> Floats:
        difference = u - 2.0 * t
        rounding = 8 * _EPS * (epsilon + np.abs(difference) * self._unit)
        log_weight = log_binomial(u, t) - u * math.log(2.0) + self._log_likelihood(u, difference)
        positive = -np.expm1(np.minimum(0.0, epsilon - difference * self._unit)) + rounding
        return np.asarray(log_weight + np.log(positive))
