"""Descriptions for catalogues: what they say and refuse. `nox -s catalogues` asks the checkers of the standards."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet.cli.entry import run
from discreet.domain import Category, Domain, Integer, UnitTable
from discreet.errors import FileProblem, ParameterError
from discreet.releases import Certificate
from discreet.report.catalogue import as_text, describe, write_description

AGES = pl.DataFrame({"age": np.arange(3000) % 60})
DOMAIN = Domain(columns={"age": Integer(lower=0, upper=99)})


@pytest.fixture
def released(tmp_path: Path) -> Path:
    out = tmp_path / "ages.parquet"
    release(AGES, DOMAIN, Budget(epsilon=1, delta=1e-6), size=5000, mechanism="perturbed-histogram", out=out)
    return out


def certificate(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.with_name("ages.certificate.json").read_text())
    return facts


@pytest.mark.parametrize("form", ["croissant", "dcat"])
def test_the_promise_is_that_of_the_certificate_with_all_digits(released: Path, form: str) -> None:
    document = describe(released, form)
    promise = document["promise" if form == "croissant" else "discreet:promise"]
    said = {name.removeprefix("discreet:"): value for name, value in promise.items()}
    stated = certificate(released)
    for number in ("epsilon", "delta"):
        assert float(said[number]["@value"]) == stated["guarantee"][number]
        assert isinstance(said[number]["@value"], str)  # a number of JSON-LD is rounded to 16 digits, up or down
    assert said["relation"] == "replacement"
    assert (said["records"], said["size"]) == (3000, 5000)
    assert "unit" not in said
    statement = Certificate.from_dict(stated).statement
    assert said["statement"] == statement
    assert statement in as_text(document)
    assert stated["identity"] in as_text(document)
    assert "is no sample" in as_text(document)


def test_addresses_are_of_the_folder_that_is_named(released: Path) -> None:
    asked = {"licence": "https://example.org/cc0", "publisher": "Office"}
    for url in ("https://example.org/data", "https://example.org/data/"):
        croissant = describe(released, "croissant", url=url, **asked)
        assert croissant["distribution"][0]["contentUrl"] == "https://example.org/data/ages.parquet"
        assert croissant["license"] == "https://example.org/cc0"
        dcat = describe(released, "dcat", url=url, **asked)
        (distribution,) = dcat["dcat:distribution"]
        assert distribution["dcat:accessURL"]["@id"] == "https://example.org/data/ages.parquet"
        assert (
            distribution["spdx:checksum"]["spdx:checksumValue"]["@value"]
            == certificate(released)["released"]["tables"][0]["sha256"]
        )
    assert describe(released, "croissant")["distribution"][0]["contentUrl"] == "ages.parquet"


def test_nothing_is_described_that_is_not_confirmed(released: Path) -> None:
    beside = released.with_name("ages.certificate.json")
    written = beside.read_text()
    facts = json.loads(written)
    facts["guarantee"]["epsilon"] = 0.5
    beside.write_text(json.dumps(facts))
    with pytest.raises(FileProblem, match="not confirmed"):
        describe(released, "croissant")
    beside.write_text(json.dumps({key: value for key, value in json.loads(written).items() if key != "library"}))
    with pytest.raises(FileProblem, match="cannot be recomputed"):
        describe(released, "dcat")
    beside.write_text(written)
    AGES.write_parquet(released)
    with pytest.raises(FileProblem, match="not confirmed"):
        describe(released, "dcat")


def test_the_certificate_of_a_folder_may_lie_elsewhere(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "tables", tmp_path / "elsewhere" / "moved.json"
    release(AGES, DOMAIN, Budget(epsilon=1, delta=1e-6), mechanism="marginals", size=100, tables=2, out=folder)
    assert describe(folder, "dcat")["foaf:page"]["@id"] == "tables/certificate.json"
    elsewhere.parent.mkdir()
    (folder / "certificate.json").rename(elsewhere)
    assert describe(folder, "dcat", certificate=elsewhere)["foaf:page"]["@id"] == "moved.json"


@pytest.mark.parametrize("url", ["ages", "ftp://example.org", "https://", "https://a b", 'https://a"b', "javascript:x"])
def test_what_is_no_address_is_refused(released: Path, url: str) -> None:
    for name, option in (("url", "url"), ("licence", "license")):
        with pytest.raises(ParameterError, match=f"{option} must be an address"):
            describe(released, "dcat", **{name: url})  # type: ignore[arg-type]


def test_texts_can_stand_in_a_page_and_on_a_terminal(tmp_path: Path) -> None:
    odd = '</script><b x="&">{title!h}\x1b[31m\u202e'
    domain = Domain(columns={odd: Category(categories=("<a>", "b"))})
    out = tmp_path / "odd.csv"
    table, asked = pl.DataFrame({odd: ["<a>", "b"] * 500}), {"size": 100, "mechanism": "perturbed-histogram"}
    release(table, domain, Budget(epsilon=1), out=out, **asked)
    for form in ("croissant", "dcat"):
        text = as_text(describe(out, form, title=odd, publisher=odd))
        assert not set(text) & set("<>&\x1b\u202e")
        assert json.loads(text) == describe(out, form, title=odd, publisher=odd)
    (field,) = describe(out, "croissant")["recordSet"][0]["field"]
    assert field["source"]["extract"]["column"] == odd
    assert "<" not in field["@id"]


def test_only_a_description_is_replaced(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, other = released.with_name("ages.croissant.json"), released.with_name("notes.json")
    asked = ["describe", str(released), "--as", "croissant", "--out"]
    for _ in range(2):
        assert run([*asked, str(out)]) == 0
    assert json.loads(out.read_text()) == describe(released, "croissant")
    assert "--license" in capsys.readouterr().err
    other.write_text("{}")
    for taken in (other, released, released.with_name("ages.certificate.json")):
        before = taken.read_bytes()
        assert run([*asked, str(taken)]) == 2
        assert taken.read_bytes() == before
    with pytest.raises(FileProblem):
        write_description(released, released, {}, inputs=())


def test_the_command_prints_the_document(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", str(released), "--as", "dcat"]) == 0
    assert json.loads(capsys.readouterr().out) == describe(released, "dcat")


@pytest.mark.parametrize("form", ["croissant", "dcat"])
def test_a_table_of_units_has_units_and_rows(tmp_path: Path, form: str) -> None:
    visits = UnitTable(unit="who", max_records=2, columns=DOMAIN.columns)
    frame, out = AGES.with_columns(who=np.arange(3000) // 2), tmp_path / "visits.parquet"
    made = release(frame, Domain(tables={"visits": visits}), Budget(epsilon=1, delta=1e-6), size=500, seed=1, out=out)
    rows = pl.read_parquet(out).height
    assert made.certificate.summary.startswith(f"{rows:,} rows of 500 units from 1,500")
    document = describe(out, form)
    said = json.loads(json.dumps(document).replace("discreet:", ""))["promise"]
    assert (said["size"], said["records"]) == (500, 1500)
    assert said["unit"] == {"column": "who", "max_records": 2}
    if form == "croissant":
        first = document["recordSet"][0]["field"][0]
        assert (first["name"], first["description"]) == (
            "who", "names the unit: a number, the same in all of its rows, 2 at most"
        )  # fmt: skip
