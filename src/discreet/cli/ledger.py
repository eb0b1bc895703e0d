"""The commands about ledgers, and the options by which other commands are told of one."""

from __future__ import annotations

import shlex
from typing import Any

import click

from discreet._core.text import as_written, counted
from discreet.cli.console import Commands, alarm, echo, show
from discreet.cli.options import unit_of

json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
ledger_option = click.option(
    "--ledger",
    type=click.Path(),
    help="Ledger that pays for it. By default that of the domain's [ledger], else of DISCREET_LEDGER, else none.",
)
dataset_option = click.option("--dataset", help="Name of the data set in the ledger. Not needed where it has only one.")


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def ledger(context: click.Context) -> int:
    """Keep a ledger: all releases of a data set together stay within one budget."""
    from discreet.cli.commands import help_without_command

    return help_without_command(context)


@ledger.command("init")
@click.argument("file", type=click.Path())
@click.option("--dataset", required=True, help="Name of the data set, as you call it. Certificates will show it.")
@click.option("--epsilon", type=float, required=True, help="Privacy budget of all releases together.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="Privacy budget of all releases together.")
@click.option(
    "--currency",
    type=click.Choice(["sums", "zcdp"]),
    default="sums",
    show_default=True,
    help="How releases are added up: epsilons and deltas, or approximate zero-concentrated costs.",
)
@click.option(
    "--relation",
    type=click.Choice(["replacement", "add-remove"]),
    default="replacement",
    show_default=True,
    help="Neighbouring relation of all guarantees.",
)
@click.option("--unit", help="Column that names the person, or other privacy unit, behind the rows.")
@click.option("--max-records", type=int, help="Maximum number of records per privacy unit.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(["unconditional", "asymptotic", "empirical"]),
    multiple=True,
    default=["unconditional"],
    show_default=True,
    help="Kind of guarantee that may be added up. May be repeated.",
)
@json_option
def init(file: str, as_json: bool, **options: Any) -> None:
    """Make the ledger FILE of a data set: a file on a local disk, or the address of a PostgreSQL database."""
    from discreet.ledger import Ledger

    with Ledger.create(file, unit=unit_of(options), **options) as made:
        status = made.status()
    if as_json:
        show(status.to_dict())
        return
    echo(f"made {file}.")
    echo(str(status))


@ledger.command("status")
@click.argument("file", type=click.Path())
@dataset_option
@json_option
def status(file: str, dataset: str | None, as_json: bool) -> None:
    """Say what is spent, what is left, and how many releases are in each state."""
    from discreet.ledger import Ledger

    with Ledger(file, dataset) as opened:
        found = opened.status()
    show(found.to_dict()) if as_json else echo(str(found))


@ledger.command("log")
@click.argument("file", type=click.Path())
@dataset_option
@json_option
def log(file: str, dataset: str | None, as_json: bool) -> None:
    """List all events, the oldest first."""
    from discreet.ledger import Ledger

    with Ledger(file, dataset) as opened:
        events = opened.log()
    if as_json:
        show({"dataset": opened.dataset, "events": events})
        return
    for event in events:
        echo(_line(event))


def _line(event: dict[str, Any]) -> str:
    facts = event["facts"]
    about = facts.get("mechanism", {}).get("name") or " ".join(facts.get("out", ())) or facts.get("what") or ""
    cost = f"costs {event['cost']['loss']}, {event['cost']['delta']}" if event["entry"] else ""
    parts = (str(event["number"]), event["at"], event["entry"] or "-", event["state"], cost, about)
    return "  ".join(part for part in parts if part)


@ledger.command("declare")
@click.argument("file", type=click.Path())
@click.argument("plan", type=click.Path())
@dataset_option
@json_option
def declare(file: str, plan: str, dataset: str | None, as_json: bool) -> None:
    """Pay at once for the releases of a PLAN that discreet plan --together wrote.

    Each is then made once, with release --part NAME, its own epsilon, delta, domain and size.
    """
    from discreet.ledger import Ledger
    from discreet.planner.study import Together

    made = Together.read(plan)
    with Ledger(file, dataset) as opened:
        entry = opened.declare(made)
        found = opened.status()
    if as_json:
        show({"entry": entry, "parts": [part.name for part in made.parts], **found.to_dict()})
        return
    for part in made.parts:
        echo(_options(part))
    echo(str(found))


def _options(part: Any) -> str:
    """Return the options by which a release of a plan is made."""
    request = part.request
    given = "".join(f" --param {name}={value}" for name, value in request.parameters.items())
    budget = f"--epsilon {as_written(part.budget.epsilon)} --delta {as_written(part.budget.delta)}"
    named = f"--part {shlex.quote(part.name)} --records {request.declared} --mechanism {part.mechanism.name}{given}"
    return f"{named} {budget} --size {request.size}"


@ledger.command("verify")
@click.argument("file", type=click.Path())
@click.argument("certificates", type=click.Path(), nargs=-1)
@dataset_option
@json_option
def verify(file: str, certificates: tuple[str, ...], dataset: str | None, as_json: bool) -> int:
    """Recompute the ledger FILE: its chain, its sums and its budget. The exit status is 1 where anything is wrong.

    Give the CERTIFICATES of releases to detect a rollback, or the use of another copy.
    """
    from discreet.ledger import Ledger

    with Ledger(file, dataset) as opened:
        problems = opened.verify(certificates)
    unchecked = "rollback was not checked: give the certificates of the releases as well"
    if as_json:
        notes = [] if certificates else [unchecked]
        show({"ok": not problems, "problems": problems, "rollback_checked": bool(certificates), "notes": notes})
        return 1 if problems else 0
    for problem in problems:
        alarm(problem)
    if not problems:
        echo("The chain, the sums and the budget agree.")
        if certificates:
            echo(f"{counted(len(certificates), 'certificate')}: each release is in the ledger as it was committed.")
    if not certificates:
        echo(f"{unchecked[0].upper()}{unchecked[1:]}.")
    return 1 if problems else 0


@ledger.command("recover")
@click.argument("file", type=click.Path())
@click.option(
    "--entry", "entries", multiple=True, help="Entry to settle although this machine cannot tell that its process died."
)
@dataset_option
@json_option
def recover(file: str, entries: tuple[str, ...], dataset: str | None, as_json: bool) -> None:
    """Settle the entries left behind by processes that have died. Nothing is run again.

    What was only reserved is given back. What was opened stays spent. Committed files are moved to their final names.
    """
    from discreet.ledger import Ledger

    with Ledger(file, dataset) as opened:
        settled = opened.recover(entries)
    if as_json:
        show({"entries": settled})
        return
    if not settled:
        echo("Nothing was left behind.")
    for one in settled:
        echo(f"{one['entry']}: {_WORDS[one['now']]}" if one["why"] is None else f"{one['entry']}: {one['why']}")


@ledger.command("report")
@click.argument("file", type=click.Path())
@click.argument("certificates", type=click.Path(), nargs=-1)
@click.option("--out", type=click.Path(), help="File to write: .html. By default DATASET.ledger.html.")
@dataset_option
@json_option
def report(file: str, certificates: tuple[str, ...], out: str | None, dataset: str | None, as_json: bool) -> int:
    """Write what the ledger FILE says as one HTML page: what is spent and left, what that means, and every release.

    That it was rolled back shows only with the CERTIFICATES of releases. The exit status is 1 where anything is wrong.
    """
    from discreet.ledger import Ledger
    from discreet.report.ledger_page import write_ledger_report

    with Ledger(file, dataset) as opened:
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in opened.dataset)
    page = out or f"{name}.ledger.html"
    problems = write_ledger_report(file, page, dataset=dataset, certificates=certificates)
    if as_json:
        show({"out": page, "ok": not problems, "problems": problems, "rollback_checked": bool(certificates)})
        return 1 if problems else 0
    echo(f"wrote {page}")
    if problems:
        echo(f"{counted(len(problems), 'problem')}: do not rely on this ledger. The page names them.", err=True)
    return 1 if problems else 0


@ledger.command("export")
@click.argument("file", type=click.Path())
@click.option("--out", type=click.Path(), required=True, help="File to write: .json or .csv.")
@dataset_option
@json_option
def export(file: str, out: str, dataset: str | None, as_json: bool) -> None:
    """Write every entry of the ledger FILE for an oversight body, with the fields of the registry of deployments.

    It is public: it holds names of files and no folders, and neither machines nor processes.
    """
    from discreet.ledger.export import TO_FILL_IN, write_registry

    entries = write_registry(file, out, dataset=dataset)
    if as_json:
        show({"out": out, "entries": entries, "to_fill_in": list(TO_FILL_IN)})
        return
    echo(f"wrote {counted(entries, 'entry', 'entries')} to {out}")
    echo(f"to fill in, since no ledger knows it: {', '.join(TO_FILL_IN)}")


_WORDS = {
    "VOID": "it was only reserved. The reservation was given back",
    "FORFEITED": "its table was opened and nothing was released. It stays spent",
    "DELIVERED": "its files have their names. Nothing is left to do",
    "LOST": "its files are gone. It stays spent, and it cannot be drawn again",
    "COMMITTED": "another run settles it",
    "RESERVED": "another run settles it",
    "OPENED": "another run settles it",
}
