"""The code on the pages for analysts runs as it stands."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize("page", ["analyse-a-release.md"])
def test_the_code_on_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("formulaic")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (PAGES / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 3
    namespace: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in blocks:
            exec(compile(block, page, "exec"), namespace)
    pyplot.close("all")
    said = capsys.readouterr().out
    assert "C(sex)[T.m]" in said
    assert "wage.png" in {path.name for path in tmp_path.iterdir()}
