"""Profile of the Pitman-Yor release with a discount: the largest of six divergences (T21, docs/theory/pitman-yor.md).

Up to 1,024 draws openings are followed one by one; beyond, after a random number of draws: an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from discreet._core.numeric import Floats, Integers, log_beta_binomial, log_error, log_rising, not_above, up
from discreet.privacy.profile import Profile
from discreet.privacy.urn import UrnPair

# The pair of urns that differ by a record moved from a held value to one that only one of the two tables holds: the
# openings of docs/theory/instance-level.md (T11). One pass along the draws serves every ``S``.

_EPS = float(np.finfo(float).eps)
NEGLIGIBLE = 1e-50  # probability left out at a time, and added to the result
_LONGEST = 200_000  # draws followed one by one
_SHORT = 64
_TRIMMED = 16  # draws between two times that negligible chances are dropped
_MOST_TERMS = 20_000_000  # terms of one sum


class Divergence(NamedTuple):
    """Two readings of one ordered pair: the hockey-stick delta, and the probability that the loss exceeds epsilon."""

    hockey_stick: float
    event: float
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningPair:
    """One such pair, of ``size`` draws; ``others`` is the mass of all other held values, at least 0."""

    size: int
    a: float  # positive, as ``phi``
    phi: float
    others: float
    discount: float  # ``sigma`` in ``[0, 1)``
    filtered: bool = False  # whether draws of new values are dropped from the release

    @property
    def _total(self) -> float:
        return self.a + 1.0 + self.phi + self.others

    def forward(self, epsilon: float) -> Divergence:
        """Return the divergence of ``P`` from ``Q``: only draws of the value speak for ``P``."""
        high = math.exp(epsilon)
        start = max(0, math.ceil(self.a * math.expm1(epsilon) * (1.0 - 1e-12)))
        return self._sum(self.a + 1.0, self.phi, start, lambda s, h: high * self.a * h / (self.a + s), 0.0)

    def backward(self, epsilon: float) -> Divergence:
        """Return the divergence of ``Q`` from ``P``: the singled value, or many new values, speak for ``Q``."""
        high = math.exp(epsilon)
        alone = singular(self.size, 1.0 - self.discount, self._total)
        if self.discount == 0.0:
            return Divergence(alone, alone)
        return self._sum(self.a, self.phi + self.discount, 0, lambda s, h: high * (self.a + s) / (self.a * h), alone)

    def backward_event_bound(self, epsilon: float) -> float:
        """Return a bound on the event of :meth:`backward` that does not depend on ``a``."""
        alone = singular(self.size, 1.0 - self.discount, self._total)
        if self.discount == 0.0:
            return alone
        opening, tail = self.phi + self.discount, 1.0
        if self.filtered or self.size <= _LONGEST:
            for _, h, mass in self._rows(opening, self.a + self.others, np.array([self.size])):
                tail = float(mass[h > math.exp(epsilon) * (1.0 - self._doubt)].sum()) + NEGLIGIBLE * self.size
        return min(1.0, alone + (1.0 - alone) * tail * self._slack)

    @property
    def _doubt(self) -> float:
        return log_error(self.size, self._total) if self.filtered else 16 * _EPS

    @property
    def _slack(self) -> float:
        return math.exp(log_error(self.size, self._total) + 16 * _EPS * self.size)

    def _sum(self, mass: float, opening: float, start: int, inverse: Callable[..., Floats], alone: float) -> Divergence:
        """Sum over the draws of the value and the openings; ``inverse(s, h)`` is ``e^(eps - loss)``."""
        low, high = beta_binomial_range(self.size, mass, opening + self.others)
        if high - max(start, low) > _MOST_TERMS:
            return Divergence(singular(self.size, 1.0, self._total), 1.0, exact=False)
        s = np.arange(max(start, low), high + 1, dtype=np.float64)
        left_out = 4 * NEGLIGIBLE
        if len(s) == 0:
            value = alone if start > self.size else alone + left_out  # beyond the size nothing can happen
            value = min(1.0, value)
            return Divergence(value, value)
        weight = np.exp(log_beta_binomial(s, float(self.size), mass, opening + self.others))
        hockey, event, exact = 0.0, 0.0, True
        followed = self.size <= _LONGEST and len(s) * (self.size if self.filtered else 1) <= 10 * _MOST_TERMS
        if self.discount == 0.0 or not followed:
            if alone > 0.0:  # new values may speak for Q: only the coupling bounds them
                return Divergence(singular(self.size, 1.0, self._total), 1.0, exact=False)
            exact = self.discount == 0.0  # otherwise an upper bound, from h >= 1
            ratio = inverse(s, 1.0)
            hockey = float(weight @ np.maximum(0.0, 1.0 - ratio + 4 * _EPS))
            event = float(weight @ (ratio < 1.0 + self._doubt))
        else:
            for count, h, chance in self._rows(opening, self.others, self.size - s.astype(np.int64)[::-1]):
                draws = self.size - count
                ratio = inverse(float(draws), h)
                share = weight[draws - int(s[0])]
                hockey += share * float(chance @ np.maximum(0.0, 1.0 - ratio + self._doubt))
                event += share * float(chance[ratio < 1.0 + self._doubt].sum())
            left_out += 2 * NEGLIGIBLE * self.size
        scale = (1.0 - alone) * self._slack
        hockey, event = (min(1.0, up(alone + scale * value) + left_out) for value in (hockey, event))
        return Divergence(hockey, event, exact)

    def _rows(self, opening: float, others: float, counts: Integers) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield, for ascending numbers of other draws, the values of ``h`` and their probabilities."""
        if self.filtered:
            for count in counts.tolist():
                if others <= 0.0:
                    dropped, chance = np.array([float(count)]), np.ones(1)
                else:
                    low, high = beta_binomial_range(count, opening, others)
                    dropped = np.arange(low, high + 1, dtype=np.float64)
                    chance = np.exp(log_beta_binomial(dropped, float(count), opening, others))
                grown = log_rising(self.phi + self.discount, dropped) - log_rising(self.phi, dropped)
                yield count, np.exp(grown), chance
            return
        for count, least, chance in openings(opening, others, self.discount, counts):
            k = np.arange(least, least + len(chance), dtype=np.float64)
            yield count, (self.phi + k * self.discount) / self.phi, chance


