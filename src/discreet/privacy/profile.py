"""Privacy profiles: the function ``epsilon -> delta`` of a mechanism, and their algebra: composition and groups."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import BudgetError, ParameterError, integer, real
from discreet._core.numeric import Floats, LogRatio, least_real, log_ratio, not_above, up, written

_PROBES = (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
_RISES, _BENDS = 1e-9, 1e-3  # relative: how far a sum may lift a value above the one before, or above a line


@sealed
class Profile(ABC):
    """A privacy profile, ``delta(eps) = sup over neighbours x, y of sup over events E of Q_x(E) - e^eps Q_y(E)``.

    Every number errs towards less privacy: a returned delta or epsilon is never below the true one.

    A profile that says it is *exact* keeps a contract, at every epsilon of at least 0, for the parameters that the
    kernel draws with: ``true <= delta <= 1.01 true`` where the true delta is at least 1e-300, and 0 where that is 0;
    the pure epsilon likewise. It does not increase, and is convex in ``e^epsilon``. What cannot keep the contract
    calls itself an upper bound.

    An epsilon is the decimal that it is written as: 0.1 is one tenth, not the binary fraction next to it.

    Attributes
    ----------
    furthest : float
        Largest epsilon that the profile is computed at; beyond, its value there is an upper bound.
    """

    furthest: ClassVar[float] = 700.0
    tight: bool = False  # whether some neighbours attain it; never claimed unless it is said
    _near: ClassVar[float] = 1e-11  # of the pure epsilon: within it, a sum in floating point has lost too many digits

    @property
    def exact(self) -> bool:
        """Whether the value is the profile itself (within 1 %), not an upper bound: where some neighbours attain it."""
        return self.tight

    @property
    def pure(self) -> float:
        """The least epsilon with delta = 0, rounded up; infinity where there is none."""
        if (end := self._end) is None:
            return math.inf
        return end.ceiling()

    @property
    def _end(self) -> LogRatio | None:
        """The pure epsilon as an exact number, where the profile cancels next to it."""
        return None

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """Return delta at ``0 <= epsilon <= furthest``, below the pure epsilon, on the safe side."""

    def delta(self, epsilon: float | Fraction | Decimal) -> float:
        """Return the delta of the guarantee at ``epsilon``.

        Parameters
        ----------
        epsilon : float, Fraction or Decimal
            At least 0, the decimal that it is written as. Infinity gives the probability of outcomes that no finite
            epsilon covers.

        Returns
        -------
        float
            In ``[0, 1]``, never below the truth; above 0 and below 1e-300 it is returned as 1e-300.

        Raises
        ------
        BudgetError
            When epsilon is negative or not a number.
        """
        epsilon = real("epsilon", epsilon, least=0, infinite=True, down=True, error=BudgetError)
        pure = self.pure
        if pure < math.inf and epsilon >= pure:
            return 0.0
        value = self._delta(min(epsilon, self.furthest))
        if pure - epsilon <= self._near * pure < math.inf and (end := self._end) is not None:
            # The last piece of a convex profile lies below the line to 0 at the pure epsilon.
            start = pure * (1.0 - self._near)
            distance, length = end.minus(written(epsilon)), end.minus(written(start))
            value = min(value, up(self._delta(start) * (math.expm1(-distance) / math.expm1(-length)), 8))
        return min(1.0, max(value, 1e-300))

    def deltas(self, epsilons: Floats) -> Floats:
        """Return the deltas at several epsilons, those of :meth:`delta`.

        Parameters
        ----------
        epsilons : array of float
            Each at least 0.

        Returns
        -------
        array of float
            In ``[0, 1]``, one for each, never below the truth.

        Raises
        ------
        BudgetError
            When an epsilon is negative or not a number.

        Examples
        --------
        >>> from discreet.privacy import DiscreteLaplacePair
        >>> DiscreteLaplacePair(scale=2.0).deltas(np.array([0.0, 0.5, 1.0])).round(3).tolist()
        [0.245, 0.152, 0.0]
        """
        values = np.asarray(epsilons, dtype=np.float64)
        if not (values >= 0.0).all():
            raise BudgetError("every epsilon must be a number of at least 0")
        return np.array([self.delta(float(epsilon)) for epsilon in values])

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which ``delta(epsilon) <= delta``, within one part in 1e9 of the least.

        Parameters
        ----------
        delta : float
            In ``[0, 1]``.

        Returns
        -------
        float
            At least 0; the pure epsilon where none up to ``furthest`` reaches ``delta``, infinity where there is none.

        Raises
        ------
        BudgetError
            When delta is outside its range.
        """
        delta = real("delta", delta, least=0, most=1, error=BudgetError)
        if delta == 0.0:
            return self.pure
        high = min(self.pure, self.furthest)
        solution = least_real(lambda e: log_ratio(self.delta(e), delta), 0.0, high, relative=1e-10, absolute=1e-12)
        return self.pure if solution is None else solution


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantProfile(Profile):
    """A profile that does not depend on epsilon: with probability ``1 - value`` nothing at all is revealed.

    Parameters
    ----------
    value : float
        The delta at every epsilon, in ``[0, 1]``.
    tight : bool
        Whether some neighbours attain it.
    """

    furthest: ClassVar[float] = math.inf

    value: float
    tight: bool = True

    @property
    def pure(self) -> float:
        """0 when the value is 0, infinity otherwise."""
        return 0.0 if self.value == 0.0 else math.inf

    def _delta(self, epsilon: float) -> float:
        return self.value


