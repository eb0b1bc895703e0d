"""The report of a table of units: one unit is drawn, and losses are told by where their columns are."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pages import Page

from discreet import Budget, release
from discreet.domain import Boolean, Category, Domain, Integer, UnitTable
from discreet.errors import ParameterError
from discreet.report import write_report
from discreet.report.released import example_unit, kinds_of_pairs

PERSON = {"age": Integer(lower=0, upper=9), "sex": Category(categories=["f", "m"])}
HOME = Domain(columns={"own": Boolean()}, tables={"persons": UnitTable(unit="home", max_records=3, columns=PERSON)})
YEARS = UnitTable(unit="who", max_records=3, slots="year", columns={"year": Integer(lower=1, upper=3), **PERSON})
PANEL = Domain(tables={"years": YEARS})


def example(path: Path, domain: Domain) -> Any:
    return example_unit([path], domain)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_unit_of_the_commonest_number_of_rows_is_drawn(tmp_path: Path, ending: str) -> None:
    own = [True, False, False, True, True, True]
    table = pl.DataFrame({"home": [1, 2, 2, 3, 3, 4], "own": own, "age": range(1, 7), "sex": list("ffmmfm")})
    getattr(table, f"write_{ending}")(tmp_path / f"homes.{ending}")
    facts, first, second = example(tmp_path / f"homes.{ending}", HOME)
    assert facts == ("", {"own": "false"})
    assert first == ("row 1", {"age": "2", "sex": "f"})
    assert second == ("row 2", {"age": "3", "sex": "m"})
    years = pl.DataFrame({"who": [1, 1, 2], "year": [1, 3, 2], "age": [4, 5, 6], "sex": ["f", None, "m"]})
    getattr(years, f"write_{ending}")(tmp_path / f"years.{ending}")
    found = example(tmp_path / f"years.{ending}", PANEL)
    assert found == [("", {}), ("1", {"age": "4", "sex": "f"}), ("2", {}), ("3", {"age": "5", "sex": "null"})]
    getattr(years.head(0), f"write_{ending}")(tmp_path / f"none.{ending}")
    assert example(tmp_path / f"none.{ending}", PANEL) == []


def test_losses_are_told_by_where_their_columns_are() -> None:
    losses = [
        ("no*pair", 0.9, 0.1),
        ("age (1)*sex (2)", 0.4, 0.1),
        ("own*age (1)", 0.3, 0.1),
        ("age (1)*sex (1)", 0.2, 0.1),
        ("age (2)*sex (2)", 0.1, 0.1),
        ("own*number of persons", 0.02, 0.0),
    ]
    assert kinds_of_pairs(HOME, losses) == [
        ("between rows", "1", "40 %", "40 %", "age (1)*sex (2)"),
        ("of the unit with a row", "1", "30 %", "30 %", "own*age (1)"),
        ("within a row", "2", "15 %", "20 %", "age (1)*sex (1)"),
        ("of the unit", "1", "2 %", "2 %", "own*number of persons"),
    ]
    assert kinds_of_pairs(HOME.row_domain, losses) == []


def test_the_page_shows_both(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    home = np.repeat(np.arange(2000), rng.integers(1, 4, 2000))
    age = rng.integers(0, 10, 2000)[home]
    frame = pl.DataFrame({"home": home, "own": age > 4, "age": age, "sex": np.where(age > 3, "f", "m")})
    out = tmp_path / "homes.parquet"
    release(frame, HOME, Budget(epsilon=4.0, delta=1e-6), size=500, seed=1, out=out)
    assert write_report(out, tmp_path / "r.html").agrees
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "One released home , as an example: above, what is the same in all of its rows" in said
    assert page.count("<li><strong><bdi>row ") in (2, 3)
    assert "between rows" in said
    assert f"{pl.read_parquet(out).height:,} synthetic rows made from a confidential table of 2,000 units" in said


def test_linked_tables_stand_beside_the_confidential_ones(tmp_path: Path) -> None:
    """Each of the two with its distances and its pairs, from a folder and from a mapping."""
    rng = np.random.default_rng(4)
    household = np.repeat(np.arange(1500), rng.integers(0, 4, 1500))
    age = rng.integers(0, 100, len(household))
    tables = {
        "households": pl.DataFrame({"household": np.arange(1500), "owned": rng.random(1500) < 0.6, "rooms": 3}),
        "persons": pl.DataFrame({"household": household, "age": age, "works": np.where(age > 40, "y", "n")}),
    }
    (tmp_path / "survey").mkdir()
    for name, table in tables.items():
        table.write_parquet(tmp_path / "survey" / f"{name}.parquet")
    person = {"age": Integer(lower=0, upper=99, cells=20), "works": Category(categories=["y", "n"])}
    persons = UnitTable(unit="household", max_records=3, columns=person)
    owned = {"owned": Boolean(), "rooms": Integer(lower=1, upper=9)}
    domain = Domain(units="households", columns=owned, tables={"persons": persons})
    release(tables, domain, Budget(epsilon=4.0, delta=1e-6), size=1500, seed=1, out=tmp_path / "out")
    facts = {"domain": domain, "measures": "tv", "resamples": 2}
    for number, data in enumerate((tables, tmp_path / "survey")):
        made = write_report(tmp_path / "out", tmp_path / f"{number}.html", data=data, **facts)
        assert made.confidential
        page = Page(made.path.read_text(encoding="utf-8"))
        page.require_structure()
        assert "age and works" in page.words
        assert "owned and rooms" in page.words
        assert "from the 1,500 confidential ones" in page.words
        assert f"from the {len(household):,} confidential ones" in page.words
    with pytest.raises(ParameterError, match="'households' and 'persons'"):
        write_report(tmp_path / "out", tmp_path / "x.html", data=tmp_path / "survey" / "persons.parquet", **facts)
