"""What a domain declares of its records: combinations that cannot occur, and published totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import DomainError, flag
from discreet._core.numeric import Booleans, Integers
from discreet._core.random import seeded
from discreet._core.reading import MOST_CELLS
from discreet._core.text import counted, listed
from discreet.domain.column import Column
from discreet.domain.texts import is_text, type_text

# Conditions on one column: which of its cells are meant by a label, a list of labels, or a range.
#
# A condition is about cells, since these are what is counted and released: one that holds for a part of a cell only is
# refused. Conditions are public, and are kept as plain values that TOML and JSON have in common.


class CellReader:
    """Reads the conditions on one column. Raises DomainError when it has not finitely many cells."""

    def __init__(self, name: str, column: Column) -> None:
        if column.open:
            raise DomainError(f"column {name!r} has no cells. Declare its labels as a category")
        if column.size is None:
            raise DomainError(f"column {name!r} has no cells. Declare cells, a grid or categories")
        self.name, self.column = name, column
        self._cells = {(type(label), label): code for code, label in enumerate(column.labels or ())}

    def codes(self, condition: Any) -> Integers:
        """Return the cells that a plain condition holds for, in order."""
        try:
            if isinstance(condition, Mapping):
                cells = self._range(condition)
            else:
                keys = [(type(value), value) for value in listed(condition)]
                self._cells |= {key: self.column._alone(key[1]) for key in keys if key not in self._cells}
                cells = np.array(sorted({self._cells[key] for key in keys}), dtype=np.int64)
        except DomainError as problem:
            raise DomainError(f"column {self.name!r}: {problem}") from None
        if not len(cells):
            raise DomainError(f"column {self.name!r}: no value fits the condition. Leave it out")
        return cells

    def _range(self, condition: Mapping[str, Any]) -> Integers:
        low, high = 0, self.column.values or 0
        if "from" in condition:
            low = self.column._below("from", condition["from"])
        if "below" in condition:
            high = self.column._below("below", condition["below"])
        if set(condition) == {"null"}:
            high = 0
        cells = np.arange(low, high, dtype=np.int64)
        if flag("null", condition.get("null", False), error=DomainError):
            cells = np.append(cells, self.column.null_code)
        return cells


# What cannot occur together: rules, compiled to tables of the records that are allowed.
#
# ``impossible`` and ``implies`` forbid boxes of cells; the others say of a set of columns what is allowed. All that is
# said of the same columns makes one table. It is made from the domain alone.

MOST_ROWS = 1 << 16
"""Entries of ``impossible`` and rows of ``implies`` together."""

_MOST_FORBIDDEN = 1 << 26  # cells of all boxes together

_MOST_COLUMNS = 24  # of a constraint


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constraint:
    """Which combinations of the cells of some columns are allowed: public.

    Parameters
    ----------
    columns : tuple of int
        Positions of the columns in the domain, ascending.
    allowed : ndarray of bool
        One axis per column, as long as the column has cells, the null's included.
    """

    columns: tuple[int, ...]
    allowed: Booleans


class Readers(dict[str, CellReader]):
    """Readers of conditions on the columns of a domain, made when they are asked for."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        super().__init__()
        self.columns = columns
        self.place = {name: index for index, name in enumerate(columns)}

    def __missing__(self, name: str) -> CellReader:
        if name not in self.columns:
            raise DomainError(f"{name!r} is not a column of the domain")
        self[name] = CellReader(name, self.columns[name])
        return self[name]

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of cells of some columns. Raises DomainError when all together have too many."""
        if len(names) > _MOST_COLUMNS:
            raise DomainError(f"at most {_MOST_COLUMNS} columns can be constrained together, got {len(names):,}")
        sizes = tuple(self[name].column.size or 0 for name in names)
        if prod(sizes) > MOST_CELLS:
            raise DomainError(
                f"the columns {listed_names(names)}, constrained together, have {counted(prod(sizes), 'cell')}, more "
                f"than {MOST_CELLS:,}. Declare fewer cells of these columns, or constrain fewer columns together"
            )
        return sizes


class _Tables(dict[tuple[int, ...], Booleans]):
    """Which combinations of the cells of sets of columns are allowed, by the columns' places."""

    def __init__(self, readers: Readers) -> None:
        super().__init__()
        self.readers, self.cells = readers, 0

    def of_columns(self, names: Sequence[str]) -> tuple[tuple[int, ...], Booleans]:
        """Return columns in the order of their places, and the table of what they allow so far."""
        axes = sorted(range(len(names)), key=lambda axis: self.readers.place[names[axis]])
        places = tuple(self.readers.place[names[axis]] for axis in axes)
        if places not in self:
            sizes = self.readers.sizes([names[axis] for axis in axes])
            self.cells += prod(sizes)
            if self.cells > MOST_CELLS:
                raise DomainError(f"all constraints together must have at most {MOST_CELLS:,} cells. Declare fewer")
            self[places] = np.ones(sizes, dtype=np.bool_)
        return tuple(axes), self[places]


