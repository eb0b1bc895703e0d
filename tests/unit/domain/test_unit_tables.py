"""Tables of units: a fixed map of all rows of a unit to one record, and back."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.confidential import check_table, confidential, reveal_to_custodian
from discreet.confidential.closed import reveal
from discreet.domain import Boolean, Category, Domain, Integer, Numeric, OpenLabels, Records, UnitTable
from discreet.errors import DataError, DomainError, ParameterError

COLUMNS: dict[str, Any] = {"ward": Category(categories=["a", "b"], nulls="category"), "days": Integer(lower=0, upper=1)}
TABLE = UnitTable(unit="who", max_records=2, columns=COLUMNS)
VISITS = Domain(tables={"visits": TABLE})
PANEL = Domain(
    columns={"born": Integer(lower=0, upper=1)},
    tables={"years": {"unit": "who", "max_records": 2, "slots": "year", "columns": {
        "year": {"type": "integer", "lower": 2001, "upper": 2002},
        "work": {"type": "boolean"},
    }}},
)  # fmt: skip


def units(rows: list[tuple[Any, ...]], most: int) -> Iterator[tuple[Any, ...]]:
    """Every multiset of 1 to ``most`` rows."""
    for number in range(1, most + 1):
        yield from combinations_with_replacement(rows, number)


def long(units_of: list[tuple[Any, ...]], names: tuple[str, ...]) -> pl.DataFrame:
    """A table in which units have their rows in any order, and strange names."""
    rows = [(f"name {place % 7} {place}", *row) for place, unit in enumerate(units_of) for row in unit]
    frame = pl.DataFrame(rows, schema=["who", *names], orient="row")
    return frame.sample(fraction=1.0, shuffle=True, seed=3)


def held(frame: pl.DataFrame) -> Counter[tuple[Any, ...]]:
    """How many units have which rows, in whatever order."""
    rows: dict[Any, list[Any]] = {}
    for who, *row in frame.iter_rows():
        rows.setdefault(who, []).append(tuple(row))
    return Counter(tuple(sorted(unit, key=repr)) for unit in rows.values())


def test_every_unit_comes_back_from_its_record() -> None:
    rows = list(product(["a", "b", None], [0, 1]))
    table = long(list(units(rows, 2)) * 2, ("ward", "days"))
    counts = reveal(confidential(table, VISITS, rng=seeded(0)))
    assert counts.n == 2 * (6 + 21)
    assert counts.distinct == 6 + 21  # rows in another order are the same record
    records = counts.records.take(np.repeat(np.arange(counts.distinct), counts.frequencies))
    back = VISITS.decode(records, rng=seeded(0))
    assert held(back) == held(table)
    assert back["who"].to_list() == sorted(back["who"].to_list())
    assert back["who"].unique().to_list() == list(range(1, counts.n + 1))  # names say nothing


@pytest.mark.parametrize("row", ["first", "previous"])
def test_rows_that_are_held_by_another_row_come_back(row: str) -> None:
    relative = {"ward": row, "days": {"row": row, "lower": -1, "upper": 1}}
    listed = {"max_records": 3, "slots": "ordered", "order_by": "as listed"}
    domain = Domain(tables={"visits": replace(TABLE, relative_to=relative, **listed)})
    plain = Domain(tables={"visits": replace(TABLE, **listed)})
    assert domain.columns["ward (2)"].labels == ("a", "b", f"as the {row} row")
    assert (domain.columns["days (3)"].lower, domain.columns["days (1)"].lower) == (-1, 0)
    rows = list(product(["a", "b", None], [0, 1]))
    table = long([unit for number in (1, 2, 3) for unit in product(rows, repeat=number)], ("ward", "days"))
    records = [reveal(confidential(table, each)) for each in (domain, plain)]
    times = [np.repeat(np.arange(counts.distinct), counts.frequencies) for counts in records]
    back, same = [
        each.decode(counts.records.take(index), rng=seeded(0)).drop("who").rows()
        for each, counts, index in zip((domain, plain), records, times, strict=True)
    ]
    assert sorted(back, key=repr) == sorted(same, key=repr)
    assert Domain.from_toml(domain.to_toml()) == domain
    # as the first row: its code is one above the labels, whatever the label; a null is a null
    (record,) = reveal(
        confidential(pl.DataFrame({"who": 1, "ward": ["b", "b", None], "days": [1, 0, 1]}), domain)
    ).records.rows()
    assert record == (2, 1, 1, 2, 0, 3, 1 if row == "first" else 2)


def test_a_difference_beyond_its_bounds_is_the_nearest() -> None:
    columns = {"days": Integer(lower=0, upper=9)}
    relative = {"days": {"row": "first", "lower": -2, "upper": 3}}
    table = UnitTable(
        unit="who", max_records=2, columns=columns, slots="ordered", order_by="as listed", relative_to=relative
    )
    domain = Domain(tables={"visits": table})
    frame = pl.DataFrame({"who": [1, 1, 2, 2], "days": [1, 9, 8, 0]})
    back = domain.decode(reveal(confidential(frame, domain)).records, rng=seeded(0))
    assert held(back) == Counter({((1,), (4,)): 1, ((6,), (8,)): 1})


def test_a_panel_comes_back_from_its_record() -> None:
    pairs = [((year, work),) for year, work in product([2001, 2002], [False, True])]
    both = [((2001, first), (2002, second)) for first, second in product([False, True], repeat=2)]
    born = [tuple((value, *row) for row in unit) for unit in pairs + both for value in (0, 1)]
    table = long(born, ("born", "year", "work"))
    counts = reveal(confidential(table, PANEL, rng=seeded(0)))
    assert PANEL.names == ("born", "years (1)", "years (2)", "work (1)", "work (2)")
    assert (counts.n, counts.distinct) == (16, 16)
    assert held(PANEL.decode(counts.records, rng=seeded(0))) == held(table)


def test_of_several_rows_of_a_year_one_is_kept_at_random() -> None:
    rows = pl.DataFrame({"who": np.repeat(np.arange(2000), 2), "born": 1, "year": 2001, "work": [True, False] * 2000})
    counts = reveal(confidential(rows, PANEL, rng=seeded(5)))
    assert counts.n == 2000
    used, works = counts.records.columns[1], counts.records.columns[3]
    assert used.tolist() == [1, 1]
    assert abs(counts.frequencies[works == 1].sum() - 1000) < 5 * np.sqrt(500)


@pytest.mark.parametrize(("order_by", "expected"), [("days", [0, 1, 1]), ("as listed", [1, 0, 1])])
def test_rows_keep_the_order_that_is_declared(order_by: str, expected: list[int]) -> None:
    domain = Domain(tables={"visits": replace(TABLE, max_records=3, slots="ordered", order_by=order_by)})
    table = pl.DataFrame({"who": ["x"] * 3, "ward": ["a", "b", "a"], "days": [1, 0, 1]})
    record = reveal(confidential(table, domain)).records
    assert [int(record.columns[place][0]) for place in (2, 4, 6)] == expected
    assert domain.decode(record, rng=seeded(0))["days"].to_list() == expected


def test_rows_of_an_engine_have_no_listed_order() -> None:
    duckdb = pytest.importorskip("duckdb")
    domain = Domain(tables={"visits": replace(TABLE, slots="ordered", order_by="as listed")})
    with duckdb.connect() as connection, pytest.raises(ParameterError, match="order_by"):
        confidential(connection.sql("SELECT 1 AS who, 'a' AS ward, 1 AS days"), domain)


def test_a_slot_that_is_not_used_has_no_value() -> None:
    record = reveal(confidential(pl.DataFrame({"who": [1], "ward": [None], "days": [1]}), VISITS)).records
    assert [int(column[0]) for column in record.columns] == [0, 2, 1, 3, 2]  # one row, its null and 1; above all cells


def test_rows_beyond_are_cut_at_random_and_no_unit_is_refused() -> None:
    table = pl.DataFrame({"who": np.repeat(np.arange(3000), 3), "ward": ["a", "a", "b"] * 3000, "days": 0})
    counts = reveal(confidential(table, VISITS, rng=seeded(1)))
    assert (counts.n, counts.distinct) == (3000, 2)
    assert abs(counts.frequencies.min() - 1000) < 5 * np.sqrt(3000 * 2 / 9)
    found = reveal_to_custodian(check_table(table, VISITS))
    assert (found.units.over, found.units.cut, found.refused) == (3000, 3000, False)


def test_rules_hold_within_each_row() -> None:
    domain = replace(VISITS, impossible=[{"ward": "a", "days": 1}], implies=[
        {"columns": ["ward"], "determine": "days", "table": {"b": 1}}])  # fmt: skip
    assert [rule.columns for rule in domain.constraints] == [(1, 2), (3, 4)]
    rows = list(product([0, 1, 2], [0, 1]))
    records = Records(columns=tuple(np.array([(1, *a, *b) for a in rows for b in rows]).T))
    allowed = {(0, 0), (1, 1), (2, 0), (2, 1)}
    assert domain.allowed(records).tolist() == [a in allowed and b in allowed for a in rows for b in rows]


def test_a_domain_with_a_table_is_written_and_read_back() -> None:
    ordered = Domain(tables={"visits": replace(TABLE, slots="ordered", order_by="days")}, possible=[{"ward": "a"}])
    for domain in (VISITS, PANEL, ordered):
        assert Domain.from_toml(domain.to_toml()) == domain
        assert Domain.from_dict(domain.to_dict()).names == domain.names
        assert replace(domain, metric_weights=None) == domain
    assert PANEL.row_domain.names == ("born", "year", "work")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {}}, "at least one column"),
        ({"columns": {"x": Numeric(lower=0, upper=1)}}, "Declare cells"),
        ({"columns": {"x": OpenLabels()}}, "Declare cells"),
        ({"columns": {**COLUMNS, "who": Boolean()}}, "Leave it out"),
        ({"order_by": "days"}, "Write both or neither"),
        ({"slots": "ordered"}, "Write both or neither"),
        ({"slots": "month"}, "month"),
        ({"slots": "ward"}, "no nulls"),
        ({"max_records": 0}, "max_records"),
        ({"unit": ""}, "unit"),
        ({"relative_to": {"age": "first"}}, "of a column of the table"),
        ({"relative_to": {"ward": "last"}}, "first"),
        ({"relative_to": {"days": "first"}}, "lower of relative_to"),
        ({"relative_to": {"ward": {"row": "first", "lower": 0, "upper": 1}}}, "alone"),
        ({"relative_to": {"days": {"row": "first", "lower": 0, "upper": 0}}}, "Widen them"),
    ],
)
def test_what_is_declared_wrongly_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DomainError, match=words):
        replace(TABLE, **change)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"tables": {"a": TABLE, "b": TABLE}}, "several tables"),
        ({"tables": {"a": TABLE, "b": TABLE}, "units": "c", "columns": {"x": Boolean()}}, "'days'.*Rename"),
        ({"tables": {"a": TABLE, "b": replace(TABLE, unit="x")}, "units": "c"}, "'who' and 'x'"),
        ({"tables": {"a": {"unit": "who"}}}, "max_records"),
        ({"tables": {"a": TABLE}, "columns": {"days": Boolean()}}, "Rename"),
        ({"tables": {"a": TABLE}, "columns": {"who": Boolean()}}, "Rename"),
        ({"tables": {"ward": replace(TABLE, slots="days")}}, r"'ward' and \[tables.ward\].*'ward \(1\)'. Rename"),
        ({"tables": {"a (1)": replace(TABLE, columns={"number of a": Boolean()})}}, r"'number of a' and \[tables.a "),
        ({"tables": {"a": TABLE}, "metric_weights": {"days (1)": 2.0}}, "Leave it out"),
        ({"tables": {"a": TABLE}, "outcome": "days (1)"}, "Leave it out"),
        ({"tables": {"a": TABLE}, "totals": [{"source": "x", "count": 3}]}, "Leave it out"),
    ],
)
def test_what_cannot_stand_beside_a_table_is_refused(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(DomainError, match=words):
        Domain(**facts)


def test_a_rule_on_what_another_row_holds_is_refused() -> None:
    table = replace(TABLE, relative_to={"ward": "first"})
    with pytest.raises(DomainError, match="relative_to"):
        Domain(tables={"visits": table}, impossible=[{"ward": "a", "days": 1}])
    assert Domain(tables={"visits": table}, impossible=[{"days": 1}]).constraints


def test_a_row_without_a_unit_is_refused_and_named_to_nobody() -> None:
    with pytest.raises(DataError, match="has no privacy unit"):
        confidential(pl.DataFrame({"who": [1, None], "ward": "a", "days": 1}), VISITS)
    with pytest.raises(DataError, match="'who'"):
        confidential(pl.DataFrame({"ward": ["a"], "days": [1]}), VISITS)
