"""Checks of every mechanism that do not run it: its fields, its parameters, its calibration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from discreet._core.errors import DiscreetError, Infeasible
from discreet.domain import Domain, Integer
from discreet.mechanisms import LAWS, PROJECTIONS, Mechanism
from discreet.privacy import Budget, Relation, RelationName

RECORDS, SIZE = 24, 4
BUDGET = Budget(epsilon=0.3, delta=0.01)
"""What the small mechanism is made for."""

RATE = 1e-6
"""False-fail and false-pass rate of every statistical check unless told otherwise."""

_GROUPS = (1, 2)
_NAMED: dict[str, Iterable[str]] = {"noise": LAWS, "projection": PROJECTIONS}  # fields that name what can be added
_NEAR: dict[Any, Callable[[Any], list[Any]]] = {  # other values, of fields of some types
    bool: lambda value: [not value],
    int: lambda value: [value + 1, value - 1],
    float: lambda value: [value * 1.25, value * 0.75, value + 0.25],
}
_ELSEWHERE = ("domain", "records", "size")  # fields that a certificate holds beside the parameters

_EPSILONS = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0)


def small_domain(cells: int = 4) -> Domain:
    """Return the domain that mechanisms are checked on: one ordered column of few cells."""
    return Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})


def small_mechanism(
    kind: type[Mechanism],
    *,
    budget: Budget = BUDGET,
    domain: Domain | None = None,
    n: int = RECORDS,
    relation: RelationName = "replacement",
    group: int = 1,
    size: int | None = SIZE,
    **choices: Any,
) -> Mechanism:
    """Return the mechanism that ``calibrated`` gives for the small budget, on the small domain if on no other."""
    if relation != "replacement":
        choices["relation"] = relation
    return kind.calibrated(budget, domain=domain or small_domain(), n=n, size=size, group=group, **choices)


def variants(mechanism: Mechanism) -> Iterator[Mechanism]:
    """Yield the mechanism with one field after the other changed, where there is an obvious other value."""
    hints = get_type_hints(type(mechanism))
    for item in fields(mechanism):
        if not item.init or item.name == "domain":
            continue
        usual = getattr(mechanism, item.name)
        hint = hints[item.name]
        for value in _choices(item.name, hint, usual) or _NEAR.get(hint, lambda _: [])(usual):
            try:
                variant = replace(mechanism, **{item.name: value})
            except DiscreetError:
                continue
            if getattr(variant, item.name) != usual:
                yield variant


def _choices(name: str, hint: Any, value: Any) -> list[Any]:
    """Return the other values of a field that takes a literal, a law of noise or a projection; none of other fields."""
    options: Iterable[Any] = ()
    if get_origin(hint) is Literal:
        options = get_args(hint)
    elif hint is str:
        options = _NAMED.get(name, ())
    return [option for option in options if option != value]


def check_frozen(kind: type[Mechanism]) -> None:
    """Assert that a mechanism is a frozen, keyword-only dataclass of its own, of which no field can be set."""
    parameters: Any = vars(kind).get("__dataclass_params__")
    assert parameters is not None, f"{kind.__name__} is not a dataclass of its own: its fields are no facts"
    assert parameters.frozen, f"{kind.__name__} is not frozen: a fact could change after its guarantee was stated"
    named = all(item.kw_only for item in fields(kind) if item.init)
    assert named, f"{kind.__name__} takes positional arguments: facts are given by name"
    mechanism = small_mechanism(kind)
    for item in fields(kind):
        try:
            setattr(mechanism, item.name, None)
        except AttributeError:
            continue
        raise AssertionError(f"{kind.__name__}.{item.name} can be set: a mechanism is frozen")


def check_parameters(kind: type[Mechanism]) -> None:
    """Assert that ``from_parameters(parameters())``, through JSON, gives the mechanism back with each field changed."""
    # A parameter may leave out the domain, the numbers of records, and a default that earlier versions did not know.
    defaults = {item.name: item.default for item in fields(kind)}
    small = small_mechanism(kind)
    for mechanism in (small, *variants(small)):
        parameters = mechanism.parameters()
        facts = {item.name: getattr(mechanism, item.name) for item in fields(kind) if item.init}
        required = {name for name, value in facts.items() if value is not None and value != defaults[name]}
        lacking = required - set(parameters) - set(_ELSEWHERE)
        assert not lacking, f"{kind.__name__}.parameters() leaves out {min(lacking)!r}"
        document = json.loads(json.dumps(parameters, allow_nan=False))
        numbers = {"records": facts.get("records", RECORDS), "size": facts.get("size")}
        copy = kind.from_parameters(document, domain=mechanism.domain, **numbers)
        for name, value in facts.items():
            result = getattr(copy, name)
            assert result == value, f"{kind.__name__}: {name} {value!r} comes back from parameters() as {result!r}"


def check_calibrated(kind: type[Mechanism]) -> None:
    """Assert that what ``calibrated`` gives is within the budget, and keeps the choices that it is given."""
    # The free parameter is solved for; it is that of a smaller unit; and the size is solved for there.
    # The budget is one that binds: what is enough for a unit is too little for a larger one.
    for relation in kind.traits.relations:
        solutions = {group: small_mechanism(kind, relation=relation, group=group) for group in _GROUPS}
        for group, mechanism in solutions.items():
            _require_within(mechanism, relation, group, "solved for")
            larger = mechanism.guarantee(Relation(name=relation, group=group + 1), n=RECORDS)
            assert not larger.meets(BUDGET), f"{kind.__name__} spends less than {BUDGET}: the check has no force"
        smallest, largest = solutions[min(_GROUPS)], max(_GROUPS)
        choices = {name: getattr(smallest, name) for name in kind.traits.free if name != "size"}
        for size in (SIZE, None) if "size" in kind.traits.free else (SIZE,):
            try:
                mechanism = small_mechanism(kind, relation=relation, group=largest, size=size, **choices)
            except Infeasible:
                continue
            _require_within(mechanism, relation, largest, f"given {choices}")
    # each choice that is given, of those a field can take, is the one that is made
    small, hints = small_mechanism(kind), get_type_hints(kind)
    for name in (item.name for item in fields(small) if item.init):
        for value in _choices(name, hints[name], getattr(small, name)):
            try:
                mechanism = small_mechanism(kind, **{name: value})
            except DiscreetError:  # a choice that the small budget cannot pay, or that needs another one beside it
                continue
            assert getattr(mechanism, name) == value, f"{kind.__name__}.calibrated does not keep {name}={value!r}"


def check_cells_cost(kind: type[Mechanism]) -> None:
    """Assert that the guarantee is the same on 2, 3 and 8 cells where ``traits.cells_cost`` says so."""
    if kind.traits.cells_cost:
        return
    mechanism = small_mechanism(kind)
    deltas = {}
    for cells in (2, 3, 8):
        copy = kind.from_parameters(mechanism.parameters(), domain=small_domain(cells), records=RECORDS, size=SIZE)
        guarantee = copy.guarantee(n=RECORDS)
        deltas[cells] = [guarantee.delta(epsilon) for epsilon in _EPSILONS]
    assert deltas[2] == deltas[3] == deltas[8], (
        f"{kind.__name__}: its guarantee depends on the number of cells, but traits.cells_cost is False. Set it to True"
    )


def _require_within(mechanism: Mechanism, relation: RelationName, group: int, how: str) -> None:
    guarantee = mechanism.guarantee(Relation(name=relation, group=group), n=RECORDS)
    assert guarantee.meets(BUDGET), (
        f"{mechanism.name}.calibrated ({how}) exceeds {BUDGET} for a unit of {group} under {relation}: delta "
        f"{guarantee.delta(BUDGET.epsilon):.6g}"
    )


CHECKS = (check_frozen, check_parameters, check_calibrated, check_cells_cost)
