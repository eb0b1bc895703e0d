"""A table in a database file: ``duckdb:///FILE?table=NAME`` or ``sqlite:///FILE?table=NAME``, opened to be read only.

SQLite keeps the type of every single value, whatever its column was declared as. So all values are handed on as texts,
as of CSV, and the declared type reads them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from discreet._core.boundary import quietly
from discreet._core.errors import DataError, FileProblem, MissingExtra
from discreet._core.lazy import pl
from discreet.domain._spreadsheet import escaped

_BATCH = 2**17


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a table is.

    ``text``: as the caller gave it.
    ``kind``: duckdb or sqlite.
    """

    text: str
    kind: str
    path: Path
    table: str

    @property
    def broken(self) -> FileProblem:
        """The error of a file that cannot be read, or has no such table."""
        remedy = "check the name of the table, and that nothing else has the file open for writing"
        return FileProblem(self.text, "the table cannot be read", remedy)


def address(data: Any) -> Address | None:
    """Return the address that a text is, None where it is none.

    Raises FileProblem when it does not name one table, or there is no such file.
    """
    found = re.fullmatch(r"(duckdb|sqlite):///([^?]*)(?:\?(.*))?", data, re.DOTALL) if isinstance(data, str) else None
    if found is None:
        return None
    kind, where, query = found.groups()
    asked = parse_qs(query or "", keep_blank_values=True)
    path = Path(unquote(where))
    if list(asked) != ["table"] or len(asked["table"]) != 1:
        raise FileProblem(data, "it does not name one table", f"write {kind}:///FILE?table=NAME")
    if not path.is_file():
        raise FileProblem(data, "there is no such file", "check the path")
    return Address(text=data, kind=kind, path=path, table=asked["table"][0])


def duckdb_table(where: Address) -> Any:
    """Return a table of a DuckDB file, which DuckDB then counts; a view in it reaches no other file."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("reading a DuckDB file needs DuckDB", "duckdb") from None
    options = {"enable_external_access": "false"}
    return quietly(
        lambda: duckdb.connect(str(where.path), read_only=True, config=options).table(where.table), where.broken
    )


def sqlite_types(where: Address) -> dict[str, str]:
    """Return the columns of an SQLite table, and the kind of column that usually declares each."""

    def found() -> dict[str, str]:
        with closing(_connect(where)) as database:
            names = [one[0] for one in database.execute(f"SELECT * FROM {_quoted(where.table)} LIMIT 0").description]  # noqa: S608
            declared = dict(database.execute("SELECT name, type FROM pragma_table_xinfo(?)", [where.table]).fetchall())
        return {name: _kind(declared.get(name, "")) for name in names}

    return quietly(found, where.broken)


def sqlite_batches(where: Address, columns: Sequence[str], types: dict[str, str]) -> Iterator[pl.DataFrame]:
    """Iterate over batches of texts. Raises DataError when a value is binary."""
    with closing(quietly(lambda: _connect(where), where.broken)) as database:
        wanted = ", ".join(map(_quoted, columns))
        select = f"SELECT {wanted} FROM {_quoted(where.table)}"  # noqa: S608  # names are quoted
        cursor = quietly(lambda: database.execute(select), where.broken)
        while rows := quietly(lambda: cursor.fetchmany(_BATCH), where.broken):
            parts = zip(columns, zip(*rows, strict=True), strict=True)
            yield pl.DataFrame([_texts(name, values, types[name]) for name, values in parts])


def _connect(where: Address) -> sqlite3.Connection:
    database = sqlite3.connect(f"file:{quote(str(where.path))}?mode=ro", uri=True)
    database.execute("PRAGMA trusted_schema = OFF")
    return database


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _texts(name: str, values: Sequence[Any], kind: str) -> pl.Series:
    if any(isinstance(value, bytes) for value in values):
        raise DataError(name, "holds a binary value", "store it as a text or a number")
    return pl.Series(name, [_text(value, kind) for value in values], dtype=pl.String)


def _text(value: Any, kind: str) -> str | None:
    """Return a value as CSV would have it; numbers as the shortest text that reads as the same one."""
    if value is None:
        return None
    if isinstance(value, str):
        return escaped(value)
    return str(bool(value)).lower() if kind == "boolean" and value in (0, 1) else repr(value)


def _kind(declared: str) -> str:
    """Return the kind of column for a type of SQL."""
    return next((kind for word, kind in _KINDS if word in declared.upper()), "unknown")


_KINDS = (
    ("BOOL", "boolean"),
    ("INT", "integer"),
    ("CHAR", "string"),
    ("TEXT", "string"),
    ("CLOB", "string"),
    ("REAL", "numeric"),
    ("FLOA", "numeric"),
    ("DOUB", "numeric"),
    ("DEC", "decimal"),
    ("NUMERIC", "decimal"),
    ("DATETIME", "datetime"),
    ("TIMESTAMP", "datetime"),
    ("DATE", "date"),
)
