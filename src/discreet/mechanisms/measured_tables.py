"""What an output of ``marginals`` tells: its noisy tables, which were chosen, and the model of them. All public."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Floats, Integers
from discreet._core.random import seeded
from discreet.domain import Column, Domain, PublishedTotals
from discreet.mechanisms.base import CellCounts
from discreet.mechanisms.latent_classes import Block, LatentClasses, Pair, Table, Within, denoised, fitted
from discreet.mechanisms.projections import nearest_probabilities
from discreet.mechanisms.reading import Estimates
from discreet.mechanisms.wide_columns import Merged, OneWay, merged
from discreet.mechanisms.wide_facts import WideFacts, worth_measuring

_NO_SIGNAL, _ALL_SIGNAL = 0.2, 0.5  # share of the scores that is more than scatter
_PROJECTIONS, _LEAST_SHARE, _DEPENDENT = 100, 1e-3, 1e-9
_HALF = 0.5 * math.sqrt(2.0 / math.pi)  # half the mean absolute value of a normal variable


class Counted(NamedTuple):
    """A noisy table. Public.

    ``columns``: their numbers, one or two.
    ``cells``: per column, the cell of each count: the domain's in a table of one column, else a merged one.
    ``counts``: unbiased.
    ``errors``: standard error of each.
    """

    columns: tuple[int, ...]
    cells: tuple[Integers, ...]
    counts: Floats
    errors: Floats


class MeasuredTables:
    """What can be read from an output of the private step, or from its first stages. All of it is public."""

    def __init__(self, mechanism: WideFacts, y: CellCounts) -> None:
        self._made, self._y = mechanism, np.asarray(y, dtype=np.int64)
        self._drawn: dict[Pair, Floats] | None = None  # excess of the two-way tables

    def posterior_draw(self, rng: np.random.Generator) -> MeasuredTables:
        """Return what the confidential tables may be, given the noisy ones. Merged cells and the choice of tables stay.

        One-way counts get their noise once more: with a flat prior that is a draw from the posterior given all tables
        together, since the draws are combined by their precisions as the noisy ones are. The excess of two-way tables
        is drawn by :func:`denoised`, which shrinks; but not its moments, which have a flat prior.
        """
        noise = np.rint(self._scales * rng.normal(size=len(self._y))).astype(np.int64)
        draw = MeasuredTables(self._made, self._y + noise)
        draw.total, draw.merged, draw.measured, draw.held = self.total, self.merged, self.measured, self.held
        tables = self._two_way(self._combined(*self._estimated(), self.held))[1]
        draw._drawn = denoised(tables, self._merged_sizes, rng) if tables else {}
        for pair, table in tables.items():
            moments, drawn = draw._moments(*pair), draw._drawn[pair]
            given = moments @ table.excess.ravel() + table.error * rng.normal(size=len(moments))
            draw._drawn[pair] = drawn + ((given - moments @ drawn.ravel()) @ moments).reshape(drawn.shape)
        return draw

    @property
    def _merged_sizes(self) -> list[int]:
        return [each.count for each in self.merged]

    def _two_way(self, coarse: Sequence[Floats]) -> tuple[dict[Pair, Floats], dict[Pair, Table]]:
        """Return the measured two-way tables as counts of independent columns and what is more than these."""
        two_way = self._estimated()[1]
        expected = {pair: self.held * np.outer(coarse[pair[0]], coarse[pair[1]]) for pair, _, _ in two_way}
        tables = {}
        for pair, q, counts in two_way:
            excess = _centred(counts.reshape(expected[pair].shape) - expected[pair])
            tables[pair] = Table(excess if self._drawn is None else self._drawn[pair], self._made.scale / q)
        return expected, tables

    @cached_property
    def _scales(self) -> Floats:
        """The scale of the noise of each released number; 0 of scores, from which no table is drawn."""
        first = np.repeat(self._made.first, self._made.lengths)
        last = [np.full(len(counts), q) for _, q, counts in self._tables()]
        return np.asarray(self._made.scale * np.concatenate([first, np.zeros(len(self._made.pairs)), *last]))

    @cached_property
    def one_way(self) -> list[OneWay]:
        """The counts of the first round."""
        made = self._made
        parts = np.split(self._y[: self._after], np.cumsum(made.lengths)[:-1])
        rounds = zip(parts, made.first.tolist(), made.nodes, strict=True)
        return [OneWay(part / float(q * q), float(q * q), nodes) for part, q, nodes in rounds]

    @cached_property
    def total(self) -> float:
        """The number of records: the published or declared one, unless the noisy tables contradict it."""
        return _total(self._made, self.one_way)

    @cached_property
    def held(self) -> float:
        """The same after both rounds."""
        return _total(self._made, self._estimated()[0])

    @cached_property
    def merged(self) -> list[Merged]:
        """The merged cells of every column."""
        made = self._made
        precision = self.total * math.sqrt(made.units) / (made.scale * len(made.sizes))
        return [
            merged(column, one.counts(self.total), made.scale / math.sqrt(one.units), precision)
            for column, one in zip(made.domain.columns.values(), self.one_way, strict=True)
        ]

    @cached_property
    def _coarse(self) -> list[Floats]:
        return self._combined(self.one_way, (), self.total)

    def expected(self, i: int, j: int) -> Integers:
        """Return the two-way table that the one-way tables would make of independent columns, in whole records."""
        return np.rint(self.total * np.outer(self._coarse[i], self._coarse[j])).astype(np.int64)

    @cached_property
    def _after(self) -> int:
        return sum(self._made.lengths)

    @cached_property
    def _variances(self) -> list[Floats]:
        """Of the noise of each column's merged cells, from its one-way table."""
        return [
            self._made.scale**2 / one.precision * each.sums(np.ones(len(each.of)))
            for one, each in zip(self.one_way, self.merged, strict=True)
        ]

    def _scatter(self, i: int, j: int) -> float:
        """Return what no measurement of two columns gains: the scatter of records that drowns in noise, and noise."""
        a, b = self._coarse[i], self._coarse[j]
        noise = np.outer(self._variances[i], b**2) + np.outer(a**2, self._variances[j])
        expected = self.total * np.outer(a, b)
        usual = self._made.scale**2 * 2.0 * len(self._made.pairs) / self._made.units  # squared error, half the units
        lost = expected * usual / (expected + usual) + noise
        return float(np.minimum(_HALF * np.sqrt(lost), expected + _HALF * np.sqrt(noise)).sum())

    def _gains(self) -> Floats:
        """Return how many records each two-way table would put elsewhere, and a measurement of it gains.

        Scores are shrunk to their mean, by how much of their variance is noise. Where little of them is more than
        scatter, less than a half, scatter is taken off: it is what a measurement would follow in vain.
        """
        pairs, noise = self._made.pairs, self._made.scale**2
        if not pairs:
            return np.empty(0)
        scores = self._y[self._after : self._after + len(pairs)].astype(np.float64)
        scatter = np.array([self._scatter(i, j) for i, j in pairs])
        more = float((scores - scatter).mean()) / max(float(scores.mean()), 1e-9)
        gains = scores - scatter * min(1.0, max(0.0, (_ALL_SIGNAL - more) / (_ALL_SIGNAL - _NO_SIGNAL)))
        apart = gains - gains.mean()
        spread = max(0.0, float((apart**2).mean()) - noise)
        return np.asarray(gains.mean() + apart * spread / (spread + noise))

    @cached_property
    def measured(self) -> list[tuple[tuple[int, ...], int]]:
        """The tables of the last stage, as numbers of columns, and the ``q`` of each."""
        made = self._made
        shapes = [(self.merged[i].count, self.merged[j].count) for i, j in made.pairs]
        left = made.units - int((made.copies * made.first**2).sum())
        taken, pairs, again = worth_measuring(
            self._gains(), shapes, made.one_way_cost, made.copies, made.first, units=left, scale=made.scale
        )
        tables: list[tuple[tuple[int, ...], int]] = [((i,), q) for i, q in enumerate(again.tolist()) if q]
        return tables + [(made.pairs[t], q) for t, q in zip(taken.tolist(), pairs.tolist(), strict=True) if q]

    def _tables(self) -> Iterator[tuple[tuple[int, ...], int, Floats]]:
        at = self._after + len(self._made.pairs)
        for columns, q in self.measured:
            length = self._made.lengths[columns[0]] if len(columns) == 1 else 1
            for i in columns if len(columns) == 2 else ():
                length *= self.merged[i].count
            yield columns, q, self._y[at : at + length] / float(q * q)
            at += length

    def _combined(
        self, ones: Sequence[OneWay], two_way: Sequence[tuple[Pair, int, Floats]], total: float
    ) -> list[Floats]:
        """Return the probabilities of merged cells, from one-way tables and the margins of two-way ones together."""
        sums = [each.sums(one.counts(total)) for each, one in zip(self.merged, ones, strict=True)]
        weight = [one.precision / each.sums(np.ones(len(each.of))) for one, each in zip(ones, self.merged, strict=True)]
        sums = [a * w for a, w in zip(sums, weight, strict=True)]
        for (i, j), q, counts in two_way:
            a, b = self.merged[i].count, self.merged[j].count
            table = counts.reshape(a, b)
            sums[i], weight[i] = sums[i] + table.sum(axis=1) * (q * q / b), weight[i] + q * q / b
            sums[j], weight[j] = sums[j] + table.sum(axis=0) * (q * q / a), weight[j] + q * q / a
        return [_positive(a / w, total) for a, w in zip(sums, weight, strict=True)]

    def _estimated(self) -> tuple[list[OneWay], list[tuple[Pair, int, Floats]]]:
        """Return the counts of one-way tables from both rounds, and two-way tables with their ``q``."""
        ones = list(self.one_way)
        two_way: list[tuple[Pair, int, Floats]] = []
        for columns, q, counts in self._tables():
            if len(columns) == 2:
                two_way.append(((columns[0], columns[1]), q, counts))
            else:
                ones[columns[0]] = ones[columns[0]].again(counts, q * q)
        return ones, two_way

    def tables(self) -> list[Counted]:
        """Return all measured tables, those of one column from both rounds together."""
        ones, two_way = self._estimated()
        scale = self._made.scale
        found = [
            Counted((i,), (np.arange(self._made.sizes[i]),), one.counts(self.total), one.errors(scale))
            for i, one in enumerate(ones)
        ]
        for (i, j), q, counts in two_way:
            cells = np.unravel_index(np.arange(len(counts)), (self.merged[i].count, self.merged[j].count))
            found.append(Counted((i, j), cells, counts, np.full(len(counts), scale / q)))
        return found

    def column_shares(self) -> list[Floats]:
        """Return each column's probabilities: of merged cells by all tables, within them by its own."""
        ones, two_way = self._estimated()
        merged = zip(self.merged, self._combined(ones, two_way, self.held), ones, strict=True)
        return [coarse[each.of] * _within(each, one.shares(self.held)) for each, coarse, one in merged]

    def model(self, rng: np.random.Generator) -> LatentClasses:
        """Return the model of all tables, on the cells of the domain."""
        made = self._made
        ones, two_way = self._estimated()
        total = self.held
        coarse = self._combined(ones, two_way, total)
        expected, tables = self._two_way(coarse)
        wanted = self._wanted(expected, tables, coarse)
        for pair, possible in self._possible().items():
            if pair in wanted:
                wanted[pair] *= possible
        shares, inside = fitted(coarse, wanted, tables if self._drawn is None else {}, total, rng=rng)
        fine = [one.shares(total) for one in ones]
        for totals in made.domain.published:
            if totals.column is not None:
                fine[totals.column] = _with_totals(fine[totals.column], totals)
        model = LatentClasses(shares, tuple(self._block(block, len(shares), inside, fine) for block in made.blocks))
        model = model.raked({i: fine[i] for i in self._by_cell if i not in made.given_cells})
        for column, cells in made.given_cells.items():
            model = model.where(column, cells)
        return model

    def _wanted(
        self, expected: Mapping[Pair, Floats], tables: Mapping[Pair, Table], coarse: Sequence[Floats]
    ) -> dict[Pair, Floats]:
        """Return positive probabilities of the two-way tables: with less noise, or near the draws."""
        if self._drawn is not None:
            drawn = {pair: (expected[pair] + table.excess) / self.held for pair, table in tables.items()}
            found = {}
            for (i, j), table in drawn.items():
                moments = self._moments(i, j)
                if len(moments) == (table.shape[0] - 1) * (table.shape[1] - 1):  # that is all of the table
                    moments = moments[:0]
                found[i, j] = _nearest_table(table, coarse[i], coarse[j], moments)
            return found
        excess = denoised(tables, self._merged_sizes) if tables else {}
        return {(i, j): _with_margins(expected[i, j], excess[i, j], coarse[i], coarse[j]) for i, j in tables}

    def _moments(self, i: int, j: int) -> Floats:
        """Return what of two columns together is neither shrunk nor set off against negative counts: orthonormal rows.

        The covariance of two columns that are ordered or have two cells, and the means of such a column given each
        value of another: what regressions and means of groups ask for.
        """
        cells = self.merged[i].count * self.merged[j].count
        if min(np.linalg.matrix_rank(self._scores[k]) for k in (i, j)) != 1:
            return np.empty((0, cells))
        moments = np.einsum("pa,qb->pqab", self._scores[i], self._scores[j]).reshape(-1, cells)
        basis, size, _ = np.linalg.svd(moments.T, full_matrices=False)
        return np.asarray(basis.T[size > _DEPENDENT * size.max(initial=0.0)])

    @cached_property
    def _scores(self) -> list[Floats]:
        """Of each column, the mean values of its merged cells, or which of them it is; rows that sum to 0."""
        found = []
        fine = (one.shares(self.held) for one in self._estimated()[0])
        for column, each, shares in zip(self._made.domain.columns.values(), self.merged, fine, strict=True):
            rows = np.eye(each.count)
            if column.on_a_line:
                cells, mass = np.arange(column.values or 0), shares[: column.values] + _LEAST_SHARE / len(shares)
                sums = [np.bincount(each.of[cells], weights=w) for w in (mass * column.positions(cells), mass)]
                values = sums[0] / sums[1]
                rows = np.append(values, np.full(each.count - len(values), values.mean()))[None]  # nulls are no value
            found.append(rows - rows.mean(axis=1, keepdims=True))
        return found

    def _possible(self) -> dict[Pair, Booleans]:
        """Return which merged cells of two columns hold any that are allowed, where these two are constrained."""
        found = {}
        for constraint in self._made.domain.constraints:
            if len(constraint.columns) == 2:
                i, j = constraint.columns
                held = np.zeros((self.merged[i].count, self.merged[j].count), dtype=np.bool_)
                x, y = np.nonzero(constraint.allowed)
                held[self.merged[i].of[x], self.merged[j].of[y]] = True
                found[i, j] = held
        return found

    @cached_property
    def _by_cell(self) -> set[int]:
        """The columns whose cells are drawn as they are, not by merged ones."""
        joined = {i for columns in self._made.joint for i in columns}
        published = {totals.column for totals in self._made.domain.published if totals.column is not None}
        return joined | published | set(self._made.given_cells)

    def _block(self, columns: tuple[int, ...], classes: int, inside: Sequence[Floats], fine: Sequence[Floats]) -> Block:
        """Return a block: one column by its merged cells, or the joint cells of constrained ones."""
        first = columns[0]
        if first not in self._by_cell:
            each = self.merged[first]
            within = Within.from_merged(each.of, _within(each, fine[first]))
            return Block((first,), (np.arange(each.count),), inside[first], within)
        codes = self._made.joint.get(columns, (np.arange(self._made.sizes[first]),))
        probabilities = np.ones((len(codes[0]), classes))
        for i, cells in zip(columns, codes, strict=True):
            of, share = self.merged[i].of, _within(self.merged[i], fine[i])
            probabilities *= inside[i][of[cells]] * share[cells][:, None]
        probabilities += 1e-300
        return Block(columns, codes, probabilities / probabilities.sum(axis=0))


