"""The bounded-Lipschitz projection against the linear programme over all pairs; its certificate against tampering."""

import importlib.metadata
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from discreet._core.numeric import isotonic
from discreet._core.random import seeded
from discreet.domain import Domain, Numeric
from discreet.errors import ParameterError
from discreet.mechanisms import bounded_lipschitz
from discreet.mechanisms.bounded_lipschitz import Metric, bounded_lipschitz_projection, fill, fill_line
from discreet.mechanisms.projections import W1, Simplex
from discreet.mechanisms.signed_measure import CellsAround, PublicPoints

Floats = npt.NDArray[np.float64]
NAMES = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}

needs_pot = pytest.mark.skipif(not bounded_lipschitz.transport_available(), reason="needs POT (extra transport)")


def lipschitz(points: Floats, norm: float) -> tuple[Floats, Floats]:
    """Return the constraints ``f_i - f_j <= d_ij`` of all pairs."""
    v = len(points)
    i, j = np.nonzero(~np.eye(v, dtype=bool))
    rows = np.zeros((len(i), v))
    rows[np.arange(len(i)), i], rows[np.arange(len(i)), j] = 1.0, -1.0
    return rows, cdist(points, points, NAMES[norm])[i, j]


def dense_distance(signed: Floats, points: Floats, diameter: float, norm: float) -> float:
    """The definition: the supremum over potentials, as a linear programme with a row for each pair."""
    rows, right = lipschitz(points, norm)
    solved = linprog(-signed, A_ub=rows, b_ub=right, bounds=[(-diameter, diameter)] * len(signed))
    assert solved.status == 0
    return -float(solved.fun)


def distance(signed: Floats, points: Floats, diameter: float, norm: float = 2.0) -> float:
    """The distance of a signed measure from nothing, by the transport itself: for many points."""
    total = float(signed.sum())
    signed = signed if total >= 0.0 else -signed
    if points.shape[1] == 1:
        order = np.argsort(points[:, 0])
        cost = fill_line(signed[order], points[order, 0])[1]
    else:
        cost = fill(signed, points, created=0.0, metric=Metric(norm, diameter, 1e-12 * diameter))[1]
    return diameter * abs(total) + cost


def dense_projection(masses: Floats, points: Floats, diameter: float, norm: float) -> float:
    """The least distance: a linear programme over plans of all pairs, created and destroyed mass, and the result."""
    v = len(masses)
    i, j = np.nonzero(~np.eye(v, dtype=bool))
    balance = np.zeros((v, len(i) + 3 * v))  # outflow - inflow + destroyed - created + kept = mass
    balance[i, np.arange(len(i))] += 1.0
    balance[j, np.arange(len(i))] -= 1.0
    eye = np.eye(v)
    balance[:, len(i) :] = np.hstack((eye, -eye, eye))
    one = np.concatenate((np.zeros(len(i) + 2 * v), np.ones(v)))
    cost = np.concatenate((cdist(points, points, NAMES[norm])[i, j], np.full(2 * v, diameter), np.zeros(v)))
    solved = linprog(cost, A_eq=np.vstack((balance, one)), b_eq=np.append(masses, 1.0))
    assert solved.status == 0
    return float(solved.fun)


def noisy(size: int, dimensions: int, total: float, noise: float, *, seed: int, grid: bool = False) -> Any:
    rng = seeded(seed)
    points = rng.integers(0, 4, (size, dimensions)) / 3.0 if grid else rng.random((size, dimensions))
    shares = rng.dirichlet(np.full(size, 0.2))
    masses = shares + rng.normal(0.0, noise, size)
    return masses + (total - masses.sum()) / size, points


def diameter_of(dimensions: int, norm: float) -> float:
    return 1.0 if norm == math.inf else dimensions ** (1.0 / norm)


