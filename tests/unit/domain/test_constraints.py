"""What is declared beside the columns: impossible, implies and totals, against enumeration and in every form."""

import contextlib
import datetime as dt
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet._core.random import seeded
from discreet.domain import (
    Boolean,
    Category,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
    Records,
)
from discreet.domain import constraints as constraints_module
from discreet.domain.column import Column
from discreet.domain.constraints import CellReader
from discreet.domain.declaration import plain_condition
from discreet.errors import DomainError

COLUMNS: dict[str, Column] = {
    "age": Integer(lower=0, upper=99, cells=20, nulls="category"),
    "marital": Category(categories=["single", "married", "widowed"]),
    "city": Category(categories=["Lyon", "Nice", "Paris"]),
    "region": Category(categories=["ARA", "IDF", "PACA"]),
    "works": Boolean(),
}


def declared(**tables: Any) -> Domain:
    return Domain(columns=COLUMNS, **tables)


# -- conditions -------------------------------------------------------------------------------------------------------

HOUR = dt.timedelta(hours=1)
ONE_BY_ONE: list[tuple[Column, list[Any]]] = [
    (Boolean(), [False, True]),
    (Category(categories=["b", "a", "c"], ordered=True), ["b", "a", "c"]),
    (Category(categories=[3, 1, 2], ordered=True), [3, 1, 2]),
    (Integer(lower=-2, upper=2), [-2, -1, 0, 1, 2]),
    (Date(lower="2020-02-28", upper="2020-03-01"), [dt.date(2020, 2, 28), "2020-02-29", dt.date(2020, 3, 1)]),
    (
        Datetime(lower="2024-01-01", upper="2024-01-01T02:00", step="1h"),
        ["2024-01-01", dt.datetime.fromisoformat("2024-01-01T01:00"), "2024-01-01T02:00:00"],
    ),
    (
        Datetime(lower="2024-01-01", upper="2024-01-01T02:00", step="1h", time_zone="Europe/Paris"),
        ["2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T02:00:00+01:00"],
    ),
    (Duration(lower="0s", upper="2h", step="1h"), ["0s", HOUR, "120m"]),
    (Decimal(lower="0.0", upper="0.2", digits=1), ["0.0", Exact("0.1"), 0.2]),
    (Numeric(lower=0, upper=0.3, step=0.1), [0, 0.1, 0.2, 0.3]),
    (Numeric(lower=0, upper=9, grid=[1, 2.5, 7]), [1, 2.5, 7]),
]
"""Columns whose cells are values, and every value as it may be written."""


@pytest.mark.parametrize(("column", "values"), ONE_BY_ONE, ids=lambda given: getattr(given, "kind", ""))
def test_a_value_is_its_cell(column: Column, values: list[Any]) -> None:
    reader = CellReader("x", column)
    assert column.size == len(values)
    for code, value in enumerate(values):
        assert reader.codes(plain_condition(value)).tolist() == [code]
    assert reader.codes(plain_condition(values[::-1])).tolist() == list(range(len(values)))


@pytest.mark.parametrize(("column", "values"), ONE_BY_ONE[1:], ids=lambda given: getattr(given, "kind", ""))
def test_a_range_holds_its_first_value_and_not_its_last(column: Column, values: list[Any]) -> None:
    reader = CellReader("x", column)
    for low, high in itertools.combinations(range(len(values)), 2):
        condition = plain_condition({"from": values[low], "below": values[high]})
        assert reader.codes(condition).tolist() == list(range(low, high))
    for cut in range(1, len(values)):
        assert reader.codes(plain_condition({"from": values[cut]})).tolist() == list(range(cut, len(values)))
        assert reader.codes(plain_condition({"below": values[cut]})).tolist() == list(range(cut))


GROUPED: list[tuple[Column, Callable[[int], Any]]] = [
    (Integer(lower=0, upper=11, cells=5), lambda value: value),
    (Integer(lower=1, upper=40, cells=6, spacing="log"), lambda value: value),
    (Date(lower="2020-01-01", upper="2020-01-12", cells=5), lambda day: dt.date(2020, 1, 1) + dt.timedelta(days=day)),
    (Duration(lower="0s", upper="22h", step="2h", cells=5), lambda hours: f"{hours}h"),
    (Decimal(lower="0.0", upper="1.1", digits=1, cells=5), lambda tenth: str(Exact(tenth) / 10)),
]


