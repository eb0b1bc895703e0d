"""What histograms with independent discrete noise on cells, or on nodes above them, share: kernel, law, guarantee."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

import numpy as np

from discreet._checks import positive_size, real
from discreet._numeric import least_real, written
from discreet._text import as_written
from discreet.domain import Counts, Records
from discreet.domain._commonness import Commonness
from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms._base import (
    NEIGHBOURS,
    CellCounts,
    Estimates,
    Floats,
    Mechanism,
    Output,
    Outputs,
    Remedy,
    feasible,
    listed,
    require_relation,
)
from discreet.mechanisms._discrete_noise import (
    NoiseKind,
    approximate_noise,
    discrete_noise,
    log_noise,
    mean_absolute,
    noise_reach,
    standard_deviation,
)
from discreet.mechanisms._draws import Sampling, check_sampling, draw_cells
from discreet.mechanisms._projections import l1_projection_error
from discreet.privacy import (
    Budget,
    ConstantProfile,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    Guarantee,
    Profile,
    Relation,
)
from discreet.privacy._guarantee import RelationName

__all__ = ["LARGEST_SCALE", "NoisyCounts", "checked_scale", "solve_scale"]

_MOST_CELLS = 1 << 25
LARGEST_SCALE = {"laplace": 1e9, "gaussian": 1e6}


class NoisyCounts(Mechanism):
    """Independent discrete noise on the count of every cell of a finite domain; records are post-processing.

    A subclass may add noise to the counts of other sets of cells: it says how many counts there are (``_length``), what
    they are (``_counts``), and in how many pairs of them a replaced record moves (``_pairs``). One whose cells are not
    the domain's says which cell a record lies in (``_cell_of``), which record a cell releases (``_records_in``), and
    where an invented table holds that record (``_shares_on``).

    Attributes
    ----------
    records : int
        The public number of records ``n``.
    scale : float
        Of the noise, in records.
    noise : {"laplace", "gaussian"}
        Which.
    sampling : {"iid", "stratified"}
        How records are drawn from the cells' probabilities.
    """

    free: ClassVar[tuple[str, ...]] = ("scale",)
    cells_cost: ClassVar[bool] = False
    theorem: ClassVar[str] = "T6"
    share_is: ClassVar[Literal["bound", "prediction"]] = "bound"
    share_is_of: ClassVar[str] = "are put into other cells than the table's by noise"
    helped_by: ClassVar[tuple[Remedy, ...]] = ("cells", "columns", "epsilon", "delta")

    records: int
    scale: float
    noise: NoiseKind
    sampling: Sampling

    def _check(self) -> None:
        """Check what all of them have in common; called by ``__post_init__``."""
        object.__setattr__(self, "scale", checked_scale(self.noise, self.scale))
        if self._length > _MOST_CELLS:
            raise ParameterError(
                f"{self.name} adds noise to every cell and holds at most {_MOST_CELLS:,} of them; the domain "
                "has more: use dirichlet-multinomial or stability-histogram, or declare fewer cells"
            )
        object.__setattr__(self, "records", positive_size("records", self.records))
        check_sampling(self.sampling)

    @abstractmethod
    def probabilities(self, y: CellCounts) -> Floats:
        """Return the cells' probabilities that records are drawn with: public post-processing of noisy counts."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy counts of all cells, an int64 array of shape ``(cells,)``."""
        if x.n != self.records:
            raise ParameterError(f"the mechanism was made for {self.records} records, the table has {x.n}")
        return self._counts(x) + discrete_noise(self.noise, self.scale, self._length, rng=rng)

    @property
    def _length(self) -> int:
        return self._cells

    @property
    def _pairs(self) -> int:
        return 1 if self._cells > 1 else 0

    def _cell_of(self, records: Records) -> CellCounts:
        return self.domain.flat(records)

    def _records_in(self, cells: CellCounts) -> Records:
        return self.domain.unflat(cells)

    def _shares_on(self, support: Records, probabilities: Floats) -> Floats:
        """Return the cells' probabilities on records of a public support."""
        return probabilities[self.domain.flat(support)]

    def _counts(self, x: Counts) -> CellCounts:
        counts = np.zeros(self._cells, dtype=np.int64)
        np.add.at(counts, self._cell_of(x.records), x.frequencies)
        return counts

    def log_prob(self, y: CellCounts, x: Counts) -> float:
        """Return the log-probability of the noisy counts ``y`` (counting measure on integer vectors)."""
        noise = np.asarray(y, dtype=np.int64) - self._counts(x)
        return float(log_noise(self.noise, self.scale, noise).sum())

    def outputs(self, *tables: Counts) -> Outputs:
        """Return the integer vectors around the tables' counts, all but 1e-13 of them by probability."""
        frequency = np.array([self._counts(x) for x in tables])
        reach = noise_reach(self.noise, self.scale)
        ranges = [
            range(int(low) - reach, int(high) + reach + 1)
            for low, high in zip(frequency.min(axis=0), frequency.max(axis=0), strict=True)
        ]
        return Outputs([np.array(z) for z in listed(*ranges)], 1e-13)

    def finish(self, y: Output, *, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records from the noisy counts, in chunks."""
        weights = self.probabilities(cast(CellCounts, y))
        return map(self._records_in, draw_cells(weights, size, sampling=self.sampling, rng=rng))

    def estimates(self, y: Output) -> Estimates:
        """Return the noisy counts themselves, unbiased, with the noise's standard deviation."""
        error = standard_deviation(self.noise, self.scale)
        return Estimates(
            self._records_in(np.arange(self._cells)),
            np.asarray(y, dtype=np.float64),
            np.full(self._cells, error),
        )

    def predictive(self, shares: Floats, *, support: Records, n: int, rng: np.random.Generator) -> Floats:
        """Return the probabilities that the table's expected counts with one draw of noise are turned into."""
        expected = np.bincount(self._cell_of(support), weights=n * shares, minlength=self._cells)
        noise = approximate_noise(self.noise, self.scale, self._cells, rng=rng)
        held = self._shares_on(support, self.probabilities(np.rint(expected).astype(np.int64) + noise))
        return np.append(held, max(0.0, 1.0 - held.sum()))

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the theorem for a table of ``n`` records."""
        require_relation(self, relation.name)
        n = positive_size("n", n)
        group = min(relation.group, n)
        profile: Profile = ConstantProfile(value=0.0)
        if self._pairs:
            pair = DiscreteLaplacePair if self.noise == "laplace" else DiscreteGaussianPair
            profile = pair(scale=self.scale, group=group, counts=2 * self._pairs)
        return Guarantee.proved(
            profile,
            relation=relation,
            n=n,
            theorem=self.theorem,
            chosen="the cells and the noise",
            caveats=("any number of records may be drawn from the noisy counts at no further cost",),
        )

    def share_not_from_data(self, n: int, like: Commonness | None = None) -> float:
        """Return a bound on the expected total variation from the table's shares: ``(k E|Z| + sqrt(k) s) / (2n)``.

        It holds for whatever is nowhere above the positive part of the noisy counts (or nowhere below it), once these
        are shifted onto the total or not: for all the projections here. Proof:
        docs/theory/laplace-projection-sampler.md.
        """
        if self._cells == 1:
            return 0.0
        return l1_projection_error(self.noise, self.scale, cells=self._cells, total=n)


def checked_scale(noise: str, scale: Any) -> float:
    """Return the scale of discrete noise as a number.

    Raises
    ------
    ParameterError
        When it is out of range for the kind of noise, or there is no such kind.
    """
    value = real("scale", scale)
    if noise not in LARGEST_SCALE:
        raise ParameterError(f"noise is 'laplace' or 'gaussian', not {noise!r}")
    if not 2.0**-10 <= value <= LARGEST_SCALE[noise]:
        raise ParameterError(
            f"scale is between 2^-10 and {as_written(LARGEST_SCALE[noise])} for {noise} noise, not {value!r}"
        )
    return value


Solved = TypeVar("Solved", bound="Scaled")


def _pure(make: Callable[[NoiseKind, float], Solved], epsilon: float, between: Relation, n: int) -> Solved | None:
    """Return the mechanism of the least Laplace scale with a pure epsilon, the papers' own: compared exactly.

    The pure epsilon is a rational number divided by the scale, so the least scale is the float next above a quotient.
    """
    at_one = Fraction(make("laplace", 1.0).guarantee(between, n=n).profile.pure)
    exact = at_one / written(epsilon) if epsilon > 0.0 else Fraction(2**60 if at_one else 0)
    least = max(2.0**-10, _float_from(exact))
    return make("laplace", least) if least <= LARGEST_SCALE["laplace"] else None


def _float_from(exact: Fraction) -> float:
    """Return the least float whose binary value is at least a number: the kernel draws with that value."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


class Scaled(Protocol):
    """A mechanism with noise of some scale."""

    @property
    def scale(self) -> float:
        """Of the noise, in records."""

    @property
    def noise(self) -> NoiseKind:
        """Which kind."""

    def guarantee(self, relation: Relation, *, n: int) -> Guarantee:
        """Return what is promised."""


def solve_scale(
    make: Callable[[NoiseKind, float], Solved],
    budget: Budget,
    *,
    n: int,
    group: int,
    noises: Sequence[NoiseKind],
    scale: float | None,
    relation: RelationName = "replacement",
) -> Solved:
    """Solve for the least scale of the noise, of the kind with the smaller mean absolute noise where there is a choice.

    Parameters
    ----------
    make : callable
        ``make(noise, scale)``.
    budget : Budget
        What may be spent.
    n, group : int
        Numbers of records, and of records a privacy unit holds.
    noises : sequence of {"laplace", "gaussian"}
        Kinds to choose from.
    scale : float or None
        The scale where it is given, with the first of the kinds.
    relation : {"replacement", "add-remove"}
        Between which tables the budget is to hold.

    Raises
    ------
    Infeasible
        With the nearest numbers that meet the budget.
    """
    between = Relation(name=relation, group=group)

    def solved(kind: NoiseKind) -> Solved | None:
        if kind == "gaussian" and budget.delta == 0.0:
            return None
        if kind == "laplace" and budget.delta == 0.0:
            return _pure(make, budget.epsilon, between, n)
        found = least_real(
            lambda value: make(kind, value).guarantee(between, n=n).meets(budget),
            2.0**-10,
            LARGEST_SCALE.get(kind, 1.0),
            relative=1e-9,
        )
        return None if found is None else make(kind, found)

    if scale is not None:
        mechanism = make(noises[0], scale)
        guarantee = mechanism.guarantee(between, n=n)
        if not guarantee.meets(budget):
            best = solved(noises[0])
            stated: dict[str, float] = {} if best is None else {"scale >=": best.scale}
            feasible(guarantee, budget, f"{budget} with {noises[0]} noise of scale {as_written(scale)}", **stated)
        return mechanism
    options = [m for m in map(solved, noises) if m is not None]
    if not options:
        most = [make(kind, LARGEST_SCALE[kind]).guarantee(between, n=n) for kind in noises]
        nearest = {"delta >=": max(1e-12, min(g.delta(budget.epsilon) for g in most))}
        if np.isfinite(epsilon := min(g.epsilon(budget.delta) for g in most)):
            nearest["epsilon >="] = epsilon
        raise Infeasible(f"{budget} with {' or '.join(noises)} noise", nearest)
    return min(options, key=lambda m: mean_absolute(m.noise, m.scale))
