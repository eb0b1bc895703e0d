"""Latent classes: the graphical model that turns noisy tables of one and two columns into records. Public.

Each record has a class that nobody sees, and given its class its columns are independent. Any number of tables can be
fitted together, with no limit on how they overlap, and records are drawn at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Integers

__all__ = ["LatentClasses", "Table", "denoised", "fitted"]

_CLASSES = 200
_ROUNDS = 300
_LEAST = 1e-12

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Table:
    """A measured table of two columns. Public.

    ``excess``, shape (a, b): its counts less those of independent columns.
    ``error``: standard error of each count.
    """

    excess: Floats
    error: float


def denoised(tables: Mapping[Pair, Table], sizes: Sequence[int]) -> dict[Pair, Floats]:
    """Return the tables' excess with less noise: empirical Bayes in axes that each column shares among its tables.

    What a column has to do with the others lies along few of its axes: the eigenvectors of the sum of ``D D^T /
    error^2`` over its tables ``D``. In these axes, number ``(u, v)`` of table ``(i, j)`` has a prior variance ``t_ij
    a_iu a_jv``, whose factors are fitted to all tables by expectation-maximisation; each number is then shrunk to its
    posterior mean.

    ``sizes``: numbers of cells of the columns.
    """
    outer = [np.zeros((size, size)) for size in sizes]
    for (i, j), table in tables.items():
        scaled = table.excess / table.error
        outer[i] += scaled @ scaled.T - len(scaled.T) * np.eye(sizes[i])
        outer[j] += scaled.T @ scaled - len(scaled) * np.eye(sizes[j])
    found = [np.linalg.eigh(matrix) for matrix in outer]
    axes = [vectors for _, vectors in found]
    spread = [_shares(np.maximum(values, 1e-3)) for values, _ in found]
    turned = {(i, j): axes[i].T @ table.excess @ axes[j] for (i, j), table in tables.items()}
    noise = {pair: table.error**2 for pair, table in tables.items()}
    strength = {
        pair: max(float((c * c).sum()) - c.size * noise[pair], 0.05 * c.size * noise[pair])
        for pair, c in turned.items()
    }
    for _ in range(5):
        sums = [np.zeros(size) for size in sizes]
        for pair, c in turned.items():
            i, j = pair
            shape = np.outer(spread[i], spread[j])
            kept = strength[pair] * shape / (strength[pair] * shape + noise[pair])
            second = ((kept * c) ** 2 + kept * noise[pair]) / shape
            strength[pair] = float(second.mean())
            second *= shape / strength[pair]
            sums[i] += (second / spread[j]).mean(axis=1)
            sums[j] += (second / spread[i][:, None]).mean(axis=0)
        spread = [_shares(np.maximum(_shares(each), 1e-6)) if each.any() else each for each in sums]
    smoothed = {}
    for (i, j), c in turned.items():
        prior = strength[i, j] * np.outer(spread[i], spread[j])
        smoothed[i, j] = axes[i] @ (prior / (prior + noise[i, j]) * c) @ axes[j].T
    return smoothed


def _shares(values: Floats) -> Floats:
    return np.asarray(values / max(float(values.sum()), 1e-300))


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """A mixture of distributions with independent columns. Public.

    ``shares``, shape (classes,): of the records.
    ``columns``: per column the probabilities of its cells in each class, shape (cells, classes).
    """

    shares: Floats
    columns: tuple[Floats, ...]

    def pair(self, i: int, j: int) -> Floats:
        """Return the model's probabilities of a table of two columns."""
        return np.asarray((self.columns[i] * self.shares) @ self.columns[j].T)

    def records(self, classes: Integers, *, stratified: bool, rng: np.random.Generator) -> list[Integers]:
        """Return the columns' cells for records whose classes are given.

        ``stratified``: every cell gets its share of each class's records to within one, in an order that says nothing.
        """
        held = np.bincount(classes, minlength=len(self.shares))
        before = np.cumsum(held) - held
        drawn = []
        for column in self.columns:
            at = rng.random(len(classes))
            if stratified:
                order = np.argsort(classes + rng.random(len(classes)))  # by class, in a random order within it
                place = np.empty(len(classes))
                place[order] = np.arange(len(classes)) - np.repeat(before, held)
                at = (place + at) / held[classes]
            drawn.append(_at(column, classes, at))
        return drawn


def _at(column: Floats, classes: Integers, at: Floats) -> Integers:
    """Return the cell at each place in ``[0, 1)`` of its class's distribution function."""
    cells, count = column.shape
    below = np.cumsum(column, axis=0)
    below /= below[-1]
    below[-1] = 1.0
    line = (below + np.arange(count)).T.ravel()
    found = np.searchsorted(line, classes + np.minimum(at, 1.0 - 1e-9), side="right")
    return np.asarray(np.clip(found - classes * cells, 0, cells - 1), dtype=np.int64)


def fitted(
    ones: Sequence[Floats], pairs: Mapping[Pair, Floats], *, rng: np.random.Generator, classes: int = _CLASSES
) -> LatentClasses:
    """Fit a mixture to probabilities of columns and of tables of two columns.

    Expectation-maximisation of the sum of the tables' log-likelihoods: in each round a column's probabilities are
    multiplied by how much more of it the tables have than the model, in every table that it is in.

    ``ones``: the columns' probabilities.
    ``pairs``: the tables', by the numbers of their columns.
    ``rng``: of the start.
    """
    sizes = [len(one) for one in ones]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    own = np.concatenate(list(ones))
    if not pairs:
        return LatentClasses(np.ones(1), tuple(one[:, None] / one.sum() for one in ones))
    wanted = np.zeros((ends[-1], ends[-1]))
    for (i, j), table in pairs.items():
        wanted[ends[i] : ends[i + 1], ends[j] : ends[j + 1]] = table
        wanted[ends[j] : ends[j + 1], ends[i] : ends[i + 1]] = table.T

    def normal(values: Floats) -> Floats:
        return np.asarray(values / np.repeat(np.add.reduceat(values, ends[:-1], axis=0), sizes, axis=0))

    shares = np.full(classes, 1.0 / classes)
    inside = normal((own[:, None] + _LEAST) * np.exp(0.5 * rng.normal(size=(len(own), classes))))
    for _ in range(_ROUNDS):
        joint = inside * shares
        ratio = wanted / np.maximum(joint @ inside.T, _LEAST)
        more = ratio @ inside + (own / np.maximum(joint.sum(axis=1), _LEAST))[:, None]
        joint *= more
        inside, shares = normal(joint + 1e-15), joint.sum(axis=0)
        shares /= shares.sum()
    return LatentClasses(shares, tuple(inside[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)))
