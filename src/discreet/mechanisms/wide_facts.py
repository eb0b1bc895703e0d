"""Public facts of a mechanism on tables of one and two columns: its tables, its units, and what may be drawn."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.errors import DomainError, ParameterError, choice, integer, positive_size, unfit
from discreet._core.numeric import Booleans, Floats, Integers
from discreet._core.reading import parsed_toml
from discreet._core.text import as_written, comma_items
from discreet.domain import Domain
from discreet.mechanisms.latent_classes import Pair
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.reading import MOST_TABLES, READING_ONLY, SAMPLINGS, Sampling

if TYPE_CHECKING:
    from discreet.mechanisms.tree import Nodes

LEAST_SCALE = 9.0  # below, sums of noise are not noise of a larger scale to within 1e-300
MOST_COLUMNS, MOST_CELLS = 128, 1 << 16  # of a domain, and of a column
MOST_UNITS = 1 << 24
MOST_THRESHOLD = 1 << 40  # records that a label can be asked to have
HALF_FOLDED = 0.5 * math.sqrt(2.0 / math.pi)  # half the mean absolute value of a normal variable

_EXAMPLE = "For example: sex = 'Female', age = {from = 18, below = 65}"
_MOST_JOINT = 20_000  # joint cells of columns that are constrained together
_LONG = 32  # cells of an ordered column, beyond which sums of them are measured too

# -- units of measurement -----------------------------------------------------------------------------------------

_DEPENDENCE = 6  # numbers in which a table of two columns differs from independence, as far as noise is concerned
_FIRST = 0.15  # share of the units that all one-way tables get before anything is known
OUTCOMES = 0.7, 0.4  # share of the remaining units that tables of an outcome get: alone, and beside others
USUAL = 0.7  # share that they are worth in the end, about: two-way tables tell of columns too
_SCORES = 0.17  # share of the squared budget that scores get, at most
_CLEAR_SCORE = 0.05  # noise of a score, as a share of the records, that is little enough
LABELS = 0.1  # share of the units with which the labels of an open column are found
ALL_LABELS = 0.3  # share with which those of all open columns are, at most
_MOST_COSTLY = 256  # cells of a column that noise is avoided in: of more, most are empty
_WON, _CLEARER = 50.0, 4.0  # of a pair whose cells are fine: what they win back, and what its noise counts for
_WEIGHT = 0.35  # of an error of a column in the error of a table of two


def score_units(noise: float, scores: int, units: int) -> int:
    """Return the least square of units for each score with which its noise is clear, or the largest that may be."""
    # noise: of a score of one unit, as a share of the records; units: that all tables cost
    q = 1
    while (
        scores
        and noise * math.sqrt((units + q * q * scores) / (units + scores)) / q > _CLEAR_SCORE
        and (q + 1) ** 2 * scores * (1.0 - _SCORES) <= _SCORES * units
    ):
        q += 1
    return q * q


def table_cost(a: float, b: float) -> float:
    """Return the error, in records, that noise of scale 1 makes in a table of so many rows and columns."""
    return HALF_FOLDED * math.sqrt(a * b * min((a - 1.0) * (b - 1.0), _DEPENDENCE))


@dataclass(frozen=True, eq=False)
class Allocation:
    """Which tables get the units of measurement: a table with ``q^2`` units has noise of ``1/q`` times their scale."""

    # All units are paid; what was released decides only which table gets them (theorem T20).

    units: int
    sizes: Sequence[int]  # numbers of cells of the columns
    copies: Integers  # shape (columns,): units that the table takes for each of its q^2
    alone: bool  # whether there are no tables of two columns

    @cached_property
    def cost(self) -> Floats:
        """The error, in records, that noise of scale 1 on each one-way table makes in those of two columns."""
        cells = np.minimum(self.sizes, _MOST_COSTLY).astype(np.float64)
        return np.asarray(HALF_FOLDED * _WEIGHT * max(1, len(cells) - 1) * cells)

    @cached_property
    def first(self) -> Integers:
        """The ``q`` of each one-way table before anything is known: at least 1."""
        return _affordable(np.maximum(1, np.sqrt(self.spread(_FIRST)).astype(np.int64)), self.copies, self.units)

    @cached_property
    def remaining(self) -> int:
        """The units that what was released decides on."""
        return self.units - int((self.copies * self.first**2).sum())

    def spread(self, part: float) -> Floats:
        """Return a part of the units, or all where one-way tables are alone, divided between them."""
        share = (self.cost / self.copies) ** (2.0 / 3.0)
        return np.asarray((1.0 if self.alone else part) * self.units * share / (self.copies * share).sum())

    def worth(
        self,
        scores: Floats,
        shapes: Sequence[tuple[int, int]],
        finer: Sequence[tuple[int, int]],
        scale: float,
        records: float,
        reserved: int = 0,
        alike: Floats | float = 1.0,
    ) -> tuple[Integers, Integers, Integers, Booleans]:
        """Return which tables of two columns to measure, their ``q``, that of one-way tables, and which are finer."""
        # A table left out costs its score, one that is measured its noise. Taken in the order of their scores by what
        # noise costs in them, as many are measured as make the sum least if every unit helps most (c^(2/3) of cost c):
        # on finer cells where these win back more. What k cells of a column lose falls with k^2.
        # shapes, finer: first those of outcomes, which have no score. alike: how many tables are read as one with each.
        first_scored, lighter = len(shapes) - len(scores), alike**-1.5
        cost, fine_cost = [lighter * np.array([table_cost(a, b) for a, b in level]) for level in (shapes, finer)]
        dearer = fine_cost - cost
        losses = [np.array([1.0 / a**2 + 1.0 / b**2 for a, b in level]) for level in (shapes, finer)]
        outcomes = np.flatnonzero(fine_cost[:first_scored] > 0.0)
        part = OUTCOMES[len(scores) > 0] * min(1.0, first_scored / max(1, len(self.cost) - 1))
        share, nothing = int(part * self.remaining) if outcomes.size else 0, np.zeros(len(outcomes))
        outcome_q = _whole(fine_cost[outcomes], np.ones_like(outcomes), nothing, max(0, share - reserved))
        remaining = self.remaining - reserved - int(outcome_q @ outcome_q)
        clear_outcomes = dearer[outcomes] > 0.0
        cost, dearer, losses = cost[first_scored:], dearer[first_scored:], [level[first_scored:] for level in losses]
        won = _WON * scores**2 / records * (losses[0] - losses[1])
        won, scores = [values / np.broadcast_to(alike, len(shapes))[first_scored:] for values in (won, scores)]
        order = np.argsort(-scores / np.maximum(cost, 1e-9) ** (2.0 / 3.0), kind="stable")
        order = order[(scores[order] > 0.0) & (cost[order] > 0.0)]
        columns, tables, numbers = len(self.cost), len(order), [0]
        cost = np.concatenate((self.cost * np.mean(lighter), cost[order]))
        copies = np.concatenate((self.copies, np.ones(tables, dtype=np.int64)))
        spent = np.concatenate((self.first.astype(np.float64) ** 2, np.zeros(tables)))
        while numbers[-1] < tables:  # every number up to 100, then in steps of 2 %
            numbers.append(min(tables, numbers[-1] + max(1, numbers[-1] // 50)))
        errors = []
        for number in numbers:
            end = columns + number
            units = _filled(cost[:end], copies[:end], spent[:end], remaining)
            errors.append(scale * float((cost[:end] / np.sqrt(units)).sum()) + float(scores[order[number:]].sum()))
        number = numbers[int(np.argmin(errors))]
        end, order = columns + number, order[:number]
        units = _filled(cost[:end], copies[:end], spent[:end], remaining)[columns:]
        clear = won[order] > scale * dearer[order] / np.sqrt(units)
        clear &= dearer[order] > 0.0
        cost[columns:end] += np.where(clear, (_CLEARER - 1.0) * cost[columns:end] + _CLEARER * dearer[order], 0.0)
        q = _whole(cost[:end], copies[:end], spent[:end], remaining)
        order, clear = np.append(outcomes, first_scored + order), np.append(clear_outcomes, clear)
        return order, np.append(outcome_q, q[columns:]), q[:columns], clear


def _affordable(q: Integers, copies: Integers, units: int) -> Integers:
    """Return the ``q``, lowered until they cost no more than the units: in integers, as privacy rests on it."""
    while int((copies * q * q).sum()) > max(0, units):
        q[q.argmax()] -= 1
    return q


def _filled(cost: Floats, copies: Integers, spent: Floats, units: float) -> Floats:
    """Return ``max(spent, t (cost/copies)^(2/3))`` for each table, which takes the further units that there are."""
    share, low, high = (cost / copies) ** (2.0 / 3.0), 0.0, 1.0
    total = units + copies @ spent
    while copies @ np.maximum(spent, high * share) < total:
        high *= 2.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if copies @ np.maximum(spent, middle * share) >= total:
            high = middle
        else:
            low = middle
    return np.asarray(np.maximum(spent, low * share) + 1e-12)


def _whole(cost: Floats, copies: Integers, spent: Floats, units: int) -> Integers:
    """Return the ``q`` of a further measurement of each table: steps go where they take most error for their units."""
    q = np.sqrt(np.maximum(0.0, _filled(cost, copies, spent, units) - spent)).astype(np.int64)
    q = _affordable(q, copies, units)
    units -= int((copies * q * q).sum())

    def step(i: int) -> tuple[float, int]:
        now, then = spent[i] + q[i] ** 2, spent[i] + (q[i] + 1) ** 2
        error = cost[i] / math.sqrt(now) if now else math.inf
        return (cost[i] / math.sqrt(then) - error) / (copies[i] * (2 * q[i] + 1)), i

    queue = [step(i) for i in range(len(q))]
    heapq.heapify(queue)
    while queue:
        _, i = heapq.heappop(queue)
        units_of_step = int(copies[i]) * (2 * int(q[i]) + 1)
        if units_of_step <= units:
            q[i] += 1
            units -= units_of_step
            heapq.heappush(queue, step(i))
    return q


# -- columns ------------------------------------------------------------------------------------------------------


def open_columns(domain: Domain) -> list[int]:
    """Return the numbers of the columns of open labels."""
    return [i for i, column in enumerate(domain.columns.values()) if column.open]


def check_columns(domain: Domain) -> None:
    """Refuse a domain with a continuous column, or with too many cells or columns."""
    if len(domain.columns) > MOST_COLUMNS:
        raise ParameterError(
            f"marginals takes at most {MOST_COLUMNS} columns, and the domain has {len(domain.columns):,}. "
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


def items_of(workload: Any) -> tuple[str, ...] | None:
    """Return the items of a workload, given as text or one by one."""
    if workload is None:
        return None
    if isinstance(workload, str):
        workload = comma_items(workload)
    return tuple(map(str, workload))


def measurable_pairs(domain: Domain, workload: Sequence[str] | None) -> tuple[list[Pair], list[Pair]]:
    """Return pairs that need no score (of an outcome, a dependency), and of the others those of a workload, or all."""
    place = {name: i for i, name in enumerate(domain.columns)}
    pairs = {(min(i, j), max(i, j)) for i in {place[name] for name in domain.outcome} for j in place.values() if i != j}
    pairs |= {(min(i, j), max(i, j)) for i, j in domain.dependencies}
    outcome_pairs, all_pairs = sorted(pairs), combinations(range(len(place)), 2)
    scored_pairs = [pair for pair in all_pairs if pair not in pairs]
    if workload is None:
        return outcome_pairs, scored_pairs
    items = []
    for item in workload:
        cuts = [(item[: star.start()], item[star.end() :]) for star in re.finditer(r"\*", item)]
        forms = [[part if part in place else part.strip() for part in form] for form in [*cuts, item.split("*")]]
        names = next((form for form in [[item], *forms] if set(form) <= set(place)), forms[-1])
        if unknown := [name for name in names if name not in place]:
            raise ParameterError(
                f"workload names {unknown[0]!r}, which is no column. Write COLUMN or COLUMN*COLUMN, all of it in "
                "double quotes where a name holds a comma"
            )
        if len(names) > 2 or len(set(names)) != len(names):
            raise ParameterError(f"an item of the workload must be one or two columns, got {item!r}")
        items.append({place[name] for name in names})
    return outcome_pairs, [pair for pair in scored_pairs if any(item <= set(pair) for item in items)]


@dataclass(frozen=True, kw_only=True)
class WideFacts:
    """The public facts of a mechanism on tables of one and two columns. Parameters: see Marginals."""

    domain: Domain
    records: int
    scale: float
    units: int
    workload: tuple[str, ...] | None = None
    given: str | None = field(default=None, metadata=READING_ONLY)
    threshold: int | None = None
    label_units: int | None = None
    score_units: int | None = None
    sampling: Sampling = field(default=SAMPLINGS[0], metadata=READING_ONLY)
    tables: int | None = field(default=None, metadata=READING_ONLY)

    def __post_init__(self) -> None:
        # a multiple of 2^-10, whose multiples by small integers are exact in floats
        object.__setattr__(self, "scale", math.ceil(GAUSSIAN.checked(self.scale) * 1024.0) / 1024.0)
        if self.scale < LEAST_SCALE:
            raise ParameterError(f"scale must be at least {as_written(LEAST_SCALE)}, got {as_written(self.scale)}")
        choice("sampling", self.sampling, SAMPLINGS)
        if self.tables is not None:
            object.__setattr__(self, "tables", integer("tables", self.tables, least=1, most=MOST_TABLES))
        if self.tables == 1:
            object.__setattr__(self, "tables", None)
        if self.tables is not None:
            object.__setattr__(self, "sampling", "iid")  # the combining rules take records for independent
            if self.given is not None:
                raise ParameterError(
                    "several tables are drawn of all kinds of records. Leave given out, and analyse the records of "
                    "each table that meet the condition"
                )
        object.__setattr__(self, "records", positive_size("records", self.records))
        object.__setattr__(self, "workload", items_of(self.workload))
        check_columns(self.domain)
        self.pairs  # noqa: B018  # a workload that names no column is refused
        self._require_possible()
        self._settle_labels()
        least = int(self.copies.sum()) + self.spent_on_labels
        object.__setattr__(self, "units", integer("units", self.units, least=least, most=MOST_UNITS))
        if self.score_units is not None:
            most = self.units - self.spent_on_labels
            object.__setattr__(self, "score_units", integer("score_units", self.score_units, least=1, most=most))
        for name in ("label_units", "score_units"):
            if (square := getattr(self, name)) is not None and math.isqrt(square) ** 2 != square:
                raise ParameterError(f"{name} must be the square of an integer, got {square:,}")

    def _settle_labels(self) -> None:
        """Check what open columns need, and refuse it where there is none."""
        for name, least, most in (("threshold", 2, MOST_THRESHOLD), ("label_units", 1, MOST_UNITS)):
            value = getattr(self, name)
            if self.open and value is None:
                raise ParameterError(f"marginals needs {name}=... for columns of open labels")
            if not self.open and value is not None:
                raise ParameterError(f"{name} is for columns of open labels, and the domain has none. Leave it out")
            if self.open:
                object.__setattr__(self, name, integer(name, value, least=least, most=most))

    def _require_possible(self) -> None:
        """Refuse a condition that no record allowed by the domain meets, or of which published totals have none."""
        conditions = self.given_cells
        for totals in self.domain.published:
            column, group = totals.column, totals.group
            if column in conditions and group is not None and not totals.counts[group[conditions[column]]].any():
                raise ParameterError(
                    "given asks for records of which published totals have none. Take another condition"
                )
        for columns, codes in self.joint.items():
            matches = [np.isin(c, conditions[i]) for i, c in zip(columns, codes, strict=True) if i in conditions]
            if matches and not np.all(matches, axis=0).any():
                raise ParameterError(
                    "given asks for records that the domain declares impossible. Take another condition"
                )

    @cached_property
    def open(self) -> list[int]:
        """The numbers of the columns of open labels."""
        return open_columns(self.domain)

    @property
    def label_q(self) -> int:
        """By whose square the counts of open labels are multiplied: their noise has that times the scale."""
        return math.isqrt(self.label_units or 0)

    @property
    def spent_on_labels(self) -> int:
        """How many units go to finding out which labels are kept."""
        return (self.label_units or 0) * len(self.open)

    @cached_property
    def sizes(self) -> list[int]:
        """Numbers of cells of the columns; 0 of an open one."""
        return [int(column.size or 0) for column in self.domain.measured_columns.values()]

    @cached_property
    def pairs(self) -> list[Pair]:
        """The two-way tables that get a score, as numbers of columns."""
        return measurable_pairs(self.domain, self.workload)[1]

    @cached_property
    def nodes(self) -> list[Nodes | None]:
        """The nodes that are counted of each long ordered column; None of another, of which cells are."""
        columns = self.domain.measured_columns.values()
        long = [column.on_a_line and (column.values or 0) > _LONG for column in columns]
        long_sizes = [int(column.size or 0) if is_long else 0 for column, is_long in zip(columns, long, strict=True)]
        if not any(long_sizes):
            return [None] * len(columns)
        from discreet.mechanisms.tree import Nodes

        return [Nodes.from_size(size) if size else None for size in long_sizes]

    @cached_property
    def multiples(self) -> list[Integers]:
        """Of the ``q`` of each column's table, that of each of its counts."""
        columns = zip(self.sizes, self.nodes, strict=True)
        return [np.ones(size, dtype=np.int64) if nodes is None else nodes.multiples for size, nodes in columns]

    @cached_property
    def lengths(self) -> list[int]:
        """How many counts a table of each column has."""
        return [len(multiples) for multiples in self.multiples]

    @cached_property
    def copies(self) -> Integers:
        """How many units each column's table takes for one of its ``q^2``: those of all counts that a record is in."""
        return np.array([1 if nodes is None else nodes.copies for nodes in self.nodes])

    @cached_property
    def allocation(self) -> Allocation:
        """How the units of the tables are divided."""
        return Allocation(self.units, self.sizes, self.copies, not any(measurable_pairs(self.domain, self.workload)))

    @cached_property
    def blocks(self) -> list[tuple[int, ...]]:
        """The columns that are drawn together: constrained ones, and every other by itself if it follows from none."""
        joined = {i for columns in self.joint for i in columns} | {target for _, target in self.domain.dependencies}
        return sorted([*self.joint, *[(i,) for i in range(len(self.sizes)) if i not in joined]])

    @cached_property
    def joint(self) -> dict[tuple[int, ...], tuple[Integers, ...]]:
        """By the columns of each connected set of constraints, the joint cells that all of them allow."""
        joint = {}
        for repair in self.domain.repairs:
            columns = tuple(sorted(repair.columns))
            if repair.allowed.size > _MOST_JOINT:
                raise ParameterError(
                    "marginals cannot hold what is declared: it links columns "
                    f"{', '.join([repr(self.domain.names[i]) for i in columns])}, which have {repair.allowed.size:,} "
                    f"cells together, more than {_MOST_JOINT:,}. Declare fewer cells of these columns"
                )
            joint[columns] = np.nonzero(repair.allowed.transpose(np.argsort(repair.columns)))
        return joint

    @cached_property
    def given_cells(self) -> dict[int, Integers]:
        """The cells that released records may have of some columns, by the column's number."""
        if self.given is None:
            return {}
        if not isinstance(self.given, str):
            raise unfit("given", "TOML text", self.given, remedy=_EXAMPLE)
        from discreet.domain import CellReader, plain_condition

        try:
            conditions = parsed_toml(f"given = {{{self.given}}}")["given"].items()
        except DomainError:
            raise ParameterError(
                'given must be conditions in TOML with commas between, such as sex = "Female", age = {from = 18}'
            ) from None
        cells = {}
        for name, condition in conditions:
            if name not in self.domain.columns:
                raise ParameterError(
                    f"given names {name!r}, which is no column. Quote names of more than letters, digits, - and _"
                )
            reader, place = CellReader(name, self.domain.columns[name]), self.domain.names.index(name)
            differences = [difference.columns[0] for difference in self.domain.differences]
            if place in differences + [target for _, target in self.domain.dependencies]:
                raise ParameterError(
                    f"given names {name!r}, which follows from another column. Name other columns, or leave the "
                    "difference, or determines, out"
                )
            cells[place] = reader.codes(plain_condition(condition))
        return cells