@pytest.mark.parametrize(("column", "value_of"), GROUPED, ids=lambda given: getattr(given, "kind", ""))
def test_a_range_of_grouped_points_holds_whole_cells_or_is_refused(
    column: Column, value_of: Callable[[int], Any]
) -> None:
    """For every cut: it is taken exactly where all values of every cell lie on one side of it, and then right."""
    drawn = column.decode(np.repeat(np.arange(column.size or 0), 200), rng=seeded(1))
    values = drawn.to_physical().cast(pl.Float64).to_numpy().reshape(column.size or 0, 200)
    taken = 0
    for number in range(1, 41 if column.kind == "integer" else 23):
        given_value = value_of(number)
        below = values < physical(column, given_value)
        whole = bool((below.all(axis=1) | ~below.any(axis=1)).all())
        condition = plain_condition({"below": given_value})
        if whole and below.any():
            assert CellReader("x", column).codes(condition).tolist() == np.flatnonzero(below.all(axis=1)).tolist()
            taken += 1
        elif not whole:
            with pytest.raises(DomainError, match="column 'x': .* lies within the cell from .* whole cells"):
                CellReader("x", column).codes(condition)
    assert taken >= 4


def physical(column: Column, value: Any) -> float:
    """Return a value as the physical number that a decoded column has for it."""
    if column.kind == "date":
        return float((value - dt.date(1970, 1, 1)).days)
    if column.kind == "duration":
        return float(value.removesuffix("h")) * 3600e6
    return float(value) * (10 if column.kind == "decimal" else 1)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_edges_of_intervals_may_be_written_in_decimal(dtype: str) -> None:
    reader = CellReader("x", Numeric(lower=0, upper=1, cells=10, dtype=dtype))
    for tenth in range(1, 10):
        assert reader.codes({"below": tenth / 10}).tolist() == list(range(tenth))
        assert reader.codes({"from": float(f"0.{tenth}")}).tolist() == list(range(tenth, 10))
    for wrong in (0.35, 0.3001, 1, 0.99999):
        with pytest.raises(DomainError, match="lies within the cell from"):
            reader.codes({"below": wrong})
    assert reader.codes({"below": 2, "from": -1}).tolist() == list(range(10))


def test_a_null_fits_only_where_it_is_named() -> None:
    reader = CellReader("age", COLUMNS["age"])
    assert reader.codes({"from": 0}).tolist() == list(range(20))
    assert reader.codes({"null": True}).tolist() == [20]
    assert reader.codes({"from": 95, "null": True}).tolist() == [19, 20]
    assert reader.codes({"from": 95, "null": False}).tolist() == [19]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ({"age": {"below": 17}}, "below 17 lies within the cell from 15 to 19, and conditions are about whole cells"),
        ({"age": {"below": 15.5}}, "below must be an integer, got 15.5"),
        ({"age": {"below": 0}}, "no value fits the condition"),
        ({"age": {"until": 5}}, "from, below and null, got 'until'"),
        ({"age": {"null": 1}}, "null must be True or False, got 1"),
        ({"age": None}, "a value must be a text, a number, a truth value or a date, got None"),
        ({"marital": "divorced"}, "column 'marital': category: a label must be one of its categories, got 'divorced'"),
        ({"marital": {"from": "single"}}, "an unordered column has no ranges. List the labels"),
        ({"marital": {"null": True}}, "nulls are not declared"),
        ({"marital": "\ud800"}, "not valid Unicode"),
        ({"works": 1}, "a value must be True or False, got 1"),
        ({"job": "x"}, "'job' is not a column of the domain"),
        ({3: "x"}, "a text, got 3"),
        ({}, "it must name at least one column"),
    ],
)
def test_a_condition_that_does_not_fit_is_refused_with_its_place(condition: Any, problem: str) -> None:
    with pytest.raises(DomainError) as found:
        declared(impossible=[{"works": True, "region": "IDF"}, condition])
    assert str(found.value).startswith("[[impossible]] number 2: ")
    assert problem in str(found.value)


