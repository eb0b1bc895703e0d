"""What every page has in headless Chromium: texts that can be read, on narrow screens too, and no request to anywhere.

Needs Chromium with its driver, and Selenium: ``nox -s browser``. Where one is missing the tests are skipped.
"""

from pathlib import Path
from typing import Any

import pytest
from opened_pages import CONTRAST, HOSTILE, fill, opened, printed, requested

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_both_schemes(chromium: Any, any_page: Path, scheme: str) -> None:
    found = opened(chromium, any_page, scheme=scheme).execute_script(CONTRAST)
    assert len(found) > 100
    assert [one for one in found if one[0] < 4.5] == []


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_it_fits_narrow_screens(chromium: Any, any_page: Path, width: int) -> None:
    opened(chromium, any_page, width=width)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width


def test_nothing_is_loaded_and_no_name_is_run(chromium: Any, any_page: Path) -> None:
    for kind in ("performance", "browser"):
        chromium.get_log(kind)
    opened(chromium, any_page)
    where = {f"Ledger of {HOSTILE}": "h1", "Choose a budget": "#errors"}.get(chromium.title, "#table")
    assert "owned" not in chromium.title.replace(HOSTILE, "")
    assert HOSTILE in chromium.find_element("css selector", where).text
    if where == "#errors":
        fill(chromium, "number", "3")
    assert requested(chromium) == [any_page.as_uri()]


def test_what_matters_of_a_ledger_is_on_the_first_screen(chromium: Any, ledger_page: Path) -> None:
    opened(chromium, ledger_page)
    for name in ("left-h", "means-h"):
        assert chromium.find_element("id", name).rect["y"] < 900
    assert chromium.find_element("css selector", "#attack-c").rect["y"] < 900


def test_a_ledger_prints(chromium: Any, ledger_page: Path) -> None:
    texts = [sheet.extract_text() for sheet in printed(opened(chromium, ledger_page, scheme="dark")).pages]
    assert 1 <= len(texts) <= 4
    assert "set aside" in "".join(texts)
    assert f"1 / {len(texts)}" in texts[0]
