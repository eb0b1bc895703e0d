"""A table or a query of a database, as an address, opened to be read only.

``duckdb:///FILE?table=NAME``, ``sqlite:///FILE?query=SELECT ...``, ``postgresql://USER@HOST/DATABASE?table=NAME``.

SQLite keeps the type of every single value, whatever its column was declared as. So all values are handed on as texts,
as of CSV, and the declared type reads them. So are those of PostgreSQL, whose server writes CSV. No message holds an
address with its password.
"""

from __future__ import annotations

import re
import sqlite3
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from discreet._core.boundary import quietly
from discreet._core.errors import DataError, FileProblem, MissingExtra, ParameterError
from discreet._core.files import spill_folder
from discreet._core.lazy import nw, pl
from discreet.confidential.frames import quoted, source_of
from discreet.confidential.returned import as_polars
from discreet.confidential.source import RESERVED, Source, require_once, text_source
from discreet.domain import escaped, escaped_series

_BATCH = 2**17
_FILES = re.compile(r"(duckdb|sqlite):///([^?]*)(?:\?(.*))?", re.DOTALL)
_SERVERS = ("postgresql://", "postgres://")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?")
_TARGETS = ("table", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a table, or a query, is."""

    text: str  # as the caller gave it, without a password
    kind: str  # duckdb, sqlite or postgresql
    path: Path = Path()
    table: str = ""
    query: str = ""
    server: str = field(default="", repr=False)  # the address of a server's database, with the password

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
    def source(self) -> str:
        """What stands after FROM."""
        if self.query:
            return f"({self.query}\n) AS discreet_query"  # a comment at its end ends with the line
        if self.kind == "postgresql":
            return ".".join(map(quoted, self.table.split(".", 1)))
        return quoted(self.table)


def address(data: str) -> Address:
    """Return the address that a text is. Raises FileProblem where it is not one, or there is no such file."""
    if data.startswith(_SERVERS):
        return _on_a_server(data)
    match = _FILES.fullmatch(data)
    if match is None:  # it is not told: it may hold a password
        scheme = data.partition("://")[0].strip()
        raise FileProblem(f"{scheme}://...", "no table is read from there", "write postgresql://...?table=NAME")
    kind, where, query = match.groups(default="")
    path, pairs = Path(unquote(where)), parse_qsl(query, keep_blank_values=True)
    target = _table_or_query(pairs, data, f"{kind}:///FILE")
    if not path.is_file():
        raise FileProblem(data, "there is no such file", "check the path")
    return Address(text=data, kind=kind, path=path, **target)


def _on_a_server(data: str) -> Address:
    remedy = "check how it is written. Signs of a password such as / or # are %2F, %23"
    odd = FileProblem("postgresql://...", "it is no address", remedy)
    parts = quietly(lambda: urlsplit(data), odd)
    user, sign, host = parts.netloc.rpartition("@")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    # A password that was cut by one of its own signs would be told as a host, a database or an option.
    hosts = all(_HOST.fullmatch(part) for part in host.split(","))
    if not hosts or "@" in parts.path or parts.fragment or any("@" in key for key, _ in pairs):
        raise odd
    public = [(key, value) for key, value in pairs if key not in ("password", "passfile", "sslpassword")]
    text = _joined(f"{user.partition(':')[0]}{sign}{host}{parts.path}", urlencode(public, safe="/"))
    options = [(key, value) for key, value in pairs if key not in _TARGETS]
    server = _joined(f"{parts.netloc}{parts.path}", urlencode(options, quote_via=quote))
    targets = [(key, value) for key, value in pairs if key in _TARGETS]
    target = _table_or_query(targets, text, "postgresql://USER@HOST/DATABASE")
    return Address(text=text, kind="postgresql", server=server, **target)


def _joined(where: str, query: str) -> str:
    """Return an address; of a server on this machine its host is empty, and the slashes before it stay."""
    return f"postgresql://{where}?{query}".removesuffix("?")


def _table_or_query(pairs: list[tuple[str, str]], text: str, form: str) -> dict[str, Any]:
    if len(pairs) != 1 or pairs[0][0] not in _TARGETS:
        raise FileProblem(text, "it does not name one table or one query", f"write {form}?table=NAME")
    ((kind, name),) = pairs
    return {"table": name} if kind == "table" else {"query": name.strip().removesuffix(";")}


def addressed(data: str | PathLike[str], *, table: str | None, query: str | None) -> str:
    """Return the address of a table or a query of a database, from that of the database or the path of its file."""
    # Raises ParameterError when both are given, or FileProblem when there is no such database.
    if table is not None and query is not None:
        raise ParameterError("a table and a query are given. Leave one of them out")
    text, target = fspath(data), urlencode({"table": table} if query is None else {"query": query})
    if not text.startswith((*_SERVERS, "sqlite:///", "duckdb:///")):
        text = f"{_kind_of_file(text)}:///{quote(text)}"
    return f"{text}{'&' if '?' in text else '?'}{target}"


def _kind_of_file(path: str) -> str:
    """Return which database a file is, by its first bytes."""
    if not Path(path).is_file():
        raise FileProblem(path, "there is no such file", "check the path")
    with Path(path).open("rb") as file:
        head = file.read(16)
    if head == b"SQLite format 3\0":
        return "sqlite"
    if head[8:12] == b"DUCK":
        return "duckdb"
    raise FileProblem(path, "it is no file of SQLite or DuckDB", "leave the table or the query out, or give a database")


def open_table(data: str) -> Source:
    """Look at the names and types of a table at an address."""
    where = address(data)
    path = str(where.path)
    if where.kind == "duckdb":
        table = quietly(lambda: nw.from_native(duckdb_table(where)), where.broken)
        returned = as_polars(table.head(0).collect().to_polars().schema)
        return replace(source_of(table, where.broken), kind="database", path=path, returned=returned)
    if where.kind == "postgresql":
        path = where.text
        types, batches = _postgresql_table(where)
    else:
        types = _sqlite_types(where)
        batches = partial(_sqlite_batches, where)
    return text_source("database", path, types, batches)


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


# -- SQLite -----------------------------------------------------------------------------------------------------------

_WORDS = {
    "boolean": "BOOL",
    "integer": "INT",
    "string": "CHAR|TEXT|CLOB",
    "numeric": "REAL|FLOA|DOUB",
    "decimal": "DEC|NUMERIC",
    "datetime": "DATETIME|TIMESTAMP",
    "date": "DATE",
}
"""What a type has in its name, in capitals, by the kind of column that usually declares it; the first one counts."""


def _sqlite_types(where: Address) -> dict[str, str]:
    """Return the columns of an SQLite table, and the kind of column that usually declares each."""

    def types() -> dict[str, str]:
        with closing(_connect(where)) as database:
            names = [column[0] for column in database.execute(f"SELECT * FROM {where.source} LIMIT 0").description]  # noqa: S608
            declared = dict(database.execute("SELECT name, upper(type) FROM pragma_table_xinfo(?)", [where.table]))
        kinds = {name: [kind for kind in _WORDS if re.search(_WORDS[kind], declared.get(name, ""))] for name in names}
        return {name: candidates[0] if candidates else "unknown" for name, candidates in kinds.items()}

    return quietly(types, where.broken)


def _sqlite_batches(where: Address, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Iterate over batches of texts. Raises DataError when a value is binary."""
    with closing(quietly(lambda: _connect(where), where.broken)) as database:
        select = f"SELECT {', '.join(map(quoted, columns))} FROM {where.source}"  # noqa: S608
        cursor = quietly(lambda: database.execute(select), where.broken)
        while rows := quietly(lambda: cursor.fetchmany(_BATCH), where.broken):
            parts = zip(columns, zip(*rows, strict=True), strict=True)
            yield pl.DataFrame([_as_texts(name, values) for name, values in parts])


def _connect(where: Address) -> sqlite3.Connection:
    database = sqlite3.connect(f"file:{quote(str(where.path))}?mode=ro", uri=True)
    database.execute("PRAGMA trusted_schema = OFF")
    return database


def _as_texts(name: str, values: Sequence[Any]) -> pl.Series:
    """Return values as CSV would have them; numbers as the shortest text that reads as the same one."""
    if any(isinstance(value, bytes) for value in values):
        raise DataError(name, "holds a binary value", "store it as a text or a number")
    texts = [value and escaped(value) if isinstance(value, str | None) else repr(value) for value in values]
    return pl.Series(name, texts, dtype=pl.String)


# -- PostgreSQL --------------------------------------------------------------------------------------------------------

_OIDS = {
    16: "boolean", 20: "integer", 21: "integer", 23: "integer", 700: "numeric", 701: "numeric", 1700: "decimal",
    19: "string", 25: "string", 1042: "string", 1043: "string", 1082: "date", 1114: "datetime", 1184: "datetime",
}  # fmt: skip
_EXPRESSIONS = {700: "{}::float8::text", 1184: "({} AT TIME ZONE 'UTC')::text || 'Z'"}
_BINARY = 17
_SETTINGS = "SET TIME ZONE 'UTC'; SET datestyle = 'ISO'; SET extra_float_digits = 3"


def _postgresql_table(where: Address) -> tuple[dict[str, str], Callable[[Sequence[str]], Iterator[pl.DataFrame]]]:
    """Return the columns of a table of PostgreSQL with the kinds that usually declare them, and what reads batches."""
    # All batches are of one moment, in a transaction that writes nothing. A query of two statements is refused.
    connection, oids = _session(where)
    lines: Iterator[bytes] = iter(())

    def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        nonlocal lines
        for name in columns:
            if oids[name] == _BINARY:
                raise DataError(name, "holds binary values", "cast it to a text or a number, by a query")
        # Numbers with all their digits, moments in UTC.
        forms = [_EXPRESSIONS.get(oids[name], "{}::text").format(quoted(name)) for name in columns]
        select = f"SELECT {', '.join([*forms, '1'])} FROM {where.source}"  # noqa: S608  # no line is empty
        labels = [name for name in columns if _OIDS.get(oids[name], "string") == "string"]
        quietly(lambda: deque(lines, maxlen=0), where.broken)  # those that an earlier reader left
        lines = _copied_lines(connection, f"COPY ({select}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)")
        parse = partial(pl.read_csv, has_header=False, new_columns=[*columns, RESERVED], infer_schema=False)
        while block := quietly(lambda: b"".join(islice(lines, _BATCH)), where.broken):
            frame = quietly(partial(parse, block), where.broken).select(columns)
            yield frame.with_columns(escaped_series(frame[name]) for name in labels)

    weakref.finalize(batches, connection.close)
    return {name: _OIDS.get(oid, "unknown") for name, oid in oids.items()}, batches


def _copied_lines(connection: Any, statement: str) -> Iterator[bytes]:
    """Yield the lines of a COPY, sent by the extended protocol, which takes one statement."""
    from psycopg import errors, generators, pq
    from psycopg.waiting import Wait

    pgconn, state = connection.pgconn, pq.ExecStatus
    pgconn.send_query_params(statement.encode(), None)
    results = connection.wait(generators.execute(pgconn))
    while results[0].status == state.COPY_OUT:
        size, line = pgconn.get_copy_data(1)
        if size > 0:
            yield bytes(line)  # garbage is collected for views, which takes most of the time
        elif size == 0:
            connection.wait(wait for wait in [Wait.R])
            pgconn.consume_input()
        else:
            results = connection.wait(generators.fetch_many(pgconn))
    if results[0].status != state.COMMAND_OK:
        raise errors.error_from_result(results[0])  # of which the class alone is looked at


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
            refused = where.broken
            if where.query:  # a server does not take it, though it was reached
                remedy = "leave all other statements out, and check the names in it"
                refused = FileProblem(where.text, "the query cannot be run as one SELECT statement", remedy)
            # What is prepared is one statement.
            select = f"SELECT * FROM {where.source} LIMIT 0"  # noqa: S608
            description = quietly(lambda: connection.execute(select, prepare=True).description, refused)
            require_once([column.name for column in description], "database")
            return connection, {column.name: int(column.type_code) for column in description}
        except BaseException:
            connection.close()
            raise

    return quietly(opened, where.broken)
