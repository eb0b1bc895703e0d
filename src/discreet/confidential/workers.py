"""Engines whose workers run Python: each part of a table is encoded where it is, by the library's own code.

Spark finds the cells of simple columns itself, where all of a table's are.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from discreet._core.lazy import nw, pl
from discreet.confidential.cells import MISFIT, Cells, coded_frame
from discreet.domain import Column, Integer, Numeric

# Columns as expressions of Spark that give the codes of their values, the very ones that encoding gives.
#
# These are only the simplest declarations: numbers whose cells division finds, whole numbers, truth values and labels.
# Everything else is encoded by the library's own code in Spark's Python workers. Handing a row to them takes Spark more
# time than counting it does.

_WHOLE, _REAL = ("tinyint", "smallint", "int", "bigint"), ("float", "double")
_LABELS = {bool: "boolean", str: "string"}
_MOST_LABELS = 64
_MOST_PRODUCT = 2**62


def code(column: Column, x: Any, kind: Any) -> Any | None:
    """Return the expression of the code of a value; None where none is sure to be the one that encoding gives."""
    writer = _WRITERS.get(column.kind)
    return None if writer is None else writer(column, x, kind.simpleString())


def _of_number(column: Numeric, x: Any, name: str) -> Any | None:
    from pyspark.sql import functions as f

    if not column._guesses or column.cells is None or name not in (*_WHOLE, *_REAL):
        return None
    v, width = x.cast("double"), (column.upper - column.lower) / column.cells
    cell = f.floor((v - f.lit(column.lower)) / f.lit(width))  # each as one float64 operation
    inside = f.least(cell, f.lit(column.cells - 1).cast("bigint"))
    missing = x.isNull() | f.isnan(x) if name in _REAL else x.isNull()
    return _bounded(column, v, (f.lit(column.lower), f.lit(column.upper)), inside, missing=missing)


def _of_integer(column: Integer, x: Any, name: str) -> Any | None:
    from pyspark.sql import functions as f

    if name not in _WHOLE:
        return None
    units = x.cast("bigint")
    index = units - f.lit(column._start).cast("bigint")
    points, groups = column._points, column._groups
    if groups is not None:
        cells = len(groups) - 1
        equal = groups.tolist() == [cell * points // cells for cell in range(cells + 1)]
        if not equal or points * cells >= _MOST_PRODUCT:
            return None
        scaled = (index + f.lit(1).cast("bigint")) * f.lit(cells).cast("bigint") - f.lit(1).cast("bigint")
        index = f.call_function("div", scaled, f.lit(points).cast("bigint"))
    bounds = f.lit(column._start).cast("bigint"), f.lit(column._stop).cast("bigint")
    return _bounded(column, units, bounds, index, missing=x.isNull())


def _bounded(column: Any, v: Any, bounds: tuple[Any, Any], inside: Any, *, missing: Any) -> Any:
    """Return the code of a value that may be null, or outside the bounds. NaN is larger than any number in Spark."""
    from pyspark.sql import functions as f

    low, high = bounds
    found = f.when(missing, _null(column)).when((v >= low) & (v <= high), inside)
    if column.out_of_bounds != "clip":
        return found.otherwise(f.lit(MISFIT).cast("bigint"))
    return found.when(v < low, f.lit(0).cast("bigint")).otherwise(f.lit(column.values - 1).cast("bigint"))


def _of_labels(column: Column, x: Any, name: str) -> Any | None:
    from pyspark.sql import functions as f

    labels = column.labels or ()
    # A collation other than that of bytes is a part of the name.
    if name != _LABELS.get(type(labels[0])) or len(labels) > _MOST_LABELS:
        return None
    found = f.when(x.isNull(), _null(column))
    for place, label in enumerate(labels):
        found = found.when(x == f.lit(label), f.lit(place).cast("bigint"))
    return found.otherwise(f.lit(MISFIT).cast("bigint"))


def _null(column: Column) -> Any:
    from pyspark.sql import functions as f

    return f.lit(int(column.null_code) if column.nullable else MISFIT).cast("bigint")


_WRITERS: dict[str, Callable[[Any, Any, str], Any | None]] = {
    "numeric": _of_number,
    "integer": _of_integer,
    "boolean": _of_labels,
    "category": _of_labels,
}
"""What writes the code of a value, by the kind of its column."""

_UNIT, _FREQUENCY, _NUMBER, _PLACE, _ORDER = "u", "f", "i", "place", "h"
_TOGETHER = 16  # counts of parts that are added up in one task
_ROWS = 2**18  # of Arrow batches that are counted at once

Read: TypeAlias = "Callable[[Any, list[str]], pl.DataFrame]"
"""Reads some columns of a part of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskCells(Cells):
    """A Dask table: its parts are counted where they are, and the counts of parts added up there."""

    frame: Any
    frequency: str
    read: Read

    def coded(self, name: str) -> bool:
        """Whether a column has cells."""
        return self.columns[name].finite

    def counts(self) -> pl.DataFrame:
        """Count part by part, and add up."""
        from dask import compute, delayed

        found = [delayed(_counted)(part, self.read, self.columns, self.frequency) for part in self._parts()]
        while len(found) > 1:
            groups = range(0, len(found), _TOGETHER)
            found = [delayed(_added)(found[start : start + _TOGETHER], self.frequency) for start in groups]
        frame: pl.DataFrame = compute(*found)[0]
        return frame

    def batches(self) -> Iterator[pl.DataFrame]:
        """Encode part by part."""
        from dask import delayed

        for part in self._parts():
            yield delayed(_counted)(part, self.read, self.columns, self.frequency).compute()

    def misfits(self) -> pl.DataFrame:
        """Look for a row in each part."""
        from dask import compute, delayed

        found = compute(*(delayed(_misfit)(part, self.read, self.columns) for part in self._parts()))
        frame: pl.DataFrame = next(frame for frame in found if frame.height)
        return frame

    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Bring the rows of each unit together, and cut them there."""
        from dask import compute, delayed

        if self.frame.dtypes[unit].kind == "f":
            return None
        rows = self.frame[list(dict.fromkeys([*self.columns, unit]))].to_delayed()
        split = [delayed(_split, nout=len(rows))(part, self.read, self.columns, unit, len(rows)) for part in rows]
        cut = [delayed(_cut)([part[place] for part in split], most, key) for place in range(len(rows))]
        found = compute(*cut)
        kept = _added([frame for frame, _, _ in found], _FREQUENCY)
        named = dict(zip(_numbered(self.columns), self.columns, strict=True))
        kept = kept.rename({**named, _FREQUENCY: self.frequency})
        return kept, sum(units for _, units, _ in found), sum(without for _, _, without in found)

    def _parts(self) -> list[Any]:
        parts: list[Any] = self.frame[list(self.columns)].to_delayed()
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCells(Cells):
    """A table of Spark: counted by expressions where every column has one, and else in Python workers.

    Workers count Arrow batches, and Spark adds up the counts.
    """

    frame: Any
    frequency: str

    def coded(self, name: str) -> bool:
        """Whether a column has cells."""
        return self.columns[name].finite

    def counts(self) -> pl.DataFrame:
        """Count in Spark, or batch by batch, and add up."""
        return self._named(pl.DataFrame(_summed(self._rows(), self._places).toArrow()))

    def batches(self) -> Iterator[pl.DataFrame]:
        """Fetch the counts of batches."""
        yield self._named(pl.DataFrame(self._mapped().toArrow()))

    def misfits(self) -> pl.DataFrame:
        """Fetch one row."""
        columns, rows = self.columns, self.frame.select(*map(_quoted, self.columns))

        def wrong(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                frame = pl.DataFrame(batch)
                keep = _misfit_rows(frame, columns)
                yield batch.filter(keep.to_arrow())

        return pl.DataFrame(rows.mapInArrow(wrong, rows.schema).limit(1).toArrow())

    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Put the rows of each unit in the order of their hash."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f
        from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

        if not isinstance(self.frame.schema[unit].dataType, (BooleanType, DateType, IntegralType, StringType)):
            return None
        who, places = f.col(_quoted(unit)), self._places
        without = self.frame.filter(who.isNull()).count()
        rows = _summed(self._rows(who.cast("string").alias(_UNIT)), [_UNIT, *places])
        held = rows.withColumn("held", f.sum(_FREQUENCY).over(Window.partitionBy(_UNIT)))
        each = held.withColumn(_NUMBER, f.explode(f.sequence(f.lit(1), f.col(_FREQUENCY))))
        values = [f.coalesce(f.hex(f.col(place).cast("string")), f.lit("null")) for place in places]
        told = f.concat_ws("|", f.lit(key), f.col(_UNIT), *values, f.col(_NUMBER).cast("string"))
        hashed = each.withColumn(_ORDER, f.when(f.col("held") > most, f.sha2(told, 256)))
        by = Window.partitionBy(_UNIT).orderBy(_ORDER, *places, _NUMBER)
        kept = hashed.withColumn(_PLACE, f.row_number().over(by)).filter(f.col(_PLACE) <= most)
        firsts = f.sum((f.col(_PLACE) == 1).cast("bigint")).alias("firsts")
        found = pl.DataFrame(kept.groupBy(*places).agg(f.count("*").alias(_FREQUENCY), firsts).toArrow())
        return self._named(found.drop("firsts")), int(found["firsts"].sum()), int(without)

    @property
    def _places(self) -> list[str]:
        return _numbered(self.columns)

    def _rows(self, *others: Any) -> Any:
        """Return codes and frequencies, by the other columns too, which are texts."""
        from pyspark.sql import functions as f

        codes: list[Any] = []
        for name, column in self.columns.items():
            found = code(column, f.col(_quoted(name)), self.frame.schema[name].dataType)
            if found is None:
                return self._mapped(*others)
            codes.append(found.alias(f"c{len(codes)}"))
        return self.frame.select(*others, *codes, f.lit(1).cast("bigint").alias(_FREQUENCY))

    def _mapped(self, *others: Any) -> Any:
        """Return the codes and frequencies of batches, by the other columns too, which are texts."""
        from pyspark.sql import functions

        columns, places = self.columns, self._places
        kinds = [
            "bigint" if column.finite else "string" if column._code_type is object else "double"
            for column in columns.values()
        ]
        named = [functions.col(_quoted(name)).alias(place) for name, place in zip(columns, places, strict=True)]
        rows = self.frame.select(*others, *named)  # a column may be called what another one is here
        by = rows.columns[: len(others)]

        def counted(batches: Iterator[Any]) -> Iterator[Any]:
            for frame in _joined(batches):
                values = pl.DataFrame([frame[place].alias(name) for name, place in zip(columns, places, strict=True)])
                coded = coded_frame(values, columns).rename(dict(zip(columns, places, strict=True)))
                found = _grouped(coded.with_columns(frame[name] for name in by), _FREQUENCY)
                named = found.select(*by, *places, _FREQUENCY)
                yield from named.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()

        schema = [*(f"{name} string" for name in by), *(map(" ".join, zip(places, kinds, strict=True)))]
        return rows.mapInArrow(counted, ", ".join([*schema, f"{_FREQUENCY} bigint"]))

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.rename({**dict(zip(self._places, self.columns, strict=True)), _FREQUENCY: self.frequency})


def none_of_spark(frame: Any, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return some columns of a table of Spark without its rows, whatever their names."""
    return pl.DataFrame(frame.select(*map(_quoted, columns)).limit(0).toArrow())


