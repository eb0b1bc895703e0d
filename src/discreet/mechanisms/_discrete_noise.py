"""Exact discrete noise: OpenDP's samplers for releases, our own with the same law for seeded runs.

OpenDP draws from the operating system and cannot be seeded. The seeded sampler follows Canonne, Kamath and Steinke,
"The Discrete Gaussian for Differential Privacy" (2020), algorithms 1 to 3: rejection with Bernoulli(exp(-p/q)) trials
made of uniform integers, so that its law is exact too. It is slower and is never used for a publishable release.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from discreet._random import SecureGenerator

__all__ = [
    "NoiseKind",
    "approximate_noise",
    "discrete_noise",
    "log_laplace_below",
    "log_noise",
    "mean_absolute",
    "noise_reach",
    "standard_deviation",
]

NoiseKind = Literal["laplace", "gaussian"]


def discrete_noise(kind: NoiseKind, scale: float, count: int, *, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw ``count`` independent integers with ``P(z)`` proportional to ``e^(-|z|/scale)`` or ``e^(-z^2/(2 scale^2))``.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        Which of the two.
    scale : float
        Positive; the law is exact for the rational number that the float is.
    count : int
        Number of draws.
    rng : numpy.random.Generator
        A secure generator selects OpenDP's sampler, fed by the operating system; any other one feeds ours.
    """
    if isinstance(rng, SecureGenerator):
        return _from_opendp(kind, scale, count)
    draws = _Draws(rng)
    exact = Fraction(scale)
    draw = draws.laplace if kind == "laplace" else draws.gaussian
    return np.array([draw(exact) for _ in range(count)], dtype=np.int64)


def log_laplace_below(scale: float, below: int) -> float:
    """Return ``log P(Z < below)`` for the discrete Laplace law."""
    r = math.exp(-1.0 / scale)
    if below > 0:
        return math.log1p(-math.exp(-below / scale) / (1.0 + r))
    return -(1 - below) / scale - math.log1p(r)


def _from_opendp(kind: NoiseKind, scale: float, count: int) -> npt.NDArray[np.int64]:
    # not through opendp.prelude, which loads every optional package that is installed
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    vector = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        measurement = make_laplace(vector, l1_distance(T="i64"), scale)
    else:
        measurement = make_gaussian(vector, l2_distance(T="f64"), scale)
    return np.asarray(measurement([0] * count), dtype=np.int64)


class _Draws:
    """Exact integer sampling from a generator's bytes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def below(self, bound: int) -> int:
        """Return a uniform integer in ``[0, bound)``."""
        bits = (bound - 1).bit_length()
        if bits <= 62:
            return int(self._rng.integers(0, bound))
        while True:
            size = (bits + 7) // 8
            candidate = int.from_bytes(self._rng.bytes(size), "little") >> (8 * size - bits)
            if candidate < bound:
                return candidate

    def bernoulli_exp(self, numerator: int, denominator: int) -> bool:
        """Return true with probability ``exp(-numerator/denominator)``, for a non-negative ratio."""
        while numerator > denominator:
            if not self.bernoulli_exp(1, 1):
                return False
            numerator -= denominator
        k = 1
        while self.below(denominator * k) < numerator:
            k += 1
        return k % 2 == 1

    def laplace(self, scale: Fraction) -> int:
        """Return a discrete Laplace draw."""
        t, s = scale.numerator, scale.denominator
        while True:
            u = self.below(t)
            if not self.bernoulli_exp(u, t):
                continue
            v = 0
            while self.bernoulli_exp(1, 1):
                v += 1
            magnitude = (u + t * v) // s
            negative = bool(self.below(2))
            if not (negative and magnitude == 0):
                return -magnitude if negative else magnitude

    def gaussian(self, scale: Fraction) -> int:
        """Return a discrete Gaussian draw."""
        variance = scale * scale
        t = math.floor(scale) + 1
        while True:
            y = self.laplace(Fraction(t))
            gamma = (abs(y) - variance / t) ** 2 / (2 * variance)
            if self.bernoulli_exp(gamma.numerator, gamma.denominator):
                return y


def approximate_noise(kind: NoiseKind, scale: float, count: int, *, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw integers of nearly the same law, quickly and in floating point: for predictions, never for a release."""
    if kind == "gaussian":
        return np.rint(rng.normal(0.0, scale, size=count)).astype(np.int64)
    success = -math.expm1(-1.0 / scale)
    return rng.geometric(success, size=count) - rng.geometric(success, size=count)


def noise_reach(kind: NoiseKind, scale: float) -> int:
    """Return how far from zero all but 1e-14 of the noise lies."""
    return math.ceil(scale * (34.0 if kind == "laplace" else 8.5)) + 1


def standard_deviation(kind: NoiseKind, scale: float) -> float:
    """Return the noise's standard deviation: exact for Laplace, ``scale`` (at least the true one) for Gaussian."""
    if kind == "gaussian":
        return scale
    return math.sqrt(0.5) / math.sinh(0.5 / scale) if scale > 0.002 else 0.0


def log_noise(kind: NoiseKind, scale: float, z: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the log-probabilities of noise values ``z``."""
    values = np.abs(np.asarray(z, dtype=np.float64))
    result: npt.NDArray[np.float64]
    if kind == "laplace":
        result = math.log(math.tanh(0.5 / scale)) - values / scale
        return result
    reach = math.ceil(40.0 * scale) + 1
    if scale < 20.0:
        grid = np.arange(-reach, reach + 1, dtype=np.float64)
        log_total = math.log(np.exp(-(grid * grid) / (2.0 * scale * scale)).sum())
    else:
        log_total = math.log(scale) + 0.5 * math.log(2.0 * math.pi)  # relative error below e^(-2 pi^2 400)
    result = -(values * values) / (2.0 * scale * scale) - log_total
    return result


def mean_absolute(kind: NoiseKind, scale: float) -> float:
    """Return ``E|Z|`` of the noise, up to a relative 1e-6 (from above for the Gaussian below scale 1)."""
    if kind == "laplace":
        return 1.0 / math.sinh(1.0 / scale) if scale > 0.002 else 0.0
    return scale * math.sqrt(2.0 / math.pi)
