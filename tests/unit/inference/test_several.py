"""Estimates from several synthetic tables: by hand, against formulas, and from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet.cli.entry import run
from discreet.domain import Category, Domain, Integer
from discreet.errors import FileProblem, ParameterError
from discreet.inference import combine, posterior
from discreet.inference.several_tables import estimate_tables
from discreet.releases.release import Release

DOMAIN = Domain(
    columns={"x": Integer(lower=0, upper=9), "y": Category(categories=["a", "b"]), "z": Integer(lower=0, upper=9)}
)
SIZE, TABLES = 800, 4


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = np.minimum(9, rng.poisson(3.0, 3000))
    return pl.DataFrame(
        {"x": x, "y": np.where(rng.random(3000) < 0.3, "a", "b"), "z": np.clip(x + rng.integers(-1, 2, 3000), 0, 9)}
    )


@pytest.fixture(scope="module")
def released(data: pl.DataFrame) -> Release:
    return release(
        data, DOMAIN, Budget(epsilon=3.0, delta=1e-6), size=SIZE, mechanism="marginals", tables=TABLES, seed=1
    )


def test_means_and_shares_are_those_of_each_table_combined(released: Release) -> None:
    tables = released.records
    found = estimate_tables(released, ["mean", "P(>4)"], column="x")
    assert released.estimate(["mean", "P(>4)"], column="x") == found
    means = [float(table["x"].mean()) for table in tables]
    wanted = combine(means, [float(t["x"].var(ddof=0)) / SIZE for t in tables], kind="fully", size=SIZE, n=3000)
    assert found["mean"].mean == pytest.approx(wanted.estimate)
    assert (found["mean"].lower, found["mean"].upper) == (pytest.approx(wanted.lower), pytest.approx(wanted.upper))
    above = np.array([float((table["x"] > 4).mean()) for table in tables])
    wanted = combine(above, above * (1 - above) / SIZE, kind="fully", size=SIZE, n=3000)
    assert found["P(>4)"].lower == pytest.approx(max(0.0, wanted.lower))
    assert "Raghunathan, Reiter and Rubin" in found.notes[0]
    assert found["mean"].effective_draws == TABLES
    label = estimate_tables(tables, ["P(=a)"], column="y", certificate=released.certificate)["P(=a)"]
    assert label.mean == pytest.approx(float(np.mean([(table["y"] == "a").mean() for table in tables])))


def test_a_bootstrap_gives_the_variance_that_the_formula_does(released: Release) -> None:
    def mean_of_x(values: Any, weights: Any) -> Any:
        return (values * weights).sum(axis=1)

    by_formula = estimate_tables(released, ["mean"], column="x")["mean"]
    resampled = estimate_tables(released, [mean_of_x], column="x")["mean_of_x"]
    assert resampled.mean == pytest.approx(by_formula.mean)
    # The mean variance of 400 resamples is within 25 % of its formula; how much of the whole it is, follows from sd.
    within = float(np.mean([float(table["x"].var()) / SIZE for table in released.records]))
    assert abs(resampled.sd**2 - by_formula.sd**2) < 0.25 * within


def test_functions_of_several_columns(released: Release) -> None:
    def slope(columns: Any, weights: Any) -> Any:
        x, z = columns["x"], columns["z"]
        centre = (weights * x).sum(axis=1, keepdims=True)
        return (weights * (x - centre) * z).sum(axis=1) / (weights * (x - centre) ** 2).sum(axis=1)

    found = estimate_tables(released, [slope])["slope"]
    each = [np.polyfit(table["x"].to_numpy(), table["z"].to_numpy(), 1)[0] for table in released.records]
    assert found.mean == pytest.approx(float(np.mean(each)))
    assert abs(found.mean - 0.95) < 0.1


def test_groups_are_those_of_each_table_combined(released: Release) -> None:
    found = released.estimate(["mean", "P(>4)"], column="x", by="y")
    assert [(row.group, row.name) for row in found.rows] == [
        ("a", "mean"), ("a", "P(>4)"), ("b", "mean"), ("b", "P(>4)")
    ]  # fmt: skip
    for row in found.rows:
        parts = [table.filter(pl.col("y") == row.group)["x"] for table in released.records]
        values = [part if row.name == "mean" else (part > 4) for part in parts]
        assert row.mean == pytest.approx(float(np.mean([value.mean() for value in values])))
        assert row.share == pytest.approx(float(np.mean([len(part) / SIZE for part in parts])))
        within = [float(value.cast(pl.Float64).var(ddof=0)) / len(value) for value in values]
        wanted = combine([float(v.mean()) for v in values], within, kind="fully", size=SIZE, n=3000)
        assert row.sd**2 == pytest.approx(wanted.variance, abs=0.4 * wanted.within)  # of 100 resamples in each table


def test_a_function_without_a_number_is_refused(released: Release) -> None:
    with pytest.raises(ParameterError, match="one finite estimate"):
        released.estimate([lambda values, weights: np.full(len(weights), np.nan)], column="x")


def test_a_regression_is_that_of_each_table_combined(released: Release) -> None:
    pytest.importorskip("formulaic")
    found = released.regress("z ~ x + C(y)")
    each, within = [], []
    for table in released.records:
        design = np.column_stack([np.ones(SIZE), table["x"], table["y"] == "b"])
        bread = np.linalg.inv(design.T @ design)
        each.append(bread @ design.T @ table["z"].to_numpy())
        pulls = design * (table["z"].to_numpy() - design @ each[-1])[:, None]
        within.append(np.diag(bread @ (pulls.T @ pulls) @ bread))
    assert [row.name for row in found.rows] == ["Intercept", "x", "C(y)[T.b]"]
    for row, estimates, variances in zip(found.rows, np.transpose(each), np.transpose(within), strict=True):
        wanted = combine(estimates, variances, kind="fully", size=SIZE, n=3000)
        assert row.mean == pytest.approx(wanted.estimate)
        assert row.sd**2 == pytest.approx(wanted.variance, abs=0.6 * wanted.within)  # of 25 resamples in each table
    assert released.regress("y ~ x").rows[1].name == "x"  # logistic
    with pytest.raises(ParameterError, match="no column"):
        released.regress("z ~ w")


def stating(made: Release, **released: Any) -> Release:
    return replace(made, certificate=made.certificate.releasing(**released))


def test_what_was_not_measured_is_said(data: pl.DataFrame) -> None:
    pytest.importorskip("formulaic")
    asked = {"budget": Budget(epsilon=3.0, delta=1e-6), "size": SIZE, "mechanism": "marginals", "tables": 2, "seed": 1}
    made = release(data, DOMAIN, workload=["x*z"], **asked)
    assert made.certificate.to_dict()["released"]["pairs_measured"] == [["x", "z"]]
    independent = "conditional independence, which was not measured: no interval covers that"
    assert not any(independent in note for note in made.estimate(["mean"], column="x").notes)
    made = stating(made, merged_cells={})
    assert not any(independent in note for note in made.estimate(["mean"], column="x", by="z").notes)
    made = stating(made, merged_cells={"z": 7, "y": 1})
    (merged,) = (note for note in made.estimate(["mean"], column="x", by="z").notes if independent in note)
    assert merged.endswith(f"it rests on {independent}: z on 7 of 10")
    made = stating(made, merged_cells={})
    assert made.estimate(["mean"], column="x", by="y").notes[1].endswith(f"{independent}: x and y")
    assert any(note.endswith(f"{independent}: x and y, y and z") for note in made.regress("x ~ z + C(y)").notes)
    made = stating(made, pairs_measured=[["x", "y"], ["x", "z"], ["y", "z"]])
    assert any("more than two of them do together" in note for note in made.regress("x ~ z + C(y)").notes)
    made = stating(made, pairs_measured=None)  # as earlier versions wrote it
    assert "where their tables of two columns were measured" in made.estimate(["mean"], column="x", by="y").notes[1]


def test_a_folder_and_the_command(data: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.write_parquet(tmp_path / "data.parquet")
    (tmp_path / "d.toml").write_text(DOMAIN.to_toml())
    out = str(tmp_path / "tables")
    asked = [str(tmp_path / "data.parquet"), "--domain", str(tmp_path / "d.toml"), "--epsilon", "3", "--delta", "1e-6"]
    asked = ["release", *asked, "--size", "800", "--mechanism", "marginals", "--tables", "3", "--seed", "1"]
    assert run([*asked, "--out", out]) == 0
    assert "wrote 3 tables of 800 records" in capsys.readouterr().out
    assert run(["verify", out]) == 0
    assert run(["report", out, "--out", str(tmp_path / "report.html")]) == 0
    assert "3 tables of" in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert run(["estimate", out, "--column", "x", "--functional", "mean,sd,q50,P(>4)"]) == 0
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()[1:5]] == ["mean", "sd", "q50", "P(>4)"]
    assert "3 tables of 800 records" in text
    assert run(["estimate", out, "--column", "x", "--by", "y", "--functional", "mean"]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:3]] == [["a", "mean"], ["b", "mean"]]
    table = pl.read_parquet(tmp_path / "tables" / "table-01.parquet")
    table.head(700).write_parquet(tmp_path / "tables" / "table-01.parquet")
    with pytest.raises(FileProblem, match="not the file that its certificate was written for"):
        estimate_tables(out, ["mean"], column="x")


def test_one_table_has_no_intervals(data: pl.DataFrame, released: Release) -> None:
    one = release(data, DOMAIN, Budget(epsilon=3.0, delta=1e-6), size=100, mechanism="marginals", seed=1)
    with pytest.raises(ParameterError, match="several tables"):
        estimate_tables(one, ["mean"], column="x")
    with pytest.raises(ParameterError, match="Release several"):
        posterior(one)
    with pytest.raises(ParameterError, match="all 4 tables"):
        estimate_tables(released.records[:2], ["mean"], column="x", certificate=released.certificate)
    with pytest.raises(ParameterError, match="no column"):
        estimate_tables(released, ["mean"], column="w")
