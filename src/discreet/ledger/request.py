"""The request for one release: public facts, checked against one another before anything is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from discreet._core.checks import integer, positive_size, unfit
from discreet._core.errors import ParameterError
from discreet.domain import Domain
from discreet.mechanisms import Mechanism, named
from discreet.mechanisms.steps import SteppedMechanism
from discreet.privacy import Budget, Relation
from discreet.privacy.guarantee import RelationName


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

    path: str | os.PathLike[str]
    redraw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Callbacks during a release. What they receive is public.

    Parameters
    ----------
    announce : callable, optional
        Called with one sentence at a time: what was chosen and why, before anything is drawn.
    progress : callable, optional
        Called with the number of records drawn so far.
    stepped : callable, optional
        Called after each step of a mechanism that works in steps, with the numbers of steps done and of all steps.
    evolved : callable, optional
        Called after each step with its release, which is public. For ``private-evolution`` it has a ``number``, the
        frame of ``candidates``, their noisy ``votes`` and ``shares``. ``print`` writes a line for each step.
    """

    announce: Callable[[str], None] | None = None
    progress: Callable[[int], None] | None = None
    stepped: Callable[[int, int], None] | None = None
    evolved: Callable[[Any], None] | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """One release that is asked for: its payment, its mechanism and its run are all made from this request.

    All of it is public.

    Parameters
    ----------
    budget : Budget
        The most that the release may spend.
    domain : Domain, optional
        The declared domain. A ledger keeps its hash.
    relation : "replacement" or AddRemove
        Between which tables the guarantee holds.
    records : int, optional
        The number of records of the table, where it is declared. Under add/remove it stands in ``relation``.
    unit : str, optional
        Column that names the privacy unit behind the records; None where it is a record.
    max_records : int
        The most records of a unit, 1 to 10,000.
    size : int, optional
        Number of records to release; None for counts.
    counts : bool
        Whether a table of counts is released.
    sampling : str, optional
        How records are drawn from noisy counts.
    mechanism : str, optional
        Registry name of the mechanism that is asked for; None where the plan chooses.
    parameters : mapping
        The parameters of the mechanism that are given.
    kind : str, optional
        The kind of guarantee, where no mechanism says it before the payment.
    seeded : bool
        Whether a seed is used. No ledger pays for such a release.
    checkpoint : Checkpoint, optional
        The checkpoint of a mechanism that works in steps.
    part : str, optional
        The name of the release in a plan that was declared in the ledger, which paid for it.
    out : tuple of path
        The files, or the folder, that the release goes to.
    what : str
        The command, for readers of the ledger: "release" or "synthesize".
    watch : Watch
        Callbacks during the release.

    Raises
    ------
    ParameterError
        When a number is out of range, or two of the fields contradict each other.
    """

    budget: Budget
    domain: Domain | None = None
    relation: Literal["replacement"] | AddRemove = "replacement"
    records: int | None = None
    unit: str | None = None
    max_records: int = 1
    size: int | None = None
    counts: bool = False
    sampling: str | None = None
    mechanism: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    kind: str | None = None
    seeded: bool = False
    checkpoint: Checkpoint | None = None
    part: str | None = None
    out: tuple[str | os.PathLike[str], ...] = ()
    what: str = "release"
    watch: Watch = Watch()  # frozen

    def __post_init__(self) -> None:
        if self.relation != "replacement" and not isinstance(self.relation, AddRemove):
            raise unfit(
                "relation",
                "'replacement' or an AddRemove",
                self.relation,
                remedy="For add/remove write relation=AddRemove(records=...)",
            )
        object.__setattr__(self, "max_records", integer("max_records", self.max_records, least=1, most=10_000))
        for name in ("size", "records"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, positive_size(name, number))
        if self.records is not None and isinstance(self.relation, AddRemove):
            raise ParameterError("relation=AddRemove(records=...) has the number of records. Leave the other one out")

    @property
    def between(self) -> Relation:
        """The relation, with the most records of a unit."""
        name: RelationName = "add-remove" if isinstance(self.relation, AddRemove) else "replacement"
        return Relation(name=name, group=self.max_records)

    @property
    def declared(self) -> int | None:
        """The number of records as it was declared; None where it is to be counted."""
        return self.relation.records if isinstance(self.relation, AddRemove) else self.records

    @property
    def mechanism_type(self) -> type[Any] | None:
        """The class of the mechanism asked for; None where one is to be chosen."""
        return None if self.mechanism is None else named(self.mechanism)

    @property
    def several(self) -> bool:
        """Whether more than one table is asked for."""
        return self.parameters.get("tables") not in (None, 1)

    def require_steps(self, mechanism: Mechanism) -> None:
        """Refuse a checkpoint of what takes one step: a run that goes on from one is free.

        Raises
        ------
        ParameterError
            When the mechanism takes one step, and there is a checkpoint.
        """
        if self.checkpoint is not None and not isinstance(mechanism, SteppedMechanism):
            raise ParameterError(f"{mechanism.name} takes one step. Leave the checkpoint out")
