"""What follows the private step is asked of a twin built from public parameters: what a kernel keeps is never read."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from discreet import Output, release
from discreet.domain import Category, Domain, Numeric
from discreet.evolution import Callables
from discreet.mechanisms import PerturbedHistogram, PrivateEvolution
from discreet.mechanisms.base import twin_of
from discreet.mechanisms.noisy_counts import NoisyReading
from discreet.mechanisms.reading import Outcome
from discreet.privacy import Budget, Code

CELLS = Domain(columns={"cell": Category(categories=[str(i) for i in range(100)])})
N = 2000


@dataclass(frozen=True, kw_only=True)
class Smuggler(PerturbedHistogram):
    """Keeps the confidential counts on itself, and reads them afterwards."""

    name: ClassVar[str] = "smuggler"

    def kernel(self, x, *, rng) -> Any:
        object.__setattr__(self, "_x", self._counts(x))
        return super().kernel(x, rng=rng)

    def _smuggled(self) -> np.ndarray | None:
        return vars(self).get("_x")

    def probabilities(self, y) -> Any:
        counts = self._smuggled()
        return super().probabilities(y) if counts is None else counts / counts.sum()

    def reading(self, y, *, n) -> Any:
        counts = self._smuggled()
        return NoisyReading(self, y) if counts is None else Smuggled(self, y, counts)


@dataclass(frozen=True, eq=False)
class Smuggled(NoisyReading):
    """Estimates and an outcome that are made of confidential counts."""

    counts: np.ndarray

    def estimates(self) -> Any:
        return super().estimates()._replace(counts=self.counts.astype(float))

    def outcome(self) -> Any:
        return Outcome((Code("first-cell", {"count": int(self.counts[0])}),), 1.0)


def table() -> tuple[pl.DataFrame, np.ndarray]:
    cells = np.random.default_rng(3).integers(0, 100, N)
    return pl.DataFrame({"cell": [str(i) for i in cells]}), np.bincount(cells, minlength=100)


@pytest.mark.parametrize(("form", "parts"), [("records", None), ("records", 2), ("counts", None)])
def test_a_kernel_that_keeps_the_counts_releases_nothing_of_them(tmp_path, form, parts) -> None:
    held, counts = table()
    smuggler = Smuggler.calibrated(Budget(epsilon=0.05), domain=CELLS, n=N, projection="clip")
    out = Output(None if parts is None else tmp_path / "parts", partitions=parts)
    asked = {"counts": True} if form == "counts" else {"size": N}
    made = release(held, CELLS, mechanism=smuggler, out=out, accept={"poor-utility"}, **asked)
    rows = pl.read_parquet(tmp_path / "parts" / "*.parquet") if parts else made.records
    if form == "counts":
        released = dict(zip(rows["cell"].to_list(), rows["count"].to_list(), strict=True))
    else:
        released = dict(rows["cell"].value_counts().iter_rows())
    found = np.array([released.get(str(i), 0) for i in range(100)])
    # Noise of scale 40 leaves a count as it is with probability 1/80: more than 15 of 100 have less than 1e-9.
    assert int((found == counts).sum()) <= 15
    assert "first-cell" not in made.certificate.to_json()


def test_the_twin_of_an_evolution_keeps_the_users_own_functions() -> None:
    square = Domain(columns={"x": Numeric(lower=0, upper=1)})
    api = Callables(
        domain=square, label="uniform", diameter=1.0,
        generate=lambda count, seed: pl.DataFrame({"x": np.random.default_rng(seed).random(count)}),
        vary=lambda frame, seed: frame.select((pl.col("x") + 0.01).clip(0, 1)),
        embedding=lambda frame: frame.to_numpy(),
    )  # fmt: skip
    mechanism = PrivateEvolution(domain=square, records=N, scale=5.0, steps=1, population=10, api=api)
    twin = twin_of(mechanism, 10)
    assert twin == mechanism
    assert twin is not mechanism
    assert twin.api is api
    assert twin.domain is not mechanism.domain
