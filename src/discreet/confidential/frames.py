"""A dataframe of any library as the source of a table: in memory, in an engine, or a stream of Arrow batches.

Tables of DuckDB are streamed, and the rows of each privacy unit are cut where they are.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from discreet._core import arrow
from discreet._core.boundary import quietly
from discreet._core.errors import DataError, DiscreetError, ParameterError
from discreet._core.formats import stored_index
from discreet._core.lazy import nw, pl
from discreet.confidential.closed import Confidential
from discreet.confidential.returned import as_arrow, as_frames_of, quoted, sql_text
from discreet.confidential.source import BATCH, FREQUENCY, Source, read_rows, require_once, scan_batches, type_name
from discreet.confidential.workers import EngineCells, engine_cells


def open_frame(data: Any) -> Source:
    """Look at the names and types of a dataframe, a PyArrow data set or a stream. Raises DataError when it is none."""
    unsupported = DataError(
        None,
        f"the type {type(data).__name__} is not a supported table",
        "pass a pandas, Polars, PyArrow, DuckDB, Dask, PySpark or Ibis frame, or a path to a file of a table",
    )
    pandas = type(data).__module__.partition(".")[0] == "pandas"
    names = quietly(lambda: [str(name) for name in getattr(data, "column_names", ())], unsupported)
    if not names and pandas and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        data = data if names == list(data.columns) else data.set_axis(names, axis=1)  # a file without a header has 0, 1
    require_once(names, "frame")
    if pandas and importlib.util.find_spec("pyarrow") is None:
        raise ParameterError("reading a pandas table needs PyArrow. Install it: pip install pyarrow")
    frame = quietly(lambda: nw.from_native(data, pass_through=True), unsupported)
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return source_of(frame, unsupported)
    kinds = sys.modules.get("pyarrow.dataset")
    if kinds is not None and isinstance(data, kinds.Dataset):
        return _of_batches(data.schema, lambda columns: iter(data.scanner(columns=list(columns)).to_batches()))
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, Confidential):
        return _of_stream(data, unsupported)
    raise unsupported


def source_of(frame: Any, unsupported: DiscreetError) -> Source:
    """Return the source of a frame that narwhals knows."""
    schema = quietly(frame.collect_schema, unsupported)
    kind = frame.implementation.name.lower()
    broken = DataError(None, "could not be read", f"check that {kind} can read it, and the types of its columns")
    index: frozenset[str] = frozenset()
    if kind == "pyarrow":
        metadata = arrow.told(frame.to_native().schema).get("pandas")
        index = quietly(lambda: stored_index(schema.names(), metadata), broken)
    types = {name: type_name(dtype) for name, dtype in schema.items() if name not in index}
    if kind == "pandas":
        index = frozenset(frame.to_native().index.names) - {None} - set(types)
    cells: Callable[[Mapping[str, Any]], EngineCells] | None = None
    if kind in ("dask", "pyspark"):
        cells = partial(engine_cells, frame, kind)
    slots: Callable[..., tuple[pl.DataFrame, int, int] | None] | None = None
    if kind in ("duckdb", "ibis"):
        slots = partial(_duckdb_slots, frame, broken)
    return Source(
        kind=kind,
        names=tuple(types),
        types=lambda: types,
        batches=partial(_batches, frame, kind, broken),
        index=index,
        cells=cells,
        slots=slots,
        stays=isinstance(frame, nw.LazyFrame),
        returned=quietly(lambda: as_frames_of(frame, kind), broken),
    )


def _batches(frame: Any, kind: str, broken: DiscreetError, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Read a frame, where it is in memory or in an engine: texts as they are, else grouped where that is possible."""
    if isinstance(frame, nw.DataFrame):
        return _sliced(frame, columns)
    if kind == "polars":
        return scan_batches(frame.to_native(), columns, broken)
    if (relation := _duckdb_relation(frame, broken)) is not None:
        return _streamed(lambda: iter(_record_batches(relation, columns)), broken)
    schema = quietly(frame.collect_schema, broken)
    if kind == "ibis" and any(type_name(schema[name]) in ("string", "unknown") for name in columns):
        # the collation of a database could take different texts for equal ones
        native = frame.select(*columns).to_native()
        return _streamed(lambda: iter(native.to_pyarrow_batches(chunk_size=BATCH)), broken)
    return _grouped(frame, columns, broken)


