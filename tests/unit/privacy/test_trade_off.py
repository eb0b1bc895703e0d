"""The trade-off bound against Neyman-Pearson tests on exact pairs, and the pictures' geometry."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.mechanisms import stated
from discreet.privacy import ConstantProfile, DiscreteLaplacePair, compose
from discreet.privacy.guarantee import LEVELS, TradeOff, furthest

LEVEL = np.unique(np.concatenate((np.linspace(0.0, 1.0, 101), LEVELS)))


def most_powerful(p: np.ndarray, q: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the power of the most powerful test of q against p at each level: the lemma of Neyman and Pearson."""
    order = np.argsort(-np.log(np.maximum(p, 1e-320)) + np.log(np.maximum(q, 1e-320)), kind="stable")
    alpha, power = (np.concatenate(([0.0], np.cumsum(law[order]))) for law in (q, p))
    return np.interp(level, alpha / alpha[-1], power / power[-1])


def two_cells(scale: float, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the laws of two noisy counts under two neighbours, by enumeration of all pairs of counts."""
    z = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(z) / scale)
    later = np.exp(-np.abs(z - 1) / scale)
    total = law.sum()
    return np.outer(later, law).ravel() / total**2, np.outer(law, later).ravel() / total**2


@pytest.mark.parametrize("scale", [0.7, 2.0, 8.0])
def test_no_test_is_above_the_curve_and_the_best_is_on_it(scale: float) -> None:
    p, q = two_cells(scale, reach=max(60, int(30 * scale)))
    best = np.maximum(most_powerful(p, q, LEVEL), most_powerful(q, p, LEVEL))
    power = TradeOff.from_profile(DiscreteLaplacePair(scale=scale)).power(LEVEL)
    assert (power >= best - 1e-9).all()
    np.testing.assert_allclose(power, best, atol=3e-3)


def test_pure_privacy_and_constant_profiles_have_their_closed_forms() -> None:
    value = 0.05
    power = TradeOff.from_profile(ConstantProfile(value=value)).power(LEVEL)
    np.testing.assert_allclose(power, np.minimum(1.0, LEVEL + value), atol=1e-11)
    assert (power >= np.minimum(1.0, LEVEL + value)).all()
    nothing = TradeOff.from_profile(ConstantProfile(value=0.0)).power(LEVEL)
    np.testing.assert_allclose(nothing, LEVEL, atol=1e-11)
    everything = TradeOff.from_profile(ConstantProfile(value=1.0)).power(LEVEL)
    assert (everything == 1.0).all()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("dirichlet-multinomial", {"records": 2000, "size": 1000, "prior": 5.0, "cells": 30}),
        ("smoothed-histogram", {"records": 500, "size": 300, "mixing": 0.3, "cells": 12}),
        ("perturbed-histogram", {"records": 500, "size": None, "scale": 1.5, "cells": 12}),
    ],
)
def test_every_point_of_the_profile_bounds_the_curve(name: str, given: dict[str, float]) -> None:
    _, guarantee = stated(name, **given)  # type: ignore[arg-type]
    power = TradeOff.from_profile(guarantee.profile).power(LEVEL)
    assert (np.diff(power) >= -1e-12).all()
    assert (np.diff(power, 2) <= 1).all()
    for epsilon in (0.0, 0.3, 1.0):
        assert (power <= math.exp(epsilon) * LEVEL + guarantee.delta(epsilon) + 2e-3).all()


def test_a_composition_allows_at_least_what_one_release_does() -> None:
    one = DiscreteLaplacePair(scale=4.0)
    both = compose([one, one])
    assert (TradeOff.from_profile(both).power(LEVEL) >= TradeOff.from_profile(one).power(LEVEL) - 1e-9).all()


def test_the_points_of_a_picture_are_the_profile_and_end_where_delta_does() -> None:
    profile = DiscreteLaplacePair(scale=2.0)
    points = TradeOff.from_profile(profile, upto=3.0, among=0.75).points(upto=3.0)
    assert (0.75, profile.delta(0.75)) in points
    assert all(delta == profile.delta(epsilon) > 0.0 for epsilon, delta in points)
    assert max(epsilon for epsilon, _ in points) < profile.pure
    assert 1.0 <= furthest(profile, 1.0) < 2.0
    assert furthest(ConstantProfile(value=0.1), 1.0) == pytest.approx(1.3)


@pytest.mark.parametrize("among", [701.0, 1e6, 1e300])
def test_an_epsilon_beyond_floating_point_says_nothing_and_breaks_nothing(among: float) -> None:
    power = TradeOff.from_profile(ConstantProfile(value=0.25), among=among).power(np.array([0.0, 1e-4, 0.5]))
    assert power == pytest.approx([0.25, 0.2501, 0.75])
