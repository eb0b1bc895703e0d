"""A permutation of 0 .. size-1 from a key, computed at any place by itself: a Feistel network with cycle walking.

A place below ``high * low`` is a pair of numbers, one below ``high``, one below ``low``. Each round adds to one of
them, modulo its range, a number that a table holds for the other one. A round can be undone, whatever the table, so all
rounds together are a permutation of the pairs. A pair beyond the last place is sent on until it is one of the places:
on a cycle that begins at a place it comes to one. The tables, of about ``sqrt(size)`` numbers, are drawn from the key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Integers
from discreet._core.random import Key, keyed

ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Permutation:
    """A permutation of ``size`` places.

    ``high``, ``low``: ranges of the two numbers that a place consists of.
    ``tables``: of the rounds: even ones change the first number, odd ones the second.
    """

    size: int
    high: int
    low: int
    tables: tuple[Integers, ...]

    @classmethod
    def keyed(cls, size: int, key: Key) -> Permutation:
        """Return the permutation of a key; stream 0 of the key is used up."""
        high = math.isqrt(max(size, 1) - 1) + 1
        low = -(-max(size, 1) // high)
        rng = keyed(key, 0)
        ranges = [(high, low), (low, high)]
        return cls(size, high, low, tuple(rng.integers(0, a, size=b) for a, b in ranges * (ROUNDS // 2)))

    def at(self, places: Integers) -> Integers:
        """Return where places go."""
        found = self._sent(places)
        while len(beyond := np.flatnonzero(found >= self.size)):
            found[beyond] = self._sent(found[beyond])
        return found

    def _sent(self, places: Integers) -> Integers:
        first, second = np.divmod(places, self.low)
        for number, table in enumerate(self.tables):
            if number % 2 == 0:
                first += table[second]
                first -= self.high * (first >= self.high)
            else:
                second += table[first]
                second -= self.low * (second >= self.low)
        return np.asarray(first * self.low + second)
