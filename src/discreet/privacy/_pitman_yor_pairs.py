"""Profile of the Pitman-Yor release, discount in ``(0, 1)``: the largest of six divergences, or bounds on them (T21).

Why this file exists. Up to data processing a replaced record leads to a move between values, an opening
(:mod:`~discreet.privacy._opening_pair`) or an exchange of values held once (theorem T11). An opening reveals the more,
the less mass opens new values. So of all tables three are the worst: two values of which one is held twice, a third
value beside them, and one value held ``n`` times.

Up to 1,024 draws the openings are followed draw by draw: every number is exact. Beyond, the number of opened values is
taken after a random number of draws, where it has a closed law, and the result is an upper bound. Both are tables made
once: a sum over them gives delta at any epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.numeric import log_beta_binomial, log_rising, not_above, up
from discreet._core.numeric._log_space import log_error
from discreet.privacy._opening_pair import NEGLIGIBLE, OpeningPair, beta_binomial_range, openings, singular
from discreet.privacy._profile import Profile
from discreet.privacy._sampling_pairs import UrnPair

_FOLLOWED = 1024  # draws that are followed one by one
_MOST = 4_000_000  # terms of one sum
_APART = 3.5  # standard deviations between the number of draws and the random one
_DOUBT = 16 * float(np.finfo(float).eps)


@dataclass(frozen=True, kw_only=True)
class PitmanYorPairs(Profile):
    """Profile of the release, as long as new values are not taken for held ones (theorem T21).

    ``size``, ``n``: numbers of draws and of records.
    ``strength``, ``discount``: ``theta > -sigma`` and ``sigma`` in ``(0, 1)``.
    ``group``: number of replaced records, at most ``n``.
    ``attained``: whether new values differ from all others, so that a pair of tables can attain it.

    Notes
    -----
    For one record, the maximum of what drawing a value held once tells, ``1 - prod (1 - (1-sigma)/(theta+n+i))``; of
    the move ``M(1-sigma, 1-sigma)``, if ``n >= 3``; and of both orders of the openings
    ``O(1-sigma, theta + 2 sigma)``, if ``n >= 3``, and ``O(n-1-sigma, theta+sigma)``, if ``n >= 2``.

    For ``g`` records an upper bound: with probability ``c = prod (1 - (g-1)/(theta+n+i))`` no draw descends from all
    but one of them, and then what is drawn is a release of ``n - g + 1`` records of which one is replaced:
    ``1 - c (1 - delta_1)``. It is attained at large epsilon, and where ``g = n``.
    """

    size: int
    n: int
    strength: float
    discount: float
    group: int = 1
    attained: bool = True

    @property
    def exact(self) -> bool:
        """Whether every draw is followed and some tables attain it."""
        return self.attained and (self.group == self.n or (self.group == 1 and self.size <= _FOLLOWED))

    @property
    def _held(self) -> int:
        """Number of records that are left of the table, the replaced one among them."""
        return self.n - self.group + 1

    @cached_property
    def _told(self) -> float:
        """Probability that a draw descends from one of the records that are left out."""
        return singular(self.size, self.group - 1.0, self.strength + self.n)

    @cached_property
    def _coupled(self) -> float:
        return singular(self.size, 1.0, self.strength + self._held)

    @cached_property
    def _alone(self) -> float:
        return singular(self.size, 1.0 - self.discount, self.strength + self._held)

    @cached_property
    def _move(self) -> UrnPair | None:
        least, rest = 1.0 - self.discount, self.strength + self._held - 3.0 + 2.0 * self.discount
        return UrnPair(size=self.size, a=least, b=least, rest=rest) if self._held >= 3 else None

    @cached_property
    def _orders(self) -> list[_Order | None]:
        sigma, theta, n = self.discount, self.strength, self._held
        if n == 1:
            return []
        one = OpeningPair(size=self.size, a=n - 1.0 - sigma, phi=theta + sigma, others=0.0, discount=sigma)
        two = replace(one, a=1.0 - sigma, phi=theta + 2.0 * sigma, others=n - 2.0 - sigma)
        if self.size <= _FOLLOWED:
            return _both(_followed, one) + (_both(_followed, two) if n >= 3 else [])
        fewest, _ = beta_binomial_range(self.size, one.a, one.phi + sigma)
        if self.size - fewest <= _FOLLOWED:
            return _both(_followed, one) + _both(_after_random_draws, two)
        return _both(_after_random_draws, replace(one, a=1.0 - sigma, others=n - 2.0))  # no less than either

    def _one(self, epsilon: float) -> float:
        """Return delta for one of the records that are left; never above the coupling bound."""
        largest = self._alone if self._move is None else max(self._alone, self._move.delta(epsilon))
        for order in self._orders:
            largest = max(largest, self._coupled if order is None else order.delta(not_above(epsilon)))
        return min(largest, self._coupled)

    def _delta(self, epsilon: float) -> float:
        return min(1.0, up(self._told + (1.0 - self._told) * self._one(epsilon)))


class _Order(NamedTuple):
    """One order of an opening: the law of draws of its value and of opened values, and the ratio they have."""

    alone: float
    """Probability of what the other law cannot give."""
    a: float
    forward: bool
    draws: Floats
    weight: Floats
    """Of each number of draws; probabilities of that which is not ``alone``, rounded up."""
    h: Floats
    chance: Floats
    """Of each ``h``, or bounds: for each number of draws, or one for all."""
    scale: Floats
    """What the sum for each number of draws is multiplied with."""
    left_out: float

    def delta(self, epsilon: float) -> float:
        """Return the divergence, or a bound on it."""
        grown = (self.a + self.draws) / self.a
        odds = grown if self.forward else 1.0 / grown
        seen = odds > math.exp(epsilon) * (1.0 - _DOUBT) if self.forward else np.ones(len(odds), dtype=np.bool_)
        need = math.exp(epsilon) / odds[seen]
        chance = self.chance[seen] if len(self.chance) > 1 else self.chance
        gain = np.maximum(0.0, 1.0 + _DOUBT - (np.multiply.outer(need, self.h if self.forward else 1.0 / self.h)))
        most = np.maximum(0.0, 1.0 + _DOUBT - need) if self.forward else 1.0  # as h is at least 1
        rows = np.minimum(most, self.scale[seen] * ((gain * chance).sum(axis=1) + self.left_out))
        return min(1.0, up(self.alone + float(self.weight[seen] @ rows)) + self.left_out)


def _both(table: Callable[..., _Order | None], pair: OpeningPair) -> list[_Order | None]:
    """Return both orders of a pair."""
    return [table(pair, forward=forward) for forward in (True, False)]


def _drawn(pair: OpeningPair, *, forward: bool) -> tuple[float, float, Floats, Floats]:
    """Return the probability that is singular, the opening mass, the draws of the value and their weights."""
    total = pair.a + 1.0 + pair.phi + pair.others
    alone = 0.0 if forward else singular(pair.size, 1.0 - pair.discount, total)
    opening, mass = (pair.phi, pair.a + 1.0) if forward else (pair.phi + pair.discount, pair.a)
    low, high = beta_binomial_range(pair.size, mass, opening + pair.others)
    if high - low > _MOST:
        return alone, opening, np.empty(0), np.empty(0)
    draws = np.arange(low, high + 1, dtype=np.float64)
    slack = math.exp(log_error(pair.size, total) + _DOUBT * pair.size) * (1.0 - alone)
    weight = slack * np.exp(log_beta_binomial(draws, float(pair.size), mass, opening + pair.others))
    return alone, opening, draws, weight


def _followed(pair: OpeningPair, *, forward: bool) -> _Order:
    """Return an order with the exact law of the openings."""
    alone, opening, draws, weight = _drawn(pair, forward=forward)
    counts = (pair.size - draws[::-1]).astype(np.int64)
    rows = list(openings(opening, pair.others, pair.discount, counts))[::-1]
    first = min(low for _, low, _ in rows)
    chance = np.zeros((len(rows), max(low + len(law) for _, low, law in rows) - first))
    for row, (_, low, law) in zip(chance, rows, strict=True):
        row[low - first : low - first + len(law)] = law
    opened = np.arange(first, first + chance.shape[1], dtype=np.float64)
    h = (pair.phi + opened * pair.discount) / pair.phi
    left_out = 2 * NEGLIGIBLE * (pair.size + 2)
    return _Order(alone, pair.a, forward, draws, weight, h, chance, np.ones(len(draws)), left_out)


def _after_random_draws(pair: OpeningPair, *, forward: bool) -> _Order | None:
    """Return an order with a bound on the law of the openings; None where the sum would be too long.

    After a negative binomial number of draws of shape ``B = opening + others``, mean ``B (e^t - 1)``, the openings are
    negative binomial of shape ``opening/sigma`` and mean ``opening/sigma (e^(sigma t) - 1)``. What falls with the
    openings is at most what it is there, over the probability of no more draws than there are; what rises with them,
    over that of no fewer.
    """
    alone, opening, draws, weight = _drawn(pair, forward=forward)
    size, base, sigma = float(pair.size), opening + pair.others, pair.discount
    apart = _APART * math.sqrt((base + size) / (base * size))
    mean = size * max(0.05, 1.0 - apart) if forward else size * (1.0 + apart)
    time = math.log1p(mean / base)
    past = size - draws + 1.0 if forward else np.full(len(draws), size - 1.0)  # on the other side of the mean
    with np.errstate(divide="ignore"):
        scale = 1.0 / np.maximum(0.0, 1.0 - 1e-9 - _tail(past, mean, base, above=forward))
    shape, kept = opening / sigma, math.exp(-sigma * time)
    expected = shape * math.expm1(sigma * time)
    reach = 20.0 * math.sqrt(expected / kept) + 160.0 / kept
    low, high = max(0.0, math.floor(expected - reach)), math.ceil(expected + reach)
    if len(draws) == 0 or (high - low + 1) * len(draws) > _MOST:
        return None
    k = np.arange(low, high + 1)
    log_law = log_rising(shape, k) - log_rising(1.0, k) - opening * time + k * math.log(-math.expm1(-sigma * time))
    law = np.exp(log_law + log_error(high, shape + high))
    left_out = 2 * NEGLIGIBLE + float(_tail(np.array(high + 1.0), expected, shape, above=True))
    if low > 0.0:
        left_out += float(_tail(np.array(low - 1.0), expected, shape, above=False))
    h = (pair.phi + k * sigma) / pair.phi
    return _Order(alone, pair.a, forward, draws, weight, h, law[np.newaxis], scale, left_out)


def _tail(count: Floats, mean: float, shape: float, *, above: bool) -> Floats:
    """Return Chernoff's bound on a tail of a negative binomial law, from a count on; 1 from the mean's other side."""
    moved = count - mean
    ratio = np.log1p(moved / mean, where=count > 0.0, out=np.zeros(np.shape(count)))
    exponent = (count + shape) * np.log1p(moved / (mean + shape)) - count * ratio
    result: Floats = np.where(moved > 0.0 if above else moved < 0.0, np.exp(np.minimum(0.0, exponent)), 1.0)
    return result