def openings(opening: float, others: float, discount: float, counts: Integers) -> Iterator[tuple[int, int, Floats]]:
    """Yield the law of the number of values opened after ascending numbers of draws: its least one, and chances."""
    # A draw opens a value with probability (opening + k discount)/(opening + others + i). At each draw at most twice
    # the negligible probability is left out.
    targets, most = iter(counts.tolist()), int(counts[-1])
    target = next(targets)
    lifts = discount * np.arange(most + 1, dtype=np.float64)
    opens, stays = opening + lifts, others - lifts
    low, chance = 0, np.ones(1)
    for i in range(most + 1):
        if i % _TRIMMED == 0:
            keep = np.flatnonzero(chance > NEGLIGIBLE)
            low, chance = low + int(keep[0]), chance[keep[0] : keep[-1] + 1]
        if i == target:
            yield i, low, chance
            target = next(targets, -1)
        if i == most:
            return
        here = slice(low, low + len(chance))
        following = np.empty(len(chance) + 1)
        np.multiply(stays[here] + i, chance, out=following[:-1])
        following[-1] = 0.0
        following[1:] += opens[here] * chance
        following /= opening + others + i
        chance = following


def singular(size: int, mass: float, total: float) -> float:
    """Return ``1 - prod_{i<size} (1 - mass/(total + i))``: the probability that a mass is drawn from, rounded up."""
    if mass == 1.0:
        below = total + size - 1.0
        return up(min(1.0, size / below)) if below > 0 else 1.0
    if size <= _MOST_TERMS:
        with np.errstate(divide="ignore"):
            log_never = float(np.log1p(-np.minimum(1.0, mass / (total + np.arange(size, dtype=np.float64)))).sum())
        return min(1.0, up(-math.expm1(log_never) * (1.0 + 1e-12)))
    # The product telescopes to a ratio of rising factorials of fractional length ``mass``.
    remainder = total - mass
    log_never = float(log_rising(remainder, mass) - log_rising(remainder + size, mass))
    return min(1.0, up(-math.expm1(log_never) + 1e-13))


def tail_bounds(size: int, mass: Any, total: float, draws: Floats) -> Floats:
    """Return upper bounds on ``P(S >= draws)``, ``S ~ BetaBin(size; mass, total - mass)``, for each mass."""
    # The geometric series of the tail's first ratio, which falls where both masses are at least 1; else 1.
    remainder = np.maximum(total - mass, 1e-12)
    k = np.minimum(np.maximum(draws, 0.0), float(size))
    slack = math.exp(log_error(size, total))
    term = np.exp(log_beta_binomial(k, float(size), mass, remainder))
    ratio = (size - k) / (k + 1.0) * (mass + k) / np.maximum(remainder + size - k - 1.0, 1e-300)
    with np.errstate(divide="ignore"):
        tail = np.where((ratio < 1.0) & (remainder >= 1.0) & (mass >= 1.0), term * slack / (1.0 - ratio), 1.0)
    return np.where(draws <= size, np.minimum(1.0, tail), 0.0)


