"""The page of budgets in headless Chromium: keyboard, numbers, paper and accessibility."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from opened_pages import HOSTILE, axe, fill, opened, printed, text

pytestmark = pytest.mark.browser

SERIOUS = {"serious", "critical"}


def budgets(page: Path) -> list[dict[str, Any]]:
    (found,) = re.findall(
        r'<script id="data" type="application/json">(.*?)</script>', page.read_text("utf-8"), re.DOTALL
    )
    return list(json.loads(found)["budgets"])


def shows(chromium: Any, one: dict[str, Any], risk: int = 2) -> None:
    """Check that the page shows one budget, everywhere."""
    for name in ("amount", "mechanism", "delta", "size", "w1", "times", "left", "command", "why"):
        assert text(chromium, name) == one[name]
    assert text(chromium, "from-data") == one["fromData"]
    assert text(chromium, "words") == one["risks"][risk][1]
    assert chromium.find_element("id", "power").get_attribute("width") == one["risks"][risk][0]
    assert chromium.find_element("id", "python").get_attribute("textContent") == one["python"]
    for name, wanted in (("promised", "promised"), ("not-promised", "not"), ("cells", "cells")):
        items = chromium.find_elements("css selector", f"#{name} li")
        assert [item.text for item in items] == one[wanted]
    rows = chromium.find_elements("css selector", "#errors tr")
    found = [
        (
            row.find_element("css selector", "td span").text,
            float(row.find_element("css selector", "rect").get_attribute("width")),
        )
        for row in rows
    ]
    assert found == [(error[0], error[3]) for error in one["errors"]]
    (current,) = chromium.find_elements("css selector", "#budgets [aria-current]")
    assert current.find_element("css selector", "th").text == one["epsilon"]
    assert chromium.find_element("id", "slider").get_attribute("aria-valuetext") == f"epsilon {one['epsilon']}"


def shows_pairs(chromium: Any, one: dict[str, Any], names: list[str]) -> None:
    """Check that the page shows the pairs of one budget, or that they are not predicted."""
    known, pairs = chromium.find_element("id", "pairs-known"), one["pairs"]
    assert known.is_displayed() is (pairs is not None)
    items = chromium.find_elements("css selector", "#pairs-unknown li")
    assert [item.text for item in items] == one["pairsUnknown"]
    assert bool(items) is (pairs is None)
    if pairs is None:
        return
    assert [text(chromium, f"pairs-{name}") for name in ("mean", "largest")] == pairs["texts"]
    assert text(chromium, "pairs-measured") == pairs["measured"]
    found = []
    for row in chromium.find_elements("css selector", "#pairs tr"):
        assert row.find_element("css selector", "th").get_attribute("scope") == "row"
        cells = [cell.text for cell in row.find_elements("css selector", "th, td:not([aria-hidden])")]
        found.append([*cells, float(row.find_element("css selector", "rect").get_attribute("width"))])
    assert found == [[f"{names[i]} and {names[j]}", *shown] for i, j, *shown in pairs["rows"]]


def test_the_slider_moves_everything_with_the_keyboard(chromium: Any, budget_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    made = budgets(budget_page)
    opened(chromium, budget_page)
    shows(chromium, made[8])
    slider = chromium.find_element("id", "slider")
    steps = {Keys.ARROW_RIGHT: 9, Keys.ARROW_LEFT: 8, Keys.ARROW_DOWN: 7, Keys.END: 16, Keys.HOME: 0}
    for keys, place in steps.items():
        slider.send_keys(keys)
        shows(chromium, made[place])
        assert chromium.find_element("id", "number").get_attribute("value") == made[place]["epsilon"]
    widths = [one["errors"][0][3] for one in made]
    assert widths[0] == max(widths) == 100.0
    assert widths[-1] < 20.0


def test_the_slider_moves_the_pairs_of_columns(chromium: Any, pairs_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    made, names = budgets(pairs_page), ["age", HOSTILE, "c", "d", "e"]
    assert made[0]["pairs"] is None
    assert made[8]["pairs"]["rows"] != made[9]["pairs"]["rows"]
    opened(chromium, pairs_page)
    shows_pairs(chromium, made[8], names)
    slider = chromium.find_element("id", "slider")
    for keys, place in {Keys.ARROW_RIGHT: 9, Keys.HOME: 0, Keys.END: 16}.items():
        slider.send_keys(keys)
        shows_pairs(chromium, made[place], names)
    (bar,) = chromium.find_elements("css selector", "#pairs tr:first-child svg")
    assert bar.size["width"] > 50  # a bar that the script made is drawn


def test_the_largest_error_of_pairs_that_is_accepted_chooses_the_least_epsilon(chromium: Any, pairs_page: Path) -> None:
    from selenium.webdriver.support.select import Select

    made = budgets(pairs_page)
    opened(chromium, pairs_page)
    columns = Select(chromium.find_element("id", "column"))
    for words, place in (("pairs of columns, on average", 0), ("the pair with the largest error", 1)):
        columns.select_by_visible_text(words)
        assert text(chromium, "measured") == "In % of records with another pair of values."
        errors = [one["pairs"]["values"][place] if one["pairs"] else None for one in made]
        most = errors[10]
        fill(chromium, "accepted", repr(most))
        least = next(i for i, one in enumerate(errors) if one is not None and one <= most)
        assert text(chromium, "amount") == made[least]["epsilon"]
        assert text(chromium, "answer").endswith(f"is epsilon {made[least]['epsilon']}.")


def test_a_number_is_taken_as_the_next_computed_one_below(chromium: Any, budget_page: Path) -> None:
    made = budgets(budget_page)
    opened(chromium, budget_page)
    fill(chromium, "number", "3")
    shows(chromium, made[10])
    assert text(chromium, "answer") == "This shows epsilon 2.2, the next lower one on this page."
    fill(chromium, "number", "3.2")
    shows(chromium, made[11])
    assert text(chromium, "answer") == ""
    fill(chromium, "number", "0.001")
    assert text(chromium, "answer") == "The least on this page is epsilon 0.046."
    fill(chromium, "number", "1e9")
    shows(chromium, made[16])


def test_the_largest_error_that_is_accepted_chooses_the_least_epsilon(chromium: Any, budget_page: Path) -> None:
    from selenium.webdriver.support.select import Select

    made = budgets(budget_page)
    opened(chromium, budget_page)
    columns = Select(chromium.find_element("id", "column"))
    assert [option.text for option in columns.options] == ["all columns together", "age", HOSTILE]
    for value, errors in (
        ("-1", [float(one["w1"]) for one in made]),
        ("0", [one["errors"][0][2] for one in made]),
        ("1", [one["errors"][1][2] for one in made]),
    ):
        columns.select_by_value(value)
        for most in (errors[0], errors[5], 1.0001 * errors[11]):
            fill(chromium, "accepted", repr(most))
            least = next(place for place, one in enumerate(errors) if one <= most)
            shows(chromium, made[least])
            assert text(chromium, "answer").endswith(f"is epsilon {made[least]['epsilon']}.")
    fill(chromium, "accepted", "0")
    assert text(chromium, "answer") == "No epsilon on this page is predicted to have an error that small."


def test_the_rate_of_false_alarms_is_chosen(chromium: Any, budget_page: Path) -> None:
    from selenium.webdriver.support.select import Select

    made = budgets(budget_page)
    opened(chromium, budget_page)
    for place, number in enumerate((1, 2, 5, 10, 20)):
        Select(chromium.find_element("id", "wrong")).select_by_visible_text(f"{number} of 100")
        shows(chromium, made[8], place)
        assert f"wrongly confirms {number} of the false suspicions" in text(chromium, "words")
        assert chromium.find_element("id", "guess").get_attribute("x") == str(number)


def test_the_command_is_copied(chromium: Any, budget_page: Path) -> None:
    made = budgets(budget_page)
    opened(chromium, budget_page)
    for permission in ("clipboardReadWrite", "clipboardSanitizedWrite"):
        chromium.execute_cdp_cmd("Browser.grantPermissions", {"permissions": [permission]})
    for name in ("command", "python"):
        chromium.find_element("css selector", f"[data-copy={name}]").click()
        said = [text(chromium, "copied")]
        if said == [""]:  # the clipboard answers later
            from selenium.webdriver.support.ui import WebDriverWait

            WebDriverWait(chromium, 5).until(lambda found: text(found, "copied"))
            said = [text(chromium, "copied")]
        if said == ["Copied."]:
            got = chromium.execute_async_script(
                "const done = arguments[0]; navigator.clipboard.readText().then(done, () => done(null))"
            )
        else:
            assert said == ["Selected. Copy it with the keyboard."]
            got = chromium.execute_script("return getSelection().toString()")
        assert got is None or got.replace("\r", "") == made[8][name]


def test_it_can_be_walked_through_by_keyboard_with_the_focus_seen(chromium: Any, budget_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(chromium, budget_page)
    reached = []
    for _ in range(12):
        chromium.switch_to.active_element.send_keys(Keys.TAB)
        element = chromium.switch_to.active_element
        reached.append(
            element.get_attribute("id") or element.get_attribute("data-copy") or element.get_attribute("class")
        )
        if element.tag_name != "body":
            assert chromium.execute_script("return getComputedStyle(arguments[0]).outlineWidth", element) == "3px"
    assert reached[:8] == ["skip", "slider", "number", "column", "accepted", "wrong", "command", "python"]
    assert chromium.find_element("id", "words").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_axe_finds_nothing_serious(chromium: Any, planned: Path, scheme: str, width: int) -> None:
    code = axe()
    opened(chromium, planned, scheme=scheme, width=width)
    chromium.execute_script(code)
    found = chromium.execute_async_script("const done = arguments[0]; axe.run().then(done)")
    assert len(found["passes"]) > 20
    assert [(one["id"], one["impact"]) for one in found["violations"] if one["impact"] in SERIOUS] == []
    chromium.execute_script("document.getElementById('slider').removeAttribute('id')")  # its label is lost
    found = chromium.execute_async_script("const done = arguments[0]; axe.run().then(done)")
    assert "label" in {one["id"] for one in found["violations"] if one["impact"] in SERIOUS}


def test_without_scripts_it_still_tells_all_budgets(chromium: Any, budget_page: Path) -> None:
    made = budgets(budget_page)
    opened(chromium, budget_page, scripts=False)
    assert not chromium.find_element("id", "controls").is_displayed()
    assert not chromium.find_element("css selector", "[data-copy]").is_displayed()
    rows = chromium.find_elements("css selector", "#budgets tbody tr")
    assert [row.find_element("css selector", "th").text for row in rows] == [one["epsilon"] for one in made]
    assert text(chromium, "words") == made[8]["risks"][2][1]
    opened(chromium, budget_page)


def test_it_prints_the_chosen_budget_and_a_table_of_all(chromium: Any, budget_page: Path) -> None:
    made = budgets(budget_page)
    opened(chromium, budget_page, scheme="dark")
    fill(chromium, "number", "3.2")
    texts = [sheet.extract_text() for sheet in printed(chromium).pages]
    assert 2 <= len(texts) <= 4
    whole = " ".join(unicodedata.normalize("NFKC", "".join(texts)).split())  # letters that are printed as one
    assert "What an attacker learns at epsilon 3.2" in whole
    assert made[11]["risks"][2][1] in whole
    assert "Copy the command line" not in whole
    after = whole[whole.index("All budgets") :]
    for one in made:
        assert f"{one['epsilon']} {one['risks'][0][0]} {one['risks'][2][0]}" in after


def test_it_prints_the_pairs_of_the_chosen_budget_and_a_line_for_each(chromium: Any, pairs_page: Path) -> None:
    made = budgets(pairs_page)
    opened(chromium, pairs_page)
    fill(chromium, "number", "3.2")
    texts = [sheet.extract_text() for sheet in printed(chromium).pages]
    whole = " ".join(unicodedata.normalize("NFKC", "".join(texts)).split())
    shown = whole[whole.index("How near pairs") : whole.index("In plain words")]
    for *_, predicted, sample, measured, _ in made[11]["pairs"]["rows"]:
        assert f"{predicted} {sample} {measured}" in shown
    after = whole[whole.index("Predicted error of pairs") :]
    for one in made:
        if one["pairs"]:
            assert " ".join([one["epsilon"], *one["pairs"]["texts"], one["pairs"]["measured"]]) in after
