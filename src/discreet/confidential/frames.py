"""A dataframe of any library as the source of a table: in memory, in an engine, or a stream of Arrow batches.

Tables of DuckDB are streamed.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from discreet._core.boundary import quiet_parts, quietly
from discreet._core.errors import DataError, DiscreetError, ParameterError
from discreet._core.formats import Batches, batch_scan, pyarrow, schema_texts, stored_index
from discreet._core.lazy import nw, pl
from discreet.confidential.closed import Confidential
from discreet.confidential.returned import as_arrow, as_frames_of, quoted
from discreet.confidential.source import BATCH, FREQUENCY, Source, read_rows, require_once, scan_batches
from discreet.confidential.workers import EngineCells, engine_cells
from discreet.domain import Domain, type_name

_FILE_TEXT = re.compile(r"'((?:[^']|'')*[.*][^'/]*)'")  # in SQL


def open_frame(data: Any) -> Source:
    """Look at the names and types of a dataframe, a PyArrow data set or a stream. Raises DataError if it is not one."""
    remedy = "pass a pandas, Polars, PyArrow, DuckDB, Dask, PySpark or Ibis frame, or a path to a file of a table"
    unsupported = DataError(None, f"the type {type(data).__name__} is not a supported table", remedy)
    pandas = type(data).__module__.partition(".")[0] == "pandas"
    names = quietly(lambda: [str(name) for name in getattr(data, "column_names", ())], unsupported)
    if not names and pandas and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        if names != list(data.columns):  # a file without a header has 0, 1
            data = data.set_axis(names, axis=1)
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
        metadata = schema_texts(frame.to_native().schema).get("pandas")
        index = quietly(lambda: stored_index(schema.names(), metadata), broken)
    types = {name: type_name(dtype) for name, dtype in schema.items() if name not in index}
    if kind == "pandas":
        index = frozenset(frame.to_native().index.names) - {None} - set(types)
    cells: Callable[[Domain], EngineCells] | None = None
    if kind in ("dask", "pyspark"):
        cells = partial(engine_cells, frame, kind)
    return Source(
        kind=kind,
        files=_files_of(frame, broken),
        names=tuple(types),
        types=lambda: types,
        empty_frame=partial(_empty_frame, frame, broken) if kind != "pyspark" else None,
        batches=partial(_batches, frame, kind, broken),
        index=index,
        cells=cells,
        stays=isinstance(frame, nw.LazyFrame),
        returned=quietly(lambda: as_frames_of(frame, kind), broken),
    )


def _files_of(frame: Any, broken: DiscreetError) -> list[str]:
    """Return the files, and patterns of files, that a frame of an engine reads, as far as it tells."""
    native, kind = frame.to_native(), frame.implementation.name
    files: list[Any] = []
    with suppress(Exception):
        if isinstance(native, pl.LazyFrame):
            plan = native._ldf.visit()
            nodes = [plan.get_node()]
            while nodes:
                plan.set_node(nodes.pop())
                files += getattr(plan.view_current_node(), "paths", ())
                nodes += plan.get_inputs()
        elif kind == "PYSPARK" and native.sparkSession.sparkContext.master.startswith("local"):
            files = [unquote(urlsplit(file).path) for file in native.inputFiles() if file.startswith("file:")]
        elif kind == "DASK":
            for node in native.expr.walk():
                dataset = getattr(node, "_dataset_info", {})
                if type(dataset.get("fs")).__name__ == "LocalFileSystem":
                    files += dataset["ds"].files
        elif (relation := _duckdb_relation(frame, broken)) is not None:
            text = relation.sql_query()
            if kind == "IBIS":
                views = native.get_backend().con.sql("SELECT view_name, sql FROM duckdb_views()").fetchall()
                text += "".join(view for name, view in views if name in text)
            files = [file.replace("''", "'") for file in _FILE_TEXT.findall(text)]
    return [str(file) for file in files]


def _empty_frame(frame: Any, broken: DiscreetError, columns: Sequence[str]) -> pl.DataFrame:
    """Return columns of a frame without rows, of which none is read."""
    native = frame.to_native()
    if isinstance(native, pl.LazyFrame):
        return native.collect_schema().to_frame()[list(columns)]
    if frame.implementation.name == "DASK":  # its head is made of all parts
        frame = nw.from_native(native._meta, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        return read_rows(frame[:0], columns)
    nothing: pl.DataFrame = quietly(lambda: frame.select(*columns).head(0).collect().to_polars(), broken)
    return nothing


def _batches(frame: Any, kind: str, broken: DiscreetError, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Read a frame, where it is in memory or in an engine: texts as they are, else grouped where that is possible."""
    if isinstance(frame, nw.DataFrame):
        return (read_rows(frame[start : start + BATCH], columns) for start in range(0, len(frame), BATCH))
    if kind == "polars":
        return scan_batches(frame.to_native(), columns, broken)
    if (relation := _duckdb_relation(frame, broken)) is not None:
        return quiet_parts(lambda: map(pl.DataFrame, _record_batches(relation, columns)), broken)
    schema = quietly(frame.collect_schema, broken)
    if kind == "ibis" and any(type_name(schema[name]) in ("string", "unknown") for name in columns):
        # the collation of a database could take different texts for equal ones
        native = frame.select(*columns).to_native()
        return quiet_parts(lambda: map(pl.DataFrame, native.to_pyarrow_batches(chunk_size=BATCH)), broken)
    return _grouped(frame, columns, broken)


