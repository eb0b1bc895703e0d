"""Exact Wasserstein-1 distance of 12,000,000 against 1,000,000 points: time and memory, beside SciPy and POT.

Each method runs in a process of its own. Times are the least of three calls, on the clock and of the processor. The
memory is by how much the largest resident set of the process exceeds the one that held the two samples before the first
call.
"""

from _bench import fresh, save
from _harness import script, show

METHODS = {
    "discreet": "from discreet.utility import wasserstein_1d as w1",
    "scipy": "from scipy.stats import wasserstein_distance as w1",
    "pot": "from ot import wasserstein_1d as w1",
}
SCRIPT = """
import json, sys, time
import numpy as np
{}
rng = np.random.Generator(np.random.PCG64(1))
x, y = (rng.gamma(2.0, size=int(size)) for size in sys.argv[1:])
w1(x[:100], y[:10])
peak = lambda: next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
before, runs = peak(), []
for _ in range(3):
    start, cpu = time.perf_counter(), time.process_time()
    value = w1(x, y)
    runs.append((time.perf_counter() - start, time.process_time() - cpu))
wall, cpu = map(min, zip(*runs))
print(json.dumps({{"seconds": wall, "cpu_seconds": cpu, "extra_mib": peak() - before, "value": float(value)}}))
"""


@script(points=([12_000_000, 1_000_000], [300_000, 20_000]))
def main(points: list[int]) -> None:
    found = {}
    for name, imported in METHODS.items():
        try:
            found[name] = fresh(SCRIPT.format(imported), *points)
            del found[name]["process"]
        except SystemExit as absent:
            print(f"{name}: skipped ({str(absent).strip().splitlines()[-1]})")
    show(
        ("method", "seconds", "CPU seconds", "extra MiB", "distance"),
        [(name, *list(one.values())[:3], f"{one['value']:.15g}") for name, one in found.items()],
    )
    ours, scipy = found["discreet"], found["scipy"]
    faster, share = scipy["seconds"] / ours["seconds"], ours["extra_mib"] / scipy["extra_mib"]
    print(f"\n{faster:.1f} times faster than SciPy, {share:.0%} of its memory")
    ratios = {"times_faster_than_scipy": faster, "share_of_scipy_memory": share}
    save("wasserstein_speed", {"points": points, "methods": found, **ratios})
