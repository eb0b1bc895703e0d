"""Slots of a unit's record: which units use them, and tables of those as if every unit did. All of it is public.

A table counts the units that use the slots of both of its columns. The model is of records that use all slots, of which
the rows that a unit does not have are left out in the end: columns depend on each other there as they do among those
that use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from discreet._core.arrays import Booleans, Floats, Integers
from discreet.mechanisms.latent_classes import Pair, centred

if TYPE_CHECKING:
    from discreet.mechanisms.chosen_tables import Merged, OneWay

_LEAST_USED = 1e-3  # share of the records


@dataclass(frozen=True, eq=False)
class SlotUse:
    """Which share of the records uses the slot of each column, by the released tables that say so."""

    slots: Integers | None  # of each column, 0 of a unit's own, -1 of those that say which are used; None without
    shares: Mapping[int, Floats]  # probabilities of the cells of the latter, by column
    used: Floats  # shape (columns,)
    together: dict[Pair, float] = field(default_factory=dict)  # share that uses both slots, where a table told

    @classmethod
    def from_tables(cls, slots: Integers | None, one_way: Sequence[OneWay], total: float) -> SlotUse:
        """Return what the one-way tables say."""
        if slots is None:
            return cls(None, {}, np.ones(len(one_way)))
        shares = {i: one_way[i].shares(total) for i in np.flatnonzero(slots < 0).tolist()}
        listed = list(shares.values())
        by_slot = np.array([share[1] for share in listed])
        if len(listed) == 1:  # of the number of rows, which may be 0
            by_slot = np.cumsum(listed[0][::-1])[::-1][-int(slots.max()) :]
        return cls(slots, shares, np.append(1.0, np.maximum(_LEAST_USED, by_slot))[np.maximum(slots, 0)])

    def completed(self, one_way: Sequence[OneWay]) -> list[OneWay]:
        """Return one-way tables as if every record used all slots."""
        return [
            replace(table, noisy=table.noisy / used, units=table.units * used**2)
            for table, used in zip(one_way, self.used.tolist(), strict=True)
        ]

    def independent(self, pair: Pair, shares: tuple[Floats, Floats], cells: Merged) -> Floats:
        """Return the table of independent columns of those that use both slots; ``cells``: of the first column."""
        used, possible = self._pair(*pair)
        rows = shares[0]
        if possible is not None:
            probabilities = self.shares[pair[0]] + 1e-12
            rows = rows * cells.sums(probabilities * possible) / cells.sums(probabilities)
        return np.asarray(used * np.outer(rows, shares[1]))

    def excess(
        self, pair: Pair, table: Floats, shares: tuple[Floats, Floats], cells: Merged, *, total: float = 1.0
    ) -> Floats:
        """Return by how much a table differs from that of independent columns, as if every record used both slots."""
        # Who uses one slot may differ in the other column from all who use that: the table's own margins are taken.
        used, possible = self._pair(*pair)
        if len(self.axes(pair)) == 2:
            return centred(table - total * self.independent(pair, shares, cells)) / used
        rows, columns = table.sum(axis=1), table.sum(axis=0)
        excess = table - np.outer(rows, columns) / max(float(rows.sum()), _LEAST_USED * total)
        if possible is not None:
            excess = excess * (cells.sums(possible.astype(np.float64)) > 0.0)[:, None]
        return np.asarray(excess / used)

    def share(self, pair: Pair) -> float:
        """Return about what share of the records that may use both slots does."""
        return self._pair(*pair)[0]

    def axes(self, pair: Pair) -> list[int]:
        """Return the columns of a pair, as 0 and 1, whose slot is used by all records that the table counts."""
        if self.slots is None:
            return [0, 1]
        i, j = self.slots[list(pair)].tolist()
        nested = i <= 0 or len(self.shares) == 1
        return [0, 1] if i == j or j <= 0 else [int(j > i)] * nested

    def _pair(self, i: int, j: int) -> tuple[float, Booleans | None]:
        """Return what share uses both slots, and which cells of the first column say that the second's is used."""
        if self.slots is None or self.slots[j] <= 0:
            return 1.0, None
        slot, later_slot = int(self.slots[i]), int(self.slots[j])
        if slot < 0 and len(self.shares) == 1:
            return 1.0, np.arange(-len(self.shares[i]), 0) >= later_slot - 1 - self.slots.max()
        if slot < 0 and list(self.shares).index(i) == later_slot - 1:
            return 1.0, np.array([False, True])
        if slot <= 0:
            return float(self.used[j]), None
        if slot == later_slot or len(self.shares) == 1:
            return float(min(self.used[i], self.used[j])), None
        return self.together.get((i, j), float(self.used[i] * self.used[j])), None

    def learn(self, pair: Pair, table: Floats, error: float) -> None:
        """Take from a measured table, in shares of all records with an error of their sum, who use both slots."""
        # before, they are taken for independent, give or take half of what else is possible
        if self.axes(pair):
            return
        used = self.used[list(pair)]
        product = float(used.prod())
        least, most = max(_LEAST_USED, float(used.sum()) - 1.0), float(used.min())
        spread = (0.5 * (most - least)) ** 2
        share = product + (float(table.sum()) - product) * spread / (spread + error**2 + 1e-12)
        self.together[pair] = min(max(share, least), most)
