"""Calibration of the mechanism-aware posteriors: coverage of 95 % intervals and ranks over simulated worlds.

A world: cell probabilities ``p`` drawn from the prior (Dirichlet, strength 4, 16 cells; 32 for records along a tree, 6
for the W1 projection), 400 confidential records of ``p``, one release, 200 posterior draws. If and only if the
posterior is right, the rank of the truth among independent draws is uniform, whatever the functional, and 95 %
intervals cover with probability 0.95. With 500 worlds the standard error of a coverage is 1 %: a right method lies
between 93 % and 97 % in 96 of 100 cases a number, and in 100 of 100 within 3.3 standard errors. Intervals take the
quantiles that are unbiased for few draws (positions ``q (N + 1)``).

A world of a process (``--only processes``): confidential records from a Pitman-Yor urn, the population given them (one
draw of its exact posterior, which is the same joint law), a release that continues the urn, and a posterior of 500
draws given the release alone: through the confidential counts, and as PY26 and BNP24 do, with the release taken for a
sample. The median of such a population is one of its atoms, often with certainty: its intervals cover more than they
state, which ranks with ties broken at random do not mind.
"""

import time
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from _harness import (
    ANY,
    HERE,
    cells_held,
    cells_shown,
    drawn,
    line,
    markdown,
    renew,
    script,
    unevenness,
    write,
    write_lines,
)

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer
from discreet.inference import process_posterior
from discreet.inference.prior import Prior
from discreet.inference.samplers import ReleasedCounts, ReleasedRecords, draw_counts
from discreet.mechanisms import (
    DirichletMultinomial,
    GaussianSmoothedHistogram,
    HierarchicalHistogram,
    LaplaceProjectionSampler,
    PerturbedHistogram,
    PitmanYor,
    SmoothedHistogram,
    StabilityHistogram,
    UrnHistogram,
)

RESULTS = HERE / "results" / "coverage"
HELD, RELEASED, STRENGTH = 400, 200, 4.0
DRAWS = 200
DOMAIN, LARGE, SMALL = (Domain(columns={"x": Integer(lower=1, upper=cells)}) for cells in (16, 32, 6))
FACTS = {"domain": DOMAIN, "records": HELD, "sampling": "iid"}
TREE = {"domain": LARGE, "records": HELD, "sampling": "iid"}
STRATIFIED = {**TREE, "sampling": "stratified"}
STABLE = {"domain": DOMAIN, "scale": 4.0, "threshold": 20, "sampling": "iid"}
GAUSSIAN = {"scale": 6.0, "noise": "gaussian"}
LAPLACE = {"scale": 6.0, "noise": "laplace"}
COUNTS = {
    "perturbed histogram (Laplace), counts": PerturbedHistogram(**FACTS, scale=4.0),
    "perturbed histogram (Gaussian), counts": PerturbedHistogram(**FACTS, **GAUSSIAN),
    "hierarchical histogram (Gaussian), counts": HierarchicalHistogram(**FACTS, scale=8.0),
    "stability histogram, counts": StabilityHistogram(**STABLE),
    "hierarchical histogram (Laplace), counts": HierarchicalHistogram(**FACTS, **LAPLACE),
}
RECORDS = {
    "smoothed histogram, records": SmoothedHistogram(domain=DOMAIN, size=RELEASED, mixing=0.2),
    "Dirichlet-multinomial, records": DirichletMultinomial(domain=DOMAIN, size=RELEASED, prior=3.0),
    "perturbed histogram (Laplace), records": PerturbedHistogram(**FACTS, scale=4.0),
    "perturbed histogram (Gaussian, simplex), records": PerturbedHistogram(**FACTS, **GAUSSIAN, projection="simplex"),
    "Gaussian smoothed histogram, records": GaussianSmoothedHistogram(**FACTS, scale=6.0),
    "stability histogram, records": StabilityHistogram(**STABLE),
    "L1 projection (Laplace), records": LaplaceProjectionSampler(**FACTS, scale=4.0),
    "perturbed histogram (Gaussian, W1), records": PerturbedHistogram(
        **{**FACTS, "domain": SMALL}, **GAUSSIAN, projection="w1"
    ),
    "hierarchical histogram (Gaussian), records": HierarchicalHistogram(**TREE, scale=8.0),
    "hierarchical histogram (Laplace), records": HierarchicalHistogram(**TREE, **LAPLACE),
    "hierarchical histogram (Gaussian), stratified records": HierarchicalHistogram(**STRATIFIED, scale=8.0),
    "hierarchical histogram (Laplace), stratified records": HierarchicalHistogram(**STRATIFIED, **LAPLACE),
    "urn histogram, records": UrnHistogram(domain=DOMAIN, size=RELEASED, strength=5.0),
    "perturbed histogram (Gaussian, W1), stratified records": PerturbedHistogram(
        **{**FACTS, "sampling": "stratified"}, **GAUSSIAN, projection="w1"
    ),
}
ORDER = [*COUNTS][:4] + [*RECORDS][:8] + [*COUNTS][4:] + [*RECORDS][8:]
SEEDS = [*ORDER[:17], "", *ORDER[17:]]  # one method is no longer measured, and the others keep their seeds
"""New methods go last: worlds depend on the place."""


