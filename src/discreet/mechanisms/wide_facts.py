"""Public facts of a mechanism on tables of one and two columns: which tables there are, and what may be drawn."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import integer, positive_size, unfit
from discreet._core.errors import DomainError, ParameterError
from discreet._core.reading import parsed_toml
from discreet.domain import CellReader, Domain, PublishedTotals, plain_condition, refuse_large
from discreet.mechanisms.latent_classes import Pair
from discreet.mechanisms.reading import READING_ONLY
from discreet.mechanisms.wide_columns import Nodes, nodes_of, open_columns

# Where units of measurement go. A table that gets ``q^2`` units has noise of ``1/q`` times the scale of a single unit.
#
# How many units there are is fixed beforehand, and all of them are paid. What was released decides only which table
# gets them: see theorem T20.

FREE = 6  # numbers in which a table of two columns differs from independence, as far as noise in it is concerned
_LABELS = 0.1  # share of the units with which the labels of an open column are found
_ALL_LABELS = 0.3  # share with which those of all open columns are, at most
_FIRST = 0.15  # share of the units that all one-way tables get before anything is known
_USUAL = 0.7  # share that they are worth in the end, about: two-way tables tell of columns too
_FOLDED = math.sqrt(2.0 / math.pi)  # of a normal variable, mean absolute value in standard deviations
_MOST_COSTLY = 256  # cells of a column that noise is avoided in: of more, most are empty
_WEIGHT = 0.35  # of an error of a column in the error of a table of two


def noise_cost(cells: Sequence[int], tables: int) -> Floats:
    """Return the expected error, in records, that noise of scale 1 on one-way tables makes in all tables of two."""
    return 0.5 * _FOLDED * _WEIGHT * max(1, tables) * np.minimum(cells, _MOST_COSTLY).astype(np.float64)


def label_units(units: int, columns: int) -> int:
    """Return the units, a square, that each of some open columns gets so that its labels are found."""
    return max(1, math.isqrt(int(min(_LABELS, _ALL_LABELS / columns) * units))) ** 2


def first_units(cost: Floats, copies: Integers, units: int, *, alone: bool) -> Integers:
    """Return the ``q`` of each one-way table in the first round: at least 1 each, of 15 % of the units together.

    ``copies``: how many counts of a table a record is in; ``q^2`` units are spent for each.
    ``alone``: whether there are no other tables, which would get the rest.
    """
    q = np.sqrt(_spread(cost, copies, units if alone else _FIRST * units)).astype(np.int64)
    return _afforded(np.maximum(1, q), copies, units)


def _afforded(q: Integers, copies: Integers, units: int) -> Integers:
    """Return the ``q``, lowered until they cost no more than the units: in integers, as privacy rests on it."""
    q = np.asarray(q, dtype=np.int64)
    while int((copies * q * q).sum()) > max(0, units):
        q[q.argmax()] -= 1
    return q


def usual_units(cost: Floats, copies: Integers, units: int, *, alone: bool) -> Floats:
    """Return about how many units each one-way table has in the end: for predictions."""
    return _spread(cost, copies, units if alone else _USUAL * units)


def _spread(cost: Floats, copies: Integers, units: float) -> Floats:
    share = (cost / copies) ** (2.0 / 3.0)
    return np.asarray(units * share / (copies * share).sum())


def worth_measuring(
    scores: Floats,
    shapes: Sequence[tuple[int, int]],
    one_way: Floats,
    copies: Integers,
    first: Integers,
    *,
    units: int,
    scale: float,
) -> tuple[Integers, Integers, Integers]:
    """Return which tables of two columns to measure, their ``q``, and the ``q`` of each one-way table's second round.

    ``scores``, shape (tables,): released: how many records a table of independent columns would put elsewhere.
    ``shapes``: of the tables.
    ``one_way``: what noise costs in one-way tables.
    ``copies``: how many counts of each of them a record is in.
    ``first``: the ``q`` of their first round.
    ``units``: that are left.
    ``scale``: of the noise of one unit.

    Notes
    -----
    A table left out costs its score; one that is measured costs its noise. Tables are taken in the order of their
    scores by what noise costs in them, as many as make the sum least if every unit is where it helps most: there, a
    table of cost ``c`` has units in proportion to ``c^(2/3)``.
    """
    cost = np.array([0.5 * _FOLDED * math.sqrt(a * b * min((a - 1) * (b - 1), FREE)) for a, b in shapes])
    order = np.argsort(-scores / np.maximum(cost, 1e-9) ** (2.0 / 3.0), kind="stable")
    order = order[(scores[order] > 0.0) & (cost[order] > 0.0)]
    held = first.astype(np.float64) ** 2
    least, chosen = math.inf, 0
    for count in _tried(len(order)):
        every = _Tables.from_costs(one_way, copies, held, cost[order[:count]])
        error = scale * float((every.cost / np.sqrt(every.filled(units))).sum())
        if (total := error + float(scores[order[count:]].sum())) < least:
            least, chosen = total, count
    q = _Tables.from_costs(one_way, copies, held, cost[order[:chosen]]).whole(units)
    return order[:chosen], q[len(first) :], q[: len(first)]


def _tried(most: int) -> list[int]:
    """Return the numbers of tables to compare: all up to 64, then in steps of 2 %."""
    tried, count = [], 0
    while count <= most:
        tried.append(count)
        count += max(1, count // 50)
    return tried if tried[-1] == most else [*tried, most]


class _Tables(NamedTuple):
    """Tables between which units are divided.

    ``cost``: of noise of scale 1 in each.
    ``copies``: how many counts of each a record is in.
    ``held``: units that each count has already.
    """

    cost: Floats
    copies: Integers
    held: Floats

    @classmethod
    def from_costs(cls, one_way: Floats, copies: Integers, held: Floats, two_way: Floats) -> _Tables:
        """Return the one-way tables, which have units already, and some two-way ones."""
        more = len(two_way)
        ones = np.ones(more, dtype=np.int64)
        return cls(
            np.concatenate((one_way, two_way)), np.concatenate((copies, ones)), np.concatenate((held, np.zeros(more)))
        )

    def filled(self, units: float) -> Floats:
        """Return ``max(held, t (cost/copies)^(2/3))``, which costs the units that there are."""
        share, low, high = (self.cost / self.copies) ** (2.0 / 3.0), 0.0, 1.0
        total = units + self.copies @ self.held
        while self.copies @ np.maximum(self.held, high * share) < total:
            high *= 2.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            enough = self.copies @ np.maximum(self.held, middle * share) >= total
            low, high = (low, middle) if enough else (middle, high)
        return np.asarray(np.maximum(self.held, low * share) + 1e-12)

    def whole(self, units: int) -> Integers:
        """Return the ``q`` of a further measurement of each table: squares that take no more units than there are.

        Each step goes where it takes most error for its units.
        """
        q = np.sqrt(np.maximum(0.0, self.filled(units) - self.held)).astype(np.int64)
        q = _afforded(q, self.copies, units)
        left = units - int((self.copies * q * q).sum())
        queue = [self._step(i, q) for i in range(len(q))]
        heapq.heapify(queue)
        while queue:
            _, i = heapq.heappop(queue)
            step = int(self.copies[i]) * (2 * int(q[i]) + 1)
            if step <= left:
                q[i] += 1
                left -= step
                heapq.heappush(queue, self._step(i, q))
        return q

    def _step(self, i: int, q: Integers) -> tuple[float, int]:
        """Return less the error that one more ``q`` takes from a table for each of its units, and the table."""
        now, then = self.held[i] + q[i] ** 2, self.held[i] + (q[i] + 1) ** 2
        before = math.inf if now == 0.0 else self.cost[i] / math.sqrt(now)
        return -(before - self.cost[i] / math.sqrt(then)) / (self.copies[i] * (2 * q[i] + 1)), i


MOST_CELLS = 1 << 16
"""Cells of a column."""

MOST_UNITS = 1 << 24
"""Units of measurement."""

MOST_THRESHOLD = 1 << 40
"""Records that a label can be asked to have."""

_NAME = "marginals"
_MOST_COLUMNS = 128
_MOST_JOINT = 20_000  # joint cells of columns that are constrained together


@dataclass(frozen=True, kw_only=True)
class WideFacts:
    """What is public of a mechanism on tables of one and two columns. Parameters: see Marginals."""

    domain: Domain
    records: int
    scale: float
    units: int
    workload: tuple[str, ...] | None = None
    given: str | None = field(default=None, metadata=READING_ONLY)
    threshold: int | None = None
    label_units: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", positive_size("records", self.records))
        object.__setattr__(self, "workload", items_of(self.workload))
        check_columns(self.domain)
        self.pairs  # noqa: B018  # a workload that names no column is refused
        _require_possible(self.given_cells, self.joint, self.domain.published)
        self._settle_labels()
        least = int(self.copies.sum()) + self.spent_on_labels
        object.__setattr__(self, "units", integer("units", self.units, least=least, most=MOST_UNITS))

    def _settle_labels(self) -> None:
        """Check what open columns need, and refuse it where there is none."""
        given = {"threshold": self.threshold, "label_units": self.label_units}
        for name, value in given.items():
            if self.open and value is None:
                raise ParameterError(f"marginals needs {name}=... for columns of open labels")
            if not self.open and value is not None:
                raise ParameterError(f"{name} is for columns of open labels, and the domain has none. Leave it out")
        if self.open:
            object.__setattr__(self, "threshold", integer("threshold", self.threshold, least=2, most=MOST_THRESHOLD))
            units = integer("label_units", self.label_units, least=1, most=MOST_UNITS)
            if math.isqrt(units) ** 2 != units:
                raise ParameterError(f"label_units must be the square of an integer, got {units:,}")
            object.__setattr__(self, "label_units", units)

    @cached_property
    def open(self) -> list[int]:
        """The numbers of the columns of open labels."""
        return open_columns(self.domain)

    @property
    def spent_on_labels(self) -> int:
        """How many units go to finding out which labels are kept."""
        return (self.label_units or 0) * len(self.open)

    @cached_property
    def sizes(self) -> list[int]:
        """Numbers of cells of the columns; 0 of an open one."""
        return [int(column.size or 0) for column in self.domain.columns.values()]

    @cached_property
    def pairs(self) -> list[Pair]:
        """The two-way tables that matter, as numbers of columns."""
        return worked_on(self.domain, self.workload)

    @cached_property
    def nodes(self) -> list[Nodes | None]:
        """What is counted of each long ordered column; None of another, of which cells are."""
        return [nodes_of(column) for column in self.domain.columns.values()]

    @cached_property
    def lengths(self) -> list[int]:
        """How many counts a table of each column has."""
        return [size if nodes is None else nodes.count for size, nodes in zip(self.sizes, self.nodes, strict=True)]

    @cached_property
    def copies(self) -> Integers:
        """In how many counts of each column's table a record is."""
        return np.array([1 if nodes is None else len(nodes.levels) for nodes in self.nodes])

    @cached_property
    def first(self) -> Integers:
        """The ``q`` of each one-way table before anything is known."""
        return first_units(self.one_way_cost, self.copies, self.units, alone=not self.pairs)

    @cached_property
    def one_way_cost(self) -> Floats:
        """What noise of scale 1 on each one-way table costs in all tables."""
        return noise_cost(self.sizes, len(self.domain.columns) - 1)

    @cached_property
    def usual_errors(self) -> Floats:
        """About what standard error the counts of each one-way table have in the end."""
        return self.scale / np.sqrt(usual_units(self.one_way_cost, self.copies, self.units, alone=not self.pairs))

    @cached_property
    def blocks(self) -> list[tuple[int, ...]]:
        """The columns that are drawn together: those that the domain constrains together, and every other by itself."""
        joined = {i for columns in self.joint for i in columns}
        return sorted([*self.joint, *((i,) for i in range(len(self.sizes)) if i not in joined)])

    @cached_property
    def joint(self) -> dict[tuple[int, ...], tuple[Integers, ...]]:
        """The joint cells that are allowed of columns that are constrained together, as the cells of each column."""
        return _joint_cells(self.domain)

    @cached_property
    def given_cells(self) -> dict[int, Integers]:
        """The cells that released records may have of some columns."""
        return _given(self.domain, self.given)


