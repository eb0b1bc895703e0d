"""Pictures of the experiments' results: drawn from the kept data files alone, in one look, for light and dark pages.

A picture is a function of a module here, named after a paper (or ``beyond`` them), that is given the rows of its data
files and axes to draw them on. ``python experiments/draw.py`` writes them all in seconds; the documentation's gallery
shows them.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from _harness import read
from cycler import cycler
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
STYLE = HERE / "discreet.mplstyle"
PAPERS = ("py26", "bnp24", "roo25", "pe25", "pp22", "beyond")
DARK = {
    "axes.prop_cycle": cycler("color", ["#62B6F0", "#FF9259", "#3FCBA0", "#E28BD3", "#E8C24A", "#A7DCF7", "#A4A9AF"]),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "#131416"),
    **dict.fromkeys(("text.color", "axes.labelcolor"), "#dfe2e5"),
    **dict.fromkeys(("xtick.color", "ytick.color"), "#b3b8be"),
    "axes.edgecolor": "#8a9097",
    "grid.color": "#2c3035",
}
THEMES: Mapping[str, Mapping[str, Any]] = {"light": {}, "dark": DARK}
# Inches. A page makes every picture as wide as its text, 7.7 inches: a wider one would have smaller letters there.
WIDTH = 8.0
Row = dict[str, Any]


class Picture(NamedTuple):
    """One picture: its name, what draws it, and the data files that it is drawn from."""

    name: str
    draw: Callable[[], Figure]
    data: tuple[Path, ...]


_PICTURES: dict[str, Picture] = {}


def picture(*data: str, height: float, shape: tuple[int, ...] | None = (), **shared: Any) -> Callable[..., Any]:
    """Register a function as a picture as wide as a page, named after its module and itself.

    It is given the rows of each data file, and the axes, or the figure itself where it has no shape.
    """

    def registered(fill: Callable[..., None]) -> Callable[..., None]:
        @wraps(fill)
        def drawn() -> Figure:
            figure = Figure(figsize=(WIDTH, height))
            fill(*map(rows, data), figure if shape is None else figure.subplots(*shape, **shared))
            return figure

        name = f"{fill.__module__.rpartition('.')[2]}_{fill.__name__}"
        _PICTURES[name] = Picture(name, drawn, tuple(Path(os.path.normpath(RESULTS / file)) for file in data))
        return fill

    return registered


def pictures() -> dict[str, Picture]:
    """Return all pictures by name."""
    for paper in PAPERS:
        import_module(f"pictures.{paper}")
    return _PICTURES


@contextmanager
def look(theme: str) -> Iterator[None]:
    """Draw in the project's look, on a light or a dark page."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(mpl.rc_params_from_file(STYLE, use_default_template=False))
        mpl.rcParams.update(THEMES[theme])
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a picture; an SVG has the same bytes every time."""
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {}, dpi=110)


def draw(out: Path, names: Iterable[str] = ()) -> list[Path]:
    """Write pictures, each as SVG and as PNG, for light and for dark pages; by default all. Return the paths."""
    found, written = pictures(), []
    out.mkdir(parents=True, exist_ok=True)
    for name in names or found:
        for theme in THEMES:
            with look(theme):
                figure = found[name].draw()
                for kind in ("svg", "png"):
                    written.append(out / f"{name}-{theme}.{kind}")
                    save(figure, written[-1])
    return written


def rows(file: str) -> list[Row]:
    """Return the rows of a data file, where what reads as a number is one, or the runs of a benchmark."""
    path = RESULTS / file
    return json.loads(path.read_text())["runs"] if path.suffix == ".json" else read(path)


def where(table: Iterable[Row], /, **like: Any) -> list[Row]:
    """Return the rows that agree with what is given."""
    return [row for row in table if all(row[key] == value for key, value in like.items())]


def column(table: Iterable[Row], name: str) -> list[Any]:
    """Return a column of rows."""
    return [row[name] for row in table]


def distinct(table: Iterable[Row], name: str) -> list[Any]:
    """Return the values of a column in the order in which they first come."""
    return list(dict.fromkeys(column(table, name)))


def ink() -> str:
    """Return the colour of text."""
    return str(mpl.rcParams["text.color"])


def quiet() -> str:
    """Return a colour for what a picture is compared with."""
    return str(mpl.rcParams["axes.edgecolor"])


def named(axes: Any, x: float, y: float, text: str, colour: str, *, dx: float = 5, dy: float = 0, **how: Any) -> None:
    """Write what a line is beside one of its points, in its colour."""
    how = {"va": "center", "ha": "left" if dx >= 0 else "right", "fontsize": 8.5} | how
    axes.annotate(text, (x, y), (dx, dy), textcoords="offset points", color=colour, annotation_clip=False, **how)


def line(axes: Any, table: list[Row], x: str, y: str, colour: str, style: str = "o-", **how: Any) -> None:
    """Draw a line through rows in ascending order, with its 99 % band where the rows have one."""
    table = sorted(table, key=lambda row: row[x])
    axes.plot(column(table, x), column(table, y), style, color=colour, **how)
    if table and "low_99" in table[0]:
        low, high = column(table, "low_99"), column(table, "high_99")
        axes.fill_between(column(table, x), low, high, color=colour, alpha=0.2, linewidth=0)


def level(axes: Any, height: float, colour: str, style: str = ":", **how: Any) -> None:
    """Draw what does not change along the axis."""
    axes.axhline(height, color=colour, linestyle=style, linewidth=1.5, **how)


def legend_below(axes: Any, columns: int) -> None:
    """Write what the marks of some axes mean below all of them."""
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def plain(axis: Any, ticks: Iterable[float]) -> None:
    """Write the ticks of a logarithmic axis as plain numbers."""
    axis.set_ticks(list(ticks), [f"{tick:,g}" for tick in ticks])
    axis.set_minor_formatter(NullFormatter())
