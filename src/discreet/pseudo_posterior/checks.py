"""What a model may do with its data, checked on made-up tables before anything is drawn: no refusal tells of a table.

Neither its prior nor the law that it draws may move with the sensitive columns, nor a record's density with others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.lazy import dist, handlers, jax, jnp, numpyro
from discreet._core.random import seeded
from discreet.pseudo_posterior.likelihood import (
    SHARED,
    alone,
    by_record,
    is_likelihood,
    latent,
    log_density,
    program,
    redrawn,
    rows,
    unwrapped,
    visible,
)
from discreet.pseudo_posterior.synthesiser import Synthesiser

_CONFIDENTIAL_NUMBER = (
    "changes with the number of records, which is confidential under add/remove (a size was given). Write a public "
    "number in place of len(data[...]), or leave size out, for tables of as many records as are held"
)
_TRIED = 3
_TOLERANCE = 1e-3  # of single precision sums, in another order; a posterior is made of the single-row form alone


def latent_sites(
    synthesiser: Synthesiser,
    data: Mapping[str, Any],
    *,
    values: Mapping[str, Any] | None = None,
    blanks: Sequence[Mapping[str, Any]] = (),
) -> dict[str, tuple[int, ...]]:
    """Check a model's sites, and return the latent ones and the shapes of their values; nothing is computed."""
    # Without values, sites must be continuous with a proper prior, and the shapes are of unconstrained coordinates.
    if blanks:
        shapes = _small_table_shapes(synthesiser, blanks[1], values, "two records")
    else:
        shapes = _site_shapes(synthesiser, data, values)
    record = rows([*blanks, data][0], slice(0, 1))
    single = _small_table_shapes(synthesiser, record, values, "one record by itself")
    for name, shape in shapes.items():
        if single.get(name) != shape:
            raise ParameterError(
                f"site {name!r} is a latent variable of each record. Sum it out, or give one to each group of records"
            )
    return shapes


def _small_table_shapes(
    synthesiser: Synthesiser, data: Mapping[str, Any], values: Mapping[str, Any] | None, table: str
) -> dict[str, tuple[int, ...]]:
    """Return the shapes on a table that is not the one that the model was written for."""
    try:
        return _site_shapes(synthesiser, data, values)
    except DiscreetError as error:
        raise ParameterError(f"on {table}: {error}") from None
    except Exception as error:
        raise ParameterError(
            f"the model cannot be run on {table}. Take the sizes of plates and observed sites from the data, as in "
            "len(data[...]), and give no record a latent variable of its own"
        ) from error