@needs_pot
@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("total", [1.0, 0.7, 1.4, 0.0, -0.6])
def test_it_is_the_optimum_of_the_dense_programme(total: float, dimensions: int, norm: float) -> None:
    for seed, grid in ((1, False), (2, True)):
        masses, points = noisy(28, dimensions, total, 0.15, seed=seed, grid=grid)
        diameter = diameter_of(dimensions, norm)
        found = bounded_lipschitz_projection(masses, points, diameter=diameter, norm=norm, tolerance=0.0)
        assert found.probabilities.min() >= 0.0
        assert found.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
        best = dense_projection(masses, points, diameter, norm)
        assert found.distance == pytest.approx(best, abs=1e-9)
        assert found.lower_bound == pytest.approx(best, abs=1e-9)
        assert -1e-12 <= found.gap < 1e-9
        reached = dense_distance(masses - found.probabilities, points, diameter, norm)
        assert reached == pytest.approx(best, abs=1e-9)
        again = distance(masses - found.probabilities, points, diameter, norm)
        assert again == pytest.approx(best, abs=1e-9)


def all_pairs_violation(potential: Floats, points: Floats, norm: float) -> float:
    steep = potential[:, None] - potential[None, :] - cdist(points, points, NAMES[norm])
    return float(steep.max())


@needs_pot
@pytest.mark.parametrize(
    ("dimensions", "total", "noise"), [(1, 1.02, 0.02), (2, 0.97, 0.01), (2, 1.0, 0.2), (3, 1.1, 0.05)]
)
def test_coarse_prices_and_added_arcs_reach_a_proof_over_all_pairs(dimensions: int, total: float, noise: float) -> None:
    """1,500 points have half a million pairs; the potential is compared over every one of them here."""
    masses, points = noisy(1_500, dimensions, total, noise, seed=5)
    diameter = diameter_of(dimensions, 2.0)
    found = bounded_lipschitz_projection(masses, points, diameter=diameter, tolerance=1e-9)
    assert all_pairs_violation(found.potential, points, 2.0) < 1e-14
    assert np.abs(found.potential).max() <= diameter
    proved = float(found.potential @ masses - found.potential.max())
    assert found.lower_bound <= proved <= found.lower_bound + 1e-10
    assert -1e-12 <= found.gap < 2e-9
    assert distance(masses - found.probabilities, points, diameter) - proved < 1e-8


@needs_pot
def test_all_mass_on_one_point_in_noise() -> None:
    """The hardest case for few arcs: everything that is left has to come from one place, far away."""
    rng = seeded(3)
    points = rng.random((2_000, 2))
    masses = rng.normal(0.0, 2e-3, 2_000)
    masses[0] += 1.0
    found = bounded_lipschitz_projection(masses, points, diameter=math.sqrt(2.0), tolerance=1e-8)
    assert -1e-12 <= found.gap < 1.5e-8
    assert all_pairs_violation(found.potential, points, 2.0) < 1e-14


