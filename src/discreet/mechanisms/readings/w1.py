"""Wasserstein-1 projection on the line (theorem T14)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from discreet._core.arrays import Floats
from discreet.mechanisms._base import CellCounts
from discreet.mechanisms._cells import Cells
from discreet.mechanisms._line_transport import isotonic
from discreet.mechanisms.readings._projection import Projection, Surplus


class W1(Projection):
    """The nearest probabilities in Wasserstein-1 distance, for the cells of one ordered column.

    Notes
    -----
    The counts are first shifted, each by as much, onto the public total: the noise of their sums is then a bridge tied
    down at both ends, not a walk that wanders off towards the last cells. What is nearest to the shifted counts is what
    filling their deficits from their supplies keeps (T14).
    """

    name: ClassVar[str] = "w1"
    surplus: ClassVar[Surplus] = "moved"

    @classmethod
    def unsuited(cls, cells: Cells) -> str | None:
        """Return what is needed, unless the cells lie on a line."""
        return None if cells.line() is not None else "a single ordered column without a null cell"

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the projections of ``y / total``."""
        shifted = y + (self.total - y.sum(axis=-1, keepdims=True)) / y.shape[-1]
        walk = np.cumsum(shifted / self.total, axis=-1)
        sums = np.clip(isotonic(walk[..., :-1], np.diff(self.cells.line())), 0.0, walk[..., -1:])  # type: ignore[arg-type]
        kept = np.maximum(np.diff(sums, axis=-1, prepend=0.0, append=walk[..., -1:]), 0.0)
        return np.asarray(kept / kept.sum(axis=-1, keepdims=True))
