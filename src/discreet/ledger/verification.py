"""Entries of a ledger against certificates, and releases whose run was cut short."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from discreet._core.errors import DiscreetError, FileProblem, Infeasible, MissingExtra, ParameterError, Refused
from discreet._core.files import deliver, forsake
from discreet._core.reading import file_sha256, read_json
from discreet._core.text import counted, harmless
from discreet.domain import Domain
from discreet.ledger.events import AFTER, BEGINNING, REMARKS, STATES, Book, Event, Page, following
from discreet.ledger.filters import Cost
from discreet.ledger.payment import cost_of
from discreet.mechanisms import MODELS, REGISTRY, certified_type
from discreet.mechanisms.steps import SteppedMechanism
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
    if (made := paid_for(of)) is not None and not _same_domain(facts.get("domain"), made):
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


# Who works on an entry: a process of a machine that was started once. Clocks play no part in it.

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def lease() -> dict[str, Any]:
    """Return what names this process among all that ever run on its machine."""
    pid = os.getpid()
    return {"machine": platform.node(), "boot": _boot(), "process": pid, "started": _started(pid)}


def holder(held: Mapping[str, Any]) -> Literal["alive", "dead", "elsewhere"]:
    """Return whether the process of a lease works on, as far as this machine can tell.

    Where the system does not tell when a process was started, one that got the number of a dead one counts as alive.
    """
    boot, process = held.get("boot"), held.get("process")
    if held.get("machine") != platform.node():
        return "elsewhere"
    if boot != _boot():
        return "dead"
    if not isinstance(process, int) or not _runs(process):
        return "dead"
    return "alive" if held.get("started") == _started(process) else "dead"


def _boot() -> str | None:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _started(process: int) -> str | None:
    """Return when a process was started, in ticks since the machine was; None where the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:  # a process that ended and was not waited for
        state = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        )
    except OSError:
        return True
    return state not in {"Z", "X"}


# After a failure: what becomes of the entries of processes that are gone. Nothing is ever run again.

_NEXT = {"RESERVED": "VOID", "OPENED": "FORFEITED"}


def recovered(book: Book, known_gone: Collection[str]) -> list[dict[str, Any]]:
    """Settle every entry whose process is gone; return what became of each.

    ``known_gone``: entries of other machines that nobody works on.
    """
    with book.reading() as page:
        waiting, forfeited = _waiting(page), [page.of(str(event.entry))[0] for event in page.about("FORFEITED")]
    for reserved in forfeited:  # an error may have left what could not be removed
        with suppress(OSError):
            forsake(str(reserved.entry), map(Path, reserved.facts.get("out", ())))
    return [_settled(book, event, known_gone) for event in waiting]


def _waiting(page: Page) -> list[Event]:
    """Return the last state of each entry that is not settled."""
    last: dict[str, Event] = {}
    done = set()
    for event in page.all():
        if event.entry is None or event.state == "NOTED":
            continue
        if event.state in ("DELIVERED", "LOST"):
            done.add(event.entry)
        else:
            last[event.entry] = event
    return [event for entry, event in last.items() if event.state in (*_NEXT, "COMMITTED") and entry not in done]


def _settled(book: Book, event: Event, known_gone: Collection[str]) -> dict[str, Any]:
    entry = str(event.entry)
    with book.reading() as page:
        reserved = page.of(entry)[0]
    held = "dead" if entry in known_gone else holder(reserved.facts["lease"])
    told: dict[str, Any] = {"entry": entry, "was": event.state, "now": event.state, "why": None}
    if held == "alive":
        return told | {"why": "a process works on it"}
    if held == "elsewhere":
        return told | {
            "why": "it was begun on another machine. Run discreet ledger recover there, or name the entry if it is gone"
        }
    try:
        if event.state == "COMMITTED":
            after = "DELIVERED" if deliver(entry, event.facts) else "LOST"
        else:
            forsake(entry, map(Path, reserved.facts["out"]))
            after = _NEXT[event.state]
    except OSError as problem:
        return told | {"why": str(problem)}
    return told | {"now": _to(book, entry, event, after)}


def _to(book: Book, entry: str, seen: Event, state: str) -> str:
    """Append a state, unless somebody else did something meanwhile; return the state that holds."""
    with book.appending() as page:
        last = page.of(entry)[-1]
        if last.number != seen.number and last.state != "NOTED":
            return last.state
        page.append(entry, state, facts={"recovered": True})
    return state


# Entries that no run of this library makes: what was charged is not what ran, or steps were taken for nothing.
#
# A chain of hashes shows that a ledger was changed afterwards, and not that an entry was written by other software, or
# by hand. So each entry is computed again from what it says of itself: the cost of its mechanism on its domain, and the
# steps of its run.

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
    if any(made[key] != released[key] for key in ("mechanism", "records", *["size"] * by_size)):
        yield "what was released is not what was paid for"
    if sha256(made["domain"].encode()).hexdigest() != made["cells"]:
        yield "its domain does not have the hash that it states"


def _covered(own: Sequence[Event], book: Book) -> Iterator[str]:
    """Compare between which tables an entry was promised with what the ledger adds up."""
    asked, covers = own[0].facts, book.facts["covers"]
    given = tuple(asked.get(key) or None for key in ("relation", "unit", "group"))
    if "relation" in asked and given != (covers["relation"], covers["unit"] or None, covers["max_records"]):
        yield "it has another relation or unit than the ledger adds up"


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
    """Compute the cost of a release, or of a plan, again, to a millionth, but for mechanisms of users."""
    asked, made, covers = own[0].facts, paid_for(own), book.facts["covers"]
    paying = _plan_of(own, entries) if "part" in asked else own
    releases = asked.get("parts", [] if made is None else [{**made, "toml": made["domain"], "group": asked["group"]}])
    names = {*REGISTRY, *MODELS}
    if paying is None or paying[0].facts.get("free") or not releases:
        return
    if any("toml" not in release or release["mechanism"]["name"] not in names for release in releases):
        return
    epsilon, delta = map(paying[0].facts.get("budget", {}).__getitem__, ("epsilon", "delta"))
    budget, guarantees = Budget(epsilon=min(100.0, epsilon * (1 + 1e-9)), delta=delta * (1 + 1e-6)), []
    try:
        for release in releases:
            mechanism = certified_type(release["mechanism"]["name"]).from_parameters(
                release["mechanism"]["parameters"],
                domain=Domain.from_toml(release["toml"]),
                records=release["records"],
                size=release["size"],
            )
            relation = Relation(name=asked.get("relation", covers["relation"]), group=release["group"])
            guarantees.append(mechanism.guarantee(relation, n=release["records"]))
        if "parts" in asked:
            profile = compose([guarantee.profile for guarantee in guarantees])
            cost = book.currency.of_profile(profile, asked=budget, whole=book.whole)
        else:
            cost = cost_of(book, guarantees[0], budget)
    except (Infeasible, Refused):  # the budget is not met
        cost = None
    except MissingExtra:  # of a model
        return
    except DiscreetError:
        yield "its mechanism cannot be built from what it says"
        return
    charged = [event.cost for event in paying if event.state in ("COMMITTED", "OPENED", "FORFEITED")]
    if charged and (cost is None or not Cost(cost.loss * (1 - _SLACK), cost.delta * (1 - _SLACK)).within(charged[-1])):
        yield "its mechanism costs more than was charged"


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
