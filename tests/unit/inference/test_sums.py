"""Numbers with a known sum: all ways to reach it are listed."""

import itertools
import math

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.inference.sums import IntegerLaw, Level, Sums

DRAWS = 60_000


def laws(seed: int, lengths: list[int], lowest: int = 0) -> list[IntegerLaw]:
    rng = seeded(seed)
    return [IntegerLaw.from_logarithms(lowest + i, 3.0 * rng.normal(size=length)) for i, length in enumerate(lengths)]


def weight(each: list[IntegerLaw], numbers: tuple[int, ...]) -> float:
    return sum(law.log(number) for law, number in zip(each, numbers, strict=True))


def listed(each: list[IntegerLaw], total: int, more=lambda numbers: 0.0) -> dict[tuple[int, ...], float]:
    """Return the probability of every way to reach the sum, and, under the key (), the logarithm of all weights."""
    ranges = [range(law.low, law.low + len(law.weights)) for law in each]
    ways = [numbers for numbers in itertools.product(*ranges) if sum(numbers) == total]
    logs = np.array([weight(each, numbers) + more(numbers) for numbers in ways])
    whole = float(np.logaddexp.reduce(logs))
    return {**dict(zip(ways, np.exp(logs - whole).tolist(), strict=True)), (): whole}


def apart(found: np.ndarray, exact: dict[tuple[int, ...], float]) -> float:
    """The largest difference of a frequency, in standard errors of the law that is claimed."""
    values, counts = np.unique(found, axis=0, return_counts=True)
    seen = dict(zip(map(tuple, values.tolist()), counts.tolist(), strict=True))
    assert set(seen) <= set(exact), "numbers that do not reach the sum"
    errors = []
    for numbers, p in exact.items():
        if numbers and p * DRAWS > 20:
            errors.append(abs(seen.get(numbers, 0) / DRAWS - p) / math.sqrt(p * (1.0 - p) / DRAWS + 1e-12))
    return max(errors)


@pytest.mark.parametrize("lengths", [[5, 1, 7, 3], [9], [2, 2, 2, 2, 2, 2, 2], [30, 2, 40]])
def test_the_law_is_exact(lengths: list[int]) -> None:
    """5.5 standard errors are exceeded by a right sampler with rate 4e-8 a number, of which there are below 600."""
    each = laws(1, lengths, 2)
    total = sum(law.low for law in each) + sum(lengths) // 3
    exact, sums = listed(each, total), Sums(each, total)
    assert sums.log == pytest.approx(exact[()], abs=1e-9)
    assert apart(sums.draw(DRAWS, seeded(2)), exact) < 5.5


def test_a_wrong_weight_is_noticed() -> None:
    each = laws(1, [5, 4, 7, 3])
    wrong = [
        IntegerLaw.from_logarithms(law.low, np.log(law.weights) * (1.3 if i == 2 else 1.0))
        for i, law in enumerate(each)
    ]
    assert apart(Sums(wrong, 13).draw(DRAWS, seeded(2)), listed(each, 13)) > 5.5


def test_sets_have_weights_too() -> None:
    """Numbers 0 and 1, 2, 3 to 5; then the first two sets together."""
    each = laws(3, [3, 3, 3, 2, 3, 2])

    def near(centre: float):
        return lambda numbers: -0.4 * (numbers - centre) ** 2

    levels = [
        Level(np.array([0, 0, 1, 2, 2, 2]), [near(3.0), near(1.0), near(9.0)]),
        Level(np.array([0, 0, 1]), [near(4.0), near(9.0)]),
    ]

    def more(numbers: tuple[int, ...]) -> float:
        a, b, c = sum(numbers[:2]), numbers[2], sum(numbers[3:])
        pairs = ((a, 3.0), (b, 1.0), (c, 9.0), (a + b, 4.0), (c, 9.0))
        return sum(float(near(centre)(number)) for number, centre in pairs)

    total = sum(law.low for law in each) + 5
    exact, sums = listed(each, total, more), Sums(each, total, levels)
    assert sums.log == pytest.approx(exact[()], abs=1e-9)
    assert apart(sums.draw(DRAWS, seeded(4)), exact) < 5.5


def test_a_sum_far_out_in_the_tails() -> None:
    """A hundred Poisson numbers of mean 1 whose sum is 1,000: a multinomial, of which the tilt keeps all digits."""
    poisson = IntegerLaw.from_logarithms(0, np.array([-math.lgamma(c + 1.0) for c in range(60)]))
    found = Sums([poisson] * 100, 1000).draw(2000, seeded(5))
    assert (found.sum(axis=1) == 1000).all()
    error = math.sqrt(9.9 / found.size)
    assert abs(found.mean() - 10.0) < 1e-9
    exact = math.comb(1000, 10) * 0.01**10 * 0.99**990
    assert abs((found[:, 0] == 10).mean() - exact) < 5.5 * math.sqrt(exact / 2000)
    assert abs(found.var() - 9.9) < 60.0 * error


def test_a_seed_gives_the_same_draws() -> None:
    """Wherever in memory the laws are."""
    one, other = ([law for i in (1, 2, 1, 3, 2) for law in laws(i, [6])] for _ in range(2))
    shared = [[each[0], each[1], each[0], each[3], each[1]] for each in (one, other[:])]
    rows = [Sums(each, sum(law.low for law in each) + 9).draw(50, seeded(1)) for each in shared]
    assert (rows[0] == rows[1]).all()
