"""PP22 section 4.4, Figures 1 and 2: local Lipschitz bounds of Poisson samples, and what their weighting costs.

It takes about five seconds. The paper: y ~ Poisson(100), n = 100, 400, 1,600 and 6,400, R = 400 samples each;
unweighted, linearly weighted (c = 1, g = 0), and weighted with weights dropped above M = 3.5. It prints neither the
prior nor the number of posterior draws: here Gamma(0.01, 0.0001) and 1,000 draws. Everything is in closed form given
the draws: a Poisson log-probability is concave in the mean and below 0, so its largest absolute value over draws is at
the smallest or the largest of them.
"""

from typing import Any

import numpy as np
from _harness import HERE, script, write
from scipy.special import gammaln

from discreet._core.random import seeded
from discreet.pseudo_posterior import LinearWeights, PoissonMean, Truncated, Unweighted

RESULTS = HERE / "results" / "pp22_simulation"
SIZES, REPLICATES, MEAN, MOST, DRAWS = (100, 400, 1600, 6400), 400, 100.0, 3.5, 1000
SEED = 20260101
MODEL = PoissonMean(column="y")
FORMS = {
    "unweighted": Unweighted(),
    "weighted": LinearWeights(),
    "weighted-M": Truncated(weighting=LinearWeights(), most=MOST),
}


def largest(y: Any, means: Any) -> Any:
    """Return the largest |log p(y | mean)| over posterior draws of the mean, for each record."""
    ends = np.array([means.min(), means.max()])[:, None]
    return -(y * np.log(ends) - ends - gammaln(y + 1.0)).min(axis=0)


def simulated(n: int, rng: Any) -> dict[str, tuple[float, float, float]]:
    """Return Lipschitz bound, posterior mean of the mean, and share of weights that are 0, by form."""
    y = rng.poisson(MEAN, size=n).astype(np.float64)
    first = MODEL.conjugate({"y": y}, np.ones(n), draws=DRAWS, rng=rng)["mean"]
    risks, found = largest(y, first), {}
    for name, form in FORMS.items():
        weights = form.weights(risks, {"y": y})
        means = first if name == "unweighted" else MODEL.conjugate({"y": y}, weights, draws=DRAWS, rng=rng)["mean"]
        found[name] = (float((weights * largest(y, means)).max()), float(means.mean()), float((weights == 0).mean()))
    return found


def measured(n: int, replicates: int, rng: Any) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows of the replicates of one size, and of their summary."""
    found, summary = [simulated(n, rng) for _ in range(replicates)], []
    for name in FORMS:
        bounds, centre, dropped = np.array([sample[name] for sample in found]).T
        facts = bounds.min(), float(np.median(bounds)), bounds.max(), float(np.ptp(bounds))
        summary.append((n, name, *facts, centre.mean(), centre.std(ddof=1), dropped.mean()))
    return [(n, r, name, *values) for r, sample in enumerate(found) for name, values in sample.items()], summary


def slices() -> dict[str, Any]:
    rows, summary = measured(SIZES[0], REPLICATES, seeded(SEED))
    return {"replicates.csv": rows, "summary.csv": summary}


@script(replicates=(REPLICATES, 20))
def main(replicates: int) -> None:
    rng, rows, summary = seeded(SEED), [], []
    for n in SIZES:
        more, about = measured(n, replicates, rng)
        rows += more
        summary += about
        for _, name, *values in about:
            print(f"{n:5} {name:11}" + "".join(f"{value:10.3f}" for value in values))
    write(RESULTS / "replicates.csv", ("n", "replicate", "form", "lipschitz", "mean", "share_dropped"), rows)
    head = ("n", "form", "least", "median", "largest", "range", "mean_of_means", "sd_of_means", "share_dropped")
    write(RESULTS / "summary.csv", head, summary)
