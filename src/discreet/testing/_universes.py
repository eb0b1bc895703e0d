"""Small universes: every table of ``n`` records on ``k`` cells, and every pair of neighbours among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Integers
from discreet._core.errors import ParameterError
from discreet.domain import Counts, Records


def count_vectors(total: int, cells: int) -> Integers:
    """Return all vectors of ``cells`` non-negative integers that sum to ``total``.

    Parameters
    ----------
    total : int
        At least 0.
    cells : int
        At least 1.

    Returns
    -------
    ndarray of int64, shape (C(total + cells - 1, cells - 1), cells)
        In lexicographic order.

    Examples
    --------
    >>> count_vectors(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    if total < 0 or cells < 1:
        raise ParameterError("a count vector must have at least one cell and a total of at least 0")
    if cells == 1:
        return np.array([[total]], dtype=np.int64)
    parts = []
    for first in range(total + 1):
        rest = count_vectors(total - first, cells - 1)
        parts.append(np.column_stack((np.full(len(rest), first, dtype=np.int64), rest)))
    return np.concatenate(parts)


def neighbouring_pairs(n: int, cells: int, *, group: int = 1) -> tuple[Integers, Integers, Integers]:
    """Return every ordered pair of tables that differ in at least one and at most ``group`` records.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    cells : int
        Number of cells.
    group : int
        Number of records that may be replaced, at least 1.

    Returns
    -------
    tables : ndarray of int64, shape (tables, cells)
        All count vectors of ``n`` records.
    left, right : ndarray of int64, shape (pairs,)
        Rows of ``tables``; both orders of every pair are there.

    Examples
    --------
    >>> tables, left, right = neighbouring_pairs(1, 2)
    >>> [(tables[i].tolist(), tables[j].tolist()) for i, j in zip(left, right)]
    [([0, 1], [1, 0]), ([1, 0], [0, 1])]
    """
    if n < 1 or group < 1:
        raise ParameterError("neighbours must have at least one record, and differ in at least one")
    tables = count_vectors(n, cells)
    moved = np.abs(tables[:, None, :] - tables[None, :, :]).sum(axis=2) // 2
    left, right = np.nonzero((moved >= 1) & (moved <= group))
    return tables, left.astype(np.int64), right.astype(np.int64)


def table_of(counts: npt.NDArray[np.integer], values: npt.NDArray[np.generic] | None = None) -> Counts:
    """Return the table that holds value ``l`` ``counts[l]`` times; cells ``0, 1, ..`` where no values are given.

    Examples
    --------
    >>> table_of(np.array([2, 0, 1])).frequencies.tolist()
    [2, 1]
    """
    held = np.flatnonzero(counts)
    column = held.astype(np.int64) if values is None else values[held]
    return Counts(records=Records(columns=(column,)), frequencies=np.asarray(counts)[held].astype(np.int64))


def partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yield the integer partitions of ``total``, parts in falling order."""
    if total == 0:
        yield ()
        return
    for part in range(min(total, total if largest is None else largest), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)
