"""Write the golden certificates of a version: ``python tests/golden/make_golden.py 0.1.0``, once, at its release.

Every later version verifies them or answers with a dated erratum, so they are never written again. Nor is the folder of
the development version 0.2.0.dev0, which is that of commit 981f41d. Until its release, certificates of a new mechanism
are kept by ``make_frozen.py``. The tables are made up.
Randomness is fresh, as in any release: hashes and times differ from run to run, promises do not.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import discreet
from discreet import Budget, Output, Unit, release
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.evolution import Callables
from discreet.mechanisms import REGISTRY, named
from discreet.pseudo_posterior import CensoredPosterior, Convergence, PoissonMean, PseudoPosterior

HERE = Path(__file__).parent
ROWS = 600
CELLS = Domain(columns={"income": Numeric(lower=1, upper=1e6, cells=8, spacing="log")})
LINE = Domain(columns={"income": Numeric(lower=1, upper=1e6)})
PLANE = Domain(columns={"x": Numeric(lower=0, upper=1), "y": Numeric(lower=0, upper=1)})
TOWNS = Domain(columns={"town": OpenLabels(nulls="category")})
PERSONS = Domain(columns={"visits": Integer(lower=0, upper=3, nulls="category")})
VISITS = Domain(columns={"visits": Integer(lower=0, upper=500)})
EVERY_KIND = Domain(
    columns={
        "income": Numeric(lower=1, upper=1e6, cells=2, spacing="log", nulls="category"),
        "age": Integer(lower=0, upper=99, cells=2),
        "member": Boolean(),
        "born": Date(lower="1900-01-01", upper="1999-12-31", cells=2),
        "seen": Datetime(lower="2024-01-01", upper="2024-12-31", step="1d", cells=2),
        "lasted": Duration(lower="0s", upper="1h", step="1m", cells=2),
        "price": Decimal(lower="0", upper="99.99", digits=2, cells=2),
        "sex": Category(categories=["female", "male"]),
    }
)
DECLARED = Domain(
    columns={"town": Category(categories=["a", "b", "c"]), "region": Category(categories=["north", "south"])},
    implies=[{"columns": ["town"], "determine": "region", "table": {"a": "north", "b": "south", "c": "south"}}],
    totals=[{"column": "region", "source": "a made-up census", "counts": {"north": 200, "south": 400}}],
)
OPEN_TOWNS = Domain(columns={**TOWNS.columns, **PERSONS.columns, "member": Boolean()})
OPEN = ("pitman-yor", "dirichlet-process", "urn-histogram")
LABELS = ("stability-histogram", "stabilised-pitman-yor")


def table(domain: Domain) -> pl.DataFrame:
    """Make up a table, the same in every run."""
    towns = pl.Series("town", [f"town {row**2 // 60_000}" for row in range(ROWS)])
    if domain == TOWNS:
        return towns.to_frame()
    if domain == OPEN_TOWNS:
        others = Domain(columns={name: column for name, column in domain.columns.items() if name != "town"})
        return table(others).insert_column(0, towns)
    return domain.decode(domain.draw_base(ROWS, seeded(0)), rng=seeded(0))


def releases() -> dict[str, dict[str, Any]]:
    """Return how each release is made, by its name: every mechanism in its forms, and what only some of them have."""
    made: dict[str, dict[str, Any]] = {}
    for name, kind in REGISTRY.items():
        asked = {"mechanism": name, "domain": _domain_for(name), **_budget_for(name)}
        made[name] = asked
        made[f"{name}-unit"] = {**asked, "domain": _persons_for(name), "unit": Unit("person", max_records=2)}
        if kind.traits.counts:
            made[f"{name}-counts"] = {**asked, "counts": True, "size": None}

    def also(name: str, like: str, **changes: Any) -> None:
        made[name] = {**made[like], **changes}

    also("dirichlet-multinomial-seeded", "dirichlet-multinomial", seed=7)
    also(
        "dirichlet-multinomial-every-kind",
        "dirichlet-multinomial",
        domain=EVERY_KIND,
        budget=Budget(epsilon=4.0, delta=1e-6),
    )
    also("dirichlet-multinomial-two-cells", "dirichlet-multinomial", domain=Domain(columns={"member": Boolean()}))
    also("dirichlet-multinomial-unit-of-5", "dirichlet-multinomial-unit", unit=Unit("person", max_records=5))
    also("pitman-yor-mixing", "pitman-yor", sampler="mixing", accept={"empirical"})
    also("pitman-yor-discount", "pitman-yor", discount=0.5)
    also("pitman-yor-discount-unit", "pitman-yor-unit", discount=0.5)
    also("perturbed-histogram-gaussian", "perturbed-histogram", noise="gaussian", sampling="stratified")
    also("perturbed-histogram-pure", "perturbed-histogram", noise="laplace", budget=Budget(epsilon=1.0))
    also("hierarchical-histogram-pure", "hierarchical-histogram", noise="laplace", budget=Budget(epsilon=1.0))
    corners = pl.DataFrame({"x": [0.0, 0.0, 1.0, 1.0], "y": [0.0, 1.0, 0.0, 1.0]})
    also("signed-measure-points", "signed-measure", domain=PLANE, points=corners)
    declared = {"relation": discreet.AddRemove(records=ROWS)}
    also("private-evolution-add-remove", "private-evolution", **declared)
    also("marginals-every-kind", "marginals", domain=EVERY_KIND, workload="age*sex,income", given='sex = "female"')
    also("marginals-declared", "marginals", domain=DECLARED, counts=False)
    also("marginals-add-remove", "marginals", domain=EVERY_KIND, **declared)
    also("marginals-open-labels", "marginals", domain=OPEN_TOWNS, budget=Budget(epsilon=4.0, delta=1e-6))
    also("marginals-open-labels-add-remove", "marginals-open-labels", **declared)
    thresholded = {"noise": "laplace", "variant": "practical"}
    also("private-evolution-laplace", "private-evolution", **thresholded)
    also("private-evolution-add-remove-laplace", "private-evolution", **declared, **thresholded)
    also("private-evolution-own-generator", "private-evolution", api=_own_generator())
    return made


def _domain_for(name: str) -> Domain:
    return LINE if name in OPEN else TOWNS if name in LABELS else PLANE if name == "private-evolution" else CELLS


def _persons_for(name: str) -> Domain:
    return TOWNS if name in LABELS else PERSONS


def _budget_for(name: str) -> dict[str, Any]:
    if name in OPEN:  # values appear verbatim: delta is of the order of size over records
        return {"budget": Budget(epsilon=1.0, delta=0.1), "size": 5}
    if name == "private-evolution":
        return {"budget": Budget(epsilon=2.0, delta=1e-6), "size": 20, "population": 10, "steps": 2}
    return {"budget": Budget(epsilon=1.0, delta=1e-6), "size": 20}


def _own_generator() -> Callables:
    return Callables(
        domain=PLANE,
        label="uniform points",
        generate=lambda count, seed: pl.DataFrame(seeded(seed).random((count, 2)), schema=["x", "y"]),
        vary=lambda frame, seed: (frame + seeded(seed).normal(0, 0.1)).select(pl.all().clip(0, 1)),
        embedding=lambda frame: frame.to_numpy(),
        diameter=2.0**0.5,
    )


def tables() -> dict[str, Callable[[], PseudoPosterior | CensoredPosterior]]:
    """Return the mechanisms of synthetic tables: one for each kind of certificate."""
    visits = PoissonMean(column="visits")
    loose = Convergence(r_hat=float("inf"), effective=5.0, divergent=0.5)
    short: dict[str, Any] = {"draws": 200, "warm_up": 200, "chains": 2, "convergence": loose}
    grid = {"mean": np.linspace(1.0, 300.0, 300)}
    return {
        "pseudo-posterior": lambda: PseudoPosterior(visits, target_epsilon=6.0, tables=2, **short),
        "censored-chain": lambda: CensoredPosterior(visits, bound=0.5, tables=2, **short),
        "censored-grid": lambda: CensoredPosterior(visits, bound=0.5, tables=2, grid=grid),
    }


def make(version: str) -> None:
    """Write the certificates of every release into the version's folder; keep the records of the seeded one."""
    if version != discreet.__version__:
        raise SystemExit(f"the installed version is {discreet.__version__}, not {version}")
    folder = HERE / version
    folder.mkdir()
    for name, asked in releases().items():
        with tempfile.TemporaryDirectory() as temporary:
            write_release(name, asked, Path(temporary), folder)
    for name, mechanism in tables().items():
        visits = pl.DataFrame({"visits": seeded(1).poisson(100.0, size=40)})
        release(
            confidential(visits, VISITS), mechanism=mechanism(), out=folder / name, accept={"asymptotic", "empirical"}
        )


def write_release(name: str, asked: dict[str, Any], temporary: Path, folder: Path) -> None:
    """Make one release and keep its certificate."""
    data = table(asked["domain"])
    if "unit" in asked:
        data = data.with_columns(person=pl.int_range(len(data)) // 2)
    kept = folder if "seed" in asked else temporary
    made = discreet.release(
        data,
        out=Output(kept / f"{name}.csv", certificate=folder / f"{name}.certificate.json"),
        **{**asked, "accept": {"poor-utility", "weak-promise", *asked.get("accept", ())}},
    )
    if made.certificate.to_dict()["mechanism"]["name"] not in {asked["mechanism"], named(asked["mechanism"]).name}:
        raise SystemExit(f"{name} has the certificate of another mechanism")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    make(parser.parse_args().version)
