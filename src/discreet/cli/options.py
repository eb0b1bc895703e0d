"""The options of commands: one table of those that several commands have, and the values of Python that they become."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import discreet
from discreet._core.errors import ParameterError
from discreet._core.lazy import Lazy
from discreet._core.text import comma_items

if TYPE_CHECKING:
    from discreet import audit, confidential, inference, mechanisms, planner, pseudo_posterior, releases, report
    from discreet._core import formats
else:  # each is loaded when a command first uses something of it
    _PACKAGES = "audit confidential inference mechanisms planner pseudo_posterior releases report _core.formats"
    audit, confidential, inference, mechanisms, planner, pseudo_posterior, releases, report, formats = (
        Lazy(f"discreet.{name}") for name in _PACKAGES.split()
    )

_F = TypeVar("_F", bound=Callable[..., Any])
PATH = click.Path()
RELATIONS = ["replacement", "add-remove"]


def option(names: str, kind: Any, text: str, **settings: Any) -> Callable[[_F], _F]:
    """Return a click option of a type, bool for a flag, or a list of the texts to choose from; a default is shown."""
    if kind is bool:
        settings["is_flag"] = True
    else:
        settings["type"] = click.Choice(kind) if isinstance(kind, list) else kind
    return click.option(*names.split(), help=text, show_default="default" in settings or None, **settings)


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


_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Write JSON to standard output.")


def command(*paths: str, group: click.Group | None = None, **facts: Any) -> Callable[..., click.Command]:
    """Make a function a command, its arguments paths, ``--json`` its last option; a path with ``...`` takes several."""

    def build(function: Callable[..., Any]) -> click.Command:
        result: click.Command = click.command(**facts)(function)
        arguments = [click.Argument([p.rstrip(".")], type=PATH, nargs=-1 if p.endswith("...") else 1) for p in paths]
        result.params = [*arguments, *result.params, _JSON]
        if group is not None:
            group.add_command(result)
        return result

    return build


_TABLE: dict[str, Callable[[Any], Any]] = {
    # How DATA is to be read: a CSV file that is written in another way, or a table in a database.
    "separator": option("--separator", str, "Between the fields of DATA, where it is CSV. Such as ';' or '\\t'.",
                        metavar="CHARACTER"),
    "encoding": option("--encoding", str, "Of DATA, where neither UTF-8 nor stated. Such as latin-1.",
                       metavar="NAME"),
    "decimal-comma": option("--decimal-comma", bool, "Numbers of DATA, which is CSV, are written as 0,5."),
    "sheet": option("--sheet", str, "The sheet of DATA, where it is an Excel file with several.", metavar="NAME"),
    "table": option("--table", str, "The table of DATA, where it is a database: a file or an address. Several as "
                    "NAME=FILE: the tables of a domain with units, where FILE is in the folder DATA.", metavar="NAME",
                    multiple=True),
    "query": option("--query", str, "A query for the table, where DATA is a database.", metavar="SQL"),
    # What a request says.
    "domain": option("--domain domain_file", PATH, "TOML file of the public facts.", required=True),
    "domain or cells": option("--domain domain_file", PATH, "TOML file of the public facts. Without one, the mechanism "
                              "is taken for one column of --param cells=..."),
    "records": option("--records", int, "Number of records that the confidential table holds. Public.", required=True),
    "epsilon": option("--epsilon", float, "Privacy budget, at most 100."),
    "delta": option("--delta", float, "Privacy budget: how much probability may escape the bound by epsilon. 0 asks "
                    "for pure differential privacy.", default=0.0),
    "risk": option("--risk", str, "In place of --epsilon: '5 % at 1 %', where the best attacker who raises 1 % false "
                   "alarms is to detect at most 5 % of true cases.", metavar="TEXT"),
    "advantage": option("--advantage", str, "In place of --epsilon: how much more often an attacker may detect "
                        "than raise a false alarm.",
                        metavar="SHARE"),
    "success": option("--success", str, "In place of --epsilon: how often an attacker may be right.",
                      metavar="SHARE"),
    "prior": option("--prior", str, "With --success: how likely a suspicion was beforehand. By default 0.5.",
                    metavar="SHARE"),
    "relation": option("--relation", RELATIONS, "Between which tables the guarantee holds. Only marginals and "
                       "private-evolution have add-remove.", default="replacement"),
    "unit": option("--unit", str, "Column that names the person, or other privacy unit, behind the rows."),
    "param": option("--param pairs", key_value, "A parameter of the mechanism. May be repeated.", metavar="KEY=VALUE",
                    multiple=True),
    "outcome": option("--outcome", str, "Column that the others are to predict, in place of those that the domain "
                      "declares. May be repeated.", multiple=True, callback=lambda _, __, names: names or None),
    "sampling": option("--sampling", ["iid", "stratified"], "How records are drawn from noisy counts: stratified (the "
                       "default), with less error, or independently (iid)."),
    "reference": option("--reference", PATH, "A PUBLIC table that the confidential one is expected to look like. "
                        "Improves the predictions."),
    "ignore-other-columns": option("--ignore-other-columns", bool, "Leave out columns that the domain does not name."),
    "ledger": option("--ledger", PATH, "Ledger that pays for it. By default that of the domain's [ledger], else of "
                     "DISCREET_LEDGER, else none."),
    "dataset": option("--dataset", str, "Name of the data set in the ledger. Not needed where it has only one."),
    "accept": option("--accept", ["data-dependent-refusal"], "With a ledger: accept that a value that does not fit the "
                     "domain forfeits what was paid.", multiple=True),
    "accept-weak-promise": option("--accept-weak-promise", bool, "Accept an epsilon above 10, or a delta above one in "
                                  "the number of records."),
    # Of what was released.
    "certificate": option("--certificate", PATH, "Its certificate. By default RELEASED with .certificate.json."),
    "level": option("--level", float, "Probability of the intervals.", default=0.95),
    "known": option("--known", comma_items, "Columns known of a record, such as age,region. By default all but "
                    "--sensitive.", metavar="TEXT"),
}  # fmt: skip
"""The options that several commands have, and those that say what a field of a request says."""

SOURCE = ("separator", "encoding", "decimal-comma", "sheet", "table", "query")
LEDGER = ("ledger", "dataset")
BUDGET = ("epsilon", "delta", "risk", "advantage", "success", "prior")


def shared(*names: str) -> Callable[[_F], _F]:
    """Give a command options of the table, in this order."""

    def apply(function: _F) -> _F:
        for name in reversed(names):
            function = _TABLE[name](function)
        return function

    return apply


# What options come to in Python; each function takes its own out of those of a command.


def parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return ``--param`` by its keys. Raises ParameterError when no mechanism has one, or one is given twice."""
    values: dict[str, Any] = {}
    for key, value in options.pop("pairs"):
        if key not in (names := mechanisms.known_parameters()):  # asking loads every mechanism
            raise ParameterError(f"no mechanism has a parameter {key!r}. There are: {', '.join(names)}")
        if key in values:
            raise ParameterError(f"the parameter {key!r} is given twice. Give it once")
        values[key] = value
    return values


