"""A declaration as a form: fields of each column, and the TOML that they come to.

The TOML is what counts. A form is made of it, and what the form does not show stays as it is. Fields are named by the
place of their column: ``3.lower`` is the lower bound of the fourth. A column is known by its file and its name; where
there is one file, that has no name.

Where a unit has several rows, a column is of the unit or of the rows. In one file, the form says which. Of several
files, one is the table of units, and others are tables of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet._core.errors import DiscreetError, DomainError, MissingPublicFact
from discreet._core.reading import parsed_toml
from discreet._core.text import full_sentence, listed
from discreet.domain import BLANK, KINDS, Domain, column_type, usual_fates, write_toml

KEEP_OUT = "leave out"
"""The choice of a column that is not released."""

Key = tuple[str, str]

_NUMBERS = ("numeric", "integer", "decimal")
_BOUNDED, _STEPPED, _FORMATTED = (
    tuple(kind for kind in KINDS if hasattr(column_type(kind), key)) for key in ("lower", "step", "format")
)
_RULES = "rules"
_OUTCOME = "outcome"
_OWN = "own"


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
    rows: bool = False  # whether it is of a unit's rows only

    @property
    def mark(self) -> str:
        """What stands between several values."""
        if self.form == "lines":
            return "\n"
        return ", "


ENTRIES = (
    FormField("lower", "Smallest value that can occur", _BOUNDED, "such as 0, or 1990-01-31"),
    FormField("upper", "Largest value that can occur", _BOUNDED, "such as 120, or 2030-12-31"),
    FormField("step", "Step", tuple(kind for kind in _STEPPED if kind not in _NUMBERS), "such as 1h or 15min"),
    FormField("digits", "Digits after the point", ("decimal",), "such as 2"),
    FormField("categories", "Categories", ("category",), "one per line", "lines"),
    FormField("ordered", "They have an order, and are listed in it", ("category",), form="flag"),
    FormField("cells", "Cells", _BOUNDED, "how many; empty: chosen for you", more=True),
    FormField(
        "atoms",
        "Values that many records share",
        _BOUNDED,
        "with commas, such as 0, 999",
        "list",
        more=True,
    ),
    FormField("format", "How it is written", _FORMATTED, "such as %m/%d/%Y", more=True),
    FormField("decimal_mark", "Decimal mark", ("numeric", "decimal"), "such as ,", more=True),
    FormField("thousands", "Thousands separator", _NUMBERS, "such as .", more=True),
    FormField("prefix", "Sign before the number", _NUMBERS, "such as $", more=True),
    FormField("suffix", "Sign after the number", _NUMBERS, "such as €", more=True),
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
    FormField(
        "relative_to.row",
        "Later rows are held by",
        tuple(KINDS),
        "labels as the same or not, numbers as a difference",
        "choice",
        ("", "first", "previous"),
        more=True,
        rows=True,
    ),
    FormField("relative_to.lower", "Smallest difference", _BOUNDED, "such as -60", more=True, rows=True),
    FormField("relative_to.upper", "Largest difference", _BOUNDED, "such as 60", more=True, rows=True),
)
"""The fields of a form, in their order."""


UNIT_FIELDS = ("table", "unit", "max_records", "slots", "order_by")
"""What a form asks about a unit's rows: their table, who they are of, how many, and in which order."""


@dataclass(slots=True)
class Declared:
    """A declaration as far as it is known, the types of the columns, and what is wrong with it."""

    keys: Sequence[Key]
    text: str
    columns: dict[Key, dict[str, Any]]
    units: str = ""  # the table of units, where the rows have a table of their own
    tables: Sequence[dict[str, Any]] = ()  # of rows, with their names as table
    unit_keys: frozenset[Key] = frozenset()  # columns of the unit
    outcome: tuple[Key, ...] = ()
    rules: str = ""
    problems: dict[Key | None, str] = field(default_factory=dict)  # by column; None is of the whole
    missing: dict[Key | None, str] = field(default_factory=dict)  # what is still to be said

    @property
    def complete(self) -> bool:
        """Whether it can be used."""
        return not self.problems and not self.missing and bool(self.columns)

    @property
    def rows(self) -> dict[str, Any]:
        """The facts of the first table of rows; empty where there is none."""
        return next(iter(self.tables), {})

    @property
    def files(self) -> list[str]:
        """The names of the files, where there are several."""
        return [*dict.fromkeys(file for file, _ in self.keys if file)]

    @property
    def names(self) -> list[str]:
        """The names of all columns, once each."""
        return [*dict.fromkeys(name for _, name in self.keys)]

    def state(self, key: Key | None) -> str:
        """Say what is wrong with a column, or with the whole where it is None, or still to be said of it."""
        text = self.problems.get(key) or self.missing.get(key, "")
        if key is None:
            incomplete = len({*self.problems, *self.missing} - {None})
            text = text or (f"columns to complete: {incomplete}" if incomplete else "complete")
        elif self.rows and key[1] == self.rows.get("unit"):
            text = "it names the unit, and is not released"
        return text and full_sentence(text)

    def kind(self, key: Key) -> str:
        """Return the type of a column as the form shows it."""
        if key not in self.columns:
            return KEEP_OUT
        kind = str(self.columns[key].get("type", ""))
        if kind == "string":
            return "category"
        return kind if kind in KINDS else ""

    def shown(self, key: Key, entry: FormField) -> Any:
        """Return what a field shows."""
        facts = self.columns.get(key, {})
        fact = facts.get(entry.key)
        if entry.rows:  # parts of one fact
            relative = facts.get("relative_to", {})
            if not isinstance(relative, Mapping):
                relative = {"row": relative}
            fact = relative.get(entry.key.removeprefix("relative_to."))
        if entry.form == "flag":
            return fact in (True, "category")
        if isinstance(fact, (list, tuple)):
            return entry.mark.join(map(str, fact))
        if fact in (None, BLANK):
            return ""
        return str(fact)


