"""A dataframe of any library as the source of a table: in memory, in an engine, or a stream of Arrow batches."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from discreet._core import arrow
from discreet._core.boundary import quietly
from discreet._core.errors import DataError, DiscreetError, ParameterError
from discreet._core.formats import stored_index
from discreet._core.lazy import nw, pl
from discreet.confidential.cells import Cells
from discreet.confidential.closed import Confidential
from discreet.confidential.source import BATCH, FREQUENCY, Source, require_once, scan_batches, type_name
from discreet.domain import Column


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
    from discreet.confidential.returned import as_frames_of

    schema = quietly(frame.collect_schema, unsupported)
    kind = frame.implementation.name.lower()
    broken = DataError(None, "could not be read", f"check that {kind} can read it, and the types of its columns")
    told = arrow.told(frame.to_native().schema).get("pandas") if kind == "pyarrow" else None
    index = quietly(lambda: stored_index(schema.names(), told), broken) if kind == "pyarrow" else frozenset()

    return Source(
        kind=kind,
        path=None,
        names=tuple(name for name in schema.names() if name not in index),
        types=lambda: {name: type_name(dtype) for name, dtype in schema.items() if name not in index},
        batches=partial(_batches, frame, kind, broken),
        index=index,
        cells=partial(_engine_cells, frame, kind) if kind in ("dask", "pyspark") else None,
        slots=partial(_duckdb_slots, frame, broken) if kind in ("duckdb", "ibis") else None,
        stays=isinstance(frame, nw.LazyFrame),
        returned=quietly(lambda: as_frames_of(frame, kind), broken),
    )


def _batches(frame: Any, kind: str, broken: DiscreetError, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Read a frame, where it is in memory or in an engine: texts as they are, else grouped where that is possible."""
    if isinstance(frame, nw.DataFrame):
        return _sliced(frame, columns)
    if kind == "polars":
        return scan_batches(frame.to_native(), columns, broken)
    if (relation := _relation(frame, kind, broken)) is not None:
        from discreet.confidential.duckdb_rows import record_batches

        return _streamed(lambda: iter(record_batches(relation, columns)), broken)
    schema = quietly(frame.collect_schema, broken)
    if kind == "ibis" and any(type_name(schema[name]) in ("string", "unknown") for name in columns):
        # the collation of a database could take different texts for equal ones
        native = frame.select(*columns).to_native()
        return _streamed(lambda: iter(native.to_pyarrow_batches(chunk_size=BATCH)), broken)
    return _grouped(frame, columns, broken)


def _relation(frame: Any, kind: str, broken: DiscreetError) -> Any | None:
    if kind not in ("duckdb", "ibis"):
        return None
    from discreet.confidential.duckdb_rows import duckdb_relation

    return quietly(lambda: duckdb_relation(frame), broken)


def _duckdb_slots(
    frame: Any, broken: DiscreetError, columns: Sequence[str], unit: str, most: int, key: str
) -> tuple[pl.DataFrame, int, int] | None:
    from discreet.confidential import duckdb_rows

    relation = _relation(frame, frame.implementation.name.lower(), broken)
    if relation is None:
        return None
    return duckdb_rows.slots(relation, columns, unit=unit, most=most, key=key, frequency=FREQUENCY)


def _engine_cells(frame: Any, kind: str, columns: Mapping[str, Column]) -> Cells:
    """Return the cells of a table of Spark or Dask. Raises DataError naming a column of another type."""
    from discreet.confidential.workers import DaskCells, SparkCells, none_of_spark

    native = frame.to_native()
    if kind == "pyspark":
        _require_types(none_of_spark(native, columns), columns)
        return SparkCells(columns=columns, frame=native, frequency=FREQUENCY)
    _require_types(frame.select(*columns).head(0).collect().to_polars(), columns)
    return DaskCells(columns=columns, frame=native, frequency=FREQUENCY, read=_whole)


def _require_types(nothing: pl.DataFrame, columns: Mapping[str, Column]) -> None:
    for name, column in columns.items():
        column.encode(nothing[name], name=name)


def _of_stream(data: Any, unsupported: DataError) -> Source:
    """Return the source of what gives a stream of Arrow batches: perhaps once only."""
    readers = arrow.pyarrow("reading a stream of Arrow batches").RecordBatchReader

    def opened() -> Any:
        return data if isinstance(data, readers) else readers.from_stream(data)

    first = [quietly(opened, unsupported)]

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        return (batch.select(list(columns)) for batch in (first.pop() if first else opened()))

    return _of_batches(first[0].schema, batches)


def _of_batches(schema: Any, batches: arrow.Batches) -> Source:
    from discreet.confidential.returned import as_arrow

    require_once(schema.names, "frame")
    broken = DataError(None, "could not be read", "check the types of its columns")
    scan = quietly(lambda: arrow.lazy(schema, batches), broken)
    index = quietly(lambda: stored_index(schema.names, arrow.told(schema).get("pandas")), broken)
    return Source(
        kind="pyarrow",
        path=None,
        names=tuple(name for name in schema.names if name not in index),
        types=lambda: {name: type_name(dtype) for name, dtype in scan.collect_schema().items() if name not in index},
        batches=lambda columns: scan_batches(scan, columns, broken),
        index=index,
        returned=as_arrow(schema),
    )


def _sliced(frame: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Take an in-memory frame in slices, column by column so that an error names the culprit."""
    for start in range(0, len(frame), BATCH):
        yield pl.DataFrame({name: _part(frame, name, start) for name in columns})


def _whole(frame: Any, columns: Sequence[str]) -> pl.DataFrame:
    """Take an in-memory frame at once."""
    return pl.DataFrame({name: _part(frame, name, 0, len(frame)) for name in columns})


def _part(frame: Any, name: str, start: int, length: int | None = None) -> pl.Series:
    mixed = DataError(name, "its values have no common type", "cast the column to the declared type")
    part = frame[start : start + (BATCH if length is None else length)].select(name)
    taken: pl.Series = quietly(lambda: part.to_polars().to_series(), mixed)
    objects = quietly(lambda: str(getattr(part[name].to_native(), "dtype", "")) == "object", mixed)
    if objects and taken.null_count() == len(taken):  # no value says of which type these pandas objects are
        return pl.repeat(None, len(taken), dtype=pl.Null(), eager=True).alias(name)
    return taken


def _grouped(frame: Any, columns: Sequence[str], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Count distinct rows where the table is; only these and their frequencies come back."""
    counted = frame.group_by(*columns).agg(nw.len().alias(FREQUENCY))
    yield quietly(lambda: counted.collect().to_polars(), broken)


def _streamed(read: Callable[[], Iterator[Any]], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Read record batches one by one."""
    batches = quietly(read, broken)
    while (batch := quietly(partial(next, batches, None), broken)) is not None:
        yield quietly(partial(pl.DataFrame, batch), broken)
