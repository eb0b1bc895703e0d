"""Projection onto the simplex in L1, of the many nearest ones that which keeps the largest cells' shares."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from discreet._core.arrays import Floats
from discreet.mechanisms._base import CellCounts
from discreet.mechanisms.readings._projection import Projection


class L1(Projection):
    """Probabilities nearest to the noisy shares in L1.

    Notes
    -----
    Probabilities are nearest exactly when they are nowhere above ``max(counts, 0) / total``, or nowhere below it. So
    clipping and the Euclidean projection give a nearest one too; both take what positive noise has added to empty cells
    from all cells. Here a surplus of the sum of the counts is taken from all cells alike, and what clipping adds to it
    from the smallest positive cells, which are the likeliest to be noise; equal cells stay equal. A lack is given to
    all cells alike. Proof: docs/theory/laplace-projection-sampler.md.
    """

    name: ClassVar[str] = "l1"

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the projections of ``y / total``."""
        k = y.shape[-1]
        positive = np.maximum(y - np.maximum(0.0, (y.sum(axis=-1, keepdims=True) - self.total) / k), 0.0)
        order = np.argsort(positive, axis=-1)
        values = np.take_along_axis(positive, order, axis=-1)
        sums = np.cumsum(values, axis=-1)
        surplus = sums[..., -1:] - self.total
        # Cells of one value are a group: its first and last place in the order, and what it holds.
        place = np.arange(k)
        new = np.diff(values, axis=-1, prepend=-1.0) > 0.0
        first = np.maximum.accumulate(np.where(new, place, 0), axis=-1)
        ends = np.append(new[..., 1:], np.ones((*values.shape[:-1], 1), np.bool_), axis=-1)
        last = np.minimum.accumulate(np.where(ends, place, k)[..., ::-1], axis=-1)[..., ::-1]
        upto = np.take_along_axis(sums, last, axis=-1)
        mass = values * (last - first + 1)
        share = np.divide(upto - surplus, mass, out=np.zeros_like(mass), where=values > 0.0)
        kept = np.empty_like(values)
        np.put_along_axis(kept, order, values * np.clip(share, 0.0, 1.0), axis=-1)
        projected = np.where(surplus < 0.0, positive - surplus / k, kept)
        return np.asarray(projected / projected.sum(axis=-1, keepdims=True))
