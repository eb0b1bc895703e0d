"""The request for one release: public facts, checked against one another before anything is opened."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import DomainError, ParameterError, integer, positive_size, unfit
from discreet._core.files import beside, canonical
from discreet.confidential import unit_of
from discreet.domain import Column, Domain
from discreet.mechanisms import Mechanism, SteppedMechanism, declared, named
from discreet.privacy import AttackBudget, Budget, Relation, Unit

FilePath = str | os.PathLike[str]

_ADD_REMOVE = "For add/remove write relation=AddRemove(records=...)"
MOST_PARTS = 10_000

DATA_DEPENDENT = "data-dependent-refusal"
ACCEPTED = ("poor-utility", "weak-promise", "other-columns", "asymptotic", "empirical", DATA_DEPENDENT)
"""What a release may be asked to accept."""

Workers = int | Callable[[Callable[[int], Any], Sequence[int]], Iterable[Any]]
"""How many processes make the parts, or a function that applies another one to numbers, as ``map`` does."""


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A guarantee between tables of equally many records, of which one record, or one unit's, is another.

    The number of records is then public.

    Parameters
    ----------
    records : int, optional
        Public. The number of records of the table, where it is known beforehand. What cannot be met is then refused
        before the table is opened. A table that has another number is refused.
    """

    records: int | None = None

    def __post_init__(self) -> None:
        if self.records is not None:
            object.__setattr__(self, "records", positive_size("records", self.records))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class AddRemove:
    """A guarantee between tables of which one has one more record, or unit, than the other.

    The number of records is then confidential, and another one is declared in its place.

    Parameters
    ----------
    records : int
        Public. The number of records of the table, roughly right and declared without counting them.
    """

    records: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", positive_size("records", self.records))


@sealed
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The file that holds the steps released so far, for a mechanism that works in steps.

    Parameters
    ----------
    path : path
        Written after each step. A run that died and is called again with the same arguments and table goes on after
        these steps, and pays for none twice.
    redraw : bool
        Whether all steps may be done already. Other records are then drawn from the votes in the file, and the table
        is not asked at all. Without it a finished checkpoint is refused.
    """

    path: FilePath
    redraw: bool = False


@sealed
@dataclass(frozen=True, slots=True)
class Output:
    """The files of a release.

    Parameters
    ----------
    path : path, optional
        The file of the table: Parquet, CSV or Arrow, by its ending. Several tables, and parts, go to a folder of this
        name, which must not exist. Without it the records are returned.
    format : str, optional
        How the tables of a folder are written, as the ending of one file would say it: ``"csv"``, ``"csv.gz"``, ...
        ``"parquet"`` by default.
    certificate : path, optional
        The file of the certificate; ``PATH.certificate.json`` by default. A folder holds its own.
    partitions : int, optional
        Write one table as a folder of this many Parquet files. If records follow from released counts, each file is
        made by itself, and memory depends on the size of one file.
    partition_by : str, optional
        A column of few declared values. Each value gets a folder ``COLUMN=value`` of ``partitions`` files, even if no
        record has it.
    workers : int or callable
        How many processes make the parts, or a function like ``map`` of an engine whose machines share the folder.
        Workers receive public values only.
    checkpoint : Checkpoint or path, optional
        Where the steps of a mechanism that works in steps are kept.

    Raises
    ------
    ParameterError
        When a number is out of range, or two of the fields contradict each other.
    """

    path: FilePath | None = None
    _: KW_ONLY
    format: str | None = None
    certificate: FilePath | None = None
    partitions: int | None = None
    partition_by: str | None = None
    workers: Workers = 1
    checkpoint: Checkpoint | FilePath | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.checkpoint, (Checkpoint, type(None))):
            object.__setattr__(self, "checkpoint", Checkpoint(self.checkpoint))
        if self.certificate is not None and self.path is None:
            raise ParameterError(
                "a certificate's file stands beside that of its table. Write out=Output(..., certificate=...)"
            )
        if self.format is not None and (self.path is None or self.partitions is not None):
            raise ParameterError("a format is for tables in a folder, and parts are Parquet. Leave it out")
        if self.partitions is None:
            if self.partition_by is not None or self.workers != 1:
                raise ParameterError(
                    "partition_by and workers are for a release in parts. Write out=Output(..., partitions=...)"
                )
            return
        if not callable(self.workers):
            object.__setattr__(self, "workers", integer("workers", self.workers, least=1, most=1024))
        object.__setattr__(self, "partitions", positive_size("partitions", self.partitions))
        if self.partitions > MOST_PARTS:
            raise unfit("partitions", f"at most {MOST_PARTS:,}", self.partitions)
        if self.path is None:
            raise ParameterError("a release in parts is a folder that must not exist yet. Write out=...")


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Callbacks during a release. What they receive is public.

    Parameters
    ----------
    announce : callable, optional
        Called with one sentence at a time: what was chosen and why, before anything is drawn.
    progress : callable, optional
        Called with the number of records drawn so far; for a model, with how many draws each chain of the current fit
        has made, and how many it is to make.
    stepped : callable, optional
        Called after each step of a mechanism that works in steps, with the numbers of steps done and of all steps.
    evolved : callable, optional
        Called after each step with its release, which is public. For ``private-evolution`` it has a ``number``, the
        frame of ``candidates``, their noisy ``votes`` and ``shares``. ``print`` writes a line for each step.
    """

    announce: Callable[[str], None] | None = None
    progress: Callable[..., None] | None = None
    stepped: Callable[[int, int], None] | None = None
    evolved: Callable[[Any], None] | None = None


