"""What noisy counts of one column tell of its cells: of a long ordered column, counts on levels of a tree. Public."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.domain import Domain, Records
from discreet.domain._column import Column
from discreet.domain._metric import is_ordered
from discreet.mechanisms._tree import Tree, node_counts
from discreet.mechanisms.readings.simplex import nearest_probabilities
from discreet.mechanisms.readings.tree import Consistent

_LONG = 512  # cells of an ordered column, beyond which sums of them are measured too
_RUNS = 64  # of as many runs of cells, each with noise of its own, a sum over many cells has the noise


@dataclass(frozen=True, eq=False)
class Nodes:
    """What is counted of a long ordered column: the nodes of every other level of a tree of its cells.

    ``tree``: of the column.
    ``levels``: that are counted; a record is in one node of each.
    ``leaf``, shape (cells,): the leaf that each cell is.
    """

    tree: Tree
    levels: tuple[int, ...]
    leaf: Integers

    @property
    def count(self) -> int:
        """How many nodes."""
        return sum(self.tree.nodes(level) for level in self.levels)

    def sums(self, cells: Integers) -> Integers:
        """Return the nodes' counts, one level after the other."""
        return node_counts(
            self.tree, self.levels, np.bincount(self.leaf, weights=cells, minlength=len(cells)).astype(np.float64)
        )


def nodes_of(column: Column) -> Nodes | None:
    """Return the nodes of a long ordered column; None of another column, whose cells are counted."""
    if not is_ordered(column) or int(column.values or 0) <= _LONG:
        return None
    tree = Tree.of(Domain(columns={"column": column}))
    cells = Records(columns=(np.arange(int(column.size or 0)),))
    return Nodes(tree, tuple(range(tree.depth, 0, -2))[::-1], tree.leaf_of(cells))


@dataclass(frozen=True, eq=False)
class OneWay:
    """Noisy counts of one column: the mean of its measurements.

    ``noisy``: of the cells, or of the nodes.
    ``units``: of each count.
    ``nodes``: None where cells are counted.
    """

    noisy: Floats
    units: float
    nodes: Nodes | None = None

    def again(self, noisy: Floats, units: float) -> OneWay:
        """Return the counts with those of another measurement."""
        mean = (self.noisy * self.units + noisy * units) / (self.units + units)
        return replace(self, noisy=mean, units=self.units + units)

    def total(self) -> tuple[float, float]:
        """Return the sum of the counts, and its units: the inverse of its variance, with noise of scale 1."""
        if self.nodes is None:
            return float(self.noisy.sum()), self.units / len(self.noisy)
        ends = np.cumsum([self.nodes.tree.nodes(level) for level in self.nodes.levels])
        sums = np.array([part.sum() for part in np.split(self.noisy, ends[:-1])])
        weights = 1.0 / np.diff(ends, prepend=0)
        return float(sums @ weights / weights.sum()), self.units * float(weights.sum())

    @property
    def precision(self) -> float:
        """Units per cell of a sum of many cells."""
        return self.units if self.nodes is None else self.units * max(1.0, len(self.nodes.leaf) / _RUNS)

    def counts(self, total: float) -> Floats:
        """Return the best unbiased counts of cells."""
        return self.noisy if self.nodes is None else self._consistent(total).counts(self.noisy)[0][self.nodes.leaf]

    def errors(self, scale: float) -> Floats:
        """Return the standard errors of these counts."""
        if self.nodes is None:
            return np.full(len(self.noisy), scale / np.sqrt(self.units))
        variances = self._consistent(1.0).counts(self.noisy)[1][self.nodes.leaf]
        return np.asarray(scale * np.sqrt(variances / self.units))

    def shares(self, total: float) -> Floats:
        """Return probabilities of cells."""
        if self.nodes is None:
            return nearest_probabilities(self.noisy / total)
        return self._consistent(total).probabilities(self.noisy)[self.nodes.leaf]

    def _consistent(self, total: float) -> Consistent:
        assert self.nodes is not None  # of cells, nothing has to be made consistent
        return Consistent(self.nodes.tree, self.nodes.levels, total)
