"""The mechanism of a request, chosen by the plan or by its name: from public facts alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from discreet import mechanisms, planner
from discreet._core.checks import choice, integer
from discreet._core.errors import ParameterError, PoorUtility
from discreet._core.lazy import pl
from discreet.confidential import public_table
from discreet.domain import Commonness, Domain
from discreet.ledger import Replacement, Request
from discreet.mechanisms import Mechanism, first_names, named, parameter_names
from discreet.planner.cells import calibrated, required, with_sampling
from discreet.privacy import Budget, Unit
from discreet.releases import poor_utility

_NO_PARAMETERS = {"cells", "group", "n"}
"""What a mechanism is calibrated with, besides its own parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFacts:
    """Domain, number of records (declared, or None until counted), and a public table that this one may be like."""

    domain: Domain
    n: int | None
    reference: pl.DataFrame | None = None

    @property
    def commonness(self) -> Commonness | None:
        """How common the records of the reference are; None where there is none."""
        if self.reference is None:
            return None
        return planner.Reference(self.reference).commonness(self.domain)

    def on(self, domain: Domain) -> PublicFacts:
        """Return these facts on other cells."""
        return replace(self, domain=domain)


def plans_of_slots(domain: str | os.PathLike[str], budget: Budget, numbers: Sequence[int], **facts: Any) -> Any:
    """Return a plan for each most number of rows of a unit, of the table of units in a domain or of its columns."""
    plain, plans = Domain.read(domain).to_dict(), {}
    for most in numbers:
        tables = {name: {**table, "max_records": most} for name, table in plain.get("tables", {}).items()}
        unit = None if tables else Unit(planner.UNIT, max_records=most)
        plans[most] = planner.plan(Domain.from_dict({**plain, "tables": tables}), budget, unit=unit, **facts)
    return plans


def require_complete(request: Request) -> None:
    """Refuse a request that no mechanism, or not the one asked for, can meet."""
    mechanism_type, parameters = request.mechanism_type, request.parameters
    if request.size is None and not request.counts:
        raise ParameterError(
            "the number of records to release is a public choice that costs privacy or utility. Write size=..., "
            "for a start as many as the table has. The plan compares others"
        )
    required(request.budget)
    if request.several and (mechanism_type is None or "tables" not in parameter_names(mechanism_type)):
        names = [repr(name) for name, kind in mechanisms.REGISTRY.items() if "tables" in parameter_names(kind)]
        raise ParameterError(f"several tables come from {' or '.join(names)} alone. Take it, or leave tables out")
    if request.counts and request.several:
        raise ParameterError("counts are one table. For them leave tables out")
    if "tables" in parameters:
        integer("tables", parameters["tables"], least=1, most=mechanisms.MOST_TABLES)
    request.require_steps(mechanism_type)
    if mechanism_type is None:
        choice("sampling", parameters.get("sampling") or mechanisms.SAMPLINGS[0], mechanisms.SAMPLINGS)
        if unknown := sorted(set(parameters) - {"sampling"}):
            raise ParameterError(f"unknown argument {unknown[0]!r}. If a mechanism has it, write mechanism=... as well")
        return
    if solved := sorted(_NO_PARAMETERS & set(parameters)):
        raise ParameterError(
            f"{solved[0]!r} is no parameter of {request.mechanism}: it follows from the table and other arguments. "
            "Leave it out"
        )
    if request.counts and not mechanism_type.traits.counts:
        raise ParameterError(f"{request.mechanism} releases records, not counts. Ask for records, and write size=...")
    mechanisms.require_relation(mechanism_type, request.between.name)


def chosen_mechanism(request: Request, facts: PublicFacts) -> tuple[Mechanism, str]:
    """Return the mechanism of a request for a table of ``facts.n`` records, and why it is this one."""
    if request.mechanism is None:
        return _chosen_by_plan(request, facts)
    mechanism_type = named(request.mechanism)
    parameters = with_sampling(mechanism_type, request.parameters)
    if isinstance(parameters.get("points"), (str, os.PathLike)):
        parameters["points"] = public_table(os.fspath(parameters["points"]), facts.domain)
    sizes = {"n": facts.n, "budget": request.budget, "size": request.size, "group": request.group}
    relation = request.between.name
    mechanism = calibrated(mechanism_type.name, facts.domain, parameters, relation=relation, **sizes)
    why = f"{request.mechanism}: {('asked for', 'draws several tables')[request.several]}"
    if request.parameters.get("sampling") == "stratified" and not mechanism.forecast(facts.n or 0).stratified:
        why += ". It draws records as its law demands, so that stratified has no effect"
    return mechanism, why


def _chosen_by_plan(request: Request, facts: PublicFacts) -> tuple[Mechanism, str]:
    """Return the mechanism that the plan chooses among those that can release what is asked for, and why."""
    names, relation = first_names(), request.between.name
    if request.counts:
        names = [name for name in names if named(name).traits.counts]
    if relation != "replacement":
        names = [name for name in names if relation in named(name).traits.relations]
        request = replace(request, parameters={**request.parameters, "relation": relation})
    elif request.relation.records is None:
        request = replace(request, relation=Replacement(records=facts.n or 0))
    request, reference = replace(request, domain=facts.domain), planner.Reference(facts.reference)
    comparison = planner.PlanRequest(request=request, reference=reference)
    if names != first_names():
        keeping = [name for name in names if named(name).traits.keeps_declared >= comparison.declares_more]
        comparison = replace(comparison, mechanisms=keeping)
    plan = planner.planned(comparison, largest_sizes=False)
    best, forecast = plan.best, plan.feasible[0].forecast
    if forecast is not None and plan.feasible[0].poor and "poor-utility" not in request.accept:
        raise PoorUtility(poor_utility(forecast, best, plan.remedies))
    return best, plan.why
