"""Figures 1 to 3 of ROO25 (k = 9, n = 1000), as data files, and what its schedules really promise.

It takes about 20 seconds. The paper's text names no population for Figures 2 and 3, and no epsilons for Figure 1. Here
the population is a discretised normal distribution with mean 5 and standard deviation 1.5 on 1..9: its most probable
element is the middle one, as there.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from _harness import HERE, script, write

from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.mechanisms import DataSpecificRevealOrObscure, LaplaceProjectionSampler, RevealOrObscure
from discreet.privacy.mixtures import MinimumPairs

RESULTS = HERE / "results" / "roo25"
K, N = 9, 1000
CELLS = Domain(columns={"letter": Integer(lower=1, upper=K)})
FIGURE_1 = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
FIGURE_3 = np.round(np.geomspace(0.02, 2.0, 25), 4)
TABLES = 200_000
SEED = 25


def population() -> Any:
    weights = np.exp(-0.5 * ((np.arange(1, K + 1) - 5) / 1.5) ** 2)
    return weights / weights.sum()


def schedule(epsilon: float, name: str = "optimal", *, n: int = N, k: int = K) -> Any:
    """Return the probabilities of obscuring at every smallest count."""
    domain = Domain(columns={"letter": Integer(lower=1, upper=k)})
    return DataSpecificRevealOrObscure(domain=domain, size=1, draw_epsilon=epsilon, schedule=name).probabilities(n)


def output_error(epsilon: float, tables: Any, name: str = "optimal") -> Any:
    """Return ``Q - P`` for the law ``Q`` of one draw: the mean of ``q (1/k - share)``, as shares average to ``P``."""
    q = schedule(epsilon, name)[tables.min(axis=1)]
    return (q[:, None] * (1 / K - tables / N)).mean(axis=0)


def laplace_error(epsilon: float, tables: Any) -> Any:
    """Return the same for the Laplace projection sampler, with fresh noise on each table."""
    sampler = LaplaceProjectionSampler(domain=CELLS, records=N, scale=2.0 / epsilon)
    rng, noise = seeded(SEED + 1), sampler.law.approximate
    moved = [sampler.probabilities(t + noise(sampler.scale, K, rng=rng)) - t / N for t in tables]
    return np.mean(moved, axis=0)


def distance(error: Any) -> float:
    """Return half the sum of absolute differences: total variation."""
    return float(0.5 * np.abs(error).sum())


def figure_1() -> list[tuple[Any, ...]]:
    pairs = [(epsilon, schedule(epsilon).tolist(), schedule(epsilon, "published").tolist()) for epsilon in FIGURE_1]
    return [(epsilon, i, least[i], published[i]) for epsilon, least, published in pairs for i in range(N // K + 1)]


def figure_2(tables: Any) -> list[tuple[Any, ...]]:
    """Return the population and the output laws at epsilon 0.1; the paper's schedule gives the same to six digits."""
    p = population()
    roo = RevealOrObscure(domain=CELLS, size=1, mixing=RevealOrObscure.least_mixing(0.1, n=N, cells=K))
    least, obscured = p + output_error(0.1, tables), roo.output_distribution(p)
    return [(y + 1, float(p[y]), float(least[y]), float(obscured[y])) for y in range(K)]


def figure_3(tables: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the accuracy of each sampler at each epsilon."""
    for epsilon in FIGURE_3.tolist():
        mixing = RevealOrObscure.least_mixing(epsilon, n=N, cells=K)
        worst = RevealOrObscure(domain=CELLS, size=1, mixing=mixing).accuracy
        here = mixing * distance(1 / K - population())
        ours = [distance(output_error(epsilon, tables, name)) for name in ("optimal", "published")]
        yield (epsilon, 2 * K / (N * epsilon), distance(laplace_error(epsilon, tables[:10_000])), worst, here, *ours)


def promised() -> Iterator[tuple[Any, ...]]:
    """Yield what the schedules really promise, and the mean probability of obscuring uniform populations."""
    settings = ((3, 2), (7, 2), (1000, 2), (10, 3), (96, 24), (1000, 9), (10_000, 100), (839_706, 2894))
    for n, k in settings:
        tables = seeded(SEED).multinomial(n, np.full(k, 1 / k), size=2000).min(axis=1)
        for epsilon in (0.002, 0.05, 0.135, 0.5):
            row: list[Any] = [n, k, epsilon]
            for name in ("published", "optimal"):
                q = schedule(epsilon, name, n=n, k=k)
                row += [MinimumPairs(n=n, cells=k, weights=q).loss, float(q[tables].mean())]
            yield *row, RevealOrObscure.least_mixing(epsilon, n=n, cells=k)


def drawn_tables(count: int = TABLES) -> Any:
    return seeded(SEED).multinomial(N, population(), size=count)


def slices() -> dict[str, Any]:
    tables = drawn_tables()
    found = {"figure_1.csv": figure_1(), "figure_2.csv": figure_2(tables)}
    return {**found, "figure_3.csv": islice(figure_3(tables), 1), "promised.csv": islice(promised(), 16)}


@script(tables=(TABLES, 1000))
def main(tables: int) -> None:
    drawn = drawn_tables(tables)
    write(RESULTS / "figure_1.csv", ("epsilon", "smallest_count", "q_least", "q_published"), figure_1())
    write(RESULTS / "figure_2.csv", ("letter", "population", "data_specific", "reveal_or_obscure"), figure_2(drawn))
    head = ("epsilon", "laplace_formula", "laplace_simulated", "reveal_or_obscure_worst", "reveal_or_obscure",
            "data_specific", "data_specific_published")  # fmt: skip
    write(RESULTS / "figure_3.csv", head, figure_3(drawn))
    head = ("n", "k", "epsilon", "published_epsilon", "published_mean_q", "least_epsilon", "least_mean_q", "roo_q")
    write(RESULTS / "promised.csv", head, promised())
