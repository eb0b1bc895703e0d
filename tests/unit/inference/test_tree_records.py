"""Posteriors given records along a tree: tables are enumerated, noise is simulated through an independent oracle."""

import functools
import itertools
import math

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.inference.trees import Splits, TreeCounts, level_sums
from discreet.mechanisms import HierarchicalHistogram
from discreet.mechanisms.tree import Consistent, Tree

RECORDS, SCALE, DRAWS, SIMULATED = 4, 2.0, 20_000, 50_000
ALPHA = np.array([0.3, 0.6, 0.9, 1.2])
FOUR = Domain(columns={"x": Integer(lower=1, upper=4)})
FEW = {"inside": (3, 0, 0, 2), "outside": (0, 3, 2, 0), "full": (1, 2, 1, 3), "half": (5, 0, 0, 0)}
MANY = (20, 0, 0, 10)
TABLES = [c for c in itertools.product(range(RECORDS + 1), repeat=4) if sum(c) == RECORDS]


def probabilities(noisy):
    """The mechanism's post-processing of (left, right, four leaves): best estimates, then clipped downwards."""
    left, right = ((2 * noisy[:, i] + noisy[:, 2 + 2 * i] + noisy[:, 3 + 2 * i]) / 3 for i in (0, 1))
    left = np.clip(left + (RECORDS - left - right) / 2, 0, RECORDS)
    parts = []
    for i, node in enumerate((left, RECORDS - left)):
        a, b = noisy[:, 2 + 2 * i].astype(float), noisy[:, 3 + 2 * i].astype(float)
        a = np.clip(a + (node - a - b) / 2, 0, node)
        parts += [a, node - a]
    return np.stack(parts, axis=1) / RECORDS


def test_the_oracle_is_the_mechanism():
    mechanism = HierarchicalHistogram(domain=FOUR, records=RECORDS, scale=SCALE)
    noisy = seeded(3).integers(-4, 8, size=(200, 6))
    assert np.allclose(probabilities(noisy), [mechanism.probabilities(row) for row in noisy])


@functools.cache
def likelihoods():
    """The likelihood of each of these records and way of sampling, by table, from simulated discrete noise."""
    rng = seeded(5)
    reach = np.arange(-math.ceil(10 * SCALE), math.ceil(10 * SCALE) + 1)
    weights = np.exp(-(reach**2) / (2 * SCALE**2))
    noise = rng.choice(reach, size=(SIMULATED, 6), p=weights / weights.sum())
    offset = rng.random((SIMULATED, 1))
    found = {case: [] for case in itertools.product([*FEW.values(), MANY], ("iid", "stratified"))}
    for c in TABLES:
        p = probabilities(np.array([c[0] + c[1], c[2] + c[3], *c]) + noise)
        below = np.cumsum(p, axis=1)[:, :-1]
        for (z, sampling), means in found.items():
            if sampling == "iid":
                means.append(np.prod(p ** np.array(z), axis=1).mean())
            else:
                sums = np.maximum(np.ceil(sum(z) * below - offset), 0)
                means.append((sums == np.cumsum(z)[:-1]).all(axis=1).mean())
    return found


def exact_moments(z, sampling):
    """First and second moments of the leaves' masses."""
    prior = [sum(math.lgamma(a + x) - math.lgamma(x + 1) for a, x in zip(ALPHA, c, strict=True)) for c in TABLES]
    weights = np.exp(prior) * likelihoods()[z, sampling]
    weights /= weights.sum()
    a, total = ALPHA + np.array(TABLES), ALPHA.sum() + RECORDS
    return weights @ a / total, weights @ (a * (a + 1)) / (total * (total + 1))


def reached(tree, variances, drawn, sampling="iid"):
    return Splits.from_tree(tree, variances, drawn, sampling, [level > 0 for level in level_sums(tree, drawn)])


def model(z, sampling="iid", scale=SCALE):
    tree = Tree.from_domain(FOUR)
    variances = Consistent(tree, (1, 2), 1.0).variances
    splits = reached(tree, variances, np.array(z), sampling)
    merged = np.bincount(splits.leaf, weights=ALPHA)
    return TreeCounts(merged, RECORDS, splits, spread=scale)


