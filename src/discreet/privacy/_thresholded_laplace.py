"""The exact profile of positive counts with discrete Laplace noise, released above a threshold (T8).

Theory: docs/theory/stability-histogram.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.numeric import up, written
from discreet.privacy._noise_pairs import laplace_losses
from discreet.privacy._profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedLaplace(Profile):
    r"""Profile of labels whose noisy count is released where the label is held and the noisy count reaches a threshold.

    ``scale``: scale of the discrete Laplace noise in records, positive.
    ``threshold``: least noisy count that is released, ``t``, at least 2.
    ``group``: number ``g`` of records that change, at least 1.
    ``replaced``: whether the records are replaced (T8), or added or removed (T16): one side of the maximum below at a
    time.
    ``tight``: whether the table has enough records and labels for the worst neighbours to exist.

    Notes
    -----
    A label held by ``p`` records appears with probability ``s_p = P(Z >= t - p)``; put ``f_p = -log(1 - s_p)`` and
    ``F_u = max(f_u, u f_1)``. Of the ``g`` records ``v`` take their labels with them and ``w`` bring new ones:

    ``delta(eps) = max over 0 <= v, w <= g of S_v + (1 - S_v) H(eps + F_v - F_w)``, ``S_v = 1 - e^(-F_v)``,

    where ``H`` is the divergence of one label that loses ``g - v`` records and one that gains ``g - w``. Where they are
    removed nothing is gained: ``w = g`` without ``F_w``; where they are added nothing is lost. For groups
    above ``largest_exact`` the bound ``S_g + (1 - S_g) H(eps)`` with ``v = w = 0`` in ``H`` is used, at most twice the
    truth.

    Examples
    --------
    >>> profile = ThresholdedLaplace(scale=2.0, threshold=42)
    >>> f"{profile.delta(1.0):.4g}"  # what the paper's threshold 2 log(1/delta)/eps + 1 calls 1.25e-9
    '7.782e-10'
    """

    furthest: ClassVar[float] = 1e18
    largest_exact: ClassVar[int] = 16

    scale: float
    threshold: int
    group: int = 1
    replaced: bool = True
    tight: bool = True

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
        per = scale.numerator * start.denominator
        gaps = np.array([(k * unit - moved) / per for k in range(-2 * g, 2 * g + 1)])
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
    pairs = product(side, side) if profile.replaced else (*product(side, nothing), *product(nothing, side))
    return [(lost, gained, np.convolve(one, other)) for (lost, one), (gained, other) in pairs]


def _divergence(mass: npt.NDArray[np.float64], gaps: npt.NDArray[np.float64]) -> float:
    """Return the divergence of labels whose counts shift: ``gaps`` are the losses less epsilon, descending."""
    return float(mass @ -np.expm1(-np.maximum(0.0, gaps)))
