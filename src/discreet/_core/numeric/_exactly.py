"""Numbers compared exactly: a float as the decimal it is written as, and logarithms of rational numbers.

A user's 0.1 means one tenth, not the binary fraction next to it. What a float is *written* as is the shortest decimal
that reads back as that float, which is what Python, JSON and TOML show; every comparison with a pure epsilon is made
with that decimal, without a margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

_DIGITS = Context(prec=120, Emax=10**9, Emin=-(10**9))
_DOUBT = Decimal(1).scaleb(-90)  # relative: far more than the rounding of a logarithm of 120 digits


def written(value: float) -> Fraction:
    """Return the decimal that a float is written as, exactly.

    Examples
    --------
    >>> written(0.1) == Fraction(1, 10) != Fraction(0.1)
    True
    """
    return Fraction(repr(float(value)))


def not_above(value: float) -> float:
    """Return the float itself, or its lower neighbour where its binary value exceeds the decimal it is written as."""
    return math.nextafter(value, -math.inf) if Decimal(value) > Decimal(repr(value)) else value


def above(value: Fraction) -> float:
    """Return the least float whose written decimal is at least a number.

    Examples
    --------
    >>> above(Fraction(1, 10)), above(Fraction(1, 10) + Fraction(1, 10**30))
    (0.1, 0.10000000000000002)
    """
    try:
        found = float(value)
    except OverflowError:
        return math.inf
    while written(found) < value:
        found = math.nextafter(found, math.inf)
    while written(lower := math.nextafter(found, -math.inf)) >= value:
        found = lower
    return found


def below(value: Fraction) -> float:
    """Return the largest float whose written decimal is at most a number.

    Examples
    --------
    >>> below(Fraction(1, 10)), below(Fraction(1, 10) - Fraction(1, 10**30))
    (0.1, 0.09999999999999999)
    """
    found = above(value)
    return found if written(found) == value else math.nextafter(found, -math.inf)


@dataclass(frozen=True, slots=True)
class LogRatio:
    """The number ``times * log(ratio)``: the largest loss of a mechanism whose probabilities are rational.

    ``ratio``: at least 1.
    ``times``: positive.
    """

    ratio: Fraction
    times: int = 1

    def ceiling(self) -> float:
        """Return the least float whose written decimal is not below the number."""
        return _ceiling(self.ratio, self.times)

    def minus(self, epsilon: Fraction) -> float:
        """Return the number less ``epsilon``, rounded up to a float; 0 where ``epsilon`` is not smaller."""
        exact = _logarithm(self.ratio, self.times)
        left = _DIGITS.subtract(exact, _decimal(epsilon))
        left = _DIGITS.add(left, _DIGITS.multiply(exact, _DOUBT))
        return math.nextafter(float(left), math.inf) if left > 0 else 0.0


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


@lru_cache(maxsize=4096)
def _logarithm(ratio: Fraction, times: int) -> Decimal:
    return _DIGITS.multiply(_DIGITS.ln(_decimal(ratio)), Decimal(times))


@lru_cache(maxsize=4096)
def _ceiling(ratio: Fraction, times: int) -> float:
    if ratio == 1:
        return 0.0
    exact = _logarithm(ratio, times)
    least = _DIGITS.add(exact, _DIGITS.multiply(exact, _DOUBT))  # irrational: no decimal lies within the doubt
    return above(Fraction(least))
