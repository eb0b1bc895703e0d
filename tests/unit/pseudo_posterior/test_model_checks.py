"""Models that look at more than one record at a time: what they are refused for, and what they cannot see anyway."""

import math

import numpy as np
import pytest

from discreet._core.lazy import dist, handlers, jax, jnp, numpyro
from discreet._core.random import seeded
from discreet.errors import ParameterError
from discreet.pseudo_posterior import CensoredPosterior, PseudoPosterior, Synthesiser
from discreet.pseudo_posterior.likelihood import alone, quiet, weighted
from discreet.pseudo_posterior.mechanism import synthetic_tables
from discreet.pseudo_posterior.sampler import PosteriorDraws
from discreet.pseudo_posterior.synthesiser import FromModel, check_model, latent_sites, typical_values

pytestmark = pytest.mark.chains

COLUMNS = {
    "x": np.array([3.0, -1.0, 0.5, 2.0]),
    "y": np.array([1.0, 0.0, 2.5, 90.0]),
    "z": np.array([0.1, 0.2, 0.3, 0.4]),
}
GRID = {"mean": np.linspace(-3.0, 3.0, 13)}


def normal(mean, scale, data, name="y"):
    return numpyro.sample(name, dist.Normal(mean, scale).expand([len(data["y"])]), obs=data[name])


def latent(centre=0.0, scale=1.0):
    return numpyro.sample("mean", dist.Normal(centre, scale))


def model_of(prior=lambda y: (0.0, 1.0), likelihood=lambda mean, y: (mean, 1.0), factor=None, weight=lambda y: 1.0):
    """Return a model of y, whose prior, likelihood, factor, and scale of the prior are what functions of y give."""

    def model(data):
        y = data["y"]
        with handlers.scale(scale=weight(y)):
            mean = latent(*prior(y))
        if factor is not None:
            numpyro.factor("pull", factor(mean, y))
        normal(*likelihood(mean, y), data)

    return model


def feeding(data):
    normal(0.5 * normal(latent(), 1.0, data, name="x"), 1.0, data)


def scaled_likelihood(data):
    mean = latent()
    with handlers.scale(scale=3.0):
        normal(mean, 1.0, data)


def generator_that_reads_a_sensitive_column(data):
    normal(latent(), 1.0, data, name="x")
    normal(0.5 * data["x"], 1.0, data)


def latent_of_each_record(data):
    with numpyro.plate("records", len(data["y"])):
        each = latent()
    normal(each, 1.0, data)


def factor_of_one_record_only(data):
    mean = latent()
    if len(data["y"]) == 1:
        numpyro.factor("pull", -mean)
    normal(mean, 1.0, data)


def site_of_four(data):
    numpyro.sample("y", dist.Normal(latent(), 1.0).expand([4]), obs=data["y"])


def site_of_another_name(data):
    numpyro.sample("other", dist.Normal(latent(), 1.0).expand([len(data["y"])]), obs=data["y"])


def discrete_latent(data):
    numpyro.sample("z", dist.Bernoulli(0.5))
    normal(0.0, 1.0, data)


def one_number(data):
    numpyro.sample("y", dist.Normal(latent(), 1.0).expand([len(data["y"])]).to_event(1), obs=data["y"])


plain = model_of()
prior_at_the_mean = model_of(prior=lambda y: (y.mean(), 1.0))
survey_weights_in_a_factor = model_of(factor=lambda mean, y: (3.0 * dist.Normal(mean, 1.0).log_prob(y)).sum())
OF_OTHERS = {
    "mean": model_of(likelihood=lambda mean, y: (mean + y.mean(), 1.0)),
    "largest": model_of(likelihood=lambda mean, y: (mean, 1.0 + y.max())),
    "record before": model_of(likelihood=lambda mean, y: (mean + 0.5 * jnp.roll(y, 1), 1.0)),
}
OF_THE_NUMBER = {
    "prior's centre": model_of(prior=lambda y: (1.0 * len(y), 1.0)),
    "prior's width": model_of(prior=lambda y: (0.0, 5.0 / len(y) ** 0.5)),
    "prior's scale": model_of(weight=lambda y: float(len(y))),
    "factor": model_of(factor=lambda mean, y: -mean * len(y)),
    "factor of each record": model_of(factor=lambda mean, y: -mean * jnp.ones(len(y))),
    "factor of one record": factor_of_one_record_only,
}
REFUSED = {
    "prior at the mean": (prior_at_the_mean, "'mean' changes with the sensitive columns"),
    "prior as wide": (model_of(prior=lambda y: (0.0, y.std() + 0.1)), "'mean' changes with the sensitive columns"),
    "scaled prior": (model_of(weight=lambda y: 1.0 + y.sum()), "'mean' changes with the sensitive columns"),
    "survey weights in a factor": (survey_weights_in_a_factor, "'pull' changes with the sensitive columns"),
    "scaled likelihood": (scaled_likelihood, "'y' is scaled or subsampled, which no bound would know of"),
    **{name: (model, "not the sum of those of its records") for name, model in OF_OTHERS.items()},
    "generator": (generator_that_reads_a_sensitive_column, "'y' has a law that changes"),
    "latent of each record": (latent_of_each_record, "one record by itself|latent variable of each record"),
    "site of four": (site_of_four, "one record by itself"),
    "other name": (site_of_another_name, "no observed site 'y'"),
    "discrete latent": (discrete_latent, "discrete and latent"),
    "one number": (one_number, "one per record"),
    "no latent": (lambda data: normal(0.0, 1.0, data), "no latent variable"),
    "nothing observed": (lambda _: latent(), "no observed site"),
}


