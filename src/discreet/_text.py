"""Numbers as text, rounded to the side on which what is written still holds."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["rounded_down", "rounded_up"]


def rounded_up(value: float, digits: int = 3) -> str:
    """Write a number with ``digits`` significant digits, never below its value.

    Examples
    --------
    >>> rounded_up(7.802e-10)
    '7.81e-10'
    >>> rounded_up(1.0)
    '1'
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 3) -> str:
    """Write a number with ``digits`` significant digits, never above its value.

    Examples
    --------
    >>> rounded_down(0.99999)
    '0.999'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    exact = Decimal(value)
    if not exact.is_finite() or exact == 0:
        return f"{value:g}"
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(quantum, rounding=rounding)):.{digits}g}"
