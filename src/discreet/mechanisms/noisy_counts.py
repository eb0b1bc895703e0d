"""Independent discrete noise on the counts of cells, or of nodes above them: one private step with many readings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet._core.errors import ParameterError, choice, positive_size
from discreet._core.numeric import Floats
from discreet.domain import Commonness, Counts
from discreet.mechanisms import base
from discreet.mechanisms import reading as readings
from discreet.mechanisms.base import NEIGHBOURS, CellCounts, Mechanism, Outputs
from discreet.mechanisms.calibration import Search, least_scale
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.noise import NoiseLaw, law_named
from discreet.mechanisms.projections import L1, NumberedCells, Projection
from discreet.privacy import Code, ConstantProfile, Guarantee, Profile, Relation

if TYPE_CHECKING:
    from discreet.mechanisms.likelihood import Likelihood

_MOST_CELLS = 1 << 25


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(Mechanism):
    """Independent discrete noise on the count of every cell of a finite domain; parameters: see PerturbedHistogram."""

    traits: ClassVar[Traits] = Traits(free=("scale",), cells_cost=False, theorem="T6", counts=True)

    records: int
    scale: float
    noise: str = "laplace"
    sampling: readings.Sampling = field(default=readings.SAMPLINGS[0], metadata=readings.READING_ONLY)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", law_named(self.noise).checked(self.scale))
        if self._length > _MOST_CELLS:
            raise ParameterError(
                f"{self.name} adds noise to every cell and holds at most {_MOST_CELLS:,} of them, fewer than the "
                "domain has. Use marginals or stability-histogram, or declare fewer cells"
            )
        object.__setattr__(self, "records", positive_size("records", self.records))
        choice("sampling", self.sampling, readings.SAMPLINGS)

    @property
    def law(self) -> NoiseLaw:
        """The noise's law."""
        return law_named(self.noise)

    @cached_property
    def cells(self) -> NumberedCells:
        """What noise is added to."""
        return NumberedCells(self.domain, base.numbered_cells(self.domain, self.name))

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy counts of all cells, an int64 array of shape ``(cells,)``."""
        base.require_made_for(self.records, x.n)
        return self._counts(x) + self.law.draw(self.scale, self._length, rng=rng)

    @property
    def _length(self) -> int:
        return self.cells.count

    @property
    def _pairs(self) -> int:
        return int(self.cells.count > 1)

    def _counts(self, x: Counts) -> CellCounts:
        return self.cells.counts(x.records, x.frequencies)

    def log_prob(self, y: CellCounts, x: Counts) -> float:
        """Return the log-probability of the noisy counts ``y`` (counting measure on integer vectors)."""
        return float(self.law.log_pmf(self.scale, np.asarray(y, dtype=np.int64) - self._counts(x)).sum())

    def outputs(self, *tables: Counts) -> Outputs:
        """Return the integer vectors around the tables' counts, all but 1e-13 of them by probability."""
        return base.outputs_around(np.array([self._counts(x) for x in tables]), self.law.reach(self.scale))

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the theorem for a table of ``n`` records."""
        n, group = base.require_neighbours(self, relation, n)
        profile: Profile = ConstantProfile(value=0.0)
        if self._pairs:
            profile = self.law.profile(self.scale, group=group, counts=2 * self._pairs)
        theorem, chosen, caveat = self.traits.theorem, ("cells", "noise"), Code("free-draws", {"noisy": "counts"})
        return Guarantee.proved(profile, relation=relation, n=n, theorem=theorem, chosen=chosen, caveats=(caveat,))

    @cached_property
    def projector(self) -> Projection:
        """What turns the noisy counts into probabilities: the L1 projection that keeps the largest cells' shares."""
        return L1(self.cells, self.records)

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the cells' probabilities that records are drawn with: public post-processing of noisy counts."""
        return self.projector.probabilities(y)

    def contents(self, n: int, *, counts: bool = False) -> readings.Contents:
        """Return any number of records, or the count of every cell."""
        contents = super().contents(n, counts=counts)
        if counts:
            return replace(contents, rows=range(self.cells.count, self.cells.count + 1))
        return contents

    def reading(self, y: CellCounts, *, n: int) -> readings.Reading:
        """Return records drawn from the noisy counts, and these themselves."""
        return NoisyReading(self, y)

    def likelihood(self) -> Likelihood:
        """Return the law of the noise, and how it is read."""
        from discreet.mechanisms.likelihood import NoisyCellCounts

        return NoisyCellCounts(law=self.law, scale=self.scale, surplus=self.projector.surplus, sampling=self.sampling)

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return a bound on the expected total variation from the table's shares: ``(k E|Z| + sqrt(k) s) / (2n)``."""
        # Proof, for all the projections here: docs/theory/laplace-projection-sampler.md.
        lost = projection_error(self.law, self.scale, cells=self.cells.count, total=n) if self._pairs else 0.0
        remedies = helpful(self.domain, "cells", "columns", "epsilon", "delta")
        stratified = self.sampling == "stratified"
        return Forecast(lost=lost, lost_is="bound", lost_to="noise", remedies=remedies, stratified=stratified)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale; without ``noise``, take the law with the smaller mean absolute noise."""
        return least_scale(search)


@dataclass(frozen=True, eq=False)
class NoisyReading(readings.CellReading):
    """Noisy counts of cells, and records drawn from their projection."""

    mechanism: NoisyCounts
    y: CellCounts

    def cell_shares(self, *, rng: np.random.Generator) -> readings.CellShares:
        """Return the projected counts."""
        mechanism = self.mechanism
        return readings.ListedShares(mechanism.probabilities(self.y), mechanism.sampling, mechanism.cells.records_in)

    def estimates(self) -> readings.Estimates:
        """Return the noisy counts themselves, unbiased, with the noise's standard deviation."""
        cells, error = self.mechanism.cells, self.mechanism.law.standard_deviation(self.mechanism.scale)
        records = cells.records_in(np.arange(cells.count))
        return readings.Estimates(records, np.asarray(self.y, dtype=np.float64), np.full(cells.count, error))


def projection_error(law: NoiseLaw, scale: float, *, cells: int, total: int) -> float:
    """Return a bound on the expected total variation between an L1 projection of noisy counts and the true shares."""
    # (k E|Z| + sqrt(k) s) / (2 total) for noise Z of standard deviation s on k cells, at most 1.
    noise = cells * law.mean_absolute(scale) + math.sqrt(cells) * law.standard_deviation(scale)
    return min(1.0, 0.5 * noise / total)
