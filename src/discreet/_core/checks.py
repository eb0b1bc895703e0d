"""Checks of public parameters: one family, one wording, whichever error is raised.

They return plain Python values, whichever library's number or text was given. These are what is to be kept.

A message names the parameter, what it must be, and what was given: "size must be an integer from 1 to 10, got 3.5".
Only plain values are written: of a table, an array or an object of another library, its kind alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal as Exact
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, TypeVar

import numpy as np

from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.text import as_written, harmless, with_article

_OWN = {int, float, str, bool, type(None), list, tuple, dict}
_LONGEST, _DIGITS = 60, 40  # characters of a text, and digits of an integer, that a message repeats

Refusal = Callable[[str], DiscreetError]
"""Makes the error of a message: a class of errors, or a function that says more in front."""

_T = TypeVar("_T", bound=str)


def listed(value: Any) -> list[Any]:
    """Return several values as a list, and one, which a text and a mapping are, as a list of it."""
    if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)):
        return list(value)
    return [value]


def plain(value: Any) -> Any:
    """Return a scalar of NumPy, or a text of a subclass, as the value of Python that it is; anything else as it is."""
    # A date, a moment or a length of time is Python's, and a text where Python has none that equals it.
    if type(value) in _OWN:
        return value
    if type(value).__module__.partition(".")[0] == "pandas" and getattr(value, "tzinfo", None) is None:
        value = getattr(value, "to_timedelta64", getattr(value, "to_datetime64", lambda: value))()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        fine = np.datetime_data(value.dtype)[0] in ("ns", "ps", "fs", "as")
        short = value.astype(f"{value.dtype.kind}8[us]") if fine else value
        moment = short.item()
        return str(value) if isinstance(moment, int) or short.astype(value.dtype) != value else moment
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return str.__str__(value)
    return value


def integer(
    name: str,
    value: Any,
    *,
    least: int | None = None,
    most: int | None = None,
    remedy: str = "",
    error: Refusal = ParameterError,
) -> int:
    """Return an integer of a range, both ends in it; no boolean is one. Raises ``error`` when it is none."""
    value = plain(value)  # of NumPy, a length of time calls itself an integer
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if (least is None or least <= number) and (most is None or number <= most):
            return number
    raise unfit(name, f"an integer{_range(least, None, most, None)}", value, remedy=remedy, error=error)


def real(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    infinite: bool = False,
    down: bool = False,
    remedy: str = "",
    error: Refusal = ParameterError,
) -> float:
    """Return a number of a range, an end in it (``least``, ``most``) or not (``above``, ``below``)."""
    # Raises error when it is none. NaN never is, and infinity only where it is infinite, within the bounds. A number
    # that no float is written as, such as a third, is rounded down, else to the nearest.
    value = plain(value)
    number = as_float(value)
    inside = (
        (math.isfinite(number) or (infinite and math.isinf(number)))
        and (least is None or number >= least)
        and (above is None or number > above)
        and (most is None or number <= most)
        and (below is None or number < below)
    )
    if inside and down and math.isfinite(number):
        exact: Any = float
        if isinstance(value, Exact):
            exact = Exact
        elif isinstance(value, Rational):
            exact = Fraction
        if exact(repr(number)) > value:  # the decimal that it is written as
            return math.nextafter(number, -math.inf)
    if inside:
        return number
    finite = not infinite and most is None and below is None
    form = f"a {'finite ' * finite}number" + _range(least, above, most, below)
    raise unfit(name, form, value, remedy=remedy, error=error)


def positive_size(name: str, value: Any) -> int:
    """Return a number of records. Raises ParameterError when it is not an integer from 1 to 1e10."""
    return integer(name, value, least=1, most=10**10)


def probability(name: str, value: Any) -> float:
    """Return a number from 0 to 1. Raises ParameterError when it is none."""
    return real(name, value, least=0, most=1)


def dimensions(value: Any) -> int:
    """Return a number of dimensions. Raises ParameterError when it is none."""
    return integer("dimension", value, least=1, most=10**6)


def positive(**numbers: float) -> None:
    """Refuse numbers that are not finite and above 0."""
    for name, value in numbers.items():
        real(name, value, above=0)


def sizes(*, n: float, d: int, m: float = 1) -> None:
    """Refuse numbers of records, and a dimension, that are below 1."""
    real("n", n, least=1)
    real("m", m, least=1)
    integer("d", d, least=1)


def choice(name: str, value: Any, options: Collection[_T], *, error: Refusal = ParameterError) -> _T:
    """Return the one of some texts that a value is. Raises ``error`` when it is none of them."""
    if isinstance(value, str):
        for option in options:
            if value == option:
                return option
    words = [repr(option) for option in options]
    raise unfit(name, " or ".join(words) if len(words) < 3 else f"one of {', '.join(words)}", value, error=error)


def flag(name: str, value: Any, *, error: Refusal = ParameterError) -> bool:
    """Return True or False. Raises ``error`` when it is neither."""
    value = plain(value)
    if isinstance(value, bool):
        return value
    raise unfit(name, "True or False", value, error=error)


def unfit(name: str, form: str, value: Any, *, remedy: str = "", error: Refusal = ParameterError) -> DiscreetError:
    """Return the error that refuses a value, in the words of all of these."""
    return error(f"{name} must be {form}, got {shown(value)}" + f". {remedy}" * bool(remedy))


def shown(value: Any) -> str:
    """Write a value that was given: a plain one as it is, of another its kind alone: 'a list'."""
    value = plain(value)
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, Integral):
        number = int(value)
        return str(number) if abs(number) < 10**_DIGITS else f"an integer of more than {_DIGITS} digits"
    if isinstance(value, (Real, Exact)):
        return as_written(as_float(value))
    if isinstance(value, str):
        return repr(value[:_LONGEST]) + "..." * (len(value) > _LONGEST)
    return with_article(harmless(type(value).__name__))


def as_float(value: Any) -> float:
    """Return a number as a float, infinity where it is beyond them, NaN where it is none."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, (Real, Exact)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _range(least: float | None, above: float | None, most: float | None, below: float | None) -> str:
    """Say in words between which bounds a number must be, after what it must be."""
    if least is not None and most is not None:
        return f" from {_bound_text(least)} to {_bound_text(most)}"
    bounds = (("of at least", least), ("above", above), ("at most", most), ("below", below))
    words = " and ".join(f"{word} {_bound_text(bound)}" for word, bound in bounds if bound is not None)
    return " of" * words.startswith("at most") + f" {words}" * bool(words)


def _bound_text(number: float) -> str:
    return f"{int(number):,}" if number == int(number) and abs(number) < 1e15 else as_written(number)
