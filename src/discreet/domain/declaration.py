"""Declarations of domains: from plain data and TOML to columns, and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Mapping
from dataclasses import fields
from decimal import Decimal as Exact
from math import isfinite
from typing import Any

from discreet._core.errors import DomainError, MissingPublicFact, integer, plain, real, shown, unfit
from discreet._core.reading import MOST_CELLS
from discreet._core.text import listed, with_article
from discreet.domain.column import Column
from discreet.domain.texts import KINDS, PublicFact, column_type, encodable, toml_value

# What is declared beside the columns, as plain values: the forms that TOML, JSON and Python have in common.

_MOST = 10**10  # records
_MOST_OUTCOMES, _OUTCOME = 3, 'outcome = "income"'
_LONGEST = 500  # characters of a source


class Frozen(dict[str, Any]):
    """A dictionary that refuses changes."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise DomainError("a domain cannot be changed. Build another")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> Any:
        return (Frozen, (dict(self),))


def frozen(plain: Any) -> Any:
    """Return lists as tuples, and dictionaries that cannot be changed."""
    if isinstance(plain, dict):
        return Frozen({key: frozen(value) for key, value in plain.items()})
    return tuple(map(frozen, plain)) if isinstance(plain, list) else plain


def plain_entries(table: str, entries: Any) -> list[dict[str, Any]]:
    """Return the entries of a list of tables, a key of :data:`DECLARED`, as plain values."""
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in entries):
        raise DomainError(f"{table} must be a list of tables. Write [[{table}]] above each")
    plain_values = []
    for number, entry in enumerate(entries, start=1):
        try:
            plain_values.append(DECLARED[table](entry))
        except DomainError as problem:
            raise DomainError(f"[[{table}]] number {number}: {problem}") from None
    return plain_values


def plain_outcome(outcome: Any, columns: Container[str]) -> tuple[str, ...]:
    """Return the columns that are an outcome. Raises DomainError when they are none of these, or more than three."""
    names = (outcome,) if isinstance(outcome, str) else outcome
    if not isinstance(names, (list, tuple)) or len(names) > _MOST_OUTCOMES or len(set(map(repr, names))) != len(names):
        form = f"a column or up to {_MOST_OUTCOMES} different columns, such as {_OUTCOME}"
        raise unfit("outcome", form, outcome, error=DomainError)
    for name in names:
        if not isinstance(name, str) or name not in columns:
            raise DomainError(f"outcome names {shown(name)}, which is not a column of the domain")
    return tuple(map(str, names))


def plain_weights(weights: Mapping[str, Any], columns: Container[str]) -> dict[str, float]:
    """Return the weights of columns. Raises DomainError when one is of none of these, or is no weight."""
    for name in weights:
        if name not in columns:
            raise DomainError(f"metric_weights names {name!r}, which is not a column of the domain")
    return {
        str(name): real(f"the metric weight of column {name!r}", weight, least=0, error=DomainError)
        for name, weight in weights.items()
    }


def plain_difference(entry: Any, columns: Container[str]) -> dict[str, Any]:
    """Return a difference of two columns as plain values. Raises DomainError when it is none of these columns."""
    if not isinstance(entry, Mapping) or set(entry) != {"of", "from", "lower", "upper"}:
        form = 'a table {of = "b", from = "a", lower = -90, upper = 300}'
        raise unfit("difference", form, entry, error=DomainError)
    for name, earlier in ((entry["of"], ""), (entry["from"], entry["of"])):
        if not isinstance(name, str) or name not in columns or name == earlier:
            raise DomainError(f"difference names {shown(name)}, which is not another column of the domain")
    for bound in ("lower", "upper"):
        real(f"{bound} of difference", entry[bound], error=DomainError)
    return {key: plain(value) for key, value in entry.items()}


