"""The HTML report in headless Chromium: keyboard, colours and paper."""

import re
from pathlib import Path
from typing import Any

import pytest
from opened_pages import CONTRAST, opened, printed, text

pytestmark = pytest.mark.browser


def test_the_slider_changes_the_reading_with_the_keyboard(chromium: Any, reports: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(chromium, reports / "public.html")
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


def test_it_can_be_walked_through_by_keyboard(chromium: Any, reports: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(chromium, reports / "public.html")
    reached = []
    for _ in range(40):
        chromium.switch_to.active_element.send_keys(Keys.TAB)
        element = chromium.switch_to.active_element
        reached.append((element.tag_name, element.get_attribute("id") or element.get_attribute("class")))
    assert reached[0] == ("a", "skip")
    for wanted in (("button", "theme"), ("input", "rate"), ("summary", "")):
        assert wanted in reached


def test_a_text_that_is_too_pale_would_be_noticed(chromium: Any, reports: Path) -> None:
    opened(chromium, reports / "public.html")
    chromium.execute_script("document.documentElement.style.setProperty('--soft', '#8a8f96')")
    pale = [one for one in chromium.execute_script(CONTRAST) if one[0] < 4.5]
    assert len(pale) > 20


def test_the_button_changes_the_colours_and_says_what_it_does(chromium: Any, reports: Path) -> None:
    opened(chromium, reports / "public.html")
    paper = "return getComputedStyle(document.body).backgroundColor"
    button = chromium.find_element("id", "theme")
    assert (button.text, chromium.execute_script(paper)) == ("Dark colours", "rgb(255, 255, 255)")
    button.click()
    assert button.text == "Light colours"
    assert chromium.execute_script(paper) == "rgb(20, 23, 28)"
    assert min(one[0] for one in chromium.execute_script(CONTRAST)) >= 4.5
    button.click()
    assert chromium.execute_script(paper) == "rgb(255, 255, 255)"


def test_it_is_read_without_scripts(chromium: Any, reports: Path) -> None:
    opened(chromium, reports / "public.html", scripts=False)
    assert not chromium.find_element("id", "control").is_displayed()
    assert not chromium.find_element("id", "theme").is_displayed()
    assert "in 1 % of cases" in text(chromium, "reading")
    assert chromium.find_element("id", "rates").is_displayed()
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("page", ["public.html", "own.html"])
def test_it_prints_on_pages_that_say_when_they_are_confidential(chromium: Any, reports: Path, page: str) -> None:
    paper = printed(opened(chromium, reports / page, scheme="dark"))
    texts = [sheet.extract_text() for sheet in paper.pages]
    assert 2 <= len(texts) <= 12
    assert str(paper.metadata.title).startswith("CONFIDENTIAL") is (page == "own.html")
    for number, sheet in enumerate(texts, start=1):
        assert f"{number} / {len(texts)}" in sheet
        assert ("CONFIDENTIAL: contains numbers computed from the private data" in sheet) is (page == "own.html")
    assert "0.01 %" in "".join(texts)  # the table is printed whole
    assert not re.search(r"Numbers(?! of )", "".join(texts))  # what opens them is not printed
