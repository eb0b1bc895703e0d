"""Marginals: noisy tables of one and two columns of a wide table, and records from a graphical model of them.

Theory and proofs: docs/theory/marginals.md (theorem T20).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import integer, positive_size
from discreet._core.errors import Infeasible, ParameterError
from discreet._core.numeric import least_real
from discreet._core.random import seeded
from discreet._core.text import as_written, counted
from discreet.domain import Domain, Records
from discreet.domain._commonness import Commonness, inner_half
from discreet.domain._constraints import refuse_large
from discreet.domain._records import Parts
from discreet.mechanisms._base import NEIGHBOURS, CellCounts, Output, PartsMechanism, feasible, require_relation
from discreet.mechanisms._draws import DEFAULT_SAMPLING, Sampling, check_sampling, draw_cells
from discreet.mechanisms._latent_classes import LatentClasses
from discreet.mechanisms._measured_tables import MeasuredTables
from discreet.mechanisms._mechanism import Mechanism, Outcome, Remedy
from discreet.mechanisms._merged_cells import Merged
from discreet.mechanisms._units import first_units, noise_cost
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.readings.simplex import nearest_probabilities
from discreet.privacy import Budget, ConstantProfile, DiscreteGaussianPair, Guarantee, Profile, Relation
from discreet.privacy._guarantee import RelationName

__all__ = ["Marginals"]

_LEAST_SCALE = 9.0  # below, sums of noise are not noise of a larger scale to within 1e-300
_MOST_CELLS = 1 << 20
_MOST_COLUMNS = 128
_MOST_JOINT = 20_000  # joint cells of columns that are constrained together
_UNITS_EACH = 40  # units a table that may be measured

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Marginals(PartsMechanism, Mechanism):
    r"""Measure all one-way tables and the two-way tables worth their noise, fit a graphical model, draw any number.

    For tables of many columns: noise is added to tables of one and two columns, never to the product of all cells.

    Parameters
    ----------
    domain : Domain
        Public. Every column is finite; their product may have any number of cells.
    records : int
        Public number of records: ``n`` under replacement, a declared number under add/remove. Where the noisy tables
        contradict it, by 4 standard errors, their own total is taken.
    scale : float
        Of the noise of one unit, in records: ``P(z)`` is proportional to ``e^(-z^2/(2 scale^2))``. A table that gets
        ``q^2`` units has noise of scale ``scale / q`` in effect.
    units : int
        Units of measurement in all. What was released decides which table gets them, never how many are spent.
    workload : tuple of str, optional
        Which two-way tables matter: ``"age*income"`` is one of them, ``"income"`` all with that column. By default all.
        The others are not measured.
    sampling : {"stratified", "iid"}
        Records drawn in systematic order, or independently. Post-processing: it costs no privacy.

    Raises
    ------
    ParameterError
        When a column is not finite, or a parameter is out of range.

    Notes
    -----
    The private step has four stages. (1) Every one-way table gets noise. (2) Every two-way table gets a score,
    ``S = sum of max(0, N - R)`` over its cells, with ``R`` the table that the *released* one-way tables would make if
    the columns were independent, in integers; scores get noise of one unit. (3) What is left of the units goes to
    two-way tables and again to one-way tables, by the released scores. (4) These tables get noise.

    Guarantee (theorem T20): ``units`` units are spent whatever is released, each a table in which two counts change by
    one (replacement) or one count does (add/remove), and each score changes by at most one. The profile is that of
    ``2 units + tables`` (``units + tables``) counts with discrete Gaussian noise: an upper bound, since no pair of
    tables changes every score for every outcome. Releases draw noise with OpenDP's exact sampler.

    Everything else is post-processing: cells are merged, noise is reduced by empirical Bayes, a mixture of independent
    columns is fitted to all tables, and records are drawn from it. That columns depend on each other only as the
    measured tables and this model say is an approximation; the measured tables are what is known.

    References
    ----------
    McKenna, Miklau and Sheldon (2021), on selecting and measuring marginals; Zhu, Dong and Wang (2022), Theorem 10, on
    adaptive composition of dominating pairs.

    Examples
    --------
    >>> from discreet.domain import Boolean, Integer
    >>> wide = Domain(columns={"age": Integer(lower=0, upper=99), "a": Boolean(), "b": Boolean(), "c": Boolean()})
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> mechanism = Marginals.calibrated(budget, domain=wide, n=10_000)
    >>> mechanism.guarantee(n=10_000).delta(1.0) <= 1e-6
    True
    """

    name: ClassVar[str] = "marginals"
    free: ClassVar[tuple[str, ...]] = ("scale",)
    relations: ClassVar[tuple[RelationName, ...]] = ("replacement", "add-remove")
    cells_cost: ClassVar[bool] = False
    keeps_declared: ClassVar[bool] = True
    most_draws: ClassVar[int] = 8
    share_is: ClassVar[Literal["prediction"]] = "prediction"
    share_is_of: ClassVar[str] = "have another value than the table's in some one column, because of noise"
    helped_by: ClassVar[tuple[Remedy, ...]] = ("cells", "columns", "epsilon", "delta")

    domain: Domain
    records: int
    scale: float
    units: int
    workload: tuple[str, ...] | None = None
    sampling: Sampling = DEFAULT_SAMPLING

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _on_grid(GAUSSIAN.checked(self.scale)))
        if self.scale < _LEAST_SCALE:
            raise ParameterError(f"scale must be at least {as_written(_LEAST_SCALE)}, got {as_written(self.scale)}")
        object.__setattr__(self, "records", positive_size("records", self.records))
        object.__setattr__(self, "workload", None if self.workload is None else tuple(self.workload))
        check_sampling(self.sampling)
        _check_columns(self.domain)
        self.pairs, self.joint  # noqa: B018  # refuse a workload of no table, and constraints that cannot be held
        object.__setattr__(self, "units", integer("units", self.units, least=len(self.domain.columns), most=1 << 24))

    # -- public facts -------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> list[int]:
        """Numbers of cells of the columns."""
        return [int(column.size or 0) for column in self.domain.columns.values()]

    @cached_property
    def pairs(self) -> list[Pair]:
        """The two-way tables that matter, as numbers of columns."""
        return _workload(self.domain, self.workload)

    @cached_property
    def first(self) -> Integers:
        """The ``q`` of each one-way table before anything is known."""
        return first_units(self.one_way_cost, self.units, alone=not self.pairs)

    @cached_property
    def one_way_cost(self) -> Floats:
        """What noise of scale 1 on each one-way table costs in all tables."""
        return noise_cost(self.sizes, len(self.domain.columns) - 1)

    @cached_property
    def blocks(self) -> list[tuple[int, ...]]:
        """The columns that are drawn together: those that the domain constrains together, and every other by itself."""
        joined = {i for columns in self.joint for i in columns}
        return sorted([*self.joint, *((i,) for i in range(len(self.sizes)) if i not in joined)])

    @cached_property
    def joint(self) -> dict[tuple[int, ...], tuple[Integers, ...]]:
        """The joint cells that are allowed of columns that are constrained together, as the cells of each column."""
        return _joint_cells(self.domain)

    @property
    def _cells(self) -> int:
        raise ParameterError(f"{self.name} releases tables of one and two columns, not counts of all cells")

    # -- the private step ---------------------------------------------------------------------------------------

    def kernel(self, x: Parts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy tables and scores one after the other, each count multiplied by its table's units."""
        return self._stages(_Source(x, self), None, rng)[0]

    def log_prob(self, y: CellCounts, x: Parts) -> float:
        """Return the log-probability of an output: of discrete Gaussian masses, tables chosen by what came before."""
        return self._stages(_Source(x, self), np.asarray(y, dtype=np.int64), None)[1]

    def _stages(self, source: _Source, y: CellCounts | None, rng: Any) -> tuple[CellCounts, float]:
        """Draw the output where ``y`` is None, or return the log-probability of one: the law is that of the draws."""
        parts: list[CellCounts] = []
        total, at = 0.0, 0

        def stage(counts: CellCounts, q: int) -> CellCounts:
            nonlocal total, at
            scale, exact = q * self.scale, q * q * counts
            seen = exact + GAUSSIAN.draw(scale, len(exact), rng=rng) if y is None else y[at : at + len(exact)]
            total += float(GAUSSIAN.log_pmf(scale, seen - exact).sum())
            at += len(exact)
            parts.append(seen)
            return seen

        for counts, q in zip(source.one_way, self.first.tolist(), strict=True):
            stage(counts, q)
        first = MeasuredTables(self, np.concatenate(parts))
        tables = source.two_way(first.merged)
        stage(np.array([_score(tables[p], first.expected(*p)) for p in self.pairs], dtype=np.int64), 1)
        second = MeasuredTables(self, np.concatenate(parts))
        for columns, q in second.measured:
            stage(source.one_way[columns[0]] if len(columns) == 1 else tables[columns[0], columns[1]].ravel(), q)
        return np.concatenate(parts), total

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T20 for a table of ``n`` records."""
        require_relation(self, relation.name)
        n = positive_size("n", n)
        replaced = relation.name == "replacement"
        profile: Profile = ConstantProfile(value=0.0)
        if not replaced or max(self.sizes) > 1:  # one cell: replaced records change nothing, added ones its count
            counts = (2 if replaced else 1) * self.units + len(self.pairs)
            group = min(relation.group, n) if replaced else relation.group
            profile = DiscreteGaussianPair(scale=self.scale, group=group, counts=counts, tight=False)
        return Guarantee.proved(
            profile,
            relation=relation,
            n=n,
            theorem="T20",
            chosen="the columns, their cells, the workload, the units and the noise",
            caveats=("any number of records may be drawn from the noisy tables at no further cost",),
        )

    # -- its reading --------------------------------------------------------------------------------------------

    def model(self, y: Output, *, rng: np.random.Generator) -> LatentClasses:
        """Return the graphical model of the noisy tables, on the cells of the domain: public post-processing."""
        return MeasuredTables(self, cast(CellCounts, y)).model(rng)

    def finish(self, y: Output, *, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records from the model, in chunks."""
        model = self.model(y, rng=rng)
        for classes in draw_cells(model.shares, size, sampling=self.sampling, rng=rng):
            yield Records(columns=tuple(model.records(classes, stratified=self.stratified, rng=rng)))

    def outcome(self, y: Output, n: int) -> Outcome:
        """Return how many two-way tables were measured."""
        measured = [columns for columns, _ in MeasuredTables(self, cast(CellCounts, y)).measured if len(columns) == 2]
        if not measured and self.pairs:
            return Outcome(
                "no two-way table was worth its noise: columns of the released records are independent of each other"
            )
        return Outcome(f"{len(measured)} of {counted(len(self.pairs), 'two-way table')} were measured")

    # -- what can be said beforehand ----------------------------------------------------------------------------

    def share_not_from_data(self, n: int, like: Commonness | None = None) -> float:
        """Return the share of records that noise moves in the column in which it moves most, for an invented table.

        From the first round of one-way tables alone: what is measured later only improves them.
        """
        return max(self._moved(i, n) for i in range(len(self.sizes)))

    def _moved(self, i: int, n: int) -> float:
        column, size = list(self.domain.columns.values())[i], self.sizes[i]
        shares = inner_half(column, np.arange(size))
        shares = shares / shares.sum()
        noise = seeded(0).normal(0.0, self.scale / self.first[i], size=(4, size))
        return float(0.5 * np.abs(nearest_probabilities(shares + noise / n) - shares).sum(axis=1).mean())

    def predictive(self, shares: Floats, *, support: Records, n: int, rng: np.random.Generator) -> Floats:
        """Return probabilities of the support whose one-way tables are those of the table with one draw of noise."""
        weights = np.maximum(shares, 1e-9 / len(shares))
        targets = []
        for i, codes in enumerate(support.columns):
            counts = np.bincount(codes.astype(np.int64), weights=shares, minlength=self.sizes[i])
            noise = GAUSSIAN.approximate(self.scale / self.first[i], self.sizes[i], rng=rng)
            targets.append(nearest_probabilities(counts + noise / n))
        for _ in range(1 if len(targets) == 1 else 10):
            for codes, target in zip(support.columns, targets, strict=True):
                place = codes.astype(np.int64)
                held = np.bincount(place, weights=weights, minlength=len(target))
                weights = weights * (target / np.maximum(held, 1e-300))[place]
        return np.append(weights, max(0.0, 1.0 - weights.sum()))

    # -- calibration --------------------------------------------------------------------------------------------

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> Self:
        """Solve for the least scale; without ``units``, 40 for each table that may be measured."""
        cls.refuse_unknown(fixed, "relation")
        _check_columns(domain)
        scale, workload = fixed.pop("scale", None), fixed.get("workload")
        tables = len(domain.columns) + len(_workload(domain, workload))
        relation = Relation(name=fixed.pop("relation", "replacement"), group=group)
        own = {"units": _UNITS_EACH * tables, **fixed}

        def make(value: float) -> Any:
            return cls(domain=domain, records=n, scale=value, **own)

        if scale is not None:
            made: Self = make(scale)
            feasible(made.guarantee(relation, n=n), budget, f"{budget} with noise of scale {as_written(made.scale)}")
            return made
        if budget.delta == 0.0:
            raise Infeasible(f"{budget} with gaussian noise", {"delta >=": 1e-12})
        found = least_real(
            lambda value: make(value).guarantee(relation, n=n).meets(budget),
            _LEAST_SCALE,
            GAUSSIAN.largest_scale,
            relative=1e-6,
        )
        if found is None:
            feasible(make(GAUSSIAN.largest_scale).guarantee(relation, n=n), budget, f"{budget} with gaussian noise")
            raise AssertionError  # the largest scale is within the budget
        solved: Self = make(found)
        return solved


