"""Pictures of pairs of columns: their shares beside a count by hand, and which pairs are chosen."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest

from discreet.confidential import reveal_to_custodian
from discreet.domain import Category, Integer, Numeric
from discreet.utility.columns import PairShares, confidential_pairs

COLUMNS = {
    "a": Integer(lower=0, upper=2),
    "b": Category(categories=["x", "y"], nulls="category"),
    "c": Integer(lower=0, upper=99),
    "d": Numeric(lower=0, upper=1, cells=4),
}


def found(data: pl.DataFrame, released: pl.DataFrame, most: int = 6) -> list[PairShares]:
    return reveal_to_custodian(confidential_pairs(data, released, COLUMNS, most))


def tables(seed: int, rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    b = [None if rng.random() < 0.2 else "xy"[value % 2] for value in a]
    return pl.DataFrame({"a": a, "b": b, "c": rng.integers(0, 100, rows), "d": rng.random(rows)})


def test_shares_are_those_of_a_count_by_hand() -> None:
    data, released = tables(1, 300), tables(2, 200)
    (pair,) = [one for one in found(data, released) if one.names == ("a", "b")]
    texts = {"released": released, "confidential": data}
    expected = {}
    for side, table in texts.items():
        numbers = Counter((str(a), b or "null") for a, b in table.select("a", "b").iter_rows())
        expected[side] = {key: number / table.height for key, number in numbers.items()}
        shown = {
            (first, second): getattr(pair, side)[i, j]
            for (i, first), (j, second) in product(enumerate(pair.bins[0]), enumerate(pair.bins[1]))
        }
        assert {key: share for key, share in shown.items() if share} == pytest.approx(expected[side])
    one, two = expected["released"], expected["confidential"]
    assert pair.loss == pytest.approx(sum(abs(one.get(key, 0) - two.get(key, 0)) for key in {*one, *two}) / 2)
    rows, columns = Counter(), Counter()
    for (a, b), share in two.items():
        rows[a] += share
        columns[b] += share
    alone = sum(abs(two.get((a, b), 0) - rows[a] * columns[b]) for a, b in product(rows, columns)) / 2
    assert pair.dependence == pytest.approx(alone)
    first, second, *shares = pair.largest[0]
    differences = [abs(one.get(key, 0) - two.get(key, 0)) for key in {*one, *two}]
    assert abs(shares[0] - shares[1]) == pytest.approx(max(differences))
    assert shares == pytest.approx([one.get((first, second), 0), two.get((first, second), 0)])


def test_the_strongest_pairs_come_first_and_then_those_with_the_greatest_loss() -> None:
    data, released = tables(1, 400), tables(2, 400).with_columns(pl.lit(7).alias("c"))
    pairs = found(data, released, most=1)
    every = found(data, released)
    assert {pair.names for pair in every} == set(combinations(COLUMNS, 2))
    strongest = max(every, key=lambda pair: pair.dependence)
    lost = max((pair for pair in every if pair.names != strongest.names), key=lambda pair: pair.loss)
    assert [pair.names for pair in pairs] == [strongest.names, lost.names]
    assert lost.loss > 0.9  # no confidential record in a hundred has c = 7


def test_bins_come_from_the_release_alone() -> None:
    """Another confidential table moves no end of a bin, and what is beyond them is counted as other values."""
    released = tables(2, 300).filter(pl.col("c") < 50)
    other = tables(3, 300).with_columns(pl.lit(99).alias("c"))
    for data in (tables(1, 300), other):
        (pair,) = [one for one in found(data, released) if one.names == ("a", "c")]
        assert len([name for name in pair.bins[1] if " to " in name]) <= 12
        assert "99" not in "".join(pair.bins[1])
        for shares in (pair.released, pair.confidential):
            assert shares.sum() == pytest.approx(1)
    assert pair.confidential[:, pair.bins[1].index("other values")].sum() == pytest.approx(1)


def test_a_constant_depends_on_nothing() -> None:
    table = tables(1, 100).with_columns(pl.lit(1).alias("a"))
    assert all(pair.dependence < 1e-12 for pair in found(table, table) if "a" in pair.names)
    assert all(pair.loss == 0 for pair in found(table, table))
