"""Pictures as geometry: positions in a drawing area, which the page's template turns into SVG."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet._core.page import save_figure
from discreet._core.text import counted, rounded_up
from discreet.domain import Domain
from discreet.privacy import Guarantee
from discreet.privacy.guarantee import TradeOff
from discreet.releases import Certificate
from discreet.releases.verification import guarantee_of
from discreet.utility.columns import Bins, Shares

_LEAST = 1e-16  # the least delta that is drawn
_LONGEST = 20  # characters of a label beside a picture

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One picture, in units of its drawing area; y grows downwards.

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
    lines: tuple[tuple[str, str], ...] = ()
    bars: tuple[tuple[float, float, float, float], ...] = ()
    marks: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Box:
    """The axes' box, and the linear map into it."""

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

    def edges(self) -> dict[str, Any]:
        return {"left": self.left, "top": self.top, "right": self.right, "bottom": self.bottom}

    def path(self, points: Points) -> str:
        return "M" + " L".join("{} {}".format(*self.at(x, y)) for x, y in points) if points else ""


def profile_chart(
    profiles: Sequence[tuple[str, Points]], *, upto: float, headline: tuple[float, float], marked: str
) -> Chart:
    """Draw delta against epsilon, delta on a logarithmic axis; a line ends where delta becomes 0."""
    epsilon, delta = headline
    deltas = [delta or 1.0, *(d for _, points in profiles for _, d in points)]
    low = min(-1.0, *(math.floor(math.log10(max(d, _LEAST))) for d in deltas))
    box = _Box(66, 16, 420, 300, (0.0, upto), (low, 0.0))
    step = max(1, math.ceil(-low / 8))
    exponents = range(0, int(low) - 1, -step)
    lines = tuple((kind, box.path([(e, math.log10(d)) for e, d in points if d >= _LEAST])) for kind, points in profiles)
    return Chart(
        title="Privacy profile",
        description="Delta, on a logarithmic axis, against epsilon. The same numbers are in the table beside it.",
        width=440,
        height=350,
        **box.edges(),
        x_label="epsilon",
        y_label="delta",
        x_ticks=tuple((box.at(x, 0)[0], f"{x:g}") for x in _round_numbers(upto)),
        y_ticks=tuple((box.at(0, e)[1], "1" if e == 0 else f"1e{e}") for e in exponents),
        lines=lines,
        marks=((*box.at(epsilon, math.log10(max(delta, _LEAST))), marked),),
    )


def attack_chart(curves: Sequence[tuple[str, Points]], rates: Points) -> tuple[Chart, tuple[tuple[float, float], ...]]:
    """Return a picture of the greatest power of a test against its false-alarm rate, and where each of ``rates`` is."""
    box = _Box(66, 16, 410, 340, (0.0, 1.0), (0.0, 1.0))
    ticks = [i / 5 for i in range(6)]
    chart = Chart(
        title="Power of the best attacker",
        description="How often the best possible test detects the truth, at most, against how often it raises a false "
        "alarm. The same numbers are in the table beside the picture.",
        width=440,
        height=390,
        **box.edges(),
        x_label="false alarms",
        y_label="detected, at most",
        x_ticks=tuple((box.at(t, 0)[0], f"{100 * t:.0f} %") for t in ticks),
        y_ticks=tuple((box.at(0, t)[1], f"{100 * t:.0f} %") for t in ticks),
        lines=(("guess", box.path([(0, 0), (1, 1)])), *((kind, box.path(points)) for kind, points in curves)),
    )
    return chart, tuple(box.at(*point) for point in rates)


def spending_chart(shares: Sequence[tuple[str, Points]], entries: int) -> Chart:
    """Draw which share of a budget was spent after each entry of a ledger, in steps, and the whole budget."""
    upto = float(max(1, entries))
    box = _Box(66, 16, 800, 230, (0.0, upto), (0.0, 1.0))
    lines = [("guess", box.path([(0.0, 1.0), (upto, 1.0)]))]
    for kind, line in shares:
        steps = [(0.0, 0.0)]
        for after, share in line:
            steps += [(steps[-1][0], share), (after, share)]
        lines.append((kind, box.path(steps)))
    whole = [mark for mark in _round_numbers(upto) if float(mark).is_integer()]
    return Chart(
        title="What was spent, release by release",
        description="The share of the budget that is spent after each entry of the ledger, in the order of their "
        "reservations. The dotted line is the whole budget. The same numbers are in the table of all entries.",
        width=860,
        height=280,
        **box.edges(),
        x_label="entries",
        y_label="spent",
        x_ticks=tuple((box.at(x, 0)[0], f"{x:,.0f}") for x in whole),
        y_ticks=tuple((box.at(0, part)[1], f"{100 * part:.0f} %") for part in (0.0, 0.25, 0.5, 0.75, 1.0)),
        lines=tuple(lines),
    )


