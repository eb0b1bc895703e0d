"""The fields of a certificate: read, checked, written, and published as they are declared."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from discreet.errors import ParameterError
from discreet.releases import Certificate, facts, verify
from discreet.releases.facts import CertificateFacts, LedgerFacts, LibraryFacts

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
LATER = [*GOLDEN.glob("*/*.certificate.json"), *GOLDEN.glob("0.2*/*/certificate.json")]
SECRET = "S3CR3T"


def document() -> dict[str, Any]:
    path = GOLDEN / "0.2.0.dev0" / "perturbed-histogram-unit.certificate.json"
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("path", LATER, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_a_certificate_is_written_back_with_the_same_bytes(path: Path) -> None:
    assert Certificate.read(path).to_json() == path.read_text(encoding="utf-8")


def test_the_schema_and_the_page_are_those_of_the_fields() -> None:
    made = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "certificate.py")))
    published = json.loads(made.SCHEMA.read_text(encoding="utf-8"))
    assert made.schema(published) == published
    assert {*made.NAMES.values()} <= published["$defs"].keys()
    page = made.PAGE.read_text(encoding="utf-8")
    assert made.page(page) == page
    assert page.count("by tools/certificate.py") == len(made.TABLES) + 1
    assert made.texts().keys() == {kind.__name__ for kind in vars(facts).values() if _is_part(kind)}


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, facts.Facts) and kind is not facts.Facts


def test_a_field_that_is_changed_or_added_changes_the_schema() -> None:
    made = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "certificate.py")))
    published = json.loads(made.SCHEMA.read_text(encoding="utf-8"))
    for name in (*made.NAMES.values(), "column"):
        changed = json.loads(json.dumps(published))
        changed["$defs"][name]["properties"]["new" if name != "column" else "type"] = {"type": "string"}
        assert made.schema(changed) == published


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"mechanism": {"name": SECRET}}, "mechanism.parameters"),
        ({"mechanism": {"name": [SECRET], "parameters": {}}}, "mechanism.name"),
        ({"mechanism": SECRET, "domain": SECRET}, "mechanism"),
        ({"domain": 3}, "domain"),
        ({"records": True}, "records"),
        ({"relation": {"name": "replacement", "group": SECRET}}, "relation.group"),
        ({"unit": {"column": SECRET}}, "unit.max_records"),
        ({"unit": [SECRET]}, "unit"),
        ({"public_inputs": None}, "public_inputs"),
        ({"guarantee": {"epsilon": SECRET}}, "guarantee.epsilon"),
        ({"library": 7}, "library"),
        ({"library": {"version": [1]}}, "library.name"),
        ({"guarantee": {**document()["guarantee"], "caveats": SECRET}}, "guarantee.caveats"),
        ({"guarantee": {**document()["guarantee"], "caveats": [[SECRET]]}}, "guarantee.caveats[0].code"),
        ({"released": {"columns": [SECRET], "rows": None, "tables": []}}, "released.tables"),
        ({"released": {"columns": [SECRET], "rows": None, "tables": [SECRET]}}, "released.tables[0]"),
        ({"released": {"columns": [], "rows": 3, "partitions": 2}}, "released.partition_by"),
        ({"released": {"columns": [], "rows": None}}, "released.tables[0].rows"),
    ],
)
def test_the_first_wrong_field_is_named_and_nothing_is_quoted(
    change: dict[str, Any], place: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError) as refused:
        Certificate.from_dict({**document(), **change})
    assert str(refused.value) == (
        f"the certificate's field {place} is missing or of the wrong kind. Give the file that was written"
    )
    assert refused.value.__context__ is None
    (tmp_path / "c.json").write_text(json.dumps({**document(), **change}))
    (check,) = verify(tmp_path / "c.json")
    assert (check.what, check.agrees, check.found) == ("certificate", False, str(refused.value))


def test_what_version_1_has_besides_is_passed_over_and_kept() -> None:
    changed = document()
    changed["added later"] = {"any": ["thing"]}
    for holder in (changed["guarantee"], changed["library"], changed["mechanism"], changed["relation"]):
        holder["also"] = 1
    certificate = Certificate.from_dict(changed)
    assert certificate.to_dict() == changed
    assert all(check.agrees for check in verify(certificate))


def coded() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((GOLDEN / "frozen-2" / "stability-histogram.certificate.json").read_text("utf-8"))
    return read


@pytest.mark.parametrize(
    ("holder", "place"),
    [
        ((), "also"),
        (("library",), "library.also"),
        (("mechanism",), "mechanism.also"),
        (("relation",), "relation.also"),
        (("guarantee",), "guarantee.also"),
        (("released",), "released.also"),
        (("released", "tables", 0), "released.tables[0].also"),
    ],
)
def test_a_field_of_version_2_that_is_not_known_was_written_later(holder: tuple[Any, ...], place: str) -> None:
    changed = inner = coded()
    for key in holder:
        inner = inner[key]
    inner["also"] = 1
    with pytest.raises(ParameterError) as refused:
        Certificate.from_dict(changed)
    assert str(refused.value) == (
        f"the certificate's field {place} was written by a later version of discreet. Update it"
    )


def test_the_fields_are_attributes() -> None:
    assert Certificate.from_dict(document()).facts.library == LibraryFacts(name="discreet", version="0.2.0.dev0")
    old = Certificate.from_dict(document()).facts
    assert old.unit is not None
    assert old.unit.max_records == old.relation.group
    held = Certificate.from_dict(coded()).facts
    assert [code.to_dict() for code in held.guarantee.caveats] == coded()["guarantee"]["caveats"]
    assert held == CertificateFacts.from_dict(held.to_dict())
    stamp = {"dataset": "ages", "entry": "0" * 12, "head": "1" * 64}
    paid = replace(held, ledger=LedgerFacts(**stamp))
    assert [*paid.to_dict()][-1] == "ledger"
    assert paid.to_dict()["ledger"] == stamp
