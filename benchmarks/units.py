"""What a release of units with several rows keeps: households of two states, and panels.

Ten facts of a household, which need several of its rows, were fixed before anything was tried; so were transitions
and lag-1 correlations of the panel of patients. "coded": whether a race is that of the first person is held in its
place, and of ages the difference from that person's. This came after the facts were fixed, and states two of them. The
mechanism was tuned on the households of Oregon and on the patients. Held back, with ten facts each that were written
down before any release of them: households of Alabama, pupils, children and workers. Pupils were looked at afterwards,
when the correlations of a panel were pooled. "500 households" are a sample of
Oregon's. Beside all of them stands a bootstrap sample of the units, which has no privacy.

    python benchmarks/units.py --seeds 3
    python benchmarks/units.py --only alabama pupils --seeds 10

Every release is under epsilon 1 and delta 1e-6, one unit replaced. "pairs" are mean total variations of all tables of
two columns: of the household, of a person, of both, and of two persons of one household. With ``--only``, the other
kept results stay.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
from _bench import RESULTS, save
from _harness import script, show
from _unit_tables import (
    CHILD,
    GRADE,
    HOUSE,
    MOST,
    PANEL,
    PERSON,
    PUPIL,
    WORK,
    WORKER,
    YEAR,
    child_facts,
    children,
    facts,
    households,
    pairs,
    patients,
    pupil_facts,
    pupils,
    transitions,
    worker_facts,
    workers,
)

from discreet import Budget, release
from discreet.domain import Boolean, Domain, UnitTable

FEW = 500


class Case(NamedTuple):
    frame: Callable[[], pl.DataFrame]
    domain: Domain
    numbers: Callable[[pl.DataFrame], dict[str, float]]
    tables: Callable[[pl.DataFrame, pl.DataFrame], dict[str, float]] | None = None


def some(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a sample of the units."""
    names = frame["unit"].unique(maintain_order=True)
    return frame.filter(pl.col("unit").is_in(names.sample(FEW, seed=1).implode()))


def bootstrap(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    names = frame["unit"].unique(maintain_order=True)
    drawn = pl.DataFrame({"unit": names[rng.integers(len(names), size=len(names))]}).with_row_index("drawn")
    return drawn.join(frame, on="unit", maintain_order="left_right").drop("unit").rename({"drawn": "unit"})


persons = UnitTable(unit="unit", max_records=MOST, columns=PERSON, slots="ordered", order_by="as listed")
HELD = {"race": "first", "age": {"row": "first", "lower": -17, "upper": 17}}
PLAIN = Domain(columns=HOUSE, tables={"persons": persons})
CODED = Domain(columns=HOUSE, tables={"persons": replace(persons, relative_to=HELD)})


def panel(own: dict[str, object], columns: dict[str, object], key: str, most: int) -> Domain:
    return Domain(columns=own, tables={"rows": UnitTable(unit="unit", max_records=most, columns=columns, slots=key)})


CASES = {
    "households": Case(households, PLAIN, facts, pairs),
    "coded": Case(households, CODED, facts, pairs),
    "panel": Case(patients, panel({"female": Boolean()}, PANEL, "year", 5), transitions),
    "alabama": Case(lambda: households("al"), PLAIN, facts, pairs),
    "alabama, coded": Case(lambda: households("al"), CODED, facts, pairs),
    "pupils": Case(pupils, panel(PUPIL, GRADE, "grade", 4), pupil_facts),
    "children": Case(children, panel(CHILD, YEAR, "year", 6), child_facts),
    "workers": Case(workers, panel(WORKER, WORK, "year", 8), worker_facts),
    "500 households": Case(lambda: some(households()), PLAIN, facts, pairs),
    "500 households, coded": Case(lambda: some(households()), CODED, facts, pairs),
}


def measured(name: str, method: str, case: Case, seeds: int) -> dict[str, object]:
    """Return mean errors of some releases, or bootstrap samples, of a case."""
    frame = case.frame()
    true, n = case.numbers(frame), frame["unit"].n_unique()
    print(f"\n{name}: {n:,} units, {frame.height:,} rows")
    found, errors, seconds = [], [], []
    for seed in range(seeds):
        start = time.process_time()
        if method == "release":
            budget = Budget(epsilon=1.0, delta=1e-6)
            made = release(frame, case.domain, budget, size=n, seed=seed, accept={"poor-utility"})
            table = made.records
        else:
            table = bootstrap(frame, np.random.default_rng(seed))
        seconds.append(time.process_time() - start)
        found.append({key: float(np.nan_to_num(value)) for key, value in case.numbers(table).items()})
        errors.append({} if case.tables is None else case.tables(frame, table))
    mean = {key: float(np.mean([each[key] for each in found])) for key in true}
    error = {key: float(np.mean([abs(each[key] - true[key]) for each in found])) for key in true}
    show(
        (f"{name}, {method}", "true", "mean", "error"),
        [(key, f"{true[key]:.3f}", f"{mean[key]:.3f}", f"{error[key]:.4f}") for key in true],
    )
    variations = {key: float(np.mean([each[key] for each in errors])) for key in errors[0]}
    whole = float(np.mean(list(error.values())))
    print(f"mean error {whole:.4f}; pairs: {variations}; {np.mean(seconds):.1f} s")
    counted = {"records": n, "seeds": seeds, "seconds": round(float(np.mean(seconds)), 1)}
    return {"units": name, "method": method, **counted, "error": whole, "pairs": variations, "errors": error}


@script(seeds=(3, 1), only=CASES)
def main(seeds: int, only: list[str]) -> None:
    path, rows = RESULTS / "units.json", []
    if set(only) != set(CASES) and path.exists():
        rows = [row for row in json.loads(path.read_text())["rows"] if row["units"] not in only]
    for name in only:
        for method in ("release", "bootstrap")[: 1 + ("coded" not in name)]:
            rows.append(measured(name, method, CASES[name], seeds))
    rows.sort(key=lambda row: [*CASES, row["units"]].index(row["units"]))
    save("units", {"epsilon": 1.0, "delta": 1e-6, "rows": rows})
