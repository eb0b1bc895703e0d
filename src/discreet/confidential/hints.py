"""What an owner may overlook in a table, told from its first rows to the custodian alone; nothing is changed by it.

Where a line to write would hold something of the rows, its place is left blank: that comes from a code book.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from discreet._core.lazy import pl
from discreet._core.text import counted
from discreet.domain import Column, Domain, type_name

_LONGEST = 60  # characters of a value that are kept
_FEW = 20  # rows, with fewer of which nothing is said
_HEAP = 20  # one in so many rows, or more, make a heap
_PAIRED = 1000  # distinct values of columns that may code one thing
_SAMPLE = 5000  # rows in which pairs of columns are looked at first
_PERSON = re.compile(
    r"(?i)(^|[ _.-])(id|key|nr|no|num|number|code|person|patient|household)([ _.-]|$)|[a-z]ID$|id(code)?$"
)
_MISSING = {*range(-9, 0), -66, -77, -88, -97, -98, -99, -777, -888, -997, -998, -999, -9999}
_KINDS = {  # of texts that tell of a person: the share of values that look so
    "addresses of e-mail": (r"^[^@ ]+@[^@ ]+\.\w+$", 0.8),
    "telephone numbers": (r"^\+?[\d ()/-]{7,}$", 0.8),
    "free text": (r"(\S+\s+){4}\S", 0.5),
    "addresses": (r"\pL.* \d|\d.* \pL", 0.8),
    "names of persons": (r"^\p{Lu}[\pL.'-]*(,? \p{Lu}[\pL.'-]*)+$", 0.8),
}


def column_hints(name: str, column: Column | None, values: pl.Series, rows: pl.Series) -> Iterator[str]:
    """Yield what may be overlooked in the values that fit of a column, None where it is not declared."""
    filled = values.is_not_null()
    values, rows = values.filter(filled), rows.filter(filled)
    total, distinct = int(rows.sum()), values.n_unique() if values.dtype.base_type() is not pl.Object else 0
    if total < _FEW or not distinct:
        return
    if column is not None and distinct == 1 and filled.all():
        yield "it has one value only, which tells nothing about a row. Leave it out"
    if column is not None and hasattr(column, "decimal_mark"):
        yield from _missing_codes(column, values)
    if type_name(values.dtype) not in ("string", "integer") or (column is not None and column.kind == "category"):
        return
    repeated = total / distinct
    dense = values.dtype.is_integer() and np.ptp(values.cast(pl.Float64).to_numpy()) < 2 * len(values)
    if column is not None and repeated == 1 and (not values.dtype.is_integer() or dense):  # as numbers of rows are
        yield "every row has its own value, as an identifier has. Nothing of it can be released, so leave it out"
        return
    grouped = len(values) == total and int((values != values.shift(1)).sum()) + 1 == distinct
    if distinct >= _FEW and 1.1 <= repeated <= 50 and (grouped or _PERSON.search(name)):
        asked = f"{distinct:,} values in {counted(total, 'row')}: is each a person? Then protect persons"
        yield f"{asked} by this column: unit=Unit(..., max_records=...), a number from public knowledge"
    if column is not None and values.dtype == pl.String and distinct * 2 > total:
        for kind, (form, least) in _KINDS.items():
            if int(values.str.contains(form).sum()) >= least * len(values):
                yield f"it looks like {kind}, of which nothing should be released. Leave it out"
                return


def _missing_codes(column: Any, values: pl.Series) -> Iterator[str]:
    if column.out_of_bounds != "clip":  # others are nulls, or refused
        values = values.filter(values >= column.lower)
    below = {*values.filter(values < 0).unique().to_list()}
    if below and below <= _MISSING and (column.lower >= 0 or values.n_unique() > 10 + len(below)):
        asked = "some values are like -7, -8 or -9, which often mean missing. If the code book says so, write"
        lines = 'null_values = ["..."] and nulls = "category"'
        if not column.notation:
            lines += ', or in a table of numbers lower = 0, out_of_bounds = "null" and nulls = "category"'
        yield f"{asked}: {lines}"


def heap_hint(column: Any, values: pl.Series, rows: pl.Series) -> Iterator[str]:
    """Yield how many values make up 5% of the rows or more, which of them are public points, and what to declare."""
    if not column.on_a_line or int(rows.sum()) < _FEW or column.interval(np.zeros(1, dtype=np.int64)) is None:
        return
    low, high = column.ends(column.encode(values))
    shared = pl.Series(low < high)
    frame = pl.DataFrame({"value": column.coordinates(values.filter(shared)), "rows": rows.filter(shared)})
    counts = frame.group_by("value").agg(pl.col("rows").sum()).filter(pl.col("rows") * _HEAP >= int(rows.sum()))
    heaps = {*counts["value"].to_list()}
    if not heaps:
        return
    (first, _), (_, last) = column.ends(np.array([0, column.values - 1]))
    points = {first: column.lower, last: column.upper}
    if hasattr(column, "decimal_mark"):  # of a date, 0 is another one
        points.setdefault(0.0, 0)
    public = [point for value, point in points.items() if value in heaps]
    line, listed = "atoms = [...]", ""
    if public:
        atoms = replace(column, base=None, atoms=(*column.atoms, *public))
        line = re.findall("^atoms = .*", Domain(columns={"x": atoms}).to_toml(), re.MULTILINE)[0]
        listed = f", among them {', '.join(map(str, public))}"
    sentences = (
        f"values in at least 5% of the rows each: {len(heaps)}{listed}",
        f"If it is public that many records share one, write: {line}",
        "Count the column's values to find them",
    )
    yield ". ".join(sentences)


def pair_hints(domain: Domain, columns: Mapping[str, pl.Series]) -> Iterator[tuple[str, str]]:
    """Yield columns, and what they may have to do with one that comes before, in rows whose values all fit."""
    rules = [rule.columns for rule in domain.constraints] + [each.columns for each in domain.differences]
    linked = [{domain.names[place] for place in places} for places in (*rules, *domain.dependencies)]
    frame = pl.DataFrame(dict(columns))
    if frame.height < _FEW:
        return
    sizes = {name: frame[name].drop_nulls().n_unique() for name in frame.columns}
    paired = [name for name, size in sizes.items() if 2 <= size <= min(_PAIRED, frame.height // 5)]
    for one, two in combinations(paired, 2):
        if any({one, two} <= names for names in linked):
            continue
        told = [(a, b) for a, b in permutations((one, two)) if _tells(frame, a, b)]
        if len(told) == 2:
            yield two, f"it codes what {one!r} codes. Leave one of them out"
        for a, b in [pair for pair in told if len(told) == 1 and sizes[pair[0]] < frame.height / 20]:
            yield b, f'it follows from {a!r} in these rows. If a code book says so, write: determines = ["{a}", "{b}"]'
    times = [name for name in frame.columns if frame[name].dtype.is_temporal() and sizes[name] > 1]
    for one, two in permutations(times, 2):
        if frame[one].dtype == frame[two].dtype and not any({one, two} <= names for names in linked):
            both = frame.select(one, two).drop_nulls()
            if both.height >= _FEW and bool((both[one] <= both[two]).all()) and bool((both[one] < both[two]).any()):
                text = f'it is never before {one!r} in these rows. If it always is, write: order = ["{one}", "{two}"]'
                yield two, text


def _tells(frame: pl.DataFrame, one: str, two: str) -> bool:
    """Return whether a column has one value of another for each of its own."""
    for rows in (frame.head(_SAMPLE), frame):
        both = rows.select(one, two).drop_nulls().unique()
        if not both.height or both[one].n_unique() < both.height:
            return False
    return True


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it; long texts are cut."""
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
