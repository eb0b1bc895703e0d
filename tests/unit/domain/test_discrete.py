"""Booleans, categories, open labels, and exact weights."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.domain import Boolean, Category, OpenLabels
from discreet.domain.base_measure import ExactWeights
from discreet.errors import DataError, DomainError


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
    parsed = Boolean().parse(pl.Series(["true", "FALSE ", "1", None]))
    assert parsed.to_list() == [True, False, None, None]
    with pytest.raises(DataError, match="holds Int64 values"):
        Boolean().encode([1, 0])


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
