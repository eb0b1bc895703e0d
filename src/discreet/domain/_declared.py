"""What is declared beside the columns, as plain values: the forms that TOML, JSON and Python have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet._core.checks import integer, plain, unfit
from discreet._core.errors import DomainError
from discreet.domain._conditions import plain_condition
from discreet.domain._discrete import encodable

_IMPLIES = {"columns", "determine", "table"}
_MOST = 10**10  # records
_LONGEST = 500  # characters of a source


def plain_entries(table: str, given: Any) -> list[dict[str, Any]]:
    """Return the entries of a list of tables as plain values.

    ``table``: a key of :data:`DECLARED`.
    ``given``: what was declared.

    Raises DomainError when it is no list of tables, or an entry has not the form of its table.
    """
    listed = list(given) if isinstance(given, (list, tuple)) else None
    if listed is None or not all(isinstance(entry, Mapping) for entry in listed):
        raise DomainError(f"{table} must be a list of tables. Write [[{table}]] above each")
    found = []
    for number, entry in enumerate(listed, start=1):
        try:
            found.append(DECLARED[table](entry))
        except DomainError as problem:
            raise DomainError(f"[[{table}]] number {number}: {problem}") from None
    return found


def _impossible(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``impossible`` as plain values. Raises DomainError when it is none."""
    if not entry:
        raise DomainError("it must name at least one column")
    return {_text(name): plain_condition(condition) for name, condition in entry.items()}


def _implies(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``implies`` as plain values. Raises DomainError when it is none."""
    columns, determined, table = _dependency(entry)
    if isinstance(table, Mapping):
        if len(columns) != 1:
            raise DomainError("table must be a list of rows where several columns determine one")
        rows: Any = {_text(label): plain_condition(condition) for label, condition in table.items()}
    elif isinstance(table, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in table):
        if any(len(row) != len(columns) + 1 for row in table):
            raise DomainError("a row of table must have one condition per column, and one on the column determined")
        rows = [[plain_condition(part) for part in row] for row in table]
    else:
        raise DomainError('table must be {label = "label"}, or a list of rows such as [["Lyon", "ARA"]]')
    if not rows:
        raise DomainError("table must have at least one row")
    return {"columns": columns, "determine": determined, "table": rows}


def _dependency(entry: Mapping[str, Any]) -> tuple[list[str], str, Any]:
    if set(entry) != _IMPLIES:
        raise DomainError("it must have the keys columns, determine and table, and no others")
    columns = entry["columns"]
    if not isinstance(columns, (list, tuple)) or not columns:
        raise DomainError('columns must be a list of at least one column, such as ["city"]')
    named, determined = [_text(name) for name in columns], _text(entry["determine"])
    if len({*named, determined}) != len(named) + 1:
        raise DomainError("columns and determine must name different columns")
    return named, determined, entry["table"]


def _text(given: Any) -> str:
    """Return the name of a column, or the label that a table has as a key. Raises DomainError when it is no text."""
    if not isinstance(given, str):
        raise unfit(
            "a column, or a label in front of =,",
            "a text",
            given,
            remedy="Write other values in rows",
            error=DomainError,
        )
    if not encodable(given):
        raise DomainError("a name is not valid Unicode text")
    return str(plain(given))


def _totals(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``totals`` as plain values. Raises DomainError when it is none."""
    whole = "column" not in entry
    if set(entry) != ({"source", "count"} if whole else {"column", "source", "counts"}):
        raise DomainError("it must have the keys column, source and counts, or for the whole table source and count")
    source = entry["source"]
    if not isinstance(source, str) or not source.strip() or len(source) > _LONGEST or not encodable(source):
        wanted = f"a text of 1 to {_LONGEST} characters that says where it was published"
        raise unfit("source", wanted, source, error=DomainError)
    if whole:
        return {"source": plain(source), "count": _count(entry["count"])}
    if not isinstance(entry["column"], str):
        raise DomainError("the name of a column must be a text")
    return {"column": plain(entry["column"]), "source": plain(source), "counts": _plain_counts(entry["counts"])}


def _plain_counts(given: Any) -> dict[str, int] | list[list[Any]]:
    if isinstance(given, Mapping):
        return {_text(label): _count(count) for label, count in given.items()}
    pairs = isinstance(given, (list, tuple)) and all(isinstance(row, (list, tuple)) and len(row) == 2 for row in given)
    if not pairs:
        raise DomainError("counts must be {label = count}, or a list of rows such as [[{below = 15}, 1200]]")
    return [[plain_condition(condition), _count(count)] for condition, count in given]


def _count(given: Any) -> int:
    return integer("a count", given, least=0, most=_MOST, error=DomainError)


DECLARED = {"impossible": _impossible, "implies": _implies, "totals": _totals}
"""Tables of a domain beside its columns, and what reads an entry of each."""
