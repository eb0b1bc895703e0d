"""Where ``out_of_bounds`` is no error, no value of a type that a column takes is refused, and each has one cell."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet.confidential import confidential
from discreet.confidential.closed import reveal
from discreet.domain import (
    Boolean,
    Category,
    Column,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
)
from discreet.errors import DataError, DomainError

INF, NAN = float("inf"), float("nan")
BOUNDED: dict[str, Column] = {
    "continuous": Numeric(lower=1, upper=10),
    "cells": Numeric(lower=1, upper=10, cells=5),
    "step": Numeric(lower=1, upper=10, step=0.5),
    "grid": Numeric(lower=1, upper=10, grid=[1, 2, 10]),
    "integer": Integer(lower=1, upper=10),
    "grouped": Integer(lower=1, upper=10, cells=3),
    "decimal": Decimal(lower="0.50", upper="9.99", digits=2),
    "date": Date(lower="2020-01-01", upper="2020-12-31"),
    "datetime": Datetime(lower="2020-01-01", upper="2020-12-31", step="1h"),
    "zoned": Datetime(lower="2020-01-01", upper="2020-12-31", step="1h", time_zone="Europe/Paris"),
    "duration": Duration(lower="0s", upper="1h", step="1m"),
}
LABELS: dict[str, Column] = {
    "boolean": Boolean(),
    "texts": Category(categories=["a", "b"]),
    "ordered": Category(categories=["a", "other", "b"], ordered=True),
    "numbers": Category(categories=[3, 1]),
    "truths": Category(categories=[True, False]),
    "open": OpenLabels(),
}
WORDS = [
    "a", "b", "other", "true", "TRUE", "maybe", "", "\0", "é" * 10_000, "new_category_1", "'=x", "1", "1.5", "1e5",
    "1e400", "-1e400", "nan", "inf", "9" * 30, "9" * 500, "-" + "9" * 30, "0.1234567890123456789012", "2020-02-30",
    "2020-05-05", "99999-01-01", "2020-05-05T25:00", "2020-03-29T02:30", "2020-05-05T10:00:00Z", "5m", "999999999d",
    "-999999999d", "9" * 40 + "d", " 5 ", "0x10", None,
]  # fmt: skip


def totals() -> Iterator[Any]:
    for name, column in (BOUNDED | LABELS).items():
        for mode in column._choices["out_of_bounds"][1:]:
            for nulls in ("error", "category"):
                if (mode, nulls) != ("null", "error") and (mode, name) not in (
                    ("other", "numbers"),
                    ("other", "truths"),
                ):
                    yield pytest.param(replace(column, out_of_bounds=mode, nulls=nulls), id=f"{name}-{mode}-{nulls}")


def everything() -> Iterator[pl.Series]:
    """Yield the ends of every physical type, and what lies around zero and around the bounds."""
    for bits in (8, 16, 32, 64, 128):
        for kind, low, high in (("Int", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1), ("UInt", 0, 2**bits - 1)):
            yield pl.Series([low, 0, 1, high, None], dtype=getattr(pl, f"{kind}{bits}"))
    yield pl.Series([0.0, -0.0, 5.5, 0.25, 1e300, -1e300, INF, -INF, NAN, 5e-324, None])
    yield pl.Series([5.5, 1e38, INF, -INF, NAN, None], dtype=pl.Float32)
    for scale in (0, 2, 18, 37):
        values = [Exact(f"{number}E-{scale}") for number in (10**38 - 1, 1 - 10**38, 0, 1)]
        yield pl.Series([*values, None], dtype=pl.Decimal(38, scale))
    raw = pl.Series([0, -1, 2**63 - 1, -(2**63), 1577836800000, 1577836800000000, 1577836800000000001, None])
    for unit in ("ms", "us", "ns"):
        yield from (raw.cast(pl.Datetime(unit, zone)) for zone in (None, "UTC", "Europe/Paris"))  # type: ignore[arg-type]
        yield raw.cast(pl.Duration(unit))  # type: ignore[arg-type]
    yield pl.Series([0, 2**31 - 1, -(2**31), 18262, None], dtype=pl.Int32).cast(pl.Date)
    yield pl.Series([True, False, None])
    yield from (pl.Series(WORDS), pl.Series(WORDS).cast(pl.Categorical), pl.Series([None], dtype=pl.Null))


@pytest.mark.parametrize("column", [*totals()])
def test_no_value_is_refused_and_none_depends_on_the_others(column: Column) -> None:
    for values in [*everything(), column.parse(pl.Series(WORDS))]:
        if values.dtype == pl.Null or column._accepts(values.dtype):
            codes = column.encode(values).tolist()
            alone = [column.encode(values[place : place + 1]).tolist()[0] for place in range(len(values))]
            assert list(map(repr, alone)) == list(map(repr, codes)), values.dtype
            if column.finite:
                assert set(codes) <= set(range(column.size or 0))
            elif not column.open:
                assert all((code != code and column.nullable) or 1 <= code <= 10 for code in codes)


@pytest.mark.parametrize(
    ("name", "values", "codes"),
    [
        ("continuous", [-INF, 0.0, 10.5, INF, NAN, None], [1, 1, 10, 10, 1, 1]),
        ("grid", [-INF, 5.9, 6.1, INF, NAN], [0, 1, 2, 2, 0]),
        ("integer", [-1e300, 3.4, 3.6, INF, NAN], [0, 2, 3, 9, 0]),
        ("integer", [-5, 2**62, None], [0, 9, 0]),
        ("decimal", [Exact("1e30"), Exact("-1e30"), Exact("1.006"), None], [949, 0, 51, 0]),
        ("date", [32503680000, 1578009540, -62135596800, None], [365, 1, 0, 0]),
        ("duration", [dt.timedelta(days=1), -dt.timedelta(days=1), None], [60, 0, 0]),
    ],
)
def test_clip_takes_the_nearest_value_and_a_null_or_the_lower_bound_where_there_is_none(
    name: str, values: list[Any], codes: list[int]
) -> None:
    series = pl.Series(values, dtype=pl.Decimal(38, 3) if name == "decimal" else None)
    series = (series * 1000).cast(pl.Datetime("ms")) if name == "date" else series
    assert replace(BOUNDED[name], out_of_bounds="clip").encode(series).tolist() == codes
    null = replace(BOUNDED[name], out_of_bounds="clip", nulls="category")
    missing = [value is None or value != value for value in values]
    wanted = np.where(missing, np.nan if null.size is None else null.null_code, codes)
    assert np.array_equal(null.encode(series), wanted, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "texts", "codes"),
    [
        ("cells", ["1e400", "-inf", "ten", "nan"], [4, 0, 0, 0]),
        ("integer", ["9" * 30, "-" + "9" * 30, "3.6", "ten", " 5 "], [9, 0, 3, 0, 4]),
        ("decimal", ["9" * 30, "-" + "9" * 30, "1.0060", "1e0", "ten"], [949, 0, 51, 50, 0]),
        ("duration", ["999999999d", "-999999999d", "an hour"], [60, 0, 0]),
        ("date", ["2020-02-30", "2021-01-01"], [0, 365]),
    ],
)
def test_clip_takes_the_nearest_value_of_a_text(name: str, texts: list[str], codes: list[int]) -> None:
    column = replace(BOUNDED[name], out_of_bounds="clip")
    assert column.encode(pl.Series(texts)).tolist() == codes


def test_the_largest_moments_of_each_unit_are_clipped_to_the_bound_on_their_side() -> None:
    column = replace(BOUNDED["datetime"], out_of_bounds="clip")
    for unit in ("ms", "us"):
        ends = pl.Series([-(2**63), 2**63 - 1]).cast(pl.Datetime(unit))  # type: ignore[arg-type]
        assert column.encode(ends).tolist() == [0, column.size - 1]
    assert column.encode(pl.Series([-(2**31), 2**31 - 1], dtype=pl.Int32).cast(pl.Date)).tolist()[0] == 0


def test_null_takes_every_value_that_does_not_fit_for_a_null() -> None:
    column = Integer(lower=1, upper=10, nulls="category", out_of_bounds="null")
    assert column.encode(pl.Series([0.0, 1.0, 3.5, 11.0, INF, NAN, None])).tolist() == [10, 0, 10, 10, 10, 10, 10]
    labels = Category(categories=[3, 1], nulls="category", out_of_bounds="null")
    assert labels.encode([3, 2, 1, None]).tolist() == [0, 2, 1, 2]
    assert OpenLabels(nulls="category", out_of_bounds="null").encode(["x", "new_category_9", None]).tolist() == [
        "x", None, None,
    ]  # fmt: skip
    continuous = Numeric(lower=0, upper=1, nulls="category", out_of_bounds="null")
    assert np.array_equal(continuous.encode([0.5, 2.0, -INF]), [0.5, NAN, NAN], equal_nan=True)


def test_other_is_one_more_category_or_the_one_that_is_declared() -> None:
    column = Category(categories=["a", "b"], out_of_bounds="other")
    assert column.labels == ("a", "b", "other")
    assert column.encode(["b", "?", "other", None]).tolist() == [1, 2, 2, 2]
    declared = Category(categories=["other", "a"], out_of_bounds="other", nulls="category")
    assert declared.labels == ("other", "a")
    assert declared.encode(["a", "?", None]).tolist() == [1, 0, 2]
    assert OpenLabels(out_of_bounds="other").encode(["x", "new_category_9", None]).tolist() == ["x", "other", "other"]
    domain = Domain(columns={"x": column})
    assert Domain.from_toml(domain.to_toml()) == domain == Domain(columns={"x": replace(column)})


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: Category(categories=["a"], ordered=True, out_of_bounds="other"), 'no text "other" is among them'),
        (lambda: Category(categories=[1], out_of_bounds="other"), 'Write out_of_bounds = "null"'),
        (lambda: Category(categories=["a"], out_of_bounds="clip"), "one of 'error', 'null', 'other'"),
        (lambda: Integer(lower=0, upper=1, out_of_bounds="other"), "one of 'error', 'null', 'clip'"),
        (lambda: Boolean(out_of_bounds="other"), "'error' or 'null'"),
        (lambda: Boolean(out_of_bounds="null"), 'needs nulls = "category"'),
    ],
)
def test_what_has_no_value_to_release_is_refused(build: Any, problem: str) -> None:
    with pytest.raises(DomainError, match=problem):
        build()


@pytest.mark.parametrize("name", BOUNDED | LABELS)
def test_what_it_says_to_write_can_be_written_and_is_total(name: str) -> None:
    column = (BOUNDED | LABELS)[name]
    facts = dict(part.split(" = ") for part in column.total_form.split(" and "))
    total = replace(column, **{key: text.strip('"') for key, text in facts.items()})
    assert total.out_of_bounds != "error"
    assert len(total.encode(column.parse(pl.Series(WORDS)))) == len(WORDS)


def test_a_file_of_texts_is_counted_whole(tmp_path: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,b,l\n5,true,a\nfive,maybe,?\n,,\n1e30,FALSE,other\n")
    columns = {
        "n": Integer(lower=1, upper=10, out_of_bounds="clip"),
        "b": Boolean(nulls="category", out_of_bounds="null"),
        "l": Category(categories=["a"], out_of_bounds="other"),
    }
    counts = reveal(confidential(path, Domain(columns=columns)))
    assert dict(zip(counts.records.rows(), counts.frequencies.tolist(), strict=True)) == {
        (4, 1, 0): 1, (0, 2, 1): 2, (9, 0, 1): 1,
    }  # fmt: skip
    for name, column in columns.items():  # as it was
        refusing = Domain(columns={name: replace(column, out_of_bounds="error", nulls="error")})
        with pytest.raises(DataError):
            confidential(path, refusing, accept={"other-columns"})
