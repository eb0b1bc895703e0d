"""A ledger computed again: its chain, its sums, its budget, its entries, and that certificates are in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from discreet._core.errors import DiscreetError, FileProblem, Infeasible, MissingExtra, ParameterError, Refused
from discreet._core.reading import file_sha256, read_json
from discreet._core.text import counted, harmless
from discreet.domain import Domain
from discreet.ledger.events import AFTER, BEGINNING, REMARKS, STATES, Book, Event, following
from discreet.ledger.filters import Cost
from discreet.ledger.payment import cost_of
from discreet.mechanisms import MODELS, REGISTRY, SteppedMechanism, certified_type
from discreet.privacy import Budget, Relation, compose

# Recomputing a ledger: its chain, its sums, its budget, and that certificates are in it.

_KEPT = ("mechanism", "guarantee", "records", "size", "identity")
_GUARANTEE = ("epsilon", "delta", "kind", "theorem")


def problems_of(book: Book, certificates: Iterable[Path]) -> list[str]:
    """Return what is wrong with a ledger, a sentence each; nothing where all agrees."""
    with book.reading() as page:
        rows = page.stored()
    try:
        events = _events(rows)
    except ParameterError as problem:
        return [str(problem)]
    wrong = [*_chain(events, book.dataset)]
    if not wrong:
        wrong = [*_sums(events, book), *forged(events, book)]
    return wrong + [line for path in certificates for line in _certificate(path, events, book.dataset)]


def _events(rows: Sequence[Any]) -> list[Event]:
    """Read the rows; each has to be stored as what it says it is."""
    events = []
    for number, entry, state, body, held in rows:
        event = Event.of(body)
        if (event.number, event.entry, event.state, event.hash) != (number, entry, state, held) or event.body != body:
            raise ParameterError(f"event {number} was changed: it is not what its hash was computed from")
        events.append(event)
    return events


def _chain(events: Sequence[Event], dataset: str) -> Iterator[str]:
    if not events or events[0].state != "CREATED":
        yield "its first event is missing"
        return
    before = BEGINNING
    for place, event in enumerate(events):
        if event.number != place or event.previous != before:
            yield f"event {place} is missing, or one before it was changed"
            return
        if event.dataset != dataset:
            yield f"event {place} is of another data set"
        before = event.hash


def _sums(events: Sequence[Event], book: Book) -> Iterator[str]:
    """Recompute every sum and state; and that no event came while there was too little left."""
    if not book.limit.within(book.currency.limit(book.whole)):
        yield "its limit is above what its budget allows"
    states: dict[str, Event] = {}
    for last, event in pairwise(events):
        entry = event.entry
        before = None if entry is None else states.get(entry)
        if event.state not in (*STATES, *REMARKS):
            yield f"event {event.number} says {harmless(event.state)!r}, which no ledger says"
            continue
        if event.state in STATES:
            if entry is None or event.state not in AFTER[None if before is None else before.state]:
                yield f"event {event.number} gives an entry a state that it cannot have"
                continue
            if before is not None and not event.cost.within(before.cost):
                yield f"event {event.number} makes an entry cost more than was reserved"
            states[entry] = event
        again = following(
            last, at=event.at, entry=entry, state=event.state, before=before, cost=event.cost, facts=event.facts
        )
        if again.spent != event.spent or dict(again.counts) != dict(event.counts):
            yield f"the sums of event {event.number} are not those of the events"
        if not event.spent.within(book.limit):
            yield f"after event {event.number} more was spent than the budget"


def _certificate(path: Path, events: Sequence[Event], dataset: str) -> Iterator[str]:
    name = harmless(str(path))
    try:
        facts = read_json(path, remedy="give the certificate of a release")
        stamp, sha256 = facts.get("ledger"), file_sha256(path)
    except (DiscreetError, FileProblem) as problem:
        yield str(problem)
        return
    if not isinstance(stamp, dict):
        yield f"{name}: it names no ledger, so its release was not paid for here"
        return
    if stamp.get("dataset") != dataset:
        yield f"{name}: it is of another data set"
        return
    of = [event for event in events if event.entry == stamp.get("entry")]
    if not any(event.state == "OPENED" and event.hash == stamp.get("head") for event in of):
        yield f"{name}: its release is not in the ledger, which was cut or rolled back, or is another copy"
        return
    committed = next((event for event in of if event.state == "COMMITTED"), None)
    if committed is None:
        yield f"{name}: its release was never committed"
    elif (written := _written(committed.facts)) and sha256 not in written:
        yield f"{name}: it is not the certificate that was committed"
    elif not written and any(_stated(facts, key) != _stated(committed.facts, key) for key in _KEPT):
        yield f"{name}: it does not state what was committed"
    if (paid := _Entry(of).paid_for) is not None and not _same_domain(facts.get("domain"), paid):
        yield f"{name}: its domain is not the one that was paid for"


def _same_domain(stated: Any, made: Mapping[str, Any]) -> bool:
    try:
        return Domain.from_dict(stated) == Domain.from_toml(made["domain"])
    except (DiscreetError, AttributeError, KeyError, TypeError, ValueError):
        return False


def _stated(facts: Mapping[str, Any], key: str) -> Any:
    """Return what a certificate, or a ledger, says of something that a ledger keeps."""
    found = facts.get(key)
    return {part: found.get(part) for part in _GUARANTEE} if key == "guarantee" and isinstance(found, dict) else found


def _written(facts: Mapping[str, Any]) -> list[str]:
    """Return the hashes of what was committed; none of tables that were handed over in memory."""
    folder = facts.get("folder") or {"files": {}}
    return [*(one["sha256"] for one in facts["files"]), *folder["files"].values()]


# Entries that no run of this library makes: what was charged is not what ran, or steps were taken for nothing.
#
# A chain of hashes shows that a ledger was changed afterwards, and not that an entry was written by other software, or
# by hand. So each entry is computed again from what it says of itself: the cost of its mechanism on its domain, and the
# steps of its run.

_SLACK = Fraction(1, 10**6)
_SAME_RUN = ("checkpoint", "budget", "relation", "unit", "group", "domain", "part")


class _Entry(NamedTuple):
    """All events of one entry, the oldest first."""

    events: list[Event]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its reservation says."""
        return self.events[0].facts

    @property
    def paid_for(self) -> Mapping[str, Any] | None:
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


