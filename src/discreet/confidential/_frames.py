"""Tables without confidential rows: the names and types of a table, and a release as the kind of frame that came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.confidential._source import open_source
from discreet.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["table_schema", "to_frame_kind"]


def table_schema(table: Any) -> dict[str, str]:
    """Return the names and types of a table's columns; no row is read.

    Parameters
    ----------
    table : dataframe, str or path
        What :func:`~discreet.confidential.confidential` takes. Of a CSV file only the header line is read.

    Returns
    -------
    dict of str to str
        numeric, integer, boolean, date, datetime, duration, decimal, string or unknown, by column name.

    Raises
    ------
    DataError, FileProblem
        If the table cannot be read.

    Examples
    --------
    >>> import polars as pl
    >>> table_schema(pl.DataFrame({"age": [31], "sex": ["f"]}))
    {'age': 'integer', 'sex': 'string'}
    """
    return open_source(table).types()


def to_frame_kind(frame: pl.DataFrame, kind: str) -> Any:
    """Return a public Polars frame as the kind of frame that came in.

    Parameters
    ----------
    frame : polars.DataFrame
        The release.
    kind : str
        ``Provenance.frame_kind``.

    Returns
    -------
    polars.DataFrame, pandas.DataFrame or pyarrow.Table
        Polars for Polars and files, pandas for pandas, a PyArrow table for PyArrow and for engines (DuckDB, Dask,
        PySpark, Ibis), which all take one.

    Raises
    ------
    ParameterError
        If PyArrow is needed and not installed.
    """
    if kind in ("polars", "parquet", "csv"):
        return frame
    try:
        return frame.to_pandas() if kind == "pandas" else frame.to_arrow()
    except ImportError:
        raise ParameterError(f"a frame for {kind} needs PyArrow: pip install pyarrow") from None
