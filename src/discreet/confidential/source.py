"""Where a confidential table is: a dataframe of any library, or a file; read as Polars batches of raw values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet._core.boundary import enclosed, quietly
from discreet._core.checks import unfit
from discreet._core.errors import DataError, DiscreetError, FileProblem
from discreet._core.files import require_settled
from discreet._core.formats import ENDINGS, PARQUET, Format, format_of, heading, scanned, stored_index, texts
from discreet._core.lazy import nw, pl
from discreet._core.text import counted, with_article
from discreet.confidential.cells import Cells, EngineFailed, attempted
from discreet.domain import Column, Misfit, unescaped

if TYPE_CHECKING:
    from discreet.confidential.database import Address
    from discreet.confidential.returned import Returned

RESERVED = "discreet: "
"""How the names of columns added while counting start."""

FREQUENCY = f"{RESERVED}frequency"
"""Name of the column that holds the frequencies of grouped batches."""

BATCH = 2**18


class Texts(frozenset[str]):
    """Columns whose values are texts still to be parsed."""

    decimal_comma = False  # whether numbers in them have a comma before their decimals


class CommaTexts(Texts):
    """Texts in which numbers have a comma before their decimals."""

    decimal_comma = True


_NO_TEXTS = Texts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A confidential table: its public names and types, and what reads its rows."""

    kind: str  # the dataframe library, or the format of a file: parquet, csv, arrow or database
    path: str | None  # the file, as the caller gave it
    names: tuple[str, ...]
    types: Callable[[], dict[str, str]]  # the public type of each column; reads no row
    # Frames of some columns; where they are grouped already, FREQUENCY says how often each row occurs.
    batches: Callable[[Sequence[str]], Iterator[pl.DataFrame]]
    texts: Texts = _NO_TEXTS  # columns still to be parsed: those of CSV, of SQLite, and of the names of folders
    index: frozenset[str] = frozenset()  # columns of a file that pandas wrote as an index, and not among the names
    cells: Callable[[Mapping[str, Column]], Cells] | None = None  # of an engine with workers, instead of batches
    # Cuts some columns by unit, most and key where the table is, as Cells.slots does.
    slots: Callable[[Sequence[str], str, int, str], tuple[pl.DataFrame, int, int] | None] | None = None
    stays: bool = False  # whether the rows are elsewhere than in memory, and can be read as often as one likes
    returned: Returned | None = None  # makes a released table the kind of table that this is


@enclosed
def open_source(data: Any) -> Source:
    """Look at a table's names and types; no row is read. A source is returned as it is: some can be opened once only.

    Raises FileProblem if the file cannot be read, or DataError if the value is no table.
    """
    if isinstance(data, Source):
        return data
    where = _address(data)
    if where is not None:
        source = _open_database(where)
    elif isinstance(data, (str, PathLike)):
        source = _open_path(data)
    else:
        from discreet.confidential.frames import open_frame

        source = open_frame(data)
    require_once(source.names, source.kind)
    return source


def _address(data: Any) -> Address | None:
    """Return the address of a table in a database, which is loaded for it; None where it is none."""
    if not isinstance(data, str) or "://" not in data:
        return None
    from discreet.confidential.database import address

    return address(data)


def require_there(data: Any) -> None:
    """Refuse a path, or the address of a table, where there is no file; nothing is opened. Raises FileProblem."""
    if data is None or isinstance(data, (bool, int, float)):
        raise unfit("data", "a dataframe, or the path of a file", data)
    where = _address(data)
    if where is not None:
        from discreet.confidential.database import require_reachable

        require_reachable(where)
    elif isinstance(data, (str, PathLike)) and not lexists(data):
        require_settled(data)
        raise FileProblem(fspath(data), "there is no such file", "check the path")


def declared_batches(source: Source, columns: Mapping[str, Column], *extra: str) -> Iterator[pl.DataFrame]:
    """Iterate over batches of declared columns, and others, of the declared types. Raises DataError of another type.

    A library that cannot hash or compare values of another type would write them to the terminal as it fails.
    """
    schema = None
    for batch in source.batches(list(dict.fromkeys([*columns, *extra]))):
        if batch.schema != schema:
            schema = batch.schema
            for name, column in columns.items():
                if name not in source.texts:
                    column.encode(batch[name].clear(), name=name)
        yield batch


