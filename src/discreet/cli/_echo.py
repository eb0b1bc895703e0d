"""Printing: whatever a file or a path held, a terminal shows it and does not obey it."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from discreet._core.text import harmless
from discreet.cli._remedies import in_options


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text of one or several lines, control characters in it as escapes."""
    click.echo(_shown(text, err=err), err=err, nl=nl, color=False)


def tell(text: str, *, err: bool = False) -> None:
    """Print what the library says, its arguments as options of the command that runs."""
    context = click.get_current_context(silent=True)
    echo(in_options(text, None if context is None else context.command), err=err)


def alarm(text: str, *, err: bool = False) -> None:
    """Print what has to be seen first: in red, where colours are shown."""
    click.secho(_shown(text, err=err), fg="red", bold=True, err=err)


def _shown(text: str, *, err: bool) -> str:
    encoding = (sys.stderr if err else sys.stdout).encoding or "ascii"
    return harmless(text, lines=True).encode(encoding, "backslashreplace").decode(encoding)


def show(document: dict[str, Any]) -> None:
    """Print a document as JSON; its own escapes leave no control character but DEL."""
    click.echo(json.dumps(document, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))
