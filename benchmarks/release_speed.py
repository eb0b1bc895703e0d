"""Speed and memory of the main job: count and release twelve million records.

Aims, on one numeric column of 12,000,000 float64 incomes (1,000 log-spaced cells) read from Parquet and released at
full size to Parquet, each in a fresh process on this machine:

- the command ``discreet release`` takes at most 1.8 times the processor time of Polars' own ``group_by().len()`` on the
  column plus NumPy's ``multinomial``, ``repeat`` and ``shuffle`` of the same size (the reference writes nothing and
  protects nothing, and its generator, PCG64, is not secure). The command's time is that of its whole process, start and
  imports and writing included; the reference's is that of its computation alone. Wall time is shown beside. All take
  turns, and the best run of each counts;
- its peak memory, above what the process held before reading, stays below 3 times the column at 8 bytes per value.

Two more references are shown and claim nothing. Their time is that of the whole process. One is the first with its
start, the column written as uncompressed Parquet. The other does by hand what the command does beside: its generator is
ChaCha20, it writes the column to the disk as the command does, and it hashes the file.

Modules are compiled before anything is timed, as they are in an installed package.

Run: python benchmarks/release_speed.py [--records 12000000] [--repeat 3] [--mechanism NAME ...] [--profile]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _report import save, show

MECHANISMS = ("dirichlet-multinomial", "smoothed-histogram", "perturbed-histogram")
DOMAIN = """[columns.income]
type = "numeric"
lower = 1
upper = 3e6
cells = 1000
spacing = "log"
"""
TIME_TARGET, MEMORY_TARGET = 1.8, 3.0

# Runs in a fresh process: the command itself, with the process's size before reading and at its peak.
COMMAND = """
import json, sys, time
start = time.perf_counter()
import numpy, polars, discreet.cli
def held(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))
before = held("VmRSS")
from discreet.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    if end.code:
        raise
seconds = time.perf_counter() - start
print(json.dumps({"bytes": held("VmHWM") - before, "seconds": seconds, "processor": time.process_time()}))
"""

# The reference: count with Polars, resample with NumPy.
REFERENCE = """
import json, sys, time
import numpy as np, polars as pl
from discreet._core.random import seeded
path, size = sys.argv[1], int(sys.argv[2])
rng = seeded(1)
start, busy = time.perf_counter(), time.process_time()
counted = pl.scan_parquet(path).group_by("income").len().collect()
grouped = time.perf_counter()
values, frequencies = counted["income"].to_numpy(), counted["len"].to_numpy()
draws = np.repeat(values, rng.multinomial(size, frequencies / frequencies.sum()))
repeated = time.perf_counter()
rng.shuffle(draws)
end, busy = time.perf_counter(), time.process_time() - busy
print(json.dumps({"seconds": end - start, "processor": busy, "group_by": grouped - start, "shuffle": end - repeated}))
"""

# The same, written, in a process whose start counts; and with a secure generator, synced and hashed.
REFERENCE_WRITTEN = """
import hashlib, json, os, sys, time
start = time.perf_counter()
import numpy as np, polars as pl
from discreet._core.random import secure, seeded
path, size, out, safe = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "secure"
rng = secure() if safe else seeded(1)
counted = pl.scan_parquet(path).group_by("income").len().collect()
values, frequencies = counted["income"].to_numpy(), counted["len"].to_numpy()
draws = np.repeat(values, rng.multinomial(size, frequencies / frequencies.sum()))
rng.shuffle(draws)
packed = {"compression_level": 1} if safe else {"compression": "uncompressed"}
with open(out, "wb") as file:
    pl.DataFrame({"income": draws}).write_parquet(file, **packed)
    if safe:
        file.flush()
        os.fsync(file.fileno())
if safe:
    with open(out, "rb") as file:
        hashlib.file_digest(file, "sha256")
