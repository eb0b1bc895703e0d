"""From a confidential table to its sufficient statistic: distinct encoded records and their frequencies; or to rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import enclosed, quiet_parts, sealed
from discreet._core.errors import DataError, DomainError, ParameterError, unfit
from discreet._core.lazy import pl
from discreet._core.numeric import Integers
from discreet._core.random import SecureGenerator, secure
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.opening import open_confidential
from discreet.confidential.source import (
    FREQUENCY,
    RESERVED,
    EngineFailed,
    Source,
    Tally,
    attempted,
    cells_of,
    declared_batches,
    encoded,
    frame_records,
    grouped,
    no_records,
    require_names,
    rows_frame,
    unit_of,
)
from discreet.confidential.tables import open_declared, open_source
from discreet.domain import Counts, Domain, Records, Units, require_domain
from discreet.privacy import Unit

OTHER_COLUMNS = "other-columns"
"""Accepts columns that the domain does not name."""

_KEPT = 2**27  # bytes of codes that are kept from the first reading
_CHANGED = None, "changed while it was read", "keep the table as it is until the release is written"
_OWNER, _PLACE = f"{RESERVED}owner", f"{RESERVED}place"
_WITHOUT_ORDER = ("dask", "database", "duckdb", "ibis", "pyspark")


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
        data set, anything that gives Arrow's C stream, or the path of a file (Parquet, CSV, Arrow; with the extra
        ``foreign`` Excel, SPSS, Stata, SAS) or of a folder of Parquet files, or the address of a table or a query
        (``sqlite:///FILE?table=NAME``, ``duckdb:///FILE?query=SELECT ...``, ``postgresql://USER@HOST/DATABASE?table=``).
        It is counted where it is: of an engine, only the cells that are held and their frequencies come back. Of a
        domain with ``units``, a mapping of both tables by their names, or a folder with one of each name.
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
        Source of the cut and of coins; a secure one by default.

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
    sources = open_declared(data, domain, unit=unit, other_columns=OTHER_COLUMNS in accept, refused="names")
    row_unit = unit_of(domain, unit)
    *_, source = sources.values()
    rng = rng or secure()
    seeded = not isinstance(rng, SecureGenerator)
    if row_unit is None:
        seeded = seeded and bool(domain.coin_columns)
        return _closed(counted(source, domain, rng), source, domain, empty=empty, seeded=seeded)
    if domain.tables:
        unit_records = _records_of_units(sources, domain, rng=rng)
        likes = {part.names: sources[name].returned for name, part in domain.table_domains.items()}
        source = replace(source, returned=lambda frame, part: (likes[part.names] or (lambda *_: frame))(frame, part))
        return _closed(unit_records, source, domain, empty=empty, seeded=seeded)
    count = _unit_records if by_unit else _slotted_counts
    unit_counts, row_counts = count(source, domain, unit=row_unit, rng=rng)
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
    if domain.tables:
        raise ParameterError("units with several rows are not read in parts. Use confidential(data, domain)")
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
        self._cells = cells_of(source, domain)
        if self._cells is not None:
            with suppress(EngineFailed):
                self._n, _ = self._cells.sums(lambda parts: [*deque(parts, maxlen=0)])
                return
            self._cells = None
        codes, size, n = [], 0, 0
        for part in self.parts():
            n += part.n
            if size <= _KEPT:
                arrays = [*part.records.columns, part.frequencies]
                codes.append([c.astype(np.min_scalar_type(c.max())) if c.dtype == np.int64 else c for c in arrays])
                size += sum([c.nbytes + (_KEPT if c.dtype == object else 0) for c in codes[-1]])
        self._n = n
        if size <= _KEPT:
            self._codes = codes

    @property
    def n(self) -> int:
        """Number of rows: public under the replacement relation."""
        return self._n or 0

    def parts(self) -> Iterator[Counts]:
        """Yield the rows' encoded records. Raises DataError where there are others than when it was read first."""
        return quiet_parts(self._counted_parts)

    def _counted_parts(self) -> Iterator[Counts]:
        n = 0
        for records, frequencies in self._encoded():
            times = frequencies
            if times is None:
                times = np.ones(len(records), dtype=np.int64)
            part = Counts(records=records, frequencies=times)
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
                yield encoded(batch, self._domain, self._source)
            return
        for codes in quiet_parts(self._cells.batches, EngineFailed()):
            if codes.height:
                yield self._cells.records(codes), codes[FREQUENCY].to_numpy()


