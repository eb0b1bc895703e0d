"""Draws from the censored posterior on a public list of parameters: docs/theory/censored-posterior.md (T18).

Records say whole numbers of ``-2^36 .. 0`` units, so that their sums are exact; rounding costs at most :func:`margin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, Integers
from discreet._core.errors import ParameterError
from discreet._core.lazy import handlers, jax, jnp
from discreet._core.random import draw_weighted
from discreet._core.text import as_written
from discreet.pseudo_posterior.checks import check_model, latent_sites
from discreet.pseudo_posterior.likelihood import SURVEY, alone, is_likelihood, log_density, records_of, rows, visible
from discreet.pseudo_posterior.synthesiser import Synthesiser

_UNITS = 2**36
_RECORDS = 2**26
_POINTS = 2**23
LEAST_BOUND, LARGEST_BOUND = 2.0**-24, 2.0**10
"""Of a bound M that leaves room for rounding."""

_PRIOR_SPREAD = 2.0**14
_BLOCK = 512


def margin(bound: float) -> float:
    """Return four times how far a drawn log-weight may be from the exact one, in nats: what rounding costs."""
    # It holds for up to 2^26 records and 2^14 nats between the prior's log-densities, so that it depends on neither.
    return 4.0 * (2.0**-23 * bound + 2.0**-34)


def said(log_likelihoods: npt.ArrayLike, weights: npt.ArrayLike, bound: float) -> Integers:
    """Return what records say to parameters, (parameters, n): weighted, clipped, in ``-2^36 .. 0`` units."""
    logs = np.asarray(log_likelihoods, dtype=np.float64)
    clipped = np.where(np.isfinite(logs), np.clip(logs, -bound, 0.0), -bound)
    units = np.rint(clipped * np.asarray(weights, dtype=np.float64) * (_UNITS / bound))
    return np.clip(units.astype(np.int64), -_UNITS, 0)


def grid_log_weights(totals: Integers, log_prior: Floats, bound: float) -> Floats:
    """Return the log-weights that parameters are drawn with, from sums of :func:`said` over records."""
    return log_prior + totals.astype(np.float64) * ((bound - margin(bound)) / _UNITS)


def drawn_on_grid(
    synthesiser: Synthesiser,
    grid: Mapping[str, npt.ArrayLike],
    data: Mapping[str, Any],
    weights: Floats,
    *,
    bound: float,
    draws: int,
    rng: np.random.Generator,
    blanks: Sequence[Mapping[str, Any]] = (),
    survey: Floats | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Return independent draws from the censored posterior on a public grid of the latent sites, a row each."""
    points = {name: np.asarray(value) for name, value in grid.items()}
    if records_of(points) > _POINTS or len(weights) > _RECORDS:
        raise ParameterError("a grid must have at most 2^23 parameters, and is for at most 2^26 records")
    sites = latent_sites(synthesiser, data, values={name: v[0] for name, v in points.items()}, blanks=blanks)
    if missing := sites.keys() - points.keys():
        raise ParameterError(f"the grid gives no values of site {min(missing)!r}")
    if unknown := points.keys() - sites.keys():
        raise ParameterError(f"the model has no latent site {min(unknown)!r}")
    sample = rows(points, np.linspace(0, records_of(points) - 1, 3).astype(np.int64))
    check_model(synthesiser, data, sample, blanks=blanks)
    blank = blanks[0] if blanks else visible(data, synthesiser.sensitive)
    points, log_prior = _possible(synthesiser, points, blank)
    totals = np.zeros(len(log_prior), dtype=np.int64)
    surveyed = data if survey is None else {**data, SURVEY: survey}
    likelihoods = jax.jit(lambda grid, block: jax.lax.map(lambda point: alone(synthesiser.model, point, block), grid))
    parameters = {name: jnp.asarray(value) for name, value in points.items()}
    for start in range(0, len(weights), _BLOCK):
        # All blocks have one shape, whatever the number of records: the last is filled up with its own first rows.
        count = min(_BLOCK, len(weights) - start)
        block = rows(surveyed, start + np.arange(_BLOCK) % count)
        logs = likelihoods(parameters, {name: jnp.asarray(value) for name, value in block.items()})
        totals += said(np.asarray(logs)[:, :count], weights[start : start + count], bound).sum(axis=1)
    law = grid_log_weights(totals, log_prior, bound)
    return rows(points, np.array([draw_weighted(law, rng=rng) for _ in range(draws)]))


def _possible(
    synthesiser: Synthesiser, points: Mapping[str, Any], blank: Mapping[str, Any]
) -> tuple[dict[str, Any], Floats]:
    """Return the parameters of positive prior density on a public table, and its logarithms, at most 0."""

    def density(point: Mapping[str, Any]) -> Any:
        with handlers.trace() as sites, handlers.substitute(data=point), handlers.seed(rng_seed=0):
            synthesiser.model(blank)
        priors = [site for site in sites.values() if site["type"] == "sample" and not is_likelihood(site)]
        return sum(log_density(site).sum() for site in priors)

    compiled = jax.jit(lambda points: jax.lax.map(density, points))
    log_prior = np.asarray(compiled({name: jnp.asarray(value) for name, value in points.items()}), dtype=np.float64)
    possible = np.isfinite(log_prior)
    if np.isposinf(log_prior).any() or not possible.any():
        raise ParameterError("the prior's densities on the grid must be finite, and some of them above 0")
    relative = log_prior[possible] - log_prior[possible].max()
    if relative.min() < -_PRIOR_SPREAD:
        raise ParameterError(
            f"the prior's log-densities on the grid are more than {as_written(_PRIOR_SPREAD)} nats apart. Leave out "
            "the parameters that it rules out"
        )
    return rows(points, possible), relative
