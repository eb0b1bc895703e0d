"""A NumPyro model seen record by record: its log-likelihoods, the same with weights, and new records from it.

A record's part is a program traced on one abstract record, the prior one without sensitive columns: neither sees more.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.errors import ParameterError
from discreet._core.lazy import dist, handlers, jax, jnp, numpyro
from discreet._core.numeric import Arrays

SHARED = "shared: "
"""How the names of arrays begin that belong to all records together; all others have one row per record."""

SURVEY = "survey: weight"
"""The array of survey weights, beside those that a model reads: it multiplies log-likelihoods, and no model sees it."""

Columns = Mapping[str, npt.NDArray[Any]]
"""Columns of a table, one entry per record: numbers, and codes ``0, 1, ..`` of categories."""

Data = Mapping[str, Any]
"""What a model reads, by name: its encoded data, or values of its latent sites."""

Model = Callable[[Data], None]
"""A NumPyro model: a function of data, one row per record."""


def records_of(data: Data) -> int:
    """Return the number of records of encoded data, at least one, on which all arrays agree."""
    counts = {len(value) for name, value in data.items() if not name.startswith(SHARED)}
    if len(counts) != 1 or 0 in counts:
        raise ParameterError("every array of the model's data must have one row per record")
    return counts.pop()


def rows(data: Data, index: Any) -> Arrays:
    """Return the data of some records, in memory of their own: what belongs to all of them stays."""
    arrays = {name: np.asarray(value) for name, value in data.items()}
    parts = {name: array[index] for name, array in arrays.items() if not name.startswith(SHARED)}
    # A view leads to others, through its base.
    return arrays | {name: np.require(part, requirements="O") for name, part in parts.items()}


def visible(data: Data, hidden: Collection[str] = ()) -> dict[str, Any]:
    """Return what a model may see of its data: no survey weights, and zeros in place of what is hidden."""
    return {name: jnp.zeros_like(value) if name in hidden else value for name, value in data.items() if name != SURVEY}


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


def latent(sites: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a model's latent sites."""
    return {name: site["value"] for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]}


def by_record(model: Model, data: Data, count: int) -> Any:
    """Run a model with its observed sites hidden, and return the sum of their log-densities of each record, in nats."""
    with handlers.block(hide_fn=is_likelihood), handlers.trace() as trace:
        model(data)
    total: Any = 0.0
    sites = list(filter(is_likelihood, trace.values()))
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


def alone(model: Model, values: Data, data: Data) -> Any:
    """Return the log-density of each record, from the model on that record alone, times its survey weight; nats."""

    def density(values: Data, record: Data) -> Any:
        with handlers.block(), handlers.seed(rng_seed=0), handlers.substitute(data=values):
            return by_record(model, record, 1)[0]

    logs = by_row(density, values, visible(data))
    if SURVEY not in data:
        return logs
    weights = jnp.asarray(data[SURVEY], dtype=logs.dtype)
    return jnp.where(weights > 0.0, weights * logs, 0.0)  # a record of weight 0 says nothing, whatever its density


def by_row(function: Callable[[Any, Any], Any], values: Any, data: Data) -> Any:
    """Return what a function of values and of data of one record is for each record: one program for all of them."""
    values, arrays = jax.tree.map(jnp.asarray, (values, dict(data)))
    shared = {name: array for name, array in arrays.items() if name.startswith(SHARED)}
    records = {name: array[:, None] for name, array in arrays.items() if name not in shared}
    record = {name: jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for name, array in records.items()}
    single = program(lambda values, shared, record: function(values, {**shared, **record}), values, shared, record)
    return jax.vmap(partial(single, values, shared))(records)


def program(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """Return the program of a function on arrays of these shapes and types, of which it is shown no value."""
    # It consists of JAX's own operations, each of which takes the rows of a batch one by one.
    from jax.extend.core import jaxpr_as_fun

    try:
        with jax.default_prng_impl("threefry2x32"):  # of others, rows of a batch share random numbers
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*examples)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        raise ParameterError(
            "the model asks for a value of its data or parameters, and is shown none. An if statement, float() and "
            "functions of NumPy ask for one. Write jnp.where or jax.lax.cond in place of if, and jnp in place of np"
        ) from None
    if name := next(_foreign_parts(closed), ""):
        raise ParameterError(
            f"the model has a part that could see several records at once ({name}). Leave out callbacks, custom_vmap, "
            "custom_vjp, primitives of your own, changes of state, and keys that are not threefry2x32"
        )
    evaluate, structure = jaxpr_as_fun(closed), jax.tree.structure(shapes)
    return lambda *arguments: jax.tree.unflatten(structure, evaluate(*jax.tree.leaves(arguments)))


