"""After a failure: what becomes of the entries of processes that are gone. Nothing is ever run again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.writing import Move, break_promises, keep_folder, keep_promise
from discreet.ledger._book import Book, Page
from discreet.ledger._events import Event
from discreet.ledger._lease import holder

_NEXT = {"RESERVED": "VOID", "OPENED": "FORFEITED"}


def recovered(book: Book, known_gone: Collection[str]) -> list[dict[str, Any]]:
    """Settle every entry whose process is gone; return what became of each.

    ``known_gone``: entries of other machines that nobody works on.
    """
    with book.reading() as page:
        waiting = _waiting(page)
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
            after = "DELIVERED" if _delivered(event) else "LOST"
        else:
            break_promises([Path(one) for one in reserved.facts["out"]], entry)
            after = _NEXT[event.state]
    except FileProblem as problem:
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


def _delivered(event: Event) -> bool:
    """Give committed files their names, where they are at hand as they were; return whether they have them."""
    files, folder = event.facts["files"], event.facts.get("folder")
    if folder is not None:
        return keep_folder(Path(folder["path"]), folder["write"], folder["files"])
    if not files:
        return False  # handed over in memory, to a process that is gone
    return keep_promise([Move(Path(one["path"]), one["sha256"], one["replaces"], one["write"]) for one in files])
