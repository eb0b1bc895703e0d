"""Recomputing a ledger: its chain, its sums, its budget, and that certificates are in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from discreet._core.errors import DiscreetError, FileProblem, ParameterError
from discreet._core.reading import read_json
from discreet._core.text import harmless
from discreet._core.writing import file_sha256
from discreet.ledger._book import Book
from discreet.ledger._events import AFTER, BEGINNING, REMARKS, STATES, Event, following

_KEPT = ("mechanism", "guarantee", "records", "size", "identity")
_GUARANTEE = ("epsilon", "delta", "kind", "theorem", "statement")


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
        wrong = [*_sums(events, book)]
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
    elif not written and any(_stated(facts, key) != committed.facts.get(key) for key in _KEPT):
        yield f"{name}: it does not state what was committed"


def _stated(facts: Mapping[str, Any], key: str) -> Any:
    """Return what a certificate says of something that a ledger keeps."""
    found = facts.get(key)
    return {part: found.get(part) for part in _GUARANTEE} if key == "guarantee" and isinstance(found, dict) else found


def _written(facts: Mapping[str, Any]) -> list[str]:
    """Return the hashes of what was committed; none of tables that were handed over in memory."""
    folder = facts.get("folder") or {"files": {}}
    return [*(one["sha256"] for one in facts["files"]), *folder["files"].values()]
