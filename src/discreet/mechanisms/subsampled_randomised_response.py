"""Distinct records, some of them replaced: docs/theory/subsampled-randomised-response.md (T13)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import Infeasible, ParameterError, positive_size, real
from discreet._core.lazy import special
from discreet._core.text import counted
from discreet.domain import Counts, Records
from discreet.mechanisms.base import NEIGHBOURS, held_frequencies
from discreet.mechanisms.calibration import SIZE, Search, one_solution
from discreet.mechanisms.drawn import MIXING, Mixture, obscure
from discreet.mechanisms.forecast import Traits
from discreet.mechanisms.likelihood import ExactLaw
from discreet.mechanisms.reading import BLOCK
from discreet.privacy import ChainProfile, Guarantee, Profile, Relation, SubsampledPair


@sealed
@dataclass(frozen=True, kw_only=True)
class SubsampledRandomisedResponse(Mixture):
    r"""Release ``size`` distinct records, each replaced by a uniform cell with probability ``mixing``.

    Parameters
    ----------
    domain, mixing
        As for :class:`SmoothedHistogram`; the mixing ``q`` is the probability that a record is replaced.
    size : int
        Number of records to release, ``m``, at most the number of records held.

    Raises
    ------
    ParameterError
        When the domain is not finite, a parameter is out of range, or more records are asked for than are held.

    Notes
    -----
    Guarantee (theorem T13): pure ``epsilon = log(1 + (m/n) k (1-q)/q)``, exact, and an upper bound on the profile from
    a dominating pair that reveals how many records were replaced; one draw has the exact profile of theorem T5. Records
    without replacement are independent draws of the population when the table's records are. The kernel draws integers
    only: floating point costs nothing. It needs 16 bytes of memory per record held.

    References
    ----------
    Cheu and Nayak (2024), arXiv:2412.10512; ROO25, equation (45).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=9)})
    >>> mixing = SubsampledRandomisedResponse.published_mixing(1.0, n=100_000, cells=10, size=1000)
    >>> mechanism = SubsampledRandomisedResponse(domain=cells, size=1000, mixing=mixing)
    >>> guarantee = mechanism.guarantee(n=100_000)
    >>> round(mixing, 4), round(guarantee.epsilon(0.0), 4), f"{guarantee.delta(0.1):.1e}"
    (0.0917, 0.6881, '5.5e-37')
    """

    name: ClassVar[str] = "subsampled-randomised-response"
    traits: ClassVar[Traits] = replace(Mixture.traits, theorem="T13", distinct=True)

    @staticmethod
    def published_mixing(epsilon: float, *, n: int, cells: int, size: int = 1) -> float:
        """Return the ``q`` of the published analysis, ``k / (n eps / m + k - 1)``, at most 1.

        It follows from bounding the amplification by subsampling by ``(m/n) e^(eps_0)``, with ``eps_0`` that of one
        response. At one draw it is equation (45) of ROO25; for several the form is derived, not read in the source.

        Parameters
        ----------
        epsilon : float
            Positive.
        n, cells, size : int
            Numbers of confidential records, of cells and of released records.
        """
        epsilon = real("epsilon", epsilon, above=0)
        k = positive_size("cells", cells)
        return min(1.0, k / (positive_size("n", n) * epsilon / positive_size("size", size) + k - 1.0))

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least mixing at a size, or for the largest size, at most ``n``, at a mixing."""
        if search.size is not None and positive_size("size", search.size) > search.n:
            raise Infeasible(f"{counted(search.size, 'record')} of {search.n:,} with {cls.name}", {"size <=": search.n})
        return one_solution(search, replace(SIZE, high=search.n), MIXING)

    def _require_enough(self, n: int) -> None:
        if self.size > n:
            raise ParameterError(f"distinct records: at most {n} of {n} can be released, not {self.size}")

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw distinct records, in random order, and replace each by a uniform cell with the given probability."""
        self._require_enough(x.n)
        places = np.searchsorted(np.cumsum(x.frequencies), rng.choice(x.n, size=self.size, replace=False), side="right")
        for start in range(0, self.size, BLOCK):
            yield obscure(self.domain, x.records.take(places[start : start + BLOCK]), self._units(x), rng)

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y``, summed over how many of its records were not replaced."""
        self._require_enough(x.n)
        q, (cells, times) = self.mixing, np.unique(self.domain.flat(y), return_counts=True)
        ways = np.ones(1, dtype=object)  # whole numbers of any size, of choosing j places and distinct records for them
        for held, drawn in zip(map(int, held_frequencies(self.domain, x, cells)), times.tolist(), strict=True):
            factors = [math.comb(drawn, j) * math.perm(held, j) for j in range(min(drawn, held) + 1)]
            ways = np.convolve(ways, np.array(factors, dtype=object))
        logs = [math.log(w) - math.log(math.perm(x.n, j)) + special.xlogy(j, 1.0 - q) for j, w in enumerate(ways)]
        return float(np.logaddexp.reduce(logs + (self.size - np.arange(len(ways))) * math.log(q / self._cells)))

    def likelihood(self) -> ExactLaw:
        """Return the law itself: distinct records have no factors of single cells."""
        return ExactLaw(domain=self.domain, log_prob=self.log_prob, terms=(self.size + 1) ** 2)

    def _profile(self, n: int, group: int) -> Profile:
        """Return theorem T13; one draw is one of the mixture."""
        if self.size == 1:
            return super()._profile(n, group)
        profile = SubsampledPair(n=n, size=self.size, cells=self._cells, mixing=self.mixing)
        if group == 1:
            return profile
        return ChainProfile(single=profile, group=group)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T13 for a table of ``n`` records."""
        self._require_enough(positive_size("n", n))
        return super().guarantee(relation, n=n)