def located(data: str, options: dict[str, Any]) -> Any:
    """Return where a table is, or each of several, and how it is to be read."""
    # Raises ParameterError when that does not fit the file.
    reading = {name: options.pop(name) for name in [name.replace("-", "_") for name in SOURCE]}
    separator, encoding, comma, sheet, tables, query = reading.values()
    if files := dict(table.split("=", 1) for table in tables if "=" in table):
        return {name: located(str(Path(data) / file), {**reading, "table": ()}) for name, file in files.items()}
    table = next(iter(tables), None)
    if table is not None or query is not None:
        data = confidential.addressed(data, table=table, query=query)
    if separator is None and encoding is None and sheet is None and not comma:
        return data
    return formats.DelimitedFile(data, _character(separator), encoding, comma, sheet)


def _character(separator: str | None) -> str | None:
    """Return a separator; a tab may be written as in a program."""
    return "\t" if separator == "\\t" else separator


def budget_of(options: dict[str, Any]) -> Any:
    """Return the privacy budget, or what an attacker may reach. Raises ParameterError unless one of them is given."""
    values = {name: options.pop(name) for name in BUDGET}
    delta = values.pop("delta")
    shares = {name: _fractions(value) for name, value in values.items() if value is not None}
    match (*shares, delta != 0.0), [*shares.values()]:
        case ("epsilon", _), _:
            return discreet.Budget(epsilon=values["epsilon"], delta=delta)
        case ("risk", False), [[detection, alarms]]:
            return discreet.Risk(detection=detection, false_alarms=alarms)
        case ("advantage", False), [[advantage]]:
            return discreet.Advantage(advantage)
        case ("success", False), [[success]]:
            return discreet.Success(success)
        case ("success", "prior", False), [[success], [prior]]:
            return discreet.Success(success, prior=prior)
    raise ParameterError(
        "the budget is what the release may spend. Write --epsilon, with --delta if need be, --risk '5 % at 1 %', "
        "--advantage 0.1, or --success 0.6 with --prior if need be, and nothing else of these"
    )


