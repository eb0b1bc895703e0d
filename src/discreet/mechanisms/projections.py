"""Projections, each a class and a line in ``PROJECTIONS``: public post-processing of noisy counts to probabilities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from discreet._core.numeric import Floats, Integers, isotonic
from discreet._core.text import counted
from discreet.domain import Domain, Records, ground_diameter, ground_embedding
from discreet.mechanisms.reading import nearest_probabilities

_MOST_ON_A_LINE = 1 << 20
_MOST_WORK = 1 << 31  # cells squared times coordinates: some seconds of projection

Surplus = Literal["rescaled", "shifted", "moved"]
"""What is done with what positive parts have above the total: divided out, taken off all of them alike, or set off
against the negative parts of neighbours."""


@dataclass(frozen=True)
class NumberedCells:
    """Disjoint sets of records that noise is added to, numbered from 0: the cells of a finite domain. Public."""

    domain: Domain
    count: int

    def cell_of(self, records: Records) -> Integers:
        """Return which cell each record lies in."""
        return self.domain.flat(records)

    def records_in(self, items: Integers) -> Records:
        """Return the records that stand for cells."""
        return self.domain.unflat(items)

    def base(self) -> Floats:
        """Return the cells' shares of the base measure, shape (count,)."""
        return np.exp(self.domain.log_base(self.records_in(np.arange(self.count))))

    def line(self) -> Floats | None:
        """Return increasing positions where the cells are those of one ordered column without a null, else None."""
        (column, *others) = self.domain.columns.values()
        if others or column.nullable or not column.on_a_line:
            return None
        return column.positions(np.arange(self.count))

    def points(self) -> Floats:
        """Return the representatives, embedded in the ground metric: shape (count, d), to be compared in L1."""
        return ground_embedding(self.domain, self.records_in(np.arange(self.count)))

    @cached_property
    def coordinates(self) -> int:
        """Number of coordinates of the embedding: one per ordered column, one per category of the others."""
        nothing = Records(columns=tuple(np.zeros(0, dtype=np.int64) for _ in self.domain.columns))
        return int(ground_embedding(self.domain, nothing).shape[1])

    @property
    def diameter(self) -> float:
        """Largest ground distance."""
        return ground_diameter(self.domain)

    def counts(self, records: Records, frequencies: Integers) -> Integers:
        """Return how many records lie in each cell."""
        counts = np.zeros(self.count, dtype=np.int64)
        np.add.at(counts, self.cell_of(records), frequencies)
        return counts


@dataclass(frozen=True)
class Projection(ABC):
    """Probabilities of cells from their noisy counts, and the public number of records: public post-processing."""

    name: ClassVar[str]
    surplus: ClassVar[Surplus] = "shifted"  # what is done with it, nearly or exactly: inference asks

    cells: NumberedCells
    total: int

    @classmethod
    def unsuited(cls, cells: NumberedCells) -> str | None:
        """Return what is needed that these cells do not have, after "needs"; None where they have it."""
        return None

    @abstractmethod
    def probabilities(self, y: Integers) -> Floats:
        """Return probabilities of noisy counts, shape (.., k), left as they are; of exact ones their shares."""
        # Within projection_error: nowhere above, or below, the positive part of y / total, shifted or not.


class Clip(Projection):
    """``max(y, 0)`` divided by its sum, as in PY26, Appendix A.2; the base measure where nothing is left."""

    name: ClassVar[str] = "clip"
    surplus: ClassVar[Surplus] = "rescaled"

    def probabilities(self, y: Integers) -> Floats:
        """Return the positive parts, normalised."""
        positive = np.maximum(y, 0).astype(np.float64)
        sums = positive.sum(axis=-1, keepdims=True)
        if (sums > 0.0).all():
            return np.asarray(positive / sums)
        return np.where(sums > 0.0, positive / np.where(sums > 0.0, sums, 1.0), self.cells.base())


