"""Consistent counts of a tree: the best linear unbiased estimate given all noisy counts, kept non-negative (T9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.mechanisms._tree import Tree, consistent, error_variances, upward


@dataclass(frozen=True)
class Consistent:
    """What fits the noisy counts of a tree's nodes best, given the exact total.

    ``tree``: down to the leaves.
    ``measured``: the levels that have noisy counts, increasing.
    ``total``: the public number of records, or an estimate of it.
    """

    tree: Tree
    measured: tuple[int, ...]
    total: float

    def upward(self, y: Integers | Floats) -> tuple[list[Floats], list[Floats]]:
        """Return each node's estimate from what lies below it, and its variance."""
        ends = np.cumsum([self.tree.nodes(level) for level in self.measured])
        parts = np.split(np.asarray(y, dtype=np.float64), ends[:-1])
        pairs = zip(self.measured, parts, strict=True)
        return upward(self.tree, {level: part.reshape(self.tree.shape(level)) for level, part in pairs})

    def probabilities(self, y: Integers | Floats) -> Floats:
        """Return the leaves' probabilities: the estimates, kept non-negative from the root downwards."""
        if not self.measured:
            return np.ones(1)
        return consistent(self.tree, *self.upward(y), total=self.total, positive=True).ravel() / self.total

    def counts(self, y: Integers | Floats) -> tuple[Floats, Floats]:
        """Return the leaves' unbiased counts, and their variances in units of the noise's."""
        values, variances = self.upward(y)
        counts = consistent(self.tree, values, variances, total=self.total, positive=False)
        return counts.ravel(), error_variances(self.tree, variances).ravel()
