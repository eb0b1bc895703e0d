"""One column of a block of posterior draws, laid out on the line, and the functionals of it.

A draw is a probability measure made of *pieces*: single values, or cells over which the mass is spread evenly (over the
interval, or over the equally spaced points of a cell of whole numbers, dates or decimals).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import real
from discreet.domain import Column, Records

_HALVINGS = 80
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

    def __init__(self, weights: Floats, own: Records | None = None, own_weights: Floats | None = None) -> None:
        self.weights, self.own = weights, own
        self.own_weights = np.empty((len(weights), 0)) if own_weights is None else own_weights

    def sample(self, support: Records, row: int, size: int, rng: np.random.Generator) -> Records:
        """Return independent records from one draw."""
        masses = np.concatenate((self.weights[row], self.own_weights[row]))
        index = np.searchsorted(np.cumsum(masses)[:-1] / masses.sum(), rng.random(size), side="right")
        columns = []
        for at, codes in enumerate(support.columns):
            pieces = codes
            if self.own is not None:
                own = self.own.columns[at].reshape(self.own_weights.shape)[row]
                pieces = np.concatenate((codes, own)) if len(codes) else own
            columns.append(pieces[index])
        return Records(columns=tuple(columns))


def piece_ends(column: Column, codes: npt.NDArray[Any]) -> tuple[Floats, Floats, float]:
    """Return the first and the last value of each record's piece, and the step between its values (0: an interval).

    Columns without an order have their codes for values, and open labels NaN for a null and 0 otherwise.
    """
    if column.open:
        values = np.array([np.nan if label is None else 0.0 for label in np.asarray(codes).tolist()])
        return values, values, 0.0
    if column.labels is not None:
        values = np.where(np.asarray(codes) == column.values, np.nan, codes).astype(np.float64)
        return values, values, 0.0
    low, high = column.ends(codes)
    grouped = getattr(column, "_groups", None) is not None
    return low, high, float(column._stride * column._unit) if grouped else 0.0  # type: ignore[attr-defined]


def extremes(column: Column, codes: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the least and the greatest value that a record of each cell may have; an interval lacks its upper edge."""
    edges = getattr(column, "_edges", None)
    if edges is None:
        return piece_ends(column, codes)[:2]
    last = np.nextafter(edges[1:], -np.inf)
    last[-1] = edges[-1]
    cells = np.asarray(codes, dtype=np.int64)
    null = cells == column.values
    inside = np.where(null, 0, cells)
    return np.where(null, np.nan, edges[inside]), np.where(null, np.nan, last[inside])


