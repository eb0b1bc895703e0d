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
import numpy.typing as npt

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.random import Key, Permutation, locate, public_key
from discreet.domain import Domain, Records
from discreet.privacy import Code

# Public draws of cells from probabilities: independent, or stratified along the cells' order.
#
# A stratified sample is systematic: with ``G`` the cumulative probabilities and ``u`` one uniform number, cell ``c``
# gets as many of ``m`` records as points ``u, u + 1, .., u + m - 1`` fall between ``m G_(c-1)`` and ``m G_c``. Each
# cell's expected number is ``m p_c``, and every run of neighbouring cells gets its share to within one record, where
# independent draws are off by ``sqrt(m p (1-p))``.

BLOCK = 1 << 17

Sampling = Literal["iid", "stratified"]

MOST_TABLES = 1_000
"""Tables of one release."""

ColumnShares = tuple[npt.NDArray[Any], Floats]
"""Codes of a column and the share of the records that has each; what they leave is of the base measure."""

SAMPLINGS: tuple[Sampling, ...] = ("stratified", "iid")
"""How records are drawn from public probabilities. Stratified, the default, costs no privacy and has less error."""


def draw_cells(weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator) -> Iterator[Integers]:
    """Yield ``size`` cells in chunks, in an order that says nothing.

    ``weights``, shape (k,): non-negative, of positive sum: public.
    ``size``: number of records, ``m``.
    ``sampling``, {"iid", "stratified"}: Independent draws, or systematic ones along the cells' order.
    ``rng``: source of the draws.
    """
    cells = np.flatnonzero(weights)
    for counts in counts_by_chunk(weights[cells], size, block=BLOCK, sampling=sampling, rng=rng):
        drawn = np.repeat(cells, counts).astype(np.int64, copy=False)
        rng.shuffle(drawn)
        yield drawn


def draw_counts(
    weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator
) -> tuple[Indices, Integers]:
    """Return the cells that get any of ``size`` records, and how many each gets: by the law of :func:`draw_cells`."""
    cells = np.flatnonzero(weights)
    counts = next(counts_by_chunk(weights[cells], size, block=size, sampling=sampling, rng=rng))
    drawn = np.flatnonzero(counts)
    return cells[drawn], counts[drawn]


