"""Code books of other tools: what they say is declared, what they do not say is asked for."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet._core.errors import FileProblem
from discreet.cli.entry import run
from discreet.domain import CodeBook, Domain

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "integer", "constraints": {"unique": True}},
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120, "required": True}},
    {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
    {"name": "paid", "type": "number", "decimalChar": ",", "groupChar": "."},
    {"name": "born", "type": "date", "format": "%d.%m.%Y", "constraints": {"minimum": "1900-01-01"}},
    {"name": "ok", "type": "boolean", "trueValues": ["Y"], "falseValues": ["N"]},
    {"name": "code", "type": "integer", "categories": [{"value": 1, "label": "a"}, {"value": 2}]},
    {"name": "place", "type": "geopoint"},
]
TABLE_SCHEMA = {"fields": FIELDS, "missingValues": ["", "NA"], "primaryKey": "id"}
NULLS = {"null_values": ["", "NA"], "nulls": "category"}
COLUMNS = {
    "age": {"type": "integer", "null_values": ["", "NA"], "lower": 0, "upper": 120},
    "sex": {"type": "category", "categories": ["f", "m"], **NULLS},
    "paid": {"type": "numeric", **NULLS, "decimal_mark": ",", "thousands": "."},
    "born": {"type": "date", **NULLS, "lower": "1900-01-01", "format": "%d.%m.%Y"},
    "ok": {"type": "boolean", **NULLS, "true": "Y", "false": "N"},
    "code": {"type": "category", "categories": [1, 2], **NULLS},
    "place": NULLS,
}
SDV = {
    "primary_key": "key",
    "sequence_key": "person",
    "columns": {
        "key": {"sdtype": "id"},
        "person": {"sdtype": "id"},
        "mail": {"sdtype": "email", "pii": True},
        "city": {"sdtype": "categorical"},
        "stars": {"sdtype": "numerical", "computer_representation": "Int64"},
        "rate": {"sdtype": "numerical"},
        "day": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
        "moment": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M"},
        "new": {"sdtype": "boolean"},
    },
}
DPSYNTH = """
age: {type: NumericalAttribute, min_value: 18.0, max_value: 100.0, dtype: int, clip_to_range: true}
income: {min_value: 0.0, max_value: 10.5, dtype: float, clip_to_range: false}
tier: {possible_values: [free, paid], out_of_domain_index: 0}
city: {type: OpenSetCategoricalAttribute, default_value: <OOD>}
note: {type: FreeFormTextAttribute, max_tokens: 256}
"""
SMARTNOISE = """
Database:
  PUMS:
    PUMS:
      rows: 1000
      max_ids: 3
      age: {type: int, lower: 0, upper: 100}
      sex: {type: string, nullable: true}
      pid: {type: int, private_id: true}
