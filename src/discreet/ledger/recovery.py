"""After a failure: whose entries are settled, and what becomes of files that were committed. Nothing is run again."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from discreet._core.files import deliver, forsake
from discreet.ledger.events import Book, Event, Page

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
