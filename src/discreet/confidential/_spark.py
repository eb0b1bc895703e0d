"""Columns as expressions of Spark that give the codes of their values, the very ones that encoding gives.

These are only the simplest declarations: numbers whose cells division finds, whole numbers, truth values and labels.
Everything else is encoded by the library's own code in Spark's Python workers. Handing a row to them takes Spark more
time than counting it does.
"""

from __future__ import annotations

from typing import Any

from discreet.confidential._cells import MISFIT
from discreet.domain import Boolean, Category, Integer, Numeric
from discreet.domain._column import Column

_WHOLE, _REAL, _TRUTH = ("tinyint", "smallint", "int", "bigint"), ("float", "double"), "boolean"
_MOST_LABELS = 64
_MOST_PRODUCT = 2**62


def code(column: Column, x: Any, kind: Any) -> Any | None:
    """Return the expression of the code of a value; None where none is sure to be the one that encoding gives.

    ``x``: the expression of the value.
    ``kind``: its type in Spark.
    """
    name = kind.simpleString()
    if isinstance(column, Numeric):
        return _of_number(column, x, name)
    if isinstance(column, Integer):
        return _of_integer(column, x, name)
    if isinstance(column, Boolean):
        return _of_labels(column, x, [False, True]) if name == _TRUTH else None
    # A collation other than that of bytes is a part of the name.
    if isinstance(column, Category) and column._of is str and name == "string" and column.values <= _MOST_LABELS:
        return _of_labels(column, x, list(column.categories))
    return None


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


def _of_labels(column: Column, x: Any, labels: list[Any]) -> Any:
    from pyspark.sql import functions as f

    found = f.when(x.isNull(), _null(column))
    for place, label in enumerate(labels):
        found = found.when(x == f.lit(label), f.lit(place).cast("bigint"))
    return found.otherwise(f.lit(MISFIT).cast("bigint"))


def _null(column: Column) -> Any:
    from pyspark.sql import functions as f

    return f.lit(int(column.null_code) if column.nullable else MISFIT).cast("bigint")
