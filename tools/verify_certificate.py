"""Recompute the privacy numbers of a certificate with a second program, which shares no code with the library.

    python tools/verify_certificate.py CERTIFICATE [--data FILE_OR_FOLDER]

Everything here was written from the theorems in ``docs/theory`` (ids T1 to T21), in arithmetic of many digits. It needs
the standard library, mpmath and this one file. A stated number is accepted where it is at least the one that the
theorem gives, without a tolerance; what a sum leaves out is added first.

Exit status: 0 every claim agrees; 1 something claims less than is true, or contradicts itself; 2 something cannot be
checked here, and nothing is wrong in what can be; 3 there is no certificate to read.
"""

from __future__ import annotations

import argparse
import bisect
import datetime
import decimal
import hashlib
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
from mpmath import exp, log, loggamma, mp, mpf

mp.prec = 180
AGREES, LESS, WRONG, CANNOT = "agrees", "claims less than is true", "contradicts", "cannot check"
TINY = mpf(10) ** -330  # a bound on whatever is left out
TERMS = 300_000  # longer sums are not attempted
INFINITE = math.inf
Profile = Callable[[Any], Any]  # of an epsilon: delta, or a bound on it


class StoppedError(Exception):
    """Why something cannot be checked here, or what contradicts its theorem: a status and a reason."""


class Check(NamedTuple):
    """What was looked at, and what came of it."""

    what: str
    status: str
    detail: str


class Promise(NamedTuple):
    """What the theorems say of a mechanism."""

    delta: Callable[[Fraction], Any]
    pure: Any = INFINITE  # the least epsilon with delta 0
    exact: bool = False  # whether the theorem proves that some neighbours attain it
    kinds: tuple[str, ...] = ("unconditional", "empirical")
    alone: Any = None  # the chance that a label of one record appears
    rough: float = 0.0  # by how much of itself a longer sum might be less


class Pair:
    """Two laws over finitely many outcomes, with the chance under the first of what the second cannot give."""

    def __init__(self, outcomes: Iterable[tuple[Any, Any]], outright: Any = 0) -> None:
        ordered = sorted(((q / p, p, q) for p, q in outcomes if p > 0), key=lambda one: one[0])
        self.ratios, self.outright = [one[0] for one in ordered], outright
        self.p, self.q = [mpf(0)], [mpf(0)]
        for _, p, q in ordered:
            self.p.append(self.p[-1] + p)
            self.q.append(self.q[-1] + q)

    def __call__(self, epsilon: Any) -> Any:
        """Return the divergence."""
        growth = exp(epsilon)
        place = bisect.bisect_left(self.ratios, 1 / growth)
        return self.outright + max(mpf(0), self.p[place] - growth * self.q[place])


def number(value: Any) -> Any:
    """Return a number as mpmath has it; fractions are rounded once."""
    return mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpf(value)


def exact(value: Any) -> Fraction:
    """Return the decimal that is written in a certificate."""
    if type(value) not in {int, decimal.Decimal} or not decimal.Decimal(value).is_finite():
        raise StoppedError(WRONG, f"a finite number was expected, not {value!r}")
    return Fraction(value)


def drawn(value: Any) -> Fraction:
    """Return the binary number that a program makes of a parameter, as kernels draw with it."""
    return Fraction(float(exact(value)))


def whole(value: Any, what: str, least: int = 0) -> int:
    """Return a whole number of a certificate."""
    if type(value) is not int or value < least:
        raise StoppedError(WRONG, f"{what} must be a whole number from {least} on, not {value!r}")
    return value


def raised(value: Fraction, bits: int) -> Fraction:
    """Return the next multiple of ``2**-bits``: what kernels round masses to."""
    return Fraction(math.ceil(value * 2**bits), 2**bits)


def convolved(one: list[Any], two: list[Any]) -> list[Any]:
    """Return the law of a sum."""
    if len(one) * len(two) > 2_000_000:
        raise StoppedError(CANNOT, "a law has too many values to convolve")
    made = [mpf(0)] * (len(one) + len(two) - 1)
    for i, x in enumerate(one):
        for j, y in enumerate(two):
            made[i + j] += x * y
    return made


# -- T6, T9, T15, T16, T20: noise on counts
def laplace_losses(shift: int, r: Any) -> list[Any]:
    """Return the law of one count's loss under a shift: at ``(shift - 2 j) / scale`` for ``j`` from 0 on."""
    inner = [(1 - r) / (1 + r) * r**j for j in range(1, shift)]
    return [1 / (1 + r), *inner, r**shift / (1 + r)] if shift else [mpf(1)]


def laplace(scale: Fraction, group: int, levels: int) -> Promise:
    """T6 and T9 with discrete Laplace noise: ``2 * levels`` counts that change by the group's size."""
    one, law, most = laplace_losses(group, exp(-1 / number(scale))), [mpf(1)], 2 * levels * group
    for _ in range(2 * levels):
        law = convolved(law, one)
    pair = Pair((mass, mass * exp(-(most - 2 * j) / number(scale))) for j, mass in enumerate(law))
    pure = most / scale
    return Promise(lambda e: pair(number(e)) if e < pure else mpf(0), pure, exact=levels == 1 or group <= 64)


