"""What cannot occur together: ``impossible`` and ``implies``, compiled to tables of the records that are allowed.

Both forbid boxes of cells. All boxes on the same columns make one table. It is made from the domain alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Integers
from discreet._core.errors import DomainError, ParameterError
from discreet._core.reading import MOST_CELLS
from discreet._core.text import counted
from discreet.domain._column import Column
from discreet.domain._conditions import CellReader

MOST_ROWS = 1 << 16
"""Entries of ``impossible`` and rows of ``implies`` together."""

_MOST_FORBIDDEN = 1 << 26  # cells of all boxes together

_MOST_COLUMNS = 24  # of a constraint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constraint:
    """Which combinations of the cells of some columns are allowed: public.

    Parameters
    ----------
    columns : tuple of int
        Positions of the columns in the domain, ascending.
    allowed : ndarray of bool
        One axis a column, as long as the column has cells, the null's included.
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
            raise DomainError(_too_many(names, prod(sizes), MOST_CELLS))
        return sizes


def compiled(
    readers: Readers, impossible: Sequence[Mapping[str, Any]], implies: Sequence[Mapping[str, Any]]
) -> tuple[Constraint, ...]:
    """Return what plain entries forbid, as one constraint per set of columns.

    Raises DomainError when an entry does not fit the columns, or all together are too large to hold.
    """
    if len(impossible) + sum(len(entry["table"]) for entry in implies) > MOST_ROWS:
        raise DomainError(f"impossible and implies must have at most {MOST_ROWS:,} rows together")
    tables: dict[tuple[int, ...], Booleans] = {}
    held = forbidden = 0
    for row in _rows(impossible, implies):
        box = _box(readers, row)
        forbidden += prod(map(len, box)) + (readers.sizes(row.names[-1:])[0] if row.determines else 0)
        if forbidden > _MOST_FORBIDDEN:
            raise DomainError(f"all rows together must forbid at most {_MOST_FORBIDDEN:,} cells. Declare fewer")
        order = sorted(range(len(box)), key=lambda axis, names=row.names: readers.place[names[axis]])  # type: ignore[misc]
        places = tuple(readers.place[row.names[axis]] for axis in order)
        if places not in tables:
            sizes = readers.sizes([row.names[axis] for axis in order])
            held += prod(sizes)
            if held > MOST_CELLS:
                raise DomainError(f"all constraints together must have at most {MOST_CELLS:,} cells. Declare fewer")
            tables[places] = np.ones(sizes, dtype=np.bool_)
        tables[places][np.ix_(*(box[axis] for axis in order))] = False
    for table in tables.values():
        table.setflags(write=False)
    return tuple(Constraint(columns=places, allowed=table) for places, table in sorted(tables.items()))


class _Row(NamedTuple):
    """An entry of ``impossible``, or a row of one of ``implies``: the last condition is then what has to hold."""

    place: str
    names: Sequence[str]
    conditions: Sequence[Any]
    determines: bool


def _rows(impossible: Sequence[Mapping[str, Any]], implies: Sequence[Mapping[str, Any]]) -> Iterator[_Row]:
    for number, entry in enumerate(impossible, start=1):
        yield _Row(f"[[impossible]] number {number}", list(entry), list(entry.values()), determines=False)
    for number, entry in enumerate(implies, start=1):
        names, table = [*entry["columns"], entry["determine"]], entry["table"]
        for row in table.items() if isinstance(table, Mapping) else table:
            yield _Row(f"[[implies]] number {number}", names, row, determines=True)


def _box(readers: Readers, row: _Row) -> tuple[Integers, ...]:
    """Return the cells that a row forbids, on each of its columns."""
    try:
        sizes = readers.sizes(row.names)  # refused before a cell is listed
        found = [readers[name].codes(condition) for name, condition in zip(row.names, row.conditions, strict=True)]
    except DomainError as problem:
        raise DomainError(f"{row.place}: {problem}") from None
    if row.determines:
        holds = np.zeros(sizes[-1], dtype=np.bool_)
        holds[found[-1]] = True
        found[-1] = np.flatnonzero(~holds)
    return tuple(found)


def possible(readers: Readers, constraints: Sequence[Constraint]) -> dict[int, Booleans]:
    """Return the cells of each constrained column that every constraint by itself allows.

    Raises DomainError when a column has none, or a constraint allows nothing among those. Constraints are looked at one
    by one: that three or more columns contradict one another in another way is not found.
    """
    names = list(readers.place)
    live: dict[int, Booleans] = {}
    for constraint in constraints:
        for axis, place in enumerate(constraint.columns):
            others = tuple(other for other in range(len(constraint.columns)) if other != axis)
            occurs = np.asarray(constraint.allowed.any(axis=others))
            live[place] = live[place] & occurs if place in live else occurs
            if not live[place].any():
                raise DomainError(f"impossible and implies leave no value of column {names[place]!r}")
    for constraint in constraints:
        kept = np.ix_(*(np.flatnonzero(live[place]) for place in constraint.columns))
        if not constraint.allowed[kept].any():
            shown = _listed([names[place] for place in constraint.columns])
            raise DomainError(f"impossible and implies leave no values of the columns {shown} together")
    return live


def fitting(constraints: Sequence[Constraint], columns: Sequence[Any], count: int) -> Booleans:
    """Return which of some encoded records every constraint allows."""
    fits = np.ones(count, dtype=np.bool_)
    for constraint in constraints:
        fits &= constraint.allowed[tuple(columns[place] for place in constraint.columns)]
    return fits


def refuse_large(names: Sequence[str], constraints: Sequence[Constraint], *, most_cells: int, name: str) -> None:
    """Refuse a constraint on columns that have more cells together than a mechanism can hold.

    ``names``: of the domain's columns.
    ``constraints``: public.
    ``most_cells``: of one constraint.
    ``name``: of the mechanism.

    Raises ParameterError naming the columns.
    """
    for constraint in constraints:
        if constraint.allowed.size > most_cells:
            shown = [names[place] for place in constraint.columns]
            problem = _too_many(shown, constraint.allowed.size, most_cells)
            raise ParameterError(f"{name} cannot hold what is declared: {problem}")


def _too_many(names: Sequence[str], cells: int, most: int) -> str:
    return (
        f"the columns {_listed(names)}, constrained together, have {counted(cells, 'cell')}, more than {most:,}. "
        "Declare fewer cells of these columns, or constrain fewer columns together"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:6]) + (", ..." if len(names) > 6 else "")
