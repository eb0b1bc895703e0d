"""Privacy units that hold several rows: every unit gets the same number of slots.

Rows beyond a unit's slots are cut uniformly at random; unused slots count in the null record. One unit's change then
replaces at most ``max_records`` records, and the number of records is ``units * max_records`` whatever the rows are.
The cut of one unit depends on that unit's rows and fresh randomness alone, so coupling the randomness of two
neighbouring tables leaves every other unit's slots equal.

An engine that can do so cuts by itself (``EngineCells.slots``). Else rows come batch by
batch, and those that stay are held: at most ``max_records`` for each unit.
"""

from __future__ import annotations

import numpy as np

from discreet._core.boundary import quietly
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet._core.numeric import Integers
from discreet.confidential.source import FREQUENCY, RESERVED, condense, merge
from discreet.domain import Domain, Records, missing_in

NO_UNIT = ("holds a null, so a row has no privacy unit", "give every row its unit beforehand")
"""What is wrong with a row without a unit, and what to do about it."""

_ROWS = 2**19
_UNIT, _ORDER = f"{RESERVED}unit", f"{RESERVED}order"


def _units_of(batch: pl.DataFrame, unit: str, *names: str) -> pl.DataFrame:
    """Return some columns of rows, their unit and frequencies. Raises DataError of units that cannot be told."""

    def keyed() -> pl.DataFrame:
        if batch[unit].dtype.base_type() is pl.Object:  # cannot be grouped, and would be printed by the failure
            raise _unreadable(unit)
        if missing_in(batch[unit]).any():
            raise DataError(unit, *NO_UNIT)
        frequency = pl.col(FREQUENCY) if FREQUENCY in batch.columns else pl.lit(1)
        return batch.select(*names, pl.col(unit).alias(_UNIT), frequency.cast(pl.Int64).alias(FREQUENCY))

    return quietly(keyed, _unreadable(unit))


def narrow(frame: pl.DataFrame) -> pl.DataFrame:
    """Return whole numbers in the smallest types that hold them."""
    return frame.with_columns(values.shrink_dtype() for values in frame if values.dtype.is_integer())


class Slots:
    """The rows that stay, as records come in batch by batch: those with the smallest random numbers of each unit."""

    def __init__(self, unit: str, max_records: int, rng: np.random.Generator) -> None:
        self.unit, self.max_records, self._rng = unit, max_records, rng
        self._parts: list[pl.DataFrame] = []

    def add(self, units: pl.Series, records: pl.DataFrame) -> None:
        """Add rows of encoded records, with frequencies if they are grouped. Raises DataError if one has no unit."""
        names = [name for name in records.columns if name != FREQUENCY]
        rows = _units_of(records.with_columns(units.alias(self.unit)), self.unit, *names)
        times = rows[FREQUENCY].to_numpy()
        start, ends = 0, np.cumsum(times)
        while start < rows.height:  # equal rows are told apart a part at a time
            last = max(start + 1, int(np.searchsorted(ends, ends[start] + _ROWS, side="right")))
            part = rows[start:last].drop(FREQUENCY)
            if FREQUENCY in records.columns:
                part = part[np.repeat(np.arange(last - start), times[start:last])]
            order = pl.Series(_ORDER, self._rng.integers(0, 2**64, size=part.height, dtype=np.uint64))
            self._parts = condense([*self._parts, self._first(part.with_columns(order))], self._merged)
            start = last

    def kept(self) -> tuple[pl.DataFrame | None, pl.Series]:
        """Return the records that stay, None where there was no row, and their units."""
        if not self._parts:
            return None, pl.Series()
        rows = self._merged(self._parts)
        return rows.drop(_UNIT, _ORDER), rows[_UNIT]

    def _merged(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        return self._first(quietly(lambda: pl.concat(parts, how="vertical_relaxed"), _unreadable(self.unit)))

    def _first(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the smallest numbers of each unit; those of units with few rows are not ranked."""
        most, place = self.max_records, pl.col(_ORDER).rank("ordinal").over(_UNIT)

        def rows_kept() -> pl.DataFrame:
            keys = rows.select(_UNIT, _ORDER)
            full = keys.select(pl.len().over(_UNIT) > most).to_series().to_numpy()
            stays = ~full
            stays[full] = keys.filter(full).select(place <= most).to_series().to_numpy()
            return rows.filter(stays)

        return quietly(rows_kept, _unreadable(self.unit))


class Holdings:
    """How many rows each unit has, batch by batch: memory holds one row per unit, not the table."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self._parts: list[pl.DataFrame] = []

    def add(self, batch: pl.DataFrame) -> None:
        """Count one batch. Raises DataError if a row has no unit, or units cannot be told apart."""
        self._parts = condense([*self._parts, self._totals([_units_of(batch, self.unit)])], self._totals)

    def held(self) -> Integers:
        """Return how many rows each unit has. Raises DataError if the units of batches cannot be told apart."""
        return self._totals(self._parts)[FREQUENCY].to_numpy() if self._parts else np.zeros(0, dtype=np.int64)

    def held_by(self, owners: Holdings) -> tuple[Integers, int, int]:
        """Return how many rows each owner has, how many rows have none, and how many rows owners have too many."""
        sides = {"rows": self._parts, "owners": owners._parts}
        parts = [pl.DataFrame(schema={_UNIT: pl.Null(), **dict.fromkeys(sides, pl.Int64())})]
        parts += [part.rename({FREQUENCY: side}) for side, totals in sides.items() for part in totals]
        sums = quietly(lambda: pl.concat(parts, how="diagonal_relaxed").group_by(_UNIT).sum(), _unreadable(self.unit))
        rows, times = sums["rows"].to_numpy(), sums["owners"].to_numpy()
        return rows[times > 0], int(rows[times == 0].sum()), int(np.maximum(times - 1, 0).sum())

    def _totals(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        return quietly(lambda: merge(parts), _unreadable(self.unit))


def _unreadable(unit: str) -> DataError:
    return DataError(unit, "cannot be used to name privacy units", "cast it to a text or a whole number")


def null_record(domain: Domain) -> Records:
    """Return the record whose every column is null."""
    columns = domain.columns.values()
    return Records(columns=tuple(np.full(1, column.null_code, dtype=column.code_type) for column in columns))
