"""The prior of cells' masses, and how counts weigh in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Integers

_SMOOTH = 32.0  # steps from 0, beyond which the weights within a step are alike


def log_prior(alpha: float, counts: Floats, step: int = 1) -> Floats:
    """Return the logarithm of ``Gamma(alpha + c) / (Gamma(alpha) c!)``: with a factor ``t^n``, independent counts.

    ``counts``: whole, or multiples of a step.
    ``step``: above 1, the sum over all whole numbers that round to a multiple, by the closed form of sums from 0.
    """
    from scipy.special import gammaln

    one = gammaln(alpha + counts) - gammaln(alpha) - gammaln(counts + 1.0)
    if step == 1:
        return np.asarray(one)

    def upto(last: Floats) -> Floats:
        return np.asarray(gammaln(alpha + 1.0 + last) - gammaln(alpha + 1.0) - gammaln(last + 1.0))

    all_of_them = upto(counts + (step - step // 2 - 1.0))
    before = np.where(counts > 0.0, upto(np.maximum(counts - step // 2 - 1.0, 0.0)), -math.inf)
    near = all_of_them + np.log(-np.expm1(np.minimum(before - all_of_them, -1e-300)))
    return np.where(counts < _SMOOTH * step, near, math.log(step) + one)


@dataclass(frozen=True)
class Halves:
    """Sets of neighbouring cells, or of sets, of a tree, each with the share of the set above that is expected in it.

    ``of``: for each cell or set of the level below, the set that it is in; sets have the numbers 0, 1, ... in order.
    ``shares``: of each set, in the next level's set that it is in.
    """

    of: Integers
    shares: Floats


@dataclass(frozen=True)
class Prior:
    """A Dirichlet process on cells, or a tree of splits that are each a Dirichlet distribution of strength 1.

    In a tree the counts of a set with share ``a`` of the set above weigh ``(a)_c / c!``, whatever the level: the
    factors ``c!`` of a set as a part and as a whole cancel.

    ``alpha``: masses of the cells in the process; in a tree the cells' shares of the sets that they are in.
    ``levels``: of the tree, from the smallest sets on; none for the process.
    ``order``: the cells, neighbours in the tree beside one another; none where they are in order.
    ``base``: the base measure of a tree, not in its order.
    """

    alpha: Floats
    levels: tuple[Halves, ...] = ()
    order: Integers | None = None
    base: Floats | None = None

    @classmethod
    def of(cls, given: Prior | Floats) -> Prior:
        """Return a prior as it is, or the process with these masses."""
        return given if isinstance(given, Prior) else cls(given)

    @classmethod
    def halving(cls, base: Floats) -> Prior:
        """Return the tree that joins neighbours two by two, with the masses of a base measure."""
        sets, size = [], len(base)
        while size > 1:
            sets.append(np.arange(size) // 2)
            size = int(sets[-1][-1]) + 1
        return cls.nested(base, sets)

    @classmethod
    def nested(cls, base: Floats, sets: Sequence[Integers], order: Integers | None = None) -> Prior:
        """Return the tree of given sets, the last of which is all; the base measure is in the tree's order."""
        mass, shares, plain = base, [], base.copy()
        if order is not None:
            plain[order] = base
        for of in sets:
            above = np.asarray(np.bincount(of, weights=mass), dtype=np.float64)
            shares.append(mass / above[of])
            mass = above
        if not sets:
            return cls(np.ones_like(base), (), order, plain)
        levels = tuple(Halves(of, part) for of, part in zip(sets[:-1], shares[1:], strict=True))
        return cls(shares[0], levels, order, plain)

    def masses(self, counts: Floats, rng: np.random.Generator) -> Floats:
        """Draw the cells' masses given counts, a row each."""
        order = np.arange(counts.shape[1]) if self.order is None else self.order
        sums, shares = [counts[:, order]], [self.alpha]
        for level in self.levels:
            starts = np.searchsorted(level.of, np.arange(len(level.shares)))
            sums.append(np.add.reduceat(sums[-1], starts, axis=1))
            shares.append(level.shares)
        above = np.ones((len(counts), 1))
        sets = [*(level.of for level in self.levels), np.zeros(len(shares[-1]), dtype=np.int64)]
        for of, share, one in zip(reversed(sets), reversed(shares), reversed(sums), strict=True):
            gammas = np.maximum(rng.standard_gamma(share + one), 1e-300)
            starts = np.searchsorted(of, np.arange(above.shape[1]))
            above = above[:, of] * gammas / np.add.reduceat(gammas, starts, axis=1)[:, of]
        masses = np.empty_like(above)
        masses[:, order] = above
        return masses
