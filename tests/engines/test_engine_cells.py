"""Cells that an engine finds are those that encoding finds: every engine, every nasty value, no difference."""

# ruff: noqa: DTZ001 - clock times have no zone

import datetime as dt
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from discreet import Budget, Unit, release
from discreet.confidential import confidential, confidential_rows
from discreet.confidential.closed import reveal
from discreet.confidential.count import public_size
from discreet.confidential.source import cells_of
from discreet.confidential.tables import open_source
from discreet.confidential.workers import EngineCells, SparkCells, code, coded_frame
from discreet.domain import (
    Boolean,
    Category,
    Counts,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
)
from discreet.domain.column import Column
from discreet.errors import DataError, DomainError

NAN, INF = float("nan"), float("inf")
PARIS = ZoneInfo("Europe/Paris")


class Case(NamedTuple):
    """A column, values that fit it, values of which none does, and whether DuckDB finds its cells.

    ``needs``: what an engine must have: unsigned integers, moments of other units than microseconds, clock times, spans
    of time.
    """

    name: str
    column: Column
    values: pl.Series
    misfits: tuple[Any, ...] = ()
    pushed: bool = True
    needs: frozenset[str] = frozenset()


def beside(points: Iterable[float]) -> list[float]:
    """Return numbers and their neighbours on both sides."""
    at = np.array(list(points))
    return [*at.tolist(), *np.nextafter(at, -INF).tolist(), *np.nextafter(at, INF).tolist()]


def numeric(name: str, *extra: float, kind: Any = pl.Float64, **declared: Any) -> Case:
    """Return a numeric column, and all values where its code could change, between its bounds."""
    column = Numeric(**declared, nulls="category")
    if column.grid is not None:
        edges = np.array(column.grid)
        edges = np.concatenate((edges, (edges[1:] + edges[:-1]) / 2))
    elif column.cells is not None:
        edges = column.edges
    else:
        points = column.positions(np.arange(min(column.values or 0, 50)))
        edges = np.concatenate((points, points[:-1] + column.step / 2))
    at = [x for x in beside(edges) if column.lower <= x <= column.upper]
    values = pl.Series([*at, *at[:3], *extra, None, NAN, None]).cast(kind)
    return Case(name, column, values, (INF, -INF, *beside([column.lower])[1:2], *beside([column.upper])[2:]))


def of(name: str, column: Column, values: Iterable[Any], kind: Any, *misfits: Any, **more: Any) -> Case:
    """Return a column with its values and nulls."""
    return Case(name, column, pl.Series([*values, None, None], dtype=kind), misfits, **more)


def clipped(case: Case) -> Case:
    """Return the same column where values outside the bounds are moved."""
    facts = {key: value for key, value in case.column.to_dict().items() if key != "type"}
    column = type(case.column)(**{**facts, "out_of_bounds": "clip"})
    outside = pl.Series(case.misfits, dtype=case.values.dtype)
    return case._replace(
        name=f"{case.name}, clipped", column=column, values=pl.concat([case.values, outside]), misfits=()
    )


DAYS = [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1900, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 12, 31)]
CLOCK = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    *(dt.datetime(2024, 3, 31, hour, minute, second, part) for hour, minute, second, part in
      ((0, 0, 0, 0), (0, 29, 59, 999_999), (0, 30, 0, 0), (0, 30, 0, 1), (1, 30, 0, 0), (2, 30, 0, 0), (3, 0, 0, 0))),
]  # fmt: skip
MOMENTS = [one.replace(tzinfo=dt.UTC).astimezone(PARIS) for one in CLOCK]
WORDS = ["\u00e9", "e\u0301", "E\u0301", "", " ", "a", "A", "a ", "'", '"', "null", "NaN", "\\", "%", "\u6771\u4eac",
         "\ufeff", "a|b"]  # fmt: skip
SINCE, UNTIL = dt.datetime(1950, 1, 1), dt.datetime(2030, 1, 1)
HOURS = Datetime(lower=SINCE, upper=UNTIL, step="1h", nulls="category")
ZONED = Datetime(lower=SINCE, upper=UNTIL, step="1h", time_zone="Europe/Paris", nulls="category", cells=999)
BIG = [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, -(2**53) - 1, 0, -1, 2**60]
LONG = Integer(lower=-(2**54), upper=2**60, nulls="category")
PRICES = [Exact(text) for text in ("0.00", "0.01", "0.10", "99.99", "33.33", "33.34", "66.66", "66.67", "50.00")]
SPANS = [dt.timedelta(seconds=second) for second in (0, 29, 30, 31, 90, 3600)]

