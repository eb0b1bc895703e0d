"""Engines whose workers run Python: each part of a table is encoded where it is, by the library's own code.

An engine hands on codes, at most one row for each joint cell that is held, or sums over all rows. Spark finds the cells
of simple columns itself, where all of a table's are. Three things are the same for Dask and Spark. A value that does
not fit has the code -1, so one scan finds it; the row is then asked for, and encoding it here gives the refusal. A
column whose cells an engine cannot find bit by bit as :meth:`~discreet.domain.Column.encode` does is handed on raw. An
engine that fails, whatever it says, has raw values grouped instead.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DataError
from discreet._core.lazy import dask, nw, pl
from discreet.confidential.returned import quoted
from discreet.confidential.source import FREQUENCY, EngineFailed, attempted, read_rows
from discreet.confidential.units import narrow
from discreet.domain import Column, Counts, Domain, Records

_MISFIT = -1  # the code of a value that does not fit, and the number of the table of a part that holds one
_UNIT, _FREQUENCY, _NUMBER, _PLACE, _ORDER = "u", "f", "i", "place", "h"
_TABLE, _CELL = "t", "c"
_TOGETHER = 16  # counts of parts that are added up in one task
_quoted = partial(quoted, sign="`")
_ROWS = 2**18  # of a part, or of Arrow batches, that are counted at once

Work: TypeAlias = Callable[[Iterator[pl.DataFrame]], Iterable[pl.DataFrame]]
"""Turns the raw rows of a part, slice by slice, into others, where the part is."""

Tables: TypeAlias = Callable[[Iterator[Counts]], Any]
"""Arrays or counts by label of some records, in a list or a mapping; those of all are the sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCells(ABC):
    """A table in an engine that finds the cells of declared columns."""

    columns: Mapping[str, Column]
    repaired: Callable[[Records], Records]  # what cannot occur is moved, as the rules of the domain say
    frame: Any

    @abstractmethod
    def counts(self) -> pl.DataFrame:
        """Return the distinct rows of codes, and their frequencies."""

    @abstractmethod
    def batches(self) -> Iterator[pl.DataFrame]:
        """Iterate over rows of codes, and their frequencies."""

    @abstractmethod
    def gather(self, work: Work, kinds: Mapping[str, str]) -> pl.DataFrame:
        """Work on each part, and add up the frequencies of equal rows; ``kinds``: Spark's types of their columns."""

    def sums(self, tables: Tables) -> tuple[int, Any]:
        """Return the number of rows, and tables of them all. Raises DataError where a value does not fit."""
        work = partial(_table_cells, self._by_place, self.repaired, tables)
        cells = attempted(lambda: self.gather(work, {_TABLE: "bigint", _CELL: "string", _FREQUENCY: "bigint"}))
        parts = {number: frame for (number,), frame in cells.partition_by(_TABLE, as_dict=True).items()}
        if _MISFIT in parts:
            self._refuse()
        total, sums = np.zeros(1, dtype=np.int64), tables(iter(()))
        for number, table in enumerate([total, *_listed(sums)]):
            _, labels, frequencies = parts.get(number, cells.clear())
            if isinstance(table, dict):
                table.update(zip(labels, frequencies, strict=True))
            else:
                table.flat[labels.cast(pl.Int64).to_numpy()] = frequencies.to_numpy()
        return int(total[0]), sums

    @abstractmethod
    def misfits(self) -> pl.DataFrame:
        """Return a few raw rows, among them one that does not fit if there is any."""

    @abstractmethod
    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Cut every unit to at most ``most`` rows in the engine; None where it cannot."""
        # A row stays by its place in the order of a keyed hash of its unit, its codes, and its number among the unit's
        # rows with these codes. So computing it again gives the same rows, other units have no part in it, and to who
        # does not know the secret key all of a unit's rows are alike. The result is the distinct rows of codes that
        # stay and their frequencies, the number of units, and that of rows without a unit.

    def records(self, frame: pl.DataFrame) -> Records:
        """Return rows of codes as records. Raises DataError where a value does not fit."""
        codes = tuple(self._codes(frame[name], name, column) for name, column in self.columns.items())
        return self.repaired(Records(columns=codes))

    def _codes(self, values: pl.Series, name: str, column: Column) -> npt.NDArray[np.generic]:
        if not column.finite:
            return column.encode(values, name=name)
        codes = values.cast(pl.Int64).to_numpy()
        if len(codes) and codes.min() < 0:
            self._refuse()
        return codes

    @property
    def _by_place(self) -> dict[str, Column]:
        """The columns by names that no other column has, whatever the declared names are."""
        return {f"c{place}": column for place, column in enumerate(self.columns.values())}

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        names = dict(zip(self._by_place, self.columns, strict=True))
        return frame.rename({**names, _FREQUENCY: FREQUENCY}, strict=False)

    def _refuse(self) -> NoReturn:
        rows = attempted(self.misfits)
        for name, column in self.columns.items():
            column.encode(rows[name], name=name)
        raise EngineFailed


def engine_cells(frame: Any, kind: str, domain: Domain) -> EngineCells:
    """Return the cells of a table of Spark or Dask. Raises DataError naming a column of another type."""
    native, columns = frame.to_native(), domain.columns
    facts: dict[str, Any] = {"columns": columns, "repaired": domain.repaired, "frame": native}
    if kind == "pyspark":
        nothing = pl.DataFrame(native.select(*map(_quoted, columns)).limit(0).toArrow())  # whatever their names are
    else:
        nothing = frame.select(*columns).head(0).collect().to_polars()
    for name, column in columns.items():
        column.encode(nothing[name], name=name)
    return SparkCells(**facts) if kind == "pyspark" else DaskCells(**facts)


def _table_cells(
    columns: Mapping[str, Column], repaired: Any, tables: Tables, frames: Iterator[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """Yield the cells of tables of raw rows. Table 0 is their number. Where a value does not fit, there is table -1."""
    total = np.zeros(1, dtype=np.int64)

    def encoded(frame: pl.DataFrame) -> Counts:
        total[0] += frame.height
        records = Records(columns=tuple(column.encode(frame[name]) for name, column in columns.items()))
        return Counts(records=repaired(records), frequencies=np.ones(frame.height, dtype=np.int64))

    try:
        numbered = dict(enumerate([total, *_listed(tables(map(encoded, frames)))]))
    except DataError:
        numbered = {_MISFIT: np.ones(1, dtype=np.int64)}
    for number, table in numbered.items():
        cells = table
        if not isinstance(table, dict):
            places = np.flatnonzero(table)
            cells = dict(zip(places, table.ravel()[places], strict=True))
        labels = pl.Series(_CELL, list(cells)).cast(pl.String)
        frame = pl.DataFrame([labels, pl.Series(_FREQUENCY, list(cells.values()), dtype=pl.Int64)])
        yield frame.select(pl.lit(number, dtype=pl.Int64).alias(_TABLE), pl.all())


def _listed(tables: Any) -> Iterable[Any]:
    return tables.values() if isinstance(tables, Mapping) else tables


def _code_counts(columns: Mapping[str, Column], frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the distinct rows of codes, beside other columns, and their frequencies."""
    for frame in frames:
        yield _grouped(frame.with_columns(*coded_frame(frame, columns)))


