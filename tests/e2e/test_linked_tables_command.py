"""The commands on two tables of the same units: a folder, or files by name."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import answer

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


def test_a_folder_and_named_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.toml").write_text(DOMAIN)
    Path("in").mkdir()
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(600), rng.binomial(3, 0.5, 600))
    pl.DataFrame({"id": np.arange(600), "owned": rng.random(600) < 0.5}).write_csv("in/households.csv")
    pl.DataFrame({"id": who, "age": rng.integers(0, 10, len(who))}).write_csv("in/persons.csv")
    budget = ["--domain", "d.toml", "--epsilon", "2", "--delta", "1e-6", "--size", "600"]
    answer(capsys, "release", "in", *budget, "--out", "synthetic")
    Path("in/persons.csv").rename("p.csv")
    assert "with one of each name" in answer(capsys, "release", "in", *budget, "--out", "no", status=2)
    named = ["--table", "households=in/households.csv", "--table", "persons=p.csv"]
    said = answer(capsys, "release", ".", *named, *budget, "--out", "named")
    assert f"wrote 600 households, {pl.read_parquet('named/persons.parquet').height} persons to named" in said
    assert "600 units with at most 3 rows" in answer(capsys, "domain", "check", ".", *named, "--domain", "d.toml")
    assert "claims agree" in answer(capsys, "verify", "named")
    assert "released" in answer(capsys, "compare", "p.csv", "named/persons.parquet", "--domain", "d.toml")
    assert "one by one" in answer(capsys, "compare", "p.csv", "named", "--domain", "d.toml", status=2)
    answer(capsys, "report", "named", "--out", "r.html")
    assert "The tables, linked by <bdi>id</bdi>" in Path("r.html").read_text()
    assert "table by table" in answer(capsys, "report", "named", "--data", "p.csv", "--out", "q.html", status=2)
    answer(capsys, "describe", "named", "--as", "croissant", "--out", "named/about.json")
    sets = json.loads(Path("named/about.json").read_text())["recordSet"]
    fields = {one["name"]: [field["name"] for field in one["field"]] for one in sets}
    assert fields == {"households": ["id", "owned"], "persons": ["id", "age"]}
