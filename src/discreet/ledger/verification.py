"""A ledger computed again: its chain, its sums, its budget, its entries, and that certificates are in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from discreet._core.errors import DiscreetError, Infeasible, MissingExtra, ParameterError, Refused
from discreet._core.reading import file_sha256, read_json
from discreet._core.text import counted, harmless
from discreet.domain import Domain
from discreet.ledger.events import AFTER, BEGINNING, REMARKS, STATES, Book, LedgerEvent
from discreet.ledger.filters import Cost
from discreet.mechanisms import MODELS, REGISTRY, SteppedMechanism, certified_type
from discreet.privacy import Budget, Relation, compose

_STATED = ("mechanism", "guarantee", "records", "size", "identity")
_GUARANTEE = ("epsilon", "delta", "kind", "theorem")


def problems_of(book: Book, certificates: Iterable[Path]) -> list[str]:
    """Return what is wrong with a ledger, a sentence each; nothing where all agrees."""
    with book.reading() as page:
        rows = page.rows("number, entry, state, body, hash")
    try:
        events = _chain(rows, book.dataset)
    except ParameterError as problem:
        return [str(problem)]
    problems = [*_sum_problems(events, book), *_entry_problems(events, book)]
    return problems + [line for path in certificates for line in _certificate_problems(path, events, book.dataset)]


def _chain(rows: Sequence[Any], dataset: str) -> list[LedgerEvent]:
    """Read the rows, each stored as it says and with the hash of the one before. Raises ParameterError at the first."""
    if not rows or rows[0][2] != "CREATED":
        raise ParameterError("its first event is missing")
    events, previous = [], BEGINNING
    for place, (number, entry, state, body, digest) in enumerate(rows):
        event = LedgerEvent.parse(body)
        if (event.number, event.entry, event.state, event.hash) != (number, entry, state, digest) or event.body != body:
            raise ParameterError(f"event {number} was changed: it is not what its hash was computed from")
        if number != place or event.previous != previous:
            raise ParameterError(f"event {place} is missing, or one before it was changed")
        if event.dataset != dataset:
            raise ParameterError(f"event {place} is of another data set")
        events.append(event)
        previous = digest
    return events


def _sum_problems(events: Sequence[LedgerEvent], book: Book) -> Iterator[str]:
    """Recompute every sum and state; and that no event came while there was too little left."""
    if not book.limit.within(book.currency.limit(book.budget)):
        yield "its limit is above what its budget allows"
    states: dict[str | None, LedgerEvent] = {}
    for last, event in pairwise(events):
        current = states.get(event.entry)
        if event.state not in (*STATES, *REMARKS):
            yield f"event {event.number} says {harmless(event.state)!r}, which no ledger says"
            continue
        if event.state in STATES:
            if event.entry is None or event.state not in AFTER.get(current and current.state, ()):
                yield f"event {event.number} gives an entry a state that it cannot have"
                continue
            if current is not None and not event.cost.within(current.cost):
                yield f"event {event.number} makes an entry cost more than was reserved"
            states[event.entry] = event
        recomputed = last.successor(event.entry, event.state, current=current, cost=event.cost)
        if (recomputed.spent, recomputed.counts) != (event.spent, event.counts):
            yield f"the sums of event {event.number} are not those of the events"
        if not event.spent.within(book.limit):
            yield f"after event {event.number} more was spent than the budget"


def _certificate_problems(path: Path, events: Sequence[LedgerEvent], dataset: str) -> Iterator[str]:
    name = harmless(str(path))
    try:
        facts = read_json(path, remedy="give the certificate of a release")
        stamp, certificate_sha256 = facts.get("ledger"), file_sha256(path)
    except DiscreetError as problem:
        yield str(problem)
        return
    if not isinstance(stamp, dict):
        yield f"{name}: it names no ledger, so its release was not paid for here"
        return
    if stamp.get("dataset") != dataset:
        yield f"{name}: it is of another data set"
        return
    entry = _Entry([event for event in events if event.entry == stamp.get("entry")])
    if not any(event.state == "OPENED" and event.hash == stamp.get("head") for event in entry.events):
        yield f"{name}: its release is not in the ledger, which was cut or rolled back, or is another copy"
        return
    if (released := entry.released) is None:
        yield f"{name}: its release was never committed"
    else:
        folder = released.get("folder") or {"files": {}}
        hashes = [*(file["sha256"] for file in released["files"]), *folder["files"].values()]
        if hashes and certificate_sha256 not in hashes:
            yield f"{name}: it is not the certificate that was committed"
        elif not hashes and _stated(facts) != _stated(released):  # of tables that were handed over in memory
            yield f"{name}: it does not state what was committed"
    if (purpose := entry.purpose) is not None:
        paid_for = False
        with suppress(DiscreetError, AttributeError, KeyError, TypeError, ValueError):
            paid_for = Domain.from_dict(facts["domain"]) == Domain.from_toml(purpose["domain"])
        if not paid_for:
            yield f"{name}: its domain is not the one that was paid for"


def _stated(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a certificate says, or a ledger, of the facts that a ledger keeps."""
    stated = {key: facts.get(key) for key in _STATED}
    if isinstance(guarantee := facts.get("guarantee"), dict):
        stated["guarantee"] = {key: guarantee.get(key) for key in _GUARANTEE}
    return stated


