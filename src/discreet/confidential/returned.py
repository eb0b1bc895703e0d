"""A released table as the kind of table that came in: of its library, and with its types where the domain allows them.

A schema that was handed in is public, as names of columns are. What a library infers from values is not: whether a
column of pandas is of integers or of floats tells whether it has a null, the width of an integer how large one is, and
the categories of a pandas column are the labels that occur. So three rules hold. Of a type only its family, a narrower
width, and the digits of a decimal are taken over, the latter two where no value can lie outside the declared bounds.
Wherever readers infer a type, the declared one decides. Labels are the declared ones, and never those of a type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from discreet._core import arrow
from discreet._core.lazy import nw, pl
from discreet.confidential.duckdb_rows import quoted, sql_text
from discreet.domain import Column, Domain

Returned: TypeAlias = "Callable[[pl.DataFrame, Domain], Any]"
"""Makes a released Polars frame on a domain a table of the kind that came in."""

_PART = 2**19
_DIGITS = 38


def as_polars(types: Mapping[str, pl.DataType], *, lazy: bool = False) -> Returned:
    """Return what gives Polars frames with some types.

    ``types``: those of the table that came in.
    """
    known = _families(types)

    def made(frame: pl.DataFrame, domain: Domain) -> Any:
        typed = _typed(frame, domain, known)
        return typed.lazy() if lazy else typed

    return made


def as_frames_of(frame: Any, kind: str) -> Returned:
    """Return what gives tables like one that narwhals knows.

    ``frame``: as narwhals has it. Of one in memory, no more than its types is kept.
    ``kind``: its library.
    """
    native = frame.to_native()
    makers: dict[str, Callable[[], Returned]] = {
        "polars": lambda: as_polars(dict(native.collect_schema()), lazy=isinstance(frame, nw.LazyFrame)),
        "pandas": lambda: _as_pandas(dict(native.dtypes), lambda table: table),
        "modin": lambda: _as_pandas(dict(native.dtypes), _modin),
        "dask": lambda: _as_pandas(dict(native.dtypes), _dask),
        "duckdb": lambda: _as_duckdb(native.limit(0)),
        "ibis": lambda: _as_ibis(native.schema().to_pyarrow()),
        "pyspark": lambda: _as_spark(native.sparkSession, native.schema),
        "pyarrow": lambda: as_arrow(native.schema),
    }
    return makers.get(kind, as_arrow)()


def as_arrow(schema: Any = None) -> Returned:
    """Return what gives PyArrow tables.

    ``schema``: of the table that came in; None where its library is not known here.
    """
    types = {} if schema is None else {field.name: field.type for field in schema}
    known = _families({name: arrow.polars_type(type_) for name, type_ in types.items()})

    def made(frame: pl.DataFrame, domain: Domain) -> Any:
        return _arrow_table(_typed(frame, domain, known), domain, types)

    return made


# -- types of Polars, as which all others are told ---------------------------------------------------------------------


def _families(types: Mapping[str, pl.DataType]) -> dict[str, Any]:
    """Return types without the labels that they hold."""
    return {name: dtype.base_type() if dtype in (pl.Enum, pl.Categorical) else dtype for name, dtype in types.items()}


def _typed(frame: pl.DataFrame, domain: Domain, types: Mapping[str, Any]) -> pl.DataFrame:
    """Return a released frame with the types of a table, where the declaration allows them."""
    casts = []
    for name, dtype in frame.schema.items():
        column = domain.columns.get(name)
        if column is not None and name in types:
            casts.append(pl.col(name).cast(_type(column, types[name], dtype)))
    return frame.with_columns(casts)


def _type(column: Column, original: Any, released: pl.DataType) -> Any:
    if released == pl.Int64 and original in _narrow() and _holds(original, column):
        return original
    if released == pl.String and original == pl.Enum and column.labels is not None:
        return pl.Enum(column.labels)
    if released == pl.String and original in (pl.Enum, pl.Categorical):
        return pl.Categorical()
    if isinstance(released, pl.Decimal) and isinstance(original, pl.Decimal):
        return pl.Decimal(_precision(column, original, released.scale), released.scale)
    return released


def _narrow() -> tuple[Any, ...]:
    return (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


def _holds(original: Any, column: Column) -> bool:
    """Whether a type of integers holds every declared value, and says nothing of one that was clipped."""
    if column.extremes is None:
        return False
    (low, high), limits = column.extremes, np.iinfo(str(original).lower())
    return bool(low >= limits.min and high <= limits.max)


def _precision(column: Column, original: Any, digits: int) -> int:
    """Return how many digits a type has: those before the point of the original one, and the declared ones after it.

    Libraries that infer a type from values take as many digits as they meet, or all. The first are never more than the
    bounds need, unless a value may lie outside of them: what is clipped would still be told by its digits.
    """
    if original.precision in (None, _DIGITS) or column.extremes is None:
        return _DIGITS
    needed = max(*(len(str(abs(value))) for value in column.extremes), digits + 1)
    return int(min(max(original.precision - original.scale + digits, needed), _DIGITS))


# -- PyArrow -----------------------------------------------------------------------------------------------------------


def _arrow_table(frame: pl.DataFrame, domain: Domain, types: Mapping[str, Any]) -> Any:
    pa = arrow.pyarrow("a table of PyArrow")
    labels = [name for name, dtype in frame.schema.items() if dtype in (pl.Categorical, pl.Enum)]
    declared = {name: _labels(domain.columns.get(name)) for name in labels}
    # Declared labels are numbered as they are declared, not as the process met them.
    plain = frame.cast({name: pl.String() if known is None else pl.Enum(known) for name, known in declared.items()})
    table = plain.to_arrow(compat_level=pl.CompatLevel.oldest())
    fields = [
        pa.field(field.name, _arrow_type(field.type, types.get(field.name), domain.columns.get(field.name)))
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _labels(column: Column | None) -> list[Any] | None:
    """Return the declared labels of a column; None where it declares none."""
    return None if column is None or column.labels is None else list(column.labels)


def _arrow_type(released: Any, original: Any, column: Column | None) -> Any:
    """Return the Arrow type of a released column.

    ``released``: what Polars makes of it.
    ``original``: that of the table that came in, if it had the column.
    """
    pa = arrow.pyarrow("a table of PyArrow")
    kinds = pa.types
    labels = original is not None and kinds.is_dictionary(original)
    if labels and (kinds.is_dictionary(released) or kinds.is_large_string(released)):
        return pa.dictionary(_index(original.index_type, column), _text(original.value_type), ordered=original.ordered)
    if kinds.is_dictionary(released):
        return pa.dictionary(_index(released.index_type, column), pa.string())
    return _text(original) if kinds.is_large_string(released) else released


def _text(original: Any) -> Any:
    pa = arrow.pyarrow("a table of PyArrow")
    texts = (pa.large_string(), pa.string_view()) if hasattr(pa, "string_view") else (pa.large_string(),)
    return original if original in texts else pa.string()


def _index(original: Any, column: Column | None) -> Any:
    """Return the type of the numbers of labels: wide enough for all declared ones, whichever occur."""
    pa = arrow.pyarrow("a table of PyArrow")
    labels = _labels(column)
    if labels is None:
        return pa.int32()
    kinds = [kind for kind in (pa.int8(), pa.int16(), pa.int32()) if len(labels) <= 2 ** (kind.bit_width - 1)]
    return next((kind for kind in kinds if kind.bit_width >= original.bit_width), original)


# -- pandas, and what is made of its tables ----------------------------------------------------------------------------


def _as_pandas(types: Mapping[Any, Any], wrap: Callable[[Any], Any]) -> Returned:
    import pandas as pd

    kept = {
        str(name): pd.CategoricalDtype(None, ordered=dtype.ordered) if isinstance(dtype, pd.CategoricalDtype) else dtype
        for name, dtype in types.items()
    }

    return lambda frame, domain: wrap(_pandas(frame, domain, kept))


def _modin(table: Any) -> Any:
    import modin.pandas

    return modin.pandas.DataFrame(table)


def _dask(table: Any) -> Any:
    import dask.dataframe

    return dask.dataframe.from_pandas(table, chunksize=_PART)


def _pandas(frame: pl.DataFrame, domain: Domain, types: Mapping[str, Any]) -> Any:
    import pandas as pd

    typed = _typed(frame, domain, {name: kind for name, dtype in types.items() if (kind := _of_pandas(dtype))})
    columns = {}
    for values in typed.iter_columns():
        column, dtype = domain.columns.get(values.name), types.get(values.name)
        known = column is not None and dtype is not None
        columns[values.name] = _pandas_column(values, column, dtype) if known else values.to_pandas()
    return pd.DataFrame(columns)


def _of_pandas(dtype: Any) -> Any:
    """Return the Polars type of one of Arrow's, or of a narrow integer; None of another one."""
    if hasattr(dtype, "pyarrow_dtype"):
        return arrow.polars_type(dtype.pyarrow_dtype)
    return next((kind for kind in _narrow() if str(kind).lower() == str(dtype).lower()), None)


