"""Exact Wasserstein-1 distance of 12,000,000 against 1,000,000 points: time and memory, beside SciPy and POT.

Run: python benchmarks/wasserstein_speed.py

Each method runs in a process of its own. Times are the least of three calls, on the clock and of the processor. The
memory is by how much the largest
resident set of the process exceeds the one that held the two samples before the first call.
"""

from __future__ import annotations

import json
import subprocess
import sys

from _report import save, show

LARGE, SMALL = 12_000_000, 1_000_000
METHODS = {
    "discreet": "from discreet.utility import wasserstein_1d as w1",
    "scipy": "from scipy.stats import wasserstein_distance as w1",
    "pot": "from ot import wasserstein_1d as w1",
}
SCRIPT = """
import json, time, resource
import numpy as np
{imported}
rng = np.random.Generator(np.random.PCG64(1))
x, y = rng.gamma(2.0, size={large}), rng.gamma(2.0, size={small})
w1(x[:100], y[:10])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, runs = peak(), []
for _ in range(3):
    start, cpu = time.perf_counter(), time.process_time()
    value = w1(x, y)
    runs.append((time.perf_counter() - start, time.process_time() - cpu))
wall, cpu = map(min, zip(*runs))
print(json.dumps({{"seconds": wall, "cpu_seconds": cpu, "extra_mib": peak() - before, "value": float(value)}}))
"""


def main() -> None:
    found = {}
    for name, imported in METHODS.items():
        script = SCRIPT.format(imported=imported, large=LARGE, small=SMALL)
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            found[name] = json.loads(run.stdout)
        else:
            print(f"{name}: skipped ({run.stderr.strip().splitlines()[-1]})")
    rows = [
        (name, one["seconds"], one["cpu_seconds"], one["extra_mib"], f"{one['value']:.15g}")
        for name, one in found.items()
    ]
    show(("method", "seconds", "CPU seconds", "extra MiB", "distance"), rows)
    ours, scipy = found["discreet"], found["scipy"]
    ratios = {
        "times_faster_than_scipy": scipy["seconds"] / ours["seconds"],
        "share_of_scipy_memory": ours["extra_mib"] / scipy["extra_mib"],
    }
    print(f"\n{ratios['times_faster_than_scipy']:.1f} times faster than SciPy, "
          f"{ratios['share_of_scipy_memory']:.0%} of its memory")  # fmt: skip
    save("wasserstein_speed", {"points": [LARGE, SMALL], "methods": found, **ratios})


if __name__ == "__main__":
    main()
