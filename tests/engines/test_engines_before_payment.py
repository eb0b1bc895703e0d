"""What an engine's names, types and files show is found before anything is reserved; its own reason is told."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from discreet import Budget, Ledger, release
from discreet.confidential import tables
from discreet.confidential.count import Rows
from discreet.domain import Category, Domain, Numeric
from discreet.errors import DataError, DiscreetError

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

CANARY = "canary424242171"
DOMAIN = Domain(columns={"x": Numeric(lower=0, upper=1000, cells=10), "r": Category(categories=["a", "b"])})
TABLE = pl.DataFrame({"x": [i * 0.5 for i in range(1000)], "r": ["a", "b"] * 500})
SEEN = ["duckdb", "ibis", "lazy"]
"""Whose files are looked at in every pass."""


def released(data: Any, ledger: Ledger) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = {"size": 50, "mechanism": "perturbed-histogram", "accept": {"data-dependent-refusal"}}
        return release(data, DOMAIN, Budget(epsilon=1.0), ledger=ledger, **asked)


def ledger_at(folder: Path) -> Ledger:
    return Ledger.create(folder / "x.ledger", dataset="d", epsilon=10)


def entries(ledger: Ledger) -> list[str]:
    return [event["state"] for event in ledger.log()[1:]]


@pytest.fixture
def scan(request: pytest.FixtureRequest) -> Any:
    """Open a folder of Parquet files in an engine."""

    def scan(folder: Path, engine: str) -> Any:
        if engine == "lazy":
            return pl.scan_parquet(sorted(folder.iterdir()))
        if engine == "duckdb":
            return pytest.importorskip("duckdb").read_parquet(f"{folder}/*.parquet")
        if engine == "ibis":
            return pytest.importorskip("ibis").duckdb.connect().read_parquet(f"{folder}/*.parquet")
        if engine == "dask":
            return pytest.importorskip("dask.dataframe").read_parquet(folder)
        return request.getfixturevalue("spark").read.parquet(str(folder))

    return scan


def folder_of(place: Path) -> Path:
    place.mkdir()
    for number in range(2):
        TABLE.write_parquet(place / f"part-{number}.parquet")
    return place


def unlink(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def spoil(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


@pytest.mark.parametrize("engine", ["duckdb", "ibis", "dask", "pyspark", "lazy"])
@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (TABLE.drop("r"), "'r': is not in the table"),
        (
            TABLE.with_columns(z=pl.lit(CANARY)),
            r"'z': is in the table but not in the domain.*accept=\{'other-columns'\}",
        ),
        (TABLE.with_columns(x=pl.col("x") > 0), "'x': holds Boolean values, not the declared numeric"),
        (TABLE.with_columns(r=pl.col("x")), "'r': holds Float64 values, not the declared category"),
    ],
)
def test_names_and_types_are_looked_at_before_anything_is_reserved(
    tmp_path: Path, engine: str, frame: pl.DataFrame, problem: str, put: Any
) -> None:
    ledger = ledger_at(tmp_path)
    with pytest.raises(DataError, match=problem) as found:
        released(put(frame, engine), ledger)
    assert entries(ledger) == []
    assert "This try" not in str(found.value)
    assert CANARY not in str(found.value)
    assert found.value.__context__ is None


@pytest.mark.parametrize("engine", ["duckdb", "ibis", "dask", "pyspark", "lazy"])
@pytest.mark.parametrize("change", [unlink, empty, spoil])
def test_a_lost_or_broken_file_is_found_before_anything_is_reserved(
    tmp_path: Path, engine: str, change: Callable[[Path], None], scan: Any
) -> None:
    ledger, folder = ledger_at(tmp_path), folder_of(tmp_path / "t")
    data = scan(folder, engine)
    change(folder / "part-1.parquet")
    if change is unlink and engine in ("duckdb", "ibis"):  # whose pattern does not say what there was
        change(folder / "part-0.parquet")
    with pytest.raises(DiscreetError) as found:
        released(data, ledger)
    assert "a file of it" in str(found.value)
    assert entries(ledger) == []


@pytest.mark.parametrize("engine", SEEN)
def test_a_file_that_changes_after_it_was_opened_is_noticed(
    tmp_path: Path, engine: str, scan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost before the first pass; replaced between two passes by one of as many rows; joined by another one."""
    monkeypatch.setattr("discreet.confidential.count._KEPT", -1)  # so that codes are read again
    changed = "changed while it was read"
    folder = folder_of(tmp_path / "t")
    source = tables.open_source(scan(folder, engine))
    (folder / "part-1.parquet").unlink()
    with pytest.raises(DataError, match=changed):
        released(source, ledger_at(tmp_path))
    rows = Rows(tables.open_source(scan(folder, engine)), DOMAIN)
    assert sum(part.n for part in rows.parts()) == TABLE.height
    TABLE.reverse().write_parquet(folder / "part-0.parquet")
    with pytest.raises(DataError, match=changed):
        list(rows.parts())
    if engine != "lazy":
        source = tables.open_source(scan(folder, engine))
        TABLE.write_parquet(folder / "part-2.parquet")
        with pytest.raises(DataError, match=changed):
            released(source, ledger_at(tmp_path / "t"))


