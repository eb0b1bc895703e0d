"""How many guesses about who is in a table can be right, if one release of it keeps its promise: the law of the null.

Of each of m pairs of records a fair coin has put one into the table. Whoever sees the release guesses which, for r of
the pairs, as dependent on one another as they like. The theorem and its proof are in docs/theory/audit-of-a-release.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.privacy import Profile

POWER = 0.95
"""Of the epsilon that a test says it would have detected."""

_EPSILONS = 64  # at which the profile is asked; any of them gives a bound, and the least is taken
_NEGLIGIBLE = 1e-12
_FURTHEST = 40.0
_TINY = 1e-200  # below, a tail is not compared with its first term but with a geometric series
_ROUNDING = 1e-9  # relative, upwards


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedProfile(Profile):
    """The profile of a bare claim of (epsilon, delta): the largest that satisfies it.

    ``epsilon_stated``: at least 0.
    ``delta_stated``: in ``[0, 1)``.
    """

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
        beyond = -np.expm1(epsilon - self.epsilon_stated) / (1.0 + np.exp(-self.epsilon_stated))
        return float(min(1.0, (self.delta_stated + (1.0 - self.delta_stated) * beyond) * (1.0 + _ROUNDING)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """A claim, as bounds on the number of right guesses.

    ``epsilons``, ``deltas``, shape (E,): points of the profile between tables of which one record is exchanged.
    """

    epsilons: Floats
    deltas: Floats

    @classmethod
    def of(cls, profile: Profile) -> Null:
        """Return the bounds that follow from a profile."""
        last = profile.pure if np.isfinite(profile.pure) else profile.epsilon(_NEGLIGIBLE)
        last = min(last, _FURTHEST)
        stated = [profile.epsilon_stated] if isinstance(profile, StatedProfile) else []
        epsilons = np.unique([*np.linspace(0.0, last, _EPSILONS), *stated])
        return cls(epsilons=epsilons, deltas=np.array([profile.delta(float(one)) for one in epsilons]))

    def tail(self, guesses: int, pairs: int) -> Floats:
        """Return a bound on the probability that at least v guesses are right, for v from 0 to all of them.

        ``guesses``: how many pairs are guessed, the same whatever was released.
        ``pairs``: how many pairs there are.
        Returns, shape (guesses + 1,): at most 1. For each v, the least of the bounds of all epsilons.
        """
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

    def p_value(self, right: int, guesses: int, pairs: int) -> float:
        """Return a number that is at most ``a`` with probability at most ``a`` where the claim holds, for every a."""
        return float(self.tail(guesses, pairs)[right])


def detectable(rejecting: Integers, guesses: int, *, power: float = POWER) -> float | None:
    """Return the epsilon that would be detected: of a release by which guesses are right as often as it allows.

    ``rejecting``: the numbers of right guesses that reject.
    ``guesses``: how many there are.
    ``power``: with which probability it would be rejected.
    Returns: rounded up to one part in 100; None where there is none up to 40.
    """
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
