"""Records and counts: the plain values that mechanisms work on, how common they are, and where they lie.

A table is held column by column in *encoded* form: a finite column is an array of cell codes ``0 .. size-1``
(int64), a continuous column an array of float64 values, an open set of labels an array of Python strings (object).
``Counts`` is the sufficient statistic every mechanism of this library reads: the distinct records and how often each
occurs. It is sparse: what nobody holds takes no memory, however large the product of the columns' cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DomainError, ParameterError
from discreet._core.numeric import Floats, Integers
from discreet._core.random import seeded
from discreet.domain.column import Column
from discreet.domain.texts import Codes

if TYPE_CHECKING:
    from discreet._core.lazy import pl
    from discreet.domain.domain import Domain


_PART = 1 << 18


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """Encoded records, column by column.

    Parameters
    ----------
    columns : tuple of ndarray, each of shape (size,)
        One array per column of the domain, in the domain's order: int64 codes, float64 values, or object strings.
    """

    columns: tuple[npt.NDArray[np.generic], ...]

    def __len__(self) -> int:
        return max(map(len, self.columns[:1]), default=0)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the records as tuples of codes: for small tables."""
        return list(zip(*(column.tolist() for column in self.columns), strict=True))

    def take(self, index: npt.NDArray[np.intp] | slice) -> Records:
        """Return the records at ``index``, in its order."""
        return Records(columns=tuple(column[index] for column in self.columns))

    @classmethod
    def concatenate(cls, parts: Iterable[Records]) -> Records:
        """Join chunks in order; at least one is needed to know the columns."""
        chunks = list(parts)
        return cls(columns=tuple(np.concatenate(column) for column in zip(*(c.columns for c in chunks), strict=True)))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counts:
    """Distinct encoded records and their frequencies.

    Parameters
    ----------
    records : Records
        The distinct records, ``j`` of them, in an order that carries no information.
    frequencies : ndarray of int64, shape (j,)
        How often each occurs; all at least 1.
    """

    records: Records
    frequencies: Integers

    @property
    def n(self) -> int:
        """Number of records, ``sum(frequencies)``: public under the replacement relation."""
        return int(self.frequencies.sum())

    @property
    def distinct(self) -> int:
        """Number of distinct records, ``j``: confidential."""
        return len(self.frequencies)

    def parts(self) -> Iterator[Counts]:
        """Yield the distinct records in parts, for what is computed from each by itself."""
        for start in range(0, self.distinct, _PART):
            part = slice(start, start + _PART)
            yield Counts(records=self.records.take(part), frequencies=self.frequencies[part])

    @classmethod
    def of_cells(cls, cells: Sequence[int] | npt.NDArray[np.integer]) -> Counts:
        """Count single-column records given as cell codes (or floats): for tests and small studies.

        Examples
        --------
        >>> Counts.of_cells([2, 0, 2]).frequencies.tolist()
        [1, 2]
        """
        values, frequencies = np.unique(np.asarray(cells), return_counts=True)
        return cls(records=Records(columns=(values,)), frequencies=frequencies.astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """Encoded records that are known by their privacy unit, for a mechanism in which units vote."""

    records: Records  # those that units keep; of one unit distinct ones, all of a unit side by side
    frequencies: Integers  # shape (j,): how often a unit has each; all at least 1
    owners: Integers  # shape (j,): the number of the unit that has it, 0 .. n-1 in ascending order
    n: int  # number of units, those without records included: public under the replacement relation

    def parts(self) -> Iterator[Units]:
        """Yield whole units in parts."""
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        cuts = starts[np.searchsorted(starts, np.arange(_PART, len(self.owners), _PART), side="right") - 1]
        for start, stop in pairwise([*np.unique(np.append(0, cuts)).tolist(), len(self.owners)]):
            part = slice(start, stop)
            frequencies, owners = self.frequencies[part], self.owners[part]
            n = len(np.unique(owners))
            yield Units(records=self.records.take(part), frequencies=frequencies, owners=owners, n=n)


@sealed
@runtime_checkable
class Parts(Protocol):
    """A table that can be read in parts, more than once: :class:`Counts`, units, or rows that stay where they are."""

    @property
    def n(self) -> int:
        """Number of records."""

    def parts(self) -> Iterator[Counts | Units]:
        """Yield encoded records and their frequencies; a record may come in several parts."""


# How common the records of a table are, from public facts: of an invented table, or of a public one.
#
# What a mechanism that leaves out rare labels will keep, and how many distinct values an urn starts from, depend on
# this alone. The invented table has independent columns, so that no column makes its records commoner.

_DRAWN = 4096
_LABELS = 64  # open labels of an invented table
_ALONE = 1e-15
_LISTED = 1 << 16
"""Cells of a column that are listed one by one."""


@sealed
@dataclass(frozen=True, eq=False)
class Commonness:
    """How common the records of a table are. Public.

    ``alike``: for some records of the table, the share of its records that are equal to each, itself included.
    ``weight``: probability that a record drawn from the table is (or stands for) each of them; they sum to one.
    ``least``: share of the records in the emptiest cell of the domain; 0 where it is not finite.
    """

    alike: Floats
    weight: Floats
    least: float = 0.0

    @classmethod
    def invented(cls, domain: Domain) -> Self:
        """Return that of an invented table: the inner half of each column's base measure, the columns independent.

        Ordered columns hold what lies between the quartiles of their base measure, no value of a continuous one twice;
        categories have Zipf's weights in their declared order, open labels those of 64 labels. A further column
        makes no record commoner: it multiplies ``alike`` by shares of at most 1.

        Examples
        --------
        >>> from discreet.domain import Category, Domain
        >>> one = Commonness.invented(Domain(columns={"a": Category(categories=["x", "y", "z"])}))
        >>> sorted({round(share, 4) for share in one.alike.tolist()})
        [0.1818, 0.2727, 0.5455]
        """
        columns = getattr(domain, "columns", None)
        if not isinstance(columns, Mapping):
            raise DomainError("a table is invented for a Domain")
        alike, least = np.ones(_DRAWN), 1.0
        for place, column in enumerate(columns.values()):
            shares, smallest = _column_shares(column, place)
            alike *= shares
            least *= smallest
            if alike.max() < _ALONE:  # in any table, each record is the only one of its kind
                return cls(alike, np.full(_DRAWN, 1.0 / _DRAWN))
        return cls(alike, np.full(_DRAWN, 1.0 / _DRAWN), least)

    @classmethod
    def of_counts(cls, counts: Integers | Floats, *, cells: int | None) -> Self:
        """Return that of a public table, from how often each of its distinct records occurs."""
        shares = counts / counts.sum()
        return cls(shares, shares, float(shares.min()) if len(shares) == cells else 0.0)

    def held(self, n: int) -> Floats:
        """Return how often each of the records occurs in a table of ``n``, on average: at least once."""
        return np.maximum(1.0, n * self.alike)

    def distinct(self, n: int) -> float:
        """Return the expected number of distinct records among ``n`` independent ones, ``sum 1 - (1 - p)^n``."""
        rare = n * self.alike < 1e-9
        p = np.where(rare, 1.0, self.alike)
        numbers = np.where(rare, float(n), -np.expm1(n * np.log1p(-np.minimum(p, 1.0 - 1e-16))) / p)
        return min(float(n), float(self.weight @ numbers))


def inner_half(column: Column, codes: Codes) -> Floats:
    """Return weights of the values between the quartiles of a column's base measure; Zipf's where there is no order."""
    # They fall evenly from the median to 0 at the quartiles, as most tables have most in the middle; equal weights
    # would also be multiples of a record at round sizes, which no real table's are.
    values, place = np.unique(codes.astype(str) if column.open else codes, return_inverse=True)
    if not column.on_a_line:
        zipf = 1.0 / (1.0 + place)
        return np.asarray(np.where(place < _LABELS, zipf, 0.0) if column.open else zipf)
    positions = column.positions(values)
    mass = np.exp(column.log_base(values)) if column.finite else np.ones(len(values))
    order = np.argsort(positions)
    below = np.empty(len(values))
    below[order] = np.cumsum(mass[order]) - mass[order] / 2.0
    share = below / mass.sum()
    finite = np.isfinite(positions)
    inner = np.where(finite, np.maximum(0.0, 1.0 - np.abs(share - 0.5) / 0.25), 0.0)
    if np.count_nonzero(inner) == 1:  # of three cells, the middle one is all that lies between the quartiles
        inner = np.where(finite, 1.0 - np.abs(share - 0.5) / 0.5, 0.0)
    return np.asarray((inner if inner.any() else finite)[place], dtype=np.float64)


def invented_records(domain: Domain) -> Records:
    """Draw 4,096 records of an invented table, each column by itself, by weights of :func:`inner_half`."""
    rng = seeded(0)
    columns = []
    for column, codes in zip(domain.columns.values(), domain.draw_base(_DRAWN, rng).columns, strict=True):
        weight = inner_half(column, codes)
        columns.append(codes[rng.choice(_DRAWN, size=_DRAWN, p=weight / weight.sum())])
    return Records(columns=tuple(columns))


def _column_shares(column: Column, place: int) -> tuple[Floats, float]:
    """Return the share of the values of 4,096 records of one invented column, and the smallest of any cell."""
    rng = seeded(place)
    if column.size is not None and column.size <= _LISTED:
        codes = np.arange(column.size)
        mass = np.exp(column.log_base(codes)) * inner_half(column, codes)
    elif column.open:
        mass = 1.0 / np.arange(1.0, _LABELS + 1.0)
    elif column.size is None:  # continuous: no value twice
        return np.zeros(_DRAWN), 0.0
    else:  # the inner half has twice the mass of the base measure
        return np.minimum(1.0, 2.0 * np.exp(column.log_base(column.draw(_DRAWN, rng)))), 0.0
    mass = mass / mass.sum()
    cells = np.searchsorted(np.cumsum(mass)[:-1], rng.random(_DRAWN), side="right")
    return mass[cells], 0.0 if column.size is None else float(mass.min())


# Where records lie: ordered columns as coordinates and back, and the ground distance of a domain as an L1 distance.


def first_and_last(column: Column) -> tuple[float, float]:
    """Return the positions of an ordered column's first and last cells, or the bounds of a continuous one."""
    ends = (column.lower, column.upper) if column.values is None else (0, column.values - 1)  # type: ignore[attr-defined]
    low, high = column.positions(np.array(ends)).tolist()
    return low, high


def nearest_codes(column: Column, positions: Floats) -> npt.NDArray[np.generic]:
    """Return the codes whose positions are nearest, the smaller one in a tie; what lies outside goes to the end."""
    if column.values is None:
        return np.clip(positions, *first_and_last(column))
    low = np.zeros(positions.shape, dtype=np.int64)
    high = np.full(positions.shape, column.values - 1)
    for _ in range((column.values - 1).bit_length()):
        middle = low + (high - low + 1) // 2
        right = column.positions(middle) <= positions
        low, high = np.where(right, middle, low), np.where(right, high, middle - 1)
    above = np.minimum(low + 1, column.values - 1)
    nearer = column.positions(above) - positions < positions - column.positions(low)
    return np.where(nearer, above, low)


def ground_embedding(domain: Domain, records: Records) -> Floats:
    """Embed records so that the L1 distance of two embeddings is their ground distance, exactly up to rounding."""
    # With w a column's weight: an ordered one is a coordinate w x, x between 0 and 1. Where it has nulls, it is two:
    # w (x, 1 - x)/2, and w (3/4, 3/4) for a null, at distance w from every value. One without an order is w/2 at the
    # place of its category (a null is one more), 0 elsewhere. Columns of weight 0 are left out, and none is open.
    weights = domain.metric_weights or {}
    parts = [np.zeros((len(records), 0))]
    for (name, column), codes in zip(domain.columns.items(), records.columns, strict=True):
        weight = weights.get(name, 1.0)
        if weight == 0:
            continue
        if column.on_a_line:
            scaled = (column.positions(codes) - first_and_last(column)[0]) / (column.scale or 1.0)
            pair = np.stack((scaled, 1 - scaled), axis=1) / 2
            parts.append(weight * (np.where(np.isnan(pair), 0.75, pair) if column.nullable else scaled[:, None]))
        else:
            corners = np.zeros((len(codes), column.size or 0))
            corners[np.arange(len(codes)), codes.astype(np.int64)] = weight / 2
            parts.append(corners)
    return np.concatenate(parts, axis=1)


def ground_diameter(domain: Domain) -> float:
    """Return the sum of the columns' weights: no two records are farther apart."""
    weights = domain.metric_weights or {}
    return sum(weights.get(name, 1.0) for name in domain.names)


def refuse_open_labels(domain: Domain, api: str) -> None:
    """Refuse a domain that has a column of open labels. Raises ParameterError naming the first of them."""
    for name, column in domain.columns.items():
        if column.open:
            raise ParameterError(
                f"column {name!r}: the API {api} cannot invent or compare open labels. Use Callables or a text "
                "model, which bring their own embedding, or declare the labels as a category"
            )


# Cells that a coin splits in two: docs/theory/coins.md.


def cell_span(column: Column, codes: Codes) -> tuple[Codes, Codes]:
    """Return the first and the last code of the cells that codes are halves of; the codes themselves, of others."""
    if column.halves is None:
        return codes, codes
    half = column.halves[np.asarray(codes, dtype=np.int64)]
    return codes - (half == 1), codes + (half == 0)


def first_codes(domain: Domain, records: Records) -> Records:
    """Return records with the first code of its cell for each code: whatever the coins say."""
    parts = zip(domain.columns.values(), records.columns, strict=True)
    return Records(columns=tuple(cell_span(column, codes)[0] for column, codes in parts))


def coin_codes(column: Column, codes: Codes, values: pl.Series, rng: np.random.Generator) -> Codes:
    """Return codes of confidential values after a coin for each: on average the end of the cell that it says is it."""
    if column.halves is None:
        return codes
    low, high = cell_span(column, codes)
    rows = np.flatnonzero(low < high)
    start, end = column.ends(low[rows])[0], column.ends(high[rows])[1]
    coins = np.zeros(len(low), dtype=np.int64)
    coins[rows] = rng.random(len(rows)) < (column.coordinates(values[rows]) - start) / (end - start)
    return low + coins


def coin_ends(column: Column, codes: Codes) -> Floats:
    """Return the end of its cell that each code's coin says, NaN for a null: of many records it has the mean."""
    low, high = cell_span(column, codes)
    return np.where(np.asarray(codes) > low, column.ends(high)[1], column.ends(low)[0])