def compiled(readers: Readers, rules: Mapping[str, Any]) -> tuple[tuple[Constraint, ...], tuple[tuple[str, str], ...]]:
    """Return what plain rules allow, as one constraint per set of columns, and ordered pairs of the same intervals."""
    tables, intervals = _Tables(readers), []
    _forbid(tables, rules)
    for rule, names, combinations in _restrictions(readers, rules):
        try:
            readers.sizes(names)
            part, same = combinations()
        except DomainError as problem:
            raise DomainError(f"{rule}: {problem}") from None
        axes, allowed = tables.of_columns(names)
        allowed &= part.transpose(axes)
        if same:
            intervals.append((names[0], names[-1]))
    try:
        TopologicalSorter({high: [a for a, b in intervals if b == high] for _, high in intervals}).prepare()
    except CycleError as problem:
        names = sorted({*problem.args[1]}, key=list(readers.place).index)
        raise DomainError(
            f"order and at_most put the columns {listed_names(names)} in a circle, which would make values within a "
            "cell equal. Drop a rule on them, or declare cells of single values"
        ) from None
    for allowed in tables.values():
        allowed.setflags(write=False)
    constraints = tuple(Constraint(columns=places, allowed=allowed) for places, allowed in sorted(tables.items()))
    return constraints, tuple(intervals)


def _forbid(tables: _Tables, rules: Mapping[str, Any]) -> None:
    """Take the boxes of ``impossible`` and ``implies`` out of the tables."""
    readers, forbidden = tables.readers, 0
    rows = len(rules["impossible"]) + len(rules["possible"]) + sum(len(entry["table"]) for entry in rules["implies"])
    if rows > MOST_ROWS:
        raise DomainError(f"impossible, possible and implies must have at most {MOST_ROWS:,} rows together")
    for place, columns, conditions, determines in _table_rows(rules):
        try:
            sizes = readers.sizes(columns)  # refused before a cell is listed
            box = [readers[name].codes(condition) for name, condition in zip(columns, conditions, strict=True)]
        except DomainError as problem:
            raise DomainError(f"{place}: {problem}") from None
        if determines:
            box[-1] = np.setdiff1d(np.arange(sizes[-1]), box[-1], assume_unique=True)
            forbidden += sizes[-1]
        forbidden += prod(map(len, box))
        if forbidden > _MOST_FORBIDDEN:
            raise DomainError(f"all rows together must forbid at most {_MOST_FORBIDDEN:,} cells. Declare fewer")
        axes, allowed = tables.of_columns(columns)
        allowed[np.ix_(*(box[axis] for axis in axes))] = False


def _table_rows(rules: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str], Sequence[Any], bool]]:
    """Yield a place in the declaration, columns, conditions on them, and whether the last is what has to hold."""
    for number, entry in enumerate(rules["impossible"], start=1):
        yield f"[[impossible]] number {number}", list(entry), list(entry.values()), False
    for number, entry in enumerate(rules["implies"], start=1):
        names, table = [*entry["columns"], entry["determine"]], entry["table"]
        for row in table.items() if isinstance(table, Mapping) else table:
            yield f"[[implies]] number {number}", names, row, True


