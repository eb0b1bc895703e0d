"""Cells found where the table is: an engine hands on codes, at most one row for each joint cell that is held.

Three things are the same for every engine. A value that does not fit has the code -1, so one scan finds it and counts
the rest; the row is then asked for, and encoding it here gives the refusal. A column whose cells an engine cannot find
bit by bit as :meth:`~discreet.domain.Column.encode` does is handed on raw. An engine that fails, whatever it says, has
raw values grouped instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import quietly
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet.domain import Column, Records

MISFIT = -1
"""The code of a value that does not fit."""

T = TypeVar("T")


class EngineFailed(DataError):
    """An engine could not find cells: raw values are grouped instead."""

    def __init__(self) -> None:
        super().__init__(None, "could not be read", "check the types of its columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells(ABC):
    """A table in an engine that finds cells.

    ``columns``: public; the declared columns.
    """

    columns: Mapping[str, Column]

    @abstractmethod
    def coded(self, name: str) -> bool:
        """Whether the engine finds the cells of a column; else it hands on its values."""

    @abstractmethod
    def counts(self) -> pl.DataFrame:
        """Return the distinct rows of codes, and their frequencies."""

    @abstractmethod
    def batches(self) -> Iterator[pl.DataFrame]:
        """Iterate over rows of codes, with frequencies where they are grouped."""

    @abstractmethod
    def misfits(self) -> pl.DataFrame:
        """Return a few raw rows, among them one that does not fit if there is any."""

    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Cut every unit to at most ``most`` rows in the engine; None where it cannot.

        A row stays by its place in the order of a keyed hash of its unit, its codes, and its number among the unit's
        rows with these codes. So computing it again gives the same rows, other units have no part in it, and to who
        does not know the key all of a unit's rows are alike.

        ``key``: secret.
        Returns: the distinct rows of codes that stay, and their frequencies; the number of units; the number of rows
        without a unit.
        """
        return None

    def records(self, frame: pl.DataFrame) -> Records:
        """Return rows of codes as records. Raises DataError where a value does not fit."""
        return Records(columns=tuple(self._codes(frame[name], name, column) for name, column in self.columns.items()))

    def _codes(self, found: pl.Series, name: str, column: Column) -> npt.NDArray[np.generic]:
        if not self.coded(name):
            return column.encode(found, name=name)
        codes = found.cast(pl.Int64).to_numpy()
        if len(codes) and codes.min() < 0:
            rows = attempted(self.misfits)
            for each, declared in self.columns.items():
                declared.encode(rows[each], name=each)
            raise column._unreadable(name)
        return codes


def attempted(action: Callable[[], T]) -> T:
    """Let an engine work. Raises EngineFailed where it fails, with no trace of its error, which may hold values."""
    return quietly(action, EngineFailed())


def attempted_parts(parts: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Let an engine work part by part."""
    iterator = attempted(parts)
    while (part := attempted(lambda: next(iterator, None))) is not None:
        yield part


def coded_frame(frame: pl.DataFrame, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return rows with codes in place of values, where a column has cells; no value makes this fail.

    What has no cells is a text or a float, without a negative zero or NaN.
    """
    return pl.DataFrame([_coded(frame[name], column).alias(name) for name, column in columns.items()])


def _coded(values: pl.Series, column: Column) -> pl.Series:
    if not column.finite:
        return values.cast(pl.String) if column._code_type is object else (values.cast(pl.Float64) + 0.0).fill_nan(None)
    try:
        return pl.Series(column.encode(values))
    except DataError:
        fits = np.ones(len(values), dtype=np.bool_)
        for misfit in column.misfits(values):
            fits &= ~misfit.where
        codes = np.full(len(values), MISFIT, dtype=np.int64)
        codes[fits] = column.encode(values.filter(fits))
        return pl.Series(codes)
