"""Engines whose workers run Python: each part of a table is encoded where it is, by the library's own code.

An engine hands on codes, at most one row for each joint cell that is held, or sums over all rows. Spark finds the cells
of simple columns itself, where all of a table's are. Three things are the same for Dask and Spark. A value that does
not fit has the code -1, so one scan finds it; the row is then asked for, and encoding it here gives the refusal. A
column whose cells an engine cannot find bit by bit as :meth:`~discreet.domain.Column.encode` does is handed on raw. An
engine that fails, whatever it says, has raw values grouped instead.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DataError
from discreet._core.lazy import nw, pl
from discreet.confidential.count import narrow
from discreet.confidential.source import FREQUENCY, EngineFailed, attempted, read_rows
from discreet.domain import Column, Counts, Records

_MISFIT = -1  # the code of a value that does not fit, and the number of the table of a part that holds one
_UNIT, _FREQUENCY, _NUMBER, _PLACE, _ORDER = "u", "f", "i", "place", "h"
_TABLE, _CELL = "t", "c"
_TOTAL = -2  # the number of the table that has one cell, of all rows
_TOGETHER = 16  # counts of parts that are added up in one task
_ROWS = 2**18  # of a part, or of Arrow batches, that are counted at once

Tables: TypeAlias = Callable[[Iterator[Counts]], list[Any]]
"""Arrays or counts by label of some records, those of all being the sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCells(ABC):
    """A table in an engine that finds the cells of declared columns."""

    columns: Mapping[str, Column]
    frame: Any

    @abstractmethod
    def counts(self) -> pl.DataFrame:
        """Return the distinct rows of codes, and their frequencies."""

    @abstractmethod
    def batches(self) -> Iterator[pl.DataFrame]:
        """Iterate over rows of codes, and their frequencies."""

    @abstractmethod
    def cells_of_tables(self, tables: Tables) -> pl.DataFrame:
        """Return the sum of the :func:`_cells_of_tables` of parts."""

    def sums(self, tables: Tables) -> tuple[int, list[Any]]:
        """Return the number of rows, and tables of them all, which are made and added up where the rows are.

        Raises DataError where a value does not fit.
        """
        cells, found = attempted(lambda: self.cells_of_tables(tables)), tables(iter(()))
        if (cells[_TABLE] == _MISFIT).any():
            self._refuse()
        n = int(cells.filter(pl.col(_TABLE) == _TOTAL)[_FREQUENCY].sum())
        for number, table in enumerate(found):
            keys, counts = cells.filter(pl.col(_TABLE) == number).select(_CELL, _FREQUENCY)
            if isinstance(table, dict):
                table.update(zip(keys, counts, strict=True))
            else:
                table.flat[keys.cast(pl.Int64).to_numpy()] = counts.to_numpy()
        return n, found

    @abstractmethod
    def misfits(self) -> pl.DataFrame:
        """Return a few raw rows, among them one that does not fit if there is any."""

    @abstractmethod
    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Cut every unit to at most ``most`` rows in the engine; None where it cannot.

        A row stays by its place in the order of a keyed hash of its unit, its codes, and its number among the unit's
        rows with these codes. So computing it again gives the same rows, other units have no part in it, and to who
        does not know the secret key all of a unit's rows are alike. The result is the distinct rows of codes that stay
        and their frequencies, the number of units, and that of rows without a unit.
        """

    def records(self, frame: pl.DataFrame) -> Records:
        """Return rows of codes as records. Raises DataError where a value does not fit."""
        return Records(columns=tuple(self._codes(frame[name], name, column) for name, column in self.columns.items()))

    def _codes(self, values: pl.Series, name: str, column: Column) -> npt.NDArray[np.generic]:
        if not column.finite:
            return column.encode(values, name=name)
        codes = values.cast(pl.Int64).to_numpy()
        if len(codes) and codes.min() < 0:
            self._refuse()
        return codes

    def _refuse(self) -> NoReturn:
        rows = attempted(self.misfits)
        for name, column in self.columns.items():
            column.encode(rows[name], name=name)
        raise EngineFailed


def engine_cells(frame: Any, kind: str, columns: Mapping[str, Column]) -> EngineCells:
    """Return the cells of a table of Spark or Dask. Raises DataError naming a column of another type."""
    native = frame.to_native()
    cells: EngineCells
    if kind == "pyspark":
        cells = SparkCells(columns=columns, frame=native)
        nothing = pl.DataFrame(native.select(*map(_quoted, columns)).limit(0).toArrow())  # whatever their names are
    else:
        cells = DaskCells(columns=columns, frame=native)
        nothing = frame.select(*columns).head(0).collect().to_polars()
    for name, column in columns.items():
        column.encode(nothing[name], name=name)
    return cells


def _cells_of_tables(frames: Iterable[pl.DataFrame], columns: Mapping[str, Column], tables: Tables) -> pl.DataFrame:
    """Return tables of raw rows: number, cell or label, and frequency. If a value does not fit, table -1 has a cell."""

    def encoded(frame: pl.DataFrame) -> Counts:
        total[0] += frame.height
        records = Records(columns=tuple(column.encode(frame[name]) for name, column in columns.items()))
        return Counts(records=records, frequencies=np.ones(frame.height, dtype=np.int64))

    total = np.zeros(1, dtype=np.int64)
    cells: list[pl.DataFrame] = []
    try:
        found = {**dict(enumerate(tables(map(encoded, frames)))), _TOTAL: total}
    except DataError:
        found = {_MISFIT: np.ones(1)}
    for number, table in found.items():
        keys = list(table) if isinstance(table, dict) else np.flatnonzero(table)
        counts = list(table.values()) if isinstance(table, dict) else table.ravel()[keys]
        values = {_TABLE: np.full(len(keys), number), _CELL: pl.Series(keys).cast(pl.String), _FREQUENCY: counts}
        cells.append(pl.DataFrame(values, schema_overrides={_FREQUENCY: pl.Int64}))
    return pl.concat(cells)


def coded_frame(frame: pl.DataFrame, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return rows with codes in place of values where a column has cells, else texts and floats."""
    return pl.DataFrame([_coded_column(frame[name], column).alias(name) for name, column in columns.items()])


