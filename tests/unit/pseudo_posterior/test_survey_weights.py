"""Survey weights count in the likelihood, in the risk and in every bound; twins that forget them are caught."""

import itertools
import json
import math

import numpy as np
import polars as pl
import pytest
from exact_laws import censored_law, errors_from, log_poisson

from discreet import release
from discreet._core.lazy import dist, jnp, numpyro
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import confidential
from discreet.domain import Category, Domain, Integer, Numeric
from discreet.errors import DomainError, ParameterError
from discreet.pseudo_posterior import (
    CensoredPosterior,
    Convergence,
    LinearWeights,
    PoissonMean,
    PseudoPosterior,
    Unweighted,
    synthesiser_for,
)
from discreet.pseudo_posterior.likelihood import SURVEY, alone, quiet
from discreet.pseudo_posterior.mixture_chain import DirichletShares, _Facts, _Mixture
from discreet.releases import Certificate, verify

pytestmark = pytest.mark.chains

COUNTS = seeded(11).poisson(20.0, size=200).astype(float)
DESIGN = seeded(12).choice([2.0, 5.0, 20.0], size=200)  # how many persons of the population each record stands for
TABLE = {"y": COUNTS, "w": DESIGN}
MEAN = 8.0
THETAS = np.linspace(0.5, 6.0, 12)
RECORDS = [(y, w) for y in (0.0, 1.0, 4.0) for w in (0.0, 4.0, 24.0)]  # over the mean: 0, 1/2 and 3
PLAIN = log_poisson([y for y, _ in RECORDS], THETAS[:, None])
SHARES = np.array([w / MEAN for _, w in RECORDS])


def columns(records):
    y, w = np.array(records).T
    return {"y": y, "w": w}


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_posterior_risks_weights_and_bound_are_those_of_the_closed_form() -> None:
    weighting = LinearWeights(c=0.2, g=0.6)
    mechanism = PseudoPosterior(PoissonMean(column="y"), weighting=weighting, survey_weight="w", survey_mean=MEAN)
    fitted = mechanism.fit(TABLE, rng=seeded(1))
    v = DESIGN / MEAN
    first, second = fitted.unweighted.values["mean"], fitted.draws.values["mean"]
    for draws, alpha in ((first, np.ones(200)), (second, fitted.weights)):
        shape, rate = 0.01 + alpha * v @ COUNTS, 0.0001 + (alpha * v).sum()
        assert abs(draws.mean() - shape / rate) < 5 * math.sqrt(shape) / rate / math.sqrt(len(draws))
        assert draws.std() == pytest.approx(math.sqrt(shape) / rate, rel=0.08)
    ends = np.array([first.min(), first.max()])[:, None]
    risks = v * -log_poisson(COUNTS, ends).min(axis=0)
    assert fitted.risks.by_record == pytest.approx(risks, rel=2e-4)
    relative = (risks - risks.min()) / np.ptp(risks)
    assert fitted.weights == pytest.approx(np.clip(0.2 * (1 - relative) + 0.6, 0, 1), abs=2e-4)
    ends = np.array([second.min(), second.max()])[:, None]
    by_record = fitted.weights * -log_poisson(COUNTS, ends).min(axis=0)
    assert fitted.lipschitz == pytest.approx((v * by_record).max(), rel=2e-4)
    forgetful = by_record.max()  # what a twin states that leaves the survey weights out of the bound
    assert abs(fitted.lipschitz / forgetful - 1.0) > 0.2


def test_the_scale_of_the_weights_is_that_of_the_public_mean() -> None:
    """Weights and mean times ten: the same posterior, risks and bound."""
    plain = PseudoPosterior(PoissonMean(column="y"), survey_weight="w", survey_mean=MEAN)
    scaled = PseudoPosterior(PoissonMean(column="y"), survey_weight="w", survey_mean=10 * MEAN)
    one = plain.fit(TABLE, rng=seeded(2))
    other = scaled.fit({**TABLE, "w": 10 * DESIGN}, rng=seeded(2))
    np.testing.assert_allclose(one.draws.values["mean"], other.draws.values["mean"])
    assert one.lipschitz == pytest.approx(other.lipschitz)


