"""What a payment is for, what it costs, and what a ledger refuses to pay."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet._core.errors import Refused
from discreet.domain import Domain
from discreet.ledger.events import Book, Event, Page
from discreet.ledger.filters import Cost
from discreet.mechanisms import Mechanism, declared
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


def require_step(page: Page, reserved: Event, step: int) -> None:
    """Refuse a step that another entry of the same run noted, or whose run took steps of another mechanism.

    Raises Refused.
    """
    events = run_of(page, reserved)
    took = {event.entry for event in events if "step" in event.facts} | {events[0].entry, reserved.entry}
    made = [event.facts["made"] for event in events if "made" in event.facts and event.entry in took]
    if any(one[key] != made[0][key] for one in made for key in ("mechanism", "records", "cells")):
        raise Refused(
            "this run goes on from a run with another mechanism, domain or number of records. "
            "Start again with a new checkpoint, and pay for all steps"
        )
    if any(event.facts.get("step", 0) >= step for event in events):
        raise Refused(
            f"step {step} was taken before, by another entry that goes on from the same checkpoint. "
            "Start again with a new checkpoint, and pay for all steps"
        )


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
