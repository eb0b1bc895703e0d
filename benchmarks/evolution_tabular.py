"""Private Evolution on a table of mixed columns, beside histograms, and beside AIM and MST of private-pgm.

87,293 persons of the NIST excerpts of the American Community Survey 2018 and 2019, six columns: age in 20 bins of five
years, income in 12 public bins and null, education (12 ordered levels and null), sex, race (9) and marital status (6
and null); 425,880 cells. Epsilon 1, delta 1e-6. Reported is the total variation between the 2-way marginals of a
release and of the table, mean over the 15 pairs of columns and over seeds, with standard errors.

Ours protect against a record's *replacement*. AIM and MST state theirs for a table with one record more or less, and
account by zero-concentrated privacy: rho of (1, 1e-6). Both are run so, and with a quarter of that rho, which is what
one record replaced (one less and one more, a group of two) is then promised at most.

AIM and MST are run from their own files (the folder ``mechanisms`` of github.com/ryan112358/private-pgm, here at commit
4d2b3c5, August 2025, mbi 1.0.0), by the interpreter of an environment of their own:

    git clone https://github.com/ryan112358/private-pgm
    python -m venv pgm && pgm/bin/pip install ./private-pgm matplotlib jax==0.7.0 jaxlib==0.7.0 pandas==2.2.3
    python benchmarks/evolution_tabular.py --pgm private-pgm --pgm-python pgm/bin/python

(These files fail with JAX 0.10 and with pandas 3.) Without these two options they are skipped. AIM takes 16 rounds a
column and 1,000 iterations per round by default, many minutes per release on one core: here 12 rounds of 300
iterations, unless asked otherwise (--aim-rounds, --aim-iterations). The expectation, and what a reader should take from
it: where the question is which low-order marginals a categorical table has, mechanisms that measure marginals win
clearly.

Run: python benchmarks/evolution_tabular.py [--seeds 3] [--pgm FOLDER --pgm-python PATH] [--only WORD]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _report import save, shared, show

from discreet._core.random import secure, seeded
from discreet.domain import Category, Counts, Domain, Integer, Numeric, Records
from discreet.mechanisms.dirichlet_multinomial import DirichletMultinomial
from discreet.mechanisms.hierarchical_histogram import HierarchicalHistogram
from discreet.mechanisms.private_evolution import PrivateEvolution
from discreet.privacy import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6)
AIM = (12, 300)
INCOMES = [0, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 65_000, 85_000, 120_000]
COLUMNS = ["AGEP", "PINCP", "EDU", "SEX", "RAC1P", "MSP"]
UNORDERED: dict[str, Any] = {
    "SEX": Category(categories=[1, 2]),
    "RAC1P": Category(categories=list(range(1, 10))),
    "MSP": Category(categories=list(range(1, 7)), nulls="category"),
}
EDUCATION = Integer(lower=1, upper=12, nulls="category")
BINNED = Domain(
    columns={
        "AGEP": Integer(lower=0, upper=19),
        "PINCP": Integer(lower=0, upper=len(INCOMES), nulls="category"),
        "EDU": EDUCATION,
        **UNORDERED,
    }
)
OWN = Domain(
    columns={
        "AGEP": Integer(lower=0, upper=99),
        "PINCP": Numeric(lower=-20_000, upper=250_000, nulls="category", out_of_bounds="clip"),
        "EDU": EDUCATION,
        **UNORDERED,
    }
)
PLAIN = """
In plain words: for low-order marginals of a table of categories take AIM or MST, which measure marginals. Evolution is
for records that a generator can make and nobody can tabulate (images, texts, rows of a rich public table); the
histograms here are for a few columns."""
RUNNER = """
import json, sys, time
import numpy as np, pandas as pd
folder, name, table, sizes, epsilon, delta, seed, rounds, iterations, result = sys.argv[1:]
sys.path.insert(0, folder + "/mechanisms")
from itertools import combinations
from mbi import Dataset, Domain
np.random.seed(int(seed))
sizes = json.loads(sizes)
data = Dataset(pd.read_csv(table), Domain(list(sizes), list(sizes.values())))
epsilon, delta = float(epsilon), float(delta)
start = time.perf_counter()
if name == "MST":
    from mst import MST
    made = MST(data, epsilon, delta)
else:
    from aim import AIM
    pairs = [(pair, 1.0) for pair in combinations(data.domain.attrs, 2)]
    made = AIM(epsilon, delta, rounds=int(rounds), max_iters=int(iterations)).run(data, pairs)[1]
