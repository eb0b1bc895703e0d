"""Coverage on real columns: do intervals hold the table's own numbers, and those of the population it is a sample of?

Run ``python experiments/coverage_real.py [--releases 4] [--only NAME]``: it writes ``results/coverage_real/``,
and needs ../shared/data, which is not part of the project.

Twelve real columns, with heaps at round numbers, ties and long tails. A column is a population; a confidential table is
2,000 records drawn from it with replacement. Of each release, and with what the library takes by default, come 95 %
intervals of seven numbers, for the population's (``of="population"``) and for the table's (``of="table"``). The same
draws with mass spread evenly over cells (``within="even"``) stand beside them, and the length of the usual intervals
that the whole table would give without privacy. Fitted to a quarter of the noise, the same intervals must fail.
"""

from __future__ import annotations

import argparse
import csv
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _shared import shared, write

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer, Numeric
from discreet.inference._mechanism_aware import counts_of, posterior_about
from discreet.inference._summary import estimated
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
COLUMNS = {
    "income, living alone": Column(
        "acs2024_ca_living_alone_income.parquet", "PINCP_from_HINCP", Numeric(lower=0, upper=400_000, cells=60),
        50_000, 100_000,
    ),
    "income, log cells": Column(NIST, "PINCP", Numeric(lower=100, upper=1e6, cells=60, spacing="log"), 30_000, 100_000),
    "wages, groups": Column(
        "acs2024_persons_income_49.parquet", "WAGP", Integer(lower=0, upper=299_999, cells=60), 20_000, 100_000
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
    "score": Column("oulad_scores.parquet", "score", Integer(lower=0, upper=100), 80, 90),
    "poverty ratio, groups": Column(NIST, "POVPIP", Integer(lower=0, upper=501, cells=50), 400, 500),
    "latitude": Column("mpls_stops_points.parquet", "lat", Numeric(lower=44.88, upper=45.06, cells=40), 44.975, 45.0),
}  # fmt: skip
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


def one_release(
    method: str, name: str, mechanism: Any, model: Any, rng: np.random.Generator, strength: float | None
) -> np.ndarray:
    """Return what one release gives.

    Shape (2, numbers, 5): for population and table, whether intervals hold the number, whether those of mass that is
    spread evenly do, whether there are bounds, their length, and that of the whole table's.
    """
    domain, (_, size) = mechanism.domain, METHODS[method]
    table = np.sort(rng.choice(population(name), HELD))
    codes, frequencies = np.unique(domain.columns["x"].encode(pl.Series(table)), return_counts=True)
    counts = Counts(records=domain.unflat(codes), frequencies=frequencies)
    output = mechanism.kernel(counts, rng=rng)
    outcome = mechanism.outcome(output, HELD)
    share = None if outcome is None else outcome.share_from_data
    seen = np.full(domain.size, np.nan) if size is None else np.zeros(domain.size)
    if size is None:
        estimates = mechanism.estimates(output)
        seen[domain.flat(estimates.records)] = estimates.counts
    else:
        for chunk in mechanism.finish(output, size=size, rng=rng):
            np.add.at(seen, domain.flat(chunk), 1)
    told = counts_of(model, HELD, seen, released=size is not None, strength=strength, draws=DRAWS, rng=rng, share=share)
    rows = []
    for of, true in zip(ASKED, (truth(population(name), name), truth(table, name)), strict=True):
        draws, _ = posterior_about(told, rng, of=of, within="bounds")._evaluate(numbers(name), None)
        slack = 1e-9 * (1 + np.abs(true))
        found = zip(numbers(name), np.swapaxes(draws, 0, 1), true, slack, without_privacy(table, name), strict=True)
        row = []
        for label, values, t, s, whole in found:
            one, even = (estimated(label, part, level=LEVEL, chains=0) for part in (values, values[:, :1]))
            held = [end.lower - s <= t <= end.upper + s for end in (one, even)]
            row.append([*held, one.bounds, one.upper - one.lower, whole])
        rows.append(row)
    return np.array(rows, dtype=np.float64)


def measured(
    method: str, name: str, epsilon: float, releases: int, *, wrong: bool = False, strength: float | None = None
) -> np.ndarray:
    """Return what a setting's releases give, shape (releases, 2, numbers, 5)."""
    mechanism = calibrated(method, name, epsilon)
    model = narrower(mechanism) if wrong else mechanism
    rng = seeded(zlib.crc32(f"{method}, {name}, {epsilon}".encode()))
    return np.stack([one_release(method, name, mechanism, model, rng, strength) for _ in range(releases)])


WRONG = ("perturbed-histogram, counts", "hierarchical-histogram, counts")
SLICE_RELEASES = 2
HEAD = ("method", "epsilon", "about", "releases", "without_bounds", "with_bounds", "mass_spread_evenly", "least",
        "least_of", "length_by_whole_tables")  # fmt: skip
WITHOUT_SLICE = {"coverage_real.csv": "a row needs all columns; slice.csv has rows of one"}


def rows(method: str, epsilon: float, releases: int, *, names: list[str], wrong: bool = False) -> list[list[Any]]:
    """Return a row for the population and one for the table, over some columns."""
    found = np.stack([measured(method, name, epsilon, releases, wrong=wrong) for name in names])
    label = f"{method}, fitted to a quarter of the noise" if wrong else method
    made = []
    for at, of in enumerate(ASKED):
        held, even, bounds, length, whole = np.moveaxis(found[:, :, at], -1, 0)
        each = held.mean(axis=1)
        place, number = np.unravel_index(int(each.argmin()), each.shape)
        plain = bounds == 0
        ratio = float(np.median(length / np.maximum(whole, 1e-12)))
        made.append([
            label, epsilon, of, releases * len(names), _mean(held[plain]), _mean(held[~plain]), _mean(even),
            float(each.min()), f"{names[place]}: {numbers(names[place])[number]}", ratio,
        ])  # fmt: skip
    return made


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def slices() -> Iterator[tuple[str, Any]]:
    """Yield the rows of two releases of one column."""
    for row in rows("perturbed-histogram, counts", 1.0, SLICE_RELEASES, names=["sampling weight"]):
        yield "slice.csv", row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=4, help="of each column, mechanism and epsilon")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    done: list[list[Any]] = []
    path = RESULTS / "coverage_real.csv"
    if options.only and path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            done = [row for row in list(csv.reader(file))[1:] if not row[0].startswith(options.only)]
    write(RESULTS / "slice.csv", HEAD, [row for _, row in slices()])
    asked = [(method, epsilon, False) for method in METHODS for epsilon in EPSILONS]
    for method, epsilon, wrong in [*((method, EPSILONS[0], True) for method in WRONG), *asked]:
        if method.startswith(options.only):
            done += rows(method, epsilon, options.releases, names=list(COLUMNS), wrong=wrong)
            print(*done[-2:], sep="\n", flush=True)
            write(path, HEAD, done)


if __name__ == "__main__":
    main()