def _with_margins(expected: Floats, excess: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return positive probabilities near a table, of nearly the margins that are given: five proportional fittings."""
    table = np.maximum(expected + excess, 1e-3 * expected)
    for _ in range(5):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= columns / table.sum(axis=0)
    return np.asarray(table / table.sum())


def _nearest_table(table: Floats, rows: Floats, columns: Floats, moments: Floats) -> Floats:
    """Return positive probabilities near a table, of nearly the margins that are given: the nearest non-negative ones.

    Found by Dykstra's alternating projections, which keep the moments. Without these, what negative counts are set off
    against is mostly the dependence of the two.

    ``moments``, shape (number, cells): orthonormal, of rows and columns that sum to 0.
    """
    (a, b), kept = table.shape, moments @ table.ravel()
    moved, below = table, np.zeros_like(table)
    near = np.maximum(table, 0.0)
    for _ in range(_PROJECTIONS):
        below += moved - near
        rest, beside = rows - near.sum(axis=1), columns - near.sum(axis=0)
        moved = near + rest[:, None] / b + beside / a - float(rest.sum()) / (a * b)
        moved += ((kept - moments @ moved.ravel()) @ moments).reshape(a, b)
        near = np.maximum(moved + below, 0.0)
    near += _LEAST_SHARE * np.outer(rows, columns)
    return np.asarray(near / near.sum())


def _with_totals(shares: Floats, totals: PublishedTotals) -> Floats:
    """Return the shares of a column's cells, those of each group together as they were published."""
    group = np.asarray(totals.group)
    alike = 1e-9 / len(shares)
    held = np.bincount(group, weights=shares + alike, minlength=len(totals.counts))
    return np.asarray((shares + alike) * (totals.counts / totals.counts.sum() / held)[group])


def _centred(excess: Floats) -> Floats:
    """Return the nearest table whose rows and columns each sum to 0, as those of the true excess do."""
    rows = excess - excess.mean(axis=1, keepdims=True)
    return np.asarray(rows - rows.mean(axis=0, keepdims=True))


def _total(made: WideFacts, ones: Sequence[OneWay]) -> float:
    """Return the published or declared number of records, or the noisy tables' own, 4 standard errors from both."""
    sums, units = map(np.array, zip(*(one.total() for one in ones), strict=True))
    noisy, error = float(sums @ units / units.sum()), made.scale / math.sqrt(float(units.sum()))
    stated = [float(totals.counts.sum()) for totals in made.domain.published[:1]] + [float(made.records)]
    return next((total for total in stated if abs(noisy - total) <= 4.0 * error), max(1.0, noisy))


def _positive(counts: Floats, total: float) -> Floats:
    """Return positive probabilities near noisy counts."""
    near = total * nearest_probabilities(counts / total) + 0.5
    return np.asarray(near / near.sum())


def _within(each: Merged, shares: Floats) -> Floats:
    """Return the share of each cell in its merged cell; alike where noise left none of them."""
    alike = 1e-9 / len(shares)
    return np.asarray((shares + alike) / each.sums(shares + alike)[each.of])


# Noisy tables of one and two columns as one table of texts and counts. Public.

TABLE = "table"
"""Name of the column that says which columns a count is of."""


def counted_texts(tables: Sequence[Counted], domain: Domain, merged: Sequence[Merged]) -> Estimates:
    """Return the counts of tables, each with a text for every column of its table.

    ``tables``: of one column by the domain's cells, of two by merged ones.
    ``merged``: the merged cells of every column.
    """
    fine = [_texts(column) for column in domain.columns.values()]
    coarse = [
        [_together(column, np.flatnonzero(each.of == c), texts) for c in range(each.count)]
        for column, each, texts in zip(domain.columns.values(), merged, fine, strict=True)
    ]
    labels: dict[str, list[str | None]] = {name: [] for name in (TABLE, *domain.names)}
    for columns, cells, counts, _ in tables:
        labels[TABLE] += [", ".join(domain.names[i] for i in columns)] * len(counts)
        place = dict(zip(columns, cells, strict=True))
        for i, name in enumerate(domain.names):
            texts = fine[i] if len(columns) == 1 else coarse[i]
            labels[name] += [texts[c] for c in place[i].tolist()] if i in place else [None] * len(counts)
    counts = np.concatenate([table.counts for table in tables])
    errors = np.concatenate([table.errors for table in tables])
    return Estimates(domain.draw_base(0, seeded(0)), counts, errors, labels)


def _texts(column: Column) -> list[str]:
    """Return each cell's value, or its first and last, as text; a null as "null"."""
    import polars as pl

    codes = np.arange(column.size or 0)
    ends = column.interval(codes)
    values = (column.decode(codes, rng=seeded(0)),) if ends is None else ends
    low, *high = (value.cast(pl.String).fill_null("null").to_list() for value in values)
    return [a if a == b else f"{a} to {b}" for a, b in zip(low, high[0] if high else low, strict=True)]


def _together(column: Column, cells: Integers, texts: Sequence[str]) -> str:
    """Return what merged cells are, in words."""
    first, last = texts[int(cells[0])], texts[int(cells[-1])]
    if len(cells) == 1:
        return first
    return f"{first.split(' to ')[0]} to {last.split(' to ')[-1]}" if column.on_a_line else "any other"
