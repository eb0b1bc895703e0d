"""Records in cells that a threshold withheld: a release tells about how many there are, and not in which cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, Integers
from discreet._core.text import percent
from discreet.domain import Records
from discreet.domain._column import Column
from discreet.inference._functional import ordered
from discreet.inference._line import Draws, Line, at_ends, extremes
from discreet.inference._noise import Noise
from discreet.mechanisms._evidence import ThresholdedCounts

_MISSED = 1e-3  # probability that some withheld cell holds more than is taken for possible
_PARTS = 64  # of equal mass, in order of their values, into which the records are cut


@dataclass(frozen=True)
class Withheld:
    """What bounds take as possible: each draw's mass of these cells lies in any of them, up to so much in each.

    ``cells``, shape (S,): whether a record of the support is in such a cell.
    ``most``: the mass that one cell has at most.
    """

    cells: npt.NDArray[np.bool_]
    most: float

    @classmethod
    def below(cls, evidence: ThresholdedCounts, seen: Floats, records: int, *, population: bool) -> Withheld:
        """Return the cells of which nothing was released.

        ``evidence``: the noise, and the threshold.
        ``seen``, shape (cells,): released counts (nan: not in the table), or numbers of released records.
        ``records``: confidential ones.
        ``population``: whether masses are the population's, of which the table is a sample.
        """
        from scipy.special import gammaincinv

        cells = np.isnan(seen) | (seen == 0)
        missed = _MISSED / max(1, int(cells.sum()))
        noise = Noise.of(evidence.law, evidence.scale)
        counts = np.arange(evidence.threshold + int(noise.reach) + 2)
        most = int(counts[np.argmax(noise.below(evidence.threshold - counts) <= missed)])
        whole = float(gammaincinv(most + 1.0, 1.0 - missed)) if population else float(most)
        return cls(cells, min(1.0, whole / records))

    def said(self, masses: Floats) -> str:
        """Return what is assumed of these cells, in words.

        ``masses``, shape (draws, S): of the cells.
        """
        share = percent(float(masses[:, self.cells].sum(axis=1).mean()))
        return (
            f"nothing was released of cells that hold about {share} of the records (posterior mean). Intervals hold "
            f"wherever in these cells they lie, at most {percent(self.most)} in each. In groups, regressions and "
            "functions of your own, the prior says where they lie"
        )

    def of(self, kept: npt.NDArray[np.bool_]) -> Withheld:
        """Return the same of a part of the support, each of whose cells may hold all that lies in the part."""
        return Withheld(self.cells[kept], 1.0)

    def lines(self, column: Column, codes: npt.NDArray[Any], draws: Draws) -> Iterator[tuple[Line, Line]]:
        """Yield a column where the values of these records are least, and where they are greatest: one case.

        The part of them at a rank has at least the value at that rank where all are as low as they can be, and at most
        that where they are as high. Nulls stay as they are.

        ``column``, ``codes``: the column, and its part of the support.
        """
        values = extremes(column, codes)[0]
        moved = self.cells & ~np.isnan(values)
        whole, rest = draws.weights[:, moved].sum(axis=1), np.where(moved, 0.0, draws.weights)
        labels, kinds = np.unique(np.asarray(codes)[moved], return_inverse=True)
        room = self.most * np.bincount(kinds).astype(np.float64)
        if not ordered(column):
            yield _of_labels(column, np.asarray(codes), rest, whole, labels, room, ~np.isnan(values))
            return
        if not len(labels):
            yield at_ends(column, codes, draws, 0)
            return
        by_value = np.argsort(extremes(column, labels)[0], kind="stable")
        labels, room = labels[by_value], room[by_value]
        room *= max(1.0, float(whole.max()) / float(room.sum()))
        ranks = whole[:, None] * np.arange(_PARTS + 1) / _PARTS
        lowest = _at_rank(np.cumsum(room), ranks[:, :-1])
        highest = len(room) - 1 - _at_rank(np.cumsum(room[::-1]), whole[:, None] - ranks[:, 1:])
        parts = np.repeat(whole[:, None] / _PARTS, _PARTS, axis=1)
        yield (
            Line(column, codes, Draws(rest, _column(labels[lowest]), parts), 0, "least"),
            Line(column, codes, Draws(rest, _column(labels[highest]), parts), 0, "most"),
        )


def _of_labels(
    column: Column,
    codes: npt.NDArray[Any],
    rest: Floats,
    whole: Floats,
    labels: npt.NDArray[Any],
    room: Floats,
    present: npt.NDArray[np.bool_],
) -> tuple[Line, Line]:
    """Return lines of a column without an order: the least share of each label, and the greatest.

    The greatest shares are those of different distributions, and add up to more than one.
    """
    rest = rest[:, present]
    with np.errstate(invalid="ignore", divide="ignore"):  # a draw of nulls only has no shares: NaN says so
        total = (rest.sum(axis=1) + whole)[:, None]
        least = Draws(rest / total, _column(np.full(len(whole), -1)), whole[:, None] / total)
        most = np.minimum(whole[:, None], room) / total
    greatest = Draws(rest / total, _column(np.broadcast_to(labels, most.shape)), most)
    return Line(column, codes[present], least, 0, "least"), Line(column, codes[present], greatest, 0, "most")


def _at_rank(cumulated: Floats, ranks: Floats) -> Integers:
    """Return which cell is reached at each rank."""
    return np.minimum(np.searchsorted(cumulated, ranks, side="right"), len(cumulated) - 1)


def _column(codes: npt.NDArray[Any]) -> Records:
    return Records(columns=(np.asarray(codes).ravel(),))
