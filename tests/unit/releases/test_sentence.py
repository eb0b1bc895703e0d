"""The one sentence that is shown for a certificate, and the words of certificates from before."""

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace as Facts
from typing import Any

import polars as pl
import pytest

import discreet
from discreet import wording
from discreet._core.text import rounded_up
from discreet.domain import Domain, Integer
from discreet.errors import FileProblem
from discreet.releases import Certificate, verify
from discreet.releases.verification import holds
from discreet.report.promise import Promise, curves

GOLDEN = Path(__file__).parents[2] / "golden"
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
ATTACKER = " detects it with probability at most e^1 a + 0.01, where a is the probability of a false alarm."


@pytest.mark.parametrize(
    ("relation", "group", "kind", "protected", "sentence"),
    [
        ("replacement", 1, "unconditional", (),
         "Whatever the other records, an attacker who tests which of two values one record has" + ATTACKER),
        ("replacement", 3, "unconditional", (),
         "Whatever the other records, an attacker who tests which of two sets of records one unit of up to 3 records "
         "has" + ATTACKER),
        ("add-remove", 1, "unconditional", (),
         "Whatever the other records, an attacker who tests whether one record is in the table" + ATTACKER),
        ("add-remove", 3, "unconditional", (),
         "Whatever the other records, an attacker who tests whether one unit of up to 3 records is in the table"
         + ATTACKER),
        ("replacement", 1, "unconditional", ("age", "sex"),
         "Whatever the other records, an attacker who tests which of two values one record has in age, sex" + ATTACKER),
        ("replacement", 1, "empirical", (),
         "If what it assumes holds, which is not proved: whatever the other records, an attacker who tests which of "
         "two values one record has" + ATTACKER),
    ],
    ids=range(6),
)  # fmt: skip
def test_the_sentence_says_what_is_tested_and_what_is_not_proved(
    relation: str, group: int, kind: str, protected: tuple[str, ...], sentence: str
) -> None:
    parameters = {"synthesised": protected, "published_exactly": ["zone"] * bool(protected)}
    public = Facts(guarantee=Facts(kind=kind, epsilon_each=None), relation=Facts(name=relation, group=group))
    public.__dict__.update(mechanism=Facts(parameters=parameters), unit=None, domain={})
    certificate: Any = Facts(facts=public, tables=[None], epsilon=1.0, delta=0.01, seeded=False)
    assert wording.statement(certificate) == sentence
    whom = sentence.partition("attacker who tests ")[2]
    public.guarantee.__dict__["attack"] = None
    meaning = wording.meaning(certificate, 0.0271)
    assert "confirms at most 2.71 % of true suspicions about " in meaning
    assert ("one unit of up to 3 records" in meaning) is ("3 records" in whom)
    assert meaning.startswith("If what it assumes holds, which is not proved, the") is (kind == "empirical")
    certificate.seeded = True
    assert wording.meaning(certificate, 0.0271) == f"Seeded run, not for publication; with fresh randomness: {meaning}"
    assert wording.statement(certificate) == f"Seeded run, not for publication; with fresh randomness: {sentence}"


