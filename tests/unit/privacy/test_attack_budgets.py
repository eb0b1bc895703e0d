"""Budgets in words: what is reached against a profile is what the best test reaches, and mechanisms use all of it."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import norm

from discreet import Advantage, Budget, Risk, Success
from discreet.domain import Domain, Integer, OpenLabels
from discreet.errors import BudgetError, Infeasible
from discreet.mechanisms import named
from discreet.privacy import (
    AttackBudget,
    ConstantProfile,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    Profile,
    TradeOff,
)

CELLS = Domain(columns={"cell": Integer(lower=0, upper=9)})
LIMITS = (Risk(detection=0.05, false_alarms=0.01), Risk(detection=0.9, false_alarms=0.5), Advantage(0.1), Success(0.8))
SKEWED = Success(0.75, prior=0.3)


class Gaussian(Profile):
    """The profile of a shift by ``mu`` standard deviations, in closed form."""

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def _delta(self, epsilon: float) -> float:
        low, high = self.mu / 2 - epsilon / self.mu, -self.mu / 2 - epsilon / self.mu
        return float(norm.cdf(low) - math.exp(epsilon) * norm.cdf(high))


class Listed(Profile):
    """The profile of two distributions that are listed, in both orders."""

    def __init__(self, p: list[float], q: list[float], orders: int = 2) -> None:
        self.pairs = [(np.array(p), np.array(q)), (np.array(q), np.array(p))][:orders]

    def _delta(self, epsilon: float) -> float:
        return max(float(np.maximum(0.0, p - math.exp(epsilon) * q).sum()) for p, q in self.pairs)


def best_test(p: list[float], q: list[float], alarms: float) -> float:
    """Return the power of the randomised test of Neyman and Pearson: outcomes in the order of their ratio."""
    power, left = 0.0, alarms
    for a, b in sorted(zip(p, q, strict=True), key=lambda pair: -pair[0] / pair[1]):
        share = min(1.0, left / b)
        power, left = power + share * a, left - share * b
    return power


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("alarms", [1e-3, 0.01, 0.3, 0.5, 0.9])
def test_the_detection_of_a_gaussian_is_its_closed_form(mu: float, alarms: float) -> None:
    exact = norm.cdf(norm.ppf(alarms) + mu)
    reached = Risk(detection=1 - 1e-9, false_alarms=alarms).reached(Gaussian(mu))
    assert exact * (1 - 1e-9) <= reached <= exact * (1 + 1e-7)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("alarms", [0.001, 0.1, 0.4, 0.8])
def test_the_detection_of_randomised_response_is_its_closed_form(epsilon: float, alarms: float) -> None:
    truth = 1 / (1 + math.exp(-epsilon))
    exact = max(min(math.exp(epsilon) * alarms, 1 - math.exp(-epsilon) * (1 - alarms)), 0.0)
    reached = Risk(detection=1 - 1e-9, false_alarms=alarms).reached(Listed([truth, 1 - truth], [1 - truth, truth]))
    assert reached == pytest.approx(min(exact, best_test([truth, 1 - truth], [1 - truth, truth], alarms)), rel=1e-6)


P, Q = [0.5, 0.3, 0.15, 0.05], [0.2, 0.2, 0.3, 0.3]  # not symmetric: one order is worse for some attackers


def test_an_asymmetric_pair_is_judged_by_the_worse_order() -> None:
    """A profile of one order alone, which this plants, is below what an attacker of the other order reaches."""
    for alarms in (0.01, 0.1, 0.3, 0.7):
        reached = Risk(detection=1 - 1e-9, false_alarms=alarms).reached(Listed(P, Q))
        assert reached >= max(best_test(P, Q, alarms), best_test(Q, P, alarms)) * (1 - 1e-12)
    for prior in (0.1, 0.3, 0.5, 0.8):
        sets = [set(s) for r in range(5) for s in combinations(range(4), r)]
        right = [
            prior * sum(p[i] for i in s) + (1 - prior) * (1 - sum(q[i] for i in s))
            for s, (p, q) in product(sets, [(P, Q), (Q, P)])
        ]
        assert Success(1 - 1e-9, prior=prior).reached(Listed(P, Q)) == pytest.approx(max(right), rel=1e-12)
    lower = [Success(1 - 1e-9, prior=0.4).reached(Listed(p, q, 1)) for p, q in ((P, Q), (Q, P))]
    assert min(lower) < max(lower) == pytest.approx(Success(1 - 1e-9, prior=0.4).reached(Listed(P, Q)))
    assert Advantage(0.5).reached(Listed(P, Q)) == pytest.approx(
        sum(max(0.0, p - q) for p, q in zip(P, Q, strict=True))
    )


@pytest.mark.parametrize("limit", [*LIMITS, SKEWED], ids=str)
@pytest.mark.parametrize(
    "name", ["perturbed-histogram", "gaussian-smoothed-histogram", "subsampled-randomised-response"]
)
def test_a_calibrated_mechanism_meets_the_limit_and_uses_it_up(name: str, limit: Risk) -> None:
    mechanism = named(name).calibrated(limit, domain=CELLS, n=500, size=500)
    guarantee = mechanism.guarantee(n=500)
    assert guarantee.meets(limit)
    (first, value), *_ = limit.to_dict().items()
    assert value * (1 - 1e-3) <= limit.reached(guarantee.profile) <= value, first


def test_discrete_gaussian_noise_is_no_more_than_the_closed_form_needs() -> None:
    """Two counts change by one: the shift is the square root of two, over the scale."""
    limit = Risk(detection=0.05, false_alarms=0.01)
    mechanism = named("gaussian-smoothed-histogram").calibrated(limit, domain=CELLS, n=500)
    mu = norm.ppf(0.05) - norm.ppf(0.01)
    assert mechanism.scale == pytest.approx(math.sqrt(2) / mu, rel=0.01)
    pairs = [Budget(epsilon=e, delta=0.05 - 0.01 * math.exp(e)) for e in (0.2, 1.0, 1.5)]
    by_pairs = [named(mechanism.name).calibrated(pair, domain=CELLS, n=500).scale for pair in pairs]
    assert mechanism.scale < min(by_pairs)  # an epsilon and delta in between ask for more


@pytest.mark.parametrize("limit", [*LIMITS, SKEWED], ids=str)
@pytest.mark.parametrize("name", ["urn-histogram", "perturbed-histogram", "stability-histogram", "marginals"])
def test_what_a_refusal_names_is_enough(name: str, limit: Risk) -> None:
    given = {"urn-histogram": {"strength": 1.0, "size": 499}, "marginals": {"scale": 9.0}}.get(name, {"scale": 1.0})
    words = Domain(columns=dict.fromkeys("abcd", Integer(lower=0, upper=9))) if name == "marginals" else CELLS
    tight = AttackBudget.from_dict(limit.to_dict() | {next(iter(limit.to_dict())): limit.guessing + 1e-3})
    with pytest.raises(Infeasible) as refused:
        named(name).calibrated(tight, domain=words, n=500, **given)
    (first, value) = next(item for item in refused.value.nearest.items() if item[0].split(" ")[0] in limit.to_dict())
    enough = AttackBudget.from_dict(limit.to_dict() | {first.removesuffix(" >="): value * (1 + 1e-12)})
    assert named(name).calibrated(enough, domain=words, n=500, **given).guarantee(n=500).meets(enough)


@pytest.mark.parametrize("name", ["stability-histogram", "marginals"])
@pytest.mark.parametrize("limit", [*LIMITS, SKEWED], ids=str)
def test_a_threshold_is_not_bought_with_labels_of_one_record(name: str, limit: Risk) -> None:
    words = Domain(
        columns={"word": OpenLabels(), **({"cell": Integer(lower=0, upper=9)} if name == "marginals" else {})}
    )
    profile = named(name).calibrated(limit, domain=words, n=50_000).guarantee(n=50_000).profile
    assert profile.delta(math.inf) <= 1e-9
    assert limit.reached(profile) <= limit.limit[1]
    if name != "marginals" or limit.limit[1] < 0.6:  # whose noise has a least scale
        assert limit.reached(profile) >= limit.guessing + 0.95 * (limit.limit[1] - limit.guessing)


def test_numbers_out_of_range_are_refused() -> None:
    for wrong in (
        lambda: Risk(detection=0.01, false_alarms=0.05),
        lambda: Risk(detection=0.5, false_alarms=0.0),
        lambda: Advantage(1.0),
        lambda: Advantage(0.0),
        lambda: Success(0.6, prior=0.7),
        lambda: AttackBudget.from_dict({"detection": 0.5}),
    ):
        with pytest.raises(BudgetError):
            wrong()


def test_nothing_is_reached_where_nothing_is_revealed() -> None:
    nothing = ConstantProfile(value=0.0)
    assert Risk(detection=0.5, false_alarms=0.1).reached(nothing) == pytest.approx(0.1, rel=1e-11)
    assert Success(0.8, prior=0.3).reached(nothing) == pytest.approx(0.7)
    assert Advantage(0.5).reached(nothing) == 0.0
    assert Advantage(0.5).reached(DiscreteGaussianPair(scale=1e-3)) == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_trade_off_and_a_risk_give_one_number_at_one_percent(epsilon: float) -> None:
    for profile in (DiscreteGaussianPair(scale=1.0 / epsilon), DiscreteLaplacePair(scale=1.0 / epsilon)):
        power = float(TradeOff.from_profile(profile).power(np.array([0.01]))[0])
        assert power == pytest.approx(Risk(detection=0.99, false_alarms=0.01).reached(profile), rel=1e-9)
