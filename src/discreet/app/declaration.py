"""A declaration as a form: fields of each column, and the TOML that they come to.

The TOML is what counts. A form is made of it, and what the form does not show stays as it is. Fields are named by the
place of their column: ``3.lower`` is the lower bound of the fourth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet._core.errors import DiscreetError, DomainError, MissingPublicFact
from discreet._core.reading import parsed_toml
from discreet.domain import BLANK, KINDS, Domain, usual_fates, write_toml

KEEP_OUT = "leave out"
"""The choice of a column that is not released."""

_NUMBERS, _TIMES = ("numeric", "integer", "decimal"), ("date", "datetime", "time", "duration")
_RULES = "rules"
_OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a column: its key in the declaration, what it asks for, and the types that have it."""

    key: str
    label: str
    kinds: tuple[str, ...]
    hint: str = ""
    form: str = "text"  # or lines, list, flag, choice
    choices: tuple[str, ...] = ()
    more: bool = False  # whether it is rarely needed


ENTRIES = (
    FormField("lower", "Smallest value that can occur", (*_NUMBERS, *_TIMES), "such as 0, or 1990-01-31"),
    FormField("upper", "Largest value that can occur", (*_NUMBERS, *_TIMES), "such as 120, or 2030-12-31"),
    FormField("step", "Step", ("datetime", "time", "duration"), "such as 1h or 15min"),
    FormField("digits", "Digits after the point", ("decimal",), "such as 2"),
    FormField("categories", "Categories", ("category",), "one per line", "lines"),
    FormField("ordered", "They have an order, and are listed in it", ("category",), form="flag"),
    FormField("cells", "Cells", (*_NUMBERS, *_TIMES), "how many; empty: chosen for you", more=True),
    FormField(
        "atoms",
        "Values that many records share",
        (*_NUMBERS, *_TIMES),
        "with commas, such as 0, 999",
        "list",
        more=True,
    ),
    FormField("format", "How it is written", ("date", "datetime", "time"), "such as %m/%d/%Y", more=True),
    FormField("decimal_mark", "Decimal mark", ("numeric", "decimal"), "such as ,", more=True),
    FormField("thousands", "Thousands separator", _NUMBERS, "such as .", more=True),
    FormField("true", "Text for true", ("boolean",), "such as Y", more=True),
    FormField("false", "Text for false", ("boolean",), "such as N", more=True),
    FormField(
        "null_values", "Texts that are nulls", tuple(KINDS), "with commas, such as NA, refused", "list", more=True
    ),
    FormField("nulls", "Count nulls (missing values) as one more category", tuple(KINDS), form="flag"),
    FormField(
        "out_of_bounds",
        "A value that does not fit",
        tuple(KINDS),
        "clip: the nearest value; other: the label other; null: a null; error: refuse the table",
        "choice",
        ("", "clip", "null", "other", "error"),
        more=True,
    ),
)
"""The fields of a form, in their order."""


@dataclass(slots=True)
class Declared:
    """A declaration as far as it is known, the types of the columns, and what is wrong with it."""

    names: Sequence[str]
    text: str
    columns: dict[str, dict[str, Any]]
    outcome: tuple[str, ...] = ()
    rules: str = ""
    problems: dict[str, str] = field(default_factory=dict)  # by column; "" is of the whole
    missing: dict[str, str] = field(default_factory=dict)  # what is still to be said, by column

    @property
    def complete(self) -> bool:
        """Whether it can be used."""
        return not self.problems and not self.missing and bool(self.columns)

    def kind(self, name: str) -> str:
        """Return the type of a column as the form shows it."""
        if name not in self.columns:
            return KEEP_OUT
        kind = str(self.columns[name].get("type", ""))
        return {"string": "category"}.get(kind, kind if kind in KINDS else "")

    def shown(self, name: str, entry: FormField) -> Any:
        """Return what a field shows."""
        fact = self.columns.get(name, {}).get(entry.key)
        if entry.form == "flag":
            return fact in (True, "category")
        if isinstance(fact, (list, tuple)):
            return ("\n" if entry.form == "lines" else ", ").join(map(str, fact))
        return "" if fact is None or fact == BLANK else str(fact)


