"""Coverage on real columns: do intervals hold the table's own numbers, and those of the population it is a sample of?

Run ``python experiments/coverage_real.py [--releases 50] [--only NAME] [--processes 1] [--blocks FOLDER]
[--columns first]``:
it writes ``results/coverage_real/``, and needs ../shared/data, which is not part of the project. Fifty releases of a
setting and a column are a block with its own seed; with ``--blocks`` blocks are kept, and not computed a second time. A
long run may be stopped: with ``--releases 0`` nothing is computed, and what there is of each setting is written.

Twelve real columns, with heaps at round numbers, ties and long tails. A column is a population; a confidential table is
2,000 records drawn from it with replacement. Of each release, and with what the library takes by default, come 95 %
intervals of seven numbers, for the population's (``of="population"``) and for the table's (``of="table"``). The same
draws with mass spread evenly over cells (``within="even"``) stand beside them, and the length of the usual intervals
that the whole table would give without privacy. Fitted to a quarter of the noise, the same intervals must fail.

The default prior was chosen on these twelve columns, and what counts as hidden on sixteen further ones too
(``--columns further``). Eight more (``--columns unseen``) were named before anything was measured on them, and had no
part in any choice.
"""

from __future__ import annotations

import argparse
import csv
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from _shared import shared, write

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer, Numeric
from discreet.inference.mechanism_aware import counts_of, posterior_about
from discreet.mechanisms import (
    DataSpecificRevealOrObscure,
    DirichletMultinomial,
    ExponentialHistogram,
    HierarchicalHistogram,
    Marginals,
    PerturbedHistogram,
    SmoothedHistogram,
    StabilisedPitmanYor,
    StabilityHistogram,
)
from discreet.privacy import Budget

RESULTS = Path(__file__).resolve().parent / "results" / "coverage_real"
HELD, RELEASED, DRAWS, LEVEL = 2000, 500, 300, 0.95
EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-6
Z = 1.959963984540054
QUANTILES = {"q25": 0.25, "q50": 0.5, "q75": 0.75}
ASKED = ("population", "table")


@dataclass(frozen=True)
class Column:
    """A real column: ``file`` and ``name``, how it is ``declared``, and a value in its middle and one in its tail."""

    file: str
    name: str
    declared: Any
    middle: float
    tail: float


