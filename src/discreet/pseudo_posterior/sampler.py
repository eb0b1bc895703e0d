"""Draws from a weighted posterior, and whether to rely on them."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, Refused, integer, real
from discreet._core.lazy import handlers, jax, jnp
from discreet._core.numeric import Arrays, Booleans, Floats
from discreet.inference import effective_sample_size, r_hat
from discreet.pseudo_posterior.likelihood import SURVEY, alone, censored, quiet, records_of, rows, visible, weighted
from discreet.pseudo_posterior.synthesiser import Chain, Synthesiser, check_model, latent_sites, nuts, typical_values

Progress = Callable[[int, int], None]
_Draws = tuple[Arrays, Booleans]
_BLOCK = 64


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """When Markov chains are relied on.

    The defaults ask for what synthetic tables need: draws worth a hundred independent ones in four chains that agree.
    :class:`PseudoPosterior`, whose bound is a maximum over draws, asks for 100 per chain.

    Parameters
    ----------
    r_hat : float
        The largest R-hat of what is watched: what the synthesiser monitors, or else its latent sites and the log
        pseudo-likelihood.
    effective : float
        The least effective sample size, a chain.
    divergent : float
        The largest share of divergent transitions; of divergent draws for a mixture, whose draws are many transitions.
    doublings : int
        How many times chains beyond the limits go on to twice their length, before they are refused. Of a chain that
        is twice as long every second draw is kept: their number stays. They do not go on where divergent transitions
        are already too many for the longest chain.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), section 4.
    """

    r_hat: float = 1.05
    effective: float = 25.0
    divergent: float = 0.0
    doublings: int = 3

    def __post_init__(self) -> None:
        for name in ("r_hat", "effective", "divergent"):
            value = getattr(self, name)
            if value != -math.inf:  # of the effective draws: no limit
                object.__setattr__(self, name, real(f"convergence: {name}", value, infinite=True))
        object.__setattr__(self, "doublings", integer("convergence: doublings", self.doublings, least=0, most=20))


AS_LONG_AS_ASKED = Convergence(doublings=0)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PosteriorDraws:
    """Draws from a weighted posterior. Confidential: a draw is covered by the guarantee, the diagnostics are not.

    ``values``, each of shape (chains * draws, ...): of the latent sites, chain after chain.
    ``watched``, each of shape (chains, draws): what convergence is judged by.
    ``divergent``: share of divergent transitions.
    ``exact``: whether the draws are independent and from the exact posterior.
    """

    values: Arrays = field(repr=False)
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

    def one(self, index: int) -> Arrays:
        """Return one draw of all latent sites."""
        return {name: value[index] for name, value in self.values.items()}

    def beyond(self, convergence: Convergence) -> list[str]:
        """Return the names of the limits that the chains do not keep; none where draws are exact."""
        if self.exact:
            return []
        chains = next(iter(self.watched.values())).shape[0]
        limits = {
            "R-hat": self.r_hat <= convergence.r_hat,
            "the effective sample size": self.effective >= convergence.effective * chains,
            "the share of divergent transitions": self.divergent <= convergence.divergent,
        }
        return [name for name, is_kept in limits.items() if not is_kept]

    def require(self, convergence: Convergence) -> None:
        """Raise Refused where chains did not converge: it names the limit and no number, as these are of the data."""
        if failed := self.beyond(convergence):
            raise Refused(
                f"the chains did not converge ({', '.join(failed)}): nothing was released. Take more warm-up and "
                "draws, another model, a larger bound in the censored form, or limits of your own "
                "(convergence=Convergence(...))"
            )


@sealed
@dataclass(eq=False, repr=False)
class Sampler:
    r"""Draws from :math:`\xi^\alpha(\theta\mid x)\propto\prod_ip(x_i\mid\theta)^{\alpha_iv_i}\,\xi(\theta)`.

    One object serves all weights of one table, so that the model is checked and compiled once. Confidential: it holds
    the table. Raises ParameterError when NumPyro is missing, there are too few chains or draws, or the model does more
    with the table than to give each record a log-density: see :func:`check_model`.

    ``synthesiser``, ``data``: the model, public, and its encoded data, confidential. ``draws``, ``warm_up``: draws kept
    and spent on adaptation per chain, of at least 2 ``chains``. ``bound``: each record's log-likelihood, its survey
    weight included, is clipped to ``[-bound, 0]``: the censored form. ``chain_method``: as in ``numpyro.infer.MCMC``.
    ``progress``: called with how many draws each chain of a fit has made, and how many it is to make. ``blanks``: where
    the number of records is confidential, public tables of one record, of two, and of other numbers. The prior is that
    of the first. ``survey``, shape (n,): confidential survey weights v, at least 0; 1 by default. ``units``, shape
    (n,): confidential, the number of each record's unit, from 0 on. Weights and extremes are then of units.
    """

    synthesiser: Synthesiser
    data: dict[str, Any]
    _: KW_ONLY
    draws: int = 1000
    warm_up: int = 1000
    chains: int = 4
    bound: float | None = None
    chain_method: str = "sequential"
    progress: Progress | None = None
    blanks: Sequence[Mapping[str, Any]] = ()
    survey: Floats | None = None
    units: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        integer("draws", self.draws, least=10)
        integer("chains", self.chains, least=2, remedy="One chain cannot disagree with itself.")
        integer("warm_up", self.warm_up, least=0)
        self.count = records_of(self.data) if self.units is None else int(self.units.max()) + 1
        self._surveyed = self.data if self.survey is None else {**self.data, SURVEY: self.survey}
        with quiet():
            self._shapes = latent_sites(self.synthesiser, self.data, blanks=self.blanks)
            tried = typical_values(self.synthesiser, self.blanks[0] if self.blanks else self.data, self._shapes)
            check_model(self.synthesiser, self.data, tried, blanks=self.blanks)

    def draw(
        self,
        weights: Floats,
        *,
        rng: np.random.Generator,
        start: PosteriorDraws | None = None,
        until: Convergence = AS_LONG_AS_ASKED,
    ) -> PosteriorDraws:
        """Draw from the posterior with these weights in [0, 1], of records or of units. Confidential.

        ``start``: draws of another posterior, to start from; the synthesiser's own starts by default.
        ``until``: the chains go on while they are beyond these limits, for as many doublings as they allow, none by
        default. They may still be beyond them in the end.
        """
        if self.units is not None:
            weights = weights[self.units]
        if self.bound is None:
            weights = weights * self._surveyed.get(SURVEY, 1.0)
            values = self.synthesiser.conjugate(self.data, weights, draws=self.chains * self.draws, rng=rng)
            if values is not None:
                return PosteriorDraws(values=dict(values), watched={}, divergent=0.0, exact=True)
        # A record of weight 0 is replaced by another one: what does not count need not have a finite likelihood.
        index = np.where(weights > 0, np.arange(len(weights)), int(np.argmax(weights)))
        # Without a bound, weights are already times those of the survey.
        data = rows(self.data if self.bound is None else self._surveyed, index)
        with quiet():
            facts = {name: jnp.asarray(value) for name, value in data.items()}, jnp.asarray(weights, dtype=jnp.float32)
            return self._by_chains(facts, rng=rng, start=start, until=until)

    def extremes(self, draws: PosteriorDraws, weights: npt.ArrayLike = 1.0) -> tuple[Floats, Floats, Floats]:
        """Return the least and the largest log-likelihood of each record or unit over draws, nats. Confidential.

        Survey weights are included: what a record says is its log-density times its weight. With the ``weights``, of
        records or of units, the third is the largest weighted size of each draw, over all records.
        """
        minimum, maximum = np.full(self.count, np.inf), np.full(self.count, -np.inf)
        factors, sizes = jnp.asarray(np.broadcast_to(weights, self.count), dtype=jnp.float32), []
        with quiet():
            for start in range(0, len(draws), _BLOCK):
                index = np.arange(start, start + _BLOCK) % len(draws)  # blocks of one length; repeats change no extreme
                block = {name: jnp.asarray(value[index]) for name, value in draws.values.items()}
                low, high, by_draw = self._block_extremes(block, self._surveyed, factors)
                minimum = np.minimum(minimum, np.asarray(low, dtype=np.float64))
                maximum = np.maximum(maximum, np.asarray(high, dtype=np.float64))
                sizes.append(np.asarray(by_draw, dtype=np.float64))
        return minimum, maximum, np.concatenate(sizes)[: len(draws)]

    def _by_chains(
        self, facts: tuple[Any, Any], *, rng: np.random.Generator, start: PosteriorDraws | None, until: Convergence
    ) -> PosteriorDraws:
        if start is None:
            starts = [self.synthesiser.start(self.data, chain=i) for i in range(self.chains)]
        else:  # from the middle of each of its chains
            length = len(start) // self.chains
            starts = [start.one(chain * length + length // 2) for chain in range(self.chains)]
        keys = rng.integers(0, 2**32, size=(self.chains, 2), dtype=np.uint32)
        with _precision(self._chain):
            points = [jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), start) for start in starts]
            begun = [self._chain.begin(jnp.asarray(k), x, facts) for k, x in zip(keys, points, strict=True)]
            state = jax.tree.map(lambda *parts: jnp.stack(parts), *begun)
        planned = self.warm_up + self.draws
        stream = self._stream(state, facts, lambda: planned)
        if self.warm_up:
            _taken(stream, 1, every=self.warm_up)
        values, diverging = _taken(stream, self.draws)
        draws = self._posterior_draws(values, diverging, facts)
        hopeless = until.divergent * diverging.size * 2**until.doublings
        for doubling in range(until.doublings):
            if not draws.beyond(until) or diverging.sum() > hopeless:
                break
            count, every = self.draws - self.draws // 2, 2 ** (doubling + 1)
            planned += count * every
            half = {name: value[:, 1::2] for name, value in values.items()}
            parts = (half, diverging), _taken(stream, count, every=every)
            values, diverging = jax.tree.map(lambda *arrays: np.concatenate(arrays, axis=1), *parts)
            draws = self._posterior_draws(values, diverging, facts)
        return draws

    def _stream(self, state: Any, facts: tuple[Any, Any], planned: Callable[[], int]) -> Iterator[_Draws]:
        """Yield the next draw of all chains: one after the other, side by side in one vector, or on several devices."""
        for block in itertools.count(1):
            with _precision(self._chain):
                if self.chain_method == "vectorized":
                    advanced = self._advance(state, facts)
                else:
                    states = [(jax.tree.map(lambda part, i=i: part[i], state), facts) for i in range(self.chains)]
                    if self.chain_method == "parallel":  # devices work at the same time: each call returns at once
                        devices = jax.local_devices()
                        states = [jax.device_put(state, devices[i % len(devices)]) for i, state in enumerate(states)]
                    parts = [self._advance(*state) for state in states]
                    advanced = jax.tree.map(lambda *values: np.stack(values), *parts)
                state, (values, diverging) = jax.tree.map(np.asarray, advanced)
            if self.progress is not None:
                self.progress(min(block * diverging.shape[1], planned()), planned())
            for i in range(diverging.shape[1]):
                yield {name: value[:, i] for name, value in values.items()}, diverging[:, i]

    def _posterior_draws(self, values: Arrays, diverging: Booleans, facts: tuple[Any, Any]) -> PosteriorDraws:
        """Return draws by chain as one array per latent site, and by chain what convergence is judged by."""
        sites = values | self._monitor(values, facts)
        watched = {}
        for name in self.synthesiser.monitored or ("log_pseudo_likelihood", *self._shapes):
            if name not in sites:
                raise ParameterError(f"the model has no site {name!r}, by which convergence is to be judged")
            flat = np.asarray(sites[name], dtype=np.float64).reshape(self.chains, self.draws, -1)
            watched.update({f"{name}[{i}]": flat[:, :, i] for i in range(flat.shape[2])})
        joined = {name: values[name].reshape(-1, *values[name].shape[2:]) for name in self._shapes}
        return PosteriorDraws(values=joined, watched=watched, divergent=float(diverging.mean()), exact=False)

    @cached_property
    def _chain(self) -> Chain:
        """The synthesiser's own chain, or NUTS."""
        synthesiser, warm_up, bound = self.synthesiser, self.warm_up, self.bound
        chain = synthesiser.chain(self.data, warm_up=warm_up, bound=bound)
        if chain is None:
            blank = next(iter(self.blanks), None)
            target = weighted(synthesiser.model, sensitive=synthesiser.sensitive, bound=bound, blank=blank)
            chain = nuts(target, self._shapes, warm_up=warm_up, depth=synthesiser.tree_depth)
        return chain

    @cached_property
    def _advance(self) -> Any:
        advance = self._chain.advance
        if self.chain_method == "vectorized":  # all chains in one vector
            advance = jax.vmap(advance, in_axes=(0, None))
        return jax.jit(advance)

    @cached_property
    def _monitor(self) -> Any:
        """A function from draws by chain, and data, to deterministic sites and the log pseudo-likelihood."""
        model = self.synthesiser.model

        def monitored(values: Any, facts: Any) -> dict[str, Any]:
            data, weights = facts
            with handlers.trace() as sites, handlers.substitute(data=values), handlers.seed(rng_seed=0):
                model(visible(data))
            logs = censored(alone(model, values, data), self.bound)
            deterministic = {name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}
            return deterministic | {"log_pseudo_likelihood": jnp.dot(weights, logs)}

        return jax.jit(lambda values, facts: jax.lax.map(partial(jax.lax.map, partial(monitored, facts=facts)), values))

    @cached_property
    def _block_extremes(self) -> Any:
        """A function to the extreme log-likelihoods of each record, or unit, and the largest weighted size by draw."""

        def logs(values: Any, data: Any) -> Any:
            logs = alone(self.synthesiser.model, values, data)
            if self.units is not None:
                logs = jax.ops.segment_sum(logs, self.units, num_segments=self.count)
            return jnp.where(jnp.isnan(logs), -jnp.inf, logs)

        def over_draws(draws: Any, data: Any, factors: Any) -> Any:
            by_draw = jax.vmap(logs, in_axes=(0, None))(draws, data)
            sizes = jnp.where(factors > 0, factors * jnp.abs(by_draw), 0.0).max(axis=1)
            return by_draw.min(axis=0), by_draw.max(axis=0), sizes

        return jax.jit(over_draws)


def _taken(stream: Iterator[_Draws], count: int, *, every: int = 1) -> _Draws:
    """Return draws by chain, each the last of so many, and which of all of them are divergent."""
    values, diverging = zip(*itertools.islice(stream, count * every), strict=True)
    kept = jax.tree.map(lambda *draws: np.stack(draws, axis=1), *values[every - 1 :: every])
    return kept, np.stack(diverging, axis=1)


def _precision(chain: Chain) -> contextlib.AbstractContextManager[Any]:
    return jax.enable_x64(True) if chain.double else contextlib.nullcontext()
