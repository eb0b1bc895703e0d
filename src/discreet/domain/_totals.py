"""Published totals: how many records have which values of a column, from a public source that is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Booleans, Integers
from discreet._core.errors import DomainError
from discreet._core.text import counted
from discreet.domain._constraints import Readers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublishedTotals:
    """Totals of the cells of one column, or of the whole table: public.

    Parameters
    ----------
    column : int or None
        Position of the column in the domain; None for the whole table.
    group : ndarray of int64 or None
        For each cell of the column, the null's included, the position of its total in ``counts``.
    counts : ndarray of int64
        Numbers of records; of the whole table, one.
    source : str
        Where they were published.
    """

    column: int | None
    group: Integers | None
    counts: Integers
    source: str


def published(
    readers: Readers, totals: Sequence[Mapping[str, Any]], live: Mapping[int, Booleans]
) -> tuple[PublishedTotals, ...]:
    """Return plain entries of ``totals`` by cells.

    ``readers``: of the columns.
    ``totals``: the entries.
    ``live``: the cells of constrained columns that can occur.

    Raises DomainError when an entry does not fit the columns, does not cover every cell of its column once, gives a
    count to what cannot occur, or when two entries do not have the same sum.
    """
    found: dict[int | None, PublishedTotals] = {}
    for number, entry in enumerate(totals, start=1):
        try:
            one = _one(readers, entry, live)
            _check_agrees(one, found)
        except DomainError as problem:
            raise DomainError(f"[[totals]] number {number}: {problem}") from None
        found[one.column] = one
    return tuple(found.values())


def _check_agrees(one: PublishedTotals, earlier: Mapping[int | None, PublishedTotals]) -> None:
    if one.column in earlier:
        raise DomainError("what it is about has totals already. Leave one of them out")
    total = int(one.counts.sum())
    if not total:
        raise DomainError("its counts sum to 0. Leave it out")
    first = int(next(iter(earlier.values()), one).counts.sum())
    if total != first:
        raise DomainError(f"its counts sum to {total:,}, and those of number 1 to {first:,}. Make them agree")


def _one(readers: Readers, entry: Mapping[str, Any], live: Mapping[int, Booleans]) -> PublishedTotals:
    if "column" not in entry:
        counts = np.array([entry["count"]], dtype=np.int64)
        return PublishedTotals(column=None, group=None, counts=counts, source=entry["source"])
    name, given = entry["column"], entry["counts"]
    reader, (size,) = readers[name], readers.sizes([name])
    occurs = live.get(readers.place[name], np.ones(size, dtype=np.bool_))
    rows: list[Any] = list(given.items() if isinstance(given, Mapping) else given)
    group = np.full(size, -1, dtype=np.int64)
    for row, (condition, count) in enumerate(rows):
        codes = reader.codes(condition)
        if (group[codes] >= 0).any():
            raise DomainError(f"column {name!r}: row {row + 1} of counts has a value that an earlier one has")
        if count and not occurs[codes].any():
            raise DomainError(f"column {name!r}: row {row + 1} of counts is of what is declared impossible")
        group[codes] = row
    _check_complete(name, group, nullable=reader.column.nullable)
    group.setflags(write=False)
    counts = np.array([count for _, count in rows], dtype=np.int64)
    return PublishedTotals(column=readers.place[name], group=group, counts=counts, source=entry["source"])


def _check_complete(name: str, group: Integers, *, nullable: bool) -> None:
    missing = np.flatnonzero(group < 0)
    if not len(missing):
        return
    hint = "Write that of null as [{null = true}, COUNT]. " if nullable and missing[-1] == len(group) - 1 else ""
    raise DomainError(
        f"column {name!r}: counts leaves out {counted(len(missing), 'cell')} of {len(group):,}. Totals must be "
        f"complete. {hint}Count 0 where nothing has the value"
    )
