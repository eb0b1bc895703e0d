"""Parameters of mechanisms on the command line: ``--param KEY=VALUE``, as often as there are any."""

from __future__ import annotations

from typing import Any

import click

from discreet._core.errors import ParameterError


def key_value(pair: str) -> tuple[str, Any]:
    """Return the key and the value of a pair; numbers are numbers."""
    key, sign, text = pair.partition("=")
    if not sign or not key:
        raise click.BadParameter(f"it must be KEY=VALUE, got {pair!r}")
    for kind in (int, float):
        try:
            return key.strip(), kind(text)
        except ValueError:
            continue
    return key.strip(), text.strip()


def parameters(pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return pairs by their keys. Raises ParameterError when no mechanism has one of them, or one is given twice."""
    from discreet.planner._stated import parameter_names

    known = parameter_names() if pairs else []  # asking loads every mechanism
    for key, _ in pairs:
        if key not in known:
            raise ParameterError(f"no mechanism has a parameter {key!r}. There are: {', '.join(known)}")
    return once(pairs)


def once(pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return pairs by their keys. Raises ParameterError when one is given twice."""
    given: dict[str, Any] = {}
    for key, value in pairs:
        if key in given:
            raise ParameterError(f"the parameter {key!r} is given twice. Give it once")
        given[key] = value
    return given


param_option = click.option(
    "--param",
    "pairs",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help="A parameter of the mechanism. May be repeated.",
)
