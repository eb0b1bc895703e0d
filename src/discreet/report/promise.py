"""The promise of a certificate in plain words and numbers: public facts only, recomputed rather than believed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet import releases, wording
from discreet._core.errors import DiscreetError, FileProblem, ParameterError
from discreet._core.page import FilePath, attack_chart, profile_chart
from discreet._core.reading import SECONDS, within
from discreet._core.text import about, full_sentence, rounded_down, rounded_up
from discreet.mechanisms import Contents, Mechanism
from discreet.privacy import LEVELS, Guarantee, Profile, TradeOff, against_guessing, compose, furthest
from discreet.releases import Certificate, Check


def pair_of(release: FilePath, certificate: FilePath | None) -> tuple[Path, Path]:
    """Return where a released file or folder is, which the certificate in it may stand for, and its certificate."""
    path = Path(release)
    if path.name in (releases.FOLDER_CERTIFICATE, releases.PARTS_CERTIFICATE):
        path = path.parent
    if path.is_dir() and certificate is None:
        return path, releases.certificate_in(path)
    return path, releases.certificate_path(path, certificate)


@dataclass(frozen=True, slots=True)
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
    def read(cls, path: FilePath, *, data: FilePath | None = None) -> Promise:
        """Read and verify a certificate, which must state a guarantee that can be recomputed."""
        try:
            certificate = Certificate.read(path)
            with within(SECONDS):
                mechanism, contents, guarantee = releases.certified_release(certificate.facts)
                stated = releases.promised_now(certificate, mechanism, guarantee)
        except FileProblem:
            raise
        except (DiscreetError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError):
            raise FileProblem(
                path, "the guarantee it states cannot be recomputed", "run discreet verify to see which claim is wrong"
            ) from None
        checks = tuple(releases.verify(certificate, data=data))
        return cls(Path(path).name, certificate, mechanism, contents, guarantee, stated, checks)

    @property
    def disagreements(self) -> tuple[Check, ...]:
        """Claims that were not confirmed."""
        return tuple(check for check in self.checks if not check.agrees)

    @property
    def checked(self) -> tuple[Check, ...]:
        """Claims that were recomputed or compared, and not only stated."""
        return tuple(check for check in self.checks if not check.stated)

    @property
    def epsilon(self) -> float:
        """The certificate's epsilon; any one may be stated, since delta follows from it, but a model's is its own."""
        return self.stated.epsilon

    @property
    def delta(self) -> float:
        """Delta at that epsilon, recomputed."""
        return self.stated.delta

    @property
    def verbatim(self) -> tuple[str, ...]:
        """The caveats about released values that are confidential values."""
        return tuple(full_sentence(caveat) for caveat in map(str, self.guarantee.caveats) if "verbatim" in caveat)

    @property
    def caveats(self) -> tuple[str, ...]:
        """All other caveats, those of the budget and the privacy unit among them."""
        caveats = map(str, self.stated.facts.guarantee.caveats)
        return tuple(full_sentence(caveat) for caveat in caveats if "verbatim" not in caveat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Several releases of the same table together, by an upper bound on the profile of all of them."""

    promises: tuple[Promise, ...]
    profile: Profile
    epsilon: float  # at the sum of the deltas
    epsilon_sum: float  # which holds there too
    delta: float


def joint(promises: tuple[Promise, ...]) -> Joint | None:
    """Compose the promises of several different releases, of units of the same size; None for a single one."""
    if len(promises) == 1:
        return None
    if len({(p.guarantee.relation.name, p.guarantee.relation.group) for p in promises}) > 1:
        raise ParameterError("certificates of different relations or sizes of the unit cannot be composed")
    for i, promise in enumerate(promises):
        if any(promise.certificate.facts == other.certificate.facts for other in promises[:i]):
            raise ParameterError(f"the certificate {promise.name!r} is given twice. A release counts once")
    profile = compose([promise.guarantee.profile for promise in promises])
    delta = min(1.0, math.fsum(promise.delta for promise in promises) * (1.0 + 1e-15))
    total = math.fsum(promise.epsilon for promise in promises)
    epsilon = min(total * (1.0 + 1e-15), profile.epsilon(delta))
    return Joint(promises=promises, profile=profile, epsilon=epsilon, epsilon_sum=total, delta=delta)


_EPSILONS = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def curves(promise: Promise, together: Joint | None) -> dict[str, Any]:
    """Return what the page shows of the best attacker and the privacy profile, of a release and of all together."""
    epsilon, delta, profiles = promise.epsilon, promise.delta, [promise.guarantee.profile]
    largest = furthest(profiles[0], epsilon)
    if together is not None:
        profiles.append(together.profile)
        largest = max(largest, furthest(together.profile, together.epsilon))
    kinds = ["this"] if together is None else ["this", "together"]
    trades = [TradeOff.from_profile(profiles[0], upto=largest, among=epsilon)]
    trades += [TradeOff.from_profile(profile, upto=largest) for profile in profiles[1:]]
    fine = np.unique(np.concatenate((np.linspace(0.0, 1.0, 201), LEVELS)))
    lines = [list(zip(fine.tolist(), trade.power(fine).tolist(), strict=True)) for trade in trades]
    chart = attack_chart(list(zip(kinds, lines, strict=True)))
    # One release is not more than all of them: their bound may be the coarser one.
    powers = np.maximum.accumulate([trade.power(np.array(LEVELS)) for trade in trades])
    rates = [
        {
            "level": f"{about(100 * level, 6)} %",
            "powers": [f"{rounded_up(min(100.0, 100.0 * power), 3)} %" for power in detected],
            "missed": f"{rounded_down(max(0.0, 100.0 * (1.0 - detected[0])), 3)} %",
            "reading": against_guessing(level, detected[0]),
            "at": chart.at(level, detected[0]),
        }
        for level, detected in zip(LEVELS, powers.T.tolist(), strict=True)
    ]
    table = []
    for row in sorted({*_EPSILONS, epsilon}):
        deltas = [profile.delta(row) for profile in profiles]
        deltas[0] = delta if row == epsilon else promise.guarantee.delta(row)
        table.append((row, deltas, row == epsilon))
    return {
        "meaning": wording.meaning(promise.stated, float(powers[0, LEVELS.index(0.01)])),
        "attack": {"chart": chart, "rates": rates, "default": LEVELS.index(0.01)},
        "profile": profile_chart(
            [(kind, trade.points(upto=largest)) for kind, trade in zip(kinds, trades, strict=True)],
            largest=largest,
            headline=(epsilon, delta),
            mark=f"epsilon {rounded_up(epsilon, 6)}, delta {rounded_up(delta)}",
        ),
        "profile_table": table,
    }
