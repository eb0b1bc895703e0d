"""Combining rules: their formulas by hand, and coverage in worlds where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.inference import combine


def test_fully_synthetic_by_hand() -> None:
    # M = 3, q = 1, 2, 3: b = 1, (1 + 1/3) b = 4/3; u = 0.3: T = 4/3 - 0.3, nu = 2 (1 - 0.3 / (4/3))^2.
    made = combine([1.0, 2.0, 3.0], [0.2, 0.3, 0.4], kind="fully", level=0.9)
    assert (made.estimate, made.between) == (2.0, 1.0)
    assert made.variance == pytest.approx(4 / 3 - 0.3)
    assert made.degrees == pytest.approx(2 * (1 - 0.225) ** 2)
    reach = stats.t.ppf(0.95, made.degrees) * math.sqrt(made.variance)
    assert (made.lower, made.upper) == (pytest.approx(2 - reach), pytest.approx(2 + reach))


def test_fully_synthetic_where_the_variance_would_be_negative() -> None:
    made = combine([1.0, 1.1], [0.5, 0.5], kind="fully", size=200, n=100)
    assert made.adjusted
    assert made.variance == pytest.approx(1.0)
    assert made.upper - made.estimate == pytest.approx(stats.norm.ppf(0.975))
    less = combine([1.0, 1.1, 1.2], [0.0099] * 3, kind="fully", size=100, n=100)  # T = 0.0133 - 0.0099
    assert less.adjusted
    assert (less.variance, less.degrees) == (pytest.approx(0.0099), math.inf)


def test_partially_synthetic_by_hand() -> None:
    made = combine([1.0, 2.0, 3.0], [0.3, 0.3, 0.3], kind="partially")
    assert made.variance == pytest.approx(0.3 + 1 / 3)
    assert made.degrees == pytest.approx(2 * (1 + 0.3 * 3) ** 2)
    same = combine([2.0, 2.0], [0.25, 0.25], kind="partially")
    assert (same.degrees, same.upper - 2.0) == (math.inf, pytest.approx(0.5 * stats.norm.ppf(0.975)))


def test_the_urns_rule_by_hand() -> None:
    made = combine([0.5], [0.01], kind="urn", size=100, n=50)
    assert made.variance == pytest.approx(0.01 * (1 + 2 * 100 / 50))
    many = combine([0.5, 0.5], [0.01, 0.01], kind="urn", size=100, n=50)
    assert many.variance == pytest.approx(0.01 * (2 + 3 / 2))


def _worlds(tables: int, n: int, m: int, worlds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates and naive variances, (worlds, tables): Dirichlet-multinomial releases of a share of 0.3."""
    rng = seeded(seed)
    held = rng.binomial(n, 0.3, size=worlds)[:, None]
    p = rng.beta(0.5 + held, 0.5 + n - held, size=(worlds, tables))
    shares = rng.binomial(m, p) / m
    return shares, shares * (1 - shares) / m


# The share of 1,000 worlds that a 95 % interval covers has a standard deviation of 0.0069: the bounds are six of them.
@pytest.mark.parametrize("tables", [1, 5])
def test_the_urns_rule_covers(tables) -> None:
    q, u = _worlds(tables, 500, 500, 1000, 1)
    made = [combine(a, b, kind="urn", size=500, n=500) for a, b in zip(q, u, strict=True)]
    covered = np.mean([c.lower <= 0.3 <= c.upper for c in made])
    assert 0.95 - 0.042 < covered < 0.95 + 0.042
    naive = [combine(a[:1], b[:1], kind="urn", size=1, n=10**9) for a, b in zip(q, u, strict=True)]
    assert np.mean([c.lower <= 0.3 <= c.upper for c in naive]) < 0.80  # taken for a sample: 74 %


def test_the_fully_synthetic_rule_covers() -> None:
    q, u = _worlds(20, 500, 500, 1000, 2)
    made = [combine(a, b, kind="fully", size=500, n=500) for a, b in zip(q, u, strict=True)]
    covered = np.mean([c.lower <= 0.3 <= c.upper for c in made])
    assert covered > 0.95 - 0.042  # conservative with few tables


def test_the_partially_synthetic_rule_covers() -> None:
    # Half of each table is confidential records as they are, half is drawn anew from the posterior given all of them.
    rng, n, tables = seeded(3), 1000, 5
    x = rng.binomial(1, 0.3, size=(1000, n))
    held = x.sum(axis=1)[:, None]
    p = rng.beta(0.5 + held, 0.5 + n - held, size=(1000, tables))
    shares = (x[:, : n // 2].sum(axis=1)[:, None] + rng.binomial(n // 2, p)) / n
    made = [combine(a, b, kind="partially") for a, b in zip(shares, shares * (1 - shares) / n, strict=True)]
    assert np.mean([c.lower <= 0.3 <= c.upper for c in made]) > 0.95 - 0.042


@pytest.mark.parametrize(
    "wrong",
    [
        {"estimates": [1.0], "variances": [0.1], "kind": "fully"},
        {"estimates": [1.0], "variances": [0.1], "kind": "urn"},
        {"estimates": [1.0, 2.0], "variances": [0.1], "kind": "fully"},
        {"estimates": [1.0, 2.0], "variances": [0.1, -0.1], "kind": "fully"},
        {"estimates": [1.0, 2.0], "variances": [0.1, 0.1], "kind": "other"},
    ],
)
def test_what_cannot_be_combined_is_refused(wrong) -> None:
    with pytest.raises(ParameterError):
        combine(wrong["estimates"], wrong["variances"], kind=wrong["kind"])
