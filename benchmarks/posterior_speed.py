"""Speed of mechanism-aware posteriors: 1,000 draws, which are independent, of all cells' probabilities, on one core.

Then the seconds of each kind of question, from release to interval: one column of 1,024 to 131,072 cells with a heap of
a fifth of its records, records and counts, by the mechanism that the plan chooses. Targets: 2 s for 32,768 cells, 8 s
for 131,072, under 1 GB, whatever the number of confidential records.

Targets: counts of 1,000 cells in a second, records of 100 cells in five, of 5 x 10 x 60 cells in ten, whatever the
number of confidential records. PY26 (section 4.1) states about six minutes for 1,000 draws at n = 10,000, with all n
records as latent variables. Tables are drawn anew from a Dirichlet distribution of 0.5 a cell.
"""

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import polars as pl
from _bench import fresh, save
from _harness import cells_held, cells_shown, script, show, timed

import discreet
from discreet._core.random import seeded
from discreet.domain import Domain, Integer, Numeric
from discreet.inference.prior import Prior
from discreet.inference.samplers import ReleasedCounts, ReleasedRecords, draw_counts
from discreet.mechanisms import HierarchicalHistogram, PerturbedHistogram, SmoothedHistogram
from discreet.privacy import Budget

DRAWS = 1000
LINES = {k: Domain(columns={"x": Integer(lower=1, upper=k)}) for k in (25, 100, 1000)}
CUBE = Domain(columns={name: Integer(lower=1, upper=k) for name, k in (("a", 5), ("b", 10), ("c", 60))})
MADE: dict[str, Any] = {
    "perturbed": lambda domain, n: PerturbedHistogram(domain=domain, records=n, scale=4.0),
    "perturbed, iid": lambda domain, n: PerturbedHistogram(domain=domain, records=n, scale=4.0, sampling="iid"),
    "hierarchical": lambda domain, n: HierarchicalHistogram(domain=domain, records=n, scale=8.0),
    "smoothed": lambda domain, _: SmoothedHistogram(domain=domain, size=1000, mixing=0.3),
}
CASES = [
    ("perturbed", LINES[25], 10**4, 100, 1.0),
    ("perturbed", LINES[25], 10**8, 100, 1.0),
    ("perturbed", LINES[1000], 30_000, 0, 1.0),
    ("hierarchical", LINES[1000], 30_000, 0, 1.0),
    *((name, LINES[100], 30_000, 30_000, 5.0) for name in ("perturbed", "perturbed, iid", "hierarchical")),
    ("smoothed", LINES[100], 30_000, 1000, 5.0),
    *((name, CUBE, n, n, 10.0) for n in (30_000, 10**6) for name in ("perturbed", "hierarchical")),
]


def seconds(name: str, domain: Domain, n: int, m: int, seed: int) -> float:
    """Return the processor's seconds for one posterior; ``m = 0``: of released counts."""
    rng, cells = seeded(seed), int(domain.size or 0)
    held = rng.multinomial(n, rng.dirichlet(np.full(cells, 0.5)))
    mechanism = MADE[name](domain, n)
    seen = cells_shown(mechanism, mechanism.kernel(cells_held(held, domain), rng=rng), n, m, rng)
    released = ReleasedRecords(n, seen) if m else ReleasedCounts(n, seen)
    prior = Prior.process(np.full(cells, 1.0 / cells))
    return timed(draw_counts, mechanism.likelihood(), [prior], released, DRAWS, rng)[0]


ASKED = ("mean", "sd", "q50", "q97", "P(<=30)", "P(20..60)")
TARGETS = {32_768: 2.0, 131_072: 8.0}
LONG = [(k, n) for k in (1024, 32_768, 131_072) for n in (20_000, 2_000_000)]
EACH = """
import json, resource, sys, time
import discreet

release, found = discreet.read(sys.argv[1]), {}
start = time.process_time()
release.posterior()
drawn = time.process_time() - start
for name in sys.argv[2:]:
    start = time.process_time()
    row = release.estimate([name]).rows[0]
    found[name] = {"cpu_seconds": drawn + time.process_time() - start, "interval": [row.lower, row.upper]}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"draws_cpu_seconds": drawn, "gigabytes": peak, "questions": found}))
"""


def questions(folder: Path, cells: int, n: int, counts: bool) -> dict[str, Any]:
    """Return the processor's seconds of each question, draws included, in a fresh process that has read the release."""
    rng = seeded(1)
    values = np.clip(rng.lognormal(3.0, 0.8, n), 0.0, 499.9)
    values[: n // 5] = 20.0
    domain = Domain(columns={"x": Numeric(lower=0.0, upper=500.0, cells=cells)})
    mechanism = HierarchicalHistogram.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=domain, n=n, size=n)
    options: dict[str, Any] = {"counts": True} if counts else {"size": n}
    out = folder / f"{cells}-{n}-{counts}.parquet"
    discreet.release(pl.DataFrame({"x": values}), domain, mechanism=mechanism, seed=1, out=out, **options)
    found = fresh(EACH, out, *ASKED)
    slowest, target = max(one["cpu_seconds"] for one in found["questions"].values()), TARGETS.get(cells, 2.0)
    case = {"cells": cells, "held": n, "released": "counts" if counts else n}
    return {**case, **found, "slowest": slowest, "target": target, "met": slowest <= target}


@script(tables=(3, 1))
def main(tables: int) -> None:
    seconds("perturbed", LINES[25], 1000, 100, 0)  # loads what is loaded lazily
    cases = []
    for name, domain, n, m, target in CASES:
        found = statistics.median(seconds(name, domain, n, m, seed) for seed in range(tables))
        case = {"mechanism": name, "cells": domain.size, "held": n, "released": m or "counts", "cpu_seconds": found}
        cases.append({**case, "target": target, "met": found <= target})
    show(cases[0], cases)
    with tempfile.TemporaryDirectory() as folder:
        asked = [questions(Path(folder), k, n, counts) for k, n in LONG for counts in (True, False)]
    shown = [one | {name: each["cpu_seconds"] for name, each in one["questions"].items()} for one in asked]
    show(("cells", "held", "released", "gigabytes", "slowest", "target", *ASKED), shown)
    save("posterior_speed", {"draws": DRAWS, "tables": tables, "cases": cases, "questions": asked})
