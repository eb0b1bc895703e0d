"""A Markov chain for mixtures of regressions; its moves 1 to 4: docs/theory/mixture-chain.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from discreet._core.lazy import jax, jnp
from discreet.pseudo_posterior.likelihood import SURVEY, Data, censored
from discreet.pseudo_posterior.regressions import Response
from discreet.pseudo_posterior.synthesiser import BLOCK, Chain

_STEPS = 16
_DIVERGENT = 1000.0  # nats of energy, as in NumPyro

_SWEEPS, _WARM_UP_SWEEPS = 7, 3
_POWERS = (1.0, 0.92, 0.85)  # of the likelihood: the first is the target
_ACCEPT, _FIRST_STEP = 0.8, 0.1
_BLUR = 0.5  # standard deviation of log h around its value at the current state
_REFRESHED, _NEARLY_EMPTY = 4, 5.0
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
_FAR = 1e15  # scales


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
    return jnp.where(jax.random.uniform(accept_key, dtype=q.dtype) < chance, end_q, q), chance, rise > _DIVERGENT


def metropolis(key: Any, value: Any, density: Callable[[Any], Any]) -> Any:
    """Make four random-walk steps of scale one from a number."""
    moves_key, accept_key = jax.random.split(key)
    moves = jax.random.normal(moves_key, (4,), dtype=value.dtype)
    log_uniforms = jnp.log(jax.random.uniform(accept_key, (4,), dtype=value.dtype))

    def step(state: Any, draws: Any) -> tuple[Any, None]:
        (value, log), (move, log_uniform) = state, draws
        new_log = density(value + move)
        accepted = log_uniform < new_log - log
        return (jnp.where(accepted, value + move, value), jnp.where(accepted, new_log, log)), None

    return jax.lax.scan(step, (value, density(value)), (moves, log_uniforms))[0][0]


def redrawn_covariance(key: Any, covariance: Any, coefficients: Any) -> Any:
    r"""Draw each row of the covariance of K coefficient vectors, (K, R), given the other rows."""
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
    r"""Dirichlet shares, whose logarithms up to a common number are the state; moves are made around a ``knee``."""

    clusters: int
    knee: float

    def log(self, state: Any) -> Any:
        return jax.nn.log_softmax(state)

    def inward(self, state: Any, concentration: Any) -> Any:
        h, x = 0.5 * self.clusters / concentration, state - self.knee
        return ((1.0 + h) * x + h * jnp.sqrt(x * x + 1.0 + 2.0 * h)) / (1.0 + 2.0 * h)

    def outward(self, inside: Any, concentration: Any) -> Any:
        return self.knee + inside - 0.5 * self.clusters / concentration * jnp.exp(-jnp.arcsinh(inside))

    def _slope(self, inside: Any, concentration: Any) -> Any:
        slope = jnp.exp(-jnp.arcsinh(inside)) / jnp.sqrt(1.0 + inside * inside)
        return 1.0 + 0.5 * self.clusters / concentration * slope

    def log_prior(self, inside: Any, concentration: Any) -> Any:
        """Return the log-density of the coordinates, up to what depends on the concentration alone."""
        x = self.outward(inside, concentration)
        log_shares = concentration / self.clusters * self.log(x).sum()
        return log_shares + jnp.log(self._slope(inside, concentration)).sum() - 0.5 * jax.nn.logsumexp(x) ** 2

    def precision(self, inside: Any, concentration: Any, total: Any) -> Any:
        """Return about how precisely the coordinates are known from ``total`` records."""
        records = total * jnp.exp(self.log(self.outward(inside, concentration)))
        return 1.0 + records * self._slope(inside, concentration) ** 2

    def concentration(self, key: Any, state: Any, concentration: Any) -> Any:
        total = self.log(state.astype(concentration.dtype)).sum()

        def density(log: Any) -> Any:
            mass, shape = jnp.exp(log), jnp.exp(log) / self.clusters
            return log - mass + jax.lax.lgamma(mass) + shape * total - self.clusters * jax.lax.lgamma(shape)

        return jnp.exp(metropolis(key, jnp.log(concentration), density))

    def begin(self, values: Data) -> Any:
        return jnp.log(jnp.maximum(values["shares"], 1e-30))

    def values(self, state: Any) -> dict[str, Any]:
        return {"shares": jnp.exp(self.log(state))}


@dataclass(frozen=True, slots=True)
class StickShares:
    """Shares from the sticks of a truncated Dirichlet process, whose logits are the state."""

    clusters: int

    def log(self, state: Any) -> Any:
        zero = jnp.zeros(1, dtype=state.dtype)
        breaks, remainders = jax.nn.log_sigmoid(state), jnp.cumsum(jax.nn.log_sigmoid(-state))
        return jnp.concatenate((breaks, zero)) + jnp.concatenate((zero, remainders))

    def inward(self, state: Any, concentration: Any) -> Any:
        return state

    def outward(self, inside: Any, concentration: Any) -> Any:
        return inside

    def log_prior(self, inside: Any, concentration: Any) -> Any:
        """Return the log-density of the logits, up to what depends on the concentration alone."""
        return (jax.nn.log_sigmoid(inside) + concentration * jax.nn.log_sigmoid(-inside)).sum()

    def precision(self, inside: Any, concentration: Any, total: Any) -> Any:
        """Return about how precisely the logits are known from ``total`` records."""
        log = self.log(inside)
        remainders = jnp.cumsum(jnp.exp(log)[::-1])[::-1][:-1]  # of the whole stick, before each break
        return 0.1 + (total * remainders + 1.0 + concentration) * jax.nn.sigmoid(inside) * jax.nn.sigmoid(-inside)

    def concentration(self, key: Any, state: Any, concentration: Any) -> Any:
        """Draw the concentration given the sticks: Gamma(K, 1 - sum of log(1 - v))."""
        rate = 1.0 - jax.nn.log_sigmoid(-state.astype(concentration.dtype)).sum()
        return gamma(key, 2 * self.clusters, concentration.dtype) / rate

    def begin(self, values: Data) -> Any:
        sticks = jnp.clip(values["sticks"], 1e-6, 1.0 - 1e-6)
        return jnp.log(sticks) - jnp.log1p(-sticks)

    def values(self, state: Any) -> dict[str, Any]:
        return {"sticks": jax.nn.sigmoid(state)}


class _State(NamedTuple):
    """Where a chain is: shares in coordinates of their own, coefficients where the design is orthonormal."""

    concentration: Any
    covariance: Any
    coefficients: Any
    log_excess: Any
    shares: Any


class _Facts(NamedTuple):
    """What does not move: design (n, R), response and weights (n,), map to orthonormal coordinates, survey weights."""

    design: Any
    response: Any
    weights: Any
    map: Any
    survey: Any = 1.0


@dataclass(frozen=True, slots=True)
class _Mixture:
    """The target's parts, moves 1 to 3, and a sweep of them."""

    shares: DirichletShares | StickShares
    least_scale: float
    bound: float | None

    def logs(self, facts: _Facts, log_shares: Any, log_excess: Any, coefficients: Any) -> Any:
        """Return the log-densities of records in clusters with their shares, (K, n)."""
        scales = self.least_scale + jnp.exp(log_excess)
        gaps = (facts.response - coefficients @ facts.design.T) / scales[:, None]
        if self.bound is not None:  # so far away it is clipped anyway, and the square stays finite
            gaps = jnp.clip(gaps, -_FAR, _FAR)
        return (log_shares - jnp.log(scales) - HALF_LOG_TAU)[:, None] - 0.5 * gaps**2

    def log_likelihood(self, facts: _Facts, logs: Any) -> Any:
        """Return the weighted log-likelihood, clipped where a bound is given."""
        highest = jax.lax.stop_gradient(logs.max(axis=0))
        by_record = highest + jnp.log(jnp.exp(logs - highest).sum(axis=0))
        if self.bound is not None:
            by_record = censored(facts.survey * by_record, self.bound)
        return jnp.dot(facts.weights, by_record)

    def log_precisions(self, inside: Any, log_excess: Any, concentration: Any, total: Any) -> tuple[Any, Any, Any]:
        """Return about how precisely coefficients, log-excesses and shares are known, as logarithms."""
        records = total * jnp.exp(self.shares.log(self.shares.outward(inside, concentration)))
        excess = jnp.exp(log_excess)
        scales = self.least_scale + excess
        of_coefficients, of_excess = 0.1 + records / scales**2, 1.0 + 2.0 * records * (excess / scales) ** 2
        of_shares = self.shares.precision(inside, concentration, total)
        return jnp.log(of_coefficients), jnp.log(of_excess), jnp.log(of_shares)

    def move_clusters(self, key: Any, state: _State, facts: _Facts, step: Any) -> tuple[_State, Any, Any]:
        """Move coefficients, scales and shares (1.); return the state, the acceptance and whether it diverged."""
        metric_key, move_key = jax.random.split(key)
        total, concentration = facts.weights.sum(), state.concentration.astype(facts.design.dtype)
        root = _covariance_root(state, facts)
        inside = self.shares.inward(state.shares, concentration)
        centres = self.log_precisions(inside, state.log_excess, concentration, total)
        clusters = len(state.log_excess)
        noise = _BLUR * jax.random.normal(metric_key, (2 * clusters + len(inside),), dtype=root.dtype)
        parts = jnp.split(noise, (clusters, 2 * clusters))
        log_metric = [centre + part for centre, part in zip(centres, parts, strict=True)]
        of_coefficients, of_excess, of_shares = (jnp.exp(part) for part in log_metric)
        eye = jnp.broadcast_to(jnp.eye(len(root), dtype=root.dtype), (len(of_excess), *root.shape))
        metric = jnp.linalg.cholesky(eye + of_coefficients[:, None, None] * (root.T @ root))
        inverse = solved(metric, eye)  # standardised coefficients are its transpose times white ones
        to_coefficients = jnp.einsum("ri,kji->krj", root, inverse)

        def unpacked(q: Any) -> tuple[Any, Any, Any]:
            white, excess, share = jnp.split(q, (of_excess.size * len(root), of_excess.size * (len(root) + 1)))
            return white.reshape(eye.shape[:2]), excess / jnp.sqrt(of_excess), share / jnp.sqrt(of_shares)

        def energy(q: Any) -> Any:
            white, excess, share = unpacked(q)
            standard = jnp.einsum("kji,kj->ki", inverse, white)
            coefficients = jnp.einsum("krj,kj->kr", to_coefficients, white)
            log_shares = self.shares.log(self.shares.outward(share, concentration))
            total_log = self.log_likelihood(facts, self.logs(facts, log_shares, excess, coefficients))
            total_log += self.shares.log_prior(share, concentration) - 0.5 * (standard**2).sum()
            total_log += (excess - 2.0 * jnp.log1p(jnp.exp(2.0 * excess) / 3.0)).sum()
            for part, centre in zip(log_metric, self.log_precisions(share, excess, concentration, total), strict=True):
                total_log -= 0.5 * (((part - centre) / _BLUR) ** 2).sum()
            return -total_log

        standard = solved(root, state.coefficients.T).T
        white = jnp.einsum("kij,ki->kj", metric, standard)
        q = jnp.concatenate((white.ravel(), state.log_excess * jnp.sqrt(of_excess), inside * jnp.sqrt(of_shares)))
        q, accepted, diverged = hamiltonian(move_key, q, energy, step)
        white, excess, share = unpacked(q)
        coefficients = jnp.einsum("krj,kj->kr", to_coefficients, white)
        shares = self.shares.outward(share, concentration)
        return state._replace(coefficients=coefficients, log_excess=excess, shares=shares), accepted, diverged

    def refresh(self, key: Any, state: _State, facts: _Facts) -> _State:
        """Propose coefficients and scales of clusters from their prior (3.); small clusters more often."""
        root, log_shares = _covariance_root(state, facts), self.shares.log(state.shares)
        chances = -jnp.log1p(facts.weights.sum() * jnp.exp(log_shares) / _NEARLY_EMPTY)

        def propose(carry: Any, key: Any) -> tuple[Any, None]:
            coefficients, excess, logs, total = carry
            cluster_key, normals_key, accept_key = jax.random.split(key, 3)
            k = jax.random.categorical(cluster_key, chances)
            normals = jax.random.normal(normals_key, (len(root) + 4,), dtype=root.dtype)
            new, t = root @ normals[4:], jnp.abs(normals[0]) * jnp.sqrt(3.0 / (normals[1:4] ** 2).sum())
            new_logs = logs.at[k].set(self.logs(facts, log_shares[k][None], jnp.log(t)[None], new[None])[0])
            likelihood = self.log_likelihood(facts, new_logs)
            accepted = jnp.log(jax.random.uniform(accept_key, dtype=root.dtype)) < likelihood - total
            proposal = (coefficients.at[k].set(new), excess.at[k].set(jnp.log(t)), new_logs, likelihood)
            return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), proposal, carry), None

        logs = self.logs(facts, log_shares, state.log_excess, state.coefficients)
        carry = (state.coefficients, state.log_excess, logs, self.log_likelihood(facts, logs))
        (coefficients, excess, _, _), _ = jax.lax.scan(propose, carry, jax.random.split(key, _REFRESHED))
        return state._replace(coefficients=coefficients, log_excess=excess)

    def sweep(self, key: Any, state: _State, facts: _Facts, step: Any) -> tuple[_State, Any, Any, Any]:
        """Make moves 1 to 3; return the state, its log-likelihood, the acceptance and whether it diverged."""
        clusters_key, prior_key, refresh_key = jax.random.split(key, 3)
        state, accepted, diverged = self.move_clusters(clusters_key, state, facts, step)
        concentration_key, covariance_key = jax.random.split(prior_key)
        plain = solved(facts.map, state.coefficients.T.astype(facts.map.dtype)).T
        concentration = self.shares.concentration(concentration_key, state.shares, state.concentration)  # move 2
        covariance = redrawn_covariance(covariance_key, state.covariance, plain)
        state = self.refresh(refresh_key, state._replace(concentration=concentration, covariance=covariance), facts)
        logs = self.logs(facts, self.shares.log(state.shares), state.log_excess, state.coefficients)
        return state, self.log_likelihood(facts, logs), accepted, diverged


