"""The risk-weighted pseudo-posterior: closed forms of the Poisson model, honesty of its promise, any NumPyro model."""

import math

import numpy as np
import pytest
from exact_laws import log_poisson

from discreet._core.lazy import dist, numpyro
from discreet._core.random import seeded
from discreet.errors import GuaranteeKindError, ParameterError, Refused, RelationNotSupported
from discreet.privacy import Relation
from discreet.privacy.guarantee import require_kind
from discreet.pseudo_posterior import (
    Convergence,
    LinearWeights,
    MappedWeights,
    PoissonMean,
    PseudoPosterior,
    Truncated,
    Unweighted,
    reciprocal,
)
from discreet.pseudo_posterior.pseudo import safety_factor
from discreet.pseudo_posterior.regressions import CategoricalShares
from discreet.pseudo_posterior.weights import Risks, Scaled

pytestmark = pytest.mark.chains

COUNTS = seeded(11).poisson(100.0, size=300)


def poisson_model(data):
    mean = numpyro.sample("mean", dist.Gamma(0.01, 0.0001))
    with numpyro.plate("records", len(data["y"])):
        numpyro.sample("y", dist.Poisson(mean), obs=data["y"])


def test_risks_weights_and_bounds_are_those_of_the_closed_form() -> None:
    weighting = LinearWeights(c=0.8, g=-0.05)
    fitted = PseudoPosterior(PoissonMean(column="y"), weighting=weighting).fit({"y": COUNTS}, rng=seeded(1))
    first, second = fitted.unweighted.values["mean"], fitted.draws.values["mean"]
    ends = np.array([first.min(), first.max()])[:, None]
    risks = -log_poisson(COUNTS, ends).min(axis=0)  # concave in the mean: the extremes are at the ends
    relative = (risks - risks.min()) / np.ptp(risks)
    weights = np.clip(0.8 * (1 - relative) - 0.05, 0, 1)
    assert fitted.risks.by_record == pytest.approx(risks, rel=2e-4)  # single precision
    assert fitted.weights == pytest.approx(weights, abs=2e-4)
    ends = np.array([second.min(), second.max()])[:, None]
    bounds = weights * -log_poisson(COUNTS, ends).min(axis=0)
    assert fitted.lipschitz == pytest.approx(bounds.max(), rel=2e-4)
    assert fitted.epsilon == pytest.approx(2 * bounds.max(), rel=2e-4)
    shape, rate = 0.01 + weights @ COUNTS, 0.0001 + weights.sum()
    assert abs(second.mean() - shape / rate) < 5 * math.sqrt(shape) / rate / math.sqrt(len(second))
    assert second.std() == pytest.approx(math.sqrt(shape) / rate, rel=0.08)


def test_nuts_on_a_plain_model_agrees_with_the_conjugate_posterior() -> None:
    weights = MappedWeights(function=reciprocal)
    settings = {"draws": 800, "warm_up": 400, "chains": 2, "convergence": Convergence(r_hat=1.03, divergent=0.01)}
    mechanism = PseudoPosterior(poisson_model, sensitive=("y",), weighting=weights, **settings)
    fitted = mechanism.fit({"y": COUNTS}, rng=seeded(2))
    assert not fitted.draws.exact
    shape, rate = 0.01 + fitted.weights @ COUNTS, 0.0001 + fitted.weights.sum()
    spread = math.sqrt(shape) / rate
    error = spread / math.sqrt(fitted.draws.effective)
    found = fitted.draws.values["mean"]
    assert abs(found.mean() - shape / rate) < 5 * error
    assert abs(found.std() - spread) < 5 * spread / math.sqrt(2 * fitted.draws.effective)
    unweighted = math.sqrt(COUNTS.sum()) / len(COUNTS)
    assert abs(found.std() - unweighted) > 5 * unweighted / math.sqrt(2 * fitted.draws.effective)  # weights were used


def test_truncated_weights_hold_the_bound_near_m() -> None:
    mechanism = PseudoPosterior(PoissonMean(column="y"), weighting=Truncated(weighting=LinearWeights(), most=3.4))
    fitted = mechanism.fit({"y": COUNTS}, rng=seeded(3))
    assert (fitted.weights == 0).any()
    assert fitted.lipschitz < 3.4 * safety_factor(len(COUNTS))
    plain = PseudoPosterior(PoissonMean(column="y")).fit({"y": COUNTS}, rng=seeded(3))
    unweighted = PseudoPosterior(PoissonMean(column="y"), weighting=Unweighted()).fit({"y": COUNTS}, rng=seeded(3))
    assert fitted.lipschitz <= plain.lipschitz < unweighted.lipschitz


def test_calibration_meets_the_target_with_its_safety_factor_and_not_by_far() -> None:
    for target in (2.0, 5.0):
        mechanism = PseudoPosterior(PoissonMean(column="y"), target_epsilon=target)
        fitted = mechanism.calibrated_fit({"y": COUNTS}, rng=seeded(4))
        assert 0.8 * target <= fitted.epsilon * safety_factor(len(COUNTS)) <= target


