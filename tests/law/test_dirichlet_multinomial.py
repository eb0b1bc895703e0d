"""T4 against every pair of neighbours of small universes.

The law is written here again, in one formula, and not read from the mechanism: the contract suite ties the two.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import gammaln

from discreet.domain import Domain, Integer
from discreet.mechanisms import DirichletMultinomial
from discreet.mechanisms.likelihood import compositions
from discreet.privacy import Relation, UrnPair
from discreet.testing import hockey_stick, neighbouring_pairs

Floats = npt.NDArray[np.float64]
EPSILONS = (0.0, 1e-4, 0.02, 0.1, 0.35, math.log(2.0), 1.0, math.log(3.0), 2.0, 3.5)


@lru_cache
def domain(weights: tuple[int, ...]) -> Domain:
    return Domain(columns={"cell": Integer(lower=0, upper=len(weights) - 1, base={"weights": list(weights)})})


def log_law(tables: npt.NDArray[np.int64], alpha: Floats, m: int) -> Floats:
    """Log-probabilities of all count vectors of m draws, shape (tables, outcomes)."""
    s = compositions(m, len(alpha))
    # Sums of logarithms, not differences of log-gammas: losses as small as 0.01 are to be right to 1e-13.
    rising = np.zeros((len(tables), len(alpha), m + 1))
    rising[:, :, 1:] = np.cumsum(np.log((tables + alpha)[:, :, None] + np.arange(m)), axis=2)
    cells = np.arange(len(alpha))
    total = tables[0].sum() + alpha.sum()
    arrangements = gammaln(m + 1.0) - gammaln(s + 1.0).sum(axis=1)
    return np.asarray(rising[:, cells, s].sum(axis=2) - np.log(total + np.arange(m)).sum() + arrangements)


def brute_force(alpha: Floats, n: int, m: int, group: int, epsilons: list[float]) -> Floats:
    tables, left, right = neighbouring_pairs(n, len(alpha), group=group)
    law = log_law(tables, alpha, m)
    return np.asarray(hockey_stick(law[left], law[right], epsilons).max(axis=0))


def drawn(prior: float, weights: tuple[int, ...]) -> Floats:
    """Return the prior masses that the kernel draws with: the mean is a multiple of 2^-20, rounded up."""
    mean = math.ceil(Fraction(prior) * 2**20) / 2**20
    return mean * len(weights) * np.array(weights) / sum(weights)


def lattice(alpha: Floats, m: int) -> list[float]:
    """Every loss that an outcome can have, up to 12: where the profile has its kinks."""
    a, b = np.sort(alpha)[:2]
    losses = {math.log((a + s) / a) for s in range(1, m + 1)} | {math.log((b + s) / b) for s in range(1, m + 1)}
    return sorted(x for x in losses if x < 12)[:: max(1, m // 3)]


# k cells with these base weights, mean prior per cell, n, m. Prior |discount| for discounts -0.5 .. -0.05 among them.
UNEQUAL: dict[int, list[tuple[int, ...]]] = {
    2: [(1, 3)],
    3: [(1, 2, 5), (2, 2, 3), (1, 4, 4)],
    4: [(1, 2, 3, 4), (3, 1, 1, 3)],
}
UNIVERSES = [
    (weights, prior, n, m)
    for k in (2, 3, 4)
    for weights in [(1,) * k, *UNEQUAL[k]]
    for prior in (0.05, 0.5, 5.0, 40.0)
    for n, m in ((1, 2), (2, 1), (2, 3), (3, 4), (4, 2), (5, 3), (3, 6))
    if math.comb(n + k - 1, n) * math.comb(m + k - 1, m) < 9000
]


@pytest.mark.parametrize("prior", [0.05, 0.5, 5.0, 40.0])
@pytest.mark.parametrize("cells", [2, 3, 4])
def test_one_record(cells: int, prior: float) -> None:
    for weights, mean, n, m in UNIVERSES:
        if len(weights) != cells or mean != prior:
            continue
        mechanism = DirichletMultinomial(domain=domain(weights), size=m, prior=prior)
        alpha = drawn(prior, weights)
        guarantee = mechanism.guarantee(n=n)
        assert guarantee.exact  # three cells or more, or maximised over the counts of two
        epsilons = [*EPSILONS, *lattice(alpha, m)]
        brute = brute_force(alpha, n, m, 1, epsilons)
        claimed = np.array([guarantee.delta(e) for e in epsilons])
        below_pure = np.array(epsilons) < math.log1p(m / alpha.min()) * (1 - 1e-12)
        assert np.all(brute <= claimed * (1 + 1e-11) + 1e-15), (weights, prior, n, m)
        np.testing.assert_allclose(claimed[below_pure], brute[below_pure], rtol=1e-9, atol=1e-14)
        assert guarantee.epsilon(0.0) == pytest.approx(math.log1p(m / alpha.min()), rel=1e-12) or cells == 2


@pytest.mark.parametrize(
    ("group", "prior"),
    [(2, 0.1), (3, 20.0)]
    + [
        pytest.param(*other, marks=pytest.mark.exhaustive)
        for other in ((2, 0.5), (2, 2.0), (2, 20.0), (3, 0.1), (3, 0.5), (3, 2.0))
    ],
)
def test_groups_are_dominated_and_exact_ones_attained(group: int, prior: float) -> None:
    for weights in [(1, 1), (1, 3), (1, 1, 1), (1, 2, 5), (1, 2, 3, 4)]:
        for n, m in ((1, 2), (2, 3), (4, 2)):
            mechanism = DirichletMultinomial(domain=domain(weights), size=m, prior=prior)
            alpha = drawn(prior, weights)
            guarantee = mechanism.guarantee(Relation(group=group), n=n)
            brute = brute_force(alpha, n, m, group, list(EPSILONS))
            claimed = np.array([guarantee.delta(e) for e in EPSILONS])
            assert np.all(brute <= claimed * (1 + 1e-11) + 1e-15), (weights, prior, n, m, group)
            if guarantee.exact:
                np.testing.assert_allclose(np.where(claimed > 1e-290, claimed, 0), brute, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("prior", [0.5, 10.0])
def test_two_cells_and_many_records_are_dominated(prior: float) -> None:
    n, m = 300, 6
    mechanism = DirichletMultinomial(domain=domain((1, 1)), size=m, prior=prior)
    guarantee = mechanism.guarantee(n=n)
    assert not guarantee.exact
    brute = brute_force(np.array([prior, prior]), n, m, 1, list(EPSILONS))
    claimed = np.array([guarantee.delta(e) for e in EPSILONS])
    assert np.all(brute <= claimed * (1 + 1e-11))


def test_the_maximum_over_two_cells_is_not_at_an_end() -> None:
    # a = b = 10, n = 8, m = 3, eps = 0: 3/58 at c = 3, 99/2030 at both ends.
    mechanism = DirichletMultinomial(domain=domain((1, 1)), size=3, prior=10.0)
    assert mechanism.guarantee(n=8).delta(0.0) == pytest.approx(3 / 58, rel=1e-12)
    assert UrnPair(size=3, a=10.0, b=17.0, rest=0.0).delta(0.0) == pytest.approx(99 / 2030, rel=1e-12)


def test_unequal_priors_need_both_orders() -> None:
    mechanism = DirichletMultinomial(domain=domain((5, 6, 20)), size=5, prior=3.1 / 3)
    a, b, c = drawn(3.1 / 3, (5, 6, 20)).tolist()
    orders = [UrnPair(size=5, a=x, b=y, rest=1.0 + c) for x, y in ((a, b), (b, a))]
    guarantee = mechanism.guarantee(n=2)
    grid = np.linspace(0.01, 2.2, 60)
    assert {int(np.argmax([order.delta(e) for order in orders])) for e in grid} == {0, 1}
    for e in grid:
        assert guarantee.delta(e) == pytest.approx(max(order.delta(e) for order in orders), rel=1e-12)
