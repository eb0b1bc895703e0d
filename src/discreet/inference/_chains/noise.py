"""The law of the noise on counts, as an analyst knows it: for inference, in floating point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import choice, real
from discreet._core.errors import ParameterError
from discreet.mechanisms.noise import NoiseLaw

__all__ = ["Noise"]

_TABLE = 1 << 22


@dataclass(frozen=True)
class Noise:
    """Independent noise, of whole numbers, with a known law.

    Raises ParameterError when the scale is not a positive number, or the law is unknown.

    ``law``, {"laplace", "gaussian"}: ``P(z)`` proportional to ``e^(-|z|/scale)`` or ``e^(-z^2/(2 scale^2))``, or a
    function that returns the logarithm of ``P(z)``, up to a constant, for an array of numbers.
    ``scale``: in records. Of a function's law: about its standard deviation.
    """

    law: str | Callable[[Floats], Floats]
    scale: float
    _cumulated: Floats | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        real("scale", self.scale, above=0)
        if not callable(self.law):
            choice("noise", self.law, ("laplace", "gaussian"))
        if self.law != "laplace" and (callable(self.law) or self.scale < 1000.0):
            if 2 * self.reach + 1 > _TABLE:
                raise ParameterError("a noise given as a function must have a scale of at most 50,000")
            log = np.asarray(self.log_pmf(np.arange(-self.reach, self.reach + 1, dtype=np.float64)))
            weights = np.exp(log - log.max())
            object.__setattr__(self, "_cumulated", np.cumsum(weights) / weights.sum())

    @classmethod
    def of(cls, law: NoiseLaw, scale: float) -> Noise:
        """Return a law of this library; one that has no formula here by its log-probabilities."""
        return cls(law.name if law.name in ("laplace", "gaussian") else partial(law.log_pmf, scale), scale)

    @property
    def reach(self) -> int:
        """Beyond this distance from where it is likeliest, the noise has a share below 1e-30 of the posterior."""
        return math.ceil(self.scale * (12.0 if self.law == "gaussian" else 40.0)) + 1

    @property
    def bounded(self) -> bool:
        """Whether the posterior's noise can be looked for within ``reach`` alone; not known of a given function."""
        return not callable(self.law)

    def log_pmf(self, values: Floats) -> Floats:
        """Return the log-probability of noise values, up to a constant."""
        if callable(self.law):
            return np.asarray(self.law(values), dtype=np.float64)
        if self.law == "laplace":
            return np.asarray(np.abs(values) / -self.scale)
        return np.asarray((values * values) / (-2.0 * self.scale * self.scale))

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Draw noise. Gaussian noise of scale 1000 or more is rounded: its law is then off by less than 1e-7."""
        if self.law == "laplace":
            success = -math.expm1(-1.0 / self.scale)
            return rng.geometric(success, size=shape) - rng.geometric(success, size=shape)
        if self._cumulated is None:
            return np.rint(rng.normal(0.0, self.scale, size=shape)).astype(np.int64)
        return np.searchsorted(self._cumulated, rng.random(shape)).astype(np.int64) - self.reach
