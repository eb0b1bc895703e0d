"""Candidates from a public table: against brute-force neighbourhoods."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.domain import Category, Domain, Numeric, OpenLabels, Records
from discreet.errors import ParameterError
from discreet.evolution import Resampling
from discreet.evolution.api import NamedAPI
from discreet.evolution.table import api_from

DOMAIN = Domain(
    columns={"x": Numeric(lower=0, upper=1), "kind": Category(categories=["a", "b"], nulls="category")},
    metric_weights={"x": 4.0},
)
RNG = seeded(0)
FRAME = pl.DataFrame({"x": RNG.random(70), "kind": RNG.choice(["a", "b"], 70), "aside": np.zeros(70)})


def test_candidates_are_public_records_among_the_nearest() -> None:
    api = Resampling(domain=DOMAIN, table=FRAME)
    assert api.sizes == [4, 16, 64, 70]
    assert api.diameter == 5
    start = api.random(40, rng=seeded(1))
    near = api.variation(start, rng=seeded(2))
    held = {row: place for place, row in enumerate(api.table.rows())}
    assert len(held) == 70
    ranks = np.array([held[row] for row in near.rows()]).reshape(40, 5)
    for row, block in enumerate(ranks):
        one = Records(columns=tuple(np.repeat(codes[row : row + 1], 70) for codes in start.columns))
        distances = DOMAIN.distance(one, api.table)
        assert distances[block[0]] == 0
        for place, size in zip(block[1:], api.sizes, strict=True):
            assert distances[place] <= np.sort(distances)[size - 1] + 1e-12
    assert len(set(ranks[:, 4])) > 20  # the last scale is the whole table


def test_each_of_the_nearest_is_equally_likely() -> None:
    api = Resampling(domain=DOMAIN, table=FRAME)
    many = Records(columns=(np.full(8000, 0.5), np.zeros(8000, dtype=np.int64)))
    near = api.variation(many, rng=seeded(3)).take(slice(1, None, 5))
    distances = DOMAIN.distance(many.take(slice(70)), api.table)
    nearest = np.argsort(distances)[:4]
    counts = [int(np.sum(near.columns[0] == api.table.columns[0][place])) for place in nearest]
    assert sum(counts) == 8000
    # Chi-squared with 3 degrees of freedom exceeds 30.7 with probability 1e-6.
    assert sum((count - 2000) ** 2 / 2000 for count in counts) < 30.7


@pytest.mark.parametrize(("rows", "sizes"), [(2, [2]), (4, [4]), (5, [4, 5]), (16, [4, 16]), (17, [4, 16, 17])])
def test_neighbourhoods_grow_by_four_up_to_the_table(rows: int, sizes: list[int]) -> None:
    api = Resampling(domain=DOMAIN, table=FRAME.head(rows))
    assert api.sizes == sizes
    assert len(api.variation(api.random(3, rng=seeded(0)), rng=seeded(1))) == 3 * (1 + len(sizes))


def test_a_certificate_names_the_public_table_by_its_hash() -> None:
    api = Resampling(domain=DOMAIN, table=FRAME)
    same = Resampling(domain=DOMAIN, table=DOMAIN.encode(FRAME))
    other = Resampling(domain=DOMAIN, table=FRAME.head(69))
    assert api.parameters() == same.parameters() != other.parameters()
    named = api_from("resampling", api.parameters(), DOMAIN)
    assert isinstance(named, NamedAPI)
    assert named.parameters() == api.parameters()


def test_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="the public table lacks column 'kind'"):
        Resampling(domain=DOMAIN, table=FRAME.drop("kind"))
    with pytest.raises(ParameterError, match="column 'x': a value lies outside the declared bounds"):
        Resampling(domain=DOMAIN, table=FRAME.with_columns(pl.col("x") + 1))
    with pytest.raises(ParameterError, match="at least 2 rows"):
        Resampling(domain=DOMAIN, table=FRAME.head(1))
    with pytest.raises(ParameterError, match="is not a table"):
        Resampling(domain=DOMAIN, table=object())
    with pytest.raises(ParameterError, match="open labels"):
        Resampling(domain=Domain(columns={"note": OpenLabels()}), table=pl.DataFrame({"note": ["a", "b"]}))
