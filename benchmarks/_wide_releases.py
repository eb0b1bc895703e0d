"""One release of the comparison in wide.py, alone in its process, so that its processor time and memory are its own.

Run by wide.py with the interpreter of the mechanism's environment: ``python _wide_releases.py JOB.json``. The job names
a mechanism, the file of the codes that it sees, and where to put its records. One line of JSON comes back.

A mechanism here is a function that imports what it needs and returns a function of a :class:`Job`. What a peer is
given: records with the declared number of codes of each column, neighbours with one record more or less, (epsilon,
delta), and the number of records to make, which this comparison takes as public. All else is left as shipped, unless
the mechanism's name says otherwise. No interpreter but our own has this package.
"""

import importlib.metadata
import json
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Job:
    """Codes with the numbers of codes of their columns, and what is asked for."""

    codes: np.ndarray
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    epsilon: float
    delta: float
    seed: int

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def by_column(self) -> dict[str, np.ndarray]:
        return {name: self.codes[:, j].astype(np.int64) for j, name in enumerate(self.sizes)}


Release = Callable[[Job], np.ndarray]


def ours(options: dict[str, Any]) -> Release:
    import polars as pl

    import discreet
    from discreet.domain import Category, Domain, Integer

    def release(job: Job) -> np.ndarray:
        columns: dict[str, Any] = {
            name: Integer(lower=0, upper=size - 1) if name in job.ordered else Category(categories=list(range(size)))
            for name, size in job.sizes.items()
        }
        budget = discreet.Budget(epsilon=job.epsilon, delta=job.delta)
        facts = {"size": len(job.codes), **options}
        if options["mechanism"] == "marginals":  # the others protect a record's replacement
            facts["relation"] = discreet.AddRemove(records=len(job.codes))
        made = discreet.release(pl.DataFrame(job.by_column()), Domain(columns=columns), budget, **facts)
        return made.records.select(list(job.sizes)).to_numpy()

    return release


def themselves(_: dict[str, Any]) -> Release:
    """The confidential records: not private, what the prediction and the regression reach at best."""
    return lambda job: job.codes


def bootstrap(_: dict[str, Any]) -> Release:
    """Records drawn with replacement: not private, and the error of sampling alone."""
    return lambda job: job.codes[job.generator().integers(0, len(job.codes), len(job.codes))]


def shuffled(_: dict[str, Any]) -> Release:
    """Every column shuffled: not private, exact one-way counts and nothing else."""
    return lambda job: job.generator().permuted(job.codes, axis=0)


def noisy_columns(_: dict[str, Any]) -> Release:
    """All one-way counts with discrete Gaussian noise under one profile, columns drawn independently."""
    from scipy.optimize import brentq

    from discreet._core.random import secure
    from discreet.mechanisms.noise import GAUSSIAN
    from discreet.mechanisms.projections import nearest_probabilities
    from discreet.privacy import DiscreteGaussianPair

    def release(job: Job) -> np.ndarray:
        def excess(log_scale: float) -> float:
            profile = DiscreteGaussianPair(scale=math.exp(log_scale), counts=len(job.sizes))
            return math.log(max(profile.delta(job.epsilon), 1e-300) / job.delta)

        scale = math.exp(brentq(excess, 0.0, 10.0, xtol=1e-9) + 2e-9)
        made, m, rng = np.empty_like(job.codes), len(job.codes), job.generator()
        for j, size in enumerate(job.sizes.values()):
            counts = np.bincount(job.codes[:, j], minlength=size) + GAUSSIAN.draw(scale, size, rng=secure())
            shares = nearest_probabilities(counts / m)
            even = (np.arange(m) + rng.random()) / m
            made[:, j] = rng.permutation(np.minimum(np.searchsorted(np.cumsum(shares), even), size - 1))
        return made

    return release


def dpmm(options: dict[str, Any]) -> Release:
    """MST and AIM of dpmm; its noise cannot be seeded."""
    import pandas as pd
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    def release(job: Job) -> np.ndarray:
        kind = {"MST": MSTGM, "AIM": AIMGM}[options["kind"]]
        chosen = {name: value for name, value in options.items() if name != "kind"}
        random_state = np.random.RandomState(job.seed)
        model = kind(epsilon=job.epsilon, delta=job.delta, domain=dict(job.sizes), random_state=random_state, **chosen)
        model.fit(pd.DataFrame(job.by_column()))
        return model.generate(n_records=len(job.codes))[list(job.sizes)].to_numpy()

    return release


def dpsynth(options: dict[str, Any]) -> Release:
    """SWIFT, MST and AIM of google/dpsynth; it chooses how many records to make."""
    import mbi
    from dpsynth import discrete_mechanisms
    from dpsynth.discrete_mechanisms import accounting

    def finite(budget: float) -> float:  # the search of dp-accounting on PyPI begins at a budget of zero
        return math.sqrt(1.0 / max(budget, 1e-12))

    accounting.gdp_gaussian_sigma = finite

    def release(job: Job) -> np.ndarray:
        np.random.seed(job.seed)  # noqa: NPY002
        inner = getattr(discrete_mechanisms, f"{options['kind']}Config")()
        compress = options.get("compress", False)
        config = discrete_mechanisms.DiscreteConfig(mechanism=inner, compress_columns=compress)
        data = mbi.Dataset(job.by_column(), mbi.Domain(list(job.sizes), list(job.sizes.values())))
        made = config.calibrate(epsilon=job.epsilon, delta=job.delta)(job.generator(), data).synthetic_data.to_dict()
        return np.stack([np.asarray(made[name]) for name in job.sizes], axis=1)

    return release


