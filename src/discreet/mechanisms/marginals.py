"""Marginals: noisy tables of one and two columns of a wide table, and records from a graphical model of them.

Theory and proofs: docs/theory/marginals.md (theorem T20).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from discreet.domain._records import Parts
from discreet.mechanisms._base import NEIGHBOURS, CellCounts, Output, PartsMechanism, feasible, require_relation
from discreet.mechanisms._draws import DEFAULT_SAMPLING, Sampling, check_sampling, draw_cells
from discreet.mechanisms._latent_classes import LatentClasses, Table, denoised, fitted
from discreet.mechanisms._mechanism import Mechanism, Outcome, Remedy
from discreet.mechanisms._merged_cells import Merged, merged
from discreet.mechanisms._units import first_units, noise_cost, worth_measuring
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.readings.simplex import nearest_probabilities
from discreet.privacy import Budget, ConstantProfile, DiscreteGaussianPair, Guarantee, Profile, Relation
from discreet.privacy._guarantee import RelationName

__all__ = ["Marginals"]

_LEAST_SCALE = 9.0  # below, sums of noise are not noise of a larger scale to within 1e-300
_MOST_CELLS = 1 << 20
_MOST_COLUMNS = 128
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
        object.__setattr__(self, "units", integer("units", self.units, least=self._first_cost, most=1 << 24))

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
    def _first(self) -> Integers:
        return first_units(self._one_way_cost, self.units)

    @cached_property
    def _one_way_cost(self) -> Floats:
        return noise_cost(self.sizes, len(self.domain.columns) - 1)

    @property
    def _first_cost(self) -> int:
        return len(self.sizes)

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

        for counts, q in zip(source.one_way, self._first.tolist(), strict=True):
            stage(counts, q)
        if self.pairs:
            first = _Released(self, np.concatenate(parts))
            tables = source.two_way(first.merged)
            stage(np.array([_score(tables[p], first.expected(*p)) for p in self.pairs], dtype=np.int64), 1)
            second = _Released(self, np.concatenate(parts))
            for columns, q in second.measured:
                stage(tables[columns].ravel() if len(columns) == 2 else source.one_way[columns[0]], q)
        return np.concatenate(parts), total

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T20 for a table of ``n`` records."""
        require_relation(self, relation.name)
        n = positive_size("n", n)
        replaced = relation.name == "replacement"
        profile: Profile = ConstantProfile(value=0.0)
        if max(self.sizes) > 1:
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
        return _Released(self, cast(CellCounts, y)).model(rng)

    def finish(self, y: Output, *, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records from the model, in chunks."""
        model = self.model(y, rng=rng)
        for classes in draw_cells(model.shares, size, sampling=self.sampling, rng=rng):
            yield Records(columns=tuple(model.records(classes, stratified=self.stratified, rng=rng)))

    def outcome(self, y: Output, n: int) -> Outcome:
        """Return how many two-way tables were measured."""
        measured = [columns for columns, _ in _Released(self, cast(CellCounts, y)).measured if len(columns) == 2]
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
        noise = seeded(0).normal(0.0, self.scale / self._first[i], size=(4, size))
        return float(0.5 * np.abs(nearest_probabilities(shares + noise / n) - shares).sum(axis=1).mean())

    def predictive(self, shares: Floats, *, support: Records, n: int, rng: np.random.Generator) -> Floats:
        """Return probabilities of the support whose one-way tables are those of the table with one draw of noise."""
        weights = np.maximum(shares, 1e-9 / len(shares))
        targets = []
        for i, codes in enumerate(support.columns):
            counts = np.bincount(codes.astype(np.int64), weights=shares, minlength=self.sizes[i])
            noise = GAUSSIAN.approximate(self.scale / self._first[i], self.sizes[i], rng=rng)
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
            for i, j in found:
                cells = codes[i] * merged[j].count + codes[j]
                found[i, j] += _counted(cells, part.frequencies, len(found[i, j]))
        return {(i, j): counts.reshape(merged[i].count, merged[j].count) for (i, j), counts in found.items()}


def _counted(cells: Integers, frequencies: Integers, size: int) -> Integers:
    return np.rint(np.bincount(cells, weights=frequencies, minlength=size)).astype(np.int64)


class _Released:
    """What can be read from an output of the private step, or from its first stages. All of it is public."""

    def __init__(self, mechanism: Marginals, y: CellCounts) -> None:
        self._made, self._y = mechanism, np.asarray(y, dtype=np.int64)

    @cached_property
    def one_way(self) -> list[Floats]:
        """The counts of the first round."""
        ends = np.cumsum(self._made.sizes)
        parts = np.split(self._y[: ends[-1]], ends[:-1])
        return [part / float(q * q) for part, q in zip(parts, self._made._first.tolist(), strict=True)]

    @cached_property
    def total(self) -> float:
        """The number of records: the declared one, unless the noisy tables contradict it."""
        return _total(self._made, self.one_way, self._made._first.astype(np.float64) ** 2)

    @cached_property
    def merged(self) -> list[Merged]:
        """The merged cells of every column."""
        made = self._made
        precision = self.total * math.sqrt(made.units) / (made.scale * len(made.sizes))
        columns = made.domain.columns.values()
        errors = made.scale / made._first
        return [
            merged(column, noisy, error, precision)
            for column, noisy, error in zip(columns, self.one_way, errors.tolist(), strict=True)
        ]

    @cached_property
    def _coarse(self) -> list[Floats]:
        return self._combined(self.one_way, self._made._first.astype(np.float64) ** 2, (), self.total)

    def expected(self, i: int, j: int) -> Integers:
        """Return the two-way table that the one-way tables would make of independent columns, in whole records."""
        return np.rint(self.total * np.outer(self._coarse[i], self._coarse[j])).astype(np.int64)

    @cached_property
    def _after(self) -> int:
        return int(sum(self._made.sizes))

    @cached_property
    def measured(self) -> list[tuple[tuple[int, ...], int]]:
        """The tables of the last stage, as numbers of columns, and the ``q`` of each."""
        made = self._made
        scores = self._y[self._after : self._after + len(made.pairs)].astype(np.float64)
        shapes = [(self.merged[i].count, self.merged[j].count) for i, j in made.pairs]
        left = made.units - int((made._first**2).sum())
        taken, pairs, again = worth_measuring(
            scores, shapes, made._one_way_cost, made._first, units=left, scale=made.scale
        )
        tables: list[tuple[tuple[int, ...], int]] = [((i,), q) for i, q in enumerate(again.tolist()) if q]
        return tables + [(made.pairs[t], q) for t, q in zip(taken.tolist(), pairs.tolist(), strict=True) if q]

    def _tables(self) -> Iterator[tuple[tuple[int, ...], int, Floats]]:
        at = self._after + len(self._made.pairs)
        for columns, q in self.measured:
            counts = self._made.sizes if len(columns) == 1 else [each.count for each in self.merged]
            length = math.prod(counts[i] for i in columns)
            yield columns, q, self._y[at : at + length] / float(q * q)
            at += length

    def _combined(
        self, ones: Sequence[Floats], units: Floats, two_way: Sequence[tuple[Pair, int, Floats]], total: float
    ) -> list[Floats]:
        """Return the probabilities of merged cells, from one-way tables and the margins of two-way ones together."""
        sums = [each.sums(one) for each, one in zip(self.merged, ones, strict=True)]
        weight = [u / each.sums(np.ones(len(each.of))) for u, each in zip(units.tolist(), self.merged, strict=True)]
        sums = [a * w for a, w in zip(sums, weight, strict=True)]
        for (i, j), q, counts in two_way:
            a, b = self.merged[i].count, self.merged[j].count
            table = counts.reshape(a, b)
            sums[i], weight[i] = sums[i] + table.sum(axis=1) * (q * q / b), weight[i] + q * q / b
            sums[j], weight[j] = sums[j] + table.sum(axis=0) * (q * q / a), weight[j] + q * q / a
        return [_positive(a / w, total) for a, w in zip(sums, weight, strict=True)]

    def model(self, rng: np.random.Generator) -> LatentClasses:
        """Return the model of all tables, on the cells of the domain."""
        made = self._made
        ones, units = [one.copy() for one in self.one_way], made._first.astype(np.float64) ** 2
        two_way: list[tuple[Pair, int, Floats]] = []
        for columns, q, counts in self._tables() if made.pairs else ():
            if len(columns) == 2:
                two_way.append(((columns[0], columns[1]), q, counts))
                continue
            (i,) = columns
            ones[i] = (ones[i] * units[i] + counts * q * q) / (units[i] + q * q)
            units[i] += q * q
        total = _total(made, ones, units)
        coarse = self._combined(ones, units, two_way, total)
        expected = {pair: total * np.outer(coarse[pair[0]], coarse[pair[1]]) for pair, _, _ in two_way}
        tables = {
            pair: Table(_centred(counts.reshape(expected[pair].shape) - expected[pair]), made.scale / q)
            for pair, q, counts in two_way
        }
        excess = denoised(tables, [each.count for each in self.merged]) if tables else {}
        wanted = {
            pair: _with_margins(expected[pair], excess[pair], coarse[pair[0]], coarse[pair[1]]) for pair in tables
        }
        model = fitted(coarse, wanted, rng=rng)
        fine = [_within(each, nearest_probabilities(one / total)) for each, one in zip(self.merged, ones, strict=True)]
        cells = zip(model.columns, self.merged, fine, strict=True)
        return replace(model, columns=tuple(column[each.of] * share[:, None] for column, each, share in cells))


def _with_margins(expected: Floats, excess: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return positive probabilities near a table, of nearly the margins that are given: five proportional fittings."""
    table = np.maximum(expected + excess, 1e-3 * expected)
    for _ in range(5):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= columns / table.sum(axis=0)
    return np.asarray(table / table.sum())


def _centred(excess: Floats) -> Floats:
    """Return the nearest table whose rows and columns each sum to 0, as those of the true excess do."""
    rows = excess - excess.mean(axis=1, keepdims=True)
    return np.asarray(rows - rows.mean(axis=0, keepdims=True))


def _total(made: Marginals, ones: Sequence[Floats], units: Floats) -> float:
    """Return the declared number of records, or the noisy tables' own where that is 4 standard errors away."""
    precision = units / np.asarray(made.sizes, dtype=np.float64)
    noisy = float(np.array([one.sum() for one in ones]) @ precision / precision.sum())
    error = made.scale / math.sqrt(float(precision.sum()))
    return float(made.records) if abs(noisy - made.records) <= 4.0 * error else max(1.0, noisy)


def _positive(counts: Floats, total: float) -> Floats:
    """Return positive probabilities near noisy counts."""
    near = total * nearest_probabilities(counts / total) + 0.5
    return np.asarray(near / near.sum())


def _within(each: Merged, shares: Floats) -> Floats:
    """Return the share of each cell in its merged cell; alike where noise left none of them."""
    alike = 1e-9 / len(shares)
    return np.asarray((shares + alike) / each.sums(shares + alike)[each.of])


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
