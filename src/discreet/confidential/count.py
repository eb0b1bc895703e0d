"""From a confidential table to its sufficient statistic: distinct encoded records and their frequencies."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import enclosed, sealed
from discreet._core.checks import unfit
from discreet._core.errors import DataError, DomainError, ParameterError
from discreet._core.lazy import pl
from discreet._core.random import SecureGenerator, secure
from discreet.confidential.cells import Cells, EngineFailed, attempted
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.opening import open_confidential
from discreet.confidential.source import (
    FREQUENCY,
    RESERVED,
    Source,
    Texts,
    cells_of,
    declared_batches,
    missing_names,
    open_source,
    parsed,
)
from discreet.domain import Counts, Domain, Records, Units, require_domain
from discreet.privacy import Unit

OTHER_COLUMNS = "other-columns"
"""Accepts columns that the domain does not name."""

if TYPE_CHECKING:
    from discreet.confidential.units import Slots

_DENSE = 2**20
_SAMPLE = 2**16
_PENDING = 2**25
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
    check_names(source, domain, unit=unit, other_columns=OTHER_COLUMNS in accept)
    counts: Counts | Units
    rows, seeded = None, False
    if unit is None:
        counts = counted(source, domain)
    else:
        rng = secure() if rng is None else rng
        count = _units if by_unit else _slotted_counts
        counts, row_counts = count(source, domain, unit=unit, rng=rng)
        rows, seeded = Confidential(row_counts), not isinstance(rng, SecureGenerator)
    if counts.n == 0 and not empty:
        raise DataError(None, "has no rows", "a release needs at least one record")
    provenance = Provenance(
        frame_kind=source.kind,
        columns=domain.names,
        domain=domain,
        unit=unit,
        path=source.path,
        seeded=seeded,
        rows=rows,
        returned=source.returned,
    )
    return Confidential(counts, provenance=provenance)


@enclosed
def counted(source: Source, domain: Domain) -> Counts:
    """Count the rows of a table as they are."""
    cells = cells_of(source, domain.columns)
    with suppress(EngineFailed):
        if cells is not None:
            tally = Tally(domain)
            tally.add_cells(cells, attempted(cells.counts))
            return tally.counts()
    tally = Tally(domain)
    for batch in declared_batches(source, domain.columns):
        tally.add(batch, texts=source.texts)
    return tally.counts()


@enclosed
def _slotted_counts(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Count the slots of units, and the rows as they came."""
    from discreet.confidential.units import NO_UNIT, null_record

    with suppress(EngineFailed):
        slot_rows, cells = None, cells_of(source, domain.columns)
        if cells is not None:
            slot_rows = attempted(lambda: cells.slots(unit.column, unit.max_records, rng.bytes(32).hex()))
        elif (cut := source.slots) is not None:
            slot_rows = attempted(lambda: cut(domain.names, unit.column, unit.max_records, rng.bytes(32).hex()))
        if slot_rows is not None:
            frame, units, unnamed = slot_rows
            if unnamed:
                raise DataError(unit.column, *NO_UNIT)
            slots = Tally(domain)
            slots.add_cells(cells, frame)
            slots.add_records(null_record(domain), np.array([units * unit.max_records - frame[FREQUENCY].sum()]))
            return slots.counts(), counted(source, domain)
    slots_read, all_rows = _cut(source, domain, unit=unit, rng=rng)
    records, owners = slots_read.kept()
    slots = Tally(domain)
    if records is not None:
        units = owners.n_unique()
        slots.add_records(_as_records(records, domain), None)
        slots.add_records(null_record(domain), np.array([units * unit.max_records - records.height]))
    return slots.counts(), all_rows


@enclosed
def _units(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Units, Counts]:
    """Keep the records of units apart, and count the rows as they came."""
    slots, all_rows = _cut(source, domain, unit=unit, rng=rng)
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


def _cut(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Slots, Counts]:
    """Read the rows, of which each unit keeps some, and count them as they came."""
    from discreet.confidential.units import Slots

    all_rows, slots = Tally(domain), Slots(unit.column, unit.max_records, rng)
    for batch in declared_batches(source, domain.columns, unit.column):
        if batch.height:
            records, frequencies = encoded(batch, domain, texts=source.texts)
            all_rows.add_records(records, frequencies)
            slots.add(batch[unit.column], _as_frame(records, frequencies))
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