def _foreign_parts(closed: Any) -> Iterator[str]:
    """Yield the names of what a program must not have, so that each row of a batch gives a number of its own."""
    yield from (f"effect {effect}" for effect in closed.effects)
    yield from ("a value of an outer program" for value in closed.consts if isinstance(value, jax.core.Tracer))
    threefry = jax.random.key(0, impl="threefry2x32").dtype
    for equation in _equations(closed.jaxpr):
        if equation.primitive not in _rowwise_primitives():
            yield equation.primitive.name
        for variable in (*equation.invars, *equation.outvars):
            dtype = getattr(variable.aval, "dtype", threefry)
            if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) and dtype != threefry:
                yield str(dtype)


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a program, and of the programs in them."""
    for equation in jaxpr.eqns:
        yield equation
        for part in jax.tree.leaves(dict(equation.params)):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)


@cache
def _rowwise_primitives() -> frozenset[Any]:
    """Return JAX's own primitives, but for those that draw one number for a batch or run code of the user on it."""
    from jax.extend.core import Primitive, primitives

    public = {value for door in (primitives, jax.lax) for value in vars(door).values() if isinstance(value, Primitive)}
    for function in (jnp.diagonal, jnp.linalg.slogdet, lambda _: jax.random.split(jax.random.PRNGKey(0))):
        closed = jax.make_jaxpr(function)(jnp.eye(2))  # JAX does not list all that these are made of
        public.update(equation.primitive for equation in _equations(closed.jaxpr))
    refused = ("custom_vjp", "rng_", "infeed", "outfeed")
    return frozenset(primitive for primitive in public if not primitive.name.startswith(refused))


def censored(logs: Any, bound: float | None) -> Any:
    """Return log-likelihoods clipped to ``[-bound, 0]``, of which those that are not finite say ``-bound``."""
    return logs if bound is None else jnp.where(jnp.isfinite(logs), jnp.clip(logs, -bound, 0.0), -bound)


def _safely_censored(model: Model, values: Data, data: Data, bound: float) -> Any:
    """Return the clipped log-likelihoods of records, with a gradient that is finite wherever they are clipped."""
    # Where a log-density or its derivative is not finite, a product with 0 is NaN. So the values come from every record
    # alone, and the gradient from the same rows but for those that are clipped: an unclipped row stands for them.
    logs = jax.lax.stop_gradient(alone(model, jax.lax.stop_gradient(values), data))
    inside = jnp.isfinite(logs) & (logs > -bound) & (logs < 0.0)
    index = jnp.where(inside, jnp.arange(len(logs)), jnp.argmax(inside))
    smooth_data = {name: v if name.startswith(SHARED) else jnp.asarray(v)[index] for name, v in data.items()}
    smooth = alone(model, _with_finite_gradient(values), smooth_data)
    return censored(logs, bound) + jnp.where(inside, smooth - jax.lax.stop_gradient(smooth), 0.0)


def _with_finite_gradient(values: Data) -> Any:
    """Return the same values; what is not finite in the gradient that comes back through them becomes 0."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def same(tree: Any) -> Any:
        return tree

    def backward(_: None, gradient: Any) -> tuple[Any]:
        return (jax.tree.map(lambda part: jnp.where(jnp.isfinite(part), part, 0.0), gradient),)

    same.defvjp(lambda tree: (tree, None), backward)
    return same(dict(values))


def weighted(
    model: Model, *, sensitive: Collection[str], bound: float | None = None, blank: Data | None = None
) -> Callable[[Data, Any], None]:
    r"""Return the model with log-likelihood :math:`\sum_i\alpha_i\ell_i`, clipped to ``[-bound, 0]`` if bounded."""
    # Latent sites and factors are those of a blank, public table, by default of the data with zeros as sensitive.

    def pseudo(data: Data, weights: Any) -> None:
        def hidden(site: Mapping[str, Any]) -> bool:
            return is_likelihood(site) or site["type"] == "deterministic"

        with handlers.block(hide_fn=hidden), handlers.trace() as sites:
            model(visible(data, sensitive) if blank is None else blank)
        likelihood = alone if bound is None else partial(_safely_censored, bound=bound)
        numpyro.factor("pseudo_likelihood", jnp.dot(jnp.asarray(weights), likelihood(model, latent(sites), data)))

    return pseudo


def redrawn(model: Model, values: Data, data: Data, key: Any) -> dict[str, Any]:
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
