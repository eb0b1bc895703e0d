"""Distances between two weighted samples on the line or of labels, and a summary of one: pure functions of arrays.

They know nothing of what is confidential: only :mod:`discreet.utility` hands them such values, and wraps what they
return. Weights that are whole numbers (frequencies) are accumulated in int64, exactly, over the common denominator
``sum(x_weights) * sum(y_weights)``; other weights in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, real
from discreet._core.numeric import Floats, Weights

QUANTILES = (1, 5, 25, 50, 75, 95, 99)
"""Percentages of the quantiles in a summary."""

_LARGEST = 2**62


@sealed
def wasserstein_1d(
    x: ArrayLike, y: ArrayLike, *, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> float:
    r"""Return the Wasserstein-1 distance between two weighted samples on the line.

    .. math:: W_1 = \int |F(t) - G(t)| \, dt = \int_0^1 |F^{-1}(u) - G^{-1}(u)| \, du,

    with ``F`` and ``G`` the distribution functions of the two samples, weights divided by their sums. One sort, then
    one pass over the values of both: a sum of terms of one sign.

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
    points, differences, top = _gaps(x, x_weights, y, y_weights)
    return float(np.abs(differences) @ np.diff(points)) / top


@sealed
def ks_distance(
    x: ArrayLike, y: ArrayLike, *, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> float:
    """Return the Kolmogorov-Smirnov distance ``sup |F(t) - G(t)|``, between 0 and 1, of two weighted samples.

    Parameters
    ----------
    x, y, x_weights, y_weights
        As in :func:`wasserstein_1d`.

    Raises
    ------
    ParameterError
        As in :func:`wasserstein_1d`.

    Examples
    --------
    >>> ks_distance([1, 2, 3, 4], [3, 4, 5, 6])
    0.5
    """
    points, differences, top = _gaps(x, x_weights, y, y_weights)
    return min(1.0, float(np.abs(differences[points[1:] > points[:-1]]).max(initial=0)) / top)


@sealed
def total_variation(
    x: ArrayLike, y: ArrayLike, *, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> float:
    r"""Return the total variation distance :math:`\frac12 \sum_c |p_c - q_c|` between two weighted samples of labels.

    It is the Wasserstein-1 distance under the metric that is 0 between equal labels and 1 between others, from 0 to 1.

    Parameters
    ----------
    x, y : array_like, shapes (a,) and (b,)
        Labels: cell codes, or strings. A label may occur more than once.
    x_weights, y_weights : array_like, shapes (a,) and (b,), optional
        As in :func:`wasserstein_1d`; ``total_variation(cells, cells, x_weights=p, y_weights=q)`` compares counts.

    Raises
    ------
    ParameterError
        If a sample is empty or the weights are not weights.

    Examples
    --------
    >>> total_variation(["a", "b"], ["a", "c"], x_weights=[3, 1], y_weights=[3, 1])
    0.25
    """
    places, *weights = _numbered_labels(x, x_weights, y, y_weights)
    signed, top = signed_masses(*weights)
    difference = np.zeros(places.max() + 1, dtype=signed.dtype)
    np.add.at(difference, places, signed)
    return float(np.abs(difference).sum(dtype=np.float64) / (2.0 * top))


def summary(values: ArrayLike, weights: ArrayLike | None = None) -> dict[str, float]:
    """Return mean, standard deviation (divisor: the total weight) and quantiles, the least values that reach them."""
    points, weight = require_sample("values", values, weights)
    order = np.argsort(points, kind="stable")
    ordered, weight = points[order], weight[order]
    total = weight.sum()
    mean = float(np.dot(ordered, weight) / total)
    deviations = ordered - mean
    facts = {"mean": mean, "sd": float(np.sqrt(np.dot(deviations * deviations, weight) / total))}
    levels = np.cumsum(weight)
    top = levels[-1]
    if levels.dtype == np.int64:  # exactly: 0.01 is no binary fraction
        places = np.searchsorted(levels * 100, [percent * top for percent in QUANTILES])
    else:
        places = np.searchsorted(levels, [percent / 100 * top for percent in QUANTILES])
    quantiles = ordered[np.minimum(places, len(ordered) - 1)].tolist()
    return facts | {f"p{percent}": value for percent, value in zip(QUANTILES, quantiles, strict=True)}


def require_sample(name: str, values: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Weights]:
    """Return the values of a sample on the line, and their weights."""
    points = np.asarray(values, dtype=np.float64)
    weight = require_weights(name, points, weights)
    if not np.isfinite(points).all():
        raise ParameterError(f"{name} holds a value that is not finite. Take out nulls and infinities first")
    return points, weight


def require_weights(name: str, values: NDArray[Any], weights: ArrayLike | None) -> Weights:
    """Return the weights of a sample as int64 or float64; 1 each by default, in no memory of their own."""
    if values.ndim != 1 or not len(values):
        raise ParameterError(f"{name} must be a sample of at least one value, in one dimension")
    if weights is None:
        return np.broadcast_to(np.int64(1), values.shape)
    array = np.asarray(weights)
    if array.shape != values.shape or array.dtype.kind not in "iuf":
        raise ParameterError(f"the weights of {name} must be numbers, one per value")
    weight: Weights
    weight = array.astype(np.float64, copy=False) if array.dtype.kind == "f" else array.astype(np.int64, copy=False)
    total = float(weight.sum(dtype=np.float64))
    if not (np.isfinite(total) and total > 0 and weight.min() >= 0):
        raise ParameterError(f"the weights of {name} must be finite, at least 0, and not all 0")
    return weight


def signed_masses(x: Weights, y: Weights) -> tuple[NDArray[Any], float]:
    """Return the mass of each value of ``x``, and of ``y`` negated, over a common denominator, and the denominator."""
    x_total, y_total = x.sum().item(), y.sum().item()
    if isinstance(x_total, int) and isinstance(y_total, int) and x_total * y_total < _LARGEST:
        return np.concatenate((x * y_total, y * -x_total)), float(x_total * y_total)
    return np.concatenate((x * (1.0 / x_total), y * (-1.0 / y_total))), 1.0


def _gaps(
    x: ArrayLike, x_weights: ArrayLike | None, y: ArrayLike, y_weights: ArrayLike | None
) -> tuple[Floats, NDArray[Any], float]:
    """Return the values of both in order, by how much one function is above the other between them, and their end."""
    (x_values, x_weight), (y_values, y_weight) = require_sample("x", x, x_weights), require_sample("y", y, y_weights)
    signed, top = signed_masses(x_weight, y_weight)
    points = np.concatenate((x_values, y_values))
    order = np.argsort(points, kind="stable")
    return points[order], np.cumsum(signed[order])[:-1], top


def _numbered_labels(
    x: ArrayLike, x_weights: ArrayLike | None, y: ArrayLike, y_weights: ArrayLike | None
) -> tuple[Any, Weights, Weights]:
    """Return a number for each label of both, one after the other, and their weights."""
    x_labels, y_labels = np.asarray(x), np.asarray(y)
    weights = require_weights("x", x_labels, x_weights), require_weights("y", y_labels, y_weights)
    labels = np.concatenate((x_labels, y_labels))
    if labels.dtype == object:  # of several kinds, which have no order
        numbers: dict[object, int] = {}
        labels = np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()])
    return np.unique(labels, return_inverse=True)[1], *weights


