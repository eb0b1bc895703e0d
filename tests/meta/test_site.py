"""The documentation's own programs: the check of a built site, the tables of the reference, the gallery's pictures."""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from discreet.cli.entry import discreet as commands
from discreet.mechanisms import REGISTRY

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
RESULTS = ROOT / "experiments" / "results"


@pytest.fixture(autouse=True)
def _docs_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("docs", "docs/_extensions", "experiments"):
        monkeypatch.syspath_prepend(str(ROOT / folder))


def loaded(name: str) -> ModuleType:
    __import__(name)
    return sys.modules[name]


def site(folder: Path, body: str, css: str = "") -> list[str]:
    """Return what the check finds wrong with a site of two pages."""
    folder.joinpath("index.html").write_text(f'<p id="here"></p>{body}', encoding="utf-8")
    folder.joinpath("other.html").write_text('<h1 id="there">Other</h1>', encoding="utf-8")
    folder.joinpath("style.css").write_text(css, encoding="utf-8")
    folder.joinpath("p.png").write_bytes(b"")
    found: list[str] = loaded("check_site").problems(folder)
    return found


FAULTS = [
    '<script src="https://cdn.example/x.js"></script>',
    '<script src="//cdn.example/x.js"></script>',
    '<link rel="stylesheet" href="https://fonts.example/x.css">',
    '<link rel="preconnect" href="https://fonts.example">',
    '<img src="http://example.org/p.png">',
    '<img srcset="p.png 1x, https://example.org/p.png 2x">',
    '<iframe src="https://example.org"></iframe>',
    "<style>@import 'https://fonts.example/x.css';</style>",
    '<p style="background: url(https://example.org/p.png)"></p>',
    '<svg><image href="https://example.org/p.png"/></svg>',
    '<img src="absent.png">',
    '<a href="absent.html">x</a>',
    '<a href="other.html#absent">x</a>',
    '<a href="#absent">x</a>',
    '<p role="heading">x</p> <p role="heading">y</p>',
]
FAULTS_OF_STYLE = ["@font-face { src: url('https://example.org/f.woff2'); }", "p { src: url(absent.png) }"]


def test_each_fault_of_a_site_or_a_style_sheet_is_found(tmp_path: Path) -> None:
    for body, css in [*((body, "") for body in FAULTS), *(("", css) for css in FAULTS_OF_STYLE)]:
        assert len(site(tmp_path, body, css)) == 1, (body, css)


def test_what_is_harmless_passes(tmp_path: Path) -> None:
    body = """
    <p role="heading" aria-level="2">x</p>
    <a href="https://example.org">a reader may follow this</a> <a href="mailto:a@example.org">or write</a>
    <a href="other.html#there">x</a> <a href="#here">x</a> <a href="#">top</a> <a href="other.html?x=1">x</a>
    <link rel="canonical" href="https://example.org/"> <link rel="stylesheet" href="style.css?v=1">
    <img src="p.png" srcset="p.png 2x"> <img src="data:image/png;base64,AAAA"> <svg><use href="#here"/></svg>
    """
    assert site(tmp_path, body, "p { background: url(p.png) url('data:image/svg+xml,x') }") == []