def largest_error(z, sampling, scale=SCALE):
    """The largest error of a moment of the leaves' masses, in its standard deviations; draws add 0.03 of these."""
    made = model(z, sampling, scale)
    counts = made.draw(DRAWS, seeded(7))
    gammas = seeded(8).standard_gamma(np.bincount(made._splits.leaf, weights=ALPHA) + counts)
    masses = (gammas / gammas.sum(axis=1, keepdims=True))[:, made._splits.leaf]
    inside = np.stack([seeded(9 + i).standard_gamma(a, size=DRAWS) for i, a in enumerate(ALPHA)], axis=1)
    sums = np.stack([np.bincount(made._splits.leaf, weights=row) for row in inside])
    masses *= inside / sums[:, made._splits.leaf]
    errors = []
    for power, exact in zip((1, 2), exact_moments(z, sampling), strict=True):
        draws = masses**power
        errors.append(np.abs(draws.mean(axis=0) - exact) / draws.std(axis=0))
    return float(np.max(errors))


@pytest.mark.parametrize("sampling", ["iid", "stratified"])
@pytest.mark.parametrize("z", FEW.values(), ids=FEW)
def test_posteriors_given_few_records_are_nearly_exact(z, sampling):
    """Four records and noise of two: here the approximation is at its worst."""
    assert largest_error(z, sampling) < 0.4


@pytest.mark.parametrize("sampling", ["iid", "stratified"])
def test_the_check_rejects_a_fifth_of_the_noise(sampling):
    assert largest_error(MANY, sampling, SCALE / 5) > 0.4


def test_what_is_left_of_a_tree():
    """Cells 1 to 3 and 4 to 6: the second half has no released records and stands undivided; so has cell 1."""
    tree = Tree.from_domain(Domain(columns={"x": Integer(lower=1, upper=6)}))
    variances = Consistent(tree, (1, 2, 3), 1.0).variances
    splits = reached(tree, variances, np.array([0, 2, 5, 0, 0, 0]))
    assert splits.leaf.tolist() == [0, 1, 2, 3, 3, 3]
    assert splits.evidence.tolist() == [0, 2, 5, 0]
    assert splits.children.tolist() == [[[3, 4], [0, 3]], [[0, 1], [1, 3]], [[1, 2], [2, 3]]]
    assert np.allclose(splits.share[2], 0.5)


def test_errors_of_splits_are_those_of_the_mechanism():
    """Theorem: ``x = C + w (u - C) + e`` gives the mechanism's estimates; the ``e`` are uncorrelated, as it states."""
    rng, held = seeded(9), np.array([3, 9, 4, 7])
    noise = rng.integers(-3, 4, size=(20_000, 6))
    exact = np.array([held[:2].sum(), held[2:].sum(), *held])
    half = (2 * noise[:, :2] + np.stack([noise[:, 2:4].sum(axis=1), noise[:, 4:].sum(axis=1)], axis=1)) / 3
    errors = np.stack([half @ [0.5, -0.5], noise[:, 2:4] @ [0.5, -0.5], noise[:, 4:] @ [0.5, -0.5]], axis=1)
    sums = np.clip(exact[0] + errors[:, 0], 0, held.sum())
    mechanism = HierarchicalHistogram(domain=FOUR, records=int(held.sum()), scale=SCALE)
    for row in range(50):
        p = mechanism.probabilities(exact + noise[row]) * held.sum()
        first = np.clip(held[0] + (sums[row] - exact[0]) / 2 + errors[row, 1], 0, sums[row])
        assert np.allclose(p[:2], [first, sums[row] - first])
    covariance = np.cov(errors.T) / 4.0  # noise uniform on -3 .. 3 has variance 4
    splits = model((1, 1, 1, 1))._splits
    assert np.allclose(np.diag(covariance), splits.variance, rtol=0.05)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 5.5 * 0.5 / math.sqrt(20_000)


def test_draws_do_not_depend_on_the_number_of_records():
    """Where noise is a share of them: shares are the same, up to 5.5 standard errors."""
    found = []
    for n in (10**4, 10**9):
        tree = Tree.from_domain(Domain(columns={"x": Integer(lower=1, upper=32)}))
        variances = Consistent(tree, (5,), 1.0).variances
        splits = reached(tree, variances, np.arange(32) + 1)
        made = TreeCounts(np.full(32, 0.5), n, splits, spread=n / 1000)
        found.append(made.draw(400, seeded(6)) / n)
    small, large = found
    error = np.sqrt((small.var(axis=0) + large.var(axis=0)) / 400)
    assert (np.abs(small.mean(axis=0) - large.mean(axis=0)) < 5.5 * error + 1e-4).all()
