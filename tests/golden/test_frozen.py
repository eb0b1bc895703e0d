"""What the library did when its house was to be rebuilt: the same rows, plans and estimates.

Rows depend on the versions of a few packages besides; with others those tests are skipped.
"""

import json
import math
from pathlib import Path
from typing import Any

import make_frozen as frozen
import pytest

import discreet
from discreet.mechanisms import REGISTRY
from discreet.releases.facts import CertificateFacts

KEPT = frozen.FROZEN / "releases"


def kept(name: str) -> dict[str, Any]:
    return dict(json.loads((frozen.FROZEN / name).read_text(encoding="utf-8")))


DRAWN = kept("rows.json")
same_versions = pytest.mark.skipif(
    DRAWN["drawn_with"] != frozen.drawn_with(), reason=f"the rows were drawn with {DRAWN['drawn_with']}"
)


def latest(folder: Path, name: Path) -> Path:
    """Return where a file is kept: in the folder of those that changed later, if it is there."""
    return frozen.CHANGED / name if (frozen.CHANGED / name).exists() else folder / name


def differences(found: Any, expected: Any, rel: float, where: str = "") -> list[str]:
    """Return where two JSON values differ, floats by more than a part."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        return [line for key in expected for line in differences(found[key], expected[key], rel, f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(found, expected, strict=True))
        return [line for at, pair in pairs for line in differences(*pair, rel, f"{where}[{at}]")]
    if isinstance(expected, float) and isinstance(found, (int, float)):
        near = math.isclose(found, expected, rel_tol=rel, abs_tol=1e-12) or (found != found and expected != expected)
    else:
        near = bool(found == expected)
    return [] if near else [f"{where}: {found} instead of {expected}"]


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_a_difference_is_found_where_it_is() -> None:
    expected = {"a": [1.0, {"b": 2.0}], "c": "d", "e": math.nan}
    assert differences({"a": [1.0 + 1e-12, {"b": 2.0}], "c": "d", "e": math.nan}, expected, 1e-9) == []
    assert differences({**expected, "a": [1.0, {"b": 2.001}]}, expected, 1e-9) == [".a[1].b: 2.001 instead of 2.0"]
    assert len(differences({**expected, "c": "x"}, expected, 1e-9)) == 1
    assert len(differences({**expected, "a": [1.0]}, expected, 1e-9)) == 1
    assert len(differences({"a": expected["a"]}, expected, 1e-9)) == 1


def test_every_mechanism_is_frozen_in_all_its_forms() -> None:
    asked = frozen.releases()
    assert set(DRAWN["rows"]) == {*asked, *frozen.models()}
    assert {*REGISTRY} <= {*frozen.written()}
    for kept_in in (KEPT, frozen.CERTIFICATES):
        assert {path.name.split(".")[0] for path in kept_in.iterdir()} == {*frozen.written()}
    assert sum(path.stat().st_size for path in frozen.FROZEN.rglob("*") if path.is_file()) < 3_000_000


@same_versions
@pytest.mark.parametrize("name", frozen.releases())
def test_the_rows_are_the_same(name: str) -> None:
    assert frozen.rows_of(frozen.released(frozen.releases()[name])) == DRAWN["rows"][name]


@same_versions
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.chains) if name == "pseudo-posterior" else name for name in frozen.models()],
)
def test_the_rows_of_models_are_the_same(name: str) -> None:
    assert frozen.rows_of(frozen.released_by_model(name)) == DRAWN["rows"][name]


@same_versions
@pytest.mark.parametrize("name", frozen.written())
def test_the_file_and_its_certificate_are_the_same(name: str, tmp_path: Path) -> None:
    frozen.released(frozen.releases()[name], frozen.place(tmp_path, name))
    (*tables, certificate) = sorted(path for path in tmp_path.rglob("*") if path.is_file())[::-1]
    for found in tables:
        if found.suffix == ".csv":
            assert found.read_bytes() == latest(KEPT, found.relative_to(tmp_path)).read_bytes()
    found = frozen.certified(certificate)
    expected = frozen.certified(latest(frozen.CERTIFICATES, certificate.relative_to(tmp_path)))
    later = found.keys() - expected.keys()  # fields that the kept certificate was too early for
    assert all(CertificateFacts.rules()[field]["where"] == field for field in later)
    assert differences({key: found[key] for key in found if key not in later}, expected, 1e-5) == []


SIMULATED = {"wide": 0.01, "dirichlet-multinomial-wide": 0.15}
"""Where a rejected draw follows from the last bit of a logarithm, so that processors take other paths."""


OTHER_DRAWS = {"hierarchical-histogram-counts": 0.1}
"""Where the kept numbers are of another algorithm for the same law: as near as 200 draws are."""


LISTED = {"data-specific-reveal-or-obscure", "exponential-histogram", "subsampled-randomised-response"}
"""Mechanisms whose posteriors list all tables: here there are too many."""


@pytest.mark.parametrize("name", frozen.plans())
def test_the_plan_has_the_same_numbers_and_order(name: str) -> None:
    found = as_json(frozen.numbers_of(discreet.plan(**frozen.plans()[name])))
    expected = kept("plans.json")[name]
    for option in expected["options"]:
        option["posterior"] &= option["mechanism"] not in LISTED
    assert differences(found, expected, SIMULATED.get(name, 1e-6)) == []


@pytest.mark.parametrize("name", frozen.written())
def test_the_estimates_from_a_kept_release_are_the_same(name: str) -> None:
    found = as_json(frozen.estimates(KEPT, name))
    if name in LISTED:
        assert set(found.values()) == {"ParameterError"}
    else:
        within = (SIMULATED | OTHER_DRAWS).get(name, 1e-6)
        assert differences(found, kept("estimates.json")[name], within) == []
