"""Public post-processing of noisy counts into probabilities: clip and normalise, simplex, L1, one-dimensional W1."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet.mechanisms._discrete_noise import NoiseKind, mean_absolute, standard_deviation
from discreet.mechanisms._line_transport import isotonic

__all__ = ["clip_and_normalise", "l1_projection", "l1_projection_error", "simplex_projection", "w1_projection"]

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
    counts : ndarray of int64, shape (.., k)
        Noisy counts, one vector or rows of them.
    total : int
        The public number of records.

    Notes
    -----
    The projection is ``max(v - tau, 0)`` with ``tau`` such that it sums to one (Held, Wolfe and Crowder, 1974).
    """
    v = counts / total
    descending = np.sort(v, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - 1.0) / np.arange(1, v.shape[-1] + 1)
    last = v.shape[-1] - 1 - np.argmax((descending > excess)[..., ::-1], axis=-1)
    projected = np.maximum(v - np.take_along_axis(excess, last[..., None], axis=-1), 0.0)
    result: Floats = projected / projected.sum(axis=-1, keepdims=True)
    return result


def l1_projection(counts: npt.NDArray[np.int64], total: int) -> Floats:
    """Return, of the many probabilities nearest to ``counts / total`` in L1, those that keep the largest cells' shares.

    Parameters
    ----------
    counts : ndarray of int64, shape (.., k)
        Noisy counts, one vector or rows of them.
    total : int
        The public number of records.

    Notes
    -----
    Probabilities are nearest exactly when they are nowhere above ``max(counts, 0) / total``, or nowhere below it. So
    clipping and the Euclidean projection give a nearest one too; both take what positive noise has added to empty cells
    from all cells. Here a surplus of the sum of the counts is taken from all cells alike, and what clipping adds to it
    from the smallest positive cells, which are the likeliest to be noise; equal cells stay equal. A lack is given to
    all cells alike. Proof: docs/theory/laplace-projection-sampler.md.
    """
    k = counts.shape[-1]
    positive = np.maximum(counts - np.maximum(0.0, (counts.sum(axis=-1, keepdims=True) - total) / k), 0.0)
    order = np.argsort(positive, axis=-1)
    values = np.take_along_axis(positive, order, axis=-1)
    sums = np.cumsum(values, axis=-1)
    surplus = sums[..., -1:] - total
    # Cells of one value are a group: its first and last place in the order, and what it holds.
    place = np.arange(k)
    new = np.diff(values, axis=-1, prepend=-1.0) > 0.0
    first = np.maximum.accumulate(np.where(new, place, 0), axis=-1)
    ends = np.append(new[..., 1:], np.ones((*values.shape[:-1], 1), np.bool_), axis=-1)
    last = np.minimum.accumulate(np.where(ends, place, k)[..., ::-1], axis=-1)[..., ::-1]
    upto = np.take_along_axis(sums, last, axis=-1)
    mass = values * (last - first + 1)
    share = np.divide(upto - surplus, mass, out=np.zeros_like(mass), where=values > 0.0)
    kept = np.empty_like(values)
    np.put_along_axis(kept, order, values * np.clip(share, 0.0, 1.0), axis=-1)
    projected = np.where(surplus < 0.0, positive - surplus / k, kept)
    result: Floats = projected / projected.sum(axis=-1, keepdims=True)
    return result


def l1_projection_error(kind: NoiseKind, scale: float, *, cells: int, total: int) -> float:
    """Return a bound on the expected total variation between an L1 projection of noisy counts and the true shares.

    ``(k E|Z| + sqrt(k) s) / (2 total)`` for noise ``Z`` of standard deviation ``s`` on ``k`` cells, at most 1.
    """
    noise = cells * mean_absolute(kind, scale) + math.sqrt(cells) * standard_deviation(kind, scale)
    return min(1.0, 0.5 * noise / total)


def w1_projection(counts: npt.NDArray[np.int64], total: int, positions: Floats) -> Floats:
    """Return the probabilities nearest to ``counts / total`` in Wasserstein-1 distance on the line.

    Parameters
    ----------
    counts : ndarray of int64, shape (.., k)
        Noisy counts, one vector or rows of them.
    total : int
        The public number of records.
    positions : ndarray of float64, shape (k,)
        Coordinates of the cells, increasing.

    Notes
    -----
    The counts are first shifted, each by as much, onto the public total: the noise of their sums is then a bridge tied
    down at both ends, not a walk that wanders off towards the last cells. What is nearest to the shifted counts is what
    filling their deficits from their supplies keeps (T14).
    """
    shifted = counts + (total - counts.sum(axis=-1, keepdims=True)) / counts.shape[-1]
    walk = np.cumsum(shifted / total, axis=-1)
    sums = np.clip(isotonic(walk[..., :-1], np.diff(positions)), 0.0, walk[..., -1:])
    kept = np.maximum(np.diff(sums, axis=-1, prepend=0.0, append=walk[..., -1:]), 0.0)
    result: Floats = kept / kept.sum(axis=-1, keepdims=True)
    return result