def _coded_column(values: pl.Series, column: Column) -> pl.Series:
    if not column.finite:
        values = column.read(values, name=values.name)
    if column.open:
        return values.cast(pl.String)
    if not column.finite:
        return (values.cast(pl.Float64) + 0.0).fill_nan(None)
    try:
        return pl.Series(column.encode(values))
    except DataError:
        fits = ~np.logical_or.reduce([misfit.where for misfit in column.misfits(values)])
        codes = np.full(len(values), _MISFIT, dtype=np.int64)
        codes[fits] = column.encode(values.filter(fits))
        return pl.Series(codes)


def _misfit_rows(frame: pl.DataFrame, columns: Mapping[str, Column]) -> pl.Series:
    """Return which rows hold a value that does not fit."""
    misfits = (misfit.where for name, column in columns.items() for misfit in column.misfits(frame[name]))
    return pl.Series(functools.reduce(np.logical_or, misfits, np.zeros(frame.height, dtype=np.bool_)))


def _grouped(frame: pl.DataFrame, frequency: str) -> pl.DataFrame:
    return frame.group_by(pl.all()).agg(pl.len().cast(pl.Int64).alias(frequency))


def _added(parts: list[pl.DataFrame], frequency: str) -> pl.DataFrame:
    return pl.concat(parts).group_by(pl.exclude(frequency)).agg(pl.col(frequency).sum())


def _code_names(columns: Mapping[str, Column]) -> list[str]:
    """Return names of columns of codes that no other column has, whatever the declared names are."""
    return [f"c{place}" for place in range(len(columns))]


