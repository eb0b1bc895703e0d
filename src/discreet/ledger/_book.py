"""The book: the events of one data set, read and appended to within transactions of a store."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from discreet._core.errors import ParameterError
from discreet._core.random import fresh_identity
from discreet.ledger._events import AFTER, BEGINNING, STATES, Event, following
from discreet.ledger._filters import CURRENCIES, Cost, Currency
from discreet.ledger._store import Store, Transaction
from discreet.privacy import Budget

_IN_STATES = ", ".join(f"'{state}'" for state in STATES)


_COVERS = ("relation", "unit", "max_records", "kinds")


class Page:
    """The events of a data set within one transaction.

    ``book``: whose.
    ``run``: the transaction.
    """

    def __init__(self, book: Book, run: Transaction) -> None:
        self._book, self._run = book, run

    @property
    def last(self) -> Event:
        """The last event: it holds all sums."""
        return self._one("ORDER BY number DESC LIMIT 1")

    @property
    def first(self) -> Event:
        """The event that made the ledger."""
        return self._one("AND number = 0")

    def _one(self, where: str) -> Event:
        found = self._events(where)
        if not found:
            raise ParameterError("the first event of the ledger is missing, or all of them. Restore it from a copy")
        return found[0]

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
        found = self._events(
            f"AND entry = :entry AND state IN ({_IN_STATES}) ORDER BY number DESC LIMIT 1", entry=entry
        )
        return found[0] if found else None

    def of(self, entry: str) -> list[Event]:
        """Return all events of an entry, the oldest first."""
        return self._events("AND entry = :entry ORDER BY number", entry=entry)

    def about(self, state: str) -> list[Event]:
        """Return all events that say one state, the oldest first."""
        return self._events("AND state = :state ORDER BY number", state=state)

    def append(self, entry: str | None, state: str, *, facts: Mapping[str, Any], cost: Cost | None = None) -> Event:
        """Append an event; the cost of an entry is what it was where none is given.

        Raises ParameterError when the entry cannot have this state now.
        """
        before = None if entry is None else self.state(entry)
        if state in STATES and state not in AFTER[None if before is None else before.state]:
            found = "unknown" if before is None else before.state
            raise ParameterError(f"the entry {entry} of the ledger is {found} and cannot become {state}")
        kept = Cost() if before is None else before.cost
        event = following(
            self.last,
            at=now(),
            entry=entry,
            state=state,
            before=before,
            cost=kept if cost is None else cost,
            facts=facts,
        )
        insert(self._run, event)
        return event

    def _events(self, where: str, **values: Any) -> list[Event]:
        rows = self._run(
            f"SELECT body FROM discreet_event WHERE dataset = :dataset {where}",  # noqa: S608  # our own words
            dataset=self._book.dataset,
            **values,
        )
        return [Event.of(body) for (body,) in rows]


class Book:
    """The events of one data set in a store.

    ``store``: where.
    ``dataset``: whose.

    Raises ParameterError when the store has no such data set.
    """

    def __init__(self, store: Store, dataset: str) -> None:
        self._store, self.dataset = store, dataset
        with self.reading() as page:
            facts = page.first.facts
        try:
            self.currency: Currency = CURRENCIES[facts["currency"]]
            self.whole = Budget(**facts["budget"])
            self.limit = Cost.of(facts["limit"])
            self.facts = {**facts, "covers": {key: facts["covers"][key] for key in _COVERS}}
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
    nothing = Cost()
    first = Event(
        number=0,
        at=now(),
        dataset=dataset,
        entry=None,
        state="CREATED",
        cost=nothing,
        spent=nothing,
        counts=dict.fromkeys(STATES, 0),
        facts={"ledger": fresh_identity(), **facts},
        previous=BEGINNING,
    )
    with store.appending(dataset) as run:
        if run("SELECT name FROM discreet_dataset WHERE name = :name", name=dataset):
            raise ParameterError(f"there is a ledger of the data set {dataset!r} already. Use it, or give another name")
        run("INSERT INTO discreet_dataset VALUES (:name)", name=dataset)
        insert(run, first)


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
