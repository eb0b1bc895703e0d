"""Records that a threshold withheld: bounds against linear programs, by hand, and on releases."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linprog

from discreet._core.random import seeded
from discreet.domain import Category, Counts, Domain, Integer
from discreet.inference import Posterior
from discreet.inference.bounds import UnseenCells
from discreet.inference.mechanism_aware import latent_counts, population_posterior
from discreet.inference.prior import Noise
from discreet.inference.samplers import ReleasedCounts
from discreet.mechanisms import StabilityHistogram
from discreet.mechanisms.likelihood import ThresholdedCounts
from discreet.privacy import Budget

PARTS = 64


def posterior(domain, masses, cells, most):
    support = domain.unflat(np.arange(domain.size))
    return Posterior.of_arrays(domain, support, [masses], bounds=True, unseen=UnseenCells(np.array(cells), most))


def programmed(values, masses, cells, most):
    """The least and greatest sum of values over all ways to place the withheld mass."""
    fixed = float((values * masses)[~cells].sum())
    room = [(0.0, most)] * int(cells.sum())
    ends = [
        sign * linprog(sign * values[cells], A_eq=[np.ones(len(room))], b_eq=[masses[cells].sum()], bounds=room).fun
        for sign in (1.0, -1.0)
    ]
    return fixed + ends[0], fixed + ends[1]


@pytest.mark.parametrize("most", [0.13, 0.2, 0.5, 1.0])
def test_bounds_against_linear_programs(most: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        masses, cells = rng.dirichlet(np.ones(9)), rng.random(9) < 0.6
        cells[:2] = True, False
        if masses[cells].sum() > most * cells.sum():
            continue
        made = posterior(Domain(columns={"x": Integer(lower=0, upper=8)}), masses, cells, most)
        x = np.arange(9.0)
        exact = {"mean": x, "P(>4)": 1.0 * (x > 4), "P(<=2)": 1.0 * (x <= 2)}
        part = masses[cells].sum() / PARTS
        for row in made.summary(list(exact)).rows:
            least, greatest = programmed(exact[row.name], masses, cells, most)
            slack = part * (8.0 if row.name == "mean" else 1.0) + 1e-9
            assert least - slack <= row.lower <= least + 1e-9
            assert greatest - 1e-9 <= row.upper <= greatest + slack


def test_every_placement_lies_within_the_bounds() -> None:
    """Also of numbers that are not sums: quantiles and the standard deviation."""
    rng = np.random.default_rng(4)
    domain, cells, most = Domain(columns={"x": Integer(lower=0, upper=5)}), np.array([1, 0, 1, 1, 0, 1], bool), 0.25
    masses = np.array([0.1, 0.3, 0.15, 0.05, 0.2, 0.2])
    asked = ["mean", "sd", "q25", "q50", "q75", "P(2..3)", "P(=5)"]
    rows = posterior(domain, masses, cells, most).summary(asked).rows
    for _ in range(300):
        placed = rng.dirichlet(np.full(4, rng.choice([0.1, 1.0]))) * 0.5
        if placed.max() > most:
            continue
        there = masses.copy()
        there[cells] = placed
        truth = Posterior.of_arrays(domain, domain.unflat(np.arange(6)), [there])
        for row in rows:
            (value,) = truth.evaluate(row.name)
            assert row.lower - 1e-9 <= value <= row.upper + 1e-9, row.name


def test_labels_and_nulls_by_hand() -> None:
    domain = Domain(columns={"x": Category(categories=["a", "b", "c"], nulls="category")})
    made = posterior(domain, [0.4, 0.1, 0.2, 0.3], [False, True, True, True], 0.25)
    ends = {row.name: (row.lower, row.upper) for row in made.summary(["P(=a)", "P(=b)", "P(=c)"]).rows}
    assert ends["P(=a)"] == pytest.approx((0.4 / 0.7, 0.4 / 0.7))  # nulls stay, and are left out
    assert ends["P(=b)"] == ends["P(=c)"] == pytest.approx((0.0, 0.25 / 0.7))
    domain = Domain(columns={"x": Integer(lower=0, upper=2, nulls="category")})
    made = posterior(domain, [0.4, 0.1, 0.2, 0.3], [False, True, True, True], 0.25)
    (row,) = made.summary(["P(>1)"]).rows
    assert (row.lower, row.upper) == pytest.approx((0.05 / 0.7, 0.25 / 0.7), abs=0.3 / 0.7 / PARTS)


def test_within_a_group_its_withheld_cells_alone_are_open() -> None:
    domain = Domain(columns={"x": Integer(lower=0, upper=2), "g": Category(categories=["u", "v"])})
    masses, cells = np.array([0.2, 0.1, 0.1, 0.2, 0.1, 0.3]), np.array([0, 0, 1, 0, 1, 0], bool)  # (0, u), (0, v), ...
    rows = posterior(domain, masses, cells, 0.15).summary(["mean"], column="x", by="g").rows
    u, v = rows
    assert (u.lower, u.upper) == pytest.approx(((0.0 * 0.2 + 0.2 * 1) / 0.4, 0.2 * 2 / 0.4), abs=1e-9)
    assert (v.lower, v.upper) == pytest.approx((0.8 / 0.6, 0.8 / 0.6))


def test_no_cell_holds_more_than_is_taken_for_possible() -> None:
    """By the law of the noise: the largest count that is withheld with a probability above a thousandth, in any."""
    mechanism = StabilityHistogram.calibrated(
        Budget(epsilon=1.0, delta=1e-6), domain=Domain(columns={"x": Integer(lower=0, upper=49)}), n=1000, size=None
    )
    likelihood = mechanism.likelihood()
    assert isinstance(likelihood, ThresholdedCounts)
    seen = np.full(50, np.nan)
    seen[:10] = 100.0
    of_table = UnseenCells.withheld(likelihood, ReleasedCounts(1000, seen))
    assert of_table.cells.sum() == 40
    noise = Noise.of(likelihood.law, likelihood.scale)
    count = round(of_table.most * 1000)
    assert noise.below(np.array([likelihood.threshold - count]))[0] <= 1e-3 / 40
    assert noise.below(np.array([likelihood.threshold - count + 1]))[0] > 1e-3 / 40
    whole = of_table.of_population(1000)
    assert whole.cells is of_table.cells
    assert (whole.most or 0.0) > of_table.most


def test_intervals_of_releases_hold_where_the_prior_would_be_wrong() -> None:
    """Half of the table is spread thinly over the upper end: what is withheld is not spread over all."""
    held = np.concatenate([np.zeros(500), np.repeat(np.arange(80, 100), 25)]).astype(int)
    domain = Domain(columns={"x": Integer(lower=0, upper=99)})
    budget = Budget(epsilon=0.3, delta=1e-6)
    mechanism = StabilityHistogram.calibrated(budget, domain=domain, n=1000, size=None)
    codes, frequencies = np.unique(domain.columns["x"].encode(pl.Series(held)), return_counts=True)
    counts = Counts(records=domain.unflat(codes), frequencies=frequencies)
    truth, within = held.mean(), {"bounds": 0, "even": 0}
    for seed in range(8):
        rng = seeded(seed)
        estimates = mechanism.reading(mechanism.kernel(counts, rng=rng), n=counts.n).estimates()
        seen = np.full(100, np.nan)
        seen[domain.flat(estimates.records)] = estimates.counts
        assert np.isnan(seen[80:]).all()
        for kind in within:
            latent = latent_counts(mechanism, ReleasedCounts(1000, seen), strength=None, draws=200, rng=rng)
            made = population_posterior(latent, rng, of="table", within=kind)
            (row,) = made.summary(["mean"]).rows
            within[kind] += row.lower <= truth <= row.upper
            assert any("nothing was released of cells" in note for note in made.notes) is (kind == "bounds")
    assert within == {"bounds": 8, "even": 0}
