"""The urn continued from noisy counts above a threshold: docs/theory/stabilised-pitman-yor.md (T8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import positive_size, real
from discreet.domain import Commonness, Counts, Records
from discreet.mechanisms.base import numbered_cells, require_made_for
from discreet.mechanisms.drawn import UNIT, draw_blocks, records_of, rounded_urn
from discreet.mechanisms.likelihood import NoLikelihood, ThresholdedUrn
from discreet.mechanisms.noise import LAPLACE
from discreet.mechanisms.projections import NumberedCells
from discreet.mechanisms.reading import READING_ONLY, ColumnShares, Reading
from discreet.mechanisms.stability import LabelReading, StableCounts

_MOST_FOLLOWED = 10**6  # records times cells: intervals take some ten seconds


@sealed
@dataclass(frozen=True, kw_only=True)
class StabilisedPitmanYor(StableCounts):
    r"""Draw any number of records from a Pitman-Yor urn that holds the noisy counts of a stability histogram.

    With ``D_l`` the noisy counts that remain and ``M = max(0, n - sum D_l)`` the records they do not account for, draw
    ``i + 1`` repeats the value ``l`` with probability ``(D_l - discount) / (strength + M + sum D + i)``, where ``D_l``
    counts earlier draws too, and is otherwise a new value from the base measure.

    Parameters
    ----------
    domain : Domain
        Public, of any kind; usually an open set of labels.
    records : int
        The public number of records ``n``.
    scale, threshold
        As for :class:`StabilityHistogram`.
    strength : float
        ``theta``, at least 0, on top of the missing mass ``M``. Rounded up to a multiple of 2^-20.
    discount : float
        ``sigma`` in ``[0, 1)``; rounded to the nearest multiple of 2^-20.

    Raises
    ------
    ParameterError
        When a parameter is out of range, or the table has another number of records.

    Notes
    -----
    Guarantee: theorem T8, that of :class:`StabilityHistogram` with the same scale and threshold, as everything after
    the noisy counts is public post-processing; it depends neither on the size nor on strength and discount.
    Confidential: what a stability histogram keeps so. In particular ``M`` comes from the public ``n`` and the noisy
    counts, never from the true number of records left out. Where nothing remains, the release is a Pitman-Yor sample
    from the base measure.

    References
    ----------
    PY26, Algorithm 1 and Proposition 1; PE25, Proposition 4.1.

    Examples
    --------
    >>> from discreet.domain import Domain, OpenLabels
    >>> from discreet.privacy import Budget
    >>> words = Domain(columns={"word": OpenLabels()})
    >>> budget = Budget(epsilon=1.0, delta=1e-9)
    >>> mechanism = StabilisedPitmanYor.calibrated(budget, domain=words, n=1_000_000)
    >>> round(mechanism.scale, 6), mechanism.threshold
    (2.0, 42)
    """

    name: ClassVar[str] = "stabilised-pitman-yor"

    records: int = field(metadata=READING_ONLY)
    strength: float = field(default=1.0, metadata=READING_ONLY)
    discount: float = field(default=0.0, metadata=READING_ONLY)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "records", positive_size("records", self.records))
        strength = real("strength", self.strength, least=0, most=2**40)
        strength, discount = rounded_urn(strength, real("discount", self.discount, least=0, below=1))
        object.__setattr__(self, "strength", strength)
        object.__setattr__(self, "discount", discount)

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Counts:
        """Return the labels that reach the threshold, in a random order, with their noisy counts."""
        require_made_for(self.records, x.n)
        return super().kernel(x, rng=rng)

    def reading(self, y: Counts, *, n: int) -> Reading:
        """Return the urn continued from the noisy counts, and these themselves."""
        return _UrnReading(self, y, n)

    def likelihood(self) -> ThresholdedUrn | NoLikelihood:
        """Return the law of the noise, the threshold, and the urn's strength; none with a discount, or many records."""
        if self.discount:
            return NoLikelihood(
                reason="with a discount, which released records share a new value is not told, and the law sums over "
                "all ways. Take discount 0"
            )
        if self.records * (self.domain.size or 0) > _MOST_FOLLOWED:
            return NoLikelihood(
                reason=f"a posterior takes minutes where records times cells are above {_MOST_FOLLOWED:,}. "
                "Take another mechanism"
            )
        return ThresholdedUrn(
            law=LAPLACE,
            scale=self.scale,
            threshold=self.threshold,
            surplus="rescaled",
            sampling="iid",
            strength=self.strength,
            base=lambda: NumberedCells(self.domain, numbered_cells(self.domain, self.name)).base(),
        )

    def _lost(self, n: int, like: Commonness | None) -> float:
        """Return the expected share of new values, as records of rare labels come back, and of noise."""
        records, labels = self._kept(n, like)
        return 1.0 - n * max(0.0, records - self.discount * labels) / (self.strength + n)


@dataclass(frozen=True, eq=False)
class _UrnReading(LabelReading):
    """The urn continued from the noisy counts that remain."""

    mechanism: StabilisedPitmanYor

    def column_shares(self, *, rng: np.random.Generator) -> list[ColumnShares]:
        """Return shares of the labels that remain, drawn as those of infinitely many records."""
        counts, discount = self.y.frequencies, self.mechanism.discount
        opening = self.mechanism.strength + discount * len(counts) + max(0, self.mechanism.records - self.y.n)
        weights = rng.standard_gamma(np.append(counts - discount, opening))
        return [(codes, weights[:-1] / weights.sum()) for codes in self.y.records.columns]

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Continue the urn for ``size`` draws, in chunks, in exchangeable order."""
        strength = int(self.mechanism.strength * UNIT) + max(0, self.mechanism.records - self.y.n) * UNIT
        discount = int(self.mechanism.discount * UNIT)
        blocks = draw_blocks(self.y.frequencies * UNIT, strength=strength, discount=discount, size=size, rng=rng)
        return records_of(blocks, self.y, self.mechanism.domain, rng=rng)
