"""Speed and memory of the main job: count and release twelve million records.

Aims, on one numeric column of 12,000,000 float64 incomes (1,000 log-spaced cells) read from Parquet and released at
full size to Parquet, each in a fresh process on this machine, best of runs that take turns:

- the command ``discreet release`` takes at most 1.8 times the processor time of Polars' own ``group_by().len()`` on the
  column plus NumPy's ``multinomial``, ``repeat`` and ``shuffle`` of the same size. The command's time is that of its
  whole process, start and imports and writing included; the reference's is that of its computation alone;
- its peak memory, above what the process held before reading, stays below 3 times the column at 8 bytes per value.

Two more references, timed as whole processes, claim nothing: the first, written as uncompressed Parquet; and one that
does by hand what the command does beside, with ChaCha20, a synced file and its hash.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _bench import fresh, save, verdict
from _harness import script, show

from discreet._core.random import seeded

MECHANISMS = ["dirichlet-multinomial", "smoothed-histogram", "perturbed-histogram"]
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

# The reference: count with Polars, resample with NumPy; then written, and with a secure generator, synced and hashed.
REFERENCE = """
import hashlib, json, os, sys, time
start = time.perf_counter()
import numpy as np, polars as pl
from discreet._core.random import secure, seeded
path, size, out, how = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
rng = secure() if how == "secure" else seeded(1)
began, busy = time.perf_counter(), time.process_time()
counted = pl.scan_parquet(path).group_by("income").len().collect()
grouped = time.perf_counter()
values, frequencies = counted["income"].to_numpy(), counted["len"].to_numpy()
draws = np.repeat(values, rng.multinomial(size, frequencies / frequencies.sum()))
repeated = time.perf_counter()
rng.shuffle(draws)
end, busy = time.perf_counter(), time.process_time() - busy
if how == "alone":
    times = {"seconds": end - began, "processor": busy, "group_by": grouped - began, "shuffle": end - repeated}
    print(json.dumps(times))
    sys.exit()
packed = {"compression_level": 1} if how == "secure" else {"compression": "uncompressed"}
with open(out, "wb") as file:
    pl.DataFrame({"income": draws}).write_parquet(file, **packed)
    if how == "secure":
        file.flush()
        os.fsync(file.fileno())
if how == "secure":
    with open(out, "rb") as file:
        hashlib.file_digest(file, "sha256")
print(json.dumps({"seconds": time.perf_counter() - start, "processor": time.process_time()}))
"""


def incomes(records: int) -> pl.DataFrame:
    """Make lognormal incomes, rounded to ten dollars as surveys record them."""
    found = np.exp(10.4 + 1.1 * seeded(2024).standard_normal(records))
    return pl.DataFrame({"income": np.clip(10.0 * np.rint(found / 10.0), 1.0, 3e6)})


def measured(records: int, repeat: int, mechanisms: list[str], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the runs of the references and of the command, which take turns, each in a fresh process."""
    data, declared, out = (folder / name for name in ("incomes.parquet", "incomes.toml", "released.parquet"))
    declared.write_text(DOMAIN)
    incomes(records).write_parquet(data)
    facts = ["--domain", declared, "--epsilon", "2", "--delta", "1e-9", "--size", records, "--out", out, "--json"]
    hows = {"reference": "alone", "reference, written": "written", "reference, secure": "secure"}
    runs: dict[str, list[Any]] = {name: [REFERENCE, data, records, out, how] for name, how in hows.items()}
    runs |= {name: [COMMAND, "release", data, *facts, "--mechanism", name] for name in mechanisms}
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for turn in range(repeat + 1):
        for name, called in runs.items():
            for file in (out, out.with_suffix(".certificate.json")):
                file.unlink(missing_ok=True)
            run = fresh(*called, **compiled)
            if turn:  # the first time, modules are compiled
                found[name].append(run)
    return found


@script(records=(12_000_000, 200_000), repeat=(3, 1), mechanisms=MECHANISMS)
def main(records: int, repeat: int, mechanisms: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measured(records, repeat, mechanisms, Path(folder))
    best = {
        name: {kind: min(run[kind] for run in runs) for kind in ("seconds", "processor", "process")}
        for name, runs in found.items()
    }
    reference, busy = best["reference"]["seconds"], best["reference"]["processor"]
    written, secure = best["reference, written"], best["reference, secure"]
    rows: list[tuple[Any, ...]] = [("polars group_by + numpy", reference, 1.0, busy, 1.0, "-", "-")]
    for said, one in (("written", written), ("secure, written", secure)):
        ratios = one["process"], one["process"] / reference, one["processor"], one["processor"] / busy
        rows.append((f"the same, {said}, whole process", *ratios, "-", "-"))
    commands = {}
    for mechanism in mechanisms:
        seconds, processor = best[mechanism]["process"], best[mechanism]["processor"]
        peak = max(run["bytes"] for run in found[mechanism])
        memory, ok = peak / (8 * records), processor / busy <= TIME_TARGET and peak / (8 * records) < MEMORY_TARGET
        times = seconds, seconds / reference, processor, processor / busy
        rows.append((f"discreet release, {mechanism}", *times, f"{memory:.2f}", verdict(ok)))
        names = ("seconds", "time_ratio", "processor", "processor_ratio")
        told = {**dict(zip(names, times, strict=True)), "processor_ratio_secure": processor / secure["processor"]}
        commands[mechanism] = {**told, "peak_bytes": peak, "memory_ratio": memory, "met": ok, "runs": found[mechanism]}
    print(f"{records:,} records of one column; the best of {repeat}\n")
    show(("", "seconds", "ratio", "processor s", "ratio", "peak / column", "met"), rows)
    result = {
        "records": records, "time_target": TIME_TARGET, "memory_target": MEMORY_TARGET, "commands": commands,
        "reference_seconds": reference, "reference_processor": busy,
        "reference_written_processor": written["processor"],
        "reference_secure_seconds": secure["process"], "reference_secure_processor": secure["processor"],
        "reference_runs": {name: runs for name, runs in found.items() if name.startswith("reference")},
    }  # fmt: skip
    save("release_speed", result)
