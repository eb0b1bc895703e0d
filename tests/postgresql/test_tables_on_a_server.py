"""Tables and queries of a real PostgreSQL server: counted as any other, opened to be read only, no password told."""

import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

import discreet
from discreet import Unit
from discreet.cli.entry import run
from discreet.confidential import check_table, confidential, confidential_rows, reveal_to_custodian
from discreet.confidential.closed import reveal
from discreet.confidential.tables import open_source
from discreet.confidential.values import table_schema
from discreet.domain import Boolean, Category, Counts, Date, Datetime, Decimal, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DataError, DiscreetError, FileProblem

pytestmark = pytest.mark.postgresql

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

DOMAIN = Domain(
    columns={
        "i": Integer(lower=-(2**60), upper=2**60, nulls="category"),
        "f": Numeric(lower=-1, upper=1, nulls="category"),
        "r": Numeric(lower=0, upper=1, cells=10, nulls="category"),
        "b": Boolean(nulls="category"),
        "d": Date(lower="1900-01-01", upper="2030-01-01", nulls="category"),
        "t": Datetime(lower="1900-01-01", upper="2030-01-01", step="1s", nulls="category"),
        "m": Datetime(lower="1900-01-01", upper="2030-01-01", step="1s", time_zone="Europe/Paris", nulls="category"),
        "n": Decimal(lower="-5", upper="99.99", digits=2, nulls="category"),
        "s": OpenLabels(nulls="category"),
        "k": Category(categories=["low", "high"], nulls="category"),
    }
)
NASTY = pl.DataFrame(
    {
        "i": [2**53 + 1, -(2**53) - 1, 0, None, -5],
        "f": [0.1, 5e-324, -0.0, None, 1.0],
        "r": pl.Series([0.1, 0.7, 0.3, None, 1.0], dtype=pl.Float32),
        "b": [True, False, None, True, False],
        "d": [date(1969, 12, 31), date(2024, 2, 29), None, date(1900, 1, 1), date(2000, 1, 1)],
        "t": [datetime(2024, 3, 31, 1, 30), None, datetime(1969, 12, 31, 23, 59, 59), datetime(2000, 1, 1), None],  # noqa: DTZ001
        "m": [
            datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
            None,
            datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
            None,
            None,
        ],
        "n": pl.Series(["99.99", "-5.00", "0.10", None, "0.00"]).cast(pl.Decimal(10, 2)),
        "s": ["=1", "'=1", "", None, "a\tb\n\\N"],
        "k": ["low", "high", None, "low", "high"],
    }
)
TYPES = ("bigint", "float8", "float4", "boolean", "date", "timestamp", "timestamptz", "numeric(10,2)", "text", "kind")


