"""Counts that are followed in steps of several records: the sums of steps, and what a release tells of trees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.domain import Domain, Integer
from discreet.inference import prior as prior_module
from discreet.inference import trees
from discreet.inference.prior import Lattice, Noise, Prior, log_prior
from discreet.inference.samplers import lowered, near, tree_records
from discreet.mechanisms import HierarchicalHistogram

CELLS, SPREAD = 64, 60.0


@pytest.mark.parametrize("alpha", [1 / 256, 0.5, 1.0, 8.0])
@pytest.mark.parametrize("rate", [0.0, -1e-3, -0.05, -0.5])
@pytest.mark.parametrize("step", [2, 5, 8])
def test_a_step_holds_the_sum_of_its_counts(alpha: float, rate: float, step: int) -> None:
    multiples = np.array([0, 1, 2, 7, 31, 32, 33, 100]) * float(step)
    found = log_prior(alpha, multiples, step, rate)
    for at, one in zip(multiples, found, strict=True):
        counts = np.arange(max(0, int(at) - step // 2), int(at) + step - step // 2).astype(np.float64)
        whole = np.logaddexp.reduce(log_prior(alpha, counts) + rate * counts)
        assert one == pytest.approx(whole, abs=0.02 if rate == -0.5 else 2e-3)


def told(counts: np.ndarray, records: int, step: int) -> float:
    """Return by how much more a release speaks for the tree that becomes firmer than for the one that does not."""
    noise = Noise("gaussian", SPREAD)

    def log(start: float) -> float:
        prior = Prior.nested(np.full(CELLS, 1.0 / CELLS), start=start)
        lattice = Lattice(records, step, prior, lowered(counts, records), noise.spread)
        return lattice.sums(counts.tolist(), lambda y: near(lattice, noise, y)).log

    return log(4) - log(math.inf)


def drawn(heaped: bool, records: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    shares = rng.gamma(0.1, size=CELLS) if heaped else np.exp(-(np.linspace(-3, 3, CELLS) ** 2) / 2)
    return rng.multinomial(records, shares / shares.sum())


@pytest.mark.parametrize("heaped", [False, True])
def test_steps_tell_of_trees_what_single_records_tell(heaped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A split's law has to be one of rounded counts too: else each set that may be empty speaks for firmer trees."""
    records = 3000
    counts = np.round(drawn(heaped, records) + np.random.default_rng(2).normal(0, SPREAD, CELLS))
    exact = told(counts, records, 1)
    assert told(counts, records, 5) == pytest.approx(exact, abs=0.5)
    monkeypatch.setattr(prior_module, "_FEW", 0)
    assert told(counts, records, 5) > exact + 5.0


@pytest.mark.parametrize("heaped", [False, True])
def test_records_along_a_tree_tell_of_it_the_same_on_a_finer_lattice(
    heaped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = 3000
    domain = Domain(columns={"x": Integer(lower=1, upper=CELLS)})
    likelihood = HierarchicalHistogram(domain=domain, records=records, scale=SPREAD).likelihood()
    released = drawn(heaped, records)

    def told() -> float:
        _, firmer, one = Prior.along(likelihood.consistent.tree, np.full(CELLS, 1.0 / CELLS), firmer=0)
        logs = [tree_records(likelihood, prior, records, released).log for prior in (firmer, one)]
        return logs[0] - logs[1]

    found = told()
    monkeypatch.setattr(trees, "_FEW", 0)
    assert abs(told() - found) > 2.0
    monkeypatch.undo()
    monkeypatch.setattr(trees, "_FINE", 24.0)
    assert found == pytest.approx(told(), abs=0.5)
