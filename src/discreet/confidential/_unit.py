"""Privacy units that hold several rows: every unit gets the same number of slots.

Rows beyond a unit's slots are cut uniformly at random; unused slots count in the null record. One unit's change then
replaces at most ``max_records`` records, and the number of records is ``units * max_records`` whatever the rows are.
The cut of one unit depends on that unit's rows and fresh randomness alone, so coupling the randomness of two
neighbouring tables leaves every other unit's slots equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.confidential._source import FREQUENCY, RESERVED, Source
from discreet.domain import Domain, Records
from discreet.domain._column import quietly
from discreet.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

__all__ = ["null_record", "slotted"]


def slotted(
    source: Source,
    *,
    unit: str,
    max_records: int,
    names: tuple[str, ...],
    rng: np.random.Generator,
    group: Callable[[pl.DataFrame], pl.DataFrame],
) -> tuple[pl.DataFrame, int]:
    """Cut every unit to its slots.

    Parameters
    ----------
    source : Source
        The table, which has the column ``unit``.
    unit : str
        Column that names the unit.
    max_records : int
        Slots a unit has.
    names : tuple of str
        The domain's columns.
    rng : numpy.random.Generator
        Source of the cut.
    group : callable
        Counts the distinct rows of a frame.

    Returns
    -------
    rows : polars.DataFrame
        Distinct kept rows and their frequencies.
    unused : int
        Number of unused slots, over all units.

    Raises
    ------
    DataError
        If a row has no unit.
    """
    import polars as pl

    key, held_by, order = (f"{RESERVED}{word}" for word in ("unit", "held", "order"))
    columns = list(dict.fromkeys([*names, unit]))
    unreadable = DataError(unit, "cannot be used to name privacy units", "cast it to a text or a whole number")

    def keyed(batch: pl.DataFrame) -> pl.DataFrame:
        missing = batch[unit].is_null()
        if batch[unit].dtype.is_float():
            missing = missing | batch[unit].is_nan()
        if missing.any():
            raise DataError(unit, "holds a null, so a row has no privacy unit", "give every row its unit beforehand")
        rows = batch.select(*names, pl.col(unit).alias(key), *([FREQUENCY] if FREQUENCY in batch.columns else []))
        if FREQUENCY not in rows.columns:
            rows = rows.with_columns(pl.lit(1, dtype=pl.Int64).alias(FREQUENCY))
        return rows.with_columns(pl.col(FREQUENCY).cast(pl.Int64))

    def read() -> pl.DataFrame:
        parts = [keyed(batch) for batch in source.batches(columns)]
        return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame({key: [], FREQUENCY: []})

    rows = quietly(read, unreadable)
    held = quietly(lambda: rows.group_by(key).agg(pl.col(FREQUENCY).sum().alias(held_by)), unreadable)
    units, kept = held.height, int(held[held_by].clip(upper_bound=max_records).sum())
    crowded = rows.join(held.filter(pl.col(held_by) > max_records).select(key), on=key, how="semi")
    rows = rows.join(held.filter(pl.col(held_by) <= max_records).select(key), on=key, how="semi")
    if crowded.height:
        each = np.repeat(np.arange(crowded.height), crowded[FREQUENCY].to_numpy())
        repeated = crowded.drop(FREQUENCY)[each]
        # A uniform permutation of all rows orders each unit's rows uniformly; the first ones stay.
        shuffled = repeated.with_columns(pl.Series(order, rng.permutation(repeated.height)))
        cut = shuffled.filter(pl.col(order).rank("ordinal").over(key) <= max_records).drop(order)
        rows = pl.concat([rows, cut.with_columns(pl.lit(1, dtype=pl.Int64).alias(FREQUENCY)).select(rows.columns)])
    return group(rows.drop(key)), units * max_records - kept


def null_record(domain: Domain) -> Records:
    """Return the record whose every column is null."""
    return Records(columns=tuple(_one(column) for column in domain.columns.values()))


def _one(column: Any) -> Any:
    code = np.empty(1, dtype=column._code_type)
    code[0] = column.null_code
    return code