def opendp(options: dict[str, Any]) -> Release:
    """MST and AIM of OpenDP's mbi extra; its noise cannot be seeded."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")

    def release(job: Job) -> np.ndarray:
        rho = concentrated(job.epsilon, job.delta)
        one, spent = dp.unit_of(contributions=1), dp.loss_of(rho=rho)
        frame = pl.DataFrame(job.by_column())
        context = dp.Context.compositor(data=frame.lazy(), privacy_unit=one, privacy_loss=spent)
        keys = {name: list(range(size)) for name, size in job.sizes.items()}
        chosen = {name: value for name, value in options.items() if name != "kind"}
        algorithm = getattr(dp.mbi, options["kind"])(**chosen)
        query = context.query(rho=rho).select(*job.sizes).contingency_table(keys=keys, algorithm=algorithm)
        made = query.release().synthesize(len(job.codes))
        return made.select(pl.col(list(job.sizes)).fill_null(0)).to_numpy()

    return release


def concentrated(epsilon: float, delta: float) -> float:
    """Return the rho of zero-concentrated privacy that promises (epsilon, delta): Canonne, Kamath, Steinke (2020)."""
    from scipy.optimize import brentq, minimize_scalar

    def excess(rho: float) -> float:
        def log_delta(log_less: float) -> float:
            order = 1.0 + math.exp(log_less)
            rest = order * math.log1p(-1.0 / order) - math.log(order - 1.0)
            return (order - 1.0) * (order * rho - epsilon) + rest

        return float(minimize_scalar(log_delta, bounds=(-5.0, 15.0), method="bounded").fun) - math.log(delta)

    return float(brentq(excess, 1e-9, epsilon + 1.0, xtol=1e-12))


@dataclass(frozen=True)
class Method:
    """A mechanism: its environment, how it is made, its options, how many seeds are enough, and on which tables."""

    environment: str
    make: Callable[[dict[str, Any]], Release]
    options: dict[str, Any]
    seeds: int = 5
    packages: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


MBI = ("mbi", "jax")
PEERS: dict[str, tuple[Callable[[dict[str, Any]], Release], tuple[str, ...]]] = {
    "discreet": (ours, ("discreet",)),
    "dpmm": (dpmm, ("dpmm", "opendp")),
    "dpsynth": (dpsynth, ("dpsynth", "dp-accounting", *MBI)),
    "opendp": (opendp, ("opendp", *MBI)),
}


def of(peer: str, seeds: int, *tables: str, **options: Any) -> Method:
    make, packages = PEERS[peer]
    return Method("own" if peer == "discreet" else peer, make, options, seeds, packages, tables)


METHODS = {
    "records themselves (not private)": Method("own", themselves, {}, seeds=1),
    "bootstrap sample (not private)": Method("own", bootstrap, {}),
    "independent columns (not private)": Method("own", shuffled, {}),
    "independent columns": Method("own", noisy_columns, {}),
    "discreet marginals": of("discreet", 5, mechanism="marginals"),
    **{
        f"discreet {name}": of("discreet", 5, "small-6", mechanism=name, accept=["poor-utility"])
        for name in ("dirichlet-multinomial", "private-evolution", "hierarchical-histogram")
    },
    "dpmm MST": of("dpmm", 5, kind="MST"),
    "dpsynth SWIFT": of("dpsynth", 5, kind="SWIFT"),
    "dpsynth SWIFT, rare values merged": of("dpsynth", 5, kind="SWIFT", compress=True),
    "dpsynth MST": of("dpsynth", 5, kind="MST"),
    "opendp MST": of("opendp", 5, kind="MST"),
    "dpmm AIM, cut to 28 rounds and 1 MB": of("dpmm", 1, kind="AIM", rounds=28, max_model_size=1),
    "dpmm AIM, defaults": of("dpmm", 1, kind="AIM"),
    "dpsynth AIM": of("dpsynth", 1, kind="AIM"),
    "opendp AIM, pairs": of("opendp", 1, kind="AIM", queries=2),
    "opendp AIM": of("opendp", 1, kind="AIM"),
}


def peak_megabytes() -> float:
    """Return the largest resident memory of this process, or of a child where that is larger."""
    with open("/proc/self/status") as status:
        own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def run(asked: dict[str, Any]) -> dict[str, Any]:
    method = METHODS[asked["method"]]
    release = method.make(method.options)
    imports = sum(os.times()[:4])  # user and system time, with that of children that have ended
    facts = {name: asked[name] for name in ("sizes", "epsilon", "delta", "seed")}
    job = Job(codes=np.load(asked["codes"]), ordered=tuple(asked["ordered"]), **facts)
    start, wall = sum(os.times()[:4]), time.perf_counter()
    made = release(job)
    took = {
        "processor_s": sum(os.times()[:4]) - start,
        "wall_s": time.perf_counter() - wall,
        "imports_s": imports,
        "peak_mb": peak_megabytes(),
    }
    np.save(asked["made"], np.asarray(made).astype(np.uint16))
    versions = {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in method.packages}
    return {**{name: round(value, 2) for name, value in took.items()}, "versions": versions}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(json.dumps(run(json.load(file))))
