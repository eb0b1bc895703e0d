"""Composition against oracles that do not use its package: closed forms, enumeration and linear programmes."""

import math
import re
from itertools import pairwise
from pathlib import Path

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog
from scipy.special import gammaln

from discreet.errors import ParameterError
from discreet.mechanisms.likelihood import compositions
from discreet.privacy import (
    ConstantProfile,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    MixturePair,
    Profile,
    UrnPair,
    compose,
)
from discreet.privacy.groups import ChainProfile, LargestProfile
from discreet.privacy.profile import BoundedRangeProfile, power
from discreet.testing import hockey_stick
from discreet.wording import SHOWS

Floats = npt.NDArray[np.float64]
EPSILONS = (0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


def assert_accurate(composed: Profile, truth: dict[float, float]) -> None:
    """Within 1 % where delta is at least 1e-10, never below anywhere."""
    for epsilon, delta in truth.items():
        claimed = composed.delta(epsilon)
        assert claimed >= delta * (1 - 1e-9) - 1e-15, (epsilon, claimed, delta)
        if delta >= 1e-10:
            assert claimed <= delta * 1.01, (epsilon, claimed, delta)


@pytest.mark.parametrize(
    ("size", "base", "moved", "times"),
    [(10, 0.05, 0.01, 2), (10, 0.05, 0.01, 100), (1000, 1e-3, 1e-5, 3), (3, 0.1, 0.4, 10), (3, 0.1, 0.4, 1000)],
)
def test_releases_of_the_mixture_are_one_release_of_as_many_draws(
    size: int, base: float, moved: float, times: int
) -> None:
    single = MixturePair(size=size, base=base, moved=moved)
    whole = MixturePair(size=size * times, base=base, moved=moved)
    assert_accurate(power(single, times), {e: whole.delta(e) / (1 + 1e-6) for e in EPSILONS})


@pytest.mark.parametrize("times", [2, 5, 40, 500])
@pytest.mark.parametrize("scale", [1.0, 5.0, 50.0])
def test_discrete_laplace_composes_in_closed_form(scale: float, times: int) -> None:
    # One record moves between two cells: each of the 2k losses is +1/scale or -1/scale, the second w.p. r/(1+r).
    r = math.exp(-1.0 / scale)
    wrong = np.arange(2 * times + 1)
    log_p = gammaln(2 * times + 1) - gammaln(wrong + 1) - gammaln(2 * times - wrong + 1)
    log_p = log_p + wrong * math.log(r / (1 + r)) - (2 * times - wrong) * math.log1p(r)
    loss = (2 * times - 2 * wrong) / scale
    truth = hockey_stick(log_p, log_p - loss, EPSILONS)
    composed = power(DiscreteLaplacePair(scale=scale), times)
    assert_accurate(composed, dict(zip(EPSILONS, truth.tolist(), strict=True)))
    assert composed.pure == pytest.approx(2 * times / scale, rel=1e-9)


def urn_law(size: int, a: float, b: float, rest: float) -> tuple[Floats, Floats]:
    s, t, left = compositions(size, 3).T

    def law(x: float, y: float) -> Floats:
        rising = sum(gammaln(w + k) - gammaln(w) for w, k in ((x, s), (y, t), (rest, left)))
        ways = gammaln(size + 1.0) - gammaln(s + 1) - gammaln(t + 1) - gammaln(left + 1)
        return np.asarray(rising + ways - gammaln(x + y + rest + size) + gammaln(x + y + rest))

    return law(a + 1, b), law(a, b + 1)


def test_two_different_urns_by_product_enumeration() -> None:
    first, second = {"size": 12, "a": 2.0, "b": 2.0, "rest": 9.0}, {"size": 20, "a": 0.5, "b": 0.5, "rest": 30.0}
    (p1, q1), (p2, q2) = urn_law(**first), urn_law(**second)  # type: ignore[arg-type]
    truth = hockey_stick(np.add.outer(p1, p2).ravel(), np.add.outer(q1, q2).ravel(), EPSILONS)
    profiles = [UrnPair(**first), UrnPair(**second)]  # type: ignore[arg-type]
    assert_accurate(compose(profiles), dict(zip(EPSILONS, truth.tolist(), strict=True)))


def test_unequal_priors_compose_above_every_choice_of_orders() -> None:
    orders = [(0.5, 0.6), (0.6, 0.5)]
    profile = LargestProfile(profiles=[UrnPair(size=5, a=a, b=b, rest=3.0) for a, b in orders])
    composed = power(profile, 2)
    for a, b in orders:
        for c, d in orders:
            (p1, q1), (p2, q2) = urn_law(5, a, b, 3.0), urn_law(5, c, d, 3.0)
            truth = hockey_stick(np.add.outer(p1, p2).ravel(), np.add.outer(q1, q2).ravel(), EPSILONS)
            for e, delta in zip(EPSILONS, truth.tolist(), strict=True):
                assert composed.delta(e) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("times", [1, 2, 7, 1000])
def test_constant_profiles(times: int) -> None:
    composed = power(ConstantProfile(value=1e-5), times)
    truth = -math.expm1(times * math.log1p(-1e-5))
    for e in EPSILONS:
        assert composed.delta(e) == pytest.approx(truth, rel=1e-6)
        assert composed.delta(e) >= truth * (1 - 1e-12)


def test_a_constant_and_an_urn() -> None:
    p, q = urn_law(12, 2.0, 2.0, 9.0)
    d = 1e-4
    alone = hockey_stick(p, q, EPSILONS)
    composed = compose([ConstantProfile(value=d), UrnPair(size=12, a=2.0, b=2.0, rest=9.0)])
    assert_accurate(composed, {e: d + (1 - d) * x for e, x in zip(EPSILONS, alone.tolist(), strict=True)})


def test_the_census_releases_compose() -> None:
    single = UrnPair(size=12_000_000, a=5.0, b=5.0, rest=11_918_162 + 1489.0)
    twice = power(single, 2)
    assert single.delta(2.0) < twice.delta(2.0) < 1
    # two releases are dominated by the first's delta plus e^eps times the second's, at any split
    assert twice.delta(4.0) <= single.delta(2.0) * (1 + math.exp(2.0)) * 1.01


PROFILES = [
    UrnPair(size=30, a=2.0, b=3.0, rest=100.0),
    MixturePair(size=10, base=0.01, moved=0.02),
    DiscreteLaplacePair(scale=4.0),
    DiscreteGaussianPair(scale=3.0),
    ConstantProfile(value=1e-6),
]


@pytest.mark.parametrize(("place", "times"), [(0, 2), (1, 1), (3, 5), (4, 3)])
def test_power_is_composition_with_itself(place: int, times: int) -> None:
    profile, epsilon = PROFILES[place], 0.7
    assert power(profile, times).delta(epsilon) == compose([profile] * times).delta(epsilon)
    if times > 1:  # equal, not identical, profiles are recognised too
        again = compose([power(profile, 1), *[profile] * (times - 1)])
        assert again.delta(epsilon) == power(profile, times).delta(epsilon)
        assert not again.exact


def test_composition_ignores_order_and_grows() -> None:
    parts = PROFILES[2:]
    composed, other = compose(parts), compose(parts[::-1])
    deltas = [composed.delta(e) for e in EPSILONS]
    assert deltas == pytest.approx([other.delta(e) for e in EPSILONS], rel=1e-4, abs=1e-12)
    assert all(late <= early * (1 + 1e-9) for early, late in pairwise(deltas))
    for profile in parts:
        assert all(profile.delta(e) <= d * (1 + 1e-6) + 1e-13 for e, d in zip(EPSILONS, deltas, strict=True))
    assert composed.delta(composed.pure) == 0.0 or math.isinf(composed.pure)
    assert composed.delta(composed.epsilon(1e-3)) <= 1e-3 or math.isinf(composed.epsilon(1e-3))


def test_composition_with_something_that_reveals_everything_reveals_everything() -> None:
    nothing_left = ConstantProfile(value=1.0)
    for parts in ([nothing_left, DiscreteLaplacePair(scale=10.0)], [DiscreteLaplacePair(scale=0.002)] * 2):
        assert compose(parts).delta(1.0) == 1.0


def test_nothing_to_compose_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least one"):
        compose([])
    for count in (0, -1, 1.5, True):
        with pytest.raises(ParameterError):
            power(PROFILES[0], count)  # type: ignore[arg-type]
    assert compose([PROFILES[0]]) is PROFILES[0]


@pytest.mark.parametrize("group", [2, 3])
def test_chains_are_bounds_and_beat_the_even_split(group: int) -> None:
    single = UrnPair(size=50, a=3.0, b=3.0, rest=200.0)
    chain = ChainProfile(single=single, group=group)
    assert not chain.exact
    assert chain.pure == pytest.approx(group * single.pure)
    for e in (0.0, 0.1, 1.0, 3.0):
        even = sum(math.exp(i * e / group) for i in range(group)) * single.delta(e / group)
        assert single.delta(e) <= chain.delta(e) <= min(1.0, even) * (1 + 1e-12)


def test_the_chain_of_a_pure_mechanism_is_the_composition_of_randomised_responses() -> None:
    # DiscreteLaplacePair(group=g) is exact: the chain of g single moves must dominate it.
    for group in (2, 3):
        chain = ChainProfile(single=DiscreteLaplacePair(scale=3.0), group=group)
        for e in EPSILONS:
            assert chain.delta(e) >= DiscreteLaplacePair(scale=3.0, group=group).delta(e) * (1 - 1e-12)


@pytest.mark.parametrize("spread", [0.05, 0.7, 2.0, 6.0])
@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9])
def test_no_losses_in_an_interval_have_more(spread: float, part: float) -> None:
    epsilon = part * spread
    claimed = BoundedRangeProfile(spread=spread).delta(epsilon)
    best = 0.0
    for top in np.linspace(epsilon, spread, 41):
        inverse = np.exp(np.linspace(-top, spread - top, 81))  # dQ/dP: positive, of mean one
        solved = linprog(
            -np.maximum(0.0, 1.0 - math.exp(epsilon) * inverse),
            A_eq=np.vstack((np.ones(81), inverse)),
            b_eq=[1.0, 1.0],
            bounds=[(0, 1)] * 81,
        )
        if solved.status == 0:
            best = max(best, -solved.fun)
    assert best <= claimed * (1 + 1e-9)
    assert best == pytest.approx(claimed, rel=1e-6)  # the middle of the interval is on the grid


