"""Slots of a unit's record: which units use them, and tables of those as if every unit did. All of it is public.

A table counts the units that use the slots of both of its columns. The model is of records that use all slots, of which
the rows that a unit does not have are left out in the end: columns depend on each other there as they do among those
that use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from discreet._core.arrays import Booleans, Floats, Integers
from discreet.mechanisms.latent_classes import LEAST_SHARE, Merged, Pair, centred
from discreet.mechanisms.reading import nearest_probabilities

if TYPE_CHECKING:
    from discreet.mechanisms.chosen_tables import OneWay

_LEAST_USED = 1e-3  # share of the records
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class SlotUse:
    """Which share of the records uses the slot of each column, by the released tables that say so."""

    slots: Integers | None  # of each column, 0 of a unit's own, -1 of those that say which are used; None without
    shares: Mapping[int, Floats]  # probabilities of the cells of the latter, by column
    used: Floats  # shape (columns,)
    together: dict[Pair, tuple[float, float]] = field(default_factory=dict)  # share that uses two slots, its variance

    @classmethod
    def from_tables(cls, slots: Integers | None, one_way: Sequence[OneWay], total: float) -> SlotUse:
        """Return what the one-way tables say."""
        if slots is None:
            return cls(None, {}, np.ones(len(one_way)))
        shares = {i: one_way[i].shares(total) for i in np.flatnonzero(slots < 0).tolist()}
        listed = list(shares.values())
        by_slot = np.cumsum(listed[0][::-1])[::-1] if len(listed) == 1 else np.array([share[1] for share in listed])
        return cls(slots, shares, np.append(1.0, np.maximum(_LEAST_USED, by_slot))[np.maximum(slots, 0)])

    def completed(self, one_way: Sequence[OneWay]) -> list[OneWay]:
        """Return one-way tables as if every record used all slots."""
        return [
            replace(table, noisy=table.noisy / used, units=table.units * used**2)
            for table, used in zip(one_way, self.used.tolist(), strict=True)
        ]

    def independent(self, pair: Pair, margins: tuple[Floats, Floats]) -> Floats:
        """Return the table of independent columns of those that use both slots, whose probabilities are given."""
        return np.asarray(self.share(pair) * np.outer(*margins))

    def excess(
        self, pair: Pair, table: Floats, margins: tuple[Floats, Floats], cells: Merged, *, total: float = 1.0
    ) -> Floats:
        """Return by how much a table of those that use both slots differs from that of independent columns."""
        excess = centred(table / self.share(pair) - total * np.outer(*margins))
        says = self._says(pair[0], self._slot(pair[1]))
        return excess if says is None else excess * (cells.sums(says.astype(np.float64)) > 0.0)[:, None]

    def share(self, pair: Pair) -> float:
        """Return about what share of the records uses both slots."""
        first, second = [self._slot(i) for i in pair]
        nested = first <= 0 or first == second or self._nested
        return float(self.used[list(pair)].min()) if nested else self._together(first, second)[0]

    def axes(self, pair: Pair) -> list[int]:
        """Return the columns of a pair, as 0 and 1, whose slot is used by all records that the table counts."""
        return [axis for axis, i in enumerate(pair) if self.share(pair) > self.used[i] - _LEAST]

    def learn(self, pair: Pair, table: Floats, error: float) -> None:
        """Take from a measured table, in shares of all records with an error of their sum, who use both slots."""
        # before, they are taken for independent, give or take half of what else is possible
        first, second = [self._slot(i) for i in pair]
        if 0 < first < second and not self._nested:
            share, spread = self._together(first, second)
            kept = spread / (spread + error**2 + 1e-12)
            self.together[first, second] = share + kept * (float(table.sum()) - share), (1.0 - kept) * spread

    def _together(self, first: int, second: int) -> tuple[float, float]:
        """Return the share of a panel's records that use two slots, and its variance."""
        used = [share[1] for share in self.shares.values()]
        a, b = used[first - 1], used[second - 1]
        least, most = max(_LEAST_USED, a + b - 1.0), max(_LEAST_USED, min(a, b))
        share, spread = self.together.get((first, second), (a * b, (0.5 * (most - least)) ** 2))
        return min(max(share, least), most), spread

    def margins(
        self,
        coarse: Sequence[Floats],
        tables: Mapping[Pair, tuple[Floats, Floats]],
        cells: Sequence[Merged],
        noise: float,
    ) -> dict[tuple[int, int], Floats]:
        """Return the probabilities of columns' merged cells among those who use a slot, by column and slot.

        ``tables``: of measured ones, variances of noise of scale 1, and shares. ``noise``: of one unit, as a share.
        """
        # All tables with a column of the slot tell of it. Their mean is shrunk to those who use the slot before, or,
        # of a panel, to all, by how much of its square is noise.
        margins: dict[tuple[int, int], Floats] = {}
        for i, slot in product(range(len(coarse)), self._numbers):
            near = margins.get((i, slot - 1), coarse[i]) if self._nested else coarse[i]
            pair = min(i, self._column(slot)), max(i, self._column(slot))
            if (says := self._says(i, slot)) is not None:
                near = cells[i].sums(self.shares[i] * says) + 1e-12
            elif self.share(pair) < self.used[i] - _LEAST:
                sums, weights = np.zeros_like(near), np.zeros_like(near)
                for (first, second), (variances, shares) in tables.items():
                    if i not in (first, second):
                        continue
                    other, axis = (second, 1) if i == first else (first, 0)
                    says = self._says(other, slot)
                    if self._slot(other) == slot or says is not None:
                        part = np.ones(cells[other].count) if says is None else says
                        weight = self.share(pair) ** 2 / (np.moveaxis(variances, axis, 1) @ part)
                        sums += np.moveaxis(shares, axis, 1) @ part / self.share(pair) * weight
                        weights += weight
                if weights.all():
                    moved = sums / weights - near
                    kept = max(0.0, 1.0 - noise**2 * float((1.0 / weights).sum()) / float(moved @ moved))
                    near = nearest_probabilities(near + kept * moved) + LEAST_SHARE * near
            margins[i, slot] = near / near.sum()
        return margins

    def margins_of(
        self, pair: Pair, coarse: Sequence[Floats], margins: Mapping[tuple[int, int], Floats]
    ) -> tuple[Floats, Floats]:
        """Return the probabilities of two columns among those who use the slots of both."""
        i, j = pair
        return margins.get((i, self._slot(j)), coarse[i]), margins.get((j, self._slot(i)), coarse[j])

    def with_absence(self, columns: Sequence[Floats]) -> list[Floats]:
        """Return the probabilities of columns with a cell of those that do not use its slot, where there are any."""
        used = zip(columns, self.used.tolist(), strict=True)
        return [np.append(share * column, 1.0 - share) if share < 1.0 - _LEAST else column for column, share in used]

    def whole(self, pair: Pair, table: Floats, columns: Sequence[Floats]) -> Floats:
        """Return a table of those that use both slots with cells of the others; ``columns``: with absence."""
        (rows, others), (a, b) = [columns[i] for i in pair], table.shape
        whole = np.pad(self.share(pair) * table, [(0, len(rows) - a), (0, len(others) - b)])
        whole[:a, b:] = np.maximum(0.0, rows[:a] - whole.sum(axis=1)[:a])[:, None]
        whole[a:, :b] = np.maximum(0.0, others[:b] - whole.sum(axis=0)[:b])
        whole[a:, b:] = max(0.0, 1.0 - float(whole.sum()))
        return whole

    def possible(self, columns: Sequence[Floats], classes: int, rng: np.random.Generator) -> Booleans:
        """Return which cells, of columns with absence one after the other, each class has: it uses the same slots."""
        if self._nested:
            ends = np.cumsum([np.sqrt(share) for share in self.shares.values()])
            rows = np.searchsorted(ends / ends[-1], (np.arange(classes) + 0.5) / classes)
            uses = rows[:, None] >= np.arange(len(ends))
        else:
            uses = rng.random((classes, len(self.shares))) < [share[1] for share in self.shares.values()]
            uses[~uses.any(axis=1)] = True
        parts = [np.ones((len(column), classes), dtype=bool) for column in columns]
        for (i, column), slot in product(enumerate(columns), self._numbers):
            says = self._says(i, slot)
            if self._slot(i) == slot and self.used[i] < 1.0 - _LEAST:
                says = np.arange(len(column)) < len(column) - 1
            if says is not None:
                parts[i] &= says[:, None] == uses[:, slot - 1]
        return np.concatenate(parts)

    @property
    def _nested(self) -> bool:
        """Whether those who use a slot use all before."""
        return len(self.shares) == 1

    @property
    def _numbers(self) -> range:
        return range(1, 1 if self.slots is None else int(self.slots.max()) + 1)

    def _column(self, slot: int) -> int:
        """Return the first column of a slot."""
        return int(np.flatnonzero(self.slots == slot)[0])

    def _slot(self, i: int) -> int:
        return 0 if self.slots is None else int(self.slots[i])

    def _says(self, i: int, slot: int) -> Booleans | None:
        """Return which cells of a column say that a slot is used; None where they do not say it."""
        if slot <= 0 or i not in self.shares:
            return None
        if self._nested:
            return np.arange(len(self.shares[i])) >= slot - 1
        return np.array([False, True]) if list(self.shares).index(i) == slot - 1 else None
