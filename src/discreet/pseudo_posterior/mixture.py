"""Mixtures of regressions (PP22, appendix B), the cluster label summed out: one sampler then serves every weighting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import choice, integer
from discreet._core.errors import ParameterError
from discreet._core.lazy import dist, jax, jnp, numpyro
from discreet._core.random import seeded
from discreet.pseudo_posterior.likelihood import SHARED, Columns, records_of
from discreet.pseudo_posterior.mixture_chain import DirichletShares, StickShares, mixture_chain
from discreet.pseudo_posterior.regressions import ResponseRegression, half_t
from discreet.pseudo_posterior.synthesiser import Chain

_LEVELS = (0.1, 0.5, 0.9)
_STEPS, _RIDGE = 40, 1.0
_MAP = f"{SHARED}map"
_HALF_LOG_TAU = 0.9189385332046727  # log(2 pi) / 2


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureRegression(ResponseRegression):
    r"""A numeric column given others, by a mixture of up to K normal regressions.

    .. math:: y_i\sim\sum_{k\le K}\pi_kN(x_i^\top\beta_k,\sigma_k),\quad
       \beta_k\sim N_R(0,\mathrm{diag}(s)\,\Omega\,\mathrm{diag}(s)),\quad \sigma_k=\sigma_0+|t_3|,\; s_r\sim|t_3|

    with :math:`\Omega` uniform over correlation matrices, and either sparse Dirichlet weights,
    :math:`\pi\sim\mathrm{Dir}(a/K,\dots,a/K)`, or a truncated Dirichlet process,
    :math:`\pi_k=v_k\prod_{j<k}(1-v_j)`, :math:`v_k\sim\mathrm{Beta}(1,a)`; :math:`a\sim\mathrm{Gamma}(1,1)`.

    Parameters
    ----------
    response : Response
        The column, its public transformation and unit, and the least scale :math:`\sigma_0`, without which the
        posterior would not exist where values repeat.
    design : Design
        The columns it depends on, at least one: correlations of coefficients need two of them.
    clusters : int
        K, from 2 to 100: more than are needed, since the prior empties those that are not.
    weights : {"dirichlet", "sticks"}
        The prior of the clusters' shares.

    References
    ----------
    PP22, appendix B; Ishwaran and James (2001) for the truncated process.
    """

    monitored: ClassVar[tuple[str, ...]] = ("fitted_mean", "fitted_spread", "fitted_shares_below")
    """The fitted population's mean and spread, and its shares below the table's 10th, 50th and 90th percentiles."""

    clusters: int = 10
    weights: str = "dirichlet"

    def __post_init__(self) -> None:
        integer("clusters", self.clusters, least=2, most=100)
        choice("weights", self.weights, ("dirichlet", "sticks"))
        if not self.design.columns:
            raise ParameterError("a mixture needs at least one given column. Take LinearRegression, or declare one")

    def public(self, columns: Columns, count: int) -> dict[str, npt.NDArray[Any]]:
        """Return the design in orthonormal coordinates, and the map to them.

        The map depends on the given columns, which are published as they are; the model's law does not depend on it.
        """
        plain = self.design.matrix(columns, count)
        gram = plain.T @ plain / count + 1e-6 * np.eye(plain.shape[1])
        lower = np.linalg.cholesky(gram[::-1, ::-1])[::-1, ::-1].T  # lower triangular, lower.T @ lower = gram
        return {"design": np.linalg.solve(lower.T, plain.T).T, _MAP: lower}

    def model(self, data: Mapping[str, Any]) -> None:
        """Run the model."""
        from jax.scipy.stats import norm

        design = jnp.asarray(data["design"], dtype=jnp.float32)
        width = design.shape[1]
        shares = self._shares()
        spreads = numpyro.sample("coefficient_spreads", half_t().expand([width]).to_event(1))
        correlations = numpyro.sample("correlations", dist.LKJCholesky(width, 1.0))
        normal = dist.MultivariateNormal(jnp.zeros(width), scale_tril=spreads[:, None] * correlations)
        to_orthonormal = dist.transforms.LowerCholeskyAffine(jnp.zeros(width), jnp.asarray(data[_MAP], jnp.float32))
        coefficients = numpyro.sample(
            "coefficients", dist.TransformedDistribution(normal.expand([self.clusters]), [to_orthonormal]).to_event(1)
        )
        excess = numpyro.sample("excess_scales", half_t().expand([self.clusters]).to_event(1))
        scales = self.response.least_scale + excess
        means = coefficients @ design.T
        centre = shares @ means.mean(axis=1)
        numpyro.deterministic("fitted_mean", centre)
        second = shares @ ((means**2).mean(axis=1) + scales**2)
        numpyro.deterministic("fitted_spread", jnp.sqrt(jnp.maximum(second - centre**2, 0.0)))
        levels = jnp.quantile(jnp.asarray(data[self.response.column]), jnp.asarray(_LEVELS))
        below = norm.cdf((levels[:, None, None] - means) / scales[:, None])
        numpyro.deterministic("fitted_shares_below", below.mean(axis=2) @ shares)
        numpyro.sample(self.response.column, _mixture(shares, means, scales), obs=data[self.response.column])

    def _shares(self) -> Any:
        total = numpyro.sample("concentration", dist.Gamma(1.0, 1.0))
        if self.weights == "dirichlet":
            return numpyro.sample("shares", dist.Dirichlet(jnp.full(self.clusters, total / self.clusters)))
        sticks = numpyro.sample("sticks", dist.Beta(1.0, total).expand([self.clusters - 1]).to_event(1))
        remainder = jnp.concatenate((jnp.ones(1), jnp.cumprod(1.0 - sticks)))
        return jnp.concatenate((sticks, jnp.ones(1))) * remainder

    def chain(self, data: Mapping[str, Any], *, warm_up: int, bound: float | None) -> Chain:
        """Return the chain of :mod:`discreet.pseudo_posterior.mixture_chain`: NUTS does not converge here."""
        shares: DirichletShares | StickShares = StickShares(clusters=self.clusters)
        if self.weights == "dirichlet":
            shares = DirichletShares(clusters=self.clusters, knee=-math.log(records_of(data)))
        return mixture_chain(shares, self.response, map_name=_MAP, warm_up=warm_up, bound=bound)

    def start(self, data: Mapping[str, Any], *, chain: int) -> dict[str, npt.NDArray[Any]]:
        """Return where expectation-maximisation ends, from another beginning for every chain.

        Chains that agree have then found each other from different places.
        """
        design = np.nan_to_num(np.asarray(data["design"], dtype=np.float64))
        y = np.nan_to_num(np.asarray(data[self.response.column], dtype=np.float64))
        least = self.response.least_scale
        shares, coefficients, scales = _expectation_maximisation(design, y, self.clusters, least, seed=chain)
        order = np.argsort(-shares)
        shares, coefficients, scales = shares[order], coefficients[order], scales[order]
        plain = np.linalg.solve(np.asarray(data[_MAP]), coefficients.T).T
        values: dict[str, npt.NDArray[Any]] = {
            "concentration": np.asarray(1.0),
            "coefficient_spreads": np.maximum(np.sqrt((plain**2).mean(axis=0)), 0.1),
            "correlations": np.eye(design.shape[1]),
            "coefficients": coefficients,
            "excess_scales": np.maximum(scales - self.response.least_scale, 0.02),
        }
        if self.weights == "dirichlet":
            return {**values, "shares": shares}
        remainder = 1.0 - np.concatenate(([0.0], np.cumsum(shares)[:-2]))
        sticks = np.clip(shares[:-1] / np.maximum(remainder, 1e-6), 1e-4, 1.0 - 1e-4)
        return {**values, "sticks": sticks}


def _mixture(shares: Any, means: Any, scales: Any) -> Any:
    """Return the mixture of normals as a distribution over n records, given (K,) shares and (K, n) means."""

    class NormalMixture(dist.Distribution):  # type: ignore[misc]
        support = dist.constraints.real

        def __init__(self) -> None:
            super().__init__(batch_shape=means.shape[1:])

        def log_prob(self, value: Any) -> Any:
            offset = jnp.log(shares) - jnp.log(scales) - _HALF_LOG_TAU
            logs = offset[:, None] - 0.5 * ((value[None, :] - means) / scales[:, None]) ** 2
            highest = jax.lax.stop_gradient(logs.max(axis=0))
            return highest + jnp.log(jnp.exp(logs - highest).sum(axis=0))

        def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
            labels_key, noise_key = jax.random.split(key)
            shape = (*sample_shape, *means.shape[1:])
            labels = jax.random.categorical(labels_key, jnp.log(shares), shape=shape)
            centres = jnp.take_along_axis(means, labels.reshape(-1, means.shape[1]), axis=0).reshape(shape)
            return centres + scales[labels] * jax.random.normal(noise_key, shape)

    return NormalMixture()


def _expectation_maximisation(
    design: Floats, y: Floats, clusters: int, least: float, *, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return shares, coefficients and scales after some steps, with a little regularisation."""
    rng = seeded(seed)
    blurred = y + rng.normal(scale=0.5 * y.std() + 1e-9, size=len(y))
    labels = np.digitize(blurred, np.quantile(blurred, np.linspace(0, 1, clusters + 1)[1:-1]))
    memberships = np.eye(clusters)[labels]
    width = design.shape[1]
    for _ in range(_STEPS):
        sizes = memberships.sum(axis=0)
        shares = (sizes + 0.1) / (len(y) + 0.1 * clusters)
        gram = np.einsum("nk,nr,ns->krs", memberships, design, design, optimize=True) + _RIDGE * np.eye(width)
        coefficients = np.linalg.solve(gram, ((memberships * y[:, None]).T @ design)[:, :, None])[:, :, 0]
        gaps = (y[:, None] - design @ coefficients.T) ** 2
        scales = np.maximum(np.sqrt(((memberships * gaps).sum(axis=0) + 1.0) / (sizes + 1.0)), least + 0.02)
        logs = np.log(shares) - np.log(scales) - _HALF_LOG_TAU - 0.5 * gaps / scales**2
        highest = logs.max(axis=1, keepdims=True)
        masses = np.exp(logs - highest)
        memberships = masses / masses.sum(axis=1, keepdims=True)
    return shares, coefficients, scales
