"""A page about a folder of two tables, and about rows of units in one file: the same road, and the same strangers."""

import ast
import contextlib
import html
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from app_browser import Browser, closed, opened

from discreet import Budget, release
from discreet.cli.entry import run
from discreet.domain import Domain, Integer

for package in ("starlette", "uvicorn", "jinja2"):
    pytest.importorskip(package)

HOSTILE = '<img src=x onerror=alert(1)> "&'
HOUSEHOLDS = 1500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables, and beside them what a page must leave aside: a link, and a name with HTML in it."""
    where = tmp_path_factory.mktemp("linked") / "survey"
    where.mkdir()
    rng = np.random.default_rng(1)
    keys = np.arange(HOUSEHOLDS)
    household = np.repeat(keys, rng.integers(0, 4, HOUSEHOLDS))
    owned = rng.choice(["yes", "no"], HOUSEHOLDS)
    pl.DataFrame({"household": keys, "owned": owned}).write_csv(where / "households.csv")
    age = rng.integers(0, 100, len(household))
    pl.DataFrame({"household": household, "age": age, "name": "x"}).write_csv(where / "persons.csv")
    pl.DataFrame({HOSTILE: [1, 2], "household": [1, 2]}).write_csv(where / f"{HOSTILE}.csv")
    pl.DataFrame({"told": ["kept"]}).write_csv(where.parent / "elsewhere.csv")
    (where / "aliased.csv").symlink_to(where.parent / "elsewhere.csv")
    return where


FIELDS = {"units": "households", "table": "persons", "unit": "household", "max_records": "3", "slots": ""}
FIELDS |= {"order_by": "", "owned.type": "category", "owned.categories": "yes\nno", "name.type": "leave out"}
FIELDS |= {"age.type": "integer", "age.lower": "0", "age.upper": "99", "age.cells": "20"}


def fields(page: Browser) -> dict[str, str]:
    """Return the form, whose fields are named by the places of their columns."""
    names = [html.unescape(name) for name in re.findall(r'class="column" data-name="([^"]*)"', page.ask("/declare")[1])]
    found = {}
    for key, text in FIELDS.items():
        name, dot, rest = key.partition(".")
        found[f"{names.index(name)}{dot}{rest}" if dot else key] = text
    return found


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Browser]:
    browser = opened(folder)
    assert browser.enter() == 200
    assert "Say which table has one row per unit" in browser.ask("/declare")[1]
    assert "It is complete" in browser.ask("/declare", fields(browser))[1]
    made = browser.finish("/ledger", {"dataset": "s", "epsilon": "3", "delta": "1e-5"})
    assert "Privacy unit: column &#39;household&#39;, 3 records each" in made  # as declared
    yield browser
    closed(browser)


def shown(page: Browser, asked: dict[str, str]) -> tuple[list[str], str]:
    """Return a release as a command and in Python."""
    text = page.ask("/release", {**asked, "show": "1"})[1]
    found = [re.search(rf'id="{name}">(.*?)</pre>', text, re.DOTALL) for name in ("command", "python")]
    command, python = (html.unescape(one[1]) for one in found if one is not None)
    return shlex.split(command)[1:], python


def rows(path: Path) -> dict[str, pl.DataFrame]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return {file.stem: pl.read_parquet(file) for file in files}


def test_from_a_folder_to_a_comparison(page: Browser, folder: Path) -> None:
    """Page, command and Python release the same rows with a seed, and the folder of tables is left as it was."""
    before = sorted(path.name for path in folder.iterdir())
    assert "Everything fits the declaration" in page.finish("/check", {})
    asked = {"epsilon": "2", "delta": "1e-6", "size": "1500", "out": "trial", "seed": "7", "other-columns": "1"}
    assert "at most 3 rows, as declared" in page.ask("/release")[1]
    command, python = shown(page, asked)
    assert "wrote 1,500 households" in page.finish("/release", asked)
    command[command.index("trial")] = "again"
    with contextlib.chdir(folder.parent):
        assert run(command) == 0
        exec(compile(ast.parse(python.replace('"trial"', '"third"')), "shown", "exec"), {})
    first, *others = (rows(folder.parent / name) for name in ("trial", "again", "third"))
    assert first.keys() == {"households", "persons"}
    for other in others:
        assert all(first[name].equals(other[name]) for name in first)
    assert sorted(path.name for path in folder.iterdir()) == before

    assert "wrote 1,500 households" in page.finish("/release", {**asked, "out": "new", "seed": ""})
    assert "spent: epsilon 2" in page.ask("/home")[1]
    assert "Of linked tables" in page.ask("/read/new")[1]
    verified = page.finish("/read/new/verify", {})
    assert "claims agree" in verified
    assert "was not checked" not in verified  # the files of the folder were
    report = page.finish("/read/new/report", {"beside": "1"})
    assert "Confidential: for you alone" in report
    frame = re.search(r'src="(/[^"]*/jobs/\d+/page)#beside"', report)
    assert frame is not None
    text = page.ask(frame[1])[1]
    assert "persons.parquet" in text
    assert "from the 1,500 confidential ones" in text


def test_names_in_a_folder_are_text_and_links_are_left_aside(page: Browser) -> None:
    for address in ("/home", "/declare", "/check", "/plan", "/release"):
        assert "<img" not in page.ask(address)[1]
    form = page.ask("/declare")[1]
    assert "&lt;img src=x" in form
    assert "aliased" not in form
    assert "told" not in form
    for change in ({"units": "../elsewhere"}, {"units": "aliased"}, {"table": HOSTILE}):
        text = page.ask("/declare/check", fields(page) | change)[1]
        assert '"verdict":"Complete."' not in text
    for name in ("survey", "survey%2Fpersons.csv", "..%2Felsewhere.csv", "elsewhere.csv"):
        assert page.ask(f"/read/{name}")[0] == 404


def test_a_second_visit_finds_declaration_ledger_and_releases(page: Browser, folder: Path) -> None:
    again = opened(folder)
    try:
        assert again.enter() == 200
        home = again.ask("/home")[1]
        assert "survey.toml</bdi>: complete" in home
        assert "data set: s" in home
        form = again.ask("/declare")[1]
        assert re.search(r'<option value="persons" selected>', form)
        assert 'name="max_records" inputmode="numeric" value="3"' in form
    finally:
        closed(again)
    assert page.ask("/home")[0] == 200  # the cookie of one page is not that of another


def test_rows_of_units_in_one_file(tmp_path: Path) -> None:
    """Declared by the form, released with a seed on the page and by its command: the same rows."""
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(1000), rng.integers(1, 4, 1000))
    born = rng.integers(1930, 2010, 1000)[patient]
    ward = rng.choice(["a", "b"], len(patient))
    pl.DataFrame({"patient": patient, "born": born, "ward": ward}).write_csv(tmp_path / "visits.csv")
    form = {"rows": "yes", "table": "visits", "unit": "patient", "max_records": "3", "slots": "", "order_by": ""}
    form |= {"0.type": "leave out", "1.type": "integer", "1.lower": "1930", "1.upper": "2009", "1.own": "1"}
    form |= {"2.type": "category", "2.categories": "a\nb", "2.relative_to.row": "first"}
    asked = {"epsilon": "2", "delta": "1e-6", "size": "1000", "out": "new.parquet", "seed": "7"}
    browser = opened(tmp_path / "visits.csv")
    try:
        assert browser.enter() == 200
        assert "It is complete" in browser.ask("/declare", form)[1]
        domain = Domain.read(tmp_path / "visits.toml")
        visits = next(iter(domain.row_tables.values()))
        assert visits.relative_to == {"ward": "first"}
        assert list(visits.columns) == ["ward"]
        assert "Everything fits the declaration" in browser.finish("/check", {})
        assert "Number of units" in browser.ask("/plan")[1]
        command, _ = shown(browser, asked)
        assert "rows of 1,000 units to new.parquet" in browser.finish("/release", asked)
        assert '<option value="patient"' not in browser.ask("/read/new.parquet")[1]
    finally:
        closed(browser)
    command[command.index("new.parquet")] = "again.parquet"
    with contextlib.chdir(tmp_path):
        assert run(command) == 0
    assert pl.read_parquet(tmp_path / "new.parquet").equals(pl.read_parquet(tmp_path / "again.parquet"))


def test_a_folder_of_parts_is_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(2):
        pl.DataFrame({"age": [1, 2, 3, 4] * 500}).write_parquet(parts / f"{number}.parquet")
    browser = opened(parts)
    try:
        assert browser.enter() == 200
        assert "Columns of" not in browser.ask("/declare")[1]
        form = {"0.type": "integer", "0.lower": "1", "0.upper": "9"}
        assert "It is complete" in browser.ask("/declare", form)[1]
        assert "4,000 rows" in browser.finish("/check", {})
    finally:
        closed(browser)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "one.csv").write_text("a\n1\n")
    assert run(["app", str(tmp_path / "empty")]) == 2
    assert "a folder of several tables" in capsys.readouterr().err


def test_a_released_folder_is_read_and_not_declared(tmp_path: Path) -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=9)})
    table = pl.DataFrame({"age": [1, 2, 3, 4] * 500})
    release(table, domain, Budget(epsilon=1.0, delta=1e-6), size=50, tables=3, out=tmp_path / "several")
    browser = opened(tmp_path / "several")
    try:
        assert browser.enter() == 200
        assert browser.ask("/declare")[0] == 404
        assert browser.ask("/read/several")[0] == 200
        answer = browser.finish("/read/several/question", {"functional": "mean", "column": "age", "by": ""})
        assert "95% from" in answer
    finally:
        closed(browser)
    assert [path.name for path in tmp_path.iterdir()] == ["several"]


def test_persons_and_cars_from_the_form_to_a_comparison(tmp_path: Path) -> None:
    """A second table of rows is declared, paid for, released and compared like the first."""
    where, rng, keys = tmp_path / "survey", np.random.default_rng(2), np.arange(400)
    where.mkdir()
    pl.DataFrame({"household": keys, "owned": rng.choice(["yes", "no"], 400)}).write_csv(where / "households.csv")
    for name, column, most in (("cars", "doors", 2), ("persons", "age", 3)):
        who = np.repeat(keys, rng.integers(0, most + 1, 400))
        pl.DataFrame({"household": who, column: rng.integers(2, 6, len(who))}).write_csv(where / f"{name}.csv")
    browser = opened(where)
    assert browser.enter() == 200
    text = browser.ask("/declare")[1]
    names = [html.unescape(name) for name in re.findall(r'class="column" data-name="([^"]*)"', text)]
    asked = {"units": "households", "unit": "household", "table": "persons", "max_records": "3"}
    asked |= {"table-2": "cars", "max_records-2": "2", f"{names.index('owned')}.type": "boolean"}
    asked |= {f"{names.index('owned')}.{key}": said for key, said in (("true", "yes"), ("false", "no"))}
    for column in ("age", "doors"):
        place = names.index(column)
        asked |= {f"{place}.type": "integer", f"{place}.lower": "2", f"{place}.upper": "5"}
    assert "A further table of their rows" in text
    assert "It is complete" in browser.ask("/declare", asked)[1]
    assert "5 records each" in browser.finish("/ledger", {"dataset": "s", "epsilon": "5", "delta": "1e-5"})
    assert "at most 5 rows, as declared" in browser.ask("/release")[1]
    form = {"epsilon": "4", "delta": "1e-6", "size": "400", "out": "new", "seed": "", "poor-utility": "1"}
    made = browser.finish("/release", form)
    assert re.search(r"wrote 400 households, [\d,]+ persons, [\d,]+ cars to", made)
    report = browser.finish("/read/new/report", {"beside": "1"})
    frame = re.search(r'src="(/[^"]*/jobs/\d+/page)#beside"', report)
    assert frame is not None
    page = browser.ask(frame[1])[1]
    assert re.findall("<h3><bdi>(.*?)</bdi></h3>", page) == [
        "households", "persons", "cars", "households and persons", "households and cars",
    ]  # fmt: skip
    closed(browser)
