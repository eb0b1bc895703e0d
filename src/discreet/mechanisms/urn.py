"""The exact urn: every draw a uniform integer, no floating-point probability anywhere.

Masses are integers, in units of ``1/unit`` records; with a discount the first units of each value's founder open a new
one. In a block, a draw falls on the urn before it or on an earlier draw: pointers, resolved by pointer jumping.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Indices, Integers, locate
from discreet._core.checks import positive_size, real
from discreet._core.errors import ParameterError
from discreet._core.numeric import log_rising, up
from discreet.domain import Commonness, Counts, Domain, Records
from discreet.mechanisms.calibration import SIZE, Free, Search, one_solution
from discreet.mechanisms.drawn import DrawnMechanism
from discreet.mechanisms.forecast import Traits
from discreet.mechanisms.reading import BLOCK
from discreet.privacy import HeldTable, singular

UNIT = 1 << 20
"""Strength and discount are multiples of 2^-20 of a record."""

_MOST_MASSES = 1 << 20


def draw_blocks(
    masses: Integers, *, strength: int, discount: int, size: int, rng: np.random.Generator, unit: int = UNIT
) -> Iterator[Integers]:
    """Yield ``size`` draws from the urn, as value numbers, in blocks; new values are numbered as they appear.

    A negative ``strength`` is above ``-discount``: the first value's founder then weighs ``unit + strength``.
    """
    masses = masses.astype(np.int64, copy=True)
    missing = max(0, -strength)
    opening = max(0, strength)
    places = np.arange(min(BLOCK, size), dtype=np.int64)
    all_steps = places * unit
    done = 0
    while done < size:
        length = min(BLOCK, size - done)
        edges = np.cumsum(masses)
        filled = int(edges[-1]) if len(edges) else 0
        # Layout: [values' units | this block's earlier draws | opening units]; the last move up as draws are added.
        # One bound for all is quicker to draw below; what falls beyond a draw's own bound is drawn again below that.
        steps = all_steps[:length]
        below = filled + opening + int(steps[-1])
        position = rng.integers(missing, below, size=length)
        late = np.flatnonzero(position >= filled)  # few, so that each one's own bound is looked at for these
        outside = late[position[late] >= filled + opening + steps[late]]
        position[outside] = rng.integers(missing, filled + opening + steps[outside])
        value = locate(edges, position, below=below)
        late = late[position[late] >= filled]
        opening_late = position[late] >= filled + steps[late]
        opens = np.zeros(length, dtype=bool)
        opens[late[opening_late]] = True
        if discount:
            old = np.flatnonzero(position < filled)
            values = value[old]
            opens[old] = position[old] - (edges[values] - masses[values]) < discount
        child = late[~opening_late]
        if len(child):
            parent = (position[child] - filled) // unit
            if discount:
                # a draw that fell on an earlier draw's founder units opens a value if that draw did
                on_founder_unit, link = (position[child] - filled) % unit < discount, places[:length].copy()
                link[child[on_founder_unit]] = parent[on_founder_unit]
                opens = opens[_jump(link, child[on_founder_unit])]
            root = places[:length]
            root[child] = parent
            root[opens] = np.flatnonzero(opens)
            root = _jump(root, child)
        opened = np.flatnonzero(opens)
        value[opened] = len(masses) + np.arange(len(opened))
        if len(child):
            value[child] = value[root[child]]
            root[child] = child  # the places again, for the next block
        masses = np.concatenate((masses, np.zeros(len(opened), dtype=np.int64)))
        masses += np.bincount(value, minlength=len(masses)) * unit
        yield value
        done += length


def records_of(blocks: Iterator[Integers], x: Counts, domain: Domain, *, rng: np.random.Generator) -> Iterator[Records]:
    """Turn blocks of value numbers into records: the held ones, then new ones from the base measure as they open."""
    records, count = x.records, x.distinct
    for values in blocks:
        opened = int(values.max()) + 1 - len(records)
        if opened > 0:
            records = Records.concatenate((records, domain.draw_base(opened, rng, first=len(records) - count + 1)))
        yield records.take(values)


def _jump(link: Indices, child: Indices) -> Indices:
    """Follow every pointer to its end, doubling the reach each round; ``child``: the few of more than one step."""
    while True:
        further = link[link[child]]
        if np.array_equal(further, link[child]):
            return link
        link[child] = further


# What the mechanisms that continue the confidential table's urn share: parameters, their units, and their calibration.
#
# The masses are kept as integers, in units of ``1/UNIT`` records, so that the kernel's law is exact; the guarantees are
# computed for the rounded values.


def rounded_urn(strength: float, discount: float) -> tuple[float, float]:
    """Return a strength and a discount as multiples of 2^-20: the one rounded up, the other to the nearest below 1."""
    units = math.ceil(Fraction(strength) * UNIT)
    return units / UNIT, min(round(Fraction(discount) * UNIT), UNIT - 1) / UNIT


class HeldMechanism(DrawnMechanism):
    """A mechanism whose law at one confidential table is known in closed form: what an instance-level audit asks."""

    @abstractmethod
    def held_table(self, x: Counts) -> HeldTable:
        """Return what the kernel's law at a table depends on. Raises ParameterError where it has no closed form."""


