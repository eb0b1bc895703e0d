"""From plain data to columns, with errors that name the column; and the template of a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from discreet.domain._column import Column
from discreet.domain._discrete import Boolean, Category, OpenLabels
from discreet.domain._lattice import Integer
from discreet.domain._numeric import Numeric
from discreet.domain._toml import key
from discreet.errors import DomainError, MissingPublicFact

__all__ = ["KINDS", "domain_facts", "template"]

KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Numeric, Integer, Boolean, Category, OpenLabels)
}
_TYPES = ", ".join(sorted([*KINDS, "string"]))
_BLANK = "<fill in>"


def domain_facts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Domain`` from plain data."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("columns", {}), Mapping):
        raise DomainError("a domain is written as one table [columns.NAME] a column")
    unknown = set(spec) - {"columns", "metric_weights"}
    if unknown:
        raise DomainError(f"unknown table {min(unknown)!r}: a domain has [columns.NAME] and [metric_weights]")
    columns = {name: _column(name, facts) for name, facts in spec.get("columns", {}).items()}
    return {"columns": columns, "metric_weights": spec.get("metric_weights")}


def _column(name: str, facts: Any) -> Column:
    if not isinstance(facts, Mapping):
        raise DomainError(f"column {name!r}: write it as a table [columns.{key(name)}] with a type")
    rest = dict(facts)
    kind = rest.pop("type", _BLANK)
    if kind == _BLANK:
        raise MissingPublicFact(name, "its type", f'type = "numeric"  # or {_TYPES}')
    if kind == "string":
        if "categories" not in rest and "prefix" not in rest:
            raise MissingPublicFact(
                name, "its list of categories", 'categories = ["first", "second"]  # or type = "open_labels"'
            )
        kind = "category" if "categories" in rest else "open_labels"
    if kind not in KINDS:
        raise DomainError(f"column {name!r}: unknown type {kind!r}; known types: {_TYPES}")
    known = [item.name for item in fields(KINDS[kind]) if item.init]
    for fact, value in rest.items():
        if fact not in known:
            raise DomainError(f"column {name!r}: unknown key {fact!r}; a {kind} column knows: {', '.join(sorted(known))}")
        if value == _BLANK:
            raise MissingPublicFact(name, f"its {fact}", f"{fact} = {_EXAMPLES[fact][0]}")
    try:
        return KINDS[kind](**rest)
    except MissingPublicFact as problem:
        raise MissingPublicFact(name, problem.fact, problem.toml) from None
    except DomainError as problem:
        raise DomainError(f"column {name!r}: {problem}") from None


_EXAMPLES: dict[str, tuple[str, str]] = {
    "lower": ("0", "smallest value that can occur"),
    "upper": ("100", "largest value that can occur"),
    "categories": ('["first", "second"]', "every category that can occur"),
}
_FACTS: dict[str, tuple[str, ...]] = {
    "numeric": ("lower", "upper"),
    "integer": ("lower", "upper"),
    "boolean": (),
}


def template(schema: Mapping[str, str]) -> str:
    """Write a template of the declaration."""
    raise NotImplementedError
