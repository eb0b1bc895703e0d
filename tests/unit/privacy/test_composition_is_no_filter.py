"""What composition is not: a rule for when to stop. The counterexample is in tests/law/test_filters.py."""

from __future__ import annotations

import re
from pathlib import Path

from discreet.privacy import compose
from discreet.wording import SHOWS

ROOT = Path(__file__).parents[3]


def test_no_sentence_says_that_composition_may_be_used_to_stop() -> None:
    condition = re.compile(r"fixed\s+before")
    assert condition.search(compose.__doc__ or "")
    for name in (
        "docs/guarantee.md",
        "docs/theory/sampling-is-noise.md",
        "docs/known-limits.md",
        "src/discreet/report/page/report.html",
    ):
        assert condition.search((ROOT / name).read_text(encoding="utf-8")), name
    assert condition.search(SHOWS)
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md"]:
        assert "any adaptive order" not in path.read_text(encoding="utf-8"), path
