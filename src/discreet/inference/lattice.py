"""Counts on a lattice: whole numbers, or multiples of a step where they are known to far less than one record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Protocol, TypeVar

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.errors import ParameterError
from discreet.inference.prior import Prior, log_prior
from discreet.inference.sums import Law, Level, LogWeights, Sums, each_once

_FEW = 64  # numbers, below which the sums of rounded parts are listed
IMPOSSIBLE = -1e49  # in logarithms
Key = TypeVar("Key")
_FINE = 12.0  # steps of the lattice that a standard deviation has at least


def unknown() -> ParameterError:
    """Return what is raised where no counts explain a release, as far as can be computed."""
    return ParameterError("the posterior cannot be computed for this release. Write a strength, for another prior")


class Weighed(Protocol):
    """The counts of cells under one of several priors of equal probability.

    ``log``: logarithm of the weight of all counts, up to a number that is the same for all priors.
    """

    @property
    def log(self) -> float: ...

    @property
    def step(self) -> int: ...

    @property
    def approximation(self) -> str: ...


def shares(priors: Sequence[Weighed]) -> Floats:
    """Return the probabilities of priors: the better one foresees the release, the larger is its own."""
    logs = np.array([prior.log for prior in priors])
    if not logs.max() > IMPOSSIBLE:
        raise unknown()
    weights = np.exp(logs - logs.max()) if len(logs) > 1 else np.ones(1)
    return np.asarray(weights / weights.sum())


class CountPosterior(Weighed, Protocol):
    """The counts of cells given a release and one prior, before any is drawn."""

    def draw(self, draws: int, rng: np.random.Generator) -> Floats: ...


@dataclass(frozen=True)
class CountDraws:
    """Draws of the confidential counts.

    ``counts``, shape (draws, k): in records; each row has the sum ``n`` to within half a step.
    ``step``: in which the counts are followed: 1 where the posterior is exact.
    ``drawn``: how many draws, from the first on, were made under each prior.
    """

    counts: Floats
    step: int
    approximation: str
    drawn: tuple[int, ...]

    @classmethod
    def draw(cls, posteriors: Sequence[CountPosterior], draws: int, rng: np.random.Generator) -> CountDraws:
        """Return draws under priors of equal probability."""
        drawn = tuple(rng.multinomial(draws, shares(posteriors)).tolist())
        pairs = zip(posteriors, drawn, strict=True)
        counts = [posterior.draw(number, rng) for posterior, number in pairs if number]
        return cls(np.concatenate(counts), posteriors[0].step, posteriors[0].approximation, drawn)


@dataclass(frozen=True)
class Lattice:
    """Counts as multiples of a step, which is 1 where they are exact, with the prior of each.

    ``guess``, shape (k,): of the counts, in the prior's order; it changes no draw, only precision.
    ``spread``: about the standard deviation of a count given the release.
    """

    records: int
    step: int
    prior: Prior
    guess: Floats
    spread: float

    @classmethod
    def fine(cls, records: int, spread: float, prior: Prior, guess: Floats) -> Lattice:
        """Return the lattice on which a standard deviation has enough steps."""
        return cls(records, max(1, int(spread / _FINE)), prior, guess, spread)

    @cached_property
    def _rates(self) -> list[Floats]:
        return self.prior.log_rates(self.guess, self.spread)

    @property
    def cells(self) -> list[tuple[float, float]]:
        """The mass of each cell in the law of its split, and what its law is multiplied with, per record."""
        return [*zip(self.prior.alpha.tolist(), self._rates[0].tolist(), strict=True)]

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

    def laws(self, factors: Mapping[Key, tuple[tuple[float, float], Integers, Floats]]) -> dict[Key, Law]:
        """Return laws of cells' counts, prior and likelihood: given a cell, numbers, and the log-likelihood at each."""
        cells, numbers, logs = zip(*factors.values(), strict=True)
        lengths, joined = list(map(len, numbers)), np.concatenate(numbers)
        priors = {cell: index for index, cell in enumerate(dict.fromkeys(cells))}
        index, weights = np.repeat([priors[cell] for cell in cells], lengths), np.concatenate(logs)
        for (alpha, rate), number in priors.items():
            rows = index == number
            weights[rows] += each_once(partial(self._log_prior, alpha, rate), joined[rows])
        ends = np.cumsum(lengths).tolist()
        parts = zip(factors, ends, lengths, strict=True)
        return {key: Law.of(int(joined[end - length]), weights[end - length : end]) for key, end, length in parts}

    def _log_prior(self, alpha: float, rate: float, numbers: Integers) -> Floats:
        return log_prior(alpha, self.counts(numbers), self.step, rate)

    @cached_property
    def levels(self) -> list[Level]:
        """The sets of the prior's tree, with the weights of their sums; equal sets share a function."""
        levels, parts = [], self.prior.alpha
        for level, below, above in zip(self.prior.levels, self._rates[:-1], self._rates[1:], strict=True):
            starts = np.searchsorted(level.of, np.arange(len(level.masses)))
            rates = below[starts]  # the parts of a set have one rate
            masses = [tuple(part.tolist()) for part in np.split(parts, starts[1:])]
            keys = [*zip(level.masses.tolist(), above.tolist(), rates.tolist(), masses, strict=True)]
            weights = {key: self._weight(*key, level.strength) for key in {*keys}}
            levels.append(Level(level.of, [weights[key] for key in keys]))
            parts = level.masses
        return levels

    def _weight(self, mass: float, above: float, own: float, parts: tuple[float, ...], strength: float) -> LogWeights:
        """Return the weight of a set's sum as a part, less what its own parts have together: a split is a law."""
        few = np.arange(_FEW)

        @cache
        def together() -> Floats:
            total, *laws = (log_prior(part, self.counts(few), self.step, own) for part in parts)
            for law in laws:
                pairs = total[:, None] + np.where(few[:, None] <= few, law[few - few[:, None]], -math.inf)
                total = np.logaddexp.reduce(pairs, axis=0)
            return total

        def weight(numbers: Integers) -> Floats:
            counts = self.counts(numbers)
            whole = log_prior(strength, counts, self.step, own)
            if self.step > 1 and len(numbers) and numbers.min() < _FEW:  # sums of what was rounded are not rounded sums
                whole = np.where(numbers < _FEW, together()[np.minimum(numbers, _FEW - 1)], whole)
            return log_prior(mass, counts, self.step, above) - whole

        return weight


@dataclass(frozen=True)
class OnLattice:
    """The posterior of counts that are independent but for their sum and those of sets, with the cells in ``order``."""

    lattice: Lattice
    sums: Sums
    approximation: str = ""
    order: Integers | None = None

    @property
    def log(self) -> float:
        return self.sums.log

    @property
    def step(self) -> int:
        return self.lattice.step

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the counts, a row each."""
        counts = self.lattice.counts(self.sums.draw(draws, rng))
        return counts if self.order is None else counts[:, np.argsort(self.order)]
