"""Speed of the posterior given records drawn along a tree.

How long 1,000 effective draws of all leaves' probabilities take, on one core, beside targets: 15 seconds for 256
leaves, a minute for 1,024, whatever the number of confidential records. Cells follow two normal peaks on a wide plain,
so that about a quarter of the leaves are nearly empty, which is what makes chains slow.

Run: python benchmarks/tree_posterior_speed.py [--worlds 1]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from _report import save, show  # noqa: E402

from discreet._core.random import seeded  # noqa: E402
from discreet.domain import Counts, Domain, Integer  # noqa: E402
from discreet.inference._chains.release import model_of_records  # noqa: E402
from discreet.inference._chains.run import run  # noqa: E402
from discreet.mechanisms import HierarchicalHistogram  # noqa: E402

DRAWS, SWEEPS, STRENGTH = 1000, 3000, 1.0
TARGET = {256: 15.0, 1024: 60.0}
CASES = [
    (256, 10**4, 10**4, 10.0, "iid"),
    (256, 10**8, 10**4, 10.0, "iid"),
    (256, 10**4, 10**4, 10.0, "stratified"),
    (1024, 10**5, 10**5, 10.0, "iid"),
]


def measure(leaves: int, n: int, m: int, scale: float, sampling: Any, seed: int) -> tuple[float, float, float, int]:
    """Return seconds of the processor, effective draws, R-hat and sweeps."""
    domain = Domain(columns={"x": Integer(lower=1, upper=leaves)})
    mechanism = HierarchicalHistogram(domain=domain, records=n, scale=scale, sampling=sampling)
    rng, x = seeded(seed), np.arange(leaves) / leaves
    p = np.exp(-(((x - 0.3) / 0.1) ** 2) / 2) + 0.3 * np.exp(-(((x - 0.7) / 0.05) ** 2) / 2) + 1e-4 * (x < 0.9)
    held = rng.multinomial(n, p / p.sum())
    some = np.flatnonzero(held)
    noisy = mechanism.kernel(Counts(records=domain.unflat(some), frequencies=held[some]), rng=rng)
    drawn = np.zeros(leaves, dtype=np.int64)
    for chunk in mechanism.finish(noisy, size=m, rng=rng):
        np.add.at(drawn, domain.flat(chunk), 1)
    start = time.process_time()
    model = model_of_records(mechanism.evidence(), np.full(leaves, STRENGTH / leaves), n, drawn)
    found = run(model, draws=DRAWS, rng=rng, most_sweeps=SWEEPS)
    return time.process_time() - start, found.effective, found.r_hat, found.sweeps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=1)
    worlds = parser.parse_args().worlds
    rows, cases = [], []
    for leaves, n, m, scale, sampling in CASES:
        cpu, effective, agreement, sweeps = zip(
            *(measure(leaves, n, m, scale, sampling, seed) for seed in range(worlds)), strict=True
        )
        case: dict[str, Any] = {
            "leaves": leaves,
            "held": n,
            "released": m,
            "scale": scale,
            "sampling": sampling,
            "cpu_seconds_median": statistics.median(cpu),
            "effective_draws_least": min(effective),
            "r_hat_most": max(agreement),
            "sweeps_median": statistics.median(sweeps),
            "met": statistics.median(cpu) < TARGET[leaves],
        }
        cases.append(case)
        rows.append(tuple(case.values()))
    show(("leaves", "held", "released", "scale", "sampling", "cpu s", "least ESS", "R-hat", "sweeps", "met"), rows)
    save("tree_posterior_speed", {"draws": DRAWS, "strength": STRENGTH, "worlds": worlds, "cases": cases})


if __name__ == "__main__":
    main()
