"""A confidential table as it stands, closed: for what divides it, or examines a release of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from discreet._core.boundary import enclosed
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet.confidential._source import FREQUENCY, open_source, require_names
from discreet.confidential._wrapper import Confidential, Provenance


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
