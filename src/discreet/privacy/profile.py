"""Privacy profiles: the function ``epsilon -> delta`` of a mechanism, and what can be asked of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

from discreet._core.checks import real
from discreet._core.errors import BudgetError
from discreet._core.numeric import LogRatio, least_real, log_ratio, up, written

_PROBES = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
_RISES, _BENDS = 1e-9, 1e-3  # relative: how far a sum may lift a value above the one before, or above a line


class Profile(ABC):
    """A privacy profile, ``delta(eps) = sup over neighbours x, y of sup over events E of Q_x(E) - e^eps Q_y(E)``.

    Every number errs towards less privacy: a returned delta or epsilon is never below the true one.

    A profile that says it is *exact* keeps a contract, at every epsilon of at least 0, for the parameters that the
    kernel draws with: ``true <= delta <= 1.01 true`` where the true delta is at least 1e-300, and 0 where that is 0;
    the pure epsilon likewise. It does not increase, and is convex in ``e^epsilon``. What cannot keep the contract
    calls itself an upper bound.

    An epsilon is the decimal that it is written as: 0.1 is one tenth, not the binary fraction next to it.

    Attributes
    ----------
    furthest : float
        Largest epsilon that the profile is computed at; beyond, its value there is an upper bound.
    """

    furthest: ClassVar[float] = 700.0
    tight: bool = False  # whether some neighbours attain it; never claimed unless it is said
    _near: ClassVar[float] = 1e-11  # of the pure epsilon: within it, a sum in floating point has lost too many digits

    @property
    def exact(self) -> bool:
        """Whether the value is the profile itself (within 1 %), not an upper bound: where some neighbours attain it."""
        return self.tight

    @property
    def pure(self) -> float:
        """The least epsilon with delta = 0, rounded up; infinity where there is none."""
        return math.inf if (end := self._end) is None else end.ceiling()

    @property
    def _end(self) -> LogRatio | None:
        """The pure epsilon as an exact number, where the profile cancels next to it."""
        return None

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """Return delta at ``0 <= epsilon <= furthest``, below the pure epsilon, on the safe side."""

    def delta(self, epsilon: float | Fraction | Decimal) -> float:
        """Return the delta of the guarantee at ``epsilon``.

        Parameters
        ----------
        epsilon : float, Fraction or Decimal
            At least 0, the decimal that it is written as. Infinity gives the probability of outcomes that no finite
            epsilon covers.

        Returns
        -------
        float
            In ``[0, 1]``, never below the truth; above 0 and below 1e-300 it is returned as 1e-300.

        Raises
        ------
        BudgetError
            When epsilon is negative or not a number.
        """
        epsilon = real("epsilon", _as_float(epsilon), least=0, infinite=True, error=BudgetError)
        pure = self.pure
        if pure < math.inf and epsilon >= pure:
            return 0.0
        value = self._delta(min(epsilon, self.furthest))
        if pure - epsilon <= self._near * pure < math.inf and (end := self._end) is not None:
            value = min(value, self._chord(epsilon, pure, end))
        return min(1.0, max(value, 1e-300))

    def _chord(self, epsilon: float, pure: float, end: LogRatio) -> float:
        """Return delta on the line to 0 at the pure epsilon: a bound since the profile is convex, its last piece."""
        start = pure * (1.0 - self._near)
        near, far = end.minus(written(epsilon)), end.minus(written(start))
        return up(self._delta(start) * (math.expm1(-near) / math.expm1(-far)), 8)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which ``delta(epsilon) <= delta``, within one part in 1e9 of the least.

        Parameters
        ----------
        delta : float
            In ``[0, 1]``.

        Returns
        -------
        float
            At least 0; the pure epsilon where none up to ``furthest`` reaches ``delta``, infinity where there is none.

        Raises
        ------
        BudgetError
            When delta is outside its range.
        """
        delta = real("delta", float(delta), least=0, most=1, error=BudgetError)
        if delta == 0.0:
            return self.pure
        high = min(self.pure, self.furthest)
        found = least_real(lambda e: log_ratio(self.delta(e), delta), 0.0, high, relative=1e-10, absolute=1e-12)
        return self.pure if found is None else found


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantProfile(Profile):
    """A profile that does not depend on epsilon: with probability ``1 - value`` nothing at all is revealed.

    Parameters
    ----------
    value : float
        The delta at every epsilon, in ``[0, 1]``.
    tight : bool
        Whether some neighbours attain it.
    """

    furthest: ClassVar[float] = math.inf

    value: float
    tight: bool = True

    @property
    def pure(self) -> float:
        """0 when the value is 0, infinity otherwise."""
        return 0.0 if self.value == 0.0 else math.inf

    def _delta(self, epsilon: float) -> float:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestProfile(Profile):
    """The pointwise maximum of several profiles: a bound that holds for each of several kinds of neighbours.

    ``profiles``: at least one.
    """

    furthest: ClassVar[float] = math.inf

    profiles: Sequence[Profile]

    @property
    def exact(self) -> bool:
        """Whether all of them are."""
        return all(p.exact for p in self.profiles)

    @property
    def pure(self) -> float:
        """The largest of their pure epsilons."""
        return max(p.pure for p in self.profiles)

    def _delta(self, epsilon: float) -> float:
        return max(p.delta(epsilon) for p in self.profiles)


def keeps_shape(profile: Profile, epsilons: Sequence[float] | None = None) -> bool:
    """Return whether delta does not increase and is convex in ``e^epsilon``, at some epsilons in ascending order.

    Every true profile has this shape: a value that breaks it is not within 1 % of one. By default at a dozen epsilons.
    """
    if epsilons is None:
        pure = profile.pure
        ends = [share * pure for share in (0.5, 0.9, 0.999)] if pure < math.inf else []
        epsilons = sorted({epsilon for epsilon in (*_PROBES, *ends) if epsilon < pure})
    delta = [profile.delta(epsilon) for epsilon in epsilons]
    falls = all(b <= a * (1.0 + _RISES) for a, b in pairwise(delta))
    points = list(zip(epsilons, delta, strict=True))
    return falls and all(
        middle <= _between(low, epsilon, high, at_low, at_high) * (1.0 + _BENDS)
        for (low, at_low), (epsilon, middle), (high, at_high) in zip(points, points[1:], points[2:], strict=False)
    )


def _between(low: float, epsilon: float, high: float, at_low: float, at_high: float) -> float:
    """Return what the line through two points, in ``e^epsilon``, has at an epsilon between them."""
    share = math.expm1(epsilon - high) / math.expm1(low - high)
    return share * at_low + (1.0 - share) * at_high


def _as_float(value: float | Fraction | Decimal) -> float:
    """Return a number as a float whose written decimal is not above it."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if isinstance(value, (Fraction, Decimal)) and math.isfinite(number) and written(number) > Fraction(value):
        return math.nextafter(number, -math.inf)
    return number
