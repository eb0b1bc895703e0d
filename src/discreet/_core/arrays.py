"""Arrays by the type of their elements: the names that signatures use; distinct rows, and search in sorted edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]  # by name


def row_numbers(rows: Integers) -> Integers:
    """Return the number of each row among the distinct rows, in ascending order of rows."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:  # renumbered after each column, so that no product of many columns overflows
        codes = np.unique(column, return_inverse=True)[1]
        numbers = np.unique(numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return numbers


# Which interval a ticket falls in: the exact search in cumulative weights that every sampler here ends with.
#
# A binary search per ticket misses the processor's cache at every step. A table of the answers at multiples of a power
# of two settles most tickets with one look; the rest are searched. Integers throughout, so the answer is the search's.

_FEW = 1 << 12
_MOST_BITS = 15
_CHUNK = 1 << 14  # tickets looked up together: what that takes stays near the processor
_UNSETTLED = -1


def locate(edges: Integers, tickets: Integers, *, below: int) -> Integers:
    """Return ``numpy.searchsorted(edges, tickets, side="right")``, sooner."""
    # edges, shape (j,): cumulative weights, not decreasing, at least 0; tickets, shape (count,): integers in [0,
    # below). Returns, shape (count,): number of the first interval whose edge exceeds the ticket, else j.
    if len(tickets) < _FEW or 4 * len(edges) > len(tickets):
        return np.searchsorted(edges, tickets, side="right").astype(np.int64, copy=False)
    shift = max(0, below.bit_length() - min(_MOST_BITS, len(tickets).bit_length() - 2))
    starts = (below >> shift) + 2
    # How many edges are at most k 2^shift, for each k: those whose quotient, rounded up, is at most k.
    passed = np.bincount(np.minimum(-(-edges >> shift), starts - 1), minlength=starts).cumsum()
    settled = np.where(passed[1:] == passed[:-1], passed[:-1], _UNSETTLED)
    places = np.empty(len(tickets), dtype=np.int64)
    for start in range(0, len(tickets), _CHUNK):
        chunk = tickets[start : start + _CHUNK]
        answers = settled[chunk >> shift]
        searched = np.flatnonzero(answers == _UNSETTLED)
        answers[searched] = np.searchsorted(edges, chunk[searched], side="right")
        places[start : start + _CHUNK] = answers
    return places
