"""Cells that an engine finds are those that encoding finds: every engine, every nasty value, no difference."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from nasty import CASES

from discreet import Budget, Unit, release
from discreet.confidential import confidential, confidential_rows
from discreet.confidential.cells import Cells, coded_frame
from discreet.confidential.closed import reveal
from discreet.confidential.count import public_size
from discreet.confidential.source import cells_of, open_source
from discreet.confidential.workers import SparkCells, code
from discreet.domain import Boolean, Category, Counts, Date, Datetime, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore")

ENGINES = ["lazy", "duckdb", *(pytest.param(name, marks=pytest.mark.engines) for name in ("dask", "ibis", "pyspark"))]
LACKS = {  # what an engine has no type for, or changes before it counts
    "duckdb": {"span"},  # its intervals have months
    "ibis": {"span"},
    "dask": set(),
    "pyspark": {"unsigned", "clock", "ms", "ns"},
    "lazy": set(),
}


def tally(counts: Counts) -> Counter[tuple[Any, ...]]:
    rows = zip(*counts.records.columns, strict=True)
    found: Counter[tuple[Any, ...]] = Counter()
    for row, frequency in zip(rows, counts.frequencies, strict=True):
        found[tuple("null" if isinstance(c, float) and np.isnan(c) else c for c in row)] += int(frequency)
    return found


def differences(a: Counter[Any], b: Counter[Any]) -> int:
    return sum(a[key] != b[key] for key in {*a, *b})


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_differs_on_any_nasty_value(
    engine: str, put: Any, raw: list[str], matrix: dict[str, dict[str, str]]
) -> None:
    """The matrix of engines and nasty values: how many cells have other counts than in memory."""
    told = []
    for case in CASES:
        if case.needs & LACKS[engine]:
            told.append((case.name, "no such type", 0))
            continue
        domain = Domain(columns={"x": case.column})
        frame = pl.DataFrame({"x": case.values, "other": 1})
        here = tally(reveal(confidential(frame, domain, accept={"other-columns"})))
        data = put(frame, engine)
        raw.clear()
        there = tally(reveal(confidential(data, domain, accept={"other-columns"})))
        rows = reveal(confidential_rows(data, domain, accept={"other-columns"}))
        streamed: Counter[tuple[Any, ...]] = sum((tally(part) for part in rows.parts()), Counter())
        cells = cells_of(open_source(data), domain.columns)
        found = "encoded" if cells is None else "cells" if cells.coded("x") else "values"
        told.append((case.name, found, differences(here, there) + differences(here, streamed)))
        assert not raw, case.name
        if engine in ("dask", "pyspark"):
            assert (found == "cells") == case.column.finite, case.name
        else:
            assert found == "encoded", case.name
    matrix[engine] = {name: f"{wrong} ({found})" for name, found, wrong in told}
    assert not sum(wrong for *_, wrong in told), told


@pytest.mark.engines
def test_spark_counts_simple_columns_without_python(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the broken twin: an expression that is an ulp off is noticed by the matrix's comparison."""
    columns = {
        "x": Numeric(lower=0, upper=1, cells=10, nulls="category"),
        "age": Integer(lower=0, upper=99, cells=7),
        "sex": Category(categories=["f", "m"], nulls="category"),
        "tall": Boolean(nulls="category"),
    }
    rng = np.random.default_rng(0)
    edges = np.linspace(0, 1, 11)
    x = np.concatenate((edges, np.nextafter(edges[1:], 0), np.nextafter(edges[:-1], 1)))
    frame = pl.DataFrame(
        {
            "x": pl.Series([*x, float("nan"), None]),
            "age": rng.integers(0, 100, len(x) + 2),
            "sex": pl.Series(["f", "m", None])[rng.integers(0, 3, len(x) + 2)],
            "tall": pl.Series([True, False, None])[rng.integers(0, 3, len(x) + 2)],
        }
    )
    data, domain = spark.createDataFrame(frame.to_arrow()), Domain(columns=columns)
    monkeypatch.delattr(SparkCells, "_mapped")
    right = tally(reveal(confidential(frame, domain)))
    assert tally(reveal(confidential(data, domain))) == right

    def naive(column: Any, x: Any, kind: Any) -> Any:
        found = code(column, x, kind)
        return (x * 10 + 1e-15).cast("bigint") if isinstance(column, Numeric) else found

    monkeypatch.setattr("discreet.confidential.workers.code", naive)
    inside, whole = frame.filter(pl.col("x") < 1), spark.createDataFrame(frame.filter(pl.col("x") < 1).to_arrow())
    assert tally(reveal(confidential(whole, domain))) != tally(reveal(confidential(inside, domain)))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_does_not_fit_is_refused_in_the_same_words(engine: str, put: Any) -> None:
    few = engine != "lazy"
    for case in CASES:
        if case.needs & LACKS[engine]:
            continue
        domain = Domain(columns={"x": case.column})
        for misfit in case.misfits[:1] if few else case.misfits:
            values = pl.concat([case.values, pl.Series([misfit], dtype=case.values.dtype)])
            with pytest.raises(DataError) as here:
                confidential(pl.DataFrame({"x": values}), domain)
            with pytest.raises(DataError) as there:
                confidential(put(pl.DataFrame({"x": values}), engine), domain)
            assert str(there.value) == str(here.value), case.name
            assert there.value.__context__ is None


