"""A ledger, and what the tests of payments release: ages by a histogram, points by an evolution of two steps."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from discreet import Checkpoint, Ledger, Output, Replacement, Watch, release
from discreet.domain import Domain, Integer, Numeric
from discreet.mechanisms import PerturbedHistogram
from discreet.privacy import Budget
from discreet.releases import Release

N = 2000
AGES = pl.DataFrame({"age": [i % 100 for i in range(N)]})
DOMAIN = Domain(columns={"age": Integer(lower=0, upper=99, out_of_bounds="clip")})
BUDGET = Budget(epsilon=1.0, delta=1e-6)
SQUARE = Domain(columns=dict.fromkeys("xy", Numeric(lower=0.0, upper=1.0, out_of_bounds="clip")))
STEPS: dict[str, Any] = {"steps": 2, "population": 20, "api": "box", "variant": "practical"}


def ledger_at(folder: Path, epsilon: float = 10.0, delta: float = 1e-5, currency: Any = "sums") -> Ledger:
    return Ledger.create(folder / "x.ledger", dataset="d", epsilon=epsilon, delta=delta, currency=currency)


def histogram(noise: str, domain: Domain = DOMAIN, budget: Budget = BUDGET) -> PerturbedHistogram:
    asked = budget if noise == "gaussian" else Budget(epsilon=budget.epsilon)
    return PerturbedHistogram.calibrated(asked, domain=domain, n=N, size=N, noise=noise)


def points() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame({"x": rng.random(N), "y": rng.random(N)})


def evolve(
    ledger: Any, path: Path, *, budget: Budget = BUDGET, watch: Watch | None = None, redraw: bool = False
) -> Release:
    how: dict[str, Any] = {"mechanism": "private-evolution", "accept": {"poor-utility"}, **STEPS}
    out, relation = Output(checkpoint=Checkpoint(path, redraw=redraw)), Replacement(records=N)
    return release(
        points(), SQUARE, budget, size=50, ledger=ledger, watch=watch or Watch(), out=out, relation=relation, **how
    )


def interrupt(done: int, of: int) -> None:
    raise KeyboardInterrupt
