"""A mechanism examined on small tables: all its neighbours where its law can be listed, and as a black box.

Both examinations are made of a broken twin as well: the same mechanism, calibrated for a larger budget and held to the
claim of the smaller one. An examination that does not catch it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.checks import real
from discreet._core.errors import BudgetError, Infeasible, LawNotAvailable, ParameterError
from discreet._core.random import seeded
from discreet._core.text import as_written, counted, percent, rounded_down, rounded_up
from discreet.audit.black_box import ERROR, Finding, Sampler, compared
from discreet.audit.guesses import POWER
from discreet.domain import Counts, Records
from discreet.mechanisms import Mechanism
from discreet.planner.stated import calibrated
from discreet.privacy import Guarantee
from discreet.testing import brute_force_profile
from discreet.testing.enumeration import outcome_of

FACTORS = (1.1, 1.3, 1.6, 2.0, 4.0, 10.0)
"""By how much the budgets of twins are too large, epsilon and delta alike."""

_MOST_TABLES = 100  # whose laws are listed

_ROUNDING, _TINY = 1e-9, 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """What listing all outputs for all neighbours says.

    ``worst``: the epsilon at which the divergence is largest beside the promise, the divergence, and the promise.
    ``exceeded``: whether the promise is exceeded anywhere.
    ``caught``: epsilon of the nearest twin that is caught; None where none is.
    """

    worst: tuple[float, float, float]
    exceeded: bool
    caught: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A mechanism beside its claim.

    ``claim``: in words.
    ``exact``: None where its law cannot be listed.
    ``findings``: of the black box, for each pair of tables in both directions.
    ``caught``: epsilon of the nearest twin that the black box catches with a power of at least 95 %, and that power;
    None where there is none.
    ``error``: probability at most of a false alarm of the black box, over all its findings.
    """

    claim: str
    exact: Exact | None
    findings: tuple[Finding, ...]
    caught: tuple[float, float] | None
    error: float

    @property
    def rejected(self) -> bool:
        """Whether the claim is refuted."""
        return any(one.caught for one in self.findings) or (self.exact is not None and self.exact.exceeded)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        exact = None if self.exact is None else {
            "epsilon": self.exact.worst[0], "divergence": self.exact.worst[1], "promised": self.exact.worst[2],
            "exceeded": self.exact.exceeded, "twin_caught": self.exact.caught,
        }  # fmt: skip
        box = {
            "error": self.error,
            "runs": self.findings[0].runs,
            "refuted": any(one.caught for one in self.findings),
            "power": None if self.caught is None else {"epsilon": self.caught[0], "power": self.caught[1]},
        }
        return {"claim": self.claim, "rejected": self.rejected, "exact": exact, "black_box": box}

    def __str__(self) -> str:
        lines = [f"claim: {self.claim}"]
        if self.exact is None:
            lines.append("exact: its law cannot be listed")
        else:
            epsilon, found, promised = self.exact.worst
            lines.append(f"exact: over all neighbours, the divergence at epsilon {as_written(epsilon)} is "
                         f"{rounded_up(found, 6)}, promised {rounded_up(promised, 6)}")  # fmt: skip
            caught = self.exact.caught
            lines.append("exact: no twin is caught" if caught is None else f"exact: a twin of epsilon "
                         f"{as_written(caught)} is caught")  # fmt: skip
        runs, refuted = self.findings[0].runs, any(one.caught for one in self.findings)
        lines.append(f"black box: {'refuted' if refuted else 'not refuted'} by {counted(runs, 'run')} per table and "
                     f"stage, with false alarms at most {percent(self.error)}")  # fmt: skip
        lines.append(
            "black box: no twin would have been caught: take more runs"
            if self.caught is None
            else f"black box: would have caught epsilon {as_written(self.caught[0])} with power at least "
            f"{rounded_down(self.caught[1], 3)}"
        )
        return "\n".join([*lines, "rejected" if self.rejected else "not rejected"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A mechanism that is calibrated for a budget, beside neighbouring tables of few records.

    ``claimed``, ``guarantee``: the mechanism and its promise.
    ``at``: the same mechanism calibrated for another epsilon, and a delta that is larger by as much.
    ``values``: that tables may hold.
    ``pairs``: of neighbours.
    ``epsilons``: at which the promise is looked at.
    """

    claimed: Mechanism
    guarantee: Guarantee
    at: Callable[[float], Mechanism]
    values: Records
    pairs: tuple[tuple[Counts, Counts], ...]
    epsilons: tuple[float, ...]

    @classmethod
    def of(cls, name: str, *, records: int, epsilon: float, delta: float, size: int | None, **parameters: Any) -> Case:
        """Calibrate a mechanism; see :func:`examined`."""
        asked = {"records": records, "size": size, **parameters}

        def at(level: float) -> tuple[Mechanism, Guarantee]:
            return calibrated(name, epsilon=level, delta=min(delta * level / epsilon, 0.99), **asked)

        claimed, guarantee = at(epsilon)
        values = _values(claimed, records)
        return cls(
            claimed=claimed,
            guarantee=guarantee,
            at=lambda level: at(level)[0],
            values=values,
            pairs=tuple(_pairs(values, records)),
            epsilons=tuple(share * epsilon for share in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5)),
        )

    def findings(
        self, mechanism: Mechanism, *, rng: np.random.Generator, runs: int, error: float
    ) -> tuple[Finding, ...]:
        """Run a mechanism, held to this promise, on all pairs in both directions."""
        found: list[Finding] = []
        for x, y in self.pairs:
            samplers = _sampler(mechanism, x, x, y), _sampler(mechanism, y, x, y)
            found += compared(
                *samplers,
                self.guarantee.delta,
                rng=rng,
                runs=runs,
                error=error / len(self.pairs),
                epsilons=self.epsilons,
            )
        return tuple(found)


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
    """Examine a mechanism on tables of few records.

    ``name``: registry name.
    ``records``: of the tables.
    ``epsilon``, ``delta``: the budget that it is calibrated for.
    ``size``: number of records released.
    ``runs``, ``error``: as for :func:`~discreet.audit.black_box.compared`.
    ``seed``: of the runs, which read no confidential table.
    ``law``: the epsilon that it is really calibrated for, to see an examination of a broken one; the same by default.
    ``listed``: whether all outputs are listed too, where that is possible.
    ``**parameters``: the mechanism's own, and ``cells``.
    """
    epsilon = real("epsilon", epsilon, above=0, most=100, error=BudgetError)
    case = Case.of(name, records=records, epsilon=epsilon, delta=delta, size=size, **parameters)
    made = case.claimed if law is None else case.at(law)
    twins = {factor * epsilon: twin for factor in FACTORS if (twin := _twin(case.at, factor * epsilon)) is not None}
    rng = seeded(seed)
    found, caught = case.findings(made, rng=rng, runs=runs, error=error), None
    for level, twin in twins.items():
        power = max(one.power for one in case.findings(twin, rng=rng, runs=runs, error=error))
        if power >= POWER:
            caught = (level, power)
            break
    return Examined(
        claim=f"{name} for epsilon {as_written(epsilon)}, delta {as_written(delta)}, "
        f"{counted(records, 'record')}, by {case.guarantee.theorem}",
        exact=_exact(made, twins, case, records) if listed else None,
        findings=found,
        caught=caught,
        error=error,
    )


def _twin(at: Callable[[float], Mechanism], epsilon: float) -> Mechanism | None:
    try:
        return at(epsilon)
    except (Infeasible, BudgetError):
        return None


def _values(mechanism: Mechanism, records: int) -> Records:
    """Return values that tables of few records may hold."""
    if mechanism.domain.finite:
        return mechanism.domain.unflat(np.arange(min(mechanism.domain.size or 1, records + 1)))
    return mechanism.domain.draw_base(records + 1, seeded(8), first=1)


def _pairs(values: Records, records: int) -> list[tuple[Counts, Counts]]:
    """Return neighbours: a record leaves many of its value for a fresh one, and a single record changes its value."""

    def table(*held: int) -> Counts:
        index, frequencies = np.unique(held, return_counts=True)
        return Counts(records=values.take(index), frequencies=frequencies.astype(np.int64))

    many = [0] * (records - 1)
    pairs = [(table(*many, 0), table(*many, 1))]
    return [*pairs, (table(*many, 1), table(*many, 2))] if len(values) > 2 and records > 1 else pairs


def _sampler(mechanism: Mechanism, table: Counts, *tables: Counts) -> Sampler:
    return lambda rng, runs: [outcome_of(mechanism, mechanism.kernel(table, rng=rng), *tables) for _ in range(runs)]


def _exact(made: Mechanism, twins: dict[float, Mechanism], case: Case, records: int) -> Exact | None:
    """List all outputs for all neighbours; None where there are too many, or no law."""
    values, epsilons = case.values, case.epsilons
    promised = np.array([case.guarantee.delta(epsilon) for epsilon in epsilons])
    own = None if made.domain.finite else values
    cells = (made.domain.size or 1) if own is None else len(values)
    if math.comb(records + cells - 1, records) > _MOST_TABLES:
        return None

    def excess(mechanism: Mechanism) -> Any:
        found = brute_force_profile(mechanism, n=records, values=own, epsilons=epsilons)
        return found, found > promised * (1.0 + _ROUNDING) + _TINY

    try:
        found, over = excess(made)
        caught = next((level for level, twin in twins.items() if excess(twin)[1].any()), None)
    except (LawNotAvailable, ParameterError):
        return None
    worst = int((found / np.maximum(promised, _TINY)).argmax())  # the nearest to its promise, or furthest beyond
    return Exact(
        worst=(epsilons[worst], float(found[worst]), float(promised[worst])), exceeded=bool(over.any()), caught=caught
    )
