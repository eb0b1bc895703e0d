"""Nearest candidates: against the definition written out, in plain Python, where ties and near-ties are many."""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.evolution import neighbours
from discreet.evolution.neighbours import NearestCandidates, Voters, votes

NORMS = [1.0, 2.0, np.inf]
METHODS: list[Any] = ["tree", "blocks", "auto"]


def _far(x: Any, c: Any, norm: float) -> float:
    """The definition: one rounding an operation, first coordinate to last."""
    total = 0.0
    for a, b in zip(x, c, strict=True):
        size = abs(a - b)
        total = max(total, size) if norm == np.inf else total + (size if norm == 1.0 else size * size)
    return total


def _definition(points: Any, candidates: Any, norm: float) -> list[int]:
    choices = range(len(candidates))
    return [min(choices, key=lambda j: (_far(x, candidates[j], norm), j)) for x in points.tolist()]


def _agree(points: npt.NDArray[np.float64], candidates: npt.NDArray[np.float64]) -> None:
    for norm in NORMS:
        expected = _definition(points, candidates.tolist(), norm)
        for method in METHODS:
            found = NearestCandidates(candidates, norm=norm, method=method).nearest(points)
            assert found.dtype == np.int64
            assert found.tolist() == expected, (norm, method)


def _lattice(rng: np.random.Generator, count: int, d: int, *, step: float, offset: float) -> npt.NDArray[np.float64]:
    return offset + step * rng.integers(0, 4, (count, d)).astype(np.float64)


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e15])
@pytest.mark.parametrize("step", [1.0, 0.1, 0.5])
@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_lattices_of_exact_ties_and_ties_up_to_rounding(d: int, step: float, offset: float) -> None:
    """Duplicates, exact ties (steps 1 and 1/2), ties that rounding breaks (0.1), and offsets where digits cancel."""
    rng = seeded(d)
    _agree(
        _lattice(rng, 60, d, step=step, offset=offset) + step / 2 * rng.integers(0, 2),
        _lattice(rng, 70, d, step=step, offset=offset),
    )


@pytest.mark.parametrize("radius", [1.0, 1e-30, 1e100])
def test_candidates_on_a_sphere_differ_by_rounding_alone(radius: float) -> None:
    """Every candidate is as far from the centre, up to rounding: more than a tree is asked for."""
    rng = seeded(5)
    for d in (2, 5):
        directions = rng.standard_normal((300, d))
        candidates = radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        _agree(np.vstack((np.zeros((2, d)), 1e-17 * radius * rng.standard_normal((10, d)))), candidates)


@pytest.mark.parametrize("count", [3, 12, 200])
def test_equal_distances_that_differ_by_the_order_of_the_sum(count: int) -> None:
    """Candidates with one point's coordinates in other orders and signs: only the definition's order decides."""
    rng = seeded(count)
    for d in (4, 7, 9):
        values = rng.random(d)
        candidates = rng.permuted(np.tile(values, (count, 1)), axis=1) * rng.choice([-1, 1], (count, d))
        far = {_far(np.zeros(d), c, 2.0) for c in candidates.tolist()}
        assert count < 200 or len(far) > 1
        _agree(np.zeros((1, d)), candidates)


