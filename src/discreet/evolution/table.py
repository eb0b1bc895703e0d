"""Tables without a model: boxes and balls of numbers, columns of every kind at several scales, and public tables."""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, flag, integer, probability, real
from discreet._core.lazy import spatial
from discreet._core.numeric import Floats
from discreet.domain import Column, Domain, Records, first_and_last, ground_embedding, nearest_codes
from discreet.evolution.api import API, GroundAPI, NamedAPI, in_blocks, plain_norm, settled_norm, to_records

_SCALES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _GaussianVariations(API):
    """Noise at dyadic scales around each point, projected back: equation (1) of PE25, as in :class:`Box`."""

    quick: ClassVar[bool] = True
    domain: Domain
    norm: float = 2.0
    alpha: float = None  # type: ignore[assignment]  # None stands for the diameter / 256

    def _settle(self, **facts: Any) -> None:
        """Set what was checked, and the finest scale, which depends on it."""
        for name, value in facts.items():
            object.__setattr__(self, name, value)
        if not (diameter := self.diameter) > 0:
            raise ParameterError("the box is a point, so nothing can vary. Declare an upper bound above the lower one")
        alpha = diameter / 256 if self.alpha is None else self.alpha
        object.__setattr__(self, "alpha", real("alpha", alpha, least=diameter / 2**_SCALES, most=diameter))

    @property
    def scales(self) -> Floats:
        r"""Standard deviations :math:`\sigma_l` of the noise, the finest first, in the unit of the embedding."""
        d = len(self.domain.columns)
        levels = math.ceil(math.log2(self.diameter / self.alpha))
        divisor = math.sqrt(math.pi) * ((math.sqrt(d) + math.log(2)) ** 2 + math.log(2))
        return np.asarray(self.alpha * 2.0 ** np.arange(levels) / divisor, dtype=np.float64)

    def variations_each(self) -> int:
        r"""Return :math:`2 \lceil \log_2(D/\alpha) \rceil + 1`."""
        return 2 * len(self.scales) + 1

    def variation(self, records: Records, *, rng: Generator, step: int = 0, steps: int = 1) -> Records:
        """Add noise at every scale, twice; the same in every step."""
        points = self.embed(records)
        stds = np.repeat(self.scales, 2)
        noise = rng.standard_normal((len(points), len(stds), points.shape[1])) * stds[:, None]
        return in_blocks(records, self._codes(self._project(points[:, None, :] + noise)))

    @abstractmethod
    def _project(self, points: Floats) -> Floats:
        """Move points, of shape (..., d), to the nearest points of the space, in the Euclidean distance."""

    def _lines(self) -> list[tuple[float, float]]:
        """Return the position of each column that is 0 in the space, and its unit."""
        return [(0.0, 1.0)] * len(self.domain.columns)

    def embed(self, records: Records) -> Floats:
        parts = zip(self.domain.columns.values(), records.columns, self._lines(), strict=True)
        return np.stack([(column.positions(codes) - low) / unit for column, codes, (low, unit) in parts], axis=1)

    def _codes(self, points: Floats) -> list[Any]:
        """Return the codes of points, one array of shape (...) per column."""
        parts = zip(self.domain.columns.values(), self._lines(), np.moveaxis(points, -1, 0), strict=True)
        return [nearest_codes(column, low + unit * position) for column, (low, unit), position in parts]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Box(_GaussianVariations):
    r"""Every ordered column is a coordinate; records are points of a box.

    The variations of a record are equation (1) of PE25: noise at the scales
    :math:`\sigma_l = \alpha 2^{l-1} / (\sqrt\pi ((\sqrt d + \log 2)^2 + \log 2))`, twice each, clipped to the box, and
    moved to the nearest cell where a column has cells. In the Euclidean norm on continuous columns each step brings the
    nearest of them closer by the factor :math:`1 - \gamma` in expectation, see :func:`theorem_gamma`; in the other
    norms no theorem says by how much, but :func:`measured_property` does.

    ``random`` draws from the domain's base measure, which is uniform unless columns declare another.

    Parameters
    ----------
    domain : Domain
        Public. Columns with an order and without nulls.
    norm : {1, 2, inf}
        Norm of the difference of two points.
    scaled : bool
        Whether every coordinate is divided by the length of its declared range, so that the box is ``[0, 1]^d``; else
        coordinates are in the columns' own units (days for dates, seconds for times). The domain's metric weights are
        not used.
    alpha : float, optional
        Finest scale, in the unit of the embedding; by default the diameter / 256.

    Raises
    ------
    ParameterError
        When a column has no order or has nulls, or a parameter is out of range.

    References
    ----------
    PE25 equation (1), section 3.

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> from discreet.domain import Domain, Numeric
    >>> unit = Numeric(lower=0, upper=10)
    >>> box = Box(domain=Domain(columns={"x": unit, "y": unit}), alpha=0.1)
    >>> round(box.diameter, 3), box.variations_each()
    (1.414, 9)
    >>> near = box.variation(box.random(3, rng=seeded(0)), rng=seeded(1))
    >>> box.embed(near).shape
    (27, 2)
    """

    name: ClassVar[str] = "box"
    scaled: bool = True

    def __post_init__(self) -> None:
        for name, column in self.domain.columns.items():
            if not column.on_a_line:
                raise ParameterError(f"column {name!r}: a box needs an order. Use the API Table, or order categories")
            if column.nullable:
                raise ParameterError(f"column {name!r}: a null has no place in a box. Use the API Table")
        self._settle(scaled=flag("scaled", self.scaled), norm=settled_norm(self.norm))

    @property
    def sides(self) -> Floats:
        """Lengths of the sides, in the unit of the embedding."""
        ends = zip(map(first_and_last, self.domain.columns.values()), self._lines(), strict=True)
        return np.array([(high - low) / unit for (low, high), (_, unit) in ends])

    @property
    def diameter(self) -> float:
        """Norm of the sides."""
        return float(np.linalg.norm(self.sides, ord=self.norm))

    def random(self, count: int, *, rng: Generator) -> Records:
        """Draw from the base measure: uniformly, unless columns declare another."""
        return self.domain.draw_base(count, rng)

    def parameters(self) -> dict[str, Any]:
        """Return norm, alpha and scaled."""
        return {"norm": plain_norm(self.norm), "alpha": self.alpha, "scaled": self.scaled}

    def _lines(self) -> list[tuple[float, float]]:
        columns = self.domain.columns.values()
        return [(first_and_last(column)[0], (column.scale or 1.0) if self.scaled else 1.0) for column in columns]

    def _project(self, points: Floats) -> Floats:
        return np.clip(points, 0.0, self.sides)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Ball(_GaussianVariations):
    r"""Points of a ball, in the columns' own units.

    The variations are those of :class:`Box`, projected to the nearest point of the ball. ``random`` is uniform on the
    ball. Confidential points outside the ball vote for the candidate nearest to them like any other; the diameter is
    that of the ball.

    Parameters
    ----------
    domain : Domain
        Public. Continuous :class:`~discreet.domain.Numeric` columns without nulls.
    norm : {1, 2, inf}
        Norm of the ball and of distances.
    radius : float, optional
        By default the largest that the declared bounds allow.
    centre : sequence of float, optional
        One number per column; the middle of the bounds by default.
    alpha : float, optional
        Finest scale, in the columns' unit; by default the diameter / 256.

    Raises
    ------
    ParameterError
        When a column is not continuous, the ball is not within the declared bounds, or a parameter is out of range.

    References
    ----------
    PE25 equation (1) and section 6 (the unit disc). The uniform draw is that of Barthe, Guédon, Mendelson and Naor
    (2005).

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> from discreet.domain import Domain, Numeric
    >>> side = Numeric(lower=-1, upper=1)
    >>> disc = Ball(domain=Domain(columns={"x": side, "y": side}))
    >>> disc.diameter, disc.variations_each()
    (2.0, 17)
    >>> points = disc.embed(disc.random(100, rng=seeded(0)))
    >>> bool(np.all(np.linalg.norm(points, axis=1) <= 1))
    True
    """

    name: ClassVar[str] = "ball"
    radius: float = None  # type: ignore[assignment]  # None stands for the largest
    centre: Sequence[float] = None  # type: ignore[assignment]  # None stands for the middle

    def __post_init__(self) -> None:
        for name, column in self.domain.columns.items():
            if column.finite or column.open or column.nullable:
                raise ParameterError(f"column {name!r}: a ball needs continuous columns without nulls. Use the API Box")
        low, high = np.array([first_and_last(column) for column in self.domain.columns.values()]).T
        centre = (low + high) / 2 if self.centre is None else np.asarray(self.centre, dtype=np.float64)
        if centre.shape != low.shape or not np.isfinite(centre).all():
            raise ParameterError("centre must have one finite number per column")
        room = float(min((centre - low).min(), (high - centre).min()))
        radius = room if self.radius is None else real("radius", self.radius, above=0)
        if not 0 < radius <= room * (1 + 1e-12):
            raise ParameterError(f"the ball is not within the declared bounds. Its radius must be at most {room:g}")
        self._settle(norm=settled_norm(self.norm), radius=radius, centre=tuple(centre.tolist()))

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2 * self.radius

    def random(self, count: int, *, rng: Generator) -> Records:
        """Draw uniformly on the ball."""
        shape = (count, len(self.domain.columns))
        if self.norm == 1:
            signs = rng.laplace(size=shape)
            lengths = np.abs(signs).sum(axis=1) + rng.exponential(size=count)
        elif self.norm == 2:
            signs = rng.standard_normal(shape) / math.sqrt(2)
            lengths = np.sqrt((signs**2).sum(axis=1) + rng.exponential(size=count))
        else:
            signs, lengths = rng.uniform(-1.0, 1.0, shape), np.ones(count)
        points = np.asarray(self.centre) + self.radius * signs / lengths[:, None]
        return Records(columns=tuple(self._codes(self._project(points))))

    def parameters(self) -> dict[str, Any]:
        """Return norm, alpha, radius and centre."""
        return {"norm": plain_norm(self.norm), "alpha": self.alpha, "radius": self.radius, "centre": list(self.centre)}

    def _project(self, points: Floats) -> Floats:
        centre = np.asarray(self.centre)
        offsets = points - centre
        if self.norm == 2:
            lengths = np.linalg.norm(offsets, axis=-1, keepdims=True)
            shorter = offsets * (self.radius / np.maximum(lengths, self.radius))
            offsets = np.where(lengths > self.radius, shorter, offsets)
        elif self.norm == 1:  # Duchi, Shalev-Shwartz, Singer and Chandra (2008)
            ordered = -np.sort(-np.abs(offsets), axis=-1)
            excess = (np.cumsum(ordered, axis=-1) - self.radius) / np.arange(1, offsets.shape[-1] + 1)
            last = np.count_nonzero(ordered > excess, axis=-1)[..., None] - 1
            shift = np.maximum(np.take_along_axis(excess, np.maximum(last, 0), axis=-1), 0.0)
            offsets = np.sign(offsets) * np.maximum(np.abs(offsets) - shift, 0.0)
        else:
            offsets = np.clip(offsets, -self.radius, self.radius)
        return np.asarray(centre + offsets)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Table(GroundAPI):
    r"""Records of a domain with columns of every kind but open labels; the distance is the domain's ground distance.

    A record has ``each`` variations at each of the scales :math:`s_l = 2^{-l}`, ``l = 1 .. levels``. An ordered column
    moves by :math:`\mathcal{N}(0, s_l^2)` times the length of its range, to the nearest cell, and stays within its
    bounds. A column without an order is drawn anew from its base measure with probability :math:`s_l`, and so is an
    ordered one that has nulls: of the values drawn for it, the share ``null_share`` is null. In every second variation
    of a scale a single column, chosen at random, changes, and in the others all do.

    ``random`` draws each column from its base measure, with the same share of nulls. Both are far from most tables:
    where a public table of the same kind is at hand, :class:`Resampling` starts nearer.

    Parameters
    ----------
    domain : Domain
        Public; without open labels.
    levels : int
        Number of scales, 1 to 32.
    each : int
        Variations a scale, 1 to 64.
    null_share : float
        Share of nulls among values drawn for an ordered column with nulls, in [0, 1].

    Raises
    ------
    ParameterError
        When a column has open labels, or a parameter is out of range.

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> from discreet.domain import Boolean, Domain, Integer
    >>> table = Table(domain=Domain(columns={"age": Integer(lower=0, upper=99), "smokes": Boolean()}), levels=3)
    >>> table.diameter, table.variations_each()
    (2.0, 7)
    >>> len(table.variation(table.random(5, rng=seeded(0)), rng=seeded(1)))
    35
    """

    name: ClassVar[str] = "table"
    quick: ClassVar[bool] = True
    levels: int = 6
    each: int = 2
    null_share: float = 0.1

    def __post_init__(self) -> None:
        GroundAPI.__post_init__(self)
        object.__setattr__(self, "levels", integer("levels", self.levels, least=1, most=32))
        object.__setattr__(self, "each", integer("each", self.each, least=1, most=64))
        object.__setattr__(self, "null_share", probability("null_share", self.null_share))

    def variations_each(self) -> int:
        """Return ``1 + levels * each``."""
        return 1 + self.levels * self.each

    def random(self, count: int, *, rng: Generator) -> Records:
        """Draw each column from its base measure."""
        return Records(columns=tuple(self._drawn(column, (count,), rng) for column in self.domain.columns.values()))

    def variation(self, records: Records, *, rng: Generator, step: int = 0, steps: int = 1) -> Records:
        """Move and redraw at every scale; the same in every step."""
        columns = tuple(self.domain.columns.values())
        shape = (len(records), self.levels * self.each)
        scales = np.repeat(0.5 ** np.arange(1, self.levels + 1), self.each)
        changes_one = np.tile(np.arange(self.each) % 2 == 1, self.levels)
        changed = rng.integers(len(columns), size=shape)
        variations = []
        for place, (column, codes) in enumerate(zip(columns, records.columns, strict=True)):
            stays = changes_one & (changed != place)
            variations.append(np.where(stays, codes[:, None], self._near(column, codes, scales, rng)))
        return in_blocks(records, variations)

    def parameters(self) -> dict[str, Any]:
        """Return levels, each and null_share."""
        return {"levels": self.levels, "each": self.each, "null_share": self.null_share}

    def _near(self, column: Column, codes: npt.NDArray[Any], scales: Floats, rng: Generator) -> npt.NDArray[Any]:
        """Return one variation of each code at each scale, of shape (len(codes), len(scales))."""
        shape = (len(codes), len(scales))
        varied: npt.NDArray[Any] = np.broadcast_to(codes[:, None], shape)
        if column.on_a_line:
            positions = column.positions(codes)
            missing = np.isnan(positions)
            moved = np.where(missing, 0.0, positions)[:, None] + rng.standard_normal(shape) * (scales * column.scale)
            varied = np.where(missing[:, None], varied, nearest_codes(column, moved))
            if not column.nullable:
                return varied
        return np.where(rng.random(shape) < scales, self._drawn(column, shape, rng), varied)

    def _drawn(self, column: Column, shape: tuple[int, ...], rng: Generator) -> npt.NDArray[Any]:
        """Draw codes from a column's base measure, some of them null where an ordered column has nulls."""
        codes = column.draw(int(np.prod(shape)), rng).reshape(shape)
        if column.on_a_line and column.nullable:
            return np.where(rng.random(shape) < self.null_share, column.null_code, codes)
        return codes


