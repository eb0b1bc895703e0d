"""A bound on the profile of noisy tables, some with a count for every label that is held, kept above a threshold (T20).

Theory: docs/theory/marginals.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from discreet._core.numeric import up
from discreet.privacy._noise_pairs import DiscreteGaussianPair
from discreet.privacy._profile import Profile

_LEAST = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedGaussian(Profile):
    r"""Bound on the profile of noisy counts, some of which are of labels that are kept where they reach a threshold.

    ``noise``: of all counts that change, those of the labels that are kept among them; its scale is that of one unit,
    its group the number ``g`` of records that change.
    ``q``: a label's count is multiplied by ``q^2``, and its noise has ``q`` times the scale.
    ``threshold``: least noisy count that is released, ``t``, in records.
    ``columns``: number ``k`` of columns with labels.

    Notes
    -----
    A label that ``p`` records hold appears with probability ``s_p = P(Z >= q^2 (t - p))``. Put ``f_p = -log(1 - s_p)``
    and ``F = max(f_g, g f_1)``. Then ``delta(eps) = S + (1 - S) H(eps)``, where ``S = 1 - e^(-k F)`` and ``H`` is the
    profile of the noise. The tail of the noise is bounded by that of a normal variable, from half a step further in.
    """

    furthest: ClassVar[float] = 1e18

    noise: DiscreteGaussianPair
    q: int
    threshold: int
    columns: int

    def appears(self, held: int) -> float:
        """Return ``s_p``, rounded up, of a label that so many records hold."""
        scale = self.q * self.noise.scale
        start = self.q * self.q * (self.threshold - held) - 0.5
        if start < scale:  # where the density is not convex
            return 1.0
        return max(_LEAST, min(1.0, 0.5 * math.erfc(start / (scale * math.sqrt(2.0))) * (1.0 + 1e-12)))

    @property
    def lost(self) -> float:
        """``S``, rounded up: the probability that a label tells of the records that change."""
        group = self.noise.group
        alone, together = self.appears(1), self.appears(group)
        if together >= 1.0:
            return 1.0
        least = min(math.log1p(-together), group * math.log1p(-alone))
        return min(1.0, up(-math.expm1(self.columns * least), 16))

    def whole(self, delta: float) -> float:
        """Return the delta of everything, given that of the noise."""
        lost = self.lost
        return min(1.0, up(lost + (1.0 - lost) * delta, 8))

    def _delta(self, epsilon: float) -> float:
        return self.whole(self.noise.delta(epsilon))
