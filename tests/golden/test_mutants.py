"""Certificates of schema 2 in which something false was written: none is confirmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from documents import changed, leaves

import discreet
from discreet import Budget, Unit
from discreet.domain import Domain, Integer
from discreet.errors import ParameterError
from discreet.releases import Certificate, verify
from discreet.wording import SENTENCES

HERE = Path(__file__).parent
CODED, DATA = HERE / "frozen-2", HERE / "frozen" / "releases"
MUTATED = (
    "stability-histogram",
    "perturbed-histogram-counts",
    "pitman-yor-mixing",
    "dirichlet-multinomial",
    "private-evolution",
    "signed-measure",
    "hierarchical-histogram-pure",
    "marginals-add-remove",
    "urn-histogram",
)
NOT_RECOMPUTED = (
    ("created",),
    ("identity",),
    ("library",),
    ("ledger",),
    ("released", "tables", 0, "file"),
    ("released", "outcome"),
    ("released", "share_from_data"),
    ("released", "pairs_measured"),
    ("released", "merged_cells"),
)
"""What no claim follows from, and what follows from no claim; a file may have been given another name."""

FACTS = (
    ("domain",),
    ("records",),
    ("public_inputs",),
    ("unit", "column"),
    *(("mechanism", "parameters", name) for name in ("api", "multiplicity", "population", "threshold")),
)
"""What a promise is computed from. Others may have the same one, as a table of more records with as much noise has."""

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


def mutants(document: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Give a document with one false value after the other."""
    for at, value in leaves(document):
        for other in false(value, at[-1] if at else None):
            removed = set(value) - set(other) if isinstance(value, dict) else set()
            yield (*at, *removed), changed(document, at, other)


def under(at: tuple[Any, ...], places: tuple[tuple[Any, ...], ...]) -> bool:
    return any(at[: len(place)] == place for place in places)


def confirmed(document: dict[str, Any], data: Path | None) -> bool:
    try:
        return all(check.agrees for check in verify(Certificate.from_dict(document), data=data))
    except ParameterError:
        return False


def survivors(document: dict[str, Any], data: Path | None, *but: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Give the places of the false values with which a certificate is confirmed."""
    assert confirmed(document, data)
    constant = len({delta for _, delta in document["guarantee"]["profile"]}) == 1  # the same promise at any epsilon
    but = (*NOT_RECOMPUTED, *FACTS, *but, *((("guarantee", "epsilon"),) * constant))
    made = [(at, one) for at, one in mutants(document) if not under(at, but)]
    assert len(made) > 100
    return [at for at, one in made if confirmed(one, data)]


@pytest.mark.parametrize("name", MUTATED)
def test_no_certificate_with_a_false_value_is_confirmed(name: str) -> None:
    document = json.loads((CODED / f"{name}.certificate.json").read_text(encoding="utf-8"))
    assert survivors(document, DATA / f"{name}.csv") == []


def test_no_certificate_of_tables_with_a_false_value_is_confirmed() -> None:
    document = json.loads((CODED / "marginals-wide-tables" / "certificate.json").read_text(encoding="utf-8"))
    files = [("released", "tables", i, name) for i in range(3) for name in ("file", "sha256")]
    assert survivors(document, None, *files) == []


def test_no_certificate_of_units_with_a_false_value_is_confirmed(tmp_path: Path) -> None:
    table = pl.DataFrame({"age": np.arange(900) % 50, "person": np.arange(900) // 3})
    domain = Domain(columns={"age": Integer(lower=0, upper=99, cells=10, nulls="category")})
    asked = {"size": 50, "accept": {"poor-utility"}, "mechanism": "smoothed-histogram", "out": tmp_path / "r.csv"}
    budget, unit = Budget(epsilon=2.0, delta=1e-3), Unit("person", max_records=4)
    made = discreet.release(table, domain, budget, unit=unit, **asked)
    document = made.certificate.to_dict()
    assert document["randomness"] == "operating-system"
    assert survivors(document, tmp_path / "r.csv") == []
    for seeded in ("seeded", "trust me"):
        assert not confirmed({**document, "randomness": seeded}, tmp_path / "r.csv")
