"""A folder of Parquet files as one table; the values in the names of its folders (``sex=f``) are columns of texts.

No file or folder within it is named in a message: the names of hive partitions are values of the table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from discreet._core.boundary import quietly
from discreet._core.errors import FileProblem
from discreet._core.formats import PARQUET, format_of, scanned
from discreet._core.lazy import pl
from discreet.domain import escaped

_FILE = "discreet: file"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LOGS = ("_delta_log", ".hoodie")


def scanned_folder(path: Path, address: str) -> tuple[pl.LazyFrame, tuple[str, ...], Path]:
    """Scan all files; return the table, which of its columns are from the names of folders, and the first file.

    Raises FileProblem, which names ``address``, when the folder does not hold one table of Parquet files.
    """
    unread = FileProblem(address, "the folder cannot be read", "check its permissions")
    files = quietly(lambda: _files(path, address), unread)
    if not files:
        raise FileProblem(address, "it is a folder without Parquet files", "give one with them, or one file")
    parts = [_partition(file.relative_to(path)) for file in files]
    keys = tuple(key for key, _ in parts[0])
    if any(tuple(key for key, _ in part) != keys for part in parts) or len(set(keys)) < len(keys):
        raise FileProblem(address, "its folders are not partitions by the same columns", "give one table")
    broken = FileProblem(address, "it holds a file that is not readable Parquet", "give the complete files")
    schemas = [quietly(lambda file=file: scanned(file, PARQUET).collect_schema(), broken) for file in files]  # type: ignore[misc]
    if any(schema != schemas[0] for schema in schemas):
        raise FileProblem(address, "its files have different columns or types", "give one table")
    if set(keys) & set(schemas[0]):
        raise FileProblem(address, "a column is in its files and in the names of its folders", "give it one place")
    if not keys:
        return pl.scan_parquet(files, glob=False, hive_partitioning=False), (), files[0]
    scan = pl.scan_parquet(files, glob=False, hive_partitioning=False, include_file_paths=_FILE)
    return _with_partitions(scan, files, parts), keys, files[0]


def _files(path: Path, address: str) -> list[Path]:
    """List the files of a table; names that start with a dot or an underscore are passed over, as by its writers."""
    files_found = []
    for folder, folders, names in os.walk(path, onerror=_failed):
        if any(log in folders for log in _LOGS):
            problem = "it is a table with a log of changes, so some of its files no longer count"
            raise FileProblem(address, problem, "read it with its own library, and give the dataframe")
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        if any(Path(folder, name).is_symlink() for name in folders):
            raise FileProblem(address, "it holds a link to a folder", "give the folder itself")
        files = [Path(folder, name) for name in sorted(names) if not name.startswith((".", "_"))]
        if any(format_of(file) != PARQUET or not file.is_file() for file in files):
            raise FileProblem(
                address, "it holds a file that is not .parquet or .pq", "give a folder of Parquet files alone"
            )
        files_found += files
    return files_found


def _failed(error: OSError) -> None:
    raise error


def _partition(file: Path) -> list[tuple[str, str | None]]:
    """Return names and values of the hive partition that a file is in; these as CSV has texts, which parsing undoes."""
    parts = [part.partition("=") for part in file.parts[:-1] if "=" in part]
    return [(unquote(key), None if value == _NULL else escaped(unquote(value))) for key, _, value in parts]


def _with_partitions(
    scan: pl.LazyFrame, files: Sequence[Path], parts: Sequence[Sequence[tuple[str, str | None]]]
) -> pl.LazyFrame:
    """Give every row the values of its file's partition."""
    where = pl.col(_FILE)
    names = [str(file) for file in files]
    columns = []
    for place, (key, _) in enumerate(parts[0]):
        values = [part[place][1] for part in parts]
        columns.append(where.replace_strict(names, values, return_dtype=pl.String).alias(key))
    return scan.with_columns(columns).drop(_FILE)
