"""Readings of noisy counts: the Laplace projection sampler and its accuracy, the Gaussian smoothed histogram."""

import math

import numpy as np
import pytest
from universes import line

from discreet._core.random import seeded
from discreet.domain import Counts
from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms import GaussianSmoothedHistogram, LaplaceProjectionSampler, PerturbedHistogram
from discreet.mechanisms.noise import law_named
from discreet.mechanisms.projections import L1, NumberedCells
from discreet.papers.roo25 import laplace_projection_5
from discreet.privacy import Budget, Relation
from discreet.testing import enumerate_law


def made(k: int, n: int, scale: float) -> LaplaceProjectionSampler:
    return LaplaceProjectionSampler(domain=line(k), records=n, scale=scale)


@pytest.mark.parametrize(("held", "scale"), [((1, 1), 0.75), ((2, 0), 0.75), ((0, 0, 1), 0.4), ((2, 0), 0.4)])
def test_a_record_is_as_accurate_as_stated(held: tuple[int, ...], scale: float) -> None:
    """The exact law of one released record, summed over all noisy counts but those of less than 1e-15 each."""
    n, k = sum(held), len(held)
    mechanism = made(k, n, scale)
    law = enumerate_law(mechanism, Counts.of_cells(np.repeat(np.arange(k), held)))
    likely = [(p, np.array(y)) for p, y in zip(law.mass[0], law.outcomes, strict=True) if p > 1e-15]
    one = sum(p * mechanism.probabilities(y) for p, y in likely)
    assert np.sum(one) == pytest.approx(1.0, abs=1e-9)
    assert 0.5 * np.abs(one - np.array(held) / n).sum() <= mechanism.accuracy
    assert mechanism.accuracy == mechanism.forecast(n).lost


def test_the_accuracy_is_below_the_papers() -> None:
    """Equation (5) is enough, and more than enough: at k = 9, eps = 0.1, alpha = 0.18, 1000 records against 736."""
    assert laplace_projection_5(0.1, accuracy=0.18, cells=9) == pytest.approx(1000.0)
    for epsilon in (0.01, 0.1, 1.0, 5.0):
        for k in (2, 3, 9, 300):
            ours = LaplaceProjectionSampler.sample_complexity(epsilon, accuracy=0.1, cells=k)
            paper = laplace_projection_5(epsilon, accuracy=0.1, cells=k)
            assert ours <= (k + math.sqrt(2 * k)) / (0.1 * epsilon) <= paper * (1 + 1e-12)
            if (n := math.ceil(ours)) > 1 and epsilon <= 1.0:
                assert made(k, n, 2.0 / epsilon).accuracy <= 0.1 * (1 + 1e-12)
    with pytest.raises(ParameterError, match="accuracy"):
        LaplaceProjectionSampler.sample_complexity(1.0, accuracy=1.5, cells=3)


def test_empty_cells_take_little_from_full_ones() -> None:
    """1000 cells, 20 of them held: the largest shares stay, where clipping gives half of 8.5 % away."""
    held = np.zeros(1000, dtype=np.int64)
    held[:20] = 500
    mechanism = made(1000, 10_000, 2.0)
    rng = seeded(3)
    apart = []
    for _ in range(30):
        y = held + law_named("laplace").approximate(2.0, 1000, rng=rng)
        apart.append(0.5 * np.abs(mechanism.probabilities(y) - held / 10_000).sum())
    assert np.mean(apart) < 0.004


# -- the Gaussian smoothed histogram ----------------------------------------------------------------------------------


def smoothed(k: int, n: int, scale: float, mixing: float = 0.25) -> GaussianSmoothedHistogram:
    return GaussianSmoothedHistogram(domain=line(k), records=n, scale=scale, mixing=mixing)


def test_smoothing_buys_nothing_and_costs_nothing() -> None:
    perturbed = PerturbedHistogram(domain=smoothed(4, 50, 2.0).domain, records=50, scale=2.0, noise="gaussian")
    for group in (1, 3):
        b = perturbed.guarantee(Relation(group=group), n=50)
        for mixing in (0.0, 0.5, 1.0):
            a = smoothed(4, 50, 2.0, mixing).guarantee(Relation(group=group), n=50)
            assert [a.delta(e) for e in (0.0, 0.5, 2.0)] == [b.delta(e) for e in (0.0, 0.5, 2.0)]


def test_the_probabilities_are_the_mixture() -> None:
    y = np.array([12, -3, 20, 1])
    p = L1(NumberedCells(line(4), 4), 30).probabilities(y)
    np.testing.assert_allclose(smoothed(4, 30, 2.0, 0.25).probabilities(y), 0.75 * p + 0.0625)
    np.testing.assert_array_equal(smoothed(4, 30, 2.0, 0.0).probabilities(y), p)
    np.testing.assert_array_equal(smoothed(4, 30, 2.0, 1.0).probabilities(y), np.full(4, 0.25))


def test_the_census_example() -> None:
    """PY26, section 4.3: 300 cells, 11,918,162 records, (2, 1e-5); 119 records or any number."""
    budget = Budget(epsilon=2.0, delta=1e-5)
    domain = smoothed(300, 1, 1.0).domain
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
        smoothed(3, 10, 1.0, mixing)
