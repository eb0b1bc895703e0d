"""Charts, from numbers alone: geometry that a page's template turns into SVG, and figures of Matplotlib as files.

The charts of a page are not Matplotlib's: its SVG styles each element, which the page's policy forbids, and would not
follow the reader's colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.errors import FileProblem, MissingExtra, ParameterError
from discreet._core.files import together
from discreet._core.page import NOTICE, OWN, FilePath, require_own

_LEAST = 1e-16  # the least delta that is drawn
_LONGEST = 20  # characters of a label beside a chart

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of a page, in units of its drawing area; y grows downwards.

    ``lines``: class and path. ``bars``: x, y, width and height. ``marks``: x, y and text.
    """

    title: str
    description: str
    width: int
    height: int
    left: float
    top: float
    right: float
    bottom: float
    x_label: str
    y_label: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    lines: tuple[tuple[str, str], ...]
    bars: tuple[tuple[float, float, float, float], ...]
    marks: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True, slots=True)
class _Axes:
    """The place of the axes in a drawing area, and the linear map into it."""

    left: float
    top: float
    right: float
    bottom: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = min(1.0, max(0.0, (y - self.y[0]) / (self.y[1] - self.y[0])))
        return (
            round(self.left + across * (self.right - self.left), 2),
            round(self.bottom - up * (self.bottom - self.top), 2),
        )

    def path(self, points: Points) -> str:
        return "M" + " L".join("{} {}".format(*self.at(x, y)) for x, y in points) if points else ""

    def chart(
        self,
        title: str,
        description: str,
        size: tuple[int, int],
        *,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]],
        labels: tuple[str, str] = ("", ""),
        lines: Sequence[tuple[str, str]] = (),
        bars: Sequence[tuple[float, float, float, float]] = (),
        marks: Sequence[tuple[float, float, str]] = (),
    ) -> Chart:
        """Return the chart; ``x_ticks``, ``y_ticks``: values and their texts."""
        return Chart(
            title=title,
            description=description,
            width=size[0],
            height=size[1],
            left=self.left,
            top=self.top,
            right=self.right,
            bottom=self.bottom,
            x_label=labels[0],
            y_label=labels[1],
            x_ticks=tuple((self.at(value, 0)[0], text) for value, text in x_ticks),
            y_ticks=tuple((self.at(0, value)[1], text) for value, text in y_ticks),
            lines=tuple(lines),
            bars=tuple(bars),
            marks=tuple(marks),
        )


def profile_chart(
    profiles: Sequence[tuple[str, Points]], *, upto: float, headline: tuple[float, float], marked: str
) -> Chart:
    """Draw delta against epsilon, delta on a logarithmic axis; a line ends where delta becomes 0."""
    epsilon, delta = headline
    deltas = [delta or 1.0, *(d for _, points in profiles for _, d in points)]
    low = min(-1.0, *(math.floor(math.log10(max(d, _LEAST))) for d in deltas))
    axes = _Axes(66, 16, 420, 300, (0.0, upto), (low, 0.0))
    exponents = range(-max(1, math.ceil(-low / 8)), int(low) - 1, -max(1, math.ceil(-low / 8)))
    return axes.chart(
        "Privacy profile",
        "Delta, on a logarithmic axis, against epsilon. The same numbers are in the table beside it.",
        (440, 350),
        x_ticks=[(x, f"{x:g}") for x in _round_numbers(upto)],
        y_ticks=[(0, "1"), *((e, f"1e{e}") for e in exponents)],
        labels=("epsilon", "delta"),
        lines=[(kind, axes.path([(e, math.log10(d)) for e, d in points if d >= _LEAST])) for kind, points in profiles],
        marks=[(*axes.at(epsilon, math.log10(max(delta, _LEAST))), marked)],
    )


def attack_chart(curves: Sequence[tuple[str, Points]], rates: Points) -> tuple[Chart, list[tuple[float, float]]]:
    """Draw the greatest power of a test against its false-alarm rate; return with it where each of ``rates`` is."""
    axes = _Axes(66, 16, 410, 340, (0.0, 1.0), (0.0, 1.0))
    ticks = [(i / 5, f"{20 * i} %") for i in range(6)]
    chart = axes.chart(
        "Power of the best attacker",
        "How often the best possible test detects the truth, at most, against how often it raises a false alarm. The "
        "same numbers are in the table beside the picture.",
        (440, 390),
        x_ticks=ticks,
        y_ticks=ticks,
        labels=("false alarms", "detected, at most"),
        lines=[("guess", axes.path([(0, 0), (1, 1)])), *((kind, axes.path(points)) for kind, points in curves)],
    )
    return chart, [axes.at(*point) for point in rates]


