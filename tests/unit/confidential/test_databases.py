"""Tables in a database file: counted as any other, opened to be read only, and quoted in no message."""

import gc
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from forms import TEXT, refused
from test_sources import DOMAIN, NASTY, X, as_rows, counts

import discreet
from discreet import Budget
from discreet.cli.entry import run
from discreet.confidential import confidential, confidential_rows
from discreet.confidential import database as database_module
from discreet.confidential.closed import reveal
from discreet.confidential.database import address, addressed, duckdb_table
from discreet.confidential.values import table_schema
from discreet.domain import Domain, Integer, OpenLabels
from discreet.errors import FileProblem, MissingExtra, ParameterError

SQL_TYPES = ("REAL", "INTEGER", "VARCHAR(9)", "BOOLEAN", "DATE", "DATETIME", "TEXT", "")


def sqlite(frame: pl.DataFrame, path: Path, types: tuple[str, ...], table: str = "t") -> str:
    """Store a table as the drivers of SQLite do: times and decimals as texts, truth as numbers."""
    temporal = pl.selectors.temporal().cast(pl.String), pl.selectors.decimal().cast(pl.String)
    rows = frame.with_columns(*temporal).rows()

    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    with closing(sqlite3.connect(path)) as database, database:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(frame.columns, types, strict=True))
        database.execute(f"CREATE TABLE {quoted(table)} ({columns})")
        database.executemany(f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * frame.width)})", rows)
    return f"sqlite:///{path}?table=" + table.replace("&", "%26").replace(" ", "+")


def duckdb(frame: pl.DataFrame, path: Path) -> str:
    module = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with module.connect(str(path)) as database:
        arrow = frame.to_arrow()  # noqa: F841  # DuckDB finds it by its name
        database.execute("CREATE TABLE t AS SELECT * FROM arrow")
        database.execute("CREATE VIEW outside AS SELECT * FROM read_csv('/etc/passwd', ignore_errors = true)")
    return f"duckdb:///{path}?table=t"


def stored(kind: str, frame: pl.DataFrame, path: Path, types: tuple[str, ...] = ("",)) -> str:
    return sqlite(frame, path, types) if kind == "sqlite" else duckdb(frame, path)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_the_same_counts_from_a_database(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a b.db"
    data = stored(kind, NASTY, path, SQL_TYPES)
    before = path.read_bytes()
    data = data.replace("a b.db", "a%20b.db")
    closed = confidential(data, DOMAIN)
    assert as_rows(reveal(closed)) == as_rows(counts(NASTY))
    assert sum(part.n for part in reveal(confidential_rows(data, DOMAIN)).parts()) == NASTY.height
    assert closed.provenance.path == str(path)
    back = closed.provenance.returned
    assert back is None if kind == "sqlite" else isinstance(back(NASTY, DOMAIN), pl.DataFrame)
    kinds = ["numeric", "integer", "string", "boolean", "date", "datetime", "string", "unknown"]
    assert list(table_schema(data)) == NASTY.columns
    assert kind == "duckdb" or list(table_schema(data).values()) == kinds  # as they are declared
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_batches_of_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_BATCH", 3)
    data = sqlite(NASTY, tmp_path / "t.db", SQL_TYPES)
    closed = reveal(confidential_rows(data, DOMAIN))
    assert [part.n for part in closed.parts()] == [3, 3, 2]
    assert as_rows(counts(data)) == as_rows(counts(NASTY))


def test_rows_that_wait_in_a_log_count(tmp_path: Path) -> None:
    data = sqlite(NASTY, tmp_path / "t.db", SQL_TYPES)
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("INSERT INTO t SELECT * FROM t")
        database.commit()
        assert (tmp_path / "t.db-wal").stat().st_size
        assert counts(data).n == 2 * NASTY.height


@pytest.mark.parametrize("name", ['od"d; DROP TABLE t', "x&y", "été"])
def test_any_name_of_a_table(name: str, tmp_path: Path) -> None:
    data = sqlite(pl.DataFrame({'o"': ["=1", "'=1", None]}), tmp_path / "t.db", ("",), name)
    domain = Domain(columns={'o"': OpenLabels(nulls="category")})
    found = counts(data, domain)
    assert found.n == 3
    assert found.distinct == 3


@pytest.mark.parametrize("value", [TEXT, 424_242_171, 0.424242171, b"424242171", b"\xff"])
def test_a_value_that_does_not_fit_is_not_quoted(value: Any, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as database, database:
        database.execute("CREATE TABLE t (x INTEGER)")
        database.executemany("INSERT INTO t VALUES (?)", [(1,), (value,)])
    assert "column 'x'" in refused(f"sqlite:///{tmp_path}/t.db?table=t", X)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("?table=none", "the table cannot be read"),
        ("", "does not name one table"),
        ("?table=t&table=u", "does not name one table"),
        ("?table=t&mode=rwc", "does not name one table"),
        ("?sql=select+1", "does not name one table"),
        ("?table=", "the table cannot be read"),
        ("?table=outside", "the table cannot be read"),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_what_is_no_table(kind: str, query: str, problem: str, tmp_path: Path) -> None:
    frame, path = pl.DataFrame({"x": [1]}), tmp_path / "t.db"
    whole = stored(kind, frame, path)
    assert counts(whole, X).n == 1
    assert problem in refused(whole.replace("?table=t", query), X, FileProblem)
    missing = whole.replace("t.db", "none.db")
    assert "no such file" in refused(missing, X, FileProblem)
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("other", ["CREATE TEMP TABLE u AS SELECT 5", "PRAGMA enable_profiling", "SELECT 1", ""])
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_query_is_one_statement(kind: str, other: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of DuckDB others would run before it, and the profile of one is printed with the number of rows."""
    frame, path = pl.DataFrame({"x": [1] * 777}), tmp_path / "t.db"
    stored(kind, frame, path)
    for end in ("\n", ""):
        query = f"SELECT x FROM t WHERE ';' = ';' -- ; all{end}"
        assert counts(addressed(path, table=None, query=query), X).n == 777
    data = addressed(path, table=None, query=f"SELECT x FROM t) AS q; {other}; SELECT * FROM (SELECT x FROM t")
    assert "Check that the query is one SELECT statement" in refused(data, X, FileProblem)
    assert capfd.readouterr() == ("", "")


READ_DAMAGED = """
import random, sys
from pathlib import Path
from discreet.confidential import confidential
from discreet.domain import Domain, Integer, Numeric, OpenLabels
from discreet.errors import DiscreetError

domain = Domain(columns={"x": Numeric(lower=0, upper=1), "s": OpenLabels(), "i": Integer(lower=0, upper=999)})
whole, spoilt = Path(sys.argv[1]).read_bytes(), Path(sys.argv[1] + ".spoilt")
for seed in range(40):
    rng, data = random.Random(seed), bytearray(whole)
    for _ in range(rng.choice((1, 3, 40, 400))):
        data[rng.choice((rng.randrange(4096), rng.randrange(len(data))))] = rng.randrange(256)
    spoilt.write_bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))])
    try:
        confidential(f"{sys.argv[2]}:///{spoilt}?table=t", domain)
    except DiscreetError as error:
        assert error.exit_status == 2, error
