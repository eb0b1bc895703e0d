"""After a failure: whose entries are settled, and what becomes of files that were committed. Nothing is run again."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from discreet._core.files import deliver, forsake
from discreet.ledger.events import Book, LedgerEvent

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


_SETTLED = {"RESERVED": "VOID", "OPENED": "FORFEITED", "COMMITTED": "DELIVERED"}


def settle_entries(book: Book, known_gone: Collection[str]) -> list[dict[str, Any]]:
    """Settle every entry whose process is gone, as that of entries ``known_gone`` is; return what became of each."""
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
    return [_settlement(book, reservations[event.entry], event, known_gone) for event in unsettled]


def _settlement(
    book: Book, reservation: LedgerEvent, event: LedgerEvent, known_gone: Collection[str]
) -> dict[str, Any]:
    """Settle an entry with its last event if its process is gone; return what became of it."""
    entry = str(event.entry)
    process = "dead" if entry in known_gone else holder(reservation.facts["lease"])
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
