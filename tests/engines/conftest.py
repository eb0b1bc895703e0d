"""Tables in engines."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from discreet.confidential import frames


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("PySpark needs Java, and there is none")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connection() -> Any:
    """Open DuckDB once."""
    return functools.cache(lambda duckdb: duckdb.connect())


@pytest.fixture
def put(request: pytest.FixtureRequest) -> Any:
    """Put a Polars frame in an engine."""

    def put(frame: pl.DataFrame, engine: str) -> Any:
        if engine == "lazy":
            return frame.lazy()
        if engine == "duckdb":
            duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
            return request.getfixturevalue("connection")(duckdb).from_arrow(frame.to_arrow())
        if engine == "dask":
            dask = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
            return dask.from_pandas(frame.to_pandas(use_pyarrow_extension_array=True), npartitions=3)
        if engine == "ibis":
            ibis = pytest.importorskip("ibis", reason="Ibis is not installed")
            return ibis.memtable(frame.to_arrow())
        session = request.getfixturevalue("spark")
        return session.createDataFrame(frame.to_arrow())

    return put


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what is grouped raw."""
    found: list[str] = []
    grouped = frames._grouped

    def watched(frame: Any, columns: Any, broken: Any) -> Any:
        found.extend(columns)
        return grouped(frame, columns, broken)

    monkeypatch.setattr(frames, "_grouped", watched)
    return found


MATRIX = pytest.StashKey[dict[str, dict[str, str]]]()
TRIPS = pytest.StashKey[dict[str, list[tuple[str, str]]]]()


@pytest.fixture
def matrix(request: pytest.FixtureRequest) -> dict[str, dict[str, str]]:
    """Return what is told at the end: for each engine, by the name of a column, how many cells have other counts."""
    return request.config.stash.setdefault(MATRIX, {})


@pytest.fixture
def trips(request: pytest.FixtureRequest) -> dict[str, list[tuple[str, str]]]:
    """Return what is told at the end: for each library, by a column's type, with which type it comes back."""
    return request.config.stash.setdefault(TRIPS, {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the matrices of engines, where more of them were there than for the usual test-suite."""
    trips = config.stash.get(TRIPS, {})
    if len(trips) > 5:
        terminalreporter.section("types of released tables (the same as those of the table that came in?)")
        for library, told in trips.items():
            terminalreporter.write_line(f"{library}: {sum(answer == 'same' for _, answer in told)} of {len(told)}")
            for name, answer in told:
                terminalreporter.write_line(f"    {name:60} {answer}")
    found = config.stash.get(MATRIX, {})
    if len(found) < 3:
        return
    terminalreporter.section("cells with other counts than in memory (and what leaves the engine)")
    names = list(dict.fromkeys(name for told in found.values() for name in told))
    for row in ("", *names):
        cells = [(told[row] if row else engine).ljust(18) for engine, told in found.items()]
        terminalreporter.write_line(f"{row:36} {' '.join(cells)}".rstrip())