def checked(model, sensitive=("y",), given=(), columns=COLUMNS):
    """Run every check that a sampler runs."""
    synthesiser = FromModel(function=model, sensitive=sensitive, given=given)
    data = synthesiser.encoded(columns)
    with quiet():
        check_model(synthesiser, data, typical_values(synthesiser, data, latent_sites(synthesiser, data)))


@pytest.mark.parametrize(("model", "said"), REFUSED.values(), ids=REFUSED)
def test_a_model_that_looks_at_more_than_a_record_is_refused_whatever_the_table_holds(model, said) -> None:
    """Where all values are 0 nothing changes on this table; made-up ones show it, so the refusal tells nothing."""
    sensitive = ("x", "y") if model is generator_that_reads_a_sensitive_column else ("y",)
    for columns in (COLUMNS, {name: np.zeros(4) for name in COLUMNS}):
        with pytest.raises(ParameterError, match=said):
            checked(model, sensitive, columns=columns)


def test_models_that_keep_to_the_rules_pass() -> None:
    checked(plain)
    checked(lambda data: normal(latent(data["z"].mean()), 1.0, data), given=("z",))  # what is given is public
    checked(feeding, ("x", "y"))


@pytest.mark.parametrize("model", OF_THE_NUMBER.values(), ids=OF_THE_NUMBER)
def test_a_prior_of_the_number_of_records_is_refused_where_that_is_confidential(model) -> None:
    """Whatever the number, none and one included; under replacement, without a size, it is public."""
    mechanism = CensoredPosterior(model, bound=1.0, sensitive=("y",), grid=GRID, size=4)
    for count in (4, 2, 1, 0):
        with pytest.raises(ParameterError, match="changes with the number of records"):
            mechanism.fit({"y": np.arange(float(count))}, rng=seeded(0))
    few = {"draws": 20, "warm_up": 20, "chains": 2}
    with pytest.raises(ParameterError, match="changes with the number of records"):
        CensoredPosterior(model, bound=1.0, sensitive=("y",), size=4, **few).fit(COLUMNS, rng=seeded(0))
    CensoredPosterior(model, bound=1.0, sensitive=("y",), grid=GRID).fit(COLUMNS, rng=seeded(0))


@pytest.mark.parametrize("model", [plain, *OF_THE_NUMBER.values()], ids=["plain", *OF_THE_NUMBER])
def test_no_number_of_records_enters_the_prior_whatever_the_model_does(model, monkeypatch) -> None:
    """Without the checks: log-weights on a grid of tables of 0, 1, 10 and 11 records that say nothing are the same."""
    from numpyro.infer.util import log_density

    from discreet.pseudo_posterior import censored as grid

    laws = []
    monkeypatch.setattr(grid, "check_model", lambda *_args, **_named: None)
    monkeypatch.setattr(grid, "draw_weighted", lambda law, rng: laws.append(law) or 0)
    silent = CensoredPosterior(
        model, bound=1.0, sensitive=("y",), grid=GRID, size=4, record_weights=lambda data: np.zeros(len(data["y"]))
    )
    for count in (10, 11, 1, 0):
        silent.fit({"y": np.arange(float(count))}, rng=seeded(0))
        np.testing.assert_array_equal(laws[-1], laws[0])

    with quiet():
        target = handlers.seed(weighted(model, sensitive=("y",), bound=1.0, blank={"y": np.zeros(1)}), rng_seed=0)
        at = jax.jit(lambda data, w, mean: log_density(target, (data, w), {}, {"mean": mean})[0])
        found = [float(at({"y": np.zeros(n)}, np.zeros(n), np.float32(0.7))) for n in (1, 10, 11)]
    assert found[0] == found[1] == found[2]


class Positioned(FromModel):
    """Public arrays of which a record's row depends on how many there are."""

    def public(self, columns, count):
        return {"share": np.full(count, 1.0 / count)}


