"""Integers, dates, datetimes, durations, decimals, booleans and categories: exact points and exact weights."""

import datetime as dt
from decimal import Decimal as Exact
from fractions import Fraction
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Duration, Integer, Numeric, OpenLabels
from discreet.domain.base_measure import ExactWeights
from discreet.domain.column import Column
from discreet.domain.texts import span, span_text
from discreet.errors import DataError, DomainError, MissingPublicFact

RNG = np.random.default_rng


@given(st.integers(-(10**6), 10**6), st.integers(1, 3000), st.integers(1, 4000))
def test_linear_cells_cover_every_integer_evenly(lower: int, width: int, cells: int) -> None:
    column = Integer(lower=lower, upper=lower + width, cells=cells)
    codes = column.encode(np.arange(lower, lower + width + 1))
    assert column.size == min(cells, width + 1)
    held = np.bincount(codes)
    assert len(held) == column.size
    assert held.min() >= 1
    assert held.max() - held.min() <= 1
    assert np.all(np.diff(codes) >= 0)


@given(st.integers(1, 1000), st.integers(1, 10**6), st.integers(1, 300))
def test_log_cells_hold_at_least_one_integer_each(lower: int, width: int, cells: int) -> None:
    column = Integer(lower=lower, upper=lower + width, cells=cells, spacing="log")
    size = column.size
    assert 1 <= size <= cells  # type: ignore[operator]
    ends = column.encode(np.array([lower, lower + width]))
    assert ends.tolist() == [0, size - 1]  # type: ignore[operator]
    drawn = column.decode(np.arange(size), rng=RNG(0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(column.encode(drawn), np.arange(size))  # type: ignore[arg-type]


def test_log_edges_are_powers() -> None:
    column = Integer(lower=1, upper=1000, cells=3, spacing="log")
    assert column.encode(np.array([1, 9, 10, 99, 100, 1000])).tolist() == [0, 0, 1, 1, 2, 2]


def test_decoding_reaches_every_integer_of_a_cell_and_no_other() -> None:
    column = Integer(lower=0, upper=9, cells=2)
    values = column.decode(np.ones(1000, dtype=np.int64), rng=RNG(0)).to_numpy()
    assert set(values.tolist()) == {5, 6, 7, 8, 9}
    np.testing.assert_array_equal(values, RNG(0).integers(np.full(1000, 5), np.full(1000, 10)))


def test_a_huge_range_takes_no_memory() -> None:
    column = Integer(lower=-(10**18), upper=10**18)
    assert column.size == 2 * 10**18 + 1
    assert column.encode([10**18 - 1]).tolist() == [2 * 10**18 - 1]
    assert column.decode(np.array([2 * 10**18 - 1]), rng=RNG(0)).to_list() == [10**18 - 1]


def test_integers_held_as_floats() -> None:
    column = Integer(lower=0, upper=9, nulls="category")
    assert column.encode(np.array([1.0, np.nan, 9.0])).tolist() == [1, 10, 9]
    with pytest.raises(DataError, match="not whole"):
        column.encode(np.array([1.5]))
    for value in (np.inf, -np.inf, 1e300):
        with pytest.raises(DataError, match="outside the declared bounds"):
            column.encode(np.array([value]))
    assert column.encode(pl.Series([7], dtype=pl.UInt64)).tolist() == [7]
    with pytest.raises(DataError, match="outside the declared bounds"):
        column.encode(pl.Series([2**64 - 1], dtype=pl.UInt64))


def test_days() -> None:
    column = Date(lower="2024-02-28", upper="2024-03-01")
    assert column.size == 3
    assert column.positions(np.arange(3)).tolist() == [19781.0, 19782.0, 19783.0]
    assert column.encode([dt.date(2024, 2, 29)]).tolist() == [1]
    assert column.encode([dt.datetime(2024, 2, 29)]).tolist() == [1]  # noqa: DTZ001
    with pytest.raises(DataError, match="times of day"):
        column.encode([dt.datetime(2024, 2, 29, 1)])  # noqa: DTZ001
    before = Date(lower="1899-12-31", upper="1900-01-01")
    assert before.decode(np.arange(2), rng=RNG(0)).to_list() == [dt.date(1899, 12, 31), dt.date(1900, 1, 1)]


def test_moments_round_to_the_nearest_point_of_the_step() -> None:
    column = Datetime(lower="2024-01-01", upper="2024-01-01T05:45", step="1h")
    assert column.size == 6
    at = [dt.datetime(2024, 1, 1, h, m) for h, m in ((0, 0), (0, 29), (0, 31), (5, 45))]  # noqa: DTZ001
    assert column.encode(at).tolist() == [0, 0, 1, 5]
    for unit in ("ms", "us", "ns"):
        assert column.encode(pl.Series(at).dt.cast_time_unit(unit)).tolist() == [0, 0, 1, 5]


def test_a_zone_column_holds_moments() -> None:
    column = Datetime(lower="2024-03-31T00:00", upper="2024-03-31T05:00", step="1h", time_zone="Europe/Paris")
    assert column.size == 5  # a clock hour is skipped that night
    same = Datetime(lower="2024-03-30T23:00Z", upper="2024-03-31T03:00Z", step="1h", time_zone="Europe/Paris")
    assert column == same
    moments = column.decode(np.arange(5), rng=RNG(0))
    assert [value.hour for value in moments] == [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(column.encode(moments.dt.convert_time_zone("UTC")), np.arange(5))
    with pytest.raises(DataError, match="without a time zone"):
        column.encode([dt.datetime(2024, 3, 31)])  # noqa: DTZ001
    with pytest.raises(DataError, match="with a time zone"):
        Datetime(lower="2024-01-01", upper="2025-01-01", step="1h").encode(moments)


def test_decimals_are_exact() -> None:
    column = Decimal(lower="0.00", upper="12345678901.23", digits=2)
    value = Exact("12345678901.22")
    codes = column.encode([value])
    assert codes.tolist() == [1234567890122]
    assert column.decode(codes, rng=RNG(0)).to_list() == [value]
    assert column.encode(pl.Series([Exact("1.500")])).tolist() == [150]
    assert column.encode([7]).tolist() == [700]
    with pytest.raises(DataError, match="more digits after the point"):
        column.encode(pl.Series([Exact("1.505")]))
    with pytest.raises(DataError, match="outside the declared bounds"):
        column.encode(pl.Series([Exact("12345678901.24")]))


@given(st.timedeltas(min_value=dt.timedelta(days=-100_000), max_value=dt.timedelta(days=100_000)))
def test_durations_are_read_back_from_their_text(value: dt.timedelta) -> None:
    assert span(span_text(value)) == value


@pytest.mark.parametrize("text", ["", "-", "1", "h", "1x", "1h ", "1.5h", "1h-2m", "99999999999999d"])
def test_texts_that_are_no_duration(text: str) -> None:
    assert span(text) is None


@pytest.mark.parametrize(
    ("kind", "facts", "missing"),
    [
        (Numeric, {"upper": 1}, "lower bound"),
        (Integer, {"lower": 1}, "upper bound"),
        (Category, {}, "categories"),
        (Date, {"lower": "2000-01-01"}, "last day"),
        (Date, {"upper": "2000-01-01"}, "first day"),
        (Datetime, {"lower": "2000-01-01", "upper": "2001-01-01"}, "rounding step"),
        (Duration, {"lower": "0s", "upper": "1h"}, "rounding step"),
        (Decimal, {"lower": "0", "upper": "1"}, "digits after the point"),
    ],
)
def test_missing_facts(kind: type[Column], facts: dict[str, Any], missing: str) -> None:
    with pytest.raises(MissingPublicFact, match=missing) as problem:
        kind(**facts)
    assert " = " in problem.value.toml


@pytest.mark.parametrize(
    ("kind", "facts", "problem"),
    [
        (Integer, {"lower": 5, "upper": 5}, "below upper"),
        (Integer, {"lower": 0.5, "upper": 5}, "must be an integer"),
        (Integer, {"lower": 0, "upper": 300, "dtype": "uint8"}, "cannot hold"),
        (Integer, {"lower": -(2**63), "upper": 5}, "2..62 steps of 0. Subtract"),
        (Integer, {"lower": 0, "upper": 5, "spacing": "log", "cells": 2}, "lower > 0"),
        (Integer, {"lower": 1, "upper": 5, "spacing": "log"}, "needs cells"),
        (Integer, {"lower": 0, "upper": 2**40, "cells": 2**30}, "from 1 to 4,194,304"),
        (Date, {"lower": "2000-13-01", "upper": "2001-01-01"}, "must be a date"),
        (Datetime, {"lower": "x", "upper": "2001-01-01", "step": "1h"}, "must be a datetime"),
        (Datetime, {"lower": "2000-01-01T00:00Z", "upper": "2001-01-01", "step": "1h"}, "time zone"),
        (Datetime, {"lower": "2000-01-01", "upper": "2001-01-01", "step": "0s"}, "step must be positive"),
        (Datetime, {"lower": "2000-01-01", "upper": "2001-01-01", "step": "1h", "time_zone": "Mars/X"}, "IANA"),
        (Duration, {"lower": "0s", "upper": "1h", "step": "2h"}, "at most upper - lower"),
        (Duration, {"lower": 0, "upper": "1h", "step": "2h"}, "must be a duration"),
        (Decimal, {"lower": "0.001", "upper": "1", "digits": 2}, "at most 2 digits"),
        (Decimal, {"lower": "NaN", "upper": "1", "digits": 2}, "decimal number"),
        (Decimal, {"lower": "0", "upper": "1", "digits": 19}, "from 0 to 18"),
        (Decimal, {"lower": "0", "upper": "1e15", "digits": 6}, "steps of 0"),
    ],
)
def test_contradictory_facts_are_refused(kind: type[Column], facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(DomainError, match=problem):
        kind(**facts)


@pytest.mark.parametrize(
    ("column", "texts", "expected"),
    [
        (Integer(lower=0, upper=99), ["7", " 8 ", "x", "1.5", None], [7, 8, None, None, None]),
        (Date(lower="2000-01-01", upper="2001-01-01"), ["2000-01-02", "02/01/2000"], [dt.date(2000, 1, 2), None]),
        (Duration(lower="0s", upper="1d", step="1s"), ["1h30m", "PT1H"], [dt.timedelta(hours=1.5), None]),
        (Decimal(lower=0, upper=9, digits=2), ["1.25", "1e2", "1.255"], [Exact("1.25"), None, Exact("1.255")]),
        (
            Datetime(lower="2000-01-01", upper="2001-01-01", step="1s"),
            ["2000-01-01T01:02:03", "2000-01-01 01:02:03.5", "2000-01-01 01:02", "2000-01-01", "noon"],
            [
                dt.datetime(2000, 1, 1, 1, 2, 3),  # noqa: DTZ001
                dt.datetime(2000, 1, 1, 1, 2, 3, 500_000),  # noqa: DTZ001
                dt.datetime(2000, 1, 1, 1, 2),  # noqa: DTZ001
                dt.datetime(2000, 1, 1),  # noqa: DTZ001
                None,
            ],
        ),
        (
            Datetime(lower="2000-01-01", upper="2001-01-01", step="1s", time_zone="Europe/Paris"),
            ["2000-01-01T01:00:00Z", "2000-01-01 02:00:00", "2000-01-01T03:00:00+02:00", "2000-01-01T02:00:00.5+0100"],
            [dt.datetime(2000, 1, 1, 1, tzinfo=dt.UTC)] * 3
            + [dt.datetime(2000, 1, 1, 1, 0, 0, 500_000, tzinfo=dt.UTC)],
        ),
    ],
)
def test_csv_texts(column: Column, texts: list[str | None], expected: list[Any]) -> None:
    assert [column._reading(pl.Series([text], dtype=pl.String))[0][0] for text in texts] == expected


# -- booleans, categories, open labels, and exact weights -------------------------------------------------------------


def test_categories_keep_the_declared_order() -> None:
    column = Category(categories=["low", "mid", "high"], ordered=True, nulls="category")
    codes = column.encode(["high", None, "low"])
    assert codes.tolist() == [2, 3, 0]
    assert column.distance(codes, np.array([0, 0, 1])).tolist() == [1.0, 1.0, 0.5]
    assert column.decode(codes, rng=np.random.default_rng(0)).to_list() == ["high", None, "low"]


def test_integer_categories_in_any_numeric_type() -> None:
    column = Category(categories=[10, -5, 7])
    assert column.encode(np.array([7.0, 10.0])).tolist() == [2, 0]
    assert column.encode(np.array([-5], dtype=np.int8)).tolist() == [1]
    for wrong in (np.array([7.5]), np.array([8]), np.array([1e300]), np.array([np.inf])):
        with pytest.raises(DataError, match="not declared"):
            column.encode(wrong)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"categories": []}, "at least one"),
        ({"categories": "ab"}, "must be a list"),
        ({"categories": ["a", "a"]}, "distinct"),
        ({"categories": ["a", 1]}, "all strings"),
        ({"categories": [1, True]}, "all strings"),
        ({"categories": [1.5]}, "all strings"),
        ({"categories": [None]}, "all strings"),
        ({"categories": ["\ud800"]}, "Unicode"),
        ({"categories": [2**63]}, "64 bits"),
        ({"categories": [300], "dtype": "uint8"}, "cannot hold"),
        ({"categories": ["a"], "dtype": "int64"}, "dtype must be"),
        ({"categories": ["a"], "ordered": 1}, "True or False"),
    ],
)
def test_wrong_categories_are_refused(facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(DomainError, match=problem):
        Category(**facts)


def test_booleans() -> None:
    assert Boolean().encode([True, False]).tolist() == [1, 0]
    values, unread = Boolean()._reading(pl.Series(["true", "FALSE ", "1", "0.0", None, "2"]))
    assert values.to_list() == [True, False, True, False, None, None]
    assert unread.to_list() == [False] * 5 + [True]
    assert Boolean().encode([1, 0]).tolist() == [1, 0]
    with pytest.raises(DataError, match="values are not true or false, or 1 or 0"):
        Boolean().encode([1, 2])


def test_new_labels_live_in_their_namespace() -> None:
    column = OpenLabels(prefix="new_", nulls="category")
    drawn = column.draw(3, np.random.default_rng(0), first=5)
    assert drawn.tolist() == ["new_5", "new_6", "new_7"]
    codes = column.encode(["x", None])
    assert codes.tolist() == ["x", None]
    assert column.decode(codes, rng=np.random.default_rng(0)).to_list() == ["x", None]
    assert column.distance(codes, np.array(["y", None], dtype=object)).tolist() == [1.0, 0.0]
    with pytest.raises(DataError, match="reserved prefix") as problem:
        column.encode(["new_CANARY"])
    assert "CANARY" not in str(problem.value)


@pytest.mark.parametrize("facts", [{"prefix": ""}, {"prefix": 1}, {"base": {"weights": [1]}}])
def test_wrong_open_labels(facts: dict[str, Any]) -> None:
    with pytest.raises(DomainError):
        OpenLabels(**facts)


# -- exact weights ----------------------------------------------------------------------------------------------------


def test_a_ticket_is_drawn_below_the_total_and_searched() -> None:
    weights = Category(categories=["a", "b", "c"], base={"weights": [1, 2, 4]})

    class Tickets:
        """Hands out every ticket once, and checks what was asked for."""

        def integers(self, high: int, *, size: int, dtype: type) -> np.ndarray[Any, np.dtype[np.int64]]:
            assert (high, size, dtype) == (7, 7, np.int64)
            return np.arange(7)

    drawn = weights.draw(7, cast("Any", Tickets()))
    assert np.bincount(drawn).tolist() == [1, 2, 4]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_integer_weights_are_kept_up_to_a_common_factor(weights: list[int]) -> None:
    column = Category(categories=list(range(len(weights))), base={"weights": weights})
    kept = column.base["weights"]
    assert [Fraction(weight, sum(kept)) for weight in kept] == [Fraction(weight, sum(weights)) for weight in weights]
    ordered = sorted(weights)
    second = Fraction(ordered[1], sum(weights)) if len(weights) > 1 else None
    assert column.least() == (Fraction(ordered[0], sum(weights)), second)
    expected = np.log(np.array(weights)) - np.log(sum(weights))
    np.testing.assert_allclose(column.log_base(np.arange(len(weights))), expected, atol=1e-14)


def test_dyadic_floats_are_exact() -> None:
    column = Boolean(base={"weights": [0.25, 0.75]})
    assert column.base == {"weights": (1, 3)}


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30))
def test_other_floats_are_rounded_to_a_total_of_at_most_two_to_the_31(weights: list[float]) -> None:
    exact = ExactWeights.parse(weights, size=len(weights), refuse=pytest.fail)
    assert exact.total <= 2**31
    assert min(exact.integers) >= 1
    shares, total = np.array(exact.integers) / exact.total, sum(weights)
    assert np.abs(shares - np.array(weights) / total).max() <= 2 * len(weights) / 2**31


@pytest.mark.parametrize(
    "weights", [[1], [1, 2, 3], [0, 1], [-1, 1], [float("nan"), 1], [True, 1], "ab", 3, [2**31, 1], ["1", 1]]
)
def test_wrong_weights_are_refused(weights: Any) -> None:
    with pytest.raises(DomainError, match="weights"):
        Boolean(base={"weights": weights})


@pytest.mark.parametrize("base", [{"weight": [1, 1]}, "uniform", [1, 1], {"distribution": "norm"}])
def test_other_bases_of_a_finite_column_are_refused(base: Any) -> None:
    with pytest.raises(DomainError, match="base of a finite column"):
        Boolean(base=base)


def test_remedies_of_bounds_followed() -> None:
    """Of one value alone, and of numbers that are near each other and far from 0."""
    with pytest.raises(
        DomainError, match="Leave a column of one value out, or declare type = .category. and categories"
    ):
        Integer(lower=3, upper=3)
    assert Category(categories=[3]).size == 1
    for dtype in ("int64", "uint64"):
        with pytest.raises(DomainError, match="Subtract a public number from the column first"):
            Integer(lower=2**64 - 1000, upper=2**64 - 1, dtype=dtype)
    assert Integer(lower=0, upper=999).size == 1000
