"""Where a confidential table is: a dataframe of any library, a file, a folder of Parquet files, or a database.

A folder is one table, and the values in the names of its folders (``sex=f``) are columns of texts. No file or folder
within it is named in a message: the names of hive partitions are values of the table.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from glob import glob, has_magic
from os import PathLike, fspath
from os.path import lexists
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from discreet._core import formats
from discreet._core.boundary import enclosed, quietly
from discreet._core.errors import DataError, FileProblem, ParameterError, unfit
from discreet._core.files import require_settled
from discreet._core.formats import PARQUET, Format, format_of
from discreet._core.lazy import pl
from discreet._core.reading import encoding_of
from discreet._core.text import counted
from discreet.confidential.source import (
    RESERVED,
    Source,
    attempted,
    require_names,
    require_once,
    scan_batches,
    text_source,
    texts_of,
    unit_of,
)
from discreet.domain import Domain, escaped, type_name, unescaped
from discreet.privacy import Unit

_ROW = f"{RESERVED}row"
_UNREAD = "cannot be read", "check its permissions"


@enclosed
def open_source(data: Any) -> Source:
    """Look at a table's names and types; no row is read. A source is returned as it is, as some open only once."""
    if isinstance(data, Source):
        return data
    if data is None or isinstance(data, (bool, int, float)):
        raise unfit("data", "a dataframe, or the path of a file", data)
    if isinstance(data, str) and "://" in data:
        from discreet.confidential.database import open_table

        source = open_table(data)
    elif isinstance(data, (str, PathLike)):
        source = _open_path(data)
    else:
        from discreet.confidential.frames import open_frame

        source = open_frame(data)
    require_once(source.names, source.kind)
    return _watched(source)


def open_declared(
    data: Any, domain: Domain, *, unit: Unit | None = None, other_columns: bool = False, refused: str = "names, types"
) -> dict[str, Source]:
    """Open the tables of a domain, by name, and refuse what their names and types show; no row is read."""
    # One has no name, two are in a mapping or a folder. Raises DataError, FileProblem, ParameterError.
    domains, unit = domain.table_domains, unit_of(domain, unit)
    if domain.units is None and not isinstance(data, Mapping):
        data = {"": data}
    if not isinstance(data, Mapping) or set(data) != set(domains):
        data = tables_of(data, [*domains])
    sources = {name: open_source(data[name]) for name in domains}
    for table, part in domains.items():
        source, names = sources[table], part.names if unit is None else (*part.names, unit.column)
        if "names" in refused:
            require_names(source, names, other_columns=other_columns, table=f"table {table}".strip())
        frame = pl.DataFrame()  # which a forked process refuses to make
        if "types" in refused and source.empty_frame is not None:
            frame = source.empty_frame([name for name in part.names if name not in source.texts])
        elif "types" in refused and (find := source.cells) is not None:  # of Spark: its session and types
            from pyspark.sql import SparkSession

            attempted(SparkSession.active)
            attempted(partial(find, part))
        for name in frame.columns:
            part.columns[name].encode(texts_of(frame[name], part.columns[name], source), name=name)
    return sources


