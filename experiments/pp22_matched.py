"""PP22 section 5, Figure 7 again: weighted against exponential mechanism at matched bounds, with standard errors.

Data and model are those of ``pp22_application.py``. A replication is one process, from weights to synthetic tables:

    python experiments/pp22_matched.py --replication 0 [--every]

Without it, the results are written. Every finished fit is a file in ``fits/``, so that a replication that was stopped
goes on from there, and fits that are in ``fits.csv`` are not made again. Weights come from the unweighted posterior,
whose chains are long: two were run, and each serves ten replications. All other chains and all tables are a
replication's own.

Every fit is 800 draws of two chains, thinned until everything that convergence is judged by is worth at least 400
independent draws. Fits of the exponential mechanism, with one weight for all records, are tried until every weighted
one has another with a bound within 5 % of its own. All replications are of the same table, so a fit of one replication
may be set against one of another; each is used once in a configuration.
"""

import json
import math
import os
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from _harness import HERE, markdown, mean_and_error, read, script, write, write_lines
from pp22_application import CONFIGURATIONS, INCOME, LEVELS, MODEL, RESAMPLES, STATISTICS, of_values, sample
from scipy.optimize import linear_sum_assignment

from discreet._core.lazy import jnp
from discreet._core.random import seeded
from discreet.pseudo_posterior import LinearWeights, PseudoPosterior, Unweighted, across_tables
from discreet.pseudo_posterior.likelihood import quiet, rows
from discreet.pseudo_posterior.pseudo import PseudoFit
from discreet.pseudo_posterior.sampler import PosteriorDraws, _Run
from discreet.pseudo_posterior.weights import Risks, Scaled, Weighting
from discreet.utility.distances import ks_distance, wasserstein_1d

RESULTS = HERE / "results" / "pp22_matched"
FITS = RESULTS / "fits"
REPLICATIONS, CHAINS, DRAWS, TABLES, EFFECTIVE, R_HAT = 20, 2, 400, 20, 400.0, 1.05
UNWEIGHTED = 2  # unweighted posteriors: replication r takes weights from number r modulo this
MAIN = ((0.7, 0.0), (0.5, 0.0), (0.5, -0.3))
MATCH, TRIES = 0.05, 8  # relative difference of bounds that counts as equal; fits tried for one configuration
FIRST_WEIGHTS = dict(zip(CONFIGURATIONS, (0.22, 0.145, 0.084, 0.1, 0.046, 0.03), strict=True))
"""Where the search begins: what ``pp22_application.py`` found."""


