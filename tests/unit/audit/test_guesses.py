"""The law of the null: no release that keeps its promise, however dependent, exceeds it; some attain it."""

from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix
from scipy.stats import binom

from discreet._core.numeric import Floats
from discreet.audit.attacks import Null, StatedProfile, detectable
from discreet.privacy import DiscreteGaussianPair
from discreet.testing.contract import check_profile


def bare(epsilon: float, delta: float) -> Null:
    return Null(epsilons=np.array([epsilon]), deltas=np.array([delta]))


def most_right(pairs: int, least: dict[int, int], epsilon: float, delta: float) -> float:
    """Return the largest probability of at least so many right guesses, by their number, over ALL mechanisms.

    A linear program: a mechanism from coins to guesses is a table of probabilities, and the promise is linear in it.
    """
    coins = list(product([-1, 1], repeat=pairs))
    outputs = [t for t in product([-1, 0, 1], repeat=pairs) if sum(map(abs, t)) in least]
    size = len(coins) * len(outputs)
    flips = [(i, j) for (i, s), (j, u) in product(enumerate(coins), repeat=2) if sum(map(int.__ne__, s, u)) == 1]
    value = np.zeros(size + len(flips) * len(outputs))
    for (i, s), (k, t) in product(enumerate(coins), enumerate(outputs)):
        value[i * len(outputs) + k] = -(sum(map(int.__eq__, s, t)) >= least[sum(map(abs, t))]) / len(coins)
    promise = lil_matrix((len(flips) * (len(outputs) + 1), len(value)))
    limit = np.zeros(promise.shape[0])
    for e, (i, j) in enumerate(flips):
        excess = size + e * len(outputs)
        for k in range(len(outputs)):
            row = e * len(outputs) + k
            promise[row, i * len(outputs) + k] = 1.0
            promise[row, j * len(outputs) + k] = -np.exp(epsilon)
            promise[row, excess + k] = -1.0
        last = len(flips) * len(outputs) + e
        promise[last, excess : excess + len(outputs)] = 1.0
        limit[last] = delta
    whole = lil_matrix((len(coins), len(value)))
    for i in range(len(coins)):
        whole[i, i * len(outputs) : (i + 1) * len(outputs)] = 1.0
    found = linprog(value, A_ub=promise.tocsr(), b_ub=limit, A_eq=whole.tocsr(), b_eq=np.ones(len(coins)))
    assert found.status == 0
    return -float(found.fun)


@pytest.mark.parametrize(("pairs", "guesses"), [(1, 1), (2, 2), (3, 3), (3, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.5, 0.0), (0.5, 0.05), (1.5, 0.01), (0.0, 0.02)])
def test_the_bound_is_the_largest_over_all_mechanisms(pairs: int, guesses: int, epsilon: float, delta: float) -> None:
    """Above it would be false alarms, below it power given away: it is attained, with delta too."""
    tail = bare(epsilon, delta).tail(guesses, pairs)
    for right in range(1, guesses + 1):
        assert most_right(pairs, {guesses: right}, epsilon, delta) == pytest.approx(tail[right], abs=1e-7)


def test_without_delta_in_the_price_the_bound_would_be_too_small() -> None:
    assert most_right(2, {2: 2}, 0.5, 0.05) > binom.sf(1, 2, 1 / (1 + np.exp(-0.5))) + 0.01


def false_alarms(tails: Iterable[Floats], epsilon: float, delta: float) -> float:
    """Return the most that a level is exceeded by, over all mechanisms on four pairs that choose how many to guess."""
    tails = list(tails)
    levels = {float(value) + 1e-9 for tail in tails for value in tail if value < 1.0}
    rates = []
    for level in levels:
        least = {len(tail) - 1: int((tail > level).sum()) for tail in tails}
        rates.append(most_right(4, least, epsilon, delta) / level)
    return max(rates)


