"""How fast releases come near the population: PY26 Theorems 3 and 4, BNP24 Proposition 5.3, in one and two dimensions.

It takes a few minutes. Neither paper has such a study. Tables of n records are drawn from a law on cells, fresh in
every run, and released; the distance is that of the release from the law itself, as in the theorems.
Dirichlet-multinomial (prior 2 a cell, the least that the theorems take): 16 cells on a line and 4 x 4 in the plane, m =
n and m = n/10. Dirichlet process (strength 1): 40 x 40 points of the plane, m = n/10, so few that they stand for a
continuous law.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from _harness import HERE, cells_held, drawn, mean_and_band, script, write

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Numeric, Records
from discreet.mechanisms import DirichletMultinomial, PitmanYor
from discreet.papers.bnp24 import kolmogorov_smirnov_rate
from discreet.papers.py26 import dirichlet_multinomial_rate, dirichlet_process_rate
from discreet.utility import ks_distance, transport_distance, wasserstein_1d

RESULTS = HERE / "results" / "convergence"
SEED = 53
HEAD = ("study", "theorem", "distance", "d", "n", "m", "runs", "mean", "low", "high", "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One law of records, one mechanism, and the sizes."""

    name: str
    sides: tuple[int, ...]
    records: tuple[int, ...]
    share: float
    runs: int
    cells: bool = True

    @property
    def points(self) -> Any:
        """The middles of the cells, one row each."""
        grid = np.meshgrid(*((np.arange(k) + 0.5) / k for k in self.sides), indexing="ij")
        return np.stack([axis.ravel() for axis in grid], axis=1)

    @property
    def law(self) -> Any:
        """The share of each cell in the population: it falls by a third from one corner to the other."""
        mass = 1.0 - self.points.mean(axis=1) / 3.0
        return mass / mass.sum()

    def release(self, n: int, m: int, rng: np.random.Generator) -> Any:
        """Draw a table of n records and return a release: how many of its records each point has, and points."""
        frequencies = rng.multinomial(n, self.law)
        columns = [Numeric(lower=0.0, upper=1.0, cells=k if self.cells else None) for k in self.sides]
        domain = Domain(columns={f"x{i}": column for i, column in enumerate(columns)})
        if self.cells:
            made = DirichletMultinomial(domain=domain, size=m, prior=2.0)
            released = drawn(made, cells_held(frequencies, domain), m, rng)
            return self.points, np.bincount(domain.flat(released), minlength=len(frequencies))
        held = np.flatnonzero(frequencies)
        x = Counts(records=Records(columns=tuple(self.points[held].T)), frequencies=frequencies[held])
        released = drawn(PitmanYor(domain=domain, size=m, strength=1.0), x, m, rng)
        return np.unique(np.stack(released.columns, axis=1), axis=0, return_counts=True)

    @property
    def measured(self) -> dict[str, tuple[str, Callable[..., float], Callable[[float, float], float]]]:
        """The distances: whose theorem, how it is measured, and its rate."""
        d = len(self.sides)
        if not self.cells:
            return {"W1": ("PY26 Theorem 4", transported, lambda n, m: dirichlet_process_rate(n, m, d))}
        w1 = on_a_line(wasserstein_1d) if d == 1 else transported
        found = {"W1": ("PY26 Theorem 3", w1, lambda n, m: dirichlet_multinomial_rate(n, m, d))}
        if d == 1:
            found["KS"] = ("BNP24 Proposition 5.3", on_a_line(ks_distance), kolmogorov_smirnov_rate)
        return found

    def rows(self, few: int | None = None) -> Iterator[list[Any]]:
        """Yield the results for each number of records, or the first few, each from a seed of its own."""
        for n in self.records[:few]:
            m, rng = round(self.share * n), seeded(SEED + n)
            drawn = [self.release(n, m, rng) for _ in range(self.runs)]
            for distance, (theorem, measure, rate) in self.measured.items():
                band = mean_and_band([measure(self.points, self.law, *release) for release in drawn])
                yield [self.name, theorem, distance, len(self.sides), n, m, self.runs, *band, rate(n, m)]


def on_a_line(distance: Callable[..., float]) -> Callable[..., float]:
    """Return a distance of weighted samples of one column as one of weighted points."""

    def measured(x: Any, x_weights: Any, y: Any, y_weights: Any) -> float:
        return distance(x[:, 0], y[:, 0], x_weights=x_weights, y_weights=y_weights)

    return measured


def transported(x: Any, x_weights: Any, y: Any, y_weights: Any) -> float:
    """Return the Wasserstein-1 distance for the Euclidean distance of points."""
    return transport_distance(x, y, x_weights=x_weights, y_weights=y_weights, norm="euclidean")


DECADES = (1000, 3000, 10_000, 30_000, 100_000, 300_000)
POINTS = (300, 600, 1000, 2000, 3000, 6000)
STUDIES = (
    Study(name="cells of a line, m = n", sides=(16,), records=DECADES, share=1.0, runs=100),
    Study(name="cells of a line, m = n/10", sides=(16,), records=DECADES, share=0.1, runs=100),
    Study(name="cells of the plane, m = n", sides=(4, 4), records=DECADES, share=1.0, runs=100),
    Study(name="cells of the plane, m = n/10", sides=(4, 4), records=DECADES, share=0.1, runs=100),
    Study(name="points of the plane, m = n/10", sides=(40, 40), records=POINTS, share=0.1, runs=30, cells=False),
)


def slopes(rows: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield, for each study and distance, the fitted slope of the mean and of the rate in n, and how far they part."""
    for name, theorem, distance in dict.fromkeys(tuple(row[:3]) for row in rows):
        chosen = [row for row in rows if (row[0], row[2]) == (name, distance)]
        n, mean, rate = (np.array([row[i] for row in chosen], dtype=np.float64) for i in (4, 7, 10))
        fitted = [float(np.polyfit(np.log(n), np.log(values), 1)[0]) for values in (mean, rate)]
        yield [name, theorem, distance, *fitted, float((mean / rate).min()), float((mean / rate).max())]


WITHOUT_SLICE = {"slopes.csv": "computed from all rows of convergence.csv"}


def slices() -> dict[str, Any]:
    return {"convergence.csv": [row for study in (STUDIES[0], STUDIES[1], STUDIES[-1]) for row in study.rows(1)]}


@script(sizes=(len(DECADES), 2))
def main(sizes: int) -> None:
    rows = [row for study in STUDIES for row in study.rows(sizes)]
    write(RESULTS / "convergence.csv", HEAD, rows)
    head = ("study", "theorem", "distance", "measured", "of the rate", "least mean/rate", "largest mean/rate")
    write(RESULTS / "slopes.csv", head, slopes(rows))
