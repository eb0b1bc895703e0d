"""Noise on the labels that are held, released above a threshold (T8): the private step where none are declared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet._core.errors import integer
from discreet.domain import Commonness, Counts, Records
from discreet.mechanisms.base import NEIGHBOURS, Mechanism, Outputs, listed, require_neighbours
from discreet.mechanisms.calibration import Search, least_threshold
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.noise import LAPLACE
from discreet.mechanisms.reading import Estimates, Outcome, Reading
from discreet.privacy import Code, ConstantProfile, Guarantee, Profile, Relation, ThresholdedLaplace


@dataclass(frozen=True, kw_only=True)
class StableCounts(Mechanism):
    """Discrete Laplace noise on the counts of the labels that are held; those that reach the threshold are released."""

    traits: ClassVar[Traits] = Traits(
        free=("threshold", "scale"), needs_cells=False, cells_cost=False, counts=True, leaves_out=True
    )

    scale: float
    threshold: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", LAPLACE.checked(self.scale))
        object.__setattr__(self, "threshold", integer("threshold", self.threshold, least=2, most=1 << 40))

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Counts:
        """Return the labels that reach the threshold, with their noisy counts, in random order."""
        noisy = x.frequencies + LAPLACE.draw(self.scale, x.distinct, rng=rng)
        # The order has to be made here: that of x may depend on labels that are left out.
        labels = rng.permutation(np.flatnonzero(noisy >= self.threshold))
        return Counts(records=x.records.take(labels), frequencies=noisy[labels])

    def log_prob(self, y: Counts, x: Counts) -> float:
        """Return the log-probability of labels and noisy counts, whatever their order, and of the others' absence."""
        released = dict(zip(y.records.rows(), y.frequencies.tolist(), strict=True))
        noisy = [released.pop(row, 0) for row in x.records.rows()]
        if released:
            return -math.inf
        return LAPLACE.log_thresholded(self.scale, x.frequencies, noisy, self.threshold)

    def outputs(self, *tables: Counts) -> Outputs:
        """Return every set of the tables' labels with every noisy count that all but 1e-14 of the noise gives."""
        labels = Records.concatenate([x.records for x in tables])
        rows, held = labels.rows(), np.concatenate([x.frequencies for x in tables])
        places = {row: i for i, row in enumerate(rows)}  # of each label, the last
        most = [max(count for other, count in zip(rows, held.tolist(), strict=True) if other == row) for row in places]
        labels, reach = labels.take(np.array(list(places.values()), dtype=np.intp)), LAPLACE.reach(self.scale)
        values = []
        for counts in listed(*([0, *range(self.threshold, count + reach + 1)] for count in most)):
            noisy = np.array(counts, dtype=np.int64)
            values.append(Counts(records=labels.take(np.flatnonzero(noisy)), frequencies=noisy[noisy > 0]))
        return Outputs(values, 1e-14 * len(most))

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T8 for a table of ``n`` records."""
        (n, group), cells = require_neighbours(self, relation, n), self.domain.size
        profile: Profile = ConstantProfile(value=0.0)
        if cells != 1:
            enough = n >= 2 * self.threshold - 2 + group and (cells is None or cells >= 2 * group)
            profile = ThresholdedLaplace(scale=self.scale, threshold=self.threshold, group=group, tight=enough)
        alone = -math.expm1(LAPLACE.log_below(self.scale, self.threshold - 1))
        caveats = (
            Code("rare-labels", {"threshold": self.threshold, "open": False}),
            Code("single-label", {"probability": alone}),
            Code("free-draws", {"noisy": "counts"}),
        )
        chosen = ("scale", "threshold")
        return Guarantee.proved(profile, relation=relation, n=n, theorem="T8", chosen=chosen, caveats=caveats)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale that any threshold allows, then for the least threshold."""
        return least_threshold(search)

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return the share lost of a table like that one; in the worst case no label is kept."""
        lowering = ("cells", "columns", "epsilon", "delta", "reference")
        remedies = helpful(self.domain, *lowering, reference=like is not None)
        return Forecast(lost=self._lost(n, like), lost_is="prediction", lost_to="noise or rarity", remedies=remedies)

    def _lost(self, n: int, like: Commonness | None) -> float:
        """Return the expected share of records whose labels are too rare to be kept, or that noise stands for."""
        return 1.0 - self._kept(n, like)[0]

    def _kept(self, n: int, like: Commonness | None) -> tuple[float, float]:
        """Return expected shares of a like table: records whose label is kept, less noise, and labels per record."""
        common = like or Commonness.invented(self.domain)
        counts, place = np.unique(np.rint(common.held(n)).astype(np.int64), return_inverse=True)
        above = np.array([-math.expm1(LAPLACE.log_below(self.scale, self.threshold - c)) for c in counts.tolist()])
        noise = np.minimum(1.0, 0.5 * LAPLACE.mean_absolute(self.scale) / counts)
        records, labels = (above * (1.0 - noise))[place], (above / counts)[place]
        return float(common.weight @ records), float(common.weight @ labels)


@dataclass(frozen=True, eq=False)
class LabelReading(Reading):
    """Labels that reached the threshold, with their noisy counts."""

    mechanism: StableCounts
    y: Counts
    n: int

    def estimates(self) -> Estimates:
        """Return the noisy counts, on average too large near the threshold, with the noise's standard deviation."""
        error = LAPLACE.standard_deviation(self.mechanism.scale)
        return Estimates(self.y.records, self.y.frequencies.astype(np.float64), np.full(self.y.distinct, error))

    def outcome(self) -> Outcome:
        """Return how many labels were kept, and about what share of the records holds one of them."""
        labels = self.y.distinct
        share = min(1.0, float(self.y.frequencies.sum()) / self.n)
        if labels == 0:
            return Outcome((Code("no-label-kept"),), 0.0)
        return Outcome((Code("labels-kept", {"labels": labels, "share": share, "records": self.n}),), share)
