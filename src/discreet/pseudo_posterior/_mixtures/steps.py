"""Steps of Markov chains that know nothing of the model: each leaves its target as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discreet._core.lazy import jax, jnp

_STEPS = 16
_DIVERGENT = 1000.0  # nats of energy, as in NumPyro


def gamma(key: Any, twice_shape: int, dtype: Any) -> Any:
    """Draw a gamma variable of a shape that is a multiple of one half: half a sum of squares."""
    return 0.5 * (jax.random.normal(key, (twice_shape,), dtype=dtype) ** 2).sum()


def hamiltonian(key: Any, q: Any, energy: Callable[[Any], Any], step: Any) -> tuple[Any, Any, Any]:
    """Make one trajectory of a random number of leapfrog steps with the identity as metric."""
    push, many, accept = jax.random.split(key, 3)
    p = jax.random.normal(push, q.shape, dtype=q.dtype)
    length = jax.random.randint(many, (), 1, _STEPS + 1)
    slope = jax.value_and_grad(energy)

    def leap(_: Any, at: Any) -> Any:
        q, p, _, g = at
        p = p - 0.5 * step * g
        q = q + step * p
        u, g = slope(q)
        return q, p - 0.5 * step * g, u, g

    u, g = slope(q)
    there, momentum, after, _ = jax.lax.fori_loop(0, length, leap, (q, p, u, g))
    rise = after - u + 0.5 * (momentum @ momentum - p @ p)
    rise = jnp.where(jnp.isnan(rise), jnp.inf, rise)
    accepted = jnp.exp(-jnp.maximum(rise, 0.0))
    yes = jax.random.uniform(accept, dtype=q.dtype) < accepted
    return jnp.where(yes, there, q), accepted, rise > _DIVERGENT


def metropolis(key: Any, value: Any, density: Callable[[Any], Any], *, steps: int = 4) -> Any:
    """Make some random-walk steps of scale one from a number."""
    moves, accepts = jax.random.split(key)
    made = (
        jax.random.normal(moves, (steps,), dtype=value.dtype),
        jnp.log(jax.random.uniform(accepts, (steps,), dtype=value.dtype)),
    )

    def move(at: Any, by: Any) -> tuple[Any, None]:
        value, log = at
        new = value + by[0]
        found = density(new)
        yes = by[1] < found - log
        return (jnp.where(yes, new, value), jnp.where(yes, found, log)), None

    return jax.lax.scan(move, (value, density(value)), made)[0][0]
