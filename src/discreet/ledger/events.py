"""Events of a ledger, and the book that they make."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from discreet._core.errors import ParameterError
from discreet._core.random import fresh_identity
from discreet.ledger.filters import CURRENCIES, Cost, Currency
from discreet.ledger.store import Store, Transaction
from discreet.privacy import Budget

# What a ledger is made of: events, each with the hash of the one before.
#
# Rows are only ever appended. What an event is *about* is an entry: one release, or several that were declared
# together. Its state is that of its last event.
#
# =========== =================================================================================== ======
# state       what it means                                                                       counts
# =========== =================================================================================== ======
# RESERVED    its cost is set aside; the table was not opened                                     yes
# OPENED      the table may have been read                                                        yes
# COMMITTED   what is released is complete on the disk, and its hashes are here                   yes
# VOID        given up before the table was opened                                                no
# FORFEITED   opened, and not committed: spent for ever                                           yes
# =========== =================================================================================== ======
#
# Three more events change no state: CREATED is the first of a ledger, NOTED keeps something in mind (a step that is
# done, a report for the custodian), DELIVERED and LOST say what became of committed files.

STATES = ("RESERVED", "OPENED", "COMMITTED", "VOID", "FORFEITED")
REMARKS = ("NOTED", "DELIVERED", "LOST")
AFTER: Mapping[str | None, tuple[str, ...]] = {
    None: ("RESERVED",),
    "RESERVED": ("OPENED", "VOID"),
    "OPENED": ("COMMITTED", "FORFEITED"),
    "COMMITTED": (),
    "VOID": (),
    "FORFEITED": (),
}
"""Which states an entry may have next."""

FREE = "VOID"
"""The only state that does not count."""

BEGINNING = "0" * 64
"""What stands in place of a hash before the first event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of a ledger: public facts as JSON values, and sums over all entries after it."""

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
        return {
            "number": self.number,
            "at": self.at,
            "dataset": self.dataset,
            "entry": self.entry,
            "state": self.state,
            "cost": self.cost.to_dict(),
            "spent": self.spent.to_dict(),
            "counts": dict(self.counts),
            "facts": dict(self.facts),
            "previous": self.previous,
        }

    @classmethod
    def parse(cls, body: str) -> Self:
        """Read an event as it was stored. Raises ParameterError when the text is none."""
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            document = json.loads(body)
            wrong = [key for key, kinds in _KINDS.items() if type(document[key]) not in kinds]
            if not wrong and {type(document["counts"].get(state)) for state in STATES} == {int}:
                costs = {key: Cost.from_dict(document[key]) for key in ("cost", "spent")}
                return cls(**{**document, **costs})
        raise ParameterError("a row of the ledger is not an event")


_KINDS: Mapping[str, tuple[type, ...]] = {
    "number": (int,),
    "at": (str,),
    "dataset": (str,),
    "entry": (str, type(None)),
    "state": (str,),
    "counts": (dict,),
    "facts": (dict,),
    "previous": (str,),
}


def next_event(
    last: Event,
    *,
    at: str,
    entry: str | None,
    state: str,
    current: Event | None,
    cost: Cost,
    facts: Mapping[str, Any],
) -> Event:
    """Return the event after the last one of a ledger; ``current`` says the state of its entry, None of a new one."""
    spent, counts = last.spent, dict(last.counts)
    if state in STATES:
        if current is not None:
            counts[current.state] -= 1
            spent = spent if current.state == FREE else spent - current.cost
        counts[state] += 1
        spent = spent if state == FREE else spent + cost
    return Event(
        number=last.number + 1,
        at=at,
        dataset=last.dataset,
        entry=entry,
        state=state,
        cost=cost,
        spent=spent,
        counts=counts,
        facts=facts,
        previous=last.hash,
    )


# The book: the events of one data set, read and appended to within transactions of a store.


class Page:
    """The events of a data set within one transaction."""

    def __init__(self, book: Book, run: Transaction) -> None:
        self._book, self._run = book, run

    @property
    def last(self) -> Event:
        """The last event: it holds all sums."""
        return self._events("ORDER BY number DESC LIMIT 1")[0]

    @property
    def first(self) -> Event:
        """The event that made the ledger, without which nothing is read."""
        events = self._events("AND number = 0")
        if not events:
            raise ParameterError("the first event of the ledger is missing, or all of them. Restore it from a copy")
        return events[0]

    def all(self) -> list[Event]:
        """Return all events, the oldest first."""
        return self._events("ORDER BY number")

    def stored(self) -> Sequence[Any]:
        """Return the rows as they are stored: number, entry, state, body, hash."""
        return self._run(
            "SELECT number, entry, state, body, hash FROM discreet_event WHERE dataset = :dataset ORDER BY number",
            dataset=self._book.dataset,
        )

    def state(self, entry: str) -> Event | None:
        """Return the last event that says the state of an entry; None where there is no such entry."""
        events = self._events(f"AND entry = :entry AND state IN {STATES} ORDER BY number DESC LIMIT 1", entry=entry)
        return events[0] if events else None

    def events(self, entry: str) -> list[Event]:
        """Return all events of an entry, the oldest first."""
        return self._events("AND entry = :entry ORDER BY number", entry=entry)

    def reservations(self) -> list[Event]:
        """Return the first events of all entries, the oldest first."""
        return self._events("AND state = 'RESERVED' ORDER BY number")

    def append(self, entry: str | None, state: str, *, facts: Mapping[str, Any], cost: Cost | None = None) -> Event:
        """Append an event; the cost of an entry is what it was where none is given.

        Raises ParameterError when the entry cannot have this state now.
        """
        current = None if entry is None else self.state(entry)
        name = None if current is None else current.state
        if state in STATES and state not in AFTER[name]:
            raise ParameterError(f"the entry {entry} of the ledger is {name or 'unknown'} and cannot become {state}")
        if cost is None:
            cost = Cost() if current is None else current.cost
        event = next_event(self.last, at=now(), entry=entry, state=state, current=current, cost=cost, facts=facts)
        insert(self._run, event)
        return event

    def _events(self, where: str, **values: Any) -> list[Event]:
        rows = self._run(
            f"SELECT body FROM discreet_event WHERE dataset = :dataset {where}",  # noqa: S608  # our own words
            dataset=self._book.dataset,
            **values,
        )
        return [Event.parse(body) for (body,) in rows]


class Book:
    """The events of one data set in a store. Raises ParameterError when the store has no such data set."""

    def __init__(self, store: Store, dataset: str) -> None:
        self._store, self.dataset = store, dataset
        with self.reading() as page:
            facts = page.first.facts
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
            yield Page(self, run)

    @contextmanager
    def appending(self) -> Iterator[Page]:
        """Give the events while nobody else appends; what is appended is durable when the block ends."""
        with self._store.appending(self.dataset) as run:
            yield Page(self, run)


def datasets(store: Store) -> list[str]:
    """Return the names of the data sets that a store has ledgers of."""
    with store.reading() as run:
        return [name for (name,) in run("SELECT name FROM discreet_dataset ORDER BY name")]


def begin(store: Store, dataset: str, facts: Mapping[str, Any]) -> None:
    """Make the book of a data set. Raises ParameterError when there is one."""
    event = Event(
        number=0,
        at=now(),
        dataset=dataset,
        entry=None,
        state="CREATED",
        cost=Cost(),
        spent=Cost(),
        counts=dict.fromkeys(STATES, 0),
        facts={"ledger": fresh_identity(), **facts},
        previous=BEGINNING,
    )
    with store.appending(dataset) as run:
        if run("SELECT name FROM discreet_dataset WHERE name = :name", name=dataset):
            raise ParameterError(f"there is a ledger of the data set {dataset!r} already. Use it, or give another name")
        run("INSERT INTO discreet_dataset VALUES (:name)", name=dataset)
        insert(run, event)


def insert(run: Transaction, event: Event) -> None:
    """Store an event."""
    run(
        "INSERT INTO discreet_event VALUES (:dataset, :number, :entry, :state, :body, :hash)",
        dataset=event.dataset,
        number=event.number,
        entry=event.entry,
        state=event.state,
        body=event.body,
        hash=event.hash,
    )


def now() -> str:
    """Return the time, for people."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
