"""Hellinger, and L2 between kernel density estimates: against quadrature, closed forms and the stated error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gaussian_kde, norm

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.utility import densities, hellinger, kde_l2, total_variation
from discreet.utility.densities import bandwidth


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
    exact = np.sqrt(densities._all_pairs(points, signed, h))
    kernel = 1 / np.sqrt(2 * h * np.sqrt(np.pi))
    assert abs(np.sqrt(densities._binned(points, signed, h)) - exact) <= (1e-6 + 1e-8) * kernel


def test_the_grid_at_its_largest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid too coarse for h/500 errs by at most the bound in its step."""
    monkeypatch.setattr(densities, "_MOST_BINS", 400)
    rng = seeded(3)
    points = np.sort(rng.random(300))
    signed = rng.normal(size=300)
    signed -= signed.mean()
    h, step = 0.02, (points[-1] - points[0]) / 400
    masses = np.abs(signed).sum() / 2
    exact = np.sqrt(densities._all_pairs(points, signed, h))
    bound = masses * step**2 / 4 * np.sqrt(3 / (8 * np.sqrt(np.pi))) * h**-2.5
    assert abs(np.sqrt(densities._binned(points, signed, h)) - exact) <= bound


def test_many_values_go_to_the_grid_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = seeded(4)
    x, y = rng.random(2000), rng.random(1500) ** 1.1
    binned = kde_l2(x, y)
    monkeypatch.setattr(densities, "_EXACT", 10_000)
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
