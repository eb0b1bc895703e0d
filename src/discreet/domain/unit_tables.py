"""Tables of which a unit has several rows: all rows of a unit are one record, by a fixed public map and back.

The record has a column for the number of rows, and the columns of the table once for each *slot*: the first row has the
first slot. Of a panel, the slots are the values of a column, and a column for each says whether it is used. Slots that
are not used have a code of their own, one above those of the column, which no table counts and no release holds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from discreet._core.boundary import sealed
from discreet._core.errors import DomainError, integer, plain, real, unfit
from discreet._core.lazy import pl
from discreet._core.numeric import Booleans, Integers
from discreet.domain.column import Column
from discreet.domain.declaration import RULES, Frozen, check_column, domain_facts
from discreet.domain.integers import Integer
from discreet.domain.labels import Boolean, Category
from discreet.domain.maps import Difference
from discreet.domain.records import Records
from discreet.domain.texts import settle

if TYPE_CHECKING:
    from discreet.domain.domain import Domain

INTERCHANGEABLE, ORDERED, LISTED = "interchangeable", "ordered", "as listed"
_MOST_RECORDS = 100


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTable:
    """A table of which a unit, such as a person, has several rows: public facts.

    Parameters
    ----------
    unit : str
        The column that names the unit of each row. A release has new names, 1, 2, ...
    max_records : int
        The most rows that a unit keeps, 1 to 100. The others are cut uniformly at random.
    columns : mapping of str to Column
        The columns of a row, which have finitely many cells.
    slots : str
        ``"interchangeable"``: rows have no order; they are held, and released, in that of their values.
        ``"ordered"``: they are in the order of ``order_by``. Else the name of a column of a panel, such as
        a year: each of its values is a slot, and of several rows with the same value one is kept, at random.
    order_by : str, optional
        The column by whose values rows are in order; ``"as listed"`` in a frame or file.
    relative_to : mapping, optional
        Columns of which later rows are held by the ``"first"`` or the ``"previous"`` row: labels by whether they are
        the same, as in ``{"race": "first"}``; numbers, dates and times by their difference, clipped to bounds, as in
        ``{"age": {"row": "first", "lower": -90, "upper": 90}}``. Null is held as it is. Not of a panel.

    Raises
    ------
    DomainError
        When a parameter is of another form, or names no column, or a column has no cells.

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> visits = UnitTable(unit="patient", max_records=2, columns={"days": Integer(lower=1, upper=30)})
    >>> list(Domain(tables={"visits": visits}).columns)
    ['number of visits', 'days (1)', 'days (2)']
    """

    unit: str
    max_records: int
    columns: Mapping[str, Column]
    slots: str = INTERCHANGEABLE
    order_by: str | None = None
    relative_to: Mapping[str, Any] = field(default_factory=dict)
    _codings: Mapping[str, RowCoding] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.unit, str) or not self.unit:
            raise unfit("unit", "the name of the column that names the unit", self.unit, error=DomainError)
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise DomainError("a table of units must have at least one column")
        most = integer("max_records", self.max_records, least=1, most=_MOST_RECORDS, error=DomainError)
        if self.unit in self.columns:
            raise DomainError(f"column {self.unit!r} names the unit, and is not released. Leave it out of the columns")
        for name, column in self.columns.items():
            check_column(name, column)
            if not column.finite:
                raise DomainError(f"column {name!r}: rows of a unit need finitely many cells. Declare cells")
        columns = {str(plain(name)): column for name, column in self.columns.items()}
        settle(self, unit=str(plain(self.unit)), columns=columns, max_records=most)
        self._check_slots()
        codings = {name: RowCoding.parse(name, self.columns.get(name), how) for name, how in self.relative_to.items()}
        if codings and self._key_column is not None:
            raise DomainError("relative_to is for rows in an order, and not for a panel. Leave it out")
        settle(self, _codings=codings)

    def _check_slots(self) -> None:
        if (self.order_by is not None) != (self.slots == ORDERED):
            raise DomainError('order_by is for slots = "ordered", which needs it. Write both or neither')
        words = {"slots": (INTERCHANGEABLE, ORDERED), "order_by": (LISTED, None)}
        for key, allowed in words.items():
            name = getattr(self, key)
            if name not in allowed and name not in self.columns:
                raise unfit(key, "a column of the table", name, error=DomainError)
        if (column := self._key_column) is not None and (
            column.nullable or not 2 <= (column.size or 0) <= _MOST_RECORDS or len(self.columns) < 2
        ):
            form = f"2 to {_MOST_RECORDS} values and no nulls, and other columns beside it"
            raise DomainError(f"column {self.slots!r}: slots need {form}. Declare them, or other slots")

    @property
    def _key_column(self) -> Column | None:
        if self.slots in (INTERCHANGEABLE, ORDERED):
            return None
        return self.columns.get(self.slots)

    @property
    def listed(self) -> bool:
        """Whether rows keep the order in which the table has them."""
        return self.order_by == LISTED

    @property
    def number(self) -> int:
        """How many slots there are."""
        return int((self._key_column and self._key_column.size) or self.max_records)

    @property
    def held_columns(self) -> dict[str, Column]:
        """The columns that each slot has."""
        return {name: column for name, column in self.columns.items() if name != self.slots}

    def slot_names(self, slot: int) -> dict[str, str]:
        """Return the names of the columns of a slot, from 1 on, by those of the table."""
        return {name: f"{name} ({slot})" for name in self.held_columns}

    def flat_columns(self, table: str, least: int = 1) -> dict[str, Column]:
        """Return the columns of a unit's record, of a table of this name of which it has at least 0 or 1 rows."""
        if self._key_column is None:
            flat: dict[str, Column] = {f"number of {table}": Integer(lower=least, upper=self.max_records)}
        else:
            flat = {f"{table} ({slot})": Boolean() for slot in self._numbers()}
        for slot in self._numbers():
            for name, flat_name in self.slot_names(slot).items():
                if flat_name in flat:
                    sources = f"column {name!r} and [tables.{table}]"
                    raise DomainError(f"{sources} both give the name {flat_name!r}. Rename one of them")
                coded = slot > 1 and name in self._codings
                flat[flat_name] = self._codings[name].cells if coded else self.columns[name]
        return flat

    @property
    def _first(self) -> int:
        """How many columns say which slots are used."""
        return 1 if self._key_column is None else self.number

    @property
    def slot_numbers(self) -> Integers:
        """The slot of each column that a unit's record has of this table; -1 of those that say which are used."""
        return np.append(np.full(self._first, -1), np.repeat(list(self._numbers()), len(self.held_columns)))

    def sources(self, names: Sequence[str], slot: int, columns: Sequence[str]) -> list[str]:
        """Return which columns tell a unit's own, and those of its row in a slot. ``columns``: what it has of these."""
        parts = {name for name in names if name not in self.columns}
        if self.slots in names and self.held_columns.keys().isdisjoint(names):  # whose tables say what is used
            parts.add(columns[slot - 1])
        for name in self.held_columns.keys() & set(names):
            base = slot
            parts.add(self.slot_names(base)[name])
            while name in self._codings and base > 1:
                base = self._codings[name].base(base - 1) + 1
                parts.add(self.slot_names(base)[name])
        return sorted(parts)

    def _numbers(self) -> range:
        return range(1, self.number + 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        plain: dict[str, Any] = {"unit": self.unit, "max_records": self.max_records}
        if self.slots != INTERCHANGEABLE:
            plain["slots"] = self.slots
        if self.order_by is not None:
            plain["order_by"] = self.order_by
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        for name, how in self.relative_to.items():
            columns[name]["relative_to"] = how
        return plain | {"columns": columns}

    # -- the map and back -----------------------------------------------------------------------------------------

    def records_of_units(
        self, rows: Records, owners: Integers, places: Integers, *, rng: Generator, least: int = 1
    ) -> Records:
        """Return one record for each unit, of encoded rows in any order. Confidential.

        ``rows``: with the unit's own columns first, of which a unit has the values of its first row.
        ``owners``, shape (rows,): the unit of each, of which none has more rows than it keeps.
        ``places``, shape (rows,): where each is listed; -1 of what only says the own columns of a unit without rows.
        """
        number = len(rows.columns) - len(self.columns)
        unit_columns, codes = rows.columns[:number], dict(zip(self.columns, rows.columns[number:], strict=True))
        order_codes = [] if self.order_by is None else [{LISTED: places, **codes}[self.order_by]]
        _, unit = np.unique(owners, return_inverse=True)
        units = int(unit.max(initial=-1)) + 1
        if self._key_column is None:
            order = np.lexsort((*reversed([*order_codes, *codes.values()]), unit))
        else:
            order = np.lexsort((rng.random(len(unit)), codes[self.slots], unit))
        unit_codes = [column[order[np.searchsorted(unit[order], np.arange(units))]] for column in unit_columns]
        order = order[places[order] >= 0]
        unit = unit[order]
        if self._key_column is None:
            slot = np.arange(len(unit)) - np.searchsorted(unit, unit)
            flat: list[Any] = [np.bincount(unit, minlength=units) - least]
        else:
            slot = codes.pop(self.slots)[order].astype(np.int64)
            new = (np.diff(unit, prepend=-1) != 0) | (np.diff(slot, prepend=-1) != 0)
            order, unit, slot = order[new], unit[new], slot[new]
            used = np.zeros((self.number, units), dtype=np.int64)
            used[slot, unit] = 1
            flat = list(used)
        values = [np.full((self.number, units), column.size) for column in self.held_columns.values()]
        for table, name in zip(values, self.held_columns, strict=True):
            table[slot, unit] = codes[name][order]
            if (coding := self._codings.get(name)) is not None:
                for later in range(self.number - 1, 0, -1):
                    coded = coding.coded(table[later], table[coding.base(later)])
                    table[later] = np.where(table[later] < coding.size, coded, coding.cells.size or 0)
        return Records(columns=(*unit_codes, *flat, *[table[slot] for slot in range(self.number) for table in values]))

    def used(self, columns: Sequence[npt.NDArray[Any]], least: int = 1) -> list[Booleans]:
        """Return which records use each slot; ``columns``: those that a record has of this table."""
        if self._key_column is None:
            return [columns[0] + least > slot for slot in range(self.number)]
        return [codes == 1 for codes in columns[: self.number]]

    def frame(self, domain: Domain, records: Records, *, rng: Generator, first: int, least: int = 1) -> pl.DataFrame:
        """Return the rows of encoded records, those of a unit side by side. ``first``: the name of the first unit.

        ``domain``: of the rows, with the unit's own columns first, or without them. ``records``: with these, and what
        they have of this table.
        """
        start = len(records.columns) - len(self.slot_numbers)
        unit_codes = dict(zip(domain.names[: -len(self.columns)], records.columns, strict=False))
        width = len(self.held_columns)
        columns, units, parts = records.columns[start:], [], list[Records]()
        slots: list[dict[str, Any]] = []
        for slot, rows in enumerate(map(np.flatnonzero, self.used(columns, least))):
            place = self._first + slot * width
            codes = dict(zip(self.held_columns, columns[place : place + width], strict=True))
            for name, coding in self._codings.items():
                if slot:
                    codes[name] = coding.decoded(codes[name].astype(np.int64), slots[coding.base(slot)][name])
            slots.append(codes)
            if self._key_column is not None:
                codes[self.slots] = np.full(len(records), slot)
            codes = {**unit_codes, **codes}
            parts.append(Records(columns=tuple([codes[name][rows] for name in domain.names])))
            units.append(rows)
        rows_of = np.concatenate(units)
        order = np.argsort(rows_of, kind="stable")
        names = pl.Series(self.unit, rows_of[order] + first, dtype=pl.Int64)
        return domain.decode(Records.concatenate(parts).take(order), rng=rng).insert_column(0, names)


@dataclass(frozen=True, slots=True, eq=False)
class RowCoding:
    """How a column of later rows is held by an earlier row: labels as the same or not, others as a difference."""

    row: str
    cells: Column
    difference: Difference | None
    values: int  # of the column, without a null
    size: int  # of the column

    @classmethod
    def parse(cls, name: str, column: Column | None, how: Any) -> RowCoding:
        """Return that of a plain entry. Raises DomainError naming a column that has no such coding."""
        entry = dict(how) if isinstance(how, Mapping) else {"row": how}
        if column is None or entry.get("row") not in ("first", "previous") or set(entry) - {"row", "lower", "upper"}:
            form = '"first", "previous", or {row = "first", lower = -90, upper = 90}, of a column of the table'
            raise unfit(f"relative_to of {name!r}", form, how, error=DomainError)
        sizes = int(column.values or 0), int(column.size or 0)
        if column.on_a_line:
            for bound in ("lower", "upper"):
                real(f"{bound} of relative_to of {name!r}", entry.get(bound), error=DomainError)
            names = {"of": name, "from": f"{name} of the {entry['row']} row"}
            difference = Difference.parse({**names, **entry}, dict.fromkeys(names.values(), column))
            return cls(entry["row"], difference.cells, difference, *sizes)
        if len(entry) > 1:
            raise DomainError(f"relative_to of {name!r}: labels have no difference. Write {entry['row']!r} alone")
        labels = [*column.words, f"as the {entry['row']} row"]
        return cls(entry["row"], Category(categories=labels, nulls=column.nulls), None, *sizes)

    def base(self, slot: int) -> int:
        """Return which slot a later one is held by."""
        return slot - 1 if self.row == "previous" else 0

    def coded(self, codes: Integers, base: Integers) -> Integers:
        """Return a later row's codes by those of its base."""
        if self.difference is not None:
            return self.difference.cells_of(codes, base)
        return np.where(codes == self.values, self.values + 1, np.where(codes == base, self.values, codes))

    def decoded(self, codes: Integers, base: Integers) -> Integers:
        """Return a later row's codes from what is held; as the base where they are said to be the same."""
        if self.difference is not None:
            return self.difference.codes_of(codes, base)
        return np.where(codes == self.values, base, np.minimum(codes, self.values))


def settle_tables(domain: Domain) -> None:
    """Set a domain's tables, and the columns of a unit's record. Raises DomainError for what cannot be beside them."""
    if not isinstance(domain.tables, Mapping) or not domain.tables:
        raise DomainError("tables must be at least one table of units: [tables.NAME], with unit and max_records")
    if len(domain.tables) > 1 and domain.units is None:
        raise DomainError('several tables of rows need one of their units. Write units = "NAME" and its [columns]')
    tables, flat = {name: _parsed(name, entry) for name, entry in domain.tables.items()}, dict[str, Column]()
    for name, table in tables.items():
        flat |= table.flat_columns(name, int(domain.units is None))
    unit_columns = {column: facts for column, facts in domain.columns.items() if flat.get(column) != facts}
    unit = _unit_of(tables, set(unit_columns))
    words = [text for text in (*tables, domain.units) if isinstance(text, str) and re.fullmatch(r"\w[\w-]*", text)]
    if domain.units is not None and len(set(map(str.casefold, words))) <= len(tables):
        raise DomainError(f"units must be another name than [tables.{name}], all of letters, digits, - and _")
    if domain.units is not None and not unit_columns:
        raise DomainError(f"table {domain.units!r} of units has no column. Declare one under [columns.NAME]")
    for key in ("metric_weights", "totals", "outcome", "difference"):
        if getattr(domain, key):
            raise DomainError(f"{key} cannot be declared beside [tables.{name}]. Leave it out")
    settle(domain, tables=Frozen(tables), columns=unit_columns | flat, own_columns=Frozen(unit_columns), unit=unit)
    no_slots, slots = np.zeros(len(unit_columns), dtype=np.int64), [table.slot_numbers for table in tables.values()]
    most = sum(table.max_records for table in tables.values())
    settle(domain, slots=np.concatenate([no_slots, *slots]), max_records=most)


def _unit_of(tables: Mapping[str, UnitTable], names_so_far: set[str]) -> str:
    """Return the column that names the unit. Raises DomainError where tables name it, or another one, unlike."""
    unit, *names_beside = dict.fromkeys(table.unit for table in tables.values())
    if names_beside:
        raise DomainError(f"tables name their unit {unit!r} and {names_beside[0]!r}. Rename one of these columns")
    for name, table in tables.items():
        names = {*table.flat_columns(name, least=0), *table.columns}
        if twice := names_so_far & {*names, unit}:
            raise DomainError(f"column {min(twice)!r}: a table of units has its name. Rename one of them")
        names_so_far = names_so_far | names
    return unit


def rules_within(domain: Domain, names: Collection[str]) -> dict[str, Any]:
    """Return the rules of a domain without those on columns of other tables of rows than some."""
    rules = {name: getattr(domain, name) for name in RULES}
    for name, table in domain.row_tables.items():
        if name not in names and any(rules.values()):
            from discreet.domain.maps import without

            rules = without(rules, table)
    return rules


def decoded(domain: Domain, records: Records, *, rng: Generator, first: int, table: str) -> pl.DataFrame:
    """Turn records of units into one of the tables: see :meth:`Domain.decode`."""
    unit_codes = records.columns[: len(domain.own_columns)]
    if table and table == domain.units:
        frame = domain.table_domains[table].decode(Records(columns=unit_codes), rng=rng)
        return frame.insert_column(0, pl.Series(domain.unit, range(first, first + len(records))))
    name = table or next(iter(domain.row_tables))
    unit_records = Records(columns=(*unit_codes, *domain.parts(records.columns)[name]))
    rows = domain.table_domains[table] if table else domain.rows_of(name)
    return domain.row_tables[name].frame(rows, unit_records, rng=rng, first=first, least=int(domain.units is None))


def _parsed(name: Any, entry: Any) -> UnitTable:
    if not isinstance(name, str) or not name:
        raise unfit("a table's name", "a text of at least one character", name, error=DomainError)
    try:
        return entry if isinstance(entry, UnitTable) else _from_plain(entry)
    except DomainError as problem:
        raise DomainError(f"[tables.{name}]: {problem}") from None


def _from_plain(table: Any) -> UnitTable:
    needed = {"unit", "max_records", "columns"}
    if not isinstance(table, Mapping) or not needed <= set(table) <= needed | {"slots", "order_by"}:
        raise DomainError("it must have unit, max_records and [tables.NAME.columns.COLUMN], may have slots, order_by")
    if not isinstance(table["columns"], Mapping):
        raise DomainError("columns must be tables [tables.NAME.columns.COLUMN]")
    plain, relative = dict(table["columns"]), {}
    for name, facts in table["columns"].items():
        if isinstance(facts, Mapping) and "relative_to" in facts:
            plain[name] = dict(facts)
            relative[name] = plain[name].pop("relative_to")
    columns = domain_facts({"columns": plain})["columns"]
    return UnitTable(**{**table, "columns": columns, "relative_to": relative})
