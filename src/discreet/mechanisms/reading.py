"""What is made of a kernel's output, all of it public: records, counts with their errors, what the output tells.

Where records are draws from cells, a reading states the cells' shares: records one after the other and records by
position, which releases in parts consist of, are both made from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.checks import choice
from discreet._core.errors import ParameterError
from discreet._core.random import Key, Permutation, locate, public_key
from discreet._core.text import counted
from discreet.domain import Records

# What a mechanism releases, and what its output tells.


@dataclass(frozen=True, kw_only=True)
class Forms:
    """In which forms a mechanism releases, known before there is an output: its class states it.

    An instance whose parameters change that states its own.

    Parameters
    ----------
    counts : bool
        Whether a table of counts (:meth:`Reading.estimates`), not records alone.
    folders : bool
        Whether records can be divided into folders by the values of a column: what :meth:`Reading.cell_shares` counts
        has these values.
    tables : int or None
        How many tables of records, each a draw from a posterior, into a folder; None for the one of a file.
    """

    counts: bool = False
    folders: bool = False
    tables: int | None = None


class CountTable(NamedTuple):
    """The shape of a table of counts, known before there is an output.

    Parameters
    ----------
    rows : int or None
        Number of counts; None where it depends on the output.
    labels : tuple of str
        Names of the text columns that say what each count is of; none where it is a cell or label of the domain.
    """

    rows: int | None
    labels: tuple[str, ...] = ()


class Estimates(NamedTuple):
    """A public table of counts.

    Parameters
    ----------
    records : Records
        The cells or labels.
    counts : ndarray of float64, shape (len(records),)
        Estimated number of confidential records of each.
    standard_errors : ndarray of float64, shape (len(records),)
        Standard deviation of each estimate's noise, in records.
    labels : mapping of str to sequence of str or None, optional
        What each count is of, by the name of a text column, where it is not the cell or label of ``records``.
    """

    records: Records
    counts: Floats
    standard_errors: Floats
    labels: Mapping[str, Sequence[str | None]] | None = None


class Outcome(NamedTuple):
    """What the output of a kernel tells about its use: public post-processing.

    Parameters
    ----------
    text : str
        In words.
    share_from_data : float or None
        Estimated share of the released records that carries information from the table, in [0, 1]; None where the
        output tells no more of it than was known beforehand.
    facts : mapping, optional
        What else the certificate says of what was released, by the names of its schema.
    pairs : sequence of (int, int) or None
        The pairs of columns that the output has a table of, as their numbers; None where it has records.
    """

    text: str
    share_from_data: float | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    pairs: Sequence[tuple[int, int]] | None = None


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
class CellShares:
    """The cells that records are drawn from, and in which shares. Public.

    ``weights``, shape (k,): non-negative, of positive sum; empty where no cell is known, so that all records are of
    item 0.
    ``sampling``: how cells are drawn; stratified draws go along the order of the weights.
    ``made``: what a record of an item is.
    ``items``, shape (k,): which item each weight is of, where that is not its place.
    """

    weights: Floats
    sampling: Sampling
    made: Made
    items: Indices | None = None

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Yield ``size`` records one after the other, in chunks."""
        first = 0
        for places in self._places(size, rng):
            items = places if self.items is None else self.items[places]
            yield self.made(items, first=first, rng=rng)
            first += len(items)

    def _places(self, size: int, rng: np.random.Generator) -> Iterator[Integers]:
        if len(self.weights):
            return draw_cells(self.weights, size, sampling=self.sampling, rng=rng)
        return (np.zeros(min(BLOCK, size - start), dtype=np.int64) for start in range(0, size, BLOCK))

    def draw_counts(self, size: int, *, rng: np.random.Generator) -> tuple[Indices, Integers]:
        """Return the items that get any of ``size`` records, and how many each gets: by the law of :meth:`draw`."""
        if not len(self.weights):
            return np.zeros(1, dtype=np.intp), np.array([size])
        places, counts = draw_counts(self.weights, size, sampling=self.sampling, rng=rng)
        return places if self.items is None else self.items[places], counts


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
    def drawn(cls, shares: CellShares, size: int, *, rng: np.random.Generator) -> Expansion:
        """Draw how often each item occurs, and the key."""
        items, counts = shares.draw_counts(size, rng=rng)
        return cls(size, items, np.cumsum(counts), public_key(rng), shares.made)

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


# Readings.


class Reading(ABC):
    """All that may be made of a kernel's output.

    It holds the output and the public number of records, never a table: a mechanism makes it from what its kernel
    gave, and a release asks nothing else about the output.
    """

    @abstractmethod
    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Return ``size`` records, in chunks. Of several tables this is one: each call draws another."""

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares | None:
        """Return the shares of the cells that records are draws from; None where they come only one after the other.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where a model is fitted first: source of what the fit begins with.
        """
        return None

    def estimates(self) -> Estimates | None:
        """Return the counts that the output estimates; None where it is of records only."""
        return None

    def outcome(self) -> Outcome | None:
        """Return what the output tells about its use; None where there is nothing that was not known beforehand."""
        return None


class CellReading(Reading):
    """A reading whose records are draws from cells, one after the other as by position."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "draw" in vars(cls):  # a release in parts would have other records
            raise TypeError("records of cells are drawn from their shares. Derive from Reading to draw them otherwise")

    @abstractmethod
    def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
        """Return the shares of the cells that records are draws from."""

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records, in chunks."""
        return self.cell_shares(rng=rng).draw(size, rng=rng)


@dataclass(frozen=True, eq=False)
class KernelRecords(Reading):
    """Records that the kernel drew, in chunks: their number, ``size``, was fixed before."""

    chunks: Iterator[Records]
    size: int

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Return the kernel's records as they are."""
        if size != self.size:
            raise ParameterError(f"this mechanism was calibrated for {counted(self.size, 'record')}, not {size}")
        return self.chunks
