"""Draws from a mixture of the table and the uniform: docs/theory/smoothed-histogram.md (T5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from discreet._core.boundary import sealed
from discreet.mechanisms.drawn import Mixture


@sealed
@dataclass(frozen=True, kw_only=True)
class SmoothedHistogram(Mixture):
    r"""Release ``size`` independent draws from ``(1 - mixing) * empirical + mixing * uniform`` over the cells.

    Parameters
    ----------
    domain : Domain
        Public and finite, ``k`` cells. Its base measure is not used: the mixture is with the uniform distribution.
    size : int
        Number of records to release, ``m``, 1 to 1e10.
    mixing : float
        Probability ``q`` that a record is a uniform cell, in ``[1e-12, 1]``. Rounded up to a multiple of 2^-32,
        which the kernel draws with.

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
