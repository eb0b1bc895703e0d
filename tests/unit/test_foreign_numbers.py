"""Numbers and texts of NumPy, fractions and decimals are plain Python once they are in: at every door."""

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import discreet
from discreet import AddRemove, Ledger, Replacement, Unit
from discreet._core.errors import flag, integer, plain, real
from discreet.domain import Boolean, Category, Date, Datetime, Domain, Duration, Integer, Numeric
from discreet.domain import Decimal as DecimalColumn
from discreet.errors import BudgetError, DiscreetError, DomainError
from discreet.ledger import Request
from discreet.papers.py26 import laplace_histogram_scale
from discreet.privacy import Budget

DOMAIN = Domain(columns={"a": Integer(lower=0, upper=3)})
TABLE = pl.DataFrame({"a": [0, 1, 2, 3] * 100})
ONES: list[Any] = [one(1) for one in (np.int8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64)]
ONES += [np.longdouble(1), Fraction(1), Decimal("1.0"), 1]


def kind(value: Any) -> str:
    return type(value).__name__


def same(found: Any, wanted: Any) -> None:
    """Both as texts, which tell types apart that compare equal."""
    assert repr(found) == repr(wanted)


# -- the checks -------------------------------------------------------------------------------------------------------


def test_what_the_checks_return_is_plain() -> None:
    for one in ONES:
        same(real("x", one), 1.0)
    for one in ONES[:4]:
        same(integer("x", one), 1)
    same(flag("x", np.True_), True)
    same(plain(np.str_("a")), "a")
    for unit, day in (("D", dt.date(2020, 1, 2)), ("s", dt.datetime(2020, 1, 2)), ("ns", dt.datetime(2020, 1, 2))):  # noqa: DTZ001
        same(plain(np.datetime64("2020-01-02", unit)), day)
    same(plain(np.timedelta64(10**9, "ns")), dt.timedelta(seconds=1))


@pytest.mark.parametrize(
    "value",
    [np.datetime64(1, "ns"), np.datetime64(10**6, "Y"), np.datetime64(2**62, "s"), np.datetime64("NaT"),
     np.timedelta64(1, "ns"), np.timedelta64(1, "Y"), np.timedelta64(2**62, "s"), np.timedelta64(5)],
    ids=repr,
)  # fmt: skip
def test_times_that_python_has_not_are_refused(value: Any) -> None:
    """Neither cut off nor taken for an integer, which NumPy gives for them."""
    for refused in (
        lambda: Datetime(lower=value, upper="2020-01-02", step="1h"),
        lambda: Duration(lower="0s", upper="9s", step=value),
        lambda: Integer(lower=0, upper=value),
        lambda: AddRemove(records=value),
    ):
        with pytest.raises(DiscreetError, match="must be"):
            refused()


@pytest.mark.parametrize("value", [True, np.True_, math.nan, np.float32("nan"), np.float32("inf"), Decimal("NaN"),
                                   Decimal("sNaN"), Decimal("Infinity"), Decimal("1E+999"), Fraction(10**400),
                                   np.str_("1"), np.timedelta64(1, "s"), np.complex64(1), np.array(1.0)],
                         ids=kind)  # fmt: skip
def test_what_is_no_number_is_refused_in_the_same_words(value: Any) -> None:
    for given in ({"epsilon": value}, {"epsilon": 1.0, "delta": value}):
        name = [*given][-1]
        with pytest.raises(BudgetError, match=f"^{name} must be a number .*, got "):
            Budget(**given)


# -- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ONES, ids=kind)
def test_a_budget_is_of_floats(one: Any) -> None:
    same(Budget(epsilon=one, delta=type(one)(0)), Budget(epsilon=1.0, delta=0.0))


@pytest.mark.parametrize("asked", [Fraction(i, j) for i in range(1, 12) for j in (3, 7, 10, 11, 10**17 + 1)], ids=str)
def test_a_budget_is_never_more_than_was_asked_for(asked: Fraction) -> None:
    """Compared as the library compares: with the decimal that a float is written as."""
    for number, found in (
        (asked, Budget(epsilon=asked).epsilon),
        (asked / 12, Budget(epsilon=1, delta=asked / 12).delta),
    ):
        assert Fraction(repr(found)) <= number < Fraction(repr(math.nextafter(found, math.inf)))


@pytest.mark.parametrize("written", ["0.1", "0.3", "0.7", "1.1", "2.675", "1e-9"])
def test_a_decimal_is_the_number_that_is_written_so(written: str) -> None:
    same(Budget(epsilon=Decimal(written)).epsilon, float(written))
    same(Budget(epsilon=Fraction(written)).epsilon, float(written))
    same(Budget(epsilon=float(written)).epsilon, float(written))
    assert Budget(epsilon=Fraction(written) - Fraction(1, 10**30)).epsilon < float(written)


def test_a_budget_too_small_for_a_float_is_none() -> None:
    with pytest.raises(BudgetError, match="both 0"):
        Budget(epsilon=Decimal("1e-999999999"))


# -- releases ---------------------------------------------------------------------------------------------------------


