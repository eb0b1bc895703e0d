"""Directed rounding, searches that err on one side, log-probabilities and factorial coefficients, by many digits."""

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet._core.numeric import (
    least_integer,
    least_real,
    log_beta_binomial,
    log_binomial,
    log_error,
    log_factorial_coefficient,
    log_ratio,
    log_rising,
    up,
)


@given(st.floats(0, 1e300))
def test_up_is_above_and_near(value: float) -> None:
    assert up(value) > value or value == 0.0
    assert up(value) <= value * (1 + 1e-14) + 1e-300


def test_up_keeps_the_ends() -> None:
    assert up(0.0) == 0.0
    assert up(math.inf) == math.inf


@given(low=st.integers(-50, 50), length=st.integers(0, 300), answer=st.integers(-100, 400))
def test_the_least_integer(low: int, length: int, answer: int) -> None:
    calls: list[int] = []

    def holds(x: int) -> bool:
        calls.append(x)
        return x >= answer

    found = least_integer(holds, low, low + length)
    truth = max(low, answer)
    assert found == (truth if truth <= low + length else None)
    assert len(calls) <= 4 + 2 * math.ceil(math.log2(length + 2))
    assert all(low <= x <= low + length for x in calls)


EXCESSES: list[Callable[[float], float]] = [
    lambda ratio: -1.0 if ratio >= 1 else 1.0,  # says no more than a condition
    lambda ratio: -math.log(max(ratio, 1e-320)),
    lambda ratio: 1.0 - ratio * ratio,
    lambda ratio: 0.0 if ratio >= 1 else math.inf,
    lambda ratio: max(-690.0, 30.0 * (1.0 - ratio * ratio)),  # the logarithm of a Gaussian's delta, with a floor
]


@pytest.mark.parametrize("excess", EXCESSES)
@given(answer=st.floats(1e-12, 1e12), low=st.sampled_from([0.0, 1e-15, 0.5]), high=st.sampled_from([1e-3, 1.0, 1e13]))
def test_the_least_real_errs_upwards(excess: Callable[[float], float], answer: float, low: float, high: float) -> None:
    if low > high:
        return
    found = least_real(lambda x: excess(x / answer), low, high, relative=1e-9)
    if low >= answer:
        assert found == low
    elif answer > high:
        assert found is None
    else:
        assert answer <= found <= answer * (1 + 3e-9) + 1e-300


@pytest.mark.parametrize(("excess", "most"), list(zip(EXCESSES, (45, 10, 15, 45, 25), strict=True)))
@pytest.mark.parametrize("answer", [0.01, 1.0, 300.0])
def test_the_least_real_takes_few_tries(excess: Callable[[float], float], most: int, answer: float) -> None:
    """As many as bisection where an excess says yes or no; far fewer where it is smooth."""
    tried: list[float] = []

    def counted(x: float) -> float:
        tried.append(x)
        return excess(x / answer)

    assert least_real(counted, 2.0**-10, 1e6, relative=1e-9) is not None
    assert len(tried) <= most


@pytest.mark.parametrize("target", [5e-324, 1e-300, 0.1, 1.0, 3.7, 1e300])
def test_a_log_ratio_has_the_sign_of_the_difference(target: float) -> None:
    below, beyond = math.nextafter(target, 0.0), math.nextafter(target, math.inf)
    assert log_ratio(below, target) < 0.0 == log_ratio(target, target) < log_ratio(beyond, target)
    assert log_ratio(0.0, target) < 0.0 < log_ratio(math.inf, target)
    assert log_ratio(2.0 * target, target) == pytest.approx(math.log(2.0))


@pytest.mark.parametrize("a", [1e-9, 0.3, 5.0, 15.99, 16.0, 1e3, 1e10, 1.7e12])
@pytest.mark.parametrize("s", [0, 1, 7, 10**4, 10**8])
def test_rising_factorials(a: float, s: int) -> None:
    with mp.workdps(60):
        truth = mp.loggamma(mp.mpf(a) + s) - mp.loggamma(mp.mpf(a))
    bound = log_error(s, a)
    assert abs(float(mp.mpf(float(log_rising(a, float(s)))) - truth)) <= bound
    (vector,) = log_rising(np.array([a]), np.array([float(s)]))
    assert abs(float(mp.mpf(float(vector)) - truth)) <= bound


@pytest.mark.parametrize(("u", "s"), [(0, 0), (5, 0), (5, 5), (60, 31), (10**8, 3), (10**8, 5 * 10**7), (10**10, 17)])
def test_binomial_coefficients(u: int, s: int) -> None:
    with mp.workdps(60):
        truth = (
            mp.log(mp.binomial(u, s)) if s < 100 else (mp.loggamma(u + 1) - mp.loggamma(s + 1) - mp.loggamma(u - s + 1))
        )
    assert abs(float(mp.mpf(float(log_binomial(float(u), float(s)))) - truth)) <= log_error(u, 0)


@pytest.mark.parametrize(("u", "a", "b"), [(0, 1.0, 2.0), (7, 0.3, 0.9), (300, 1e-6, 1e5), (50, 1e9, 3.0)])
def test_beta_binomial_laws_sum_to_one(u: int, a: float, b: float) -> None:
    s = np.arange(u + 1.0)
    total = math.fsum(np.exp(log_beta_binomial(s, float(u), a, b)))
    assert total == pytest.approx(1.0, abs=math.expm1(log_error(u, a + b)) + 1e-14)


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
            log = float(mp.log(mp.mpf(exact.numerator)) - mp.log(mp.mpf(exact.denominator)))
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


def test_outside_the_range_there_is_nothing() -> None:
    assert log_factorial_coefficient(3, [0, 4], 0.5).tolist() == [-math.inf, -math.inf]
    assert log_factorial_coefficient(0, [0], 0.5, -2.0).tolist() == [0.0]
