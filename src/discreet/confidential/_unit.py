"""Privacy units that hold several rows: every unit gets the same number of slots.

Rows beyond a unit's slots are cut uniformly at random; unused slots count in the null record. One unit's change then
replaces at most ``max_records`` records, and the number of records is ``units * max_records`` whatever the rows are.
The cut of one unit depends on that unit's rows and fresh randomness alone, so coupling the randomness of two
neighbouring tables leaves every other unit's slots equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import quietly
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet.confidential._source import FREQUENCY, RESERVED
from discreet.domain import Domain, Records
from discreet.domain._column import missing_in

NO_UNIT = ("holds a null, so a row has no privacy unit", "give every row its unit beforehand")
"""What is wrong with a row without a unit, and what to do about it."""

_PENDING = 2**22
_UNIT, _HELD, _ORDER = (f"{RESERVED}{word}" for word in ("unit", "held", "order"))


def units_of(batches: Iterable[pl.DataFrame], *, unit: str, names: tuple[str, ...]) -> pl.DataFrame:
    """Return the rows of all batches with their unit.

    Raises DataError if a row has no unit, or units cannot be told apart.

    ``batches``: with the domain's columns and the unit's.
    ``unit``: column that names the unit.
    ``names``: the domain's columns.
    Returns: the domain's columns, the unit and frequencies; it has these columns where there is no row, too.
    """

    def keyed(batch: pl.DataFrame) -> pl.DataFrame:
        if batch[unit].dtype.base_type() is pl.Object:  # cannot be grouped, and would be printed by the failure
            raise _unreadable(unit)
        if missing_in(batch[unit]).any():
            raise DataError(unit, *NO_UNIT)
        rows = batch.select(*names, pl.col(unit).alias(_UNIT), *([FREQUENCY] if FREQUENCY in batch.columns else []))
        if FREQUENCY not in rows.columns:
            rows = rows.with_columns(pl.lit(1, dtype=pl.Int64).alias(FREQUENCY))
        return rows.with_columns(pl.col(FREQUENCY).cast(pl.Int64))

    nothing = pl.DataFrame(schema={**dict.fromkeys((*names, _UNIT), pl.String), FREQUENCY: pl.Int64})
    parts = quietly(lambda: [keyed(batch) for batch in batches], _unreadable(unit))
    return quietly(lambda: pl.concat(parts, how="vertical_relaxed"), _unreadable(unit)) if parts else nothing


def slotted(
    rows: pl.DataFrame,
    *,
    unit: str,
    max_records: int,
    rng: np.random.Generator,
    group: Callable[[pl.DataFrame], pl.DataFrame],
) -> tuple[pl.DataFrame, int]:
    """Cut every unit to its slots.

    Raises DataError if units cannot be told apart.

    ``rows``: as :func:`units_of` gives them.
    ``unit``: column that names the unit, for the error message.
    ``max_records``: Slots a unit has.
    ``rng``: source of the cut.
    ``group``: counts the distinct rows of a frame.
    Returns: distinct kept rows and their frequencies, and the number of unused slots, over all units.
    """
    held = held_by(rows, unit=unit)
    units, kept = held.height, int(held[_HELD].clip(upper_bound=max_records).sum())
    crowded = rows.join(held.filter(pl.col(_HELD) > max_records).select(_UNIT), on=_UNIT, how="semi")
    rows = rows.join(held.filter(pl.col(_HELD) <= max_records).select(_UNIT), on=_UNIT, how="semi")
    if crowded.height:
        each = np.repeat(np.arange(crowded.height), crowded[FREQUENCY].to_numpy())
        repeated = crowded.drop(FREQUENCY)[each]
        # A uniform permutation of all rows orders each unit's rows uniformly; the first ones stay.
        shuffled = repeated.with_columns(pl.Series(_ORDER, rng.permutation(repeated.height)))
        cut = shuffled.filter(pl.col(_ORDER).rank("ordinal").over(_UNIT) <= max_records).drop(_ORDER)
        rows = pl.concat([rows, cut.with_columns(pl.lit(1, dtype=pl.Int64).alias(FREQUENCY)).select(rows.columns)])
    return group(rows.drop(_UNIT)), units * max_records - kept


def held_by(rows: pl.DataFrame, *, unit: str) -> pl.DataFrame:
    """Return the units of rows, as :func:`units_of` gives them, and how many rows each has."""
    return quietly(lambda: rows.group_by(_UNIT).agg(pl.col(FREQUENCY).sum().alias(_HELD)), _unreadable(unit))


class Holdings:
    """How many rows each unit has, batch by batch: memory holds one row a unit, not the table.

    Parameters
    ----------
    unit : str
        Column that names the unit.
    """

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self._parts: list[pl.DataFrame] = []
        self._pending = self._settled = 0

    def add(self, batch: pl.DataFrame) -> None:
        """Count one batch. Raises DataError if a row has no unit, or units cannot be told apart."""
        held = held_by(units_of([batch], unit=self.unit, names=()), unit=self.unit)
        self._parts.append(held.rename({_HELD: FREQUENCY}))
        self._pending += held.height
        if self._pending > max(_PENDING, self._settled):
            self._parts = [self._merged().rename({_HELD: FREQUENCY})]
            self._settled, self._pending = self._parts[0].height, 0

    def held(self) -> npt.NDArray[np.int64]:
        """Return how many rows each unit has. Raises DataError if the units of batches cannot be told apart."""
        return self._merged()[_HELD].to_numpy() if self._parts else np.zeros(0, dtype=np.int64)

    def _merged(self) -> pl.DataFrame:
        joined = quietly(lambda: pl.concat(self._parts, how="vertical_relaxed"), _unreadable(self.unit))
        return held_by(joined, unit=self.unit)


def _unreadable(unit: str) -> DataError:
    return DataError(unit, "cannot be used to name privacy units", "cast it to a text or a whole number")


def null_record(domain: Domain) -> Records:
    """Return the record whose every column is null."""
    return Records(columns=tuple(_one(column) for column in domain.columns.values()))


def _one(column: Any) -> Any:
    code = np.empty(1, dtype=column._code_type)
    code[0] = column.null_code
    return code
