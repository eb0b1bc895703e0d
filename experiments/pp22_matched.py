"""PP22 section 5, Figure 7 again: weighted against exponential mechanism at matched bounds, with standard errors.

Data and model are those of ``pp22_application.py``. A replication is one process, from weights to synthetic tables:

    python experiments/pp22_matched.py --replication 0 [--seconds 540] [--arms main] [--keep FOLDER] [--data FILE]

Weights come from the unweighted posterior, whose chains are long: two were run, and each serves ten replications.
All other chains and all tables are a replication's own.

Every finished fit is a file in the folder, and the long chains are kept on their way. So a replication that stopped for
the time goes on when the same line is run again, and says so when it is finished. ``python experiments/pp22_matched.py
--summary`` then writes ``experiments/results/pp22_matched/``, and fits that are in its ``fits.csv`` are not made again.

Every fit is 800 draws of two chains, thinned until everything that convergence is judged by is worth at least 400
independent draws (``--draws`` and ``--effective`` ask for others). A bound is a maximum over records and draws, so all
are over as many. Fits of the exponential mechanism, with one weight for all records, are tried until every weighted one
has another with a bound within 5 % of its own. All replications are of the same table, so a fit of one replication may
be set against one of another; each is used once in a configuration. The chains of an unweighted posterior took eleven
minutes of one core, any other fit two and a half.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for name, value in (
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"),
    ("JAX_PLATFORMS", "cpu"),
):
    os.environ.setdefault(name, value)

import numpy as np  # noqa: E402
from _shared import write  # noqa: E402
from pp22_application import CONFIGURATIONS, INCOME, MODEL, sample  # noqa: E402
from scipy.optimize import linear_sum_assignment  # noqa: E402

from discreet._core.lazy import jax, jnp  # noqa: E402
from discreet._core.random import seeded  # noqa: E402
from discreet.pseudo_posterior import LinearWeights, PseudoPosterior, Unweighted  # noqa: E402
from discreet.pseudo_posterior.likelihood import quiet, rows  # noqa: E402
from discreet.pseudo_posterior.pseudo import PseudoFit, Risks, _extremes  # noqa: E402
from discreet.pseudo_posterior.sampler import PosteriorDraws, _Run  # noqa: E402
from discreet.pseudo_posterior.weights import Scaled, Weighting  # noqa: E402
from discreet.utility.distances import ks_distance, wasserstein_1d  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "pp22_matched"
REPLICATIONS, CHAINS, DRAWS, TABLES, EFFECTIVE, R_HAT = 20, 2, 400, 20, 400.0, 1.05
UNWEIGHTED = 2  # unweighted posteriors: replication r takes weights from number r modulo this
MAIN = ((0.7, 0.0), (0.5, 0.0), (0.5, -0.3))
ARMS = {"first": (MAIN[:1],), "main": (MAIN[:1], MAIN), "all": (MAIN[:1], MAIN, CONFIGURATIONS)}
MATCH, TRIES = 0.05, 8  # relative difference of bounds that counts as equal; fits tried for one configuration
FIRST_WEIGHTS = {
    (0.7, 0.0): 0.22,
    (0.6, 0.0): 0.145,
    (0.6, -0.1): 0.084,
    (0.5, 0.0): 0.1,
    (0.5, -0.1): 0.046,
    (0.5, -0.3): 0.03,
}
"""Where the search begins: what ``pp22_application.py`` found."""


class OutOfTime(Exception):
    """The time of this process is over; what is finished is kept."""


class Replication:
    """One replication: its fits, each kept in a file."""

    def __init__(
        self,
        number: int,
        keep: Path,
        columns: dict[str, Any],
        until: float,
        *,
        draws: int = DRAWS,
        effective: float = EFFECTIVE,
    ) -> None:
        self.number, self.columns, self.until = number, columns, until
        self.draws, self.effective = draws, effective
        self.keep, self.source = keep, number % UNWEIGHTED
        self.folder = keep / f"replication-{number:02}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mechanism = PseudoPosterior(MODEL, tables=TABLES, draws=draws, warm_up=300, chains=CHAINS)
        self.sampler = self.mechanism.sampler(columns)
        self.ones = np.ones(self.sampler.count)

    def seed(self, what: int) -> Any:
        return seeded(1_000_000 + 1_000 * self.number + what)

    def in_time(self, least: float = 0.0) -> None:
        if time.monotonic() + least > self.until:
            raise OutOfTime

    # -- chains ---------------------------------------------------------------------------------------------------

    def chains(
        self, weights: Any, rng: Any, *, start: PosteriorDraws | None, thin: int, on_the_way: Path | None
    ) -> tuple[PosteriorDraws, float]:
        """Return draws worth as many independent ones as asked, spread evenly over chains as long as this takes.

        One in ``thin`` draws is kept, and where chains are is stored every minute where a path is given.
        """
        self.sampler._settle()
        spent = 0.0
        with quiet():
            chain = self.sampler._prepared()
            used = np.where(weights > 0, np.arange(self.sampler.count), int(np.argmax(weights)))
            data = {name: jnp.asarray(value) for name, value in rows(self.sampler.data, used).items()}
            facts = (data, jnp.asarray(weights, dtype=jnp.float32))
            begin = (
                [MODEL.start(self.sampler.data, chain=CHAINS * self.source + i) for i in range(CHAINS)]
                if start is None
                else start.apart(CHAINS)
            )
            keys = rng.integers(0, 2**32, size=(CHAINS, 2), dtype=np.uint32)
            began = time.process_time()
            run = _Run(chain, self.sampler._advance, keys, begin, facts, method="sequential", progress=None)
            parts: list[dict[str, Any]] = []
            bad: list[float] = []
            warm, stored = False, time.monotonic()
            if on_the_way is not None and on_the_way.exists():
                warm, parts, bad, spent = self._resumed(run, on_the_way)
            while True:
                if on_the_way is not None and warm and (late := time.monotonic() - stored) > 60.0:
                    self._store(run, on_the_way, parts, bad, spent + time.process_time() - began)
                    stored += late
                try:
                    self.in_time()
                except OutOfTime:
                    if on_the_way is not None and warm:
                        self._store(run, on_the_way, parts, bad, spent + time.process_time() - began)
                    raise
                if not warm:
                    run.take(1, every=self.mechanism.warm_up)
                    warm = True
                values, diverging = run.take(50, every=thin)
                seen = self.sampler._seen(values, facts)
                parts.append(values | {name: np.asarray(value) for name, value in seen.items()})
                bad.append(float(diverging.mean()))
                if 50 * len(parts) >= self.draws:
                    made = self._spread(parts, bad)
                    if made.effective >= self.effective and made.r_hat <= R_HAT:
                        return made, spent + time.process_time() - began

    def _spread(self, parts: list[dict[str, Any]], bad: list[float]) -> PosteriorDraws:
        """Return as many draws of each chain as are used, evenly over its length."""
        length = 50 * len(parts)
        picked = np.linspace(0, length - 1, self.draws).round().astype(int)
        whole = {name: np.concatenate([part[name] for part in parts], axis=1)[:, picked] for name in parts[0]}
        return self.sampler._drawn(whole, np.asarray(bad))

    def _store(self, run: Any, path: Path, parts: list[dict[str, Any]], bad: list[float], spent: float) -> None:
        assert run._waiting is None  # draws come in blocks of 25, which 50 is a multiple of
        leaves = {f"at:{i:03}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(run._at))}
        names = {f"p:{name}": np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
        new = path.with_suffix(".new.npz")
        np.savez(new, bad=np.asarray(bad), spent=spent, **leaves, **names)
        new.replace(path)

    def _resumed(self, run: Any, path: Path) -> tuple[bool, list[dict[str, Any]], list[float], float]:
        with np.load(path) as stored, jax.enable_x64(True):
            old, tree = jax.tree.flatten(run._at)
            run._at = tree.unflatten([jnp.asarray(stored[f"at:{i:03}"], leaf.dtype) for i, leaf in enumerate(old)])
            whole = {key[2:]: stored[key] for key in stored.files if key.startswith("p:")}
            bad = stored["bad"].tolist()
            parts = [{name: value[:, 50 * i : 50 * (i + 1)] for name, value in whole.items()} for i in range(len(bad))]
            return True, parts, bad, float(stored["spent"])

    # -- fits -----------------------------------------------------------------------------------------------------

    def unweighted(self) -> None:
        """Make or read the unweighted posterior, and the risks under it."""
        path = self.keep / f"unweighted-{self.source}.npz"
        if not path.exists():
            way, rng = self.keep / f"on-the-way-{self.source}.npz", seeded(1_000_000 + self.source)
            made, seconds = self.chains(self.ones, rng, start=None, thin=5, on_the_way=way)
            risks = _extremes(self.sampler, made, self.ones)
            result = self.measured("Unweighted", made, risks, self.ones, seconds, rng)
            new = path.with_suffix(".new.npz")
            np.savez(new, least=risks.least, largest=risks.largest, **{f"v:{k}": v for k, v in made.values.items()})
            self.write("Unweighted", result)
            new.replace(path)
            way.unlink(missing_ok=True)
        with np.load(path) as stored:
            values = {key[2:]: stored[key] for key in stored.files if key.startswith("v:")}
            self.first = PosteriorDraws(values=values, watched={}, divergent=0.0, exact=False)
            self.risks = Risks(least=stored["least"], largest=stored["largest"])

    def fitted(self, name: str, weighting: Weighting, what: int) -> dict[str, Any]:
        """Return a result from its file, or fit and keep it."""
        path = self.folder / f"{name}.json"
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        self.in_time()
        weights = weighting.weights(self.risks.by_record, self.sampler.data)
        rng = self.seed(what)
        made, seconds = self.chains(weights, rng, start=self.first, thin=1, on_the_way=None)
        result = self.measured(name, made, _extremes(self.sampler, made, weights), weights, seconds, rng)
        before = float((weights * np.where(weights > 0, self.risks.by_record, 0.0)).max())
        result |= {"before_refit": before, "weight": float(weights.max()), "dropped": float((weights == 0).mean())}
        self.write(name, result)
        return result

    def write(self, name: str, result: dict[str, Any]) -> None:
        new = self.folder / f"{name}.json.new"
        new.write_text(json.dumps(result) + "\n")
        new.replace(self.folder / f"{name}.json")
        keys = ("lipschitz", "effective", "r_hat", "seconds")
        print(f"{self.number} {name:18} {' '.join(f'{key} {result[key]:.4g}' for key in keys)}", flush=True)

    def measured(
        self, name: str, made: PosteriorDraws, bounds: Risks, weights: Any, seconds: float, rng: Any
    ) -> dict[str, Any]:
        """Return what is kept of a fit: its bound, whether its chains can be relied on, and what its tables tell."""
        fit = PseudoFit(
            risks=bounds, weights=weights, draws=made, bounds=bounds, unweighted=made, weighting=Unweighted()
        )
        tables = [table["Income"] for table in self.mechanism.synthesise(fit, self.columns, rng=rng)]
        told = [told_by(values, self.columns) for values in tables]
        return {
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

    def weighted(self, c: float, g: float) -> dict[str, Any]:
        """Return the fit of a configuration."""
        return self.fitted(f"DP {c:g} {g:g}", LinearWeights(c=c, g=g), 10 + CONFIGURATIONS.index((c, g)))

    def matched(self, c: float, g: float) -> None:
        """Fit with one weight for all until every fit of the configuration has a match, or tries are used up."""
        marker = self.folder / f"searched {c:g} {g:g}"
        number = len(marker.read_text()) if marker.exists() else 0
        while number < TRIES and (without := unmatched(held(self.keep), c, g)):
            tried = [(one["weight"], one["lipschitz"]) for one in held(self.keep) if one["name"].startswith("EM")]
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


def slices() -> Iterator[tuple[str, Any]]:
    """Yield nothing: whatever is kept needs chains."""
    return iter(())


def held(keep: Path) -> list[dict[str, Any]]:
    """Return all fits that there are."""
    return [{"weight": 1.0, **json.loads(path.read_text())} for path in sorted(keep.glob("replication-*/*.json"))]


def restore(keep: Path) -> None:
    """Put fits of ``fits.csv`` that have no file in the folder there."""
    path = RESULTS / "fits.csv"
    for row in csv.DictReader(path.read_text().splitlines()) if path.exists() else ():
        folder = keep / f"replication-{int(row['replication']):02}"
        folder.mkdir(parents=True, exist_ok=True)
        if not (file := folder / f"{row['name']}.json").exists():
            whole = {"replication", "draws"}
            fit = {k: v if k == "name" else int(v) if k in whole else float(v) for k, v in row.items()}
            file.write_text(json.dumps(fit) + "\n")


def summary(keep: Path) -> None:
    """Write all fits, and the comparison in words."""
    names = [*KEPT, "mean", "median", *MEASURES]
    write(RESULTS / "fits.csv", names, [[one[name] for name in names] for one in held(keep)])
    truth = float(np.quantile(sample()["Income"], 0.9))
    lines = [
        "# Weighted against exponential at matched bounds (PP22, Figure 7)",
        "",
        f"Made by `experiments/pp22_matched.py`, which says how, for up to {REPLICATIONS} replications.",
        "",
        "Weighted minus exponential, so that below 0 the weighted mechanism is nearer to the data. Fits without one "
        f"whose bound is within {MATCH:.0%} are left out.",
        "",
        "| configuration | pairs | bound, weighted | exponential | measure | weighted | exponential | difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for c, g in CONFIGURATIONS:
        pairs = paired(held(keep), c, g)
        bounds = [np.mean([one["lipschitz"] for one in side]) for side in zip(*pairs, strict=True)] if pairs else []
        for measure, words in MEASURES.items() if pairs else ():
            ours, theirs = (np.array([away(one, measure, truth) for one in side]) for side in zip(*pairs, strict=True))
            lines.append(
                f"| ({c:g}, {g:g}) | {len(pairs)} | {bounds[0]:.2f} | {bounds[1]:.2f} | {words} | {ours.mean():.4g} | "
                f"{theirs.mean():.4g} | {with_error(ours - theirs)} |"
            )
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n")


def paired(fits: list[dict[str, Any]], c: float, g: float) -> list[tuple[Any, Any]]:
    """Return weighted fits, each with an exponential one of nearly the same bound: as many as there can be."""
    ours = [one for one in fits if one["name"] == f"DP {c:g} {g:g}"]
    others = [one for one in fits if one["name"].startswith("EM")]
    apart = np.abs(np.array([[two["lipschitz"] / one["lipschitz"] - 1.0 for two in others] for one in ours]))
    apart = apart.reshape(len(ours), len(others))
    chosen = zip(*linear_sum_assignment(np.where(apart <= MATCH, apart, 1e3)), strict=True)
    return [(ours[i], others[j]) for i, j in chosen if apart[i, j] <= MATCH]


def unmatched(fits: list[dict[str, Any]], c: float, g: float) -> list[dict[str, Any]]:
    """Return the weighted fits that are left over."""
    taken = [ours["replication"] for ours, _ in paired(fits, c, g)]
    return [one for one in fits if one["name"] == f"DP {c:g} {g:g}" and one["replication"] not in taken]


def away(one: dict[str, Any], measure: str, truth: float) -> float:
    """Return how far the tables of a fit are from the data."""
    return abs(one[measure] - truth) if measure == "q90" else float(one[measure])


def with_error(values: Any) -> str:
    """Return a mean over replications and its standard error."""
    said = f"{values.mean():.3g}"
    return said if len(values) < 2 else f"{said} ± {values.std(ddof=1) / math.sqrt(len(values)):.2g}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replication", type=int)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop when that long has passed")
    parser.add_argument("--arms", choices=ARMS, default="main", help="one configuration, three, or all six")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of each of two chains, a multiple of 50")
    parser.add_argument("--effective", type=float, default=EFFECTIVE)
    parser.add_argument("--keep", type=Path, default=RESULTS / "fits")
    parser.add_argument("--data", type=Path, help="ce_hornby_hu_5571.parquet")
    parser.add_argument("--summary", action="store_true", help="write the results of what is there")
    asked = parser.parse_args()
    restore(asked.keep)
    if asked.summary:
        summary(asked.keep)
        return
    until = time.monotonic() + asked.seconds
    one = Replication(
        asked.replication, asked.keep, sample(asked.data), until, draws=asked.draws, effective=asked.effective
    )
    try:
        one.unweighted()
        for of in ARMS[asked.arms]:
            for c, g in of:
                one.weighted(c, g)
            for c, g in of:
                one.matched(c, g)
    except OutOfTime:
        print(f"{asked.replication} stopped for the time; run the same line again to go on", flush=True)
        return
    print(f"{asked.replication} finished", flush=True)


if __name__ == "__main__":
    main()
