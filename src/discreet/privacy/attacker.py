"""The best attacker: what a profile lets them reach, and budgets that limit it. Proofs: docs/theory/attacks.md."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.numeric import Floats, least_value, log_ratio
from discreet._core.text import rounded_up
from discreet.privacy.guarantee import AttackBudget
from discreet.privacy.profile import Profile, fallen_to

LEVELS = (
    *(1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05),
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""False-alarm rates that a report lists."""

_FURTHEST = -math.log(LEVELS[0])  # beyond, e^eps times the least level is above 1
_SMALLEST = 1e-15


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff:
    """Lower bound on the trade-off function of a profile: docs/how-to/read-the-report.md. Each delta is rounded up."""

    epsilons: Floats
    deltas: Floats

    @classmethod
    def from_profile(cls, profile: Profile, *, upto: float = 1.0, among: float = 0.0) -> Self:
        """Take some 150 points of a profile, ``among`` one of them, for a picture that goes ``upto`` an epsilon."""
        # Beyond where delta is negligible, and where e^eps times the least level exceeds 1, nothing is gained.
        top = min(profile.pure, _FURTHEST, 1.05 * _end(profile))
        shown = min(profile.pure, upto)
        steep = shown * (1.0 - np.geomspace(1e-9, 0.1, 12))  # a profile falls steeply where it ends
        parts = (np.geomspace(1e-4, 1.0, 25) * top, np.linspace(0.0, top, 75), np.linspace(0.0, shown, 40), steep)
        epsilons = np.unique(
            np.concatenate(([among, Risk(detection=0.99, false_alarms=0.01).best(profile)[1]], *parts))
        )
        return cls(epsilons=epsilons, deltas=profile.deltas(epsilons))

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
    """Say how much better than guessing a power is at a false-alarm rate."""
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
    return fallen_to(profile, max(_SMALLEST, 1.5 * profile.delta(min(0.999 * profile.pure, 700.0))), relative=0.01)


# Budgets in words.


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Risk(AttackBudget):
    """A budget in words: the best attacker who raises so many false alarms detects at most so many true cases.

    Parameters
    ----------
    detection : float
        The most that is detected, a probability above that of a false alarm.
    false_alarms : float
        The probability of a false alarm.

    Examples
    --------
    >>> from discreet.privacy import DiscreteGaussianPair
    >>> risk = Risk(detection=0.05, false_alarms=0.01)
    >>> round(risk.reached(DiscreteGaussianPair(scale=10.0)), 4)
    0.0144
    """

    detection: float
    false_alarms: float

    def best(self, profile: Profile) -> tuple[float, float]:
        """Return the most that is detected, and the epsilon that shows it: each gives a bound, the best is searched."""
        alarms = self.false_alarms

        def bound(epsilon: float) -> float:  # falls, and then rises
            delta, growth = profile.delta(epsilon), math.exp(epsilon)
            below = 1.0 - (1.0 - alarms - delta) / growth + 1e-15
            return min(growth * alarms + delta, below) * (1.0 + 1e-12)  # which covers the rounding of these operations

        end = min(profile.pure, max(20.0, -math.log(alarms)))  # beyond, no bound is below 1 by more than a billionth
        return min((1.0, 0.0), least_value(bound, 0.0, end, steps=36), (bound(end), end))

    def reached(self, profile: Profile) -> float:
        """Return the most that is detected."""
        return self.best(profile)[0]

    def excess(self, profile: Profile) -> float:
        """Return by what log-ratio more is detected than may be; the bound of epsilon 0, where that is enough."""
        quick = (self.false_alarms + profile.delta(0.0)) * (1.0 + 1e-12)
        if quick <= self.detection:
            return log_ratio(quick, self.detection)
        return super(Risk, self).excess(profile)


@sealed
@dataclass(frozen=True, slots=True)
class Advantage(AttackBudget):
    """A budget in words: how much more often the best attacker detects than raises a false alarm.

    It is the total variation distance of what two neighbours release.

    Parameters
    ----------
    advantage : float
        The largest difference of the two probabilities, above 0 and below 1.

    Examples
    --------
    >>> from discreet.privacy import DiscreteLaplacePair
    >>> round(Advantage(0.1).reached(DiscreteLaplacePair(scale=20.0)), 4)
    0.025
    """

    advantage: float

    def reached(self, profile: Profile) -> float:
        """Return the delta at epsilon 0."""
        return profile.delta(0.0)


@sealed
@dataclass(frozen=True, slots=True)
class Success(AttackBudget):
    """A budget in words: how often the best attacker is right who held one of two cases to be true beforehand.

    Parameters
    ----------
    success : float
        The largest probability of a right decision, above that of the likelier case, and below 1.
    prior : float
        How likely a case was beforehand; 0.5 by default.

    Examples
    --------
    >>> from discreet.privacy import DiscreteLaplacePair
    >>> round(Success(0.6, prior=0.5).reached(DiscreteLaplacePair(scale=20.0)), 4)
    0.5125
    """

    success: float
    prior: float = field(default=0.5, kw_only=True)

    def reached(self, profile: Profile) -> float:
        """Return the largest probability of a right decision: it follows from one delta."""
        likelier = max(self.prior, 1.0 - self.prior)
        other = 1.0 - likelier
        epsilon = max(0.0, math.log(likelier / other) * (1.0 - 1e-14) - 1e-15)  # rounded down
        return min(1.0, (likelier + other * profile.delta(epsilon)) * (1.0 + 1e-15))
