"""One part of scale.py, alone in its process, so that its processor time and memory are its own.

Run by scale.py: ``python _scale_parts.py PART ENGINE FOLDER ROWS``. One line of JSON comes back. What is not measured
is not loaded: no module of the harness is.
"""

import json
import os
import shutil
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

LOWER, UPPER, CELLS = 0.0, 1000.0, 100
WIDE = 12
WARM = 1000
PART = 1_000_000


def table(folder: Path, rows: int) -> None:
    """Write both tables a part at a time."""
    import duckdb

    folder.mkdir(exist_ok=True)
    names = ", ".join(f"CAST(floor(10 * random()) AS INTEGER) AS c{place}" for place in range(WIDE))
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(f"COPY (SELECT {UPPER} * random() AS x FROM range({rows})) TO '{folder}/x.parquet'")
    connection.execute(f"COPY (SELECT {names} FROM range({rows // 10})) TO '{folder}/wide.parquet'")


@cache
def spark() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name in ("enabled", "showConsoleProgress"):
        builder = builder.config(f"spark.ui.{name}", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def opened(engine: str, folder: Path, name: str = "x") -> Any:
    """Return a table; where a file says how often, as if there were as many files of it."""
    times = folder / "times"
    files = [str(folder / f"{name}.parquet")] * (int(times.read_text()) if times.exists() else 1)
    if engine == "polars":
        import polars as pl

        return pl.scan_parquet(files)
    if engine == "spark":
        return spark().read.parquet(*files)
    import duckdb

    return duckdb.connect().read_parquet(files)


def domain() -> Any:
    from discreet.domain import Domain, Numeric

    return Domain(columns={"x": Numeric(lower=LOWER, upper=UPPER, cells=CELLS)})


def group_by(engine: str, folder: Path, rows: int) -> None:
    data = opened(engine, folder)
    if engine == "polars":
        import polars as pl

        cell = (pl.col("x") * (CELLS / UPPER)).floor().cast(pl.Int32)
        assert data.group_by(cell).len().collect(engine="streaming")["len"].sum() == rows
    elif engine == "spark":
        cells = data.selectExpr(f"CAST(floor(x * {CELLS / UPPER}D) AS INT) AS c")
        assert sum(row[1] for row in cells.groupBy("c").count().collect()) == rows
    else:
        cells = data.project(f"CAST(floor(x * {CELLS / UPPER}) AS INTEGER) AS c")
        assert sum(row[1] for row in cells.aggregate("c, count(*)", "c").fetchall()) == rows


def write(engine: str, folder: Path, _: int) -> None:
    data = opened(engine, folder)
    if engine == "polars":
        data.sink_parquet(folder / "out.parquet")
    elif engine == "spark":
        data.write.mode("overwrite").parquet(str(folder / "out"))
    else:
        data.write_parquet(f"{folder}/out.parquet")


def count(engine: str, folder: Path, rows: int) -> None:
    from discreet.confidential import confidential
    from discreet.confidential.count import public_size

    assert public_size(confidential(opened(engine, folder), domain())) == rows


def raw(engine: str, folder: Path, rows: int) -> None:
    import narwhals as nw

    grouped = nw.from_native(opened(engine, folder)).group_by("x").agg(nw.len().alias("f"))
    assert grouped.collect().to_polars()["f"].sum() == rows


def release(engine: str, folder: Path, rows: int) -> None:
    import discreet

    how: dict[str, Any] = {"out": folder / "released.parquet"}
    if engine == "spark":
        how = {"out": discreet.Output(folder / "released", partitions=max(2, rows // PART), workers=on_spark)}
    budget = discreet.Budget(epsilon=1.0)
    discreet.release(opened(engine, folder), domain(), budget, size=rows, mechanism="perturbed-histogram", **how)


def on_spark(make: Any, numbers: Any) -> Any:
    return spark().sparkContext.parallelize(numbers, len(numbers)).map(make).collect()


def wide(engine: str, folder: Path, rows: int) -> None:
    """Count all cells of all columns, and of all pairs, part by part."""
    import numpy as np

    from discreet.confidential import confidential_rows
    from discreet.confidential.closed import reveal
    from discreet.domain import Domain, Integer

    columns = {f"c{place}": Integer(lower=0, upper=9) for place in range(WIDE)}
    table = reveal(confidential_rows(opened(engine, folder, "wide"), Domain(columns=columns)))
    pairs = np.zeros((WIDE, WIDE, 100), dtype=np.int64)
    for part in table.parts():
        codes = part.records.columns
        for i in range(WIDE):
            for j in range(i):
                cells = 10 * codes[i] + codes[j]
                pairs[i, j] += np.bincount(cells, weights=part.frequencies, minlength=100).astype(np.int64)
    assert (pairs.sum(axis=2)[np.tril_indices(WIDE, -1)] == rows // 10).all()


MAIN = (group_by, count, write, release)
MORE = (raw, wide)
PARTS = {part.__name__: part for part in (*MAIN, *MORE)}


def one(part: str, engine: str, folder: Path, rows: int) -> None:
    PARTS[part](engine, folder / "warm", WARM)  # loading libraries is not what is measured
    clear(folder)
    start, busy = time.perf_counter(), processor()
    PARTS[part](engine, folder, rows)
    found = {"seconds": time.perf_counter() - start, "processor": processor() - busy}
    with open("/proc/self/status") as status:  # getrusage would count what started this process
        found["peak_mib"] = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    print(json.dumps(found))
    clear(folder)
    clear(folder / "warm")


def clear(folder: Path) -> None:
    """Remove what parts write: nothing is replaced, which would be one file more to read."""
    for name in ("out", "released"):
        shutil.rmtree(folder / name, ignore_errors=True)
        for file in folder.glob(f"{name}.*"):
            file.unlink()


def processor() -> float:
    """Return processor seconds, with those of child processes, ended or not."""
    own, told = time.process_time(), {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                told[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()
    mine = {os.getpid()}
    while more := {number for number, facts in told.items() if int(facts[1]) in mine} - mine:
        mine |= more
    ticks = sum(sum(map(int, told[number][13 if number == os.getpid() else 11 : 15])) for number in mine)
    return own + ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    one(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
