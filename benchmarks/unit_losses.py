"""What a release of Oregon's households loses, and to what: noise, merged cells, or the model.

The facts and pairs are those of ``units.py``. Rows: releases at epsilon 1, and at epsilon 100, where noise is next to
nothing. "merged" and "fine" have no noise but that of the cells: each value of the confidential table is replaced by
one of its merged cell, or of the finer cells on which clear pairs are measured, as a release at epsilon 1 draws them.
Then the pairs of columns of the household at epsilon 1, on merged cells, step by step: the noisy tables, the tables
with less noise that the model is fitted to, and the model. "within five years" is of the first two persons: where the
share is right of all of them, and wrong of married ones, the pair of ages is kept and its relation to a third column is
not.

    python benchmarks/unit_losses.py
"""

from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
from _bench import save
from _harness import each_once, script, show
from _unit_tables import HOUSE, PLAIN, facts, households, pair_variations

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.domain import Records
from discreet.mechanisms import Marginals
from discreet.mechanisms.pair_losses import model_tables

BUDGETS = {epsilon: Budget(epsilon=epsilon, delta=1e-6) for epsilon in (1.0, 100.0)}
OWN = list(combinations(range(len(HOUSE)), 2))
MOST = 4  # pairs that are named
ACCEPTED = {"poor-utility", "weak-promise"}


def encoded(frame: pl.DataFrame) -> Records:
    """Return one record for each household."""
    rows = PLAIN.rows_of("persons").encode(frame.drop("unit"))
    owners = frame["unit"].rank("dense").to_numpy().astype(np.int64)
    return PLAIN.tables["persons"].records_of_units(rows, owners, np.arange(frame.height), rng=seeded(0))


def within_five_years(frame: pl.DataFrame) -> dict[str, float]:
    """Return how often the first two persons' ages are one step apart at most, of all and of married ones."""
    couple = (pl.col("married").head(2) == "1").all().alias("couple")
    gap = (pl.col("age").get(0) - pl.col("age").get(1, null_on_oob=True)).abs().alias("gap")
    two = frame.group_by("unit", maintain_order=True).agg(gap, couple).drop_nulls("gap")
    near = pl.col("gap") <= 1
    return {
        "first two": float(two.select(near.mean()).item()),
        "couples": float(two.filter("couple").select(near.mean()).item()),
    }


def coded(records: Records, measured: Any, cells: Any, rng: np.random.Generator) -> Records:
    """Return records of which each value is drawn from its cell; a slot that is not used stays so."""
    columns = []
    for codes, merged, shares in zip(records.columns, cells, measured.fine_shares, strict=True):
        drawn, within = codes.astype(np.int64), merged.within(shares)
        used = drawn < len(within)
        labels = np.where(used, merged.cell_of[np.where(used, drawn, 0)], -1)
        for cell in range(merged.count):
            (places,), (values,) = np.nonzero(labels == cell), np.nonzero(merged.cell_of == cell)
            points = (rng.permutation(len(places)) + rng.random()) / max(1, len(places))
            found = np.searchsorted(np.cumsum(within[values]), points, side="right")
            drawn[places] = values[np.minimum(found, len(values) - 1)]
        columns.append(drawn)
    return Records(columns=tuple(columns))


def steps(records: Records, measured: Any, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the total variations of the household's pairs: noisy, with less noise, and of the model."""
    n, targets, rows = len(records), measured._targets(), []
    modelled = model_tables(measured, measured.model(rng), OWN)
    for (i, j), model in zip(OWN, modelled, strict=True):
        true, sides = np.zeros_like(model), [measured.choice.merged[k].cell_of[records.columns[k]] for k in (i, j)]
        np.add.at(true, tuple(sides), 1.0 / n)
        tables = {"noisy": measured.two_way[i, j][1] / n, "less noise": targets[i, j], "model": model}
        errors = {name: 0.5 * float(np.abs(table - true).sum()) for name, table in tables.items()}
        rows.append({"pair": "*".join([list(HOUSE)[k] for k in (i, j)]), **errors})
    return rows


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}


@script(seeds=(10, 1), strong=(2, 1))
def main(seeds: int, strong: int) -> None:
    frame, rows = households(), []
    true, records = facts(frame), encoded(frame)
    n = len(records)

    def add(what: str, tables: list[pl.DataFrame]) -> None:
        errors = [{key: abs(value - true[key]) for key, value in facts(table).items()} for table in tables]
        whole = [float(np.mean(list(error.values()))) for error in errors]
        variations = [pair_variations(frame, table) for table in tables]
        pairs = {kind: mean([each[kind] for each in variations]) for kind in variations[0]}
        means = {kind: round(float(np.mean(list(each.values()))), 4) for kind, each in pairs.items()}
        worst = {kind: dict(sorted(each.items(), key=itemgetter(1))[: -MOST - 1 : -1]) for kind, each in pairs.items()}
        found = {"pairs": means, "worst pairs": worst, "facts": mean(errors)}
        near = mean([within_five_years(table) for table in tables])
        error = {"error": round(float(np.mean(whole)), 4), "errors": [round(value, 4) for value in whole]}
        rows.append({"what": what, "tables": len(tables), **error, **found, "within five years": near})

    add("confidential", [frame])
    for (epsilon, budget), number in zip(BUDGETS.items(), (seeds, strong), strict=True):
        made = [release(frame, PLAIN, budget, size=n, seed=seed, accept=ACCEPTED) for seed in range(number)]
        add(f"release at epsilon {epsilon:g}", [each.records for each in made])
    mechanism = Marginals.calibrated(BUDGETS[1.0], domain=PLAIN, n=n)
    outputs = [mechanism.kernel(each_once(records.columns), rng=seeded(seed)) for seed in range(strong)]
    readings = [mechanism.reading(y, n=n).measured for y in outputs]
    for level in ("merged", "fine"):
        parts = [coded(records, each, getattr(each.choice, level), seeded(0)) for each in readings]
        add(f"{level} cells alone", [PLAIN.decode(part, rng=seeded(0), first=1) for part in parts])
    show(("", *rows[0]["pairs"], "facts"), [(row["what"], *row["pairs"].values(), row["error"]) for row in rows])
    own = [step for each in readings for step in steps(records, each, seeded(0))]
    show(own[0], own)
    save("unit_losses", {"delta": 1e-6, "records": n, "rows": rows, "household pairs": own})