# Entries that no run of this library makes: what was charged is not what ran, or steps were taken for nothing.
#
# A chain of hashes shows that a ledger was changed afterwards, and not that an entry was written by other software, or
# by hand. So each entry is computed again from what it says of itself: the cost of its mechanism on its domain, and the
# steps of its run.

_SLACK = Fraction(1, 10**6)
_SAME_RUN = ("checkpoint", "budget", "relation", "unit", "group", "domain", "part")


class _Entry(NamedTuple):
    """All events of one entry, the oldest first."""

    events: list[LedgerEvent]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its reservation says."""
        return self.events[0].facts

    @property
    def purpose(self) -> Mapping[str, Any] | None:
        """What it says that it pays for; None where it says nothing, as in earlier versions."""
        return next((event.facts["made"] for event in self.events if "made" in event.facts), None)

    @property
    def released(self) -> Mapping[str, Any] | None:
        """What was committed; None where nothing was."""
        return next((event.facts for event in self.events if event.state == "COMMITTED"), None)

    @property
    def steps(self) -> list[int]:
        """The numbers of the steps that it took."""
        return [event.facts["step"] for event in self.events if event.state == "NOTED" and "step" in event.facts]


def _entry_problems(events: Sequence[LedgerEvent], book: Book) -> Iterator[str]:
    """Yield what is wrong with entries, a sentence each. Entries of versions that kept no mechanism are passed over."""
    entries: dict[str, _Entry] = {}
    for event in events:
        if event.entry is not None:
            entries.setdefault(event.entry, _Entry([])).events.append(event)
    has_purposes = False  # whether entries say what they pay for, as those of earlier versions do not
    for name, entry in entries.items():
        has_purposes = has_purposes or entry.purpose is not None
        try:
            problems = [
                *_release_problems(entry, book, has_purposes=has_purposes),
                *_plan_problems(entry, entries.values()),
                *_cost_problems(entry, entries.values(), book),
                *_step_problems(entry, entries),
            ]
        except (AttributeError, KeyError, TypeError, ValueError):
            problems = ["it is not what a ledger writes"]
        yield from (f"entry {name}: {problem}" for problem in problems)


def _release_problems(entry: _Entry, book: Book, *, has_purposes: bool) -> Iterator[str]:
    """Compare what was paid for with what was released, and between which tables with what the ledger adds up."""
    purpose, released, covers = entry.purpose, entry.released, book.covers
    promised = tuple(entry.facts.get(key) or None for key in ("relation", "unit", "group"))
    if "relation" in entry.facts and promised != (covers["relation"], covers["unit"] or None, covers["max_records"]):
        yield "it has another relation or unit than the ledger adds up"
    if released is None or "parts" in entry.facts:
        return
    if purpose is None:
        if has_purposes:
            yield "it does not say what it pays for"
    elif "mechanism" in released:
        keys = ["mechanism", "records"]
        if "size" in getattr(REGISTRY.get(purpose["mechanism"]["name"]), "__dataclass_fields__", ()):
            keys.append("size")
        if any(purpose[key] != released[key] for key in keys):
            yield "what was released is not what was paid for"
        if sha256(purpose["domain"].encode()).hexdigest() != purpose["cells"]:
            yield "its domain does not have the hash that it states"


def _plan_of(entry: _Entry, entries: Collection[_Entry]) -> _Entry | None:
    """Return the plan that declares a free entry's release just as the entry says, or None."""
    part = entry.facts.get("part")
    return next((plan for plan in entries if part in plan.facts.get("parts", ())), None)


def _plan_problems(entry: _Entry, entries: Collection[_Entry]) -> Iterator[str]:
    """Compare a release of a plan with the plan, which pays for it once."""
    purpose, part = entry.purpose, entry.facts.get("part")
    if part is None or entry.events[-1].state == "VOID":
        return
    if _plan_of(entry, entries) is None:
        yield "no plan declares it"
    facts = part if purpose is None or entry.released is None else purpose
    if any(part[key] != facts[key] for key in ("mechanism", "size", "records", "cells")):
        yield "what was released is not what its plan declares"
    if "continues" not in entry.facts and any(
        (sibling.facts.get("part") or {}).get("name") == part["name"]
        and sibling.events[0].number < entry.events[0].number
        and "continues" not in sibling.facts
        and sibling.events[-1].state != "VOID"
        for sibling in entries
    ):
        yield "its plan paid for it once, and it was released before"


