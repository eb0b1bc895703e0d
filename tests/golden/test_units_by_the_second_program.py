"""The second program on releases of units with several rows: it confirms them, and nothing false of them."""

from __future__ import annotations

import copy
import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from mutants import mutants, narrower, undeclarable
from test_independent_verifier import _remember, program, wrong  # noqa: F401

import discreet
from discreet import AddRemove, Budget, Output, release
from discreet.domain import Boolean, Category, Domain, Integer, Numeric, UnitTable
from discreet.errors import DiscreetError

UNITS = 240
ROWS = {
    "age": Integer(lower=0, upper=99, cells=20),
    "race": Category(categories=["a", "b", "c"]),
    "year": Integer(lower=2000, upper=2002),
    "pay": Numeric(lower=0.0, upper=10.0, cells=5, nulls="category"),
}
CODED = {"race": "first", "age": {"row": "previous", "lower": -60, "upper": 60}}
TABLES = {
    "cars": UnitTable(unit="home", max_records=2, columns=ROWS),  # beside a second table of rows
    "coded": UnitTable(
        unit="home", max_records=3, columns=ROWS, slots="ordered", order_by="as listed", relative_to=CODED
    ),
    "interchangeable": UnitTable(unit="home", max_records=3, columns=ROWS),
    "linked": UnitTable(unit="home", max_records=2, columns=ROWS, slots="ordered", order_by="age"),
    "panel": UnitTable(unit="home", max_records=3, columns=ROWS, slots="year"),
    "several": UnitTable(unit="home", max_records=2, columns=ROWS),
}
CARS = UnitTable(unit="home", max_records=2, columns={"fuel": Category(categories=["e", "p"])})
LINKED, SEVERAL = ("cars", "linked"), ("cars", "several")
"""Released as linked tables; as two draws."""
STATED_OF_ROWS = (
    ("mechanism", "parameters", "score_units"),  # fewer cost less
    ("domain", "units"),  # a name; without it there are other files
    *(("domain", "tables", ..., "columns", ..., name) for name in ("cells", "lower", "nulls", "spacing", "upper")),
    ("domain", "tables", ..., "columns", ..., "relative_to", "lower"),
    ("domain", "tables", ..., "columns", ..., "relative_to", "upper"),
)
"""Facts of rows in whose place another true value may stand, as of other columns."""


def released(which: str, folder: Path) -> dict[str, list[list[str]]]:
    """Release invented homes, with text files in the folder; return their rows."""
    rng = np.random.default_rng(5)
    home = np.repeat(np.arange(UNITS), rng.integers(1, 4, UNITS))
    own = rng.random(UNITS) < 0.5
    rows = pl.DataFrame({
        "home": home, "owned": own[home], "age": rng.integers(0, 100, len(home)),
        "race": rng.choice(list("abc"), len(home)), "year": rng.integers(2000, 2003, len(home)),
        "pay": rng.random(len(home)) * 10,
    })  # fmt: skip
    linked = "homes" if which in LINKED else None
    cars = {"cars": CARS} if which == "cars" else {}
    rules = {"determines": [["race", "pay"]]} if which in ("cars", "interchangeable") else {}
    domain = Domain(units=linked, columns={"owned": Boolean()}, tables={"persons": TABLES[which], **cars}, **rules)
    tables = {"homes": pl.DataFrame({"home": np.arange(UNITS), "owned": own}), "persons": rows.drop("owned")}
    driven = np.repeat(np.arange(UNITS), rng.integers(0, 3, UNITS))
    tables |= {name: pl.DataFrame({"home": driven, "fuel": rng.choice(["e", "p"], len(driven))}) for name in cars}
    asked: dict[str, Any] = {"size": UNITS, "accept": {"poor-utility"}}
    asked |= {"relation": AddRemove(records=UNITS)} if which == "panel" else {}
    asked |= {"tables": 2} if which in SEVERAL else {}
    whole = folder / "whole"
    out = Output(whole) if which in (*LINKED, *SEVERAL) else Output(folder / "r.csv", certificate=folder / "c.json")
    release(tables if linked else rows, domain, Budget(epsilon=3.0, delta=1e-5), out=out, **asked)
    if whole.exists():  # as text files, which the second program reads
        document = json.loads((whole / "certificate.json").read_text(encoding="utf-8"))
        for table in document["released"]["tables"]:
            name = Path(table["file"]).with_suffix(".csv").name
            pl.read_parquet(whole / table["file"]).write_csv(folder / name)
            table["file"] = name
        (folder / "c.json").write_text(json.dumps(document), encoding="utf-8")
    document = json.loads((folder / "c.json").read_text(encoding="utf-8"))
    names = [table["file"] for table in document["released"]["tables"]]
    texts = {name: list(csv.reader((folder / name).read_text(encoding="utf-8").splitlines())) for name in names}
    written(document, folder, texts)
    return texts


