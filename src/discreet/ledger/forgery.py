"""Entries that no run of this library makes: what was charged is not what ran, or steps were taken for nothing.

A ledger's chain of hashes shows that it was changed afterwards. It does not show that an entry was written by other
software, or by hand. So each entry is computed again from what it says of itself: the cost of its mechanism on its
domain, and the steps of its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from hashlib import sha256
from typing import Any

from discreet._core.errors import DiscreetError
from discreet._core.text import counted
from discreet.domain import Domain
from discreet.ledger.events import Book, Event
from discreet.ledger.filters import Cost
from discreet.mechanisms import REGISTRY, named
from discreet.mechanisms.steps import SteppedMechanism
from discreet.privacy import Budget, Relation

_SLACK = Fraction(1, 10**6)
_SAME_RUN = ("checkpoint", "budget", "relation", "unit", "group", "domain", "part")


def forged(events: Sequence[Event], book: Book) -> Iterator[str]:
    """Yield what is wrong with entries, a sentence each. Entries of versions that kept no mechanism are passed over."""
    entries: dict[str, list[Event]] = {}
    for event in events:
        if event.entry is not None:
            entries.setdefault(event.entry, []).append(event)
    known = False  # whether entries say what they pay for, as those of earlier versions do not
    for name, own in entries.items():
        known = known or paid_for(own) is not None
        try:
            found = [
                *_made(own, known=known),
                *_covered(own, book),
                *_planned(own, entries),
                *_charged(own, entries, book),
                *_continued(own, entries),
            ]
        except (AttributeError, KeyError, TypeError, ValueError):
            found = ["it is not what a ledger writes"]
        yield from (f"entry {name}: {problem}" for problem in found)


def _made(own: Sequence[Event], *, known: bool) -> Iterator[str]:
    """Compare what was paid for with what was released."""
    made = paid_for(own)
    released = next((event.facts for event in own if event.state == "COMMITTED"), None)
    if released is None or "parts" in own[0].facts:
        return
    if made is None:
        if known:
            yield "it does not say what it pays for"
        return
    if "mechanism" not in released:
        return
    kind = REGISTRY.get(made["mechanism"]["name"])
    by_size = kind is not None and any(item.name == "size" for item in fields(kind))
    compared = ("mechanism", "records", "size") if by_size else ("mechanism", "records")
    if any(made[key] != released[key] for key in compared):
        yield "what was released is not what was paid for"
    if sha256(made["domain"].encode()).hexdigest() != made["cells"]:
        yield "its domain is not the one whose hash it holds"


def _covered(own: Sequence[Event], book: Book) -> Iterator[str]:
    """Compare between which tables an entry was promised with what the ledger adds up."""
    asked, covers = own[0].facts, book.facts["covers"]
    given = tuple(asked.get(key) or None for key in ("relation", "unit", "group"))
    if "relation" in asked and given != (covers["relation"], covers["unit"] or None, covers["max_records"]):
        yield "it is of another relation or unit than the ledger adds up"


def _plan_of(own: Sequence[Event], entries: Mapping[str, Sequence[Event]]) -> Sequence[Event] | None:
    """Return the plan that declared a free entry's release just as the entry says; None where no plan did."""
    part = own[0].facts.get("part")
    return next((one for one in entries.values() if part in one[0].facts.get("parts", ())), None)