def _restrictions(readers: Readers, rules: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str], Callable[[], Any]]]:
    """Yield a rule, its columns, and what returns which combinations it allows, and if both have the same intervals."""
    boxes: dict[frozenset[str], list[Mapping[str, Any]]] = {}
    for entry in rules["possible"]:
        boxes.setdefault(frozenset(entry), []).append(entry)
    for entries in boxes.values():
        yield "possible", list(entries[0]), partial(_union, readers, entries)
    for names in rules["nulls_together"]:
        yield from (("nulls_together", pair, partial(_same_nulls, readers, pair)) for pair in pairwise(names))
    for names in rules["order"]:
        yield from (("order", pair, partial(_ascending, readers, pair)) for pair in pairwise(names))
    yield from (("at_most", pair, partial(_ascending, readers, pair)) for pair in rules["at_most"].items())


def _union(readers: Readers, entries: Sequence[Mapping[str, Any]]) -> tuple[Booleans, bool]:
    names = list(entries[0])
    allowed = np.zeros(readers.sizes(names), dtype=np.bool_)
    for entry in entries:
        allowed[np.ix_(*(readers[name].codes(entry[name]) for name in names))] = True
    return allowed, False


def _same_nulls(readers: Readers, names: Sequence[str]) -> tuple[Booleans, bool]:
    nulls = []
    for name, size in zip(names, readers.sizes(names), strict=True):
        if not readers[name].column.nullable:
            raise DomainError(f'column {name!r} has no nulls. Declare nulls = "category" for it, or leave it out')
        nulls.append(np.arange(size) == readers[name].column.null_code)
    return np.equal.outer(*nulls), False


def _ascending(readers: Readers, names: Sequence[str]) -> tuple[Booleans, bool]:
    """Return which cells of two columns have the second's value at or above the first's; nulls are in any order."""
    (scale, cells, points), (scale_above, cells_above, points_above) = (_ends(readers[name]) for name in names)
    if scale != scale_above:
        problem = f"columns {listed_names(names)} hold {scale} and {scale_above} values, which have no common order"
        raise DomainError(f"{problem}. Declare one type for both")
    sizes = [len(cells[0])] * 2 + [len(cells_above[0])] * 2
    _, ranks = np.unique(np.concatenate(cells + cells_above), return_inverse=True)
    low, high, low_above, high_above = np.split(ranks, np.cumsum(sizes)[:-1])
    same = np.equal.outer(low, low_above) & np.equal.outer(high, high_above)
    same &= (low == high)[:, None] | (points == points_above)  # of others, a value may not be one of both columns
    before = np.less_equal.outer(high, low_above)
    if not (same | before | np.greater_equal.outer(low, high_above)).all():
        raise DomainError(
            f"cells of the columns {listed_names(names)} overlap in part, or hold other values. Declare the same type, "
            "bounds, step and cells for both, or cells of single values"
        )
    allowed = np.ones(readers.sizes(names), dtype=np.bool_)
    allowed[: len(low), : len(low_above)] = same | before
    return allowed, bool((same & (low < high)[:, None]).any())


def _ends(reader: CellReader) -> tuple[str, list[Any], Any]:
    """Return what values are, the least and greatest value of each cell, exactly, and which ones are between."""
    column = reader.column
    if not column.on_a_line:
        raise DomainError(f"column {reader.name!r} has no order. Leave it out")
    codes, scale = np.arange(column.values or 0), "number"
    values = column.decode(codes, rng=seeded(0))
    ends, points = column.interval(codes) or (values, values), (values.dtype, getattr(column, "step", None))
    if is_text(values.dtype):
        raise DomainError(f"column {reader.name!r} has texts for values. Leave it out")
    if values.dtype.is_temporal():
        ends, scale = (ends[0].to_physical(), ends[1].to_physical()), type_text(values.dtype)
    cells = [np.array(end.to_list(), dtype=object) for end in ends]
    return scale, cells, (*points, *(getattr(column, "_lattice", None) or ())[:2])


