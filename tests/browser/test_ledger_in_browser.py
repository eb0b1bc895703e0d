"""The page of a ledger in headless Chromium: its first screen, and paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opened_pages import opened, printed

pytestmark = pytest.mark.browser


def test_what_matters_is_on_the_first_screen(chromium: Any, ledger_page: Path) -> None:
    opened(chromium, ledger_page)
    for name in ("left-h", "means-h"):
        assert chromium.find_element("id", name).rect["y"] < 900
    assert chromium.find_element("css selector", "#attack-c").rect["y"] < 900


def test_it_prints(chromium: Any, ledger_page: Path) -> None:
    texts = [sheet.extract_text() for sheet in printed(opened(chromium, ledger_page, scheme="dark")).pages]
    assert 1 <= len(texts) <= 4
    assert "FORFEITED" in "".join(texts)
    assert f"1 / {len(texts)}" in texts[0]
