"""Frequencies of encoded records, as batches of them come in."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Integers
from discreet._core.lazy import pl
from discreet.confidential.source import FREQUENCY, Source, texts_of
from discreet.domain import Counts, Domain, Records

_DENSE = 2**20
_SAMPLE = 2**16
_PENDING = 2**25
_MOST_NUMBERED = 2**62


class Tally:
    """Frequencies of encoded records, batch by batch: by cell of a small finite domain, else of sortable keys or rows.

    A key is a cell, or the value of a lone continuous column. Keys and rows are condensed whenever much has come in.
    """

    def __init__(self, domain: Domain) -> None:
        columns, size = tuple(domain.columns.values()), domain.size
        self.domain = domain
        self.numbered = size is not None and size <= _MOST_NUMBERED
        self.keyed = self.numbered or (len(columns) == 1 and columns[0]._code_type is np.float64)
        self.dense = np.zeros(size, dtype=np.int64) if size is not None and size <= _DENSE else None
        self.keys: list[_Keys] = []
        self.tables: list[pl.DataFrame] = []
        self.pending = self.condensed = 0
        # Cells of numbers are found faster than equal numbers are grouped.
        self.grouping = self.dense is None or {column.kind for column in columns} != {"numeric"}

    def add(self, batch: pl.DataFrame, source: Source) -> None:
        """Count one batch of a source."""
        if batch.height == 0:
            return
        if FREQUENCY not in batch.columns and self.grouping:
            sample = batch.head(_SAMPLE)
            self.grouping = grouped(sample).height * 2 <= sample.height
            batch = grouped(batch) if self.grouping else batch
        self.add_records(*encoded(batch, self.domain, source))

    def add_records(self, records: Records, frequencies: npt.NDArray[Any] | None) -> None:
        """Count encoded records, each once where there are no frequencies."""
        if self.dense is not None:
            # Float weights are exact: a batch's frequencies are far below 2**53.
            cells = np.bincount(self.domain.flat(records), weights=frequencies, minlength=len(self.dense))
            self.dense += cells.astype(np.int64, copy=False)
            return
        if self.keyed:
            self.keys.append((self.domain.flat(records) if self.numbered else records.columns[0], frequencies))
        else:
            self.tables.append(grouped(rows_frame(records), frequencies))
        self.pending += len(records)
        if self.pending > max(_PENDING, 2 * self.condensed):
            self._condense()

    def _condense(self) -> None:
        if self.keyed:
            self.keys = [_joined(self.keys)]
            self.pending = len(self.keys[0][0])
        else:
            self.tables = [grouped(pl.concat(self.tables))]
            self.pending = self.tables[0].height
        self.condensed = self.pending

    def counts(self) -> Counts:
        """Return the distinct records, sorted, and their frequencies."""
        if self.dense is not None:
            cells = np.flatnonzero(self.dense)
            return Counts(records=self.domain.unflat(cells), frequencies=self.dense[cells])
        if not self.pending:
            return Counts(records=no_records(self.domain), frequencies=np.zeros(0, dtype=np.int64))
        self._condense()
        if self.keyed:
            ((keys, frequencies),) = self.keys
            records = self.domain.unflat(keys) if self.numbered else Records(columns=(keys,))
            return Counts(records=records, frequencies=np.asarray(frequencies))
        (table,) = self.tables
        table = table.sort([name for name in table.columns if name != FREQUENCY])
        return Counts(records=frame_records(table, self.domain), frequencies=table[FREQUENCY].to_numpy())


_Keys: TypeAlias = "tuple[npt.NDArray[Any], Integers | None]"
"""Records as sortable numbers, and how often each occurs (once, where None)."""


def _joined(parts: list[_Keys]) -> _Keys:
    """Return the distinct keys of all parts, sorted, and their frequencies."""
    keys = np.concatenate([part for part, _ in parts])
    if all(frequencies is None for _, frequencies in parts):
        keys.sort()
        starts = _group_starts(keys)
        return keys[starts], np.diff(starts, append=len(keys))
    times = [ones_or(frequencies, len(part)) for part, frequencies in parts]
    order = np.argsort(keys)
    keys = keys[order]
    starts = _group_starts(keys)
    return keys[starts], np.add.reduceat(np.concatenate(times)[order].astype(np.int64), starts)


def ones_or(frequencies: Integers | None, count: int) -> Integers:
    """Return frequencies, or one for each record."""
    return np.ones(count, dtype=np.int64) if frequencies is None else frequencies


def _group_starts(keys: npt.NDArray[Any]) -> Integers:
    """Return where each distinct key starts in sorted keys; all NaN, which sort last, are one."""
    fresh = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    if keys.dtype.kind == "f":
        fresh[1:] &= ~np.isnan(keys[:-1])
    return np.flatnonzero(fresh)


def grouped(frame: pl.DataFrame, frequencies: npt.NDArray[Any] | None = None) -> pl.DataFrame:
    """Return the distinct rows of a frame and their frequencies."""
    if frequencies is not None:
        frame = frame.with_columns(_frequency_column(frequencies))
    if FREQUENCY not in frame.columns:
        return frame.group_by(frame.columns).agg(pl.len().cast(pl.Int64).alias(FREQUENCY))
    return frame.group_by(pl.exclude(FREQUENCY)).agg(pl.col(FREQUENCY).sum())


def encoded(batch: pl.DataFrame, domain: Domain, source: Source) -> tuple[Records, Integers | None]:
    """Return a batch's encoded records and their frequencies, None where each row is one."""
    frequencies = batch[FREQUENCY].to_numpy() if FREQUENCY in batch.columns else None
    texts = [texts_of(batch[name], column, source) for name, column in domain.columns.items()]
    return domain.encode(pl.DataFrame(texts)), frequencies


def no_records(domain: Domain) -> Records:
    """Return records of a domain, of which there are none."""
    return Records(columns=tuple(np.empty(0, dtype=column._code_type) for column in domain.columns.values()))


def rows_frame(records: Records, frequencies: npt.NDArray[Any] | None = None) -> pl.DataFrame:
    """Return records as rows of codes, with their frequencies where there are some."""
    types = {"i": pl.Int64, "f": pl.Float64, "O": pl.String}
    columns = [
        pl.Series(str(place), codes.tolist() if codes.dtype == object else codes, dtype=types[codes.dtype.kind])
        for place, codes in enumerate(records.columns)
    ]
    frame = pl.DataFrame(columns)
    return frame if frequencies is None else frame.with_columns(_frequency_column(frequencies))


def _frequency_column(numbers: npt.NDArray[Any]) -> pl.Series:
    return pl.Series(FREQUENCY, numbers, dtype=pl.Int64)


def frame_records(table: pl.DataFrame, domain: Domain) -> Records:
    """Return rows of codes as records."""
    types = [column._code_type for column in domain.columns.values()]
    return Records(columns=tuple(table[str(i)].to_numpy().astype(kind, copy=False) for i, kind in enumerate(types)))
