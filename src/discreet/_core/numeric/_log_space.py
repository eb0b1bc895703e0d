"""Log-probabilities of the urn and binomial laws.

Differences of log-gamma functions, taken by Stirling's series where the arguments are large, so that the absolute
error is a few units in the last place of ``s log(a + s)`` for ``s`` draws, however large the mass ``a``; callers widen
their result by :func:`log_error` so that a probability is never understated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet._core.arrays import Floats

_LARGE = 16.0  # from here on the series below is exact to the last place


def log_rising(a: float | Floats, s: float | Floats) -> Any:
    """Return ``log((a)_s) = log(Gamma(a + s) / Gamma(a))``, the logarithm of the rising factorial.

    ``a``: positive.
    ``s``: non-negative.
    """
    if np.ndim(a) == 0 and a >= _LARGE:
        return _log_rising_large(a, s)
    from scipy.special import gammaln

    if np.ndim(a) == 0:
        return gammaln(a + s) - gammaln(a)
    return np.where(np.less(a, _LARGE), gammaln(a + s) - gammaln(a), _log_rising_large(np.maximum(a, _LARGE), s))


def _log_rising_large(a: float | Floats, s: float | Floats) -> Any:
    return (a - 0.5) * np.log1p(s / a) + s * (np.log(a + s) - 1.0) + (_tail(a + s) - _tail(a))


def _tail(x: Any) -> Any:
    """Return ``log Gamma(x) - ((x - 1/2) log x - x + log(2 pi)/2)`` for ``x >= 16``."""
    y = 1.0 / (x * x)
    return (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x


def log_binomial(u: float | Floats, s: float | Floats) -> Any:
    """Return ``log(C(u, s))`` for ``0 <= s <= u``."""
    from scipy.special import gammaln

    return log_rising(u - s + 1.0, s) - gammaln(s + 1.0)


def log_beta_binomial(s: float | Floats, u: float | Floats, a: float, b: float) -> Any:
    """Return the log-probability that ``s`` of ``u`` draws from an urn with masses ``(a, b)`` fall in the first part.

    ``C(u, s) (a)_s (b)_{u-s} / (a + b)_u`` for ``a, b > 0``.
    """
    return log_binomial(u, s) + log_rising(a, s) + log_rising(b, u - s) - log_rising(a + b, u)


def log_error(draws: float, total: float) -> float:
    """Return a bound on the absolute error of the log-probabilities of ``draws`` draws among masses of ``total``."""
    return float(64 * np.finfo(float).eps * (1.0 + draws * (1.0 + math.log(total + draws + 2.0))))
