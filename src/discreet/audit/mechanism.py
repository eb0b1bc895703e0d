"""A mechanism examined on small tables: this library's by its law and beside broken twins, anybody's as a black box."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import BudgetError, Infeasible, LawNotAvailable, ParameterError, real
from discreet._core.numeric import Floats
from discreet._core.random import seeded
from discreet._core.text import as_written, counted, percent, rounded_down, rounded_up
from discreet.audit.attacks import POWER, StatedProfile
from discreet.audit.black_box import ERROR, Finding, Sampler, compared
from discreet.domain import Counts, Records
from discreet.mechanisms import Mechanism, solved
from discreet.privacy import Budget, Guarantee
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
            numbers = f"{rounded_up(exact.divergence, 6)}, promised {rounded_up(exact.promised, 6)}"
            divergence = f"the divergence at epsilon {as_written(exact.epsilon)} is {numbers}"
            lines += [f"exact: over all neighbours, {divergence}", f"exact: {caught}"]
        power = "no twin would have been caught: take more runs"
        if self.power is not None:
            epsilon = as_written(self.power[0])
            power = f"would have caught epsilon {epsilon} with power at least {rounded_down(self.power[1], 3)}"
        refuted = "refuted" if self.refuted else "not refuted"
        alarms = f"with false alarms at most {percent(self.error)}"
        lines += [
            f"black box: {refuted} by {runs} per table and stage, {alarms}",
            f"black box: {power}",
            "rejected" if self.rejected else "not rejected",
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
            return solved(name, budget=Budget(epsilon=level, delta=larger), records=records, **parameters)[:2]

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
        epsilons = tuple(share * epsilon for share in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5))
        tables: dict[str, Any] = {"values": values, "pairs": tuple(pairs), "epsilons": epsilons}
        return cls(claimed=claimed, guarantee=guarantee, calibrated=lambda level: calibrated(level)[0], **tables)

    def findings(self, mechanism: Mechanism, *, error: float, **options: Any) -> tuple[Finding, ...]:
        """Run a mechanism, held to this promise, on all pairs in both directions."""
        findings: list[Finding] = []
        options |= {"error": error / len(self.pairs), "epsilons": self.epsilons}
        for x, y in self.pairs:
            samplers = sampler(mechanism, x, x, y), sampler(mechanism, y, x, y)
            findings += compared(*samplers, self.guarantee.delta, **options)
        return tuple(findings)


def examined(
    name: str,
    *,
    records: int,
    epsilon: float,
    delta: float,
    runs: int = 2_000,
    error: float = ERROR,
    seed: int = 0,
    law: float | None = None,
    listed: bool = True,
    **parameters: Any,
) -> Examined:
    """Examine a mechanism, calibrated for a budget (or, to see a broken one, the epsilon ``law``), on small tables."""
    epsilon = real("epsilon", epsilon, above=0, most=100, error=BudgetError)
    case = Case.from_name(name, records=records, epsilon=epsilon, delta=delta, **parameters)
    mechanism, twins = case.calibrated(law or epsilon), {}
    for factor in FACTORS:
        with suppress(Infeasible, BudgetError):
            twins[factor * epsilon] = case.calibrated(factor * epsilon)
    rng, power, exact = seeded(seed), None, None
    findings = case.findings(mechanism, rng=rng, runs=runs, error=error)
    for level, twin in twins.items():
        most = max(finding.power for finding in case.findings(twin, rng=rng, runs=runs, error=error))
        if most >= POWER:
            power = (level, most)
            break
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
    values = mechanism.domain.unflat(np.arange(cells)) if mechanism.domain.finite else case.values

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


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """A claim of epsilon and delta beside samples of two neighbouring tables.

    ``epsilon``, ``delta``: the claim.
    ``findings``: how the first table compares with the second, and the second with the first: the event that was
    chosen, and how often it occurred.
    ``error``: probability at most of a false alarm.
    """

    epsilon: float
    delta: float
    findings: tuple[Finding, Finding]
    error: float

    @property
    def rejected(self) -> bool:
        """Whether the claim is refuted."""
        return any(finding.caught for finding in self.findings)

    @property
    def at_least(self) -> float:
        """A lower bound on the true epsilon at the claimed delta: above it with probability ``error`` at most."""
        return max(finding.epsilon for finding in self.findings)

    @property
    def detectable(self) -> float | None:
        r"""The least epsilon that would have been caught with a power of 95 %.

        It is that of a mechanism under which the event of one of the two findings is as likely as it was here on the
        one table, and on the other :math:`e^\varepsilon` times as rare, but for delta. None where there is none: then
        that the claim was not rejected says nothing, and more runs are needed.
        """
        epsilons = [finding.detectable for finding in self.findings]
        return min((epsilon for epsilon in epsilons if epsilon is not None), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        facts = {name: getattr(self, name) for name in ("epsilon", "delta", "rejected", "at_least", "error")}
        findings = [
            {"event": f.event.of, "likely": f.likely, "unlikely": f.unlikely, "refuted": f.caught}
            for f in self.findings
        ]
        power = {"epsilon": self.detectable, "power": POWER}
        return {**facts, "runs": self.findings[0].runs, "power": power, "findings": findings}

    def __str__(self) -> str:
        runs = self.findings[0].runs
        lines = [f"claim: epsilon {as_written(self.epsilon)}, delta {as_written(self.delta)}"]
        for one, names in zip(self.findings, (("first", "second"), ("second", "first")), strict=True):
            lines.append(f"  an event of {one.event.of}: {one.likely:,} times of {counted(runs, 'run')} on the "
                         f"{names[0]} table, {one.unlikely:,} on the {names[1]}")  # fmt: skip
        alarms = f"with false alarms at most {percent(self.error)}"
        power = "no epsilon would have been caught: take more runs"
        if self.rejected:
            return "\n".join([*lines, f"rejected, {alarms}: epsilon is at least {rounded_down(self.at_least)}"])
        if (epsilon := self.detectable) is not None:
            caught = f"would have caught epsilon {as_written(epsilon)} with power {percent(POWER, 0)}"
            power = f"{caught}, by an event as likely as these"
        return "\n".join([*lines, f"not rejected, {alarms}", power])


@sealed
def examine(
    sample: Callable[[Any], Any],
    one: Any,
    other: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    runs: int = 10_000,
    error: float = ERROR,
    features: Sequence[Callable[[Any], Any]] = (),
) -> Examination:
    """Test whether a mechanism of anybody's keeps a claim of differential privacy on two neighbouring tables.

    Nothing is known of the mechanism but its outputs. On two thirds of the runs an event is looked for that tells the
    two tables apart. On the others it is counted, and exact (Clopper-Pearson) bounds on its two probabilities are
    compared with the claim.

    Parameters
    ----------
    sample : callable
        Runs the mechanism once on a table, with fresh randomness, and returns its output: a number, a text, an array,
        or a tuple, list or dict of such.
    one, other : any
        Two neighbouring tables, as ``sample`` takes them. Invent them: the result is as confidential as they are.
    epsilon, delta : float
        The claim, of these two tables.
    runs : int
        Of each table, in each of three stages; at least 100.
    error : float
        Probability at most of rejecting a claim that holds.
    features : sequence of callable, optional
        What else of an output is looked at: functions of what ``sample`` returns. An output is looked at as a whole,
        by its elements one by one and together, and numbers by their size too.

    Returns
    -------
    Examination
        Whether the claim is rejected, a lower bound on epsilon, and which epsilon would have been caught.

    Raises
    ------
    BudgetError
        When epsilon or delta is out of range.
    ParameterError
        When ``runs`` or ``error`` is out of range, or an output is of a kind that cannot be compared and there are no
        features.

    Notes
    -----
    A claim that is not rejected is not proved: another pair of tables, or an event that was not thought of, may break
    it. For several pairs, divide ``error`` by their number.

    Examples
    --------
    A mean without noise that is only rounded, on two tables that differ in one record:

    >>> def rounded_mean(table):
    ...     return round(sum(table) / len(table))
    >>> found = examine(rounded_mean, [1, 2, 3, 4], [1, 2, 3, 40], epsilon=1.0, runs=1000)
    >>> found.rejected
    True

    Randomised response that tells the truth three times in four keeps epsilon log 3, and no less:

    >>> from discreet._core.random import seeded
    >>> rng = seeded(1)
    >>> def response(truth):
    ...     return truth if rng.random() < 0.75 else not truth
    >>> print(examine(response, True, False, epsilon=1.1))
    claim: epsilon 1.1, delta 0
      an event of the output: 7,426 times of 10,000 runs on the first table, 2,534 on the second
      an event of the output: 7,466 times of 10,000 runs on the second table, 2,574 on the first
    not rejected, with false alarms at most 0.10%
    would have caught epsilon 1.24 with power 95%, by an event as likely as these
    >>> examine(response, True, False, epsilon=0.9).rejected
    True
    """
    epsilon = real("epsilon", epsilon, least=0, most=100, error=BudgetError)
    delta = real("delta", delta, least=0, below=1, error=BudgetError)
    claim = StatedProfile(epsilon_stated=epsilon, delta_stated=delta)
    reads: dict[str, Callable[[Any], Hashable]] = {"the output": itemgetter(0)}
    for place, feature in enumerate(features, start=1):
        name = getattr(feature, "__name__", type(feature).__name__)
        reads[f"feature {place} ({name})"] = itemgetter(place)
    first, second = (_runs_of(sample, table, features) for table in (one, other))
    rng = seeded(0)  # the mechanism has its own randomness, and nothing else draws any
    findings = compared(first, second, claim.delta, rng=rng, runs=runs, error=error, epsilons=[epsilon], features=reads)
    return Examination(epsilon=epsilon, delta=delta, findings=findings, error=float(error))


def _runs_of(sample: Callable[[Any], Any], table: Any, features: Sequence[Callable[[Any], Any]]) -> Sampler:
    def run() -> Hashable:
        output = sample(table)
        plain_features = (_plain(feature(output), optional=False) for feature in features)
        return (_plain(output, optional=bool(features)), *plain_features)

    return lambda _, runs: [run() for _ in range(runs)]


def _plain(output: Any, *, optional: bool) -> Hashable:
    """Return an output as numbers, texts and tuples of them; None for one that is looked at by features alone."""
    if isinstance(output, np.generic):
        output = output.item()
    if isinstance(output, float) and math.isnan(output):
        return "NaN"  # which equals itself
    if isinstance(output, (str, bytes, int, float)):
        return output
    if isinstance(output, dict):
        output = list(output.items())
    elif hasattr(output, "__array__"):
        output = np.asarray(output).tolist()
        if not isinstance(output, list):
            return _plain(output, optional=optional)
    if isinstance(output, (list, tuple)):
        return tuple(_plain(part, optional=optional) for part in output)
    with suppress(TypeError):  # of what holds something without a hash
        hash(output)
        # equal outputs can be found by a hash that is not that of an object's place in memory
        own_hash: Any = type(output).__hash__
        if output is None or own_hash is not object.__hash__:
            return output  # type: ignore[no-any-return]
    if optional:
        return None
    raise ParameterError(
        f"outputs of type {type(output).__name__} cannot be compared. Return numbers, texts, arrays or tuples of them, "
        "or give features"
    )
