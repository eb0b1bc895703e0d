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

from discreet._core.formats import polars_type, pyarrow
from discreet._core.lazy import nw, pd, pl
from discreet.domain import Column, Domain

Returned: TypeAlias = "Callable[[pl.DataFrame, Domain], Any]"
"""Makes a released Polars frame on a domain a table of the kind that came in."""

_PART = 2**19
_DIGITS = 38


def quoted(name: str, sign: str = '"') -> str:
    """Return a name as SQL has it, or a text where the sign is an apostrophe."""
    return sign + name.replace(sign, 2 * sign) + sign


def as_polars(types: Mapping[str, pl.DataType], *, lazy: bool = False) -> Returned:
    """Return what gives Polars frames with the types of the table that came in."""
    families = _without_labels(types)

    def table(frame: pl.DataFrame, domain: Domain) -> Any:
        typed = _with_types(frame, domain, families)
        return typed.lazy() if lazy else typed

    return table


def as_arrow(schema: Any = ()) -> Returned:
    """Return what gives PyArrow tables like one of a schema, which is empty where its library is not known here."""
    types = {field.name: field.type for field in schema}
    families = _without_labels({name: polars_type(kind) for name, kind in types.items()})
    return lambda frame, domain: _as_arrow_table(_with_types(frame, domain, families), domain, types)


def as_frames_of(frame: Any, kind: str) -> Returned:
    """Return what gives tables like one that narwhals knows, of a library; of its rows nothing is kept."""
    native = frame.to_native()
    if kind == "polars":
        return as_polars(dict(native.collect_schema()), lazy=isinstance(frame, nw.LazyFrame))
    if kind in ("pandas", "modin", "dask"):
        return _as_pandas(dict(native.dtypes), kind)
    if kind == "duckdb":
        return _as_duckdb(native.limit(0))
    if kind == "ibis":
        import ibis

        arrow_table = as_arrow(native.schema().to_pyarrow())  # an ibis.memtable belongs to whatever it is used with
        return lambda frame, domain: ibis.memtable(arrow_table(frame, domain))
    if kind == "pyspark":
        return _as_spark(native.sparkSession, native.schema)
    return as_arrow(native.schema if kind == "pyarrow" else ())


# -- types of Polars, as which all others are told ---------------------------------------------------------------------


def _without_labels(types: Mapping[str, pl.DataType]) -> dict[str, Any]:
    return {name: dtype.base_type() if dtype in (pl.Enum, pl.Categorical) else dtype for name, dtype in types.items()}


def _with_types(frame: pl.DataFrame, domain: Domain, types: Mapping[str, Any]) -> pl.DataFrame:
    """Return a released frame with the types of a table, where the declaration allows them."""
    names = [name for name in frame.columns if name in types and name in domain.columns]
    casts = {name: _type(domain.columns[name], types[name], frame.schema[name]) for name in names}
    return frame.with_columns(pl.col(name).cast(dtype) for name, dtype in casts.items())


