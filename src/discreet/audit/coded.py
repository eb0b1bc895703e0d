"""Tables as attacks read them: a table, its control and a release on one coding of their columns. Confidential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, Integers
from discreet._core.lazy import pl
from discreet.domain import Domain

BINS = 16
"""Into how many ranges, of as many records each, columns of numbers are cut."""

_MOST_LABELS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedUnits:
    """Records of one or several tables, row by row: codes by resolution, and points.

    ``counts`` and ``sizes`` are None where each row is a record, and a unit.
    """

    codes: dict[str, Integers]
    points: Floats
    counts: Floats | None = None
    sizes: Integers | None = None

    def __len__(self) -> int:
        return len(self.points) if self.sizes is None else len(self.sizes)

    @property
    def owners(self) -> Integers:
        """The unit of each row."""
        return np.repeat(np.arange(len(self)), 1 if self.sizes is None else self.sizes)

    @property
    def starts(self) -> Integers:
        """Where the rows of each unit begin, and where they all end."""
        return np.searchsorted(self.owners, np.arange(len(self) + 1)).astype(np.int64)

    def sums(self, values: Floats) -> Floats:
        """Return the sum of a value of each record, unit by unit."""
        if self.sizes is None:
            return values
        return np.bincount(self.owners, weights=values, minlength=len(self)).astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """Return the mean of a value of each record, unit by unit."""
        return values if self.sizes is None else self.sums(values) / self.sizes

    def take(self, index: Integers) -> CodedUnits:
        """Return some of the units, all rows of each."""
        if self.sizes is None:
            return self._rows(index, None)
        sizes = self.sizes[index]
        starts = np.cumsum(self.sizes) - self.sizes
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._rows(np.repeat(starts[index], sizes) + within, sizes)

    def ordered(self) -> CodedUnits:
        """Return the same table in an order that its file does not decide: rows by their values, within their units."""
        values = self.codes["values"].T
        return self._rows(np.lexsort(values if self.sizes is None else (*values, self.owners)), self.sizes)

    def by_unit(self, labels: npt.NDArray[Any]) -> CodedUnits:
        """Return the rows unit by unit."""
        _, unit, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        return self._rows(np.argsort(unit, kind="stable"), sizes)

    def _rows(self, index: Integers, sizes: Integers | None) -> CodedUnits:
        codes = {name: codes[index] for name, codes in self.codes.items()}
        return CodedUnits(codes=codes, points=self.points[index], sizes=sizes)


def coded_tables(tables: Sequence[pl.DataFrame], domain: Domain | None) -> list[CodedUnits]:
    """Code tables of the same columns; cells that a domain declares are a resolution of their own."""
    points: list[Floats] = []
    values, ranges, cells = [], [], []
    for name in tables[0].columns:
        columns = [table[name] for table in tables]
        numbers = _numbers_of(columns)
        if numbers is None:
            labels = pl.concat([column.cast(pl.String) for column in columns]).to_numpy().astype(str)
            codes = np.unique(labels, return_inverse=True)[1].reshape(-1)
            ranges.append(codes)
            common = np.argsort(-np.bincount(codes), kind="stable")[:_MOST_LABELS]
            points.extend((codes == label) * np.sqrt(0.5) for label in common)
        else:
            codes = np.unique(numbers, return_inverse=True)[1].reshape(-1)
            edges = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
            ranges.append(np.searchsorted(edges, numbers, side="right"))
            points.append(codes / max(1, int(codes.max())))
        values.append(codes)
        if domain is not None and domain.finite:
            declared = domain.columns[name]
            parsed = [declared.parse(column) if column.dtype == pl.String else column for column in columns]
            cells.append(np.concatenate([declared.encode(column, name=name) for column in parsed]))
    by_resolution = {"values": np.column_stack(values), "ranges": np.column_stack(ranges)}
    if cells:
        by_resolution["cells"] = np.column_stack(cells)
    units = CodedUnits(codes=by_resolution, points=np.column_stack(points))
    ends = np.cumsum([table.height for table in tables])
    return [units.take(np.arange(end - table.height, end)) for table, end in zip(tables, ends, strict=True)]


def coded_counts(counts: Floats, domain: Domain) -> CodedUnits:
    """Code released counts, nan where a cell has none: a row for each other cell, at the resolution of cells alone."""
    cells = np.flatnonzero(~np.isnan(counts))
    codes = np.column_stack([np.asarray(column, dtype=np.int64) for column in domain.unflat(cells).columns])
    return CodedUnits(codes={"cells": codes}, points=np.empty((len(cells), 0)), counts=counts[cells])


def _numbers_of(columns: Sequence[pl.Series]) -> Floats | None:
    """Return the values of a column of numbers or dates, nulls before all others; None where it holds labels."""
    parts = []
    moments: Any = next((column.dtype for column in columns if column.dtype in (pl.Date, pl.Datetime)), None)
    for column in columns:
        nulls = column.null_count()
        if moments is not None and column.dtype == pl.String:  # of a CSV file beside a Parquet one
            column = column.str.strptime(moments, strict=False)  # noqa: PLW2901
        if column.dtype.is_temporal():
            column = column.to_physical()  # noqa: PLW2901
        elif not column.dtype.is_numeric() and column.dtype != pl.String:
            return None
        numbers = column.cast(pl.Float64, strict=False)
        if numbers.null_count() > nulls:
            return None
        parts.append(numbers.to_numpy())
    values = np.concatenate(parts)
    finite = np.isfinite(values)
    lowest = values[finite].min() if finite.any() else 0.0
    return np.where(finite, values, lowest - 1.0)
