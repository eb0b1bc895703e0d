"""How the counts of a cell weigh in the prior of a Dirichlet process."""

from __future__ import annotations

import math

import numpy as np

from discreet._core.arrays import Floats

_SMOOTH = 32.0  # steps from 0, beyond which the weights within a step are alike


def log_prior(alpha: float, counts: Floats, step: int = 1) -> Floats:
    """Return the logarithm of ``Gamma(alpha + c) / (Gamma(alpha) c!)``: with a factor ``t^n``, independent counts.

    ``counts``: whole, or multiples of a step.
    ``step``: above 1, the sum over all whole numbers that round to a multiple, by the closed form of sums from 0.
    """
    from scipy.special import gammaln

    one = gammaln(alpha + counts) - gammaln(alpha) - gammaln(counts + 1.0)
    if step == 1:
        return np.asarray(one)

    def upto(last: Floats) -> Floats:
        return np.asarray(gammaln(alpha + 1.0 + last) - gammaln(alpha + 1.0) - gammaln(last + 1.0))

    all_of_them = upto(counts + (step - step // 2 - 1.0))
    before = np.where(counts > 0.0, upto(np.maximum(counts - step // 2 - 1.0, 0.0)), -math.inf)
    near = all_of_them + np.log(-np.expm1(np.minimum(before - all_of_them, -1e-300)))
    return np.where(counts < _SMOOTH * step, near, math.log(step) + one)
