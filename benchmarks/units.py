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

import numpy as np
import polars as pl
from _bench import RESULTS, save
from _harness import script, show
from _unit_tables import CASES, Case

from discreet import Budget, release


def bootstrap(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    names = frame["unit"].unique(maintain_order=True)
    drawn = pl.DataFrame({"unit": names[rng.integers(len(names), size=len(names))]}).with_row_index("drawn")
    return drawn.join(frame, on="unit", maintain_order="left_right").drop("unit").rename({"drawn": "unit"})


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
    show((f"{name}, {method}", "true", "mean", "error"), [(key, true[key], mean[key], error[key]) for key in true])
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