def written(document: dict[str, Any], folder: Path, texts: dict[str, list[list[str]]]) -> dict[str, Any]:
    """Write rows as text files, and return the certificate that says so."""
    document = copy.deepcopy(document)
    for table in document["released"]["tables"]:
        rows, path = texts[table["file"]], folder / table["file"]
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
        table |= {"rows": len(rows) - 1, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "c.json").write_text(json.dumps(document), encoding="utf-8")
    return document


@pytest.fixture(scope="module", params=TABLES)
def units(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    texts = released(request.param, folder)
    return request.param, json.loads((folder / "c.json").read_text(encoding="utf-8")), texts, folder


def test_it_confirms_their_numbers_and_their_files(units: Any) -> None:
    which, document, texts, folder = units
    checks = program.verify(json.dumps(document), folder)
    assert {check.status for check in checks} == {program.AGREES}
    draws, tables = 1 + (which in SEVERAL), 1 + (which == "cars")
    assert sum(check.what == "released units" for check in checks) == draws * tables
    assert sum(check.what == "released values" for check in checks) == draws * (4 + tables)
    if which in ("coded", "interchangeable", "panel"):
        assert all(check.agrees for check in discreet.verify(folder / "c.json", data=folder / next(iter(texts))))


def test_its_pairs_of_columns_are_those_of_the_library(units: Any) -> None:
    """T20's cost has a score of each pair of columns of the record, but for those that are determined."""
    which, document, _, _ = units
    facts, domain = program.Facts(document), Domain.from_dict(document["domain"])
    assert list(facts.columns) == list(domain.columns)
    slots = 3 if which in ("coded", "interchangeable", "panel") else 2
    columns = 1 + (slots + slots * 3 if which == "panel" else 1 + slots * 4) + (3 if which == "cars" else 0)
    assert len(domain.columns) == columns
    determined = slots if which in ("cars", "interchangeable") else 0
    assert program.pairs_of(facts) == columns * (columns - 1) // 2 - determined


SIMPLER = ("interchangeable", "linked", "several")
"""Of whose declarations, files and draws the others have all."""


def test_it_confirms_nothing_false_of_them(units: Any) -> None:
    if units[0] not in SIMPLER:
        require_nothing_false_confirmed(*units)


@pytest.mark.exhaustive
def test_it_confirms_nothing_false_of_the_simpler_ones(units: Any) -> None:
    if units[0] in SIMPLER:
        require_nothing_false_confirmed(*units)


def require_nothing_false_confirmed(which: str, document: dict[str, Any], _: Any, folder: Path) -> None:
    confirmed = {at for at, twin in mutants(document, *STATED_OF_ROWS) if not wrong(twin, folder)}
    held_by = {at for at in confirmed if at[-1] == "relative_to"}  # that rows are held by others is only stated
    assert len(held_by) == (2 if which == "coded" else 0)
    assert confirmed - held_by <= {("guarantee", "exact")}  # not to call a promise exact is to promise less


def test_it_refuses_declarations_of_rows_that_the_file_contradicts(units: Any) -> None:
    _, document, texts, folder = units
    (header, *rows), *others = (text for text in texts.values() if "age" in text[0])
    rows += [row for text in others for row in text[1:]]
    name, table = next(iter(document["domain"]["tables"].items()))
    for key, column in table["columns"].items():
        values = sorted({row[header.index(key)] for row in rows} - {""})
        for fact, value in narrower(column, values):
            twin = copy.deepcopy(document)
            twin["domain"]["tables"][name]["columns"][key][fact] = value
            assert wrong(twin, folder), (key, fact, value)
    twin = copy.deepcopy(document)
    del twin["domain"]["tables"][name]["columns"]["pay"]["nulls"]
    found = wrong(twin, folder).get("released values")
    assert found == (program.WRONG if any(row[header.index("pay")] == "" for row in rows) else None)


def held_by_the_library(document: dict[str, Any], folder: Path) -> bool:
    path = folder / "certificate.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        return all(check.agrees for check in discreet.verify(path))
    except DiscreetError:
        return False


def test_it_refuses_the_declarations_that_the_library_refuses(units: Any, tmp_path: Path) -> None:
    which, document, _, _ = units
    words = set()
    for word, twin in undeclarable(document):
        words.add(word)
        assert program.WRONG in wrong(twin).values(), word
        assert not held_by_the_library(twin, tmp_path), word
    assert held_by_the_library(document, tmp_path)
    assert ({"columns of two tables", "units without a name"} <= words) == (which == "cars")
    assert ("a column with the name of its table" in words) == (which == "panel")


def longest(text: list[list[str]]) -> list[list[str]]:
    """Return the rows of a unit that has most."""
    place = text[0].index("home")
    units = [row[place] for row in text[1:]]
    most = max(units, key=units.count)
    return [row for row in text[1:] if row[place] == most]


def orphan(texts: dict[str, list[list[str]]], rows: str) -> None:
    texts[rows].append(["0" if name == "home" else value for name, value in zip(*texts[rows][:2], strict=True)])


def one_row_too_many(texts: dict[str, list[list[str]]], rows: str) -> None:
    texts[rows] += longest(texts[rows])


def a_unit_left_out(texts: dict[str, list[list[str]]], rows: str) -> None:
    place = texts[rows][0].index("home")
    texts[rows] = [row for row in texts[rows] if row[place] != "7"]


def other_own_values(texts: dict[str, list[list[str]]], rows: str) -> None:
    place, row = texts[rows][0].index("owned"), longest(texts[rows])[-1]
    row[place] = {"true": "false", "false": "true"}[row[place]]


def a_unit_twice(texts: dict[str, list[list[str]]], rows: str) -> None:
    texts[rows].append(list(texts[rows][1]))


def a_value_outside(texts: dict[str, list[list[str]]], rows: str) -> None:
    texts[rows][-1][texts[rows][0].index("age")] = "100"


def another_column(texts: dict[str, list[list[str]]], rows: str) -> None:
    for row in texts[rows]:
        row.append("x")


SPOILT: dict[Callable[[dict[str, list[list[str]]], str], None], str] = {
    orphan: "released units",
    one_row_too_many: "released units",
    a_unit_left_out: "released units",
    other_own_values: "released units",
    a_unit_twice: "released units",
    a_value_outside: "released values",
    another_column: "released.columns",
}


def test_a_file_that_is_not_there_is_named_and_the_other_draws_are_checked(units: Any) -> None:
    which, document, texts, folder = units
    kept = [check.what for check in program.verify(json.dumps(document), folder)].count("released units")
    lost = (folder / next(iter(texts))).rename(folder / "elsewhere")
    try:
        checks = program.verify(json.dumps(document), folder)
        said = {check.detail for check in checks if check.status == program.CANNOT}
        assert {check.status for check in checks} == {program.AGREES, program.CANNOT}
        assert said == {f"there is no file {next(iter(texts))}, or no hash of it"}
        assert sum(check.what == "released units" for check in checks) == kept - kept // (1 + (which in SEVERAL))
    finally:
        lost.rename(folder / next(iter(texts)))


@pytest.mark.parametrize("spoil", SPOILT)
def test_it_refuses_files_that_contradict_their_units(units: Any, spoil: Any) -> None:
    """With hashes and numbers of rows that fit: what is wrong are the rows."""
    which, document, texts, folder = units
    first, last = next(iter(texts)), [name for name, text in texts.items() if "age" in text[0]][-1]
    of_units = spoil in (a_unit_left_out, other_own_values, a_unit_twice)
    if which not in LINKED and spoil is a_unit_twice:
        return  # rows of a unit may be alike
    if which in LINKED and spoil is other_own_values:
        return  # they stand once
    spoilt = copy.deepcopy(texts)
    spoil(spoilt, first if of_units else last)
    try:
        assert wrong(written(document, folder, spoilt), folder)[SPOILT[spoil]] == program.WRONG
    finally:
        written(document, folder, texts)


@pytest.mark.parametrize(("place", "value"), [
    (("mechanism", "name"), "perturbed-histogram"), (("relation", "group"), 3), (("unit", "max_records"), 1),
    (("unit", "column"), "owned"), (("domain", "outcome"), ["age (1)"]), (("domain", "units"), "homes"),
])  # fmt: skip
def test_it_refuses_what_units_cannot_have(units: Any, place: tuple[str, ...], value: Any) -> None:
    which, document, _, _ = units
    if which in LINKED and place == ("domain", "units"):
        return
    twin = copy.deepcopy(document)
    twin[place[0]][place[1]] = value
    assert {program.WRONG, program.LESS} & set(wrong(twin).values())


def test_it_refuses_one_table_in_place_of_two(units: Any) -> None:
    which, document, _, folder = units
    twin = copy.deepcopy(document)
    if twin["domain"].pop("units", None):
        assert wrong(twin)["guarantee" if which == "cars" else "released.tables"] == program.WRONG
        assert wrong(twin, folder)["released.columns"] == program.WRONG
    else:
        assert which not in LINKED


def test_a_row_more_costs_more(units: Any) -> None:
    """With a slot more there are more scores than were paid."""
    _, document, _, _ = units
    twin = copy.deepcopy(document)
    *_, table = twin["domain"]["tables"].values()
    if table.get("slots") == "year":
        table["columns"]["year"]["upper"] += 1
    table["max_records"] += 1
    twin["unit"]["max_records"] += 1
    assert wrong(twin)["guarantee.delta"] == program.LESS
