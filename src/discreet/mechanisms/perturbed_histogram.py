"""Perturbed histogram: noisy counts of the cells of a public finite domain, then records drawn from them.

Theory, proofs and the papers' own bound: docs/theory/perturbed-histogram.md (theorem T6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from discreet.domain import Domain
from discreet.errors import DomainError, ParameterError
from discreet.mechanisms._base import CellCounts, refuse_unknown
from discreet.mechanisms._discrete_noise import NoiseKind
from discreet.mechanisms._draws import Sampling
from discreet.mechanisms._noisy_counts import NoisyCounts, solve_scale
from discreet.mechanisms._projections import clip_and_normalise, simplex_projection, w1_projection
from discreet.privacy import Budget

__all__ = ["PerturbedHistogram"]


@dataclass(frozen=True, kw_only=True)
class PerturbedHistogram(NoisyCounts):
    r"""Add independent discrete noise to the count of every cell, and draw any number of records from the result.

    Parameters
    ----------
    domain : Domain
        Public and finite, at most 2^25 cells: every cell gets noise, held or not.
    records : int
        The public number of records ``n``, used to normalise.
    scale : float
        Of the noise, in records: ``P(z)`` is proportional to ``e^(-|z|/scale)`` (laplace) or
        ``e^(-z^2/(2 scale^2))`` (gaussian).
    noise : {"laplace", "gaussian"}
        Which.
    projection : {"clip", "simplex", "w1"}
        How noisy counts become probabilities, in public: clip at zero and normalise (the papers' way), Euclidean
        projection onto the simplex, or Wasserstein-1 projection on the line (one ordered column without nulls).
        ``calibrated`` takes ``w1`` where it applies and ``simplex`` elsewhere.
    sampling : {"iid", "stratified"}
        Independent records, or systematic ones along the cells' order, which keep every run of neighbouring cells at
        its share to within one record. Post-processing: it costs no privacy.

    Raises
    ------
    ParameterError
        When the domain is not finite or too large, or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T6, exact for groups too): the pair in which one cell gains ``g`` records and another loses them,
    with the discrete noise's own law. Records are post-processing: their number costs nothing. Releases draw noise with
    OpenDP's exact samplers, so floating point costs nothing.

    References
    ----------
    PY26, Appendix A.2 (2); Wasserman and Zhou (2010); Canonne, Kamath and Steinke (2020).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=24)})
    >>> mechanism = PerturbedHistogram(domain=cells, records=2000, scale=2.0, noise="laplace")
    >>> round(mechanism.guarantee(n=2000).epsilon(0.0), 6)
    1.0
    """

    name: ClassVar[str] = "perturbed-histogram"
    domain: Domain
    records: int
    scale: float
    noise: NoiseKind = "laplace"
    projection: Literal["clip", "simplex", "w1"] = "clip"
    sampling: Sampling = "iid"

    def __post_init__(self) -> None:
        self._check()
        if self.projection not in ("clip", "simplex", "w1"):
            raise ParameterError(f"projection is 'clip', 'simplex' or 'w1', not {self.projection!r}")
        if self.projection == "w1" and not _on_a_line(self.domain):
            raise ParameterError("projection 'w1' needs a single ordered column without a null cell")

    def positions(self) -> npt.NDArray[np.float64]:
        """Return where the cells of the one ordered column lie: what the ``w1`` projection goes by."""
        (column,) = self.domain.columns.values()
        return column.positions(np.arange(self._cells))

    def probabilities(self, y: CellCounts) -> npt.NDArray[np.float64]:
        """Return the cells' probabilities that records are drawn with: public post-processing of noisy counts."""
        if self.projection == "simplex":
            return simplex_projection(y, self.records)
        if self.projection == "w1":
            return w1_projection(y, self.records, self.positions())
        if y.max() <= 0:  # nothing is left: the base measure
            return np.exp(self.domain.log_base(self.domain.unflat(np.arange(self._cells))))
        return clip_and_normalise(y)

    def parameters(self) -> dict[str, Any]:
        """Return ``scale``, ``noise``, ``projection`` and ``sampling``."""
        return {"scale": self.scale, "noise": self.noise, "projection": self.projection, "sampling": self.sampling}

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> PerturbedHistogram:
        """Solve for the least scale; without ``noise``, take the kind with the smaller mean absolute noise."""
        projection = fixed.pop("projection", "w1" if _on_a_line(domain) else "simplex")
        sampling = fixed.pop("sampling", "iid")
        scale, noise = fixed.pop("scale", None), fixed.pop("noise", None)
        refuse_unknown(cls.name, fixed, "scale, noise, projection, sampling")

        def make(kind: NoiseKind, value: float) -> PerturbedHistogram:
            return cls(domain=domain, records=n, scale=value, noise=kind, projection=projection, sampling=sampling)

        kinds: tuple[NoiseKind, ...] = ("laplace", "gaussian") if noise is None else (noise,)
        return solve_scale(make, budget, n=n, group=group, noises=kinds, scale=scale)


def _on_a_line(domain: Domain) -> bool:
    """Return whether the cells have coordinates on the line: one ordered column without a null cell."""
    (column, *others) = domain.columns.values()
    try:
        return not others and not column.nullable and column.finite and len(column.positions(np.zeros(1, np.int64))) > 0
    except DomainError:
        return False