@sealed
@dataclass(frozen=True, kw_only=True)
class Request:
    """One release that is asked for: its payment, its mechanism and its run are all made from this request.

    All of it is public.

    Parameters
    ----------
    budget : Budget, Risk, Advantage or Success, optional
        The most that the release may spend; None where the mechanism that is given says what it costs. What an attacker
        may reach becomes the field ``attack``: the mechanism that meets it then says what it costs.
    domain : Domain, optional
        The declared domain. A ledger keeps its hash.
    relation : Replacement or AddRemove
        Between which tables the guarantee holds, and the number of records, where it is declared.
    unit : Unit, optional
        The privacy unit behind the records; None where it is a record.
    size : int, optional
        Number of records to release; None for counts.
    counts : bool
        Whether a table of counts is released.
    mechanism : str, optional
        Registry name of the mechanism, with its ``parameters``; None where the plan chooses.
    parameters : mapping
        The parameters that are given.
    accept : collection of str
        What is accepted beyond the usual: see :func:`discreet.release`.
    kind : str, optional
        The kind of guarantee, where no mechanism says it before the payment.
    seeded : bool
        Whether a seed is used. No ledger pays for such a release.
    output : Output
        The files that are asked for; ``out`` has their names, once they are known to be writable.
    part : str, optional
        The name of the release in a plan that was declared in the ledger, which paid for it.
    out : tuple of path
        The files, or the folder, that the release goes to.
    watch : Watch
        Callbacks during the release.

    Raises
    ------
    ParameterError
        When a number is out of range, or two of the fields contradict each other.
    """

    budget: Budget | None = None  # given what an attacker may reach, that becomes the attack
    attack: AttackBudget | None = None
    domain: Domain | None = None
    relation: Replacement | AddRemove = Replacement()  # frozen
    unit: Unit | None = None
    size: int | None = None
    counts: bool = False
    mechanism: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    accept: frozenset[str] = frozenset()
    kind: str | None = None
    seeded: bool = False
    output: Output = Output()  # frozen
    part: str | None = None
    out: tuple[Path, ...] = ()
    watch: Watch = Watch()  # frozen

    def __post_init__(self) -> None:
        for name, types, description, remedy in (
            ("budget", Budget | AttackBudget | None, "a Budget", "Write Budget(epsilon=...)"),
            ("relation", Replacement | AddRemove, "a Replacement or an AddRemove", _ADD_REMOVE),
            ("unit", Unit | None, "a Unit", "Write unit=Unit(..., max_records=...)"),
            ("counts", bool | np.bool_, "True or False", "Write counts=True"),
            ("watch", Watch, "a Watch", "Leave it out where nobody listens"),
        ):
            if not isinstance(value := getattr(self, name), types):
                raise unfit(name, description, value, remedy=remedy)
        if unknown := sorted(map(str, self.accept - set(ACCEPTED))):
            raise ParameterError(f"accept must be among {', '.join(ACCEPTED)}, got {unknown[0]!r}")
        if isinstance(attack := cast(Any, self.budget), AttackBudget):
            object.__setattr__(self, "attack", attack)
            object.__setattr__(self, "budget", None)
        object.__setattr__(self, "counts", bool(self.counts))
        if self.size is not None:
            object.__setattr__(self, "size", positive_size("size", self.size))

    def required_budget(self) -> Budget | AttackBudget:
        """Return what mechanisms are calibrated to. Raises ParameterError where nothing is said."""
        if (budget := self.attack or self.budget) is None:
            raise ParameterError(
                "the budget is what the release may spend. Write Budget(epsilon=..., delta=...), or say what an "
                "attacker may reach: Risk(...), Advantage(...) or Success(...)"
            )
        return budget

    @property
    def between(self) -> Relation:
        """The relation, with the most records of a unit."""
        return Relation(name="add-remove" if isinstance(self.relation, AddRemove) else "replacement", group=self.group)

    @property
    def group(self) -> int:
        """The most records of a unit."""
        return 1 if self.unit is None else self.unit.max_records

    @property
    def protected(self) -> Unit | None:
        """Whose rows are protected together: the unit, or that of a domain with a table of units; None of records."""
        return self.unit if self.domain is None else unit_of(self.domain, self.unit)

    @property
    def column(self) -> str | None:
        """The column that names the privacy unit."""
        return None if self.protected is None else self.protected.column

    @property
    def covered(self) -> Relation:
        """The relation with the most rows of a unit: more than the ``group`` of records where they are one record."""
        return replace(self.between, group=(self.protected and self.protected.max_records) or 1)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint of a mechanism that works in steps."""
        return cast("Checkpoint | None", self.output.checkpoint)  # which the output made of a path

    @property
    def mechanism_type(self) -> type[Any] | None:
        """The class of the mechanism asked for; None where one is to be chosen."""
        return None if self.mechanism is None else named(self.mechanism)

    @property
    def several(self) -> bool:
        """Whether more than one table is asked for."""
        return self.parameters.get("tables") not in (None, 1)

    def require_steps(self, kind: type[Mechanism] | None) -> None:
        """Refuse a checkpoint of what takes one step: a run that goes on from one is free.

        ``kind`` is the class of the mechanism; None where the plan chooses. Raises ParameterError.
        """
        if self.checkpoint is None:
            return
        if kind is None:
            raise ParameterError(
                "a checkpoint is for a mechanism in steps. Name one, such as private-evolution, or leave it out"
            )
        if not issubclass(kind, SteppedMechanism):
            raise ParameterError(f"{kind.name} takes one step. Leave the checkpoint out")

    def kept_output(self, *sources: Any) -> tuple[list[Path], str]:
        """Return the file that keeps the kernel's output until it is written, if any, and the request's SHA-256."""
        output, texts = self.output, (str, os.PathLike)
        files = [beside(canonical(Path(output.path)), "output")] if output.path else []
        terms = [
            *[os.fspath(source) if isinstance(source, texts) else type(source).__name__ for source in sources],
            *(self.attack or self.budget, self.domain and hash_of(self.domain), self.relation, self.unit),
            *(self.size, self.counts),
            *(self.mechanism, sorted(self.parameters.items()), sorted(self.accept), self.seeded),
            *(output.certificate, output.partitions, output.partition_by),
        ]
        return files, hashlib.sha256(re.sub(" at 0x[0-9a-f]+", "", repr(terms)).encode()).hexdigest()

    def purpose(self, mechanism: Mechanism, *, n: int) -> dict[str, Any]:
        """Return what is paid for, in public facts as JSON values: the mechanism that runs, on ``n`` records."""
        facts: dict[str, Any] = {"mechanism": {"name": mechanism.name, "parameters": mechanism.parameters()}}
        facts |= {"records": declared(mechanism, "records") or n, "size": declared(mechanism, "size") or self.size}
        facts |= {"cells": hash_of(mechanism.domain), "domain": mechanism.domain.to_toml()}
        return dict(json.loads(json.dumps(facts)))


def require_total(columns: Mapping[str, Column]) -> None:
    """Refuse columns of which a single value can forfeit what a ledger paid for. Raises DomainError."""
    forms: dict[str, list[str]] = {}
    for name, column in columns.items():
        if column.out_of_bounds == "error":
            forms.setdefault(column.total_form, []).append(repr(name))
    lines = [f"{form} for {', '.join(names)}" for form, names in forms.items()]
    if lines:
        raise DomainError(
            "a single value that does not fit the domain would forfeit what a ledger pays for. Write in the domain "
            f"{'. Write '.join(lines)}. To forfeit it all the same, write accept={{{DATA_DEPENDENT!r}}}. Nothing was "
            "opened or spent"
        )


def hash_of(domain: Domain) -> str:
    """Return the SHA-256 of a domain as it is written."""
    return hashlib.sha256(domain.to_toml().encode()).hexdigest()