def keeps_shape(profile: Profile, epsilons: Sequence[float] | None = None) -> bool:
    """Return whether delta does not increase and is convex in ``e^epsilon``, at ascending epsilons; some by default."""
    # Every true profile has this shape: a value that breaks it is not within 1 % of one.
    if epsilons is None:
        pure = profile.pure
        ends = [share * pure for share in (0.5, 0.9, 0.999)] if pure < math.inf else []
        epsilons = sorted({epsilon for epsilon in (*_PROBES, *ends) if epsilon < pure})
    x, delta = np.array(epsilons), np.array([profile.delta(epsilon) for epsilon in epsilons])
    falls = bool((delta[1:] <= delta[:-1] * (1.0 + _RISES)).all())
    lines = [_line(x, delta, i - 1, i + 1, i) for i in range(1, len(delta) - 1)]
    return falls and bool((delta[1:-1] <= np.array(lines) * (1.0 + _BENDS)).all())


# The algebra of profiles. One is turned into a distribution of ``dp-accounting`` by connecting the dots (Doroshenko,
# Ghazi, Kamath, Kumar and Manurangsi, 2022): each *release's* own profile, never that of one of its draws.

_POINTS = 1500
_NEGLIGIBLE = 1e-16


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComposedProfile(Profile):
    """The profile of so many releases together, by their joint privacy-loss distribution: a labelled upper bound.

    Deltas of 1e-10 and more are accurate to about 1 %: for its fast Fourier transforms ``releases * 1e-14`` is added.
    """

    releases: int
    distribution: Any = field(repr=False)
    pure_epsilon: float

    @property
    def pure(self) -> float:
        """The sum of the releases' pure epsilons."""
        return self.pure_epsilon

    def _delta(self, epsilon: float) -> float:
        return up(max(0.0, float(self.distribution.get_delta_for_epsilon(epsilon))) + self.releases * 1e-14)


@sealed
def compose(profiles: Sequence[Profile]) -> Profile:
    """Return an upper bound on the profile of several releases of the same data, whose profiles were fixed beforehand.

    Parameters
    ----------
    profiles : sequence of Profile
        One a release, each holding for every pair of neighbours in both orders.

    Raises
    ------
    ParameterError
        When there is none.

    Notes
    -----
    **The condition.** How many releases there are, and the profile of each, has to be fixed before the first of them is
    seen. What is then done within these profiles may depend on the releases before: which query, which domain. Each
    profile defines a dominating pair, and dominating pairs compose (Zhu, Dong and Wang, 2022, Theorem 10).

    It is not a filter: composing what was spent so far, and going on while the result stays within a budget, does not
    keep that budget where the next profile, or whether there is one, is chosen by looking at the releases before. On
    every path the composed profile may meet the budget, and the whole exceed it. Adding up pure epsilons, or pairs
    ``(epsilon, delta)`` with one epsilon per release, can be used to stop.

    References
    ----------
    Zhu, Dong and Wang (2022); arXiv 2602.06756, on filters of profiles. Proof and a counterexample:
    docs/theory/sampling-is-noise.md, "Composition".
    """
    if not profiles:
        raise ParameterError("composition needs at least one release")
    if len(profiles) == 1:
        return profiles[0]
    distinct = [profile for place, profile in enumerate(profiles) if profile not in profiles[:place]]
    counts = [profiles.count(profile) for profile in distinct]
    reaches = []  # beyond them at most a negligible delta, or the profile's constant floor, remains
    for profile in distinct:
        reaches.append(fallen_to(profile, profile.delta(math.inf) * (1.0 + 1e-12) + _NEGLIGIBLE, relative=1e-3))
        if profile.delta(reaches[-1]) > 1.0 - 1e-9:
            return ConstantProfile(value=1.0, tight=False)  # one of them reveals everything
    total = sum(reach * count for reach, count in zip(reaches, counts, strict=True))
    # One grid for all: fine enough for the narrowest profile, coarse enough for the sum to stay below 4 million points.
    interval = max(min((reach for reach in reaches if reach > 0), default=1.0) / _POINTS, 2.0 * total / 4e6)
    parts = []
    for profile, reach, count in zip(distinct, reaches, counts, strict=True):
        distribution = _loss_distribution(profile, reach, interval)
        if count > 1:
            distribution = distribution.self_compose(count)
        parts.append(distribution)
    joint = reduce(lambda a, b: a.to_dense_pmf().compose(b.to_dense_pmf(), 1e-15), parts)
    pure = up(sum(profile.pure for profile in profiles), 4 * len(profiles))
    return ComposedProfile(releases=len(profiles), distribution=joint, pure_epsilon=pure)


