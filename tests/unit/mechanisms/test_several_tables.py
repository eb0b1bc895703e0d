"""Several tables of marginals: each from the posterior of what was measured, at no further privacy cost."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import AddRemove, read, release, verify
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.domain import Category, Counts, Domain, Integer, OpenLabels, Records
from discreet.errors import FileProblem, ParameterError
from discreet.mechanisms import Marginals
from discreet.mechanisms.chosen_tables import merged
from discreet.mechanisms.latent_classes import PairTable, denoised, nearest_table
from discreet.mechanisms.reading import Reading, copies
from discreet.planner.options import private_step
from discreet.privacy import Budget

BUDGET = Budget(epsilon=2.0, delta=1e-6)
WIDE = Domain(
    columns={
        "a": Category(categories=["x", "y"]),
        "b": Integer(lower=0, upper=4),
        "c": Category(categories=["u", "v", "w"]),
        "d": Integer(lower=0, upper=9),
    }
)


def people(n: int = 4000, seed: int = 0) -> pl.DataFrame:
    """Return records whose columns depend on each other."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.minimum(4, rng.poisson(1 + a))
    return pl.DataFrame(
        {
            "a": np.array(["x", "y"])[a],
            "b": b,
            "c": np.array(["u", "v", "w"])[np.minimum(2, rng.poisson(0.5 + 0.5 * a))],
            "d": np.minimum(9, b + rng.poisson(1.0, n)),
        }
    )


# -- one table is as it was -------------------------------------------------------------------------------------------


def test_one_table_is_not_told_and_several_are_the_same_private_step() -> None:
    one = Marginals.calibrated(BUDGET, domain=WIDE, n=4000)
    several = replace(one, tables=3)
    assert "tables" not in one.parameters()
    assert several.parameters()["tables"] == 3
    assert private_step(one) == private_step(several)
    assert private_step(one) != private_step(replace(one, scale=2.0 * one.scale))
    assert Marginals.from_parameters(one.parameters(), domain=WIDE, records=4000, size=10) == one
    assert Marginals.from_parameters(several.parameters(), domain=WIDE, records=4000, size=10) == several
    assert one.guarantee(n=4000).delta(1.0) == several.guarantee(n=4000).delta(1.0)
    assert not any("nothing else links them" in str(caveat) for caveat in one.guarantee(n=4000).caveats)
    assert any("nothing else links them" in str(caveat) for caveat in several.guarantee(n=4000).caveats)


# -- several ----------------------------------------------------------------------------------------------------------


def test_a_folder_of_tables_verifies(tmp_path: Path) -> None:
    out = tmp_path / "tables"
    made = release(
        people(), WIDE, Budget(epsilon=2.0, delta=1e-6), size=700, mechanism="marginals", tables=3, out=out, seed=1
    )
    tables = [pl.read_parquet(file) for file in sorted(out.glob("*.parquet"))]
    assert [table.height for table in tables] == [700, 700, 700]
    assert not tables[0].equals(tables[1])
    assert all(check.agrees for check in verify(out))
    assert made.certificate.to_dict()["mechanism"]["parameters"]["sampling"] == "iid"
    (out / "table-02.parquet").unlink()
    assert not all(check.agrees for check in verify(out))
    with pytest.raises(FileProblem):
        read(out).estimate(["mean"], column="b")


def test_open_labels_and_add_remove() -> None:
    domain = Domain(columns={"town": OpenLabels(), "b": Integer(lower=0, upper=4)})
    data = people().with_columns(town=pl.Series(["one", "two"] * 2000)).select("town", "b")
    budget = Budget(epsilon=5.0, delta=1e-4)
    made = Marginals.calibrated(budget, domain=domain, n=4000, relation="add-remove", tables=2)
    closed, hidden = confidential(data, domain, empty=True), AddRemove(records=4000)
    found = release(closed, mechanism=made, size=300, relation=hidden, seed=2, accept={"poor-utility"}).records
    assert [len(table) for table in found] == [300, 300]
    assert {"one", "two"} <= {*found[0]["town"]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tables": 3, "mechanism": "smoothed-histogram"}, "marginals"),
        ({"tables": 0, "mechanism": "marginals"}, "from 1 to 1,000"),
        ({"tables": 3, "mechanism": "marginals", "given": "b = 1"}, "Leave given out"),
        ({"tables": 3, "mechanism": "marginals", "counts": True, "size": None}, "leave tables out"),
    ],
)
def test_what_has_no_several_tables_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        release(people(), WIDE, **{"budget": BUDGET, "size": 100, **given})