def test_the_table_of_mechanisms_has_a_row_for_each_and_says_what_is_known() -> None:
    tables = loaded("tables")
    rows = {row.name: row for row in tables.rows()}
    assert list(rows) == list(REGISTRY)
    index = (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8")
    for row in rows.values():
        assert f"| {row.theorem} |" in index
        assert f"({row.theory}.md)" in index or row.theory in index
    lines = tables.mechanisms_table()
    assert len(lines) == len(REGISTRY) + 2
    assert len({line.count("|") for line in lines}) == 1
    # facts that stand elsewhere: in the theory's index, and in the how-to of wide tables
    said = {
        "dirichlet-process": ("exact", "T1", "replacement", "records", "yes"),
        "pitman-yor": ("exact", "T21", "replacement", "records", "yes"),
        "perturbed-histogram": ("exact", "T6", "replacement", "records or counts", "yes"),
        "hierarchical-histogram": ("exact", "T9", "replacement", "records or counts", "yes"),
        "exponential-histogram": ("upper bound", "T10", "replacement", "records", "of small tables"),
        "marginals": ("upper bound", "T20", "replacement, add-remove", "records or counts", "from several tables"),
        "urn-histogram": ("exact", "T12", "replacement", "records", "on cells"),
    }
    for name, (sharp, theorem, relations, gives, intervals) in said.items():
        row = rows[name]
        assert row.guarantee == f"unconditional, {sharp}"
        assert (row.theorem, row.relations, row.gives, row.intervals) == (theorem, relations, gives, intervals)


def test_the_table_of_estimates_holds_the_notes_of_each_kind_of_question() -> None:
    notes = loaded("tables").estimate_notes()
    assert {source for _, source in notes} >= {"hierarchical-histogram", "perturbed-histogram", "urns"}
    assert len({question for question, _ in notes}) >= 12
    coins = {
        question for (question, _), texts in notes.items() if any("coins of the records" in text for text in texts)
    }
    assert coins == {"mean, sd, quantile, share, of a column with a coin"}
    assert all(texts and all(texts) for texts in notes.values())


def test_a_table_of_names_has_all_functions_and_classes() -> None:
    privacy = loaded("discreet.privacy")
    lines = loaded("tables").names_table("discreet.privacy")[2:]
    named = [re.search(r"discreet\.privacy\.(\w+)`", line) for line in lines]
    assert [found[1] for found in named if found] == list(privacy.__all__)
    assert all(re.search(r"\| [A-Z].*\. \|$", line) for line in lines)


def test_every_picture_is_shown_and_belongs_to_data_that_is_kept() -> None:
    pytest.importorskip("matplotlib", minversion="3.10")
    pictures = loaded("pictures").pictures()
    pages = {path.stem: path.read_text(encoding="utf-8") for path in GALLERY.glob("*.md")}
    for name, picture in pictures.items():
        paper = name.partition("_")[0]
        assert pages[paper].count(f"```{{paper-picture}} {name}\n") == 1
        assert picture.data
        assert all(path.is_file() for path in picture.data), name
        assert (picture.draw.__doc__ or "").endswith(".")
    shown = re.findall(r"```\{paper-picture\} (\S+)", "\n".join(pages.values()))
    assert sorted(shown) == sorted(pictures)


def test_every_readme_of_results_is_a_page_of_the_gallery() -> None:
    readmes = {path.relative_to(RESULTS).as_posix() for path in RESULTS.glob("*/README.md")}
    included = "\n".join(path.read_text(encoding="utf-8") for path in (GALLERY / "notes").glob("*.md"))
    assert readmes <= set(re.findall(r"experiments/results/(\S+)", included))


def test_verdicts_of_the_gallery_are_of_the_notes() -> None:
    """Numbers of a verdict stand in the notes, the data files or the theory: none is made up here."""
    kept = "\n".join(path.read_text(encoding="utf-8") for path in [*RESULTS.glob("*/*.md"), *RESULTS.glob("*/*.csv")])
    kept += "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "theory").glob("*.md"))
    for path in GALLERY.glob("[bpr]*.md"):
        for verdict in re.findall(r"\*\*Verdict:\*\*(.*)", path.read_text(encoding="utf-8")):
            for number in re.findall(r"(?<![\w.])\d+\.\d+(?![\w.]\d)", verdict):
                assert number in kept, (path.name, number)


def test_every_system_of_the_papers_is_there_and_tested() -> None:
    """29 rows: what each names can be had, its test names it, and no mechanism but marginals is left out."""
    text = (GALLERY / "systems.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if re.match(r"\| \d+ \|", line)
    ]
    assert [int(row[0]) for row in rows] == list(range(1, 30))
    mechanisms = set()
    for _, system, paper, called, _, test, _ in rows:
        assert re.search("PY26|BNP24|PE25|PP22|ROO25", paper), system
        checks = (ROOT / test.strip("`")).read_text(encoding="utf-8")
        for name in re.findall("`([^`]+)`", called):
            if name in REGISTRY:
                mechanisms.add(name)
            elif name.startswith("discreet "):
                context = click.Context(commands)
                group: Any = commands
                for word in name.split()[1:]:
                    group = group.get_command(context, word)
                    assert group is not None, name
            elif name.startswith("discreet."):
                module, _, member = name.rpartition(".")
                assert callable(getattr(importlib.import_module(module), member)), name
                mechanisms.add(member)
        names = re.findall("`([^`]+)`", called)
        words = {REGISTRY[name].__name__ if name in REGISTRY else name.rpartition(".")[2] for name in names}
        assert any(re.search(rf"\b{re.escape(word)}\b", checks) for word in words), system
    assert set(REGISTRY) - mechanisms == {"marginals"}


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
def test_pictures_say_what_their_axes_are(theme: str) -> None:
    """Drawn, not written to a file, which takes most of the time; each axis has a name, in ink that is read."""
    pytest.importorskip("matplotlib", minversion="3.10")
    from matplotlib.colors import to_rgb

    module = loaded("pictures")
    names = list(module.pictures())
    for name in names[:: 1 if theme == "light" else 6]:
        with module.look(theme):
            figure = module.pictures()[name].draw()
            assert contrast(to_rgb(module.ink()), to_rgb(figure.get_facecolor()[:3])) > 7, name
            for colour in module.mpl.rcParams["axes.prop_cycle"].by_key()["color"]:
                assert contrast(to_rgb(colour), to_rgb(figure.get_facecolor()[:3])) > 2, colour
        panels: list[Any] = figure.axes
        panels = [panel for panel in panels if panel.axison]  # images have no axes
        assert all(panel.get_xlabel() or in_words(panel.get_xticklabels()) for panel in panels), name
        assert not panels or panels[0].get_ylabel() or in_words(panels[0].get_yticklabels()), name


def in_words(labels: list[Any]) -> bool:
    """Whether the ticks of an axis say themselves what they are."""
    return any(re.search("[a-z]{3}", label.get_text()) for label in labels)


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the contrast of two colours as in WCAG, 1 to 21."""

    def luminance(colour: tuple[float, ...]) -> float:
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in colour]
        return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
