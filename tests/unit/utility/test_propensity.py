"""pMSE: against scikit-learn, its law under no difference, and its largest value."""

from __future__ import annotations

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.utility import pmse


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scikit_learn(seed: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = seeded(seed)
    x, y = rng.normal(size=(60, 3)), rng.normal(0.4, 1.3, size=(90, 3))
    p, q = rng.integers(1, 5, 60), rng.integers(1, 5, 90)
    features, labels, weights = np.concatenate((x, y)), np.repeat((0, 1), (60, 90)), np.concatenate((p, q))
    centred = features - np.average(features, axis=0, weights=weights)
    centred /= np.sqrt(np.average(centred**2, axis=0, weights=weights))
    model = linear_model.LogisticRegression(C=1e6 / weights.sum(), tol=1e-12, max_iter=10_000)
    fitted = model.fit(centred, labels, sample_weight=weights).predict_proba(centred)[:, 1]
    oracle = np.average((fitted - q.sum() / weights.sum()) ** 2, weights=weights)
    assert pmse(x, y, x_weights=p, y_weights=q) == pytest.approx(oracle, rel=1e-6)


def test_its_mean_without_difference() -> None:
    """x and y of one law, c = 1/2, 3 features: the mean is near k c (1 - c) / N of two samples.

    N pMSE / (c (1 - c)) is close to chi-squared with 3 degrees of freedom, divided by 1: mean 3, standard deviation
    sqrt(6) a run. 200 runs: the mean lies within 6 standard errors but for one time in 1e8, and 5 % for the
    approximation.
    """
    rng = seeded(6)
    runs = [400 * pmse(rng.normal(size=(200, 3)), rng.normal(size=(200, 3))) / 0.25 for _ in range(200)]
    assert np.mean(runs) == pytest.approx(3, abs=6 * np.sqrt(6 / 200) + 0.15)


def test_ends_of_its_range() -> None:
    rng = seeded(7)
    x = rng.normal(size=(50, 2))
    assert pmse(x, x) == pytest.approx(0, abs=1e-15)
    assert pmse(x, x + 100) == pytest.approx(0.25, rel=1e-2)
    assert pmse(x, np.tile(x, (3, 1)) + 100) == pytest.approx(0.75 * 0.25, rel=1e-2)
    assert pmse(np.ones((5, 1)), np.ones((7, 1))) == pytest.approx(0, abs=1e-15)
    assert pmse(np.zeros((5, 0)), np.zeros((7, 0))) == pytest.approx(0, abs=1e-15)
    collinear = np.column_stack((x, x))
    assert pmse(collinear, collinear[:10]) == pytest.approx(pmse(x, x[:10]), rel=1e-3)


def test_weights_stand_for_repetitions() -> None:
    rng = seeded(8)
    x, y, p = rng.normal(size=(20, 2)), rng.normal(1, 1, size=(30, 2)), rng.integers(0, 4, 20)
    assert pmse(x, y, x_weights=p) == pytest.approx(pmse(np.repeat(x, p, axis=0), y), rel=1e-9)


def test_refuses_what_are_no_tables() -> None:
    for bad in (np.zeros(3), np.zeros((0, 2)), np.zeros((3, 1))):
        with pytest.raises(ParameterError, match="same features"):
            pmse(bad, np.zeros((3, 2)))
