"""PY26 Table 2: what an analyst concludes from a release, over repeated worlds whose truth is known.

It takes some minutes. The paper: n = 2,000 confidential observations on a regular grid in [0, 1] with two-component
beta weights; a release; 1,000 posterior draws; 20 replicates. It does not print the mixture or the released size. We
take 101 grid points, weights 0.7 Beta(2, 6) + 0.3 Beta(7, 3), strength 1, and m = 350, which give intervals as long as
the printed ones; and m = 2,000 besides. 20 replicates cannot tell a coverage of 95 % from one of 85 %, so there are 500
too: their standard error is 1 %.

For the histograms: 25 bins, Laplace noise of scale 2 (epsilon 1), which the paper does not print either, and a
Dirichlet process within the bins too, as in the paper's own sampler; besides, what 350 records released from the noisy
counts say, which the paper does not compute ("six minutes" a posterior). Posteriors by Markov chains have 300
draws. The direct smoothed histogram is not private.

Each method is a line of ``METHODS``: a name and a function from a world and a seed to a posterior.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from _harness import ANY, HERE, cells_held, drawn, line, markdown, read, renew, script, write_lines

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Numeric, Records
from discreet.inference import Posterior, process_posterior
from discreet.inference.bounds import shapes
from discreet.inference.prior import Prior
from discreet.inference.samplers import ReleasedCounts, ReleasedRecords, draw_counts
from discreet.mechanisms import PerturbedHistogram, PitmanYor

RESULTS = HERE / "results" / "py26_table2"
HELD, DRAWS, STRENGTH, BINS = 2000, 1000, 1.0, 25
GRID = np.linspace(0.0, 1.0, 101)
FUNCTIONALS = ("mean", "q50", "q25", "q75", "P(>0.75)")
LINE = line()
# Bins that begin half a step before the first point: otherwise the points of a bin lie to the left in it, by 0.005.
CELLS = Domain(columns={"x": Numeric(lower=-0.005, upper=1.005, cells=BINS)})
ALPHA = np.full(BINS, STRENGTH / BINS)

PAPER = {  # bias, root mean square error, coverage, length of the interval
    (row.pop("method"), row.pop("functional")): list(row.values()) for row in read(HERE / "printed" / "py26_table2.csv")
}
Method = Callable[[Any, int], Posterior]
"""From a world, which is how often each grid point is held, and a seed to a posterior."""


def population() -> Any:
    from scipy.stats import beta

    weights = 0.7 * beta.pdf(GRID, 2, 6) + 0.3 * beta.pdf(GRID, 7, 3)
    return weights / weights.sum()


def truth() -> dict[str, float]:
    """Return the functionals of the population itself."""
    exact = Posterior.of_arrays(LINE, Records(columns=(GRID,)), population()[None, :])
    return {name: float(exact.evaluate(name)[0]) for name in FUNCTIONALS}


def direct(size: int, *, through_counts: bool) -> Method:
    """Return the Dirichlet-process release of ``size`` records and its analysis.

    ``through_counts`` is the posterior of the population; without it, the one that the paper writes down, which takes
    the released records for a sample of the population.
    """

    def analyse(world: Any, seed: int) -> Posterior:
        held, prior = np.flatnonzero(world), {"strength": STRENGTH, "discount": 0.0}
        table = Counts(records=Records(columns=(GRID[held],)), frequencies=world[held].astype(np.int64))
        released = drawn(PitmanYor(domain=LINE, size=size, **prior), table, size, seeded(seed)).columns[0]
        how = {"n": HELD if through_counts else None, "draws": DRAWS, "seed": seed + 1}
        return process_posterior(pl.DataFrame({"x": released}), LINE, **prior, **how)

    return analyse


def perturbed(size: int | None = None, *, within: str = "process") -> Method:
    """Return the perturbed histogram, its noisy counts or ``size`` records of them, and its analysis."""

    def analyse(world: Any, seed: int) -> Posterior:
        rng = seeded(seed)
        mechanism = PerturbedHistogram(domain=CELLS, records=HELD, scale=2.0, sampling="iid")
        noisy, likelihood = mechanism.kernel(cells_held(binned(world), CELLS), rng=rng), mechanism.likelihood()
        if size is None:
            released = ReleasedCounts(HELD, noisy.astype(float))
        else:
            released = ReleasedRecords(HELD, rng.multinomial(size, mechanism.probabilities(noisy)))
        drawn = draw_counts(likelihood, [Prior.process(ALPHA)], released, DRAWS, rng)
        masses = rng.standard_gamma(ALPHA + drawn.counts)
        masses /= masses.sum(axis=1, keepdims=True)
        if within == "even":
            return Posterior.of_arrays(CELLS, CELLS.unflat(np.arange(BINS)), masses)
        return shaped(masses, rng)

    return analyse


def smoothed(world: Any, seed: int) -> Posterior:
    """Return the posterior of a directly released smoothed histogram: whoever has it has the counts."""
    rng = seeded(seed)
    return shaped(rng.dirichlet(ALPHA + binned(world), size=DRAWS), rng)


def shaped(masses: Any, rng: np.random.Generator) -> Posterior:
    """Return a posterior with a Dirichlet process within the bins."""
    own, weights = shapes(CELLS, ALPHA, masses, rng)
    nothing = Records(columns=(np.empty(0),))
    return Posterior.of_arrays(LINE, nothing, np.empty((DRAWS, 0)), own=own, own_weights=weights)


def binned(world: Any) -> Any:
    return np.bincount(CELLS.columns["x"].encode(GRID), weights=world, minlength=BINS).astype(np.int64)


PREDICTIVE = "posterior-predictive release"
METHODS: dict[str, tuple[str | None, Method]] = {  # with the paper's method that it is compared with
    "release of 350, as the paper analyses it": (PREDICTIVE, direct(350, through_counts=False)),
    "release of 350, through the confidential counts": (PREDICTIVE, direct(350, through_counts=True)),
    "release of 2,000, as the paper analyses it": (None, direct(2000, through_counts=False)),
    "release of 2,000, through the confidential counts": (None, direct(2000, through_counts=True)),
    "perturbed histogram, noisy counts": ("direct perturbed histogram", perturbed()),
    "perturbed histogram, noisy counts, even within bins": (None, perturbed(within="even")),
    "perturbed histogram, 350 records": (None, perturbed(350)),
    "smoothed histogram, direct: not private": ("direct smoothed histogram", smoothed),
}


def replicate(method: Method, replicates: int) -> tuple[Any, float, float]:
    """Give (replicates, functionals, 3) of posterior mean and interval; seconds; effective draws per second."""
    probabilities, rows, effective = population(), [], 0.0
    worlds = [seeded(i).multinomial(HELD, probabilities) for i in range(replicates)]
    start = time.perf_counter()
    for i, world in enumerate(worlds):
        summary = method(world, 1_000_000 + 2 * i).summary(FUNCTIONALS)
        effective += min(row.effective_draws for row in summary.rows)
        rows.append([(row.mean, row.lower, row.upper) for row in summary.rows])
    spent = time.perf_counter() - start
    return np.array(rows), spent / replicates, effective / spent


def rows_of(name: str, replicates: int) -> list[list[Any]]:
    """Return the rows of a method: bias, root mean square error, coverage and mean interval length of functionals."""
    printed, method = METHODS[name]
    found, *speed = replicate(method, replicates)
    rows = []
    for at, (functional, true) in enumerate(truth().items()):
        mean, lower, upper = found[:, at].T
        error, covered = mean - true, (lower <= true + 1e-9) & (true <= upper + 1e-9)
        numbers = error.mean(), math.sqrt((error**2).mean()), covered.mean(), (upper - lower).mean()
        paper = PAPER[printed, functional] if printed else [""] * 4
        rows.append([name, functional, replicates, *map(float, numbers), *speed, *paper])
    return rows


QUICK = (
    "release of 350, as the paper analyses it",
    "release of 350, through the confidential counts",
    "perturbed histogram, noisy counts, even within bins",
)


def slices() -> dict[str, Any]:
    return {"table_2.csv": [[*row[:7], ANY, ANY, *row[9:]] for name in QUICK for row in rows_of(name, 20)]}


HEAD = ["method", "functional", "replicates", "bias", "rmse", "coverage", "length", "seconds", "draws_per_second",
        "paper_bias", "paper_rmse", "paper_coverage", "paper_length"]  # fmt: skip


def page(rows: list[list[Any]]) -> None:
    body = []
    for row in rows:
        printed = [f"{float(cell):.4f}" if cell != "" else "" for cell in row[9:]]
        numbers = [f"{float(cell):.{digits}f}" for cell, digits in zip(row[3:7], (4, 4, 3, 4), strict=True)]
        body.append([*map(str, row[:3]), *numbers, *printed])
    head = ["method", "functional", "replicates", "bias", "RMSE", "coverage", "length"]
    head += [f"paper: {name}" for name in head[3:]]
    write_lines(RESULTS / "table_2.md", markdown(head, body, left=2))


@script(only=("", "release"), replicates=(500, 3))
def main(only: str, replicates: int) -> None:
    for name in METHODS:
        if name.startswith(only):
            rows = [row for replicates in (20, replicates) for row in rows_of(name, replicates)]
            print(*rows[-1], flush=True)
            page(renew(RESULTS / "table_2.csv", HEAD, rows, METHODS))
