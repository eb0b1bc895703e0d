"""What the mixtures with the uniform distribution share: their draws, their law, and theorem T5.

A draw is a uniform cell with some probability (obscure), otherwise a uniformly chosen record (reveal). The probability
is a multiple of 2^-32, so a draw is three uniform integers and its law is exactly the one stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Floats, Indices, locate
from discreet._core.checks import positive_size, real
from discreet.domain import Commonness, Counts, Domain, Records
from discreet.mechanisms.base import NEIGHBOURS, CellCounts, held_frequencies, numbered_cells, require_relation
from discreet.mechanisms.calibration import SIZE, Free, Search, one_solution
from discreet.mechanisms.drawn import DrawnMechanism
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import DrawnFromCounts, Likelihood
from discreet.privacy import Code, ConstantProfile, Guarantee, MixturePair, Profile, Relation

UNIT = 1 << 32
"""The probability of a uniform cell is a multiple of ``1 / UNIT``."""

MIXING = Free("mixing", 1e-12, 1.0)
"""The probability of a uniform cell, as it is solved for."""

_BLOCK = 1 << 17


def checked_mixing(value: Any) -> float:
    """Return a mixing probability as it is drawn with: rounded up to a multiple of 2^-32.

    Raises ParameterError when it is not a number in ``[1e-12, 1]``.
    """
    return mixing_units(real("mixing", value, least=1e-12, most=1)) / UNIT


def mixing_units(mixing: float) -> int:
    """Return a mixing probability in units of 2^-32, rounded up."""
    return math.ceil(Fraction(mixing) * UNIT)


def obscure(domain: Domain, chosen: Records, units: int, rng: np.random.Generator) -> Records:
    """Replace each record by a uniform cell with probability ``units / UNIT``, independently."""
    columns = [column.copy() for column in chosen.columns]
    obscured = np.flatnonzero(rng.integers(0, UNIT, size=len(chosen)) < units)
    for column, spec in zip(columns, domain.columns.values(), strict=True):
        column[obscured] = rng.integers(0, spec.size, size=len(obscured))
    return Records(columns=tuple(columns))


def draw_mixture(domain: Domain, x: Counts, size: int, units: int, rng: np.random.Generator) -> Iterator[Records]:
    """Draw ``size`` records independently, in chunks, each a uniform cell with probability ``units / UNIT``."""
    edges = np.cumsum(x.frequencies)
    n = x.n
    for start in range(0, size, _BLOCK):
        value = locate(edges, rng.integers(0, n, size=min(_BLOCK, size - start)), below=n)
        yield obscure(domain, x.records.take(value), units, rng)


def mixture_log_prob(domain: Domain, y: Records, x: Counts, units: int) -> float:
    """Return the log-probability of the sequence ``y``: ``sum log((1-q) n_l / n + q / k)``."""
    frequency = held_frequencies(domain, x, domain.flat(y))
    q = units / UNIT
    with np.errstate(divide="ignore"):  # a cell without records, where nothing is obscured
        return float(np.log((1.0 - q) * frequency / x.n + q / (domain.size or 1)).sum())


def mixed(shares: Floats, mixing: float, cells: int) -> Floats:
    """Return the mixture's probabilities; beyond the support, the base measure stands for the uniform cells."""
    uniform = mixing / cells
    return np.append((1.0 - mixing) * shares + uniform, max(0.0, mixing - len(shares) * uniform))


@dataclass(frozen=True, kw_only=True)
class Mixture(DrawnMechanism):
    """Draws from ``(1 - mixing) * empirical + mixing * uniform`` over the cells; parameters: see SmoothedHistogram."""

    traits: ClassVar[Traits] = Traits(free=("mixing", "size"), theorem="T5")

    domain: Domain
    size: int
    mixing: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mixing", checked_mixing(self.mixing))
        object.__setattr__(self, "size", positive_size("size", self.size))
        _ = numbered_cells(self.domain, self.name)  # refuses a domain that is not finite

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records independently, in chunks, with uniform integers only."""
        return draw_mixture(self.domain, x, self.size, mixing_units(self.mixing), rng)

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y``: ``sum log((1-q) n_l / n + q / k)``."""
        return mixture_log_prob(self.domain, y, x, mixing_units(self.mixing))

    def _profile(self, n: int, group: int) -> Profile:
        """Return the profile for a group of at most ``n`` records, of two cells or more and a mixing below 1."""
        cells = numbered_cells(self.domain, self.name)
        q = Fraction(self.mixing)
        return MixturePair(size=self.size, base=q / cells, moved=group * (1 - q) / n, tight=cells > 2)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the theorem for a table of ``n`` records."""
        require_relation(self, relation.name)
        n = positive_size("n", n)
        profile: Profile = ConstantProfile(value=0.0)
        if self.domain.size != 1 and self.mixing < 1.0:
            profile = self._profile(n, min(relation.group, n))
        return Guarantee.proved(
            profile,
            relation=relation,
            n=n,
            theorem=self.traits.theorem,
            chosen=("cells", "mixing-probability"),
            caveats=(Code("uniform-share", {"share": self.mixing}),),
        )

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return ``mixing``."""
        remedies = helpful(self.domain, "cells", "columns", "size", "epsilon", "delta", size=self.size == 1)
        return Forecast(lost=self.mixing, lost_is="expectation", lost_to="uniform", rest="uniform", remedies=remedies)

    def likelihood(self) -> Likelihood:
        """Return the factor ``((1-q) c / n + q / k)^z`` of each cell."""
        cells = numbered_cells(self.domain, self.name)

        def log_weight(records: int, _cells: Indices, counts: CellCounts, drawn: CellCounts) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = drawn * np.log((1.0 - self.mixing) * counts / records + self.mixing / cells)
            return np.where(drawn > 0, weight, 0.0)

        return DrawnFromCounts(log_weight=log_weight)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least mixing at a size, or for the largest size at a mixing."""
        return one_solution(search, SIZE, MIXING)
