"""Numbers as text, rounded to the side on which what is written still holds."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["harmless", "rounded_down", "rounded_up", "with_article"]


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


def harmless(text: str, *, lines: bool = False) -> str:
    r"""Write what a terminal would obey rather than show as an escape: control, format and unpaired characters.

    Parameters
    ----------
    text : str
        Anything: a name from a file, a path.
    lines : bool
        Whether it may have several lines.

    Examples
    --------
    >>> print(harmless("a title\x1b]0;b\x07"))
    a title\u001b]0;b\u0007
    """
    kept = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or (c.isspace() and c not in _BREAKS) or c in kept else _escaped(c) for c in text
    )


_BREAKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def with_article(noun: str) -> str:
    """Return ``a noun`` or ``an noun``, by its first letter.

    Examples
    --------
    >>> with_article("integer"), with_article("date"), with_article("NoneType")
    ('an integer', 'a date', 'a NoneType')
    """
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"
