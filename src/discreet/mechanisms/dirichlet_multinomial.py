"""Draws from the posterior predictive of a Dirichlet prior: docs/theory/dirichlet-multinomial.md (T4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from discreet import privacy
from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, positive_size, real
from discreet._core.numeric import Floats, float_at_most, log_rising
from discreet.domain import Commonness, Counts, Records
from discreet.mechanisms.base import MOST_CELLS, NEIGHBOURS, held_frequencies, require_neighbours
from discreet.mechanisms.calibration import SIZE, Free, Search, one_solution
from discreet.mechanisms.drawn import UNIT, HeldMechanism, draw_blocks, held_cells, records_of
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import DrawnFromCounts
from discreet.mechanisms.projections import NumberedCells
from discreet.privacy import ChainProfile, Code, ConstantProfile, Guarantee, HeldTable, Profile, Relation, UrnPair

_DENSE = 1 << 20  # cells held one by one; beyond, prior draws come from the base measure
_TWO_CELL_EXACT = 256
_TWO_CELL_DRAWS = 1 << 20


@sealed
@dataclass(frozen=True, kw_only=True)
class DirichletMultinomial(HeldMechanism):
    r"""Release ``size`` draws from the posterior predictive of a Dirichlet prior with mean mass ``prior`` per cell.

    Draw ``i + 1`` falls in cell ``l`` with probability ``(alpha_l + n_l + S_l) / (A + i)``, ``A = n + sum alpha``, with
    ``S_l`` earlier draws there and ``alpha_l = prior * cells * H(l)`` for the domain's base measure ``H``.

    Parameters
    ----------
    domain : Domain
        Public and finite.
    size : int
        Number of records to release, ``m``, 1 to 1e10.
    prior : float
        Mean prior mass per cell, in records; positive. Rounded up, so that the total is a multiple of 2^-20: the kernel
        draws with that.

    Raises
    ------
    ParameterError
        When the domain is not finite or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T4, exact for three cells or more): the hockey-stick divergence between
    ``DirMult(m; a+1, b, R)`` and ``DirMult(m; a, b+1, R)``, ``a, b`` the two smallest prior masses, the larger of the
    two orders; pure ``epsilon = log(1 + m / min alpha)``. For groups of 2 or 3 and a uniform prior, the maximum over
    how the group splits, where it can be summed (exact where every outcome is, the pure epsilon always); else a chain
    of single replacements (an upper bound). The kernel draws integers only: floating point costs nothing.

    References
    ----------
    Machanavajjhala et al. (2008); PY26, Appendix A.2 (3) and equation (A.2).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=299)})
    >>> mechanism = DirichletMultinomial(domain=cells, size=12_000_000, prior=5)
    >>> f"{mechanism.guarantee(n=11_918_162).delta(2.0):.3g}"
    '4.45e-09'
    """

    name: ClassVar[str] = "dirichlet-multinomial"
    traits: ClassVar[Traits] = Traits(free=("prior", "size"))

    prior: float

    def __post_init__(self) -> None:
        cells = self._cells
        object.__setattr__(self, "prior", real("prior", self.prior))
        object.__setattr__(self, "size", positive_size("size", self.size))
        if not 1e-12 <= self.prior <= 2**40 / cells:
            raise ParameterError(f"prior must be at least 1e-12 per cell and at most 2^40 in total, got {self.prior!r}")
        # rounded down, so that it gives the total again
        object.__setattr__(self, "prior", float_at_most(Fraction(self.strength_units, cells * UNIT)))

    @cached_property
    def strength_units(self) -> int:
        """The total prior mass in units: every cell a whole number of units where the base is uniform and dense."""
        cells = self._cells if self._cells <= _DENSE else 1
        return cells * math.ceil(Fraction(self.prior) * (self._cells // cells) * UNIT)

    @property
    def _strength(self) -> float:
        """The total prior mass, in records."""
        return self.strength_units / UNIT

    @cached_property
    def _uniform(self) -> bool:
        least, next_least = self.domain.least_weights()
        return least == next_least == Fraction(1, self._cells)

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records from the exact integer urn, in chunks, in exchangeable order."""
        count = self._cells
        if count <= _DENSE and self._uniform:
            masses = np.full(count, self.strength_units // count, dtype=np.int64)
            masses[self.domain.flat(x.records)] += x.frequencies * UNIT
            for cells in draw_blocks(masses, strength=0, discount=0, size=self.size, rng=rng):
                yield self.domain.unflat(cells)
            return
        masses, strength = x.frequencies * UNIT, self.strength_units
        blocks = draw_blocks(masses, strength=strength, discount=0, size=self.size, rng=rng)
        yield from records_of(blocks, x, self.domain, rng=rng)

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y``: ``sum_l log (alpha_l + n_l)_{S_l} - log (A)_m``."""
        cells, drawn = np.unique(self.domain.flat(y), return_counts=True)
        frequency = held_frequencies(self.domain, x, cells)
        alpha = self._strength * np.exp(self.domain.log_base(self.domain.unflat(cells)))
        total = float(log_rising(self._strength + x.n, len(y)))
        return float(log_rising(alpha + frequency, drawn.astype(float)).sum()) - total

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T4 for a table of ``n`` records."""
        return self._promise(relation, n, quick=False)

    def _promise(self, relation: Relation, n: int, *, quick: bool) -> Guarantee:
        """Return the guarantee; quickly, with chains for every group, an upper bound."""
        cells, (n, group) = self._cells, require_neighbours(self, relation, n)
        profile = self._single(n)
        if group > 1 and cells > 1:
            profile = ChainProfile(single=profile, group=group)
            if self._uniform and not quick:
                prior = self.strength_units / (UNIT * cells)
                profile = privacy.GroupUrn(size=self.size, prior=prior, cells=cells, n=n, group=group, bound=profile)
        theorem = "T4, chained" if isinstance(profile, ChainProfile) else "T4"
        chosen, caveat = ("cells", "prior"), Code("prior-share", {"share": self._strength / (self._strength + n)})
        return Guarantee.proved(profile, relation=relation, n=n, theorem=theorem, chosen=chosen, caveats=(caveat,))

    def _single(self, n: int) -> Profile:
        cells = self._cells
        if cells == 1:
            return ConstantProfile(value=0.0)
        strength = Fraction(self.strength_units, UNIT)
        least, next_least = (strength * w for w in self.domain.least_weights())
        orders = sorted({(least, next_least), (next_least, least)})
        if cells == 2 and n <= _TWO_CELL_EXACT and n * self.size <= _TWO_CELL_DRAWS:
            masses = [(float(a + count), float(b + n - 1 - count)) for a, b in orders for count in range(n)]
            pairs = [UrnPair(size=self.size, a=a, b=b, rest=0.0) for a, b in masses]
        else:
            tight = cells > 2 or n == 1
            remainder = float(n + strength - least - next_least - 1)
            pairs = [UrnPair(size=self.size, a=float(a), b=float(b), rest=remainder, tight=tight) for a, b in orders]
        if len(pairs) == 1:
            return pairs[0]
        return privacy.LargestProfile(profiles=pairs)

    def held_table(self, x: Counts) -> HeldTable:
        """Return the cells' masses."""
        return held_cells(self.domain, x, size=self.size, strength=self._strength)

    def likelihood(self) -> DrawnFromCounts:
        """Return the urn's likelihood: ``(alpha + C)_Z`` for each cell, a rising factorial."""
        return DrawnFromCounts(log_weight=lambda _, cells, c, z: log_rising(self._prior[cells] + c, z.astype(float)))

    @cached_property
    def _prior(self) -> Floats:
        """The prior mass of each cell, made when it is used: a plan asks for likelihoods on any number of cells."""
        return np.asarray(self._strength * NumberedCells(self.domain, self._cells).base())

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return the share of the prior."""
        remedies = helpful(self.domain, "cells", "columns", "size", "epsilon", "delta", size=self.size == 1)
        urn = n + self._strength
        lost = self._strength / urn
        return Forecast(lost=lost, lost_is="expectation", lost_to="prior", rest="base", urn=urn, remedies=remedies)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least prior at a size, or for the largest size at a prior; the pure epsilon is quick."""
        quick = partial(cls._promise, relation=search.relation, n=search.n, quick=not search.budget.pure)
        prior = Free("prior", 2.0**-30, 2.0**40 / min(search.domain.size or 1, MOST_CELLS))
        return one_solution(search, SIZE, prior, promise=quick)