def begun(kinds: Mapping[Key, str]) -> Declared:
    """Return a declaration in which every column waits; ``kinds``: their types, as far as files tell them."""
    columns: dict[Key, dict[str, Any]] = {key: {"type": kind} if kind in KINDS else {} for key, kind in kinds.items()}
    names = [{name for file, name in kinds if file == table} for table in {file for file, _ in kinds}]
    if len(names) < 2:
        return declared([*kinds], write_toml({"columns": {name: facts for (_, name), facts in columns.items()}}))
    shared = [*set.intersection(*names)]
    return _checked(Declared([*kinds], "", columns, tables=[{"unit": shared[0] if len(shared) == 1 else ""}]))


def declared(keys: Sequence[Key], text: str) -> Declared:
    """Return a declaration from its text. Raises DomainError where it is no TOML."""
    document = parsed_toml(text)
    for key in ("columns", "tables"):
        if not isinstance(document.get(key, {}), Mapping):
            raise DomainError(f"{key} must be tables [{key}.NAME]")
    units, tables, of_rows = str(document.pop("units", "")), list[dict[str, Any]](), dict[Key, Any]()
    for name, facts in document.pop("tables", {}).items():
        if (tables and not units) or not isinstance(facts, Mapping):
            raise DomainError("tables must be [tables.NAME], with unit and max_records. Several need units = NAME")
        tables.append({"table": name, **facts})
        of_rows |= {(units and name, column): fact for column, fact in tables[-1].pop("columns", {}).items()}
    of_unit: dict[Key, Any] = {(units, name): facts for name, facts in document.pop("columns", {}).items()}
    columns = {key: dict(facts) for key, facts in {**of_unit, **of_rows}.items() if isinstance(facts, Mapping)}
    unit_keys = frozenset(key for key in of_unit if tables)
    outcome = document.pop(_OUTCOME, ())
    outcome = tuple((units, name) for name in listed(outcome))
    rules = write_toml(document) if document else ""
    known = [*keys, *(key for key in columns if key not in keys)]
    return _checked(Declared(known, text, columns, units, tables, unit_keys, outcome, rules))


def from_fields(before: Declared, values: Mapping[str, Sequence[str]]) -> Declared:
    """Return the declaration that a form comes to; ``before``: what it was made of."""
    problems: dict[Key | None, str] = {}
    units, tables = _first(values, "units"), list[dict[str, Any]]()
    if before.files or _first(values, "rows"):
        ends = [end for end in further_ends(before) if _first(values, f"table{end}")]
        tables = [_row_facts(before.tables, values, end) for end in ("", *ends)]
    unit, names = tables[0]["unit"] if tables else None, [table["table"] for table in tables]
    parts: dict[str | None, dict[str, Any]] = {name: {} for name in (None, *names)}  # of the unit, and of its rows
    columns, unit_keys = dict[Key, dict[str, Any]](), set[Key]()
    for place, (file, name) in enumerate(before.keys):
        kind = _first(values, f"{place}.type")
        if kind == KEEP_OUT or name == unit or (before.files and file not in (units, *names)):
            continue
        of_unit = not tables or (file == units if before.files else bool(_first(values, f"{place}.{_OWN}")))
        facts = _column_facts(kind, place, values, before.columns.get((file, name), {}), of_unit=of_unit)
        columns[file, name] = parts[None if of_unit else file or names[0]][name] = facts
        if of_unit and tables:
            unit_keys.add((file, name))
    rules = _first(values, _RULES)
    places = values.get(_OUTCOME, ())
    keys = [key for place, key in enumerate(before.keys) if str(place) in places and key in columns]
    outcome = () if tables else tuple(keys)
    document: dict[str, Any] = {"units": units, _OUTCOME: [name for _, name in outcome]}
    document = {key: fact for key, fact in document.items() if fact}
    try:
        listed = parsed_toml(rules, what="the text of rules")
    except DomainError as problem:
        problems[None], listed = str(problem), {}
    for key in {*listed} & {"columns", "tables", "units", _OUTCOME}:
        problems[None] = f"{key} has fields of its own. Leave it out of the rules"
        del listed[key]
    document |= listed
    flat = {key: part for key, part in document.items() if not isinstance(part, Mapping)}
    document = {**flat, "columns": parts[None], **{key: document[key] for key in document if key not in flat}}
    if tables:
        table_facts = [{key: fact for key, fact in table.items() if key != "table"} for table in tables]
        document["tables"] = {
            name: {**facts, "columns": parts[name]} for name, facts in zip(names, table_facts, strict=True)
        }
    text = write_toml(document)
    result = _checked(Declared(before.keys, text, columns, units, tables, frozenset(unit_keys), outcome, rules))
    result.problems |= problems
    return result


