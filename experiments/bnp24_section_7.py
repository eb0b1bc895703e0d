"""Section 7 of BNP24: Figures 5 to 10, Tables 7 and 8, on open data in place of INVALSI scores and California incomes.

It takes a few minutes. 7.1: 39,374 exam scores (a random part of OULAD), divided by 100; strength by empirical Bayes;
epsilon 4.2, 10 bins. 7.2: 44,816 positive personal incomes (a random part of 49 states), scaled logarithms, values held
once doubled for the Dirichlet process only; strength 2, epsilon 2.5, 25 bins. Both: 100 releases of each size for
Figures 5 and 8; 5,000 and 2,000 records for the tables, histograms (Figures 6 and 9) and box plots (Figures 7 and 10),
parameters of the other mechanisms the least that the thesis' conditions allow. Histograms and box plots are of one
release each, the tables'.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from _harness import HERE, data, drawn, line, mean_and_band, script, write

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer, Records
from discreet.mechanisms import DirichletMultinomial, PerturbedHistogram, PitmanYor, SmoothedHistogram
from discreet.papers.bnp24 import dirichlet_multinomial_thesis, empirical_bayes_strength
from discreet.utility import kde_l2, wasserstein_1d
from discreet.utility.distances import summary

RESULTS = HERE / "results" / "bnp24_section_7"
SIZES = (100, 200, 1000, 2000, 5000, 8000, 10_000, 15_000, 18_000, 20_000, 30_000)
RUNS, TABLE_RUNS, SEED, TOP = 100, 20, 24, 2_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One of the two studies: the records, and what the thesis fixes."""

    name: str
    held: Any  # one value per record, in [0, 1]
    doubled: bool
    strength: float
    epsilon: float
    bins: int
    size: int

    @property
    def urn(self) -> Counts:
        """The records that the Dirichlet process starts from."""
        values, frequencies = np.unique(self.held, return_counts=True)
        if self.doubled:
            frequencies = np.where(frequencies == 1, 2, frequencies)
        return Counts(records=Records(columns=(values,)), frequencies=frequencies.astype(np.int64))


def studies() -> list[Study]:
    rng = seeded(SEED)
    scores = data("oulad_scores", "score")["score"].drop_nulls().to_numpy()
    scores = rng.choice(scores, size=39_374, replace=False) / 100.0
    incomes = data("acs2024_persons_income_49", "PINCP")["PINCP"].to_numpy()
    incomes = incomes[incomes > 0]
    incomes = np.log(rng.choice(incomes, size=44_816, replace=False)) / math.log(TOP)
    strength = empirical_bayes_strength(len(scores), len(np.unique(scores)))
    print(f"empirical-Bayes strength of the scores: {strength:.4f}")
    return [
        Study(name="7.1 scores", held=scores, doubled=False, strength=strength, epsilon=4.2, bins=10, size=5000),
        Study(name="7.2 incomes", held=incomes, doubled=True, strength=2.0, epsilon=2.5, bins=25, size=2000),
    ]


def mechanisms(study: Study, rng: np.random.Generator) -> dict[str, tuple[str, Callable[[], Any]]]:
    """Return the thesis' parameters, and a maker of releases, of each mechanism."""
    n, m, epsilon, bins = len(study.held), study.size, study.epsilon, study.bins
    cells = line(bins)
    binned = Counts.of_cells(np.minimum((study.held * bins).astype(np.int64), bins - 1))
    perturbed = PerturbedHistogram(
        domain=cells, records=n, scale=2.0 / epsilon, noise="laplace", projection="clip", sampling="iid"
    )
    q = bins / (n * math.expm1(epsilon / m) + bins)
    smoothed = SmoothedHistogram(domain=cells, size=m, mixing=q)
    process = PitmanYor(domain=line(), size=m, strength=study.strength, discount=0.0)
    values, frequencies = np.unique(study.held, return_counts=True)
    prior = dirichlet_multinomial_thesis(frequencies, epsilon, size=m)
    atoms = Domain(columns={"x": Integer(lower=0, upper=len(values) - 1)})
    public = DirichletMultinomial(domain=atoms, size=m, prior=m / math.expm1(epsilon))
    table = Counts.of_cells(np.repeat(np.arange(len(values)), frequencies))
    urn = study.urn

    def joined(mechanism: Any, x: Counts) -> Any:
        return drawn(mechanism, x, m, rng).columns[0]

    def within(mechanism: Any) -> Any:
        return (joined(mechanism, binned) + rng.random(m)) / bins

    def thesis() -> Any:
        return rng.choice(values, size=m, p=rng.dirichlet(prior + frequencies))

    return {
        "perturbed": (f"scale {2 / epsilon:.4f}", lambda: within(perturbed)),
        "smoothed": (f"q {q:.4f}", lambda: within(smoothed)),
        "dirichlet-process": (f"strength {study.strength:.4f}", lambda: joined(process, urn)),
        "dirichlet-multinomial, thesis": (f"prior {prior.min():.4g} to {prior.max():.4g}", thesis),
        "dirichlet-multinomial, public": (f"prior {public.prior:.4g}", lambda: values[joined(public, table)]),
        "bootstrap, no privacy": ("", lambda: rng.choice(study.held, size=m)),
    }


