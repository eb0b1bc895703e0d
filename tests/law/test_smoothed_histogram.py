"""T5 against every pair of neighbours of small universes, groups included; and Reveal-or-Obscure, which is the same."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln
from universes import Floats, line

from discreet.domain import Counts
from discreet.errors import ParameterError
from discreet.mechanisms import RevealOrObscure, SmoothedHistogram
from discreet.mechanisms.likelihood import compositions
from discreet.privacy import Budget, Relation
from discreet.testing import enumerate_law, hockey_stick, neighbouring_pairs

EPSILONS = (0.0, 1e-4, 0.02, 0.1, 0.35, math.log(2.0), 1.0, 2.0, 3.5)


def brute_force(q: float, k: int, n: int, m: int, group: int, epsilons: list[float]) -> Floats:
    tables, left, right = neighbouring_pairs(n, k, group=group)
    s = compositions(m, k)
    log_p = np.log((1.0 - q) * tables / n + q / k)
    law = log_p @ s.T + gammaln(m + 1.0) - gammaln(s + 1.0).sum(axis=1)
    return np.asarray(hockey_stick(law[left], law[right], epsilons).max(axis=0))


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("cells", [2, 3, 4])
@pytest.mark.parametrize("q", [0.001, 0.25, 0.9])
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


# -- reveal-or-Obscure: the paper's closed forms, and T5 on every pair of neighbours of small universes ---------------


def test_it_is_the_smoothed_histogram_under_its_own_name() -> None:
    x = Counts.of_cells([0, 0, 2])
    one, other = (kind(domain=line(3), size=2, mixing=0.25) for kind in (RevealOrObscure, SmoothedHistogram))
    assert np.array_equal(enumerate_law(one, x).log_mass, enumerate_law(other, x).log_mass)
    assert one.guarantee(n=3).delta(0.2) == other.guarantee(n=3).delta(0.2)


@pytest.mark.parametrize(("epsilon", "n", "k"), [(0.1, 1000, 9), (1.0, 50, 2), (4.0, 7, 30)])
def test_least_mixing_is_least(epsilon: float, n: int, k: int) -> None:
    mixing = RevealOrObscure.least_mixing(epsilon, n=n, cells=k)
    pure = RevealOrObscure(domain=line(k), size=1, mixing=mixing).guarantee(n=n).epsilon(0.0)
    drawn = math.ceil(Fraction(mixing) * 2**32) / 2**32  # what the kernel draws with
    assert pure == pytest.approx(math.log1p(k * (1 - drawn) / (n * drawn)), rel=1e-12)
    assert pure <= epsilon * (1 + 1e-12)
    made = RevealOrObscure.calibrated(Budget(epsilon=epsilon), domain=line(k), n=n, size=1)
    assert mixing - 2**-32 < made.mixing <= mixing * (1 + 3e-6)


def test_the_papers_numbers() -> None:
    # PY26 and BNP24: m = 5000 draws of k = 10 cells from n = 39,374 at the pure epsilon 4.2.
    made = RevealOrObscure.calibrated(Budget(epsilon=4.2), domain=line(10), n=39_374, size=5000)
    assert round(made.mixing, 4) == 0.2321
    # ROO25: equations (9) and (19) at k = 9, n = 1000, epsilon 0.1.
    q = 1 / (1 + 1000 / 9 * math.expm1(0.1))
    assert RevealOrObscure.least_mixing(0.1, n=1000, cells=9) == pytest.approx(q, rel=1e-14)
    one = RevealOrObscure(domain=line(9), size=1, mixing=q)
    assert one.accuracy == pytest.approx(q * 8 / 9, abs=1e-9)
    # Equation (8) is the inverse of (6) and (7) together.
    for alpha in (0.01, 0.2, 0.7):
        n = RevealOrObscure.sample_complexity(0.3, accuracy=alpha, cells=9)
        mixing = alpha / (1 - 1 / 9)
        assert math.log1p(9 * (1 - mixing) / (n * mixing)) == pytest.approx(0.3, rel=1e-12)
        # Lemma 1: fewer than the Laplace projection sampler's 2k/(alpha eps) and the randomised response's.
        assert n < 2 * 9 / (alpha * 0.3)
        assert n < 8 * (1 - alpha) / (alpha * 0.3)


def test_the_output_distribution_is_the_mean_law_over_tables_of_independent_records() -> None:
    population, n = np.array([0.5, 0.3, 0.2]), 3
    one = RevealOrObscure(domain=line(3), size=1, mixing=0.25)
    tables = compositions(n, 3)
    chance = [
        math.factorial(n) * math.prod(p**c / math.factorial(c) for p, c in zip(population, t, strict=True))
        for t in tables
    ]
    laws = np.array([one.output_distribution(t / n) for t in tables])
    np.testing.assert_allclose(chance @ laws, one.output_distribution(population), rtol=1e-12)
    distance = 0.5 * np.abs(one.output_distribution(population) - population).sum()
    assert distance <= one.accuracy
    at_corner = one.output_distribution(np.array([1.0, 0.0, 0.0]))
    assert 0.5 * np.abs(at_corner - [1.0, 0.0, 0.0]).sum() == pytest.approx(one.accuracy, rel=1e-12)


@pytest.mark.parametrize("accuracy", [0.0, 1.0, 0.9, math.nan])
def test_impossible_accuracies_are_refused(accuracy: float) -> None:
    with pytest.raises(ParameterError):
        RevealOrObscure.sample_complexity(1.0, accuracy=accuracy, cells=9)
    with pytest.raises(ParameterError):
        RevealOrObscure.least_mixing(0.0, n=10, cells=9)
