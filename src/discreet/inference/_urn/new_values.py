"""The law of the number of new values in further draws of a Pitman-Yor urn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import integer, positive_size, real
from discreet._core.numeric import log_factorial_coefficient, log_rising

_LISTED = 4096
_DEEP = 45.0  # nats below the mode at which a law is cut off


class CountLaw(NamedTuple):
    """The law of a count, on all its values or on equally spaced ones where there are many.

    ``values``, ``masses``, shape (points,): a value stands for those around it too; masses sum to one.
    """

    values: Floats
    masses: Floats

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.values @ self.masses)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the equal-tailed interval."""
        tail = (1.0 - level) / 2.0
        reached = np.cumsum(self.masses)
        last = len(reached) - 1
        return tuple(float(self.values[min(int(np.searchsorted(reached, q)), last)]) for q in (tail, 1.0 - tail))  # type: ignore[return-value]


def new_values_law(draws: int, *, seen: int, distinct: int, strength: float, discount: float = 0.0) -> CountLaw:
    r"""Return the law of the number of new values in further draws of a Pitman-Yor urn.

    After ``m`` draws with ``k`` distinct values, the number of values first seen in the next ``n`` draws is ``j`` with
    probability

    .. math:: \frac{\prod_{i=k}^{k+j-1}(\theta+i\sigma)}{(\theta+m)_n}\,
       \frac{\mathscr C(n,j;\sigma,-(m-k\sigma))}{\sigma^j} .

    ``draws``: ``n``, at least 0.
    ``seen``, ``distinct``: ``m`` and ``k``, ``1 <= k <= m``.
    ``strength``, ``discount``: ``theta > -sigma``, ``0 <= sigma < 1``.

    References
    ----------
    Lijoi, Mena and Prünster (2007), equation (4); BNP24, section 6.3.

    Examples
    --------
    >>> law = new_values_law(1, seen=4, distinct=2, strength=1.0, discount=0.5)
    >>> law.masses.round(12).tolist()  # the next draw is new with probability (1 + 2/2) / 5
    [0.6, 0.4]
    """
    check_urn(seen, distinct, strength, discount)

    def log_mass(j: Floats) -> Floats:
        if discount > 0.0:
            opened = j * math.log(discount) + log_rising(strength / discount + distinct, j)
        else:
            opened = j * math.log(strength)
        counted = log_factorial_coefficient(draws, j, discount, -(seen - distinct * discount))
        return np.asarray(opened + counted - log_rising(strength + seen, draws))

    law, total = law_of(log_mass, 0, draws)
    if not abs(total - 1.0) < 1e-3:
        raise ArithmeticError("the law of the number of new values does not sum to one")
    return law


def law_of(log_mass: Callable[[Floats], Floats], least: int, most: int) -> tuple[CountLaw, float]:
    """Return a law from its log-masses, and their sum: on all integers of its window, or on 4,096 spread evenly."""
    low, high = least, most
    for _ in range(40):  # narrow down to where the mass is; it has one mode
        if high - low < _LISTED:
            break
        spread = np.concatenate((np.linspace(low, high, 200), low + np.geomspace(1.0, high - low, 100)))
        at = np.unique(np.clip(np.rint(spread), low, high))
        values = log_mass(at)
        kept = np.flatnonzero(values > values.max() - _DEEP)
        narrower = int(at[max(kept[0] - 1, 0)]), int(at[min(kept[-1] + 1, len(at) - 1)])
        if narrower[1] - narrower[0] > 0.9 * (high - low):
            break
        low, high = narrower
    at = np.unique(np.rint(np.linspace(low, high, min(high - low + 1, _LISTED))))
    values = log_mass(at)
    reach = np.gradient(at) if len(at) > 1 else np.ones(1)  # how many integers each stands for
    top = float(values.max())
    masses = np.exp(values - top) * reach
    return CountLaw(at, masses / masses.sum()), float(masses.sum() * math.exp(min(top, 700.0)))


def check_urn(seen: int, distinct: int, strength: float, discount: float) -> None:
    """Refuse parameters and counts that no urn has. Raises ParameterError when one is out of range."""
    real("strength", strength, above=0.0 - real("discount", discount, least=0, below=1))
    integer("distinct", distinct, least=1, most=positive_size("size", seen))
