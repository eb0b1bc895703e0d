"""Where a confidential table is: a dataframe of any library, or a file; read as Polars batches of raw values."""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from discreet._core import parquet
from discreet._core.boundary import enclosed, quietly
from discreet._core.errors import DataError, DiscreetError, FileProblem, ParameterError
from discreet._core.lazy import nw, pl
from discreet._core.text import counted, with_article
from discreet._core.writing import require_settled
from discreet.domain._column import Column, Misfit
from discreet.domain._spreadsheet import unescaped

RESERVED = "discreet: "
"""How the names of columns added while counting start."""

FREQUENCY = f"{RESERVED}frequency"
"""Name of the column that holds the frequencies of grouped batches."""

_BATCH = 2**19


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A confidential table.

    ``kind``: the dataframe library, or parquet or csv.
    ``path``: the file, as the caller gave it.
    ``names``: the table's columns, in order.
    ``texts``: whether every value is a text still to be parsed (CSV).
    ``types``: Gives the public type of each column; reads no row.
    ``batches``: ``batches(columns)`` iterates over Polars frames with these columns; where the frames are grouped
    already, the column :data:`FREQUENCY` says how often each row occurs.
    """

    kind: str
    path: str | None
    names: tuple[str, ...]
    texts: bool
    types: Callable[[], dict[str, str]]
    batches: Callable[[Sequence[str]], Iterator[pl.DataFrame]]


@enclosed
def open_source(data: Any) -> Source:
    """Look at a table's names and types; no row is read.

    Raises FileProblem if the file cannot be read, or DataError if the value is no table, or has two columns of one
    name.
    """
    source = _open_path(data) if isinstance(data, (str, PathLike)) else _open_frame(data)
    _refuse_repeated(source.names, source.kind)
    return source


def declared_batches(source: Source, columns: Mapping[str, Column], *others: str) -> Iterator[pl.DataFrame]:
    """Iterate over batches of declared columns, and others, whose types are known to be the declared ones.

    Types that no declaration takes are refused before anything is computed from their values: a library that cannot
    hash or compare them writes them to the terminal as it fails. Raises DataError naming the column.
    """
    for batch in source.batches(list(dict.fromkeys([*columns, *others]))):
        for name, column in () if source.texts else columns.items():
            column.encode(batch[name].clear(), name=name)
        yield batch


def parsed(frame: pl.DataFrame, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return a frame of texts as the declared types; a text that cannot be read is an error, not a null."""
    parts = []
    for name, column in columns.items():
        values, unread = parsed_column(frame[name], column)
        if unread.where.any():
            raise DataError(name, unread.problem, unread.remedy)
        parts.append(values.alias(name))
    return frame.with_columns(parts)


def parsed_column(texts: pl.Series, column: Column) -> tuple[pl.Series, Misfit]:
    """Return texts as the declared type, and which of them cannot be read."""
    values = column.parse(texts)
    problem = f"holds a text that is not {with_article(column.kind)}"
    where = (values.is_null() & texts.is_not_null()).to_numpy()
    return values, Misfit(problem, "correct the file or the declaration", where)


def _refuse_repeated(names: Sequence[str], kind: str) -> None:
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name not in first:
            first[name] = place
        elif kind == "csv":  # a file without a header line has values there
            problem = f"columns {first[name]} and {place} have the same name in its first line"
            raise DataError(None, problem, "give the file a header line, and every column its own name")
        else:
            raise DataError(name, "occurs twice in the table", "give every column its own name")


def require_names(source: Source, wanted: Collection[str], *, table: str = "table") -> None:
    """Refuse a table without one of the declared columns. Raises DataError naming the column."""
    for refusal in missing_names(source, wanted, table=table):
        raise refusal


def missing_names(source: Source, wanted: Collection[str], *, table: str = "table") -> list[DataError]:
    """Return one error for each declared column that a table lacks.

    The names that the table has are not told unless one of them is declared: those of a file without a header line, or
    of a frame read from one, are the values of its first record. Those of a CSV file never are.
    """
    missing = [name for name in wanted if name not in source.names]
    if not missing:
        return []
    known = sum(found in wanted for found in source.names)
    if source.kind != "csv" and known:
        remedy = "its columns are: " + ", ".join(map(repr, source.names))
    else:
        which = "none" if not known else f"{known}"
        has = counted(len(source.names), "column")
        remedy = f"it has {has}, of which {which} {'is' if known == 1 else 'are'} declared"
        remedy += ". Check that its first line holds the names" if source.kind == "csv" else ". Check their names"
    return [DataError(name, f"is not in the {table}", remedy) for name in missing]


def looks_like_a_record(names: Sequence[str]) -> bool:
    """Whether the first line of a CSV file cannot be a header: a field is empty, a number, a truth value or a date.

    A line of words alone may still be a record: who writes its fields into a public file has to say where they are
    from.
    """
    return any(_is_a_value(name.strip()) for name in names)


def _is_a_value(text: str) -> bool:
    return _VALUE.fullmatch(text) is not None


_VALUE = re.compile(
    r"""|[+-]?(\d[\d_.,' ]*|\.\d+)(e[+-]?\d+)?\s?[%€$£]?|[€$£].*|[+-]?(nan|inf|infinity)|null|none|n/a
    |true|false|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:.*)?""",
    re.VERBOSE | re.IGNORECASE,
)


# -- files ------------------------------------------------------------------------------------------------------------