@pytest.mark.parametrize("engine", ENGINES)
def test_at_most_one_row_per_occupied_joint_cell_leaves_an_engine(
    engine: str, put: Any, raw: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand distinct numbers and moments, and a few cells."""
    if engine not in ("dask", "pyspark"):
        pytest.skip("read in this process")
    heights = []
    records = Cells.records

    def watched(self: Any, frame: pl.DataFrame) -> Any:
        heights.append(frame.height)
        return records(self, frame)

    monkeypatch.setattr(Cells, "records", watched)
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.random(100_000), "k": rng.integers(0, 10**9, 100_000)})
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, cells=5), "k": Integer(lower=0, upper=10**9, cells=3)})
    counts = reveal(confidential(put(frame, engine), domain))
    assert tally(counts) == tally(reveal(confidential(frame, domain)))
    assert heights == [15]
    assert not raw


@pytest.mark.parametrize("engine", ENGINES)
def test_columns_together(engine: str, put: Any) -> None:
    """Joint cells of columns with and without cells, and nulls in all of them."""
    cases = [case for case in CASES if not case.needs and "label" not in case.name]
    rng = np.random.default_rng(1)
    for _ in range(2 if engine in ("pyspark", "dask") else 8):
        some = [cases[place] for place in rng.permutation(len(cases))[:5]]
        domain = Domain(columns={f"column {place}": case.column for place, case in enumerate(some)})
        frame = pl.DataFrame(
            {
                f"column {place}": case.values[rng.integers(0, min(len(case.values), 6), 300)]
                for place, case in enumerate(some)
            }
        )
        closed = confidential(put(frame, engine), domain)
        assert tally(reveal(closed)) == tally(reveal(confidential(frame, domain)))
        assert public_size(closed) == frame.height
        assert closed.provenance.frame_kind == ("polars" if engine == "lazy" else engine)


# -- what only one engine has ------------------------------------------------------------------------------------------


def test_labels_are_told_apart_whatever_the_collation() -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t (a VARCHAR COLLATE NOCASE, b VARCHAR COLLATE NOACCENT, who VARCHAR COLLATE NOCASE)"
    )
    connection.execute("INSERT INTO t VALUES ('x', 'e', 'p'), ('X', 'é', 'P'), ('x', 'e', 'p')")
    domain = Domain(columns={"a": Category(categories=["x", "X"], nulls="category"), "b": OpenLabels(nulls="category")})
    counts = reveal(confidential(connection.table("t"), domain, accept={"other-columns"}))
    assert tally(counts) == Counter({(0, "e"): 2, (1, "é"): 1})
    slots = reveal(confidential(connection.table("t"), domain, unit=Unit("who", max_records=2)))
    assert tally(slots) == Counter({(0, "e"): 2, (1, "é"): 1, (2, None): 1})


def test_no_database_groups_texts_by_its_own_collation() -> None:
    """Where raw values are taken: one row more could otherwise give all of a label's rows to another label."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (a VARCHAR COLLATE NOCASE, n INTEGER)")
    connection.execute("INSERT INTO t VALUES ('x', 1), ('X', 1), ('x', 1), (NULL, 2)")
    domain = Domain(columns={"a": Category(categories=["x", "X"], nulls="category"), "n": Integer(lower=0, upper=9)})
    assert tally(reveal(confidential(connection.table("t"), domain))) == Counter({(0, 1): 2, (1, 1): 1, (2, 2): 1})


@pytest.mark.engines
def test_no_database_behind_ibis_does(tmp_path: Path) -> None:
    ibis = pytest.importorskip("ibis", reason="Ibis is not installed")
    pytest.importorskip("ibis.backends.sqlite", reason="Ibis has no SQLite here")
    with closing(sqlite3.connect(tmp_path / "t.db")) as database, database:
        database.execute("CREATE TABLE t (a TEXT COLLATE NOCASE)")
        database.executemany("INSERT INTO t VALUES (?)", [("x",), ("X",), ("x",)])
    backend = ibis.sqlite.connect(tmp_path / "t.db")
    domain = Domain(columns={"a": Category(categories=["x", "X"])})
    assert tally(reveal(confidential(backend.table("t"), domain))) == Counter({(0,): 2, (1,): 1})


def test_infinite_days_of_duckdb_lie_outside() -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    table = duckdb.connect().sql("SELECT unnest(['infinity'::DATE, '-infinity'::DATE, '2000-01-01'::DATE]) AS d")
    bounds = {"lower": "1990-01-01", "upper": "2010-12-31"}
    with pytest.raises(DataError, match="outside"):
        confidential(table, Domain(columns={"d": Date(**bounds)}))
    clip = Domain(columns={"d": Date(**bounds, cells=3, out_of_bounds="clip")})
    assert reveal(confidential(table, clip)).frequencies.tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS"])
def test_infinite_moments_of_duckdb_lie_outside(kind: str) -> None:
    """They would leave DuckDB as moments beside 1970, or of 2262: those of nanoseconds are refused."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    table = duckdb.connect().sql(f"SELECT unnest(['infinity'::{kind}, '-infinity'::{kind}, '2000-01-01'::{kind}]) AS t")
    bounds = {"lower": "1900-01-01", "upper": "2500-12-31", "step": "1h"}
    with pytest.raises(DataError):
        confidential(table, Domain(columns={"t": Datetime(**bounds)}))
    clip = Domain(columns={"t": Datetime(**bounds, cells=3, out_of_bounds="clip")})
    if kind == "TIMESTAMP_NS":
        with pytest.raises(DataError):
            confidential(table, clip)
    else:
        assert tally(reveal(confidential(table, clip))) == Counter({(0,): 2, (2,): 1})
    days = Domain(columns={"t": Date(lower="1900-01-01", upper="2500-12-31", out_of_bounds="clip", cells=3)})
    with pytest.raises(DataError):  # they are no days
        confidential(table, days)


def test_seconds_of_duckdb() -> None:
    """Polars has no such unit."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    texts = ["1969-12-31 23:59:59", "2024-02-29 12:30:00", "1950-01-01 00:00:00"]
    table = duckdb.connect().sql(f"SELECT unnest({texts}::TIMESTAMP_S[]) AS t")
    domain = Domain(columns={"t": Datetime(lower="1950-01-01", upper="2030-01-01", step="1h")})
    data = pl.DataFrame({"t": pl.Series(texts).str.to_datetime()})
    assert tally(reveal(confidential(table, domain))) == tally(reveal(confidential(data, domain)))


def test_parts_of_a_table_are_coded_without_an_error() -> None:
    """What does not fit has a code of its own, whatever is wrong with it."""
    for case in CASES:
        if not case.column.finite:
            continue
        values = pl.concat([case.values, pl.Series(case.misfits, dtype=case.values.dtype)])
        codes = coded_frame(pl.DataFrame({"x": values}), {"x": case.column})["x"]
        assert (codes == -1).sum() == len(case.misfits), case.name
        assert codes.head(len(case.values)).to_list() == case.column.encode(case.values).tolist()
    strict = Integer(lower=0, upper=9)
    assert coded_frame(pl.DataFrame({"x": [1, None]}), {"x": strict})["x"].to_list() == [1, -1]


def test_a_batch_of_rows_is_bounded(put: Any) -> None:
    """A table of DuckDB is streamed: no batch holds it."""
    data = put(pl.DataFrame({"x": np.linspace(0, 1, 300_000)}), "duckdb")
    heights = [batch.height for batch in open_source(data).batches(["x"])]
    assert sum(heights) == 300_000
    assert max(heights) <= 2**17


@pytest.mark.parametrize("engine", ENGINES)
def test_a_wide_release_is_the_same_wherever_the_table_is(
    engine: str, put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marginals stream codes from an engine: no joint counts are taken."""
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({name: rng.integers(0, 4, 400) for name in "abcd"})
    domain = Domain(columns={name: Integer(lower=0, upper=3) for name in "abcd"})
    facts: dict[str, Any] = {
        "budget": Budget(epsilon=2.0, delta=1e-6),
        "size": 100,
        "mechanism": "marginals",
        "seed": 3,
    }
    here = release(frame, domain, accept={"poor-utility"}, **facts)
    data = put(frame, engine)
    monkeypatch.delattr("discreet._release.confidential")
    there = release(data, domain, accept={"poor-utility"}, **facts)
    assert there.table().equals(here.table())
