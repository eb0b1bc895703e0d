"""The exact draw from log-weights: integer weights near the given ones, and draws that follow the integers."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from discreet._core.random import draw_weighted, integer_weights, rounding, seeded
from discreet.testing import assert_law
from discreet.testing.statistics import sample_size_for_distance


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0, 1e5])
@mpmath.workdps(60)
def test_integer_weights_are_near_the_given_ones(scale: float) -> None:
    given = -scale * seeded(1).exponential(size=200)
    mantissa, octave = integer_weights(given)
    assert mantissa.min() >= 2**36
    assert mantissa.max() <= 2**37
    assert octave.max() == 0
    bound = rounding(float(np.ptp(given)))
    for m, o, g in zip(mantissa.tolist(), octave.tolist(), given.tolist(), strict=True):
        apart = mpmath.log(m) + o * mpmath.log(2) - (mpmath.mpf(g) - mpmath.mpf(given.max())) - 36 * mpmath.log(2)
        assert abs(apart) <= bound


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, 1.0, 1.0], [0.02, 0.5, 0.1, 0.38], [1e-9, 0.3, 0.3, 0.3999, 1e-4], [0.125, 0.125, 0.75]]
)
def test_draws_follow_the_weights(weights: list[float]) -> None:
    """1e-6 to fail a right sampler, 1e-6 to pass one at total variation 0.05."""
    law: npt.NDArray[np.float64] = np.array(weights) / sum(weights)
    rng = seeded(3)
    count = sample_size_for_distance(len(law), 0.05)
    seen = np.bincount([draw_weighted(np.log(law) - 7.0, rng=rng) for _ in range(count)], minlength=len(law))
    assert_law(seen, law, distance=0.05)


class Scripted:
    """A generator that gives one ticket, then given bits, and then the ticket 0."""

    def __init__(self, ticket: int, bits: bytes) -> None:
        self.tickets, self.bits = [ticket, 0], bits

    def integers(self, low: int, high: int) -> int:
        ticket = self.tickets.pop(0)
        assert low <= ticket < high
        return ticket

    def bytes(self, count: int) -> bytes:
        return self.bits * count


def test_the_tail_has_its_own_probability_however_small() -> None:
    """Weights 1, 2^-5000 and 2^-5000: tickets from 2^36 up to 2^36 + 2^-4963 belong to the small ones."""
    given = np.log(2.0) * np.array([-5000.0, 0.0, -5000.0])
    assert integer_weights(given)[1].tolist() == [-5000, 0, -5000]
    at: Any = Scripted(2**36 - 1, b"\xff")
    assert draw_weighted(given, rng=at) == 1
    at = Scripted(2**36, b"\x00")
    assert draw_weighted(given, rng=at) == 0
    at = Scripted(2**36, b"\xff")  # beyond the total: drawn again
    assert draw_weighted(given, rng=at) == 1
    assert at.tickets == []
