"""Tables of no, one and two records: whatever is public is the same for all tables of one public size."""

import itertools
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd
import polars as pl
import pytest

from discreet import AddRemove, Replacement, Unit, Watch, release
from discreet.confidential import confidential
from discreet.domain import Boolean, Domain, Integer, Numeric, OpenLabels
from discreet.domain.column import Column
from discreet.errors import DiscreetError
from discreet.mechanisms import REGISTRY
from discreet.mechanisms.base import require_relation
from discreet.planner.cells import with_cells
from discreet.privacy import Budget
from discreet.releases.release import Release

BUDGET = Budget(epsilon=5.0, delta=0.05)
PARAMETERS: dict[str, dict[str, Any]] = {
    "private-evolution": {"steps": 1, "population": 4, "variant": "practical"},
    "pitman-yor": {"discount": 0.125},
}
COLUMNS: dict[str, tuple[Column, list[Any], pl.DataType]] = {
    "cells": (Integer(lower=0, upper=1, nulls="category"), [0, 1, None], pl.Int64()),
    "continuous": (Numeric(lower=0.0, upper=1.0, nulls="category"), [0.0, 1.0, None], pl.Float64()),
    "labels": (OpenLabels(nulls="category"), ["a", "b", None], pl.String()),
}
FORMS = {  # counting is the same for all mechanisms; the second one reads files in parts
    "smoothed-histogram": ("polars", "lazy", "pandas", "pyarrow", "parquet", "csv"),
    "private-evolution": ("pandas", "parquet", "csv"),
}


def kinds(name: str) -> tuple[str, ...]:
    slow = name == "private-evolution"  # its predictions on a continuum take seconds
    return ("cells",) if slow or REGISTRY[name].traits.needs_cells else ("continuous", "labels")


def domain(kind: str) -> Domain:
    return Domain(columns={"x": COLUMNS[kind][0], "y": Boolean(nulls="category")})


def tables(kind: str, size: int, unit: bool) -> list[pl.DataFrame]:
    """Return tables of one public size; with a unit it is the number of units, which hold one to three rows."""
    _, (low, high, null), dtype = COLUMNS[kind]
    rows: list[list[tuple[Any, Any, int]]] = {
        0: [[]],
        1: [[(low, True, 0)], [(high, None, 0)], [(null, None, 0)]],
        2: [[(low, True, 0), (low, True, 1)], [(low, True, 0), (high, False, 1)], [(null, None, 0), (null, None, 1)]],
    }[size]
    if unit and size:
        rows.append([*rows[0], rows[0][0], (high, False, 0)])
    schema = {"x": dtype, "y": pl.Boolean(), "person": pl.Int64()}
    frames = [pl.DataFrame(part, schema=schema, orient="row") for part in rows]
    return frames if unit else [frame.drop("person") for frame in frames]


def given(frame: pl.DataFrame, form: str, folder: Path) -> Any:
    frames = {"polars": lambda: frame, "lazy": frame.lazy, "pandas": frame.to_pandas, "pyarrow": frame.to_arrow}
    if form in frames:
        return frames[form]()
    path = folder / f"table.{form}"
    if form == "csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


def public_view(action: Callable[[], Release]) -> Any:
    """Return everything that is public of a release but for randomness and its outcome."""
    try:
        made = action()
    except DiscreetError as error:
        return type(error).__name__, str(error)
    facts = dict(made.certificate.to_dict())
    del facts["created"]
    assert len(facts.pop("identity")) == 32  # random, and of no data
    (table,) = facts["released"]["tables"]
    size = facts["size"]
    by_unit = "tables" in facts["domain"]  # units, whose numbers of rows are drawn
    varies = size is None or by_unit or REGISTRY[facts["mechanism"]["name"]].traits.random_size
    hidden = {"outcome": None, "share_from_data": None, "tables": None if varies else [table]}
    facts["released"] = {**facts["released"], **hidden}
    frame = made.records  # the types of pandas depend on whether a null was released, which is chance
    types = (
        None
        if isinstance(frame, pd.DataFrame)
        else [str(kind) for kind in nw.from_native(frame).collect_schema().values()]
    )
    return facts, list(nw.from_native(frame).columns), types, type(frame).__name__, made.info


