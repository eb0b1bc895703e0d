"""Readings of noisy counts: public post-processing that turns them into probabilities, one per file.

A projection is added by its file and its line here: every mechanism of noisy counts can then be asked for it
(``perturbed-histogram`` by its ``projection``), and its posterior comes with it.
"""

from __future__ import annotations

from discreet.mechanisms.readings._projection import Projection
from discreet.mechanisms.readings.bounded_lipschitz import BoundedLipschitz
from discreet.mechanisms.readings.clip import Clip
from discreet.mechanisms.readings.l1 import L1
from discreet.mechanisms.readings.simplex import Simplex
from discreet.mechanisms.readings.w1 import W1

__all__ = ["L1", "PROJECTIONS", "W1", "BoundedLipschitz", "Clip", "Projection", "Simplex"]

PROJECTIONS: dict[str, type[Projection]] = {kind.name: kind for kind in (Clip, Simplex, L1, W1, BoundedLipschitz)}
"""Projections by their public names."""
