"""Records and counts: the plain values that mechanisms work on.

A table is held column by column in *encoded* form: a finite column is an array of cell codes ``0 .. size-1``
(int64), a continuous column an array of float64 values, an open set of labels an array of Python strings (object).
``Counts`` is the sufficient statistic every mechanism of this library reads: the distinct records and how often each
occurs. It is sparse: what nobody holds takes no memory, however large the product of the columns' cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

_PART = 1 << 18


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
        return len(self.columns[0]) if self.columns else 0

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
    frequencies: npt.NDArray[np.int64]

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
    """Encoded records that are known by their privacy unit, for a mechanism in which units vote.

    ``records``: those that units keep; of one unit distinct ones, all of a unit side by side.
    ``frequencies``, shape (j,): how often a unit has each; all at least 1.
    ``owners``, shape (j,): the number of the unit that has it, ``0 .. n-1`` in ascending order.
    ``n``: number of units, those without records included: public under the replacement relation.
    """

    records: Records
    frequencies: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]
    n: int

    def parts(self) -> Iterator[Units]:
        """Yield whole units in parts."""
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        cuts = starts[np.searchsorted(starts, np.arange(_PART, len(self.owners), _PART), side="right") - 1]
        for start, stop in pairwise([*np.unique(np.append(0, cuts)).tolist(), len(self.owners)]):
            part = slice(start, stop)
            yield Units(
                records=self.records.take(part),
                frequencies=self.frequencies[part],
                owners=self.owners[part],
                n=len(np.unique(self.owners[part])),
            )


class Parts(Protocol):
    """A table that can be read in parts, more than once: :class:`Counts`, units, or rows that stay where they are."""

    @property
    def n(self) -> int:
        """Number of records."""

    def parts(self) -> Iterator[Counts | Units]:
        """Yield encoded records and their frequencies; a record may come in several parts."""
