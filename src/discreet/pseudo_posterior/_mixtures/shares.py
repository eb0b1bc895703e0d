"""The priors of a mixture's shares, in coordinates in which a chain moves easily."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet._core.lazy import jax, jnp
from discreet.pseudo_posterior._mixtures.steps import gamma, metropolis


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
