"""``discreet estimate``: from a released file alone to numbers with intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import answer, document

CONTINUOUS = '[columns.x]\ntype = "numeric"\nlower = 0\nupper = 1\n'


@pytest.fixture
def released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Release 200 of 20,000 values; the data are deleted afterwards."""
    values = np.round(np.random.default_rng(1).beta(2, 5, 20_000), 2)
    pl.DataFrame({"x": values}).write_parquet(tmp_path / "data.parquet")
    (tmp_path / "d.toml").write_text(CONTINUOUS)
    options = ["--epsilon", "1", "--delta", "0.01", "--size", "200", "--mechanism", "dirichlet-process", "--seed", "1"]
    files = [tmp_path / "data.parquet", "--domain", tmp_path / "d.toml", "--out", tmp_path / "z.csv"]
    answer(capsys, "release", *files, *options, "--param", "strength=1")
    (tmp_path / "data.parquet").unlink()
    return tmp_path / "z.csv"


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
    pl.DataFrame({"x": values}).write_parquet(tmp_path / "data.parquet")
    (tmp_path / "d.toml").write_text(CONTINUOUS + "cells = 20\n")
    options = ["--domain", str(tmp_path / "d.toml"), "--epsilon", "1", "--mechanism", "perturbed-histogram", "--counts"]
    answer(capsys, "release", tmp_path / "data.parquet", *options, "--seed", 1, "--out", tmp_path / "c.csv")
    asked = ["estimate", tmp_path / "c.csv", "--functional", "mean,P(>0.5)", "--draws", 400]
    mean, share = document(capsys, *asked)["estimates"]
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
    pl.DataFrame({"x": [1, 2, 3, 3] * 50}).write_parquet(tmp_path / "held.parquet")
    (tmp_path / "d.toml").write_text('[columns.x]\ntype = "integer"\nlower = 1\nupper = 3\n')
    out = tmp_path / "out.parquet"
    asked = ["--domain", tmp_path / "d.toml", "--epsilon", 1, "--size", 100, "--accept-poor-utility"]
    answer(capsys, "release", tmp_path / "held.parquet", *asked, "--out", out)
    monkeypatch.setattr("discreet.inference.posterior", lambda *_, **__: pytest.fail("chains ran"))
    for wrong in (["meen"], ["mean", "--by", "z"], ["mean", "--column", "y"]):
        answer(capsys, "estimate", out, "--functional", *wrong, status=2)


def test_numbers_within_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(3)
    flag = rng.random(20_000) < 0.5
    values = np.where(flag, rng.beta(5, 2, 20_000), rng.beta(2, 5, 20_000))
    pl.DataFrame({"x": values, "flag": flag}).write_parquet(tmp_path / "data.parquet")
    (tmp_path / "d.toml").write_text(CONTINUOUS + '[columns.flag]\ntype = "boolean"\n')
    out = tmp_path / "z.csv"
    options = ["--epsilon", "1", "--delta", "0.03", "--size", "400", "--mechanism", "dirichlet-process", "--seed", "1"]
    files = [tmp_path / "data.parquet", "--domain", tmp_path / "d.toml", "--out", out]
    answer(capsys, "release", *files, *options, "--param", "strength=1")
    asked = ["estimate", out, "--column", "x", "--by", "flag", "--functional", "mean"]
    found = document(capsys, *asked)
    no, yes = found["estimates"]
    assert (found["by"], no["group"], yes["group"]) == ("flag", "false", "true")
    assert no["lower"] < 2 / 7 < no["upper"] < yes["lower"] < 5 / 7 < yes["upper"]
    lines = answer(capsys, *asked).splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["flag", "share"], ["false", "mean"], ["true", "mean"]]
