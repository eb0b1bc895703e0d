"""Exact profiles of counts with discrete noise of which some change by ``g``: two of them (T6), or several (T9, T16).

The continuous Laplace and Gaussian profiles are not used: on integers they understate the loss (discrete Gaussian of
scale 0.6, one replacement, eps = 1: 0.662 against 0.627). See docs/theory/perturbed-histogram.md and, for more than two
counts, docs/theory/hierarchical-histogram.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.numeric import above, up, written
from discreet.privacy._profile import Profile

_NOTHING = 60.0  # standard deviations beyond which no noise is left in a float
_FINEST = 64  # losses kept apart in one count, where more than two are convolved


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplacePair(Profile):
    """Profile of counts with discrete Laplace noise, ``P(Z = z) = (1-r)/(1+r) r^|z|``, ``r = e^(-1/scale)``.

    Parameters
    ----------
    scale : float
        Scale of the noise in records, positive.
    group : int
        Number ``g`` of records that change, at least 1.
    counts : int
        Number of counts that change by ``g``, each up or down, at least 1: two where a record is replaced.

    Notes
    -----
    One count's loss is ``(g - 2i)/scale`` with probability ``P(Z <= 0) = 1/(1+r)`` for ``i = 0``, ``P(Z = i)`` for
    ``0 < i < g``, ``P(Z >= g) = r^g/(1+r)`` for ``i = g``; the counts' losses are independent. For ``g = 1`` and two
    counts: ``delta(eps) = (1 - e^(eps - 2/scale))_+ / (1+r)^2``. With more counts and ``g > 64``, a count's loss is
    rounded up to one of at most 65 values: an upper bound.
    """

    furthest: ClassVar[float] = 1e18

    scale: float
    group: int = 1
    counts: int = 2

    @property
    def exact(self) -> bool:
        """Unless losses are rounded: the sum is finite."""
        return self._step == 1

    @property
    def pure(self) -> float:
        """``g counts / scale``, a rational number: the least float whose decimal it does not exceed."""
        return _quotient(self.group * self.counts, self.scale)

    @property
    def _step(self) -> int:
        return 1 if self.counts <= 2 else -(-self.group // _FINEST)

    def _delta(self, epsilon: float) -> float:
        g, step = self.group, self._step
        # index i stands for the loss of step * (i // step), which is at least its own
        one = np.add.reduceat(laplace_losses(self.scale, g), np.arange(0, g + 1, step))
        law = one
        for _ in range(self.counts - 1):
            law = np.convolve(law, one)
        # the losses above epsilon, (counts g - 2 step i)/scale: the last of them, counted back from there
        last, gap = last_above(epsilon, self.counts * g, 2 * step, Fraction(self.scale))
        last = min(last, len(law) - 1)
        loss_less_epsilon = gap + np.arange(last, -1, -1) * (2.0 * step / self.scale)
        # of the further convolutions: all terms are positive
        rounding = 1.0 + 2.0**-52 * len(one) * max(0, self.counts - 2)
        return up(float(law[: last + 1] @ -np.expm1(-loss_less_epsilon)) * rounding, 8 * (g + 1))


@lru_cache(maxsize=1024)
def _quotient(numerator: int, scale: float) -> float:
    return above(numerator / Fraction(scale))


def last_above(epsilon: float, top: int | Fraction, step: int, per: Fraction) -> tuple[int, float]:
    """Return the last ``i`` with ``(top - step i)/per > epsilon``, and by how much: exactly, then rounded."""
    room = (top - written(epsilon) * per) / step
    last = -(-room.numerator // room.denominator) - 1  # the largest integer below
    return last, float((room - last) * step / per)


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
    """Profile of counts with discrete Gaussian noise, ``P(Z = z)`` proportional to ``e^(-z^2 / (2 scale^2))``.

    Parameters
    ----------
    scale : float
        The parameter ``sigma`` of the noise in records, positive.
    group : int
        Number ``g`` of records that change, at least 1.
    counts : int
        Number of counts that change by ``g``, each up or down, at least 1: two where a record is replaced.
    tight : bool
        Whether some neighbours attain it.

    Notes
    -----
    The loss is ``(K g^2/2 - g W)/scale^2`` with ``W`` the sum of the ``K`` counts' noises:
    ``P(W = w) = Theta_(w mod K) e^(-w^2/(2 K scale^2))``, see :func:`_residues`.
    """

    furthest: ClassVar[float] = 1e18

    scale: float
    group: int = 1
    counts: int = 2
    tight: bool = True

    def _delta(self, epsilon: float) -> float:
        s2, g, counts = self.scale**2, self.group, self.counts
        spread = math.sqrt(counts) * self.scale  # of W
        # the largest w with (counts g^2/2 - g w)/scale^2 above epsilon, and by how much: the others follow from there
        top, gap = last_above(epsilon, Fraction(counts * g * g, 2), g, Fraction(self.scale) ** 2)
        if -top > _NOTHING * spread + 1.0:
            return 0.0
        theta = _residues(self.scale, counts)
        chunk = min(1 << 18, max(256, int(12 * spread)))
        value, done = 0.0, 0
        while True:
            back = np.arange(done, done + chunk, dtype=np.float64)
            w = top - back
            mass = np.exp(-(w * w) / (2.0 * counts * s2)) * theta[w.astype(np.int64) % counts]
            part = mass * -np.expm1(-(gap + back * (g / s2)))
            value += float(part.sum())
            done += chunk
            # below the mode of W the terms fall faster than geometrically
            if (top < done and part[-1] * chunk <= 1e-17 * value) or top - done < -60.0 * spread - 80.0:
                return up(value * (1.0 + 1e-12 + 3e-14 * counts), 8)


def _residues(scale: float, counts: int) -> npt.NDArray[np.float64]:
    """Return ``Theta_c = P(W = w) e^(w^2/(2 K scale^2))``, ``c = w mod K``, ``W`` the sum of ``K`` discrete Gaussians.

    Completing the square, ``Theta_c`` is proportional to the sum of ``e^(-|z|^2/(2 scale^2))`` over a lattice shifted
    by ``c``. From scale 2 upwards it is constant to within a relative ``2.1 K e^(-pi^2 scale^2)`` (Poisson summation);
    below, the law is convolved, whose terms are all positive.
    """
    variance = counts * scale * scale
    if scale >= 2.0:
        return np.full(counts, 1.0 / math.sqrt(2.0 * math.pi * variance))
    reach = max(math.ceil(13.0 * scale), counts) + 1  # leaves out a relative 1e-36
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    one = np.exp(-(z * z) / (2.0 * scale * scale))
    one /= one.sum()
    law = one
    for _ in range(counts - 1):
        law = np.convolve(law, one)
    c = np.arange(counts)
    c = np.where(2 * c > counts, c - counts, c)  # the likeliest of each residue
    mass = law[len(law) // 2 + c]
    with np.errstate(divide="ignore"):  # a residue too rare for a float is left out
        return np.asarray(np.exp(np.log(mass) + c * c / (2.0 * variance)))
