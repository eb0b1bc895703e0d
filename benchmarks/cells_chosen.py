"""Are the cells chosen from public facts nearly as good as the best that a search on the data would find?

A column of logarithms of positive incomes, its bounds declared and nothing else. For each mechanism, the W1 of releases
with the chosen cells, against that with the best of all powers of two of cells. The ratio is asked to be at most 1.3
for ``dirichlet-multinomial`` at 1,000 records and at as many as the table has.
"""

from typing import Any

import numpy as np
import polars as pl
from _bench import errors, save
from _harness import data, mean_and_error, script, show, timed

from discreet.domain import Domain, Numeric
from discreet.errors import DiscreetError
from discreet.mechanisms import named
from discreet.planner.cells import with_cells
from discreet.privacy import Budget
from discreet.utility import wasserstein_1d

POWERS = range(2, 11)
NAME = "dirichlet-multinomial"
TARGET = 1.3
BUDGET = Budget(epsilon=1.0, delta=1e-9)


def declared(cells: int | None = None) -> Domain:
    """Declare logarithms of incomes from 1 to 9 million."""
    return Domain(columns={"x": Numeric(lower=0.0, upper=16.0, cells=cells)})


def against_a_search(name: str, values: Any, size: int, seeds: int) -> dict[str, Any] | None:
    """Return how far the chosen cells are from the best ones; nothing where no release is possible."""
    seconds, cut = timed(lambda: with_cells(declared(), named(name), n=len(values), budget=BUDGET, size=size))
    chosen = cut.columns["x"].size or 0
    tried = {*(1 << power for power in POWERS), chosen}
    found = {cells: measured(name, values, size, cells, seeds) for cells in tried}
    search = {cells: float(np.mean(each)) for cells, each in sorted(found.items()) if each is not None}
    if chosen not in search:
        return None
    best, (w1, error) = min(search, key=lambda cells: search[cells]), mean_and_error(found[chosen])
    facts = {"mechanism": name, "size": size, "cells": chosen, "w1": w1, "error": error, "best": best}
    facts |= {"best_w1": search[best], "ratio": w1 / search[best], "seconds": seconds}
    return {**facts, "search": {str(cells): w1 for cells, w1 in search.items()}}


def measured(name: str, values: Any, size: int, cells: int, seeds: int) -> list[float] | None:
    """Return the distances of releases with so many cells; nothing where they are not possible."""
    domain = declared(cells)
    try:
        mechanism = named(name).calibrated(BUDGET, domain=domain, n=len(values), size=size)
    except DiscreetError:
        return None
    table = pl.DataFrame({"x": values})
    return errors(mechanism, table, size, seeds, lambda released: wasserstein_1d(values, released["x"].to_numpy()))


@script(records=(29_501, 3_000), seeds=(5, 2))
def main(records: int, seeds: int) -> None:
    incomes = data("nist_acs_excerpts", "PINCP")["PINCP"]
    values = np.log(incomes.filter(incomes > 0).sample(records, seed=1).to_numpy().astype(np.float64))
    found = [against_a_search(NAME, values, size, seeds) for size in (1000, records)]
    possible = [row for row in found if row is not None]
    show(("mechanism", "size", "cells", "w1", "error", "best", "best_w1", "ratio", "seconds"), possible)
    save("cells_chosen", {"target": TARGET, "rows": possible})