class Counting(FromModel):
    """The number of records, for all of them together."""

    def public(self, columns, count):
        return {"shared: number": np.array([float(count)])}


@pytest.mark.parametrize("kind", [Positioned, Counting])
def test_no_number_of_records_enters_public_arrays_where_it_is_confidential(kind) -> None:
    synthesiser = kind(function=plain, sensitive=("y",))
    with pytest.raises(ParameterError, match=r"array '.*' of Synthesiser\.public changes with the number of records"):
        CensoredPosterior(synthesiser, bound=1.0, grid=GRID, size=4).fit(COLUMNS, rng=seeded(0))
    name = next(iter(synthesiser.public({}, 1)))
    for count in (0, 1, 4):
        assert set(synthesiser.encoded_alike({"y": np.arange(float(count))})[name]) == {1.0}
    CensoredPosterior(synthesiser, bound=1.0, grid=GRID).fit(COLUMNS, rng=seeded(0))


def test_weights_of_the_number_of_records_are_refused_whatever_it_is() -> None:
    def share(data):
        return np.full(len(data["y"]), 1.0 / len(data["y"]))

    mechanism = CensoredPosterior(plain, bound=1.0, sensitive=("y",), grid=GRID, size=4, record_weights=share)
    for count in (1, 2, 0):
        with pytest.raises(ParameterError, match="its own record alone"):
            mechanism.fit({"y": np.arange(float(count))}, rng=seeded(0))


def one_value_for_all(data):
    numpyro.sample("y", dist.Normal(latent(), 1.0), obs=data["y"])


@pytest.mark.parametrize("count", [1, 4])
def test_a_site_that_would_draw_one_value_for_all_records_is_refused(count) -> None:
    """Its log-densities are one per record all the same, by broadcasting."""
    columns = {"y": COLUMNS["y"][:count]}
    with pytest.raises(ParameterError, match=r"'y' draws values of shape \(\).*numpyro\.plate"):
        checked(one_value_for_all, columns=columns)
    synthesiser = FromModel(function=one_value_for_all, sensitive=("y",))
    draws = PosteriorDraws(values={"mean": np.zeros(2)}, watched={}, divergent=0.0, exact=True)
    with pytest.raises(ParameterError, match="does not draw one value per record"):
        synthetic_tables(synthesiser, draws, columns, tables=1, rng=seeded(0))


def test_parameters_outside_the_domain_of_a_distribution_are_said_to_be() -> None:
    def overflowing(data):
        normal(jnp.exp(latent(0.0, 1000.0)), 1.0, data)

    mechanism = CensoredPosterior(overflowing, bound=1.0, sensitive=("y",), grid={"mean": [200.0]})
    with pytest.raises(ParameterError, match="parameters outside its domain"):
        mechanism.synthesise(mechanism.fit(COLUMNS, rng=seeded(0)), COLUMNS, rng=seeded(0))


def test_an_improper_prior_is_refused_but_on_a_grid() -> None:
    def improper(data):
        normal(numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ())), 1.0, data)

    with pytest.raises(ParameterError, match="improper"):
        checked(improper)
    drawn = CensoredPosterior(improper, bound=1.0, sensitive=("y",), grid=GRID, tables=3).fit(COLUMNS, rng=seeded(1))
    assert set(drawn.values["mean"]) <= set(GRID["mean"])


class Conjugate(Synthesiser):
    """Says that it has a closed form."""

    sensitive = ("y",)

    def model(self, data):
        prior_at_the_mean(data)

    def conjugate(self, data, weights, *, draws, rng):
        return {"mean": rng.normal(size=draws)}


def test_every_way_to_a_posterior_runs_the_checks() -> None:
    few = {"sensitive": ("y",), "draws": 20, "warm_up": 20, "chains": 2}
    for mechanism in (
        CensoredPosterior(prior_at_the_mean, bound=1.0, grid=GRID, sensitive=("y",)),
        CensoredPosterior(prior_at_the_mean, bound=1.0, **few),
        PseudoPosterior(prior_at_the_mean, **few),
        PseudoPosterior(Conjugate()),
    ):
        with pytest.raises(ParameterError, match="changes with the sensitive columns"):
            mechanism.fit(COLUMNS, rng=seeded(0))


# -- what holds although nothing is checked ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", [plain, *OF_OTHERS.values()], ids=["plain", *OF_OTHERS])
def test_no_record_enters_the_likelihood_of_another_whatever_the_model_does(model) -> None:
    """Every record but one is replaced: what that one says stays the same to the last bit."""
    with quiet():
        before = np.asarray(alone(model, {"mean": np.float32(0.3)}, {"y": COLUMNS["y"]}))
        for i in range(4):
            others = np.where(np.arange(4) == i, COLUMNS["y"], -7.0)
            after = np.asarray(alone(model, {"mean": np.float32(0.3)}, {"y": others}))
            assert after[i] == before[i]


