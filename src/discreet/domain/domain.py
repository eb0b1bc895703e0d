"""The public domain: named columns, in order, and what follows from them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, islice, pairwise
from math import prod
from os import PathLike
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DomainError, unfit
from discreet._core.lazy import pl
from discreet._core.numeric import Booleans, Floats, Integers
from discreet._core.reading import MOST_COLUMNS, bounded_text, parsed_toml
from discreet._core.text import counted, paragraph, table
from discreet.domain import declaration
from discreet.domain.column import Column
from discreet.domain.declaration import RULES, Frozen
from discreet.domain.records import Records
from discreet.domain.texts import settle, toml_value

if TYPE_CHECKING:
    from discreet.domain.constraints import Constraint, PublishedTotals
    from discreet.domain.maps import Difference, Repair
    from discreet.domain.unit_tables import UnitTable

_MOST_FLAT = 2**62
_SHOWN = 50  # columns, in a notebook


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Domain:
    """Named columns in order: everything that is declared public about a table besides its size.

    A record is a tuple of one code per column. The base measure is the product of the columns' base measures, and the
    ground distance of two records is ``sum_c weight_c * distance_c``, each column's distance being in [0, 1].

    Parameters
    ----------
    columns : mapping of str to Column
        The columns, in the order of the released table.
    metric_weights : mapping of str to float, optional
        Non-negative weights of columns in the ground distance; 1 where not given.
    impossible : sequence of mapping, optional
        Structural zeros. Each entry has a condition for each of some columns; no record fulfils all of them.
    implies : sequence of mapping, optional
        Functional dependencies. Each entry has ``columns``, a list of names; ``determine``, a name; and ``table``,
        ``{label: condition}`` for one column, or rows of a condition per column and one on the column that is
        determined. A record that fulfils the others fulfils the last; one that no row is about may be anything.
    possible : sequence of mapping, optional
        Conditions as under ``impossible``. Of the columns of an entry, what fulfils none of the entries on the same
        columns is impossible.
    order : sequence of str, or of such sequences, optional
        Columns whose values never decrease from left to right. A null is in any order.
    at_most : mapping of str to str, optional
        Columns that are never above another column.
    nulls_together : sequence of str, or of such sequences, optional
        Columns that are null in the same records.
    determines : sequence of str, or of such sequences, optional
        Two columns, of which the first tells the second in a way that is not declared: ``("sub_grade", "grade")``.
        ``marginals`` always measures their table, and takes for each cell of the first the largest of the second.
    totals : sequence of mapping, optional
        Published totals. Each entry has ``column``, ``source`` and ``counts``, ``{label: count}`` or rows of a
        condition and a count, which hold each value of the column once; or ``source`` and ``count``, for the whole
        table. All have the same sum.
    outcome : str or sequence of str, optional
        One to three columns that the others are to predict. ``marginals`` always measures their tables with every other
        column.
    difference : mapping, optional
        ``{of, from, lower, upper}``: two columns of numbers, dates or times. ``marginals`` measures the first by its
        difference from the second, clipped to the bounds: in days of dates, else in seconds. Its cells are as wide as
        those of the two, which are equally wide.
    tables : mapping of str to UnitTable or mapping, optional
        Tables of which a unit has several rows: see :class:`UnitTable`. ``columns`` are then declared for what is the
        same in all rows of a unit, and become those of its record. Rules are about the columns of one row. Several
        tables need ``units``, name the unit alike, and have no other column in common.
    units : str, optional
        The name of a table with one row per unit, which comes in and goes out beside those of ``tables``. Its columns
        are ``columns``. A unit may then have no row in another table.

    Raises
    ------
    DomainError
        If there is no column, or a weight or an outcome names none; if a condition does not fit its column or is about
        a part of a cell; if columns that rules link have more than 4,194,304 cells, or no values that all of them
        allow; if totals are not complete or do not agree.

    Notes
    -----
    A condition is a value, a list of values, or a range ``{"from": 15, "below": 65}`` with ``from`` in it and ``below``
    not, either of which may be left out. ``{"null": True}`` is null, which no other condition holds for, and may stand
    in a range too. Dates, durations and decimals may be texts, as in TOML. These three declarations are public facts
    like the others: they come from a code book, a law or a publication, never from the confidential table. Confidential
    records that contradict them are :meth:`repaired`. Only a mechanism that keeps them releases such a domain.

    Examples
    --------
    >>> from discreet.domain import Category, Integer
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=99), "sex": Category(categories=["f", "m"])})
    >>> domain.size
    200
    >>> Domain.from_toml(domain.to_toml()) == domain
    True

    >>> Domain(columns=domain.columns, outcome="sex").outcome
    ('sex',)

    No child is married, and a city is in one region:

    >>> declared = Domain(
    ...     columns={
    ...         "age": Integer(lower=0, upper=99, cells=20),
    ...         "married": Category(categories=["no", "yes"]),
    ...         "city": Category(categories=["Lyon", "Nice", "Paris"]),
    ...         "region": Category(categories=["ARA", "IDF", "PACA"]),
    ...     },
    ...     impossible=[{"age": {"below": 15}, "married": "yes"}],
    ...     implies=[{"columns": ["city"], "determine": "region", "table": {"Lyon": "ARA", "Paris": "IDF"}}],
    ... )
    >>> [one.columns for one in declared.constraints]
    [(0, 1), (2, 3)]
    >>> declared.constraints[1].allowed.astype(int).tolist()
    [[1, 0, 0], [1, 1, 1], [0, 1, 0]]

    >>> from discreet.domain import UnitTable
    >>> persons = UnitTable(unit="id", max_records=5, columns={"age": domain.columns["age"]})
    >>> linked = Domain(units="homes", columns={"city": declared.columns["city"]}, tables={"persons": persons})
    >>> linked.names[:3]
    ('city', 'number of persons', 'age (1)')
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    metric_weights: Mapping[str, float] | None = None
    impossible: Sequence[Mapping[str, Any]] = ()
    implies: Sequence[Mapping[str, Any]] = ()
    totals: Sequence[Mapping[str, Any]] = ()
    outcome: str | Sequence[str] = ()
    possible: Sequence[Mapping[str, Any]] = ()
    order: Sequence[Any] = ()
    at_most: Mapping[str, str] | None = None
    nulls_together: Sequence[Any] = ()
    determines: Sequence[Any] = ()
    difference: Mapping[str, Any] | None = None
    tables: Mapping[str, Any] | None = None
    units: str | None = None
    coin_columns: tuple[str, ...] = field(init=False, repr=False, default=())  # of which a coin splits cells
    size: int | None = field(init=False, repr=False, default=None)
    """Number of cells, the product of the columns' sizes; None when a column is continuous or open."""
    constraints: tuple[Constraint, ...] = field(init=False, repr=False, default=())
    """What the rules on combinations come to, one per set of columns: a record can occur where all of them allow it."""
    published: tuple[PublishedTotals, ...] = field(init=False, repr=False, default=())
    """What ``totals`` come to, by cells."""
    _sorted: tuple[tuple[str, str], ...] = field(init=False, repr=False, default=())  # columns of the same intervals
    differences: tuple[Difference, ...] = field(init=False, repr=False, default=())
    """What ``difference`` comes to: one map of encoded records and back, or none."""
    repairs: tuple[Repair, ...] = field(init=False, repr=False, default=())
    """What the rules come to: for each set of columns that they link, a map of records that contradict them."""
    dependencies: tuple[tuple[int, int], ...] = field(init=False, repr=False, default=())  # places in ``determines``
    unit: str | None = field(init=False, repr=False, default=None)
    """The column that names the unit of each row; None where each record is a row."""
    max_records: int = field(init=False, repr=False, default=1)  # of a unit in all tables
    own_columns: Mapping[str, Column] = field(init=False, repr=False, default_factory=dict)
    """The columns of a unit itself, which come first in its record; none where each record is a row."""
    slots: Integers | None = field(init=False, repr=False, default=None)
    """The slot of each column of a unit's record in its table; 0 of its own, -1 of those that say what is used."""

    def __post_init__(self) -> None:
        if self.tables or self.units is not None:
            from discreet.domain.unit_tables import settle_tables

            settle_tables(self)
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise DomainError("a domain must have at least one column. Declare it under [columns.NAME]")
        if len(self.columns) > MOST_COLUMNS:
            raise DomainError(f"a domain must have at most {MOST_COLUMNS:,} columns, got {len(self.columns):,}")
        columns = dict(self.columns)
        for name, column in self.columns.items():
            declaration.check_column(name, column)
            if getattr(column, "censored", ()):
                from discreet.domain.labels import CensoredNumbers

                columns[name] = CensoredNumbers.from_numbers(column)
        weights = declaration.plain_weights(self.metric_weights or {}, self.columns)
        sizes = [column.size for column in columns.values()]
        settle(
            self,
            columns=Frozen({str(name): column for name, column in columns.items()}),
            metric_weights=Frozen(weights) if weights else None,
            size=None if None in sizes else prod(filter(None, sizes)),
            coin_columns=tuple([name for name, column in columns.items() if getattr(column, "coin", False)]),
        )
        tuples = [getattr(self, name) for name in {*RULES, "outcome"} - {"at_most"}]
        if not self.at_most and self.difference is None and tuples == [()] * len(tuples):
            return
        from discreet.domain.maps import settle_rules

        settle_rules(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return False
        return self is other or (list(self.columns) == list(other.columns) and self.to_dict() == other.to_dict())

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def _repr_html_(self) -> str:
        rows = []
        for name, column in islice(self.columns.items(), _SHOWN):
            facts = ", ".join(f"{key} = {value}" for key, value in column.to_dict().items() if key != "type")
            cells = "" if column.size is None else f"{column.size:,}"
            rows.append((name, column.kind, cells, shorten(facts, 120, placeholder=" ...")))
        head = [counted(len(self.columns), "column"), *([counted(self.size or 0, "cell")] if self.finite else [])]
        notes = [f"and {counted(len(self.columns) - _SHOWN, 'more column')}"] if len(self.columns) > _SHOWN else []
        notes += [f"outcome: {', '.join(self.outcome)}"] if self.outcome else []
        notes += [f"{len(getattr(self, name)):,} declared under {name}" for name in RULES if getattr(self, name)]
        return paragraph(", ".join(head)) + table(("column", "kind", "cells", "declared"), rows) + paragraph(*notes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.columns)

    @property
    def row_tables(self) -> Mapping[str, UnitTable]:
        """The tables of which a unit has several rows, by name."""
        return self.tables or {}

    def parts(self, columns: Sequence[Any]) -> dict[str, Sequence[Any]]:
        """Return what each table of rows has of something that a unit's record has for each column."""
        widths = [len(table.slot_numbers) for table in self.row_tables.values()]
        ends = pairwise(np.cumsum([len(self.own_columns), *widths]).tolist())
        return {name: columns[start:end] for name, (start, end) in zip(self.row_tables, ends, strict=True)}

    @property
    def row_domain(self) -> Domain:
        """The domain of the rows of all tables of units, without the column that names the unit; else the domain."""
        return self.rows_of(*self.row_tables) if self.tables else self

    def rows_of(self, *names: str) -> Domain:
        """Return the domain of the rows of some tables, with their unit's own columns first."""
        from discreet.domain.unit_tables import rules_within

        parts = [self.own_columns.items(), *(self.row_tables[name].columns.items() for name in names)]
        return Domain(columns=dict(chain.from_iterable(parts)), **rules_within(self, names))

    @property
    def table_domains(self) -> dict[str, Domain]:
        """The domains of the tables that come in and go out, by name, without the unit's column; one has no name."""
        if self.units is None:
            return {"": self.row_domain}
        columns = {self.units: self.own_columns, **{name: table.columns for name, table in self.row_tables.items()}}
        return {name: Domain(columns=part) for name, part in columns.items()}

    @property
    def finite(self) -> bool:
        """Whether every column has finitely many cells."""
        return self.size is not None

    @property
    def measured_columns(self) -> dict[str, Column]:
        """The columns by name, with the difference in place of the one that is measured by it."""
        columns = dict(self.columns)
        for difference in self.differences:
            columns[self.names[difference.columns[0]]] = difference.cells
        return columns

    def least_weights(self) -> tuple[Fraction, Fraction]:
        r"""Return the smallest and second smallest masses of the base measure over cells, exactly.

        The mass of a cell is :math:`\prod_c w_c / W_c`. Equal masses count twice; in a domain of one cell the second
        equals the first. No cell is enumerated. Raises DomainError if the domain is not finite.

        Examples
        --------
        >>> from discreet.domain import Boolean
        >>> Domain(columns={"a": Boolean(base={"weights": [1, 3]}), "b": Boolean()}).least_weights()
        (Fraction(1, 8), Fraction(1, 8))
        """
        pairs = [column.least() for column in self.columns.values()]
        smallest = prod((low for low, _ in pairs), start=Fraction(1))
        next_ones = [smallest * next_low / low for low, next_low in pairs if next_low is not None]
        return smallest, min(next_ones, default=smallest)

    def flat(self, records: Records) -> Integers:
        """Return the number of each record's cell, ``0 .. size-1``, in row-major order, the last column fastest.

        Raises DomainError if the domain is not finite, or has more than 2**62 cells.
        """
        sizes = self._flat_sizes()
        cells = records.columns[0].astype(np.int64, copy=len(sizes) > 1)
        for size, codes in zip(sizes[1:], records.columns[1:], strict=True):
            cells *= size
            cells += codes.astype(np.int64, copy=False)
        return cells

    def unflat(self, cells: npt.NDArray[np.integer[Any]]) -> Records:
        """Return the records of numbered cells; the inverse of :meth:`flat`."""
        cells, columns = np.asarray(cells, dtype=np.int64), []
        for size in reversed(self._flat_sizes()[1:]):
            quotient = cells // size  # quicker than divmod
            columns.append(cells - quotient * size)
            cells = quotient
        return Records(columns=(cells, *reversed(columns)))

    def allowed(self, records: Records) -> Booleans:
        """Return which encoded records can occur, by the rules on combinations that are declared.

        The result has shape (len(records),), and is all true where nothing is declared.
        """
        fits = np.ones(len(records), dtype=np.bool_)
        for constraint in self.constraints:
            fits &= constraint.allowed[tuple(records.columns[place] for place in constraint.columns)]
        return fits

    def repaired(self, records: Records) -> Records:
        """Move encoded records that cannot occur to ones that can, each by itself; all others stay as they are.

        Columns are taken in the order in which rules name them: first ``implies``, last ``order`` and ``at_most``. A
        column keeps its cell if an allowed record has it together with the columns before. Otherwise it takes the
        nearest such cell, the lower of two; where there is no order, the one that is declared first.

        >>> from discreet.domain import Integer
        >>> domain = Domain(columns={"a": Integer(lower=0, upper=3), "b": Integer(lower=0, upper=3)}, order=["a", "b"])
        >>> domain.repaired(domain.unflat(np.array([2, 14]))).rows()
        [(0, 2), (3, 3)]
        """
        columns = list(records.columns)
        for repair in self.repairs:
            repair.replace(columns)
        return Records(columns=tuple(columns))

    def draw_base(self, count: int, rng: np.random.Generator, *, first: int = 1) -> Records:
        """Draw ``count`` records from the base measure; on a finite domain exactly, in integers.

        ``first`` is the number of the first new label of open columns: 1 plus the number drawn before, when drawing in
        chunks.
        """
        columns = [column.draw(count, rng, first=first) for column in self.columns.values()]
        return Records(columns=tuple(columns))

    def log_base(self, records: Records) -> Floats:
        """Return the base measure's log mass (finite columns) and log density (continuous ones) of records, in nats.

        It is the sum over columns, of shape (len(records),); open labels contribute 0.
        """
        parts = zip(self.columns.values(), records.columns, strict=True)
        return sum((column.log_base(codes) for column, codes in parts), start=np.zeros(len(records)))

    def encode(self, frame: pl.DataFrame) -> Records:
        """Encode a confidential table that has every declared column; other columns are left aside.

        Records that cannot occur are :meth:`repaired`. Raises DataError if a value does not fit, naming the column and
        no value.
        """
        columns = [column.encode(frame[name], name=name) for name, column in self.columns.items()]
        return self.repaired(Records(columns=tuple(columns)))

    def decode(self, records: Records, *, rng: np.random.Generator, first: int = 1, table: str = "") -> pl.DataFrame:
        """Turn encoded records into a table of the declared names, order and types, one row per record.

        ``rng`` is the source of the draws within cells. Units have numbers for names, from ``first`` on. ``table``: one
        of :attr:`table_domains`; without it rows have their unit's own columns, too.
        """
        if self.unit is not None:
            from discreet.domain.unit_tables import decoded

            return decoded(self, records, rng=rng, first=first, table=table)
        parts = zip(self.columns.items(), records.columns, strict=True)
        frame = pl.DataFrame([column.decode(codes, rng=rng).alias(name) for (name, column), codes in parts])
        for name, above in self._sorted * len(self._sorted):  # values of one cell, drawn without regard to the order
            low, high = pl.col(name), pl.col(above)
            lower, upper = pl.when(low > high).then(high).otherwise(low), pl.when(low > high).then(low).otherwise(high)
            frame = frame.with_columns(lower.alias(name), upper.alias(above))
        return frame

    def describe(self, records: Records, *, rng: np.random.Generator) -> pl.DataFrame:
        """Name cells: one row per record, a column that holds the value where cells are values.

        Where the cells of a column NAME are intervals, two columns NAME_from and NAME_to hold their ends. ``rng`` is as
        for :meth:`decode`; nothing is drawn for the columns of values.

        Examples
        --------
        >>> from discreet._core.random import seeded
        >>> from discreet.domain import Integer
        >>> ages = Domain(columns={"age": Integer(lower=0, upper=99, cells=4)})
        >>> ages.describe(ages.unflat(np.arange(4)), rng=seeded(0)).rows()
        [(0, 24), (25, 49), (50, 74), (75, 99)]
        """
        described = []
        for (name, column), codes in zip(self.columns.items(), records.columns, strict=True):
            ends = column.interval(codes)
            if ends is None:
                described.append(column.decode(codes, rng=rng).alias(name))
            else:
                described += [ends[0].alias(f"{name}_from"), ends[1].alias(f"{name}_to")]
        return pl.DataFrame(described)

    def distance(self, a: Records, b: Records) -> Floats:
        """Return the ground distance of equally many encoded records, row by row: ``sum_c weight_c * distance_c``."""
        weights = self.metric_weights or {}
        total = np.zeros(len(a))
        for (name, column), x, y in zip(self.columns.items(), a.columns, b.columns, strict=True):
            total += weights.get(name, 1.0) * column.distance(x, y)
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data; :meth:`from_dict` reads it back."""
        declared = {name: getattr(self, name) for name in ("outcome", "metric_weights", "difference", "units", *RULES)}
        rules = {name: toml_value(part) for name, part in declared.items() if part}
        plain: dict[str, Any] = {name: rules.pop(name) for name in [*rules] if name not in RULES}
        if self.tables:
            plain["tables"] = {name: table.to_dict() for name, table in self.row_tables.items()}
        if columns := self.own_columns if self.tables else self.columns:
            plain["columns"] = {name: column.to_dict() for name, column in columns.items()}
        return plain | rules

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> Domain:
        """Build a domain from plain data, as in a TOML file.

        Raises MissingPublicFact if a public fact is not declared, DomainError if a declaration is wrong; the message
        names the column.
        """
        return cls(**declaration.domain_facts(spec))

    def to_toml(self) -> str:
        """Write the declaration as TOML."""
        return declaration.write_toml(self.to_dict())

    @classmethod
    def from_toml(cls, text: str) -> Domain:
        """Read a TOML declaration; see :meth:`from_dict` for what it raises.

        A table ``[ledger]`` says where the releases of the data set are paid for. It is no part of the domain.
        """
        if not isinstance(text, str):
            raise unfit("TOML", "a text", text, error=DomainError)
        return cls.from_dict({name: part for name, part in parsed_toml(text).items() if name != "ledger"})

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Domain:
        """Read a TOML file. Raises FileProblem if it cannot be read."""
        missing = "check the path, or write one with: discreet domain init"
        return cls.from_toml(bounded_text(path, missing=missing, remedy="check that it is a readable TOML file"))

    @staticmethod
    def template(schema: Mapping[str, str], *, known: Mapping[str, Mapping[str, Any]] | None = None) -> str:
        """Write a TOML template from column names and types alone, with the public facts left to fill in.

        A type is numeric, integer, boolean, date, datetime, duration, time, decimal, string, unknown, or none where
        no type of column takes the values. :meth:`from_toml` refuses the template until it is filled in. ``known``:
        what a code book says of columns, by the keys of a declaration, as in ``{"sex": {"categories": ["f", "m"]}}``.
        """
        return declaration.template(schema, known or {})

    def _flat_sizes(self) -> list[int]:
        sizes = [column.size or 0 for column in self.columns.values()]
        if not self.finite:
            name = self.names[sizes.index(0)]
            raise DomainError(f"column {name!r}: this needs finitely many cells. Declare cells, a grid or categories")
        if (self.size or 0) > _MOST_FLAT:
            raise DomainError("the domain has more than 2**62 cells, too many to number. Use its records instead")
        return sizes


def require_domain(domain: Any) -> None:
    """Refuse what is no domain: a path, or the declaration as a dict. Raises DomainError when it is not one."""
    if not isinstance(domain, Domain):
        raise DomainError(f"domain must be a Domain, such as Domain.read(path), got {type(domain).__name__}")
