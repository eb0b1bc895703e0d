"""T13 against every pair of neighbours of small universes, and against the published analysis."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from universes import line

from discreet._core.random import seeded
from discreet.domain import Counts, Records
from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms import RevealOrObscure, SubsampledRandomisedResponse
from discreet.mechanisms.drawn import Mixture
from discreet.privacy import Budget, mixtures
from discreet.privacy.mixtures import SubsampledPair
from discreet.testing import (
    brute_force_profile,
    check_guarantee,
    check_kernel_follows_law,
    check_law_sums_to_one,
    check_twin_is_caught,
    enumerate_law,
)

STEP = 2.0**-32


class WithReplacement(SubsampledRandomisedResponse):
    """A broken twin: records are drawn with replacement, so one record can be drawn twice."""

    kernel = Mixture.kernel
    log_prob = Mixture.log_prob


@pytest.mark.parametrize(("k", "n", "size"), [(2, 4, 2), (2, 3, 3), (3, 4, 2), (3, 5, 4), (4, 3, 2), (4, 4, 4)])
@pytest.mark.parametrize(("mixing", "group"), [(0.05, 1), (0.5, 1), (0.05, 2)])
def test_every_pair_of_neighbours(k: int, n: int, size: int, mixing: float, group: int) -> None:
    mechanism = SubsampledRandomisedResponse(domain=line(k), size=size, mixing=mixing)
    pure = mechanism.guarantee(n=n).epsilon(0.0)
    check_guarantee(mechanism, n=n, group=group, epsilons=(0.0, 0.01, 0.1, 0.5, 1.0, 0.9 * pure, 2.0))


@pytest.mark.parametrize(("k", "n", "size"), [(2, 3, 2), (3, 3, 3), (4, 3, 1)])
def test_pure_epsilon_is_attained(k: int, n: int, size: int) -> None:
    mechanism = SubsampledRandomisedResponse(domain=line(k), size=size, mixing=0.25)
    pure = mechanism.guarantee(n=n).epsilon(0.0)
    assert pure == pytest.approx(math.log1p(size / n * k * 3), rel=1e-12)
    below, above = brute_force_profile(mechanism, n=n, epsilons=[pure * (1 - 1e-7), pure])
    assert below > 1e-12 > above


def test_the_law_sums_to_one_and_is_that_of_ordered_choices() -> None:
    domain, x = line(3), Counts.of_cells([0, 0, 1, 2])
    mechanism = SubsampledRandomisedResponse(domain=domain, size=2, mixing=0.25)
    check_law_sums_to_one(mechanism, x)
    # An oracle that knows no formula: every ordered choice of two of the four records, every outcome of each.
    law = np.zeros((3, 3))
    chance = 0.25 / 3 + 0.75 * np.eye(3)
    for i, j in itertools.permutations([0, 0, 1, 2], 2):
        law += np.outer(chance[i], chance[j]) / 12
    for a, b in itertools.product(range(3), repeat=2):
        release = Records(columns=(np.array([a, b]),))
        assert math.exp(mechanism.log_prob(release, x)) == pytest.approx(law[a, b], rel=1e-12)


def test_the_kernel_follows_its_law_and_not_draws_with_replacement() -> None:
    # False-fail rate 3e-6 in all; 1e-6 to miss a mixing off by 20 %, or any law at total variation 0.15.
    mechanism = SubsampledRandomisedResponse(domain=line(3), size=4, mixing=0.5)
    x = Counts.of_cells([0, 0, 1, 2, 2])
    tilts = [replace(mechanism, mixing=0.5 * f) for f in (0.8, 1.2)]
    check_kernel_follows_law(mechanism, x, alternatives=tilts, distance=0.15, seed=5)
    clear = replace(mechanism, mixing=1e-9)  # almost nothing replaced: the five records, one left out
    twin = WithReplacement(domain=line(3), size=4, mixing=1e-9)
    with pytest.raises(AssertionError):
        check_kernel_follows_law(clear, x, alternatives=[], kernel=twin, distance=0.15, seed=6)


def test_twins_are_caught() -> None:
    mechanism = SubsampledRandomisedResponse(domain=line(3), size=1, mixing=0.25)
    check_twin_is_caught(mechanism, replace(mechanism, mixing=0.25 - STEP), n=3)
    several = replace(mechanism, size=3)
    pure = several.guarantee(n=3).epsilon(0.0)
    # 0.2 % less mixing shows just below the pure epsilon; so does drawing one record twice.
    twin = replace(several, mixing=0.2495)
    check_twin_is_caught(several, twin, n=3, epsilons=(pure,))
    check_twin_is_caught(several, WithReplacement(domain=line(3), size=3, mixing=0.25), n=3, epsilons=(pure,))


def test_one_draw_is_reveal_or_obscure() -> None:
    x = Counts.of_cells([0, 0, 2])
    one = SubsampledRandomisedResponse(domain=line(3), size=1, mixing=0.25)
    other = RevealOrObscure(domain=line(3), size=1, mixing=0.25)
    np.testing.assert_allclose(enumerate_law(one, x).log_mass, enumerate_law(other, x).log_mass, rtol=1e-12)
    for epsilon in (0.0, 0.1, 0.5):
        assert one.guarantee(n=3).delta(epsilon) == pytest.approx(other.guarantee(n=3).delta(epsilon), rel=1e-9)


@pytest.mark.parametrize(("n", "size", "k", "q"), [(500, 60, 10, 0.3), (64, 64, 3, 0.5), (5000, 64, 4, 0.1)])
def test_the_bound_for_many_draws_is_near_the_sum_for_few(
    n: int, size: int, k: int, q: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = SubsampledPair(n=n, size=size, cells=k, mixing=q)
    epsilons = (0.0, 0.05, 0.2)
    fine = [pair.delta(e) for e in epsilons]
    monkeypatch.setattr(mixtures, "_SUMMED", 0)
    coarse = [pair.delta(e) for e in epsilons]
    for low, high in zip(fine, coarse, strict=True):
        assert low <= high * (1 + 1e-9) + 1e-18
        assert high <= 5 * low + 1e-9


@pytest.mark.parametrize(("n", "size"), [(2000, 1), (2000, 50), (100_000, 1000)])
def test_the_published_mixing_meets_its_epsilon_with_room(n: int, size: int) -> None:
    mixing = SubsampledRandomisedResponse.published_mixing(1.0, n=n, cells=10, size=size)
    made = SubsampledRandomisedResponse(domain=line(10), size=size, mixing=mixing)
    assert made.guarantee(n=n).epsilon(0.0) < 1.0
    exact = SubsampledRandomisedResponse.calibrated(Budget(epsilon=1.0), domain=line(10), n=n, size=size)
    assert exact.mixing < mixing
    # ROO25, equation (45): n eps = (k-1)(1-alpha)/alpha for one draw, with alpha = q (1 - 1/k)
    if size == 1:
        alpha = mixing * 0.9
        assert 9 * (1 - alpha) / alpha == pytest.approx(n * 1.0, rel=1e-12)


def test_no_more_than_there_are() -> None:
    made = SubsampledRandomisedResponse(domain=line(3), size=4, mixing=0.5)
    with pytest.raises(ParameterError):
        made.guarantee(n=3)
    with pytest.raises(ParameterError):
        made.kernel(Counts.of_cells([0, 1, 2]), rng=seeded(0)).__next__()
    with pytest.raises(Infeasible, match="size <= 3"):
        SubsampledRandomisedResponse.calibrated(Budget(epsilon=1.0), domain=line(3), n=3, size=4)
    with pytest.raises(Infeasible):
        SubsampledRandomisedResponse.calibrated(Budget(epsilon=0.1), domain=line(3), n=30, size=4, mixing=0.01)
