"""Tables in engines."""

import functools
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from discreet.confidential import frames

BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that runs each query once: it is not worth optimising. This halves its processor time."""


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
        .config("spark.driver.maxResultSize", "3m")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.driver.extraJavaOptions", BRIEF)
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
