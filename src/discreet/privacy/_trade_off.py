"""What a profile allows the best attacker: the trade-off function, on the safe side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.text import rounded_up
from discreet.privacy._algebra import fallen_to
from discreet.privacy._profile import Profile

LEVELS = (
    *(1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05),
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""False-alarm rates that a report lists."""

_FURTHEST = -math.log(LEVELS[0])  # beyond, e^eps times the least level is above 1
_SMALLEST = 1e-15


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff:
    r"""Lower bound on the trade-off function of a profile: the least type II error of a test at each level.

    .. math:: f(\alpha) = \sup_{\varepsilon \ge 0} \max\{0,\; 1 - \delta(\varepsilon) - e^\varepsilon \alpha,\;
        e^{-\varepsilon} (1 - \delta(\varepsilon) - \alpha)\}

    The profile holds for neighbours in both orders, which gives the two terms (Wasserman and Zhou, 2010, Theorem 2.4;
    Dong, Roth and Su, 2022, on the duality of profile and trade-off function). Here the supremum is over finitely many
    epsilons, and each delta is rounded up by the profile: the error that is returned is never above the least one, and
    the power ``1 - f`` never below the greatest one.

    ``epsilons``, ``deltas``, shape (k,): points of the profile.

    Examples
    --------
    >>> from discreet.privacy import ConstantProfile
    >>> curve = TradeOff.of(ConstantProfile(value=0.1))
    >>> [round(float(p), 6) for p in curve.power(np.array([0.0, 0.01, 0.95]))]
    [0.1, 0.11, 1.0]
    """

    epsilons: Floats
    deltas: Floats

    @classmethod
    def of(cls, profile: Profile, *, upto: float = 1.0, among: float = 0.0) -> Self:
        """Take some 150 points of a profile, since each may take a tenth of a second.

        ``profile``: of a release, or of several together.
        ``upto``: how far a picture of the profile goes.
        ``among``: an epsilon that is one of the points.
        """
        # Beyond where delta is negligible, and where e^eps times the least level exceeds 1, nothing is gained.
        top = min(profile.pure, _FURTHEST, 1.05 * _end(profile))
        shown = min(profile.pure, upto)
        steep = shown * (1.0 - np.geomspace(1e-9, 0.1, 12))  # a profile falls steeply where it ends
        parts = (np.geomspace(1e-4, 1.0, 25) * top, np.linspace(0.0, top, 75), np.linspace(0.0, shown, 40), steep)
        epsilons = np.unique(np.concatenate(([among], *parts)))
        return cls(epsilons=epsilons, deltas=np.array([profile.delta(float(e)) for e in epsilons]))

    def power(self, level: Floats) -> Floats:
        """Return an upper bound on the power of every test with these false-alarm rates."""
        alpha = np.asarray(level, dtype=np.float64)[:, None]
        above = np.exp(np.minimum(self.epsilons, 700.0)) * alpha + self.deltas  # beyond 700 any level gives 1
        below = 1.0 - np.exp(-self.epsilons) * (1.0 - self.deltas - alpha)
        # The last factor covers the rounding of these few operations.
        return np.asarray(np.clip(np.minimum(above, below).min(axis=1) * (1.0 + 1e-12), alpha[:, 0], 1.0))

    def points(self, *, upto: float) -> list[tuple[float, float]]:
        """Return the points of the profile for a picture; those where delta is 0 are left out."""
        both = zip(self.epsilons.tolist(), self.deltas.tolist(), strict=True)
        return [(epsilon, delta) for epsilon, delta in both if delta > 0.0 and epsilon <= upto]


def against_guessing(level: float, power: float) -> str:
    """Say how much better than guessing a power is at a false-alarm rate.

    Examples
    --------
    >>> against_guessing(0.05, 0.13)
    'That is at most 2.6 times as often as by guessing.'
    """
    if power >= 0.999:
        return "No protection is promised at this rate."
    if power <= 1.05 * level:
        return "That is hardly better than guessing."
    return f"That is at most {rounded_up(power / level)} times as often as by guessing."


def furthest(profile: Profile, headline: float) -> float:
    """Return how far a picture of a profile goes: to where delta falls no more, the headline epsilon always within."""
    return max(1.3 * headline, min(1.05 * _end(profile), 5.0 * headline), 1e-3)


def _end(profile: Profile) -> float:
    """Return about where delta becomes negligible, or falls no more."""
    return fallen_to(profile, max(_SMALLEST, 1.5 * profile.delta(min(0.999 * profile.pure, 700.0))), within=0.01)
