"""How a release depends on the confidential counts of cells: all that inference asks of a mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet._core.errors import ParameterError
from discreet._core.numeric import Floats, Indices, Integers
from discreet.domain import Counts, Domain
from discreet.mechanisms.noise import NoiseLaw
from discreet.mechanisms.reading import Sampling

if TYPE_CHECKING:
    from discreet.mechanisms.base import Mechanism
    from discreet.mechanisms.projections import Surplus
    from discreet.mechanisms.tree import Consistent, Tree

MOST_CELLS = 65_536
_MOST_TABLES = 1 << 15
_MOST_TERMS = 1 << 27  # of the law at all tables


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """How a release depends on the confidential counts of the cells of the domain, or of others."""

    noise: ClassVar[float] = 0.0  # of a count, its standard deviation; 0 where counts are read as they are
    withholds: ClassVar[bool] = False  # nothing is released of some cells
    most_cells: ClassVar[int] = MOST_CELLS  # whose posterior can be drawn
    urn: ClassVar[ContinuedUrn | None] = None  # that the release continues
    tree: ClassVar[Tree | None] = None  # in whose leaves the cells lie
    own_cells: bool = True  # the counts are those of the domain's cells
    sampling: Sampling = "iid"  # how records are drawn
    consistent: Consistent | None = None  # the tree, the levels that got noise, and their estimate

    def obstacle(self, mechanism: Mechanism, records: int) -> str:
        """Return why a release of so many confidential records has no posterior; empty where it has one."""
        if not self.own_cells:
            return f"there is no mechanism-aware posterior for {mechanism.name} around public points"
        if mechanism.domain.size is None or mechanism.domain.size > self.most_cells:
            return f"a mechanism-aware posterior needs a finite domain of at most {self.most_cells:,} cells"
        return ""

    def log_densities(self, domain: Domain, output: Any, tables: Integers) -> Floats | None:
        """Return the log-likelihood of an output at tables, rows of counts, but for a constant, where written."""
        return None

    def mean_variance(self, share: float, cells_per_record: float) -> float:
        """Return about the variance of a mean of ``share`` released records per record, in a sample's units."""
        return 1.0 + share


@dataclass(frozen=True, kw_only=True)
class DrawnFromCounts(Likelihood):
    """Records were drawn given the counts, each cell contributing a factor of its own."""

    # of n, cells, counts and drawn records: a cell's log-likelihood, up to what does not depend on its count
    log_weight: Callable[[int, Indices, Integers, Integers], Floats]
    # of numbers of held cells, and drawn records: the logarithm of one more factor, which is concave
    log_held: Callable[[Integers, int], Floats] | None = None

    def log_densities(self, domain: Domain, output: Any, tables: Integers) -> Floats:
        """Return the sums of the cells' factors, and that of the number of held cells."""
        cells = np.arange(tables.shape[1])
        drawn = np.bincount(domain.flat(output), minlength=len(cells))
        logs = np.array([self.log_weight(int(row.sum()), cells, row, drawn).sum() for row in tables])
        if self.log_held is not None:
            logs += self.log_held((tables > 0).sum(axis=1), int(drawn.sum()))
        return logs


@dataclass(frozen=True, kw_only=True)
class ExactLaw(Likelihood):
    """The mechanism's own law ``log_prob(records, table)``, at one table after another: a sum of so many terms."""

    domain: Domain
    log_prob: Callable[[Any, Counts], float]
    terms: int

    def obstacle(self, mechanism: Mechanism, records: int) -> str:
        """Return that there are too many tables to list, and what has a posterior."""
        cells = self.domain.size or 1
        log_tables = math.lgamma(records + cells) - math.lgamma(cells) - math.lgamma(records + 1)
        if log_tables < math.log(min(_MOST_TABLES, _MOST_TERMS / self.terms)) + 1e-6:
            return ""
        return super().obstacle(mechanism, records) or (
            f"the posterior for {mechanism.name} lists all tables, and there are too many, or their law has too many "
            f"terms (records: {records:,}, cells: {cells:,}). Declare fewer cells, release fewer records, or take a "
            "mechanism with a posterior at any number of records, such as perturbed-histogram or smoothed-histogram"
        )

    def log_densities(self, domain: Domain, output: Any, tables: Integers) -> Floats:
        """Return the law itself."""
        return self.log_probs(np.bincount(domain.flat(output), minlength=tables.shape[1]), tables)

    def tables(self, records: int) -> Integers:
        """Return the counts of all tables of so many records, a row each."""
        return compositions(records, self.domain.size or 1)

    def log_probs(self, drawn: Integers, tables: Integers) -> Floats:
        """Return the log-probability of released numbers of records at each table."""
        cells = self.domain.unflat(np.arange(len(drawn)))
        records = cells.take(np.repeat(np.arange(len(drawn)), drawn))
        distinct = (Counts(records=cells.take(row > 0), frequencies=row[row > 0]) for row in tables)
        return np.array([self.log_prob(records, table) for table in distinct])


