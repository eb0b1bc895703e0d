"""Noisy tables of one and two columns, and records from a graphical model of them: docs/theory/marginals.md (T20)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from discreet import privacy
from discreet._core.boundary import sealed
from discreet._core.errors import Infeasible, LawNotAvailable, ParameterError, integer, positive_size
from discreet._core.numeric import Integers
from discreet._core.random import seeded
from discreet._core.text import as_written
from discreet.domain import Commonness, Counts, Parts, Units, inner_half
from discreet.mechanisms import chosen_tables, wide_facts
from discreet.mechanisms.base import NEIGHBOURS, CellCounts, Outputs, PartsMechanism, outputs_around, require_relation
from discreet.mechanisms.calibration import THRESHOLD, Free, Search, require_budget, threshold_excess
from discreet.mechanisms.chosen_tables import ChosenTables, KeptLabels, LabelledTables, Statistic
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.latent_classes import Pair
from discreet.mechanisms.measured_tables import TABLE, MarginalsReading, MeasuredTables
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.pair_losses import moved_share, visible_dependence
from discreet.mechanisms.reading import Contents, Reading
from discreet.mechanisms.wide_facts import WideFacts, measurable_pairs
from discreet.privacy import Code, DiscreteGaussianPair, Guarantee, Profile, Relation, ThresholdedGaussian

if TYPE_CHECKING:
    from discreet.mechanisms.likelihood import NoisyCellCounts, NoLikelihood

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
        commas between. By default all. Of the others, only those with a declared outcome are measured.
    given : str, optional
        What released records have in common, as TOML: ``sex = "Female", age = {from = 18, below = 65}``.
        Post-processing: the private step measures the whole table.
    threshold : int, optional
        For open labels: least noisy count, in records, of a label that is kept, at least 2. Others become one cell.
    label_units : int, optional
        For open labels: how many of the units, a square, each open column's labels are found with.
    score_units : int, optional
        How many units, a square, each score gets, beside the others; one by default. ``calibrated`` takes as many as
        bring its noise to a twentieth of the records, while scores cost no more than a sixth of the budget.
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
    The private step has four or five stages. (1) Every one-way table gets noise. (2) Every two-way table gets a score,
    ``S = sum of max(0, N - R)`` over its cells, with ``R`` the table that the *released* one-way tables would make if
    the columns were independent, in integers; scores get ``score_units``. (3) What is left of the units goes to
    two-way tables and again to one-way tables, by the released scores. (4) These tables get noise. Tables with an
    outcome that the domain declares need no score: they get 40 % of what is left, or 70 % if they are alone. Tables of
    ``determines`` get the part of that share that they are of an outcome's tables. Where the records allow it, (5) a
    fifth of that share goes to coarse tables of an outcome and two other columns, of all pairs. An outcome that
    ``determines`` names has none.

    Guarantee (theorem T20): ``units`` units are spent whatever is released, each a table in which two counts change by
    one (replacement) or one count does (add/remove), and each score changes by at most one. The profile is that of
    ``2 units + score_units scores`` (``units + score_units scores``) counts with discrete Gaussian noise: an upper
    bound, since no pair of tables changes every score for every outcome. Noise is drawn by OpenDP's exact sampler.

    *Open labels* come before all that: every label that is held gets a noisy count of ``label_units`` units, and those
    that reach the threshold are released. From then on the column is a category of these labels and one cell for all
    others. With ``delta`` the profile above, it is then ``S + (1 - S) delta``, where ``S`` is the probability that
    labels that only the changed records hold are released. Records in the cell of all others get a new label, of the
    reserved namespace.

    Everything else is post-processing: cells are merged, noise is reduced by empirical Bayes, a mixture of independent
    columns is fitted to all tables, and records are drawn from it, but outcomes of (5) from all others. That columns
    depend on each other only as the measured tables and this model say is an approximation.

    References
    ----------
    McKenna, Miklau and Sheldon (2021), on selecting and measuring marginals; Zhu, Dong and Wang (2022), Theorem 10, on
    adaptive composition of dominating pairs.

    Examples
    --------
    >>> from discreet.domain import Boolean, Domain, Integer
    >>> from discreet.privacy import Budget
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
        most_columns=wide_facts.MOST_COLUMNS,
        counts=True,
    )

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return any number of records, or counts: of a single column its cells, else those of the tables measured."""
        contents = replace(super().contents(n, counts=counts), tables=self.tables)
        if not counts:
            return contents
        if len(self.sizes) == 1 and not self.open:
            return replace(contents, rows=range(self.sizes[0], self.sizes[0] + 1))
        if self.domain.slots is not None:
            raise ParameterError("counts are of records, not of units with several rows. Release records")
        if self.domain.differences:
            raise ParameterError("counts are of columns as they are declared. Release records, or drop the difference")
        if TABLE in self.domain.columns:
            raise ParameterError(f"column {TABLE!r} has the name of a column of counts. Rename it")
        return replace(contents, labels=(TABLE, *self.domain.names))

    def kernel(self, x: Parts, *, rng: np.random.Generator) -> CellCounts | LabelledTables:
        """Return the noisy tables and scores one after the other, each count multiplied by its table's units.

        With open columns, the labels that were kept come first.
        """
        labels = tuple([chosen_tables.kept_labels(self, c, rng=rng) for c in chosen_tables.label_counts(x, self.open)])
        closed = self.closed(labels)
        table = partial(chosen_tables.sums, x, closed.domain, self.open)
        tables, _ = closed._stages(table, lambda exact, scale, _: exact + GAUSSIAN.draw(scale, len(exact), rng=rng))
        return LabelledTables(labels, tables) if self.open else tables

    def log_prob(self, y: CellCounts | LabelledTables, x: Parts) -> float:
        """Return the log-probability of an output: of discrete Gaussian masses, tables chosen by what came before."""
        labels, tables = y if self.open else ((), y)
        columns = zip(labels, chosen_tables.label_counts(x, self.open), strict=True)
        total = sum((chosen_tables.log_prob_of_labels(self, released, counts) for released, counts in columns), 0.0)
        if total == -math.inf:  # labels that nobody holds
            return total
        closed, y = self.closed(labels), np.asarray(tables, dtype=np.int64)
        table = partial(chosen_tables.sums, x, closed.domain, self.open)
        return total + closed._stages(table, lambda exact, _, start: y[start : start + len(exact)])[1]

    def closed(self, labels: Sequence[KeptLabels]) -> Self:
        """Return the mechanism of the stages that follow when some labels were kept: no column of it is open."""
        if not self.open:
            return self
        domain, units = chosen_tables.closed_domain(self.domain, labels), self.units - self.spent_on_labels
        return replace(self, domain=domain, units=units, threshold=None, label_units=None)

    def _stages(
        self, table: Callable[[Statistic], Any], release: Callable[[CellCounts, float, int], CellCounts]
    ) -> tuple[CellCounts, float]:
        """Return the output and its log-probability, stage by stage: each is chosen by what those before released."""
        # table: gives statistics of it. release: makes exact counts noisy, by a scale and a place in the output
        parts: list[CellCounts] = []
        total, start = 0.0, 0
        one_way = table(partial(one_way_tables, self))

        def measure(counts: CellCounts, q: int) -> None:
            nonlocal total, start
            scale, exact = q * self.scale, q * q * counts
            parts.append(release(exact, scale, start))
            total += float(GAUSSIAN.log_pmf(scale, parts[-1] - exact).sum())
            start += len(exact)

        def measure_column(i: int, q: int) -> None:
            multiples = self.multiples[i]
            starts = np.flatnonzero(np.diff(multiples)) + 1
            for counts, level in zip(np.split(one_way[i], starts), np.split(multiples, starts), strict=True):
                measure(counts, q * int(level[0]))

        for i, q in enumerate(self.allocation.first.tolist()):
            measure_column(i, q)
        if not self.pairs and not self.allocation.remaining:
            return np.concatenate(parts), total
        choice = ChosenTables(self, np.concatenate(parts))
        tables = table(partial(two_way_tables, choice))
        scores = [_score(choice.summed(pair, tables[pair]), choice.expected(*pair)) for pair in self.pairs]
        measure(np.array(scores, dtype=np.int64), math.isqrt(self.score_units or 1))
        choice = ChosenTables(self, np.concatenate(parts))
        for i, q in choice.repeats:
            measure_column(i, q)
        for pair, q in choice.pairs:
            measure((tables[pair] if pair in choice.clear else choice.summed(pair, tables[pair])).ravel(), q)
        if (three_way := choice.three_way) is not None:
            groups = three_way.tables(MeasuredTables(choice, np.concatenate(parts)))
            for counts in table(partial(three_way.counts, groups)):
                measure(counts, three_way.q)
        return np.concatenate(parts), total

    def outputs(self, *tables: Counts) -> Outputs:
        """Return the integer vectors around the counts of a single column that is measured once."""
        if self.open or len(self.sizes) > 1 or self.allocation.remaining or self.copies.max() > 1:
            raise LawNotAvailable("outputs of marginals can be listed where all units go to the cells of one column")
        q = int(self.allocation.first[0])
        counts = np.array([q * q * one_way_tables(self, x.parts())[0] for x in tables])
        return outputs_around(counts, GAUSSIAN.reach(q * self.scale))

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T20 for a table of ``n`` records."""
        require_relation(self, relation.name)
        n = positive_size("n", n)
        facts = ["columns", "their-cells", "workload", "units", "noise"]
        profile, caveats = self._noise(relation, n), [Code("free-draws", {"noisy": "tables"})]
        if self.tables is not None:
            caveats += [Code("tables-together"), Code("conditional-independence")]
        for totals in self.domain.published:
            if totals.column is not None and self.given is None:
                source = {"column": self.domain.names[totals.column], "source": totals.source}
                caveats.append(Code("published-shares", {**source, "sample": self.tables is not None}))
        if self.open:
            facts.append("threshold")
            profile = self._thresholded(self._pair(relation, n))
            single = self._thresholded(DiscreteGaussianPair(scale=self.scale)).appears(1)
            caveats.append(Code("rare-labels", {"threshold": self.threshold or 0, "open": True}))
            caveats.append(Code("single-label", {"probability": single}))
        return Guarantee.proved(profile, relation=relation, n=n, theorem="T20", chosen=facts, caveats=tuple(caveats))

    def _noise(self, relation: Relation, n: int) -> Profile:
        if relation.name == "replacement" and not self.open and max(self.sizes) == 1:
            # one cell: replaced records change nothing, added ones its count
            return privacy.ConstantProfile(value=0.0)
        return self._pair(relation, n)

    def _pair(self, relation: Relation, n: int) -> DiscreteGaussianPair:
        copies, group = 1, relation.group
        if relation.name == "replacement":
            copies, group = 2, min(group, n)
        counts = copies * self.units + (self.score_units or 1) * len(self.pairs)
        return DiscreteGaussianPair(scale=self.scale, group=group, counts=counts, tight=False)

    def _thresholded(self, noise: DiscreteGaussianPair) -> ThresholdedGaussian:
        threshold, columns = self.threshold or 0, len(self.open)
        return ThresholdedGaussian(noise=noise, q=self.label_q, threshold=threshold, columns=columns)

    def reading(self, y: Any, *, n: int) -> Reading:
        """Return the measured tables, and records drawn from a graphical model of them."""
        kept, tables = cast("LabelledTables", y) if self.open else ((), cast("CellCounts", y))
        labels = [KeptLabels(tuple(names), counts) for names, counts in kept]
        choice = ChosenTables(self.closed(labels), np.asarray(tables, dtype=np.int64))
        return MarginalsReading(self, MeasuredTables(choice, tables), labels)

    def likelihood(self) -> NoisyCellCounts | NoLikelihood:
        """Return the law of the noise on a single column; of several, one table is a function of a model of all."""
        from discreet.mechanisms.likelihood import NoisyCellCounts, NoisyTree, NoLikelihood

        if self.tables is not None:
            return NoLikelihood(reason="several tables are analysed together. Take discreet.read(...).estimate")
        if len(self.sizes) > 1 or self.open:
            return NoLikelihood(
                reason="no confidence interval follows from one table of several columns. Write tables=... to release "
                "several at once, such as 20, which cost no more than one"
            )
        if self.given_cells or self.domain.constraints or self.domain.published:
            return NoLikelihood(
                reason="what is declared besides the column, or asked of the records, changes what the noise tells"
            )
        _, _, repeats, _ = self.allocation.worth(np.empty(0), (), (), self.scale, 1.0)
        units = float((self.allocation.first**2 + repeats**2)[0]) * float(self.multiples[0][-1]) ** 2
        # sums of both rounds' noise are discrete Gaussian noise, to within 1e-300
        noise: dict[str, Any] = {"law": GAUSSIAN, "scale": self.scale / math.sqrt(units), "sampling": self.sampling}
        (nodes,) = self.nodes
        if nodes is not None:
            return NoisyTree(**noise, surplus="moved", consistent=nodes.consistent(float(self.records)))
        (column,) = self.domain.columns.values()
        # within a run of merged cells, negative counts are set off against the others
        return NoisyCellCounts(**noise, surplus="moved" if column.on_a_line else "shifted")

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return the share of records that noise moves in the column in which it moves most, for an invented table.

        As if one-way tables had their usual share of the units. In a long ordered column a record counts by how far it
        is moved, as a share of its range. In an open one, a record whose label is not kept counts as moved.
        """
        three_way, labels, rare = 0, [], dict.fromkeys(range(len(self.sizes)), 0.0)
        for i in self.open:
            column = self.domain.columns[self.domain.names[i]]
            counts = np.sort(inner_half(column, column.draw(_INVENTED, seeded(0))))[::-1]
            counts = n * counts / counts.sum()
            counts = counts[counts >= (self.threshold or 0)]
            labels.append(KeptLabels(tuple(f"{rank:03}" for rank in range(len(counts))), counts.astype(np.int64)))
            rare[i] = 1.0 - float(counts.sum()) / n
        closed = self.closed(labels)
        lost, worst = max([(moved_share(closed, i, n) + share, i) for i, share in rare.items()])
        unscored = len(measurable_pairs(self.domain, self.workload)[0])
        outcome_share = wide_facts.OUTCOMES[len(self.pairs) > 0] * min(1.0, unscored / max(1, len(self.sizes) - 1))
        if self.domain.outcome:
            from discreet.mechanisms.three_way_tables import ThreeWayTables

            three_way = ThreeWayTables(closed, closed.sizes, float(n)).number
        return Forecast(
            lost=min(1.0, lost),
            lost_is="prediction",
            lost_to="noise or rarity in a column" if self.open else "noise in a column",
            column=self.domain.names[worst],
            remedies=helpful(self.domain, "cells", "columns", "epsilon", "delta"),
            outcomes=(unscored, outcome_share, three_way),
            pair_scores=(math.comb(len(self.sizes), 2), len(self.pairs), self.scale / math.sqrt(self.score_units or 1)),
            visible_dependence=visible_dependence(closed, n) if self.pairs else None,
            stratified=self.sampling == "stratified",
            draws=8,
        )

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale; without ``units``, 40 for each table that may be measured."""
        budget, domain, fixed = search.budget, search.domain, search.parameters
        wide_facts.check_columns(domain)
        count, tables = len(wide_facts.open_columns(domain)), len(domain.columns)
        tables += sum(map(len, measurable_pairs(domain, wide_facts.items_of(fixed.get("workload")))))
        parameters, part = {"units": _UNITS_EACH * tables, **fixed}, budget
        if count:
            units = integer("units", parameters["units"], least=1, most=wide_facts.MOST_UNITS)
            share = min(wide_facts.LABELS, wide_facts.ALL_LABELS / count)
            parameters = {"threshold": 2, "label_units": max(1, math.isqrt(int(share * units))) ** 2, **parameters}
            part = budget.part(2)  # for the noisy counts by themselves
        search = replace(search, parameters=parameters)
        if "scale" not in fixed and budget.pure:
            raise Infeasible(f"{budget} with gaussian noise", {"delta >=": 1e-12})

        def excess(scale: float) -> float:
            return part.excess(search.mechanism(scale=scale)._noise(search.relation, search.n))

        while True:
            scale = fixed.get("scale") or Free("scale", wide_facts.LEAST_SCALE, GAUSSIAN.largest_scale).solution(excess)
            mechanism = search.mechanism(scale=scale or GAUSSIAN.largest_scale)
            scores = len(mechanism.pairs)
            units = mechanism._pair(search.relation, search.n).counts - scores
            squared = wide_facts.score_units(mechanism.scale / max(1, search.n), scores, units)
            if "scale" in fixed or "score_units" in search.parameters or squared == 1:
                break
            search = search.with_parameters(score_units=squared)
        nearest: dict[str, float] = {}
        request = f"{budget} with noise of scale {as_written(mechanism.scale)}"
        if count:
            noise = mechanism._pair(search.relation, search.n)
            candidate = partial(replace, mechanism)
            least = THRESHOLD.solution(lambda t: threshold_excess(budget, candidate(threshold=t)._thresholded(noise)))
            if least is not None:
                mechanism = candidate(threshold=fixed.get("threshold") or least)
                request, nearest = f"{request} and threshold {mechanism.threshold:,}", {"threshold >=": least}
        require_budget(mechanism.guarantee(search.relation, n=search.n), budget, request, **nearest)
        return mechanism


def one_way_tables(facts: WideFacts, parts: Iterator[Counts | Units]) -> list[Integers]:
    """Return the counts of every column's cells, or of the nodes above them. Confidential."""
    tables = [np.zeros(size, dtype=np.int64) for size in facts.sizes]
    for part in parts:
        for i, codes in enumerate(part.records.columns):  # a slot that is not used has a code above all cells
            tables[i] += _counts(codes.astype(np.int64), part.frequencies, len(tables[i]) + 1)[:-1]
    return [table if nodes is None else nodes.sums(table) for table, nodes in zip(tables, facts.nodes, strict=True)]


