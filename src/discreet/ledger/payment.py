"""A payment: one entry of a ledger while it is worked on, from its reservation to the files that have their names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from discreet._core.errors import DiscreetError, ParameterError, Refused
from discreet.domain import Domain
from discreet.ledger.events import Book, Event, Page
from discreet.ledger.filters import Cost
from discreet.mechanisms import Mechanism
from discreet.mechanisms.base import declared
from discreet.privacy import Budget, Guarantee, Relation

if TYPE_CHECKING:
    from discreet.ledger.request import Request


def paid_facts(mechanism: Mechanism, request: Request, *, n: int) -> Mapping[str, Any]:
    """Return what a payment is for, in public facts as JSON values: what runs for a request on ``n`` records."""
    facts = {
        "mechanism": {"name": mechanism.name, "parameters": mechanism.parameters()},
        "records": declared(mechanism, "records") or n,
        "size": declared(mechanism, "size") or request.size,
        "cells": hash_of(mechanism.domain),
        "domain": mechanism.domain.to_toml(),
    }
    made: Mapping[str, Any] = json.loads(json.dumps(facts))
    return made


def cost_of(book: Book, guarantee: Guarantee, asked: Budget) -> Cost:
    """Return what a ledger charges for a guarantee. Raises Refused when it does not meet the budget."""
    if guarantee.stated is None and guarantee.meets(asked):
        return book.currency.of_profile(guarantee.profile, asked=asked, whole=book.whole)
    if guarantee.stated is not None and guarantee.stated[0] <= asked.epsilon:
        return book.currency.of_budget(Budget(epsilon=guarantee.stated[0]))
    raise Refused(f"the mechanism does not meet {asked}, which is to be paid. Pay for more, or calibrate it anew")


class Payment:
    """One release's entry in a ledger, from its reservation to its end.

    An error before :meth:`open` gives the reservation back (VOID). One after it does not: what was opened is spent
    (FORFEITED). A process that is killed leaves the entry as it is, for ``discreet ledger recover``.
    """

    def __init__(self, book: Book, reserved: Event, budget: Budget) -> None:
        self._book, self._reserved, self._last, self._budget = book, reserved, reserved, budget
        self._due = reserved.cost

    @property
    def entry(self) -> str:
        """The name of the entry."""
        return str(self._reserved.entry)

    @property
    def stamp(self) -> dict[str, str]:
        """What a certificate says of the ledger: with it, that the ledger was cut or rolled back shows."""
        if self._last.state != "OPENED":
            raise ParameterError("this run is not open. Enter its with block, or pay for another where it was used")
        return {"dataset": self._book.dataset, "entry": self.entry, "head": self._last.hash}

    @property
    def checkpoint(self) -> tuple[int, str | None] | None:
        """How many steps the checkpoint held when it was paid for, and its SHA-256; None where none is kept."""
        held = self._reserved.facts.get("held")
        return None if held is None else (held["steps"], held["sha256"])

    def open(self) -> Self:
        """Say, durably, that the table is about to be read: from now on the entry is spent.

        Raises ParameterError when the entry was settled by somebody else.
        """
        if self._last.state != "OPENED":
            self._to("OPENED", {})
        return self

    def due(self, made: Mapping[str, Any], guarantee: Guarantee, request: Request) -> None:
        """Find what a release costs, from the guarantee of what runs.

        Raises Refused when it is of a kind, relation, group or unit that the ledger does not add up, costs more than
        was reserved, or is not what a plan declared.
        """
        require_covered(self._book, request.between, unit=request.column, kind=guarantee.kind)
        part = self._reserved.facts.get("part")
        if part is not None:
            require_planned(part, made)
        cost = cost_of(self._book, guarantee, self._budget)
        if self._reserved.facts.get("free"):
            return
        if not cost.within(self._reserved.cost):
            raise Refused(
                "the release costs more than was reserved, since its guarantee is not the one that was paid for. "
                "Pay for the mechanism that runs"
            )
        self._due = cost

    def calibrated(self, made: Mapping[str, Any]) -> None:
        """Note what runs, where that was not known when it was reserved."""
        with self._book.appending() as page:
            page.append(self.entry, "NOTED", facts={"made": dict(made)})

    def step(self, done: int, of: int) -> None:
        """Note a step of a mechanism that works in steps, before its checkpoint holds it or anybody sees it.

        Raises Refused when another entry of the same run noted it, or took steps of another mechanism.
        """
        with self._book.appending() as page:
            events = run_of(page, self._reserved)
            took = {event.entry for event in events if "step" in event.facts} | {events[0].entry, self.entry}
            made = [event.facts["made"] for event in events if "made" in event.facts and event.entry in took]
            if any(one[key] != made[0][key] for one in made for key in ("mechanism", "records", "cells")):
                raise Refused(
                    "this run goes on from a run with another mechanism, domain or number of records. "
                    "Start again with a new checkpoint, and pay for all steps"
                )
            if any(event.facts.get("step", 0) >= done for event in events):
                raise Refused(
                    f"step {done} was taken before, by another entry that goes on from the same checkpoint. "
                    "Start again with a new checkpoint, and pay for all steps"
                )
            page.append(self.entry, "NOTED", facts={"step": done, "of": of})

    def commit(self, facts: Mapping[str, Any]) -> None:
        """Say, durably, that what is released is complete on the disk, or about to be handed over."""
        self._to("COMMITTED", facts)

    def delivered(self) -> None:
        """Say that the files have their names, or that the tables were handed over."""
        with self._book.appending() as page:
            page.append(self.entry, "DELIVERED", facts={})

    def _to(self, state: str, facts: Mapping[str, Any]) -> None:
        with self._book.appending() as page:
            self._last = page.append(self.entry, state, facts=facts, cost=self._due if state == "COMMITTED" else None)

    def close(self, error: BaseException | None) -> None:
        """Settle what is not committed: given back where the table was not opened, else spent for ever."""
        after = {"RESERVED": "VOID", "OPENED": "FORFEITED"}.get(self._last.state)
        if after is None:
            return
        try:
            self._to(after, {})
        except DiscreetError:  # recovery settles it; what led here is told
            if error is None:
                raise


def run_of(page: Page, reserved: Event) -> list[Event]:
    """Return all events of the entries that went on from the same steps as an entry, itself among them."""
    first = reserved.facts.get("continues", reserved.entry)
    return [
        event
        for one in page.about("RESERVED")
        if first in (one.entry, one.facts.get("continues"))
        for event in page.of(str(one.entry))
    ]


def require_planned(part: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Refuse what is not as a plan declared it, of the facts that are known. Raises Refused."""
    if any(part[key] != facts.get(key, part[key]) for key in ("mechanism", "size", "records", "cells")):
        raise Refused(
            f"the plan declares another mechanism, domain, size or number of records for {part['name']!r}. "
            "Release it with those of the plan"
        )