CASES = [
    numeric("linear", -0.0, 5e-324, lower=0, upper=1, cells=10),
    numeric("linear, off centre", lower=-0.3, upper=1000.7, cells=97),
    numeric("linear, around zero", -0.0, -5e-324, lower=-1, upper=1, cells=2),
    numeric("linear, one cell", lower=0, upper=1, cells=1),
    numeric("linear, edges an ulp apart", lower=2.0**53, upper=2.0**53 + 200, cells=90),
    numeric("linear, thousands", lower=-7.7, upper=1e6, cells=2000),
    clipped(numeric("linear bounds", -0.0, lower=0.1, upper=0.7, cells=6)),
    numeric("logarithmic", lower=1e-9, upper=1e6, cells=50, spacing="log"),
    numeric("logarithmic, few", lower=1, upper=1000, cells=3, spacing="log"),
    clipped(numeric("logarithmic bounds", lower=0.1, upper=1e6, cells=100, spacing="log")),
    numeric("atoms", -0.0, 5e-324, lower=0, upper=1, cells=10, atoms=[0, 0.25, 0.3, 1]),
    clipped(numeric("logarithmic atoms", lower=0.1, upper=1e6, cells=10, spacing="log", atoms=[0.1, 1])),
    of("atoms of integers", Integer(lower=-5, upper=94, cells=7, atoms=[-5, 0], nulls="category"), range(-5, 95),
       pl.Int64, 95),
    of("atoms of days", Date(lower="1900-01-01", upper="2024-12-31", cells=20, atoms=["1970-01-01"], nulls="category"),
       DAYS, pl.Date, dt.date(1899, 12, 31)),
    numeric("grid", -0.0, lower=-1, upper=1, grid=[-1, -0.5, -0.1, 0.0, 0.1, 0.30000000000000004, 1]),
    clipped(numeric("grid bounds", lower=0, upper=10, grid=[0, 1, 2, 5])),
    numeric("step of a half", -0.0, lower=0, upper=20, step=0.5),
    numeric("step of a tenth", lower=0.05, upper=2.0, step=0.1),
    clipped(numeric("step bounds", lower=-1, upper=7, step=3)),
    Case("float32", Numeric(lower=0, upper=1, cells=10, nulls="category"),
         pl.Series([0.1, 0.2, 0.3, 0.7, 1.0, -0.0, NAN, None], dtype=pl.Float32), (INF,)),
    of("whole numbers as numbers", Numeric(lower=0, upper=2**60, cells=7, nulls="category"), BIG[:4], pl.Int64, -1),
    of("unsigned numbers", Numeric(lower=0, upper=2.0**64, cells=5, nulls="category"),
       [0, 2**53 + 1, 2**64 - 1], pl.UInt64, needs=frozenset({"unsigned"})),
    of("decimals as numbers", Numeric(lower=0, upper=100, cells=7, nulls="category"), PRICES, pl.Decimal(10, 2),
       Exact("100.01"), Exact("-0.01")),
    of("decimals on edges", Numeric(lower=0, upper=1, cells=1000, nulls="category"),
       [Exact(place).scaleb(-3) for place in range(1001)], pl.Decimal(15, 3), Exact("1.001")),
    of("decimals to the last digit", Numeric(lower=0.1, upper=0.7, cells=6, out_of_bounds="clip", nulls="category"),
       [Exact(place).scaleb(-14) + Exact(tenth) / 10 for tenth in range(1, 8) for place in (-1, 0, 1)],
       pl.Decimal(15, 14)),
    of("decimals with a step", Numeric(lower=0, upper=2, step=0.1, nulls="category"),
       [Exact(place).scaleb(-2) for place in range(201)], pl.Decimal(12, 2), Exact("2.01")),
    of("decimals too long for numbers", Numeric(lower=0, upper=100, cells=7, nulls="category"), PRICES,
       pl.Decimal(18, 2), Exact("100.01"), pushed=False),
    of("integers", LONG, BIG, pl.Int64, 2**60 + 1, -(2**63)),
    of("integers of 8 bits", Integer(lower=-128, upper=100, cells=7, nulls="category"), range(-128, 101), pl.Int8, 127),
    clipped(of("integer bounds", Integer(lower=0, upper=10, nulls="category"), range(11), pl.Int64, -1, 11, 2**63 - 1)),
    of("integers in groups", Integer(lower=-5, upper=94, cells=7, nulls="category"), range(-5, 95), pl.Int64, 95),
    of("more cells than integers", Integer(lower=1, upper=9, cells=20, nulls="category"), range(1, 10), pl.Int64, 0),
    of("integers in logarithmic groups", Integer(lower=1, upper=500, cells=9, spacing="log", nulls="category"),
       range(1, 501), pl.Int32, 0),
    of("unsigned integers", Integer(lower=0, upper=2**61, nulls="category"), [0, 1, 2**53 + 1], pl.UInt64, 2**64 - 1,
       needs=frozenset({"unsigned"})),
    Case("integers as floats", LONG, pl.Series([-0.0, 1.0, 2.0**53, NAN, None, 2.0**60]), (0.5, INF, -1e300, 1e300)),
    of("booleans", Boolean(nulls="category"), [True, False, True], pl.Boolean),
    of("truth as categories", Category(categories=[True], nulls="category"), [True, True], pl.Boolean, False),
    of("labels", Category(categories=WORDS[::-1], nulls="category"), WORDS * 2, pl.String, "b", "\u00c9", "  "),
    of("labels of an enumeration", Category(categories=["a", "A", ""], nulls="category"), ["a", "A", ""],
       pl.Enum(["A", "a", "", "z"]), "z"),
    of("a label with a NUL", Category(categories=["a\0b", "a"], nulls="category"), ["a\0b", "a"], pl.String, "b",
       pushed=False),
    of("codes", Category(categories=[3, 2**53 + 1, -1], nulls="category"), [3, 2**53 + 1, -1], pl.Int64, 2**53),
    Case("codes as floats", Category(categories=[3, 0, 2**53 + 1, 2**53], nulls="category"),
         pl.Series([3.0, -0.0, 2.0**53, NAN, None]), (3.5, INF, 2.0**63)),
    of("open labels", OpenLabels(nulls="category"), WORDS * 2, pl.String, "new_category_7", pushed=False),
    Case("continuous", Numeric(lower=-1, upper=1, nulls="category"), pl.Series([0.0, -0.0, 5e-324, 0.1, NAN, None]),
         (INF, 1.0000000000000002), pushed=False),
    of("days", Date(lower="1800-01-01", upper="2100-01-01", nulls="category"), DAYS, pl.Date, dt.date(2100, 1, 2)),
    of("groups of days", Date(lower="1900-01-01", upper="2024-12-31", cells=20, nulls="category"), DAYS, pl.Date,
       dt.date(1899, 12, 31)),
    of("days as clock times", Date(lower="1900-01-01", upper="2024-12-31", nulls="category"),
       [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29)], pl.Datetime("us"), CLOCK[0], UNTIL,
       needs=frozenset({"clock"})),
    of("clock times", HOURS, CLOCK, pl.Datetime("us"), dt.datetime(1949, 12, 31), needs=frozenset({"clock"})),
    of("days at midnight", HOURS, DAYS[:2], pl.Date, DAYS[2]),
    of("clock times in milliseconds", HOURS, CLOCK, pl.Datetime("ms"), dt.datetime(1949, 12, 31),
       needs=frozenset({"clock", "ms"})),
    of("clock times in nanoseconds", HOURS, CLOCK, pl.Datetime("ns"), dt.datetime(1949, 12, 31),
       needs=frozenset({"clock", "ns"})),
    Case("beside microseconds", Datetime(lower="1969-12-31T23:59:59", upper="1970-01-01T00:00:01", step="1us",
                                         nulls="category"),
         pl.Series([0, -1, 1, -999, -1000, -1001, 999, 1000, 1001, 10**9, -(10**9), None]).cast(pl.Datetime("ns")),
         (dt.datetime(1971, 1, 1),), needs=frozenset({"clock", "ns"})),
    of("days as nanoseconds", Date(lower="1900-01-01", upper="2024-12-31", nulls="category"),
       [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29), dt.datetime(1970, 1, 1)], pl.Datetime("ns"),
       CLOCK[0], UNTIL, needs=frozenset({"clock", "ns"})),
    of("days as milliseconds", Date(lower="1900-01-01", upper="2024-12-31", cells=9, nulls="category"),
       [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29)], pl.Datetime("ms"), UNTIL,
       needs=frozenset({"clock", "ms"})),
    of("moments", ZONED, MOMENTS, pl.Datetime("us", "Europe/Paris"), dt.datetime(2031, 1, 1, tzinfo=PARIS)),
    clipped(of("bounds of moments", ZONED, MOMENTS, pl.Datetime("us", "UTC"), dt.datetime(9999, 1, 1, tzinfo=dt.UTC))),
    of("decimals", Decimal(lower="0", upper="99.99", digits=2, nulls="category"), PRICES, pl.Decimal(10, 2),
       Exact("100.00"), Exact("-0.01")),
    of("groups of decimals", Decimal(lower="0", upper="99.99", digits=2, cells=3, nulls="category"), PRICES,
       pl.Decimal(18, 2), Exact(10**12)),
    of("decimals with more digits", Decimal(lower="0", upper="99.99", digits=2, nulls="category"),
       [Exact("0.1000"), Exact("99.9900")], pl.Decimal(12, 4), Exact("0.0001"), Exact("1234.00")),
    of("decimals with fewer digits", Decimal(lower="0", upper="4", digits=18, nulls="category"),
       [Exact("0.1"), Exact("4.0")], pl.Decimal(9, 1), Exact("4.1"), Exact("-0.1")),
    of("long decimals", Decimal(lower="0", upper="99.99", digits=2, nulls="category"), PRICES, pl.Decimal(38, 18),
       Exact("0.001"), pushed=False),
    of("whole numbers as decimals", Decimal(lower="-5", upper="99", digits=2, nulls="category"), [-5, 0, 99], pl.Int64,
       100, 2**63 - 1),
    of("spans of time", Duration(lower="0s", upper="1h", step="1m", nulls="category"), SPANS, pl.Duration("us"),
       dt.timedelta(hours=2), pushed=False, needs=frozenset({"span"})),
]  # fmt: skip


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
def test_no_engine_differs_on_any_nasty_value(engine: str, put: Any, raw: list[str]) -> None:
    """The matrix of engines and nasty values: how many cells have other counts than in memory."""
    wrong = {}
    for case in CASES:
        if case.needs & LACKS[engine]:
            continue
        domain = Domain(columns={"x": case.column})
        frame = pl.DataFrame({"x": case.values, "other": 1})
        here = tally(reveal(confidential(frame, domain, accept={"other-columns"})))
        data = put(frame, engine)
        raw.clear()
        there = tally(reveal(confidential(data, domain, accept={"other-columns"})))
        rows = reveal(confidential_rows(data, domain, accept={"other-columns"}))
        streamed: Counter[tuple[Any, ...]] = sum((tally(part) for part in rows.parts()), Counter())
        cells = cells_of(open_source(data), domain)
        wrong[case.name] = differences(here, there) + differences(here, streamed)
        assert not raw, case.name
        assert (cells is not None) == (engine in ("dask", "pyspark")), case.name
    assert not sum(wrong.values()), wrong


