"""Whether a certificate of version 2 holds what its mechanism and its domain ask for, and nothing else."""

import datetime
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from verify_certificate import vocabulary as known
from verify_certificate.answers import AGREES, LESS, WRONG, Check
from verify_certificate.arithmetic import INFINITE, drawn, exact, number, raised
from verify_certificate.facts import Facts


def form(document: dict[str, Any], facts: Facts) -> Iterator[Check]:
    """Compare fields, choices, caveats, columns and rows with what the mechanism and the domain ask for."""
    wrong = [*_fields(document), *_values(document, facts)]
    yield Check("fields", WRONG if wrong else AGREES, "; ".join(wrong) or "all are known, and none is missing")
    if facts.mechanism in known.CHOSEN:
        yield from _assumptions(document["guarantee"]["assumptions"], facts)
        yield from _caveats(document["guarantee"], facts)
    released, counts = document["released"], document["size"] is None
    fits = released["columns"] == (_count_columns(facts) if counts else facts.released)
    yield Check("released.columns", AGREES if fits else WRONG, ", ".join(map(str, released["columns"])))
    size, fewer = facts.all_cells if counts else document["size"], counts and INFINITE in facts.cells
    for place, table in enumerate(released["tables"]):
        kind = place % len(facts.slots)  # units, and rows of each table; without a table of units each has a row
        least = 0 if fewer or facts.mechanism == "urn-histogram" or kind else size
        most = size * facts.slots[kind]
        yield Check("released.rows", AGREES if least <= table["rows"] <= most else WRONG, f"{table['rows']} of {most}")
    tables = (facts.parameters.get("tables") or 1) * len(facts.slots)
    fits = len(released["tables"]) == tables
    yield Check("released.tables", AGREES if fits else WRONG, f"{len(released['tables'])} of {tables}")


def _fields(document: dict[str, Any]) -> Iterator[str]:
    """Yield what is missing or not known, an object after the other."""
    for place, names in known.FIELDS.items():
        value: Any = document
        for name in place.split(".") if place else ():
            value = value.get(name) if isinstance(value, dict) else None
        for part in value if isinstance(value, list) else [value]:
            if part is not None or place not in {"unit", "ledger"}:
                yield from _unfit(part, place, *names)
    yield from _columns(document["domain"])
    mechanism = document["mechanism"]
    if mechanism["name"] in known.PARAMETERS:
        yield from _unfit(mechanism["parameters"], "mechanism.parameters", *known.PARAMETERS[mechanism["name"]])
    for caveat in document["guarantee"]["caveats"]:
        if caveat["code"] in known.CAVEATS:
            yield from _unfit(caveat, caveat["code"], f"code {known.CAVEATS[caveat['code']]}", "")


def _columns(domain: dict[str, Any]) -> Iterator[str]:
    """Yield what is missing or not known in tables of rows, in columns, and in how rows are held by others."""
    columns = dict(domain["columns"])
    for name, table in domain.get("tables", {}).items():
        yield from _unfit(table, f"domain.tables.{name}", *known.TABLE)
        columns |= table["columns"]
    for name, column in columns.items():
        needed, possible = known.COLUMNS[column["type"]]
        possible += " relative_to" * (name not in domain["columns"])
        yield from _unfit(column, f"domain.columns.{name}", needed, possible)
        if "relative_to" in column:  # labels are the same, all others differ by something
            how, bounds = column["relative_to"], " lower upper" * (column["type"] not in {"category", "boolean"})
            entry = how if isinstance(how, dict) else {"row": how}
            yield from _unfit(entry, f"domain.columns.{name}.relative_to", f"row{bounds}", "")
            yield from [f"{name} is relative to no row"] * (entry.get("row") not in {"first", "previous"})


def _unfit(value: Any, place: str, needed: str, possible: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place} is no object"
        return
    absent = set(needed.split()) - set(value)
    yield from (f"{place} has no {name}" for name in sorted(absent))
    yield from (f"{place}.{name} is not known" for name in sorted(set(value) - {*needed.split(), *possible.split()}))


def _values(document: dict[str, Any], facts: Facts) -> Iterator[str]:
    """Yield which values are none of those that a place may have."""
    places = (("mechanism.parameters", facts.parameters), *facts.columns.items())
    chosen = [(place, name, holder[name]) for place, holder in places for name in set(known.CHOICES) & set(holder)]
    yield from (f"{place}.{name} is not known" for place, name, value in chosen if value not in known.CHOICES[name])
    lists = {name: column.get("categories", ()) for name, column in facts.columns.items()}
    yield from (f"{name} has a category twice" for name, values in lists.items() if len(set(values)) < len(values))
    if document["library"]["name"] != "discreet":
        yield "library.name is another"
    try:
        datetime.datetime.fromisoformat(document["created"])
    except ValueError:
        yield "created is no time"
    if not all(re.fullmatch("[0-9a-f]{64}", str(text)) for text in document["public_inputs"].values()):
        yield "public_inputs has what is no hash"
    if (levels := facts.parameters.get("levels")) is not None:
        deepest = sum((int(cells) - 1).bit_length() for cells in facts.cells)
        if not (levels == sorted(set(levels)) and 1 <= levels[0] <= levels[-1] <= deepest):
            yield f"mechanism.parameters.levels are not from 1 to {deepest}"
    seeded = document["randomness"]
    if seeded not in known.RANDOMNESS or (document.get("identity") is None) != (seeded == "seeded"):
        yield "randomness is not known, or does not go with the identity"
    if [exact(epsilon) for epsilon, _ in document["guarantee"]["profile"]] != known.PROFILE:
        yield "the profile is at other epsilons"