def counts_by_chunk(
    weights: Floats, size: int, *, block: int, sampling: Sampling, rng: np.random.Generator
) -> Iterator[Integers]:
    """Yield how many records each cell gets of ``size``, in chunks of at most ``block`` or one more.

    Of the ``m`` equally spaced points of a stratified sample, chunk ``r`` of ``C`` takes points ``r, r + C, ..``: every
    chunk is stratified itself, and none needs to know the others.
    """
    share = weights / weights.sum()
    if sampling == "iid":
        for start in range(0, size, block):
            yield rng.multinomial(min(block, size - start), share)
        return
    ends = size * np.cumsum(share)
    ends[-1] = size  # rounding cannot lose the last record
    ends = np.minimum(ends, size) - rng.random()  # of cells, among points the first of which is uniform in [0, 1)
    chunks = -(-size // block)
    for first in rng.permutation(chunks).tolist():
        below = np.maximum(0, np.ceil((ends - first) / chunks)).astype(np.int64)  # points before each end
        below[-1] = -(-(size - first) // chunks)  # nor can it where an end is rounded down to its point
        yield np.diff(below, prepend=0)


def copies(n: int, size: int, rng: np.random.Generator) -> Iterator[Integers]:
    """Yield how often each of ``n`` records is drawn, in chunks, those left out that are not.

    ``size`` are drawn, independently and with replacement, as in a bootstrap sample.
    """
    held = np.array([min(BLOCK, n - start) for start in range(0, n, BLOCK)])
    for count, records in zip(rng.multinomial(size, held / n).tolist(), held.tolist(), strict=True):
        drawn = np.bincount(rng.integers(records, size=count), minlength=records)
        yield drawn[drawn > 0]


class Made(ABC):
    """What a record of an item, such as a cell, is: a value that can be sent to another process."""

    @abstractmethod
    def records_in(self, items: Integers, *, first: int, rng: np.random.Generator) -> Records:
        """Return a record of each item, the first of which is at position ``first`` of the release."""

    def refined(
        self, items: Integers, counts: Integers, *, column: int, rng: np.random.Generator
    ) -> tuple[Made, Integers, Integers, Integers]:
        """Return items all of whose records have one code of a column, by the law of the records.

        Items already are where what they are is not drawn. Returns what their records are, the items, how often each
        occurs, and its code.
        """
        codes = self.records_in(items, first=0, rng=rng).columns[column]
        return self, items, counts, codes.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Listed(Made):
    """Items that are records of a public list."""

    records: Records

    def records_in(self, items: Integers, *, first: int, rng: np.random.Generator) -> Records:
        """Return the items' records."""
        return self.records.take(items)


class CellShares(NamedTuple):
    """The items, such as cells, that records are drawn from. Public.

    ``weights``, shape (k,): of each, non-negative; none where no item is known, so that all records are of item 0.
    ``sampling``: how items are drawn.
    ``made``: what a record of an item is.
    """

    weights: Floats
    sampling: Sampling
    made: Made

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Yield ``size`` records one after the other, in chunks."""
        if not len(self.weights):
            for start in range(0, size, BLOCK):
                nothing = np.zeros(min(BLOCK, size - start), dtype=np.int64)
                yield self.made.records_in(nothing, first=start, rng=rng)
            return
        first = 0
        for items in draw_cells(self.weights, size, sampling=self.sampling, rng=rng):
            yield self.made.records_in(items, first=first, rng=rng)
            first += len(items)


@dataclass(frozen=True, eq=False)
class Expansion:
    """Records by position: counts of items, drawn once, and a permutation that says whose turn each position is.

    Record ``i`` of ``m`` is of the item that index ``pi(i)`` falls on, where the items lie one after the other, each as
    long as its count. Any range of positions can so be made by itself, again, in any order, and on any machine. Proofs:
    docs/theory/release-by-position.md.

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
        items, counts = np.zeros(1, dtype=np.intp), np.array([size])
        if len(shares.weights):
            items, counts = draw_counts(shares.weights, size, sampling=shares.sampling, rng=rng)
        return cls(size, items, np.cumsum(counts), public_key(rng), shares.made)

    def order(self) -> Permutation:
        """Return the permutation."""
        return Permutation.keyed(self.size, self.key)

    def records(self, start: int, stop: int, *, order: Permutation, rng: np.random.Generator) -> Records:
        """Return the records at positions from ``start`` to before ``stop``."""
        found = locate(self.ends, order.at(np.arange(start, stop)), below=self.size)
        return self.made.records_in(self.items[found], first=self.first + start, rng=rng)

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


# Readings, and what is known of them before there is an output.

READING_ONLY: Mapping[str, bool] = MappingProxyType({"reading only": True})
"""Metadata of a mechanism's field on which its private step does not depend, only what is made of the output."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a release holds: public, and known before there is an output.

    ``domain``: of the released records.
    ``size``: number of records, or draws, of each table; None for counts, and as long as any number may be asked for.
    ``tables``: how many, into a folder; None for the one table of a file.
    ``rows``: the numbers of rows that a table may have.
    ``columns``: names of the released columns, once it is known what is asked for.
    ``labels``: names of the text columns that say what a count is of, where it is not of a cell or label of the domain.
    ``folders``: whether records can be divided into folders by the values of a column.
    """

    domain: Domain
    size: int | None = None
    tables: int | None = None
    rows: range = range(1 << 62)
    columns: Sequence[str] = ()
    labels: Sequence[str] = ()
    folders: bool = False


class Estimates(NamedTuple):
    """A public table of counts.

    ``records``: the cells or labels.
    ``counts``, ``standard_errors``: estimated number of confidential records of each, and the deviation of its noise.
    ``labels``: what each count is of, by the name of a text column, where it is not the cell or label of ``records``.
    """

    records: Records
    counts: Floats
    standard_errors: Floats
    labels: Mapping[str, Sequence[str | None]] | None = None


class Outcome(NamedTuple):
    """What an output tells about its use.

    ``codes``: in sentences.
    ``share_from_data``: about what share of the released records carries information from the table; None where the
    output tells no more of it than was known beforehand.
    ``facts``: what else the certificate says of what was released, by the names of its schema.
    ``pairs``: the pairs of columns that the output has a table of, as their numbers; None where it has records.
    """

    codes: tuple[Code, ...]
    share_from_data: float | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    pairs: Sequence[tuple[int, int]] | None = None


class Reading(ABC):
    """All that may be made of a kernel's output: it holds the output and the public ``n``, never a table."""

    @abstractmethod
    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Return ``size`` records, in chunks. Of several tables this is one: each call draws another."""

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares | None:
        """Return the cells that records are drawn from, by a model that may begin with draws; None where none are."""
        return None

    def column_shares(self, *, rng: np.random.Generator) -> Sequence[ColumnShares] | None:
        """Return how records are distributed in each column, for forecasts; None where these have to draw records."""
        drawn = self.cell_shares(rng=rng)
        if drawn is None:
            return None
        items = np.flatnonzero(drawn.weights)
        shares = drawn.weights[items] / max(float(drawn.weights.sum()), 1e-300)
        return [(codes, shares) for codes in drawn.made.records_in(items, first=0, rng=rng).columns]

    def estimates(self) -> Estimates | None:
        """Return the counts that the output estimates; None where it is of records only."""
        return None

    def outcome(self) -> Outcome | None:
        """Return what the output tells about its use; None where that was known beforehand."""
        return None


class CellReading(Reading):
    """A reading whose records are draws from cells, one after the other as by position."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "draw" in vars(cls):  # a release in parts would have other records
            raise TypeError("records of cells are drawn from their shares. Derive from Reading to draw them otherwise")

    @abstractmethod
    def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
        """Return the cells that records are drawn from."""

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records, in chunks."""
        return self.cell_shares(rng=rng).draw(size, rng=rng)
