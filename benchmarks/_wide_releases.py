"""One release of the comparison in wide.py, alone in its process, so that its processor time and memory are its own.

Run by wide.py with the interpreter of the mechanism's environment: ``python _wide_releases.py JOB.json``. The job names
a mechanism, the file of the codes that it sees, and where to put its records. One line of JSON comes back.

A mechanism here is a function of a :class:`Job` and its options; what it imports is loaded before it is timed. A peer
is given records with the declared number of codes of each column, neighbours with one record more or less, (epsilon,
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


def ours(job: Job, **options: Any) -> np.ndarray:
    import polars as pl

    import discreet
    from discreet.domain import Category, Domain, Integer

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


def themselves(job: Job) -> np.ndarray:
    """The confidential records: not private, what the prediction and the regression reach at best."""
    return job.codes


def bootstrap(job: Job) -> np.ndarray:
    """Records drawn with replacement: not private, and the error of sampling alone."""
    return job.codes[job.generator().integers(0, len(job.codes), len(job.codes))]


def shuffled(job: Job) -> np.ndarray:
    """Every column shuffled: not private, exact one-way counts and nothing else."""
    return job.generator().permuted(job.codes, axis=0)


def noisy_columns(job: Job) -> np.ndarray:
    """All one-way counts with discrete Gaussian noise under one profile, columns drawn independently."""
    from scipy.optimize import brentq

    from discreet._core.random import secure
    from discreet.mechanisms.noise import GAUSSIAN
    from discreet.mechanisms.reading import nearest_probabilities
    from discreet.privacy import DiscreteGaussianPair

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


def dpmm(job: Job, kind: str, **options: Any) -> np.ndarray:
    """MST and AIM of dpmm; its noise cannot be seeded."""
    import pandas as pd
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    facts = {"epsilon": job.epsilon, "delta": job.delta, "domain": dict(job.sizes)}
    model = {"MST": MSTGM, "AIM": AIMGM}[kind](**facts, random_state=np.random.RandomState(job.seed), **options)
    model.fit(pd.DataFrame(job.by_column()))
    return model.generate(n_records=len(job.codes))[list(job.sizes)].to_numpy()


def dpsynth(job: Job, kind: str, *, compress: bool = False) -> np.ndarray:
    """SWIFT, MST and AIM of google/dpsynth; it chooses how many records to make."""
    import mbi
    from dpsynth import discrete_mechanisms
    from dpsynth.discrete_mechanisms import accounting

    def finite(budget: float) -> float:  # the search of dp-accounting on PyPI begins at a budget of zero
        return math.sqrt(1.0 / max(budget, 1e-12))

    accounting.gdp_gaussian_sigma = finite
    np.random.seed(job.seed)  # noqa: NPY002
    inner = getattr(discrete_mechanisms, f"{kind}Config")()
    config = discrete_mechanisms.DiscreteConfig(mechanism=inner, compress_columns=compress)
    data = mbi.Dataset(job.by_column(), mbi.Domain(list(job.sizes), list(job.sizes.values())))
    made = config.calibrate(epsilon=job.epsilon, delta=job.delta)(job.generator(), data).synthetic_data.to_dict()
    return np.stack([np.asarray(made[name]) for name in job.sizes], axis=1)


def opendp(job: Job, kind: str, **options: Any) -> np.ndarray:
    """MST and AIM of OpenDP's mbi extra; its noise cannot be seeded."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    rho = concentrated(job.epsilon, job.delta)
    one, spent = dp.unit_of(contributions=1), dp.loss_of(rho=rho)
    frame = pl.DataFrame(job.by_column())
    context = dp.Context.compositor(data=frame.lazy(), privacy_unit=one, privacy_loss=spent)
    keys = {name: list(range(size)) for name, size in job.sizes.items()}
    algorithm = getattr(dp.mbi, kind)(**options)
    query = context.query(rho=rho).select(*job.sizes).contingency_table(keys=keys, algorithm=algorithm)
    made = query.release().synthesize(len(job.codes))
    return made.select(pl.col(list(job.sizes)).fill_null(0)).to_numpy()


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
    """A mechanism: its environment, its function and options, how many seeds are enough, and on which tables.

    ``modules`` are loaded before it is timed; of ``packages`` the versions are kept.
    """

    environment: str
    release: Callable[..., np.ndarray]
    options: dict[str, Any]
    seeds: int = 5
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


MBI = ("mbi", "jax")
PEERS: dict[str, tuple[Callable[..., np.ndarray], tuple[str, ...], tuple[str, ...]]] = {
    "discreet": (ours, ("discreet",), ("polars", "discreet.domain")),
    "dpmm": (dpmm, ("dpmm", "opendp"), ("pandas", "dpmm.models.aim", "dpmm.models.mst")),
    "dpsynth": (dpsynth, ("dpsynth", "dp-accounting", *MBI), ("mbi", "dpsynth.discrete_mechanisms.accounting")),
    "opendp": (opendp, ("opendp", *MBI), ("polars", "opendp.prelude")),
}


def peer(name: str, seeds: int, *tables: str, **options: Any) -> Method:
    release, packages, modules = PEERS[name]
    environment = "own" if name == "discreet" else name
    return Method(environment, release, options, seeds, packages, modules, tables)


METHODS = {
    "records themselves (not private)": Method("own", themselves, {}, seeds=1),
    "bootstrap sample (not private)": Method("own", bootstrap, {}),
    "independent columns (not private)": Method("own", shuffled, {}),
    "independent columns": Method("own", noisy_columns, {}, modules=("scipy.optimize", "discreet.mechanisms.reading")),
    "discreet marginals": peer("discreet", 5, mechanism="marginals"),
    **{
        f"discreet {name}": peer("discreet", 5, "small-6", mechanism=name, accept=["poor-utility"])
        for name in ("dirichlet-multinomial", "private-evolution", "hierarchical-histogram")
    },
    "dpmm MST": peer("dpmm", 5, kind="MST"),
    "dpsynth SWIFT": peer("dpsynth", 5, kind="SWIFT"),
    "dpsynth SWIFT, rare values merged": peer("dpsynth", 5, kind="SWIFT", compress=True),
    "dpsynth MST": peer("dpsynth", 5, kind="MST"),
    "opendp MST": peer("opendp", 5, kind="MST"),
    "dpmm AIM, cut to 28 rounds and 1 MB": peer("dpmm", 1, kind="AIM", rounds=28, max_model_size=1),
    "dpmm AIM, defaults": peer("dpmm", 1, kind="AIM"),
    "dpsynth AIM": peer("dpsynth", 1, kind="AIM"),
    "opendp AIM, pairs": peer("opendp", 1, kind="AIM", queries=2),
    "opendp AIM": peer("opendp", 1, kind="AIM"),
}


def peak_megabytes() -> float:
    """Return the largest resident memory of this process, or of a child where that is larger."""
    with open("/proc/self/status") as status:
        own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def run(asked: dict[str, Any]) -> dict[str, Any]:
    method = METHODS[asked["method"]]
    for module in method.modules:
        importlib.import_module(module)
    imports = sum(os.times()[:4])  # user and system time, with that of children that have ended
    facts = {name: asked[name] for name in ("sizes", "epsilon", "delta", "seed")}
    job = Job(codes=np.load(asked["codes"]), ordered=tuple(asked["ordered"]), **facts)
    start, wall = sum(os.times()[:4]), time.perf_counter()
    made = method.release(job, **method.options)
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
