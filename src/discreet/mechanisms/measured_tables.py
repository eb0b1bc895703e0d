"""The reading of an output of ``marginals``: its noisy tables, a model of them, and records. All of it is public."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from discreet._core.numeric import Floats, Integers
from discreet._core.random import seeded
from discreet.domain import Column, Domain, Records
from discreet.mechanisms import latent_classes, pair_losses, reading
from discreet.mechanisms.base import CellCounts
from discreet.mechanisms.chosen_tables import ChosenTables, KeptLabels, labelled, number_of_records, one_way_counts
from discreet.mechanisms.latent_classes import LEAST_SHARE, Block, LatentClasses, Merged, Pair, PairTable, nearest_table
from discreet.mechanisms.reading import WHOLE, CellShares, ColumnShares, Contents, Estimates, Outcome, Portion, Reading
from discreet.mechanisms.slots import SlotUse
from discreet.mechanisms.wide_facts import WideFacts
from discreet.privacy import Code, Relation

_DEPENDENT = 1e-9
_CLEAR = 8.0  # standard errors: of a covariance that the model is fitted to, since it spreads to further pairs
_EVEN = 0.02  # of a table of independent columns, in what the model is fitted to

TABLE = "table"  # name of the column that says which columns a count is of


class Counted(NamedTuple):
    """A noisy table: its columns, up to three, and the cell of each count in each: of several columns a merged one."""

    columns: tuple[int, ...]
    cells: tuple[Integers, ...]
    counts: Floats  # unbiased
    errors: Floats  # standard errors of these


class MeasuredTables:
    """All tables of an output, or of a draw of what the confidential tables may be."""

    # one_way: the counts of both rounds together. noisy: those of each measured two-way table, on its cells. two_way:
    # their sums on merged cells, shape (merged cells, merged cells), and variances of noise of scale 1.

    def __init__(self, choice: ChosenTables, y: CellCounts, total: float | None = None) -> None:
        self.choice, self.facts, self._y = choice, choice.facts, np.asarray(y, dtype=np.int64)
        self.posterior: dict[Pair, Floats] = {}  # of a draw, the excess of two-way tables
        self.one_way, self.two_way, self.noisy = one_way_counts(self.facts, self._y), {}, {}
        self.scores, last = np.split(self._y[choice.scored :], [len(self.facts.pairs)])
        *split, self.last_counts = np.split(last, np.cumsum(choice.lengths))
        parts = iter(split)
        outcomes = choice.three_way.outcomes if choice.three_way is not None else ()
        self.last = {*outcomes} - self.facts.given_cells.keys()
        for i, q in choice.repeats:
            table, further = self.one_way[i], (q * self.facts.multiples[i]) ** 2.0
            first = table.units / further[-1]
            noisy = (table.noisy * first + next(parts) / further) / (first + 1.0)
            self.one_way[i] = replace(table, noisy=noisy, units=table.units + float(further[-1]))
        self.total = total or number_of_records(self.facts, self.one_way)
        self.use, self.one_way = SlotUse.from_tables(self.facts, self.one_way, self.total)
        for (i, j), q in choice.pairs:
            shape = [cells.count for cells in choice.cells((i, j))]
            self.noisy[i, j] = (next(parts) / float(q * q)).reshape(shape)
            error = self.facts.scale / q * math.sqrt(self.noisy[i, j].size) / self.total
            if self.use.shares:
                self.use.learn((i, j), self.noisy[i, j] / self.total, error)
            variances = choice.summed((i, j), np.full(shape, 1.0 / float(q * q)))
            self.two_way[i, j] = variances, choice.summed((i, j), self.noisy[i, j])
        domain, slot_pairs = self.facts.domain, dict[tuple[str, ...], list[Pair]]()
        for pair in domain.dependencies:  # in all slots, which follow one map
            slots = [0 if domain.slots is None else int(domain.slots[i]) for i in pair]
            texts = [domain.names[i].removesuffix(f" ({k})" if k else "") for i, k in zip(pair, slots, strict=True)]
            slot_pairs.setdefault(tuple(texts), []).append(pair)
        maps = [(pairs, pair_losses.released_cells(self, pairs)) for pairs in slot_pairs.values()]
        self.dependencies = tuple([(*pair, cells) for pairs, cells in maps for pair in pairs])

    def posterior_draw(self, rng: np.random.Generator) -> MeasuredTables:
        """Return what the confidential tables may be, given the noisy ones and the choice of tables."""
        # One-way counts and moments have a flat prior: they get their noise once more. denoised() draws the rest.
        facts, choice = self.facts, self.choice
        first = [q * multiples for q, multiples in zip(facts.allocation.first, facts.multiples, strict=True)]
        further = [q * facts.multiples[i] for i, q in choice.repeats]
        two_way = [np.full(self.noisy[pair].size, q) for pair, q in choice.pairs]
        if choice.three_way is not None:
            two_way.append(np.full(len(self.last_counts), choice.three_way.q))
        q = np.concatenate([*first, np.zeros(len(facts.pairs)), *further, *two_way])
        noise = np.rint(facts.scale * q * rng.normal(size=len(self._y))).astype(np.int64)
        draw = MeasuredTables(choice, self._y + noise, self.total)
        draw.dependencies = self.dependencies
        draw.posterior = latent_classes.denoised(self.excess, choice.counts, rng)
        for pair, table in self.excess.items():
            moments = draw._moments(*pair)
            errors = np.sqrt(moments**2 @ (table.error**2).ravel())
            noise_of_moments = (errors * rng.normal(size=len(moments))) @ moments
            values = table.excess + noise_of_moments.reshape(table.excess.shape)
            draw.posterior[pair] = latent_classes.with_moments(draw.posterior[pair], moments, values)
        return draw

    @cached_property
    def coarse(self) -> list[Floats]:
        """The probabilities of merged cells, by all tables."""
        return self.choice.shares(self.one_way, self.two_way, self.use, self.total)

    @cached_property
    def margins(self) -> dict[Pair, tuple[Floats, Floats]]:
        """The probabilities of the columns of pairs; of slots, among those who use both."""
        shares = {pair: (variances, counts / self.total) for pair, (variances, counts) in self.two_way.items()}
        return self.use.margins(self.coarse, self.choice.merged, shares, self.facts.scale / self.total)

    @cached_property
    def expected(self) -> dict[Pair, Floats]:
        """The measured two-way tables as counts of independent columns, as if all used both slots."""
        return {pair: self.total * np.outer(*self.margins[pair]) for pair in self.two_way}

    @cached_property
    def excess(self) -> dict[Pair, PairTable]:
        """What their counts are more than these: of the true excess, rows and columns sum to 0."""
        tables = {}
        for pair, (variances, counts) in self.two_way.items():
            share = self.use.share(pair)
            errors = self.facts.scale * np.sqrt(variances) / share
            tables[pair] = PairTable(latent_classes.centred(counts / share - self.expected[pair]), errors)
        return tables

    def tables(self) -> list[Counted]:
        """Return all measured tables, those of one column from both rounds together."""
        scale = self.facts.scale
        tables = [
            Counted((i,), (np.arange(size),), *table.counts(self.choice.total, scale))
            for i, (size, table) in enumerate(zip(self.facts.sizes, self.one_way, strict=True))
        ]
        several: list[tuple[tuple[int, ...], Floats, float]] = [
            (pair, self.noisy[pair], scale / q) for pair, q in self.choice.pairs
        ]
        if (three_way := self.choice.three_way) is not None:
            several += [(table.columns, y.reshape(table.shape), error) for table, y, error in three_way.noisy(self)]
        for columns, counts, error in several:
            cells = np.unravel_index(np.arange(counts.size), counts.shape)
            tables.append(Counted(columns, cells, counts.ravel(), np.full(counts.size, error)))
        return tables

    def column_shares(self) -> list[Floats]:
        """Return each column's probabilities: of merged cells by all tables, within them by its own."""
        columns = zip(self.choice.merged, self.coarse, self.fine_shares, strict=True)
        return [coarse[cells.cell_of] * cells.within(fine) for cells, coarse, fine in columns]

    @cached_property
    def fine_shares(self) -> list[Floats]:
        """The probabilities of the cells of every column, by its own tables."""
        return [table.shares(self.total) for table in self.one_way]

    def model(self, rng: np.random.Generator) -> LatentClasses:
        """Return the model of all tables, on the cells of the domain."""
        facts, fine = self.facts, list(self.fine_shares)
        targets = self._targets()
        for constraint in facts.domain.constraints:
            if constraint.columns in targets:  # which merged cells hold any that are allowed
                i, j = constraint.columns
                x, y = np.nonzero(constraint.allowed)
                allowed = np.zeros_like(targets[i, j])
                allowed[self.choice.merged[i].cell_of[x], self.choice.merged[j].cell_of[y]] = 1.0
                targets[i, j] *= allowed
        shares, inside = self.use.classes(self, targets, rng)
        exact = {i for columns in facts.joint for i in columns} | facts.given_cells.keys()  # by cell, not merged ones
        for totals in facts.domain.published:
            if totals.column is not None and totals.group is not None:
                values = fine[totals.column] + 1e-9 / len(totals.group)
                groups = np.bincount(totals.group, weights=values, minlength=len(totals.counts))
                fine[totals.column] = values * (totals.counts / totals.counts.sum() / groups)[totals.group]
                exact.add(totals.column)
        blocks = []
        for columns in facts.blocks:
            if exact.isdisjoint(columns):
                (i,) = columns
                cells, merged = self.choice.fine[i], self.choice.merged[i].grouping(self.choice.fine[i])
                parts = inside[i][merged.cell_of] * merged.within(cells.sums(fine[i]))[:, None]
                within = latent_classes.Within.from_merged(cells.cell_of, cells.within(fine[i]))
                blocks.append(Block(columns, (np.unique(cells.cell_of, return_index=True)[1],), parts, within))
            else:
                blocks.append(self._joint_block(columns, inside, fine))
        uses = {i: cells.sum(axis=0) > 0.5 for i, cells in enumerate(inside)}
        model = LatentClasses(shares, tuple(blocks)).raked({i: fine[i] for i in exact - facts.given_cells.keys()}, uses)
        if not self.posterior and (strong := pair_losses.strong_pairs(self, model, rng)):
            links = {pair: table for pair, table in strong.items() if self.last.isdisjoint(pair)}
            model = model.linked(links, [cells.cell_of for cells in self.choice.fine])
        model = replace(model, dependencies=self.dependencies)
        if not self.posterior and self.last:
            from discreet.mechanisms.three_way_tables import with_last_columns

            model = with_last_columns(model, self, targets, strong, rng)
        for column, condition in facts.given_cells.items():
            model = model.where(column, condition)
        return model

    def _joint_block(self, columns: tuple[int, ...], inside: Sequence[Floats], fine: Sequence[Floats]) -> Block:
        codes = self.facts.joint.get(columns, (np.arange(self.facts.sizes[columns[0]]),))
        probabilities = np.ones((len(codes[0]), inside[0].shape[1]))
        for i, cells in zip(columns, codes, strict=True):
            merged = self.choice.merged[i]
            probabilities *= inside[i][merged.cell_of[cells]] * merged.within(fine[i])[cells][:, None]
        probabilities += 1e-300
        return Block(columns, codes, probabilities / probabilities.sum(axis=0))

    def _targets(self) -> dict[Pair, Floats]:
        """Return positive probabilities of nearly the columns' own: near a draw, or of tables with less noise."""
        targets, tables = {}, self.posterior or latent_classes.denoised(self.excess, self.choice.counts)
        if not self.posterior:
            tables = self.use.correlated(tables, self.excess, self.values[0], self.margins, self.total)
        for (i, j), excess in tables.items():
            kept, even = excess, 0.0
            if self.posterior:
                moments = self._moments(i, j)
                if len(moments) == (excess.shape[0] - 1) * (excess.shape[1] - 1):  # that is all of the table
                    moments = moments[:0]
            else:
                even, margins = _EVEN, self.margins[i, j]
                moments, _ = pair_losses.clear_covariance(self, (i, j), self.excess[i, j], margins, _CLEAR)
                if not self.use.panel:  # its tables have those of their kind
                    kept = latent_classes.with_moments(excess, moments, self.excess[i, j].excess)
            table = nearest_table((self.expected[i, j] + kept) / self.total, *self.margins[i, j], moments)
            targets[i, j] = (1.0 - even) * table + even * np.outer(*self.margins[i, j])
        return targets

    def _moments(self, i: int, j: int) -> Floats:
        """Return what of two columns is neither shrunk nor set off against negative counts: orthonormal rows."""
        # Of columns that are ordered or have two cells, covariances and means given each value of another column.
        cells, values = self.choice.counts[i] * self.choice.counts[j], self.values[0]
        if min(np.linalg.matrix_rank(values[k]) for k in (i, j)) != 1:
            return np.empty((0, cells))
        moments = np.einsum("pa,qb->pqab", values[i], values[j]).reshape(-1, cells)
        basis, size, _ = np.linalg.svd(moments.T, full_matrices=False)
        return np.asarray(basis.T[size > _DEPENDENT * size.max(initial=0.0)])

    @cached_property
    def values(self) -> tuple[list[Floats], list[Floats]]:
        """Of each column, the mean values of merged cells, and of fine ones, or which it is; rows that sum to 0."""
        levels: tuple[list[Floats], list[Floats]] = [], []
        columns = list(zip(self.facts.domain.measured_columns.values(), self.fine_shares, strict=True))
        for level, cells_of in zip(levels, (self.choice.merged, self.choice.fine), strict=True):
            for (column, shares), merged in zip(columns, cells_of, strict=True):
                rows = np.eye(merged.count)
                if column.on_a_line:
                    cells, mass = np.arange(column.values or 0), shares[: column.values] + LEAST_SHARE / len(shares)
                    weights = (mass * column.positions(cells), mass)
                    sums = [np.bincount(merged.cell_of[cells], weights=weight) for weight in weights]
                    means = sums[0] / sums[1]
                    nulls = np.full(merged.count - len(means), means.mean())  # which are no value
                    rows = np.append(means, nulls)[None]
                level.append(rows - rows.mean(axis=1, keepdims=True))
        return levels


