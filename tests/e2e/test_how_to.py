"""The code on the pages for analysts runs as it stands."""

import re
import warnings
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
SAID = {  # what the code of a page prints, among other things
    "../is-this-for-my-table.md": ["No relation of two columns is strong enough to be kept at this budget."],
    "analyse-a-release.md": ["C(sex)[T.m]"],
    "choose-a-budget.md": ["0.0315"],
    "estimate-from-a-release.md": [
        "P(>0.75)",
        "confidential records that the release does not show",
        "5 tables of 2,000 records",
    ],
    "release-a-wide-table.md": ["20 tables of 4,000 records", "coefficients of the linear projection of visits"],
    "examine-a-mechanism.md": [
        "would have caught epsilon 1.",
        "rejected, with false alarms at most 0.10%: epsilon",
        "True",
    ],
    "release-in-parts.md": ["P(=true)", "100000"],
    "evolve-with-your-own-model.md": ["drawn: ", "released: "],
}
SECTIONS = {"evolve-with-your-own-model.md": "## A denoising model"}  # the others need a model that is not here
NEEDS = {"release-a-wide-table.md": "statsmodels"}  # for the first block, whose file the command alone reads


def blocks(page: str) -> list[str]:
    """Return the code of a page that can run here."""
    text = (PAGES / page).read_text(encoding="utf-8")
    if page in SECTIONS:
        text = SECTIONS[page] + text.split(SECTIONS[page])[1].split("\n## ")[0]
    found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for block in found if NEEDS.get(page, "\0") not in block]


@pytest.mark.parametrize("page", SAID)
def test_the_code_on_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("formulaic")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    code = blocks(page)
    assert len(code) > 1 - (page in NEEDS or page.startswith(".."))
    namespace: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Stochastic Optimizer")  # a model that was trained for seconds
        for block in code:
            exec(compile(block, page, "exec"), namespace)
    pyplot.close("all")
    said = capsys.readouterr().out
    for words in SAID[page]:
        assert words in said
    if page in SECTIONS:  # votes steer the generator: of 500 images from it, half are below 5
        before, after = (int(share) for share in re.findall(r"(\d+)% are below 5", said))
        assert before < 60 < after - 10
    wanted = {name for block in code for name in re.findall(r'savefig\("([^"]+)"', block)}
    assert wanted <= {path.name for path in tmp_path.iterdir()}
