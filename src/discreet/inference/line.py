"""One column of a block of posterior draws, on the line: single values, or cells of even mass; and functionals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet._core.boundary import sealed
from discreet._core.errors import real
from discreet._core.numeric import Booleans, Floats, Indices
from discreet.domain import Column, Records, cell_span, coin_ends

_LEAST = 1e-300


@sealed
class Draws:
    """A block of ``D`` draws of a probability measure.

    ``weights``, shape (D, S): mass on each of the ``S`` records of the posterior's support.
    ``own``: ``D * T`` records, row by row: where each draw has ``T`` records of its own.
    ``own_weights``, shape (D, T): their mass; 0 fills up rows. Each row of ``weights`` and ``own_weights`` together
    sums to one.
    """

    __slots__ = ("own", "own_weights", "weights")

    def __init__(self, weights: Floats, own: Records | None = None, own_weights: ArrayLike | None = None) -> None:
        self.weights, self.own, self.own_weights = weights, own, np.empty((len(weights), 0))
        if own_weights is not None:
            self.own_weights = np.asarray(own_weights, dtype=np.float64)

    def sample(self, support: Records, row: int, size: int, rng: np.random.Generator) -> Records:
        """Return independent records from one draw."""
        masses = np.concatenate((self.weights[row], self.own_weights[row]))
        index = np.searchsorted(np.cumsum(masses)[:-1] / masses.sum(), rng.random(size), side="right")
        if self.own is not None:
            width = self.own_weights.shape[1]
            support = Records.concatenate([support, self.own.take(slice(row * width, (row + 1) * width))])
        return support.take(index)


def piece_ends(column: Column, codes: NDArray[Any]) -> tuple[Floats, Floats, float]:
    """Return the first and last value of each record's piece, and the step between its values (0 in an interval)."""
    # Columns without an order have their codes for values, and open labels NaN for a null and 0 otherwise.
    if column.open:
        values = np.where([label is None for label in codes], np.nan, 0.0)
        return values, values, 0.0
    if column.labels is not None:
        values = np.where(np.asarray(codes) == column.values, np.nan, codes).astype(np.float64)
        return values, values, 0.0
    ends, step = cell_span(column, np.asarray(codes)), 0.0
    if getattr(column, "_groups", None) is not None:
        step = float(column._stride * column._unit)  # type: ignore[attr-defined]
    return column.ends(ends[0])[0], column.ends(ends[1])[1], step


