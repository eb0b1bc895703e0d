"""Every measure of utility on the same two tables, beside what a bootstrap sample of the same size reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, integer
from discreet._core.numeric import Booleans, Floats, Integers, Weights, logistic_coefficients
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.mechanisms import transport_available
from discreet.utility.columns import BINS, DistinctRows, Values
from discreet.utility.distances import hellinger, kde_l2, ks_distance, require_weights, total_variation, wasserstein_1d
from discreet.utility.transport import sliced_wasserstein, transport_distance

_PAIRS = 2**22
_DIRECTIONS = 100

Distances = dict[str, float]
"""What a measure finds: its values, by what they are of."""

Measure = Callable[[DistinctRows, DistinctRows], Distances]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure of a release, beside its baselines. Confidential.

    ``measure``: which one: a key of :data:`MEASURES`, or what ``api=`` adds.
    ``of``: what it measures: a column, pairs of columns, or all columns.
    ``release``: its value between the confidential table and the release.
    ``bootstrap``: its value between the confidential table and bootstrap samples of it, as large as the release: the
    mean, and the ends of the range that holds 95 % of them. A release that shows nothing but sampling error lies there.
    ``holdout``: its value between the confidential table and the holdout, at the holdout's own size. Of ``"auc"``, what
    a classifier reaches that has learned from the confidential table.
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
    holdout: DistinctRows | None = None,
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
        for of, value in measure(data, release).items():
            bootstrap, values = None, [distances[of] for distances in resampled if of in distances]
            if values:  # the mean, and the ends of the range that holds 95 % of them
                low, high = np.quantile(values, (0.025, 0.975)).tolist()
                bootstrap = float(np.mean(values)), low, high
            facts: dict[str, Any] = {"release": value, "bootstrap": bootstrap, "holdout": held_out.get(of), "how": how}
            results.append(Measured(measure=name, of=of, **facts))
    return tuple(results)


def _transport(data: DistinctRows, release: DistinctRows, holdout: DistinctRows | None) -> tuple[str, Measure]:
    """Return exact transport where every pair of tables is small enough, else sliced: one measure for all pairs."""
    rows = len(data.present)
    sizes = [min(rows, release.size), *(len(side.present) for side in (release, holdout) if side is not None)]
    if not transport_available():
        reason = "POT is not installed"
    elif rows * max(sizes) > _PAIRS:
        reason = "the tables are too large for exact transport"
    else:
        return MEASURES["transport"]
    return f"sliced W1 over {_DIRECTIONS} directions, at most W1: {reason}", _of_rows(_sliced)


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

    def measure(x: DistinctRows, y: DistinctRows) -> Distances:
        return {
            a.name: distance(a.labels, b.labels, x_weights=a.masses(x.frequencies), y_weights=b.masses(y.frequencies))
            for a, b in zip(x.columns, y.columns, strict=True)
        }

    return measure


def _of_rows(distance: Callable[..., float]) -> Measure:

    def measure(x: DistinctRows, y: DistinctRows) -> Distances:
        masses = {"x_weights": x.frequencies[x.present], "y_weights": y.frequencies[y.present]}
        return {"all columns": distance(x.scaled(), y.scaled(), **masses, ordered=x.ordered, column_weights=x.weights)}

    return measure


def _sliced(*samples: Floats, **options: Any) -> float:
    # The same directions every time, so that a release and its baselines differ by their records alone.
    return sliced_wasserstein(*samples, directions=_DIRECTIONS, rng=seeded(0), **options).value


def _marginals(ways: int) -> Measure:
    def measure(x: DistinctRows, y: DistinctRows) -> Distances:
        masses = {"x_weights": x.frequencies, "y_weights": y.frequencies}
        every = combinations(range(len(x.columns)), ways)
        subsets = [subset for subset in every if not x.unit_columns or subset[0] < x.unit_columns <= subset[-1]]
        distances = [total_variation(*_keys(x, y, subset), **masses) for subset in subsets]
        return _mean_and_largest(distances, f"{counted(len(distances), 'marginal')} of {counted(ways, 'column')}")

    return measure


def _correlation(x: DistinctRows, y: DistinctRows) -> Distances:
    differences = [abs(a - b) for a, b in zip(associations(x), associations(y), strict=True)]
    return _mean_and_largest(differences, counted(len(differences), "pair") + " of columns")


def _mean_and_largest(values: list[float], of: str) -> Distances:
    return {f"{of}, mean": float(np.mean(values)), f"{of}, largest": max(values)} if values else {}


def _propensity(x: DistinctRows, y: DistinctRows) -> Distances:
    nulls = [bool(np.isnan(np.append(a.points, b.points)).any()) for a, b in zip(x.columns, y.columns, strict=True)]
    a, b = _design(x, x, nulls), _design(y, x, nulls)
    return {"all columns": pmse(a, b, x_weights=x.frequencies[x.present], y_weights=y.frequencies[y.present])}


_LABELS = f"labels; ordered columns in at most {BINS} equal ranges; nulls are one more"

MEASURES: dict[str, tuple[str, Measure]] = {
    "w1": ("scaled by upper - lower, nulls left out", _on_the_line(wasserstein_1d)),
    "ks": ("nulls left out", _on_the_line(ks_distance)),
    "tv": (_LABELS, _of_labels(total_variation)),
    "hellinger": (_LABELS, _of_labels(hellinger)),
    "kde-l2": ("values scaled by upper - lower, Gaussian kernel, Scott's bandwidth of the table", _on_the_line(kde_l2)),
    "transport": ("exact W1 under the domain's ground distance", _of_rows(transport_distance)),
    "marginals-2": (f"total variation; {_LABELS}", _marginals(2)),
    "marginals-3": (f"total variation; {_LABELS}", _marginals(3)),
    "correlation": ("absolute difference of Pearson's r, Cramér's V or the correlation ratio", _correlation),
    "pmse": ("logistic regression with squares and products of ordered columns", _propensity),
}
"""The measures: how each is computed in words, and the function of two tables."""

_MOST_LABELS = 50


def _keys(x: DistinctRows, y: DistinctRows, subset: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Return one number for the labels that each row has in some columns, the same number for the same labels."""
    keys = np.zeros(len(x.frequencies) + len(y.frequencies), dtype=np.int64)
    for index in subset:
        labels = np.concatenate([side.columns[index].by_row for side in (x, y)])
        labels -= labels.min()
        count = int(labels.max()) + 1
        if int(keys.max()) * count >= 2**62:  # many columns of many open labels: number what occurs
            keys = np.unique(keys, return_inverse=True)[1]
        keys = keys * count + labels
    return keys[: len(x.frequencies)], keys[len(x.frequencies) :]