def _pandas_column(values: pl.Series, column: Any, original: Any) -> Any:
    import pandas as pd

    of_arrow = getattr(original, "pyarrow_dtype", None)
    table = _arrow_table(values.to_frame("x"), Domain(columns={"x": column}), {"x": of_arrow})
    if of_arrow is not None:
        return table.to_pandas(types_mapper=pd.ArrowDtype)["x"]
    if values.dtype == pl.Date and original != np.object_:
        return table.to_pandas(date_as_object=False)["x"].astype("datetime64[us]")
    target = _pandas_type(values.dtype, column, original)
    found = table.to_pandas(types_mapper=lambda _: target)["x"]
    if isinstance(original, pd.CategoricalDtype):
        return found.astype(pd.CategoricalDtype(_labels(column), ordered=original.ordered))
    return found


def _pandas_type(released: pl.DataType, column: Column, original: Any) -> Any:
    """Return the pandas type of a released column; None where NumPy's will do."""
    import pandas as pd

    masked = getattr(original, "na_value", None) is pd.NA
    if released == pl.String:
        return original if isinstance(original, pd.StringDtype) else pd.StringDtype() if masked else None
    if released != pl.Boolean and not (released.is_integer() or released.is_float()):
        return None
    if masked or (column.nullable and not released.is_float()):
        return pd.api.types.pandas_dtype("boolean" if released == pl.Boolean else str(released))
    return None


