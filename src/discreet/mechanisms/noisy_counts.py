"""Independent discrete noise on the counts of cells, or of nodes above them: one private step with many readings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import choice, positive_size
from discreet._core.errors import Infeasible, ParameterError
from discreet._core.numeric import least_real, written
from discreet._core.text import as_written
from discreet.domain import Commonness, Counts, Domain
from discreet.mechanisms.base import (
    NEIGHBOURS,
    CellCounts,
    Mechanism,
    Outputs,
    feasible,
    listed,
    require_known,
    require_made_for,
    require_relation,
)
from discreet.mechanisms.cells import Cells, OwnCells
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.noise import LAWS, NoiseLaw, law_named
from discreet.mechanisms.projections import Projection
from discreet.mechanisms.reading import (
    READING_ONLY,
    SAMPLINGS,
    CellReading,
    CellShares,
    Contents,
    Estimates,
    Reading,
    Sampling,
)
from discreet.privacy import Budget, Code, ConstantProfile, Guarantee, Profile, Relation
from discreet.privacy.guarantee import RelationName

if TYPE_CHECKING:
    from discreet.mechanisms.likelihood import NoisyCellCounts

_MOST_CELLS = 1 << 25


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(Mechanism):
    """Independent discrete noise on the count of every cell of a finite domain; records are post-processing.

    A preset says which projection reads the noisy counts (``projector``), and what else it fixes. Cells other than the
    domain's are named by ``cells``; noise on the counts of other sets of cells is said by ``_length`` (how many counts
    there are), ``_counts`` (what they are) and ``_pairs`` (in how many pairs of them a replaced record moves).
    Parameters: see PerturbedHistogram.
    """

    traits: ClassVar[Traits] = Traits(free=("scale",), cells_cost=False, theorem="T6", counts=True, folders=True)

    domain: Domain
    records: int
    scale: float
    noise: str = "laplace"
    sampling: Sampling = field(default=SAMPLINGS[0], metadata=READING_ONLY)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", law_named(self.noise).checked(self.scale))
        if self._length > _MOST_CELLS:
            raise ParameterError(
                f"{self.name} adds noise to every cell and holds at most {_MOST_CELLS:,} of them, fewer than the "
                "domain has. Use marginals or stability-histogram, or declare fewer cells"
            )
        object.__setattr__(self, "records", positive_size("records", self.records))
        choice("sampling", self.sampling, SAMPLINGS)

    # -- the private step ---------------------------------------------------------------------------------------

    @property
    def law(self) -> NoiseLaw:
        """The noise's law."""
        return law_named(self.noise)

    @cached_property
    def cells(self) -> Cells:
        """What noise is added to."""
        return OwnCells.of(self.domain, self.name)

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy counts of all cells, an int64 array of shape ``(cells,)``."""
        require_made_for(self.records, x.n)
        return self._counts(x) + self.law.draw(self.scale, self._length, rng=rng)

    @property
    def _length(self) -> int:
        return self.cells.count

    @property
    def _pairs(self) -> int:
        return 1 if self.cells.count > 1 else 0

    def _counts(self, x: Counts) -> CellCounts:
        return self.cells.counts(x.records, x.frequencies)

    def log_prob(self, y: CellCounts, x: Counts) -> float:
        """Return the log-probability of the noisy counts ``y`` (counting measure on integer vectors)."""
        noise = np.asarray(y, dtype=np.int64) - self._counts(x)
        return float(self.law.log_pmf(self.scale, noise).sum())

    def outputs(self, *tables: Counts) -> Outputs:
        """Return the integer vectors around the tables' counts, all but 1e-13 of them by probability."""
        frequency = np.array([self._counts(x) for x in tables])
        reach = self.law.reach(self.scale)
        ranges = [
            range(int(low) - reach, int(high) + reach + 1)
            for low, high in zip(frequency.min(axis=0), frequency.max(axis=0), strict=True)
        ]
        return Outputs([np.array(z) for z in listed(*ranges)], 1e-13)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the theorem for a table of ``n`` records."""
        require_relation(self, relation.name)
        n = positive_size("n", n)
        profile: Profile = ConstantProfile(value=0.0)
        if self._pairs:
            profile = self.law.profile(self.scale, group=min(relation.group, n), counts=2 * self._pairs)
        return Guarantee.proved(
            profile,
            relation=relation,
            n=n,
            theorem=self.traits.theorem,
            chosen=("cells", "noise"),
            caveats=(Code("free-draws", {"noisy": "counts"}),),
        )

    # -- its reading --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def projector(self) -> Projection:
        """What turns the noisy counts into probabilities."""

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the cells' probabilities that records are drawn with: public post-processing of noisy counts."""
        return self.projector.probabilities(y)

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return any number of records, or the count of every cell."""
        contents = super().contents(n, counts=counts)
        if counts:
            contents = replace(contents, rows=range(self.cells.count, self.cells.count + 1))
        return contents

    def reading(self, y: CellCounts, *, n: int) -> Reading:
        """Return records drawn from the noisy counts, and these themselves."""
        return NoisyReading(self, y)

    def likelihood(self) -> NoisyCellCounts:
        """Return the law of the noise, and how it is read."""
        from discreet.mechanisms.likelihood import NoisyCellCounts

        return NoisyCellCounts(
            law=self.law,
            scale=self.scale,
            surplus=self.projector.surplus,
            sampling=self.sampling,
            own_cells=isinstance(self.cells, OwnCells),
        )

    # -- what can be said beforehand ----------------------------------------------------------------------------

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return a bound on the expected total variation from the table's shares: ``(k E|Z| + sqrt(k) s) / (2n)``.

        It holds for whatever is nowhere above the positive part of the noisy counts (or nowhere below it), once these
        are shifted onto the total or not: for all the projections here. Proof:
        docs/theory/laplace-projection-sampler.md.
        """
        return Forecast(
            lost=projection_error(self.law, self.scale, cells=self.cells.count, total=n) if self._pairs else 0.0,
            lost_is="bound",
            lost_to="noise",
            remedies=helpful(self.domain, "cells", "columns", "epsilon", "delta"),
            stratified=self.sampling == "stratified",
        )

    # -- calibration --------------------------------------------------------------------------------------------

    @classmethod
    def _laws(cls) -> tuple[str, ...]:
        """Return the laws of noise that it may have: the one that it fixes, or all."""
        own = cls.__dataclass_fields__["noise"]
        return tuple(LAWS) if own.init else (str(own.default),)

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> Self:
        """Solve for the least scale; without ``noise``, take the law with the smaller mean absolute noise."""
        require_known(cls, fixed)
        scale, noise = fixed.pop("scale", None), fixed.pop("noise", None)
        laws = cls._laws() if noise is None else (noise,)
        fixes_noise = cls._laws() != tuple(LAWS)

        def make(law: str, value: float) -> NoisyCounts:
            own = fixed if fixes_noise else {**fixed, "noise": law}
            return cls(domain=domain, records=n, scale=value, **own)

        return cast(Self, solve_scale(make, budget, n=n, group=group, laws=laws, scale=scale))