ADULT, NIST = "adult.parquet", "nist_acs_excerpts.parquet"
PERSONS = "acs2024_persons_income_49.parquet"
SCORES, STOPS = "oulad_scores.parquet", "mpls_stops_points.parquet"
FIRST = {
    "income, living alone": Column(
        "acs2024_ca_living_alone_income.parquet", "PINCP_from_HINCP", Numeric(lower=0, upper=400_000, cells=60),
        50_000, 100_000,
    ),
    "income, log cells": Column(NIST, "PINCP", Numeric(lower=100, upper=1e6, cells=60, spacing="log"), 30_000, 100_000),
    "wages, groups": Column(
        PERSONS, "WAGP", Integer(lower=0, upper=299_999, cells=60), 20_000, 100_000
    ),
    "income, expenditure survey": Column(
        "ce_hornby_hu_5571.parquet", "Income", Numeric(lower=0, upper=400_000, cells=50), 40_000, 150_000
    ),
    "expenditure": Column(
        "ce_hornby_hu_5571.parquet", "Expenditure", Numeric(lower=100, upper=80_000, cells=50, spacing="log"),
        7_000, 20_000,
    ),
    "capital gain": Column(ADULT, "capital_gain", Numeric(lower=0, upper=100_000, cells=40), 0, 5_000),
    "sampling weight": Column(ADULT, "fnlwgt", Numeric(lower=0, upper=600_000, cells=30), 180_000, 300_000),
    "age": Column(ADULT, "age", Integer(lower=17, upper=90), 37, 60),
    "hours": Column(ADULT, "hours_per_week", Integer(lower=1, upper=99), 40, 50),
    "score": Column(SCORES, "score", Integer(lower=0, upper=100), 80, 90),
    "poverty ratio, groups": Column(NIST, "POVPIP", Integer(lower=0, upper=501, cells=50), 400, 500),
    "latitude": Column(STOPS, "lat", Numeric(lower=44.88, upper=45.06, cells=40), 44.975, 45.0),
}  # fmt: skip
FURTHER = {
    "age of persons": Column(PERSONS, "AGEP", Integer(lower=0, upper=99), 40, 65),
    "weekly hours": Column(PERSONS, "WKHP", Integer(lower=0, upper=99), 39, 45),
    "person weight": Column(PERSONS, "PWGTP", Integer(lower=0, upper=400, cells=50), 80, 150),
    "children": Column(NIST, "NOC", Integer(lower=0, upper=10), 0, 2),
    "household": Column(NIST, "NPF", Integer(lower=2, upper=20), 3, 5),
    "income decile": Column(NIST, "PINCP_DECILE", Integer(lower=0, upper=9), 4, 7),
    "capital loss": Column(ADULT, "capital_loss", Numeric(lower=0, upper=5_000, cells=50), 0, 1_800),
    "education": Column(ADULT, "education_num", Integer(lower=1, upper=16), 9, 12),
    "age, living alone": Column("acs2024_ca_living_alone_income.parquet", "AGEP", Integer(lower=0, upper=99), 60, 80),
    "day of submission": Column(SCORES, "date_submitted", Integer(lower=-20, upper=300, cells=64), 120, 220),
    "weight of assessment": Column(SCORES, "weight", Numeric(lower=0, upper=100, cells=50), 10, 20),
    "longitude": Column(STOPS, "long", Numeric(lower=-93.33, upper=-93.2, cells=40), -93.27, -93.24),
    "schooling": Column(PERSONS, "SCHL", Integer(lower=1, upper=24), 19, 21),
    "density": Column(NIST, "DENSITY", Numeric(lower=1, upper=100_000, cells=50, spacing="log"), 1_000, 5_000),
    "age, all": Column(NIST, "AGEP", Integer(lower=0, upper=99), 40, 65),
    "age, expenditure survey": Column("ce_hornby_hu_5571.parquet", "Age", Integer(lower=0, upper=99), 50, 70),
}
UNSEEN = {
    "weight, living alone": Column(
        "acs2024_ca_living_alone_income.parquet", "PWGTP", Integer(lower=0, upper=600, cells=60), 80, 200
    ),
    "schooling, living alone": Column(
        "acs2024_ca_living_alone_income.parquet", "SCHL", Integer(lower=1, upper=24), 20, 21
    ),
    "income, persons": Column(PERSONS, "PINCP", Numeric(lower=0, upper=500_000, cells=80), 40_000, 150_000),
    "income, even cells": Column(NIST, "PINCP", Numeric(lower=0, upper=1e6, cells=64), 30_000, 100_000),
    "expenditure, even cells": Column(
        "ce_hornby_hu_5571.parquet", "Expenditure", Numeric(lower=0, upper=200_000, cells=100), 10_000, 30_000
    ),
    "education, expenditure survey": Column("ce_hornby_hu_5571.parquet", "Educ", Integer(lower=0, upper=16), 12, 14),
    "household weight": Column(NIST, "WGTP", Integer(lower=0, upper=1_000, cells=50), 80, 200),
    "occupation": Column(PERSONS, "OCCP", Integer(lower=0, upper=9_999, cells=100), 4_000, 9_000),
}
COLUMNS = FIRST | FURTHER | UNSEEN
SETS = {
    "first": (FIRST, "coverage_real.csv", "below_90.md"),
    "further": (FURTHER, "further.csv", "further_below_90.md"),
    "unseen": (UNSEEN, "unseen.csv", "unseen_below_90.md"),
}
METHODS = {
    "perturbed-histogram, counts": (PerturbedHistogram, None),
    "perturbed-histogram, records": (PerturbedHistogram, RELEASED),
    "hierarchical-histogram, counts": (HierarchicalHistogram, None),
    "hierarchical-histogram, records": (HierarchicalHistogram, RELEASED),
    "stability-histogram, counts": (StabilityHistogram, None),
    "smoothed-histogram, records": (SmoothedHistogram, RELEASED),
    "dirichlet-multinomial, records": (DirichletMultinomial, RELEASED),
    "data-specific-reveal-or-obscure, records": (DataSpecificRevealOrObscure, RELEASED),
    "exponential-histogram, records": (ExponentialHistogram, RELEASED),
    "stabilised-pitman-yor, records": (StabilisedPitmanYor, RELEASED),
    "marginals, counts": (Marginals, None),
    "marginals, records": (Marginals, RELEASED),
}
PURE = (SmoothedHistogram, DirichletMultinomial, DataSpecificRevealOrObscure, ExponentialHistogram)
"""Calibrated at delta 0."""


