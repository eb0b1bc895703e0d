"""Gaussian noise, then a mixture with the uniform: docs/theory/gaussian-smoothed-histogram.md (T6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from discreet._core.boundary import sealed
from discreet._core.errors import probability
from discreet._core.numeric import Floats
from discreet.domain import Commonness
from discreet.mechanisms.base import CellCounts
from discreet.mechanisms.forecast import Forecast, helpful
from discreet.mechanisms.noisy_counts import NoisyCounts
from discreet.mechanisms.reading import READING_ONLY


@sealed
@dataclass(frozen=True, kw_only=True)
class GaussianSmoothedHistogram(NoisyCounts):
    r"""Add discrete Gaussian noise to every count, and draw any number of records from ``(1 - mixing) p + mixing / k``.

    ``p`` is the L1 projection of the noisy counts onto the simplex that leaves the largest cells their shares.

    Parameters
    ----------
    domain, records, scale, sampling
        As for :class:`PerturbedHistogram` with Gaussian noise. The domain's base measure is not used.
    mixing : float
        Probability that a record is a uniform cell, in ``[0, 1]``; 0.01 by default. Post-processing: it buys no privacy
        here, and only keeps every cell possible. The paper does not state its value.

    Raises
    ------
    ParameterError
        When the domain is not finite or too large, or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T6, exact for groups too): that of discrete Gaussian noise on two cells. Smoothing and drawing
    are post-processing, so the number of records costs nothing; :class:`~discreet.mechanisms.SmoothedHistogram` without
    noise pays for every record.

    References
    ----------
    PY26, section 4.3; Wasserman and Zhou (2010); Canonne, Kamath and Steinke (2020).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> from discreet.privacy import Budget
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=299)})
    >>> budget = Budget(epsilon=2.0, delta=1e-5)
    >>> mechanism = GaussianSmoothedHistogram.calibrated(budget, domain=cells, n=11_918_162)
    >>> round(mechanism.scale, 3), round(mechanism.forecast(11_918_162).lost, 5)
    (2.817, 0.01003)
    """

    name: ClassVar[str] = "gaussian-smoothed-histogram"

    noise: str = field(default="gaussian", init=False)
    mixing: float = field(default=0.01, metadata=READING_ONLY)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "mixing", probability("mixing", self.mixing))

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the mixture of the projection with the uniform distribution."""
        return (1.0 - self.mixing) * self.projector.probabilities(y) + self.mixing / self.cells.count

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return ``mixing``, and of the rest a bound on the expected total variation that the noise causes."""
        noise = super().forecast(n)
        lost = self.mixing + (1.0 - self.mixing) * noise.lost
        remedies = helpful(self.domain, "mixing", *noise.remedies, mixing=self.mixing == 0.0)
        return replace(noise, lost=lost, lost_to="uniform or noise", remedies=remedies)
