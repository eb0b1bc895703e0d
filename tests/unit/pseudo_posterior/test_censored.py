"""The censored posterior: its bound on all neighbours of small universes, where it is attained, broken twins."""

import itertools
import math

import numpy as np
import pytest
from exact_laws import censored_law, hoeffding, log_poisson

from discreet._core.lazy import dist, handlers, jax, numpyro
from discreet._core.random import seeded
from discreet.errors import ParameterError, Refused, RelationNotSupported
from discreet.privacy import Relation
from discreet.pseudo_posterior import CensoredPosterior, Convergence, Design, PoissonMean, Predictor, Response
from discreet.pseudo_posterior.mechanism import least_product
from discreet.pseudo_posterior.regressions import LinearRegression
from discreet.pseudo_posterior.sampler import PosteriorDraws

pytestmark = pytest.mark.chains

THETAS = np.linspace(0.5, 12.0, 40)
VALUES = np.array([0, 1, 2, 5, 9, 30])
LOGS = log_poisson(VALUES, THETAS[:, None])
PRIOR = -0.1 * THETAS


def law(table: tuple[int, ...], bound: float, weights: np.ndarray | None = None) -> np.ndarray:
    w = 1.0 if weights is None else weights[list(table)]
    return censored_law(LOGS[:, list(table)], bound=bound, log_prior=PRIOR, weights=w)


def moments(points: np.ndarray, law: np.ndarray) -> tuple[float, float]:
    mean = float(law @ points)
    return mean, math.sqrt(float(law @ (points - mean) ** 2))


def losses(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.log(p) - np.log(q)


@pytest.mark.parametrize("bound", [0.2, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.2, 0.0, 0.7, 1.0, 0.5])])
def test_no_neighbours_of_small_universes_exceed_the_bound(bound: float, weights: np.ndarray | None) -> None:
    tables = list(itertools.combinations_with_replacement(range(len(VALUES)), 3))
    promise = CensoredPosterior(PoissonMean(column="y"), bound=bound).guarantee(n=3)
    for x in tables:
        p = law(x, bound, weights)
        for i, v in itertools.product(range(3), range(len(VALUES))):
            y = (*x[:i], v, *x[i + 1 :])
            q = law(y, bound, weights)
            loss = losses(p, q)
            assert np.ptp(loss) <= 2 * bound + 1e-9
            for epsilon in (0.0, 0.5 * bound, bound, 2 * bound):
                assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= promise.delta(epsilon) + 1e-12
        for v in range(len(VALUES)):
            assert np.abs(losses(p, law((*x, v), bound, weights))).max() <= bound + 1e-9


def test_groups_cost_as_many_times_as_much() -> None:
    p, q = law((0, 0, 0), 1.0), law((5, 5, 5), 1.0)
    assert np.ptp(losses(p, q)) <= 2 * 3 * 1.0 + 1e-9
    assert CensoredPosterior(PoissonMean(column="y"), bound=1.0).guarantee(Relation(group=3), n=9).epsilon(
        0.0
    ) == pytest.approx(6.0)


def test_twice_the_bound_is_attained_in_the_limit_and_once_for_an_added_record() -> None:
    bound = 1.5
    x, y, rest = [[-bound], [0.0]], [[0.0], [-bound]], [[], []]
    prior = [0.0, -30.0]  # nearly all mass on the first parameter
    p, q, r = (censored_law(np.array(t).reshape(2, -1), bound=bound, log_prior=prior) for t in (x, y, rest))
    assert np.abs(losses(p, q)).max() == pytest.approx(2 * bound, abs=1e-6)
    assert np.abs(losses(p, r)).max() == pytest.approx(bound, abs=1e-6)


def test_weights_that_look_at_other_records_break_the_bound() -> None:
    """The broken twin: weights scaled by the largest risk of the table, as the linear map does."""
    bound, worst = 4.0, 0.0
    risk = np.abs(LOGS).max(axis=0)
    for a, v in itertools.product(range(len(VALUES)), repeat=2):
        p, q = (
            censored_law(LOGS[:, t], bound=bound, log_prior=PRIOR, weights=1 - risk[t] / risk[t].max())
            for t in ([a] * 8, [v] + [a] * 7)
        )
        worst = max(worst, float(np.abs(losses(p, q)).max()))
    assert worst > 2 * bound


