"""Mechanisms whose kernel draws the records, so that their number costs privacy; mixing in multiples of 2^-32."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Floats, Indices, locate
from discreet._core.checks import positive_size, real
from discreet._core.errors import ParameterError
from discreet._core.text import counted
from discreet.domain import Commonness, Counts, Domain, Records
from discreet.mechanisms.base import (
    NEIGHBOURS,
    CellCounts,
    Mechanism,
    held_frequencies,
    numbered_cells,
    require_neighbours,
)
from discreet.mechanisms.calibration import SIZE, Free, Search, one_solution
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import DrawnFromCounts, Likelihood
from discreet.mechanisms.reading import BLOCK, Contents, Reading
from discreet.privacy import Code, ConstantProfile, Guarantee, MixturePair, Profile, Relation

UNIT = 1 << 32
"""The probability of a uniform cell is a multiple of ``1 / UNIT``."""

MIXING = Free("mixing", 1e-12, 1.0)
"""The probability of a uniform cell, as it is solved for."""


@dataclass(frozen=True, kw_only=True)
class DrawnMechanism(Mechanism):
    """A mechanism whose kernel draws the records themselves: ``size`` of them."""

    size: int

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return as many records as it was made for."""
        return replace(super().contents(n, counts=counts), size=self.size)

    def reading(self, y: Iterator[Records], *, n: int) -> Reading:
        """Return the kernel's records as they are."""
        return KernelRecords(y, self.size)

    @property
    def _cells(self) -> int:
        """Number of cells of the domain. Raises ParameterError where it is not finite."""
        return numbered_cells(self.domain, self.name)


@dataclass(frozen=True, eq=False)
class KernelRecords(Reading):
    """Records that the kernel drew, in chunks: their number, ``size``, was fixed before."""

    chunks: Iterator[Records]
    size: int

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Return the kernel's records as they are."""
        if size != self.size:
            raise ParameterError(f"this mechanism was calibrated for {counted(self.size, 'record')}, not {size}")
        return self.chunks


class MixtureDraws(DrawnMechanism):
    """Independent draws from a mixture with the uniform distribution, of a weight that may depend on the table."""

    @abstractmethod
    def _units(self, x: Counts) -> int:
        """Return the probability of a uniform cell for a table, in units of 2^-32. Confidential."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records independently, in chunks, with uniform integers only."""
        edges, units = np.cumsum(x.frequencies), self._units(x)
        for start in range(0, self.size, BLOCK):
            value = locate(edges, rng.integers(0, x.n, size=min(BLOCK, self.size - start)), below=x.n)
            yield obscure(self.domain, x.records.take(value), units, rng)

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y``: ``sum log((1-q) n_l / n + q / k)``."""
        frequency, q = held_frequencies(self.domain, x, self.domain.flat(y)), self._units(x) / UNIT
        with np.errstate(divide="ignore"):  # a cell without records, where nothing is obscured
            return float(np.log((1.0 - q) * frequency / x.n + q / self._cells).sum())


def obscure(domain: Domain, records: Records, units: int, rng: np.random.Generator) -> Records:
    """Replace each record by a uniform cell with probability ``units / UNIT``, independently."""
    columns = [column.copy() for column in records.columns]
    places = np.flatnonzero(rng.integers(0, UNIT, size=len(records)) < units)
    for column, spec in zip(columns, domain.columns.values(), strict=True):
        column[places] = rng.integers(0, spec.size, size=len(places))
    return Records(columns=tuple(columns))


@dataclass(frozen=True, kw_only=True)
class Mixture(MixtureDraws):
    """Draws from ``(1 - mixing) * empirical + mixing * uniform`` over the cells; parameters: see SmoothedHistogram."""

    traits: ClassVar[Traits] = Traits(free=("mixing", "size"), theorem="T5")

    mixing: float

    def __post_init__(self) -> None:
        mixing = Fraction(real("mixing", self.mixing, least=1e-12, most=1))
        object.__setattr__(self, "mixing", math.ceil(mixing * UNIT) / UNIT)
        object.__setattr__(self, "size", positive_size("size", self.size))
        _ = self._cells  # refuses a domain that is not finite

    def _units(self, x: Counts) -> int:
        return int(self.mixing * UNIT)

    def _profile(self, n: int, group: int) -> Profile:
        """Return the profile for a group of at most ``n`` records, of two cells or more and a mixing below 1."""
        q = Fraction(self.mixing)
        return MixturePair(size=self.size, base=q / self._cells, moved=group * (1 - q) / n, tight=self._cells > 2)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the theorem for a table of ``n`` records."""
        n, group = require_neighbours(self, relation, n)
        profile: Profile = ConstantProfile(value=0.0)
        if self.domain.size != 1 and self.mixing < 1.0:
            profile = self._profile(n, group)
        theorem, chosen = self.traits.theorem, ("cells", "mixing-probability")
        caveat = Code("uniform-share", {"share": self.mixing})
        return Guarantee.proved(profile, relation=relation, n=n, theorem=theorem, chosen=chosen, caveats=(caveat,))

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return ``mixing``."""
        remedies = helpful(self.domain, "cells", "columns", "size", "epsilon", "delta", size=self.size == 1)
        return Forecast(lost=self.mixing, lost_is="expectation", lost_to="uniform", rest="uniform", remedies=remedies)

    def likelihood(self) -> Likelihood:
        """Return the factor ``((1-q) c / n + q / k)^z`` of each cell."""
        uniform = self.mixing / self._cells

        def log_weight(records: int, _cells: Indices, counts: CellCounts, drawn: CellCounts) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = drawn * np.log((1.0 - self.mixing) * counts / records + uniform)
            return np.where(drawn > 0, weight, 0.0)

        return DrawnFromCounts(log_weight=log_weight)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least mixing at a size, or for the largest size at a mixing."""
        return one_solution(search, SIZE, MIXING)
