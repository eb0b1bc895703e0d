"""Pictures of a posterior: a distribution with its band, and a forest of estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import MissingExtra, ParameterError
from discreet._core.text import percent_as_written
from discreet.domain import Boolean, Category, Numeric, OpenLabels
from discreet.inference._line import piece_ends
from discreet.inference._summary import Estimate, Summary

if TYPE_CHECKING:
    from discreet.inference._posterior import Posterior

_POINTS = 200
_COLOUR, _GREY = "#4c78a8", "#888888"
_PER_SECOND = {"date": 86_400.0, "datetime": 1.0}


def distribution(posterior: Posterior, column: str | None, level: float, axes: Any = None) -> Any:
    """Draw the posterior of a column's distribution. For parameters and errors see ``Posterior.plot``."""
    names = posterior.domain.names
    if column is None and len(names) != 1:
        raise ParameterError(f"several columns are declared. Name one of: {', '.join(names)}")
    name = names[0] if column is None else column
    if name not in names:
        raise ParameterError(f"there is no column {name!r}. The columns are: {', '.join(names)}")
    held = posterior.domain.columns[name]
    if isinstance(held, OpenLabels):
        raise ParameterError(f"column {name!r} holds open labels, of which no picture is known. Name another column")
    drawn = _new_axes((7.0, 4.0)) if axes is None else axes
    if isinstance(held, (Boolean, Category)):
        _draw_shares(drawn, posterior, name, level)
    else:
        _draw_function(drawn, posterior, name, level)
    drawn.set_xlabel(name)
    drawn.legend(frameon=False)
    return drawn


def _draw_function(axes: Any, posterior: Posterior, name: str, level: float) -> None:
    """Draw the distribution function, its pointwise intervals and its simultaneous band."""
    column = posterior.domain.columns[name]
    band = posterior.cdf(points(posterior, name), column=name, level=level)
    where, step = _as_values(band.at, column.kind), "post" if jumps(posterior, name) else None
    said = percent_as_written(level)
    axes.fill_between(where, band.simultaneous_lower, band.simultaneous_upper, step=step, color=_COLOUR, alpha=0.18,
                      linewidth=0, label=f"{said} for the whole curve")  # fmt: skip
    axes.fill_between(where, band.lower, band.upper, step=step, color=_COLOUR, alpha=0.4, linewidth=0,
                      label=f"{said} at each value")  # fmt: skip
    axes.plot(where, band.mean, color=_COLOUR, drawstyle="steps-post" if step else "default", label="posterior mean")
    axes.set(ylabel="share at or below", ylim=(0.0, 1.0))
    if isinstance(column, Numeric) and column.spacing == "log" and band.at[0] > 0.0:
        axes.set_xscale("log")


def _draw_shares(axes: Any, posterior: Posterior, name: str, level: float) -> None:
    """Draw the share of each category among the values that are not null."""
    column = posterior.domain.columns[name]
    labels = list(column.categories) if isinstance(column, Category) else ["false", "true"]
    rows = posterior.summary([f"P(={label})" for label in labels], column=name, level=level).rows
    at = np.arange(len(labels))
    axes.bar(at, [row.mean for row in rows], color=_COLOUR, alpha=0.4, width=0.7, label="posterior mean")
    axes.vlines(at, [row.lower for row in rows], [row.upper for row in rows], color=_COLOUR, linewidth=2,
                label=f"{percent_as_written(level)} for each")  # fmt: skip
    upright = sum(len(str(label)) for label in labels) > 60
    axes.set_xticks(
        at, [_plain(label) for label in labels], rotation=60 if upright else 0, ha="right" if upright else "center"
    )
    axes.set(ylabel="share")
    axes.set_ylim(0.0, 1.3 * max(row.upper for row in rows))  # with room for the legend


def forest(summary: Summary) -> list[Any]:
    """Draw a point and an interval per row. For errors see ``Summary.plot``."""
    panels: dict[str, list[Estimate]] = {}
    for row in summary.rows:
        panels.setdefault(row.name if summary.by else row.unit, []).append(row)
    tallest = max(map(len, panels.values()), default=1)
    figure = _pyplot().figure(figsize=(1.5 + 4.2 * len(panels), 1.3 + 0.32 * tallest), layout="constrained")
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, rows) in zip(drawn, panels.items(), strict=True):
        at = np.arange(len(rows))
        dated = summary.kind if rows[0].unit == "value" else ""
        low, middle, high = (_as_values(np.array([getattr(row, end) for row in rows]), dated)
                             for end in ("lower", "mean", "upper"))  # fmt: skip
        axes.hlines(at, low, high, color=_COLOUR, linewidth=2)
        axes.plot(middle, at, "o", color=_COLOUR)
        axes.set_yticks(at, [_plain(row.group if summary.by else row.name) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_title(_plain(title) if summary.by else "", fontsize=11)
        axes.set_xlabel(f"posterior mean and {percent_as_written(summary.level)} interval")
        axes.grid(axis="x", color=_GREY, alpha=0.25)
    if summary.by:
        drawn[0].set_ylabel(_plain(summary.by))
    return list(drawn)


def _new_axes(size: tuple[float, float]) -> Any:
    return _pyplot().figure(figsize=size, layout="constrained").subplots()


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra("a picture needs matplotlib", "report") from None
    return pyplot


def points(posterior: Posterior, name: str) -> Floats:
    """Return where the distribution function is drawn: all ends of pieces, or some that stand for them."""
    low, high = _ends(posterior, name)
    ends = np.unique(np.concatenate((low, high)))
    ends = ends[~np.isnan(ends)]
    if not len(ends):
        raise ParameterError(f"column {name!r} has no values that are not null. Name another column")
    if len(ends) <= _POINTS:
        before = ends[0] - (ends[-1] - ends[0] or 1.0) * 0.02 if jumps(posterior, name) else ends[0]
        return np.unique(np.append(ends, before))
    return np.unique(ends[np.linspace(0, len(ends) - 1, _POINTS).astype(np.intp)])


def _ends(posterior: Posterior, name: str) -> tuple[Floats, Floats]:
    at, column = posterior.domain.names.index(name), posterior.domain.columns[name]
    own = posterior.block(0).own
    parts = [posterior.support.columns[at], *([] if own is None else [own.columns[at]])]
    found = [piece_ends(column, codes)[:2] for codes in parts]
    return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])


def jumps(posterior: Posterior, name: str) -> bool:
    """Whether the mass lies on few values, so that the function is drawn with its jumps."""
    low, high = _ends(posterior, name)
    return bool(np.array_equal(low, high, equal_nan=True)) and len(np.unique(low)) <= _POINTS


def _as_values(at: Floats, kind: str) -> Any:
    """Return positions as they are drawn: dates as dates."""
    if kind not in _PER_SECOND:
        return at
    return (at * _PER_SECOND[kind] * 1e6).astype("datetime64[us]")


def _plain(label: Any) -> str:
    """Return a label that matplotlib shows as it is: it reads a dollar sign as the beginning of a formula."""
    return str(label).replace("$", r"\$")
