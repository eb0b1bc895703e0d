"""Counts given distinct records and given draws of held values, against the mechanisms' own laws on small universes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer
from discreet.inference.lattice import CountDraws
from discreet.inference.prior import Prior
from discreet.inference.samplers import ReleasedRecords, draw_counts
from discreet.mechanisms import SubsampledRandomisedResponse, UrnHistogram
from discreet.mechanisms.likelihood import known_likelihood

CELLS = Domain(columns={"x": Integer(lower=1, upper=3)})
N, DRAWS = 6, 40_000
PRIORS = {"process": Prior(np.array([0.5, 0.3, 0.7])), "tree": Prior.nested(np.full(3, 1 / 3))}


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


def apart(counted: CountDraws, prior: Prior, log_likelihood: Any) -> float:
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

    def given(made: Any) -> CountDraws:
        return draw_counts(known_likelihood(made, N), [PRIORS[prior]], ReleasedRecords(N, z), DRAWS, seeded(3))

    right = given(mechanism)
    assert not right.approximation
    assert apart(right, PRIORS[prior], log_likelihood) < 0.02
    twins = [] if wrong is None else [given(wrong)]
    backwards = ReleasedRecords(N, z[::-1].copy())
    twins.append(draw_counts(known_likelihood(mechanism, N), [PRIORS[prior]], backwards, DRAWS, seeded(3)))
    for twin in twins:
        assert apart(twin, PRIORS[prior], log_likelihood) > 0.04


def test_records_that_are_all_replaced_say_nothing() -> None:
    mechanism = SubsampledRandomisedResponse(domain=CELLS, size=4, mixing=1.0)
    prior = PRIORS["process"]
    release = ReleasedRecords(N, np.array([4, 0, 0]))
    found = draw_counts(known_likelihood(mechanism, N), [prior], release, DRAWS, seeded(1))
    assert apart(found, prior, lambda _: 0.0) < 0.02
