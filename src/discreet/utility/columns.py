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

from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet.confidential import Confidential
from discreet.confidential.opening import open_confidential
from discreet.confidential.values import column_values
from discreet.domain import Domain
from discreet.domain.column import Column, missing_in
from discreet.domain.temporal import moment_text
from discreet.utility.distances import ks_distance, summary, total_variation, wasserstein_1d

IN_RELEASE = "in the release: "
"""How a message about the released table begins."""


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
    x = _Side.of(data, name, column)
    y = _released(release, name, column)
    return _compared(name, column, x, y), x.size, y.size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side of a column: coordinates (or codes, or labels) of the distinct values, nulls apart."""

    points: npt.NDArray[Any]
    frequencies: npt.NDArray[np.int64]
    nulls: int

    @property
    def size(self) -> int:
        return int(self.frequencies.sum()) + self.nulls

    @property
    def null_share(self) -> float:
        return self.nulls / self.size

    @classmethod
    def of(cls, table: Any, name: str, column: Column) -> _Side:
        values, frequencies = open_confidential(column_values(table, name, column), caller=__name__)
        # A release holds labels of the reserved namespace, so open labels are not encoded.
        codes = None if column.open else column.encode(values, name=name)
        missing = column._nulls_in(values, name).to_numpy()
        present = ~missing
        if codes is None:
            points = values.filter(present).to_numpy().astype(str)
        elif column.labels is not None:
            points = codes[present]
        else:
            points = column.coordinates(values.filter(present))
        return cls(points=points, frequencies=frequencies[present], nulls=int(frequencies[missing].sum()))


def _released(release: Any, name: str, column: Column) -> _Side:
    try:
        return _Side.of(release, name, column)
    except DataError as problem:
        raise DataError(problem.column, IN_RELEASE + problem.problem, problem.remedy) from None


def _compared(name: str, column: Column, x: _Side, y: _Side) -> ColumnComparison:
    common: dict[str, Any] = {"name": name, "kind": column.kind, "null_shares": (x.null_share, y.null_share)}
    if not column.on_a_line:
        apart = _total_variation(x, y)
        return ColumnComparison(
            **common,
            metric="0 or 1 (total variation)",
            wasserstein=apart,
            wasserstein_scaled=apart,
            ks=None,
            shares=_shares(column, x, y),
        )
    distance: float | None = None
    ks: float | None = None
    if len(x.points) and len(y.points):
        weights = {"x_weights": x.frequencies, "y_weights": y.frequencies}
        distance = wasserstein_1d(x.points, y.points, **weights)
        ks = ks_distance(x.points, y.points, **weights)
    scaled = None if distance is None else distance / (column.scale or 1.0)
    if column.labels is not None:
        return ColumnComparison(
            **common,
            metric="rank / (K - 1)",
            wasserstein=scaled,
            wasserstein_scaled=scaled,
            ks=ks,
            shares=_shares(column, x, y),
        )
    return ColumnComparison(
        **common,
        metric={"date": "days", "datetime": "seconds", "duration": "seconds"}.get(column.kind, "the column's unit"),
        wasserstein=distance,
        wasserstein_scaled=scaled,
        ks=ks,
        data=summary(x.points, x.frequencies) if len(x.points) else None,
        release=summary(y.points, y.frequencies) if len(y.points) else None,
    )


def _total_variation(x: _Side, y: _Side) -> float:
    """Count nulls as one more label."""
    _, place = np.unique(np.concatenate((x.points, y.points)), return_inverse=True)
    a, b = place[: len(x.points)], place[len(x.points) :]
    return total_variation(
        np.append(a, -1),
        np.append(b, -1),
        x_weights=np.append(x.frequencies, x.nulls),
        y_weights=np.append(y.frequencies, y.nulls),
    )


def _shares(column: Column, x: _Side, y: _Side) -> dict[str, tuple[float, float]] | None:
    labels = column.words
    if not labels:
        return None
    tallies = []
    for side in (x, y):
        tally = np.zeros(len(labels))
        np.add.at(tally, side.points, side.frequencies)
        tallies.append((tally / side.size).tolist())
    return dict(zip(labels, zip(*tallies, strict=True), strict=True))


# Shares of a column's values in a few bins, for a picture: the bins are public, shares of a confidential table not.
#
# The bins are made from the declared domain and the released values. The confidential values never choose them.

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
    """Where the values of a column are counted for a picture. Public.

    ``cuts``: of an ordered column, where each bin begins and the last one ends, in cells or coordinates.
    ``starts``: these in words. ``points``: whether each bin is one value.
    ``labels``: of an unordered column, the label (or the cell) of each bin.
    """

    column: Column
    names: tuple[str, ...]
    starts: tuple[str, ...] = ()
    points: bool = False
    cuts: npt.NDArray[np.float64] | None = None
    labels: tuple[Any, ...] = ()

    def shares(self, values: pl.Series, weights: npt.NDArray[Any]) -> Shares:
        """Return the share of each bin among values with weights; a negative sum of noisy counts is taken as 0.

        The message of a DataError holds no value.
        """
        line, missing = _line(self.column, values)
        if self.cuts is not None:
            place = np.searchsorted(self.cuts, line, side="right") - 1
            if self.column.size is None:  # the last interval holds its upper end
                place[line == self.cuts[-1]] = len(self.names) - 1
            place[(place < 0) | (place >= len(self.names))] = len(self.names)
        else:
            where = {label: i for i, label in enumerate(self.labels)}
            place = np.array([where.get(label, len(self.names)) for label in line.tolist()], dtype=np.int64)
        found = np.bincount(place.astype(np.int64), weights=weights[~missing], minlength=len(self.names) + 1)
        found = np.maximum(np.append(found, weights[missing].sum()), 0.0)
        total = found.sum()
        share = found / total if total > 0 else found
        return Shares(share[:-2], float(share[-2]), float(share[-1]))


def bins_of(column: Column, values: pl.Series, weights: npt.NDArray[Any]) -> Bins:
    """Choose bins for a public column from its declaration and released values, with the weight of each.

    Up to 40 bins of whole cells that cover the released values, but for up to 0.5 % at an end that would take more than
    a third of the picture; or all labels, the 40 most frequent of more.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> bins = bins_of(Integer(lower=0, upper=9), pl.Series([1, 2, 2, 4]), np.ones(4))
    >>> bins.names
    ('1', '2', '3', '4')
    >>> bins.shares(pl.Series([1, 2, 2, 9]), np.ones(4))
    Shares(bins=array([0.25, 0.5 , 0.  , 0.  ]), beyond=0.25, nulls=0.0)
    """
    line, missing = _line(column, values)
    weight = np.maximum(np.asarray(weights, dtype=np.float64)[~missing], 0.0)
    if column.labels is not None or column.open:
        return _labelled(column, line, weight)
    if not weight.sum() > 0:
        return Bins(column=column, names=())
    low, high = _range(line, weight)
    if column.size is None:
        cuts = np.linspace(low, high, _MOST_BINS + 1) if high > low else np.array([low, np.nextafter(low, math.inf)])
        starts = tuple(shown(column.kind, cut, 4) for cut in cuts)
        names = tuple(f"{a} to {b}" for a, b in pairwise(starts))
        return Bins(column=column, names=names, starts=starts, cuts=cuts)
    step = -(-int(high - low + 1) // _MOST_BINS)
    count = -(-int(high - low + 1) // step)
    last_cell = (column.values or 1) - 1
    firsts = int(low) + step * np.arange(count)
    lasts = np.minimum(firsts + step - 1, last_cell)
    begins, ends = column.ends(firsts)[0], column.ends(lasts)[1]
    points = bool((begins == ends).all())
    starts = tuple(shown(column.kind, cut, 6 if points else 4) for cut in (*begins, ends[-1]))
    spans = tuple(f"{shown(column.kind, a)} to {shown(column.kind, b)}" for a, b in zip(begins, ends, strict=True))
    names = starts[:-1] if points else spans
    cuts = np.append(firsts, lasts[-1] + 1).astype(np.float64)
    return Bins(column=column, names=names, starts=starts, points=points, cuts=cuts)


def confidential_shares(data: Any, domain: Domain, bins: Mapping[str, Bins]) -> Confidential[dict[str, Shares]]:
    """Return how the records of a confidential table are spread over public bins.

    Closed: :func:`reveal_to_custodian` opens it. No message of an error holds a value.
    """
    found = {}
    for name, where in bins.items():
        values, frequencies = open_confidential(column_values(data, name, domain.columns[name]), caller=__name__)
        found[name] = where.shares(values, frequencies)
    return Confidential(found)


def shown(kind: str, value: float, digits: int = 6) -> str:
    """Write a coordinate of a column of this kind: dates and times as such, other numbers in so many digits.

    Examples
    --------
    >>> shown("date", 19_000.0), shown("integer", 12_000.0)
    ('2022-01-08', '12,000')
    """
    if kind == "duration":
        return str(dt.timedelta(seconds=round(float(value))))
    if kind not in ("date", "datetime"):
        return f"{float(f'{value:.{digits}g}'):,.12g}"
    return moment_text(kind, value, timespec="minutes")


def _line(column: Column, values: pl.Series) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return cells, coordinates or labels of the values that are not null, and which ones are."""
    missing = missing_in(values).to_numpy()
    present = values.filter(~missing)
    if not len(present):
        return np.zeros(0), missing
    if column.open:
        return present.to_numpy().astype(str).astype(object), missing
    return (column.encode(present) if column.finite else column.coordinates(present)), missing