def _narrow_integers() -> tuple[Any, ...]:
    return (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


def _type(column: Column, original: Any, released: Any) -> Any:
    extremes = column.extremes  # none where values beyond are moved, of which a width would tell
    if released == pl.Int64 and original in _narrow_integers() and extremes is not None:
        limits = np.iinfo(str(original).lower())
        if extremes[0] >= limits.min and extremes[1] <= limits.max:
            return original
    if released == pl.String and original == pl.Enum and (labels := _labels_of(column)) is not None:
        return pl.Enum(labels)
    if released == pl.String and original in (pl.Enum, pl.Categorical):
        return pl.Categorical()
    if released == pl.Time and original == pl.Null:  # Spark has none
        return pl.String
    if isinstance(released, pl.Decimal) and isinstance(original, pl.Decimal):
        # Libraries that infer a type from values take as many digits as they meet before the point, or all. They are
        # never fewer than the bounds need.
        digits = _DIGITS
        if original.precision not in (None, _DIGITS) and extremes is not None:
            needed = max(*(len(str(abs(value))) for value in extremes), released.scale + 1)
            digits = min(max(original.precision - original.scale + released.scale, needed), _DIGITS)
        return pl.Decimal(digits, released.scale)
    return released


# -- PyArrow -----------------------------------------------------------------------------------------------------------


def _as_arrow_table(frame: pl.DataFrame, domain: Domain, types: Mapping[str, Any]) -> Any:
    pa = pyarrow("a table of PyArrow")
    coded = [name for name, dtype in frame.schema.items() if dtype in (pl.Categorical, pl.Enum)]
    labels = {name: _labels_of(domain.columns.get(name)) for name in coded}
    # Declared labels are numbered as they are declared, not as the process met them.
    plain = frame.cast({name: pl.String() if names is None else pl.Enum(names) for name, names in labels.items()})
    table = plain.to_arrow(compat_level=pl.CompatLevel.oldest())
    fields = [
        pa.field(field.name, _arrow_type(field.type, types.get(field.name), _labels_of(domain.columns.get(field.name))))
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _labels_of(column: Column | None) -> list[Any] | None:
    """Return the declared labels of a column; None where it declares none."""
    if column is None or column.kind not in ("category", "boolean"):
        return None
    return list(column.labels or ())


def _arrow_type(released: Any, original: Any, labels: list[Any] | None) -> Any:
    """Return the Arrow type of a released column, from Polars' choice and the type that came in (None: no such one)."""
    pa = pyarrow("a table of PyArrow")
    coded, texts = pa.types.is_dictionary(released), pa.types.is_large_string(released)
    long = [getattr(pa, name)() for name in ("large_string", "string_view") if hasattr(pa, name)]
    if original is not None and pa.types.is_dictionary(original) and (coded or texts):
        text = original.value_type if original.value_type in long else pa.string()
        return pa.dictionary(_index_type(original.index_type, labels), text, ordered=original.ordered)
    if coded:
        return pa.dictionary(_index_type(released.index_type, labels), pa.string())
    if texts:
        return original if original in long else pa.string()
    return pa.time64("us") if pa.types.is_time(released) else released


def _index_type(original: Any, labels: list[Any] | None) -> Any:
    """Return the type of the numbers of labels: wide enough for all declared ones, whichever occur."""
    pa = pyarrow("a table of PyArrow")
    if labels is None:
        return pa.int32()
    kinds = [kind for kind in (pa.int8(), pa.int16(), pa.int32()) if len(labels) <= 2 ** (kind.bit_width - 1)]
    return next((kind for kind in kinds if kind.bit_width >= original.bit_width), original)


# -- pandas, and what is made of its tables ----------------------------------------------------------------------------


def _as_pandas(types: Mapping[Any, Any], kind: str) -> Returned:
    originals, families = {str(name): dtype for name, dtype in types.items()}, {}
    narrow = {str(dtype).lower(): dtype for dtype in _narrow_integers()}
    for name, dtype in originals.items():
        if isinstance(dtype, pd.CategoricalDtype):
            originals[name] = pd.CategoricalDtype(None, ordered=dtype.ordered)
        elif hasattr(dtype, "pyarrow_dtype"):
            families[name] = polars_type(dtype.pyarrow_dtype)
        elif str(dtype).lower() in narrow:
            families[name] = narrow[str(dtype).lower()]

    def table(frame: pl.DataFrame, domain: Domain) -> Any:
        columns = {}
        for name, values in _with_types(frame, domain, families).to_dict().items():
            columns[name] = _pandas_column(values, domain.columns.get(name), originals.get(name))
        if kind == "modin":
            import modin.pandas

            return modin.pandas.DataFrame(pd.DataFrame(columns))
        released = pd.DataFrame(columns)
        if kind == "dask":
            import dask.dataframe

            return dask.dataframe.from_pandas(released, chunksize=_PART)
        return released

    return table


def _pandas_column(values: pl.Series, column: Any, original: Any) -> Any:
    if column is None or original is None:
        return values.to_pandas()
    of_arrow = getattr(original, "pyarrow_dtype", None)
    table = _as_arrow_table(values.to_frame("x"), Domain(columns={"x": column}), {"x": of_arrow})
    if of_arrow is not None:
        return table.to_pandas(types_mapper=pd.ArrowDtype)["x"]
    if values.dtype == pl.Date and original != np.object_:
        return table.to_pandas(date_as_object=False)["x"].astype("datetime64[us]")
    target = _pandas_type(values.dtype, column, original)
    series = table.to_pandas(types_mapper=lambda _: target)["x"]
    if isinstance(original, pd.CategoricalDtype):
        return series.astype(pd.CategoricalDtype(_labels_of(column), ordered=original.ordered))
    return series


def _pandas_type(released: pl.DataType, column: Column, original: Any) -> Any:
    """Return the pandas type of a released column; None where NumPy's will do."""
    masked = getattr(original, "na_value", None) is pd.NA
    if released == pl.String:
        if isinstance(original, pd.StringDtype):
            return original
        return pd.StringDtype() if masked else None
    numeric = released.is_integer() or released.is_float() or released == pl.Boolean
    if numeric and (masked or (column.nullable and not released.is_float())):
        return pd.api.types.pandas_dtype(str(released).replace("Boolean", "boolean"))
    return None


# -- engines -----------------------------------------------------------------------------------------------------------


def _as_duckdb(nothing: Any) -> Returned:
    """Return what gives relations of the same connection as one without its rows."""
    families = _without_labels(nw.from_native(nothing).collect().to_polars().schema)

    def table(frame: pl.DataFrame, domain: Domain) -> Any:
        import duckdb

        typed, parts = _with_types(frame, domain, families), []
        for name, dtype in typed.schema.items():  # labels of an enumeration arrive as texts
            part, labels = quoted(name), _labels_of(domain.columns.get(name))
            if labels is not None and dtype in (pl.Enum, pl.Categorical) and not any("\0" in label for label in labels):
                texts_of_labels = ", ".join([quoted(label, "'") for label in labels])
                part = f"CAST({part} AS ENUM({texts_of_labels})) AS {part}"
            parts.append(part)
        texts = typed.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
        discreet_released_table = _as_arrow_table(texts, domain, {})
        view = "discreet: released"
        try:
            # DuckDB finds the variable by its name. The name of a view is all that this leaves, and it is taken back.
            return nothing.query(view, f"SELECT {', '.join(parts)} FROM discreet_released_table")  # noqa: S608
        except duckdb.Error:  # the connection sees no variables
            return duckdb.from_arrow(discreet_released_table).project(", ".join(parts))
        finally:
            nothing.query(view, f"DROP VIEW IF EXISTS {quoted(view)}")

    return table


def _as_spark(session: Any, schema: Any) -> Returned:
    widths = {"byte": pl.Int8, "short": pl.Int16, "integer": pl.Int32}
    types: dict[str, Any] = {}
    for field in schema:
        kind = field.dataType
        types[field.name] = widths.get(kind.typeName(), pl.Null)
        if kind.typeName() == "decimal":
            types[field.name] = pl.Decimal(kind.precision, kind.scale)
    return lambda frame, domain: session.createDataFrame(_as_arrow_table(_with_types(frame, domain, types), domain, {}))