print("seconds", time.perf_counter() - start)
made.df.to_csv(result, index=False)
"""
RHO = """
import sys
sys.path.insert(0, sys.argv[1] + "/mechanisms")
from cdp2adp import cdp_eps, cdp_rho
print(cdp_eps(cdp_rho(float(sys.argv[2]), float(sys.argv[3])) / 4, float(sys.argv[3])))
"""


class Table:
    """The confidential persons, and the marginals of releases beside theirs."""

    def __init__(self, seeds: int, only: str) -> None:
        self.seeds, self.only = seeds, only
        self.frame = pl.read_parquet(shared("nist_acs_excerpts.parquet"), columns=COLUMNS).select(COLUMNS)
        self.codes = coded(self.frame)
        self.n = len(self.codes)
        self.sizes = {name: int(column.size or 0) for name, column in BINNED.columns.items()}
        self._own = self._marginals(self.codes)
        self.rows: dict[str, dict[str, list[float]]] = {}

    def _marginals(self, codes: np.ndarray) -> list[np.ndarray]:
        sizes, found = list(self.sizes.values()), []
        for a, b in combinations(range(len(sizes)), 2):
            cells = np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b])
            found.append(cells / len(codes))
        return found

    def variation(self, codes: np.ndarray) -> float:
        """Return the mean total variation over all 2-way marginals."""
        pairs = zip(self._own, self._marginals(codes), strict=True)
        return float(np.mean([0.5 * np.abs(a - b).sum() for a, b in pairs]))

    def measure(self, name: str, release: Callable[[int], tuple[np.ndarray, float]]) -> None:
        """Keep the distances of releases."""
        if self.only not in name:
            return
        row = self.rows.setdefault(name, {"tv": [], "seconds": []})
        for seed in range(self.seeds):
            codes, seconds = release(seed)
            row["tv"].append(self.variation(codes))
            row["seconds"].append(seconds)
        print(f"  {name}: {np.mean(row['tv']):.4f}, {np.mean(row['seconds']):.1f} s", flush=True)

    def release(self, name: str, mechanism: Any, size: int | None = None) -> None:
        """Keep the distances of a mechanism's releases."""
        frame = self.frame if mechanism.domain == OWN else binned(self.frame)
        x = counted(mechanism.domain, frame)

        def released(seed: int) -> tuple[np.ndarray, float]:
            rng, start = seeded(seed), time.perf_counter()
            parts = list(mechanism.reading(mechanism.kernel(x, rng=secure()), n=x.n).draw(size or self.n, rng=rng))
            seconds = time.perf_counter() - start
            if mechanism.domain == OWN:
                return np.concatenate([coded(OWN.decode(part, rng=rng)) for part in parts]), seconds
            return np.concatenate([np.column_stack(part.columns) for part in parts]).astype(np.int64), seconds

        self.measure(name, released)


def binned(frame: pl.DataFrame) -> pl.DataFrame:
    """Put ages and incomes into their public bins."""
    income = pl.col("PINCP")
    place = pl.sum_horizontal((income > cut).cast(pl.Int64) for cut in INCOMES)
    return frame.with_columns(
        pl.col("AGEP").cast(pl.Int64) // 5, pl.when(income.is_not_null()).then(place).alias("PINCP")
    )


def coded(frame: pl.DataFrame) -> np.ndarray:
    """Return the codes of persons on the binned domain, one row each."""
    return np.column_stack(BINNED.encode(binned(frame)).columns).astype(np.int64)


def counted(domain: Domain, frame: pl.DataFrame) -> Counts:
    """Count equal persons."""
    columns = domain.encode(frame).columns
    held, frequencies = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    codes = tuple(part.astype(c.dtype) for part, c in zip(held.T, columns, strict=True))
    return Counts(records=Records(columns=codes), frequencies=frequencies.astype(np.int64))


def references(table: Table) -> None:
    """What is not private: a bootstrap, and columns drawn independently of each other."""

    def bootstrap(seed: int) -> tuple[np.ndarray, float]:
        return table.codes[seeded(seed).integers(table.n, size=table.n)], 0.0

    def independent(seed: int) -> tuple[np.ndarray, float]:
        rng = seeded(seed)
        return np.column_stack([rng.permutation(column) for column in table.codes.T]), 0.0

    table.measure("bootstrap, not private", bootstrap)
    table.measure("columns shuffled, not private", independent)