def test_a_release_that_chooses_the_number_of_guesses_gives_no_false_alarms() -> None:
    """By the tails for numbers that were fixed beforehand, 1.068 times as many as stated."""
    null = bare(0.0, 0.2)
    assert false_alarms([null.tail(guesses, 4) for guesses in (1, 2, 4)], 0.0, 0.2) > 1.06
    for delta in (0.01, 0.05):
        assert false_alarms(bare(0.0, delta).tails(4).values(), 0.0, delta) <= 1.0
    for share, tail in null.tails(600).items():
        assert tail == pytest.approx(np.minimum(1.0, 4 * null.tail(round(share * 600), 600)))


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_one_common_coin_that_reveals_all_or_nothing(delta: float) -> None:
    """With probability delta all guesses are right, else all are coins: as dependent as can be. Exact."""
    pairs = 200
    law = (1.0 - delta) * binom.pmf(np.arange(pairs + 1), pairs, 0.5)
    law[pairs] += delta
    for null in (
        bare(0.0, delta),
        bare(1.0, delta),
        Null.from_profile(StatedProfile(epsilon_stated=1.0, delta_stated=delta)),
    ):
        p_values = null.tail(pairs, pairs)
        for level in np.unique(p_values):
            assert law[p_values <= level].sum() <= level
    independent = binom.sf(np.arange(-1, pairs), pairs, 0.5)  # what independent guesses would allow
    assert law[independent <= delta / 2].sum() > delta / 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 30.0])
def test_randomised_response_is_rejected_as_often_as_stated_and_no_more(epsilon: float) -> None:
    pairs, right = 300, 1 / (1 + np.exp(-epsilon))
    p_values = bare(epsilon, 0.0).tail(pairs, pairs)
    law = binom.pmf(np.arange(pairs + 1), pairs, right)
    attained = [law[p_values <= level].sum() / level for level in p_values[p_values > 1e-290]]
    assert max(attained) <= 1.0
    assert max(attained) >= 1.0 - 1e-6
    stricter = bare(epsilon / 2, 0.0).tail(pairs, pairs)
    assert any(law[stricter <= level].sum() > level for level in stricter)  # the test can fail


def test_the_whole_profile_is_stronger_than_one_of_its_points() -> None:
    pair = DiscreteGaussianPair(scale=3.0, counts=2)
    whole, point = Null.from_profile(pair), bare(2.0, pair.delta(2.0))
    assert whole.tail(100, 100)[80] < 0.1 * point.tail(100, 100)[80]


def test_the_bound_stays_a_bound_where_numbers_underflow() -> None:
    for epsilon in (0.0, 0.01, 1.0):
        tail = bare(epsilon, 1e-9).tail(5000, 5000)
        assert (tail > 0).all()
        assert (tail[1:] >= binom.sf(np.arange(5000), 5000, 1 / (1 + np.exp(-epsilon))) * (1 - 1e-9)).all()
        assert tail[-1] >= 1e-9  # all guesses may be right with probability delta


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.0, 0.1), (3.0, 1e-5)])
def test_a_bare_claim_has_the_largest_profile_that_satisfies_it(epsilon: float, delta: float) -> None:
    """That of randomised response which with probability delta tells the truth: two outcomes each way."""
    stated = StatedProfile(epsilon_stated=epsilon, delta_stated=delta)
    check_profile(stated)
    right = np.array([delta, (1 - delta) / (1 + np.exp(-epsilon)), (1 - delta) / (1 + np.exp(epsilon)), 0.0])
    for at in (0.0, 0.5, 1.0, 2.5, 4.0):
        true = np.maximum(right - np.exp(at) * right[::-1], 0.0).sum()
        assert stated.delta(at) == pytest.approx(max(true, 0.0), rel=1e-8)


def test_what_is_said_to_be_detected_is() -> None:
    tail = bare(1.0, 0.0).tail(300, 300)
    rejecting = np.flatnonzero(tail <= 0.001)
    found = detectable(rejecting, 300)
    assert found is not None
    assert binom.sf(rejecting[0] - 1, 300, 1 / (1 + np.exp(-found))) >= 0.95
    assert binom.sf(rejecting[0] - 1, 300, 1 / (1 + np.exp(-found + 0.02))) < 0.95
    assert detectable(np.flatnonzero(tail <= 0.0), 300) is None