# -- the posterior ----------------------------------------------------------------------------------------------------

ONE = Domain(columns={"a": Category(categories=["x", "y", "z"])})


class FromTheMean(Marginals):
    """All tables from the noisy counts as they are: no noise is added, no number is drawn."""

    def reading(self, y: Any, *, n: int) -> Reading:
        return super(FromTheMean, replace(self, tables=None)).reading(y, n=n)


def shares(mechanism: Marginals, y: Any, size: int, tables: int) -> np.ndarray:
    """Return each table's shares of the labels."""
    rng = seeded(3)
    reading = mechanism.reading(y, n=mechanism.records)
    drawn = [next(reading.draw(size, rng=rng)).columns[0].astype(np.int64) for _ in range(tables)]
    return np.array([np.bincount(codes, minlength=3) for codes in drawn]) / size


def as_the_posterior(mechanism: Marginals) -> bool:
    """Whether tables have the mean and the variances of the closed form, with false alarms in one of 10,000 runs.

    Three labels, far from 0. Their noisy shares ``s`` sum to 1 after an equal number is taken off each, so the
    posterior variance is ``(2/3) (scale / n)^2 / units``. A population has ``s (1 - s) / n`` more, and a table of it
    ``s (1 - s) / size`` more.
    """
    n, size, tables = 3000, 6000, 400
    y = np.array([1500, 900, 600]) * int(mechanism.allocation.first[0]) ** 2
    found, s = shares(mechanism, y, size, tables), np.array([0.5, 0.3, 0.2])
    noise = 2.0 / 3.0 * (mechanism.scale / (n * float(mechanism.allocation.first[0]))) ** 2
    wanted = noise + s * (1.0 - s) / n + s * (1.0 - s) / size
    apart = np.abs(found.mean(axis=0) - s) / np.sqrt(wanted / tables)
    ratio = found.var(axis=0, ddof=1) / wanted
    return bool((apart < 4.3).all() and (np.abs(ratio - 1.0) < 4.3 * math.sqrt(2.0 / tables)).all())


def test_tables_of_one_column_are_of_the_closed_form_and_a_twin_is_caught() -> None:
    asked: dict[str, Any] = {"domain": ONE, "records": 3000, "scale": 40.0, "units": 1, "tables": 2}
    assert as_the_posterior(Marginals(**asked))
    assert not as_the_posterior(FromTheMean(**asked))
    ignored = Marginals(**{**asked, "scale": 9.0})  # another noise than the one the variance is computed with
    y = np.array([1500, 900, 600])
    assert shares(ignored, y, 6000, 400).var(axis=0)[0] < shares(Marginals(**asked), y, 6000, 400).var(axis=0)[0] * 0.8


def test_draws_of_two_way_numbers_have_the_posteriors_mean_and_variance() -> None:
    noise, rows = 4.0, np.array([[60.0, -60.0], [-60.0, 60.0]])  # one number that is clear, of size 120
    tables, rng = {(0, 1): PairTable(rows, noise)}, seeded(4)
    drawn = np.array([denoised(tables, (2, 2), rng)[0, 1] for _ in range(4000)])
    number = 0.5 * (drawn[:, 0, 0] - drawn[:, 0, 1] - drawn[:, 1, 0] + drawn[:, 1, 1])
    assert abs(number.mean() - 120.0) < 4.4 * noise / math.sqrt(4000)  # not shrunk; one false alarm in 100,000
    assert abs(number.var() / noise**2 - 1.0) < 4.4 * math.sqrt(2.0 / 4000)
    assert denoised(tables, (2, 2))[0, 1][0, 0] < 60.0  # the mean is


def test_thenearest_table_is_the_nearest() -> None:
    rng = np.random.default_rng(5)
    rows, columns = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.4])
    table = np.outer(rows, columns) + rng.normal(scale=0.1, size=(3, 2))
    found = nearest_table(table, rows, columns, np.empty((0, 6)))
    np.testing.assert_allclose(found.sum(axis=1), rows, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=0), columns, atol=1e-6)
    assert found.min() > 0.0
    # Of a 3 x 2 table with given margins two numbers are free: the nearest of all tables on a fine grid of them.
    a, b = np.meshgrid(np.linspace(0.0, 0.5, 501), np.linspace(0.0, 0.3, 301))
    first = np.stack([a, b, columns[0] - a - b], axis=-1)
    every = np.stack([first, rows - first], axis=-1)
    every = every[(every >= 0.0).all(axis=(-1, -2))]
    best = every[((every - table) ** 2).sum(axis=(-1, -2)).argmin()]
    np.testing.assert_allclose(found, best, atol=0.003)


