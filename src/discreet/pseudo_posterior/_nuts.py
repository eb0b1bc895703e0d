"""The chain of models that bring none of their own: NumPyro's NUTS, a block of draws at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from discreet._core.errors import Refused
from discreet._core.lazy import jax, jnp
from discreet.pseudo_posterior._likelihood import seeded_model
from discreet.pseudo_posterior._synthesiser import BLOCK, Chain

_ACCEPT = 0.9  # steps somewhat shorter than by default: fewer divergent transitions in mixtures
_TRIED = 20  # starts a chain, where none is given


def nuts_chain(
    target: Callable[..., None], shapes: Mapping[str, tuple[int, ...]], *, warm_up: int, depth: int
) -> Chain:
    """Return the chain of a model, by NumPyro's functional interface: all fits of a table share one compilation.

    ``target``: a NumPyro model of data and weights.
    ``shapes``: its latent sites, and the shapes of their unconstrained coordinates.
    ``warm_up``: draws that will be left out: step size and metric are adapted in them.
    ``depth``: the longest trajectory is two to this power steps.
    """
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

    initial, step = hmc(potential_fn_gen=lambda *facts: lambda z: potential_energy(target, facts, {}, z), algo="NUTS")

    def place(key: Any, z: Any, facts: Any) -> Any:
        return initial(
            z, warm_up, target_accept_prob=_ACCEPT, max_tree_depth=depth, model_args=facts, model_kwargs={}, rng_key=key
        )

    def anywhere(key: Any, facts: Any) -> dict[str, Any]:
        """Return the best of some points that are uniform on [-2, 2]."""
        keys = jax.random.split(key, len(shapes))
        tried = {name: jax.random.uniform(own, (_TRIED, *shape), minval=-2.0, maxval=2.0)
                 for own, (name, shape) in zip(keys, shapes.items(), strict=True)}  # fmt: skip
        energies = jax.vmap(lambda z: potential_energy(target, facts, {}, z))(tried)
        best = jnp.argmin(jnp.where(jnp.isnan(energies), jnp.inf, energies))
        return {name: value[best] for name, value in tried.items()}

    placed, somewhere = jax.jit(place), jax.jit(anywhere)
    inside = jax.jit(lambda values, facts: unconstrain_fn(seeded_model(target), facts, {}, values))

    def begin(key: Any, values: Mapping[str, Any] | None, facts: Any) -> Any:
        at_start, onwards = jax.random.split(key)
        z = somewhere(at_start, facts) if values is None else inside(values, facts)
        state = placed(onwards, z, facts)
        if not np.isfinite(state.potential_energy):
            raise Refused(
                "the posterior density is not finite at any start. Give the synthesiser a start of its own"
                if values is None
                else "the posterior density is not finite at the start that the synthesiser or an earlier fit gives"
            )
        return state

    def advance(at: Any, facts: Any) -> Any:
        def move(state: Any, _: None) -> Any:
            state = step(state, facts, {})
            return state, (state.z, state.diverging)

        at, (z, diverging) = jax.lax.scan(move, at, None, length=BLOCK)
        values = jax.lax.map(lambda one: constrain_fn(seeded_model(target), facts, {}, one), z)
        return at, ({name: values[name] for name in shapes}, diverging)

    return Chain(begin=begin, advance=advance)
