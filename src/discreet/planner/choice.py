"""The mechanism of a request, chosen by the plan or by its name: from public facts alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from discreet._core.checks import choice, integer
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet.confidential import public_table
from discreet.domain import Commonness, Domain
from discreet.ledger import Replacement, Request
from discreet.mechanisms import (
    MOST_TABLES,
    REGISTRY,
    SAMPLINGS,
    Mechanism,
    first_names,
    named,
    parameter_names,
    require_kept,
    require_relation,
)
from discreet.planner.cells import with_cells
from discreet.privacy import Budget

_NO_PARAMETERS = {"cells", "group", "n"}
"""What a mechanism is calibrated with, besides its own parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFacts:
    """What is public about a table on a domain.

    ``n``: number of records, the declared one under add/remove; None until it was counted.
    ``given``, ``reference``: a public table that this one is expected to look like, and its columns on the domain.
    """

    domain: Domain
    n: int | None
    reference: pl.DataFrame | None = None
    given: Any = field(repr=False, default=None)

    @property
    def commonness(self) -> Commonness | None:
        """How common the records of the reference are; None where there is none."""
        if self.reference is None:
            return None
        from discreet.planner.predicted import common

        return common(self.reference, self.domain)

    def on(self, domain: Domain) -> PublicFacts:
        """Return the same on other cells, with the reference read for them."""
        if domain == self.domain and (self.reference is None) == (self.given is None):
            return self
        like = None if self.given is None else public_table(self.given, domain)
        return replace(self, domain=domain, reference=like)


def require_current(given: Iterable[str], moved: Mapping[str, str]) -> None:
    """Refuse an argument of earlier versions, with what is written now."""
    for name in given:
        if name in moved:
            raise ParameterError(f"{name}=... is an argument of earlier versions. Write {moved[name]}")


def required(budget: Budget | None) -> Budget:
    """Return a budget. Raises ParameterError where there is none."""
    if budget is None:
        raise ParameterError("the budget is what the release may spend. Write Budget(epsilon=..., delta=...)")
    return budget


def with_sampling(kind: type[Mechanism], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are given, with the sampling where the mechanism has one: the default if not given.

    Raises ParameterError when there is no such sampling.
    """
    sampling = given.get("sampling") or SAMPLINGS[0]
    choice("sampling", sampling, SAMPLINGS)
    others = {name: value for name, value in given.items() if name != "sampling"}
    return {"sampling": sampling, **others} if "sampling" in kind.__dataclass_fields__ else others


def require_complete(request: Request) -> None:
    """Refuse a request that no mechanism, or not the one asked for, can meet."""
    kind, parameters = request.mechanism_type, request.parameters
    if request.size is None and not request.counts:
        raise ParameterError(
            "the number of records to release is a public choice that costs privacy or utility. Write size=.... "
            "As many as the table has is a good start, and the plan compares others"
        )
    required(request.budget)
    if request.several and (kind is None or "tables" not in parameter_names(kind)):
        names = [repr(name) for name, kind in REGISTRY.items() if "tables" in parameter_names(kind)]
        raise ParameterError(f"several tables come from {' or '.join(names)} alone. Take it, or leave tables out")
    if request.counts and request.several:
        raise ParameterError("counts are one table. For them leave tables out")
    if "tables" in parameters:
        integer("tables", parameters["tables"], least=1, most=MOST_TABLES)
    request.require_steps(kind)
    if kind is None:
        choice("sampling", parameters.get("sampling") or SAMPLINGS[0], SAMPLINGS)
        if unknown := sorted(set(parameters) - {"sampling"}):
            raise ParameterError(
                f"unknown argument {unknown[0]!r}. If it is a parameter of a mechanism, write mechanism=... as well"
            )
        return
    if solved := sorted(_NO_PARAMETERS & set(parameters)):
        raise ParameterError(
            f"{solved[0]!r} is no parameter of {request.mechanism}: it follows from the table and other arguments. "
            "Leave it out"
        )
    if request.counts and not kind.traits.counts:
        raise ParameterError(f"{request.mechanism} releases records, not counts. Ask for records, and write size=...")
    require_relation(kind, request.between.name)


def chosen_mechanism(request: Request, facts: PublicFacts) -> tuple[Mechanism, str]:
    """Return the mechanism of a request for a table of ``facts.n`` records, and why it is this one."""
    return _by_plan(request, facts) if request.mechanism_type is None else _by_name(request, facts)


def _by_plan(request: Request, facts: PublicFacts) -> tuple[Mechanism, str]:
    """Return the mechanism that the plan chooses among those that can release what is asked for, and why."""
    from discreet.planner.options import Comparison
    from discreet.planner.plans import planned
    from discreet.planner.predicted import Reference

    names, between = first_names(), request.between.name
    if request.counts:
        names = [name for name in names if named(name).traits.counts]
    if between != "replacement":
        names = [name for name in names if between in named(name).traits.relations]
        request = replace(request, parameters={**request.parameters, "relation": between})
    elif request.declared is None:
        request = replace(request, relation=Replacement(records=facts.n or 0))
    only, like = None if names == first_names() else names, Reference.of(facts.reference, facts.domain)
    asked = replace(request, domain=facts.domain)
    chosen = planned(Comparison(request=asked, reference=like, mechanisms=only), largest_sizes=False)
    return chosen.best, chosen.why


def _by_name(request: Request, facts: PublicFacts) -> tuple[Mechanism, str]:
    """Return the mechanism asked for, calibrated with the parameters that are given, and what to know of it."""
    kind, domain = named(str(request.mechanism)), facts.domain
    require_kept(kind.name, domain, keeps=kind.traits.keeps_declared)
    given = with_sampling(kind, request.parameters)
    if isinstance(given.get("points"), (str, os.PathLike)):
        given["points"] = public_table(os.fspath(given["points"]), domain)
    asked: dict[str, Any] = {
        "n": facts.n,
        "budget": required(request.budget),
        "size": request.size,
        "group": request.group,
    }
    if "points" not in given:
        domain = with_cells(domain, kind, **asked, **given)
    if request.between.name == "add-remove":
        given["relation"] = request.between.name
    made = kind.calibrated(domain=domain, **asked, **given)
    why = f"{request.mechanism}: {('asked for', 'draws several tables')[request.several]}"
    if request.parameters.get("sampling") == "stratified" and not made.forecast(facts.n or 0).stratified:
        why += ". It draws records as its law demands, so that stratified has no effect"
    return made, why