@pytest.mark.parametrize(
    ("column", "declare"),
    [(Numeric(lower=0, upper=1), "cells, a grid or categories"), (OpenLabels(), "its labels as a category")],
)
def test_a_condition_needs_cells(column: Column, declare: str) -> None:
    columns = {"x": column, "works": Boolean()}
    for tables in (
        {"impossible": [{"x": {"below": 0.5}, "works": True}]},
        {"totals": [{"column": "x", "source": "census", "counts": [[{"null": True}, 3]]}]},
    ):
        with pytest.raises(DomainError, match=f"column 'x' has no cells. Declare {declare}"):
            Domain(columns=columns, **tables)
    assert Domain(columns={**columns, "a": Boolean()}, impossible=[{"a": True, "works": True}]).constraints


# -- constraints ------------------------------------------------------------------------------------------------------

SIZES = (3, 2, 4)
PARTS = {f"c{place}": Category(categories=list(range(size))) for place, size in enumerate(SIZES)}
conditions = st.sampled_from(list(PARTS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sets(st.sampled_from(PARTS[name].categories), min_size=1))
)
entries = st.lists(conditions, min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(
    lambda pairs: {name: sorted(labels) for name, labels in pairs}
)


@st.composite
def dependencies(draw: Any) -> dict[str, Any]:
    names = draw(st.permutations(list(PARTS)))
    *columns, determined = names[: draw(st.integers(2, 3))]

    def some(name: str) -> list[int]:
        return sorted(draw(st.sets(st.sampled_from(PARTS[name].categories), min_size=1)))

    rows = [[some(name) for name in (*columns, determined)] for _ in range(draw(st.integers(1, 3)))]
    return {"columns": columns, "determine": determined, "table": rows}


def holds(record: Mapping[str, int], impossible: list[dict[str, Any]], implies: list[dict[str, Any]]) -> bool:
    """Return whether a record agrees with what is declared, as the documentation says it."""
    if any(all(record[name] in labels for name, labels in entry.items()) for entry in impossible):
        return False
    for entry in implies:
        for *given_labels, then in entry["table"]:
            applies = all(record[name] in labels for name, labels in zip(entry["columns"], given_labels, strict=True))
            if applies and record[entry["determine"]] not in then:
                return False
    return True


@given(st.lists(entries, max_size=3), st.lists(dependencies(), max_size=2))
def test_allowed_records_are_those_that_hold(impossible: list[dict[str, Any]], implies: list[dict[str, Any]]) -> None:
    """Against the definition, on every record of a small domain; one that has a record is never refused."""
    rows = list(itertools.product(*map(range, SIZES)))
    everything = Records(columns=tuple(np.array(rows).T))
    wanted = [holds(dict(zip(PARTS, row, strict=True)), impossible, implies) for row in rows]
    if not any(wanted):
        with contextlib.suppress(DomainError):  # refused, where single constraints show it
            assert not Domain(columns=PARTS, impossible=impossible, implies=implies).allowed(everything).any()
        return
    domain = Domain(columns=PARTS, impossible=impossible, implies=implies)
    assert domain.allowed(everything).tolist() == wanted
    seen = {constraint.columns for constraint in domain.constraints}
    assert len(seen) == len(domain.constraints)
    assert all(list(places) == sorted(places) for places in seen)
    again = Domain.from_toml(domain.to_toml())
    assert again == domain
    assert again.allowed(everything).tolist() == wanted


def test_rows_on_the_same_columns_are_one_constraint_in_the_order_of_the_domain() -> None:
    domain = declared(
        impossible=[
            {"marital": ["married", "widowed"], "age": {"below": 15}},
            {"age": {"null": True}, "marital": "single"},
        ],
        implies=[{"columns": ["city"], "determine": "region", "table": {"Lyon": "ARA", "Nice": ["PACA", "ARA"]}}],
    )
    ages, cities = domain.constraints
    assert (ages.columns, cities.columns) == ((0, 1), (2, 3))
    wanted = np.ones((21, 3), dtype=bool)
    wanted[:3, 1:] = wanted[20, 0] = False
    np.testing.assert_array_equal(ages.allowed, wanted)
    assert cities.allowed.tolist() == [[True, False, False], [True, False, True], [True, True, True]]
    with pytest.raises(ValueError, match="read-only"):
        cities.allowed[0, 0] = False


def test_without_declarations_everything_is_allowed() -> None:
    domain = declared()
    assert domain.constraints == domain.published == ()
    assert domain.allowed(domain.draw_base(5, seeded(0))).all()
    assert set(domain.to_dict()) == {"columns"}


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"impossible": [{"works": [True, False]}]}, "leave no value of column 'works'"),
        ({"impossible": [{"works": True}, {"works": False, "region": ["ARA", "IDF", "PACA"]}]}, "of column 'works'"),
        ({"impossible": [{"works": True, "city": "Lyon"}, {"city": ["Nice", "Paris"]}, {"works": False}]}, "together"),
        (
            {"impossible": [{"works": True}, {"region": ["ARA", "IDF"]}, {"works": False, "region": "PACA"}]},
            "leave no values of the columns 'works', 'region' together",
        ),
        ({"implies": [{"columns": ["works"], "determine": "region", "table": [[True, "ARA"], [True, "IDF"]]}]}, None),
    ],
)
def test_a_domain_that_is_left_without_records_is_refused(tables: Any, problem: str | None) -> None:
    if problem is None:  # rows that contradict one another forbid what they are about, and no more
        assert declared(**tables).constraints[0].allowed.tolist() == [[True, False]] * 3
        return
    with pytest.raises(DomainError, match=problem):
        declared(**tables)


