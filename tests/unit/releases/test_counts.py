"""Releasing counts of cells with standard errors instead of records."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget, release
from discreet.domain import Category, Date, Domain, Integer, Numeric
from discreet.errors import ParameterError
from discreet.mechanisms import DirichletMultinomial
from discreet.releases import Certificate, verify

DOMAIN = Domain(
    columns={"age": Integer(lower=0, upper=9, cells=5), "sex": Category(categories=["f", "m"], nulls="category")}
)
FRAME = pl.DataFrame({"age": np.arange(4000) % 10, "sex": np.where(np.arange(4000) % 4 == 0, "f", "m")})


def test_counts_come_with_cells_standard_errors_and_a_certificate(tmp_path: Path) -> None:
    out = tmp_path / "counts.parquet"
    made = discreet.release(FRAME, DOMAIN, Budget(epsilon=1), counts=True, out=out, mechanism="perturbed-histogram")
    table = pl.read_parquet(out)
    assert table.columns == ["age_from", "age_to", "sex", "count", "standard_error"]
    assert table.height == DOMAIN.size
    error = float(table["standard_error"][0])
    assert error == pytest.approx(np.sqrt(0.5) / np.sinh(0.25))  # discrete Laplace noise of scale 2
    true = FRAME.with_columns(pl.col("age") // 2 * 2).group_by("age", "sex").len()
    both = table.join(true, left_on=["age_from", "sex"], right_on=["age", "sex"], how="left").fill_null(0)
    # each of 15 noises exceeds 50 with probability e^-25
    assert float((both["count"] - both["len"]).abs().max()) < 50  # type: ignore[arg-type]
    certificate = Certificate.read(made.certificate_path or "")
    assert certificate.to_dict()["size"] is None
    assert "counts of 15 cells" in certificate.summary
    assert all(check.agrees for check in verify(certificate, data=out))
    assert not all(
        check.agrees for check in verify(certificate.releasing(tables=[replace(certificate.tables[0], rows=14)]))
    )


def test_what_cannot_give_counts_is_refused_before_anything_is_drawn() -> None:
    domain = Domain(columns={"count": Integer(lower=0, upper=9)})
    frame = pl.DataFrame({"count": np.arange(2000) % 10})
    closed = discreet.confidential.confidential(frame, domain)
    with pytest.raises(ParameterError, match="not counts"):
        release(closed, mechanism=DirichletMultinomial(domain=domain, size=5, prior=5.0), counts=True)
    for name in ("reveal-or-obscure", "exponential-histogram", "urn-histogram"):  # whatever else would be refused
        with pytest.raises(ParameterError, match=f"{name} releases records, not counts"):
            discreet.release(frame, domain, Budget(epsilon=1), counts=True, mechanism=name)
    with pytest.raises(ParameterError, match="Rename it"):
        discreet.release(frame, domain, Budget(epsilon=1), counts=True)


def test_cells_are_described_by_their_values_or_ends() -> None:
    domain = Domain(
        columns={
            "day": Date(lower=dt.date(2024, 1, 1), upper=dt.date(2024, 1, 4), cells=2, nulls="category"),
            "x": Numeric(lower=0.0, upper=1.0, cells=2),
            "y": Numeric(lower=0.0, upper=1.0, cells=1, within="midpoint"),
        }
    )
    table = domain.describe(domain.unflat(np.arange(6)), rng=np.random.default_rng(0))
    assert table.columns == ["day_from", "day_to", "x_from", "x_to", "y"]
    assert table.row(1) == (dt.date(2024, 1, 1), dt.date(2024, 1, 2), 0.5, 1.0, 0.5)
    assert table.row(5) == (None, None, 0.5, 1.0, 0.5)


def test_a_certificate_of_counts_without_a_number_of_rows_disagrees_at_once() -> None:
    """How many counts a stability histogram has is not known beforehand: any number, and so not none."""
    table, domain = pl.DataFrame({"cell": [1, 2] * 500}), Domain(columns={"cell": Integer(lower=0, upper=3)})
    made = discreet.release(
        table, domain, Budget(epsilon=1.0, delta=1e-6), counts=True, mechanism="stability-histogram"
    )
    facts = made.certificate.to_dict()
    assert all(check.agrees for check in verify(made.certificate))
    table = {**facts["released"]["tables"][0], "rows": None}
    with pytest.raises(ParameterError, match=r"field released\.tables\[0\]\.rows is missing or of the wrong kind"):
        Certificate.from_dict({**facts, "released": {**facts["released"], "tables": [table]}})
