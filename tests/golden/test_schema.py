"""The JSON Schema of the certificate: what it accepts and refuses, and where it is published."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from documents import changed, leaves
from jsonschema import Draft202012Validator

import discreet
from discreet import Budget, release
from discreet.confidential import confidential
from discreet.domain import Domain, Integer
from discreet.pseudo_posterior import CensoredPosterior, PoissonMean

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "reference"
NAMES = {1: "certificate-1.schema.json", 2: "certificate.schema.json"}
SCHEMAS = {
    version: json.loads(resources.files("discreet.releases").joinpath(file).read_text("utf-8"))
    for version, file in NAMES.items()
}
VALIDATORS = {version: Draft202012Validator(schema) for version, schema in SCHEMAS.items()}
CODED = HERE / "frozen-2"
GOLDEN = sorted([*HERE.glob("*/*.certificate.json"), *HERE.glob("*/*/certificate.json")])
VISITS = Domain(columns={"visits": Integer(lower=0, upper=99)})
API = ("mechanism", "parameters", "api")  # what an API says of itself is its own
VARIED = ["dirichlet-multinomial-every-kind.", "hierarchical-histogram-unit.", "perturbed-histogram-counts.",
          "private-evolution-own-generator.", "signed-measure-points.", "stability-histogram.",
          "pseudo-posterior/", "censored-grid/"]  # fmt: skip
LATEST = max(path for path in HERE.iterdir() if path.name[0].isdigit())
CODES = ["stability-histogram.certificate.json", "marginals-wide-tables/certificate.json"]
MODELS = ["pseudo-posterior/certificate.json", "censored-grid/certificate.json"]


def errors(facts: Any, version: int) -> list[str]:
    return [error.message for error in VALIDATORS[version].iter_errors(facts)]


def version_of(path: Path) -> int:
    return 2 if json.loads(path.read_text("utf-8")).get("discreet_certificate") == 2 else 1


@pytest.mark.parametrize("version", NAMES)
def test_it_is_a_schema_and_the_documentation_has_the_same(version: int) -> None:
    Draft202012Validator.check_schema(SCHEMAS[version])
    assert json.loads((DOCS / NAMES[version]).read_text(encoding="utf-8")) == SCHEMAS[version]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: str(path.relative_to(HERE)))
def test_every_golden_certificate_has_it(path: Path) -> None:
    facts = json.loads(path.read_text())
    assert errors(facts, version_of(path)) == []
    assert errors(facts, 3 - version_of(path)) != []


@pytest.mark.parametrize("counts", [False, True])
def test_what_is_written_today_has_it(counts: bool, tmp_path: Path) -> None:
    table = pl.DataFrame({"visits": np.arange(2000) % 10})
    how: dict[str, Any] = {"counts": True} if counts else {"size": 50}
    for out in (None, tmp_path / "out.parquet"):
        made = discreet.release(table, VISITS, Budget(epsilon=1.0, delta=1e-6), out=out, accept={"poor-utility"}, **how)
        assert errors(json.loads(made.certificate.to_json()), 2) == []


def test_what_is_written_of_tables_today_has_it(tmp_path: Path) -> None:
    mechanism = CensoredPosterior(PoissonMean(column="visits"), bound=1.0, grid={"mean": np.linspace(1.0, 50.0, 50)})
    table = pl.DataFrame({"visits": np.arange(30) % 10})
    for out in (None, tmp_path / "out"):
        facts = release(confidential(table, VISITS), mechanism=mechanism, out=out).certificate.to_dict()
        assert errors(json.loads(json.dumps(facts)), 2) == []


@pytest.mark.parametrize("path", [*(HERE / f"0.1.0/{name}certificate.json" for name in VARIED),
                                  *(LATEST / name for name in MODELS), CODED / CODES[0],
                                  CODED / "private-evolution.certificate.json"],
                         ids=lambda path: str(path.relative_to(HERE)))  # fmt: skip
def test_no_value_may_be_of_another_kind(path: Path) -> None:
    facts = json.loads(path.read_text())
    everywhere = [at for at, _ in leaves(facts) if at and (at[:3] != API or at == API)]
    assert len(everywhere) > 40
    for at in everywhere:  # no field holds an object in a list of one
        assert errors(changed(facts, at, [{"of": "no kind"}]), version_of(path)), at


def test_fields_may_be_added_to_version_1_and_none_left_out() -> None:
    several = "censored-chain/certificate.json"
    for path in (HERE / "0.1.0/signed-measure-points.certificate.json", HERE / "0.1.0" / several, LATEST / several):
        facts = json.loads(path.read_text())
        for holder in (at for at, value in leaves(facts) if isinstance(value, dict)):
            if holder not in (("domain", "columns"), ("public_inputs",)):
                assert not errors(changed(facts, (*holder, "added later"), {"any": ["thing"]}), 1), holder
        optional = (
            {"identity", "public_inputs"} if path.is_relative_to(LATEST) else set()
        )  # older certificates lack them
        for key in set(facts) - optional:
            assert errors({k: v for k, v in facts.items() if k != key}, 1), key
        optional = {"epsilon_each", "share_at_most", "share_in_words"} if path.is_relative_to(LATEST) else set()
        for key in set(facts["guarantee"]) - optional:
            assert errors({**facts, "guarantee": {k: v for k, v in facts["guarantee"].items() if k != key}}, 1), key


@pytest.mark.parametrize("name", [*CODES, "private-evolution.certificate.json"])
def test_no_field_may_be_added_to_version_2_and_none_left_out(name: str) -> None:
    facts = json.loads((CODED / name).read_text())
    open_ones = [("domain",), ("mechanism", "parameters"), ("public_inputs",), ("released", "merged_cells")]
    for holder, held in leaves(facts):
        if isinstance(held, dict) and not any(holder[: len(one)] == one for one in open_ones):
            assert errors(changed(facts, (*holder, "added later"), {"any": ["thing"]}), 2), holder
            for key in held:
                left = {k: v for k, v in held.items() if k != key}
                may_lack = key in {"pairs_measured", "merged_cells"} or ("code" in held and key != "code")
                assert bool(errors(changed(facts, holder, left), 2)) != may_lack, (holder, key)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("guarantee", "delta"), -0.1), (("guarantee", "delta"), 1.1), (("guarantee", "delta"), "0.1"),
        (("guarantee", "delta"), True), (("guarantee", "epsilon"), -1), (("guarantee", "kind"), "instance"),
        (("guarantee", "theorem"), "none"), (("guarantee", "profile"), [[1.0]]),
        (("guarantee", "profile"), [[1.0, 2.0]]), (("records",), -1), (("records",), 1.5), (("size",), 0),
        (("relation", "name"), "other"), (("relation", "group"), 0), (("unit",), "person"),
        (("released", "sha256"), "0"), (("released", "file"), "a/b.csv"), (("created",), "yesterday"),
        (("identity",), "0" * 31), (("identity",), None), (("public_inputs",), {"reference": "0"}),
        (("public_inputs",), ["reference"]), (("discreet_certificate",), 2), (("domain", "columns"), {}),
        (("domain", "columns", "income", "type"), "secret"), (("mechanism", "parameters", "scale"), "wide"),
        (("mechanism", "parameters", "noise"), "No Name"),
    ],
)  # fmt: skip
def test_values_outside_their_range_are_refused(at: tuple[Any, ...], value: Any) -> None:
    facts = json.loads((HERE / "0.1.0" / "perturbed-histogram.certificate.json").read_text())
    assert not errors(facts, 1)
    assert errors(changed(facts, at, value), 1)
    facts = json.loads((CODED / "perturbed-histogram.certificate.json").read_text())
    at = ("released", "tables", 0, *at[1:]) if at[0] == "released" else at
    assert not errors(facts, 2)
    assert errors(changed(facts, at, value if at != ("discreet_certificate",) else 1), 2)


def test_the_page_names_every_field_of_a_model() -> None:
    page = (DOCS / "certificate.md").read_text(encoding="utf-8")
    for field in SCHEMAS[1]["$defs"]["model"]["required"]:
        assert re.search(rf"`([a-z]+\.)?{field}`", page), field
