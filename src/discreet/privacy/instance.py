"""Deltas of one table, whose urns suffer a move between held values, an opening or an exchange (T11)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import BudgetError, ParameterError, real
from discreet._core.numeric import Booleans, Floats, Integers, log_beta_binomial, log_error, log_rising, up
from discreet._core.text import about
from discreet.privacy.pitman_yor import Divergence, OpeningPair, beta_binomial_range, singular, tail_bounds
from discreet.privacy.urn import UrnPair


@sealed
class InstanceDelta(NamedTuple):
    """One delta of one table, never below the truth. Confidential."""

    delta: float
    exact: bool  # whether it is the value itself, rather than an upper bound
    change: str  # the worst change of one record, in words
    pair: UrnPair | OpeningPair | None = None  # the pair of laws it leads to; None for an exchange of values held once
    forward: bool = True  # whether the divergence is of the pair's first law from its second


class Opening(NamedTuple):
    """A change of which values are held: the pair, which of its laws is this table's or comes first, and words."""

    pair: OpeningPair
    forward: bool
    change: str
    rarest: bool  # whether no other change of this kind moves a rarer value: then none is worse, in the tight reading


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldTable:
    """What the law of an urn started from a table depends on. Confidential."""

    size: int  # number of draws, ``m``
    total: float  # mass of the whole urn, ``theta + n``
    mass: Floats  # shape (k,): distinct masses of values, ascending
    losing: Integers  # shape (k,): how many values of that mass may lose a record and stay
    gaining: Integers  # shape (k,): how many may gain one
    frequencies: Integers  # shape (j,): distinct frequencies, ascending; empty on a finite domain
    strength: float = 0.0  # of the Pitman-Yor urn
    discount: float = 0.0  # of the Pitman-Yor urn
    filtered: bool = False  # whether draws of new values are dropped from the release
    fresh: bool = True  # whether there is a value that the table does not hold

    @classmethod
    def pitman_yor(
        cls, frequencies: Integers, *, size: int, strength: float, discount: float = 0.0, **facts: bool
    ) -> HeldTable:
        """Return that of a Pitman-Yor release from the frequencies of values; ``facts``: ``filtered``, ``fresh``."""
        distinct, count = np.unique(np.asarray(frequencies, dtype=np.int64), return_counts=True)
        if len(distinct) == 0 or distinct[0] < 1:
            raise ParameterError("frequencies must be integers of at least 1")
        urn: dict[str, Any] = {"size": size, "strength": strength, "discount": discount, **facts}
        total, mass = strength + int((distinct * count).sum()), (distinct - discount).astype(np.float64)
        losing, gaining = np.where(distinct > 1, count, 0).astype(np.int64), count.astype(np.int64)
        return cls(total=total, mass=mass, losing=losing, gaining=gaining, frequencies=distinct, **urn)

    @classmethod
    def dirichlet(cls, mass: Floats, held: Booleans, *, size: int, total: float) -> HeldTable:
        """Return the table of a Dirichlet-multinomial release from some cells that include the lightest."""
        # mass, held, shape (cells,): prior mass, and whether a cell holds a record. total: mass of all cells.
        distinct, place = np.unique(mass, return_inverse=True)
        losing = np.bincount(place, weights=held, minlength=len(distinct)).astype(np.int64)
        gaining, nothing = np.bincount(place, minlength=len(distinct)).astype(np.int64), np.empty(0, dtype=np.int64)
        return cls(size=size, total=total, mass=distinct, losing=losing, gaining=gaining, frequencies=nothing)

    def openings(self, *, two_sided: bool) -> Iterator[Opening]:
        """Yield every change of the number of distinct values; from the neighbour's side too where asked."""
        if not len(self.frequencies):
            return
        n, j, sigma = int((self.frequencies * self.gaining).sum()), int(self.gaining.sum()), self.discount
        pair_of = partial(OpeningPair, size=self.size, discount=sigma, filtered=self.filtered)
        several = self.frequencies[(self.frequencies > 1) & self.fresh].tolist()
        for r in several:  # this table is the P of its pair
            words = f"a record moves from a value held {r} times to one that is not held"
            others = (n - r) - (j - 1) * sigma
            pair = pair_of(a=r - 1 - sigma, phi=self.strength + j * sigma, others=others)
            for forward in (True, False) if two_sided else (True,):
                yield Opening(pair, forward, words, r == several[0])
        able = ((self.frequencies > 1) | (self.gaining > 1)) & (1 in self.frequencies)
        targets = self.frequencies[able].tolist()
        for r in targets:  # this table is the Q of its pair
            words = "the record of a value held once moves to " + _held(r, "another")
            others = (n - 1 - r) - (j - 2) * sigma
            pair = pair_of(a=r - sigma, phi=self.strength + (j - 1) * sigma, others=others)
            for forward in (False, True) if two_sided else (False,):
                yield Opening(pair, forward, words, r == targets[0])

    @property
    def exchange(self) -> InstanceDelta:
        """What drawing a value held once reveals, if its record could be of one that is not held."""
        if not (self.fresh and 1 in self.frequencies):
            return InstanceDelta(0.0, True, "no record can change")
        alone = singular(self.size, 1.0 - self.discount, self.total)
        return InstanceDelta(alone, True, "the record of a value held once moves to one that is not held")

    def value(self, i: int) -> str:
        """Describe a value of the i-th mass."""
        if len(self.frequencies):
            return _held(int(self.frequencies[i]))
        return f"a cell of mass {about(self.mass[i], 6)}"

    def may_pair(self, i: int, j: int) -> bool:
        """Return whether a record can leave a value of the i-th mass for another one of the j-th."""
        return bool(self.losing[i] > 0 and self.gaining[j] > 0 and (i != j or self.gaining[i] > 1))


