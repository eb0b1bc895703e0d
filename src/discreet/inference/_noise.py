"""The law of the noise on counts, as an analyst knows it: for inference, in floating point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import choice, real
from discreet.mechanisms.noise import NoiseLaw


@dataclass(frozen=True)
class Noise:
    """Independent noise with a known law.

    Raises ParameterError when the scale is not a positive number, or the law is unknown.

    ``law``, {"laplace", "gaussian"}: ``P(z)`` proportional to ``e^(-|z|/scale)`` or ``e^(-z^2/(2 scale^2))``, or a
    function that returns the logarithm of ``P(z)``, up to a constant, for an array of numbers.
    ``scale``: in records. Of a function's law: about its standard deviation.
    """

    law: str | Callable[[Floats], Floats]
    scale: float

    def __post_init__(self) -> None:
        real("scale", self.scale, above=0)
        if not callable(self.law):
            choice("noise", self.law, ("laplace", "gaussian"))

    @classmethod
    def of(cls, law: NoiseLaw, scale: float) -> Noise:
        """Return a law of this library; one that has no formula here by its log-probabilities."""
        return cls(law.name if law.name in ("laplace", "gaussian") else partial(law.log_pmf, scale), scale)

    @property
    def reach(self) -> float:
        """Beyond this distance from where it is likeliest, the noise has a share below 1e-17 of the posterior."""
        return self.scale * (9.0 if self.law == "gaussian" else 40.0) + 1.0

    @property
    def spread(self) -> float:
        """About its standard deviation."""
        return self.scale * (math.sqrt(2.0) if self.law == "laplace" else 1.0)

    def log_pmf(self, values: Floats) -> Floats:
        """Return the log-probability of noise values, up to a constant."""
        if callable(self.law):
            return np.asarray(self.law(values), dtype=np.float64)
        if self.law == "laplace":
            return np.asarray(np.abs(values) / -self.scale)
        return np.asarray((values * values) / (-2.0 * self.scale * self.scale))

    @cached_property
    def log_whole(self) -> float:
        """The logarithm of the sum of what :meth:`log_pmf` gives for all whole numbers."""
        if self.law == "laplace":
            return -math.log(math.tanh(0.5 / self.scale))
        if self.law == "gaussian" and self.scale > 5.0:  # the sum is the integral, to all digits
            return math.log(self.scale * math.sqrt(2.0 * math.pi))
        numbers = np.arange(-math.ceil(self.reach), math.ceil(self.reach) + 1.0)
        return float(np.log(np.exp(self.log_pmf(numbers)).sum()))

    def below(self, numbers: Integers) -> Floats:
        """Return the probability of noise below whole numbers."""
        each = np.exp(self.log_pmf(np.arange(-math.ceil(self.reach), math.ceil(self.reach) + 1.0)) - self.log_whole)
        cumulated = np.concatenate(([0.0], np.cumsum(each)))
        return np.asarray(cumulated[np.clip(numbers + math.ceil(self.reach), 0, len(each))])
