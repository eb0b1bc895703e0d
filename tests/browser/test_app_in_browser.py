"""The local page in headless Chromium: from a file to a report and an estimate, with nothing but the page.

DISCREET_PICTURES, a folder, gets the pictures of the how-to.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    yield found[0]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
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

    return WebDriverWait(browser, 240, ignored_exceptions=[StaleElementReferenceException]).until(find)


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


@pytest.fixture(scope="module")
def home(chromium: Any, address: str) -> str:
    return entered(chromium, address)


def declare(browser: Any, name: str, kind: str, **facts: str) -> None:
    """Fill in the form of the last column of this name."""
    form = browser.find_elements("css selector", f'fieldset.column[data-name="{name}"]')[-1]
    place = form.find_element("css selector", "select.type").get_attribute("id").removesuffix("-type")
    choose(browser, f"{place}-type", kind)
    for key, text in facts.items():
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
    shown(browser, ".said", "wrote 3,000 records to synthetic.parquet")
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
        shown(browser, ".said", f"wrote {ROWS:,} households")
        shown(browser, "a", "Read the release").click()
        shown(browser, "button", "Beside the confidential table").click()
        shown(browser, "iframe")
        browser.switch_to.frame("inner")
        assert "persons.parquet" in browser.page_source
        assert browser.find_elements("css selector", ".pair svg rect.cell.own")
        browser.switch_to.default_content()
