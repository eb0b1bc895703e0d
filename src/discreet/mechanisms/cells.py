"""What noise is added to: the cells of a finite domain, or other disjoint sets of its records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DomainError
from discreet.domain import Domain, Records, ground_diameter, ground_embedding
from discreet.mechanisms.base import CellCounts, numbered_cells

if TYPE_CHECKING:
    from discreet.evolution import NearestCandidates


class Cells(ABC):
    """Disjoint sets of records, numbered, with a representative each. Public.

    ``domain``: public.
    ``count``: how many.
    """

    domain: Domain
    count: int

    @abstractmethod
    def cell_of(self, records: Records) -> CellCounts:
        """Return which cell each record lies in."""

    @abstractmethod
    def records_in(self, items: CellCounts) -> Records:
        """Return the records that stand for cells."""

    @abstractmethod
    def base(self) -> Floats:
        """Return the cells' shares of the base measure, shape (count,)."""

    @abstractmethod
    def line(self) -> Floats | None:
        """Return increasing positions where the cells are those of one ordered column without a null, else None."""

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

    def counts(self, records: Records, frequencies: CellCounts) -> CellCounts:
        """Return how many records lie in each cell."""
        counts = np.zeros(self.count, dtype=np.int64)
        np.add.at(counts, self.cell_of(records), frequencies)
        return counts


@dataclass(frozen=True)
class OwnCells(Cells):
    """The cells of a finite domain, in flat order."""

    domain: Domain
    count: int

    @classmethod
    def from_domain(cls, domain: Domain, name: str) -> OwnCells:
        """Return the cells of a domain for a mechanism of that name, which needs them to be finitely many.

        Raises ParameterError when the domain is not finite, or too large for its cells to be numbered.
        """
        return cls(domain, numbered_cells(domain, name))

    def cell_of(self, records: Records) -> CellCounts:
        """Return the records' flat indices."""
        return self.domain.flat(records)

    def records_in(self, items: CellCounts) -> Records:
        """Return the records of flat indices."""
        return self.domain.unflat(items)

    def shares_on(self, support: Records, probabilities: Floats) -> Floats:
        """Return the probabilities of the support's own cells."""
        return np.asarray(probabilities[self.domain.flat(support)])

    def base(self) -> Floats:
        """Return the domain's base measure."""
        return np.exp(self.domain.log_base(self.records_in(np.arange(self.count))))

    def line(self) -> Floats | None:
        """Return the column's positions."""
        (column, *others) = self.domain.columns.values()
        try:
            return None if others or column.nullable else column.positions(np.arange(self.count))
        except DomainError:
            return None


def nearest_of(candidates: Floats, *, norm: float = 1.0) -> NearestCandidates:
    """Return the exact search for the nearest of some points; it loads SciPy."""
    from discreet.evolution import NearestCandidates

    return NearestCandidates(candidates, norm=norm)