def test_negative_counts_are_not_set_off_against_covariance() -> None:
    """A table on the diagonal with noise: the nearest one without moments has a tenth less covariance."""
    rng, values = np.random.default_rng(6), np.arange(10.0) - 4.5
    true = np.eye(10) / 20 + (np.eye(10, k=1) + np.eye(10, k=-1)) / 40
    true /= true.sum()
    rows, columns = true.sum(axis=1), true.sum(axis=0)
    moment = np.outer(values, values).ravel()[None]
    moment /= np.linalg.norm(moment)
    kept, without = [], []
    for _ in range(20):
        noise = rng.normal(scale=0.006, size=(10, 10))
        table = true + noise - noise.mean(axis=0) - noise.mean(axis=1, keepdims=True) + noise.mean()
        wanted = float(moment[0] @ table.ravel())
        for moments, found in ((moment, kept), (moment[:0], without)):
            near = nearest_table(table, rows, columns, moments)
            np.testing.assert_allclose(near.sum(axis=0), columns, atol=5e-3)
            assert near.min() > 0.0
            found.append(float(moment[0] @ near.ravel()) / wanted)
    assert np.mean(kept) > 0.97
    assert np.mean(without) < 0.93


def test_moments_of_draws_have_a_flat_prior() -> None:
    """Of two independent columns too, whose numbers are shrunk otherwise: mean and variance are those of the noise."""
    rng, domain = seeded(11), Domain(columns={name: Integer(lower=0, upper=4) for name in "ab"})
    codes = rng.integers(0, 5, size=(2, 4000))
    held = Counts(records=Records(columns=tuple(codes)), frequencies=np.ones(4000, dtype=np.int64))
    made = Marginals.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=domain, n=4000, tables=2, workload=["a*b"])
    seen = made.reading(made.kernel(held, rng=rng), n=held.n).measured
    assert seen.choice.merged[0].count == seen.choice.merged[1].count == 5
    values = np.arange(5.0) - 2.0
    moment = np.outer(values, values) / (values @ values)
    (noisy,) = (table for table in seen.tables() if table.columns == (0, 1))
    drawn = np.array([(moment * seen.posterior_draw(rng).posterior[0, 1]).sum() for _ in range(400)])
    error, centre = noisy.errors[0], float((moment * noisy.counts.reshape(5, 5)).sum())
    assert abs(drawn.mean() - centre) < 4.4 * error / math.sqrt(400) + 1e-6  # one false alarm in 100,000
    assert abs(drawn.var() / error**2 - 1.0) < 4.4 * math.sqrt(2.0 / 400)
    shrunk = np.array([(moment * denoised(seen.excess, [5, 5], rng)[0, 1]).sum() for _ in range(400)])
    assert shrunk.var() < 0.7 * error**2


def test_small_cells_of_an_ordered_column_join_their_neighbours() -> None:
    counts = np.array([2.0, 3.0, 90.0, 200.0, 4.0, 150.0, 1.0])
    assert merged(Integer(lower=0, upper=6), counts, 10.0, 1e6).cell_of.tolist() == [0, 0, 1, 2, 3, 4, 5]
    labels = Category(categories=[str(i) for i in range(7)])
    assert merged(labels, counts, 10.0, 1e6).cell_of.tolist() == [0, 0, 1, 2, 0, 3, 0]
    with_null = merged(Integer(lower=0, upper=5, nulls="category"), counts, 10.0, 1e6).cell_of.tolist()
    assert with_null[6] == max(with_null)
    assert with_null.count(with_null[6]) == 1


@pytest.mark.parametrize(("n", "size"), [(1, 5), (300_000, 1000), (10, 1000)])
def test_copies_are_of_so_many_draws(n: int, size: int) -> None:
    chunks = list(copies(n, size, seeded(6)))
    assert sum(int(chunk.sum()) for chunk in chunks) == size
    assert sum(len(chunk) for chunk in chunks) <= min(n, size)
    assert all((chunk > 0).all() for chunk in chunks)
