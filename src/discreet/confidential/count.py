"""From a confidential table to its sufficient statistic: distinct encoded records and their frequencies; or to rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Integers
from discreet._core.boundary import enclosed, enclosed_parts, sealed
from discreet._core.checks import unfit
from discreet._core.errors import DataError, DomainError, ParameterError
from discreet._core.lazy import pl
from discreet._core.random import SecureGenerator, secure
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.opening import open_confidential
from discreet.confidential.source import (
    FREQUENCY,
    RESERVED,
    EngineFailed,
    Source,
    attempted,
    cells_of,
    declared_batches,
    require_names,
    texts_of,
)
from discreet.confidential.tables import open_source
from discreet.domain import Counts, Domain, Records, Units, require_domain
from discreet.privacy import Unit

if TYPE_CHECKING:
    from discreet.confidential.units import Slots

OTHER_COLUMNS = "other-columns"
"""Accepts columns that the domain does not name."""

_DENSE = 2**20
_SAMPLE = 2**16
_KEPT = 2**27  # bytes of codes that are kept from the first reading
_PENDING = 2**25
_CHANGED = None, "changed while it was read", "keep the table as it is until the release is written"
_MOST_NUMBERED = 2**62
_OWNER = f"{RESERVED}owner"


@sealed
def confidential(
    data: Any,
    domain: Domain,
    *,
    unit: Unit | None = None,
    accept: Collection[str] = (),
    empty: bool = False,
    by_unit: bool = False,
    rng: np.random.Generator | None = None,
) -> Confidential[Any]:
    """Count a confidential table on a declared domain.

    Parameters
    ----------
    data : dataframe, str or path
        Confidential. A pandas, Polars (eager or lazy), PyArrow, DuckDB, Dask, PySpark or Ibis frame, a PyArrow
        data set, anything that gives Arrow's C stream, or the path of a file (Parquet, CSV or Arrow, by its ending) or
        of a folder of Parquet files, or the address of a table or a query (``sqlite:///FILE?table=NAME``,
        ``duckdb:///FILE?query=SELECT ...``, ``postgresql://USER@HOST/DATABASE?table=NAME``).
        It is counted where it is: of an engine, only the cells that are held and their frequencies come back.
    domain : Domain
        Public. Every column it names has to be in the table.
    unit : Unit, optional
        The privacy unit, such as a person; by default each row is one. It has ``max_records`` slots. Rows beyond are
        cut uniformly at random; unused slots count in the null record, so every column has to declare
        ``nulls = "category"``. The number of records is then units times slots.
    accept : collection of str
        ``{"other-columns"}``: the table may have columns that the domain does not name. They are left aside.
    empty : bool
        Whether it may have no rows: under add/remove a refusal would tell that it has none.
    by_unit : bool
        Whether the records stay known by their unit, for votes of units (``unit_votes`` of ``private-evolution``).
        There are then no slots: the number of records is that of units, and no column needs nulls. Only such a
        mechanism reads the result. Rows are brought here from whatever holds them.
    rng : numpy.random.Generator, optional
        Source of the cut; a secure one by default.

    Returns
    -------
    Confidential of Counts
        Distinct records, sorted by code, and their frequencies; with ``by_unit``, those of each unit.

    Raises
    ------
    DataError
        If the table does not fit the domain. No message holds a value of the table.
    FileProblem
        If a file cannot be read.
    DomainError, ParameterError
        If the request contradicts the domain.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> confidential(pl.DataFrame({"age": [31, 45, 31]}), Domain(columns={"age": Integer(lower=0, upper=120)}))
    <confidential Counts>
    """
    require_domain(domain)
    require_unit(domain, unit, by_unit=by_unit)
    source = open_source(data)
    names = domain.names if unit is None else (*domain.names, unit.column)
    require_names(source, names, other_columns=OTHER_COLUMNS in accept)
    if unit is None:
        return _closed(counted(source, domain), source, domain, empty=empty)
    rng = secure() if rng is None else rng
    count = _unit_records if by_unit else _slotted_counts
    unit_counts, row_counts = count(source, domain, unit=unit, rng=rng)
    seeded = not isinstance(rng, SecureGenerator)
    return _closed(unit_counts, source, domain, empty=empty, unit=unit, seeded=seeded, rows=Confidential(row_counts))


@sealed
def confidential_rows(
    data: Any, domain: Domain, *, accept: Collection[str] = (), empty: bool = False
) -> Confidential[Rows]:
    """Wrap a confidential table to be read in parts, for mechanisms that can (``reads_parts``).

    Memory then holds one part at a time, so the number of records is bounded by the disk.

    Parameters
    ----------
    data : dataframe, str or path
        Confidential; as for :func:`confidential`.
    domain : Domain
        Public. Every column it names has to be in the table.
    accept, empty : optional
        As for :func:`confidential`.

    Returns
    -------
    Confidential of Rows

    Raises
    ------
    DataError
        If the table does not fit the domain. No message holds a value of the table.
    FileProblem
        If a file cannot be read.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> confidential_rows(pl.DataFrame({"age": [31, 45, 31]}), Domain(columns={"age": Integer(lower=0, upper=120)}))
    <confidential Rows>
    """
    require_domain(domain)
    source = open_source(data)
    require_names(source, domain.names, other_columns=OTHER_COLUMNS in accept)
    return _closed(Rows(source, domain), source, domain, empty=empty)


def _closed(records: Any, source: Source, domain: Domain, *, empty: bool, **facts: Any) -> Confidential[Any]:
    if records.n == 0 and not empty:
        raise DataError(None, "has no rows", "a release needs at least one record")
    facts |= {"frame_kind": source.kind, "path": source.path, "returned": source.returned}
    return Confidential(records, provenance=Provenance(columns=domain.names, domain=domain, **facts))


@sealed
class Rows:
    """Encoded rows of a table that stays where it is, read a part at a time, as often as a mechanism needs.

    Confidential. Raises DataError when a row does not fit the domain: the whole table is read once. Codes that fit into
    128 MiB are kept.

    Parameters
    ----------
    source : Source
        The table.
    domain : Domain
        Public.
    """

    def __init__(self, source: Source, domain: Domain) -> None:
        self._source, self._domain = source, domain
        self._n: int | None = None
        self._codes: list[list[npt.NDArray[Any]]] = []  # and frequencies
        self._cells = cells_of(source, domain.columns)
        if self._cells is not None:
            with suppress(EngineFailed):
                self._n, _ = self._cells.sums(lambda parts: [None for _ in parts][:0])
                return
            self._cells = None
        codes, size, n = [], 0, 0
        for part in self.parts():
            n += part.n
            if size <= _KEPT:
                arrays = [*part.records.columns, part.frequencies]
                codes.append([c.astype(np.min_scalar_type(c.max())) if c.dtype == np.int64 else c for c in arrays])
                size += sum([c.nbytes + _KEPT * (c.dtype == object) for c in codes[-1]])
        self._n, self._codes = n, codes if size <= _KEPT else []

    @property
    def n(self) -> int:
        """Number of rows: public under the replacement relation."""
        return self._n or 0

    @enclosed_parts
    def parts(self) -> Iterator[Counts]:
        """Yield the rows' encoded records.

        Raises DataError when the table has other rows than when it was read first.
        """
        n = 0
        for records, frequencies in self._encoded():
            part = Counts(records=records, frequencies=_ones_or(frequencies, len(records)))
            n += part.n
            yield part
        if self._n is not None and n != self._n:
            raise DataError(*_CHANGED)

    def sums(self, tables: Callable[[Iterator[Counts]], Any]) -> Any:
        """Return tables of all rows, the sums of those of parts, made where the rows are. Raises as :meth:`parts`."""
        if self._cells is None:
            return tables(self.parts())
        n, sums = self._cells.sums(tables)
        if n != self._n:
            raise DataError(*_CHANGED)
        return sums

    def _encoded(self) -> Iterator[tuple[Records, Integers | None]]:
        """Yield records and their frequencies, which the engine found if it can."""
        for part in self._codes:
            *columns, frequencies = [c.astype(np.int64) if c.dtype.kind == "u" else c for c in part]
            yield Records(columns=tuple(columns)), frequencies
        if self._codes:
            return
        if self._cells is None:
            for batch in declared_batches(self._source, self._domain.columns):
                if batch.height:
                    yield encoded(batch, self._domain, self._source)
            return
        batches = attempted(self._cells.batches)
        while (codes := attempted(lambda: next(batches, None))) is not None:
            if codes.height:
                yield self._cells.records(codes), codes[FREQUENCY].to_numpy()


@enclosed
def counted(source: Source, domain: Domain) -> Counts:
    """Count the rows of a table as they are."""
    cells = cells_of(source, domain.columns)
    if cells is not None:
        with suppress(EngineFailed):
            frame, tally = attempted(cells.counts), Tally(domain)
            if frame.height:
                tally.add_records(cells.records(frame), frame[FREQUENCY].to_numpy())
            return tally.counts()
    tally = Tally(domain)
    for batch in declared_batches(source, domain.columns):
        tally.add(batch, source)
    return tally.counts()


@enclosed
def _slotted_counts(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Count the slots of units, and the rows as they came."""
    from discreet.confidential.units import NO_UNIT, null_record

    if (cells := cells_of(source, domain.columns)) is not None:
        with suppress(EngineFailed):
            if (cut := attempted(lambda: cells.slots(unit.column, unit.max_records, rng.bytes(32).hex()))) is not None:
                frame, units, unnamed = cut
                if unnamed:
                    raise DataError(unit.column, *NO_UNIT)
                slots = Tally(domain)
                slots.add_records(cells.records(frame), frame[FREQUENCY].to_numpy())
                slots.add_records(null_record(domain), np.array([units * unit.max_records - frame[FREQUENCY].sum()]))
                return slots.counts(), counted(source, domain)
    slots_read, all_rows = _read_slots(source, domain, unit=unit, rng=rng)
    records, owners = slots_read.kept()
    slots = Tally(domain)
    if records is not None:
        units = owners.n_unique()
        slots.add_records(_as_records(records, domain), None)
        slots.add_records(null_record(domain), np.array([units * unit.max_records - records.height]))
    return slots.counts(), all_rows


@enclosed
def _unit_records(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Units, Counts]:
    """Keep the records of units apart, and count the rows as they came."""
    slots, all_rows = _read_slots(source, domain, unit=unit, rng=rng)
    records, owners = slots.kept()
    if records is None:
        none = np.zeros(0, dtype=np.int64)
        return Units(records=_no_records(domain), frequencies=none, owners=none, n=0), all_rows
    numbered = records.with_columns(owners.rank("dense").cast(pl.Int64).alias(_OWNER) - 1)
    table = _group(numbered).sort(_OWNER, *records.columns)
    numbers = table[_OWNER].to_numpy()
    return Units(
        records=_as_records(table, domain),
        frequencies=table[FREQUENCY].to_numpy(),
        owners=numbers,
        n=int(numbers[-1]) + 1,
    ), all_rows


def _read_slots(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Slots, Counts]:
    """Read the rows, of which each unit keeps some, and count them as they came."""
    from discreet.confidential.units import Slots, narrow

    all_rows, slots = Tally(domain), Slots(unit.column, unit.max_records, rng)
    for batch in declared_batches(source, domain.columns, unit.column):
        if batch.height:
            records, frequencies = encoded(batch, domain, source)
            all_rows.add_records(records, frequencies)
            slots.add(batch[unit.column], narrow(_as_frame(records, frequencies)))
    return slots, all_rows.counts()


def public_size(counts: Confidential[Any]) -> int:
    """Return the number of records, with a privacy unit units times slots: public under replacement, by definition.

    Filtering the table beforehand by a confidential value makes the number a confidential statistic.
    """
    return int(open_confidential(counts, caller=__name__).n)


def require_unit(domain: Domain, unit: Unit | None, *, by_unit: bool = False) -> None:
    """Refuse a unit that is none, or that the domain has no room for. Raises ParameterError, DomainError."""
    if unit is None:
        if by_unit:
            raise ParameterError("votes of units need a privacy unit. Write unit=Unit(..., max_records=...)")
        return
    if not isinstance(unit, Unit):
        raise unfit("unit", "a Unit", unit, remedy="Write unit=Unit(..., max_records=...)")
    for name, column in domain.columns.items():
        if not column.nullable and not by_unit:
            raise DomainError(f'column {name!r}: unused slots of a unit need a null cell. Write: nulls = "category"')


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
            self.grouping = _group(sample).height * 2 <= sample.height
            batch = _group(batch) if self.grouping else batch
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
            self.tables.append(_group(_as_frame(records), frequencies))
        self.pending += len(records)
        if self.pending > max(_PENDING, 2 * self.condensed):
            self._condense()

    def _condense(self) -> None:
        if self.keyed:
            self.keys = [_joined(self.keys)]
            self.pending = len(self.keys[0][0])
        else:
            self.tables = [_group(pl.concat(self.tables))]
            self.pending = self.tables[0].height
        self.condensed = self.pending

    def counts(self) -> Counts:
        """Return the distinct records, sorted, and their frequencies."""
        if self.dense is not None:
            cells = np.flatnonzero(self.dense)
            return Counts(records=self.domain.unflat(cells), frequencies=self.dense[cells])
        if not self.pending:
            return Counts(records=_no_records(self.domain), frequencies=np.zeros(0, dtype=np.int64))
        self._condense()
        if self.keyed:
            ((keys, frequencies),) = self.keys
            records = self.domain.unflat(keys) if self.numbered else Records(columns=(keys,))
            return Counts(records=records, frequencies=np.asarray(frequencies))
        (table,) = self.tables
        table = table.sort([name for name in table.columns if name != FREQUENCY])
        return Counts(records=_as_records(table, self.domain), frequencies=table[FREQUENCY].to_numpy())


_Keys: TypeAlias = "tuple[npt.NDArray[Any], Integers | None]"
"""Records as sortable numbers, and how often each occurs (once, where None)."""


def _joined(parts: list[_Keys]) -> _Keys:
    """Return the distinct keys of all parts, sorted, and their frequencies."""
    keys = np.concatenate([part for part, _ in parts])
    if all(frequencies is None for _, frequencies in parts):
        keys.sort()
        starts = _group_starts(keys)
        return keys[starts], np.diff(starts, append=len(keys))
    times = [_ones_or(frequencies, len(part)) for part, frequencies in parts]
    order = np.argsort(keys)
    keys = keys[order]
    starts = _group_starts(keys)
    return keys[starts], np.add.reduceat(np.concatenate(times)[order].astype(np.int64), starts)


def _ones_or(frequencies: Integers | None, count: int) -> Integers:
    return np.ones(count, dtype=np.int64) if frequencies is None else frequencies


def _group_starts(keys: npt.NDArray[Any]) -> Integers:
    """Return where each distinct key starts in sorted keys; all NaN, which sort last, are one."""
    fresh = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    if keys.dtype.kind == "f":
        fresh[1:] &= ~np.isnan(keys[:-1])
    return np.flatnonzero(fresh)


def _group(frame: pl.DataFrame, frequencies: npt.NDArray[Any] | None = None) -> pl.DataFrame:
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


def _no_records(domain: Domain) -> Records:
    return Records(columns=tuple(np.empty(0, dtype=column._code_type) for column in domain.columns.values()))


def _as_frame(records: Records, frequencies: npt.NDArray[Any] | None = None) -> pl.DataFrame:
    types = {"i": pl.Int64, "f": pl.Float64, "O": pl.String}
    columns = [
        pl.Series(str(place), codes.tolist() if codes.dtype == object else codes, dtype=types[codes.dtype.kind])
        for place, codes in enumerate(records.columns)
    ]
    frame = pl.DataFrame(columns)
    return frame if frequencies is None else frame.with_columns(_frequency_column(frequencies))


def _frequency_column(numbers: npt.NDArray[Any]) -> pl.Series:
    return pl.Series(FREQUENCY, numbers, dtype=pl.Int64)


def _as_records(table: pl.DataFrame, domain: Domain) -> Records:
    types = [column._code_type for column in domain.columns.values()]
    return Records(columns=tuple(table[str(i)].to_numpy().astype(kind, copy=False) for i, kind in enumerate(types)))
