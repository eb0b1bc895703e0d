"""How a release depends on the confidential counts of cells: all that inference asks of a mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.errors import ParameterError
from discreet.mechanisms.noise import NoiseLaw
from discreet.mechanisms.reading import Sampling

if TYPE_CHECKING:
    from discreet.mechanisms.base import Mechanism
    from discreet.mechanisms.projections import Surplus
    from discreet.mechanisms.tree import Consistent


@dataclass(frozen=True, kw_only=True)
class DrawnFromCounts:
    """Records were drawn given the counts, each cell contributing a factor of its own.

    ``log_weight``: ``f(n, cells, counts, drawn)``, the log-likelihood of ``drawn`` released records of each cell at
    these counts of a table of ``n`` records, up to what does not depend on the counts.
    ``log_held``: ``f(held, drawn)``, the logarithm of a factor that the number of held cells has beside, concave, at
    numbers of held cells and of released records; None where there is no such factor.
    """

    log_weight: Callable[[int, Indices, Integers, Integers], Floats]
    log_held: Callable[[Integers, int], Floats] | None = None


@dataclass(frozen=True, kw_only=True)
class DrawnByLeast:
    """Records were drawn given the counts by one of several laws, which the smallest count of all cells chooses.

    ``mixing``: ``f(n)``, a parameter of the law at each smallest count of a table of ``n`` records. It falls, and from
    the last one on it stays.
    ``given``: ``f(mixing)``, what the release tells at one value of the parameter.
    """

    mixing: Callable[[int], Floats]
    given: Callable[[float], DrawnFromCounts]


@dataclass(frozen=True, kw_only=True)
class NearestCounts:
    """The released records' counts were drawn, the nearer their shares are to the table's the likelier.

    The distance is the sum of the absolute differences between shares of the cells.

    ``rate``: ``f(n)``; the probability is proportional to ``exp(-rate distance)``.
    """

    rate: Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class NearestBySquares:
    """Counts near the table's were drawn as in NearestCounts, for a distance that is the root of a sum of squares.

    ``squares``: ``f(n, counts, drawn)``, what each cell adds to the square of the distance.
    ``log_whole``: ``f(rate, n, counts)``, the logarithm of what normalises the law at this rate, for each row of
    counts.
    ``listed``: how many outcomes that lists.
    ``sharpest``: a rate at which one record more or less is told from none: beyond it the law is a rounding.
    """

    rate: Callable[[int], float]
    squares: Callable[[int, Integers, Integers], Floats]
    log_whole: Callable[[float, int, Integers], Floats]
    listed: int
    sharpest: float


@dataclass(frozen=True, kw_only=True)
class DistinctRecords:
    """Distinct records of the table, each replaced by a uniform cell with probability ``mixing``."""

    mixing: float


@dataclass(frozen=True, kw_only=True)
class ContinuedUrn:
    """The records continue the Pitman-Yor urn of this strength and discount that holds the table."""

    strength: float
    discount: float


@dataclass(frozen=True, kw_only=True)
class NoisyCellCounts:
    """Every cell's count got independent noise; records were drawn from probabilities made of the noisy counts.

    ``law``, ``scale``: of the noise, in records.
    ``surplus``, {"rescaled", "shifted", "moved"}: how the projection gets rid of what the positive parts of the noisy
    counts have above the total, or nearly so: it divides them, takes an unknown number off all of them, or sets them
    off against negative neighbours.
    ``sampling``: how the records were drawn.
    ``own_cells``: whether the cells are those of the domain.
    """

    law: NoiseLaw
    scale: float
    surplus: Surplus
    sampling: Sampling
    own_cells: bool = True


@dataclass(frozen=True, kw_only=True)
class ThresholdedCounts(NoisyCellCounts):
    """Only cells that are held got noise, and only noisy counts that reach ``threshold`` were kept."""

    threshold: int


@dataclass(frozen=True, kw_only=True)
class ThresholdedUrn(ThresholdedCounts):
    """Records continue the urn that holds the noisy counts that were kept, and new values for the records of others.

    ``strength``: of the urn, on top of the records that the noisy counts do not account for.
    ``base``: returns the probability that a new value is in each cell.
    """

    strength: float
    base: Callable[[], Floats]


@dataclass(frozen=True, kw_only=True)
class NoisyTree(NoisyCellCounts):
    """The nodes of some levels of a tree over the cells got noise.

    ``consistent``: the tree, the levels that got noise, and the estimate that they give.
    """

    consistent: Consistent


@dataclass(frozen=True, kw_only=True)
class NoLikelihood:
    """How a release depends on the confidential counts is not known: the reason, from public facts, and what to do."""

    reason: str = "how its likelihood depends on the confidential counts is not known"


CellLikelihood = DistinctRecords | DrawnByLeast | DrawnFromCounts | NearestBySquares | NearestCounts | NoisyCellCounts

Likelihood = (
    ContinuedUrn
    | DistinctRecords
    | DrawnByLeast
    | DrawnFromCounts
    | NearestBySquares
    | NearestCounts
    | NoisyCellCounts
    | NoLikelihood
)


# Of which mechanisms a posterior is known, and what they tell of the confidential counts.

MOST_CELLS = 65_536


def no_posterior(mechanism: Mechanism) -> str:
    """Return why releases of a mechanism have no posterior here, from public facts; empty where they have one."""
    likelihood, name, cells = mechanism.likelihood(), mechanism.name, mechanism.domain.size
    if isinstance(likelihood, ContinuedUrn):
        return ""
    if isinstance(likelihood, NoLikelihood):
        return f"there is no mechanism-aware posterior for {name}, since {likelihood.reason}"
    if not getattr(likelihood, "own_cells", True):
        return f"there is no mechanism-aware posterior for {name} around public points"
    if cells is None or cells > MOST_CELLS:
        return f"a mechanism-aware posterior needs a finite domain of at most {MOST_CELLS:,} cells"
    return ""


def known_likelihood(mechanism: Mechanism) -> CellLikelihood:
    """Return what a release by a mechanism says about the counts of the domain's cells.

    Raises ParameterError for mechanisms of which no posterior is known here, before anything is computed.
    """
    likelihood, why = mechanism.likelihood(), no_posterior(mechanism)
    if why or isinstance(likelihood, ContinuedUrn | NoLikelihood):
        raise ParameterError(why or f"there is no mechanism-aware posterior for {mechanism.name}")
    return likelihood
