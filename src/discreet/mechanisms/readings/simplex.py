"""Euclidean projection onto the probability simplex (Held, Wolfe and Crowder, 1974)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from discreet._core.arrays import Floats
from discreet.mechanisms._base import CellCounts
from discreet.mechanisms.readings._projection import Projection


class Simplex(Projection):
    """The nearest probabilities in Euclidean distance: ``max(v - tau, 0)`` with ``tau`` such that they sum to one."""

    name: ClassVar[str] = "simplex"

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the projections of ``y / total``."""
        return nearest_probabilities(y / self.total)


def nearest_probabilities(v: Floats) -> Floats:
    """Return the nearest probabilities to each row of numbers, in Euclidean distance."""
    descending = np.sort(v, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - 1.0) / np.arange(1, v.shape[-1] + 1)
    last = v.shape[-1] - 1 - np.argmax((descending > excess)[..., ::-1], axis=-1)
    projected = np.maximum(v - np.take_along_axis(excess, last[..., None], axis=-1), 0.0)
    return np.asarray(projected / projected.sum(axis=-1, keepdims=True))
