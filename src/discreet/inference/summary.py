"""What a posterior says about some numbers, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import MissingExtra, ParameterError, real
from discreet._core.lazy import special
from discreet._core.numeric import Floats
from discreet._core.text import about, aligned, listing, percent_as_written, table
from discreet.domain import moment_text
from discreet.inference.functionals import require_single
from discreet.inference.line import piece_ends
from discreet.privacy import Code

if TYPE_CHECKING:
    from discreet.inference.population import Posterior


# How many independent draws chains are worth, and whether they agree: split and rank-normalised, with Geyer's initial
# monotone positive pairs, as in Stan and ArviZ (Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021, sections 3, 4).


def effective_sample_size(chains: npt.ArrayLike, *, ranked: bool = True) -> float:
    """Return how many draws those of shape (chains, draws) are worth for their mean; ``ranked``, for any law."""
    x = _split(np.asarray(chains, dtype=np.float64))
    total = x.size
    if x.shape[1] < 4 or np.ptp(x) == 0.0:
        return float(total)
    if ranked:
        x = _normal_scores(x)
    count, length = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(centred, n=size, axis=1)
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=1)[:, :length] / length
    variance = float((covariances[:, 0] * length / (length - 1)).mean())
    plus = variance * (length - 1) / length + (float(x.mean(axis=1).var(ddof=1)) if count > 1 else 0.0)
    correlations = 1.0 - (variance - covariances.mean(axis=0)) / plus
    correlations[0] = 1.0
    pairs = correlations[: (length - 1) // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = int(np.append(np.flatnonzero(pairs <= 0.0), len(pairs) - 1)[0])  # of this pair, the first counts once
    odd = float(correlations[2 * end])
    monotone = np.minimum.accumulate(pairs[:end])
    if pairs[end] < 0.0:
        odd = max(odd, 0.0)
    time = 2.0 * float(monotone.sum()) - 1.0 + odd
    return float(total / max(time, 1.0 / math.log10(total)))


def r_hat(chains: npt.ArrayLike) -> float:
    """Return the rank-normalised split R-hat, the larger of location and scale: 1 where the chains agree."""
    x = _split(np.asarray(chains, dtype=np.float64))
    if np.ptp(x) == 0.0:
        return 1.0
    return max(_ratio_of_variances(_normal_scores(x)), _ratio_of_variances(_normal_scores(np.abs(x - np.median(x)))))


def _ratio_of_variances(x: Floats) -> float:
    length, means = x.shape[1], x.mean(axis=1)
    variance, variance_of_means = float(x.var(axis=1, ddof=1).mean()), float(means.var(ddof=1))
    if variance == 0.0:
        return 1.0 if np.ptp(means) == 0.0 else math.inf
    return math.sqrt((variance * (length - 1) / length + variance_of_means) / variance)


def _split(x: Floats) -> Floats:
    """Cut each chain in halves, so that a drift shows as disagreement."""
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise ParameterError("chains must be finite numbers, one row per chain")
    half = x.shape[1] // 2
    if half < 2:
        return x
    return np.concatenate((x[:, :half], x[:, x.shape[1] - half :]))


def _normal_scores(x: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks = rankdata(x, method="average").reshape(x.shape)
    return np.asarray(special.ndtri((ranks - 0.375) / (x.size + 0.25)), dtype=np.float64)


@sealed
class Band(NamedTuple):
    """The posterior of a distribution function.

    ``at``, ``mean``, shape (points,): values, and the posterior mean of the distribution function there.
    ``lower``, ``upper``: equal-tailed credible intervals, one per point.
    ``simultaneous_lower``, ``simultaneous_upper``: a band that holds the whole function at these points with the same
    probability.
    """

    at: Floats
    mean: Floats
    lower: Floats
    upper: Floats
    simultaneous_lower: Floats
    simultaneous_upper: Floats

    @classmethod
    def from_shares(cls, level: float, at: Floats, even: Floats, least: Floats, most: Floats) -> Band:
        """Return the posterior of a function from each draw's values, and the least and the greatest that it allows."""
        tail = (1.0 - real("level", level, above=0, below=1)) / 2.0
        lower, upper = np.quantile(least, tail, axis=0), np.quantile(most, 1.0 - tail, axis=0)
        (low, low_sd), (high, high_sd) = ((part.mean(axis=0), part.std(axis=0)) for part in (least, most))
        below = (low - least) / np.where(low_sd > 0.0, low_sd, 1.0)
        above = (most - high) / np.where(high_sd > 0.0, high_sd, 1.0)
        reach = float(np.quantile(np.maximum(below, above).max(axis=1), level, method="higher"))
        low, high = np.clip(low - reach * low_sd, 0.0, 1.0), np.clip(high + reach * high_sd, 0.0, 1.0)
        return cls(at, even.mean(axis=0), lower, upper, low, high)


