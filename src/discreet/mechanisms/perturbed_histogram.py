"""Perturbed histogram: noisy counts of the cells of a public finite domain, then records drawn from them.

Theory, proofs and the papers' own bound: docs/theory/perturbed-histogram.md (theorem T6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt

from discreet._numeric import least_real
from discreet.domain import Counts, Domain, Records
from discreet.errors import DomainError, Infeasible, ParameterError
from discreet.mechanisms._base import (
    NEIGHBOURS,
    CellCounts,
    ErrorTerms,
    Mechanism,
    Output,
    feasible,
    positive_size,
    real,
    refuse_unknown,
    require_replacement,
)
from discreet.mechanisms._discrete_noise import NoiseKind, discrete_noise, log_noise, mean_absolute
from discreet.mechanisms._projections import clip_and_normalise, simplex_projection, w1_projection
from discreet.privacy import (
    Budget,
    ConstantProfile,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    Guarantee,
    Profile,
    Relation,
)

__all__ = ["PerturbedHistogram"]

_MOST_CELLS = 1 << 25
_BLOCK = 1 << 17
_LARGEST_SCALE = {"laplace": 1e9, "gaussian": 1e6}


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedHistogram(Mechanism):
    r"""Add independent discrete noise to the count of every cell, and draw any number of records from the result.

    Parameters
    ----------
    domain : Domain
        Public and finite, at most 2^25 cells: every cell gets noise, held or not.
    records : int
        The public number of records ``n``, used to normalise.
    scale : float
        Of the noise, in records: ``P(z)`` is proportional to ``e^(-|z|/scale)`` (laplace) or
        ``e^(-z^2/(2 scale^2))`` (gaussian).
    noise : {"laplace", "gaussian"}
        Which.
    projection : {"clip", "simplex", "w1"}
        How noisy counts become probabilities, in public: clip at zero and normalise (the papers' way), Euclidean
        projection onto the simplex, or Wasserstein-1 projection on the line (one ordered column without nulls).
        ``calibrated`` takes ``w1`` where it applies and ``simplex`` elsewhere.

    Raises
    ------
    ParameterError
        When the domain is not finite or too large, or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T6, exact for groups too): the pair in which one cell gains ``g`` records and another loses them,
    with the discrete noise's own law. Records are post-processing: their number costs nothing. Releases draw noise with
    OpenDP's exact samplers, so floating point costs nothing.

    References
    ----------
    PY26, Appendix A.2 (2); Wasserman and Zhou (2010); Canonne, Kamath and Steinke (2020).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=24)})
    >>> mechanism = PerturbedHistogram(domain=cells, records=2000, scale=2.0, noise="laplace")
    >>> round(mechanism.guarantee(n=2000).epsilon(0.0), 6)
    1.0
    """

    name: ClassVar[str] = "perturbed-histogram"
    free: ClassVar[tuple[str, ...]] = ("scale",)

    domain: Domain
    records: int
    scale: float
    noise: NoiseKind = "laplace"
    projection: Literal["clip", "simplex", "w1"] = "clip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real("scale", self.scale))
        if self._cells > _MOST_CELLS:
            raise ParameterError(
                f"perturbed-histogram adds noise to every cell and holds at most {_MOST_CELLS:,} of them; the domain "
                "has more: use dirichlet-multinomial, or declare fewer cells"
            )
        object.__setattr__(self, "records", positive_size("records", self.records))
        if self.noise not in _LARGEST_SCALE:
            raise ParameterError(f"noise is 'laplace' or 'gaussian', not {self.noise!r}")
        if not 2.0**-10 <= self.scale <= _LARGEST_SCALE[self.noise]:
            raise ParameterError(
                f"scale is between 2^-10 and {_LARGEST_SCALE[self.noise]:g} for {self.noise} noise, not {self.scale!r}"
            )
        if self.projection not in ("clip", "simplex", "w1"):
            raise ParameterError(f"projection is 'clip', 'simplex' or 'w1', not {self.projection!r}")
        if self.projection == "w1" and not _on_a_line(self.domain):
            raise ParameterError("projection 'w1' needs a single ordered column without a null cell")

    def _positions(self) -> npt.NDArray[np.float64]:
        (column,) = self.domain.columns.values()
        return column.positions(np.arange(self._cells))

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        """Return the noisy counts of all cells, an int64 array of shape ``(cells,)``."""
        if x.n != self.records:
            raise ParameterError(f"the mechanism was made for {self.records} records, the table has {x.n}")
        counts = np.zeros(self._cells, dtype=np.int64)
        counts[self.domain.flat(x.records)] = x.frequencies
        counts += discrete_noise(self.noise, self.scale, self._cells, rng=rng)
        return counts

    def log_prob(self, y: CellCounts, x: Counts) -> float:
        """Return the log-probability of the noisy counts ``y`` (counting measure on integer vectors)."""
        noise = np.array(y, dtype=np.int64)
        noise[self.domain.flat(x.records)] -= x.frequencies
        return float(log_noise(self.noise, self.scale, noise).sum())

    def probabilities(self, y: CellCounts) -> npt.NDArray[np.float64]:
        """Return the cells' probabilities that records are drawn with: public post-processing of noisy counts."""
        if self.projection == "simplex":
            return simplex_projection(y, self.records)
        if self.projection == "w1":
            return w1_projection(y, self.records, self._positions())
        if y.max() <= 0:  # nothing is left: the base measure
            return np.exp(self.domain.log_base(self.domain.unflat(np.arange(self._cells))))
        return clip_and_normalise(y)

    def finish(self, y: Output, *, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` independent records from the noisy counts, in chunks."""
        weights = self.probabilities(cast(CellCounts, y))
        live = np.flatnonzero(weights)
        share = weights[live] / weights[live].sum()
        for start in range(0, size, _BLOCK):
            count = rng.multinomial(min(_BLOCK, size - start), share)
            cells = np.repeat(live, count)
            rng.shuffle(cells)
            yield self.domain.unflat(cells)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T6 for a table of ``n`` records."""
        require_replacement(self, relation)
        n = positive_size("n", n)
        group = min(relation.group, n)
        profile: Profile = ConstantProfile(value=0.0)
        if self._cells > 1:
            pair = DiscreteLaplacePair if self.noise == "laplace" else DiscreteGaussianPair
            profile = pair(scale=self.scale, group=group)
        return Guarantee(
            relation=relation,
            n=n,
            profile=profile,
            kind="unconditional",
            theorem="T6",
            assumptions=("the cells and the noise were chosen without looking at the data",),
            caveats=(
                f"at most about {self.share_not_from_data(n):.2%} of the released records come from noise alone",
                "any number of records may be drawn from the noisy counts at no further cost",
            ),
        )

    def share_not_from_data(self, n: int) -> float:
        """Return the share that positive noise would have if every cell were empty, ``k E[Z_+] / (n + k E[Z_+])``."""
        noise = 0.5 * self._cells * mean_absolute(self.noise, self.scale)
        return noise / (n + noise) if self._cells > 1 else 0.0

    def error_terms(self, n: int, size: int) -> ErrorTerms:
        """Return the variance of ``size`` independent draws and that of the noise."""
        kept = {"clip": 1.0, "simplex": 0.5, "w1": 0.0}[self.projection]  # of the bias that clipping has: measured
        spread = (1.5 * mean_absolute(self.noise, self.scale) / n) ** 2
        return ErrorTerms(1.0 / size, spread, kept * self.share_not_from_data(n))

    def parameters(self) -> dict[str, Any]:
        """Return ``scale``, ``noise`` and ``projection``."""
        return {"scale": self.scale, "noise": self.noise, "projection": self.projection}

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> PerturbedHistogram:
        """Solve for the least scale; without ``noise``, take the kind with the smaller mean absolute noise."""
        relation = Relation(group=group)
        projection = fixed.pop("projection", "w1" if _on_a_line(domain) else "simplex")
        scale = fixed.pop("scale", None)
        noise = fixed.pop("noise", None)
        refuse_unknown(cls.name, fixed, "scale, noise, projection")

        def at(kind: Any, value: float) -> PerturbedHistogram:
            return cls(domain=domain, records=n, scale=value, noise=kind, projection=projection)

        def solved(kind: str) -> PerturbedHistogram | None:
            if kind == "gaussian" and budget.delta == 0.0:
                return None
            top = _LARGEST_SCALE.get(kind, 1.0)
            found = least_real(
                lambda value: at(kind, value).guarantee(relation, n=n).meets(budget), 2.0**-10, top, relative=1e-9
            )
            return None if found is None else at(kind, found)

        kinds = ("laplace", "gaussian") if noise is None else (noise,)
        if scale is not None:
            mechanism = at(kinds[0], scale)
            guarantee = mechanism.guarantee(relation, n=n)
            if not guarantee.meets(budget):
                best = solved(kinds[0])
                stated: dict[str, float] = {} if best is None else {"scale >=": best.scale}
                feasible(guarantee, budget, f"{budget} with {kinds[0]} noise of scale {scale:g}", **stated)
            return mechanism
        options = [m for m in map(solved, kinds) if m is not None]
        if not options:
            most = [at(kind, _LARGEST_SCALE[kind]).guarantee(relation, n=n) for kind in kinds]
            nearest = {"delta >=": max(1e-12, min(g.delta(budget.epsilon) for g in most))}
            if np.isfinite(epsilon := min(g.epsilon(budget.delta) for g in most)):
                nearest["epsilon >="] = epsilon
            raise Infeasible(f"{budget} with {' or '.join(kinds)} noise", nearest)
        return min(options, key=lambda m: mean_absolute(m.noise, m.scale))


def _on_a_line(domain: Domain) -> bool:
    """Return whether the cells have coordinates on the line: one ordered column without a null cell."""
    (column, *others) = domain.columns.values()
    try:
        return not others and not column.nullable and column.finite and len(column.positions(np.zeros(1, np.int64))) > 0
    except DomainError:
        return False