# -- Dask --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskCells(EngineCells):
    """A Dask table: its parts are counted where they are, and the counts of parts added up there."""

    def counts(self) -> pl.DataFrame:
        """Count part by part, and add up."""
        return self._added(self._counted(), FREQUENCY)

    def cells_of_tables(self, tables: Tables) -> pl.DataFrame:
        """Make tables part by part, and add up."""
        from dask import delayed

        return self._added([delayed(_part_tables)(part, self.columns, tables) for part in self._parts()], _FREQUENCY)

    def _added(self, parts: list[Any], frequency: str) -> pl.DataFrame:
        from dask import compute, delayed

        while len(parts) > 1:
            groups = range(0, len(parts), _TOGETHER)
            parts = [delayed(_added)(parts[start : start + _TOGETHER], frequency) for start in groups]
        frame: pl.DataFrame = compute(*parts)[0]
        return frame

    def batches(self) -> Iterator[pl.DataFrame]:
        """Encode part by part."""
        for part in self._counted():
            yield part.compute()

    def misfits(self) -> pl.DataFrame:
        """Look for a row in each part."""
        from dask import compute, delayed

        frames = compute(*(delayed(_first_misfit)(part, self.columns) for part in self._parts()))
        frame: pl.DataFrame = next(frame for frame in frames if frame.height)
        return frame

    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Bring the rows of each unit together, and cut them there."""
        from dask import compute, delayed

        if self.frame.dtypes[unit].kind == "f":
            return None
        parts = self.frame[list(dict.fromkeys([*self.columns, unit]))].to_delayed()
        split = [delayed(_by_unit, nout=len(parts))(part, self.columns, unit, len(parts)) for part in parts]
        groups = zip(*(tuple(part) for part in split), strict=True)
        frames, units, unnamed = zip(
            *compute(*(delayed(_cut)(list(group), most, key) for group in groups)), strict=True
        )
        names = dict(zip(_code_names(self.columns), self.columns, strict=True))
        slots = _added([*frames], _FREQUENCY).rename({**names, _FREQUENCY: FREQUENCY})
        return slots, sum(units), sum(unnamed)

    def _parts(self) -> list[Any]:
        parts: list[Any] = self.frame[list(self.columns)].to_delayed()
        return parts

    def _counted(self) -> list[Any]:
        from dask import delayed

        return [delayed(_part_counts)(part, self.columns) for part in self._parts()]


def _slices(part: Any, columns: Iterable[str]) -> Iterator[pl.DataFrame]:
    frame = nw.from_native(part, eager_only=True)
    for start in range(0, max(1, len(frame)), _ROWS):
        yield read_rows(frame[start : start + _ROWS], columns)


def _part_counts(part: Any, columns: Mapping[str, Column]) -> pl.DataFrame:
    counts = [_grouped(coded_frame(rows, columns), FREQUENCY) for rows in _slices(part, columns)]
    return _added(counts, FREQUENCY)


def _part_tables(part: Any, columns: Mapping[str, Column], tables: Tables) -> pl.DataFrame:
    return _cells_of_tables(_slices(part, columns), columns, tables)


def _first_misfit(part: Any, columns: Mapping[str, Column]) -> pl.DataFrame:
    return pl.concat([rows.filter(_misfit_rows(rows, columns)) for rows in _slices(part, columns)]).head(1)


def _by_unit(part: Any, columns: Mapping[str, Column], unit: str, ways: int) -> list[pl.DataFrame]:
    """Divide the codes of a part by their unit, in a way that does not depend on the part."""

    def owned(frame: pl.DataFrame) -> pl.DataFrame:
        owner = frame[unit].alias(_UNIT)
        if not owner.dtype.is_integer():
            if owner.dtype not in (pl.String, pl.Null, pl.Date, pl.Boolean):
                raise TypeError
            owner = owner.cast(pl.String)
        codes = zip(_code_names(columns), coded_frame(frame, columns), strict=True)
        return narrow(pl.DataFrame([owner, *(values.alias(name) for name, values in codes)]))

    slices = _slices(part, dict.fromkeys([*columns, unit]))
    rows = pl.concat([owned(frame) for frame in slices], how="vertical_relaxed")
    if ways == 1:
        return [rows]
    units = rows[_UNIT].unique()
    places = [zlib.crc32(str(owner).encode()) % ways for owner in units]
    place = rows[_UNIT].replace_strict(units, places, return_dtype=pl.Int32)
    return [rows.filter(place == way) for way in range(ways)]


def _cut(parts: list[pl.DataFrame], most: int, key: str) -> tuple[pl.DataFrame, int, int]:
    """Keep the rows of each unit with the smallest numbers; return as :meth:`EngineCells.slots` does.

    A unit's numbers are a hash of the key and the unit, and go to its rows in the order of their codes.
    """
    rows = pl.concat(parts, how="vertical_relaxed")
    unnamed = rows[_UNIT].null_count()
    rows = rows.filter(pl.col(_UNIT).is_not_null()).sort(rows.columns)
    held = rows[_UNIT].rle().struct.unnest()
    numbers = [
        hashlib.shake_256(f"{key}|{unit}".encode()).digest(8 * length) if length > most else bytes(8 * length)
        for length, unit in held.rows()
    ]
    order = pl.Series(_ORDER, np.frombuffer(b"".join(numbers), dtype=np.uint64))
    places = held.select(pl.int_ranges("len")).to_series().explode()
    slots = rows.with_columns(order).sort(_UNIT, _ORDER).filter(places < most).drop(_UNIT, _ORDER)
    return _grouped(slots, _FREQUENCY), held.height, unnamed


# -- Spark -------------------------------------------------------------------------------------------------------------

_WHOLE, _REAL = ("tinyint", "smallint", "int", "bigint"), ("float", "double")
_LABELS = {bool: "boolean", str: "string"}
_MOST_LABELS = 64
_MOST_PRODUCT = 2**62


def code(column: Any, x: Any, kind: Any) -> Any | None:
    """Return the expression of the code of a value; None where none is sure to be the very one that encoding gives.

    There is one for the simplest declarations only: numbers whose cells division finds, whole numbers, truth values and
    labels. Handing a row of others to Python workers takes Spark more time than counting it does.
    """
    from pyspark.sql import functions as f

    if not column.finite or column.notation:
        return None
    name, missing = kind.simpleString(), x.isNull()
    misfit = _long(_MISFIT if column.out_of_bounds == "error" else int(column.misfit_code))
    null = _long(int(column.null_code)) if column.nullable else misfit
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
    """A table of Spark: counted by expressions where every column has one, and else in Python workers.

    Workers count Arrow batches, and Spark adds up the counts.
    """

    def counts(self) -> pl.DataFrame:
        """Count in Spark, or batch by batch, and add up."""
        return self._named(pl.DataFrame(_summed(self._rows(), self._places).toArrow()))

    def cells_of_tables(self, tables: Tables) -> pl.DataFrame:
        """Make tables partition by partition, and let Spark add up."""
        columns, places = self.columns, self._places

        def made(batches: Iterator[Any]) -> Iterator[Any]:
            frames = (_named(frame, places, columns) for frame in _joined(batches))
            yield from _to_arrow(_cells_of_tables(frames, columns, tables))

        cells = self._selected().mapInArrow(made, f"{_TABLE} bigint, {_CELL} string, {_FREQUENCY} bigint")
        return pl.DataFrame(_summed(cells, [_TABLE, _CELL]).toArrow())

    def batches(self) -> Iterator[pl.DataFrame]:
        """Fetch the counts of batches."""
        yield self._named(pl.DataFrame(self._mapped().toArrow()))

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
        owner, places = f.col(_quoted(unit)), self._places
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

    @property
    def _places(self) -> list[str]:
        return _code_names(self.columns)

    def _rows(self, *keys: Any) -> Any:
        """Return codes and frequencies, by the other columns too, which are texts."""
        from pyspark.sql import functions as f

        codes: list[Any] = []
        for name, column in self.columns.items():
            expression = code(column, f.col(_quoted(name)), self.frame.schema[name].dataType)
            if expression is None:
                return self._mapped(*keys)
            codes.append(expression.alias(f"c{len(codes)}"))
        return self.frame.select(*keys, *codes, _long(1).alias(_FREQUENCY))

    def _selected(self, *keys: Any) -> Any:
        from pyspark.sql import functions as f

        columns = zip(self.columns, self._places, strict=True)  # a column may be called what another one is here
        return self.frame.select(*keys, *(f.col(_quoted(name)).alias(place) for name, place in columns))

    def _mapped(self, *keys: Any) -> Any:
        """Return the codes and frequencies of batches, by the other columns too, which are texts."""
        columns, places, rows = self.columns, self._places, self._selected(*keys)
        kinds = ["bigint" if column.finite else "string" if column.open else "double" for column in columns.values()]
        key_names = rows.columns[: len(keys)]

        def counted(batches: Iterator[Any]) -> Iterator[Any]:
            for frame in _joined(batches):
                coded = _named(coded_frame(_named(frame, places, columns), columns), columns, places)
                groups = _grouped(coded.with_columns(frame[name] for name in key_names), _FREQUENCY)
                yield from _to_arrow(groups.select(*key_names, *places, _FREQUENCY))

        schema = [*(f"{name} string" for name in key_names), *(map(" ".join, zip(places, kinds, strict=True)))]
        return rows.mapInArrow(counted, ", ".join([*schema, f"{_FREQUENCY} bigint"]))

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.rename({**dict(zip(self._places, self.columns, strict=True)), _FREQUENCY: FREQUENCY})


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


def _named(frame: pl.DataFrame, names: Iterable[str], others: Iterable[str]) -> pl.DataFrame:
    """Return columns under other names."""
    return frame.select([*names]).rename(dict(zip(names, others, strict=True)))


def _to_arrow(frame: pl.DataFrame) -> list[Any]:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()  # type: ignore[no-any-return]


def _summed(frame: Any, keys: list[str]) -> Any:
    """Add up the frequencies of equal rows in Spark."""
    from pyspark.sql import functions as f

    return frame.groupBy(*keys).agg(f.sum(_FREQUENCY).cast("bigint").alias(_FREQUENCY))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
