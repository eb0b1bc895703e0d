"""Signed measure: noisy counts of cells, and the nearest distribution to them in the metric of the domain.

Theory, proofs and the paper's own noise: docs/theory/signed-measure.md (theorem T15).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet._checks import positive_size
from discreet.domain import Counts, Domain, Records
from discreet.errors import MissingExtra, ParameterError
from discreet.evolution._metric import ground_diameter, ground_embedding
from discreet.mechanisms._base import NEIGHBOURS, CellCounts, Floats, Remedy, refuse_unknown
from discreet.mechanisms._bounded_lipschitz import bounded_lipschitz_projection
from discreet.mechanisms._discrete_noise import NoiseKind
from discreet.mechanisms._draws import BLOCK, Sampling
from discreet.mechanisms._noisy_counts import NoisyCounts, solve_scale
from discreet.mechanisms._projections import w1_projection
from discreet.mechanisms._public_points import PublicPoints
from discreet.mechanisms._sparse_transport import transport_available
from discreet.privacy import Budget, Guarantee, Relation

if TYPE_CHECKING:
    from discreet.evolution._neighbours import NearestCandidates

__all__ = ["SignedMeasure"]

_MOST_ON_A_LINE = 1 << 20
_MOST_WORK = 1 << 31  # cells squared times coordinates: some seconds of projection
_PREDICTED_WORK = 1 << 27  # in the draws of a prediction together
_MOST_WANTED = 10_000


@dataclass(frozen=True, kw_only=True)
class SignedMeasure(NoisyCounts):
    r"""Add independent discrete noise to the count of every cell, and draw records from the nearest distribution.

    The noisy counts, shifted onto the public total, are a signed measure

    .. math:: \tilde\mu = \sum_c \tilde p_c \delta_{x_c},\qquad
        \tilde p_c = \frac1n \Bigl(D_c + \frac{n - \sum_b D_b}{k}\Bigr),

    on one representative point a cell, and records are drawn from a distribution :math:`\hat\mu` on these points that
    minimises the bounded-Lipschitz distance to it, in the ground metric of the domain: what noise put too much in one
    place fills what it took nearby.

    Parameters
    ----------
    domain : Domain
        Public. Its ground metric is the one that counts: see :class:`~discreet.domain.Domain`.
    records : int
        The public number of records ``n``: the total of the counts.
    scale : float
        Of the noise, in records: ``P(z)`` is proportional to ``e^(-|z|/scale)`` (laplace) or
        ``e^(-z^2/(2 scale^2))`` (gaussian).
    noise : {"laplace", "gaussian"}
        Which.
    points : polars.DataFrame, Records or rows of codes, optional
        **Public** records, which stand for the cells around them: a record counts for the nearest point, the first of
        several, and released records are points. The domain may then be continuous. Equal points count once. By
        default the cells are the domain's own, which has to be finite, and a released record is drawn within its cell.
    sampling : {"iid", "stratified"}
        Independent records, or systematic ones along the cells' (the points') order. Post-processing: it costs no
        privacy.

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
    theorem: ClassVar[str] = "T15"

    domain: Domain
    records: int
    scale: float
    noise: NoiseKind = "gaussian"
    points: Any = None
    sampling: Sampling = "iid"

    def __post_init__(self) -> None:
        if ground_diameter(self.domain) == 0.0:
            raise ParameterError(f"{self.name} needs a metric: give a column of the domain a weight above 0")
        if self.points is not None:
            object.__setattr__(self, "points", PublicPoints.of(self.points, self.domain))
        self._check()
        most = _MOST_ON_A_LINE if self._coordinates == 1 else math.isqrt(_MOST_WORK // self._coordinates)
        if self._cells > most:
            raise ParameterError(
                f"{self.name} projects at most {most:,} cells in {self._coordinates} coordinates (one an ordered "
                f"column, one a category of the others), not {self._cells:,}: declare fewer cells, give fewer points, "
                "or use hierarchical-histogram"
            )

    @property
    def _cells(self) -> int:
        return super()._cells if self.points is None else int(self.points.count)

    @property
    def most_draws(self) -> int:  # type: ignore[override]  # of an instance: each draw is projected
        """How many draws of :meth:`predictive` a prediction takes at most: fewer where projecting takes long."""
        work = 1 if self._coordinates == 1 else self._coordinates * self._cells**2
        return max(2, min(32, _PREDICTED_WORK // work))

    @property
    def _coordinates(self) -> int:
        nothing = Records(columns=tuple(np.zeros(0, dtype=np.int64) for _ in self.domain.columns))
        return int(self._embedded(nothing).shape[1])

    @property
    def on_a_line(self) -> bool:
        """Whether the cells are those of one ordered column, in its order: then projecting takes no time."""
        return self.points is None and len(self.domain.columns) == 1 and self._coordinates == 1

    def positions(self) -> Floats:
        """Return where the cells of the one ordered column lie, in its share of the ground distance."""
        return self._embedded(self._records_in(np.arange(self._cells)))[:, 0]

    def _embedded(self, records: Records) -> Floats:
        return ground_embedding(self.domain, records)

    def _cell_of(self, records: Records) -> CellCounts:
        if self.points is None:
            return self.domain.flat(records)
        search = _search(self._embedded(self.points.records(self.domain)))
        blocks = (slice(start, start + BLOCK) for start in range(0, len(records), BLOCK))
        found = [search.nearest(self._embedded(records.take(block))) for block in blocks]
        return np.concatenate([*found, np.empty(0, dtype=np.int64)])

    def _records_in(self, cells: CellCounts) -> Records:
        if self.points is None:
            return self.domain.unflat(cells)
        records: Records = self.points.records(self.domain).take(cells)
        return records

    def _shares_on(self, support: Records, probabilities: Floats) -> Floats:
        if self.points is None:
            return super()._shares_on(support, probabilities)
        at = _search(self._embedded(support)).nearest(self._embedded(self.points.records(self.domain)))
        return np.asarray(np.bincount(at, weights=probabilities, minlength=len(support)), dtype=np.float64)

    def _require_solver(self) -> None:
        """Refuse to start what could not be finished.

        Raises
        ------
        MissingExtra
            When the projection would need POT, which is not installed.
        """
        if self._coordinates > 1 and not transport_available():
            raise MissingExtra(f"{self.name} needs POT beyond one ordered column", "transport")

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy counts of all cells, an int64 array of shape ``(cells,)``; what follows can be computed."""
        self._require_solver()
        return super().kernel(x, rng=rng)

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the cells' probabilities that records are drawn with: public post-processing of noisy counts.

        On one ordered column, rows of noisy counts give rows.
        """
        if self.on_a_line:
            return w1_projection(y, self.records, self.positions())
        masses = (y + (self.records - int(y.sum())) / self._cells) / self.records
        points = self._embedded(self._records_in(np.arange(self._cells)))
        diameter = ground_diameter(self.domain)
        return bounded_lipschitz_projection(masses, points, diameter=diameter, norm=1.0).probabilities

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T15 for a table of ``n`` records."""
        promised = super().guarantee(relation, n=n)
        if self.points is None:
            return promised
        within = f"released records are copies of {self.points.count:,} public points: where around them is not said"
        return replace(
            promised,
            assumptions=("the points and the noise were chosen without looking at the data",),
            caveats=(*promised.caveats, within),
        )

    def public_inputs(self) -> dict[str, Records]:
        """Return the points as they were given."""
        return {} if self.points is None or self.points.rows is None else {"points": self.points.given(self.domain)}

    def remedies(self, n: int) -> tuple[Remedy, ...]:
        """Return what would lower the share that noise puts elsewhere: fewer points instead of cells, if given."""
        if self.points is None:
            return super().remedies(n)
        return (*(("points",) if self.points.count > 2 else ()), "epsilon", "delta")

    def parameters(self) -> dict[str, Any]:
        """Return ``scale``, ``noise`` and ``sampling``, and ``points`` where there are any: rows, or count and hash."""
        points = {} if self.points is None else {"points": self.points.to_json()}
        return {"scale": self.scale, "noise": self.noise, "sampling": self.sampling, **points}

    @classmethod
    def cells_wanted(cls, *, n: int, epsilon: float, columns: int) -> int:
        """Return ``m^(1/columns)``, and ``m^(2/3)`` for one column, with ``m = n epsilon / 16``; between 10 and 1,000.

        The order at which noise and cells displace records alike. PE25 takes ``n epsilon / (D sqrt(log(1/delta)))``
        cells: its diameter ``D`` would make the number depend on the unit of measurement.
        """
        columns, most = positive_size("columns", columns), n * max(epsilon, 1e-6) / 16.0
        wanted = most ** (2.0 / 3.0) if columns == 1 else min(float(_MOST_WANTED), most) ** (1.0 / columns)
        return int(min(1000.0, max(10.0, wanted)))

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> SignedMeasure:
        """Solve for the least scale; without ``noise``, take the kind with the smaller mean absolute noise."""
        points, sampling = fixed.pop("points", None), fixed.pop("sampling", "iid")
        scale, noise = fixed.pop("scale", None), fixed.pop("noise", None)
        refuse_unknown(cls.name, fixed, "scale, noise, points, sampling")
        around = None if points is None else PublicPoints.of(points, domain)

        def make(kind: NoiseKind, value: float) -> SignedMeasure:
            return cls(domain=domain, records=n, scale=value, noise=kind, points=around, sampling=sampling)

        kinds: tuple[NoiseKind, ...] = ("laplace", "gaussian") if noise is None else (noise,)
        solved = solve_scale(make, budget, n=n, group=group, noises=kinds, scale=scale)
        solved._require_solver()
        return solved


def _search(candidates: Floats) -> NearestCandidates:
    """Return the exact search for the nearest of some points; it loads SciPy."""
    from discreet.evolution._neighbours import NearestCandidates

    return NearestCandidates(candidates, norm=1.0)
