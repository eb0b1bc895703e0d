"""The promise of a certificate in plain words and numbers: public facts only, recomputed rather than believed."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet._core.errors import DiscreetError, FileProblem, ParameterError
from discreet._core.text import about, counted, rounded_down, rounded_up
from discreet.mechanisms import Contents, Mechanism
from discreet.privacy import Guarantee, Profile, compose
from discreet.privacy.guarantee import LEVELS, TradeOff, against_guessing, furthest
from discreet.releases import Certificate, verify
from discreet.releases.content import certified_release, utility_facts
from discreet.releases.verification import SECONDS, Check, promised_now, within
from discreet.report.charts import Chart, attack_chart, profile_chart

_KINDS = {
    "unconditional": "Unconditional: it holds for every table of the declared domain, by a proved theorem.",
    "asymptotic": "Asymptotic: it holds in a limit of large samples only, and may not hold for this table.",
    "empirical": "Empirical: it was measured, or holds in exact arithmetic and was sampled in floating point. It is "
    "not proved for this release.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One release's promise: its certificate, and what was rebuilt, recomputed and checked of it."""

    name: str
    certificate: Certificate
    mechanism: Mechanism
    contents: Contents
    guarantee: Guarantee
    stated: Certificate
    checks: tuple[Check, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, data: str | os.PathLike[str] | None = None) -> Promise:
        """Read and verify a certificate, which must state a guarantee that can be recomputed."""
        try:
            certificate = Certificate.read(path)
            with within(SECONDS):
                mechanism, contents, guarantee = certified_release(certificate.facts)
                stated = promised_now(certificate, mechanism, guarantee)
        except FileProblem:
            raise
        except (DiscreetError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError):
            raise FileProblem(
                path, "the guarantee it states cannot be recomputed", "run discreet verify to see which claim is wrong"
            ) from None
        checks = verify(certificate, data=data)
        return cls(
            name=Path(path).name,
            certificate=certificate,
            mechanism=mechanism,
            contents=contents,
            guarantee=guarantee,
            stated=stated,
            checks=tuple(checks),
        )

    @property
    def disagreements(self) -> tuple[Check, ...]:
        """Claims that were not confirmed."""
        return tuple(check for check in self.checks if not check.agrees)

    @property
    def seeded(self) -> bool:
        """Whether a seed was used, so that the release is not for publication."""
        return self.certificate.seeded

    @property
    def poor(self) -> str | None:
        """Why the release is of poor use, recomputed where it was known before; None where it is not known to be."""
        return self.stated.poor

    @property
    def forecast(self) -> str:
        """What was known beforehand of the share that is not from the data, in words."""
        return str(utility_facts(self.mechanism, self.guarantee.n)["share_in_words"])

    @property
    def epsilon(self) -> float:
        """The certificate's epsilon; any one may be stated, since delta follows from it, but a model's is its own."""
        return self.stated.epsilon

    @property
    def delta(self) -> float:
        """Delta at that epsilon, recomputed."""
        return self.stated.delta

    @property
    def delta_text(self) -> str:
        """Delta, rounded up."""
        return rounded_up(self.delta)

    @property
    def pure_text(self) -> str | None:
        """The epsilon from which on delta is 0, rounded up; None where it is so large that it says nothing."""
        pure = min(self.guarantee.profile.pure, self.epsilon if self.delta == 0.0 else math.inf)
        return epsilon_text(pure) if pure <= 100 else None

    @property
    def kind(self) -> str:
        """What kind of guarantee it is, in a sentence."""
        return _KINDS[self.guarantee.kind]

    @property
    def tightness(self) -> str:
        """Whether the numbers are attained, in a sentence."""
        if self.guarantee.kind == "asymptotic":
            return "The numbers are estimates from this table: the truth may be better or worse."
        if self.guarantee.exact:
            return "The numbers are exact: for some pair of tables the best attacker reaches them."
        return "The numbers are upper bounds: the truth may be better than stated, never worse."

    @property
    def likelier(self) -> str:
        """``e^epsilon``, rounded up."""
        return rounded_up(math.exp(min(self.epsilon, 700.0)))

    @property
    def delta_words(self) -> str:
        """What delta means for this number of records."""
        n, delta = self.guarantee.n, self.delta
        if delta == 0.0:
            return "Delta is 0, so the limit on what can be learned has no exception."
        exposed = delta * n
        if exposed > 0.1:
            return (
                f"Delta is {self.delta_text}, which is large for {counted(n, 'record')}: by delta alone, publishing "
                f"{rounded_up(exposed)} of them, chosen at random, in full, would be within this promise."
            )
        chance = f", about 1 in {_thousands(1.0 / delta)}" if delta > 1e-18 else ""
        times = f"{_thousands(1.0 / exposed)} times" if exposed > 1e-15 else "more than a million million times"
        return (
            f"Delta is {self.delta_text}{chance}. To compare: publishing one of {counted(n, 'record')}, chosen at "
            f"random, in full, would have a delta of 1 in {n:,}. This one is {times} smaller."
        )

    @property
    def verbatim(self) -> tuple[str, ...]:
        """The caveats about released values that are confidential values."""
        return tuple(_sentence(caveat) for caveat in map(str, self.guarantee.caveats) if "verbatim" in caveat)

    @property
    def caveats(self) -> tuple[str, ...]:
        """All other caveats, those of the budget and the privacy unit among them."""
        return tuple(
            _sentence(text) for text in map(str, self.stated.facts.guarantee.caveats) if "verbatim" not in text
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it rests on."""
        return tuple(_sentence(str(assumption)) for assumption in self.guarantee.assumptions)


def epsilon_text(value: float) -> str:
    """Write an epsilon in six digits, rounded up."""
    return rounded_up(value, 6)


def _thousands(value: float) -> str:
    return f"{int(float(rounded_down(value, 2))):,}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Several releases of the same table together, by an upper bound on the profile of all of them.

    ``epsilon``, ``delta``: a point of it: at the sum of the deltas.
    """

    promises: tuple[Promise, ...]
    profile: Profile
    epsilon: float
    delta: float

    @property
    def epsilon_sum(self) -> str:
        """The sum of the epsilons, which holds with the sum of the deltas too."""
        return epsilon_text(math.fsum(promise.epsilon for promise in self.promises))

    @property
    def disagreements(self) -> bool:
        """Whether a claim of any of the certificates was not confirmed."""
        return any(promise.disagreements for promise in self.promises)

    @property
    def other_records(self) -> bool:
        """Whether the certificates state different numbers of records."""
        return len({promise.guarantee.n for promise in self.promises}) > 1


def joint(promises: tuple[Promise, ...]) -> Joint | None:
    """Compose the promises of several different releases, of units of the same size; None for a single one."""
    if len(promises) == 1:
        return None
    if len({(p.guarantee.relation.name, p.guarantee.relation.group) for p in promises}) > 1:
        raise ParameterError(
            "the certificates protect different things (relation or size of the unit), so they cannot be composed"
        )
    for i, promise in enumerate(promises):
        if any(promise.certificate.facts == other.certificate.facts for other in promises[:i]):
            raise ParameterError(f"the certificate {promise.name!r} is given twice. A release counts once")
    profile = compose([promise.guarantee.profile for promise in promises])
    delta = min(1.0, math.fsum(promise.delta for promise in promises) * (1.0 + 1e-15))
    total = math.fsum(promise.epsilon for promise in promises) * (1.0 + 1e-15)
    return Joint(promises=promises, profile=profile, epsilon=min(total, profile.epsilon(delta)), delta=delta)


# The best attacker and the privacy profile, as pictures and tables of texts that are rounded to the safe side.

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
    """The profiles of a release and of all releases together, evaluated once for all pictures and tables."""

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
            alone=TradeOff.from_profile(one, upto=upto, among=promise.epsilon),
            together=None if both is None else TradeOff.from_profile(both, upto=upto),
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
                missed=f"{rounded_down(max(0.0, 100.0 * (1.0 - power)), 3)} %",
                together=None if joined is None else f"{_percent_up(float(joined[i]))} %",
                reading=against_guessing(level, power),
                at=places[i],
            )
        )
    return Attack(chart=chart, rates=tuple(rates))


def _percent_up(share: float) -> str:
    return rounded_up(min(100.0, 100.0 * share), 3)


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
