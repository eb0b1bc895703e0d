"""A table or a query of a database, as an address, opened to be read only.

``duckdb:///FILE?table=NAME``, ``sqlite:///FILE?query=SELECT ...``, ``postgresql://USER@HOST/DATABASE?table=NAME``.

SQLite keeps the type of every single value, whatever its column was declared as. So all values are handed on as texts,
as of CSV, and the declared type reads them. So are those of PostgreSQL, as which its server streams rows. No message
holds an address with its password.
"""

from __future__ import annotations

import re
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit

from discreet._core.boundary import quietly
from discreet._core.errors import DataError, FileProblem, MissingExtra, ParameterError
from discreet._core.files import spill_folder
from discreet._core.lazy import pl
from discreet.domain import escaped, escaped_frame

_BATCH = 2**17
_FILES = re.compile(r"(duckdb|sqlite):///([^?]*)(?:\?(.*))?", re.DOTALL)
_SERVERS = ("postgresql://", "postgres://")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?")
_SIGNED_IN = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://[^/]*@", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a table is.

    ``text``: as the caller gave it, without a password.
    ``kind``: duckdb, sqlite or postgresql.
    ``path``: the file.
    ``table``, ``query``: one of them.
    ``server``: the address of a server's database, with the password.
    """

    text: str
    kind: str
    path: Path = Path()
    table: str = ""
    query: str = ""
    server: str = field(default="", repr=False)

    @property
    def broken(self) -> FileProblem:
        """The error of what cannot be read, or has no such table."""
        if self.kind == "postgresql":
            remedy = "check the address, the password, and the name of the table or the query with another program"
        elif self.query:
            remedy = "check that the query is one SELECT statement, and that nothing else has the file open for writing"
        else:
            remedy = "check the name of the table, and that nothing else has the file open for writing"
        return FileProblem(self.text, "the table cannot be read", remedy)

    @property
    def unlike_a_table(self) -> FileProblem:
        """The error of a table or a query that a server does not take, though it was reached."""
        if not self.query:
            return self.broken
        return FileProblem(
            self.text,
            "the query cannot be run as one SELECT statement",
            "leave all other statements out, and check the names in it",
        )

    @property
    def source(self) -> str:
        """What stands after FROM."""
        if self.query:
            return f"({self.query}\n) AS discreet_query"  # a comment at its end ends with the line
        parts = self.table.split(".", 1) if self.kind == "postgresql" else [self.table]
        return ".".join(map(_quoted, parts))


def address(data: Any) -> Address | None:
    """Return the address that a text is, None where it is none.

    Raises FileProblem when it does not name one table or query, or there is no such file.
    """
    if not isinstance(data, str):
        return None
    if data.startswith(_SERVERS):
        return _on_a_server(data)
    found = _FILES.fullmatch(data)
    if found is None:
        if signed_in := _SIGNED_IN.match(data):  # not told as a path that is not there: it may hold a password
            raise FileProblem(
                f"{signed_in[1]}://...", "no table is read from there", "write postgresql://...?table=NAME"
            )
        return None
    kind, where, asked = found.groups()
    path = Path(unquote(where))
    wanted = _wanted(parse_qs(asked or "", keep_blank_values=True), data, f"{kind}:///FILE")
    if not path.is_file():
        raise FileProblem(data, "there is no such file", "check the path")
    return Address(text=data, kind=kind, path=path, **wanted)


def _on_a_server(data: str) -> Address:
    odd = FileProblem(
        "postgresql://...",
        "it is no address",
        "check how it is written. Signs of a password such as / or # are %2F, %23",
    )
    parts = quietly(lambda: urlsplit(data), odd)
    named = parts.netloc.rpartition("@")
    user = named[0].partition(":")[0] + named[1]
    given = parse_qsl(parts.query, keep_blank_values=True)
    # A password that was cut by one of its own signs would be told as a host, a database or an option.
    hosts = all(_HOST.fullmatch(host) for host in named[2].split(","))
    if not hosts or "@" in parts.path or parts.fragment or any("@" in key for key, _ in given):
        raise odd
    told = [(key, value) for key, value in given if key not in ("password", "passfile", "sslpassword")]
    text = _joined(f"{user}{named[2]}{parts.path}", urlencode(told, safe="/"))
    asked: dict[str, list[str]] = {}
    for key, value in given:
        if key in ("table", "query"):
            asked.setdefault(key, []).append(value)
    options = [(key, value) for key, value in given if key not in asked]
    server = _joined(f"{parts.netloc}{parts.path}", urlencode(options, quote_via=quote))
    wanted = _wanted(asked, text, "postgresql://USER@HOST/DATABASE")
    return Address(text=text, kind="postgresql", server=server, **wanted)


def _joined(where: str, query: str) -> str:
    """Return an address; of a server on this machine its host is empty, and the slashes before it stay."""
    return f"postgresql://{where}{'?' if query else ''}{query}"


def _wanted(asked: dict[str, list[str]], told: str, form: str) -> dict[str, Any]:
    """Return the one table or query of an address."""
    if len(asked) != 1 or not set(asked) <= {"table", "query"} or len(next(iter(asked.values()))) != 1:
        raise FileProblem(told, "it does not name one table or one query", f"write {form}?table=NAME")
    ((kind, (name,)),) = asked.items()
    return {kind: name.strip().removesuffix(";") if kind == "query" else name}


def addressed(data: str | PathLike[str], *, table: str | None, query: str | None) -> str:
    """Return the address of a table or a query of a database.

    Raises ParameterError when both are given, or FileProblem when there is no such database.

    ``data``: an address without either, or the path of a file.
    """
    if table is not None and query is not None:
        raise ParameterError("a table and a query are given. Leave one of them out")
    text = fspath(data)
    asked = urlencode({"table": table} if query is None else {"query": query})
    if not text.startswith((*_SERVERS, "sqlite:///", "duckdb:///")):
        text = f"{_kind_of(text)}:///{quote(text)}"
    return f"{text}{'&' if '?' in text else '?'}{asked}"


def _kind_of(path: str) -> str:
    """Return which database a file is, by its first bytes."""
    missing = FileProblem(path, "there is no such file", "check the path")
    if not Path(path).is_file():
        raise missing
    with Path(path).open("rb") as file:
        first = file.read(16)
    if first == b"SQLite format 3\0":
        return "sqlite"
    if first[8:12] == b"DUCK":
        return "duckdb"
    raise FileProblem(path, "it is no file of SQLite or DuckDB", "leave the table or the query out, or give a database")


def duckdb_table(where: Address) -> Any:
    """Return a table of a DuckDB file, which DuckDB then counts; a view in it reaches no other file."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("reading a DuckDB file needs DuckDB", "duckdb") from None
    # What does not fit in memory would otherwise go beside the file, for all to read whom the umask lets.
    spilled, removed = spill_folder()
    options = {"enable_external_access": "false", "temp_directory": spilled}

    def opened() -> Any:
        connection = duckdb.connect(str(where.path), read_only=True, config=options)
        if not where.query:
            return connection.table(where.table)
        select = f"SELECT * FROM {where.source}"  # noqa: S608
        if len(connection.extract_statements(select)) != 1:  # all of them would run
            raise where.broken
        return connection.sql(select)

    try:
        relation = quietly(opened, where.broken)
    except BaseException:
        removed()
        raise
    weakref.finalize(relation, removed)
    return relation


