"""The theorem's parameters by hand, the lower bound attained by a mechanism, packings found by search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from discreet._core.random import seeded
from discreet.domain import Domain, Numeric
from discreet.errors import ParameterError
from discreet.evolution import Box
from discreet.papers.pe25 import (
    ball_packing,
    box_packing,
    closeness_epsilon,
    theorem_alpha,
    theorem_gamma,
    theorem_population,
    theorem_steps,
    theorem_steps_of_budget,
    theorem_variations,
    usable_steps,
)


def test_parameters_by_hand() -> None:
    bracket = (2 + 0.6931471805599453) ** 2 + 0.6931471805599453
    assert theorem_gamma(4) == pytest.approx(1 / (25.132741228718345 * bracket))
    assert theorem_alpha(0.0625, dimension=1, diameter=3.0) == 0.75
    assert theorem_alpha(0.0625, dimension=4, diameter=3.0) == 1.5
    assert theorem_variations(0.0625, dimension=1) == 5  # D / alpha = 4: two scales
    assert theorem_variations(0.06, dimension=1) == 7
    assert theorem_variations(0.0625, dimension=4) == 3
    assert theorem_variations(2.0, dimension=2) == 1
    assert theorem_population(0.01, dimension=2, variations=16) == 25  # 100 / 4
    assert theorem_population(0.01, dimension=3, variations=8) == 25  # 100 / 8^(2/3)
    assert theorem_population(0.9, dimension=2) == 1  # 1.11 / 3^(1/2) is 0.64
    assert theorem_population(50.0, dimension=2, variations=9) == 1
    assert theorem_population(0.01, dimension=2) == round(100 / 3)  # nine variations


def test_the_variations_of_a_box_are_those_of_the_theorem() -> None:
    for d, sigma in ((1, 0.03), (2, 0.01), (3, 0.2)):
        domain = Domain(columns={f"x{place}": Numeric(lower=0, upper=7) for place in range(d)})
        diameter = Box(domain=domain).diameter
        box = Box(domain=domain, alpha=theorem_alpha(sigma, dimension=d, diameter=diameter))
        assert box.variations_each() == theorem_variations(sigma, dimension=d)


def test_the_papers_number_of_steps_is_kept_with_its_faults() -> None:
    sigma, gamma = 1e-6, theorem_gamma(2)
    assert theorem_steps(sigma, dimension=2) == math.ceil(math.log(gamma / 1e-3) / gamma) > 0
    # In another unit of length it is another number, though nothing else changed.
    assert theorem_steps(sigma, dimension=2, diameter=100.0) < 0 < theorem_steps(sigma, dimension=2, diameter=0.1)
    # With sigma = 4 sqrt(log(1/delta)) / (n epsilon) both halves of the theorem say the same.
    n, epsilon, delta = 10**9, 0.5, 1e-4
    same = 4 * math.sqrt(math.log(1 / delta)) / (n * epsilon)
    assert theorem_steps_of_budget(n, epsilon, delta, dimension=3) == theorem_steps(same, dimension=3)
    assert theorem_steps_of_budget(1000, 1.0, 1e-4, dimension=2) < 0


def test_usable_steps_are_at_least_one() -> None:
    assert [usable_steps(n, 1.0) for n in (1, 2, 10, 100, 1000)] == [1, 2, 5, 10, 14]
    assert usable_steps(5, 0.01) == 1


def greedy_packing(points: np.ndarray, distance: float, metric: str) -> int:
    """Return the size of a packing that no other of the points can be added to."""
    taken: list[np.ndarray] = []
    for point in points:
        if not taken or cdist(point[None], np.array(taken), metric).min() >= distance:
            taken.append(point)
    return len(taken)


@pytest.mark.parametrize(("p", "metric"), [(1.0, "cityblock"), (2.0, "euclidean"), (math.inf, "chebyshev")])
@pytest.mark.parametrize("distance", [0.15, 0.3, 0.9])
def test_packings_found_by_search_lie_within_the_bounds(p: float, metric: str, distance: float) -> None:
    box = seeded(0).random((4_000, 2)) * [1.0, 0.5]
    lower, upper = box_packing([1.0, 0.5], distance=distance, norm=p)
    assert math.log(greedy_packing(box, distance, metric)) <= upper
    assert lower <= upper
    grid = np.stack(np.meshgrid(*(np.arange(0, side + 1e-12, distance) for side in (1.0, 0.5))), axis=-1).reshape(-1, 2)
    assert greedy_packing(grid, distance - 1e-12, metric) >= math.exp(lower) * (1 - 1e-9) or p != math.inf
    ball = seeded(1).uniform(-1, 1, (4_000, 2))
    ball = ball[np.linalg.norm(ball, ord=p, axis=1) <= 1]
    lower, upper = ball_packing(1.0, 2, distance=distance, norm=p)
    # What no further point can be added to covers the ball, so it is a packing beyond the lower bound (but for a sliver
    # that the finite search leaves).
    assert lower - 0.1 <= math.log(greedy_packing(ball, distance, metric)) <= upper


def test_packings_that_are_known() -> None:
    lower, upper = box_packing([1.0, 0.75, 0.2], distance=0.25, norm=math.inf)
    assert lower == upper == pytest.approx(math.log(5 * 4 * 1))
    for distance, most in ((0.1, 21), (0.3, 7), (3.0, 1)):  # points of [-1, 1]
        exact = math.log(most)
        for lower, upper in (ball_packing(1.0, 1, distance=distance), box_packing([2.0], distance=distance)):
            assert lower <= exact + 1e-9
            assert exact <= upper + 1e-9


@pytest.mark.parametrize(("points", "tau"), [(2, 0.2), (10, 0.01), (1000, 0.1)])
def test_the_lower_bound_is_attained_by_randomised_response(points: int, tau: float) -> None:
    # One record, which is kept with probability 1 - tau and else replaced by another point of the packing.
    epsilon = math.log((1 - tau) / (tau / (points - 1)))
    assert closeness_epsilon(math.log(points), tau=tau) == pytest.approx(epsilon, rel=1e-12)
    assert closeness_epsilon(math.log(points)) <= epsilon  # the lemma as stated is weaker
    assert closeness_epsilon(math.log(points), tau=tau, delta=0.1) < epsilon


def test_a_single_point_needs_no_budget() -> None:
    assert closeness_epsilon(0.0) == closeness_epsilon(0.0, tau=0.1) == 0.0
    assert closeness_epsilon(1e6, tau=0.01) == pytest.approx(1e6 + math.log(99))


@pytest.mark.parametrize(
    ("log_packing", "options"), [(-1.0, {}), (1.0, {"tau": 0.3}), (1.0, {"tau": 0.1, "delta": 0.8})]
)
def test_what_the_lemma_does_not_cover_is_refused(log_packing: float, options: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=["log_packing", *options][-1]):
        closeness_epsilon(log_packing, **options)