def _sliced(frame: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Take an in-memory frame in slices."""
    for start in range(0, len(frame), BATCH):
        yield read_rows(frame[start : start + BATCH], columns)


def _grouped(frame: Any, columns: Sequence[str], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Count distinct rows where the table is; only these and their frequencies come back."""
    counted = frame.group_by(*columns).agg(nw.len().alias(FREQUENCY))
    yield quietly(lambda: counted.collect().to_polars(), broken)


def _streamed(reader: Callable[[], Iterator[Any]], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Read record batches one by one."""
    batches = quietly(reader, broken)
    while (batch := quietly(partial(next, batches, None), broken)) is not None:
        yield quietly(partial(pl.DataFrame, batch), broken)


# -- streams of Arrow batches ------------------------------------------------------------------------------------------


def _of_stream(data: Any, unsupported: DataError) -> Source:
    """Return the source of what gives a stream of Arrow batches: perhaps once only."""
    reader_type = arrow.pyarrow("reading a stream of Arrow batches").RecordBatchReader

    def reader() -> Any:
        return data if isinstance(data, reader_type) else reader_type.from_stream(data)

    unread = [quietly(reader, unsupported)]

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        return (batch.select(list(columns)) for batch in (unread.pop() if unread else reader()))

    return _of_batches(unread[0].schema, batches)


def _of_batches(schema: Any, batches: arrow.Batches) -> Source:
    require_once(schema.names, "frame")
    broken = DataError(None, "could not be read", "check the types of its columns")
    scan = quietly(lambda: arrow.lazy(schema, batches), broken)
    index = quietly(lambda: stored_index(schema.names, arrow.told(schema).get("pandas")), broken)
    return Source(
        kind="pyarrow",
        names=tuple(name for name in schema.names if name not in index),
        types=lambda: {name: type_name(dtype) for name, dtype in scan.collect_schema().items() if name not in index},
        batches=lambda columns: scan_batches(scan, columns, broken),
        index=index,
        returned=as_arrow(schema),
    )


# -- DuckDB ------------------------------------------------------------------------------------------------------------

_ARROW_BATCH = 2**17
_UNIT, _FREQUENCY, _NUMBER, _PLACE, _ORDER = "u", "f", "i", "place", "h"
_COUNT = f"CAST(count(*) AS BIGINT) AS {_FREQUENCY}"


def _duckdb_relation(frame: Any, broken: DiscreetError) -> Any | None:
    """Return a relation of DuckDB for a table of DuckDB, or of Ibis where DuckDB holds it; None for any other."""
    kind, native = frame.implementation.name.lower(), frame.to_native()
    if kind == "duckdb":
        return native
    if kind != "ibis":
        return None
    import ibis

    def relation() -> Any | None:
        backend = ibis.get_backend(native)
        if backend.name != "duckdb":
            return None
        native.limit(0).to_pyarrow()  # makes tables that are in memory known to DuckDB
        return backend.con.sql(backend.compile(native))

    return quietly(relation, broken)


def _record_batches(relation: Any, columns: Iterable[str]) -> Any:
    """Return a reader of record batches of some columns; a dot in a name is no path to a field."""
    rows = relation.project(", ".join(f"{_value(relation, name)} AS {quoted(name)}" for name in columns))
    to_reader = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
    return to_reader(_ARROW_BATCH)


def _duckdb_slots(
    frame: Any, broken: DiscreetError, columns: Sequence[str], unit: str, most: int, key: str
) -> tuple[pl.DataFrame, int, int] | None:
    """Cut every unit as :meth:`EngineCells.slots` does; None where the type of its column names no units for sure."""
    relation = _duckdb_relation(frame, broken)
    if relation is None:
        return None
    schema = _fetched(relation.project(", ".join(map(quoted, [*columns, unit]))).limit(0)).schema
    units = (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Boolean)
    if not (schema[unit].is_integer() or schema[unit] in units):
        return None
    places = {f"c{place}": name for place, name in enumerate(columns)}
    record = ", ".join([_UNIT, *places])
    parts = [f"{_bytes(relation, name, schema[name])} AS {place}" for place, name in places.items()]
    rows = relation.project(", ".join([f"{_bytes(relation, unit, schema[unit])} AS {_UNIT}", *parts]))
    totals = rows.aggregate(f"{record}, {_COUNT}", record)
    # DuckDB makes a join of a window without an order, and reads a view that draws at random twice
    window = f"PARTITION BY {_UNIT} ORDER BY {_UNIT}"
    totals = totals.project(f"*, CAST(sum({_FREQUENCY}) OVER ({window}) AS BIGINT) AS held")
    numbered = totals.project(f"{record}, held, unnest(range({_FREQUENCY})) AS {_NUMBER}")
    # Distinct values have distinct texts, none of which holds the separator.
    values = [f"coalesce({_hash_text(place, schema[name])}, 'null')" for place, name in places.items()]
    text = ", ".join([sql_text(key), f"CAST({_UNIT} AS VARCHAR)", *values, f"CAST({_NUMBER} AS VARCHAR)"])
    order = f"CASE WHEN held > {most} THEN sha256(concat_ws('|', {text})) END AS {_ORDER}"
    hashed = numbered.project(f"{record}, {_NUMBER}, {order}")
    window = f"PARTITION BY {_UNIT} ORDER BY {', '.join([_ORDER, *places, _NUMBER])}"
    slots = hashed.project(f"{record}, row_number() OVER ({window}) AS {_PLACE}").filter(f"{_PLACE} <= {most}")
    kinds = {"firsts": f"{_PLACE} = 1", "unnamed": f"{_UNIT} IS NULL"}
    counts = [f"CAST(count(*) FILTER ({kind}) AS BIGINT) AS {name}" for name, kind in kinds.items()]
    counted = _fetched(slots.aggregate(", ".join([*places, _COUNT, *counts]), ", ".join(places)))
    texts = [pl.col(place).cast(pl.String) for place in places if counted[place].dtype == pl.Binary]
    named = counted.with_columns(texts).drop(kinds).rename({**places, _FREQUENCY: FREQUENCY})
    return named, int(counted["firsts"].sum()), int(counted["unnamed"].sum())


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def _hash_text(place: str, dtype: pl.DataType) -> str:
    """Return a value as the text that is hashed."""
    if dtype.is_numeric():
        return f"CAST({place} AS VARCHAR)"
    return f"hex(CAST({place} AS {'BLOB' if _is_text(dtype) else 'VARCHAR'}))"


def _value(relation: Any, name: str) -> str:
    """Return a value as it leaves DuckDB: infinite moments must lie outside of all bounds there, or are refused."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    x = quoted(name)
    if types[name] in ("TIMESTAMP_S", "TIMESTAMP_MS"):  # Arrow's readers would multiply what stands for infinity
        return f"CAST({x} AS TIMESTAMP)"
    if types[name] == "TIMESTAMP_NS":  # what stands for infinity is a moment of the year 2262
        return f"CASE WHEN isfinite({x}) OR {x} IS NULL THEN {x} ELSE error('infinite') END"
    return x


def _bytes(relation: Any, name: str, dtype: pl.DataType) -> str:
    """Return a value to group by: a text as its bytes, which no collation makes equal, and no negative zero."""
    if _is_text(dtype):
        return f"encode(CAST({quoted(name)} AS VARCHAR))"
    if dtype.is_float():
        return f"{quoted(name)} + 0.0"
    return _value(relation, name)


def _fetched(relation: Any) -> pl.DataFrame:
    frame: pl.DataFrame = nw.from_native(relation).collect().to_polars()
    return frame