def test_constraints_are_refused_before_their_cells_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = {"a": Integer(lower=0, upper=10**9), "b": Category(categories=["x", "y"])}
    with pytest.raises(DomainError, match=r"the columns 'a', 'b', .* have 2,000,000,002 cells, more than 4,194,304"):
        Domain(columns=wide, impossible=[{"a": {"from": 5}, "b": "x"}])
    with pytest.raises(DomainError, match="have 1,000,000,001 cells"):
        Domain(columns=wide, totals=[{"column": "a", "source": "census", "counts": [[{"from": 0}, 1]]}])
    many = {f"c{i}": Category(categories=["x"]) for i in range(25)}
    with pytest.raises(DomainError, match="at most 24 columns"):
        Domain(columns=many, impossible=[dict.fromkeys(many, "x")])
    with pytest.raises(DomainError, match="at most 65,536 rows"):
        declared(impossible=[{"works": True, "city": "Lyon"}] * 65_537)
    held = Integer(lower=0, upper=2**21 - 1)
    with pytest.raises(DomainError, match="all constraints together"):
        Domain(columns={"a": held, "b": held, "c": held}, impossible=[{"a": 1}, {"b": 1}, {"c": 1}])
    with pytest.raises(DomainError, match="all rows together must forbid at most"):
        Domain(columns={"a": held, "b": Boolean()}, implies=[
            {"columns": ["b"], "determine": "a", "table": [[True, {"from": 0}]] * 33}
        ])  # fmt: skip
    monkeypatch.setattr(constraints_module, "MOST_CELLS", 62)
    with pytest.raises(DomainError, match="'city', 'age', constrained together, have 63 cells, more than 62"):
        declared(impossible=[{"city": "Lyon", "age": {"null": True}}])


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"columns": "city", "determine": "region", "table": {"Lyon": "ARA"}}, "columns must be a list"),
        ({"columns": ["city"], "determine": "city", "table": {"Lyon": "ARA"}}, "must name different columns"),
        ({"columns": ["city"], "determine": "region"}, "the keys columns, determine and table"),
        ({"columns": ["city"], "determine": "region", "table": {}}, "at least one row"),
        ({"columns": ["city"], "determine": "region", "table": [["Lyon"]]}, "one condition per column"),
        ({"columns": ["city"], "determine": "region", "table": "x"}, "table must be"),
        ({"columns": ["city", "works"], "determine": "region", "table": {"Lyon": "ARA"}}, "must be a list of rows"),
        ({"columns": ["works"], "determine": "region", "table": {True: "ARA"}}, "Write other values in rows"),
    ],
)
def test_a_dependency_that_does_not_fit_is_refused_with_its_place(entry: Any, problem: str) -> None:
    with pytest.raises(DomainError) as found:
        declared(implies=[entry])
    assert str(found.value).startswith("[[implies]] number 1: ")
    assert problem in str(found.value)