_PAIRS = 2**24


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampling(GroundAPI):
    r"""Records of a public table: every candidate is one of them, as it is.

    The distance is the domain's ground distance. ``random`` draws from the N public records with replacement. A record
    has one variation at each of the scales :math:`r = 4, 16, 64, \dots, N`: a public record drawn uniformly among the
    ``r`` nearest to it (the largest scale is a draw from all of them), so that the evolution may move by small and by
    large steps. Of equally near records it is undetermined which count.

    The release is then a table of public records, in numbers that follow the confidential table. That is as good as the
    public table is rich: a confidential record unlike any public one has no near candidate.

    Parameters
    ----------
    domain : Domain
        Public; without open labels.
    table : polars.DataFrame or Records
        **Public**, of the domain's columns, with 2 rows at least: an earlier release, a published sample, an open data
        set. Its records appear in the release verbatim.

    Raises
    ------
    ParameterError
        When the table does not fit the domain.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet._core.random import seeded
    >>> from discreet.domain import Domain, Integer
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=99)})
    >>> api = Resampling(domain=domain, table=pl.DataFrame({"age": [20, 21, 22, 60, 61, 62, 90]}))
    >>> api.variations_each()
    3
    >>> near = api.variation(api.random(1, rng=seeded(0)), rng=seeded(1))
    >>> set(domain.decode(near, rng=seeded(0))["age"]) <= {20, 21, 22, 60, 61, 62, 90}
    True
    """

    name: ClassVar[str] = "resampling"
    quick: ClassVar[bool] = True
    table: Any = field(repr=False)
    _points: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        GroundAPI.__post_init__(self)
        records = self.table
        if not isinstance(records, Records):
            records = to_records(records, self.domain, source="the public table")
        if len(records) < 2:
            raise ParameterError("the public table must have at least 2 rows")
        object.__setattr__(self, "table", records)
        object.__setattr__(self, "_points", ground_embedding(self.domain, records))

    @property
    def sizes(self) -> list[int]:
        """The neighbourhoods' sizes: powers of 4, and the whole table last."""
        total = len(self.table)
        return [*(4**level for level in range(1, math.ceil(math.log(total, 4) - 1e-9))), total]

    def variations_each(self) -> int:
        """Return one more than there are neighbourhoods."""
        return 1 + len(self.sizes)

    def random(self, count: int, *, rng: Generator) -> Records:
        """Draw from the public records with replacement."""
        table: Records = self.table
        return table.take(rng.integers(len(table), size=count))

    def variation(self, records: Records, *, rng: Generator, step: int = 0, steps: int = 1) -> Records:
        """Draw among the nearest public records, at every scale; the same in every step."""
        index = rng.integers(self.sizes, size=(len(records), len(self.sizes)))  # ranks, but for the last scale
        points = ground_embedding(self.domain, records)
        rows = max(1, _PAIRS // len(self.table))
        for start in range(0, len(points), rows) if len(self.sizes) > 1 else ():
            block = slice(start, start + rows)
            distances = spatial.distance.cdist(points[block], self._points, "cityblock")
            for ranks, of_record in zip(index[block, :-1], distances, strict=True):
                ranks[:] = np.argpartition(of_record, np.unique(ranks))[ranks]
        return in_blocks(records, [codes[index] for codes in self.table.columns])

    def sources(self) -> dict[str, Records]:
        """Return the public table."""
        return {"table": self.table}

    def parameters(self) -> dict[str, Any]:
        """Return how many public records there are, and a hash of their codes."""
        codes = b"".join([column.tobytes() for column in self.table.columns])
        return {"public_records": len(self.table), "sha256": hashlib.sha256(codes).hexdigest()}


def api_from(name: str, parameters: Mapping[str, Any], domain: Domain) -> API:
    """Rebuild an API from a certificate: a :class:`NamedAPI` where its parameters do not say everything about it."""
    rebuilt: dict[str, type[API]] = {api.name: api for api in (Box, Ball, Table)}
    if name in rebuilt:
        return rebuilt[name].from_parameters(parameters, domain)
    return NamedAPI(domain=domain, name=name, stated=json.dumps(dict(parameters), sort_keys=True))