def require_unseeded(seeded: bool) -> None:
    """Refuse a seeded release. Raises Refused."""
    if seeded:
        raise Refused("a seeded release is not for publication, and no ledger pays for it. Leave seed out")


def require_covered(book: Book, between: Relation, *, unit: str | None, kind: str | None) -> None:
    """Refuse what a ledger does not add up. Raises Refused."""
    covers = book.facts["covers"]
    for what, given, wanted in (
        ("the relation", between.name, covers["relation"]),
        ("the privacy unit", unit or "a record", covers["unit"] or "a record"),
        ("the most records of a unit", between.group, covers["max_records"]),
    ):
        if given != wanted:
            raise Refused(
                f"the ledger of {book.dataset!r} adds up releases for which {what} is {wanted}, and here it is {given}"
                ". Change the release, or keep a separate ledger for this kind"
            )
    if kind is not None and kind not in covers["kinds"]:
        raise Refused(
            f"the ledger of {book.dataset!r} was made for guarantees that are {' or '.join(covers['kinds'])}, and this "
            f"one is {kind}. Make a ledger for that kind with discreet ledger init"
        )


def hash_of(domain: Domain) -> str:
    """Return the SHA-256 of a domain as it is written."""
    return hashlib.sha256(domain.to_toml().encode()).hexdigest()
