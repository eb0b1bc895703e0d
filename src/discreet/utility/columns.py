"""One column of the confidential table against the same column of a release: distances, summaries, shares."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.lazy import pl
from discreet.confidential import Confidential, column_values, open_confidential
from discreet.domain import Column, Domain, moment_text
from discreet.utility.distances import ks_distance, summary, total_variation, wasserstein_1d
from discreet.utility.rows import compared, problems_of

IN_RELEASE = "in the release: "
"""How a message about the released table begins."""


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnComparison:
    """One column of the confidential table against the same column of the release. Confidential.

    ``name``, ``kind``: the column, and its declared type.
    ``metric``: what the distance is measured with, in words.
    ``wasserstein``: Wasserstein-1 distance between the values that are not null: in the column's own unit (days for
    dates, seconds for datetimes and durations), in ranks over ``K - 1`` for ordered categories, the total variation for
    unordered ones, nulls included there. None where a side holds nulls only.
    ``wasserstein_scaled``: the same, divided by ``upper - lower``: between 0 and 1 whatever the column.
    ``ks``: Kolmogorov-Smirnov distance; None for unordered columns.
    ``null_shares``: share of nulls in the table and in the release.
    ``data``, ``release``: Summary of each side's values; None for columns without arithmetic.
    ``shares``: share of each declared category in the table and in the release.
    """

    name: str
    kind: str
    metric: str
    wasserstein: float | None
    wasserstein_scaled: float | None
    ks: float | None
    null_shares: tuple[float, float]
    data: dict[str, float] | None = None
    release: dict[str, float] | None = None
    shares: dict[str, tuple[float, float]] | None = None


def compare_column(data: Any, release: Any, name: str, column: Column) -> tuple[ColumnComparison, int, int]:
    """Return one column's comparison, and the numbers of confidential and of released records."""
    x = _ColumnSample.read(data, name, column)
    with problems_of(IN_RELEASE):
        y = _ColumnSample.read(release, name, column)
    fields: dict[str, Any] = dict.fromkeys(("wasserstein", "wasserstein_scaled", "ks"))
    if not column.on_a_line:  # nulls count as one more label
        labels, places = np.unique(np.concatenate((x.points, y.points)), return_inverse=True)
        sides = np.split(places, [len(x.points)])
        distance = total_variation(
            *(np.append(side, len(labels)) for side in sides),
            x_weights=np.append(x.frequencies, x.nulls),
            y_weights=np.append(y.frequencies, y.nulls),
        )
        fields |= {"wasserstein": distance, "wasserstein_scaled": distance, "metric": "0 or 1 (total variation)"}
    else:
        fields["metric"] = column.position_unit or "the column's unit"
        if len(x.points) and len(y.points):
            weights = {"x_weights": x.frequencies, "y_weights": y.frequencies}
            distance = wasserstein_1d(x.points, y.points, **weights)
            fields |= {"wasserstein": distance, "wasserstein_scaled": distance / (column.scale or 1.0)}
            fields["ks"] = ks_distance(x.points, y.points, **weights)
        if column.labels is not None:
            fields |= {"wasserstein": fields["wasserstein_scaled"], "metric": "rank / (K - 1)"}
    if column.words:
        counts = (np.bincount(side.points, side.frequencies, len(column.words)) / side.size for side in (x, y))
        shares = zip(*(part.tolist() for part in counts), strict=True)
        fields["shares"] = dict(zip(column.words, shares, strict=True))
    elif column.on_a_line:
        fields |= {
            side: summary(sample.points, sample.frequencies)
            for side, sample in (("data", x), ("release", y))
            if len(sample.points)
        }
    null_shares = (x.nulls / x.size, y.nulls / y.size)
    return ColumnComparison(name=name, kind=column.kind, null_shares=null_shares, **fields), x.size, y.size


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnSample:
    """One side of a column: coordinates (or codes, or labels) of the distinct values, nulls apart."""

    points: npt.NDArray[Any]
    frequencies: npt.NDArray[np.int64]
    nulls: int

    @property
    def size(self) -> int:
        return int(self.frequencies.sum()) + self.nulls

    @classmethod
    def read(cls, table: Any, name: str, column: Column) -> _ColumnSample:
        values, frequencies = open_confidential(column_values(table, name, column), caller=__name__)
        codes, missing = compared(column, values, name)
        present = ~missing
        if column.open:
            points = codes[present].astype(str)
        elif column.labels is not None:
            points = codes[present]
        else:
            points = column.coordinates(values.filter(present))
        return cls(points=points, frequencies=frequencies[present], nulls=int(frequencies[missing].sum()))


# Shares of a column's values in a few bins, for a picture. The bins are public, made from the declared domain and the
# released values: the confidential values never choose them.

_MOST_BINS = 40
_MOST_LABELS = 40
_TAIL = 0.005  # share of the released records that a picture may leave out at either end


