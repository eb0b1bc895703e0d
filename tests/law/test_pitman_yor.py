"""T1 and T2 against every pair of neighbours of small universes without atoms.

A table is the frequencies of its values. A release is how often each held value of either table comes back, and how
often each new one does; its law is written out here from the urn's predictive rule.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import gammaln

from discreet.domain import Domain, Numeric
from discreet.mechanisms import PitmanYor
from discreet.privacy import Relation
from discreet.testing import count_vectors, hockey_stick
from discreet.testing._universes import partitions

Floats = npt.NDArray[np.float64]
UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
EPSILONS = (0.0, 1e-4, 0.05, 0.3, math.log(2.0), 1.0, 2.0, 5.0, 30.0)


@lru_cache
def releases(m: int, values: int) -> tuple[npt.NDArray[np.int64], list[tuple[int, ...]], Floats]:
    """All releases: counts of the values, frequencies of new values, log of the number of sequences."""
    counts, fresh, arrangements = [], [], []
    for vector in count_vectors(m, values + 1).tolist():
        for parts in partitions(vector[-1]):
            counts.append(vector[:-1])
            fresh.append(parts)
            same = sum(math.lgamma(c + 1) for c in Counter(parts).values())
            repeated = sum(math.lgamma(c + 1) for c in (*vector[:-1], *parts))
            arrangements.append(math.lgamma(m + 1) - repeated - same)
    return np.array(counts).reshape(len(counts), values), fresh, np.array(arrangements)


def log_law(frequency: tuple[int, ...], m: int, theta: float, sigma: float) -> Floats:
    counts, fresh, log_mass = releases(m, len(frequency))
    log_mass = log_mass.copy()
    n, j = sum(frequency), sum(f > 0 for f in frequency)
    for column, held in zip(counts.T, frequency, strict=True):
        if held:
            log_mass += gammaln(held - sigma + column) - gammaln(held - sigma)
        else:
            log_mass[column > 0] = -np.inf
    openings = np.concatenate(([0.0], np.cumsum(np.log([theta + (j + i) * sigma for i in range(m)]))))
    later = np.array([sum(math.lgamma(c - sigma) - math.lgamma(1 - sigma) for c in parts) for parts in fresh])
    log_mass += openings[[len(parts) for parts in fresh]] + later
    return log_mass - (math.lgamma(theta + n + m) - math.lgamma(theta + n))


def neighbours(n: int, group: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of tables up to renaming, over the union of their values."""
    width = n + min(group, n)
    seen = set()
    for parts in partitions(n):
        x = parts + (0,) * (width - len(parts))
        for y in count_vectors(n, width).tolist():
            if 1 <= sum(abs(a - b) for a, b in zip(x, y, strict=True)) // 2 <= group:
                pair = tuple(sorted(zip(x, y, strict=True), reverse=True))
                if pair not in seen:
                    seen.add(pair)
                    used = [p for p in pair if p != (0, 0)]
                    yield tuple(p[0] for p in used), tuple(p[1] for p in used)


@lru_cache
def all_neighbours(n: int, group: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return list(neighbours(n, group))


def brute_force(n: int, m: int, theta: float, sigma: float, group: int) -> Floats:
    best = np.zeros(len(EPSILONS))
    for x, y in all_neighbours(n, group):
        p, q = log_law(x, m, theta, sigma), log_law(y, m, theta, sigma)
        assert math.isclose(np.exp(p).sum(), 1.0, rel_tol=1e-10)
        best = np.maximum(best, hockey_stick(p, q, EPSILONS))
        best = np.maximum(best, hockey_stick(q, p, EPSILONS))
    return best


SIZES = ((1, 1), (1, 3), (2, 2), (2, 3), (3, 3), (4, 2), (5, 2))


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("theta", [0.1, 1.0, 7.0])
def test_t1_is_attained_at_every_epsilon(theta: float, group: int) -> None:
    for n, m in SIZES:
        if group == 3 and n > 3:
            continue
        guarantee = PitmanYor(domain=UNIT, size=m, strength=theta).guarantee(Relation(group=group), n=n)
        assert guarantee.exact
        assert guarantee.theorem == "T1"
        g = min(group, n)
        drawn = math.ceil(Fraction(theta) * 2**20) / 2**20  # the kernel's own strength
        formula = 1 - math.prod(1 - g / (drawn + n + i) for i in range(m))
        claimed = [guarantee.delta(e) for e in EPSILONS]
        np.testing.assert_allclose(claimed, formula, rtol=1e-12)
        brute = brute_force(n, m, drawn, 0.0, g)
        np.testing.assert_allclose(brute, formula, rtol=1e-10)


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_t2_dominates_and_its_lower_bound_is_reached(sigma: float, group: int) -> None:
    for theta in (-sigma / 2, 0.0, 1.0, 6.0):
        for n, m in SIZES:
            if group == 3 and n > 3:
                continue
            mechanism = PitmanYor(domain=UNIT, size=m, strength=theta, discount=sigma)
            g = min(group, n)
            guarantee = mechanism.guarantee(Relation(group=group), n=n)
            assert not guarantee.exact
            assert guarantee.theorem == "T2"
            brute = brute_force(n, m, theta, sigma, g)
            claimed = np.array([guarantee.delta(e) for e in EPSILONS])
            assert np.all(brute <= claimed * (1 + 1e-11)), (sigma, theta, n, m, group)
            lower = 1 - math.prod(1 - (g - sigma) / (theta + n + i) for i in range(m))
            assert np.all(brute >= lower * (1 - 1e-10)), (sigma, theta, n, m, group)
            if group == 1:  # exact at large epsilon, and for a single record at every one
                assert brute[-1] == pytest.approx(lower, rel=1e-9)
                if n == 1:
                    np.testing.assert_allclose(brute, lower, rtol=1e-9)