def compositions(total: int, cells: int) -> Integers:
    """Return every vector of ``cells`` non-negative integers that sum to ``total``, in lexicographic order."""
    places = total + cells - 1
    flat = np.fromiter(chain.from_iterable(combinations(range(places), cells - 1)), dtype=np.int64)
    return np.diff(flat.reshape(math.comb(places, cells - 1), cells - 1), axis=1, prepend=-1, append=places) - 1


@dataclass(frozen=True, kw_only=True)
class ContinuedUrn(Likelihood):
    """The records continue the Pitman-Yor urn of this strength and discount that holds the table."""

    strength: float
    discount: float

    @property
    def urn(self) -> ContinuedUrn:  # type: ignore[override]
        """The urn itself."""
        return self

    def obstacle(self, mechanism: Mechanism, records: int) -> str:
        """Return that there is none: the urn has a posterior on every domain."""
        return ""

    def mean_variance(self, share: float, cells_per_record: float) -> float:
        """Return that of an urn that holds ``n`` records, ``1 + 2m/n``."""
        return 1.0 + 2.0 * share


@dataclass(frozen=True, kw_only=True)
class NoisyCellCounts(Likelihood):
    """Every cell's count got independent noise; records were drawn from probabilities made of the noisy counts."""

    law: NoiseLaw
    scale: float
    surplus: Surplus
    sampling: Sampling
    threshold: int | None = None  # only counts that reach it were kept, and only cells that are held got noise

    @property
    def noise(self) -> float:  # type: ignore[override]
        """That of the law."""
        return self.law.standard_deviation(self.scale)

    def log_densities(self, domain: Domain, output: Any, tables: Integers) -> Floats | None:
        """Return the log-probability of the noise, where every cell has its own."""
        if self.consistent is not None or output.shape != tables.shape[1:]:
            return None
        return np.asarray(self.law.log_pmf(self.scale, output - tables).sum(axis=1))

    def mean_variance(self, share: float, cells_per_record: float) -> float:
        """Return ``(m/n)(1 + vk/n)``, as of a population as wide as the domain, and 1 more for independent draws."""
        return share * (1.0 + self.noise**2 * cells_per_record) + (self.sampling == "iid")


@dataclass(frozen=True, kw_only=True)
class ThresholdedCounts(NoisyCellCounts):
    """Only cells that are held got noise, and only noisy counts that reach the threshold were kept."""

    withholds: ClassVar[bool] = True

    threshold: int

    def log_densities(self, domain: Domain, output: Counts, tables: Integers) -> Floats:
        """Return the log-probability of the noisy counts that were kept, and of the absence of other held cells."""
        noisy = np.zeros(tables.shape[1], dtype=np.int64)
        noisy[domain.flat(output.records)] = output.frequencies
        logs = [self.law.log_thresholded(self.scale, row[row > 0], noisy[row > 0], self.threshold) for row in tables]
        return np.where((tables[:, noisy > 0] > 0).all(axis=1), logs, -math.inf)


@dataclass(frozen=True, kw_only=True)
class ThresholdedUrn(ThresholdedCounts):
    """Records continue the urn of the noisy counts that were kept, and of new values for the records of others."""

    strength: float  # of the urn, on top of the records that the noisy counts do not account for
    base: Callable[[], Floats]  # returns the probability that a new value is in each cell


@dataclass(frozen=True, kw_only=True)
class NoisyTree(NoisyCellCounts):
    """The nodes of some levels of a tree over the cells got noise."""

    most_cells: ClassVar[int] = 1 << 20
    consistent: Consistent

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        """The tree."""
        return self.consistent.tree


@dataclass(frozen=True, kw_only=True)
class NoLikelihood(Likelihood):
    """How a release depends on the confidential counts is not known: the reason, from public facts, and what to do."""

    reason: str = "how its likelihood depends on the confidential counts is not known"

    def obstacle(self, mechanism: Mechanism, records: int) -> str:
        """Return the reason."""
        return f"{mechanism.name}: {self.reason}"


def no_posterior(mechanism: Mechanism, records: int) -> str:
    """Return why releases of a mechanism have no posterior here, from public facts; empty where they have one."""
    return mechanism.likelihood().obstacle(mechanism, records)


def known_likelihood(mechanism: Mechanism, records: int) -> Likelihood:
    """Return what a release by a mechanism says about the cells' counts; ParameterError where no posterior is known."""
    likelihood = mechanism.likelihood()
    why = likelihood.obstacle(mechanism, records)
    if why or likelihood.urn is not None:
        raise ParameterError(why or f"there is no mechanism-aware posterior for {mechanism.name}")
    return likelihood
