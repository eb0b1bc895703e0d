"""Noise profiles, constants, guarantees, budgets, and the papers' own bounds."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from discreet.domain import Domain, Integer, Numeric, OpenLabels
from discreet.errors import BudgetError, GuaranteeKindError, Infeasible, ParameterError
from discreet.mechanisms import (
    DataSpecificRevealOrObscure,
    DirichletMultinomial,
    PerturbedHistogram,
    PitmanYor,
    SmoothedHistogram,
    StabilityHistogram,
    SubsampledRandomisedResponse,
    stated,
)
from discreet.papers.py26 import (
    dirichlet_multinomial_a2,
    laplace_histogram_scale,
    largest_size_theorem_2,
    pitman_yor_theorem_2,
    smoothed_histogram_a1,
)
from discreet.privacy import (
    Budget,
    ConstantProfile,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    Relation,
    UrnPair,
    compose,
)
from discreet.privacy.attacker import LEVELS, TradeOff, furthest
from discreet.privacy.groups import LargestProfile
from discreet.privacy.guarantee import require_kind

CENSUS = 11_918_162
UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
TEN = Domain(columns={"cell": Integer(lower=0, upper=9)})


def test_the_gaussian_tends_to_the_continuous_one() -> None:
    # At a large scale the discrete profile is the continuous one, mu = sqrt(2) g / scale.
    for epsilon in (1e-4, 0.01, 0.1):
        mu = mp.sqrt(2) / 300
        continuous = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
        assert float(DiscreteGaussianPair(scale=300.0).delta(epsilon) / continuous) == pytest.approx(1.0, rel=1e-3)


def test_profiles_refuse_what_is_not_a_budget() -> None:
    profile = UrnPair(size=3, a=1.0, b=1.0, rest=1.0)
    for epsilon in (-0.1, math.nan):
        with pytest.raises(BudgetError):
            profile.delta(epsilon)
    for delta in (-0.1, 1.1, math.nan):
        with pytest.raises(BudgetError):
            profile.epsilon(delta)
    assert profile.delta(math.inf) == 0.0
    assert ConstantProfile(value=0.25).delta(math.inf) == 0.25
    assert ConstantProfile(value=0.25).epsilon(0.2) == math.inf
    assert ConstantProfile(value=0.25).epsilon(0.25) == 0.0
    assert ConstantProfile(value=0.0).pure == 0.0


def test_the_largest_of_profiles() -> None:
    low, high = ConstantProfile(value=0.1), ConstantProfile(value=0.2, tight=False)
    both = LargestProfile(profiles=[low, high])
    assert both.delta(1.0) == 0.2
    assert not both.exact
    assert both.pure == math.inf


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(-1, 0.1), (math.nan, 0.1), (math.inf, 0.1), (101, 0.1), (1, -0.1), (1, 1.0), (1, math.nan), (0, 0)],
)
def test_absurd_budgets(epsilon: float, delta: float) -> None:
    with pytest.raises(BudgetError):
        Budget(epsilon=epsilon, delta=delta)


def test_relations() -> None:
    for group in (0, -1, 1.5, True):
        with pytest.raises(ParameterError):
            Relation(group=group)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        Relation(name="swap")  # type: ignore[arg-type]


def test_only_unconditional_guarantees_pass_unasked() -> None:
    exact = PitmanYor(domain=UNIT, size=1).guarantee(n=5)
    mixing = PitmanYor(domain=UNIT, size=1, sampler="mixing").guarantee(n=5)
    require_kind(exact, frozenset())
    with pytest.raises(GuaranteeKindError, match="empirical"):
        require_kind(mixing, frozenset())
    require_kind(mixing, frozenset({"empirical"}))


def test_meeting_a_budget() -> None:
    guarantee = PerturbedHistogram(domain=TEN, records=5, scale=2.0).guarantee(n=5)
    assert guarantee.meets(Budget(epsilon=math.nextafter(1.0, 2.0) + 1e-14))
    assert not guarantee.meets(Budget(epsilon=0.999))
    assert guarantee.meets(Budget(epsilon=0.999, delta=0.01))


# --- the papers' own ---------------------------------------------------------------------------------------------


def test_check_values_of_the_papers() -> None:
    assert largest_size_theorem_2(2.0, 1e-5, n=CENSUS, strength=1.0) == 119
    assert largest_size_theorem_2(0.5, 1e-5, n=CENSUS, strength=1.0) == 38
    assert largest_size_theorem_2(0.5, 1e-9, n=CENSUS, strength=1.0) == 0
    assert smoothed_histogram_a1(n=39_374, size=5000, cells=10, mixing=0.2321) == pytest.approx(4.2, rel=5e-4)
    assert smoothed_histogram_a1(n=CENSUS, size=12_000_000, cells=300, mixing=0.01) == pytest.approx(29_867, abs=1)
    assert laplace_histogram_scale(2.0) == 1.0
    # T1 calibration gives 119 at both epsilons
    for epsilon in (0.5, 2.0):
        budget = Budget(epsilon=epsilon, delta=1e-5)
        assert PitmanYor.calibrated(budget, domain=UNIT, n=CENSUS, strength=1.0).size == 119


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 4.0])
def test_the_exact_profiles_never_exceed_the_papers(epsilon: float) -> None:
    for n, size, theta in ((10, 3, 1.0), (1000, 500, 20.0), (CENSUS, 119, 1.0)):
        ours = PitmanYor(domain=UNIT, size=size, strength=theta).guarantee(n=n).delta(epsilon)
        assert ours <= pitman_yor_theorem_2(epsilon, n=n, size=size, strength=theta) * (1 + 1e-12)
    for n, size, q in ((10, 3, 0.1), (1000, 500, 0.01)):
        ours = SmoothedHistogram(domain=TEN, size=size, mixing=q).guarantee(n=n).epsilon(0.0)
        assert ours <= smoothed_histogram_a1(n=n, size=size, cells=10, mixing=q)
        drawn = math.ceil(Fraction(q) * 2**32) / 2**32  # what the kernel draws with
        assert ours == pytest.approx(smoothed_histogram_a1(n=n, size=size, cells=10, mixing=drawn), rel=1e-12)
    prior = dirichlet_multinomial_a2(epsilon, size=50)
    assert DirichletMultinomial(domain=TEN, size=50, prior=prior).guarantee(n=100).epsilon(0.0) == pytest.approx(
        epsilon
    )
    scale = laplace_histogram_scale(epsilon)
    assert PerturbedHistogram(domain=TEN, records=9, scale=scale).guarantee(n=9).epsilon(0.0) == pytest.approx(epsilon)


def test_the_papers_bounds_refuse_bad_numbers() -> None:
    with pytest.raises(ParameterError):
        pitman_yor_theorem_2(0.0, n=5, size=5, strength=1.0)
    with pytest.raises(ParameterError):
        dirichlet_multinomial_a2(-1.0, size=5)
    with pytest.raises(ParameterError):
        laplace_histogram_scale(math.inf)
    with pytest.raises(ParameterError):
        smoothed_histogram_a1(n=5, size=5, cells=5, mixing=1.5)


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


# -- the trade-off bound, against Neyman-Pearson tests on exact pairs -------------------------------------------------

LEVEL = np.unique(np.concatenate((np.linspace(0.0, 1.0, 101), LEVELS)))


def most_powerful(p: np.ndarray, q: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the power of the most powerful test of q against p at each level: the lemma of Neyman and Pearson."""
    order = np.argsort(-np.log(np.maximum(p, 1e-320)) + np.log(np.maximum(q, 1e-320)), kind="stable")
    alpha, power = (np.concatenate(([0.0], np.cumsum(law[order]))) for law in (q, p))
    return np.interp(level, alpha / alpha[-1], power / power[-1])