@cache
def population(name: str) -> np.ndarray:
    """Return a column's values, clipped to what is declared."""
    column = COLUMNS[name]
    values = pl.read_parquet(shared(column.file), columns=[column.name])[column.name].drop_nulls().to_numpy()
    values = values[np.isfinite(values)].astype(np.float64)
    return np.sort(np.clip(values, column.declared.lower, column.declared.upper))


def numbers(name: str) -> list[str]:
    column = COLUMNS[name]
    return ["mean", "sd", *QUANTILES, f"P(<={column.middle:g})", f"P(>{column.tail:g})"]


def truth(values: np.ndarray, name: str) -> list[float]:
    """Return the numbers of sorted values."""
    column = COLUMNS[name]
    quantiles = [float(values[math.ceil(q * len(values) - 1e-9) - 1]) for q in QUANTILES.values()]
    return [values.mean(), values.std(), *quantiles, (values <= column.middle).mean(), (values > column.tail).mean()]


@cache
def of_population(name: str) -> tuple[list[float], np.ndarray]:
    """Return the numbers of a column, and the codes of its values."""
    values = population(name)
    return truth(values, name), COLUMNS[name].declared.encode(pl.Series(values))


def without_privacy(values: np.ndarray, name: str) -> list[float]:
    """Return the lengths of the usual 95 % intervals of a whole table."""
    column, n = COLUMNS[name], len(values)
    sd, away = values.std(), values - values.mean()
    ranks = [
        np.clip(np.rint(n * q + Z * math.sqrt(n * q * (1 - q)) * np.array([-1, 1])).astype(int), 0, n - 1)
        for q in QUANTILES.values()
    ]
    shares = [(values <= column.middle).mean(), (values > column.tail).mean()]
    return [
        2 * Z * sd / math.sqrt(n),
        2 * Z * math.sqrt(max(0.0, (away**4).mean() - sd**4) / n) / (2 * sd),
        *(values[high] - values[low] for low, high in ranks),
        *(2 * Z * math.sqrt(p * (1 - p) / n) for p in shares),
    ]


def calibrated(method: str, name: str, epsilon: float) -> Any:
    kind, size = METHODS[method]
    budget = Budget(epsilon=epsilon, delta=0.0 if kind in PURE else DELTA)
    return kind.calibrated(budget, domain=Domain(columns={"x": COLUMNS[name].declared}), n=HELD, size=size)


def narrower(mechanism: Any) -> Any:
    """Return the mechanism with a quarter of the noise: a wrong model of its releases."""
    part = {"scale": mechanism.scale / 4} if hasattr(mechanism, "scale") else {"prior": mechanism.prior / 4}
    return replace(mechanism, **part)


