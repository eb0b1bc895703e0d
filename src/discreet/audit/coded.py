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
class Coded:
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
        return np.arange(len(self)) if self.sizes is None else np.repeat(np.arange(len(self)), self.sizes)

    def take(self, index: Integers) -> Coded:
        """Return some of the units, all rows of each."""
        if self.sizes is None:
            return self._rows(index, None)
        sizes = self.sizes[index]
        starts = np.cumsum(self.sizes) - self.sizes
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._rows(np.repeat(starts[index], sizes) + within, sizes)

    def ordered(self) -> Coded:
        """Return the same table in an order that its file does not decide: rows by their values, within their units."""
        values = self.codes["values"].T
        return self._rows(np.lexsort(values if self.sizes is None else (*values, self.owners)), self.sizes)

    def by_unit(self, labels: npt.NDArray[Any]) -> Coded:
        """Return the rows unit by unit."""
        _, unit, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        return self._rows(np.argsort(unit, kind="stable"), sizes)

    def _rows(self, index: Integers, sizes: Integers | None) -> Coded:
        codes = {name: codes[index] for name, codes in self.codes.items()}
        return Coded(codes=codes, points=self.points[index], sizes=sizes)


def coded(tables: Sequence[pl.DataFrame], domain: Domain | None) -> list[Coded]:
    """Code tables of the same columns; cells that a domain declares are a resolution of their own."""
    points: list[Floats] = []
    exact, ranges, declared = [], [], []
    for name in tables[0].columns:
        columns = [table[name] for table in tables]
        numbers = _numbers(columns)
        labels = pl.concat([column.cast(pl.String) for column in columns]).to_numpy() if numbers is None else numbers
        own = np.unique(labels.astype(str) if numbers is None else numbers, return_inverse=True)[1].reshape(-1)
        exact.append(own)
        if numbers is None:
            ranges.append(own)
            common = np.argsort(-np.bincount(own), kind="stable")[:_MOST_LABELS]
            points.extend((own == label) * np.sqrt(0.5) for label in common)
        else:
            rank = own / max(1, int(own.max()))
            points.append(rank)
            edges = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
            ranges.append(np.searchsorted(edges, numbers, side="right"))
        if domain is not None and domain.finite:
            column = domain.columns[name]
            texts = [column.parse(one) if one.dtype == pl.String else one for one in columns]
            declared.append(np.concatenate([column.encode(one, name=name) for one in texts]))
    codes = {"values": np.column_stack(exact), "ranges": np.column_stack(ranges)}
    if declared:
        codes["cells"] = np.column_stack(declared)
    everything = Coded(codes=codes, points=np.column_stack(points))
    ends = np.cumsum([table.height for table in tables])
    return [everything.take(np.arange(end - table.height, end)) for table, end in zip(tables, ends, strict=True)]


def coded_counts(counts: Floats, domain: Domain) -> Coded:
    """Code released counts, nan where a cell has none: a row for each other cell, at the resolution of cells alone."""
    held = np.flatnonzero(~np.isnan(counts))
    codes = np.column_stack([np.asarray(column, dtype=np.int64) for column in domain.unflat(held).columns])
    return Coded(codes={"cells": codes}, points=np.empty((len(held), 0)), counts=counts[held])


def _numbers(columns: Sequence[pl.Series]) -> Floats | None:
    """Return the values of a column of numbers or dates, nulls before all others; None where it holds labels."""
    parts = []
    moments: Any = next((column.dtype for column in columns if column.dtype in (pl.Date, pl.Datetime)), None)
    for given in columns:
        as_texts = moments is not None and given.dtype == pl.String
        column = given.str.strptime(moments, strict=False) if as_texts else given  # a CSV file beside a Parquet one
        temporal = column.dtype.is_temporal()
        if not temporal and not column.dtype.is_numeric() and column.dtype != pl.String:
            return None
        read = (column.to_physical() if temporal else column).cast(pl.Float64, strict=False)
        if read.null_count() > given.null_count():
            return None
        parts.append(read.to_numpy())
    values = np.concatenate(parts)
    known = values[np.isfinite(values)]
    return np.where(np.isfinite(values), values, (known.min() if len(known) else 0.0) - 1.0)