def two_way_tables(choice: ChosenTables, parts: Iterator[Counts | Units]) -> dict[Pair, Integers]:
    """Return the counts of the fine cells of every pair of columns that may be measured. Confidential."""
    pairs, counts = choice.candidates, [cells.count for cells in choice.fine]
    tables = {(i, j): np.zeros((counts[i] + 1, counts[j] + 1), dtype=np.int64) for i, j in pairs}
    for part in parts:
        columns = zip(choice.fine, part.records.columns, strict=True)
        # the last cells are of slots that are not used
        codes = [np.append(cells.cell_of, cells.count)[column.astype(np.int64)] for cells, column in columns]
        for i, j in pairs:
            cells, size = codes[i] * (counts[j] + 1) + codes[j], tables[i, j].size
            tables[i, j] += _counts(cells, part.frequencies, size).reshape(tables[i, j].shape)
    return {(i, j): table[: counts[i], : counts[j]] for (i, j), table in tables.items()}


def _counts(cells: Integers, frequencies: Integers, size: int) -> Integers:
    return np.rint(np.bincount(cells, weights=frequencies, minlength=size)).astype(np.int64)


def _score(counts: Integers, expected: Integers) -> int:
    """Return how many records independent columns would put elsewhere: ``g`` records change it by at most ``g``."""
    return int(np.maximum(0, counts - expected).sum())
