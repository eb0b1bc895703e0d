"""``discreet estimate``: from a released file alone to numbers with intervals."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import answer, document

CONTINUOUS = '[columns.x]\ntype = "numeric"\nlower = 0\nupper = 1\n'


def estimable(
    folder: Path, capsys: pytest.CaptureFixture[str], values: dict[str, np.ndarray], *options: object
) -> Path:
    """Release a table; the data are deleted afterwards."""
    pl.DataFrame(values).write_parquet(folder / "data.parquet")
    files = [folder / "data.parquet", "--domain", folder / "d.toml", "--out", folder / "z.csv"]
    answer(capsys, "release", *files, "--epsilon", 1, "--accept-weak-promise", *options)
    (folder / "data.parquet").unlink()
    return folder / "z.csv"


PROCESS = ("--mechanism", "dirichlet-process", "--param", "strength=1", "--seed", 1)


@pytest.fixture
def released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return 200 of 20,000 values."""
    values = np.round(np.random.default_rng(1).beta(2, 5, 20_000), 2)
    (tmp_path / "d.toml").write_text(CONTINUOUS)
    return estimable(tmp_path, capsys, {"x": values}, "--delta", 0.01, "--size", 200, *PROCESS)


def test_a_table_and_the_same_numbers_as_json(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["estimate", str(released), "--column", "x", "--functional", "mean,q25,q50,P(>0.75)",
             "--functional", "P(0.1..0.2)"]  # fmt: skip
    text = answer(capsys, *asked)
    assert [line.split()[0] for line in text.splitlines()[1:6]] == ["mean", "q25", "q50", "P(>0.75)", "P(0.1..0.2)"]
    assert "20,000 confidential" in text
    found = document(capsys, *asked)
    mean = found["estimates"][0]
    assert mean["lower"] < 2 / 7 < mean["upper"]
    assert mean["effective_draws"] == 1000
    assert found["level"] == 0.95


def test_counts_of_a_histogram_are_undone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.random.default_rng(2).beta(2, 5, 5000)
    (tmp_path / "d.toml").write_text(CONTINUOUS + "cells = 20\n")
    options = ("--mechanism", "perturbed-histogram", "--counts", "--seed", 1)
    out = estimable(tmp_path, capsys, {"x": values}, *options)
    mean, share = document(capsys, "estimate", out, "--functional", "mean,P(>0.5)", "--draws", 400)["estimates"]
    assert mean["lower"] < 2 / 7 < mean["upper"]
    assert share["lower"] < 7 / 64 < share["upper"]  # of a Beta(2, 5)
    assert mean["r_hat"] is None  # the draws are independent


def test_bad_input_says_what_is_wrong(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, named in (
        (["--functional", "median"], "not a functional"),
        (["--functional", "P(>high)"], "is not a value of the column"),
        (["--functional", "mean", "--column", "y"], "there is no column 'y'"),
        (["--functional", "mean", "--level", "95"], "level"),
        (["--functional", "mean", "--by", "y"], "there is no column 'y'"),
        (["--functional", "mean", "--by", "x"], "does not make groups"),
        (["--functional", "mean", "--certificate", "none.json"], "cannot be read"),
        ([], "functional"),
    ):
        assert named in answer(capsys, "estimate", released, *arguments, status=2)
    released.with_suffix(".certificate.json").unlink()
    assert "certificate" in answer(capsys, "estimate", released, "--functional", "mean", status=2)


def test_a_misprint_is_told_before_the_chains_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d.toml").write_text('[columns.x]\ntype = "integer"\nlower = 1\nupper = 3\n')
    values = {"x": np.array([1, 2, 3, 3] * 50)}
    out = estimable(tmp_path, capsys, values, "--size", 100, "--accept-poor-utility")
    monkeypatch.setattr("discreet.inference.posterior", lambda *_, **__: pytest.fail("chains ran"))
    for wrong in (["meen"], ["mean", "--by", "z"], ["mean", "--column", "y"]):
        answer(capsys, "estimate", out, "--functional", *wrong, status=2)


def test_numbers_within_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(3)
    flag = rng.random(20_000) < 0.5
    values = np.where(flag, rng.beta(5, 2, 20_000), rng.beta(2, 5, 20_000))
    (tmp_path / "d.toml").write_text(CONTINUOUS + '[columns.flag]\ntype = "boolean"\n')
    table = {"x": values, "flag": flag}
    out = estimable(tmp_path, capsys, table, "--delta", 0.03, "--size", 400, *PROCESS)
    asked = ["estimate", out, "--column", "x", "--by", "flag", "--functional", "mean"]
    found = document(capsys, *asked)
    no, yes = found["estimates"]
    assert (found["by"], no["group"], yes["group"]) == ("flag", "false", "true")
    assert no["lower"] < 2 / 7 < no["upper"] < yes["lower"] < 5 / 7 < yes["upper"]
    lines = answer(capsys, *asked).splitlines()
    headings = ["flag", "share of records", "estimate", "standard error", "95% from", "to", "effective draws"]
    assert re.split(" {2,}", lines[0].strip()) == headings, lines[0]
    assert [line.split()[:2] for line in lines[1:3]] == [["false", "mean"], ["true", "mean"]]
