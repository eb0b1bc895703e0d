"""Records are drawn from the model's law within the public bounds, and not heaped at them."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from discreet import release
from discreet._core.lazy import dist, numpyro
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.domain import Domain, Integer, Numeric
from discreet.pseudo_posterior import CensoredPosterior, Design, PoissonMean, Predictor, PseudoPosterior, Response
from discreet.pseudo_posterior.mechanism import synthetic_tables
from discreet.pseudo_posterior.regressions import LinearRegression, SequentialRegression, Step
from discreet.pseudo_posterior.sampler import PosteriorDraws

pytestmark = pytest.mark.chains

COUNT = 20_000


def drawn(model, columns, **values) -> dict[str, np.ndarray]:
    draws = PosteriorDraws(
        values={name: np.asarray([value], dtype=np.float32) for name, value in values.items()},
        watched={},
        divergent=0.0,
        exact=True,
    )
    return synthetic_tables(model, draws, columns, tables=1, rng=seeded(1))[0]


def test_records_have_the_truncated_law_of_each_record() -> None:
    """Kolmogorov-Smirnov at level 1e-6 per group; values that are clipped fail it."""
    response = Response(column="y", lower=0.0, upper=3.0)
    model = LinearRegression(response=response, design=Design(predictors=(Predictor(column="g", categories=2),)))
    group = np.arange(COUNT) % 2
    made = drawn(model, {"y": np.zeros(COUNT), "g": group}, coefficients=[0.5, 2.0], excess_scale=0.6)["y"]
    scale = response.least_scale + 0.6
    for g, mean in enumerate((0.5, 2.5)):
        law = stats.truncnorm((0.0 - mean) / scale, (3.0 - mean) / scale, loc=mean, scale=scale)
        plain = stats.norm(mean, scale).rvs(COUNT // 2, random_state=g)
        assert stats.kstest(made[group == g], law.cdf).pvalue > 1e-6
        assert stats.kstest(np.clip(plain, 0.0, 3.0), law.cdf).pvalue < 1e-12
    assert len(np.unique(made)) > 0.99 * COUNT


def test_a_record_of_several_columns_is_drawn_again_as_a_whole() -> None:
    """y follows x: among records whose x is within its bounds, the difference keeps its law."""
    steps = (
        Step(column="x", kind="numeric", response=Response(column="x", lower=0.0, upper=50.0)),
        Step(column="y", kind="numeric", response=Response(column="y")),
    )
    model = SequentialRegression(steps=steps, design=Design())
    values = {"x: coefficients": [0.0], "x: excess scale": 0.6, "y: coefficients": [0.0, 10.0], "y: excess scale": 0.1}
    made = drawn(model, {"x": np.zeros(COUNT), "y": np.zeros(COUNT)}, **values)
    assert (made["x"] > 0.0).all()
    assert (made["y"] < 0.0).any()
    least = Response(column="y").least_scale
    assert stats.kstest(made["y"] - made["x"], stats.norm(0.0, least + 0.1).cdf).pvalue > 1e-6


def test_a_model_that_hardly_ever_draws_within_the_bounds_ends_at_them() -> None:
    model = LinearRegression(response=Response(column="y", lower=0.0, upper=1.0), design=Design())
    made = drawn(model, {"y": np.zeros(50)}, coefficients=[500.0], excess_scale=0.1)["y"]
    np.testing.assert_array_equal(made, np.ones(50))


def test_a_release_keeps_the_bounds_of_the_domain(tmp_path) -> None:
    """A model of one's own knows of no bounds: they are those of the domain. An integer takes what rounds to it."""

    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
        with numpyro.plate("records", len(data["y"])):
            numpyro.sample("y", dist.Normal(mean, 2.0), obs=data["y"])

    held = pl.DataFrame({"y": np.zeros(4000, dtype=np.int64)})
    mechanism = CensoredPosterior(model, bound=1.0, sensitive=("y",), grid={"mean": [0.0, 0.5]})

    def share_at_zero(column):
        (table,) = release(confidential(held, Domain(columns={"y": column})), mechanism=mechanism, seed=2).records
        assert table["y"].is_between(0, 10).all()
        return (table["y"] == 0).mean()

    assert share_at_zero(Numeric(lower=0, upper=10)) < 0.005
    whole = [stats.norm(mean, 2.0).cdf([-0.5, 0.5, 10.5]) for mean in (0.5, 0.0)]
    least, most = ((at[1] - at[0]) / (at[2] - at[0]) for at in whole)
    assert least - 0.04 < share_at_zero(Integer(lower=0, upper=10)) < most + 0.04  # clipped: 0.5 and more


def test_tables_of_risk_weights_keep_them_too() -> None:
    domain = Domain(columns={"y": Integer(lower=15, upper=25)})
    held = pl.DataFrame({"y": np.clip(seeded(3).poisson(20.0, size=4000), 15, 25)})
    mechanism = PseudoPosterior(PoissonMean(column="y"), target_epsilon=50.0)
    (table,) = release(confidential(held, domain), mechanism=mechanism, accept={"asymptotic"}, seed=4).records
    law = stats.poisson(20.0)
    assert (table["y"] == 15).mean() == pytest.approx(law.pmf(15) / (law.cdf(25) - law.cdf(14)), abs=0.03)
    assert law.cdf(15) > 0.14  # what clipping would heap there
