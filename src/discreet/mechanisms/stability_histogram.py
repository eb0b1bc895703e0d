"""Noisy counts of held labels, released above a threshold: docs/theory/stability-histogram.md (T8)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Integers
from discreet._core.boundary import sealed
from discreet._core.checks import choice, integer
from discreet.domain import Commonness, Counts, Domain, Records
from discreet.mechanisms.base import NEIGHBOURS, Mechanism, Outputs, listed, require_neighbours
from discreet.mechanisms.calibration import Search, least_threshold
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import ThresholdedCounts
from discreet.mechanisms.noise import LAPLACE
from discreet.mechanisms.reading import (
    BLOCK,
    READING_ONLY,
    SAMPLINGS,
    WHOLE,
    CellReading,
    CellShares,
    Estimates,
    ListedShares,
    Outcome,
    Portion,
    Reading,
    Sampling,
)
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
        if (y.frequencies < self.threshold).any():
            return -math.inf
        total = 0.0
        for row, frequency in zip(x.records.rows(), x.frequencies.tolist(), strict=True):
            if row in released:
                total += float(LAPLACE.log_pmf(self.scale, released.pop(row) - frequency))
            else:
                total += LAPLACE.log_below(self.scale, self.threshold - frequency)
        return -math.inf if released else total

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


@sealed
@dataclass(frozen=True, kw_only=True)
class StabilityHistogram(StableCounts):
    r"""Add discrete Laplace noise to the labels that are held, keep those that reach a threshold, draw any number.

    For labels that nobody can list beforehand: open sets, continuous columns with repeated values, large products of
    columns. Cells that nobody holds cost nothing, neither noise nor memory.

    Parameters
    ----------
    domain : Domain
        Public, of any kind.
    scale : float
        Of the noise, in records: ``P(z)`` is proportional to ``e^(-|z|/scale)``.
    threshold : int
        Least noisy count that is released, ``t``, at least 2.
    sampling : {"iid", "stratified"}
        How records are drawn from the noisy counts: independently, or with every label's number within one record of
        its share.

    Raises
    ------
    ParameterError
        When a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T8, exact for groups of at most 16 in tables of ``2t - 2 + g`` records or more): with
    ``r = e^(-1/scale)``, for one record and ``eps >= 2/scale``, ``delta = r^(t-1) / (1+r)`` (where that is at most
    ``1 - r``), the probability that a label held once is released. Confidential: how often labels are held, which are
    left out, and how many records those hold. Public: the labels that remain and their noisy counts, which records are
    drawn from, renormalised. Where nothing remains, records come from the base measure. Releases draw noise with
    OpenDP's exact sampler, so floating point costs nothing.

    References
    ----------
    PE25, section 4.2 and Proposition 4.1; Vadhan (2017), Theorem 3.5.

    Examples
    --------
    >>> from discreet.domain import Domain, OpenLabels
    >>> words = Domain(columns={"word": OpenLabels()})
    >>> mechanism = StabilityHistogram(domain=words, scale=2.0, threshold=42)
    >>> f"{mechanism.guarantee(n=1_000_000).delta(1.0):.4g}"
    '7.782e-10'
    """

    name: ClassVar[str] = "stability-histogram"
    sampling: Sampling = field(default=SAMPLINGS[0], metadata=READING_ONLY)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("sampling", self.sampling, SAMPLINGS)

    def reading(self, y: Counts, *, n: int) -> Reading:
        """Return records drawn from the noisy counts, and these themselves."""
        return _SharesOfLabels(self, y, n)

    def likelihood(self) -> ThresholdedCounts:
        """Return the law of the noise, the threshold, and the normalised counts that remain."""
        return ThresholdedCounts(
            law=LAPLACE, scale=self.scale, threshold=self.threshold, surplus="rescaled", sampling=self.sampling
        )

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return what is forecast of the noisy counts, and how records are drawn from them."""
        return replace(super().forecast(n, like), stratified=self.sampling == "stratified")


@dataclass(frozen=True, eq=False)
class _SharesOfLabels(LabelReading, CellReading):
    """Records in proportion to the noisy counts, or from the base measure where nothing was kept."""

    mechanism: StabilityHistogram

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
        """Return the shares of the labels that remain."""
        if not self.y.distinct:
            return _BaseShares(np.zeros(0), "iid", self.mechanism.domain)
        return ListedShares(self.y.frequencies.astype(np.float64), self.mechanism.sampling, self.y.records.take)


@dataclass(frozen=True, eq=False)
class _BaseShares(CellShares):
    """Independent records of the base measure, without items."""

    domain: Domain

    def records_in(self, items: Integers, *, rng: np.random.Generator) -> Records:
        """Return the records of no items."""
        return self.domain.draw_base(0, rng)

    def draw(self, size: int, *, rng: np.random.Generator, portion: Portion = WHOLE) -> Iterator[Records]:
        """Yield records whose new labels are numbered one after the other."""
        total = len(range(portion.number, size, portion.parts))
        for start in range(0, total, BLOCK):
            yield self.domain.draw_base(min(BLOCK, total - start), rng, first=portion.first_label + start)