def _joined(batches: Iterator[Any]) -> Iterator[pl.DataFrame]:
    """Join batches: Spark makes them of 10,000 rows, and counting a batch costs as much as counting many rows."""
    held: list[pl.DataFrame] = []
    for batch in batches:
        held.append(pl.DataFrame(batch))
        if sum(frame.height for frame in held) >= _ROWS:
            yield pl.concat(held)
            held = []
    if held:
        yield pl.concat(held)


def _summed(frame: Any, by: list[str]) -> Any:
    """Add up the frequencies of equal rows in Spark."""
    from pyspark.sql import functions

    return frame.groupBy(*by).agg(functions.sum(_FREQUENCY).cast("bigint").alias(_FREQUENCY))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _numbered(columns: Mapping[str, Column]) -> list[str]:
    """Return names of columns of codes that no other column has, whatever the declared names are."""
    return [f"c{place}" for place in range(len(columns))]


def _counted(part: Any, read: Read, columns: Mapping[str, Column], frequency: str) -> pl.DataFrame:
    return _grouped(coded_frame(read(nw.from_native(part, eager_only=True), list(columns)), columns), frequency)


def _added(parts: list[pl.DataFrame], frequency: str) -> pl.DataFrame:
    return pl.concat(parts).group_by(pl.exclude(frequency)).agg(pl.col(frequency).sum())