class Replication:
    """One replication: its fits, each kept in a file."""

    def __init__(self, number: int, columns: dict[str, Any]) -> None:
        self.number, self.columns, self.source = number, columns, number % UNWEIGHTED
        self.folder = FITS / f"replication-{number:02}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mechanism = PseudoPosterior(MODEL, tables=TABLES, draws=DRAWS, warm_up=300, chains=CHAINS)
        self.sampler = self.mechanism.sampler(columns)
        self.first, self.risks = self._unweighted()

    def chains(self, weights: Any, rng: Any, *, start: Any, thin: int) -> tuple[PosteriorDraws, float]:
        """Return draws worth as many independent ones as asked, spread evenly over chains as long as this takes.

        One in ``thin`` draws is kept.
        """
        with quiet():
            used = np.where(weights > 0, np.arange(self.sampler.count), int(np.argmax(weights)))
            table = {name: jnp.asarray(value) for name, value in rows(self.sampler.data, used).items()}
            facts = table, jnp.asarray(weights, dtype=jnp.float32)
            starts = range(CHAINS * self.source, CHAINS * (self.source + 1))
            begin = [MODEL.start(self.sampler.data, chain=i) for i in starts] if start is None else start.apart(CHAINS)
            keys = rng.integers(0, 2**32, size=(CHAINS, 2), dtype=np.uint32)
            began = time.process_time()
            run = _Run(self.sampler, keys, begin, facts)
            run.take(1, every=self.mechanism.warm_up)
            parts: list[dict[str, Any]] = []
            bad: list[float] = []
            while True:
                values, diverging = run.take(50, every=thin)
                parts.append(values)
                bad.append(float(diverging.mean()))
                length = 50 * len(parts)
                if length >= DRAWS:
                    picked = np.linspace(0, length - 1, DRAWS).round().astype(int)
                    whole = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
                    evenly = {name: value[:, picked] for name, value in whole.items()}
                    made = self.sampler._posterior_draws(evenly, np.asarray(bad), facts)
                    if made.effective >= EFFECTIVE and made.r_hat <= R_HAT:
                        return made, time.process_time() - began

    def _unweighted(self) -> tuple[PosteriorDraws, Risks]:
        """Make or read the unweighted posterior, and the risks under it."""
        path = FITS / f"unweighted-{self.source}.npz"
        if not path.exists():
            ones, rng = np.ones(self.sampler.count), seeded(1_000_000 + self.source)
            made, seconds = self.chains(ones, rng, start=None, thin=5)
            risks = Risks.from_draws(self.sampler, made)
            self.write("Unweighted", self.measured("Unweighted", made, risks, ones, seconds, rng))
            np.savez(path, least=risks.least, largest=risks.largest, **{f"v:{k}": v for k, v in made.values.items()})
        with np.load(path) as stored:
            draws = of_values({key[2:]: stored[key] for key in stored.files if key.startswith("v:")})
            return draws, Risks(least=stored["least"], largest=stored["largest"])

    def fitted(self, name: str, weighting: Weighting, what: int) -> dict[str, Any]:
        """Return a result from its file, or fit and keep it."""
        path = self.folder / f"{name}.json"
        if path.exists():
            return dict(json.loads(path.read_text()))
        weights = weighting.weights(self.risks.by_record, self.sampler.data)
        rng = seeded(1_000_000 + 1_000 * self.number + what)
        made, seconds = self.chains(weights, rng, start=self.first, thin=1)
        result = self.measured(name, made, Risks.from_draws(self.sampler, made, weights), weights, seconds, rng)
        before = float((weights * np.where(weights > 0, self.risks.by_record, 0.0)).max())
        result |= {"before_refit": before, "weight": float(weights.max()), "dropped": float((weights == 0).mean())}
        self.write(name, result)
        return result

    def write(self, name: str, result: dict[str, Any]) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(result) + "\n")
        keys = ("lipschitz", "effective", "r_hat", "seconds")
        print(f"{self.number} {name:18} {' '.join(f'{key} {result[key]:.4g}' for key in keys)}", flush=True)

    def measured(self, name: str, made: Any, bounds: Risks, weights: Any, seconds: float, rng: Any) -> dict[str, Any]:
        """Return what is kept of a fit: its bound, whether its chains can be relied on, and what its tables tell."""
        facts = {"risks": bounds, "bounds": bounds, "draws": made, "unweighted": made}
        fit = PseudoFit(weights=weights, weighting=Unweighted(), **facts)
        tables = self.mechanism.synthesise(fit, self.columns, rng=rng)
        told = [told_by(table["Income"], self.columns) for table in tables]
        values = [table["Income"] for table in tables]
        quantile, low, high = bounds.quantile(CHAINS)
        return {
            "quantile": quantile,
            "quantile_low": low,
            "quantile_high": high,
            "by_draw": bounds.by_draw.tolist(),
            "bounds": np.quantile(bounds.by_record, [0.0, *LEVELS, 1.0]).tolist(),
            "weights": np.quantile(weights, [0.0, *LEVELS, 1.0]).tolist(),
            "statistics": {
                what: across_tables(values, statistic, rng=rng, resamples=RESAMPLES, size=len(LEVELS)).tolist()
                for what, statistic in STATISTICS.items()
            },
            "name": name,
            "replication": self.number,
            "draws": len(made),
            "lipschitz": bounds.lipschitz,
            "epsilon": bounds.epsilon,
            "r_hat": made.r_hat,
            "effective": made.effective,
            "divergent": made.divergent,
            "seconds": seconds,
            **{key: float(np.mean([one[key] for one in told])) for key in told[0]},
        }

    def matched(self, c: float, g: float) -> None:
        """Fit with one weight for all until every fit of the configuration has a match, or tries are used up."""
        marker = self.folder / f"searched {c:g} {g:g}"
        number = len(marker.read_text()) if marker.exists() else 0
        while number < TRIES and (without := unmatched(held(), c, g)):
            tried = [(one["weight"], one["lipschitz"]) for one in held() if one["name"].startswith("EM")]
            weight = next_weight(tried, without[0]["lipschitz"], first=FIRST_WEIGHTS[c, g])
            what = 100 + len([*self.folder.glob("EM *.json")])
            self.fitted(f"EM {what} {weight:.6g}", Scaled(weighting=Unweighted(), factor=weight), what)
            number += 1
            marker.write_text("x" * number)


def told_by(values: Any, columns: dict[str, Any]) -> dict[str, float]:
    """Return statistics of one synthetic table, and how far it is from the data."""
    truth = columns["Income"]
    ours, held = INCOME.encode(values), INCOME.encode(truth)
    groups = [columns[name] for name in ("Urban", "Tenure", "Educ", "Marital")]
    by_group = [
        float(abs(ours[codes == code].mean() - held[codes == code].mean()) * (codes == code).mean())
        for codes in groups
        for code in np.unique(codes)
    ]
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "q90": float(np.quantile(values, 0.9)),
        "w1": float(wasserstein_1d(values, truth)),
        "w1_model_scale": float(wasserstein_1d(ours, held)),
        "ks": float(ks_distance(values, truth)),
        "group_means": sum(by_group) / len(groups),
    }


