"""What the pages say of the machine-checked proofs names theorems that are there (``nox -s proofs`` checks these)."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
README = PROOFS / "README.md"

spec = importlib.util.spec_from_file_location("build", PROOFS / "build.py")
assert spec is not None
assert spec.loader is not None
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)
THEOREMS = {path.name: set(build.theorems(path.read_text(encoding="utf-8"))) for path in PROOFS.glob("*.v")}
PAGES = [
    page
    for page in sorted((ROOT / "docs" / "theory").glob("*.md"))
    if "## Checked by a machine" in page.read_text("utf-8")
]


def unknown(text: str) -> list[str]:
    """Return the names in a text that are no theorem, and no file, of the proofs; in a row of a table, of its files."""
    missing = []
    for line in text.splitlines():
        names = [name.removeprefix("proofs/") for name in re.findall(r"`([\w'/]+(?:\.v)?)`", line)]
        names += re.findall(r"\]\((\w+\.v)\)", line)
        files = [name for name in names if name.endswith(".v")] if line.startswith("|") else []
        known = {theorem for name in files or THEOREMS for theorem in THEOREMS.get(name, ())}
        missing += [name for name in names if name and name not in known and name not in THEOREMS]
    return missing


def told(page: str) -> str:
    """Return what a page says about proofs: the section that is called so, and paragraphs that name Coq."""
    sections = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    paragraphs = [text for section in sections for text in section.split("\n\n")]
    checked = [section for section in sections if section.startswith("## Checked by a machine\n")]
    return "\n\n".join([*checked, *(text for text in paragraphs if "Coq" in text)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_theory_page_names_theorems_that_are_there(page: Path) -> None:
    text = told(page.read_text(encoding="utf-8"))
    assert re.findall(r"`\w+`", text)
    assert unknown(text) == []


def test_the_readme_of_the_proofs_names_theorems_that_are_there_and_every_file() -> None:
    text = README.read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\w+\.v)\)", text)) == set(THEOREMS)
    table = "\n".join(line for line in text.splitlines() if line.startswith("| ["))
    assert unknown(table) == []


def test_a_theorem_that_is_not_there_is_found() -> None:
    assert unknown("| T6 | `T6`, `T66` | `T6.v` |") == ["T66"]
    assert unknown("| T6 | `T4` | `T6.v` |") == ["T4"]
    assert unknown("| T6 | `T6` | `T66.v` |") == ["T6", "T66.v"]


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_links_of_the_readme_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(((?:\.\./)*[\w/-]+\.(?:v|md))\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).is_file()] == []


@pytest.mark.parametrize("path", sorted((PROOFS / "negative").glob("*.v")), ids=lambda path: path.stem)
def test_a_wrong_variant_says_what_is_right_and_how_it_fails(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    right, line, words = build.variants(text)
    assert words
    assert right.splitlines()[line - 1] != text.splitlines()[line - 1]


def test_there_are_wrong_variants() -> None:
    assert len(list((PROOFS / "negative").glob("*.v"))) >= 12
