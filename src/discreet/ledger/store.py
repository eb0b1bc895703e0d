"""Where a ledger is kept: SQLite of the standard library, or PostgreSQL through SQLAlchemy; one appends at a time."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem, MissingExtra, ParameterError
from discreet._core.files import together
from discreet._core.text import harmless

# Where a ledger must not be: on a network file system, or at a mount point, which gives a file a second name.

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_KINDS = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "vboxsf", "davfs",
})  # fmt: skip
_KINDS |= {f"fuse.{kind}" for kind in {"sshfs", "s3fs", "rclone", *_KINDS}}


def _require_one_name(path: Path) -> None:
    """Refuse what is no file, or has two names, under which SQLite would not know it for one. Raises FileProblem."""
    if not path.is_file():
        raise FileProblem(path, "there is no ledger", "make one with discreet ledger init")
    same = "which SQLite would take for two files"
    if path.stat().st_nlink != 1:
        raise FileProblem(path, f"it has two names, {same}", "remove the other name, which leaves the ledger as it is")
    file = Path(os.path.realpath(path))
    mount = _mount_of(file)
    is_mount_point = file.stat().st_dev != file.parent.stat().st_dev
    if mount is not None:
        is_mount_point = mount[0] == file
    if is_mount_point:
        remedy = "mount the folder that holds the ledger, not the file"
        raise FileProblem(path, f"it is a mount point, so it has two names, {same}", remedy)


def _mount_of(path: Path) -> tuple[Path, str] | None:
    """Return the mount point that a path is below, or is, and its kind of file system; None where nothing says it."""
    try:
        lines = _MOUNTS.read_bytes().split(b"\n")
    except OSError:
        return None
    mount = None
    for line in filter(None, lines):
        fields, _, system = line.partition(b" - ")
        point = Path(os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), fields.split(b" ")[4])))
        if path.is_relative_to(point) and (mount is None or len(point.parts) >= len(mount[0].parts)):
            mount = point, os.fsdecode(system.split(b" ")[0])
    return mount


MIGRATIONS: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {
        "both": (
            "CREATE TABLE discreet_dataset (name TEXT NOT NULL PRIMARY KEY)",
            "CREATE TABLE discreet_event (dataset TEXT NOT NULL, number INTEGER NOT NULL, entry TEXT, "
            "state TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (dataset, number))",
            "CREATE INDEX discreet_entry ON discreet_event (dataset, entry, number)",
        )
    },
    {
        "sqlite": (
            "CREATE TRIGGER discreet_no_update BEFORE UPDATE ON discreet_event "
            "BEGIN SELECT RAISE(ABORT, 'a ledger is only appended to'); END",
            "CREATE TRIGGER discreet_no_delete BEFORE DELETE ON discreet_event "
            "BEGIN SELECT RAISE(ABORT, 'a ledger is only appended to'); END",
        ),
        "postgresql": (
            "CREATE FUNCTION discreet_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'a ledger is only appended to'; END $$",
            "CREATE TRIGGER discreet_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON discreet_event "
            "FOR EACH STATEMENT EXECUTE FUNCTION discreet_append_only()",
        ),
    },
)
"""What makes each version of the tables from the one before."""

_WAIT = 60.0  # seconds for other runs
_PAUSE = 0.005  # seconds between two looks

_FLOCK = sys.platform == "linux"
"""Whether flock leaves record locks alone. On macOS and BSD it would keep the process's own SQLite away."""

_ONE_AT_A_TIME = threading.RLock()
"""Held by the thread whose transaction is under way: if another one closed the same file meanwhile, the system would
drop the locks of SQLite. No process is forked meanwhile either, so no child keeps a lock."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_ONE_AT_A_TIME.acquire, after_in_parent=_ONE_AT_A_TIME.release, after_in_child=_ONE_AT_A_TIME.release
    )


Transaction = Callable[..., Sequence[Any]]
"""What can be asked within a transaction: a statement with ``:names``, and their values. It returns rows."""


def store_at(place: str | os.PathLike[str], *, new: bool = False) -> Store:
    """Return the store of a ledger; ``new`` makes it where there is none. Raises FileProblem and others."""
    if isinstance(place, str) and place.startswith(("postgresql:", "postgresql+")):
        return ServerStore(place, new=new)
    return FileStore(Path(place), new=new)


def shown(place: str | os.PathLike[str]) -> str:
    """Return a place as messages name it: a database's without its password."""
    text = os.fspath(place)
    scheme, sign, address = str(text).partition("://")
    user, sign_in, host = address.rpartition("@")
    return harmless(f"{scheme}{sign}{user.partition(':')[0]}{sign_in}{host}" if sign else str(text))


