"""The commands about ledgers."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from typing import Any

import click

import discreet
from discreet._core.text import counted, item_text, sentence
from discreet.cli.console import Commands, alarm, answer, echo, show
from discreet.cli.options import PATH, RELATIONS, command, option, planner, shared, unit_of
from discreet.cli.options import report as reports

ledger = Commands("ledger", help="Keep a ledger: all releases of a data set together stay within one budget.")


@command("file", group=ledger)
@option("--dataset", str, "Name of the data set, as you call it. Certificates will show it.", required=True)
@option("--epsilon", float, "Privacy budget of all releases together.", required=True)
@option("--delta", float, "Privacy budget of all releases together.", default=0.0)
@option("--currency", ["sums", "zcdp"], "How releases are added up: epsilons and deltas, or approximate "
        "zero-concentrated costs.", default="sums")  # fmt: skip
@option("--relation", RELATIONS, "Neighbouring relation of all guarantees.", default="replacement")
@shared("unit")
@option("--max-records", int, "Maximum number of records per privacy unit.")
@option("--kind kinds", ["unconditional", "asymptotic", "empirical"], "Kind of guarantee that may be added up. May be "
        "repeated.", multiple=True, default=["unconditional"])  # fmt: skip
def init(file: str, as_json: bool, **options: Any) -> None:
    """Make the ledger FILE of a data set: a file on a local disk, or the address of a PostgreSQL database."""
    status = discreet.Ledger.create(file, unit=unit_of(options), **options).status()
    answer(as_json, status.to_dict(), f"made {file}.", str(status))


def ledger_command(*paths: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function of an open ledger a command about the ledger FILE."""

    def build(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def opened(file: str, dataset: str | None, **options: Any) -> Any:
            return function(discreet.Ledger(file, dataset), **options)

        return command("file", *paths, group=ledger)(shared("dataset")(opened))

    return build


@ledger_command()
def status(book: discreet.Ledger, as_json: bool) -> None:
    """Say what is spent, what is left, and how many releases are in each state."""
    status = book.status()
    answer(as_json, status.to_dict(), str(status))


@ledger_command()
def log(book: discreet.Ledger, as_json: bool) -> None:
    """List all events, the oldest first."""
    events, lines = book.log(), []
    for event in events:
        facts = event["facts"]
        subject = facts.get("mechanism", {}).get("name") or " ".join(facts.get("out", ())) or facts.get("what") or ""
        cost = f"costs {event['cost']['loss']}, {event['cost']['delta']}" if event["entry"] else ""
        parts = (str(event["number"]), event["at"], event["entry"] or "-", event["state"], cost, subject)
        lines.append("  ".join(filter(None, parts)))
    answer(as_json, {"dataset": book.dataset, "events": events}, *lines)


@ledger_command("plan")
@shared("accept")
def declare(book: discreet.Ledger, plan: str, accept: tuple[str, ...], as_json: bool) -> None:
    """Pay at once for the releases of a PLAN that discreet plan --together wrote.

    Each is then made once, with release --part NAME, its own epsilon, delta, domain and size.
    """
    parts = planner.Together.read(plan)
    entry, status, lines = book.declare(parts, accept=accept), book.status(), []
    for part in parts.parts:
        request = part.request
        texts = [f"{name}={item_text(value)}" for name, value in request.parameters.items()]
        parameters = "".join(f" --param {shlex.quote(text)}" for text in texts)
        budget = " ".join(f"--{name} {shlex.quote(text)}" for name, text in planner.options_of(part.budget).items())
        head = f"--part {shlex.quote(part.name)} --records {request.relation.records} --mechanism {part.mechanism.name}"
        lines.append(f"{head}{parameters} {budget} --size {request.size}")
    document = {"entry": entry, "parts": [part.name for part in parts.parts], **status.to_dict()}
    answer(as_json, document, *lines, str(status))


@ledger_command("certificates...")
def verify(book: discreet.Ledger, certificates: tuple[str, ...], as_json: bool) -> int:
    """Recompute the ledger FILE: its chain, its sums and its budget. The exit status is 1 where anything is wrong.

    Give the CERTIFICATES of releases to detect a rollback, or the use of another copy.
    """
    problems = book.verify(certificates)
    notes = [] if certificates else ["rollback was not checked: give the certificates of the releases as well"]
    if as_json:
        show({"ok": not problems, "problems": problems, "rollback_checked": bool(certificates), "notes": notes})
        return int(bool(problems))
    for problem in problems:
        alarm(problem)
    if not problems:
        echo("The chain, the sums and the budget agree.")
        if certificates:
            echo(f"{counted(len(certificates), 'certificate')}: each release is in the ledger as it was committed.")
    for note in notes:
        echo(f"{sentence(note)}.")
    return int(bool(problems))


@ledger_command()
@option("--entry entries", str, "Entry to settle although this machine cannot tell that its process died.",
        multiple=True)  # fmt: skip
def recover(book: discreet.Ledger, entries: tuple[str, ...], as_json: bool) -> None:
    """Settle the entries left behind by processes that have died. Nothing is run again.

    What was only reserved is given back. What was opened stays spent. Committed files are moved to their final names.
    """
    settled = book.recover(entries)
    lines = [f"{entry['entry']}: {entry['why'] or _WORDS[entry['now']]}" for entry in settled]
    answer(as_json, {"entries": settled}, *(lines or ["Nothing was left behind."]))


@ledger_command("certificates...")
@option("--out", PATH, "File to write: .html. By default DATASET.ledger.html.")
def report(book: discreet.Ledger, certificates: tuple[str, ...], out: str | None, as_json: bool) -> int:
    """Write what is public of the ledger FILE as one HTML page: what is set aside and left, and every entry.

    That it was rolled back shows only with the CERTIFICATES of releases. The exit status is 1 where anything is wrong.
    """
    page = out or re.sub(r"[^\w-]", "-", book.dataset) + ".ledger.html"
    problems = reports.write_ledger_report(book, page, certificates=certificates)
    document = {"out": page, "ok": not problems, "problems": problems, "rollback_checked": bool(certificates)}
    answer(as_json, document, f"wrote {page}")
    if problems and not as_json:
        echo("Do not rely on this ledger. What is wrong is listed below, for you alone, and not on the page:", err=True)
        for problem in problems:
            alarm(problem, err=True)
    return int(bool(problems))


@ledger_command()
@option("--out", PATH, "File to write: .json or .csv.", required=True)
def export(book: discreet.Ledger, out: str, as_json: bool) -> None:
    """Write every entry of the ledger FILE for an oversight body, with the fields of the registry of deployments.

    It is public: it tells what was asked for and set aside, and never whether a release was completed, which the table
    may decide. It holds names of files and no folders, and neither machines nor processes.
    """
    from discreet.ledger import write_registry

    document = write_registry(book, out)
    entries, to_fill_in = len(document["entries"]), document["to_fill_in"]
    answer(
        as_json,
        {"out": out, "entries": entries, "to_fill_in": to_fill_in},
        f"wrote {counted(entries, 'entry', 'entries')} to {out}",
        f"to fill in, since no ledger knows it: {', '.join(to_fill_in)}",
    )


_WORDS = {
    "VOID": "it was only reserved. The reservation was given back",
    "FORFEITED": "its table was opened and nothing was released. It stays spent",
    "DELIVERED": "its files have their names. Nothing is left to do",
    "LOST": "its files are gone. It stays spent, and it cannot be drawn again",
    **dict.fromkeys(("COMMITTED", "RESERVED", "OPENED"), "another run settles it"),
}
