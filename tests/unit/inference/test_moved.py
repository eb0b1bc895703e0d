"""Records of a projection that sets negative noisy counts off against their neighbours: what they tell of sums."""

import itertools
import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from scipy.special import betaln, gammaln

from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.inference.positive import Moved, _nearest_held, _runs, _sets
from discreet.inference.prior import Prior
from discreet.inference.samplers import ReleasedRecords, draw_counts
from discreet.mechanisms import PerturbedHistogram
from discreet.mechanisms.likelihood import NoisyCellCounts, known_likelihood
from discreet.mechanisms.noise import LAPLACE


def test_a_run_lies_on_one_side_of_the_nearest_cell_with_records() -> None:
    assert _nearest_held(np.array([0, 3, 0, 0, 1, 2, 0, 0, 0])).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    drawn = np.array([0, 0, 3, 0, 0, 0, 1, 2, 0])
    assert _nearest_held(drawn).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert _runs(drawn, _nearest_held(drawn)).tolist() == [0, 0, 1, 2, 3, 3, 4, 5, 6]
    assert _runs(np.array([5]), np.array([0])).tolist() == [0]


def test_a_tree_joins_runs_then_blocks_then_all_of_them() -> None:
    sets = _sets(np.array([0, 0, 0, 1, 2, 2]), np.array([0, 0, 0, 0, 1, 1]))
    assert [one.tolist() for one in sets] == [[0, 0, 1, 2, 3, 3], [0, 0, 1, 2], [0, 0, 1], [0, 0]]
    assert _sets(np.array([0]), np.array([0])) == []


def released(mechanism: PerturbedHistogram, held: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    noisy = held + mechanism.law.draw(mechanism.scale, len(held), rng=rng)
    drawn = np.zeros(len(held), dtype=np.int64)
    for chunk in mechanism.reading(noisy, n=mechanism.records).draw(size, rng=rng):
        np.add.at(drawn, mechanism.domain.flat(chunk), 1)
    return drawn


def empty_run(surplus: Literal["moved", "shifted"]) -> np.ndarray:
    """Return draws of how many of 2,000 records lie in 16 cells without released ones, beside 16 cells with 31 each."""
    domain, n = Domain(columns={"x": Integer(lower=1, upper=32)}), 2000
    mechanism = PerturbedHistogram(domain=domain, records=n, scale=6.7, projection="w1", sampling="stratified")
    likelihood = known_likelihood(mechanism, n)
    assert isinstance(likelihood, NoisyCellCounts)
    drawn, prior = np.repeat([31, 0], 16), Prior.nested(np.full(32, 1 / 32))
    likelihood = replace(likelihood, surplus=surplus)
    counts = draw_counts(likelihood, [prior], ReleasedRecords(n, drawn), 2000, seeded(2)).counts
    return counts[:, 16:].sum(axis=1)


def test_an_empty_run_is_told_as_a_sum() -> None:
    """Its noise has a standard deviation of 38 records, and was set off: each cell by itself is not told to be 0."""
    moved, shifted = empty_run("moved"), empty_run("shifted")
    assert np.quantile(moved, 0.975) > 38.0
    assert np.quantile(shifted, 0.975) < 0.7 * np.quantile(moved, 0.975)


@pytest.mark.parametrize("strength", [None, 3.0])
def test_what_a_run_holds_is_hidden_as_a_sum(strength: float | None) -> None:
    """All tables of ten records in six cells, of which the outer two have released records.

    The two cells of a run together hold no more than what the noise of their block hides. Were each by itself allowed
    as much, the same check would fail.
    """
    n, scale, drawn = 10, 1.5, np.array([3, 0, 0, 0, 0, 2])
    likelihood = NoisyCellCounts(law=LAPLACE, scale=scale, surplus="moved", sampling="stratified")
    base = np.full(6, 1 / 6)
    prior = Prior.nested(base) if strength is None else Prior.process(strength * base)
    made = Moved(prior, likelihood, n, drawn)
    tables = np.array([c for c in itertools.product(range(n + 1), repeat=6) if sum(c) == n])

    def split(first: np.ndarray, second: np.ndarray, a: float, b: float) -> np.ndarray:
        both = gammaln(first + second + 1.0) - gammaln(first + 1.0) - gammaln(second + 1.0)
        return both + betaln(a + first, b + second) - betaln(a, b)

    def hidden(counts: np.ndarray) -> np.ndarray:
        """Twice what less than a released record stands for, which is one; the noise is that of three cells."""
        return -0.5 * (np.maximum(counts - 2.0, 0.0) / (scale * math.sqrt(6.0))) ** 2

    log = (gammaln(0.5 + tables) - gammaln(tables + 1.0)).sum(axis=1) if strength else np.zeros(len(tables))
    as_a_sum = each = np.zeros(len(tables))
    for cell, one, other, held in ((0, 1, 2, 3), (5, 3, 4, 2)):
        alone, first, second = (tables[:, at] for at in (cell, one, other))
        numbers, told = made._told(held, made._each, 0.0, made._wide(3))
        log = log + np.interp(alone + first + second, numbers, told)
        if strength is None:  # a run is split in two, and from its cell, which has half of their block
            log = log + split(first, second, 1.0, 1.0) + split(alone, first + second, 1.0, 1.0)
        as_a_sum, each = as_a_sum + hidden(first + second), each + hidden(first) + hidden(second)
    draws = made.posterior().draw(40_000, seeded(2))
    for more, right in ((as_a_sum, True), (each, False)):
        weights = np.exp(log + more - (log + more).max())
        exact = weights @ tables / weights.sum()
        near = np.abs(draws.mean(axis=0) - exact) < 5.0 * draws.std(axis=0) / 200.0  # six numbers: rate 3e-6
        assert near.all() == right


@pytest.mark.parametrize("strength", [None, 1.0, 50.0])
@pytest.mark.parametrize(
    ("cells", "n", "scale", "size"),
    [(2, 50, 0.7, 30), (5, 100_000, 7.0, 2000), (400, 2000, 0.7, 2000), (400, 100_000, 60.0, 2000)],
)
def test_no_table_is_too_lopsided(cells: int, n: int, scale: float, size: int, strength: float | None) -> None:
    domain, rng = Domain(columns={"x": Integer(lower=1, upper=cells)}), seeded(4)
    mechanism = PerturbedHistogram(domain=domain, records=n, scale=scale, projection="w1", sampling="stratified")
    base = np.full(cells, 1.0 / cells)
    prior = Prior.nested(base) if strength is None else Prior.process(strength * base)
    for concentration in (0.02, 1.0):
        held = rng.multinomial(n, rng.dirichlet(np.full(cells, concentration)))
        drawn = released(mechanism, held, size, rng)
        counted = draw_counts(known_likelihood(mechanism, n), [prior], ReleasedRecords(n, drawn), 20, rng)
        assert np.isfinite(counted.counts).all()
        assert (counted.counts >= 0).all()
        assert np.abs(counted.counts.sum(axis=1) - n).max() <= math.ceil(counted.step / 2)
