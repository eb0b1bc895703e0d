"""Pictures of risks, weights and frontiers, for the custodian: all of them confidential, and all of them say so."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError, Refused
from discreet._core.files import together
from discreet._core.page import OWN, require_own, save_figure
from discreet._core.text import about, aligned, rounded_up
from discreet.domain import Domain
from discreet.domain.column import Column
from discreet.pseudo_posterior.attacked import held_columns, held_rows
from discreet.pseudo_posterior.pseudo import PseudoPosterior
from discreet.pseudo_posterior.risk_frontier import NOTICE, FrontierPoint, Statistic, frontier
from discreet.pseudo_posterior.weights import LinearWeights, Unweighted, Weighting
from discreet.utility.comparison import disclosure_cells

Path_ = str | os.PathLike[str]


def _figure(width: float, height: float, *, confidential: bool) -> Any:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("a picture needs matplotlib. Install it: pip install 'discreet[report]'") from None
    mpl.rcParams["svg.hashsalt"] = "discreet"  # the same bytes every time
    figure = Figure(figsize=(width, height), layout="constrained")
    if confidential:
        figure.suptitle(NOTICE, color="#a00000", fontsize=9)
    return figure


def violins(
    samples: Mapping[str, npt.ArrayLike], out: Path_, *, label: str, confidential: bool = True, log: bool = False
) -> Path:
    """Draw distributions side by side as violins with their medians and extremes: PP22's Figures 4 to 7.

    Parameters
    ----------
    samples : mapping of str to array_like
        By-record Lipschitz bounds (``fitted.bounds.by_record``), or resampling distributions of a statistic.
    out : path
        PNG, SVG or PDF.
    label : str
        What they are.
    confidential : bool
        Whether to mark the picture so: anything computed from the private data, or from fits to it.
    log : bool
        Logarithmic axis.
    """
    figure = _figure(max(4.0, 1.4 * len(samples)), 3.8, confidential=confidential)
    axes = figure.subplots()
    axes.violinplot([np.asarray(values, dtype=np.float64) for values in samples.values()], showmedians=True)
    axes.set_xticks(range(1, len(samples) + 1), list(samples), fontsize=8)
    axes.set_ylabel(label)
    if log:
        axes.set_yscale("log")
    return save_figure(figure, out, confidential=confidential)


def weight_picture(risks: npt.ArrayLike, weights: npt.ArrayLike, out: Path_) -> Path:
    """Draw the weight of each record against its risk, and the distribution of the weights. Confidential.

    Parameters
    ----------
    risks : array_like of float, shape (n,)
        ``fitted.risks.by_record``, in nats.
    weights : array_like of float, shape (n,)
        ``fitted.weights``.
    out : path
        PNG, SVG or PDF.

    Raises
    ------
    ParameterError
        When they are not one number per record each.
    """
    if np.ndim(weights) != 1 or np.shape(risks) != np.shape(weights):
        raise ParameterError("risks and weights must be one number per record")
    figure = _figure(8.0, 3.6, confidential=True)
    left, right = figure.subplots(1, 2)
    left.scatter(np.asarray(risks), np.asarray(weights), s=6, alpha=0.4, linewidths=0)
    left.set_xlabel("risk, nats")
    left.set_ylabel("weight")
    right.violinplot([np.asarray(weights, dtype=np.float64)], showmedians=True)
    right.set_xticks([])
    right.set_ylabel("weight")
    return save_figure(figure, out, confidential=True)


def frontier_page(points: Sequence[FrontierPoint], out: Path_) -> Path:
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
            "attacks": {one.attack: disclosure_cells(one)[2:] for one in point.disclosure},
        }
        for point in shown
    ]
    options = "".join(f"<option>{html.escape(name)}</option>" for name in shown[0].statistics)
    # A closing script tag within a label must not end the script.
    data = json.dumps(document, allow_nan=False).replace("<", "\\u003c")
    parts = {"OWN": OWN, "NOTICE": NOTICE, "OPTIONS": options, "DATA": data, "ATTACKS": _attacks(shown[0])}
    text = re.sub("@([A-Z]+)@", lambda found: parts[found[1]], _PAGE)
    path = Path(out)
    with together(path, private=True, check=lambda: require_own(path)) as (file,):
        file.write(text.encode())
    return path


def _attacks(point: FrontierPoint) -> str:
    """Return the part of the page about attacks; nothing where none were tried."""
    if not point.disclosure:
        return ""
    options = "".join(f"<option>{html.escape(one.attack)}</option>" for one in point.disclosure)
    how = "".join(f"<li>{html.escape(one.attack)}: {html.escape(one.how)}</li>" for one in point.disclosure)
    after = html.escape(point.disclosure[0].of)
    control = " No holdout was given, so there is nothing to compare with." * (point.disclosure[0].control is None)
    return f"""<h2>What the tables tell of single records</h2>
