"""Released records by position: counts of items, drawn once, and a permutation that says whose turn each position is.

Record ``i`` of ``m`` is of the item that index ``pi(i)`` falls on, where the items lie one after the other, each as
long as its count. Any range of positions can so be made by itself, again, in any order, and on any machine. Proofs:
docs/theory/release-by-position.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.permutation import Permutation
from discreet._core.random import Key, public_key
from discreet.domain import Records
from discreet.mechanisms._draws import Sampling, draw_counts
from discreet.mechanisms._lookup import locate


class Made(ABC):
    """What a record of an item is: a function that can be sent to another process."""

    @abstractmethod
    def __call__(self, items: Integers, *, first: int, rng: np.random.Generator) -> Records:
        """Return a record of each item, the first of which is at position ``first`` of the release."""

    def refined(self, items: Integers, counts: Integers, *, column: int, rng: np.random.Generator) -> Refined:
        """Return items all of whose records have one code of a column, by the law of the records.

        Items already are where what they are is not drawn.
        """
        codes = self(items, first=0, rng=rng).columns[column]
        return Refined(self, items, counts, codes.astype(np.int64, copy=False))


class Refined(NamedTuple):
    """Items of one code each: what their records are, their numbers and counts, and the codes."""

    made: Made
    items: Integers
    counts: Integers
    codes: Integers


@dataclass(frozen=True, eq=False)
class Expansion:
    """Records made of public counts, position by position.

    ``size``: how many.
    ``items``, ``ends``: the items that have any, and the cumulative counts of these.
    ``key``: of the permutation, and of what is drawn at a position.
    ``made``: what a record of an item is.
    ``first``: how many records of the release are before these.
    """

    size: int
    items: Indices
    ends: Integers
    key: Key
    made: Made
    first: int = 0

    @classmethod
    def drawn(
        cls, weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator, made: Made
    ) -> Expansion:
        """Draw how often each item occurs in proportion to its weight, and the key.

        ``weights``, shape (k,): non-negative, of positive sum: public.
        """
        items, counts = draw_counts(weights, size, sampling=sampling, rng=rng)
        return cls(size, items, np.cumsum(counts), public_key(rng), made)

    @classmethod
    def of_nothing(cls, size: int, *, rng: np.random.Generator, made: Made) -> Expansion:
        """Return records of which no item is known."""
        return cls(size, np.zeros(1, dtype=np.intp), np.array([size]), public_key(rng), made)

    def order(self) -> Permutation:
        """Return the permutation."""
        return Permutation.keyed(self.size, self.key)

    def records(self, start: int, stop: int, *, order: Permutation, rng: np.random.Generator) -> Records:
        """Return the records at positions from ``start`` to before ``stop``."""
        found = locate(self.ends, order.at(np.arange(start, stop)), below=self.size)
        return self.made(self.items[found], first=self.first + start, rng=rng)

    def split(self, column: int, codes: int, *, rng: np.random.Generator) -> list[Expansion]:
        """Return the records of each code of a column by themselves, also of a code that no record has."""
        counts = np.diff(self.ends, prepend=0)
        made, items, counts, code = self.made.refined(self.items, counts, column=column, rng=rng)
        found, first = [], 0
        for one in range(codes):
            held = np.flatnonzero(code == one)
            ends = np.cumsum(counts[held])
            size = int(ends[-1]) if len(held) else 0
            found.append(Expansion(size, items[held], ends, public_key(rng), made, first))
            first += size
        return found


@dataclass(frozen=True)
class Listed(Made):
    """Items that are records of a public list."""

    records: Records

    def __call__(self, items: Integers, *, first: int, rng: np.random.Generator) -> Records:
        """Return the items' records."""
        return self.records.take(items)
