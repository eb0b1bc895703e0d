"""Records that contradict the rules: moved one by one by a public map, wherever they come from."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget, Unit
from discreet._core.random import seeded
from discreet.audit.attacks import coded_tables
from discreet.confidential import confidential, confidential_rows
from discreet.confidential.closed import reveal
from discreet.domain import Boolean, Category, Counts, Domain, Integer, Records
from discreet.errors import DomainError
from discreet.testing.enumeration import neighbouring_pairs

COLUMNS: dict[str, Any] = {
    "a": Integer(lower=0, upper=3, nulls="category"),
    "b": Integer(lower=0, upper=4, nulls="category"),
    "label": Category(categories=["x", "y", "z"]),
    "flag": Boolean(),
}
NULL = {"null": True}
WORLDS: dict[str, dict[str, Any]] = {
    "order": {"order": ["a", "b"]},
    "a limit": {"at_most": {"b": "a"}},
    "nulls": {"nulls_together": ["a", "b"]},
    "alone": {"impossible": [{"a": [1, 2]}, {"b": [0, 4]}]},
    "a dependency on a later column": {
        "implies": [{"columns": ["label"], "determine": "a", "table": {"x": 0, "y": [1, 3], "z": NULL}}]
    },
    "several rules": {
        "order": ["a", "b"],
        "nulls_together": ["a", "b"],
        "impossible": [{"label": "x", "flag": True}, {"label": "y", "flag": False, "b": {"from": 2}}],
        "implies": [{"columns": ["flag"], "determine": "a", "table": [[True, [0, 3]]]}],
        "possible": [{"b": {"from": 1, "below": 4}}, {"b": NULL}],
    },
    "a circle": {"order": ["a", "b"], "at_most": {"b": "a"}, "impossible": [{"a": 2}]},
}


def universe(domain: Domain) -> Records:
    return domain.unflat(np.arange(domain.size or 0))


def moved_by_hand(domain: Domain, record: tuple[int, ...], order: list[str]) -> tuple[int, ...]:
    """Move a record with nothing but the list of what is allowed."""
    everything = universe(domain)
    allowed = [row for row, fits in zip(everything.rows(), domain.allowed(everything), strict=True) if fits]
    settled: dict[int, int] = {}
    for place in [domain.names.index(name) for name in order]:
        cells = {row[place] for row in allowed if all(row[i] == cell for i, cell in settled.items())}
        column, cell = domain.columns[domain.names[place]], record[place]
        values = column.values if column.on_a_line else 0
        near = [(abs(c - cell), c) for c in cells if c < values and cell < values]
        settled[place] = cell if cell in cells else min(near)[1] if near else min(cells)
    return tuple(settled.get(place, cell) for place, cell in enumerate(record))


ORDERS = {
    "alone": ["a", "b"],
    "several rules": ["flag", "a", "label", "b"],
    "a limit": ["a", "b"],
    "a dependency on a later column": ["label", "a"],
}


@pytest.mark.parametrize("world", WORLDS)
def test_every_record_of_a_universe_ends_in_an_allowed_one(world: str) -> None:
    domain = Domain(columns=COLUMNS, **WORLDS[world])
    everything = universe(domain)
    fits, moved = domain.allowed(everything), domain.repaired(everything)
    assert 0 < fits.sum() < len(fits)
    assert domain.allowed(moved).all()
    assert [a for a, fit in zip(moved.rows(), fits, strict=True) if fit] == everything.take(np.flatnonzero(fits)).rows()
    assert domain.repaired(moved).rows() == moved.rows()
    order = ORDERS.get(world, ["a", "b"])
    assert moved.rows() == [moved_by_hand(domain, row, order) for row in everything.rows()]


def test_a_record_is_moved_whatever_the_others_are() -> None:
    domain = Domain(columns=COLUMNS, **WORLDS["several rules"])
    everything = universe(domain)
    moved, shuffle = domain.repaired(everything), seeded(3).permutation(len(everything))
    assert domain.repaired(everything.take(shuffle)).rows() == moved.take(shuffle).rows()
    for place in range(0, len(everything), 7):
        alone = slice(place, place + 1)
        assert domain.repaired(everything.take(alone)).rows() == moved.take(alone).rows()
    assert everything.rows() == universe(domain).rows()  # the map changes a copy


def test_a_null_is_no_neighbour_of_the_largest_value() -> None:
    domain = Domain(columns=COLUMNS, impossible=[{"a": 3}, {"b": NULL}])
    assert domain.repaired(Records(columns=tuple(np.array([[3], [5], [0], [0]])))).rows() == [(2, 0, 0, 0)]


def test_rules_that_no_record_keeps_together_are_refused_where_they_are_declared() -> None:
    rules: dict[str, Any] = {
        "order": ["a", "b"],
        "impossible": [
            {"a": {"below": 2, "null": True}, "flag": False},
            {"flag": True},
            {"b": {"from": 2, "null": True}},
        ],
    }
    with pytest.raises(DomainError, match=r"leave no values of the columns .* together\. Correct a rule"):
        Domain(columns=COLUMNS, **rules)
    Domain(columns=COLUMNS, **{**rules, "impossible": rules["impossible"][:2]})  # as the remedy says
    long = {name: Integer(lower=0, upper=299) for name in "abc"}
    with pytest.raises(DomainError, match=r"'a', 'b', 'c', constrained together, have 27,000,000 cells.*Declare fewer"):
        Domain(columns=long, order=["a", "b", "c"])
    Domain(columns={name: Integer(lower=0, upper=299, cells=150) for name in "abc"}, order=["a", "b", "c"])


BUDGET = Budget(epsilon=8.0, delta=1e-6)
DOMAIN = Domain(columns=COLUMNS, **WORLDS["several rules"])
FRAME = pl.DataFrame(
    list(product([0, 1, 2, 3, None], [0, 2, 4, None], ["x", "y", "z"], [True, False])) * 3,
    schema={"a": pl.Int64, "b": pl.Int64, "label": pl.String, "flag": pl.Boolean},
    orient="row",
).sample(fraction=1, shuffle=True, seed=4)


def forms(folder: Path) -> dict[str, Any]:
    duckdb = pytest.importorskip("duckdb")

    FRAME.write_csv(folder / "rows.csv")
    (folder / "parts").mkdir()
    for half, name in ((FRAME[:100], "a"), (FRAME[100:], "b")):
        half.write_parquet(folder / "parts" / f"{name}.parquet")
    arrow = FRAME.to_arrow()
    return {"frame": FRAME, "CSV": folder / "rows.csv", "folder": folder / "parts", "duckdb": duckdb.from_arrow(arrow)}


def test_rows_are_moved_alike_wherever_they_are(tmp_path: Path) -> None:
    codes = Records(columns=tuple(column.encode(FRAME[name]) for name, column in DOMAIN.columns.items()))
    assert 0 < DOMAIN.allowed(codes).sum() < FRAME.height
    expected = np.bincount(DOMAIN.flat(DOMAIN.repaired(codes)), minlength=DOMAIN.size or 0)
    for name, data in forms(tmp_path).items():
        counts = reveal(confidential(data, DOMAIN))
        rows = reveal(confidential_rows(data, DOMAIN))
        parts = list(rows.parts())
        sums = rows.sums(lambda tables: [sum((cells(part) for part in tables), np.zeros(DOMAIN.size or 0, dtype=int))])
        assert counts.n == rows.n == FRAME.height  # what is public stays
        for found in (cells(counts), sum(map(cells, parts)), sums[0]):
            assert (found == expected).all(), name


def cells(part: Counts) -> Any:
    return np.bincount(DOMAIN.flat(part.records), weights=part.frequencies, minlength=DOMAIN.size or 0).astype(int)


def test_attacks_on_cells_see_the_moved_records() -> None:
    table, released = coded_tables([FRAME, FRAME.head(0)], DOMAIN)
    moved = DOMAIN.encode(FRAME)
    assert DOMAIN.allowed(moved).all()
    assert (table.codes["cells"] == np.column_stack(moved.columns)).all()
    assert len(released) == 0


def test_slots_of_units_are_moved_too() -> None:
    columns = {name: Integer(lower=0, upper=3, nulls="category") for name in "ab"}
    domain = Domain(columns=columns, order=["a", "b"])
    frame = pl.DataFrame({"a": [3, 3, 1, 2], "b": [0, 1, 1, 1], "who": [1, 1, 2, 3]})
    closed = reveal(confidential(frame, domain, unit=Unit("who", max_records=2)))
    assert dict(zip(closed.records.rows(), closed.frequencies.tolist(), strict=True)) == {
        (1, 1): 1,
        (2, 2): 1,
        (3, 3): 2,
        (4, 4): 2,
    }


# The map before a kernel: it takes neighbours to neighbours, so a profile without it stays a bound.

RULED = Domain(columns={"cell": Integer(lower=0, upper=2)}, impossible=[{"cell": 2}])
NOISE = np.exp(-np.abs(np.arange(-24, 25)) / 1.5)


def moved_counts(table: Any) -> Any:
    (codes,) = RULED.repaired(Records(columns=(np.repeat(np.arange(3), table),))).columns
    return np.bincount(codes, minlength=3)


def counts_that_follow_others(table: Any) -> Any:
    """A planted defect: records go where most others are."""
    counts = np.append(table[:2], 0)
    counts[counts.argmax()] += table[2]
    return counts


def law(counts: Any) -> Any:
    """The probabilities of noisy counts, enumerated."""
    noise = [np.concatenate((np.zeros(count), NOISE / NOISE.sum(), np.zeros(5 - count))) for count in counts]
    return np.multiply.outer(np.multiply.outer(noise[0], noise[1]), noise[2])


@pytest.mark.parametrize("relation", ["replacement", "add-remove"])
def test_the_profile_without_the_map_is_a_bound(relation: Any) -> None:
    tables, left, right = neighbouring_pairs(4, 3, relation=relation)

    def profile(counts: Any) -> Any:
        laws = [law(counts(table)) for table in tables]
        pairs = list(zip(left.tolist(), right.tolist(), strict=True))
        return [
            max(float(np.maximum(0.0, laws[i] - factor * laws[j]).sum()) for i, j in pairs) for factor in (1.1, 2.0)
        ]

    bound = np.array(profile(lambda table: table)) + 1e-12
    assert (profile(moved_counts) <= bound).all()
    assert not (profile(counts_that_follow_others) <= bound).all()


@pytest.mark.filterwarnings("ignore:the release of")
def test_moved_records_are_in_the_tables_that_are_measured() -> None:
    """A tenth of the records say what cannot be: their column is released as if each had been corrected."""
    columns = {"city": Category(categories=["c", "d"]), "region": Category(categories=["r", "s"])}
    table = {"c": "r", "d": "s"}
    domain = Domain(columns=columns, implies=[{"columns": ["city"], "determine": "region", "table": table}])
    frame = pl.DataFrame({"city": ["c"] * 500 + ["d"] * 500, "region": ["r"] * 600 + ["s"] * 400})
    released = discreet.release(frame, domain, BUDGET, mechanism="marginals", size=1000, seed=1).table()
    assert released.height == 1000
    assert abs(released.filter(city="c", region="r").height - 500) < 20
    assert abs(released.filter(city="d", region="s").height - 500) < 20
