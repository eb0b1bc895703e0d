"""Every measure of utility on the same two tables, beside what a bootstrap sample of the same size reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Integers
from discreet._core.checks import integer
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.utility.densities import hellinger, kde_l2
from discreet.utility.distances import ks_distance, total_variation, wasserstein_1d
from discreet.utility.joint import associations, features, marginal_distances, pmse
from discreet.utility.rows import BINS, Rows, Values
from discreet.utility.transport import sliced_wasserstein, transport_available, transport_distance

_PAIRS = 2**22
_DIRECTIONS = 100

Found = dict[str, float]
Measure = Callable[[Rows, Rows], Found]
_Apart = Callable[[Values, Integers, Values, Integers], float]


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


def chosen(measures: str | Iterable[str]) -> tuple[str, ...]:
    """Return the measures asked for, in the order of :data:`MEASURES`; ``"all"`` stands for all."""
    names = set(MEASURES) if measures == "all" else {measures} if isinstance(measures, str) else set(measures)
    unknown = sorted(names - set(MEASURES))
    if unknown:
        raise ParameterError(f"unknown measure {unknown[0]!r}. The measures are: all, {', '.join(MEASURES)}")
    return tuple(name for name in MEASURES if name in names)


def measured(
    data: Rows,
    release: Rows,
    holdout: Rows | None,
    *,
    measures: Sequence[str],
    resamples: int,
    rng: np.random.Generator,
) -> tuple[Measured, ...]:
    """Return every measure of a release, beside its baselines."""
    samples = [data.resampled(release.size, rng) for _ in range(integer("resamples", resamples, least=0))]
    exact = _transport_is_exact(data, release, holdout)
    out = []
    for name in measures:
        how, measure = MEASURES[name]
        if name == "transport" and len(data.columns) == 1:
            continue  # w1 or tv again
        if name == "transport" and not exact:
            why = "the tables are too large for exact transport" if transport_available() else "POT is not installed"
            how, measure = f"sliced W1 over {_DIRECTIONS} directions, at most W1: {why}", _sliced_transport
        found, apart = measure(data, release), None if holdout is None else measure(data, holdout)
        again = [measure(data, sample) for sample in samples]
        for of, value in found.items():
            reached = np.array([one[of] for one in again if of in one])
            bootstrap = None
            if len(reached):
                low, high = np.quantile(reached, (0.025, 0.975)).tolist()
                bootstrap = float(reached.mean()), low, high
            out.append(
                Measured(
                    measure=name,
                    of=of,
                    release=value,
                    bootstrap=bootstrap,
                    holdout=None if apart is None else apart.get(of),
                    how=how,
                )
            )
    return tuple(out)


def _transport_is_exact(data: Rows, release: Rows, holdout: Rows | None) -> bool:
    """Say whether every pair of tables compared is small enough; all are measured the same way."""
    rows = len(data.held)
    other = max(len(release.held), min(rows, release.size), 0 if holdout is None else len(holdout.held))
    return transport_available() and rows * other <= _PAIRS


# -- column by column -------------------------------------------------------------------------------------------------


def _by_column(distance: _Apart, *, ordered: bool) -> Measure:
    """Measure each column (each ordered one); of ordered ones the values that are not null, scaled."""

    def measure(x: Rows, y: Rows) -> Found:
        found = {}
        for one, other in zip(x.columns, y.columns, strict=True):
            if ordered and not one.ordered:
                continue
            p, q = one.masses(x.frequencies), other.masses(y.frequencies)
            if ordered and not (p[~np.isnan(one.points)].any() and q[~np.isnan(other.points)].any()):
                continue
            apart = distance(one, p, other, q)
            if np.isfinite(apart):  # a constant table has no density estimate
                found[one.name] = apart
        return found

    return measure


def _on_the_line(distance: Callable[..., float]) -> _Apart:
    def apart(x: Values, p: Integers, y: Values, q: Integers) -> float:
        a, b = ~np.isnan(x.points), ~np.isnan(y.points)
        return distance(x.points[a] / x.scale, y.points[b] / x.scale, x_weights=p[a], y_weights=q[b])

    return apart


def _of_labels(distance: Callable[..., float]) -> _Apart:
    def apart(x: Values, p: Integers, y: Values, q: Integers) -> float:
        return distance(x.labels, y.labels, x_weights=p, y_weights=q)

    return apart


# -- of several columns -----------------------------------------------------------------------------------------------


def _exact_transport(x: Rows, y: Rows) -> Found:
    apart = transport_distance(x.scaled(), y.scaled(), **_as_sample(x, y))
    return {"all columns": apart}


def _sliced_transport(x: Rows, y: Rows) -> Found:
    # The same directions every time, so that a release and its baselines differ by their records alone.
    apart = sliced_wasserstein(x.scaled(), y.scaled(), directions=_DIRECTIONS, rng=seeded(0), **_as_sample(x, y))
    return {"all columns": apart.value}


def _as_sample(x: Rows, y: Rows) -> dict[str, Any]:
    return {
        "x_weights": x.frequencies[x.held],
        "y_weights": y.frequencies[y.held],
        "ordered": x.ordered,
        "column_weights": x.weights,
    }


def _marginals(ways: int) -> Measure:
    def measure(x: Rows, y: Rows) -> Found:
        apart = marginal_distances(x, y, ways)
        of = f"{counted(len(apart), 'marginal')} of {counted(ways, 'column')}"
        return _mean_and_largest(list(apart.values()), of)

    return measure


def _correlation(x: Rows, y: Rows) -> Found:
    one, other = associations(x), associations(y)
    return _mean_and_largest([abs(one[pair] - other[pair]) for pair in one], counted(len(one), "pair") + " of columns")


def _mean_and_largest(values: list[float], of: str) -> Found:
    return {f"{of}, mean": float(np.mean(values)), f"{of}, largest": max(values)} if values else {}


def _propensity(x: Rows, y: Rows) -> Found:
    a, b = features(x, y)
    return {"all columns": pmse(a, b, x_weights=x.frequencies[x.held], y_weights=y.frequencies[y.held])}


_LABELS = f"labels; ordered columns in at most {BINS} equal ranges; nulls are one more"

MEASURES: dict[str, tuple[str, Measure]] = {
    "w1": ("scaled by upper - lower, nulls left out", _by_column(_on_the_line(wasserstein_1d), ordered=True)),
    "ks": ("nulls left out", _by_column(_on_the_line(ks_distance), ordered=True)),
    "tv": (_LABELS, _by_column(_of_labels(total_variation), ordered=False)),
    "hellinger": (_LABELS, _by_column(_of_labels(hellinger), ordered=False)),
    "kde-l2": (
        "values scaled by upper - lower, Gaussian kernel, Scott's bandwidth of the table",
        _by_column(_on_the_line(kde_l2), ordered=True),
    ),
    "transport": ("exact W1 under the domain's ground distance", _exact_transport),
    "marginals-2": (f"total variation; {_LABELS}", _marginals(2)),
    "marginals-3": (f"total variation; {_LABELS}", _marginals(3)),
    "correlation": ("absolute difference of Pearson's r, Cramér's V or the correlation ratio", _correlation),
    "pmse": ("logistic regression with squares and products of ordered columns", _propensity),
}
"""The measures: how each is computed in words, and the function of two tables."""
