"""What the mechanisms that continue the confidential table's urn share: parameters, their units, and their calibration.

The masses are kept as integers, in units of ``1/UNIT`` records, so that the kernel's law is exact; the guarantees are
computed for the rounded values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from discreet._core.arrays import Integers
from discreet._core.checks import positive_size, real
from discreet._core.errors import ParameterError
from discreet._core.numeric import log_rising, up
from discreet.domain import Counts, Domain
from discreet.domain._commonness import Commonness
from discreet.mechanisms._drawn import HeldMechanism, Looked
from discreet.mechanisms._mechanism import Remedy
from discreet.mechanisms._urn import draw_blocks
from discreet.privacy import Budget
from discreet.privacy._held_table import HeldTable

UNIT = 1 << 20
"""Strength and discount are multiples of 2^-20 of a record."""


def strength_units(strength: float) -> int:
    """Return a strength in units of 2^-20, rounded up, which only adds privacy."""
    return math.ceil(Fraction(strength) * UNIT)


def discount_units(discount: float) -> int:
    """Return the nearest discount, in units of 2^-20; the guarantee is that of the rounded one."""
    return min(round(Fraction(discount) * UNIT), UNIT - 1)


@dataclass(frozen=True, kw_only=True)
class PitmanYorUrn(HeldMechanism):
    """An urn that starts from the confidential table; parameters: see PitmanYor."""

    free: ClassVar[tuple[str, ...]] = ("size", "strength")
    needs_cells: ClassVar[bool] = False
    verbatim: ClassVar[bool] = True
    share_is: ClassVar[Literal["expectation", "prediction"]] = "prediction"
    share_is_of: ClassVar[str] = "come from the prior"
    helped_by: ClassVar[tuple[Remedy, ...]] = ("discount", "size", "delta")

    domain: Domain
    size: int
    strength: float = 1.0
    discount: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", real("strength", self.strength))
        remedy = "For a discount below 0, use dirichlet-multinomial with prior |discount|"
        object.__setattr__(self, "discount", real("discount", self.discount, least=0, below=1, remedy=remedy))
        object.__setattr__(self, "size", positive_size("size", self.size))
        if not -self.discount < self.strength <= 2**40 or (self.discount == 0 and self.strength <= 0):
            raise ParameterError(f"strength must be above -discount, and above 0 at discount 0, got {self.strength!r}")
        object.__setattr__(self, "discount", discount_units(self.discount) / UNIT)
        object.__setattr__(self, "strength", max(strength_units(self.strength), 1 - self.discount_units) / UNIT)

    @property
    def strength_units(self) -> int:
        """The strength, in units."""
        return strength_units(self.strength)

    @property
    def discount_units(self) -> int:
        """The discount, in units."""
        return discount_units(self.discount)

    def _urn(self, x: Counts, rng: np.random.Generator) -> Iterator[Integers]:
        """Draw value numbers in blocks, integers only."""
        return draw_blocks(
            x.frequencies * UNIT,
            unit=UNIT,
            strength=self.strength_units,
            discount=self.discount_units,
            size=self.size,
            rng=rng,
        )

    def _held_urn(self, x: Counts, *, filtered: bool) -> HeldTable:
        """Return what the law of the urn at a table depends on, where new values differ from all others."""
        return HeldTable.pitman_yor(
            x.frequencies,
            size=self.size,
            strength=self.strength,
            discount=self.discount,
            filtered=filtered,
            fresh=self.domain.size is None or x.distinct < self.domain.size,
        )

    def _expected_new(self, n: int, like: Commonness | None = None) -> float:
        """Return the expected probability of a new value, ``(theta + sigma E k) / (theta + n)``, ``k`` distinct values.

        ``k`` of a table like another one, or, by default, under the urn's own prior: then it is
        ``(theta + sigma)_n / (theta + 1)_n``, or less where the domain has fewer cells.
        """
        theta, sigma = self.strength, self.discount
        if sigma == 0.0 or like is not None:
            distinct = 0.0 if like is None else like.distinct(n)
            return max(0.0, theta + sigma * distinct) / (theta + n)
        own = math.exp(float(log_rising(theta + sigma, n)) - float(log_rising(theta + 1.0, n)))
        return min(own, self._most_new(n))

    def _most_new(self, n: int) -> float:
        """Return that probability for a table of as many distinct values as it can have."""
        theta, sigma = self.strength, self.discount
        distinct = n if self.domain.size is None else min(n, self.domain.size)
        return max(0.0, theta + sigma * distinct) / (theta + n)

    @classmethod
    def _looked(cls, domain: Domain) -> Looked:
        return Looked((1.0, 2.0**40), usual=1.0)

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> Self:
        """Solve for the largest size at the given strength (1 by default), or for the least strength at a size."""
        if size is None and fixed.get("strength") is None:
            fixed["strength"] = 1.0
        return super().calibrated(budget, domain=domain, n=n, size=size, group=group, **fixed)


def moved_mass(size: int, strength: float, n: int, group: int) -> float:
    """Return ``1 - prod_{i<m} (1 - g/(theta+n+i))``, the probability that a draw descends from ``g`` records.

    The product telescopes to ``prod_{i<g} (theta+n-g+i) / (theta+n+m-g+i)``, ``g`` factors. For ``g = 1`` this is
    ``m / (theta + n + m - 1)``.
    """
    if group == 1:
        below = strength + n + size - 1.0
        return up(min(1.0, size / below)) if below > 0 else 1.0
    first = strength + n - group
    if first <= 0:
        return 1.0
    below_all = first + size + np.arange(group, dtype=np.float64)
    return up(-math.expm1(float(np.log1p(-size / below_all).sum())) * (1.0 + 1e-14 * group))
