"""Drawing cells in public: independent, or stratified to within one record of every share."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Boolean, Domain
from discreet.errors import ParameterError
from discreet.mechanisms import StabilityHistogram
from discreet.mechanisms.reading import BLOCK, counts_by_chunk, draw_cells
from discreet.testing import assert_law
from discreet.testing.statistics import sample_size_for_distance


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
        count = sample_size_for_distance(4, 0.05)
        first = [int(next(draw_cells(weights, 3, sampling=sampling, rng=rng))[0]) for _ in range(count)]  # type: ignore[arg-type]
        seen = Counter(first)
        assert_law([seen[c] for c in range(4)], weights, distance=0.05)


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
