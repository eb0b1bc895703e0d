"""Smoothed histogram: independent draws from a mixture of the empirical distribution and the uniform one.

Reveal-or-Obscure with ``m`` draws is the same kernel: with probability ``mixing`` a uniform cell (obscure), otherwise a
uniformly chosen record (reveal). Theory: docs/theory/smoothed-histogram.md (theorem T5).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet.domain import Counts, Domain, Records
from discreet.errors import ParameterError
from discreet.mechanisms._base import (
    NEIGHBOURS,
    DrawnMechanism,
    Floats,
    held_frequencies,
    positive_size,
    real,
    refuse_unknown,
    require_replacement,
    solve_drawn,
)
from discreet.mechanisms._lookup import locate
from discreet.privacy import Budget, ConstantProfile, Guarantee, MixturePair, Profile, Relation

__all__ = ["SmoothedHistogram"]

_UNIT = 1 << 32  # the mixing probability is a multiple of 2^-32
_BLOCK = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothedHistogram(DrawnMechanism):
    r"""Release ``size`` independent draws from ``(1 - mixing) * empirical + mixing * uniform`` over the cells.

    Parameters
    ----------
    domain : Domain
        Public and finite, ``k`` cells. Its base measure is not used: the mixture is with the uniform distribution.
    size : int
        Number of records to release, ``m``, 1 to 1e10.
    mixing : float
        Probability ``q`` that a record is a uniform cell, in ``[1e-12, 1]``. The kernel rounds it up to a multiple of
        2^-32, which only adds privacy; the guarantee is computed with the value given.

    Raises
    ------
    ParameterError
        When the domain is not finite or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T5, exact for three cells or more, groups included): the divergence between ``m`` draws from
    ``(b+s, b, rest)`` and from ``(b, b+s, rest)``, ``b = q/k``, ``s = g (1-q)/n``; pure
    ``epsilon = m log(1 + s/b)``, which is the papers' bound ``m log(1 + (1-q)k/(nq))`` at ``g = 1``. The kernel draws
    integers only: floating point costs nothing.

    References
    ----------
    PY26, Appendix A.2 (1) and equation (A.1); ROO25, Algorithm 1; Wasserman and Zhou (2010).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=299)})
    >>> mechanism = SmoothedHistogram(domain=cells, size=12_000_000, mixing=0.01)
    >>> f"{mechanism.guarantee(n=11_918_162).delta(0.5):.3g}"
    '8.85e-15'
    """

    name: ClassVar[str] = "smoothed-histogram"
    free: ClassVar[tuple[str, ...]] = ("mixing", "size")

    domain: Domain
    size: int
    mixing: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mixing", real("mixing", self.mixing))
        object.__setattr__(self, "size", positive_size("size", self.size))
        _ = self._cells  # refuses a domain that is not finite
        if not 1e-12 <= self.mixing <= 1:
            raise ParameterError(f"mixing is a probability of at least 1e-12, not {self.mixing!r}")

    @property
    def _mixing_units(self) -> int:
        return math.ceil(Fraction(self.mixing) * _UNIT)

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records independently, in chunks, with uniform integers only."""
        edges = np.cumsum(x.frequencies)
        n = x.n
        for start in range(0, self.size, _BLOCK):
            length = min(_BLOCK, self.size - start)
            value = locate(edges, rng.integers(0, n, size=length), below=n)
            columns = [column.copy() for column in x.records.take(value).columns]
            obscured = np.flatnonzero(rng.integers(0, _UNIT, size=length) < self._mixing_units)
            for column, spec in zip(columns, self.domain.columns.values(), strict=True):
                column[obscured] = rng.integers(0, spec.size, size=len(obscured))
            yield Records(columns=tuple(columns))

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-probability of the sequence ``y``: ``sum log((1-q) n_l / n + q / k)``."""
        frequency = held_frequencies(self.domain, x, self.domain.flat(y))
        q = self._mixing_units / _UNIT
        return float(np.log((1.0 - q) * frequency / x.n + q / self._cells).sum())

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T5 for a table of ``n`` records."""
        require_replacement(self, relation)
        n = positive_size("n", n)
        moved = min(relation.group, n) * (1.0 - self.mixing) / n
        profile: Profile
        if self._cells == 1 or moved == 0.0:
            profile = ConstantProfile(value=0.0)
        else:
            tight = self._cells > 2
            profile = MixturePair(size=self.size, base=self.mixing / self._cells, moved=moved, tight=tight)
        caveats = [f"{self.mixing:.2%} of the released records are uniform over the cells, not from the data"]
        if not profile.exact:
            caveats.append("the delta is an upper bound")
        return Guarantee(
            relation=relation,
            n=n,
            profile=profile,
            kind="unconditional",
            theorem="T5",
            assumptions=("the cells and the mixing probability were chosen without looking at the data",),
            caveats=tuple(caveats),
        )

    def share_not_from_data(self, n: int) -> float:
        """Return ``mixing``."""
        return self._mixing_units / _UNIT

    def predictive(self, shares: Floats, *, support: Records, n: int, rng: np.random.Generator) -> Floats:
        """Return the mixture itself; beyond the support, the base measure stands for the uniform cells."""
        uniform = self.mixing / self._cells
        return np.append((1.0 - self.mixing) * shares + uniform, max(0.0, self.mixing - len(support) * uniform))

    def parameters(self) -> dict[str, Any]:
        """Return ``mixing``."""
        return {"mixing": self.mixing}

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> SmoothedHistogram:
        """Solve for the least mixing at the given size, or for the largest size at the given mixing."""
        relation = Relation(group=group)
        mixing = fixed.pop("mixing", None)
        refuse_unknown(cls.name, fixed, "mixing")

        def promise(made: SmoothedHistogram) -> Guarantee:
            return made.guarantee(relation, n=n)

        return solve_drawn(
            lambda m, q: cls(domain=domain, size=m, mixing=q),
            "mixing",
            between=(1e-12, 1.0),
            budget=budget,
            promise=promise,
            search=promise,
            size=size,
            value=mixing,
            usual=1.0,
        )