@pytest.mark.parametrize("model", [prior_at_the_mean, survey_weights_in_a_factor], ids=["prior", "factor"])
@pytest.mark.parametrize("bound", [None, 1.5])
def test_the_posterior_is_that_of_the_records_one_by_one_and_a_fixed_prior(model, bound) -> None:
    """Log densities of the sampled target, at two parameters, against the sum by hand."""
    from numpyro.infer.util import log_density

    y, w = COLUMNS["y"], np.array([1.0, 0.5, 1.0, 0.2], dtype=np.float32)
    target = handlers.seed(weighted(model, sensitive=("y",), bound=bound), rng_seed=0)

    def ours(mean):
        with quiet():
            return float(jax.jit(lambda m: log_density(target, ({"y": y}, w), {}, {"mean": m})[0])(np.float32(mean)))

    def by_hand(mean):
        logs = -0.5 * (y - mean) ** 2 - 0.5 * math.log(2 * math.pi)
        prior = -0.5 * mean**2  # its centre is the mean of zeros
        if model is survey_weights_in_a_factor:
            prior += 4 * 3.0 * -0.5 * mean**2
        return float(w @ (logs if bound is None else np.clip(logs, -bound, 0.0))) + prior

    assert ours(1.2) - ours(-0.4) == pytest.approx(by_hand(1.2) - by_hand(-0.4), rel=1e-4)


class Standardising(FromModel):
    """An encoding that asks for all values at once, and gets one at a time."""

    def coded(self, name, values):
        return values - values.mean()


class Doubling(FromModel):
    """An encoding that makes two values of one."""

    def coded(self, name, values):
        return np.repeat(values, 2)


def test_no_record_enters_the_encoding_of_another() -> None:
    made = Standardising(function=plain, sensitive=("y",)).encoded(COLUMNS)
    np.testing.assert_array_equal(made["y"], np.zeros(4))
    with pytest.raises(ParameterError, match="'y': each value must be coded as one value"):
        Doubling(function=plain, sensitive=("y",)).encoded(COLUMNS)
    seen = []

    class Looking(FromModel):
        def public(self, columns, count):
            seen.append(set(columns))
            return super().public(columns, count)

    Looking(function=plain, sensitive=("y",), given=("z",)).encoded(COLUMNS)
    assert seen == [{"z"}]


class Reaching(FromModel):
    """An encoding that looks for the values beside the one that it is handed."""

    def coded(self, name, values):
        return values if values.base is None else values + values.base.mean()


def test_a_record_by_itself_leads_to_no_other_record() -> None:
    made = Reaching(function=plain, sensitive=("y",)).encoded(COLUMNS)
    np.testing.assert_array_equal(made["y"], COLUMNS["y"])

    def reaching(data):
        table = data["y"] if data["y"].base is None else data["y"].base
        return np.full(len(data["y"]), 1.0 / len(table) if len(data["y"]) == 1 else 0.25)

    mechanism = CensoredPosterior(plain, bound=1.0, sensitive=("y",), record_weights=reaching)
    with pytest.raises(ParameterError, match="its own record alone"):  # 1 of each record, 1/4 of the table
        mechanism._weights(COLUMNS, 4)


def test_weights_change_no_record() -> None:
    """Called with the whole table, to compare, they get a table of their own."""

    def centring(data):
        data["y"] -= data["y"].mean()
        return np.ones(len(data["y"]))

    data = {"y": COLUMNS["y"].copy()}
    CensoredPosterior(plain, bound=1.0, sensitive=("y",), record_weights=centring)._weights(data, 4)
    np.testing.assert_array_equal(data["y"], COLUMNS["y"])


def test_what_draws_records_is_handed_no_sensitive_value() -> None:
    """A generator that is not checked: it tries to release the confidential column, and releases zeros."""
    seen = []

    def leaking(data):
        latent()
        seen.append({name: np.asarray(value) for name, value in data.items()})
        numpyro.sample("y", dist.Delta(jnp.asarray(data["y"])), obs=data["y"])

    synthesiser = FromModel(function=leaking, sensitive=("y",), given=("z",))
    draws = PosteriorDraws(values={"mean": np.zeros(2)}, watched={}, divergent=0.0, exact=True)
    (table,) = synthetic_tables(synthesiser, draws, COLUMNS, tables=1, rng=seeded(0))
    np.testing.assert_array_equal(table["y"], np.zeros(4))
    np.testing.assert_array_equal(table["z"], COLUMNS["z"])
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0]["y"], np.zeros(4))
    np.testing.assert_allclose(seen[0]["z"], COLUMNS["z"])