KINDS = [
    ("replacement", None),
    ("add-remove", "person"),
    *(
        pytest.param(*other, marks=pytest.mark.exhaustive)
        for other in (("replacement", "person"), ("add-remove", None))
    ),
]


def agree(views: dict[int, list[Any]], relation: str) -> bool:
    """Return whether tables of one public size show the same; under add/remove, tables of every size."""
    groups = (
        list(views.values()) if relation == "replacement" else [[view for group in views.values() for view in group]]
    )
    return all(view == group[0] for group in groups for view in group)


@pytest.mark.parametrize(("relation", "unit"), KINDS)
@pytest.mark.parametrize("name", REGISTRY)
def test_a_release_of_a_tiny_table_shows_its_public_size_alone(
    name: str, relation: str, unit: str | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {} if unit is None else {"unit": Unit(unit, max_records=2)}
    options |= {} if relation == "replacement" else {"relation": AddRemove(records=2)}
    for kind, form in itertools.product(kinds(name), FORMS.get(name, ("polars",))):
        views: dict[int, list[Any]] = {}
        for size, frame in sized(kind, unit is not None):
            said: list[str] = []
            watch = Watch(announce=said.append if form in ("polars", "pandas") else None)  # predictions take time
            asked = {"size": 3, "mechanism": name, "watch": watch, "accept": {"empirical", "poor-utility"}}
            asked |= {**options, **PARAMETERS.get(name, {})}
            made = partial(release, given(frame, form, tmp_path), domain(kind), BUDGET, **asked)
            views.setdefault(size, []).append((public_view(made), said))
        assert agree(views, relation), (kind, form)


@pytest.mark.parametrize(("relation", "unit"), KINDS)
@pytest.mark.parametrize("name", REGISTRY)
def test_publishing_a_tiny_table_shows_its_public_size_alone(name: str, relation: str, unit: str | None) -> None:
    options: dict[str, Any] = {} if unit is None else {"unit": Unit(unit, max_records=2)}
    group = 1 if unit is None else 2
    between = Replacement() if relation == "replacement" else AddRemove(records=2)
    accepted = {"empirical", "poor-utility"} if relation == "replacement" else {"empirical"}
    for kind in kinds(name):
        views: dict[int, list[Any]] = {}
        for size, frame in sized(kind, unit is not None):
            n = max(1, group * size) if relation == "replacement" else 2
            mechanism = calibrated(name, kind, relation, n=n, group=group)
            if mechanism is None:
                continue
            closed = partial(confidential, frame, mechanism.domain, empty=relation != "replacement", **options)
            made = lambda: release(  # noqa: E731
                closed(), mechanism=mechanism, size=getattr(mechanism, "size", 3), relation=between,  # noqa: B023
                accept=accepted,
            )  # fmt: skip
            views.setdefault(size, []).append(public_view(made))
        assert agree(views, relation), kind


def sized(kind: str, unit: bool) -> list[tuple[int, pl.DataFrame]]:
    return [(size, frame) for size in (0, 1, 2) for frame in tables(kind, size, unit)]


@cache
def calibrated(name: str, kind: str, relation: str, *, n: int, group: int) -> Any:
    """Return the mechanism, on cells where it needs them; None where there is none within the budget."""
    made = REGISTRY[name]
    given = PARAMETERS.get(name, {}) | ({} if relation == "replacement" else {"relation": relation})
    try:
        require_relation(made, relation)
        used = with_cells(domain(kind), made, n=n, budget=BUDGET, size=3, group=group, **given)
        return made.calibrated(BUDGET, domain=used, n=n, size=3, group=group, **given)
    except DiscreetError:
        return None
