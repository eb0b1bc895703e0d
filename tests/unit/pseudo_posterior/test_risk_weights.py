"""Weights from risks: closed forms, ranges, and what must be refused."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.errors import ParameterError
from discreet.pseudo_posterior import (
    CensoredPosterior,
    LinearWeights,
    MappedWeights,
    PoissonMean,
    PseudoPosterior,
    Truncated,
    Unweighted,
    reciprocal,
)
from discreet.pseudo_posterior.weights import CountWeights, ExponentialWeights

RISKS = arrays(np.float64, st.integers(1, 30), elements=st.floats(0.0, 100.0))
EVERY = (
    Unweighted(),
    LinearWeights(c=0.7, g=-0.1),
    MappedWeights(function=reciprocal),
    MappedWeights(function=lambda risks: risks < 3.0),
    ExponentialWeights(epsilon=4.0),
    Truncated(weighting=LinearWeights(), most=2.0),
)


def test_the_linear_map_is_equation_10() -> None:
    risks = np.array([2.0, 5.0, 12.0])
    relative = (risks - 2.0) / 10.0
    for c, g in ((1.0, 0.0), (0.5, -0.3), (0.9, 0.4)):
        expected = np.clip(c * (1 - relative) + g, 0, 1)
        assert LinearWeights(c=c, g=g).weights(risks, {}) == pytest.approx(expected)
    assert LinearWeights().weights([3.0, 3.0], {}).tolist() == [1.0, 1.0]  # equal risks count in full


def test_the_exponential_mechanism_gives_every_record_epsilon_over_two_delta() -> None:
    weights = ExponentialWeights(epsilon=4.0).weights([1.0, 8.0], {})
    assert weights.tolist() == [0.25, 0.25]
    assert 2 * (weights * [1.0, 8.0]).max() == 4.0


@given(RISKS)
def test_weights_lie_between_0_and_1_and_fall_with_the_risk(risks: np.ndarray) -> None:
    order = np.argsort(risks)
    for weighting in EVERY[:-1]:
        weights = weighting.weights(risks, {})
        assert ((weights >= 0) & (weights <= 1)).all()
        assert (np.diff(weights[order]) <= 1e-12).all()


@given(RISKS, st.floats(0.1, 50.0))
def test_truncation_keeps_every_weighted_risk_below_the_bound(risks: np.ndarray, most: float) -> None:
    weights = Truncated(weighting=LinearWeights(), most=most).weights(risks, {})
    assert (weights * risks).max() <= most


@pytest.mark.parametrize("weighting", EVERY)
def test_a_record_without_a_finite_likelihood_gets_weight_0_and_moves_no_other(weighting) -> None:
    risks = np.array([1.0, 2.0, 2.5])
    alone = weighting.weights(risks, {})
    beside = weighting.weights([1.0, np.inf, 2.0, np.nan, 2.5], {})
    assert beside[[1, 3]].tolist() == [0.0, 0.0]
    assert beside[[0, 2, 4]] == pytest.approx(alone)


def test_isolation_is_counted_within_groups() -> None:
    data = {"y": np.array([0.0, 0.1, 5.0, 5.1, 9.0]), "sex": np.array([0, 0, 0, 1, 1])}
    weighting = CountWeights(column="y", radius=0.5, known=("sex",))
    brute = [
        np.mean(np.abs(data["y"][data["sex"] == s] - y) <= 0.5) for y, s in zip(data["y"], data["sex"], strict=True)
    ]
    assert weighting.weights(np.zeros(5), data) == pytest.approx(brute)


def test_what_is_no_weighting_is_refused() -> None:
    with pytest.raises(ParameterError, match="one finite number per record"):
        MappedWeights(function=lambda z: z[:1]).weights([1.0, 2.0], {})
    with pytest.raises(ParameterError, match="no array 'x'"):
        CountWeights(column="x", radius=1.0).weights([1.0], {"y": np.array([1.0])})
    for make in (lambda: LinearWeights(c=-1.0), lambda: ExponentialWeights(epsilon=0.0),
                 lambda: Truncated(weighting=Unweighted(), most=0.0)):  # fmt: skip
        with pytest.raises(ParameterError):
            make()


@pytest.mark.parametrize(
    ("foreign", "python"),
    [
        (LinearWeights(c=np.float32(0.5), g=Fraction(-1, 4)), LinearWeights(c=0.5, g=-0.25)),
        (LinearWeights(c=1, g=0), LinearWeights(c=1, g=0)),
        (ExponentialWeights(epsilon=np.int64(4)), ExponentialWeights(epsilon=4.0)),
        (Truncated(weighting=LinearWeights(), most=Decimal("2.5")), Truncated(weighting=LinearWeights(), most=2.5)),
        (
            PseudoPosterior(PoissonMean(column="v"), target_epsilon=np.int64(8), tables=np.int64(3), draws=np.int32(9)),
            PseudoPosterior(PoissonMean(column="v"), target_epsilon=8.0, tables=3, draws=9),
        ),
        (
            CensoredPosterior(PoissonMean(column="v"), bound=np.float16(2.5), size=np.int64(3), chains=np.uint8(2)),
            CensoredPosterior(PoissonMean(column="v"), bound=2.5, size=3, chains=2),
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_numbers_of_other_libraries_are_plain(foreign: object, python: object) -> None:
    """As texts, by which the points of a frontier are found again, and which tell types apart."""
    assert repr(foreign) == repr(python)
