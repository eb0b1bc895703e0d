"""The discrete noise at and next to its own losses, where a rounded loss could understate delta."""

from __future__ import annotations

import math

import mpmath
import pytest

from discreet.privacy import ConstantProfile, DiscreteGaussianPair, DiscreteLaplacePair, compose


def gaussian_truth(scale: float, group: int, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        s2, e = mpmath.mpf(scale) ** 2, mpmath.mpf(repr(epsilon))  # the decimal that is written
        reach = int(40 * scale) + 3 * group + 5
        mass = {z: mpmath.exp(-mpmath.mpf(z * z) / (2 * s2)) for z in range(-2 * reach, 2 * reach + 1)}
        total = sum(mass.values())
        result = mpmath.mpf(0)
        for w in range(-2 * reach, 2 * reach + 1):
            loss = mpmath.mpf(group * group - group * w) / s2
            if loss > e:
                pmf = sum(mass[z] * mass[w - z] for z in range(-reach, reach + 1) if abs(w - z) <= 2 * reach)
                result += pmf / total**2 * (1 - mpmath.exp(e - loss))
        return result


@pytest.mark.parametrize(
    ("scale", "group"), [(0.1, 1), (0.2, 1), (0.1414213562373095, 1), (0.15, 1), (0.7, 2), (3.0, 1)]
)
@pytest.mark.parametrize("nudge", [-1e-12, -1e-14, 0.0, 1e-14])
@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_gaussian_is_never_below_the_truth(scale: float, group: int, nudge: float, step: int) -> None:
    epsilon = max(0.0, (group * group + group * (step - 1)) / scale**2 * (1 + nudge))
    truth = gaussian_truth(scale, group, epsilon)
    found = DiscreteGaussianPair(scale=scale, group=group).delta(epsilon)
    assert found >= truth
    assert found <= truth * mpmath.mpf("1.01")


@pytest.mark.parametrize("scale", [0.5, 2.0, 7.3])
def test_the_laplace_next_to_its_pure_epsilon(scale: float) -> None:
    pair = DiscreteLaplacePair(scale=scale)
    r = math.exp(-1 / scale)
    for nudge in (1e-9, 1e-13, 3e-16):
        epsilon = 2 / scale * (1 - nudge)
        with mpmath.workdps(50):
            truth = (1 - mpmath.exp(mpmath.mpf(repr(epsilon)) - 2 / mpmath.mpf(scale))) / (1 + mpmath.mpf(r)) ** 2
        assert pair.delta(epsilon) >= truth
    assert pair.delta(pair.pure) == 0.0


def test_composition_with_something_that_reveals_everything_reveals_everything() -> None:
    nothing_left = ConstantProfile(value=1.0)
    for parts in ([nothing_left, DiscreteLaplacePair(scale=10.0)], [DiscreteLaplacePair(scale=0.002)] * 2):
        assert compose(parts).delta(1.0) == 1.0
