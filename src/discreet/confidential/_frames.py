"""The names and types of a table, without its rows."""

from __future__ import annotations

from typing import Any

from discreet._core.errors import DataError
from discreet.confidential._source import looks_like_a_record, open_source


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
