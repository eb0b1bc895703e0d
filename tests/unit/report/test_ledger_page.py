"""The page of a ledger, and a ledger in the report of a release."""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pages import Page, reported

from discreet import Ledger, Unit, release
from discreet.cli.entry import run
from discreet.domain import Domain, Integer
from discreet.errors import FileProblem, ParameterError
from discreet.ledger import Request
from discreet.ledger.filters import Cost
from discreet.ledger.statement import Entry, Statement, power
from discreet.privacy import Budget
from discreet.report import write_report
from discreet.report.ledger_page import entry_rows, page, write_ledger_report

pytest.importorskip("jinja2")

DOMAIN = Domain(columns={"age": Integer(lower=0, upper=99, out_of_bounds="clip")})
AGES = pl.DataFrame({"age": [34, 35, 36, 37] * 500})
NASTY = '<script>alert("1")'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledger")
    where = folder / "visits.ledger"
    Ledger.create(where, dataset="visits <b>", epsilon=2.0, delta=1e-5)
    with Ledger(where) as ledger:
        asked = {"size": 50, "mechanism": "perturbed-histogram", "ledger": ledger, "accept": {"poor-utility"}}
        for number in (1, 2):
            release(AGES, DOMAIN, Budget(epsilon=0.5, delta=1e-6), out=folder / f"ages-{number}.csv", **asked)
        ledger.pay(Request(budget=Budget(epsilon=0.1), out=(folder / "given-up.csv",))).cancel()
        request = Request(budget=Budget(epsilon=0.25), out=(folder / NASTY,))
        with pytest.raises(ZeroDivisionError), ledger.pay(request):
            raise ZeroDivisionError
        ledger.pay(Request(budget=Budget(epsilon=0.25)))
    return where


def written(place: Path, out: Path, **options: Any) -> str:
    """Write the page of a ledger, and return its text."""
    write_ledger_report(Ledger(place), out, **options)
    return Page(out.read_text(encoding="utf-8")).words


