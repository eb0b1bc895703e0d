"""Certificates of earlier versions: this version confirms every claim of theirs, or answers with a dated erratum."""

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from discreet.cli.entry import run
from discreet.mechanisms import REGISTRY
from discreet.releases import verification, verify
from discreet.releases.verification import ERRATA, Erratum

HERE = Path(__file__).parent
RELEASES = sorted(HERE.glob("*/*.certificate.json"))
TABLES = sorted(path.parent for path in HERE.glob("*/*/certificate.json"))
FROZEN = sorted((HERE / "frozen" / "releases").rglob("*certificate.json"))
VERSIONS = sorted({path.parent.name for path in RELEASES if path.parent.name[0].isdigit()})


def name(path: Path) -> str:
    return str(path.relative_to(HERE))


def verified(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    status = run(["verify", str(path), "--json", *options])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("path", RELEASES + TABLES + FROZEN, ids=name)
def test_it_is_confirmed_or_answered_with_an_erratum(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = verified(path, capsys)
    missing = [] if path.is_file() or len([*path.iterdir()]) > 1 else ["tables in the folder"]
    wrong = [check for check in answer["checks"] if not check["agrees"] and check["what"] not in missing]
    assert len(answer["checks"]) >= 10
    assert [check["what"] for check in wrong if check["erratum"] is None] == []
    assert status == (1 if wrong or missing else 0)


@pytest.mark.parametrize("version", [*VERSIONS, "frozen-2"])
def test_a_profile_that_lacks_a_number_is_a_claim_that_does_not_agree(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = HERE / version / "perturbed-histogram.certificate.json"
    facts = json.loads(path.read_text())
    facts["guarantee"]["profile"][0] = []
    spoilt = tmp_path / path.name
    spoilt.write_text(json.dumps(facts))
    status, answer = verified(spoilt, capsys)
    assert status == 1
    assert not all(check["agrees"] for check in answer["checks"])


def names(version: str) -> set[str]:
    return {path.name.removesuffix(".certificate.json") for path in (HERE / version).glob("*.certificate.json")}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_mechanism_and_form_has_one(version: str) -> None:
    """Of a version, every mechanism that there was, and none was taken away; a newer one is kept in ``frozen-2``."""
    held = names(version)
    there = {name: kind for name, kind in REGISTRY.items() if name in held}
    assert names("frozen-2") >= {*REGISTRY}
    counting = {f"{mechanism}-counts" for mechanism, kind in there.items() if kind.traits.counts}
    assert held >= {*there, *counting, *(f"{mechanism}-unit" for mechanism in there)}
    assert all(names(earlier) <= held for earlier in VERSIONS if earlier < version)
    facts = {path: json.loads(path.read_text()) for path in RELEASES if path.parent.name == version}
    assert {one["library"]["version"] for one in facts.values()} == {version}
    assert {one["relation"]["name"] for one in facts.values()} == {"replacement", "add-remove"}
    assert {one["guarantee"]["kind"] for one in facts.values()} == {"unconditional", "empirical"}
    assert any(one["randomness"].startswith("seeded") for one in facts.values())
    assert {path.name for path in TABLES if path.parent.name == version} == {
        "pseudo-posterior", "censored-chain", "censored-grid"}  # fmt: skip


def test_the_records_beside_the_seeded_one_are_those_that_were_released(capsys: pytest.CaptureFixture[str]) -> None:
    certificate = HERE / "0.1.0" / "dirichlet-multinomial-seeded.certificate.json"
    data = certificate.with_name("dirichlet-multinomial-seeded.csv")
    status, answer = verified(certificate, capsys, "--data", str(data))
    assert (status, answer["data_checked"]) == (0, True)


@pytest.mark.parametrize("path", RELEASES, ids=name)
def test_a_smaller_delta_in_it_is_found(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(path.read_text())
    facts["guarantee"]["profile"][0][1] *= 0.99
    (tmp_path / "changed.json").write_text(json.dumps(facts))
    status, answer = verified(tmp_path / "changed.json", capsys)
    assert status == 1
    assert "guarantee.profile" in {check["what"] for check in answer["checks"] if not check["agrees"]}


# -- errata ----------------------------------------------------------------------------------------------------------


def test_errata_are_dated_and_about_claims_that_exist() -> None:
    claims = {check.what for path in (*RELEASES, *TABLES) for check in verify(path)}
    models = {"pseudo-posterior", "censored-posterior"}
    for erratum in ERRATA:
        datetime.date.fromisoformat(erratum.date)
        assert set(erratum.claims) <= claims
        assert set(erratum.mechanisms) <= {*REGISTRY, *models}
        assert erratum.text.endswith(".")
    assert [erratum.date for erratum in ERRATA] == sorted(erratum.date for erratum in ERRATA)


def planted(mechanism: str, *claims: str) -> Erratum:
    text = "delta was computed too small; the true one is recomputed here."
    return Erratum(date="2031-02-03", versions=["0.1.0"], mechanisms=[mechanism], claims=list(claims), text=text)


def test_an_erratum_explains_its_claims_only_and_the_disagreement_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "ERRATA", (planted("pitman-yor", "guarantee.delta"),))
    facts = json.loads((HERE / "0.1.0" / "pitman-yor.certificate.json").read_text())
    facts["guarantee"] |= {"delta": facts["guarantee"]["delta"] / 2, "theorem": "T3"}
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(facts))
    status, answer = verified(path, capsys)
    explained = {check["what"]: check["erratum"] for check in answer["checks"] if not check["agrees"]}
    assert status == 1
    assert answer["agrees"] is False
    assert explained == {
        "guarantee.delta": "Erratum of 2031-02-03 to certificates of discreet 0.1.0: delta was computed too small; the "
        "true one is recomputed here.",
        "guarantee.theorem": None,
    }
    assert run(["verify", str(path)]) == 1
    said = capsys.readouterr().out
    assert "Erratum of 2031-02-03" in said
    assert "2 of" in said
    assert "Do not rely on this certificate" in said

    for other in ({"library": {"name": "discreet", "version": "0.1.1"}}, {"library": 7}, {"library": {"version": [1]}}):
        path.write_text(json.dumps({**facts, **other}))
        status, answer = verified(path, capsys)
        assert status == 1
        assert all(check["erratum"] is None for check in answer["checks"])


def test_a_claim_that_agrees_has_no_erratum(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "ERRATA", (planted("pitman-yor", "guarantee.delta"),))
    status, answer = verified(HERE / "0.1.0" / "pitman-yor.certificate.json", capsys)
    assert status == 0
    assert all(check["erratum"] is None for check in answer["checks"])


def test_the_errata_of_tables_are_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "ERRATA", (planted("censored-posterior", "guarantee.epsilon"),))
    folder = shutil.copytree(HERE / "0.1.0" / "censored-grid", tmp_path / "changed")
    facts = json.loads((folder / "certificate.json").read_text())
    facts["guarantee"]["epsilon"] /= 2
    (folder / "certificate.json").write_text(json.dumps(facts))
    wrong = {check.what: check.erratum for check in verify(folder) if not check.agrees}
    assert wrong.keys() == {"guarantee.assumptions", "guarantee.epsilon"}
    assert wrong["guarantee.assumptions"] is None  # the real errata are not in force here
    assert str(wrong["guarantee.epsilon"]).startswith("Erratum of 2031-02-03")
