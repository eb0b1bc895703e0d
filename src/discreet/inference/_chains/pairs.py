"""Moves of records between two cells: a slice sampler on the odds, for many chains and many pairs of cells at once.

Given the ``T`` records that two cells hold together, the posterior of the first one's count ``c`` may be a spike at 0,
spread evenly over the orders of magnitude, or narrow around a number that noise leaves little doubt about. On the scale
of the log-odds ``log(c / (T - c))``, with room of its own for 0 and for ``T``, all three are easy for a slice sampler,
which has nothing to tune. It is exact: ``c`` is uniform on an interval ``J_c`` of the line once a place in it is drawn,
and the slice sampler leaves the density ``p(c) / |J_c|`` of that place unchanged (Neal, 2003).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers

__all__ = ["CellPrior", "LogTerm", "move"]

LogTerm = Callable[[Indices, Integers], Floats]
"""``f(which, first)``: log-densities, up to constants, of pairs with ``first`` records in their first cells."""

_STEPS = 500
_TABLE = 32


class CellPrior:
    """The cells' prior terms ``log(Gamma(alpha_l + c) / Gamma(c + 1))``, up to a constant a cell.

    ``alpha``, shape (k,): Prior masses of the cells.

    Notes
    -----
    From a table below 32, by Stirling's series with two terms beyond: off by less than 1e-10 and the rounding of
    ``c log c``.
    """

    def __init__(self, alpha: Floats) -> None:
        from scipy.special import gammaln

        self._alpha = alpha
        distinct, self._row = np.unique(alpha, return_inverse=True)
        c = np.arange(_TABLE, dtype=np.float64)
        self._table = gammaln(distinct[:, None] + c) - gammaln(c + 1.0)

    def log(self, cells: Indices, c: Integers) -> Floats:
        """Return the terms of some cells at some counts."""
        upper: Any = np.maximum(self._alpha[cells] + c, 1.0)
        lower: Any = c + 1.0
        far = (upper - 0.5) * np.log(upper) - (lower - 0.5) * np.log(lower) - (upper - lower)
        far += _tail(upper) - _tail(lower)
        near: Floats = self._table[self._row[cells], np.minimum(c, _TABLE - 1)]
        return np.asarray(np.where(c < _TABLE, near, far), dtype=np.float64)


def _tail(x: Floats) -> Floats:
    return np.asarray((1.0 / 12.0 - 1.0 / (360.0 * x * x)) / x)


def move(
    first: Integers,
    total: Integers,
    log_term: LogTerm,
    *,
    rng: np.random.Generator,
    room: tuple[Floats, Floats],
    between: tuple[Integers, Integers] | None = None,
    steps: int = _STEPS,
) -> Integers:
    """Return new counts of the first cells of some pairs, each pair by one slice-sampling step.

    ``first``, ``total``, shape (pairs,): records in the first cell, and in both.
    ``log_term``: the log-density of the first cells' counts; finite at the present ones.
    ``rng``: source of the draws.
    ``room``: Lengths of the intervals for 0 and for ``total``: any positive numbers; near the spikes' relative mass is
    best.
    ``between``: the least and the largest count to look at, where the rest is known to have no mass.
    ``steps``: Proposals a pair, at most; a pair that has used them up stays as it is. That is reversible too: what
    leads from one count to another, proposals refused on the way included, is as likely the other way round.
    """
    live = np.flatnonzero(total > 0)
    result = first.copy()
    if not len(live):
        return result
    here, both = first[live], total[live]
    low_room, high_room = room[0][live], room[1][live]
    top = np.log(2.0 * both - 1.0)  # the log-odds of total - 1/2; those of 1/2 are the negative of it
    if between is None:
        left, right = -top - low_room, top + high_room
    else:
        least, most = np.minimum(between[0][live], here), np.maximum(between[1][live], here)
        left, right = _start(least, both, top, low_room), _start(most + 1, both, top, high_room, upper=True)
    begin, end = _start(here, both, top, low_room), _start(here + 1, both, top, high_room, upper=True)
    place = begin + rng.random(len(live)) * (end - begin)
    level = log_term(live, here) - np.log(end - begin) - rng.standard_exponential(len(live))
    active = np.arange(len(live))
    for _ in range(steps):
        a = left[active]
        at = a + rng.random(len(active)) * (right[active] - a)
        count, length = _count(at, both[active], top[active], low_room[active], high_room[active])
        fits = log_term(live[active], count) - np.log(length) > level[active]
        result[live[active[fits]]] = count[fits]
        active, at = active[~fits], at[~fits]
        if not len(active):
            break
        below = at < place[active]
        left[active[below]] = at[below]
        right[active[~below]] = at[~below]
    return result


def _start(c: Integers, total: Integers, top: Floats, room: Floats, *, upper: bool = False) -> Floats:
    """Return where the interval of ``c`` begins (or, ``upper``, where that of ``c - 1`` ends)."""
    odds = np.maximum(c - 0.5, 1e-9) / np.maximum(total - c + 0.5, 1e-9)
    inner = np.minimum(np.maximum(np.log(odds), -top), top)
    return np.where(c > total, top + room, inner) if upper else np.where(c == 0, -top - room, inner)


def _count(at: Floats, total: Integers, top: Floats, low_room: Floats, high_room: Floats) -> tuple[Integers, Floats]:
    """Return the count in whose interval a place is, and the length of that interval."""
    most = np.maximum(total - 1, 1)
    share = 1.0 / (1.0 + np.exp(-at))
    inner = np.minimum(np.maximum(np.floor(total * share + 0.5), 1.0), most)
    rest = np.maximum(total - inner, 1.0)
    length = np.log((1.0 + 1.0 / (inner - 0.5)) * (1.0 + 1.0 / (rest - 0.5)))
    low, high = at < -top, at >= top
    count = np.where(low, 0, np.where(high, total, inner)).astype(np.int64)
    return count, np.where(low, low_room, np.where(high, high_room, length))