def _held(r: int, value: str = "a value") -> str:
    return f"{value} held once" if r == 1 else f"{value} held {r} times"


# The papers' instance-level delta jumps with the integers, so that every pair of distinct frequencies is a candidate.
# They are evaluated in the order of their bounds, each the tail of one beta-binomial law, as long as the work allows.

Sums = Callable[[OpeningPair, bool], Divergence]  # of one direction of an opening pair, each summed once
_Search = Callable[[float], tuple[InstanceDelta, int]]  # given the largest value so far: the probability, and its terms

_WORK = 30_000_000  # terms that a search may add up


class _Candidate(NamedTuple):
    words: str
    refine: Callable[[], float]  # gives a closer bound on the probability
    evaluate: _Search


def event_reading(table: HeldTable, epsilon: float, sums: Sums, *, two_sided: bool) -> InstanceDelta:
    """Return the largest probability, under this table or also its neighbours, that the loss exceeds epsilon."""
    best = table.exchange
    candidates = list(_changes(table, epsilon, sums, two_sided=two_sided))
    heap = [(-bound, number, 0) for number, (bound, _) in enumerate(candidates)]
    heapq.heapify(heap)
    work = 0
    while heap and -heap[0][0] > best.delta:
        negative, number, stage = heapq.heappop(heap)
        candidate = candidates[number][1]
        if work > _WORK:
            return InstanceDelta(-negative, False, candidate.words)
        if stage == 0:
            heapq.heappush(heap, (max(negative, -candidate.refine()), number, 1))
            work += 1024
            continue
        reading, terms = candidate.evaluate(best.delta)
        work += terms
        best = max(best, reading, key=lambda one: one.delta)
    return best


