"""What is made of a kernel's output: public draws of cells, and records by position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.checks import choice
from discreet._core.random import Key, Permutation, locate, public_key
from discreet.domain import Records

# Public draws of cells from probabilities: independent, or stratified along the cells' order.
#
# A stratified sample is systematic: with ``G`` the cumulative probabilities and ``u`` one uniform number, cell ``c``
# gets as many of ``m`` records as points ``u, u + 1, .., u + m - 1`` fall between ``m G_(c-1)`` and ``m G_c``. Each
# cell's expected number is ``m p_c``, and every run of neighbouring cells gets its share to within one record, where
# independent draws are off by ``sqrt(m p (1-p))``.

BLOCK = 1 << 17

Sampling = Literal["iid", "stratified"]

DEFAULT_SAMPLING: Sampling = "stratified"
"""How records are drawn from public probabilities: stratified costs no privacy and has less error."""


def check_sampling(sampling: str) -> None:
    """Refuse anything but the two ways to draw. Raises ParameterError when it is neither."""
    choice("sampling", sampling, ("stratified", "iid"))


def draw_cells(weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator) -> Iterator[Integers]:
    """Yield ``size`` cells in chunks, in an order that says nothing.

    ``weights``, shape (k,): non-negative, of positive sum: public.
    ``size``: number of records, ``m``.
    ``sampling``, {"iid", "stratified"}: Independent draws, or systematic ones along the cells' order.
    ``rng``: source of the draws.

    Notes
    -----
    Of the ``m`` equally spaced points of a stratified sample, chunk ``r`` of ``C`` takes points ``r, r + C, ..``: every
    chunk is stratified itself, and none needs to know the others.
    """
    live, share = _shares(weights)
    chunks = -(-size // BLOCK)
    if sampling == "iid":
        for start in range(0, size, BLOCK):
            yield _shuffled(live, rng.multinomial(min(BLOCK, size - start), share), rng)
        return
    edges = _edges(share, size, rng)
    for first in rng.permutation(chunks).tolist():
        below = np.maximum(0, np.ceil((edges - first) / chunks)).astype(np.int64)  # points before each edge
        below[-1] = -(-(size - first) // chunks)  # nor can it where an edge is rounded down to its point
        yield _shuffled(live, np.diff(below, prepend=0), rng)


def draw_counts(
    weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator
) -> tuple[Indices, Integers]:
    """Return the cells that get any of ``size`` records, and how many each gets: by the law of :func:`draw_cells`."""
    live, share = _shares(weights)
    if sampling == "iid":
        counts = rng.multinomial(size, share)
    else:
        below = np.maximum(0, np.ceil(_edges(share, size, rng))).astype(np.int64)
        below[-1] = size
        counts = np.diff(below, prepend=0)
    drawn = np.flatnonzero(counts)
    return live[drawn], counts[drawn]


def _shares(weights: Floats) -> tuple[Indices, Floats]:
    live = np.flatnonzero(weights)
    return live, weights[live] / weights[live].sum()


def _edges(share: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Return where cells end among equally spaced points, the first of which is uniform in [0, 1)."""
    edges = size * np.cumsum(share)
    edges[-1] = size  # rounding cannot lose the last record
    return np.asarray(np.minimum(edges, size) - rng.random())


def copies(n: int, size: int, rng: np.random.Generator) -> Iterator[Integers]:
    """Yield how often each of ``n`` records is drawn, in chunks, those left out that are not.

    ``size`` are drawn, independently and with replacement, as in a bootstrap sample.
    """
    held = np.array([min(BLOCK, n - start) for start in range(0, n, BLOCK)])
    for count, records in zip(rng.multinomial(size, held / n).tolist(), held.tolist(), strict=True):
        drawn = np.bincount(rng.integers(records, size=count), minlength=records)
        yield drawn[drawn > 0]


def _shuffled(cells: Indices, count: Integers, rng: np.random.Generator) -> Integers:
    drawn = np.repeat(cells, count).astype(np.int64, copy=False)
    rng.shuffle(drawn)
    return drawn


# Released records by position: counts of items, drawn once, and a permutation that says whose turn each position is.
#
# Record ``i`` of ``m`` is of the item that index ``pi(i)`` falls on, where the items lie one after the other, each as
# long as its count. Any range of positions can so be made by itself, again, in any order, and on any machine. Proofs:
# docs/theory/release-by-position.md.


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
