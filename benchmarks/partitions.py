"""Memory and speed of a release in parts.

Claims, on a table of five columns (51,200 cells) and parts of a million records, in fresh processes on this machine:

- the peak memory of the driver is flat: ten times as many records take at most 1.25 times as much;
- a release in parts takes at most 3 times the processor time of the same release in one file.

What a worker is sent (counts, key, domain) is shown, and how many times the processor time of writing the same rows
plainly with Polars all that is: the rows are then in memory already, and nothing is drawn.

Run: python benchmarks/partitions.py [--sizes 1000000 10000000] [--workers 1 2]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _report import save, show

RECORDS, PART = 1_000_000, 1_000_000
DOMAIN = """[columns]
age = {type = "integer", lower = 0, upper = 99}
sex = {type = "category", categories = ["f", "m"]}
region = {type = "integer", lower = 1, upper = 16}
employed = {type = "boolean"}
income = {type = "numeric", lower = 1, upper = 3e6, cells = 8, spacing = "log"}
"""
MEMORY_TARGET, TIME_TARGET = 1.25, 3.0

# Runs in a fresh process: the release, with what it and its workers took.
RELEASE = """
import json, pickle, resource, sys, time
if __name__ == "__main__":
    import discreet
    data, domain, out, size, partitions, workers = sys.argv[1:]
    moved = []
    def measured(make, numbers):
        moved.append(len(pickle.dumps(make)))
        return map(make, numbers)
    made_by = measured if workers == "1" else int(workers)
    asked = {} if partitions == "0" else {"partitions": int(partitions), "workers": made_by}
    start = time.perf_counter()
    discreet.release(data, domain, epsilon=2.0, size=int(size), mechanism="perturbed-histogram", out=out, **asked)
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({
        "processor": own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime,
        "seconds": time.perf_counter() - start,
        "peak_bytes": own.ru_maxrss * 1024,
        "worker_peak_bytes": others.ru_maxrss * 1024,
        **({"moved_bytes": moved[0]} if moved else {}),
    }))
"""

# The reference: the same rows are in memory, and Polars writes them to as many files.
PLAIN = """
import json, sys, time
from pathlib import Path
import polars as pl
released, out = Path(sys.argv[1]), Path(sys.argv[2])
frames = [pl.read_parquet(file) for file in sorted(released.glob("*.parquet"))]
out.mkdir()
start, began = time.perf_counter(), time.process_time()
for number, frame in enumerate(frames):
    frame.write_parquet(out / f"{number}.parquet")
print(json.dumps({"processor": time.process_time() - began, "seconds": time.perf_counter() - start}))
"""


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    options.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    asked = options.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data, declared = Path(folder) / "people.parquet", Path(folder) / "people.toml"
        declared.write_text(DOMAIN)
        make_people(data)
        for size in asked.sizes:
            facts = [str(data), str(declared)]
            runs = {"one file": fresh(RELEASE, folder, [*facts, f"{folder}/{size}.parquet", str(size), "0", "1"])}
            for workers in asked.workers:
                out = f"{folder}/{size}-{workers}"
                parts = [str(-(-size // PART)), str(workers)]
                runs[f"{workers} processes"] = fresh(RELEASE, folder, [*facts, out, str(size), *parts])
            released = Path(folder) / f"{size}-{asked.workers[0]}"
            runs["plain"] = fresh(PLAIN, folder, [str(released), f"{released}-plain"])
            written = sum(file.stat().st_size for file in released.glob("*.parquet"))
            manifest = (released / "_manifest.json").stat().st_size
            found[str(size)] = {"bytes": written, "manifest_bytes": manifest, "runs": runs}
    report(found, [str(size) for size in asked.sizes])


def make_people(path: Path) -> None:
    """Write a million people."""
    import numpy as np
    import polars as pl

    from discreet._core.random import seeded

    rng = seeded(2026)
    pl.DataFrame(
        {
            "age": np.clip(rng.normal(42.0, 20.0, RECORDS).astype(np.int64), 0, 99),
            "sex": pl.Series(["f", "m"])[rng.integers(0, 2, RECORDS)],
            "region": np.minimum(rng.geometric(0.2, RECORDS), 16),
            "employed": rng.random(RECORDS) < 0.6,
            "income": np.clip(np.exp(10.4 + 1.1 * rng.standard_normal(RECORDS)), 1.0, 3e6),
        }
    ).write_parquet(path)


def fresh(code: str, folder: str, arguments: list[str]) -> dict[str, Any]:
    """Run code in a fresh process, from a file since its workers read it again; return its last line as JSON."""
    script = Path(folder) / "run.py"
    script.write_text(code)
    ended = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    made: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return made


def report(found: dict[str, dict[str, Any]], sizes: list[str]) -> None:
    """Print and keep times, memory and ratios."""
    rows: list[tuple[Any, ...]] = []
    for size in sizes:
        runs = found[size]["runs"]
        for name, run in runs.items():
            peak = max(run.get("peak_bytes", 0), run.get("worker_peak_bytes", 0)) / 2**20
            ratio = run["processor"] / runs["plain"]["processor"]
            rows.append((f"{int(size):,} {name}", run["processor"], run["seconds"], ratio, peak or "-"))
    show(("", "processor s", "s", "times plain", "peak MiB"), rows)
    first, last = found[sizes[0]]["runs"], found[sizes[-1]]["runs"]
    parts = [name for name in last if name.endswith("processes")]
    memory = max(last[name]["peak_bytes"] / first[name]["peak_bytes"] for name in parts)
    slower = max(last[name]["processor"] / last["one file"]["processor"] for name in parts)
    print(
        f"\nmemory {memory:.2f} times (at most {MEMORY_TARGET}), processor {slower:.2f} times (at most {TIME_TARGET})"
    )
    save(
        "partitions",
        {
            "records": RECORDS,
            "part": PART,
            "memory_target": MEMORY_TARGET,
            "time_target": TIME_TARGET,
            "memory_ratio": memory,
            "time_ratio": slower,
            "met": memory <= MEMORY_TARGET and slower <= TIME_TARGET,
            "sizes": found,
        },
    )


if __name__ == "__main__":
    main()
