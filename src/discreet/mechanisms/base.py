"""The seam: every mechanism is a frozen dataclass, whose fields are public facts, and whose call arguments are secret.

Its private step, ``kernel``, is all that reads confidential data in a release. Its reading (``reading.py``) is public.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import LawNotAvailable, ParameterError, RelationNotSupported, positive_size
from discreet._core.numeric import Floats, Integers
from discreet._core.text import counted
from discreet.domain import Commonness, Counts, Domain, Parts, Records
from discreet.mechanisms.calibration import Search
from discreet.mechanisms.forecast import Forecast, Traits
from discreet.mechanisms.reading import Contents, Reading
from discreet.privacy import AnyBudget, Code, Guarantee, Relation

if TYPE_CHECKING:
    from discreet.mechanisms.likelihood import Likelihood

MOST_LISTED = 2_000_000  # outcomes
MOST_CELLS = 1 << 62  # of a domain that can be numbered

CellCounts = Integers
"""Noisy counts, one per cell (or node) of a finite domain."""

DrawnTable = Mapping[str, npt.NDArray[Any]]
"""Codes or numbers of the columns of a table that was drawn from a model."""


class Votes(NamedTuple):
    """What one step releases: distinct public records to vote for, and the noisy number of votes of each."""

    candidates: Records
    votes: CellCounts


KernelOutput = Iterator[Records] | CellCounts | Counts | tuple[Any, CellCounts] | Sequence[Votes] | Sequence[DrawnTable]
"""Records in chunks, noisy counts, those of kept records, kept labels with counts, steps, or drawn tables."""

NEIGHBOURS = Relation()
"""One record replaced: the default relation."""


class Outputs(NamedTuple):
    """Everything that a kernel can give for some tiny tables, records up to their order."""

    values: Sequence[Any]
    neglected: float = 0.0  # a bound on the probability left out, under any of the tables


def listed(*ranges: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Return every combination of one item from each range; ParameterError where there are more than two million."""
    count = math.prod(map(len, ranges))
    if count > MOST_LISTED:
        raise ParameterError(f"{count:,} outcomes are too many to enumerate. Take a smaller universe")
    return product(*ranges)


def outputs_around(counts: Integers, reach: int) -> Outputs:
    """Return the integer vectors no further than ``reach`` from some, all but 1e-13 of them by probability."""
    ends = zip((counts.min(axis=0) - reach).tolist(), (counts.max(axis=0) + reach + 1).tolist(), strict=True)
    return Outputs([np.array(z) for z in listed(*(range(low, high) for low, high in ends))], 1e-13)


