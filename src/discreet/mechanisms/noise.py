"""Laws of discrete noise, each a class and a line in ``LAWS``: exact draws, probabilities, and the privacy profile."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.errors import choice, real
from discreet._core.numeric import Floats, Integers
from discreet._core.random import ApproximateGenerator, SecureGenerator
from discreet.privacy import DiscreteGaussianPair, DiscreteLaplacePair, Profile

# OpenDP draws the noise of releases, and cannot be seeded. Seeded runs, never published, draw from the same law with
# integers: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1 to 3.


class NoiseLaw(ABC):
    """Independent integers, symmetric about zero, with one scale in records, from 2^-10 to ``largest_scale``."""

    name: ClassVar[str]
    largest_scale: ClassVar[float]
    pure: ClassVar[bool] = False  # whether a pure epsilon can be had
    tail: ClassVar[float]  # scales beyond which lies 1e-14 of the noise
    pair: ClassVar[type[DiscreteGaussianPair | DiscreteLaplacePair]]  # profile of T6
    _metric: ClassVar[tuple[str, str]]

    def checked(self, scale: Any) -> float:
        """Return a scale as a number. Raises ParameterError when it is out of range."""
        return real("scale", scale, least=2.0**-10, most=self.largest_scale)

    def draw(self, scale: float, count: int, *, rng: np.random.Generator) -> Integers:
        """Draw integers of exactly the law: by OpenDP where secure, quick ones of nearly that law in forecasts."""
        if isinstance(rng, ApproximateGenerator):
            return self.approximate(scale, count, rng=rng)
        if isinstance(rng, SecureGenerator):
            return self._secure(scale, count)
        draws, exact = ExactDraws(rng), Fraction(scale)
        return np.array([self._exact(exact, draws) for _ in range(count)], dtype=np.int64)

    def _secure(self, scale: float, count: int) -> Integers:
        """Draw with OpenDP; not through its prelude, which loads every optional package."""
        from opendp import measurements, metrics
        from opendp.domains import atom_domain, vector_domain
        from opendp.mod import enable_features

        enable_features("contrib")
        (distance, kind), vector = self._metric, vector_domain(atom_domain(T="i64"))
        draw = getattr(measurements, f"make_{self.name}")(vector, getattr(metrics, distance)(T=kind), scale)
        return np.asarray(draw([0] * count), dtype=np.int64)

    @abstractmethod
    def _exact(self, scale: Fraction, draws: ExactDraws) -> int:
        """Draw one integer exactly."""

    @abstractmethod
    def approximate(self, scale: float, count: int, *, rng: np.random.Generator) -> Integers:
        """Draw integers of nearly the same law, quickly, in floating point: for predictions, never for a release."""

    @abstractmethod
    def log_pmf(self, scale: float, z: Any) -> Floats:
        """Return the log-probabilities of noise values ``z``."""

    def reach(self, scale: float) -> int:
        """Return how far from zero all but 1e-14 of the noise lies."""
        return math.ceil(scale * self.tail) + 1

    @abstractmethod
    def log_below(self, scale: float, below: int) -> float:
        """Return ``log P(Z < below)``."""

    def log_thresholded(self, scale: float, counts: Any, noisy: Any, threshold: int) -> float:
        """Return the log-probability of what is released of counts where noise lifts them to a threshold; 0 of none."""
        counts, noisy = np.asarray(counts, dtype=np.int64), np.asarray(noisy, dtype=np.int64)
        released = noisy != 0
        if (noisy[released] < threshold).any():
            return -math.inf
        below = [n * self.log_below(scale, threshold - c) for c, n in Counter(counts[~released].tolist()).items()]
        return float(self.log_pmf(scale, (noisy - counts)[released]).sum()) + sum(below)

    @abstractmethod
    def standard_deviation(self, scale: float) -> float:
        """Return the standard deviation or, at scales of a few records, a number above it."""

    @abstractmethod
    def mean_absolute(self, scale: float) -> float:
        """Return ``E|Z|`` or, at scales of a few records, a number above it: what is stated of a release is a bound."""

    def profile(self, scale: float, *, group: int, counts: int) -> Profile:
        """Return the profile of ``counts`` counts that change by ``group`` each, which bounds all such changes."""
        return self.pair(scale=scale, group=group, counts=counts)


class ExactDraws:
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


class DiscreteLaplace(NoiseLaw):
    """``P(z)`` proportional to ``e^(-|z|/scale)``: pure ``epsilon = counts * group / scale``."""

    name: ClassVar[str] = "laplace"
    largest_scale: ClassVar[float] = 1e9
    pure: ClassVar[bool] = True
    tail: ClassVar[float] = 34.0
    pair: ClassVar[type[DiscreteLaplacePair]] = DiscreteLaplacePair
    _metric: ClassVar[tuple[str, str]] = ("l1_distance", "i64")

    def _exact(self, scale: Fraction, draws: ExactDraws) -> int:
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
            if magnitude or not negative:
                return magnitude * (1 - 2 * negative)

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

    def standard_deviation(self, scale: float) -> float:
        """Return the exact one."""
        return math.sqrt(0.5) / math.sinh(0.5 / scale) if scale > 0.002 else 0.0

    def mean_absolute(self, scale: float) -> float:
        """Return the exact ``1 / sinh(1 / scale)``."""
        return 1.0 / math.sinh(1.0 / scale) if scale > 0.002 else 0.0


LAPLACE = DiscreteLaplace()


class DiscreteGaussian(NoiseLaw):
    """``P(z)`` proportional to ``e^(-z^2/(2 scale^2))``, for several counts and delta above 0."""

    name: ClassVar[str] = "gaussian"
    largest_scale: ClassVar[float] = 1e6
    tail: ClassVar[float] = 8.5
    pair: ClassVar[type[DiscreteGaussianPair]] = DiscreteGaussianPair
    _metric: ClassVar[tuple[str, str]] = ("l2_distance", "f64")

    def _exact(self, scale: Fraction, draws: ExactDraws) -> int:
        variance = scale * scale
        t = math.floor(scale) + 1
        while True:
            y = LAPLACE._exact(Fraction(t), draws)
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

    def standard_deviation(self, scale: float) -> float:
        """Return ``scale``, at least the true one."""
        return scale

    def mean_absolute(self, scale: float) -> float:
        """Return the normal variable's, above the true one by about ``1/(12 scale^2)`` of it."""
        return scale * math.sqrt(2.0 / math.pi)


GAUSSIAN = DiscreteGaussian()

LAWS: dict[str, NoiseLaw] = {law.name: law for law in (LAPLACE, GAUSSIAN)}
"""Laws by their public names."""


def law_named(name: object) -> NoiseLaw:
    """Return the law of a name. Raises ParameterError when there is none."""
    return LAWS[choice("noise", name, LAWS)]
