r"""The confidential counts given released ones whose law falls with the root of a sum of squares over the cells.

.. math:: e^{-r d} = \int_0^\infty e^{-v d^2}\,\frac{r}{2\sqrt{\pi}}\,v^{-3/2} e^{-r^2/4v}\,dv

is a mixture of laws of which each cell has a factor of its own. Counts are proposed at a few values of ``v``, and kept
in proportion to the rest, what normalises the law among it.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.inference._lattice import Lattice
from discreet.inference._prior import Prior
from discreet.inference._sums import Sums
from discreet.mechanisms._evidence import NearestBySquares

_DROP = 45.0  # in logarithms, below the largest
_SPACING = 0.7  # of the logarithms of v
_MOST_LISTED = 400_000_000  # outcomes of all tables that are proposed
_FEWEST = 64  # counts that a lattice has at least, where there are as many


class BySquares:
    """The counts of cells under one prior."""

    def __init__(self, evidence: NearestBySquares, prior: Prior, records: int, drawn: Integers, draws: int) -> None:
        self._evidence, self._drawn, self._records = evidence, drawn, records
        rate = evidence.rate(records)
        self._rate, self._blunted = min(rate, evidence.sharpest), rate > evidence.sharpest
        self._listed = 3 * draws * evidence.listed <= _MOST_LISTED
        spread = min(self._spread(), records / _FEWEST)
        guess = drawn.astype(np.float64) * (records / max(1, int(drawn.sum())))
        self._lattice = Lattice.fine(records, spread, prior, guess)

    def _spread(self) -> float:
        """Return about the least standard deviation of a count: how far a unit of the exponent lies from the mode."""
        guess = np.rint(self._drawn * (self._records / int(self._drawn.sum()))).astype(np.int64)
        far = np.full(len(guess), float(self._records))
        near = np.zeros(len(guess))
        for _ in range(60):
            middle = 0.5 * (near + far)
            squares = self._evidence.squares(self._records, guess + middle, self._drawn)
            beyond = self._rate * np.sqrt(squares) > 1.0
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
        return float(far.min())

    @cached_property
    def _nodes(self) -> list[tuple[float, float, Sums]]:
        """Values of ``v``, the logarithms of their weights, and the counts under each."""
        low, high = math.log(self._rate / 4.0), math.log(10.0 * self._rate * max(self._rate, 1.0))
        made = []
        for log in np.linspace(low, high, 1 + math.ceil((high - low) / _SPACING)).tolist():
            weight = -0.5 * log - self._rate**2 / 4.0 * math.exp(-log)
            made.append((math.exp(log), weight, self._sums(math.exp(log))))
        return made

    def _sums(self, v: float) -> Sums:
        lattice = self._lattice
        numbers = np.arange(lattice.total + 1)
        counts = np.minimum(lattice.counts(numbers), self._records)
        told = {}
        for z in {*self._drawn.tolist()}:
            logs = -v * self._evidence.squares(self._records, counts, np.full(len(counts), z))
            held = np.flatnonzero(logs > logs.max() - _DROP)
            told[z] = numbers[held[0] : held[-1] + 1], logs[held[0] : held[-1] + 1]
        kinds = [*zip(lattice.cells, self._drawn.tolist(), strict=True)]
        laws = lattice.laws({kind: (kind[0], *told[kind[1]]) for kind in kinds})
        return Sums([laws[kind] for kind in kinds], lattice.total, lattice.levels)

    @property
    def log(self) -> float:
        return float(np.logaddexp.reduce([weight + sums.log for _, weight, sums in self._nodes]))

    @property
    def step(self) -> int:
        return self._lattice.step

    @property
    def approximation(self) -> str:
        if self._blunted:
            return "the records of a cell are taken as rounded less sharply than they are"
        whole = "what normalises the law of the released counts is taken as the same for all tables that may be"
        return "" if self._listed else whole

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        logs = np.array([weight + sums.log for _, weight, sums in self._nodes])
        shares = np.exp(logs - self.log)
        held = rng.multinomial(number, shares / shares.sum()).tolist()
        some = [sums.draw(count, rng) for (*_, sums), count in zip(self._nodes, held, strict=True) if count]
        counts = self._lattice.counts(np.concatenate(some))
        squares = self._evidence.squares(self._records, np.minimum(counts, self._records), self._drawn).sum(axis=1)
        proposed = np.logaddexp.reduce([weight - v * squares for v, weight, _ in self._nodes], axis=0)
        beside = -self._rate * np.sqrt(squares) - proposed
        if self._listed:
            tables, which = np.unique(counts.astype(np.int64), axis=0, return_inverse=True)
            beside -= self._evidence.log_whole(self._rate, self._records, tables)[which.ravel()]
        return counts, np.asarray(beside)
