"""Cells of which a release tells nothing: bounds on what they hold (docs/theory/mechanism-aware-posterior.md)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.errors import ParameterError
from discreet._core.lazy import special
from discreet._core.numeric import Booleans, Floats, Integers
from discreet._core.text import percent
from discreet.domain import Column, Domain, Records
from discreet.inference.functionals import ordered
from discreet.inference.line import Draws, Line, at_ends, extremes
from discreet.inference.prior import Noise, parents, sets_of
from discreet.inference.samplers import Observation, ReleasedRecords
from discreet.mechanisms import Consistent
from discreet.mechanisms import likelihood as likelihoods

_FAR = 1.5  # standard deviations above 0, up to which a sum is not told from that of empty cells
_LEAST = 4  # leaves of a hidden set of a tree: in it a pair is known as poorly as a set of many
_POSITIVE = 1.0 / math.sqrt(2.0 * math.pi)  # mean of the positive part of noise, in standard deviations


class CellEstimates(NamedTuple):
    """Estimates of the counts of cells, neighbours in a tree of sets beside one another."""

    counts: Floats  # shape (k,): in records, the best linear ones that add up to the known number of records
    noise: float  # standard deviation of the noise in the count of one cell
    sets: Sequence[tuple[Integers, float]]  # by level, the smallest first: each cell's set, and its own count's weight
    each: float = 0.0  # how many records a released one stands for; 0 where counts were released
    stratified: bool = False  # whether the number of records drawn in each set is its share, to within one
    least: int = 2  # the fewest cells that a hidden set may have

    def hidden(self) -> Booleans:
        """Return which cells are in hidden sets: the nearest to 0, as many as are, together, within 1.5 deviations."""
        nested = [np.arange(len(self.counts)), *(sets for sets, _ in self.sets)]  # the set of each cell, level by level
        above = parents(nested)
        variances = [np.full(len(self.counts), self.noise**2)]  # of estimates from what lies in a set
        for upper, (_, weight) in zip(above, self.sets, strict=True):
            variance = np.asarray(np.bincount(upper, weights=variances[-1]), dtype=np.float64)
            variances.append(1.0 / (1.0 / variance + weight / self.noise**2))
        distances, candidate = np.empty(0), np.full(len(self.counts), -1)  # sets that may be hidden, and each cell's
        error = np.zeros(1)
        for upper, variance, sets in zip(above[::-1], variances[-2::-1], nested[-2::-1], strict=True):
            share = variance / np.bincount(upper, weights=variance)[upper]
            error = share**2 * error[upper] + variance * (1.0 - share)
            distance = np.bincount(sets, weights=self.counts) / self._spread(error, 1)
            small = (candidate < 0) & ((distance <= _FAR) & (np.bincount(sets) >= self.least))[sets]
            new, place = np.unique(sets[small], return_inverse=True)
            candidate[small] = len(distances) + place
            distances = np.append(distances, distance[new])
        rank = np.append(np.argsort(np.argsort(distances, kind="stable")), len(distances))[candidate]

        def near(number: int) -> bool:
            spread = self._spread(self._variance(rank < number, above, variances), number)
            return bool(self.counts[rank < number].sum() <= _FAR * spread)

        numbers = range(len(distances), 0, -1)
        return np.asarray(rank < len(numbers) - bisect_left(numbers, True, key=near))

    def _spread(self, variance: Any, sets: int) -> Floats:
        """Return the standard deviation of the estimates of so many empty sets, from the variance of the noise."""
        records = sets * self.each / 6.0 if self.stratified else self.each + _POSITIVE * np.sqrt(variance)
        return np.asarray(np.sqrt(variance + self.each * records))

    def _variance(self, cells: Booleans, above: Sequence[Integers], variances: Sequence[Floats]) -> float:
        """Return the variance of the sum of some cells' estimates."""
        total, parts = 0.0, cells.astype(np.float64)  # how much of a set's error is theirs
        for upper, variance in zip(above, variances, strict=False):
            share = np.bincount(upper, weights=variance * parts) / np.bincount(upper, weights=variance)
            total += float(variance @ (parts - share[upper]) ** 2)
            parts = share
        return total