def test_keys_of_a_table_may_be_texts_that_stand_for_other_values() -> None:
    columns = {"day": Date(lower="2024-12-24", upper="2024-12-26"), "open": Boolean()}
    domain = Domain(
        columns=columns, implies=[{"columns": ["day"], "determine": "open", "table": {"2024-12-25": False}}]
    )
    assert domain.constraints[0].allowed.tolist() == [[True, True], [True, False], [True, True]]


# -- totals -----------------------------------------------------------------------------------------------------------

CENSUS = "Census 2021, table TS008"
AGES = [[{"below": 15}, 20], [{"from": 15}, 75], [{"null": True}, 5]]


def test_totals_are_of_cells() -> None:
    domain = declared(
        totals=[
            {"column": "age", "source": CENSUS, "counts": AGES},
            {"column": "city", "source": "register", "counts": {"Paris": 60, "Lyon": 40, "Nice": 0}},
            {"source": CENSUS, "count": 100},
        ]
    )
    ages, cities, whole = domain.published
    assert (ages.column, ages.source, ages.counts.tolist()) == (0, CENSUS, [20, 75, 5])
    assert ages.group is not None
    assert ages.group.tolist() == [0] * 3 + [1] * 17 + [2]
    assert cities.group is not None
    assert (cities.column, cities.group.tolist(), cities.counts.tolist()) == (2, [1, 2, 0], [60, 40, 0])
    assert (whole.column, whole.group, whole.counts.tolist()) == (None, None, [100])


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"column": 3}, "the name of a column must be a text"),
        ({"source": ""}, "source must be a text of 1 to 500 characters"),
        ({"source": "x" * 501}, "source must be a text"),
        ({"note": "x"}, "it must have the keys column, source and counts"),
        ({"counts": AGES[:2]}, "leaves out 1 cell of 21. Totals must be complete. Write the count of null as"),
        ({"counts": AGES[1:]}, "leaves out 3 cells of 21. Totals must be complete. Write 0"),
        ({"counts": [*AGES, [{"from": 95}, 3]]}, "row 4 of counts has a value that an earlier one has"),
        ({"counts": [[{"from": 0}, 1.5], AGES[2]]}, "a count must be an integer from 0 to 10,000,000,000, got 1.5"),
        ({"counts": [[{"from": 0}, 0], [{"null": True}, 0]]}, "its counts sum to 0"),
        ({"counts": 3}, "counts must be {label = count}, or a list of rows"),
        ({"counts": [[{"from": 0}, 3], AGES[2]]}, "sum to 8, and those of number 1 to 100"),
        ({"column": "works", "counts": [[True, 60], [False, 40]]}, "what it is about has totals already"),
    ],
)
def test_totals_that_do_not_fit_are_refused_with_their_place(changed: dict[str, Any], problem: str) -> None:
    works = {"column": "works", "source": CENSUS, "counts": [[True, 60], [False, 40]]}
    with pytest.raises(DomainError) as found:
        declared(totals=[works, {"column": "age", "source": CENSUS, "counts": AGES, **changed}])
    assert str(found.value).startswith("[[totals]] number 2: ")
    assert problem in str(found.value)


def test_totals_of_what_is_impossible_are_refused() -> None:
    cities = {"column": "city", "source": CENSUS, "counts": {"Paris": 60, "Lyon": 40, "Nice": 1}}
    with pytest.raises(DomainError, match=r"\[\[totals\]\] number 1: column 'city': row 3 of counts is of what is dec"):
        declared(totals=[cities], impossible=[{"city": "Nice"}])
    assert declared(totals=[{**cities, "counts": {**cities["counts"], "Nice": 0}}], impossible=[{"city": "Nice"}])


