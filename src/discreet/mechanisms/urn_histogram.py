"""The urn continued, of which draws of held values are released: docs/theory/urn-histogram.md (T12)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.numeric import Floats, Indices, log_rising
from discreet.domain import Commonness, Counts, Records
from discreet.mechanisms.base import NEIGHBOURS, CellCounts, Outputs, listed, require_neighbours
from discreet.mechanisms.drawn import PitmanYorUrn, moved_mass
from discreet.mechanisms.forecast import Forecast, Traits
from discreet.mechanisms.likelihood import DrawnFromCounts
from discreet.privacy import Code, ConstantProfile, Guarantee, HeldTable, Relation


@sealed
@dataclass(frozen=True, kw_only=True)
class UrnHistogram(PitmanYorUrn):
    r"""Draw ``size`` times from the posterior predictive of a Pitman-Yor prior and release the draws of held values.

    Draw ``i + 1`` repeats the value ``l`` with probability ``(n_l - discount) / (strength + n + i)``, where ``n_l``
    counts confidential records and earlier draws, and otherwise opens a new value. Draws of values that the
    confidential table does not hold are dropped, so the number of released records is random: it is part of what is
    released.

    Parameters
    ----------
    domain : Domain
        Public, of any kind. Its base measure is not used.
    size : int
        Number of draws, ``m``, 1 to 1e10: the most records that can be released.
    strength, discount
        ``theta`` and ``sigma``, as for :class:`PitmanYor`.

    Raises
    ------
    ParameterError
        When a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T12): ``delta = m / (theta + n + m - 1)`` at every epsilon, whatever the domain and the discount;
    attained at discount 0. For groups of ``g`` records ``1 - prod_{i<m} (1 - g/(theta+n+i))``. The filter reads the
    table, so this is not post-processing of the Pitman-Yor release: it follows from the same coupling. Every released
    record is a confidential record verbatim.

    References
    ----------
    BNP24, Algorithm 3 and Proposition 4.2, whose guarantee holds for one table and is confidential (theorem T11).

    Examples
    --------
    >>> from discreet.domain import Domain, Numeric
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> mechanism = UrnHistogram(domain=unit, size=250, strength=3.0)
    >>> round(mechanism.guarantee(n=500).delta(1.0), 6), round(mechanism.expected_size(500), 3)
    (0.332447, 248.509)
    """

    name: ClassVar[str] = "urn-histogram"
    traits: ClassVar[Traits] = replace(PitmanYorUrn.traits, cells_cost=False, random_size=True)

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw in chunks, in exchangeable order, and keep the draws of the table's own values; a chunk may be empty."""
        for values in self._urn(x, rng):
            yield x.records.take(values[values < x.distinct])

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y`` of ``m - L`` records (counting measure).

        ``log C(m, L) + sum_l log (n_l - sigma)_{S_l} + log (theta + j sigma)_L - log (theta+n)_m``; minus infinity
        where ``y`` holds a value that ``x`` does not.
        """
        sigma, theta = self.discount, self.strength
        frequencies = dict(zip(x.records.rows(), x.frequencies.tolist(), strict=True))
        times, dropped = Counter(y.rows()), self.size - len(y)
        if dropped < 0 or set(times) - set(frequencies):
            return -math.inf
        total = math.lgamma(self.size + 1) - math.lgamma(dropped + 1) - math.lgamma(len(y) + 1)
        total += sum(float(log_rising(frequencies[row] - sigma, count)) for row, count in times.items())
        total += float(log_rising(theta + x.distinct * sigma, dropped))
        return total - float(log_rising(theta + x.n, self.size))

    def outputs(self, *tables: Counts) -> Outputs:
        """Return every multiset of at most ``size`` of the tables' values."""
        records = Records.concatenate([x.records for x in tables])
        rows = records.rows()
        distinct = records.take(np.array([rows.index(row) for row in dict.fromkeys(rows)], dtype=np.intp))
        counts = listed(*[range(self.size + 1)] * len(distinct))
        return Outputs([distinct.take(np.repeat(np.arange(len(c)), c)) for c in counts if sum(c) <= self.size])

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T12 for a table of ``n`` records."""
        n, group = require_neighbours(self, relation, n)
        delta = 0.0 if self.domain.size == 1 else moved_mass(self.size, self.strength, n, group)
        return Guarantee(
            relation=relation,
            n=n,
            profile=ConstantProfile(value=delta, tight=self.discount == 0 or delta == 0.0),
            kind="unconditional",
            theorem="T12",
            assumptions=(Code("chosen-without-data", {"what": ["strength", "discount"]}),),
            caveats=(
                Code("all-verbatim", {"expected": self.expected_size(n), "at_most": self.discount != 0}),
                Code("delta-constant"),
                Code("random-number", {"size": self.size}),
            ),
        )

    def held_table(self, x: Counts) -> HeldTable:
        """Return what the law at a table depends on: new values are dropped."""
        return self._held_urn(x, filtered=True)

    def expected_size(self, n: int, distinct: int = 1) -> float:
        r"""Return the expected number of released records, ``m (n - j sigma) / (theta + n)``.

        Parameters
        ----------
        n : int
            Number of records, public.
        distinct : int
            Number of distinct values ``j``: confidential, so that with a discount the result is too. The default gives
            an upper bound for all tables, and at discount 0 the value itself.
        """
        return self.size * (n - distinct * self.discount) / (self.strength + n)

    def likelihood(self) -> DrawnFromCounts:
        """Return the likelihood ``(C - sigma)_Z`` of each held cell, and ``(theta + j sigma)_L`` of the ``j`` of them.

        ``L`` draws were dropped. At discount 0 they tell nothing.
        """
        return DrawnFromCounts(log_weight=self._log_weight, log_held=self._log_held if self.discount else None)

    def _log_weight(self, _records: int, _cells: Indices, counts: CellCounts, drawn: CellCounts) -> Floats:
        positive = np.asarray(np.maximum(counts, 1) - self.discount, dtype=np.float64)
        rising = log_rising(positive, drawn.astype(np.float64))
        return np.where(counts > 0, rising, np.where(drawn > 0, -np.inf, 0.0))

    def _log_held(self, held: CellCounts, drawn: int) -> Floats:
        opening = np.asarray(self.strength + held * self.discount, dtype=np.float64)
        return np.asarray(log_rising(opening, np.full(len(opening), float(self.size - drawn))))

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return that every released record is one of the table's, and what share of the draws is released.

        Under the urn's own prior: ``n / (theta + n)`` at discount 0, for every table.
        """
        return Forecast(
            lost=0.0,
            lost_is="expectation",
            lost_to="other sources",
            rest="base",
            urn=n,
            remedies=("delta",),
            released_share=1.0 - self._expected_new(n),
        )
