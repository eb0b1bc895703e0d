"""PP22 section 5, Figure 7 again: weighted against exponential mechanism at matched bounds, with standard errors.

Data, model and fits are those of ``pp22_application.py``. A replication is one process:

    python experiments/pp22_matched.py --replication 20 [--configurations 6]

It fits the first of the configurations, and for each an exponential mechanism, with one weight for all records, whose
bound is within 3 % of its own, where five tries find one. Without a number, the results are written. A finished fit is
a file in ``fits/`` of the application, so that a replication that was stopped goes on from there. Weights come from
the unweighted posterior, whose chains are long: two are run, and the replications take turns.

Every fit is 800 draws of two chains, worth at least 400 independent draws in everything that convergence is judged by.
Fits are matched by the bound of 95 % of the draws. The first twenty replications, of (0.7, 0) alone, were matched
within 5 % by the largest over all draws, of which nothing else was kept. All replications are of one table, so a fit of
one may be set against one of another; each is used once in a configuration.
"""

import json
import os
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pp22_application as application
from _harness import HERE, markdown, mean_and_error, read, script, write, write_lines
from pp22_application import CONFIGURATIONS, FORMS, NAMES
from scipy.optimize import linear_sum_assignment

from discreet.pseudo_posterior import LinearWeights

RESULTS = HERE / "results" / "pp22_matched"
HOW = {"draws": 400, "warm_up": 300, "chains": 2}
SOURCES = 2  # unweighted posteriors
MATCH = 0.05  # relative difference of bounds that counts as equal
BOUNDS = {"lipschitz": "largest", "quantile": "95 % of draws"}
WITHOUT_SLICE = {"fits.csv": "a fit takes minutes"}
MEASURES = {
    "q90": "90th percentile, off by (dollars)",
    "w1": "Wasserstein distance (dollars)",
    "ks": "Kolmogorov-Smirnov distance",
    "w1_model_scale": "Wasserstein distance, scale of the model",
    "group_means": "means of groups, scale of the model",
}
KEPT = ("replication", "name", "draws", "weight", *BOUNDS, "effective", "r_hat", "seconds", "mean", "median", *MEASURES)


def held() -> list[dict[str, Any]]:
    """Return the fits that are kept, and those of replications that are not among them yet."""
    fits = {(row["replication"], row["name"]): row for row in read(RESULTS / "fits.csv")}
    for path in sorted(application.RESULTS.glob("fits/300-400-2/seed-*/*M *.json")):
        fit = json.loads(path.read_text())
        fits[fit["replication"], fit["name"]] = fit
    return [{"quantile": "", **fit} for fit in fits.values()]


def summary() -> None:
    """Write all fits, and the comparison in words."""
    fits, body = held(), []
    write(RESULTS / "fits.csv", KEPT, [[fit[name] for name in KEPT] for fit in fits])
    truth = float(np.quantile(application.sample()["Income"], 0.9))
    for name, form in zip(NAMES, FORMS[0], strict=True):
        for key, words in BOUNDS.items():
            old = [fit for fit in fits if (fit["quantile"] == "") == (key == "lipschitz")]
            pairs = paired(old, form, key)
            bounds = [f"{np.mean([one[key] for one in side]):.2f}" for side in zip(*pairs, strict=True)]
            for measure, text in MEASURES.items() if pairs else ():
                sides = [np.array([one[measure] for one in side]) for side in zip(*pairs, strict=True)]
                ours, theirs = (np.abs(side - truth) if measure == "q90" else side for side in sides)
                mean, error = mean_and_error(ours - theirs)
                difference = f"{mean:.3g}" if len(pairs) < 2 else f"{mean:.3g} ± {error:.2g}"
                means = f"{ours.mean():.4g}", f"{theirs.mean():.4g}", difference
                body.append((name, str(len(pairs)), words, *bounds, text, *means))
    head = ("configuration", "pairs", "bound", "weighted", "exponential", "measure", "weighted", "exponential",
            "difference")  # fmt: skip
    lines = [
        "# Weighted against exponential at matched bounds (PP22, Figure 7)",
        "",
        "Made by `experiments/pp22_matched.py`, which says how. Every fit is worth at least 400 independent draws.",
        "",
        "Weighted minus exponential, so that below 0 the weighted mechanism is nearer to the data. Fits without one "
        f"whose bound is within {MATCH:.0%} are left out.",
        "",
    ]
    write_lines(RESULTS / "README.md", [*lines, *markdown(head, body, left=len(head))])


def paired(fits: list[dict[str, Any]], form: str, key: str) -> list[tuple[Any, Any]]:
    """Return weighted fits, each with an exponential one of nearly the same bound: as many as there can be."""
    ours = [one for one in fits if one["name"] == form]
    others = [one for one in fits if one["name"].startswith("EM")]
    apart = np.abs(np.array([[two[key] / one[key] - 1.0 for two in others] for one in ours]))
    apart = apart.reshape(len(ours), len(others))
    chosen = zip(*linear_sum_assignment(np.where(apart <= MATCH, apart, 1e3)), strict=True)
    return [(ours[i], others[j]) for i, j in chosen if apart[i, j] <= MATCH]


@script(replication=int, configurations=len(CONFIGURATIONS))
def main(replication: int | None, configurations: int) -> None:
    if replication is None:
        summary()
        return
    fits = application.Fits(HOW, application.sample(), replication, replication % SOURCES)
    for i, (c, g) in enumerate(CONFIGURATIONS[:configurations]):
        ours = fits.kept(FORMS[0][i], LinearWeights(c=c, g=g), 10 + i)
        fits.matched(FORMS[1][i], ours["quantile"], 30 + i)
