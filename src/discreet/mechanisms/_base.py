"""The seam: what every mechanism is.

A mechanism is a probability kernel written as a frozen dataclass. Its **fields are public facts**; its **call arguments
are secret**. Only ``kernel`` reads confidential data. Everything else works on public numbers: ``finish``,
``estimates`` and ``predictive`` on what the kernel gave or on invented tables, ``outputs`` and ``log_prob`` on the tiny
tables of a test.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from discreet._checks import positive_size
from discreet._numeric import least_integer, least_real
from discreet._text import as_written, rounded_up
from discreet.domain import Commonness, Counts, Domain, Parts, Records
from discreet.errors import Infeasible, LawNotAvailable, ParameterError, RelationNotSupported
from discreet.privacy import Budget, Guarantee, Relation, RelationName

__all__ = [
    "MOST_CELLS",
    "MOST_LISTED",
    "NEIGHBOURS",
    "CellCounts",
    "DrawnMechanism",
    "Estimates",
    "Floats",
    "Mechanism",
    "Outcome",
    "Output",
    "Outputs",
    "PartsMechanism",
    "Remedy",
    "Votes",
    "feasible",
    "held_frequencies",
    "listed",
    "refuse_unknown",
    "require_relation",
    "shown_cells",
    "solve_drawn",
]

MOST_LISTED = 2_000_000
"""Outcomes that may be listed."""

MOST_CELLS = 1 << 62
"""Cells of a domain that can be numbered."""

Floats = npt.NDArray[np.float64]

CellCounts = npt.NDArray[np.int64]
"""Noisy counts, one a cell (or a node) of a finite domain."""


class Votes(NamedTuple):
    """What one step of a mechanism that works in steps releases.

    Parameters
    ----------
    candidates : Records
        Distinct records that confidential ones could vote for: public given the steps before.
    votes : ndarray of int64, shape (len(candidates),)
        Noisy number of votes of each.
    """

    candidates: Records
    votes: CellCounts


Output = Iterator[Records] | CellCounts | Counts | Sequence[Votes]
"""What a kernel gives: records in chunks, noisy counts, noisy counts of the records that are kept, or steps."""

NEIGHBOURS = Relation()
"""One record replaced: the default relation."""


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
    """

    text: str
    share_from_data: float | None = None


class Outputs(NamedTuple):
    """Everything a kernel can give for some tiny tables.

    Parameters
    ----------
    values : sequence
        In the kernel's own type; records up to their order.
    neglected : float
        A bound on the probability left out, under any of the tables.
    """

    values: Sequence[Any]
    neglected: float = 0.0


