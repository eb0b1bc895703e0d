"""Files of tables: the one place that knows their endings, and how each format is scanned.

What reads a file here may raise any error of a library, which may quote the file: it is for `quietly`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import mmap
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from discreet._core.errors import MissingExtra, ParameterError, unfit
from discreet._core.lazy import pl
from discreet._core.reading import encoding_of

_LONGEST = 2**24  # characters of the first line of CSV: a few bytes of gzip could make more
_SEPARATOR = re.compile(r"[\t,;|:!#$%&*/<>?@^~]")
_QUOTED = re.compile(rf'"(?:[^"]|"")*"({_SEPARATOR.pattern})')
_SEP_LINE = re.compile(rf"sep=({_SEPARATOR.pattern})\s*", re.IGNORECASE)
UTF8 = ("utf-8", "utf-8-sig", "ascii")  # which Polars reads as they are
_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a table is written: most of it is of CSV alone, and files of programs are never written."""

    kind: str  # parquet, csv, arrow, or the name of a program
    media: str = ""  # the type by which catalogues know it, where it is written
    separator: str = ""
    compressed: bool = False
    encoding: str = "utf-8"
    decimal_comma: bool = False
    reader: str = ""  # a function of another library
    sheet: str | None = None

    @property
    def texts(self) -> bool:
        """Whether all values are texts, and the file can say nothing of itself."""
        return self.kind in ("csv", "Excel")


PARQUET = Format(kind="parquet", media="application/vnd.apache.parquet")
_ARROW = Format(kind="arrow", media="application/vnd.apache.arrow.file")
_FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), PARQUET),
    ".csv": Format(kind="csv", media="text/csv", separator=","),
    ".csv.gz": Format(kind="csv", media="text/csv", separator=",", compressed=True),
    ".tsv": Format(kind="csv", media="text/tab-separated-values", separator="\t"),
    ".tsv.gz": Format(kind="csv", media="text/tab-separated-values", separator="\t", compressed=True),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _ARROW),
}
ENDINGS = ", ".join(list(_FORMATS)[:-1]) + f" or {list(_FORMATS)[-1]}"
"""The endings of files that are written, as a sentence names them."""

_FORMATS |= {
    ".xlsx": Format(kind="Excel", reader="python_calamine"),
    **dict.fromkeys((".sav", ".zsav"), Format(kind="SPSS", encoding="", reader="pyreadstat.read_sav")),
    ".dta": Format(kind="Stata", encoding="", reader="pyreadstat.read_dta"),
    ".sas7bdat": Format(kind="SAS", encoding="", reader="pyreadstat.read_sas7bdat"),
    ".xpt": Format(kind="SAS", encoding="", reader="pyreadstat.read_xport"),
}
READABLE = ", ".join(list(_FORMATS)[:-1]) + f" or {list(_FORMATS)[-1]}"
"""The endings of all files that are read."""


@dataclass(frozen=True, slots=True)
class DelimitedFile(PathLike[str]):
    """The path of a file, and how to read it. By default, the ending of CSV tells its separator."""

    path: str
    separator: str | None = None
    encoding: str | None = None
    decimal_comma: bool = False
    sheet: str | None = None

    def __post_init__(self) -> None:
        form = format_of(self.path) or PARQUET
        if self.sheet is not None and form.kind != "Excel":
            raise ParameterError("a sheet is for Excel files. Leave it out")
        if (self.separator is not None or self.decimal_comma) and form.kind != "csv":
            raise ParameterError("a separator and a decimal comma are for CSV files. Leave them out")
        if self.encoding is not None and form.kind in ("Excel", "parquet", "arrow"):
            raise ParameterError("an encoding is for files of CSV, SPSS, Stata and SAS. Leave it out")
        if self.separator is not None and not _SEPARATOR.fullmatch(self.separator):
            raise unfit("separator", "one character between fields, such as | or a tab", self.separator)
        try:
            codecs.lookup(encoding := "utf-8" if self.encoding is None else self.encoding)
            "".encode(encoding)
        except (LookupError, ValueError):
            raise unfit("encoding", "the name of an encoding, such as latin-1 or utf-16", self.encoding) from None

    def __fspath__(self) -> str:
        return self.path

    __str__ = __fspath__


def format_of(path: str | PathLike[str]) -> Format | None:
    """Return the format of a name's ending, in small letters or capitals; None where it is another one."""
    form = _FORMATS.get(_known_ending(Path(path)))
    if form is None or not isinstance(path, DelimitedFile):
        return form
    options = {option.name: getattr(path, option.name) for option in fields(path)[1:]}
    return replace(form, **{name: value for name, value in options.items() if value is not None})


def with_ending(path: Path, ending: str) -> Path:
    """Return a name with another ending: of a file of a table, ``.csv.gz`` is one ending."""
    return path.with_name(path.name[: len(path.name) - len(_known_ending(path))] + ending)


def _known_ending(path: Path) -> str:
    for ending in _FORMATS:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return ending
    return path.suffix


