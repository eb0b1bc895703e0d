"""Columns of every kind of table, with a declaration each, and what neighbouring tables look like to readers."""

# ruff: noqa: DTZ001 - clock times have no zone

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal as Exact
from typing import Any, NamedTuple

import polars as pl

from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.domain.column import Column

AGE = Integer(lower=0, upper=100)
AGES = Integer(lower=0, upper=100, nulls="category")
LABELS = Category(categories=["low", "mid", "high"])
PLACES = Category(categories=["low", "mid", "high"], nulls="category")
TRUTH = Boolean()
TRUTHS = Boolean(nulls="category")
NUMBER = Numeric(lower=0, upper=1, cells=4)
SINGLE = Numeric(lower=0, upper=1, cells=4, dtype="float32")
PRICE = Decimal(lower="0", upper="99.9", digits=1)
DAY = Date(lower="2020-01-01", upper="2020-12-31")
CLOCK = Datetime(lower="2020-01-01", upper="2020-12-31", step="1h")
MOMENT = Datetime(lower="2020-01-01", upper="2020-12-31", step="1h", time_zone="UTC")
SPAN = Duration(lower="0s", upper="1h", step="1m")

INTS, WORDS, YES = [3, 100, 0], ["mid", "low", "mid"], [True, False, True]
REALS = [0.25, 1.0, 0.0]
EXACT = [Exact("1.5"), Exact("99.9"), Exact("0.0")]
DAYS = [dt.date(2020, 3, 1), dt.date(2020, 12, 31), dt.date(2020, 1, 1)]
TIMES = [dt.datetime(2020, 3, 1, 5), dt.datetime(2020, 12, 31), dt.datetime(2020, 1, 1)]
MOMENTS = [one.replace(tzinfo=dt.UTC) for one in TIMES]
SPANS = [dt.timedelta(minutes=minute) for minute in (0, 7, 60)]


class Cell(NamedTuple):
    """A column: a declaration, values, and the type that it has in a library."""

    column: Column
    held: list[Any]
    type: Any

    @property
    def four(self) -> list[Any]:
        """As many values for each column."""
        return self.held + self.held[:1] * (4 - len(self.held))


def polars_cells() -> list[Cell]:
    enum = pl.Enum(LABELS.categories)
    return [
        Cell(AGE, INTS, pl.Int64), Cell(AGE, INTS, pl.Int8), Cell(AGES, [*INTS, None], pl.UInt16),
        Cell(Category(categories=[3, 100, 0]), INTS, pl.Int16), Cell(NUMBER, REALS, pl.Float64),
        Cell(SINGLE, REALS, pl.Float32), Cell(TRUTHS, YES, pl.Boolean), Cell(LABELS, WORDS, pl.String),
        Cell(LABELS, WORDS, pl.Categorical()), Cell(OpenLabels(), WORDS, pl.Categorical()), Cell(LABELS, WORDS, enum),
        Cell(PRICE, EXACT, pl.Decimal(10, 1)), Cell(PRICE, EXACT, pl.Decimal(38, 1)), Cell(DAY, DAYS, pl.Date),
        Cell(CLOCK, TIMES, pl.Datetime("us")), Cell(MOMENT, MOMENTS, pl.Datetime("us", "UTC")),
        Cell(SPAN, SPANS, pl.Duration("us")),
    ]  # fmt: skip


def arrow_cells() -> list[Cell]:
    import pyarrow as pa

    texts = [pa.string(), pa.large_string(), *([pa.string_view()] if hasattr(pa, "string_view") else [])]
    return [
        Cell(AGE, INTS, pa.int64()), Cell(AGES, [*INTS, None], pa.int8()), Cell(AGE, INTS, pa.uint32()),
        Cell(NUMBER, REALS, pa.float64()), Cell(TRUTH, YES, pa.bool_()), *(Cell(LABELS, WORDS, kind) for kind in texts),
        Cell(LABELS, WORDS, pa.dictionary(pa.int32(), pa.string())),
        Cell(LABELS, WORDS, pa.dictionary(pa.int8(), pa.string(), ordered=True)),
        Cell(PRICE, EXACT, pa.decimal128(10, 1)), Cell(DAY, DAYS, pa.date32()), Cell(CLOCK, TIMES, pa.timestamp("us")),
        Cell(MOMENT, MOMENTS, pa.timestamp("us", "UTC")), Cell(SPAN, SPANS, pa.duration("us")),
    ]  # fmt: skip


