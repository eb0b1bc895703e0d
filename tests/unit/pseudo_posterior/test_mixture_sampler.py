"""The mixture of regressions' own chain: its law against importance sampling from the prior, its coordinates."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from discreet._core.lazy import jax, jnp
from discreet._core.random import seeded
from discreet.inference.summary import effective_sample_size
from discreet.pseudo_posterior import Design, MixtureRegression, Predictor, Response
from discreet.pseudo_posterior import mixture_chain as chain_module
from discreet.pseudo_posterior.likelihood import SHARED, quiet
from discreet.pseudo_posterior.mixture_chain import _POWERS as POWERS
from discreet.pseudo_posterior.mixture_chain import DirichletShares, StickShares, _exchanged
from discreet.pseudo_posterior.sampler import Sampler

pytestmark = pytest.mark.chains

CLUSTERS, WIDTH, BOUND = 3, 3, 2.5
COLUMNS = {"y": np.array([-2.0, -1.5, 0.3, 2.0, 2.2, 3.0]), "group": np.array([0, 1, 2, 0, 1, 2])}
WEIGHTS = np.array([1.0, 0.5, 0.8, 0.3, 1.0, 0.7])
MODEL = MixtureRegression(
    response=Response(column="y"),
    design=Design(predictors=(Predictor(column="group", categories=3),)),
    clusters=CLUSTERS,
)


def prior_draws(rng: np.random.Generator, size: int, weights: str) -> dict[str, np.ndarray]:
    """Draw from the model's prior with nothing but NumPy."""
    concentration = rng.exponential(size=size)
    if weights == "dirichlet":
        shape = (concentration / CLUSTERS)[:, None]
        logs = np.log(rng.gamma(shape + 1.0, size=(size, CLUSTERS))) + np.log(rng.random((size, CLUSTERS))) / shape
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    else:
        shares = broken(1.0 - rng.random((size, CLUSTERS - 1)) ** (1.0 / concentration[:, None]))  # Beta(1, a)
    tried = rng.uniform(-1, 1, size=(2 * size, 3))  # correlation matrices fill a share of pi^2 / 16 of the cube
    a, b, c = tried.T
    a, b, c = tried[1 + 2 * a * b * c - a**2 - b**2 - c**2 > 0][:size].T
    one = np.ones(size)
    correlations = np.array([[one, a, b], [a, one, c], [b, c, one]]).transpose(2, 0, 1)
    spreads = np.abs(rng.standard_t(3, size=(size, WIDTH)))
    root = spreads[:, :, None] * np.linalg.cholesky(correlations)
    return {
        "concentration": concentration,
        "shares": shares / shares.sum(axis=1, keepdims=True),
        "spreads": spreads,
        "determinant": np.linalg.det(correlations),
        "coefficients": rng.normal(size=(size, CLUSTERS, WIDTH)) @ root.transpose(0, 2, 1),
        "excess": np.abs(rng.standard_t(3, size=(size, CLUSTERS))),
    }


def broken(sticks: np.ndarray) -> np.ndarray:
    """Return the shares that sticks leave."""
    one = np.ones((len(sticks), 1))
    return np.hstack((sticks, one)) * np.cumprod(np.hstack((one, 1.0 - sticks)), axis=1)