def scanned(path: str | PathLike[str], form: Format) -> pl.LazyFrame:
    """Scan a file; of CSV every column is text, and nothing is inferred. The headers of Parquet are checked first."""
    path = Path(path)
    if form.reader:
        raise ValueError("another program's file is no scan")
    if form.kind == "arrow":
        return _arrow_scan(path)
    if form.kind == "parquet":
        with _parquet(path) as (data, footer):
            for group in footer.get(4, []):
                for chunk in group[1]:
                    _require_sound(data, chunk[3])
        return pl.scan_parquet(path, glob=False)
    encoding, separator, names, skip = heading(path, form)
    options: dict[str, Any] = {"infer_schema": False, "separator": separator, "skip_lines": skip}
    if encoding in UTF8:
        scan = pl.scan_csv(path, glob=False, **options)
    else:
        with unpacked(path, form) as file:
            scan = pl.scan_csv(io.BytesIO(file.read().decode(encoding).encode("utf-8")), **options)
    columns = scan.collect_schema().names()
    if columns != names and '"' in "".join(names):  # Polars keeps the quotes that are doubled within a name
        scan = scan.rename(dict(zip(columns, names, strict=True)))
    return scan


def texts(path: str | PathLike[str], form: Format) -> dict[str, str]:
    """Return what a file says of itself: the texts of its metadata, by key. CSV says nothing."""
    if form.kind == "arrow":
        with _open_arrow(path) as reader:
            return schema_texts(reader.schema)
    if form.kind != "parquet":
        return {}
    with _parquet(path) as (_, footer):
        return {pair[1].decode(): pair.get(2, b"").decode() for pair in footer.get(5, [])}


def parquet_rows(path: str | PathLike[str]) -> int:
    """Return the number of rows that a Parquet file says it has."""
    with _parquet(path) as (_, footer):
        return int(footer[3])


def heading(path: Path, form: Format) -> tuple[str, str, list[str], int]:
    """Return the encoding of a CSV file, what separates its fields, those of its header, and the lines above that."""
    # A byte order mark tells the encoding. Lines above a header are empty, or sep=; of a spreadsheet. That tells the
    # separator, as does what comes after a first name in quotes: so files that are written with another separator than
    # that of their ending tell it themselves. So does a header that holds another sign in place of that of the ending.
    with unpacked(path, form) as raw:
        encoding = codecs.lookup(encoding_of(raw.read(4), form.encoding)).name
        raw.seek(0)
        file, separator = io.TextIOWrapper(raw, encoding, "replace", newline=""), form.separator
        lines = iter(partial(file.readline, _LONGEST), "")
        for skip, line in enumerate(lines):
            if len(line) == _LONGEST:
                raise ValueError("a line is too long for a header")
            if match := _SEP_LINE.fullmatch(line) or _QUOTED.match(line):
                separator = match[1]
            elif separator not in line and len(others := {",", ";", "\t"}.intersection(line)) == 1:
                (separator,) = others
            if line.strip("\r\n") and not _SEP_LINE.fullmatch(line):
                return encoding, separator, next(csv.reader(itertools.chain([line], lines), delimiter=separator)), skip
        return encoding, separator, [], 0


def unpacked(path: Path, form: Format) -> BinaryIO:
    """Open a file for its bytes as they are without gzip."""
    return cast("BinaryIO", gzip.open(path) if form.compressed else path.open("rb"))


def stored_index(names: Sequence[str], metadata: str | None) -> frozenset[str]:
    """Return which of all columns are the index of a pandas table, by what pandas stored under the key "pandas"."""
    listed = json.loads(metadata or "{}").get("index_columns", ())
    return frozenset(name for name in names if name in listed or _INDEX.fullmatch(name))


# The headers of a Parquet file, whose counts are looked at before a reader sets memory aside for them.
#
# A reader that takes a page at its word asks for as much memory as a damaged header claims, and the process ends where
# there is not so much. The headers are few: one per page of about a megabyte.

_DEPTH = 16