def pandas_cells() -> list[Cell]:
    import pandas as pd

    named = [
        (AGE, INTS, "int64"), (AGE, INTS, "int8"), (AGE, INTS, "uint16"), (AGES, [*INTS, None], "Int64"),
        (AGE, INTS, "Int8"), (NUMBER, REALS, "float64"), (NUMBER, REALS, "Float64"), (SINGLE, REALS, "float32"),
        (TRUTH, YES, "bool"), (TRUTHS, [*YES, None], "boolean"), (LABELS, WORDS, "string"),
        (PLACES, [*WORDS, None], "string"), (LABELS, WORDS, pd.Series(["a"]).dtype), (PRICE, EXACT, "object"),
        (DAY, DAYS, "object"), (CLOCK, TIMES, "datetime64[us]"), (MOMENT, MOMENTS, "datetime64[us, UTC]"),
        (SPAN, SPANS, "timedelta64[us]"), (DAY, DAYS, "datetime64[us]"),
        (LABELS, WORDS, pd.CategoricalDtype(list(LABELS.categories))),
        (PLACES, [*WORDS, None], pd.CategoricalDtype(list(LABELS.categories), ordered=True)),
        (Category(categories=[3, 100, 0]), INTS, pd.CategoricalDtype([3, 100, 0])),
    ]  # fmt: skip
    of_arrow = [cell._replace(type=pd.ArrowDtype(cell.type)) for cell in arrow_cells()]
    return [*(Cell(*cell) for cell in named), *of_arrow]


SQL_CELLS = [
    Cell(AGE, INTS, "BIGINT"), Cell(AGE, INTS, "TINYINT"), Cell(AGES, [*INTS, None], "SMALLINT"),
    Cell(NUMBER, REALS, "DOUBLE"), Cell(TRUTH, YES, "BOOLEAN"), Cell(LABELS, WORDS, "VARCHAR"),
    Cell(LABELS, WORDS, "ENUM('low', 'mid', 'high')"), Cell(PRICE, EXACT, "DECIMAL(10,1)"), Cell(DAY, DAYS, "DATE"),
    Cell(CLOCK, TIMES, "TIMESTAMP"), Cell(MOMENT, MOMENTS, "TIMESTAMP WITH TIME ZONE"),
]  # fmt: skip
"""Of DuckDB; Ibis has the same, and no enumerations."""

SPARK_CELLS = [
    Cell(AGE, INTS, "bigint"), Cell(AGE, INTS, "tinyint"), Cell(AGES, [*INTS, None], "smallint"),
    Cell(NUMBER, REALS, "double"), Cell(TRUTH, YES, "boolean"), Cell(LABELS, WORDS, "string"),
    Cell(PRICE, EXACT, "decimal(10,1)"), Cell(DAY, DAYS, "date"), Cell(MOMENT, MOMENTS, "timestamp"),
]  # fmt: skip


class Reader(NamedTuple):
    """A reader of CSV that infers types from values."""

    name: str
    read: Callable[[str], Any]
    types: Callable[[Any], list[str]]


NEIGHBOURS = [
    (AGES, ["1", "2"], ["1", ""]),
    (Integer(lower=0, upper=2**61, out_of_bounds="clip", nulls="category"), ["1", "2"], ["1", str(2**63 + 5)]),
    (Integer(lower=-(2**40), upper=2**40), ["1", "2"], ["1", str(2**40)]),
    (AGES, ["1", "2"], ["1.0", "2.0"]),
    (NUMBER, ["1", "0"], ["1", "0.5"]),
    (Category(categories=["a", "b", "c"], nulls="category"), ["a", "b"], ["a", "c"]),
    (Category(categories=["a", "b", "c"], nulls="category"), ["a", "b"], ["a", ""]),
    (OpenLabels(nulls="category"), ["a", "a"], ["a", "secret"]),
    (TRUTHS, ["True", "False"], ["True", ""]),
]
"""Declarations, and two columns of texts that differ in one."""


def domain_of(cells: list[Cell]) -> Domain:
    return Domain(columns={f"x{place}": cell.column for place, cell in enumerate(cells)})
