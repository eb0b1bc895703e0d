"""Code books of other tools, as far as they say what a declaration needs: JSON or YAML, and no record.

Read are a Table Schema of Frictionless (alone, or in a data package of one table), metadata of SDV, a domain of
dpsynth, and metadata of SmartNoise. Keys that say nothing of columns are left aside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from os import PathLike, fspath
from typing import Any

from discreet._core.errors import DomainError, FileProblem, MissingExtra, MissingPublicFact
from discreet._core.reading import bounded_text
from discreet._core.text import harmless, listed

_IDENTIFIER = "it tells records or persons apart"
_TEXT = "it is free text"
_KINDS = {  # of Table Schema
    "integer": "integer",
    "year": "integer",
    "number": "numeric",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "time": "time",
    "duration": "duration",
    "string": "category",
}
_CLOCK = ("%H", "%I", "%M", "%S", "%T", "%X", "%c", "%p")


@dataclass(frozen=True)
class CodeBook:
    """What a code book says: facts of columns, which of them no release should have, and the unit behind the rows."""

    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # reasons, by name
    unit: str | None = None
    max_records: int | None = None

    def with_unit(self, unit: str | None, max_records: Any = None) -> CodeBook:
        """Return it with the column that names the unit of each row, which a declaration leaves out."""
        if not isinstance(unit, str):
            return self
        columns = {name: facts for name, facts in self.columns.items() if name != unit}
        return CodeBook(columns, {**self.left_out, unit: "it names the unit of each row"}, unit, max_records)

    def notes(self) -> str:
        """Return comments on what is left out, and on who is protected."""
        lines = [f"# {harmless(name)} is left out: {reason}.\n" for name, reason in self.left_out.items()]
        if self.unit is not None:
            most = self.max_records or "the most rows that each has"
            lines.append(
                f"# Several rows may be of one person. Release with unit {harmless(self.unit)}, max_records {most}.\n"
            )
        return "".join(lines)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> CodeBook:
        """Read a code book. Raises FileProblem if it is none that is known, or declares what no domain can."""
        known = "give a Table Schema, metadata of SDV or SmartNoise, or a domain of dpsynth"
        document = _parsed(path, known)
        readers = {"fields": _table_schema, "resources": _data_package, "METADATA_SPEC_VERSION": _sdv, "tables": _sdv}
        readers["columns"] = _sdv
        reader = next((reader for key, reader in readers.items() if key in document), _smartnoise)
        if reader is _smartnoise and _attributes(document):
            reader = _dpsynth
        try:
            book = reader(document)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise FileProblem(path, "is no code book that is known", known) from None
        if not book.columns:
            raise FileProblem(path, "has no columns, or those of several tables", f"{known}, of one table")
        for name, facts in book.columns.items():
            _check(path, name, facts)
        return book


def _parsed(path: str | PathLike[str], known: str) -> Mapping[str, Any]:
    text = bounded_text(path, missing="check the path", remedy=known)
    document: Any = None
    if fspath(path).lower().endswith((".yaml", ".yml")):
        if find_spec("yaml") is None:
            raise MissingExtra("reading YAML needs pyyaml", "foreign")
        yaml = import_module("yaml")
        with suppress(yaml.YAMLError, RecursionError, ValueError):
            document = yaml.safe_load(text)
    else:
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
    if not isinstance(document, Mapping):
        raise FileProblem(path, "is neither JSON nor, by its ending, YAML", known)
    return document


def _check(path: str | PathLike[str], name: str, facts: Mapping[str, Any]) -> None:
    """Refuse facts that are wrong, as far as they go."""
    from discreet.domain.domain import Domain

    try:
        Domain.from_dict({"columns": {name: facts}})
    except MissingPublicFact:
        return
    except DomainError as problem:
        raise FileProblem(path, f"declares what no domain can: {problem}", "correct it there") from None


def _facts(kind: str | None, **facts: Any) -> dict[str, Any]:
    """Return the facts of a column that are known."""
    return {key: fact for key, fact in {"type": kind, **facts}.items() if fact not in (None, "", [], ())}


# -- Frictionless: https://datapackage.org/standard/table-schema/ ------------------------------------------------------


def _data_package(document: Mapping[str, Any]) -> CodeBook:
    schemas = [part["schema"] for part in document["resources"] if "schema" in part]
    if len(schemas) != 1:
        return CodeBook()
    return _table_schema(schemas[0])


def _table_schema(schema: Mapping[str, Any]) -> CodeBook:
    book, keys = CodeBook(), listed(schema.get("primaryKey", []))
    named = {key for key in keys if len(keys) == 1}
    for column in schema["fields"]:
        name, limits = column["name"], column.get("constraints", {})
        if name in named or limits.get("unique"):
            book.left_out[name] = _IDENTIFIER
        else:
            missing = column.get("missingValues", schema.get("missingValues", [""]))
            book.columns[name] = _field(column, limits, [text for text in missing if text != ""])
    return book


def _field(column: Mapping[str, Any], limits: Mapping[str, Any], missing: list[Any]) -> dict[str, Any]:
    labels = limits.get("enum") or [
        each["value"] if isinstance(each, Mapping) else each for each in column.get("categories", ())
    ]
    kind = _KINDS.get(column.get("type", "string"))
    if labels and kind == "integer":
        kind = "category"
    elif labels and kind not in ("category", "boolean"):
        kind = None
    facts = _facts(kind)
    if kind == "category":
        facts |= _facts(kind, categories=labels, ordered=column.get("categoriesOrdered") or None)
    if missing:
        facts |= {"null_values": ["", *missing]}
    if not limits.get("required"):
        facts |= {"nulls": "category"}
    if kind in ("integer", "numeric", "date", "datetime", "time", "duration"):
        facts |= _facts(kind, lower=limits.get("minimum"), upper=limits.get("maximum"))
    if kind in ("integer", "numeric"):
        facts |= _facts(kind, decimal_mark=column.get("decimalChar"), thousands=column.get("groupChar"))
    if kind in ("date", "datetime", "time") and "%" in column.get("format", ""):
        facts["format"] = column["format"]
    if kind == "boolean":
        texts = {word: column.get(f"{word}Values", [word]) for word in ("true", "false")}
        facts |= {word: values[0] for word, values in texts.items() if word not in map(str.lower, values)}
    return facts


# -- SDV: https://docs.sdv.dev/sdv/concepts/metadata -------------------------------------------------------------------


def _sdv(document: Mapping[str, Any]) -> CodeBook:
    tables = list(document.get("tables", {"": document}).values())
    if len(tables) != 1:
        return CodeBook()
    book, (table,) = CodeBook(), tables
    keys = {key for key in (table.get("primary_key"), *table.get("alternate_keys", ())) if isinstance(key, str)}
    for name, column in table["columns"].items():
        kind, form = column["sdtype"], column.get("datetime_format")
        if name in keys or kind not in ("numerical", "categorical", "boolean", "datetime", "unknown"):
            book.left_out[name] = _IDENTIFIER
        elif kind == "numerical":
            book.columns[name] = _facts("numeric")
            if "int" in str(column.get("computer_representation", "")).lower():
                book.columns[name] = _facts("integer")
        elif kind == "datetime" and form is not None and not any(part in form for part in _CLOCK):
            book.columns[name] = _facts("date", format=form)
        elif kind == "datetime":
            book.columns[name] = _facts("datetime", format=form)
        elif kind == "categorical":
            book.columns[name] = _facts("category")
        else:
            book.columns[name] = _facts(None if kind == "unknown" else kind)
    return book.with_unit(table.get("sequence_key"))


# -- dpsynth: https://github.com/google/dpsynth, specifying_domains.md -------------------------------------------------


def _attributes(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes of a domain of dpsynth; none where it is something else."""
    listed = document.get("attributes", document)
    marks = {"possible_values", "min_value", "max_tokens", "default_value"}
    if isinstance(listed, Mapping) and all(isinstance(each, Mapping) and marks & set(each) for each in listed.values()):
        return listed
    return {}


