r"""Filling the deficits of a signed measure on a line at the least cost: a regression of its distribution function.

On a line, what moves past the gap behind the i-th point is the difference of two distribution functions: ``F``, that of
the signed masses, and ``H``, that of what is kept less what is created. The least cost is the minimum of
:math:`\sum_i (x_{i+1} - x_i) |F_i - H_i|` over functions ``H`` from 0 to the total that fall by no more, in all, than
the mass that may be created: a weighted L1 regression, isotonic where nothing is created.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LineFilling", "fill_line", "isotonic"]

Floats = npt.NDArray[np.float64]

_SEARCH = 100
"""Most prices of created mass that are tried; some ten are enough."""

_ROUNDING = 1e-14


class LineFilling(NamedTuple):
    """What is kept, and the proof.

    Parameters
    ----------
    kept : ndarray of float64, shape (V,)
        Mass left at each point, at least 0.
    cost : float
        Of what was sent.
    potential : ndarray of float64, shape (V,)
        Minus the price of a unit at each point: at most 0, 1-Lipschitz up to rounding.
    """

    kept: Floats
    cost: float
    potential: Floats


def fill_line(masses: Floats, positions: Floats, *, created: float) -> LineFilling:
    """Fill the negative masses from the positive ones, and from a created mass that may appear anywhere.

    Parameters
    ----------
    masses : ndarray of float64, shape (V,)
        Signed, with a sum of at least ``-created``; of at least 0 where nothing is created.
    positions : ndarray of float64, shape (V,)
        Increasing.
    created : float
        At least 0.

    Returns
    -------
    LineFilling
        Optimal. In ``O(V log V)`` array operations where nothing is created; otherwise a search for the price of
        created mass goes some ten times over the points that its being there can change.
    """
    gaps = np.diff(positions)
    walk = np.cumsum(masses)
    total, signed = float(walk[-1]), walk[:-1]
    if total < 0.0:
        fitted, proof, price = _bounded_fall(signed, gaps, total, created)
    else:
        fitted, price = np.clip(isotonic(signed, gaps), 0.0, total), np.inf
        proof = fitted
        if created > 0.0:
            dearest = -_potential(signed, fitted, positions, total, price)
            fitted, proof, price = _with_created(signed, gaps, total, created, fitted, dearest)
    kept = np.maximum(np.diff(fitted, prepend=0.0, append=total), 0.0)
    potential = _potential(signed, proof, positions, total, price)
    return LineFilling(kept, float(gaps @ np.abs(signed - fitted)), potential)


def isotonic(values: Floats, weights: Floats) -> Floats:
    r"""Return a non-decreasing ``G`` that minimises :math:`\sum_i w_i |G_i - F_i|`.

    Parameters
    ----------
    values, weights : ndarray of float64, shape (k,)
        ``F`` and ``w``, at least 0.

    Returns
    -------
    ndarray of float64, shape (k,)
        Of the same values as ``F``.

    Notes
    -----
    Whether ``G`` reaches a threshold is a regression of 0 and 1, solved by the least prefix sum of signed weights; and
    the solutions of growing thresholds can be taken nested. So the rank of each value of ``G`` is found bit by bit, for
    all points at once: the points that agree so far are neighbours.

    Examples
    --------
    >>> isotonic(np.array([1.0, 3.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0, 1.0])).tolist()
    [1.0, 2.0, 2.0, 4.0]
    """
    k = len(values)
    if not k:
        return values
    order = np.argsort(values, kind="stable")
    rank = np.empty(k, np.int64)
    rank[order] = np.arange(k)
    starts, least = np.zeros(1, np.int64), np.zeros(1, np.int64)
    step = 1 << max(0, (k - 1).bit_length() - 1)
    while step:
        lengths = np.diff(starts, append=k)
        sums = np.cumsum(np.where(rank >= np.repeat(least + step, lengths), weights, -weights))
        before = np.concatenate(([0.0], sums[starts[1:] - 1]))
        lowest = np.minimum.reduceat(sums, starts)
        there = np.flatnonzero(sums == np.repeat(lowest, lengths))
        first = there[np.searchsorted(there, starts)]
        cut = np.where(lowest < before, first + 1, starts)
        pairs = np.stack((starts, cut), axis=1).ravel()
        wide = np.stack((cut, starts + lengths), axis=1).ravel() > pairs
        starts = pairs[wide]
        least = np.stack((least, least + step), axis=1).ravel()[wide]
        step >>= 1
    return np.asarray(values[order[np.minimum(np.repeat(least, np.diff(starts, append=k)), k - 1)]])


def _with_created(
    signed: Floats, gaps: Floats, total: float, created: float, fitted: Floats, dearest: Floats
) -> tuple[Floats, Floats, float]:
    """Return what :func:`_bounded_fall` does, looking only where created mass can matter.

    Created mass makes no point dearer. Where the price is 0 without it, at points that keep some of their mass, it
    stays 0, and the line falls apart; a part that is nowhere as dear as created mass keeps its fit. The price of
    created mass is guessed from above: a guess is not too high where the parts it leaves ask for at least as much mass
    as may be created. The fit of the other parts is held by its two ends, at a weight that no price can move.
    """
    heavy = 2.0 * float(gaps.sum())
    starts = np.flatnonzero(np.append(True, dearest[1:-1] <= _ROUNDING * heavy))
    peaks = np.maximum.reduceat(np.maximum(dearest[:-1], dearest[1:]), starts)
    lengths = np.diff(starts, append=len(gaps))
    guess = 0.5 * float(peaks.max())
    while True:
        changed = np.repeat(peaks > guess, lengths)
        if changed.all():
            return _bounded_fall(signed, gaps, total, created)
        ends = ~changed & (np.append(True, changed[:-1]) | np.append(changed[1:], True))
        kept = changed | ends
        values = np.where(changed, signed, fitted)[kept]
        weights = np.where(changed, gaps, heavy)[kept]
        if _fall(_fit(values, weights, total, guess), total) >= created:
            break
        guess = 0.25 * guess if guess > 1e-3 * float(peaks.max()) else -1.0
    part, proof, price = _bounded_fall(values, weights, total, created, bottom=guess)
    both = []
    for found in (part, proof):
        whole = fitted.copy()
        whole[changed] = found[changed[kept]]
        both.append(whole)
    return both[0], both[1], price


def _fall(fitted: Floats, total: float) -> float:
    """Return by how much, in all, a fit falls on its way from 0 to the total."""
    return float(np.maximum(-np.diff(fitted, prepend=0.0, append=total), 0.0).sum())


def _bounded_fall(
    signed: Floats, gaps: Floats, total: float, created: float, bottom: float = 0.0
) -> tuple[Floats, Floats, float]:
    """Return the fit that falls by at most ``created``, and for the proof a fit at one price, and that price.

    Cost and fall of the fit at a price give a tangent of the concave dual function of the price. The next price is
    where the tangents on both sides of the maximum meet; it is the maximum when they are met there.
    """

    def fit(price: float) -> tuple[Floats, float, float]:
        fitted = _fit(signed, gaps, total, price)
        return fitted, float(gaps @ np.abs(signed - fitted)), _fall(fitted, total)

    top = 2.0 * float(gaps.sum())
    low = fit(bottom)
    if low[2] <= created:
        return low[0], low[0], bottom
    high = fit(top)
    if high[2] >= created:  # by no more than rounding: less cannot be created
        return high[0], high[0], top
    best = (high[1] + top * (high[2] - created), high[0], top)
    for _ in range(_SEARCH):
        price = (high[1] - low[1]) / (low[2] - high[2])
        met = low[1] + price * (low[2] - created)
        new = fit(price)
        value = new[1] + price * (new[2] - created)
        best = max(best, (value, new[0], price), key=lambda found: found[0])
        if value >= met - _ROUNDING * (abs(met) + price):
            break
        low, high = (new, high) if new[2] > created else (low, new)
    share = min(1.0, max(0.0, (created - high[2]) / (low[2] - high[2])))
    return high[0] + share * (low[0] - high[0]), best[1], best[2]


def _fit(signed: Floats, gaps: Floats, total: float, price: float) -> Floats:
    """Return ``H`` that minimises the cost plus ``price`` times its fall, from 0 to ``total``.

    The least cost up to a point, as a function of ``H`` there, is convex and piecewise linear with slopes from
    ``-price`` to 0. Its breakpoints are kept in two heaps; each point adds one and cuts both ends back to these slopes.
    The places of the cuts bound ``H`` on the way back.
    """
    left = [price]
    up, down = [(0.0, 0)], [(-0.0, 0)]
    lower, upper = [], []
    for i, (value, gap) in enumerate(zip(signed.tolist(), gaps.tolist(), strict=True), start=1):
        left.append(2.0 * gap)
        heapq.heappush(up, (value, i))
        heapq.heappush(down, (-value, i))
        lower.append(_cut(up, left, gap))
        upper.append(-_cut(down, left, gap))
    fitted, place = np.empty(len(lower)), total
    for i in range(len(lower) - 1, -1, -1):
        place = min(max(place, lower[i]), max(upper[i], lower[i]))
        fitted[i] = place
    return fitted


def _cut(heap: list[tuple[float, int]], left: list[float], amount: float) -> float:
    """Take an amount of slope from the lower end of the breakpoints, and return how far up that went."""
    place = -math.inf
    while heap:
        value, i = heap[0]
        slope = left[i]
        if slope > amount:
            left[i] = slope - amount
            return value if amount > 0.0 else place
        if slope > 0.0:
            place, amount = value, amount - slope
            left[i] = 0.0
        heapq.heappop(heap)
    return place


def _potential(signed: Floats, fitted: Floats, positions: Floats, total: float, price: float) -> Floats:
    """Return the largest potential that the fit allows: shortest paths along the line, both ways.

    It falls by the gap where mass moves to the right, rises by it where mass moves to the left, is at most 0, and at
    most minus the price where mass is created. It ends made 1-Lipschitz in the coordinates themselves, as a sum of
    many gaps is rounded.
    """
    gaps = np.diff(positions)
    step_on = np.where(signed > fitted, -gaps, gaps)
    step_back = np.where(signed < fitted, -gaps, gaps)
    falls = np.diff(fitted, prepend=0.0, append=total) < 0.0
    most = np.where(falls, -price, 0.0) if np.isfinite(price) else np.zeros(len(positions))
    on, back = (np.concatenate(([0.0], np.cumsum(step))) for step in (step_on, step_back))
    forwards = on + np.minimum.accumulate(most - on)
    backwards = np.minimum.accumulate((most + back)[::-1])[::-1] - back
    potential = np.minimum(forwards, backwards)
    place = positions - positions[0]
    right = place + np.minimum.accumulate(potential - place)
    return np.asarray(np.minimum(right, np.minimum.accumulate((right + place)[::-1])[::-1] - place))