class _Source:
    """All that the private step asks of a table: its one-way tables, then the two-way ones, in one scan each."""

    def __init__(self, x: Parts, mechanism: Marginals) -> None:
        self._x, self._sizes, self._pairs = x, mechanism.sizes, mechanism.pairs

    @cached_property
    def one_way(self) -> list[Integers]:
        """The counts of every column's cells."""
        found = [np.zeros(size, dtype=np.int64) for size in self._sizes]
        for part in self._x.parts():
            for i, codes in enumerate(part.records.columns):
                found[i] += _counted(codes.astype(np.int64), part.frequencies, self._sizes[i])
        return found

    def two_way(self, merged: Sequence[Merged]) -> dict[Pair, Integers]:
        """Return the counts of the merged cells of every pair of columns that matters."""
        found = {(i, j): np.zeros(merged[i].count * merged[j].count, dtype=np.int64) for i, j in self._pairs}
        for part in self._x.parts():
            codes = [
                each.of[column.astype(np.int64)] for each, column in zip(merged, part.records.columns, strict=True)
            ]
            for i, j in self._pairs:
                cells = codes[i] * merged[j].count + codes[j]
                found[i, j] += _counted(cells, part.frequencies, len(found[i, j]))
        return {(i, j): counts.reshape(merged[i].count, merged[j].count) for (i, j), counts in found.items()}


