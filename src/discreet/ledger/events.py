"""Events of a ledger, the book that they make, and what becomes of entries whose process is gone."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from discreet._core.errors import ParameterError, Refused
from discreet._core.files import deliver, forsake
from discreet._core.random import fresh_identity
from discreet.ledger.filters import CURRENCIES, Cost, Currency
from discreet.ledger.store import Store, Transaction
from discreet.privacy import Budget, Guarantee, Relation

# A ledger is made of events, each with the hash of the one before. Rows are only ever appended. An event is about an
# entry: one release, or several that were declared together. The state of an entry is that of its last event.

STATES = (
    "RESERVED",  # its cost is set aside; the table was not opened
    "OPENED",  # the table may have been read
    "COMMITTED",  # what is released is complete on the disk, and its hashes are here
    "VOID",  # given up before the table was opened: the only state that does not count
    "FORFEITED",  # opened, and not committed: spent for ever
)
REMARKS = (
    "NOTED",  # keeps something in mind: a step that is done, a report for the custodian
    "DELIVERED",  # committed files have their names
    "LOST",  # committed files are gone
)
AFTER: Mapping[Any, tuple[str, ...]] = {
    None: ("RESERVED",),
    "RESERVED": ("OPENED", "VOID"),
    "OPENED": ("COMMITTED", "FORFEITED"),
}
"""Which states an entry may have next; none after those that are not here."""

BEGINNING = "0" * 64
"""What stands in place of a hash before the first event."""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "number": (int,),
    "entry": (str, type(None)),
    "counts": (dict,),
    "facts": (dict,),
    **dict.fromkeys(("at", "dataset", "state", "previous"), (str,)),
}


@dataclass(frozen=True, kw_only=True)
class LedgerEvent:
    """One row of a ledger: facts as JSON values, none of which is a confidential value, and sums over all entries."""

    number: int
    at: str  # in ISO form, by the machine's clock: for people. Nothing is decided by it
    dataset: str
    entry: str | None  # None for what concerns the whole ledger
    state: str
    cost: Cost  # of the entry, from now on
    spent: Cost  # over all entries that count
    counts: Mapping[str, int]  # of entries in each state
    facts: Mapping[str, Any]
    previous: str  # the hash of the event before

    @property
    def body(self) -> str:
        """The event as it is stored and hashed: JSON with sorted keys and no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)

    @property
    def hash(self) -> str:
        """SHA-256 of the body, which holds the hash of the event before: the chain up to here."""
        return hashlib.sha256(self.body.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON values; costs as exact decimals."""
        return {**vars(self), "cost": self.cost.to_dict(), "spent": self.spent.to_dict()}

    @classmethod
    def parse(cls, body: str) -> Self:
        """Read an event as it was stored. Raises ParameterError when the text is not one."""
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            document = json.loads(body)
            wrong = [key for key, kinds in _KINDS.items() if type(document[key]) not in kinds]
            if not wrong and {type(document["counts"].get(state)) for state in STATES} == {int}:
                return cls(**document | {key: Cost.from_dict(document[key]) for key in ("cost", "spent")})
        raise ParameterError("a row of the ledger is not an event")

    def successor(
        self, entry: str | None, state: str, *, current: LedgerEvent | None, cost: Cost, **values: Any
    ) -> LedgerEvent:
        """Return the event after this last one; ``current`` says the state of its entry, None of a new one."""
        spent, counts = self.spent, dict(self.counts)
        if state in STATES:
            if current is not None:  # it is not VOID, which no state follows
                spent, counts[current.state] = spent - current.cost, counts[current.state] - 1
            counts[state] += 1
            if state != "VOID":
                spent += cost
        values |= {"number": self.number + 1, "previous": self.hash}
        return replace(self, entry=entry, state=state, cost=cost, spent=spent, counts=counts, **values)


class Page:
    """The events of a data set within one transaction."""

    def __init__(self, run: Transaction, dataset: str) -> None:
        self._run, self._dataset = run, dataset

    def rows(self, columns: str, where: str = "", order: str = "number", **values: Any) -> Sequence[Any]:
        """Return columns of events as they are stored, the oldest first, for a condition in words of our own."""
        statement = f"SELECT {columns} FROM discreet_event WHERE dataset = :dataset {where} ORDER BY {order}"  # noqa: S608
        return self._run(statement, dataset=self._dataset, **values)

    def select(self, where: str = "", order: str = "number", **values: Any) -> list[LedgerEvent]:
        """Return events, the oldest first."""
        return [LedgerEvent.parse(body) for (body,) in self.rows("body", where, order, **values)]

    @property
    def last(self) -> LedgerEvent:
        """The last event: it holds all sums."""
        return self.select(order="number DESC LIMIT 1")[0]

    def state(self, entry: str | None) -> LedgerEvent | None:
        """Return the last event that says the state of an entry; None where there is no such entry."""
        events = self.select(f"AND entry = :entry AND state IN {STATES}", "number DESC LIMIT 1", entry=entry)
        return next(iter(events), None)

    def state_of(self, reservation: LedgerEvent) -> str:
        """Return the state of an entry that there is."""
        return (self.state(reservation.entry) or reservation).state

    def entry(self, name: str | None) -> list[LedgerEvent]:
        """Return all events of an entry."""
        return self.select("AND entry = :entry", entry=name)

    def reservations(self) -> list[LedgerEvent]:
        """Return the first events of all entries."""
        return self.select("AND state = 'RESERVED'")

    def run_of(self, reservation: LedgerEvent) -> list[LedgerEvent]:
        """Return all events of the entries that went on from the same steps as an entry, itself among them."""
        origin = reservation.facts.get("continues", reservation.entry)
        run = [entry for entry in self.reservations() if origin in (entry.entry, entry.facts.get("continues"))]
        return [event for entry in run for event in self.entry(entry.entry)]

    def append(
        self, entry: str | None, state: str, *, facts: Mapping[str, Any], cost: Cost | None = None
    ) -> LedgerEvent:
        """Append an event, at the cost of its entry by default. Raises ParameterError in a state that cannot follow."""
        current = self.state(entry)
        name = current and current.state
        if state in STATES and state not in AFTER.get(name, ()):
            raise ParameterError(f"the entry {entry} of the ledger is {name or 'unknown'} and cannot become {state}")
        cost = cost or (current and current.cost) or Cost()
        salted = {**facts, "salt": fresh_identity()}  # certificates hold later hashes, which tell nothing of it
        event = self.last.successor(entry, state, current=current, at=now(), cost=cost, facts=salted)
        self.insert(event)
        return event

    def insert(self, event: LedgerEvent) -> None:
        """Store an event."""
        values = {key: getattr(event, key) for key in ("dataset", "number", "entry", "state", "body", "hash")}
        self._run("INSERT INTO discreet_event VALUES (:dataset, :number, :entry, :state, :body, :hash)", **values)


class Book:
    """The events of one data set in a store, and what may be spent. Raises ParameterError when there are none."""

    def __init__(self, store: Store, dataset: str) -> None:
        self._store, self.dataset = store, dataset
        with self.reading() as page:
            events = page.select("AND number = 0")
        if not events:
            raise ParameterError("the first event of the ledger is missing, or all of them. Restore it from a copy")
        facts, self.created = events[0].facts, events[0].at
        try:
            self.currency: Currency = CURRENCIES[facts["currency"]]
            self.budget = Budget(**facts["budget"])
            self.limit = Cost.from_dict(facts["limit"])
            self.covers = {key: facts["covers"][key] for key in ("relation", "unit", "max_records", "kinds")}
        except (KeyError, TypeError):
            raise ParameterError("the first event of the ledger was changed. Restore it from a copy") from None

    @contextmanager
    def reading(self) -> Iterator[Page]:
        """Give the events as they are now."""
        with self._store.reading() as run:
            yield Page(run, self.dataset)

    @contextmanager
    def appending(self) -> Iterator[Page]:
        """Give the events while nobody else appends; what is appended is durable when the block ends."""
        with self._store.appending(self.dataset) as run:
            yield Page(run, self.dataset)

    def cost_of(self, guarantee: Guarantee, budget: Budget) -> Cost:
        """Return what a guarantee costs. Raises Refused when it does not meet the budget."""
        if guarantee.stated is None and guarantee.meets(budget):
            return self.currency.of_profile(guarantee.profile, budget=budget, total=self.budget)
        if guarantee.stated is not None and guarantee.stated[0] <= budget.epsilon:
            return self.currency.of_budget(Budget(epsilon=guarantee.stated[0]))
        raise Refused(f"the mechanism does not meet {budget}, which is to be paid. Pay for more, or calibrate it anew")

    def require_covered(self, relation: Relation, *, unit: str | None, kind: str | None) -> None:
        """Refuse what the ledger does not add up. Raises Refused."""
        covers = self.covers
        for term, request_value, ledger_value in (
            ("the relation", relation.name, covers["relation"]),
            ("the privacy unit", unit or "a record", covers["unit"] or "a record"),
            ("the most records of a unit", relation.group, covers["max_records"]),
        ):
            if request_value != ledger_value:
                raise Refused(
                    f"the ledger of {self.dataset!r} adds up releases for which {term} is {ledger_value}, and here it "
                    f"is {request_value}. Change the release, or keep a separate ledger for this kind"
                )
        if kind is not None and kind not in covers["kinds"]:
            raise Refused(
                f"the ledger of {self.dataset!r} was made for guarantees that are {' or '.join(covers['kinds'])}, and "
                f"this one is {kind}. Make a ledger for that kind with discreet ledger init"
            )


def begin(store: Store, dataset: str, facts: Mapping[str, Any]) -> None:
    """Make the book of a data set. Raises ParameterError when there is one."""
    place: dict[str, Any] = {"number": 0, "entry": None, "state": "CREATED", "previous": BEGINNING}
    sums: dict[str, Any] = {"cost": Cost(), "spent": Cost(), "counts": dict.fromkeys(STATES, 0)}
    event = LedgerEvent(**place, **sums, at=now(), dataset=dataset, facts={"ledger": fresh_identity(), **facts})
    with store.appending(dataset) as run:
        if run("SELECT name FROM discreet_dataset WHERE name = :name", name=dataset):
            raise ParameterError(f"there is a ledger of the data set {dataset!r} already. Use it, or give another name")
        run("INSERT INTO discreet_dataset VALUES (:name)", name=dataset)
        Page(run, dataset).insert(event)


def now() -> str:
    """Return the time, for people."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


# Who works on an entry: a process of a machine that was started once. Clocks play no part in it.

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def lease() -> dict[str, Any]:
    """Return what names this process among all that ever run on its machine."""
    pid = os.getpid()
    return {"machine": platform.node(), "boot": _boot(), "process": pid, "started": _stat(pid)[1]}


def holder(process_lease: Mapping[str, Any]) -> Literal["alive", "dead", "elsewhere"]:
    """Return whether the process of a lease works on, as far as this machine tells when processes were started."""
    process = process_lease.get("process")
    if process_lease.get("machine") != platform.node():
        return "elsewhere"
    if process_lease.get("boot") != _boot() or not isinstance(process, int):
        return "dead"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return "dead"
    except PermissionError:  # of another user
        pass
    state, started = _stat(process)
    if state in ("Z", "X") or process_lease.get("started") != started:  # it ended, and was not waited for
        return "dead"
    return "alive"


def _boot() -> str | None:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _stat(number: int) -> tuple[str | None, str | None]:
    """Return the state of a process, and when it was started in ticks; None where the system does not say."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, None
    facts = text.rpartition(")")[2].split()
    return facts[0], facts[19]


# After a failure: whose entries are settled, and what becomes of files that were committed. Nothing is run again.

_SETTLED = {"RESERVED": "VOID", "OPENED": "FORFEITED", "COMMITTED": "DELIVERED"}


def going_on(file: object) -> str:
    """Say how to go on after a kernel whose output waits in a file."""
    return f"The noise was drawn and paid for; run the same command again to go on. Its output waits in {file}"


def settle_entries(book: Book, gone: Collection[str]) -> list[dict[str, Any]]:
    """Settle every entry whose process is gone, as that of entries ``gone`` is; return what became of each."""
    with book.reading() as page:
        events = page.select()
    reservations: dict[str | None, LedgerEvent] = {}
    for event in events:
        reservations.setdefault(event.entry, event)
        if event.state == "FORFEITED":  # an error may have left what could not be removed
            with suppress(OSError):
                forsake(str(event.entry), map(Path, reservations[event.entry].facts.get("out", ())))
    last = {event.entry: event for event in events if event.entry is not None and event.state != "NOTED"}
    unsettled = [event for event in last.values() if event.state in _SETTLED]
    return [_settlement(book, reservations[event.entry], event, gone) for event in unsettled]


def _settlement(book: Book, reservation: LedgerEvent, event: LedgerEvent, gone: Collection[str]) -> dict[str, Any]:
    """Settle an entry with its last event if its process is gone; return what became of it."""
    entry = str(event.entry)
    process = "dead" if entry in gone else holder(reservation.facts["lease"])
    outcome: dict[str, Any] = {"entry": entry, "was": event.state, "now": event.state, "why": None}
    if process == "alive":
        return outcome | {"why": "a process works on it"}
    if process == "elsewhere":
        return outcome | {
            "why": "it was begun on another machine. Run discreet ledger recover there, or name the entry if it is gone"
        }
    settlement = _SETTLED[event.state]
    try:
        if event.state != "COMMITTED":
            forsake(entry, map(Path, reservation.facts["out"]))
            with book.reading() as page:
                files = [note.facts["output"] for note in page.entry(entry) if "output" in note.facts]
            if waiting := list(filter(os.path.lexists, files)):
                return outcome | {"why": going_on(waiting[0])}
        elif not deliver(entry, event.facts):
            settlement = "LOST"
    except OSError as problem:
        return outcome | {"why": str(problem)}
    with book.appending() as page:
        last = page.entry(entry)[-1]
        if last.number != event.number and last.state != "NOTED":  # somebody else did something meanwhile
            return outcome | {"now": last.state}
        page.append(entry, settlement, facts={"recovered": True})
    return outcome | {"now": settlement}