def log_likelihoods(draws: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return clipped log-likelihoods of records and means of clusters, in plain coordinates."""
    means = draws["coefficients"] @ MODEL.design.matrix(COLUMNS, 6).T
    scales = MODEL.response.least_scale + draws["excess"][:, :, None]
    densities = (draws["shares"][:, :, None] * stats.norm.pdf((COLUMNS["y"] - means) / scales) / scales).sum(axis=1)
    return np.clip(np.log(densities + 1e-300), -BOUND, 0.0), means


def statistics(draws: dict[str, np.ndarray], logs: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return what does not depend on the names of the clusters, and has moments."""
    shares, excess = draws["shares"], draws["excess"]
    return np.stack(
        (
            logs @ WEIGHTS,
            np.tanh((shares[:, :, None] * means).sum(axis=1).mean(axis=1)),
            np.log(draws["concentration"]),
            shares.max(axis=1),
            np.log(draws["spreads"][:, 0]),
            np.log(draws["spreads"][:, 2]),
            draws["determinant"],
            np.log(excess).mean(axis=1),
            (shares * np.log(excess)).sum(axis=1),
            np.tanh(draws["coefficients"][:, :, 1]).sum(axis=1) ** 2,
        ),
        axis=1,
    )


@pytest.mark.parametrize("weights", ["dirichlet", "sticks"])
def test_the_chain_has_the_law_of_the_weighted_clipped_posterior(weights: str, monkeypatch) -> None:
    """Ten statistics within 4.5 standard errors: a right chain fails in one of 15,000 runs.

    The powers are far apart, so that an exchange by wrong log-likelihoods is seen in the law.

    The same bounds reject the target without weights, as the last lines check.
    """
    monkeypatch.setattr(chain_module, "_POWERS", (1.0, 0.5, 0.1))
    model = replace(MODEL, weights=weights)
    draws = prior_draws(seeded(1), 120_000, weights)
    logs, means = log_likelihoods(draws)
    found = statistics(draws, logs, means)

    def expected(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        masses = np.exp(logs @ weights - (logs @ weights).max())
        masses /= masses.sum()
        mean = masses @ found
        return mean, masses @ (found - mean) ** 2, masses**2 @ (found - mean) ** 2

    data, chains = model.encoded(COLUMNS), 3
    made = Sampler(model, data, draws=1000, warm_up=150, chains=chains, bound=BOUND).draw(WEIGHTS, rng=seeded(3))
    values = {name: value.astype(np.float64) for name, value in made.values.items()}
    shares = values["shares"] if weights == "dirichlet" else broken(values["sticks"])
    drawn = {
        "concentration": values["concentration"],
        "shares": shares,
        "spreads": values["coefficient_spreads"],
        "determinant": np.prod(np.diagonal(values["correlations"], axis1=1, axis2=2), axis=1) ** 2,
        "coefficients": np.linalg.solve(data[f"{SHARED}map"], values["coefficients"].transpose(0, 2, 1)).transpose(
            0, 2, 1
        ),
        "excess": values["excess_scales"],
    }
    at_draws = log_likelihoods(drawn)
    means = values["coefficients"] @ data["design"].T  # (draws, K, n)
    fitted = {"fitted_mean[0]": (shares * means.mean(axis=2)).sum(axis=1)}
    for i, level in enumerate(np.quantile(data[MODEL.response.column], [0.1, 0.5, 0.9])):
        scales = MODEL.response.least_scale + values["excess_scales"]
        below = stats.norm.cdf((level - means) / scales[:, :, None]).mean(axis=2)
        fitted[f"fitted_shares_below[{i}]"] = (shares * below).sum(axis=1)
    for name, by_hand in fitted.items():  # what convergence is judged by
        np.testing.assert_allclose(made.watched[name].ravel(), by_hand, atol=1e-4)
    seen = statistics(drawn, *at_draws)
    effective = np.array([effective_sample_size(column.reshape(chains, -1), ranked=False) for column in seen.T])

    def scores(weights: np.ndarray) -> np.ndarray:
        mean, variance, error = expected(weights)
        return (seen.mean(axis=0) - mean) / np.sqrt(variance / effective + error)

    assert effective.min() > 300
    assert made.divergent == 0.0
    assert np.abs(scores(WEIGHTS)).max() < 4.5
    assert np.abs(scores(np.ones(6))).max() > 4.5


@pytest.mark.parametrize("concentration", [0.01, 0.7, 8.0])
def test_shares_move_in_coordinates_with_the_density_of_their_prior(concentration: float) -> None:
    """Differences of log-densities against scipy's, with the Jacobian by central differences."""

    def density(shares: DirichletShares | StickShares, y: np.ndarray) -> float:
        step = 1e-5
        moves = np.eye(len(y)) * step
        slopes = [float(shares.outward(y + m, concentration)[i] - shares.outward(y - m, concentration)[i])
                  for i, m in enumerate(moves)]  # fmt: skip
        state = np.asarray(shares.outward(jnp.asarray(y), concentration))
        jacobian = np.log(np.array(slopes) / (2 * step)).sum()
        if isinstance(shares, StickShares):
            v = 1 / (1 + np.exp(-state))
            return float(stats.beta(1, concentration).logpdf(v).sum() + np.log(v * (1 - v)).sum() + jacobian)
        total = np.logaddexp.reduce(state)
        # Dirichlet density in K - 1 shares, from there to the logarithms, and a standard normal total
        logs = state - total
        k = len(y)
        dirichlet = gammaln(concentration) - k * gammaln(concentration / k) + (concentration / k * logs).sum()
        return float(dirichlet - 0.5 * total**2 + jacobian)

    rng = seeded(5)
    with quiet(), jax.enable_x64(True):
        for shares, size in ((DirichletShares(clusters=4, knee=-5.0), 4), (StickShares(clusters=4), 3)):
            first, second = rng.normal(scale=2.0, size=(2, size))
            ours = float(shares.log_prior(jnp.asarray(first), concentration)) - float(
                shares.log_prior(jnp.asarray(second), concentration)
            )
            assert ours == pytest.approx(density(shares, first) - density(shares, second), rel=1e-5, abs=1e-5)
            state = shares.outward(jnp.asarray(first), concentration)
            assert np.asarray(shares.inward(state, concentration)) == pytest.approx(first, abs=1e-6)
            assert float(np.exp(np.asarray(shares.log(state))).sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("logs", [(-3.0, -1.0, 2.0), (0.0, 0.0, 0.0), (5.0, -10.0, 1.0)])
def test_exchanges_keep_the_product_of_the_three_laws(logs: tuple[float, float, float]) -> None:
    r"""Detailed balance: :math:`\pi(s)P(s\to s')` after each single offer, and offers in a fixed order.

    Frequencies of 40,000 exchanges against the product of the offers' probabilities, within 4.5 standard errors (a
    right one fails in one of 20,000 cases); powers taken the other way round are rejected.
    """

    many = 40_000
    powers = jnp.asarray(POWERS)
    orders = np.asarray(
        jax.vmap(lambda key: _exchanged(key, jnp.asarray(logs), powers))(jax.random.split(jax.random.key(1), many))
    )

    def expected(powers: np.ndarray) -> dict[tuple[int, ...], float]:
        law = {(0, 1, 2): 1.0}
        for i in (1, 0):
            new: dict[tuple[int, ...], float] = {}
            for order, mass in law.items():
                gain = (powers[i] - powers[i + 1]) * (logs[order[i + 1]] - logs[order[i]])
                yes, no = min(1.0, math.exp(gain)), min(1.0, math.exp(-gain))
                swapped = list(order)
                swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
                rise = sum(
                    power * (logs[there] - logs[here])
                    for power, here, there in zip(powers, order, swapped, strict=True)
                )
                assert yes == pytest.approx(math.exp(rise) * no)  # detailed balance of the product of the laws
                for to, share in ((tuple(swapped), yes), (order, 1.0 - yes)):
                    new[to] = new.get(to, 0.0) + mass * share
            law = new
        return law

    def scores(law: dict[tuple[int, ...], float]) -> float:
        return max(
            abs(float((orders == order).all(axis=1).mean()) - mass) / math.sqrt(mass * (1 - mass) / many + 1e-9)
            for order, mass in law.items()
        )

    assert scores(expected(np.asarray(POWERS))) < 4.5
    if any(logs):
        assert scores(expected(-np.asarray(POWERS))) > 4.5


def test_a_record_that_is_not_finite_says_the_same_to_all_parameters() -> None:
    """Clipped, it says minus the bound everywhere: a constant, which a weight of 0 leaves out."""
    from discreet.pseudo_posterior.mixture_chain import _Facts, _Mixture, _without_missing

    with quiet():
        facts = _without_missing(_Facts(
            design=np.array([[1.0, 0.0], [1.0, math.nan], [1.0, 2.0]]), response=np.array([math.nan, 1.0, 2.0]),
            weights=np.array([1.0, 1.0, 0.5]), map=np.eye(2)))  # fmt: skip
        assert facts.weights.tolist() == [0.0, 0.0, 0.5]
        assert np.isfinite(facts.design).all()
        assert np.isfinite(facts.response).all()
        assert (float(facts.response[2]), facts.design[2].tolist()) == (2.0, [1.0, 2.0])
        target = _Mixture(StickShares(clusters=2), 0.5, BOUND)
        logs = np.array([[math.nan, -math.inf, -1.0], [math.nan, -math.inf, -90.0]])
        plain = facts._replace(weights=np.ones(3))
        assert float(target.log_likelihood(plain, logs)) == pytest.approx(-2 * BOUND - 1.0)
