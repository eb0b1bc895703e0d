"""Rounding and root finding that can only err on the stated side."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["least_integer", "least_real", "up"]


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
    holds: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-10, absolute: float = 0.0
) -> float | None:
    """Return a real in ``[low, high]``, within a relative distance of the least, where a monotone condition holds.

    ``holds`` is false up to some point and true from there on; the returned value was itself tested, so it errs
    upwards only. None when the condition fails at ``high``.
    """
    if holds(low):
        return low
    if not holds(high):
        return None
    while high - low > max(relative * high, absolute):
        if low > 0 and high / low > 4.0:
            middle = math.sqrt(low * high)
        elif low == 0 and high > 1e-300:
            middle = high / 16.0
        else:
            middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
