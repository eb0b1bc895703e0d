"""Gaussian smoothed histogram: Gaussian noise on every count, then a mixture with the uniform distribution.

The composition that PY26 compares with in its census example. Theory: docs/theory/gaussian-smoothed-histogram.md
(theorem T6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from discreet._checks import real
from discreet.domain import Domain
from discreet.domain._commonness import Commonness
from discreet.errors import ParameterError
from discreet.mechanisms._base import CellCounts, Floats, Remedy, refuse_unknown
from discreet.mechanisms._discrete_noise import NoiseKind
from discreet.mechanisms._draws import Sampling
from discreet.mechanisms._noisy_counts import NoisyCounts, solve_scale
from discreet.mechanisms._projections import l1_projection
from discreet.privacy import Budget

__all__ = ["GaussianSmoothedHistogram"]

_MIXING = 0.01


@dataclass(frozen=True, kw_only=True)
class GaussianSmoothedHistogram(NoisyCounts):
    r"""Add discrete Gaussian noise to every count, and draw any number of records from ``(1 - mixing) p + mixing / k``.

    ``p`` is the L1 projection of the noisy counts onto the simplex that leaves the largest cells their shares.

    Parameters
    ----------
    domain : Domain
        Public and finite, ``k`` cells, at most 2^25: every cell gets noise, held or not. Its base measure is not used:
        the mixture is with the uniform distribution.
    records : int
        The public number of records ``n``.
    scale : float
        Of the noise, in records: ``P(z)`` is proportional to ``e^(-z^2/(2 scale^2))``.
    mixing : float
        Probability that a record is a uniform cell, in ``[0, 1]``; 0.01 by default. Post-processing: it buys no privacy
        here, and only keeps every cell possible. The paper does not state its value.
    sampling : {"iid", "stratified"}
        Independent records, or systematic ones along the cells' order. Post-processing: it costs no privacy.

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
    >>> round(mechanism.scale, 3), round(mechanism.share_not_from_data(11_918_162), 5)
    (2.817, 0.01003)
    """

    name: ClassVar[str] = "gaussian-smoothed-histogram"
    share_is_of: ClassVar[str] = "are uniform, or put into other cells than the table's by noise"
    helped_by: ClassVar[tuple[Remedy, ...]] = ("mixing", *NoisyCounts.helped_by)

    domain: Domain
    records: int
    scale: float
    noise: NoiseKind = field(default="gaussian", init=False)
    mixing: float = _MIXING
    sampling: Sampling = "iid"

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "mixing", real("mixing", self.mixing))
        if not 0.0 <= self.mixing <= 1.0:
            raise ParameterError(f"mixing is a probability, not {self.mixing!r}")

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the cells' probabilities that records are drawn with: public post-processing of noisy counts."""
        return (1.0 - self.mixing) * l1_projection(y, self.records) + self.mixing / self._cells

    def share_not_from_data(self, n: int, like: Commonness | None = None) -> float:
        """Return ``mixing``, and of the rest a bound on the expected total variation that the noise causes."""
        return self.mixing + (1.0 - self.mixing) * NoisyCounts.share_not_from_data(self, n)

    def remedies(self, n: int) -> tuple[Remedy, ...]:
        """Return what would lower that share; a smaller mixing where there is any."""
        return tuple(r for r in NoisyCounts.remedies(self, n) if r != "mixing" or self.mixing > 0.0)

    def parameters(self) -> dict[str, Any]:
        """Return ``scale``, ``mixing`` and ``sampling``."""
        return {"scale": self.scale, "mixing": self.mixing, "sampling": self.sampling}

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> GaussianSmoothedHistogram:
        """Solve for the least scale; the mixing is 0.01 unless given."""
        scale, mixing = fixed.pop("scale", None), fixed.pop("mixing", _MIXING)
        sampling = fixed.pop("sampling", "iid")
        refuse_unknown(cls.name, fixed, "scale, mixing, sampling")

        def make(_: NoiseKind, value: float) -> GaussianSmoothedHistogram:
            return cls(domain=domain, records=n, scale=value, mixing=mixing, sampling=sampling)

        return solve_scale(make, budget, n=n, group=group, noises=("gaussian",), scale=scale)
