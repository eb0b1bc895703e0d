"""What guarantees say in words, measured: verbatim records (caveat T3), and the share that is not from the data.

Each is the mean of N independent shares in [0, 1]; by Hoeffding it is further than the allowance from its expectation
with probability at most 1e-6, so a right kernel fails, and one off by twice the allowance passes, that rarely.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from discreet._random import seeded
from discreet.domain import Counts, Domain, Integer, Numeric, Records
from discreet.mechanisms import DirichletMultinomial, PitmanYor, SmoothedHistogram

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
RELEASES = 4000
ALLOWED = math.sqrt(math.log(2 / 1e-6) / (2 * RELEASES))


def mean_share(mechanism: Any, x: Counts, seed: int) -> float:
    rng = seeded(seed)
    held = x.records.columns[0]
    shares = [
        np.isin(Records.concatenate(mechanism.kernel(x, rng=rng)).columns[0], held).mean() for _ in range(RELEASES)
    ]
    return float(np.mean(shares))


@pytest.mark.parametrize("sampler", ["ancestor", "mixing"])
@pytest.mark.parametrize(("theta", "sigma"), [(1.0, 0.0), (10.0, 0.0), (2.0, 0.4), (-0.3, 0.6)])
def test_verbatim_records_come_as_often_as_caveat_t3_says(theta: float, sigma: float, sampler: Any) -> None:
    x = Counts.of_cells([0.1, 0.1, 0.1, 0.2, 0.2, 0.3])  # type: ignore[list-item]
    n, j = 6, 3
    mechanism = PitmanYor(domain=UNIT, size=15, strength=theta, discount=sigma, sampler=sampler)
    expected = (n - j * sigma) / (theta + n)
    assert abs(mean_share(mechanism, x, 21) - expected) < ALLOWED
    stated = (n - sigma) / (theta + n)
    assert expected <= stated + 1e-12
    (said,) = re.findall(
        r"verbatim with probability (?:at most )?([0-9.]+)", " ".join(mechanism.guarantee(n=n).caveats)
    )
    assert float(said) == pytest.approx(stated, rel=1e-5)
    assert 1 - expected <= mechanism.share_not_from_data(n) + 1e-12


@pytest.mark.parametrize("size", [1, 40])
def test_the_prior_and_the_uniform_part_take_their_share(size: int) -> None:
    domain = Domain(columns={"cell": Integer(lower=0, upper=4)})
    x = Counts.of_cells([2] * 12)
    urn = DirichletMultinomial(domain=domain, size=size, prior=1.5)
    # of what is not from the data, a fifth falls in the held cell all the same
    assert abs(1 - mean_share(urn, x, 22) - 0.8 * urn.share_not_from_data(12)) < ALLOWED
    mixture = SmoothedHistogram(domain=domain, size=size, mixing=0.3)
    assert mixture.share_not_from_data(12) == pytest.approx(0.3, abs=1e-9)
    assert abs(1 - mean_share(mixture, x, 23) - 0.8 * 0.3) < ALLOWED


@pytest.mark.parametrize("sampler", ["ancestor", "mixing"])
def test_new_values_are_opened_as_often_as_the_urn_says(sampler: Any) -> None:
    """Expected number of new distinct values: the sum of opening probabilities, by its recursion in the mean."""
    theta, sigma, m = 3.0, 0.5, 30
    x = Counts.of_cells([0.1, 0.1, 0.2])  # type: ignore[list-item]
    expected_new = 0.0
    for i in range(m):
        expected_new += (theta + sigma * (2 + expected_new)) / (theta + 3 + i)
    mechanism = PitmanYor(domain=UNIT, size=m, strength=theta, discount=sigma, sampler=sampler)
    rng = seeded(24)
    new = [
        len(set(Records.concatenate(mechanism.kernel(x, rng=rng)).columns[0].tolist()) - {0.1, 0.2}) / m
        for _ in range(RELEASES)
    ]
    assert abs(float(np.mean(new)) - expected_new / m) < ALLOWED
