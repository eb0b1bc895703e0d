"""A pair of columns that a mixture misses is met by drawing one of them given the other."""

from itertools import combinations

import numpy as np
import pytest

from discreet._core.random import ApproximateGenerator, seeded
from discreet.domain import Boolean, Counts, Domain, Integer, Records
from discreet.mechanisms import Marginals
from discreet.mechanisms.latent_classes import Block, LatentClasses, PairTable, Within, with_moments
from discreet.mechanisms.pair_losses import clear_covariance
from discreet.privacy import Budget


def model(rng: np.random.Generator, sizes: tuple[int, ...] = (4, 5, 3), classes: int = 3) -> LatentClasses:
    blocks = []
    for i, size in enumerate(sizes):
        within = Within.from_merged(np.arange(size), np.ones(size))
        blocks.append(Block((i,), (np.arange(size),), rng.dirichlet(np.ones(size), classes).T, within))
    return LatentClasses(rng.dirichlet(np.ones(classes)), tuple(blocks))


@pytest.mark.parametrize("stratified", [True, False])
def test_linked_pairs_are_met_and_the_others_keep_their_classes(stratified: bool) -> None:
    """Two links in a row; without them the distance is 0.3 and more, and independent records scatter by 0.02."""
    rng = seeded(3)
    mixture = model(rng)
    margins = [block.inside @ mixture.shares for block in mixture.blocks]
    tables = {}
    for i, j in ((0, 1), (1, 2)):
        table = rng.dirichlet(np.full(margins[i].size * margins[j].size, 0.1)).reshape(margins[i].size, -1) + 1e-4
        for _ in range(500):
            table *= (margins[i] / table.sum(axis=1))[:, None]
            table *= margins[j] / table.sum(axis=0)
        tables[i, j] = table
    linked = mixture.linked(tables, [np.arange(len(margin)) for margin in margins])
    n = 40_000
    classes = rng.permutation(np.repeat(np.arange(3), np.rint(n * mixture.shares).astype(int)))
    for drawn, most in ((linked, 0.006 if stratified else 0.02), (mixture, None)):
        cells = drawn.records(classes, drawn.blocks, stratified=stratified, rng=rng)
        for (i, j), table in tables.items():
            counts = np.zeros_like(table)
            np.add.at(counts, (cells[i], cells[j]), 1.0 / len(classes))
            distance = 0.5 * np.abs(counts - table).sum()
            assert (distance > 0.3) if most is None else (distance < most)


def test_a_nearly_determined_pair_is_kept_and_stratified_records_hold_it() -> None:
    """Two columns of 40 values that differ by at most one: the mixture loses more than a third of the records."""
    rng, n = seeded(5), 20_000
    first = rng.integers(0, 40, n)
    codes = [first, np.clip(first + rng.integers(0, 2, n), 0, 39), *rng.integers(0, 4, (4, n))]
    domain = Domain(columns={f"c{i}": Integer(lower=0, upper=39 if i < 2 else 3) for i in range(6)})
    x = Counts(records=Records(columns=tuple(codes)), frequencies=np.ones(n, dtype=np.int64))
    made = Marginals.calibrated(Budget(epsilon=3.0, delta=1e-6), domain=domain, n=n)
    reading = made.reading(made.kernel(x, rng=ApproximateGenerator(1)), n=n)
    released = Records.concatenate(reading.draw(n, rng=ApproximateGenerator(2))).columns
    held, found = (np.bincount(40 * a + b, minlength=1600) / n for a, b in (codes[:2], released[:2]))
    assert 0.5 * np.abs(held - found).sum() < 0.15
    for i, j in combinations(range(2, 6), 2):
        counts = np.bincount(4 * released[i] + released[j], minlength=16) / n
        assert 0.5 * np.abs(counts - 1 / 16).sum() < 0.03


def test_a_clear_covariance_is_the_correlation_of_a_table_and_is_kept_by_the_nearest_one() -> None:
    """In closed form: excess @ row, in its unit, is the correlation; where noise hides it there is no row."""
    rng, n = seeded(9), 20_000
    domain = Domain(columns={"a": Integer(lower=0, upper=8), "b": Integer(lower=0, upper=5), "c": Boolean()})
    first = rng.integers(0, 9, n)
    codes = (first, np.minimum(first // 2 + rng.integers(0, 2, n), 5), first > 4)
    x = Counts(
        records=Records(columns=tuple(c.astype(np.int64) for c in codes)), frequencies=np.ones(n, dtype=np.int64)
    )
    made = Marginals.calibrated(Budget(epsilon=100.0, delta=1e-6), domain=domain, n=n)
    measured = made.reading(made.kernel(x, rng=ApproximateGenerator(1)), n=n).measured
    held = dict.fromkeys(((0, 1), (0, 2)))
    for pair in held:
        cells = [
            merged.cell_of[codes[i].astype(int)] for i, merged in zip(pair, measured.choice.cells(pair), strict=True)
        ]
        table = np.zeros([merged.count for merged in measured.choice.cells(pair)])
        np.add.at(table, tuple(cells), 1.0 / n)
        a, b = table.sum(axis=1), table.sum(axis=0)
        excess = PairTable(table - np.outer(a, b), np.full(table.shape, 1e-6))
        row, unit = clear_covariance(measured, pair, excess, (a, b), 8.0)
        assert row.shape == (1, table.size)
        assert np.isclose(row @ row.T, 1.0)
        values = [measured.values[0][i][0][c] for i, c in zip(pair, cells, strict=True)]
        assert np.isclose(unit * float(row[0] @ excess.excess.ravel()), np.corrcoef(*values)[0, 1])
        moved = with_moments(np.zeros(table.shape), row, excess.excess)
        assert np.isclose(row[0] @ moved.ravel(), row[0] @ excess.excess.ravel())
        hidden = PairTable(excess.excess, np.full(table.shape, abs(float(row[0] @ excess.excess.ravel())) / 7.9))
        assert len(clear_covariance(measured, pair, hidden, (a, b), 8.0)[0]) == 0


def test_a_correlation_that_few_records_decide_is_kept() -> None:
    """Two long tails hold a fiftieth of the records, and nearly all of the correlation: less than a link's share."""
    rng, n = seeded(11), 60_000
    tail = np.where(rng.random(n) < 0.02, rng.integers(8, 24, n), 0)
    codes = [tail + rng.integers(0, 4, n), tail + rng.integers(0, 4, n), *rng.integers(0, 6, (6, n))]
    columns = {f"c{i}": Integer(lower=0, upper=27 if i < 2 else 5) for i in range(8)}
    x = Counts(records=Records(columns=tuple(codes)), frequencies=np.ones(n, dtype=np.int64))
    made = Marginals.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=Domain(columns=columns), n=n)
    true = float(np.corrcoef(codes[0], codes[1])[0, 1])
    assert true > 0.7
    for seed in range(3):
        reading = made.reading(made.kernel(x, rng=ApproximateGenerator(seed)), n=n)
        released = Records.concatenate(reading.draw(n, rng=ApproximateGenerator(2))).columns
        assert abs(float(np.corrcoef(released[0], released[1])[0, 1]) - true) < 0.05