def associations(table: DistinctRows) -> list[float]:
    """Return how strongly each pair of columns is associated; 0 without variation, or without rows."""
    strengths = []
    for x, y in combinations(table.columns, 2):
        if x.ordered and y.ordered:
            strengths.append(_pearson(x, y, table.frequencies))
        elif x.ordered or y.ordered:
            label, ordered = sorted((x, y), key=lambda column: column.ordered)
            strengths.append(_correlation_ratio(ordered, label, table.frequencies))
        else:
            strengths.append(_cramer(x, y, table.frequencies))
    return strengths


def _pearson(x: Values, y: Values, frequencies: Integers) -> float:
    """Return Pearson's correlation over the rows without nulls."""
    a, b = x.points[x.place], y.points[y.place]
    present = ~(np.isnan(a) | np.isnan(b)) & (frequencies > 0)
    if not present.any():
        return 0.0
    a, b, w = a[present], b[present], frequencies[present] / frequencies[present].sum()
    a, b = a - w @ a, b - w @ b
    spread = np.sqrt((w @ (a * a)) * (w @ (b * b)))
    return float((w @ (a * b)) / spread) if spread > 0 else 0.0


def _correlation_ratio(ordered: Values, label: Values, frequencies: Integers) -> float:
    """Return the square root of the share of variance between labels, of which a null is one."""
    a = ordered.points[ordered.place]
    present = ~np.isnan(a) & (frequencies > 0)
    if not present.any():
        return 0.0
    a, w = a[present], frequencies[present] / frequencies[present].sum()
    a = a - w @ a
    group = label.place[present]
    mass = np.bincount(group, weights=w)
    means = np.bincount(group, weights=w * a)[mass > 0] / mass[mass > 0]
    variance = float(w @ (a * a))
    explained = float(mass[mass > 0] @ (means * means))
    return float(np.sqrt(min(1.0, explained / variance))) if variance > 0 else 0.0


