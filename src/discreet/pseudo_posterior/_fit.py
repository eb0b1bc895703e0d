"""Draws from a weighted posterior, and whether to rely on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import ParameterError, Refused
from discreet.inference._diagnostics import effective_sample_size, r_hat
from discreet.pseudo_posterior._likelihood import by_record, extremes, quiet, seeded_model, weighted
from discreet.pseudo_posterior._synthesiser import Chain, Synthesiser, records_of, rows

__all__ = ["Convergence", "PosteriorDraws", "Sampler"]

Floats = npt.NDArray[np.float64]
_ACCEPT = 0.9  # steps somewhat shorter than by default: fewer divergent transitions in mixtures


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """When Markov chains are relied on.

    The defaults ask for what synthetic tables need: draws worth a hundred independent ones in four chains that agree.
    Who reports posterior means to three digits asks for more: 1.01, and 100 a chain, in the reference.

    Parameters
    ----------
    r_hat : float
        The largest R-hat of what is watched: what the synthesiser monitors, or else its latent sites and the log
        pseudo-likelihood.
    effective : float
        The least effective sample size, a chain.
    divergent : float
        The largest share of divergent transitions; of divergent draws for a mixture, whose draws are many transitions.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), section 4.
    """

    r_hat: float = 1.05
    effective: float = 25.0
    divergent: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PosteriorDraws:
    """Draws from a weighted posterior. Confidential: a draw is covered by the guarantee, the diagnostics are not.

    Parameters
    ----------
    values : dict of str to ndarray, each of shape (chains * draws, ...)
        Values of the latent sites, chain after chain.
    watched : dict of str to ndarray, each of shape (chains, draws)
        What convergence is judged by.
    divergent : float
        Share of divergent transitions.
    exact : bool
        Whether the draws are independent and from the exact posterior.
    """

    values: dict[str, npt.NDArray[Any]] = field(repr=False)
    watched: dict[str, Floats] = field(repr=False)
    divergent: float = field(repr=False)
    exact: bool

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def r_hat(self) -> float:
        """The largest R-hat of what is watched."""
        return 1.0 if self.exact else max(map(r_hat, self.watched.values()))

    @property
    def effective(self) -> float:
        """The least effective sample size of what is watched."""
        return float(len(self)) if self.exact else min(map(effective_sample_size, self.watched.values()))

    def one(self, index: int) -> dict[str, npt.NDArray[Any]]:
        """Return one draw of all latent sites."""
        return {name: value[index] for name, value in self.values.items()}

    def require(self, convergence: Convergence) -> None:
        """Refuse chains that did not converge.

        Raises
        ------
        Refused
            Naming the check that failed and no number: R-hat and the others are computed from the data.
        """
        if self.exact:
            return
        chains = next(iter(self.watched.values())).shape[0]
        failed = [
            what
            for what, bad in (
                ("R-hat", not self.r_hat <= convergence.r_hat),
                ("the effective sample size", not self.effective >= convergence.effective * chains),
                ("the share of divergent transitions", not self.divergent <= convergence.divergent),
            )
            if bad
        ]
        if failed:
            raise Refused(
                f"the chains did not converge ({', '.join(failed)}): take more warm-up and draws, rewrite the model or "
                "set a Convergence of your own; nothing was released"
            )


class Sampler:
    r"""Draws from :math:`\xi^\alpha(\theta\mid x)\propto\prod_ip(x_i\mid\theta)^{\alpha_i}\,\xi(\theta)`.

    One object serves all weights of one table, so that the model is compiled once. Confidential: it holds the table.

    Parameters
    ----------
    synthesiser : Synthesiser
        The model, public.
    data : mapping
        Confidential: its encoded data.
    draws, warm_up : int
        Draws kept and spent on adaptation, a chain.
    chains : int
        At least 2.
    bound : float, optional
        Clip each record's log-likelihood to ``[-bound, 0]`` first: the censored form.
    chain_method : {"sequential", "parallel", "vectorized"}
        As in ``numpyro.infer.MCMC``.

    Raises
    ------
    ParameterError
        When NumPyro is missing, or there are too few chains or draws.
    """

    def __init__(
        self,
        synthesiser: Synthesiser,
        data: Mapping[str, Any],
        *,
        draws: int = 1000,
        warm_up: int = 1000,
        chains: int = 4,
        bound: float | None = None,
        chain_method: str = "sequential",
    ) -> None:
        if draws < 10 or chains < 2:
            raise ParameterError("chains is at least 2 and draws at least 10: one chain cannot disagree with itself")
        self.synthesiser, self.data, self.count = synthesiser, dict(data), records_of(data)
        self._draws, self._warm_up, self._chains, self._bound = draws, warm_up, chains, bound
        self._chain_method = chain_method
        self._chain: Any = None
        self._own: Chain | None = None
        self._seen: Any = None
        self._over: Any = None
        self._shapes: dict[str, tuple[int, ...]] = {}

    def draw(
        self,
        weights: Floats,
        *,
        rng: np.random.Generator,
        start: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> PosteriorDraws:
        """Draw from the posterior with these weights.

        Parameters
        ----------
        weights : ndarray of float64, shape (n,)
            In [0, 1].
        rng : numpy.random.Generator
            Source of everything.
        start : mapping, optional
            Values of the latent sites to start from; the synthesiser's own by default.

        Returns
        -------
        PosteriorDraws
            Confidential.

        Raises
        ------
        ParameterError
            When the model has discrete latent variables, or no likelihood of one number a record.
        """
        if self._bound is None:
            made = self.synthesiser.conjugate(self.data, weights, draws=self._chains * self._draws, rng=rng)
            if made is not None:
                return PosteriorDraws(values=dict(made), watched={}, divergent=0.0, exact=True)
        with quiet():
            return self._by_chains(weights, rng=rng, start=start)

    def extremes(self, draws: PosteriorDraws) -> tuple[Floats, Floats]:
        """Return the least and the largest log-likelihood of each record over draws, nats. Confidential."""
        with quiet():
            if self._over is None:
                self._over = extremes(self.synthesiser.model, self.count)
            least, largest = self._over(draws.values, self.data)
        return least, largest

    def _by_chains(
        self, weights: Floats, *, rng: np.random.Generator, start: Mapping[str, npt.NDArray[Any]] | None
    ) -> PosteriorDraws:
        import jax.numpy as jnp

        if not self._shapes:
            self._prepare()
        # A record of weight 0 is replaced by another one: what does not count need not have a finite likelihood.
        kept = np.where(weights > 0, np.arange(self.count), int(np.argmax(weights)))
        used = {name: jnp.asarray(value) for name, value in rows(self.data, kept).items()}
        facts = (used, jnp.asarray(weights, dtype=jnp.float32))
        begin = self.synthesiser.start(self.data) if start is None else start
        keys = jnp.asarray(rng.integers(0, 2**32, size=(self._chains, 2), dtype=np.uint32))
        if self._own is None:
            first = self._first(facts, begin, rng=rng)
            drawn, diverging = _all_chains(self._chain, keys, first, facts, method=self._chain_method)
            found = {name: np.asarray(value) for name, value in drawn.items()}
        else:
            assert begin is not None  # a synthesiser with a chain of its own says where to start it
            found, diverging = self._by_own_chain(self._own, keys, begin, facts)
        return self._drawn(found, float(np.asarray(diverging).mean()))

    def _by_own_chain(
        self, own: Chain, keys: Any, begin: Mapping[str, npt.NDArray[Any]], facts: tuple[Any, Any]
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[Any]]:
        """Run the synthesiser's own chains, and compute the model's deterministic sites after them."""
        import jax
        import jax.numpy as jnp

        made: list[Any] = []
        with jax.enable_x64(True):
            one = own.begin({name: jnp.asarray(begin[name], jnp.float32) for name in self._shapes})
            at = jax.tree.map(lambda part: jnp.stack([part] * self._chains), one)
            while sum(diverging.shape[1] for _, diverging in made) < self._warm_up + self._draws:
                at, drawn = _all_chains(own.advance, keys, at, facts, method=self._chain_method)
                made.append(jax.tree.map(np.asarray, drawn))
        kept = slice(self._warm_up, self._warm_up + self._draws)
        values, diverging = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, kept], *made)
        return values | {name: np.asarray(value) for name, value in self._seen(values, facts).items()}, diverging

    def _prepare(self) -> None:
        """Choose the chain: the synthesiser's own, or NUTS."""
        self._shapes = _latent(self.synthesiser, self.data, self.count)
        self._target = weighted(self.synthesiser.model, bound=self._bound)
        self._own = self.synthesiser.chain(self.data, warm_up=self._warm_up, bound=self._bound)
        if self._own is None:
            self._chain = _one_chain(
                self._target, draws=self._draws, warm_up=self._warm_up, depth=self.synthesiser.tree_depth
            )
        else:
            self._seen = _deterministic(self._target)

    def _first(
        self, facts: tuple[Any, Any], begin: Mapping[str, npt.NDArray[Any]] | None, *, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return where the chains start, in unconstrained coordinates, one row a chain.

        Without given values: uniform on [-2, 2], the best of twenty draws a chain.

        Raises
        ------
        Refused
            When the density is finite at none of them.
        """
        import jax
        import jax.numpy as jnp
        from numpyro.infer.util import potential_energy, unconstrain_fn

        names = tuple(self._shapes)
        if begin is not None:
            values = {name: jnp.asarray(begin[name], dtype=jnp.float32) for name in names}
            inside = jax.jit(lambda v: unconstrain_fn(seeded_model(self._target), facts, {}, v))(values)
            return {name: jnp.stack([inside[name]] * self._chains) for name in names}
        tried = {
            name: rng.uniform(-2.0, 2.0, size=(self._chains, 20, *shape)).astype(np.float32)
            for name, shape in self._shapes.items()
        }
        energy = jax.jit(jax.vmap(jax.vmap(lambda z: potential_energy(self._target, facts, {}, z))))
        found = np.nan_to_num(np.asarray(energy(tried), dtype=np.float64), nan=np.inf)
        if not np.isfinite(found.min(axis=1)).all():
            raise Refused("the posterior density is finite at no start: give the synthesiser a start of its own")
        best = found.argmin(axis=1)
        return {name: jnp.asarray(value[np.arange(self._chains), best]) for name, value in tried.items()}

    def _drawn(self, found: dict[str, npt.NDArray[Any]], divergent: float) -> PosteriorDraws:
        monitored = self.synthesiser.monitored
        watched = {}
        for name in ("log_pseudo_likelihood", *self._shapes) if monitored is None else monitored:
            flat = np.asarray(found[name], dtype=np.float64).reshape(self._chains, self._draws, -1)
            watched.update({f"{name}[{i}]": flat[:, :, i] for i in range(flat.shape[2])})
        total = self._chains * self._draws
        values = {name: found[name].reshape(total, *found[name].shape[2:]) for name in self._shapes}
        return PosteriorDraws(values=values, watched=watched, divergent=divergent, exact=False)


def _one_chain(target: Callable[..., None], *, draws: int, warm_up: int, depth: int) -> Any:
    """Return a function that runs one chain of NUTS, from a key, a start and the data to draws of all sites.

    NumPyro's functional interface: data and weights are arguments, so all fits of a table share one compilation.
    """
    import jax
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import constrain_fn, potential_energy

    def potential(*facts: Any) -> Any:
        return lambda z: potential_energy(target, facts, {}, z)

    def run(key: Any, first: Any, facts: Any) -> Any:
        initial, step = hmc(potential_fn_gen=potential, algo="NUTS")
        state = initial(
            first,
            warm_up,
            target_accept_prob=_ACCEPT,
            max_tree_depth=depth,
            model_args=facts,
            model_kwargs={},
            rng_key=key,
        )

        def move(state: Any, _: None) -> Any:
            state = step(state, facts, {})
            return state, (state.z, state.diverging)

        state = jax.lax.fori_loop(0, warm_up, lambda _, state: step(state, facts, {}), state)
        _, (z, diverging) = jax.lax.scan(move, state, None, length=draws)
        values = jax.lax.map(
            lambda one: constrain_fn(seeded_model(target), facts, {}, one, return_deterministic=True), z
        )
        return values, diverging

    return run


def _deterministic(target: Callable[..., None]) -> Any:
    """Return a function from draws of the latent sites, by chain, and the data to the deterministic sites."""
    import jax
    from numpyro import handlers

    def one(values: Any, facts: Any) -> dict[str, Any]:
        with handlers.trace() as sites, handlers.substitute(data=values):
            seeded_model(target)(*facts)
        return {name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}

    def each(values: Any, facts: Any) -> Any:
        return jax.lax.map(lambda chain: jax.lax.map(lambda draw: one(draw, facts), chain), values)

    return jax.jit(each)


def _all_chains(chain: Any, keys: Any, first: Any, facts: Any, *, method: str) -> Any:
    """Run the chains one after the other, side by side in one vector, or on as many devices as there are."""
    import jax
    import jax.numpy as jnp

    if method == "vectorized":
        return _compiled(chain, jax.vmap(chain, in_axes=(0, 0, None)))(keys, first, facts)
    one_by_one = [(keys[i], jax.tree.map(lambda part, i=i: part[i], first)) for i in range(len(keys))]
    if method == "sequential":
        run = _compiled(chain, chain)
        parts = [run(key, start, facts) for key, start in one_by_one]
    else:
        # Devices work at the same time: each call returns before its chain is done.
        run = _compiled(chain, chain)
        devices = jax.local_devices()
        parts = [
            run(*jax.device_put((key, start, facts), devices[i % len(devices)]))
            for i, (key, start) in enumerate(one_by_one)
        ]
    parts = [jax.tree.map(np.asarray, part) for part in parts]
    return jax.tree.map(lambda *values: jnp.stack(values), *parts)


def _compiled(chain: Any, form: Any) -> Any:
    """Return the compiled form of a chain, kept with the chain itself."""
    import jax

    if not hasattr(chain, "compiled"):
        chain.compiled = jax.jit(form)
    return chain.compiled


def _latent(synthesiser: Synthesiser, data: Mapping[str, Any], count: int) -> dict[str, tuple[int, ...]]:
    """Return a model's latent sites and their unconstrained shapes, and check its observed ones; nothing is computed.

    Raises
    ------
    ParameterError
        When a latent variable is discrete, or the likelihood does not give one number a record.
    """
    import jax
    from numpyro import handlers
    from numpyro.distributions import biject_to

    shapes: dict[str, tuple[int, ...]] = {}

    def look(traced: Mapping[str, Any]) -> None:
        with handlers.seed(rng_seed=0), handlers.trace() as sites:
            by_record(synthesiser.model, traced, count)
        for name, site in sites.items():
            if site["type"] != "sample" or site["is_observed"]:
                continue
            if getattr(site["fn"].support, "is_discrete", False):
                raise ParameterError(
                    f"site {name!r} is a discrete latent variable: sum it out, as numpyro.distributions.Mixture does"
                )
            shapes[name] = tuple(biject_to(site["fn"].support).inverse_shape(site["value"].shape))

    jax.eval_shape(look, {name: np.asarray(value) for name, value in data.items()})
    if not shapes:
        raise ParameterError("the model has no latent variable: there is nothing to learn")
    return shapes
