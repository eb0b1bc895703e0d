"""What entries cost: exact decimals, in two currencies, never more than what was asked for."""

import math
from fractions import Fraction

import pytest

from discreet.errors import BudgetError, Infeasible, ParameterError
from discreet.ledger.filters import CURRENCIES, Cost, Currency
from discreet.privacy import Budget, ConstantProfile, DiscreteGaussianPair, DiscreteLaplacePair, Profile
from discreet.privacy.noise import ThresholdedLaplace

SUMS, ZCDP = CURRENCIES["sums"], CURRENCIES["zcdp"]
WHOLE = Budget(epsilon=1.0, delta=1e-9)


def budget(epsilon: float, delta: float = 0.0) -> Budget:
    return Budget(epsilon=epsilon, delta=delta)


def test_ten_tenths_are_one() -> None:
    """In floating point they are less, and ten times 0.1 by addition 0.9999999999999999."""
    spent, limit = Cost(), SUMS.limit(budget(1.0, 1e-9))
    for _ in range(10):
        cost = SUMS.of_budget(budget(0.1, 1e-10))
        assert (spent + cost).within(limit)
        spent = spent + cost
    assert spent == limit
    assert SUMS.left(spent, WHOLE) == (0.0, 0.0)
    assert not (spent + SUMS.of_budget(budget(1e-300))).within(limit)
    assert not (spent + Cost(delta=Fraction(1, 10**300))).within(limit)
    assert spent.within(limit)


@pytest.mark.parametrize(
    "text", ["0", "1", "0.1", "120.5", "0.000123456789012", "1E-9", "1.25E-13", "1E-300", "12345678901234567890"]
)
def test_costs_are_written_with_all_their_digits(text: str) -> None:
    cost = Cost(Fraction(text), Fraction(text) / 4)
    assert cost.to_dict()["loss"] == text
    assert Cost.from_dict(cost.to_dict()) == cost


@pytest.mark.parametrize(
    "loss", [1, "-1", "1/3", "1e-3", "1E999999999", "1E-9999999", "nan", "9" * 500, "1\n", "١"], ids=range(10)
)
def test_what_is_no_cost_is_refused(loss: object) -> None:
    for values in ({}, {"loss": "1"}, {"loss": "1", "delta": "0", "more": "0"}, {"loss": loss, "delta": "0"}):
        with pytest.raises(ParameterError, match="cost"):
            Cost.from_dict(values)


PROFILES: list[tuple[Profile, Budget]] = [
    (DiscreteGaussianPair(scale=100.0), budget(0.1, 1e-9)),
    (DiscreteLaplacePair(scale=20.0), budget(0.1)),
    (DiscreteLaplacePair(scale=20.0), budget(0.1, 1e-12)),
    (ConstantProfile(value=1e-10), budget(0.5, 1e-10)),
    (ThresholdedLaplace(scale=20.0, threshold=500), budget(0.1, 1e-10)),
]


@pytest.mark.parametrize("currency", CURRENCIES.values(), ids=CURRENCIES.keys())
@pytest.mark.parametrize("which", range(len(PROFILES)))
def test_a_profile_costs_no_more_than_the_budget_it_meets(currency: Currency, which: int) -> None:
    profile, asked = PROFILES[which]
    assert profile.delta(asked.epsilon) <= asked.delta
    most = currency.of_budget(asked)
    cost = currency.of_profile(profile, budget=asked, total=WHOLE)
    assert cost.within(most)
    assert cost == most or cost.loss < most.loss or cost.delta < most.delta
    if currency is SUMS:
        assert cost.delta >= Fraction(profile.delta(asked.epsilon)) * (1 - Fraction(1, 10**12))


def test_a_floor_costs_at_least_itself() -> None:
    cost = ZCDP.of_profile(ConstantProfile(value=1e-10), budget=budget(0.5, 1e-10), total=WHOLE)
    assert cost == Cost(Fraction(0), Fraction(1, 10**10))
    floor = ThresholdedLaplace(scale=20.0, threshold=500)
    assert ZCDP.of_profile(floor, budget=budget(0.1, 1e-10), total=WHOLE).delta >= Fraction(floor.delta(math.inf))


def test_a_profile_that_cannot_be_cut_costs_its_promise() -> None:
    """Its floor is all that was asked for: the bare promise holds, and nothing more is known."""
    floor = ThresholdedLaplace(scale=20.0, threshold=500)
    asked = budget(0.1, floor.delta(0.1))
    assert floor.delta(math.inf) == asked.delta
    assert ZCDP.of_profile(floor, budget=asked, total=WHOLE) == ZCDP.of_budget(asked)


@pytest.mark.parametrize("currency", CURRENCIES.values(), ids=CURRENCIES.keys())
def test_a_profile_that_does_not_meet_its_budget_has_no_cost(currency: Currency) -> None:
    for profile, asked in (
        (DiscreteGaussianPair(scale=100.0), budget(0.1)),
        (DiscreteGaussianPair(scale=100.0), budget(0.1, 1e-300)),
        (ConstantProfile(value=1.0), budget(0.1, 1e-9)),
    ):
        with pytest.raises(Infeasible):
            currency.of_profile(profile, budget=asked, total=WHOLE)


def test_noise_on_counts_is_cheap_in_zcdp() -> None:
    """The same release, each asked to meet (0.1, 1e-10): ten fit into (1, 1e-9) by sums, 87 by zCDP."""
    noise, asked = DiscreteGaussianPair(scale=76.66), budget(0.1, 1e-10)
    assert 0.99e-10 < noise.delta(0.1) <= 1e-10
    fit = []
    for currency in (SUMS, ZCDP):
        limit, cost = currency.limit(WHOLE), currency.of_profile(noise, budget=asked, total=WHOLE)
        spent, count = Cost(), 0
        while (spent + cost).within(limit):
            spent, count = spent + cost, count + 1
        fit.append(count)
    assert fit == [10, 87]


def test_the_whole_is_left_at_first_and_worth_itself_at_last() -> None:
    for currency in CURRENCIES.values():
        limit = currency.limit(WHOLE)
        assert currency.left(Cost(), WHOLE) == pytest.approx((1.0, 1e-9), rel=1e-8)
        assert currency.left(limit, WHOLE)[0] == 0.0
        epsilon, delta = currency.worth(limit, WHOLE)
        assert 0.999999 < epsilon <= 1.0
        assert delta == 1e-9
        assert currency.worth(Cost(), WHOLE)[0] == 0.0
        half = Cost(limit.loss / 2, limit.delta / 2)
        assert 0.4 < currency.worth(half, WHOLE)[0] < 0.8
        assert 0.4 < currency.left(half, WHOLE)[0] < 0.8
    assert ZCDP.worth(Cost(Fraction(1), Fraction(1)), WHOLE)[0] == math.inf


def test_zcdp_promises_no_pure_epsilon() -> None:
    with pytest.raises(BudgetError, match="Choose sums"):
        ZCDP.limit(budget(1.0))
