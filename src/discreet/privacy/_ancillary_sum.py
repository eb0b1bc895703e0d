"""The one-dimensional sum behind the exact profiles of the urn (T4) and of the mixture with uniform (T5).

Why this file exists. Both theorems reduce a release of ``m`` records to one pair of laws on ``(S, T)``, the numbers of
draws in the cell that lost a record and in the cell that gained one. The sum over ``(s, t)`` has ``m^2 / 2`` terms.
Two facts reduce it to one short sum (docs/theory/sampling-is-noise.md):

1. ``U = S + T`` has the same law under both datasets, and given ``U = u`` the draws in the two cells are an urn (or
   coin) sequence of length ``u``. So ``delta = E[delta_U]``, with ``delta_u`` the profile after ``u`` such draws.
2. Along that sequence ``g_u = p_u - e^eps q_u`` (likelihoods relative to a base law ``w_u``) is a martingale and
   increases in ``s``. Hence ``delta_u = E[(g_u)_+]`` grows only where one more draw can change the sign of ``g``,
   which is a single value of ``s`` for each ``u``:
   ``delta_{u+1} - delta_u = w_u(s) min(pi g_{u+1}(s+1), (1 - pi) |g_{u+1}(s)|)``, ``pi = P(next draw in S | s)``.

So ``delta(eps) = sum_u P(U > u) (delta_{u+1} - delta_u)``: every term is positive, none is lost to cancellation.

Edge cases: no other mass (``U = m``, the two-cell domain); ``U`` over a range too long to sum, where the terms below a
low quantile are replaced by their sum ``delta_u`` (an upper bound, since ``P(U > u) <= 1``) and those beyond the last
summed by ``P(U > u) (delta_infinity - delta_u)``, again an upper bound: where it may exceed 1 %, the profile says that
it is not exact.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.numeric import not_above, up
from discreet._core.numeric._log_space import log_error
from discreet.privacy._profile import Profile

_NEGLIGIBLE = -760.0  # log of less than the least positive double
_DROPS = (60.0, 240.0, 760.0)  # how far, in nats, U's law is followed below its top
_LONGEST = 4_000_000  # terms summed directly
_CHUNK = 1 << 16
_AT_ONCE = 64  # numbers that a search tries together
_EPS = float(np.finfo(float).eps)


def _least(holds: Callable[[Floats], npt.NDArray[np.bool_]], low: int, high: int) -> int:
    """Return the least whole number in ``[low, high)`` where a monotone condition holds, ``high`` if there is none."""
    while low < high:
        tried = np.arange(low, high, max(1, (high - low) // _AT_ONCE))
        false = int(np.count_nonzero(~holds(tried.astype(np.float64))))
        low, high = (int(tried[false - 1]) + 1 if false else low), (int(tried[false]) if false < len(tried) else high)
    return low


class SamplingPair(Profile):
    """What the urn and the mixture share: the sum over the ancillary ``U``."""

    __slots__ = ()

    size: int
    tight: bool

    @property
    def exact(self) -> bool:
        """Whether some neighbours attain the profile, and the sum is short enough to be within 1 %.

        The sum is short enough when few draws are possible, or ``U`` falls off within the terms that are summed.
        """
        if not self.tight or self.size > 10**8:
            return False
        mean, deviation = self._ancillary_moments()
        if self.size <= _LONGEST or deviation == 0.0:
            return self.size <= _LONGEST
        far = mean + _LONGEST
        return far >= self.size or self._log_at(far) < self._log_at(mean) - _DROPS[0]

    def _log_at(self, u: float) -> float:
        return float(self._log_ancillary(np.array([math.floor(u)], dtype=np.float64))[0])

    # --- the ancillary number of draws in the two cells -------------------------------------------------------------

    @abstractmethod
    def _log_ancillary(self, u: Floats) -> Floats:
        """Return ``log P(U = u)``."""

    @abstractmethod
    def _ancillary_moments(self) -> tuple[float, float]:
        """Return the mean and standard deviation of ``U``; the deviation is 0 when ``U = size`` surely."""

    @abstractmethod
    def _ratio(self, u: int) -> float:
        """Return ``P(U = u + 1) / P(U = u)`` where it falls with ``u``, 1 where it need not."""

    # --- the pair given U = u -------------------------------------------------------------------------------------

    @abstractmethod
    def _crossing(self, u: Floats, epsilon: float) -> Floats:
        """Return ``y``: after ``u`` draws, ``g > 0`` exactly where ``t < y``; above 0 where rounding leaves a doubt."""

    @abstractmethod
    def _increment(self, u: Floats, tau: Floats, y: Floats, epsilon: float) -> Floats:
        """Return ``delta_{u+1} - delta_u``, with ``tau`` the largest ``t`` where ``g_{u+1} > 0`` and ``y`` its root."""

    @abstractmethod
    def _log_terms(self, u: float, t: Floats, y: float, epsilon: float) -> Floats:
        """Return ``log(w_u(u - t) g_u(u - t))`` for ``t < y``."""

    @abstractmethod
    def _limit(self, epsilon: float) -> float:
        """Return an upper bound on ``delta_u`` for all ``u``."""

    @property
    @abstractmethod
    def _bells(self) -> bool:
        """Whether ``w_u`` is log-concave, so that the terms of ``delta_u``, once falling, fall for good."""

    @property
    @abstractmethod
    def _total(self) -> float:
        """Return the total mass, for the rounding bound."""

    # --- the sum --------------------------------------------------------------------------------------------------

    def _delta(self, epsilon: float) -> float:
        epsilon = not_above(epsilon)
        mean, deviation = self._ancillary_moments()
        slack = math.exp(log_error(self.size, self._total))
        first = self._first(epsilon)
        if first >= self.size:
            return 0.0
        if deviation == 0.0:
            sure = self._conditional(self.size, epsilon) if self.size <= _LONGEST else self._most(epsilon)
            return up(min(1.0, sure * slack))
        # Everything that can happen before u is reached adds up to delta_u: use it for the long, nearly certain start.
        before = 0.0
        start = max(first, math.floor(mean - 8.0 * deviation))
        if self._bells and start > first + 4096:
            before = self._conditional(start, epsilon)
        else:
            start = first
        value = 1.0
        for drop in _DROPS:
            last = self._last(start, mean, drop)
            stop = min(last, start + _LONGEST)
            beyond = self._beyond(stop, mean)
            value = before + self._sum(start, stop, epsilon, beyond)
            # What is left is at most P(U > stop) (delta_infinity - delta_stop).
            left = beyond * self._most(epsilon)
            done = left <= 1e-4 * value
            if not done and (stop < last or drop == _DROPS[-1]):
                left, done = beyond * max(0.0, self._most(epsilon) - self._conditional(stop, epsilon)), True
            value += left
            if done:
                break
        value *= slack
        return up(value) if value < 1.0 else 1.0  # a sum that is not a number promises nothing

    def _most(self, epsilon: float) -> float:
        return self._limit(epsilon) * (1.0 + 1e-9)

    def _beyond(self, stop: int, mean: float) -> float:
        """Return an upper bound on ``P(U > stop)``: the geometric series of the ratio at ``stop``."""
        if stop >= self.size:
            return 0.0
        ratio = self._ratio(stop)
        if stop <= mean or ratio >= 1.0:
            return 1.0
        return min(1.0, math.exp(min(0.0, self._log_at(stop))) * ratio / (1.0 - ratio) * (1.0 + 1e-12) + 1e-305)

    def _sum(self, start: int, stop: int, epsilon: float, beyond: float) -> float:
        """Return the sum of ``P(U > u) (delta_{u+1} - delta_u)`` over ``start <= u < stop``, given ``P(U > stop)``."""
        value, survival = 0.0, beyond
        for top in range(stop, start, -_CHUNK):
            u = np.arange(max(start, top - _CHUNK), top, dtype=np.float64)
            mass = np.exp(self._log_ancillary(u + 1.0))  # P(U = u + 1)
            above = survival + np.cumsum(mass[::-1])[::-1]  # P(U > u)
            y = self._crossing(u + 1.0, epsilon)
            tau = np.ceil(y) - 1.0
            live = tau >= 0.0
            if live.any():
                step = self._increment(u[live], tau[live], y[live], epsilon)
                value += float(np.minimum(above[live], 1.0) @ step)
            survival = float(above[0])
        return value

    def _first(self, epsilon: float) -> int:
        """Return the least ``u`` at which one more draw can reveal more than ``epsilon``."""
        return _least(lambda u: self._crossing(u + 1.0, epsilon) > 0.0, 0, self.size)

    def _last(self, start: int, mean: float, drop: float) -> int:
        """Return a ``u`` where ``log P(U = u)`` is ``drop`` below its top from ``start`` on, or ``size``."""
        low = max(start, math.floor(mean) + 1)
        if low >= self.size:
            return self.size
        level = max(_NEGLIGIBLE, self._log_at(low) - drop)
        return _least(lambda u: self._log_ancillary(u) < level, low, self.size)

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
                return value + (1.0 if top >= 0 else 0.0)
        return value
