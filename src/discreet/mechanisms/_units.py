"""Where units of measurement go. A table that gets ``q^2`` units has noise of ``1/q`` times the scale of a single unit.

How many units there are is fixed beforehand, and all of them are paid. What was released decides only which table gets
them: see theorem T20.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Integers

FREE = 6  # numbers in which a table of two columns differs from independence, as far as noise in it is concerned
_LABELS = 0.1  # share of the units with which the labels of an open column are found
_ALL_LABELS = 0.3  # share with which those of all open columns are, at most
_FIRST = 0.15  # share of the units that all one-way tables get before anything is known
_USUAL = 0.7  # share that they are worth in the end, about: two-way tables tell of columns too
_FOLDED = math.sqrt(2.0 / math.pi)  # of a normal variable, mean absolute value in standard deviations
_MOST_COSTLY = 256  # cells of a column that noise is avoided in: of more, most are empty
_WEIGHT = 0.35  # of an error of a column in the error of a table of two


def noise_cost(cells: Sequence[int], tables: int) -> Floats:
    """Return the expected error, in records, that noise of scale 1 on one-way tables makes in all tables of two."""
    return 0.5 * _FOLDED * _WEIGHT * max(1, tables) * np.minimum(cells, _MOST_COSTLY).astype(np.float64)


def label_units(units: int, columns: int) -> int:
    """Return the units, a square, that each of some open columns gets so that its labels are found."""
    return max(1, math.isqrt(int(min(_LABELS, _ALL_LABELS / columns) * units))) ** 2


def first_units(cost: Floats, copies: Integers, units: int, *, alone: bool) -> Integers:
    """Return the ``q`` of each one-way table in the first round: at least 1 each, of 15 % of the units together.

    ``copies``: how many counts of a table a record is in; ``q^2`` units are spent for each.
    ``alone``: whether there are no other tables, which would get the rest.
    """
    q = np.sqrt(_spread(cost, copies, units if alone else _FIRST * units)).astype(np.int64)
    return _afforded(np.maximum(1, q), copies, units)


def _afforded(q: Integers, copies: Integers, units: int) -> Integers:
    """Return the ``q``, lowered until they cost no more than the units: in integers, as privacy rests on it."""
    q = np.asarray(q, dtype=np.int64)
    while int((copies * q * q).sum()) > max(0, units):
        q[q.argmax()] -= 1
    return q


def usual_units(cost: Floats, copies: Integers, units: int, *, alone: bool) -> Floats:
    """Return about how many units each one-way table has in the end: for predictions."""
    return _spread(cost, copies, units if alone else _USUAL * units)


def _spread(cost: Floats, copies: Integers, units: float) -> Floats:
    share = (cost / copies) ** (2.0 / 3.0)
    return np.asarray(units * share / (copies * share).sum())


def worth_measuring(
    scores: Floats,
    shapes: Sequence[tuple[int, int]],
    one_way: Floats,
    copies: Integers,
    first: Integers,
    *,
    units: int,
    scale: float,
) -> tuple[Integers, Integers, Integers]:
    """Return which tables of two columns to measure, their ``q``, and the ``q`` of each one-way table's second round.

    ``scores``, shape (tables,): released: how many records a table of independent columns would put elsewhere.
    ``shapes``: of the tables.
    ``one_way``: what noise costs in one-way tables.
    ``copies``: how many counts of each of them a record is in.
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
        every = _Tables.of(one_way, copies, held, cost[order[:count]])
        error = scale * float((every.cost / np.sqrt(every.filled(units))).sum())
        if (total := error + float(scores[order[count:]].sum())) < least:
            least, chosen = total, count
    q = _Tables.of(one_way, copies, held, cost[order[:chosen]]).whole(units)
    return order[:chosen], q[len(first) :], q[: len(first)]


def _pair_cost(a: int, b: int) -> float:
    return 0.5 * _FOLDED * math.sqrt(a * b * min((a - 1) * (b - 1), FREE))


def _tried(most: int) -> list[int]:
    """Return the numbers of tables to compare: all up to 64, then in steps of 2 %."""
    tried, count = [], 0
    while count <= most:
        tried.append(count)
        count += max(1, count // 50)
    return tried if tried[-1] == most else [*tried, most]


class _Tables(NamedTuple):
    """Tables between which units are divided.

    ``cost``: of noise of scale 1 in each.
    ``copies``: how many counts of each a record is in.
    ``held``: units that each count has already.
    """

    cost: Floats
    copies: Integers
    held: Floats

    @classmethod
    def of(cls, one_way: Floats, copies: Integers, held: Floats, two_way: Floats) -> _Tables:
        """Return the one-way tables, which have units already, and some two-way ones."""
        more = len(two_way)
        ones = np.ones(more, dtype=np.int64)
        return cls(
            np.concatenate((one_way, two_way)), np.concatenate((copies, ones)), np.concatenate((held, np.zeros(more)))
        )

    def filled(self, units: float) -> Floats:
        """Return ``max(held, t (cost/copies)^(2/3))``, which costs the units that there are."""
        share, low, high = (self.cost / self.copies) ** (2.0 / 3.0), 0.0, 1.0
        total = units + self.copies @ self.held
        while self.copies @ np.maximum(self.held, high * share) < total:
            high *= 2.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            enough = self.copies @ np.maximum(self.held, middle * share) >= total
            low, high = (low, middle) if enough else (middle, high)
        return np.asarray(np.maximum(self.held, low * share) + 1e-12)

    def whole(self, units: int) -> Integers:
        """Return the ``q`` of a further measurement of each table: squares that take no more units than there are.

        Each step goes where it takes most error for its units.
        """
        q = np.sqrt(np.maximum(0.0, self.filled(units) - self.held)).astype(np.int64)
        q = _afforded(q, self.copies, units)
        left = units - int((self.copies * q * q).sum())
        queue = [self._step(i, q) for i in range(len(q))]
        heapq.heapify(queue)
        while queue:
            _, i = heapq.heappop(queue)
            step = int(self.copies[i]) * (2 * int(q[i]) + 1)
            if step <= left:
                q[i] += 1
                left -= step
                heapq.heappush(queue, self._step(i, q))
        return q

    def _step(self, i: int, q: Integers) -> tuple[float, int]:
        """Return less the error that one more ``q`` takes from a table for each of its units, and the table."""
        now, then = self.held[i] + q[i] ** 2, self.held[i] + (q[i] + 1) ** 2
        before = math.inf if now == 0.0 else self.cost[i] / math.sqrt(now)
        return -(before - self.cost[i] / math.sqrt(then)) / (self.copies[i] * (2 * q[i] + 1)), i
