"""NumPyro models of a release: a conjugate one, whose posterior is known."""

import math

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.domain import Boolean, Domain, OpenLabels
from discreet.errors import ParameterError
from discreet.inference import NotConverged, ReleaseTakenForSample, fit

pytest.importorskip("numpyro")

pytestmark = pytest.mark.chains
COIN = Domain(columns={"x": Boolean()})


def _model(data) -> None:
    import numpyro
    from numpyro import distributions

    share = numpyro.sample("share", distributions.Beta(2.0, 2.0))
    numpyro.sample("x", distributions.Bernoulli(share), obs=data["x"])


def test_a_conjugate_model() -> None:
    table = pl.DataFrame({"x": [True] * 30 + [False] * 70})
    made = fit(_model, table, COIN, draws=1000, warm_up=300, chains=2, seed=1)
    mean, sd = 32 / 104, math.sqrt(32 * 72 / 104**2 / 105)
    # Five standard errors, with the effective draws that the fit itself reports.
    assert made.draws["share"].mean() == pytest.approx(mean, abs=5 * sd / math.sqrt(made.effective_draws))
    assert made.draws["share"].std() == pytest.approx(sd, rel=0.15)
    assert made.r_hat < 1.01
    assert made.effective_draws > 200
    assert dict(made.data.posterior["share"].sizes) == {"chain": 2, "draw": 1000}


def test_a_release_as_large_as_the_table_is_no_sample() -> None:
    data = pl.DataFrame({"x": seeded(1).random(500) < 0.3})
    made = release(data, COIN, Budget(epsilon=4.0, delta=1e-3), size=500, mechanism="dirichlet-multinomial", seed=1)
    with pytest.warns(ReleaseTakenForSample, match="1.73 times as wide"), pytest.warns(NotConverged):
        fit(_model, made, draws=10, warm_up=20, chains=2)


def test_chains_that_do_not_converge_are_named() -> None:
    import numpyro
    from numpyro import distributions

    def two_humps(data) -> None:
        sides = distributions.Categorical(np.array([0.5, 0.5])), distributions.Normal(np.array([-50.0, 50.0]), 1.0)
        numpyro.sample("x0", distributions.MixtureSameFamily(*sides))

    with pytest.warns(NotConverged, match="R-hat"):
        fit(two_humps, pl.DataFrame({"x": [True]}), COIN, draws=100, warm_up=50, chains=4)


def test_wrong_requests() -> None:
    labels = Domain(columns={"x": OpenLabels(prefix="new_")})
    with pytest.raises(ParameterError, match="open labels"):
        fit(_model, pl.DataFrame({"x": ["a"]}), labels, chains=2)
    with pytest.raises(ParameterError, match="chains"):
        fit(_model, pl.DataFrame({"x": [True]}), COIN, chains=1)
