"""Noise on several counts, as in a tree or an evolution: against sums in 60 digits, and the pieces of the argument."""

import math
import time
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from test_exact_contract import DIGITS, moved_counts, noise

from discreet.errors import BudgetError
from discreet.privacy import DiscreteGaussianPair, DiscreteLaplacePair
from discreet.privacy.noise import ThresholdedGaussian, _discrete_gauss
from discreet.privacy.profile import power


def convolved(one: list[mp.mpf], times: int) -> list[mp.mpf]:
    """Return the law of a sum, through one product of large integers (Kronecker): exact but for the last digits."""
    bits, slot = 180, 256 * times
    packed = sum(int(w * mp.mpf(2) ** bits) << (slot * i) for i, w in enumerate(one))
    value, out = packed**times, []
    mask = (1 << slot) - 1
    for _ in range(times * (len(one) - 1) + 1):
        out.append(mp.mpf(value & mask) / mp.mpf(2) ** (bits * times))
        value >>= slot
    return out


def gaussian(scale: float, group: int, counts: int, epsilons: list[float]) -> list[mp.mpf]:
    """Sum over the law of the sum of all noises, no formula for it being used."""
    cells, reach = counts, math.ceil(14 * scale) + 2
    law = convolved(list(noise("gaussian", scale, reach).values()), cells)
    s2 = mp.mpf(scale) ** 2
    found = []
    for epsilon in epsilons:
        losses = (mp.mpf(counts * group**2) / 2 - group * (i - cells * reach) for i in range(len(law)))
        terms = (p * -mp.expm1(mp.mpf(repr(float(epsilon))) - loss / s2) for p, loss in zip(law, losses, strict=True))
        found.append(mp.fsum(max(mp.mpf(0), term) for term in terms))
    return found


def laplace(scale: float, group: int, counts: int, epsilons: list[float]) -> list[mp.mpf]:
    delta = moved_counts("laplace", scale, group, counts, group + 1)
    return [delta(mp.mpf(repr(float(epsilon)))) for epsilon in epsilons]


GAUSSIAN_SCALES = (0.25, 0.6, 0.75, 1.6, 1.9999, 2.0, 3.1)
GAUSSIAN_COUNTS = ((1, 1), (1, 2), (1, 4), (1, 10), (2, 5), (2, 6), (3, 2))
LAPLACE_COUNTS = ((1, 1), (1, 2), (1, 4), (1, 7), (1, 12), (3, 2), (3, 6))
CASES = [
    *((DiscreteGaussianPair, gaussian, *one) for one in [*product(GAUSSIAN_SCALES, GAUSSIAN_COUNTS)][::2]),
    *((DiscreteLaplacePair, laplace, *one) for one in [*product((0.25, 0.6, 2.5, 12.0), LAPLACE_COUNTS)][::2]),
]


@pytest.mark.parametrize(("kind", "truth", "scale", "moved"), CASES)
def test_noise_against_the_sum_of_its_losses(kind: Any, truth: Any, scale: float, moved: tuple[int, int]) -> None:
    group, counts = moved
    pair = kind(scale=scale, group=group, counts=counts)
    assert pair.exact
    far = 0.5 * counts * group**2 / scale**2
    if kind is DiscreteLaplacePair:
        assert pair.pure == pytest.approx(group * counts / scale, rel=1e-12)
        assert pair.delta(pair.pure) == 0.0
        far = 0.999 * group * counts / scale
    epsilons = [0.0, 1e-3, 0.3, 1.0, 3.0, far]
    with mp.workdps(DIGITS):
        for epsilon, true in zip(epsilons, truth(scale, group, counts, epsilons), strict=True):
            if true > mp.mpf("1e-25"):
                assert -1e-13 <= float(pair.delta(epsilon) / true - 1) < 1e-9, epsilon


@pytest.mark.parametrize(
    ("scale", "group"), [(0.1, 1), (0.2, 1), (0.1414213562373095, 1), (0.15, 1), (0.7, 2), (3.0, 1)]
)
def test_gaussian_next_to_its_losses_is_never_below_the_truth(scale: float, group: int) -> None:
    """Where a rounded loss could understate delta."""
    losses = [group * (group + step) / scale**2 for step in (-1, 0, 1)]
    epsilons = [max(0.0, loss * (1 + nudge)) for loss in losses for nudge in (-1e-12, -1e-14, 0.0, 1e-14)]
    pair = DiscreteGaussianPair(scale=scale, group=group)
    with mp.workdps(DIGITS):
        for epsilon, truth in zip(epsilons, gaussian(scale, group, 2, epsilons), strict=True):
            assert truth <= pair.delta(epsilon) <= truth * mp.mpf("1.01"), epsilon