@dataclass(frozen=True, eq=False)
class NoisyReading(CellReading):
    """Noisy counts of cells, and records drawn from their projection."""

    mechanism: NoisyCounts
    y: CellCounts

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
        """Return the projected counts."""
        return CellShares(self.mechanism.probabilities(self.y), self.mechanism.sampling, self.mechanism.cells)

    def estimates(self) -> Estimates:
        """Return the noisy counts themselves, unbiased, with the noise's standard deviation."""
        cells, error = self.mechanism.cells, self.mechanism.law.standard_deviation(self.mechanism.scale)
        records = cells.records_in(np.arange(cells.count))
        return Estimates(records, np.asarray(self.y, dtype=np.float64), np.full(cells.count, error))


@dataclass(frozen=True)
class BareNoise:
    """Noise on the counts of two cells or more, and what is promised of it: no table, no reading."""

    noise: str
    scale: float

    def guarantee(self, relation: Relation, *, n: int) -> Guarantee:
        """Return the theorem for a table of ``n`` records."""
        profile = law_named(self.noise).profile(self.scale, group=min(relation.group, n), counts=2)
        return Guarantee.proved(profile, relation=relation, n=n, theorem="T6", chosen=("noise",))


def projection_error(law: NoiseLaw, scale: float, *, cells: int, total: int) -> float:
    """Return a bound on the expected total variation between an L1 projection of noisy counts and the true shares.

    ``(k E|Z| + sqrt(k) s) / (2 total)`` for noise ``Z`` of standard deviation ``s`` on ``k`` cells, at most 1.
    """
    noise = cells * law.mean_absolute(scale) + math.sqrt(cells) * law.standard_deviation(scale)
    return min(1.0, 0.5 * noise / total)


