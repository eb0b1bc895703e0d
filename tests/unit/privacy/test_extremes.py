"""Extreme parameters of the histogram and sampler guarantees: numbers, not crashes, and on the safe side."""

from __future__ import annotations

import math

import pytest

from discreet.domain import Domain, Integer, OpenLabels
from discreet.errors import Infeasible
from discreet.mechanisms import (
    DataSpecificRevealOrObscure,
    RevealOrObscure,
    StabilityHistogram,
    SubsampledRandomisedResponse,
)
from discreet.privacy import Budget, Relation

CELLS = Domain(columns={"c": Integer(lower=0, upper=4)})
WORDS = Domain(columns={"w": OpenLabels()})


def test_a_group_as_large_as_the_table() -> None:
    mechanism = SubsampledRandomisedResponse(domain=CELLS, size=1, mixing=0.5)
    one, two = (mechanism.guarantee(Relation(group=g), n=1).delta(0.1) for g in (1, 2))
    assert one == two


def test_losses_beyond_floating_point_are_infinite() -> None:
    mechanism = DataSpecificRevealOrObscure(domain=CELLS, size=1, draw_epsilon=50.0)
    below, beyond = (mechanism.guarantee(Relation(group=g), n=100).delta(1.0) for g in (11, 40))
    assert 0 < below <= beyond <= 1
    with pytest.raises(Infeasible, match="delta >="):  # the search starts where the loss of a group is infinite
        DataSpecificRevealOrObscure.calibrated(
            Budget(epsilon=1e-3, delta=1e-15), domain=CELLS, n=1000, size=10, group=10_000
        )


def test_a_label_at_the_threshold_with_next_to_no_noise() -> None:
    mechanism = StabilityHistogram(domain=WORDS, scale=0.02, threshold=2)
    assert mechanism.guarantee(Relation(group=2), n=1000).delta(1.0) == pytest.approx(1.0)
    # P(Z < 0) = r/(1+r), directly
    r = math.exp(-1 / 0.5)
    half = StabilityHistogram(domain=WORDS, scale=0.5, threshold=2).guarantee(Relation(group=2), n=1000)
    assert half.delta(50.0) >= 1 - r / (1 + r) - 1e-12


def test_group_bounds_do_not_rise_far_with_epsilon() -> None:
    mechanism = SubsampledRandomisedResponse(domain=CELLS, size=3, mixing=1e-6)
    guarantee = mechanism.guarantee(Relation(group=5), n=1000)
    deltas = [guarantee.delta(epsilon) for epsilon in (0.0, 1.0, 5.0, 10.0)]
    assert max(deltas) <= deltas[0] * (1 + 1e-9)
    single = SubsampledRandomisedResponse(domain=CELLS, size=1, mixing=1e-6).guarantee(Relation(group=5), n=1000)
    same = RevealOrObscure(domain=CELLS, size=1, mixing=1e-6).guarantee(Relation(group=5), n=1000)
    assert single.delta(10.0) == same.delta(10.0)
