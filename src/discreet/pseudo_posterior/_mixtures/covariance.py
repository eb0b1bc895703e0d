"""The covariance of a mixture's coefficients given the coefficients, one row at a time."""

from __future__ import annotations

from typing import Any

from discreet._core.lazy import jax, jnp
from discreet.pseudo_posterior._mixtures.steps import gamma, metropolis


def redrawn_covariance(key: Any, covariance: Any, coefficients: Any) -> Any:
    r"""Draw each row of the covariance of K coefficient vectors, (K, R), given the other rows.

    Given the others' root :math:`L`, a row is :math:`L\ell` and a variance :math:`|\ell|^2+\tau=s^2`, and its
    coefficients have the law :math:`N(Z\ell,\tau I)` with :math:`Z` the standardised others. Its prior
    :math:`\propto s^{-R}(1+s^2/3)^{-2}` is :math:`e^{-\kappa s^2}` given two gamma variables,
    :math:`\kappa=\omega+\chi/3`: then :math:`\tau` is moved with :math:`\ell` integrated out, and :math:`\ell` drawn.
    """
    count, width = coefficients.shape
    dtype = covariance.dtype

    def one(r: Any, covariance: Any) -> Any:
        keys = jax.random.split(jax.random.fold_in(key, r), 5)
        others = (jnp.arange(width) != r).astype(dtype)
        root = jnp.linalg.cholesky(covariance * others[:, None] * others + jnp.diag(1.0 - others))
        z, y = solved(root, (coefficients * others).T).T, coefficients[:, r]
        square = covariance[r, r]
        tau = square - (solved(root, covariance[:, r] * others) ** 2).sum()
        kappa = gamma(keys[0], width, dtype) / square + gamma(keys[1], 4, dtype) / (3.0 + square)
        values, vectors = jnp.linalg.eigh(z @ z.T / (2.0 * kappa))
        values = jnp.maximum(values, 0.0)
        turned = (vectors.T @ y) ** 2

        def density(log: Any) -> Any:
            total = jnp.exp(log) + values
            return log - kappa * jnp.exp(log) - 0.5 * (jnp.log(total) + turned / total).sum()

        tau = jnp.exp(metropolis(keys[2], jnp.log(tau), density))
        prior = jax.random.normal(keys[3], (width,), dtype=dtype) / jnp.sqrt(2.0 * kappa) * others
        gap = y - z @ prior - jnp.sqrt(tau) * jax.random.normal(keys[4], (count,), dtype=dtype)
        line = prior + z.T @ (vectors @ ((vectors.T @ gap) / (values + tau))) / (2.0 * kappa)
        row = jnp.where(jnp.arange(width) == r, line @ line + tau, root @ line)
        return covariance.at[r].set(row).at[:, r].set(row)

    return jax.lax.fori_loop(0, width, one, covariance)


def solved(lower: Any, right: Any) -> Any:
    from jax.scipy.linalg import solve_triangular

    return solve_triangular(lower, right, lower=True)
