"""Counts that are drawn, the nearer to the table's the likelier: docs/theory/exponential-histogram.md (T10)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, choice, positive_size, real
from discreet._core.numeric import Floats, Integers, up
from discreet._core.random import draw_weighted, rounding
from discreet._core.text import about
from discreet.domain import Commonness, Counts, Records
from discreet.mechanisms.base import NEIGHBOURS, require_neighbours
from discreet.mechanisms.calibration import Free, Search, one_solution
from discreet.mechanisms.drawn import DrawnMechanism
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import ExactLaw, compositions
from discreet.mechanisms.projections import NumberedCells
from discreet.mechanisms.reading import BLOCK
from discreet.privacy import BoundedRangeProfile, Code, ConstantProfile, Guarantee, Profile, Relation

_MOST_TERMS = 1 << 28  # of the sums over cells and sizes, about a second
_MOST_COUNTS = 1 << 23  # numbers in the list of all count vectors
_LARGEST = 1000.0
_UNIT = 2.0**-53  # rounding of one operation


@sealed
@dataclass(frozen=True, kw_only=True)
class ExponentialHistogram(DrawnMechanism):
    r"""Draw the counts ``c`` of ``size`` records with probability proportional to ``exp(-pure_epsilon d / (2 Delta))``.

    ``d`` is the distance of ``c / size`` from the table's shares of the cells, ``Delta`` the most that replacing one
    record can change it. The records have these counts, in random order.

    Parameters
    ----------
    domain : Domain
        Public and finite, ``k`` cells. Its base measure is not used: every count vector starts equal.
    size : int
        Number of records to release, ``m``. It costs no privacy, but time: see Raises. ``calibrated`` takes ``n``
        unless one is given.
    pure_epsilon : float
        Epsilon of the exponential mechanism with exact arithmetic, in ``[1e-6, 1000]``.
    loss : {"l1", "l2", "hellinger"}
        The distance between the two vectors of shares: ``sum |q - p|``, ``(sum (q - p)^2)^(1/2)`` or
        ``(sum (sqrt q - sqrt p)^2 / 2)^(1/2)``. ``l1`` is the accurate one, and the one that scales.

    Raises
    ------
    ParameterError
        When a parameter is out of range; when ``k (size + 1)^2`` exceeds 2^28 (``l1``); when all count vectors
        together have more than 2^23 entries (the other two losses).

    Notes
    -----
    Guarantee (theorem T10, an upper bound): the losses lie in an interval of length ``e = pure_epsilon Delta_g / Delta
    + 4 eta``, so pure ``e`` and ``delta(eps) = (1 - e^(-(e - eps)/2))^2 / (1 - e^-e)``. ``Delta_g`` for groups of
    ``g``: ``2g/n``, ``sqrt(2) g/n``, ``sqrt(g/n)``. ``eta`` bounds the rounding of the log-weights, typically 1e-8; the
    draw from them is exact, with integers.

    References
    ----------
    BNP24, section 3.1 and equation (12); McSherry and Talwar (2007); Wasserman and Zhou (2010); Rinott et al. (2018).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=24)})
    >>> mechanism = ExponentialHistogram(domain=cells, size=2000, pure_epsilon=1.0)
    >>> guarantee = mechanism.guarantee(n=2000)
    >>> round(guarantee.epsilon(0.0), 6), round(guarantee.delta(0.5), 6)
    (1.0, 0.077405)
    """

    name: ClassVar[str] = "exponential-histogram"
    traits: ClassVar[Traits] = Traits(free=("pure_epsilon",))

    pure_epsilon: float
    loss: Literal["l1", "l2", "hellinger"] = "l1"

    def __post_init__(self) -> None:
        cells = self._cells
        object.__setattr__(self, "pure_epsilon", real("pure_epsilon", self.pure_epsilon, least=1e-6, most=_LARGEST))
        object.__setattr__(self, "size", positive_size("size", self.size))
        choice("loss", self.loss, ("l1", "l2", "hellinger"))
        if self.loss == "l1":
            if (terms := cells * (self.size + 1) ** 2) > _MOST_TERMS:
                raise ParameterError(
                    f"exponential-histogram with loss 'l1' sums cells * (size + 1)^2 terms: {terms:,} here, at most "
                    f"{_MOST_TERMS:,}. Take fewer cells or a smaller size, or perturbed-histogram"
                )
            return
        log_count = math.lgamma(self.size + cells) - math.lgamma(cells) - math.lgamma(self.size + 1)
        if log_count + math.log(cells) > math.log(_MOST_COUNTS):
            raise ParameterError(
                f"exponential-histogram with loss {self.loss!r} lists every vector of {cells:,} counts that "
                f"sum to {self.size:,}: about 10^{about(log_count / math.log(10.0), 4)} vectors, too many. Take loss "
                "'l1', fewer cells or a smaller size"
            )

    def _sensitivity(self, n: int, group: int) -> float:
        """Return the most that the distance changes when ``group`` of ``n`` records are replaced."""
        share = group / n
        if self.loss == "l1":
            return 2.0 * share
        if self.loss == "l2":
            return math.sqrt(2.0) * share
        if self.domain.size == 2:  # no third cell to hold the other records: 1 - sqrt(1 - share), without cancellation
            share /= 1.0 + math.sqrt(1.0 - share)
        return math.sqrt(share)

    def _rate(self, n: int) -> float:
        """Return the factor of the distance in the exponent."""
        return 0.5 * self.pure_epsilon / self._sensitivity(n, 1)

    def _log_weights(self, table: Integers, counts: Integers) -> Floats:
        """Return the exponents of count vectors, of shape ``(.., k)``; one cell at a time for ``l1``, else summed."""
        n, m = int(table.sum()), self.size
        difference = (n * counts - m * table).astype(np.float64) / (n * m)
        if self.loss == "l1":
            return -self._rate(n) * np.abs(difference)
        if self.loss == "hellinger":
            roots = np.sqrt(counts / m) + np.sqrt(table / n)
            difference = math.sqrt(0.5) * np.divide(difference, roots, out=np.zeros_like(difference), where=roots > 0.0)
        total: Floats = np.sqrt((difference * difference).sum(axis=-1))
        return -self._rate(n) * total

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the counts with integers only, and yield their records in random order, in chunks."""
        table, remaining = NumberedCells(self.domain, self._cells).counts(x.records, x.frequencies), self.size
        if self.loss == "l1":
            counts, weights = np.zeros_like(table), self._log_weights(table, np.arange(self.size + 1)[:, None]).T
            sums = _log_sums(weights)
            for cell in range(len(table) - 1):
                counts[cell] = draw_weighted(weights[cell, : remaining + 1] + sums[cell + 1, remaining::-1], rng=rng)
                remaining -= int(counts[cell])
            counts[-1] = remaining
        else:
            vectors = compositions(self.size, len(table))
            counts = vectors[draw_weighted(self._log_weights(table, vectors), rng=rng)]
        cells = np.repeat(np.arange(len(counts)), counts)
        rng.shuffle(cells)
        for start in range(0, self.size, BLOCK):
            yield self.domain.unflat(cells[start : start + BLOCK])

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y``: that of its counts, divided by their arrangements."""
        table = NumberedCells(self.domain, self._cells).counts(x.records, x.frequencies)
        counts = np.bincount(self.domain.flat(y), minlength=len(table))
        arrangements = math.lgamma(self.size + 1) - sum(math.lgamma(c + 1) for c in counts.tolist())
        weight = float(self._log_weights(table, counts).sum())
        if self.loss == "l1":
            total = float(_log_sums(self._log_weights(table, np.arange(self.size + 1)[:, None]).T)[0, -1])
        else:
            total = float(np.logaddexp.reduce(self._log_weights(table, compositions(self.size, len(table)))))
        return weight - total - arrangements

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T10 for a table of ``n`` records."""
        n, group = require_neighbours(self, relation, n)
        profile: Profile = ConstantProfile(value=0.0)
        if self.domain.size != 1:
            spread = self.pure_epsilon * (self._sensitivity(n, group) / self._sensitivity(n, 1))
            profile = BoundedRangeProfile(spread=up(spread + 4.0 * self._rounding(n), 16))
        chosen, caveat = ("cells", "loss"), Code("share-elsewhere", {"share": self._lost(n)})
        return Guarantee.proved(profile, relation=relation, n=n, theorem="T10", chosen=chosen, caveats=(caveat,))

    def _rounding(self, n: int) -> float:
        """Return ``eta``: how far the log-weight that a count vector is drawn with may be from the exact one."""
        k, m = self._cells, self.size
        largest = self._rate(n) * {"l1": 2.0, "l2": math.sqrt(2.0), "hellinger": 1.0}[self.loss]
        if self.loss != "l1":
            return (k + 32) * _UNIT * largest + rounding(largest)
        logs = largest + (k + m) * math.log(2.0)
        return k * (2.0 * rounding(2.0 * logs) + 32.0 * _UNIT * (logs + m))

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return an estimate of the expected total variation from the table's shares, but for whole counts.

        The distance is nearly a Gamma variable of shape ``k - 1`` and rate ``pure_epsilon / (2 Delta)``, less where the
        table is near a corner of the simplex: the estimate is rather too large. Total variation is at most the distance
        times 1/2, ``sqrt(k)/2`` or ``sqrt(2)``.
        """
        lost, remedies = self._lost(n), helpful(self.domain, "cells", "columns", "epsilon", "delta")
        draws = max(2, min(32, (1 << 29) // (self._cells * (self.size + 1) ** 2)))
        return Forecast(  # stratified: the counts are the kernel's own, and no independent draws
            lost=lost, lost_is="prediction", lost_to="drawn counts", remedies=remedies, stratified=True, draws=draws
        )

    def _lost(self, n: int) -> float:
        """Return the expected total variation, nearly."""
        cells = self._cells
        if cells == 1:
            return 0.0
        most = {"l1": 0.5, "l2": 0.5 * math.sqrt(cells), "hellinger": math.sqrt(2.0)}[self.loss]
        return min(1.0, most * (cells - 1) / self._rate(n))

    def likelihood(self) -> ExactLaw:
        """Return the law itself: what normalises it depends on the table."""
        cells = self._cells
        terms = (self.size + 1) ** 2 if self.loss == "l1" else math.comb(self.size + cells - 1, cells - 1)
        return ExactLaw(domain=self.domain, log_prob=self.log_prob, terms=cells * terms)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the largest ``pure_epsilon``; the size costs nothing and is ``n`` unless given."""
        pure = Free("pure_epsilon", 1e-6, _LARGEST, rising=False, relative=1e-10)
        return one_solution(replace(search, size=search.size or search.n), pure)


def _log_sums(weights: Floats) -> Floats:
    """Return, by cell and total, the log of the sum over counts of this cell and of the later ones."""
    sums, columns = weights.copy(), weights.shape[1]
    for cell in range(len(weights) - 2, -1, -1):
        later = np.concatenate((np.full(columns - 1, -np.inf), sums[cell + 1]))
        windows = np.lib.stride_tricks.sliding_window_view(later, columns)
        backwards = weights[cell, ::-1]
        step = max(1, (1 << 16) // columns)
        for total in range(0, columns, step):
            end = min(columns, total + step)
            terms = windows[total:end, columns - end :] + backwards[columns - end :]  # the others are zero
            largest = terms.max(axis=1, keepdims=True)
            sums[cell, total:end] = largest[:, 0] + np.log(np.exp(terms - largest).sum(axis=1))
    return sums