def test_on_a_grid_draws_follow_the_exact_law() -> None:
    """4,000 draws; a correct sampler fails with probability 1e-6 (Hoeffding for the distribution function)."""
    count, bound = 4000, 2.0
    mechanism = CensoredPosterior(
        PoissonMean(column="y", shape=1.0, rate=0.1), bound=bound, grid={"mean": THETAS}, tables=count
    )
    drawn = mechanism.fit({"y": VALUES[[1, 3, 3, 4]]}, rng=seeded(1))
    assert drawn.exact
    exact = law((1, 3, 3, 4), bound)  # the prior of PRIOR is the Gamma(1, 0.1) density
    within = hoeffding(count, len(THETAS))
    found = np.array([(drawn.values["mean"] <= t + 1e-6).mean() for t in THETAS])
    assert np.abs(found - np.cumsum(exact)).max() < within
    wrong = law((1, 3, 3, 4), 2 * bound)
    assert np.abs(found - np.cumsum(wrong)).max() > within


def test_chains_agree_with_the_law_on_a_fine_grid() -> None:
    y = seeded(3).poisson(6.0, size=60)
    mechanism = CensoredPosterior(
        PoissonMean(column="y", shape=1.0, rate=0.1), bound=3.0, draws=600, warm_up=300, chains=2,
        convergence=Convergence(divergent=0.01),
    )  # fmt: skip
    drawn = mechanism.fit({"y": y}, rng=seeded(4))
    fine = np.linspace(3.0, 10.0, 4000)
    mean, spread = moments(fine, censored_law(log_poisson(y, fine[:, None]), bound=3.0, log_prior=-0.1 * fine))
    error = spread / math.sqrt(drawn.effective)
    assert abs(float(drawn.values["mean"].mean()) - mean) < 5 * error  # fails once in a million
    assert spread > 10 * error  # so a posterior one standard deviation away would be rejected


def gamma_model(data):
    shape = numpyro.sample("shape", dist.LogNormal(0.0, 0.5))
    numpyro.sample("y", dist.Gamma(shape, 1.0).expand([len(data["y"])]), obs=data["y"])


def test_what_is_not_finite_says_minus_the_bound_with_a_finite_gradient() -> None:
    """A gamma density at 0 is 0, undefined or infinite, as the shape is above, at or below 1."""
    from numpyro.infer.util import log_density

    from discreet.pseudo_posterior.likelihood import quiet, weighted

    target = handlers.seed(weighted(gamma_model, sensitive=("y",), bound=1.0), rng_seed=0)
    for y in (np.array([0.0, 0.6, math.nan]), np.array([math.nan, 0.0]), np.array([math.inf, -1.0, 0.6])):
        facts = (y, np.ones(len(y), dtype=np.float32))
        with quiet():
            gradient = jax.jit(
                jax.value_and_grad(lambda k, f=facts: log_density(target, ({"y": f[0]}, f[1]), {}, {"shape": k})[0])
            )
            for shape in (0.05, 0.4, 1.0, 3.0, 12.0):
                value, slope = map(float, gradient(np.float32(shape)))
                inside = [(shape - 1) * math.log(v) - v - math.lgamma(shape) for v in y if 0 < v < math.inf]
                likelihood = sum(max(-1.0, min(0.0, log)) for log in inside) - (len(y) - len(inside))
                log = math.log(shape)
                prior = -0.5 * (log / 0.5) ** 2 - log - math.log(0.5 * math.sqrt(2 * math.pi))
                assert value == pytest.approx(likelihood + prior, abs=1e-4)
                assert math.isfinite(slope)


@pytest.mark.parametrize(
    "weights",
    [lambda d: 0.5 + 0.5 * (d["y"] == d["y"][0]), lambda d: d["y"] / d["y"].sum(), lambda d: d["y"] / d["y"].max(),
     lambda d: 0 * d["y"] + 1 / len(d["y"]), lambda d: np.roll(d["y"], 1) / 9.0, lambda d: d["y"],
     lambda d: np.clip(d["y"] - d["y"].mean(), 0, 1)],
    ids=["first", "total", "largest", "size", "before", "above-1", "mean"],
)  # fmt: skip
@pytest.mark.parametrize("grid", [None, {"mean": THETAS}], ids=["chains", "grid"])
def test_weights_that_look_at_any_other_record_are_refused(weights, grid) -> None:
    mechanism = CensoredPosterior(PoissonMean(column="y"), bound=1.0, record_weights=weights, grid=grid)
    with pytest.raises(ParameterError, match=r"its own record alone|in \[0, 1\]"):
        mechanism.fit({"y": np.array([1, 2, 3, 4])}, rng=seeded(0))


