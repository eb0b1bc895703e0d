"""Profiles for groups of records: as a chain of single replacements, and exact ones of the urn for small groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations_with_replacement, permutations, product
from typing import ClassVar, NamedTuple

import numpy as np

from discreet._core import numeric
from discreet._core.boundary import sealed
from discreet._core.numeric import Floats, Integers, LogRatio, least_value, log_beta_binomial, log_rising, not_above, up
from discreet.privacy.profile import Profile

_MOST_ENTRIES = 1_000_000
_LARGEST_GROUP = 3
_SEARCHED = 16  # larger groups of a chain are split evenly
_ROUNDING = 1e-13  # of a loss, and of a sum of probabilities
_TAILS = (1e-18, 1e-14, 1e-11)  # probability of the outcomes that are counted in full: the first that is affordable


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class LargestProfile(Profile):
    """The pointwise maximum of at least one profile: a bound that holds for each of several kinds of neighbours."""

    furthest: ClassVar[float] = math.inf

    profiles: Sequence[Profile]

    @property
    def exact(self) -> bool:
        """Whether all of them are."""
        return all(p.exact for p in self.profiles)

    @property
    def pure(self) -> float:
        """The largest of their pure epsilons."""
        return max(p.pure for p in self.profiles)

    def _delta(self, epsilon: float) -> float:
        return max(p.delta(epsilon) for p in self.profiles)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class ChainProfile(Profile):
    """An upper bound on the profile between tables that differ in ``group`` records.

    Lemma 7 of docs/theory/sampling-is-noise.md, with parts of epsilon in arithmetic progression; or ``g delta(0)``.
    """

    single: Profile  # of one record, or a bound on it
    group: int  # at least 2

    @property
    def pure(self) -> float:
        """``g`` times the pure epsilon of one record."""
        return up(self.group * self.single.pure)

    def _at(self, epsilon: float, step: float) -> float:
        middle = (self.group - 1) / 2.0
        total, spent = 0.0, 0.0
        for i in range(self.group):
            part = epsilon / self.group + step * (i - middle)
            total += math.exp(spent) * self._one(part)
            spent += part
            if total >= 1.0:
                return 1.0
        return total

    def _one(self, epsilon: float) -> float:
        if epsilon >= 0:
            return self.single.delta(epsilon)
        return -math.expm1(epsilon) + math.exp(epsilon) * self.single.delta(-epsilon)

    def _delta(self, epsilon: float) -> float:
        spent = not_above(epsilon) * (1.0 - 1e-15 * self.group)  # the parts add up to epsilon but for rounding
        return min(self._chain(spent), up(min(1.0, self.group * self.single.delta(0.0))))

    def _chain(self, epsilon: float) -> float:
        if self.group > _SEARCHED:  # equal parts: a geometric series of one value
            part = epsilon / self.group
            series = self.group if part == 0 else math.expm1(epsilon) / math.expm1(part)
            return up(min(1.0, series * self._one(part) * (1.0 + 1e-12)), 8)
        # The bound as a function of the step has one valley.
        furthest = 2.0 * (epsilon + 1.0) / (self.group - 1)
        return up(least_value(partial(self._at, epsilon), 0.0, furthest, steps=18)[0], 8)


@sealed
@dataclass(frozen=True, kw_only=True)
class GroupUrn(Profile):
    """Profile of the Dirichlet-multinomial release between tables that differ in up to ``group`` records.

    docs/theory/dirichlet-multinomial.md, "Groups". Where outcomes of probability 1e-18 to 1e-11 are not summed, but
    counted in full, only deltas well above that are within 1 %, and the profile calls itself an upper bound.
    """

    _near: ClassVar[float] = 1e-9

    size: int  # number of records drawn
    prior: float  # mass of each of the ``cells``
    cells: int
    n: int  # number of records that the table holds
    group: int  # 2 or 3
    bound: Profile  # an upper bound, returned where the exact sum would be too long

    @cached_property
    def _splits(self) -> list[tuple[int, ...]]:
        """The partitions of every number of records up to the group; none where it is larger than those summed here."""
        counts = range(1, self.group + 1) if 2 <= self.group <= _LARGEST_GROUP else range(0)
        splits = [parts for count in counts for parts in combinations_with_replacement(counts, count)]
        return [parts for parts in splits if sum(parts) <= self.group]

    @property
    def _matches(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Splits among source cells, and those of as many records among target cells."""
        return [(s, t) for s, t in product(self._splits, repeat=2) if sum(s) == sum(t)]

    @property
    def exact(self) -> bool:
        """Whether every outcome is summed, and there are cells enough for every split beside an undisturbed one."""
        if not self._splits or self.cells <= 2 * self.group:
            return False
        return all(_entries(self.size, sources, targets) <= _MOST_ENTRIES for sources, targets in self._matches)

    @property
    def pure(self) -> float:
        """The largest loss over all splits, rounded up; the bound's for groups above 3."""
        if self._end is None:
            return self.bound.pure
        return self._end.ceiling()

    @cached_property
    def _end(self) -> LogRatio | None:
        splits = [parts for parts in self._splits if len(parts) < self.cells]
        ratios = [_largest_ratio(self.size, Fraction(self.prior), parts) for parts in splits]
        return LogRatio(max(ratios)) if ratios else None

    @cached_property
    def _pairs(self) -> list[_SplitPair]:
        pairs = []
        for sources, targets in self._matches:
            if len(sources) + len(targets) <= self.cells:
                pair = _SplitPair.from_partitions(self, sources, targets)
                if pair is None:
                    return []
                pairs.append(pair)
        return pairs

    def _delta(self, epsilon: float) -> float:
        if not self._pairs:
            return self.bound.delta(epsilon)
        epsilon = not_above(epsilon)
        slack = math.exp(numeric.log_error(self.size, self.n + self.prior * self.cells)) * (1.0 + 1e-9)
        delta = up(max(pair.delta(epsilon) for pair in self._pairs) * slack)
        if self.exact:
            return delta
        return min(self.bound.delta(epsilon), delta)