def test_the_meaning_is_what_the_profile_bounds_and_no_less_than_the_truth() -> None:
    """Gaussian noise: the power at level 1 % is known in a closed form. Laplace noise: e^epsilon times the level."""
    from scipy.stats import norm

    table, cells = pl.DataFrame({"age": [1, 2, 3, 4] * 500}), Domain(columns={"age": Integer(lower=0, upper=9)})
    asked: dict[str, Any] = {"size": 50, "mechanism": "perturbed-histogram", "accept": {"poor-utility"}}
    pure = discreet.release(table, cells, discreet.Budget(epsilon=1.0), **asked).certificate
    assert f"at most {rounded_up(math.e, 3)} % of true suspicions about one record" in pure.meaning
    made = discreet.release(table, cells, discreet.Budget(epsilon=1.0, delta=1e-9), noise="gaussian", **asked)
    shift = math.sqrt(2.0) / made.certificate.facts.mechanism.parameters["scale"]
    truth = 100.0 * norm.cdf(norm.ppf(0.01) + shift)
    (stated,) = re.findall(r"at most ([0-9.]+) % of true", made.certificate.meaning)
    assert truth <= float(stated) <= 1.01 * truth  # rounded up to three digits
    document = made.certificate.to_dict()
    document["mechanism"]["parameters"] = {}
    (coarse,) = re.findall(r"at most ([0-9.]+) % of true", Certificate.from_dict(document).meaning)
    assert float(stated) < float(coarse) <= 1.1 * truth  # from the stated points alone, where nothing can be recomputed
    for limit, said in (
        (discreet.Risk(detection=0.05, false_alarms=0.02), "at most 5 % of true suspicions"),
        (discreet.Advantage(0.1), "at most 10 percentage points more"),
        (
            discreet.Success(0.6, prior=0.55),
            "is right in 55 % of cases. With the release they are right in at most 60 %",
        ),
    ):
        assert said in discreet.release(table, cells, limit, **asked).certificate.meaning


KEPT = [*sorted((GOLDEN / "frozen-2").glob("*.certificate.json")), GOLDEN / "0.2.0.dev0/censored-grid/certificate.json"]


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_certificate_and_its_report_tell_one_number_of_the_attacker(path: Path) -> None:
    certificate, shown = Certificate.read(path), curves(Promise.read(path), None)
    (at_one_percent,) = [rate["powers"][0] for rate in shown["attack"]["rates"] if rate["level"] == "1 %"]
    assert shown["meaning"] == certificate.meaning
    assert f"confirms at most {at_one_percent} of true suspicions" in certificate.meaning


def test_a_plan_tells_the_number_that_the_certificate_will() -> None:
    cells, budget = Domain(columns={"age": Integer(lower=0, upper=9)}), discreet.Budget(epsilon=1.0, delta=1e-9)
    asked: dict[str, Any] = {"size": 50, "noise": "gaussian"}
    planned = discreet.plan(cells, budget, records=2000, mechanisms=["perturbed-histogram"], **asked)
    table = pl.DataFrame({"age": [1, 2, 3, 4] * 500})
    made = discreet.release(table, cells, budget, mechanism="perturbed-histogram", accept={"poor-utility"}, **asked)
    (said,) = re.findall("at most ([0-9.]+ % of true suspicions)", made.certificate.meaning)
    assert said in " ".join(str(planned).split())


def test_every_sentence_of_a_code_is_made_of_its_numbers() -> None:
    numbers: dict[str, Any] = dict.fromkeys(
        ("share", "probability", "expected", "delta", "records", "factor", "epsilon", "r_hat", "once", "twice"), 0.25
    )
    numbers |= dict.fromkeys(("cells", "points", "size", "tables", "labels", "measured", "pairs", "threshold"), 3)
    numbers |= {"at_most": True, "grid": True, "open": True, "sample": True, "limit": 10, "noisy": "votes"}
    numbers |= {"column": "age", "source": "census", "voters": "units", "what": ["cells", "noise"], "exact": ["sex"]}
    numbers |= {"protected": ["age"], "determined": "sex", "columns": ["age", "sex"]}
    for code, form in wording.SENTENCES.items():
        own = {**numbers, "tables": ["a*b"]} if code in ("named-pairs-measured", "faint-tables") else numbers
        own = {"what": ["cells", "noise"]} if code == "chosen-without-data" else own
        own = {"tables": ["a*b"], "losses": [0.25], "errors": [0.1]} if code == "pair-losses" else own
        said = wording.said(code, own)
        assert said != wording.said("unknown", own), code
        assert not said.startswith(code), code
        assert "{" not in said, code
        assert form
    assert wording.said("prior-share", {"share": "much"}) == "prior-share (share much)"
    assert wording.said("own-words", {}) == "own-words"


