"""DuckDB, Dask, PySpark and Ibis count where the table is, and give the counts that Polars gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Unit
from discreet.confidential import check_table, confidential, reveal_to_custodian
from discreet.confidential.closed import reveal
from discreet.confidential.count import public_size
from discreet.confidential.values import table_schema
from discreet.domain import Boolean, Category, Counts, Date, Datetime, Decimal, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DataError

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

ENGINES = ["duckdb", "dask", "pyspark", "ibis"]
CANARY = "canary424242171"
DOMAIN = Domain(
    columns={
        "income": Numeric(lower=1, upper=1e6, cells=50, spacing="log", nulls="category"),
        "age": Integer(lower=0, upper=120),
        "member": Boolean(nulls="category"),
        "born": Date(lower="1900-01-01", upper="2024-12-31", cells=20),
        "seen": Datetime(lower="2024-01-01", upper="2024-12-31", step="1h"),
        "price": Decimal(lower="0", upper="99.99", digits=2),
        "sex": Category(categories=["female", "male"], nulls="category"),
        "town": OpenLabels(),
        "score": Numeric(lower=-1, upper=1),
    }
)


def table(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    frame = DOMAIN.decode(DOMAIN.draw_base(rows, rng), rng=rng)
    frame = frame.with_columns(
        pl.Series("town", rng.choice(["a", "b"], rows)), pl.Series("score", rng.integers(-4, 5, rows) / 4)
    )
    return pl.concat([frame, frame.head(rows // 2)]).with_columns(p=pl.Series(rng.integers(0, 50, rows + rows // 2)))


def rows(counts: Counts) -> dict[tuple[Any, ...], int]:
    found = {tuple(row): int(f) for *row, f in zip(*counts.records.columns, counts.frequencies, strict=True)}
    assert len(found) == counts.distinct
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_counts_as_polars_does(engine: str, put: Any) -> None:
    frame, domain = table(), DOMAIN
    if engine == "pyspark":  # Spark's timestamps are moments
        seen = Datetime(lower="2024-01-01", upper="2024-12-31", step="1h", time_zone="UTC")
        domain = Domain(columns={**DOMAIN.columns, "seen": seen})
        frame = frame.with_columns(pl.col("seen").dt.replace_time_zone("UTC"))
    closed = confidential(put(frame, engine), domain, accept={"other-columns"})
    assert rows(reveal(closed)) == rows(reveal(confidential(frame, domain, accept={"other-columns"})))
    assert public_size(closed) == frame.height
    assert closed.provenance is not None
    assert closed.provenance.frame_kind == engine


@pytest.mark.parametrize("engine", ENGINES)
def test_units_in_an_engine(engine: str, put: Any) -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=120, nulls="category")})
    frame = table().select("age", "p")
    whole = confidential(put(frame, engine), domain, unit=Unit("p", max_records=frame.height))
    assert rows(reveal(whole)) == rows(reveal(confidential(frame, domain, unit=Unit("p", max_records=frame.height))))
    cut = confidential(put(frame, engine), domain, unit=Unit("p", max_records=2))
    assert public_size(cut) == 2 * frame["p"].n_unique()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_schema_of_an_engine(engine: str, put: Any) -> None:
    frame = table(4)
    assert table_schema(put(frame, engine)) == table_schema(frame)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pl.DataFrame({"s": ["f", CANARY]}), "not declared"),
        (pl.DataFrame({"s": ["f", None]}), "null"),
        (pl.DataFrame({"s": [3, 4]}), "not the declared category"),
        (pl.DataFrame({"t": ["f"]}), "is not in the table"),
        (pl.DataFrame({"s": ["f"], "t": [CANARY]}), "accept={'other-columns'}"),
        (pl.DataFrame({"s": ["f"]}).clear(), "has no rows"),
    ],
)
def test_bad_input_in_an_engine(engine: str, frame: pl.DataFrame, problem: str, put: Any) -> None:
    domain = Domain(columns={"s": Category(categories=["f"])})
    with pytest.raises(DataError, match=problem) as found:
        confidential(put(frame, engine), domain)
    assert CANARY not in str(found.value)
    assert found.value.__context__ is None


@pytest.mark.parametrize("engine", ENGINES)
def test_what_does_not_fit_is_found_in_every_engine(engine: str, put: Any) -> None:
    """Rows that the engine grouped count as often as they occur."""
    frame = pl.DataFrame({"age": [31, 999, 999, 31], "sex": ["f", "M", "M", "f"], "who": [1, 1, 1, 2]})
    domain = Domain(
        columns={
            "age": Integer(lower=0, upper=120, nulls="category"),
            "sex": Category(categories=["f", "m"], nulls="category"),
        }
    )
    found = reveal_to_custodian(check_table(put(frame, engine), domain, unit=Unit("who", max_records=2)))
    told = [
        (*one.columns, one.rows, [(example.value, example.rows) for example in one.examples]) for one in found.findings
    ]
    assert told == [("age", 2, [(999, 2)]), ("sex", 2, [("M", 2)])]
    assert found.rows == 4
    assert found.units is not None
    assert (found.units.units, found.units.most, found.units.cut) == (2, 3, 1)