def _fractions(value: Any) -> list[float]:
    """Return shares that are written as 0.05 or as 5 %, with "at" between two; none where one is neither."""
    parts = [part.strip() for part in str(value).split("at")]
    try:
        return [float(Fraction(part.rstrip("% ")) / (100 if part.endswith("%") else 1)) for part in parts]
    except (ValueError, ZeroDivisionError):
        return []


def relation_of(options: dict[str, Any]) -> discreet.Replacement | discreet.AddRemove:
    """Return the relation. Raises ParameterError when one needs a number of records that is not declared."""
    relation, records = options.pop("relation"), options.pop("records")
    if relation == "replacement":
        return discreet.Replacement(records=records)
    if records is None:
        raise ParameterError("--relation add-remove needs a number of records declared in public. Write --records ...")
    return discreet.AddRemove(records=records)


def unit_of(options: dict[str, Any]) -> discreet.Unit | None:
    """Return the privacy unit. Raises ParameterError when one of its two options is given without the other."""
    column, most = options.pop("unit"), options.pop("max_records")
    if (column is None) != (most is None):
        missing = "--unit ..., the column that names it"
        if most is None:
            missing = "--max-records ..., an integer of at least 1"
        raise ParameterError(f"a privacy unit needs its column and the most records that it may have. Write {missing}")
    return None if column is None else discreet.Unit(column, max_records=most)


def output_of(options: dict[str, Any]) -> discreet.Output:
    """Return the files to write. Raises ParameterError when they contradict one another."""
    path, separator = options.pop("out"), options.pop("out_separator")
    checkpoint, redraw = options.pop("checkpoint"), options.pop("redraw")
    if redraw and checkpoint is None:
        raise ParameterError("--redraw draws from the votes that a checkpoint holds. Name it with --checkpoint")
    return discreet.Output(
        path if separator is None else formats.DelimitedFile(path, _character(separator)),
        checkpoint=None if checkpoint is None else discreet.Checkpoint(checkpoint, redraw=redraw),
        **{name: options.pop(name) for name in ("certificate", "partitions", "partition_by", "workers")},
        format=options.pop("out_format"),
    )


def ledger_of(options: dict[str, Any], domain_file: str | None) -> Any:
    """Return the ledger that pays, or its part of a plan; None where nothing is paid."""
    from discreet.ledger import ledger_for

    ledger = ledger_for(options.pop("ledger"), domain_file, dataset=options.pop("dataset"))
    part = options.pop("part", None)
    if part is None:
        return ledger
    if ledger is None:
        raise ParameterError("a part of a plan is released with the ledger that it was declared in. Write ledger=...")
    return ledger.part(part)


def accepted(options: dict[str, Any]) -> set[str]:
    """Return what the flags of a command accept."""
    flags = {"ignore_other_columns": "other-columns"}
    flags |= {f"accept_{code.replace('-', '_')}": code for code in ("poor-utility", "weak-promise")}
    return {code for flag, code in flags.items() if options.pop(flag, False)} | {*options.pop("accept", ())}