# -- forms ------------------------------------------------------------------------------------------------------------


def of_every_kind() -> Domain:
    """Return a domain with conditions on a column of every kind that has cells."""
    columns: dict[str, Column] = {f"c{place}": column for place, (column, _) in enumerate(ONE_BY_ONE)}
    entries = [
        {f"c{place}": values[0], f"c{(place + 1) % len(ONE_BY_ONE)}": {"from": ONE_BY_ONE[(place + 1) % 11][1][1]}}
        for place, (_, values) in enumerate(ONE_BY_ONE[:-1])
    ]
    totals = [{"column": "c5", "source": 'a "census"\n', "counts": [[values_of(5), 9]]}]
    return Domain(columns=columns, impossible=entries, totals=totals)


def values_of(place: int) -> list[Any]:
    return ONE_BY_ONE[place][1]


def forms(domain: Domain) -> Iterator[Domain]:
    yield Domain.from_toml(domain.to_toml())
    yield Domain.from_dict(json.loads(json.dumps(domain.to_dict(), default=lambda date: date.isoformat())))
    yield replace(domain)
    yield replace(domain, columns=dict(domain.columns))


def test_every_form_holds_the_same() -> None:
    domain = of_every_kind()
    assert len(domain.constraints) == 10
    for other in forms(domain):
        assert other == domain
        assert hash(other) == hash(domain)
        for mine, theirs in zip(domain.constraints, other.constraints, strict=True):
            assert mine.columns == theirs.columns
            np.testing.assert_array_equal(mine.allowed, theirs.allowed)
    assert domain != Domain(columns=domain.columns)


def test_what_is_declared_cannot_be_changed() -> None:
    given_entry = {"city": ["Lyon"], "region": "IDF"}
    domain = declared(impossible=[given_entry])
    given_entry["city"].append("Nice")  # type: ignore[attr-defined]
    assert domain.constraints[0].allowed.sum() == 8
    assert domain.to_dict()["impossible"] == [{"city": ["Lyon"], "region": "IDF"}]
    with pytest.raises(DomainError, match="cannot be changed"):
        domain.impossible[0]["city"] = "Nice"  # type: ignore[index]
    domain.to_dict()["impossible"].clear()
    assert domain.impossible


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[impossibles]]\nworks = true", "unknown table 'impossibles': a domain has [columns.NAME], [metric_weights]"),
        ('[columns.w]\ntype = "numeric"\nlower = 0\nupper = 9\nweight = true', "Drop the key weight"),
        ('[columns.w]\ntype = "boolean"\nweight = false', "column 'w': it is declared as a survey weight"),
    ],
)
def test_declarations_that_are_written_wrongly_are_refused(text: str, problem: str) -> None:
    with pytest.raises(DomainError) as found:
        Domain.from_toml('[columns.works]\ntype = "boolean"\n' + text)
    assert problem in str(found.value)


@pytest.mark.parametrize("table", ["impossible", "implies", "totals"])
@pytest.mark.parametrize("wrong", [3, "x", {"a": 1}, [3], [None], None])
def test_declarations_of_the_wrong_kind_are_refused(table: str, wrong: Any) -> None:
    with pytest.raises(DomainError, match=f"{table} must be a list of tables"):
        declared(**{table: wrong})


def test_records_that_contradict_the_declarations_are_moved_as_they_are_encoded() -> None:
    domain = declared(impossible=[{"city": "Lyon", "region": "IDF"}])
    frame = domain.decode(domain.unflat(np.array([0, 0])), rng=seeded(0))
    frame = frame.with_columns(city=pl.lit("Lyon"), region=pl.Series(["IDF", "ARA"]))
    records = domain.encode(frame)
    assert isinstance(records, Records)
    assert domain.allowed(records).tolist() == [True, True]
    assert (
        domain.decode(records, rng=seeded(0)).drop("age").equals(frame.drop("age").with_columns(region=pl.lit("ARA")))
    )
