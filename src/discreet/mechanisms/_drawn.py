"""Mechanisms whose kernel draws the records themselves, and the search for what they can afford."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from discreet._numeric import least_integer, least_real
from discreet._text import as_written
from discreet.domain import Counts, Domain, Records
from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms._base import Output, feasible
from discreet.mechanisms._mechanism import Mechanism
from discreet.privacy import Budget, Guarantee
from discreet.privacy._held_table import HeldTable

__all__ = ["DrawnMechanism", "HeldMechanism", "held_cells", "solve_drawn"]

_MOST_HELD = 1 << 20


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

    ``make``: ``make(size, value)``; privacy worsens with the size.
    ``parameter``: the parameter's name.
    ``between``: where to look for its value; above 0 where the largest one is sought.
    ``budget``: what may be spent.
    ``promise``, ``search``: the mechanism's guarantee, and one at least as pessimistic for the search.
    ``size``, ``value``: what is given; at least one of the two.
    ``usual``: the value at which the nearest delta is stated where no value meets the budget.
    ``rising``: whether privacy improves with the value, so that the least one is sought; else the largest one.

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