def halves(size: int) -> list[tuple[Integers, float]]:
    """Return sets of neighbouring cells, halved again and again, none of them measured."""
    return [(np.arange(size) >> depth, 0.0) for depth in range(1, (size - 1).bit_length() + 1)]


_MISSED = 1e-3  # probability that some withheld cell holds more than is taken for possible
_PARTS = 64  # of equal mass, in order of their values, into which the records are cut


@dataclass(frozen=True)
class UnseenCells:
    """Cells of which a release tells nothing, and what bounds take as possible there."""

    cells: Booleans
    # the largest share of the records in one cell, any of which a threshold withheld; None where noise hides cells,
    # which hold what the draws say, or are empty, all or on one side
    most: float | None = None

    @classmethod
    def withheld(cls, likelihood: likelihoods.ThresholdedCounts, release: Observation) -> UnseenCells:
        """Return the cells of which nothing was released; ``most`` is of the table."""
        cells = ~(release.values > 0)  # no count that reached the threshold, or no record
        noise = Noise.from_law(likelihood.law, likelihood.scale)
        missed = _MISSED / max(1, int(cells.sum()))
        possible = np.arange(likelihood.threshold + int(noise.reach) + 2)
        most = int(possible[np.argmax(noise.below(likelihood.threshold - possible) <= missed)])
        return cls(cells, min(1.0, most / release.n))

    def of_population(self, n: int) -> UnseenCells:
        """Return what may lie in these cells of the population, from which a table of ``n`` records was drawn."""
        if self.most is None:
            return self
        maximum = special.gammaincinv(round(self.most * n) + 1.0, 1.0 - _MISSED / max(1, int(self.cells.sum())))
        return UnseenCells(self.cells, min(1.0, float(maximum) / n))

    def part(self, kept: Any) -> UnseenCells:
        """Return those in a part of the support, each of which may hold all that lies in the part."""
        return UnseenCells(self.cells[kept], None if self.most is None else 1.0)

    def message(self, masses: Floats) -> str:
        """Return what is assumed of these cells, in words, from the masses of all cells, shape (draws, S)."""
        share = percent(float(masses[:, self.cells].sum(axis=1).mean()))
        if self.most is None:
            return (
                f"the release cannot tell some neighbouring cells from empty ones. On average the draws put about "
                f"{share} of the records there. Intervals also allow for these cells to be empty. In regressions and "
                "functions of your own, the prior decides"
            )
        return (
            f"nothing was released of cells that hold about {share} of the records (posterior mean). Intervals hold "
            f"wherever in these cells they lie, at most {percent(self.most)} in each. In groups, regressions and "
            "functions of your own, the prior says where they lie"
        )

    def lines(self, column: Column, codes: npt.NDArray[Any], draws: Draws) -> Iterator[tuple[Line, Line]]:
        """Yield a column at the lower and the upper ends of cells, for each case of which cells are empty or placed."""
        values = extremes(column, codes)[0]
        if self.most is not None:
            yield _placed(column, np.asarray(codes), draws, self.cells & ~np.isnan(values), self.most)
            return
        masses = np.where(np.isnan(values), 0.0, draws.weights)  # nulls are left out
        cases = [np.zeros_like(self.cells), self.cells]
        if ordered(column):
            order = np.argsort(values, kind="stable")[: max(1, np.count_nonzero(~np.isnan(values)))]
            reached = np.cumsum(np.nan_to_num(masses).mean(axis=0)[order])
            median = values[order[np.searchsorted(reached, 0.5 * reached[-1])]]
            cases += [self.cells & (values < median), self.cells & (values > median)]
        for empty in {cells.tobytes(): cells for cells in cases}.values():
            remaining = np.where(empty, 0.0, masses)
            part = remaining.sum(axis=1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):  # the others take their mass, if there are any
                weights = np.where(part > 0.0, remaining * (masses.sum(axis=1, keepdims=True) / part), masses)
            yield at_ends(column, codes, Draws(weights), 0)


