"""Mechanisms whose kernel draws the records, so that their number costs privacy: with uniform integers, exactly."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._core.errors import ParameterError, positive_size, real
from discreet._core.numeric import Floats, Indices, Integers, locate, log_rising, up
from discreet._core.text import counted
from discreet.domain import Commonness, Counts, Domain, Records
from discreet.mechanisms.base import NEIGHBOURS, Mechanism, held_frequencies, numbered_cells, require_neighbours
from discreet.mechanisms.calibration import SIZE, Free, Search, one_solution
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import DrawnFromCounts, Likelihood
from discreet.mechanisms.reading import BLOCK, Contents, Reading
from discreet.privacy import Code, ConstantProfile, Guarantee, HeldTable, MixturePair, Profile, Relation, singular

MIXING_UNIT = 1 << 32
"""The probability of a uniform cell is a multiple of ``1 / MIXING_UNIT``."""

MIXING = Free("mixing", 1e-12, 1.0)
"""The probability of a uniform cell, as it is solved for."""


@dataclass(frozen=True, kw_only=True)
class DrawnMechanism(Mechanism):
    """A mechanism whose kernel draws the records themselves: ``size`` of them."""

    size: int

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return as many records as it was made for."""
        return replace(super().contents(n, counts=counts), size=self.size)

    def reading(self, y: Iterator[Records], *, n: int) -> Reading:
        """Return the kernel's records as they are."""
        return KernelRecords(y, self.size)

    @property
    def _cells(self) -> int:
        """Number of cells of the domain. Raises ParameterError where it is not finite."""
        return numbered_cells(self.domain, self.name)


@dataclass(frozen=True, eq=False)
class KernelRecords(Reading):
    """Records that the kernel drew, in chunks: their number, ``size``, was fixed before."""

    chunks: Iterator[Records]
    size: int

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Return the kernel's records as they are."""
        if size != self.size:
            raise ParameterError(f"this mechanism was calibrated for {counted(self.size, 'record')}, not {size}")
        return self.chunks


class MixtureDraws(DrawnMechanism):
    """Independent draws from a mixture with the uniform distribution, of a weight that may depend on the table."""

    @abstractmethod
    def _units(self, x: Counts) -> int:
        """Return the probability of a uniform cell for a table, in units of 2^-32. Confidential."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records independently, in chunks, with uniform integers only."""
        edges, units = np.cumsum(x.frequencies), self._units(x)
        for start in range(0, self.size, BLOCK):
            value = locate(edges, rng.integers(0, x.n, size=min(BLOCK, self.size - start)), below=x.n)
            yield obscure(self.domain, x.records.take(value), units, rng)

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y``: ``sum log((1-q) n_l / n + q / k)``."""
        frequency, q = held_frequencies(self.domain, x, self.domain.flat(y)), self._units(x) / MIXING_UNIT
        with np.errstate(divide="ignore"):  # a cell without records, where nothing is obscured
            return float(np.log((1.0 - q) * frequency / x.n + q / self._cells).sum())


def obscure(domain: Domain, records: Records, units: int, rng: np.random.Generator) -> Records:
    """Replace each record by a uniform cell with probability ``units / MIXING_UNIT``, independently."""
    columns = [column.copy() for column in records.columns]
    places = np.flatnonzero(rng.integers(0, MIXING_UNIT, size=len(records)) < units)
    for column, spec in zip(columns, domain.columns.values(), strict=True):
        column[places] = rng.integers(0, spec.size, size=len(places))
    return Records(columns=tuple(columns))


@dataclass(frozen=True, kw_only=True)
class Mixture(MixtureDraws):
    """Draws from ``(1 - mixing) * empirical + mixing * uniform`` over the cells; parameters: see SmoothedHistogram."""

    traits: ClassVar[Traits] = Traits(free=("mixing", "size"), theorem="T5")

    mixing: float

    def __post_init__(self) -> None:
        mixing = Fraction(real("mixing", self.mixing, least=1e-12, most=1))
        object.__setattr__(self, "mixing", math.ceil(mixing * MIXING_UNIT) / MIXING_UNIT)
        object.__setattr__(self, "size", positive_size("size", self.size))
        _ = self._cells  # refuses a domain that is not finite

    def _units(self, x: Counts) -> int:
        return int(self.mixing * MIXING_UNIT)

    def _profile(self, n: int, group: int) -> Profile:
        """Return the profile for a group of at most ``n`` records, of two cells or more and a mixing below 1."""
        q = Fraction(self.mixing)
        return MixturePair(size=self.size, base=q / self._cells, moved=group * (1 - q) / n, tight=self._cells > 2)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the theorem for a table of ``n`` records."""
        n, group = require_neighbours(self, relation, n)
        profile: Profile = ConstantProfile(value=0.0)
        if self.domain.size != 1 and self.mixing < 1.0:
            profile = self._profile(n, group)
        theorem, chosen = self.traits.theorem, ("cells", "mixing-probability")
        caveat = Code("uniform-share", {"share": self.mixing})
        return Guarantee.proved(profile, relation=relation, n=n, theorem=theorem, chosen=chosen, caveats=(caveat,))

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return ``mixing``."""
        remedies = helpful(self.domain, "cells", "columns", "size", "epsilon", "delta", size=self.size == 1)
        return Forecast(lost=self.mixing, lost_is="expectation", lost_to="uniform", rest="uniform", remedies=remedies)

    def likelihood(self) -> Likelihood:
        """Return the factor ``((1-q) c / n + q / k)^z`` of each cell."""
        uniform = self.mixing / self._cells

        def log_weight(records: int, _cells: Indices, counts: Integers, drawn: Integers) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = drawn * np.log((1.0 - self.mixing) * counts / records + uniform)
            return np.where(drawn > 0, weight, 0.0)

        return DrawnFromCounts(log_weight=log_weight)

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least mixing at a size, or for the largest size at a mixing."""
        return one_solution(search, SIZE, MIXING)