def _range(line: npt.NDArray[Any], weight: npt.NDArray[np.float64]) -> tuple[float, float]:
    order = np.argsort(line)
    ordered, reached = np.asarray(line[order], dtype=np.float64), np.cumsum(weight[order])
    held = ordered[weight[order] > 0]
    low, high = float(held[0]), float(held[-1])
    inner = [float(ordered[np.searchsorted(reached, share * reached[-1])]) for share in (_TAIL, 1.0 - _TAIL)]
    return (
        inner[0] if inner[0] - low > (high - low) / 3 else low,
        inner[1] if high - inner[1] > (high - low) / 3 else high,
    )


def _labelled(column: Column, line: npt.NDArray[Any], weight: npt.NDArray[np.float64]) -> Bins:
    labels, place = np.unique(line, return_inverse=True) if len(line) else (line, np.zeros(0, dtype=np.int64))
    tally = np.bincount(place, weights=weight, minlength=len(labels))
    if column.open:
        most = sorted(zip(labels.tolist(), tally.tolist(), strict=True), key=lambda item: (-item[1], item[0]))
        kept = tuple(label for label, _ in most[:_MOST_LABELS])
        return Bins(column=column, names=kept, labels=kept)
    words = column.words
    cells = np.arange(len(words))
    if len(words) > _MOST_LABELS:
        full = np.zeros(len(words))
        full[labels.astype(np.int64)] = tally
        cells = np.sort(np.argsort(-full, kind="stable")[:_MOST_LABELS])  # the most frequent, in the declared order
    return Bins(column=column, names=tuple(words[c] for c in cells.tolist()), labels=tuple(cells.tolist()))