def mixture_chain(
    shares: DirichletShares | StickShares, response: Response, *, map_name: str, warm_up: int, bound: float | None
) -> Chain:
    """Return the chain, of which a draw, after several sweeps, is divergent where most of its trajectories are."""
    target = _Mixture(shares, float(response.least_scale), bound)

    def begin(key: Any, values: Any, _: Any) -> Any:
        assert values is not None  # a synthesiser with a chain of its own says where to start it
        root = values["coefficient_spreads"].astype(jnp.float64)[:, None] * values["correlations"].astype(jnp.float64)
        state = _State(
            concentration=values["concentration"].astype(jnp.float64),
            covariance=root @ root.T,
            coefficients=values["coefficients"].astype(jnp.float32),
            log_excess=jnp.log(jnp.maximum(values["excess_scales"], 1e-6)).astype(jnp.float32),
            shares=shares.begin(values).astype(jnp.float32),
        )
        states = jax.tree.map(lambda part: jnp.stack([part] * len(_POWERS)), state)
        return key, states, jnp.full(len(_POWERS), math.log(_FIRST_STEP), jnp.float32), jnp.int32(0)

    def advance(carry: Any, data_and_weights: Any) -> Any:
        data, weights = data_and_weights
        single = partial(jnp.asarray, dtype=jnp.float32)
        columns = single(data["design"]), single(data[response.column]), single(weights)
        facts = _Facts(*columns, jnp.asarray(data[map_name], jnp.float64), survey=single(data.get(SURVEY, 1.0)))
        if bound is not None:
            facts = _without_missing(facts)
        powers = jnp.asarray(_POWERS, jnp.float32)

        def moved(chain: Any) -> Any:
            key, state, power, log_step = chain
            return target.sweep(key, state, facts._replace(weights=power * facts.weights), jnp.exp(log_step))

        def draw(carry: Any, _: None) -> Any:
            key, states, log_steps, index = carry
            warming = index < warm_up
            sweeps = jnp.where(warming, _WARM_UP_SWEEPS, _SWEEPS)
            gain = jnp.where(warming, jnp.maximum(jax.lax.rsqrt(1.0 + _WARM_UP_SWEEPS * index), 0.02), 0.0)
            gain, draw_key = gain.astype(jnp.float32), jax.random.fold_in(key, index)

            def sweep(i: Any, carry: Any) -> Any:
                states, log_steps, divergent = carry
                *moves, swap = jax.random.split(jax.random.fold_in(draw_key, i), len(_POWERS) + 1)
                chains = jnp.stack(moves), states, powers, log_steps
                states, logs, accepted, diverged = jax.lax.map(moved, chains)
                order = _exchanged(swap, logs / powers, powers)
                states = jax.tree.map(lambda part: part[order], states)
                return states, log_steps + gain * (accepted - _ACCEPT), divergent + diverged[0]

            states, log_steps, divergent = jax.lax.fori_loop(0, sweeps, sweep, (states, log_steps, jnp.int32(0)))
            target_state = jax.tree.map(lambda part: part[0], states)
            return (key, states, log_steps, index + 1), (_sites(shares, target_state), 2 * divergent > sweeps)

        return jax.lax.scan(draw, carry, None, length=BLOCK)

    return Chain(begin=begin, advance=advance, double=True)