def _migrate(run: Transaction, place: str, kind: str, version: int | None) -> None:
    """Bring the tables to the present version; None where there are none."""
    if version is None:
        run("CREATE TABLE discreet_version (version INTEGER NOT NULL)")
        run("INSERT INTO discreet_version VALUES (0)")
        version = 0
    if version > len(MIGRATIONS):
        raise ParameterError(f"the ledger {place} was written by a later version of discreet. Update discreet")
    for step in MIGRATIONS[version:]:
        for statement in (*step.get("both", ()), *step.get(kind, ())):
            run(statement)
    if version < len(MIGRATIONS):
        run("UPDATE discreet_version SET version = :version", version=len(MIGRATIONS))


# -- a file -----------------------------------------------------------------------------------------------------------


class FileStore:
    """A file of SQLite under one name, locked before it is opened: one connection per transaction, none shared."""

    def __init__(self, path: Path, *, new: bool) -> None:
        self._path = path
        mount = _mount_of(Path(os.path.realpath(path)).parent)  # where the system does not say, a file is local
        if mount is not None and mount[1] in _KINDS:
            problem = "it lies on a network file system, which does not keep two writers apart reliably"
            raise FileProblem(path, problem, "keep the ledger on a local disk, or in PostgreSQL")
        if new and not os.path.lexists(path):
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:  # so that it appears whole
                _migrate(partial(_ask, memory), shown(path), "sqlite", None)
                content = memory.serialize()
            with together(path, private=True, check=self._require_free) as (file,):
                file.write(content)
        _require_one_name(path)
        with self._connected("IMMEDIATE") as run:
            tables = run("SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'discreet_version'")
            rows = tables and run("SELECT version FROM discreet_version")
            if len(rows) != 1:
                raise sqlite3.DatabaseError("file is not a database of ours")
            _migrate(run, shown(path), "sqlite", int(rows[0][0]))

    def _require_free(self) -> None:
        if os.path.lexists(self._path):
            raise FileProblem(self._path, "another run has just made it", "run the command again")
        for journal in (f"{self._path}-journal", f"{self._path}-wal"):
            if os.path.lexists(journal):  # SQLite would write what is in it into the new ledger
                raise FileProblem(journal, "it is of a ledger that is gone", "move it to where that ledger was")

    def reading(self) -> AbstractContextManager[Transaction]:
        """Give a transaction that sees one state of the store."""
        return self._connected("DEFERRED")

    def appending(self, dataset: str) -> AbstractContextManager[Transaction]:
        """Give a transaction while no other one appends, to any data set; it is durable when the block ends."""
        return self._connected("IMMEDIATE")

    @contextmanager
    def _connected(self, kind: str) -> Iterator[Transaction]:
        place = f"{self._path.absolute().as_uri()}?mode=rw"
        connect = partial(sqlite3.connect, place, uri=True, timeout=_WAIT, isolation_level=None)
        try:
            with _locked(self._path), closing(connect()) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")  # the journal's removal is on the disk too
                # Earlier versions kept a write-ahead log: what is in it moves into the file, once they let go.
                _patiently(partial(connection.execute, "PRAGMA journal_mode = DELETE"))
                connection.execute(f"BEGIN {kind}")
                try:
                    yield partial(_ask, connection)
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise self._problem(error) from None

    def _problem(self, error: Exception) -> FileProblem:
        text = _reason(error)
        problem, remedy = f"the ledger cannot be read or written ({text})", "check the disk and permissions"
        if _is_busy(error):
            problem, remedy = "another run has kept the ledger busy for a minute", "wait for it"
        elif "not a database" in text or "malformed" in text:
            problem, remedy = "it is not a ledger, or is damaged", "restore it from a copy"
        elif "append" in text:
            problem, remedy = "a ledger is only appended to", "leave its rows as they are"
        return FileProblem(self._path, problem, remedy)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a file against other threads, and other processes, which SQLite's own locks do where flock cannot."""
    import fcntl

    if not _ONE_AT_A_TIME.acquire(timeout=_WAIT):
        raise sqlite3.OperationalError("locked by another thread")
    try:
        with path.open("rb") as file:
            if _FLOCK:
                _patiently(partial(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB))
            yield
    finally:
        _ONE_AT_A_TIME.release()


