"""Marginals: noisy tables of one and two columns of a wide table, and records from a graphical model of them.

Theory and proofs: docs/theory/marginals.md (theorem T20).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.boundary import sealed
from discreet._core.checks import choice, integer, positive_size
from discreet._core.errors import Infeasible, LawNotAvailable, ParameterError
from discreet._core.numeric import log_ratio
from discreet._core.random import seeded
from discreet._core.text import as_written
from discreet.domain import Commonness, Counts, Domain, Parts, Records, inner_half
from discreet.mechanisms.base import (
    NEIGHBOURS,
    CellCounts,
    KeptLabels,
    LabelledTables,
    Outputs,
    PartsMechanism,
    listed,
    require_relation,
)
from discreet.mechanisms.calibration import THRESHOLD, Free, Search, require_budget
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.latent_classes import Pair, StratumShares
from discreet.mechanisms.likelihood import NoisyCellCounts, NoisyTree, NoLikelihood
from discreet.mechanisms.measured_tables import TABLE, Counted, MeasuredTables, counted_texts
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.reading import (
    BLOCK,
    MOST_TABLES,
    READING_ONLY,
    SAMPLINGS,
    CellShares,
    ColumnShares,
    Contents,
    Estimates,
    Outcome,
    Reading,
    Sampling,
    copies,
)
from discreet.mechanisms.tree import Consistent
from discreet.mechanisms.wide_columns import (
    Coded,
    Merged,
    OneWay,
    closed_domain,
    held_labels,
    keep,
    labelled,
    log_kept,
    open_columns,
)
from discreet.mechanisms.wide_facts import (
    MOST_CELLS,
    MOST_UNITS,
    WideFacts,
    check_columns,
    items_of,
    label_units,
    worked_on,
    worth_measuring,
)
from discreet.privacy import (
    Budget,
    Code,
    ConstantProfile,
    DiscreteGaussianPair,
    Guarantee,
    Profile,
    Relation,
    ThresholdedGaussian,
)

_LEAST_SCALE = 9.0  # below, sums of noise are not noise of a larger scale to within 1e-300
_UNITS_EACH = 40  # units per table that may be measured
_INVENTED = 128  # labels drawn for an invented table, of which not all are held


@sealed
@dataclass(frozen=True, kw_only=True)
class Marginals(WideFacts, PartsMechanism):
    r"""Measure all one-way tables and the two-way tables worth their noise, fit a graphical model, draw any number.

    For tables of many columns: noise is added to tables of one and two columns, never to the product of all cells.

    Parameters
    ----------
    domain : Domain
        Public. Every column is finite, or one of open labels; their product may have any number of cells.
    records : int
        Public number of records: ``n`` under replacement, a declared number under add/remove. Where the noisy tables
        contradict it, by 4 standard errors, their own total is taken.
    scale : float
        Of the noise of one unit, in records: ``P(z)`` is proportional to ``e^(-z^2/(2 scale^2))``. A table that gets
        ``q^2`` units has noise of scale ``scale / q`` in effect.
    units : int
        Units of measurement in all. What was released decides which table gets them, never how many are spent.
        ``calibrated`` takes 40 for each table that may be measured, unless they are given.
    workload : str or tuple of str, optional
        Which two-way tables matter: ``"age*income"`` is one of them, ``"income"`` all with that column; several with
        commas between. By default all. The others are not measured.
    given : str, optional
        What released records have in common, as TOML: ``sex = "Female", age = {from = 18, below = 65}``.
        Post-processing: the private step measures the whole table.
    threshold : int, optional
        For open labels: least noisy count, in records, of a label that is kept, at least 2. Others become one cell.
    label_units : int, optional
        For open labels: how many of the units, a square, each open column's labels are found with.
    sampling : {"stratified", "iid"}
        Records drawn in systematic order, or independently. Post-processing: it costs no privacy. Several tables are
        drawn independently, whatever is given.
    tables : int, optional
        How many tables to release, up to 1,000; one by default. Several are each drawn from the posterior of the
        noisy tables, for ``discreet.read(...).estimate``. Post-processing: they cost no more privacy than one.

    Raises
    ------
    ParameterError
        When a column is continuous, or a parameter is out of range, or several tables are asked for and ``given``.

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

    *Open labels* come before all that: every label that is held gets a noisy count of ``label_units`` units, and those
    that reach the threshold are released. From then on the column is a category of these labels and one cell for all
    others. With ``delta`` the profile above, it is then ``S + (1 - S) delta``, where ``S`` is the probability that
    labels that only the changed records hold are released. Records in the cell of all others get a new label, of the
    reserved namespace.

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
    traits: ClassVar[Traits] = Traits(
        free=("scale",),
        relations=("replacement", "add-remove"),
        keeps_declared=True,
        cells_cost=False,
        cells_each=64,
        least_columns=4,
        counts=True,
    )

    sampling: Sampling = field(default=SAMPLINGS[0], metadata=READING_ONLY)
    tables: int | None = field(default=None, metadata=READING_ONLY)

    def __post_init__(self) -> None:
        # a multiple of 2^-10, whose multiples by small integers are exact in floats
        object.__setattr__(self, "scale", math.ceil(GAUSSIAN.checked(self.scale) * 1024.0) / 1024.0)
        if self.scale < _LEAST_SCALE:
            raise ParameterError(f"scale must be at least {as_written(_LEAST_SCALE)}, got {as_written(self.scale)}")
        choice("sampling", self.sampling, SAMPLINGS)
        if self.tables is not None:
            tables = integer("tables", self.tables, least=1, most=MOST_TABLES)
            object.__setattr__(self, "tables", tables if tables > 1 else None)
        if self.tables is not None:
            object.__setattr__(self, "sampling", "iid")  # the combining rules take records for independent
            if self.given is not None:
                raise ParameterError(
                    "several tables are drawn of all kinds of records. Leave given out, and analyse the records of "
                    "each table that meet the condition"
                )
        super().__post_init__()

    @property
    def once(self) -> bool:
        """Whether all units go to one-way tables before anything is known."""
        return not self.pairs and int((self.copies * self.first**2).sum()) == self.units

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return any number of records, or counts: of a single column its cells, else those of the tables measured."""
        contents = replace(super().contents(n, counts=counts), tables=self.tables)
        if not counts:
            return contents
        if len(self.sizes) == 1 and not self.open:
            return replace(contents, rows=range(self.sizes[0], self.sizes[0] + 1))
        if TABLE in self.domain.columns:
            raise ParameterError(f"column {TABLE!r} has the name of a column of counts. Rename it")
        return replace(contents, labels=(TABLE, *self.domain.names))

    # -- the private step ---------------------------------------------------------------------------------------

    def kernel(self, x: Parts, *, rng: np.random.Generator) -> CellCounts | LabelledTables:
        """Return the noisy tables and scores one after the other, each count multiplied by its table's units.

        With open columns, the labels that were kept come first.
        """
        if not self.open:
            return self._stages(_Source(x, self), None, rng)[0]
        kept = tuple(keep(held, **self._labels, rng=rng) for held in held_labels(x, self.open))
        made = self.closed(kept)
        return LabelledTables(kept, made._stages(_Source(Coded(x, made.domain, self.open), made), None, rng)[0])

    def log_prob(self, y: CellCounts | LabelledTables, x: Parts) -> float:
        """Return the log-probability of an output: of discrete Gaussian masses, tables chosen by what came before."""
        if not isinstance(y, LabelledTables):
            return self._stages(_Source(x, self), np.asarray(y, dtype=np.int64), None)[1]
        held = held_labels(x, self.open)
        total = sum(log_kept(one, labels, **self._labels) for one, labels in zip(y.kept, held, strict=True))
        if total == -math.inf:  # labels that nobody holds
            return total
        made = self.closed(y.kept)
        return total + made.log_prob(y.tables, Coded(x, made.domain, self.open))

    @property
    def _labels(self) -> dict[str, Any]:
        """How labels are found, as arguments."""
        return {"q": math.isqrt(self.label_units or 0), "scale": self.scale, "threshold": self.threshold}

    def closed(self, kept: Sequence[KeptLabels]) -> Self:
        """Return the mechanism of the stages that follow when some labels were kept: no column of it is open."""
        domain = closed_domain(self.domain, kept, most=MOST_CELLS)
        left = self.units - self.spent_on_labels
        return replace(self, domain=domain, units=left, threshold=None, label_units=None)

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
        if self.once:
            return np.concatenate(parts), total
        first = MeasuredTables(self, np.concatenate(parts))
        tables = source.two_way(first.merged)
        stage(np.array([_score(tables[p], first.expected(*p)) for p in self.pairs], dtype=np.int64), 1)
        second = MeasuredTables(self, np.concatenate(parts))
        for columns, q in second.measured:
            stage(source.one_way[columns[0]] if len(columns) == 1 else tables[columns[0], columns[1]].ravel(), q)
        return np.concatenate(parts), total

    def outputs(self, *tables: Counts) -> Outputs:
        """Return the integer vectors around the counts of a single column that is measured once."""
        if self.open or not self.once or self.copies.max() > 1:
            raise LawNotAvailable("outputs of marginals can be listed where all units go to the cells of one column")
        q, reach = int(self.first[0]), GAUSSIAN.reach(int(self.first[0]) * self.scale)
        counts = np.array([q * q * _Source(x, self).one_way[0] for x in tables])
        ends = zip(counts.min(axis=0).tolist(), counts.max(axis=0).tolist(), strict=True)
        return Outputs(
            [np.array(z) for z in listed(*(range(low - reach, high + reach + 1) for low, high in ends))], 1e-13
        )

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T20 for a table of ``n`` records."""
        require_relation(self, relation.name)
        n = positive_size("n", n)
        profile = self._noise(relation, n)
        if self.open:
            profile = self._thresholded(self._pair(relation, n))
        return Guarantee.proved(
            profile,
            relation=relation,
            n=n,
            theorem="T20",
            chosen=("columns", "their-cells", "workload", "units", "noise", *("threshold" for _ in self.open[:1])),
            caveats=(
                Code("free-draws", {"noisy": "tables"}),
                *self._several(),
                *self._published(),
                *self._left_out(),
            ),
        )

    def _noise(self, relation: Relation, n: int) -> Profile:
        """Return the profile of all noisy counts."""
        if relation.name == "replacement" and not self.open and max(self.sizes) == 1:
            # one cell: replaced records change nothing, added ones its count
            return ConstantProfile(value=0.0)
        return self._pair(relation, n)

    def _pair(self, relation: Relation, n: int) -> DiscreteGaussianPair:
        replaced = relation.name == "replacement"
        counts = (2 if replaced else 1) * self.units + len(self.pairs)
        group = min(relation.group, n) if replaced else relation.group
        return DiscreteGaussianPair(scale=self.scale, group=group, counts=counts, tight=False)

    def _thresholded(self, noise: DiscreteGaussianPair) -> ThresholdedGaussian:
        q, threshold = self._labels["q"], self._labels["threshold"]
        return ThresholdedGaussian(noise=noise, q=q, threshold=threshold, columns=len(self.open))

    def _left_out(self) -> Iterator[Code]:
        """Say which labels are not kept, and what may be."""
        if self.open:
            alone = self._thresholded(DiscreteGaussianPair(scale=self.scale)).appears(1)
            yield Code("rare-labels", {"threshold": self.threshold or 0, "open": True})
            yield Code("single-label", {"probability": alone})

    def _several(self) -> Iterator[Code]:
        """Say what several tables are for, and what they cannot tell."""
        if self.tables is not None:
            yield Code("tables-together")
            yield Code("conditional-independence")

    def _published(self) -> Iterator[Code]:
        """Say which shares are not from the data at all."""
        for totals in self.domain.published:
            if totals.column is not None and self.given is None:
                source = {"column": self.domain.names[totals.column], "source": totals.source}
                yield Code("published-shares", {**source, "sample": self.tables is not None})

    # -- its reading --------------------------------------------------------------------------------------------

    def reading(self, y: CellCounts | LabelledTables, *, n: int) -> Reading:
        """Return the measured tables, and records drawn from a graphical model of them."""
        if isinstance(y, LabelledTables):
            made = self.closed(y.kept)
            return _MarginalsReading(self, made, MeasuredTables(made, y.tables), y.kept)
        return _MarginalsReading(self, self, MeasuredTables(self, y), ())

    def likelihood(self) -> NoisyCellCounts | NoLikelihood:
        """Return the law of the noise on a single column; of several, one table is a function of a model of all."""
        if self.tables is not None:
            return NoLikelihood(reason="several tables are analysed together. Take discreet.read(...).estimate")
        if len(self.sizes) > 1 or self.open:
            return NoLikelihood(
                reason="the model that one table is drawn from tells nothing of its own error. Release several tables: "
                "discreet.read(...).estimate gives intervals from them"
            )
        if self.given_cells or self.domain.constraints or self.domain.published:
            return NoLikelihood(
                reason="what is declared besides the column, or asked of the records, changes what the noise tells"
            )
        left = self.units - int((self.copies * self.first**2).sum())
        *_, again = worth_measuring(
            np.empty(0), (), self.one_way_cost, self.copies, self.first, units=left, scale=self.scale
        )
        # sums of both rounds' noise are discrete Gaussian noise, to within 1e-300
        noise: dict[str, Any] = {"law": GAUSSIAN, "scale": self.scale / math.sqrt(float((self.first**2 + again**2)[0]))}
        (nodes,) = self.nodes
        if nodes is None:  # within a run of merged cells, negative counts are set off against the others
            runs = next(iter(self.domain.columns.values())).on_a_line
            return NoisyCellCounts(**noise, surplus="moved" if runs else "shifted", sampling=self.sampling)
        consistent = Consistent(nodes.tree, nodes.levels, float(self.records))
        return NoisyTree(**noise, surplus="moved", sampling=self.sampling, consistent=consistent)

    # -- what can be said beforehand ----------------------------------------------------------------------------

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return the share of records that noise moves in the column in which it moves most, for an invented table.

        As if one-way tables had their usual share of the units in the end. In a long ordered column a record counts by
        how far it is moved, as a share of the column's range. In an open column, a record whose label is too rare to be
        kept counts as moved.
        """
        made, left_out = self._invented(n)
        moved = [made._moved(i, n) + left_out.get(i, 0.0) for i in range(len(self.sizes))]
        return Forecast(
            lost=min(1.0, max(moved)) if self.open else max(moved),
            lost_is="prediction",
            lost_to="noise or rarity in a column" if self.open else "noise in a column",
            remedies=helpful(self.domain, "cells", "columns", "epsilon", "delta"),
            pair_scores=(math.comb(len(self.sizes), 2), len(self.pairs), self.scale),
            stratified=self.sampling == "stratified",
            draws=8,
        )

    def _invented(self, n: int) -> tuple[Self, dict[int, float]]:
        """Return the mechanism after the labels of an invented table are known, and the shares of those not kept."""
        if not self.open:
            return self, {}
        kept, left_out = [], {}
        for i in self.open:
            column = self.domain.columns[self.domain.names[i]]
            shares = np.sort(inner_half(column, column.draw(_INVENTED, seeded(0))))[::-1]
            counts = n * shares / shares.sum()
            common = counts[counts >= (self.threshold or 0)]
            kept.append(KeptLabels(tuple(f"{rank:03}" for rank in range(len(common))), common.astype(np.int64)))
            left_out[i] = 1.0 - float(common.sum()) / n
        return self.closed(kept), left_out

    def _moved(self, i: int, n: int) -> float:
        shares = inner_half(list(self.domain.columns.values())[i], np.arange(self.sizes[i]))
        shares = shares / shares.sum()
        apart = np.array([self._noisy(i, shares, n, noise) - shares for noise in _steady(4, self.lengths[i])])
        if self.nodes[i] is None:
            return float(0.5 * np.abs(apart).sum(axis=1).mean())
        return float(np.abs(np.cumsum(apart, axis=1)).mean())

    def _noisy(self, i: int, shares: Floats, n: int, noise: Floats) -> Floats:
        """Return a column's probabilities after noise, given in standard errors that its counts usually have."""
        counts, nodes = np.rint(n * shares).astype(np.int64), self.nodes[i]
        counted = counts if nodes is None else nodes.sums(counts)
        return OneWay(counted + np.rint(self.usual_errors[i] * noise), 1.0, nodes).shares(float(n))

    # -- calibration --------------------------------------------------------------------------------------------

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale; without ``units``, 40 for each table that may be measured."""
        budget, domain, given = search.budget, search.domain, search.parameters
        check_columns(domain)
        labelled_columns, tables = len(open_columns(domain)), len(domain.columns)
        tables += len(worked_on(domain, items_of(given.get("workload"))))
        own = {"units": _UNITS_EACH * tables, **given}
        if labelled_columns:
            units = integer("units", own["units"], least=1, most=MOST_UNITS)
            own = {"threshold": 2, "label_units": label_units(units, labelled_columns), **own}
        search = replace(search, parameters=own)
        if "scale" not in given:
            if budget.delta == 0.0:
                raise Infeasible(f"{budget} with gaussian noise", {"delta >=": 1e-12})
            part = budget.delta / (2 if labelled_columns else 1)  # for the noisy counts by themselves

            def excess(scale: float) -> float:
                noise = search.mechanism(scale=scale)._noise(search.relation, search.n)
                return log_ratio(noise.delta(budget.epsilon), part)

            least = Free("scale", _LEAST_SCALE, GAUSSIAN.largest_scale).solution(excess)
            search = search.with_parameters(scale=least or GAUSSIAN.largest_scale)
        mechanism = search.mechanism()
        nearest: dict[str, float] = {}
        asked = f"{budget} with noise of scale {as_written(mechanism.scale)}"
        if labelled_columns and (least := mechanism._least_threshold(budget, search.relation, search.n)) is not None:
            mechanism = replace(mechanism, threshold=given.get("threshold") or least)
            asked, nearest = f"{asked} and threshold {mechanism.threshold:,}", {"threshold >=": least}
        require_budget(mechanism.guarantee(search.relation, n=search.n), budget, asked, **nearest)
        return mechanism

    def _least_threshold(self, budget: Budget, relation: Relation, n: int) -> int | None:
        """Return the least threshold that meets the budget, if one does."""
        noise = self._pair(relation, n)
        delta = noise.delta(budget.epsilon)
        least: int | None = THRESHOLD.solution(
            lambda t: replace(self, threshold=t)._thresholded(noise).whole(delta) - budget.delta
        )
        return least


@dataclass(frozen=True, eq=False)
class _MarginalsReading(Reading):
    """Noisy tables, and records drawn from a graphical model of them.

    ``made``: the mechanism of the stages after labels were kept, on a domain without open columns.
    """

    mechanism: Marginals
    made: Marginals
    measured: MeasuredTables
    kept: Sequence[KeptLabels]

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records from the model, in chunks.

        Published totals of the first column that has any are met to within a record by stratified records, in a chunk;
        those of others on average. A record whose label was not kept gets a new one.

        Of several tables this is one: each call draws from the posterior of the population anew.
        """
        shares = self.cell_shares(rng=rng)
        if shares is not None:
            return shares.draw(size, rng=rng)
        chunks = self._populated(size, rng)
        return chunks if self._labels is None else labelled(chunks, *self._labels, rng)

    @property
    def _labels(self) -> tuple[Domain, Domain] | None:
        """The domain, and that of the labels that were kept, where columns are open."""
        return (self.mechanism.domain, self.made.domain) if self.kept else None

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares | None:
        """Return the shares of the model's strata; several tables have no one model."""
        if self.mechanism.tables is not None:
            return None
        made, model = self.made, self.measured.model(rng)
        blocks, first, shares = list(model.blocks), [], model.shares
        totals = next((each for each in made.domain.published if each.column is not None), None)
        if totals is not None and totals.group is not None and not made.given_cells:
            shares, block = model.strata(totals.column or 0, totals.group)
            first, blocks = [block], [other for other in blocks if other.columns != block.columns]
        return StratumShares(shares, made.sampling, model, tuple(first), tuple(blocks), self._labels)

    def column_shares(self, *, rng: np.random.Generator) -> list[ColumnShares]:
        """Return each column's shares by the measured tables, which the model follows; a new label has none."""
        columns: list[ColumnShares] = []
        for i, shares in enumerate(self.measured.column_shares()):
            codes, known = np.arange(len(shares)), np.ones(len(shares), dtype=np.bool_)
            if i in self.mechanism.open:
                labels = self.made.domain.columns[self.mechanism.domain.names[i]].labels or ()
                known[len(labels) - 1] = False
                codes = np.array([*labels, None], dtype=object)[: len(known)]
            columns.append((codes[known], shares[known]))
        return columns

    def _populated(self, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw records of a population that the confidential table may be a sample of, given its noisy tables.

        As many records as are held are drawn from the model of one posterior draw of the tables. They scatter about
        it as the confidential ones about the population, so that they stand for it: records are drawn from them.
        """
        draw = self.measured.posterior_draw(rng)
        model = draw.model(rng)
        for counts in copies(round(draw.held), size, rng):
            classes = rng.choice(len(model.shares), size=len(counts), p=model.shares)
            drawn = model.records(classes, stratified=False, rng=rng)
            order = rng.permutation(np.repeat(np.arange(len(counts)), counts))
            for start in range(0, len(order), BLOCK):
                rows = order[start : start + BLOCK]
                yield Records(columns=tuple(drawn[i][rows] for i in range(len(drawn))))

    def estimates(self) -> Estimates:
        """Return the counts of the measured tables, unbiased: of one column by cell, of two by merged cells.

        Each has a row of texts: the table's columns, and in each of them its cell, or the first and last of the merged
        cells of an ordered column; of another column, the cells that are merged are "any other". All labels of an open
        column that were not kept are its reserved prefix and a star.
        """
        tables = self.measured.tables()
        if self.mechanism.contents(self.mechanism.records, counts=True).labels:
            return counted_texts(tables, self.made.domain, self.measured.merged)
        ((_, (cells,), counts, errors),) = tables
        return Estimates(self.mechanism.domain.unflat(cells), counts, errors)

    def outcome(self) -> Outcome:
        """Return how many two-way tables were measured; with open columns, how many labels were kept.

        And what share of the records has no label that was kept, in the column where most have none.
        """
        told, facts, pairs = list(self._told()), self._facts(), self._pairs
        if not self.kept:
            return Outcome(tuple(told), facts=facts, pairs=pairs)
        share, names = 1.0, self.mechanism.domain.names
        for i, kept in zip(self.mechanism.open, self.kept, strict=True):
            other = (self.made.domain.columns[names[i]].values or 1) - 1  # the cell of all other labels
            shares = self.measured.one_way[i].shares(self.measured.total)
            left_out = min(1.0, max(0.0, float(shares[other])))
            share = min(share, 1.0 - left_out)
            new = {"column": names[i], "labels": len(kept.labels), "share": left_out}
            told.append(Code("column-labels-kept", new))
        return Outcome(tuple(told), share, facts, pairs)

    @property
    def _pairs(self) -> list[Pair]:
        return [(columns[0], columns[1]) for columns, _ in self.measured.measured if len(columns) == 2]

    def _facts(self) -> dict[str, Any]:
        """Return what intervals from several tables have to know: measured pairs, and on how many merged cells."""
        if self.mechanism.tables is None:
            return {}
        names = self.mechanism.domain.names
        cells = zip(names, self.measured.merged, strict=True)
        return {
            "pairs_measured": [[names[i], names[j]] for i, j in sorted(self._pairs)],
            "merged_cells": {name: each.count for name, each in cells if each.count < len(each.of)},
        }

    def _told(self) -> Iterator[Code]:
        measured, every = self._pairs, self.mechanism.pairs
        share = {"measured": len(measured), "pairs": len(every)}
        if not measured and every:
            yield Code("no-pair-measured")
        elif len(every) < 2:
            yield Code("only-pair-measured" if every else "one-column")
        elif self.mechanism.tables is None:
            yield Code("pairs-measured", share)
        else:
            yield Code("named-pairs-measured", {**share, "tables": self._named(measured)})
            faint = [each.columns for each in self.measured.tables() if len(each.columns) == 2 and _is_faint(each)]
            if faint:
                yield Code("faint-tables", {"tables": self._named(faint)})

    def _named(self, tables: Sequence[tuple[int, ...]]) -> list[str]:
        names = self.mechanism.domain.names
        return ["*".join(names[i] for i in columns) for columns in sorted(tables)]


def _is_faint(table: Counted) -> bool:
    """Whether the counts of more than a third of a noisy table's cells are below the standard error of their noise."""
    return float((table.counts < table.errors).mean()) > 1.0 / 3.0


class _Source:
    """All that the private step asks of a table: its one-way tables, then the two-way ones, in one scan each."""

    def __init__(self, x: Parts, mechanism: Marginals) -> None:
        self._x, self._sizes, self._nodes, self._pairs = x, mechanism.sizes, mechanism.nodes, mechanism.pairs

    @cached_property
    def one_way(self) -> list[Integers]:
        """The counts of every column's cells, or of the nodes above them."""
        found = [np.zeros(size, dtype=np.int64) for size in self._sizes]
        for part in self._x.parts():
            for i, codes in enumerate(part.records.columns):
                found[i] += _counted(codes.astype(np.int64), part.frequencies, self._sizes[i])
        pairs = zip(found, self._nodes, strict=True)
        return [counts if nodes is None else nodes.sums(counts) for counts, nodes in pairs]

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


def _steady(rows: int, size: int) -> Floats:
    """Return normal variables that are the same with every version of NumPy: a certificate's share rests on them."""
    from scipy.special import ndtri

    bits = seeded(0).bit_generator.random_raw(rows * size)
    return np.asarray(ndtri(((bits >> np.uint64(11)) + 0.5) * 2.0**-53)).reshape(rows, size)