def plain_condition(condition: Any) -> Any:
    """Return a condition with its dates, durations and decimals as texts, which is how it is kept."""
    if isinstance(condition, Mapping):
        odd = [key for key in condition if key not in ("from", "below", "null")]
        if odd or not condition:
            got = "".join(f", got {shown(key)}" for key in odd[:1])
            raise DomainError(
                f"a range must have some of the keys from, below and null{got}. Write {{from = 15}}, {{below = 15}}, "
                "{from = 15, below = 65} or {null = true}"
            )
        return {plain(key): _plain_value(value) for key, value in condition.items()}
    if isinstance(condition, (list, tuple)):
        return [_plain_value(value) for value in condition]
    return _plain_value(condition)


def _plain_value(value: Any) -> Any:
    """Return a value as TOML and JSON have it."""
    value = plain(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, (dt.time, dt.timedelta, Exact)):
        return toml_value(value)
    if isinstance(value, str) and not encodable(value):
        raise DomainError("a value is not valid Unicode text")
    if isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    raise unfit("a value", "a text, a number, a truth value or a date", value, error=DomainError)


def _impossible(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``impossible`` as plain values. Raises DomainError when it is not one."""
    if not entry:
        raise DomainError("it must name at least one column")
    return {_text(name): plain_condition(condition) for name, condition in entry.items()}


def _implies(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``implies`` as plain values. Raises DomainError when it is not one."""
    if set(entry) != {"columns", "determine", "table"}:
        raise DomainError("it must have the keys columns, determine and table, and no others")
    names, table = entry["columns"], entry["table"]
    if not isinstance(names, (list, tuple)) or not names:
        raise DomainError('columns must be a list of at least one column, such as ["city"]')
    columns, determined = [_text(name) for name in names], _text(entry["determine"])
    if len({*columns, determined}) != len(columns) + 1:
        raise DomainError("columns and determine must name different columns")
    if isinstance(table, Mapping):
        if len(columns) != 1:
            raise DomainError("table must be a list of rows where several columns determine one")
        rows: Any = {_text(label): plain_condition(condition) for label, condition in table.items()}
    elif isinstance(table, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in table):
        if any(len(row) != len(columns) + 1 for row in table):
            raise DomainError("a row of table must have one condition per column, and one on the column determined")
        rows = [[plain_condition(part) for part in row] for row in table]
    else:
        raise DomainError('table must be {label = "label"}, or a list of rows such as [["Lyon", "ARA"]]')
    if not rows:
        raise DomainError("table must have at least one row")
    return {"columns": columns, "determine": determined, "table": rows}


def _text(name: Any) -> str:
    """Return the name of a column, or the label that a table has as a key. Raises DomainError when it is no text."""
    if not isinstance(name, str):
        where, remedy = "a column, or a label in front of =,", "Write other values in rows"
        raise unfit(where, "a text", name, remedy=remedy, error=DomainError)
    if not encodable(name):
        raise DomainError("a name is not valid Unicode text")
    return str(plain(name))


def _totals(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``totals`` as plain values. Raises DomainError when it is not one."""
    if set(entry) not in ({"source", "count"}, {"column", "source", "counts"}):
        raise DomainError("it must have the keys column, source and counts, or for the whole table source and count")
    source = entry["source"]
    if not isinstance(source, str) or not source.strip() or len(source) > _LONGEST or not encodable(source):
        form = f"a text of 1 to {_LONGEST} characters that says where it was published"
        raise unfit("source", form, source, error=DomainError)
    if "count" in entry:
        return {"source": plain(source), "count": _parsed_count(entry["count"])}
    if not isinstance(entry["column"], str):
        raise DomainError("the name of a column must be a text")
    return {"column": plain(entry["column"]), "source": plain(source), "counts": _plain_counts(entry["counts"])}


def _plain_counts(counts: Any) -> dict[str, int] | list[list[Any]]:
    if isinstance(counts, Mapping):
        return {_text(label): _parsed_count(count) for label, count in counts.items()}
    rows = listed(counts)
    if not all(isinstance(row, (list, tuple)) and len(row) == 2 for row in rows):
        raise DomainError("counts must be {label = count}, or a list of rows such as [[{below = 15}, 1200]]")
    return [[plain_condition(condition), _parsed_count(count)] for condition, count in rows]


def _parsed_count(count: Any) -> int:
    return integer("a count", count, least=0, most=_MOST, error=DomainError)


DECLARED = {"impossible": _impossible, "possible": _impossible, "implies": _implies, "totals": _totals}
"""Tables of a domain beside its columns, and what reads an entry of each."""

RULES = (*DECLARED, "order", "at_most", "nulls_together", "determines")
"""All that a domain declares of its records besides columns, weights and outcome."""


def plain_rules(name: str, names: Any) -> list[list[str]]:
    """Return sets of columns that a rule is about, those of ``determines`` two, given one or several of them."""
    rules = listed(names)
    if rules and all(isinstance(rule, str) for rule in rules):
        rules = [rules]
    for rule in rules:
        if not isinstance(rule, (list, tuple)) or len({*map(repr, rule)}) != len(rule) or len(rule) < 2:
            raise DomainError(f'{name} must be a list of different columns, such as {name} = ["collected", "received"]')
        if name == "determines" and len(rule) > 2:
            raise DomainError("determines names two columns. Write one pair for each column that is determined")
    return [[_text(column) for column in rule] for rule in rules]


def plain_limits(limits: Any) -> dict[str, str]:
    """Return the column that each column of ``at_most`` never exceeds. Raises DomainError when it has another form."""
    if not isinstance(limits, Mapping) or not all(isinstance(limit, str) for limit in limits.values()):
        remedy = "Where a column is at most a number, declare that number as its upper bound"
        raise DomainError(f'at_most must be a table of columns, such as at_most = {{discount = "price"}}. {remedy}')
    return {_text(name): _text(limit) for name, limit in limits.items()}


# Writing declarations as TOML. Ledgers, plans and checkpoints know a domain by the hash of these bytes: they must stay.

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(32), 127)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
)


def write_toml(spec: Mapping[str, Any]) -> str:
    """Write a domain's plain data as TOML: one table per column, and one per entry of a list."""
    top, tables = "", list[tuple[str, Mapping[str, Any]]]()
    for name, part in spec.items():
        if name == "columns":
            tables += [(f"[columns.{key(column)}]", facts) for column, facts in part.items()]
        elif name == "tables":
            for table, facts in part.items():
                path = f"tables.{key(table)}"
                tables.append((f"[{path}]", {fact: facts[fact] for fact in facts if fact != "columns"}))
                tables += [(f"[{path}.columns.{key(column)}]", each) for column, each in facts["columns"].items()]
        elif isinstance(part, str) or (isinstance(part, list) and not isinstance(part[0], Mapping)):
            top += f"{name} = {value(part)}\n"
        elif isinstance(part, list):
            tables += [(f"[[{key(name)}]]", entry) for entry in part]
        else:
            tables.append((f"[{key(name)}]", part))
    blocks = [[head, *[f"{key(k)} = {value(v)}" for k, v in facts.items()], ""] for head, facts in tables]
    return (f"{top}\n" if top else "") + "\n".join(map("\n".join, blocks))


def key(name: str) -> str:
    """Write a key, quoted where it has to be."""
    return name if name and _BARE.issuperset(name) else value(name)


def value(item: Any) -> str:
    """Write a value: text, truth value, number, date, datetime, list or inline table."""
    match item:
        case str():
            return f'"{item.translate(_ESCAPES)}"'
        case bool():
            return str(item).lower()
        case int() | float():
            return repr(item)
        case dt.datetime() | dt.date():
            return item.isoformat()
        case Mapping():
            return "{" + ", ".join(f"{key(k)} = {value(v)}" for k, v in item.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(value(part) for part in item) + "]"
    raise DomainError(f"{with_article(type(item).__name__)} cannot be written as TOML")


# From plain data to columns, with errors that name the column; and the template of a declaration.

_TYPES = ", ".join(sorted(KINDS))
BLANK = "<fill in>"
"""What stands in a template for what is to be filled in."""


def check_column(name: object, column: object) -> None:
    """Refuse what cannot be the name of a column, or its declaration."""
    if not isinstance(name, str) or not name:
        raise unfit("a column's name", "a text of at least one character", name, error=DomainError)
    if not encodable(name):
        raise DomainError(f"column {name!r}: its name is not valid Unicode text")
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise DomainError(f"column {name!r}: dataframe libraries read this name as a pattern. Rename the column")
    if not isinstance(column, Column):
        raise DomainError(f"column {name!r}: it must be a Column, such as Numeric(lower=0, upper=1)")


def domain_facts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Domain`` from plain data."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("columns", {}), Mapping):
        raise DomainError("a domain must have one table [columns.NAME] per column")
    if not isinstance(spec.get("metric_weights", {}), Mapping):
        raise DomainError("metric_weights must be a table of one number per column")
    unknown = set(spec) - {"columns", "tables", "units", "metric_weights", "difference", "outcome", *RULES}
    if unknown:
        lists = [*(f"[[{name}]]" for name in DECLARED), *RULES[len(DECLARED) :], "difference, outcome, units"]
        known = f"[columns.NAME], [metric_weights], {', '.join(lists)}, [tables.NAME]"
        raise DomainError(f"unknown table {min(unknown)!r}: a domain has {known}")
    named = spec.get("columns", {})
    cells = [facts.get("cells") for facts in named.values() if isinstance(facts, Mapping)]
    if sum([number for number in cells if isinstance(number, int)]) > MOST_CELLS:  # before one of them is made
        raise DomainError(f"all columns together must have at most {MOST_CELLS:,} cells. Declare fewer")
    columns = {name: _column(name, facts) for name, facts in named.items()}
    declared = {name: spec[name] for name in ("tables", "units", "difference", "outcome", *RULES) if name in spec}
    return {"columns": columns, "metric_weights": spec.get("metric_weights"), **declared}


def _column(name: str, declared: Any) -> Column:
    if not isinstance(declared, Mapping):
        raise DomainError(f"column {name!r} must be a table [columns.{key(name)}] with a type")
    facts = dict(declared)
    kind = facts.pop("type", BLANK)
    if kind == BLANK:
        dotted, inner = name, facts
        while "type" not in inner and (nested := [item for item in inner.items() if isinstance(item[1], Mapping)]):
            dotted, inner = f"{dotted}.{nested[0][0]}", dict(nested[0][1])
        if "type" in inner:
            raise DomainError(f"column {name!r} has no type. Quote a name with a dot: [columns.{key(dotted)}]")
        raise MissingPublicFact(name, "its type", f'type = "numeric"  # or {_TYPES}')
    if kind == "string" and "prefix" in facts and "categories" not in facts:
        kind = "open_labels"
    elif kind == "string":
        kind = "category"
    if not isinstance(kind, str) or kind not in KINDS:
        raise DomainError(f"column {name!r}: unknown type {kind!r}. Known types: {_TYPES}")
    _check_keys(name, kind, facts)
    try:
        column: Column = column_type(kind)(**facts)
    except MissingPublicFact as problem:
        raise MissingPublicFact(name, problem.fact, problem.toml) from None
    except DomainError as problem:
        raise DomainError(f"column {name!r}: {problem}") from None
    return column


def _check_keys(name: str, kind: str, facts: Mapping[str, Any]) -> None:
    """Refuse keys that a column of the kind does not know, and those of a template that were not filled in."""
    keys = [item.name for item in fields(column_type(kind)) if item.init]
    for fact, fact_value in facts.items():
        if fact == "weight":
            raise DomainError(
                f"column {name!r}: it is declared as a survey weight, which a model is told (survey_weight=...) and a "
                "domain is not. Drop the key weight"
            )
        if fact == "outcome":
            raise DomainError(f"column {name!r}: outcome is about the table. Write it above all [columns.NAME]")
        if fact not in keys:
            listed = f"Keys of {with_article(kind)} column: {', '.join(sorted(keys))}"
            raise DomainError(f"column {name!r}: unknown key {fact!r}. {listed}")
        if fact_value == BLANK:
            public = {item.key: item for item in column_type(kind).public_facts}
            missing = public.get(fact, PublicFact(fact, f"its {fact}", "...", ""))
            raise MissingPublicFact(name, missing.words, f"{fact} = {missing.example}")


_HEAD = f"""\
# Public facts of the table. Replace every "{BLANK}" by what is known without looking at the confidential data:
# a code book, a law, a definition. A bound or a list of categories read from the data would itself be a release.
# Optional in every column: nulls = "category" makes a null one more category. out_of_bounds says what becomes of a
# value that does not fit: "clip" takes the nearest one, "other" the label other, "null" a null, "error" is refused.
# Optional, for how a column is written: format = "%m/%d/%Y", true = "Y", false = "N", null_values = ["", "NA"],
# prefix = "$", suffix = " €", thousands = ".", decimal_mark = ",", censored = [">45"], strip = true.
# Leave out columns of identifiers, names, addresses or free text, and ignore other columns in each command.
# Optional where there are cells: atoms = [0], public numbers or dates that many records share, each a cell of its own.
"""
_HINTS = {
    "numeric": '# finite: cells = 100 (and spacing = "log" where lower > 0), or step = 0.01, or grid = [0, 1, 5]',
    "category": '# in order: ordered = true, with "other" in the list. An open set of labels instead: type = '
    '"open_labels", without categories',
    "integer": "# fewer cells than integers: cells = 100",
}


def template(schema: Mapping[str, str], known: Mapping[str, Mapping[str, Any]]) -> str:
    """Write a template of the declaration; see :meth:`Domain.template`."""
    kinds = {name: "category" if declared == "string" else declared for name, declared in schema.items()}
    kinds |= {name: facts.get("type", kinds.get(name, "unknown")) for name, facts in known.items()}
    blocks = [_HEAD]
    if not set(kinds.values()) <= {*KINDS, "none"}:
        blocks[0] += _facts_by_type()
    for name, kind in kinds.items():
        facts = {fact: told for fact, told in known.get(name, {}).items() if fact != "type"}
        lines = [f"[columns.{key(name)}]", f'type = "{kind}"']
        if kind == "none":
            lines = [f"# {key(name)}: no type takes its values. Leave it out, or cast it."]
        elif kind not in KINDS:
            lines[1] = f'type = "{BLANK}"  # one of: {_TYPES}'
        else:
            lines += filter(None, [_HINTS.get(kind)])
            blanks = [fact for fact in column_type(kind).public_facts if fact.key not in facts]
            lines += [f'{fact.key} = "{BLANK}"  # {fact.description}, such as {fact.example}' for fact in blanks]
        if kind in KINDS:
            facts = facts | usual_fates(kind, facts)
        if kind != "none":
            lines += [f"{fact} = {value(told)}" for fact, told in facts.items()]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def usual_fates(kind: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what becomes of values that do not fit, where nothing else is said."""
    form = facts.get("out_of_bounds", column_type(kind)._choices["out_of_bounds"][-1])
    labels = facts.get("categories", ())
    closed = facts.get("ordered") or not all(isinstance(label, str) for label in labels)  # to further labels
    if form == "other" and closed and "other" not in labels:
        form = "null"
    if form == "null":
        return {"out_of_bounds": "null", "nulls": "category"}
    return {"out_of_bounds": form}


def _facts_by_type() -> str:
    """Say what each type asks for, where a file does not state the types of its columns."""
    lines = ["# What each type asks for:"]
    for kind in sorted(KINDS):
        facts = [f"{fact.key} = {fact.example}" for fact in column_type(kind).public_facts]
        facts += [f"{fact} = {value(told)}" for fact, told in usual_fates(kind, {}).items()]
        lines.append(f"#   {kind}: {', '.join(facts)}")
        if kind in _HINTS:
            lines.append(f"#     {_HINTS[kind].removeprefix('# ')}")
    return "\n".join(lines) + "\n"
