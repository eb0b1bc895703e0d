"""Counting and releasing where the table is, beside what the engine does by itself, and the peak memory of both.

    nice -n 10 python benchmarks/scale.py [--rows 10000000 100000000] [--engines polars duckdb spark] [--repeats 3]
    nice -n 10 python benchmarks/scale.py --count-only 1000000000

Claims, on one column of numbers in a Parquet file that is made for the run, cut into 100 cells:

- counting, releasing as many records as there are rows, and writing them takes at most 1.5 times as long as the
  engine's own ``group by`` of the binned column (``group_by``, cells by rounded arithmetic) plus its own writing of the
  column as it is (``write``). It is claimed for the largest number of rows, since starting takes its time once;
- peak memory is flat: ten times as many rows take at most 1.25 times as much.

Every part runs in a process of its own, after a first time on a thousand rows. The parts of an engine take turns, and
the least processor seconds (user and system, with those of all child processes) and the least wall seconds of each are
kept, so that both sides of a ratio meet the same machine. Spark runs on two local cores. Its release is in parts of a
million records, made by its workers. Peak memory is that of the Python process, and for Spark also of all its processes
together.

``raw`` is a group by of the values themselves. ``wide`` reads twelve columns of ten cells part by part, a tenth as many
rows, and adds up the cells of all pairs, as ``marginals`` does. Both are for the smallest number of rows alone.

``--count-only`` counts a tenth as many rows in one file, read ten times over as if it were ten files. The figures of
release_speed.py, run before, are copied: twelve million rows in and out, beside Polars and NumPy.

Results are added to those of earlier runs.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from _bench import RESULTS, fresh, save
from _harness import options, show, target

LOWER, UPPER, CELLS = 0.0, 1000.0, 100
WIDE = 12
WARM = 1000
PART = 1_000_000
RATIO_TARGET, MEMORY_TARGET = 1.5, 1.25


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
        how = {"out": folder / "released", "partitions": max(2, rows // PART), "workers": on_spark}
    discreet.release(opened(engine, folder), domain(), epsilon=1.0, size=rows, mechanism="perturbed-histogram", **how)


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


# -- one part, in a process of its own ---------------------------------------------------------------------------------


def one(part: str, engine: str, folder: Path, rows: int) -> None:
    PARTS[part](engine, folder / "warm", WARM)  # loading libraries is not what is measured
    clear(folder)
    watch = Watch()
    start, busy = time.perf_counter(), processor()
    PARTS[part](engine, folder, rows)
    found = {"seconds": time.perf_counter() - start, "processor": processor() - busy}
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if engine == "spark":
        found["peak_mib_together"] = watch.peak()
    print(json.dumps(found))
    clear(folder)
    clear(folder / "warm")


def clear(folder: Path) -> None:
    """Remove what parts write: nothing is replaced, which would be one file more to read."""
    for name in ("out", "released"):
        shutil.rmtree(folder / name, ignore_errors=True)
        for file in folder.glob(f"{name}.*"):
            file.unlink()


def family() -> dict[int, tuple[list[str], int]]:
    """Return this process and all below it: what the system says of each, and its bytes in memory."""
    told: dict[int, tuple[list[str], int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                facts = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            told[int(place.name)] = facts, int(facts[21]) * resource.getpagesize()
    mine = {os.getpid()}
    while more := {number for number, (facts, _) in told.items() if int(facts[1]) in mine} - mine:
        mine |= more
    return {number: told[number] for number in mine}


def processor() -> float:
    """Return processor seconds, with those of child processes, ended or not."""
    own = time.process_time()
    ticks = sum(
        sum(map(int, facts[11:15] if number != os.getpid() else facts[13:15]))
        for number, (facts, _) in family().items()
    )
    return own + ticks / os.sysconf("SC_CLK_TCK")


class Watch:
    """Watches the memory of a process and of all below it."""

    def __init__(self) -> None:
        self._most, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            self._most = max(self._most, sum(held for _, held in family().values()))

    def peak(self) -> float:
        """Stop, and return the most in MiB."""
        self._over.set()
        self._thread.join()
        return self._most / 2**20


# -- all of them -------------------------------------------------------------------------------------------------------


def measured(parts: Any, engine: str, folder: Path, rows: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return the least seconds and the largest peak of parts that take turns."""
    found: dict[str, list[dict[str, float]]] = {part.__name__: [] for part in parts}
    for _ in range(repeats):
        for part, runs in found.items():
            facts = ["--part", part, "--engines", engine, "--folder", folder, "--rows", rows]
            runs.append(fresh(__file__, *facts))
    best = {"seconds": min, "processor": min, "peak_mib": max, "peak_mib_together": max}
    return {
        part: {name: how(run[name] for run in runs) for name, how in best.items() if name in runs[0]}
        for part, runs in found.items()
    }


def ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return how many times as long as the engine's own work counting and releasing take."""
    made = {}
    for kind in ("processor", "seconds"):
        own = found["group_by"][kind]
        made[f"count_{kind}"] = found["count"][kind] / own
        made[f"release_{kind}"] = found["release"][kind] / (own + found["write"][kind])
    return made


def kept() -> dict[str, Any]:
    """Return the results of earlier runs, and what release_speed.py found."""
    path = next((path for path in (target(RESULTS / "scale.json"), RESULTS / "scale.json") if path.exists()), None)
    result = json.loads(path.read_text()) if path else {}
    result = {name: result[name] for name in ("tables", "count_only") if name in result}
    told = json.loads((RESULTS / "release_speed.json").read_text())
    result["in_and_out"] = {"records": told["records"], "time_target": told["time_target"]}
    for kind in ("time_ratio", "processor_ratio"):
        result["in_and_out"][kind] = {name: one[kind] for name, one in told["commands"].items()}
    return result


def report(result: dict[str, Any]) -> None:
    """Print and keep everything, and what is claimed of it."""
    lines: list[tuple[Any, ...]] = []
    tables = dict(sorted(result.get("tables", {}).items(), key=lambda item: int(item[0])))
    for rows, engines in tables.items():
        for engine, found in engines.items():
            told = found["ratios"]
            lines += [
                (f"{int(rows):,} {engine} {part}", times["seconds"], times["processor"], times["peak_mib"])
                for part, times in found.items()
                if part != "ratios"
            ]
            lines.append(("  count / group by", told["count_seconds"], told["count_processor"], ""))
            lines.append(("  release / (group by + write)", told["release_seconds"], told["release_processor"], ""))
    show(("rows, engine, part", "seconds", "processor s", "peak MiB"), lines)
    claims: dict[str, Any] = {"ratio_target": RATIO_TARGET, "memory_target": MEMORY_TARGET}
    if len(tables) > 1:
        small, large = tables[next(iter(tables))], tables[next(reversed(tables))]
        peaks = {
            name: [each[name]["release"]["peak_mib"] for each in (small, large)] for name in large if name in small
        }
        claims["memory_ratio"] = {name: most / least for name, (least, most) in peaks.items()}
        claims["release_ratio"] = {engine: large[engine]["ratios"]["release_processor"] for engine in large}
        claims["met"] = max(claims["release_ratio"].values()) <= RATIO_TARGET
        claims["met"] &= max(claims["memory_ratio"].values()) <= MEMORY_TARGET
        print(claims)
    save("scale", {**result, "tables": tables, **claims})


def main() -> None:
    engines = dict.fromkeys(("polars", "duckdb", "spark"))
    facts = {"rows": ([10_000_000, 100_000_000], [100_000, 200_000]), "engines": engines, "repeats": (3, 1)}
    asked = options(__doc__, **facts, without_more=False, count_only=int, part=str, folder=Path)
    if asked.part:
        one(asked.part, asked.engines[0], asked.folder, asked.rows[0])
        return
    for rows in [asked.count_only] if asked.count_only else asked.rows:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            table(folder, rows // 10 if asked.count_only else rows)
            table(folder / "warm", WARM)
            if asked.count_only:
                (folder / "times").write_text("10")
            for engine in asked.engines:
                result = kept()
                if asked.count_only:
                    result.setdefault("count_only", {"rows": rows, "from": "a file of a tenth as many, read ten times"})
                    found: dict[str, Any] = measured(MAIN[:2], engine, folder, rows, 1)
                    for kind in ("processor", "seconds"):
                        found[f"ratio_{kind}"] = found["count"][kind] / found["group_by"][kind]
                    result["count_only"][engine] = found
                    print(json.dumps(result["count_only"], indent=2))
                else:
                    found = measured(MAIN, engine, folder, rows, asked.repeats)
                    if not asked.without_more and rows == min(asked.rows) and engine != "spark":
                        found |= measured(MORE, engine, folder, rows, 1)
                    result.setdefault("tables", {}).setdefault(str(rows), {})[engine] = {
                        **found,
                        "ratios": ratios(found),
                    }
                report(result)


if __name__ == "__main__":
    main()
