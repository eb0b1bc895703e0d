"""The one sentence that a certificate says, and the words of certificates from before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discreet.domain import Boolean, Domain
from discreet.errors import FileProblem
from discreet.mechanisms import SmoothedHistogram
from discreet.privacy import ConstantProfile, Guarantee, Relation
from discreet.privacy.guarantee import Kind
from discreet.releases import verify
from discreet.releases.promise import in_present_form, promise, still_holds

GOLDEN = Path(__file__).parents[2] / "golden"
MECHANISM = SmoothedHistogram(domain=Domain(columns={"flag": Boolean()}), size=3, mixing=0.5)

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
    profile = ConstantProfile(value=0.01)
    guarantee = Guarantee(relation=relation, n=9, profile=profile, kind=kind, theorem="T1", protected=protected)
    public: dict[str, Any] = {"unit": None, "seeded": False}
    assert promise(MECHANISM, guarantee, 1.0, **public).statement == sentence
    marked = promise(MECHANISM, guarantee, 1.0, **{**public, "seeded": True}).statement
    assert marked == f"Seeded run, not for publication; with fresh randomness: {sentence}"


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
