"""The exact censored posterior on finitely many parameters, which the tests compare draws with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats


def censored_law(
    log_likelihoods: npt.ArrayLike, *, bound: float, log_prior: npt.ArrayLike, weights: npt.ArrayLike = 1.0
) -> Floats:
    r"""Return the exact censored posterior on finitely many parameters.

    ``log_likelihoods``, shape (parameters, n): Nats; what is not finite counts as ``-bound``.
    ``bound``: M, nats.
    ``log_prior``, shape (parameters,): up to a constant.
    ``weights``, shape (n,) or (): in [0, 1].
    Returns, shape (parameters,): probabilities.

    Examples
    --------
    >>> censored_law([[-1.0], [-9.0]], bound=2.0, log_prior=[0.0, 0.0]).round(6).tolist()
    [0.731059, 0.268941]
    """
    given = np.asarray(log_likelihoods, dtype=np.float64)
    clipped = np.where(np.isfinite(given), np.clip(given, -bound, 0.0), -bound)
    logs = (clipped * np.asarray(weights, dtype=np.float64)).sum(axis=1) + np.asarray(log_prior, dtype=np.float64)
    masses = np.exp(logs - logs.max())
    return np.asarray(masses / masses.sum())
