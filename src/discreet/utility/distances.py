"""Distances between two weighted samples on the line or of labels, and a summary of one sample.

Pure functions of arrays. What they compute from confidential values is confidential: they know nothing of that, so
only :mod:`discreet.utility` hands them such values, and wraps what they return.

Weights that are whole numbers (the usual case: frequencies) are accumulated in int64, exactly, over the common
denominator ``sum(x_weights) * sum(y_weights)``; other weights in float64. Beside a sorted copy of each sample that is
not sorted yet, the distances on the line need memory for one block only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.errors import ParameterError

QUANTILES = (1, 5, 25, 50, 75, 95, 99)
"""Percentages of the quantiles in a summary."""

Weights = Integers | Floats
Cumulative = npt.NDArray[Any]

_LARGEST = 2**62
_BLOCK = 2**14
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def wasserstein_1d(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> float:
    r"""Return the Wasserstein-1 distance between two weighted samples on the line.

    .. math:: W_1 = \int |F(t) - G(t)| \, dt = \int_0^1 |F^{-1}(u) - G^{-1}(u)| \, du,

    with ``F`` and ``G`` the distribution functions of the two samples, weights divided by their sums. One sort of each
    sample that is not sorted yet, then one pass over the levels ``u`` where either quantile function jumps: a sum of
    terms of one sign, in which nothing cancels.

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
    longer, shorter, top = _staircases(x, x_weights, y, y_weights)
    return math.fsum(_areas(longer, shorter)) / top


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
    longer, shorter, top = _staircases(x, x_weights, y, y_weights)
    # Between two values of one sample its function stands still and the other one does not fall: the largest
    # difference is at one of these values, or just before it.
    at, here = shorter.values, shorter.values
    largest = 0.0
    for side in _SIDES:
        gap = longer.level(np.searchsorted(longer.values, at, side)) - shorter.level(np.searchsorted(here, at, side))
        largest = max(largest, float(np.abs(gap).max()))
    return largest / top


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
    x_unit, y_unit, scale = _units(x_weight, len(x_labels), y_weight, len(y_labels))
    x_part = np.full(len(x_labels), x_unit) if x_weight is None else x_weight * x_unit
    y_part = np.full(len(y_labels), y_unit) if y_weight is None else y_weight * y_unit
    signed = np.concatenate((x_part, -y_part))
    labels, which = np.unique(np.concatenate((x_labels, y_labels)), return_inverse=True)
    if signed.dtype == np.int64:
        difference = np.zeros(len(labels), dtype=np.int64)
        np.add.at(difference, which, signed)
    else:
        difference = np.bincount(which, weights=signed, minlength=len(labels))
    return float(np.abs(difference).sum(dtype=np.float64) / (2.0 * scale))


