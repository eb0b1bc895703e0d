"""Memory and speed of a release in parts.

Claims, on a table of five columns (51,200 cells) and parts of a million records, in fresh processes on this machine:

- the peak memory of the driver is flat: ten times as many records take at most 1.25 times as much;
- a release in parts takes at most 3 times the processor time of the same release in one file.

What a worker is sent (shares, key, domain) is shown, and how many times the processor time of writing the same rows
plainly with Polars all that is: the rows are then in memory already, and nothing is drawn.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _bench import fresh, save
from _harness import script, show

from discreet._core.random import seeded

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
    budget, files = discreet.Budget(epsilon=2.0), discreet.Output(out, **asked)
    discreet.release(data, domain, budget, size=int(size), mechanism="perturbed-histogram", out=files)
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


def people() -> pl.DataFrame:
    """Make a million people."""
    rng = seeded(2026)
    return pl.DataFrame(
        {
            "age": np.clip(rng.normal(42.0, 20.0, RECORDS).astype(np.int64), 0, 99),
            "sex": pl.Series(["f", "m"])[rng.integers(0, 2, RECORDS)],
            "region": np.minimum(rng.geometric(0.2, RECORDS), 16),
            "employed": rng.random(RECORDS) < 0.6,
            "income": np.clip(np.exp(10.4 + 1.1 * rng.standard_normal(RECORDS)), 1.0, 3e6),
        }
    )


def measured(size: int, workers: list[int], folder: Path) -> dict[str, Any]:
    """Return what releases of a size take, in one file and in parts, and what is plainly written."""
    release = folder / "run.py"  # a file, since workers read it again
    release.write_text(RELEASE)
    facts = [str(release), folder / "people.parquet", folder / "people.toml"]
    runs = {"one file": fresh(*facts, folder / f"{size}.parquet", size, 0, 1)}
    for count in workers:
        runs[f"{count} processes"] = fresh(*facts, folder / f"{size}-{count}", size, -(-size // PART), count)
    released = folder / f"{size}-{workers[0]}"
    runs["plain"] = fresh(PLAIN, released, f"{released}-plain")
    for run in runs.values():
        del run["process"]
    written = sum(file.stat().st_size for file in released.glob("*.parquet"))
    return {"bytes": written, "manifest_bytes": (released / "_manifest.json").stat().st_size, "runs": runs}


@script(sizes=([1_000_000, 10_000_000], [200_000, 400_000]), workers=[1, 2])
def main(sizes: list[int], workers: list[int]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "people.toml").write_text(DOMAIN)
        people().write_parquet(folder / "people.parquet")
        found = {str(size): measured(size, workers, folder) for size in sizes}
    rows = []
    for size, one in found.items():
        for name, run in one["runs"].items():
            ratio = run["processor"] / one["runs"]["plain"]["processor"]
            rows.append({"": f"{int(size):,} {name}", **run, "times plain": ratio})
    show(("", "processor", "seconds", "times plain", "peak_bytes", "worker_peak_bytes"), rows)
    first, last = (found[str(size)]["runs"] for size in (sizes[0], sizes[-1]))
    parts = [name for name in last if name.endswith("processes")]
    memory = max(last[name]["peak_bytes"] / first[name]["peak_bytes"] for name in parts)
    slower = max(last[name]["processor"] / last["one file"]["processor"] for name in parts)
    print(f"memory {memory:.2f} times, at most {MEMORY_TARGET}; processor {slower:.2f} times, at most {TIME_TARGET}")
    targets = {"memory_target": MEMORY_TARGET, "time_target": TIME_TARGET}
    ratios = {"memory_ratio": memory, "time_ratio": slower, "met": memory <= MEMORY_TARGET and slower <= TIME_TARGET}
    save("partitions", {"records": RECORDS, "part": PART, **targets, **ratios, "sizes": found})
