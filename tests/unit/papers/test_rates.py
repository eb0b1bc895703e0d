"""The rates and the criterion of PY26 and BNP24: by hand, against all releases, and in the study that is kept."""

import csv
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.papers.bnp24 import kolmogorov_smirnov_rate, proposition_4_2, theorem_4_1
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
        grid = (np.arange(20_000) + 0.5) / 20_000
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


# -- the thesis' criterion, against its printed conditions one by one and against all releases ------------------------


def printed(
    n: list[int], s: list[int], new: list[int], epsilon: float, theta: float, sigma: float, c: tuple[float, float]
) -> bool:
    """Whether equation (16) holds, condition by condition, with the ends of its interval in their order."""
    j, e, opened = len(n), math.exp(epsilon), [t for t in new if t]
    r = [(n_i - 1 - sigma) / (n_i + s_i - 1 - sigma) for n_i, s_i in zip(n, s, strict=True)]
    for t in opened:
        if (t - sigma) / ((theta + j * sigma) * c[0]) * max(r) > e:
            return False
        if (t - sigma) / ((theta + j * sigma) * c[1]) * min(r) < 1 / e:
            return False
    grown = (theta + (j + len(opened)) * sigma) / (theta + j * sigma)
    if any(not 1 / e <= grown * r_i <= e for r_i in r):
        return False
    return all(s_i <= (e - 1) * (n_i - 1 - sigma) for n_i, s_i in zip(n, s, strict=True))


@pytest.mark.parametrize("density", [(1.0, 1.0), (0.5, 2.5)])
@pytest.mark.parametrize(("theta", "sigma"), [(1.0, 0.0), (3.0, 0.5), (0.4, 0.2)])
def test_the_criterion_is_the_printed_one(theta: float, sigma: float, density: tuple[float, float]) -> None:
    rng = seeded(5)
    kinds = set()
    for epsilon in (0.3, 1.0, 2.2):
        for _ in range(40):
            n = rng.integers(2, 9, size=int(rng.integers(1, 4))).tolist()
            s = rng.integers(0, 5, size=(7, len(n)))
            new = rng.integers(0, 4, size=(7, int(rng.integers(0, 4))))
            ours = theorem_4_1(np.array(n), s, new, epsilon, strength=theta, discount=sigma, density=density)
            theirs = [printed(n, a.tolist(), b.tolist(), epsilon, theta, sigma, density)
                      for a, b in zip(s, new, strict=True)]  # fmt: skip
            assert ours.tolist() == theirs
            kinds |= set(theirs)
    assert kinds == {True, False}


def rising(a: Fraction, k: int) -> Fraction:
    return math.prod((a + i for i in range(k)), start=Fraction(1))


@pytest.mark.parametrize(("theta", "sigma"), [(1, Fraction(0)), (2, Fraction(1, 4))])
@pytest.mark.parametrize("n", [[2], [3, 2], [5, 2, 3]])
@pytest.mark.parametrize("size", [1, 4])
def test_the_share_of_failures_is_the_sum_over_all_releases(
    n: list[int], size: int, theta: int, sigma: Fraction
) -> None:
    masses = [*(n_i - sigma for n_i in n), theta + len(n) * sigma]
    for epsilon in (0.2, 0.7, 1.5):
        fails = Fraction(0)
        for s in product(range(size + 1), repeat=len(n)):
            parts = [*s, size - sum(s)]
            if parts[-1] < 0:
                continue
            ways = Fraction(math.factorial(size), math.prod(map(math.factorial, parts)))
            chance = ways * math.prod(rising(a, k) for a, k in zip(masses, parts, strict=True))
            if any(s_i > math.expm1(epsilon) * (n_i - 1 - sigma) for s_i, n_i in zip(s, n, strict=True)):
                fails += chance / rising(Fraction(theta + sum(n)), size)
        ours = proposition_4_2(np.array(n), epsilon, size=size, strength=float(theta), discount=float(sigma))
        assert ours == pytest.approx(float(fails), abs=1e-12)


@pytest.mark.parametrize(
    ("frequencies", "drawn", "new"),
    [([1, 3], [[0, 0]], [[1]]), ([], [[]], [[1]]), ([2, 3], [[0]], [[1]]), ([2, 3], [[0, 0]], [[1], [1]])],
)
def test_what_does_not_belong_together_is_refused(
    frequencies: list[int], drawn: list[list[int]], new: list[list[int]]
) -> None:
    with pytest.raises(ParameterError, match="at least 2"):
        theorem_4_1(np.array(frequencies), np.array(drawn), np.array(new), 1.0, strength=1.0)
