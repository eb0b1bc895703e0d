"""The best attacker and the privacy profile, as pictures and tables of texts that are rounded to the safe side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._core.text import about, rounded_down, rounded_up
from discreet.privacy._trade_off import LEVELS, TradeOff, against_guessing, furthest
from discreet.report._charts import Chart, attack_chart, profile_chart
from discreet.report._promise import Joint, Promise, epsilon_text

_EPSILONS = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_DEFAULT = LEVELS.index(0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What the best attacker reaches at one false-alarm rate: texts, rounded to the safe side, and a place."""

    level: str
    power: str
    missed: str
    together: str | None
    reading: str
    at: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """The best attacker's power: a picture, and one row per false-alarm rate."""

    chart: Chart
    rates: tuple[Rate, ...]
    default: int = _DEFAULT

    @property
    def usual(self) -> Rate:
        """The row that is shown first."""
        return self.rates[self.default]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The profiles of a release and of all releases together, evaluated once for all pictures and tables.

    ``alone``: of the release.
    ``together``: of all of them.
    ``upto``: how far the picture of the profiles goes.
    """

    alone: TradeOff
    together: TradeOff | None
    upto: float

    @classmethod
    def of(cls, promise: Promise, together: Joint | None) -> Curves:
        """Evaluate the profiles."""
        one, both = promise.guarantee.profile, None if together is None else together.profile
        upto = furthest(one, promise.epsilon)
        if together is not None:
            upto = max(upto, furthest(together.profile, together.epsilon))
        return cls(
            alone=TradeOff.of(one, upto=upto, among=promise.epsilon),
            together=None if both is None else TradeOff.of(both, upto=upto),
            upto=upto,
        )


def attack(curves: Curves) -> Attack:
    """Compute the greatest power of a test that tells two neighbours apart, at each false-alarm rate."""
    levels = np.array(LEVELS)
    fine = np.unique(np.concatenate((np.linspace(0.0, 1.0, 201), levels)))
    lines = [("this", list(zip(fine.tolist(), curves.alone.power(fine).tolist(), strict=True)))]
    powers = curves.alone.power(levels)
    joined = None
    if curves.together is not None:
        # One release is not more than all of them: their bound may be the coarser one.
        joined = np.maximum(curves.together.power(levels), powers)
        lines.append(("together", list(zip(fine.tolist(), curves.together.power(fine).tolist(), strict=True))))
    chart, places = attack_chart(lines, list(zip(LEVELS, powers.tolist(), strict=True)))
    rates = []
    for i, (level, power) in enumerate(zip(LEVELS, powers.tolist(), strict=True)):
        rates.append(
            Rate(
                level=f"{about(100 * level, 6)} %",
                power=f"{_percent_up(power)} %",
                missed=f"{_percent_down(1.0 - power)} %",
                together=None if joined is None else f"{_percent_up(float(joined[i]))} %",
                reading=against_guessing(level, power),
                at=places[i],
            )
        )
    return Attack(chart=chart, rates=tuple(rates))


def _percent_up(share: float) -> str:
    return rounded_up(min(100.0, 100.0 * share), 3)


def _percent_down(share: float) -> str:
    return rounded_down(max(0.0, 100.0 * share), 3)


def profile_table(promise: Promise, together: Joint | None) -> tuple[tuple[str, str, str | None, bool], ...]:
    """Return rows of epsilon, delta, delta of all releases together, and whether this is the certificate's epsilon."""
    rows = []
    for epsilon in sorted({*_EPSILONS, promise.epsilon}):
        joined = None if together is None else rounded_up(together.profile.delta(epsilon))
        own = epsilon == promise.epsilon
        delta = rounded_up(promise.delta if own else promise.guarantee.delta(epsilon))
        rows.append((epsilon_text(epsilon), delta, joined, own))
    return tuple(rows)


def profile_picture(promise: Promise, curves: Curves) -> Chart:
    """Draw the profile of the release, and of all releases together."""
    lines = [("this", curves.alone.points(upto=curves.upto))]
    if curves.together is not None:
        lines.append(("together", curves.together.points(upto=curves.upto)))
    return profile_chart(
        lines,
        upto=curves.upto,
        headline=(promise.epsilon, promise.delta),
        marked=f"epsilon {epsilon_text(promise.epsilon)}, delta {promise.delta_text}",
    )
