"""The Gaussian smoothed histogram: T6 by enumeration, smoothing by its formula, the numbers of the census example."""

from __future__ import annotations

import numpy as np
import pytest
from universes import line

from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms import GaussianSmoothedHistogram, PerturbedHistogram
from discreet.mechanisms.projections import L1, NumberedCells
from discreet.privacy import Budget, Relation


def made(k: int, n: int, scale: float, mixing: float = 0.25) -> GaussianSmoothedHistogram:
    return GaussianSmoothedHistogram(domain=line(k), records=n, scale=scale, mixing=mixing)


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