def sqlite_types(where: Address) -> dict[str, str]:
    """Return the columns of an SQLite table, and the kind of column that usually declares each."""

    def found() -> dict[str, str]:
        with closing(_connect(where)) as database:
            names = [one[0] for one in database.execute(f"SELECT * FROM {where.source} LIMIT 0").description]  # noqa: S608
            declared = dict(database.execute("SELECT name, type FROM pragma_table_xinfo(?)", [where.table]).fetchall())
        return {name: _kind(declared.get(name, "")) for name in names}

    return quietly(found, where.broken)


def sqlite_batches(where: Address, columns: Sequence[str], types: dict[str, str]) -> Iterator[pl.DataFrame]:
    """Iterate over batches of texts. Raises DataError when a value is binary."""
    with closing(quietly(lambda: _connect(where), where.broken)) as database:
        wanted = ", ".join(map(_quoted, columns))
        select = f"SELECT {wanted} FROM {where.source}"  # noqa: S608  # names are quoted
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


# -- PostgreSQL --------------------------------------------------------------------------------------------------------

_OIDS = {
    16: "boolean", 20: "integer", 21: "integer", 23: "integer", 700: "numeric", 701: "numeric", 1700: "decimal",
    19: "string", 25: "string", 1042: "string", 1043: "string", 1082: "date", 1114: "datetime", 1184: "datetime",
}  # fmt: skip
_SINGLE, _MOMENT, _BINARY = 700, 1184, 17
_SETTINGS = "SET TIME ZONE 'UTC'; SET datestyle = 'ISO'; SET extra_float_digits = 3; SET cursor_tuple_fraction = 1"


