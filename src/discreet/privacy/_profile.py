"""Privacy profiles: the function ``epsilon -> delta`` of a mechanism, and what can be asked of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from discreet._numeric import least_real
from discreet.errors import BudgetError

__all__ = ["ConstantProfile", "LargestProfile", "Profile"]

_LARGEST_EPSILON = 700.0


class Profile(ABC):
    """A privacy profile, ``delta(eps) = sup over neighbours x, y of sup over events E of Q_x(E) - e^eps Q_y(E)``.

    Every number errs towards less privacy: a returned delta or epsilon is never below the true one.
    """

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether the value is the profile itself (within 1 %) rather than an upper bound on it."""

    @property
    def pure(self) -> float:
        """The least epsilon with delta = 0, or infinity."""
        return math.inf

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """Return delta at ``0 <= epsilon <= 700``, on the safe side."""

    def delta(self, epsilon: float) -> float:
        """Return the delta of the guarantee at ``epsilon``.

        Parameters
        ----------
        epsilon : float
            At least 0. Infinity gives the probability of outcomes that no finite epsilon covers.

        Returns
        -------
        float
            In ``[0, 1]``, never below the truth; above 0 and below 1e-300 it is returned as 1e-300.

        Raises
        ------
        BudgetError
            When epsilon is negative or not a number.
        """
        epsilon = float(epsilon)
        if math.isnan(epsilon) or epsilon < 0:
            raise BudgetError(f"epsilon is a number of at least 0, not {epsilon}")
        if self.pure < math.inf and epsilon >= self.pure:
            return 0.0
        value = self._delta(min(epsilon, _LARGEST_EPSILON))
        return min(1.0, max(value, 1e-300))

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which ``delta(epsilon) <= delta``, within one part in 1e9 of the least.

        Parameters
        ----------
        delta : float
            In ``[0, 1]``.

        Returns
        -------
        float
            At least 0; the pure epsilon where none up to 700 reaches ``delta``, infinity where there is none.

        Raises
        ------
        BudgetError
            When delta is outside its range.
        """
        delta = float(delta)
        if not 0.0 <= delta <= 1.0:
            raise BudgetError(f"delta is a number between 0 and 1, not {delta}")
        if delta == 0.0:
            return self.pure
        high = min(self.pure, _LARGEST_EPSILON)
        found = least_real(lambda epsilon: self.delta(epsilon) <= delta, 0.0, high, relative=1e-10, absolute=1e-12)
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

    value: float
    tight: bool = True

    @property
    def exact(self) -> bool:
        """Whether some neighbours attain the value."""
        return self.tight

    @property
    def pure(self) -> float:
        """0 when the value is 0, infinity otherwise."""
        return 0.0 if self.value == 0.0 else math.inf

    def _delta(self, epsilon: float) -> float:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestProfile(Profile):
    """The pointwise maximum of several profiles: a bound that holds for each of several kinds of neighbours.

    Parameters
    ----------
    profiles : sequence of Profile
        At least one.
    """

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
