"""The HTML report in headless Chromium: keyboard, colours, paper, and no request to anywhere.

Needs Chromium with its driver, and Selenium: ``nox -s browser``. Where one is missing the tests are skipped.
"""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet.domain import Category, Domain, Integer
from discreet.report import write_report

pytestmark = pytest.mark.browser

HOSTILE = '"><img src=x onerror=document.title="owned">'
# Contrast of every text with what is painted behind it (WCAG 2.2, success criterion 1.4.3), computed in the page.
CONTRAST = """
const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => { for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const element = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || element.closest("script, title, desc")) continue;
  if (!element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const ink = parse(element.closest("svg") ? style.fill : style.color);
  const [a, b] = [light(ink), light(behind(element.closest("svg")?.parentElement ?? element))];
  found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), walk.currentNode.data.trim().slice(0, 40)]);
}
return found;
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public and a confidential report."""
    pytest.importorskip("jinja2")
    where = tmp_path_factory.mktemp("browser")
    draws = np.random.default_rng(8)
    frame = pl.DataFrame({"age": draws.integers(0, 90, 5000), HOSTILE: draws.choice(["a", HOSTILE], 5000)})
    domain = Domain(columns={"age": Integer(lower=0, upper=99, cells=25), HOSTILE: Category(categories=["a", HOSTILE])})
    discreet.release(frame, domain, Budget(epsilon=1), size=900, mechanism="perturbed-histogram", out=where / "z.csv")
    write_report(where / "z.csv", where / "public.html")
    write_report(where / "z.csv", where / "own.html", data=frame, resamples=5)
    return where


def opened(chromium: Any, page: Path, *, scheme: str = "light", scripts: bool = True, width: int = 1200) -> Any:
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    chromium.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get(page.as_uri())
    return chromium


def printed(chromium: Any) -> Any:
    """The page on paper, as pypdf reads it. A page that has not been painted yet cannot be printed: wait for frames."""
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")
    chromium.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    made = chromium.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    return pypdf.PdfReader(io.BytesIO(base64.b64decode(made["data"])))


def text(chromium: Any, name: str) -> str:
    return str(chromium.find_element("id", name).text)


def test_the_slider_changes_the_reading_with_the_keyboard(chromium: Any, pages: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(chromium, pages / "public.html")
    slider = chromium.find_element("id", "rate")
    rows = chromium.find_elements("css selector", "#rates tbody tr")
    places = []
    assert text(chromium, "level") == "1 %"
    for keys, row in ((Keys.ARROW_RIGHT, 7), (Keys.ARROW_RIGHT, 8), (Keys.HOME, 0), (Keys.END, len(rows) - 1)):
        slider.send_keys(keys)
        level, power = (
            rows[row].find_elements("css selector", "th, td")[i].get_attribute("textContent") for i in (0, 1)
        )
        assert text(chromium, "level") == level
        assert text(chromium, "power") == power
        assert rows[row].get_attribute("aria-current") == "true"
        assert len(chromium.find_elements("css selector", "#rates [aria-current]")) == 1
        assert slider.get_attribute("aria-valuetext") == f"{level} false alarms, at most {power} detected"
        places.append(chromium.find_element("id", "spot").get_attribute("cx"))
    assert len(set(places)) == 4
    assert chromium.find_element("id", "reading").get_attribute("aria-live") == "polite"


def test_it_can_be_walked_through_by_keyboard(chromium: Any, pages: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(chromium, pages / "public.html")
    reached = []
    for _ in range(40):
        chromium.switch_to.active_element.send_keys(Keys.TAB)
        element = chromium.switch_to.active_element
        reached.append((element.tag_name, element.get_attribute("id") or element.get_attribute("class")))
    assert reached[0] == ("a", "skip")
    for wanted in (("button", "theme"), ("input", "rate"), ("summary", "")):
        assert wanted in reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["public.html", "own.html"])
def test_every_text_can_be_read_in_both_schemes(chromium: Any, pages: Path, scheme: str, page: str) -> None:
    found = opened(chromium, pages / page, scheme=scheme).execute_script(CONTRAST)
    assert len(found) > 150
    assert [one for one in found if one[0] < 4.5] == []


def test_a_text_that_is_too_pale_would_be_noticed(chromium: Any, pages: Path) -> None:
    opened(chromium, pages / "public.html")
    chromium.execute_script("document.documentElement.style.setProperty('--soft', '#8a8f96')")
    pale = [one for one in chromium.execute_script(CONTRAST) if one[0] < 4.5]
    assert len(pale) > 20


def test_the_button_changes_the_colours_and_says_what_it_does(chromium: Any, pages: Path) -> None:
    opened(chromium, pages / "public.html")
    paper = "return getComputedStyle(document.body).backgroundColor"
    button = chromium.find_element("id", "theme")
    assert (button.text, chromium.execute_script(paper)) == ("Dark colours", "rgb(255, 255, 255)")
    button.click()
    assert button.text == "Light colours"
    assert chromium.execute_script(paper) == "rgb(20, 23, 28)"
    assert min(one[0] for one in chromium.execute_script(CONTRAST)) >= 4.5
    button.click()
    assert chromium.execute_script(paper) == "rgb(255, 255, 255)"


def test_it_is_read_without_scripts(chromium: Any, pages: Path) -> None:
    opened(chromium, pages / "public.html", scripts=False)
    assert not chromium.find_element("id", "control").is_displayed()
    assert not chromium.find_element("id", "theme").is_displayed()
    assert "in 1 % of cases" in text(chromium, "reading")
    assert chromium.find_element("id", "rates").is_displayed()
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_it_fits_narrow_screens(chromium: Any, pages: Path, width: int) -> None:
    opened(chromium, pages / "own.html", width=width)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width


def test_nothing_is_loaded_and_no_name_is_run(chromium: Any, pages: Path) -> None:
    chromium.get_log("performance")
    for page in ("public.html", "own.html"):
        opened(chromium, pages / page)
        assert "owned" not in chromium.title
        assert HOSTILE in chromium.find_element("id", "table").text
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    requests = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    # The browser's own start page goes on loading its parts while ours is opened.
    asked = [r["request"]["url"] for r in requests if not r["documentURL"].startswith("chrome://")]
    assert len(asked) >= 2
    assert [url for url in asked if not re.fullmatch(r"file://.*/(public|own)\.html|data:.*", url)] == []
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("page", ["public.html", "own.html"])
def test_it_prints_on_pages_that_say_when_they_are_confidential(chromium: Any, pages: Path, page: str) -> None:
    paper = printed(opened(chromium, pages / page, scheme="dark"))
    texts = [sheet.extract_text() for sheet in paper.pages]
    assert 2 <= len(texts) <= 12
    assert str(paper.metadata.title).startswith("CONFIDENTIAL") is (page == "own.html")
    for number, sheet in enumerate(texts, start=1):
        assert f"{number} / {len(texts)}" in sheet
        assert ("CONFIDENTIAL: contains numbers computed from the private data" in sheet) is (page == "own.html")
    assert "0.01 %" in "".join(texts)  # the table is printed whole
    assert not re.search(r"Numbers(?! of )", "".join(texts))  # what opens them is not printed
