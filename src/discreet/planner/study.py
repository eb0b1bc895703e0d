"""Several releases declared together: calibrated together, and paid at once by the profile of all of them.

That is allowed because they are fixed before the first of them is seen. The document that is written holds all that is
needed to compute the guarantee again, and whoever reads it does.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, cast

from discreet._core.errors import DiscreetError, FileProblem, Infeasible, ParameterError, Refused, integer, real, unfit
from discreet._core.numeric import least_real
from discreet._core.reading import SECONDS, bounded_text, first_wrong, parsed_toml, read_json, within
from discreet._core.text import aligned, as_written, counted, lines_of, rounded_down, rounded_up
from discreet.domain import Domain
from discreet.ledger import Replacement, Request
from discreet.mechanisms import Mechanism, named, require_kept
from discreet.planner.cells import calibrated, with_cells, with_sampling
from discreet.planner.options import UNIT, PlanRequest, numbers_of
from discreet.planner.plans import planned
from discreet.privacy import AnyBudget, AttackBudget, Budget, Guarantee, Profile, Unit, compose
from discreet.releases import POOR_UTILITY, as_json, poor_utility

SCHEMA = 1
_STEP = 1.25  # of the factor, until it is too large
_PRECISION = 1e-3  # of the largest factor
_LEAST = 0.05
_FLOOR = 0.9  # of its share of delta, that a release may need at every epsilon
_ROUNDS = 5
_KEYS = {"name", "domain", "records", "size", "mechanism", "parameters", "share", "max_records"}
_TABLE = {"name": (str,), "domain": (str,), "records": (int,), "mechanism": (str,), "parameters": (dict,)}
_SHAPE: dict[str, Any] = {"epsilon": (int, float), "delta": (int, float), "relation": (str,), "releases": (list,)}
_RELEASE: dict[str, Any] = {
    "mechanism": {"name": (str,), "parameters": (dict,)},
    **dict.fromkeys(("name", "domain_sha256"), (str,)),
    **dict.fromkeys(("given", "domain"), (dict,)),
    **dict.fromkeys(("records", "size", "max_records"), (int,)),
    **dict.fromkeys(("epsilon", "delta"), (int, float)),
}


@dataclass(frozen=True, kw_only=True)
class PlannedPart:
    """One release of a study: its request, with the budget that the mechanism was calibrated to on its cells."""

    request: Request
    mechanism: Mechanism
    domain_sha256: str  # of the domain as it was declared

    @property
    def name(self) -> str:
        """Its name in the plan."""
        return str(self.request.part)

    @property
    def budget(self) -> AnyBudget:
        """The release's own: one by this mechanism with this budget is the one that was planned."""
        return self.request.required_budget()

    @cached_property
    def guarantee(self) -> Guarantee:
        """The release's own."""
        return self.mechanism.guarantee(self.request.between, n=_records(self.request))

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        return {
            "name": self.name,
            "mechanism": {"name": self.mechanism.name, "parameters": self.mechanism.parameters()},
            "given": dict(self.request.parameters),
            "domain": as_json(self.mechanism.domain),
            "domain_sha256": self.domain_sha256,
            "records": _records(self.request),
            "size": self.request.size,
            "max_records": self.request.group,
            **_stated(self.budget, self.guarantee.profile),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the part that was written by :meth:`to_dict`. Raises DiscreetError where it cannot be built."""
        declared = {key: facts[key] for key in ("name", "records", "size", "max_records")}
        name, parameters = facts["mechanism"]["name"], facts["mechanism"]["parameters"]
        request = _request(**declared, mechanism=name, parameters=facts["given"])
        domain = Domain.from_dict(facts["domain"])
        sizes: dict[str, Any] = {"records": _records(request), "size": request.size}
        mechanism = named(name).from_parameters(parameters, domain=domain, **sizes)
        request = replace(request, budget=cast("Any", _budget_in(facts)))
        return cls(request=request, mechanism=mechanism, domain_sha256=facts["domain_sha256"])


@dataclass(frozen=True, kw_only=True)
class Together:
    """Releases of one table that satisfy a budget together, where exactly these are made."""

    budget: AnyBudget
    parts: tuple[PlannedPart, ...]

    def __post_init__(self) -> None:
        _require_one_table([part.request for part in self.parts])
        for part in self.parts:
            if part.guarantee.kind != "unconditional":
                raise ParameterError(f"{part.name}: the guarantee is {part.guarantee.kind}. Leave it out of the plan")
            if not part.guarantee.meets(part.budget):
                raise Infeasible(f"{part.name}: {part.budget} with the parameters of {part.mechanism.name}", {})
        if self.budget.excess(self.profile) > 0.0:
            raise Infeasible(f"{self.budget} for {counted(len(self.parts), 'release')} together", {})

    @cached_property
    def profile(self) -> Profile:
        """What all releases together satisfy: a bound on the profile, since they are fixed beforehand."""
        return compose([part.guarantee.profile for part in self.parts])

    @property
    def spent(self) -> Budget:
        """The budget; where that says what an attacker may reach, what the releases cost together."""
        return Budget(**{key: value for key, value in _stated(self.budget, self.profile).items() if key != "attack"})

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values: the document that is written."""
        return {
            "discreet_plan": SCHEMA,
            "library": {"name": "discreet", "version": version("discreet")},
            **_stated(self.budget, self.profile),
            "relation": "replacement",
            "releases": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, seconds: float = SECONDS) -> Self:
        """Read a plan, and compute everything again that it states. Raises FileProblem, or Refused when time is up."""
        facts = read_json(path, remedy="give the file that discreet plan --together wrote")
        if facts.get("discreet_plan") != SCHEMA:
            raise FileProblem(path, f"it is not a discreet plan of version {SCHEMA}", "check the file")
        wrong = first_wrong(facts, _SHAPE, "")
        if wrong is None and facts["relation"] != "replacement":
            wrong = "relation"
        for place, part in enumerate([] if wrong else facts["releases"]):
            wrong = wrong or first_wrong(part, _RELEASE, f"releases[{place}].")
        if wrong is not None:
            raise FileProblem(path, f"its field {wrong} is missing or of the wrong kind", "plan again")
        try:
            with within(seconds):
                return cls(budget=_budget_in(facts), parts=tuple(map(PlannedPart.from_dict, facts["releases"])))
        except (DiscreetError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            if isinstance(error, Refused) and not isinstance(error, Infeasible):  # time is up
                raise
            problem = str(error) if isinstance(error, DiscreetError) else "a field is of the wrong kind"
            raise FileProblem(path, f"it does not hold: {problem.rstrip('.')}", "plan again") from None

    @property
    def verdict(self) -> list[str]:
        """Which releases would be refused as mostly not from the data, and why: a sentence or two each."""
        return [
            f"A release of {part.name} would be refused. {poor_utility(forecast, part.mechanism)}"
            for part in self.parts
            if (forecast := part.mechanism.forecast(part.guarantee.n)).lost > POOR_UTILITY
        ]

    def text(self, shares: Sequence[float]) -> str:
        """Return a table of the releases beside what each would have had by sums, and what they satisfy."""
        summed = {} if isinstance(self.budget, AttackBudget) else {"epsilon by sums": self.budget.epsilon}
        names = [name.replace("_", " ") for name in numbers_of(self.budget)]
        rows = [("release", "mechanism", *names, *summed)]
        for part, share in zip(self.parts, _fractions(shares), strict=True):
            sums = [rounded_down(share * epsilon) for epsilon in summed.values()]
            rows.append((part.name, part.mechanism.name, *map(as_written, numbers_of(part.budget).values()), *sums))
        satisfied = (
            f"{counted(len(self.parts), 'release')} together satisfy {self.budget}, if these are made and no others, "
            "each with the mechanism, budget and size above. They were fixed before any of them is seen. None may be "
            "added, or changed, by looking at one of the others."
        )
        return "\n".join([*aligned(rows, left=2), *lines_of([satisfied])])


def read_study(path: str | os.PathLike[str]) -> tuple[list[Request], list[float]]:
    """Read the releases of a study and their shares: a TOML file of ``[[release]]`` tables, domains relative to it."""
    remedy = "give a TOML file with a [[release]] table for each release"
    document = parsed_toml(bounded_text(path, missing="check the path", remedy=remedy), what="the study")
    tables = document.get("release")
    if set(document) != {"release"} or not isinstance(tables, list) or not tables:
        raise FileProblem(path, "it must have [[release]] tables, and nothing else", remedy)
    requests, shares = [], []
    for table in tables:
        if not isinstance(table, Mapping):
            raise ParameterError("each [[release]] must be a table")
        if unknown := sorted(set(table) - _KEYS):
            raise ParameterError(f"a [[release]] must not have {unknown[0]!r}. It may have: {', '.join(sorted(_KEYS))}")
        if wrong := first_wrong({"mechanism": "", "parameters": {}, **table}, _TABLE, ""):
            raise ParameterError(f"each [[release]] must have {wrong!r}, of the right type. Check the file")
        facts = {key: value for key, value in table.items() if key not in ("domain", "share")}
        requests.append(_request(**facts, domain=Domain.read(Path(path).parent / table["domain"])))
        shares.append(real("share", table.get("share", 1.0), above=0, most=1e6))
    return requests, shares


def _request(*, name: str, records: int, max_records: int = 1, **facts: Any) -> Request:
    group = integer("max_records", max_records, least=1, most=10_000)
    unit = None if group == 1 else Unit(UNIT, max_records=group)
    return Request(part=name, relation=Replacement(records=records), unit=unit, **{"size": records, **facts})


def plan_together(requests: Sequence[Request], budget: AnyBudget, *, shares: Sequence[float] | None = None) -> Together:
    """Calibrate several releases of a table, each with its name as ``part``, so that all satisfy a budget together."""
    # Shares of the budget are parts of their sum, equal by default. Raises Infeasible when no budgets do.
    # Release i is calibrated to epsilon t w_i E and delta min(t/2, 0.9) w_i D, w_i its share. The factor t is the
    # largest, to 0.1 %, at which the composed profile meets (E, D). Of what an attacker may reach beyond guessing, the
    # release has t w_i of it likewise. Mechanisms and cells that are not given are chosen
    # for these budgets, and the factor is solved for again until they stay the same.
    if not isinstance(budget, Budget | AttackBudget):
        raise unfit("the budget of releases together", "a Budget", budget, remedy="Write Budget(epsilon=...)")
    for request in requests:
        if not request.part or not request.part.strip() or not request.part.isprintable():
            raise ParameterError("each release must have a name of printable characters")
        if None in (request.domain, request.relation.records, request.size):
            raise ParameterError(f"{request.part}: the domain, number of records or size is missing. Give all three")
        if not isinstance(request.relation, Replacement):
            raise ParameterError(f"{request.part}: a plan takes replacement. Write relation=Replacement(records=...)")
        if request.parameters and request.mechanism is None:
            raise ParameterError(f"{request.part}: parameters are of a mechanism. Name it, or leave them out")
    _require_one_table(requests)
    fractions = _fractions([1.0] * len(requests) if shares is None else shares)
    start = 1.0 if budget.pure else 1.0 / math.sqrt(sum(share * share for share in fractions))
    budgets = [_part_budget(budget, share, start) for share in fractions]
    candidates, complete = requests, list(map(_completed, requests, budgets))
    for _ in range(_ROUNDS):
        budgets = _largest_budgets(complete, budget, fractions, start)
        revised = list(map(_completed, candidates, budgets))
        if revised == complete:
            return Together(budget=budget, parts=tuple(map(_planned_part, requests, complete, budgets)))
        complete = revised
        # the mechanisms that the first round chose stay
        candidates = [replace(request, mechanism=c.mechanism) for request, c in zip(requests, complete, strict=True)]
    raise ParameterError("the cells that are chosen change with the budget, back and forth. Declare them: cells = ...")


def _stated(budget: AnyBudget, profile: Profile) -> dict[str, Any]:
    """Return a budget as JSON values; one that limits an attacker beside the epsilon and delta that are met."""
    if isinstance(budget, Budget):
        return numbers_of(budget)
    delta = max(1e-9, profile.delta(100.0) * (1.0 + 1e-6))
    epsilon = float(rounded_up(profile.epsilon(delta), 6))
    return {"epsilon": min(100.0, epsilon), "delta": delta, "attack": budget.to_dict()}


def _budget_in(facts: Mapping[str, Any]) -> AnyBudget:
    if "attack" in facts:
        return AttackBudget.from_dict(facts["attack"])
    return Budget(epsilon=facts["epsilon"], delta=facts["delta"])


def _records(request: Request) -> int:
    return request.relation.records or 0  # which a planned request declares


def _require_one_table(requests: Sequence[Request]) -> None:
    """Refuse releases that cannot be of one table, between the same neighbours."""
    if not requests:
        raise ParameterError("a plan needs at least one release")
    if len({request.part for request in requests}) != len(requests):
        raise ParameterError("two releases have the same name. Give each its own")
    if len({Fraction(_records(request), request.group) for request in requests}) > 1:
        raise ParameterError(
            "the releases must be of one table: records / max_records, the number of privacy units, must be the same"
        )


def _fractions(shares: Sequence[float]) -> list[float]:
    checked = [real("share", share, above=0, most=1e6) for share in shares]
    return [share / math.fsum(checked) for share in checked]


def _comparison(request: Request, budget: AnyBudget) -> PlanRequest:
    return PlanRequest(request=replace(request, budget=cast("Any", budget)))


def _completed(request: Request, budget: AnyBudget) -> Request:
    """Return a request with a mechanism and cells: chosen for a budget where none are asked for."""
    comparison = _comparison(request, budget)
    if request.mechanism is None:
        best = planned(comparison, largest_sizes=False).best
        return replace(request, mechanism=best.name, domain=best.domain)
    mechanism_type = named(request.mechanism)
    require_kept(request.mechanism, comparison.domain, keeps=mechanism_type.traits.keeps_declared)
    parameters = with_sampling(mechanism_type, request.parameters)
    return replace(request, domain=with_cells(comparison.domain, mechanism_type, **comparison.sizes, **parameters))


def _calibrated(complete: Request, budget: AnyBudget) -> Mechanism:
    """Return the mechanism at a budget, as a release by its name makes it."""
    comparison, name = _comparison(complete, budget), str(complete.mechanism)
    return calibrated(name, comparison.domain, with_sampling(named(name), complete.parameters), **comparison.sizes)


def _planned_part(request: Request, complete: Request, budget: AnyBudget) -> PlannedPart:
    comparison = _comparison(request, budget)
    declared = hashlib.sha256(comparison.domain.to_toml().encode()).hexdigest()
    return PlannedPart(request=comparison.request, mechanism=_calibrated(complete, budget), domain_sha256=declared)


def _largest_budgets(
    complete: Sequence[Request], total: AnyBudget, fractions: Sequence[float], start: float
) -> list[AnyBudget]:
    """Return the largest budgets with which the releases together meet the total one."""
    if isinstance(total, Budget):
        most = min(1.5, 100.0 / total.epsilon) / max(fractions)
    else:
        most = min(1.5, 0.999 * (1.0 - total.guessing) / (total.limit[1] - total.guessing)) / max(fractions)

    def budgets(inverse: float) -> list[AnyBudget]:
        return [_part_budget(total, share, 1.0 / inverse) for share in fractions]

    @cache
    def excess(inverse: float) -> float:
        try:
            profiles = [
                _calibrated(request, budget).guarantee(request.between, n=_records(request)).profile
                for request, budget in zip(complete, budgets(inverse), strict=True)
            ]
        except Infeasible:  # too little for a mechanism: where more is too much, it says so itself in the end
            return -1.0
        return total.excess(compose(profiles))

    minimum = 1.0 / most
    feasible = max(1.0 / start, minimum)
    while excess(feasible) > 0.0:
        feasible *= _STEP
        if feasible > 1.0 / _LEAST:
            raise Infeasible(f"{total} for these releases together", {})
    too_large = max(minimum, feasible / _STEP)
    while too_large < feasible and excess(too_large) <= 0.0:
        feasible, too_large = too_large, max(minimum, too_large / _STEP)
    return budgets(least_real(excess, too_large, feasible, relative=_PRECISION) or feasible)


def _part_budget(total: AnyBudget, share: float, factor: float) -> AnyBudget:
    """Return the budget of one release, of six digits."""
    if not isinstance(total, Budget):
        (name, limit), guessing = total.limit, total.guessing
        reached = rounded_down(guessing + factor * share * (limit - guessing), 6)
        return replace(total, **{name: float(reached)})  # type: ignore[type-var]
    delta = min(0.5 * factor, _FLOOR) * share * total.delta
    return Budget(epsilon=float(rounded_down(factor * share * total.epsilon, 6)), delta=float(rounded_down(delta, 6)))