def coded_frame(frame: pl.DataFrame, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return rows with codes in place of values where a column has cells, else texts and floats."""
    return pl.DataFrame([_coded_column(frame[name], column).alias(name) for name, column in columns.items()])


def _coded_column(values: pl.Series, column: Column) -> pl.Series:
    if column.finite:
        try:
            return pl.Series(column.encode(values))
        except DataError:
            fits = ~np.logical_or.reduce([misfit.where for misfit in column.misfits(values)])
            codes = np.full(len(values), _MISFIT, dtype=np.int64)
            codes[fits] = column.encode(values.filter(fits))
            return pl.Series(codes)
    try:
        typed = column.read(values)
    except DataError:  # which is raised where the column has its name
        raise EngineFailed from None
    if column.open:
        return typed.cast(pl.String)
    return (typed.cast(pl.Float64) + 0.0).fill_nan(None)


def _misfit_rows(frame: pl.DataFrame, columns: Mapping[str, Column]) -> pl.Series:
    """Return which rows hold a value that does not fit."""
    misfits = (misfit.where for name, column in columns.items() for misfit in column.misfits(frame[name]))
    return pl.Series(reduce(np.logical_or, misfits, np.zeros(frame.height, dtype=np.bool_)))


def _grouped(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.group_by(pl.all()).agg(pl.len().cast(pl.Int64).alias(_FREQUENCY))


def _added(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by(pl.exclude(_FREQUENCY)).agg(pl.col(_FREQUENCY).sum())


# -- Dask --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskCells(EngineCells):
    """A Dask table: its parts are counted where they are, and the counts of parts added up there."""

    def counts(self) -> pl.DataFrame:
        """Count part by part, and add up."""
        return self._named(self.gather(partial(_code_counts, self._by_place), {}))

    def gather(self, work: Work, kinds: Mapping[str, str]) -> pl.DataFrame:
        """Work on each part, and add up some parts at a time."""
        parts = self._parts(work)
        while len(parts) > _TOGETHER:
            parts = [dask.delayed(_added)(parts[i : i + _TOGETHER]) for i in range(0, len(parts), _TOGETHER)]
        return _added(list(dask.compute(*parts)))

    def batches(self) -> Iterator[pl.DataFrame]:
        """Encode part by part."""
        for part in self._parts(partial(_code_counts, self._by_place)):
            yield self._named(part.compute())

    def misfits(self) -> pl.DataFrame:
        """Look for a row in each part."""
        columns = self._by_place
        parts = self._parts(lambda frames: (rows.filter(_misfit_rows(rows, columns)).head(1) for rows in frames))
        return self._named(pl.concat(dask.compute(*parts), how="vertical_relaxed"))

    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Bring the rows of each unit together, and cut them there."""
        if self.frame.dtypes[unit].kind == "f":
            return None
        parts = self._parts(partial(_unit_codes, self._by_place), (unit, _UNIT))
        pieces = [dask.delayed(_split, nout=len(parts))(part, len(parts)) for part in parts]
        groups = zip(*(tuple(part) for part in pieces), strict=True)
        cuts = [dask.delayed(_cut)([*group], most, key) for group in groups]
        frames, units, unnamed = zip(*dask.compute(*cuts), strict=True)
        return self._named(_added(frames)), sum(units), sum(unnamed)

    def _parts(self, work: Work, *keys: tuple[str, str]) -> list[Any]:
        """Return the parts of the table after some work; ``keys``: further columns, and their names there."""
        pairs = [*keys, *zip(self.columns, self._by_place, strict=True)]
        parts = self.frame[list(dict(pairs))].to_delayed()
        return [dask.delayed(_of_part)(part, pairs, work) for part in parts]


def _of_part(part: Any, pairs: Sequence[tuple[str, str]], work: Work) -> pl.DataFrame:
    def slices() -> Iterator[pl.DataFrame]:
        frame = nw.from_native(part, eager_only=True)
        for start in range(0, max(1, len(frame)), _ROWS):
            rows = read_rows(frame[start : start + _ROWS], dict(pairs))
            yield pl.DataFrame([rows[name].alias(place) for name, place in pairs])

    return pl.concat(work(slices()), how="vertical_relaxed")


def _unit_codes(columns: Mapping[str, Column], frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield units and codes in types as small as they fit. Raises TypeError where a column names no units for sure."""
    for frame in frames:
        units = frame[_UNIT]
        if units.dtype in (pl.String, pl.Null, pl.Date, pl.Boolean):
            units = units.cast(pl.String)
        elif not units.dtype.is_integer():
            raise TypeError
        yield narrow(pl.DataFrame([units, *coded_frame(frame, columns)]))


def _split(rows: pl.DataFrame, ways: int) -> list[pl.DataFrame]:
    """Divide rows by their unit, in a way that does not depend on the part."""
    if ways == 1:
        return [rows]
    units = rows[_UNIT].unique()
    numbers = [zlib.crc32(str(unit).encode()) % ways for unit in units]
    place = rows[_UNIT].replace_strict(units, numbers, return_dtype=pl.Int32)
    return [rows.filter(place == way) for way in range(ways)]


def _cut(parts: list[pl.DataFrame], most: int, key: str) -> tuple[pl.DataFrame, int, int]:
    """Keep the rows of each unit with the smallest numbers; return as :meth:`EngineCells.slots` does."""
    # A unit's numbers are a hash of the key and the unit, and go to its rows in the order of their codes.
    rows = pl.concat(parts, how="vertical_relaxed")
    unnamed = rows[_UNIT].null_count()
    rows = rows.filter(pl.col(_UNIT).is_not_null()).sort(rows.columns)
    units = rows[_UNIT].rle().struct.unnest()
    numbers = [
        hashlib.shake_256(f"{key}|{unit}".encode()).digest(8 * length) if length > most else bytes(8 * length)
        for length, unit in units.rows()
    ]
    order = pl.Series(_ORDER, np.frombuffer(b"".join(numbers), dtype=np.uint64))
    places = units.select(pl.int_ranges("len")).to_series().explode()
    slots = rows.with_columns(order).sort(_UNIT, _ORDER).filter(places < most).drop(_UNIT, _ORDER)
    return _grouped(slots), units.height, unnamed


# -- Spark -------------------------------------------------------------------------------------------------------------

_WHOLE, _REAL = ("tinyint", "smallint", "int", "bigint"), ("float", "double")
_LABELS = {bool: "boolean", str: "string"}
_MOST_LABELS = 64
_MOST_PRODUCT = 2**62


def code(column: Any, x: Any, kind: Any) -> Any | None:
    """Return the expression of the code of a value; None where none is sure to be the very one that encoding gives."""
    # There is one for the simplest declarations only: numbers whose cells division finds, whole numbers, truth values
    # and labels. Handing a row of others to Python workers takes Spark more time than counting it does.
    from pyspark.sql import functions as f

    if not column.finite or column.notation:
        return None
    name, missing = kind.simpleString(), x.isNull()
    misfit = null = _long(_MISFIT)
    if column.out_of_bounds != "error":
        misfit = null = _long(int(column.misfit_code))
    if column.nullable:
        null = _long(int(column.null_code))
    if column.kind in ("boolean", "category"):
        # A collation other than that of bytes is a part of the name.
        if name != _LABELS.get(type(column.labels[0])) or len(column.labels) > _MOST_LABELS:
            return None
        expression = f.when(missing, null)
        for place, label in enumerate(column.labels):
            expression = expression.when(x == f.lit(label), _long(place))
        return expression.otherwise(misfit)
    parts = _number_cell(column, x, name)
    if parts is None:
        return None
    v, low, high, cell = parts
    if name in _REAL:
        missing |= f.isnan(x)
    expression = f.when(missing, null).when((v >= low) & (v <= high), cell)  # NaN is larger than any number in Spark
    if column.out_of_bounds == "clip":
        return expression.when(v < low, _long(0)).otherwise(_long(column.values - 1))
    return expression.otherwise(misfit)


def _number_cell(column: Any, x: Any, name: str) -> tuple[Any, Any, Any, Any] | None:
    """Return a number, the bounds, and its cell if it lies between them; None as :func:`code`."""
    from pyspark.sql import functions as f

    if column.kind == "numeric" and column._guesses and name in (*_WHOLE, *_REAL):
        low, v = f.lit(column.lower), x.cast("double")
        cell = f.floor((v - low) / f.lit((column.upper - column.lower) / column.cells))  # each as one float64 operation
        return v, low, f.lit(column.upper), f.least(cell, _long(column.cells - 1))
    if column.kind != "integer" or name not in _WHOLE:
        return None
    low, v = _long(column._start), x.cast("bigint")
    index, points, groups = v - low, column._points, column._groups
    if groups is not None:
        cells = len(groups) - 1
        if points * cells >= _MOST_PRODUCT or groups.tolist() != [i * points // cells for i in range(cells + 1)]:
            return None
        index = f.call_function("div", (index + _long(1)) * _long(cells) - _long(1), _long(points))
    return v, low, _long(column._stop), index


def _long(number: int) -> Any:
    from pyspark.sql import functions as f

    return f.lit(number).cast("bigint")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCells(EngineCells):
    """A table of Spark: counted by expressions where every column has one, else batch by batch in Python workers."""

    def counts(self) -> pl.DataFrame:
        """Count in Spark, or batch by batch, and add up."""
        return self._named(pl.DataFrame(_summed(self._rows(), [*self._by_place]).toArrow()))

    def gather(self, work: Work, kinds: Mapping[str, str]) -> pl.DataFrame:
        """Work on each partition, and let Spark add up."""
        return pl.DataFrame(_summed(self._mapped(work, kinds), [*kinds][:-1]).toArrow())

    def batches(self) -> Iterator[pl.DataFrame]:
        """Fetch the counts of batches."""
        yield self._named(pl.DataFrame(self._coded().toArrow()))

    def misfits(self) -> pl.DataFrame:
        """Fetch one row."""
        columns, rows = self.columns, self.frame.select(*map(_quoted, self.columns))

        def misfits(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                yield batch.filter(_misfit_rows(pl.DataFrame(batch), columns).to_arrow())

        return pl.DataFrame(rows.mapInArrow(misfits, rows.schema).limit(1).toArrow())

    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Put the rows of each unit in the order of their hash."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f
        from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

        if not isinstance(self.frame.schema[unit].dataType, (BooleanType, DateType, IntegralType, StringType)):
            return None
        owner, places = f.col(_quoted(unit)), [*self._by_place]
        unnamed = self.frame.filter(owner.isNull()).count()
        rows = _summed(self._rows(owner.cast("string").alias(_UNIT)), [_UNIT, *places])
        totals = rows.withColumn("held", f.sum(_FREQUENCY).over(Window.partitionBy(_UNIT)))
        numbered = totals.withColumn(_NUMBER, f.explode(f.sequence(f.lit(1), f.col(_FREQUENCY))))
        values = [f.coalesce(f.hex(f.col(place).cast("string")), f.lit("null")) for place in places]
        text = f.concat_ws("|", f.lit(key), f.col(_UNIT), *values, f.col(_NUMBER).cast("string"))
        hashed = numbered.withColumn(_ORDER, f.when(f.col("held") > most, f.sha2(text, 256)))
        window = Window.partitionBy(_UNIT).orderBy(_ORDER, *places, _NUMBER)
        slots = hashed.withColumn(_PLACE, f.row_number().over(window)).filter(f.col(_PLACE) <= most)
        firsts = f.sum((f.col(_PLACE) == 1).cast("bigint")).alias("firsts")
        frame = pl.DataFrame(slots.groupBy(*places).agg(f.count("*").alias(_FREQUENCY), firsts).toArrow())
        return self._named(frame.drop("firsts")), int(frame["firsts"].sum()), int(unnamed)

    def _rows(self, *keys: Any) -> Any:
        """Return codes and frequencies, by the other columns too, which are texts."""
        from pyspark.sql import functions as f

        codes: list[Any] = []
        for name, column in self.columns.items():
            expression = code(column, f.col(_quoted(name)), self.frame.schema[name].dataType)
            if expression is None:
                return self._coded(*keys)
            codes.append(expression.alias(f"c{len(codes)}"))
        return self.frame.select(*keys, *codes, _long(1).alias(_FREQUENCY))

    def _coded(self, *keys: Any) -> Any:
        kinds = dict.fromkeys([_UNIT][: len(keys)], "string")
        for place, column in self._by_place.items():
            kinds[place] = {np.int64: "bigint", object: "string", np.float64: "double"}[column.code_type]
        return self._mapped(partial(_code_counts, self._by_place), {**kinds, _FREQUENCY: "bigint"}, *keys)

    def _mapped(self, work: Work, kinds: Mapping[str, str], *keys: Any) -> Any:
        """Work on each partition, and the other columns too."""
        from pyspark.sql import functions as f

        names = list(kinds)

        def worked(batches: Iterator[Any]) -> Iterator[Any]:
            for frame in work(_joined(batches)):
                yield from frame.select(names).to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()

        places = zip(self.columns, self._by_place, strict=True)  # a column may be called what another one is here
        rows = self.frame.select(*keys, *(f.col(_quoted(name)).alias(place) for name, place in places))
        return rows.mapInArrow(worked, ", ".join(map(" ".join, kinds.items())))


def _joined(batches: Iterator[Any]) -> Iterator[pl.DataFrame]:
    """Join batches: Spark makes them of 10,000 rows, and counting a batch costs as much as counting many rows."""
    frames: list[pl.DataFrame] = []
    for batch in batches:
        frames.append(pl.DataFrame(batch))
        if sum(frame.height for frame in frames) >= _ROWS:
            yield pl.concat(frames)
            frames = []
    if frames:
        yield pl.concat(frames)


def _summed(frame: Any, keys: list[str]) -> Any:
    from pyspark.sql import functions as f

    return frame.groupBy(*keys).agg(f.sum(_FREQUENCY).cast("bigint").alias(_FREQUENCY))
