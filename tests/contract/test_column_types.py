"""What every column type keeps: TOML, coordinates and codes there and back, and its place in the published schema."""

import json
from importlib.resources import files

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.app.declaration import ENTRIES
from discreet.domain import (
    KINDS,
    Boolean,
    Category,
    Column,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
    Time,
    column_type,
    moment_text,
)

EXAMPLES = {
    "boolean": Boolean(nulls="category"),
    "category": Category(categories=["low", "high"], ordered=True),
    "date": Date(lower="2020-01-01", upper="2020-01-31"),
    "datetime": Datetime(lower="2020-01-01", upper="2020-01-02", step="15m"),
    "decimal": Decimal(lower="0.00", upper="0.99", digits=2),
    "duration": Duration(lower="-1h", upper="2h", step="10m"),
    "integer": Integer(lower=-3, upper=9),
    "numeric": Numeric(lower=0, upper=1, grid=[0.0, 0.1, 1.0]),
    "time": Time(step="1h"),
    "open-labels": OpenLabels(nulls="category"),
}
"""A column of each type whose cells are single values, where it has any."""


def test_every_type_has_an_example() -> None:
    assert {column.kind for column in EXAMPLES.values()} == set(KINDS)


@pytest.mark.parametrize("kind", [kind for kind, column in EXAMPLES.items() if column.on_a_line])
def test_a_position_that_is_no_number_is_written_as_values_are(kind: str) -> None:
    column: Column = EXAMPLES[kind]
    codes = np.arange(column.values or 0)
    texts = [moment_text(column.kind, position) for position in column.positions(codes)]
    if type(column)._value_at is None:
        assert set(texts) == {""}
    else:
        assert column.encode(texts).tolist() == codes.tolist()


def test_the_page_asks_for_all_that_a_type_needs() -> None:
    """By the lists of ``app/declaration.py``."""
    for kind in KINDS:
        needed = {fact.key for fact in column_type(kind).public_facts}
        assert needed <= {entry.key for entry in ENTRIES if kind in entry.kinds}, kind


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_declaration_is_read_back_from_toml(kind: str) -> None:
    domain = Domain(columns={"x": EXAMPLES[kind]})
    assert Domain.from_toml(domain.to_toml()) == domain
    assert f'type = "{EXAMPLES[kind].kind}"' in domain.to_toml()


@pytest.mark.parametrize("kind", [kind for kind, column in EXAMPLES.items() if column.finite])
def test_values_have_the_codes_and_positions_that_they_were_made_of(kind: str) -> None:
    column: Column = EXAMPLES[kind]
    codes = np.arange(column.values or 0)
    values = column.decode(codes, rng=seeded(0))
    assert column.encode(values).tolist() == codes.tolist()
    assert column.encode(column.write(values).cast(pl.String)).tolist() == codes.tolist()  # as in CSV
    assert column.text_form[0]
    if column.on_a_line and column.labels is None:
        np.testing.assert_allclose(column.coordinates(values), column.positions(codes), rtol=1e-12, atol=1e-12)


def test_the_published_schema_knows_every_type() -> None:
    schema = json.loads(files("discreet.releases").joinpath("certificate.schema.json").read_text(encoding="utf-8"))
    listed = schema["$defs"]["column"]["properties"]["type"]["enum"]
    assert set(listed) == set(KINDS), "run python tools/certificate.py"


def test_a_type_that_counts_in_another_unit_than_its_positions_is_noticed() -> None:
    """The broken twin: a duration whose coordinates are Polars' own numbers."""

    class Wrong(Duration):
        def _numbers(self, values: pl.Series) -> np.ndarray:
            return values.to_physical().cast(pl.Float64).to_numpy()

    column = Wrong(lower="0s", upper="1h", step="10m")
    codes = np.arange(column.values or 0)
    values = column.decode(codes, rng=seeded(0))
    assert not np.allclose(column.coordinates(values), column.positions(codes))