_SAME = 1e-12  # difference of two computations of one number


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The posterior of one number.

    ``name``: the functional, as it was asked for.
    ``mean``, ``sd``: Posterior mean and standard deviation: as text, the estimate and its standard error.
    ``lower``, ``upper``: Equal-tailed credible interval.
    ``effective_draws``: Independent draws that the posterior draws are worth.
    ``r_hat``: whether the chains agree (1: they do); None for independent draws.
    ``unit``: "value" where the number is a value of the column, "length" where it is a difference of two, else
    "number".
    ``group``: which group it is about; None where it is about all.
    ``share``: posterior mean of the group's share of the population.
    ``bounds``: whether the interval allows for more than the draws, as where the question cuts a cell.
    ``codes``: what is to be read beside the number: what the release did not measure, or not finely enough.
    """

    name: str
    mean: float
    sd: float
    lower: float
    upper: float
    effective_draws: float
    r_hat: float | None = None
    unit: str = "number"
    group: str | None = None
    share: float | None = None
    bounds: bool = False
    codes: tuple[Code, ...] = ()


def estimated(name: str, numbers: Floats, *, level: float, chains: int, **facts: Any) -> Estimate:
    """Return the posterior of one number from draws, (draws, 3), with its least and greatest value; NaN has none."""
    present = ~np.isnan(numbers[:, 0])
    values, least, most = numbers[present].T
    if not len(values):
        nan = math.nan
        return Estimate(name=name, mean=nan, sd=nan, lower=nan, upper=nan, effective_draws=0.0, **facts)
    bounds = not np.allclose(least, most, rtol=_SAME, atol=_SAME)
    if not bounds:
        least = most = values
    lower, upper = map(np.quantile, (least, most), ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    effective, agreement = float(len(values)), None
    if chains:
        chained = np.where(present, numbers[:, 0], values.mean()).reshape(chains, -1)
        effective, agreement = effective_sample_size(chained), r_hat(chained)
    sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    facts |= {"mean": float(values.mean()), "sd": sd, "lower": float(lower), "upper": float(upper), "bounds": bounds}
    return Estimate(name=name, effective_draws=effective, r_hat=agreement, **facts)


def bounded(rows: Iterable[Estimate]) -> list[str]:
    """Return a note of the numbers that have bounds, if any."""
    names = ", ".join(dict.fromkeys(row.name for row in rows if row.bounds))
    note = "bounds: the interval allows for what the release does not tell, such as where in its cell each value lies: "
    return [note + names] if names else []


_MARK = "(!)"


def marked(rows: Iterable[Estimate]) -> list[str]:
    """Return a note of each sentence that stands beside numbers, with their names."""
    names: dict[str, list[str]] = {}
    for row in rows:
        for code in row.codes:
            names.setdefault(str(code), []).append(row.name)
    return [f"{_MARK} {', '.join(dict.fromkeys(beside))}: {text}" for text, beside in names.items()]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Posteriors of some numbers, a row each; also its own text.

    ``rows``: in the order asked for, group by group.
    ``level``: probability of the intervals.
    ``kind``: that of the column ("date" and "datetime" are written as such), or "" where there is none.
    ``notes``: what the posterior assumes.
    ``by``: the column of groups, or "" where there is none.
    """

    rows: tuple[Estimate, ...]
    level: float
    kind: str = ""
    notes: tuple[str, ...] = ()
    by: str = ""

    def __getitem__(self, name: str | tuple[str, str]) -> Estimate:
        key = (name, None) if isinstance(name, str) else name
        return {(row.name, row.group): row for row in reversed(self.rows)}[key]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values; a number that no draw has is None."""
        rows = [asdict(row) | {"codes": [code.to_dict() for code in row.codes]} for row in self.rows]
        for row in rows:
            row |= {key: None for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)}
        return {"level": self.level, "by": self.by or None, "estimates": rows, "notes": list(self.notes)}

    def plot(self) -> list[Any]:
        """Draw each number as a point and its interval as a line: a panel per unit, or per functional of groups.

        Needs the extra ``report``, and raises MissingExtra without it. Returns the axes of the panels, in one figure.
        """
        panels: dict[str, list[Estimate]] = {}
        for row in self.rows:
            panels.setdefault(row.name if self.by else row.unit, []).append(row)
        tallest = max(map(len, panels.values()), default=1)
        figure = _matplotlib().figure(figsize=(1.5 + 4.2 * len(panels), 1.3 + 0.32 * tallest), layout="constrained")
        subplots = [*figure.subplots(1, len(panels), squeeze=False)[0]]
        for axes, (title, rows) in zip(subplots, panels.items(), strict=True):
            places, labels = np.arange(len(rows)), [row.name for row in rows]
            if self.by:
                labels = [str(row.group) for row in rows]
                axes.set_title(_literal(title), fontsize=11)
            numbers = np.array([(row.lower, row.mean, row.upper) for row in rows]).T
            low, middle, high = _as_values(numbers, self.kind) if rows[0].unit == "value" else numbers
            axes.hlines(places, low, high, color=_COLOUR, linewidth=2)
            axes.plot(middle, places, "o", color=_COLOUR)
            axes.set_yticks(places, map(_literal, labels))
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_xlabel(f"estimate and {percent_as_written(self.level)} interval")
            axes.grid(axis="x", color=_GREY, alpha=0.25)
        if self.by:
            subplots[0].set_ylabel(_literal(self.by))
        return subplots

    def __str__(self) -> str:
        return "\n".join([*aligned(self._cells(), left=1 + bool(self.by)), *(f"- {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        return table(head, body) + listing(self.notes)

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the table as texts, its header first."""
        numbers = ("estimate", "standard error", f"{percent_as_written(self.level)} from", "to", "effective draws")
        lines: list[tuple[str, ...]] = [(self.by, "", "share of records", *numbers)]
        for row in self.rows:
            mean, lower, upper = (self._text(row, value) for value in (row.mean, row.lower, row.upper))
            numbers = (mean, f"{row.sd:,.6g}", lower, upper, f"{row.effective_draws:,.0f}")
            name = f"{row.name} {_MARK}" if row.codes else row.name.rstrip()
            lines.append((str(row.group), name, about(row.share or 0.0), *numbers))
        if self.by:
            return lines
        return [(name, *numbers) for _, name, _, *numbers in lines]  # there are no groups and shares

    def _text(self, row: Estimate, value: float) -> str:
        is_value = row.unit == "value" and not math.isnan(value)
        moment = moment_text(self.kind, value, sep=" ") if is_value else ""
        return moment or f"{value:,.6g}"


