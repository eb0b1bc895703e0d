"""Public tables: an earlier release, or a published sample. Read by the same code, and not wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.confidential._source import FREQUENCY, open_source
from discreet.domain import Domain
from discreet.errors import DataError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["public_table"]


def public_table(data: Any, domain: Domain) -> pl.DataFrame:
    """Return the declared columns of a table that is public, as a Polars frame.

    Parameters
    ----------
    data : dataframe, str or path
        Public; what :func:`~discreet.confidential.confidential` takes.
    domain : Domain
        The columns wanted; others are left aside.

    Raises
    ------
    DataError
        When a column is missing, or its texts cannot be read.
    FileProblem
        When a file cannot be read.
    """
    import polars as pl

    source = open_source(data)
    for name in domain.names:
        if name not in source.names:
            have = ", ".join(map(repr, source.names))
            raise DataError(name, "is not in the public table", f"its columns are: {have}")
    batches = list(source.batches(list(domain.names)))
    if not sum(batch.height for batch in batches):
        raise DataError(None, "has no rows", "there is nothing to predict from")
    frame = pl.concat(batches)
    if FREQUENCY in frame.columns:  # grouped where the table is
        frame = frame.select(pl.exclude(FREQUENCY).repeat_by(FREQUENCY)).explode(list(domain.names))
    if source.texts:
        frame = frame.with_columns(column.parse(frame[name]).alias(name) for name, column in domain.columns.items())
    return frame
