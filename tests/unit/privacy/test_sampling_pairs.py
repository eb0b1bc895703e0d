"""T4 and T5 as numbers: against slow independent formulas, at the values of the papers and the issue, and in order."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from discreet.domain import Domain, Integer
from discreet.mechanisms import DirichletMultinomial
from discreet.privacy import MixturePair, Relation, UrnPair
from discreet.privacy.groups import ChainProfile, GroupUrn

CENSUS = 11_918_162


def mixture_double_sum(epsilon: float, *, size: int, base: float, moved: float) -> float:
    """T5: sum over ``U`` in a window and over the draws in the second cell, from log-gammas."""
    both = 2 * base + moved
    mean, spread = size * both, math.sqrt(size * both * (1 - both))
    low, high = max(0, math.floor(mean - 40 * spread - 40)), min(size, math.ceil(mean + 40 * spread + 400))
    if both == 1:
        low = high = size
    unit = math.log1p(moved / base)
    value = 0.0
    for u in range(low, high + 1):
        log_u = gammaln(size + 1.0) - gammaln(u + 1.0) - gammaln(size - u + 1.0) + u * math.log(both)
        if size > u:
            log_u += (size - u) * math.log1p(-both)
        top = math.ceil((u - epsilon / unit) / 2)
        if top <= 0 or log_u < -800:
            continue
        t = np.arange(min(top, u + 1), dtype=float)
        log_w = gammaln(u + 1.0) - gammaln(t + 1) - gammaln(u - t + 1)
        log_w = log_w + (u - t) * math.log((base + moved) / both) + t * math.log(base / both)
        excess = -np.expm1(np.minimum(0.0, epsilon - (u - 2 * t) * unit))
        value += float((np.exp(log_u + log_w) * excess).sum())
    return value


def urn_mpmath(epsilon: float, *, size: int, a: float, b: float, rest: float, most: int) -> mp.mpf:
    """T4, one order, for ``U`` of order ten at any size: 60 digits, ``U`` up to ``most``, recurrences only."""
    with mp.workdps(60):
        A, B, R, E = mp.mpf(a), mp.mpf(b), mp.mpf(rest), mp.e ** mp.mpf(repr(float(epsilon)))
        # P(U = 0) = (rest)_m / (a+b+1+rest)_m
        both = A + B + 1
        law = mp.e ** (mp.loggamma(R + size) - mp.loggamma(R) - mp.loggamma(both + R + size) + mp.loggamma(both + R))
        value = mp.mpf(0)
        for u in range(min(most, size) + 1):
            # T | U = u is BetaBin(u; b, a+1) under P and BetaBin(u; b+1, a) under Q.
            p = mp.rf(A + 1, u) / mp.rf(both, u)
            q = mp.rf(A, u) / mp.rf(both, u)
            inner = mp.mpf(0)
            for t in range(u + 1):
                if p <= E * q:
                    break
                inner += p - E * q
                if t < u:
                    ratio = mp.mpf(u - t) / (t + 1)
                    p *= ratio * (B + t) / (A + u - t)
                    q *= ratio * (B + 1 + t) / (A + u - t - 1)
            value += law * inner
            if u < size:
                law *= mp.mpf(size - u) / (u + 1) * (both + u) / (R + size - u - 1)
        return value


def mixture_mpmath(epsilon: float, *, size: int, base: float, moved: float, most: int) -> mp.mpf:
    """T5 for ``U`` up to ``most``, in 60 digits."""
    with mp.workdps(60):
        b, s, E = mp.mpf(base), mp.mpf(moved), mp.e ** mp.mpf(repr(float(epsilon)))
        both = 2 * b + s
        law = (1 - both) ** size
        value = mp.mpf(0)
        for u in range(min(most, size) + 1):
            p, q = ((b + s) / both) ** u, (b / both) ** u
            inner = mp.mpf(0)
            for t in range(u + 1):
                if p <= E * q:
                    break
                inner += p - E * q
                if t < u:
                    ratio = mp.mpf(u - t) / (t + 1)
                    p *= ratio * b / (b + s)
                    q *= ratio * (b + s) / b
            value += law * inner
            if u < size:
                law *= mp.mpf(size - u) / (u + 1) * both / (1 - both)
        return value


def excess(claimed: float, truth: object) -> float:
    return float(mp.mpf(claimed) / mp.mpf(truth) - 1)


@pytest.mark.parametrize("size", [1, 5, 300, 5_000])
@pytest.mark.parametrize(
    ("base", "moved"), [(0.1, 0.3), (0.01, 0.001), (1e-4, 1e-5), (1e-3, 0.5), (0.4, 0.2), (0.25, 0.5)]
)
def test_mixture_against_the_double_sum(base: float, moved: float, size: int) -> None:
    for share in (1e-4, 0.02, 0.1, 0.5, 0.95):
        epsilon = share * min(size * math.log1p(moved / base), 600.0)
        truth = mixture_double_sum(epsilon, size=size, base=base, moved=moved)
        if truth > 1e-290:
            assert -1e-8 < MixturePair(size=size, base=base, moved=moved).delta(epsilon) / truth - 1 < 1e-6


@pytest.mark.parametrize(
    ("n", "size", "a", "b", "epsilon"),
    [
        (CENSUS, 12_000_000, 5, 5, 2.0), (CENSUS, 12_000_000, 5, 5, 4.0),
        (CENSUS, 12_000_000, 0.5, 0.5, 6.0), (10**8, 10**8, 5, 5, 1.5), (10**8, 10**8, 0.1, 3, 7.0),
        (10**8, 10**8, 1e-3, 1e-3, 10.0), (10**8, 10**4, 5, 5, 2.0), (10**8, 10**4, 1e-3, 1e-3, 5.0),
        (3000, 800, 50, 80, 0.4), (200, 100, 5, 5, 1.0), (50, 800, 1e-3, 1e-3, 9.0),
    ],
)  # fmt: skip
def test_urn_at_large_sizes_is_within_one_percent_and_never_below(
    n: int, size: int, a: float, b: float, epsilon: float
) -> None:
    rest = n + 298 * 5.0 - 1.0
    truth = urn_mpmath(epsilon, size=size, a=a, b=b, rest=rest, most=500)
    assert 0 <= excess(UrnPair(size=size, a=a, b=b, rest=rest).delta(epsilon), truth) < 1e-4


@pytest.mark.parametrize(
    ("n", "size", "cells", "q", "epsilon"),
    [
        (CENSUS, 12_000_000, 300, 0.01, 0.5),
        (CENSUS, 12_000_000, 300, 0.01, 1e-4),
        (CENSUS, 12_000_000, 300, 0.01, 2.0),  # 3e-168
        (10**8, 10**8, 1000, 1e-6, 1.0),
        (10**8, 10**8, 1000, 1e-6, 50.0),  # 2e-20
    ],
)
def test_mixture_at_large_sizes_is_within_one_percent_and_never_below(
    n: int, size: int, cells: int, q: float, epsilon: float
) -> None:
    base, moved = q / cells, (1 - q) / n
    mean = size * (2 * base + moved)
    most = math.ceil(mean + 15 * math.sqrt(mean) + 60)
    if mean < 100:
        truth = mixture_mpmath(epsilon, size=size, base=base, moved=moved, most=most)
    else:  # log-gammas of 1e8 carry 1e-6: widen the oracle's own lower end by that
        truth = mixture_double_sum(epsilon, size=size, base=base, moved=moved) * (1 - 1e-6)
    assert 0 <= excess(MixturePair(size=size, base=base, moved=moved).delta(epsilon), truth) < 1e-4


def neighbours_in_floating_point(x: float) -> list[float]:
    below = math.nextafter(x, 0.0)
    return [math.nextafter(below, 0.0), below, x, math.nextafter(x, math.inf)]


@settings(max_examples=60, deadline=None)
@given(
    size=st.sampled_from([1, 2, 5, 20]),
    a=st.floats(1e-3, 1e4),
    b=st.floats(1e-3, 1e4),
    rest=st.sampled_from([1.0, 50.0, 1e4]),
    data=st.data(),
)
def test_urn_is_never_below_where_a_loss_meets_epsilon(
    size: int, a: float, b: float, rest: float, data: st.DataObject
) -> None:
    s = data.draw(st.integers(1, size))
    t = data.draw(st.integers(0, size - s))
    loss = float(mp.log(mp.mpf(a + s) / a) - mp.log(mp.mpf(b + t) / b))
    for epsilon in neighbours_in_floating_point(max(loss, 1e-12)):
        truth = urn_mpmath(epsilon, size=size, a=a, b=b, rest=rest, most=size)
        assert UrnPair(size=size, a=a, b=b, rest=rest).delta(epsilon) >= truth or truth < mp.mpf("1e-300")


@settings(max_examples=60, deadline=None)
@given(size=st.sampled_from([1, 2, 5, 20, 60]), base=st.floats(1e-6, 0.1), moved=st.floats(1e-6, 0.1), data=st.data())
def test_mixture_is_never_below_where_a_loss_meets_epsilon(
    size: int, base: float, moved: float, data: st.DataObject
) -> None:
    loss = data.draw(st.integers(1, size)) * math.log1p(moved / base)
    for epsilon in neighbours_in_floating_point(loss):
        truth = mixture_mpmath(epsilon, size=size, base=base, moved=moved, most=size)
        assert MixturePair(size=size, base=base, moved=moved).delta(epsilon) >= truth or truth < mp.mpf("1e-300")


positive = st.floats(1e-2, 1e3)
epsilons = st.floats(1e-4, 50.0)


@settings(max_examples=60, deadline=None)
@given(epsilon=epsilons, size=st.integers(1, 3000), a=positive, b=positive, rest=st.floats(0.5, 1e5))
def test_urn_is_monotone(epsilon: float, size: int, a: float, b: float, rest: float) -> None:
    pair = UrnPair(size=size, a=a, b=b, rest=rest)
    delta = pair.delta(epsilon) * (1 + 1e-9) + 1e-299
    assert pair.delta(epsilon * 1.01) <= delta
    assert UrnPair(size=max(1, size - 1), a=a, b=b, rest=rest).delta(epsilon) <= delta
    assert UrnPair(size=size, a=a * 1.05, b=b, rest=rest).delta(epsilon) <= delta
    assert UrnPair(size=size, a=a, b=b * 1.05, rest=rest).delta(epsilon) <= delta
    assert UrnPair(size=size, a=a, b=b, rest=rest + 1.0).delta(epsilon) <= delta  # one record more


@settings(max_examples=60, deadline=None)
@given(
    epsilon=epsilons,
    size=st.integers(1, 3000),
    q=st.floats(1e-4, 0.95),
    n=st.integers(1, 10_000),
    cells=st.integers(2, 1000),
)
def test_mixture_is_monotone(epsilon: float, size: int, q: float, n: int, cells: int) -> None:
    def at(m: int, mixing: float, records: int) -> float:
        return MixturePair(size=m, base=mixing / cells, moved=(1 - mixing) / records).delta(epsilon)

    delta = at(size, q, n) * (1 + 1e-9) + 1e-299
    assert at(max(1, size - 1), q, n) <= delta
    assert at(size, min(0.999, q * 1.05), n) <= delta
    assert at(size, q, n + 1) <= delta
    assert MixturePair(size=size, base=q / cells, moved=(1 - q) / n).delta(1.01 * epsilon) <= delta


PAIRS = st.one_of(
    st.builds(UrnPair, size=st.integers(1, 2000), a=positive, b=positive, rest=st.floats(0.5, 1e5)),
    st.builds(MixturePair, size=st.integers(1, 2000), base=st.floats(1e-5, 0.2), moved=st.floats(1e-5, 0.2)),
)


@settings(max_examples=60, deadline=None)
@given(pair=PAIRS, delta=st.floats(1e-290, 0.5))
def test_epsilon_and_delta_convert_both_ways_on_the_safe_side(pair: UrnPair | MixturePair, delta: float) -> None:
    epsilon = pair.epsilon(delta)
    assert pair.delta(epsilon) <= delta
    if 1e-9 < epsilon < 700:  # and no more than needed
        assert pair.delta(epsilon * (1 - 1e-8) - 1e-11) > delta
    assert pair.epsilon(0.0) == pair.pure
    assert pair.delta(pair.pure) == 0.0


def test_deltas_reach_down_to_1e_300() -> None:
    pair = UrnPair(size=5_000, a=5.0, b=5.0, rest=1e4)
    epsilon = pair.epsilon(1e-299)
    assert 0 < epsilon < pair.pure
    truth = urn_mpmath(epsilon, size=5_000, a=5.0, b=5.0, rest=1e4, most=4000)
    assert 0 <= excess(pair.delta(epsilon), truth) < 0.01


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 4.0, 15.0])
def test_the_largest_sizes_give_labelled_upper_bounds(epsilon: float) -> None:
    for pair in (UrnPair(size=10**10, a=5.0, b=5.0, rest=1e10), MixturePair(size=10**10, base=1e-5, moved=1e-10)):
        assert not pair.exact
        assert 0 < pair.delta(epsilon) <= 1


@pytest.mark.parametrize(("a", "rest", "epsilon"), [(0.5, 1e4, 10.0), (0.1, 5e3, 8.0), (3.0, 2e4, 8.0)])
def test_few_records_and_a_large_size(a: float, rest: float, epsilon: float) -> None:
    """The number of draws in the two cells spreads over millions, and its survival must not be taken as 1."""
    small = UrnPair(size=10**8, a=a, b=a, rest=rest)
    assert small.exact
    # U = m V to within 1e-3 with V ~ Beta(a+b+1, rest): integrate the profile given U over V.
    truth = mp.quad(
        lambda v: _density(v, a, rest) * small._conditional(int(v * 10**8), epsilon),
        [mp.mpf(6) * k / rest for k in range(11)],
    )
    assert abs(excess(small.delta(epsilon), truth)) < 0.005


def _density(v: mp.mpf, a: float, rest: float) -> mp.mpf:
    both = 2 * a + 1
    return v ** (both - 1) * (1 - v) ** (rest - 1) / mp.beta(both, rest)


def test_what_cannot_be_summed_says_so() -> None:
    assert not UrnPair(size=10**8, a=0.5, b=0.5, rest=10.0).exact
    assert not UrnPair(size=10**8, a=0.5, b=0.5, rest=0.0).exact
    assert UrnPair(size=10**8, a=0.5, b=0.5, rest=1e8).exact
    assert UrnPair(size=10**6, a=0.5, b=0.5, rest=0.0).exact
    assert MixturePair(size=10**8, base=0.2, moved=0.2).exact


# -- large groups, against sums that know nothing of the maximum over splits ------------------------------------------


def profile(size: int, prior: float, cells: int, n: int, group: int) -> GroupUrn:
    rest = n + cells * prior - 2 * prior - 1
    chain = ChainProfile(single=UrnPair(size=size, a=prior, b=prior, rest=rest), group=group)
    return GroupUrn(size=size, prior=prior, cells=cells, n=n, group=group, bound=chain)


@pytest.mark.parametrize(("size", "prior", "epsilon"), [(10**5, 1.0, 1.0), (10**6, 5.0, 2.0), (10**6, 0.5, 0.2)])
def test_large_tables_against_a_sum_over_the_cells_involved(size: int, prior: float, epsilon: float) -> None:
    n, cells, cap = 10**6, 300, 40
    worst = 0.0
    for sources, targets in itertools.product([(2,), (1, 1)], repeat=2):
        shape = len(sources) + len(targets)
        axes = np.meshgrid(*[np.arange(cap, dtype=float)] * shape, indexing="ij", sparse=True)
        held = np.array([*sources, *(0 for _ in targets)], dtype=float)
        inside = prior * shape + 2
        rest = n + cells * prior - inside
        total = sum(axes)
        log_p = gammaln(size + 1) - gammaln(size - total + 1) + gammaln(rest + size - total) - gammaln(rest)
        log_p = log_p + gammaln(inside + rest) - gammaln(inside + rest + size)
        loss = 0.0
        for i, axis in enumerate(axes):
            log_p = log_p + gammaln(prior + held[i] + axis) - gammaln(prior + held[i]) - gammaln(axis + 1)
            part = (sources + targets)[i]
            ratio = gammaln(prior + axis + part) - gammaln(prior + axis) - gammaln(prior + part) + gammaln(prior)
            loss = loss + (ratio if i < len(sources) else -ratio)
        worst = max(worst, float((np.exp(log_p) * -np.expm1(np.minimum(0.0, epsilon - loss))).sum()))
    delta = profile(size, prior, cells, n, 2).delta(epsilon)
    assert worst * (1 - 1e-6) <= delta <= worst * 1.01


def test_sums_that_are_too_long_fall_back_to_the_chain() -> None:
    wide = profile(10**6, 500.0, 300, 10**6, 3)
    assert not wide.exact
    assert wide.delta(0.5) == wide.bound.delta(0.5)
    many = profile(100, 1.0, 300, 100, 7)
    assert not many.exact
    assert many.delta(1.0) == many.bound.delta(1.0)


def test_the_mechanism_reports_the_smaller_of_the_two_and_calibrates_on_the_bound() -> None:
    domain = Domain(columns={"cell": Integer(lower=0, upper=299)})
    mechanism = DirichletMultinomial(domain=domain, size=1000, prior=2.0)
    guarantee = mechanism.guarantee(Relation(group=2), n=10_000)
    assert not guarantee.exact  # some outcomes are counted in full
    assert guarantee.theorem == "T4"
    rest = 10_000 + 600 - 5
    chain = ChainProfile(single=UrnPair(size=1000, a=2.0, b=2.0, rest=rest), group=2)
    assert guarantee.delta(1.0) < chain.delta(1.0)
    # both records leave one cell: (2 + m)(3 + m)/(2 * 3) against (1 + m/2)^2 of the chain
    assert math.isclose(guarantee.profile.pure, math.log(1002 * 1003 / 6))
    assert guarantee.profile.pure < chain.pure
