"""Generalised factorial coefficients, against fractions, the exact recursion, and a law that sums to one."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet._core.numeric import log_factorial_coefficient, log_rising


def _by_definition(n: int, j: int, sigma: Fraction, gamma: Fraction) -> Fraction:
    def rising(a: Fraction) -> Fraction:
        return math.prod((a + i for i in range(n)), start=Fraction(1))

    signed = ((-1) ** i * math.comb(j, i) * rising(-i * sigma - gamma) for i in range(j + 1))
    return sum(signed, start=Fraction(0)) / math.factorial(j) / sigma**j


@pytest.mark.parametrize("n", [1, 5, 40, 150])
@pytest.mark.parametrize("sigma", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(-7, 3), Fraction(-2000)])
def test_the_definition_in_fractions(n, sigma, gamma) -> None:
    at = np.unique([0, 1, 2, n // 3, n // 2, n - 1, n])
    found = log_factorial_coefficient(n, at, float(sigma), float(gamma))
    for j, value in zip(at.tolist(), found.tolist(), strict=True):
        exact = _by_definition(n, j, sigma, gamma)
        if exact == 0:
            assert value == -math.inf
        else:
            log = float(mpmath.log(mpmath.mpf(exact.numerator)) - mpmath.log(mpmath.mpf(exact.denominator)))
            assert value == pytest.approx(log, rel=1e-13, abs=1e-7)


def _by_recursion(n: int, sigma: float, gamma: float) -> np.ndarray:
    """Return all c(n, .) from c(i+1, j) = (i - sigma j - gamma) c(i, j) + c(i, j-1): no cancellation."""
    j, log = np.arange(n + 1), np.full(n + 1, -np.inf)
    log[0] = 0.0
    for i in range(n):
        with np.errstate(divide="ignore", invalid="ignore"):
            stay = np.log(np.maximum(i - sigma * j - gamma, 0.0)) + log
        log = np.logaddexp(stay, np.concatenate(([-np.inf], log[:-1])))
    return log


@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("gamma", [0.0, -0.7, -50.0, -1e6])
def test_the_recursion(sigma, gamma) -> None:
    n = 1000
    exact, j = _by_recursion(n, sigma, gamma), np.arange(1, n + 1)
    error = np.abs(log_factorial_coefficient(n, j, sigma, gamma) - exact[1:])
    assert error.max() < (1e-9 if sigma <= 0.5 else 1e-7 if sigma <= 0.95 else 1e-5)


@pytest.mark.parametrize(("theta", "sigma"), [(1.0, 0.5), (10.0, 0.0), (1.0, 0.2)])
def test_the_law_of_a_million_draws_sums_to_one(theta, sigma) -> None:
    n = 10**6
    j = np.arange(1, 12_000 if sigma == 0.5 else 1200)
    opened = (j - 1) * math.log(sigma) + log_rising(theta / sigma + 1, j - 1.0) if sigma else (j - 1) * math.log(theta)
    law = np.exp(log_factorial_coefficient(n, j, sigma) + opened - log_rising(theta + 1.0, n - 1.0))
    assert law.sum() == pytest.approx(1.0, abs=1e-6)
    mean = theta / sigma * math.expm1(log_rising(theta + sigma, n) - log_rising(theta, n)) if sigma else (
        theta * float(mpmath.digamma(theta + n) - mpmath.digamma(theta))
    )  # fmt: skip
    assert law @ j == pytest.approx(mean, rel=1e-6)


def test_outside_the_range_there_is_nothing() -> None:
    assert log_factorial_coefficient(3, [0, 4], 0.5).tolist() == [-math.inf, -math.inf]
    assert log_factorial_coefficient(0, [0], 0.5, -2.0).tolist() == [0.0]