def _cramer(x: Values, y: Values, frequencies: Integers) -> float:
    r"""Return Cramér's :math:`V = \sqrt{\chi^2 / (N \min(r - 1, s - 1))}`, with nulls as one more label."""
    keys, places = np.unique(x.place * len(y.points) + y.place, return_inverse=True)
    observed = np.bincount(places, weights=frequencies) / frequencies.sum()
    rows, columns = keys // len(y.points), keys % len(y.points)
    row, column = np.bincount(rows, weights=observed), np.bincount(columns, weights=observed)
    degrees = min(np.count_nonzero(row), np.count_nonzero(column)) - 1
    if degrees < 1:
        return 0.0
    expected = row[rows] * column[columns]
    positive = observed > 0
    # chi^2 / N = sum of o^2 / e less 1: cells that nobody holds add nothing to the sum.
    return float(np.sqrt(max(0.0, (observed[positive] ** 2 / expected[positive]).sum() - 1.0) / degrees))


def _design(table: DistinctRows, reference: DistinctRows, nulls: list[bool]) -> Floats:
    """Return indicators, scaled coordinates, their squares and products, by the reference's means and labels."""
    # Features of the propensity model. A null is at the mean, and has an indicator; so have the labels second to
    # fiftieth by frequency.
    present = table.present
    indicators, coordinates = [np.zeros((len(present), 0))], []
    for column, model, with_nulls in zip(table.columns, reference.columns, nulls, strict=True):
        values = column.points[column.place[present]]
        missing = np.isnan(values)
        if with_nulls:
            indicators.append(missing.astype(np.float64))
        labelled = ~np.isnan(model.points)
        points, masses = model.points[labelled], model.masses(reference.frequencies)[labelled]
        if column.ordered:
            mean = float(points @ masses / (masses.sum() or 1))
            coordinates.append(np.where(missing, 0.0, values - mean) / column.scale)
        else:
            labels = points[np.argsort(-masses, kind="stable")][1:_MOST_LABELS]
            indicators += [(values == label).astype(np.float64) for label in labels]
    squares = [a * a for a in coordinates]
    products = [a * b for a, b in combinations(coordinates, 2)]
    return np.column_stack([*indicators, *coordinates, *squares, *products])


_RIDGE = 1e-6


