"""Counting: the same counts whatever the table comes as, and nothing dropped."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from forms import in_form
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Unit
from discreet.confidential import confidential, frames
from discreet.confidential.closed import reveal
from discreet.confidential.count import public_size
from discreet.confidential.values import table_schema
from discreet.domain import Boolean, Category, Counts, Date, Datetime, Decimal, Domain, Integer, Numeric, OpenLabels

MIXED = Domain(
    columns={
        "income": Numeric(lower=1, upper=1e6, cells=50, spacing="log", nulls="category"),
        "age": Integer(lower=0, upper=120, nulls="category"),
        "member": Boolean(nulls="category"),
        "born": Date(lower="1900-01-01", upper="2024-12-31", cells=20, nulls="category"),
        "seen": Datetime(lower="2024-01-01", upper="2024-12-31", step="1h", nulls="category"),
        "moment": Datetime(
            lower="2024-01-01", upper="2024-12-31", step="1h", time_zone="Europe/Paris", nulls="category"
        ),
        "price": Decimal(lower="0", upper="99.99", digits=2, nulls="category"),
        "sex": Category(categories=["female", "male"], nulls="category"),
        "code": Category(categories=[3, 1, 2], nulls="category"),
        "town": OpenLabels(nulls="category"),
        "score": Numeric(lower=-1, upper=1, nulls="category"),
    }
)


def mixed(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(11)
    records = MIXED.draw_base(rows, rng)
    frame = MIXED.decode(records, rng=rng)
    towns = pl.Series("town", rng.choice(["a", "b", "c"], rows)).set(pl.Series(rng.random(rows) < 0.1), None)
    score = pl.Series("score", rng.integers(-4, 5, rows) / 4).set(pl.Series(rng.random(rows) < 0.1), None)
    half = frame.with_columns(towns, score)
    return pl.concat([half, half.sample(rows // 2, seed=1)])


def expected(frame: pl.DataFrame, domain: Domain) -> Counter[tuple[Any, ...]]:
    columns = domain.encode(frame).columns
    return Counter(tuple(_plain(code) for code in row) for row in zip(*columns, strict=True))


def counted(counts: Counts) -> Counter[tuple[Any, ...]]:
    rows = zip(*counts.records.columns, strict=True)
    found = {tuple(_plain(code) for code in row): int(f) for row, f in zip(rows, counts.frequencies, strict=True)}
    assert len(found) == counts.distinct
    assert min(found.values()) >= 1
    return Counter(found)


def _plain(code: Any) -> Any:
    plain = code.item() if isinstance(code, np.generic) else code
    return "NaN" if isinstance(plain, float) and np.isnan(plain) else plain


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pandas arrow", "pyarrow", "parquet", "csv"])
def test_the_same_counts_from_every_kind_of_table(kind: str, tmp_path: Path) -> None:
    frame = mixed(300)
    written = frame.with_columns(pl.col("moment").dt.to_string("iso:strict")) if kind == "csv" else frame
    data = in_form(written, kind, tmp_path)
    closed = confidential(str(data) if kind == "csv" else data, MIXED)
    counts = reveal(closed)
    assert counted(counts) == expected(frame, MIXED)
    assert counts.n == public_size(closed) == frame.height
    assert [column.dtype.kind for column in counts.records.columns] == list("iiiiiiiiiOf")
    assert closed.provenance.columns == MIXED.names
    assert closed.provenance.frame_kind == {"lazy": "polars", "pandas arrow": "pandas"}.get(kind, kind)
    assert closed.provenance.path == (str(data) if kind in ("parquet", "csv") else None)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_batches_and_merges_do_not_change_the_counts(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = mixed(60 if batch == 1 else 200)
    monkeypatch.setattr(frames, "BATCH", batch)
    monkeypatch.setattr("discreet.confidential.source._PENDING", 25)
    assert counted(reveal(confidential(frame, MIXED))) == expected(frame, MIXED)
    assert counted(reveal(confidential(frame.lazy(), MIXED))) == expected(frame, MIXED)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=60), st.booleans())
@settings(max_examples=40)
def test_dense_and_sparse_tallies_agree(rows: list[tuple[int, bool]], wide: bool) -> None:
    domain = Domain(columns={"a": Integer(lower=0, upper=10**9 if wide else 3), "b": Boolean()})
    frame = pl.DataFrame(rows, schema=["a", "b"], orient="row")
    counts = reveal(confidential(frame, domain))
    assert counted(counts) == Counter((a, int(b)) for a, b in rows)
    order = domain.flat(counts.records)
    assert np.all(np.diff(order) > 0)  # sorted: the order says nothing about the rows


def test_continuous_values_come_back_as_they_are() -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=1)})
    counts = reveal(confidential(pl.DataFrame({"x": [0.3, 0.1, 0.3, -0.0, 0.0]}), domain))
    assert counts.records.columns[0].tolist() == [0.0, 0.1, 0.3]
    assert counts.frequencies.tolist() == [2, 1, 2]


def test_a_subset_of_the_columns_in_the_domains_order() -> None:
    frame = pl.DataFrame({"z": ["secret"], "b": [True], "a": [1]})
    domain = Domain(columns={"a": Integer(lower=0, upper=3), "b": Boolean()})
    counts = reveal(confidential(frame, domain, accept={"other-columns"}))
    assert [column.tolist() for column in counts.records.columns] == [[1], [1]]


@pytest.mark.parametrize("name", ["a.b", 'a"b', "é", "a b", "len", "literal", "0", "^a", "a$"])
@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "csv", "parquet"])
def test_awkward_column_names(name: str, kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({name: [1, 2, 2], "other": [1, 1, 1]})
    domain = Domain(columns={name: Integer(lower=0, upper=3)})
    counts = reveal(confidential(in_form(frame, kind, tmp_path), domain, accept={"other-columns"}))
    assert counts.records.columns[0].tolist() == [1, 2]
    assert counts.frequencies.tolist() == [1, 2]


def test_pandas_nulls_of_every_kind() -> None:
    domain = Domain(
        columns={
            "i": Integer(lower=0, upper=9, nulls="category"),
            "b": Boolean(nulls="category"),
            "s": Category(categories=["x"], nulls="category"),
            "c": Category(categories=["x"], nulls="category"),
        }
    )
    frame = pd.DataFrame(
        {
            "i": [1.0, np.nan, 1.0],
            "b": pd.array([True, None, True], dtype="boolean"),
            "s": ["x", None, "x"],
            "c": pd.Categorical(["x", None, "x"]),
        }
    )
    counts = reveal(confidential(frame, domain))
    assert counted(counts) == Counter({(1, 1, 0, 0): 2, (10, 2, 1, 1): 1})


# -- privacy units ----------------------------------------------------------------------------------------------------

VISITS = Domain(columns={"v": Integer(lower=0, upper=9, nulls="category")})


def test_units_get_their_slots() -> None:
    frame = pl.DataFrame({"p": ["a", "a", "b", "c", "c", "c", "c"], "v": [1, 1, 2, 3, 3, 3, 3]})
    closed = confidential(frame, VISITS, unit=Unit("p", max_records=2), rng=np.random.default_rng(0))
    assert counted(reveal(closed)) == Counter({(1,): 2, (2,): 1, (3,): 2, (10,): 1})
    assert public_size(closed) == 6
    assert closed.relation_group == 2
    assert closed.provenance.unit == Unit("p", max_records=2)


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow", "csv", "parquet"])
@pytest.mark.parametrize("unit_type", [pl.Int64, pl.String])
def test_units_in_every_kind_of_table(kind: str, unit_type: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"p": pl.Series(rng.integers(0, 40, 300)).cast(unit_type), "v": rng.integers(0, 10, 300)})
    units = frame["p"].n_unique()
    for slots in (1, 5, 300):
        closed = confidential(in_form(frame, kind, tmp_path), VISITS, unit=Unit("p", max_records=slots))
        counts = reveal(closed)
        assert public_size(closed) == units * slots
        held = frame.group_by("p").len()["len"].clip(upper_bound=slots).sum()
        null = counts.frequencies[counts.records.columns[0] == 10].sum()
        assert null == units * slots - held
        if slots == 300:
            values = frame.group_by("v").len().sort("v")
            assert counts.frequencies[:-1].tolist() == values["len"].to_list()


def test_no_unit_keeps_more_than_its_slots_and_only_its_own_rows() -> None:
    # Every unit holds its own values, so the released counts show what was kept of whom.
    frame = pl.DataFrame({"p": np.repeat(np.arange(30), 7), "v": np.repeat(np.arange(30), 7)})
    domain = Domain(columns={"v": Integer(lower=0, upper=29, nulls="category")})
    counts = reveal(confidential(frame, domain, unit=Unit("p", max_records=3), rng=np.random.default_rng(1)))
    assert counts.frequencies.tolist() == [3] * 30


def test_every_subset_of_rows_is_kept_equally_often() -> None:
    """Rows stay by random numbers: over all 24 orders of four of them, each pair is kept exactly four times."""

    class Orders(tuple[int, ...]):  # noqa: SLOT001
        def integers(self, low: int, high: int, *, size: int, dtype: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
            assert (low, high, size) == (0, 2**64, 4)
            return np.array(self, dtype=dtype)

    frame = pl.DataFrame({"p": [1, 1, 1, 1], "v": [0, 1, 2, 3]})
    kept: Counter[tuple[int, ...]] = Counter()
    for order in itertools.permutations(range(4)):
        rng: Any = Orders(order)
        counts = reveal(confidential(frame, VISITS, unit=Unit("p", max_records=2), rng=rng))
        kept[tuple(counts.records.columns[0].tolist())] += 1
    assert kept == dict.fromkeys(itertools.combinations(range(4), 2), 4)


def test_the_unit_may_be_a_column_of_the_domain() -> None:
    domain = Domain(columns={"p": Integer(lower=0, upper=3, nulls="category")})
    counts = reveal(confidential(pl.DataFrame({"p": [1, 1, 2]}), domain, unit=Unit("p", max_records=2)))
    assert counted(counts) == Counter({(1,): 2, (2,): 1, (4,): 1})


def test_open_and_continuous_columns_have_null_records_too() -> None:
    domain = Domain(columns={"t": OpenLabels(nulls="category"), "x": Numeric(lower=0, upper=1, nulls="category")})
    frame = pl.DataFrame({"p": [1, 2], "t": ["a", "b"], "x": [0.5, 0.25]})
    counts = reveal(confidential(frame, domain, unit=Unit("p", max_records=2)))
    assert counted(counts) == Counter({("a", 0.5): 1, ("b", 0.25): 1, (None, "NaN"): 2})


# -- names, types, and the way back -----------------------------------------------------------------------------------


def test_schema_from_names_and_types_alone(tmp_path: Path) -> None:
    frame = mixed(10)
    text = "numeric integer boolean date datetime datetime decimal string integer string numeric"
    kinds = dict(zip(MIXED.names, text.split(), strict=True))
    frame.write_parquet(tmp_path / "t.parquet")
    assert table_schema(frame) == table_schema(frame.lazy()) == table_schema(tmp_path / "t.parquet") == kinds
    assert table_schema(frame.to_arrow()) == kinds
    (tmp_path / "t.csv").write_text('a,"b ""x""",é\n1,2,3\n', encoding="utf-8")
    assert table_schema(tmp_path / "t.csv") == {"a": "unknown", 'b "x"': "unknown", "é": "unknown"}
