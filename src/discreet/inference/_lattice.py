"""Counts on a lattice: whole numbers, or multiples of a step where they are known to far less than one record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.inference._prior import Prior, log_prior
from discreet.inference._sums import Law, Level, Sums

_FINE = 12.0  # steps of the lattice that a standard deviation has at least


@dataclass(frozen=True)
class Counted:
    """Draws of the confidential counts.

    ``counts``, shape (draws, k): in records; each row has the sum ``n`` to within half a step.
    ``step``: in which the counts are followed: 1 where the posterior is exact.
    ``approximation``: what else is taken for something simpler, in words.
    """

    counts: Floats
    step: int
    approximation: str = ""


@dataclass(frozen=True)
class Lattice:
    """Counts as multiples of a step, with the prior of a Dirichlet process on each.

    ``records``: the number of confidential records.
    ``step``: 1 where counts are exact.
    """

    records: int
    step: int

    @classmethod
    def fine(cls, records: int, spread: float) -> Lattice:
        """Return the lattice on which a standard deviation has enough steps."""
        return cls(records, max(1, int(spread / _FINE)))

    @property
    def total(self) -> int:
        return round(self.records / self.step)

    def numbers(self, low: float, high: float) -> Integers:
        """Return the lattice numbers of counts from ``low`` to ``high``, at least one of them."""
        first = min(self.total, max(0, math.floor(low / self.step)))
        return np.arange(first, max(first, min(self.total, math.ceil(high / self.step))) + 1)

    def counts(self, numbers: Integers) -> Floats:
        """Return the counts that lattice numbers stand for."""
        return np.asarray(numbers, dtype=np.float64) * self.step

    def law(self, alpha: float, numbers: Integers, logarithms: Floats) -> Law:
        """Return the law of a cell's count: prior and likelihood."""
        return Law.of(int(numbers[0]), log_prior(alpha, self.counts(numbers), self.step) + logarithms)

    def weights(self, shares: Floats) -> list[Callable[[Integers], Floats]]:
        """Return the logarithms of the prior weights of the counts of sets, one function for equal shares."""
        made = {a: self._weight(a) for a in set(shares.tolist())}
        return [made[a] for a in shares.tolist()]

    def _weight(self, share: float) -> Callable[[Integers], Floats]:
        whole = np.log([self.step - self.step // 2, self.step])  # of whole numbers that round to 0, and to another one
        return lambda numbers: log_prior(share, self.counts(numbers), self.step) - whole[np.minimum(numbers, 1)]

    def levels(self, prior: Prior) -> list[Level]:
        return [Level(level.of, self.weights(level.shares)) for level in prior.levels]

    def draw(self, sums: Sums, draws: int, rng: np.random.Generator) -> Floats:
        return self.counts(sums.draw(draws, rng))