class Line:
    """A block of draws seen along one column; nulls are left out, so everything is about the values that are not null.

    ``codes``, shape (S,): the column of the support. ``at``: the column's place in the domain.
    ``end``: with "least" or "most", all the mass of a cell lies at its least or its greatest value.
    """

    def __init__(
        self,
        column: Column,
        codes: npt.NDArray[Any],
        draws: Draws,
        at: int,
        end: Literal["least", "most"] | None = None,
    ) -> None:
        def ends(codes: npt.NDArray[Any]) -> tuple[Floats, Floats]:
            if end is None:
                return piece_ends(column, codes)[:2]
            value = extremes(column, codes)[end == "most"]
            return value, value

        low, high = ends(codes)
        self.step = piece_ends(column, codes[:1])[2] if end is None else 0.0
        shape = draws.own_weights.shape
        if draws.own is not None:
            own = tuple(part.reshape(shape) for part in ends(draws.own.columns[at]))
        else:
            own = (np.empty(shape), np.empty(shape))
        valid, present = ~np.isnan(low), ~np.isnan(own[0])
        self.low, self.high = low[valid], high[valid]
        self.codes = np.asarray(codes)[valid]
        self.own_codes = None if draws.own is None else np.asarray(draws.own.columns[at]).reshape(shape)
        self.own_low, self.own_high = (np.where(present, end, 0.0) for end in own)
        weights, own_weights = draws.weights[:, valid], np.where(present, draws.own_weights, 0.0)
        if valid.all() and present.all():
            self.weights, self.own_weights = weights, own_weights
        else:
            total = weights.sum(axis=1, keepdims=True) + own_weights.sum(axis=1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):  # a draw of nulls only has no values: NaN says so
                self.weights, self.own_weights = weights / total, own_weights / total

    @property
    def draws(self) -> int:
        """Number of draws in the block."""
        return len(self.weights)

    def _sum(self, shared: Floats, own: Floats) -> Floats:
        total: Floats = self.weights @ shared + np.einsum("dt,dt->d", self.own_weights, own)
        return total

    def mean(self) -> Floats:
        """Return the mean of each draw."""
        return self._sum((self.low + self.high) / 2, (self.own_low + self.own_high) / 2)

    def variance(self) -> Floats:
        """Return the variance of each draw."""
        centre = self.mean()
        spread = self._sum(self._within(self.low, self.high), self._within(self.own_low, self.own_high))
        middle, own = (self.low + self.high) / 2, (self.own_low + self.own_high) / 2
        origin = float(np.nan_to_num(centre).mean())  # a shift keeps the sums of squares small
        squares = self._sum((middle - origin) ** 2, (own - origin) ** 2)
        return np.maximum(squares - (centre - origin) ** 2, 0.0) + spread

    def _within(self, low: Floats, high: Floats) -> Floats:
        """Return the variance within each piece: ``(h - l)^2 / 12``, or ``s^2 (c^2 - 1) / 12`` for ``c`` points."""
        length = high - low
        if self.step:
            return ((length + self.step) ** 2 - self.step**2) / 12.0
        return np.asarray(length**2 / 12.0)

    def equal(self, code: Any) -> Floats:
        """Return the mass of one code in each draw: for columns without an order."""
        own = np.zeros(self.own_weights.shape) if self.own_codes is None else self.own_codes == code
        return self._sum((self.codes == code).astype(np.float64), np.asarray(own, dtype=np.float64))

    def at_most(self, a: float | Floats, *, strict: bool = False) -> Floats:
        """Return the mass of ``(-inf, a]`` in each draw, or of ``(-inf, a)``; ``a`` is one number or one per draw."""
        point = np.asarray(a, dtype=np.float64)
        if point.ndim == 0:
            return self._sum(self._share(self.low, self.high, point, strict),
                             self._share(self.own_low, self.own_high, point, strict))  # fmt: skip
        point = point[:, None]
        shared = np.einsum("ds,ds->d", self.weights, self._share(self.low, self.high, point, strict))
        own = np.einsum("dt,dt->d", self.own_weights, self._share(self.own_low, self.own_high, point, strict))
        return np.asarray(shared + own)

    def shares_at_most(self, points: Floats) -> Floats:
        """Return the mass up to each point, a row per draw."""
        return np.stack([self.at_most(float(a)) for a in points], axis=1)

    def _share(self, low: Floats, high: Floats, a: Floats, strict: bool) -> Floats:
        """Return the share of each piece that is at most (or below) ``a``."""
        if self.step:
            points = np.rint((high - low) / self.step) + 1.0
            reached = np.ceil((a - low) / self.step) if strict else np.floor((a - low) / self.step) + 1.0
            return np.asarray(np.clip(reached, 0.0, points) / points)
        length = high - low
        single = length == 0.0
        inside = np.clip((a - low) / np.where(single, 1.0, length), 0.0, 1.0)
        return np.asarray(np.where(single, (low < a) if strict else (low <= a), inside), dtype=np.float64)

    @cached_property
    def _ordered(self) -> tuple[Floats, Floats]:
        """Return each draw's values in order, and the mass up to each."""
        order = np.argsort(self.low, kind="stable")
        shared, weights = self.low[order], self.weights[:, order]
        if self.own_weights.shape[1] == 0:
            return shared[None, :], np.cumsum(weights, axis=1)
        # What all draws share is in order already, which a stable sort makes use of.
        values = np.concatenate((np.broadcast_to(shared, weights.shape), self.own_low), axis=1)
        order = np.argsort(values, axis=1, kind="stable")
        masses = np.take_along_axis(np.concatenate((weights, self.own_weights), axis=1), order, axis=1)
        return np.take_along_axis(values, order, axis=1), np.cumsum(masses, axis=1)

    def quantile(self, q: float) -> Floats:
        """Return the least value at which the mass reaches ``q``, in each draw."""
        real("the level of a quantile", q, above=0, below=1)
        if (self.low == self.high).all() and (self.own_low == self.own_high).all():  # atoms
            values, cumulated = self._ordered
            place = np.minimum((cumulated < q * (1.0 - 1e-12)).sum(axis=1), values.shape[1] - 1)
            rows = np.zeros_like(place) if len(values) == 1 else np.arange(len(place))
            return np.where(np.isnan(cumulated[:, -1]), np.nan, values[rows, place])
        if self._apart:
            return self._within_a_piece(q * (1.0 - 1e-12))
        ends = [part for part in (self.low, self.own_low.ravel()) if part.size]
        least = min(float(part.min()) for part in ends)
        most = max(float(part.max()) for part in (self.high, self.own_high.ravel()) if part.size)
        below, reached = np.full(self.draws, np.nextafter(least, -np.inf)), np.full(self.draws, most)
        for _ in range(_HALVINGS):
            middle = below + (reached - below) / 2
            holds = self.at_most(middle) >= q * (1.0 - 1e-12)
            reached, below = np.where(holds, middle, reached), np.where(holds, below, middle)
        return np.where(np.isnan(self.at_most(most)), np.nan, reached)

    @cached_property
    def _apart(self) -> bool:
        """Whether all draws have the same pieces, none of which reaches into another."""
        order = np.argsort(self.low, kind="stable")
        beside = (self.low[order][1:] >= self.high[order][:-1]).all()
        return bool(beside) and not self.own_weights.shape[1] and len(order) > 0

    def _within_a_piece(self, level: float) -> Floats:
        """Return where the mass reaches a level, draw by draw: in the piece with which it does."""
        _, cumulated = self._ordered
        order = np.argsort(self.low, kind="stable")
        place = np.minimum((cumulated < level).sum(axis=1), len(order) - 1)
        rows, piece = np.arange(len(place)), order[place]
        mass, low, length = self.weights[rows, piece], self.low[piece], (self.high - self.low)[piece]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.clip(1.0 - (cumulated[rows, place] - level) / mass, 0.0, 1.0)
        if self.step:
            points = np.rint(length / self.step) + 1.0
            return np.asarray(low + self.step * np.maximum(np.ceil(share * points * (1.0 - 1e-12)) - 1.0, 0.0))
        return np.asarray(low + share * length)