def _open_path(data: str | PathLike[str]) -> Source:
    text, path = fspath(data), Path(data)
    require_settled(path)
    if not path.exists():
        raise FileProblem(text, "there is no such file", "check the path")
    if not path.is_file():
        raise FileProblem(text, "is not a file", "give one Parquet or CSV file")
    if quietly(lambda: path.stat().st_size, FileProblem(text, "cannot be read", "check its permissions")) == 0:
        raise FileProblem(text, "is empty: it has no header and no rows", "give a Parquet or CSV file with a table")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        broken = FileProblem(text, "is not a readable Parquet file", "give the complete file, in this format")
        scan = quietly(lambda: parquet.scanned(path), broken)
        schema = quietly(scan.collect_schema, broken)
        return Source(
            kind="parquet",
            path=text,
            names=tuple(schema),
            texts=False,
            types=lambda: {name: _type_name(dtype) for name, dtype in schema.items()},
            batches=lambda columns: _scanned(scan, columns, broken),
        )
    if suffix == ".csv":
        broken = FileProblem(
            text,
            "is not a readable CSV file",
            "give it a header line, save it as UTF-8, and give every row as many fields",
        )
        header = [unescaped(name) for name in quietly(lambda: _header(path), broken)]
        if not header:
            raise broken
        if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
            raise FileProblem(text, "its fields are not separated by commas", "save it with commas")

        def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
            scan = pl.scan_csv(path, glob=False, infer_schema=False)  # every column is text: nothing is inferred
            found = quietly(lambda: scan.collect_schema().names(), broken)
            return _scanned(scan.rename(dict(zip(found, header, strict=False))), columns, broken)

        return Source(
            kind="csv",
            path=text,
            names=tuple(header),
            texts=True,
            types=lambda: dict.fromkeys(header, "unknown"),
            batches=read,
        )
    raise FileProblem(text, "is neither .parquet nor .csv", "convert it, or pass a dataframe")


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file), [])


def _scanned(scan: pl.LazyFrame, columns: Sequence[str], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Stream a scan in batches, in any order."""
    lazy = scan.select(columns)
    batches = quietly(
        lambda: iter(lazy.collect_batches(chunk_size=_BATCH, maintain_order=False, engine="streaming")), broken
    )
    while True:
        batch = quietly(lambda: next(batches, None), broken)
        if batch is None:
            return
        yield batch


# -- dataframes -------------------------------------------------------------------------------------------------------


def _open_frame(data: Any) -> Source:
    unsupported = DataError(
        None,
        f"the type {type(data).__name__} is not a supported table",
        "pass a pandas, Polars, PyArrow, DuckDB, Dask, PySpark or Ibis frame, or a path to Parquet or CSV",
    )
    names = quietly(lambda: [str(name) for name in getattr(data, "column_names", ())], unsupported)
    if not names and type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
    _refuse_repeated(names, "frame")
    if type(data).__module__.partition(".")[0] == "pandas" and importlib.util.find_spec("pyarrow") is None:
        raise ParameterError("reading a pandas table needs PyArrow. Install it: pip install pyarrow")
    frame = quietly(lambda: nw.from_native(data), unsupported)
    if not isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        raise unsupported
    schema = quietly(frame.collect_schema, unsupported)
    kind = frame.implementation.name.lower()
    broken = DataError(None, "could not be read", f"check that {kind} can read it, and the types of its columns")

    def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        if isinstance(frame, nw.DataFrame):
            return _sliced(frame, columns)
        return _scanned(frame.to_native(), columns, broken) if kind == "polars" else _grouped(frame, columns, broken)

    return Source(
        kind=kind,
        path=None,
        names=tuple(schema.names()),
        texts=False,
        types=lambda: {name: _type_name(dtype) for name, dtype in schema.items()},
        batches=batches,
    )


def _sliced(frame: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Take an in-memory frame in slices, column by column so that an error names the culprit."""
    for start in range(0, len(frame), _BATCH):
        yield pl.DataFrame({name: _part(frame, name, start) for name in columns})


def _part(frame: Any, name: str, start: int) -> pl.Series:
    mixed = DataError(name, "its values have no common type", "cast the column to the declared type")
    part = frame[start : start + _BATCH].select(name)
    taken: pl.Series = quietly(lambda: part.to_polars().to_series(), mixed)
    objects = quietly(lambda: str(getattr(part[name].to_native(), "dtype", "")) == "object", mixed)
    if objects and taken.null_count() == len(taken):  # no value says of which type these pandas objects are
        return pl.repeat(None, len(taken), dtype=pl.Null(), eager=True).alias(name)
    return taken


def _grouped(frame: Any, columns: Sequence[str], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Count distinct rows where the table is; only these and their frequencies come back."""
    counted = frame.group_by(*columns).agg(nw.len().alias(FREQUENCY))
    yield quietly(lambda: counted.collect().to_polars(), broken)


def _type_name(dtype: Any) -> str:
    """Return the kind of column that usually declares a type; a narwhals or Polars type."""
    name = dtype.base_type().__name__
    for prefix, kind in _TYPE_NAMES:
        if name.startswith(prefix):
            return kind
    return "unknown"


_TYPE_NAMES = (
    ("Float", "numeric"),
    ("Int", "integer"),
    ("UInt", "integer"),
    ("Bool", "boolean"),
    ("Datetime", "datetime"),
    ("Date", "date"),
    ("Duration", "duration"),
    ("Decimal", "decimal"),
    ("String", "string"),
    ("Categorical", "string"),
    ("Enum", "string"),
)
