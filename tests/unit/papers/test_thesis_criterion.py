"""The thesis' criterion: against its printed conditions one by one, and its probability against all releases."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.papers.bnp24 import proposition_4_2, theorem_4_1


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
