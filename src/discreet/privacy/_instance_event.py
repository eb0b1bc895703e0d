"""The papers' instance-level delta: the largest probability that the privacy loss exceeds epsilon.

Why this file exists. The probability jumps with the integers, so unlike the tight delta it is not largest at the rarest
values: every distinct frequency, and every pair of them, is a candidate. Each has a bound that costs nothing, the tail
of one beta-binomial law; candidates are evaluated in the order of their bounds, until no bound exceeds the largest
value found. What is left when the work allowed is spent is covered by its bound, labelled as one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from discreet._core.numeric import log_beta_binomial, log_rising, up
from discreet._core.numeric._log_space import log_error
from discreet.privacy._held_table import HeldTable, Opening, Reading
from discreet.privacy._opening_pair import Divergence, OpeningPair, beta_binomial_range, beyond
from discreet.privacy._sampling_pairs import UrnPair

Known = dict[tuple[OpeningPair, bool], Divergence]
"""Opening pairs that were summed already."""

_Search = Callable[[float], tuple[Reading, int]]
"""Given the largest value so far: the probability, and the terms it took."""

_WORK = 30_000_000  # terms that a search may add up


def divergence(opening: Opening, epsilon: float, known: Known) -> Divergence:
    """Return one direction of an opening pair, summed once."""
    key = (opening.pair, opening.forward)
    if key not in known:
        known[key] = opening.pair.forward(epsilon) if opening.forward else opening.pair.backward(epsilon)
    return known[key]


class _Candidate(NamedTuple):
    words: str
    refine: Callable[[], float]
    """Gives a closer bound on the probability."""
    evaluate: _Search


def event_reading(table: HeldTable, epsilon: float, known: Known, *, two_sided: bool) -> Reading:
    """Return the largest probability, under this table or also under its neighbours, that the loss exceeds epsilon.

    All changes are searched, best bound first.
    """
    best = table.exchange
    candidates = list(_candidates(table, epsilon, known, two_sided=two_sided))
    heap = [(-bound, number, 0) for number, (bound, _) in enumerate(candidates)]
    heapq.heapify(heap)
    work = 0
    while heap and -heap[0][0] > best.delta:
        negative, number, stage = heapq.heappop(heap)
        candidate = candidates[number][1]
        if work > _WORK:
            return Reading(-negative, False, candidate.words)
        if stage == 0:
            heapq.heappush(heap, (max(negative, -candidate.refine()), number, 1))
            work += 1024
            continue
        reading, terms = candidate.evaluate(best.delta)
        work += terms
        if reading.delta > best.delta:
            best = reading
    return best


def _candidates(
    table: HeldTable, epsilon: float, known: Known, *, two_sided: bool
) -> Iterator[tuple[float, _Candidate]]:
    """Yield bounds and candidates: a change that opens or closes a value, or all moves from, or to, one mass."""
    # A loss above epsilon needs S > (e^eps - 1) a draws of the value that weighs a + 1 here, whatever else happens.
    grow = math.expm1(epsilon) * (1.0 - 1e-12)
    reach = [
        beyond(table.size, a + 1.0, table.total, np.ceil(grow * np.maximum(a, 0.0)))[1]
        for a in (table.mass - 1.0, table.mass)
    ]

    def tail(a: float) -> Callable[[], float]:
        return partial(_tail, table.size, a + 1.0, table.total, math.ceil(grow * a))

    def opens(opening: Opening, _: float) -> tuple[Reading, int]:
        value = divergence(opening, epsilon, known)
        terms = 4096 if table.discount == 0.0 else 64 * table.size
        return Reading(value.event, value.exact, *opening.named), terms

    listed = list(table.openings(two_sided=two_sided))
    masses = np.array([opening.pair.a for opening in listed])
    one_sided = beyond(table.size, masses + 1.0, table.total, np.ceil(grow * masses))[1].tolist()
    new_values: dict[float, float] = {}  # bounds that depend on the kind of change only
    for opening, bound in zip(listed, one_sided, strict=True):
        pair = opening.pair
        if opening.forward:
            yield bound, _Candidate(opening.change, tail(pair.a), partial(opens, opening))
        else:
            if pair.phi not in new_values:
                new_values[pair.phi] = pair.backward_event_bound(epsilon)
            known_bound = new_values[pair.phi]
            yield known_bound, _Candidate(opening.change, partial(float, known_bound), partial(opens, opening))
    # Without a discount, moving a record to a value that is not held is at least as bad (the paper's Corollary 1).
    covered = table.discount == 0.0 and table.fresh and len(table.frequencies) > 0
    for i in [] if covered else np.flatnonzero(table.losing).tolist():
        search = _moves(table, epsilon, i, backwards=False)
        words = f"a record moves from {table.value(i)} to another that is held"
        yield float(reach[0][i]), _Candidate(words, tail(float(table.mass[i]) - 1.0), search)
    for j in np.flatnonzero(table.gaining).tolist() if two_sided and table.losing.any() else []:
        search = _moves(table, epsilon, j, backwards=True)
        words = f"a record moves to {table.value(j)} from another held more than once"
        yield float(reach[1][j]), _Candidate(words, tail(float(table.mass[j])), search)


def _moves(table: HeldTable, epsilon: float, fixed: int, *, backwards: bool) -> _Search:
    """Return the search over the moves from a mass or, seen from the neighbours, to it."""

    def search(least: float) -> tuple[Reading, int]:
        a = float(table.mass[fixed]) - (not backwards)
        whole = _tail(table.size, a + 1.0, table.total, math.ceil(math.expm1(epsilon) * a * (1.0 - 1e-12)))
        best, work = Reading(0.0, True, f"a record moves at {table.value(fixed)}"), 0
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
                best = Reading(chance, True, f"a record moves from {table.value(i)} to {table.value(j)}", pair)
        return best, work

    return search


def _tail(size: int, mass: float, total: float, first: int) -> float:
    """Return ``P(S >= first)`` for ``S ~ BetaBin(size; mass, total - mass)``, rounded up."""
    if first <= 0:
        return 1.0
    low, high = beta_binomial_range(size, mass, total - mass)
    if first > size:
        return 0.0
    s = np.arange(max(first, low), high + 1, dtype=np.float64)
    law = log_beta_binomial(s, float(size), mass, total - mass) if total > mass else np.where(s == size, 0.0, -np.inf)
    return min(1.0, up(float(np.exp(law).sum()) * math.exp(log_error(size, total))) + 1e-45)


def _moved_event(size: int, a: float, b: float, total: float, epsilon: float) -> tuple[float, int]:
    """Return ``P((a+S)/a * b/(b+T) > e^eps)``, ``(S, T) ~ DirMult(size; a+1, b, rest)``, rounded up; and the terms."""
    rest = total - a - b - 1.0
    rest = rest if rest > 1e-9 else 0.0
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
    outside = (log_rising(rest, left) if rest > 0.0 else np.where(left == 0.0, 0.0, -np.inf)) - log_rising(1.0, left)
    outside += log_rising(1.0, float(size)) - log_rising(total, float(size))
    # For each s, the largest t that still exceeds: b (a + s) > e^eps a (b + t).
    last = np.floor(b * ((a + s) / a * math.exp(-epsilon) - 1.0) + 1e-9 * (1.0 + b))
    value = 0.0
    for draws, term, bound in zip(s.tolist(), held.tolist(), last.tolist(), strict=True):
        count = int(min(bound, size - draws, t[-1]) - t[0]) + 1
        if count > 0:
            at = int(draws + t[0] - used[0])
            value += float(np.exp(term + other[:count] + outside[at : at + count]).sum())
    terms = len(s) * (64 + len(t))
    return min(1.0, up(value * math.exp(log_error(size, total))) + 1e-45), terms