def total(place: int, case: Case) -> Case:
    """Return a column that takes every value, one way of a few, and all values and misfits of a case."""
    modes = case.column._choices["out_of_bounds"][1:]
    facts = {"out_of_bounds": modes[place % len(modes)], "nulls": "error" if place % 3 else "category"}
    try:
        column = replace(case.column, **facts)
    except DomainError:
        column = replace(case.column, out_of_bounds="null", nulls="category")
    misfits = pl.Series(case.misfits, dtype=case.values.dtype)
    return case._replace(
        name=f"{case.name}, {column.out_of_bounds}", column=column, values=pl.concat([case.values, misfits])
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_differs_on_values_that_do_not_fit(engine: str, put: Any) -> None:
    cases = [total(place, case) for place, case in enumerate(CASES)]
    assert {case.column.out_of_bounds for case in cases} == {"clip", "null", "other"}
    for case in cases:
        if not case.needs & LACKS[engine]:
            domain, frame = Domain(columns={"x": case.column}), pl.DataFrame({"x": case.values})
            here, there = (tally(reveal(confidential(data, domain))) for data in (frame, put(frame, engine)))
            assert here == there, case.name
            assert sum(here.values()) == len(case.values)


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
    records = EngineCells.records

    def watched(self: Any, frame: pl.DataFrame) -> Any:
        heights.append(frame.height)
        return records(self, frame)

    monkeypatch.setattr(EngineCells, "records", watched)
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


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_of_marginals_are_made_where_the_rows_are(
    engine: str, put: Any, raw: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is that of the table in memory, and takes no joint counts. All codes are more than Spark may send."""
    rng = np.random.default_rng(3)
    domain = Domain(
        columns={name: Integer(lower=0, upper=9) for name in "abcdef"} | {"s": OpenLabels(nulls="category")},
        order=["a", "b"],  # which half of the rows are moved for
    )
    frame = pl.DataFrame({name: rng.integers(0, 10, 100_000) for name in "abcdef"}).with_columns(
        s=pl.col("a").replace({9: None}).cast(pl.String)
    )
    asked = {"mechanism": "marginals", "size": 100, "seed": 1, "accept": {"poor-utility"}}
    here, data = release(frame, domain, Budget(epsilon=2.0, delta=1e-6), **asked), put(frame, engine)
    monkeypatch.delattr("discreet._release.confidential")
    there = release(data, domain, Budget(epsilon=2.0, delta=1e-6), **asked)
    assert not raw
    assert nw.from_native(there.table()).lazy().collect("polars").to_native().equals(here.table())
    outside = pl.concat([frame, frame.head(1).with_columns(b=pl.lit(77, dtype=pl.Int64))])
    with pytest.raises(DataError, match="column 'b'") as refused:
        release(put(outside, engine), domain, Budget(epsilon=2.0, delta=1e-6), **asked)
    assert "77" not in str(refused.value)


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


@pytest.mark.engines
def test_no_database_behind_ibis_groups_texts_by_its_own_collation(tmp_path: Path) -> None:
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
    """They would leave DuckDB as moments beside 1970, or of 2262."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    table = duckdb.connect().sql(f"SELECT unnest(['infinity'::{kind}, '-infinity'::{kind}, '2000-01-01'::{kind}]) AS t")
    bounds = {"lower": "1900-01-01", "upper": "2500-12-31", "step": "1h"}
    with pytest.raises(DataError):
        confidential(table, Domain(columns={"t": Datetime(**bounds)}))
    clip = Domain(columns={"t": Datetime(**bounds, cells=3, out_of_bounds="clip")})
    assert tally(reveal(confidential(table, clip))) == Counter({(0,): 2, (2,): 1})
    bounds = {"lower": "1900-01-01", "upper": "2500-12-31", "cells": 3}
    with pytest.raises(DataError):  # they are no days
        confidential(table, Domain(columns={"t": Date(**bounds)}))
    days = Domain(columns={"t": Date(**bounds, out_of_bounds="clip")})
    assert tally(reveal(confidential(table, days))) == Counter({(0,): 2, (2,): 1})


@pytest.mark.parametrize(("unit", "texts", "bounds", "step"), [
    ("NS", [f"{day} 23:59:59.99999{end}" for day in ("1969-12-31", "2000-01-01") for end in ("8999", "9000", "9999")],
     ("1969-12-31", "2001-01-01"), "1us"),  # rounded down as here
    ("S", ["1969-12-31 23:59:59", "2024-02-29 12:30:00", "1950-01-01 00:00:00"],
     ("1950-01-01", "2030-01-01"), "1h"),  # Polars has no such unit
])  # fmt: skip
def test_nanoseconds_and_seconds_of_duckdb(unit: str, texts: list[str], bounds: tuple[str, str], step: str) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    table = duckdb.connect().sql(f"SELECT unnest({texts}::TIMESTAMP_{unit}[]) AS t")
    domain = Domain(columns={"t": Datetime(lower=bounds[0], upper=bounds[1], step=step)})
    data = pl.DataFrame({"t": pl.Series(texts).str.to_datetime(time_unit="ns")})
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
