"""After a failure: whose entries are settled, and what becomes of files that were committed. Nothing is run again."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from discreet._core.files import deliver, forsake
from discreet.ledger.events import Book, Event

# Who works on an entry: a process of a machine that was started once. Clocks play no part in it.

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def lease() -> dict[str, Any]:
    """Return what names this process among all that ever run on its machine."""
    pid = os.getpid()
    return {"machine": platform.node(), "boot": _boot(), "process": pid, "started": _started(pid)}


def holder(process_lease: Mapping[str, Any]) -> Literal["alive", "dead", "elsewhere"]:
    """Return whether the process of a lease works on, as far as this machine tells when processes were started."""
    process = process_lease.get("process")
    if process_lease.get("machine") != platform.node():
        return "elsewhere"
    if process_lease.get("boot") != _boot() or not isinstance(process, int) or not _runs(process):
        return "dead"
    return "alive" if process_lease.get("started") == _started(process) else "dead"


def _boot() -> str | None:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _started(process: int) -> str | None:
    """Return when a process was started, in ticks since the machine was; None where the system does not say."""
    fields = _stat(process)
    return fields[19] if fields else None


def _stat(process: int) -> list[str]:
    """Return what the system says of a process after its name: first its state; nothing where it does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return (_stat(process) or [""])[0] not in {"Z", "X"}  # a process that ended and was not waited for


_NEXT = {"RESERVED": "VOID", "OPENED": "FORFEITED"}


def recovered(book: Book, known_gone: Collection[str]) -> list[dict[str, Any]]:
    """Settle every entry whose process is gone, as that of entries ``known_gone`` is; return what became of each."""
    with book.reading() as page:
        events = page.all()
    reservations: dict[str | None, Event] = {}
    for event in events:
        reservations.setdefault(event.entry, event)
        if event.state == "FORFEITED":  # an error may have left what could not be removed
            with suppress(OSError):
                forsake(str(event.entry), map(Path, reservations[event.entry].facts.get("out", ())))
    return [_settlement(book, reservations[state.entry], state, known_gone) for state in _open_states(events)]


def _open_states(events: Iterable[Event]) -> list[Event]:
    """Return the last state of each entry that is not settled."""
    states: dict[str, Event] = {}
    done = set()
    for event in events:
        if event.entry is None or event.state == "NOTED":
            continue
        if event.state in ("DELIVERED", "LOST"):
            done.add(event.entry)
        else:
            states[event.entry] = event
    return [event for entry, event in states.items() if event.state in (*_NEXT, "COMMITTED") and entry not in done]


def _settlement(book: Book, reservation: Event, state: Event, known_gone: Collection[str]) -> dict[str, Any]:
    """Settle an entry in its last state if its process is gone; return what became of it."""
    entry = str(state.entry)
    process = "dead" if entry in known_gone else holder(reservation.facts["lease"])
    outcome: dict[str, Any] = {"entry": entry, "was": state.state, "now": state.state, "why": None}
    if process == "alive":
        return outcome | {"why": "a process works on it"}
    if process == "elsewhere":
        return outcome | {
            "why": "it was begun on another machine. Run discreet ledger recover there, or name the entry if it is gone"
        }
    try:
        if state.state == "COMMITTED":
            settlement = "DELIVERED" if deliver(entry, state.facts) else "LOST"
        else:
            forsake(entry, map(Path, reservation.facts["out"]))
            settlement = _NEXT[state.state]
    except OSError as problem:
        return outcome | {"why": str(problem)}
    with book.appending() as page:
        last = page.events(entry)[-1]
        if last.number != state.number and last.state != "NOTED":  # somebody else did something meanwhile
            return outcome | {"now": last.state}
        page.append(entry, settlement, facts={"recovered": True})
    return outcome | {"now": settlement}
