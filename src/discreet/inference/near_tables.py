r"""The confidential counts given records whose own counts were drawn, the nearer to the table's the likelier.

The released counts of cells are independent but for their sum, so that what normalises their law is a convolution
:math:`Z(c)`. With the generating functions :math:`M_j(t) = \sum_z e^{-b|z - a_j| + tz}` of single cells, it is a
coefficient of their product, while its inverse is nearly :math:`\int e^{tm} / \prod_j M_j(t)\,dt`, where cells have
factors of their own at every :math:`t`. Counts are proposed at a few values of ``t``, and kept in proportion to the
rest.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.inference.lattice import IMPOSSIBLE, Lattice
from discreet.inference.prior import Prior
from discreet.inference.sums import Sums
from discreet.mechanisms.likelihood import NearestBySquares, NearestCounts

_STEEPEST = 24.0  # per released record: sharper roundings than that are taken for as sharp
_DROP, _LEFT, _HOPELESS = 45.0, 14.0, 30.0  # in logarithms, below the largest
_SPACING, _MOST_NODES = 0.7, 24  # in standard deviations; on each side
_EXACT = 1e-9  # what is left out of a sum, of the sum
_BLOCK = 16  # frequencies at a time


class Nearest:
    """The counts of cells under one prior, at all values of ``t``."""

    def __init__(self, lattice: Lattice, drawn: Integers, law: _Law) -> None:
        self._lattice, self._drawn, self._law = lattice, drawn, law
        self._tilt: float | None = None
        self._nodes: list[tuple[float, Sums]] = []

    @classmethod
    def under(
        cls, likelihood: NearestCounts, priors: Sequence[Prior], records: int, drawn: Integers
    ) -> Sequence[Nearest]:
        """Return the posteriors under several priors: they share the values of ``t``, found under the last one."""
        size = int(drawn.sum())
        sharp = likelihood.rate(records) / size
        law = _Law(min(sharp, _STEEPEST), size / records, size, len(drawn), sharp > _STEEPEST)
        spread = math.hypot(math.sqrt(2.0) / law.steep, math.sqrt(1.0 / 12.0)) / law.each
        guess = drawn.astype(np.float64) / law.each
        made = [cls(Lattice.fine(records, spread, prior, guess), drawn, law) for prior in priors]
        best, width = made[-1]._best()
        logs = [one._log(best) for one in made]
        likely = [one for one, log in zip(made, logs, strict=True) if log > max(logs) - _HOPELESS]
        nodes = made[-1]._around(best, width)
        law.nodes = nodes
        for one in likely:
            one._nodes = [(node, one._sums(node)) for node in nodes]
        return made

    @property
    def log(self) -> float:
        logs = [sums.log + node * self._law.size for node, sums in self._nodes]
        return float(np.logaddexp.reduce(logs)) if logs else -math.inf

    @property
    def step(self) -> int:
        return self._lattice.step

    @property
    def approximation(self) -> str:
        return "the records of a cell are taken as rounded less sharply than they are" if self._law.blunted else ""

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        logs = np.array([sums.log + node * self._law.size for node, sums in self._nodes])
        shares = np.exp(logs - self.log)
        held = rng.multinomial(number, shares / shares.sum()).tolist()
        some = [sums.draw(count, rng) for (_, sums), count in zip(self._nodes, held, strict=True) if count]
        numbers = np.concatenate(some)
        return self._lattice.counts(numbers), self._law.beside_nodes(numbers, self._lattice.step)

    def _log(self, t: float) -> float:
        sums = self._sums(t)
        return sums.log + t * self._law.size if sums.log > -math.inf else -1e50 * (1.0 + sums.away)

    def _best(self) -> tuple[float, float]:
        """Return the likeliest value of ``t``, and about its standard deviation."""
        from scipy.optimize import minimize_scalar

        law, cells = self._law, len(self._drawn)
        width = 1.0 / math.sqrt(cells * (2.0 / law.steep**2 + 0.5 / law.steep))
        low = min(-law.steep, law.steep - math.log1p(cells / law.size)) - 2.0
        bounds, options = (low, law.steep - 1e-6), {"xatol": 0.2 * width}
        best = float(minimize_scalar(lambda t: -self._log(t), bounds=bounds, method="bounded", options=options).x)
        top = self._log(best)
        curvature = sum(top - self._log(min(best + step * width, law.steep - 1e-9)) for step in (-1.0, 1.0))
        return best, width / math.sqrt(max(0.01, curvature))

    def _around(self, best: float, width: float) -> list[float]:
        """Return values of ``t`` as far out as there is any weight."""
        step = _SPACING * width
        logs = {0: self._log(best)}
        for side in (-1, 1):
            while logs[at := max(logs, key=lambda i: side * i)] > logs[0] - _LEFT and abs(at) < _MOST_NODES:
                if best + (at + side) * step >= self._law.steep:
                    break
                logs[at + side] = self._log(best + (at + side) * step)
        return [best + at * step for at in sorted(logs) if logs[at] > IMPOSSIBLE]

    def _sums(self, t: float) -> Sums:
        lattice = self._lattice
        kinds = [*zip(lattice.cells, self._drawn.tolist(), strict=True)]
        told = {drawn: self._told(drawn, t) for drawn in {z for _, z in kinds}}
        laws = lattice.laws({kind: (kind[0], *told[kind[1]]) for kind in kinds})
        sums = Sums([laws[kind] for kind in kinds], lattice.total, lattice.levels, tilt=self._tilt)
        self._tilt = sums.tilt
        return sums

    def _told(self, drawn: int, t: float) -> tuple[Integers, Floats]:
        """Return the counts that so many released records may come from, and their log-likelihood at a value of t."""
        law, lattice = self._law, self._lattice
        low = (drawn - 2.0 - _DROP / max(law.steep - t, 1e-3)) / law.each
        high = (drawn + 2.0 + _DROP / max(law.steep + t, 1e-3)) / law.each
        numbers = lattice.numbers(low, high)
        shares = lattice.counts(numbers) * law.each
        logs = -law.steep * np.abs(drawn - shares) - law.log_generating(shares, np.array([t]))[:, 0].real
        return numbers, logs


@dataclass
class _Law:
    """The law of the released counts given the table's.

    ``steep``: ``b``, by which the logarithm falls per released record; ``blunted``: whether it is less than it was.
    ``each``: released records per confidential one. ``nodes``: values of ``t`` at which counts are proposed.
    """

    steep: float
    each: float
    size: int
    cells: int
    blunted: bool
    nodes: Sequence[float] = ()

    def log_generating(self, shares: Floats, t: Any) -> Any:
        """Return ``log M(t)``, up to a multiple of 2 pi i, of cells that expect so many records, for each ``t``.

        The sum over all whole numbers from 0 is two geometric sums: up to the expected number, and above.
        """
        a = shares[:, None]
        below = np.floor(a)
        up, down = self.steep + t, self.steep - t
        rising = up.real >= 0.0
        u = np.where(rising, -up, up)  # the larger end of the first sum is taken out of it
        first = np.where(rising, up * below, 0.0) - self.steep * a + np.log(_geometric(u, below + 1.0))
        second = t * (below + 1.0) - self.steep * (below + 1.0 - a) - np.log(-np.expm1(-down))
        larger = np.maximum(first.real, second.real)
        return larger + np.log(np.exp(first - larger) + np.exp(second - larger))

    def beside_nodes(self, numbers: Integers, step: int) -> Floats:
        """Return the log-likelihood of tables over that of being proposed, without what they have in common."""
        from scipy.sparse import csr_array

        held, place = np.unique(numbers, return_inverse=True)
        rows = np.repeat(np.arange(len(numbers)), numbers.shape[1])
        ones = np.ones(numbers.size)
        often = csr_array((ones, (rows, place.ravel())), shape=(len(numbers), len(held)))  # of each number, its cells
        shares = held.astype(np.float64) * (step * self.each)
        nodes = np.array(self.nodes)
        proposed = np.logaddexp.reduce(nodes * self.size - often @ self.log_generating(shares, nodes), axis=1)
        return np.asarray(-self._log_whole(often, shares) - proposed)

    def _log_whole(self, often: Any, shares: Floats) -> Floats:
        """Return ``log Z`` of tables: a coefficient of a product of generating functions, by Fourier's formula.

        The circle on which they are evaluated goes through the middle node.
        """
        t = float(self.nodes[len(self.nodes) // 2])
        h = 0.05 * min(1.0, self.steep - t)
        near = often @ self.log_generating(shares, np.array([t - h, t, t + h]))
        variance = float(np.max(near[:, 0] + near[:, 2] - 2.0 * near[:, 1])) / h**2
        reach = 10.0 * math.sqrt(max(variance, 1.0))
        left = min(self.size + 1.0, reach + _DROP / max(self.steep + t, 1e-9))
        period = math.ceil(max(left, reach + _DROP / (self.steep - t)))
        total = np.full(often.shape[0], 0.5)
        for start in range(1, period // 2 + 1, _BLOCK):
            at = np.arange(start, min(start + _BLOCK, period // 2 + 1))
            angles = 2.0 * math.pi / period * at
            terms = np.exp(
                often @ self.log_generating(shares, t + 1j * angles) - near[:, 1:2] - 1j * angles * self.size
            )
            half = np.where(2 * at == period, 0.5, 1.0)
            total += (terms.real * half).sum(axis=1)
            if np.all(np.abs(terms[:, -1]) * (period / 2.0 - at[-1] + 1.0) < _EXACT * np.abs(total)):
                break
        return np.asarray(near[:, 1] - t * self.size + np.log(np.maximum(total, 1e-300) * 2.0 / period))


def _geometric(u: Any, number: Any) -> Any:
    """Return ``1 + e^u + ... `` of so many terms, for ``u`` of real part at most 0."""
    small = np.abs(u) < 1e-9
    safe = np.where(small, -1.0, u)
    return np.where(small, number, np.expm1(safe * number) / np.expm1(safe))


# The confidential counts given released ones whose law falls with the root of a sum of squares over the cells.
#
# .. math:: e^{-r d} = \int_0^\infty e^{-v d^2}\,\frac{r}{2\sqrt{\pi}}\,v^{-3/2} e^{-r^2/4v}\,dv
#
# is a mixture of laws of which each cell has a factor of its own. Counts are proposed at a few values of ``v``, and
# kept in proportion to the rest, what normalises the law among it.
#
# Theory: docs/theory/mechanism-aware-posterior.md.

_NEGLECTED = 45.0  # in logarithms, below the largest
_LOG_SPACING = 0.7  # of the logarithms of v
_MOST_LISTED = 400_000_000  # outcomes of all tables that are proposed
_FEWEST = 64  # counts that a lattice has at least, where there are as many


class BySquares:
    """The counts of cells under one prior."""

    def __init__(self, likelihood: NearestBySquares, prior: Prior, records: int, drawn: Integers, draws: int) -> None:
        self._likelihood, self._drawn, self._records = likelihood, drawn, records
        rate = likelihood.rate(records)
        self._rate, self._blunted = min(rate, likelihood.sharpest), rate > likelihood.sharpest
        self._listed = 3 * draws * likelihood.listed <= _MOST_LISTED
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
            squares = self._likelihood.squares(self._records, guess + middle, self._drawn)
            beyond = self._rate * np.sqrt(squares) > 1.0
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
        return float(far.min())

    @cached_property
    def _nodes(self) -> list[tuple[float, float, Sums]]:
        """Values of ``v``, the logarithms of their weights, and the counts under each."""
        low, high = math.log(self._rate / 4.0), math.log(10.0 * self._rate * max(self._rate, 1.0))
        made = []
        for log in np.linspace(low, high, 1 + math.ceil((high - low) / _LOG_SPACING)).tolist():
            weight = -0.5 * log - self._rate**2 / 4.0 * math.exp(-log)
            made.append((math.exp(log), weight, self._sums(math.exp(log))))
        return made

    def _sums(self, v: float) -> Sums:
        lattice = self._lattice
        numbers = np.arange(lattice.total + 1)
        counts = np.minimum(lattice.counts(numbers), self._records)
        told = {}
        for z in {*self._drawn.tolist()}:
            logs = -v * self._likelihood.squares(self._records, counts, np.full(len(counts), z))
            held = np.flatnonzero(logs > logs.max() - _NEGLECTED)
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
        squares = self._likelihood.squares(self._records, np.minimum(counts, self._records), self._drawn).sum(axis=1)
        proposed = np.logaddexp.reduce([weight - v * squares for v, weight, _ in self._nodes], axis=0)
        beside = -self._rate * np.sqrt(squares) - proposed
        if self._listed:
            tables, which = np.unique(counts.astype(np.int64), axis=0, return_inverse=True)
            beside -= self._likelihood.log_whole(self._rate, self._records, tables)[which.ravel()]
        return counts, np.asarray(beside)