def check_columns(domain: Domain) -> None:
    """Refuse a domain with a continuous column, or with too many cells or columns."""
    if len(domain.columns) > _MOST_COLUMNS:
        raise ParameterError(
            f"marginals takes at most {_MOST_COLUMNS} columns, and the domain has {len(domain.columns):,}. "
            "Declare fewer columns"
        )
    for name, column in domain.columns.items():
        if column.size is None and not column.open:
            raise ParameterError(f"marginals needs finite columns. Declare cells or categories for column {name!r}")
        if (column.size or 0) > MOST_CELLS:
            raise ParameterError(
                f"marginals holds at most {MOST_CELLS:,} cells a column, and column {name!r} has {column.size:,}. "
                "Declare fewer cells"
            )


def _joint_cells(domain: Domain) -> dict[tuple[int, ...], tuple[Integers, ...]]:
    """Return, by the columns of each connected set of constraints, the joint cells that all of them allow.

    Raises ParameterError when there are more joint cells than can be held, or none is allowed.
    """
    refuse_large(domain.names, domain.constraints, most_cells=_MOST_JOINT, name=_NAME)
    joined: list[set[int]] = []
    for constraint in domain.constraints:
        near = [each for each in joined if each & set(constraint.columns)]
        joined = [each for each in joined if each not in near] + [set(constraint.columns).union(*near)]
    found = {}
    for columns in map(tuple, map(sorted, joined)):
        names, sizes = (
            [domain.names[i] for i in columns],
            [int(list(domain.columns.values())[i].size or 0) for i in columns],
        )
        if (cells := math.prod(sizes)) > _MOST_JOINT:
            raise ParameterError(
                f"marginals cannot hold what is declared: it links columns {', '.join(map(repr, names))}, which have "
                f"{cells:,} cells together, more than {_MOST_JOINT:,}. Declare fewer cells of these columns"
            )
        grid = np.unravel_index(np.arange(cells), sizes)
        place = dict(zip(columns, grid, strict=True))
        allowed = np.ones(cells, dtype=np.bool_)
        for constraint in domain.constraints:
            if set(constraint.columns) <= set(columns):
                allowed &= constraint.allowed[tuple(place[i] for i in constraint.columns)]
        if not allowed.any():
            raise ParameterError(f"what is declared leaves no values of the columns {', '.join(map(repr, names))}")
        found[columns] = tuple(codes[allowed].astype(np.int64) for codes in grid)
    return found


