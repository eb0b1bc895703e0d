"""Public post-processing of noisy counts into probabilities: clip and normalise, simplex, one-dimensional W1."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

__all__ = ["clip_and_normalise", "simplex_projection", "w1_projection"]

Floats = npt.NDArray[np.float64]


def clip_and_normalise(counts: npt.NDArray[np.int64]) -> Floats:
    """Return ``max(counts, 0)`` divided by its sum, which must be positive (PY26, Appendix A.2)."""
    positive = np.maximum(counts, 0).astype(np.float64)
    result: Floats = positive / positive.sum()
    return result


def simplex_projection(counts: npt.NDArray[np.int64], total: int) -> Floats:
    """Return the probabilities nearest to ``counts / total`` in Euclidean distance.

    Parameters
    ----------
    counts : ndarray of int64, shape (k,)
        Noisy counts.
    total : int
        The public number of records.

    Notes
    -----
    The projection is ``max(v - tau, 0)`` with ``tau`` such that it sums to one (Held, Wolfe and Crowder, 1974).
    """
    v = counts / total
    descending = np.sort(v)[::-1]
    excess = (np.cumsum(descending) - 1.0) / np.arange(1, len(v) + 1)
    tau = excess[np.flatnonzero(descending > excess)[-1]]
    projected = np.maximum(v - tau, 0.0)
    result: Floats = projected / projected.sum()
    return result


def w1_projection(counts: npt.NDArray[np.int64], total: int, positions: Floats) -> Floats:
    """Return the probabilities nearest to ``counts / total`` in Wasserstein-1 distance on the line.

    Parameters
    ----------
    counts : ndarray of int64, shape (k,)
        Noisy counts.
    total : int
        The public number of records.
    positions : ndarray of float64, shape (k,)
        Coordinates of the cells, increasing.

    Notes
    -----
    The counts are first shifted, each by as much, onto the public total: the noise of their sums is then a bridge tied
    down at both ends, not a walk that wanders off towards the last cells. With signed distribution function ``F`` of
    the shifted counts, this minimises ``sum_i (x_{i+1} - x_i) |G_i - F_i|`` over distribution functions ``G``: a
    weighted L1 isotonic regression, whose solution clipped to ``[0, 1]`` solves the bounded problem. The regression
    keeps, in a heap, the breakpoints of the convex function ``min over G_1 <= .. <= G_i = x``.
    """
    gaps = np.diff(positions)
    shifted = counts + (total - int(counts.sum())) / len(counts)
    signed = np.cumsum(shifted)[:-1] / total
    best = np.empty(len(gaps))
    heap: list[tuple[float, float]] = []
    for i, (value, gap) in enumerate(zip(signed.tolist(), gaps.tolist(), strict=True)):
        heapq.heappush(heap, (-value, 2.0 * gap))
        excess = gap
        while excess > 0.0:
            top, slope = heap[0]
            if slope > excess:
                heapq.heapreplace(heap, (top, slope - excess))
                break
            heapq.heappop(heap)
            excess -= slope
        best[i] = -heap[0][0]
    isotonic = np.minimum.accumulate(best[::-1])[::-1]
    distribution = np.concatenate((np.clip(isotonic, 0.0, 1.0), [1.0]))
    return np.diff(distribution, prepend=0.0)
