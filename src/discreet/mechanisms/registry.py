"""The registry: mechanisms by name, each loaded when it is asked for, and what they promise at given parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, integer
from discreet._core.text import as_written
from discreet.domain import DECLARED, RULES, Domain, Integer
from discreet.mechanisms.base import Mechanism, parameter_names, require_relation
from discreet.privacy import AnyBudget, Guarantee, Relation, RelationName

_NAMES = (
    "dirichlet-process",
    "pitman-yor",
    "dirichlet-multinomial",
    "smoothed-histogram",
    "reveal-or-obscure",
    "data-specific-reveal-or-obscure",
    "subsampled-randomised-response",
    "perturbed-histogram",
    "hierarchical-histogram",
    "signed-measure",
    "gaussian-smoothed-histogram",
    "laplace-projection-sampler",
    "exponential-histogram",
    "stability-histogram",
    "stabilised-pitman-yor",
    "urn-histogram",
    "marginals",
    "private-evolution",
)
"""``my-mechanism`` is the class ``MyMechanism`` in the file ``my_mechanism.py``."""
_COINS = "hierarchical-histogram"  # releases columns whose cells are split by coins
ALIASES: Mapping[str, tuple[str, dict[str, Any]]] = {"dirichlet-process": ("pitman-yor", {"discount": 0.0})}
"""Names of mechanisms at a parameter that is fixed."""
MODELS = {
    "pseudo-posterior": "pseudo.PseudoPosteriorMechanism",
    "censored-posterior": "censored.CensoredPosteriorMechanism",
}
"""Mechanisms of ``pseudo_posterior``, above this package, which certificates name and nobody can ask for by name."""


class _Registry(Mapping[str, type[Mechanism]]):
    """Mechanisms by name; each is loaded when it is looked up."""

    def __getitem__(self, name: str) -> type[Mechanism]:
        if name not in _NAMES:
            raise KeyError(name)
        name, _ = ALIASES.get(name, (name, {}))
        module = import_module(f"discreet.mechanisms.{name.replace('-', '_')}")
        mechanism_type: type[Mechanism] = getattr(module, name.title().replace("-", ""))
        return mechanism_type

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


REGISTRY: Mapping[str, type[Mechanism]] = _Registry()
"""Mechanisms by their registry and command names; ``dirichlet-process`` is ``pitman-yor`` at discount 0."""


@sealed
def named(name: str) -> type[Mechanism]:
    """Return the mechanism of a registry name.

    Raises
    ------
    ParameterError
        When there is none of that name.
    """
    if name not in _NAMES:
        raise ParameterError(f"there is no mechanism {name!r}. The mechanisms are: {', '.join(REGISTRY)}")
    return REGISTRY[name]


def certified_type(name: str) -> type[Mechanism]:
    """Return the mechanism that a certificate names: one of the registry, or a model. Raises ParameterError."""
    if name not in MODELS:
        return named(name)
    module, _, kind = MODELS[name].rpartition(".")
    home = import_module(f"discreet.pseudo_posterior.{module}")
    model: type[Mechanism] = getattr(home, kind)  # sealed by its own package
    return model


def first_names() -> list[str]:
    """Return one registry name a mechanism, the first: every mechanism once, under its alias where it has one."""
    return list({ALIASES.get(name, (name, {}))[0]: name for name in reversed(_NAMES)}.values())[::-1]


def require_kept(name: str, domain: Domain, *, keeps: bool) -> None:
    """Raise ParameterError where a domain declares more than its columns, and a mechanism or model keeps none of it."""
    if domain.coin_columns and (name != _COINS or len(domain.columns) > 1):
        raise ParameterError(
            f"column {domain.coin_columns[0]!r}: coin is for a table of one column, released by {_COINS}. Leave it out"
        )
    declared = [f"[[{name}]]" if name in DECLARED else name for name in RULES if getattr(domain, name)]
    declared += [f"[tables.{name}]" for name in domain.tables or ()]
    if keeps or not declared:
        return
    keepers = " or ".join(other for other in first_names() if named(other).traits.keeps_declared)
    raise ParameterError(
        f"{name} does not keep what the domain declares under {', '.join(declared)}. Use {keepers}, or leave it out of "
        "the domain"
    )


def known_parameters() -> list[str]:
    """Return every parameter that some mechanism takes, and ``cells`` and ``group``, which stand for a domain."""
    return sorted({"cells", "group"}.union(*map(parameter_names, REGISTRY.values())))


def stated(
    mechanism: str,
    *,
    records: int,
    size: int | None,
    relation: RelationName = "replacement",
    domain: Domain | None = None,
    **parameters: Any,
) -> tuple[Mechanism, Guarantee]:
    """Return a mechanism at given parameters, and its guarantee."""
    # records, size: held (or declared) and released. parameters: its own, group, and cells where there is no domain.
    mechanism_type, domain, group, fixed = _resolved(mechanism, parameters, domain)
    solution: Mechanism = mechanism_type.from_parameters(fixed, domain=domain, records=records, size=size)
    return solution, solution.guarantee(Relation(name=relation, group=group), n=records)


def solved(
    mechanism: str,
    *,
    records: int,
    budget: AnyBudget,
    size: int | None,
    relation: RelationName = "replacement",
    domain: Domain | None = None,
    **parameters: Any,
) -> tuple[Mechanism, Guarantee, dict[str, Any]]:
    """Return a mechanism with its free parameter solved for, its guarantee, and this parameter with its value."""
    # The arguments are those of stated(); a size of None is solved for, where it matters.
    mechanism_type, domain, group, fixed = _resolved(mechanism, parameters, domain)
    require_relation(mechanism_type, relation)
    if relation != "replacement":
        fixed["relation"] = relation
    solution = mechanism_type.calibrated(budget, domain=domain, n=records, size=size, group=group, **fixed)
    fixed, values = {**fixed, "size": size}, {**solution.parameters(), "size": getattr(solution, "size", size)}
    free = [name for name in mechanism_type.traits.free if fixed.get(name) is None]
    guarantee = solution.guarantee(Relation(name=relation, group=group), n=records)
    return solution, guarantee, {name: values[name] for name in free[:1]}


def _resolved(
    mechanism: str, parameters: dict[str, Any], domain: Domain | None
) -> tuple[type[Mechanism], Domain, int, dict[str, Any]]:
    """Return the mechanism's class, the domain (without one, of anonymous cells), the group, and its own parameters."""
    mechanism_type, fixed = named(mechanism), dict(parameters)
    group = fixed.pop("group", 1)
    if domain is not None:
        if "cells" in fixed:
            raise ParameterError("do not pass cells. It comes from the domain")
        fixed["cells"] = domain.size or 2
    for name, value in ALIASES.get(mechanism, (mechanism, {}))[1].items():
        if fixed.setdefault(name, value) != value:
            whole = mechanism_type.name
            text = f"{mechanism} is {whole} at {name} {as_written(value)}. Name {whole} for another {name}"
            raise ParameterError(text)
    if hasattr(mechanism_type, "in_range"):  # numbers outside of its own range say another mechanism
        equal, fixed = mechanism_type.in_range(fixed)
        mechanism_type = named(equal)
    traits, cells = mechanism_type.traits, fixed.pop("cells", None)
    if domain is not None:
        require_kept(mechanism, domain, keeps=traits.keeps_declared)
        return mechanism_type, domain, group, fixed
    if cells is None and not traits.needs_cells:
        from discreet.domain import Numeric

        return mechanism_type, Domain(columns={"value": Numeric(lower=0.0, upper=1.0)}), group, fixed
    if cells is None and traits.cells_cost:
        raise ParameterError(f"{mechanism} needs cells=..., the number of cells of its public domain")
    upper = integer("cells", 2 if cells is None else cells, least=2, most=2**62) - 1
    return mechanism_type, Domain(columns={"cell": Integer(lower=0, upper=upper)}), group, fixed