def column_chart(name: str, bins: Bins, released: Shares, confidential: Shares | None) -> Chart:
    """Draw the shares of an ordered column: bars for the release, an outline for the confidential table."""
    count = len(bins.names)
    top = max([1e-9, *released.bins, *(() if confidential is None else confidential.bins)])
    marks = _round_numbers(100.0 * top, 5)
    box = _Box(56, 10, 470, 150, (0.0, float(count)), (0.0, top))
    bars = []
    for i, share in enumerate(released.bins):
        x, y = box.at(i, share)
        width = box.at(i + 1, 0)[0] - x
        bars.append((round(x + 0.04 * width, 2), y, round(0.92 * width, 2), round(box.bottom - y, 2)))
    outline: list[tuple[float, float]] = []
    if confidential is not None:
        for i, share in enumerate(confidential.bins):
            outline += [(i, float(share)), (i + 1, float(share))]
    every = max(1, -(-count // 5))
    shift = 0.5 if bins.points else 0.0
    ticks = [(i + shift, bins.starts[i]) for i in range(0, count, every)]
    if not bins.points and count - ticks[-1][0] >= 0.7 * every:
        ticks.append((count, bins.starts[count]))
    return Chart(
        title=f"Shares of {name}",
        description="Share of the records in each of "
        f"{count} intervals. The numbers are in the table below the picture.",
        width=480,
        height=180,
        **box.edges(),
        x_label="",
        y_label="",
        x_ticks=tuple((box.at(x, 0)[0], text) for x, text in ticks),
        y_ticks=tuple((box.at(0, mark / 100)[1], f"{mark:g} %") for mark in marks),
        lines=(("confidential", box.path(outline)),) if outline else (),
        bars=tuple(bars),
    )


def band_chart(
    name: str,
    at: Floats,
    curves: Floats,
    *,
    text: Callable[[float], str],
    level: str,
) -> Chart:
    """Draw a distribution function with its intervals.

    ``curves``, shape (5, places): the posterior mean, lower and upper ends at each value, and those of the whole band.
    """
    box = _Box(56, 10, 470, 190, (float(at[0]), float(at[-1]) if at[-1] > at[0] else float(at[0]) + 1.0), (0.0, 1.0))

    def between(lower: Floats, upper: Floats) -> str:
        there, back = list(zip(at, upper, strict=True)), list(zip(at, lower, strict=True))[::-1]
        return box.path([*there, *back]) + " Z"

    ticks = [box.x[0] + (box.x[1] - box.x[0]) * i / 4 for i in range(5)]
    return Chart(
        title=f"Distribution of {name} in the population",
        description=f"Share of the population at or below each value, with the {level} interval at each value and, "
        "lighter, the band for the whole curve. Some of the numbers are in the table below the picture.",
        width=480,
        height=220,
        **box.edges(),
        x_label="",
        y_label="",
        x_ticks=tuple((box.at(x, 0)[0], text(x)) for x in ticks),
        y_ticks=tuple((box.at(0, i / 4)[1], f"{25 * i} %") for i in range(5)),
        lines=(
            ("whole", between(curves[3], curves[4])),
            ("each", between(curves[1], curves[2])),
            ("this", box.path(list(zip(at, curves[0], strict=True)))),
        ),
    )


def forest_chart(
    title: str, rows: Sequence[tuple[str, float, float, float]], *, text: Callable[[float], str], level: str
) -> Chart:
    """Draw a number in each of some groups, with its interval; all are finite."""
    low, high = min(row[2] for row in rows), max(row[3] for row in rows)
    step = 26.0
    bottom = 10.0 + step * len(rows)
    box = _Box(150, 10, 470, bottom, (low, high if high > low else low + 1.0), (0.0, float(len(rows))))
    middles = [bottom - step * (len(rows) - i - 0.5) for i in range(len(rows))]
    labels = [row[0] if len(row[0]) <= _LONGEST else row[0][: _LONGEST - 1] + "…" for row in rows]
    places = [[box.at(value, 0)[0] for value in row[1:]] for row in rows]
    every = _round_numbers(box.x[1] - box.x[0], 4)[1]
    ticks = np.arange(math.ceil(box.x[0] / every), math.floor(box.x[1] / every) + 1) * every
    return Chart(
        title=title,
        description=f"Posterior mean and {level} interval in each group. The numbers are in the table below the "
        "picture.",
        width=480,
        height=round(bottom) + 30,
        **box.edges(),
        x_label="",
        y_label="",
        x_ticks=tuple((box.at(x, 0)[0], text(x)) for x in ticks.tolist()),
        y_ticks=tuple(zip(middles, labels, strict=True)),
        bars=tuple((lower, y - 3.0, round(upper - lower, 2), 6.0)
                   for y, (_, lower, upper) in zip(middles, places, strict=True)),
        marks=tuple((mean, y, "") for y, (mean, _, _) in zip(middles, places, strict=True)),
    )  # fmt: skip


def _round_numbers(upto: float, about: int = 6) -> list[float]:
    """Return about so many round numbers from 0 to ``upto``."""
    rough = upto / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    return [round(step * i, 12) for i in range(int(upto / step * (1 + 1e-9)) + 1)]


# One picture of a release of a single column: its shape, and what its guarantee allows an attacker.

_BARS = 40


def picture(released: Any, certificate: Certificate, out: str | os.PathLike[str], *, confidential: Any = None) -> Path:
    """Draw the released values of the first column beside the trade-off of the best attacker, as PNG, SVG or PDF.

    Parameters
    ----------
    released : polars.DataFrame
        The released records.
    certificate : Certificate
        Of the release.
    out : path
        File to write.
    confidential : polars.DataFrame, optional
        When given, its values are drawn too, and the picture is marked confidential.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileProblem
        When the file cannot be written, or exists and was not written by this package.
    ParameterError
        When matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("the picture needs matplotlib. Install it: pip install 'discreet[report]'") from None
    domain = Domain.from_dict(certificate.facts.domain)
    name = domain.names[0]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    values, attack = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_values(values, released[name], None if confidential is None else confidential[name], name)
    _draw_attack(attack, guarantee_of(certificate))
    facts = certificate.facts
    title = (
        f"{counted(facts.size or 0, 'synthetic record')} from {facts.records:,}: "
        f"epsilon {rounded_up(certificate.epsilon, 6)}, delta {rounded_up(certificate.delta)} "
        f"({facts.mechanism.name})"
    )
    if confidential is not None:
        figure.supxlabel("CONFIDENTIAL: drawn from the private data. Not for publication", color="#b00020", fontsize=10)
    figure.suptitle(title, fontsize=12)
    return save_figure(figure, out, confidential=confidential is not None, dpi=120)


def _draw_values(axes: Any, released: Any, confidential: Any, name: str) -> None:
    new = released.drop_nulls().to_numpy()
    old = None if confidential is None else confidential.drop_nulls().to_numpy()
    low, high = float(np.min(new)), float(np.quantile(new, 0.995))
    whole = bool(np.issubdtype(new.dtype, np.integer)) and high - low < 2 * _BARS
    edges = np.arange(low, high + 2) - 0.5 if whole else np.linspace(low, max(high, low + 1e-9), _BARS + 1)
    share, _ = np.histogram(new, edges)
    axes.stairs(share / len(new), edges, fill=True, color="#4c78a8", alpha=0.65, label="released")
    if old is not None:
        share, _ = np.histogram(old, edges)
        axes.stairs(share / len(old), edges, color="#222222", linewidth=1.4, label="confidential")
    axes.set(xlabel=f"{name} (top 0.5 % not shown)", ylabel="share of records")
    axes.legend(frameon=False)


def _draw_attack(axes: Any, guarantee: Guarantee) -> None:
    """Draw the greatest power of a test that tells two neighbours apart, against its false-alarm rate."""
    level = np.linspace(0.0, 1.0, 201)
    power = TradeOff.from_profile(guarantee.profile).power(level)
    axes.fill_between(level, level, power, color="#4c78a8", alpha=0.25, label="what the guarantee allows")
    axes.plot(level, power, color="#4c78a8")
    axes.plot(level, level, color="#888888", linestyle="--", label="guessing")
    axes.set(
        xlabel="false-alarm rate",
        ylabel="detection rate of the best attacker",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    axes.legend(frameon=False, loc="lower right")
