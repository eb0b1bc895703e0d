"""Neighbouring and rare cells of a column merged, from its noisy counts: what pairs of columns are measured on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.domain._column import Column
from discreet.domain._metric import is_ordered

_MOST_MERGED = 256
_FEWEST, _MOST_BINS = 6, 100
_CLEAR = 3.0  # standard errors


@dataclass(frozen=True, eq=False)
class Merged:
    """The merged cells of one column. Public.

    ``of``, shape (cells,): the merged cell of each cell.
    ``count``: how many there are.
    """

    of: Integers
    count: int

    def sums(self, values: Floats) -> Floats:
        """Return the sums of some numbers over the merged cells."""
        return np.bincount(self.of, weights=values, minlength=self.count).astype(np.float64)


def merged(column: Column, noisy: Floats, error: float, precision: float) -> Merged:
    """Merge the cells of a column whose counts are too small to be told from noise, or from their neighbours'.

    The cells of an ordered column become at most ``sqrt(precision)`` runs of about equal counts (6 to 100 of them), a
    null by itself. Where the column has no more cells than that, only neighbours below 3 standard errors join.
    Of another column, every cell keeps its own number whose count is above 3 standard errors, the 255
    commonest at most; the rest become one.

    ``noisy``, shape (cells,): released.
    ``error``: their standard error.
    ``precision``: records held, in standard errors of a total, for each column.
    """
    bins = int(min(_MOST_BINS, max(_FEWEST, round(math.sqrt(precision)))))
    values = len(noisy) if column.values is None else column.values
    if is_ordered(column):
        of, counts = np.full(len(noisy), -1), np.maximum(noisy[:values], 0.0)
        of[:values] = _runs(counts, float(counts.sum()) / bins if values > bins else _CLEAR * error)
        of[values:] = of[values - 1] + 1
    else:
        of = np.zeros(len(noisy), dtype=np.int64)
        kept = np.argsort(-noisy, kind="stable")[: _MOST_MERGED - 1]
        kept = np.sort(kept[noisy[kept] > _CLEAR * error])
        of[kept] = np.arange(1, len(kept) + 1)
        if len(kept) == len(noisy):
            of -= 1
    return Merged(of.astype(np.int64), int(of.max()) + 1)


def _runs(counts: Floats, enough: float) -> Integers:
    """Return which run each cell is in: a cell that is large enough is a run of its own."""
    of, run, held, begun = np.zeros(len(counts), dtype=np.int64), 0, 0.0, False
    for cell, count in enumerate(counts.tolist()):
        if begun and (held + 0.5 * count > enough or count > enough):
            run, held = run + 1, 0.0
        of[cell], held, begun = run, held + count, count <= enough
        if not begun:
            run, held = run + 1, 0.0
    return of