def forged(events: Sequence[Event], book: Book) -> Iterator[str]:
    """Yield what is wrong with entries, a sentence each. Entries of versions that kept no mechanism are passed over."""
    entries: dict[str, _Entry] = {}
    for event in events:
        if event.entry is not None:
            entries.setdefault(event.entry, _Entry([])).events.append(event)
    known = False  # whether entries say what they pay for, as those of earlier versions do not
    for name, entry in entries.items():
        known = known or entry.paid_for is not None
        try:
            problems = [
                *_released(entry, known=known),
                *_covered(entry, book),
                *_planned(entry, entries.values()),
                *_charged(entry, entries.values(), book),
                *_continued(entry, entries),
            ]
        except (AttributeError, KeyError, TypeError, ValueError):
            problems = ["it is not what a ledger writes"]
        yield from (f"entry {name}: {problem}" for problem in problems)


def _released(entry: _Entry, *, known: bool) -> Iterator[str]:
    """Compare what was paid for with what was released."""
    paid, released = entry.paid_for, entry.released
    if released is None or "parts" in entry.facts:
        return
    if paid is None:
        if known:
            yield "it does not say what it pays for"
        return
    if "mechanism" not in released:
        return
    kind = REGISTRY.get(paid["mechanism"]["name"])
    by_size = kind is not None and any(item.name == "size" for item in fields(kind))
    if any(paid[key] != released[key] for key in ("mechanism", "records", *["size"] * by_size)):
        yield "what was released is not what was paid for"
    if sha256(paid["domain"].encode()).hexdigest() != paid["cells"]:
        yield "its domain does not have the hash that it states"


def _covered(entry: _Entry, book: Book) -> Iterator[str]:
    """Compare between which tables an entry was promised with what the ledger adds up."""
    covers = book.facts["covers"]
    promised = tuple(entry.facts.get(key) or None for key in ("relation", "unit", "group"))
    if "relation" in entry.facts and promised != (covers["relation"], covers["unit"] or None, covers["max_records"]):
        yield "it has another relation or unit than the ledger adds up"


def _plan_of(entry: _Entry, entries: Collection[_Entry]) -> _Entry | None:
    """Return the plan that declared a free entry's release just as the entry says; None where no plan did."""
    part = entry.facts.get("part")
    return next((plan for plan in entries if part in plan.facts.get("parts", ())), None)


