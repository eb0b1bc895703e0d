"""Log-probabilities of the urn and binomial laws.

All are differences of log-gamma functions. Their absolute error is at most a few units in the last place of the largest
log-gamma involved, about ``2e-16 * N log N`` for totals up to ``N``; callers widen their result by
:func:`log_gamma_error` so that a probability is never understated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["log_beta_binomial", "log_binomial", "log_gamma_error", "log_rising"]

Floats = npt.NDArray[np.float64]


def log_rising(a: float | Floats, s: float | Floats) -> Any:
    """Return ``log((a)_s) = log(Gamma(a + s) / Gamma(a))``, the logarithm of the rising factorial.

    Parameters
    ----------
    a : float or ndarray
        Positive.
    s : float or ndarray
        Non-negative.
    """
    from scipy.special import gammaln

    return gammaln(a + s) - gammaln(a)


def log_binomial(u: float | Floats, s: float | Floats) -> Any:
    """Return ``log(C(u, s))`` for ``0 <= s <= u``."""
    from scipy.special import gammaln

    return gammaln(u + 1.0) - gammaln(s + 1.0) - gammaln(u - s + 1.0)


def log_beta_binomial(s: float | Floats, u: float | Floats, a: float, b: float) -> Any:
    """Return the log-probability that ``s`` of ``u`` draws from an urn with masses ``(a, b)`` fall in the first part.

    ``C(u, s) (a)_s (b)_{u-s} / (a + b)_u`` for ``a, b > 0``.
    """
    return log_binomial(u, s) + log_rising(a, s) + log_rising(b, u - s) - log_rising(a + b, u)


def log_gamma_error(total: float) -> float:
    """Return a bound on the absolute error of the log-probabilities above when all arguments sum to ``total``."""
    from scipy.special import gammaln

    return float(64 * np.finfo(float).eps * (1.0 + abs(gammaln(total + 2.0))))
