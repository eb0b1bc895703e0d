"""What is checked of every mechanism without running it: its fields, its parameters, its calibration.

A mechanism is taken as its class, and made by its own ``calibrated`` on a small domain, so that one that is added to
the registry is checked without a test of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from discreet._core.errors import DiscreetError, Infeasible
from discreet.domain import Domain, Integer
from discreet.mechanisms import Mechanism
from discreet.mechanisms.noise import LAWS
from discreet.mechanisms.projections import PROJECTIONS
from discreet.privacy import Budget, Relation
from discreet.privacy.guarantee import RelationName

_RECORDS, _SIZE = 24, 4
_GROUPS = (1, 2)
_BUDGET = Budget(epsilon=0.3, delta=0.01)
_NAMED: dict[str, Iterable[str]] = {"noise": LAWS, "projection": PROJECTIONS}  # fields that name what can be added
_ELSEWHERE = ("domain", "records", "size")  # fields that a certificate holds beside the parameters


def small_domain(cells: int = 4) -> Domain:
    """Return the domain that mechanisms are checked on: one ordered column of few cells.

    Examples
    --------
    >>> small_domain().size
    4
    """
    return Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})


def check_frozen(kind: type[Mechanism]) -> None:
    """Assert that a mechanism is a frozen, keyword-only dataclass of its own.

    Raises AssertionError when it is not, or when one of its fields can be set.

    Examples
    --------
    >>> from discreet.mechanisms import PerturbedHistogram
    >>> check_frozen(PerturbedHistogram)
    """
    parameters: Any = vars(kind).get("__dataclass_params__")
    assert parameters is not None, f"{kind.__name__} is not a dataclass of its own: its fields are not public facts"
    assert parameters.frozen, f"{kind.__name__} is not frozen: a fact could change after its guarantee was stated"
    own = [item for item in fields(kind) if item.init]
    assert all(item.kw_only for item in own), f"{kind.__name__} takes positional arguments: facts are given by name"
    mechanism = _made(kind)
    for item in fields(kind):
        before = getattr(mechanism, item.name)
        try:
            setattr(mechanism, item.name, None)
        except AttributeError:
            continue
        object.__setattr__(mechanism, item.name, before)
        raise AssertionError(f"{kind.__name__}.{item.name} can be set: a mechanism is frozen")


def check_parameters(kind: type[Mechanism]) -> None:
    """Assert that a mechanism is rebuilt from its parameters, as a certificate has to be.

    Every field but the domain and the numbers of records is among the parameters, unless it has its default, as one
    that earlier versions did not know; they are JSON; and with each field changed in turn,
    ``from_parameters(parameters())`` gives the mechanism back. Raises AssertionError when a field is left out or comes
    back as something else.

    Examples
    --------
    >>> from discreet.mechanisms import PerturbedHistogram
    >>> check_parameters(PerturbedHistogram)
    """
    mechanism = _made(kind)
    for made in (mechanism, *_varied(mechanism)):
        stated = made.parameters()
        kept = {item.name: getattr(made, item.name) for item in fields(kind) if item.init}
        usual = {item.name: item.default for item in fields(kind)}
        told = {name for name, value in kept.items() if value is not None and value != usual[name]}
        lacking = told - set(stated) - set(_ELSEWHERE)
        assert not lacking, f"{kind.__name__}.parameters() leaves out {min(lacking)!r}"
        read = json.loads(json.dumps(stated, allow_nan=False))
        numbers = {"records": kept.get("records", _RECORDS), "size": kept.get("size")}
        again = kind.from_parameters(read, domain=made.domain, **numbers)
        for name, value in kept.items():
            found = getattr(again, name)
            assert found == value, f"{kind.__name__}: {name} {value!r} comes back from parameters() as {found!r}"


def check_calibrated(kind: type[Mechanism]) -> None:
    """Assert that what ``calibrated`` gives is within the budget, for privacy units of one record and of several.

    Where the free parameter is solved for; where it is given as a smaller unit would have it, which is refused or
    within the budget; and where the size is solved for at that value, if it can be. The budget is one that binds: what
    is enough for a unit is too little for a larger one. Raises AssertionError when a guarantee exceeds the budget, or a
    choice that was given is not kept.

    Examples
    --------
    >>> from discreet.mechanisms import PerturbedHistogram
    >>> check_calibrated(PerturbedHistogram)
    """
    for relation in kind.traits.relations:
        solved = {group: _made(kind, relation=relation, group=group) for group in _GROUPS}
        for group, made in solved.items():
            _require_within(made, relation, group, "solved for")
            larger = made.guarantee(Relation(name=relation, group=group + 1), n=_RECORDS)
            assert not larger.meets(_BUDGET), f"{kind.__name__} spends less than {_BUDGET}: the check has no force"
        smallest, largest = solved[min(_GROUPS)], max(_GROUPS)
        given = {name: getattr(smallest, name) for name in kind.traits.free if name != "size"}
        for size in (_SIZE, None) if "size" in kind.traits.free else (_SIZE,):
            try:
                same = _made(kind, relation=relation, group=largest, size=size, **given)
            except Infeasible:
                continue
            _require_within(same, relation, largest, f"given {given}")
    _require_choices_kept(kind)


def _require_choices_kept(kind: type[Mechanism]) -> None:
    """Assert that each choice that is given, of those a field can take, is the one that is made."""
    usual = _made(kind)
    for name, hint in get_type_hints(kind).items():
        if name not in {item.name for item in fields(usual) if item.init}:
            continue
        for value in _choices(name, hint, getattr(usual, name)):
            try:
                made = _made(kind, **{name: value})
            except DiscreetError:  # a choice that the small budget cannot pay, or that needs another one beside it
                continue
            assert getattr(made, name) == value, f"{kind.__name__}.calibrated does not keep {name}={value!r}"


def _require_within(made: Mechanism, relation: RelationName, group: int, how: str) -> None:
    guarantee = made.guarantee(Relation(name=relation, group=group), n=_RECORDS)
    assert guarantee.meets(_BUDGET), (
        f"{made.name}.calibrated ({how}) exceeds {_BUDGET} for a privacy unit of {group} under {relation}: delta "
        f"{guarantee.delta(_BUDGET.epsilon):.6g}"
    )


def _made(
    kind: type[Mechanism],
    *,
    relation: RelationName = "replacement",
    group: int = 1,
    size: int | None = _SIZE,
    **fixed: Any,
) -> Mechanism:
    """Return the mechanism that ``calibrated`` gives for the small domain and budget."""
    asked = {} if relation == "replacement" else {"relation": relation}
    return kind.calibrated(_BUDGET, domain=small_domain(), n=_RECORDS, size=size, group=group, **asked, **fixed)


def _varied(mechanism: Mechanism) -> Iterator[Mechanism]:
    """Yield the mechanism with one field after the other changed, where there is an obvious other value."""
    hints = get_type_hints(type(mechanism))
    for item in fields(mechanism):
        if not item.init or item.name == "domain":
            continue
        usual = getattr(mechanism, item.name)
        for value in _choices(item.name, hints[item.name], usual) or _near(hints[item.name], usual):
            try:
                made = replace(mechanism, **{item.name: value})
            except DiscreetError:
                continue
            if getattr(made, item.name) != getattr(mechanism, item.name):
                yield made


def _choices(name: str, hint: Any, value: Any) -> list[Any]:
    """Return the other values of a field that takes a literal, a law of noise or a projection; none of other fields."""
    among = get_args(hint) if get_origin(hint) is Literal else _NAMED.get(name, ()) if hint is str else ()
    return [other for other in among if other != value]


def _near(hint: Any, value: Any) -> list[Any]:
    """Return some values near a number or a truth value, none of what else there is."""
    if hint is bool:
        return [not value]
    if hint is int:
        return [value + 1, value - 1]
    if hint is float:
        return [value * 1.25, value * 0.75, value + 0.25]
    return []
