"""The table in front of the binary search changes its speed, never its answer."""

from __future__ import annotations

import numpy as np
import pytest

from discreet._core.arrays import locate
from discreet._core.random import seeded


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
