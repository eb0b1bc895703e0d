"""Tables with columns of every kind: moves of numbers and redraws of categories, at several scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.checks import integer, probability
from discreet.domain import Records
from discreet.domain._column import Column
from discreet.domain._metric import (
    is_ordered,
    nearest_codes,
)
from discreet.evolution._api import GroundAPI, in_blocks


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
        alone = np.tile(np.arange(self.each) % 2 == 1, self.levels)
        chosen = rng.integers(len(columns), size=shape)
        varied = []
        for place, (column, codes) in enumerate(zip(columns, records.columns, strict=True)):
            stays = alone & (chosen != place)
            varied.append(np.where(stays, codes[:, None], self._near(column, codes, scales, rng)))
        return in_blocks(records, varied)

    def parameters(self) -> dict[str, Any]:
        """Return levels, each and null_share."""
        return {"levels": self.levels, "each": self.each, "null_share": self.null_share}

    def _near(
        self, column: Column, codes: npt.NDArray[Any], scales: Floats, rng: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Return one variation of each code at each scale, of shape (len(codes), len(scales))."""
        shape = (len(codes), len(scales))
        near: npt.NDArray[Any] = np.broadcast_to(codes[:, None], shape)
        if is_ordered(column):
            positions = column.positions(codes)
            missing = np.isnan(positions)
            moved = np.where(missing, 0.0, positions)[:, None] + rng.standard_normal(shape) * (scales * column.scale)
            near = np.where(missing[:, None], near, nearest_codes(column, moved))
            if not column.nullable:
                return near
        return np.where(rng.random(shape) < scales, self._drawn(column, shape, rng), near)

    def _drawn(self, column: Column, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[Any]:
        """Draw codes from a column's base measure, some of them null where an ordered column has nulls."""
        codes = column.draw(int(np.prod(shape)), rng).reshape(shape)
        if is_ordered(column) and column.nullable:
            return np.where(rng.random(shape) < self.null_share, column.null_code, codes)
        return codes
