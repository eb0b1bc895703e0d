"""Counting where the table is: discreet beside the engine's own ``group by`` of the binned column, and its peak memory.

    nice -n 10 python benchmarks/scale.py [--rows 10000000]

One column of numbers in a Parquet file, cut into 100 cells. Every part runs in a process of its own, several times,
after a first time on a thousand rows, and the quickest is kept. ``group_by`` is what the engine does by itself, with
cells by rounded arithmetic, ``write`` writes the column as it is, and ``raw`` is a group by of the values themselves.
``release`` writes as many records as there are rows. ``wide`` reads twelve columns of ten cells part by part, a tenth
as many rows, and adds up the cells of all pairs, as ``marginals`` does.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _report import save, show

LOWER, UPPER, CELLS = 0.0, 1000.0, 100
WIDE = 12
WARM = 1000


def table(folder: Path, rows: int) -> None:
    """Write both tables a part at a time."""
    import duckdb

    names = ", ".join(f"CAST(floor(10 * random()) AS INTEGER) AS c{place}" for place in range(WIDE))
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(f"COPY (SELECT {UPPER} * random() AS x FROM range({rows})) TO '{folder}/x.parquet'")
    connection.execute(f"COPY (SELECT {names} FROM range({rows // 10})) TO '{folder}/wide.parquet'")


def opened(engine: str, folder: Path, name: str = "x") -> Any:
    if engine == "polars":
        import polars as pl

        return pl.scan_parquet(folder / f"{name}.parquet")
    import duckdb

    return duckdb.connect().read_parquet(f"{folder}/{name}.parquet")


def domain() -> Any:
    from discreet.domain import Domain, Numeric

    return Domain(columns={"x": Numeric(lower=LOWER, upper=UPPER, cells=CELLS)})


def group_by(engine: str, folder: Path, rows: int) -> None:
    data = opened(engine, folder)
    if engine == "polars":
        import polars as pl

        cell = (pl.col("x") * (CELLS / UPPER)).floor().cast(pl.Int32)
        assert data.group_by(cell).len().collect(engine="streaming")["len"].sum() == rows
    else:
        cells = data.project(f"CAST(floor(x * {CELLS / UPPER}) AS INTEGER) AS c")
        assert sum(row[1] for row in cells.aggregate("c, count(*)", "c").fetchall()) == rows


def write(engine: str, folder: Path, _: int) -> None:
    data = opened(engine, folder)
    if engine == "polars":
        data.sink_parquet(folder / "out.parquet")
    else:
        data.write_parquet(f"{folder}/out.parquet")


def count(engine: str, folder: Path, rows: int) -> None:
    from discreet.confidential import confidential
    from discreet.confidential._count import public_size

    assert public_size(confidential(opened(engine, folder), domain())) == rows


def raw(engine: str, folder: Path, rows: int) -> None:
    import narwhals as nw

    grouped = nw.from_native(opened(engine, folder)).group_by("x").agg(nw.len().alias("f"))
    assert grouped.collect().to_polars()["f"].sum() == rows


def release(engine: str, folder: Path, rows: int) -> None:
    import discreet

    discreet.release(
        opened(engine, folder),
        domain(),
        epsilon=1.0,
        size=rows,
        mechanism="perturbed-histogram",
        out=folder / "released.parquet",
    )


def wide(engine: str, folder: Path, rows: int) -> None:
    """Count all cells of all columns, and of all pairs, part by part."""
    import numpy as np

    from discreet.confidential import confidential_rows
    from discreet.confidential._wrapper import reveal
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


PARTS = {part.__name__: part for part in (group_by, count, raw, write, release, wide)}


def measured(part: str, engine: str, folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """Return seconds and peak memory, the quickest of several processes."""
    command = [
        sys.executable,
        __file__,
        "--part",
        part,
        "--engine",
        engine,
        "--folder",
        str(folder),
        "--rows",
        str(rows),
    ]
    found = []
    for _ in range(repeats):
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(told.splitlines()[-1]))
    return min(found, key=lambda one: one["seconds"])


def one(part: str, engine: str, folder: Path, rows: int) -> None:
    PARTS[part](engine, folder / "warm", WARM)  # loading libraries is not what is measured
    start, busy = time.perf_counter(), time.process_time()
    PARTS[part](engine, folder, rows)
    times = {"seconds": time.perf_counter() - start, "processor": time.process_time() - busy}
    print(json.dumps({**times, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def main(rows: int, repeats: int, *, without_raw: bool) -> None:
    result: dict[str, Any] = {"rows": rows}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table(folder, rows)
        (folder / "warm").mkdir()
        table(folder / "warm", WARM)
        lines = []
        for engine in ("polars", "duckdb"):
            parts = [part for part in PARTS if part != "raw" or not without_raw]
            found = {part: measured(part, engine, folder, rows, repeats) for part in parts}
            own = found["group_by"]["processor"]
            whole = own + found["write"]["processor"]
            ratios = {
                "count": found["count"]["processor"] / own,
                "release": found["release"]["processor"] / whole,
            }
            result[engine] = {**found, "ratios": ratios}
            for part, one_ in found.items():
                lines.append((f"{engine} {part}", one_["seconds"], one_["processor"], one_["peak_mib"]))
            lines.append((f"{engine} count / group by", ratios["count"], "", ""))
            lines.append((f"{engine} release / (group by + write)", ratios["release"], "", ""))
    show((f"{rows:,} rows", "seconds", "processor s", "peak MiB"), lines)
    save("scale", result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--without-raw", action="store_true", help="leave out the group by of values")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--engine", choices=("polars", "duckdb"))
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.part:
        one(given.part, given.engine, given.folder, given.rows)
    else:
        main(given.rows, given.repeats, without_raw=given.without_raw)
