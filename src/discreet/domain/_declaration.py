"""From plain data to columns, with errors that name the column; and the template of a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from discreet._core.errors import DomainError, MissingPublicFact
from discreet._core.reading import MOST_CELLS, MOST_COLUMNS
from discreet._core.text import with_article
from discreet.domain._column import Column
from discreet.domain._decimal import Decimal
from discreet.domain._declared import DECLARED
from discreet.domain._discrete import Boolean, Category, OpenLabels
from discreet.domain._lattice import Integer
from discreet.domain._numeric import Numeric
from discreet.domain._temporal import Date, Datetime, Duration
from discreet.domain._toml import key

KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Numeric, Integer, Boolean, Date, Datetime, Duration, Decimal, Category, OpenLabels)
}
_TYPES = ", ".join(sorted([*KINDS, "string"]))
_BLANK = "<fill in>"


def domain_facts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Domain`` from plain data."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("columns", {}), Mapping):
        raise DomainError("a domain must have one table [columns.NAME] per column")
    if not isinstance(spec.get("metric_weights", {}), Mapping):
        raise DomainError("metric_weights must be a table of one number per column")
    unknown = set(spec) - {"columns", "metric_weights", *DECLARED}
    if unknown:
        lists = ", ".join(f"[[{name}]]" for name in DECLARED)
        raise DomainError(f"unknown table {min(unknown)!r}: a domain has [columns.NAME], [metric_weights], {lists}")
    named = spec.get("columns", {})
    _refuse_large(named)
    columns = {name: _column(name, facts) for name, facts in named.items()}
    declared = {name: spec[name] for name in DECLARED if name in spec}
    return {"columns": columns, "metric_weights": spec.get("metric_weights"), **declared}


def _refuse_large(columns: Mapping[str, Any]) -> None:
    """Refuse more columns or cells than are held, before one of them is made."""
    if len(columns) > MOST_COLUMNS:
        raise DomainError(f"a domain must have at most {MOST_COLUMNS:,} columns, got {len(columns):,}")
    asked = [facts.get("cells") for facts in columns.values() if isinstance(facts, Mapping)]
    if sum(cells for cells in asked if isinstance(cells, int)) > MOST_CELLS:
        raise DomainError(f"all columns together must have at most {MOST_CELLS:,} cells. Declare fewer")


def _column(name: str, facts: Any) -> Column:
    if not isinstance(facts, Mapping):
        raise DomainError(f"column {name!r} must be a table [columns.{key(name)}] with a type")
    rest = dict(facts)
    kind = _kind(name, rest.pop("type", _BLANK), rest)
    _check_keys(name, kind, rest)
    try:
        return KINDS[kind](**rest)
    except MissingPublicFact as problem:
        raise MissingPublicFact(name, problem.fact, problem.toml) from None
    except DomainError as problem:
        raise DomainError(f"column {name!r}: {problem}") from None


def _kind(name: str, given: Any, rest: Mapping[str, Any]) -> str:
    """Return the kind of column that is meant by a declared type."""
    if given == _BLANK:
        raise MissingPublicFact(name, "its type", f'type = "numeric"  # or {_TYPES}')
    if given == "string":
        if "categories" not in rest and "prefix" not in rest:
            raise MissingPublicFact(
                name, "its list of categories", 'categories = ["first", "second"]  # or type = "open_labels"'
            )
        return "category" if "categories" in rest else "open_labels"
    if not isinstance(given, str) or given not in KINDS:
        raise DomainError(f"column {name!r}: unknown type {given!r}. Known types: {_TYPES}")
    return given


def _check_keys(name: str, kind: str, rest: Mapping[str, Any]) -> None:
    """Refuse keys that a column of the kind does not know, and those of a template that were not filled in."""
    known = [item.name for item in fields(KINDS[kind]) if item.init]
    for fact, value in rest.items():
        if fact == "weight":
            raise DomainError(
                f"column {name!r}: it is declared as a survey weight, which a model is told (survey_weight=...) and a "
                "domain is not. Drop the key weight"
            )
        if fact not in known:
            raise DomainError(
                f"column {name!r}: unknown key {fact!r}. Keys of {with_article(kind)} column: "
                f"{', '.join(sorted(known))}"
            )
        if value == _BLANK:
            example = next((shown for wanted, shown, _ in _FACTS[kind] if wanted == fact), "...")
            raise MissingPublicFact(name, f"its {fact}", f"{fact} = {example}")


# What a template asks for, by type: the key, how to write it, and what it says.
_NUMBER = (("lower", "0", "smallest value that can occur"), ("upper", "100", "largest value that can occur"))
_STEP = ("step", '"1h"', "rounding step of the released values")
_FACTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "numeric": _NUMBER,
    "integer": _NUMBER,
    "boolean": (),
    "date": (("lower", "1900-01-01", "first day that can occur"), ("upper", "2030-12-31", "last day that can occur")),
    "datetime": (
        ("lower", "2024-01-01T00:00:00", "first moment that can occur"),
        ("upper", "2024-12-31T23:00:00", "last moment that can occur"),
        _STEP,
    ),
    "duration": (
        ("lower", '"0s"', "shortest duration that can occur"),
        ("upper", '"24h"', "longest duration that can occur"),
        _STEP,
    ),
    "decimal": (
        ("lower", '"0.00"', "smallest value that can occur"),
        ("upper", '"999.99"', "largest value that can occur"),
        ("digits", "2", "digits after the point"),
    ),
    "category": (("categories", '["first", "second"]', "every category that can occur"),),
    "open_labels": (),
}

_HEAD = f"""\
# Public facts of the table. Replace every "{_BLANK}" by what is known without looking at the confidential data:
# a code book, a law, a definition. A bound or a list of categories read from the data would itself be a release.
# Optional in every column: nulls = "category" makes a null one more category; it is an error otherwise.
"""
_HINTS = {
    "numeric": '# finite: cells = 100 (and spacing = "log" where lower > 0), or step = 0.01, or grid = [0, 1, 5]',
    "category": '# in order: ordered = true. An open set of labels instead: type = "open_labels", without categories',
    "integer": "# fewer cells than integers: cells = 100",
}


def template(schema: Mapping[str, str]) -> str:
    """Write a template of the declaration; see :meth:`Domain.template`."""
    untyped = any(given != "string" and given not in KINDS for given in schema.values())
    blocks = [_HEAD + (_asked_by_type() if untyped else "")]
    for name, given in schema.items():
        kind = "category" if given == "string" else given
        if kind not in KINDS:
            blocks.append(f'[columns.{key(name)}]\ntype = "{_BLANK}"  # one of: {_TYPES}\n')
            continue
        lines = [f"[columns.{key(name)}]", f'type = "{kind}"']
        if kind in _HINTS:
            lines.append(_HINTS[kind])
        lines += [f'{fact} = "{_BLANK}"  # {says}, such as {example}' for fact, example, says in _FACTS[kind]]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _asked_by_type() -> str:
    """Say what each type asks for, where a file does not state the types of its columns."""
    lines = ["# What each type asks for:"]
    for kind in sorted(KINDS):
        wanted = ", ".join(f"{fact} = {example}" for fact, example, _ in _FACTS[kind]) or "nothing else"
        lines.append(f"#   {kind}: {wanted}")
        lines += [f"#     {_HINTS[kind].removeprefix('# ')}"] if kind in _HINTS else []
    return "\n".join(lines) + "\n"
