"""No certificate of schema 2 in which something false was written is confirmed."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from documents import Place, changed
from mutants import CODED, MUTATED, STATED, listed, mutants, under

import discreet
from discreet import Budget, Unit
from discreet.domain import Domain, Integer
from discreet.errors import ParameterError
from discreet.releases import Certificate, verification, verify

CHECKED_LESS = {"created", "guarantee", "released"}
"""Fields of a certificate that its promise is not computed from."""

certified, promises = verification.certified_release, dict[str, Any]()


def remembered(facts: Any) -> Any:
    """Return what a certificate's facts promise; twins that differ in numbers alone share it."""
    kept = {key: value for key, value in facts.to_dict().items() if key not in CHECKED_LESS}
    key = json.dumps([kept, facts.guarantee.theorem], sort_keys=True)
    if key not in promises:
        promises[key] = certified(facts)
    return promises[key]


@pytest.fixture(autouse=True)
def _remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "certified_release", remembered)


def place(what: str) -> Place:
    """Return the place that a check names."""
    if what.startswith("public_inputs."):
        return "public_inputs", what.removeprefix("public_inputs.")
    return tuple(int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", what))


def confirmed(document: dict[str, Any], data: Path | None) -> bool:
    try:
        return all(check.agrees for check in verify(Certificate.from_dict(document), data=data))
    except ParameterError:
        return False


def stated(document: dict[str, Any], data: Path | None) -> set[Place]:
    return {place(check.what) for check in verify(Certificate.from_dict(document), data=data) if check.stated}


def survivors(document: dict[str, Any], data: Path | None, *but: Place) -> list[Place]:
    """Give the places of the false values with which a certificate is confirmed."""
    assert confirmed(document, data)
    assert {at for at in stated(document, data) if not under(at, (*STATED, *but))} == set()
    false = list(mutants(document, *but))
    assert len(false) > 80
    return [at for at, one in false if confirmed(one, data)]


def test_there_are_more_than_a_thousand_false_values() -> None:
    assert sum(len(listed(name)[-1]) for name in MUTATED) > 1000


@pytest.mark.parametrize("name", MUTATED)
def test_no_certificate_with_a_false_value_is_confirmed(name: str) -> None:
    document, data, false = listed(name)
    assert confirmed(document, data)
    assert [at for at, one in false if confirmed(one, data)] == []


@pytest.mark.parametrize("name", MUTATED)
def test_what_is_not_checked_is_marked_as_stated(name: str) -> None:
    """Every value that may be another one without any disagreement, whatever it is, is in a leaf that is stated."""
    document, data, _ = listed(name)
    leaves = stated(document, data)
    assert leaves == {at for at in leaves if under(at, STATED)}
    assert {("created",), ("library", "version"), ("released", "outcome"), ("released", "tables", 0, "file")} <= leaves
    without = stated(document, None)
    assert without - leaves == {("released", "tables", 0, "sha256")}


def test_no_certificate_of_tables_with_a_false_value_is_confirmed() -> None:
    document = json.loads((CODED / "marginals-wide-tables" / "certificate.json").read_text(encoding="utf-8"))
    files = [("released", "tables", ..., "sha256"), ("domain",)]
    assert survivors(document, None, *files) == []


def test_no_certificate_of_units_with_a_false_value_is_confirmed(tmp_path: Path) -> None:
    table = pl.DataFrame({"age": np.arange(900) % 50, "person": np.arange(900) // 3})
    domain = Domain(columns={"age": Integer(lower=0, upper=99, cells=10, nulls="category")})
    budget, accept = Budget(epsilon=2.0, delta=1e-3), {"poor-utility", "weak-promise"}
    asked = {"size": 50, "accept": accept, "mechanism": "smoothed-histogram", "out": tmp_path / "r.csv"}
    made = discreet.release(table, domain, budget, unit=Unit("person", max_records=4), **asked)
    document = made.certificate.to_dict()
    assert document["randomness"] == "operating-system"
    assert survivors(document, tmp_path / "r.csv") == []
    for seeded in ("seeded", "trust me"):
        assert not confirmed({**document, "randomness": seeded}, tmp_path / "r.csv")


@pytest.mark.parametrize("name", MUTATED)
def test_a_bound_may_be_larger_and_is_never_smaller(name: str) -> None:
    document, data, _ = listed(name)
    guarantee = document["guarantee"]
    point = ("guarantee", "profile", max(i for i, (_, delta) in enumerate(guarantee["profile"]) if delta > 0), 1)
    delta = guarantee["profile"][point[2]][1]
    for factor, holds in ((1 - 1e-9, False), (1 + 1e-9, True), (1.009, True), (1.011, not guarantee["exact"])):
        assert confirmed(changed(document, point, min(1.0, delta * factor)), data) is holds, factor
