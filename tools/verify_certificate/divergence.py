"""Lemmas 6 and 7, and compositions: one sum for urns and mixtures, chains of records, and curves of losses."""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import mpmath
from mpmath import exp, log, loggamma, mpf
from verify_certificate.answers import CANNOT, StoppedError
from verify_certificate.arithmetic import TERMS, TINY, Pair, Profile


def lemma_6(
    tosses: tuple[list[Any], Any], threshold: Callable[[int, Any], Any], *parts: Callable[[int, int], Any]
) -> Profile:
    """Return the divergence, given the chances of more than ``u`` tosses and what that list leaves out."""
    # threshold: exceeded by the s with g_u(s) > 0. parts: at (u, s), the base law, its ratios to (u + 1, s) and
    # (u, s + 1), the chance of a success, and the likelihoods p and q.
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


def bends(curve: list[tuple[Any, Any]], floor: Any) -> list[tuple[Any, Any]]:
    """Return losses and their masses of the pair whose profile has these corners, as a function of ``e^epsilon``."""
    slopes = [(y - x) / (b - a) for (a, x), (b, y) in itertools.pairwise(curve)]
    jumps = [after - before for before, after in zip([floor - 1, *slopes], [*slopes, mpf(0)], strict=True)]
    if min(jumps) < -(mpf(10) ** -25):
        raise StoppedError(CANNOT, "a profile did not come out convex")
    return [(log(t), max(mpf(0), jump) * t) for jump, (t, _) in zip(jumps, curve, strict=True)]
