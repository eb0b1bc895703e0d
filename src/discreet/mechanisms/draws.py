"""Draws of cells: independent, stratified, by position, and from log-weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.checks import choice
from discreet._core.random import Key, Permutation, public_key
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


# Which interval a ticket falls in: the exact search in cumulative weights that every sampler here ends with.
#
# A binary search per ticket misses the processor's cache at every step. A table of the answers at multiples of a power
# of two settles most tickets with one look; the rest are searched. Integers throughout, so the answer is the search's.

_FEW = 1 << 12
_MOST_BITS = 15
_PART = 1 << 14  # tickets looked up together: what that takes stays near the processor
_SEARCHED = -1


def locate(edges: Integers, tickets: Integers, *, below: int) -> Integers:
    """Return ``numpy.searchsorted(edges, tickets, side="right")``, sooner.

    ``edges``, shape (j,): Cumulative weights, not decreasing, at least 0.
    ``tickets``, shape (count,): Integers in ``[0, below)``.
    ``below``: Bound of the tickets.
    Returns, shape (count,): number of the first interval whose edge exceeds the ticket; ``j`` where none does.
    """
    if len(tickets) < _FEW or 4 * len(edges) > len(tickets):
        return np.searchsorted(edges, tickets, side="right").astype(np.int64, copy=False)
    shift = max(0, below.bit_length() - min(_MOST_BITS, len(tickets).bit_length() - 2))
    starts = (below >> shift) + 2
    # How many edges are at most k 2^shift, for each k: those whose quotient, rounded up, is at most k.
    passed = np.bincount(np.minimum(-(-edges >> shift), starts - 1), minlength=starts).cumsum()
    settled = np.where(passed[1:] == passed[:-1], passed[:-1], _SEARCHED)
    found = np.empty(len(tickets), dtype=np.int64)
    for start in range(0, len(tickets), _PART):
        part = tickets[start : start + _PART]
        answers = settled[part >> shift]
        searched = np.flatnonzero(answers == _SEARCHED)
        answers[searched] = np.searchsorted(edges, part[searched], side="right")
        found[start : start + _PART] = answers
    return found


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


# An exact draw from floating-point log-weights, however far apart: integer weights, and integers from the generator.
#
# A log-weight becomes an integer of 37 bits times a power of two. A ticket is compared with the weights from the
# largest power of two downwards and gets more random bits only when a smaller power needs them, so that a weight of
# ``e^-100000`` is drawn with its own probability and not with probability zero.

_BITS = 36


def rounding(spread: float) -> float:
    """Return a bound on how far a drawn log-weight is from the one given, in nats.

    ``spread``: Difference of the largest and the least log-weight, at least 0.

    Notes
    -----
    Half a unit of ``2^36`` at least, and the relative error of the spread's subtraction and division by ``log 2``.
    """
    return 2.0**-_BITS + 2.0**-50 * spread


def integer_weights(log_weights: Floats) -> tuple[Integers, Integers]:
    """Return integers of 37 bits and powers of two, ``w = mantissa 2^octave``, proportional to ``exp(log_weights)``."""
    bits = (log_weights - log_weights.max()) / math.log(2.0)
    octave = np.floor(bits)
    return np.rint(np.exp2(bits - octave + _BITS)).astype(np.int64), octave.astype(np.int64)


def draw_weighted(log_weights: Floats, *, rng: np.random.Generator) -> int:
    """Draw an index with probability proportional to ``exp(log_weights)``, each within :func:`rounding` of the given.

    ``log_weights``, shape (count,): finite, at most 2^23 of them.
    ``rng``: source of uniform integers.
    """
    mantissa, octave = integer_weights(log_weights)
    order = np.argsort(-octave, kind="stable")
    starts = np.flatnonzero(np.diff(octave[order], prepend=1))
    levels = octave[order[starts]]
    sums = np.add.reduceat(mantissa[order], starts)
    # At least the total, in units of the top level; a ticket beyond the total is drawn again.
    bound = math.ceil(np.ldexp(sums.astype(np.float64), levels).sum() * (1.0 + 1e-9)) + 1
    while True:
        ticket, reached, level = int(rng.integers(0, bound)), 0, 0
        for i, (weight, below) in enumerate(zip(sums.tolist(), levels.tolist(), strict=True)):
            ticket = (ticket << (level - below)) + _random_bits(level - below, rng)
            reached, level = (reached << (level - below)) + weight, below
            if ticket < reached:
                members = order[starts[i] : starts[i + 1] if i + 1 < len(starts) else None]
                inside = ticket - (reached - weight)
                return int(members[np.searchsorted(np.cumsum(mantissa[members]), inside, side="right")])


def _random_bits(count: int, rng: np.random.Generator) -> int:
    return int.from_bytes(rng.bytes(-(-count // 8)), "little") >> (-count % 8)
