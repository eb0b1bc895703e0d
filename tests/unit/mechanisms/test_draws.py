"""What draws: cells in public, independent or stratified, integers of exact weights, and the search behind them."""

from collections import Counter
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from discreet._core.numeric import locate
from discreet._core.random import draw_weighted, integer_weights, rounding, seeded
from discreet.domain import Boolean, Domain
from discreet.errors import ParameterError
from discreet.mechanisms import StabilityHistogram
from discreet.mechanisms.reading import BLOCK, counts_by_chunk, draw_cells
from discreet.testing import assert_law
from discreet.testing.contract import sample_size_for_distance


@pytest.mark.parametrize("size", [1, 2, 7, 1000, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("cells", [1, 2, 5, 300])
def test_stratified_draws_give_every_run_of_cells_its_share_to_within_one_record(size: int, cells: int) -> None:
    rng = seeded(size + cells)
    weights = rng.random(cells) * (rng.random(cells) < 0.7)
    weights[-1] = 0.5
    chunks = list(draw_cells(weights, size, sampling="stratified", rng=rng))
    drawn = np.concatenate(chunks)
    assert len(drawn) == size
    below = np.cumsum(np.bincount(drawn, minlength=cells))
    expected = size * np.cumsum(weights) / weights.sum()
    assert np.abs(below - expected).max() < 1.0 + 1e-6
    assert not np.any(np.isin(drawn, np.flatnonzero(weights == 0.0)))
    for chunk in chunks:  # each is stratified itself
        part = np.cumsum(np.bincount(chunk, minlength=cells))
        assert np.abs(part - len(chunk) * np.cumsum(weights) / weights.sum()).max() < 2.0


def test_both_ways_give_each_cell_its_probability() -> None:
    weights = np.array([0.1, 0.0, 0.25, 0.65])
    for sampling in ("iid", "stratified"):
        rng = seeded(3)
        count = sample_size_for_distance(4, 0.1)
        first = [int(next(draw_cells(weights, 3, sampling=sampling, rng=rng))[0]) for _ in range(count)]  # type: ignore[arg-type]
        seen = Counter(first)
        assert_law([seen[c] for c in range(4)], weights, distance=0.1)


def test_another_way_is_refused() -> None:
    with pytest.raises(ParameterError, match="stratified"):
        StabilityHistogram(domain=Domain(columns={"a": Boolean()}), scale=1.0, threshold=9, sampling="sobol")  # type: ignore[arg-type]


class LastPoint(np.random.Generator):
    """A generator whose uniform numbers are the largest below 1."""

    def random(self, *_: Any, **__: Any) -> Any:
        return np.nextafter(1.0, 0.0)


@pytest.mark.parametrize("size", [3, 10**9])
def test_no_record_is_lost_where_the_last_edge_is_rounded(size: int) -> None:
    rng = LastPoint(np.random.PCG64(1))
    assert size - rng.random() <= size - 1 or size == 3
    (counts,) = counts_by_chunk(np.array([1.0, 2.0]), size, block=size, sampling="stratified", rng=rng)
    assert counts.all()
    assert counts.sum() == size


def test_no_chunk_loses_a_record_where_the_last_edge_is_rounded() -> None:
    size, rng = 3 * 2**30 + 1, LastPoint(np.random.PCG64(1))
    chunks = counts_by_chunk(np.array([1.0, 2.0]), size, block=2**31, sampling="stratified", rng=rng)
    assert sum(int(count.sum()) for count in chunks) == size


# -- the exact draw from log-weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0, 1e5])
@mpmath.workdps(60)
def test_integer_weights_are_near_the_given_ones(scale: float) -> None:
    given = -scale * seeded(1).exponential(size=200)
    mantissa, octave = integer_weights(given)
    assert mantissa.min() >= 2**36
    assert mantissa.max() <= 2**37
    assert octave.max() == 0
    bound = rounding(float(np.ptp(given)))
    for m, o, g in zip(mantissa.tolist(), octave.tolist(), given.tolist(), strict=True):
        apart = mpmath.log(m) + o * mpmath.log(2) - (mpmath.mpf(g) - mpmath.mpf(given.max())) - 36 * mpmath.log(2)
        assert abs(apart) <= bound


@pytest.mark.parametrize(
    "weights", [[1.0, 1.0, 1.0], [0.02, 0.5, 0.1, 0.38], [1e-9, 0.3, 0.3, 0.3999, 1e-4], [0.125, 0.125, 0.75]]
)
def test_draws_follow_the_weights(weights: list[float]) -> None:
    """1e-6 to fail a right sampler, 1e-6 to pass one at total variation 0.1."""
    law: npt.NDArray[np.float64] = np.array(weights) / sum(weights)
    rng = seeded(3)
    count = sample_size_for_distance(len(law), 0.1)
    seen = np.bincount([draw_weighted(np.log(law) - 7.0, rng=rng) for _ in range(count)], minlength=len(law))
    assert_law(seen, law, distance=0.1)


class Scripted:
    """A generator that gives one ticket, then given bits, and then the ticket 0."""

    def __init__(self, ticket: int, bits: bytes) -> None:
        self.tickets, self.bits = [ticket, 0], bits

    def integers(self, low: int, high: int) -> int:
        ticket = self.tickets.pop(0)
        assert low <= ticket < high
        return ticket

    def bytes(self, count: int) -> bytes:
        return self.bits * count


def test_the_tail_has_its_own_probability_however_small() -> None:
    """Weights 1, 2^-5000 and 2^-5000: tickets from 2^36 up to 2^36 + 2^-4963 belong to the small ones."""
    given = np.log(2.0) * np.array([-5000.0, 0.0, -5000.0])
    assert integer_weights(given)[1].tolist() == [-5000, 0, -5000]
    at: Any = Scripted(2**36 - 1, b"\xff")
    assert draw_weighted(given, rng=at) == 1
    at = Scripted(2**36, b"\x00")
    assert draw_weighted(given, rng=at) == 0
    at = Scripted(2**36, b"\xff")  # beyond the total: drawn again
    assert draw_weighted(given, rng=at) == 1
    assert at.tickets == []


# -- the table in front of the binary search changes its speed, never its answer --------------------------------------


@pytest.mark.parametrize("cells", [1, 2, 7, 300, 1000, 5000])
@pytest.mark.parametrize("largest", [3, 10**4, 2**50])
@pytest.mark.parametrize("count", [1, 100, 4096, 40_000])
def test_answers_as_the_search(cells: int, largest: int, count: int) -> None:
    """Empty cells, heavy cells, tickets on every edge, and tickets beyond the last."""
    rng = seeded(cells + count)
    weights = rng.integers(0, largest, size=cells)
    weights[rng.integers(cells)] = largest
    edges = np.cumsum(weights)
    below = int(edges[-1]) + int(rng.integers(1, 1000))
    tickets = rng.integers(0, below, size=count)
    tickets[: min(count, cells)] = edges[:count]
    tickets[-1] = below - 1
    found = locate(edges, tickets, below=below)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.searchsorted(edges, tickets, side="right"))


def test_no_cells() -> None:
    assert locate(np.zeros(0, dtype=np.int64), np.arange(9000), below=9000).max() == 0
