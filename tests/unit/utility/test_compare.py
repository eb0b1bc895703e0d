"""Comparing a release with the confidential table: every kind of column, closed until revealed."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.confidential import Confidential, reveal_to_custodian
from discreet.confidential.opening import CALLERS
from discreet.confidential.values import column_values
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
    UnitTable,
)
from discreet.domain.column import Column
from discreet.errors import ConfidentialAccessError, DataError, DomainError, FileProblem
from discreet.utility import compare
from discreet.utility.comparison import Comparison

CANARY = 8.7654321
NOON = dt.datetime.fromisoformat("2024-07-01T12:00")


def _one(data: Any, release: Any, column: Column) -> Any:
    domain = Domain(columns={"x": column})
    return reveal_to_custodian(compare(pl.DataFrame({"x": data}), pl.DataFrame({"x": release}), domain)).columns[0]


def test_numeric_columns_are_compared_by_value_not_by_cell() -> None:
    found = _one([1.0, 2.0], [1.5, 3.5], Numeric(lower=0, upper=10, cells=1))
    assert (found.wasserstein, found.wasserstein_scaled, found.ks) == (1.0, 0.1, 0.5)
    assert (found.data["mean"], found.release["p50"]) == (1.5, 1.5)


def test_clipped_columns_are_compared_clipped() -> None:
    column = Numeric(lower=0, upper=10, cells=5, out_of_bounds="clip")
    assert _one([5.0, float("inf")], [5.0, 10.0], column).wasserstein == 0.0
    assert _one([-3, 20], [0, 10], Integer(lower=0, upper=10, out_of_bounds="clip")).wasserstein == 0.0
    days = Date(lower="2024-01-01", upper="2024-12-31", out_of_bounds="clip")
    assert _one([dt.date(2023, 5, 1)], [dt.date(2024, 1, 3)], days).wasserstein == 2.0


def test_nulls_are_counted_apart() -> None:
    column = Numeric(lower=0, upper=10, cells=5, nulls="category")
    found = _one([1.0, None, float("nan"), 1.0], [2.0, 2.0, 2.0, None], column)
    assert found.null_shares == (0.5, 0.25)
    assert found.wasserstein == 1.0
    nothing = _one([None, None], [1.0, 2.0], column)
    assert (nothing.wasserstein, nothing.ks, nothing.data) == (None, None, None)
    assert nothing.null_shares == (1.0, 0.0)


YEAR = {"lower": "2024-01-01", "upper": "2024-12-31"}
LABELS = "0 or 1 (total variation)"
DAYS = {number: dt.date(2024, 1, 1) + dt.timedelta(days=number) for number in (0, 3, 31, 34)}
LATER = [NOON + dt.timedelta(minutes=minutes) for minutes in (20, 120)]
MINUTE, LONGER = dt.timedelta(seconds=60), dt.timedelta(seconds=90)


@pytest.mark.parametrize(
    ("column", "data", "release", "distance", "metric"),
    [
        (Date(**YEAR), [DAYS[0], DAYS[31]], [DAYS[3], DAYS[34]], 3.0, "days"),
        (Datetime(**YEAR, step="1h"), LATER[:1], LATER[1:], 6000.0, "seconds"),
        (Duration(lower="0s", upper="10m", step="1m"), [LONGER], [MINUTE], 30.0, "seconds"),
        (Integer(lower=0, upper=9), [1, 2, 3], [2, 3, 4], 1.0, "the column's unit"),
        (Category(categories=("lo", "mid", "hi"), ordered=True), ["lo", "lo"], ["mid", "hi"], 0.75, "rank / (K - 1)"),
        (Category(categories=("a", "b", "c")), ["a", "a"], ["b", "a"], 0.5, LABELS),
        (Category(categories=(5, 7), nulls="category"), [5, None], [5, 7], 0.5, LABELS),
        (Boolean(), [True, False], [True, True], 0.5, LABELS),
        (OpenLabels(), ["p", "q"], ["p", "new_category_1"], 0.5, LABELS),
        (OpenLabels(nulls="category"), ["p", None], ["p", "p"], 0.5, LABELS),
    ],
)
def test_every_kind_of_column(column: Column, data: Any, release: Any, distance: float, metric: str) -> None:
    found = _one(data, release, column)
    assert found.wasserstein == pytest.approx(distance, abs=1e-12)
    assert found.metric == metric
    assert found.kind == column.kind
    assert (found.ks is None) == (metric == LABELS)


def test_decimals_and_time_zones() -> None:
    exact = pl.Series(["1.25", "2.50"]).cast(pl.Decimal(10, 2))
    assert _one(exact, [1, 3], Decimal(lower="0", upper="9.99", digits=2)).wasserstein == pytest.approx(0.375)
    column = Datetime(lower="2024-01-01", upper="2024-12-31", step="1h", time_zone="Europe/Paris")
    moments = pl.Series([NOON]).dt.replace_time_zone("Europe/Paris")
    assert _one(moments, moments.dt.convert_time_zone("UTC"), column).wasserstein == 0.0


def test_shares_of_categories() -> None:
    found = _one(["a", "a", "b", "b"], ["a", "b", "b", "b"], Category(categories=("a", "b", "c")))
    assert found.shares == {"a": (0.5, 0.25), "b": (0.5, 0.75), "c": (0.0, 0.0)}


def test_stays_closed_until_revealed_and_says_so() -> None:
    domain = Domain(
        columns={"x": Numeric(lower=0, upper=10, cells=5), "day": Date(lower="2024-01-01", upper="2024-12-31")}
    )
    table = pl.DataFrame({"x": [1.0, CANARY], "day": [dt.date(2024, 3, 1)] * 2})
    closed = compare(table, table.with_columns(pl.col("x") / 2), domain)
    assert isinstance(closed, Confidential)
    assert str(closed) == "<confidential Comparison>"
    with pytest.raises(ConfidentialAccessError):
        list(closed)  # type: ignore[call-overload]
    revealed = reveal_to_custodian(closed)
    assert isinstance(revealed, Comparison)
    text = str(revealed)
    assert text.startswith("CONFIDENTIAL: computed from the private data\n2 confidential records, 2 released")
    assert "2024-03-01" in text
    plain = revealed.to_dict()
    assert plain["confidential"] is True
    assert json.loads(json.dumps(plain))["columns"][0]["name"] == "x"
    assert CALLERS["discreet.utility.comparison"] == "for the custodian"


def test_tables_of_any_kind_and_files(tmp_path: Path) -> None:
    rng = seeded(5)
    data = pl.DataFrame({"x": rng.integers(0, 50, 1000), "other": ["z"] * 1000})
    release = pl.DataFrame({"x": rng.integers(0, 50, 300)})
    domain = Domain(columns={"x": Integer(lower=0, upper=49)})
    release.write_csv(tmp_path / "release.csv")
    release.write_parquet(tmp_path / "release.parquet")
    data.write_parquet(tmp_path / "data.parquet")
    expected = reveal_to_custodian(compare(data, release, domain))
    for left in (data.lazy(), data.to_pandas(), data.to_arrow(), tmp_path / "data.parquet"):
        for right in (release.to_pandas(), tmp_path / "release.csv", str(tmp_path / "release.parquet")):
            assert reveal_to_custodian(compare(left, right, domain)) == expected
    assert (expected.records, expected.released) == (1000, 300)


def test_counts_one_column_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.confidential.frames.BATCH", 7)
    monkeypatch.setattr("discreet.confidential.source._MOST_PARTS", 3)
    values = seeded(2).integers(0, 9, 100)
    closed = column_values(pl.DataFrame({"x": values}), "x", Integer(lower=0, upper=9))
    assert repr(closed) == "<confidential tuple>"
    domain = Domain(columns={"x": Integer(lower=0, upper=9)})
    other = compare(pl.DataFrame({"x": values}), pl.DataFrame({"x": np.sort(values)}), domain)
    assert reveal_to_custodian(other).columns[0].ks == 0.0


def test_says_which_table_is_wrong_and_no_value() -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, cells=5)})
    good, bad = pl.DataFrame({"x": [0.5]}), pl.DataFrame({"x": [0.5, CANARY]})
    with pytest.raises(DataError, match="column 'x': in the release: a value lies outside") as problem:
        compare(good, bad, domain)
    assert str(CANARY) not in str(problem.value)
    with pytest.raises(DataError, match="column 'x': a value lies outside") as problem:
        compare(bad, good, domain)
    assert str(CANARY) not in str(problem.value)
    assert problem.value.__cause__ is None
    for one, other in ((good, pl.DataFrame({"y": [1]})), (pl.DataFrame({"x": [0.5, None]}), good)):
        with pytest.raises(DataError, match="'x'"):
            compare(one, other, domain)
    with pytest.raises(FileProblem):
        compare(good, "nowhere.parquet", domain)
    with pytest.raises(DomainError, match="domain must be a Domain"):
        compare(good, good, {"x": 1})  # type: ignore[arg-type]


def test_unreadable_texts_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("x\n1\nbanana\n")
    with pytest.raises(DataError, match="not whole numbers") as problem:
        compare(path, pl.DataFrame({"x": [1]}), Domain(columns={"x": Integer(lower=0, upper=9)}))
    assert "banana" not in str(problem.value)


def test_linked_tables_are_compared_each_and_together(tmp_path: Path) -> None:
    """Of the table, rows without their own unit, a second own row and rows beyond the most count as in a release."""
    persons = UnitTable(unit="id", max_records=2, columns={"age": Category(categories=["old", "young"])})
    domain = Domain(units="homes", columns={"owned": Boolean()}, tables={"persons": persons})
    homes = pl.DataFrame({"id": ["1", "2", "3", "4", "4"], "owned": [True, True, False, False, True]})
    rows = pl.DataFrame({"id": [1, 1, 1, 2, 4, 9], "age": ["old", "old", "young", "young", "young", "old"]})
    released = {
        "homes": pl.DataFrame({"id": [1, 2], "owned": [True, False]}),
        "persons": pl.DataFrame({"id": [1, 2, 2], "age": ["old", "young", "young"]}),
    }
    for name, frame in released.items():
        frame.write_csv(tmp_path / f"{name}.csv")
    for release in (released, tmp_path):
        closed = compare({"homes": homes, "persons": rows}, release, domain, measures="tv", resamples=0)
        found = reveal_to_custodian(closed)
        assert list(found.tables) == ["homes", "persons", "homes and persons"]
        units, people, both = found.tables.values()
        assert (units.records, units.released, people.records, people.released) == (4, 2, 5, 3)
        assert [(one.of, one.release) for one in units.measures] == [
            ("owned", 0.0),  # half of both
            ("number of persons", 0.25),  # 0, 1, 1 and 2 beside 1 and 2
        ]
        assert [(one.of, one.release) for one in people.measures] == [("age", pytest.approx(2 / 5 - 1 / 3))]
        # owned and old, owned and young, not owned and young: 2, 2 and 1 of 5 beside 1, 0 and 2 of 3
        assert [one.release for one in both.measures] == [pytest.approx((1 / 15 + 6 / 15 + 7 / 15) / 2)] * 2
        assert both.measures[0].of == "1 marginal of 2 columns, mean"
        assert found.to_dict()["tables"]["persons"]["columns"][0]["name"] == "age"
