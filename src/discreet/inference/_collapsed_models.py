"""What a release says about the counts of cells, as Markov chains over the counts: many chains side by side.

Every model has the Dirichlet-multinomial prior of the counts ``C`` of ``k`` cells with a known sum ``n``. A sweep takes
a time that depends on the number of cells and chains, never on ``n``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.inference._collapsed_noise import Noise
from discreet.inference._collapsed_pairs import CellPrior, Floats, Integers, move

__all__ = ["Indices", "LogWeight", "Model", "Noisy", "NoisyCounts", "Pairs", "WeightedCounts", "apportion"]

Indices = npt.NDArray[np.intp]

Noisy = Sequence[npt.NDArray[Any]]
"""Noisy counts, level by level."""


def apportion(weights: Floats, total: int | Integers) -> Integers:
    """Return rows of whole numbers nearest to non-negative weights, by largest remainders; ``total``: their sums."""
    sums = weights.sum(axis=1, keepdims=True)
    shares = np.where(sums > 0, weights / np.where(sums > 0, sums, 1.0), 1.0 / weights.shape[1])
    exact = total * shares
    whole = np.floor(exact).astype(np.int64)
    order = np.argsort(whole - exact, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(weights.shape[1]), order.shape), axis=1)
    short = total - whole.sum(axis=1, keepdims=True)
    return np.asarray(whole + (rank < short))


class Model(ABC):
    """Chains over the counts of cells.

    Parameters
    ----------
    alpha : ndarray of float64, shape (k,)
        Prior masses of the cells, strength times base measure.
    records : int
        The public number of records, ``n``.
    """

    counts: Integers
    """The present counts, one row a chain."""
    approximation: str = ""
    """What the model takes for granted that is not so, in words; empty where it is exact."""

    def __init__(self, alpha: Floats, records: int) -> None:
        self.alpha, self.records = alpha, records
        self._prior = CellPrior(alpha)
        self._room = np.clip(1.0 / alpha, 0.5, 50.0)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.alpha)

    @abstractmethod
    def start(self, chains: int, rng: np.random.Generator) -> None:
        """Begin the chains, more dispersed than the posterior where that is easy."""

    @abstractmethod
    def sweep(self, rng: np.random.Generator, *, tune: bool) -> None:
        """Move all chains once through everything; ``tune`` lets the sizes of the steps change."""

    def masses(self, rng: np.random.Generator) -> Floats:
        """Draw the cells' probabilities given the counts, one row a chain: ``Dirichlet(alpha + C)``."""
        gammas = rng.standard_gamma(self.alpha + self.counts)
        return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))

    def _prior_counts(self, weights: Floats, chains: int, rng: np.random.Generator) -> Integers:
        """Draw counts from the Dirichlet-multinomial law with these masses."""
        gammas = np.maximum(rng.standard_gamma(np.broadcast_to(weights, (chains, self.cells))), 1e-300)
        return rng.multinomial(self.records, gammas / gammas.sum(axis=1, keepdims=True))

    def _transfer(
        self,
        pairs: tuple[Indices, Indices],
        log_term: Callable[[Pairs, Indices, Integers], Floats],
        rng: np.random.Generator,
        between: Callable[[Pairs], tuple[Integers, Integers]] | None = None,
    ) -> tuple[Pairs, Integers]:
        """Move records within pairs of cells, the same pairs in all chains; return the pairs and their new counts."""
        chains, width = len(self.counts), len(pairs[0])
        chain = np.repeat(np.arange(chains), width)
        a, b = np.tile(pairs[0], chains), np.tile(pairs[1], chains)
        first, second = self.counts[chain, a], self.counts[chain, b]
        them = Pairs(chain, a, b, first, first + second)

        def density(which: Indices, c: Integers) -> Floats:
            prior = self._prior.log(a[which], c) + self._prior.log(b[which], them.total[which] - c)
            return prior + log_term(them, which, c)

        limits = None if between is None else between(them)
        moved = move(first, them.total, density, rng=rng, room=(self._room[a], self._room[b]), between=limits)
        return them, moved

    def _matching(self, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """Pair the cells at random; one is left over where their number is odd."""
        order = rng.permutation(self.cells)
        half = self.cells // 2
        return order[:half], order[half : 2 * half]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of cells in chains.

    Parameters
    ----------
    chain, a, b : ndarray of intp
        The chain, the first and the second cell.
    first, total : ndarray of int64
        The first cell's count, and both together.
    """

    chain: Indices
    a: Indices
    b: Indices
    first: Integers
    total: Integers


LogWeight = Callable[[Indices, Indices, Integers], Floats]


class WeightedCounts(Model):
    """Each cell's count has a weight of its own: noisy counts, draws of a mixture or of an urn, censored counts.

    Parameters
    ----------
    alpha, records
        As in :class:`Model`.
    log_weight : callable
        ``f(chains, cells, counts)``: the log-likelihood of what was released about these cells at these counts.
    guess : callable
        ``f(chains, rng)``: counts to start from, where all weights are positive.
    within : callable, optional
        ``f(pairs)``: the least and the largest count of a pair's first cell outside which there is no mass.
    """

    def __init__(
        self,
        alpha: Floats,
        records: int,
        log_weight: LogWeight,
        guess: Callable[[int, np.random.Generator], Integers],
        within: Callable[[Pairs], tuple[Integers, Integers]] | None = None,
    ) -> None:
        super().__init__(alpha, records)
        self._log_weight, self._guess, self._within = log_weight, guess, within

    def start(self, chains: int, rng: np.random.Generator) -> None:
        """Begin at the guess."""
        self.counts = self._guess(chains, rng)

    def sweep(self, rng: np.random.Generator, *, tune: bool) -> None:
        """Move records within a random matching of the cells, twice."""

        def log_term(them: Pairs, which: Indices, c: Integers) -> Floats:
            chain = them.chain[which]
            here = self._log_weight(chain, them.a[which], c)
            return here + self._log_weight(chain, them.b[which], them.total[which] - c)

        for _ in range(2):
            them, moved = self._transfer(self._matching(rng), log_term, rng, self._within)
            self.counts[them.chain, them.a] = moved
            self.counts[them.chain, them.b] = them.total - moved


class NoisyCounts(Model):
    """Noise was added to the counts of sets of cells, level by level; the noisy counts are known.

    Parameters
    ----------
    alpha, records
        As in :class:`Model`.
    levels : sequence of ndarray of intp, shape (k,)
        For each level, from the coarsest, the set that each cell belongs to. Every set lies in one set of the level
        before; the last level has one set a cell. One level alone is a plain histogram.
    noise : Noise
        The law of the noise.
    noisy : sequence of ndarray
        The noisy counts of the levels' sets; or rows of them, one a chain, for several releases side by side.
    """

    noisy: list[npt.NDArray[Any]]
    """The noisy counts of each level, one row a chain."""

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
        self._cell_of = np.argsort(self._levels[-1])  # of the last level's sets, one a cell
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
        if self._sizes[level] == self.cells:  # one set a cell
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