def _planned(own: Sequence[Event], entries: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """Compare a release of a plan with the plan, which pays for it once."""
    facts, made = own[0].facts, paid_for(own)
    part = facts.get("part")
    if part is None or own[-1].state == "VOID":
        return
    if _plan_of(own, entries) is None:
        yield "no plan declares it"
    used = any(event.state == "COMMITTED" for event in own)
    if used and made is not None and any(part[key] != made[key] for key in ("mechanism", "size", "records", "cells")):
        yield "what was released is not what its plan declares"
    same = [one for one in entries.values() if (one[0].facts.get("part") or {}).get("name") == part["name"]]
    if "continues" not in facts and any(
        one[0].number < own[0].number and "continues" not in one[0].facts and one[-1].state != "VOID" for one in same
    ):
        yield "its plan paid for it once, and it was released before"


def _charged(own: Sequence[Event], entries: Mapping[str, Sequence[Event]], book: Book) -> Iterator[str]:
    """Compute the cost again; of mechanisms that are registered. A plan costs at least what each release of it does."""
    made, asked = paid_for(own), own[0].facts
    paying = _plan_of(own, entries) if "part" in asked else None if asked.get("free") else own
    if made is None or paying is None or made["mechanism"]["name"] not in REGISTRY:
        return
    budget = Budget(**paying[0].facts["budget"])
    relation = Relation(name=asked["relation"], group=asked["group"])
    try:
        mechanism = _rebuilt(made)
        guarantee = mechanism.guarantee(relation, n=made["records"])
        met = guarantee.meets(budget)
        cost = book.currency.of_profile(guarantee.profile, asked=budget, whole=book.whole) if met else Cost()
    except DiscreetError:  # a generator of candidates that is a user's own, for instance
        return
    charged = next(
        (event.cost for event in reversed(paying) if event.state in ("COMMITTED", "OPENED", "FORFEITED")), None
    )
    if charged is not None and not (met and _nearly(cost).within(charged)):
        yield "its mechanism costs more than was charged"


def _nearly(cost: Cost) -> Cost:
    """Return a cost less what other versions of NumPy may compute otherwise."""
    return Cost(cost.loss * (1 - _SLACK), cost.delta * (1 - _SLACK))


def _continued(own: Sequence[Event], entries: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """Follow the steps of a run: those that a checkpoint held were paid for by the entry that it goes on from."""
    facts = own[0].facts
    steps = _steps(own)
    held = (facts.get("held") or {"steps": 0})["steps"]
    first = facts.get("continues")
    if facts.get("free") and first is None and "part" not in facts:
        yield "it is free, and neither a plan nor an earlier entry paid for it"
    if first is None:
        return
    made, before = paid_for(own), entries.get(first)
    free = before is not None and before[0].facts.get("free") and "part" not in before[0].facts
    if before is None or free or any(before[0].facts.get(k) != facts.get(k) for k in _SAME_RUN):
        yield "it goes on from no run that was paid for"
        return
    of_run = [before, *(one for one in entries.values() if one[0].facts.get("continues") == first)]
    earlier = [one for one in of_run if one[0].number < own[0].number]
    if made is not None:
        kind = REGISTRY.get(made["mechanism"]["name"])
        if kind is not None and not issubclass(kind, SteppedMechanism):
            yield f"it goes on from {counted(held, 'step')}, and its mechanism takes one step"
        used = steps or any(event.state == "COMMITTED" for event in own)  # else it was refused
        others = [paid_for(one) for one in earlier if one is before or _steps(one)]
        if used and any(paid["mechanism"] != made["mechanism"] for paid in others if paid is not None):
            yield "it goes on from a run of another mechanism"
    taken = {step for one in earlier for step in _steps(one)}
    known = max(taken, default=0)
    if not 0 < held <= known + 1:  # earlier versions wrote a step before they noted it
        yield f"it goes on from {counted(held, 'step')}, and {counted(known, 'step')} had been taken"
    if steps and (steps[0] != held + 1 or taken.intersection(steps)):
        yield f"it took step {steps[0]} again, which was paid for once"


def _steps(own: Sequence[Event]) -> list[int]:
    """Return the numbers of the steps that an entry took."""
    return [event.facts["step"] for event in own if event.state == "NOTED" and "step" in event.facts]


def paid_for(own: Sequence[Event]) -> Mapping[str, Any] | None:
    """Return what an entry says that it pays for; None where it says nothing."""
    return next((event.facts["made"] for event in own if "made" in event.facts), None)


def _rebuilt(made: Mapping[str, Any]) -> Any:
    return named(made["mechanism"]["name"]).of(
        made["mechanism"]["parameters"],
        domain=Domain.from_toml(made["domain"]),
        records=made["records"],
        size=made["size"],
    )