def _planned(entry: _Entry, entries: Collection[_Entry]) -> Iterator[str]:
    """Compare a release of a plan with the plan, which pays for it once."""
    paid, part = entry.paid_for, entry.facts.get("part")
    if part is None or entry.events[-1].state == "VOID":
        return
    if _plan_of(entry, entries) is None:
        yield "no plan declares it"
    known = paid if paid is not None and entry.released is not None else part
    if any(part[key] != known[key] for key in ("mechanism", "size", "records", "cells")):
        yield "what was released is not what its plan declares"
    if "continues" not in entry.facts and any(
        (other.facts.get("part") or {}).get("name") == part["name"]
        and other.events[0].number < entry.events[0].number
        and "continues" not in other.facts
        and other.events[-1].state != "VOID"
        for other in entries
    ):
        yield "its plan paid for it once, and it was released before"


def _charged(entry: _Entry, entries: Collection[_Entry], book: Book) -> Iterator[str]:
    """Compute the cost of a release, or of a plan, again, to a millionth, but for mechanisms of users."""
    facts, paid = entry.facts, entry.paid_for
    paying = _plan_of(entry, entries) if "part" in facts else entry
    single = [] if paid is None else [{**paid, "toml": paid["domain"], "group": facts["group"]}]
    releases = facts.get("parts", single)
    if paying is None or paying.facts.get("free") or not releases:
        return
    if any("toml" not in release or release["mechanism"]["name"] not in {*REGISTRY, *MODELS} for release in releases):
        return
    try:
        cost = _cost_again(releases, entry, paying, book)
    except MissingExtra:  # of a model
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
    name, guarantees = entry.facts.get("relation", book.facts["covers"]["relation"]), []
    try:
        for release in releases:
            mechanism = certified_type(release["mechanism"]["name"]).from_parameters(
                release["mechanism"]["parameters"],
                domain=Domain.from_toml(release["toml"]),
                records=release["records"],
                size=release["size"],
            )
            guarantees.append(mechanism.guarantee(Relation(name=name, group=release["group"]), n=release["records"]))
        if "parts" not in entry.facts:
            return cost_of(book, guarantees[0], rounded)
        profile = compose([guarantee.profile for guarantee in guarantees])
        return book.currency.of_profile(profile, asked=rounded, whole=book.whole)
    except (Infeasible, Refused):
        return None


def _continued(entry: _Entry, entries: Mapping[str, _Entry]) -> Iterator[str]:
    """Follow the steps of a run: those that a checkpoint held were paid for by the entry that it goes on from."""
    facts, steps = entry.facts, entry.steps
    held, first = (facts.get("held") or {"steps": 0})["steps"], facts.get("continues")
    if facts.get("free") and first is None and "part" not in facts:
        yield "it is free, and neither a plan nor an earlier entry paid for it"
    if first is None:
        return
    before = entries.get(first)
    free = before is not None and before.facts.get("free") and "part" not in before.facts
    if before is None or free or any(before.facts.get(key) != facts.get(key) for key in _SAME_RUN):
        yield "it goes on from no run that was paid for"
        return
    of_run = [before, *(other for other in entries.values() if other.facts.get("continues") == first)]
    earlier = [other for other in of_run if other.events[0].number < entry.events[0].number]
    if (paid := entry.paid_for) is not None:
        kind = REGISTRY.get(paid["mechanism"]["name"])
        if kind is not None and not issubclass(kind, SteppedMechanism):
            yield f"it goes on from {counted(held, 'step')}, and its mechanism takes one step"
        others = [other.paid_for for other in earlier if other is before or other.steps]
        used = steps or entry.released is not None  # else it was refused
        if used and any(other["mechanism"] != paid["mechanism"] for other in others if other is not None):
            yield "it goes on from a run of another mechanism"
    taken = {step for other in earlier for step in other.steps}
    known = max(taken, default=0)
    if not 0 < held <= known + 1:  # earlier versions wrote a step before they noted it
        yield f"it goes on from {counted(held, 'step')}, and {counted(known, 'step')} had been taken"
    if steps and (steps[0] != held + 1 or taken.intersection(steps)):
        yield f"it took step {steps[0]} again, which was paid for once"
