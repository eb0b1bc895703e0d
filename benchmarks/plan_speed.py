"""How much processor time does choosing take? Plans of lists of cells, and releases that choose, as ratios.

The reference is counting 29,501 records and drawing as many from 1,000 cells by ``perturbed-histogram``, asked for by
name. Asked for: a plan of a list of cells in less than a second; of ten columns of 1,000 cells in less than two.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from _bench import in_turn, save
from _harness import script, show

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.planner import plan

N = 29_501
BUDGET = Budget(epsilon=1.0, delta=1e-9)


def tasks() -> dict[str, Callable[[], Any]]:
    """Return what is timed, the reference first."""
    own, found = {"size": N, "seed": 1}, {}
    for cells in (51, 100, 1000):
        domain = Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})
        table = pl.DataFrame({"cell": seeded(1).binomial(cells - 1, 0.4, N).astype(np.int64)})
        named = partial(release, table, domain, BUDGET, mechanism="perturbed-histogram", **own)
        for size in (1000, N):
            few = partial(plan, domain, BUDGET, records=N, size=size, largest_sizes=False)
            found[f"plan, {cells:,} cells, {size:,} records"] = few
        whole = partial(plan, domain, BUDGET, records=N)
        found[f"plan with largest sizes and its table, {cells:,} cells"] = lambda whole=whole: str(whole())
        found[f"release that chooses, {cells:,} cells"] = partial(release, table, domain, BUDGET, **own)
    wide = Domain(columns={f"c{i}": Integer(lower=0, upper=999) for i in range(10)})
    instead = "plan, 10 columns of 1,000 cells, with what to do instead"
    found[instead] = lambda: str(plan(wide, BUDGET, records=10_000))
    return {"release by name, 1,000 cells": named, **found}


@script(repeats=(3, 1))
def main(repeats: int) -> None:
    found = {}
    for name, task in tasks().items():
        task()  # loads the libraries
        ((found[name], _),) = in_turn(repeats, task)
    reference = next(iter(found.values()))
    show(("task", "s", "over the reference"), [(name, f"{s:.2f}", f"{s / reference:.1f}") for name, s in found.items()])
    save("plan_speed", {"reference": next(iter(found)), "seconds": found})
