"""Predicting from a public table that the confidential one is expected to look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from discreet import Budget
from discreet.domain import Category, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DataError
from discreet.mechanisms import DirichletMultinomial
from discreet.planner import plan
from discreet.planner.predicted import Reference, predicted_w1

DOMAIN = Domain(columns={"x": Numeric(lower=0.0, upper=1000.0, cells=50), "c": Category(categories=["a", "b"])})
TABLE = pl.DataFrame({"x": np.full(100, 3.0), "c": ["a"] * 100})


def test_a_concentrated_reference_predicts_less_sampling_error() -> None:
    one = Domain(columns={"x": DOMAIN.columns["x"]})
    narrow = pl.DataFrame({"x": np.linspace(400.5, 439.5, 40)})
    by_base = plan(one, Budget(epsilon=1.0, delta=1e-6), records=10_000, mechanisms=["perturbed-histogram"])
    like = plan(
        one, Budget(epsilon=1.0, delta=1e-6), records=10_000, mechanisms=["perturbed-histogram"], reference=narrow
    )
    assert (like.options[0].w1 or 0.0) < 0.7 * (by_base.options[0].w1 or 0.0)


def test_files_and_other_frames_give_the_same_prediction(tmp_path: Path) -> None:
    TABLE.write_csv(tmp_path / "r.csv")
    TABLE.write_parquet(tmp_path / "r.parquet")
    predictions = {
        plan(
            DOMAIN, Budget(epsilon=1.0), records=1000, size=100, mechanisms=["perturbed-histogram"], reference=reference
        )
        .options[0]
        .w1
        for reference in (TABLE, TABLE.to_pandas(), tmp_path / "r.csv", str(tmp_path / "r.parquet"))
    }
    assert len(predictions) == 1


def test_a_reference_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="not in the public table"):
        Reference.from_data(TABLE.drop("c"), DOMAIN)
    with pytest.raises(DataError, match="bounds"):
        plan(DOMAIN, Budget(epsilon=1.0), records=1000, size=100, reference=TABLE.with_columns(x=pl.lit(-1.0)))
    with pytest.raises(DataError, match="no rows"):
        Reference.from_data(TABLE.clear(), DOMAIN)


def test_open_labels_and_large_domains_are_predicted_from_the_labels_seen() -> None:
    labels = Domain(columns={"job": OpenLabels()})
    jobs = pl.DataFrame({"job": ["nurse"] * 60 + ["baker"] * 30 + ["fool"] * 10})
    options = {"records": 10**6, "budget": Budget(epsilon=1.0, delta=1e-3), "size": 1000}
    made = plan(labels, mechanisms=["dirichlet-process"], reference=jobs, **options)  # type: ignore[arg-type]
    assert 0 < (made.options[0].w1 or 0.0) < 0.05
    wide = Domain(columns={f"c{i}": Integer(lower=0, upper=99) for i in range(6)})
    row = pl.DataFrame({name: [5] * 10 for name in wide.names})
    prior = DirichletMultinomial(domain=wide, size=1000, prior=1e-3)  # 1e9 records' worth: nearly all from the prior
    assert 2.0 < predicted_w1(prior, n=10**6, size=1000, reference=Reference.from_data(row, wide)) < 3.0


def test_stratified_records_are_predicted_to_be_nearer() -> None:
    one = Domain(columns={"x": Integer(lower=0, upper=49)})
    w1 = {
        sampling: plan(
            one, Budget(epsilon=1.0), records=10**6, size=1000, mechanisms=["perturbed-histogram"], sampling=sampling
        )
        .options[0]
        .w1
        for sampling in (None, "iid", "stratified")
    }
    assert w1[None] == w1["stratified"]
    assert (w1["stratified"] or 0.0) < 0.2 * (w1["iid"] or 0.0)
