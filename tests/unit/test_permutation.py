"""The permutation of positions: a bijection, whose every place is uniform, also where it has to walk."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet._core.random import ROUNDS, Permutation
from discreet.testing import assert_law
from discreet.testing.statistics import sample_size_for_distance


def images(permutation: Permutation) -> list[int]:
    return permutation.at(np.arange(permutation.size)).tolist()


def test_it_is_a_permutation_of_every_small_number_of_places() -> None:
    for size, key in product(range(258), range(3)):
        assert sorted(images(Permutation.keyed(size, (key, size)))) == list(range(size))


@pytest.mark.parametrize("size", [10**6 - 1, 10**6 + 1, 999_983])
def test_it_is_a_permutation_of_many_places(size: int) -> None:
    assert (np.bincount(images(Permutation.keyed(size, (7, 7))), minlength=size) == 1).all()


def test_places_are_sent_alike_whatever_is_asked_with_them() -> None:
    permutation = Permutation.keyed(10**9, (1, 2))
    places = np.array([0, 5, 123_456_789, 10**9 - 1])
    together = permutation.at(places).tolist()
    assert together == [int(permutation.at(places[i : i + 1])[0]) for i in range(4)]
    assert together == Permutation.keyed(10**9, (1, 2)).at(places).tolist()
    assert together != Permutation.keyed(10**9, (1, 3)).at(places).tolist()


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_each_place_is_uniform_but_for_the_pairs_beyond_the_last(size: int) -> None:
    """Every table of two rounds, listed: the law of a place is within (high low - size) / (high low) of uniform."""
    shape = Permutation.keyed(size, (0, 0))
    high, low = shape.high, shape.low
    seen = np.zeros((size, size))
    tables = product(product(range(high), repeat=low), product(range(low), repeat=high))
    for first, second in tables:
        rounds = (np.array(first), np.array(second))
        seen[np.arange(size), images(Permutation(size, high, low, rounds))] += 1
    apart = 0.5 * np.abs(seen / seen.sum(axis=1, keepdims=True) - 1.0 / size).sum(axis=1)
    assert apart.max() <= (high * low - size) / (high * low) + 1e-12
    assert high * low - size < high


def pairs(rounds: int, *, size: int, count: int) -> list[int]:
    """Return, of many keys, how often two neighbouring places go to each ordered pair of places."""
    seen = np.zeros((size, size), dtype=int)
    for key in range(count):
        whole = Permutation.keyed(size, (key, 99))
        one, two = Permutation(size, whole.high, whole.low, whole.tables[:rounds]).at(np.array([1, 2]))
        seen[one, two] += 1
    return seen[~np.eye(size, dtype=bool)].tolist()


def test_two_places_are_nearly_uniform_together() -> None:
    """1e-6 to fail uniform pairs; 1e-6 to pass a law at total variation 0.2, as one round has, or the identity."""
    size = 6
    uniform = np.full(size * (size - 1), 1.0 / (size * (size - 1)))
    count = sample_size_for_distance(len(uniform), 0.2)
    assert_law(pairs(ROUNDS, size=size, count=count), uniform, distance=0.2)
    for broken in (0, 1):
        with pytest.raises(AssertionError, match="total variation"):
            assert_law(pairs(broken, size=size, count=count), uniform, distance=0.2)
