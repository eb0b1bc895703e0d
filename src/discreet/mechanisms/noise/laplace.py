"""Discrete Laplace noise: ``P(z)`` proportional to ``e^(-|z|/scale)``.

Theory: docs/theory/perturbed-histogram.md (theorem T6).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.mechanisms.noise._law import ExactDraws, NoiseLaw, opendp_vector
from discreet.privacy import DiscreteLaplacePair, Profile


class DiscreteLaplace(NoiseLaw):
    """Pure ``epsilon = counts * group / scale``."""

    name: ClassVar[str] = "laplace"
    largest_scale: ClassVar[float] = 1e9
    pure: ClassVar[bool] = True

    def _secure(self, scale: float, count: int) -> Integers:
        vector = opendp_vector()
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance

        return np.asarray(make_laplace(vector, l1_distance(T="i64"), scale)([0] * count), dtype=np.int64)

    def _exact(self, scale: Fraction, draws: ExactDraws) -> int:
        return laplace_draw(scale, draws)

    def approximate(self, scale: float, count: int, *, rng: np.random.Generator) -> Integers:
        """Return the difference of two geometric variables."""
        success = -math.expm1(-1.0 / scale)
        return rng.geometric(success, size=count) - rng.geometric(success, size=count)

    def log_pmf(self, scale: float, z: Any) -> Floats:
        """Return ``log tanh(1 / (2 scale)) - |z| / scale``."""
        return np.asarray(math.log(math.tanh(0.5 / scale)) - np.abs(np.asarray(z, dtype=np.float64)) / scale)

    def log_below(self, scale: float, below: int) -> float:
        """Return ``log P(Z < below)``."""
        r = math.exp(-1.0 / scale)
        if below > 0:
            return math.log1p(-math.exp(-below / scale) / (1.0 + r))
        return -(1 - below) / scale - math.log1p(r)

    def reach(self, scale: float) -> int:
        """Return about 34 scales."""
        return math.ceil(scale * 34.0) + 1

    def standard_deviation(self, scale: float) -> float:
        """Return the exact one."""
        return math.sqrt(0.5) / math.sinh(0.5 / scale) if scale > 0.002 else 0.0

    def mean_absolute(self, scale: float) -> float:
        """Return the exact ``1 / sinh(1 / scale)``."""
        return 1.0 / math.sinh(1.0 / scale) if scale > 0.002 else 0.0

    def profile(self, scale: float, *, group: int, counts: int) -> Profile:
        """Return the profile of T6."""
        return DiscreteLaplacePair(scale=scale, group=group, counts=counts)


def laplace_draw(scale: Fraction, draws: ExactDraws) -> int:
    """Draw exactly."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = draws.below(t)
        if not draws.bernoulli_exp(u, t):
            continue
        v = 0
        while draws.bernoulli_exp(1, 1):
            v += 1
        magnitude = (u + t * v) // s
        negative = bool(draws.below(2))
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


LAPLACE = DiscreteLaplace()
