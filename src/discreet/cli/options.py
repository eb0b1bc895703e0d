"""Parameters of mechanisms on the command line: ``--param KEY=VALUE``, as often as there are any."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import click

from discreet._core.errors import ParameterError

if TYPE_CHECKING:
    from discreet.privacy import Unit


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
    from discreet.mechanisms import known_parameters

    known = known_parameters() if pairs else []  # asking loads every mechanism
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


# How DATA is to be read, as options: of CSV files that are written in another way, and of tables in databases.

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--separator", metavar="CHARACTER", help="Between the fields of DATA, where it is CSV. Such as ';' or '\\t'."
    ),
    click.option("--encoding", metavar="NAME", help="Of DATA, where it is CSV and not UTF-8. Such as latin-1."),
    click.option("--decimal-comma", is_flag=True, help="Numbers of DATA, which is CSV, are written as 0,5."),
    click.option("--table", metavar="NAME", help="The table of DATA, where it is a database: a file or an address."),
    click.option("--query", metavar="SQL", help="A query for the table, where DATA is a database."),
)


def source_options(command: _F) -> _F:
    """Give a command the options that say how its DATA is to be read."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def located(data: str, options: dict[str, Any]) -> str | PathLike[str]:
    """Return where a table is, and how it is to be read; takes the options out of those of a command.

    Raises ParameterError when they do not fit the kind of file.
    """
    table, query = options.pop("table"), options.pop("query")
    separator, encoding, comma = (options.pop(name) for name in ("separator", "encoding", "decimal_comma"))
    if table is not None or query is not None:
        from discreet.confidential.database import addressed

        data = addressed(data, table=table, query=query)
    if separator is None and encoding is None and not comma:
        return data
    from discreet._core.formats import DelimitedFile

    return DelimitedFile(data, character(separator), encoding or "utf-8", comma)


def character(separator: str | None) -> str | None:
    """Return a separator; a tab may be written as in a program."""
    return "\t" if separator == "\\t" else separator


# Options that are one value in Python; each function takes its own out of those of a command.


def unit_of(options: dict[str, Any]) -> Unit | None:
    """Return the privacy unit. Raises ParameterError when one of its two options is given without the other."""
    from discreet.privacy import Unit

    column, most = options.pop("unit"), options.pop("max_records")
    if (column is None) != (most is None):
        missing = ("--unit ..., the column that names it", "--max-records ..., an integer of at least 1")[most is None]
        raise ParameterError(f"a privacy unit needs its column and the most records that it may have. Write {missing}")
    return None if column is None else Unit(column, max_records=most)


def accepted(options: dict[str, Any]) -> set[str]:
    """Return what the flags of a command accept."""
    flags = {"ignore_other_columns": "other-columns", "accept_poor_utility": "poor-utility"}
    return {code for flag, code in flags.items() if options.pop(flag, False)}
