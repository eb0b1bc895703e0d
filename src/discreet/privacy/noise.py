"""Exact profiles of additive noise, Laplace and Gaussian, with and without a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.numeric import above, up, written
from discreet.privacy.profile import Profile

# Exact profiles of counts with discrete noise of which two change by ``g`` (docs/theory/perturbed-histogram.md, T6), or
# several (hierarchical-histogram.md, T9, T16). The continuous profiles understate the loss on integers.

_NOTHING = 60.0  # standard deviations beyond which no noise is left in a float
_FINEST = 64  # losses kept apart in one count, where more than two are convolved


@sealed
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
        law = reduce(np.convolve, [one] * self.counts)
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
    law = np.exp(-np.arange(shift + 1) / scale) / (1.0 + r)
    law[1:shift] *= -math.expm1(-1.0 / scale)
    return law


_NODES, _BLOCKS = 16, 64  # of a sum over many terms: nodes per block, and blocks that are held at once
_SMOOTH = 2.0  # the least scale from which on a sum of discrete Gaussians has no residues


@sealed
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
        nodes, weights = np.arange(chunk, dtype=np.float64), np.ones(chunk)
        block = int(spread / (4.0 * max(1.0, g * counts / spread)))  # the terms hardly bend within it
        if self.scale >= _SMOOTH and block > _NODES:
            nodes, weights = _discrete_gauss(block)
            chunk = _BLOCKS * block
            nodes = (block * np.arange(_BLOCKS, dtype=np.float64)[:, None] + nodes).ravel()
            weights = np.tile(weights, _BLOCKS)
        value, done = 0.0, 0
        while True:
            back = done + nodes
            w = top - back
            weight = theta[w.astype(np.int64) % counts] if self.scale < _SMOOTH else theta[0]
            mass = np.exp(-(w * w) / (2.0 * counts * s2)) * weight
            part = weights * mass * -np.expm1(-(gap + back * (g / s2)))
            value += float(part.sum())
            done += chunk
            # below the mode of W the terms fall faster than geometrically
            if (top < done and part[-1] * chunk <= 1e-17 * value) or top - done < -60.0 * spread - 80.0:
                return up(value * (1.0 + 1e-12 + 3e-14 * counts), 8)


@lru_cache(maxsize=256)
def _discrete_gauss(block: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return nodes and weights whose sum is that over 0, .., block - 1, exactly for polynomials of degree 31."""
    # The nodes are the eigenvalues of the Jacobi matrix of the discrete Chebyshev polynomials. Of e^(ax) the relative
    # error is at most about (a block/4)^32/32!: 1e-23 where terms change by e^10 within a block, 1e-16 by e^16.
    k = np.arange(1, _NODES, dtype=np.float64)
    beside = 0.5 * np.sqrt(k * k * (float(block) ** 2 - k * k) / (4.0 * k * k - 1.0))
    values, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return values + 0.5 * (block - 1), block * vectors[0] ** 2