class _SplitPair(NamedTuple):
    """One pair of partitions, with the sums over targets prepared for every epsilon."""

    rows: list[tuple[Floats, Floats, Floats, Floats, Floats]]
    tail_mass: float

    @classmethod
    def from_partitions(cls, urn: GroupUrn, sources: tuple[int, ...], targets: tuple[int, ...]) -> _SplitPair | None:
        """Prepare a pair; None where there are too many outcomes to keep."""
        size, prior = urn.size, urn.prior
        inside = (len(sources) + len(targets)) * prior + sum(sources)
        outside = urn.n + urn.cells * prior - inside
        for tail in (0.0, *_TAILS):
            reach, tail_mass = _summed_draws(size, inside, outside, tail) if tail else (size, 0.0)
            if _entries(reach, sources, targets) <= _MOST_ENTRIES:
                break
        else:
            return None
        source_total, source_weight, source_ratio = _side(reach, prior, sources, sources)
        target = _side(reach, prior, targets, (0,) * len(targets))
        order = np.argsort(target[2], kind="stable")
        total, weight, ratio = target[0][order], target[1][order], target[2][order]
        # log( m!/(m-u)! (rest)_{m-u} / (inside+rest)_m ), u = 0 .. reach: P(U = u) without (inside)_u / u!
        u = np.arange(reach + 1, dtype=np.float64)
        log_outside = np.where(u == size, 0.0, -np.inf)
        if outside > 0:
            log_outside = log_beta_binomial(u, float(size), inside, outside)
        log_outside = log_outside - (log_rising(inside, u) - log_rising(1.0, u))
        rows = []
        for v in range(reach + 1):
            place, keep = source_total == v, total <= reach - v
            log_mass = weight[keep] + log_outside[v + total[keep]]
            top = float(log_mass.max())
            mass, lower = np.exp(log_mass - top), ratio[keep]
            plain, tilted = (np.append(0.0, np.cumsum(terms)) for terms in (mass, mass * np.exp(lower)))
            rows.append((np.exp(source_weight[place] + top), source_ratio[place], lower, plain, tilted))
        return cls(rows, tail_mass)

    def delta(self, epsilon: float) -> float:
        """Return the profile of this pair, outcomes beyond the reach counted in full."""
        value, rounding = 0.0, _ROUNDING * (1.0 + epsilon)
        for mass, high, lower, plain, tilted in self.rows:
            place = np.searchsorted(lower, high - epsilon + 0.2 * rounding, side="left")  # ties are counted
            gain = plain[place] - np.exp(np.minimum(700.0, epsilon - high)) * tilted[place] + rounding * plain[place]
            value += float(mass @ np.maximum(gain, 0.0))
        return value + self.tail_mass


