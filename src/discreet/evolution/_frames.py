"""Public frames, which users or their functions give, as records of a domain."""

from __future__ import annotations

from typing import Any

from discreet._core.errors import DataError, ParameterError
from discreet._core.lazy import pl
from discreet._core.text import counted
from discreet.domain import Domain, Records


def to_records(frame: Any, domain: Domain, *, source: str, rows: int | None = None) -> Records:
    """Encode a public frame.

    Raises ParameterError naming the column and the remedy.

    ``frame``: public; has every column of the domain.
    ``domain``: public.
    ``source``: what gave the frame, for the error message.
    ``rows``: how many rows it has to have.
    """
    try:
        table = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    except Exception as problem:  # whatever the frame is
        raise ParameterError(f"{source} is not a table. Give a polars.DataFrame, or a mapping of columns") from problem
    if missing := [name for name in domain.names if name not in table.columns]:
        have = ", ".join(map(repr, table.columns))
        raise ParameterError(f"{source} lacks column {missing[0]!r}. Its columns are: {have}")
    if rows is not None and table.height != rows:
        raise ParameterError(f"{source} must have {counted(rows, 'row')}, got {table.height:,}")
    try:
        return domain.encode(table)
    except DataError as problem:
        raise ParameterError(f"{source} must keep to the declared facts: {problem}") from problem


def refuse_wide_cells(domain: Domain, api: str) -> None:
    """Refuse cells that hold several values: what a function is shown would be drawn, not the record's own.

    Raises ParameterError naming the first column that has such cells.
    """
    import numpy as np

    for name, column in domain.columns.items():
        if column.finite and column.interval(np.zeros(1, dtype=np.int64)) is not None:
            raise ParameterError(
                f"column {name!r}: its cells hold several values, and the API {api} works on values. Declare "
                'within = "midpoint", a grid or a step, or leave cells out'
            )