def cells_of(source: Source, columns: Mapping[str, Column]) -> Cells | None:
    """Return the cells of declared columns where the table is; None where raw values have to be read."""
    find = source.cells
    if find is None:
        return None
    try:
        return attempted(lambda: find(columns))
    except EngineFailed:
        return None


def parsed(frame: pl.DataFrame, columns: Mapping[str, Column], texts: Texts) -> pl.DataFrame:
    """Return a frame with its texts as the declared types; a text that cannot be read is an error, not a null."""
    parts = []
    for name, column in columns.items():
        if name not in texts:
            continue
        values, unread = parsed_column(frame[name], column, decimal_comma=texts.decimal_comma)
        if unread.where.any():
            raise DataError(name, unread.problem, unread.remedy)
        parts.append(values.alias(name))
    return frame.with_columns(parts)


def parsed_column(texts: pl.Series, column: Column, *, decimal_comma: bool = False) -> tuple[pl.Series, Misfit]:
    """Return texts as the declared type, and which of them cannot be read.

    With ``decimal_comma`` a point is no part of a number, since it could stand between thousands.
    """
    numbers = decimal_comma and column.kind in ("numeric", "decimal")
    values = column.parse(texts.str.replace_many([".", ","], ["?", "."]) if numbers else texts)
    problem = f"holds a text that is not {with_article(column.kind)}"
    where = (values.is_null() & texts.is_not_null()).to_numpy()
    return values, Misfit(problem, "correct the file or the declaration", where)


def require_once(names: Sequence[str], kind: str) -> None:
    """Refuse two columns of one name. Raises DataError."""
    places: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name not in places:
            places[name] = place
        elif kind == "csv":  # a file without a header line has values there
            problem = f"columns {places[name]} and {place} have the same name in its first line"
            raise DataError(None, problem, "give the file a header line, and every column its own name")
        else:
            raise DataError(name, "occurs twice in the table", "give every column its own name")


def require_names(source: Source, columns: Collection[str], *, table: str = "table") -> None:
    """Refuse a table without one of the declared columns. Raises DataError naming the column."""
    for refusal in missing_names(source, columns, table=table):
        raise refusal


def missing_names(source: Source, columns: Collection[str], *, table: str = "table") -> list[DataError]:
    """Return one error for each declared column that a table lacks.

    Names of the table are told only if one of them is declared, and never of CSV: without a header line they are the
    values of the first record.
    """
    missing = [name for name in columns if name not in source.names and name not in source.index]
    problem, remedy = "is the index of the table that pandas wrote, and no column of it", "write it after reset_index()"
    stored = [DataError(name, problem, remedy) for name in columns if name in source.index]
    if not missing:
        return stored
    declared = sum(name in columns for name in source.names)
    if source.kind != "csv" and declared:
        remedy = "its columns are: " + ", ".join(map(repr, source.names))
    else:
        number, verb = declared or "none", "is" if declared == 1 else "are"
        remedy = f"it has {counted(len(source.names), 'column')}, of which {number} {verb} declared"
        remedy += ". Check that its first line holds the names" if source.kind == "csv" else ". Check their names"
    return [*stored, *(DataError(name, f"is not in the {table}", remedy) for name in missing)]


def looks_like_a_record(names: Sequence[str]) -> bool:
    """Whether the first line of a CSV file cannot be a header: a field is empty, a number, a truth value or a date."""
    return any(_VALUE.fullmatch(name.strip()) for name in names)


_VALUE = re.compile(
    r"""|[+-]?(\d[\d_.,' ]*|\.\d+)(e[+-]?\d+)?\s?[%€$£]?|[€$£].*|[+-]?(nan|inf|infinity)|null|none|n/a
    |true|false|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:.*)?""",
    re.VERBOSE | re.IGNORECASE,
)


# -- files ------------------------------------------------------------------------------------------------------------


def _open_path(data: str | PathLike[str]) -> Source:
    text, path = fspath(data), Path(data)
    require_settled(path)
    if path.is_dir():
        return _open_folder(text, path)
    if not path.exists():
        raise FileProblem(text, "there is no such file", "check the path")
    if not path.is_file():
        raise FileProblem(text, "is not a file", "give a file, or a folder of Parquet files")
    if quietly(path.stat, FileProblem(text, "cannot be read", "check its permissions")).st_size == 0:
        raise FileProblem(text, "is empty: it has no header and no rows", "give a file with a table")
    form = format_of(data)
    if form is None:
        raise FileProblem(
            text, "the format is not known by this ending", f"give a file in {ENDINGS}, or pass a dataframe"
        )
    if form.texts:
        return _open_csv(text, path, form)
    label = {"parquet": "Parquet", "arrow": "Arrow"}[form.kind]
    broken = FileProblem(text, f"is not a readable {label} file", "give the complete file, in this format")
    return _of_scan(quietly(lambda: scanned(path, form), broken), path, form, broken, text=text)


