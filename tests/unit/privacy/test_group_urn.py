"""Large groups under the Dirichlet-multinomial: against sums that know nothing of the maximum over splits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln

from discreet.domain import Domain, Integer
from discreet.mechanisms import DirichletMultinomial
from discreet.privacy import Relation, UrnPair
from discreet.privacy.groups import ChainProfile, GroupUrn


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
