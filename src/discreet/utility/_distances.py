"""Distances between two weighted samples on the line or of labels, and a summary of one sample.

Pure functions of arrays. What they compute from confidential values is confidential: they know nothing of that, so
only :mod:`discreet.utility` hands them such values, and wraps what they return.

Weights that are whole numbers (the usual case: frequencies) are accumulated in int64, exactly, over the common
denominator ``sum(x_weights) * sum(y_weights)``; other weights in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import ParameterError

__all__ = ["QUANTILES", "ks_distance", "summary", "total_variation", "wasserstein_1d"]

QUANTILES = (1, 5, 25, 50, 75, 95, 99)
"""Percentages of the quantiles in a summary."""

Floats = npt.NDArray[np.float64]
Weights = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Cumulative = npt.NDArray[Any]

_LARGEST = 2**62


def wasserstein_1d(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    r"""Return the Wasserstein-1 distance between two weighted samples on the line.

    .. math:: W_1 = \int |F(t) - G(t)| \, dt,

    with ``F`` and ``G`` the distribution functions of the two samples, weights divided by their sums. One sort of each
    sample that is not sorted yet, then one linear merge.

    Parameters
    ----------
    x, y : array_like of float, shapes (a,) and (b,)
        The values, finite, in any order.
    x_weights, y_weights : array_like, shapes (a,) and (b,), optional
        Weights, at least 0 and not all 0; 1 each by default. Frequencies stay whole numbers and are added exactly.

    Returns
    -------
    float
        The distance, in the unit of the values.

    Raises
    ------
    ParameterError
        If a sample is empty, a value is not finite, or the weights are not weights.

    References
    ----------
    Vallender (1974), for the formula.

    Examples
    --------
    >>> wasserstein_1d([0.0, 1.0, 3.0], [5.0, 6.0, 8.0])
    5.0
    >>> wasserstein_1d([0, 10], [0, 10], x_weights=[3, 1], y_weights=[1, 1])
    2.5
    """
    x_sorted, x_weight = _sample("x", x, x_weights)
    y_sorted, y_weight = _sample("y", y, y_weights)
    if x_weight is None and y_weight is None and len(x_sorted) == len(y_sorted):
        return float(np.abs(x_sorted - y_sorted).mean())
    values, difference, scale = _difference(x_sorted, x_weight, y_sorted, y_weight)
    return float(np.dot(np.abs(difference[:-1]), np.diff(values)) / scale)


def ks_distance(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    """Return the Kolmogorov-Smirnov distance ``sup |F(t) - G(t)|`` between two weighted samples.

    Parameters
    ----------
    x, y, x_weights, y_weights
        As in :func:`wasserstein_1d`.

    Returns
    -------
    float
        The distance, between 0 and 1.

    Raises
    ------
    ParameterError
        As in :func:`wasserstein_1d`.

    Examples
    --------
    >>> ks_distance([1, 2, 3, 4], [3, 4, 5, 6])
    0.5
    """
    x_sorted, x_weight = _sample("x", x, x_weights)
    y_sorted, y_weight = _sample("y", y, y_weights)
    values, difference, scale = _difference(x_sorted, x_weight, y_sorted, y_weight)
    last_of_ties = np.flatnonzero(values[1:] > values[:-1])  # where equal values end; both functions end at 1
    return float(np.abs(difference[last_of_ties]).max(initial=0) / scale)


def total_variation(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    r"""Return the total variation distance :math:`\frac12 \sum_c |p_c - q_c|` between two weighted samples of labels.

    It is the Wasserstein-1 distance under the metric that is 0 between equal labels and 1 between others.

    Parameters
    ----------
    x, y : array_like, shapes (a,) and (b,)
        Labels: cell codes, or strings. A label may occur more than once.
    x_weights, y_weights : array_like, shapes (a,) and (b,), optional
        As in :func:`wasserstein_1d`; ``total_variation(cells, cells, x_weights=p, y_weights=q)`` compares counts.

    Returns
    -------
    float
        The distance, between 0 and 1.

    Raises
    ------
    ParameterError
        If a sample is empty or the weights are not weights.

    Examples
    --------
    >>> total_variation(["a", "b"], ["a", "c"], x_weights=[3, 1], y_weights=[3, 1])
    0.25
    """
    x_labels, y_labels = np.asarray(x), np.asarray(y)
    x_weight, y_weight = _weights("x", x_labels, x_weights), _weights("y", y_labels, y_weights)
    signed, scale = _signed(x_weight, len(x_labels), y_weight, len(y_labels))
    labels, which = np.unique(np.concatenate((x_labels, y_labels)), return_inverse=True)
    if signed.dtype == np.int64:
        difference = np.zeros(len(labels), dtype=np.int64)
        np.add.at(difference, which, signed)
    else:
        difference = np.bincount(which, weights=signed, minlength=len(labels))
    return float(np.abs(difference).sum(dtype=np.float64) / (2.0 * scale))


def summary(values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> dict[str, float]:
    """Return mean, standard deviation and quantiles of a weighted sample.

    Parameters
    ----------
    values : array_like of float, shape (a,)
        The values, finite, in any order.
    weights : array_like, shape (a,), optional
        As in :func:`wasserstein_1d`.

    Returns
    -------
    dict of str to float
        ``mean``; ``sd``, of the sample as a distribution (divided by its total weight); ``p1``, ``p5``, ``p25``,
        ``p50``, ``p75``, ``p95``, ``p99``: the least value at which the distribution function reaches the percentage.

    Raises
    ------
    ParameterError
        As in :func:`wasserstein_1d`.

    Examples
    --------
    >>> both = summary([0, 10], weights=[3, 1])
    >>> both["mean"], both["p50"], both["p95"]
    (2.5, 0.0, 10.0)
    """
    ordered, weight = _sample("values", values, weights)
    if weight is None:
        weight = np.ones(len(ordered), dtype=np.int64)
    total = weight.sum()
    mean = float(np.dot(ordered, weight) / total)
    deviations = ordered - mean
    out = {"mean": mean, "sd": float(np.sqrt(np.dot(deviations * deviations, weight) / total))}
    reached = np.cumsum(weight)
    for percent in QUANTILES:
        at = np.searchsorted(reached * 100 if reached.dtype == np.int64 else reached, _level(percent, reached))
        out[f"p{percent}"] = float(ordered[min(int(at), len(ordered) - 1)])
    return out


def _level(percent: int, reached: Cumulative) -> Any:
    """Return the cumulative weight a quantile needs, times 100 where weights are whole numbers."""
    return percent * reached[-1] if reached.dtype == np.int64 else percent / 100 * reached[-1]


def _sample(name: str, values: npt.ArrayLike, weights: npt.ArrayLike | None) -> tuple[Floats, Weights | None]:
    """Return a sample sorted, with its weights in the same order; None stands for equal weights."""
    points = np.asarray(values, dtype=np.float64)
    weight = _weights(name, points, weights)
    if not np.isfinite(points).all():
        raise ParameterError(f"{name} holds a value that is not finite; take nulls and infinities out first")
    if (points[1:] >= points[:-1]).all():
        return points, weight
    if weight is None:
        return np.sort(points), None
    order = np.argsort(points)
    return points[order], weight[order]


def _weights(name: str, values: npt.NDArray[Any], weights: npt.ArrayLike | None) -> Weights | None:
    if values.ndim != 1 or not len(values):
        raise ParameterError(f"{name} is a sample of at least one value, in one dimension")
    if weights is None:
        return None
    given = np.asarray(weights)
    if given.shape != values.shape or given.dtype.kind not in "iuf":
        raise ParameterError(f"the weights of {name} are numbers, one a value")
    weight: Weights
    weight = given.astype(np.float64, copy=False) if given.dtype.kind == "f" else given.astype(np.int64, copy=False)
    total = float(weight.sum(dtype=np.float64))
    if not (np.isfinite(total) and total > 0 and weight.min() >= 0):
        raise ParameterError(f"the weights of {name} are finite, at least 0, and not all 0")
    return weight


def _signed(x: Weights | None, x_size: int, y: Weights | None, y_size: int) -> tuple[Weights, float]:
    """Return the weights of both samples over a common denominator, those of ``y`` negative; and the denominator."""
    whole = all(weight is None or weight.dtype == np.int64 for weight in (x, y))
    x_total = x_size if x is None else x.sum()
    y_total = y_size if y is None else y.sum()
    if whole and int(x_total) * int(y_total) < _LARGEST:
        signed: Weights = np.empty(x_size + y_size, dtype=np.int64)
        signed[:x_size] = y_total if x is None else x * y_total
        signed[x_size:] = -x_total if y is None else -(y * x_total)
        return signed, float(int(x_total) * int(y_total))
    signed = np.empty(x_size + y_size, dtype=np.float64)
    signed[:x_size] = (1.0 if x is None else x) / float(x_total)
    signed[x_size:] = -(1.0 if y is None else y) / float(y_total)
    return signed, 1.0


def _difference(
    x: Floats, x_weight: Weights | None, y: Floats, y_weight: Weights | None
) -> tuple[Floats, Cumulative, float]:
    """Return all values in order, ``F - G`` after each (times a scale), and the scale.

    A stable sort of two sorted runs is a merge, linear in time.
    """
    signed, scale = _signed(x_weight, len(x), y_weight, len(y))
    values = np.concatenate((x, y))
    order = np.argsort(values, kind="stable")
    return values[order], np.cumsum(signed[order]), scale
