"""A NumPyro model seen record by record: its log-likelihoods, the same with weights, and new records from it.

The observed sites of a model are its likelihood; each gives one log-density a record. Nothing here changes a model:
what its sites do is read and redirected by effect handlers.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import ParameterError

__all__ = ["Model", "by_record", "extremes", "quiet", "redrawn", "seeded_model", "weighted"]

Model = Callable[[Mapping[str, Any]], None]
"""A NumPyro model: a function of a mapping of arrays, one row a record."""

_BLOCK = 64


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Load and run JAX without its remarks on the machine; say how to install it where it is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import numpyro  # noqa: F401
        except ImportError:
            raise ParameterError("this needs NumPyro: pip install 'discreet[bayes]'") from None
        yield


def _is_likelihood(site: Mapping[str, Any]) -> bool:
    """Whether a site is an observed record; factors are a part of the prior."""
    import numpyro.distributions as dist

    return site["type"] == "sample" and bool(site["is_observed"]) and not isinstance(_unmasked(site["fn"]), dist.Unit)


def _unmasked(fn: Any) -> Any:
    import numpyro.distributions as dist

    while isinstance(fn, (dist.MaskedDistribution, dist.ExpandedDistribution, dist.Independent)):
        fn = fn.base_dist
    return fn


def by_record(model: Model, data: Mapping[str, Any], count: int) -> Any:
    """Run a model with its observed sites hidden, and return their log-densities summed record by record.

    Parameters
    ----------
    model : callable
        The model; latent sites are met by the handlers around this call.
    data : mapping
        Its data.
    count : int
        Number of records.

    Returns
    -------
    jax.Array, shape (count,)
        Nats, with respect to the measure of the model's own data.

    Raises
    ------
    ParameterError
        When the model has no observed site, or one that does not give one number a record.
    """
    from numpyro import handlers

    with handlers.block(hide_fn=_is_likelihood), handlers.trace() as sites:
        model(data)
    total: Any = 0.0
    found = [site for site in sites.values() if _is_likelihood(site)]
    if not found:
        raise ParameterError("the model has no observed site: pass the data as obs=data[...] to numpyro.sample")
    for site in found:
        if site["scale"] is not None:
            raise ParameterError(f"site {site['name']!r} is scaled or subsampled already; weights need the whole table")
        logs = site["fn"].log_prob(site["value"])
        if logs.shape != (count,):
            raise ParameterError(
                f"site {site['name']!r} gives log-densities of shape {logs.shape}, not one a record ({count},): "
                "use to_event() for what belongs to one record"
            )
        total = total + logs
    return total


def weighted(model: Model, *, bound: float | None = None) -> Callable[[Mapping[str, Any], Any], None]:
    r"""Return the model whose log-likelihood is :math:`\sum_i\alpha_i\ell_i`, each clipped to ``[-bound, 0]`` if given.

    Parameters
    ----------
    model : callable
        Its observed sites are the likelihood.
    bound : float, optional
        The censored form's M, in nats.

    Returns
    -------
    callable
        A NumPyro model of the data and the weights.
    """

    def pseudo(data: Mapping[str, Any], weights: Any) -> None:
        import jax.numpy as jnp
        import numpyro

        logs = by_record(model, data, len(weights))
        if bound is not None:
            logs = jnp.clip(logs, -bound, 0.0)
        total = numpyro.deterministic("log_pseudo_likelihood", jnp.dot(jnp.asarray(weights), logs))
        numpyro.factor("pseudo_likelihood", total)

    return pseudo


def seeded_model(model: Callable[..., None]) -> Callable[..., None]:
    """Return a model that can be traced without a generator of its own."""
    from numpyro import handlers

    seeded: Callable[..., None] = handlers.seed(model, rng_seed=0)
    return seeded


def extremes(model: Model, count: int) -> Callable[[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]], Any]:
    """Return a function that gives the least and the largest log-likelihood of each record over posterior draws.

    Parameters
    ----------
    model : callable
        The model.
    count : int
        Number of records.

    Returns
    -------
    callable
        Takes draws (values of the latent sites by name, one row a draw) and the model's data, and returns two ndarrays
        of float64, shape (count,), in nats; a NaN counts as minus infinity. Compiled when it is first used.
    """
    import jax
    import jax.numpy as jnp
    from numpyro import handlers

    def logs(one: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
        found = by_record(handlers.substitute(handlers.seed(model, jax.random.PRNGKey(0)), data=one), data, count)
        return jnp.where(jnp.isnan(found), -jnp.inf, found)

    def block(some: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
        made = jax.vmap(logs, in_axes=(0, None))(some, data)
        return made.min(axis=0), made.max(axis=0)

    compiled = jax.jit(block)

    def over(draws: Mapping[str, npt.NDArray[Any]], data: Mapping[str, Any]) -> Any:
        least, largest = np.full(count, np.inf), np.full(count, -np.inf)
        total = len(next(iter(draws.values())))
        for first in range(0, total, _BLOCK):
            rows = np.arange(first, first + _BLOCK) % total  # blocks of one length; repeats change no extreme
            low, high = compiled({name: jnp.asarray(value[rows]) for name, value in draws.items()}, data)
            least = np.minimum(least, np.asarray(low, dtype=np.float64))
            largest = np.maximum(largest, np.asarray(high, dtype=np.float64))
        return least, largest

    return over


def redrawn(model: Model, one: Mapping[str, Any], data: Mapping[str, Any], key: Any) -> dict[str, npt.NDArray[Any]]:
    """Draw new values of every observed site, given one posterior draw.

    Parameters
    ----------
    model : callable
        The model. Where an observed site depends on another one, it has to use what ``numpyro.sample`` returned for it.
    one : mapping
        Values of the latent sites.
    data : mapping
        Its data; the observed values in it are not used.
    key : jax.Array
        Source of the draws.

    Returns
    -------
    dict of str to ndarray, shape (n,)
        New values by site.
    """
    from numpyro import handlers
    from numpyro.primitives import Messenger

    names: list[str] = []

    class Redraw(Messenger):  # type: ignore[misc]
        """Turn observed sites into draws."""

        def process_message(self, msg: dict[str, Any]) -> None:
            if _is_likelihood(msg):
                names.append(msg["name"])
                msg["is_observed"], msg["value"] = False, None

    with handlers.seed(rng_seed=key), handlers.substitute(data=one), handlers.trace() as sites, Redraw():
        model(data)
    return {name: np.asarray(sites[name]["value"]) for name in names}
