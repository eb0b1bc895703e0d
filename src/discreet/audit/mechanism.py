"""A mechanism, and broken twins of a larger budget, examined on small tables: by its law, and as a black box."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import real
from discreet._core.errors import BudgetError, Infeasible, LawNotAvailable, ParameterError
from discreet._core.random import seeded
from discreet._core.text import as_written, counted, percent, rounded_down, rounded_up
from discreet.audit.black_box import ERROR, Finding, Sampler, compared
from discreet.audit.guesses import POWER
from discreet.domain import Counts, Records
from discreet.mechanisms import Mechanism, solved
from discreet.privacy import Guarantee
from discreet.testing import brute_force_profile, outcome_of

FACTORS = (1.1, 1.3, 1.6, 2.0, 4.0, 10.0)
"""By how much the budgets of twins are too large, epsilon and delta alike."""

_MOST_TABLES = 100  # whose laws are listed

_ROUNDING, _TINY = 1e-9, 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Divergence and promise where they are nearest, whether any is exceeded, and the nearest twin that is caught."""

    epsilon: float
    divergence: float
    promised: float
    exceeded: bool
    twin_caught: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A mechanism beside its claim: exactly, where its law can be listed, and by findings of the black box."""

    claim: str
    exact: Exact | None
    findings: tuple[Finding, ...]
    power: tuple[float, float] | None  # epsilon of the nearest twin caught with power 95 %, and that power
    error: float

    @property
    def refuted(self) -> bool:
        """Whether the black box refutes the claim."""
        return any(finding.caught for finding in self.findings)

    @property
    def rejected(self) -> bool:
        """Whether the claim is refuted in either way."""
        return self.refuted or (self.exact is not None and self.exact.exceeded)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        box = {"error": self.error, "runs": self.findings[0].runs, "refuted": self.refuted}
        power = self.power and dict(zip(("epsilon", "power"), self.power, strict=True))
        facts = {"claim": self.claim, "rejected": self.rejected, "exact": self.exact and asdict(self.exact)}
        return {**facts, "black_box": {**box, "power": power}}

    def __str__(self) -> str:
        lines = [f"claim: {self.claim}"]
        exact, runs = self.exact, counted(self.findings[0].runs, "run")
        if exact is None:
            lines.append("exact: its law cannot be listed")
        else:
            caught = "no twin is caught"
            if exact.twin_caught is not None:
                caught = f"a twin of epsilon {as_written(exact.twin_caught)} is caught"
            lines += [
                f"exact: over all neighbours, the divergence at epsilon {as_written(exact.epsilon)} is "
                f"{rounded_up(exact.divergence, 6)}, promised {rounded_up(exact.promised, 6)}",
                f"exact: {caught}",
            ]
        power = "no twin would have been caught: take more runs"
        if self.power is not None:
            epsilon = as_written(self.power[0])
            power = f"would have caught epsilon {epsilon} with power at least {rounded_down(self.power[1], 3)}"
        alarms = f"with false alarms at most {percent(self.error)}"
        lines += [
            f"black box: {'not ' * (not self.refuted)}refuted by {runs} per table and stage, {alarms}",
            f"black box: {power}",
            f"{'not ' * (not self.rejected)}rejected",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A mechanism that is calibrated for a budget, its guarantee, and neighbouring tables of few records."""

    claimed: Mechanism
    guarantee: Guarantee
    calibrated: Callable[[float], Mechanism]  # the mechanism for another epsilon, and a delta that is larger by as much
    values: Records
    pairs: tuple[tuple[Counts, Counts], ...]
    epsilons: tuple[float, ...]

    @classmethod
    def from_name(cls, name: str, *, epsilon: float, delta: float, records: int, **parameters: Any) -> Case:
        """Calibrate a mechanism; see :func:`examined`."""

        def calibrated(level: float) -> tuple[Mechanism, Guarantee]:
            larger = min(delta * level / epsilon, 0.99)
            return solved(name, epsilon=level, delta=larger, records=records, **parameters)[:2]

        claimed, guarantee = calibrated(epsilon)
        if claimed.domain.finite:
            values = claimed.domain.unflat(np.arange(min(claimed.domain.size or 1, records + 1)))
        else:
            values = claimed.domain.draw_base(records + 1, seeded(8), first=1)

        def table(last: int) -> Counts:
            """Return the table of many records of the first value and one of another."""
            index, frequencies = np.unique([0] * (records - 1) + [last], return_counts=True)
            return Counts(records=values.take(index), frequencies=frequencies.astype(np.int64))

        pairs = [(table(0), table(1))]
        if len(values) > 2 and records > 1:
            pairs.append((table(1), table(2)))
        return cls(
            claimed=claimed,
            guarantee=guarantee,
            calibrated=lambda level: calibrated(level)[0],
            values=values,
            pairs=tuple(pairs),
            epsilons=tuple(share * epsilon for share in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5)),
        )

    def findings(
        self, mechanism: Mechanism, *, rng: np.random.Generator, runs: int, error: float
    ) -> tuple[Finding, ...]:
        """Run a mechanism, held to this promise, on all pairs in both directions."""
        findings: list[Finding] = []
        options: dict[str, Any] = {"rng": rng, "runs": runs, "error": error / len(self.pairs)}
        for x, y in self.pairs:
            samplers = sampler(mechanism, x, x, y), sampler(mechanism, y, x, y)
            findings += compared(*samplers, self.guarantee.delta, epsilons=self.epsilons, **options)
        return tuple(findings)


