"""Intercepts of groups that are drawn together: the law of the shipped model against importance sampling."""

import json
import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.domain import Boolean, Category, Domain, Numeric
from discreet.errors import DomainError, ParameterError
from discreet.pseudo_posterior import CensoredPosterior, Convergence, Design, Predictor, Response, synthesiser_for
from discreet.pseudo_posterior.likelihood import alone, quiet
from discreet.pseudo_posterior.regressions import LinearRegression

pytestmark = pytest.mark.chains

GROUPS = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
COLUMNS = {
    "y": np.array([2.0, 2.4, 1.5, 2.2, -1.0, -0.6, -1.4, 0.5, 1.1]),
    "region": GROUPS,
    "x": np.array([0.0, 1.0, 0.5, 0.2, 0.9, 0.1, 0.4, 0.8, 0.3]),
}
DESIGN = Design(predictors=(Predictor(column="x", lower=0.0, upper=1.0),))
MODEL = LinearRegression(response=Response(column="y"), design=DESIGN, coefficient_scale=1.0, group="region", groups=3)
BOUND = 50.0


def prior(size: int) -> dict[str, np.ndarray]:
    rng = seeded(1)
    return {
        "coefficients": rng.normal(size=(size, 2)),
        "excess_scale": np.abs(rng.standard_t(3, size=size)),
        "group_spread": np.abs(rng.standard_t(3, size=size)),
        "group_intercepts": rng.normal(size=(size, 3)),
    }


def log_likelihoods(values: dict[str, np.ndarray], columns: dict[str, np.ndarray] = COLUMNS) -> np.ndarray:
    design = np.stack([np.ones(len(columns["x"])), 2.0 * columns["x"] - 1.0])
    intercepts = values["group_spread"][:, None] * values["group_intercepts"]
    mean = values["coefficients"] @ design + intercepts[:, columns["region"]]
    scale = MODEL.response.least_scale + values["excess_scale"][:, None]
    return stats.norm(mean, scale).logpdf(columns["y"])


def told(values: dict[str, np.ndarray]) -> np.ndarray:
    """Return the level of each group, the slope and the spreads."""
    level = values["coefficients"][:, :1] + values["group_spread"][:, None] * values["group_intercepts"]
    spreads = np.log(np.stack([values["group_spread"], values["excess_scale"]], axis=1))
    return np.concatenate([level, values["coefficients"][:, 1:], spreads], axis=1)


def test_the_log_density_of_a_record_is_the_normals_around_its_groups_level() -> None:
    values = {name: value[:5] for name, value in prior(5).items()}
    data = MODEL.encoded(COLUMNS)
    with quiet():
        found = [np.asarray(alone(MODEL.model, {k: v[i] for k, v in values.items()}, data)) for i in range(5)]
    np.testing.assert_allclose(found, log_likelihoods(values), rtol=1e-4, atol=1e-4)


def test_chains_have_the_law_of_the_hierarchical_posterior() -> None:
    """Six means within 5 standard errors of importance sampling; levels without groups are far off."""
    draws = prior(150_000)
    logs = np.clip(log_likelihoods(draws), -BOUND, 0.0).sum(axis=1)
    masses = np.exp(logs - logs.max())
    masses /= masses.sum()
    statistic = told(draws)
    mean = masses @ statistic
    variance = masses @ (statistic - mean) ** 2
    error = masses**2 @ (statistic - mean) ** 2
    settings = {"draws": 800, "warm_up": 300, "chains": 2, "convergence": Convergence(r_hat=1.05, divergent=0.02)}
    made = CensoredPosterior(MODEL, BOUND, **settings).fit(COLUMNS, rng=seeded(2))
    found = told({name: value.astype(np.float64) for name, value in made.values.items()}).mean(axis=0)
    together = np.sqrt(variance / made.effective + error)
    assert np.abs((found - mean) / together).max() < 5
    plain = [COLUMNS["y"][g == GROUPS].mean() for g in range(3)]
    assert np.all(np.abs(found[:3]) < np.abs(plain))  # drawn together, to a centre that the prior puts at 0
    overall = COLUMNS["y"].mean()
    assert np.abs((found[:2] - overall) / together[:2]).min() > 5  # and not to one level for all


DOMAIN = Domain(columns={"income": Numeric(lower=0, upper=100), "urban": Boolean(),
                         "region": Category(categories=["n", "s", "w"], nulls="category")})  # fmt: skip


def test_the_command_has_it(tmp_path, command) -> None:
    rng = seeded(3)
    region = rng.integers(0, 3, size=120)
    income = np.clip(np.array([30.0, 50.0, 70.0])[region] + 5 * rng.normal(size=120), 0, 100)
    urban = rng.random(120) < 0.5
    held = pl.DataFrame({"income": income, "region": np.array(["n", "s", "w"])[region], "urban": urban})
    assert run(command(held, DOMAIN, "--model", "hierarchical", "--group", "region", "--sensitive", "income",
                       "--target-epsilon", "20", "--draws", "100", "--warm-up", "200", "--chains", "2",
                       "--max-divergent", "0.1", "--min-effective", "25", "--transform", "identity")) == 0  # fmt: skip
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert set(facts["mechanism"]["parameters"]["published_exactly"]) == {"region", "urban"}
    made = pl.read_parquet(tmp_path / "out" / "table-01.parquet").group_by("region").agg(pl.col("income").mean())
    means = dict(made.iter_rows())
    assert means["n"] + 10 < means["s"] < means["w"] - 10


def test_groups_that_do_not_fit_are_refused() -> None:
    made = synthesiser_for(DOMAIN, ("income",), model="hierarchical", group="region")
    assert isinstance(made, LinearRegression)
    assert (made.group, made.groups, set(made.given)) == ("region", 4, {"region", "urban"})
    assert math.isclose(made.response.unit, 100.0 / 32)
    for facts, said in (
        ({"model": "hierarchical"}, "needs the column of its groups"),
        ({"model": "linear", "group": "region"}, "no other takes it"),
        ({"model": "hierarchical", "group": "county"}, "'county' is not a column"),
        ({"model": "hierarchical", "group": "income"}, "cannot be the group and be sensitive"),
    ):
        with pytest.raises(ParameterError, match=said):
            synthesiser_for(DOMAIN, ("income",), **facts)
    numbers = Domain(columns={"income": Numeric(lower=0, upper=100), "age": Numeric(lower=0, upper=100)})
    with pytest.raises(DomainError, match="must be a category or a boolean"):
        synthesiser_for(numbers, ("income",), model="hierarchical", group="age")
    with pytest.raises(ParameterError, match="number of groups"):
        LinearRegression(response=Response(column="y"), design=Design(), group="region")
