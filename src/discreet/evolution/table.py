"""Tables with columns of every kind: moves of numbers and redraws of categories, at several scales."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import integer, probability
from discreet._core.errors import ParameterError
from discreet.domain import Column, Domain, Records, ground_embedding, nearest_codes
from discreet.evolution.api import API, GroundAPI, NamedAPI, in_blocks, to_records
from discreet.evolution.euclidean import Ball, Box


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

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Draw each column from its base measure."""
        columns = self.domain.columns.values()
        return Records(columns=tuple(self._drawn(column, (count,), rng) for column in columns))

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
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

    def _near(
        self, column: Column, codes: npt.NDArray[Any], scales: Floats, rng: np.random.Generator
    ) -> npt.NDArray[Any]:
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

    def _drawn(self, column: Column, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[Any]:
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

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Draw from the public records with replacement."""
        table: Records = self.table
        return table.take(rng.integers(len(table), size=count))

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        """Draw among the nearest public records, at every scale; the same in every step."""
        from scipy.spatial.distance import cdist

        index = rng.integers(self.sizes, size=(len(records), len(self.sizes)))  # ranks, but for the last scale
        points = ground_embedding(self.domain, records)
        rows = max(1, _PAIRS // len(self.table))
        for start in range(0, len(points), rows) if len(self.sizes) > 1 else ():
            block = slice(start, start + rows)
            distances = cdist(points[block], self._points, "cityblock")
            for ranks, of_record in zip(index[block, :-1], distances, strict=True):
                ranks[:] = np.argpartition(of_record, np.unique(ranks))[ranks]
        return in_blocks(records, [codes[index] for codes in self.table.columns])

    def sources(self) -> dict[str, Records]:
        """Return the public table."""
        return {"table": self.table}

    def parameters(self) -> dict[str, Any]:
        """Return how many public records there are, and a hash of their codes."""
        digest = hashlib.sha256()
        for codes in self.table.columns:
            digest.update(np.ascontiguousarray(codes).tobytes())
        return {"public_records": len(self.table), "sha256": digest.hexdigest()}


def api_from(name: str, parameters: Mapping[str, Any], domain: Domain) -> API:
    """Rebuild an API from a certificate: a :class:`NamedAPI` where its parameters do not say everything about it."""
    rebuilt: dict[str, type[API]] = {api.name: api for api in (Box, Ball, Table)}
    if name in rebuilt:
        return rebuilt[name].from_parameters(parameters, domain)
    return NamedAPI(domain=domain, name=name, stated=json.dumps(dict(parameters), sort_keys=True))
