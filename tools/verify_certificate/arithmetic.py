"""Numbers of many digits, and the divergence of two listed laws."""

import bisect
import decimal
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from mpmath import exp, mp, mpf
from verify_certificate.answers import CANNOT, WRONG, StoppedError

mp.prec = 180
TINY = mpf(10) ** -330  # a bound on whatever is left out
TERMS = 300_000  # longer sums are not attempted
INFINITE = math.inf
Profile = Callable[[Any], Any]  # of an epsilon: delta, or a bound on it


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
