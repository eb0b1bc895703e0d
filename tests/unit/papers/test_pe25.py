"""The bounds and parameters of PE25: exact values never exceed them, by hand and by search; a tenth is refuted."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from scipy.stats import binom

from discreet._core.random import seeded
from discreet.domain import Domain, Numeric
from discreet.errors import ParameterError
from discreet.evolution import Box
from discreet.papers.pe25 import (
    ball_packing,
    box_packing,
    closeness_epsilon,
    gaussian_complexity,
    laplace_complexity,
    predicted_error,
    sampling_error,
    theorem_alpha,
    theorem_gamma,
    theorem_population,
    theorem_steps,
    theorem_variations,
    thresholded_laplace_error,
    usable_steps,
)
from discreet.papers.pe25_error import _expected_loss


def bounded_lipschitz(points: np.ndarray, signed: np.ndarray, diameter: float) -> float:
    """Return the supremum over functions bounded by the diameter with Lipschitz constant 1, as a linear programme."""
    first, second = np.nonzero(~np.eye(len(points), dtype=bool))
    rows = np.eye(len(points))[first] - np.eye(len(points))[second]
    limits = cdist(points, points)[first, second]
    solution = linprog(-signed, A_ub=rows, b_ub=limits, bounds=[(-diameter, diameter)] * len(points))
    return float(-solution.fun)


@pytest.mark.parametrize(("d", "count"), [(1, 8), (2, 8), (2, 20), (3, 12)])
def test_complexities_bound_a_linear_programme(d: int, count: int) -> None:
    # Corners of a cube are as far apart as points get; uniform points beside them.
    rng = seeded(0)
    side = 1 / math.sqrt(d)
    corners = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1) * side
    points = np.concatenate([corners, rng.random((count - len(corners), d)) * side]) if count > 2**d else corners
    laws = ((rng.standard_normal, gaussian_complexity), (lambda size: rng.laplace(size=size), laplace_complexity))
    for draw, bound in laws:
        suprema = [bounded_lipschitz(points, draw(count), 1.0) / count for _ in range(40)]
        mean, error = np.mean(suprema), np.std(suprema) / math.sqrt(len(suprema))
        stated = bound(count, dimension=d)
        assert mean - 5 * error < stated  # a true bound fails with probability 1e-6
        assert mean - 5 * error > stated / 10  # a bound ten times smaller would be refuted


def test_the_bounds_by_hand() -> None:
    for d in (1, 2, 5):  # of one point they are exact
        assert gaussian_complexity(1, dimension=d, diameter=3.0) == pytest.approx(3 * math.sqrt(2 / math.pi))
        assert laplace_complexity(1, dimension=d, diameter=3.0) == 3.0
    # V = 64, d = 2, Euclidean: levels 1 and 2 have 4 and 16 cubes, level 3 has 64.
    by_hand = 1 / 8 + math.sqrt(2) * (0.25 * 2 / 8 + 0.125 * 4 / 8 + 0.0625 * 8 / 8 + 0.0625)
    assert gaussian_complexity(64, dimension=2) == pytest.approx(math.sqrt(2 / math.pi) * by_hand)
    by_hand = 1 / 8 + 2 * (by_hand - 1 / 8) / math.sqrt(2)
    assert gaussian_complexity(64, dimension=2, norm=1) == pytest.approx(math.sqrt(2 / math.pi) * by_hand)


def test_the_published_corollary_by_hand_and_never_below_the_bound() -> None:
    assert gaussian_complexity(100, dimension=1, published=True) == pytest.approx(9 * math.sqrt(math.log(20)) / 10)
    assert gaussian_complexity(100, dimension=2, published=True) == pytest.approx(10 * math.log(20) ** 1.5 / 10)
    scale = 64 ** (1 / 3) * 0.5 ** (2 / 3)
    assert gaussian_complexity(64, dimension=3, diameter=2.0, published=True) == pytest.approx(
        20 * math.sqrt(math.log(2 * scale)) / scale
    )
    for d in (1, 2, 3, 4, 7, 20, 60):
        for power in range(13):
            bound = gaussian_complexity(10**power, dimension=d)
            assert bound <= gaussian_complexity(10**power, dimension=d, published=True)


def test_the_sampling_error_bounds_exact_expectations() -> None:
    for count in (1, 2, 5, 30, 400):
        # Two atoms a diameter apart: W1 is the difference of their shares.
        exact = float(binom(count, 0.5).expect(lambda k, n=count: np.abs(k / n - 0.5)))
        stated = sampling_error(count, dimension=1)
        assert exact <= stated
        assert exact > stated / 10
        # The uniform law on the interval: the integral of E |F_N - F|.
        at, k = (np.arange(200) + 0.5) / 200, np.arange(count + 1)[:, None]
        line = float(np.mean(np.sum(binom.pmf(k, count, at) * np.abs(k / count - at), axis=0)))
        assert line <= stated
    assert [sampling_error(10**power, dimension=1) * 10 ** (power / 2) for power in (8, 10)] == pytest.approx(
        [1.21] * 2, abs=0.01
    )  # the rate of the fourth decimal: N^(-1/2), with a constant of 1.21


@pytest.mark.parametrize("bound", [gaussian_complexity, laplace_complexity, sampling_error])
def test_rates_are_those_of_the_theory(bound: Callable[..., float]) -> None:
    for d in (1, 3, 6):
        fewer, more = (bound(2 ** (max(d, 2) * level), dimension=d) for level in (8, 9))
        assert fewer / more == pytest.approx(2.0, rel=0.15)  # N^(-1/max(d, 2))


def test_the_prediction_is_the_recursion() -> None:
    setting = {"gamma": 0.3, "alpha": 1e-4, "variations": 9, "population": 10**7, "sigma": 1e-11, "dimension": 1}
    candidates = 9 * 10**7
    noise = 2 * candidates * 1e-11 * gaussian_complexity(candidates, dimension=1)
    added = 1e-4 + sampling_error(10**7, dimension=1) + noise
    distance = 0.7
    for step in range(1, 40):
        distance = 0.7 * distance + added
        assert predicted_error(step, start=0.7, **setting) == pytest.approx(distance, rel=1e-12)
    assert predicted_error(0, start=0.7, **setting) == 0.7
    assert predicted_error(0, **setting) == 1.0
    # For a thousand records the worst case says nothing.
    assert predicted_error(14, **{**setting, "gamma": 0.008, "sigma": 0.02, "population": 17, "alpha": 0.14}) == 1.0


@pytest.mark.parametrize("threshold", [0.05, 0.3, 1.2])
def test_the_expected_loss_is_a_quadrature(threshold: float) -> None:
    share, scale = np.array([0.01, 0.3, 0.9]), 0.2
    for one, found in zip(share, _expected_loss(share, scale, threshold), strict=True):
        density = lambda x, at=one: abs(x) * math.exp(-abs(x - at) / scale) / (2 * scale)  # noqa: E731
        pieces = sorted({-20.0, min(0.0, threshold), min(one, threshold), threshold})
        exact = sum(quad(density, low, high)[0] for low, high in pairwise(pieces))
        assert found == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("votes", [[50, 30, 20], [500, 300, 200], [5] * 20, [0, 1, 0]])
def test_the_threshold_bound_holds_in_simulation(votes: list[int]) -> None:
    counts = np.array(votes)
    n, places = counts.sum(), np.linspace(0, 1, len(counts))
    setting = {"epsilon": 2.0, "delta": 0.01, "dimension": 1}
    scale = 2 / (n * 2.0)
    threshold = scale * math.log(100) + 1 / n
    rng, share, distances = seeded(1), counts / n, []
    for _ in range(4000):
        noisy = np.where(counts > 0, share + rng.laplace(0, scale, len(counts)), 0.0)
        noisy[noisy < threshold] = 0.0
        if noisy.sum() > 0:
            noisy /= noisy.sum()
            distances.append(np.sum(np.abs(np.cumsum(share - noisy))[:-1] * np.diff(places)))
        else:
            distances.append(1.0)  # bounded Lipschitz distance from nothing
    stated = thresholded_laplace_error(counts, **setting)
    assert np.mean(distances) - 5 * np.std(distances) / math.sqrt(4000) < stated
    assert stated <= thresholded_laplace_error(counts, beta=0.05, **setting)


def test_the_threshold_bound_is_small_for_few_candidates_with_many_votes() -> None:
    setting = {"epsilon": 1.0, "delta": 1e-4, "dimension": 2}
    few, spread = np.array([10**6, 10**6]), np.ones(2 * 10**6, dtype=np.int64)
    small = thresholded_laplace_error(few, **setting)
    assert small < 1e-5
    assert thresholded_laplace_error(spread, **setting) > 1
    assert thresholded_laplace_error(few, diameter=2.0, **setting) == pytest.approx(2 * small)


@pytest.mark.parametrize("votes", [[0, 0], [-1, 2], [0.5, 0.5], [[3, 4]]])
def test_what_is_no_histogram_of_votes_is_refused(votes: list[float]) -> None:
    with pytest.raises(ParameterError, match="votes must be whole numbers"):
        thresholded_laplace_error(np.array(votes), epsilon=1.0, delta=0.1, dimension=1)


# -- the parameters of the theorem, its lower bound, and packings -----------------------------------------------------


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
    # With sigma = 4 sqrt(log(1/delta)) / (n epsilon) the second half of the theorem says the same.
    assert theorem_steps(4 * math.sqrt(math.log(1e4)) / 1000, dimension=2) < 0


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