_EXACT = 2**11
_FINEST = 500
_MOST_BINS = 2**21


@sealed
def hellinger(
    x: ArrayLike, y: ArrayLike, *, x_weights: ArrayLike | None = None, y_weights: ArrayLike | None = None
) -> float:
    r"""Return the Hellinger distance between two weighted samples of labels.

    .. math:: H = \sqrt{\tfrac12 \sum_c (\sqrt{p_c} - \sqrt{q_c})^2},

    between 0 and 1; :math:`H^2 \le TV \le H \sqrt 2`.

    Parameters
    ----------
    x, y, x_weights, y_weights
        As in :func:`total_variation`.

    Raises
    ------
    ParameterError
        If a sample is empty or the weights are not weights.

    Examples
    --------
    >>> hellinger(["a", "b"], ["a", "b"], x_weights=[1, 0], y_weights=[0, 1])
    1.0
    """
    places, *weights = _numbered_labels(x, x_weights, y, y_weights)
    sides = zip(np.split(places, [len(weights[0])]), weights, strict=True)
    p, q = (np.bincount(side, weights=weight, minlength=places.max() + 1) for side, weight in sides)
    return float(np.linalg.norm(np.sqrt(p / p.sum()) - np.sqrt(q / q.sum())) / np.sqrt(2.0))


