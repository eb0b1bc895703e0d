"""What columns declare, and what does not fit; valid Unicode, CSV that spreadsheets open, and lengths of time."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal as Exact
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.lazy import pl
from discreet._core.numeric import Booleans

Codes = npt.NDArray[Any]
"""Encoded values of one column: int64 cell codes, float64 values, or object strings."""

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

OTHER = "other"
"""The label of values that do not fit, where ``out_of_bounds`` says so."""

WIDEN = 'widen lower and upper (from public knowledge), or declare out_of_bounds = "clip"'
"""What to do about values outside the declared bounds."""


class PublicFact(NamedTuple):
    """What a kind of column has to declare: the key, what it is, how to write it, and what a template says of it."""

    key: str
    words: str
    example: str
    description: str


NUMBERS = (
    PublicFact("lower", "its lower bound", "0", "smallest value that can occur"),
    PublicFact("upper", "its upper bound", "100", "largest value that can occur"),
)


class Misfit(NamedTuple):
    """What is wrong with some values of a column, what to do about it, and which ones they are: confidential."""

    problem: str
    remedy: str
    where: Booleans


def settle(self: Any, **facts: Any) -> None:
    """Set normalised fields of a frozen object during construction."""
    for name, value in facts.items():
        object.__setattr__(self, name, value)


def toml_value(value: Any) -> Any:
    """Return a declared fact as TOML has it."""
    if isinstance(value, dt.timedelta):
        return span_text(value)
    if isinstance(value, Mapping):
        return {key: toml_value(part) for key, part in value.items()}
    if isinstance(value, (Exact, dt.time)):
        return str(value)
    return list(map(toml_value, value)) if isinstance(value, tuple) else value


def holds(dtype: str, low: float, high: float) -> bool:
    """Whether an integer type of released values holds all of a range."""
    limits = np.iinfo(dtype)
    return bool(limits.min <= low and high <= limits.max)


def outside(below: Booleans, above: Booleans) -> Iterator[Misfit]:
    """Yield the values below and above the bounds of a column."""
    yield Misfit("a value lies below the declared lower bound", WIDEN, below)
    yield Misfit("a value lies above the declared upper bound", WIDEN, above)


# CSV that spreadsheets open: texts that they would run as formulas are written with an apostrophe before them.
#
# The rule loses nothing. Let F be the characters ``= + - @``, their full-width forms, tab, carriage return and line
# feed. A text of some apostrophes (or none) and then a character of F is written with one apostrophe more; read, a text
# of at least one apostrophe and then a character of F loses one. All other texts stay, so that reading undoes writing
# whatever the text. A number with a sign, such as -9, is no formula and stays too. The rule holds for labels and names
# of columns; numbers, dates and durations are not texts.

_FIRST = "[=+@\\-\uff1d\uff0b\uff0d\uff20\\t\\r\\n]"
_NUMBER = "[+-][0-9]+(?:[.,][0-9]+)?"
_WRITE, _READ = f"^('*{_FIRST})", f"^'('*{_FIRST})"


def escaped(text: str) -> str:
    """Write one text."""
    return text if re.fullmatch(_NUMBER, text) else re.sub(_WRITE, r"'\1", text)


def unescaped(text: str) -> str:
    """Read one text; undoes :func:`escaped`."""
    return re.sub(_READ, r"\1", text)


def escaped_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Write the texts of a table and the names of its columns."""
    texts = pl.selectors.string(include_categorical=True) | pl.selectors.enum()
    return frame.with_columns(_written(texts.cast(pl.String))).rename(escaped)


def escaped_series(texts: pl.Series) -> pl.Series:
    """Write the texts of a column."""
    return pl.select(_written(pl.lit(texts))).to_series()


def _written(texts: pl.Expr) -> pl.Expr:
    return pl.when(texts.str.contains(f"^(?:{_NUMBER})$")).then(texts).otherwise(texts.str.replace(_WRITE, "'${1}"))


def unescaped_frame(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Read a CSV file whose columns are all texts; undoes :func:`escaped_frame`."""
    return frame.rename(unescaped).with_columns(pl.all().str.replace(_READ, "${1}"))


def unescaped_series(texts: pl.Series) -> pl.Series:
    """Read the texts of a column; undoes what :func:`escaped_frame` does to them."""
    if not texts.str.starts_with("'").any():
        return texts
    return texts.str.replace(_READ, "${1}")


def missing_in(values: pl.Series) -> pl.Series:
    """Return which values are null or NaN."""
    missing = values.is_null()
    return missing | values.is_nan().fill_null(value=False) if values.dtype.is_float() else missing


def type_text(dtype: pl.DataType) -> str:
    """Name a type without its parameters, which may be values (the categories of an Enum)."""
    name = dtype.base_type().__name__
    if name != "Datetime":
        return name
    return f"{name} (with a time zone)" if getattr(dtype, "time_zone", None) else f"{name} (without a time zone)"


_KINDS = {"Float": "numeric", "Int": "integer", "UInt": "integer", "String": "string", "Categorical": "string"}
_KINDS |= {"Enum": "string", **dict.fromkeys(("Binary", "List", "Array", "Struct"), "none")}
_KINDS |= {name: name.lower() for name in ("Boolean", "Datetime", "Date", "Duration", "Decimal", "Time")}


def type_name(dtype: Any) -> str:
    """Return the kind of column that usually declares a narwhals or Polars type; "none" where no kind does."""
    return _KINDS.get(dtype.base_type().__name__.rstrip("0123456789"), "unknown")


def is_text(dtype: pl.DataType) -> bool:
    """Whether values of a type are texts."""
    return dtype == pl.String or dtype == pl.Categorical or dtype == pl.Enum  # noqa: PLR1714 - no hash


def encodable(text: str) -> bool:
    """Return whether a text is valid Unicode."""
    return re.search(r"[\ud800-\udfff]", text) is None


# Durations such as ``1d2h30m``.

_WORDS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
_UNITS = {unit: dt.timedelta(**{word: 1}) for unit, word in (_WORDS | {"us": "microseconds"}).items()}
_PART = re.compile(r"(\d+)(ms|us|[wdhms])")
_WHOLE = re.compile(r"-?(?:\d+(?:ms|us|[wdhms]))+")


def span(text: str) -> dt.timedelta | None:
    """Read a duration such as ``1d2h30m`` or ``-90s``; None where it is not one."""
    if not _WHOLE.fullmatch(text):
        return None
    try:
        total = sum((int(count) * _UNITS[unit] for count, unit in _PART.findall(text)), dt.timedelta())
    except OverflowError:
        return None
    return -total if text.startswith("-") else total


def span_text(value: dt.timedelta) -> str:
    """Write a duration so that :func:`span` reads it back."""
    remainder, parts = abs(value), []
    for unit in ("d", "h", "m", "s", "us"):
        count, remainder = divmod(remainder, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "-" * (value < dt.timedelta()) + ("".join(parts) or "0s")
