"""T6, T8, T9, T15, T16 and T20: noise on counts, and labels that nobody listed."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
from mpmath import exp, log, mpf
from verify_certificate.answers import CANNOT, WRONG, Promise, StoppedError
from verify_certificate.arithmetic import INFINITE, TERMS, TINY, Pair, Profile, convolved, drawn, number, whole
from verify_certificate.divergence import bends
from verify_certificate.facts import Facts


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
    pairs = pairs_from(curves)
    kinks = sorted({mpf(1), *(exp(loss) for _, losses in curves for loss, _ in losses if loss > 0)})
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
    columns, shown, alone = facts.cells.count(INFINITE), mpf(0), None
    each = whole(facts.parameters.get("score_units", 1), "score_units", 1)
    if math.isqrt(each) ** 2 != each or each > units:
        raise StoppedError(WRONG, "the units of a score are a square, and no more than all units")
    noise = gaussian(scale, g, units * (1 if facts.relation == "add-remove" else 2) + each * pairs_of(facts))
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
    """Return how many pairs get a score: those that the workload names, or all, but for outcomes and dependencies."""
    names, workload = list(facts.columns), facts.parameters.get("workload")
    told = {frozenset(pair) for pair in facts.determines if len(pair) == 2}
    pairs = len(told) == len(facts.determines) and all(len(pair) == 2 and pair <= {*names} for pair in told)
    if not pairs or len(facts.outcome) > 3 or len({*names} & {*facts.outcome}) < len(facts.outcome):
        raise StoppedError(WRONG, "the outcome is up to three different columns, and what determines is pairs of them")
    if workload is None:
        return math.comb(len(names) - len(facts.outcome), 2) - sum(pair.isdisjoint(facts.outcome) for pair in told)
    named: set[frozenset[str]] = set()
    for entry in map(str.strip, workload.split(",") if isinstance(workload, str) else workload):
        found = {frozenset((one, two)) for one in names for two in names
                 if one != two and entry in {one, f"{one}*{two}"}}  # fmt: skip
        if not found:
            raise StoppedError(CANNOT, f"the workload's entry {entry!r} names no pair of columns")
        named |= found
    return sum(pair.isdisjoint(facts.outcome) for pair in named - told)
