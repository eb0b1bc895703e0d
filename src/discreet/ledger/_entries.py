"""The entries of a ledger, put together from its events: what people and other programs are shown of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from discreet.ledger._events import STATES


@dataclass(slots=True, kw_only=True)
class Entry:
    """One entry, as its events say: public facts alone, and of files their names and hashes.

    ``name``: of the entry.
    ``what``: what asked for it, such as release.
    ``state``: its last one.
    ``reserved``, ``committed``: when, in ISO form; None where it was not.
    ``cost``: loss and delta, as exact decimals.
    ``asked``: the epsilon and delta that were asked for.
    ``relation``, ``unit``, ``group``, ``domain``: what the guarantee is about; the domain's SHA-256.
    ``parts``: the names of the releases that were declared together, where the entry is a plan.
    ``part``: its name in the plan that paid for it; None where it pays for itself.
    ``continues``: the entry whose run it goes on with, and which paid for it; None for most.
    ``fate``: DELIVERED or LOST, once that is known.
    ``released``: mechanism, guarantee, records, size and identity; empty before it is committed.
    ``files``: name and SHA-256 of each file of the release.
    ``out``: the names of the files that were asked for.
    """

    name: str
    what: str = "release"
    state: str = "RESERVED"
    reserved: str | None = None
    committed: str | None = None
    cost: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, float] = field(default_factory=dict)
    relation: str | None = None
    unit: str | None = None
    group: int = 1
    domain: str | None = None
    parts: tuple[str, ...] = ()
    part: str | None = None
    continues: str | None = None
    fate: str | None = None
    released: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    out: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its files: those that were written, else those that were asked for."""
        return tuple(name for name, _ in self.files) or self.out

    @property
    def mechanism(self) -> str | None:
        """The name of the mechanism; None before the entry is committed."""
        found = self.released.get("mechanism")
        return None if found is None else str(found["name"])

    @property
    def promised(self) -> Mapping[str, float]:
        """The epsilon and delta of the guarantee; what was asked for before the entry is committed."""
        guarantee: Mapping[str, float] = self.released.get("guarantee", self.asked)
        return guarantee


_RELEASED = ("mechanism", "guarantee", "records", "size", "identity")


def entries(events: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the entries of a ledger, in the order of their reservations.

    ``events``: as :meth:`Ledger.log` gives them.
    """
    found: dict[str, Entry] = {}
    for event in events:
        name, state = event["entry"], event["state"]
        if name is None:
            continue
        entry = found.setdefault(name, Entry(name=name))
        if state in STATES:
            entry.state, entry.cost = state, event["cost"]
        if state in _READERS:
            _READERS[state](entry, event)
    return list(found.values())


def _reserved(entry: Entry, event: Mapping[str, Any]) -> None:
    facts = event["facts"]
    entry.reserved, entry.what, entry.asked = event["at"], facts.get("what", entry.what), facts["budget"]
    entry.relation, entry.unit = facts.get("relation"), facts.get("unit")
    entry.group, entry.domain, entry.continues = facts.get("group", 1), facts.get("domain"), facts.get("continues")
    entry.parts = tuple(one["name"] for one in facts.get("parts", ()))
    entry.part = facts.get("part", {}).get("name")
    entry.out = tuple(PurePath(one).name for one in facts.get("out", ()))


def _committed(entry: Entry, event: Mapping[str, Any]) -> None:
    facts = event["facts"]
    entry.committed = event["at"]
    entry.released = {key: facts[key] for key in _RELEASED if key in facts}
    held = facts.get("files", ())
    if "folder" in facts:
        held = [{"path": name, "sha256": one} for name, one in sorted(dict(facts["folder"]["files"]).items())]
    entry.files = tuple((PurePath(one["path"]).name, one["sha256"]) for one in held)


def _fated(entry: Entry, event: Mapping[str, Any]) -> None:
    entry.fate = event["state"]


_READERS = {"RESERVED": _reserved, "COMMITTED": _committed, "DELIVERED": _fated, "LOST": _fated}