@contextmanager
def _parquet(path: str | PathLike[str]) -> Iterator[tuple[mmap.mmap, dict[int, Any]]]:
    """Give the bytes of a Parquet file, and its footer."""
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data, _Thrift(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()


def _require_sound(data: mmap.mmap, chunk: dict[int, Any]) -> None:
    """Refuse a chunk of a column whose pages do not hold the number of values that the footer counts."""
    place, missing = chunk.get(11) or chunk[9], chunk[5]
    while missing > 0:
        thrift = _Thrift(data, place)
        page = thrift.struct()
        place = thrift.place + page[3]
        dictionary, values = page.get(7, {1: 0}), page.get(5) or page.get(8) or {1: 0}
        missing -= values[1]
        counts = [count for count in (*values.values(), *dictionary.values()) if isinstance(count, int)]
        if min(page[2], page[3], *counts) < 0 or dictionary[1] > len(data):
            raise ValueError("a page's header cannot be true")
    if missing != 0:
        raise ValueError("the pages do not hold the values that the footer counts")


class _Thrift:
    """Reads structures of Thrift's compact protocol, as Parquet writes its headers: field numbers to values."""

    def __init__(self, data: mmap.mmap, place: int) -> None:
        self.data, self.place, self.depth = data, place, 0

    def struct(self) -> dict[int, Any]:
        fields, number = {}, 0
        while (head := self.bytes(1)[0]) != 0:
            number = number + (head >> 4) if head >> 4 else self.integer()
            fields[number] = self.value(head & 15)
        return fields

    def value(self, kind: int) -> Any:
        if kind in (1, 2):  # a truth value is its own type
            return kind == 1
        if kind in (4, 5, 6):
            return self.integer()
        if kind not in (9, 12):
            return self.bytes({3: 1, 7: 8}[kind] if kind != 8 else self.natural())
        self.depth += 1
        if self.depth > _DEPTH:
            raise ValueError("a header is nested too deeply")
        value = self.items() if kind == 9 else self.struct()
        self.depth -= 1
        return value

    def items(self) -> list[Any]:
        head = self.bytes(1)[0]
        length = head >> 4 if head >> 4 < 15 else self.natural()
        kind = head & 15
        return [self.value(3 if kind in (1, 2) else kind) for _ in range(length)]

    def bytes(self, length: int) -> bytes:
        start, self.place = self.place, self.place + length
        if not 0 <= start <= self.place <= len(self.data):
            raise ValueError("a header lies outside the file")
        return self.data[start : self.place]

    def integer(self) -> int:
        value = self.natural()
        return value >> 1 ^ -(value & 1)

    def natural(self) -> int:
        value = shift = 0
        while (byte := self.bytes(1)[0]) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("an integer is too long")
        return value | byte << shift


# Arrow record batches, of a file or of another library, as a Polars scan; PyArrow reads them.
#
# Every batch is validated in full: a damaged one could otherwise lead a reader outside its memory.

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


def batch_scan(schema: Any, batches: Batches) -> pl.LazyFrame:
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


def _arrow_scan(path: Path) -> pl.LazyFrame:
    """Scan a file of Arrow's: Feather (version 2), or the IPC format as a file or a stream."""

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        try:
            with _open_arrow(path, columns) as reader:
                if hasattr(reader, "num_record_batches"):
                    yield from map(reader.get_batch, range(reader.num_record_batches))
                else:
                    yield from reader
        except MemoryError:  # more is claimed than there is: in a damaged file, more than any machine has
            raise ValueError("a batch does not fit in memory") from None

    with _open_arrow(path) as reader:
        return batch_scan(reader.schema, batches)


def schema_texts(schema: Any) -> dict[str, str]:
    """Return the texts of an Arrow schema's metadata, by key."""
    return {key.decode(): text.decode() for key, text in (schema.metadata or {}).items()}


@contextmanager
def _open_arrow(path: str | PathLike[str], columns: Sequence[str] | None = None) -> Iterator[Any]:
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


Frames = Iterator["pl.DataFrame"]


def write(
    frames: Frames,
    schema: dict[str, Any],
    file: Any,
    form: Format,
    metadata: Mapping[str, str] | None,
    separator: str | None = None,
) -> None:
    """Stream frames into a file. In CSV, a separator that is not that of the ending is told by names in quotes."""
    if form.kind == "parquet":
        _write_parquet(frames, schema, file, None if metadata is None else dict(metadata))
        return
    if form.kind == "arrow":
        _write_arrow(frames, schema, file, dict(metadata or {}))
        return
    quoted, stream = separator not in (None, form.separator), cast("Any", nullcontext(file))
    if form.compressed:  # neither a time nor a name: the same records are the same bytes
        stream = gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0)
    with stream as texts:
        for i, frame in enumerate(frames):
            if i == 0 and quoted:
                frame.clear().write_csv(texts, separator=str(separator), quote_style="always")
            frame.write_csv(texts, include_header=i == 0 and not quoted, separator=separator or form.separator)


def _write_arrow(frames: Frames, schema: dict[str, Any], file: Any, metadata: dict[str, str]) -> None:
    """Write the IPC format, with types that every reader of Feather knows."""
    arrow, level = pyarrow("writing an Arrow file"), pl.CompatLevel.oldest()
    kinds = pl.DataFrame(schema=schema).to_arrow(compat_level=level).schema.with_metadata(metadata)
    with arrow.ipc.new_file(file, kinds, options=arrow.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for frame in frames:
            writer.write_table(frame.to_arrow(compat_level=level).cast(kinds))


def _write_parquet(frames: Frames, schema: dict[str, Any], file: Any, metadata: dict[str, str] | None) -> None:
    from polars.io.plugins import register_io_source

    failure: list[BaseException] = []

    def source(_columns: Any, _predicate: Any, _rows: Any, _batch: Any) -> Frames:
        try:
            yield from frames
        except BaseException as error:
            failure.append(error)
            raise

    try:
        sink = register_io_source(source, schema=schema).sink_parquet
        sink(file, compression_level=1, metadata=metadata)  # as small as level 3, to a percent, and quicker
    except Exception:
        if failure:  # raised again, as the stream raised it
            raise failure[0] from None
        raise