# -- the engine's own reason ------------------------------------------------------------------------------------------


def closed_duckdb(folder: Path) -> Any:
    connection = pytest.importorskip("duckdb").connect()
    relation = connection.read_parquet(f"{folder}/*.parquet")
    connection.close()
    return relation


def raising_duckdb(folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    text = f"CAST(error('{CANARY}' || CAST(x AS VARCHAR)) AS DOUBLE)"
    return duckdb.sql(f"SELECT CASE WHEN x > 499 THEN {text} ELSE x END AS x, r FROM '{folder}/*.parquet'")


def raising_dask(folder: Path) -> Any:
    dask = pytest.importorskip("dask.dataframe")

    def fail(part: Any) -> Any:
        raise OSError(28, f"{CANARY} {part['x'].max()}")

    return dask.read_parquet(folder).map_partitions(fail, meta=dask.read_parquet(folder)._meta)


@pytest.mark.parametrize(
    ("data", "reason", "paid"),
    [
        (closed_duckdb, "(the connection failed or was closed)", False),
        (raising_duckdb, "the table: could not be read. Check that duckdb can read it", True),
        (raising_dask, "(no space left on device)", True),
    ],
)
def test_a_reason_holds_no_value(tmp_path: Path, data: Any, reason: str, paid: bool) -> None:
    ledger = ledger_at(tmp_path)
    with pytest.raises(DataError) as found:
        released(data(folder_of(tmp_path / "t")), ledger)
    told = str(found.value)
    assert reason in told
    assert CANARY not in told
    assert "499" not in told
    assert ("This try cost epsilon 1" in told) == paid == bool(entries(ledger))
    assert found.value.__context__ is None


def test_spark_says_why_it_does_not_read(tmp_path: Path, spark: Any) -> None:
    """A Python worker that fails with a value, and a file that vanishes after it was opened."""
    ledger, folder = ledger_at(tmp_path), folder_of(tmp_path / "t")
    frame = spark.read.parquet(str(folder))

    def fail(batches: Any) -> Any:
        for batch in batches:
            raise ValueError(CANARY + str(batch.num_rows))
            yield batch

    with pytest.raises(DataError) as found:
        released(frame.mapInArrow(fail, frame.schema), ledger)
    assert CANARY not in str(found.value)
    assert "This try cost epsilon 1" in str(found.value)
    source = tables.open_source(spark.read.parquet(str(folder)))
    (folder / "part-1.parquet").unlink()
    with pytest.raises(DataError, match=r"a file of it is gone|changed while.* This try cost epsilon 1"):
        released(source, ledger)


def test_a_release_of_dask_is_shown_without_jinja(monkeypatch: pytest.MonkeyPatch, put: Any, tmp_path: Path) -> None:
    made = released(put(TABLE, "dask"), ledger_at(tmp_path))

    def missing(_: Any) -> str:
        raise ImportError

    monkeypatch.setattr(type(made.records), "_repr_html_", missing)
    assert "Dask DataFrame Structure" in made._repr_html_()
