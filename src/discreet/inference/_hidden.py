"""Cells that a release cannot tell from empty ones. Whether they are empty is not left to the prior.

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
from discreet.inference._line import Draws, Line, at_ends, extremes

_FAR = 1.5  # standard deviations above 0, up to which a sum is not told from that of empty cells
_POSITIVE = 1.0 / math.sqrt(2.0 * math.pi)  # mean of the positive part of noise, in standard deviations


class Estimates(NamedTuple):
    """Estimates of the counts of cells, neighbours in a tree of sets beside one another.

    ``counts``, shape (k,): in records, the best linear ones that add up to the known number of records.
    ``noise``: standard deviation of the noise in the count of one cell, or of one measured set.
    ``sets``: for each level of the tree, from the smallest sets to the whole, the set that each cell is in, numbered in
    order, and whether the sets of this level were measured too.
    ``each``: how many records a released one stands for; 0 where counts were released.
    ``stratified``: whether records were drawn so that the number in each set is its share, to within one.
    ``least``: the fewest cells that a hidden set may have.
    """

    counts: Floats
    noise: float
    sets: Sequence[tuple[Integers, bool]]
    each: float = 0.0
    stratified: bool = False
    least: int = 2

    def hidden(self) -> Booleans:
        """Return which cells are in hidden sets.

        The largest sets that are at most one and a half standard deviations above 0 are sorted by this distance. The
        first of them are hidden: as many as, taken together, are within that limit too. Their number is found by
        bisection.
        """
        within = [np.arange(len(self.counts)), *(of for of, _ in self.sets)]  # the set of each cell, level by level
        above = [upper[np.searchsorted(lower, np.arange(lower[-1] + 1))] for lower, upper in pairwise(within)]
        own = [np.full(len(self.counts), self.noise**2)]  # variances of estimates from what lies in a set
        for of, (_, measured) in zip(above, self.sets, strict=True):
            variance = np.bincount(of, weights=own[-1])
            own.append(1.0 / (1.0 / variance + 1.0 / self.noise**2) if measured else variance)
        distances, held = np.empty(0), np.full(len(self.counts), -1)  # of sets that may be hidden, and each cell's
        error = np.zeros(1)
        for of, mine, level in zip(above[::-1], own[-2::-1], within[-2::-1], strict=True):
            share = mine / np.bincount(of, weights=mine)[of]
            error = share**2 * error[of] + mine * (1.0 - share)
            far = np.bincount(level, weights=self.counts) / self._spread(error, 1)
            small = (held < 0) & ((far <= _FAR) & (np.bincount(level) >= self.least))[level]
            new, place = np.unique(level[small], return_inverse=True)
            held[small] = len(distances) + place
            distances = np.append(distances, far[new])
        rank = np.append(np.argsort(np.argsort(distances, kind="stable")), len(distances))[held]
        kept, tried = 0, len(distances)
        while kept < tried:
            number = (kept + tried + 1) // 2
            spread = self._spread(self._variance(rank < number, above, own), number)
            near = self.counts[rank < number].sum() <= _FAR * spread
            kept, tried = (number, tried) if near else (kept, number - 1)
        return np.asarray(rank < kept)

    def _spread(self, variance: Any, sets: int) -> Floats:
        """Return the standard deviation of the estimates of so many empty sets, from the variance of the noise."""
        spread = np.sqrt(variance)
        drawn = sets * self.each / 6.0 if self.stratified else self.each + _POSITIVE * spread
        return np.asarray(np.sqrt(variance + self.each * drawn))

    def _variance(self, cells: Booleans, above: Sequence[Integers], own: Sequence[Floats]) -> float:
        """Return the variance of the sum of some cells' estimates."""
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
    """What bounds take as possible: hidden cells hold what the draws say, or are empty, all or on one side.

    ``cells``, shape (S,): whether a record of the support is in such a cell.
    """

    cells: Booleans

    def said(self, masses: Floats) -> str:
        """Return what is assumed of these cells, in words.

        ``masses``, shape (draws, S): of the cells.
        """
        share = percent(float(masses[:, self.cells].sum(axis=1).mean()))
        return (
            f"the release cannot tell some neighbouring cells from empty ones. On average the draws put about {share} "
            "of the records there. Intervals also allow for these cells to be empty. In regressions and functions of "
            "your own, the prior decides"
        )

    def of(self, kept: Booleans) -> Hidden:
        """Return the same of a part of the support."""
        return Hidden(self.cells[kept])

    def lines(self, column: Column, codes: npt.NDArray[Any], draws: Draws) -> Iterator[tuple[Line, Line]]:
        """Yield a column with values at the lower and at the upper ends of cells, for each case that bounds hold in.

        The hidden cells hold what the draws say. Or all are empty. Or only those below the median of the mean draw
        are empty, or only those above it.

        ``column``, ``codes``: the column, and its part of the support.
        """
        values = extremes(column, codes)[0]
        masses = np.where(np.isnan(values), 0.0, draws.weights)  # nulls are left out
        empty = [np.zeros_like(self.cells), self.cells]
        if ordered(column):
            middle = _median(values, np.nan_to_num(masses).mean(axis=0))
            empty += [self.cells & (values < middle), self.cells & (values > middle)]
        for each in {one.tobytes(): one for one in empty}.values():
            yield at_ends(column, codes, Draws(_without(masses, each)), 0)


def _median(values: Floats, masses: Floats) -> float:
    """Return the value at which half of the mass is reached."""
    order = np.argsort(values, kind="stable")[: np.count_nonzero(~np.isnan(values))]
    cumulated = np.cumsum(masses[order])
    return float(values[order[np.searchsorted(cumulated, 0.5 * cumulated[-1])]]) if len(order) else np.nan


def _without(masses: Floats, empty: Booleans) -> Floats:
    """Return draws with empty cells, whose mass goes to the others in proportion. If there are none, they stay."""
    rest = np.where(empty, 0.0, masses)
    part = rest.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(part > 0.0, rest * (masses.sum(axis=1, keepdims=True) / part), masses)