def bandwidth(values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return Scott's bandwidth ``n^(-1/5) s``, with divisor ``n - 1`` (1992, (6.44) without its factor 1.06)."""
    count = float(require_weights("values", np.asarray(values), weights).sum())
    if count <= 1.0:
        return 0.0
    return float(count**-0.2 * summary(values, weights)["sd"] * np.sqrt(count / (count - 1.0)))


@sealed
def kde_l2(
    x: ArrayLike,
    y: ArrayLike,
    *,
    width: float | None = None,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
) -> float:
    r"""Return the L2 distance between two Gaussian kernel density estimates.

    .. math:: \|\hat f - \hat g\|_2 = \Big( \sum_{i,j} d_i d_j \, \varphi_{h\sqrt2}(t_i - t_j) \Big)^{1/2},

    where ``t`` are the values of both samples, ``d`` the share of ``x`` less the share of ``y`` at each, ``h`` the
    bandwidth of both estimates, and :math:`\varphi_s` the normal density with standard deviation ``s``: the product of
    two Gaussian kernels integrates to one. No grid is needed, and none is used up to 2,048 distinct values.

    For more, the values are split linearly onto a grid of step :math:`\Delta \le h/500` (or 2\ :sup:`21` points,
    if the range asks for more), on which the same double sum is a convolution. That changes the distance by at most
    :math:`2 \cdot \tfrac{\Delta^2}{8} \|\varphi_h''\|_2 = \tfrac{\Delta^2}{4} \sqrt{3/(8\sqrt\pi)} \, h^{-5/2}`, the
    error of linear interpolation of :math:`t \mapsto \varphi_h(\cdot - t)` for either sample: less than one millionth
    of :math:`\|\varphi_h\|_2` at step h/500. Rounding in the transform adds about :math:`10^{-8} \|\varphi_h\|_2`.

    Parameters
    ----------
    x, y : array_like of float, shapes (a,) and (b,)
        The values, finite, in any order.
    width : float, optional
        The bandwidth ``h``, in the unit of the values; by default :func:`bandwidth` of ``x``, for both samples, so that
        equal data have distance 0 whatever the sizes.
    x_weights, y_weights : array_like, shapes (a,) and (b,), optional
        As in :func:`wasserstein_1d`.

    Returns
    -------
    float
        The distance, in the unit of the values to the power -1/2; infinite where ``h`` is 0 and the samples differ.

    Raises
    ------
    ParameterError
        If a sample is empty, a value is not finite, the weights are not weights, or ``width`` is not positive.

    References
    ----------
    Wand and Jones (1995), Kernel Smoothing, section 2.6 for convolutions of normal densities, D.2 for linear binning.
    BNP24, tables 7 and 8, compare releases by this distance; they do not state a bandwidth.

    Examples
    --------
    >>> kde_l2([0.0, 1.0], [0.0, 1.0], width=0.5)
    0.0
    >>> round(kde_l2([0.0], [100.0], width=1.0), 6)  # two humps apart: sqrt(2 / (2 sqrt(pi)))
    0.751126
    """
    h = bandwidth(x, x_weights) if width is None else real("width", width, above=0)
    (x_values, x_weight), (y_values, y_weight) = require_sample("x", x, x_weights), require_sample("y", y, y_weights)
    points, places = np.unique(np.concatenate((x_values, y_values)), return_inverse=True)
    masses = np.concatenate((x_weight / x_weight.sum(), -y_weight / y_weight.sum()))
    signed: Floats = np.bincount(places, weights=masses).astype(np.float64)
    if h == 0.0:
        return 0.0 if np.abs(signed).max() <= 1e-15 else float("inf")
    square = _all_pairs(points, signed, h) if len(points) <= _EXACT else _binned(points, signed, h)
    return float(np.sqrt(max(square, 0.0)))


def _all_pairs(points: Floats, signed: Floats, h: float) -> float:
    gaps = (points[:, None] - points[None, :]) / (2.0 * h)
    return float(signed @ (np.exp(-gaps * gaps) @ signed) / (2.0 * h * np.sqrt(np.pi)))


def _binned(points: Floats, signed: Floats, h: float) -> float:
    from scipy.fft import irfft, next_fast_len, rfft

    span = points[-1] - points[0]
    bins = int(min(np.ceil(span / h * _FINEST), _MOST_BINS)) + 1
    step = span / (bins - 1)
    place = (points - points[0]) / step
    lower = np.minimum(place.astype(np.int64), bins - 2)
    share = place - lower
    masses = np.bincount(lower, weights=signed * (1.0 - share), minlength=bins)
    masses += np.bincount(lower + 1, weights=signed * share, minlength=bins)
    length = next_fast_len(2 * bins, real=True)
    transform = rfft(masses, length)
    products = irfft(transform.real**2 + transform.imag**2, length)[:bins]  # sum_k d_k d_{k+lag}
    gaps = np.arange(bins) * (step / (2.0 * h))
    kernel = np.exp(-gaps * gaps)
    return float((2.0 * np.sum(products[1:] * kernel[1:]) + products[0]) / (2.0 * h * np.sqrt(np.pi)))
