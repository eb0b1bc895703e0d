r"""Filling the deficits of a signed measure on a line at least cost: :math:`\min\sum_i(x_{i+1}-x_i)|F_i-H_i|`.

``F``, ``H``: distribution functions of the masses, and of what is kept less what is created, whose falls are bounded.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.numeric import isotonic

_SEARCH = 100  # most prices of created mass that are tried; some twenty are enough for no gap at all
_ROUNDING = 1e-14
_SHORT, _GROUP = 4096, 16  # points from which a coarser line is asked first, and how many of its points become one
_EAGER = 1.001  # a price is taken so much further than where the fall should be right: more each time


class LineFilling(NamedTuple):
    """What remains at each point, the cost of what was sent, and the proof: minus the price of a unit at each point."""

    remains: Floats
    cost: float
    potential: Floats


def fill_line(masses: Floats, positions: Floats, *, created: float, tolerance: float = 0.0) -> LineFilling:
    """Fill the negative masses, at increasing positions, from the positive ones and a created mass put anywhere."""
    # The masses sum to at least -created. tolerance: by how much the cost may exceed the least; rounding apart, it does
    # not where nothing is created.
    gaps = np.diff(positions)
    walk = np.cumsum(masses)
    total, signed = float(walk[-1]), walk[:-1]
    if created > _ROUNDING * float(np.abs(masses).sum()):
        fitted, proof, price = _bounded_fall(signed, gaps, total, created, tolerance)
    else:
        fitted, price = np.clip(isotonic(signed, gaps), 0.0, total), np.inf
        proof = fitted
    remains = np.maximum(np.diff(fitted, prepend=0.0, append=total), 0.0)
    potential = _largest_potential(signed, proof, positions, total, price)
    return LineFilling(remains, float(gaps @ np.abs(signed - fitted)), potential)


class _PricedFit(NamedTuple):
    """A fit at a price, its cost, and by how much it falls, in all, on its way from 0 to the total."""

    price: float
    values: Floats
    cost: float
    fall: float

    @classmethod
    def at(cls, price: float, values: Floats, signed: Floats, gaps: Floats, total: float) -> _PricedFit:
        fall = float(np.maximum(-np.diff(values, prepend=0.0, append=total), 0.0).sum())
        return cls(price, values, float(gaps @ np.abs(signed - values)), fall)


def _bounded_fall(
    signed: Floats, gaps: Floats, total: float, created: float, tolerance: float
) -> tuple[Floats, Floats, float]:
    """Return a fit that falls by at most ``created``, and for the proof the fit at one price, and that price."""
    # Cost and fall of the fit at a price give a tangent of the concave dual function of the price. Two fits, of which
    # one falls too much, mix to one that falls as it may and costs no more than the mixture of their costs. The search
    # starts at the price of a coarser line, goes on until it has been too low and too high, then to where the two
    # tangents meet, and ends when the mixture costs no more than is proved.
    low = _PricedFit.at(0.0, signed, signed, gaps, total)
    if low.fall <= created:
        return signed, signed, 0.0
    dearest = 2.0 * float(gaps.sum())
    if not dearest:
        return np.zeros_like(signed), signed, 0.0
    line = _ColumnedLine(signed, gaps, total)
    tolerance = max(tolerance, _ROUNDING * dearest * low.fall)
    price, best, proved = _price_of_groups(signed, gaps, total, created, tolerance), low, -math.inf
    high: _PricedFit | None = None
    eager, attempts = _EAGER, 0
    while True:
        attempts += 1
        new = _PricedFit.at(price, line.fit(price), signed, gaps, total)
        value = new.cost + price * (new.fall - created)
        if value > proved:
            best, proved = new, value
        if new.fall > created and price < dearest:
            low = new
        else:
            high = new
        eager *= eager
        if high is None:
            price = min(dearest, price * eager * (new.fall / created) ** 1.5)
            continue
        if high.fall >= created:  # by no more than rounding: less cannot be created
            return high.values, high.values, high.price
        share = (created - high.fall) / (low.fall - high.fall)
        mixed = high.cost + share * (low.cost - high.cost)
        if mixed - proved <= tolerance or attempts >= _SEARCH:
            return high.values + share * (low.values - high.values), best.values, best.price
        price = (high.cost - low.cost) / (low.fall - high.fall)
        if not low.price:
            price = max(price, high.price / eager * (max(high.fall, 0.01 * created) / created) ** 1.5)


def _price_of_groups(signed: Floats, gaps: Floats, total: float, created: float, tolerance: float) -> float:
    """Return about the price of created mass, from every sixteenth point of a long line."""
    if len(gaps) < _SHORT:
        return 0.01 * float(gaps.sum())
    weights = np.add.reduceat(gaps, np.arange(0, len(gaps), _GROUP))
    values = signed[np.minimum(np.arange(len(weights)) * _GROUP + _GROUP // 2, len(gaps) - 1)]
    price = _bounded_fall(values, weights, total, created, tolerance)[2]
    return price or 0.5 * float(weights.mean())  # 0: what is dearer is sent within a group


class _ColumnedLine:
    r"""Fits ``H`` from 0 to the total that minimise :math:`\sum_i w_i|F_i-H_i|` plus a price times their fall.

    The ranks of ``H`` are found bit by bit, as in :func:`isotonic`; columns of points are passed down at once.
    """

    def __init__(self, signed: Floats, gaps: Floats, total: float) -> None:
        values = np.concatenate(([0.0], signed, [total]))
        heavy = 4.0 * float(gaps.sum())  # the ends stay where they are, whatever the price
        order = np.argsort(values, kind="stable")
        self._values = values[order]
        rank = np.empty(len(values), np.int32)
        rank[order] = np.arange(len(values), dtype=np.int32)
        self._rows = -(-len(values) // (4 * math.isqrt(len(values))))
        self._rank = self._in_columns(rank, rank[-1])
        self._weights = self._in_columns(np.concatenate(([heavy], gaps, [heavy])), 0.0)

    def fit(self, price: float) -> Floats:
        """Return the fit at a price of at most twice the line's length; its values are among ``F``, 0 and the total."""
        rows, columns = self._rank.shape
        size = len(self._values)
        low, high = np.full((rows, columns), -price), np.zeros((rows, columns))
        below, breaks = low.copy(), np.zeros((columns, rows), np.bool_)  # below that it is 1; next to another interval
        low[0, 0], below[-1, -1], breaks[-1, -1] = 0.0, 0.0, True
        least, step = np.zeros_like(self._rank), 1 << max(0, (size - 1).bit_length() - 1)
        while step:
            gained = _passed_down(np.where(self._rank >= least + step, -self._weights, self._weights), low, high)
            one = gained < below
            decided = np.flatnonzero((one | (gained >= 0.0)).T | breaks)
            choice = np.repeat(one.T.ravel()[decided], np.diff(decided, prepend=-1))
            least += np.where(choice.reshape(columns, rows).T, np.int32(step), np.int32(0))
            last = np.flatnonzero((choice[:-1] != choice[1:]) & ~breaks.ravel()[:-1])
            breaks.ravel()[last] = True
            edge = np.where(choice[last], -price, 0.0)
            below[last % rows, last // rows] = edge
            after = (last + 1) % rows, (last + 1) // rows
            low[after] = high[after] = edge
            step >>= 1
        return np.asarray(self._values[np.minimum(least.T.ravel()[:size], size - 1)][1:-1])

    def _in_columns(self, values: npt.NDArray[Any], filler: float) -> npt.NDArray[Any]:
        columns = -(-len(values) // self._rows)
        filled = np.append(values, np.full(columns * self._rows - len(values), filler, values.dtype))
        return np.ascontiguousarray(filled.reshape(columns, self._rows).T)


def _passed_down(steps: Floats, low: Floats, high: Floats) -> Floats:
    """Return ``D`` at each point, the step there more than the ``D`` before it, clipped; columns follow one another."""
    ends = np.repeat([[-np.inf], [np.inf]], steps.shape[1], axis=1)
    for step, least, most in zip(steps, low, high, strict=True):
        np.maximum(ends, least, out=ends)
        np.minimum(ends, most, out=ends)
        ends += step
    start, starts = 0.0, []
    for step, least, most in zip(steps.sum(axis=0).tolist(), *ends.tolist(), strict=True):
        starts.append(start)
        start = min(max(start + step, least), most)
    differences, above = np.empty_like(steps), np.array(starts)
    for step, least, most, here in zip(steps, low, high, differences, strict=True):
        np.maximum(above, least, out=here)
        np.minimum(here, most, out=here)
        above = np.add(here, step, out=here)
    return differences


def _largest_potential(signed: Floats, fitted: Floats, positions: Floats, total: float, price: float) -> Floats:
    """Return the largest potential that the fit allows: shortest paths along the line, both ways."""
    # It falls by the gap where mass moves to the right, rises by it where mass moves to the left, is at most 0, and at
    # most minus the price where mass is created. At the end it is made 1-Lipschitz in the coordinates themselves.
    gaps = np.diff(positions)
    step_on = np.where(signed > fitted, -gaps, gaps)
    step_back = np.where(signed < fitted, -gaps, gaps)
    falls = np.diff(fitted, prepend=0.0, append=total) < 0.0
    most = np.where(falls, -price, 0.0) if np.isfinite(price) else np.zeros(len(positions))
    onward, back = (np.concatenate(([0.0], np.cumsum(step))) for step in (step_on, step_back))
    forwards = onward + np.minimum.accumulate(most - onward)
    backwards = np.minimum.accumulate((most + back)[::-1])[::-1] - back
    potential = np.minimum(forwards, backwards)
    place = positions - positions[0]
    right = place + np.minimum.accumulate(potential - place)
    return np.asarray(np.minimum(right, np.minimum.accumulate((right + place)[::-1])[::-1] - place))
