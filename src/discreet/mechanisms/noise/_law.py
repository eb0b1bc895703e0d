"""What every law of noise says, and exact draws from a generator's bytes.

OpenDP draws from the operating system and cannot be seeded: it draws the noise of releases. Seeded runs draw from the
same law with integers, by Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020),
algorithms 1 to 3: rejection with Bernoulli(exp(-p/q)) trials made of uniform integers. That is slower, and is never
used for a publishable release.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import real
from discreet._core.random import SecureGenerator
from discreet.privacy import Profile


class NoiseLaw(ABC):
    """Independent integers, symmetric about zero, with one scale in records.

    Attributes
    ----------
    name : str
        Public name.
    largest_scale : float
        That may be asked for; the least is ``2^-10``.
    pure : bool
        Whether a pure epsilon can be had.
    """

    name: ClassVar[str]
    largest_scale: ClassVar[float]
    pure: ClassVar[bool] = False

    def checked(self, scale: Any) -> float:
        """Return a scale as a number.

        Raises
        ------
        ParameterError
            When it is out of range.
        """
        return real("scale", scale, least=2.0**-10, most=self.largest_scale)

    def draw(self, scale: float, count: int, *, rng: np.random.Generator) -> Integers:
        """Draw independent integers whose law is exact for the rational number that the scale is.

        Parameters
        ----------
        scale : float
            Positive.
        count : int
            Number of draws.
        rng : numpy.random.Generator
            A secure generator selects OpenDP's sampler, fed by the operating system; any other one feeds ours.
        """
        if isinstance(rng, SecureGenerator):
            return self._secure(scale, count)
        draws, exact = ExactDraws(rng), Fraction(scale)
        return np.array([self._exact(exact, draws) for _ in range(count)], dtype=np.int64)

    @abstractmethod
    def _secure(self, scale: float, count: int) -> Integers:
        """Draw with OpenDP."""

    @abstractmethod
    def _exact(self, scale: Fraction, draws: ExactDraws) -> int:
        """Draw one integer exactly."""

    @abstractmethod
    def approximate(self, scale: float, count: int, *, rng: np.random.Generator) -> Integers:
        """Draw integers of nearly the same law, quickly, in floating point: for predictions, never for a release."""

    @abstractmethod
    def log_pmf(self, scale: float, z: Any) -> Floats:
        """Return the log-probabilities of noise values ``z``."""

    @abstractmethod
    def reach(self, scale: float) -> int:
        """Return how far from zero all but 1e-14 of the noise lies."""

    @abstractmethod
    def standard_deviation(self, scale: float) -> float:
        """Return the standard deviation or, at scales of a few records, a number above it."""

    @abstractmethod
    def mean_absolute(self, scale: float) -> float:
        """Return ``E|Z|`` or, at scales of a few records, a number above it: what is stated of a release is a bound."""

    @abstractmethod
    def profile(self, scale: float, *, group: int, counts: int) -> Profile:
        """Return the profile of ``counts`` counts that change by ``group`` each, some up and some down.

        It bounds every change of so many records, those too in which they leave one cell for several others. Where no
        tables attain it, it is not exact.

        Parameters
        ----------
        scale : float
            Of the noise.
        group : int
            Records that are replaced, added or removed.
        counts : int
            Counts that change.
        """


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


def opendp_vector() -> Any:
    """Return OpenDP's domain of integer vectors; not through its prelude, which loads every optional package."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")
    return vector_domain(atom_domain(T="i64"))
