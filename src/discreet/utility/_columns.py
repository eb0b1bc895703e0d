"""One column of the confidential table against the same column of a release: distances, summaries, shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DataError
from discreet.confidential._column_values import column_values
from discreet.confidential._open import open_confidential
from discreet.domain import Boolean, Category, OpenLabels
from discreet.domain._column import Column
from discreet.domain._metric import is_ordered
from discreet.utility._distances import ks_distance, summary, total_variation, wasserstein_1d

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
        codes = None if isinstance(column, OpenLabels) else column.encode(values, name=name)
        missing = column._nulls_in(values, name).to_numpy()
        present = ~missing
        if codes is None:
            points = values.filter(present).to_numpy().astype(str)
        elif isinstance(column, (Boolean, Category)):
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
    if not is_ordered(column):
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
    if isinstance(column, Category):
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
    if isinstance(column, Boolean):
        labels = ["false", "true"]
    elif isinstance(column, Category):
        labels = [str(label) for label in column.categories]
    else:
        return None
    tallies = []
    for side in (x, y):
        tally = np.zeros(len(labels))
        np.add.at(tally, side.points, side.frequencies)
        tallies.append((tally / side.size).tolist())
    return dict(zip(labels, zip(*tallies, strict=True), strict=True))