def _cost_problems(entry: _Entry, entries: Collection[_Entry], book: Book) -> Iterator[str]:
    """Compute the cost of a release, or of a plan, again, to a millionth, but for mechanisms of users."""
    facts, purpose, paying = entry.facts, entry.purpose, entry
    if "part" in facts and (plan := _plan_of(entry, entries)) is not None:
        paying = plan
    releases = [] if purpose is None else [{**purpose, "toml": purpose["domain"], "group": facts["group"]}]
    releases = facts.get("parts", releases)
    if paying.facts.get("free") or not releases:
        return
    if any("toml" not in release or release["mechanism"]["name"] not in {*REGISTRY, *MODELS} for release in releases):
        return
    try:
        cost = _cost_again(releases, entry, paying, book)
    except MissingExtra as missing:  # of a model
        yield f"its cost cannot be computed again here. {missing}"
        return
    except DiscreetError:
        yield "its mechanism cannot be built from what it says"
        return
    charged = [event.cost for event in paying.events if event.state in ("COMMITTED", "OPENED", "FORFEITED")]
    if charged and (cost is None or not Cost(cost.loss * (1 - _SLACK), cost.delta * (1 - _SLACK)).within(charged[-1])):
        yield "its mechanism costs more than was charged"


def _cost_again(releases: Sequence[Mapping[str, Any]], entry: _Entry, paying: _Entry, book: Book) -> Cost | None:
    """Return the cost of releases that are paid for together; None where they do not meet their budget."""
    budget = paying.facts["budget"]
    rounded = Budget(epsilon=min(100.0, budget["epsilon"] * (1 + 1e-9)), delta=budget["delta"] * (1 + 1e-6))
    name, guarantees = entry.facts.get("relation", book.covers["relation"]), []
    try:
        for release in releases:
            kind, parameters = certified_type(release["mechanism"]["name"]), release["mechanism"]["parameters"]
            numbers = {key: release[key] for key in ("records", "size")}
            mechanism = kind.from_parameters(parameters, domain=Domain.from_toml(release["toml"]), **numbers)
            group = 1 if mechanism.domain.tables else release["group"]  # all rows of a unit are then one record
            guarantees.append(mechanism.guarantee(Relation(name=name, group=group), n=release["records"]))
        if "parts" not in entry.facts:
            return book.cost_of(guarantees[0], rounded)
        profile = compose([guarantee.profile for guarantee in guarantees])
        return book.currency.of_profile(profile, budget=rounded, total=book.budget)
    except (Infeasible, Refused):
        return None


def _step_problems(entry: _Entry, entries: Mapping[str, _Entry]) -> Iterator[str]:
    """Follow the steps of a run: those that a checkpoint held were paid for by the entry that it goes on from."""
    facts, steps = entry.facts, entry.steps
    steps_held, origin_name = (facts.get("held") or {"steps": 0})["steps"], facts.get("continues")
    if origin_name is None:
        if facts.get("free") and "part" not in facts:
            yield "it is free, and neither a plan nor an earlier entry paid for it"
        return
    origin = entries.get(origin_name)
    free = origin is not None and origin.facts.get("free") and "part" not in origin.facts
    if origin is None or free or any(origin.facts.get(key) != facts.get(key) for key in _SAME_RUN):
        yield "it goes on from no run that was paid for"
        return
    run = [origin, *(member for member in entries.values() if member.facts.get("continues") == origin_name)]
    earlier = [member for member in run if member.events[0].number < entry.events[0].number]
    if (purpose := entry.purpose) is not None:
        kind = REGISTRY.get(purpose["mechanism"]["name"])
        if kind is not None and not issubclass(kind, SteppedMechanism):
            yield f"it goes on from {counted(steps_held, 'step')}, and its mechanism takes one step"
        purposes = [member.purpose for member in earlier if member.purpose and (member is origin or member.steps)]
        used = steps or entry.released is not None  # else it was refused
        if used and any(paid["mechanism"] != purpose["mechanism"] for paid in purposes):
            yield "it goes on from a run of another mechanism"
    steps_taken = {step for member in earlier for step in member.steps}
    last_step = max(steps_taken, default=0)
    if not 0 < steps_held <= last_step + 1:  # earlier versions wrote a step before they noted it
        yield f"it goes on from {counted(steps_held, 'step')}, and {counted(last_step, 'step')} had been taken"
    if steps and (steps[0] != steps_held + 1 or steps_taken.intersection(steps)):
        yield f"it took step {steps[0]} again, which was paid for once"