def power(profile: Profile, count: int) -> Profile:
    """Return the profile of a number of releases with the same profile, fixed beforehand as for :func:`compose`."""
    return compose([profile] * integer("count", count, least=1))


def fallen_to(profile: Profile, target: float, *, relative: float) -> float:
    """Return an epsilon, at most 700, at which delta is at most the target, within ``relative`` of the least."""
    low, high = 0.0, min(profile.pure, 700.0)
    if profile.delta(0.0) <= target:
        return 0.0
    while high - low > relative * high:
        middle = 0.5 * (low + high)
        if profile.delta(middle) <= target:
            high = middle
        else:
            low = middle
    return high


def _loss_distribution(profile: Profile, reach: float, interval: float) -> Any:
    from dp_accounting.pld import pld_pmf

    top = max(1, math.ceil(reach / interval)) if reach > 0 else 0
    if top == 0:
        # Nothing or everything is revealed: a loss of 0, or infinite.
        value = profile.delta(0.0)
        return pld_pmf.create_pmf({0: 1.0 - value}, interval, value, True)
    step = max(1, top // (4 * _POINTS))  # a coarser support on the same grid, where the grid is finer than needed
    index = np.unique(np.append(np.arange(0, top + 1, step), top))
    epsilon = index * interval
    delta = np.array([profile.delta(e) for e in epsilon.tolist()])
    support = np.concatenate((-index[:0:-1], index))
    # The true profile lies below the largest function that is convex in e^eps and below the dots. An exact profile is
    # convex as it is. A bound need not be, and dots that are not would give negative probabilities.
    values = np.minimum.accumulate(delta)
    corners: list[int] = []
    for i in range(len(epsilon)):
        while len(corners) > 1 and values[corners[-1]] >= _line(epsilon, values, corners[-2], i, corners[-1]):
            corners.pop()
        corners.append(i)
    for low, high in pairwise(corners):
        values[low:high] = _line(epsilon, values, low, high, np.arange(low, high))
    negative = -np.expm1(-epsilon[:0:-1]) + np.exp(-epsilon[:0:-1]) * values[:0:-1]
    values = np.minimum(1.0, np.concatenate((negative, values)))
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, support, np.minimum.accumulate(values))


def _line(epsilon: Floats, delta: Floats, low: int, high: int, places: Any) -> Any:
    """Return the line through two dots, in ``e^eps``, at others between them."""
    share = np.expm1(epsilon[places] - epsilon[high]) / math.expm1(epsilon[low] - epsilon[high])
    return share * delta[low] + (1.0 - share) * delta[high]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRangeProfile(Profile):
    """The largest profile that losses within an interval of a given length can have, wherever the interval lies.

    ``spread``: length of the interval, positive and finite, rounded up by the caller. It is T10 of
    docs/theory/exponential-histogram.md, attained by some mechanism (Dong, Durfee and Rogers 2020): an upper bound.
    """

    spread: float

    @property
    def pure(self) -> float:
        """``spread``."""
        return self.spread

    def _delta(self, epsilon: float) -> float:
        half = math.expm1(0.5 * (not_above(epsilon) - self.spread))
        return up(half * half / -math.expm1(-self.spread), 16)
