"""Pages of one HTML file each, which loads nothing from elsewhere; their charts; and figures of Matplotlib as files.

The charts of a page are geometry that its template turns into SVG. They are not Matplotlib's: its SVG styles each
element, which the page's policy forbids, and would not follow the reader's colours.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from string import Formatter
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import FileProblem, MissingExtra, ParameterError
from discreet._core.files import check_outputs, check_writable, together
from discreet._core.numeric import Floats
from discreet._core.text import about, harmless, rounded_up

FilePath = str | os.PathLike[str]
Points = Sequence[tuple[float, float]]

OWN = "written by discreet"
"""What every page and picture says of itself, so that no other file is replaced by one."""

NOTICE = "CONFIDENTIAL: computed from the private data"
"""What a page or figure says of itself that shows such numbers."""


def rendered(package: str, template: str, page: dict[str, Any], *, script: str = "", style: str = "") -> str:
    """Return a page as text. Raises MissingExtra when Jinja2 is not installed."""
    # template, script and style are files of the folder "page" of the package; all pages share a style.
    try:
        import jinja2
    except ImportError:
        raise MissingExtra("the page needs Jinja2", "report") from None
    package_files, shared = jinja2.PackageLoader(package, "page"), jinja2.PackageLoader("discreet._core", "page")
    loader = jinja2.ChoiceLoader([package_files, shared])
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value: "-" if value is None else about(value, 4)
    environment.filters.update(epsilon=partial(rounded_up, digits=6), delta=rounded_up)
    environment.globals.update(version=version("discreet"))
    extra, code = (package_files.get_source(environment, name)[0] if name else "" for name in (style, script))
    look = shared.get_source(environment, "style.css")[0] + extra
    # The page runs this script and uses this style, and loads nothing: a name in the data that looks like code is text.
    policy = "default-src 'none'; script-src {}; style-src '{}'; base-uri 'none'; form-action 'none'".format(
        f"'{_fingerprint(code)}'" if code else "'none'", _fingerprint(look)
    )
    text: str = environment.get_template(template).render(**page, policy=policy, style=look, script=code)
    return text


def _fingerprint(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def require_own(path: Path) -> None:
    """Refuse to replace a page or picture that does not say within that it is one of this package's."""
    marked = not os.path.lexists(path)
    with contextlib.suppress(OSError):
        marked = marked or OWN.encode() in path.read_bytes()
    if not marked:
        raise FileProblem(path, "it exists and was not written by discreet", "give another name, or move it away")


def require_page(out: FilePath, inputs: Sequence[Any]) -> Path:
    """Return the path of a page that is to be written. Raises FileProblem where it may not be."""
    path = Path(out)
    if path.suffix.lower() != ".html":
        raise FileProblem(out, "the format is not known by this ending", "end the name in .html")
    check_outputs([path], inputs)
    check_writable(path)
    require_own(path)
    return path


def write_own(path: Path, text: str, *, inputs: Sequence[Any] = (), private: bool = False) -> None:
    """Write a text that says within that it is one of this package's, in place of nothing but another such one."""
    with together(path, inputs=inputs, private=private, check=partial(require_own, path)) as (file,):
        file.write(text.encode())


# Documents of JSON, from forms whose holes name a value, and the way to write it: {name!h}.

_HOLE = re.compile(r"{([\w.]+)(?:!(\w))?}")
_WAYS: dict[Any, Any] = {None: lambda value: value, "s": str, "h": harmless, "q": quote, "p": partial(quote, safe="")}


def filled(form: Any, values: dict[str, Any]) -> Any:
    """Return a form with its holes filled: ``$for`` repeats an object, ``$if`` and empty holes leave something out."""

    def value(hole: re.Match[str]) -> Any:
        field = Formatter().get_field(hole[1], (), values)[0]
        return None if field is None else _WAYS[hole[2]](field)

    if isinstance(form, str):
        if hole := _HOLE.fullmatch(form):
            return value(hole)
        return _HOLE.sub(value, form)
    if isinstance(form, list):
        rows = [(part, row) for part in form for row in (values[part["$for"]] if "$for" in part else [{}])]
        return [filled(part, values | row) for part, row in rows]
    if not isinstance(form, dict):
        return form
    if "$if" in form and values[form["$if"]] in (None, []):
        return None
    fields = {name: filled(part, values) for name, part in form.items() if name not in ("$if", "$for")}
    return {name: field for name, field in fields.items() if field is not None}


# Charts of pages.

_SMALLEST = 1e-16  # delta that is drawn
_LONGEST = 20  # characters of a label beside a chart


