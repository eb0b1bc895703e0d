"""Calibration of the mechanism-aware posteriors: coverage of 95 % intervals and ranks over simulated worlds.

Run ``python experiments/coverage.py [--worlds 500] [--only START]``; it writes ``experiments/results/coverage/``.

A world: cell probabilities ``p`` drawn from the prior (Dirichlet, strength 4, 16 cells; 32 for records along a tree, 6
for the W1 projection), 400 confidential records of ``p``, one release, 200 posterior draws: 20 chains,
10 draws each, 4 sweeps apart, after 30 sweeps. All worlds of a method run side by side, those of stratified
records one after the other. If and only if the posterior is right, the rank of the truth among independent draws is
uniform, whatever the functional, and 95 % intervals cover with probability 0.95. With 500 worlds the standard error of
a coverage is 1 %: a right method lies between 93 % and 97 % in 96 of 100 cases a number, and in 100 of 100 within 3.3
standard errors. Intervals take the quantiles that are unbiased for few draws (positions ``q (N + 1)``).
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _shared import ANY, write

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer
from discreet.inference._chains.release import model_of_counts, model_of_records
from discreet.inference._chains.splits import Splits
from discreet.inference._chains.tree import TreeRecords
from discreet.mechanisms import (
    DirichletMultinomial,
    GaussianSmoothedHistogram,
    HierarchicalHistogram,
    LaplaceProjectionSampler,
    PerturbedHistogram,
    SmoothedHistogram,
    StabilityHistogram,
)

RESULTS = Path(__file__).resolve().parent / "results" / "coverage"
HELD, RELEASED, STRENGTH, BINS = 400, 200, 4.0, 10
CHAINS, WARM_UP, KEPT, APART = 20, 30, 10, 4
DOMAIN, LARGE, SMALL = (Domain(columns={"x": Integer(lower=1, upper=cells)}) for cells in (16, 32, 6))
FACTS = {"domain": DOMAIN, "records": HELD, "sampling": "iid"}
TREE = {"domain": LARGE, "records": HELD, "sampling": "iid"}
STRATIFIED = {**TREE, "sampling": "stratified"}
STABLE = {"domain": DOMAIN, "scale": 4.0, "threshold": 20, "sampling": "iid"}
METHODS = {
    "perturbed histogram (Laplace), counts": (PerturbedHistogram(**FACTS, scale=4.0), "counts"),
    "perturbed histogram (Gaussian), counts": (PerturbedHistogram(**FACTS, scale=6.0, noise="gaussian"), "counts"),
    "hierarchical histogram (Gaussian), counts": (HierarchicalHistogram(**FACTS, scale=8.0), "counts"),
    "stability histogram, counts": (StabilityHistogram(**STABLE), "counts"),
    "smoothed histogram, records": (SmoothedHistogram(domain=DOMAIN, size=RELEASED, mixing=0.2), "records"),
    "Dirichlet-multinomial, records": (DirichletMultinomial(domain=DOMAIN, size=RELEASED, prior=3.0), "records"),
    "perturbed histogram (Laplace), records": (PerturbedHistogram(**FACTS, scale=4.0), "records"),
    "perturbed histogram (Gaussian, simplex), records": (
        PerturbedHistogram(**FACTS, scale=6.0, noise="gaussian", projection="simplex"),
        "records",
    ),
    "Gaussian smoothed histogram, records": (GaussianSmoothedHistogram(**FACTS, scale=6.0), "records"),
    "stability histogram, records": (StabilityHistogram(**STABLE), "records"),
    "L1 projection (Laplace), records": (LaplaceProjectionSampler(**FACTS, scale=4.0), "records"),
    "perturbed histogram (Gaussian, W1), records": (
        PerturbedHistogram(**{**FACTS, "domain": SMALL}, scale=6.0, noise="gaussian", projection="w1"),
        "records",
    ),
    "hierarchical histogram (Laplace), counts": (HierarchicalHistogram(**FACTS, scale=6.0, noise="laplace"), "counts"),
    "hierarchical histogram (Gaussian), records": (HierarchicalHistogram(**TREE, scale=8.0), "records"),
    "hierarchical histogram (Laplace), records": (
        HierarchicalHistogram(**TREE, scale=6.0, noise="laplace"),
        "records",
    ),
    "hierarchical histogram (Gaussian), stratified records": (
        HierarchicalHistogram(**STRATIFIED, scale=8.0),
        "records",
    ),
    "hierarchical histogram (Laplace), stratified records": (
        HierarchicalHistogram(**STRATIFIED, scale=6.0, noise="laplace"),
        "records",
    ),
}


def functionals(cells: int) -> dict[str, np.ndarray]:
    """Return what is estimated, as weights of the cells."""
    values, upper = np.arange(1.0, cells + 1), 3 * cells // 4
    return {"mean": values, f"P(>{upper})": (values > upper) * 1.0, "P(=3)": (values == 3) * 1.0}


def weights(mechanism: Any) -> np.ndarray:
    return np.stack(list(functionals(mechanism.domain.size).values()), axis=1)


def release(mechanism: Any, form: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a world's functionals, and what was released: counts of cells (nan: none), or numbers of records."""
    domain, cells = mechanism.domain, mechanism.domain.size
    p = rng.dirichlet(np.full(cells, STRENGTH / cells))
    held = rng.multinomial(HELD, p)
    some = np.flatnonzero(held)
    output = mechanism.kernel(Counts(records=domain.unflat(some), frequencies=held[some]), rng=rng)
    if form == "counts":
        table = mechanism.estimates(output)
        counts = np.full(cells, np.nan)
        counts[domain.flat(table.records)] = table.counts
        return p @ weights(mechanism), counts
    drawn = np.zeros(cells, dtype=np.int64)
    for chunk in mechanism.finish(output, size=RELEASED, rng=rng):
        np.add.at(drawn, domain.flat(chunk), 1)
    return p @ weights(mechanism), drawn