@pytest.mark.parametrize("spread", [1e-6, 0.3, 1.0, 30.0, 900.0])
@mpmath.workdps(50)
def test_the_formula_in_many_digits(spread: float) -> None:
    profile = BoundedRangeProfile(spread=spread)
    for epsilon in (0.0, 0.1 * spread, 0.5 * spread, 0.999 * min(spread, 700.0)):
        true = (1 - mpmath.exp((mpmath.mpf(repr(epsilon)) - spread) / 2)) ** 2 / (1 - mpmath.exp(-mpmath.mpf(spread)))
        assert true <= profile.delta(epsilon) <= true * (1 + 1e-13) + 1e-300
    assert profile.pure == profile.epsilon(0.0) == spread
    assert profile.delta(spread) == 0.0
    assert profile.delta(0.0) == pytest.approx(math.tanh(spread / 4))
    assert not profile.exact


@pytest.mark.parametrize("top", [0.3, 0.5, 0.75, 1.0])
def test_two_releases_compose(top: float) -> None:
    """Two losses of ``top`` or ``top - 1`` stay within the composed profile."""
    share = (1 - math.exp(top - 1)) / (1 - math.exp(-1))
    p = np.array([share, 1 - share])
    q = p * np.exp([-top, 1 - top])
    log_p, log_q = (np.log(np.maximum(np.outer(v, v).ravel(), 1e-300)) for v in (p, q))
    epsilons = [0.0, 0.3, 1.0, 1.7]
    both = power(BoundedRangeProfile(spread=1.0), 2)
    assert np.all(hockey_stick(log_p, log_q, epsilons) <= [both.delta(e) + 1e-12 for e in epsilons])
    assert both.pure == pytest.approx(2.0)


ROOT = Path(__file__).parents[3]


# Composition is no rule for when to stop: the counterexample is in tests/law/test_filters.py.
def test_no_sentence_says_that_composition_may_be_used_to_stop() -> None:
    condition = re.compile(r"fixed\s+before")
    assert condition.search(compose.__doc__ or "")
    for name in (
        "docs/guarantee.md",
        "docs/theory/sampling-is-noise.md",
        "docs/known-limits.md",
        "src/discreet/report/page/report.html",
    ):
        assert condition.search((ROOT / name).read_text(encoding="utf-8")), name
    assert condition.search(SHOWS)
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md"]:
        assert "any adaptive order" not in path.read_text(encoding="utf-8"), path
