"""What a profile is worth in approximate zCDP, against exact results and sums over atoms; and the way back."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

from discreet.errors import BudgetError
from discreet.privacy import ConstantProfile, DiscreteGaussianPair, DiscreteLaplacePair, Profile, zcdp
from discreet.privacy.profile import power
from discreet.privacy.zcdp import approximate_zcdp, pair_as_zcdp, zcdp_budget, zcdp_delta, zcdp_epsilon


@dataclass(frozen=True)
class Atoms(Profile):
    """The profile of a symmetric pair: losses and their probabilities under the first law, and mass at infinity."""

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float = 0.0

    @classmethod
    def symmetric(cls, losses: tuple[float, ...], masses: tuple[float, ...], infinite: float = 0.0) -> Self:
        """Put ``m`` at each loss and ``m e^-loss`` at its opposite, scaled to one."""
        both = [*losses, *(-one for one in losses)]
        weights = [*masses, *(m * math.exp(-one) for one, m in zip(losses, masses, strict=True))]
        whole = sum(weights) / (1.0 - infinite)
        return cls(tuple(both), tuple(w / whole for w in weights), infinite)

    @property
    def pure(self) -> float:
        return math.inf if self.infinite else max(self.losses)

    def _delta(self, epsilon: float) -> float:
        parts = zip(self.losses, self.masses, strict=True)
        return self.infinite + sum(m * -math.expm1(epsilon - loss) for loss, m in parts if loss > epsilon)

    def rho(self) -> float:
        """The supremum of D_alpha/alpha over many alphas, from the atoms: a bound from below that is hardly below."""
        held = np.array(self.masses) > 0.0
        loss, mass = np.array(self.losses)[held], np.array(self.masses)[held] / (1.0 - self.infinite)
        beyond = np.geomspace(1e-6, 1e6, 4001)
        moments = [np.logaddexp.reduce(np.log(mass) + a * loss) / a / (1.0 + a) for a in beyond]
        return float(max(moments))


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 30.0])
def test_randomised_response_has_the_rho_of_a_pure_promise(epsilon: float) -> None:
    response = Atoms.symmetric((epsilon,), (1.0,))
    rho, delta = approximate_zcdp(response, cut=0.0)
    exact = mp.mpf(epsilon) * mp.tanh(mp.mpf(epsilon) / 2)
    assert delta == 0.0
    assert exact <= rho <= 1.01 * exact
    bare, _ = pair_as_zcdp(epsilon, 0.0)
    assert exact <= bare <= exact * (1 + mp.mpf(10) ** -14)


def test_a_promise_counts_as_the_decimal_that_it_is_written_as() -> None:
    for epsilon in (0.1, 0.3, 1.1, 1e-9):
        with mp.workdps(40):
            exact = mp.mpf(repr(epsilon)) * mp.tanh(mp.mpf(repr(epsilon)) / 2)
            assert pair_as_zcdp(epsilon, 1e-9)[0] >= exact


@pytest.mark.parametrize(
    ("losses", "masses"),
    [
        ((0.5, 2.0), (1.0, 0.01)),
        ((0.01, 5.0), (1.0, 1e-6)),
        ((1e-4, 0.3, 30.0), (1.0, 1e-3, 1e-12)),  # the rare loss is worst at an alpha far from 1
        ((1e-3, 600.0), (1.0, 1e-200)),
        ((4.0, 4.1, 9.0), (1.0, 1.0, 1e-5)),
    ],
)
@pytest.mark.parametrize("infinite", [0.0, 1e-9, 0.2])
def test_any_pair_gets_the_supremum_over_all_orders(
    losses: tuple[float, ...], masses: tuple[float, ...], infinite: float
) -> None:
    pair = Atoms.symmetric(losses, masses, infinite)
    if infinite == 0.0:
        rho, delta = approximate_zcdp(pair, cut=0.0)
        assert delta == 0.0
        assert pair.rho() * (1 - 1e-9) <= rho
        # The dots of the grid miss the corner of a profile: it then lies below a chord, by a little.
        assert rho <= pair.rho() * 1.02
    else:
        rho, delta = approximate_zcdp(pair, cut=1e-6 * infinite)
        assert infinite <= delta <= infinite * (1 + 2e-6)
        assert rho <= pair.rho() * 1.02


@pytest.mark.parametrize("infinite", [1e-9, 0.2, 0.9])
def test_what_is_left_after_a_leak_is_scaled_to_one(infinite: float) -> None:
    """Nothing but the leak is cut off here, up to a part in 1e9."""
    pair = Atoms.symmetric((0.5, 2.0), (1.0, 0.1), infinite)
    rho, _ = approximate_zcdp(pair, cut=1e-12)
    assert pair.rho() * (1 - 1e-6) <= rho <= pair.rho() * 1.02


def test_orders_that_are_not_looked_at_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the search ends early, no loss is above the reach: the result is larger, and holds."""
    pair = Atoms.symmetric((1e-4, 0.3, 30.0), (1.0, 1e-3, 1e-12))
    monkeypatch.setattr(zcdp, "_STEEP", 1e-3)
    assert approximate_zcdp(pair, cut=0.0)[0] >= pair.rho()


@pytest.mark.parametrize("counts", [1, 2])
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0, 100.0])
def test_discrete_gaussian_noise_has_one_over_twice_the_variance(scale: float, counts: int) -> None:
    """Canonne, Kamath and Steinke (2020). What is cut off takes away next to nothing."""
    rho, delta = approximate_zcdp(DiscreteGaussianPair(scale=scale, counts=counts), cut=1e-14)
    exact = counts / (2 * scale**2)
    assert delta <= 1e-14
    assert exact * (1 - 1e-6) <= rho <= exact * 1.01


