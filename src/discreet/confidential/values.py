"""Confidential tables before any cell: the values of a column, the table as it stands, its names and types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import enclosed
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.source import (
    FREQUENCY,
    declared_batches,
    looks_like_a_record,
    open_source,
    parsed,
    require_names,
)
from discreet.domain import Column

# Distinct values of confidential columns, and how often each occurs: raw, before any cell.

_PENDING = 2**22


def column_values(data: Any, name: str, column: Column) -> Confidential[tuple[pl.Series, npt.NDArray[np.int64]]]:
    """Count the distinct values of one column where the table is.

    ``data``: confidential; what :func:`~discreet.confidential.confidential` takes.
    ``name``: the column.
    ``column``: its declaration, which says how the texts of a CSV file are read.
    Returns: distinct values in no particular order, a null among them where there is one, and their frequencies.

    Raises DataError if the table has no such column, no rows, or texts that cannot be read, or FileProblem if a file
    cannot be read. No message holds a value.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> column_values(pl.DataFrame({"age": [31, 45, 31]}), "age", Integer(lower=0, upper=120))
    <confidential tuple>
    """
    table, frequencies, provenance = _counted(data, {name: column})
    return Confidential((table[name], frequencies), provenance=provenance)


def row_values(data: Any, columns: Mapping[str, Column]) -> Confidential[tuple[pl.DataFrame, npt.NDArray[np.int64]]]:
    """Count the distinct rows of several columns where the table is.

    Raises DataError, FileProblem as :func:`column_values`.

    ``data``: confidential; what :func:`~discreet.confidential.confidential` takes.
    ``columns``: the columns and their declarations.
    Returns: distinct rows in the order of their values, which no order of reading changes, and their frequencies.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Boolean, Integer
    >>> table = pl.DataFrame({"age": [31, 45, 31], "ill": [True, False, True]})
    >>> row_values(table, {"age": Integer(lower=0, upper=120), "ill": Boolean()})
    <confidential tuple>
    """
    table, frequencies, provenance = _counted(data, columns)
    return Confidential((table, frequencies), provenance=provenance)


@enclosed
def _counted(data: Any, columns: Mapping[str, Column]) -> tuple[pl.DataFrame, npt.NDArray[np.int64], Provenance]:
    source = open_source(data)
    require_names(source, columns)
    grouped: list[pl.DataFrame] = []
    settled = 0
    for batch in declared_batches(source, columns):
        count = pl.col(FREQUENCY).sum() if FREQUENCY in batch.columns else pl.len()
        grouped.append(batch.group_by(*columns).agg(count.cast(pl.Int64).alias(FREQUENCY)))
        if sum(part.height for part in grouped[1:]) > max(_PENDING, settled):
            grouped = [_merged(grouped, columns)]
            settled = grouped[0].height
    table = _merged(grouped, columns) if grouped else None
    if table is None or table.height == 0:
        raise DataError(None, "has no rows", "give one with rows")
    table = parsed(table, columns, source.texts).sort(*columns)
    provenance = Provenance(frame_kind=source.kind, columns=tuple(columns), path=source.path)
    return table.drop(FREQUENCY), table[FREQUENCY].to_numpy(), provenance


def _merged(parts: list[pl.DataFrame], columns: Mapping[str, Column]) -> pl.DataFrame:
    if len(parts) == 1:
        return parts[0]
    return pl.concat(parts, how="vertical_relaxed").group_by(*columns).agg(pl.col(FREQUENCY).sum())


# A confidential table as it stands, closed: for what divides it, or examines a release of it.


@enclosed
def raw_rows(data: Any, columns: Collection[str] | None = None, *, what: str = "table") -> Confidential[pl.DataFrame]:
    """Read the rows of a table, with the types that it has; all columns of a CSV file are texts.

    ``data``: confidential; what :func:`~discreet.confidential.confidential` takes.
    ``columns``: which to read, all by default.
    ``what``: what a message calls the table.

    Raises DataError if the table has no such column or no rows, or FileProblem if a file cannot be read. No message
    holds a value.

    Examples
    --------
    >>> import polars as pl
    >>> raw_rows(pl.DataFrame({"age": [31, 45, 31]}))
    <confidential DataFrame>
    """
    source = open_source(data)
    names = source.names if columns is None else tuple(columns)
    require_names(source, names, table=what)
    parts = list(source.batches(list(names)))
    frame = pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()
    if frame.height == 0:
        raise DataError(None, f"the {what} has no rows", "give one with rows")
    if FREQUENCY in frame.columns:
        frame = frame.select(pl.exclude(FREQUENCY).repeat_by(FREQUENCY).explode())
    return Confidential(frame, provenance=Provenance(frame_kind=source.kind, columns=names, path=source.path))


# The names and types of a table, without its rows.


def table_schema(table: Any) -> dict[str, str]:
    """Return the names and types of a table's columns; no row is read.

    Raises DataError, FileProblem if the table cannot be read, or is a CSV file without a header line.

    ``table``: what :func:`~discreet.confidential.confidential` takes. Of a CSV file only the first line is read, and
    taken for its header, unless a field in it is empty, a number, a truth value or a date: a file without a header
    would give the values of its first record as names.
    Returns: numeric, integer, boolean, date, datetime, duration, decimal, string or unknown, by column name.

    Examples
    --------
    >>> import polars as pl
    >>> table_schema(pl.DataFrame({"age": [31], "sex": ["f"]}))
    {'age': 'integer', 'sex': 'string'}
    """
    source = open_source(table)
    if source.kind == "csv" and looks_like_a_record(source.names):
        raise DataError(
            None,
            "its first line is a record and not a header, since a field is empty, a number, a truth value or a date",
            "put a line with the names of the columns first, or write the declaration by hand",
        )
    return source.types()