def _assumptions(assumptions: list[dict[str, Any]], facts: Facts) -> Iterator[Check]:
    what = known.CHOSEN[facts.mechanism]
    if facts.mechanism == "signed-measure" and facts.parameters.get("points"):
        what = ["points", "noise"]
    if facts.mechanism == "marginals" and INFINITE in facts.cells:
        what = [*what, "threshold"]
    expected: list[dict[str, Any]] = [{"code": "chosen-without-data", "what": what}]
    if facts.mechanism == "private-evolution":
        expected.append({"code": "record-votes-alone"})
    if facts.parameters.get("sampler", "ancestor") != "ancestor":
        expected.append({"code": "variates-follow-laws"})
    fits = assumptions == expected
    yield Check("guarantee.assumptions", AGREES if fits else WRONG, f"chosen without the data: {', '.join(what)}")


def _caveats(guarantee: dict[str, Any], facts: Facts) -> Iterator[Check]:
    codes = [caveat["code"] for caveat in guarantee["caveats"]]
    delta, tables = exact(guarantee["delta"]), facts.mechanism == "marginals" and bool(facts.parameters.get("tables"))
    conditions = {
        "delta-constant": facts.parameters.get("discount") == 0
        and facts.mechanism in {"pitman-yor", "dirichlet-process"},
        "delta-is-bound": not guarantee["exact"] and "delta-constant" not in codes,
        "delta-large": delta * facts.n > Fraction(1, 10),
        "epsilon-large": exact(guarantee["epsilon"]) > 10,
        "tables-together": tables,
        "conditional-independence": tables,
        **dict.fromkeys(("rare-labels", "single-label"), "threshold" in facts.parameters and INFINITE in facts.cells),
    }
    if facts.mechanism == "private-evolution":
        del conditions["rare-labels"], conditions["single-label"]
    needed = {*known.BELONGS[facts.mechanism], *(code for code, holds in conditions.items() if holds)}
    if "levels" in facts.parameters and 2 ** facts.parameters["levels"][-1] < facts.all_cells:
        needed.add("place-in-leaf")
    false = {code for code, holds in conditions.items() if not holds} - set(known.BELONGS[facts.mechanism])
    wrong = [f"{code} is missing" for code in sorted(needed - set(codes))]
    wrong += [f"{code} does not belong here" for code in sorted({*codes} & false | {*codes} - {*known.CAVEATS})]
    wrong += ["a caveat is stated twice"] * (len(set(codes)) < len(codes))
    yield Check("guarantee.caveats", WRONG if wrong else AGREES, "; ".join(wrong) or ", ".join(codes))
    caveats = dict(zip(codes, guarantee["caveats"], strict=True))
    for code, name, least in _least(facts, delta):
        if code in caveats:
            stated = number(exact(caveats[code][name]))
            said = f"{code}: {name} is {float(least):.9g}, stated {float(stated):.9g}"
            fits = stated >= number(least) * (1 - number(Fraction(1, 10**9)))
            yield Check("guarantee.caveats", AGREES if fits else LESS, said)
    for code, name, value in _values_of_caveats(facts):
        if code in caveats:
            fits = caveats[code][name] == value
            yield Check("guarantee.caveats", AGREES if fits else WRONG, f"{code}: {name} is {value}")


def _values_of_caveats(facts: Facts) -> Iterator[tuple[str, str, Any]]:
    """Yield what fields of caveats must be."""
    noisy = {"marginals": "tables", "private-evolution": "votes"}
    yield "free-draws", "noisy", noisy.get(facts.mechanism, "counts")
    yield "equal-votes", "voters", "units" if facts.parameters.get("unit_votes") else "records"
    yield "rare-labels", "threshold", facts.parameters.get("threshold")
    yield "rare-labels", "open", facts.mechanism == "marginals"
    yield from ((code, "at_most", facts.parameters.get("discount") != 0) for code in ("verbatim-share", "all-verbatim"))
    yield from ((code, "size", facts.asked) for code in ("verbatim-share", "random-number"))


def _least(facts: Facts, delta: Fraction) -> Iterator[tuple[str, str, Any]]:
    """Yield the least that numbers of caveats may be."""
    n, parameters = facts.n, facts.parameters
    yield "delta-large", "records", delta * n
    yield "delta-floor", "delta", Fraction(0)
    if "mixing" in parameters:
        yield "uniform-share", "share", drawn(parameters["mixing"])
    if facts.mechanism == "dirichlet-multinomial":
        strength = drawn(parameters["prior"]) * facts.finite_cells()
        yield "prior-share", "share", strength / (n + strength)
    if facts.mechanism in {"pitman-yor", "dirichlet-process", "urn-histogram"}:
        theta, sigma = raised(drawn(parameters["strength"]), 20), drawn(parameters["discount"])
        yield "verbatim-share", "probability", (n - sigma) / (theta + n)
        for code in ("verbatim-share", "all-verbatim"):
            yield code, "expected", facts.size * (n - sigma) / (theta + n)


def _count_columns(facts: Facts) -> list[str]:
    """Return the columns of counts: the label, or both edges, of a cell in each column, and two numbers."""
    ends = []
    for name, column in facts.columns.items():
        label = column["type"] in {"boolean", "category", "open_labels"} or "cells" not in column
        ends += [name] if label else [f"{name}_from", f"{name}_to"]
    return [*ends, "count", "standard_error"]
