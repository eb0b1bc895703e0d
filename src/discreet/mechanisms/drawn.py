"""Mechanisms whose kernel draws the records themselves, so that their number costs privacy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from discreet._core.errors import ParameterError
from discreet._core.text import counted
from discreet.domain import Counts, Domain, Records
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.reading import Contents, Reading
from discreet.privacy import HeldTable

_MOST_HELD = 1 << 20


class DrawnMechanism(Mechanism):
    """A mechanism whose kernel draws the records themselves, so that their number costs privacy.

    Attributes
    ----------
    size : int
        Number of records to release.
    """

    size: int

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return as many records as it was made for."""
        return replace(super().contents(n, counts=counts), size=self.size)

    def reading(self, y: Iterator[Records], *, n: int) -> Reading:
        """Return the kernel's records as they are."""
        return KernelRecords(y, self.size)


@dataclass(frozen=True, eq=False)
class KernelRecords(Reading):
    """Records that the kernel drew, in chunks: their number, ``size``, was fixed before."""

    chunks: Iterator[Records]
    size: int

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Return the kernel's records as they are."""
        if size != self.size:
            raise ParameterError(f"this mechanism was calibrated for {counted(self.size, 'record')}, not {size}")
        return self.chunks


class HeldMechanism(DrawnMechanism):
    """A mechanism whose law at one confidential table is known in closed form: what an instance-level audit asks."""

    @abstractmethod
    def held_table(self, x: Counts) -> HeldTable:
        """Return what the law of the kernel at a table depends on: as confidential as the table.

        Raises
        ------
        ParameterError
            Where it has no closed form.
        """


def held_cells(domain: Domain, x: Counts, *, size: int, strength: float) -> HeldTable:
    """Hold the cells of a table and the empty ones; where all weigh the same, two empty ones stand for all.

    Raises ParameterError for more than 2^20 cells of unequal weight.
    """
    cells = int(domain.size or 0)
    if set(domain.least_weights()) == {Fraction(1, cells)}:
        held = np.arange(x.distinct + min(2, cells - x.distinct)) < x.distinct
        mass = np.full(len(held), strength / cells)
        mass[held] += x.frequencies
    elif cells <= _MOST_HELD:
        mass = strength * np.exp(domain.log_base(domain.unflat(np.arange(cells))))
        held = np.zeros(cells, dtype=np.bool_)
        held[domain.flat(x.records)] = True
        mass[domain.flat(x.records)] += x.frequencies
    else:
        raise ParameterError(f"instance-level deltas with unequal weights are for at most {_MOST_HELD:,} cells")
    return HeldTable.dirichlet(mass, held, size=size, total=strength + x.n)
