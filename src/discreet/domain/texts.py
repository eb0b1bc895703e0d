"""What columns declare, and what does not fit; how values are written as texts; CSV that spreadsheets open; spans.

Texts are read and written by expressions of Polars, wherever they come from. No message holds one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal as Exact
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.errors import flag, unfit
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
    if values.dtype.is_float():
        missing |= values.is_nan().fill_null(value=False)
    return missing


def type_text(dtype: pl.DataType) -> str:
    """Name a type without its parameters, which may be values (the categories of an Enum)."""
    name = dtype.base_type().__name__
    if name != "Datetime":
        return name
    if getattr(dtype, "time_zone", None):
        return f"{name} (with a time zone)"
    return f"{name} (without a time zone)"


KINDS = {
    "numeric": "numeric", "integer": "integers", "boolean": "labels", "date": "temporal", "datetime": "temporal",
    "duration": "temporal", "time": "temporal", "decimal": "integers", "category": "labels", "open_labels": "labels",
}  # fmt: skip
"""Kinds of columns, and the files of this package that have their classes, which have their names (OpenLabels)."""


def column_type(kind: str) -> Any:
    """Return the class of a kind of columns."""
    return getattr(import_module(f"discreet.domain.{KINDS[kind]}"), kind.title().replace("_", ""))


def moment_text(kind: str, position: float, *, sep: str = "T", timespec: str = "seconds") -> str:
    """Write a position as values of a kind of columns are written; empty where these are numbers."""
    if kind not in KINDS or (value_at := column_type(kind)._value_at) is None:
        return ""
    moment = value_at(position)
    if isinstance(moment, dt.datetime):
        return moment.isoformat(sep, timespec)
    if isinstance(moment, dt.time):
        return moment.isoformat(timespec)
    return str(moment)


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
    return ("-" if value < dt.timedelta() else "") + ("".join(parts) or "0s")


_SIGNS = {"decimal_mark", "thousands", "prefix", "suffix"}
_MOST_LISTED = 2**16
_BLANK = r"[\s\u00a0\u202f]"


def text_problem(column: Any) -> tuple[str, str]:
    """Return what is wrong with texts that cannot be read, and the lines to write."""
    form, example = column.text_form
    keys = [key for key, value in column.notation.items() if value and key != "null_values"]
    declared = ", ".join(f"{key} = {column.notation[key]!r}" for key in keys).replace("'", '"')
    remedy = f"declare how they are written, for example: {example}" if example else "write them so"
    if declared:
        form, remedy = f"{form.partition(' written')[0]} as declared", f"correct what is declared: {declared}"
        if hasattr(column, "suffix") and not column.prefix + column.suffix:
            remedy += '. If a sign stands beside the number, declare it, too: suffix = " €"'
    return f"values are not {form}", f'{remedy}. What stands for a null: null_values = ["NA"]'


def type_problem(column: Any, dtype: pl.DataType) -> tuple[str, str]:
    """Return what is wrong with values of a type that is not the declared one, and what to do about it."""
    kind, zone = type_name(dtype).replace("string", "category"), getattr(dtype, "time_zone", None)
    remedy = f'declare type = "{kind}", or cast it'
    if kind in ("none", "unknown"):
        remedy = "leave the column out, or cast it: no type takes such values"
    elif column.kind == "datetime" and dtype == pl.Datetime:
        remedy = 'declare its time_zone, such as "Europe/Paris"' if zone else "leave time_zone out"
    return f"holds {type_text(dtype)} values, not the declared {column.kind}", remedy


def check_notation(column: Any) -> None:
    """Refuse a notation that cannot be read back. Raises DomainError."""
    notation = column.notation
    for name in notation.keys() & {"null_values", "censored"}:
        texts = notation[name]
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) and encodable(text) for text in texts):
            raise unfit(name, 'a list of texts, such as ["", "NA"]', texts, error=column._error)
    flag("strip", column.strip, error=column._error)
    if column.kind == "boolean" and (column.true, column.false) != (None, None):
        texts = {text for text in (column.true, column.false) if isinstance(text, str) and text.strip() == text}
        if len(texts) < 2:
            raise unfit("true and false", 'two texts, such as "Y" and "N"', column.true, error=column._error)
    if hasattr(column, "decimal_mark"):
        _check_signs(column)
    if "format" in notation:
        _check_format(column)
    if column.null_values or "censored" in notation:
        _check_texts(column)


def _check_signs(column: Any) -> None:
    if column.decimal_mark not in (".", ","):
        raise unfit("decimal_mark", '"." or ","', column.decimal_mark, error=column._error)
    if str(column.thousands) not in {"", *".,' \u2019\u00a0\u202f"} - {column.decimal_mark}:
        raise unfit("thousands", "one sign, another than decimal_mark", column.thousands, error=column._error)
    for name, blank, example in (("prefix", r"^\s", "$"), ("suffix", r"\s$", " €")):
        if not isinstance(sign := getattr(column, name), str) or re.search(rf"[\d.,+-]|{blank}|^\s$", sign):
            raise unfit(name, f'a text such as "{example}", without digits', sign, error=column._error)


def _check_format(column: Any) -> None:
    """Refuse a format that does not bring values of the column back, a few of which are tried."""
    last = column._points - 1
    places = np.unique([0, 1, last // 3, last // 2, last]).clip(0, last)
    values = column._from_units(column._start + places * column._stride)
    with suppress(pl.exceptions.PolarsError, TypeError):
        if column.parse(as_texts(column, values)).cast(values.dtype).equals(values):
            return
    example = column.text_form[1].partition(" = ")[2].partition(", or")[0]
    form = f"one that a whole value can be read from, such as {example}"
    raise unfit("format", form, column.format, error=column._error)


def _check_texts(column: Any) -> None:
    """Refuse texts beside the values that are values."""
    nulls = _parsed(column, pl.Series(column.null_values, dtype=pl.String)).drop_nulls()
    low, high, numbers = 0.0, 0.0, []
    if column.on_a_line and column.labels is None:
        ends = [0, column.values - 1] if column.finite else [column.lower, column.upper]
        (low, _), (_, high) = column.ends(np.array(ends))
        numbers = column._numbers(nulls).tolist()
    if {*nulls} & {*(column.labels or ())} or any(low <= number <= high for number in numbers):
        column._refuse("null_values must hold no declared value. Leave it out of them, or out of the values")
    texts = pl.Series(getattr(column, "censored", ()), dtype=pl.String).str.strip_chars()
    if texts.is_duplicated().any() or not column._reading(texts)[1].all():
        column._refuse("censored must be different texts, no numbers and no nulls")
    if len(texts) and (column.base is not None or not 0 < (column.values or 0) <= _MOST_LISTED):
        column._refuse(f"censored needs cells, at most {_MOST_LISTED:,}, and no base. Declare fewer")


# Reading.


def read_texts(column: Any, values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return values with their texts read, blanks cut off and what stands for a null; and which cannot be read."""
    numbers = getattr(column, "numbers", None)
    if numbers is not None and not is_text(values.dtype):  # they are read as the texts that they are written as
        values = numbers.write(numbers._reading(values)[0]).cast(pl.String)
    texts = values
    if is_text(values.dtype):
        text = pl.lit(values.cast(pl.String))
        if column.strip or not column.textual:
            text = text.str.strip_chars()
        if column.null_values:
            text = pl.when(~text.is_in(list(column.null_values))).then(text)
        texts = pl.select(text).to_series()
        values = texts if column.textual else _parsed(column, texts)
    unread = values.is_null() & texts.is_not_null()
    if column.null_values and not column.textual and column._accepts(values.dtype):
        nulls = _parsed(column, pl.Series(column.null_values)).cast(values.dtype, strict=False).drop_nulls()
        values = pl.select(pl.when(~pl.lit(values).is_in(nulls.to_list())).then(pl.lit(values))).to_series()
    return values, unread