def one_release(method: str, name: str, mechanism: Any, model: Any, rng: np.random.Generator) -> np.ndarray:
    """Return what one release gives.

    Shape (2, numbers, 5): for population and table, whether intervals hold the number, whether those of mass that is
    spread evenly do, whether there are bounds, their length, and that of the whole table's.
    """
    domain, (_, size) = mechanism.domain, METHODS[method]
    true_of_all, all_codes = of_population(name)
    which = rng.choice(len(all_codes), HELD)
    table = np.sort(population(name)[which])
    codes, frequencies = np.unique(all_codes[which], return_counts=True)
    counts = Counts(records=domain.unflat(codes), frequencies=frequencies)
    output = mechanism.kernel(counts, rng=rng)
    outcome = mechanism.reading(output, n=HELD).outcome()
    share = None if outcome is None else outcome.share_from_data
    seen = np.full(domain.size, np.nan) if size is None else np.zeros(domain.size)
    if size is None:
        estimates = mechanism.reading(output, n=HELD).estimates()
        seen[domain.flat(estimates.records)] = estimates.counts
    else:
        for chunk in mechanism.reading(output, n=HELD).draw(size, rng=rng):
            np.add.at(seen, domain.flat(chunk), 1)
    told = counts_of(model, HELD, seen, released=size is not None, strength=None, draws=DRAWS, rng=rng, share=share)
    rows = []
    for of, true in zip(ASKED, map(np.array, (true_of_all, truth(table, name))), strict=True):
        draws, _ = posterior_about(told, rng, of=of, within="bounds")._evaluate(numbers(name), None)
        slack = 1e-9 * (1 + np.abs(true))
        lower, upper = np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)  # as `estimated` takes them
        bounds = ~np.isclose(draws[..., 1], draws[..., 2], rtol=1e-12, atol=1e-12).all(axis=0)
        ends = (np.where(bounds, lower[:, 1], lower[:, 0]), np.where(bounds, upper[:, 2], upper[:, 0]))
        held = [(low - slack <= true) & (true <= high + slack) for low, high in (ends, (lower[:, 0], upper[:, 0]))]
        rows.append(np.stack([*held, bounds, ends[1] - ends[0], without_privacy(table, name)], axis=1))
    return np.array(rows, dtype=np.float64)


BLOCK = 50


@dataclass(frozen=True)
class Block:
    """Some releases of a setting and a column, with a seed of their own."""

    method: str
    epsilon: float
    wrong: bool
    name: str
    number: int

    def measured(self, releases: int = BLOCK) -> np.ndarray:
        """Return what the releases give, shape (releases, 2, numbers, 5)."""
        mechanism = calibrated(self.method, self.name, self.epsilon)
        model = narrower(mechanism) if self.wrong else mechanism
        rng = seeded(zlib.crc32(f"{self.method}, {self.name}, {self.epsilon}".encode()) + self.number)
        return np.stack([one_release(self.method, self.name, mechanism, model, rng) for _ in range(releases)])

    def path(self, folder: Path) -> Path:
        return folder / f"{zlib.crc32(repr(self).encode()):08x}.npy"

    def kept(self, folder: Path) -> np.ndarray:
        """Return the same from a folder, where it is computed at the first time."""
        path = self.path(folder)
        if not path.exists():
            np.save(path.with_suffix(".part.npy"), self.measured().astype(np.float32))
            path.with_suffix(".part.npy").rename(path)
        return np.load(path).astype(np.float64)


WRONG = ("perturbed-histogram, counts", "hierarchical-histogram, counts")
SLICE_RELEASES = 2
HEAD = ("method", "epsilon", "about", "releases", "without_bounds", "with_bounds", "mass_spread_evenly", "least",
        "least_of", "length_by_whole_tables")  # fmt: skip
LOW = 0.9
LOW_HEAD = """# Single numbers that fewer than 90 % of intervals hold

| method | epsilon | about | number | releases | % |
|---|--:|---|---|--:|--:|"""
WITHOUT_SLICE = dict.fromkeys(
    (table for _, table, _ in SETS.values()), "a row needs all releases; slice.csv has rows of two"
)
Found = dict[str, np.ndarray]
"""What the releases of a setting give, by column, as in a block."""


def label(method: str, wrong: bool) -> str:
    return f"{method}, fitted to a quarter of the noise" if wrong else method


def rows(method: str, epsilon: float, wrong: bool, found: Found) -> Iterator[list[Any]]:
    """Yield a row for the population and one for the table."""
    names, all_columns = list(found), np.stack(list(found.values()))
    for at, of in enumerate(ASKED):
        held, even, bounds, length, whole = np.moveaxis(all_columns[:, :, at], -1, 0)
        each = held.mean(axis=1)
        place, number = np.unravel_index(int(each.argmin()), each.shape)
        plain = bounds == 0
        ratio = float(np.median(length / np.maximum(whole, 1e-12)))
        yield [
            label(method, wrong), epsilon, of, held[..., 0].size, _mean(held[plain]), _mean(held[~plain]), _mean(even),
            float(each.min()), f"{names[place]}: {numbers(names[place])[number]}", ratio,
        ]  # fmt: skip


