"""Speed of the exact posterior given records of a perturbed histogram.

Claim: 1,000 effective draws in less than a second on one core, for 100 records released from 10,000 with Laplace noise
of scale 2 in 25 bins, and in the same time from 100,000,000. PY26 (section 4.1) states about six minutes for 1,000
draws at n = 10,000, with all n records as latent variables. Worlds are drawn anew; times are medians over them, of the
processor's time of one thread, with the wall clock's beside it.

Run: python benchmarks/posterior_speed.py [--worlds 9]
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
from discreet.domain import Counts, Domain, Numeric  # noqa: E402
from discreet.inference._chains.noise import Noise  # noqa: E402
from discreet.inference._chains.release import model_of_records, noisy_model  # noqa: E402
from discreet.inference._chains.run import run  # noqa: E402
from discreet.mechanisms import PerturbedHistogram  # noqa: E402
from discreet.mechanisms.noise import law_named  # noqa: E402

BINS, DRAWS, TARGET = 25, 1000, 1.0
DOMAIN = Domain(columns={"x": Numeric(lower=0.0, upper=1.0, cells=BINS)})
ALPHA = np.full(BINS, 1.0 / BINS)
CASES = [(10**4, 100), (10**6, 100), (10**8, 100), (10**4, 10**4), (10**8, 10**8), (10**4, 0), (10**8, 0)]


def measure(n: int, m: int, seed: int) -> tuple[float, float, float, float, int]:
    """Return seconds of the processor and of the clock, effective draws, R-hat and sweeps; ``m = 0``: counts."""
    rng = seeded(seed)
    held = rng.multinomial(n, rng.dirichlet(np.linspace(1.0, 3.0, BINS)))
    mechanism = PerturbedHistogram(domain=DOMAIN, records=n, scale=2.0)
    noisy = mechanism._counts(Counts(records=DOMAIN.unflat(np.flatnonzero(held)), frequencies=held[held > 0]))
    noisy = noisy + law_named("laplace").approximate(2.0, BINS, rng=rng)
    drawn = rng.multinomial(m, mechanism.probabilities(noisy))
    start, clock = time.process_time(), time.perf_counter()
    model = (
        model_of_records(mechanism.evidence(), ALPHA, n, drawn)
        if m
        else noisy_model(ALPHA, n, noisy.astype(np.float64), Noise("laplace", 2.0))
    )
    result = run(model, draws=DRAWS, rng=rng, most_sweeps=50_000)
    return time.process_time() - start, time.perf_counter() - clock, result.effective, result.r_hat, result.sweeps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=9)
    worlds = parser.parse_args().worlds
    measure(1000, 100, 0)  # loads what is loaded lazily
    rows, cases = [], []
    for n, m in CASES:
        found = [measure(n, m, seed) for seed in range(worlds)]
        cpu, wall, effective, agreement, sweeps = zip(*found, strict=True)
        case: dict[str, Any] = {
            "held": n,
            "released": m or "counts",
            "cpu_seconds_median": statistics.median(cpu),
            "cpu_seconds_most": max(cpu),
            "wall_seconds_median": statistics.median(wall),
            "effective_draws_least": min(effective),
            "r_hat_most": max(agreement),
            "sweeps_median": statistics.median(sweeps),
        }
        cases.append(case)
        rows.append((f"{n:,}", str(m or "counts"), *list(case.values())[2:]))
    head = ("held", "released", "cpu s", "most", "wall s", "least ESS", "R-hat", "sweeps")
    show(head, rows)
    small, large = cases[0], cases[2]
    met = max(small["cpu_seconds_median"], large["cpu_seconds_median"]) < TARGET
    print(f"target {TARGET} s for {DRAWS} effective draws, at 10^4 and 10^8 records held: {'met' if met else 'MISSED'}")
    save(
        "posterior_speed",
        {"bins": BINS, "draws": DRAWS, "worlds": worlds, "target": TARGET, "met": met, "cases": cases},
    )


if __name__ == "__main__":
    main()