def summary(values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> dict[str, float]:
    """Return mean, standard deviation (divisor: the total weight) and quantiles of a weighted sample.

    A quantile is the least value at which the distribution function reaches the percentage.

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
    integral = reached.dtype == np.int64
    scaled = reached * 100 if integral else reached
    for percent in QUANTILES:
        at = np.searchsorted(scaled, percent * reached[-1] if integral else percent / 100 * reached[-1])
        out[f"p{percent}"] = float(ordered[min(int(at), len(ordered) - 1)])
    return out


def _sample(name: str, values: npt.ArrayLike, weights: npt.ArrayLike | None) -> tuple[Floats, Weights | None]:
    """Return a sample sorted, with its weights in the same order; None stands for equal weights."""
    points = np.asarray(values, dtype=np.float64)
    weight = _weights(name, points, weights)
    if not np.isfinite(points).all():
        raise ParameterError(f"{name} holds a value that is not finite. Take out nulls and infinities first")
    if (points[1:] >= points[:-1]).all():
        return points, weight
    if weight is None:
        return np.sort(points), None
    order = np.argsort(points)
    return points[order], weight[order]


def _weights(name: str, values: npt.NDArray[Any], weights: npt.ArrayLike | None) -> Weights | None:
    if values.ndim != 1 or not len(values):
        raise ParameterError(f"{name} must be a sample of at least one value, in one dimension")
    if weights is None:
        return None
    given = np.asarray(weights)
    if given.shape != values.shape or given.dtype.kind not in "iuf":
        raise ParameterError(f"the weights of {name} must be numbers, one per value")
    weight: Weights
    weight = given.astype(np.float64, copy=False) if given.dtype.kind == "f" else given.astype(np.int64, copy=False)
    total = float(weight.sum(dtype=np.float64))
    if not (np.isfinite(total) and total > 0 and weight.min() >= 0):
        raise ParameterError(f"the weights of {name} must be finite, at least 0, and not all 0")
    return weight


def _units(x: Weights | None, x_size: int, y: Weights | None, y_size: int) -> tuple[Any, Any, float]:
    """Return what one unit of weight of ``x`` and of ``y`` is over a common denominator, and the denominator."""
    whole = all(weight is None or weight.dtype == np.int64 for weight in (x, y))
    x_total = x_size if x is None else x.sum()
    y_total = y_size if y is None else y.sum()
    if whole and int(x_total) * int(y_total) < _LARGEST:
        return int(y_total), int(x_total), float(int(x_total) * int(y_total))
    return 1.0 / float(x_total), 1.0 / float(y_total), 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staircase:
    """A distribution function: sorted values, and the level reached after each number of them."""

    values: Floats
    unit: Any
    reached: Cumulative | None  # from 0; None where every value adds one unit

    @classmethod
    def of(cls, values: Floats, weights: Weights | None, unit: Any) -> _Staircase:
        if weights is None and isinstance(unit, int):
            return cls(values=values, unit=unit, reached=None)
        steps = np.full(len(values), unit) if weights is None else weights * unit
        reached = np.concatenate((np.zeros(1, dtype=steps.dtype), np.cumsum(steps)))
        if reached.dtype.kind == "f":  # rounding must not keep a function from ending at 1
            np.minimum(reached, 1.0, out=reached)
            reached[-1] = 1.0
        return cls(values=values, unit=unit, reached=reached)

    def level(self, count: Indices) -> Cumulative:
        """Return the level after ``count`` values."""
        return count * self.unit if self.reached is None else self.reached[count]

    def between(self, low: Any, high: Any) -> tuple[int, int]:
        """Return the range of counts whose levels are above ``low`` and below ``high``."""
        if self.reached is None:
            return int(low) // self.unit + 1, -(-int(high) // self.unit)
        return int(np.searchsorted(self.reached, low, "right")), int(np.searchsorted(self.reached, high, "left"))


def _staircases(
    x: npt.ArrayLike, x_weights: npt.ArrayLike | None, y: npt.ArrayLike, y_weights: npt.ArrayLike | None
) -> tuple[_Staircase, _Staircase, float]:
    """Return the distribution functions of both samples, the longer one first, and the level at which both end."""
    x_sorted, x_weight = _sample("x", x, x_weights)
    y_sorted, y_weight = _sample("y", y, y_weights)
    x_unit, y_unit, top = _units(x_weight, len(x_sorted), y_weight, len(y_sorted))
    both = _Staircase.of(x_sorted, x_weight, x_unit), _Staircase.of(y_sorted, y_weight, y_unit)
    longer, shorter = both if len(x_sorted) >= len(y_sorted) else both[::-1]
    return longer, shorter, top


def _areas(longer: _Staircase, shorter: _Staircase) -> Iterator[float]:
    """Give the area between two quantile functions, block by block of the longer one's steps.

    Between two neighbouring levels of either function both quantiles stand still.
    """
    for start in range(0, len(longer.values), _BLOCK):
        stop = min(start + _BLOCK, len(longer.values))
        levels = longer.level(np.arange(start, stop + 1))
        low, ups, high = levels[0], levels[1:], levels[-1]
        if low == high:  # values without weight
            continue
        first, end = shorter.between(low, high)
        cuts = shorter.level(np.arange(first, end))
        place = np.searchsorted(ups, cuts)
        ends = np.insert(ups, place, cuts)
        one = np.insert(longer.values[start:stop], place, longer.values[start + place])
        after_each_cut = np.concatenate(([0], place + np.arange(1, len(place) + 1), [len(ends)]))
        other = np.repeat(shorter.values[first - 1 : end], np.diff(after_each_cut))
        widths = np.diff(ends, prepend=low).astype(np.float64)
        heights = np.abs(one - other)
        if not widths.all():  # empty pieces: left out, so that swapping the samples gives the same sum
            widths, heights = widths[widths > 0], heights[widths > 0]
        heights *= widths
        yield float(heights.sum())  # pairwise, in one thread
