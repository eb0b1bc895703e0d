"""A risk-utility frontier as a page and as text, and the one that the command shows: confidential, and they say so."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, Refused
from discreet._core.page import NOTICE, OWN, write_own
from discreet._core.text import about, aligned, rounded_up
from discreet.domain import Domain
from discreet.pseudo_posterior.attacked import held_columns, held_rows
from discreet.pseudo_posterior.pseudo import PseudoPosterior
from discreet.pseudo_posterior.risk_frontier import FrontierPoint, Statistic, frontier
from discreet.pseudo_posterior.weights import LinearWeights, Unweighted, Weighting
from discreet.utility import disclosure_cells

LADDER: Mapping[str, Weighting] = {
    "unweighted": Unweighted(),
    **{f"linear, c = {c}": LinearWeights(c=c) for c in (1.0, 0.8, 0.6, 0.4, 0.2)},
}
"""From no weights to small ones: PP22's linear map, of which the smaller c is, the less a record counts."""

PAGE = "frontier.html"
_MOST_SHARES = 8


@sealed
def frontier_page(points: Sequence[FrontierPoint], out: str | os.PathLike[str]) -> Path:
    """Write a frontier as one HTML page without any other file: choose a statistic and an epsilon. Confidential.

    Parameters
    ----------
    points : sequence of FrontierPoint
        What :func:`frontier` returned.
    out : path
        The file.
    """
    shown = [point for point in points if point.failed is None]
    if not shown:
        raise ParameterError("there is no point to show, since every weighting failed")
    document = [
        {
            "label": point.label,
            "epsilon": point.epsilon,
            "lipschitz": point.lipschitz,
            "weight": point.mean_weight,
            "statistics": point.statistics,
            "data": point.data,
            "error": {name: point.error(name) for name in point.statistics},
            "attacks": {attack.attack: disclosure_cells(attack)[2:] for attack in point.disclosure},
        }
        for point in shown
    ]
    options = "".join(f"<option>{html.escape(name)}</option>" for name in shown[0].statistics)
    # A closing script tag within a label must not end the script.
    data = json.dumps(document, allow_nan=False).replace("<", "\\u003c")
    parts = {"OWN": OWN, "NOTICE": NOTICE, "OPTIONS": options, "DATA": data, "ATTACKS": _attacks(shown[0])}
    template = Path(__file__).with_name("page").joinpath(PAGE).read_text("utf-8")
    path = Path(out)
    write_own(path, re.sub("@([A-Z]+)@", lambda hole: parts[hole[1]], template), private=True)
    return path


def _attacks(point: FrontierPoint) -> str:
    """Return the part of the page about attacks, empty where none were tried."""
    if not point.disclosure:
        return ""
    attacks = [(html.escape(attack.attack), html.escape(attack.how)) for attack in point.disclosure]
    options = "".join(f"<option>{name}</option>" for name, _ in attacks)
    how = "".join(f"<li>{name}: {method}</li>" for name, method in attacks)
    column = html.escape(point.disclosure[0].of)
    control = " No holdout was given, so there is nothing to compare with." * (point.disclosure[0].control is None)
    return f"""<h2>What the tables tell of single records</h2>
<p>Attacks on {column}, on each table by itself; the rates are means over the tables. The control is records that are
not in the table, so what is right there is learned from the population. Only the excess concerns single
records.{control}
These attacks were tried. None of them bounds what another may reach.</p>
<p><label>Attack <select id="attack">{options}</select></label></p>
<table><thead><tr><th>weighting</th><th>epsilon</th><th>table</th><th>95 % interval</th><th>control</th>
<th>95 % interval</th><th>excess</th><th>95 % interval</th></tr></thead><tbody id="attacks"></tbody></table>
<ul>{how}</ul>
"""


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
    """Fit each weighting of the ladder to a confidential table, and write points and page into a folder."""
    column = mechanism.synthesiser.sensitive[0]
    attacked = known is not None or holdout is not None or len(mechanism.synthesiser.given) > 0
    statistics: dict[str, Statistic] = {
        f"share of {word}": partial(_share, code)
        for code, word in enumerate(domain.columns[column].words[:_MOST_SHARES])
    }
    if not statistics:
        statistics = {"mean": np.mean, "median": np.median, "90 % quantile": partial(np.quantile, q=0.9)}
    points = frontier(
        mechanism,
        held_columns(held_rows(data, domain), domain),
        LADDER,
        statistics,
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
        body = [
            (attack.attack, point.label, *disclosure_cells(point.disclosure[i])[2:])
            for i, attack in enumerate(tried)
            for point in fitted
        ]
        lines += ["", f"Attacks on single records of each table, after {tried[0].of}: means over the tables"]
        lines += [*aligned([head, *body]), *(f"  {attack.attack}: {attack.how}" for attack in tried)]
        lines += ["  These attacks were tried. None of them bounds what another may reach."]
    return "\n".join(lines)


def _share(code: int, values: Floats) -> float:
    return float(np.mean(values == code))