def check_names(source: Source, domain: Domain, *, unit: Unit | None, other_columns: bool) -> None:
    """Refuse a table whose columns are not the declared ones. Raises DataError naming the first."""
    for refusal, more in wrong_names(source, domain, unit=unit, other_columns=other_columns):
        raise DataError(refusal.column, f"{refusal.problem} (and {more} more)", refusal.remedy) if more else refusal


def wrong_names(
    source: Source, domain: Domain, *, unit: Unit | None, other_columns: bool
) -> Iterator[tuple[DataError, int]]:
    """Yield an error for each column that is missing, undeclared or reserved, and how many more undeclared follow."""
    names = list(dict.fromkeys([*domain.names, *([] if unit is None else [unit.column])]))
    for name in names:
        if name.startswith(RESERVED):
            problem = f"its name starts with {RESERVED!r}, which is reserved"
            yield DataError(name, problem, "rename the column"), 0

    for refusal in missing_names(source, names):
        yield refusal, 0
    extra = [] if other_columns else [name for name in source.names if name not in names]
    for place, name in enumerate(extra, start=1):
        remedy = "declare it, or leave such columns aside with accept={'other-columns'}"
        yield DataError(name, "is in the table but not in the domain", remedy), len(extra) - place


class Tally:
    """Frequencies of encoded records, batch by batch: by cell of a small finite domain, else of sortable keys or rows.

    A key is a cell, or the value of a lone continuous column. Keys and rows are condensed whenever much has come in.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        columns = tuple(domain.columns.values())
        self.numbered = domain.size is not None and domain.size <= _MOST_NUMBERED
        self.lone = not domain.finite and len(columns) == 1 and columns[0]._code_type is np.float64
        small = domain.size is not None and domain.size <= _DENSE
        self.dense = np.zeros(domain.size or 0, dtype=np.int64) if small else None
        self.parts: list[pl.DataFrame | _Keys] = []
        self.held = 0
        self.condensed = 0
        # Cells of numbers are found faster than equal numbers are grouped.
        self.grouping = self.dense is None or {column.kind for column in columns} != {"numeric"}

    def add(self, batch: pl.DataFrame, *, texts: Texts) -> None:
        """Count one batch, of which some columns are texts."""
        if batch.height == 0:
            return
        if FREQUENCY not in batch.columns and self.grouping:
            sample = batch.head(_SAMPLE)
            self.grouping = _group(sample).height * 2 <= sample.height
            batch = _group(batch) if self.grouping else batch
        self.add_records(*encoded(batch, self.domain, texts=texts))

    def add_cells(self, cells: Cells | None, frame: pl.DataFrame) -> None:
        """Count distinct rows: of codes that an engine found, or of values where there are no cells."""
        if cells is None:
            self.add(frame, texts=Texts())
        elif frame.height:
            self.add_records(cells.records(frame), frame[FREQUENCY].to_numpy())

    def add_records(self, records: Records, frequencies: npt.NDArray[Any] | None) -> None:
        """Count encoded records, each once where there are no frequencies."""
        if self.dense is not None:
            # Float weights are exact: a batch's frequencies are far below 2**53.
            cells = np.bincount(self.domain.flat(records), weights=frequencies, minlength=len(self.dense))
            self.dense += cells.astype(np.int64, copy=False)
            return
        if self.numbered or self.lone:
            keys = self.domain.flat(records) if self.numbered else records.columns[0]
            self.parts.append(_Keys(keys=keys, frequencies=frequencies))
        else:
            self.parts.append(_group(_as_frame(records), frequencies))
        self.held += len(records)
        if self.held > max(_PENDING, 2 * self.condensed):
            self._condense()

    def _condense(self) -> None:
        if self.numbered or self.lone:
            keys = _Keys.joined([part for part in self.parts if isinstance(part, _Keys)])
            self.parts, self.held = [keys], len(keys.keys)
        else:
            table = _group(pl.concat([part for part in self.parts if isinstance(part, pl.DataFrame)]))
            self.parts, self.held = [table], table.height
        self.condensed = self.held

    def counts(self) -> Counts:
        """Return the distinct records, sorted, and their frequencies."""
        if self.dense is not None:
            cells = np.flatnonzero(self.dense)
            return Counts(records=self.domain.unflat(cells), frequencies=self.dense[cells])
        if not self.parts:
            return Counts(records=_no_records(self.domain), frequencies=np.zeros(0, dtype=np.int64))
        self._condense()
        (part,) = self.parts
        self.parts = []
        if isinstance(part, _Keys):
            assert part.frequencies is not None
            records = self.domain.unflat(part.keys) if self.numbered else Records(columns=(part.keys,))
            return Counts(records=records, frequencies=part.frequencies)
        table = part.sort([name for name in part.columns if name != FREQUENCY])
        return Counts(records=_as_records(table, self.domain), frequencies=table[FREQUENCY].to_numpy())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """Records as sortable numbers, and how often each occurs (once, where None)."""

    keys: npt.NDArray[Any]
    frequencies: npt.NDArray[np.int64] | None

    @classmethod
    def joined(cls, parts: list[_Keys]) -> _Keys:
        """Return the distinct keys of all parts, sorted, and their frequencies."""
        keys = np.concatenate([part.keys for part in parts])
        if all(part.frequencies is None for part in parts):
            keys.sort()
            starts = _starts(keys)
            return cls(keys=keys[starts], frequencies=np.diff(starts, append=len(keys)))
        ones = [np.ones(len(part.keys), np.int64) if part.frequencies is None else part.frequencies for part in parts]
        order = np.argsort(keys)
        keys = keys[order]
        starts = _starts(keys)
        return cls(keys=keys[starts], frequencies=np.add.reduceat(np.concatenate(ones)[order].astype(np.int64), starts))


def _starts(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return where each distinct key starts in sorted keys; all NaN, which sort last, are one."""
    fresh = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    if keys.dtype.kind == "f":
        fresh[1:] &= ~np.isnan(keys[:-1])
    return np.flatnonzero(fresh)


