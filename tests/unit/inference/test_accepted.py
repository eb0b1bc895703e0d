"""Counts that are proposed and kept, or of tables that are all listed, against the laws of the mechanisms."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from discreet._core.random import seeded
from discreet.domain import Category, Counts, Domain, Integer
from discreet.errors import ParameterError
from discreet.inference.prior import CountPosterior, Prior
from discreet.inference.samplers import CountDraws, ReleasedCounts, ReleasedRecords, draw_counts
from discreet.mechanisms import (
    DataSpecificRevealOrObscure,
    ExponentialHistogram,
    Marginals,
    PerturbedHistogram,
    SmoothedHistogram,
    StabilisedPitmanYor,
    SubsampledRandomisedResponse,
    UrnHistogram,
)
from discreet.mechanisms.likelihood import known_likelihood, no_posterior

CELLS = Domain(columns={"x": Integer(lower=1, upper=3)})
N, DRAWS = 6, 40_000
PRIORS = {"process": Prior.process(np.array([0.5, 0.3, 0.7])), "tree": Prior.nested(np.full(3, 1 / 3))}
TABLES = [c for c in itertools.product(range(N + 1), repeat=3) if sum(c) == N]


def log_prior(prior: Prior, c: tuple[int, ...]) -> float:
    """The prior weight of counts: a product over cells, and over the sets of a tree."""

    def weight(a: float, x: int) -> float:
        return float(gammaln(a + x) - gammaln(a) - gammaln(x + 1))

    total, sums = 0.0, np.array(c)
    for layer in prior.layers:
        total += sum(weight(a, int(x)) for a, x in zip(layer.masses, sums, strict=True))
        sums = np.bincount(layer.parent, weights=sums)
        total -= sum(weight(layer.strength, int(x)) for x in sums)
    return total


def shares_of_tables(counted: CountDraws) -> np.ndarray:
    """How often each of all tables was drawn; a draw that is none of them is an error."""
    places = {c: place for place, c in enumerate(TABLES)}
    drawn, times = np.unique(np.rint(counted.counts).astype(int), axis=0, return_counts=True)
    shares = np.zeros(len(TABLES))
    shares[[places[tuple(row)] for row in drawn.tolist()]] = times / len(counted.counts)
    return shares


def apart(counted: CountDraws, prior: Prior, log_likelihood: Any) -> float:
    """Return the total variation between the drawn tables and their exact posterior.

    Of 28 tables and 40,000 draws it is above .02 with a probability below 1e-6 where the draws are right: its mean is
    at most .8 / 2 sqrt(28 / 40,000) = .0106, and its standard deviation at most .0015.
    """
    log = np.array([log_prior(prior, c) + log_likelihood(c) for c in TABLES])
    exact = np.exp(log - log.max())
    exact /= exact.sum()
    return float(0.5 * np.abs(shares_of_tables(counted) - exact).sum())


def held(c: tuple[int, ...]) -> Counts:
    some = np.flatnonzero(c)
    return Counts(records=CELLS.unflat(some), frequencies=np.array(c)[some])


def urn(discount: float, strength: float = 1.5) -> UrnHistogram:
    return UrnHistogram(domain=CELLS, size=8, strength=strength, discount=discount)


def obscured(epsilon: float) -> DataSpecificRevealOrObscure:
    return DataSpecificRevealOrObscure(domain=CELLS, size=12, draw_epsilon=epsilon)


def nearest(epsilon: float, size: int = 6, loss: Any = "l1") -> ExponentialHistogram:
    return ExponentialHistogram(domain=CELLS, size=size, pure_epsilon=epsilon, loss=loss)


def distinct(mixing: float) -> SubsampledRandomisedResponse:
    return SubsampledRandomisedResponse(domain=CELLS, size=4, mixing=mixing)


MADE: dict[str, tuple[Any, Any, list[int]]] = {
    "urn with a discount": (urn(0.6), urn(0.0), [3, 0, 1]),
    "urn of negative strength": (urn(0.9, -0.5), urn(0.1), [2, 0, 0]),
    "by the smallest count": (obscured(0.2), obscured(3.0), [5, 3, 4]),
    "l1": (nearest(2.0), nearest(4.0), [3, 0, 3]),
    "l1, few records": (nearest(9.0, 2), nearest(3.0, 2), [1, 0, 1]),
    "l1, many records": (nearest(3.0, 40), nearest(9.0, 40), [20, 0, 20]),
    "l2": (nearest(2.0, 6, "l2"), nearest(6.0, 6, "l2"), [3, 0, 3]),
    "hellinger": (nearest(4.0, 6, "hellinger"), nearest(12.0, 6, "hellinger"), [3, 0, 3]),
    "distinct": (distinct(0.4), distinct(0.1), [3, 0, 1]),
    "urn": (urn(0.0), None, [3, 0, 1]),  # the strength moves how many are released, not of which cells
}
PAIRS = [*zip(MADE, itertools.cycle(PRIORS), strict=False), ("distinct", "tree"), ("urn", "process")]


@pytest.mark.parametrize(("name", "prior"), PAIRS)
def test_counts_against_all_tables(name: str, prior: str) -> None:
    """Other parameters are rejected, and so are the released records of other cells where they say which these are."""
    mechanism, wrong, drawn = MADE[name]
    records = CELLS.unflat(np.repeat(np.arange(3), drawn))

    def given(made: Any, drawn: list[int] = drawn) -> CountDraws:
        release = ReleasedRecords(N, np.array(drawn))
        return draw_counts(known_likelihood(made, N), [PRIORS[prior]], release, DRAWS, seeded(3))

    def log_likelihood(c: tuple[int, ...]) -> float:
        return float(mechanism.log_prob(records, held(c)))

    right = given(mechanism)
    assert not right.approximation
    assert right.step == 1
    assert len(right.counts) == DRAWS
    assert apart(right, PRIORS[prior], log_likelihood) < 0.02
    twins = [given(wrong)] if wrong else []
    twins += [given(mechanism, drawn[::-1])] if drawn[0] > drawn[2] else []
    for twin in twins:
        assert apart(twin, PRIORS[prior], log_likelihood) > 0.04


def test_records_that_are_all_replaced_say_nothing() -> None:
    release = ReleasedRecords(N, np.array([4, 0, 0]))
    found = draw_counts(known_likelihood(distinct(1.0), N), [PRIORS["process"]], release, DRAWS, seeded(1))
    assert apart(found, PRIORS["process"], lambda _: 0.0) < 0.02


@pytest.mark.parametrize(("kept", "prior"), [(3, "tree"), (N, "process")])
def test_the_stabilised_urn_against_all_tables_and_all_noisy_counts(prior: str, kept: int) -> None:
    """The certificate tells the sum of the noisy counts, or that it is not below that of the table."""
    mechanism = StabilisedPitmanYor(domain=CELLS, records=N, scale=0.5, threshold=2, strength=1.5)
    z = np.array([4, 0, 2])
    law = {d: math.log(math.tanh(1.0)) - 2.0 * abs(d) for d in range(-N, 16)}
    short = {c: math.log(sum(math.exp(law[d]) for d in law if c + d < 2)) if c else 0.0 for c in range(N + 1)}
    every = itertools.product((0, *range(2, 12)), repeat=3)
    noisy = [d for d in every if (sum(d) == kept if kept < N else sum(d) >= N)]

    def log_read(d: tuple[int, ...]) -> float:
        opened = 1.5 + max(0, N - sum(d))
        masses = np.array(d) + opened / 3.0
        rising = sum(math.lgamma(a + x) - math.lgamma(a) for a, x in zip(masses, z, strict=True))
        return rising - math.lgamma(opened + sum(d) + 6.0) + math.lgamma(opened + sum(d))

    read = {d: log_read(d) for d in noisy}

    def log_likelihood(c: tuple[int, ...]) -> float:
        logs = [
            value + sum(law[y - x] if y else short[x] for x, y in zip(c, d, strict=True))
            for d, value in read.items()
            if all(x > 0 or y == 0 for x, y in zip(c, d, strict=True))
        ]
        return float(np.logaddexp.reduce(logs)) if logs else -math.inf

    def given(released: np.ndarray) -> CountDraws:
        release = ReleasedRecords(N, released, kept)
        return draw_counts(known_likelihood(mechanism, N), [PRIORS[prior]], release, DRAWS, seeded(3))

    assert apart(given(z), PRIORS[prior], log_likelihood) < 0.02
    assert apart(given(z[::-1].copy()), PRIORS[prior], log_likelihood) > 0.04


@pytest.mark.parametrize("kept", [300, 299, 296])
def test_the_stabilised_urn_of_few_released_records(kept: int) -> None:
    """A released record stands for many, of which noise is told apart: a lattice as coarse as they are would not do."""
    n, z, scale, least = 300, np.array([7, 0]), 0.67, 6
    mechanism = StabilisedPitmanYor(
        domain=Domain(columns={"x": Category(categories=["a", "b"])}), records=n, scale=scale, threshold=least,
        strength=1.0,
    )  # fmt: skip
    noise = np.arange(-14, 15)
    law = np.exp(-np.abs(noise) / scale)
    law /= law.sum()

    def log_posterior(c: int) -> float:
        sides = []
        for held_here in (c, n - c):
            noisy = held_here + noise
            values = np.append(0, noisy[noisy >= least]) if held_here else np.zeros(1)
            chances = np.append(law[noisy < least].sum(), law[noisy >= least]) if held_here else np.ones(1)
            sides.append((values, chances))
        (a, p), (b, q) = sides
        total = a[:, None] + b
        opened = 1.0 + np.maximum(0, n - total)
        logs = gammaln(a[:, None] + opened / 2 + 7) - gammaln(a[:, None] + opened / 2)
        logs -= gammaln(opened + total + 7) - gammaln(opened + total)
        told = total == kept if kept < n else total >= n
        prior = sum(gammaln(0.5 + x) - gammaln(x + 1) for x in (c, n - c))
        return float(np.log((np.outer(p, q) * np.exp(logs) * told).sum() + 1e-300) + prior)

    exact = np.exp([log_posterior(c) for c in range(n + 1)])
    exact /= exact.sum()
    release = ReleasedRecords(n, z, kept)
    found = draw_counts(known_likelihood(mechanism, n), [Prior.process(np.full(2, 0.5))], release, 4000, seeded(3))
    assert found.step == 1
    at = np.bincount(found.counts[:, 0].astype(np.int64), minlength=n + 1) / 4000
    # of 4,000 draws, five standard errors; a lattice of three records misses the first by twice as much
    assert np.abs(np.cumsum(at) - np.cumsum(exact)).max() < 0.04


@pytest.mark.parametrize("prior", ["tree"])
def test_counts_of_a_single_column_of_marginals_against_all_tables(prior: str) -> None:
    """Both rounds of measurement together are one of less noise."""
    mechanism = Marginals(domain=CELLS, records=N, scale=9.0, units=90)
    assert mechanism.allocation.remaining
    y = mechanism.kernel(held((1, 0, 5)), rng=seeded(2))
    counts = mechanism.reading(y, n=N).estimates().counts

    def log_likelihood(c: tuple[int, ...]) -> float:
        return mechanism.log_prob(y, held(c))

    def given(made: Marginals) -> CountDraws:
        return draw_counts(known_likelihood(made, N), [PRIORS[prior]], ReleasedCounts(N, counts), DRAWS, seeded(3))

    assert apart(given(mechanism), PRIORS[prior], log_likelihood) < 0.02
    louder = Marginals(domain=CELLS, records=N, scale=18.0, units=90)
    assert apart(given(louder), PRIORS[prior], log_likelihood) > 0.04


WIDE = Domain(columns={"x": Integer(lower=1, upper=12)})


@pytest.mark.parametrize(
    "mechanism",
    [
        UrnHistogram(domain=WIDE, size=4000, strength=3.0, discount=0.5),
        StabilisedPitmanYor(domain=WIDE, records=20_000, scale=30.0, threshold=200),
        Marginals(domain=WIDE, records=20_000, scale=200.0, units=40),
    ],
    ids=["urn", "stabilised", "marginals"],
)
def test_larger_tables(mechanism: Any) -> None:
    """Their counts, some of them 0, are within six posterior standard deviations of the means; so are sums of four."""
    n = 20_000
    truth = np.array([0, 6000, 400, 30, 1, 0, 2500, 5000, 69, 0, 2000, 4000])
    x = np.flatnonzero(truth)
    table = Counts(records=WIDE.unflat(x), frequencies=truth[x])
    output = mechanism.kernel(table, rng=seeded(7))
    outcome = mechanism.reading(output, n=n).outcome()
    drawn = np.zeros(12, dtype=np.int64)
    for chunk in mechanism.reading(output, n=n).draw(getattr(mechanism, "size", 4000), rng=seeded(8)):
        np.add.at(drawn, WIDE.flat(chunk), 1)
    kept = None if outcome is None or outcome.share_from_data is None else round(outcome.share_from_data * n)
    priors = Prior.learned(np.full(12, 1 / 12), firmer=2)
    found = draw_counts(known_likelihood(mechanism, n), priors, ReleasedRecords(n, drawn, kept), 400, seeded(9))
    assert len(found.counts) == sum(found.numbers) == 400
    assert np.abs(found.counts.sum(axis=1) - n).max() <= found.step
    fours = found.counts.reshape(400, 3, 4).sum(axis=2), truth.reshape(3, 4).sum(axis=1)
    for draws, true in ((found.counts, truth), fours):
        assert (np.abs(draws.mean(axis=0) - true) < 6.0 * draws.std(axis=0) + found.step).all()


@pytest.mark.parametrize("softer", [False, True])
def test_all_tables_under_several_trees(softer: bool) -> None:
    """Draws are shared out among the trees by what each of them foresees, and follow the mixture."""
    mechanism, drawn = obscured(3.0), np.array([9, 2, 1])
    priors = Prior.learned(np.full(3, 1 / 3), firmer=0, wide=1.0, softer=softer)
    found = draw_counts(known_likelihood(mechanism, N), priors, ReleasedRecords(N, drawn), DRAWS, seeded(3))
    records = CELLS.unflat(np.repeat(np.arange(3), drawn))
    logs = np.array([[log_prior(one, c) + mechanism.log_prob(records, held(c)) for c in TABLES] for one in priors])
    weights = np.exp(logs - logs.max())
    exact = weights.sum(axis=0) / weights.sum()
    assert 0.5 * np.abs(shares_of_tables(found) - exact).sum() < 0.02
    assert np.abs(np.array(found.numbers) / DRAWS - weights.sum(axis=1) / weights.sum()).max() < 0.02


@pytest.mark.parametrize(
    "mechanism",
    [
        DataSpecificRevealOrObscure(domain=WIDE, size=8, draw_epsilon=0.01),
        ExponentialHistogram(domain=WIDE, size=8, pure_epsilon=0.1),
        ExponentialHistogram(domain=WIDE, size=3, pure_epsilon=0.1, loss="l2"),
        SubsampledRandomisedResponse(domain=WIDE, size=8, mixing=0.1),
    ],
)
def test_all_tables_of_many_records_are_refused_with_what_has_a_posterior(mechanism: Any) -> None:
    with pytest.raises(ParameterError, match=r"lists all tables.* \(records: 20,000, cells: 12\)"):
        known_likelihood(mechanism, 20_000)
    assert known_likelihood(mechanism, 4).tables(4).shape == (math.comb(15, 11), 12)
    for other in (
        PerturbedHistogram(domain=WIDE, records=20_000, scale=2.0),
        SmoothedHistogram(domain=WIDE, size=8, mixing=0.1),
    ):
        assert no_posterior(other, 20_000) == ""


def test_terms_of_the_law_are_limited_too() -> None:
    two = Domain(columns={"x": Integer(lower=1, upper=2)})
    assert no_posterior(ExponentialHistogram(domain=two, size=100, pure_epsilon=1.0), 3000) == ""
    assert no_posterior(ExponentialHistogram(domain=two, size=1000, pure_epsilon=1.0), 3000)
    assert no_posterior(DataSpecificRevealOrObscure(domain=two, size=1000, draw_epsilon=1.0), 30_000) == ""
    assert no_posterior(DataSpecificRevealOrObscure(domain=two, size=1000, draw_epsilon=1.0), 40_000)


def test_cells_without_records_may_hold_as_many_as_one_record_stands_for() -> None:
    """All ten are of the first of four cells; of a table of 2,000, the others hold Beta shares of what it leaves."""
    cells = Domain(columns={"x": Integer(lower=1, upper=4)})
    mechanism = SmoothedHistogram(domain=cells, size=10, mixing=1e-9)
    drawn = np.array([10, 0, 0, 0])
    release, prior = ReleasedRecords(2000, drawn), Prior.nested(np.full(4, 0.25))
    found = draw_counts(known_likelihood(mechanism, 2000), [prior], release, 4000, seeded(1))
    pair = found.counts[:, 2:].sum(axis=1) / 2000  # Beta(1, 10 + 1)
    assert abs(pair.mean() - 1.0 / 12.0) < 6.0 * pair.std() / math.sqrt(4000)
    assert 0.25 < pair.max() < 0.9


def test_proposals_that_cannot_be_are_given_up() -> None:
    hopeless = CountPosterior(0.0, lambda number, _: (np.zeros((number, 3)), np.full(number, -np.inf)), proposed=True)
    with pytest.raises(ParameterError, match="the posterior cannot be computed"):
        CountDraws.draw([hopeless], 5, seeded(1))
