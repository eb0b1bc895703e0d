"""Section 4.3 of PY26 (Table 1, Figures 2 and 3) on personal incomes of 49 states in place of California's.

It takes a few minutes. As printed: incomes that are missing or not positive left out, logarithms scaled to [0, 1],
strength 1, uniform base measure, epsilon 2, 300 bins, 119 records released, 100 runs. The histograms get Gaussian
noise; the smoothed one is then mixed with the uniform law. Added: the size that this n and delta = 1e-5 allow, and what
else the budget allows.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from _harness import HERE, cells_held, data, drawn, line, mean_and_band, script, write

from discreet._core.random import seeded
from discreet.domain import Counts, Records
from discreet.mechanisms import DirichletMultinomial, PerturbedHistogram, PitmanYor, SmoothedHistogram
from discreet.papers.py26 import largest_size_theorem_2
from discreet.privacy import Budget
from discreet.utility import kde_l2, wasserstein_1d
from discreet.utility.distances import summary

RESULTS = HERE / "results" / "py26_section_4_3"
TOP = 2_000_000.0  # public: no income is recorded above it
EPSILON, DELTA, STRENGTH, BINS, SIZE, RUNS, SEED = 2.0, 1e-5, 1.0, 300, 119, 100, 43
LINE, CELLS = line(), line(BINS)
Release = Callable[[], Any]


def incomes() -> tuple[Counts, Counts]:
    """Return the scaled logarithms of the positive incomes, as values and as counts of the bins."""
    held = data("acs2024_persons_income_49", "PINCP")["PINCP"].to_numpy()
    values, frequencies = np.unique(held[held > 0], return_counts=True)
    x = np.log(values) / math.log(TOP)
    masses = np.bincount(np.minimum((x * BINS).astype(np.int64), BINS - 1), weights=frequencies, minlength=BINS)
    return Counts(records=Records(columns=(x,)), frequencies=frequencies), cells_held(masses)


def releases(x: Counts, cells: Counts, size: int, delta: float, rng: np.random.Generator) -> dict[str, Release]:
    """Return a maker of releases for each mechanism of the paper, all at (epsilon, delta)."""
    n = x.n
    budget = Budget(epsilon=EPSILON, delta=delta)
    plain = {"domain": CELLS, "n": n, "projection": "clip", "sampling": "iid"}
    gaussian = PerturbedHistogram.calibrated(budget, **plain, noise="gaussian")
    process = PitmanYor(domain=LINE, size=size, strength=STRENGTH, discount=0.0)
    mixing = BINS / (n * math.expm1(EPSILON / size) + BINS)  # draws of the smoothed histogram alone are private

    def smoothed() -> Any:
        shares = (1 - mixing) * gaussian.probabilities(gaussian.kernel(cells, rng=rng)) + mixing / BINS
        return (rng.choice(BINS, size=size, p=shares) + rng.random(size)) / BINS

    return {
        "perturbed": lambda: binned(gaussian, cells, size, rng),
        "smoothed": smoothed,
        "dirichlet-process": lambda: drawn(process, x, size, rng).columns[0],
    }


def further(x: Counts, cells: Counts, rng: np.random.Generator) -> dict[str, Release]:
    """Return what (epsilon, 1e-5) allows beyond the paper: as many records as are held."""
    n = x.n
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    dirichlet = DirichletMultinomial.calibrated(budget, domain=CELLS, n=n, size=n)
    mixture = SmoothedHistogram.calibrated(budget, domain=CELLS, n=n, size=n)
    perturbed = PerturbedHistogram.calibrated(budget, domain=CELLS, n=n, projection="clip", sampling="iid")
    made = {
        f"dirichlet-multinomial, prior {dirichlet.prior:.3g}": dirichlet,
        f"smoothed, q = {mixture.mixing:.3g}, exact": mixture,
        f"perturbed, {perturbed.noise} scale {perturbed.scale:.3g}": perturbed,
    }
    return {name: partial(binned, mechanism, cells, n, rng) for name, mechanism in made.items()}


def binned(mechanism: Any, cells: Counts, size: int, rng: np.random.Generator) -> Any:
    """Return a release of cells as values: uniform within the bin."""
    return (drawn(mechanism, cells, size, rng).columns[0] + rng.random(size)) / BINS


class Study:
    """The confidential table, and what is released from it: a maker for each mechanism, size and delta."""

    def __init__(self, runs: int = RUNS) -> None:
        rng = seeded(SEED)
        x, cells = incomes()
        self.x = x
        n, values = x.n, x.records.columns[0]
        wider = PitmanYor(domain=LINE, size=SIZE, strength=STRENGTH).guarantee(n=n).delta(EPSILON)  # T1
        allowed = largest_size_theorem_2(EPSILON, DELTA, n=n, strength=STRENGTH)
        settings = [(SIZE, wider), (allowed, DELTA)]
        self.spread = summary(values, x.frequencies)["sd"]
        self.todo = [(m, delta, runs, releases(x, cells, m, delta, rng)) for m, delta in settings]
        plain = {"bootstrap, no privacy": lambda: rng.choice(values, SIZE, p=x.frequencies / n)}
        self.todo.append((SIZE, 0.0, runs, plain))
        self.todo.append((n, DELTA, 3, further(x, cells, rng)))

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], list[float], Any]]:
        """Yield a row of Table 1, the distances of all releases, and the first of them."""
        values, weights = self.x.records.columns[0], {"x_weights": self.x.frequencies}
        for size, delta, count, makers in self.todo:
            for name, make in makers.items():
                found = []
                for run in range(count):
                    z = make()
                    found.append(wasserstein_1d(values, z, **weights))
                    if run == 0:
                        first, facts = z, summary(z)
                        width = self.spread * size**-0.2  # Scott's, for the number of released records
                        apart = kde_l2(values, z, width=width, **weights)
                shown = (facts[k] for k in ("mean", "sd", "p25", "p50", "p75"))
                yield (name, size, delta, *shown, apart, *mean_and_band(found)), found, first

    def held(self) -> tuple[Any, ...]:
        """Return the row of Table 1 about the confidential records."""
        facts = summary(self.x.records.columns[0], self.x.frequencies)
        return ("confidential", self.x.n, "", *(facts[k] for k in ("mean", "sd", "p25", "p50", "p75")), *[""] * 4)


def each_run(row: tuple[Any, ...], found: list[float]) -> list[tuple[Any, ...]]:
    return [(*row[:3], run, value) for run, value in enumerate(found)]


SHOWN = ("perturbed", "smoothed", "dirichlet-process")  # in Figure 2
WITHOUT_SLICE = {"figure_2.csv": "it needs the releases of all mechanisms, half a minute"}


def slices() -> dict[str, Any]:
    study = Study()
    row, found, _ = next(iter(study))
    return {"table_1.csv": [study.held(), row], "figure_3.csv": each_run(row, found)}


def densities(study: Study, pictures: dict[tuple[str, int], Any]) -> Iterator[tuple[Any, ...]]:
    """Yield Figure 2: densities of the confidential records and of one release each, all of one bandwidth."""
    from scipy.stats import gaussian_kde

    x, rng = study.x, seeded(SEED + 1)
    thinned = rng.choice(x.records.columns[0], 100_000, p=x.frequencies / x.n)  # for the picture only
    width = study.spread * SIZE**-0.2  # Scott's, for the number of released records
    grid = np.linspace(0.3, 1.0, 281)
    curves = [gaussian_kde(z, bw_method=width / z.std(ddof=1))(grid)
              for z in (thinned, *(pictures[name, SIZE] for name in SHOWN))]  # fmt: skip
    yield from zip(grid.tolist(), *(curve.tolist() for curve in curves), strict=True)


@script(runs=(RUNS, 3))
def main(runs: int) -> None:
    study = Study(runs)
    head = ("mechanism", "size", "delta", "mean", "sd", "q1", "median", "q3", "kde_l2", "w1", "low_99", "high_99")
    rows: list[tuple[Any, ...]] = [study.held()]
    distances, pictures = [], {}
    for row, found, first in study:
        rows.append(row)
        distances += each_run(row, found)
        pictures[row[0], row[1]] = first
        print(f"{row[0]}, {row[1]:,} records: mean W1 {row[9]:.5f}")
    write(RESULTS / "table_1.csv", head, rows)
    write(RESULTS / "figure_3.csv", ("mechanism", "size", "delta", "run", "w1"), distances)
    write(RESULTS / "figure_2.csv", ("scaled_log_income", "confidential", *SHOWN), densities(study, pictures))
