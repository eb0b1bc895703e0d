"""Functionals of a distribution, by the names that the command line takes too."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.text import with_article
from discreet.domain import Boolean, Category
from discreet.domain._column import Column
from discreet.inference._line import Line, variances

_FORMS = "mean, variance, sd, qNN (a percentage), P(>a), P(>=a), P(<a), P(<=a), P(a..b), P(=a)"
_QUANTILE = re.compile(r"q(\d+(?:\.\d+)?)")
_PROBABILITY = re.compile(r"P\((>=|<=|>|<|=)?(.+?)\)")


@dataclass(frozen=True, slots=True)
class Functional:
    """A number that a distribution has.

    ``name``: as it was asked for.
    ``of``: from a :class:`~discreet.inference._line.Line` to one number per draw.
    ``unit``, {"value", "length", "number"}: whether the result is a value of the column, a difference of two, or
    neither.
    ``bounds``: from the two lines whose cells hold their mass at their least and at their greatest values, to the
    least and the greatest number, per draw, over all distributions within cells. By default that of a number that only
    grows, or only falls, when mass moves up.
    """

    name: str
    of: Callable[[Line], Floats]
    unit: str = "number"
    bounds: Callable[[Line, Line], tuple[Floats, Floats]] | None = None

    def between(self, least: Line, most: Line) -> tuple[Floats, Floats]:
        """Return the least and the greatest number of each draw, over all distributions within cells."""
        if self.bounds is not None:
            return self.bounds(least, most)
        one = self.of(least)
        other = one if most is least else self.of(most)
        return np.minimum(one, other), np.maximum(one, other)


@lru_cache(maxsize=512)
def functional(name: str, column: Column) -> Functional:
    """Read a functional of one column.

    Raises ParameterError when it is none of these, or the column has no order.

    ``name``: ``mean``, ``variance``, ``sd``, ``qNN`` (the ``NN`` % quantile: the least value that the distribution
    function reaches it at), ``P(>a)``, ``P(>=a)``, ``P(<a)``, ``P(<=a)``, ``P(a..b)`` (both ends included) or
    ``P(=a)``, with values written as in a CSV file of the column.
    ``column``: the declared column.

    Examples
    --------
    >>> from discreet.domain import Integer
    >>> functional("P(20..29)", Integer(lower=0, upper=120)).name
    'P(20..29)'
    """
    text = name.strip()
    if found := _PROBABILITY.fullmatch(text):
        return _probability(found[1], found[2], column, text)
    if not ordered(column):
        raise ParameterError(f"{text!r} needs values with an order. Ask for P(=a) of the column's categories")
    if text == "mean":
        return Functional(text, Line.mean, "value")
    if text == "variance":
        return Functional(text, Line.variance, bounds=variances)
    if text == "sd":
        return Functional(text, lambda line: np.sqrt(line.variance()), "length", _deviations)
    if (found := _QUANTILE.fullmatch(text)) and 0.0 < float(found[1]) < 100.0:
        level = float(found[1]) / 100.0
        return Functional(text, lambda line: line.quantile(level), "value")
    raise ParameterError(f"{text!r} is not a functional. The functionals are: {_FORMS}")


def needs_order(column: Column) -> None:
    """Refuse a column whose values are not on a line. Raises ParameterError when its values have no order."""
    if not ordered(column):
        raise ParameterError("the column's values have no order. Ask for P(=a) of its categories")


def ordered(column: Column) -> bool:
    """Return whether a column's values lie on a line."""
    return column.kind != "open_labels" and not (isinstance(column, Category) and not column.ordered)


def _deviations(least: Line, most: Line) -> tuple[Floats, Floats]:
    low, high = variances(least, most)
    return np.sqrt(low), np.sqrt(high)


def _probability(sign: str | None, text: str, column: Column, name: str) -> Functional:
    if sign is None:
        first, dots, last = text.partition("..")
        if not dots:
            raise ParameterError(f"{name!r} is not a functional. The functionals are: {_FORMS}")
        low, high = _point(first, column, name), _point(last, column, name)
        if low > high:
            raise ParameterError(f"{name!r} is empty, since its first value is above its last")
        return _between(low, high, name)
    if sign == "=":
        if not ordered(column):
            return Functional(name, _share(text, column, name))
        point = _point(text, column, name)
        return _between(point, point, name)
    a, strict = _point(text, column, name), sign in ("<", ">=")
    if sign in ("<", "<="):
        return Functional(name, lambda line: line.at_most(a, strict=strict))
    return Functional(name, lambda line: np.maximum(1.0 - line.at_most(a, strict=strict), 0.0))


def _between(low: float, high: float, name: str) -> Functional:
    """Return the share of values from ``low`` to ``high``; its bounds are those of cells inside and cells touched."""

    def bounds(least: Line, most: Line) -> tuple[Floats, Floats]:
        inside = most.at_most(high) - least.at_most(low, strict=True)
        return np.maximum(inside, 0.0), least.at_most(high) - most.at_most(low, strict=True)

    return Functional(name, lambda line: line.at_most(high) - line.at_most(low, strict=True), bounds=bounds)


def _share(text: str, column: Column, name: str) -> Callable[[Line], Floats]:
    """Return the share of one label of an unordered column."""
    code: Any = text.strip()
    if column.kind != "open_labels":
        code = float(_code(text, column, name))
    return lambda line: line.equal(code)


def _point(text: str, column: Column, name: str) -> float:
    """Return where a value written as text lies on the column's line."""
    if not ordered(column):
        raise ParameterError(f"{name!r} needs values with an order. Ask for P(=a) of the column's categories")
    if isinstance(column, (Boolean, Category)):
        return float(_code(text, column, name))
    import polars as pl

    values = column.parse(pl.Series([text.strip()]))
    if values.null_count():
        raise ParameterError(f"{name!r}: {text.strip()!r} is not {with_article(column.kind)}")
    point = float(column.coordinates(values)[0])
    if not math.isfinite(point):
        raise ParameterError(f"{name!r}: {text.strip()!r} is not a finite value")
    return point


def _code(text: str, column: Column, name: str) -> Any:
    import polars as pl

    try:
        return column.encode(column.parse(pl.Series([text.strip()])))[0]
    except DiscreetError:
        raise ParameterError(f"{name!r}: {text.strip()!r} is not a declared value of the column") from None