def held_cells(domain: Domain, x: Counts, *, size: int, strength: float) -> HeldTable:
    """Hold the cells of a table and the empty ones: where all weigh the same, two empty ones stand for all."""
    cells = int(domain.size or 0)
    if set(domain.least_weights()) == {Fraction(1, cells)}:
        is_held = np.arange(x.distinct + min(2, cells - x.distinct)) < x.distinct
        mass = np.full(len(is_held), strength / cells)
        mass[is_held] += x.frequencies
    elif cells <= _MOST_MASSES:
        mass = strength * np.exp(domain.log_base(domain.unflat(np.arange(cells))))
        is_held = np.zeros(cells, dtype=np.bool_)
        is_held[domain.flat(x.records)] = True
        mass[domain.flat(x.records)] += x.frequencies
    else:
        raise ParameterError(f"instance-level deltas with unequal weights are for at most {_MOST_MASSES:,} cells")
    return HeldTable.dirichlet(mass, is_held, size=size, total=strength + x.n)


@dataclass(frozen=True, kw_only=True)
class PitmanYorUrn(HeldMechanism):
    """An urn that starts from the confidential table; parameters: see PitmanYor."""

    traits: ClassVar[Traits] = Traits(free=("size", "strength"), needs_cells=False, verbatim=True)

    strength: float = 1.0
    discount: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", real("strength", self.strength))
        remedy = "For a discount below 0, use dirichlet-multinomial with prior |discount|"
        object.__setattr__(self, "discount", real("discount", self.discount, least=0, below=1, remedy=remedy))
        object.__setattr__(self, "size", positive_size("size", self.size))
        if not -self.discount < self.strength <= 2**40 or (self.discount == 0 and self.strength <= 0):
            raise ParameterError(f"strength must be above -discount, and above 0 at discount 0, got {self.strength!r}")
        strength, discount = rounded_urn(self.strength, self.discount)
        object.__setattr__(self, "discount", discount)
        object.__setattr__(self, "strength", max(strength, 1 / UNIT - discount))

    @property
    def strength_units(self) -> int:
        """The strength, in units."""
        return int(self.strength * UNIT)

    @property
    def discount_units(self) -> int:
        """The discount, in units."""
        return int(self.discount * UNIT)

    def _urn(self, x: Counts, rng: np.random.Generator) -> Iterator[Integers]:
        """Draw value numbers in blocks, integers only."""
        strength, discount = self.strength_units, self.discount_units
        return draw_blocks(x.frequencies * UNIT, strength=strength, discount=discount, size=self.size, rng=rng)

    def _held_urn(self, x: Counts, *, filtered: bool) -> HeldTable:
        """Return what the law of the urn at a table depends on, where new values differ from all others."""
        return HeldTable.pitman_yor(
            x.frequencies,
            size=self.size,
            strength=self.strength,
            discount=self.discount,
            filtered=filtered,
            fresh=self.domain.size is None or x.distinct < self.domain.size,
        )

    def _expected_new(self, n: int, like: Commonness | None = None) -> float:
        """Return the expected ``(theta + sigma E k) / (theta + n)``: of a like table, or under the urn's own prior."""
        theta, sigma = self.strength, self.discount
        if sigma == 0.0:
            return theta / (theta + n)
        if like is not None:
            return max(0.0, theta + sigma * like.distinct(n)) / (theta + n)
        prior = math.exp(float(log_rising(theta + sigma, n)) - float(log_rising(theta + 1.0, n)))
        return min(prior, self._most_new(n))

    def _most_new(self, n: int) -> float:
        """Return that probability for a table of as many distinct values as it can have."""
        theta, sigma = self.strength, self.discount
        distinct = n if self.domain.size is None else min(n, self.domain.size)
        return max(0.0, theta + sigma * distinct) / (theta + n)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the largest size at the given strength (1 by default), or for the least strength at a size."""
        if search.size is None and "strength" not in search.parameters:
            search = search.with_parameters(strength=1.0)
        return one_solution(search, SIZE, Free("strength", 1.0, 2.0**40, usual=1.0))


def moved_mass(size: int, strength: float, n: int, group: int) -> float:
    """Return ``1 - prod_{i<m} (1 - g/(theta+n+i))``, the probability that a draw descends from ``g`` records."""
    if group == 1:
        return singular(size, 1.0, strength + n)
    rest = strength + n - group
    if rest <= 0:
        return 1.0
    factors = rest + size + np.arange(group, dtype=np.float64)
    return up(-math.expm1(float(np.log1p(-size / factors).sum())) * (1.0 + 1e-14 * group))