@pytest.fixture(scope="module")
def table(server: str) -> str:
    """Store the table, and return the address without a table."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE TYPE kind AS ENUM ('low', 'high')")
        connection.execute("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
        columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(NASTY.columns, TYPES, strict=True))
        connection.execute(f'CREATE TABLE "t\'""; x" ({columns})')
        connection.execute(f"CREATE TABLE plain ({columns})")
        connection.execute("CREATE SCHEMA other")
        connection.execute("CREATE TABLE other.labels (s text COLLATE loose)")
        connection.execute("INSERT INTO other.labels VALUES ('a'), ('A'), ('\u00e9'), ('e\u0301'), ('e\u0301')")
        for name in ('"t\'""; x"', "plain"):
            with connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * NASTY.width)})", NASTY.rows())
    return server


def at(server: str, **asked: str) -> str:
    from discreet.confidential.database import addressed

    return addressed(server, table=asked.get("table"), query=asked.get("query"))


def as_rows(counts: Counts) -> set[tuple[Any, ...]]:
    columns = [[None if code != code else code for code in column] for column in counts.records.columns]
    return set(zip(*columns, counts.frequencies.tolist(), strict=True))


@pytest.mark.parametrize("asked", [{"table": "plain"}, {"table": "t'\"; x"}, {"query": "SELECT * FROM plain;"}])
def test_the_same_counts_from_a_server(asked: dict[str, str], table: str) -> None:
    here = as_rows(reveal(confidential(NASTY, DOMAIN)))
    assert as_rows(reveal(confidential(at(table, **asked), DOMAIN))) == here
    assert sum(part.n for part in reveal(confidential_rows(at(table, **asked), DOMAIN)).parts()) == NASTY.height
    kinds = ["integer", "numeric", "numeric", "boolean", "date", "datetime", "datetime", "decimal", "string", "unknown"]
    assert table_schema(at(table, **asked)) == dict(zip(NASTY.columns, kinds, strict=True))


def test_labels_are_told_apart_whatever_the_collation(table: str) -> None:
    domain = Domain(columns={"s": OpenLabels(nulls="category")})
    counts = reveal(confidential(at(table, table="other.labels"), domain))
    assert sorted(zip(counts.records.columns[0], counts.frequencies, strict=True)) == [
        ("A", 1), ("a", 1), ("e\u0301", 2), ("\u00e9", 1)
    ]  # fmt: skip


WORDS = [None, "", '"', '""', "a,b", "x\ny", "x\r\n", "\\.", "\\N", " ", "'", None]


def test_texts_that_csv_could_change(table: str) -> None:
    with psycopg.connect(table, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE words (s text)")
        cursor.executemany("INSERT INTO words VALUES (%s)", [(word,) for word in WORDS])
    domain = Domain(columns={"s": OpenLabels(nulls="category")})
    counts = reveal(confidential(at(table, table="words"), domain))
    assert dict(zip(counts.records.columns[0], counts.frequencies, strict=True)) == Counter(WORDS)


def test_a_reading_that_is_left_is_no_end(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.confidential.database._BATCH", 2)
    monkeypatch.setattr("discreet.confidential.count._KEPT", -1)
    rows = reveal(confidential_rows(at(table, table="plain"), DOMAIN))
    assert next(rows.parts()).n == 2
    assert [part.n for part in rows.parts()] == [2, 2, 1]


def test_all_batches_are_of_one_moment(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.confidential.database._BATCH", 2)
    monkeypatch.setattr("discreet.confidential.count._KEPT", -1)
    with psycopg.connect(table, autocommit=True) as connection:
        connection.execute("CREATE TABLE moving AS SELECT generate_series(1, 5) AS i")
        domain = Domain(columns={"i": Integer(lower=0, upper=99)})
        rows = reveal(confidential_rows(at(table, table="moving"), domain))
        connection.execute("INSERT INTO moving VALUES (77)")
        assert [part.n for part in rows.parts()] == [2, 2, 1]


def test_units_of_a_query(table: str) -> None:
    domain = Domain(columns={"v": Integer(lower=0, upper=9, nulls="category")})
    query = "SELECT g / 4 AS who, g % 4 AS v FROM generate_series(0, 39) AS g"
    counts = reveal(confidential(at(table, query=query), domain, unit=Unit("who", max_records=2)))
    assert counts.n == 20


def test_nothing_is_written(table: str) -> None:
    with psycopg.connect(table, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE s")
    domain = Domain(columns={"i": Integer(lower=0, upper=99)})
    for query in (
        "SELECT nextval('s') AS i",
        "DELETE FROM plain RETURNING i",
        "SELECT 1 AS i) TO STDOUT; DROP TABLE plain; --",
    ):
        with pytest.raises(DiscreetError):
            confidential(at(table, query=query), domain)
    with psycopg.connect(table) as connection:
        assert connection.execute("SELECT count(*) FROM plain").fetchone() == (NASTY.height,)
        assert connection.execute("SELECT is_called FROM s").fetchone() == (False,)


SECRET = "hunter2secret"


@pytest.mark.parametrize("where", ["postgresql://ann:{0}@127.0.0.1:1/x", "postgres://ann@127.0.0.1:1/x?password={0}",
                                   "postgresql://ann:{0}@[::bad/x"])  # fmt: skip
def test_no_password_is_told(where: str, capsys: Any, caplog: Any, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    data = where.format(SECRET)
    with pytest.raises(FileProblem) as found:
        confidential(f"{data}{'&' if '?' in data else '?'}table=visits", DOMAIN)
    assert found.value.__context__ is None
    (tmp_path / "d.toml").write_text('[columns.i]\ntype = "integer"\nlower = 0\nupper = 9\n')
    given = ["--domain", str(tmp_path / "d.toml"), "--epsilon", "1", "--size", "9", "--out", str(tmp_path / "o.csv")]
    assert run(["release", data, "--table", "visits", *given]) == 2
    assert run(["release", data, *given]) == 2
    told = capsys.readouterr()
    assert SECRET not in str(found.value) + told.out + told.err + caplog.text


def test_values_are_not_quoted(table: str) -> None:
    query = "SELECT 424242171 AS i UNION ALL SELECT 1"
    domain = Domain(columns={"i": Integer(lower=0, upper=9)})
    with pytest.raises(DataError, match="column 'i'") as refused:
        confidential(at(table, query=query), domain)
    assert "424242171" not in str(refused.value)
    with pytest.raises(DataError, match="binary"):
        confidential(at(table, query="SELECT '\\x00'::bytea AS i"), domain)
    with pytest.raises(FileProblem, match="the table cannot be read"):
        confidential(at(table, query="SELECT 1 / (g - 3) AS i FROM generate_series(1, 5) AS g"), domain)
    found = reveal_to_custodian(check_table(at(table, query=query), domain))
    assert [one.rows for one in found.findings] == [1]


def test_the_command(table: str, tmp_path: Path, capsys: Any) -> None:
    with psycopg.connect(table, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 + g % 2 AS i FROM generate_series(1, 400) AS g")
    domain, out = tmp_path / "d.toml", tmp_path / "out.parquet"
    assert run(["domain", "init", table, "--table", "visits"]) == 0
    assert "[columns.i]" in capsys.readouterr().out
    domain.write_text('[columns.i]\ntype = "integer"\nlower = 1\nupper = 2\nout_of_bounds = "clip"\n')
    discreet.Ledger.create(tmp_path / "one.ledger", dataset="one", epsilon=9.0)
    given = ["--domain", str(domain), "--epsilon", "5", "--size", "50", "--ledger", str(tmp_path / "one.ledger")]
    assert run(["release", table, "--table", "visits", *given, "--out", str(out)]) == 0
    assert run(["verify", str(tmp_path / "out.certificate.json"), "--data", str(out)]) == 0
    before = discreet.Ledger(tmp_path / "one.ledger").log()
    assert run(["release", table, "--table", "none", *given, "--out", str(tmp_path / "no.parquet")]) == 2
    assert discreet.Ledger(tmp_path / "one.ledger").log() == before  # a server that cannot be reached costs nothing
    assert "visits" not in (tmp_path / "out.certificate.json").read_text()


# -- a query stays inside the transaction that writes nothing ---------------------------------------------------------

READ, THEN = "SELECT i FROM plain) q; COMMIT; ", "; COMMIT; SELECT 1 FROM (SELECT 1"
ESCAPES = {
    "a table is dropped": f"{READ}DROP TABLE victim{THEN}",
    "a row is written": f"{READ}INSERT INTO victim VALUES (2){THEN}",
    "a program runs": f"{READ}COPY (SELECT 1) TO PROGRAM 'cat > {{file}}'{THEN}",
    "a copy is left": "SELECT i FROM plain) q) TO STDOUT; COMMIT; DROP TABLE victim; COPY (SELECT 1 FROM (SELECT 1",
    "without a bracket": "SELECT i FROM plain; COMMIT; DROP TABLE victim",
    "a comment hides the rest": f"{READ}DROP TABLE victim; COMMIT; --",
    "it writes itself": "WITH gone AS (DELETE FROM victim RETURNING 1) SELECT i FROM plain",
    "the transaction may write": "SELECT set_config('transaction_read_only', 'off', false) AS i FROM plain",
}  # fmt: skip


@pytest.fixture
def victim(server: str) -> Iterator[str]:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE TABLE victim (a int)")
        connection.execute("INSERT INTO victim VALUES (1)")
        yield server
        connection.execute("DROP TABLE victim")


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("entry", ["count", "release", "plan"])
def test_a_query_is_one_statement_that_writes_nothing(
    name: str, entry: str, table: str, victim: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(tempfile.mkdtemp(dir="/tmp")) / "written"  # where the server may write
    file.parent.chmod(0o777)
    query = ESCAPES[name].format(file=file)
    asked = f"{table}&query={quote(query)}"
    domain = Domain(columns={"i": DOMAIN.columns["i"]})
    (tmp_path / "d.toml").write_text(domain.to_toml())
    if entry == "count":
        with pytest.raises(FileProblem) as error:
            confidential(asked, domain)
        told = str(error.value)
        assert "Check the address" in told or "as one SELECT statement. Leave all other statements out" in told
    else:
        given = ["--domain", str(tmp_path / "d.toml"), "--epsilon", "1", "--delta", "1e-6"]
        command = {
            "release": ["release", asked, *given, "--out", str(tmp_path / "out.csv")],
            "plan": ["plan", *given, "--records", "5", "--reference", asked],
        }[entry]
        assert run(command) == 2
        told = capsys.readouterr().err
    assert not file.exists()
    shutil.rmtree(file.parent)
    assert "18014398509481986" not in told
    with psycopg.connect(victim) as connection:
        assert connection.execute("SELECT a FROM victim").fetchall() == [(1,)]


def test_a_query_may_hold_brackets_semicolons_and_comments_of_its_own(table: str) -> None:
    query = "SELECT i, ';)' AS k /* ; ) */ FROM (SELECT i FROM plain WHERE true) AS inner_one -- ;"
    closed = confidential(
        f"{table}&query={quote(query)}", Domain(columns={"i": DOMAIN.columns["i"]}), accept={"other-columns"}
    )
    assert reveal(closed).n == len(NASTY)


def test_what_a_server_shows_is_found_before_anything_is_reserved(table: str, tmp_path: Path) -> None:
    """A backend that dies later costs the budget, and the error says so, and why."""
    ledger = discreet.Ledger.create(tmp_path / "x.ledger", dataset="d", epsilon=9)
    domain, budget = Domain(columns={"i": DOMAIN.columns["i"]}), discreet.Budget(epsilon=1.0)
    how: dict[str, Any] = {"size": 50, "mechanism": "perturbed-histogram", "ledger": ledger}
    accept = {"poor-utility", "data-dependent-refusal"}
    how["accept"] = {*accept, "other-columns"}
    wrong = {
        f"{table}&table=other.labels": "'i': is not in the table",
        f"{table}&table=nowhere": "there is no such table",
        f"{table}&query=SELECT 1 AS i; SELECT 2": "one SELECT statement",
        f"{table.replace('host=', 'host=/nowhere')}&table=plain": "the connection failed or was closed",
    }
    for address, problem in wrong.items():
        with pytest.raises(DiscreetError, match=problem):
            discreet.release(address, domain, budget, **how)
    with pytest.raises(DataError, match="'f': is in the table but not in the domain"):
        discreet.release(f"{table}&table=plain", domain, budget, **how | {"accept": accept})
    assert len(ledger.log()) == 1
    source = open_source(f"{table}&table=plain")
    with psycopg.connect(table, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'discreet'")
    with pytest.raises(FileProblem, match=r"\(the connection failed or was closed\).* This try cost epsilon 1"):
        discreet.release(source, domain, budget, **how)
