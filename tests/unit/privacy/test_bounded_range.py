"""The bounded-range profile against a linear programme over all losses in an interval, and against its extremes."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from discreet.privacy.profile import BoundedRangeProfile, power
from discreet.testing import hockey_stick


@pytest.mark.parametrize("spread", [0.05, 0.7, 2.0, 6.0])
@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9])
def test_no_losses_in_an_interval_have_more(spread: float, part: float) -> None:
    epsilon = part * spread
    claimed = BoundedRangeProfile(spread=spread).delta(epsilon)
    best = 0.0
    for top in np.linspace(epsilon, spread, 41):
        inverse = np.exp(np.linspace(-top, spread - top, 81))  # dQ/dP: positive, of mean one
        solved = linprog(
            -np.maximum(0.0, 1.0 - math.exp(epsilon) * inverse),
            A_eq=np.vstack((np.ones(81), inverse)),
            b_eq=[1.0, 1.0],
            bounds=[(0, 1)] * 81,
        )
        if solved.status == 0:
            best = max(best, -solved.fun)
    assert best <= claimed * (1 + 1e-9)
    assert best == pytest.approx(claimed, rel=1e-6)  # the middle of the interval is on the grid


@pytest.mark.parametrize("spread", [1e-6, 0.3, 1.0, 30.0, 900.0])
@mpmath.workdps(50)
def test_the_formula_in_many_digits(spread: float) -> None:
    profile = BoundedRangeProfile(spread=spread)
    for epsilon in (0.0, 0.1 * spread, 0.5 * spread, 0.999 * min(spread, 700.0)):
        true = (1 - mpmath.exp((mpmath.mpf(repr(epsilon)) - spread) / 2)) ** 2 / (1 - mpmath.exp(-mpmath.mpf(spread)))
        assert true <= profile.delta(epsilon) <= true * (1 + 1e-13) + 1e-300
    assert profile.pure == profile.epsilon(0.0) == spread
    assert profile.delta(spread) == 0.0
    assert profile.delta(0.0) == pytest.approx(math.tanh(spread / 4))
    assert not profile.exact


@pytest.mark.parametrize("top", [0.3, 0.5, 0.75, 1.0])
def test_two_releases_compose(top: float) -> None:
    """Two losses of ``top`` or ``top - 1`` stay within the composed profile."""
    share = (1 - math.exp(top - 1)) / (1 - math.exp(-1))
    p = np.array([share, 1 - share])
    q = p * np.exp([-top, 1 - top])
    log_p, log_q = (np.log(np.maximum(np.outer(v, v).ravel(), 1e-300)) for v in (p, q))
    epsilons = [0.0, 0.3, 1.0, 1.7]
    both = power(BoundedRangeProfile(spread=1.0), 2)
    assert np.all(hockey_stick(log_p, log_q, epsilons) <= [both.delta(e) + 1e-12 for e in epsilons])
    assert both.pure == pytest.approx(2.0)
