"""Conditions on one column: which of its cells are meant by a label, a list of labels, or a range.

A condition is about cells, since these are what is counted and released: one that holds for a part of a cell only is
refused. Conditions are public, and are kept as plain values that TOML and JSON have in common.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal as Exact
from math import isfinite
from typing import Any

import numpy as np

from discreet._core.arrays import Integers
from discreet._core.checks import flag, plain, shown, unfit
from discreet._core.errors import DomainError
from discreet.domain._column import Column
from discreet.domain._discrete import Category, OpenLabels, encodable
from discreet.domain._temporal import span_text

_RANGE = ("from", "below", "null")


def plain_condition(given: Any) -> Any:
    """Return a condition with its dates, durations and decimals as texts: what :class:`CellReader` reads.

    Raises DomainError when it is no value, list of values, or table of ``from``, ``below`` and ``null``.

    Examples
    --------
    >>> plain_condition({"from": dt.date(2020, 1, 1)})
    {'from': '2020-01-01'}
    """
    if isinstance(given, Mapping):
        if not given or not set(given) <= set(_RANGE):
            odd = next((key for key in given if key not in _RANGE), None)
            raise DomainError(
                "a range must have some of the keys from, below and null"
                + ("" if odd is None else f", got {shown(odd)}")
                + ". Write {from = 15}, {below = 15}, {from = 15, below = 65} or {null = true}"
            )
        return {plain(key): _plain(value) for key, value in given.items()}
    return [_plain(value) for value in given] if isinstance(given, (list, tuple)) else _plain(given)


def _plain(value: Any) -> Any:
    """Return a value as TOML and JSON have it."""
    value = plain(value)
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return span_text(value)
    if isinstance(value, Exact):
        return str(value)
    if isinstance(value, str) and not encodable(value):
        raise DomainError("a value is not valid Unicode text")
    if isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    raise unfit("a value", "a text, a number, a truth value or a date", value, error=DomainError)


class CellReader:
    """Reads the conditions on one column.

    ``name``, ``column``: of the domain. Raises DomainError when the column has not finitely many cells.

    Examples
    --------
    >>> from discreet.domain import Integer
    >>> age = CellReader("age", Integer(lower=0, upper=99, cells=20, nulls="category"))
    >>> age.codes({"below": 15, "null": True}).tolist()
    [0, 1, 2, 20]
    """

    def __init__(self, name: str, column: Column) -> None:
        if column.size is None:
            remedy = "its labels as a category" if isinstance(column, OpenLabels) else "cells, a grid or categories"
            raise DomainError(f"column {name!r} has no cells. Declare {remedy}")
        self.name, self.column = name, column
        self._known: dict[tuple[type, Any], int] = {}
        if isinstance(column, Category):
            self._known = {(type(label), label): code for code, label in enumerate(column.categories)}

    def codes(self, condition: Any) -> Integers:
        """Return the cells that a plain condition holds for, in order.

        Raises DomainError when it holds for none, for a part of one, or names what the column cannot have.
        """
        try:
            found = self._range(condition) if isinstance(condition, Mapping) else self._listed(condition)
        except DomainError as problem:
            raise DomainError(f"column {self.name!r}: {problem}") from None
        if not len(found):
            raise DomainError(f"column {self.name!r}: no value fits the condition. Leave it out")
        return found

    def _listed(self, condition: Any) -> Integers:
        values = condition if isinstance(condition, list) else [condition]
        return np.array(sorted({self._code(value) for value in values}), dtype=np.int64)

    def _code(self, value: Any) -> int:
        key = (type(value), value)
        if key not in self._known:
            self._known[key] = self.column._alone(value)
        return self._known[key]

    def _range(self, condition: Mapping[str, Any]) -> Integers:
        first, last = 0, self.column.values or 0
        if "from" in condition:
            first = self.column._below("from", condition["from"])
        if "below" in condition:
            last = self.column._below("below", condition["below"])
        found = np.arange(first, last, dtype=np.int64) if set(condition) != {"null"} else np.empty(0, dtype=np.int64)
        if flag("null", condition.get("null", False), error=DomainError):
            found = np.append(found, self.column.null_code)
        return found
