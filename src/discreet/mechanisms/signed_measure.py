"""Noisy counts, and the nearest distribution in the domain's metric: docs/theory/signed-measure.md (T15)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import MissingExtra, ParameterError
from discreet._core.lazy import pl
from discreet._core.numeric import Floats
from discreet._core.text import as_written, counted
from discreet.domain import Commonness, Counts, Domain, Records, ground_embedding
from discreet.mechanisms.base import NEIGHBOURS, CellCounts
from discreet.mechanisms.bounded_lipschitz import transport_available
from discreet.mechanisms.calibration import Search
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import Likelihood
from discreet.mechanisms.noisy_counts import NoisyCounts
from discreet.mechanisms.projections import BoundedLipschitz, NumberedCells
from discreet.mechanisms.reading import BLOCK
from discreet.privacy import Code, Guarantee, Relation

_PREDICTED_WORK = 1 << 27  # in the draws of a prediction together
_MOST_NUMBERS = 1000
_FORMS = (
    "points must be a Polars table, encoded records or rows of codes. A certificate may give their count and "
    "sha256 instead"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicPoints:
    """Distinct public records of a domain, which stand for the cells around them; a tie goes to the first."""

    count: int
    sha256: str  # of their codes' JSON
    rows: tuple[tuple[Any, ...], ...] | None  # None where only number and hash are known
    source: Records | None = field(default=None, repr=False, compare=False)  # as a caller gave them

    @classmethod
    def parse(cls, points: Any, domain: Domain) -> PublicPoints:
        """Take public points in any form; a mapping is what :meth:`to_json` gives for many. Raises ParameterError."""
        if isinstance(points, PublicPoints):
            return points
        if isinstance(points, Mapping):
            count, sha256 = points.get("count"), points.get("sha256")
            if set(points) != {"count", "sha256"} or isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ParameterError(_FORMS)
            if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
                raise ParameterError(_FORMS)
            return cls(count=count, sha256=sha256, rows=None)
        for name, column in domain.columns.items():
            if column.open:
                raise ParameterError(f"column {name!r}: points need a metric. Declare the labels as categories")
        records = _encoded(points, domain)
        _, first = np.unique(ground_embedding(domain, records), axis=0, return_index=True)
        codes = records.take(np.sort(first)).rows()
        rows = tuple(tuple(None if code != code else code for code in row) for row in codes)  # noqa: PLR0124 - NaN
        sha256 = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
        return cls(count=len(rows), sha256=sha256, rows=rows, source=records)

    def to_json(self) -> Any:
        """Return the rows where they hold at most 1,000 numbers, else their count and hash."""
        if self.rows is not None and self.count * len(self.rows[0]) <= _MOST_NUMBERS:
            return [list(row) for row in self.rows]
        return {"count": self.count, "sha256": self.sha256}

    def sources(self) -> dict[str, Records]:
        """Return the points as a caller gave them, where one did."""
        return {} if self.source is None else {"": self.source}

    def records(self, domain: Domain) -> Records:
        """Return the points as records. Raises ParameterError when only their number and hash are known."""
        if self.rows is None:
            raise ParameterError(
                f"{counted(self.count, 'public point')} must be given in full: the number and the hash alone are "
                "not enough"
            )
        columns = zip(domain.columns.values(), zip(*self.rows, strict=True), strict=True)
        kinds = ((codes, column.code_type) for column, codes in columns)
        return Records(columns=tuple(np.array(codes, dtype=kind) for codes, kind in kinds))


def _encoded(points: Any, domain: Domain) -> Records:
    """Return points as records of a domain. Raises ParameterError where they are none."""
    rows, width = points, len(domain.columns)
    if not isinstance(points, Sequence) or isinstance(points, str):
        if not isinstance(points, (Records, pl.DataFrame)):
            raise ParameterError(_FORMS)
        rows = (points if isinstance(points, Records) else domain.encode(points)).rows()
    if not len(rows) or any(not isinstance(row, Sequence) or len(row) != width for row in rows):
        raise ParameterError(f"points must be at least one row of {counted(width, 'code')}, one per column")
    columns = zip(domain.columns.items(), zip(*rows, strict=True), strict=True)
    return Records(columns=tuple(_checked_column(name, column, codes) for (name, column), codes in columns))


def _checked_column(name: str, column: Any, codes: tuple[Any, ...]) -> Any:
    """Return one column of codes. Raises ParameterError when one does not fit."""
    if column.finite:
        if all(isinstance(code, (int, np.integer)) and 0 <= code < column.size for code in codes):
            return np.array(codes, dtype=np.int64)
        raise ParameterError(f"points: the codes of column {name!r} must be integers from 0 to {column.size - 1}")
    if all(code is None or isinstance(code, Real) for code in codes):
        values: Floats = np.array(codes, dtype=np.float64)
        inside = (values >= column.lower) & (values <= column.upper)
        if (inside | (np.isnan(values) & column.nullable)).all():
            return values
    raise ParameterError(
        f"points: values of column {name!r} lie between {as_written(column.lower)} and {as_written(column.upper)}"
    )


@dataclass(frozen=True)
class CellsAround(NumberedCells):
    """The records nearest to each of some public points: a tie goes to the first."""

    centres: PublicPoints

    def cell_of(self, records: Records) -> CellCounts:
        """Return the nearest points."""
        from discreet.evolution import NearestCandidates

        search = NearestCandidates(self.points(), norm=1.0)
        blocks = [records.take(slice(start, start + BLOCK)) for start in range(0, len(records), BLOCK)]
        places = [search.nearest(ground_embedding(self.domain, block)) for block in blocks]
        return np.concatenate([*places, np.empty(0, dtype=np.int64)])

    def records_in(self, items: CellCounts) -> Records:
        """Return the points themselves."""
        return self.centres.records(self.domain).take(items)

    def line(self) -> Floats | None:
        """Return None: points have no order."""
        return None


@sealed
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
            object.__setattr__(self, "points", PublicPoints.parse(self.points, self.domain))
        if needed := BoundedLipschitz.unsuited(self.cells):
            raise ParameterError(f"{self.name} needs {needed}")
        super().__post_init__()

    @cached_property
    def cells(self) -> NumberedCells:
        """The domain's cells, or those around the points."""
        if self.points is None:
            return super().cells
        return CellsAround(self.domain, self.points.count, self.points)

    @cached_property
    def projector(self) -> BoundedLipschitz:
        """The projection in the ground metric."""
        return BoundedLipschitz(self.cells, self.records)

    def _require_solver(self) -> None:
        """Raise MissingExtra where the projection would need POT, which is not installed, before anything is drawn."""
        if self.cells.coordinates > 1 and not transport_available():
            raise MissingExtra(f"{self.name} needs POT beyond one ordered column", "transport")

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy counts of all cells, an int64 array of shape ``(cells,)``; what follows can be computed."""
        self._require_solver()
        return super().kernel(x, rng=rng)

    def likelihood(self) -> Likelihood:
        """Return the law of the noise, and how it is read: of the domain's cells, where no points are given."""
        return replace(super().likelihood(), own_cells=self.points is None)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T15 for a table of ``n`` records."""
        promised = super().guarantee(relation, n=n)
        if self.points is None:
            return promised
        chosen = Code("chosen-without-data", {"what": ["points", "noise"]})
        caveat = Code("place-around-points", {"points": self.points.count})
        return replace(promised, assumptions=(chosen,), caveats=(*promised.caveats, caveat))

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return the bound, and that fewer points would lower it, where they are given; each draw is projected."""
        noise = super().forecast(n)
        work = self.cells.coordinates * self.cells.count**2 if self.cells.coordinates > 1 else 1
        noise = replace(noise, draws=max(2, min(32, _PREDICTED_WORK // work)))
        if self.points is None:
            return noise
        remedies = helpful(self.domain, "points", "epsilon", "delta", points=self.points.count <= 2)
        return replace(noise, remedies=remedies)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale, once the points are read."""
        if (points := search.parameters.get("points")) is not None:
            search = search.with_parameters(points=PublicPoints.parse(points, search.domain))
        mechanism = super()._solution(search)
        mechanism._require_solver()
        return mechanism