def gaussian(scale: Fraction, group: int, counts: int) -> Callable[[Fraction], Any]:
    """Return the profile of ``counts`` discrete Gaussian noises that are all shifted by the group's size (T9)."""
    sigma, tails = number(scale), {}
    spread = sigma * mpmath.sqrt(counts)
    wobble = mpmath.expm1(counts * mpmath.log1p(mpf("2.1") * exp(-((mpmath.pi * sigma) ** 2)))) if sigma >= 0.5 else 1
    if wobble > mpf(10) ** -28:  # the sum's law is not yet that of one smooth noise
        one = [exp(-(mpf(z) ** 2) / (2 * sigma**2)) for z in range(-int(38 * sigma) - 2, int(38 * sigma) + 3)]
        one, law = [mass / mpmath.fsum(one) for mass in one], [mpf(1)]
        for _ in range(counts):
            law = convolved(law, one)
        tails = {len(law) // 2 - place: tail for place, tail in enumerate(itertools.accumulate(law))}

    def at_most(value: int) -> Any:
        least = max(-value, value + 1)
        tail = tails.get(least, mpf(0)) if tails else gaussian_tail(least, spread)
        return tail if value < 0 else 1 - tail

    def delta(epsilon: Fraction) -> Any:
        last = math.ceil(Fraction(counts * group, 2) - scale**2 * epsilon / group) - 1
        found = at_most(last) - exp(number(epsilon)) * at_most(last - counts * group)
        return found + (TINY if tails else 4 * wobble * at_most(last) + mpf(10) ** -26 * found)

    return delta


def gaussian_tail(least: int, spread: Any) -> Any:
    """Return the chance that a discrete Gaussian with this spread is ``least`` or more, to 26 digits."""
    x, line = least / spread, spread * mpmath.sqrt(2 * mpmath.pi)
    value = exp(-(x**2) / 2)
    if spread > 60:  # Euler and Maclaurin; the derivatives of the density are Hermite polynomials times it
        total = line / 2 * mpmath.erfc(x / mpmath.sqrt(2)) + value / 2
        before, hermite, order = mpf(0), mpf(1), 0
        for k in range(1, 25):
            while order < 2 * k - 1:
                before, hermite, order = hermite, x * hermite - order * before, order + 1
            added = mpmath.bernoulli(2 * k) / mpmath.factorial(2 * k) * hermite * value / spread**order
            total += added
            if abs(added) < total * mpf(10) ** -28 and k > 3:
                return total / line
    term, ratio, step, total = value, exp(-(2 * mpf(least) + 1) / (2 * spread**2)), exp(-1 / spread**2), mpf(0)
    while term > total * (1 - ratio) * mpf(10) ** -30:
        total, term, ratio = total + term, term * ratio, ratio * step
    return (total + term / (1 - ratio)) / line


# -- Lemma 6: one sum for urns and mixtures
def lemma_6(
    tosses: tuple[list[Any], Any], threshold: Callable[[int, Any], Any], *parts: Callable[[int, int], Any]
) -> Profile:
    """Return the divergence, given the chances of more than ``u`` tosses and what that list leaves out.

    ``threshold`` is exceeded by the ``s`` with ``g_u(s) > 0``; ``parts`` are, at ``(u, s)``, the base law, its ratios
    to ``(u + 1, s)`` and ``(u, s + 1)``, the chance of a success, and the likelihoods ``p`` and ``q``.
    """
    (tails, left_out), (start, more, right, success, p, q) = tosses, parts

    def delta(epsilon: Any) -> Any:
        growth, total, weight, held = exp(epsilon), mpf(0), None, 0
        for u, tail in enumerate(tails):
            s = max(0, int(mpmath.floor(threshold(u + 1, growth))))
            while s <= u and p(u + 1, s + 1) <= growth * q(u + 1, s + 1):
                s += 1  # only where the threshold was rounded
            if s > u:
                continue
            if weight is None:
                weight, held = start(u, s), s
            while held < s:
                weight, held = weight * right(u, held), held + 1
            up, down = p(u + 1, s + 1) - growth * q(u + 1, s + 1), growth * q(u + 1, s) - p(u + 1, s)
            total += tail * weight * max(mpf(0), min(success(u, s) * up, (1 - success(u, s)) * down))
            weight *= more(u, s)
        return total * (1 + mpf(10) ** -30) + left_out

    return delta


def _tails(first: Any, ratio: Callable[[int], Any], most: int) -> tuple[list[Any], Any]:
    """Return ``Pr(U > u)`` for ``u`` from 0 on, from the law's ratios, and what was left out at the end."""
    law, left = [first], mpf(0)
    for u in range(most):
        factor = ratio(u)
        law.append(law[-1] * factor)
        if len(law) > TERMS:
            raise StoppedError(CANNOT, f"the sum has more than {TERMS} terms")
        if law[-1] < TINY and factor < 0.9:
            left = law[-1] * 10
            break
    tails, running = [], left
    for mass in reversed(law[1:]):
        running += mass
        tails.append(running)
    return tails[::-1], left


def masses(one: Any, two: Any, m: int) -> list[tuple[Any, Any]]:
    """Return the factors of an urn's law for a cell that has one mass or another, by how often it is drawn."""
    return [(mpmath.rf(one, s) / math.factorial(s), mpmath.rf(two, s) / math.factorial(s)) for s in range(m + 1)]


def draws(cells: list[list[tuple[Any, Any]]], left: int, p: Any, q: Any) -> Iterator[tuple[Any, Any]]:
    """Return both probabilities of every outcome of an urn's draws, the last cell taking what is left."""
    if len(cells) == 1:
        yield p * cells[0][left][0], q * cells[0][left][1]
        return
    for s, (x, y) in enumerate(cells[0][: left + 1]):
        yield from draws(cells[1:], left - s, p * x, q * y)


def urn_pair(m: int, a: Any, b: Any, rest: Any) -> Profile:
    """T4's pair: an urn of masses ``a + 1, b, rest`` against one of ``a, b + 1, rest``."""
    if m <= 60:
        cells = [masses(a + 1, a, m), masses(b, b + 1, m), masses(rest, rest, m)]
        return Pair(draws(cells, m, *[math.factorial(m) / mpmath.rf(a + b + 1 + rest, m)] * 2))
    tails, left = [mpf(1)] * m, mpf(0)
    if rest:
        none = loggamma(rest + m) - loggamma(rest) - loggamma(a + b + 1 + rest + m) + loggamma(a + b + 1 + rest)
        tails, left = _tails(exp(none), lambda u: (m - u) * (a + b + 1 + u) / ((u + 1) * (rest + m - u - 1)), m)
    return lemma_6(
        (tails, left),
        lambda u, growth: a * (growth * (b + u) - b) / (b + a * growth),
        lambda u, s: mpmath.binomial(u, s) * mpmath.beta(a + s, b + u - s) / mpmath.beta(a, b),
        lambda u, s: (u + 1) * (b + u - s) / ((u + 1 - s) * (a + b + u)),
        lambda u, s: (u - s) * (a + s) / ((s + 1) * (b + u - s - 1)),
        lambda u, s: (a + s) / (a + b + u),
        lambda u, s: (a + s) * (a + b) / (a * (a + b + u)),
        lambda u, s: (b + u - s) * (a + b) / (b * (a + b + u)),
    )


def mixture_pair(m: int, b: Any, moved: Any) -> Profile:
    """T5's pair: ``m`` draws of ``(b + moved, b, rest)`` against ``(b, b + moved, rest)``."""
    both = 2 * b + moved
    tails, left = [mpf(1)] * m, mpf(0)
    if both < 1:
        tails, left = _tails((1 - both) ** m, lambda u: both / (1 - both) * (m - u) / (u + 1), m)
    loss, high, low = mpmath.log1p(moved / b), log(2 * (b + moved) / both), log(2 * b / both)
    return lemma_6(
        (tails, left),
        lambda u, growth: (log(growth) / loss + u) / 2,
        lambda u, s: mpmath.binomial(u, s) / mpf(2) ** u,
        lambda u, s: mpf(u + 1) / (2 * (u + 1 - s)),
        lambda u, s: mpf(u - s) / (s + 1),
        lambda _u, _s: mpf(1) / 2,
        lambda u, s: exp(s * high + (u - s) * low),
        lambda u, s: exp(s * low + (u - s) * high),
    )


def chain(single: Profile, group: int, epsilon: Any) -> Any:
    """Return the least bound of Lemma 7 that a search finds; every choice of its numbers gives a bound."""
    if group > 12:
        raise StoppedError(CANNOT, "a chain of more than 12 records is not searched")

    @cache
    def at(e: Any) -> Any:
        return single(e) if e >= 0 else 1 - exp(e) + exp(e) * single(-e)

    @cache
    def bound(parts: tuple[Any, ...]) -> Any:
        return mpmath.fsum(exp(mpmath.fsum(parts[:i])) * at(part) for i, part in enumerate(parts))

    def shifted(i: int, by: Any) -> tuple[Any, ...]:
        return (*parts[:i], parts[i] + by, parts[i + 1] - by, *parts[i + 2 :])

    parts, golden = (epsilon / group,) * group, (mpmath.sqrt(5) - 1) / 2
    for turn in range(14):  # the bound is convex in the exponentials of the numbers' partial sums
        span = max(epsilon, mpf("0.2")) / 4**turn
        for i in range(group - 1):
            low, high = -span, span
            for _ in range(7):
                left, right = high - golden * (high - low), low + golden * (high - low)
                low, high = (low, right) if bound(shifted(i, left)) < bound(shifted(i, right)) else (left, high)
            parts = min(parts, shifted(i, (low + high) / 2), key=bound)
    return min(mpf(1), bound(parts))


# -- T1, T2, T12, T21: urns that repeat records
def recognised(moved: Any, total: Any, m: int) -> Any:
    """Return the chance that a moved mass is drawn, one minus a product."""
    if m > TERMS:
        raise StoppedError(CANNOT, f"the product has more than {TERMS} factors")
    return 1 - mpmath.fprod(max(mpf(0), 1 - moved / (total + i)) for i in range(m))


def opening(m: int, total: Any, a: Any, phi: Any, sigma: Any) -> list[Profile]:
    """Return T21's opening in both orders."""
    base, rows, chance = total - a - 1, [[mpf(1)]], mpf(1)
    for i in range(m):
        row = [mpf(0)] * (i + 2)
        for k, mass in enumerate(rows[-1]):
            opens = (phi + k * sigma) / (base + i)
            row[k] += mass * (1 - opens)
            row[k + 1] += mass * opens
        rows.append(row)
        chance *= (base + i) / (total + i)
    outcomes = []
    for s in range(m + 1):
        shares = [(chance * mass, (a / (a + s)) * (phi + k * sigma) / phi) for k, mass in enumerate(rows[m - s])]
        outcomes += [(p, p * ratio) for p, ratio in shares]
        if s < m:
            chance *= (m - s) * (a + 1 + s) / ((s + 1) * (base + m - s - 1))
    return [Pair(outcomes), Pair(((q, p) for p, q in outcomes), recognised(1 - sigma, total, m))]


def pitman_yor(facts: Facts) -> Promise:
    """T1, T2 and T21."""
    n, m, g = facts.n, facts.size, facts.group
    theta = number(raised(drawn(facts.parameters["strength"]), 20))
    sigma = number(Fraction(round(drawn(facts.parameters["discount"]) * 2**20), 2**20))
    if not 0 <= sigma < 1 or theta <= -sigma:
        raise StoppedError(CANNOT, "this discount or strength is no Pitman-Yor urn")
    sampled = facts.parameters.get("sampler", "ancestor") != "ancestor"
    kinds = ("empirical",) if sampled else ("unconditional", "empirical")
    coupled = recognised(min(mpf(g), n - sigma), theta + n, m)
    if sigma == 0:
        return Promise(lambda _: coupled, exact=INFINITE in facts.cells, kinds=kinds)
    if m > 1024:
        return Promise(lambda _: coupled, kinds=kinds, rough=1.0)
    others, held = recognised(mpf(g - 1), theta + n, m), n - g + 1  # T21 (b)
    total = theta + held
    floor, pairs = recognised(1 - sigma, total, m), []
    if held >= 3:
        pairs = [*opening(m, total, 1 - sigma, theta + 2 * sigma, sigma),
                 *opening(m, total, held - 1 - sigma, theta + sigma, sigma),
                 urn_pair(m, 1 - sigma, 1 - sigma, total - 3 + 2 * sigma)]  # fmt: skip
    elif held == 2:
        pairs = opening(m, total, 1 - sigma, theta + sigma, sigma)

    def delta(epsilon: Fraction) -> Any:
        one = max([floor, *(pair(number(epsilon)) for pair in pairs)])
        return min(coupled, 1 - (1 - others) * (1 - one))

    atomless = any(count == INFINITE and column.get("nulls") != "category"
                   for count, column in zip(facts.cells, facts.columns.values(), strict=True))  # fmt: skip
    return Promise(delta, exact=g in {1, n} and atomless, kinds=kinds)


def urn_histogram(facts: Facts) -> Promise:
    """T12."""
    theta = number(raised(drawn(facts.parameters["strength"]), 20))
    constant = recognised(mpf(facts.group), theta + facts.n, facts.size)
    return Promise(lambda _: constant, exact=exact(facts.parameters["discount"]) == 0 and facts.all_cells >= 2)


# -- T4: Dirichlet-multinomial
def dirichlet_multinomial(facts: Facts) -> Promise:
    """T4, for a uniform base measure."""
    n, m, g, k = facts.n, facts.size, facts.group, facts.finite_cells()
    if any(column.get("base", "uniform") != "uniform" for column in facts.columns.values()):
        raise StoppedError(CANNOT, "a base measure other than the uniform one is not computed")
    prior = drawn(facts.parameters["prior"])
    mass = raised(prior, 20) if k <= 2**20 else raised(prior * k, 20) / k
    a = number(mass)
    if k == 2 and 2 <= n <= 256:
        singles = [urn_pair(m, a + c, a + n - 1 - c, mpf(0)) for c in range(n)]  # the reverse order is c from the end
    else:
        singles = [urn_pair(m, a, a, number(mass * (k - 2) + n - 1))]

    def single(epsilon: Any) -> Any:
        return max(one(epsilon) for one in singles)

    several = group_pairs(m, a, number(mass * k + n), g) if 1 < g <= 3 and math.comb(m + 2 * g, m) < TERMS else []
    pure = max(-log(pair.ratios[0]) for pair in several) if several else g * mpmath.log1p(m / a)

    def delta(epsilon: Fraction) -> Any:
        e = number(epsilon)
        if e >= pure or g == 1:
            return single(e) if e < pure else mpf(0)
        if g <= 3 and not several:
            raise StoppedError(CANNOT, "a group's outcomes are too many to list")
        return max(pair(e) for pair in several) if several else chain(single, g, e)

    proved = k >= 3 or n <= 256 if g == 1 else bool(several) and k > 2 * g
    return Promise(delta, pure, exact=proved, rough=float(1 < g <= 3 and not several))


def parts_of(total: int, most: int) -> Iterator[tuple[int, ...]]:
    """Return the partitions of a number."""
    if total == 0:
        yield ()
    for first in range(min(total, most), 0, -1):
        for rest in parts_of(total - first, first):
            yield (first, *rest)


def group_pairs(m: int, a: Any, total: Any, group: int) -> list[Pair]:
    """Return T4's pairs for a small group and size: all ways to take records from cells that hold nothing else."""
    pairs, scale = [], math.factorial(m) / mpmath.rf(total, m)
    for moved in range(1, group + 1):
        for sources, targets in itertools.product(parts_of(moved, moved), repeat=2):
            rest = total - moved - a * (len(sources) + len(targets))
            if rest >= 0:
                cells = [masses(a + part, a, m) for part in sources] + [masses(a, a + part, m) for part in targets]
                pairs.append(Pair(draws([*cells, masses(rest, rest, m)], m, scale, scale)))
    return pairs


# -- T5, T7, T13: mixtures with a uniform cell
def mixture(facts: Facts) -> Promise:
    """T5."""
    n, m, g, k = facts.n, facts.size, facts.group, facts.finite_cells()
    q = raised(drawn(facts.parameters["mixing"]), 32)
    if not 0 < q <= 1:
        raise StoppedError(CANNOT, "a mixing probability that is not above 0 promises nothing")
    b, moved = number(q / k), number(g * (1 - q) / n)
    if q == 1:
        return Promise(lambda _: mpf(0), mpf(0), exact=True)
    pure, pair = m * mpmath.log1p(moved / b), mixture_pair(m, b, moved)
    return Promise(lambda e: pair(number(e)) if number(e) < pure else mpf(0), pure, exact=k >= 3 or g == n)


def randomised_response(facts: Facts) -> Promise:
    """T13."""
    n, m, g, k = facts.n, facts.size, facts.group, facts.finite_cells()
    q = raised(drawn(facts.parameters["mixing"]), 32)
    if m == 1:
        return mixture(facts)
    ratio, rate, share = number(k * (1 - q) / q), number(q), 1 / mpf(k)
    pure, outcomes, left, chance = mpmath.log1p(m * ratio / n), [], mpf(0), (1 - rate) ** m
    for count in range(m + 1):  # messages, of which s and t are in the two cells
        if chance * ratio * m < TINY and count > m * rate:
            left = chance * ratio * m * 10
            break
        if len(outcomes) > TERMS:
            raise StoppedError(CANNOT, "there are too many outcomes to list")
        for s in range(count + 1):
            for t in range(count + 1 - s):
                mass = math.comb(count, s) * math.comb(count - s, t) * share ** (s + t)
                mass *= chance * (1 - 2 * share) ** (count - s - t)
                outcomes.append((mass * (n - m + count + ratio * s) / n, mass * (n - m + count + ratio * t) / n))
        chance *= rate / (1 - rate) * (m - count) / (count + 1)
    single = Pair(outcomes, left)

    def delta(epsilon: Fraction) -> Any:
        e = number(epsilon)
        if e >= g * pure:
            return mpf(0)
        return single(e) if g == 1 else min(chain(single, g, e), g * single(mpf(0)))

    return Promise(delta, g * pure)


def data_specific(facts: Facts) -> Promise:
    """T7: the schedule, the profile of one draw by part 1, several draws by part 4 or by composition."""
    n, m, g, k = facts.n, facts.size, facts.group, facts.finite_cells()
    if facts.parameters["schedule"] != "optimal":
        raise StoppedError(WRONG, "the published schedule has no guarantee")
    if n // k > 5000:
        raise StoppedError(CANNOT, "the schedule has too many steps")
    d, unit = schedule(number(drawn(facts.parameters["draw_epsilon"])), n, k), 2**32
    # pairs of neighbours: cells' probabilities in units of 1 / (n k 2^32), and how many cells are alike
    pairs: list[list[tuple[int, int, int]]] = []

    def cell(a: int, i: int) -> int:
        return n * unit + (a * k - n) * d[i]

    for i in range(n // k + 1):
        if (k >= 3 and n > k * i) or n == 2 * i + 1:
            pairs.append([(cell(i + 1, i), cell(i, i), 1)])
        rest = n - (k - 1) * i
        kinds = [[(i, i - 1, 1), (rest, rest + 1, 1), (i, i, k - 2)]] if i else []
        if i and k >= 3:
            kinds.append([(i, i - 1, 1), (i, i + 1, 1), (rest, rest, 1), (i, i, k - 3)])
        for kind in kinds:
            cells = [(cell(a, i), cell(c, i - 1), many) for a, c, many in kind if many]
            pairs += [cells, [(y, x, many) for x, y, many in cells]]
    pure = max(log(mpf(x) / y) for cells in pairs for x, y, _ in cells)

    def one(epsilon: Any) -> Any:
        growth = int(mpmath.floor(exp(epsilon) * 2**100))
        found = max(sum(many * max(0, (x << 100) - growth * y) for x, y, many in cells) for cells in pairs)
        return mpf(found) / (n * k * unit) / mpf(2) ** 100

    if m == 1 and g == 1:
        return Promise(lambda e: one(number(e)) if number(e) < pure else mpf(0), pure, exact=True)
    apart = min(g * one(mpf(0)), mpmath.tanh(g * pure / 2))
    part_4 = mixture_pair(m, apart / mpmath.expm1(g * pure), apart)
    composed = dotted(one, pure, m) if g == 1 and 1 < m <= 1000 else part_4

    most = m * g * pure
    least = lambda e: min(part_4(number(e)), composed(number(e))) if number(e) < most else mpf(0)  # noqa: E731
    return Promise(least, most, rough=0.0 if composed is part_4 else 1e-4)


def schedule(epsilon: Any, n: int, k: int) -> list[int]:
    """Return ``1 - q`` at every smallest count, in units of ``2**-32``, rounded down."""
    growth, unit, mean, steps = exp(epsilon), 2**32, mpf(n) / k, n // k
    h, made = growth - 1, []
    if k == 2:
        shares = [mpf(1) / 2 if n % 2 == 0 else max(mpf(steps) / n, 1 / (1 + growth))]
        for i in range(steps - 1, -1, -1):
            shares.append(max(mpf(i) / n, shares[-1] / growth))
        exactly = [mpf(1) if 2 * i == n else (mean - share * n) / (mean - i) for i, share in enumerate(shares[::-1])]
        return [min(unit, int(mpmath.floor(value * unit))) for value in exactly]
    for i in range(steps + 1):
        if i * k == n or (made and made[-1] == unit):
            made.append(unit)
            continue
        bounds = [mpf(1), h * mean / (1 + h * (mean - i))]
        if i:
            before = mpf(made[-1]) / unit
            bounds.append(growth * before + h * mean / ((k - 1) * (mean - i)))
            if i <= mean - 1:
                bounds.append((h * mean + (mean - i - 1) * before) / (growth * (mean - i)))
        made.append(int(mpmath.floor(min(bounds) * unit)))
    return made


def dotted(one: Profile, pure: Any, times: int) -> Profile:
    """Return the composition of a profile by connecting dots: chords are above a convex curve."""
    # Masses are whole numbers in units of 10**-digits, rounded down, and long decimals multiply as polynomials do.
    half, digits = max(100, min(300, 20_000 // times)), 50
    slot = 2 * digits + 8
    points = [exp(pure * j / half) for j in range(half + 1)]
    heights = [one(pure * j / half) for j in range(half)] + [mpf(0)]
    curve = list(zip(points, heights, strict=True))
    jumps = bends([(1 / t, 1 - 1 / t + height / t) for t, height in curve[:0:-1]] + curve, mpf(0))
    context = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    square, made, left = [int(mass * mpf(10) ** digits) for _, mass in jumps], [10**digits], times
    while left:
        packed = [decimal.Decimal("".join(str(x).zfill(slot) for x in law)) for law in (square, made)]
        for place, wanted in ((1, left & 1), (0, left > 1)):
            if wanted:
                text = format(context.multiply(packed[0], packed[place]), "f")
                size = len(square) + (len(made) if place else len(square)) - 1
                text = text.zfill(slot * size)
                law = [int(text[i : i + slot]) // 10**digits for i in range(len(text) - slot * size, len(text), slot)]
                made, square = (law, square) if place else (made, law)
        left >>= 1
    step, middle = pure / half, len(made) // 2
    lost = 4 * times * len(made) * mpf(10) ** -digits
    pair = Pair((mpf(mass) / mpf(10) ** digits, mpf(mass) / mpf(10) ** digits * exp((middle - place) * step))
                for place, mass in enumerate(made))  # fmt: skip
    return lambda epsilon: pair(epsilon) + lost


def bends(curve: list[tuple[Any, Any]], floor: Any) -> list[tuple[Any, Any]]:
    """Return losses and their masses of the pair whose profile has these corners, as a function of ``e^epsilon``."""
    slopes = [(y - x) / (b - a) for (a, x), (b, y) in itertools.pairwise(curve)]
    jumps = [after - before for before, after in zip([floor - 1, *slopes], [*slopes, mpf(0)], strict=True)]
    if min(jumps) < -(mpf(10) ** -25):
        raise StoppedError(CANNOT, "a profile did not come out convex")
    return [(log(t), max(mpf(0), jump) * t) for jump, (t, _) in zip(jumps, curve, strict=True)]


# -- T10, T18, T19: losses in an interval
def ranged(length: Any, times: int, epsilon: Any) -> Any:
    """Return the profile of ``times`` mechanisms whose losses lie in an interval of this length (T10).

    The pair with T10's curve has losses of density ``c e^(l/2)`` on ``[-length, length]``. A sum of several has
    ``c^times e^(s/2)`` times the density of a sum of uniform numbers, and all integrals are elementary.
    """
    if epsilon >= times * length:
        return mpf(0)
    if times > 200:
        raise StoppedError(CANNOT, "more than 200 tables are not composed")
    with mp.workprec(400 + 40 * times):
        c = exp(-length / 2)
        power = times - 1

        def integral(x: Any, sign: int) -> Any:  # of v^power e^(sign v / 2) from 0 to x
            total, term = mpf(0), 2 * x**power * sign
            for i in range(power + 1):
                total += term
                term *= -2 * sign * (power - i) / x
            return exp(sign * x / 2) * total - sign * (-2 * sign) ** power * 2 * mpmath.factorial(power)

        total = mpf(0)
        for j in range(times + 1):
            top = (times - 2 * j) * length
            if top > epsilon:
                x = top - epsilon
                value = exp(top / 2) * integral(x, -1) - exp(epsilon - top / 2) * integral(x, 1)
                total += (-1) ** j * mpmath.binomial(times, j) * value
        return +(total * (c / (2 * (1 - c**2))) ** times / mpmath.factorial(power))


def exponential(facts: Facts) -> Promise:
    """T10, with the cost of floating point."""
    n, m, g, k = facts.n, facts.size, facts.group, facts.finite_cells()
    budget, loss = number(drawn(facts.parameters["pure_epsilon"])), facts.parameters["loss"]
    furthest = {"l1": mpf(2), "l2": mpmath.sqrt(2), "hellinger": mpf(1)}[loss]
    one, group = (furthest * records / n for records in (1, g))
    if loss == "hellinger":
        one, group = (mpmath.sqrt(1 - mpmath.sqrt(1 - x)) if k == 2 else mpmath.sqrt(x) for x in (one, group))
    most, u = budget / (2 * one) * furthest, mpf(2) ** -53
    logs = most + (k + m) * log(2)
    off = (k + 32) * u * most + mpf(2) ** -36 + mpf(2) ** -50 * most
    if loss == "l1":
        off = k * (2 * (mpf(2) ** -36 + mpf(2) ** -50 * 2 * logs) + 32 * u * (logs + m))
    length = budget * group / one + 4 * off

    def delta(epsilon: Fraction) -> Any:
        e = number(epsilon)
        return mpmath.expm1(-(length - e) / 2) ** 2 / -mpmath.expm1(-length) if e < length else mpf(0)

    return Promise(delta, length)


def posterior(facts: Facts) -> Promise:
    """T18 and T19: tables from independent draws of a posterior."""
    tables = whole(facts.parameters["tables"], "tables", 1)
    if facts.mechanism == "pseudo-posterior":
        length, kinds = exact(facts.parameters["target_epsilon"]), ("asymptotic",)
    else:
        bound = drawn(facts.parameters["bound"])
        length = bound * facts.group * (1 if facts.relation == "add-remove" else 2)
        on_grid = facts.parameters["on_a_grid"] is True and 2**-24 <= bound <= 2**10 and facts.n <= 2**26
        kinds = ("unconditional", "empirical") if on_grid else ("empirical",)
    pure = tables * length

    return Promise(lambda e: ranged(number(length), tables, number(e)) if e < pure else mpf(0), pure, kinds=kinds)


# -- T8, T16, T20: labels that nobody listed
Curves = list[tuple[Any, list[tuple[Any, Any]]]]


def thresholded(facts: Facts, *, one_side: bool) -> tuple[Curves, Any]:
    """Return T8's curves, each a chance of infinite loss and finite losses, and the chance that one record is shown."""
    scale, g = number(drawn(facts.parameters["scale"])), facts.group
    t, r = whole(facts.parameters["threshold"], "threshold", 2), exp(-1 / scale)

    def shown(gap: int) -> Any:
        return r**gap / (1 + r) if gap >= 1 else 1 - r ** (1 - gap) / (1 + r)

    f = [-mpmath.log1p(-shown(t - p)) for p in range(g + 1)]
    f = [mpf(0), *(max(f[u], u * f[1]) for u in range(1, g + 1))]
    terms = [(v, w, g - v, g - w) for v in range(g + 1) for w in range(g + 1)] if g <= 16 else [(g, g, g, g)]
    if one_side:  # labels lose records, or gain them
        terms = [(v, 0, g - v, 0) for v in range(g + 1)] + [(0, w, 0, g - w) for w in range(g + 1)]
    curves: Curves = []
    for v, w, i, j in terms:
        law, finite = convolved(laplace_losses(i, r), laplace_losses(j, r)), exp(-f[v])
        losses = [((i + j - 2 * place) / scale - f[v] + f[w], mass * finite) for place, mass in enumerate(law)]
        curves.append((1 - finite, losses))
    return curves, shown(t - 1)


def pairs_from(curves: Curves) -> list[Profile]:
    """Return the profiles of curves of losses."""
    return [Pair(((mass, mass * exp(-loss)) for loss, mass in losses), outright) for outright, losses in curves]


def stability(facts: Facts) -> Promise:
    """T8."""
    (curves, alone), g = thresholded(facts, one_side=False), facts.group
    pairs = pairs_from(curves)
    proved = g <= 16 and facts.n >= 2 * facts.parameters["threshold"] - 2 + g and facts.all_cells >= 2 * g
    return Promise(lambda e: max(pair(number(e)) for pair in pairs), exact=proved, alone=alone)


def evolution(facts: Facts) -> Promise:
    """T16."""
    p, steps, one_side = facts.parameters, whole(facts.parameters["steps"], "steps"), facts.relation == "add-remove"
    nearest, most = whole(p.get("nearest", 1), "nearest", 1), whole(p.get("unit_votes", 0), "unit_votes")
    if steps == 0:
        return Promise(lambda _: mpf(0), mpf(0))
    if p["noise"] == "gaussian":
        group, each = (1, min(most, nearest * facts.group)) if most else (facts.group, nearest)
        changed = gaussian(drawn(p["scale"]), group, steps * each * (1 if one_side else 2))
        return Promise(changed, exact=one_side and each == 1)
    if (nearest, most) != (1, 0):
        raise StoppedError(WRONG, "T16 has one vote of each record where noise is added above a threshold")
    composed = composition(thresholded(facts, one_side=one_side)[0], steps)
    return Promise(lambda e: composed(number(e)))


def composition(curves: Curves, times: int) -> Profile:
    """Return the composition of a profile that is a maximum of piecewise linear curves in ``e^epsilon``."""
    kinks, pairs = (
        sorted({mpf(1), *(exp(loss) for _, losses in curves for loss, _ in losses if loss > 0)}),
        pairs_from(curves),
    )
    kinks.append(kinks[-1] * 2)
    corners, heights = list(kinks), [[pair(log(t)) for t in kinks] for pair in pairs]
    for place, (a, b) in enumerate(itertools.pairwise(kinks)):
        for one, two in itertools.combinations(heights, 2):
            before, after = one[place] - two[place], one[place + 1] - two[place + 1]
            if before * after < 0:
                corners.append(a + (b - a) * before / (before - after))
    corners = sorted({mpmath.nstr(t, 40): t for t in corners}.values())
    curve = [(t, max(pair(log(t)) for pair in pairs)) for t in corners]
    floor = curve[-1][1]
    atoms = bends([(1 / t, 1 - 1 / t + height / t) for t, height in reversed(curve[1:])] + curve, floor)
    atoms, made = [atom for atom in atoms if atom[1] > mpf(10) ** -45], {0: (mpf(0), mpf(1))}
    for _ in range(times):
        if len(made) * len(atoms) > TERMS:
            raise StoppedError(CANNOT, "the steps' losses are too many to list")
        held, made = made, {}
        for loss, mass in held.values():
            for more, chance in atoms:
                key = int(mpmath.nint((loss + more) * mpf(10) ** 30))
                made[key] = (loss + more, mass * chance + (made[key][1] if key in made else 0))
    pair = Pair(((mass, mass * exp(-loss)) for loss, mass in made.values()), 1 - (1 - floor) ** times)
    return lambda epsilon: pair(epsilon) * (1 + mpf(10) ** -25)


def marginals(facts: Facts) -> Promise:
    """T20."""
    scale, units, g = drawn(facts.parameters["scale"]), whole(facts.parameters["units"], "units", 1), facts.group
    if scale < 9 or (scale * 1024).denominator != 1:
        raise StoppedError(WRONG, "T20 asks for a scale of 9 or more that is a multiple of 1/1024")
    noise = gaussian(scale, g, units * (1 if facts.relation == "add-remove" else 2) + pairs_of(facts))
    columns, shown, alone = facts.cells.count(INFINITE), mpf(0), None
    if columns:
        squared, t = (whole(facts.parameters[name], name, 1) for name in ("label_units", "threshold"))
        if math.isqrt(squared) ** 2 != squared or columns * squared > units or t < 2:
            raise StoppedError(WRONG, "the labels' units are a square, within all units, and the threshold at least 2")
        if t <= g:
            raise StoppedError(CANNOT, "a threshold within the group's size")
        alone, most = (gaussian_tail(squared * (t - p), number(scale) * math.isqrt(squared)) for p in (1, g))
        shown = -mpmath.expm1(columns * min(mpmath.log1p(-most), g * mpmath.log1p(-alone)))
    return Promise(lambda e: shown + (1 - shown) * noise(e) * (1 + mpf(10) ** -300), alone=alone)


def pairs_of(facts: Facts) -> int:
    """Return how many pairs of columns the workload names: every pair where there is none."""
    names, workload = list(facts.columns), facts.parameters.get("workload")
    if workload is None:
        return math.comb(len(names), 2)
    named: set[frozenset[str]] = set()
    for text in [workload] if isinstance(workload, str) else workload:
        for entry in map(str.strip, text.split(",")):
            found = {frozenset((one, two)) for one in names for two in names
                     if one != two and entry in {one, f"{one}*{two}"}}  # fmt: skip
            if not found:
                raise StoppedError(CANNOT, f"the workload's entry {entry!r} names no pair of columns")
            named |= found
    return len(named)


# -- certificates
def counts(facts: Facts) -> Promise:
    """T6, T9 and T15: noisy counts of the cells, or of the nodes of some levels of a tree."""
    scale, levels = drawn(facts.parameters["scale"]), facts.parameters.get("levels", [0])
    noise = facts.parameters.get("noise", "gaussian" if facts.mechanism.startswith("gaussian") else "laplace")
    if not isinstance(levels, list) or not levels or len(set(levels)) != len(levels):
        raise StoppedError(CANNOT, "the levels are not listed")
    if scale <= 0 or noise not in {"gaussian", "laplace"}:
        raise StoppedError(CANNOT, "the noise is none that is known")
    points = facts.parameters.get("points")
    several = (len({json.dumps(one, default=str) for one in points}) if points else facts.all_cells) >= 2
    if noise == "gaussian":
        return Promise(gaussian(scale, facts.group, 2 * len(levels)), exact=several)
    made = laplace(scale, facts.group, len(levels))
    return made._replace(exact=made.exact and several)


MECHANISMS: dict[str, tuple[Callable[[Facts], Promise], str]] = {
    name: (made, theorems)
    for made, theorems, names in (
        (pitman_yor, "T1 T2 T21", "pitman-yor dirichlet-process"),
        (dirichlet_multinomial, "T4", "dirichlet-multinomial"),
        (mixture, "T5", "smoothed-histogram reveal-or-obscure"),
        (counts, "T6", "perturbed-histogram gaussian-smoothed-histogram laplace-projection-sampler"),
        (data_specific, "T7", "data-specific-reveal-or-obscure"),
        (stability, "T8", "stability-histogram stabilised-pitman-yor"),
        (counts, "T9", "hierarchical-histogram"),
        (exponential, "T10", "exponential-histogram"),
        (urn_histogram, "T12", "urn-histogram"),
        (randomised_response, "T13", "subsampled-randomised-response"),
        (counts, "T15", "signed-measure"),
        (evolution, "T16", "private-evolution"),
        (posterior, "T18", "censored-posterior"),
        (posterior, "T19", "pseudo-posterior"),
        (marginals, "T20", "marginals"),
    )
    for name in names.split()
}
ADD_REMOVE = {"private-evolution", "marginals", "censored-posterior"}


class Facts:
    """The public facts of a certificate, of any form."""

    def __init__(self, document: dict[str, Any]) -> None:
        if document.get("discreet_certificate") not in (1, 2) and document.get("discreet_tables_certificate") != 1:
            raise StoppedError(CANNOT, "it is not a certificate of version 1 or 2")
        self.mechanism: str = document["mechanism"]["name"]
        self.parameters: dict[str, Any] = document["mechanism"].get("parameters", document["mechanism"])
        self.columns: dict[str, Any] = document["domain"]["columns"]
        self.n = whole(document["records"], "records")
        self.relation: str = document["relation"]["name"]
        self.group = whole(document["relation"]["group"], "group", 1)
        self.asked, self.unit = document.get("size"), document.get("unit")
        self.cells = [cells_of(column) for column in self.columns.values()]
        self.all_cells = math.prod(self.cells)
        if self.relation not in {"replacement", "add-remove"}:
            raise StoppedError(CANNOT, f"the relation {self.relation!r} is not known")
        if self.relation == "add-remove" and self.mechanism not in ADD_REMOVE:
            raise StoppedError(WRONG, f"no theorem covers {self.mechanism} where records are added or removed")
        if self.relation == "replacement":
            self.group = min(self.group, max(1, self.n))

    @property
    def size(self) -> int:
        """How many records were asked for."""
        return whole(self.asked, "size", 1)

    def finite_cells(self) -> int:
        """Return how many cells the whole domain has."""
        if self.all_cells == INFINITE:
            raise StoppedError(WRONG, f"{self.mechanism} needs a finite domain")
        return int(self.all_cells)


def cells_of(column: dict[str, Any]) -> float:
    """Return how many cells a column has, infinitely many where it is continuous or open."""
    kind, found = column["type"], column.get("cells")
    if kind in {"boolean", "category"}:
        found = len(column["categories"]) if kind == "category" else 2
    elif found is None and kind in {"numeric", "open_labels"}:
        found = INFINITE if column.get("step") is None else _steps(column, exact(column["step"]), exact)
        found = len(set(column["grid"])) if "grid" in column else found
    elif found is None and kind in {"integer", "decimal"}:
        found = _steps(column, Fraction(1, 10 ** column.get("digits", 0)), lambda text: Fraction(str(text)))
    elif found is None and kind == "date":
        found = _steps(column, Fraction(1), lambda text: datetime.date.fromisoformat(text).toordinal())
    elif found is None:
        raise StoppedError(CANNOT, f"a column of type {kind!r} without cells")
    return found + (column.get("nulls") == "category")


def _steps(column: dict[str, Any], step: Fraction, read: Callable[[Any], Any]) -> int:
    return math.floor((read(column["upper"]) - read(column["lower"])) / step) + 1


def promise_of(document: dict[str, Any]) -> Promise:
    """Return what the theorems say of the mechanism in a certificate."""
    facts = Facts(document)
    if facts.mechanism not in MECHANISMS or (facts.relation == "replacement" and facts.n == 0):
        raise StoppedError(CANNOT, f"{facts.mechanism!r} is not known, or there are no records")
    made = MECHANISMS[facts.mechanism][0](facts)
    return made._replace(delta=cache(made.delta))


def _claim(what: str, epsilon: Fraction, stated: Fraction, promise: Promise, *, attained: bool) -> Check:
    """Compare a stated delta with the theorem's."""
    true, claimed = promise.delta(epsilon), number(stated)
    said = f"delta({float(epsilon):g}) is {mpmath.nstr(true, 12)}, stated {mpmath.nstr(claimed, 12)}"
    if claimed < true:
        return Check(what, CANNOT if claimed >= true * (1 - promise.rough) else LESS, said)
    if attained and true >= mpf(10) ** -300 and claimed > mpf("1.01") * true:
        return Check(what, WRONG, f"it is called exact, and {said}")
    return Check(what, AGREES, said)


def _sentence(document: dict[str, Any], facts: Facts) -> Iterator[Check]:
    """Compare the sentence of version 1 with the fields, and the privacy unit with the relation."""
    guarantee, group, wrong = document["guarantee"], document["relation"]["group"], []
    said, fields = guarantee.get("statement", ""), (exact(guarantee["epsilon"]), exact(guarantee.get("delta", 0)))
    found = re.search(r"at most e\^(\S+) a(?: \+ (\S+))?\.$", said)
    if found:
        numbers, (unit,) = [Fraction(text or 0) for text in found.groups()], re.findall(r"up to (\d+) rec", said) or [1]
        for name, text, field, digits in zip(("epsilon", "delta"), numbers, fields, (5, 2), strict=True):
            if not field <= text <= field * (1 + Fraction(2, 10**digits)):  # rounded up to six digits, and to three
                wrong.append(f"{name} is {float(field):g} in the fields and {float(text):g} in the sentence")
        if (int(unit), "in the table" in said) != (group, facts.relation == "add-remove"):
            wrong.append("the sentence is about another privacy unit or relation")
        if said.startswith("Whatever") and guarantee["kind"] != "unconditional":
            wrong.append("the sentence does not say that the guarantee is not proved")
    elif document.get("discreet_certificate") != 2:
        numbers = [Fraction(text) for text in re.findall(r"[0-9.]*[0-9]", said)]
        if not numbers or fields[0] > max(numbers) * (1 + Fraction(1, 10**6)):
            wrong.append("the sentence states a smaller epsilon than the fields")
    if facts.unit is not None and facts.unit["max_records"] != group:
        wrong.append(f"a unit has up to {facts.unit['max_records']} records, and the promise is about {group}")
    slots = facts.unit["max_records"] if facts.unit and not facts.parameters.get("unit_votes") else 1
    if facts.relation == "replacement" and facts.n % slots:
        wrong.append("the number of records is no multiple of a unit's slots")
    yield Check("guarantee.statement", WRONG if wrong else AGREES, "; ".join(wrong) or "as the fields")


def _numbers(document: dict[str, Any], promise: Promise) -> Iterator[Check]:
    guarantee = document["guarantee"]
    kind, attained = guarantee["kind"], guarantee["exact"] is True
    said = f"{kind}, of {' and '.join(promise.kinds)}"
    yield Check("guarantee.kind", AGREES if kind in promise.kinds else WRONG, said)
    theorems = MECHANISMS[document["mechanism"]["name"]][1]
    fits = guarantee["theorem"].removesuffix(", chained") in theorems.split()
    yield Check("guarantee.theorem", AGREES if fits else WRONG, f"{guarantee['theorem']}, of {theorems}")
    unproved = (CANNOT if promise.rough == 1 else WRONG) if attained and not promise.exact else AGREES
    yield Check("guarantee.exact", unproved, f"claimed: {attained}, proved: {promise.exact}")
    pairs = [("guarantee.delta", guarantee["epsilon"], guarantee.get("delta", 0))]
    pairs += [(f"guarantee.profile[{i}]", *pair) for i, pair in enumerate(guarantee["profile"])]
    for what, epsilon, delta in pairs:
        try:
            yield _claim(what, exact(epsilon), exact(delta), promise, attained=attained and promise.exact)
        except StoppedError as stopped:
            yield Check(what, *stopped.args)
    if guarantee["pure_epsilon"] is not None:
        stated = exact(guarantee["pure_epsilon"])
        fits = stated >= promise.pure if isinstance(promise.pure, Fraction) else number(stated) >= promise.pure
        said = f"it is {mpmath.nstr(number(promise.pure), 15)}, stated {float(stated)!r}"
        yield Check("guarantee.pure_epsilon", AGREES if fits else CANNOT if promise.rough == 1 else LESS, said)
    if "epsilon_each" in guarantee:
        tables = document["mechanism"].get("parameters", document["mechanism"])["tables"]
        fits = exact(guarantee["epsilon_each"]) * tables >= promise.pure
        yield Check("guarantee.epsilon_each", AGREES if fits else LESS, f"{tables} tables of {promise.pure / tables}")
    for caveat in guarantee["caveats"]:
        said = re.search(r"(?:verbatim, with|'single-label',) '?probability'?:? (?:Decimal\(')?([^'\s]+)", str(caveat))
        if said and promise.alone is not None:  # in words to the digits that it has, in a code to those of a float
            fits = number(Fraction(said[1])) >= promise.alone * (1 - mpf(10) ** (-2 if isinstance(caveat, str) else -9))
            detail = f"a label of one record: {mpmath.nstr(promise.alone, 6)}, stated {said[1]}"
            yield Check("guarantee.caveats", AGREES if fits else LESS, detail)


def _files(document: dict[str, Any], data: Path | None) -> Iterator[Check]:
    """Compare the released file, or the tables of a folder, with their hashes."""
    released = document.get("released", document)
    for table in released.get("tables") or [released] if data else []:
        path = data / str(table["file"]) if data.is_dir() else data
        if table.get("sha256") is None or not path.is_file():
            yield Check("released.sha256", CANNOT, f"there is no file {path.name}, or no hash of it")
            continue
        with path.open("rb") as file:
            fits = hashlib.file_digest(file, "sha256").hexdigest() == table["sha256"]
        said = "as stated" if fits else "another file, or changed"
        yield Check("released.sha256", AGREES if fits else WRONG, f"{path.name}: {said}")


def verify(text: str, data: Path | None = None) -> list[Check]:
    """Check every privacy number of a certificate, and the released files where they are given."""
    document = json.loads(text, parse_float=decimal.Decimal, parse_constant=decimal.Decimal)
    found: list[Check] = []
    for part in (lambda: _numbers(document, promise_of(document)), lambda: _sentence(document, Facts(document)),
                 lambda: _files(document, data)):  # fmt: skip
        try:
            found += part()
        except StoppedError as stopped:
            found.append(Check("guarantee", *stopped.args))
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
            found.append(Check("guarantee", CANNOT, f"a field is missing or of another form ({type(error).__name__})"))
    return found


def status_of(checks: list[Check]) -> int:
    """Return the exit status: the worst answer decides."""
    answers = {check.status for check in checks}
    return 1 if answers & {LESS, WRONG} else 2 if CANNOT in answers or not answers else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("certificate", type=Path, help="a certificate, or a folder that has one")
    parser.add_argument("--data", type=Path, help="the released file, or the folder of the tables")
    asked = parser.parse_args(arguments)
    path = asked.certificate / "certificate.json" if asked.certificate.is_dir() else asked.certificate
    try:
        checks = verify(path.read_text(encoding="utf-8"), asked.data)
    except (OSError, ValueError, RecursionError) as error:
        sys.stderr.write(f"{path} cannot be read as a certificate ({type(error).__name__})\n")
        return 3
    sys.stdout.writelines(f"{check.status:24} {check.what:26} {check.detail}\n" for check in checks)
    return status_of(checks)


if __name__ == "__main__":
    sys.exit(main())
