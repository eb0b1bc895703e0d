"""Signed measure: noisy counts of cells, and the nearest distribution to them in the metric of the domain.

Theory, proofs and the paper's own noise: docs/theory/signed-measure.md (theorem T15).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet._core.errors import MissingExtra, ParameterError
from discreet.domain import Counts, Domain, Records
from discreet.domain.records import Commonness
from discreet.mechanisms.base import NEIGHBOURS, CellCounts
from discreet.mechanisms.cells import Cells, CellsAround, PublicPoints
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.noisy_counts import NoisyCounts
from discreet.mechanisms.projections import BoundedLipschitz
from discreet.mechanisms.sparse_transport import transport_available
from discreet.privacy import Budget, Code, Guarantee, Relation

_PREDICTED_WORK = 1 << 27  # in the draws of a prediction together


@dataclass(frozen=True, kw_only=True)
class SignedMeasure(NoisyCounts):
    r"""Add independent discrete noise to the count of every cell, and draw records from the nearest distribution.

    The noisy counts, shifted onto the public total, are a signed measure

    .. math:: \tilde\mu = \sum_c \tilde p_c \delta_{x_c},\qquad
        \tilde p_c = \frac1n \Bigl(D_c + \frac{n - \sum_b D_b}{k}\Bigr),

    on one representative point per cell, and records are drawn from a distribution :math:`\hat\mu` on these points that
    minimises the bounded-Lipschitz distance to it, in the ground metric of the domain: what noise put too much in one
    place fills what it took nearby.

    Parameters
    ----------
    domain : Domain
        Public. Its ground metric is the one that counts: see :class:`~discreet.domain.Domain`.
    records, scale, noise, sampling
        As for :class:`PerturbedHistogram`; systematic records go along the cells' (the points') order.
    points : polars.DataFrame, Records or rows of codes, optional
        **Public** records, which stand for the cells around them: a record counts for the nearest point, the first of
        several, and released records are points. The domain may then be continuous. Equal points count once. By
        default the cells are the domain's own, which has to be finite, and a released record is drawn within its cell.

    Raises
    ------
    ParameterError
        When there are neither finitely many cells nor points, or too many to project (2^20 on one ordered column,
        32,768 on two, fewer where columns have many categories), or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T15, exact for groups too): the pair of T6, in which one cell gains ``g`` records and another
    loses them. The expected distance of :math:`\hat\mu` from the cells' true shares is at most twice that of the noise.
    On one ordered column it is the ``w1`` projection of the perturbed histogram. In more dimensions the projection
    needs POT (extra ``transport``), which is looked for before anything is drawn.

    References
    ----------
    PE25, Algorithm 5 and Theorem I.1, whose noise is not private as stated: see
    :func:`~discreet.papers.pe25.signed_measure_algorithm_5`. Boedihardjo, Strohmer and Vershynin (2022); He, Vershynin
    and Zhu (2023), Algorithm 2.

    Examples
    --------
    >>> from discreet.domain import Domain, Numeric
    >>> square = Domain(columns={"x": Numeric(lower=0, upper=1), "y": Numeric(lower=0, upper=1)})
    >>> corners = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    >>> mechanism = SignedMeasure(domain=square, records=2000, scale=2.0, noise="laplace", points=corners)
    >>> round(mechanism.guarantee(n=2000).epsilon(0.0), 6)
    1.0
    """

    name: ClassVar[str] = "signed-measure"
    traits: ClassVar[Traits] = replace(NoisyCounts.traits, theorem="T15")

    noise: str = "gaussian"
    points: Any = None

    def __post_init__(self) -> None:
        if self.points is not None:
            object.__setattr__(self, "points", PublicPoints.of(self.points, self.domain))
        if needed := BoundedLipschitz.unsuited(self.cells):
            raise ParameterError(f"{self.name} needs {needed}")
        super().__post_init__()

    @cached_property
    def cells(self) -> Cells:
        """The domain's cells, or those around the points."""
        return super().cells if self.points is None else CellsAround(self.domain, self.points)

    @cached_property
    def projector(self) -> BoundedLipschitz:
        """The projection in the ground metric."""
        return BoundedLipschitz(self.cells, self.records)

    def _require_solver(self) -> None:
        """Refuse to start what could not be finished.

        Raises MissingExtra when the projection would need POT, which is not installed.
        """
        if self.cells.coordinates > 1 and not transport_available():
            raise MissingExtra(f"{self.name} needs POT beyond one ordered column", "transport")

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy counts of all cells, an int64 array of shape ``(cells,)``; what follows can be computed."""
        self._require_solver()
        return super().kernel(x, rng=rng)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T15 for a table of ``n`` records."""
        promised = super().guarantee(relation, n=n)
        if self.points is None:
            return promised
        return replace(
            promised,
            assumptions=(Code("chosen-without-data", {"what": ["points", "noise"]}),),
            caveats=(*promised.caveats, Code("place-around-points", {"points": self.points.count})),
        )

    def public_inputs(self) -> dict[str, Records]:
        """Return the points as they were given."""
        return {} if self.points is None or self.points.rows is None else {"points": self.points.given(self.domain)}

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return the bound, and that fewer points would lower it, where they are given; each draw is projected."""
        noise = super().forecast(n)
        work = 1 if self.cells.coordinates == 1 else self.cells.coordinates * self.cells.count**2
        noise = replace(noise, draws=max(2, min(32, _PREDICTED_WORK // work)))
        if self.points is None:
            return noise
        few = self.points.count <= 2
        return replace(noise, remedies=helpful(self.domain, "points", "epsilon", "delta", points=few))

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> Self:
        """Solve for the least scale; without ``noise``, take the law with the smaller mean absolute noise."""
        if fixed.get("points") is not None:
            fixed["points"] = PublicPoints.of(fixed["points"], domain)
        solved = super().calibrated(budget, domain=domain, n=n, size=size, group=group, **fixed)
        solved._require_solver()
        return solved
