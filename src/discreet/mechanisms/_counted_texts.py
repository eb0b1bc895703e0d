"""Noisy tables of one and two columns as one table of texts and counts. Public."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._core.arrays import Integers
from discreet._core.random import seeded
from discreet.domain import Domain
from discreet.domain._column import Column
from discreet.domain._metric import is_ordered
from discreet.mechanisms._base import Estimates
from discreet.mechanisms._measured_tables import Counted
from discreet.mechanisms._merged_cells import Merged

TABLE = "table"
"""Name of the column that says which columns a count is of."""


def counted_texts(tables: Sequence[Counted], domain: Domain, merged: Sequence[Merged]) -> Estimates:
    """Return the counts of tables, each with a text for every column of its table.

    ``tables``: of one column by the domain's cells, of two by merged ones.
    ``merged``: the merged cells of every column.
    """
    fine = [_texts(column) for column in domain.columns.values()]
    coarse = [
        [_together(column, np.flatnonzero(each.of == c), texts) for c in range(each.count)]
        for column, each, texts in zip(domain.columns.values(), merged, fine, strict=True)
    ]
    labels: dict[str, list[str | None]] = {name: [] for name in (TABLE, *domain.names)}
    for columns, cells, counts, _ in tables:
        labels[TABLE] += [", ".join(domain.names[i] for i in columns)] * len(counts)
        place = dict(zip(columns, cells, strict=True))
        for i, name in enumerate(domain.names):
            texts = fine[i] if len(columns) == 1 else coarse[i]
            labels[name] += [texts[c] for c in place[i].tolist()] if i in place else [None] * len(counts)
    counts = np.concatenate([table.counts for table in tables])
    errors = np.concatenate([table.errors for table in tables])
    return Estimates(domain.draw_base(0, seeded(0)), counts, errors, labels)


def _texts(column: Column) -> list[str]:
    """Return each cell's value, or its first and last, as text; a null as "null"."""
    import polars as pl

    codes = np.arange(column.size or 0)
    ends = column.interval(codes)
    values = (column.decode(codes, rng=seeded(0)),) if ends is None else ends
    low, *high = (value.cast(pl.String).fill_null("null").to_list() for value in values)
    return [a if a == b else f"{a} to {b}" for a, b in zip(low, high[0] if high else low, strict=True)]


def _together(column: Column, cells: Integers, texts: Sequence[str]) -> str:
    """Return what merged cells are, in words."""
    first, last = texts[int(cells[0])], texts[int(cells[-1])]
    if len(cells) == 1:
        return first
    return f"{first.split(' to ')[0]} to {last.split(' to ')[-1]}" if is_ordered(column) else "any other"