def ours(table: Table) -> None:
    """Releases of this library."""
    facts: dict[str, Any] = {"n": table.n}
    tree = HierarchicalHistogram.calibrated(BUDGET, domain=BINNED, size=table.n, sampling="stratified", **facts)
    table.release("hierarchical-histogram, stratified", tree)
    for size in (table.n, 1_000):
        made = DirichletMultinomial.calibrated(BUDGET, domain=BINNED, size=size, **facts)
        table.release(f"dirichlet-multinomial, {size:,} records", made, size)
    usual = PrivateEvolution.calibrated(BUDGET, domain=BINNED, **facts)
    table.release(evolved("binned", usual), replace(usual, sampling="stratified"))
    for domain, columns in ((BINNED, "binned"), (OWN, "own columns")):
        few = replace(PrivateEvolution.calibrated(BUDGET, domain=domain, steps=4, **facts), population=400)
        for variant in ("projection", "practical"):
            made = replace(few, variant=variant, sampling="stratified")
            table.release(evolved(columns, made), made)
    table.release("private-evolution, no step", replace(usual, steps=0))


def evolved(columns: str, made: PrivateEvolution) -> str:
    """Name an evolution."""
    return f"private-evolution, {columns}, {made.variant}, T {made.steps}, n_s {made.population}"


def theirs(table: Table, private: Theirs) -> None:
    """Releases of AIM and MST, run from their own files."""
    quarter = float(private.said(RHO, str(BUDGET.epsilon), str(BUDGET.delta)))
    for name in ("MST", "AIM"):
        for epsilon, relation in ((BUDGET.epsilon, "one more or less"), (quarter, "one replaced")):
            label = f"{name}, {relation}, its epsilon {epsilon:.3f}"
            table.measure(label, partial(private.released, table, name, epsilon))


class Theirs:
    """The interpreter that AIM and MST run in, and the folder of their files."""

    def __init__(self, folder: str, python: str, aim: tuple[int, int]) -> None:
        self.folder, self.python, self.aim = folder, python, aim

    def said(self, program: str, *arguments: str) -> str:
        """Run a program there, and return what it printed."""
        done = subprocess.run(
            [self.python, "-c", program, self.folder, *arguments], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"private-pgm failed: {done.stderr[-500:]}")
        return done.stdout

    def released(self, table: Table, name: str, epsilon: float, seed: int) -> tuple[np.ndarray, float]:
        """Return a release's codes, and the seconds it took."""
        with tempfile.TemporaryDirectory() as place:
            held, result = Path(place) / "held.csv", Path(place) / "released.csv"
            pl.DataFrame(table.codes, schema=COLUMNS, orient="row").write_csv(held)
            facts = tuple(map(str, (epsilon, BUDGET.delta, seed, *self.aim)))
            said = self.said(RUNNER, name, str(held), json.dumps(table.sizes), *facts, str(result))
            codes = pl.read_csv(result).select(COLUMNS).to_numpy().astype(np.int64)
        return codes, next(float(line.split()[1]) for line in said.splitlines() if line.startswith("seconds"))


def summary(table: Table) -> list[dict[str, Any]]:
    """Print and return the means."""
    rows, body = [], []
    for name, found in table.rows.items():
        values = np.array(found["tv"])
        mean, seconds = float(values.mean()), float(np.mean(found["seconds"]))
        error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
        rows.append({"release": name, "seeds": len(values), "tv": mean, "standard_error": error, "seconds": seconds})
        body.append((name, f"{mean:.4f} +- {error:.4f}", str(len(values)), f"{seconds:.1f}"))
    print()
    show(("", "mean TV of 2-way marginals", "seeds", "seconds"), body)
    return rows


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--pgm", help="folder of private-pgm")
    options.add_argument("--pgm-python", help="interpreter that has mbi")
    options.add_argument("--aim-rounds", type=int, default=AIM[0])
    options.add_argument("--aim-iterations", type=int, default=AIM[1])
    options.add_argument("--only", default="", help="a word of the rows to run; nothing is kept then")
    asked = options.parse_args()
    table = Table(asked.seeds, asked.only)
    print(f"{table.n:,} persons, {BUDGET}; {BINNED.size:,} cells: {table.sizes}", flush=True)
    references(table)
    ours(table)
    if asked.pgm and asked.pgm_python:
        theirs(table, Theirs(asked.pgm, asked.pgm_python, (asked.aim_rounds, asked.aim_iterations)))
    else:
        print("AIM and MST skipped: give --pgm and --pgm-python, as the first lines of this file say")
    rows = summary(table)
    print(PLAIN)
    if not asked.only:
        facts = {"epsilon": BUDGET.epsilon, "delta": BUDGET.delta, "records": table.n, "sizes": table.sizes}
        facts |= {"aim_rounds": asked.aim_rounds, "aim_iterations": asked.aim_iterations}
        save("evolution_tabular", {**facts, "rows": rows})


if __name__ == "__main__":
    main()