def _counted(cells: Integers, frequencies: Integers, size: int) -> Integers:
    return np.rint(np.bincount(cells, weights=frequencies, minlength=size)).astype(np.int64)


def _score(counts: Integers, expected: Integers) -> int:
    """Return how many records independent columns would put elsewhere: ``g`` records change it by at most ``g``."""
    return int(np.maximum(0, counts - expected).sum())


def _on_grid(scale: float) -> float:
    """Return the scale rounded up to a multiple of 2^-10, whose multiples by small integers are exact in floats."""
    return math.ceil(scale * 1024.0) / 1024.0


def _check_columns(domain: Domain) -> None:
    """Refuse a domain with a column that is not finite, or with too many cells or columns."""
    if len(domain.columns) > _MOST_COLUMNS:
        raise ParameterError(
            f"marginals takes at most {_MOST_COLUMNS} columns, and the domain has {len(domain.columns):,}. "
            "Declare fewer columns"
        )
    for name, column in domain.columns.items():
        if column.size is None:
            raise ParameterError(f"marginals needs finite columns. Declare cells or categories for column {name!r}")
        if column.size > _MOST_CELLS:
            raise ParameterError(
                f"marginals holds at most {_MOST_CELLS:,} cells a column, and column {name!r} has {column.size:,}. "
                "Declare fewer cells"
            )


def _joint_cells(domain: Domain) -> dict[tuple[int, ...], tuple[Integers, ...]]:
    """Return, by the columns of each connected set of constraints, the joint cells that all of them allow.

    Raises ParameterError when there are more joint cells than can be held, or none is allowed.
    """
    refuse_large(domain.names, domain.constraints, most_cells=_MOST_JOINT, name=Marginals.name)
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


def _workload(domain: Domain, workload: Sequence[str] | None) -> list[Pair]:
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
