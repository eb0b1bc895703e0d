"""What is made of a kernel's output, all of it public: records, counts with their errors, what the output tells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.numeric import Floats, Integers
from discreet.domain import Domain, Records
from discreet.privacy import Code, Relation

BLOCK = 1 << 17
MOST_TABLES = 1_000  # of one release

Sampling = Literal["iid", "stratified"]

ColumnShares = tuple[npt.NDArray[Any], Floats]
"""Codes of a column and the share of the records that has each; what they leave is of the base measure."""

SAMPLINGS: tuple[Sampling, ...] = ("stratified", "iid")
"""How records are drawn from public probabilities. Stratified, the default, costs no privacy and has less error."""


class Portion(NamedTuple):
    """One of the ``parts`` that share the records of a release."""

    number: int = 0
    parts: int = 1
    start: float | None = None  # first point of their stratified sample, in [0, 1); by default it is drawn
    first_label: int = 1  # number of the part's first new label in open columns


WHOLE = Portion()


def draw_cells(
    weights: Floats, size: int, *, sampling: Sampling, rng: np.random.Generator, portion: Portion = WHOLE
) -> Iterator[Integers]:
    """Yield ``size`` cells of public weights, or a part of them, in chunks, in an order that says nothing."""
    cells = np.flatnonzero(weights)
    for counts in counts_by_chunk(weights[cells], size, block=BLOCK, sampling=sampling, rng=rng, portion=portion):
        sample = np.repeat(cells, counts).astype(np.int64, copy=False)
        rng.shuffle(sample)
        yield sample


def counts_by_chunk(
    weights: Floats, size: int, *, block: int, sampling: Sampling, rng: np.random.Generator, portion: Portion = WHOLE
) -> Iterator[Integers]:
    """Yield how many records each cell gets of a part of ``size``, in chunks of at most ``block`` or one more."""
    # Of m equally spaced points, a cell of a stratified sample gets those between its ends in cumulated shares times
    # m: every run of cells has its share to within one record. Part j of K takes points j, j + K, .., and each of its C
    # chunks every C-th of these: all are stratified, and none needs to know the others.
    total = len(range(portion.number, size, portion.parts))
    if total == 0:
        return
    share = weights / weights.sum()
    if sampling == "iid":
        for start in range(0, total, block):
            yield rng.multinomial(min(block, total - start), share)
        return
    ends = size * np.cumsum(share)
    ends[-1] = size  # rounding cannot lose the last record
    ends = np.minimum(ends, size)  # of cells, among points the first of which is uniform in [0, 1)
    offset = portion.start
    if offset is None:
        offset = rng.random()
    ends -= offset
    chunks = -(-total // block)
    step = portion.parts * chunks
    for chunk in rng.permutation(chunks).tolist():
        point = portion.number + portion.parts * chunk
        below = np.maximum(0, np.ceil((ends - point) / step)).astype(np.int64)  # points before each end
        below[-1] = -(-(size - point) // step)  # nor can it where an end is rounded down to its point
        yield np.diff(below, prepend=0)


def copies(n: int, size: int, rng: np.random.Generator) -> Iterator[Integers]:
    """Yield, in chunks, how often each of ``n`` records that is in a bootstrap sample of ``size`` is drawn."""
    sizes = np.array([min(BLOCK, n - start) for start in range(0, n, BLOCK)])
    for count, records in zip(rng.multinomial(size, sizes / n).tolist(), sizes.tolist(), strict=True):
        times = np.bincount(rng.integers(records, size=count), minlength=records)
        yield times[times > 0]


def nearest_probabilities(v: Floats) -> Floats:
    """Return the nearest probabilities to each row of numbers, in Euclidean distance."""
    descending = np.sort(v, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - 1.0) / np.arange(1, v.shape[-1] + 1)
    last = v.shape[-1] - 1 - np.argmax((descending > excess)[..., ::-1], axis=-1)
    projected = np.maximum(v - np.take_along_axis(excess, last[..., None], axis=-1), 0.0)
    return np.asarray(projected / projected.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class CellShares(ABC):
    """The items, such as cells, that records are drawn from: public, and sent to whoever draws a part."""

    weights: Floats  # shape (k,): of the items, non-negative
    sampling: Sampling  # how items are drawn

    @abstractmethod
    def records_in(self, items: Integers, *, rng: np.random.Generator) -> Records:
        """Return a record of each item."""

    def draw(self, size: int, *, rng: np.random.Generator, portion: Portion = WHOLE) -> Iterator[Records]:
        """Yield ``size`` records, or a part of them, in chunks."""
        for items in draw_cells(self.weights, size, sampling=self.sampling, rng=rng, portion=portion):
            yield self.records_in(items, rng=rng)


@dataclass(frozen=True, eq=False)
class ListedShares(CellShares):
    """Items that are a record each: ``records`` returns those of some items, and can be sent too."""

    records: Callable[[Integers], Records]

    def records_in(self, items: Integers, *, rng: np.random.Generator) -> Records:
        """Return the items' records."""
        return self.records(items)


READING_ONLY: Mapping[str, bool] = MappingProxyType({"reading only": True})
"""Metadata of a mechanism's field on which its private step does not depend, only what is made of the output."""


@sealed
@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a release holds: public, and known before there is an output."""

    domain: Domain  # of the released records
    size: int | None = None  # of each table; None for counts, and as long as any number may be asked for
    tables: int | None = None  # how many, into a folder; None for the one table of a file
    rows: range = range(1 << 62)  # the numbers of rows that a table may have
    columns: Sequence[str] = ()  # names of the released columns, once it is known what is asked for
    labels: Sequence[str] = ()  # text columns that say what a count is of, where it is not of a cell or label


class Estimates(NamedTuple):
    """A public table of the estimated numbers of confidential records of cells or labels, and the noise's deviation."""

    records: Records
    counts: Floats
    standard_errors: Floats
    labels: Mapping[str, Sequence[str | None]] | None = None  # by text column, of what else than ``records`` counts are


class Outcome(NamedTuple):
    """What an output tells about its use, in codes."""

    codes: tuple[Code, ...]
    share_from_data: float | None = None  # about what share of records carries information, if it tells
    facts: Mapping[str, Any] = MappingProxyType({})  # what else the certificate says, by the names of its schema
    pairs: Sequence[tuple[int, int]] | None = None  # numbers of the columns of its tables; None where it has records


@sealed
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
        cells = self.cell_shares(rng=rng)
        if cells is None:
            return None
        items = np.flatnonzero(cells.weights)
        shares = cells.weights[items] / max(float(cells.weights.sum()), 1e-300)
        return [(codes, shares) for codes in cells.records_in(items, rng=rng).columns]

    def estimates(self) -> Estimates | None:
        """Return the counts that the output estimates; None where it is of records only."""
        return None

    def outcome(self) -> Outcome | None:
        """Return what the output tells about its use; None where that was known beforehand."""
        return None

    def losses(self, relation: Relation, contents: Contents, *, rng: np.random.Generator) -> tuple[Code, ...]:
        """Return what it tells of what is lost, of a release of which records, if any, are drawn next with ``rng``."""
        return ()


class CellReading(Reading):
    """A reading whose records are draws from cells, in one file as in parts."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "draw" in vars(cls):  # a release in parts would have other records
            raise TypeError("records of cells are drawn from their shares. Derive from Reading to draw them otherwise")

    @abstractmethod
    def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
        """Return the cells that records are drawn from."""

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records, in chunks."""
        return self.cell_shares(rng=rng).draw(size, rng=rng)
