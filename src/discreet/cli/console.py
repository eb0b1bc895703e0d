"""What the command prints, and how: results, errors with their remedies, progress."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from contextlib import contextmanager, suppress
from typing import Any

import click

from discreet._core.errors import DiscreetError
from discreet._core.text import escape, harmless

# A message names arguments as Python's users write them: ``size=...``, ``unit=Unit(...)``. Where it is shown by a
# command, each becomes the option of that command.

ARGUMENT = re.compile(
    r"(?<![\w.'\"=-])(?P<name>[a-z]\w*)="
    r"(?P<value>\.\.\.|True|\{'[a-z-]+'\}|'[a-z-]+'|[A-Z]\w*\((?:[^()]|\([^()]*\))*\))"
)
"""An argument as messages write it, with its value or with ``...`` for one of the user's own."""

_SEVERAL = {
    "relation=AddRemove(records=...)": "--relation add-remove --records ...",
    "relation=Replacement(records=...)": "--records ...",
    "unit=Unit(..., max_records=...)": "--unit ... --max-records ...",
    "accept={'other-columns'}": "--ignore-other-columns",
    "accept={'data-dependent-refusal'}": "--accept data-dependent-refusal",
    "out=Output(checkpoint=Checkpoint(..., redraw=True))": "--checkpoint ... --redraw",
    "out=Output(..., partitions=...)": "--partitions ...",
    "out=Output(..., certificate=...)": "--certificate ...",
    "convergence=Convergence(...)": "--max-r-hat, --min-effective or --max-divergent",
}


def in_options(text: str, command: click.Command | None) -> str:
    """Return a message with its arguments as options of the command that shows it; what it lacks stays, as Python's."""
    options = {option for parameter in getattr(command, "params", ()) for option in parameter.opts}
    return ARGUMENT.sub(lambda match: _as_option(match, options), text)


def _as_option(match: re.Match[str], options: set[str]) -> str:
    name, value = match["name"], match["value"].strip("'")
    option = f"--{name.replace('_', '-')}"
    if value.startswith("{"):
        option += f"-{value[2:-2]}"
    elif value != "True":
        option += f" {value}"
    option = _SEVERAL.get(match[0], option)
    if set(re.findall(r"--[\w-]+", option)) <= options:
        return option
    if "--param" in options:
        from discreet.mechanisms import known_parameters

        if name in known_parameters():
            return f"--param {name}={value}"
    return f"{match[0]} (in Python)"


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text of one or several lines, control characters in it as escapes."""
    click.echo(_shown(text, err=err), err=err, nl=nl, color=False)


def tell(text: str, *, err: bool = False) -> None:
    """Print what the library says, its arguments as options of the command that runs."""
    context = click.get_current_context(silent=True)
    echo(in_options(text, getattr(context, "command", None)), err=err)


def alarm(text: str, *, err: bool = False) -> None:
    """Print what has to be seen first: in red, where colours are shown."""
    click.secho(_shown(text, err=err), fg="red", bold=True, err=err)


def _shown(text: str, *, err: bool) -> str:
    encoding = (sys.stderr if err else sys.stdout).encoding or "ascii"
    return "".join(c if c.encode(encoding, "ignore") else escape(c) for c in harmless(text, lines=True))


def show(document: dict[str, Any]) -> None:
    """Print a document as JSON; its own escapes leave no control character but DEL."""
    click.echo(json.dumps(document, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def answer(as_json: bool, document: dict[str, Any], *texts: str) -> None:
    """Print a document where JSON is asked for, otherwise texts."""
    if as_json:
        show(document)
        return
    for text in texts:
        echo(text)


class Complaint(click.ClickException):
    """An error of the library, told in the language of the command that met it."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


@click.pass_context
def _help_alone(context: click.Context) -> int:
    """Show what commands there are where none was given: click's own answer to that depends on its version."""
    if context.invoked_subcommand is not None:
        return 0
    echo(context.get_help(), err=True)
    return 2


class Commands(click.Group):
    """A group of commands; errors of the library leave it with their arguments as options."""

    def __init__(self, name: str, **facts: Any) -> None:
        super().__init__(name, callback=_help_alone, invoke_without_command=True, **facts)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except DiscreetError as error:
            command = self.commands.get(ctx.invoked_subcommand or "")
            raise Complaint(in_options(str(error), command), error.exit_status) from None


@contextmanager
def progress_bar(total: int | None, quiet: bool, parts: str | None = None, *, after: float = 0.0) -> Any:
    """Give a callback that draws a progress bar on a terminal, of records, or of parts where their number is given."""
    # Drawing starts after some seconds. The counts it shows are public, but for chains: how often and how long they are
    # run depends on the data, and is visible only to the custodian running it.
    if total is not None and os.environ.get("DISCREET_PROGRESS") == "lines":  # for a program that reads them

        def tell_progress(done: int, of: int | None = None) -> None:
            with suppress(OSError):  # that nobody listens stops no release
                print(f"progress {done} {of or total}", file=sys.stderr, flush=True)  # noqa: T201

        yield tell_progress
        return
    if quiet or total is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True)
    clock = threading.Timer(after, bar.start)  # whether or not anything was told by then
    try:
        (clock if after > 0.0 else bar).start()
        task = bar.add_task(parts or "records", total=total)

        def update(done: int, of: int | None = None) -> None:
            if done < bar.tasks[0].completed:  # the next fit: its remaining time is its own
                bar.reset(task)
            bar.update(task, completed=done, total=of or total, description=(parts or "steps") if of else "records")

        yield update
    finally:
        clock.cancel()
        try:
            if after > 0.0:
                clock.join()
        finally:
            bar.stop()