def test_calibration_meets_its_target_with_survey_weights() -> None:
    mechanism = PseudoPosterior(PoissonMean(column="y"), target_epsilon=6.0, survey_weight="w", survey_mean=MEAN)
    fitted = mechanism.calibrated_fit(TABLE, rng=seeded(3))
    assert 0.8 * 6.0 <= 1.1 * fitted.epsilon <= 6.0
    ends = np.quantile(fitted.draws.values["mean"], [0, 1])[:, None]
    bound = (fitted.weights * DESIGN / MEAN * -log_poisson(COUNTS, ends).min(axis=0)).max()
    assert fitted.epsilon == pytest.approx(2 * bound, rel=2e-4)


# -- enumeration ------------------------------------------------------------------------------------------------------


def said(records) -> np.ndarray:
    """Return what records say to parameters, times their weights, as the library computes it."""
    data = columns(records)
    survey = {"y": data["y"], SURVEY: data["w"] / MEAN}
    with quiet():
        return np.array([np.asarray(alone(PoissonMean(column="y").model, {"mean": t}, survey)) for t in THETAS])


SAID = said(RECORDS).astype(np.float64)


def neighbours():
    tables = list(itertools.combinations_with_replacement(range(len(RECORDS)), 2))
    for x in tables:
        for i, new in itertools.product(range(2), range(len(RECORDS))):
            yield list(x), [*x[:i], new, *x[i + 1 :]]


def test_what_a_record_says_is_its_weight_times_its_log_density() -> None:
    np.testing.assert_allclose(SAID, SHARES * PLAIN, rtol=1e-5, atol=1e-5)


def test_the_censored_bound_holds_for_all_neighbours_whatever_their_weights() -> None:
    """Neighbours that differ in a weight alone among them; weights after the clipping break the bound."""
    bound, worst, twin, prior = 1.5, 0.0, 0.0, np.zeros(len(THETAS))
    for x, y in neighbours():
        p, q = (censored_law(SAID[:, t], bound=bound, log_prior=prior) for t in (x, y))
        worst = max(worst, float(np.ptp(np.log(p / q))))
        p, q = (censored_law(PLAIN[:, t], bound=bound, log_prior=prior, weights=SHARES[t]) for t in (x, y))
        twin = max(twin, float(np.ptp(np.log(p / q))))
    assert 1.2 * bound < worst <= 2 * bound + 1e-9
    assert twin > 2 * bound


def test_draws_on_a_grid_have_the_law_with_weights() -> None:
    """Frequencies of 4,000 draws within 5 standard errors of the enumerated law, and not of the one without."""
    table, bound = [3, 4, 8, 7], 2.0  # records of the list above
    mechanism = CensoredPosterior(PoissonMean(column="y", shape=1.0, rate=0.5), bound=bound, grid={"mean": THETAS},
                                  tables=4000, survey_weight="w", survey_mean=MEAN)  # fmt: skip
    drawn = mechanism.fit(columns([RECORDS[i] for i in table]), rng=seeded(4)).values["mean"]
    right, wrong = (censored_law(logs[:, table], bound=bound, log_prior=-0.5 * THETAS) for logs in (SAID, PLAIN))
    assert errors_from(right, THETAS, drawn) < 5 < errors_from(wrong, THETAS, drawn)


def test_the_bound_of_a_weighted_posterior_needs_the_survey_weights() -> None:
    """T19 for weights of a record alone: twice the range of what records say; without weights it is exceeded."""
    prior, worst = np.zeros(len(THETAS)), 0.0
    for x, y in neighbours():
        p, q = (censored_law(SAID[:, t], bound=1e6, log_prior=prior) for t in (x, y))
        worst = max(worst, float(np.abs(np.log(p / q)).max()))
    assert worst <= 2 * np.abs(SAID).max()
    assert worst > 2 * np.abs(PLAIN).max()