<p>Attacks on {after}, on each table by itself; the rates are means over the tables. The control is records that are
not in the table, so what is right there is learned from the population. Only the excess concerns single
records.{control}
These attacks were tried. None of them bounds what another may reach.</p>
<p><label>Attack <select id="attack">{options}</select></label></p>
<table><thead><tr><th>weighting</th><th>epsilon</th><th>table</th><th>95 % interval</th><th>control</th>
<th>95 % interval</th><th>excess</th><th>95 % interval</th></tr></thead><tbody id="attacks"></tbody></table>
<ul>{how}</ul>
"""


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><!-- @OWN@ --><title>Risk-utility frontier</title>
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}
.notice{color:#a00000;font-weight:bold}table{border-collapse:collapse;width:100%}
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid #ccc}th:first-child,td:first-child{text-align:left}
tr.out{color:#767676}tr.best{font-weight:bold}svg{width:100%;height:auto}
</style></head><body>
<p class="notice">@NOTICE@</p>
<h1>Risk-utility frontier</h1>
<p><label>Statistic <select id="statistic">@OPTIONS@</select></label>
<label>Local epsilon of one table at most <input id="most" type="range" min="0" max="1000" value="1000"></label>
<output id="said" for="most"></output></p>
<svg id="chart" viewBox="0 0 640 360" role="img"
aria-label="Error against local epsilon; the table has the same numbers"></svg>
<table><thead><tr><th>weighting</th><th>epsilon</th><th>Lipschitz</th><th>mean weight</th><th>median</th>
<th>95 % of tables</th><th>in the data</th><th>error</th></tr></thead><tbody id="rows"></tbody></table>
@ATTACKS@<script>
"use strict";
const points = @DATA@;
const by = id => document.getElementById(id);
const top_ = Math.max(...points.map(p => p.epsilon));
const number = x => Number(x.toPrecision(4)).toLocaleString("en");
function show() {
  const name = by("statistic").value, most = top_ * by("most").value / 1000;
  by("said").textContent = number(most);
  const worst = Math.max(...points.map(p => p.error[name])) || 1;
  const inside = points.filter(p => p.epsilon <= most + 1e-9);
  const best = inside.reduce((a, p) => a && a.error[name] <= p.error[name] ? a : p, null);
  const x = e => 60 + 540 * e / top_, y = e => 310 - 280 * e / worst;
  const ns = "http://www.w3.org/2000/svg", chart = by("chart");
  chart.replaceChildren();
  const add = (kind, facts, text) => {
    const node = document.createElementNS(ns, kind);
    for (const key in facts) node.setAttribute(key, facts[key]);
    if (text !== undefined) node.textContent = text;
    chart.append(node);
    return node;
  };
  add("path", {d: "M60 20V310H610", fill: "none", stroke: "#111"});
  add("text", {x: 335, y: 350, "text-anchor": "middle"}, "local epsilon of one table, as measured");
  add("text", {x: 60, y: 14, "text-anchor": "middle"}, "error");
  for (let i = 0; i <= 4; i++) {
    add("text", {x: x(top_ * i / 4), y: 328, "text-anchor": "middle", "font-size": 12}, number(top_ * i / 4));
    add("text", {x: 54, y: y(worst * i / 4) + 4, "text-anchor": "end", "font-size": 12}, number(worst * i / 4));
  }
  for (const p of points) {
    const dot = add("circle", {cx: x(p.epsilon), cy: y(p.error[name]), r: p === best ? 7 : 4,
      fill: p.epsilon <= most + 1e-9 ? "#0b5394" : "#aaa"});
    const title = document.createElementNS(ns, "title");
    title.textContent = `${p.label}: epsilon ${number(p.epsilon)}, error ${number(p.error[name])}`;
    dot.append(title);
    const right = x(p.epsilon) > 480;
    add("text", {x: x(p.epsilon) + (right ? -10 : 10), y: y(p.error[name]) - 8, "font-size": 11,
      "text-anchor": right ? "end" : "start"}, p.label);
  }
  const rows = (id, cells) => by(id).replaceChildren(...points.map(p => {
    const row = document.createElement("tr");
    row.className = p === best ? "best" : p.epsilon > most + 1e-9 ? "out" : "";
    for (const cell of [p.label, number(p.epsilon), ...cells(p)]) {
      const td = document.createElement("td");
      td.textContent = cell;
      row.append(td);
    }
    return row;
  }));
  rows("rows", p => {
    const s = p.statistics[name];
    return [number(p.lipschitz), number(p.weight), number(s[2]), `${number(s[0])} to ${number(s[4])}`,
      number(p.data[name][2]), number(p.error[name])];
  });
  if (by("attack")) rows("attacks", p => p.attacks[by("attack").value]);
}
by("statistic").addEventListener("change", show);
by("most").addEventListener("input", show);
if (by("attack")) by("attack").addEventListener("change", show);
show();
</script></body></html>
"""


# The frontier that the command shows: weightings from none to strong, of one table. Confidential throughout.

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
    """Fit each weighting of the ladder to a confidential table, and write points and page into a folder."""
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
    if column.words:
        return {f"share of {word}": _Share(code) for code, word in enumerate(column.words[:_MOST_SHARES])}
    return {"mean": np.mean, "median": np.median, "90 % quantile": _ninetieth}