def extremes(column: Column, codes: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the least and the greatest value that a record of each cell may have; an interval lacks its upper edge."""
    edges = getattr(column, "_edges", None)
    if edges is None:
        return piece_ends(column, codes)[:2]
    last = np.nextafter(edges[1:], -np.inf)
    last[-1] = edges[-1]
    cells = np.asarray(codes, dtype=np.int64)
    null = cells == column.values
    ends = cell_span(column, np.where(null, 0, cells))
    return np.where(null, np.nan, edges[ends[0]]), np.where(null, np.nan, last[ends[1]])


class Pieces(NamedTuple):
    """Pieces of a block of draws along one column; those that are null have weight 0."""

    codes: NDArray[Any]  # as the ends, shape (1, A) where all draws have the same pieces, else (D, A)
    low: Floats
    high: Floats
    weights: Floats  # (D, A)


class Line:
    """A block of draws along one column, nulls left out; with an ``end``, the mass of each cell lies at that end."""

    def __init__(
        self, column: Column, codes: NDArray[Any], draws: Draws, place: int, end: Literal["least", "most"] | None = None
    ) -> None:
        self._column, self.split, codes = column, column.halves is not None, np.asarray(codes)
        own = codes[:0] if draws.own is None else np.asarray(draws.own.columns[place])
        self.step = 0.0 if end else piece_ends(column, codes[:1])[2]
        parts = []
        for part, shape, masses in ((codes, (1, -1), draws.weights), (own, draws.own_weights.shape, draws.own_weights)):
            if end is None:
                low, high, _ = piece_ends(column, part)
            else:
                low = high = extremes(column, part)[end == "most"]
            parts.append(Pieces(part.reshape(shape), low.reshape(shape), high.reshape(shape), masses))
        nulls = [np.isnan(part.low) for part in parts]
        if any(null.any() for null in nulls):
            parts = [
                Pieces(part.codes, *(np.where(null, 0.0, values) for values in part[1:]))
                for part, null in zip(parts, nulls, strict=True)
            ]
            total = sum(part.weights.sum(axis=1, keepdims=True) for part in parts)
            with np.errstate(invalid="ignore", divide="ignore"):  # a draw of nulls only has no values: NaN says so
                parts = [part._replace(weights=part.weights / total) for part in parts]
        self.shared, self.own = parts

    def _sum(self, number: Callable[[Pieces], Floats]) -> Floats:
        """Return the mean of a number of each piece, draw by draw."""
        own = np.einsum("dt,dt->d", self.own.weights, number(self.own))
        return np.asarray(self.shared.weights @ number(self.shared)[0] + own)

    def mean(self) -> Floats:
        """Return the mean of each draw: of its coins, where cells are split."""
        if self.split:
            return self._sum(lambda pieces: np.nan_to_num(coin_ends(self._column, pieces.codes)))
        return self._middle()

    def _middle(self) -> Floats:
        """Return the mean of each draw, its cells evenly filled."""
        return self._sum(lambda pieces: (pieces.low + pieces.high) / 2)

    def variance(self) -> Floats:
        """Return the variance of each draw; of ``c`` points in a piece it is ``s^2 (c^2 - 1) / 12``."""
        if self.split:
            return np.add(*self.coin_variances()) / 2.0
        mean = self._middle()
        origin = float(np.nan_to_num(mean).mean())  # a shift keeps the sums of squares small
        squares = self._sum(lambda pieces: ((pieces.low + pieces.high) / 2 - origin) ** 2)
        inside = self._sum(lambda pieces: ((pieces.high - pieces.low + self.step) ** 2 - self.step**2) / 12.0)
        return np.maximum(squares - (mean - origin) ** 2, 0.0) + inside

    def coin_variances(self) -> tuple[Floats, Floats]:
        """Return the least and the greatest variance of each draw's values, by its coins: of all mass at their ends."""
        # Within a cell of width w, of a mean at the share m of it, values have a variance of 0 to m (1 - m) w^2.
        column, (codes, _, _, weights) = self._column, self.shared
        low, high = cell_span(column, codes[0])
        cells, cell = np.unique(low, return_inverse=True)
        order, starts = np.argsort(cell, kind="stable"), np.searchsorted(np.sort(cell), np.arange(len(cells)))
        mass = np.add.reduceat(weights[:, order], starts, axis=1)
        upper = np.add.reduceat((weights * (codes > low))[:, order], starts, axis=1)
        width = np.nan_to_num(column.ends(high)[1] - column.ends(low)[0])[order][starts]
        within = (upper - upper**2 / np.maximum(mass, _LEAST)) @ width**2
        ends = np.nan_to_num(coin_ends(column, codes[0]))
        mean = weights @ ends
        most = np.maximum(weights @ (ends - mean.mean()) ** 2 - (mean - mean.mean()) ** 2, 0.0)
        return np.maximum(most - within, 0.0), most

    def equal(self, code: Any) -> Floats:
        """Return the mass of one code in each draw: for columns without an order."""
        return self._sum(lambda pieces: np.asarray(pieces.codes == code, dtype=np.float64))

    def at_most(self, value: float, *, strict: bool = False) -> Floats:
        """Return the mass of ``(-inf, value]`` in each draw, or of ``(-inf, value)``."""

        def reached(distance: Floats) -> Floats:
            """Return how many of the points 0, 1, ... lie within a distance."""
            return np.ceil(distance) if strict else np.floor(distance) + 1.0

        def share(pieces: Pieces) -> Floats:
            length, distance = pieces.high - pieces.low, value - pieces.low
            if self.step:
                points = np.rint(length / self.step) + 1.0
                return np.clip(reached(distance / self.step) / points, 0.0, 1.0)
            single = length == 0.0
            return np.clip(np.where(single, reached(distance), distance / np.where(single, 1.0, length)), 0.0, 1.0)

        return self._sum(share)

    def shares_at_most(self, points: Floats) -> Floats:
        """Return the mass up to each point, a row per draw."""
        return np.stack([self.at_most(float(value)) for value in points], axis=1)

    @cached_property
    def _ordered(self) -> tuple[Floats, Floats, Indices, Floats]:
        """Return the first value of each draw's pieces in order, the mass up to each, their order, and all lengths."""
        order = np.argsort(self.shared.low[0], kind="stable")  # so that only what draws do not share is out of order
        low, high, weights = _joined(Pieces(*(part[:, order] for part in self.shared)), self.own)
        order = np.argsort(low, axis=1, kind="stable")
        lows, reached = _taken(low, order), _taken(weights, order)
        return lows, np.cumsum(reached, axis=1, out=reached), order, high - low

    def quantile(self, q: float) -> Floats:
        """Return the least value at which the mass reaches ``q``, in each draw."""
        level = real("the level of a quantile", q, above=0, below=1) * (1.0 - 1e-12)
        lows, reached, order, lengths = self._ordered
        last = np.minimum((reached < level).sum(axis=1), reached.shape[1] - 1)[:, None]
        low = _taken(lows, last)
        length = _taken(lengths, _taken(order, last))
        if length.any():  # pieces of one column are the same, or apart
            rows = np.arange(len(reached))[:, None]
            fewer, end = (side.sum(axis=1, keepdims=True) for side in (lows < low, lows <= low))
            below = np.where(fewer > 0, reached[rows, fewer - 1], 0.0)
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.clip((level - below) / (reached[rows, end - 1] - below), 0.0, 1.0)
            if self.step:
                points = np.rint(length / self.step) + 1.0
                low = low + self.step * np.maximum(np.ceil(share * points * (1.0 - 1e-12)) - 1.0, 0.0)
            else:
                low = low + share * length
        return np.where(np.isnan(reached[:, -1]), np.nan, low[:, 0])


def _taken(values: Any, order: Indices) -> Any:
    """Return each row's values in an order, which may be that of all rows."""
    if len(order) == 1:
        return np.take(values, order[0], axis=1)
    return np.take_along_axis(values, order, axis=1)


def _joined(shared: Pieces, own: Pieces) -> tuple[Floats, Floats, Floats]:
    """Return the first and last values, and the weights, of all pieces of each draw."""
    if not own.weights.shape[1]:
        return shared[1:]
    shape = shared.weights.shape
    low, high, weights = (
        np.concatenate((np.broadcast_to(part, shape), own_part), axis=1)
        for part, own_part in zip(shared[1:], own[1:], strict=True)
    )
    return low, high, weights


@dataclass(frozen=True)
class CellSets:
    """Draws of the masses of sets of neighbouring cells of a column, within which each cell has a fixed share."""

    set_of: Indices  # the set of each cell, numbered in order
    shares: Floats  # of each cell in its set
    masses: Floats = field(default_factory=lambda: np.empty((0, 0)))  # (draws, sets)

    def resolved(self, values: Floats, hidden: Booleans, cuts: Indices) -> tuple[Indices, Floats]:
        """Return cells that stand for all, and their masses, (draws, cells): exact up to each cut, and in the mean."""
        # Sets are cut further, and each part stands on two of its cells, with its mean and nearly its variance. Cells
        # that may be empty, hidden, stand for themselves only. Of a null the value is NaN.
        count = len(values)
        changes = np.flatnonzero(np.diff(4 * self.set_of + 2 * np.isnan(values) + hidden)) + 1
        starts = np.unique(np.concatenate(([0], changes, np.clip(cuts, 0, count - 1))))
        ends = np.append(starts[1:], count) - 1
        part, line = np.repeat(np.arange(len(starts)), ends - starts + 1), np.nan_to_num(values)
        share = np.add.reduceat(self.shares, starts)
        inside = np.where(share[part] > 0.0, self.shares / np.maximum(share[part], _LEAST), 0.0)
        mean = np.clip(line[starts] + np.add.reduceat(inside * (line - line[starts][part]), starts), None, line[ends])
        spread = np.sqrt(np.add.reduceat(inside * (line - mean[part]) ** 2, starts))
        present = np.isfinite(values)
        low = np.searchsorted(values[present], mean - spread, side="right") - 1
        high = np.searchsorted(values[present], mean + spread, side="left")
        low, high = np.clip(low, starts, ends), np.clip(high, starts, ends)
        apart = line[high] - line[low]
        upper = np.where(apart > 0.0, (mean - line[low]) / np.where(apart > 0.0, apart, 1.0), 0.0)
        cells = np.concatenate((low, high))
        own = np.concatenate((share * (1.0 - upper), share * upper))
        kept = np.flatnonzero((own > 0.0) | (np.arange(len(own)) < len(low)))
        kept = kept[np.argsort(cells[kept], kind="stable")]
        return cells[kept], self.masses[:, self.set_of[cells[kept]]] * own[kept]


def readable(column: Column, codes: Any) -> Any:
    """Return positions, or the labels of an unordered column."""
    if column.open:
        return np.asarray(codes, dtype=object)
    if column.labels is not None and not column.on_a_line:
        return np.array([*column.labels, None], dtype=object)[np.asarray(codes, dtype=np.int64)]
    return column.positions(codes)


def at_ends(column: Column, codes: NDArray[Any], draws: Draws, place: int) -> tuple[Line, Line]:
    """Return draws with each cell's mass at its least and at its greatest value: one line where these are the same."""
    least = Line(column, codes, draws, place, "least")
    if draws.own is None and np.array_equal(*extremes(column, codes), equal_nan=True):
        return least, least
    return least, Line(column, codes, draws, place, "most")


def variances(least: Line, most: Line) -> tuple[Floats, Floats]:
    """Return the least and the greatest variance of each draw, over all distributions within cells."""
    # The least mean square distance from a centre to the nearest, and to the furthest, value of each cell: the latter
    # by the minimax theorem, since a cell's mass may be split between its ends.
    if least is most:
        return least.variance(), least.variance()
    if least.split:
        return least.coin_variances()
    low, _, weights = _joined(least.shared, least.own)
    _, high, _ = _joined(most.shared, most.own)
    centre = _centre_of_nearest(weights, low, high)
    smallest = (weights * (np.clip(centre, low, high) - centre) ** 2).sum(axis=1)
    centre = _centre_of_furthest(weights, low, high)
    return smallest, (weights * np.maximum(centre - low, high - centre) ** 2).sum(axis=1)


def _centre_of_nearest(weights: Floats, low: Floats, high: Floats) -> Floats:
    """Return the centre that is the mean of the values nearest to it, draw by draw."""
    # Between ends of cells that mean grows with the centre by the mass of the cells that the centre lies in.
    ends = np.concatenate((low, high), axis=1)
    order = np.argsort(ends, axis=1, kind="stable")
    ends = _taken(ends, order)
    inside = np.cumsum(_taken(np.concatenate((weights, -weights), axis=1), order), axis=1)
    rises = inside[:, :-1] * np.diff(ends, axis=1)
    means = np.cumsum(np.concatenate(((weights * low).sum(axis=1, keepdims=True), rises), axis=1), axis=1)
    crossed = means <= ends
    crossed[:, -1] = True
    upper = np.argmax(crossed, axis=1)[:, None]
    lower = np.maximum(upper - 1, 0)
    least, most = _taken(ends, lower), _taken(ends, upper)
    slope = np.maximum(1.0 - _taken(inside, lower), _LEAST)
    return np.asarray(np.clip(least + (_taken(means, lower) - least) / slope, least, most))


def _centre_of_furthest(weights: Floats, low: Floats, high: Floats) -> Floats:
    """Return the centre that is the mean of the ends furthest from it, or the middle of the cell that is split."""
    # Between middles of cells that mean is constant; at each it falls.
    middles = low + (high - low) / 2
    order = np.argsort(middles, axis=1, kind="stable")
    middles = _taken(middles, order)
    falls = np.cumsum(_taken(weights * (high - low), order), axis=1)
    means = (weights * high).sum(axis=1, keepdims=True) - np.concatenate((np.zeros((len(falls), 1)), falls), axis=1)
    crossed = means[:, :-1] <= middles
    upper = np.where(crossed.any(axis=1), np.argmax(crossed, axis=1), middles.shape[1])[:, None]
    least = _taken(middles, np.maximum(upper - 1, 0))
    mean = _taken(means, upper)
    return np.asarray(np.where(upper > 0, np.maximum(least, mean), mean))
