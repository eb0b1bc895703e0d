"""Steps of Markov chains that know nothing of the model: each leaves its target as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from discreet._core.lazy import jax, jnp

_STEPS = 16
_DIVERGENT = 1000.0  # nats of energy, as in NumPyro


def gamma(key: Any, twice_shape: int, dtype: Any) -> Any:
    """Draw a gamma variable of a shape that is a multiple of one half: half a sum of squares."""
    return 0.5 * (jax.random.normal(key, (twice_shape,), dtype=dtype) ** 2).sum()


def hamiltonian(key: Any, q: Any, energy: Callable[[Any], Any], step: Any) -> tuple[Any, Any, Any]:
    """Make one trajectory of a random number of leapfrog steps with the identity as metric."""
    momentum_key, length_key, accept_key = jax.random.split(key, 3)
    p = jax.random.normal(momentum_key, q.shape, dtype=q.dtype)
    length = jax.random.randint(length_key, (), 1, _STEPS + 1)
    energy_and_slope = jax.value_and_grad(energy)

    def leap(_: Any, state: Any) -> Any:
        q, p, _, slope = state
        p = p - 0.5 * step * slope
        q = q + step * p
        u, slope = energy_and_slope(q)
        return q, p - 0.5 * step * slope, u, slope

    u, slope = energy_and_slope(q)
    end_q, end_p, end_u, _ = jax.lax.fori_loop(0, length, leap, (q, p, u, slope))
    rise = end_u - u + 0.5 * (end_p @ end_p - p @ p)
    rise = jnp.where(jnp.isnan(rise), jnp.inf, rise)
    chance = jnp.exp(-jnp.maximum(rise, 0.0))
    accepted = jax.random.uniform(accept_key, dtype=q.dtype) < chance
    return jnp.where(accepted, end_q, q), chance, rise > _DIVERGENT


def metropolis(key: Any, value: Any, density: Callable[[Any], Any], *, steps: int = 4) -> Any:
    """Make some random-walk steps of scale one from a number."""
    moves_key, accept_key = jax.random.split(key)
    moves = jax.random.normal(moves_key, (steps,), dtype=value.dtype)
    log_uniforms = jnp.log(jax.random.uniform(accept_key, (steps,), dtype=value.dtype))

    def step(state: Any, draws: Any) -> tuple[Any, None]:
        (value, log), (move, log_uniform) = state, draws
        new_log = density(value + move)
        accepted = log_uniform < new_log - log
        return (jnp.where(accepted, value + move, value), jnp.where(accepted, new_log, log)), None

    return jax.lax.scan(step, (value, density(value)), (moves, log_uniforms))[0][0]


# The covariance of a mixture's coefficients given the coefficients, one row at a time.


def redrawn_covariance(key: Any, covariance: Any, coefficients: Any) -> Any:
    r"""Draw each row of the covariance of K coefficient vectors, (K, R), given the other rows.

    Given the others' root :math:`L`, a row is :math:`L\ell` and a variance :math:`|\ell|^2+\tau=s^2`, and its
    coefficients have the law :math:`N(Z\ell,\tau I)` with :math:`Z` the standardised others. Its prior
    :math:`\propto s^{-R}(1+s^2/3)^{-2}` is :math:`e^{-\kappa s^2}` given two gamma variables,
    :math:`\kappa=\omega+\chi/3`: then :math:`\tau` is moved with :math:`\ell` integrated out, and :math:`\ell` drawn.
    """
    count, width = coefficients.shape
    dtype = covariance.dtype

    def redrawn_row(r: Any, covariance: Any) -> Any:
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

    return jax.lax.fori_loop(0, width, redrawn_row, covariance)


def solved(lower: Any, right: Any) -> Any:
    from jax.scipy.linalg import solve_triangular

    return solve_triangular(lower, right, lower=True)


# The priors of a mixture's shares, in coordinates in which a chain moves easily.


@dataclass(frozen=True, slots=True)
class DirichletShares:
    r"""Dirichlet shares, whose logarithms up to a common number are the state.

    That number, :math:`\log\sum_ke^{x_k}`, is standard normal by itself. The logarithm of a small share has an
    exponential tail of scale K/a. Moves are made in coordinates y with
    :math:`x=c+y-h(\sqrt{1+y^2}-y)`, :math:`h=K/2a`, whose tail has scale one; c is where a cluster holds about
    one record.
    """

    clusters: int
    knee: float

    def log(self, state: Any) -> Any:
        """Return the logarithms of the shares."""
        return jax.nn.log_softmax(state)

    def inward(self, state: Any, concentration: Any) -> Any:
        """Return the coordinates in which moves are made."""
        h, x = 0.5 * self.clusters / concentration, state - self.knee
        return ((1.0 + h) * x + h * jnp.sqrt(x * x + 1.0 + 2.0 * h)) / (1.0 + 2.0 * h)

    def outward(self, inside: Any, concentration: Any) -> Any:
        """Return the state at given coordinates."""
        return self.knee + inside - 0.5 * self.clusters / concentration * jnp.exp(-jnp.arcsinh(inside))

    def _slope(self, inside: Any, concentration: Any) -> Any:
        slope = jnp.exp(-jnp.arcsinh(inside)) / jnp.sqrt(1.0 + inside * inside)
        return 1.0 + 0.5 * self.clusters / concentration * slope

    def log_prior(self, inside: Any, concentration: Any) -> Any:
        """Return the log-density of the coordinates, up to what depends on the concentration alone."""
        from jax.scipy.special import logsumexp

        x = self.outward(inside, concentration)
        log_shares = concentration / self.clusters * self.log(x).sum()
        return log_shares + jnp.log(self._slope(inside, concentration)).sum() - 0.5 * logsumexp(x) ** 2

    def precision(self, inside: Any, concentration: Any, total: Any) -> Any:
        """Return about how precisely the coordinates are known from ``total`` records."""
        held = total * jnp.exp(self.log(self.outward(inside, concentration)))
        return 1.0 + held * self._slope(inside, concentration) ** 2

    def concentration(self, key: Any, state: Any, concentration: Any) -> Any:
        """Move the concentration given the shares."""
        from jax.scipy.special import gammaln

        total = self.log(state.astype(concentration.dtype)).sum()

        def density(log: Any) -> Any:
            shape = jnp.exp(log) / self.clusters
            return log - jnp.exp(log) + gammaln(jnp.exp(log)) + shape * total - self.clusters * gammaln(shape)

        return jnp.exp(metropolis(key, jnp.log(concentration), density))

    def begin(self, values: Mapping[str, Any]) -> Any:
        """Return the state at values of the model's sites."""
        return jnp.log(jnp.maximum(values["shares"], 1e-30))

    def values(self, state: Any) -> dict[str, Any]:
        """Return the model's site."""
        return {"shares": jnp.exp(self.log(state))}


