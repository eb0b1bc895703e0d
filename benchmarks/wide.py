"""Tables of 6 to 50 columns: releases by marginals of this package and of others, beside anchors, on the same records.

A fifth of every table is held out first; what is left is confidential, and every mechanism sees the same coded records
(_wide_tables.py), protects a table with one record more or less, and makes as many records as there are. One process is
one release (_wide_releases.py). Reported are

- the total variation between release and confidential table, mean over all one-way, all two-way and up to 200 three-way
  marginals (a fixed choice of 200, or of 40 where there are above 500,000 records), and the largest two-way one;
- the area under the ROC curve, on the held-out records, of gradient boosting trained on the release, which predicts a
  fixed column from the others (at most 200,000 records to train on, 100,000 to test on);
- five coefficients of a fixed linear regression of codes on codes: mean absolute difference to the confidential ones,
  in standard errors of the confidential ones;
- processor seconds (user and system, with children) of the release, those of its imports apart, and peak memory.

A peer runs in an environment of its own; without its interpreter it is skipped:

    python3.11 -m venv dpmm && dpmm/bin/pip install dpmm==0.1.9 pyarrow
    python3.12 -m venv dps && dps/bin/pip install 'jax[cpu]==0.10.2' mbi==2.0.0 dp-accounting==0.6.0 etils ... &&
        dps/bin/pip install --no-deps git+https://github.com/google/dpsynth@cf8075f
    python benchmarks/wide.py --peers dpmm=dpmm/bin/python dpsynth=dps/bin/python

A run that is in results/wide.json is not repeated without ``--again``, so that the comparison can be taken up again.
``--only`` takes words that a mechanism's name has to contain. A process is ended after so many seconds of processor
time.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from _bench import RESULTS, save
from _harness import script, show, target
from _wide_releases import METHODS, Job, Method
from _wide_releases import run as run_here
from _wide_tables import TABLES, Coded

ADULT = [(epsilon, delta) for delta in (1e-9, 1e-6) for epsilon in (1.0, 0.3, 3.0)]
SETTINGS = {name: ADULT if name == "adult" else [(1.0, 1e-6 if "small" in name else 1e-9)] for name in TABLES}
KEY = ("table", "method", "epsilon", "delta", "seed")
DENSE = 4_000_000
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
ONE_THREAD["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def variation(a: np.ndarray, b: np.ndarray, shape: tuple[int, ...]) -> float:
    """Return the total variation between the marginals of two sets of codes."""
    keys = [np.ravel_multi_index(tuple(codes.T), shape) for codes in (a, b)]
    if np.prod(shape, dtype=float) > DENSE:
        held, places = np.unique(np.concatenate(keys), return_inverse=True)
        keys, cells = [places[: len(a)], places[len(a) :]], len(held)
    else:
        cells = int(np.prod(shape))
    shares = [np.bincount(key, minlength=cells) / len(key) for key in keys]
    return float(0.5 * np.abs(shares[0] - shares[1]).sum())


def columns_of(table: Coded, outcome: str, leaks: tuple[str, ...]) -> tuple[int, list[int]]:
    """Return the place of an outcome, and of the columns that predict it."""
    places = {name: place for place, name in enumerate(table.sizes)}
    return places[outcome], [place for name, place in places.items() if name != outcome and name not in leaks]


def area(train: np.ndarray, test: np.ndarray, column: int, used: list[int], least: int, **settings: Any) -> float:
    """Return the area under the curve of a classifier trained on a release, on the held-out records."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from threadpoolctl import threadpool_limits

    positive = train[:, column] >= least
    if positive.all() or not positive.any():
        return 0.5
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(random_state=0, **settings).fit(train[:, used], positive)
    return float(roc_auc_score(test[:, column] >= least, model.predict_proba(test[:, used])[:, 1]))


