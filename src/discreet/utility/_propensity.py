"""How well a release can be told from the table: the propensity-score mean squared error."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet.utility._distances import Weights

_STEPS = 50
_RIDGE = 1e-6


def pmse(x: Floats, y: Floats, *, x_weights: Weights | None = None, y_weights: Weights | None = None) -> float:
    r"""Return the propensity-score mean squared error of two weighted samples.

    .. math:: \mathrm{pMSE} = \frac1N \sum_{i=1}^{N} (\hat p_i - c)^2, \qquad c = \frac{m}{n + m}, \quad N = n + m,

    where :math:`\hat p_i` is the fitted probability that record ``i`` of both samples stacked comes from ``y``, by a
    logistic regression with an intercept on the given features. 0 means that the model sees no difference; the largest
    value is :math:`c (1 - c)`. If both samples came from the same law, a model with ``k`` coefficients beside the
    intercept would have about :math:`k \, c (1-c)^2 / N` (Snoke and others, where x is fixed and y modelled).

    The regression is fitted by Newton steps with a ridge of 1e-6 per record on standardised features, which keeps the
    fit finite where the samples separate completely; scikit-learn is not needed.

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
    features = np.concatenate((x, y))
    of_y = np.concatenate((np.zeros(len(x)), np.ones(len(y))))
    counts = [np.ones(len(side)) if given is None else given for side, given in ((x, x_weights), (y, y_weights))]
    weights = np.concatenate(counts) / (counts[0].sum() + counts[1].sum())
    share = float(weights @ of_y)
    centred = features - weights @ features
    spread = np.sqrt(weights @ (centred * centred))
    design = np.column_stack((np.ones(len(features)), centred[:, spread > 0] / spread[spread > 0]))
    fitted = expit(design @ _newton(design, of_y, weights))
    return float(weights @ (fitted - share) ** 2)


def _newton(design: Floats, of_y: Floats, weights: Floats) -> Floats:
    """Return the coefficients that maximise the penalised likelihood, which is strictly concave."""
    penalty = np.full(design.shape[1], _RIDGE)
    penalty[0] = 0.0
    share = float(weights @ of_y)
    coefficients = np.zeros(design.shape[1])
    coefficients[0] = np.log(share / (1.0 - share))

    def objective(b: Floats) -> float:
        line = design @ b
        return float(weights @ (np.logaddexp(0.0, line) - of_y * line) + 0.5 * penalty @ (b * b))

    value = objective(coefficients)
    for _ in range(_STEPS):
        fitted = expit(design @ coefficients)
        gradient = design.T @ (weights * (fitted - of_y)) + penalty * coefficients
        curvature = (design * (weights * fitted * (1.0 - fitted))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        fraction = 1.0
        while fraction > 1e-6:
            trial = coefficients - fraction * step
            lower = objective(trial)
            if lower <= value:
                break
            fraction /= 2.0
        else:
            break
        done = value - lower <= 1e-12 * max(1.0, abs(value))
        coefficients, value = trial, lower
        if done:
            break
    return coefficients
