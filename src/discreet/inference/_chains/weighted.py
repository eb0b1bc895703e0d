"""Chains over counts of which each has a weight of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet.inference._chains.model import Model, Pairs

__all__ = ["LogWeight", "WeightedCounts"]

LogWeight = Callable[[Indices, Indices, Integers], Floats]


class WeightedCounts(Model):
    """Each cell's count has a weight of its own: noisy counts, draws of a mixture or of an urn, censored counts.

    ``alpha``, ``records``: as in :class:`Model`.
    ``log_weight``: ``f(chains, cells, counts)``: the log-likelihood of what was released about these cells at these
    counts.
    ``guess``: ``f(chains, rng)``: counts to start from, where all weights are positive.
    ``within``: ``f(pairs)``: the least and the largest count of a pair's first cell outside which there is no mass.
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