class Truth:
    """The confidential records of a table, the held-out ones, and what is measured of a release."""

    delta = 1e-9

    def __init__(self, table: Coded) -> None:
        self.table = table
        self.sizes = list(table.sizes.values())
        self.seen, self.held_out = table.split()
        self.coefficients, self.standard_errors = self._regression(self.seen)
        triples = list(combinations(range(len(self.sizes)), 3))
        chosen = np.random.default_rng(3).permutation(len(triples))[: 200 if len(self.seen) < 500_000 else 40]
        self.ways = {
            "one_way": [(j,) for j in range(len(self.sizes))],
            "two_way": list(combinations(range(len(self.sizes)), 2)),
            "three_way": [triples[i] for i in chosen],
        }

    def _regression(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients of five regressors, and their standard errors."""
        import statsmodels.api as sm

        names = list(self.table.sizes)
        y, *x = (codes[:, names.index(name)].astype(float) for name in self.table.regression)
        fit = sm.OLS(y, np.stack([np.ones_like(y), *x], axis=1)).fit()
        return fit.params[1:], fit.bse[1:]

    def _prediction(self, codes: np.ndarray) -> float:
        rng, (outcome, (least, leaks)) = np.random.default_rng(5), next(iter(self.table.outcomes.items()))
        train = codes[rng.permutation(len(codes))[:200_000]]
        test = self.held_out[rng.permutation(len(self.held_out))[:100_000]]
        return area(train, test, *columns_of(self.table, outcome, leaks), least)

    def measure(self, codes: np.ndarray) -> dict[str, float]:
        found = {}
        for name, subsets in self.ways.items():
            shapes = [(list(s), tuple(self.sizes[j] for j in s)) for s in subsets]
            each = [variation(self.seen[:, s], codes[:, s], shape) for s, shape in shapes]
            found[name] = float(np.mean(each))
            if name == "two_way":
                found["largest_two_way"] = float(np.max(each))
        difference = np.abs(self._regression(codes)[0] - self.coefficients) / self.standard_errors
        return {**found, "area_under_curve": self._prediction(codes), "regression": float(difference.mean())}


@dataclass(frozen=True)
class Comparison:
    """Releases by several methods, kept in a result file: what tells one from another, and what each is measured by."""

    name: str
    key: tuple[str, ...]
    methods: dict[str, Method]
    truth: Callable[[str], Any]

    def kept(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Return the runs of the result file, as it is now, by their keys."""
        path = target(RESULTS / f"{self.name}.json")
        runs = json.loads(path.read_text())["runs"] if path.exists() else []
        return {tuple(run[part] for part in self.key): run for run in runs}

    def added(
        self, keys: Iterable[tuple[Any, ...]], peers: Iterable[str], limit: int, *, again: bool
    ) -> Iterator[list[dict[str, Any]]]:
        """Run what is asked for and not kept; yield all runs with each new one.

        A method runs in a process of its own where its environment has an interpreter among the peers. Without one,
        ours run here, and all others are skipped. After a seed that did not finish in time, further ones are not run.
        """
        pythons = dict(peer.split("=", 1) for peer in peers if peer)
        for place in keys:
            run, kept, method = dict(zip(self.key, place, strict=True)), self.kept(), self.methods[place[1]]
            unfinished = "not finished" in kept.get((*place[:-1], 0), {}).get("failed", "")
            if method.environment not in ("own", *pythons) or (not again and (place in kept or unfinished)):
                continue
            truth = self.truth(place[0])
            run.setdefault("delta", truth.delta)
            asked = {part: run[part] for part in ("epsilon", "delta", "seed", "relation") if part in run}
            table, outcomes = truth.table, tuple(truth.table.outcomes)
            job = {"sizes": table.sizes, "ordered": table.ordered, "outcomes": outcomes, **asked}
            if method.environment in pythons:
                took = released(truth, place[1], job, pythons[method.environment], limit)
            else:
                records, told = run_here(Job(codes=truth.seen, **job), method)
                took = {**measured(truth, records), "processor_s": told["processor_s"]}
            run |= took
            print(*place, run.get("failed") or run["two_way"], run.get("processor_s", ""), flush=True)
            runs = self.kept() | {place: run}
            yield [runs[place] for place in sorted(runs)]

    def means(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Return the means over seeds, the last part of the key, with their number; or why there are none."""
        groups: dict[Any, list[dict[str, Any]]] = {}
        for place, run in self.kept().items():
            groups.setdefault(place[:-1], []).append(run)
        means = {}
        for of, group in groups.items():
            done = [each for each in group if "failed" not in each]
            measures = [name for name in (done or group)[0] if name not in (*self.key, "versions", "failed")]
            means[of] = {name: float(np.mean([each[name] for each in done])) for name in measures if done}
            means[of] |= {"seeds": len(done)} if done else {"failed": group[0]["failed"]}
        return means


def measured(truth: Any, records: np.ndarray) -> dict[str, float]:
    return {name: round(value, 6) for name, value in truth.measure(records).items()}


def released(truth: Any, method: str, facts: dict[str, Any], interpreter: str, limit: int) -> dict[str, Any]:
    """Run one release in a process of its own; return what it took and what is measured of it, or why nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        codes, records, job = (Path(folder) / name for name in ("codes.npy", "records.npy", "job.json"))
        np.save(codes, truth.seen)
        asked = {"method": method, "codes": str(codes), "records": str(records), "limit": limit}
        job.write_text(json.dumps({**facts, **asked}))
        command = [interpreter, str(Path(__file__).with_name("_wide_releases.py")), str(job)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | ONE_THREAD)
        if ended.returncode == -signal.SIGXCPU:
            return {"failed": f"not finished in {limit} s of processor time"}
        if ended.returncode or not records.exists():
            last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
            return {"failed": f"exit status {ended.returncode}: {last[:200]}"}
        return {**measured(truth, np.load(records)), **json.loads(ended.stdout.strip().splitlines()[-1])}


def wanted(tables: list[str], only: list[str], epsilons: list[float], seeds: int) -> list[tuple[Any, ...]]:
    """Return the keys of the runs that are asked for: cheapest mechanisms first, then table by table."""
    return [
        (table, name, epsilon, delta, seed)
        for name, method in METHODS.items()
        if all(word in name for word in only)
        for table in tables
        if table in (method.tables or TABLES)
        for epsilon, delta in SETTINGS[table]
        if epsilon in epsilons
        for seed in range(min(seeds, method.seeds))
    ]


def present(means: dict[tuple[Any, ...], dict[str, Any]]) -> None:
    shown = ("two_way", "largest_two_way", "three_way", "area_under_curve", "regression", "processor_s", "peak_mb")
    for setting in dict.fromkeys((table, *budget) for table, _, *budget in means):
        rows = [{"": key[1], **found} for key, found in means.items() if (key[0], *key[2:]) == setting]
        print("\n{}: epsilon {:g}, delta {:g}".format(*setting))
        show(("", *shown, "seeds", "failed"), rows)


@script(tables=(TABLES, ["small-6"]), only=([""], ["discreet"]), epsilons=[1.0, 0.3, 3.0], seeds=(5, 1), limit=3600,
        peers=[""], again=False)  # fmt: skip
def main(limit: int, peers: list[str], again: bool, **asked: Any) -> None:
    comparison = Comparison("wide", KEY, METHODS, cache(lambda table: Truth(TABLES[table]())))
    for runs in comparison.added(wanted(**asked), [f"own={sys.executable}", *peers], limit, again=again):
        save("wide", {"runs": runs})
    present(comparison.means())
