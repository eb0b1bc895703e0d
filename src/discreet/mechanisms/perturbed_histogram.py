"""Noisy counts of the cells, then records drawn from them: docs/theory/perturbed-histogram.md (T6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, choice
from discreet.mechanisms.base import numbered_cells
from discreet.mechanisms.calibration import Search, least_scale
from discreet.mechanisms.noisy_counts import NoisyCounts
from discreet.mechanisms.projections import PROJECTIONS, W1, NumberedCells, Projection, Simplex
from discreet.mechanisms.reading import READING_ONLY


@sealed
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
        Which. ``calibrated`` takes the one with the smaller mean absolute noise unless one is given.
    projection : {"clip", "simplex", "l1", "w1", "bounded-lipschitz"}
        How noisy counts become probabilities, in public: clip at zero and normalise (the papers' way), Euclidean or L1
        projection onto the simplex, Wasserstein-1 projection on the line (one ordered column without nulls), or
        projection in the ground metric. ``calibrated`` takes ``w1`` where it applies and ``simplex`` elsewhere.
    sampling : {"stratified", "iid"}
        Systematic records along the cells' order, which keep every run of neighbouring cells at its share to within one
        record, or independent ones. Post-processing: it costs no privacy.

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

    projection: str = field(default="clip", metadata=READING_ONLY)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("projection", self.projection, PROJECTIONS)
        if needed := PROJECTIONS[self.projection].unsuited(self.cells):
            raise ParameterError(f"projection {self.projection!r} needs {needed}")

    @cached_property
    def projector(self) -> Projection:
        """The projection."""
        return PROJECTIONS[self.projection](self.cells, self.records)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale, with the projection that suits the domain unless one is given."""
        if "projection" not in search.parameters:
            cells = NumberedCells(search.domain, numbered_cells(search.domain, cls.name))
            projections = [projection for projection in (W1, Simplex) if not projection.unsuited(cells)]
            search = search.with_parameters(projection=projections[0].name)
        return least_scale(search)