def test_large_groups_are_bounded_from_above() -> None:
    coarse = DiscreteLaplacePair(scale=900.0, group=100, counts=8)
    assert not coarse.exact
    assert DiscreteLaplacePair(scale=900.0, group=100).exact
    with mp.workdps(DIGITS):
        epsilons = [0.4]
        for epsilon, truth in zip(epsilons, laplace(900.0, 100, 8, epsilons), strict=True):
            assert 0.0 <= float(coarse.delta(epsilon) / truth - 1) < 0.2


def test_one_pair_composed_is_an_upper_bound_on_several() -> None:
    for one, several in (
        (DiscreteGaussianPair(scale=9.0), DiscreteGaussianPair(scale=9.0, counts=24)),
        (DiscreteLaplacePair(scale=9.0), DiscreteLaplacePair(scale=9.0, counts=24)),
    ):
        composed = power(one, 12)
        for epsilon in (0.1, 0.8, 2.0):
            assert several.delta(epsilon) <= composed.delta(epsilon) <= 1.01 * several.delta(epsilon) + 1e-12


@pytest.mark.parametrize("scale", [0.5, 30.0, 3e4])
def test_a_delta_takes_milliseconds(scale: float) -> None:
    pair = DiscreteGaussianPair(scale=scale, counts=40)
    start = time.process_time()
    pair.delta(1.0)
    assert time.process_time() - start < 1.0


PLAIN = 10**9  # nodes that no block has: every term is summed


@pytest.mark.parametrize(("scale", "counts"), [(60.0, 2), (8.0, 200)])
def test_a_sum_by_nodes_against_the_sum_of_its_terms_in_60_digits(scale: float, counts: int) -> None:
    """The law of the sum in closed form, from scale 2 on to within 1e-16: every term, in a precision of its own."""
    pair = DiscreteGaussianPair(scale=scale, counts=counts)
    spread = math.sqrt(counts) * scale
    with mp.workdps(DIGITS):
        s2 = mp.mpf(scale) ** 2
        norm = 1 / mp.sqrt(2 * mp.pi * counts * s2)
        for epsilon in (0.0, 0.5 * counts / scale**2, 3.0 * counts / spread, 12.0 * counts / spread):
            top = math.floor(counts / 2 - epsilon * scale**2) + 1
            losses = ((w, (mp.mpf(counts) / 2 - w) / s2) for w in range(top - math.ceil(16 * spread), top + 1))
            law = ((norm * mp.exp(-(mp.mpf(w) ** 2) / (2 * counts * s2)), loss) for w, loss in losses)
            terms = (p * -mp.expm1(mp.mpf(repr(float(epsilon))) - loss) for p, loss in law)
            truth = mp.fsum(max(mp.mpf(0), term) for term in terms)
            assert 0 <= float(pair.delta(epsilon) / truth - 1) < 1e-9, epsilon


def test_a_sum_by_nodes_is_that_of_all_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 pairs of all sizes, from the middle of the law to where a float ends: a tenth of the margin apart at most."""
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(400):
        scale, counts = float(np.exp(rng.uniform(0.7, 7.5))), int(np.exp(rng.uniform(0.7, 9.0)))
        pair = DiscreteGaussianPair(scale=scale, group=int(rng.choice([1, 2, 30])), counts=counts)
        rate = pair.group * math.sqrt(counts) / scale
        epsilon = max(0.0, rate * (0.5 * rate + rng.uniform(-6.0, 38.0)))
        if math.sqrt(counts) * scale > 5e4:
            continue
        by_nodes = pair.delta(epsilon)
        with monkeypatch.context() as patched:
            patched.setattr("discreet.privacy.noise._NODES", PLAIN)
            plain = pair.delta(epsilon)
        assert by_nodes == pytest.approx(plain, rel=1e-13), pair
        compared += by_nodes != plain
    assert compared > 100


def test_nodes_that_are_too_far_apart_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two nodes per block in place of 16, the sum is another one."""
    pair = DiscreteGaussianPair(scale=500.0, counts=40)
    truth = pair.delta(0.1)
    _discrete_gauss.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr("discreet.privacy.noise._NODES", 2)
        wrong = pair.delta(0.1)
    _discrete_gauss.cache_clear()
    assert abs(wrong / truth - 1.0) > 1e-10


def test_deltas_at_once_are_those_of_each() -> None:
    pair = DiscreteGaussianPair(scale=40.0, group=37, counts=5)
    epsilons = np.concatenate([[0.0, math.inf, 1e30], np.geomspace(1e-4, 90.0, 40)])
    for profile in (pair, ThresholdedGaussian(noise=pair, q=2, threshold=60, columns=3)):
        assert profile.deltas(epsilons).tolist() == [profile.delta(float(epsilon)) for epsilon in epsilons]
    with pytest.raises(BudgetError, match="at least 0"):
        pair.deltas(np.array([0.5, -0.5]))
