"""Certificates of schema 2 in which something false was written: one list, for the library and for the second program.

A value that is only *stated* is not among them, nor one in whose place another true value may stand.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from documents import Place, changed, leaves

from discreet.releases import facts
from discreet.wording import SENTENCES

HERE = Path(__file__).parent
CODED, DATA = HERE / "frozen-2", HERE / "frozen" / "releases"
MUTATED = (
    "stability-histogram",
    "stability-histogram-counts",
    "perturbed-histogram-counts",
    "pitman-yor-mixing",
    "dirichlet-multinomial",
    "private-evolution",
    "signed-measure",
    "hierarchical-histogram-pure",
    "marginals-add-remove",
    "urn-histogram",
)

STATED: tuple[Place, ...] = (
    ("created",),
    ("identity",),
    ("ledger",),
    ("library", "version"),
    ("mechanism", "parameters", "api"),
    ("public_inputs",),
    ("released", "merged_cells"),
    ("released", "outcome"),
    ("released", "pairs_measured"),
    ("released", "share_from_data"),
    ("released", "tables", ..., "file"),
    ("unit", "column"),
)
"""What somebody wrote, from which nothing follows. An ellipsis stands for any key."""

FACTS: tuple[Place, ...] = (
    ("records",),
    ("relation", "name"),
    *(("mechanism", "parameters", name) for name in ("multiplicity", "population", "steps", "threshold", "units")),
    *(("domain", "columns", ..., name) for name in ("cells", "lower", "nulls", "spacing", "upper")),
)
"""What another true value may stand in: of a table of more records the same holds, and of a domain with wider bounds.

Those that the released file contradicts are in :func:`contradicted`.
"""

OPTIONAL: tuple[Place, ...] = tuple(
    (*at, name)
    for at, part in (((), facts.CertificateFacts), (("released",), facts.ReleasedFacts))
    for name, rule in part.rules().items()
    if rule["where"] == name
)
"""Fields that a certificate may lack, as earlier ones do. One without them claims less, and nothing false."""

OTHER = {"unconditional": "empirical", "empirical": "unconditional", "replacement": "add-remove"}


def false(value: Any, key: Any) -> Iterator[Any]:
    """Give values that are not what a place holds: smaller numbers, other names, fewer and more of a list."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value - 1, value + 1)
    elif isinstance(value, float):
        yield from (value * 0.999, value / 2.0) if value else (0.5,)
    elif isinstance(value, str):
        yield OTHER.get(value, f"{'0' if value[0] != '0' else '1'}{value[1:]}")
        if key == "code":
            yield from (code for code in list(SENTENCES)[:3] if code != value)
    elif isinstance(value, list):
        yield [*value, *(value[-1:] or [{"code": "delta-is-bound"}])]
        if value:
            yield value[:-1]
    elif isinstance(value, dict):
        yield {**value, "unknown": 1}
        for name in value:
            yield {other: held for other, held in value.items() if other != name}
    else:
        yield 0.5


def under(at: Place, places: tuple[Place, ...]) -> bool:
    """Return whether a place is one of some, or inside of one."""
    return any(
        len(at) >= len(place) and all(key in (..., part) for key, part in zip(place, at, strict=False))
        for place in places
    )


def mutants(document: dict[str, Any], *but: Place) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Give a document with one false value after the other, and the place of each."""
    if len({delta for _, delta in document["guarantee"]["profile"]}) == 1:  # the same promise at any epsilon
        but = (*but, ("guarantee", "epsilon"))
    for at, value in leaves(document):
        for other in false(value, at[-1] if at else None):
            removed = set(value) - set(other) if isinstance(value, dict) else set()
            lacking = OPTIONAL if removed else ()
            if not under((*at, *removed), (*STATED, *FACTS, *lacking, *but)):
                yield (*at, *removed), changed(document, at, other)


def contradicted(document: dict[str, Any], data: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Give a document with one declaration after the other that its released CSV file contradicts."""
    frame, columns = pl.read_csv(data, infer_schema=False), document["domain"]["columns"]
    for name, column in columns.items():
        at: Place = ("domain", "columns", name)
        yield at, changed(document, ("domain", "columns"), {**columns, f"{name} ": column})
        renamed = {f"{key}_" if key == name else key: value for key, value in columns.items()}
        yield at, changed(document, ("domain", "columns"), renamed)
        if name not in frame.columns:
            continue  # counts of its cells
        if frame[name].null_count():
            yield (*at, "nulls"), changed(document, at, {k: v for k, v in column.items() if k != "nulls"})
        for key, value in narrower(column, frame[name].drop_nulls().unique().to_list()):
            yield (*at, key), changed(document, (*at, key), value)
    names = document["released"]["columns"]
    for value in (["other"], *([names[::-1]] if len(names) > 1 else [])):
        yield ("released", "columns"), changed(document, ("released", "columns"), value)
    for rows in (0, 1, 2 * frame.height, frame.height + 7):
        at = ("released", "tables", 0, "rows")
        yield at, changed(document, at, rows)