def next_weight(tried: list[tuple[float, float]], target: float, *, first: float) -> float:
    """Return the weight to try next: on a line through the nearest bounds, in logarithms, of slope 0.3 to 1.5."""
    if not tried:
        return first
    logs = np.log(np.array(tried))
    near = logs[np.argsort(np.abs(logs[:, 1] - math.log(target)))[:5]]
    centre = near.mean(axis=0)
    spread = ((near[:, 0] - centre[0]) ** 2).sum()
    slope = ((near[:, 0] - centre[0]) * (near[:, 1] - centre[1])).sum() / spread if spread > 1e-4 else 0.7
    slope = min(max(float(slope), 0.3), 1.5)
    step = min(max((math.log(target) - float(centre[1])) / slope, -1.0), 1.0)
    return min(1.0, math.exp(float(centre[0]) + step))


WITHOUT_SLICE = {"fits.csv": "a fit takes minutes"}
MEASURES = {
    "q90": "90th percentile, off by (dollars)",
    "w1": "Wasserstein distance (dollars)",
    "ks": "Kolmogorov-Smirnov distance",
    "w1_model_scale": "Wasserstein distance, scale of the model",
    "group_means": "means of groups, scale of the model",
}
KEPT = ("replication", "name", "draws", "weight", "lipschitz", "effective", "r_hat", "seconds")


def held() -> list[dict[str, Any]]:
    return [{"weight": 1.0, **json.loads(path.read_text())} for path in sorted(FITS.glob("replication-*/*.json"))]


def restore() -> None:
    """Put fits of ``fits.csv`` that have no file in the folder there."""
    for row in read(RESULTS / "fits.csv"):
        row |= {name: int(row[name]) for name in ("replication", "draws")}
        file = FITS / f"replication-{row['replication']:02}" / f"{row['name']}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(json.dumps(row) + "\n")


def summary() -> None:
    """Write all fits, and the comparison in words."""
    names = [*KEPT, "mean", "median", *MEASURES]
    write(RESULTS / "fits.csv", names, [[one[name] for name in names] for one in held()])
    truth, body = float(np.quantile(sample()["Income"], 0.9)), []
    for c, g in CONFIGURATIONS:
        pairs = paired(held(), c, g)
        bounds = [f"{np.mean([one['lipschitz'] for one in side]):.2f}" for side in zip(*pairs, strict=True)]
        for measure, words in MEASURES.items() if pairs else ():
            sides = [np.array([one[measure] for one in side]) for side in zip(*pairs, strict=True)]
            ours, theirs = (np.abs(side - truth) if measure == "q90" else side for side in sides)
            mean, error = mean_and_error(ours - theirs)
            difference = f"{mean:.3g}" if len(pairs) < 2 else f"{mean:.3g} ± {error:.2g}"
            means = f"{ours.mean():.4g}", f"{theirs.mean():.4g}", difference
            body.append((f"({c:g}, {g:g})", str(len(pairs)), *bounds, words, *means))
    head = ("configuration", "pairs", "bound, weighted", "exponential", "measure", "weighted", "exponential",
            "difference")  # fmt: skip
    lines = [
        "# Weighted against exponential at matched bounds (PP22, Figure 7)",
        "",
        f"Made by `experiments/pp22_matched.py`, which says how, for up to {REPLICATIONS} replications.",
        "",
        "Weighted minus exponential, so that below 0 the weighted mechanism is nearer to the data. Fits without one "
        f"whose bound is within {MATCH:.0%} are left out.",
        "",
    ]
    write_lines(RESULTS / "README.md", [*lines, *markdown(head, body, left=len(head))])


def paired(fits: list[dict[str, Any]], c: float, g: float) -> list[tuple[Any, Any]]:
    """Return weighted fits, each with an exponential one of nearly the same bound: as many as there can be."""
    ours = [one for one in fits if one["name"] == f"DP {c:g} {g:g}"]
    others = [one for one in fits if one["name"].startswith("EM")]
    apart = np.abs(np.array([[two["lipschitz"] / one["lipschitz"] - 1.0 for two in others] for one in ours]))
    apart = apart.reshape(len(ours), len(others))
    chosen = zip(*linear_sum_assignment(np.where(apart <= MATCH, apart, 1e3)), strict=True)
    return [(ours[i], others[j]) for i, j in chosen if apart[i, j] <= MATCH]


def unmatched(fits: list[dict[str, Any]], c: float, g: float) -> list[dict[str, Any]]:
    taken = [ours["replication"] for ours, _ in paired(fits, c, g)]
    return [one for one in fits if one["name"] == f"DP {c:g} {g:g}" and one["replication"] not in taken]


@script(replication=int, every=False)
def main(replication: int | None, every: bool) -> None:
    restore()
    if replication is None:
        summary()
        return
    one = Replication(replication, sample())
    for of in (MAIN[:1], MAIN, CONFIGURATIONS if every else ()):
        for c, g in of:
            one.fitted(f"DP {c:g} {g:g}", LinearWeights(c=c, g=g), 10 + CONFIGURATIONS.index((c, g)))
        for c, g in of:
            one.matched(c, g)