@dataclass(frozen=True, slots=True)
class StickShares:
    """Shares from the sticks of a truncated Dirichlet process, whose logits are the state."""

    clusters: int

    def log(self, state: Any) -> Any:
        """Return the logarithms of the shares."""
        none = jnp.zeros(1, dtype=state.dtype)
        taken, left = jax.nn.log_sigmoid(state), jnp.cumsum(jax.nn.log_sigmoid(-state))
        return jnp.concatenate((taken, none)) + jnp.concatenate((none, left))

    def inward(self, state: Any, concentration: Any) -> Any:
        """Return the coordinates in which moves are made: the same."""
        return state

    def outward(self, inside: Any, concentration: Any) -> Any:
        """Return the state at given coordinates: the same."""
        return inside

    def log_prior(self, inside: Any, concentration: Any) -> Any:
        """Return the log-density of the logits, up to what depends on the concentration alone."""
        return (jax.nn.log_sigmoid(inside) + concentration * jax.nn.log_sigmoid(-inside)).sum()

    def precision(self, inside: Any, concentration: Any, total: Any) -> Any:
        """Return about how precisely the logits are known from ``total`` records."""
        log = self.log(inside)
        left = jnp.cumsum(jnp.exp(log)[::-1])[::-1][:-1]  # of the whole stick, before each break
        return 0.1 + (total * left + 1.0 + concentration) * jax.nn.sigmoid(inside) * jax.nn.sigmoid(-inside)

    def concentration(self, key: Any, state: Any, concentration: Any) -> Any:
        """Draw the concentration given the sticks: Gamma(K, 1 - sum of log(1 - v))."""
        rate = 1.0 - jax.nn.log_sigmoid(-state.astype(concentration.dtype)).sum()
        return gamma(key, 2 * self.clusters, concentration.dtype) / rate

    def begin(self, values: Mapping[str, Any]) -> Any:
        """Return the state at values of the model's sites."""
        sticks = jnp.clip(values["sticks"], 1e-6, 1.0 - 1e-6)
        return jnp.log(sticks) - jnp.log1p(-sticks)

    def values(self, state: Any) -> dict[str, Any]:
        """Return the model's site."""
        return {"sticks": jax.nn.sigmoid(state)}
