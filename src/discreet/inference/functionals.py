"""Functionals of a distribution, by the names that the command line takes too."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.lazy import pl
from discreet._core.numeric import Floats
from discreet._core.random import seeded
from discreet._core.text import about, percent_as_written
from discreet.domain import Column, Domain, Records
from discreet.inference.line import Draws, Line, variances

Evaluated = str | Callable[[Any, Floats], Floats]

_FORMS = "mean, variance, sd, qNN (a percentage), P(>a), P(>=a), P(<a), P(<=a), P(a..b), P(=a)"
_QUANTILE = re.compile(r"q(\d+(?:\.\d+)?)")
_PROBABILITY = re.compile(r"P\((>=|<=|>|<|=)?(.*?)\)", re.DOTALL)
_MOST_NAMED = 20  # values of a column in a message


@sealed
@dataclass(frozen=True, slots=True)
class Functional:
    """A number that a distribution has.

    ``name``: as it was asked for.
    ``number``: from a :class:`~discreet.inference.line.Line` to one number per draw.
    ``unit``, {"value", "length", "number"}: whether the result is a value of the column, a difference of two, or
    neither.
    ``bounds``: from the two lines whose cells hold their mass at their least and at their greatest values, to the
    least and the greatest number, per draw, over all distributions within cells. By default that of a number that only
    grows, or only falls, when mass moves up.
    ``function``: a user's, of values and weights, in place of ``number``.
    ``cuts``: the values at which a share begins or ends.
    ``level``: of a quantile.
    """

    name: str
    number: Callable[[Line], Floats] = Line.mean
    unit: str = "number"
    bounds: Callable[[Line, Line], tuple[Floats, ...]] | None = None
    function: Callable[[Any, Floats], Floats] | None = None
    cuts: tuple[float, ...] = ()
    level: float | None = None

    @property
    def is_share(self) -> bool:
        """Whether it is a share, between 0 and 1."""
        return self.function is None and self.name.startswith("P(")

    def limits(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
        """Return the least and the greatest number that it can be, of values from ``low`` to ``high``."""
        spread = (high - low) / 2.0
        most = {"sd": spread, "variance": spread**2}
        if self.is_share:
            return 0.0, 1.0
        if self.unit == "value":
            return low, high
        if self.function is None and self.name in most:
            return 0.0, most[self.name]
        return -math.inf, math.inf

    def between(self, least: Line, most: Line) -> tuple[Floats, ...]:
        """Return the least and the greatest number of each draw, over all distributions within cells."""
        if self.bounds is not None:
            return self.bounds(least, most)
        low = high = self.number(least)
        if most is not least:
            high = self.number(most)
        return np.minimum(low, high), np.maximum(low, high)


@lru_cache(maxsize=512)
def functional(name: str, column: Column) -> Functional:
    """Read a functional of one column.

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
    probability = _PROBABILITY.fullmatch(text)
    if not ordered(column):
        if probability is None or probability[1] != "=":
            label = next((label for label in getattr(column, "categories", ()) if text == f"P({label})"), "a")
            raise ParameterError(f"{text!r} needs values with an order. Ask for P(={label}), the share of a category")
        code = _position(probability[2], column, text)
        return Functional(text, lambda line: line.equal(code))
    if probability is not None and (probability[1] or ".." in probability[2]):
        return _share_between(probability[1], probability[2], column, text)
    if text == "mean":
        return Functional(text, unit="value")
    if text == "variance":
        return Functional(text, Line.variance, bounds=variances)
    if text == "sd":
        return Functional(
            text, lambda line: np.sqrt(line.variance()), "length", lambda *lines: tuple(map(np.sqrt, variances(*lines)))
        )
    if (match := _QUANTILE.fullmatch(text)) and 0.0 < float(match[1]) < 100.0:
        level = float(match[1]) / 100.0
        return Functional(text, lambda line: line.quantile(level), "value", level=level)
    raise ParameterError(f"{text!r} is not a functional. The functionals are: {_FORMS}")


def _share_between(sign: str | None, text: str, column: Column, name: str) -> Functional:
    """Return the share of values below or above one, or from one to another, of a column with an order."""
    if sign not in (None, "="):
        value, strict = _position(text, column, name), sign in ("<", ">=")
        if sign in ("<", "<="):
            return Functional(name, lambda line: line.at_most(value, strict=strict), cuts=(value,))
        return Functional(name, lambda line: np.maximum(1.0 - line.at_most(value, strict=strict), 0.0), cuts=(value,))
    start, _, last = text.partition("..")
    ends = (text, text) if sign else (start, last)
    low, high = (_position(end, column, name) for end in ends)
    if low > high:
        raise ParameterError(f"{name!r} is empty, since its first value is above its last")

    def bounds(least: Line, most: Line) -> tuple[Floats, Floats]:
        """Return the shares of the cells inside, and of those that are touched."""
        inside = most.at_most(high) - least.at_most(low, strict=True)
        return np.maximum(inside, 0.0), least.at_most(high) - most.at_most(low, strict=True)

    return Functional(name, lambda x: x.at_most(high) - x.at_most(low, strict=True), bounds=bounds, cuts=(low, high))