@sealed
@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A private step, its law and its guarantee; and a public reading of what it gives.

    Parameters
    ----------
    domain : Domain
        Public. What a mechanism adds to it are public facts too.

    Attributes
    ----------
    name : str
        Registry and command name.
    traits : Traits
        Facts of the class, whatever its parameters.
    """

    name: ClassVar[str]
    traits: ClassVar[Traits]

    domain: Domain

    @abstractmethod
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> KernelOutput:
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

    def outputs(self, *tables: Counts) -> Outputs:
        """Return everything that the kernel can give for some tiny tables.

        Raises
        ------
        LawNotAvailable
            When it cannot be listed.
        """
        raise LawNotAvailable(f"the outputs of {self.name} cannot be listed")

    @abstractmethod
    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return what is promised for a table of ``n`` records. Never looks at data.

        Raises
        ------
        RelationNotSupported
            When the mechanism has no theorem for the relation.
        """

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return what a release of ``n`` records holds: records, or a table of counts where the traits allow it."""
        return Contents(domain=self.domain)

    @abstractmethod
    def reading(self, y: Any, *, n: int) -> Reading:
        """Return the reading of an output: public post-processing, which never sees ``x``.

        A release asks a twin of the mechanism for it, which is built from public parameters alone.

        Parameters
        ----------
        y : KernelOutput
            What the kernel gave.
        n : int
            Number of records, public.
        """

    def likelihood(self) -> Likelihood:
        """Return how a release's likelihood depends on the confidential counts, or why that is not known.

        It follows from public parameters alone, so it can be asked before there is an output.
        """
        from discreet.mechanisms.likelihood import NoLikelihood

        return NoLikelihood()

    @abstractmethod
    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return what is known beforehand of a release of a table of ``n`` records.

        Parameters
        ----------
        n : int
            Number of records, public.
        like : Commonness, optional
            How common the records of tables like this one are; by default those of an invented one. Only predictions
            depend on it, and not all of them.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters under their public names, as JSON values, without domain and numbers of records."""
        values = {name: getattr(self, name) for name in parameter_names(type(self))}
        values |= {name: value.to_json() for name, value in values.items() if hasattr(value, "to_json")}
        values |= {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, domain: Domain, records: int, size: int | None) -> Self:
        """Build the mechanism from what :meth:`parameters` returns, and the numbers of records held and released.

        Raises
        ------
        ParameterError
            When a parameter is missing, unknown or out of range.
        """
        parts = [item for item in fields(cls) if item.init and item.name != "domain"]
        names = {item.name for item in parts}
        numbers = {"records": records, "size": size}
        values = {**parameters, **{name: n for name, n in numbers.items() if name in names and n is not None}}
        missing = [name for name in cls.traits.free if name in names - set(values)]
        if missing[:1] == ["size"]:
            raise ParameterError(f"{cls.name} needs size=..., on which its guarantee depends")
        missing += [item.name for item in parts if item.default is item.default_factory is MISSING]
        for name in missing:
            if name not in values:
                raise ParameterError(f"{cls.name} needs {name}=...")
        require_known(cls, set(values) - names)
        return cls(domain=domain, **values)

    @classmethod
    def calibrated(
        cls, budget: AnyBudget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> Self:
        """Return the mechanism whose one free parameter is solved for, on the safe side of the optimum.

        Parameters
        ----------
        budget : Budget, Risk, Advantage or Success
            What may be spent. What an attacker may reach is met by the mechanism's own profile.
        domain : Domain
            Public.
        n : int
            Number of records, public.
        size : int, optional
            Number of records to release. When absent it is the free parameter, if the mechanism spends by size.
        group : int
            Records a privacy unit holds.
        **fixed
            Parameters that are given; ``relation`` too where the mechanism has theorems for several.

        Raises
        ------
        Infeasible
            When no value of the free parameter meets the budget; it names the nearest numbers that do.
        """
        require_known(cls, fixed, *(["relation"] if len(cls.traits.relations) > 1 else []))
        relation = Relation(name=fixed.pop("relation", "replacement"), group=group)
        parameters = {name: value for name, value in fixed.items() if value is not None or name not in cls.traits.free}
        search = Search(
            mechanism_type=cls, budget=budget, domain=domain, n=n, size=size, relation=relation, parameters=parameters
        )
        mechanism: Self = cls._solution(search)
        return mechanism

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Return the mechanism that a search asks for: what is free, and where the search starts, is said here."""
        raise ParameterError(f"{cls.name} is not calibrated from a budget. Give the mechanism itself")


Twin = TypeVar("Twin", bound=Mechanism)


def twin_of(mechanism: Twin, size: int | None) -> Twin:
    """Return an equal mechanism, built anew from public parameters: what a release reads outputs with."""
    # A user's own generator, a public argument, is handed on. size: number of records to release; None for counts.
    parameters, domain = json.loads(json.dumps(mechanism.parameters())), Domain.from_dict(mechanism.domain.to_dict())
    records, size = declared(mechanism, "records") or 0, declared(mechanism, "size") or size
    twin = mechanism.from_parameters(parameters, domain=domain, records=records, size=size)
    # of a user's own generator a twin has what was stated of it
    names = [item.name for item in fields(twin) if hasattr(getattr(twin, item.name), "stated")]
    generators: dict[str, Any] = {name: getattr(mechanism, name) for name in names}
    return replace(twin, **generators)


def public_inputs(mechanism: Mechanism) -> dict[str, Records]:
    """Return the public records that a mechanism was made of, by name: a release refuses the table there."""
    inputs: dict[str, Records] = {}
    for item in fields(mechanism):
        value = getattr(mechanism, item.name)
        sources = {"": value} if isinstance(value, Records) else getattr(value, "sources", dict)()
        inputs |= {f"{item.name}.{name}".removesuffix("."): records for name, records in sources.items()}
    return inputs


def parameter_names(kind: type[Mechanism]) -> tuple[str, ...]:
    """Return the names of the parameters of a class, without the domain and the numbers of records."""
    return tuple([item.name for item in fields(kind) if item.init and item.name not in ("domain", "records", "size")])


def require_known(kind: type[Mechanism], names: Iterable[str], *more: str) -> None:
    """Raise ParameterError for names that are neither parameters of a class nor among the ``more``."""
    parameters = (*parameter_names(kind), *more)
    if unknown := sorted(set(names) - set(parameters)):
        raise ParameterError(f"unknown parameter {unknown[0]!r}. Parameters of {kind.name}: {', '.join(parameters)}")


def declared(mechanism: Mechanism, name: str) -> int | None:
    """Return the number of ``records``, or the ``size``, that a mechanism was made for, where it has that field."""
    return getattr(mechanism, name) if name in mechanism.__dataclass_fields__ else None


class PartsMechanism(Mechanism):
    """A mechanism whose kernel reads a table in parts (:class:`~discreet.domain.Parts`), counts or rows."""

    @property
    def by_unit(self) -> bool:
        """Whether the table has to say which records are of one privacy unit."""
        return False


class SteppedMechanism(PartsMechanism):
    """A mechanism whose kernel takes ``steps`` steps, each of which may be long."""

    steps: int

    @abstractmethod
    def further(self, x: Parts, released: list[Votes], *, rng: np.random.Generator) -> Iterator[Votes]:
        """Yield the steps after those released so far, to which the caller adds each before it asks for the next."""

    def kernel(self, x: Parts, *, rng: np.random.Generator) -> list[Votes]:
        """Take all steps."""
        released: list[Votes] = []
        for step in self.further(x, released, rng=rng):
            released.append(step)  # noqa: PERF402 - the next step is taken after those before it
        return released

    @abstractmethod
    def could_release(self, step: Votes) -> bool:
        """Return whether a step is one that some run could release, by its candidates and votes alone."""

    @abstractmethod
    def shown(self, number: int, step: Votes) -> Any:
        """Return what a step released, as it is shown while the run goes on: public post-processing."""

    @abstractmethod
    def announcement(self) -> Code:
        """Return what the steps will do, before the first one."""


def numbered_cells(domain: Domain, name: str, *, most: float = MOST_CELLS) -> int:
    """Return the number of cells of a domain; ParameterError, naming the mechanism, where they cannot be numbered."""
    if domain.size is None:
        raise ParameterError(f"{name} needs a finite domain. Declare cells, a grid or categories")
    if domain.size > most:
        raise ParameterError(
            f"{name} needs the cells of the domain to be numbered, and the product of its columns has "
            f"{shown_cells(domain.size)}, too many for that. Declare fewer columns or fewer cells"
        )
    return domain.size


def shown_cells(cells: int) -> str:
    """Write a number of cells, by its order of magnitude where it is long."""
    if cells < 10**16:
        return counted(cells, "cell")
    return f"about 1e{math.floor(math.log10(cells))} cells"


def held_frequencies(domain: Domain, x: Counts, cells: Integers) -> Floats:
    """Return how often each of the cells of a finite domain is held."""
    frequencies = dict(zip(domain.flat(x.records).tolist(), x.frequencies.tolist(), strict=True))
    return np.array([frequencies.get(cell, 0) for cell in cells.tolist()], dtype=np.float64)


def require_relation(mechanism: Mechanism | type[Mechanism], relation: str) -> None:
    """Raise RelationNotSupported where a mechanism, or a class of mechanisms, has no theorem for a relation."""
    if relation not in mechanism.traits.relations:
        raise RelationNotSupported(mechanism.name, relation, "its theorem is proved for replacement")


def require_neighbours(mechanism: Mechanism, relation: Relation, n: int) -> tuple[int, int]:
    """Return a number of records, and how many of them a privacy unit holds; RelationNotSupported without a theorem."""
    require_relation(mechanism, relation.name)
    n = positive_size("n", n)
    return n, min(relation.group, n)


def require_made_for(records: int | None, n: int) -> None:
    """Raise ParameterError for a table that has not the number of records for which a mechanism was made."""
    if records not in (None, n):
        raise ParameterError(
            f"the table must have {counted(records or 0, 'record')}, for which the mechanism was made, got {n:,}"
        )