def _entries(reach: int, sources: tuple[int, ...], targets: tuple[int, ...]) -> int:
    """Return how many sums a pair of partitions keeps, up to a number of draws in the cells involved."""
    sums = math.comb(reach + len(targets), len(targets)) * (reach + 1)
    return max(sums, math.comb(reach + len(sources), len(sources)))


def _largest_ratio(size: int, prior: Fraction, parts: tuple[int, ...]) -> Fraction:
    """Return the largest of ``prod_i (a+s_i)_{g_i}/(a)_{g_i}`` over draws ``s`` that sum to the size."""
    # Every factor's logarithm is concave in its draws: between two parts, one more draw is worth less and less.
    draws = [size // len(parts) + (i < size % len(parts)) for i in range(len(parts))]

    def value(draws: list[int]) -> Fraction:
        pairs = [(count, i) for part, count in zip(parts, draws, strict=True) for i in range(part)]
        return math.prod(((prior + count + i) / (prior + i) for count, i in pairs), start=Fraction(1))

    step = size if len(set(parts)) > 1 else 0  # between equal parts, an even split is the largest
    while step:
        moves = [
            [count + step * ((i == target) - (i == source)) for i, count in enumerate(draws)]
            for source, target in permutations(range(len(parts)), 2)
            if draws[source] >= step
        ]
        best = max(moves, key=value, default=draws)
        if value(best) > value(draws):
            draws = best
        else:
            step //= 2
    return value(draws)


def _side(reach: int, prior: float, parts: tuple[int, ...], start: tuple[int, ...]) -> tuple[Integers, Floats, Floats]:
    """List the draws of one side's cells up to a total of ``reach``: totals, log-weights, log-likelihood ratios."""
    total, log_weight, log_ratio = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
    draws = np.arange(reach + 1, dtype=np.float64)
    for part, held in zip(parts, start, strict=True):
        cell_weight = log_rising(prior + held, draws) - log_rising(1.0, draws)
        cell_ratio = log_rising(prior + draws, np.full(reach + 1, float(part))) - float(log_rising(prior, float(part)))
        joint = total[:, None] + np.arange(reach + 1)
        keep = joint <= reach
        total = joint[keep]
        log_weight = (log_weight[:, None] + cell_weight)[keep]
        log_ratio = (log_ratio[:, None] + cell_ratio)[keep]
    return total, log_weight, log_ratio


def _summed_draws(size: int, inside: float, outside: float, most_beyond: float) -> tuple[int, float]:
    """Return how many draws in the cells involved are summed, and the probability of more."""
    if outside <= 0:
        return size, 0.0
    most = min(size, 2000)
    mass = np.exp(log_beta_binomial(np.arange(most + 1, dtype=np.float64), float(size), inside, outside))
    ratio = mass[-1] / mass[-2] if most >= 1 and mass[-2] > 0 else 0.0
    tail = 0.0 if most == size else (mass[-1] * ratio / (1.0 - ratio) if ratio < 1.0 else 1.0)
    tail_mass = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0) + tail  # P(U > u)
    small = np.flatnonzero(tail_mass <= most_beyond)
    reach = int(small[0]) if len(small) else most
    return reach, float(tail_mass[reach])
