"""A confidential table, wherever it is: its public names and types, and what reads its rows as Polars batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import quiet_parts, quietly
from discreet._core.errors import DataError, DiscreetError
from discreet._core.lazy import pl
from discreet._core.numeric import Integers
from discreet._core.text import counted
from discreet.domain import Column, Counts, Domain, Records, coin_codes
from discreet.privacy import Unit

if TYPE_CHECKING:
    from discreet.confidential.returned import Returned
    from discreet.confidential.workers import EngineCells

RESERVED = "discreet: "
"""How the names of columns added while counting start."""

FREQUENCY = f"{RESERVED}frequency"
"""Name of the column that holds the frequencies of grouped batches."""

TYPED = "\ue000"
"""How a text begins that is a number or a time in its file, and is not written in the notation of its column."""

BATCH = 2**18

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A confidential table: its public names and types, and what reads its rows."""

    kind: str  # the dataframe library, the format of a file (parquet, csv, spss), or database
    path: str | None = None  # the file, as the caller gave it
    files: Sequence[str] = ()  # those that are read, as far as they are known; a pattern stands for what it matches
    names: tuple[str, ...]
    types: Callable[[], dict[str, str]]  # the public type of each column; reads no row
    empty_frame: Callable[[Sequence[str]], pl.DataFrame] | None = None  # some columns without rows; reads none
    # Frames of some columns; where they are grouped already, FREQUENCY says how often each row occurs.
    batches: Callable[[Sequence[str]], Iterator[pl.DataFrame]]
    texts: frozenset[str] = frozenset()  # columns still to be parsed: of CSV, of SQLite, of the names of folders
    decimal_comma: bool = False  # whether numbers in texts have a comma before their decimals
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of a file's codes, by column and code
    convert: Callable[[pl.Series, Column], pl.Series] | None = None  # into what a column reads, of a program's file
    index: frozenset[str] = frozenset()  # columns of a file that pandas wrote as an index, and not among the names
    cells: Callable[[Domain], EngineCells] | None = None  # of an engine with workers, instead of batches
    stays: bool = False  # whether the rows are elsewhere than in memory, and can be read as often as one likes
    returned: Returned | None = None  # makes a released table the kind of table that this is


def text_source(kind: str, path: str, types: dict[str, str], batches: Any, **facts: Any) -> Source:
    """Return the source of a table that is elsewhere, and whose columns are all texts."""
    names = tuple(types)
    shared: dict[str, Any] = {"names": names, "types": lambda: types, "texts": frozenset(names)}
    return Source(kind=kind, path=path, stays=True, batches=batches, **shared, **facts)


# -- names and types --------------------------------------------------------------------------------------------------


def require_once(names: Sequence[str], kind: str) -> None:
    """Refuse two columns of one name. Raises DataError."""
    if len(set(names)) == len(names):
        return
    repeated = next(name for name, count in Counter(names).items() if count > 1)
    if kind != "csv":
        raise DataError(repeated, "occurs twice in the table", "give every column its own name")
    earlier, later = [place for place, name in enumerate(names, start=1) if name == repeated][:2]
    problem = f"columns {earlier} and {later} have the same name in its first line"  # which may be a record
    raise DataError(None, problem, "give the file a header line, and every column its own name")


_SPELLING = "a column has this name but for blanks or capital letters. Give both the same name"


def wrong_names(
    source: Source, names: Iterable[str], *, other_columns: bool = True, table: str = "table"
) -> list[DataError]:
    """Return an error for each declared column that is missing or reserved, and for each that is not declared."""
    # Names of the table are told only if one of them is declared, and never of CSV: without a header line they are the
    # values of the first record.
    declared = dict.fromkeys(names)
    present = {name for name in source.names if name in declared}
    if source.kind != "csv" and present:
        remedy = "its columns are: " + ", ".join(map(repr, source.names))
    else:
        checks = "that its first line holds the names" if source.kind == "csv" else "their names"
        remedy = f"it has {len(present)} of {counted(len(declared), 'column')} asked for. Check {checks}"
    problems, folded = [], {name.strip().casefold() for name in source.names}
    for name in declared:
        if name.startswith(RESERVED):
            problem = f"its name starts with {RESERVED!r}, which is reserved"
            problems.append(DataError(name, problem, "rename the column"))
        elif name in source.index:
            problem = "is the index of the table that pandas wrote, and no column of it"
            problems.append(DataError(name, problem, "write it after reset_index()"))
        elif name not in present:
            alike = name.strip().casefold() in folded
            problems.append(DataError(name, f"is not in the {table}", _SPELLING if alike else remedy))
    if not other_columns:
        remedy = "declare it, or leave such columns aside with accept={'other-columns'}"
        undeclared = [name for name in source.names if name not in declared]
        problems += [DataError(name, "is in the table but not in the domain", remedy) for name in undeclared]
    return problems