def _grouped(frame: Any, columns: Sequence[str], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Count distinct rows where the table is; only these and their frequencies come back."""
    counted = frame.group_by(*columns).agg(nw.len().alias(FREQUENCY))
    yield quietly(lambda: counted.collect().to_polars(), broken)


# -- streams of Arrow batches ------------------------------------------------------------------------------------------


def _of_stream(data: Any, unsupported: DataError) -> Source:
    """Return the source of what gives a stream of Arrow batches: perhaps once only."""
    reader_type = pyarrow("reading a stream of Arrow batches").RecordBatchReader

    def reader() -> Any:
        return data if isinstance(data, reader_type) else reader_type.from_stream(data)

    unread = [quietly(reader, unsupported)]

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        return (batch.select(list(columns)) for batch in (unread.pop() if unread else reader()))

    return _of_batches(unread[0].schema, batches)


def _of_batches(schema: Any, batches: Batches) -> Source:
    require_once(schema.names, "frame")
    broken = DataError(None, "could not be read", "check the types of its columns")
    scan = quietly(lambda: batch_scan(schema, batches), broken)
    index = quietly(lambda: stored_index(schema.names, schema_texts(schema).get("pandas")), broken)
    return Source(
        kind="pyarrow",
        names=tuple(name for name in schema.names if name not in index),
        types=lambda: {name: type_name(dtype) for name, dtype in scan.collect_schema().items() if name not in index},
        empty_frame=lambda columns: scan.collect_schema().to_frame()[list(columns)],
        batches=lambda columns: scan_batches(scan, columns, broken),
        index=index,
        returned=as_arrow(schema),
    )


# -- DuckDB ------------------------------------------------------------------------------------------------------------

_ARROW_BATCH = 2**17


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


def _value(relation: Any, name: str) -> str:
    """Return a value as it leaves DuckDB: infinite moments must lie outside of all bounds there."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    x = quoted(name)
    if types[name] in ("TIMESTAMP_S", "TIMESTAMP_MS"):  # Arrow's readers would multiply what stands for infinity
        return f"CAST({x} AS TIMESTAMP)"
    if types[name] == "TIMESTAMP_NS":  # what stands for infinity is a moment of the year 2262
        micro = f"make_timestamp((epoch_ns({x}) - 999 * CAST(epoch_ns({x}) < 0 AS INT)) // 1000)"  # rounded down
        return f"CASE WHEN isfinite({x}) THEN {micro} ELSE CAST({x} AS TIMESTAMP) END"
    return x
