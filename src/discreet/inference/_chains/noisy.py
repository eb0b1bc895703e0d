"""Chains over counts to which noise was added, level by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, Indices, Integers
from discreet.inference._chains.model import Model, Pairs, apportion
from discreet.inference._chains.noise import Noise

__all__ = ["Noisy", "NoisyCounts"]

Noisy = Sequence[npt.NDArray[Any]]
"""Noisy counts, level by level."""


class NoisyCounts(Model):
    """Noise was added to the counts of sets of cells, level by level; the noisy counts are known.

    ``alpha``, ``records``: as in :class:`Model`.
    ``levels``, shape (k,): for each level, from the coarsest, the set that each cell belongs to. Every set lies in one
    set of the level before; the last level has one set per cell. One level alone is a plain histogram.
    ``noise``: the law of the noise.
    ``noisy``: the noisy counts of the levels' sets; or rows of them, one per chain, for several releases side by side.
    """

    noisy: list[npt.NDArray[Any]]
    """The noisy counts of each level, one row per chain."""

    def __init__(
        self,
        alpha: Floats,
        records: int,
        levels: Sequence[Indices],
        noise: Noise,
        noisy: Sequence[npt.NDArray[Any]] | None,
    ) -> None:
        super().__init__(alpha, records)
        self._levels, self._noise, self._given = [np.asarray(level) for level in levels], noise, noisy
        self._sizes = [int(level.max()) + 1 for level in self._levels]
        self._cell_of = np.argsort(self._levels[-1])  # of the last level's sets, one per cell
        self._parents = [
            np.zeros(size, dtype=np.intp) if t == 0 else _first_of(self._levels[t], self._levels[t - 1], size)
            for t, size in enumerate(self._sizes)
        ]

    def start(self, chains: int, rng: np.random.Generator) -> None:
        """Begin at the noisy counts of the cells, with fresh noise taken off."""
        assert self._given is not None
        self.noisy = [np.broadcast_to(np.asarray(y), (chains, np.shape(y)[-1])) for y in self._given]
        leaves = self.noisy[-1][:, self._levels[-1]]
        self.counts = apportion(np.maximum(leaves - self._noise.draw(leaves.shape, rng), 0.0), self.records)

    def sweep(self, rng: np.random.Generator, *, tune: bool) -> None:
        """Move records between the sets of each level, the noisy counts staying as they are."""
        self._centred(rng)
        if len(self._levels) == 1:
            self._centred(rng)

    def _centred(self, rng: np.random.Generator) -> None:
        for level in range(len(self._levels)):
            between = self._reach(level) if self._noise.bounded else None
            self._keep(*self._transfer(self._across(level, rng), self._noise_term(level), rng, between), rng)

    def _keep(self, them: Pairs, moved: Integers, rng: np.random.Generator) -> None:
        self.counts[them.chain, them.a] = moved
        self.counts[them.chain, them.b] = them.total - moved

    def _across(self, level: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """Pair the sets of a level that lie in the same set of the level before; return a random cell of each."""
        if len(self._levels) == 1:
            return self._matching(rng)
        shuffled = rng.permutation(self.cells)
        cell = np.empty(self._sizes[level], dtype=np.intp)
        cell[self._levels[level][shuffled]] = shuffled  # the last of each set in a random order
        order = rng.permutation(self._sizes[level])
        order = order[np.argsort(self._parents[level][order], kind="stable")]
        parent = self._parents[level][order]
        first = np.searchsorted(parent, parent)  # where each family begins
        even = (np.arange(len(order)) - first) % 2 == 0
        lead = np.flatnonzero(even[:-1] & (parent[:-1] == parent[1:]))
        return cell[order[lead]], cell[order[lead + 1]]

    def _noise_term(self, level: int) -> Callable[[Pairs, Indices, Integers], Floats]:
        residual = [y - self._sums(t, self.counts) for t, y in enumerate(self.noisy)]  # the noise now

        def log_term(them: Pairs, which: Indices, c: Integers) -> Floats:
            chain, gain = them.chain[which], c - them.first[which]
            total = np.zeros(len(which))
            for t in range(level, len(self._levels)):
                node_a, node_b = self._levels[t][them.a[which]], self._levels[t][them.b[which]]
                total += self._noise.log_pmf(residual[t][chain, node_a] - gain)
                total += self._noise.log_pmf(residual[t][chain, node_b] + gain)
            return total

        return log_term

    def _reach(self, level: int) -> Callable[[Pairs], tuple[Integers, Integers]]:
        """Return where the first cell's count can be: near where one of the noises would be zero."""
        reach = self._noise.reach

        def between(them: Pairs) -> tuple[Integers, Integers]:
            gains = []
            for t in range(level, len(self._levels)):
                sums = self._sums(t, self.counts)
                node_a, node_b = self._levels[t][them.a], self._levels[t][them.b]
                gains.append((self.noisy[t][them.chain, node_a] - sums[them.chain, node_a]).astype(np.float64))
                gains.append((sums[them.chain, node_b] - self.noisy[t][them.chain, node_b]).astype(np.float64))
            low, high = np.min(gains, axis=0) + them.first, np.max(gains, axis=0) + them.first
            least = np.clip(np.floor(low), 0, them.total) - reach
            most = np.clip(np.ceil(high), 0, them.total) + reach
            return np.maximum(least, 0).astype(np.int64), np.minimum(most, them.total).astype(np.int64)

        return between

    def _sums(self, level: int, counts: Integers) -> Integers:
        """Return the counts of a level's sets."""
        if self._sizes[level] == self.cells:  # one set per cell
            out = np.empty_like(counts)
            out[:, self._levels[level]] = counts
            return out
        order = np.argsort(self._levels[level], kind="stable")
        starts = np.searchsorted(self._levels[level][order], np.arange(self._sizes[level]))
        return np.asarray(np.add.reduceat(counts[:, order], starts, axis=1))


def _first_of(level: Indices, above: Indices, size: int) -> Indices:
    parent = np.empty(size, dtype=np.intp)
    parent[level] = above
    return parent
