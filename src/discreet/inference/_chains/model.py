"""Markov chains over the counts of cells: many chains side by side.

Every model has the Dirichlet-multinomial prior of the counts ``C`` of ``k`` cells with a known sum ``n``. A sweep takes
a time that depends on the number of cells and chains, never on ``n``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet.inference._chains.pairs import CellPrior, move

__all__ = ["Model", "Pairs", "apportion"]


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

    ``alpha``, shape (k,): Prior masses of the cells, strength times base measure.
    ``records``: the public number of records, ``n``.
    """

    counts: Integers
    """The present counts, one row per chain."""
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
        """Draw the cells' probabilities given the counts, one row per chain: ``Dirichlet(alpha + C)``."""
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

    ``chain``, ``a``, ``b``: the chain, the first and the second cell.
    ``first``, ``total``: the first cell's count, and both together.
    """

    chain: Indices
    a: Indices
    b: Indices
    first: Integers
    total: Integers
