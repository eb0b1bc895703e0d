"""What a projection is: noisy counts in, probabilities out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from discreet._core.arrays import Floats
from discreet.mechanisms._base import CellCounts
from discreet.mechanisms._cells import Cells

Surplus = Literal["rescaled", "shifted", "moved"]
"""What is done with what positive parts have above the total: divided out, taken off all of them alike, or set off
against the negative parts of neighbours."""


@dataclass(frozen=True)
class Projection(ABC):
    """Probabilities of cells from their noisy counts: public post-processing.

    Parameters
    ----------
    cells : Cells
        Public.
    total : int
        The public number of records.
    """

    name: ClassVar[str]
    surplus: ClassVar[Surplus] = "shifted"
    """What is done with it, nearly or exactly: inference asks."""
    cells: Cells
    total: int

    @classmethod
    def unsuited(cls, cells: Cells) -> str | None:
        """Return what is needed that these cells do not have, after "needs"; None where they have it."""
        return None

    @property
    def at_once(self) -> bool:
        """Whether many rows are projected in the time of a few."""
        return True

    @abstractmethod
    def probabilities(self, y: CellCounts) -> Floats:
        """Return probabilities, leaving ``y`` as it is.

        Counts without noise, whose sum is ``total``, come back as their shares. The expected total variation from these
        shares is at most what mechanisms state of it (``projection_error``): it is, where the probabilities are nowhere
        above, or nowhere below, the positive part of ``y / total``, shifted onto a sum of one or not.

        Parameters
        ----------
        y : ndarray of int64, shape (.., k)
            Noisy counts of the cells: one vector, or rows of them where :attr:`at_once`.

        Returns
        -------
        ndarray of float64, shape (.., k)
            Non-negative; each row sums to one.
        """