def _open_folder(text: str, path: Path) -> Source:
    from discreet.confidential.folder import scanned_folder

    scan, keys, sample = scanned_folder(path, text)
    broken = FileProblem(text, "it holds a file that is not readable Parquet", "give the complete files")
    return _of_scan(scan, sample, PARQUET, broken, text=text, keys=keys)


def _of_scan(
    scan: pl.LazyFrame, path: Path, form: Format, broken: FileProblem, *, text: str, keys: tuple[str, ...] = ()
) -> Source:
    """Return the source of a scan of types, but for the ``keys``, which are texts; ``path`` says what is an index."""
    from discreet.confidential.returned import as_polars

    schema = quietly(scan.collect_schema, broken)
    index = quietly(lambda: stored_index(list(schema), texts(path, form).get("pandas")), broken)
    return Source(
        kind=form.kind,
        path=text,
        stays=True,
        names=tuple(name for name in schema if name not in index),
        types=lambda: {
            name: "unknown" if name in keys else type_name(dtype) for name, dtype in schema.items() if name not in index
        },
        batches=lambda columns: scan_batches(scan, columns, broken),
        texts=Texts(keys),
        index=index,
        returned=as_polars({name: dtype for name, dtype in schema.items() if name not in keys}),
    )


_SEPARATORS = {",": "commas", "\t": "tabs"}


def _open_csv(text: str, path: Path, form: Format) -> Source:
    broken = FileProblem(
        text,
        "is not a readable CSV file",
        "give it a header line, save it as UTF-8 or name its encoding, and give every row as many fields",
    )
    names = [unescaped(name) for name in quietly(partial(heading, path, form), broken)[1]]
    if not names:
        raise broken
    if len(names) == 1 and ({",", ";", "\t"} - {form.separator}).intersection(names[0]):
        separators = _SEPARATORS.get(form.separator, repr(form.separator))
        raise FileProblem(
            text, f"its fields are not separated by {separators}", f"name its separator, or save it with {separators}"
        )

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        scan = scanned(path, form)
        header_names = quietly(scan.collect_schema, broken).names()
        return scan_batches(scan.rename(dict(zip(header_names, names, strict=False))), columns, broken)

    return Source(
        kind="csv",
        path=text,
        stays=True,
        names=tuple(names),
        types=lambda: dict.fromkeys(names, "unknown"),
        batches=read,
        texts=(CommaTexts if form.decimal_comma else Texts)(names),
    )


def scan_batches(scan: pl.LazyFrame, columns: Sequence[str], broken: DiscreetError) -> Iterator[pl.DataFrame]:
    """Stream a scan in batches, in any order."""
    lazy = scan.select(columns)
    collect = partial(lazy.collect_batches, chunk_size=BATCH, maintain_order=False, engine="streaming")
    batches = iter(quietly(collect, broken))
    while (batch := quietly(partial(next, batches, None), broken)) is not None:
        yield batch


def _open_database(where: Address) -> Source:
    from discreet.confidential.database import duckdb_table, postgresql_table, sqlite_batches, sqlite_types
    from discreet.confidential.returned import as_polars

    path = str(where.path)
    if where.kind == "duckdb":
        from discreet.confidential.frames import source_of

        table = quietly(lambda: nw.from_native(duckdb_table(where)), where.broken)
        source = source_of(table, where.broken)
        return replace(
            source, kind="database", path=path, returned=as_polars(table.head(0).collect().to_polars().schema)
        )
    if where.kind == "postgresql":
        path = where.text
        types, batches = postgresql_table(where)
    else:
        types = sqlite_types(where)
        batches = partial(sqlite_batches, where, types=types)
    return Source(
        kind="database",
        path=path,
        stays=True,
        names=tuple(types),
        types=lambda: types,
        batches=batches,
        texts=Texts(types),
    )


def type_name(dtype: Any) -> str:
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
