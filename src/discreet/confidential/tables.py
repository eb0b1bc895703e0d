"""Where a confidential table is: a dataframe of any library, a file, a folder of Parquet files, or a database.

A folder is one table, and the values in the names of its folders (``sex=f``) are columns of texts. No file or folder
within it is named in a message: the names of hive partitions are values of the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike, fspath
from os.path import lexists
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from discreet._core.boundary import enclosed, quietly
from discreet._core.checks import unfit
from discreet._core.errors import FileProblem
from discreet._core.files import require_settled
from discreet._core.formats import PARQUET, Format, format_of, scanned, stored_index, texts
from discreet._core.lazy import pl
from discreet.confidential.source import RESERVED, Source, require_once, scan_batches, type_name
from discreet.domain import escaped, unescaped

_ROW = f"{RESERVED}row"
_UNREAD = "cannot be read", "check its permissions"


@enclosed
def open_source(data: Any) -> Source:
    """Look at a table's names and types; no row is read. A source is returned as it is: some can be opened once only.

    Raises FileProblem if the file cannot be read, or DataError if the value is no table.
    """
    if isinstance(data, Source):
        return data
    if _is_address(data):
        from discreet.confidential.database import open_table

        source = open_table(data)
    elif isinstance(data, (str, PathLike)):
        source = _open_path(data)
    else:
        from discreet.confidential.frames import open_frame

        source = open_frame(data)
    require_once(source.names, source.kind)
    return source


def require_there(data: Any) -> Any:
    """Return a table as it is, and a CSV file as its source, whose form is checked; nothing else is opened.

    Raises FileProblem where there is no file, or no such form.
    """
    if data is None or isinstance(data, (bool, int, float)):
        raise unfit("data", "a dataframe, or the path of a file", data)
    if _is_address(data):
        from discreet.confidential.database import require_reachable

        require_reachable(data)
    elif isinstance(data, (str, PathLike)):
        if not lexists(data):
            require_settled(data)
            raise FileProblem(fspath(data), "there is no such file", "check the path")
        if (form := format_of(data)) is not None and form.texts:
            return _open_path(data)
    return data


def _is_address(data: Any) -> bool:
    return isinstance(data, str) and "://" in data


def _open_path(data: str | PathLike[str]) -> Source:
    from discreet.confidential.form import require_kind

    text, path = fspath(data), Path(data)
    require_settled(path)
    if path.is_dir():
        return _open_folder(text, path)
    if not path.exists():
        raise FileProblem(text, "there is no such file", "check the path")
    if not path.is_file():
        raise FileProblem(text, "is not a file", "give a file, or a folder of Parquet files")
    if quietly(path.stat, FileProblem(text, *_UNREAD)).st_size == 0:
        raise FileProblem(text, "is empty: it has no header and no rows", "give a file with a table")
    form = quietly(lambda: require_kind(text, path, format_of(data)), FileProblem(text, *_UNREAD))
    if form.texts:
        return _open_csv(text, path, form)
    problem = f"is not a readable {form.kind.title()} file"
    broken = FileProblem(text, problem, "give the complete file, in this format")
    return _of_scan(quietly(lambda: scanned(path, form), broken), path, form, broken, text=text)


def _of_scan(
    scan: pl.LazyFrame, path: Path, form: Format, broken: FileProblem, *, text: str, keys: Sequence[str] = ()
) -> Source:
    """Return the source of a scan of types, but for the ``keys``, which are texts; ``path`` says what is an index."""
    from discreet.confidential.returned import as_polars

    schema = quietly(scan.collect_schema, broken)
    index = quietly(lambda: stored_index(list(schema), texts(path, form).get("pandas")), broken)
    types = {name: type_name(dtype) for name, dtype in schema.items() if name not in index}
    return Source(
        kind=form.kind,
        path=text,
        stays=True,
        names=tuple(types),
        types=lambda: types | dict.fromkeys(keys, "unknown"),
        batches=lambda columns: scan_batches(scan, columns, broken),
        texts=frozenset(keys),
        index=index,
        returned=as_polars({name: dtype for name, dtype in schema.items() if name not in keys}),
    )


def _open_csv(text: str, path: Path, form: Format) -> Source:
    from discreet.confidential.form import csv_form

    broken = FileProblem(text, "is not a readable CSV file", "give the complete file, and name its encoding")
    header, blank = quietly(partial(csv_form, text, path, form), broken)
    places = {place: unescaped(name) for place, name in enumerate(header) if name}

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        scan = scanned(path, form)
        if blank:
            scan = scan.with_row_index(_ROW).filter(~pl.col(_ROW).is_in(blank)).drop(_ROW)
        header_names = quietly(scan.collect_schema, broken).names()
        return scan_batches(scan.rename({header_names[place]: name for place, name in places.items()}), columns, broken)

    names = tuple(places.values())
    require_once(names, "csv")
    return Source(
        kind="csv",
        path=text,
        stays=True,
        names=names,
        types=lambda: dict.fromkeys(names, "unknown"),
        batches=read,
        texts=frozenset(names),
        decimal_comma=form.decimal_comma,
    )


# -- folders ----------------------------------------------------------------------------------------------------------

_FILE = "discreet: file"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LOGS = ("_delta_log", ".hoodie")


def _open_folder(text: str, path: Path) -> Source:
    unread = FileProblem(text, "the folder cannot be read", "check its permissions")
    files = quietly(lambda: _parquet_files(text, path), unread)
    if not files:
        raise FileProblem(text, "it is a folder without Parquet files", "give one with them, or one file")
    partitions = [_partition_of(file.relative_to(path)) for file in files]
    keys = [key for key, _ in partitions[0]]
    if any([key for key, _ in partition] != keys for partition in partitions) or len(set(keys)) < len(keys):
        raise FileProblem(text, "its folders are not partitions by the same columns", "give one table")
    broken = FileProblem(text, "it holds a file that is not readable Parquet", "give the complete files")
    schemas = [quietly(lambda file=file: scanned(file, PARQUET).collect_schema(), broken) for file in files]  # type: ignore[misc]
    if any(schema != schemas[0] for schema in schemas):
        raise FileProblem(text, "its files have different columns or types", "give one table")
    if set(keys) & set(schemas[0]):
        raise FileProblem(text, "a column is in its files and in the names of its folders", "give it one place")
    scan = pl.scan_parquet(files, glob=False, hive_partitioning=False, include_file_paths=_FILE)
    names = [str(file) for file in files]
    values = [[value for _, value in column] for column in zip(*partitions, strict=True)]
    columns = [
        pl.col(_FILE).replace_strict(names, texts_of_files, return_dtype=pl.String).alias(key)
        for key, texts_of_files in zip(keys, values, strict=True)
    ]
    return _of_scan(scan.with_columns(columns).drop(_FILE), files[0], PARQUET, broken, text=text, keys=keys)


def _parquet_files(text: str, path: Path) -> list[Path]:
    """List the files of a table; names that start with a dot or an underscore are passed over, as by its writers."""

    def fail(error: OSError) -> None:
        raise error

    files: list[Path] = []
    for folder, folders, names in os.walk(path, onerror=fail):
        if any(log in folders for log in _LOGS):
            raise FileProblem(
                text,
                "it is a table with a log of changes, so some of its files no longer count",
                "read it with its own library, and give the dataframe",
            )
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        if any(Path(folder, name).is_symlink() for name in folders):
            raise FileProblem(text, "it holds a link to a folder", "give the folder itself")
        here = [Path(folder, name) for name in sorted(names) if not name.startswith((".", "_"))]
        if any(format_of(file) != PARQUET or not file.is_file() for file in here):
            problem = "it holds a file that is not .parquet or .pq"
            raise FileProblem(text, problem, "give a folder of Parquet files alone")
        files += here
    return files


def _partition_of(file: Path) -> list[tuple[str, str | None]]:
    """Return names and values of the hive partition that a file is in; these as CSV has texts, which parsing undoes."""
    parts = [part.partition("=") for part in file.parts[:-1] if "=" in part]
    texts_of_values: dict[str, str | None] = {value: escaped(unquote(value)) for _, _, value in parts}
    texts_of_values[_NULL] = None
    return [(unquote(key), texts_of_values[value]) for key, _, value in parts]
