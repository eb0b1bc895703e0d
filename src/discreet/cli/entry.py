"""Entry point: commands, exit statuses, and errors in one or two plain sentences."""

from __future__ import annotations

import gc
import sys
from typing import Any

import click

from discreet._core.boundary import explained
from discreet._core.text import harmless, lines_of, sentences_of
from discreet.cli.console import Commands, echo
from discreet.cli.ledger import ledger
from discreet.cli.release import calibrate, domain, plan, privacy, release
from discreet.cli.released import app, audit, compare, demo, describe, estimate, regress, report, unseen, verify
from discreet.cli.synthesize import synthesize

_ALLOCATED = 100_000  # objects between two looks for garbage: what is imported is none, and most of what there is


discreet = Commands(
    "discreet",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help="""Release differentially private synthetic data whose guarantee is exact, honest and checkable.

Exit status: 0 for success, 1 where verify or report found a disagreement, domain check a value that does not fit
or audit a claim that is rejected, 2 for bad input, 3 for a request that is infeasible or refused, 4 for a fault in
the program.
""",
)
click.version_option(package_name="discreet")(discreet)
_READERS = (verify, compare, report, describe, estimate, regress, unseen, demo, app)
for _command in (release, plan, privacy, calibrate, *_READERS, domain, ledger, audit, synthesize):
    discreet.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave the process with its exit status."""
    gc.set_threshold(_ALLOCATED)
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status; no traceback reaches the user."""
    try:
        result: Any = discreet.main(args=arguments, prog_name="discreet", standalone_mode=False)
    except BrokenPipeError:
        return 0
    except SystemExit as leaving:  # click answers a shell that completes a word so
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:  # noqa: BLE001  # said below, each in its own way
        return _status_of(error, arguments)
    return result if isinstance(result, int) else 0


def _status_of(error: BaseException, arguments: list[str] | None) -> int:
    """Say in one line what stopped the command, and return its exit status."""
    if isinstance(error, click.ClickException):
        return _complain(error.format_message(), getattr(error, "exit_status", 2))
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        text = "interrupted. No file was left half-written"
        return _complain(". ".join(filter(None, [text, getattr(error.__cause__ or error, "cost", "")])), 2)
    fault = explained(error, run, (arguments,), {})  # its text could quote a confidential value: only its kind is shown
    return _complain(str(fault), fault.exit_status)


def _complain(message: str, status: int) -> int:
    lines = sentences_of("discreet: " + harmless(message.replace("\n\t", " ")))
    echo("\n".join(lines_of(lines) if sys.stderr.isatty() else lines), err=True)
    return status
