"""The Chinese-restaurant urn continued from the table: docs/theory/pitman-yor.md (T1, T2, T21, caveat T3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import LawNotAvailable, ParameterError, choice, real
from discreet._core.numeric import Integers, log_rising
from discreet.domain import Commonness, Counts, Records
from discreet.mechanisms.base import NEIGHBOURS, Mechanism, require_neighbours
from discreet.mechanisms.drawn import UNIT, PitmanYorUrn, draw_blocks, held_cells, moved_mass, records_of
from discreet.mechanisms.forecast import Forecast, helpful
from discreet.mechanisms.likelihood import ContinuedUrn
from discreet.mechanisms.reading import BLOCK
from discreet.privacy import Code, ConstantProfile, Guarantee, HeldTable, Kind, PitmanYorPairs, Profile, Relation


@sealed
@dataclass(frozen=True, kw_only=True)
class PitmanYor(PitmanYorUrn):
    r"""Release ``size`` draws from the posterior predictive of a Pitman-Yor process prior.

    Draw ``i + 1`` repeats the value ``l`` with probability ``(n_l - discount) / (strength + n + i)``, where ``n_l``
    counts confidential records and earlier draws, and is otherwise a new value from the domain's base measure.

    Parameters
    ----------
    domain : Domain
        Public; usually with a continuous column or an open set of labels. On a finite domain the bounds below hold,
        but ``dirichlet-multinomial`` promises far more for the same law.
    size : int
        Number of records to release, ``m``, 1 to 1e10.
    strength : float
        ``theta``, above ``-discount``, and above 0 when the discount is 0; at most 2^40. Rounded up to a multiple of
        2^-20, which the kernel draws with. ``calibrated`` takes 1 where neither it nor a size is given.
    discount : float
        ``sigma`` in ``[0, 1)``; rounded to the nearest multiple of 2^-20. 0 is the Dirichlet process. Below 0 the
        release is :class:`DirichletMultinomial` with prior ``|discount|``, on a finite domain.
    sampler : {"ancestor", "mixing"}
        Two samplers of one law. ``ancestor`` is the integer urn, exact. ``mixing`` draws the posterior weights as
        floating-point gamma variates, then independent records: its guarantee is of kind ``empirical`` and is not
        published unless the caller accepts that.

    Raises
    ------
    ParameterError
        When a parameter is out of range.

    Notes
    -----
    Guarantee: with discount 0 and a non-atomic base measure, ``delta = m / (theta + n + m - 1)`` at every epsilon,
    attained (theorem T1); with any discount or base measure the same number is an upper bound (theorem T2). For groups
    of ``g`` records ``1 - prod_{i<m} (1 - g/(theta+n+i))``. With a discount delta falls from about there to
    ``1 - prod_{i<m} (1 - (1-sigma)/(theta+n+i))`` as epsilon grows, exactly known up to 1,024 draws (theorem T21).
    Caveat T3: a released value is a confidential record
    verbatim with probability ``n/(theta+n)`` at discount 0, and at most ``(n-sigma)/(theta+n)`` otherwise.

    References
    ----------
    PY26, Algorithm 1, Theorem 2, Proposition 1; Pitman (1995).

    Examples
    --------
    >>> from discreet.domain import Domain, Numeric
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> mechanism = PitmanYor(domain=unit, size=119, strength=1.0)
    >>> f"{mechanism.guarantee(n=11_918_162).delta(0.5):.6g}"
    '9.98466e-06'
    """

    name: ClassVar[str] = "pitman-yor"

    sampler: Literal["ancestor", "mixing"] = "ancestor"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("sampler", self.sampler, ("ancestor", "mixing"))

    @classmethod
    def in_range(cls, numbers: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return what numbers stand for; below discount 0, ``strength / |discount|`` cells of prior ``|discount|``.

        Raises ParameterError when they contradict each other.
        """
        fixed = dict(numbers)
        discount = real("discount", fixed.pop("discount", 0.0))
        if discount >= 0.0:
            return cls.name, {**fixed, "discount": discount}
        strength, cells = fixed.pop("strength", None), fixed.pop("cells", None)
        if "prior" in fixed or discount > -1e-12:
            raise ParameterError("a discount below 0 is minus the prior mass per cell. Its size must be at least 1e-12")
        if strength is not None:
            strength = real("strength", strength)
            if cells is None:
                cells = round(strength / -discount)
        if cells is None or (strength is not None and abs(strength + cells * discount) > 1e-9 * strength):
            raise ParameterError("with a discount below 0, strength must be the number of cells times |discount|")
        return "dirichlet-multinomial", {**fixed, "prior": -discount, "cells": cells}

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records in chunks, in exchangeable order."""
        blocks = self._urn(x, rng) if self.sampler == "ancestor" else self._mixing(x, rng)
        return records_of(blocks, x, self.domain, rng=rng)

    def _mixing(self, x: Counts, rng: np.random.Generator) -> Iterator[Integers]:
        """Draw posterior weights, then independent values; the rest of the mass is a fresh urn (PY26, Prop. 1)."""
        sigma, theta, j = self.discount, self.strength, x.distinct
        gammas = rng.standard_gamma(np.append(x.frequencies - sigma, theta + j * sigma))
        weights = gammas / gammas.sum()
        lengths = [min(BLOCK, self.size - start) for start in range(0, self.size, BLOCK)]
        new = rng.binomial(lengths, weights[-1])
        strength, size = int(self.strength * UNIT) + j * int(sigma * UNIT), int(new.sum())
        nothing = np.empty(0, dtype=np.int64)
        fresh = draw_blocks(nothing, strength=strength, discount=int(sigma * UNIT), size=size, rng=rng)
        waiting = nothing
        old = weights[:-1] / weights[:-1].sum()
        for length, count in zip(lengths, new.tolist(), strict=True):
            while len(waiting) < count:
                waiting = np.concatenate((waiting, next(fresh)))
            repeated = np.repeat(np.arange(j), rng.multinomial(length - count, old))
            values = np.concatenate((repeated, j + waiting[:count]))
            waiting = waiting[count:]
            rng.shuffle(values)
            yield values

    def log_prob(self, y: Records, x: Counts) -> float:
        """Return the log-density of the sequence ``y``.

        The dominating measure is the product of counting measure on the confidential values and, for new values, the
        base measure's own density (counting measure on labels). With ``S_l`` draws of the held value ``l`` and new
        values drawn ``c_1, .., c_k`` times:
        ``sum_l log (n_l - sigma)_{S_l} + sum_i [log(theta + (j+i-1) sigma) + log (1-sigma)_{c_i - 1} + log h_i]
        - log (theta+n)_m``.

        Raises
        ------
        LawNotAvailable
            With an atomic base measure and a discount above 0, where different openings may coincide.
        """
        sigma, theta = self.discount, self.strength
        frequencies = dict(zip(x.records.rows(), x.frequencies.tolist(), strict=True))
        times, density = Counter(y.rows()), dict(zip(y.rows(), self.domain.log_base(y).tolist(), strict=True))
        if self.domain.finite and sigma > 0:
            raise LawNotAvailable("with a finite domain and a discount above 0 new values may coincide with old")
        total, j = -float(log_rising(theta + x.n, len(y))), len(frequencies)
        for row, count in times.items():
            if self.domain.finite:
                total += float(log_rising(theta * math.exp(density[row]) + frequencies.get(row, 0), count))
            elif row in frequencies:
                total += float(log_rising(frequencies[row] - sigma, count))
            else:
                total += math.log(theta + j * sigma) + float(log_rising(1.0 - sigma, count - 1)) + density[row]
                j += 1
        return total

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T1 (discount 0, non-atomic base), T2 (discount 0) or T21 for a table of ``n`` records."""
        return self._promise(relation, n, coupled=self.discount == 0.0)

    def _promise(self, relation: Relation, n: int, *, coupled: bool) -> Guarantee:
        """Return the guarantee by the coupling bound, which is T1 or T2, or by T21, whatever the base measure."""
        n, group = require_neighbours(self, relation, n)
        kind: Kind = "unconditional"
        assumptions = [Code("chosen-without-data", {"what": ["base-measure", "strength", "discount"]})]
        if self.sampler != "ancestor":
            kind = "empirical"
            assumptions.append(Code("variates-follow-laws"))
        profile: Profile
        if coupled:
            tight = self.discount == 0.0 and not self.domain.finite
            profile = ConstantProfile(value=moved_mass(self.size, self.strength, n, group), tight=tight)
            theorem, falls = "T1" if tight else "T2", Code("delta-constant")
        else:
            attained = not self.domain.finite  # where new values differ from all others
            profile = PitmanYorPairs(
                size=self.size, n=n, strength=self.strength, discount=self.discount, group=group, attained=attained
            )
            theorem, falls = "T21", Code("delta-floor", {"delta": profile.delta(math.inf)})
        verbatim = (n - self.discount) / (self.strength + n)
        numbers = {"probability": verbatim, "expected": self.size * verbatim, "size": self.size}
        return Guarantee(
            relation=relation,
            n=n,
            profile=profile,
            kind=kind,
            theorem=theorem,
            assumptions=tuple(assumptions),
            caveats=(Code("verbatim-share", {**numbers, "at_most": self.discount != 0}), falls),
        )

    def likelihood(self) -> ContinuedUrn:
        """Return the urn."""
        return ContinuedUrn(strength=self.strength, discount=self.discount)

    def held_table(self, x: Counts) -> HeldTable:
        """Return what the law at a table depends on."""
        if not self.domain.finite:
            return self._held_urn(x, filtered=False)
        if self.discount > 0:
            raise ParameterError(
                "with a discount, instance-level deltas need a domain with a continuous column or open labels, where "
                "new values differ from all others"
            )
        return held_cells(self.domain, x, size=self.size, strength=self.strength)

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return ``theta/(theta+n)`` at discount 0; otherwise ``(theta + sigma E k)/(theta+n)``, ``k`` distinct values.

        The expectation of ``k`` is that of tables like the one given, or of tables drawn from the process itself. The
        worst table has the most distinct values, ``k = n`` where the domain has as many. Where new values may coincide
        with held ones, on a finite domain, its share is smaller.
        """
        lost, worst, urn = self._expected_new(n, like), self._most_new(n), n + self.strength
        remedies = helpful(self.domain, "discount", "size", "delta", size=self.size == 1, discount=not self.discount)
        return Forecast(
            lost=lost, lost_is="prediction", lost_to="prior", rest="base", urn=urn, worst=worst, remedies=remedies
        )


def guarantee_named(mechanism: Mechanism, theorem: str, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
    """Return what a certificate that names a theorem promises: with a discount T21 is closer than T2, which holds."""
    if isinstance(mechanism, PitmanYor) and theorem == "T2":
        return mechanism._promise(relation, n, coupled=True)
    return mechanism.guarantee(relation, n=n)
