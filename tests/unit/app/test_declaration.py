"""A declaration as a form and back: what the form shows, what it does not, and where each column stands."""

from typing import Any

import pytest

from discreet._core.errors import DomainError
from discreet.app.declaration import ENTRIES, Declared, begun, declared, from_fields
from discreet.domain import Domain

LONG = """
[columns.born]
type = "integer"
lower = 1900
upper = 2020
out_of_bounds = "clip"

[[impossible]]
born = 1900
urgent = true

[tables.visits]
unit = "patient"
max_records = 3
slots = "ordered"
order_by = "day"

[tables.visits.columns.day]
type = "integer"
lower = 0
upper = 63
relative_to = {row = "previous", lower = 0, upper = 60}
spacing = "linear"
cells = 16
out_of_bounds = "clip"

[tables.visits.columns.ward]
type = "category"
categories = ["a", "b"]
relative_to = "first"
out_of_bounds = "other"

[tables.visits.columns.urgent]
type = "boolean"
nulls = "category"
out_of_bounds = "null"
"""
PANEL = """
[tables.years]
unit = "who"
max_records = 3
slots = "year"

[tables.years.columns.year]
type = "integer"
lower = 1
upper = 3
out_of_bounds = "clip"

[tables.years.columns.works]
type = "boolean"
nulls = "category"
out_of_bounds = "null"
"""
LINKED = """
units = "households"

[columns.owned]
type = "boolean"
nulls = "category"
out_of_bounds = "null"

[tables.persons]
unit = "household"
max_records = 4

[tables.persons.columns.age]
type = "integer"
lower = 0
upper = 99
out_of_bounds = "clip"
"""
ONE = """
outcome = ["age"]
order = ["since", "until"]

[columns.age]
type = "integer"
lower = 1
upper = 1000
cells = 10
spacing = "log"
out_of_bounds = "clip"

[columns.until]
type = "integer"
lower = 0
upper = 9
out_of_bounds = "clip"

[columns.since]
type = "integer"
lower = 0
upper = 9
out_of_bounds = "clip"
"""
FILES = {
    LONG: [("", name) for name in ("patient", "born", "day", "ward", "urgent", "note")],
    PANEL: [("", name) for name in ("who", "year", "works")],
    LINKED: [("households", "household"), ("households", "owned"), ("persons", "household"), ("persons", "age")],
    ONE: [("", "age"), ("", "until"), ("", "since")],
}


def sent(shown: Declared) -> dict[str, list[str]]:
    """Return what a browser sends where nothing is touched."""
    slots = str(shown.rows.get("slots", ""))
    panel = slots not in ("", "interchangeable", "ordered")
    form: dict[str, Any] = {key: shown.rows.get(key, "") for key in ("table", "unit", "max_records", "order_by")}
    form |= {"units": shown.units, "rules": shown.rules, "rows": "yes" * bool(shown.rows)}
    form |= {"slots": "panel", "order_by": slots} if panel else {"slots": slots}
    for place, key in enumerate(shown.keys):
        form[f"{place}.type"] = shown.kind(key)
        form |= {f"{place}.own": "1"} if key in shown.unit_keys else {}
        for entry in ENTRIES:
            value = shown.shown(key, entry)
            form |= {f"{place}.{entry.key}": "1" if value is True else value} if value else {}
    outcome = [str(place) for place, key in enumerate(shown.keys) if key in shown.outcome]
    return {key: [str(text)] for key, text in form.items()} | {"outcome": outcome}


@pytest.mark.parametrize("text", FILES, ids=["long", "panel", "linked", "one"])
def test_what_is_not_touched_stays_as_it_is(text: str) -> None:
    """Every key of a declaration comes back, those that no field shows included (spacing, rules)."""
    shown = declared(FILES[text], text)
    again = from_fields(shown, sent(shown))
    assert again.state(None) == "Complete."
    assert Domain.from_toml(again.text).to_dict() == Domain.from_toml(text).to_dict()
    assert from_fields(again, sent(again)).text == again.text


def test_columns_stand_where_their_file_or_the_form_says() -> None:
    shown = declared(FILES[LONG], LONG)
    assert shown.unit_keys == {("", "born")}
    moved = from_fields(shown, sent(shown) | {"1.own": [""], "rules": [""]})
    assert "[tables.visits.columns.born]" in moved.text
    assert "patient" not in Domain.from_toml(moved.text).row_domain.names
    assert shown.state(("", "patient")) == "It names the unit, and is not released."
    alone = from_fields(shown, sent(shown) | {"rows": [""], "rules": [""], "0.type": ["leave out"]})
    assert Domain.from_toml(alone.text).tables is None
    assert "relative_to" not in alone.text


