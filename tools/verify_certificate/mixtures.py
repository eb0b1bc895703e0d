"""T5, T7 and T13: mixtures with a uniform cell."""

import decimal
import math
from fractions import Fraction
from typing import Any

import mpmath
from mpmath import exp, log, mpf
from verify_certificate.answers import CANNOT, WRONG, Promise, StoppedError
from verify_certificate.arithmetic import TERMS, TINY, Pair, Profile, drawn, number, raised
from verify_certificate.divergence import bends, chain, mixture_pair
from verify_certificate.facts import Facts


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
    pure, chances, outcomes, left, chance = mpmath.log1p(m * ratio / n), [], [], mpf(0), (1 - rate) ** m
    for count in range(m + 1):  # messages, of which s and t are in the two cells
        if chance * ratio * m < TINY and count > m * rate:
            left = chance * ratio * m * 10
            break
        if math.comb(count + 2, 3) > TERMS:  # so many outcomes have fewer messages
            raise StoppedError(CANNOT, "there are too many outcomes to list")
        chances.append(chance)
        chance *= rate / (1 - rate) * (m - count) / (count + 1)
    for count, chance in enumerate(chances):
        for s in range(count + 1):
            for t in range(count + 1 - s):
                mass = math.comb(count, s) * math.comb(count - s, t) * share ** (s + t)
                mass *= chance * (1 - 2 * share) ** (count - s - t)
                outcomes.append((mass * (n - m + count + ratio * s) / n, mass * (n - m + count + ratio * t) / n))
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
    most, rough = m * g * pure, 0.0 if composed is part_4 else 1e-4 if m <= 66 else 1e-2
    return Promise(
        lambda e: min(part_4(number(e)), composed(number(e))) if number(e) < most else mpf(0), most, rough=rough
    )


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