Solved = TypeVar("Solved", bound=NoisyCounts | BareNoise)


def _pure(make: Callable[[str, float], Solved], law: str, epsilon: float, between: Relation, n: int) -> Solved | None:
    """Return the mechanism of the least scale with a pure epsilon, the papers' own: compared exactly.

    The pure epsilon is a rational number divided by the scale, so the least scale is the float next above a quotient.
    """
    at_one = Fraction(make(law, 1.0).guarantee(between, n=n).profile.pure)
    exact = at_one / written(epsilon) if epsilon > 0.0 else Fraction(2**60 if at_one else 0)
    least = max(2.0**-10, _float_from(exact))
    return make(law, least) if least <= law_named(law).largest_scale else None


def _float_from(exact: Fraction) -> float:
    """Return the least float whose binary value is at least a number: the kernel draws with that value."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def solve_scale(
    make: Callable[[str, float], Solved],
    budget: Budget,
    *,
    n: int,
    group: int,
    laws: Sequence[str],
    scale: float | None,
    relation: RelationName = "replacement",
) -> Solved:
    """Solve for the least scale of the noise, of the law with the smaller mean absolute noise where there is a choice.

    Raises Infeasible with the nearest numbers that meet the budget.

    ``make``: ``make(noise, scale)``.
    ``budget``: what may be spent.
    ``n``, ``group``: numbers of records, and of records a privacy unit holds.
    ``laws``: to choose from.
    ``scale``: the scale where it is given, with the first of the laws.
    ``relation``, {"replacement", "add-remove"}: between which tables the budget is to hold.
    """
    between = Relation(name=relation, group=group)

    def solved(law: str) -> Solved | None:
        if budget.delta == 0.0:
            return _pure(make, law, budget.epsilon, between, n) if law_named(law).pure else None
        found = least_real(
            lambda value: make(law, value).guarantee(between, n=n)._excess(budget),
            2.0**-10,
            law_named(law).largest_scale,
            relative=1e-9,
        )
        return None if found is None else make(law, found)

    if scale is not None:
        mechanism = make(laws[0], scale)
        guarantee = mechanism.guarantee(between, n=n)
        if not guarantee.meets(budget):
            best = solved(laws[0])
            stated: dict[str, float] = {} if best is None else {"scale >=": best.scale}
            feasible(guarantee, budget, f"{budget} with {laws[0]} noise of scale {as_written(scale)}", **stated)
        return mechanism
    options = [m for m in map(solved, laws) if m is not None]
    if not options:
        most = [make(law, law_named(law).largest_scale).guarantee(between, n=n) for law in laws]
        nearest = {"delta >=": max(1e-12, min(g.delta(budget.epsilon) for g in most))}
        if np.isfinite(epsilon := min(g.epsilon(budget.delta) for g in most)):
            nearest["epsilon >="] = epsilon
        raise Infeasible(f"{budget} with {' or '.join(laws)} noise", nearest)
    return min(options, key=lambda m: law_named(m.noise).mean_absolute(m.scale))
