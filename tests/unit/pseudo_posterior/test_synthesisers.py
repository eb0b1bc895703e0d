"""The shipped synthesisers: their likelihoods against other implementations, their draws, their public coding."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet._core.lazy import handlers, jax
from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Domain, Integer, Numeric
from discreet.errors import DomainError, ParameterError
from discreet.pseudo_posterior import Design, MixtureRegression, Predictor, Response, synthesiser_for
from discreet.pseudo_posterior.likelihood import SHARED, by_record, quiet, redrawn
from discreet.pseudo_posterior.regressions import LinearRegression, SequentialRegression, Step

pytestmark = pytest.mark.chains

SEX = np.array([0, 1, 1, 0, 1])
AGE = np.array([20.0, 30.0, 61.0, 40.0, 80.0])
INCOME = np.array([-500.0, 0.0, 20_000.0, 55_000.0, 400_000.0])
COLUMNS = {"sex": SEX, "age": AGE, "income": INCOME}
DESIGN = Design(predictors=(Predictor(column="sex", categories=2), Predictor(column="age", edges=(35.0, 60.0))))
ASINH = Response(column="income", transform="asinh", scale=1000.0, centre=4.0, unit=0.5, lower=-1e6, upper=1e7)


def logs_at(synthesiser, one, columns):
    def run(one, data):
        return by_record(handlers.substitute(synthesiser.model, data=one), data, len(columns["sex"]))

    with quiet():
        return np.asarray(jax.jit(run)(one, synthesiser.encoded(columns)))


def new_columns(synthesiser, one, columns, seed):
    with quiet():
        return redrawn(synthesiser.model, one, synthesiser.encoded(columns), jax.random.PRNGKey(seed))


def test_the_design_is_coded_by_hand() -> None:
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 1]]
    assert DESIGN.matrix(COLUMNS, 5).tolist() == expected
    linear = Design(predictors=(Predictor(column="age", lower=0.0, upper=100.0),))
    assert linear.matrix(COLUMNS, 5)[:, 1].round(9).tolist() == [-0.6, -0.4, 0.22, -0.2, 0.6]
    for facts in ({}, {"categories": 2, "edges": (1.0,)}, {"lower": 0.0}):
        with pytest.raises(ParameterError, match="sex"):
            Predictor(column="sex", **facts)


@pytest.mark.parametrize("transform", ["identity", "log", "asinh"])
def test_responses_go_there_and_back_and_tell_what_is_outside_their_bounds(transform: str) -> None:
    response = Response.between("v", 0.5, 2e6, transform=transform)
    values = np.geomspace(0.5, 2e6, 50)
    y = response.encode(values)
    assert response.decode(y) == pytest.approx(values, rel=1e-6, abs=1e-6)
    assert y[[0, -1]] == pytest.approx([-16.0, 16.0])
    low, high = response.decode([-1e6, 1e6])
    assert low < 0.5
    assert 2e6 < high < np.inf
    assert response.encode([-1.0, 3e6]) == pytest.approx([-16.0, 16.0])
    with pytest.raises(ParameterError, match="above 0"):
        Response(column="v", transform="log", lower=0.0)


@pytest.mark.parametrize("degrees", [None, 4.0])
def test_a_regression_has_the_likelihood_of_scipy(degrees: float | None) -> None:
    model = LinearRegression(response=ASINH, design=DESIGN, degrees=degrees)
    beta, excess = np.array([1.0, -0.5, 0.3, 2.0]), 1.2
    y, scale = (np.arcsinh(INCOME / 1000.0) - 4.0) / 0.5, ASINH.least_scale + 1.2
    mean = DESIGN.matrix(COLUMNS, 5) @ beta
    errors = stats.norm(mean, scale) if degrees is None else stats.t(degrees, mean, scale)
    found = logs_at(model, {"coefficients": beta, "excess_scale": np.float32(excess)}, COLUMNS)
    assert found == pytest.approx(errors.logpdf(y), rel=1e-4)


def test_with_the_least_scale_no_density_exceeds_one() -> None:
    model = LinearRegression(response=ASINH, design=DESIGN)
    y = model.encoded(COLUMNS)["income"]
    beta = np.linalg.lstsq(DESIGN.matrix(COLUMNS, 5)[:4], y[:4], rcond=None)[0]  # goes through four records
    top = logs_at(model, {"coefficients": beta, "excess_scale": np.float32(0.0)}, COLUMNS).max()
    assert abs(top) < 1e-3
    assert model.log_density_at_most_zero
    assert not Response(column="v", least_scale=0.01).bounded


@pytest.mark.parametrize("weights", ["dirichlet", "sticks"])
def test_a_mixture_has_the_likelihood_of_scipy(weights: str) -> None:
    model = MixtureRegression(response=ASINH, design=DESIGN, clusters=3, weights=weights)
    rng = seeded(1)
    beta, excess = rng.normal(size=(3, 4)), np.array([0.1, 1.0, 3.0])
    shares = np.array([0.5, 0.3, 0.2])
    data = model.encoded(COLUMNS)
    plain, lower = DESIGN.matrix(COLUMNS, 5), data[f"{SHARED}map"]
    assert np.allclose(lower, np.tril(lower))
    assert data["design"] @ (lower @ beta.T) == pytest.approx(plain @ beta.T, abs=1e-6)
    one = {
        "concentration": np.float32(1.0),
        "coefficient_spreads": np.ones(4, dtype=np.float32),
        "correlations": np.eye(4, dtype=np.float32),
        "coefficients": (lower @ beta.T).T.astype(np.float32),
        "excess_scales": excess.astype(np.float32),
    }
    one |= {"shares": shares} if weights == "dirichlet" else {"sticks": np.array([0.5, 0.6])}
    y = (np.arcsinh(INCOME / 1000.0) - 4.0) / 0.5
    densities = stats.norm.pdf(y[:, None], plain @ beta.T, ASINH.least_scale + excess) @ shares
    assert logs_at(model, one, COLUMNS) == pytest.approx(np.log(densities), rel=1e-3)


def test_the_mixtures_prior_does_not_depend_on_the_coordinates() -> None:
    from numpyro.infer.util import log_density

    model = MixtureRegression(response=ASINH, design=DESIGN, clusters=2)
    data = model.encoded(COLUMNS)
    lower, rng = data[f"{SHARED}map"], seeded(2)
    half = np.linalg.cholesky(stats.wishart(6, np.eye(4)).rvs(random_state=3))
    root = half / np.linalg.norm(half, axis=1, keepdims=True)
    spreads = np.array([0.5, 1.0, 2.0, 0.7])
    common = {
        "concentration": np.float32(1.0),
        "coefficient_spreads": spreads,
        "correlations": root,
        "excess_scales": np.ones(2),
        "shares": np.array([0.5, 0.5]),
    }
    covariance = (spreads[:, None] * root) @ (spreads[:, None] * root).T
    one, two = rng.normal(size=(2, 4)), rng.normal(size=(2, 4))

    def prior(beta):
        with quiet():
            values = {**common, "coefficients": (lower @ beta.T).T}
            total = float(
                jax.jit(lambda v: log_density(handlers.seed(model.model, rng_seed=0), (data,), {}, v)[0])(values)
            )
            return total - float(logs_at(model, values, COLUMNS).sum())

    expected = [stats.multivariate_normal(np.zeros(4), covariance).logpdf(beta).sum() for beta in (one, two)]
    assert prior(one) - prior(two) == pytest.approx(expected[0] - expected[1], rel=1e-3)


def test_a_mixtures_chains_start_at_a_fit_better_than_one_cluster() -> None:
    rng = seeded(4)
    sex = rng.integers(0, 2, size=400)
    y = np.where(rng.random(400) < 0.3, rng.normal(-8.0, 0.6, 400), rng.normal(4.0 + 2.0 * sex, 1.0, 400))
    columns = {"sex": sex, "income": y}
    design = Design(predictors=(Predictor(column="sex", categories=2),))
    model = MixtureRegression(response=Response(column="income"), design=design, clusters=4)
    begin = model.start(model.encoded(columns), chain=0)
    one = float(stats.norm(y.mean(), y.std()).logpdf(y).sum())
    assert float(logs_at(model, begin, columns).sum()) > one + 100
    assert begin["shares"].sum() == pytest.approx(1.0)
    drawn = new_columns(model, begin, columns, 5)["income"]
    low = drawn < -2
    assert low.mean() == pytest.approx(0.3, abs=0.12)  # 0.3 has a standard error of 0.023
    gap = drawn[~low & (sex == 1)].mean() - drawn[~low & (sex == 0)].mean()
    assert gap == pytest.approx(2.0, abs=0.8)


def test_sequential_steps_have_their_own_likelihoods_and_feed_what_follows() -> None:
    steps = (
        Step(column="work", kind="category", categories=3),
        Step(column="visits", kind="count"),
        Step(column="cost", kind="numeric", response=Response(column="cost")),
    )
    model = SequentialRegression(steps=steps, design=Design(predictors=(Predictor(column="sex", categories=2),)))
    columns = {"sex": SEX, "work": np.array([0, 2, 1, 1, 0]), "visits": np.array([0, 3, 1, 7, 2]),
               "cost": np.array([1.0, 2.0, -1.0, 9.0, 0.5])}  # fmt: skip
    rng = seeded(6)
    a, b, c = rng.normal(size=(2, 2)), rng.normal(size=4) / 2, rng.normal(size=5)
    one = {"work: coefficients": a, "visits: coefficients": b, "cost: coefficients": c, "cost: excess scale": 1.0}
    x = np.stack((np.ones(5), SEX), axis=1)
    logits = np.concatenate((np.zeros((5, 1)), x @ a), axis=1)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    x = np.concatenate((x, columns["work"][:, None] == np.array([[1, 2]])), axis=1)
    rate = np.exp(x @ b)
    x = np.concatenate((x, np.log1p(columns["visits"])[:, None]), axis=1)
    scale = 1.0 + 1 / math.sqrt(2 * math.pi)
    expected = (np.log(shares[np.arange(5), columns["work"]]) + stats.poisson(rate).logpmf(columns["visits"])
                + stats.norm(x @ c, scale).logpdf(columns["cost"]))  # fmt: skip
    assert logs_at(model, one, columns) == pytest.approx(expected, rel=1e-3)
    # Synthetic visits depend on the synthetic work, not on the confidential one: with a strong effect they go together.
    many = {name: np.resize(value, 600) for name, value in columns.items()}
    strong = {**one, "work: coefficients": np.zeros((2, 2)), "visits: coefficients": np.array([0.0, 0.0, 0.0, 4.0])}
    drawn = new_columns(model, strong, many, 7)
    assert drawn["visits"][drawn["work"] == 2].min() > 20 > drawn["visits"][drawn["work"] != 2].max()


def test_synthesisers_are_built_from_declared_facts() -> None:
    domain = Domain(
        columns={
            "income": Numeric(lower=-1e5, upper=1e6),
            "age": Integer(lower=0, upper=100),
            "sex": Category(categories=["f", "m"]),
            "ill": Boolean(),
        }
    )
    made = synthesiser_for(domain, ("income",), clusters=4)
    assert isinstance(made, MixtureRegression)
    assert made.given == ("age", "sex", "ill")
    assert made.response.transform == "asinh"
    assert isinstance(synthesiser_for(domain, ("income",), model="robust"), LinearRegression)
    several = synthesiser_for(domain, ("ill", "income"), model="sequential")
    assert several.sensitive == ("ill", "income")
    alone = Domain(columns={"sex": Category(categories=["f", "m"])})
    assert synthesiser_for(alone, ("sex",), model="categorical").sensitive == ("sex",)
    for call, error in (
        (lambda: synthesiser_for(domain, ("income",), model="forest"), ParameterError),
        (lambda: synthesiser_for(domain, ("wealth",)), ParameterError),
        (lambda: synthesiser_for(Domain(columns={"a": Integer(lower=0, upper=9)}), ("a",)), ParameterError),
        (lambda: synthesiser_for(domain, ("income", "ill")), ParameterError),
        (lambda: synthesiser_for(domain, ("sex",)), DomainError),
        (lambda: synthesiser_for(domain, ("income",), model="poisson"), ParameterError),
        (lambda: synthesiser_for(Domain(columns={"a": Boolean(nulls="category")}), ("a",)), DomainError),
    ):
        with pytest.raises(error):
            call()
