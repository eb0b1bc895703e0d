"""Clip at zero and normalise: the papers' way (PY26, Appendix A.2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from discreet._core.arrays import Floats
from discreet.mechanisms._base import CellCounts
from discreet.mechanisms.readings._projection import Projection, Surplus


class Clip(Projection):
    """``max(y, 0)`` divided by its sum; the base measure where nothing is left."""

    name: ClassVar[str] = "clip"
    surplus: ClassVar[Surplus] = "rescaled"

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the positive parts, normalised."""
        positive = np.maximum(y, 0).astype(np.float64)
        sums = positive.sum(axis=-1, keepdims=True)
        if (sums > 0.0).all():
            return np.asarray(positive / sums)
        return np.where(sums > 0.0, positive / np.where(sums > 0.0, sums, 1.0), self.cells.base())
