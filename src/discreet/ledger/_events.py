"""What a ledger is made of: events, each with the hash of the one before.

Rows are only ever appended. What an event is *about* is an entry: one release, or several that were declared together.
Its state is that of its last event.

=========== =================================================================================== ======
state       what it means                                                                       counts
=========== =================================================================================== ======
RESERVED    its cost is set aside; the table was not opened                                     yes
OPENED      the table may have been read                                                        yes
COMMITTED   what is released is complete on the disk, and its hashes are here                   yes
VOID        given up before the table was opened                                                no
FORFEITED   opened, and not committed: spent for ever                                           yes
=========== =================================================================================== ======

Three more events change no state: CREATED is the first of a ledger, NOTED keeps something in mind (a step that is done,
a report for the custodian), DELIVERED and LOST say what became of committed files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from discreet._core.errors import ParameterError
from discreet.ledger._filters import Cost

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
    """One row of a ledger.

    ``number``: 0 for the first.
    ``at``: when, by the machine's clock, in ISO form: for people. Nothing is decided by it.
    ``entry``: what it is about; None for what concerns the whole ledger.
    ``state``: see above.
    ``cost``: what the entry costs from now on.
    ``spent``: the sum over all entries that count, after this event.
    ``counts``: how many entries are in each state, after this event.
    ``facts``: public facts as JSON values.
    ``previous``: the hash of the event before.
    """

    number: int
    at: str
    dataset: str
    entry: str | None
    state: str
    cost: Cost
    spent: Cost
    counts: Mapping[str, int]
    facts: Mapping[str, Any]
    previous: str

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
    def of(cls, body: str) -> Self:
        """Read an event as it was stored.

        Raises ParameterError when the text is none.
        """
        try:
            found = _shaped(json.loads(body))
            return cls(**{**found, "cost": Cost.of(found["cost"]), "spent": Cost.of(found["spent"])})
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ParameterError("a row of the ledger is not an event") from None


def _shaped(found: Any) -> dict[str, Any]:
    """Return the parts of an event. Raises TypeError where one is of the wrong kind."""
    texts = all(isinstance(found[key], str) for key in ("at", "dataset", "state", "previous"))
    entry, counts, facts = found["entry"], found["counts"], found["facts"]
    whole = isinstance(counts, dict) and all(type(counts.get(state)) is int for state in STATES)
    named = entry is None or isinstance(entry, str)
    if not (texts and whole and named and type(found["number"]) is int and isinstance(facts, dict)):
        raise TypeError
    return dict(found)


def following(
    last: Event,
    *,
    at: str,
    entry: str | None,
    state: str,
    before: Event | None,
    cost: Cost,
    facts: Mapping[str, Any],
) -> Event:
    """Return the event that comes after the last one of a ledger.

    ``before``: the last event of the entry that says its state; None where it is new.
    ``cost``: what the entry costs from now on.
    """
    spent, counts = last.spent, dict(last.counts)
    if state in STATES:
        if before is not None:
            counts[before.state] -= 1
            spent = spent if before.state == FREE else spent - before.cost
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
