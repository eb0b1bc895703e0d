r"""The part of a Pitman-Yor process that no released value shows, as finitely many values drawn from the base measure.

:math:`F=\sum_i V_i\prod_{l<i}(1-V_l)\,\delta_{\phi_i}` with :math:`V_i\sim\mathrm{Beta}(1-\sigma,\theta+i\sigma)` and
:math:`\phi_i` from :math:`H`. After ``T`` sticks what is left is :math:`\rho F'`, with
:math:`F'\sim PY(\sigma,\theta+T\sigma,H)`; we put it on ``M`` values with symmetric Dirichlet weights whose parameter
:math:`a=(1-v)/(Mv-1)`, :math:`v=(1-\sigma)/(\theta+T\sigma+1)`, gives every :math:`F'(g)` its exact mean and variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats

_MOST_STICKS = 256
_MOST_REST = 1024


class TailPlan(NamedTuple):
    """How a tail is cut off.

    ``sticks``, ``rest``: ``T`` and ``M``.
    ``left``: Expected mass, of the whole distribution, left after the sticks: the part of which only the first two
    moments are exact.
    """

    sticks: int
    rest: int
    left: float


def tail_plan(strength: float, discount: float, *, mass: float, tolerance: float) -> TailPlan:
    """Choose the number of sticks such that less than ``tolerance`` is left, or 256 of them.

    ``strength``, ``discount``: of the tail's own process (the largest ones, where draws differ).
    ``mass``: the tail's expected share of the whole.
    ``tolerance``: what may be left.
    """
    steps = np.arange(1, _MOST_STICKS + 1)
    left = mass * np.cumprod((strength + steps * discount) / (strength + 1.0 + (steps - 1) * discount))
    enough = np.flatnonzero(left <= tolerance)
    if mass <= tolerance:
        return TailPlan(0, 1, mass)
    if len(enough):
        return TailPlan(int(enough[0]) + 1, 1, float(left[enough[0]]))
    spread = (1.0 - discount) / (strength + _MOST_STICKS * discount + 1.0)
    return TailPlan(_MOST_STICKS, int(min(_MOST_REST, np.ceil(2.0 / spread))), float(left[-1]))


def tail_weights(strength: Floats, discount: Floats, plan: TailPlan, rng: np.random.Generator) -> Floats:
    """Draw the weights of a tail, which sum to one in each row.

    ``strength``, ``discount``, shape (D,): of each draw; ``strength > -discount``.
    ``plan``: where to stop.
    ``rng``: source of the draws.
    Returns ndarray of float64, shape (D, plan.sticks + plan.rest).
    """
    theta, sigma = strength[:, None], discount[:, None]
    steps = np.arange(1, plan.sticks + 1)
    a = rng.standard_gamma(np.broadcast_to(1.0 - sigma, (len(theta), plan.sticks)))
    b = rng.standard_gamma(theta + steps * sigma)
    broken = a / np.maximum(a + b, np.finfo(float).tiny)
    remaining = np.cumprod(1.0 - broken, axis=1)
    before = np.concatenate((np.ones_like(theta), remaining), axis=1)
    spread = (1.0 - sigma) / (theta + plan.sticks * sigma + 1.0)
    room = plan.rest * spread - 1.0  # with too few values for the variance, equal weights come nearest
    parameter = np.where(room > 1e-6, (1.0 - spread) / np.maximum(room, 1e-6), 1e6)
    rest = rng.standard_gamma(np.broadcast_to(parameter, (len(theta), plan.rest)))
    total = rest.sum(axis=1, keepdims=True)
    rest = np.where(total > 0.0, rest / np.where(total > 0.0, total, 1.0), 1.0 / plan.rest)
    return np.concatenate((before[:, :-1] * broken, before[:, -1:] * rest), axis=1)
