"""What a column declares and what does not fit it: facts, misfits, and how they are kept and written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal as Exact
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans
from discreet.domain.texts import span_text

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
    if isinstance(value, Exact):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def holds(dtype: str, low: float, high: float) -> bool:
    """Whether an integer type of released values holds all of a range."""
    limits = np.iinfo(dtype)
    return bool(limits.min <= low and high <= limits.max)


def outside(below: Booleans, above: Booleans) -> Iterator[Misfit]:
    """Yield the values below and above the bounds of a column."""
    yield Misfit("a value lies below the declared lower bound", WIDEN, below)
    yield Misfit("a value lies above the declared upper bound", WIDEN, above)
