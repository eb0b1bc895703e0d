"""Projection in bounded-Lipschitz distance, in the ground metric of the domain (theorem T14)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

from discreet._core.arrays import Floats
from discreet._core.text import counted
from discreet.mechanisms._base import CellCounts
from discreet.mechanisms._cells import Cells
from discreet.mechanisms.readings._projection import Projection, Surplus
from discreet.mechanisms.readings.w1 import W1

_MOST_ON_A_LINE = 1 << 20
_MOST_WORK = 1 << 31  # cells squared times coordinates: some seconds of projection


class BoundedLipschitz(Projection):
    """The probabilities nearest to the noisy shares, once these are shifted onto a total of one.

    On one ordered column it is the projection ``w1``, and takes no time.
    """

    name: ClassVar[str] = "bounded-lipschitz"
    surplus: ClassVar[Surplus] = "moved"

    @classmethod
    def unsuited(cls, cells: Cells) -> str | None:
        """Return what is needed: a metric, and few enough cells to be projected in seconds."""
        if cells.diameter == 0.0:
            return "a metric. Give a column of the domain a weight above 0"
        most = _MOST_ON_A_LINE if cells.coordinates == 1 else math.isqrt(_MOST_WORK // cells.coordinates)
        if cells.count <= most:
            return None
        return (
            f"at most {counted(most, 'cell')} in {cells.coordinates} coordinates (one per ordered column, one per "
            f"category of the others), got {cells.count:,}. Declare fewer cells, give fewer points, or use "
            "hierarchical-histogram"
        )

    @property
    def at_once(self) -> bool:
        """Whether the cells lie on a line."""
        return self._on_a_line is not None

    @cached_property
    def _on_a_line(self) -> W1 | None:
        return W1(self.cells, self.total) if self.cells.line() is not None and self.cells.coordinates == 1 else None

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the projection."""
        if self._on_a_line is not None:
            return self._on_a_line.probabilities(y)
        from discreet.mechanisms._bounded_lipschitz import bounded_lipschitz_projection

        masses = (y + (self.total - int(y.sum())) / self.cells.count) / self.total
        diameter = self.cells.diameter
        return bounded_lipschitz_projection(masses, self.cells.points(), diameter=diameter, norm=1.0).probabilities
