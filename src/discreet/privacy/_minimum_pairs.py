"""Exact divergences of a mixture with the uniform distribution whose weight depends on the smallest count (T7).

With ``q_i`` the weight at smallest count ``i`` and ``N = n/k``, a cell of ``a`` records has the probability
``f(a, q) / n``, ``f(a, q) = a (1-q) + N q``. The pairs of neighbours fall into a few types for each ``i``
(docs/theory/data-specific-reveal-or-obscure.md), and nothing is assumed about the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._numeric import up
from discreet.privacy._algebra import power
from discreet.privacy._profile import ConstantProfile, Profile
from discreet.privacy._sampling_pairs import MixturePair

__all__ = ["MinimumPairs"]

Floats = npt.NDArray[np.float64]

_LARGEST_LOSS = 600.0
_COMPOSED = 1000  # draws up to which the one-draw profile is composed; it takes half a second
_ROUNDING = 1e-14  # of a difference of probabilities, or of a logarithm: a few operations on numbers of order one


@dataclass(frozen=True, kw_only=True, eq=False)
class MinimumPairs(Profile):
    """Profile of ``size`` draws with a weight that depends on the smallest count.

    Parameters
    ----------
    n, cells : int
        Numbers of records and of cells, at least 2 cells.
    weights : ndarray of float64, shape (at most n // cells + 1,)
        ``q_i``; zero for the smallest counts that are left out.
    size : int
        Number of draws.

    Notes
    -----
    One draw: the maximum over the types, exact. More: the least of two upper bounds. The first composes the one-draw
    profile, up to 1,000 draws. The second is the m-fold product of the pair ``(b+s, b, rest)``, ``(b, b+s, rest)`` with
    the one-draw total variation ``s`` and pure epsilon ``log(1 + s/b)``: as a function of ``e^eps`` its profile is the
    chord of the convex one-draw profile, so it dominates one draw and hence ``m``.
    """

    n: int
    cells: int
    weights: Floats
    size: int = 1

    @property
    def exact(self) -> bool:
        """Whether it is one draw."""
        return self.size == 1

    @property
    def pure(self) -> float:
        """The largest loss of a draw, times the number of draws."""
        return up(self.size * self.loss)

    @cached_property
    def loss(self) -> float:
        """The largest loss of one draw, rounded up: its pure epsilon."""
        largest = max(float(np.abs(np.log(left / right)).max(initial=0.0)) for left, right in self._ratios())
        return up(largest + _ROUNDING) if largest else 0.0

    def chord(self, group: int = 1) -> Profile:
        """Return the profile that dominates the draws for a group of records, from total variation and loss alone.

        A chain of ``g`` neighbours has ``g`` times both, and no two laws of loss ``g eps`` are farther apart than
        ``tanh(g eps / 2)``. A loss above 600 is taken for infinite.
        """
        loss = up(group * self.loss)
        moved = min(group * self._one(0.0), math.tanh(0.5 * loss))
        if loss > _LARGEST_LOSS:
            apart = 1.0 if moved > 0.999999 else up(-math.expm1(self.size * math.log1p(-moved)), 8)
            return ConstantProfile(value=apart, tight=False)
        return MixturePair(size=self.size, base=moved / math.expm1(loss), moved=moved, tight=False)

    def _delta(self, epsilon: float) -> float:
        if self.size == 1:
            return self._one(epsilon)
        bound = self.chord().delta(epsilon)
        return min(bound, self._composed.delta(epsilon)) if self.size <= _COMPOSED else bound

    @cached_property
    def _composed(self) -> Profile:
        return power(MinimumPairs(n=self.n, cells=self.cells, weights=self.weights), self.size)

    # --- one draw ---------------------------------------------------------------------------------------------------

    def _f(self, a: Any, q: Any) -> Any:
        return a * (1.0 - q) + self.n / self.cells * q

    @cached_property
    def _weights(self) -> Floats:
        """Two zeros more: at larger counts still, with zeros alone, neighbours are closer."""
        return np.append(self.weights, (0.0, 0.0))

    @cached_property
    def _same(self) -> tuple[Any, Any]:
        """Smallest counts (and weights) that both of two neighbours can have: in three cells, or two that swap."""
        counts = np.arange(len(self._weights))
        able = self.n > self.cells * counts if self.cells > 2 else self.n == 2 * counts + 1
        return counts[able], self._weights[able]

    @cached_property
    def _next(self) -> tuple[Any, Any, Any, Any]:
        """Smallest counts ``i`` of a table and ``i - 1`` of its neighbour, their weights, and the largest cell."""
        i = np.arange(1, min(len(self._weights) - 1, self.n // self.cells) + 1)
        return i, self._weights[i], self._weights[i - 1], self.n - (self.cells - 1) * i

    def _ratios(self) -> Iterator[tuple[Any, Any]]:
        """Yield the probabilities (times n) of a cell under two neighbours, where their ratio can be extreme."""
        f = self._f
        i, q = self._same
        yield f(i + 1, q), f(i, q)
        i, q, r, top = self._next
        yield f(i, q), f(i - 1, r)  # the cell that lost the record
        yield f(top, q), f(top + 1, r)  # the one that gained it, the largest
        if self.cells > 2:
            yield f(i, q), f(i + 1, r)  # or the smallest
            yield f(i, q), f(i, r)  # a cell that changed nothing but its weight
            yield f(top, q), f(top, r)

    def _one(self, epsilon: float) -> float:
        """Return the exact delta of one draw at ``epsilon``, rounded up."""
        f, e, k = self._f, math.exp(epsilon), self.cells
        i, q = self._same
        best = float((f(i + 1, q) - e * f(i, q)).max(initial=0.0))
        i, q, r, top = self._next

        def excess(a: Any, b: Any, *, turned: bool) -> Any:
            return np.maximum(0.0, f(b, r) - e * f(a, q) if turned else f(a, q) - e * f(b, r))

        for turned in (False, True):
            lost, least = excess(i, i - 1, turned=turned), excess(i, i, turned=turned)
            deltas = [lost + excess(top, top + 1, turned=turned) + (k - 2) * least]
            if k > 2:
                gained, largest = excess(i, i + 1, turned=turned), excess(top, top, turned=turned)
                deltas.append(lost + gained + largest + (k - 3) * least)
            best = max(best, *(float(d.max(initial=0.0)) for d in deltas))
        return min(1.0, best / self.n + _ROUNDING * (1.0 + e)) if best > 0.0 else 0.0
