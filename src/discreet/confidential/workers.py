"""Engines whose workers run Python: each part of a table is encoded where it is, by the library's own code.

An engine hands on codes, at most one row for each joint cell that is held. Spark finds the cells of simple columns
itself, where all of a table's are. Three things are the same for Dask and Spark. A value that does not fit has the code
-1, so one scan finds it and counts the rest; the row is then asked for, and encoding it here gives the refusal. A
column whose cells an engine cannot find bit by bit as :meth:`~discreet.domain.Column.encode` does is handed on raw. An
engine that fails, whatever it says, has raw values grouped instead.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DataError
from discreet._core.lazy import nw, pl
from discreet.confidential.source import FREQUENCY, attempted, read_rows
from discreet.domain import Column, Records

_MISFIT = -1  # the code of a value that does not fit
_UNIT, _FREQUENCY, _NUMBER, _PLACE, _ORDER = "u", "f", "i", "place", "h"
_TOGETHER = 16  # counts of parts that are added up in one task
_ROWS = 2**18  # of Arrow batches that are counted at once


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
            rows = attempted(self.misfits)
            for column_name, declared in self.columns.items():
                declared.encode(rows[column_name], name=column_name)
            raise column._unreadable(name)
        return codes


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
    finite = {name: column for name, column in columns.items() if column.finite}
    return coded_frame(frame, finite).select(pl.any_horizontal(pl.all() == _MISFIT)).to_series()


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
        from dask import compute, delayed

        parts = self._counted()
        while len(parts) > 1:
            groups = range(0, len(parts), _TOGETHER)
            parts = [delayed(_added)(parts[start : start + _TOGETHER], FREQUENCY) for start in groups]
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


def _part_counts(part: Any, columns: Mapping[str, Column]) -> pl.DataFrame:
    frame = read_rows(nw.from_native(part, eager_only=True), columns)
    return _grouped(coded_frame(frame, columns), FREQUENCY)


def _first_misfit(part: Any, columns: Mapping[str, Column]) -> pl.DataFrame:
    frame = read_rows(nw.from_native(part, eager_only=True), columns)
    return frame.filter(_misfit_rows(frame, columns)).head(1)


def _by_unit(part: Any, columns: Mapping[str, Column], unit: str, ways: int) -> list[pl.DataFrame]:
    """Divide the codes of a part by their unit, in a way that does not depend on the part."""
    frame = read_rows(nw.from_native(part, eager_only=True), dict.fromkeys([*columns, unit]))
    if not (frame[unit].dtype.is_integer() or frame[unit].dtype in (pl.String, pl.Null, pl.Date, pl.Boolean)):
        raise TypeError
    owner = frame[unit].cast(pl.String).alias(_UNIT)
    coded = coded_frame(frame, columns).rename(dict(zip(columns, _code_names(columns), strict=True)))
    rows = _grouped(coded.with_columns(owner), _FREQUENCY)
    places = [0 if text is None else zlib.crc32(text.encode()) % ways for text in rows[_UNIT]]
    return [rows.filter(pl.Series(places, dtype=pl.Int64) == place) for place in range(ways)]


def _cut(parts: list[pl.DataFrame], most: int, key: str) -> tuple[pl.DataFrame, int, int]:
    """Keep the rows of each unit that come first by their hash; return as :meth:`EngineCells.slots` does."""
    rows = _added(parts, _FREQUENCY)
    missing, rows = rows.filter(pl.col(_UNIT).is_null()), rows.filter(pl.col(_UNIT).is_not_null())
    totals = pl.col(_FREQUENCY).sum().over(_UNIT)
    numbered = (
        rows.filter(totals > most)
        .with_columns(pl.int_ranges(1, pl.col(_FREQUENCY) + 1).alias(_NUMBER))
        .explode(_NUMBER)
    )
    codes = pl.exclude(_UNIT, _FREQUENCY, _NUMBER)
    texts = numbered.select(pl.col(_UNIT), pl.struct(codes).struct.json_encode(), pl.col(_NUMBER)).rows()
    order = [hashlib.sha256(f"{key}|{unit}|{number}|{code}".encode()).digest() for unit, code, number in texts]
    hashed = numbered.with_columns(
        pl.Series(_ORDER, order, dtype=pl.Binary), pl.lit(1, dtype=pl.Int64).alias(_FREQUENCY)
    )
    winners = hashed.sort(_ORDER).filter(pl.int_range(pl.len()).over(_UNIT) < most)
    slots = pl.concat([rows.filter(totals <= most), winners.select(rows.columns)]).drop(_UNIT)
    return _added([slots], _FREQUENCY), rows[_UNIT].n_unique(), int(missing[_FREQUENCY].sum())


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

    def _mapped(self, *keys: Any) -> Any:
        """Return the codes and frequencies of batches, by the other columns too, which are texts."""
        from pyspark.sql import functions as f

        columns, places = self.columns, self._places
        kinds = ["bigint" if column.finite else "string" if column.open else "double" for column in columns.values()]
        columns_named = [f.col(_quoted(name)).alias(place) for name, place in zip(columns, places, strict=True)]
        rows = self.frame.select(*keys, *columns_named)  # a column may be called what another one is here
        key_names = rows.columns[: len(keys)]

        def counted(batches: Iterator[Any]) -> Iterator[Any]:
            for frame in _joined(batches):
                values = pl.DataFrame([frame[place].alias(name) for name, place in zip(columns, places, strict=True)])
                coded = coded_frame(values, columns).rename(dict(zip(columns, places, strict=True)))
                groups = _grouped(coded.with_columns(frame[name] for name in key_names), _FREQUENCY)
                table = groups.select(*key_names, *places, _FREQUENCY)
                yield from table.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()

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


def _summed(frame: Any, keys: list[str]) -> Any:
    """Add up the frequencies of equal rows in Spark."""
    from pyspark.sql import functions as f

    return frame.groupBy(*keys).agg(f.sum(_FREQUENCY).cast("bigint").alias(_FREQUENCY))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