def further_ends(declaration: Declared) -> list[str]:
    """Return the ends of the names of fields that ask about a second table of rows, a third, ..."""
    return [f"-{number}" for number in range(2, len(declaration.files))]


def _row_facts(tables: Sequence[Mapping[str, Any]], values: Mapping[str, Sequence[str]], end: str) -> dict[str, Any]:
    """Return what a form says of one table of a unit's rows, and what it does not show of it."""
    texts = {key: _first(values, key if key == "unit" else key + end) for key in UNIT_FIELDS}
    previous = next((table for table in tables if not end or table.get("table") == texts["table"]), {})
    facts: dict[str, Any] = {"table": texts["table"] or "rows", "unit": texts["unit"]}
    facts |= {"max_records": _number(texts["max_records"], "integer")}
    if texts["slots"] == "ordered":
        facts |= {"slots": "ordered", "order_by": texts["order_by"] or "as listed"}
    elif texts["slots"]:
        facts |= {"slots": texts["order_by"]}
    return {**facts, **{key: fact for key, fact in previous.items() if key not in UNIT_FIELDS}}


def _first(values: Mapping[str, Sequence[str]], key: str) -> str:
    return next(iter(values.get(key, ())), "").strip()


def _stated_fact(entry: FormField, text: str, kind: str) -> Any:
    """Return the fact that the text of a field states; None where it states none."""
    if not text:
        return None
    if entry.form == "flag":
        return "category" if entry.key == "nulls" else True
    if entry.form not in ("lines", "list"):
        return text if entry.key in ("format", "true", "false") else _number(text, kind)
    parts = [part for part in map(str.strip, text.split(entry.mark.strip(" "))) if part]
    if parts and entry.key == "null_values":
        return ["", *parts]
    return _alike(parts) or None


def _column_facts(
    kind: str, place: int, values: Mapping[str, Sequence[str]], before: Mapping[str, Any], *, of_unit: bool
) -> dict[str, Any]:
    """Return the facts of a column: those of the form, and those that it does not show and the type still has."""
    column: dict[str, Any] = {"type": kind} if kind else {}
    entries = [entry for entry in ENTRIES if kind in entry.kinds and not (entry.rows and of_unit)]
    facts = {entry.key: _stated_fact(entry, _first(values, f"{place}.{entry.key}"), kind) for entry in entries}
    column |= {key: fact for key, fact in facts.items() if fact is not None}
    if kind:
        column |= usual_fates(kind, column)
    relative = {key: column.pop(f"relative_to.{key}", "") for key in ("row", "lower", "upper")}
    if relative["row"]:
        relative = {key: part for key, part in relative.items() if part != ""}
        column["relative_to"] = relative
        if len(relative) == 1:
            column["relative_to"] = relative["row"]
    if before.get("type") == kind:
        shown = {entry.key for entry in ENTRIES if kind in entry.kinds} | {"relative_to"}
        column |= {key: fact for key, fact in before.items() if key not in shown and key != "type"}
    return column


def _number(text: str, kind: str) -> Any:
    """Return a number where a text is one; a decimal column takes texts."""
    if kind == "decimal" and not text.isdigit():
        return text
    return _alike([text])[0]


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
    for key, facts in found.columns.items():
        try:
            Domain.from_dict({"columns": {key[1]: {fact: facts[fact] for fact in facts if fact != "relative_to"}}})
        except MissingPublicFact as problem:
            found.missing[key] = f"say {problem.fact}"
        except DiscreetError as problem:
            found.problems[key] = str(problem)
    names = [found.units, *(table.get("table") for table in found.tables)]
    if found.files and not {*names} <= {*found.files}:
        found.missing[None] = "say which table has one row per unit, and which their rows"
    elif found.files and len({*names}) < len(names):
        found.missing[None] = "say of each table once what it is"
    elif not all(table.get("unit") and table.get("max_records") for table in found.tables):
        found.missing[None] = "say which column names the unit, and how many rows it keeps"
    elif not found.columns:
        found.missing[None] = "declare at least one column"
    elif not found.problems and not found.missing:
        try:
            Domain.from_toml(found.text)
        except DiscreetError as problem:
            found.problems[None] = str(problem)
    return found
