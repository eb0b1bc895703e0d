"""Records of a projection that sets negative noisy counts off against their neighbours: what they tell of sums."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.inference._counts import given_records
from discreet.inference._positive import _nearest_held, _sets
from discreet.inference._prior import Prior
from discreet.mechanisms import PerturbedHistogram
from discreet.mechanisms._evidence import NoisyCellCounts
from discreet.mechanisms._known import known_evidence


def test_cells_without_records_belong_to_the_nearest_with_some() -> None:
    assert _nearest_held(np.array([0, 3, 0, 0, 1, 2, 0, 0, 0])).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert _nearest_held(np.array([5])).tolist() == [0]


def test_a_tree_joins_each_block_before_all_of_them() -> None:
    sets = _sets(np.array([0, 0, 0, 1, 2, 2]))
    assert [one.tolist() for one in sets] == [[0, 0, 1, 2, 3, 3], [0, 0, 1, 2], [0, 0, 1], [0, 0]]
    assert _sets(np.array([0])) == []


def released(mechanism: PerturbedHistogram, held: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    noisy = held + mechanism.law.draw(mechanism.scale, len(held), rng=rng)
    drawn = np.zeros(len(held), dtype=np.int64)
    for chunk in mechanism.finish(noisy, size=size, rng=rng):
        np.add.at(drawn, mechanism.domain.flat(chunk), 1)
    return drawn


def empty_run(surplus: Literal["moved", "shifted"]) -> np.ndarray:
    """Return draws of how many of 2,000 records lie in 16 cells without released ones, beside 16 cells with 31 each."""
    domain, n = Domain(columns={"x": Integer(lower=1, upper=32)}), 2000
    mechanism = PerturbedHistogram(domain=domain, records=n, scale=6.7, projection="w1", sampling="stratified")
    evidence = known_evidence(mechanism)
    assert isinstance(evidence, NoisyCellCounts)
    drawn, prior = np.repeat([31, 0], 16), Prior.halving(np.full(32, 1 / 32))
    counts = given_records(replace(evidence, surplus=surplus), prior, n, drawn, 2000, seeded(2)).counts
    return counts[:, 16:].sum(axis=1)


def test_an_empty_run_is_told_as_a_sum() -> None:
    """Its noise has a standard deviation of 38 records, and was set off: each cell by itself is not told to be 0."""
    moved, shifted = empty_run("moved"), empty_run("shifted")
    assert np.quantile(moved, 0.975) > 38.0
    assert np.quantile(shifted, 0.975) < 0.7 * np.quantile(moved, 0.975)


@pytest.mark.parametrize("strength", [None, 1.0, 50.0])
@pytest.mark.parametrize(
    ("cells", "n", "scale", "size"),
    [(2, 50, 0.7, 30), (5, 100_000, 7.0, 2000), (400, 2000, 0.7, 2000), (400, 100_000, 60.0, 2000)],
)
def test_no_table_is_too_lopsided(cells: int, n: int, scale: float, size: int, strength: float | None) -> None:
    domain, rng = Domain(columns={"x": Integer(lower=1, upper=cells)}), seeded(4)
    mechanism = PerturbedHistogram(domain=domain, records=n, scale=scale, projection="w1", sampling="stratified")
    base = np.full(cells, 1.0 / cells)
    prior = Prior.halving(base) if strength is None else Prior(strength * base)
    for concentration in (0.02, 1.0):
        held = rng.multinomial(n, rng.dirichlet(np.full(cells, concentration)))
        drawn = released(mechanism, held, size, rng)
        counted = given_records(known_evidence(mechanism), prior, n, drawn, 20, rng)
        assert np.isfinite(counted.counts).all()
        assert (counted.counts >= 0).all()
        assert np.abs(counted.counts.sum(axis=1) - n).max() <= math.ceil(counted.step / 2)
