"""The commands on two tables of the same units: a folder, or files by name."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import answer

import discreet

DOMAIN = """
units = "households"
[columns.owned]
type = "boolean"
[tables.persons]
unit = "id"
max_records = 3
[tables.persons.columns.age]
type = "integer"
lower = 0
upper = 9
"""


@pytest.fixture(autouse=True)
def _survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a declaration, and the tables of 600 households, into the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("d.toml").write_text(DOMAIN)
    Path("in").mkdir()
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(600), rng.binomial(3, 0.5, 600))
    pl.DataFrame({"id": np.arange(600), "owned": rng.random(600) < 0.5}).write_csv("in/households.csv")
    pl.DataFrame({"id": who, "age": rng.integers(0, 10, len(who))}).write_csv("in/persons.csv")


def test_a_folder_and_named_files(capsys: pytest.CaptureFixture[str]) -> None:
    budget = ["--domain", "d.toml", "--epsilon", "2", "--delta", "1e-6", "--size", "600"]
    answer(capsys, "release", "in", *budget, "--out", "synthetic")
    Path("in/persons.csv").rename("p.csv")
    assert "with one of each name" in answer(capsys, "release", "in", *budget, "--out", "no", status=2)
    named = ["--table", "households=in/households.csv", "--table", "persons=p.csv"]
    said = answer(capsys, "release", ".", *named, *budget, "--out", "named")
    assert f"wrote 600 households, {pl.read_parquet('named/persons.parquet').height:,} persons to named" in said
    assert "600 units with at most 3 rows" in answer(capsys, "domain", "check", ".", *named, "--domain", "d.toml")
    assert "claims agree" in answer(capsys, "verify", "named")
    assert "released" in answer(capsys, "compare", "p.csv", "named/persons.parquet", "--domain", "d.toml")
    assert "has the tables" in answer(capsys, "compare", "p.csv", "named", "--domain", "d.toml", status=2)
    answer(capsys, "report", "named", "--out", "r.html")
    page = Path("r.html").read_text()
    assert "The tables, linked by <bdi>id</bdi>" in page
    assert "above, what is the same in all of its rows" in page  # a household with its own row
    assert "has the tables" in answer(capsys, "report", "named", "--data", "p.csv", "--out", "q.html", status=2)
    compared = answer(capsys, "compare", ".", *named, "named", "--domain", "d.toml", "--resamples", "5")
    parts = ["households", "persons", "households and persons"]
    assert [line for line in compared.splitlines() if line in parts] == parts
    assert "number of persons" in compared
    assert "CONFIDENTIAL" in answer(capsys, "report", "named", "--data", ".", *named, "--out", "q.html")
    assert re.findall("<h3><bdi>(.*?)</bdi></h3>", Path("q.html").read_text()) == parts
    ids = re.findall(' id="([^"]+)"', Path("q.html").read_text())
    assert len(ids) == len(set(ids))
    answer(capsys, "describe", "named", "--as", "croissant", "--out", "named/about.json")
    sets = json.loads(Path("named/about.json").read_text())["recordSet"]
    fields = {one["name"]: [field["name"] for field in one["field"]] for one in sets}
    assert fields == {"households": ["id", "owned"], "persons": ["id", "age"]}


def test_that_no_relation_was_kept_is_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--domain", "d.toml", "--epsilon", "0.5", "--delta", "1e-6", "--size", "600", "--accept-poor-utility"]
    lines = answer(capsys, "release", "in", *asked, "--out", "synthetic").splitlines()
    (wrote,) = [place for place, line in enumerate(lines) if line.startswith("wrote ")]
    assert lines[wrote + 1].startswith("No relation between columns was kept")
    assert sum("o relation between columns" in line for line in lines) == 1
    certificate = discreet.read("synthetic").certificate
    first = [text for text in (certificate.poor, certificate.unrelated) if text]
    assert str(certificate).splitlines()[: len(first)] == first
    assert certificate.unrelated == lines[wrote + 1]
    persons = pl.read_csv("in/persons.csv")
    owners = pl.DataFrame({"id": range(600)}).select("id", owned=pl.col("id").is_in(persons["id"].implode()))
    owners.write_csv("in/households.csv")  # who owns has persons: a relation that no noise at epsilon 9 hides
    answer(capsys, "release", "in", *asked[:3], "9", *asked[4:], "--out", "kept")
    assert discreet.read("kept").certificate.unrelated is None


def test_several_draws_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--domain", "d.toml", "--epsilon", "2", "--delta", "1e-6", "--size", "600", "--tables", "3"]
    said = answer(capsys, "release", "in", *asked, "--out-format", "csv", "--out", "synthetic")
    assert "wrote 3 draws of 600 households, " in said
    assert "claims agree" in answer(capsys, "verify", "synthetic")
    for column in ("owned", "age", "number of persons"):
        functional = "P(=true)" if column == "owned" else "mean"
        said = answer(capsys, "estimate", "synthetic", "--column", column, "--functional", functional)
        assert "3 tables of 600 units" in said
    asked = ["estimate", "synthetic", "--column", "cars", "--functional", "mean"]
    assert "there is no column" in answer(capsys, *asked, status=2)
    assert "Intercept" in answer(capsys, "regress", "synthetic", "age ~ owned")
    asked = ["compare", "in", "synthetic", "--domain", "d.toml", "--resamples", "0"]
    assert "households and persons" in answer(capsys, *asked)
    assert "age" in answer(capsys, "compare", "in/persons.csv", "synthetic/persons-02.csv", "--domain", "d.toml")
    answer(capsys, "report", "synthetic", "--data", "in", "--out", "r.html")
    answer(capsys, "describe", "synthetic", "--as", "croissant", "--out", "synthetic/about.json")
    sets = json.loads(Path("synthetic/about.json").read_text())["recordSet"]
    assert [one["name"] for one in sets][:3] == ["households-01", "persons-01", "households-02"]
    assert "claims agree" in answer(capsys, "verify", "synthetic")  # a description in the folder is no table
