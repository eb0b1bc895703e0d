"""Long columns: sets of cells in place of cells, against all cells, and planted defects of the tree's algorithm."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.domain import Domain, Integer, Numeric
from discreet.inference import mechanism_aware, posterior
from discreet.inference.functionals import functional
from discreet.inference.line import CellSets
from discreet.inference.population import Posterior
from discreet.inference.prior import strength_at
from discreet.inference.trees import Splits, TreeCounts
from discreet.mechanisms import HierarchicalHistogram
from discreet.mechanisms.tree import Consistent, Tree

CELLS, SETS, DRAWS = 600, 40, 30
LINE = Domain(columns={"x": Numeric(lower=0.0, upper=60.0, cells=CELLS)})
ASKED = ["P(<=13.27)", "P(>41.1)", "P(7.5..9.25)", "q5", "q50", "q90", "mean", "sd"]


def long_posterior(shift: int = 0) -> tuple[Posterior, Posterior]:
    """The same draws, of sets of cells and of all cells; ``shift``: a planted defect, sets that are one cell off."""
    rng = seeded(3)
    starts = np.sort(rng.choice(np.arange(1, CELLS), SETS - 1, replace=False))
    set_of = np.searchsorted(starts, np.arange(CELLS), side="right")
    shares = rng.gamma(0.3, size=CELLS)
    shares /= np.bincount(set_of, weights=shares)[set_of]
    masses = rng.dirichlet(np.full(SETS, 2.0), size=DRAWS)
    cells = LINE.unflat(np.arange(CELLS))
    condensed = Posterior.from_sets(LINE, cells, CellSets(set_of, np.roll(shares, shift)), masses, bounds=True)
    return condensed, Posterior.of_arrays(LINE, cells, masses[:, set_of] * shares, bounds=True)


def test_numbers_of_sets_are_those_of_all_cells() -> None:
    condensed, whole = long_posterior()
    parsed = [functional(name, LINE.columns["x"]) for name in ASKED]
    found, exact = condensed._evaluate(parsed, None), whole._evaluate(parsed, None)
    for place, name in enumerate(ASKED):
        within = 0.02 if name == "sd" else 1e-9  # sets stand on two cells, of nearly their variance
        assert found[:, place] == pytest.approx(exact[:, place], abs=within), name
    band, other = condensed.cdf([13.27, 50.0]), whole.cdf([13.27, 50.0])
    assert np.allclose(band.lower, other.lower)
    assert np.allclose(np.concatenate([draws.weights for draws in condensed._blocks()]), whole.block(0).weights)
    shifted = long_posterior(shift=1)[0]._evaluate(parsed, None)
    assert not np.allclose(shifted[:, :6], exact[:, :6])


@pytest.mark.parametrize("counts", [True, False])
def test_a_long_column_has_the_intervals_of_the_whole_tree(counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means to a fifth of a standard deviation, lengths to a fifth, before and after sets replace cells."""
    rng, n = seeded(8), 4000
    domain = Domain(columns={"x": Numeric(lower=0.0, upper=100.0, cells=512)})
    table = pl.DataFrame({"x": np.where(rng.random(n) < 0.2, 20.0, np.clip(rng.lognormal(2.5, 0.7, n), 0.0, 99.0))})
    options: dict[str, Any] = {"counts": True, "size": None} if counts else {"size": n}
    mechanism = HierarchicalHistogram.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=domain, n=n, size=n)
    released = release(table, domain, mechanism=mechanism, seed=4, **options)
    asked = ["mean", "q50", "P(<=13)", "P(20..25)"]
    whole = posterior(released).summary(asked).rows
    monkeypatch.setattr(mechanism_aware, "WHOLE", 128)
    made = posterior(released)
    assert made.sets is not None
    assert made.sets.masses.shape[1] < 480
    for row, other in zip(made.summary(asked).rows, whole, strict=True):
        assert abs(row.mean - other.mean) < 0.2 * other.sd + 0.1
        assert row.upper - row.lower == pytest.approx(other.upper - other.lower, rel=0.2)


def leaf_means(splits: Splits, strength: Any = None) -> Any:
    counts = TreeCounts(np.full(4, 0.25), 60, splits, spread=3.0, strength=strength).draw(4000, seeded(1))
    return counts.mean(axis=0)


def test_planted_defects_of_the_tree_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """All counts of four leaves listed, with the likelihood of every split and the prior; then a defect each."""
    tree = Tree.from_domain(Domain(columns={"x": Integer(lower=1, upper=4)}))
    variances = Consistent(tree, (1, 2), 1.0).variances
    told = np.array([31.0, -4.0, 8.0, 25.0])
    opened = [np.ones(tree.nodes(level), dtype=bool) for level in range(2)]
    splits = Splits.from_tree(tree, variances, told, None, opened)
    c = np.stack(np.meshgrid(*[np.arange(61)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    c = np.column_stack((c, 60 - c.sum(axis=1)))[c.sum(axis=1) <= 60]
    nodes = np.column_stack((c[:, :2].sum(axis=1), c[:, 2:].sum(axis=1), c))
    noisy = np.array([27.0, 33.0, 31.0, -4.0, 8.0, 25.0])  # of all nodes: they are consistent
    log = -((noisy - nodes) ** 2).sum(axis=1) / (2 * 3.0**2) - np.log((nodes[:, 0] + 1.0) * (nodes[:, 1] + 1.0))
    weights = np.exp(log - log.max())
    exact = weights @ c / weights.sum()
    assert leaf_means(splits, strength_at) == pytest.approx(exact, abs=0.2)
    wrong_level = replace(splits, variance=splits.variance * np.where(splits.depth == 1, 4.0, 1.0))
    assert np.abs(leaf_means(wrong_level, strength_at) - exact).max() > 0.4
    monkeypatch.setattr(TreeCounts, "_told", lambda self, node, counts: np.where(counts >= 0.0, 0.0, -np.inf))
    assert np.abs(leaf_means(splits, strength_at) - exact).max() > 0.4  # nothing is carried up