_POINTS = 200
_COLOUR, _GREY = "#4c78a8", "#888888"
_PER_SECOND = {"date": 86_400.0, "datetime": 1.0}


def distribution(posterior: Posterior, column: str | None, level: float, axes: Any = None) -> Any:
    """Draw the posterior of a column's distribution. For parameters and errors see ``Posterior.plot``."""
    name = require_single(posterior.domain, column)
    if posterior.domain.columns[name].open:
        raise ParameterError(f"column {name!r} holds open labels, of which no picture is known. Name another column")
    if axes is None:
        axes = _matplotlib().figure(figsize=(7.0, 4.0), layout="constrained").subplots()
    if posterior.domain.columns[name].labels is None:
        _draw_function(axes, posterior, name, level)
    else:
        _draw_shares(axes, posterior, name, level)
    axes.set_xlabel(name)
    axes.legend(frameon=False)
    return axes


def _draw_function(axes: Any, posterior: Posterior, name: str, level: float) -> None:
    """Draw the distribution function, its pointwise intervals and its simultaneous band."""
    column = posterior.domain.columns[name]
    places, jumps = points(posterior, name)
    band = posterior.cdf(places, column=name, level=level)
    at, step, style = _as_values(places, column.kind), None, "default"
    if jumps:
        step, style = "post", "steps-post"
    probability = percent_as_written(level)
    for low, high, opacity, label in (
        (band.simultaneous_lower, band.simultaneous_upper, 0.18, f"{probability} for the whole curve"),
        (band.lower, band.upper, 0.4, f"{probability} at each value"),
    ):
        axes.fill_between(at, low, high, step=step, color=_COLOUR, alpha=opacity, linewidth=0, label=label)
    axes.plot(at, band.mean, color=_COLOUR, drawstyle=style, label="posterior mean")
    axes.set(ylabel="share at or below", ylim=(0.0, 1.0))
    if column.logarithmic and places[0] > 0.0:
        axes.set_xscale("log")


