"""The profile for a group of records as a chain of single replacements."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet._core.numeric import not_above, up
from discreet.privacy._profile import Profile

_SEARCHED = 16  # larger groups are split evenly


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainProfile(Profile):
    """An upper bound on the profile between tables that differ in ``group`` records.

    ``single``: the profile, or a bound on it, for one record.
    ``group``: number of records, at least 2.

    Notes
    -----
    ``delta_g(eps) <= sum_i e^(e_1 + .. + e_(i-1)) delta(e_i)`` for any ``e_1 + .. + e_g = eps``. The best choice gives
    the composition of trade-off functions. Here the ``e_i`` are in arithmetic progression and its step is searched for,
    up to groups of 16; whatever the step, the value is a bound. Negative ``e_i`` use
    ``delta(-e) = 1 - e^-e + e^-e delta(e)``, which holds because the profile covers both orders of the neighbours.
    The bound at epsilon 0, ``g delta(0)``, holds at every epsilon, and is the smaller one where delta hardly falls:
    below it, a bound may rise a little with epsilon, which no exact profile does.
    """

    single: Profile
    group: int

    @property
    def pure(self) -> float:
        """``g`` times the pure epsilon of one record."""
        return up(self.group * self.single.pure)

    def _at(self, epsilon: float, step: float) -> float:
        middle = (self.group - 1) / 2.0
        total, spent = 0.0, 0.0
        for i in range(self.group):
            part = epsilon / self.group + step * (i - middle)
            total += math.exp(spent) * self._one(part)
            spent += part
            if total >= 1.0:
                return 1.0
        return total

    def _one(self, epsilon: float) -> float:
        if epsilon >= 0:
            return self.single.delta(epsilon)
        return -math.expm1(epsilon) + math.exp(epsilon) * self.single.delta(-epsilon)

    def _delta(self, epsilon: float) -> float:
        spent = not_above(epsilon) * (1.0 - 1e-15 * self.group)  # the parts add up to epsilon but for rounding
        return min(self._chain(spent), up(min(1.0, self.group * self.single.delta(0.0))))

    def _chain(self, epsilon: float) -> float:
        if self.group > _SEARCHED:  # equal parts: a geometric series of one value
            part = epsilon / self.group
            series = self.group if part == 0 else math.expm1(epsilon) / math.expm1(part)
            return up(min(1.0, series * self._one(part) * (1.0 + 1e-12)), 8)
        # The bound as a function of the step has one valley; golden-section search, keeping the best value seen.
        golden = (math.sqrt(5.0) - 1.0) / 2.0
        low, high = 0.0, 2.0 * (epsilon + 1.0) / (self.group - 1)
        best = self._at(epsilon, 0.0)
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = self._at(epsilon, left), self._at(epsilon, right)
        for _ in range(18):
            best = min(best, at_left, at_right)
            if at_left <= at_right:
                high, right, at_right = right, left, at_left
                left = high - golden * (high - low)
                at_left = self._at(epsilon, left)
            else:
                low, left, at_left = left, right, at_right
                right = low + golden * (high - low)
                at_right = self._at(epsilon, right)
        return up(min(best, at_left, at_right), 8)
