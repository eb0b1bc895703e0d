"""Functionals of a distribution, by the names that the command line takes too."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.random import seeded
from discreet._core.text import about, percent_as_written, with_article
from discreet.domain import Column, Domain, Records
from discreet.inference.line import Draws, Line, variances

Evaluated = str | Callable[[Any, Floats], Floats]

_FORMS = "mean, variance, sd, qNN (a percentage), P(>a), P(>=a), P(<a), P(<=a), P(a..b), P(=a)"
_QUANTILE = re.compile(r"q(\d+(?:\.\d+)?)")
_PROBABILITY = re.compile(r"P\((>=|<=|>|<|=)?(.+?)\)")


@sealed
@dataclass(frozen=True, slots=True)
class Functional:
    """A number that a distribution has.

    ``name``: as it was asked for.
    ``of``: from a :class:`~discreet.inference.line.Line` to one number per draw.
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
        low = high = self.of(least)
        if most is not least:
            high = self.of(most)
        return np.minimum(low, high), np.maximum(low, high)


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
    if match := _PROBABILITY.fullmatch(text):
        return _probability(match[1], match[2], column, text)
    if not ordered(column):
        raise ParameterError(f"{text!r} needs values with an order. Ask for P(=a) of the column's categories")
    if text == "mean":
        return Functional(text, Line.mean, "value")
    if text == "variance":
        return Functional(text, Line.variance, bounds=variances)
    if text == "sd":
        return Functional(text, lambda line: np.sqrt(line.variance()), "length", _deviations)
    if (match := _QUANTILE.fullmatch(text)) and 0.0 < float(match[1]) < 100.0:
        level = float(match[1]) / 100.0
        return Functional(text, lambda line: line.quantile(level), "value")
    raise ParameterError(f"{text!r} is not a functional. The functionals are: {_FORMS}")


def known_functionals(asked: Sequence[Evaluated], domain: Domain, column: str | None = None) -> list[Functional | None]:
    """Look up functionals by their names, none for a user's function, before anything is computed."""
    names = list(domain.names) if column is None else [column]
    require_column(domain, names[0])
    known: list[Functional | None] = []
    for item in asked:
        if isinstance(item, str) and len(names) != 1:
            raise ParameterError(f"name the column that {item!r} is about. The columns are: {', '.join(names)}")
        known.append(functional(item, domain.columns[names[0]]) if isinstance(item, str) else None)
    return known


def labels_of(asked: Sequence[Evaluated], known: Sequence[Functional | None]) -> list[Functional]:
    """Return what names each number: a functional, or one with the name of the user's function."""
    pairs = zip(asked, known, strict=True)
    return [named or Functional(getattr(item, "__name__", "function"), Line.mean) for item, named in pairs]


def require_column(domain: Domain, name: str) -> Column:
    """Return a column. Raises ParameterError when there is none of this name."""
    if name not in domain.columns:
        raise ParameterError(f"there is no column {name!r}. The columns are: {', '.join(domain.names)}")
    return domain.columns[name]


def require_single(domain: Domain, name: str | None) -> str:
    """Return the name of a column, or of the only one. Raises ParameterError when there are several."""
    if name is None and len(domain.names) != 1:
        raise ParameterError(f"several columns are declared. Name one of: {', '.join(domain.names)}")
    name = name or domain.names[0]
    require_column(domain, name)
    return name


def ordered(column: Column) -> bool:
    """Return whether a column's values lie on a line."""
    return column.on_a_line or column.kind == "boolean"


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
            label: Any = text.strip() if column.kind == "open_labels" else float(_code(text, column, name))
            return Functional(name, lambda line: line.equal(label))
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


def _point(text: str, column: Column, name: str) -> float:
    """Return where a value written as text lies on the column's line."""
    if not ordered(column):
        raise ParameterError(f"{name!r} needs values with an order. Ask for P(=a) of the column's categories")
    if column.labels is not None:
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


# Groups of a column: each draw's distribution given that a record is in one, and how each is named.

_MOST_GROUPS = 1000
_NEAR_ZERO = 0.1


class Group(NamedTuple):
    """One value, or cell, of a column: ``label``, ``code``, and ``at``, the column's place in the domain."""

    label: str
    code: Any
    at: int


def groups_of(domain: Domain, by: str) -> list[Group]:
    """Return the groups of a column, in the order of its codes, that of nulls last."""
    column = require_column(domain, by)
    if column.size is None or column.size > _MOST_GROUPS:
        raise ParameterError(
            f"column {by!r} does not make groups: it must have cells, categories or truth values, at most "
            f"{_MOST_GROUPS:,} of them"
        )
    codes = np.arange(column.size)
    alone = Domain(columns={by: column})
    ends = alone.describe(Records(columns=(codes,)), rng=seeded(0)).rows()
    at = domain.names.index(by)
    return [Group(" to ".join(map(_text, dict.fromkeys(row))), code, at) for code, row in enumerate(ends)]


def code_of(domain: Domain, name: str, value: Any) -> Group:
    """Return the group that a value is in. Raises ParameterError when it is no value of the column."""
    column = require_column(domain, name)
    try:
        (code,) = column.encode([value]).tolist()
    except DiscreetError:
        raise ParameterError(f"what is given for {name!r} is not a declared value of the column") from None
    return Group(_text(value), code, domain.names.index(name))


def restricted(group: Group, support: Records, draws: Draws) -> tuple[Draws, Floats]:
    """Return draws given a group, on what :func:`kept_in` keeps of the support, and each draw's mass of it.

    A draw without mass there has no such distribution: its weights are NaN.
    """
    kept, own_weights = kept_in(group, support), draws.own_weights
    weights = draws.weights[:, kept] * (support.columns[group.at][kept] == group.code)
    if draws.own is not None:
        inside = np.asarray(draws.own.columns[group.at] == group.code).reshape(own_weights.shape)
        own_weights = np.where(inside, own_weights, 0.0)
    mass = weights.sum(axis=1) + own_weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Draws(weights / mass[:, None], draws.own, own_weights / mass[:, None]), mass


def kept_in(group: Group, support: Records) -> Any:
    """Return which records of the support are in a group; one, which gets no weight, where there is none."""
    kept = np.asarray(support.columns[group.at] == group.code)
    return kept if kept.any() else np.arange(len(kept)) < 1


def near_zero(groups: list[Group], masses: Floats, by: str, level: float) -> list[str]:
    """Return a note of the groups whose share cannot be told from zero: its interval reaches below a tenth of its mean.

    ``masses``, shape (draws, groups): their shares.
    """
    mean, lower = masses.mean(axis=0), np.quantile(masses, (1.0 - level) / 2.0, axis=0)
    small = [f"{group.label} ({about(float(share))})" for group, share, least in zip(groups, mean, lower, strict=True)
             if least <= _NEAR_ZERO * share]  # fmt: skip
    note = (
        f"the release does not tell whether anybody is in these groups of {by}, of a share near zero (posterior mean; "
        f"the {percent_as_written(level)} interval reaches below a tenth of it). What is said of them is mostly the "
        f"prior's: {', '.join(small)}"
    )
    return [note] if small else []


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