def test_weights_are_computed_from_single_rows() -> None:
    """A function that answers the whole table as if it kept to the rules is asked record by record all the same."""
    asked = []

    def weights(data):
        y = np.asarray(data["y"])  # which JAX cannot trace
        asked.append(len(y))
        return np.where(y > 2, 0.25, 1.0)

    mechanism = CensoredPosterior(PoissonMean(column="y"), bound=1.0, record_weights=weights)
    found = mechanism._weights({"y": np.array([1, 2, 3, 4])}, 4)
    assert found.tolist() == [1.0, 1.0, 0.25, 0.25]
    assert asked == [1, 1, 1, 1, 4]


def test_chains_that_disagree_are_told_apart() -> None:
    draws = seeded(5).normal(size=(2, 500))
    draws[1] += 1.0
    apart = PosteriorDraws(values={"x": draws.reshape(-1)}, watched={"x": draws}, divergent=0.0, exact=False)
    with pytest.raises(Refused, match="R-hat"):
        apart.require(Convergence())


def test_partial_synthesis_says_what_it_publishes() -> None:
    model = LinearRegression(
        response=Response(column="income"), design=Design(predictors=(Predictor(column="sex", categories=2),))
    )
    mechanism = CensoredPosterior(model, bound=2.0)
    promise = mechanism.guarantee(n=10)
    assert any("sex is published exactly" in str(caveat) for caveat in promise.caveats)
    assert any("posterior sampling is exact" in str(assumption) for assumption in promise.assumptions)
    with pytest.raises(RelationNotSupported):
        mechanism.guarantee(Relation(name="add-remove"), n=10)
    assert mechanism.guarantee(n=10).kind == "empirical"
    with pytest.raises(ParameterError, match="as many records as the confidential one"):
        CensoredPosterior(model, bound=2.0, size=10)


def test_under_add_remove_the_number_of_synthetic_records_is_public_and_said_to_be() -> None:
    relation = Relation(name="add-remove")
    with pytest.raises(RelationNotSupported, match="a public number"):
        CensoredPosterior(PoissonMean(column="y"), bound=2.0).guarantee(relation, n=10)
    sized = CensoredPosterior(PoissonMean(column="y"), bound=2.0, size=7, grid={"mean": THETAS}, tables=2)
    promise = sized.guarantee(relation, n=10)
    assert promise.epsilon(0.0) == pytest.approx(4.0)
    assert any("number of synthetic records was chosen in public" in str(a) for a in promise.assumptions)
    for count in (0, 1, 11):
        columns = {"y": np.arange(count)}
        tables = sized.synthesise(sized.fit(columns, rng=seeded(0)), columns, rng=seeded(1))
        assert [len(table["y"]) for table in tables] == [7, 7]
    for odd in (0, -1, 2.0, True):
        with pytest.raises(ParameterError, match="size must be an integer"):
            CensoredPosterior(PoissonMean(column="y"), bound=2.0, size=odd)


def test_a_table_of_no_records_gives_a_draw_from_the_prior_under_add_remove() -> None:
    """On a grid and by chains; right ones fail with probability 1e-6 (Hoeffding, with the effective size of chains)."""
    from scipy import stats

    none = {"y": np.zeros(0, dtype=np.int64)}
    model = PoissonMean(column="y", shape=2.0, rate=0.5)
    count = 4000
    grid = CensoredPosterior(model, bound=0.5, size=5, grid={"mean": THETAS}, tables=count)
    prior = np.exp(np.log(THETAS) - 0.5 * THETAS)
    means = grid.fit(none, rng=seeded(7)).values["mean"]
    found = np.array([(means <= t + 1e-6).mean() for t in THETAS])
    assert np.abs(found - np.cumsum(prior / prior.sum())).max() < hoeffding(count, len(THETAS))

    chains = CensoredPosterior(model, bound=0.5, size=5, draws=600, warm_up=300, chains=2)
    drawn = chains.fit(none, rng=seeded(8))
    exact = stats.gamma(2.0, scale=2.0).cdf(THETAS)
    found = np.array([(drawn.values["mean"] <= t).mean() for t in THETAS])
    assert np.abs(found - exact).max() < hoeffding(drawn.effective, len(THETAS))
    assert len(chains.synthesise(drawn, none, rng=seeded(9))[0]["y"]) == 5
    with pytest.raises(ParameterError, match="one row per record"):
        CensoredPosterior(model, bound=0.5, grid={"mean": THETAS}).fit(none, rng=seeded(0))


def test_a_product_is_rounded_up_and_no_further() -> None:
    assert least_product(2, 0.5) == 1.0
    assert least_product(3, 0.1) > 0.3 >= math.nextafter(least_product(3, 0.1), 0.0)