def _patiently(act: Callable[[], object]) -> None:
    """Do something as soon as no other run is in the way; raise its error when one stays there."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            act()
        except (BlockingIOError, sqlite3.OperationalError) as error:
            if not _is_busy(error) or time.monotonic() > until:
                raise
        else:
            return
        time.sleep(_PAUSE)


def _is_busy(error: Exception) -> bool:
    return isinstance(error, BlockingIOError) or "locked" in _reason(error)


def _ask(connection: sqlite3.Connection, statement: str, /, **values: Any) -> Sequence[Any]:
    return connection.execute(statement, values).fetchall()


def _reason(error: Exception) -> str:
    """Return what is wrong, without the name of the file."""
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)


# -- a server ---------------------------------------------------------------------------------------------------------


class ServerStore:
    """A database of PostgreSQL: a row per data set is locked by whoever appends."""

    def __init__(self, url: str, *, new: bool) -> None:
        try:
            import psycopg  # noqa: F401
            import sqlalchemy
        except ImportError:
            raise MissingExtra("a ledger in PostgreSQL needs SQLAlchemy and psycopg", "postgresql") from None
        self._place = shown(url)
        self._text, self._error = sqlalchemy.text, sqlalchemy.exc.SQLAlchemyError
        try:
            address = sqlalchemy.make_url(url)
            self._engine = sqlalchemy.create_engine(
                address.set(drivername="postgresql+psycopg"), poolclass=sqlalchemy.NullPool, hide_parameters=True
            )
        except (self._error, ValueError):
            raise FileProblem(self._place, "it is not the address of a database", "check it") from None
        with self._connected() as run:
            run("SELECT pg_advisory_xact_lock(7165391804)")  # two may come first
            table = run("SELECT to_regclass('discreet_version')")[0][0]
            if table is None and not new:
                raise FileProblem(self._place, "there is no ledger", "make one with discreet ledger init")
            version = None if table is None else int(run("SELECT version FROM discreet_version")[0][0])
            _migrate(run, self._place, "postgresql", version)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Give a transaction that sees one state of the store."""
        with self._connected() as run:
            run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield run

    @contextmanager
    def appending(self, dataset: str) -> Iterator[Transaction]:
        """Give a transaction while no other one appends to the data set; it is durable when the block ends."""
        with self._connected() as run:
            run("SET LOCAL synchronous_commit = on")
            run("SELECT name FROM discreet_dataset WHERE name = :name FOR UPDATE", name=dataset)
            yield run

    @contextmanager
    def _connected(self) -> Iterator[Transaction]:
        try:
            with self._engine.begin() as connection:

                def run(statement: str, /, **values: Any) -> Sequence[Any]:
                    result = connection.execute(self._text(statement), values)
                    return result.fetchall() if result.returns_rows else []

                yield run
        except self._error as error:
            raise self._problem(error) from None

    def _problem(self, error: Exception) -> FileProblem:
        if "append" in str(error):
            return FileProblem(self._place, "a ledger is only appended to", "leave its rows as they are")
        kind = type(getattr(error, "orig", None) or error).__name__
        return FileProblem(self._place, f"the ledger cannot be reached or written ({kind})", "check the server")


Store = FileStore | ServerStore
"""A place for ledgers."""