# -- records ------------------------------------------------------------------------------------------------------


def cell_texts(column: Column) -> list[str]:
    """Return each cell's value, or its first and last, as text; a null as "null"."""
    import polars as pl

    codes = np.arange(column.size or 0)
    ends = column.interval(codes) or (column.decode(codes, rng=seeded(0)),)
    texts = [end.cast(pl.String).fill_null("null").to_list() for end in ends]
    return [low if low == high else f"{low} to {high}" for low, high in zip(texts[0], texts[-1], strict=True)]


@dataclass(frozen=True, eq=False)
class StratumShares(CellShares):
    """Strata of a model: a class, or a group of one column's cells and a class, group by group."""

    model: LatentClasses
    by_stratum: tuple[Block, ...]  # blocks drawn by stratum
    by_class: tuple[Block, ...]  # blocks drawn by class
    domain: Domain  # of the records
    closed: Domain  # with the labels that were kept

    def records_in(self, items: Integers, *, rng: np.random.Generator) -> Records:
        """Return a record of each stratum; cells are stratified as strata are, and open labels are cells."""
        stratified = self.sampling == "stratified"
        cells = self.model.records(items, self.by_stratum, stratified=stratified, rng=rng)
        cells |= self.model.records(items % len(self.model.shares), self.by_class, stratified=stratified, rng=rng)
        for i, column in self.model.last.items():
            cells[i] = column.draw(cells, stratified=stratified, rng=rng)
        return Records(columns=tuple([cells[i] for i in range(len(cells))]))

    def draw(self, size: int, *, rng: np.random.Generator, portion: Portion = WHOLE) -> Iterator[Records]:
        """Yield records with their labels; one whose label was not kept gets a new one."""
        chunks = super().draw(size, rng=rng, portion=portion)
        return labelled(chunks, self.domain, self.closed, rng, first_new=portion.first_label)


