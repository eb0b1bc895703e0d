"""Which interval a ticket falls in: the exact search in cumulative weights that every sampler here ends with.

A binary search per ticket misses the processor's cache at every step. A table of the answers at multiples of a power
of two settles most tickets with one look; the rest are searched. Integers throughout, so the answer is the search's.
"""

from __future__ import annotations

import numpy as np

from discreet._core.arrays import Integers

_FEW = 1 << 12
_MOST_BITS = 15
_PART = 1 << 14  # tickets looked up together: what that takes stays near the processor
_SEARCHED = -1


def locate(edges: Integers, tickets: Integers, *, below: int) -> Integers:
    """Return ``numpy.searchsorted(edges, tickets, side="right")``, sooner.

    ``edges``, shape (j,): Cumulative weights, not decreasing, at least 0.
    ``tickets``, shape (count,): Integers in ``[0, below)``.
    ``below``: Bound of the tickets.
    Returns, shape (count,): number of the first interval whose edge exceeds the ticket; ``j`` where none does.
    """
    if len(tickets) < _FEW or 4 * len(edges) > len(tickets):
        return np.searchsorted(edges, tickets, side="right").astype(np.int64, copy=False)
    shift = max(0, below.bit_length() - min(_MOST_BITS, len(tickets).bit_length() - 2))
    starts = (below >> shift) + 2
    # How many edges are at most k 2^shift, for each k: those whose quotient, rounded up, is at most k.
    passed = np.bincount(np.minimum(-(-edges >> shift), starts - 1), minlength=starts).cumsum()
    settled = np.where(passed[1:] == passed[:-1], passed[:-1], _SEARCHED)
    found = np.empty(len(tickets), dtype=np.int64)
    for start in range(0, len(tickets), _PART):
        part = tickets[start : start + _PART]
        answers = settled[part >> shift]
        searched = np.flatnonzero(answers == _SEARCHED)
        answers[searched] = np.searchsorted(edges, part[searched], side="right")
        found[start : start + _PART] = answers
    return found
