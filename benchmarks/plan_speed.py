"""How much processor time does choosing take? Plans of lists of cells, and releases that choose, as ratios.

The reference is counting 29,501 records and drawing as many from 1,000 cells by ``perturbed-histogram``, asked for by
name. Asked for: a plan of a list of cells in less than a second; of ten columns of 1,000 cells in less than two.

    python benchmarks/plan_speed.py [--repeats 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from _report import save, show

from discreet import release
from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.planner import plan

N = 29_501
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=3)
    repeats = options.parse_args().repeats
    lists = {cells: Domain(columns={"cell": Integer(lower=0, upper=cells - 1)}) for cells in (51, 100, 1000)}
    wide = Domain(columns={f"c{i}": Integer(lower=0, upper=999) for i in range(10)})
    tables = {cells: pl.DataFrame({"cell": seeded(1).binomial(cells - 1, 0.4, N).astype(np.int64)}) for cells in lists}
    own = {"size": N, "seed": 1, **BUDGET}
    tasks: dict[str, Callable[[], Any]] = {
        "release by name, 1,000 cells": lambda: release(
            tables[1000], lists[1000], mechanism="perturbed-histogram", **own
        )
    }
    for cells, domain in lists.items():
        for size in (1000, N):
            tasks[f"plan, {cells:,} cells, {size:,} records"] = lambda d=domain, m=size: plan(  # type: ignore[misc]
                d, records=N, size=m, largest_sizes=False, **BUDGET
            )
        tasks[f"plan with largest sizes and its table, {cells:,} cells"] = lambda d=domain: str(  # type: ignore[misc]
            plan(d, records=N, **BUDGET)
        )
        tasks[f"release that chooses, {cells:,} cells"] = lambda c=cells: release(  # type: ignore[misc]
            tables[c], lists[c], **own
        )
    tasks["plan, 10 columns of 1,000 cells, with what to do instead"] = lambda: str(
        plan(wide, records=10_000, **BUDGET)
    )
    found = {name: _seconds(task, repeats) for name, task in tasks.items()}
    reference = next(iter(found.values()))
    show(("task", "s", "over the reference"), [(name, f"{s:.2f}", f"{s / reference:.1f}") for name, s in found.items()])
    save("plan_speed", {"reference": next(iter(found)), "seconds": found})


def _seconds(task: Callable[[], Any], repeats: int) -> float:
    task()  # loads the libraries
    times = []
    for _ in range(repeats):
        started = time.process_time()
        task()
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