def _without_missing(facts: _Facts) -> _Facts:
    """Return facts in which a record that is not finite counts for nothing: clipped, it says -M to all parameters."""
    finite = jnp.isfinite(facts.response) & jnp.isfinite(facts.design).all(axis=1)
    return facts._replace(
        design=jnp.where(finite[:, None], facts.design, 0.0),
        response=jnp.where(finite, facts.response, 0.0),
        weights=jnp.where(finite, facts.weights, 0.0),
    )


def _exchanged(key: Any, logs: Any, powers: Any) -> Any:
    """Return the order of states after neighbouring powers were offered each other's, from the hottest to the first."""
    draws = jnp.log(jax.random.uniform(key, (len(_POWERS) - 1,), dtype=logs.dtype))
    order = jnp.arange(len(_POWERS))
    for i in reversed(range(len(_POWERS) - 1)):
        accepted = draws[i] < (powers[i] - powers[i + 1]) * (logs[order[i + 1]] - logs[order[i]])
        order = jnp.where(accepted, order.at[i].set(order[i + 1]).at[i + 1].set(order[i]), order)
    return order


def _sites(shares: DirichletShares | StickShares, state: _State) -> dict[str, Any]:
    spreads = jnp.sqrt(jnp.diag(state.covariance))
    values = {
        "concentration": state.concentration,
        "coefficient_spreads": spreads,
        "correlations": jnp.linalg.cholesky(state.covariance) / spreads[:, None],
        "coefficients": state.coefficients,
        "excess_scales": jnp.exp(state.log_excess),
        **shares.values(state.shares),
    }
    return {name: value.astype(jnp.float32) for name, value in values.items()}


def _covariance_root(state: _State, facts: _Facts) -> Any:
    """Return a lower triangular root of the covariance of coefficients in orthonormal coordinates."""
    return (facts.map @ jnp.linalg.cholesky(state.covariance)).astype(facts.design.dtype)