@pytest.mark.parametrize(("scale", "group"), [(300.0, 300), (300.0, 30), (100.0, 500)])
def test_fine_laplace_noise_has_the_published_rho(scale: float, group: int) -> None:
    """``epsilon + e^-epsilon - 1`` for each of two counts, in the limit of a fine grid (Harrison and Manurangsi)."""
    epsilon = group / scale
    rho, delta = approximate_zcdp(DiscreteLaplacePair(scale=scale, group=group), cut=0.0)
    assert delta == 0.0
    assert rho == pytest.approx(2 * (epsilon + math.exp(-epsilon) - 1), rel=0.01)


def test_composed_noise_has_the_sum() -> None:
    rho, delta = approximate_zcdp(power(DiscreteGaussianPair(scale=20.0, counts=2), 10), cut=1e-11)
    exact = 10 / 20.0**2
    assert delta <= 1e-11 + 2e-13
    assert exact * (1 - 1e-6) <= rho <= exact * 1.01


def test_a_profile_that_does_not_fall_is_delta_alone() -> None:
    assert approximate_zcdp(ConstantProfile(value=1e-3), cut=1e-6) == (0.0, 1e-3)
    assert approximate_zcdp(ConstantProfile(value=1e-3), cut=0.0) == (0.0, 1e-3)
    assert approximate_zcdp(ConstantProfile(value=1.0), cut=0.0) == (0.0, 1.0)
    assert approximate_zcdp(ConstantProfile(value=0.0), cut=0.0) == (0.0, 0.0)


def test_without_a_cut_noise_without_an_end_is_worth_nothing() -> None:
    assert approximate_zcdp(DiscreteGaussianPair(scale=5.0), cut=0.0) == (math.inf, 0.0)


def test_a_long_tail_is_cut_and_a_short_one_is_not() -> None:
    long = Atoms.symmetric((1e-3, 30.0), (1.0, 1e-14))
    rho, delta = approximate_zcdp(long, cut=1e-12)
    assert 0.0 < delta <= 1e-12
    assert rho < 1e-5 < approximate_zcdp(long, cut=0.0)[0]
    assert approximate_zcdp(DiscreteLaplacePair(scale=10.0), cut=1e-12)[1] == 0.0


def test_next_to_nothing_costs_something() -> None:
    assert 0.0 < approximate_zcdp(Atoms.symmetric((1e-200,), (1.0,)), cut=0.0)[0] <= 1e-199


def least(rho: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """The infimum over alpha of Proposition 12, where the derivative is 0."""
    slope = lambda a: (2 * a - 1) * rho - epsilon + mp.log1p(-1 / a)  # noqa: E731
    low, high = mp.mpf(1) + mp.mpf(10) ** -30, mp.mpf(2)
    while slope(high) < 0:
        high *= 2
    for _ in range(400):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return mp.e ** ((high - 1) * (high * rho - epsilon)) * (1 - 1 / high) ** (high - 1) / high


@pytest.mark.parametrize("rho", [1e-12, 1e-4, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 1.0, 12.0])
def test_the_conversion_is_the_published_one_and_not_below(rho: float, epsilon: float) -> None:
    with mp.workdps(60):
        exact = least(mp.mpf(rho), mp.mpf(epsilon))
        found = zcdp_delta(rho, epsilon)
        assert exact <= found
        assert found <= exact * (1 + mp.mpf(10) ** -6) + mp.mpf(10) ** -299
    # Gaussian noise with this rho is one of those that it has to cover.
    gap = math.sqrt(2 * rho)
    attained = norm.cdf(gap / 2 - epsilon / gap) - math.exp(epsilon) * norm.cdf(-gap / 2 - epsilon / gap)
    assert found >= attained * (1 - 1e-9) - 1e-16


@pytest.mark.parametrize("rho", [1e-8, 0.01, 2.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.3])
def test_epsilon_is_the_least_that_the_conversion_gives(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    assert epsilon == 0.0 or zcdp_delta(rho, epsilon * (1 - 1e-6)) > delta


def test_no_pure_epsilon_comes_of_rho() -> None:
    assert zcdp_epsilon(0.0, 1e-9) == 0.0
    for wrong in (lambda: zcdp_epsilon(0.1, 0.0), lambda: zcdp_budget(1.0, 0.0), lambda: zcdp_budget(0.0, 1e-9)):
        with pytest.raises(BudgetError):
            wrong()


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 0.1])
def test_a_budget_is_used_up_and_not_exceeded(epsilon: float, delta: float) -> None:
    rho, summed = zcdp_budget(epsilon, delta)
    with mp.workdps(60):
        whole = mp.mpf(repr(summed)) + least(mp.mpf(rho), mp.mpf(repr(epsilon)))
        assert whole <= mp.mpf(repr(delta))
    assert Fraction(repr(summed)) <= Fraction(repr(delta)) / 10
    assert zcdp_delta(rho * (1 + 1e-6), epsilon) > delta - summed


def test_the_share_of_the_sum_is_cheap() -> None:
    """Nine tenths of delta for the conversion cost little rho: 0.6 % at delta 1e-9."""
    for delta, share in ((1e-5, 0.988), (1e-9, 0.994)):
        rho, _ = zcdp_budget(1.0, delta)
        whole, _ = zcdp_budget(1.0, delta / 0.9)
        assert rho > share * whole
