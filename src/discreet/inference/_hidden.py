"""Cells that a release does not tell from empty ones: whether they are is not for the prior to say.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans, Floats, Integers
from discreet._core.text import percent
from discreet.domain._column import Column
from discreet.inference._functional import ordered
from discreet.inference._line import Draws, Line, ends, extremes

_FAR = 1.5  # standard deviations above 0, up to which a sum is not told from that of empty cells


class Estimates(NamedTuple):
    """Estimates of the counts of cells, neighbours in a tree of sets beside one another.

    ``counts``, shape (k,): in records; their errors are independent, but for what ``consistent`` says.
    ``noise``: standard deviation of the noise of a cell, and of a set that was measured.
    ``sets``: for each level of the tree, from the smallest sets to the whole, the set that each cell is in, numbered in
    order, and whether the sets of this level were measured too.
    ``consistent``: whether the estimates are the best ones that add up to the known number of records.
    ``least``: the fewest cells of sets that may be hidden.
    ``rounding``: variance of what drawing records adds to the estimate of any set.
    ``each``: what the same adds per record of the estimate.
    """

    counts: Floats
    noise: float
    sets: Sequence[tuple[Integers, bool]]
    consistent: bool = False
    least: int = 2
    rounding: float = 0.0
    each: float = 0.0

    def hidden(self) -> Booleans:
        """Return which cells are in hidden sets.

        The largest sets whose estimate is at most one and a half standard deviations, beginning with those that have
        the fewest: as many of them as together have an estimate of at most as much.
        """
        within = [np.arange(len(self.counts)), *(of for of, _ in self.sets)]  # the set of each cell, level by level
        above = [upper[np.searchsorted(lower, np.arange(lower[-1] + 1))] for lower, upper in pairwise(within)]
        own = [np.full(len(self.counts), self.noise**2)]  # variances of estimates from what lies in a set
        for of, (_, measured) in zip(above, self.sets, strict=True):
            variance = np.bincount(of, weights=own[-1])
            own.append(1.0 / (1.0 / variance + 1.0 / self.noise**2) if measured else variance)
        far = np.full(len(self.counts), math.inf)  # from 0, in standard deviations, the set that a cell is in
        error = np.zeros(1)
        for of, mine, level in zip(above[::-1], own[-2::-1], within[-2::-1], strict=True):
            share = mine / np.bincount(of, weights=mine)[of]
            error = share**2 * error[of] + mine * (1.0 - share)
            sizes, sums = np.bincount(level), np.bincount(level, weights=self.counts)
            distance = sums / np.sqrt((error if self.consistent else mine) + self._drawn(sums, 1))
            far = np.where(
                np.isinf(far) & (sizes >= self.least)[level] & (distance <= _FAR)[level], distance[level], far
            )
        distances = np.unique(far[far < math.inf])
        kept, tried = 0, len(distances)
        while kept < tried:
            number = (kept + tried + 1) // 2
            cells = far <= distances[number - 1]
            estimate = self.counts[cells].sum()
            spread = np.sqrt(self._variance(cells, above, own) + self._drawn(estimate, number))
            kept, tried = (number, tried) if estimate <= _FAR * spread else (kept, number - 1)
        return far <= distances[kept - 1] if kept else np.zeros(len(far), dtype=bool)

    def _drawn(self, sums: Any, sets: int) -> Floats:
        """Return the variance that drawing records adds to the estimates of so many sets."""
        return np.asarray(sets * self.rounding + self.each * np.maximum(sums, 0.0))

    def _variance(self, cells: Booleans, above: Sequence[Integers], own: Sequence[Floats]) -> float:
        """Return the variance of the sum of some cells' estimates."""
        if not self.consistent:
            return self.noise**2 * np.count_nonzero(cells)
        variance, parts = 0.0, cells.astype(np.float64)  # how much of a set's error is theirs
        for of, mine in zip(above, own, strict=False):
            among = np.bincount(of, weights=mine * parts) / np.bincount(of, weights=mine)
            variance += float(mine @ (parts - among[of]) ** 2)
            parts = among
        return variance


def halves(size: int) -> list[tuple[Integers, bool]]:
    """Return sets of neighbouring cells, halved again and again, none of them measured."""
    return [(np.arange(size) >> depth, False) for depth in range(1, (size - 1).bit_length() + 1)]


@dataclass(frozen=True)
class Hidden:
    """What bounds take as possible: each draw's records of these cells are there, or spread over all others.

    ``cells``, shape (S,): whether a record of the support is in such a cell.
    """

    cells: Booleans

    def said(self, masses: Floats) -> str:
        """Return what is assumed of these cells, in words.

        ``masses``, shape (draws, S): of the cells.
        """
        share = percent(float(masses[:, self.cells].sum(axis=1).mean()))
        return (
            f"the release cannot tell some neighbouring cells from empty ones. The prior puts about {share} of the "
            "records there (posterior mean), and intervals also hold if there are none. In regressions and functions "
            "of your own, the prior decides"
        )

    def of(self, kept: Booleans) -> Hidden:
        """Return the same of a part of the support."""
        return Hidden(self.cells[kept])

    def lines(self, column: Column, codes: npt.NDArray[Any], draws: Draws) -> Iterator[tuple[Line, Line]]:
        """Yield a column with values at the lower and at the upper ends of cells, for each case that bounds hold in.

        The hidden cells hold what the draws say; or they are empty; or those below the median, or above it, are.

        ``column``, ``codes``: the column, and its part of the support.
        """
        empty = [np.zeros_like(self.cells), self.cells]
        if ordered(column):
            values = extremes(column, codes)[0]
            middle = _median(values, np.nan_to_num(draws.weights).mean(axis=0))
            empty += [self.cells & (values < middle), self.cells & (values > middle)]
        for each in np.unique(empty, axis=0):
            yield ends(column, codes, Draws(_without(draws.weights, each)), 0)


def _median(values: Floats, masses: Floats) -> float:
    """Return the value at which half of the mass that has a value is reached."""
    order = np.argsort(values, kind="stable")[: np.count_nonzero(~np.isnan(values))]
    cumulated = np.cumsum(masses[order])
    return float(values[order[np.searchsorted(cumulated, 0.5 * cumulated[-1])]]) if len(order) else np.nan


def _without(weights: Floats, empty: Booleans) -> Floats:
    """Return draws with empty cells, whose mass goes to the others in proportion; where there are others."""
    rest = np.where(empty, 0.0, weights)
    whole = rest.sum(axis=1, keepdims=True)
    return np.where(whole > 0.0, rest / np.where(whole > 0.0, whole, 1.0), weights)
