"""Files of tables: the one place that knows their endings, and how each format is scanned."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TextIO

from discreet._core import arrow, parquet
from discreet._core.lazy import pl

_LONGEST = 2**24
_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a table is written.

    ``kind``: parquet, csv or arrow.
    ``separator``: of the fields of CSV; empty where values have types.
    ``compressed``: whether CSV is packed by gzip.
    """

    kind: str
    separator: str = ""
    compressed: bool = False

    @property
    def texts(self) -> bool:
        """Whether all values are texts, and the file can say nothing of itself."""
        return bool(self.separator)


PARQUET = Format(kind="parquet")
_ARROW = Format(kind="arrow")
_FORMATS = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".csv": Format(kind="csv", separator=","),
    ".csv.gz": Format(kind="csv", separator=",", compressed=True),
    ".tsv": Format(kind="csv", separator="\t"),
    ".tsv.gz": Format(kind="csv", separator="\t", compressed=True),
    ".feather": _ARROW,
    ".arrow": _ARROW,
    ".ipc": _ARROW,
}

ENDINGS = ", ".join(list(_FORMATS)[:-1]) + f" or {list(_FORMATS)[-1]}"
"""All endings, as a sentence names them."""


def format_of(path: str | PathLike[str]) -> Format | None:
    """Return the format of a name's ending, in small letters or capitals; None where it is another one."""
    return _FORMATS.get(_ending(Path(path)))


def with_ending(path: Path, ending: str) -> Path:
    """Return a name with another ending: of a file of a table, ``.csv.gz`` is one ending."""
    known = _ending(path)
    return path.with_name(path.name[: -len(known)] + ending) if known else path.with_suffix(ending)


def _ending(path: Path) -> str:
    name = path.name.lower()
    return next((ending for ending in _FORMATS if name.endswith(ending) and len(name) > len(ending)), "")


def scanned(path: str | PathLike[str], form: Format) -> pl.LazyFrame:
    """Scan a file; of CSV every column is text, and nothing is inferred.

    Raises Exception of some kind, if the file cannot be read; for `quietly`.
    """
    if form.texts:
        scan = pl.scan_csv(Path(path), glob=False, infer_schema=False, separator=form.separator)
        names = header(Path(path), form)
        if any('"' in name for name in names):  # which Polars leaves doubled, as they stand in the file
            scan = scan.rename(dict(zip(scan.collect_schema().names(), names, strict=False)))
        return scan
    return parquet.scanned(path) if form.kind == "parquet" else arrow.scanned(path)


def texts(path: str | PathLike[str], form: Format) -> dict[str, str]:
    """Return what a file says of itself: the texts of its metadata, by key. CSV says nothing.

    Raises Exception of some kind, if the file cannot be read; for `quietly`.
    """
    if form.texts:
        return {}
    return parquet.texts(path) if form.kind == "parquet" else arrow.texts(path)


def header(path: Path, form: Format) -> list[str]:
    """Return the fields of the first line of a CSV file.

    Raises Exception of some kind, if the file cannot be read; for `quietly`.
    """
    opened = gzip.open if form.compressed else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(_lines(file), delimiter=form.separator), [])


def _lines(file: TextIO) -> Iterator[str]:
    """Yield lines, none of them as long as a few bytes of gzip could make it."""
    while line := file.readline(_LONGEST):
        if len(line) == _LONGEST:
            raise ValueError("a line is too long for a header")
        yield line


def stored_index(names: Sequence[str], told: str | None) -> frozenset[str]:
    """Return which columns are the index of a pandas table, and no columns of it.

    Raises Exception of some kind, if the metadata are none of pandas; for `quietly`.

    ``names``: all columns.
    ``told``: what pandas stored of itself under the key "pandas".
    """
    listed = [] if told is None else json.loads(told)["index_columns"]
    return frozenset(name for name in names if name in listed or _INDEX.fullmatch(name))
