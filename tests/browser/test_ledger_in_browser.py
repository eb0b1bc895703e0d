"""The page of a ledger in headless Chromium: colours, narrow screens, paper, and no request to anywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_report_in_browser import CONTRAST, HOSTILE, opened, printed

from discreet import Ledger, release
from discreet.domain import Domain, Integer
from discreet.ledger import Request
from discreet.privacy import Budget
from discreet.report.ledger_page import write_ledger_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jinja2")
    where = tmp_path_factory.mktemp("ledger")
    Ledger.create(where / "l.ledger", dataset=HOSTILE, epsilon=2.0, delta=1e-5)
    table, domain = pl.DataFrame({"age": [34, 35, 36, 37] * 500}), Domain(columns={"age": Integer(lower=0, upper=99)})
    with Ledger(where / "l.ledger") as ledger:
        for number in range(3):
            release(
                table,
                domain,
                Budget(epsilon=0.5, delta=1e-6),
                size=50,
                mechanism="perturbed-histogram",
                ledger=ledger,
                out=where / f"a-name-that-is-rather-long-for-a-column-of-a-table-{number}.csv",
                accept={"poor-utility"},
            )
        with pytest.raises(ZeroDivisionError), ledger.pay(Request(budget=Budget(epsilon=0.25))):
            raise ZeroDivisionError
        ledger.pay(Request(budget=Budget(epsilon=0.25)))
    write_ledger_report(where / "l.ledger", where / "page.html")
    return where / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_both_schemes(chromium: Any, page: Path, scheme: str) -> None:
    found = opened(chromium, page, scheme=scheme).execute_script(CONTRAST)
    assert len(found) > 100
    assert [one for one in found if one[0] < 4.5] == []


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_it_fits_narrow_screens(chromium: Any, page: Path, width: int) -> None:
    opened(chromium, page, width=width)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width


def test_what_matters_is_on_the_first_screen(chromium: Any, page: Path) -> None:
    opened(chromium, page)
    for name in ("left-h", "means-h"):
        assert chromium.find_element("id", name).rect["y"] < 900
    assert chromium.find_element("css selector", "#attack-c").rect["y"] < 900


def test_nothing_is_loaded_and_no_name_is_run(chromium: Any, page: Path) -> None:
    chromium.get_log("performance")
    opened(chromium, page)
    assert chromium.title == f"Ledger of {HOSTILE}"
    assert HOSTILE in chromium.find_element("css selector", "h1").text
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    requests = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    asked = [r["request"]["url"] for r in requests if not r["documentURL"].startswith("chrome://")]
    assert asked
    assert [url for url in asked if not re.fullmatch(r"file://.*/page\.html|data:.*", url)] == []
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_it_prints(chromium: Any, page: Path) -> None:
    texts = [sheet.extract_text() for sheet in printed(opened(chromium, page, scheme="dark")).pages]
    assert 1 <= len(texts) <= 4
    assert "FORFEITED" in "".join(texts)
    assert f"1 / {len(texts)}" in texts[0]
