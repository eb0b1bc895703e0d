"""The profile of every mechanism whose privacy losses lie in an interval: the exponential mechanism's (T10)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet._core.numeric import not_above, up
from discreet.privacy._profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRangeProfile(Profile):
    r"""The largest profile that losses within an interval of a given length can have, wherever the interval lies.

    ``spread``: length of the interval, positive and finite, rounded up by the caller.

    Notes
    -----
    ``delta(eps) = (1 - e^(-(spread - eps)/2))^2 / (1 - e^(-spread))`` up to ``eps = spread``, the pure epsilon.
    It is attained by some mechanism, not by every one: an upper bound.
    At ``eps = 0`` it is ``tanh(spread / 4)``, where pure differential privacy alone gives ``tanh(spread / 2)``.

    References
    ----------
    Dong, Durfee and Rogers (2020). Proof: docs/theory/exponential-histogram.md, theorem T10.

    Examples
    --------
    >>> round(BoundedRangeProfile(spread=1.0).delta(0.0), 6)
    0.244919
    """

    spread: float

    @property
    def pure(self) -> float:
        """``spread``."""
        return self.spread

    def _delta(self, epsilon: float) -> float:
        half = math.expm1(0.5 * (not_above(epsilon) - self.spread))
        return up(half * half / -math.expm1(-self.spread), 16)
