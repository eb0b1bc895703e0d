"""Confidential tables before any cell: distinct values and rows, the table as it stands, its names and types."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import accumulate
from typing import Any

from discreet._core.boundary import enclosed
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet._core.numeric import Integers
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.source import FREQUENCY, TYPED, Source, distinct_rows, require_names, texts_of
from discreet.confidential.tables import open_declared, open_source
from discreet.domain import Column, Domain, unescaped

_SHOWN = 2000  # rows of a CSV file, of which one tells whether its first line is of their kind
_IDENTIFIER = re.compile(r"[A-Za-z]\w*_\w*|[a-z]+([A-Z][a-z]+)+")
_VALUE = re.compile(
    r"""|[+-]?(\d[\d_.,' ]*|\.\d+)(e[+-]?\d+)?\s?[%€$£]?|[€$£].*|[+-]?(nan|inf|infinity)|null|none|n/a
    |true|false|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}(:.*)?""",
    re.VERBOSE | re.IGNORECASE,
)


def column_values(data: Any, name: str, column: Column) -> Confidential[tuple[pl.Series, Integers]]:
    """Return the distinct values of a column, a null among them, and their frequencies, counted where the table is."""
    # Raises DataError or FileProblem if the column cannot be read, or has no rows. No message holds a value.
    table, frequencies, provenance = _distinct(data, {name: column})
    return Confidential((table[name], frequencies), provenance=provenance)


def row_values(data: Any, columns: Mapping[str, Column]) -> Confidential[tuple[pl.DataFrame, Integers]]:
    """Count the distinct rows of several columns, sorted, and their frequencies. Raises as :func:`column_values`."""
    table, frequencies, provenance = _distinct(data, columns)
    return Confidential((table, frequencies), provenance=provenance)


@enclosed
def _distinct(data: Any, columns: Mapping[str, Column]) -> tuple[pl.DataFrame, Integers, Provenance]:
    source = open_source(data)
    require_names(source, columns)
    table = distinct_rows(source, columns)
    typed = [column.read(texts_of(table[name], column, source), name=name) for name, column in columns.items()]
    table = table.with_columns(typed).sort(*columns)
    provenance = Provenance(frame_kind=source.kind, columns=tuple(columns), path=source.path)
    return table.select(*columns), table[FREQUENCY].to_numpy(), provenance


@enclosed
def raw_rows(data: Any, columns: Collection[str] | None = None, *, what: str = "table") -> Confidential[pl.DataFrame]:
    """Read the rows of a table, with the types that it has; all columns of a CSV file are texts."""
    # Raises DataError or FileProblem if they cannot be read, or there are none. No message holds a value.
    source = open_source(data)
    names = source.names if columns is None else tuple(columns)
    require_names(source, names, table=what)
    frame = all_rows(source, names)
    if source.convert is not None:
        frame = frame.with_columns(pl.selectors.string().str.strip_prefix(TYPED))
    if frame.height == 0:
        raise DataError(None, f"the {what} has no rows", "give one with rows")
    return Confidential(frame, provenance=Provenance(frame_kind=source.kind, columns=names, path=source.path))


def all_rows(source: Source, names: Collection[str]) -> pl.DataFrame:
    """Return the rows of some columns; those that were grouped where the table is, as often as they occur."""
    parts = list(source.batches(list(names)))
    frame = pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()
    if FREQUENCY not in frame.columns:
        return frame
    return frame.select(pl.exclude(FREQUENCY).repeat_by(FREQUENCY)).explode(list(names))


@enclosed
def linked_rows(data: Any, domain: Domain) -> Confidential[dict[str, pl.DataFrame]]:
    """Read linked tables by name: units with their numbers of rows, and rows with their unit's own columns."""
    # As in a release, a row whose unit has no row of its own is left out, and of several own rows one is kept. Raises
    # DataError, FileProblem or ParameterError if they cannot be read. No message holds a value.
    parts, frames, key = domain.table_domains, [], str(domain.unit)
    for source, part in zip(open_declared(data, domain, other_columns=True).values(), parts.values(), strict=True):
        frame = all_rows(source, [key, *part.names])
        typed = [column.read(texts_of(frame[name], column, source), name=name) for name, column in part.columns.items()]
        frames.append(frame.select(key, *typed))
    keys = pl.concat([frame.select(key) for frame in frames], how="vertical_relaxed")[key].rank("dense")
    ends = accumulate(frame.height for frame in frames)
    numbered = [frame.with_columns(keys[end - frame.height : end]) for frame, end in zip(frames, ends, strict=True)]
    unit_rows = units = numbered[0].unique(key, keep="first", maintain_order=True)
    rows = [frame.join(unit_rows, on=key) for frame in numbered[1:]]
    for (name, table), frame in zip(domain.row_tables.items(), rows, strict=True):
        count = pl.len().clip(upper_bound=table.max_records).cast(pl.Int64).alias(f"number of {name}")
        units = units.join(frame.group_by(key).agg(count), on=key, how="left")
        units = units.with_columns(pl.col(f"number of {name}").fill_null(0))
    provenance = Provenance(frame_kind="polars", columns=(key, *domain.row_domain.names))
    return Confidential(dict(zip(parts, (units, *rows), strict=True)), provenance=provenance)


def table_schema(table: Any, *, header: bool = False) -> dict[str, str]:
    """Return the kinds of column that usually declare the types of a table, by name; no row is read but of CSV."""
    # Raises DataError, FileProblem if the table cannot be read, or is a CSV file whose first line may be a record and
    # header does not say that it is none.
    source, sign = open_source(table), None
    if source.kind == "csv" and not header:
        if any(_VALUE.fullmatch(name.strip()) for name in source.names):
            sign = "a field of it is a number, a truth value or a date"
        elif _fits_as_record(source):
            sign = "it looks like the rows below it"
    if sign is not None:
        problem = f"its first line may be a record and not a header, since {sign}"
        remedy = "look at that line. If it holds the names of the columns, write header=True. Otherwise, put such a "
        raise DataError(None, problem, f"{remedy}line first")
    return source.types()


@enclosed
def _fits_as_record(source: Source) -> bool:
    """Return whether nothing tells the first line of a CSV file from a record of words."""
    # A column without words does, or an identifier that is not in the rows, where no name is among its column's values.
    rows, identified, repeated = next(iter(source.batches(source.names)), pl.DataFrame()).head(_SHOWN), False, False
    for name in rows.columns:
        values = [unescaped(text.lstrip(TYPED)).strip() for text in rows[name].fill_null("")]
        words = [value for value in values if not _VALUE.fullmatch(value)]
        if not words:
            return False
        repeated = repeated or name.strip() in words
        identified = identified or (bool(_IDENTIFIER.fullmatch(name)) and not any(map(_IDENTIFIER.fullmatch, words)))
    return rows.height > 0 and (repeated or not identified)