def remaining(readers: Readers, constraints: Sequence[Constraint]) -> dict[int, Booleans]:
    """Return the cells of each constrained column that every constraint by itself allows."""
    names = list(readers.place)
    live: dict[int, Booleans] = {}
    for constraint in constraints:
        axes = range(len(constraint.columns))
        for axis, place in enumerate(constraint.columns):
            occurs = constraint.allowed.any(axis=tuple(set(axes) - {axis}))
            live[place] = live.get(place, True) & np.asarray(occurs)
            if not live[place].any():
                raise DomainError(f"the rules leave no value of column {names[place]!r}. Correct a rule")
    return live


def listed_names(names: Sequence[str]) -> str:
    """Return names of columns as an error quotes them."""
    return ", ".join([*map(repr, names[:6]), *["..." for _ in names[6:7]]])


# Published totals: how many records have which values of a column, from a public source that is named.


@sealed
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
    readers: Readers, entries: Sequence[Mapping[str, Any]], live: Mapping[int, Booleans]
) -> tuple[PublishedTotals, ...]:
    """Return plain entries of ``totals`` by cells; ``live`` has the cells of constrained columns that can occur."""
    totals: list[PublishedTotals] = []
    for number, entry in enumerate(entries, start=1):
        try:
            totals.append(_totals_of(readers, entry, live))
            _check_agrees(totals)
        except DomainError as problem:
            raise DomainError(f"[[totals]] number {number}: {problem}") from None
    return tuple(totals)


def _check_agrees(totals: Sequence[PublishedTotals]) -> None:
    """Refuse the last totals where they do not agree with the earlier ones."""
    *earlier, latest = totals
    if latest.column in [entry.column for entry in earlier]:
        raise DomainError("what it is about has totals already. Leave one of them out")
    total, wanted_total = int(latest.counts.sum()), int(totals[0].counts.sum())
    if not total:
        raise DomainError("its counts sum to 0. Leave it out")
    if total != wanted_total:
        raise DomainError(f"its counts sum to {total:,}, and those of number 1 to {wanted_total:,}. Make them agree")


def _totals_of(readers: Readers, entry: Mapping[str, Any], live: Mapping[int, Booleans]) -> PublishedTotals:
    if "column" not in entry:
        total = np.array([entry["count"]], dtype=np.int64)
        return PublishedTotals(column=None, group=None, counts=total, source=entry["source"])
    name, counts = entry["column"], entry["counts"]
    reader, (size,) = readers[name], readers.sizes([name])
    occurs = live.get(readers.place[name], np.ones(size, dtype=np.bool_))
    rows: list[Any] = list(counts.items() if isinstance(counts, Mapping) else counts)
    group = np.full(size, -1, dtype=np.int64)
    for row, (condition, count) in enumerate(rows):
        codes = reader.codes(condition)
        if (group[codes] >= 0).any():
            raise DomainError(f"column {name!r}: row {row + 1} of counts has a value that an earlier one has")
        if count and not occurs[codes].any():
            raise DomainError(f"column {name!r}: row {row + 1} of counts is of what is declared impossible")
        group[codes] = row
    missing = np.flatnonzero(group < 0)
    if len(missing):
        hint = "Write 0 for a value that no record has"
        if reader.column.nullable and missing[-1] == size - 1:
            hint = f"Write the count of null as [{{null = true}}, COUNT]. {hint}"
        left_out = f"counts leaves out {counted(len(missing), 'cell')} of {size:,}"
        raise DomainError(f"column {name!r}: {left_out}. Totals must be complete. {hint}")
    group.setflags(write=False)
    numbers = np.array([count for _, count in rows], dtype=np.int64)
    return PublishedTotals(column=readers.place[name], group=group, counts=numbers, source=entry["source"])