def examined(
    name: str,
    *,
    records: int,
    epsilon: float,
    delta: float,
    size: int | None,
    runs: int = 2_000,
    error: float = ERROR,
    seed: int = 0,
    law: float | None = None,
    listed: bool = True,
    **parameters: Any,
) -> Examined:
    """Examine a mechanism, calibrated for a budget (or, to see a broken one, the epsilon ``law``), on small tables."""
    epsilon = real("epsilon", epsilon, above=0, most=100, error=BudgetError)
    case = Case.from_name(name, records=records, epsilon=epsilon, delta=delta, size=size, **parameters)
    mechanism, twins = case.calibrated(law or epsilon), {}
    for factor in FACTORS:
        with suppress(Infeasible, BudgetError):
            twins[factor * epsilon] = case.calibrated(factor * epsilon)
    rng, power = seeded(seed), None
    findings = case.findings(mechanism, rng=rng, runs=runs, error=error)
    for level, twin in twins.items():
        most = max(finding.power for finding in case.findings(twin, rng=rng, runs=runs, error=error))
        if most >= POWER:
            power = (level, most)
            break
    exact = None
    if listed:
        exact = _exact(mechanism, twins, case, records)
    budget = f"epsilon {as_written(epsilon)}, delta {as_written(delta)}, {counted(records, 'record')}"
    claim = f"{name} for {budget}, by {case.guarantee.theorem}"
    return Examined(claim=claim, exact=exact, findings=findings, power=power, error=error)


def sampler(mechanism: Mechanism, table: Counts, *tables: Counts) -> Sampler:
    """Return what runs a mechanism on a table, its outputs as outcomes of the law under some tables."""
    return lambda rng, runs: [outcome_of(mechanism, mechanism.kernel(table, rng=rng), *tables) for _ in range(runs)]


def _exact(mechanism: Mechanism, twins: dict[float, Mechanism], case: Case, records: int) -> Exact | None:
    """List all outputs for all neighbours; None where there are too many, or no law."""
    epsilons, promised = case.epsilons, np.array([case.guarantee.delta(epsilon) for epsilon in case.epsilons])
    cells = mechanism.domain.size or len(case.values)
    if math.comb(records + cells - 1, records) > _MOST_TABLES:
        return None
    values = case.values
    if mechanism.domain.finite:
        values = mechanism.domain.unflat(np.arange(cells))

    def divergences(mechanism: Mechanism) -> tuple[Floats, bool]:
        profile = brute_force_profile(mechanism, n=records, values=values, epsilons=epsilons)
        return profile, bool((profile > promised * (1.0 + _ROUNDING) + _TINY).any())

    try:
        profile, exceeded = divergences(mechanism)
        caught = next((level for level, twin in twins.items() if divergences(twin)[1]), None)
    except (LawNotAvailable, ParameterError):
        return None
    worst = int((profile / np.maximum(promised, _TINY)).argmax())  # the nearest to its promise, or furthest beyond
    numbers = {"divergence": float(profile[worst]), "promised": float(promised[worst])}
    return Exact(epsilon=epsilons[worst], **numbers, exceeded=exceeded, twin_caught=caught)
