"""Tables of every kind of column: the ground distance exactly, and variations that stay in the domain."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
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
from discreet.evolution import Table

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
    with pytest.raises(ParameterError, match="column 'note': the API table cannot invent or compare open labels"):
        Table(domain=Domain(columns={"note": OpenLabels()}))
    for wrong in ({"levels": 0}, {"levels": 2.0}, {"each": True}, {"null_share": 1.5}, {"null_share": math.nan}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            Table(domain=DOMAIN, **wrong)


def test_parameters_of_numpy_are_plain() -> None:
    domain = Domain(columns={"a": Integer(lower=0, upper=9)})
    made = Table(domain=domain, levels=np.int64(3), each=np.uint8(2), null_share=np.float32(0.25))
    assert repr(made.parameters()) == repr(Table(domain=domain, levels=3, each=2, null_share=0.25).parameters())