def figure(study: Study, rng: np.random.Generator, runs: int = RUNS) -> Iterator[tuple[Any, ...]]:
    """Yield the mean distance of Dirichlet process releases of each size, and of bootstrap samples."""
    urn = study.urn
    for m in SIZES:
        process = PitmanYor(domain=line(), size=m, strength=study.strength, discount=0.0)
        delta = process.guarantee(n=len(study.held)).delta(study.epsilon)
        found = [wasserstein_1d(study.held, drawn(process, urn, m, rng).columns[0]) for _ in range(runs)]
        plain = [wasserstein_1d(study.held, rng.choice(study.held, size=m)) for _ in range(runs)]
        yield study.name, m, *mean_and_band(found), float(np.mean(plain)), float(delta)


def compared(study: Study, rng: np.random.Generator, runs: int = TABLE_RUNS) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield, of each mechanism and the private data, a row of Table 7 or 8, and the values of one release."""
    facts = summary(study.held)
    width = facts["sd"] * study.size**-0.2  # Scott's, for the number of released records
    names = ("mean", "sd", "p25", "p50", "p75")
    yield (study.name, "private data", "", *(facts[k] for k in names), "", "", ""), study.held
    for name, (parameter, make) in mechanisms(study, rng).items():
        made = [make() for _ in range(runs)]
        apart = [kde_l2(study.held, z, width=width) for z in made]
        w1 = float(np.mean([wasserstein_1d(study.held, z) for z in made]))
        facts = summary(made[0])
        distances = apart[0], float(np.mean(apart)), w1
        yield (study.name, name, parameter, *(facts[k] for k in names), *distances), made[0]


def histogram(study: Study, name: str, values: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the share of a release in each bin of Figure 6 (100, one for every score) or Figure 9 (25)."""
    bins = 25 if study.doubled else 100
    codes = np.minimum((values * bins + 1e-9).astype(np.int64), bins - 1)
    for place, share in enumerate(np.bincount(codes, minlength=bins) / len(codes)):
        yield study.name, name, place, bins, float(share)


def box(study: Study, name: str, values: Any) -> tuple[Any, ...]:
    """Return the box plot of Figure 7 or 10: quartiles, whiskers of 1.5 times their distance, and the share outside."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    ends = float(inside.min()), float(inside.max())
    return study.name, name, ends[0], low, middle, high, ends[1], float(1 - len(inside) / len(values))


def slices() -> dict[str, Any]:
    study = studies()[0]
    releases = list(islice(compared(study, seeded(SEED + 2)), 2))
    found = {
        "figures_5_8.csv": islice(figure(study, seeded(SEED + 1)), 1),
        "tables_7_8.csv": [row for row, _ in releases],
    }
    found["histograms_6_9.csv"] = [bar for row, values in releases for bar in histogram(study, row[1], values)]
    return found | {"boxes_7_10.csv": [box(study, row[1], values) for row, values in releases]}


@script(runs=(RUNS, 2), table_runs=(TABLE_RUNS, 2))
def main(runs: int, table_runs: int) -> None:
    rng = seeded(SEED + 1)
    figures, releases = [], []
    for study in studies():
        figures += figure(study, rng, runs)
        if study.doubled:  # what the doubling costs
            figures += figure(replace(study, name=f"{study.name}, not doubled", doubled=False), rng, runs)
        releases += [(study, row, values) for row, values in compared(study, seeded(SEED + 2), table_runs)]
        print(f"{study.name} done")
    head = ("study", "m", "mean_w1", "low_99", "high_99", "bootstrap_mean_w1", "exact_delta")
    write(RESULTS / "figures_5_8.csv", head, figures)
    head = ("study", "mechanism", "parameter", "mean", "sd", "q1", "median", "q3", "l2", f"mean_l2_of_{table_runs}",
            "mean_w1")  # fmt: skip
    write(RESULTS / "tables_7_8.csv", head, [row for _, row, _ in releases])
    head = ("study", "mechanism", "bin", "bins", "share")
    bars = [bar for study, row, values in releases for bar in histogram(study, row[1], values)]
    write(RESULTS / "histograms_6_9.csv", head, bars)
    head = ("study", "mechanism", "low", "q1", "median", "q3", "high", "outside")
    write(RESULTS / "boxes_7_10.csv", head, [box(study, row[1], values) for study, row, values in releases])