def test_certificates_and_records_are_those_of_plain_numbers() -> None:
    python = {"epsilon": 1.0, "delta": 1e-6, "size": 400, "seed": 3, "relation": Replacement(records=400)}
    foreign = {"epsilon": np.float16(1), "delta": Decimal("1e-6"), "size": np.int64(400), "seed": np.uint8(3),
               "relation": Replacement(records=np.uint16(400))}  # fmt: skip
    found = []
    for asked, text in ((python, str), (foreign, np.str_)):
        budget = Budget(epsilon=asked.pop("epsilon"), delta=asked.pop("delta"))
        made = discreet.release(TABLE, DOMAIN, budget, mechanism=text("perturbed-histogram"), sampling=text("iid"),
                                accept={text("poor-utility")}, **asked)  # fmt: skip
        facts = {name: value for name, value in made.certificate.to_dict().items() if name != "created"}
        found.append(json.dumps([facts, made.records.to_dicts()]))
    assert found[0] == found[1]


def test_units_of_several_records() -> None:
    table = TABLE.with_columns(u=pl.arange(0, 400) // 2)
    domain = Domain(columns={"a": Integer(lower=0, upper=3, nulls="category")})
    found = [
        discreet.release(
            table, domain, Budget(epsilon=1, delta=1e-6), size=400, seed=1, unit=Unit(unit, max_records=most)
        ).certificate.to_dict()["unit"]
        for unit, most in (("u", 2), (np.str_("u"), np.int64(2)))
    ]
    assert json.dumps(found[0]) == json.dumps(found[1])


@pytest.mark.parametrize("one", ONES, ids=kind)
def test_a_ledger_holds_plain_numbers(one: Any, tmp_path: Path) -> None:
    def written(place: Path, one: Any, whole: Callable[[int], Any]) -> list[dict[str, Any]]:
        ledger = Ledger.create(
            place, dataset="d", epsilon=3 * one, delta=np.float32(0.5), unit=Unit("u", max_records=whole(2))
        )
        ledger.pay(Request(budget=Budget(epsilon=one, delta=one / 4), unit=Unit("u", max_records=whole(2))))
        facts = [entry["facts"] for entry in ledger.log()]
        return [{key: repr(fact[key]) for key in ("budget", "group") if key in fact} for fact in facts]

    assert written(tmp_path / "a.db", one, np.int64) == written(tmp_path / "b.db", 1.0, int)


@pytest.mark.parametrize("number", [np.float32(0.5), np.float16(0.5), Fraction(1, 2), Decimal("0.5")], ids=kind)
def test_what_only_computes_takes_a_number(number: Any) -> None:
    """Nothing there is written down."""
    made = discreet.release(TABLE, DOMAIN, Budget(epsilon=1, delta=1e-6), size=400)
    for compute in (
        lambda number: made.estimate(["mean"], column="a", level=number).rows[0].mean,
        laplace_histogram_scale,
    ):
        assert compute(number) == pytest.approx(compute(0.5))


# -- domains ----------------------------------------------------------------------------------------------------------


def test_a_grid_and_weights_are_plain() -> None:
    for grid in (np.array([1, 2.5, 5]), [np.float32(1), Fraction(5, 2), Decimal(5)]):
        same(Numeric(lower=0, upper=9, grid=grid), Numeric(lower=0, upper=9, grid=[1, 2.5, 5]))
    weights = {np.str_("weights"): [np.float32(1), np.int64(3), Decimal(2)]}
    same(Boolean(nulls="category", base=weights), Boolean(nulls="category", base={"weights": [1, 3, 2]}))
    days = [np.datetime64("2020-01-01"), np.datetime64("2020-01-09")]
    same(Date(lower=days[0], upper=days[1]), Date(lower="2020-01-01", upper="2020-01-09"))
    same(DecimalColumn(lower=np.float64(0), upper=np.int64(5), digits=1), DecimalColumn(lower="0", upper="5", digits=1))


@pytest.mark.parametrize("wanted", [["u", "v"], [5, 7], [True, False]], ids=lambda value: kind(value[0]))
@pytest.mark.parametrize(
    "make",
    [np.array, lambda x: list(np.array(x)), lambda x: np.array(x, dtype=object), tuple, pd.Index, pd.Series, pl.Series],
    ids=["array", "list-of-scalars", "objects", "tuple", "index", "pandas", "polars"],
)
def test_categories_come_from_any_list(make: Callable[[list[Any]], Any], wanted: list[Any]) -> None:
    column, plainly = Category(categories=make(wanted)), Category(categories=wanted)
    same(column, plainly)
    domain = Domain(columns={"c": column})
    assert domain.to_toml() == Domain(columns={"c": plainly}).to_toml()
    repr(domain)
    made = discreet.release(
        pl.DataFrame({"c": wanted * 200}), domain, Budget(epsilon=1), size=100, mechanism="perturbed-histogram"
    )
    assert set(made.records["c"].to_list()) <= set(wanted)


@pytest.mark.parametrize(
    "given",
    [{"u", "v"}, frozenset({"u"}), {"u": 1}, "uv", 3, []],
    ids=["set", "frozenset", "mapping", "text", "number", "empty"],
)
def test_categories_without_an_order_are_refused(given: Any) -> None:
    """The place of a category is its cell, and a set has another order in each process."""
    with pytest.raises(DomainError, match="categories must be a list of at least one string, integer or bool"):
        Category(categories=given)


def test_names_are_plain() -> None:
    text = np.str_
    totals = [{text("count"): np.int64(100), text("source"): text("the register")}]
    found = Domain(columns={text("a"): DOMAIN.columns["a"]}, metric_weights={text("a"): np.float32(2)}, totals=totals)
    same(found, Domain(columns=DOMAIN.columns, metric_weights={"a": 2.0},
                       totals=[{"count": 100, "source": "the register"}]))  # fmt: skip
    assert [type(name) for name in found.columns] == [str]
