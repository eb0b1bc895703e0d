"""Slots of a unit's record: which units use them, and what the tables of those who do are in a model. Public.

A table counts the units that use the slots of both of its columns. In the model, all units of a class use the same
slots, and a cell of absence stands for a slot that is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.arrays import Booleans, Floats, Integers
from discreet.mechanisms.latent_classes import LEAST_SHARE, Merged, Pair
from discreet.mechanisms.reading import nearest_probabilities

if TYPE_CHECKING:
    from discreet.mechanisms.chosen_tables import OneWay

_LEAST_USED = 1e-3  # share of the records
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class SlotUse:
    """Which share of the records uses the slot of each column, by the released tables that say so."""

    slots: Integers  # of each column, 0 of a unit's own, -1 of those that say which are used
    shares: Mapping[int, Floats]  # probabilities of the cells of the latter, by column
    used: Floats  # shape (columns,)
    together: dict[Pair, tuple[float, float]] = field(default_factory=dict)  # share that uses two slots, its variance

    @classmethod
    def from_tables(cls, slots: Integers | None, one_way: Sequence[OneWay], total: float) -> SlotUse:
        """Return what the one-way tables say."""
        if slots is None:
            return cls(np.zeros(len(one_way), dtype=np.int64), {}, np.ones(len(one_way)))
        shares = {i: one_way[i].shares(total) for i in np.flatnonzero(slots < 0).tolist()}
        listed = list(shares.values())
        by_slot = np.cumsum(listed[0][::-1])[::-1] if len(listed) == 1 else np.array([share[1] for share in listed])
        return cls(slots, shares, np.append(1.0, np.maximum(_LEAST_USED, by_slot))[np.maximum(slots, 0)])

    def completed(self, one_way: Sequence[OneWay]) -> list[OneWay]:
        """Return one-way tables as if every record used their slots."""
        return [
            replace(table, noisy=table.noisy / used, units=table.units * used**2)
            for table, used in zip(one_way, self.used.tolist(), strict=True)
        ]

    def share(self, pair: Pair) -> float:
        """Return about what share of the records uses both slots."""
        first, second = self.slots[list(pair)]
        nested = first <= 0 or first == second or self._nested
        return float(self.used[list(pair)].min()) if nested else self._together(pair)[0]

    def learn(self, pair: Pair, table: Floats, error: float) -> None:
        """Take from a measured table, in shares of all records with an error of their sum, who use both slots."""
        first, second = self.slots[list(pair)].tolist()
        if 0 < first < second and not self._nested:
            share, spread = self._together(pair)
            kept = spread / (spread + error**2 + 1e-12)
            self.together[first, second] = share + kept * (float(table.sum()) - share), (1.0 - kept) * spread

    def _together(self, pair: Pair) -> tuple[float, float]:
        """Return the share of a panel's records that use two slots, and its variance."""
        # before a table tells, they are taken for independent, give or take half of what else is possible
        first, second = self.used[list(pair)].tolist()
        least, most = max(_LEAST_USED, first + second - 1.0), min(first, second)
        before = first * second, (0.5 * (most - least)) ** 2
        share, spread = self.together.get((int(self.slots[pair[0]]), int(self.slots[pair[1]])), before)
        return min(max(share, least), most), spread

    def margins(
        self, coarse: Sequence[Floats], cells: Sequence[Merged], tables: Mapping[Pair, Any], noise: float
    ) -> dict[Pair, tuple[Floats, Floats]]:
        """Return the probabilities of merged cells of all pairs of columns, among those who use both slots.

        ``coarse``: of columns, among those who use their slots. ``tables``: of measured ones, variances of noise of
        scale 1, and shares. ``noise``: of one unit, as a share.
        """
        # All tables with a column of a slot tell of those who use it. Their mean is shrunk to those who use the slot
        # before, or, of a panel, to all, by how much of its square is noise.
        margins = {(i, slot): column for i, column in enumerate(coarse) for slot in (-1, 0)}
        for (i, column), slot in product(enumerate(coarse), range(1, self.slots.max() + 1)):
            near, first = column, int(np.flatnonzero(self.slots == slot)[0])
            if self._nested:
                near = margins[i, slot - 1]
            used = self.share((min(i, first), max(i, first)))
            if (says := self._says(i, slot)) is not None:
                near = self.shares[i] * says + 1e-12
            elif used < self.used[i] - _LEAST:
                sums, weights = np.zeros_like(near), np.zeros_like(near)
                for pair, (variances, shares) in tables.items():
                    other = pair[i == pair[0]]
                    says = self._says(other, slot)
                    if i in pair and (self.slots[other] == slot or says is not None):
                        part = np.ones(cells[other].count) if says is None else says
                        turned = [table if i == pair[0] else table.T for table in (variances, shares)]
                        weight = used**2 / (turned[0] @ part)
                        sums, weights = sums + turned[1] @ part / used * weight, weights + weight
                if weights.all():
                    moved = sums / weights - near
                    kept = max(0.0, 1.0 - noise**2 * float((1.0 / weights).sum()) / float(moved @ moved))
                    near = nearest_probabilities(near + kept * moved) + LEAST_SHARE * near
            margins[i, slot] = near / near.sum()
        slots, pairs = self.slots.tolist(), combinations(range(len(coarse)), 2)
        return {(i, j): (margins[i, slots[j]], margins[j, slots[i]]) for i, j in pairs}

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
        by_slot = [self.used[self.slots == slot][0] for slot in range(1, self.slots.max() + 1)]
        uses = rng.random((classes, 1 if self._nested else len(by_slot))) < by_slot
        uses[~uses.any(axis=1)] = True
        parts = [np.ones((len(column), classes), dtype=bool) for column in columns]
        for (i, column), slot in product(enumerate(columns), range(1, len(by_slot) + 1)):
            says = self._says(i, slot)
            if self.slots[i] == slot and self.used[i] < 1.0 - _LEAST:
                says = np.arange(len(column)) < len(column) - 1
            if says is not None:
                parts[i] &= says[:, None] == uses[:, slot - 1]
        return np.concatenate(parts)

    def alike(self, pairs: Sequence[Pair]) -> Floats | float:
        """Return of each table how many rows, or pairs of rows, a record has that tables of its kind count."""
        if not self._nested:
            return 1.0
        slots = np.maximum(self.slots, 0)
        place = np.arange(len(slots)) - np.maximum(slots - 1, 0) * int((slots == 1).sum())  # that in the first slot
        kinds = [(place[i], place[j], slots[i] == slots[j]) for i, j in pairs]
        sums = dict.fromkeys(kinds, 0.0)
        for kind, pair in zip(kinds, pairs, strict=True):
            sums[kind] += self.share(pair)
        return np.array([sums[kind] for kind in kinds])

    @property
    def _nested(self) -> bool:
        """Whether those who use a slot use all before."""
        return len(self.shares) == 1

    def _says(self, i: int, slot: int) -> Booleans | None:
        """Return which cells of a column say that a slot is used; None where they do not say it."""
        if i not in self.shares:
            return None
        if self._nested:
            return np.arange(len(self.shares[i])) >= slot - 1
        return np.array([False, True]) if list(self.shares).index(i) == slot - 1 else None