class L1(Projection):
    """Probabilities nearest to the noisy shares in L1, of the many those that keep the largest cells' shares."""

    name: ClassVar[str] = "l1"

    def probabilities(self, y: Integers) -> Floats:
        """Return the projections of ``y / total``."""
        k = y.shape[-1]
        positive = np.maximum(y - np.maximum(0.0, (y.sum(axis=-1, keepdims=True) - self.total) / k), 0.0)
        order = np.argsort(positive, axis=-1)
        values = np.take_along_axis(positive, order, axis=-1)
        sums = np.cumsum(values, axis=-1)
        surplus = sums[..., -1:] - self.total
        # Cells of one value are a group: its first and last place in the order, and what it holds.
        place = np.arange(k)
        starts = np.diff(values, axis=-1, prepend=-1.0) > 0.0
        start = np.maximum.accumulate(np.where(starts, place, 0), axis=-1)
        ends = np.append(starts[..., 1:], np.ones((*values.shape[:-1], 1), np.bool_), axis=-1)
        end = np.minimum.accumulate(np.where(ends, place, k)[..., ::-1], axis=-1)[..., ::-1]
        mass = values * (end - start + 1)
        share = np.take_along_axis(sums, end, axis=-1) - surplus
        share = np.divide(share, mass, out=np.zeros_like(mass), where=values > 0.0)
        reduced = np.empty_like(values)
        np.put_along_axis(reduced, order, values * np.clip(share, 0.0, 1.0), axis=-1)
        projected = np.where(surplus < 0.0, positive - surplus / k, reduced)
        return np.asarray(projected / projected.sum(axis=-1, keepdims=True))


class Simplex(Projection):
    """The nearest probabilities in Euclidean distance: ``max(v - tau, 0)`` with ``tau`` such that they sum to one."""

    name: ClassVar[str] = "simplex"

    def probabilities(self, y: Integers) -> Floats:
        """Return the projections of ``y / total``."""
        return nearest_probabilities(y / self.total)


class W1(Projection):
    """The nearest probabilities in Wasserstein-1 distance, for the cells of one ordered column (theorem T14)."""

    # Counts are first shifted alike onto the public total, so that the noise of their sums is tied down at both ends.

    name: ClassVar[str] = "w1"
    surplus: ClassVar[Surplus] = "moved"

    @classmethod
    def unsuited(cls, cells: NumberedCells) -> str | None:
        """Return what is needed, unless the cells lie on a line."""
        return None if cells.line() is not None else "a single ordered column without a null cell"

    def probabilities(self, y: Integers) -> Floats:
        """Return the projections of ``y / total``."""
        shifted = y + (self.total - y.sum(axis=-1, keepdims=True)) / y.shape[-1]
        walk = np.cumsum(shifted / self.total, axis=-1)
        sums = np.clip(isotonic(walk[..., :-1], np.diff(self.cells.line())), 0.0, walk[..., -1:])  # type: ignore[arg-type]
        nearest = np.maximum(np.diff(sums, axis=-1, prepend=0.0, append=walk[..., -1:]), 0.0)
        return np.asarray(nearest / nearest.sum(axis=-1, keepdims=True))


class BoundedLipschitz(Projection):
    """The probabilities nearest to the noisy shares in the ground metric (T14); on one ordered column, ``w1``."""

    name: ClassVar[str] = "bounded-lipschitz"
    surplus: ClassVar[Surplus] = "moved"

    @classmethod
    def unsuited(cls, cells: NumberedCells) -> str | None:
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

    def probabilities(self, y: Integers) -> Floats:
        """Return the projection."""
        if self.cells.line() is not None and self.cells.coordinates == 1:
            return W1(self.cells, self.total).probabilities(y)
        from discreet.mechanisms.bounded_lipschitz import bounded_lipschitz_projection

        masses = (y + (self.total - int(y.sum())) / self.cells.count) / self.total
        diameter = self.cells.diameter
        return bounded_lipschitz_projection(masses, self.cells.points(), diameter=diameter, norm=1.0).probabilities


PROJECTIONS: dict[str, type[Projection]] = {kind.name: kind for kind in (Clip, Simplex, L1, W1, BoundedLipschitz)}
"""Projections by their public names."""
