"""The words of messages and pages: what CONTRIBUTING asks of them, as far as a program can tell."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "discreet"
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

_OTHER = "of|in|for|to|at|on|is|has|and|or|as|with|from|that|than|by|per|like|such|before|after|whether|where|within"
_EACH = "cell|record|chain|step|column|node|leaf|row|release|coordinate|category|table|pixel|distribution|parameter"
RATE = re.compile(
    rf"\b(?:one(?: (?!(?:{_OTHER})\b)[a-z]+)?|candidates|draws|iterations|units|votes|prior mass (?!of )\S+) "
    rf"an? (?:{_EACH})\b"
)
CHAINED = re.compile(r";|\b(?:has|have|had) to\b")


def refusals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the literal texts of what is raised."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in [*node.exc.args, *(keyword.value for keyword in node.exc.keywords)]:
                for part in ast.walk(argument):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.lineno, part.value


def test_a_rate_is_per_something() -> None:
    """``one row per chain``, not ``one row a chain``; the section on style quotes what to avoid."""
    for planted in ("one row a chain", "one a cell", "candidates a step", "two draws a record", "prior mass 5 a cell"):
        assert RATE.search(planted), planted
    for harmless in ("one of a pair", "rounds a row", "one per cell", "names a column", "with one that a column has"):
        assert not RATE.search(harmless), harmless
    found = []
    for path in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.toml"), *SOURCE.rglob("*.json"), *PAGES]:
        text = re.sub(r"\s+(?:# )?", " ", path.read_text(encoding="utf-8").partition("## Style of messages")[0])
        found += [(path.relative_to(ROOT).as_posix(), rate[0]) for rate in RATE.finditer(text)]
    assert found == []


def test_refusals_are_sentences() -> None:
    """A message chains nothing with a semicolon, and what is demanded ``must be``."""
    planted = "raise DataError(name, f'{x} has to be a number; round it', 'it is odd')"
    assert [text for _, text in refusals(ast.parse(planted)) if CHAINED.search(text)] == [
        " has to be a number; round it"
    ]
    found = []
    for path in SOURCE.rglob("*.py"):
        if not CHAINED.search(whole := path.read_text(encoding="utf-8")):
            continue
        for line, text in refusals(ast.parse(whole)):
            if CHAINED.search(text) and text != "; ":
                found.append((path.relative_to(SOURCE).as_posix(), line, text))
    assert found == []