def test_calibration_solves_for_c_and_g_or_for_the_bound_or_for_a_factor() -> None:
    def fitted(weighting, target=5.0):
        mechanism = PseudoPosterior(PoissonMean(column="y"), weighting=weighting, target_epsilon=target)
        made = mechanism.calibrated_fit({"y": COUNTS}, rng=seeded(4))
        assert made.epsilon * safety_factor(len(COUNTS)) <= target
        return made

    linear = fitted(LinearWeights(c=1.0, g=-0.1)).weighting
    assert isinstance(linear, LinearWeights)
    assert 0.2 < linear.c < 1.0
    assert linear.g == pytest.approx(-0.1 * linear.c)
    cut = fitted(Truncated(weighting=Unweighted(), most=50.0), target=9.0)
    assert isinstance(cut.weighting, Truncated)
    kept = cut.weights > 0
    assert set(cut.weights.tolist()) == {0.0, 1.0}
    np.testing.assert_array_equal(kept, cut.risks.by_record <= cut.weighting.most)
    assert cut.epsilon * safety_factor(len(COUNTS)) >= 0.8 * 9.0
    mapped = fitted(MappedWeights(function=reciprocal), target=1.5).weighting
    assert isinstance(mapped, Scaled)
    free = fitted(LinearWeights(c=0.5), target=100.0)
    assert free.weighting == Unweighted()
    assert free.draws is free.unweighted


def test_weights_that_do_not_get_less_are_refused() -> None:
    class Stubborn(Unweighted):
        def tightened(self, factor):
            return self

    mechanism = PseudoPosterior(PoissonMean(column="y"), weighting=Stubborn(), target_epsilon=2.0)
    with pytest.raises(Refused, match="no weights of this kind"):
        mechanism.calibrated_fit({"y": COUNTS}, rng=seeded(4))


def test_densities_above_one_cost_more() -> None:
    risks = Risks(least=np.array([-3.0, -1.0]), largest=np.array([-1.0, 2.0]))
    assert risks.lipschitz == 3.0
    assert risks.epsilon == 2 * (3.0 + 2.0)
    assert Risks(least=np.array([-3.0]), largest=np.array([-1.0])).epsilon == 6.0


def test_an_outlier_moves_every_linear_weight_and_breaks_the_local_bound() -> None:
    """T19's difference in closed form: what one replaced record does to the log-likelihood at one parameter."""
    x = seeded(5).poisson(100.0, size=400).astype(float)
    y = x.copy()
    y[0] = 400.0

    def weights(table, weighting):
        return weighting.weights(-log_poisson(table, table.mean()), {"y": table})

    def difference(weighting, mean):
        return float(weights(x, weighting) @ log_poisson(x, mean) - weights(y, weighting) @ log_poisson(y, mean))

    linear, mapped = LinearWeights(), MappedWeights(function=reciprocal)
    local = 2 * float((weights(x, linear) * -log_poisson(x, x.mean())).max())
    assert local < 9
    assert abs(difference(linear, 100.0)) > 100
    assert abs(difference(mapped, 100.0)) < 2  # a map of each risk by itself stays within its own record's share


def test_the_promise_is_asymptotic_and_names_no_measured_number() -> None:
    mechanism = PseudoPosterior(PoissonMean(column="y"), target_epsilon=5.0, tables=20)
    promise = mechanism.guarantee(n=300)
    assert promise.kind == "asymptotic"
    assert promise.epsilon(0.0) == pytest.approx(100.0)
    with pytest.raises(GuaranteeKindError, match="asymptotic"):
        require_kind(promise, frozenset())
    require_kind(promise, frozenset({"asymptotic"}))
    with pytest.raises(ParameterError, match="target_epsilon"):
        PseudoPosterior(PoissonMean(column="y")).guarantee(n=300)
    with pytest.raises(RelationNotSupported):
        mechanism.guarantee(Relation(name="add-remove"), n=300)
    assert not any("exceed one" in str(caveat) for caveat in promise.caveats)
    any_model = PseudoPosterior(poisson_model, sensitive=("y",), target_epsilon=5.0)
    assert any("exceed one" in str(caveat) for caveat in any_model.guarantee(n=300).caveats)
    fitted = mechanism.calibrated_fit({"y": COUNTS}, rng=seeded(6))
    assert (safety_factor(1000), safety_factor(1001)) == (1.10, 1.05)
    shown = repr(fitted) + repr(fitted.bounds) + repr(fitted.draws)
    assert not any(character.isdigit() for character in shown.replace("exact=True", ""))


def test_synthetic_tables_follow_the_posterior_predictive() -> None:
    mechanism = PseudoPosterior(PoissonMean(column="y"), tables=5)
    fitted = mechanism.fit({"y": COUNTS}, rng=seeded(7))
    tables = mechanism.synthesise(fitted, {"y": COUNTS}, rng=seeded(8), size=2000)
    assert [len(table["y"]) for table in tables] == [2000] * 5
    values = np.concatenate([table["y"] for table in tables])
    centre = fitted.draws.values["mean"].mean()
    assert abs(values.mean() - centre) < 5 * math.sqrt(centre / len(values) + fitted.draws.values["mean"].var() / 5)
    assert values.var() == pytest.approx(centre, rel=0.1)


def test_categorical_shares_have_the_closed_form() -> None:
    codes = seeded(9).integers(0, 3, size=200)
    model = CategoricalShares(column="c", categories=3)
    fitted = PseudoPosterior(model, weighting=MappedWeights(function=reciprocal)).fit({"c": codes}, rng=seeded(10))
    held = 1.0 + np.bincount(codes, weights=fitted.weights, minlength=3)
    assert fitted.draws.values["shares"].mean(axis=0) == pytest.approx(held / held.sum(), abs=0.01)
    assert fitted.epsilon > 0


def test_weights_that_are_all_0_are_refused() -> None:
    with pytest.raises(Refused, match="every record would get weight 0"):
        PseudoPosterior(PoissonMean(column="y"), weighting=LinearWeights(c=0.0)).fit({"y": COUNTS}, rng=seeded(19))
