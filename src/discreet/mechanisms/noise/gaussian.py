"""Discrete Gaussian noise: ``P(z)`` proportional to ``e^(-z^2/(2 scale^2))``.

Theory: docs/theory/perturbed-histogram.md (theorem T6).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.mechanisms.noise._law import ExactDraws, NoiseLaw, opendp_vector
from discreet.mechanisms.noise.laplace import laplace_draw
from discreet.privacy import DiscreteGaussianPair, Profile


class DiscreteGaussian(NoiseLaw):
    """Less noise than Laplace where delta is above 0 and several counts change."""

    name: ClassVar[str] = "gaussian"
    largest_scale: ClassVar[float] = 1e6

    def _secure(self, scale: float, count: int) -> Integers:
        vector = opendp_vector()
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance

        return np.asarray(make_gaussian(vector, l2_distance(T="f64"), scale)([0] * count), dtype=np.int64)

    def _exact(self, scale: Fraction, draws: ExactDraws) -> int:
        variance = scale * scale
        t = math.floor(scale) + 1
        while True:
            y = laplace_draw(Fraction(t), draws)
            gamma = (abs(y) - variance / t) ** 2 / (2 * variance)
            if draws.bernoulli_exp(gamma.numerator, gamma.denominator):
                return y

    def approximate(self, scale: float, count: int, *, rng: np.random.Generator) -> Integers:
        """Return rounded normal variables."""
        return np.rint(rng.normal(0.0, scale, size=count)).astype(np.int64)

    def log_pmf(self, scale: float, z: Any) -> Floats:
        """Return ``-z^2 / (2 scale^2)`` less the logarithm of the sum over all integers."""
        values = np.asarray(z, dtype=np.float64)
        if scale < 20.0:
            reach = math.ceil(40.0 * scale) + 1
            grid = np.arange(-reach, reach + 1, dtype=np.float64)
            log_total = math.log(np.exp(-(grid * grid) / (2.0 * scale * scale)).sum())
        else:
            log_total = math.log(scale) + 0.5 * math.log(2.0 * math.pi)  # relative error below e^(-2 pi^2 400)
        return np.asarray(-(values * values) / (2.0 * scale * scale) - log_total)

    def log_below(self, scale: float, below: int) -> float:
        """Return ``log P(Z < below)``: all but a relative 1e-20 of it is summed."""
        reach = math.ceil(10.0 * scale) + 1
        return float(np.logaddexp.reduce(self.log_pmf(scale, np.arange(min(below, -reach) - reach, below))))

    def reach(self, scale: float) -> int:
        """Return 8.5 scales."""
        return math.ceil(scale * 8.5) + 1

    def standard_deviation(self, scale: float) -> float:
        """Return ``scale``, at least the true one."""
        return scale

    def mean_absolute(self, scale: float) -> float:
        """Return the normal variable's, above the true one by about ``1/(12 scale^2)`` of it."""
        return scale * math.sqrt(2.0 / math.pi)

    def profile(self, scale: float, *, group: int, counts: int) -> Profile:
        """Return the profile of T6."""
        return DiscreteGaussianPair(scale=scale, group=group, counts=counts)


GAUSSIAN = DiscreteGaussian()
