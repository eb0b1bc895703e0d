"""Mixing that falls with the smallest count: docs/theory/data-specific-reveal-or-obscure.md (T7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import GuaranteeKindError, choice, positive_size, real
from discreet._core.numeric import Floats
from discreet.domain import Commonness, Counts
from discreet.mechanisms.base import NEIGHBOURS, require_neighbours
from discreet.mechanisms.calibration import SIZE, Free, Search, one_solution
from discreet.mechanisms.drawn import MIXING_UNIT, MixtureDraws
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import ExactLaw
from discreet.privacy import Code, ConstantProfile, Guarantee, MinimumPairs, Profile, Relation

Schedule = Literal["optimal", "published"]

_LEAST, _MOST = 1e-6, 50.0


@sealed
@dataclass(frozen=True, kw_only=True)
class DataSpecificRevealOrObscure(MixtureDraws):
    r"""Release ``size`` independent draws from ``(1 - q_i) * empirical + q_i * uniform``, ``i`` the smallest count.

    Parameters
    ----------
    domain : Domain
        Public and finite, ``k`` cells. Its base measure is not used.
    size : int
        Number of records to release, ``m``, 1 to 1e10.
    draw_epsilon : float
        Pure epsilon of one draw that the schedule ``q_0, .., q_(n//k)`` is made for, 1e-6 to 50.
    schedule : {"optimal", "published"}
        Optimal: the least probability at every smallest count, by theorem T7. Published: the paper's, which is not
        private at the epsilon it is made for; it has no guarantee here, and cannot be published.

    Raises
    ------
    ParameterError
        When the domain is not finite or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T7): one draw's profile is the exact maximum over all types of neighbours, evaluated on the
    probabilities that the kernel uses, which are multiples of 2^-32 rounded up; its pure epsilon is ``draw_epsilon`` or
    less. ``m`` draws have ``m`` times that, and an upper bound on their profile. The kernel draws integers only:
    floating point costs nothing beyond what the profile adds.

    At equal pure epsilon one draw is at least as close to the table as Reveal-or-Obscure, and exactly as far where some
    cell is empty. For several draws at a positive delta Reveal-or-Obscure is usually better.

    References
    ----------
    ROO25, Algorithm 2 and Theorem 2, which does not hold as stated.

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=8)})
    >>> mechanism = DataSpecificRevealOrObscure(domain=cells, size=1, draw_epsilon=0.1)
    >>> mechanism.probabilities(1000)[[0, 5, 10, 15, 20]].round(4).tolist()
    [0.0788, 0.0681, 0.0441, 0.0107, 0.0]
    >>> round(mechanism.guarantee(n=1000).epsilon(0.0), 9)
    0.1
    """

    name: ClassVar[str] = "data-specific-reveal-or-obscure"
    traits: ClassVar[Traits] = Traits(free=("draw_epsilon", "size"))

    draw_epsilon: float
    schedule: Schedule = "optimal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "draw_epsilon", real("draw_epsilon", self.draw_epsilon, least=_LEAST, most=_MOST))
        object.__setattr__(self, "size", positive_size("size", self.size))
        _ = self._cells  # refuses a domain that is not finite
        choice("schedule", self.schedule, ("optimal", "published"))

    def probabilities(self, n: int) -> Floats:
        """Return ``q_0, .., q_(n//k)``, the probabilities of a uniform cell at each smallest count, as used."""
        positive = self._positive_units(positive_size("n", n))
        return np.append(positive, np.zeros(n // self._cells + 1 - len(positive), dtype=np.int64)) / MIXING_UNIT

    def _positive_units(self, n: int) -> Any:
        return _schedule(n, self._cells, self.draw_epsilon, self.schedule)

    def _units_of(self, n: int, least: int) -> int:
        """Return the probability at a smallest count, in units of 2^-32."""
        positive = self._positive_units(n)
        return int(positive[least]) if least < len(positive) else 0

    def _units(self, x: Counts) -> int:
        return self._units_of(x.n, int(x.frequencies.min()) if len(x.frequencies) == self.domain.size else 0)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T7 for a table of ``n`` records.

        Raises
        ------
        GuaranteeKindError
            For the published schedule.
        """
        return self._promise(relation, n, quick=False)

    def _promise(self, relation: Relation, n: int, *, quick: bool) -> Guarantee:
        cells, (n, group) = self._cells, require_neighbours(self, relation, n)
        if self.schedule != "optimal":
            raise GuaranteeKindError(
                "the published schedule is not private at the epsilon it is made for, since Theorem 2 of ROO25 does "
                "not hold. Use schedule='optimal'"
            )
        profile: Profile = ConstantProfile(value=0.0)
        largest = 0.0
        if cells > 1:
            weights = self._positive_units(n) / MIXING_UNIT
            largest = float(weights[0])
            pairs = MinimumPairs(n=n, cells=cells, weights=weights, size=self.size)
            if pairs.loss > 0.0:  # else every record is obscured
                profile = pairs
                if group > 1 or (quick and self.size > 1):
                    profile = pairs.chord(group)
        chosen, caveat = ("cells", "schedule"), Code("uniform-at-most", {"share": largest})
        return Guarantee.proved(profile, relation=relation, n=n, theorem="T7", chosen=chosen, caveats=(caveat,))

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return ``q_i`` at the smallest count of a table like that one, and ``q_0``, the largest.

        The table's own would tell its count.
        """
        lost = worst = 0.0
        if self.domain.size != 1:
            least = (like or Commonness.invented(self.domain)).least
            lost, worst = self._units_of(n, math.floor(n * least)) / MIXING_UNIT, self._units_of(n, 0) / MIXING_UNIT
        remedies = helpful(self.domain, "cells", "columns", "size", "epsilon", "delta", size=self.size == 1)
        return Forecast(
            lost=lost, lost_is="prediction", lost_to="uniform", rest="uniform", worst=worst, remedies=remedies
        )

    def likelihood(self) -> ExactLaw:
        """Return the law itself: which mixture it is depends on the smallest count."""
        return ExactLaw(domain=self.domain, log_prob=self.log_prob, terms=self.size)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the largest epsilon of a draw at a size, or for the largest size at an epsilon of a draw."""
        quick = partial(cls._promise, relation=search.relation, n=search.n, quick=True)
        return one_solution(search, SIZE, Free("draw_epsilon", _LEAST, _MOST, rising=False), promise=quick)


@lru_cache(maxsize=64)
def _schedule(n: int, cells: int, epsilon: float, schedule: Schedule) -> Any:
    """Return the schedule in units of 2^-32, rounded up, as far as it is positive (and ``q_0`` always)."""
    if schedule == "published" or cells == 1:
        rows = _published(n, cells, epsilon)
    elif cells == 2:
        rows = _two_cells(n, epsilon)
    else:
        rows = _optimal(n, cells, epsilon)
    units = np.trim_zeros(np.array(rows, dtype=np.int64), "b") if any(rows) else np.zeros(1, dtype=np.int64)
    units.flags.writeable = False
    return units


def _rounded(q: float) -> int:
    return min(MIXING_UNIT, math.ceil(max(0.0, q) * MIXING_UNIT))


def _optimal(n: int, cells: int, epsilon: float) -> list[int]:
    """Return the least schedule for three cells or more: T7's three upper bounds on ``d = 1 - q``, taken in turn."""
    # Each bound uses the rounded value before it: rounding down d keeps every inequality of the theorem.
    e, h, share = math.exp(epsilon), math.expm1(epsilon), n / cells
    units = [_rounded(1.0 / (1.0 + h * share))]
    for i in range(1, n // cells + 1):
        room = (n - cells * i) / cells  # N - i
        if room == 0.0 or units[-1] == 0:
            break
        previous = (MIXING_UNIT - units[-1]) / MIXING_UNIT
        d = min(h * share / (1.0 + h * room), e * previous + h * share / ((cells - 1) * room))
        if room >= 1.0:
            d = min(d, (h * share + (room - 1.0) * previous) / (e * room))
        units.append(_rounded(1.0 - d))
    return units


def _two_cells(n: int, epsilon: float) -> list[int]:
    """Return the least schedule for two cells: the smaller one's probability is ``max(i/n, e^-eps * the next)``."""
    most = n // 2
    start = min(most, math.ceil(1.0 / epsilon) + 1)  # from 1/eps to the middle, i/n is the larger
    units = [0] * (start + 1)
    if start == most and n % 2 == 1:
        units[start] = _rounded((n / (1.0 + math.exp(epsilon)) - start) / (0.5 * n - start))
    chance = (start + (0.5 * n - start) * units[start] / MIXING_UNIT) / n
    for i in range(start - 1, -1, -1):
        units[i] = _rounded((n * math.exp(-epsilon) * chance - i) / (0.5 * n - i))
        chance = (i + (0.5 * n - i) * units[i] / MIXING_UNIT) / n
    return units


def _published(n: int, cells: int, epsilon: float) -> list[int]:
    """Return the paper's schedule, equations (9) to (13); at ``i = n/k``, where (13) divides by zero, 0."""
    e, share = math.exp(epsilon), n / cells
    q = 1.0 / (1.0 + share * math.expm1(epsilon))
    units = [_rounded(q)]
    for i in range(1, -(-n // cells)):
        q = max(0.0, ((share - i - 1.0) * q + 1.0 + i - i * e) / (e * (share - i)))
        units.append(_rounded(q))
    return units
