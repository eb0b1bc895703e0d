"""Rounding and root finding that can only err on the stated side."""

from __future__ import annotations

import math
from collections.abc import Callable


def up(value: float, ulps: int = 4) -> float:
    """Round a non-negative number up by a few units in the last place; zero and infinity stay.

    Examples
    --------
    >>> up(0.1) > 0.1
    True
    """
    if value == 0.0 or math.isinf(value):
        return value
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value


def log_ratio(value: float, target: float) -> float:
    """Return ``log(value / target)`` for ``value >= 0`` and ``target > 0``: above 0 exactly where the value is above.

    Examples
    --------
    >>> log_ratio(0.1, math.nextafter(0.1, 1.0)) < 0.0 < log_ratio(math.nextafter(0.1, 1.0), 0.1)
    True
    """
    size = abs(math.log(value) - math.log(target)) if 0.0 < value < math.inf else max(value, 750.0)
    return math.copysign(max(size, 1e-300), value - target) if value != target else 0.0


def least_integer(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the least integer in ``[low, high]`` where a monotone condition holds, or None.

    ``holds`` is false up to some point and true from there on. The returned value was itself tested. The search gallops
    from ``low``, so it costs about twice the logarithm of the distance to the answer.
    """
    step, below = 1, low - 1
    while (candidate := min(below + step, high)) <= high and not holds(candidate):
        if candidate == high:
            return None
        below, step = candidate, 2 * step
    while candidate - below > 1:
        middle = (below + candidate) // 2
        if holds(middle):
            candidate = middle
        else:
            below = middle
    return candidate


def least_real(
    excess: Callable[[float], float], low: float, high: float, *, relative: float = 1e-10, absolute: float = 0.0
) -> float | None:
    """Return a real in ``[low, high]``, within a relative distance of the least, at which an excess is at most 0.

    ``excess`` is above 0 up to some point and at most 0 from there on; the returned value was itself tried, so it errs
    upwards only. None where it is above 0 at ``high``. Chandrupatla's method (1997), on the logarithmic scale where
    ``low`` is above 0: about a dozen tries where the excess is smooth, and never many more than bisection takes.
    """
    if (above := excess(low)) <= 0:
        return low
    if not (below := excess(high)) <= 0:
        return None
    into, back = (math.log, math.exp) if low > 0 else (float, float)
    # The newest point, one with the other sign, and the one before: where they are, and what the excess is there.
    (a, at_a), (b, at_b) = (into(low), above), (into(high), below)
    c, at_c, share = a, at_a, 0.5
    while high - low > (allowed := max(relative * high, absolute)):
        tried = back(a + share * (b - a))
        if not low < tried < high and not low < (tried := back(0.5 * (a + b))) < high:
            break
        found = excess(tried)
        low, high = (low, tried) if found <= 0 else (tried, high)
        if (found <= 0) == (at_a <= 0):
            c, at_c = a, at_a
        else:
            (c, at_c), (b, at_b) = (b, at_b), (a, at_a)
        a, at_a = into(tried), found
        share = _interpolated((a, b, c), (at_a, at_b, at_c))
        least = 0.5 * allowed / (high - low)
        share = min(1.0 - least, max(least, share)) if least < 0.5 else 0.5
    return high


def _interpolated(at: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """Return how far from the first to the second of three points their inverse parabola is 0; half where it is bad."""
    (a, b, c), (f, g, h) = at, values
    if not (math.isfinite(f) and math.isfinite(g) and math.isfinite(h)) or h in (f, g):
        return 0.5
    place, value = (a - b) / (c - b), (f - g) / (h - g)
    if not (value * value < place and (1.0 - value) ** 2 < 1.0 - place):
        return 0.5
    return f / (g - f) * h / (g - h) + (c - a) / (b - a) * f / (h - f) * g / (h - g)
