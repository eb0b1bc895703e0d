"""What planning, warnings and certificates ask of a mechanism: what share of a release is from the data, and its error.

All of it is computed from public numbers and invented tables.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.text import rounded_up
from discreet.domain import Records
from discreet.domain._commonness import Commonness
from discreet.mechanisms._base import Output, PrivateStep, numbered_cells

Remedy = Literal[
    "cells",
    "columns",
    "points",
    "size",
    "fewer steps",
    "more steps",
    "smaller population",
    "larger population",
    "discount",
    "mixing",
    "epsilon",
    "delta",
]
"""What may lower the share of released records that is not from the data: see :meth:`Mechanism.remedies`."""


class Outcome(NamedTuple):
    """What the output of a kernel tells about its use: public post-processing.

    Parameters
    ----------
    text : str
        In words.
    share_from_data : float or None
        Estimated share of the released records that carries information from the table, in [0, 1]; None where the
        output tells no more of it than was known beforehand.
    facts : mapping, optional
        What else the certificate says of what was released, by the names of its schema.
    """

    text: str
    share_from_data: float | None = None
    facts: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Mechanism(PrivateStep):
    """A mechanism of which it can be said beforehand what its releases will be worth.

    Attributes
    ----------
    needs_cells : bool
        Whether the domain has to be finite.
    cells_cost : bool
        Whether the guarantee depends on the number of cells.
    random_size : bool
        Whether the kernel may release fewer records than asked for.
    leaves_out : bool
        Whether rare records are left out, of which no public number tells how many there are.
    verbatim : bool
        Whether released records are confidential records themselves, where the domain is continuous or open.
    least_columns : int
        Number of columns from which on a plan considers it.
    cells_each : int or None
        Cells that each continuous column gets where none are declared, if its error does not depend on their product.
    tried_out : bool
        Whether calibration tries many settings out, so that a plan for a wide table leaves it to be asked for by name.
    most_draws : int
        How many draws of :meth:`predictive` a prediction takes at most.
    share_is : {"expectation", "bound", "prediction"}
        What :meth:`share_not_from_data` is: the expectation for every table; a bound on it for every table; or the
        expectation for tables like a public or an invented one, or under a stated model.
    share_is_of : str
        What the released records of that share have in common, after "of the released records".
    helped_by : tuple of Remedy
        What may lower that share.
    """

    needs_cells: ClassVar[bool] = True
    cells_cost: ClassVar[bool] = True
    random_size: ClassVar[bool] = False
    leaves_out: ClassVar[bool] = False
    verbatim: ClassVar[bool] = False
    least_columns: ClassVar[int] = 1
    cells_each: ClassVar[int | None] = None
    tried_out: ClassVar[bool] = False
    most_draws: ClassVar[int] = 32
    share_is: ClassVar[Literal["expectation", "bound", "prediction"]]
    share_is_of: ClassVar[str]
    helped_by: ClassVar[tuple[Remedy, ...]]

    @property
    def _cells(self) -> int:
        """Number of cells of the domain, which must be finite, and small enough for cells to be numbered."""
        return numbered_cells(self.domain, self.name)

    @property
    def counted_cells(self) -> int | None:
        """Number of counts that it releases, where that is known beforehand."""
        return self._cells if self.needs_cells else None

    @property
    def count_labels(self) -> tuple[str, ...]:
        """Names of the text columns that say what each count is of; none where it is a cell or label of the domain."""
        return ()

    @property
    def predictable(self) -> bool:
        """Whether :meth:`predictive` takes seconds."""
        return True

    @property
    def stratified(self) -> bool:
        """Whether records are drawn systematically, with less sampling error than independent ones."""
        return getattr(self, "sampling", "iid") == "stratified"

    @property
    def several(self) -> int | None:
        """How many tables a release has, each a draw of :meth:`finish` from a posterior; None for the one of a file."""
        tables: int | None = getattr(self, "tables", None)
        return tables

    @property
    def single_record(self) -> bool:
        """Whether it was made to release one record only."""
        return getattr(self, "size", 2) == 1

    def share_released(self, n: int) -> float:
        """Return the expected share of the records asked for that are released: below 1 where the kernel drops some."""
        return 1.0

    def outcome(self, y: Output, n: int) -> Outcome | None:
        """Return what the output itself tells about its use: public post-processing.

        Parameters
        ----------
        y : Output
            What the kernel gave.
        n : int
            Number of records, public.

        Returns
        -------
        Outcome or None
            None where there is nothing that was not known beforehand.
        """
        return None

    def pairs_measured(self, y: Output) -> Sequence[tuple[int, int]] | None:
        """Return the pairs of columns that an output has a table of, as their numbers; None where it has records."""
        return None

    def pairs_in_words(self, n: int) -> list[str]:
        """Return what is known beforehand of how columns are kept together in a release of ``n`` records."""
        return ["All columns are worked on together, so that no pair of columns is left out."]

    @abstractmethod
    def share_not_from_data(self, n: int, like: Commonness | None = None) -> float:
        """Return the share of the released records that carries nothing of a table of ``n`` records.

        An expectation, a bound on it, or a prediction: ``share_is`` says which. It does not fall when the domain gets a
        further column and the mechanism is calibrated anew.

        Parameters
        ----------
        n : int
            Number of records, public.
        like : Commonness, optional
            How common the records of tables like this one are; by default those of an invented one. Only predictions
            depend on it, and not all of them.
        """

    def most_not_from_data(self, n: int) -> float:
        """Return a bound on that share that holds for every table of ``n`` records; 1 where none is known."""
        return 1.0 if self.share_is == "prediction" else self.share_not_from_data(n)

    def share_in_words(self, n: int, like: Commonness | None = None) -> str:
        """Return the share that is not from the data in a sentence that says what it is."""
        share = f"{rounded_up(100.0 * self.share_not_from_data(n, like))} %"
        if self.share_is == "expectation":
            return f"{share} of the released records {self.share_is_of}, on average"
        if self.share_is == "bound":
            return f"at most {share} of the released records {self.share_is_of}, on average"
        most = self.most_not_from_data(n)
        worst = "all" if most >= 1.0 else f"at most {rounded_up(100.0 * most)} %"
        return f"about {share} of the released records {self.share_is_of}; in the worst case, {worst}"

    def remedies(self, n: int) -> tuple[Remedy, ...]:
        """Return what would lower the share that is not from the data, were the mechanism calibrated with it."""
        sizes = [column.size for column in self.domain.columns.values()]
        never = {
            "cells": not any(size is not None and size > 2 for size in sizes),
            "columns": len(sizes) == 1,
            "size": self.single_record,
        }
        return tuple(remedy for remedy in self.helped_by if not never.get(remedy, False))

    @classmethod
    def equivalent(cls, numbers: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the registry name and the parameters that plain numbers stand for: ``cells`` and its own parameters.

        Another mechanism's where numbers outside this one's range say that. Raises ParameterError when they contradict
        each other.
        """
        return cls.name, dict(numbers)

    @abstractmethod
    def predictive(self, shares: Floats, *, support: Records, n: int, rng: np.random.Generator) -> Floats:
        """Draw the probabilities that records would be drawn with, for an invented table: for predictions only.

        Parameters
        ----------
        shares : ndarray of float64, shape (len(support),)
            Share of the invented table's records on each record of ``support``.
        support : Records
            Distinct records; all cells in flat order where the domain has few enough.
        n : int
            Number of records of the invented table.
        rng : numpy.random.Generator
            Source of the noise, in floating point.

        Returns
        -------
        ndarray of float64, shape (len(support) + 1,)
            Sums to one; the last entry is the probability of a draw from the base measure.
        """