@dataclass(frozen=True, eq=False)
class MarginalsReading(Reading):
    """Noisy tables, and records drawn from a graphical model of them."""

    facts: WideFacts
    measured: MeasuredTables  # on a domain without open columns
    labels: Sequence[KeptLabels]  # those that were kept of each open column
    _fitted: list[LatentClasses] = field(default_factory=list)  # what the next records are drawn from

    @property
    def _closed(self) -> Domain:
        return self.measured.facts.domain

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records from the model, in chunks; of several tables, from a posterior draw of their own."""
        shares = self.cell_shares(rng=rng)
        if shares is not None:
            return shares.draw(size, rng=rng)
        return labelled(self._population_records(size, rng), self.facts.domain, self._closed, rng)

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares | None:
        """Return the shares of the model's strata; several tables have no one model."""
        # stratified records meet the published totals of the first column that has any, the others' on average
        if self.facts.tables is not None:
            return None
        model = (self._fitted or [self.measured.model(rng)]).pop()
        shares, by_stratum, by_class = model.shares, [], list(model.blocks)
        for totals in self._closed.published:
            if totals.column is not None and totals.group is not None and not self.facts.given:
                shares, block = model.strata(totals.column, totals.group)
                by_stratum, by_class = [block], [other for other in by_class if other.columns != block.columns]
                break
        domains = self.facts.domain, self._closed
        return StratumShares(shares, self.facts.sampling, model, tuple(by_stratum), tuple(by_class), *domains)

    def column_shares(self, *, rng: np.random.Generator) -> list[ColumnShares] | None:
        """Return each column's shares by the measured tables, which the model follows; a new label has none."""
        if self._closed.differences:  # they are of other cells than the column's
            return None
        columns: list[ColumnShares] = [(np.arange(len(shares)), shares) for shares in self.measured.column_shares()]
        for i in self.facts.open:
            shares, labels = columns[i][1], self._closed.columns[self._closed.names[i]].labels or ()
            codes = np.array([*labels, None], dtype=object)[: len(shares)]
            columns[i] = np.delete(codes, len(labels) - 1), np.delete(shares, len(labels) - 1)
        return columns

    def _population_records(self, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw records of a population that the confidential table may be a sample of, given its noisy tables."""
        # As many as are held are drawn from the model of one posterior draw of the tables, and records from these.
        draw = self.measured.posterior_draw(rng)
        model = draw.model(rng)
        for counts in reading.copies(round(draw.total), size, rng):
            classes = rng.choice(len(model.shares), size=len(counts), p=model.shares)
            cells = model.records(classes, model.blocks, stratified=False, rng=rng)
            order = rng.permutation(np.repeat(np.arange(len(counts)), counts))
            for start in range(0, len(order), reading.BLOCK):
                rows = order[start : start + reading.BLOCK]
                yield Records(columns=tuple(cells[i][rows] for i in range(len(cells))))

    def estimates(self) -> Estimates:
        """Return the counts of the measured tables, unbiased, with the texts of their columns and (merged) cells."""
        # of three columns, "or" stands between merged cells; labels that were not kept are the prefix and a star
        tables, domain = self.measured.tables(), self._closed
        if len(domain.columns) == 1 and not self.facts.open:
            ((_, (cells,), counts, errors),) = tables
            return Estimates(domain.unflat(cells), counts, errors)
        texts = [cell_texts(column) for column in domain.columns.values()]
        choice = self.measured.choice
        ordered = [column.on_a_line for column in domain.columns.values()]
        coarse, fine = [list(map(Merged.texts, level, texts, ordered)) for level in (choice.merged, choice.fine)]
        three_way = [] if choice.three_way is None else choice.three_way.tables(self.measured)
        groups_of = {table.columns: list(zip(*table, strict=True)) for table in three_way}
        labels: dict[str, list[str | None]] = {name: [] for name in (TABLE, *domain.names)}
        for columns, places, counts, _ in tables:
            labels[TABLE] += [", ".join(domain.names[i] for i in columns)] * len(counts)
            level = coarse
            if len(columns) == 1:
                level = texts
            elif columns in choice.clear:
                level = fine
            words: dict[int, list[Any]] = {i: level[i] for i in columns}
            for i, groups in groups_of.get(columns, []):
                words[i] = [" or ".join(cells) for cells in groups.grouping(choice.merged[i]).grouped(words[i])]
            rows = {i: [words[i][cell] for cell in cells.tolist()] for i, cells in zip(columns, places, strict=True)}
            for i, name in enumerate(domain.names):
                labels[name] += rows.get(i, [None] * len(counts))
        counts, errors = (np.concatenate(parts) for parts in list(zip(*tables, strict=True))[2:])
        return Estimates(domain.draw_base(0, seeded(0)), counts, errors, labels)

    def outcome(self) -> Outcome:
        """Return how many two-way tables were measured, and how many labels kept, of what share of records."""
        choice, names = self.measured.choice, self._closed.names
        pairs = [pair for pair, _ in choice.pairs]
        facts: dict[str, Any] = {}
        if self.facts.tables is not None:  # what intervals from several tables have to know
            columns = zip(names, choice.merged, strict=True)
            facts = {
                "pairs_measured": [[names[i], names[j]] for i, j in sorted(pairs)],
                "merged_cells": {name: cells.count for name, cells in columns if cells.count < len(cells.cell_of)},
            }
        codes, shares = list(pair_losses.pair_codes(self.measured, pairs, several=self.facts.tables is not None)), []
        for source, target, cell_of in self.measured.dependencies:
            cells, values = [cell_texts(self._closed.columns[names[i]]) for i in (source, target)]
            numbers = {"column": names[source], "determined": names[target], "cells": cells}
            codes.append(Code("column-determined", {**numbers, "values": [values[i] for i in cell_of.tolist()]}))
        for i, (labels, _) in zip(self.facts.open, self.labels, strict=True):
            rest_cell = (self._closed.columns[names[i]].values or 1) - 1  # the cell of all other labels
            lost = min(1.0, max(0.0, float(choice.one_way[i].shares(choice.total)[rest_cell])))
            shares.append(1.0 - lost)
            codes.append(Code("column-labels-kept", {"column": names[i], "labels": len(labels), "share": lost}))
        return Outcome(tuple(codes), min(shares, default=None), facts, pairs)

    def losses(self, relation: Relation, contents: Contents, *, rng: np.random.Generator) -> tuple[Code, ...]:
        """Return the losses of the model that the next records are drawn from; of several tables, one of all tables."""
        measured, codes = self.measured, []
        unmeasured = len(set(measured.facts.pairs) - measured.two_way.keys())
        if unmeasured and measured.facts.domain.slots is None:
            share = pair_losses.hidden_dependence(measured, exact=relation.name == "replacement")
            codes.append(Code("unmeasured-pairs", {"pairs": unmeasured, "share": math.ceil(1e4 * share) / 1e4}))
        if contents.size is not None and self.facts.given is None and measured.two_way:
            if self.facts.tables is None:
                self._fitted.append(measured.model(rng))
            losses = pair_losses.pair_losses(measured, (self._fitted or [measured.model(seeded(0))])[-1])
            numbers = {
                "tables": ["*".join([self._closed.names[i] for i in pair]) for _, _, pair in losses],
                "losses": [round(loss, 4) for loss, _, _ in losses],
                "errors": [round(error, 4) for _, error, _ in losses],
            }
            codes.append(Code("pair-losses", numbers))
        return tuple(codes)