def tables_of(data: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the tables in a folder, by name. Raises ParameterError where it, or a mapping, has others."""
    if names == [""]:
        raise ParameterError('a mapping is of several tables, and the domain has one. Declare units = "..." there')
    files = list[Path]()
    if isinstance(data, (str, PathLike)) and Path(data).is_dir():
        files = [file for file in Path(data).iterdir() if file.name.split(".")[0] in names]
    if sorted(file.name.split(".")[0] for file in files) != sorted(names):
        listed = " and ".join(map(repr, names))
        raise ParameterError(f"the domain has the tables {listed}. Give a mapping, or a folder with one of each name")
    return {name: file for name in names for file in files if file.name.split(".")[0] == name}


def _watched(source: Source) -> Source:
    """Return a source that refuses a pass in which one of its files is another than now: lost, replaced or written."""
    files, remedy = source.files or [source.path or ""], "keep the table as it is until the release is written"
    changed = DataError(None, "changed while it was read", remedy)

    def signs() -> dict[str, tuple[int, ...]]:
        paths = [path for file in files for path in ([file] if lexists(file) else sorted(glob(file)))]  # noqa: PTH207
        status = {path: Path(path).stat() for path in paths}
        return {path: (sign.st_size, sign.st_mtime_ns, sign.st_ino) for path, sign in status.items()}

    def check() -> None:
        if quietly(signs, changed) != original:
            raise changed

    def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        check()
        yield from source.batches(columns)
        check()

    original = quietly(signs, changed)
    if source.path is None:  # an engine would find a lost or broken file as it counts
        tells_all = source.kind in ("polars", "pyspark", "dask")
        lost = [file for file in source.files if tells_all and file not in original and "://" not in file]
        broken = DataError(None, "a file of it is lost, or no readable Parquet", "give the complete files")
        for path in (*lost, *(path for path in original if format_of(path) == PARQUET)):
            quietly(partial(formats.parquet_rows, path), broken)
    return replace(source, batches=batches) if original else source


def _open_path(data: str | PathLike[str]) -> Source:
    text, path = fspath(data), Path(data)
    require_settled(path)
    if path.is_dir():
        return _open_folder(text, path)
    if not path.exists() and has_magic(text):
        remedy = "give the folder, where it holds Parquet files. In Python, give polars.scan_csv(...) of the pattern"
        raise FileProblem(text, "there is no such file, and a pattern of names is not expanded", remedy)
    if not path.exists():
        raise FileProblem(text, "there is no such file", "check the path")
    if not path.is_file():
        raise FileProblem(text, "is not a file", "give a file, or a folder of Parquet files")
    if quietly(path.stat, FileProblem(text, *_UNREAD)).st_size == 0:
        raise FileProblem(text, "is empty: it has no header and no rows", "give a file with a table")
    form = quietly(partial(require_kind, text, path, format_of(data)), FileProblem(text, *_UNREAD))
    if form.reader:
        from discreet.confidential.foreign import open_foreign

        return open_foreign(text, path, form)
    if form.kind == "csv":
        return _open_csv(text, path, form)
    problem = f"is not a readable {form.kind.title()} file"
    broken = FileProblem(text, problem, "give the complete file, in this format")
    return _of_scan(quietly(lambda: formats.scanned(path, form), broken), path, form, broken, text=text)


def _of_scan(
    scan: pl.LazyFrame, path: Path, form: Format, broken: FileProblem, *, text: str, keys: Sequence[str] = ()
) -> Source:
    """Return the source of a scan of types, but for the ``keys``, which are texts; ``path`` says what is an index."""
    from discreet.confidential.returned import as_polars

    schema = quietly(scan.collect_schema, broken)
    keys = keys or list(schema) * form.texts
    index = quietly(lambda: formats.stored_index(list(schema), formats.texts(path, form).get("pandas")), broken)
    types = {name: type_name(dtype) for name, dtype in schema.items() if name not in index}
    return Source(
        kind=form.kind,
        path=text,
        stays=True,
        names=tuple(types),
        types=lambda: types | dict.fromkeys(keys, "unknown"),
        empty_frame=schema.to_frame().__getitem__,
        batches=lambda columns: scan_batches(scan, columns, broken),
        texts=frozenset(keys),
        index=index,
        returned=as_polars({name: dtype for name, dtype in schema.items() if name not in keys}),
    )


def _open_csv(text: str, path: Path, form: Format) -> Source:
    broken = FileProblem(text, "is not a readable CSV file", "give the complete file, and name its encoding")
    state = quietly(path.stat, broken)
    version = state.st_ino, state.st_size, state.st_mtime_ns
    header, blank = quietly(partial(csv_form, text, path, form, version), broken)
    places = {place: unescaped(name) for place, name in enumerate(header) if name}

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        scan = formats.scanned(path, form)
        if blank:
            scan = scan.with_row_index(_ROW).filter(~pl.col(_ROW).is_in(blank)).drop(_ROW)
        header_names = quietly(scan.collect_schema, broken).names()
        return scan_batches(scan.rename({header_names[place]: name for place, name in places.items()}), columns, broken)

    names = tuple(places.values())
    require_once(names, "csv")
    return text_source("csv", text, dict.fromkeys(names, "unknown"), read, decimal_comma=form.decimal_comma)


# -- folders ----------------------------------------------------------------------------------------------------------

_FILE = "discreet: file"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LOGS = ("_delta_log", ".hoodie")
_NAMED = "The command domain check names the file"


def _open_folder(text: str, path: Path) -> Source:
    unread = FileProblem(text, "the folder cannot be read", "check its permissions")
    files = quietly(lambda: _parquet_files(text, path), unread)
    if not files:
        raise FileProblem(text, "it is a folder without Parquet files", "give one with them, or one file")
    partitions = [_partition_of(file.relative_to(path)) for file in files]
    keys = [key for key, _ in partitions[0]]
    if any([key for key, _ in partition] != keys for partition in partitions) or len(set(keys)) < len(keys):
        raise FileProblem(text, "its folders are not partitions by the same columns", "give one table")
    broken = FileProblem(text, "it holds a file that is not readable Parquet", f"give the complete files. {_NAMED}")
    schemas = [quietly(lambda file=file: formats.scanned(file, PARQUET).collect_schema(), broken) for file in files]  # type: ignore[misc]
    for schema in schemas[1:]:
        names = [name for name in {**schemas[0], **schema} if schema.get(name) != schemas[0].get(name)]
        if names:  # the order of columns is no matter
            types = [types[names[0]].base_type().__name__ for types in (schemas[0], schema) if names[0] in types]
            if len(types) == 1:
                types.append("none")
            difference = f"{names[0]!r}: {' or '.join(types)}"
            problem = f"its files have different columns or types ({difference})"
            raise FileProblem(text, problem, f"write all of them alike. {_NAMED}")
    if set(keys) & set(schemas[0]):
        raise FileProblem(text, "a column is in its files and in the names of its folders", "give it one place")
    scan = pl.scan_parquet(files, glob=False, hive_partitioning=False, include_file_paths=_FILE)
    names = [str(file) for file in files]
    values = [[value for _, value in column] for column in zip(*partitions, strict=True)]
    columns = [
        pl.col(_FILE).replace_strict(names, texts_of_files, return_dtype=pl.String).alias(key)
        for key, texts_of_files in zip(keys, values, strict=True)
    ]
    scan = scan.with_columns(columns).drop(_FILE)
    return replace(_of_scan(scan, files[0], PARQUET, broken, text=text, keys=keys), files=names)


def _parquet_files(text: str, path: Path) -> list[Path]:
    """List the files of a table; names that start with a dot or an underscore are passed over, as by its writers."""

    def fail(error: OSError) -> None:
        raise error

    files: list[Path] = []
    for folder, folders, names in os.walk(path, onerror=fail):
        if any(log in folders for log in _LOGS):
            problem = "it is a table with a log of changes, so some of its files no longer count"
            raise FileProblem(text, problem, "read it with its own library, and give the dataframe")
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        if any(Path(folder, name).is_symlink() for name in folders):
            raise FileProblem(text, "it holds a link to a folder", "give the folder itself")
        here = [Path(folder, name) for name in sorted(names) if not name.startswith((".", "_"))]
        if any(format_of(file) != PARQUET or not file.is_file() for file in here):
            problem = "it holds a file that is not .parquet or .pq"
            raise FileProblem(text, problem, f"give a folder of Parquet files alone. {_NAMED}")
        files += here
    return files


def _partition_of(file: Path) -> list[tuple[str, str | None]]:
    """Return names and values of the hive partition that a file is in; these as CSV has texts, which parsing undoes."""
    parts = [part.partition("=") for part in file.parts[:-1] if "=" in part]
    texts_of_values: dict[str, str | None] = {value: escaped(unquote(value)) for _, _, value in parts}
    texts_of_values[_NULL] = None
    return [(unquote(key), texts_of_values[value]) for key, _, value in parts]


# -- the form of a file ------------------------------------------------------------------------------------------------
#
# CSV is read in full, before anything is counted or paid for, in blocks of whole records. Errors tell a line, never a
# content: a line says something of one record, so it is for the custodian's terminal alone.

_BLOCK, _LONGEST = 2**20, 2**26  # bytes of a block, and beyond that, until its quotes are closed
_LF, _CR, _QUOTE = b'\n\r"'
_SEPARATORS = {",": "commas", "\t": "tabs"}

_OTHER, _ADDRESS = "save its table as CSV or give a dataframe", "give the address of its table"
_KINDS = {  # first bytes: what they say, what to do where the ending says something else, and the format that is read
    b"\x1f\x8b": ("packed by gzip", "end its name in .csv.gz if it is CSV", "csv"),
    b"PAR1\x15": ("a Parquet file", "end its name in .parquet", "parquet"),
    b"ARROW1\0\0": ("an Arrow file", "end its name in .arrow", "arrow"),
    b"SQLite format 3\0": ("an SQLite database", f"{_ADDRESS}: sqlite:///FILE?table=NAME", ""),
    b"DUCK": ("a DuckDB database", f"{_ADDRESS}: duckdb:///FILE?table=NAME", ""),
    b"PK\3\4": ("an Excel file or another archive", f"end its name in .xlsx if it is Excel's, else {_OTHER}", "Excel"),
    b"\xd0\xcf\x11\xe0": ("encrypted, or an old Excel file", "save it as .xlsx without a password", ""),
    b"<stata_dta>": ("a Stata file", "end its name in .dta", "Stata"),
    **dict.fromkeys((b"$FL2@", b"$FL3@"), ("an SPSS file", "end its name in .sav", "SPSS")),
    b"HEADER RECORD***": ("a SAS transport file", "end its name in .xpt", "SAS"),
    bytes(12) + b"\xc2\xea\x81\x60": ("a SAS file", "end its name in .sas7bdat", "SAS"),
    b"%PDF": ("a PDF file", _OTHER, ""),
    **dict.fromkeys((b"<html", b"<!DOC", b"<?xml"), ("a web page or XML", _OTHER, "")),
    **dict.fromkeys((b'{"', b'[{"'), ("JSON", _OTHER, "")),
}


_ENCODING = " (encoding=...)"


def require_kind(text: str, path: Path, form: Format | None) -> Format:
    """Return the format of a file's ending. Raises FileProblem where there is none, or the content is of another."""
    with path.open("rb") as file:
        head = file.read(16)
    start = next(filter(head.startswith, _KINDS), head[8:12])  # where DuckDB has its mark
    kind, remedy, readable = _KINDS.get(start, ("not packed by gzip", "leave .gz out of its name", ""))
    is_packed = form is not None and form.compressed
    if (start in _KINDS and (form is None or form.kind != readable)) or is_packed != (readable == "csv"):
        raise FileProblem(text, f"its content is {kind}", remedy.replace("FILE", text))
    if form is not None and form.kind in ("Excel", "SPSS", "SAS") and start not in _KINDS:  # Stata had no mark once
        raise FileProblem(text, f"its content is not of {form.kind}", "end its name in .csv if it is CSV")
    if form is None:
        raise FileProblem(text, "the format is not known by this ending", f"give a file in {formats.READABLE}")
    return form


@lru_cache(maxsize=8)
def csv_form(text: str, path: Path, form: Format, _version: object) -> tuple[list[str], list[int]]:
    """Return the header of a CSV file, and the numbers of rows that are empty lines. Reads all of it."""
    # Raises FileProblem where a row has not the fields of the header, or is no text. Columns without a name are left
    # aside: a first one is an index, and last ones are separators that end every line.
    encoding, separator, names, line = formats.heading(path, form)
    words, width, row, blank = _SEPARATORS.get(separator, repr(separator)), len(names), -1, []
    if not any(names):
        raise FileProblem(text, "has no line with the names of its columns", "put one first")
    if width == 1 and ({",", ";", "\t"} - {separator}).intersection(names[0]):
        remedy = f"name its separator, or save it with {words}"
        raise FileProblem(text, f"its fields are not separated by {words}", remedy)
    last = max([place for place, name in enumerate(names) if name])
    nulls = width == 1 and formats.with_ending(path, ".certificate.json").exists()  # a release has empty lines for them
    for part in _blocks(path, form, encoding, line):
        block = _Block(part, ord(separator), width)
        if (problem := block.text_problem() or block.problem(header=row < 0, nulls=nulls)) is not None:
            place, problem_text, remedy = problem
            raise FileProblem(text, f"line {line + part.count(_LF, 0, place) + 1} {problem_text}", remedy)
        places = block.stops[~block.blank, None] - np.arange(1, width - last)  # of separators that end every line
        if "" in names[1:last] or (block.bytes[places] != block.separator).any():
            problem_text = f"column {names.index('', 1) + 1} has no name in its first line"
            remedy = "name it there. If that line is a record, put one with the names above it"
            raise FileProblem(text, problem_text, remedy)
        if not nulls:
            blank += (row + np.flatnonzero(block.blank)).tolist()
        row, line = row + len(block.blank), line + int(np.count_nonzero(block.bytes == _LF))
    return names, blank


def _blocks(path: Path, form: Format, encoding: str, skip: int) -> Iterator[bytes]:
    """Yield whole records as UTF-8, after some lines at the beginning."""
    with formats.unpacked(path, form) as file:
        quote: Any = b'"'
        lines: Any = file  # of UTF-8 left as they are, so that a wrong byte is found where it stands
        if encoding not in formats.UTF8:
            quote, lines = '"', io.TextIOWrapper(file, encoding, newline="\n")
        elif encoding_of(file.read(3)) != "utf-8-sig":
            file.seek(0)
        for _ in range(skip):
            lines.readline()
        while text := lines.read(_BLOCK):
            texts, size = [text, lines.readline()], 0
            odd = (text.count(quote) + texts[1].count(quote)) % 2
            while odd and size < _LONGEST and (text := lines.readline()):
                texts.append(text)
                odd, size = (odd + text.count(quote)) % 2, size + len(text)
            block = text[:0].join(texts)
            if isinstance(block, str):
                block = block.encode()
            yield block if block.endswith(b"\n") else block + b"\n"


class _Block:
    """Records of a CSV file, each up to its line feed; ``blank`` says which are empty lines."""

    def __init__(self, part: bytes, separator: int, width: int) -> None:
        self.part, self.separator, self.width = part, separator, width
        self.bytes = data = np.frombuffer(part, np.uint8)
        marks, self.quotes = (data == separator) | (data == _LF), np.flatnonzero(data == _QUOTE)
        if len(self.quotes):
            inside = np.bitwise_xor.accumulate((data == _QUOTE).view(np.uint8)).view(np.bool_)
            self.inner = np.flatnonzero(marks & inside)
            marks &= ~inside
        places = np.flatnonzero(marks)
        ends = np.flatnonzero(data[places] == _LF)
        self.fields, self.ends = np.diff(ends, prepend=-1), places[ends]
        self.stops = self.ends - (data[self.ends - 1] == _CR)
        self.blank = data[self.stops - 1] == _LF

    def text_problem(self) -> tuple[int, str, str] | None:
        """Return the place of the first byte that is no text, or quote that encloses no field, and what to do."""
        try:
            if not self.part.isascii():
                self.part.decode()
        except UnicodeDecodeError as error:
            field = self.part.count(self.separator, self.part.rfind(b"\n", 0, error.start) + 1, error.start) + 1
            problem = f"holds a byte that is not UTF-8, in field {field}"
            return error.start, problem, "save it as UTF-8 or name its encoding, often latin-1 or cp1252" + _ENCODING
        if not len(self.quotes):
            return None
        end, beside = len(self.bytes) - 1, np.zeros(256, dtype=np.bool_)
        beside[[self.separator, _LF, _QUOTE]] = True
        opens, closes = self.quotes[::2], np.append(self.quotes[1::2], end)[: (len(self.quotes) + 1) // 2]
        encloses = beside[self.bytes[opens - 1]]
        beside[_CR] = True
        wrong = encloses & ~beside[self.bytes[np.minimum(closes + 1, end)]] | (closes == end)  # or is never closed
        # Quotes within a field hold neither separators nor line feeds.
        wrong |= ~encloses & (np.searchsorted(self.inner, closes) > np.searchsorted(self.inner, opens))
        if not wrong.any():
            return None
        remedy = "put the whole field in quotes, and double each quote within it"
        return int(opens[wrong][0]), "has a quote that does not enclose a field", remedy

    def problem(self, *, header: bool, nulls: bool) -> tuple[int, str, str] | None:
        """Return the place of the first line that is no record, and what to do. Lines of blanks become empty ones."""
        width, rows = self.width, self.fields[1:][~self.blank[1:]]
        if header and self.fields[0] != width:
            return 0, "ends in a carriage return without a line feed", "save the file with line feeds"
        if header and len(rows) > 1 and rows[0] != width and (rows == rows[0]).all():
            problem = f"has {counted(width, 'field')} and those below it {rows[0]}"
            return 0, problem, "save it without lines above the names of the columns, and with a name for each"
        if width == 1 and self.blank.any() and not nulls:
            remedy = "save the file without it. If it stands for a null, save the table as Parquet"
            return int(self.ends[self.blank][0]), "is empty, which in a file of one column could be a null", remedy
        starts = np.append(0, self.ends + 1)
        for record in np.flatnonzero((self.fields != width) & ~self.blank):
            start = int(starts[record])
            if self.part[start : self.ends[record]].strip():
                problem = f"has {counted(int(self.fields[record]), 'field')} and the header {width}"
                return start, problem, "complete it if it is cut, and put values that hold a separator in quotes"
            self.blank[record] = True
        return None