def _placed(column: Column, codes: npt.NDArray[Any], draws: Draws, cells: Booleans, most: float) -> tuple[Line, Line]:
    """Return a column where the values in withheld cells are least, and greatest, at each rank or of each label."""
    # Without an order these are shares of different distributions, and add up to more than one.
    withheld, weights = draws.weights[:, cells].sum(axis=1), np.where(cells, 0.0, draws.weights)
    labels, kinds = np.unique(codes[cells], return_inverse=True)
    room = most * np.bincount(kinds).astype(np.float64)
    if ordered(column) and not len(labels):
        return at_ends(column, codes, draws, 0)
    if ordered(column):
        by_value = np.argsort(extremes(column, labels)[0], kind="stable")
        labels, room = labels[by_value], room[by_value]
        room *= max(1.0, float(withheld.max()) / float(room.sum()))
        ranks, last = withheld[:, None] * np.arange(_PARTS + 1) / _PARTS, len(room) - 1
        lowest = np.minimum(np.searchsorted(np.cumsum(room), ranks[:, :-1], side="right"), last)
        room = np.cumsum(room[::-1])
        highest = last - np.minimum(np.searchsorted(room, withheld[:, None] - ranks[:, 1:], side="right"), last)
        parts = np.repeat(withheld[:, None] / _PARTS, _PARTS, axis=1)
        ends = (labels[lowest], parts), (labels[highest], parts)
    else:
        present = ~np.isnan(extremes(column, codes)[0])
        codes, weights = codes[present], weights[:, present]
        with np.errstate(invalid="ignore", divide="ignore"):  # a draw of nulls only has no shares: NaN says so
            total = (weights.sum(axis=1) + withheld)[:, None]
            weights, greatest = weights / total, np.minimum(withheld[:, None], room) / total
            unlabelled = np.full(len(withheld), -1), withheld[:, None] / total
            ends = unlabelled, (np.broadcast_to(labels, greatest.shape), greatest)
    least, greatest = (Draws(weights, Records(columns=(placed.ravel(),)), parts) for placed, parts in ends)
    return Line(column, codes, least, 0, "least"), Line(column, codes, greatest, 0, "most")


def hidden(
    release: Observation, noise: float, *, stratified: bool = False, consistent: Consistent | None = None
) -> UnseenCells | None:
    """Return the cells, or leaves of a tree, that noise does not let a release tell from empty ones, if any."""
    values, order, sets, least = release.values, np.arange(len(release.values)), halves(len(release.values)), 2
    if consistent is not None:
        order = consistent.tree.in_order()
        sets, least = sets_of(consistent.tree, consistent.measured, consistent.above), _LEAST
    each, counts = 0.0, values + (release.n - values.sum()) / len(values)
    if isinstance(release, ReleasedRecords):
        each = release.n / max(1.0, float(values.sum()))
        counts = each * values
    cells = np.empty(len(values), dtype=bool)
    cells[order] = CellEstimates(counts[order], noise, sets, each, stratified, least).hidden()
    if not cells.any():
        return None
    return UnseenCells(cells)


# Shapes within cells: nothing was seen of them, so they are draws of the prior.

MOST_PIECES = 1 << 26
_LEFT = 1e-6  # expected share of a cell that the last value takes over from the infinitely many that follow


def shapes(domain: Domain, alpha: Floats, masses: Floats, rng: np.random.Generator) -> tuple[Records, Floats]:
    """Draw a Dirichlet process within each cell, uniform base, for each row of masses: values, and their masses."""
    (column,) = domain.columns.values()
    low, high = (np.asarray(end, dtype=np.float64) for end in column.ends(np.arange(len(alpha))))
    sticks = [max(1, math.ceil(math.log(_LEFT) / math.log(a / (1.0 + a)))) for a in alpha.tolist()]
    if len(masses) * sum(sticks) > MOST_PIECES:
        raise ParameterError("the shapes within cells do not fit in memory. Ask for fewer draws")
    weights = []
    for cell, count in enumerate(sticks):
        breaks = rng.beta(1.0, alpha[cell], size=(len(masses), count))
        breaks[:, -1] = 1.0
        remaining = np.cumprod(np.column_stack((np.ones(len(masses)), 1.0 - breaks[:, :-1])), axis=1)
        weights.append(masses[:, cell, None] * breaks * remaining)
    place = np.repeat(np.arange(len(alpha)), sticks)
    values = low[place] + (high - low)[place] * rng.random((len(masses), len(place)))
    return Records(columns=(values.ravel(),)), np.concatenate(weights, axis=1)
