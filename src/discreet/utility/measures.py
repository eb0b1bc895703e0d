"""Every measure of utility on the same two tables, beside what a bootstrap sample of the same size reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.checks import integer
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.utility.densities import hellinger, kde_l2
from discreet.utility.distances import ks_distance, total_variation, wasserstein_1d
from discreet.utility.joint import associations, features, marginal_distances, pmse
from discreet.utility.rows import BINS, DistinctRows
from discreet.utility.transport import sliced_wasserstein, transport_available, transport_distance

_PAIRS = 2**22
_DIRECTIONS = 100

Distances = dict[str, float]
"""What a measure finds: its values, by what they are of."""

Measure = Callable[[DistinctRows, DistinctRows], Distances]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure of a release, beside its baselines. Confidential.

    ``measure``: which one: a key of :data:`MEASURES`.
    ``of``: what it measures: a column, pairs of columns, or all columns.
    ``release``: its value between the confidential table and the release.
    ``bootstrap``: its value between the confidential table and bootstrap samples of it, as large as the release: the
    mean, and the ends of the range that holds 95 % of them. A release that shows nothing but sampling error lies there.
    ``holdout``: its value between the confidential table and the holdout, at the holdout's own size.
    ``how``: units, and what is approximated, in words.
    """

    measure: str
    of: str
    release: float
    bootstrap: tuple[float, float, float] | None
    holdout: float | None
    how: str


def parse_measures(measures: str | Iterable[str]) -> tuple[str, ...]:
    """Return the measures asked for, in the order of :data:`MEASURES`; ``"all"`` stands for all."""
    names = {measures} if isinstance(measures, str) else set(measures)
    if names == {"all"}:
        names = set(MEASURES)
    unknown = sorted(names - set(MEASURES))
    if unknown:
        raise ParameterError(f"unknown measure {unknown[0]!r}. The measures are: all, {', '.join(MEASURES)}")
    return tuple(name for name in MEASURES if name in names)


def compute_measures(
    data: DistinctRows,
    release: DistinctRows,
    holdout: DistinctRows | None,
    *,
    measures: Sequence[str],
    resamples: int,
    rng: np.random.Generator,
) -> tuple[Measured, ...]:
    """Return every measure of a release, beside its baselines."""
    samples = [data.bootstrap(release.size, rng) for _ in range(integer("resamples", resamples, least=0))]
    results = []
    for name in measures:
        how, measure = MEASURES[name]
        if name == "transport":
            if len(data.columns) == 1:
                continue  # w1 or tv again
            how, measure = _transport(data, release, holdout)
        held_out = {} if holdout is None else measure(data, holdout)
        resampled = [measure(data, sample) for sample in samples]
        results += [
            Measured(
                measure=name,
                of=of,
                release=value,
                bootstrap=_mean_and_range([distances[of] for distances in resampled if of in distances]),
                holdout=held_out.get(of),
                how=how,
            )
            for of, value in measure(data, release).items()
        ]
    return tuple(results)


def _mean_and_range(values: list[float]) -> tuple[float, float, float] | None:
    """Return the mean of values, and the ends of the range that holds 95 % of them."""
    if not values:
        return None
    low, high = np.quantile(values, (0.025, 0.975)).tolist()
    return float(np.mean(values)), low, high


def _transport(data: DistinctRows, release: DistinctRows, holdout: DistinctRows | None) -> tuple[str, Measure]:
    """Return exact transport where every pair of tables is small enough, else sliced: one measure for all pairs."""
    rows = len(data.present)
    sizes = [len(release.present), min(rows, release.size)]
    if holdout is not None:
        sizes.append(len(holdout.present))
    if not transport_available():
        reason = "POT is not installed"
    elif rows * max(sizes) > _PAIRS:
        reason = "the tables are too large for exact transport"
    else:
        return MEASURES["transport"]
    return f"sliced W1 over {_DIRECTIONS} directions, at most W1: {reason}", _sliced_transport


# -- column by column -------------------------------------------------------------------------------------------------


