"""One family of checks: what passes, what is said of what does not, and nothing of another library's values."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.errors import choice, flag, integer, positive_size, probability, real, shown, unfit
from discreet.errors import BudgetError, ParameterError


def said(check: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ParameterError) as caught:
        check("x", *args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("value", [0, 1, np.int8(1), np.uint64(1)])
def test_numbers_of_a_range_are_plain(value: Any) -> None:
    for found, kind in ((integer("x", value, least=0, most=1), int), (real("x", value, least=0, most=1), float)):
        assert found == value
        assert type(found) is kind
    assert real("x", Fraction(value, 2), least=0, below=1) == real("x", np.float32(value / 2), least=0, below=1)


@pytest.mark.parametrize("value", [0, 11, 1.0, True, np.True_, "1", None, math.nan, np.float64(2), Fraction(2)])
def test_no_integers_of_a_range(value: Any) -> None:
    assert said(integer, value, least=1, most=10) == f"x must be an integer from 1 to 10, got {shown(value)}"


@pytest.mark.parametrize("value", [-1e-300, 1, math.nan, math.inf, -math.inf, True, "0", None, 10**400, 1j])
def test_no_reals_of_a_range(value: Any) -> None:
    assert said(real, value, least=0, below=1).startswith("x must be a number of at least 0 and below 1, got ")


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({}, "a finite number"),
        ({"above": 0}, "a finite number above 0"),
        ({"least": 1}, "a finite number of at least 1"),
        ({"above": 0, "most": 1e9}, "a number above 0 and at most 1,000,000,000"),
        ({"most": 5}, "a number of at most 5"),
        ({"below": 0.25}, "a number below 0.25"),
        ({"least": 1, "most": 10_000}, "a number from 1 to 10,000"),
        ({"least": 0, "infinite": True}, "a number of at least 0"),
    ],
)
def test_bounds_in_words(bounds: dict[str, Any], words: str) -> None:
    assert said(real, None, **bounds) == f"x must be {words}, got None"


def test_infinity_is_a_number_where_it_is_said() -> None:
    assert real("x", math.inf, above=0, infinite=True) == math.inf
    assert real("x", 10**400, above=0, infinite=True) == math.inf
    for value in (-math.inf, math.nan):
        said(real, value, above=0, infinite=True)
    assert real("x", -math.inf, infinite=True) == -math.inf
    assert said(real, math.inf, above=0) == "x must be a finite number above 0, got inf"


def test_what_is_rounded_down_is_still_in_the_range() -> None:
    below_one = Fraction(1) - Fraction(1, 10**30)
    assert real("x", below_one, down=True) == math.nextafter(1.0, 0.0)
    assert said(real, below_one, least=1, down=True).startswith("x must be a finite number of at least 1, got ")


def test_the_others() -> None:
    assert positive_size("x", 10**10) == 10**10
    assert said(positive_size, 10**10 + 1) == "x must be an integer from 1 to 10,000,000,000, got 10000000001"
    assert probability("x", 1) == 1.0
    assert said(probability, 1.5) == "x must be a number from 0 to 1, got 1.5"
    assert choice("x", "b", ("a", "b")) == "b"
    assert said(choice, "c", ("a", "b", "d")) == "x must be one of 'a', 'b', 'd', got 'c'"
    assert said(choice, "c", ("a",)) == "x must be 'a', got 'c'"
    assert said(choice, ["a"], ("a", "b")) == "x must be 'a' or 'b', got a list"
    assert flag("x", False) is False
    assert said(flag, 0) == "x must be True or False, got 0"


def test_another_error_and_a_remedy() -> None:
    with pytest.raises(BudgetError, match=r"^delta must be a number from 0 to 1, got 2\. Take a smaller one\.$"):
        real("delta", 2, least=0, most=1, remedy="Take a smaller one.", error=BudgetError)
    assert str(unfit("x", "a table", 3, error=lambda text: ParameterError(f"date: {text}"))) == (
        "date: x must be a table, got 3"
    )


class Odd:
    """An object that does not print."""

    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("it's", '"it\'s"'),
        ("\x1b]0;\x07", r"'\x1b]0;\x07'"),
        ("a" * 61, repr("a" * 60) + "..."),
        (10**40, "an integer of more than 40 digits"),
        (-(10**4000), "an integer of more than 40 digits"),
        (Fraction(10**400), "inf"),
        (np.float64(0.1), "0.1"),
        (np.int64(3), "3"),
        (pl.DataFrame({"salary": [31_337]}), "a DataFrame"),
        (np.array([31_337]), "a ndarray"),
        (Odd(), "an Odd"),
        ({"salary": 31_337}, "a dict"),
    ],
)
def test_only_plain_values_are_written(value: Any, words: str) -> None:
    assert shown(value) == words
    assert said(integer, value, least=1, most=2).endswith(f", got {words}")