def _parsed(column: Any, texts: pl.Series) -> Any:
    """Return texts as typed values; null where they are written otherwise."""
    if column.open or not _SIGNS & column.notation.keys():
        return column.parse(texts)
    sign = _BLANK if column.thousands.isspace() else re.escape(column.thousands)
    groups = rf"|\d{{1,3}}(?:{sign}\d{{3}})+" if sign else ""
    mark, number = re.escape(column.decimal_mark), pl.lit(texts)
    prefix, suffix = re.escape(column.prefix.strip()), re.escape(column.suffix.strip())
    number = number.str.replace(rf"^([+-]?){_BLANK}*{prefix}{_BLANK}*", "${1}").str.replace(rf"{_BLANK}*{suffix}$", "")
    fits = number.str.contains(rf"^[+-]?(?:\d+{groups})?(?:{mark}\d*)?(?:[eE][+-]?\d+)?$")
    plain = number.str.replace_all(sign or "^$", "").str.replace(mark, ".")
    return column.parse(pl.select(pl.when(fits).then(plain)).to_series())


# Writing.


def as_texts(column: Any, values: pl.Series) -> pl.Series:
    """Return released values as texts in the notation of their column; as they are where none is declared."""
    notation, value, null = column.notation, pl.lit(values), next(iter(column.null_values), "")
    if "true" in notation:
        value = pl.when(value).then(pl.lit(column.true)).when(~value).then(pl.lit(column.false))
    elif "format" in notation:
        value = value.dt.to_string(column.format or "iso")
    elif column.kind == "duration":
        value = value.dt.to_string("polars").str.replace_all(" ", "").str.replace("µ", "u")
    elif not column.open and _SIGNS & notation.keys():
        number = value.cast(pl.String)
        digits, decimals = number.str.extract(r"^-?(\d+)"), number.str.extract(r"^-?\d+(.*)$")
        if column.thousands:  # groups of three digits are counted from the last one
            groups = digits.str.reverse().str.replace_all(r"(\d{3})", "${1}" + column.thousands)
            digits = groups.str.strip_suffix(column.thousands).str.reverse()
        parts = number.str.extract("^(-?)"), pl.lit(column.prefix), digits
        decimals = decimals.str.replace(".", column.decimal_mark, literal=True)
        value = pl.concat_str(*parts, decimals, pl.lit(column.suffix))
    if null:
        value = value.cast(pl.String).fill_null(null)
    return pl.select(value.alias(values.name)).to_series()