class Shares(NamedTuple):
    """Shares of the records of one column: in each bin, beyond all bins, and without a value."""

    bins: npt.NDArray[np.float64]
    beyond: float
    nulls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Where the values of a column are counted for a picture. Public."""

    column: Column
    names: tuple[str, ...]
    starts: tuple[str, ...] = ()  # the cuts in words
    points: bool = False  # whether each bin is one value
    cuts: npt.NDArray[np.float64] | None = None  # if ordered, the ends of the bins, in cells or coordinates
    labels: tuple[Any, ...] = ()  # if not, the label (or the cell) of each bin

    def shares(self, values: pl.Series, weights: npt.NDArray[Any]) -> Shares:
        """Return the share of each bin among values with weights; a negative sum of noisy counts is taken as 0."""
        line, missing = _positions(self.column, values)
        if self.cuts is not None:
            place = np.searchsorted(self.cuts, line, side="right") - 1
            if self.column.size is None:  # the last interval holds its upper end
                place[line == self.cuts[-1]] = len(self.names) - 1
            place[(place < 0) | (place >= len(self.names))] = len(self.names)
        else:
            numbers = {label: i for i, label in enumerate(self.labels)}
            place = np.array([numbers.get(label, len(self.names)) for label in line.tolist()], dtype=np.int64)
        counts = np.bincount(place.astype(np.int64), weights=weights[~missing], minlength=len(self.names) + 1)
        counts = np.maximum(np.append(counts, weights[missing].sum()), 0.0)
        shares = counts / (counts.sum() or 1.0)
        return Shares(shares[:-2], float(shares[-2]), float(shares[-1]))


def bins_of(column: Column, values: pl.Series, weights: npt.NDArray[Any]) -> Bins:
    """Choose up to 40 bins for a public column: whole cells that cover the released values, or its commonest labels."""
    line, missing = _positions(column, values)
    weight = np.maximum(np.asarray(weights, dtype=np.float64)[~missing], 0.0)
    if column.open or column.labels is not None:
        return _labels_of_bins(column, line, weight)
    if not weight.sum() > 0:
        return Bins(column=column, names=())
    low, high = _range(line, weight)
    if column.size is not None:
        return _cells_of_bins(column, int(low), int(high))
    cuts = np.linspace(low, high, _MOST_BINS + 1) if high > low else np.array([low, np.nextafter(low, math.inf)])
    starts = tuple(shown(column.kind, cut, 4) for cut in cuts)
    names = tuple(f"{a} to {b}" for a, b in pairwise(starts))
    return Bins(column=column, names=names, starts=starts, cuts=cuts)


def confidential_shares(data: Any, domain: Domain, bins: Mapping[str, Bins]) -> Confidential[dict[str, Shares]]:
    """Return the closed shares of a confidential table's records in public bins; no error's message holds a value."""
    shares = {}
    for name, column_bins in bins.items():
        values, frequencies = open_confidential(column_values(data, name, domain.columns[name]), caller=__name__)
        shares[name] = column_bins.shares(values, frequencies)
    return Confidential(shares)


def shown(kind: str, value: float, digits: int = 6) -> str:
    """Write a coordinate of a column of this kind: dates and times as such, other numbers in so many digits."""
    if kind == "duration":
        return str(dt.timedelta(seconds=round(float(value))))
    if kind not in ("date", "datetime", "time"):
        return f"{float(f'{value:.{digits}g}'):,.12g}"
    return moment_text(kind, value, timespec="minutes")


def _positions(column: Column, values: pl.Series) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return cells, coordinates or labels of the values that are not null, and which ones are."""
    codes, missing = compared(column, values, values.name or None)
    return codes[~missing], missing


def _range(line: npt.NDArray[Any], weight: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the values, or of all but a tail where that would take more than a third of the picture."""
    order = np.argsort(line)
    ordered, masses = np.asarray(line[order], dtype=np.float64), np.cumsum(weight[order])
    positive = ordered[weight[order] > 0]
    low, high = float(positive[0]), float(positive[-1])
    inner_low, inner_high = ordered[np.searchsorted(masses, [_TAIL * masses[-1], (1.0 - _TAIL) * masses[-1]])].tolist()
    third = (high - low) / 3
    return inner_low if inner_low - low > third else low, inner_high if high - inner_high > third else high


def _cells_of_bins(column: Column, low: int, high: int) -> Bins:
    step = -(-(high - low + 1) // _MOST_BINS)
    begins = np.arange(low, high + 1, step)
    lasts = np.minimum(begins + step - 1, (column.values or 1) - 1)
    lower, upper = column.ends(begins)[0], column.ends(lasts)[1]
    points = bool((lower == upper).all())
    starts = tuple(shown(column.kind, cut, 6 if points else 4) for cut in (*lower, upper[-1]))
    names = starts[:-1]
    if not points:
        names = tuple(f"{shown(column.kind, a)} to {shown(column.kind, b)}" for a, b in zip(lower, upper, strict=True))
    cuts = np.append(begins, lasts[-1] + 1).astype(np.float64)
    return Bins(column=column, names=names, starts=starts, points=points, cuts=cuts)


def _labels_of_bins(column: Column, line: npt.NDArray[Any], weight: npt.NDArray[np.float64]) -> Bins:
    """Return the most frequent labels, those that are declared in their order."""
    if column.open:
        labels, places = np.unique(line, return_inverse=True)
        words = tuple(labels.tolist())
    else:
        words, labels, places = column.words, np.arange(len(column.words)), line.astype(np.int64)
    commonest = np.argsort(-np.bincount(places, weights=weight, minlength=len(words)), kind="stable")[:_MOST_LABELS]
    if not column.open:
        commonest = np.sort(commonest)
    names = tuple(words[index] for index in commonest.tolist())
    return Bins(column=column, names=names, labels=tuple(labels[commonest].tolist()))
