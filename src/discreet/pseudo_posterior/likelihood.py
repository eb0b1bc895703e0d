"""A NumPyro model seen record by record: its log-likelihoods, the same with weights, and new records from it.

The observed sites of a model are its likelihood; each gives one log-density per record. Nothing here changes a model:
what its sites do is read and redirected by effect handlers. What a record contributes to a posterior is computed by
running the model on that record alone, and the prior by running it without the sensitive columns: so neither can see
anything else, whatever the model does with its data.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.errors import ParameterError
from discreet._core.lazy import dist, handlers, jax, jnp, numpyro

# A model's data, record by record: arrays with one row per record, and arrays that belong to all records together.

SHARED = "shared: "
"""How the names of arrays begin that belong to all records together."""

SURVEY = "survey: weight"
"""The array of survey weights, beside those that a model reads: it multiplies log-likelihoods, and no model sees it."""

Columns = Mapping[str, npt.NDArray[Any]]
"""Columns of a table, one entry per record: numbers, and codes ``0, 1, ..`` of categories."""


def records_of(data: Mapping[str, Any]) -> int:
    """Return the number of records of encoded data, at least one, on which all arrays agree."""
    counts = {len(value) for name, value in data.items() if not name.startswith(SHARED)}
    if len(counts) != 1 or 0 in counts:
        raise ParameterError("every array of the model's data must have one row per record")
    return counts.pop()


def rows(data: Mapping[str, Any], index: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the data of some records, in memory of their own: what belongs to all of them stays."""
    arrays = {name: np.asarray(value) for name, value in data.items()}
    for name, array in arrays.items():
        if not name.startswith(SHARED):
            part = array[index]
            arrays[name] = part if part.base is None else part.copy()  # a view leads to others, through its base
    return arrays


def repeated(row: npt.ArrayLike, count: int) -> npt.NDArray[Any]:
    """Repeat a row."""
    return np.repeat(np.asarray(row), count, axis=0)


def without(data: Mapping[str, Any], sensitive: Collection[str]) -> dict[str, Any]:
    """Return the data with zeros for the sensitive columns, whose shapes and types alone are used."""
    return {name: jnp.zeros_like(value) if name in sensitive else value for name, value in data.items()}


Model = Callable[[Mapping[str, Any]], None]
"""A NumPyro model: a function of a mapping of arrays, one row per record."""

_BLOCK = 64


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Load and run JAX without its remarks on the machine; say how to install it where it is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import numpyro  # noqa: F401
        except ImportError:
            raise ParameterError("this needs NumPyro. Install it: pip install 'discreet[bayes]'") from None
        yield


def is_likelihood(site: Mapping[str, Any]) -> bool:
    """Whether a site is an observed record; factors are a part of the prior."""
    return site["type"] == "sample" and bool(site["is_observed"]) and not isinstance(unwrapped(site["fn"]), dist.Unit)


def unwrapped(fn: Any) -> Any:
    """Return a distribution without masks, expansions and declared event dimensions."""
    while isinstance(fn, (dist.MaskedDistribution, dist.ExpandedDistribution, dist.Independent)):
        fn = fn.base_dist
    return fn


def log_density(site: Mapping[str, Any]) -> Any:
    """Return the log-density of a site as it counts: multiplied by its scale, where it has one."""
    logs = site["fn"].log_prob(site["value"])
    return logs if site["scale"] is None else site["scale"] * logs


def by_record(model: Model, data: Mapping[str, Any], count: int) -> Any:
    """Run a model with its observed sites hidden, and return the sum of their log-densities of each record, in nats."""
    with handlers.block(hide_fn=is_likelihood), handlers.trace() as trace:
        model(data)
    total: Any = 0.0
    sites = [site for site in trace.values() if is_likelihood(site)]
    if not sites:
        raise ParameterError("the model has no observed site. Pass the data as obs=data[...] to numpyro.sample")
    for site in sites:
        if site["scale"] is not None:
            raise ParameterError(
                f"site {site['name']!r} is scaled or subsampled, which no bound would know of. Leave that out, and "
                "name the column of survey weights (survey_weight=...)"
            )
        logs = site["fn"].log_prob(site["value"])
        if logs.shape != (count,):
            raise ParameterError(
                f"site {site['name']!r} gives log-densities of shape {logs.shape}, not one per record ({count},). "
                "Use to_event() for what belongs to one record"
            )
        total = total + logs
    return total


