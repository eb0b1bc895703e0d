"""Arrow record batches, of a file or of another library, as a Polars scan; PyArrow reads them.

Every batch is validated in full: a damaged one could otherwise lead a reader outside its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, BinaryIO, TypeAlias

from discreet._core.errors import MissingExtra
from discreet._core.lazy import pl

Batches: TypeAlias = Callable[[Sequence[str]], Iterator[Any]]
"""Iterates over record batches with these columns."""

_MAGIC = b"ARROW1"


def pyarrow(user: str) -> Any:
    """Return the library. Raises MissingExtra when it is not installed, naming what needs it."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise MissingExtra(f"{user} needs PyArrow", "arrow") from None
    return pyarrow


def lazy(schema: Any, batches: Batches) -> pl.LazyFrame:
    """Return record batches as a scan, which asks for the columns that it needs, as often as it is collected."""
    from polars.io.plugins import register_io_source

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        for batch in batches(schema.names if columns is None else columns):
            batch.validate(full=True)
            frame: Any = pl.from_arrow(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            if rows is not None:
                frame = frame.head(rows)
                rows -= frame.height
            yield frame
            if rows == 0:
                return

    return register_io_source(source, schema={field.name: polars_type(field.type) for field in schema})


def polars_type(kind: Any) -> Any:
    """Return Polars' type for one of PyArrow; a placeholder where Polars has none, so that none can be asked for."""
    try:
        frame: Any = pl.from_arrow(pyarrow("reading Arrow batches").schema([("x", kind)]).empty_table())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001  # a Rust panic is no Exception
        return pl.Null()
    return frame.dtypes[0]


def scanned(path: str | PathLike[str]) -> pl.LazyFrame:
    """Scan a file of Arrow's: Feather (version 2), or the IPC format as a file or a stream."""

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        try:
            with _open(path, columns) as reader:
                if hasattr(reader, "num_record_batches"):
                    yield from map(reader.get_batch, range(reader.num_record_batches))
                else:
                    yield from reader
        except MemoryError:  # more is claimed than there is: in a damaged file, more than any machine has
            raise ValueError("a batch does not fit in memory") from None

    with _open(path) as reader:
        return lazy(reader.schema, batches)


def texts(path: str | PathLike[str]) -> dict[str, str]:
    """Return what an Arrow file says of itself: the texts of its metadata, by key."""
    with _open(path) as reader:
        return told(reader.schema)


def told(schema: Any) -> dict[str, str]:
    """Return the texts of a schema's metadata, by key."""
    return {key.decode(): text.decode() for key, text in (schema.metadata or {}).items()}


@contextmanager
def _open(path: str | PathLike[str], columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Open a file, or a stream, which has no beginning that tells it."""
    arrow = pyarrow("reading an Arrow file")
    with arrow.OSFile(str(path)) as file:
        opener = arrow.ipc.open_file if file.read(len(_MAGIC)) == _MAGIC else arrow.ipc.open_stream
        file.seek(0)
        reader = opener(file)
        if columns is not None:
            fields = [reader.schema.get_field_index(name) for name in columns]
            file.seek(0)
            reader = opener(file, options=arrow.ipc.IpcReadOptions(included_fields=fields))
        yield reader


def write(
    frames: Iterator[pl.DataFrame], schema: dict[str, Any], file: BinaryIO, metadata: Mapping[str, str] | None
) -> None:
    """Stream frames into an open file in the IPC format, with types that every reader of Feather knows."""
    arrow, level = pyarrow("writing an Arrow file"), pl.CompatLevel.oldest()
    kinds = pl.DataFrame(schema=schema).to_arrow(compat_level=level).schema.with_metadata(dict(metadata or {}))
    options = arrow.ipc.IpcWriteOptions(compression="lz4")
    with arrow.ipc.new_file(file, kinds, options=options) as writer:
        for frame in frames:
            writer.write_table(frame.to_arrow(compat_level=level).cast(kinds))
