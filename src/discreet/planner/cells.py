"""Cells for continuous columns that declare none: those of the least predicted error, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np

from discreet._core.errors import DiscreetError
from discreet._core.text import about
from discreet.domain import Domain, Numeric
from discreet.ledger import Request
from discreet.mechanisms import Mechanism, SteppedMechanism, named
from discreet.privacy import Budget
from discreet.releases import POOR_UTILITY

_LOG_RATIO = 100.0
_FIRST = 64  # cells in all that a search begins with
_PREDICTED = 1024  # cells of one column up to which errors are predicted; beyond, they are extrapolated
_MOST_OTHERS = 1 << 12  # cells of declared columns from which on nothing is predicted
_MOST = 1 << 17  # cells in all
_LEAST = 3  # the power of two of cells of one column; of several, one less
_GAIN = 0.03
_REFUSED = 1e6


def with_cells(
    domain: Domain,
    kind: type[Mechanism],
    *,
    n: int,
    budget: Budget,
    size: int | None = None,
    group: int = 1,
    **fixed: Any,
) -> Domain:
    """Return the domain with cells for every continuous numeric column, where the mechanism needs them.

    Other columns stay as declared.

    Notes
    -----
    The cells of a column are the power of two of the least error that :func:`predicted_w1` gives without a reference:
    coarse cells say little of where in them a value lies, fine ones take more noise or more prior. Twice as many cells
    have to gain 3 %, and a release that would be refused counts for nothing. That prediction sees each of several
    columns by itself: of them, records that noise or prior puts elsewhere count a twelfth of the domain's diameter
    more. Above 1,024 cells (256 of several columns), what is not due to their width is extrapolated by its growth from
    half as many a column. Log-spaced cells are judged by the distance of logarithms: their widths in the column's unit
    differ a hundredfold, and the unit says nothing of where among them the table is. Columns with a base measure of
    their own keep it and stay continuous. Where noise is added to tables of few columns, each column gets the number of
    cells that the mechanism says.
    """
    columns = [name for name, c in domain.columns.items() if not c.finite and not c.open and c.base is None]
    if not columns or not kind.traits.needs_cells:
        return domain

    if kind.traits.cells_each is not None:
        return replace(domain, columns=_cut(domain, columns, kind.traits.cells_each).columns)

    @cache
    def calibrated(cells: int) -> Mechanism:
        _cut(domain, columns, cells)  # refused where a column cannot have them
        judged = _cut(domain, columns, cells, judged=True)
        made: Mechanism = kind.calibrated(budget, domain=judged, n=n, size=size, group=group, **fixed)
        return made

    others = [column.size for name, column in domain.columns.items() if name not in columns]
    search = _Search(calibrated, len(columns), n, size)
    few = None not in others and math.prod(count or 1 for count in others) <= _MOST_OTHERS
    return replace(domain, columns=_cut(domain, columns, 1 << (search.best() if few else search.first)).columns)


def _cut(domain: Domain, names: list[str], cells: int, *, judged: bool = False) -> Domain:
    """Return the domain with this many cells for each of some numeric columns, without what it declares beside them.

    Log-spaced cells are judged as linear ones of the logarithm.
    """
    columns = {name: cast("Numeric", domain.columns[name]) for name in names}
    cut = {
        name: _linear(column, cells) if judged else replace(column, cells=cells, spacing=_spacing(column))
        for name, column in columns.items()
    }
    return Domain(columns={**domain.columns, **cut}, metric_weights=domain.metric_weights)


def _linear(column: Numeric, cells: int) -> Numeric:
    if _spacing(column) == "linear":
        return replace(column, cells=cells)
    return Numeric(lower=math.log(column.lower), upper=math.log(column.upper), cells=cells, nulls=column.nulls)


class _Search:
    """Powers of two of cells per column, each with the error that is predicted of them."""

    def __init__(self, calibrated: Callable[[int], Mechanism], columns: int, n: int, size: int | None) -> None:
        self.calibrated, self.n, self.size = calibrated, n, size
        predicted = _PREDICTED if columns == 1 else _PREDICTED // 4
        self.least = _LEAST if columns == 1 else _LEAST - 1
        self.first, self.predicted, self.most = (
            max(self.least, int(math.log2(cells) / columns)) for cells in (_FIRST, predicted, _MOST)
        )
        self.error, self.moved = cache(self._error), cache(self._moved)

    def best(self) -> int:
        """Return the exponent from which neither twice nor half as many cells are predicted to be better."""
        best = self.first
        while best < self.most and self.error(best + 1) < (1.0 - _GAIN) * self.error(best):
            best += 1
        while best > self.least and self.error(best) >= (1.0 - _GAIN) * self.error(best - 1):
            best -= 1
        return best

    def _error(self, exponent: int) -> float:
        """Return the predicted error of this many cells, infinite where the mechanism cannot have them."""
        from discreet.planner.predicted import width_error

        try:
            mechanism = self.calibrated(1 << exponent)
            moved = self.moved(min(exponent, self.predicted))
            if exponent > self.predicted:
                growth = max(1.0, moved / self.moved(self.predicted - 1))
                moved *= growth ** (exponent - self.predicted)
        except DiscreetError:
            return math.inf
        share = mechanism.forecast(self.n).lost
        elsewhere = 0.0 if len(mechanism.domain.columns) == 1 else share / 12.0
        refused = _REFUSED * share if share > POOR_UTILITY else 0.0
        return moved + width_error(mechanism.domain) + elsewhere + refused

    def _moved(self, exponent: int) -> float:
        """Return the predicted error but for the width of cells."""
        from discreet.planner.predicted import predicted_w1, width_error

        mechanism = self.calibrated(1 << exponent)
        size = self.n if self.size is None else self.size
        draws = max(2, mechanism.forecast(self.n).draws // 4)
        return predicted_w1(mechanism, n=self.n, size=size, draws=draws) - width_error(mechanism.domain)


def chosen_cells(declared: Domain, used: Domain) -> list[str]:
    """Return one sentence for each column whose cells were chosen rather than declared."""
    return [
        f"column {name!r}: {column.cells} {column.spacing}-spaced cells, the widest "
        f"{about(np.diff(column.edges).max(), 4)} wide, chosen from its bounds, the number of records, the budget "
        "and the size. Where in its cell a released value lies is not from the data. If this is too coarse, declare "
        "cells"
        for name, column in cast("dict[str, Numeric]", used.columns).items()
        if column != declared.columns[name]
    ]


def _spacing(column: Numeric) -> str:
    return "log" if column.lower > 0 and column.upper / column.lower >= _LOG_RATIO else "linear"


# What is said before a mechanism that works in steps runs: its steps, and whether fewer or another would do better.


def said_before(mechanism: Mechanism, request: Request, *, n: int, reference: Any = None) -> list[str]:
    """Say what a mechanism's steps will do, and compare them with no step at all and with a histogram."""
    from discreet.planner.predicted import Reference, predicted_w1

    if not isinstance(mechanism, SteppedMechanism):
        return []
    drawn, like = request.size or n, Reference.of(reference, mechanism.domain)
    lines = [str(mechanism.announcement())]
    if not mechanism.steps:
        return lines
    if mechanism.forecast(n).slow:
        return [*lines, "what no step, or a histogram, would do is not predicted, since that would take minutes"]
    own = predicted_w1(mechanism, n=n, size=drawn, reference=like)
    none = predicted_w1(cast(Mechanism, replace(cast(Any, mechanism), steps=0)), n=n, size=drawn, reference=like)
    if none <= own:
        lines.append(
            f"WARNING: no step at all is predicted to do as well (W1 {about(none, 4)} against {about(own, 4)}), "
            f"for a table like "
            f"{_table(reference)}, and costs no privacy. Ask for steps=0, or a larger epsilon"
        )
    kind = named(mechanism.traits.one_step_instead)
    if request.budget is None or request.between.name not in kind.traits.relations:
        return lines
    asked: dict[str, Any] = {"budget": request.budget, "n": n, "size": drawn, "group": request.group}
    try:
        instead = kind.calibrated(domain=with_cells(mechanism.domain, kind, **asked), **asked)
        other = predicted_w1(instead, n=n, size=drawn, reference=like)
    except DiscreetError:  # it has no answer on this domain or for this budget
        return lines
    if other < own:
        lines.append(
            f"WARNING: evolution is the wrong tool here: {kind.name} is predicted to have W1 {about(other, 4)} against "
            f"{about(own, 4)}, for a table like {_table(reference)}"
        )
    return lines


def _table(reference: Any) -> str:
    return "the inner half of the domain" if reference is None else "the reference"
