"""One release of a comparison of packages, alone in its process, so that its processor time and memory are its own.

Run by wide.py and relations.py with the interpreter of the mechanism's environment, ``python _wide_releases.py
JOB.json``. The job names a mechanism, the file of the codes that it sees, where to put its records, and the processor
seconds after which the process is ended. One line of JSON comes back.

A mechanism here is a function of a :class:`Job` and its options; what it imports is loaded before it is timed. A peer
is given records with the declared number of codes of each column, neighbours with one record more or less, (epsilon,
delta), and the number of records to make, which this comparison takes as public. All else is left as shipped, unless
the mechanism's name says otherwise. No interpreter but our own has this package.
"""

import importlib
import importlib.metadata
import json
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Container
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
    relation: str = "add-remove"
    outcomes: tuple[str, ...] = ()

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def by_column(self) -> dict[str, np.ndarray]:
        return {name: self.codes[:, j].astype(np.int64) for j, name in enumerate(self.sizes)}


def domain_of(sizes: dict[str, int], ordered: Container[str], **facts: Any) -> Any:
    """Declare columns of codes."""
    from discreet.domain import Category, Domain, Integer

    columns: dict[str, Any] = {
        name: Integer(lower=0, upper=size - 1) if name in ordered else Category(categories=list(range(size)))
        for name, size in sizes.items()
    }
    return Domain(columns=columns, **facts)


def ours(job: Job, declared: int | None = None, **options: Any) -> np.ndarray:
    """Our mechanisms; ``declared`` is the place of the outcome that the domain declares."""
    import polars as pl

    import discreet

    budget = discreet.Budget(epsilon=job.epsilon, delta=job.delta)
    facts = {"size": len(job.codes), "seed": job.seed, **options}
    if job.relation == "add-remove":
        facts["relation"] = discreet.AddRemove(records=len(job.codes))
    outcome = () if declared is None else (job.outcomes[declared],)
    domain = domain_of(job.sizes, job.ordered, outcome=outcome)
    release = discreet.release(pl.DataFrame(job.by_column()), domain, budget, **facts)
    return release.records.select(list(job.sizes)).to_numpy()


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
        changed = len(job.sizes) * (1 if job.relation == "add-remove" else 2)
        profile = DiscreteGaussianPair(scale=math.exp(log_scale), counts=changed)
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
    """MST, AIM and PrivBayes of dpmm; its noise cannot be seeded."""
    import pandas as pd

    module = importlib.import_module(f"dpmm.models.{'priv_bayes' if kind == 'PrivBayes' else kind.lower()}")
    facts = {"epsilon": job.epsilon, "delta": job.delta, "domain": dict(job.sizes), "n_jobs": 1}
    model = getattr(module, f"{kind}GM")(**facts, random_state=np.random.RandomState(job.seed), **options)
    model.fit(pd.DataFrame(job.by_column()))
    return model.generate(n_records=len(job.codes))[list(job.sizes)].to_numpy()


def mbi_records(job: Job, mechanism: Callable[[Any], Any]) -> np.ndarray:
    import mbi

    np.random.seed(job.seed)  # noqa: NPY002
    domain = mbi.Domain(list(job.sizes), list(job.sizes.values()))
    records = mechanism(mbi.Dataset(job.by_column(), domain)).to_dict()
    return np.stack([np.asarray(records[name]) for name in job.sizes], axis=1)


def mbi_example(job: Job) -> np.ndarray:
    """MST of mbi's folder of examples; it chooses how many records to make."""
    from mst import MST

    return mbi_records(job, lambda data: MST(data, job.epsilon, job.delta))


def dpsynth(job: Job, kind: str, *, compress: bool = False) -> np.ndarray:
    """SWIFT, MST and AIM of google/dpsynth; it chooses how many records to make."""
    from dpsynth import discrete_mechanisms
    from dpsynth.discrete_mechanisms import accounting

    def finite(budget: float) -> float:  # the search of dp-accounting on PyPI begins at a budget of zero
        return math.sqrt(1.0 / max(budget, 1e-12))

    accounting.gdp_gaussian_sigma = finite
    inner = getattr(discrete_mechanisms, f"{kind}Config")()
    config = discrete_mechanisms.DiscreteConfig(mechanism=inner, compress_columns=compress)
    mechanism = config.calibrate(epsilon=job.epsilon, delta=job.delta)
    return mbi_records(job, lambda data: mechanism(job.generator(), data).synthetic_data)


