"""Counts given distinct records and given draws of held values, against the mechanisms' own laws on small universes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer
from discreet.inference.lattice import Counted
from discreet.inference.prior import Prior
from discreet.inference.samplers import given_records
from discreet.mechanisms import SubsampledRandomisedResponse, UrnHistogram
from discreet.mechanisms.likelihood import known_likelihood

CELLS = Domain(columns={"x": Integer(lower=1, upper=3)})
N, DRAWS = 6, 40_000
PRIORS = {"process": Prior(np.array([0.5, 0.3, 0.7])), "tree": Prior.halving(np.full(3, 1 / 3))}


def tables() -> list[tuple[int, ...]]:
    return [c for c in itertools.product(range(N + 1), repeat=3) if sum(c) == N]


def log_prior(prior: Prior, c: tuple[int, ...]) -> float:
    """The prior weight of counts: a product over cells, and over the sets of a tree."""

    def weight(a: float, x: int) -> float:
        return float(gammaln(a + x) - gammaln(a) - gammaln(x + 1))

    total = sum(weight(a, x) for a, x in zip(prior.alpha, c, strict=True))
    sums = np.array(c)
    for level in prior.levels:
        sums = np.bincount(level.of, weights=sums)
        pairs = zip(level.masses, sums, strict=True)
        total += sum(weight(a, int(x)) - weight(level.strength, int(x)) for a, x in pairs)
    return total


def apart(counted: Counted, prior: Prior, log_likelihood: Any) -> float:
    """Return the total variation between the drawn tables and their exact posterior.

    Of 28 tables and 40,000 draws it is above .02 with a probability below 1e-9: its mean is at most half of
    sqrt(28 / 40,000) = .013, and one draw changes it by 1/40,000 (McDiarmid).
    """
    every = tables()
    log = np.array([log_prior(prior, c) + log_likelihood(c) for c in every])
    exact = np.exp(log - log.max())
    exact /= exact.sum()
    found = dict.fromkeys(every, 0)
    for row in np.rint(counted.counts).astype(int).tolist():
        found[tuple(row)] += 1
    return float(0.5 * np.abs(np.array(list(found.values())) / len(counted.counts) - exact).sum())


def held(c: tuple[int, ...]) -> Counts:
    some = np.flatnonzero(c)
    return Counts(records=CELLS.unflat(some), frequencies=np.array(c)[some])


MADE: dict[str, tuple[Any, Any, list[int]]] = {
    "distinct": (
        SubsampledRandomisedResponse(domain=CELLS, size=4, mixing=0.4),
        SubsampledRandomisedResponse(domain=CELLS, size=4, mixing=0.1),
        [3, 0, 1],
    ),
    "urn": (
        UrnHistogram(domain=CELLS, size=5, strength=1.5),
        None,  # the strength moves how many are released, not of which cells
        [3, 0, 1],
    ),
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", MADE)
def test_counts_against_all_tables(name: str, prior: str) -> None:
    mechanism, wrong, drawn = MADE[name]
    records = CELLS.unflat(np.repeat(np.arange(3), drawn))
    z = np.array(drawn)

    def log_likelihood(c: tuple[int, ...]) -> float:
        return float(mechanism.log_prob(records, held(c)))

    def given(made: Any) -> Counted:
        return given_records(known_likelihood(made), PRIORS[prior], N, z, DRAWS, seeded(3))

    right = given(mechanism)
    assert not right.approximation
    assert apart(right, PRIORS[prior], log_likelihood) < 0.02
    twins = [] if wrong is None else [given(wrong)]
    twins.append(given_records(known_likelihood(mechanism), PRIORS[prior], N, z[::-1].copy(), DRAWS, seeded(3)))
    for twin in twins:
        assert apart(twin, PRIORS[prior], log_likelihood) > 0.04


def test_records_that_are_all_replaced_say_nothing() -> None:
    mechanism = SubsampledRandomisedResponse(domain=CELLS, size=4, mixing=1.0)
    prior = PRIORS["process"]
    found = given_records(known_likelihood(mechanism), prior, N, np.array([4, 0, 0]), DRAWS, seeded(1))
    assert apart(found, prior, lambda _: 0.0) < 0.02


def test_many_records_of_a_large_table() -> None:
    """With few replaced records shares are those released; none of the weights underflows."""
    cells = Domain(columns={"x": Integer(lower=1, upper=50)})
    mechanism = SubsampledRandomisedResponse(domain=cells, size=20_000, mixing=0.05)
    shares = seeded(2).dirichlet(np.ones(50))
    truth = np.round(1e6 * shares)
    truth[0] += 1e6 - truth.sum()
    x = Counts(records=cells.unflat(np.arange(50)), frequencies=truth.astype(np.int64))
    drawn = np.zeros(50, dtype=np.int64)
    for chunk in mechanism.kernel(x, rng=seeded(4)):
        np.add.at(drawn, cells.flat(chunk), 1)
    prior = Prior.halving(np.full(50, 0.02))
    counts = given_records(known_likelihood(mechanism), prior, 10**6, drawn, 400, seeded(5)).counts
    assert (counts.sum(axis=1) == 1e6).all()
    score = (truth - counts.mean(axis=0)) / counts.std(axis=0)
    assert np.abs(score).max() < 5.0  # 50 scores, nearly normal: above 5 with a probability of 3e-5
    assert 0.5 < float((score**2).mean()) < 1.7
    assert math.isclose(float(counts.mean(axis=0).sum()), 1e6)
