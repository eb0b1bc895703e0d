"""Theoretical rates: against numbers worked out by hand, measured distances, and the study that is kept."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.papers.bnp24 import kolmogorov_smirnov_rate
from discreet.papers.pe25 import private_evolution_rate
from discreet.papers.py26 import (
    dirichlet_multinomial_rate,
    dirichlet_process_rate,
    empirical_rate,
    vanishing_delta_rate,
)
from discreet.utility import wasserstein_1d


def test_empirical_rate_by_hand() -> None:
    assert empirical_rate(400, 1) == 0.05
    assert empirical_rate(400, 2) == pytest.approx(0.05 * 5.993961427306569, rel=1e-12)  # log 401
    assert empirical_rate(4096, 4) == pytest.approx(0.125)
    assert empirical_rate(4096, 1, moment=3.0) == pytest.approx(1 / 64 + 1 / 256)  # n^(-2/3)
    assert empirical_rate(4096, 3, moment=4.0) == pytest.approx(1 / 16 + 1 / 512)  # n^(-1/3) + n^(-3/4)
    assert empirical_rate(1, 5) == 1.0


def test_the_other_rates_by_hand() -> None:
    assert dirichlet_multinomial_rate(10_000, 1_000_000, 3) == pytest.approx(0.01 + 0.01)
    assert dirichlet_process_rate(1_000_000, 8_000, 3) == pytest.approx(0.01 + 0.05)
    assert dirichlet_process_rate(400, 100, 2) == pytest.approx(0.05 * math.log(401) + 0.1 * math.log(101))
    assert kolmogorov_smirnov_rate(400, math.exp(4)) == pytest.approx(0.05 + 2 * math.exp(-2))
    n = math.exp(4)  # log n = 4
    assert vanishing_delta_rate(n, 1) == pytest.approx(math.exp(-2) * 2)
    assert vanishing_delta_rate(n, 1, published=True) == pytest.approx(math.exp(-2) * 4)
    assert vanishing_delta_rate(n, 2) == pytest.approx(math.exp(-2) * 8)
    assert vanishing_delta_rate(n, 4) == pytest.approx(math.exp(-1) * math.sqrt(2))
    delta = math.exp(-4)  # log(1/delta) = 4, its root 2
    n_eps = 2 * math.exp(9)  # log(n eps / 2) = 9; the root of 9 * 4 is 6, so the noise is 3 e^-9
    facts = {"epsilon": 0.5, "delta": delta, "diameter": 2.0}
    noise = 3 * math.exp(-9)
    assert private_evolution_rate(2 * n_eps, 3, **facts) == pytest.approx(6 * noise ** (1 / 3))
    assert private_evolution_rate(2 * n_eps, 1, **facts) == pytest.approx(2 * noise**0.5)
    assert private_evolution_rate(2 * n_eps, 1, published=True, **facts) == pytest.approx(2 * noise)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_corollary_4_follows_from_theorem_4(d: int) -> None:
    """The ratio to theorem 4 at m = n / log n stays between constants over 12 orders of magnitude."""
    ratios = [
        dirichlet_process_rate(n, n / math.log(n), d) / vanishing_delta_rate(n, d)
        for n in (10.0**k for k in range(4, 16))
    ]
    assert 0.5 < min(ratios) <= max(ratios) < 2
    loose = [
        dirichlet_process_rate(n, n / math.log(n), 1) / vanishing_delta_rate(n, 1, published=True)
        for n in (1e4, 1e8, 1e16)
    ]
    assert loose[0] > 1.3 * loose[1] > 1.6 * loose[2]


def test_measured_distances_fall_at_the_empirical_rate() -> None:
    """Uniform records: E W1 is near sqrt(pi / 2) / 4 * n^(-1/2) (a Brownian bridge's mean area), within 10 %.

    The area of a bridge has standard deviation 0.12: the mean of 200 runs errs by 0.0085 or 2.7 %, 10 % is 3.7 of it.
    """
    rng = seeded(11)
    for n in (100, 10_000):
        grid = (np.arange(200_000) + 0.5) / 200_000
        found = np.mean([wasserstein_1d(grid, rng.random(n)) for _ in range(200)])
        assert found / empirical_rate(n, 1) == pytest.approx(math.sqrt(math.pi / 2) / 4, rel=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: empirical_rate(math.inf, 1), "n must be"),
        (lambda: dirichlet_process_rate(10, 0.5, 1), "m must be"),
        (lambda: empirical_rate(10, 1.5), "d must be"),  # type: ignore[arg-type]
        (lambda: empirical_rate(10, 2, moment=2.0), "leaves out moment 2"),
        (lambda: empirical_rate(10, 3, moment=1.5), "leaves out moment 1.5"),
        (lambda: private_evolution_rate(1e6, 2, epsilon=1.5, delta=1e-4), "epsilon must be"),
        (lambda: private_evolution_rate(3, 2, epsilon=0.5, delta=1e-4), "too small"),
    ],
)
def test_refuses_what_the_theorems_leave_out(call: Callable[[], float], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


RESULTS = Path(__file__).resolve().parents[3] / "experiments" / "results" / "convergence"


def test_distances_fall_at_least_as_fast_as_the_theorems_say() -> None:
    with (RESULTS / "slopes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["theorem"] for row in rows} == {"PY26 Theorem 3", "PY26 Theorem 4", "BNP24 Proposition 5.3"}
    for row in rows:
        assert float(row["measured"]) <= float(row["of the rate"]) + 0.01, row
        assert -0.52 <= float(row["measured"]) <= -0.45, row
        assert float(row["largest mean/rate"]) < 0.5, row
