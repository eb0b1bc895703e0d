"""Files of tables: the one place that knows their endings, and how each format is scanned."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from discreet._core import arrow, parquet
from discreet._core.checks import unfit
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl

_LONGEST = 2**24
_SEPARATOR = re.compile(r"[\t,;|:!#$%&*/<>?@^~]")
_QUOTED = re.compile(rf'"(?:[^"]|"")*"({_SEPARATOR.pattern})')
_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a table is written.

    ``kind``: parquet, csv or arrow.
    ``separator``: of the fields of CSV; empty where values have types.
    ``compressed``: whether CSV is packed by gzip.
    ``encoding``: of CSV.
    ``decimal_comma``: whether the numbers of CSV have a comma before their decimals.
    """

    kind: str
    separator: str = ""
    compressed: bool = False
    encoding: str = "utf-8"
    decimal_comma: bool = False

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


@dataclass(frozen=True, slots=True)
class DelimitedFile(PathLike[str]):
    """The path of a CSV file that is written in another way than usual.

    Raises ParameterError when the ending is none of CSV, or what is given cannot be.

    ``path``: the file.
    ``separator``: of its fields, where it is not the one of its ending.
    ``encoding``: of its texts.
    ``decimal_comma``: whether its numbers have a comma before their decimals.
    """

    path: str
    separator: str | None = None
    encoding: str = "utf-8"
    decimal_comma: bool = False

    def __post_init__(self) -> None:
        form = format_of(self.path)
        if form is None or not form.texts:
            raise ParameterError("a separator, an encoding and a decimal comma are for CSV files. Leave them out")
        if self.separator is not None and not _SEPARATOR.fullmatch(self.separator):
            raise unfit("separator", "one character between fields, such as | or a tab", self.separator)
        try:
            codecs.lookup(self.encoding)
            "".encode(self.encoding)
        except (LookupError, ValueError):
            raise unfit("encoding", "the name of an encoding, such as latin-1 or utf-16", self.encoding) from None

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


def format_of(path: str | PathLike[str]) -> Format | None:
    """Return the format of a name's ending, in small letters or capitals; None where it is another one."""
    form = _FORMATS.get(_ending(Path(path)))
    if form is None or not isinstance(path, DelimitedFile):
        return form
    separator = form.separator if path.separator is None else path.separator
    return replace(form, separator=separator, encoding=path.encoding, decimal_comma=path.decimal_comma)


def with_ending(path: Path, ending: str) -> Path:
    """Return a name with another ending: of a file of a table, ``.csv.gz`` is one ending."""
    known = _ending(path)
    return path.with_name(path.name[: -len(known)] + ending) if known else path.with_suffix(ending)


def _ending(path: Path) -> str:
    name = path.name.lower()
    for ending in _FORMATS:
        if name.endswith(ending) and len(name) > len(ending):
            return ending
    return ""


def scanned(path: str | PathLike[str], form: Format) -> pl.LazyFrame:
    """Scan a file; of CSV every column is text, and nothing is inferred.

    Raises Exception of some kind, if the file cannot be read; for `quietly`.
    """
    path = Path(path)
    if not form.texts:
        return parquet.scanned(path) if form.kind == "parquet" else arrow.scanned(path)
    options: dict[str, Any] = {"infer_schema": False, "separator": _separator(path, form)}
    if codecs.lookup(form.encoding).name in ("utf-8", "ascii"):
        scan = pl.scan_csv(path, glob=False, **options)
    else:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if form.compressed else raw).decode(form.encoding)
        scan = pl.scan_csv(io.BytesIO(text.encode("utf-8")), **options)
    found, names = scan.collect_schema().names(), header(path, form)
    # Polars keeps the quotes that are doubled within a name.
    return scan if found == names or '"' not in "".join(names) else scan.rename(dict(zip(found, names, strict=True)))


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
    with _opened(path, form) as file:
        return next(csv.reader(_lines(file), delimiter=_separator(path, form)), [])


def _opened(path: Path, form: Format) -> TextIO:
    encoding = "utf-8-sig" if codecs.lookup(form.encoding).name == "utf-8" else form.encoding
    opened: Any = gzip.open if form.compressed else open
    file: TextIO = opened(path, "rt", encoding=encoding, newline="")
    return file


def _separator(path: Path, form: Format) -> str:
    """Return what separates the fields.

    Where the first name of a header is in quotes, it is what comes after it: so files that are written with another
    separator than that of their ending tell it themselves.
    """
    with _opened(path, form) as file:
        quoted = _QUOTED.match(next(_lines(file), ""))
    return quoted[1] if quoted else form.separator


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
