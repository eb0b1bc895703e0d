"""How the values of a column are written as texts: what its declaration says, and what is read without one.

Texts are read and written by expressions of Polars, wherever they come from. No message holds one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.checks import flag, unfit
from discreet._core.lazy import pl
from discreet.domain.texts import encodable

if TYPE_CHECKING:
    from discreet.domain.column import Column

KEYS = ("format", "true", "false", "decimal_mark", "thousands", "prefix", "censored")
"""Keys of the notation that some kinds of columns have; ``null_values`` and ``strip`` are of every kind."""

_NUMBERS = "declare decimal_mark, thousands or prefix"
_TRUTH = 'declare its texts, for example: true = "Y" and false = "N"'
_FORMS = {
    "numeric": ("numbers written 1234.5", f'{_NUMBERS}, for example: prefix = "$"'),
    "integer": ("whole numbers written 1234", f'{_NUMBERS}, for example: thousands = ",", or type = "numeric"'),
    "decimal": ("decimal numbers written 1234.50", f'{_NUMBERS}, for example: decimal_mark = ","'),
    "boolean": ("true or false, or 1 or 0", _TRUTH),
    "category": (
        "labels as they are declared",
        'list them as they are written, for example: categories = ["01", "02"]',
    ),
    "date": ("dates written YYYY-MM-DD", 'declare its format, for example: format = "%m/%d/%Y", or type = "datetime"'),
    "datetime": ("moments written YYYY-MM-DD HH:MM:SS", 'declare its format, for example: format = "%m/%d/%Y %H:%M"'),
    "time": ("times of day written HH:MM or HH:MM:SS", 'declare its format, for example: format = "%I:%M %p"'),
    "duration": ("durations written 1d2h30m", "write them so"),
}
_BLANK = r"[\s\u00a0\u202f]"


def text_problem(column: Column) -> tuple[str, str]:
    """Return what is wrong with texts of a column that cannot be read, and what to do about it."""
    form, remedy = _FORMS[column.kind]
    declared = [f"{key} = {getattr(column, key)!r}" for key in KEYS if _has(column, key)]
    if declared:
        form, remedy = (
            f"{form.partition(' written')[0]} as declared",
            f"correct what is declared: {', '.join(declared)}",
        )
    remedy = f'{remedy}. Texts that stand for nulls are declared, too, for example: null_values = ["NA"]'
    return f"values are not {form}", remedy


def _has(column: Any, key: str) -> bool:
    """Return whether a column declares a notation; the prefix of open labels is none."""
    return not column.open and getattr(column, key, None) not in (None, "", ".", ())


def check_notation(column: Any) -> None:
    """Refuse a notation that cannot be read. Raises DomainError."""
    flag("strip", column.strip, error=column._error)
    if hasattr(column, "decimal_mark"):
        _check_signs(column)
    if _has(column, "true") or _has(column, "false"):
        texts = column.true, column.false
        if not all(isinstance(text, str) and text.strip() == text and encodable(text) for text in texts):
            raise unfit("true and false", 'two texts, such as "Y" and "N"', texts, error=column._error)
        if texts[0] == texts[1]:
            column._refuse("true and false must be different texts")
    if _has(column, "format"):
        _check_format(column)
    if column.null_values:
        _check_nulls(column)


def require_texts(name: str, values: Any, column: Any) -> tuple[str, ...]:
    """Return distinct texts as they are listed. Raises DomainError."""
    texts = tuple(values) if isinstance(values, (list, tuple)) else (None,)
    if not all(isinstance(text, str) and encodable(text) for text in texts) or len(set(texts)) < len(texts):
        raise unfit(name, 'different texts, such as ["", "NA"]', values, error=column._error)
    return tuple(map(str, texts))


def _check_signs(column: Any) -> None:
    mark, thousands, prefix = column.decimal_mark, column.thousands, column.prefix
    if mark not in (".", ","):
        raise unfit("decimal_mark", '"." or ","', mark, error=column._error)
    if not isinstance(thousands, str) or not re.fullmatch(r"[.,' \u2019\u00a0\u202f]?", thousands) or thousands == mark:
        form = 'one sign such as ",", another than decimal_mark'
        raise unfit("thousands", form, thousands, error=column._error)
    if not isinstance(prefix, str) or not encodable(prefix) or re.search(r"[\d.,+-]|^\s|\s$", prefix):
        raise unfit("prefix", 'a text such as "$", without digits and signs of numbers', prefix, error=column._error)


def _check_format(column: Any) -> None:
    """Refuse a format that does not bring values of the column back, a few of which are tried."""
    last = column._points - 1
    index = sorted({min(place, last) for place in (0, 1, last // 3, last // 2, last)})
    values = column._from_units(
        pl.Series([column._start + i * column._stride for i in index], dtype=pl.Int64).to_numpy()
    )
    with suppress(pl.exceptions.PolarsError, TypeError):
        texts = as_texts(column, values)
        if texts is not None and column.parse(texts).cast(values.dtype).equals(values):
            return
    example = _FORMS[column.kind][1].partition(" = ")[2].partition(", or")[0]
    raise unfit(
        "format", f"one that a whole value can be read from, such as {example}", column.format, error=column._error
    )


def _check_nulls(column: Any) -> None:
    """Refuse what stands for a null and is a value, too."""
    values = column.parse(pl.Series(column.null_values)).drop_nulls()
    if column.on_a_line and not column.labels:
        places = np.arange(column.values or 0)[[0, -1]] if column.finite else np.array([column.lower, column.upper])
        (low, _), (_, high) = column.ends(places)
        inside = any(low <= number <= high for number in column._numbers(values).tolist())
    else:
        inside = not set(values.to_list()).isdisjoint(column.labels or ())
    if inside:
        column._refuse("null_values must hold no declared value. Leave it out of them, or out of the values")


# Reading.


def clean_texts(column: Column, texts: pl.Series) -> pl.Series:
    """Return texts with blanks cut off, and null where they stand for one."""
    clean = pl.lit(texts.cast(pl.String))
    if column.strip or not column.textual:
        clean = clean.str.strip_chars()
    if column.null_values:
        clean = pl.when(~clean.is_in(list(column.null_values))).then(clean)
    return pl.select(clean).to_series()


def truths(texts: pl.Series, true: str | None = None, false: str | None = None) -> pl.Series:
    """Read truth values: as declared, or else true, false, 1 and 0."""
    words = {true: True, false: False}
    if true is None:
        texts = texts.str.to_lowercase().str.replace(r"^([01])\.0+$", "${1}")
        words = {"true": True, "false": False, "1": True, "0": False}
    return texts.replace_strict(words, default=None, return_dtype=pl.Boolean)


def plain_numbers(column: Any, texts: pl.Series) -> pl.Series:
    """Return numbers with a point before their decimals and no other sign; null where they are written otherwise."""
    if not any(_has(column, key) for key in ("decimal_mark", "thousands", "prefix")):
        return texts
    sign = _BLANK if column.thousands.isspace() else re.escape(column.thousands)
    groups = rf"|\d{{1,3}}(?:{sign}\d{{3}})+" if column.thousands else ""
    clean = pl.lit(texts)
    if column.prefix:
        clean = clean.str.replace(rf"^([+-]?)\s*{re.escape(column.prefix)}\s*", "${1}")
    fits = clean.str.contains(rf"^[+-]?(?:\d+{groups})?(?:{re.escape(column.decimal_mark)}\d*)?(?:[eE][+-]?\d+)?$")
    if column.thousands:
        clean = clean.str.replace_all(sign, "")
    return pl.select(pl.when(fits).then(clean.str.replace(column.decimal_mark, ".", literal=True))).to_series()


# Writing.


def as_texts(column: Any, values: pl.Series) -> pl.Series | None:
    """Return released values as texts in the notation of their column; None where they are written as they are."""
    value, null = pl.lit(values), next(iter(column.null_values), "")
    if _has(column, "true"):
        value = pl.when(value).then(pl.lit(column.true)).when(~value).then(pl.lit(column.false))
    elif column.kind == "time" or _has(column, "format"):
        value = value.dt.to_string(getattr(column, "format", None) or "iso")
    elif any(_has(column, key) for key in ("decimal_mark", "thousands", "prefix")):
        value = _with_signs(column, value.cast(pl.String))
    elif not null:
        return None
    return pl.select((value.cast(pl.String).fill_null(null) if null else value).alias(values.name)).to_series()


def _with_signs(column: Any, number: pl.Expr) -> pl.Expr:
    """Write plain numbers with the signs of a column: groups of three digits are counted from the last one."""
    whole, rest = number.str.extract(r"^-?(\d+)"), number.str.extract(r"^-?\d+(.*)$")
    if column.thousands:
        groups = whole.str.reverse().str.replace_all(r"(\d{3})", "${1}" + column.thousands)
        whole = groups.str.strip_suffix(column.thousands).str.reverse()
    parts = [number.str.extract("^(-?)"), pl.lit(column.prefix), whole]
    return pl.concat_str([*parts, rest.str.replace(".", column.decimal_mark, literal=True)])