"""


def written(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("document", [TABLE_SCHEMA, {"resources": [{"name": "t", "schema": TABLE_SCHEMA}]}])
def test_a_table_schema(tmp_path: Path, document: Any) -> None:
    book = CodeBook.read(written(tmp_path / "schema.json", document))
    assert book.columns == COLUMNS
    assert book.left_out.keys() == {"id"}


@pytest.mark.parametrize("document", [SDV, {"METADATA_SPEC_VERSION": "V1", "tables": {"t": SDV}}])
def test_metadata_of_sdv(tmp_path: Path, document: Any) -> None:
    book = CodeBook.read(written(tmp_path / "metadata.json", document))
    assert book.left_out.keys() == {"key", "person", "mail"}
    assert book.unit == "person"
    assert {name: facts["type"] for name, facts in book.columns.items()} == {
        "city": "category",
        "stars": "integer",
        "rate": "numeric",
        "day": "date",
        "moment": "datetime",
        "new": "boolean",
    }
    assert book.columns["day"]["format"] == "%d %b %Y"


def test_a_domain_of_dpsynth(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    book = CodeBook.read(written(tmp_path / "domain.yaml", DPSYNTH))
    assert book.left_out.keys() == {"note"}
    assert Domain.from_dict({"columns": book.columns}).columns["income"].nullable
    assert book.columns["age"] == {"type": "integer", "lower": 18, "upper": 100, "out_of_bounds": "clip"}


def test_metadata_of_smartnoise(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    book = CodeBook.read(written(tmp_path / "pums.yml", SMARTNOISE))
    assert (book.unit, book.max_records) == ("pid", 3)
    assert book.columns == {
        "age": {"type": "integer", "lower": 0, "upper": 100},
        "sex": {"type": "category", "nulls": "category"},
    }


def test_what_is_not_said_is_listed_and_asked_for(tmp_path: Path, capsys: Any) -> None:
    """The template, with what was listed filled in, is a domain that has what the code book says."""
    path = written(tmp_path / "schema.json", TABLE_SCHEMA)
    assert run(["domain", "init", "--from", str(path)]) == 0
    told = capsys.readouterr()
    assert told.err == "The code book does not say: paid (lower, upper); born (upper); place (type)\n"
    fills = {
        'lower = "<fill in>"': "lower = 0",
        'upper = "<fill in>"': "upper = 9",
        'type = "<fill in>"': 'type = "boolean"',
    }
    text = told.out.replace('upper = "<fill in>"  # last day', "upper = 2020-12-31  #")
    for blank, fact in fills.items():
        text = text.replace(blank, fact)
    domain = Domain.from_toml(text)
    assert domain.names == tuple(COLUMNS)
    declared = domain.to_dict()["columns"]
    assert declared["sex"] == COLUMNS["sex"] | {"categories": ["f", "m", "other"], "out_of_bounds": "other"}
    assert declared["age"] == COLUMNS["age"] | {"out_of_bounds": "clip"}
    assert declared["ok"] == COLUMNS["ok"] | {"out_of_bounds": "null"}
    assert declared["code"] == COLUMNS["code"] | {"out_of_bounds": "null"}
    assert declared["paid"] == COLUMNS["paid"] | {"lower": 0.0, "upper": 9.0, "out_of_bounds": "clip"}


def test_names_and_types_are_the_tables_where_there_is_one(tmp_path: Path, capsys: Any) -> None:
    schema = written(tmp_path / "schema.json", TABLE_SCHEMA)
    table = written(tmp_path / "table.csv", "age,id,other_one\n1,2,x\n")
    out = tmp_path / "domain.toml"
    assert run(["domain", "init", str(table), "--from", str(schema), "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "[columns.age]" in text
    assert "upper = 120" in text
    assert text.count("[columns.") == 2
    assert "[columns.other_one]" in text
    assert "# id is left out" in text
    assert "other_one (type)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("[]", "is neither JSON nor"),
        ("{", "is neither JSON nor"),
        ({"a": 1}, "has no columns"),
        ({"fields": [{"type": "integer"}]}, "is no code book"),
        ({"resources": [{"schema": TABLE_SCHEMA}] * 2}, "of several tables"),
        (
            {"fields": [{"name": "a", "type": "integer", "constraints": {"minimum": 2, "maximum": 1}}]},
            "Correct it there",
        ),
    ],
)
def test_what_is_none_is_refused(tmp_path: Path, document: Any, words: str) -> None:
    with pytest.raises(FileProblem, match=words):
        CodeBook.read(written(tmp_path / "book.json", document))


def test_labels_of_a_data_file_need_a_word(tmp_path: Path, capsys: Any) -> None:
    assert run(["domain", "init", "--from", str(tmp_path / "t.sav")]) != 0
    assert "add --public-labels" in capsys.readouterr().err
    assert run(["domain", "init"]) != 0
    assert "--from" in capsys.readouterr().err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["fields", "name", "type", "constraints", "columns", "sdtype", "tables", "enum", "min_value", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(document=st.dictionaries(st.sampled_from(["fields", "resources", "columns", "tables", "x"]), JSON, max_size=3))
def test_any_document_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    path = written(tmp_path_factory.mktemp("books") / "book.json", document)
    with suppress(FileProblem):
        assert CodeBook.read(path).columns