def require_names(source: Source, names: Iterable[str], *, other_columns: bool = True, table: str = "table") -> None:
    """Refuse a table whose columns are not the declared ones. Raises DataError naming the first."""
    declared = tuple(names)
    problems = wrong_names(source, declared, other_columns=other_columns, table=table)
    if problems:
        refusal, more = problems[0], len(problems) - 1
        if more and refusal.column not in declared:
            raise DataError(refusal.column, f"{refusal.problem} (and {more} more)", refusal.remedy)
        raise refusal


# -- rows -------------------------------------------------------------------------------------------------------------


def unit_of(domain: Domain, unit: Unit | None, table: str = "") -> Unit | None:
    """Return whose rows are kept together or cut: the unit that is given, or that of a domain with tables of units."""
    # table: one of several, of which a unit keeps so many rows
    most = domain.row_tables[table].max_records if table in domain.row_tables else domain.max_records
    return unit if domain.unit is None else Unit(domain.unit, max_records=most)


def declared_batches(source: Source, columns: Mapping[str, Column], *extra: str) -> Iterator[pl.DataFrame]:
    """Iterate over batches of rows of declared columns, and others. Raises DataError where they have another type."""
    # A library that cannot hash or compare values of another type would write them to the terminal as it fails.
    schema = None
    for batch in source.batches(list(dict.fromkeys([*columns, *extra]))):
        if batch.schema != schema:
            schema = batch.schema
            for name, column in columns.items():
                if name not in source.texts:
                    column.encode(texts_of(batch[name].clear(), column, source), name=name)
        if batch.height:
            yield batch


def texts_of(values: pl.Series, column: Column, source: Source) -> pl.Series:
    """Return a column of a source: texts without what stands for a file's form, codes as their declared labels."""
    if source.convert is not None:
        values = source.convert(values, column)
    if values.name in source.texts and column.textual:
        return column.parse(values)
    if source.decimal_comma and getattr(column, "decimal_mark", "") == ".":
        return values.str.replace_many([".", ","], ["?", "."])  # a point could stand between thousands
    return values