def _grouped(frame: pl.DataFrame, frequency: str) -> pl.DataFrame:
    return frame.group_by(pl.all()).agg(pl.len().cast(pl.Int64).alias(frequency))


def _split(part: Any, read: Read, columns: Mapping[str, Column], unit: str, ways: int) -> list[pl.DataFrame]:
    """Divide the codes of a part by their unit, in a way that does not depend on the part."""
    frame = read(nw.from_native(part, eager_only=True), list(dict.fromkeys([*columns, unit])))
    if not (frame[unit].dtype.is_integer() or frame[unit].dtype in (pl.String, pl.Null, pl.Date, pl.Boolean)):
        raise TypeError
    who = frame[unit].cast(pl.String).alias(_UNIT)
    coded = coded_frame(frame, columns).rename(dict(zip(columns, _numbered(columns), strict=True)))
    rows = _grouped(coded.with_columns(who), _FREQUENCY)
    places = [0 if text is None else zlib.crc32(text.encode()) % ways for text in rows[_UNIT]]
    return [rows.filter(pl.Series(places, dtype=pl.Int64) == place) for place in range(ways)]


def _cut(parts: list[pl.DataFrame], most: int, key: str) -> tuple[pl.DataFrame, int, int]:
    """Keep the rows of each unit that come first in the order of their hash.

    Returns: distinct rows that stay, and their frequencies; the number of units; the number of rows without one.
    """
    rows = _added(parts, _FREQUENCY)
    missing, rows = rows.filter(pl.col(_UNIT).is_null()), rows.filter(pl.col(_UNIT).is_not_null())
    held = pl.col(_FREQUENCY).sum().over(_UNIT)
    each = (
        rows.filter(held > most).with_columns(pl.int_ranges(1, pl.col(_FREQUENCY) + 1).alias(_NUMBER)).explode(_NUMBER)
    )
    codes = pl.exclude(_UNIT, _FREQUENCY, _NUMBER)
    told = each.select(pl.col(_UNIT), pl.struct(codes).struct.json_encode(), pl.col(_NUMBER)).rows()
    order = [hashlib.sha256(f"{key}|{unit}|{number}|{code}".encode()).digest() for unit, code, number in told]
    hashed = each.with_columns(pl.Series(_ORDER, order, dtype=pl.Binary), pl.lit(1, dtype=pl.Int64).alias(_FREQUENCY))
    first = hashed.sort(_ORDER).filter(pl.int_range(pl.len()).over(_UNIT) < most)
    kept = pl.concat([rows.filter(held <= most), first.select(rows.columns)]).drop(_UNIT)
    return _added([kept], _FREQUENCY), rows[_UNIT].n_unique(), int(missing[_FREQUENCY].sum())


def _misfit(part: Any, read: Read, columns: Mapping[str, Column]) -> pl.DataFrame:
    frame = read(nw.from_native(part, eager_only=True), list(columns))
    return frame.filter(_misfit_rows(frame, columns)).head(1)


def _misfit_rows(frame: pl.DataFrame, columns: Mapping[str, Column]) -> pl.Series:
    finite = {name: column for name, column in columns.items() if column.finite}
    return coded_frame(frame, finite).select(pl.any_horizontal(pl.all() == MISFIT)).to_series()
