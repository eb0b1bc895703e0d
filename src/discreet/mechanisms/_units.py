"""Where units of measurement go. A table that gets ``q^2`` units has noise of ``1/q`` times the scale of a single unit.

How many units there are is fixed beforehand, and all of them are paid. What was released decides only which table gets
them: see theorem T20.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from discreet._core.arrays import Floats, Integers

__all__ = ["FREE", "first_units", "noise_cost", "usual_units", "worth_measuring"]

FREE = 6  # numbers in which a table of two columns differs from independence, as far as noise in it is concerned
_FIRST = 0.15  # share of the units that all one-way tables get before anything is known
_USUAL = 0.5  # share that they have in the end, about
_FOLDED = math.sqrt(2.0 / math.pi)  # of a normal variable, mean absolute value in standard deviations
_WEIGHT = 0.35  # of an error of a column in the error of a table of two


def noise_cost(cells: Sequence[int], tables: int) -> Floats:
    """Return the expected error, in records, that noise of scale 1 on one-way tables makes in all tables of two."""
    return 0.5 * _FOLDED * _WEIGHT * max(1, tables) * np.asarray(cells, dtype=np.float64)


def first_units(cost: Floats, units: int, *, alone: bool) -> Integers:
    """Return the ``q`` of each one-way table in the first round: at least 1 each, of 15 % of the units together.

    ``alone``: whether there are no other tables, which would get the rest.
    """
    q = np.sqrt(_spread(cost, units if alone else _FIRST * units)).astype(np.int64)
    return _afforded(np.maximum(1, q), units)


def _afforded(q: Integers, units: int) -> Integers:
    """Return the ``q``, lowered until their squares are no more than the units: in integers, as privacy rests on it."""
    q = np.asarray(q, dtype=np.int64)
    while int((q * q).sum()) > max(0, units):
        q[q.argmax()] -= 1
    return q


def usual_units(cost: Floats, units: int, *, alone: bool) -> Floats:
    """Return about how many units each one-way table has in the end: for predictions."""
    return _spread(cost, units if alone else _USUAL * units)


def _spread(cost: Floats, units: float) -> Floats:
    share = cost ** (2.0 / 3.0)
    return np.asarray(units * share / share.sum())


def worth_measuring(
    scores: Floats, shapes: Sequence[tuple[int, int]], one_way: Floats, first: Integers, *, units: int, scale: float
) -> tuple[Integers, Integers, Integers]:
    """Return which tables of two columns to measure, their ``q``, and the ``q`` of each one-way table's second round.

    ``scores``, shape (tables,): released: how many records a table of independent columns would put elsewhere.
    ``shapes``: of the tables.
    ``one_way``: what noise costs in one-way tables.
    ``first``: the ``q`` of their first round.
    ``units``: that are left.
    ``scale``: of the noise of one unit.

    Notes
    -----
    A table left out costs its score; one that is measured costs its noise. Tables are taken in the order of their
    scores by what noise costs in them, as many as make the sum least if every unit is where it helps most: there, a
    table of cost ``c`` has units in proportion to ``c^(2/3)``.
    """
    cost = np.array([_pair_cost(a, b) for a, b in shapes])
    order = np.argsort(-scores / np.maximum(cost, 1e-9) ** (2.0 / 3.0), kind="stable")
    order = order[(scores[order] > 0.0) & (cost[order] > 0.0)]
    held = first.astype(np.float64) ** 2
    least, chosen = math.inf, 0
    for count in _tried(len(order)):
        every = np.concatenate((one_way, cost[order[:count]]))
        spread = _filled(every, np.concatenate((held, np.zeros(count))), units)
        total = scale * float((every / np.sqrt(spread)).sum()) + float(scores[order[count:]].sum())
        if total < least:
            least, chosen = total, count
    taken = order[:chosen]
    q = _whole(np.concatenate((one_way, cost[taken])), np.concatenate((held, np.zeros(chosen))), units)
    return taken, q[len(first) :], q[: len(first)]


def _pair_cost(a: int, b: int) -> float:
    return 0.5 * _FOLDED * math.sqrt(a * b * min((a - 1) * (b - 1), FREE))


def _tried(most: int) -> list[int]:
    """Return the numbers of tables to compare: all up to 64, then in steps of 2 %."""
    tried, count = [], 0
    while count <= most:
        tried.append(count)
        count += max(1, count // 50)
    return tried if tried[-1] == most else [*tried, most]


def _filled(cost: Floats, held: Floats, units: float) -> Floats:
    """Return ``max(held, t cost^(2/3))``, which costs the units that there are."""
    share, low, high = cost ** (2.0 / 3.0), 0.0, 1.0
    total = units + held.sum()
    while np.maximum(held, high * share).sum() < total:
        high *= 2.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(held, middle * share).sum() < total else (low, middle)
    return np.maximum(held, low * share) + 1e-12


def _whole(cost: Floats, held: Floats, units: int) -> Integers:
    """Return the ``q`` of a further measurement of each table: squares that take no more units than there are.

    Each step goes where it takes most error for its units.
    """
    q = _afforded(np.sqrt(np.maximum(0.0, _filled(cost, held, units) - held)).astype(np.int64), units)
    left = units - int((q * q).sum())

    def entry(i: int) -> tuple[float, int]:
        now, then = held[i] + q[i] ** 2, held[i] + (q[i] + 1) ** 2
        before = math.inf if now == 0.0 else cost[i] / math.sqrt(now)
        return -(before - cost[i] / math.sqrt(then)) / (2 * q[i] + 1), i

    queue = [entry(i) for i in range(len(cost))]
    heapq.heapify(queue)
    while queue:
        _, i = heapq.heappop(queue)
        step = 2 * int(q[i]) + 1
        if step <= left:
            q[i] += 1
            left -= step
            heapq.heappush(queue, entry(i))
    return q
