"""Distances on the line, of labels and of densities: against scipy, closed forms, and metric properties."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import gaussian_kde, ks_2samp, norm, wasserstein_distance

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.utility import distances, hellinger, kde_l2, ks_distance, total_variation, wasserstein_1d
from discreet.utility.distances import bandwidth, summary

DISTANCES = [wasserstein_1d, ks_distance, total_variation]

values = st.floats(-1e6, 1e6, allow_subnormal=False)
samples = st.lists(st.tuples(values, st.integers(1, 9)), min_size=1, max_size=12)


def _apart(sample: list[tuple[float, int]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    points, weights = zip(*sample, strict=True)
    return np.array(points), np.array(weights)


def _w1(a: list[tuple[float, int]], b: list[tuple[float, int]]) -> float:
    (x, p), (y, q) = _apart(a), _apart(b)
    return wasserstein_1d(x, y, x_weights=p, y_weights=q)


def _ks(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    with np.errstate(divide="ignore"):  # of the p-value, for tiny samples
        return float(ks_2samp(x, y, method="asymp").statistic)


@pytest.mark.parametrize("seed", range(300))
def test_agrees_with_scipy_on_small_weighted_samples(seed: int) -> None:
    """Ties, equal and different sizes, whole and fractional weights, zero weights."""
    rng = seeded(seed)
    a, b = rng.integers(1, 12, size=2)
    x, y = rng.normal(size=a).round(1), rng.normal(size=b).round(1)
    p, q = rng.integers(0, 4, size=a) + (np.arange(a) == 0), rng.random(b) + 0.01
    assert wasserstein_1d(x, y) == pytest.approx(wasserstein_distance(x, y), rel=1e-12, abs=1e-12)
    assert wasserstein_1d(x, y, x_weights=p) == pytest.approx(wasserstein_distance(x, y, p), rel=1e-12, abs=1e-12)
    assert wasserstein_1d(x, y, x_weights=p, y_weights=q) == pytest.approx(
        wasserstein_distance(x, y, p, q), rel=1e-12, abs=1e-12
    )
    assert ks_distance(x, y) == pytest.approx(_ks(x, y), rel=1e-12, abs=1e-12)
    repeated = _ks(np.repeat(x, p), y)
    assert ks_distance(x, y, x_weights=p) == pytest.approx(repeated, rel=1e-12, abs=1e-12)
    assert ks_distance(x, y, x_weights=p / 7.0) == pytest.approx(repeated, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scipy_on_samples_of_other_lengths(weighted: bool) -> None:
    """Runs of equal values and of no weight."""
    rng = seeded(8)
    for a, b in ((40, 7), (7, 40), (23, 23), (1, 30)) * 4:
        x, y = rng.normal(size=a).round(1), rng.normal(size=b).round(1)
        p, q = rng.integers(0, 3, size=a) + (np.arange(a) == a // 2), rng.random(b) * (np.arange(b) % 3 > 0) + 1e-9
        weights = {"x_weights": p, "y_weights": q} if weighted else {}
        oracle = wasserstein_distance(x, y, *((p, q) if weighted else ()))
        assert wasserstein_1d(x, y, **weights) == pytest.approx(oracle, rel=1e-12, abs=1e-12)
        assert wasserstein_1d(x, -y, x_weights=p) == pytest.approx(wasserstein_distance(x, -y, p), rel=1e-12)


def test_closed_forms() -> None:
    """Two point masses; a point mass and a fair coin; an evenly spaced grid against its translate."""
    assert wasserstein_1d([2.0], [5.5]) == 3.5
    assert wasserstein_1d([0.5], [0, 1]) == 0.5
    grid = np.arange(1000.0)
    assert wasserstein_1d(grid, grid + 0.25) == 0.25
    assert wasserstein_1d([0, 1], [0, 1], x_weights=[3, 1], y_weights=[1, 3]) == 0.5
    assert ks_distance([0, 1], [0, 1], x_weights=[3, 1], y_weights=[1, 3]) == 0.5
    assert ks_distance([1, 1, 1], [1]) == 0.0
    assert ks_distance([1, 2], [3, 4]) == 1.0


def test_frequencies_are_added_exactly() -> None:
    """Float64 weights would lose a single record beside 2^53 of them."""
    p = np.array([2**30, 1]), np.array([2**30 + 1, 0])
    assert wasserstein_1d([0, 1], [0, 1], x_weights=p[0], y_weights=p[1]) == 1 / (2**30 + 1)
    huge = np.array([2**53, 1])
    assert wasserstein_1d([0, 1], [0, 1], x_weights=huge, y_weights=huge) == 0.0


@given(samples, samples)
def test_symmetric(a: list[tuple[float, int]], b: list[tuple[float, int]]) -> None:
    assert _w1(a, b) == _w1(b, a)
    (x, p), (y, q) = _apart(a), _apart(b)
    for distance in DISTANCES:
        there = distance(x, y, x_weights=p, y_weights=q)
        assert there == distance(y, x, x_weights=q, y_weights=p)
        assert distance(x, x[::-1], x_weights=p, y_weights=p[::-1]) == 0.0
        assert there >= 0.0


@given(samples, samples)
def test_weights_stand_for_repetitions_in_any_order(a: list[tuple[float, int]], b: list[tuple[float, int]]) -> None:
    (x, p), (y, q) = _apart(a), _apart(b)
    for distance in DISTANCES:
        whole = distance(np.repeat(x, p), np.repeat(y, q))
        assert distance(x, y, x_weights=p, y_weights=q) == pytest.approx(whole, rel=1e-9, abs=1e-9)


@given(samples, samples)
def test_total_variation_is_wasserstein_of_the_discrete_metric(
    a: list[tuple[float, int]], b: list[tuple[float, int]]
) -> None:
    (x, p), (y, q) = _apart(a), _apart(b)
    labels = np.unique(np.concatenate((x, y)))
    common = sum(min(p[x == label].sum() / p.sum(), q[y == label].sum() / q.sum()) for label in labels)
    assert total_variation(x, y, x_weights=p, y_weights=q) == pytest.approx(1 - common, abs=1e-12)


def test_total_variation_takes_strings_and_fractions() -> None:
    assert total_variation(["a", "a", "b"], ["c"]) == 1.0
    assert total_variation(["a", "b"], ["a", "b"], x_weights=[0.5, 0.5], y_weights=[1.0, 0.0]) == 0.5


@pytest.mark.parametrize("distance", DISTANCES)
def test_refuses_what_is_no_sample(distance: Any) -> None:
    for bad in ([], [[1.0, 2.0]]):
        with pytest.raises(ParameterError, match="at least one value"):
            distance(bad, [1.0])
        with pytest.raises(ParameterError, match="at least one value"):
            distance([1.0], bad)
    for weights in ([1], [-1, 2], [0, 0], [np.nan, 1.0], [np.inf, 1.0], ["a", "b"]):
        with pytest.raises(ParameterError, match="weights of y"):
            distance([1.0], [1.0, 2.0], y_weights=weights)


@pytest.mark.parametrize("distance", [wasserstein_1d, ks_distance])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_refuses_what_is_not_finite(distance: Any, value: float) -> None:
    with pytest.raises(ParameterError, match="not finite"):
        distance([1.0, value], [1.0])


@given(samples)
def test_summary_is_that_of_the_repeated_sample(a: list[tuple[float, int]]) -> None:
    x, p = _apart(a)
    whole = np.repeat(x, p)
    facts = summary(x, p)
    assert facts["mean"] == pytest.approx(whole.mean(), rel=1e-9, abs=1e-9)
    assert facts["sd"] == pytest.approx(whole.std(), rel=1e-9, abs=1e-6)
    for percent in (1, 5, 25, 50, 75, 95, 99):
        assert facts[f"p{percent}"] == np.quantile(whole, percent / 100, method="inverted_cdf")
    assert summary(whole)["p25"] == facts["p25"]
    assert list(facts) == ["mean", "sd", "p1", "p5", "p25", "p50", "p75", "p95", "p99"]


def test_summary_reaches_a_quantile_exactly() -> None:
    """One in a hundred is the first percentile, whatever 0.01 is in binary."""
    assert summary(np.arange(100.0))["p1"] == 0.0
    assert summary([3.0, 7.0], [99, 1])["p99"] == 3.0
    assert summary([3.0, 7.0], [0.5, 0.5])["p50"] == 3.0
    with pytest.raises(ParameterError, match="at least one value"):
        summary([])


@pytest.mark.parametrize("seed", range(20))
def test_hellinger_is_its_formula_and_brackets_total_variation(seed: int) -> None:
    rng = seeded(seed)
    p, q = rng.integers(0, 9, 6) + (np.arange(6) == 0), rng.random(6)
    labels = np.arange(6) % 4  # two labels occur twice
    mass = [np.array([w[labels == c].sum() for c in range(4)]) / w.sum() for w in (p, q)]
    found = hellinger(labels, labels, x_weights=p, y_weights=q)
    assert found == pytest.approx(np.sqrt(1 - np.sqrt(mass[0] * mass[1]).sum()), abs=1e-12)
    apart = total_variation(labels, labels, x_weights=p, y_weights=q)
    assert found**2 - 1e-12 <= apart <= found * np.sqrt(2) + 1e-12
    assert hellinger(["a"], ["b"]) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_kde_l2_is_the_integral(seed: int) -> None:
    rng = seeded(seed)
    x, y, p = rng.normal(size=9), rng.normal(1, 2, size=7), rng.integers(1, 5, 9)
    h = 0.3 + 0.1 * seed

    def square(t: float) -> float:
        return float((p @ norm.pdf(t, x, h) / p.sum() - norm.pdf(t, y, h).mean()) ** 2)

    integral = quad(square, -12, 14, limit=500, points=[-2, 0, 2, 4], epsabs=1e-13)[0]
    assert kde_l2(x, y, width=h, x_weights=p) == pytest.approx(np.sqrt(integral), abs=1e-9)
    assert kde_l2(y, x, width=h, y_weights=p) == pytest.approx(np.sqrt(integral), abs=1e-9)


def test_bandwidth_is_scotts_as_scipy_has_it() -> None:
    values = seeded(1).normal(3, 2, size=50)
    assert bandwidth(values) == pytest.approx(np.sqrt(gaussian_kde(values).covariance[0, 0]), rel=1e-12)
    assert bandwidth([1.0, 5.0], [2, 3]) == pytest.approx(bandwidth([1.0, 1.0, 5.0, 5.0, 5.0]), rel=1e-12)
    x, y = values[:30], values[30:]
    assert kde_l2(x, y) == kde_l2(x, y, width=bandwidth(x))


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("width", [0.01, 0.3])
def test_the_grid_keeps_its_stated_error(width: float, scale: float) -> None:
    rng = seeded(2)
    x, y = rng.normal(size=700) * scale, rng.gamma(2.0, size=800) * scale
    h = width * scale
    points, which = np.unique(np.concatenate((x, y)), return_inverse=True)
    signed = np.bincount(which, weights=np.repeat((1 / 700, -1 / 800), (700, 800)))
    exact = np.sqrt(distances._all_pairs(points, signed, h))
    kernel = 1 / np.sqrt(2 * h * np.sqrt(np.pi))
    assert abs(np.sqrt(distances._binned(points, signed, h)) - exact) <= (1e-6 + 1e-8) * kernel


def test_the_grid_at_its_largest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid too coarse for h/500 errs by at most the bound in its step."""
    monkeypatch.setattr(distances, "_MOST_BINS", 400)
    rng = seeded(3)
    points = np.sort(rng.random(300))
    signed = rng.normal(size=300)
    signed -= signed.mean()
    h, step = 0.02, (points[-1] - points[0]) / 400
    masses = np.abs(signed).sum() / 2
    exact = np.sqrt(distances._all_pairs(points, signed, h))
    bound = masses * step**2 / 4 * np.sqrt(3 / (8 * np.sqrt(np.pi))) * h**-2.5
    assert abs(np.sqrt(distances._binned(points, signed, h)) - exact) <= bound


def test_many_values_go_to_the_grid_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = seeded(4)
    x, y = rng.random(2000), rng.random(1500) ** 1.1
    binned = kde_l2(x, y)
    monkeypatch.setattr(distances, "_EXACT", 10_000)
    assert kde_l2(x, y) == pytest.approx(binned, rel=1e-5)


def test_degenerate_samples() -> None:
    assert kde_l2([2.0, 2.0], [2.0]) == 0.0
    assert kde_l2([2.0, 2.0], [3.0]) == np.inf
    assert bandwidth([1.0]) == 0.0
    for width in (0.0, -1.0, np.nan):
        with pytest.raises(ParameterError, match="width"):
            kde_l2([1.0], [2.0], width=width)
    with pytest.raises(ParameterError, match="at least one value"):
        hellinger([], ["a"])