"""


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_no_change_of_bytes_ends_the_process(kind: str, tmp_path: Path) -> None:
    path, frame = tmp_path / "t.db", pl.DataFrame({"x": [0.5] * 500, "s": ["abc"] * 500, "i": range(500)})
    stored(kind, frame, path, ("REAL", "TEXT", "INTEGER"))
    command = [sys.executable, "-c", READ_DAMAGED, path, kind]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]


def test_duckdb_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.db").touch()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'discreet\[duckdb\]'"):
        confidential(f"duckdb:///{tmp_path}/t.db?table=t", DOMAIN)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = sqlite(pl.DataFrame({"i": [1, 2, 2] * 100}), tmp_path / "t.csv", ("INTEGER",))
    domain, out = tmp_path / "d.toml", tmp_path / "out.csv.gz"
    domain.write_text('[columns.i]\ntype = "integer"\nlower = 1\nupper = 2\n')
    assert run(["domain", "init", data]) == 0
    assert "[columns.i]" in capsys.readouterr().out
    given = ["release", data, "--domain", str(domain), "--epsilon", "5", "--size", "50", "--accept-poor-utility"]
    assert run([*given, "--out", str(out)]) == 0
    given[1:2] = [str(tmp_path / "t.csv"), "--table", "t"]
    assert run([*given, "--out", str(tmp_path / "again.csv")]) == 0
    assert run(["verify", str(tmp_path / "out.certificate.json"), "--data", str(out)]) == 0
    assert run(["compare", data, str(out), "--domain", str(domain), "--resamples", "2"]) == 0
    before = (tmp_path / "t.csv").read_bytes()  # the database itself is never written
    assert run([*given, "--out", str(tmp_path / "t.csv")]) == 2
    assert (tmp_path / "t.csv").read_bytes() == before
    with pytest.raises(discreet.errors.NotPublic):
        discreet.release(data, domain, Budget(epsilon=5.0), size=50, reference=data)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_tables_and_queries_by_options(kind: str, tmp_path: Path) -> None:
    """The same names for every database; what a file is, its first bytes tell."""
    path = tmp_path / "a b&.db"
    stored(kind, NASTY, path, SQL_TYPES)
    before = path.read_bytes()
    wanted = f"SELECT * FROM t WHERE {NASTY.columns[1]} IS NOT NULL OR TRUE;"
    for asked in ({"table": "t", "query": None}, {"table": None, "query": wanted}):
        data = addressed(str(path), **asked)
        if kind == "duckdb" or asked["table"]:  # of a query of SQLite nothing tells which numbers are truth values
            assert as_rows(counts(data)) == as_rows(counts(NASTY))
        assert list(table_schema(data)) == NASTY.columns
    domain = Domain(columns={"n": Integer(lower=0, upper=99)})
    assert counts(addressed(str(path), table=None, query="SELECT count(*) AS n FROM t"), domain).n == 1
    for query in ("DROP TABLE t", "DELETE FROM t RETURNING 1 AS n", "SELECT 1 AS n) ; DROP TABLE t; --", "", "SELECT"):
        refused(addressed(str(path), table=None, query=query), domain, FileProblem)
    assert path.read_bytes() == before


def test_what_duckdb_cannot_hold_in_memory_is_for_its_owner_alone(tmp_path: Path) -> None:
    """A group by of more than its memory is spilled: into a private folder, which is gone afterwards."""
    module = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    path = tmp_path / "t.db"
    with module.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT range AS x, hash(range)::VARCHAR AS s FROM range(300000)")
    where = address(f"duckdb:///{path}?table=t")
    table = duckdb_table(where)
    (spilled,) = table.limit(1).project("current_setting('temp_directory')").fetchall()[0]
    assert Path(spilled).stat().st_mode & 0o777 == 0o700
    for setting in ("memory_limit = '30MB'", "threads = 1"):
        table.limit(0).query("settings", f"SET {setting}")
    rows, spills = 0, 0
    reader = table.aggregate("s, max(x), count(*)", "s").to_arrow_reader(10_000)
    for batch in reader:
        rows += batch.num_rows
        spills += any(Path(spilled).iterdir())
    assert rows == 300_000
    assert spills
    assert [file.name for file in tmp_path.iterdir()] == ["t.db"]
    del table, reader, batch
    gc.collect()
    assert not Path(spilled).exists()


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n1\n")
    with pytest.raises(FileProblem, match="no file of SQLite or DuckDB"):
        addressed(tmp_path / "t.csv", table="t", query=None)
    with pytest.raises(FileProblem, match="no such file"):
        addressed(tmp_path / "none", table="t", query=None)
    with pytest.raises(ParameterError, match="Leave one of them out"):
        addressed(tmp_path / "t.csv", table="t", query="SELECT 1")


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://ann:{}/b@host/db?table=t",
        "postgresql://ann:1/{}@host/db?table=t",
        "postgresql://ann:a#{}@host/db?table=t",
        "postgresql://ann:a?{}@host/db?table=t",
        "postgresql://ann:1?{}@host/db?table=t",
        "postgresql://ann:{}@host/db",
        "postgresql+psycopg://ann:{}@host/db?table=t",
        " postgresql://ann:{}@host/db?table=t",
        "mysql://ann:{}@host/db?table=t",
    ],
)
def test_a_password_in_an_address_that_is_none_is_not_told(where: str) -> None:
    said = refused(where.format("swordfish"), X, FileProblem)
    assert "swordfish" not in said
    assert "://" in said


@pytest.mark.parametrize("server", ["h:5432", "[::1]:5432", "h1:1,h2:2", "", "ann@h", "ann:p%2Fq@h"])
def test_an_address_of_a_server(server: str) -> None:
    where = address(f"postgresql://{server}/db?sslmode=require&query=SELECT+'a@b:c'")
    assert where.server == f"postgresql://{server}/db?sslmode=require"
    assert where.query == "SELECT 'a@b:c'"
    assert "p%2Fq" not in where.text


@pytest.mark.parametrize("kind", ["sqlite", "folder"])
def test_a_ledger_pays_for_what_is_no_single_file(kind: str, tmp_path: Path) -> None:
    """Nothing fails once the table is open, which would be paid for; and a file that is missing costs nothing."""
    frame = pl.DataFrame({"i": [1, 2, 2] * 100})
    if kind == "sqlite":
        data = sqlite(frame, tmp_path / "t.db", ("INTEGER",))
    else:
        data = str(tmp_path / "t")
        (tmp_path / "t").mkdir()
        frame.write_parquet(tmp_path / "t" / "p.parquet")
    discreet.Ledger.create(tmp_path / "one.ledger", dataset="one", epsilon=2.0)
    ledger = discreet.Ledger(tmp_path / "one.ledger")
    domain = Domain(columns={"i": Integer(lower=1, upper=2, out_of_bounds="clip")})
    made = discreet.release(data, domain, Budget(epsilon=1.0), size=20, ledger=ledger, accept={"poor-utility"})
    assert made.records.height == 20
    before = ledger.log()
    missing = data.replace("t.db", "none.db") if kind == "sqlite" else str(tmp_path / "none")
    with pytest.raises(FileProblem, match="no such file"):
        discreet.release(missing, domain, Budget(epsilon=1.0), size=20, ledger=ledger)
    assert ledger.log() == before