def test_single_precision_alone_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The near-ties below lie within the rounding of single precision, and their order is not that of the indices."""
    rng = seeded(1)
    candidates = np.zeros((50, 8))
    candidates[:, 0] = 1 + 1e-12 * rng.permutation(50)
    candidates[25:] *= -1
    points = np.zeros((40, 8))
    points[:, 0] = 1e-13 * rng.standard_normal(40)
    singles = np.argmin(np.square(points.astype(np.float32)[:, None] - candidates.astype(np.float32)).sum(axis=2), 1)
    assert (singles != _definition(points, candidates.tolist(), 2.0)).any()
    _agree(points, candidates)
    monkeypatch.setattr(neighbours, "_COLUMNS", 1)
    _agree(points, candidates)


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-160, 1e-40, 1e40, 1e140])
def test_squares_that_underflow_and_large_coordinates(scale: float) -> None:
    rng = seeded(2)
    _agree(scale * rng.standard_normal((30, 3)), scale * rng.standard_normal((40, 3)))


def test_points_of_every_size_beside_candidates_of_every_size() -> None:
    rng = seeded(3)
    for _ in range(8):
        sizes = 10.0 ** rng.integers(-150, 140, 80)
        spread = rng.standard_normal((80, 4)) * sizes[:, None]
        _agree(spread[:40], spread[40:])
    _agree(1e120 * rng.standard_normal((20, 4)), rng.standard_normal((40, 4)))


def test_the_distance_is_the_exact_one_where_it_is_not_close() -> None:
    """Rational arithmetic, on points whose distances differ by more than rounding."""
    rng = seeded(4)
    points, candidates = rng.standard_normal((20, 5)), rng.standard_normal((40, 5))
    far = [
        [sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, c, strict=True)) for c in candidates.tolist()]
        for x in points.tolist()
    ]
    expected = [min(range(40), key=row.__getitem__) for row in far]
    for method in METHODS:
        assert NearestCandidates(candidates, method=method).nearest(points).tolist() == expected


def test_many_blocks_and_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"_ROWS": 7, "_COLUMNS": 11, "_PAIRS": 64}.items():
        monkeypatch.setattr(neighbours, name, size)
    rng = seeded(6)
    _agree(rng.standard_normal((50, 3)), rng.standard_normal((45, 3)))
    _agree(_lattice(rng, 50, 2, step=1.0, offset=0.0), _lattice(rng, 45, 2, step=1.0, offset=0.0))


@given(
    d=st.integers(1, 4),
    values=st.lists(st.floats(-4, 4) | st.integers(-2, 2).map(float), min_size=16, max_size=120),
    share=st.floats(0.1, 0.9),
)
@settings(max_examples=60, deadline=None)
def test_equals_the_definition(d: int, values: list[float], share: float) -> None:
    rows = np.array(values[: len(values) // d * d]).reshape(-1, d)
    cut = max(1, int(share * len(rows)))
    _agree(rows[cut:], rows[:cut])


@given(margin=st.floats(0, 1e-9), seed=st.integers(0, 10**6), d=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_points_halfway_between_candidates(margin: float, seed: int, d: int) -> None:
    """Two candidates mirrored at each point, one of them nearer by next to nothing."""
    rng = seeded(seed)
    points, shift = rng.standard_normal((6, d)), 0.01 * rng.standard_normal((6, d))
    _agree(points, np.vstack((points + shift, points - (1 - margin) * shift)))


def test_the_stated_margin_covers_what_the_products_round() -> None:
    """S in single precision against S in rationals: the error is below half the margin, and not by many magnitudes."""
    rng = seeded(8)
    worst = 0.0
    for d in (1, 3, 16, 100):
        candidates, points = 100 + rng.standard_normal((30, d)), 100 + rng.standard_normal((20, d))
        search = NearestCandidates(candidates, method="blocks")
        factors, margin = search._factors(points, 2.0**-24)
        score = factors.astype(np.float32) @ np.hstack(search._tiles)
        scale, centre = Fraction(search._scale), [Fraction(m) for m in search._centre.tolist()]
        for i, x in enumerate(points.tolist()):
            for j, c in enumerate(candidates.tolist()):
                b = [scale * (Fraction(t) - m) for t, m in zip(c, centre, strict=True)]
                a = [scale * (Fraction(t) - m) for t, m in zip(x, centre, strict=True)]
                exact = sum(v * v for v in b) / 2 - sum(s * t for s, t in zip(a, b, strict=True))
                worst = max(worst, abs(float(Fraction(float(score[i, j])) - exact)) / (margin[i] / 2))
    assert 1e-3 < worst < 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("norm", NORMS)
def test_one_candidate_and_no_points(norm: float, method: Any) -> None:
    one = NearestCandidates(np.array([[3.0, 1.0], [3.0, 1.0]]), norm=norm, method=method)
    assert one.nearest(seeded(0).standard_normal((5, 2))).tolist() == [0] * 5
    several = NearestCandidates(np.eye(3), norm=norm, method=method)
    assert several.nearest(np.zeros((0, 3))).tolist() == []


def test_negative_zero_is_zero() -> None:
    search = NearestCandidates(np.array([[5.0], [0.0], [-0.0]]))
    assert search.nearest(np.array([[-0.0], [0.0]])).tolist() == [1, 1]


def test_the_first_of_repeated_candidates_gets_the_votes() -> None:
    candidates = np.array([[2.0], [1.0], [2.0], [1.0], [0.0]])
    for method in METHODS:
        search = NearestCandidates(candidates, method=method)
        points = np.array([[1.9], [1.5], [0.5], [-3.0]])
        assert votes([Voters(points, np.array([1, 10, 100, 1000]))], search).tolist() == [11, 100, 0, 0, 1000]


def test_votes_add_chunks_with_frequencies() -> None:
    rng = seeded(7)
    points, frequencies = rng.integers(0, 5, (90, 2)).astype(float), rng.integers(0, 4, 90)
    candidates = rng.integers(0, 5, (12, 2)).astype(float)
    expected = [0] * 12
    for j, f in zip(_definition(points, candidates.tolist(), 2.0), frequencies.tolist(), strict=True):
        expected[j] += f
    chunks = [Voters(points[a:b], frequencies[a:b]) for a, b in ((0, 0), (0, 40), (40, 41), (41, 90))]
    assert votes(iter(chunks), NearestCandidates(candidates)).tolist() == expected
    assert votes([], NearestCandidates(candidates)).tolist() == [0] * 12


def test_one_record_replaced_moves_one_vote() -> None:
    """Every pair of points on a lattice full of ties."""
    candidates = seeded(9).integers(0, 3, (8, 2)).astype(float)
    search, lattice = NearestCandidates(candidates), np.array([[a, b] for a in range(3) for b in range(3)], dtype=float)
    for x in lattice:
        for y in lattice:
            before = votes([Voters(np.vstack((lattice, x)), np.ones(10, dtype=np.int64))], search)
            after = votes([Voters(np.vstack((lattice, y)), np.ones(10, dtype=np.int64))], search)
            assert np.abs(before - after).sum() in {0, 2}


@pytest.mark.parametrize("norm", NORMS)
def test_several_nearest_follow_the_definition(norm: float) -> None:
    """Lattices full of ties, repeated candidates, spheres on which rounding decides, and more votes than places."""
    rng = seeded(3)
    lattice = _lattice(rng, 60, 2, step=0.1, offset=0.0)
    sphere = rng.permuted(np.tile(rng.random(4), (40, 1)), axis=1) * rng.choice([-1, 1], (40, 4))
    for points, candidates in ((lattice[:30] + 0.05, lattice[30:]), (np.zeros((2, 4)), sphere)):
        first = [row for row, one in enumerate(candidates.tolist()) if one not in candidates[:row].tolist()]
        for count in (2, 3, 50):
            found = NearestCandidates(candidates, norm=norm).several(points, count)
            for x, chosen in zip(points.tolist(), found.tolist(), strict=True):
                assert chosen == sorted(first, key=lambda j: (_far(x, candidates[j], norm), j))[:count]


def test_several_nearest_are_the_points_own() -> None:
    """What a point votes for does not change with the points it is searched with."""
    rng = seeded(11)
    points, candidates = rng.standard_normal((257, 30)), rng.standard_normal((90, 30))
    search = NearestCandidates(candidates)
    together = search.several(points, 5)
    assert together.tolist() == [search.several(one[None], 5)[0].tolist() for one in points]
    assert search.several(points[:0], 5).shape == (0, 5)


@pytest.mark.parametrize(("coordinates", "norm"), [(0, 2.0), (2, 3.0), (2, np.nan)])
def test_what_cannot_be_searched_is_refused(coordinates: int, norm: float) -> None:
    with pytest.raises(ParameterError):
        NearestCandidates(np.zeros((2, coordinates)), norm=norm)