def scan_batches(scan: pl.LazyFrame, columns: Sequence[str], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Stream a scan in batches, in any order."""
    lazy = scan.select(columns)
    collect = partial(lazy.collect_batches, chunk_size=BATCH, maintain_order=False, engine="streaming")
    return quiet_parts(lambda: iter(collect()), broken)


def read_rows(frame: Any, columns: Iterable[str]) -> pl.DataFrame:
    """Take a frame in memory as one of Polars, column by column so that an error names the culprit."""
    return pl.DataFrame({name: _read_column(frame, name) for name in columns})


def _read_column(frame: Any, name: str) -> pl.Series:
    mixed = DataError(name, "its values have no common type", "cast the column to the declared type")
    kind = quietly(lambda: str(getattr(frame[name].to_native(), "dtype", "")), mixed)
    if kind.startswith("Sparse"):
        raise DataError(name, "is a sparse column", "give it dense: column.sparse.to_dense()")
    if kind.startswith("complex"):
        raise DataError(name, "holds complex numbers", "give numpy.real and numpy.imag of it as two columns")
    values: pl.Series = quietly(lambda: frame.select(name).to_polars().to_series(), mixed)
    if kind == "object" and values.null_count() == len(values):  # no value says of which type these pandas objects are
        return pl.repeat(None, len(values), dtype=pl.Null(), eager=True).alias(name)
    return values


# -- engines ----------------------------------------------------------------------------------------------------------


class EngineFailed(DataError):
    """An engine could not find cells: raw values are grouped instead."""

    def __init__(self) -> None:
        super().__init__(None, "could not be read", "check the types of its columns")


def attempted(action: Callable[[], T]) -> T:
    """Let an engine work. Raises EngineFailed where it fails, with no trace of its error, which may hold values."""
    return quietly(action, EngineFailed())


def cells_of(source: Source, domain: Domain) -> EngineCells | None:
    """Return the cells of declared columns where the table is; None where raw values have to be read."""
    if (find := source.cells) is not None and not domain.coin_columns:  # coins are drawn here
        with suppress(EngineFailed):
            return attempted(lambda: find(domain))
    return None


# -- frequencies of encoded records, as batches of them come in --------------------------------------------------------

_DENSE = 2**20
_SAMPLE = 2**16
_PENDING = 2**25
_MOST_PARTS = 2**22
_MOST_NUMBERED = 2**62


class Tally:
    """Frequencies of encoded records, batch by batch: by cell of a small finite domain, else by sortable key or row."""

    # A key is a cell, or the value of a lone continuous column. Keys and rows are condensed whenever much has come in.

    def __init__(self, domain: Domain, rng: np.random.Generator | None = None) -> None:
        columns, size = tuple(domain.columns.values()), domain.size
        self.domain, self.rng = domain, rng
        self.numbered = size is not None and size <= _MOST_NUMBERED
        self.keyed = self.numbered or (len(columns) == 1 and columns[0].code_type is np.float64)
        self.dense = np.zeros(size, dtype=np.int64) if size is not None and size <= _DENSE else None
        self.keys: list[tuple[npt.NDArray[Any], Any]] = []  # and how often each occurs: once, where None
        self.tables: list[pl.DataFrame] = []
        self.pending = self.condensed = 0
        # Cells of numbers are found faster than equal numbers are grouped.
        self.grouping = self.dense is None or {column.kind for column in columns} != {"numeric"}

    def add(self, batch: pl.DataFrame, source: Source) -> None:
        """Count one batch of a source."""
        if FREQUENCY not in batch.columns and self.grouping:
            sample = batch.head(_SAMPLE)
            self.grouping = grouped(sample).height * 2 <= sample.height
            if self.grouping:
                batch = grouped(batch)
        self.add_records(*encoded(batch, self.domain, source, self.rng))

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
            self.tables.append(grouped(rows_frame(records, frequencies)))
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


def _joined(parts: list[tuple[npt.NDArray[Any], Any]]) -> tuple[npt.NDArray[Any], Integers]:
    """Return the distinct keys of all parts, sorted, all NaN last as one, and their frequencies."""
    keys = np.concatenate([part for part, _ in parts])
    if all(frequencies is None for _, frequencies in parts):
        return np.unique(keys, return_counts=True)
    times = [np.ones(len(part), dtype=np.int64) if times is None else times for part, times in parts]
    keys, place = np.unique(keys, return_inverse=True)
    # Float weights are exact, as in a dense tally.
    return keys, np.bincount(place, weights=np.concatenate(times)).astype(np.int64)


def grouped(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct rows of a frame and their frequencies."""
    if FREQUENCY not in frame.columns:
        return frame.group_by(frame.columns).agg(pl.len().cast(pl.Int64).alias(FREQUENCY))
    return frame.group_by(pl.exclude(FREQUENCY)).agg(pl.col(FREQUENCY).cast(pl.Int64).sum())


def merge(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the distinct rows of some frames, and their frequencies."""
    return grouped(pl.concat(parts, how="vertical_relaxed"))


def condense(parts: list[pl.DataFrame], merger: Callable[[list[pl.DataFrame]], pl.DataFrame]) -> list[pl.DataFrame]:
    """Return frames that come in one by one: as one, whenever much has come in since the first."""
    much = sum(part.height for part in parts[1:]) > max(_MOST_PARTS, parts[0].height)
    return [merger(parts)] if much else parts


def distinct_rows(source: Source, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return the distinct raw rows of some columns, and their frequencies. Raises DataError where there are none."""
    parts: list[pl.DataFrame] = []
    for batch in declared_batches(source, columns):
        parts = condense([*parts, merge([batch])], merge)
    if not parts:
        raise DataError(None, "has no rows", "give one with rows")
    return parts[0] if len(parts) == 1 else merge(parts)


def encoded(
    batch: pl.DataFrame, domain: Domain, source: Source, rng: np.random.Generator | None = None
) -> tuple[Records, Integers | None]:
    """Return a batch's encoded records and their frequencies, None where each row is one."""
    # rng: the source of coins. Each record has its own, whatever the others are.
    frequencies = batch[FREQUENCY].to_numpy() if FREQUENCY in batch.columns else None
    table = pl.DataFrame([texts_of(batch[name], column, source) for name, column in domain.columns.items()])
    records = domain.encode(table)
    if rng is None or not domain.coin_columns:
        return records, frequencies
    rows = np.repeat(np.arange(len(records)), 1 if frequencies is None else frequencies)
    parts = zip(domain.columns.items(), records.columns, strict=True)
    columns = [
        coin_codes(column, codes[rows], column.read(table[name], name=name)[rows], rng)
        for (name, column), codes in parts
    ]
    return Records(columns=tuple(columns)), None


def no_records(domain: Domain) -> Records:
    """Return records of a domain, of which there are none."""
    return Records(columns=tuple(np.empty(0, dtype=column.code_type) for column in domain.columns.values()))


def rows_frame(records: Records, frequencies: npt.NDArray[Any] | None = None) -> pl.DataFrame:
    """Return records as rows of codes, with their frequencies where there are some."""
    types = {"i": pl.Int64, "f": pl.Float64, "O": pl.String}
    columns = [
        pl.Series(str(place), codes.tolist() if codes.dtype == object else codes, dtype=types[codes.dtype.kind])
        for place, codes in enumerate(records.columns)
    ]
    if frequencies is not None:
        columns.append(pl.Series(FREQUENCY, frequencies, dtype=pl.Int64))
    return pl.DataFrame(columns)


def frame_records(table: pl.DataFrame, domain: Domain) -> Records:
    """Return rows of codes as records."""
    types = [column.code_type for column in domain.columns.values()]
    return Records(columns=tuple(table[str(i)].to_numpy().astype(kind, copy=False) for i, kind in enumerate(types)))
