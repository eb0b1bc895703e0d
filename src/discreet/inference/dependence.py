"""What several tables of one release leave open: cells that noise hides, and dependence that was not measured.

Theory: docs/theory/marginals.md, "What intervals allow for".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.numeric import Booleans, Floats, Integers
from discreet._core.random import seeded
from discreet.domain import Records
from discreet.inference.bounds import CellEstimates, halves
from discreet.inference.functionals import ordered
from discreet.inference.released import Released
from discreet.privacy import Code
from discreet.wording import losses_of

if TYPE_CHECKING:
    from discreet.inference.several_tables import SeveralTables

_CLEAR = 3.0  # standard deviations of noise, above which a count was not clipped
_GRID = np.linspace(-_CLEAR, _CLEAR, 61)
_CLIPPED = np.array(
    [math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi) + 0.5 * x * math.erfc(-x / math.sqrt(2.0)) for x in _GRID]
)  # mean of the positive part of a normal variable with each mean
_POOLED, _MOST_RECORDS = 2, 1 << 14  # tables, and records of them, in which dependence is changed
_COARSE = 0.6  # share of a column's variance, within the cells that it was measured on with others
_UNSEPARATED = 0.9  # share of the records up to which log-odds stay finite, whatever their order
_MOST_LABELS = 6  # of a column, each of which may go with low values or with high ones


def hidden_cells(tables: Sequence[Released], place: int, records: int, parts: int = 1) -> Booleans:
    """Return which cells of a column, a sum of tables, the noise of these does not let one tell from empty ones."""
    size = list(tables[0].domain.columns.values())[place].size or 0
    if not size:
        return np.zeros(0, dtype=bool)
    counts = [np.bincount(t.records.columns[place].astype(np.int64), t.counts, size) / t.size for t in tables]
    shares, positive = np.mean(counts, axis=0), np.min(counts, axis=0) > 0.0
    drawn = np.mean([t.cell_variances(place, size) for t in tables], axis=0)
    spread = np.var(counts, axis=0, ddof=1) - drawn * (1.0 + tables[0].drawn / records)
    noise = math.sqrt(max(1e-18, float(np.mean(spread[positive | ~positive.any()]))))
    noisy = shares / noise / math.sqrt(parts)  # of each table, without negative counts, which are estimated
    noisy = math.sqrt(parts) * np.where(noisy < _CLEAR, np.interp(noisy, _CLIPPED, _GRID), noisy)
    return CellEstimates(noisy + (1.0 / noise - noisy.sum()) / size, 1.0, halves(size)).hidden()


class OpenDependence:
    """What the tables of a release leave open of some columns together, by the hidden cells of each."""

    def __init__(
        self, several: SeveralTables, tables: Sequence[Released], hidden: dict[str, Booleans], names: Sequence[str]
    ) -> None:
        self._several, self._hidden, self._names = several, hidden, names
        pooled = [t.records.take(np.repeat(np.arange(len(t.counts)), t.counts.astype(int))) for t in tables[:_POOLED]]
        records = Records.concatenate(pooled)
        records = records.take(np.sort(seeded(0).permutation(len(records))[:_MOST_RECORDS]))
        self._table = replace(tables[0], records=records, counts=np.ones(len(records)), units=None)

    def shifts(self, numbers: Callable[[Released], Floats], *, emptied: bool) -> Floats:
        """Return how far below and above numbers may lie, shape (numbers, 2); ``emptied``: without hidden cells too."""
        full, names = self._table, self._table.domain.names
        places = [names.index(name) for name in self._names]
        hidden = [np.isin(full.records.columns[i], np.flatnonzero(self._hidden[names[i]])) for i in places]
        clear = ~np.any(hidden, axis=0)
        tables = [full]
        if clear.any() and not clear.all():
            tables.append(replace(full, records=full.records.take(np.flatnonzero(clear)), counts=full.counts[clear]))
        bases = [numbers(table) for table in tables]
        cases = [[base - bases[0] for base in bases if emptied]]
        for pair in itertools.combinations(places, 2):
            bodies = zip(tables, bases, strict=True)
            cases.append([numbers(case) - base for table, base in bodies for case in self._cases(table, pair)])
        ends = [(np.fmin.reduce(case), np.fmax.reduce(case)) for case in cases if case]
        low, high = (sum(side, np.zeros(len(bases[0]))) for side in zip(*ends, strict=True))
        return np.stack([np.fmin(low, 0.0), np.fmax(high, 0.0)], axis=1)

    def _cases(self, table: Released, pair: tuple[int, int]) -> Iterator[Released]:
        """Yield tables with other dependence between two columns, which what was measured does not exclude."""
        from scipy.stats import rankdata

        columns = list(table.domain.columns.values())
        key, moved = sorted(pair, key=lambda place: ordered(columns[place]))
        if columns[key].open or columns[moved].open:
            return
        x: Any
        x, y = (np.asarray(table.records.columns[place], dtype=np.int64) for place in (key, moved))
        measured, _, share = self._dependence(*[table.domain.names[place] for place in pair])
        orders = [x] if ordered(columns[key]) else [x == code for code in np.unique(x)[:_MOST_LABELS]]
        for order in orders:
            cases = itertools.product({share, min(share, _UNSEPARATED)}, (-1, 1))
            yield from (_paired(table, moved, part, sign * order, np.zeros_like(x)) for part, sign in cases)
        if not measured:
            return
        if not ordered(columns[key]):
            x = (np.bincount(x, y) / np.maximum(1, np.bincount(x)))[x]
        if x.std() * y.std() > 0.0:
            correlation = float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])
            strata = self._merged(table, key) * ((columns[moved].size or 0) + 1) + self._merged(table, moved)
            yield _paired(table, moved, abs(correlation), math.copysign(1.0, correlation) * x, strata)

    def _dependence(self, a: str, b: str) -> tuple[bool, bool, float]:
        """Return whether two columns were measured together anywhere, and everywhere, and what share may be missed."""
        # The share is of the records: the release may miss how the columns depend on each other there.
        mechanism, outcome, measured = self._several.mechanism, self._several.released.outcome, self._several.measured
        losses = {table: loss for table, loss, _ in losses_of(outcome)}
        names, complete, missed = mechanism.domain.names, [], 0.0
        scored = {frozenset((names[i], names[j])) for i, j in getattr(mechanism, "pairs", ())}
        shares = [float(code.numbers["share"]) for code in outcome if code.name == "unmeasured-pairs"]
        for share, columns in self._several.places(a, b):
            pairs = set(map(frozenset, itertools.combinations(columns, 2)))
            complete.append(pairs <= measured)
            unmeasured = [max(shares, default=1.0) if pair in scored else 1.0 for pair in pairs - measured]
            orders = ["*".join(order) for pair in pairs & measured for order in itertools.permutations(pair)]
            missed += share * min(1.0, sum(unmeasured) + sum(losses.get(order, 0.0) for order in orders))
        return any(complete), all(complete), missed

    def codes(self) -> tuple[Code, ...]:
        """Return which pairs were not measured or are mostly noise, and which columns too coarse to be related."""
        pairs = [(pair, *self._dependence(*pair)) for pair in itertools.combinations(self._names, 2)]
        shares = {pair: share for pair, _, measured, share in pairs if not measured}
        codes = [Code("unmeasured-pair", {"columns": pair, "share": share}) for pair, share in shares.items()]
        parts = [part for pair, *_ in pairs for _, part in self._several.places(*pair)]
        orders = {"*".join(order) for part in parts for order in itertools.permutations(part, 2)}
        outcome = {code.name: code.numbers.get("tables", ()) for code in self._several.released.outcome}
        faint = [table for table in outcome.get("faint-tables", ()) if table in orders]
        if faint:
            codes.append(Code("faint-tables", {"tables": faint}))
        for name in self._names:
            column, place = self._table.domain.columns[name], self._table.domain.names.index(name)
            if not column.on_a_line:
                continue
            values, cells = column.positions(self._table.records.columns[place]), self._merged(self._table, place)
            cells, values = cells[~np.isnan(values)], values[~np.isnan(values)]
            means = np.bincount(cells, values) / np.maximum(1, np.bincount(cells))
            spread = float(((values - values.sum() / max(1, len(values))) ** 2).sum())
            share = float(((values - means[cells]) ** 2).sum()) / max(spread, 1e-300)
            if share > _COARSE:
                numbers = {"column": name, "cells": len(np.unique(cells)), "share": round(share, 4)}
                codes.append(Code("coarse-column", numbers))
        return tuple(codes)

    def _merged(self, table: Released, place: int) -> Integers:
        """Return the merged cell of each record in a column: runs of about equal counts."""
        name, codes = table.domain.names[place], np.asarray(table.records.columns[place], dtype=np.int64)
        column, merged = table.domain.columns[name], self._several.released.merged_cells or {}
        shares = self._several.places(name)
        places = [(share, [merged[part] for part in columns if part in merged]) for share, columns in shares]
        if not any(counts for _, counts in places) or not column.on_a_line:
            return codes
        count = round(sum(share * min(counts, default=column.values or 0) for share, counts in places))
        counts = np.bincount(codes, minlength=column.size or 0)
        runs = (count * (np.cumsum(counts) - 0.5 * counts) / len(codes)).astype(np.int64)
        runs[column.values :] = count  # of nulls
        return np.asarray(runs[codes])


def _paired(table: Released, moved: int, share: float, order: Floats | Integers, strata: Integers) -> Released:
    """Return a table in which, within strata, a share of the records have one column's least values first in order."""
    rng, columns = seeded(0), list(table.records.columns)
    values = columns[moved]
    rows = np.flatnonzero(rng.random(len(values)) < share)
    targets = rows[np.lexsort((rng.random(len(rows)), order[rows], strata[rows]))]
    columns[moved] = values.copy()
    columns[moved][targets] = values[rows[np.lexsort((values[rows], strata[rows]))]]
    return replace(table, records=Records(columns=tuple(columns)))