def _residues(scale: float, counts: int) -> npt.NDArray[np.float64]:
    """Return ``Theta_c = P(W = w) e^(w^2/(2 K scale^2))``, ``c = w mod K``, of a sum ``W`` of ``K`` noises."""
    # From scale 2 upwards it is constant to within a relative 2.1 K e^(-pi^2 scale^2): hierarchical-histogram.md.
    variance = counts * scale * scale
    if scale >= _SMOOTH:
        return np.full(counts, 1.0 / math.sqrt(2.0 * math.pi * variance))
    reach = max(math.ceil(13.0 * scale), counts) + 1  # leaves out a relative 1e-36
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    single = np.exp(-(z * z) / (2.0 * scale * scale))
    single /= single.sum()
    law = reduce(np.convolve, [single] * counts)
    c = np.arange(counts)
    c = np.where(2 * c > counts, c - counts, c)  # the likeliest of each residue
    mass = law[len(law) // 2 + c]
    with np.errstate(divide="ignore"):  # a residue too rare for a float is left out
        return np.asarray(np.exp(np.log(mass) + c * c / (2.0 * variance)))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedLaplace(Profile):
    """Profile of labels whose noisy count is released where the label is held and the noisy count reaches a threshold.

    T8 of docs/theory/stability-histogram.md, or T16; for groups above 16 a bound, at most twice the truth.
    """

    furthest: ClassVar[float] = 1e18
    largest_exact: ClassVar[int] = 16

    scale: float  # of the discrete Laplace noise, in records
    threshold: int  # ``t``, at least 2
    group: int = 1  # number ``g`` of records that change
    replaced: bool = True  # whether the records are replaced (T8), or added or removed (T16)
    tight: bool = True  # whether the table has enough records and labels for the worst neighbours to exist

    @property
    def exact(self) -> bool:
        """Whether some neighbours attain it, for groups of at most 16."""
        return self.tight and self.group <= self.largest_exact

    def _appears(self, held: int) -> float:
        """Return ``f_p = -log P(Z < t - p)`` of a label that ``p`` records hold."""
        below = self.threshold - held
        r = math.exp(-1.0 / self.scale)
        if below <= 0:
            return (1 - below) / self.scale + math.log1p(r)
        return -math.log1p(-math.exp(-below / self.scale) / (1.0 + r))

    def _moved(self, records: int) -> float:
        """Return ``F_u``, the most that ``u`` records can do to labels that no other record holds."""
        return max(self._appears(records), records * self._appears(1)) if records else 0.0

    def _delta(self, epsilon: float) -> float:
        g = self.group
        # Relative rounding error of every e^(-k/scale): the exponent's own, and a few more places.
        error = 1e-15 * (8.0 + self.threshold / self.scale)
        if g > self.largest_exact:
            lost = self._moved(g)
            losses = np.arange(2.0 * g, -2.0 * g - 1.0, -2.0) / self.scale
            gaps = losses - epsilon + 1e-15 * (np.abs(losses) + epsilon)
            losses_of = laplace_losses(self.scale, g)
            kept = _divergence(np.convolve(losses_of, losses_of), gaps)
            return up(min(1.0, (-math.expm1(-lost) + math.exp(-lost) * kept) * (1.0 + error)), 8 * (g + 1))
        # By how much a loss of k/scale exceeds epsilon, k from -2g to 2g: exactly, then rounded.
        scale, start = Fraction(self.scale), written(epsilon)
        unit, moved = scale.denominator * start.denominator, scale.numerator * start.numerator
        gaps = np.array([(k * unit - moved) / (scale.numerator * start.denominator) for k in range(-2 * g, 2 * g + 1)])
        value = 0.0
        for lost, gained, mass in _sides(self):
            most = len(mass) - 1  # the largest loss, in units of 1/scale; then in steps of two
            among = gaps[2 * g + most :: -2][: most + 1]
            between = gained - lost + error * (lost + gained) if lost != gained else 0.0
            value = max(value, -math.expm1(-lost) + math.exp(-lost) * _divergence(mass, among + between))
        return up(min(1.0, value * (1.0 + error)), 8 * (g + 1))


@lru_cache(maxsize=16)
def _sides(profile: ThresholdedLaplace) -> list[tuple[float, float, npt.NDArray[np.float64]]]:
    """Return, of every split, what the labels that go and that come tell, and the law of the losses of the others."""
    side = [(profile._moved(u), laplace_losses(profile.scale, profile.group - u)) for u in range(profile.group + 1)]
    nothing = [(0.0, np.ones(1))]
    pairs = product(side, side) if profile.replaced else [*product(side, nothing), *product(nothing, side)]
    return [(lost, gained, np.convolve(mass, twin)) for (lost, mass), (gained, twin) in pairs]


def _divergence(mass: npt.NDArray[np.float64], gaps: npt.NDArray[np.float64]) -> float:
    """Return the divergence of labels whose counts shift: ``gaps`` are the losses less epsilon, descending."""
    return float(mass @ -np.expm1(-np.maximum(0.0, gaps)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedGaussian(Profile):
    """Bound on the profile of noisy counts, some of them of labels that are kept where they reach a threshold (T20)."""

    furthest: ClassVar[float] = 1e18

    noise: DiscreteGaussianPair  # of all counts that change, at the scale of one unit; its group: records that change
    q: int  # a label's count is multiplied by ``q^2``, and its noise has ``q`` times the scale
    threshold: int  # ``t``, in records
    columns: int  # number ``k`` of columns with labels

    def appears(self, held: int) -> float:
        """Return the probability that a label that so many records hold appears, rounded up."""
        scale = self.q * self.noise.scale
        start = self.q * self.q * (self.threshold - held) - 0.5
        if start < scale:  # where the density is not convex
            return 1.0
        return max(1e-300, min(1.0, 0.5 * math.erfc(start / (scale * math.sqrt(2.0))) * (1.0 + 1e-12)))

    @property
    def lost(self) -> float:
        """``S``, rounded up: the probability that a label tells of the records that change."""
        group = self.noise.group
        alone, together = self.appears(1), self.appears(group)
        if together >= 1.0:
            return 1.0
        return min(1.0, up(-math.expm1(self.columns * min(math.log1p(-together), group * math.log1p(-alone))), 16))

    def whole(self, delta: float) -> float:
        """Return the delta of everything, given that of the noise."""
        lost = self.lost
        return min(1.0, up(lost + (1.0 - lost) * delta, 8))

    def _delta(self, epsilon: float) -> float:
        return self.whole(self.noise.delta(epsilon))
