"""Values that an engine could put into another cell than encoding does, and declarations for them."""

# ruff: noqa: DTZ001 - clock times have no zone

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal as Exact
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Duration, Integer, Numeric, OpenLabels
from discreet.domain.column import Column

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