def narrower(column: dict[str, Any], texts: list[str]) -> Iterator[tuple[str, Any]]:
    """Give facts of a column with which some of the values would not have been released."""
    if column["type"] == "category":
        for label in texts:
            yield "categories", [other for other in column["categories"] if other != label]
    elif column["type"] in ("integer", "numeric", "decimal"):
        numbers = sorted(map(float, texts))
        middle = (numbers[0] + numbers[-1]) / 2
        for key, number in (("lower", middle), ("upper", middle), ("lower", numbers[-1]), ("upper", numbers[0])):
            whole = {"integer": int(number), "decimal": f"{number:.{column.get('digits', 0)}f}"}
            yield key, whole.get(column["type"], number)
    elif column["type"] == "date":
        yield from (("lower", sorted(texts)[len(texts) // 2]), ("upper", sorted(texts)[len(texts) // 2]))
    elif column["type"] == "duration":
        yield from (("lower", "30m"), ("upper", "30m"), ("step", "7m"))
    if "digits" in column:
        yield from (("digits", column["digits"] + 1), ("digits", column["digits"] - 1))


@cache
def listed(name: str) -> tuple[dict[str, Any], Path, list[tuple[Place, dict[str, Any]]]]:
    """Return a certificate, its released file, and the certificate with each false value."""
    document, data = json.loads((CODED / f"{name}.certificate.json").read_text(encoding="utf-8")), DATA / f"{name}.csv"
    return document, data, [*mutants(document), *contradicted(document, data)]


def undeclarable(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give a document of units with one declaration after the other that no domain can have, and a word for each."""
    domain = document["domain"]
    tables, units = domain["tables"], domain.get("units")

    def beside(**facts: Any) -> dict[str, Any]:
        return changed(document, ("domain",), {**domain, **facts})

    yield "no unit", {**document, "unit": None}
    without = beside(tables={}, determines=[])
    without["unit"] = {**document["unit"], "max_records": 0}
    without["released"] = {
        **document["released"],
        "columns": [document["unit"]["column"], *domain["columns"]],
        "tables": document["released"]["tables"][:: 1 + len(tables)],
    }
    yield "no table", without
    yield "units of no letters", beside(units="")
    for name in tables:
        yield "units with the name of a table", beside(units=name)
        yield "units with the name of a table", beside(units=name.upper())
    if len(tables) > 1:
        yield "units without a name", beside(units=None)
        one, two = (next(iter(table["columns"])) for table in list(tables.values())[:2])
        yield "columns of two tables", beside(determines=[[one, two]])
        yield "columns of two tables", beside(determines=[[two, one]])
    for name, table in tables.items():
        if table.get("slots") in table["columns"]:  # a panel, of which a column is named as its flags are
            *others, last = table["columns"]
            columns = {**{other: table["columns"][other] for other in others}, name: table["columns"][last]}
            twin = beside(tables={**tables, name: {**table, "columns": columns}})
            listed = [name if column == last else column for column in document["released"]["columns"]]
            twin["released"] = {**document["released"], "columns": listed}
            yield "a column with the name of its table", twin
    if units is not None:
        twin = beside(columns={})
        listed = [column for column in document["released"]["columns"] if column not in domain["columns"]]
        twin["released"] = {**document["released"], "columns": listed}
        yield "units without columns", twin