def alone(model: Model, values: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Return the log-density of each record, from the model run on that record alone, times its survey weight; nats."""
    shared = {name: value for name, value in data.items() if name.startswith(SHARED)}
    single = {name: jnp.asarray(value)[:, None] for name, value in data.items() if name not in {*shared, SURVEY}}

    def density(row: Mapping[str, Any]) -> Any:
        with handlers.block(), handlers.seed(rng_seed=0), handlers.substitute(data=values):
            return by_record(model, {**row, **shared}, 1)[0]

    logs = jax.vmap(density)(single)
    if SURVEY not in data:
        return logs
    weights = jnp.asarray(data[SURVEY], dtype=logs.dtype)
    return jnp.where(weights > 0.0, weights * logs, 0.0)  # a record of weight 0 says nothing, whatever its density


def shown(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data that a model may see: all but survey weights."""
    return {name: value for name, value in data.items() if name != SURVEY}


def censored(logs: Any, bound: float) -> Any:
    """Return log-likelihoods clipped to ``[-bound, 0]``; what is not finite says ``-bound``."""
    return jnp.where(jnp.isfinite(logs), jnp.clip(logs, -bound, 0.0), -bound)


def _safely_censored(model: Model, values: Mapping[str, Any], data: Mapping[str, Any], bound: float) -> Any:
    """Return the clipped log-likelihoods of records, with a gradient that is finite wherever they are clipped."""
    # Where a log-density or its derivative is not finite, a product with 0 is NaN. So the values come from every
    # record alone, and the gradient from the same rows but for those that are clipped: an unclipped row stands for
    # them, and what it would add is multiplied by 0.
    logs = jax.lax.stop_gradient(alone(model, jax.lax.stop_gradient(values), data))
    inside = jnp.isfinite(logs) & (logs > -bound) & (logs < 0.0)
    index = jnp.where(inside, jnp.arange(len(logs)), jnp.argmax(inside))
    smooth_data = {name: v if name.startswith(SHARED) else jnp.asarray(v)[index] for name, v in data.items()}
    smooth = alone(model, _with_finite_gradient(values), smooth_data)
    return censored(logs, bound) + jnp.where(inside, smooth - jax.lax.stop_gradient(smooth), 0.0)


def _with_finite_gradient(values: Mapping[str, Any]) -> Any:
    """Return the same values; what is not finite in the gradient that comes back through them becomes 0."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def same(tree: Any) -> Any:
        return tree

    def backward(_: None, gradient: Any) -> tuple[Any]:
        return (jax.tree.map(lambda part: jnp.where(jnp.isfinite(part), part, 0.0), gradient),)

    same.defvjp(lambda tree: (tree, None), backward)
    return same(dict(values))


def weighted(
    model: Model,
    *,
    sensitive: Collection[str],
    bound: float | None = None,
    blank: Mapping[str, Any] | None = None,
) -> Callable[[Mapping[str, Any], Any], None]:
    r"""Return the model whose log-likelihood is :math:`\sum_i\alpha_i\ell_i`, each clipped to ``[-bound, 0]`` if given.

    ``blank``: a public table to take latent sites and factors from, by default the data without the sensitive columns.
    """

    def pseudo(data: Mapping[str, Any], weights: Any) -> None:
        def hidden(site: Mapping[str, Any]) -> bool:
            return is_likelihood(site) or site["type"] == "deterministic"

        with handlers.block(hide_fn=hidden), handlers.trace() as sites:
            model(without(shown(data), sensitive) if blank is None else blank)
        values = {
            name: site["value"] for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]
        }
        logs = alone(model, values, data) if bound is None else _safely_censored(model, values, data, bound)
        numpyro.factor("pseudo_likelihood", jnp.dot(jnp.asarray(weights), logs))

    return pseudo


def seeded_model(model: Callable[..., None]) -> Callable[..., None]:
    """Return a model that can be traced without a generator of its own."""
    seeded: Callable[..., None] = handlers.seed(model, rng_seed=0)
    return seeded


def extremes(
    model: Model, count: int, units: npt.NDArray[np.int64] | None = None
) -> Callable[[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]], Any]:
    """Return a function from draws and data to the extreme log-likelihoods of each record, or unit, in nats."""

    def logs(parameters: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
        logs = alone(model, parameters, data)
        if units is not None:
            logs = jax.ops.segment_sum(logs, units, num_segments=count)
        return jnp.where(jnp.isnan(logs), -jnp.inf, logs)

    @jax.jit  # type: ignore[untyped-decorator]
    def block(draws: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
        by_draw = jax.vmap(logs, in_axes=(0, None))(draws, data)
        return by_draw.min(axis=0), by_draw.max(axis=0)

    def over(draws: Mapping[str, npt.NDArray[Any]], data: Mapping[str, Any]) -> Any:
        minimum, maximum = np.full(count, np.inf), np.full(count, -np.inf)
        total = len(next(iter(draws.values())))
        for start in range(0, total, _BLOCK):
            rows = np.arange(start, start + _BLOCK) % total  # blocks of one length; repeats change no extreme
            low, high = block({name: jnp.asarray(value[rows]) for name, value in draws.items()}, data)
            minimum = np.minimum(minimum, np.asarray(low, dtype=np.float64))
            maximum = np.maximum(maximum, np.asarray(high, dtype=np.float64))
        return minimum, maximum

    return over


def redrawn(model: Model, values: Mapping[str, Any], data: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """Draw new values of every observed site, given values of the latent sites."""
    names: list[str] = []

    class Redraw(numpyro.primitives.Messenger):  # type: ignore[misc]
        def process_message(self, msg: dict[str, Any]) -> None:
            if is_likelihood(msg):
                names.append(msg["name"])
                msg["is_observed"], msg["value"] = False, None

    with handlers.seed(rng_seed=key), handlers.substitute(data=values), handlers.trace() as sites, Redraw():
        model(data)
    return {name: sites[name]["value"] for name in names}
