"""T5 against every pair of neighbours of small universes, groups included."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln
from universes import Floats, line

from discreet.mechanisms import SmoothedHistogram
from discreet.privacy import Relation
from discreet.testing import hockey_stick, neighbouring_pairs
from discreet.testing.enumeration import count_vectors

EPSILONS = (0.0, 1e-4, 0.02, 0.1, 0.35, math.log(2.0), 1.0, 2.0, 3.5)


def brute_force(q: float, k: int, n: int, m: int, group: int, epsilons: list[float]) -> Floats:
    tables, left, right = neighbouring_pairs(n, k, group=group)
    s = count_vectors(m, k)
    log_p = np.log((1.0 - q) * tables / n + q / k)
    law = log_p @ s.T + gammaln(m + 1.0) - gammaln(s + 1.0).sum(axis=1)
    return np.asarray(hockey_stick(law[left], law[right], epsilons).max(axis=0))


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("cells", [2, 3, 4, 5])
@pytest.mark.parametrize("q", [0.001, 0.05, 0.25, 0.5, 0.9])
def test_all_neighbours(q: float, cells: int, group: int) -> None:
    given, q = q, math.ceil(Fraction(q) * 2**32) / 2**32  # what the kernel draws with
    for n, m in ((1, 3), (2, 2), (3, 1), (3, 4), (4, 3), (5, 2), (3, 6)):
        if math.comb(n + cells - 1, n) * math.comb(m + cells - 1, m) > 8000:
            continue
        unit = math.log1p(min(group, n) * (1 - q) * cells / (n * q))
        guarantee = SmoothedHistogram(domain=line(cells), size=m, mixing=given).guarantee(Relation(group=group), n=n)
        assert guarantee.exact is (cells >= 3)
        epsilons = [*EPSILONS, *(j * unit for j in range(1, m)), (m - 0.01) * unit]
        brute = brute_force(q, cells, n, m, group, epsilons)
        claimed = np.array([guarantee.delta(e) for e in epsilons])
        assert np.all(brute <= claimed * (1 + 1e-11) + 1e-15), (q, cells, n, m, group)
        if cells >= 3:
            live = np.array(epsilons) < m * unit * (1 - 1e-12)
            np.testing.assert_allclose(claimed[live], brute[live], rtol=1e-9, atol=1e-14)
            assert guarantee.epsilon(0.0) == pytest.approx(m * unit, rel=1e-12)
