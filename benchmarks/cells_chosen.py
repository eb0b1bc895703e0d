"""Are the cells chosen from public facts nearly as good as the best that a search on the data would find?

A column of logarithms of positive incomes, its bounds declared and nothing else. For each mechanism, the W1 of releases
with the chosen cells, against that with the best of all powers of two of cells. The ratio is asked to be at most 1.3
for ``dirichlet-multinomial`` at 1,000 records and at as many as the table has.

    python benchmarks/cells_chosen.py INCOMES.parquet --column PINCP [--records 29501] [--seeds 5] [--all]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import polars as pl
from _report import save, show

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Numeric, Records
from discreet.errors import DiscreetError
from discreet.mechanisms import named
from discreet.planner.cells import with_cells
from discreet.privacy import Budget
from discreet.utility import wasserstein_1d

BOUNDS = (0.0, 16.0)  # logarithms of incomes from 1 to 9 million
POWERS = range(2, 11)
ASKED = ("dirichlet-multinomial",)
OTHERS = (
    "smoothed-histogram",
    "subsampled-randomised-response",
    "data-specific-reveal-or-obscure",
    "perturbed-histogram",
    "gaussian-smoothed-histogram",
    "hierarchical-histogram",
)
TARGET = 1.3


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("table")
    options.add_argument("--column", required=True)
    options.add_argument("--records", type=int, default=29_501)
    options.add_argument("--epsilon", type=float, default=1.0)
    options.add_argument("--delta", type=float, default=1e-9)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--all", action="store_true", help="Other mechanisms too.")
    given = options.parse_args()
    incomes = pl.read_parquet(given.table, columns=[given.column])[given.column].drop_nulls()
    values = np.log(incomes.filter(incomes > 0).sample(given.records, seed=1).to_numpy().astype(np.float64))
    budget = Budget(epsilon=given.epsilon, delta=given.delta)
    found = [
        _against_a_search(name, values, budget, size, given.seeds)
        for size in (1000, given.records)
        for name in (ASKED + OTHERS if given.all else ASKED)
    ]
    rows = [
        (r["mechanism"], f"{r['size']:,}", str(r["cells"]), f"{r['w1']:.4g} ± {r['error']:.2g}", str(r["best"]),
         f"{r['best_w1']:.4g}", f"{r['ratio']:.2f}", f"{r['seconds']:.2f}")
        for r in found
        if r is not None
    ]  # fmt: skip
    show(("mechanism", "size", "cells", "W1", "best cells", "its W1", "ratio", "s to choose"), rows)
    save("cells_chosen", {"target": TARGET, "rows": [r for r in found if r is not None]})


def _against_a_search(name: str, values: Any, budget: Budget, size: int, seeds: int) -> dict[str, Any] | None:
    declared = Domain(columns={"x": Numeric(lower=BOUNDS[0], upper=BOUNDS[1])})
    started = time.process_time()
    cut = with_cells(declared, named(name), n=len(values), budget=budget, size=size)
    seconds = time.process_time() - started
    errors = {cells: _measured(name, values, budget, size, cells, seeds) for cells in (1 << p for p in POWERS)}
    chosen = cut.columns["x"].size or 0
    errors.setdefault(chosen, _measured(name, values, budget, size, chosen, seeds))
    feasible = {cells: found for cells, found in errors.items() if found is not None}
    if errors[chosen] is None or not feasible:
        return None
    own = np.array(errors[chosen])
    best = min(feasible, key=lambda cells: float(np.mean(feasible[cells] or 0.0)))
    return {
        "mechanism": name,
        "size": size,
        "cells": chosen,
        "w1": float(own.mean()),
        "error": float(own.std(ddof=1) / np.sqrt(seeds)),
        "best": best,
        "best_w1": float(np.mean(feasible[best] or 0.0)),
        "ratio": float(own.mean() / np.mean(feasible[best] or 0.0)),
        "seconds": seconds,
        "search": {str(cells): float(np.mean(w)) for cells, w in feasible.items() if w is not None},
    }


def _measured(name: str, values: Any, budget: Budget, size: int, cells: int, seeds: int) -> list[float] | None:
    domain = Domain(columns={"x": Numeric(lower=BOUNDS[0], upper=BOUNDS[1], cells=cells)})
    try:
        mechanism = named(name).calibrated(budget, domain=domain, n=len(values), size=size)
    except DiscreetError:
        return None
    codes, frequencies = np.unique(domain.encode(pl.DataFrame({"x": values})).columns[0], return_counts=True)
    x = Counts(records=Records(columns=(codes,)), frequencies=frequencies)
    found = []
    for seed in range(seeds):
        rng = seeded(seed)
        records = Records.concatenate(mechanism.reading(mechanism.kernel(x, rng=rng), n=x.n).draw(size, rng=rng))
        drawn = domain.decode(records, rng=rng)["x"].to_numpy()
        found.append(float(wasserstein_1d(values, drawn)))
    return found


if __name__ == "__main__":
    main()