@pytest.fixture(scope="module")
def shape(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Page:
    out = tmp_path_factory.mktemp("page") / "page.html"
    assert write_ledger_report(Ledger(place), out) == []
    return Page(out.read_text(encoding="utf-8"))


def test_the_page_says_what_is_spent_and_left_and_what_that_means(shape: Page) -> None:
    assert "At most epsilon 1.5 of 2 is spent. A further release may ask for epsilon 0.5" in shape.words
    assert "75 %" in shape.words
    for alarms in (0.01, 0.05):
        assert f"{100 * alarms:g} %" in shape.words
        assert power(alarms, epsilon=2.0, delta=1e-5) < 1
    assert "7.4 %" in shape.words  # e^2 times 1 %, and 1e-5
    for words in ("paid 4", "void 1", "5 entries in all"):
        assert words.replace(" ", "") in shape.words.replace(" ", ""), words
    assert not {"COMMITTED", "FORFEITED", "RESERVED", "not settled"} & set(shape.words.split())
    assert "Releases that were made without this ledger are not here." in shape.words
    assert "was not checked" in shape.words


def test_every_entry_is_in_the_table_by_names_alone(shape: Page, place: Path) -> None:
    for name in ("ages-1.csv", "ages-2.csv", "given-up.csv", "perturbed-histogram"):
        assert name in shape.words
    assert str(place.parent) not in shape.words
    assert NASTY in shape.words  # as text


def test_the_page_is_one_accessible_file_that_runs_nothing(shape: Page) -> None:
    shape.require_structure()
    shape.require_loads_nothing(scripts=0)


def test_a_broken_ledger_is_told_first(place: Path) -> None:
    with Ledger(place) as ledger:
        statement = Statement.from_ledger(ledger)
    text = Page(page(statement, broken=True, checked=2)).words
    assert "Do not rely on this ledger." in text
    assert "discreet ledger verify FILE CERTIFICATE..." in text
    assert "Recomputed." not in text
    assert "and so do 2 certificates" in Page(page(statement, checked=2)).words


def test_certificates_are_compared(place: Path, tmp_path: Path) -> None:
    made = [place.parent / f"ages-{number}.certificate.json" for number in (1, 2)]
    assert write_ledger_report(Ledger(place), tmp_path / "a.html", certificates=made) == []
    assert "No certificate was compared" not in (tmp_path / "a.html").read_text()
    other = tmp_path / "other.certificate.json"
    other.write_text("{}")
    assert len(write_ledger_report(Ledger(place), tmp_path / "b.html", certificates=[other])) == 1


def test_many_entries_make_a_short_page(place: Path) -> None:
    with Ledger(place) as ledger:
        statement = Statement.from_ledger(ledger)
    entries = [Entry(name=f"e{number}", cost=Cost(Fraction("0.001"))) for number in range(5000)]
    text = page(replace(statement, entries=entries))
    assert len(text) < 300_000
    assert "5,000 entries in all" in text
    assert "The 4,500 oldest are left out" in text
    assert "e4999" in text
    assert max(len(path) for path in re.findall(r'd="(M[^"]*)"', text)) < 20_000


def test_what_paid_for_an_entry_is_told() -> None:
    facts = {
        "plan of x, y": {"what": "plan", "parts": ("x", "y")},
        "release x of a plan, which paid": {"part": "x"},
        "release, goes on with b, which paid": {"continues": "b"},
        "release": {},
    }
    rows = entry_rows([Entry(name="a", cost=Cost(), **said) for said in facts.values()])
    assert [row["what"] for row in reversed(rows)] == [*facts]


def test_an_empty_ledger_and_the_other_currency(tmp_path: Path) -> None:
    where = tmp_path / "l.ledger"
    Ledger.create(where, dataset="d", epsilon=1.0, delta=1e-6, currency="zcdp", unit=Unit("person", max_records=3))
    text = written(where, tmp_path / "p.html")
    assert "There are no entries yet." in text
    assert "one person, with at most 3 records" in text
    with Ledger(where) as ledger:
        ledger.pay(Request(budget=Budget(epsilon=0.1, delta=1e-9), unit=Unit("person", max_records=3)))
    text = written(where, tmp_path / "p.html")
    assert "rho" in text
    assert "All further releases together may be worth epsilon 0." in text
    assert "may ask for" not in text


def test_files_are_not_overwritten(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(FileProblem, match="not written by discreet"):
        write_ledger_report(Ledger(place), tmp_path / "mine.html")
    with pytest.raises(FileProblem, match="html"):
        write_ledger_report(Ledger(place), tmp_path / "page.pdf")
    with pytest.raises(FileProblem, match="also an input"):
        made = tmp_path / "l.html"
        made.write_bytes(place.read_bytes())
        write_ledger_report(Ledger(made), made)


# -- a ledger in the report of a release ------------------------------------------------------------------------------


def test_the_report_of_a_release_shows_its_ledger(place: Path, tmp_path: Path) -> None:
    text = reported(place.parent / "ages-1.csv", tmp_path / "r.html", ledger=place).words
    assert "In the ledger of visits <b>" in text
    assert "So far at most epsilon 1.5, delta" in text
    assert "ages-2.csv" in text
    assert "given-up.csv" not in text
    assert "Do not rely on these sums." not in text
    assert "This report is about this release alone" not in text


def test_a_release_that_is_not_in_the_ledger_is_told(place: Path, tmp_path: Path) -> None:
    out, asked = tmp_path / "ages.csv", {"size": 50, "mechanism": "dirichlet-multinomial", "accept": {"poor-utility"}}
    release(AGES, DOMAIN, Budget(epsilon=1.0), out=out, **asked)
    text = reported(out, tmp_path / "r.html", ledger=place).words
    assert "Do not rely on these sums." in text
    assert "discreet ledger verify" in text
    with pytest.raises((FileProblem, ParameterError)):
        write_report(out, tmp_path / "r.html", ledger=tmp_path / "none.ledger")


# -- commands ---------------------------------------------------------------------------------------------------------


def test_the_commands(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, certificate = tmp_path / "page.html", place.parent / "ages-1.certificate.json"
    assert run(["ledger", "report", str(place), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    assert run(["ledger", "report", str(place), str(certificate), "--out", str(out), "--json"]) == 0
    assert '"ok": true' in capsys.readouterr().out
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert run(["ledger", "report", str(place), str(other), "--out", str(out)]) == 1
    assert "names no ledger" in capsys.readouterr().err
    asked = ["report", str(place.parent / "ages-1.csv"), "--ledger", str(place), "--out", str(tmp_path / "r.html")]
    assert run(asked) == 0
    assert "In the ledger of" in (tmp_path / "r.html").read_text()