def posteriors(mechanism: Any, form: str, released: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the draws of the functionals, (worlds, draws, functionals)."""
    alpha = np.full(mechanism.domain.size, STRENGTH / mechanism.domain.size)
    if form == "records" and isinstance(mechanism, HierarchicalHistogram):
        models: list[Any] = [model_of_records(mechanism.evidence(), alpha, HELD, z) for z in released]
        if mechanism.sampling == "iid":
            models = [SideBySide(models)]
        return np.concatenate([draws_of(model, CHAINS, weights(mechanism), rng) for model in models])
    build = model_of_counts if form == "counts" else model_of_records
    model = build(mechanism.evidence(), alpha, HELD, np.repeat(released, CHAINS, axis=0))
    return draws_of(model, len(released) * CHAINS, weights(mechanism), rng)


def draws_of(model: Any, rows: int, of: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    model.start(rows, rng)
    for _ in range(WARM_UP):
        model.sweep(rng, tune=True)
    kept = []
    for _ in range(KEPT):
        for _ in range(APART):
            model.sweep(rng, tune=False)
        kept.append((model.masses(rng) @ of).reshape(-1, CHAINS, of.shape[1]))
    return np.concatenate(kept, axis=1)


class SideBySide(TreeRecords):
    """Models of independent draws along one tree whose columns stand side by side: no move leads from one to another.

    Each has splits of its own, so they cannot be rows of one model; one after the other they take ten times as long.
    """

    def __init__(self, models: list[TreeRecords]) -> None:
        self._models = models
        parts = [model._splits for model in models]
        leaves = np.cumsum([0] + [len(part.drawn) for part in parts])
        splits, depths = sum(len(part.depth) for part in parts), max(part.path.shape[1] for part in parts)
        path, pull = np.full((leaves[-1], depths), splits), np.zeros((leaves[-1], depths))
        depth = np.concatenate([part.depth for part in parts])
        order = np.argsort(depth, kind="stable")
        place = np.append(np.argsort(order), splits)
        before = 0
        for part, start in zip(parts, leaves, strict=False):
            rows, width = slice(start, start + len(part.drawn)), part.path.shape[1]
            path[rows, :width] = place[np.where(part.path < len(part.depth), part.path + before, splits)]
            pull[rows, :width] = part.pull
            before += len(part.depth)
        everything = Splits(
            np.concatenate([part.leaf + start for part, start in zip(parts, leaves, strict=False)]),
            np.concatenate([part.drawn for part in parts]),
            np.concatenate([part.children + start for part, start in zip(parts, leaves, strict=False)])[order],
            np.concatenate([part.share for part in parts])[order],
            np.concatenate([part.variance for part in parts])[order],
            depth[order],
            path,
            pull,
        )
        spread = math.sqrt(float(models[0]._variance[0] / parts[0].variance[0]))
        alpha = np.concatenate([model._all for model in models])
        super().__init__(alpha, models[0].records, everything, spread=spread, stratified=False)
        self._first = leaves[:-1]

    def start(self, chains: int, rng: np.random.Generator) -> None:
        for model in self._models:
            model.start(chains, rng)
        self.counts = np.concatenate([model.counts for model in self._models], axis=1)
        self._held = np.concatenate([model._held for model in self._models], axis=1)

    def masses(self, rng: np.random.Generator) -> np.ndarray:
        together = super().masses(rng).reshape(len(self.counts), len(self._models), -1)
        return np.moveaxis(together / together.sum(axis=2, keepdims=True), 1, 0)

    def _at_random(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        pairs = [model._at_random(rng) for model in self._models]
        return tuple(np.concatenate([p[i] + s for p, s in zip(pairs, self._first, strict=True)]) for i in (0, 1))


def measured(name: str, worlds: int) -> list[list[Any]]:
    """Return the rows of a method."""
    at, (mechanism, form) = list(METHODS).index(name), METHODS[name]
    start, rng = time.process_time(), seeded(20_000 + at)
    pairs = [release(mechanism, form, rng) for _ in range(worlds)]
    truth, released = (np.stack(part) for part in zip(*pairs, strict=True))
    draws = posteriors(mechanism, form, released, rng)
    low, high = np.quantile(draws, [0.025, 0.975], axis=1, method="weibull")
    ranks = (draws < truth[:, None, :]).mean(axis=1)
    seconds, rows = (time.process_time() - start) / worlds, []
    for j, functional in enumerate(functionals(mechanism.domain.size)):
        inside = float(((low <= truth) & (truth <= high))[:, j].mean())
        bins = np.bincount(np.minimum((ranks[:, j] * BINS).astype(int), BINS - 1), minlength=BINS)
        expected = worlds / BINS
        chi = float(((bins - expected) ** 2 / expected).sum())
        rows.append([name, functional, worlds, inside, float((high - low)[:, j].mean()), chi, seconds])
    return rows


QUICK = (
    "perturbed histogram (Laplace), counts",
    "Dirichlet-multinomial, records",
)
SLICE_WORLDS = 3  # worlds of a method run side by side, so 500 have no part that can be run alone
WITHOUT_SLICE = {"coverage.csv": "the worlds of a method run side by side; slice.csv has a few"}


def slices() -> Iterator[tuple[str, Any]]:
    """Yield the rows of a few worlds of the quick methods."""
    for name in QUICK:
        for row in measured(name, SLICE_WORLDS):
            yield "slice.csv", [*row[:-1], ANY]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for name in METHODS:  # new methods go last: worlds depend on the place
        if not name.startswith(options.only):
            continue
        rows = measured(name, options.worlds)
        for row in rows:
            print(*row, flush=True)
        keep("coverage.csv", rows)
        if name in QUICK:
            keep("slice.csv", measured(name, SLICE_WORLDS))


def keep(name: str, rows: list[list[Any]]) -> None:
    """Write the rows, beside those of methods that were not run this time."""
    path = RESULTS / name
    ran = {row[0] for row in rows}
    if path.exists():
        with path.open(newline="") as file:
            rows = [row for row in list(csv.reader(file))[1:] if row[0] not in ran] + rows
    order = list(METHODS)
    rows.sort(key=lambda row: order.index(row[0]))
    head = [
        "method",
        "functional",
        "worlds",
        "coverage",
        "mean_length",
        "rank_chi2_9df",
        "cpu_seconds",
    ]
    write(path, head, rows)
    if name == "coverage.csv":
        page(rows)


def page(rows: list[list[Any]]) -> None:
    """Write the rows as a table in Markdown."""
    text = [
        "| method | functional | worlds | coverage of 95 % | mean length | rank test (chi-square, 9 df; 99.9 %: 27.9) |"
    ]
    text.append("|---|---|--:|--:|--:|--:|")
    text += [f"| {r[0]} | {r[1]} | {r[2]} | {float(r[3]):.3f} | {float(r[4]):.4f} | {float(r[5]):.1f} |" for r in rows]
    (RESULTS / "coverage.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
