"""Tables of every kind of column: the ground distance exactly, variations that stay in the domain; public tables."""

import datetime as dt
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._core.random import seeded
from discreet.domain import (
    Boolean,
    Category,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
    Records,
)
from discreet.domain.records import ground_embedding
from discreet.errors import ParameterError
from discreet.evolution import Resampling, Table, api_from
from discreet.evolution.api import NamedAPI

EVERY_KIND = {
    "continuous": Numeric(lower=-5, upper=3),
    "cells": Numeric(lower=1, upper=1000, cells=7, spacing="log", nulls="category"),
    "grid": Numeric(lower=0, upper=1, grid=[0.0, 0.1, 0.9]),
    "step": Numeric(lower=0, upper=2, step=0.25, nulls="category"),
    "nullable": Numeric(lower=0, upper=1, nulls="category"),
    "count": Integer(lower=0, upper=9),
    "price": Decimal(lower="0", upper="9.99", digits=2, nulls="category"),
    "day": Date(lower="2020-01-01", upper="2020-12-31", nulls="category"),
    "moment": Datetime(lower="2020-01-01", upper="2021-01-01", step="1s"),
    "length": Duration(lower="0s", upper="1h", step="1m", cells=6),
    "size": Category(categories=["s", "m", "l"], ordered=True, nulls="category"),
    "region": Category(categories=["n", "e", "s", "w"], nulls="category"),
    "one": Category(categories=["only"]),
    "flag": Boolean(),
}
WEIGHTS = {"count": 2.0, "flag": 0.25, "region": 0.0, "nullable": 3.0}
DOMAIN = Domain(columns=EVERY_KIND, metric_weights=WEIGHTS)


def test_the_embedding_is_isometric_to_the_ground_distance() -> None:
    table = Table(domain=DOMAIN, null_share=0.4)
    a, b = table.random(500, rng=seeded(0)), table.random(500, rng=seeded(1))
    apart = np.abs(table.embed(a) - table.embed(b)).sum(axis=1)
    assert apart == pytest.approx(DOMAIN.distance(a, b), abs=1e-12)
    assert apart.max() <= table.diameter == 15.25
    continuous = a.columns[list(EVERY_KIND).index("nullable")]
    assert 150 < np.isnan(continuous).sum() < 250  # nulls did occur


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1) | st.none(), min_size=2, max_size=2), st.floats(0.1, 10))
def test_nulls_are_at_distance_one_from_every_value(values: list[float | None], weight: float) -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, nulls="category")}, metric_weights={"x": weight})
    points = ground_embedding(domain, Records(columns=(np.array([np.nan if x is None else x for x in values]),)))
    x, y = values
    expected = abs(x - y) if x is not None and y is not None else float((x is None) != (y is None))
    assert np.abs(points[0] - points[1]).sum() == pytest.approx(weight * expected, abs=1e-12)


def test_variations_stay_in_the_domain_and_keep_the_record_first() -> None:
    table = Table(domain=DOMAIN, levels=4, each=3)
    start = table.random(60, rng=seeded(2))
    near = table.variation(start, rng=seeded(3))
    assert len(near) == 60 * 13
    for codes, first in zip(near.columns, start.columns, strict=True):
        assert codes.dtype == first.dtype
        assert np.array_equal(codes[::13], first, equal_nan=codes.dtype == np.float64)
    again = DOMAIN.encode(DOMAIN.decode(near, rng=seeded(4)))
    for codes, back in zip(near.columns, again.columns, strict=True):
        assert np.array_equal(codes, back, equal_nan=codes.dtype == np.float64)


def test_every_scale_moves_by_its_share() -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=8), "flag": Boolean(base={"weights": [1, 3]})})
    table = Table(domain=domain, levels=3, each=2)
    count = 20_000
    near = table.variation(Records(columns=(np.full(count, 4.0), np.zeros(count, dtype=np.int64))), rng=seeded(5))
    x, flag = (codes.reshape(count, 7) for codes in near.columns)
    for level in (1, 2, 3):
        both, alone = 2 * level - 1, 2 * level
        share = 0.5**level
        # A redraw gives true with probability 3/4. Five standard errors: a true law fails with probability 1e-6, one
        # with half or twice the probability passes with far less.
        for place, expected in ((both, share * 0.75), (alone, share * 0.75 / 2)):
            assert abs(flag[:, place].mean() - expected) < 5 * math.sqrt(expected / count)
        moved = x[:, alone] != 4
        assert abs(moved.mean() - 0.5) < 5 * 0.5 / math.sqrt(count)
        assert not np.any(moved & (flag[:, alone] == 1))  # one column alone
        if level == 3:  # clipping is four standard deviations away
            assert x[:, both].std() == pytest.approx(8 * share, rel=5 / math.sqrt(2 * count))


def test_nulls_come_and_go() -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, nulls="category")})
    table = Table(domain=domain, levels=1, each=1, null_share=0.25)
    count = 20_000
    assert abs(np.isnan(table.random(count, rng=seeded(6)).columns[0]).mean() - 0.25) < 5 * 0.44 / math.sqrt(count)
    for held, expected in ((np.nan, 1 - 0.5 * 0.75), (0.5, 0.5 * 0.25)):
        near = table.variation(Records(columns=(np.full(count, held),)), rng=seeded(7)).columns[0][1::2]
        assert abs(np.isnan(near).mean() - expected) < 5 * 0.5 / math.sqrt(count)