def readable(column: Column, codes: Any) -> Any:
    """Return positions, or the labels of an unordered column."""
    if column.open:
        return np.asarray(codes, dtype=object)
    if column.labels is not None and not column.on_a_line:
        return np.array([*column.labels, None], dtype=object)[np.asarray(codes, dtype=np.int64)]
    return column.positions(codes)


def at_ends(column: Column, codes: npt.NDArray[Any], draws: Draws, at: int) -> tuple[Line, Line]:
    """Return draws with each cell's mass at its least and at its greatest value: one line where these are the same."""
    least = Line(column, codes, draws, at, "least")
    same = draws.own is None and np.array_equal(*extremes(column, codes), equal_nan=True)
    return least, least if same else Line(column, codes, draws, at, "most")


def variances(least: Line, most: Line) -> tuple[Floats, Floats]:
    """Return the least and the greatest variance of each draw, over all distributions within cells.

    They are the least, over centres, of the mean square distance to the nearest value of each cell, and to the furthest
    one: the latter by the minimax theorem, since a cell's mass may be split between its ends.
    """
    if least is most:
        return least.variance(), least.variance()
    weights, low, high = least.weights, least.low[None, :], most.low[None, :]
    if least.own_weights.shape[1]:
        shape = weights.shape
        weights = np.concatenate((weights, least.own_weights), axis=1)
        low = np.concatenate((np.broadcast_to(low, shape), least.own_low), axis=1)
        high = np.concatenate((np.broadcast_to(high, shape), most.own_low), axis=1)
    if not low.shape[1]:  # nulls only
        return least.variance(), most.variance()
    centre = _centre_of_nearest(weights, low, high)
    smallest = (weights * (np.clip(centre, low, high) - centre) ** 2).sum(axis=1)
    centre = _centre_of_furthest(weights, low, high)
    largest = (weights * np.maximum(centre - low, high - centre) ** 2).sum(axis=1)
    return smallest, largest


def _centre_of_nearest(weights: Floats, low: Floats, high: Floats) -> Floats:
    """Return the centre that is the mean of the values nearest to it, draw by draw.

    Between ends of cells that mean grows with the centre by the mass of the cells that the centre lies in.
    """
    ends = np.concatenate((low, high), axis=1)
    order = np.argsort(ends, axis=1, kind="stable")
    ends = np.take_along_axis(ends, order, axis=1)
    inside = np.cumsum(np.take_along_axis(np.concatenate((weights, -weights), axis=1), order, axis=1), axis=1)
    rises = inside[:, :-1] * np.diff(ends, axis=1)
    means = np.cumsum(np.concatenate(((weights * low).sum(axis=1, keepdims=True), rises), axis=1), axis=1)
    crossed = means <= ends
    crossed[:, -1] = True
    upper = np.argmax(crossed, axis=1)[:, None]
    lower = np.maximum(upper - 1, 0)
    least, most = np.take_along_axis(ends, lower, axis=1), np.take_along_axis(ends, upper, axis=1)
    slope = np.maximum(1.0 - np.take_along_axis(inside, lower, axis=1), _LEAST)
    return np.clip(least + (np.take_along_axis(means, lower, axis=1) - least) / slope, least, most)


def _centre_of_furthest(weights: Floats, low: Floats, high: Floats) -> Floats:
    """Return the centre that is the mean of the ends furthest from it, or the middle of the cell that is to be split.

    Between middles of cells that mean is constant; at each it falls.
    """
    middles = low + (high - low) / 2
    order = np.argsort(middles, axis=1, kind="stable")
    middles = np.take_along_axis(middles, order, axis=1)
    falls = np.cumsum(np.take_along_axis(weights * (high - low), order, axis=1), axis=1)
    means = (weights * high).sum(axis=1, keepdims=True) - np.concatenate((np.zeros((len(falls), 1)), falls), axis=1)
    crossed = means[:, :-1] <= middles
    upper = np.where(crossed.any(axis=1), np.argmax(crossed, axis=1), middles.shape[1])[:, None]
    least = np.take_along_axis(middles, np.maximum(upper - 1, 0), axis=1)
    mean = np.take_along_axis(means, upper, axis=1)
    return np.where(upper > 0, np.maximum(least, mean), mean)