def spending_chart(shares: Sequence[tuple[str, Points]], entries: int) -> Chart:
    """Draw which share of a budget was spent after each entry of a ledger, in steps, and the whole budget."""
    upto = float(max(1, entries))
    axes = _Axes(66, 16, 800, 230, (0.0, upto), (0.0, 1.0))
    lines = [("guess", axes.path([(0.0, 1.0), (upto, 1.0)]))]
    for kind, line in shares:
        steps = [(0.0, 0.0)]
        for after, share in line:
            steps += [(steps[-1][0], share), (after, share)]
        lines.append((kind, axes.path(steps)))
    return axes.chart(
        "What was spent, release by release",
        "The share of the budget that is spent after each entry of the ledger, in the order of their reservations. The "
        "dotted line is the whole budget. The same numbers are in the table of all entries.",
        (860, 280),
        x_ticks=[(mark, f"{mark:,.0f}") for mark in _round_numbers(upto) if float(mark).is_integer()],
        y_ticks=[(i / 4, f"{25 * i} %") for i in range(5)],
        labels=("entries", "spent"),
        lines=lines,
    )


def column_chart(
    name: str, starts: Sequence[str], released: Floats, confidential: Floats | None = None, *, points: bool
) -> Chart:
    """Draw the shares of an ordered column's bins: bars for the release, an outline for the confidential table.

    ``starts``: of the bins, and the end of the last; ``points``: whether each bin is a single value.
    """
    count = len(released)
    outline = (
        [] if confidential is None else [(i + end, float(s)) for i, s in enumerate(confidential) for end in (0, 1)]
    )
    top = max([1e-9, *released, *(share for _, share in outline)])
    axes = _Axes(56, 10, 470, 150, (0.0, float(count)), (0.0, top))
    bars = []
    for i, share in enumerate(released):
        x, y = axes.at(i, share)
        width = axes.at(i + 1, 0)[0] - x
        bars.append((round(x + 0.04 * width, 2), y, round(0.92 * width, 2), round(axes.bottom - y, 2)))
    every = max(1, -(-count // 5))
    ticks = [(i + 0.5 * points, starts[i]) for i in range(0, count, every)]
    if not points and count - ticks[-1][0] >= 0.7 * every:
        ticks.append((count, starts[count]))
    return axes.chart(
        f"Shares of {name}",
        f"Share of the records in each of {count} intervals. The numbers are in the table below the picture.",
        (480, 180),
        x_ticks=ticks,
        y_ticks=[(mark / 100, f"{mark:g} %") for mark in _round_numbers(100.0 * top, 5)],
        lines=[("confidential", axes.path(outline))] * bool(outline),
        bars=bars,
    )


def band_chart(name: str, at: Floats, curves: Floats, *, text: Callable[[float], str], level: str) -> Chart:
    """Draw a distribution function with its intervals.

    ``curves``, shape (5, places): the posterior mean, lower and upper ends at each value, and those of the whole band.
    """
    low, high = float(at[0]), float(at[-1])
    axes = _Axes(56, 10, 470, 190, (low, high if high > low else low + 1.0), (0.0, 1.0))

    def between(lower: Floats, upper: Floats) -> str:
        there, back = list(zip(at, upper, strict=True)), list(zip(at, lower, strict=True))[::-1]
        return axes.path([*there, *back]) + " Z"

    return axes.chart(
        f"Distribution of {name} in the population",
        f"Share of the population at or below each value, with the {level} interval at each value and, lighter, the "
        "band for the whole curve. Some of the numbers are in the table below the picture.",
        (480, 220),
        x_ticks=[(x, text(x)) for x in (low + (axes.x[1] - low) * i / 4 for i in range(5))],
        y_ticks=[(i / 4, f"{25 * i} %") for i in range(5)],
        lines=[
            ("whole", between(curves[3], curves[4])),
            ("each", between(curves[1], curves[2])),
            ("this", axes.path(list(zip(at, curves[0], strict=True)))),
        ],
    )


def forest_chart(
    title: str, rows: Sequence[tuple[str, float, float, float]], *, text: Callable[[float], str], level: str
) -> Chart:
    """Draw a number in each of some groups, with its interval; all are finite."""
    low, high, count = min(row[2] for row in rows), max(row[3] for row in rows), len(rows)
    bottom = 10.0 + 26.0 * count
    axes = _Axes(150, 10, 470, bottom, (low, high if high > low else low + 1.0), (0.0, float(count)))
    labels = [row[0] if len(row[0]) <= _LONGEST else row[0][: _LONGEST - 1] + "…" for row in rows]
    heights = [count - i - 0.5 for i in range(count)]
    places = [[axes.at(value, height) for value in row[1:]] for row, height in zip(rows, heights, strict=True)]
    every = _round_numbers(axes.x[1] - axes.x[0], 4)[1]
    ticks = np.arange(math.ceil(axes.x[0] / every), math.floor(axes.x[1] / every) + 1) * every
    return axes.chart(
        title,
        f"Posterior mean and {level} interval in each group. The numbers are in the table below the picture.",
        (480, round(bottom) + 30),
        x_ticks=[(x, text(x)) for x in ticks.tolist()],
        y_ticks=list(zip(heights, labels, strict=True)),
        bars=[(lower, y - 3.0, round(upper - lower, 2), 6.0) for _, (lower, y), (upper, _) in places],
        marks=[(*mean, "") for mean, _, _ in places],
    )


def _round_numbers(upto: float, about: int = 6) -> list[float]:
    """Return about so many round numbers from 0 to ``upto``."""
    rough = upto / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    return [round(step * i, 12) for i in range(int(upto / step * (1 + 1e-9)) + 1)]


# Figures of Matplotlib, as files of their own.

_BARS = 40
_COLOUR, _ALARM = "#4c78a8", "#a00000"
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": OWN},
    "svg": {"Creator": OWN, "Date": None},
    "pdf": {"Creator": OWN},
}


def _figure(width: float, height: float, *, title: str = "", **title_style: Any) -> Any:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a picture needs matplotlib", "report") from None
    mpl.rcParams["svg.hashsalt"] = "discreet"  # the same bytes every time
    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, **title_style)
    return figure