def two_cells(scale: float, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the laws of two noisy counts under two neighbours, by enumeration of all pairs of counts."""
    z = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(z) / scale)
    later = np.exp(-np.abs(z - 1) / scale)
    total = law.sum()
    return np.outer(later, law).ravel() / total**2, np.outer(law, later).ravel() / total**2


@pytest.mark.parametrize("scale", [0.7, 2.0, 8.0])
def test_no_test_is_above_the_curve_and_the_best_is_on_it(scale: float) -> None:
    p, q = two_cells(scale, reach=max(60, int(30 * scale)))
    best = np.maximum(most_powerful(p, q, LEVEL), most_powerful(q, p, LEVEL))
    power = TradeOff.from_profile(DiscreteLaplacePair(scale=scale)).power(LEVEL)
    assert (power >= best - 1e-9).all()
    np.testing.assert_allclose(power, best, atol=3e-3)


def test_pure_privacy_and_constant_profiles_have_their_closed_forms() -> None:
    value = 0.05
    power = TradeOff.from_profile(ConstantProfile(value=value)).power(LEVEL)
    np.testing.assert_allclose(power, np.minimum(1.0, LEVEL + value), atol=1e-11)
    assert (power >= np.minimum(1.0, LEVEL + value)).all()
    nothing = TradeOff.from_profile(ConstantProfile(value=0.0)).power(LEVEL)
    np.testing.assert_allclose(nothing, LEVEL, atol=1e-11)
    everything = TradeOff.from_profile(ConstantProfile(value=1.0)).power(LEVEL)
    assert (everything == 1.0).all()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("dirichlet-multinomial", {"records": 2000, "size": 1000, "prior": 5.0, "cells": 30}),
        ("smoothed-histogram", {"records": 500, "size": 300, "mixing": 0.3, "cells": 12}),
        ("perturbed-histogram", {"records": 500, "size": None, "scale": 1.5, "cells": 12}),
    ],
)
def test_every_point_of_the_profile_bounds_the_curve(name: str, given: dict[str, float]) -> None:
    _, guarantee = stated(name, **given)  # type: ignore[arg-type]
    power = TradeOff.from_profile(guarantee.profile).power(LEVEL)
    assert (np.diff(power) >= -1e-12).all()
    assert (np.diff(power, 2) <= 1).all()
    for epsilon in (0.0, 0.3, 1.0):
        assert (power <= math.exp(epsilon) * LEVEL + guarantee.delta(epsilon) + 2e-3).all()


def test_a_composition_allows_at_least_what_one_release_does() -> None:
    one = DiscreteLaplacePair(scale=4.0)
    both = compose([one, one])
    assert (TradeOff.from_profile(both).power(LEVEL) >= TradeOff.from_profile(one).power(LEVEL) - 1e-9).all()


def test_the_points_of_a_picture_are_the_profile_and_end_where_delta_does() -> None:
    profile = DiscreteLaplacePair(scale=2.0)
    points = TradeOff.from_profile(profile, upto=3.0, among=0.75).points(upto=3.0)
    assert (0.75, profile.delta(0.75)) in points
    assert all(delta == profile.delta(epsilon) > 0.0 for epsilon, delta in points)
    assert max(epsilon for epsilon, _ in points) < profile.pure
    assert 1.0 <= furthest(profile, 1.0) < 2.0
    assert furthest(ConstantProfile(value=0.1), 1.0) == pytest.approx(1.3)


@pytest.mark.parametrize("among", [701.0, 1e6, 1e300])
def test_an_epsilon_beyond_floating_point_says_nothing_and_breaks_nothing(among: float) -> None:
    power = TradeOff.from_profile(ConstantProfile(value=0.25), among=among).power(np.array([0.0, 1e-4, 0.5]))
    assert power == pytest.approx([0.25, 0.2501, 0.75])