def _changes(table: HeldTable, epsilon: float, sums: Sums, *, two_sided: bool) -> Iterator[tuple[float, _Candidate]]:
    """Yield bounds and candidates: a change that opens or closes a value, or all moves from, or to, one mass."""
    # A loss above epsilon needs S > (e^eps - 1) a draws of the value that weighs a + 1 here, whatever else happens.
    grow = math.expm1(epsilon) * (1.0 - 1e-12)
    losing, gaining = (
        tail_bounds(table.size, a + 1.0, table.total, np.ceil(grow * np.maximum(a, 0.0)))
        for a in (table.mass - 1.0, table.mass)
    )

    def tail(a: float) -> Callable[[], float]:
        return partial(_tail_probability, table.size, a + 1.0, table.total, math.ceil(grow * a))

    def opens(opening: Opening, _: float) -> tuple[InstanceDelta, int]:
        value = sums(opening.pair, opening.forward)
        terms = 4096 if table.discount == 0.0 else 64 * table.size
        return InstanceDelta(value.event, value.exact, opening.change, opening.pair, opening.forward), terms

    listed = list(table.openings(two_sided=two_sided))
    masses = np.array([opening.pair.a for opening in listed])
    one_sided = tail_bounds(table.size, masses + 1.0, table.total, np.ceil(grow * masses)).tolist()
    new_values: dict[float, float] = {}  # bounds that depend on the kind of change only
    for opening, bound in zip(listed, one_sided, strict=True):
        pair = opening.pair
        if opening.forward:
            yield bound, _Candidate(opening.change, tail(pair.a), partial(opens, opening))
            continue
        if pair.phi not in new_values:
            new_values[pair.phi] = pair.backward_event_bound(epsilon)
        refine = partial(float, new_values[pair.phi])
        yield refine(), _Candidate(opening.change, refine, partial(opens, opening))
    # Without a discount, moving a record to a value that is not held is at least as bad (the paper's Corollary 1).
    covered = table.discount == 0.0 and table.fresh and len(table.frequencies) > 0
    for i in np.flatnonzero((table.losing > 0) & (not covered)).tolist():
        search = partial(_moves, table, epsilon, i, backwards=False)
        words = f"a record moves from {table.value(i)} to another that is held"
        yield float(losing[i]), _Candidate(words, tail(float(table.mass[i]) - 1.0), search)
    for j in np.flatnonzero((table.gaining > 0) & two_sided & table.losing.any()).tolist():
        search = partial(_moves, table, epsilon, j, backwards=True)
        words = f"a record moves to {table.value(j)} from another held more than once"
        yield float(gaining[j]), _Candidate(words, tail(float(table.mass[j])), search)


def _moves(table: HeldTable, epsilon: float, fixed: int, least: float, *, backwards: bool) -> tuple[InstanceDelta, int]:
    """Search the moves from a mass or, seen from the neighbours, to it."""
    a = float(table.mass[fixed]) - (not backwards)
    whole = _tail_probability(table.size, a + 1.0, table.total, math.ceil(math.expm1(epsilon) * a * (1.0 - 1e-12)))
    best, work = InstanceDelta(0.0, True, f"a record moves at {table.value(fixed)}"), 0
    for partner in np.flatnonzero(table.losing if backwards else table.gaining).tolist():
        i, j = (partner, fixed) if backwards else (fixed, partner)
        if not table.may_pair(i, j):
            continue
        if max(best.delta, least) >= whole:
            break
        if work > _WORK:  # what is not searched is bounded by the whole
            return best._replace(delta=whole, exact=False), work
        b = float(table.mass[partner]) - backwards
        chance, terms = _moved_event(table.size, a, b, table.total, epsilon)
        work += terms
        if chance > best.delta:
            pair = UrnPair(size=table.size, a=a, b=b, rest=max(0.0, table.total - a - b - 1.0))
            best = InstanceDelta(chance, True, f"a record moves from {table.value(i)} to {table.value(j)}", pair)
    return best, work


def _tail_probability(size: int, mass: float, total: float, first: int) -> float:
    """Return ``P(S >= first)`` for ``S ~ BetaBin(size; mass, total - mass)``, rounded up."""
    if first <= 0:
        return 1.0
    low, high = beta_binomial_range(size, mass, total - mass)
    if first > size:
        return 0.0
    s = np.arange(max(first, low), high + 1, dtype=np.float64)
    law = np.where(s == size, 0.0, -np.inf)
    if total > mass:
        law = log_beta_binomial(s, float(size), mass, total - mass)
    return min(1.0, up(float(np.exp(law).sum()) * math.exp(log_error(size, total))) + 1e-45)