@enclosed
def counted(source: Source, domain: Domain, rng: np.random.Generator) -> Counts:
    """Count the rows of a table as they are."""
    cells = cells_of(source, domain)
    if cells is not None:
        with suppress(EngineFailed):
            frame, tally = attempted(cells.counts), Tally(domain)
            if frame.height:
                tally.add_records(cells.records(frame), frame[FREQUENCY].to_numpy())
            return tally.counts()
    tally = Tally(domain, rng)
    for batch in declared_batches(source, domain.columns):
        tally.add(batch, source)
    return tally.counts()


@enclosed
def _slotted_counts(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Count the slots of units, and the rows as they came."""
    from discreet.confidential.units import NO_UNIT, null_record

    if (cells := cells_of(source, domain)) is not None:
        with suppress(EngineFailed):
            if (cut := attempted(lambda: cells.slots(unit.column, unit.max_records, rng.bytes(32).hex()))) is not None:
                frame, units, unnamed = cut
                if unnamed:
                    raise DataError(unit.column, *NO_UNIT)
                slots = Tally(domain)
                slots.add_records(cells.records(frame), frame[FREQUENCY].to_numpy())
                slots.add_records(null_record(domain), np.array([units * unit.max_records - frame[FREQUENCY].sum()]))
                return slots.counts(), counted(source, domain, rng)
    all_rows, slots = Tally(domain, rng), Tally(domain)
    rows, owners = _rows_kept(source, domain, unit=unit, rng=rng, tally=all_rows)
    if rows.height:
        slots.add_records(frame_records(rows, domain), None)
        slots.add_records(null_record(domain), np.array([owners.n_unique() * unit.max_records - rows.height]))
    return slots.counts(), all_rows.counts()


@enclosed
def _unit_records(source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator) -> tuple[Units, Counts]:
    """Keep the records of units apart, and count the rows as they came."""
    all_rows = Tally(domain, rng)
    rows, owners = _rows_kept(source, domain, unit=unit, rng=rng, tally=all_rows)
    numbered = rows.with_columns(owners.rank("dense").cast(pl.Int64).alias(_OWNER) - 1)
    table = grouped(numbered).sort(_OWNER, *rows.columns)
    records, frequencies, numbers = frame_records(table, domain), table[FREQUENCY].to_numpy(), table[_OWNER].to_numpy()
    units = Units(records=records, frequencies=frequencies, owners=numbers, n=int(numbers.max(initial=-1)) + 1)
    return units, all_rows.counts()


@enclosed
def _records_of_units(sources: Mapping[str, Source], domain: Domain, *, rng: np.random.Generator) -> Counts:
    """Count units by their record, which holds all of their rows."""
    parts, linked, least = domain.table_domains, domain.units is not None, int(domain.units is None)
    tables = dict(zip([*parts][linked:], domain.row_tables.items(), strict=True))
    for name, (_, table) in tables.items():
        source = sources[name]
        if table.listed and (source.cells is not None or source.kind in _WITHOUT_ORDER):
            raise ParameterError(f"rows of {source.kind} are not listed in an order. Name a column in order_by")
    table_rows = dict[str, tuple[Records, pl.Series, Integers]]()
    for name, part in parts.items():
        unit = Unit(str(domain.unit), max_records=tables[name][1].max_records if name in tables else 1)
        frame, owners = _rows_kept(sources[name], part, unit=unit, rng=rng)
        table_rows[name] = frame_records(frame, part), owners, frame[_PLACE].cast(pl.Int64).to_numpy()
    unit_rows, units, _ = table_rows[next(iter(table_rows))]
    codes, width = list[Any](), len(domain.own_columns)
    for key, (name, table) in tables.items():
        rows, owners, places = table_rows[key]
        numbers = owners.rank("dense").to_numpy()
        if linked:
            rows, numbers, places = _matched(unit_rows, units, rows, owners, places, domain.rows_of(name))
        if not len(rows):
            return Tally(domain).counts()
        records = table.records_of_units(rows, numbers, places, rng=rng, least=least)
        unit_rows = Records(columns=records.columns[:width])
        codes += records.columns[width:]
    records = Records(columns=(*unit_rows.columns, *codes))
    counts = grouped(rows_frame(records))
    counts = counts.sort(counts.columns)
    return Counts(records=frame_records(counts, domain), frequencies=counts[FREQUENCY].to_numpy())


def _rows_kept(
    source: Source, domain: Domain, *, unit: Unit, rng: np.random.Generator, tally: Tally | None = None
) -> tuple[pl.DataFrame, pl.Series]:
    """Return the rows of codes that units keep, and their units; all rows go into a tally, or have their places."""
    from discreet.confidential.units import Slots, narrow

    slots, number, coins = Slots(unit.column, unit.max_records, rng), 0, getattr(tally, "rng", None)
    for batch in declared_batches(source, domain.columns, unit.column):
        records, frequencies = encoded(batch, domain, source, coins)
        rows = rows_frame(records, frequencies)
        if tally is None:
            rows = rows.with_row_index(_PLACE, offset=number)
        else:
            tally.add_records(records, frequencies)
        slots.add(batch[unit.column], narrow(rows))
        number += batch.height
    frame, owners = slots.kept()
    if frame is None:
        frame = rows_frame(no_records(domain)).with_row_index(_PLACE)
    return frame, owners


def _matched(
    unit_rows: Records, units: pl.Series, rows: Records, owners: pl.Series, places: Integers, domain: Domain
) -> tuple[Records, Integers, Integers]:
    """Return rows with their unit's own columns, the number of their unit, and their places: of each at least one."""
    # A unit without rows has one of place -1. A row whose unit has no row of its own is left out. What becomes of a row
    # depends on its unit's rows alone.
    keys = pl.concat([part.alias(_OWNER).to_frame() for part in (units, owners)], how="vertical_relaxed")
    numbers = keys[_OWNER].rank("dense").to_numpy().astype(np.int64)
    unit_at = np.full(len(numbers) + 1, -1)
    unit_at[numbers[: len(units)]] = np.arange(len(units))
    unit = unit_at[numbers[len(units) :]]
    stays = np.flatnonzero(unit >= 0)
    childless = np.setdiff1d(np.arange(len(units)), unit)
    codes = list(unit_rows.columns)
    for repair in domain.repairs:
        if max(repair.columns) < len(codes):
            repair.replace(codes)
    joined = domain.repaired(Records(columns=(*[c[unit[stays]] for c in codes], *rows.take(stays).columns)))
    nothing = [np.zeros(len(childless), dtype=column.dtype) for column in rows.columns]
    alone = Records(columns=(*[c[childless] for c in codes], *nothing))
    places = np.append(places[stays], np.full(len(childless), -1))
    return Records.concatenate([joined, alone]), np.append(unit[stays], childless), places


def public_size(counts: Confidential[Any]) -> int:
    """Return the number of records, with a privacy unit units times slots: public under replacement, by definition."""
    # Filtering the table beforehand by a confidential value makes the number a confidential statistic.
    return int(open_confidential(counts, caller=__name__).n)


def require_unit(domain: Domain, unit: Unit | None, *, by_unit: bool = False) -> None:
    """Refuse a unit that is none, or that the domain has no room for. Raises ParameterError, DomainError."""
    if domain.tables and (unit is not None or by_unit):
        raise ParameterError("the domain has a table of units, which says what the unit is. Leave the unit out")
    if unit is None:
        if by_unit:
            raise ParameterError("votes of units need a privacy unit. Write unit=Unit(..., max_records=...)")
        return
    if not isinstance(unit, Unit):
        raise unfit("unit", "a Unit", unit, remedy="Write unit=Unit(..., max_records=...)")
    for name, column in domain.columns.items():
        if not column.nullable and not by_unit:
            raise DomainError(f'column {name!r}: unused slots of a unit need a null cell. Write: nulls = "category"')
