"""Public draws of cells from probabilities: independent, or stratified along the cells' order.

A stratified sample is systematic: with ``G`` the cumulative probabilities and ``u`` one uniform number, cell ``c`` gets
as many of ``m`` records as points ``u, u + 1, .., u + m - 1`` fall between ``m G_(c-1)`` and ``m G_c``. Each cell's
expected number is ``m p_c``, and every run of neighbouring cells gets its share to within one record, where independent
draws are off by ``sqrt(m p (1-p))``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.checks import choice

BLOCK = 1 << 17

Sampling = Literal["iid", "stratified"]

DEFAULT_SAMPLING: Sampling = "stratified"
"""How records are drawn from public probabilities: stratified costs no privacy and has less error."""


def check_sampling(sampling: str) -> None:
    """Refuse anything but the two ways to draw. Raises ParameterError when it is neither."""
    choice("sampling", sampling, ("stratified", "iid"))


def draw_cells(weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator) -> Iterator[Integers]:
    """Yield ``size`` cells in chunks, in an order that says nothing.

    ``weights``, shape (k,): non-negative, of positive sum: public.
    ``size``: number of records, ``m``.
    ``sampling``, {"iid", "stratified"}: Independent draws, or systematic ones along the cells' order.
    ``rng``: source of the draws.

    Notes
    -----
    Of the ``m`` equally spaced points of a stratified sample, chunk ``r`` of ``C`` takes points ``r, r + C, ..``: every
    chunk is stratified itself, and none needs to know the others.
    """
    live, share = _shares(weights)
    chunks = -(-size // BLOCK)
    if sampling == "iid":
        for start in range(0, size, BLOCK):
            yield _shuffled(live, rng.multinomial(min(BLOCK, size - start), share), rng)
        return
    edges = _edges(share, size, rng)
    for first in rng.permutation(chunks).tolist():
        below = np.maximum(0, np.ceil((edges - first) / chunks)).astype(np.int64)  # points before each edge
        below[-1] = -(-(size - first) // chunks)  # nor can it where an edge is rounded down to its point
        yield _shuffled(live, np.diff(below, prepend=0), rng)


def draw_counts(
    weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator
) -> tuple[Indices, Integers]:
    """Return the cells that get any of ``size`` records, and how many each gets: by the law of :func:`draw_cells`."""
    live, share = _shares(weights)
    if sampling == "iid":
        counts = rng.multinomial(size, share)
    else:
        below = np.maximum(0, np.ceil(_edges(share, size, rng))).astype(np.int64)
        below[-1] = size
        counts = np.diff(below, prepend=0)
    drawn = np.flatnonzero(counts)
    return live[drawn], counts[drawn]


def _shares(weights: Floats) -> tuple[Indices, Floats]:
    live = np.flatnonzero(weights)
    return live, weights[live] / weights[live].sum()


def _edges(share: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Return where cells end among equally spaced points, the first of which is uniform in [0, 1)."""
    edges = size * np.cumsum(share)
    edges[-1] = size  # rounding cannot lose the last record
    return np.asarray(np.minimum(edges, size) - rng.random())


def copies(n: int, size: int, rng: np.random.Generator) -> Iterator[Integers]:
    """Yield how often each of ``n`` records is drawn, in chunks, those left out that are not.

    ``size`` are drawn, independently and with replacement, as in a bootstrap sample.
    """
    held = np.array([min(BLOCK, n - start) for start in range(0, n, BLOCK)])
    for count, records in zip(rng.multinomial(size, held / n).tolist(), held.tolist(), strict=True):
        drawn = np.bincount(rng.integers(records, size=count), minlength=records)
        yield drawn[drawn > 0]


def _shuffled(cells: Indices, count: Integers, rng: np.random.Generator) -> Integers:
    drawn = np.repeat(cells, count).astype(np.int64, copy=False)
    rng.shuffle(drawn)
    return drawn
