"""What the publisher asks of a step, and what it says of it: the seam, the sentence, and certificates from before."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import confidential, confidential_rows
from discreet.domain import Boolean, Domain, Integer, Records
from discreet.errors import FileProblem, Infeasible, ParameterError, RelationNotSupported
from discreet.mechanisms import SmoothedHistogram
from discreet.privacy import Budget, ConstantProfile, Guarantee, Relation
from discreet.privacy.algebra import BoundedRangeProfile
from discreet.privacy.guarantee import Kind
from discreet.pseudo_posterior import CensoredPosterior, PoissonMean
from discreet.releases import Certificate, publish, verify
from discreet.releases.facts import FileFacts
from discreet.releases.promise import in_present_form, promise, still_holds
from discreet.releases.step import Step
from discreet.report import write_report

GOLDEN = Path(__file__).parents[2] / "golden"
FLAGS = Domain(columns={"flag": Boolean()})
TABLE = pl.DataFrame({"flag": [True] * 7 + [False] * 13})
VISITS = Domain(columns={"visits": Integer(lower=0, upper=60)})
COUNTS = pl.DataFrame({"visits": seeded(1).poisson(20.0, size=30)})


def answered(tables: int, x: Any, *, rng: np.random.Generator) -> list[Any]:
    truth = np.repeat(x.records.columns[0], x.frequencies)
    return [truth ^ (rng.integers(0, 4, size=len(truth)) == 0) for _ in range(tables)]


def in_halves(output: Any, *, rng: np.random.Generator) -> Iterator[Iterator[pl.DataFrame]]:
    for codes in output:
        yield (FLAGS.decode(Records(columns=(half,)), rng=rng) for half in np.array_split(codes, 2))


def answers(tables: int | None = 3, **changes: Any) -> Step:
    """Randomised response, several times: all that the publisher needs, and nothing else."""
    profile = BoundedRangeProfile(spread=(tables or 1) * math.log(3.0))
    facts: dict[str, Any] = {
        "name": "answers",
        "parameters": {"flips": 0.25},
        "domain": FLAGS,
        "run": partial(answered, tables or 1),
        "frames": in_halves,
        "guarantee": lambda between, n: Guarantee(
            relation=between, n=n, profile=profile, kind="unconditional", theorem="T1"
        ),
        "rows": lambda n: range(n, n + 1),
        "utility": lambda _n: {"share_not_from_data": None, "share_at_most": 1.0, "share_in_words": "half is noise"},
        "tables": tables,
    }
    return Step(**{**facts, **changes})


@dataclass(frozen=True)
class Answers:
    """What is handed to the publisher."""

    tables: int | None = 3
    changes: tuple[tuple[str, Any], ...] = ()

    def step(self, domain: Domain, *, progress: Any = None) -> Step:
        if domain != FLAGS:
            raise ParameterError("the domain must be that of the answers")
        return answers(self.tables, **dict(self.changes))


def test_a_step_of_several_tables_is_published_in_memory_and_to_a_folder(tmp_path: Path) -> None:
    made = publish(confidential(TABLE, FLAGS), Answers())
    assert [len(table) for table in made.records] == [20, 20, 20]
    assert all(table.schema == {"flag": pl.Boolean} for table in made.records)
    assert made.certificate.tables == [FileFacts(file=None, rows=20, sha256=None)] * 3
    assert str(made).startswith("3 tables of 20 released records\nWhatever the other records")
    assert "3 tables of 20 records from 20, epsilon" in made.certificate.summary
    assert made._repr_html_().count("<table") == 1
    written = made.write(tmp_path / "later")
    straight = publish(confidential(TABLE, FLAGS), Answers(), out=tmp_path / "out")
    assert straight.records is None
    for one in (written, straight):
        assert one.path is not None
        assert sorted(file.name for file in one.path.iterdir()) == [
            "certificate.json", "table-01.parquet", "table-02.parquet", "table-03.parquet"]  # fmt: skip
        assert one.certificate_path == one.path / "certificate.json"
        assert Certificate.read(one.path).facts == Certificate.read(one.certificate_path).facts == one.certificate.facts
    assert pl.read_parquet(tmp_path / "later" / "table-02.parquet").equals(made.records[1])
    with pytest.raises(FileProblem, match="exists already"):
        made.write(tmp_path / "later")
    (check,) = verify(straight.path or "")  # nothing in the library rebuilds this step
    assert (check.agrees, check.found) == (False, check.found)
    assert "answers" in str(check.found)


def test_a_step_of_one_table_is_one_file(tmp_path: Path) -> None:
    made = publish(confidential(TABLE, FLAGS), Answers(tables=None), out=tmp_path / "one.csv")
    assert pl.read_csv(tmp_path / "one.csv").height == 20
    assert (
        made.certificate.to_dict()["released"]
        == Certificate.read(tmp_path / "one.certificate.json").to_dict()["released"]
    )
    assert "tables" not in made.certificate.to_dict()["released"]


@pytest.mark.parametrize(
    ("step", "options", "said"),
    [
        (Answers(), {"size": 3}, "size and form are for mechanisms"),
        (Answers(), {"form": "counts"}, "size and form are for mechanisms"),
        (Answers(), {"relation": "add-remove"}, "must declare a number of records in public"),
        (SmoothedHistogram(domain=VISITS, size=3, mixing=0.5), {}, "domain must be the one"),
        (Answers(), {"out": "folder", "certificate": "c.json"}, "Leave out the certificate's name"),
        (CensoredPosterior(PoissonMean(column="visits"), bound=1.0), {}, "must name the same columns"),
        *(
            (odd, {}, "mechanism must be a Mechanism, a PseudoPosterior or a CensoredPosterior, got")
            for odd in (3, None, "pitman-yor", TABLE, CensoredPosterior)
        ),
    ],
    ids=range(11),
)
def test_what_does_not_fit_is_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any, options: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    untouched = ("run", lambda *_, **__: pytest.fail("something was drawn"))
    step = Answers(changes=(untouched,)) if isinstance(step, Answers) else step
    with pytest.raises((ParameterError, RelationNotSupported), match=said):
        publish(confidential(TABLE, FLAGS), step, **options)
    with pytest.raises(Infeasible):
        publish(confidential(TABLE, FLAGS), Answers(changes=(untouched,)), budget=Budget(epsilon=1.0))
    assert list(tmp_path.iterdir()) == []


def test_a_model_does_not_read_a_table_in_parts(tmp_path: Path) -> None:
    COUNTS.write_parquet(tmp_path / "t.parquet")
    posterior = CensoredPosterior(PoissonMean(column="visits"), bound=1.0)
    with pytest.raises(ParameterError, match="does not read a table in parts"):
        publish(confidential_rows(tmp_path / "t.parquet", VISITS), posterior, accept={"empirical"})


# -- the sentence -----------------------------------------------------------------------------------------------------

ATTACKER = ", with a false-alarm rate of a, detects it with probability at most e^1 a + 0.01."


@pytest.mark.parametrize(
    ("relation", "kind", "protected", "sentence"),
    [
        (Relation(), "unconditional", (),
         "Whatever the other records, an attacker who tests which of two values one record has" + ATTACKER),
        (Relation(group=3), "unconditional", (),
         "Whatever the other records, an attacker who tests which of two sets of records one unit of up to 3 records "
         "has" + ATTACKER),
        (Relation(name="add-remove"), "unconditional", (),
         "Whatever the other records, an attacker who tests whether one record is in the table" + ATTACKER),
        (Relation(name="add-remove", group=3), "unconditional", (),
         "Whatever the other records, an attacker who tests whether one unit of up to 3 records is in the table"
         + ATTACKER),
        (Relation(), "unconditional", ("age", "sex"),
         "Whatever the other records, an attacker who tests which of two values one record has in age, sex" + ATTACKER),
        (Relation(), "empirical", (),
         "If what it assumes holds, which is not proved: whatever the other records, an attacker who tests which of "
         "two values one record has" + ATTACKER),
    ],
    ids=range(6),
)  # fmt: skip
def test_the_sentence_says_what_is_tested_and_what_is_not_proved(
    relation: Relation, kind: Kind, protected: tuple[str, ...], sentence: str
) -> None:
    step = answers(None, protected=protected)
    guarantee = Guarantee(relation=relation, n=9, profile=ConstantProfile(value=0.01), kind=kind, theorem="T1")
    public: dict[str, Any] = {"unit": None, "seeded": False}
    assert promise(step, guarantee, 1.0, **public).statement == sentence
    marked = promise(step, guarantee, 1.0, **{**public, "seeded": True}).statement
    assert marked == f"Seeded run, not for publication; with fresh randomness: {sentence}"


def test_the_sentence_comes_first_wherever_a_release_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = pl.concat([TABLE] * 100)
    flags.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "d.toml").write_text(FLAGS.to_toml())
    assert run(["release", str(tmp_path / "t.parquet"), "--domain", str(tmp_path / "d.toml"), "--epsilon", "1",
                "--size", "50", "--out", str(tmp_path / "r.parquet")]) == 0  # fmt: skip
    out = capsys.readouterr().out
    certificate = Certificate.read(tmp_path / "r.certificate.json")
    sentence = certificate.to_dict()["guarantee"]["statement"]
    for shown in (out, str(certificate), certificate._repr_html_().removeprefix("<p><b>")):
        assert shown.startswith(sentence)
    page = write_report(tmp_path / "r.parquet", tmp_path / "r.html").path.read_text()
    header = page[page.index("<header>") :]
    assert sentence in header[: header.index("synthetic records made from")]
    made = publish(confidential(flags, FLAGS), Answers())
    for shown in (made._repr_html_().removeprefix("<p><b>"), made.certificate.text):
        assert shown.startswith(made.certificate.to_dict()["guarantee"]["statement"])


OLD = "Whatever the other records, an attacker who tests whether one {} with a false-alarm rate of a, detects it."
NEW = "an attacker who tests {} with a false-alarm rate of a, detects it."


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("record was one thing or another,", "which of two values one record has,"),
        ("unit of up to 12 records was one thing or another,", "which of two sets of records one unit of up to 12 "
         "records has,"),
        ("record was in the table or not,", "whether one record is in the table,"),
        ("unit of up to 2 records was in the table or not,", "whether one unit of up to 2 records is in the table,"),
    ],
)  # fmt: skip
def test_the_words_of_earlier_versions_still_hold_and_no_others(old: str, new: str) -> None:
    said, now = OLD.format(old), f"Whatever the other records, {NEW.format(new)}"
    unproved = f"If what it assumes holds, which is not proved: whatever the other records, {NEW.format(new)}"
    seeded_now = f"Seeded run, not for publication; with fresh randomness: {now}"
    for statement in (now, unproved):
        assert still_holds("statement", said, {"statement": statement, "kind": "unconditional"})
    assert not still_holds("statement", said, {"statement": seeded_now, "kind": "unconditional"})
    for changed in (said.replace("record", "person"), said + " Never.", said.replace("detects", "misses"), 7):
        assert not still_holds("statement", changed, {"statement": now, "kind": "unconditional"})


def test_the_words_of_earlier_tables_still_hold_where_they_were_proved() -> None:
    found = {"statement": "whatever", "kind": "unconditional", "epsilon": 1.0, "epsilon_each": 0.5}
    said = "Differential privacy under its stated assumptions: epsilon 0.5 for each of 2 tables, 1 for all of them "
    said += "together."
    assert still_holds("statement", said, found)
    assert still_holds("statement", "Differential privacy under its stated assumptions: epsilon 1.",
                       {**found, "epsilon_each": 1.0})  # fmt: skip
    assert not still_holds("statement", said.replace("0.5", "0.4"), found)
    assert not still_holds("statement", said, {**found, "kind": "empirical"})


@pytest.mark.parametrize("odd", [None, [], {}, "x", -1, [[]], {"name": []}], ids=range(7))
def test_whatever_an_old_certificate_holds_is_verified_or_refused(tmp_path: Path, odd: Any) -> None:
    whole = json.loads((GOLDEN / "0.1.0" / "censored-grid" / "certificate.json").read_text())
    for key in set(whole) - {"library", "created"}:
        facts = {**whole, key: odd}
        assert in_present_form(dict(facts)) is not None
        (tmp_path / "certificate.json").write_text(json.dumps(facts))
        if key == "discreet_tables_certificate":
            with pytest.raises(FileProblem, match="not a discreet certificate of version 1"):
                verify(tmp_path)
        else:
            assert not all(check.agrees for check in verify(tmp_path)), key


def test_verifying_a_mechanism_loads_no_model_and_verifying_a_model_loads_no_jax() -> None:
    program = "import sys; from discreet.releases import verify; verify(sys.argv[1]); print(*sorted(sys.modules))"

    def loaded(path: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", program, str(GOLDEN / path)], capture_output=True, text=True, check=True
        )
        return set(done.stdout.split())

    assert "discreet.pseudo_posterior" not in loaded("0.1.0/smoothed-histogram.certificate.json")
    modules = loaded("0.1.0/censored-grid")
    assert "discreet.pseudo_posterior" in modules
    assert not {"jax", "numpyro"} & modules
