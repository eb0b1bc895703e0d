"""Exact profiles of counts with discrete noise (T6): the pair in which one cell gains ``g`` records and one loses them.

The continuous Laplace and Gaussian profiles are not used: on integers they understate the loss (discrete Gaussian of
scale 0.6, one replacement, eps = 1: 0.662 against 0.627). See docs/theory/perturbed-histogram.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet._numeric import up
from discreet.privacy._profile import Profile

__all__ = ["DiscreteGaussianPair", "DiscreteLaplacePair", "laplace_losses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplacePair(Profile):
    """Profile of two cells with discrete Laplace noise, ``P(Z = z) = (1-r)/(1+r) r^|z|``, ``r = e^(-1/scale)``.

    Parameters
    ----------
    scale : float
        Scale of the noise in records, positive.
    group : int
        Number ``g`` of records that change, at least 1.

    Notes
    -----
    One cell's loss is ``(g - 2i)/scale`` with probability ``P(Z <= 0) = 1/(1+r)`` for ``i = 0``, ``P(Z = i)`` for
    ``0 < i < g``, ``P(Z >= g) = r^g/(1+r)`` for ``i = g``; the two cells' losses are independent. For ``g = 1``:
    ``delta(eps) = (1 - e^(eps - 2/scale))_+ / (1+r)^2``.
    """

    scale: float
    group: int = 1

    @property
    def exact(self) -> bool:
        """Always: the sum is finite."""
        return True

    @property
    def pure(self) -> float:
        """``2 g / scale``, rounded up."""
        return up(2.0 * self.group / self.scale)

    def _delta(self, epsilon: float) -> float:
        g = self.group
        one = laplace_losses(self.scale, g)
        both = np.convolve(one, one)
        loss = (2.0 * g - 2.0 * np.arange(2 * g + 1)) / self.scale
        excess = np.minimum(0.0, epsilon - loss - 4e-16 * np.abs(loss))
        return up(float(both @ -np.expm1(excess)), 8 * (g + 1))


def laplace_losses(scale: float, shift: int) -> npt.NDArray[np.float64]:
    """Return the probabilities of the losses ``(shift - 2i)/scale``, ``i = 0 .. shift``, of one shifted cell."""
    if shift == 0:
        return np.ones(1)
    r = math.exp(-1.0 / scale)
    one = np.exp(-np.arange(shift + 1) / scale) / (1.0 + r)
    one[1:shift] *= -math.expm1(-1.0 / scale)
    return one


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianPair(Profile):
    """Profile of two cells with discrete Gaussian noise, ``P(Z = z)`` proportional to ``e^(-z^2 / (2 scale^2))``.

    Parameters
    ----------
    scale : float
        The parameter ``sigma`` of the noise in records, positive.
    group : int
        Number ``g`` of records that change, at least 1.

    Notes
    -----
    The loss is ``(g^2 - g W)/scale^2`` with ``W`` the sum of the two noises, whose law is in closed form:
    ``P(W = w) = e^(-w^2/(4 scale^2)) Theta_(w mod 2) / N^2``, ``Theta_0 = sum_z e^(-z^2/scale^2)``,
    ``Theta_1 = sum_z e^(-(z-1/2)^2/scale^2)``, ``N = sum_z e^(-z^2/(2 scale^2))``.
    """

    scale: float
    group: int = 1

    @property
    def exact(self) -> bool:
        """Always: the sum is taken until nothing is left of it."""
        return True

    def _delta(self, epsilon: float) -> float:
        s2, g = self.scale**2, self.group
        normaliser = _theta(2.0 * s2, 0.0) ** 2
        theta = np.array([_theta(s2, 0.0), _theta(s2, 0.5)]) / normaliser
        top = math.ceil(g - epsilon * s2 / g) + 1  # terms from here upwards are zero
        chunk = min(1 << 18, max(256, int(16 * self.scale)))
        value = 0.0
        while True:
            w = np.arange(top, top - chunk, -1, dtype=np.float64)
            loss = (g * g - g * w) / s2
            excess = np.minimum(0.0, epsilon - loss - 1e-15 * (np.abs(loss) + epsilon))  # the loss is rounded
            mass = np.exp(-(w * w) / (4.0 * s2)) * theta[np.abs(w).astype(np.int64) % 2]
            part = mass * -np.expm1(excess)
            value += float(part.sum())
            top -= chunk
            # below the mode of W the terms fall faster than geometrically
            if (top < 0 and part[-1] * chunk <= 1e-17 * value) or top < -80.0 * self.scale - 80.0:
                return up(value * (1.0 + 1e-12), 8)


def _theta(variance: float, shift: float) -> float:
    """Return ``sum_z exp(-(z - shift)^2 / variance)`` over the integers, for shift 0 or 1/2."""
    if variance > 25.0:  # Poisson summation: the next term is below 1e-100
        sign = 1.0 if shift == 0.0 else -1.0
        return math.sqrt(math.pi * variance) * (1.0 + 2.0 * sign * math.exp(-(math.pi**2) * variance))
    z = np.arange(-140, 141) - shift
    return float(np.exp(-(z * z) / variance).sum())