def low(method: str, epsilon: float, found: Found) -> Iterator[str]:
    """Yield a line for each number that is held too seldom."""
    for name, results in found.items():
        for of, each in zip(ASKED, results[..., 0].mean(axis=0), strict=True):
            for number, held in zip(numbers(name), each, strict=True):
                if held < LOW:
                    yield f"| {method} | {epsilon:g} | {of} | {name}: {number} | {len(results)} | {100 * held:.3g} |"


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def slices() -> Iterator[tuple[str, Any]]:
    """Yield the rows of two releases of one column, for each method."""
    name = "sampling weight"
    for method in METHODS:
        setting = (method, 1.0, False)
        for row in rows(*setting, {name: Block(*setting, name, 0).measured(SLICE_RELEASES)}):
            yield "slice.csv", row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=BLOCK, help="of each column, mechanism and epsilon, at least")
    parser.add_argument("--only", default="", help="the beginning of a method's name")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--blocks", type=Path, help="a folder for blocks of releases that were computed")
    parser.add_argument("--columns", choices=SETS, default="first", help="which columns to measure")
    options = parser.parse_args()
    columns, table, lowest = SETS[options.columns]
    settings = [(method, EPSILONS[0], True) for method in WRONG]
    settings += [(method, epsilon, False) for method in METHODS for epsilon in EPSILONS]
    settings = [setting for setting in settings if setting[0].startswith(options.only)]
    write(RESULTS / "slice.csv", HEAD, [row for _, row in slices()])
    with TemporaryDirectory() as own, ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        folder = options.blocks or Path(own)
        folder.mkdir(exist_ok=True)
        numbered = range(math.ceil(options.releases / BLOCK))
        blocks = [Block(*setting, name, k) for k in numbered for setting in settings for name in columns]
        for done, _ in enumerate(pool.map(Block.kept, blocks, [folder] * len(blocks)), start=1):
            if done % 100 == 0:
                print(f"{done} of {len(blocks)} blocks", flush=True)
        means, lows = before(RESULTS / table, RESULTS / lowest)
        for setting in settings:
            method, epsilon, wrong = setting
            if found := all_kept(setting, columns, folder):
                means[label(method, wrong), f"{epsilon:g}"] = [*rows(*setting, found)]
                lows[method, f"{epsilon:g}"] = lows[method, f"{epsilon:g}"] if wrong else [*low(method, epsilon, found)]
    every = [(method, f"{epsilon:g}", wrong) for method in METHODS for wrong in (True, False) for epsilon in EPSILONS]
    write(RESULTS / table, HEAD, [row for m, e, wrong in every for row in means[label(m, wrong), e]])
    lines = [LOW_HEAD, *(line for m, e, wrong in every if not wrong for line in lows[m, e])]
    (RESULTS / lowest).write_text("\n".join(lines) + "\n", encoding="utf-8")


def all_kept(setting: tuple[str, float, bool], columns: Iterable[str], folder: Path) -> Found:
    """Return what a setting's blocks give, as many as there are of every column."""
    number = 0
    while all(Block(*setting, name, number).path(folder).exists() for name in columns):
        number += 1
    if not number:
        return {}
    return {name: np.concatenate([Block(*setting, name, k).kept(folder) for k in range(number)]) for name in columns}


def before(means_at: Path, lows_at: Path) -> tuple[dict[tuple[str, str], list[Any]], dict[tuple[str, str], list[str]]]:
    """Return the rows and lines that were written before, by method and epsilon."""
    means, lows = defaultdict(list), defaultdict(list)
    if means_at.exists():
        with means_at.open(newline="", encoding="utf-8") as file:
            for row in list(csv.reader(file))[1:]:
                means[row[0], row[1]].append(row)
    for line in lows_at.read_text(encoding="utf-8").splitlines()[4:] if lows_at.exists() else []:
        method, epsilon = line.strip("| ").split(" | ")[:2]
        lows[method, epsilon].append(line)
    return means, lows


if __name__ == "__main__":
    main()
