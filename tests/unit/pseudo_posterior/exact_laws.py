"""The exact censored posterior on finitely many parameters, and log-densities of counts, to compare draws with."""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet._core.numeric import Floats


def censored_law(
    log_likelihoods: npt.ArrayLike, *, bound: float, log_prior: npt.ArrayLike, weights: npt.ArrayLike = 1.0
) -> Floats:
    """Return probabilities of parameters, from log-likelihoods of shape (parameters, n); what is not finite is -M.

    >>> censored_law([[-1.0], [-9.0]], bound=2.0, log_prior=[0.0, 0.0]).round(6).tolist()
    [0.731059, 0.268941]
    """
    given = np.asarray(log_likelihoods, dtype=np.float64)
    clipped = np.where(np.isfinite(given), np.clip(given, -bound, 0.0), -bound)
    logs = (clipped * np.asarray(weights, dtype=np.float64)).sum(axis=1) + np.asarray(log_prior, dtype=np.float64)
    masses = np.exp(logs - logs.max())
    return np.asarray(masses / masses.sum())


def log_poisson(counts: npt.ArrayLike, mean: npt.ArrayLike) -> Floats:
    y, mean = np.asarray(counts, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    return np.asarray(y * np.log(mean) - mean - gammaln(y + 1.0))


def hoeffding(draws: float, points: int) -> float:
    """Return how far a right distribution function of draws is from its law at some points but once in a million."""
    return float(np.sqrt(np.log(2 * points / 1e-6) / (2 * draws)))


def errors_from(law: Floats, points: Floats, drawn: Floats) -> float:
    """Return how many standard errors a frequency of draws is from its probability, at most."""
    seen = np.array([np.isclose(drawn, point).mean() for point in points])
    return float((np.abs(seen - law) / np.sqrt(law * (1 - law) / len(drawn))).max())