def tab_pe(job: Job, rounds: int) -> np.ndarray:
    """Tab-PE of DPSDA, with the settings of its own examples, where the first outcome is the label.

    It makes 1,000 records, and takes the shares of the labels from the table without noise.
    """
    from unittest.mock import MagicMock

    import pandas as pd

    for part, kind in ((part, kind) for part in ("data", "api", "embedding", "callback") for kind in ("image", "text")):
        sys.modules[f"pe.{part}.{kind}"] = MagicMock()  # what is of no use for tables asks for large packages
    from pe.api import TabularAPI
    from pe.constant.data import LABEL_ID_COLUMN_NAME, TABULAR_DATA_COLUMN_NAME, VARIATION_API_FOLD_ID_COLUMN_NAME
    from pe.data import Data, TabularColumnType
    from pe.embedding import TabularEmbedding
    from pe.histogram import NearestNeighbors
    from pe.population import CompositePopulation, PEPopulation
    from pe.runner import PE

    pd.options.mode.copy_on_write = True
    np.random.seed(job.seed)  # noqa: NPY002
    label, names = job.outcomes[0], list(job.sizes)
    kinds: dict[str, list[str]] = {"cat_columns": [], "int_columns": [], "float_columns": []}
    for name in names:
        if name != label:
            kinds["int_columns" if name in job.ordered else "cat_columns"].append(name)
    features, codes = kinds["cat_columns"] + kinds["int_columns"], job.by_column()
    facts = {
        name: {"type": TabularColumnType.INTEGER, "min": 0, "max": job.sizes[name] - 1}
        if name in job.ordered
        else {"type": TabularColumnType.CATEGORICAL, "categories": list(range(job.sizes[name]))}
        for name in features
    }
    present, ids = np.unique(codes[label], return_inverse=True)
    labels = [{"name": f"{label}: {value}", "column_values": {label: int(value)}} for value in present]
    rows = np.stack([codes[name] for name in features], axis=1).tolist()
    table = pd.DataFrame({TABULAR_DATA_COLUMN_NAME: rows, LABEL_ID_COLUMN_NAME: ids})
    metadata = {**kinds, "feature_columns": features, "label_columns": [label], "label_info": labels}
    api = TabularAPI(info=facts, num_iterations=rounds)
    early: dict[str, Any] = {"initial_variation_api_fold": 0, "next_variation_api_fold": 1, "keep_selected": False}
    late: dict[str, Any] = {"initial_variation_api_fold": 3, "next_variation_api_fold": 3, "keep_selected": True}
    first = PEPopulation(api=api, **early, selection_mode="sample", histogram_threshold=0)
    rest = PEPopulation(api=api, **late, selection_mode="rank")
    made = PE(
        priv_data=Data(data_frame=table, metadata=metadata),
        population=CompositePopulation(populations=[first] * 5 + [rest] * (rounds - 5)),
        histogram=NearestNeighbors(
            embedding=TabularEmbedding(info=facts), mode="L2", lookahead_degree=0, backend="sklearn"
        ),
    ).run(num_samples_schedule=[1000] * rounds, delta=job.delta, epsilon=job.epsilon, save_checkpoint=False)
    chosen = made.data_frame[made.data_frame[VARIATION_API_FOLD_ID_COLUMN_NAME] == -1]
    values = dict(zip(features, np.array(chosen[TABULAR_DATA_COLUMN_NAME].tolist()).T, strict=True))
    values[label] = present[chosen[LABEL_ID_COLUMN_NAME].to_numpy()]
    return np.stack([np.rint(values[name]) for name in names], axis=1).astype(np.uint16)


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
    "dpmm": (dpmm, ("dpmm", "opendp"), ("pandas", *(f"dpmm.models.{name}" for name in ("aim", "mst", "priv_bayes")))),
    "mbi": (mbi_example, MBI, ("mst",)),
    "dpsda": (tab_pe, ("scikit-learn", "pandas", "omegaconf"), ("pandas", "sklearn.neighbors", "omegaconf")),
    "dpsynth": (dpsynth, ("dpsynth", "dp-accounting", *MBI), ("mbi", "dpsynth.discrete_mechanisms.accounting")),
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
    "dpmm MST": peer("dpmm", 5, kind="MST"),
    "dpmm PrivBayes": peer("dpmm", 5, kind="PrivBayes"),
    "mbi MST, its example": peer("mbi", 5),
    "dpsynth SWIFT": peer("dpsynth", 5, kind="SWIFT"),
    "dpsynth SWIFT, rare values merged": peer("dpsynth", 5, kind="SWIFT", compress=True),
    "dpsynth MST": peer("dpsynth", 5, kind="MST"),
    "dpmm AIM, cut to 28 rounds and 1 MB": peer("dpmm", 1, kind="AIM", rounds=28, max_model_size=1),
    "dpmm AIM, defaults": peer("dpmm", 1, kind="AIM"),
    "dpsynth AIM": peer("dpsynth", 1, kind="AIM"),
    "DPSDA Tab-PE, as in its stress test": peer("dpsda", 3, "evolution_peers", rounds=20),
    "DPSDA Tab-PE, as in its Adult": peer("dpsda", 3, "evolution_peers", rounds=30),
}


def peak_megabytes() -> float:
    """Return the largest resident memory of this process, or of a child where that is larger."""
    with open("/proc/self/status") as status:
        own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def run(job: Job, method: Method) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the records of a release, and what it took."""
    for module in method.modules:
        importlib.import_module(module)
    imports = sum(os.times()[:4])  # user and system time, with that of children that have ended
    start, wall = sum(os.times()[:4]), time.perf_counter()
    records = method.release(job, **method.options)
    took = {
        "processor_s": sum(os.times()[:4]) - start,
        "wall_s": time.perf_counter() - wall,
        "imports_s": imports,
        "peak_mb": peak_megabytes(),
    }
    versions = {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in method.packages}
    return np.asarray(records), {**{name: round(value, 2) for name, value in took.items()}, "versions": versions}


def main(path: str) -> None:
    with open(path) as file:
        asked = json.load(file)
    method, codes, records, limit = (asked.pop(name) for name in ("method", "codes", "records", "limit"))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
    drawn, took = run(Job(codes=np.load(codes), **asked), METHODS[method])
    np.save(records, drawn.astype(np.uint16))
    print(json.dumps(took))


if __name__ == "__main__":
    main(sys.argv[1])
