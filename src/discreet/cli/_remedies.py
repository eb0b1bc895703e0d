"""Remedies in the language of the command.

A message names arguments as Python's users write them: ``size=...``, ``ignore_other_columns=True``. Where it is shown
by a command, each becomes the option of that command.
"""

from __future__ import annotations

import re

import click

ARGUMENT = re.compile(
    r"(?<![\w.'\"=-])(?P<name>[a-z]\w*)=(?P<value>\.\.\.|True|\{'[a-z-]+'\}|'[a-z-]+'|[A-Z]\w*\([^()]*\))"
)
"""An argument as messages write it, with its value or with ``...`` for one of the user's own."""

_SEVERAL = {
    "relation=AddRemove(records=...)": "--relation add-remove --records ...",
    "checkpoint=Checkpoint(..., redraw=True)": "--checkpoint ... --redraw",
    "convergence=Convergence(...)": "--max-r-hat, --min-effective or --max-divergent",
}


def in_options(text: str, command: click.Command | None) -> str:
    """Return a message with its arguments as options of a command; what the command lacks stays, as Python's.

    ``text``: a message of the library.
    ``command``: the command that shows it.
    """
    own = set() if command is None else {option for parameter in command.params for option in parameter.opts}
    return ARGUMENT.sub(lambda found: _option(found, own), text)


def _option(found: re.Match[str], own: set[str]) -> str:
    name, value = found["name"], found["value"]
    written = _SEVERAL.get(found[0]) or _one(name, value)
    if set(re.findall(r"--[\w-]+", written)) <= own:
        return written
    if "--param" in own and name in _parameters():
        return f"--param {name}={value.strip(chr(39))}"
    return f"{found[0]} (in Python)"


def _one(name: str, value: str) -> str:
    option = f"--{name.replace('_', '-')}"
    if value == "True":
        return option
    if value.startswith("{"):
        return f"{option}-{value[2:-2]}"
    return f"{option} {value.strip(chr(39))}"


def _parameters() -> list[str]:
    from discreet.planner._stated import parameter_names

    return parameter_names()