def _moved_event(size: int, a: float, b: float, total: float, epsilon: float) -> tuple[float, int]:
    """Return ``P((a+S)/a * b/(b+T) > e^eps)``, ``(S, T) ~ DirMult(size; a+1, b, rest)``, rounded up; and the terms."""
    rest = total - a - b - 1.0
    if rest <= 1e-9:
        rest = 0.0
    least, most = beta_binomial_range(size, a + 1.0, b + rest)
    s = np.arange(max(least, math.ceil(math.expm1(epsilon) * a * (1.0 - 1e-12))), most + 1, dtype=np.float64)
    if len(s) == 0:
        return 1e-45, 1
    fewest, highest = beta_binomial_range(size, b, a + 1.0 + rest)
    t = np.arange(fewest, highest + 1, dtype=np.float64)
    # The law is a product of a term in s, one in t and one in s + t.
    held = log_rising(a + 1.0, s) - log_rising(1.0, s)
    other = log_rising(b, t) - log_rising(1.0, t)
    used = np.arange(int(s[0] + t[0]), min(size, int(s[-1] + t[-1])) + 1, dtype=np.float64)
    left = size - used
    outside = np.where(left == 0.0, 0.0, -np.inf)
    if rest > 0.0:
        outside = log_rising(rest, left)
    outside -= log_rising(1.0, left)
    outside += log_rising(1.0, float(size)) - log_rising(total, float(size))
    # For each s, the largest t that still exceeds: b (a + s) > e^eps a (b + t).
    last = np.floor(b * ((a + s) / a * math.exp(-epsilon) - 1.0) + 1e-9 * (1.0 + b))
    value = 0.0
    for draws, term, bound in zip(s.tolist(), held.tolist(), last.tolist(), strict=True):
        count = int(min(bound, size - draws, t[-1]) - t[0]) + 1
        if count > 0:
            at = int(draws + t[0] - used[0])
            value += float(np.exp(term + other[:count] + outside[at : at + count]).sum())
    return min(1.0, up(value * math.exp(log_error(size, total))) + 1e-45), len(s) * (64 + len(t))


def instance_readings(table: HeldTable, epsilon: float) -> dict[str, dict[str, InstanceDelta]]:
    """Return ``{"one-sided": {"tight": .., "event": ..}, "two-sided": {..}}``, the deltas of T11. Confidential."""
    epsilon = real("epsilon", epsilon, above=0, most=700, error=BudgetError)
    sums = cache(lambda pair, forward: pair.forward(epsilon) if forward else pair.backward(epsilon))
    searches, sides = {"tight": _tight, "event": event_reading}, {"one-sided": False, "two-sided": True}
    return {
        name: {reading: search(table, epsilon, sums, two_sided=two_sided) for reading, search in searches.items()}
        for name, two_sided in sides.items()
    }


def _tight(table: HeldTable, epsilon: float, sums: Sums, *, two_sided: bool) -> InstanceDelta:
    """Return the largest divergence: by splitting, among the rarest values."""
    readings = [table.exchange]
    # the lightest value that can lose a record with the lightest that can gain one: of the others, all are dominated
    losing, gaining = np.flatnonzero(table.losing)[:2].tolist(), np.flatnonzero(table.gaining)[:2].tolist()
    places = [(i, j) for i in losing for j in gaining if table.may_pair(i, j)]
    for i, j in places:
        if any(p != (i, j) and p[0] <= i and p[1] <= j for p in places):
            continue
        a, b = float(table.mass[i]) - 1.0, float(table.mass[j])
        outside = max(0.0, table.total - a - b - 1.0)
        words = f"a record moves from {table.value(i)} to {table.value(j)}"
        masses = ((a, b), (b, a)) if two_sided else ((a, b),)
        pairs = [UrnPair(size=table.size, a=x, b=y, rest=outside) for x, y in masses]
        readings += [InstanceDelta(p.delta(epsilon), p.exact, words, p) for p in pairs]
    for opening in table.openings(two_sided=two_sided):
        if opening.rarest:
            value = sums(opening.pair, opening.forward)
            facts = value.exact, opening.change, opening.pair, opening.forward
            readings.append(InstanceDelta(value.hockey_stick, *facts))
    return max(readings, key=lambda reading: reading.delta)