print(json.dumps({"seconds": time.perf_counter() - start, "processor": time.process_time()}))
"""


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=12_000_000)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--mechanism", nargs="+", default=MECHANISMS)
    options.add_argument("--profile", action="store_true", help="print where the command's time goes, and stop")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, declared, out = (Path(folder) / name for name in ("incomes.parquet", "incomes.toml", "released.parquet"))
        declared.write_text(DOMAIN)
        make_incomes(data, asked.records)

        def command(mechanism: str) -> list[str]:
            facts = ["--domain", str(declared), "--epsilon", "2", "--delta", "1e-9", "--size", str(asked.records)]
            return ["release", str(data), *facts, "--mechanism", mechanism, "--out", str(out), "--json"]

        if asked.profile:
            for mechanism in asked.mechanism:
                profile(command(mechanism))
            return
        given, compiled = [str(data), str(asked.records)], Path(folder) / "compiled"
        runs = {"reference": [REFERENCE, *given]}
        runs |= {f"reference, {how}": [REFERENCE_WRITTEN, *given, str(out), how] for how in ("written", "secure")}
        runs |= {mechanism: [COMMAND, *command(mechanism)] for mechanism in asked.mechanism}
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
        for turn in range(asked.repeat + 1):  # interleaved, so that all meet the same machine
            for name, code_and_arguments in runs.items():
                for file in (out, out.with_suffix(".certificate.json")):
                    file.unlink(missing_ok=True)
                run = fresh(code_and_arguments, compiled)
                if turn:  # the first time, modules are compiled
                    found[name].append(run)
    report(found, asked.records)


def make_incomes(path: Path, records: int) -> None:
    """Write lognormal incomes, rounded to ten dollars as surveys record them."""
    import numpy as np
    import polars as pl

    from discreet._core.random import seeded

    incomes = np.exp(10.4 + 1.1 * seeded(2024).standard_normal(records))
    pl.DataFrame({"income": np.clip(10.0 * np.rint(incomes / 10.0), 1.0, 3e6)}).write_parquet(path)


def fresh(code_and_arguments: list[str], compiled: Path) -> dict[str, Any]:
    """Run code in a fresh process; return its last line as JSON, with the time of the whole process.

    ``compiled``: where modules that were compiled are kept for the next process.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(compiled)
    start = time.perf_counter()
    called = [sys.executable, "-c", *code_and_arguments]
    ended = subprocess.run(called, capture_output=True, text=True, check=False, env=kept)
    whole = time.perf_counter() - start
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return {**json.loads(ended.stdout.splitlines()[-1]), "process": whole}


def profile(arguments: list[str]) -> None:
    """Print where the command's own thread spends its time."""
    import cProfile
    import pstats

    from discreet.cli import main as run

    profiler = cProfile.Profile()
    profiler.enable()
    with contextlib.suppress(SystemExit):
        run(arguments)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def report(found: dict[str, list[dict[str, Any]]], records: int) -> None:
    """Print and keep the best times and ratios."""

    def best(kind: str, name: str) -> float:
        return float(min(run[kind] for run in found[name]))

    reference, busy = best("seconds", "reference"), best("processor", "reference")
    column = 8 * records
    rows: list[tuple[Any, ...]] = [("polars group_by + numpy", reference, 1.0, busy, 1.0, "-", "-")]
    others = {}
    for how, said in (("written", "written"), ("secure", "secure, written")):
        times = others[how] = best("process", f"reference, {how}"), best("processor", f"reference, {how}")
        name = f"the same, {said}, whole process"
        rows.append((name, times[0], times[0] / reference, times[1], times[1] / busy, "-", "-"))
    result: dict[str, Any] = {
        "records": records,
        "time_target": TIME_TARGET,
        "memory_target": MEMORY_TARGET,
        "reference_seconds": reference,
        "reference_processor": busy,
        "reference_written_processor": others["written"][1],
        "reference_secure_seconds": others["secure"][0],
        "reference_secure_processor": others["secure"][1],
        "commands": {},
        "reference_runs": {name: runs for name, runs in found.items() if name.startswith("reference")},
    }
    for mechanism, runs in found.items():
        if mechanism.startswith("reference"):
            continue
        seconds, processor = best("process", mechanism), best("processor", mechanism)
        peak = max(run["bytes"] for run in runs)
        ok = processor / busy <= TIME_TARGET and peak / column < MEMORY_TARGET
        times = seconds, seconds / reference, processor, processor / busy
        rows.append((f"discreet release, {mechanism}", *times, f"{peak / column:.2f}", "yes" if ok else "NO"))
        result["commands"][mechanism] = {
            "seconds": seconds,
            "time_ratio": seconds / reference,
            "processor": processor,
            "processor_ratio": processor / busy,
            "processor_ratio_secure": processor / others["secure"][1],
            "peak_bytes": peak,
            "memory_ratio": peak / column,
            "met": ok,
            "runs": runs,
        }
    print(f"{records:,} records of one column; the best of {len(found['reference'])}\n")
    show(("", "seconds", "ratio", "processor s", "ratio", "peak / column", "met"), rows)
    save("release_speed", result)


if __name__ == "__main__":
    main()