@pytest.mark.parametrize("key", ["assumptions", "caveats", "statement"])
@pytest.mark.parametrize("name", ["stability-histogram", "pitman-yor", "perturbed-histogram-unit", "pitman-yor-mixing"])
def test_a_sentence_of_version_1_whose_number_was_changed_is_refused(name: str, key: str) -> None:
    facts = json.loads((GOLDEN / "0.2.0.dev0" / f"{name}.certificate.json").read_text())
    said = facts["guarantee"][key]
    texts = said if isinstance(said, list) else [said]
    for i, text in enumerate(texts):
        for number in NUMBER.finditer(text):
            part = 0.995 if key == "statement" else 0.9  # in other sentences numbers were rounded, to less than 1 %
            for other in (f"{part * float(number[0].replace(',', '')):.5g}", "1e-12"):
                changed = text[: number.start()] + other + text[number.end() :]
                facts["guarantee"][key] = changed if said == text else [*texts[:i], changed, *texts[i + 1 :]]
                wrong = {check.what for check in verify(Certificate.from_dict(facts)) if not check.agrees}
                assert wrong == {f"guarantee.{key}"}, changed
    for less in ([], [*said, *said]) if isinstance(said, list) and said else ("It is safe.", 7):
        facts["guarantee"][key] = less
        wrong = {check.what for check in verify(Certificate.from_dict(facts)) if not check.agrees}
        assert wrong == {f"guarantee.{key}"}


@pytest.mark.parametrize("name", ["pseudo-posterior/certificate.json", "pitman-yor-mixing.certificate.json"])
def test_a_sentence_of_version_1_says_what_is_not_proved(name: str) -> None:
    facts = json.loads((GOLDEN / "0.2.0.dev0" / name).read_text())
    for mark in (wording.NOT_FORMAL, wording.UNPROVED, wording.SEEDED):
        changed = json.loads(json.dumps(facts))
        changed["guarantee"]["statement"] = facts["guarantee"]["statement"].replace(mark, "Whatever")
        wrong = {check.what for check in verify(Certificate.from_dict(changed)) if not check.agrees}
        assert wrong == ({"guarantee.statement"} if changed != facts else set())


def test_a_bound_may_be_larger_than_the_one_computed_and_not_smaller() -> None:
    """An exact one may be a hundredth larger."""
    assert holds([[1.0, 2e-9]], [[1.0, 1e-9]], 0.0, exact=False)
    assert not holds([[1.0, 1e-9]], [[1.0, 2e-9]], 0.0, exact=False)
    assert not holds([[1.0, 2e-9]], [[2.0, 1e-9]], 0.0, exact=False)
    assert not holds([[1.0, 2e-9, 2e-9]], [[1.0, 1e-9]], 0.0, exact=False)
    assert holds(None, 3.0, 0.0, exact=False)
    assert not holds(3.0, None, 0.0, exact=False)
    assert holds(1e-9, 1e-9 * (1 + 1e-14), 1e-13, exact=True)
    assert not holds(1e-9, 1e-9 * (1 + 1e-12), 1e-13, exact=True)
    assert holds(1.009e-9, 1e-9, 0.0, exact=True)
    assert not holds(1.011e-9, 1e-9, 0.0, exact=True)
    assert not holds(None, 3.0, 0.0, exact=True)
    assert not holds(1e-300, 0.0, 0.0, exact=True)
    assert holds(1e-300, 1e-305, 0.0, exact=True)


@pytest.mark.parametrize("odd", [None, [], {}, "x", -1, [[]], {"name": []}], ids=range(7))
def test_whatever_an_old_certificate_holds_is_verified_or_refused(tmp_path: Path, odd: Any) -> None:
    whole = json.loads((GOLDEN / "0.1.0" / "censored-grid" / "certificate.json").read_text())
    for key in set(whole) - {"library", "created", "shows"}:
        facts = {**whole, key: odd}
        (tmp_path / "certificate.json").write_text(json.dumps(facts))
        if key == "discreet_tables_certificate":
            with pytest.raises(FileProblem, match="not a discreet certificate of version 1"):
                verify(tmp_path)
        else:
            assert not all(check.agrees for check in verify(tmp_path)), key
