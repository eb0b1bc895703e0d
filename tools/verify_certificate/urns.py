"""T1, T2, T4, T12 and T21: urns."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
from mpmath import log, mpf
from verify_certificate.answers import CANNOT, Promise, StoppedError
from verify_certificate.arithmetic import INFINITE, TERMS, Pair, Profile, drawn, exact, number, raised
from verify_certificate.divergence import chain, draws, masses, urn_pair
from verify_certificate.facts import Facts


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
    kinds = ("empirical",) if sampled else ("unconditional",)
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
