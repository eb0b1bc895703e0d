"""Guarantees and calibration from a mechanism's public parameters: of a domain, or of plain numbers. No table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from discreet._core.checks import integer
from discreet._core.errors import ParameterError
from discreet._core.text import as_written
from discreet.domain import Domain, Integer, Numeric
from discreet.mechanisms import REGISTRY, Mechanism, alias_of, named, require_kept
from discreet.mechanisms.base import require_relation
from discreet.privacy import Budget, Guarantee, Relation
from discreet.privacy.guarantee import RelationName


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A calibrated mechanism's numbers.

    ``numbers``: JSON values: ``mechanism``, ``records``, ``size``, ``parameters``, ``epsilon``, ``delta``, and
    ``solved``, the free parameter with its value.
    ``guarantee``: what they promise.
    """

    numbers: dict[str, Any]
    guarantee: Guarantee


def parameter_names() -> list[str]:
    """Return every parameter that some mechanism takes, and ``cells`` and ``group``, which stand for a domain."""
    own = {item.name for kind in REGISTRY.values() for item in fields(kind) if item.init}
    return sorted((own - {"domain", "size", "records"}) | {"cells", "group"})


def stated(
    mechanism: str,
    *,
    records: int,
    size: int | None,
    relation: RelationName = "replacement",
    domain: Domain | None = None,
    **parameters: Any,
) -> tuple[Mechanism, Guarantee]:
    """Return a mechanism at given parameters, and its guarantee.

    ``mechanism``: registry name.
    ``records``, ``size``: numbers of records held (under add/remove: declared) and released; the size is not needed
    where it costs nothing.
    ``relation``, {"replacement", "add-remove"}: between which tables.
    ``domain``: public; without one, the cells are those of one column.
    ``**parameters``: the mechanism's own, ``cells`` for those on a finite domain without one, and ``group``.

    Raises ParameterError when a parameter is missing, unknown or out of range, or RelationNotSupported when the
    mechanism has no theorem for the relation.
    """
    kind, found, group, fixed = _resolve(mechanism, parameters, domain)
    made: Mechanism = kind.from_parameters(fixed, domain=found, records=records, size=size)
    return made, made.guarantee(Relation(name=relation, group=group), n=records)


def on_domain(mechanism: str, domain: Domain, *, records: int, size: int | None, **parameters: Any) -> Mechanism:
    """Return a mechanism at given parameters on a declared domain.

    ``mechanism``: registry name.
    ``domain``: public.
    ``records``, ``size``: numbers of records held and released; the size is not needed where it costs nothing.
    ``**parameters``: the mechanism's own.

    Raises ParameterError when a parameter is missing, unknown or out of range.
    """
    if "group" in parameters:
        raise ParameterError("do not pass group. It comes from the table")
    kind, _, _, fixed = _resolve(mechanism, parameters, domain)
    made: Mechanism = kind.from_parameters(fixed, domain=domain, records=records, size=size)
    return made


def calibrated(
    mechanism: str,
    *,
    records: int,
    epsilon: float,
    delta: float,
    size: int | None,
    domain: Domain | None = None,
    **parameters: Any,
) -> tuple[Mechanism, Guarantee]:
    """Return a mechanism with its free parameter solved for, under replacement, and its guarantee; see :func:`solved`.

    ``size``: a number where the mechanism needs one.
    """
    kind, found, group, fixed = _resolve(mechanism, parameters, domain)
    made = kind.calibrated(
        Budget(epsilon=epsilon, delta=delta), domain=found, n=records, size=size, group=group, **fixed
    )
    return made, made.guarantee(Relation(group=group), n=records)


def solved(
    mechanism: str,
    *,
    records: int,
    epsilon: float,
    delta: float,
    size: int | None,
    relation: RelationName = "replacement",
    domain: Domain | None = None,
    **parameters: Any,
) -> Solution:
    """Solve for a mechanism's one free parameter.

    ``mechanism``: registry name.
    ``records``: number of records held; under add/remove, declared.
    ``epsilon``, ``delta``: the budget.
    ``size``: number of records released; None solves for it, where it matters.
    ``relation``, {"replacement", "add-remove"}: between which tables.
    ``domain``: public; without one, the cells are those of one column.
    ``**parameters``: those that are given; see :func:`stated`.

    Raises Infeasible with the nearest feasible numbers; ParameterError when a parameter is missing, unknown or out of
    range, or when nothing is free; RelationNotSupported when the mechanism has no theorem for the relation.
    """
    kind, found, group, fixed = _resolve(mechanism, parameters, domain)
    require_relation(kind, relation)
    asked = {} if relation == "replacement" else {"relation": relation}
    budget = Budget(epsilon=epsilon, delta=delta)
    made = kind.calibrated(budget, domain=found, n=records, size=size, group=group, **asked, **fixed)
    guarantee = made.guarantee(Relation(name=relation, group=group), n=records)
    values = made.parameters()
    final = getattr(made, "size", size)
    free = next((name for name in kind.traits.free if (size if name == "size" else fixed.get(name)) is None), None)
    return Solution(
        numbers={
            "mechanism": mechanism,
            "records": guarantee.n,
            "size": final,
            "parameters": values,
            "solved": {} if free is None else {free: final if free == "size" else values[free]},
            "epsilon": budget.epsilon,
            "delta": guarantee.delta(budget.epsilon),
        },
        guarantee=guarantee,
    )


def _resolve(
    mechanism: str, parameters: dict[str, Any], domain: Domain | None
) -> tuple[type[Mechanism], Domain, int, dict[str, Any]]:
    """Return the mechanism's class, the domain, the group, and the mechanism's own parameters.

    Without a domain, it is one of anonymous cells.
    """
    kind, own = named(mechanism), dict(parameters)
    group = own.pop("group", 1)
    if domain is not None:
        if "cells" in own:
            raise ParameterError("do not pass cells. It comes from the domain")
        own["cells"] = domain.size or 2
    for name, value in alias_of(mechanism).items():
        if own.setdefault(name, value) != value:
            raise ParameterError(
                f"{mechanism} is {kind.name} at {name} {as_written(value)}. Name {kind.name} for another {name}"
            )
    fixed = own
    if hasattr(kind, "in_range"):  # numbers outside of its own range say another mechanism
        equal, fixed = kind.in_range(own)
        kind = named(equal)
    if domain is not None:
        fixed.pop("cells", None)
        require_kept(mechanism, domain, keeps=kind.traits.keeps_declared)
        return kind, domain, group, fixed
    cells = fixed.pop("cells", 2 if kind.traits.needs_cells and not kind.traits.cells_cost else None)
    if not kind.traits.needs_cells and cells is None:
        return kind, Domain(columns={"value": Numeric(lower=0.0, upper=1.0)}), group, fixed
    return kind, _cells(mechanism, cells), group, fixed


def _cells(mechanism: str, cells: Any) -> Domain:
    if cells is None:
        raise ParameterError(f"{mechanism} needs cells=..., the number of cells of its public domain")
    return Domain(columns={"cell": Integer(lower=0, upper=integer("cells", cells, least=2, most=2**62) - 1)})
