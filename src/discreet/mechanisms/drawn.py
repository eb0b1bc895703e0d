"""Mechanisms whose kernel draws the records themselves, so that their number costs privacy; what they can afford."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, Self, cast

import numpy as np

from discreet._core.errors import Infeasible, ParameterError
from discreet._core.numeric import least_integer, least_real
from discreet._core.text import as_written, counted
from discreet.domain import Counts, Domain, Records
from discreet.mechanisms.base import Mechanism, feasible, require_known
from discreet.mechanisms.reading import Contents, Reading
from discreet.privacy import Budget, Guarantee, Relation
from discreet.privacy.instance import HeldTable

_MOST_HELD = 1 << 20


class Looked(NamedTuple):
    """Where the value of a free parameter is looked for, and the value that stands for the most private one.

    Privacy improves with the value where it is ``rising``, so that the least one is sought; else the largest one is
    sought, and values are above 0.
    """

    between: tuple[float, float]
    usual: float
    rising: bool = True


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

    @classmethod
    def _looked(cls, domain: Domain) -> Looked:
        """Return where the free parameter's value is looked for."""
        raise NotImplementedError

    @classmethod
    def _sized(cls, size: int, value: float, *, domain: Domain, n: int, **fixed: Any) -> Self:
        """Return the mechanism at a size and a value of the free parameter."""
        (free,) = (name for name in cls.traits.free if name != "size")
        return cls(domain=domain, size=size, **{free: value}, **fixed)  # type: ignore[call-arg]  # of the subclass

    def _searched(self, relation: Relation, n: int, budget: Budget) -> Guarantee:
        """Return a guarantee for the search: at least as pessimistic as :meth:`guarantee`, and quick."""
        return self.guarantee(relation, n=n)

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> Self:
        """Solve for the free parameter's value that costs least utility at a size, or the largest size at a value."""
        require_known(cls, fixed)
        (free,) = (name for name in cls.traits.free if name != "size")
        relation, value = Relation(group=group), fixed.pop(free, None)
        search_for = _DrawnSearch(
            lambda m, v: cls._sized(m, v, domain=domain, n=n, **fixed),
            lambda made: made._searched(relation, n, budget),
            budget,
            cls._looked(domain),
        )
        made = _solved(search_for, free, lambda made: made.guarantee(relation, n=n), size=size, value=value)
        return cast(Self, made)


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


def _solved(
    search_for: _DrawnSearch,
    parameter: str,
    promise: Callable[[Any], Guarantee],
    *,
    size: int | None,
    value: float | None,
) -> Any:
    """Solve for the value of a parameter that costs the least utility at a size, or for the largest size at a value.

    Raises Infeasible with the nearest numbers that meet the budget, and ParameterError when neither is given.
    """
    make, search, budget, looked = search_for
    if size is None:
        if value is None:
            raise ParameterError(f"give a size or a {parameter}, since only one of the two can be solved for")
        most = search_for.largest_size(value)
        if most == 0:
            feasible(search(make(1, value)), budget, f"{budget} with {parameter} {as_written(value)}")
        return make(most, value)
    if value is None:
        found = search_for.value(size)
        if found is None:
            delta = search(make(size, looked.usual)).delta(budget.epsilon)
            raise Infeasible(f"{budget} at size {size}", {"delta >=": delta})
        return make(size, found)
    made = make(size, value)
    guarantee = promise(made)
    if not guarantee.meets(budget):
        nearest = search_for.nearest(parameter, size, value)
        feasible(guarantee, budget, f"{budget} at size {size} with {parameter} {as_written(value)}", **nearest)
    return made


class _DrawnSearch(NamedTuple):
    """Two one-sided searches, given ``make(size, value)`` and a guarantee as pessimistic as its own, or more."""

    make: Callable[[int, float], Any]
    search: Callable[[Any], Guarantee]
    budget: Budget
    looked: Looked

    def excess(self, size: int, value: float) -> float:
        """Return by how much the pessimistic guarantee is above the budget: at most 0 where it meets it."""
        return self.search(self.make(size, value))._excess(self.budget)

    def largest_size(self, value: float) -> int:
        """Return the largest size within the budget, 0 where there is none."""
        beyond = least_integer(lambda m: self.excess(m, value) > 0, 1, 10**10)
        return 10**10 if beyond is None else beyond - 1

    def value(self, size: int) -> float | None:
        """Return the value within the budget that costs the least utility, None where there is none."""
        low, high = self.looked.between
        if self.looked.rising:
            return least_real(lambda v: self.excess(size, v), low, high, relative=1e-6)

        def inverse_of(u: float) -> float:
            return min(high, max(low, 1.0 / u))

        inverse = least_real(lambda u: self.excess(size, inverse_of(u)), 1.0 / high, 1.0 / low, relative=1e-6)
        return None if inverse is None else inverse_of(inverse)

    def nearest(self, parameter: str, size: int, value: float) -> dict[str, float]:
        """Return the nearest size and value that meet the budget, by name."""
        nearest: dict[str, float] = {}
        if most := self.largest_size(value):
            nearest["size <="] = most
        if (found := self.value(size)) is not None:
            nearest[f"{parameter} {'>=' if self.looked.rising else '<='}"] = found
        return nearest