def test_a_date_is_embedded_by_its_place_in_the_declared_range() -> None:
    domain = Domain(columns={"day": Date(lower="2020-01-01", upper="2020-01-11")})
    codes = domain.columns["day"].encode([dt.date(2020, 1, 1), dt.date(2020, 1, 4), dt.date(2020, 1, 11)])
    assert ground_embedding(domain, Records(columns=(codes,)))[:, 0] == pytest.approx([0, 0.3, 1])


def test_open_labels_and_wrong_parameters_are_refused() -> None:
    words = Domain(columns={"note": OpenLabels()})
    with pytest.raises(ParameterError, match="column 'note': the API table cannot invent or compare open labels"):
        Table(domain=words)
    with pytest.raises(ParameterError, match="open labels"):
        Resampling(domain=words, table=pl.DataFrame({"note": ["a", "b"]}))
    for wrong in ({"levels": 0}, {"levels": 2.0}, {"each": True}, {"null_share": 1.5}, {"null_share": math.nan}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            Table(domain=DOMAIN, **wrong)


def test_parameters_of_numpy_are_plain() -> None:
    domain = Domain(columns={"a": Integer(lower=0, upper=9)})
    made = Table(domain=domain, levels=np.int64(3), each=np.uint8(2), null_share=np.float32(0.25))
    assert repr(made.parameters()) == repr(Table(domain=domain, levels=3, each=2, null_share=0.25).parameters())


# -- candidates from a public table, against brute-force neighbourhoods ------------------------------------------------

MIXED = Domain(
    columns={"x": Numeric(lower=0, upper=1), "kind": Category(categories=["a", "b"], nulls="category")},
    metric_weights={"x": 4.0},
)
RNG = seeded(0)
FRAME = pl.DataFrame({"x": RNG.random(70), "kind": RNG.choice(["a", "b"], 70), "aside": np.zeros(70)})


def test_candidates_are_public_records_among_the_nearest() -> None:
    api = Resampling(domain=MIXED, table=FRAME)
    assert api.sizes == [4, 16, 64, 70]
    assert api.diameter == 5
    start = api.random(40, rng=seeded(1))
    near = api.variation(start, rng=seeded(2))
    held = {row: place for place, row in enumerate(api.table.rows())}
    assert len(held) == 70
    ranks = np.array([held[row] for row in near.rows()]).reshape(40, 5)
    for row, block in enumerate(ranks):
        one = Records(columns=tuple(np.repeat(codes[row : row + 1], 70) for codes in start.columns))
        distances = MIXED.distance(one, api.table)
        assert distances[block[0]] == 0
        for place, size in zip(block[1:], api.sizes, strict=True):
            assert distances[place] <= np.sort(distances)[size - 1] + 1e-12
    assert len(set(ranks[:, 4])) > 20  # the last scale is the whole table


def test_each_of_the_nearest_is_equally_likely() -> None:
    api = Resampling(domain=MIXED, table=FRAME)
    many = Records(columns=(np.full(8000, 0.5), np.zeros(8000, dtype=np.int64)))
    near = api.variation(many, rng=seeded(3)).take(slice(1, None, 5))
    distances = MIXED.distance(many.take(slice(70)), api.table)
    nearest = np.argsort(distances)[:4]
    counts = [int(np.sum(near.columns[0] == api.table.columns[0][place])) for place in nearest]
    assert sum(counts) == 8000
    # Chi-squared with 3 degrees of freedom exceeds 30.7 with probability 1e-6.
    assert sum((count - 2000) ** 2 / 2000 for count in counts) < 30.7


@pytest.mark.parametrize(("rows", "sizes"), [(2, [2]), (4, [4]), (5, [4, 5]), (16, [4, 16]), (17, [4, 16, 17])])
def test_neighbourhoods_grow_by_four_up_to_the_table(rows: int, sizes: list[int]) -> None:
    api = Resampling(domain=MIXED, table=FRAME.head(rows))
    assert api.sizes == sizes
    assert len(api.variation(api.random(3, rng=seeded(0)), rng=seeded(1))) == 3 * (1 + len(sizes))


def test_a_certificate_names_the_public_table_by_its_hash() -> None:
    api = Resampling(domain=MIXED, table=FRAME)
    same = Resampling(domain=MIXED, table=MIXED.encode(FRAME))
    other = Resampling(domain=MIXED, table=FRAME.head(69))
    assert api.parameters() == same.parameters() != other.parameters()
    named = api_from("resampling", api.parameters(), MIXED)
    assert isinstance(named, NamedAPI)
    assert named.parameters() == api.parameters()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (FRAME.drop("kind"), "the public table lacks column 'kind'"),
        (FRAME.with_columns(pl.col("x") + 1), "column 'x': a value lies outside the declared bounds"),
        (FRAME.head(1), "at least 2 rows"),
        (object(), "is not a table"),
    ],
)
def test_tables_that_do_not_fit_are_refused(table: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Resampling(domain=MIXED, table=table)