@dataclass(slots=True, kw_only=True)
class Chart:
    """A chart of a page, drawn in units of its area; y grows downwards."""

    title: str
    description: str
    size: tuple[int, int]
    area: tuple[float, float, float, float]  # left, top, right and bottom of the axes
    x: tuple[float, float]  # first and last value
    y: tuple[float, float] = (0.0, 1.0)
    labels: tuple[str, str] = ("", "")
    x_ticks: list[tuple[float, str]] = field(default_factory=list)
    y_ticks: list[tuple[float, str]] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)  # class and path
    bars: list[tuple[float, float, float, float]] = field(default_factory=list)  # x, y, width and height
    marks: list[tuple[float, float, str]] = field(default_factory=list)  # x, y and text

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point."""
        left, top, right, bottom = self.area
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = min(1.0, max(0.0, (y - self.y[0]) / (self.y[1] - self.y[0])))
        return round(left + across * (right - left), 2), round(bottom - up * (bottom - top), 2)

    def tick(self, *, x: Sequence[tuple[float, str]], y: Sequence[tuple[float, str]]) -> None:
        """Write texts at values of the axes."""
        self.x_ticks += [(self.at(value, 0)[0], text) for value, text in x]
        self.y_ticks += [(self.at(0, value)[1], text) for value, text in y]

    def line(self, kind: str, points: Points, *, close: bool = False) -> None:
        """Draw a line, or the outline of an area."""
        path = " L".join("{} {}".format(*self.at(x, y)) for x, y in points)
        start, end = "M" if points else "", " Z" if close else ""
        self.lines.append((kind, start + path + end))


def profile_chart(
    profiles: Sequence[tuple[str, Points]], *, largest: float, headline: tuple[float, float], mark: str
) -> Chart:
    """Draw delta against epsilon, delta on a logarithmic axis; a line ends where delta becomes 0."""
    epsilon, delta = headline
    deltas = [delta or 1.0, *(d for _, points in profiles for _, d in points)]
    low = min(-1.0, *(math.floor(math.log10(max(d, _SMALLEST))) for d in deltas))
    chart = Chart(
        title="Privacy profile",
        description="Delta, on a logarithmic axis, against epsilon. The same numbers are in the table beside it.",
        size=(440, 350),
        area=(66, 16, 420, 300),
        x=(0.0, largest),
        y=(low, 0.0),
        labels=("epsilon", "delta"),
    )
    step = max(1, math.ceil(-low / 8))
    exponents = [(e, f"1e{e}") for e in range(-step, int(low) - 1, -step)]
    chart.tick(x=[(x, f"{x:g}") for x in _round_numbers(largest)], y=[(0, "1"), *exponents])
    for kind, points in profiles:
        chart.line(kind, [(e, math.log10(d)) for e, d in points if d >= _SMALLEST])
    chart.marks.append((*chart.at(epsilon, math.log10(max(delta, _SMALLEST))), mark))
    return chart


def attack_chart(curves: Sequence[tuple[str, Points]]) -> Chart:
    """Draw the greatest power of a test against its false-alarm rate."""
    chart = Chart(
        title="Power of the best attacker",
        description="How often the best possible test detects the truth, at most, against how often it raises a false "
        "alarm. The same numbers are in the table beside the picture.",
        size=(440, 390),
        area=(66, 16, 410, 340),
        x=(0.0, 1.0),
        labels=("false alarms", "detected, at most"),
    )
    chart.tick(x=_percentages(5), y=_percentages(5))
    for kind, points in [("guess", [(0.0, 0.0), (1.0, 1.0)]), *curves]:
        chart.line(kind, points)
    return chart


def spending_chart(shares: Sequence[tuple[str, Points]], entries: int) -> Chart:
    """Draw which share of a budget is set aside after each entry of a ledger, in steps, and the whole budget."""
    count = float(max(1, entries))
    chart = Chart(
        title="What was set aside, entry by entry",
        description="The share of the budget that is set aside after each entry of the ledger, in the order of their "
        "reservations. The dotted line is the whole budget. The same numbers are in the table of all entries.",
        size=(860, 280),
        area=(66, 16, 800, 230),
        x=(0.0, count),
        labels=("entries", "set aside"),
    )
    numbers = [(number, f"{number:,.0f}") for number in _round_numbers(count) if number.is_integer()]
    chart.tick(x=numbers, y=_percentages(4))
    chart.line("guess", [(0.0, 1.0), (count, 1.0)])
    for kind, points in shares:
        steps = [(0.0, 0.0)]
        for entry, share in points:
            steps += [(steps[-1][0], share), (entry, share)]
        chart.line(kind, steps)
    return chart


def column_chart(
    name: str, starts: Sequence[str], released: Floats, confidential: Floats | None = None, *, points: bool
) -> Chart:
    """Draw the shares of an ordered column's bins: bars for the release, an outline for the confidential table."""
    # starts: of the bins, and the end of the last; points: whether each bin is a single value.
    count, outline = len(released), list[tuple[float, float]]()
    if confidential is not None:
        outline = [(i + end, float(share)) for i, share in enumerate(confidential) for end in (0, 1)]
    top = max([1e-9, *released, *(share for _, share in outline)])
    chart = Chart(
        title=f"Shares of {name}",
        description=f"Share of the records in each of {count} intervals. The numbers are in the table below the "
        "picture.",
        size=(480, 180),
        area=(56, 10, 470, 150),
        x=(0.0, float(count)),
        y=(0.0, top),
    )
    every = max(1, -(-count // 5))
    ticks = [(i + 0.5 * points, starts[i]) for i in range(0, count, every)]
    if not points and count - ticks[-1][0] >= 0.7 * every:
        ticks.append((count, starts[count]))
    chart.tick(x=ticks, y=[(mark / 100, f"{mark:g} %") for mark in _round_numbers(100.0 * top, 5)])
    for i, share in enumerate(released):
        x, y = chart.at(i, share)
        width = chart.at(i + 1, 0)[0] - x
        chart.bars.append((round(x + 0.04 * width, 2), y, round(0.92 * width, 2), round(chart.area[3] - y, 2)))
    if outline:
        chart.line("confidential", outline)
    return chart


def band_chart(name: str, places: Floats, curves: Floats, *, text: Callable[[float], str], level: str) -> Chart:
    """Draw a distribution function with its intervals."""
    # curves, shape (5, places): the posterior mean, lower and upper ends at each value, and those of the whole band.
    chart = Chart(
        title=f"Distribution of {name} in the population",
        description=f"Share of the population at or below each value, with the {level} interval at each value and, "
        "lighter, the band for the whole curve. Some of the numbers are in the table below the picture.",
        size=(480, 220),
        area=(56, 10, 470, 190),
        x=_span(places),
    )
    low, high = chart.x
    chart.tick(x=[(x, text(x)) for x in (low + (high - low) * i / 4 for i in range(5))], y=_percentages(4))
    mean, *ends = [list(zip(places, curve, strict=True)) for curve in curves]
    chart.line("whole", ends[3] + ends[2][::-1], close=True)
    chart.line("each", ends[1] + ends[0][::-1], close=True)
    chart.line("this", mean)
    return chart


def forest_chart(
    title: str, rows: Sequence[tuple[str, float, float, float]], *, text: Callable[[float], str], level: str
) -> Chart:
    """Draw a number in each of some groups, with its interval; all are finite."""
    count = len(rows)
    bottom = 10.0 + 26.0 * count
    chart = Chart(
        title=title,
        description=f"Posterior mean and {level} interval in each group. The numbers are in the table below the "
        "picture.",
        size=(480, round(bottom) + 30),
        area=(150, 10, 470, bottom),
        x=_span([end for row in rows for end in row[2:]]),
        y=(0.0, float(count)),
    )
    low, high = chart.x
    every = _round_numbers(high - low, 4)[1]
    ticks = (np.arange(math.ceil(low / every), math.floor(high / every) + 1) * every).tolist()
    labels = [row[0] if len(row[0]) <= _LONGEST else row[0][: _LONGEST - 1] + "…" for row in rows]
    heights = [count - i - 0.5 for i in range(count)]
    chart.tick(x=[(x, text(x)) for x in ticks], y=list(zip(heights, labels, strict=True)))
    for height, (_, *numbers) in zip(heights, rows, strict=True):
        mean, (lower, y), (upper, _) = (chart.at(number, height) for number in numbers)
        chart.bars.append((lower, y - 3.0, round(upper - lower, 2), 6.0))
        chart.marks.append((*mean, ""))
    return chart


def _span(values: Floats | Sequence[float]) -> tuple[float, float]:
    """Return the least and the greatest value, or an interval of length 1 where they are one."""
    low, high = float(np.min(values)), float(np.max(values))
    return low, max(high, low + (high == low))


def _percentages(count: int) -> list[tuple[float, str]]:
    return [(i / count, f"{100 * i // count} %") for i in range(count + 1)]


def _round_numbers(largest: float, count: int = 6) -> list[float]:
    """Return about so many round numbers from 0 to the largest."""
    rough = largest / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    return [round(step * i, 12) for i in range(int(largest / step * (1 + 1e-9)) + 1)]


# Figures of Matplotlib, as files of their own.

_BARS = 40
_COLOUR, _ALARM = "#4c78a8", "#a00000"
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": OWN},
    "svg": {"Creator": OWN, "Date": None},
    "pdf": {"Creator": OWN},
}


def _new_figure(width: float, height: float, title: str, **title_style: Any) -> Any:
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
    """Draw the values of a column, with confidential ones if there are any, and the power of a test by its level."""
    figure = _new_figure(11, 4.2, title, fontsize=12)
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
        figure.supxlabel("CONFIDENTIAL: drawn from the private data. Not for publication", color="#b00020", fontsize=10)
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
    notice = NOTICE if confidential else ""
    figure = _new_figure(max(4.0, 1.4 * len(samples)), 3.8, notice, color=_ALARM, fontsize=9)
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
    figure = _new_figure(8.0, 3.6, NOTICE, color=_ALARM, fontsize=9)
    by_risk, distribution = figure.subplots(1, 2)
    by_risk.scatter(np.asarray(risks), np.asarray(weights), s=6, alpha=0.4, linewidths=0)
    by_risk.set(xlabel="risk, nats", ylabel="weight")
    distribution.violinplot([np.asarray(weights, dtype=np.float64)], showmedians=True)
    distribution.set_xticks([])
    distribution.set_ylabel("weight")
    description = f"The weight of each record against its risk, and the distribution of the weights. {NOTICE}."
    return _save(figure, out, title="Weights of records", description=description, confidential=True)
