"""Slots of a unit's record: which units use them, and what the tables of those who use both slots are in a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.numeric import Booleans, Floats, Integers
from discreet.mechanisms.latent_classes import LEAST_SHARE, Merged, Pair, PairTable, fitted
from discreet.mechanisms.reading import nearest_probabilities

if TYPE_CHECKING:
    from discreet.mechanisms.chosen_tables import OneWay
    from discreet.mechanisms.measured_tables import MeasuredTables
    from discreet.mechanisms.wide_facts import WideFacts

_LEAST_USED = 1e-3  # share of the records
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class SlotUse:
    """Which share of the records uses the slot of each column, by the released tables that say so."""

    slots: Integers  # of each column in its table, 0 of a unit's own, -1 of those that say which are used
    shares: Mapping[int, Floats]  # probabilities of the cells of the latter, by column
    used: Floats  # shape (columns,)
    optional: bool = False  # whether a unit may have no row
    together: dict[Pair, tuple[float, float]] = field(default_factory=dict)  # share that uses two slots, its variance

    @classmethod
    def from_tables(cls, facts: WideFacts, one_way: list[OneWay], total: float) -> tuple[SlotUse, list[OneWay]]:
        """Return what the one-way tables say, and these as if every record used their slots."""
        if (slots := facts.domain.slots) is None:
            return cls(np.zeros(len(one_way), dtype=np.int64), {}, np.ones(len(one_way))), one_way
        shares = {i: one_way[i].shares(total) for i in np.flatnonzero(slots < 0).tolist()}
        use = cls(slots, shares, np.ones(len(slots)), optional=facts.domain.units is not None)
        for start in use.starts.tolist():
            part = use.tables == use.tables[start]
            listed, slot = [shares[i] for i in np.flatnonzero(part & (slots < 0)).tolist()], slots[start] - 1
            by_slot = np.array([share[1] for share in listed])
            if len(listed) == 1:  # of the number of rows, which may be 0
                by_slot = np.cumsum(listed[0][::-1])[::-1][-int(slots[part].max()) :]
            use.used[part & (slots == slots[start])] = max(_LEAST_USED, by_slot[slot])
        used = use.used
        whole = [
            replace(table, noisy=table.noisy / share, units=table.units * share**2)
            for table, share in zip(one_way, used.tolist(), strict=True)
        ]
        return use, whole

    @cached_property
    def tables(self) -> Integers:
        """The table of rows of each column, from 1 on; 0 of a unit's own."""
        return np.cumsum((self.slots < 0) & (np.append(0, self.slots[:-1]) >= 0))

    @cached_property
    def nested(self) -> list[bool]:
        """Of each table of rows, from 1 on, whether those who use a slot use all before."""
        return (np.bincount(self.tables, self.slots < 0) == 1).tolist()  # type: ignore[no-any-return]

    @property
    def panel(self) -> bool:
        """Whether a table of rows is a panel."""
        return bool(self.shares) and not all(self.nested[1:])

    @cached_property
    def starts(self) -> Integers:
        """The first column of each slot."""
        return np.flatnonzero((self.slots > 0) & (np.diff(self.slots, prepend=0) != 0))

    @cached_property
    def start(self) -> list[int]:
        """The first column of the slot of each column; -1 of those of no slot."""
        places = np.searchsorted(self.starts, np.arange(len(self.slots)), side="right")
        return np.where(self.slots > 0, np.append(-1, self.starts)[places], -1).tolist()  # type: ignore[no-any-return]

    def _one_use(self, pair: Pair) -> bool:
        """Return whether those who use the one slot are among those who use the other."""
        i, j = pair
        table = self.tables[i] if self.tables[i] == self.tables[j] else 0
        return min(self.slots[i], self.slots[j]) <= 0 or self.start[i] == self.start[j] or self.nested[table]

    def share(self, pair: Pair) -> float:
        """Return about what share of the records uses both slots."""
        if self._one_use(pair):
            return float(self.used[list(pair)].min())
        return self._together(self.start[pair[0]], self.start[pair[1]])[0]

    def learn(self, pair: Pair, table: Floats, error: float) -> None:
        """Take from a measured table, in shares of all records with an error of their sum, who use both slots."""
        i, j = pair
        sums = [] if self._one_use(pair) else [((self.start[i], self.start[j]), float(table.sum()))]
        if 0 < self.tables[i] < self.tables[j] and min(self.slots[i], self.slots[j]) < 0:
            sides = [
                [(start, says) for start in self.starts.tolist() if (says := self._says(k, start)) is not None]
                or [(self.start[k], np.ones(size, dtype=np.bool_))]
                for k, size in zip(pair, table.shape, strict=True)
            ]
            sums = [((a, b), float(x @ table @ y)) for (a, x), (b, y) in product(*sides)]
        for (a, b), sum_of_both in sums:
            share, spread = self._together(a, b)
            weight = spread / (spread + error**2 + 1e-12)
            self.together[a, b] = share + weight * (sum_of_both - share), (1.0 - weight) * spread

    def _together(self, i: int, j: int) -> tuple[float, float]:
        """Return the share of the records that use two slots, by their first columns, and its variance."""
        # unless a table told, they are taken for independent, give or take half of what else is possible
        a, b = self.used[[i, j]].tolist()
        least, most = max(_LEAST_USED, a + b - 1.0), min(a, b)
        independent = a * b, (0.5 * (most - least)) ** 2
        share, spread = self.together.get((i, j), independent)
        return min(max(share, least), most), spread

    def margins(
        self, coarse: Sequence[Floats], cells: Sequence[Merged], tables: Mapping[Pair, Any], noise: float
    ) -> dict[Pair, tuple[Floats, Floats]]:
        """Return the probabilities of merged cells of all pairs of columns, among those who use both slots."""
        # The mean of all tables with a column of a slot is shrunk to those who use the slot before, or, of a panel, to
        # all, by how much of its square is noise. tables: variances of noise of scale 1, and shares.
        margins = {(i, -1): column for i, column in enumerate(coarse)}
        for (i, column), start in product(enumerate(coarse), self.starts.tolist()):
            mean = margins[i, self.start[start - 1]] if self.nested[self.tables[start]] else column
            used = self.share((min(i, start), max(i, start)))
            if (says := self._says(i, start)) is not None:
                mean = self.shares[i] * says + 1e-12
            elif used < self.used[i] - _LEAST:
                sums, weights = np.zeros_like(mean), np.zeros_like(mean)
                for pair in [pair for pair in tables if i in pair]:
                    j = sum(pair) - i
                    says = self._says(j, start)
                    if self.start[j] == start:
                        says = np.ones(cells[j].count, dtype=bool)
                    if says is not None:
                        variances, shares = [np.moveaxis(table, pair.index(i), 0) @ says for table in tables[pair]]
                        sums, weights = sums + shares * used / variances, weights + used**2 / variances
                if weights.all():
                    moved = sums / weights - mean
                    weight = max(0.0, 1.0 - noise**2 * float((1.0 / weights).sum()) / float(moved @ moved))
                    mean = nearest_probabilities(mean + weight * moved) + LEAST_SHARE * mean
            margins[i, start] = mean / mean.sum()
        pairs = combinations(range(len(coarse)), 2)
        return {(i, j): (margins[i, self.start[j]], margins[j, self.start[i]]) for i, j in pairs}

    def classes(
        self, measured: MeasuredTables, targets: Mapping[Pair, Floats], rng: np.random.Generator
    ) -> tuple[Floats, list[Floats]]:
        """Return the shares of classes, and the probabilities of merged cells in each: about 0 of slots not used."""
        # A column has a cell of absence where not all use its slot, and a table the records that it does not count.
        columns, total = list(measured.coarse), measured.total
        for i in np.flatnonzero(self.used < 1.0 - _LEAST).tolist():
            columns[i] = np.append(self.used[i] * columns[i], 1.0 - self.used[i])
        goal, noisy, weights = dict[Pair, Floats](), dict[Pair, Floats](), dict[Pair, Floats]()
        for (i, j), target in targets.items():
            share, (a, b) = self.share((i, j)), target.shape
            space = [(0, len(columns[i]) - a), (0, len(columns[j]) - b)]
            goal[i, j] = whole = np.pad(share * target, space)
            whole[:a, b:] = np.maximum(0.0, columns[i][:a] - whole.sum(axis=1)[:a])[:, None]
            whole[a:, :b] = np.maximum(0.0, columns[j][:b] - whole.sum(axis=0)[:b])
            whole[a:, b:] = max(0.0, 1.0 - float(whole.sum()))
            if not measured.posterior:
                table, independent = measured.excess[i, j], np.outer(*measured.margins[i, j])
                noisy[i, j] = np.pad(share * (independent + table.excess / total), space)
                weights[i, j] = np.pad((total / (share * table.error)) ** 2, space)
        possible = partial(self.possible, columns, rng=rng) if self.shares else None
        shares, inside = fitted(columns, goal, noisy, weights, rng=rng, possible=possible)
        return shares, [cells[: len(column)] + 1e-200 for cells, column in zip(inside, measured.coarse, strict=True)]

    def possible(self, columns: Sequence[Floats], classes: int, rng: np.random.Generator) -> Booleans:
        """Return which cells, of columns with absence one after the other, each class has: it uses the same slots."""
        uses = dict[int, Booleans]()
        for table, nested in list(enumerate(self.nested))[1:]:
            starts = self.starts[self.tables[self.starts] == table]
            part = rng.random((classes, 1 if nested else len(starts))) < self.used[starts]
            if not nested and not self.optional:
                part[~part.any(axis=1)] = True
            uses |= dict(zip(starts.tolist(), part.T, strict=True))
        parts = [np.ones((len(column), classes), dtype=bool) for column in columns]
        for (i, column), start in product(enumerate(columns), uses):
            says = self._says(i, start)
            if self.start[i] == start and self.used[i] < 1.0 - _LEAST:
                says = np.arange(len(column)) < len(column) - 1
            if says is not None:
                parts[i] &= says[:, None] == uses[start]
        return np.concatenate(parts)

    @cached_property
    def _first(self) -> Integers:
        """The column of the first slot of each column of a later one; others are themselves."""
        widths = np.bincount(self.tables, self.slots == 1).astype(np.int64)[self.tables]
        return np.asarray(np.arange(len(self.slots)) - np.maximum(self.slots - 1, 0) * widths)

    def _kind(self, i: int, j: int) -> tuple[Any, ...]:
        """Return what tables of the same columns of rows have in common, of a panel as many slots apart."""
        (a, b), table = np.maximum(self.slots[[i, j]], 0).tolist(), self.tables[i]
        distance = a == b if self.nested[table] else b - a if a else 0
        return self._first[i], self._first[j], distance if table == self.tables[j] else 0

    def correlated(
        self, tables: Mapping[Pair, Floats], excess: Mapping[Pair, PairTable], values: Sequence[Floats],
        margins: Mapping[Pair, tuple[Floats, Floats]], total: float,
    ) -> dict[Pair, Floats]:  # fmt: skip
        """Return a panel's tables of excess counts with less noise, whose correlations are those of their kind."""
        # Tables of one kind have the same columns, as many slots apart. Their correlations are shrunk to the mean of
        # the kind by how much of their variance is noise, and this mean to 0. In a table alone they are shrunk to 0.
        kinds, corrected = dict[Any, list[Any]](), dict(tables)
        for (i, j), table in excess.items():
            in_rows = self.panel and min(self.slots[[i, j]]) >= 0
            if not in_rows or max(np.linalg.matrix_rank(values[k]) for k in (i, j)) > 1:
                continue
            sides = []
            for k, share in zip((i, j), margins[i, j], strict=True):
                score = values[k][0] - values[k][0] @ share
                sides.append(score / np.sqrt(score**2 @ share + _LEAST))
            weights = np.outer(*sides) / total
            told = (weights * table.excess).sum(), ((weights * table.error) ** 2).sum()
            kinds.setdefault(self._kind(i, j), []).append(((i, j), weights, told))
        for kind_tables in kinds.values():
            found, noise = np.array([table[2] for table in kind_tables]).T
            mean = float((found / noise).sum() / (1.0 / noise).sum())
            spread = max(0.0, float(((found - mean) ** 2 - noise).mean()))
            clear = max(0.0, 1.0 - 1.0 / (mean**2 * float((1.0 / noise).sum()) + _LEAST))
            wanted = clear * mean + (found - mean) * spread / (spread + noise)
            for (pair, weights, _), correlation in zip(kind_tables, wanted.tolist(), strict=True):
                moved = total**2 * weights * np.outer(*margins[pair])
                corrected[pair] = tables[pair] + (correlation - float((weights * tables[pair]).sum())) * moved
        return corrected

    def alike(self, pairs: Sequence[Pair]) -> Floats | float:
        """Return of each table how many rows, or pairs of rows, a record has that tables of its kind count."""
        if not self.shares:
            return 1.0
        kinds = [self._kind(i, j) for i, j in pairs]
        sums = dict.fromkeys(kinds, 0.0)
        for kind, pair in zip(kinds, pairs, strict=True):
            sums[kind] += self.share(pair)
        return np.array([sums[kind] for kind in kinds])

    def _says(self, i: int, start: int) -> Booleans | None:
        """Return which cells of a column say that a slot is used, by its first column; None where they do not."""
        table, slot = self.tables[start], self.slots[start]
        if i not in self.shares or self.tables[i] != table:
            return None
        if self.nested[table]:
            return np.arange(-len(self.shares[i]), 0) >= int(slot - 1 - self.slots[self.tables == table].max())
        return np.array([False, True]) if i - int(np.argmax(self.tables == table)) == slot - 1 else None
