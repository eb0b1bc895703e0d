"""Figure 1 of PY26: Wasserstein-1 distance of Dirichlet process releases as the table grows, beside the theory.

It takes a few minutes. Settings as printed (section 4.2, C.2): records T(G), G geometric with success probability 0.05,
T the dyadic map; a population of 1,000,000, of which n records are held; strength 1, 10, 100; epsilon 2 with delta
1e-2, 1e-3, 1e-4, the size by Theorem 2; and m = n / log n; the mean of 100 releases with a 99 % band. Added: the rates
of Theorem 4.
"""

import math
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import numpy as np
from _harness import HERE, drawn, line, mean_and_band, script, write

from discreet._core.random import seeded
from discreet.domain import Counts
from discreet.mechanisms import PitmanYor
from discreet.papers.py26 import dirichlet_process_rate, largest_size_theorem_2
from discreet.utility import wasserstein_1d

RESULTS = HERE / "results" / "py26_figure_1"
POPULATION = 1_000_000
RECORDS = (10_000, 50_000, 75_000, 100_000, 200_000, 250_000, 500_000, 1_000_000)
STRENGTHS = (1.0, 10.0, 100.0)
EPSILON, DELTAS, RUNS, SEED = 2.0, (1e-2, 1e-3, 1e-4), 100, 26


def dyadic(k: Any) -> Any:
    """Return ``T(k)``: 1/2, 1/4, 3/4, 1/8, 3/8, ..."""
    half = 2.0 ** np.floor(np.log2(k))
    return (2 * (k - half) + 1) / (2 * half)


def size(regime: str, n: int, strength: float) -> int:
    """Return the number of records released."""
    if regime == "n / log n":
        return int(n / math.log(n))
    return largest_size_theorem_2(EPSILON, float(regime), n=n, strength=strength)


REGIMES = (*map(str, DELTAS), "n / log n")


def settings(runs: int = RUNS) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each number of records, strength and size."""
    rng = seeded(SEED)
    population = dyadic(rng.geometric(0.05, size=POPULATION).astype(np.float64))
    for n in RECORDS:
        x = Counts.of_cells(population if n == POPULATION else rng.choice(population, size=n, replace=False))
        held, weights = x.records.columns[0], {"x_weights": x.frequencies}
        for strength, regime in product(STRENGTHS, REGIMES):
            m = size(regime, n, strength)
            mechanism = PitmanYor(domain=line(), size=m, strength=strength, discount=0.0)
            found = [wasserstein_1d(held, drawn(mechanism, x, m, rng).columns[0], **weights) for _ in range(runs)]
            band, rate = mean_and_band(found), float(dirichlet_process_rate(n, m, 1))
            exact = float(mechanism.guarantee(n=n).delta(EPSILON))
            yield strength, regime, n, m, exact, *band, rate, band[0] / rate


WITHOUT_SLICE = {"slopes.csv": "it follows from figure_1.csv"}


def slices() -> dict[str, Any]:
    return {"figure_1.csv": islice(settings(), 6)}


@script(runs=(RUNS, 2))
def main(runs: int) -> None:
    rows = list(settings(runs))
    head = ("strength", "regime", "n", "m", "exact_delta", "mean_w1", "low_99", "high_99", "rate_theorem_4", "ratio")
    write(RESULTS / "figure_1.csv", head, rows)
    slopes = []
    for strength, regime in product(STRENGTHS, REGIMES):
        n, mean, rate = np.log([(r[2], r[5], r[8]) for r in rows if r[:2] == (strength, regime)]).T
        slopes.append((strength, regime, float(np.polyfit(n, mean, 1)[0]), float(np.polyfit(n, rate, 1)[0])))
    write(RESULTS / "slopes.csv", ("strength", "regime", "measured", "theorem_4"), slopes)
