"""Atoms in a tree: splits above them are softer, so that empty cells beside an atom take nothing from it."""

import datetime
import itertools

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp

from discreet import release
from discreet._core.random import seeded
from discreet.domain import Date, Domain, Integer, Numeric
from discreet.inference import mechanism_aware
from discreet.inference.line import extremes
from discreet.inference.prior import Prior, strength_at
from discreet.inference.trees import Splits, TreeCounts, level_sums
from discreet.mechanisms import HierarchicalHistogram
from discreet.mechanisms.tree import Consistent, Tree

FOUR, RECORDS, FIRST = Domain(columns={"x": Integer(lower=1, upper=4)}), 12, np.array([True, False, False, False])
TABLES = np.array([c for c in itertools.product(range(RECORDS + 1), repeat=4) if sum(c) == RECORDS])
EVIDENCE, SPREAD = np.array([6.5, -0.5, 3.5, 2.5]), 1.5


def splits() -> Splits:
    tree = Tree.from_domain(FOUR)
    opened = [np.ones(len(level), dtype=bool) for level in level_sums(tree, EVIDENCE)]
    return Splits.from_tree(tree, Consistent(tree, (1, 2), 1.0).variances, EVIDENCE, None, opened)


def log_weights(prior: Prior) -> np.ndarray:
    """Every table's prior, and what each split tells of it: the definition, term by term."""
    told, logs = splits(), prior.log_weights(TABLES)
    for (one, other), share, variance in zip(told.children, told.share, told.variance, strict=True):
        first, second = (TABLES[:, a:b].sum(axis=1) for a, b in (one, other))
        estimate, both = EVIDENCE[slice(*one)].sum(), EVIDENCE[slice(*one)].sum() + EVIDENCE[slice(*other)].sum()
        logs = logs - (estimate - first - share * (both - first - second)) ** 2 / (2.0 * variance * SPREAD**2)
    return logs


def counts(atoms: np.ndarray | None) -> TreeCounts:
    return TreeCounts(np.full(4, 0.25), RECORDS, splits(), spread=SPREAD, strength=strength_at, atoms=atoms)


def test_splits_above_an_atom_are_softer_and_no_others() -> None:
    pairs, root = Prior.nested(np.full(4, 0.25), atoms=FIRST).layers
    assert root.masses.tolist() == [1.0, 1.0]
    assert pairs.masses.tolist() == [0.5, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("atoms", [None, FIRST])
def test_counts_given_a_tree_with_an_atom_against_all_tables(atoms: np.ndarray | None) -> None:
    """Means of 20,000 draws: five standard errors, so a false alarm in less than one of 100,000 runs."""
    logs = log_weights(Prior.nested(np.full(4, 0.25), atoms=atoms))
    weights, made = np.exp(logs - logsumexp(logs)), counts(atoms)
    plain = logsumexp(log_weights(Prior.nested(np.full(4, 0.25))))
    assert made.log - counts(None).log == pytest.approx(logsumexp(logs) - plain, abs=1e-6)
    mean = weights @ TABLES
    spread = np.sqrt(weights @ (TABLES - mean) ** 2 / 20_000)
    assert np.all(np.abs(made.draw(20_000, seeded(3)).mean(axis=0) - mean) < 5.0 * spread)


@pytest.mark.parametrize(
    "column",
    [
        Integer(lower=0, upper=999, cells=8, atoms=[0, 500]),
        Numeric(lower=0, upper=100, cells=4, coin=True, atoms=[0, 99]),
        Date(lower="2000-01-01", upper="2009-12-31", cells=4, atoms=[datetime.date(2000, 1, 1), "2005-01-01"]),
    ],
)
def test_the_cells_of_atoms_are_single_values(column: Integer | Numeric | Date) -> None:
    domain = Domain(columns={"x": column})
    cells = np.arange(domain.size or 0)
    found = mechanism_aware._atoms(domain, cells, None)
    assert found is not None
    assert found.sum() == 2
    least, greatest = extremes(column, domain.unflat(cells[found]).columns[0])
    assert np.array_equal(least, greatest)
    assert mechanism_aware._atoms(Domain(columns={"x": Integer(lower=1, upper=9)}), cells, None) is None


def test_empty_cells_take_nothing_from_an_atom(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of eight releases has a standard error of about 3 records; without softer splits 10 or more go away."""
    domain = Domain(columns={"x": Numeric(lower=0, upper=100, cells=64, atoms=[0, 99])})
    table = pl.DataFrame({"x": [*np.repeat(np.arange(0.5, 25.0, 0.5), 300).tolist(), *[99.0] * 100]})
    mechanism = HierarchicalHistogram(domain=domain, records=len(table), scale=6.0)
    releases = [release(table, domain, mechanism=mechanism, size=len(table), seed=seed) for seed in range(8)]

    def away() -> float:
        """How far the expected number of records at the atom is from the true one."""
        shares = [made.posterior(draws=200).evaluate("P(=99)").mean() for made in releases]
        return len(table) * float(np.mean(shares)) - 100.0

    assert abs(away()) < 10.0
    monkeypatch.setattr(mechanism_aware, "_atoms", lambda *_: None)
    assert away() < -10.0