def _on_the_line(distance: Callable[..., float]) -> Measure:
    """Measure each ordered column: the values that are not null, scaled."""

    def measure(x: DistinctRows, y: DistinctRows) -> Distances:
        distances = {}
        for a, b in zip(x.columns, y.columns, strict=True):
            p, q = a.masses(x.frequencies), b.masses(y.frequencies)
            x_present, y_present = ~np.isnan(a.points), ~np.isnan(b.points)
            if not (a.ordered and p[x_present].any() and q[y_present].any()):
                continue
            points = a.points[x_present] / a.scale, b.points[y_present] / a.scale
            value = distance(*points, x_weights=p[x_present], y_weights=q[y_present])
            if np.isfinite(value):  # a constant table has no density estimate
                distances[a.name] = value
        return distances

    return measure


def _of_labels(distance: Callable[..., float]) -> Measure:
    """Measure each column by its labels."""

    def measure(x: DistinctRows, y: DistinctRows) -> Distances:
        return {
            a.name: distance(a.labels, b.labels, x_weights=a.masses(x.frequencies), y_weights=b.masses(y.frequencies))
            for a, b in zip(x.columns, y.columns, strict=True)
        }

    return measure


# -- of several columns -----------------------------------------------------------------------------------------------


def _exact_transport(x: DistinctRows, y: DistinctRows) -> Distances:
    return {"all columns": transport_distance(x.scaled(), y.scaled(), **_sample_options(x, y))}


def _sliced_transport(x: DistinctRows, y: DistinctRows) -> Distances:
    # The same directions every time, so that a release and its baselines differ by their records alone.
    options = _sample_options(x, y)
    sliced = sliced_wasserstein(x.scaled(), y.scaled(), directions=_DIRECTIONS, rng=seeded(0), **options)
    return {"all columns": sliced.value}


def _sample_options(x: DistinctRows, y: DistinctRows) -> dict[str, Any]:
    return {
        "x_weights": x.frequencies[x.present],
        "y_weights": y.frequencies[y.present],
        "ordered": x.ordered,
        "column_weights": x.weights,
    }


def _marginals(ways: int) -> Measure:
    def measure(x: DistinctRows, y: DistinctRows) -> Distances:
        distances = marginal_distances(x, y, ways)
        return _mean_and_largest(distances, f"{counted(len(distances), 'marginal')} of {counted(ways, 'column')}")

    return measure


def _correlation(x: DistinctRows, y: DistinctRows) -> Distances:
    differences = [abs(a - b) for a, b in zip(associations(x), associations(y), strict=True)]
    return _mean_and_largest(differences, counted(len(differences), "pair") + " of columns")


def _mean_and_largest(values: list[float], of: str) -> Distances:
    return {f"{of}, mean": float(np.mean(values)), f"{of}, largest": max(values)} if values else {}


def _propensity(x: DistinctRows, y: DistinctRows) -> Distances:
    a, b = features(x, y)
    return {"all columns": pmse(a, b, x_weights=x.frequencies[x.present], y_weights=y.frequencies[y.present])}


_LABELS = f"labels; ordered columns in at most {BINS} equal ranges; nulls are one more"

MEASURES: dict[str, tuple[str, Measure]] = {
    "w1": ("scaled by upper - lower, nulls left out", _on_the_line(wasserstein_1d)),
    "ks": ("nulls left out", _on_the_line(ks_distance)),
    "tv": (_LABELS, _of_labels(total_variation)),
    "hellinger": (_LABELS, _of_labels(hellinger)),
    "kde-l2": ("values scaled by upper - lower, Gaussian kernel, Scott's bandwidth of the table", _on_the_line(kde_l2)),
    "transport": ("exact W1 under the domain's ground distance", _exact_transport),
    "marginals-2": (f"total variation; {_LABELS}", _marginals(2)),
    "marginals-3": (f"total variation; {_LABELS}", _marginals(3)),
    "correlation": ("absolute difference of Pearson's r, Cramér's V or the correlation ratio", _correlation),
    "pmse": ("logistic regression with squares and products of ordered columns", _propensity),
}
"""The measures: how each is computed in words, and the function of two tables."""