@sealed
def pmse(x: Floats, y: Floats, *, x_weights: Weights | None = None, y_weights: Weights | None = None) -> float:
    r"""Return the propensity-score mean squared error of two weighted samples.

    .. math:: \mathrm{pMSE} = \frac1N \sum_{i=1}^{N} (\hat p_i - c)^2, \qquad c = \frac{m}{n + m}, \quad N = n + m,

    where :math:`\hat p_i` is the fitted probability that record ``i`` of both samples stacked comes from ``y``, by a
    logistic regression with an intercept on the given features. 0 means that the model sees no difference; the largest
    value is :math:`c (1 - c)`. If both samples came from the same law, a model with ``k`` coefficients beside the
    intercept would have about :math:`k \, c (1-c)^2 / N` (Snoke and others, where x is fixed and y modelled).

    The regression is fitted by Newton's method, with a ridge of 1e-6 per record on standardised
    features, which keeps the fit finite where the samples separate completely; scikit-learn is not needed.

    Parameters
    ----------
    x, y : ndarray of float64, shapes (a, k) and (b, k)
        Features of the records, one row each.
    x_weights, y_weights : ndarray of float64, shapes (a,) and (b,), optional
        Frequencies; 1 each by default. ``n`` and ``m`` are their sums.

    Returns
    -------
    float
        The error, between 0 and 1/4.

    Raises
    ------
    ParameterError
        If the samples are empty or their features differ in number.

    References
    ----------
    Snoke, Raab, Nowok, Dibben and Slavkovic (2018), General and specific utility measures for synthetic data, JRSS A.

    Examples
    --------
    >>> import numpy as np
    >>> half = np.array([[0.0], [1.0]])
    >>> round(pmse(half, half), 12)
    0.0
    >>> bool(pmse(half, half + 10) > 0.24)
    True
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or not len(x) or not len(y):
        raise ParameterError("both samples must be tables of at least one record with the same features")
    stacked = np.concatenate((x, y))
    of_y = np.concatenate((np.zeros(len(x)), np.ones(len(y))))
    sides = (("x", x, x_weights), ("y", y, y_weights))
    frequencies = [require_weights(name, np.zeros(len(side)), numbers) for name, side, numbers in sides]
    weights = np.concatenate(frequencies) / sum(part.sum() for part in frequencies)
    share = float(weights @ of_y)
    centred = stacked - weights @ stacked
    spread = np.sqrt(weights @ (centred * centred))
    design = np.column_stack((np.ones(len(stacked)), centred[:, spread > 0] / spread[spread > 0]))
    ridge = np.append(0.0, np.full(design.shape[1] - 1, _RIDGE))
    fitted = expit(design @ logistic_coefficients(design, of_y, weights, ridge))
    return float(weights @ (fitted - share) ** 2)


_Labelled = tuple[Floats, Any, Weights]  # features, labels and frequencies of a table


def area_under_curve(source: _Labelled, target: _Labelled) -> float:
    """Return the area under the ROC curve with which features of one table tell labels of another; 0.5 by guessing."""
    # The mean over labels, each told from all others by a logistic regression with a ridge of 1, on features of mean 0
    # and mean square length 1. The other table has two labels at least.
    from scipy.optimize import minimize

    (features, labels, weights), (points, truth, numbers) = source, target
    centre, areas = np.average(features, axis=0, weights=weights), []
    length = np.sqrt(np.average(((features - centre) ** 2).sum(axis=1), weights=weights)) or 1.0
    design, asking = (np.column_stack((np.ones(len(x)), (x - centre) / length)) for x in (features, points))
    ridge = (np.arange(design.shape[1]) > 0).astype(np.float64)

    def loss(beta: Floats, of_it: Booleans) -> tuple[float, Floats]:  # Newton's steps take long for embeddings
        line, slope = design @ beta, ridge * beta
        value = weights @ (np.logaddexp(0.0, line) - of_it * line) + 0.5 * slope @ slope
        return float(value), slope + (weights * (expit(line) - of_it)) @ design

    for label in np.unique(truth):
        positive, of_it = labels == label, truth == label
        beta = minimize(loss, 0.0 * ridge, args=(positive,), jac=True, method="L-BFGS-B", tol=1e-10).x
        places = np.unique(asking @ (beta * (0 < positive.mean() < 1)), return_inverse=True)[1]
        yes, no = (np.bincount(places, weights=numbers * side) for side in (of_it, ~of_it))
        areas.append(yes @ (np.cumsum(no) - no / 2) / (yes.sum() * no.sum()))
    return float(np.mean(areas))