def _group(frame: pl.DataFrame, frequencies: npt.NDArray[Any] | None = None) -> pl.DataFrame:
    """Return the distinct rows of a frame and their frequencies."""
    if frequencies is not None:
        frame = frame.with_columns(pl.Series(FREQUENCY, frequencies, dtype=pl.Int64))
    if FREQUENCY not in frame.columns:
        return frame.group_by(frame.columns).agg(pl.len().cast(pl.Int64).alias(FREQUENCY))
    return frame.group_by(pl.exclude(FREQUENCY)).agg(pl.col(FREQUENCY).sum())


def encoded(batch: pl.DataFrame, domain: Domain, *, texts: Texts) -> tuple[Records, npt.NDArray[np.int64] | None]:
    """Return a batch's encoded records and their frequencies, None where each row is one."""
    frequencies = batch[FREQUENCY].to_numpy() if FREQUENCY in batch.columns else None
    return domain.encode(parsed(batch, domain.columns, texts)), frequencies


def _no_records(domain: Domain) -> Records:
    return Records(columns=tuple(np.empty(0, dtype=column._code_type) for column in domain.columns.values()))


def _as_frame(records: Records, frequencies: npt.NDArray[Any] | None = None) -> pl.DataFrame:
    types = {"i": pl.Int64, "f": pl.Float64, "O": pl.String}
    columns = [
        pl.Series(str(index), codes.tolist() if codes.dtype == object else codes, dtype=types[codes.dtype.kind])
        for index, codes in enumerate(records.columns)
    ]
    if frequencies is not None:
        columns.append(pl.Series(FREQUENCY, frequencies, dtype=pl.Int64))
    return pl.DataFrame(columns)


def _as_records(table: pl.DataFrame, domain: Domain) -> Records:
    columns = []
    for index, column in enumerate(domain.columns.values()):
        codes = table[str(index)]
        columns.append(codes.to_numpy().astype(column._code_type, copy=False))
    return Records(columns=tuple(columns))
