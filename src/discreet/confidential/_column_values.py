"""The distinct values of one confidential column, and how often each occurs: raw, before any cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.confidential._source import FREQUENCY, open_source
from discreet.confidential._wrapper import Confidential, Provenance
from discreet.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

    from discreet.domain import Column

__all__ = ["column_values"]

_PENDING = 2**22


def column_values(data: Any, name: str, column: Column) -> Confidential[tuple[pl.Series, npt.NDArray[np.int64]]]:
    """Count the distinct values of one column where the table is.

    Parameters
    ----------
    data : dataframe, str or path
        Confidential; what :func:`~discreet.confidential.confidential` takes.
    name : str
        The column.
    column : Column
        Its declaration, which says how the texts of a CSV file are read.

    Returns
    -------
    Confidential of (polars.Series, ndarray of int64)
        Distinct values in no particular order, a null among them where there is one, and their frequencies.

    Raises
    ------
    DataError
        If the table has no such column, no rows, or texts that cannot be read. No message holds a value.
    FileProblem
        If a file cannot be read.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> column_values(pl.DataFrame({"age": [31, 45, 31]}), "age", Integer(lower=0, upper=120))
    <confidential tuple>
    """
    import polars as pl

    source = open_source(data)
    if name not in source.names:
        have = ", ".join(map(repr, source.names))
        raise DataError(name, "is not in the table", f"its columns are: {have}")
    grouped: list[pl.DataFrame] = []
    settled = 0
    for batch in source.batches([name]):
        count = pl.col(FREQUENCY).sum() if FREQUENCY in batch.columns else pl.len()
        grouped.append(batch.group_by(name).agg(count.cast(pl.Int64).alias(FREQUENCY)))
        if sum(part.height for part in grouped[1:]) > max(_PENDING, settled):
            grouped = [_merged(grouped, name)]
            settled = grouped[0].height
    table = _merged(grouped, name) if grouped else None
    if table is None or table.height == 0:
        raise DataError(None, "has no rows", "there is nothing to compare")
    values = table[name]
    if source.texts:
        parsed = column.parse(values)
        if parsed.null_count() > values.null_count():
            raise DataError(name, f"holds a text that is not a {column.kind}", "correct the file or the declaration")
        values = parsed
    provenance = Provenance(frame_kind=source.kind, columns=(name,), path=source.path)
    return Confidential((values, table[FREQUENCY].to_numpy()), provenance=provenance)


def _merged(parts: list[pl.DataFrame], name: str) -> pl.DataFrame:
    import polars as pl

    if len(parts) == 1:
        return parts[0]
    return pl.concat(parts).group_by(name).agg(pl.col(FREQUENCY).sum())