# -- chains -----------------------------------------------------------------------------------------------------------


def test_nuts_draws_from_the_posterior_with_weights_that_the_model_does_not_see() -> None:
    seen: set[str] = set()

    def model(data):
        seen.update(data)
        mean = numpyro.sample("mean", dist.Gamma(1.0, 0.1))
        with numpyro.plate("records", len(data["y"])):
            numpyro.sample("y", dist.Poisson(mean), obs=data["y"])

    few, bound = {name: values[:40] for name, values in TABLE.items()}, 4.0
    settings = {"draws": 500, "warm_up": 200, "chains": 2, "convergence": Convergence(r_hat=1.05, divergent=0.01)}
    mechanism = CensoredPosterior(model, bound, ("y",), survey_weight="w", survey_mean=MEAN, **settings)
    made = mechanism.fit(few, rng=seeded(5))
    assert seen == {"y"}
    grid = np.linspace(10.0, 30.0, 4000)

    def moments(v):
        logs = v * log_poisson(few["y"], grid[:, None])
        p = censored_law(logs, bound=bound, log_prior=-0.1 * grid)
        centre = p @ grid
        return centre, math.sqrt(p @ (grid - centre) ** 2)

    (centre, spread), (without, _) = moments(few["w"] / MEAN), moments(np.ones(40))
    found, error = made.values["mean"].mean(), spread / math.sqrt(made.effective)
    assert abs(found - centre) < 5 * error
    assert abs(found - without) > 5 * error


@pytest.mark.parametrize("bound", [None, 2.0])
def test_the_target_of_the_mixtures_chain_has_the_weights(bound) -> None:
    """At some state, by hand: a product that is clipped, or, without a bound, weights in place of the posterior's."""

    rng = seeded(6)
    design, y, v = np.ones((5, 1)), rng.normal(size=5), np.array([0.0, 0.5, 1.0, 2.0, 7.0])
    alpha = rng.random(5)
    shares, coefficients, excess = np.array([0.3, 0.7]), np.array([[0.5], [-1.0]]), np.array([0.4, 1.0])
    target = _Mixture(DirichletShares(clusters=2, knee=0.0), 0.4, bound)
    weights = alpha if bound is not None else alpha * v
    design, y, weights, survey = (jnp.asarray(x, jnp.float32) for x in (design, y, weights, v))
    facts = _Facts(design=design, response=y, weights=weights, map=jnp.eye(1), survey=survey)
    with quiet():
        logs = target.logs(facts, jnp.log(shares), jnp.log(excess), jnp.asarray(coefficients))
        found = float(target.log_likelihood(facts, logs))
    scales = 0.4 + excess
    gaps = (np.asarray(y)[:, None] - coefficients.T) / scales
    densities = (shares / scales * np.exp(-0.5 * gaps**2)).sum(axis=1)
    by_record = v * np.log(densities / math.sqrt(2 * math.pi))
    if bound is not None:
        by_record = np.clip(by_record, -bound, 0.0)
    assert found == pytest.approx(float(alpha @ by_record), rel=1e-4)


# -- releases ---------------------------------------------------------------------------------------------------------

DOMAIN = Domain(columns={"visits": Integer(lower=0, upper=100), "w": Numeric(lower=0, upper=50, cells=50),
                         "sex": Category(categories=["f", "m"])})  # fmt: skip
HELD = pl.DataFrame({"visits": COUNTS.astype(int), "w": DESIGN, "sex": seeded(13).choice(["f", "m"], size=200)})


