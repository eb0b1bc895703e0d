"""Noisy counts of held labels, released above a threshold: docs/theory/stability-histogram.md (T8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from discreet._core.boundary import sealed
from discreet._core.errors import choice
from discreet._core.numeric import Integers
from discreet.domain import Commonness, Counts, Domain, Records
from discreet.mechanisms import reading as readings
from discreet.mechanisms.forecast import Forecast
from discreet.mechanisms.likelihood import ThresholdedCounts
from discreet.mechanisms.noise import LAPLACE
from discreet.mechanisms.stability import LabelReading, StableCounts


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
    sampling: readings.Sampling = field(default=readings.SAMPLINGS[0], metadata=readings.READING_ONLY)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("sampling", self.sampling, readings.SAMPLINGS)

    def reading(self, y: Counts, *, n: int) -> readings.Reading:
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
class _SharesOfLabels(LabelReading, readings.CellReading):
    """Records in proportion to the noisy counts, or from the base measure where nothing was kept."""

    mechanism: StabilityHistogram

    def cell_shares(self, *, rng: Generator) -> readings.CellShares:
        if not self.y.distinct:
            return _BaseShares(np.zeros(0), "iid", self.mechanism.domain)
        return readings.ListedShares(self.y.frequencies.astype(float), self.mechanism.sampling, self.y.records.take)


@dataclass(frozen=True, eq=False)
class _BaseShares(readings.CellShares):
    """Independent records of the base measure, without items."""

    domain: Domain

    def records_in(self, items: Integers, *, rng: Generator) -> Records:
        return self.domain.draw_base(0, rng)

    def draw(self, size: int, *, rng: Generator, portion: readings.Portion = readings.WHOLE) -> Iterator[Records]:
        """Yield records whose new labels are numbered one after the other."""
        total = len(range(portion.number, size, portion.parts))
        for start in range(0, total, readings.BLOCK):
            yield self.domain.draw_base(min(readings.BLOCK, total - start), rng, first=portion.first_label + start)
