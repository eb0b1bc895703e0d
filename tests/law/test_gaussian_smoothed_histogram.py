"""The Gaussian smoothed histogram: T6 by enumeration, smoothing by its formula, the numbers of the census example."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from universes import line

from discreet.domain import Counts
from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms import GaussianSmoothedHistogram, PerturbedHistogram
from discreet.mechanisms.projections import L1, NumberedCells
from discreet.privacy import Budget, Relation
from discreet.testing import check_guarantee, check_kernel_follows_law, check_law_sums_to_one, check_twin_is_caught


def made(k: int, n: int, scale: float, mixing: float = 0.25) -> GaussianSmoothedHistogram:
    return GaussianSmoothedHistogram(domain=line(k), records=n, scale=scale, mixing=mixing)


@pytest.mark.parametrize(("cells", "scale"), [*((2, scale) for scale in (0.5, 1.25, 3.0)), (3, 0.4)])
def test_every_pair_of_neighbours(cells: int, scale: float) -> None:
    """On three cells a third one keeps its own, and groups split over cells."""
    mechanism = made(cells, 2, scale)
    check_law_sums_to_one(mechanism, Counts.of_cells([0, 1]))
    for group in (1, 2):
        check_guarantee(mechanism, n=2, group=group)
    guarantee = mechanism.guarantee(n=2)
    assert guarantee.exact
    assert guarantee.theorem == "T6"


@pytest.mark.parametrize(("mechanism", "less", "n"), [
    (made(2, 2, 1.25), 0.5, 2), (made(2, 2, 1.25), 0.999, 2), (made(3, 2, 0.4), 0.5, 1),
])  # fmt: skip
def test_twins_are_caught(mechanism: GaussianSmoothedHistogram, less: float, n: int) -> None:
    check_twin_is_caught(mechanism, replace(mechanism, scale=less * mechanism.scale), n=n)


def test_the_kernel_follows_its_law() -> None:
    """1e-6 to fail the right kernel; 1e-6 to miss a scale 10 % off, or any law at total variation 0.15."""
    mechanism = made(2, 2, 1.25)
    tilted = [replace(mechanism, scale=1.25 * f) for f in (0.9, 1.1)]
    check_kernel_follows_law(mechanism, Counts.of_cells([0, 1]), alternatives=tilted, distance=0.15, seed=2)


def test_smoothing_buys_nothing_and_costs_nothing() -> None:
    perturbed = PerturbedHistogram(domain=made(4, 50, 2.0).domain, records=50, scale=2.0, noise="gaussian")
    for group in (1, 3):
        b = perturbed.guarantee(Relation(group=group), n=50)
        for mixing in (0.0, 0.5, 1.0):
            a = made(4, 50, 2.0, mixing).guarantee(Relation(group=group), n=50)
            assert [a.delta(e) for e in (0.0, 0.5, 2.0)] == [b.delta(e) for e in (0.0, 0.5, 2.0)]


def test_the_probabilities_are_the_mixture() -> None:
    y = np.array([12, -3, 20, 1])
    p = L1(NumberedCells(line(4), 4), 30).probabilities(y)
    np.testing.assert_allclose(made(4, 30, 2.0, 0.25).probabilities(y), 0.75 * p + 0.0625)
    np.testing.assert_array_equal(made(4, 30, 2.0, 0.0).probabilities(y), p)
    np.testing.assert_array_equal(made(4, 30, 2.0, 1.0).probabilities(y), np.full(4, 0.25))


def test_the_census_example() -> None:
    """PY26, section 4.3: 300 cells, 11,918,162 records, (2, 1e-5); 119 records or any number."""
    budget = Budget(epsilon=2.0, delta=1e-5)
    domain = made(300, 1, 1.0).domain
    mechanism = GaussianSmoothedHistogram.calibrated(budget, domain=domain, n=11_918_162, size=119)
    assert mechanism.mixing == 0.01
    assert mechanism.scale == pytest.approx(2.817, abs=1e-3)
    delta = mechanism.guarantee(n=11_918_162).delta(2.0)
    assert 0.999e-5 < delta <= 1e-5
    assert mechanism.forecast(11_918_162).lost == pytest.approx(0.01003, abs=1e-5)
    with pytest.raises(Infeasible, match="delta"):
        GaussianSmoothedHistogram.calibrated(Budget(epsilon=2.0), domain=domain, n=1000)
    with pytest.raises(Infeasible, match="scale"):
        GaussianSmoothedHistogram.calibrated(budget, domain=domain, n=1000, scale=2.8)


@pytest.mark.parametrize("mixing", [-0.1, 1.1, float("nan"), True])
def test_a_mixing_that_is_no_probability(mixing: float) -> None:
    with pytest.raises(ParameterError, match="mixing"):
        made(3, 10, 1.0, mixing)