def _dpsynth(document: Mapping[str, Any]) -> CodeBook:
    book = CodeBook()
    for name, facts in _attributes(document).items():
        if "max_tokens" in facts:
            book.left_out[name] = _TEXT
        elif "possible_values" in facts:
            labels = facts["possible_values"]
            book.columns[name] = _facts("category", categories=labels)
            if isinstance(labels[0], str):
                book.columns[name]["out_of_bounds"] = "other"
        elif "min_value" in facts:
            kind, (lower, upper) = "numeric", (facts[key] for key in ("min_value", "max_value"))
            if facts.get("dtype") == "int":
                kind, lower, upper = "integer", int(lower), int(upper)
            fates = {"out_of_bounds": "clip"}
            if not facts.get("clip_to_range", True):
                fates = {"out_of_bounds": "null", "nulls": "category"}
            book.columns[name] = _facts(kind, lower=lower, upper=upper, **fates)
        else:
            book.columns[name] = _facts("open_labels")
    return book


# -- SmartNoise: https://docs.smartnoise.org/sql/metadata.html ---------------------------------------------------------


def _tables(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of metadata of SmartNoise: below a database and a schema, what has columns with a type."""
    for part in document.values():
        if isinstance(part, Mapping):
            if any(isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in part.values()):
                yield part
            else:
                yield from _tables(part)


def _smartnoise(document: Mapping[str, Any]) -> CodeBook:
    tables = [*_tables(document)]
    if len(tables) != 1:
        return CodeBook()
    book, unit, (table,) = CodeBook(), None, tables
    kinds = {"int": "integer", "float": "numeric", "string": "category", "boolean": "boolean", "datetime": "datetime"}
    for name, facts in table.items():
        if not isinstance(facts, Mapping):
            continue
        if facts.get("private_id"):
            unit = name
        book.columns[name] = _facts(kinds[facts["type"]], lower=facts.get("lower"), upper=facts.get("upper"))
        if facts.get("nullable"):
            book.columns[name]["nulls"] = "category"
    return book.with_unit(unit, table.get("max_ids"))
