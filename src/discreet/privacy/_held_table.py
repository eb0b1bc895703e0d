"""What the law of an urn started from a table depends on, and the changes of one record it can suffer.

Why this file exists. An instance-level guarantee compares one table with all its neighbours. Up to data processing, a
neighbour is one of: a record moved between two values that both tables hold, a pair of plain urns; a change of which
values are held at all, a pair of :mod:`~discreet.privacy._opening_pair`; a value held once that is exchanged for
another. Which of these there are, and with which masses, is stated here (theorem T11).

Edge cases: one or two distinct values; equal frequencies, where two values are needed to move a record between them;
no value that the table does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Floats, Integers
from discreet._core.errors import ParameterError
from discreet._core.text import about
from discreet.privacy._opening_pair import OpeningPair, singular
from discreet.privacy._sampling_pairs import UrnPair


class Reading(NamedTuple):
    """One delta of one table. Confidential.

    Parameters
    ----------
    delta : float
        Never below the truth.
    exact : bool
        Whether it is the value itself, rather than an upper bound.
    change : str
        The worst change of one record, in words.
    pair : UrnPair, OpeningPair or None
        The pair of laws it leads to; None for an exchange of values held once.
    forward : bool
        Whether the divergence is of the pair's first law from its second.
    """

    delta: float
    exact: bool
    change: str
    pair: UrnPair | OpeningPair | None = None
    forward: bool = True


class Opening(NamedTuple):
    """A change of which values are held: the pair, which of its laws is this table's or comes first, and words."""

    pair: OpeningPair
    forward: bool
    change: str
    rarest: bool
    """Whether no other change of this kind moves a rarer value: then none is worse, in the tight reading."""

    @property
    def named(self) -> tuple[str, OpeningPair, bool]:
        """What a reading says of the change."""
        return self.change, self.pair, self.forward


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldTable:
    """What the law of an urn started from a table depends on. Confidential.

    Parameters
    ----------
    size : int
        Number of draws, ``m``.
    total : float
        Mass of the whole urn, ``theta + n``.
    mass : ndarray of float64, shape (k,)
        Distinct masses of values, ascending.
    losing, gaining : ndarray of int64, shape (k,)
        How many values of that mass may lose a record and stay, and how many may gain one.
    frequencies, multiplicities : ndarray of int64, shape (j,)
        Distinct frequencies, ascending, and how many values have each; empty on a finite domain.
    strength, discount : float
        Of the Pitman-Yor urn.
    filtered : bool
        Whether draws of new values are dropped from the release.
    fresh : bool
        Whether there is a value that the table does not hold.
    """

    size: int
    total: float
    mass: Floats
    losing: Integers
    gaining: Integers
    frequencies: Integers
    multiplicities: Integers
    strength: float = 0.0
    discount: float = 0.0
    filtered: bool = False
    fresh: bool = True

    @classmethod
    def pitman_yor(
        cls,
        frequencies: Integers,
        *,
        size: int,
        strength: float,
        discount: float = 0.0,
        filtered: bool = False,
        fresh: bool = True,
    ) -> HeldTable:
        """Return the table of a Pitman-Yor release from the frequencies of its values.

        Raises ParameterError when there are none.
        """
        distinct, count = np.unique(np.asarray(frequencies, dtype=np.int64), return_counts=True)
        if len(distinct) == 0 or distinct[0] < 1:
            raise ParameterError("frequencies must be integers of at least 1")
        return cls(
            size=size,
            total=strength + int((distinct * count).sum()),
            mass=(distinct - discount).astype(np.float64),
            losing=np.where(distinct > 1, count, 0).astype(np.int64),
            gaining=count.astype(np.int64),
            frequencies=distinct,
            multiplicities=count.astype(np.int64),
            strength=strength,
            discount=discount,
            filtered=filtered,
            fresh=fresh,
        )

    @classmethod
    def dirichlet(cls, mass: Floats, held: Booleans, *, size: int, total: float) -> HeldTable:
        """Return the table of a Dirichlet-multinomial release.

        Parameters
        ----------
        mass : ndarray of float64, shape (cells,)
            Prior mass and records of each cell, of some cells that include the lightest.
        held : ndarray of bool, shape (cells,)
            Whether the cell holds a record.
        size : int
            Number of draws.
        total : float
            Mass of all cells.
        """
        distinct, place = np.unique(mass, return_inverse=True)
        none = np.empty(0, dtype=np.int64)
        return cls(
            size=size,
            total=total,
            mass=distinct,
            losing=np.bincount(place, weights=held, minlength=len(distinct)).astype(np.int64),
            gaining=np.bincount(place, minlength=len(distinct)).astype(np.int64),
            frequencies=none,
            multiplicities=none,
        )

    @property
    def n(self) -> int:
        """Number of records."""
        return int((self.frequencies * self.multiplicities).sum())

    @property
    def distinct(self) -> int:
        """Number of distinct values."""
        return int(self.multiplicities.sum())

    @property
    def singletons(self) -> int:
        """Number of values held once."""
        return int(self.multiplicities[0]) if len(self.frequencies) and self.frequencies[0] == 1 else 0

    def pair(self, i: int, j: int) -> UrnPair:
        """Return the pair of a record that leaves a value of the i-th mass for one of the j-th."""
        a, b = float(self.mass[i]) - 1.0, float(self.mass[j])
        return UrnPair(size=self.size, a=a, b=b, rest=max(0.0, self.total - a - b - 1.0))

    def openings(self, *, two_sided: bool) -> Iterator[Opening]:
        """Yield every change of the number of distinct values; from the neighbour's side too where asked."""
        j, sigma = self.distinct, self.discount
        pair_of = partial(OpeningPair, size=self.size, discount=sigma, filtered=self.filtered)
        several = self.frequencies[self.frequencies > 1].tolist() if self.fresh else []
        for r in several:  # this table is the P of its pair
            words = f"a record moves from a value held {r} times to one that is not held"
            others = (self.n - r) - (j - 1) * sigma
            pair = pair_of(a=r - 1 - sigma, phi=self.strength + j * sigma, others=others)
            yield from _directions(pair, words, r == several[0], first=True, two_sided=two_sided)
        targets = self.frequencies[(self.frequencies > 1) | (self.multiplicities > 1)].tolist()
        for r in targets if self.singletons else []:  # this table is the Q of its pair
            words = "the record of a value held once moves to " + _held(r, other=True)
            others = (self.n - 1 - r) - (j - 2) * sigma
            pair = pair_of(a=r - sigma, phi=self.strength + (j - 1) * sigma, others=others)
            yield from _directions(pair, words, r == targets[0], first=False, two_sided=two_sided)

    @property
    def exchange(self) -> Reading:
        """What drawing a value held once reveals, if its record could be of one that is not held."""
        if not (self.singletons and self.fresh):
            return Reading(0.0, True, "no record can change")
        alone = singular(self.size, 1.0 - self.discount, self.total)
        return Reading(alone, True, "the record of a value held once moves to one that is not held")

    def value(self, i: int) -> str:
        """Describe a value of the i-th mass."""
        return _held(int(self.frequencies[i])) if len(self.frequencies) else f"a cell of mass {about(self.mass[i], 6)}"

    def may_pair(self, i: int, j: int) -> bool:
        """Return whether a record can leave a value of the i-th mass for another one of the j-th."""
        return bool(self.losing[i] > 0 and self.gaining[j] > 0 and (i != j or self.gaining[i] > 1))


def _directions(pair: OpeningPair, words: str, rarest: bool, *, first: bool, two_sided: bool) -> Iterator[Opening]:
    yield Opening(pair, first, words, rarest)
    if two_sided:
        yield Opening(pair, not first, words, rarest)


def _held(r: int, *, other: bool = False) -> str:
    return f"{'another' if other else 'a value'} held {'once' if r == 1 else f'{r} times'}"