# The exact urn. Masses are integers, in units of ``1/unit`` records; with a discount the first units of each value's
# founder open a new one. In a block, a draw falls on the urn before it or on an earlier draw: pointers are jumped.

UNIT = 1 << 20
"""Strength and discount are multiples of 2^-20 of a record."""

_MOST_MASSES = 1 << 20


def draw_blocks(
    masses: Integers, *, strength: int, discount: int, size: int, rng: np.random.Generator, unit: int = UNIT
) -> Iterator[Integers]:
    """Yield ``size`` draws from the urn, as value numbers, in blocks; new values are numbered as they appear."""
    # A negative strength is above -discount: the first value's founder then weighs unit + strength.
    masses = masses.astype(np.int64, copy=True)
    missing, opening = max(0, -strength), max(0, strength)
    places = np.arange(min(BLOCK, size), dtype=np.int64)
    all_steps = places * unit
    done = 0
    while done < size:
        length = min(BLOCK, size - done)
        edges, filled = np.cumsum(masses), int(masses.sum())
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


def rounded_urn(strength: float, discount: float) -> tuple[float, float]:
    """Return a strength and a discount as multiples of 2^-20: the one rounded up, the other to the nearest below 1."""
    return math.ceil(Fraction(strength) * UNIT) / UNIT, min(round(Fraction(discount) * UNIT), UNIT - 1) / UNIT


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

    def _urn(self, x: Counts, rng: np.random.Generator) -> Iterator[Integers]:
        """Draw value numbers in blocks, integers only."""
        strength, discount = int(self.strength * UNIT), int(self.discount * UNIT)
        return draw_blocks(x.frequencies * UNIT, strength=strength, discount=discount, size=self.size, rng=rng)

    def _held_urn(self, x: Counts, *, filtered: bool) -> HeldTable:
        """Return what the law of the urn at a table depends on, where new values differ from all others."""
        urn: dict[str, Any] = {"size": self.size, "strength": self.strength, "discount": self.discount}
        fresh = self.domain.size is None or x.distinct < self.domain.size
        return HeldTable.pitman_yor(x.frequencies, **urn, filtered=filtered, fresh=fresh)

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
        return max(0.0, theta + sigma * min(n, self.domain.size or n)) / (theta + n)

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
