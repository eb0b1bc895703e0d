"""Votes of the private points for their nearest candidates: exact, and fast. See docs/theory/nearest-candidates.md."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from discreet._core.errors import ParameterError
from discreet._core.numeric import Booleans, Floats, Integers
from discreet.evolution.api import METRICS, settled_norm

Singles = npt.NDArray[np.float32]

_MOST_COORDINATES = 2**20
_ROWS, _COLUMNS = 256, 2**14  # points and candidates of one single-precision product: sixteen megabytes
_PAIRS = 2**20  # distances held at once elsewhere (by each thread): eight megabytes
# By norm, slope and offset in log10 V of the most coordinates at which a tree is measured to be the faster one.
_TREE_COORDINATES = {1.0: (2.0, -2.0), 2.0: (2.0, -2.5), np.inf: (5.0, -8.0)}


class Voters(NamedTuple):
    """Confidential points, how often each is held, by which unit (none where every record is one), and its label."""

    points: Floats
    frequencies: Integers
    owners: Integers | None = None
    labels: Integers | None = None

    def of_label(self, label: int) -> Voters:
        """Return the points of one label: all where they have none, or all have it."""
        if self.labels is None or (self.labels == label).all():
            return self
        index = np.flatnonzero(self.labels == label)
        owners = None if self.owners is None else self.owners[index]
        return Voters(self.points[index], self.frequencies[index], owners, self.labels[index])


class NearestCandidates:
    """Public candidates, shape (V, d), to search for the nearest to each point: docs/theory/nearest-candidates.md."""

    # Coordinates, of points too, are at most 1e150 in size. Of repeated candidates the first gets the votes.

    def __init__(
        self, candidates: Floats, *, norm: float = 2.0, method: Literal["auto", "tree", "blocks"] = "auto"
    ) -> None:
        points = np.asarray(candidates, dtype=np.float64)
        if not 1 <= points.shape[1] <= _MOST_COORDINATES:
            raise ParameterError(f"candidates must have 1 to {_MOST_COORDINATES:,} coordinates")
        self._count = len(points)
        # Where each distinct row stands first, in order; by its bytes, so that 0 and -0 both stay.
        rows = np.ascontiguousarray(points).view(np.dtype((np.void, points.itemsize * points.shape[1]))).ravel()
        self._first = np.sort(np.unique(rows, return_index=True)[1])
        self._candidates = points[self._first]
        self._norm = settled_norm(norm)
        count, d = self._candidates.shape
        self._slack: float = 8 * (d + count + 8) * 2.0**-53
        self.method: str = method
        if method == "auto":  # the one measured to be faster on normal points
            slope, offset = _TREE_COORDINATES[self._norm]
            self.method = "tree" if d <= slope * np.log10(count) + offset else "blocks"
        if self.method == "tree":
            self._tree = cKDTree(self._candidates)
        if self._norm == 2.0:  # shifted, scaled, and ``-c`` and ``|c|^2/2`` side by side: one product gives S
            self._centre = self._candidates.mean(axis=0)
            shifted = self._candidates - self._centre
            self._scale = 2.0 ** np.clip(-np.frexp(np.abs(shifted).max())[1], -500, 400)
            shifted *= self._scale
            halves = (shifted * shifted).sum(axis=1, keepdims=True) / 2
            self._largest = float(np.sqrt(2 * halves.max()))
            self._terms = np.hstack((-shifted, halves))
            columns = _blocks(len(shifted), _COLUMNS)
            self._tiles = [np.ascontiguousarray(self._terms[tile].T, dtype=np.float32) for tile in columns]

    def __len__(self) -> int:
        """Return the number V of candidates, repeated ones included."""
        return self._count

    def nearest(self, points: Floats) -> Integers:
        """Return the index of the candidate nearest to each point, the smallest where several are; confidential."""
        if len(self._candidates) == 1:
            return np.zeros(len(points), dtype=np.int64)
        return self._first[self._by_tree(points) if self.method == "tree" else self._by_blocks(points)]

    def several(self, points: Floats, count: int) -> Integers:
        """Return the ``count`` candidates nearest to each point, nearest first, ties by their index; confidential."""
        count = min(count, len(self._candidates))
        if count == 1:
            return self.nearest(points)[:, None]
        return np.asarray(self._first[self._by_distances(points, count)])

    def _by_distances(self, points: Floats, count: int) -> Integers:
        """Measure every distance, blocks of points side by side: cdist leaves the interpreter free while it runs."""

        def search(block: slice) -> Integers:
            distances = cdist(points[block], self._candidates, METRICS[self._norm])
            last = distances.min(axis=1, keepdims=True)
            if count > 1:
                last = np.partition(distances, count - 1, axis=1)[:, count - 1 : count]
            return self._ranked(points[block], distances <= self._reach(last), count)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = pool.map(search, _blocks(len(points), _PAIRS // len(self._candidates)))
            return np.concatenate([np.zeros((0, count), dtype=np.int64), *parts])

    def _ranked(self, points: Floats, possible: Booleans, count: int, columns: Integers | None = None) -> Integers:
        """Return the ``count`` of least R among each row's near candidates (of ``columns``), which are no fewer."""
        rows, places = np.nonzero(possible)
        if columns is not None:
            places = columns[rows, places]
        if len(rows) == len(points):  # one is near each
            return places[:, None]
        size = max(1, _PAIRS // points.shape[1])
        parts = [_reference(points[rows[b]], self._candidates[places[b]], self._norm) for b in _blocks(len(rows), size)]
        order: Integers = np.lexsort((places, np.concatenate(parts), rows))  # by row, then R, then index
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        return np.asarray(places[order[starts[:, None] + np.arange(count)]])

    def _by_tree(self, points: Floats) -> Integers:
        """Two neighbours of each point, sixteen where the second is as near, all where the sixteenth is."""
        nearest = np.empty(len(points), dtype=np.int64)
        rows = np.arange(len(points))
        for count in (2, 16):
            neighbours = min(count, len(self._candidates))
            parts = [rows[block] for block in _blocks(len(rows), _PAIRS // count)]
            rows = np.concatenate([rows[:0], *(self._undecided(points, part, neighbours, nearest) for part in parts)])
        nearest[rows] = self._by_blocks(points[rows])
        return nearest

    def _undecided(self, points: Floats, rows: Integers, count: int, nearest: Integers) -> Integers:
        """Fill in the rows for which the candidates that may be nearest are fewer than ``count``; return the others."""
        distances, columns = self._tree.query(points[rows], k=count, p=self._norm, workers=-1)
        possible = distances <= self._reach(distances[:, :1])
        nearest[rows] = columns[:, 0]
        decided: Booleans = ~possible[:, -1] | (count == len(self._candidates))
        tied = decided & possible[:, 1]
        nearest[rows[tied]] = self._ranked(points[rows[tied]], possible[tied], 1, columns[tied])[:, 0]
        return rows[~decided]

    def _by_blocks(self, points: Floats) -> Integers:
        """Measure every distance: by matrix products where the norm is one of them."""
        return self._by_products(points) if self._norm == 2.0 else self._by_distances(points, 1)[:, 0]

    def _reach(self, least: Floats) -> Floats:
        """Return up to which distance a candidate may be the nearest: the relative margin of the module."""
        return least * (1 + self._slack) + 1e-150

    def _factors(self, points: Floats, unit: float) -> tuple[Floats, Floats]:
        """Return the points' side of the product, and the margin of each in S: beyond every S for points far away."""
        factors = np.ones((len(points), points.shape[1] + 1))
        factors[:, :-1] = (points - self._centre) * self._scale
        distant = np.abs(factors).max(axis=1) > 2.0**60
        factors[distant] = 0.0
        total = np.where(distant, 2.0**100, np.linalg.norm(factors[:, :-1], axis=1)) + self._largest
        margin = unit * self._largest * total + 2.0**-53 * total**2 + 2.0**-126 * (1 + total)
        return factors, 3 * (points.shape[1] + 8) * margin

    def _by_products(self, points: Floats) -> Integers:
        """Single precision finds nearly all, whose nearest candidate stands clear; double leaves few to the others."""
        nearest = np.empty(len(points), dtype=np.int64)
        clear = np.empty(len(points), dtype=np.bool_)
        for block in _blocks(len(points), _ROWS):
            factors, margin = self._factors(points[block], 2.0**-24)
            nearest[block], least, runner_up = _two_least(factors.astype(np.float32), self._tiles)
            clear[block] = runner_up > least + margin
        close = np.flatnonzero(~clear)
        for block in _blocks(len(close), _PAIRS // len(self._candidates)):
            rows = close[block]
            factors, margin = self._factors(points[rows], 2.0**-53)
            score = factors @ self._terms.T
            candidates = score <= score.min(axis=1, keepdims=True) + margin[:, None]
            nearest[rows] = self._ranked(points[rows], candidates, 1)[:, 0]
        return nearest


def votes(chunks: Iterable[Voters], candidates: NearestCandidates, *, nearest: int = 1, of_unit: int = 0) -> Integers:
    r"""Return how many votes each candidate gets, shape (V,): exact, hence confidential."""
    # Every record votes once for each of its nearest candidates, so that one record replaced moves one vote for each.
    # Where ``of_unit`` is above 0 it is units that vote, each once for each of so many candidates that most of its
    # records would vote for, the smaller index first where several are as many. A unit lies within one chunk.
    total = np.zeros(len(candidates), dtype=np.int64)
    for points, frequencies, owners, _ in chunks:
        choices = candidates.several(points, nearest)
        ranks = choices.shape[1]
        times = np.repeat(frequencies, ranks)
        if not of_unit:
            np.add.at(total, choices.ravel(), times)
        elif owners is None:
            raise ParameterError("each point must have the number of its unit")
        else:
            pairs = np.stack((np.repeat(owners, ranks), choices.ravel()))
            (units, places), inverse = np.unique(pairs, axis=1, return_inverse=True)
            weights = np.zeros(len(units), dtype=np.int64)
            np.add.at(weights, inverse.ravel(), times)
            order = np.lexsort((places, -weights, units))
            units, places, weights = units[order], places[order], weights[order]
            starts = np.flatnonzero(np.diff(units, prepend=units[:1] - 1))
            rank = np.arange(len(units)) - np.repeat(starts, np.diff(starts, append=len(units)))
            np.add.at(total, places[(rank < of_unit) & (weights > 0)], 1)
    return total


def _reference(points: Floats, candidates: Floats, norm: float) -> Floats:
    """Return R of each point and the candidate beside it: the definition."""
    differences = np.abs(points - candidates)
    if norm == np.inf:
        return np.asarray(differences.max(axis=1))
    # Accumulating adds from first to last; a plain sum is free to group the terms.
    return np.add.accumulate(differences if norm == 1.0 else differences * differences, axis=1)[:, -1]


def _two_least(factors: Singles, tiles: list[Singles]) -> tuple[Integers, Floats, Floats]:
    """Return where each row's least score is, that score, and the second least, over all tiles of candidates."""
    rows = np.arange(len(factors))
    places, least = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), np.inf)
    runner_up, start = least.copy(), 0
    for tile in tiles:
        score = factors @ tile
        place = score.argmin(axis=1)
        lowest = score[rows, place].astype(np.float64)
        score[rows, place] = np.inf
        runner_up = np.minimum(np.maximum(least, lowest), np.minimum(runner_up, score.min(axis=1)))
        places = np.where(lowest < least, place + start, places)
        least, start = np.minimum(least, lowest), start + tile.shape[1]
    return places, least, runner_up


def _blocks(total: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of at most ``size``, and of at least one."""
    for start in range(0, total, max(1, size)):
        yield slice(start, start + max(1, size))