def test_a_column_that_is_left_out_is_no_outcome() -> None:
    shown = declared(FILES[ONE], ONE)
    form = sent(shown) | {"outcome": ["0", "1"], "rules": [""]}
    assert from_fields(shown, form).outcome == (("", "age"), ("", "until"))
    left = from_fields(shown, form | {"0.type": ["leave out"]})
    assert left.outcome == (("", "until"),)
    assert left.state(None) == "Complete."


def test_a_form_asks_for_signs_of_money_and_its_defaults_fit_an_order() -> None:
    waiting = begun({("", "pay"): "numeric", ("", "grade"): "category"})
    form = {"0.type": ["numeric"], "0.lower": ["0"], "0.upper": ["100"], "0.decimal_mark": [","], "0.suffix": ["€"]}
    form |= {"1.type": ["category"], "1.categories": ["low\nhigh"], "1.ordered": ["1"]}
    found = from_fields(waiting, form)
    assert found.state(None) == "Complete."
    columns = Domain.from_toml(found.text).columns
    assert columns["pay"].suffix == "€"
    assert columns["grade"].out_of_bounds == "null"


def test_several_files_begin_with_the_column_that_they_share() -> None:
    waiting = begun(dict.fromkeys(FILES[LINKED], "integer"))
    assert waiting.rows["unit"] == "household"
    assert not waiting.complete
    assert "which table has one row per unit" in waiting.state(None)
    form = {f"{place}.type": ["integer"] for place in range(4)} | {"unit": ["household"]}
    form |= {f"{place}.{key}": [value] for place in (1, 3) for key, value in (("lower", "0"), ("upper", "9"))}
    half = from_fields(waiting, form | {"units": ["households"]})
    assert "which table has one row per unit" in half.state(None)
    asked = from_fields(waiting, form | {"units": ["households"], "table": ["persons"]})
    assert asked.state(None) == "Say which column names the unit, and how many rows it keeps."
    whole = from_fields(waiting, form | {"units": ["households"], "table": ["persons"], "max_records": ["4"]})
    assert whole.state(None) == "Complete."
    assert list(Domain.from_toml(whole.text).table_domains) == ["households", "persons"]
    swapped = from_fields(waiting, form | {"units": ["persons"], "table": ["persons"], "max_records": ["4"]})
    assert not swapped.complete


def test_what_is_wrong_with_rows_is_said() -> None:
    shown = declared(FILES[LONG], LONG)
    for change, words in {
        ("max_records", "many"): "max_records",
        ("max_records", "101"): "100",
        ("2.relative_to.upper", ""): "relative_to",
        ("order_by", "born"): "order_by",
    }.items():
        assert words in from_fields(shown, sent(shown) | {change[0]: [change[1]]}).state(None)
    with pytest.raises(DomainError, match="Several need units = NAME"):
        declared(FILES[LONG], LONG + "[tables.other]\nunit = 'x'\n")
    for rule in ("units = 'x'", "[tables.x]", "outcome = 'day'"):
        assert "Leave it out of the rules" in from_fields(shown, sent(shown) | {"rules": [rule]}).state(None)


CARS = """
[tables.cars]
unit = "household"
max_records = 2
slots = "ordered"
order_by = "built"

[tables.cars.columns.built]
type = "integer"
lower = 1950
upper = 2026
out_of_bounds = "clip"
"""


def test_a_unit_may_have_rows_in_several_files() -> None:
    text = LINKED + CARS
    keys = [*FILES[LINKED], ("cars", "household"), ("cars", "built")]
    shown = declared(keys, text)
    assert shown.state(None) == "Complete."
    assert [table["table"] for table in shown.tables] == ["persons", "cars"]
    further = {"table-2": "cars", "max_records-2": "2", "slots-2": "ordered", "order_by-2": "built"}
    form = sent(shown) | {key: [value] for key, value in further.items()}
    assert Domain.from_toml(from_fields(shown, form).text) == Domain.from_toml(text)
    without = from_fields(shown, form | {"table-2": [""]})
    assert Domain.from_toml(without.text) == Domain.from_toml(LINKED)
    assert without.state(("cars", "built")) == ""
    for field, value, said in (
        ("max_records-2", "", "how many rows it keeps"), ("table-2", "persons", "of each table once"),
        ("table-2", "households", "of each table once"),
    ):  # fmt: skip
        assert said in from_fields(shown, form | {field: [value]}).state(None)