def declared(names: Sequence[str], text: str) -> Declared:
    """Return a declaration from its text. Raises DomainError where it is no TOML."""
    document = parsed_toml(text)
    columns = {name: dict(facts) for name, facts in document.pop("columns", {}).items() if isinstance(facts, Mapping)}
    outcome = document.pop(_OUTCOME, ())
    outcome = (outcome,) if isinstance(outcome, str) else tuple(outcome)
    rules = write_toml(document) if document else ""
    known = [*names, *(name for name in columns if name not in names)]
    return _checked(Declared(known, text, columns, outcome, rules))


def from_fields(names: Sequence[str], before: Declared, values: Mapping[str, Sequence[str]]) -> Declared:
    """Return the declaration that a form comes to; ``before``: what it was made of."""
    columns: dict[str, dict[str, Any]] = {}
    problems: dict[str, str] = {}
    for place, name in enumerate(names):
        kind = _first(values, f"{place}.type")
        if kind == KEEP_OUT:
            continue
        columns[name] = _facts(kind, place, values, before.columns.get(name, {}))
    rules = _first(values, _RULES)
    outcome = tuple(name for place, name in enumerate(names) if str(place) in values.get(_OUTCOME, ()))
    document: dict[str, Any] = {_OUTCOME: list(outcome)} if outcome else {}
    try:
        listed = parsed_toml(rules, what="the text of rules")
        document |= {key: part for key, part in listed.items() if key not in ("columns", _OUTCOME)}
    except DomainError as problem:
        problems[""] = str(problem)
    flat = {key: part for key, part in document.items() if not isinstance(part, Mapping)}
    text = write_toml({**flat, "columns": columns, **{key: document[key] for key in document if key not in flat}})
    result = _checked(Declared(names, text, columns, outcome, rules))
    result.problems |= problems
    return result


def _first(values: Mapping[str, Sequence[str]], key: str) -> str:
    return next(iter(values.get(key, ())), "").strip()


def _facts(kind: str, place: int, values: Mapping[str, Sequence[str]], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a column: those of the form, and those that it does not show and the type still has."""
    column: dict[str, Any] = {"type": kind} if kind else {}
    for entry in ENTRIES:
        if kind not in entry.kinds:
            continue
        text = _first(values, f"{place}.{entry.key}")
        if entry.form == "flag":
            if text:
                column[entry.key] = "category" if entry.key == "nulls" else True
        elif entry.form in ("lines", "list"):
            parts = [part.strip() for part in re.split(r"\n" if entry.form == "lines" else ",", text)]
            parts = [part for part in parts if part]
            if parts:
                column[entry.key] = _alike(parts) if entry.key != "null_values" else ["", *parts]
        elif text:
            column[entry.key] = _number(text, kind) if entry.key not in ("format", "true", "false") else text
    if kind:
        column |= usual_fates(kind, column)
    if before.get("type") == kind:
        shown = {entry.key for entry in ENTRIES if kind in entry.kinds}
        column |= {key: fact for key, fact in before.items() if key not in shown and key != "type"}
    return column


def _number(text: str, kind: str) -> Any:
    """Return a number where a text is one; a decimal column takes texts."""
    if kind == "decimal" and not text.isdigit():
        return text
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _alike(parts: Sequence[str]) -> list[Any]:
    """Return values of one type: whole numbers, numbers or texts."""
    for read in (int, float):
        try:
            return [read(part) for part in parts]
        except ValueError:
            continue
    return list(parts)


def _checked(found: Declared) -> Declared:
    """Return a declaration with what is wrong with it, column by column and as a whole."""
    for name, facts in found.columns.items():
        try:
            Domain.from_dict({"columns": {name: facts}})
        except MissingPublicFact as problem:
            found.missing[name] = f"say {problem.fact}"
        except DiscreetError as problem:
            found.problems[name] = str(problem)
    if not found.columns:
        found.missing[""] = "declare at least one column"
    elif not found.problems and not found.missing:
        try:
            Domain.from_toml(found.text)
        except DiscreetError as problem:
            found.problems[""] = str(problem)
    return found