def _site_shapes(
    synthesiser: Synthesiser, data: Mapping[str, Any], values: Mapping[str, Any] | None
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    model, sensitive = synthesiser.model, synthesiser.sensitive
    start = {"substitute_fn": numpyro.infer.init_to_uniform} if values is None else {"data": values}

    def trace(traced: Mapping[str, Any]) -> None:
        with handlers.trace() as sites, handlers.substitute(**start), handlers.seed(rng_seed=0):
            model(traced)
        parameters = latent(sites)
        with handlers.block(), handlers.substitute(data=parameters), handlers.seed(rng_seed=0):
            by_record(model, traced, len(traced[sensitive[0]]))
        for name in sensitive:
            if name not in sites or not is_likelihood(sites[name]):
                raise ParameterError(f"the model has no observed site {name!r}: name one as the column, obs=data[...]")
        for name, value in parameters.items():
            shapes[name] = _continuous(name, sites[name]) if values is None else value.shape
        records = redrawn(model, parameters, traced, jax.random.PRNGKey(0))
        for name in sensitive:
            shape, expected = records[name].shape, traced[name].shape
            if shape != expected:
                raise ParameterError(
                    f"site {name!r} draws values of shape {shape}, and not one per record, {expected}. Put it in a "
                    "numpyro.plate of as many records as the data have"
                )

    program(trace, {name: np.asarray(value) for name, value in data.items()})
    if not shapes:
        raise ParameterError("the model has no latent variable, so there is nothing to learn")
    return shapes


def _continuous(name: str, site: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of a site's unconstrained coordinates."""
    if getattr(site["fn"].support, "is_discrete", False):
        raise ParameterError(f"site {name!r} is discrete and latent. Sum it out, as numpyro.distributions.Mixture does")
    if isinstance(unwrapped(site["fn"]), dist.ImproperUniform):
        raise ParameterError(f"site {name!r} has an improper prior. Give it a prior that is a probability")
    return tuple(dist.biject_to(site["fn"].support).inverse_shape(site["value"].shape))


def typical_values(
    synthesiser: Synthesiser, data: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Return some parameters of a model, uniform on [-2, 2] in unconstrained coordinates of these shapes."""
    rng = seeded(0)
    points = {name: rng.uniform(-2.0, 2.0, size=(_TRIED, *shape)).astype(np.float32) for name, shape in shapes.items()}

    def constrained(point: Mapping[str, Any]) -> dict[str, Any]:
        def value(site: Mapping[str, Any]) -> Any:
            return dist.biject_to(site["fn"].support)(point[site["name"]]) if site["name"] in point else None

        with handlers.trace() as sites, handlers.substitute(substitute_fn=value), handlers.seed(rng_seed=0):
            synthesiser.model(visible(data, synthesiser.sensitive))
        return latent(sites)

    values: dict[str, Any] = jax.jit(jax.vmap(constrained))(points)
    return values


def check_model(
    synthesiser: Synthesiser,
    data: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    blanks: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Refuse a model that does more with the sensitive columns than to give each record a log-density."""
    # It is run with zeros in the sensitive columns, and with ones and zeros in turn, at the same public parameters.
    if blanks:
        _check_any_number(synthesiser, blanks, values)
        check_model(synthesiser, blanks[1], values)
    model, sensitive = synthesiser.model, synthesiser.sensitive
    blank = {name: jnp.asarray(value) for name, value in visible(data, sensitive).items()}
    turns = blank | {name: blank[name].at[::2].set(1) for name in sensitive}
    records = {name: turns[name] for name in sensitive}

    @jax.jit  # type: ignore[untyped-decorator]
    def run(values: Any, data: Any) -> Any:
        return jax.vmap(lambda point: (_densities(model, point, data, records), alone(model, point, data)))(values)

    (prior, likelihood), _ = jax.tree.map(np.asarray, run(values, blank))
    (turned_prior, turned_likelihood), single = jax.tree.map(np.asarray, run(values, turns))
    if site := _changed_site(turned_prior, prior):
        raise ParameterError(
            f"site {site!r} changes with the sensitive columns. A prior or a factor must be fixed without looking at "
            "them, and what depends on a record belongs in an observed site, obs=data[...]"
        )
    total: Any = sum(turned_likelihood.values())
    finite = np.isfinite(total)
    close = np.isclose(single[finite], total[finite], rtol=_TOLERANCE, atol=_TOLERANCE)
    if not close.all() or not np.array_equal(finite, np.isfinite(single)):
        raise ParameterError(
            "the log-density of the table is not the sum of those of its records by themselves. A record's density "
            "may use that record, public numbers and parameters, but nothing computed from all records (a mean, a "
            "largest value, a total)"
        )
    if site := _changed_site(turned_likelihood, likelihood):
        raise ParameterError(
            f"site {site!r} has a law that changes with the sensitive columns. Where one of them depends on another, "
            "use what numpyro.sample returns for it"
        )


def _check_any_number(synthesiser: Synthesiser, blanks: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> None:
    """Refuse a model whose prior, factors or public arrays depend on how many records there are."""
    priors = jax.jit(jax.vmap(lambda point, data: _densities(synthesiser.model, point, data, {})[0], in_axes=(0, None)))
    prior = priors(values, blanks[0])
    for blank in blanks[1:]:
        count = len(blank[synthesiser.sensitive[0]])
        for name, array in blank.items():
            row = blanks[0][name]
            if not _close(array, row if name.startswith(SHARED) else np.repeat(row, count, axis=0)):
                raise ParameterError(f"array {name!r} of Synthesiser.public {_CONFIDENTIAL_NUMBER}")
        blank_prior = priors(values, blank)
        for name in sorted({*blank_prior, *prior}):
            if name not in blank_prior or name not in prior or not _close(blank_prior[name], prior[name]):
                raise ParameterError(f"site {name!r} {_CONFIDENTIAL_NUMBER}")


def _close(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


def _densities(
    model: Any, values: Mapping[str, Any], data: Mapping[str, Any], records: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the log-densities of priors and factors, and those of the records that observed sites return, by site."""
    observed = handlers.condition(data=records)
    with handlers.trace() as sites, observed, handlers.seed(rng_seed=0), handlers.substitute(data=values):
        model(data)
    prior: dict[str, Any] = {}
    likelihood: dict[str, Any] = {}
    for name, site in sites.items():
        if site["type"] == "sample":
            (likelihood if is_likelihood(site) else prior)[name] = log_density(site)
    return prior, likelihood


def _changed_site(logs: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the name of a site whose log-density is not as expected."""
    return next((name for name in logs if not np.array_equal(logs[name], expected[name], equal_nan=True)), None)
