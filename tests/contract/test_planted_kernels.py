"""Defects of a kernel, its promise or its law, each of which a check of every mechanism rejects.

The mechanism they are planted in, without a defect, is that of ``test_planted``.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from test_planted import Sound

from discreet.domain import Counts
from discreet.mechanisms import CellCounts, Mechanism, StabilityHistogram, Traits
from discreet.mechanisms.likelihood import Likelihood, ThresholdedCounts
from discreet.mechanisms.noisy_counts import NoisyReading
from discreet.mechanisms.reading import Estimates, Reading
from discreet.privacy import Guarantee, Relation
from discreet.testing.behaviour import (
    check_estimates,
    check_files,
    check_generator,
    check_state,
    check_tables,
    check_twin,
)
from discreet.testing.contract import CHECKS, check_exposure, check_law, check_likelihood, check_promise
from discreet.testing.facts import check_parameters

NEIGHBOURS = Relation()
CHECKED = (
    check_exposure, check_files, check_generator, check_law, check_likelihood, check_promise, check_state,
    check_tables, check_twin,
)  # fmt: skip


# -- the promise and the law ------------------------------------------------------------------------------------------


class Understates(Sound):
    """States the guarantee of twice the noise."""

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        return replace(super().guarantee(relation, n=n), profile=self.law.profile(2 * self.scale, group=1, counts=2))


class IgnoresLargeUnits(Sound):
    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        return replace(super().guarantee(Relation(), n=n), relation=relation)


class KnowsTheNumber(Sound):
    """Claims add/remove, and releases the number of records as it is."""

    traits: ClassVar[Traits] = replace(Sound.traits, relations=("replacement", "add-remove"))

    @classmethod
    def calibrated(cls, budget: Any, *, relation: str = "replacement", **rest: Any) -> Any:
        return super().calibrated(budget, **rest)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        return replace(super().guarantee(Relation(group=relation.group), n=n), relation=relation)

    def log_prob(self, y: CellCounts, x: Counts) -> float:
        return super().log_prob(y, x) if y.sum() == x.n else -np.inf


class Quieter(Sound):
    """Nineteen twentieths of the noise."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        return super(Sound, replace(self, scale=0.95 * self.scale)).kernel(x, rng=rng)


class LeaksRarely(Sound):
    """The table itself, once in 500 times."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        return self._counts(x) if rng.random() < 0.002 else super().kernel(x, rng=rng)


class WrongLikelihood(Sound):
    """A third of the scale, so that intervals are too short."""

    def likelihood(self) -> Likelihood:
        return replace(super().likelihood(), scale=self.scale / 3.0)


class WrongThreshold(StabilityHistogram):
    """Says that noisy counts one above the threshold are kept, so that labels at the threshold are impossible."""

    def likelihood(self) -> ThresholdedCounts:
        return replace(super().likelihood(), threshold=self.threshold + 1)


class SparesLargeCounts(Sound):
    """No noise on counts above 1,000."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        counts = self._counts(x)
        return np.where(counts > 1000, counts, super().kernel(x, rng=rng))


class WrongParameters(Sound):
    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"scale": self.scale * (1.0 - 1e-12 * random.random())}


# -- the generator ----------------------------------------------------------------------------------------------------


class FixedSeed(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        return super().kernel(x, rng=np.random.default_rng(1234))


class OwnGenerator(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        return super().kernel(x, rng=np.random.default_rng())


class InsecureNoise(Sound):
    """Noise in floating point where the release is to be published, and the library's in tests."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        if type(rng).__name__ == "SecureGenerator":
            return super().kernel(x, rng=np.random.default_rng(rng.integers(2**32)))
        return super().kernel(x, rng=rng)


# -- what stays -------------------------------------------------------------------------------------------------------


class KeepsTheTable(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        object.__setattr__(self, "table", self._counts(x))
        return super().kernel(x, rng=rng)


class ReadsTheTable(KeepsTheTable):
    """Its reading moves to the true counts."""

    def probabilities(self, y: CellCounts) -> Any:
        shares = super().probabilities(y)
        if "table" not in vars(self):
            return shares
        counts = vars(self)["table"]
        return 2 / 3 * shares + 1 / 3 * counts / counts.sum()


class EstimatesTheTable(KeepsTheTable):
    def reading(self, y: CellCounts, *, n: int) -> Reading:
        return TrueEstimates(self, vars(self).get("table", y))


class TrueEstimates(NoisyReading):
    """The counts that it is given, as an estimate."""

    def estimates(self) -> Estimates:
        return super().estimates()._replace(counts=np.asarray(self.y, dtype=np.float64))


class RemembersTheTable(Sound):
    """The table in place of what a cached property holds."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        output = super().kernel(x, rng=rng)
        vars(self)["cells"] = self.cells, x.distinct
        return output


class KeepsOnItsClass(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        type(self).seen = x  # type: ignore[attr-defined]
        return super().kernel(x, rng=rng)


class WritesTheTable(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        Path("counts.txt").write_text(str(x.frequencies.tolist()))
        return super().kernel(x, rng=rng)


class PrintsTheTable(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        print(x.frequencies)  # noqa: T201  # the defect
        return super().kernel(x, rng=rng)


class RaisesAtSeven(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        if (x.frequencies == 7).any():
            raise ValueError("seven")
        return super().kernel(x, rng=rng)


class RaisesAtManyRecords(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        if x.frequencies.max() > 50_000:
            raise OverflowError
        return super().kernel(x, rng=rng)


@pytest.mark.parametrize(("defect", "check", "says"), [
    (Understates, check_promise, "more than the"),
    (IgnoresLargeUnits, check_promise, "more than the"),
    (KnowsTheNumber, check_promise, "neighbours of 2 records"),
    (Quieter, check_law, "likelier under"),
    (LeaksRarely, check_exposure, "true counts"),
    (WrongLikelihood, check_likelihood, "not the law of its kernel"),
    (WrongThreshold, check_likelihood, "not the law of its kernel"),
    (SparesLargeCounts, check_estimates, "other standard errors"),
    (WrongParameters, check_parameters, "comes back"),
    (FixedSeed, check_generator, "one output with 8 seeds"),
    (OwnGenerator, check_generator, "two outputs with one seed"),
    (InsecureNoise, check_generator, "randomness other than its generator"),
    (KeepsTheTable, check_state, "keeps 'table' on its object"),
    (ReadsTheTable, check_twin, "of a reading"),
    (EstimatesTheTable, check_twin, "of a reading"),
    (RemembersTheTable, check_state, "a different 'cells'"),
    (KeepsOnItsClass, check_state, "changed 'seen' of KeepsOnItsClass"),
    (WritesTheTable, check_files, "open counts.txt"),
    (PrintsTheTable, check_files, "prints"),
    (RaisesAtSeven, check_tables, "raises ValueError for the table"),
    (RaisesAtManyRecords, check_tables, "raises OverflowError for the table"),
])  # fmt: skip
def test_a_planted_defect_is_rejected(
    defect: type[Mechanism], check: Callable[..., None], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check in CHECKS
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=says):
        check(defect)