def listed(*ranges: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Return every combination of one item from each range, for :meth:`Mechanism.outputs`.

    Raises
    ------
    ParameterError
        When there are more than two million.
    """
    count = math.prod(map(len, ranges))
    if count > MOST_LISTED:
        raise ParameterError(f"{count:,} outcomes are too many to enumerate; take a smaller universe")
    return product(*ranges)


class Estimates(NamedTuple):
    """A public table of counts.

    Parameters
    ----------
    records : Records
        The cells or labels.
    counts : ndarray of float64, shape (len(records),)
        Estimated number of confidential records of each.
    standard_errors : ndarray of float64, shape (len(records),)
        Standard deviation of each estimate's noise, in records.
    """

    records: Records
    counts: Floats
    standard_errors: Floats


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A kernel, its law, its public post-processing and its guarantee.

    Parameters
    ----------
    domain : Domain
        Public. What a mechanism adds to it are public facts too.

    Attributes
    ----------
    name : str
        Registry and command name.
    free : tuple of str
        Parameters that ``calibrated`` can solve for, the preferred one first.
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
    reads_parts : bool
        Whether the kernel can read a table in parts, so that it need not fit memory: see :class:`PartsMechanism`.
    relations : tuple of str
        Between which tables it has a theorem.
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

    name: ClassVar[str]
    free: ClassVar[tuple[str, ...]]
    needs_cells: ClassVar[bool] = True
    cells_cost: ClassVar[bool] = True
    random_size: ClassVar[bool] = False
    leaves_out: ClassVar[bool] = False
    verbatim: ClassVar[bool] = False
    reads_parts: ClassVar[bool] = False
    relations: ClassVar[tuple[RelationName, ...]] = ("replacement",)
    most_draws: ClassVar[int] = 32
    share_is: ClassVar[Literal["expectation", "bound", "prediction"]]
    share_is_of: ClassVar[str]
    helped_by: ClassVar[tuple[Remedy, ...]]

    domain: Domain

    @property
    def _cells(self) -> int:
        """Number of cells of the domain, which has to be finite, and small enough for cells to be numbered."""
        cells = self._finite_cells()
        if cells > MOST_CELLS:
            raise ParameterError(
                f"{self.name} goes by the cells of the domain, and the product of its columns has "
                f"{shown_cells(cells)}, more than can be numbered: declare fewer columns or fewer cells"
            )
        return cells

    def _finite_cells(self) -> int:
        """Return the number of cells of the domain, however large, or refuse one that is not finite."""
        cells = self.domain.size
        if cells is None:
            raise ParameterError(f"{self.name} needs a finite domain: declare cells, a grid or categories")
        return cells

    @property
    def predictable(self) -> bool:
        """Whether :meth:`predictive` takes seconds."""
        return True

    def share_released(self, n: int) -> float:
        """Return the expected share of the records asked for that are released: below 1 where the kernel drops some."""
        return 1.0

    @classmethod
    def gives_counts(cls) -> bool:
        """Return whether :meth:`estimates` gives a table of counts."""
        return cls.estimates is not Mechanism.estimates

    @abstractmethod
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Output:
        """Take the private step: the only method that reads confidential data.

        Parameters
        ----------
        x : Counts
            Confidential.
        rng : numpy.random.Generator
            Source of the randomness the guarantee rests on.
        """

    @abstractmethod
    def log_prob(self, y: Any, x: Counts) -> float:
        """Return the kernel's exact log-probability (nats) of output ``y`` given ``x``.

        Raises
        ------
        LawNotAvailable
            When there is no closed form.
        """

    @abstractmethod
    def finish(self, y: Output, *, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Turn the kernel's output into ``size`` records, in chunks. Public post-processing: never sees ``x``."""

    @abstractmethod
    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return what is promised for a table of ``n`` records. Never looks at data.

        Raises
        ------
        RelationNotSupported
            When the mechanism has no theorem for the relation.
        """

    def observed(
        self,
        *,
        watch: Callable[[int, int], None] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        redraw: bool = False,
    ) -> Mechanism:
        """Return the mechanism with a callback after each of its steps, and a file to continue from.

        Parameters
        ----------
        watch : callable, optional
            Called with the number of steps done, and how many there are.
        checkpoint : path, optional
            Where the steps released so far are kept.
        redraw : bool
            Whether all of them may be there already, so that the table is not asked again.

        Raises
        ------
        ParameterError
            When there is a checkpoint and the mechanism takes one step only.
        """
        if checkpoint is not None:
            raise ParameterError(f"{self.name} takes one step: leave the checkpoint out")
        return self

    def public_inputs(self) -> dict[str, Records]:
        """Return the public records that the mechanism was made of, by name.

        A release refuses the confidential table there, and its certificate records the hash of each.
        """
        return {}

    def announcement(self) -> str | None:
        """Return what the private step will do, in words, before it does it; None where the parameters say it all."""
        return None

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
            "size": getattr(self, "size", 2) == 1,
        }
        return tuple(remedy for remedy in self.helped_by if not never.get(remedy, False))

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

    def outputs(self, *tables: Counts) -> Outputs:
        """Return everything that the kernel can give for some tiny tables.

        Raises
        ------
        LawNotAvailable
            When it cannot be listed.
        """
        raise LawNotAvailable(f"the outputs of {self.name} cannot be listed")

    def estimates(self, y: Output) -> Estimates:
        """Return the counts that the kernel's output estimates: public post-processing, never sees ``x``.

        Raises
        ------
        ParameterError
            When the mechanism releases records only.
        """
        raise ParameterError(f"{self.name} releases records, not counts: ask for records")

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters under their public names, as JSON values, without domain and size."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any], *, domain: Domain, records: int, size: int | None) -> Self:
        """Build the mechanism from what :meth:`parameters` returns, and the numbers of records held and released.

        Raises
        ------
        ParameterError
            When a parameter is missing, unknown or out of range.
        """
        known = [item.name for item in fields(cls) if item.init and item.name != "domain"]
        given = {"records": records, "size": size}
        values = {**parameters, **{name: value for name, value in given.items() if name in known and value is not None}}
        for name in cls.free:
            if name in known and name not in values:
                missing = ", since its guarantee depends on the number of records released" if name == "size" else ""
                raise ParameterError(f"{cls.name} needs {name}=...{missing}")
        for item in fields(cls):
            if item.name in known and item.name not in values and item.default is item.default_factory is MISSING:
                raise ParameterError(f"{cls.name} needs {item.name}=...")
        if unknown := sorted(set(values) - set(known)):
            named = ", ".join(name for name in known if name not in given)
            raise ParameterError(f"unknown parameter {unknown[0]!r}; {cls.name} has: {named}")
        return cls(domain=domain, **values)

    @classmethod
    def cells_wanted(cls, *, n: int, epsilon: float, columns: int) -> int:
        """Return how many cells a continuous column that declares none is cut into, from public numbers alone.

        ``(n epsilon / 30)^(1/columns)``, between 10 and 1,000: noise of the order ``1/epsilon`` on each cell then moves
        about one record in thirty.
        """
        roots = 1.0 / positive_size("columns", columns)
        return round(min(1000.0, max(10.0, float((n * max(epsilon, 1e-6) / 30.0) ** roots))))

    @classmethod
    @abstractmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> Mechanism:
        """Return the mechanism whose one free parameter is solved for, on the safe side of the optimum.

        Parameters
        ----------
        budget : Budget
            What may be spent.
        domain : Domain
            Public.
        n : int
            Number of records, public.
        size : int, optional
            Number of records to release. When absent it is the free parameter, if the mechanism spends by size.
        group : int
            Records a privacy unit holds.
        **fixed
            Parameters that are given.

        Raises
        ------
        Infeasible
            When no value of the free parameter meets the budget; it names the nearest numbers that do.
        """


class PartsMechanism(Mechanism):
    """A mechanism whose kernel reads a table in parts (:class:`~discreet.domain.Parts`), counts or rows."""

    reads_parts: ClassVar[bool] = True

    @abstractmethod
    def kernel(self, x: Parts, *, rng: np.random.Generator) -> Output:
        """Take the private step on a table that may be read more than once, a part at a time."""


class DrawnMechanism(Mechanism):
    """A mechanism whose kernel draws the records themselves, so that their number costs privacy.

    Attributes
    ----------
    size : int
        Number of records to release.
    """

    size: int

    def finish(self, y: Output, *, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Return the kernel's records as they are."""
        if size != self.size:
            raise ParameterError(f"this mechanism releases {self.size} records, not {size}: it was calibrated for them")
        return cast(Iterator[Records], y)


Drawn = TypeVar("Drawn", bound=DrawnMechanism)


def solve_drawn(
    make: Callable[[int, float], Drawn],
    parameter: str,
    *,
    between: tuple[float, float],
    budget: Budget,
    promise: Callable[[Drawn], Guarantee],
    search: Callable[[Drawn], Guarantee],
    size: int | None,
    value: float | None,
    usual: float,
    rising: bool = True,
) -> Drawn:
    """Solve for the value of a parameter that costs the least utility at a size, or for the largest size at a value.

    Parameters
    ----------
    make : callable
        ``make(size, value)``; privacy worsens with the size.
    parameter : str
        The parameter's name.
    between : tuple of float
        Where to look for its value; above 0 where the largest one is sought.
    budget : Budget
        What may be spent.
    promise, search : callable
        The mechanism's guarantee, and one at least as pessimistic for the search.
    size, value : int, float or None
        What is given; at least one of the two.
    usual : float
        The value at which the nearest delta is stated where no value meets the budget.
    rising : bool
        Whether privacy improves with the value, so that the least one is sought; else the largest one.

    Raises
    ------
    Infeasible
        With the nearest numbers that meet the budget.
    ParameterError
        When neither is given.
    """
    search_for = _DrawnSearch(make, search, budget, between, rising)
    if size is None:
        if value is None:
            raise ParameterError(f"give a size or a {parameter}: one of the two can be solved for")
        most = search_for.largest_size(value)
        if most == 0:
            feasible(search(make(1, value)), budget, f"{budget} with {parameter} {as_written(value)}")
        return make(most, value)
    if value is None:
        found = search_for.value(size)
        if found is None:
            delta = search(make(size, usual)).delta(budget.epsilon)
            raise Infeasible(f"{budget} at size {size}", {"delta >=": delta})
        return make(size, found)
    made = make(size, value)
    guarantee = promise(made)
    if not guarantee.meets(budget):
        nearest = search_for.nearest(parameter, size, value)
        feasible(guarantee, budget, f"{budget} at size {size} with {parameter} {as_written(value)}", **nearest)
    return made


class _DrawnSearch(NamedTuple):
    """The two one-sided searches of :func:`solve_drawn`, whose parameters these are."""

    make: Callable[[int, float], Any]
    search: Callable[[Any], Guarantee]
    budget: Budget
    between: tuple[float, float]
    rising: bool

    def meets(self, size: int, value: float) -> bool:
        """Return whether the pessimistic guarantee is within the budget."""
        return self.search(self.make(size, value)).meets(self.budget)

    def largest_size(self, value: float) -> int:
        """Return the largest size within the budget, 0 where there is none."""
        beyond = least_integer(lambda m: not self.meets(m, value), 1, 10**10)
        return 10**10 if beyond is None else beyond - 1

    def value(self, size: int) -> float | None:
        """Return the value within the budget that costs the least utility, None where there is none."""
        low, high = self.between
        if self.rising:
            return least_real(lambda v: self.meets(size, v), low, high, relative=1e-6)

        def inverse_of(u: float) -> float:
            return min(high, max(low, 1.0 / u))

        inverse = least_real(lambda u: self.meets(size, inverse_of(u)), 1.0 / high, 1.0 / low, relative=1e-6)
        return None if inverse is None else inverse_of(inverse)

    def nearest(self, parameter: str, size: int, value: float) -> dict[str, float]:
        """Return the nearest size and value that meet the budget, by name."""
        nearest: dict[str, float] = {}
        if most := self.largest_size(value):
            nearest["size <="] = most
        if (found := self.value(size)) is not None:
            nearest[f"{parameter} {'>=' if self.rising else '<='}"] = found
        return nearest


def shown_cells(cells: int) -> str:
    """Write a number of cells, by its order of magnitude where it is long."""
    digits = len(str(cells)) if cells < 10**300 else round(cells.bit_length() * math.log10(2.0))
    return f"{cells:,} cells" if digits <= 16 else f"about 1e{digits - 1} cells"


def held_frequencies(domain: Domain, x: Counts, cells: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return how often each of the cells of a finite domain is held."""
    held = dict(zip(domain.flat(x.records).tolist(), x.frequencies.tolist(), strict=True))
    return np.array([held.get(cell, 0) for cell in cells.tolist()], dtype=np.float64)


def refuse_unknown(name: str, left: dict[str, Any], known: str) -> None:
    """Refuse parameters that are left after the known ones were taken.

    Raises
    ------
    ParameterError
        When there are any.
    """
    if left:
        raise ParameterError(f"unknown parameter {sorted(left)[0]!r}; {name} has: {known}")


def require_relation(mechanism: Mechanism | type[Mechanism], relation: str) -> None:
    """Refuse a relation that a mechanism, or a class of mechanisms, has no theorem for.

    Raises
    ------
    RelationNotSupported
        Naming both.
    """
    if relation not in mechanism.relations:
        raise RelationNotSupported(mechanism.name, relation, "its law depends on the number of records")


def feasible(guarantee: Guarantee, budget: Budget, request: str, **nearest: float) -> None:
    """Raise :class:`~discreet.errors.Infeasible` unless the guarantee meets the budget.

    Raises
    ------
    Infeasible
        With the budget that the guarantee does meet, beside ``nearest``.
    """
    if guarantee.meets(budget):
        return
    numbers: dict[str, float] = dict(nearest)
    epsilon = guarantee.epsilon(budget.delta)
    if epsilon <= 100:  # a budget beyond is refused
        numbers["epsilon >="] = epsilon
    if (delta := guarantee.delta(budget.epsilon)) < 1:
        numbers["delta >="] = delta
    raise Infeasible(request, numbers)
