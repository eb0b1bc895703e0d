"""What DuckDB, Dask, PySpark and Ibis tell of a table: its types, and what is wrong with it."""

import datetime as dt
from decimal import Decimal as Exact
from typing import Any

import polars as pl
import pytest

from discreet import Unit
from discreet.confidential import check_table, confidential, reveal_to_custodian
from discreet.confidential.closed import reveal
from discreet.confidential.values import table_schema
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, OpenLabels, Time
from discreet.errors import DataError

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

ENGINES = ["duckdb", "dask", "pyspark", "ibis"]
CANARY = "canary424242171"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_schema_of_an_engine(engine: str, put: Any) -> None:
    frame = pl.DataFrame(
        {"x": [0.5], "age": [31], "member": [True], "town": ["a"], "born": [dt.date(2000, 1, 1)], "price": [Exact(1)]},
        schema_overrides={"price": pl.Decimal(10, 2)},
    ).with_columns(seen=pl.col("born").cast(pl.Datetime("us")))
    assert table_schema(put(frame, engine)) == table_schema(frame)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pl.DataFrame({"s": ["f", CANARY]}), "not declared"),
        (pl.DataFrame({"s": ["f", None]}), "null"),
        (pl.DataFrame({"s": ["f"]}).clear(), "has no rows"),
    ],
)
def test_values_that_an_engine_holds_are_not_quoted(engine: str, frame: pl.DataFrame, problem: str, put: Any) -> None:
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
    assert (found.units.units, found.units.most, found.units.cut) == (2, 3, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_are_read_as_declared_in_every_engine(engine: str, put: Any) -> None:
    """Among them a typed number that stands for a null, open labels, and a column without cells."""
    optional: dict[str, Any] = {"nulls": "category", "null_values": ["NA", "-9"], "strip": True}
    texts = {
        "day": (Date(lower="2020-01-01", upper="2020-12-31", format="%m/%d/%Y", **optional), ["3/14/2020", "NA"]),
        "at": (Time(step="15m"), ["07:35", "7:05"]),
        "paid": (Numeric(lower=0, upper=5000, thousands=",", prefix="$", **optional), ["$1,234.50", "-9"]),
        "ill": (Boolean(true="Y", false="N"), ["Y", "N"]),
        "sex": (Category(categories=["f", "m"], **optional), ["f ", " NA"]),
        "town": (OpenLabels(**optional), [" a", "-9"]),
        "age": (Integer(lower=0, upper=99, **optional), [31, -9]),
        "well": (Boolean(), [1, 0]),
    }
    domain = Domain(columns={name: column for name, (column, _) in texts.items()})
    frame = pl.DataFrame({name: values * 3 for name, (_, values) in texts.items()})
    here = reveal(confidential(frame, domain))
    there = reveal(confidential(put(frame, engine), domain))
    assert here.frequencies.tolist() == there.frequencies.tolist() == [3, 3]
    for name, codes, same in zip(domain.names, there.records.columns, here.records.columns, strict=True):
        assert codes.tolist() == same.tolist() or name == "paid", name  # a null has the code NaN there
    for name, wrong in (("day", "2020-03-14"), ("paid", "5 dollars"), ("ill", "yes"), ("well", 2)):
        with pytest.raises(DataError, match=f"column '{name}': values are not") as refusal:
            confidential(put(frame.with_columns(pl.lit(wrong).alias(name)), engine), domain)
        assert "dollars" not in str(refusal.value)