@needs_pot
def test_more_points_than_are_solved_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of neighbours: the bounds stay bounds, with the gap stated."""
    masses, points = noisy(600, 2, 0.98, 0.01, seed=8)
    exact = bounded_lipschitz_projection(masses, points, diameter=math.sqrt(2.0), tolerance=0.0)
    monkeypatch.setattr(bounded_lipschitz, "_DIRECT", 150)
    found = bounded_lipschitz_projection(masses, points, diameter=math.sqrt(2.0))
    assert found.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert all_pairs_violation(found.potential, points, 2.0) < 1e-14
    assert 0.0 < found.lower_bound <= exact.distance + 1e-12
    monkeypatch.undo()
    real = distance(masses - found.probabilities, points, math.sqrt(2.0))
    assert exact.distance - 1e-12 <= real <= found.distance + 1e-12
    assert found.lower_bound > 0.4 * exact.distance  # they say something
    assert found.distance < 2.0 * exact.distance


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), keep=st.integers(1, 4), norm=st.sampled_from([1.0, 2.0, math.inf]))
def test_the_search_over_blocks_misses_no_pair(seed: int, keep: int, norm: float) -> None:
    rng = seeded(seed)
    rows, columns = rng.random((150, 2)), rng.random((120, 2))
    limits, prices = rng.uniform(-0.3, 0.1, 150), rng.uniform(0.0, 0.3, 120)
    found = bounded_lipschitz.cheapest(
        rows, limits, columns, prices, keep=keep, metric=bounded_lipschitz.Metric(norm, 2.0, 0.0)
    )
    reduced = cdist(rows, columns, NAMES[norm]) - prices
    least = np.sort(reduced, axis=1)[:, :keep]
    want = np.sort(least[least < limits[:, None]])
    np.testing.assert_allclose(np.sort(found.cost - prices[found.column]), want, atol=1e-12)
    np.testing.assert_allclose(found.cost, cdist(rows, columns, NAMES[norm])[found.row, found.column])
    assert (found.cost - prices[found.column] < limits[found.row]).all()


# --- one dimension -----------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(values=st.lists(st.integers(-5, 5), min_size=1, max_size=9), data=st.data())
def test_isotonic_regression_by_dynamic_programming(values: list[int], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    found = isotonic(np.array(values, float), np.array(weights, float))
    assert (np.diff(found) >= 0).all()
    assert set(found) <= set(map(float, values))
    levels = sorted(set(values))
    least = dict.fromkeys(levels, 0)
    for value, weight in zip(values, weights, strict=True):
        reach = math.inf
        for level in levels:
            reach = min(reach, least[level])
            least[level] = reach + weight * abs(value - level)
    assert np.abs(found - values) @ np.array(weights, float) == pytest.approx(min(least.values()), abs=1e-12)


@needs_pot
@settings(max_examples=150, deadline=None)
@given(
    masses=st.lists(st.integers(-8, 9), min_size=1, max_size=9),
    grid=st.booleans(),
    unit=st.sampled_from([1, 4, 16]),
    seed=st.integers(0, 10**6),
)
def test_one_dimension_with_any_total_and_ties(masses: list[int], grid: bool, unit: int, seed: int) -> None:
    rng = seeded(seed)
    size = len(masses)
    points = (rng.integers(0, 5, size) / 4.0 if grid else rng.random(size))[:, None]
    v = np.array(masses) / unit
    found = bounded_lipschitz_projection(v, points, diameter=1.0, tolerance=0.0)
    assert found.probabilities.min() >= 0.0
    assert found.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.distance == pytest.approx(dense_projection(v, points, 1.0, 2.0), abs=1e-9)
    assert -1e-12 <= found.gap < 1e-9
    assert all_pairs_violation(found.potential, points, 2.0) < 1e-14
    assert distance(v - found.probabilities, points, 1.0) == pytest.approx(found.distance, abs=1e-9)


class OnALine(CellsAround):
    """Points of a unit interval in increasing order, taken for cells."""

    def line(self) -> Floats:
        return np.array([row[0] for row in self.centres.rows or ()])


def on_a_line(places: Floats) -> OnALine:
    unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    rows = tuple((x,) for x in places.tolist())
    return OnALine(unit, len(places), PublicPoints(count=len(places), sha256="", rows=rows))


def test_it_agrees_with_the_projection_of_counts_on_the_line() -> None:
    rng = seeded(6)
    places = np.sort(rng.random(40))
    counts = np.rint(100 * rng.dirichlet(np.ones(40)) + rng.normal(0, 3, 40)).astype(np.int64)
    counts[0] += 100 - counts.sum()
    found = bounded_lipschitz_projection(counts / 100, places[:, None], diameter=1.0)
    np.testing.assert_allclose(W1(on_a_line(places), 100).probabilities(counts), found.probabilities, atol=1e-12)


# --- what any implementation has to satisfy ----------------------------------------------------------------------


@needs_pot
@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 25),
    dimensions=st.integers(1, 3),
    total=st.floats(-1.0, 3.0),
    noise=st.sampled_from([0.01, 0.3, 50.0]),
    seed=st.integers(0, 10**6),
    norm=st.sampled_from([1.0, 2.0, math.inf]),
)
def test_never_worse_than_clipping_or_the_simplex_and_unchanged_by_symmetries(
    size: int, dimensions: int, total: float, noise: float, seed: int, norm: float
) -> None:
    masses, points = noisy(size, dimensions, total, noise, seed=seed, grid=seed % 2 == 0)
    diameter = diameter_of(dimensions, norm)
    found = bounded_lipschitz_projection(masses, points, diameter=diameter, norm=norm, tolerance=0.0)
    small = 1e-9 * max(1.0, float(np.abs(masses).sum()))
    assert -1e-12 <= found.gap <= small
    clipped = np.maximum(masses, 0.0)
    others = [Simplex(on_a_line(points[:, 0]), 10**6).probabilities(np.rint(masses * 10**6).astype(np.int64))]
    if clipped.any():
        others.append(clipped / clipped.sum())
    for other in others:
        assert found.distance <= distance(masses - other, points, diameter, norm) + small
    order = seeded(seed).permutation(size)
    shuffled = bounded_lipschitz_projection(masses[order], points[order], diameter=diameter, norm=norm, tolerance=0.0)
    assert shuffled.distance == pytest.approx(found.distance, abs=small)
    scaled = bounded_lipschitz_projection(masses, 40.0 * points - 7.0, diameter=40.0 * diameter, norm=norm, tolerance=0)
    assert scaled.distance == pytest.approx(40.0 * found.distance, abs=100 * small)


def test_a_distribution_is_its_own_projection() -> None:
    rng = seeded(1)
    masses = rng.dirichlet(np.ones(50))
    for dimensions in (1, 2):
        found = bounded_lipschitz_projection(masses, rng.random((50, dimensions)), diameter=2.0)
        np.testing.assert_allclose(found.probabilities, masses, atol=1e-15)
        assert found.distance < 1e-14


@pytest.mark.parametrize(
    ("masses", "expected", "least"),
    [
        ([-1.0, -2.0], [0.5, 0.5], 4.0),  # nothing positive: all of it is created
        ([0.0, 0.0], [0.5, 0.5], 1.0),
        ([0.25, -0.5], [1.0, 0.0], 1.25),  # less than one in supply: clip and normalise
        ([1.5, 1.5], [0.5, 0.5], 2.0),  # a surplus is destroyed in proportion
        ([2.0, -1.0], [1.0, 0.0], 1.0),
    ],
)
@pytest.mark.parametrize("dimensions", [1, 2])
def test_totals_other_than_one(masses: list[float], expected: list[float], least: float, dimensions: int) -> None:
    points = np.eye(2, dimensions)
    diameter = 1.0
    if dimensions == 2:
        points = points / math.sqrt(2.0)
    found = bounded_lipschitz_projection(np.array(masses), points, diameter=diameter)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-12)
    assert found.distance == pytest.approx(least, abs=1e-12)
    assert found.gap < 1e-12


def test_one_point_and_points_that_coincide() -> None:
    for v in (-3.0, 0.0, 0.4, 1.0, 7.0):
        found = bounded_lipschitz_projection(np.array([v]), np.zeros((1, 2)), diameter=1.0)
        assert found.probabilities.tolist() == [1.0]
        assert found.distance == pytest.approx(abs(1.0 - v))
        assert found.gap < 1e-12
    for dimensions in (1, 2):
        found = bounded_lipschitz_projection(np.array([2.0, -0.5, -0.5]), np.zeros((3, dimensions)), diameter=1.0)
        assert found.distance == pytest.approx(0.0, abs=1e-12)  # cancels where it is


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"points": np.zeros((3, 2))}, "one row"),
        ({"points": np.zeros(2)}, "one row"),
        ({"points": np.array([[0.0, math.nan], [0.0, 0.0]])}, "finite coordinates"),
        ({"points": np.array([[0.0, 0.0], [5.0, 0.0]])}, "diameter is smaller"),
        ({"diameter": 0.0}, "positive"),
        ({"diameter": math.nan}, "positive"),
    ],
)
def test_bad_input_is_refused(changed: dict[str, Any], message: str) -> None:
    given_ = {"masses": np.array([1.5, -0.5]), "points": np.zeros((2, 2)), "diameter": 1.0, **changed}
    with pytest.raises(ParameterError, match=message):
        bounded_lipschitz_projection(**given_)


def test_without_the_solver_the_extra_is_named_and_a_line_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_lipschitz, "transport_available", lambda: False)
    masses = np.array([1.5, -0.5])
    with pytest.raises(ParameterError, match=r"discreet\[transport\]"):
        bounded_lipschitz_projection(masses, np.eye(2), diameter=2.0)
    assert bounded_lipschitz_projection(masses, np.eye(2, 1), diameter=2.0).gap < 1e-12


@pytest.mark.parametrize(
    ("installed", "enough"), [("0.9.6.post1", False), ("0.9.7", True), ("0.10.0", True), ("1.0", True)]
)
def test_an_old_solver_does_not_count(installed: str, enough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no sparse costs, and a release must not find out after its noise was drawn."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: installed)
    assert bounded_lipschitz.transport_available.__wrapped__() is enough  # it is asked once in a process