def beta_binomial_range(size: int, mass: float, remainder: float) -> tuple[int, int]:
    """Return a range of ``BetaBin(size; mass, rest)`` that leaves out at most twice the negligible probability."""
    if size <= _SHORT or remainder <= 0.0:
        return 0, size
    mean = size * mass / (mass + remainder)

    def dense(s: int) -> bool:
        return float(log_beta_binomial(float(s), float(size), mass, remainder)) > math.log(NEGLIGIBLE / size)

    def edge(inside: int, outside: int) -> int:
        """Return a number from which on, away from the middle, nothing is dense."""
        while abs(outside - inside) > max(16, inside // 64):
            probe = (inside + outside) // 2 if outside < 4 * inside + 4096 else 2 * inside + 1024
            if dense(probe):
                inside = probe
            else:
                outside = probe
        return outside

    # The law is unimodal for masses of at least 1; below that it also rises towards an end, and nothing is left out.
    middle, low, high = min(size, math.floor(mean)), 0, size
    if dense(middle):
        if remainder >= 1.0:
            high = edge(middle, size)
        if mass >= 1.0:
            low = edge(middle, 0)
    return low, high


_FOLLOWED = 1024  # draws that are followed one by one
_MOST = 4_000_000  # terms of one sum
_APART = 3.5  # standard deviations between the number of draws and the random one
_DOUBT = 16 * float(np.finfo(float).eps)


@dataclass(frozen=True, kw_only=True)
class PitmanYorPairs(Profile):
    """Profile of the release, as long as new values are not taken for held ones (theorem T21)."""

    size: int
    n: int
    strength: float
    discount: float
    group: int = 1
    attained: bool = True  # whether new values differ from all others, so that tables can attain it

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
        least, remainder = 1.0 - self.discount, self.strength + self._held - 3.0 + 2.0 * self.discount
        if self._held < 3:
            return None
        return UrnPair(size=self.size, a=least, b=least, rest=remainder)

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

    alone: float  # probability of what the other law cannot give
    a: float
    forward: bool
    draws: Floats
    weight: Floats  # of each number of draws; probabilities of that which is not ``alone``, rounded up
    h: Floats
    chance: Floats  # of each ``h``, or bounds: for each number of draws, or one for all
    scale: Floats  # what the sum for each number of draws is multiplied with
    left_out: float

    def delta(self, epsilon: float) -> float:
        """Return the divergence, or a bound on it."""
        grown, factor = (self.a + self.draws) / self.a, math.exp(epsilon)
        odds, h, live = 1.0 / grown, 1.0 / self.h, np.ones(len(grown), dtype=np.bool_)
        if self.forward:
            odds, h, live = grown, self.h, grown > factor * (1.0 - _DOUBT)
        need = factor / odds[live]
        chance = self.chance[live] if len(self.chance) > 1 else self.chance
        gain = np.maximum(0.0, 1.0 + _DOUBT - np.multiply.outer(need, h))
        most = np.maximum(0.0, 1.0 + _DOUBT - need) if self.forward else 1.0  # as h is at least 1
        rows = np.minimum(most, self.scale[live] * ((gain * chance).sum(axis=1) + self.left_out))
        return min(1.0, up(self.alone + float(self.weight[live] @ rows)) + self.left_out)


def _both(table: Callable[..., _Order | None], pair: OpeningPair) -> list[_Order | None]:
    return [table(pair, forward=forward) for forward in (True, False)]


def _drawn(pair: OpeningPair, *, forward: bool) -> tuple[float, float, Floats, Floats]:
    """Return the probability that is singular, the opening mass, the draws of the value and their weights."""
    total = pair.a + 1.0 + pair.phi + pair.others
    alone, opening, mass = 0.0, pair.phi, pair.a + 1.0
    if not forward:
        alone, opening, mass = singular(pair.size, 1.0 - pair.discount, total), pair.phi + pair.discount, pair.a
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
    rows = list(openings(opening, pair.others, pair.discount, (pair.size - draws[::-1]).astype(np.int64)))[::-1]
    least = min(low for _, low, _ in rows)
    chance = np.zeros((len(rows), max(low + len(law) for _, low, law in rows) - least))
    for row, (_, low, law) in zip(chance, rows, strict=True):
        row[low - least : low - least + len(law)] = law
    h = (pair.phi + (least + np.arange(chance.shape[1], dtype=np.float64)) * pair.discount) / pair.phi
    left_out = 2 * NEGLIGIBLE * (pair.size + 2)
    return _Order(alone, pair.a, forward, draws, weight, h, chance, np.ones(len(draws)), left_out)


def _after_random_draws(pair: OpeningPair, *, forward: bool) -> _Order | None:
    """Return an order with a bound on the law of the openings; None where the sum would be too long."""
    # After a negative binomial number of draws the openings are negative binomial: docs/theory/pitman-yor.md, "Beyond".
    alone, opening, draws, weight = _drawn(pair, forward=forward)
    size, base, sigma = float(pair.size), opening + pair.others, pair.discount
    margin = _APART * math.sqrt((base + size) / (base * size))
    mean, past = size * (1.0 + margin), np.full(len(draws), size - 1.0)  # past: on the other side of the mean
    if forward:
        mean, past = size * max(0.05, 1.0 - margin), size - draws + 1.0
    time = math.log1p(mean / base)
    with np.errstate(divide="ignore"):
        scale = 1.0 / np.maximum(0.0, 1.0 - 1e-9 - _tail(past, mean, base, above=forward))
    shape, decay = opening / sigma, math.exp(-sigma * time)
    expected = shape * math.expm1(sigma * time)
    reach = 20.0 * math.sqrt(expected / decay) + 160.0 / decay
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
    return np.asarray(np.where(moved > 0.0 if above else moved < 0.0, np.exp(np.minimum(0.0, exponent)), 1.0))