def _draw_shares(axes: Any, posterior: Posterior, name: str, level: float) -> None:
    """Draw the share of each category among the values that are not null."""
    labels = posterior.domain.columns[name].words
    rows = posterior.summary([f"P(={label})" for label in labels], column=name, level=level).rows
    places = np.arange(len(labels))
    axes.bar(places, [row.mean for row in rows], color=_COLOUR, alpha=0.4, width=0.7, label="posterior mean")
    axes.vlines(places, [row.lower for row in rows], [row.upper for row in rows], color=_COLOUR, linewidth=2,
                label=f"{percent_as_written(level)} for each")  # fmt: skip
    rotation, anchor = 0, "center"
    if sum(map(len, labels)) > 60:
        rotation, anchor = 60, "right"
    axes.set_xticks(places, map(_literal, labels), rotation=rotation, ha=anchor)
    axes.set(ylabel="share", ylim=(0.0, 1.3 * max(row.upper for row in rows)))  # with room for the legend


def _matplotlib() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra("a picture needs matplotlib", "report") from None
    return pyplot


def points(posterior: Posterior, name: str) -> tuple[Floats, bool]:
    """Return where the distribution function is drawn, at ends of pieces, and whether it jumps: on few values."""
    place, column = posterior.domain.names.index(name), posterior.domain.columns[name]
    pieces = [records.columns[place] for records in (posterior.support, posterior.block(0).own) if records is not None]
    low, high, _ = piece_ends(column, np.concatenate(pieces))
    ends = np.unique(np.concatenate((low, high)))
    ends = ends[~np.isnan(ends)]
    if not len(ends):
        raise ParameterError(f"column {name!r} has no values that are not null. Name another column")
    jumps = len(ends) <= _POINTS and np.array_equal(low, high, equal_nan=True)
    if jumps:
        ends = np.append(ends[0] - (ends[-1] - ends[0] or 1.0) * 0.02, ends)
    if len(ends) > _POINTS + jumps:
        ends = np.unique(ends[np.linspace(0, len(ends) - 1, _POINTS).astype(np.intp)])
    return ends, jumps


def _as_values(places: Floats, kind: str) -> Any:
    """Return positions as they are drawn: dates as dates."""
    if kind not in _PER_SECOND:
        return places
    return (places * _PER_SECOND[kind] * 1e6).astype("datetime64[us]")


def _literal(label: str) -> str:
    """Return a label that matplotlib shows as it is: it reads a dollar sign as the beginning of a formula."""
    return label.replace("$", r"\$")