# -- engines -----------------------------------------------------------------------------------------------------------


def _as_duckdb(nothing: Any) -> Returned:
    """Return what gives relations of the same connection.

    ``nothing``: the relation that came in, without its rows.
    """
    types = _families(nw.from_native(nothing).collect().to_polars().schema)

    def made(frame: pl.DataFrame, domain: Domain) -> Any:
        import duckdb

        typed = _typed(frame, domain, types)
        parts = [_duckdb_column(name, dtype, domain.columns.get(name)) for name, dtype in typed.schema.items()]
        discreet_released_table = _arrow_table(
            typed.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String)), domain, {}
        )
        view = "discreet: released"
        try:
            # DuckDB finds the variable by its name. The name of a view is all that this leaves, and it is taken back.
            return nothing.query(view, f"SELECT {', '.join(parts)} FROM discreet_released_table")  # noqa: S608
        except duckdb.Error:  # the connection sees no variables
            return duckdb.from_arrow(discreet_released_table).project(", ".join(parts))
        finally:
            nothing.query(view, f"DROP VIEW IF EXISTS {quoted(view)}")

    return made


def _duckdb_column(name: str, dtype: pl.DataType, column: Column | None) -> str:
    """Return the expression of a column; labels of an enumeration arrive as texts."""
    labels = _labels(column)
    if labels is None or dtype not in (pl.Enum, pl.Categorical) or any("\0" in label for label in labels):
        return quoted(name)
    return f"CAST({quoted(name)} AS ENUM({', '.join(map(sql_text, labels))})) AS {quoted(name)}"


def _as_ibis(schema: Any) -> Returned:
    table = as_arrow(schema)

    def made(frame: pl.DataFrame, domain: Domain) -> Any:
        import ibis

        return ibis.memtable(table(frame, domain))  # which belongs to whichever connection it is used with

    return made


def _as_spark(session: Any, schema: Any) -> Returned:
    widths = {"byte": pl.Int8, "short": pl.Int16, "integer": pl.Int32}
    types: dict[str, Any] = {
        field.name: pl.Decimal(kind.precision, kind.scale)
        if (kind := field.dataType).typeName() == "decimal"
        else widths.get(kind.typeName(), pl.Null)
        for field in schema
    }

    def made(frame: pl.DataFrame, domain: Domain) -> Any:
        return session.createDataFrame(_arrow_table(_typed(frame, domain, types), domain, {}))

    return made