def postgresql_table(
    where: Address,
) -> tuple[dict[str, str], Callable[[Sequence[str]], Iterator[pl.DataFrame]]]:
    """Return the columns of a table of PostgreSQL with the kinds that usually declare them, and what reads batches.

    All batches are of one moment, in a transaction that writes nothing. A query is one statement: a second one, which
    could end the transaction, is refused by the server before anything runs.
    """
    connection, oids = _session(where)

    def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for name in columns:
            if oids[name] == _BINARY:
                raise DataError(name, "holds binary values", "cast it to a text or a number, by a query")
        wanted = ", ".join(_expression(_quoted(name), oids[name]) for name in columns) or "NULL"
        select = f"SELECT {wanted} FROM {where.source}"  # noqa: S608  # names are quoted
        with connection.cursor("discreet") as cursor:  # declared by the extended protocol, which takes one statement
            quietly(lambda: cursor.execute(select), where.broken)
            while part := quietly(lambda: cursor.fetchmany(_BATCH), where.broken):
                values = zip(columns, zip(*part, strict=True), strict=True)
                yield pl.DataFrame([_as_csv(name, texts, oids[name]) for name, texts in values])

    weakref.finalize(batches, connection.close)
    return {name: _OIDS.get(oid, "unknown") for name, oid in oids.items()}, batches


def require_reachable(where: Address) -> None:
    """Refuse a table of a server that cannot be reached, or is not there. No row is read. Raises FileProblem."""
    if where.kind == "postgresql":
        _session(where)[0].close()


def _session(where: Address) -> tuple[Any, dict[str, int]]:
    """Return a connection in a transaction that writes nothing, and the numbers of the types of a table's columns."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("reading a table of PostgreSQL needs psycopg", "postgresql") from None

    def opened() -> tuple[Any, dict[str, int]]:
        connection = psycopg.connect(where.server, client_encoding="utf8", application_name="discreet")
        try:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute(_SETTINGS)
            return connection, _columns(connection, where)
        except BaseException:
            connection.close()
            raise

    return quietly(opened, where.broken)


def _columns(connection: Any, where: Address) -> dict[str, int]:
    select = f"SELECT * FROM {where.source} LIMIT 0"  # noqa: S608  # names are quoted
    # What is prepared is one statement.
    found = quietly(lambda: connection.execute(select, prepare=True).description, where.unlike_a_table)
    names = [column.name for column in found]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(repeated, "occurs twice in the table", "give every column its own name")
    return {column.name: int(column.type_code) for column in found}


def _expression(name: str, oid: int) -> str:
    """Return a column as text: numbers with all their digits, moments in UTC."""
    if oid == _SINGLE:
        return f"{name}::float8::text"
    return f"({name} AT TIME ZONE 'UTC')::text || 'Z'" if oid == _MOMENT else f"{name}::text"


def _as_csv(name: str, texts: Sequence[str | None], oid: int) -> pl.Series:
    """Return texts as CSV would have them."""
    values = pl.Series("x", texts, dtype=pl.String)
    if _OIDS.get(oid, "string") == "string":
        values = escaped_frame(values.to_frame())["x"]
    return values.alias(name)