def test_confidential_weights_are_not_released(tmp_path) -> None:
    domain = Domain(columns={name: DOMAIN.columns[name] for name in ("visits", "w")})
    mechanism = CensoredPosterior(PoissonMean(column="visits"), bound=1.0, survey_weight="w", survey_mean=MEAN,
                                  grid={"mean": np.linspace(5.0, 40.0, 200)})  # fmt: skip
    folder = release(confidential(HELD.drop("sex"), domain), mechanism=mechanism, out=tmp_path / "out").path
    assert pl.read_parquet(folder / "table-01.parquet").columns == ["visits"]
    facts = json.loads((folder / "certificate.json").read_text())
    assert facts["mechanism"]["parameters"]["survey"] == {"weight": "w", "mean": MEAN}
    assert facts["released"]["columns"] == ["visits"]
    assert {"code": "public-survey-mean"} in facts["guarantee"]["assumptions"]
    assert all(check.agrees for check in verify(folder))
    del facts["mechanism"]["parameters"]["survey"]
    (folder / "certificate.json").write_text(json.dumps(facts))
    assert run(["verify", str(folder)]) != 0


def test_weights_beside_given_columns_are_published_exactly(tmp_path, command, capsys) -> None:
    asked = ["--model", "linear", "--sensitive", "visits", "--target-epsilon", "8", "--draws", "200", "--warm-up",
             "200", "--chains", "2", "--survey-weight", "w"]  # fmt: skip
    assert run(command(HELD, DOMAIN, *asked)) == 2
    assert "--survey-mean" in capsys.readouterr().err
    assert run(command(HELD, DOMAIN, *asked, "--survey-mean", "8")) == 0
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["mechanism"]["parameters"]["published_exactly"] == ["sex", "w"]
    assert "sex, w are published exactly as held" in str(Certificate.from_dict(facts))
    released = pl.read_parquet(tmp_path / "out" / "table-01.parquet")
    assert released.columns == ["visits", "w", "sex"]
    # Cells of a width of one: a weight on an edge is released as some value of its cell.
    pairs = [sorted(zip(t["w"].floor().to_list(), t["sex"].to_list(), strict=True)) for t in (released, HELD)]
    assert pairs[0] == pairs[1]
    assert all(check.agrees for check in verify(tmp_path / "out"))


def test_declarations_that_do_not_fit_are_refused() -> None:
    model = PoissonMean(column="visits")
    for facts, words in (
        ({"survey_weight": "w"}, "survey_mean"),
        ({"survey_mean": 3.0}, "survey_weight"),
        ({"survey_weight": "w", "survey_mean": 0.0}, "survey_mean"),
        ({"survey_weight": "visits", "survey_mean": 1.0}, "cannot be synthesised and be the survey weight"),
    ):
        for make in (PseudoPosterior, CensoredPosterior):
            bound = {"bound": 1.0} if make is CensoredPosterior else {"weighting": Unweighted()}
            with pytest.raises(ParameterError, match=words):
                make(model, **bound, **facts)
    mechanism = PseudoPosterior(model, target_epsilon=5.0, survey_weight="w", survey_mean=1.0)
    visits = DOMAIN.columns["visits"]
    for column, words in (
        (Numeric(lower=-1, upper=5), "Declare lower = 0"),
        (Numeric(lower=0, upper=5, nulls="category"), "without nulls"),
        (Category(categories=["1", "2"]), "must be a numeric"),
    ):
        with pytest.raises(DomainError, match=words):
            mechanism.on(Domain(columns={"visits": visits, "w": column}))
    with pytest.raises(ParameterError, match="same columns"):
        mechanism.on(Domain(columns={"visits": visits}))
    with pytest.raises(ParameterError, match="no column 'w'"):
        mechanism.fit({"visits": COUNTS}, rng=seeded(0))
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ParameterError, match="finite and at least 0"):
            mechanism.fit({"visits": COUNTS, "w": np.where(np.arange(200) == 7, wrong, 5.0)}, rng=seeded(0))
    with pytest.raises(ParameterError, match="'v' is not a column"):
        synthesiser_for(DOMAIN, ("visits",), survey_weight="v")


def test_the_model_of_a_domain_does_not_read_the_weights() -> None:
    made = synthesiser_for(DOMAIN, ("visits",), model="linear", survey_weight="w")
    assert made.given == ("sex",)
    two = Domain(columns={name: DOMAIN.columns[name] for name in ("visits", "w")})
    assert synthesiser_for(two, ("visits",), model="poisson", survey_weight="w") == PoissonMean(column="visits")