def items_of(workload: Any) -> tuple[str, ...] | None:
    """Return the items of a workload, given as text or one by one."""
    if workload is None:
        return None
    return tuple(item.strip() for item in (workload.split(",") if isinstance(workload, str) else map(str, workload)))


def worked_on(domain: Domain, workload: Sequence[str] | None) -> list[Pair]:
    """Return the pairs of columns that a workload names: all where there is none."""
    every = list(combinations(range(len(domain.columns)), 2))
    if workload is None:
        return every
    place = {name: i for i, name in enumerate(domain.columns)}
    chosen: set[Pair] = set()
    for item in workload:
        names = [item] if item in place else [name.strip() for name in str(item).split("*")]
        if unknown := [name for name in names if name not in place]:
            raise ParameterError(f"workload names {unknown[0]!r}, which is no column. Write COLUMN or COLUMN*COLUMN")
        if len(names) > 2 or len(set(names)) != len(names):
            raise ParameterError(f"workload takes one or two columns an item, got {item!r}")
        asked = {place[name] for name in names}
        chosen |= {pair for pair in every if asked <= set(pair)}
    return [pair for pair in every if pair in chosen]


def _given(domain: Domain, text: str | None) -> dict[int, Integers]:
    """Return the cells that a condition on released records names, by the column's number."""
    if text is None:
        return {}
    if not isinstance(text, str):
        raise unfit("given", "TOML text", text, remedy="For example: sex = 'Female', age = {from = 18, below = 65}")
    try:
        conditions = parsed_toml(f"given = {{{text}}}")["given"].items()
    except DomainError:
        raise ParameterError(
            'given must be conditions in TOML with commas between, such as sex = "Female", age = {from = 18}'
        ) from None
    found = {}
    for name, condition in conditions:
        if name not in domain.columns:
            raise ParameterError(f"given names {name!r}, which is no column")
        cells = CellReader(name, domain.columns[name]).codes(plain_condition(condition))
        found[domain.names.index(name)] = cells
    return found


def _require_possible(
    given: Mapping[int, Integers],
    joint: Mapping[tuple[int, ...], tuple[Integers, ...]],
    published: Sequence[PublishedTotals],
) -> None:
    """Refuse a condition that no record allowed by the domain meets, or of which published totals have none."""
    for totals in published:
        if totals.column is None or totals.group is None or totals.column not in given:
            continue
        if not totals.counts[totals.group[given[totals.column]]].any():
            raise ParameterError("given asks for records of which published totals have none. Take another condition")
    for columns, codes in joint.items():
        meets = [np.isin(cells, given[i]) for i, cells in zip(columns, codes, strict=True) if i in given]
        if meets and not np.all(meets, axis=0).any():
            raise ParameterError("given asks for records that the domain declares impossible. Take another condition")
