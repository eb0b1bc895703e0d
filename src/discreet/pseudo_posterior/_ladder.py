"""The frontier that the command shows: weightings from none to strong, of one table. Confidential throughout."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import Refused
from discreet._core.text import about, aligned, rounded_up
from discreet.domain import Boolean, Category, Domain
from discreet.domain._column import Column
from discreet.pseudo_posterior._attacked import held_columns, held_rows
from discreet.pseudo_posterior._frontier import NOTICE, FrontierPoint, Statistic, frontier
from discreet.pseudo_posterior._pictures import frontier_page
from discreet.pseudo_posterior._pseudo_posterior import PseudoPosterior
from discreet.pseudo_posterior._weights import LinearWeights, Unweighted, Weighting
from discreet.utility._compare import disclosure_cells

LADDER: Mapping[str, Weighting] = {
    "unweighted": Unweighted(),
    **{f"linear, c = {c}": LinearWeights(c=c) for c in (1.0, 0.8, 0.6, 0.4, 0.2)},
}
"""From no weights to small ones: PP22's linear map, of which the smaller c is, the less a record counts."""

PAGE = "frontier.html"
_MOST_SHARES = 8


def ladder(
    data: Any,
    domain: Domain,
    mechanism: PseudoPosterior,
    *,
    folder: str | os.PathLike[str],
    known: Sequence[str] | None,
    holdout: Any,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> list[FrontierPoint]:
    """Fit each weighting of the ladder to a confidential table, and write points and page into a folder.

    ``known``, ``holdout``: of the attacks on the first sensitive column, which need another column in the domain.
    """
    column = mechanism.synthesiser.sensitive[0]
    attacked = known is not None or holdout is not None or len(mechanism.synthesiser.given) > 0
    points = frontier(
        mechanism,
        held_columns(held_rows(data, domain), domain),
        LADDER,
        _statistics(domain.columns[column]),
        column=column,
        folder=folder,
        seed=seed,
        progress=progress,
        domain=domain if attacked else None,
        known=known,
        holdout=holdout,
    )
    if all(point.failed for point in points):
        raise Refused(f"no weighting could be fitted: {points[0].failed}")
    frontier_page(points, Path(folder) / PAGE)
    return points


def ladder_text(points: Sequence[FrontierPoint]) -> str:
    """Write a frontier as tables of text: privacy and statistics, then what the attacks reach."""
    fitted = [point for point in points if point.failed is None]
    names = list(fitted[0].statistics)
    head = ("weighting", "epsilon of a table", "R-hat", *(f"error of {name}" for name in names))
    body = [
        (point.label, about(point.epsilon), rounded_up(point.r_hat, 4), *(about(point.error(name)) for name in names))
        for point in fitted
    ]
    lines = [NOTICE, *aligned([head, *body])]
    lines += [f"  {point.label}: {point.failed}" for point in points if point.failed is not None]
    tried = fitted[0].disclosure
    if tried:
        head = ("attack", "weighting", "table", "95 % interval", "control", "95 % interval", "excess", "95 % interval")
        told = [
            (attack.attack, point.label, *disclosure_cells(point.disclosure[place])[2:])
            for place, attack in enumerate(tried)
            for point in fitted
        ]
        lines += ["", f"Attacks on single records of each table, after {tried[0].of}: means over the tables"]
        lines += [*aligned([head, *told]), *(f"  {one.attack}: {one.how}" for one in tried)]
        lines += ["  These attacks were tried. None of them bounds what another may reach."]
    return "\n".join(lines)


# -- statistics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Share:
    """The share of one code: of a class, so that several processes can have it."""

    code: int

    def __call__(self, values: Floats) -> float:
        return float(np.mean(values == self.code))


def _ninetieth(values: Floats) -> float:
    return float(np.quantile(values, 0.9))


def _statistics(column: Column) -> dict[str, Statistic]:
    """Return what the tables are judged by: shares of categories, or the mean and quantiles of numbers."""
    if isinstance(column, (Boolean, Category)):
        labels = column.categories if isinstance(column, Category) else ("false", "true")
        return {f"share of {label}": _Share(code) for code, label in enumerate(labels[:_MOST_SHARES])}
    return {"mean": np.mean, "median": np.median, "90 % quantile": _ninetieth}