def _position(text: str, column: Column, name: str) -> Any:
    """Return where a value written as text lies on the column's line, the code of a label, or an open label itself."""
    if column.open:
        return text.strip()
    for written in (text, text.strip()):  # a label may begin or end with blanks
        with contextlib.suppress(DiscreetError):
            values = column.read(pl.Series([written]))
            codes = column.coordinates(values) if column.labels is None else column.encode(values)
            if math.isfinite(codes[0]):
                return float(codes[0])
    words = ", ".join(map(repr, column.words[:_MOST_NAMED]))
    if len(column.words) > _MOST_NAMED:
        words += ", ..."
    remedy = f". Its values are {words}" if words else ""
    raise ParameterError(f"{name!r}: {text!r} is not a value of the column{remedy}")


def known_functionals(asked: Sequence[Evaluated], domain: Domain, column: str | None = None) -> list[Functional]:
    """Look up functionals by their names, or take a user's functions, before anything is computed."""
    names = list(domain.names) if column is None else [column]
    only = require_column(domain, names[0])
    functionals = []
    for item in asked:
        if not isinstance(item, str):
            functionals.append(Functional(getattr(item, "__name__", "function"), function=item))
        elif len(names) != 1:
            raise ParameterError(
                f"name the column that {item!r} is about. The columns are: {', '.join(map(repr, names))}"
            )
        else:
            functionals.append(functional(item, only))
    return functionals


def require_column(domain: Domain, name: str) -> Column:
    """Return a column. Raises ParameterError when there is none of this name."""
    if name not in domain.columns:
        raise ParameterError(f"there is no column {name!r}. The columns are: {', '.join(map(repr, domain.names))}")
    return domain.columns[name]


def require_single(domain: Domain, name: str | None) -> str:
    """Return the name of a column, or of the only one. Raises ParameterError when there are several."""
    if name is None and len(domain.names) != 1:
        raise ParameterError(f"several columns are declared. Name one of: {', '.join(map(repr, domain.names))}")
    name = name or domain.names[0]
    require_column(domain, name)
    return name


def ordered(column: Column) -> bool:
    """Return whether a column's values lie on a line."""
    return column.on_a_line or column.kind == "boolean"


_MOST_GROUPS = 1000
_NEAR_ZERO = 0.1


class Group(NamedTuple):
    """One value, or cell, of a column: ``label``, ``code``, and ``place``, that of the column in the domain."""

    label: str
    code: Any
    place: int

    def members(self, support: Records) -> Any:
        """Return which records of the support are in it; one, which gets no weight, where there is none."""
        members = np.asarray(support.columns[self.place] == self.code)
        return members if members.any() else np.arange(len(members)) < 1


def groups_of(domain: Domain, by: str) -> list[Group]:
    """Return the groups of a column, in the order of its codes, that of nulls last."""
    column = require_column(domain, by)
    if column.size is None or column.size > _MOST_GROUPS or column.halves is not None:
        raise ParameterError(
            f"column {by!r} does not make groups: it must have cells, categories or truth values, at most "
            f"{_MOST_GROUPS:,} of them"
        )
    cells = Records(columns=(np.arange(column.size),))
    ends = Domain(columns={by: column}).describe(cells, rng=seeded(0)).rows()
    place = domain.names.index(by)
    return [Group(" to ".join(map(_text, dict.fromkeys(row))), code, place) for code, row in enumerate(ends)]


def group_with(domain: Domain, name: str, value: Any) -> Group:
    """Return the group that a value is in. Raises ParameterError when it is no value of the column."""
    column = require_column(domain, name)
    try:
        (code,) = column.encode([value]).tolist()
    except DiscreetError:
        raise ParameterError(f"what is given for {name!r} is not a declared value of the column") from None
    return Group(_text(value), code, domain.names.index(name))


def confined(group: Group, support: Records, draws: Draws) -> tuple[Draws, Floats]:
    """Return draws given a group, on its members in the support, and each draw's mass of it; without mass, NaN."""
    members, own_weights = group.members(support), draws.own_weights
    weights = draws.weights[:, members] * (support.columns[group.place][members] == group.code)
    if draws.own is not None:
        inside = np.asarray(draws.own.columns[group.place] == group.code).reshape(own_weights.shape)
        own_weights = np.where(inside, own_weights, 0.0)
    mass = weights.sum(axis=1) + own_weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Draws(weights / mass[:, None], draws.own, own_weights / mass[:, None]), mass


def near_zero(groups: list[Group], masses: Floats, by: str, level: float) -> list[str]:
    """Return a note of the groups whose share, a row per draw, has an interval below a tenth of its mean."""
    mean, lower = masses.mean(axis=0), np.quantile(masses, (1.0 - level) / 2.0, axis=0)
    small = [f"{groups[i].label} ({about(float(mean[i]))})" for i in np.flatnonzero(lower <= _NEAR_ZERO * mean)]
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