def functionals(cells: int) -> dict[str, np.ndarray]:
    values, upper = np.arange(1.0, cells + 1), 3 * cells // 4
    return {"mean": values, f"P(>{upper})": (values > upper) * 1.0, "P(=3)": (values == 3) * 1.0}


def weights(mechanism: Any) -> np.ndarray:
    return np.stack(list(functionals(mechanism.domain.size).values()), axis=1)


def release(mechanism: Any, form: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a world's functionals, and what was released: counts of cells (nan: none), or numbers of records."""
    domain, cells = mechanism.domain, mechanism.domain.size
    p = rng.dirichlet(np.full(cells, STRENGTH / cells))
    output = mechanism.kernel(cells_held(rng.multinomial(HELD, p), domain), rng=rng)
    return p @ weights(mechanism), cells_shown(mechanism, output, HELD, RELEASED if form == "records" else 0, rng)


def posterior(mechanism: Any, form: str, released: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return draws of the functionals, (draws, functionals)."""
    alpha = np.full(mechanism.domain.size, STRENGTH / mechanism.domain.size)
    kind = ReleasedCounts if form == "counts" else ReleasedRecords
    counts = draw_counts(mechanism.likelihood(), [Prior.process(alpha)], kind(HELD, released), DRAWS, rng).counts
    masses = rng.standard_gamma(alpha + counts)
    return (masses / masses.sum(axis=1, keepdims=True)) @ weights(mechanism)


def measured(name: str, worlds: int) -> list[list[Any]]:
    mechanism, form = (COUNTS | RECORDS)[name], "counts" if name in COUNTS else "records"
    start, rng = time.process_time(), seeded(20_000 + SEEDS.index(name))
    pairs = [release(mechanism, form, rng) for _ in range(worlds)]
    truth, released = (np.stack(part) for part in zip(*pairs, strict=True))
    draws = np.stack([posterior(mechanism, form, seen, rng) for seen in released])
    seconds = (time.process_time() - start) / worlds
    low, high = np.quantile(draws, [0.025, 0.975], axis=1, method="weibull")
    inside, length = ((low <= truth) & (truth <= high)).mean(axis=0), (high - low).mean(axis=0)
    ranks = (draws < truth[:, None, :]).mean(axis=1)
    return [
        [name, functional, worlds, float(inside[j]), float(length[j]), unevenness(ranks[:, j]), seconds]
        for j, functional in enumerate(functionals(mechanism.domain.size))
    ]


LINE = line()
NUMBERS = ("mean", "q50", "P(>0.75)")
ANALYSES = ("through the confidential counts", "as PY26: release taken for a sample")
PROCESSES = {  # strength, discount, records held, records released
    "dirichlet-process, m = n/2": (1.0, 0.0, 1000, 500),
    "dirichlet-process, strength 10, m = n": (10.0, 0.0, 500, 500),
    "pitman-yor, discount 0.5, m = n/2": (1.0, 0.5, 400, 200),
}


def world_of_process(strength: float, discount: float, n: int, m: int, seed: int) -> list[list[tuple[float, ...]]]:
    """Return, for each analysis and number, whether the truth is covered, its rank and the interval's length."""
    rng, prior = seeded(seed), {"strength": strength, "discount": discount}

    def urn(held: Any, size: int) -> Any:
        return drawn(PitmanYor(domain=LINE, size=size, **prior), Counts.of_cells(held), size, rng).columns[0]

    first = LINE.draw_base(1, rng).columns[0]
    held = np.concatenate((first, urn(first, n - 1)))
    population = process_posterior(pl.DataFrame({"x": held}), LINE, **prior, draws=1, seed=seed)
    truth = [population.evaluate(name)[0] for name in NUMBERS]
    table, out = pl.DataFrame({"x": urn(held, m)}), []
    for records in (n, None):
        made = process_posterior(table, LINE, **prior, n=records, draws=500, seed=seed + 1)
        row = []
        for name, true in zip(NUMBERS, truth, strict=True):
            found = made.evaluate(name)
            low, high = np.quantile(found, [0.025, 0.975], method="weibull")
            rank = (found < true).mean() + (found == true).mean() * rng.random()
            row.append((float(low - 1e-12 <= true <= high + 1e-12), float(rank), float(high - low)))
        out.append(row)
    return out


def of_processes(worlds: int) -> list[list[Any]]:
    rows = []
    for name, setting in PROCESSES.items():
        found = np.array([world_of_process(*setting, 7919 * world + 11) for world in range(worlds)])
        for (i, analysis), (j, number) in product(enumerate(ANALYSES), enumerate(NUMBERS)):
            inside, ranks, lengths = found[:, i, j].T
            rows.append(
                [name, analysis, number, worlds, float(inside.mean()), float(lengths.mean()), unevenness(ranks)]
            )
    return rows


HEAD = ["method", "functional", "worlds", "coverage", "mean_length", "rank_chi2_9df", "cpu_seconds"]
HEAD_OF_PROCESSES = ["process", "analysis", *HEAD[1:-1]]
QUICK = ("perturbed histogram (Laplace), counts", "Dirichlet-multinomial, records")
SLICE_WORLDS = 3
WITHOUT_SLICE = dict.fromkeys(("coverage.csv", "processes.csv"), "a row needs 500 worlds; slices have rows of a few")


def slices() -> dict[str, Any]:
    few = [[*row[:-1], ANY] for name in QUICK for row in measured(name, SLICE_WORLDS)]
    return {"slice.csv": few, "slice_of_processes.csv": of_processes(1)}


def page(name: str, head: list[str], rows: list[list[Any]]) -> None:
    tests = "rank test (chi-square, 9 df; 99.9 %: 27.9)"
    head = [*head[: head.index("coverage")], "coverage of 95 %", "mean length", tests]
    body = [(*map(str, cells), f"{float(share):.3f}", f"{float(length):.4f}", f"{float(test):.1f}")
            for *cells, share, length, test in (row[: len(head)] for row in rows)]  # fmt: skip
    write_lines(RESULTS / name, markdown(head, body, left=len(head) - 4))


@script(worlds=(500, 4), only="")
def main(worlds: int, only: str) -> None:
    for name in ORDER:
        if name.startswith(only):
            rows = measured(name, worlds)
            print(*(" ".join(map(str, row)) for row in rows), sep="\n", flush=True)
            page("coverage.md", HEAD, renew(RESULTS / "coverage.csv", HEAD, rows, ORDER))
            if name in QUICK:
                renew(RESULTS / "slice.csv", HEAD, measured(name, SLICE_WORLDS), ORDER)
    if "processes".startswith(only):
        rows = of_processes(worlds)
        write(RESULTS / "processes.csv", HEAD_OF_PROCESSES, rows)
        write(RESULTS / "slice_of_processes.csv", HEAD_OF_PROCESSES, of_processes(1))
        page("processes.md", HEAD_OF_PROCESSES, rows)