def _save(
    figure: Any, out: FilePath, *, title: str, description: str, confidential: bool, dpi: float | str = "figure"
) -> Path:
    """Write a figure as PNG, SVG or PDF, as its name ends, with a title and a description."""
    path = Path(out)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise FileProblem(out, "the format is not known by this ending", "end the name in .png, .svg or .pdf")
    words = {"Title": title, "Subject" if kind == "pdf" else "Description": description}
    with together(path, private=confidential, check=partial(require_own, path)) as (file,):
        figure.savefig(file, format=kind, metadata={**_METADATA[kind], **words}, dpi=dpi)
    return path


def release_figure(
    out: FilePath,
    *,
    title: str,
    column: str,
    released: npt.NDArray[Any],
    confidential: npt.NDArray[Any] | None,
    power: Callable[[Floats], Floats],
) -> Path:
    """Draw the values of a column beside the greatest power of a test, by its false-alarm rate, that tells neighbours.

    Where confidential values are given, they are drawn too, and the figure is marked.
    """
    figure = _figure(11, 4.2, title=title, fontsize=12)
    values, attack = figure.subplots(1, 2, width_ratios=(3, 2))
    low, high = float(np.min(released)), float(np.quantile(released, 0.995))
    edges = np.linspace(low, max(high, low + 1e-9), _BARS + 1)
    if np.issubdtype(released.dtype, np.integer) and high - low < 2 * _BARS:
        edges = np.arange(low, high + 2) - 0.5
    filled = {"fill": True, "color": _COLOUR, "alpha": 0.65, "label": "released"}
    values.stairs(np.histogram(released, edges)[0] / len(released), edges, **filled)
    if confidential is not None:
        outline = {"color": "#222222", "linewidth": 1.4, "label": "confidential"}
        values.stairs(np.histogram(confidential, edges)[0] / len(confidential), edges, **outline)
        mark = "CONFIDENTIAL: drawn from the private data. Not for publication"
        figure.supxlabel(mark, color="#b00020", fontsize=10)
    values.set(xlabel=f"{column} (top 0.5 % not shown)", ylabel="share of records")
    values.legend(frameon=False)
    level = np.linspace(0.0, 1.0, 201)
    attack.fill_between(level, level, power(level), color=_COLOUR, alpha=0.25, label="what the guarantee allows")
    attack.plot(level, power(level), color=_COLOUR)
    attack.plot(level, level, color="#888888", linestyle="--", label="guessing")
    names = {"xlabel": "false-alarm rate", "ylabel": "detection rate of the best attacker"}
    attack.set(**names, xlim=(0, 1), ylim=(0, 1), aspect="equal")
    attack.legend(frameon=False, loc="lower right")
    description = f"Shares of the values of {column}, and the power of the best attacker by the false-alarm rate."
    return _save(figure, out, title=title, description=description, confidential=confidential is not None, dpi=120)


@sealed
def violins(
    samples: Mapping[str, npt.ArrayLike], out: FilePath, *, label: str, confidential: bool = True, log: bool = False
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
    notice = NOTICE * confidential
    figure = _figure(max(4.0, 1.4 * len(samples)), 3.8, title=notice, color=_ALARM, fontsize=9)
    axes = figure.subplots()
    axes.violinplot([np.asarray(values, dtype=np.float64) for values in samples.values()], showmedians=True)
    axes.set_xticks(range(1, len(samples) + 1), list(samples), fontsize=8)
    axes.set_ylabel(label)
    if log:
        axes.set_yscale("log")
    return _save(figure, out, title=label, description=", ".join(samples), confidential=confidential)


@sealed
def weight_picture(risks: npt.ArrayLike, weights: npt.ArrayLike, out: FilePath) -> Path:
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
    figure = _figure(8.0, 3.6, title=NOTICE, color=_ALARM, fontsize=9)
    left, right = figure.subplots(1, 2)
    left.scatter(np.asarray(risks), np.asarray(weights), s=6, alpha=0.4, linewidths=0)
    left.set(xlabel="risk, nats", ylabel="weight")
    right.violinplot([np.asarray(weights, dtype=np.float64)], showmedians=True)
    right.set_xticks([])
    right.set_ylabel("weight")
    description = f"The weight of each record against its risk, and the distribution of the weights. {NOTICE}."
    return _save(figure, out, title="Weights of records", description=description, confidential=True)
