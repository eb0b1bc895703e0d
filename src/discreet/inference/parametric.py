"""Parametric analysis of released records with NumPyro."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import integer
from discreet._core.errors import DiscreetWarning, ParameterError, ReleaseTakenForSample
from discreet.domain import Column
from discreet.inference.released import read_release
from discreet.inference.summary import effective_sample_size, r_hat

# The one place that speaks to ArviZ, whose container changed its type in version 1.


def inference_data(posterior: dict[str, Floats], facts: dict[str, Any]) -> Any:
    """Return draws of shape ``(chains, draws, ...)`` as ``InferenceData`` (ArviZ 0) or ``xarray.DataTree`` (1)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # version 0 announces version 1 once a day
            import arviz
            import xarray
    except ImportError:
        raise ParameterError("this needs ArviZ. Install it: pip install 'discreet[bayes]'") from None
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 2))), values)
        for name, values in posterior.items()
    }
    attributes = {
        key: value if isinstance(value, (str, int, float)) else json.dumps(value) for key, value in facts.items()
    }
    dataset = xarray.Dataset(variables, attrs={"inference_library": "discreet", **attributes})
    if int(arviz.__version__.partition(".")[0]) == 0:
        return arviz.InferenceData(posterior=dataset)
    return xarray.DataTree.from_dict({"posterior": dataset})


# Warnings of an analysis: it goes on, but its numbers should not be read as they stand.


@sealed
class NotConverged(DiscreetWarning):
    """Markov chains gave up: their draws are worth less than was asked for, or they do not agree."""


_LARGE_SHARE = 0.05  # 2 m / n from which the width of an interval changes visibly


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """What NUTS drew, and whether to rely on it.

    Parameters
    ----------
    data : InferenceData or DataTree
        Draws by parameter, for ArviZ.
    draws : dict of str to ndarray, each of shape (chains, draws, ...)
        The same as arrays.
    effective_draws, r_hat : float
        The least effective sample size and the largest R-hat over all scalars.
    divergences : int
        Divergent transitions; any makes the draws doubtful.
    """

    data: Any
    draws: dict[str, Any]
    effective_draws: float
    r_hat: float
    divergences: int


@sealed
def fit(
    model: Callable[..., None],
    release: Any,
    facts: Any = None,
    *,
    draws: int = 1000,
    warm_up: int = 1000,
    chains: int = 4,
    seed: int = 0,
    **options: Any,
) -> Fit:
    """Draw from the posterior of a NumPyro model with the released records as its data.

    Parameters
    ----------
    model : callable
        A NumPyro model ``model(data)``. ``data`` is a dict: for each column an array, one entry a released record (the
        value, or the middle of its cell; the code of a category or boolean; days or seconds for dates and times).
    release, facts
        As for :func:`process_posterior`.
    draws, warm_up : int
        Draws kept and spent on adaptation, a chain.
    chains : int
        Number of chains, at least 2: one cannot disagree with itself.
    seed : int
        Everything here is public.
    **options
        Passed on to ``numpyro.infer.NUTS``.

    Returns
    -------
    Fit
        Draws and diagnostics.

    Raises
    ------
    ParameterError
        When NumPyro is missing, or there are too few chains or draws.

    Warns
    -----
    ReleaseTakenForSample
        When the certificate says that so many records were released from so few that the model's intervals, which take
        them for observations, are visibly too short.
    NotConverged
        When R-hat is above 1.01, fewer than 100 effective draws per chain, or transitions diverged; with the numbers.

    References
    ----------
    BNP24, section 6.2; docs/theory/posterior-from-a-release.md for what it leaves out.
    """
    integer("chains", chains, least=2)
    integer("draws", draws, least=10)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what JAX says of the machine
            import jax
            from numpyro.infer import MCMC, NUTS
    except ImportError:
        raise ParameterError("this needs NumPyro. Install it: pip install 'discreet[bayes]'") from None
    z = read_release(release, facts)
    if z.n_held is not None and 2.0 * z.size / z.n_held > _LARGE_SHARE:
        remedy = "take the posterior from process_posterior, or the urn's rule in combine"
        warnings.warn(ReleaseTakenForSample(int(z.size), z.n_held, remedy), stacklevel=2)
    rows = np.repeat(np.arange(len(z.counts)), z.counts.astype(np.int64))
    columns = zip(z.domain.columns.items(), z.records.columns, strict=True)
    data = {name: _array(name, column, codes)[rows] for (name, column), codes in columns}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = MCMC(NUTS(model, **options), num_warmup=warm_up, num_samples=draws, num_chains=chains,
                       chain_method="vectorized", progress_bar=False)  # fmt: skip
        sampler.run(jax.random.PRNGKey(seed), data)
    found = {name: np.asarray(part) for name, part in sampler.get_samples(group_by_chain=True).items()}
    divergences = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    scalars = [part.reshape(chains, draws, -1)[:, :, i] for part in found.values()
               for i in range(math.prod(part.shape[2:]))]  # fmt: skip
    effective, agreement = min(map(effective_sample_size, scalars)), max(map(r_hat, scalars))
    if agreement > 1.01 or effective < 100 * chains or divergences:
        warnings.warn(
            f"do not rely on these draws yet: R-hat {agreement:.3f} (at most 1.01), effective draws {effective:,.0f} "
            f"(at least {100 * chains}), divergent transitions {divergences:,} (none). Run longer or rewrite the model",
            NotConverged,
            stacklevel=2,
        )
    about = {"released": z.size, "r_hat": agreement, "effective_draws": effective, "divergences": divergences}
    return Fit(
        data=inference_data(found, about),
        draws=found,
        effective_draws=effective,
        r_hat=agreement,
        divergences=divergences,
    )


def _array(name: str, column: Column, codes: Any) -> Any:
    if column.open:
        raise ParameterError(f"column {name!r} holds open labels, which are not numbers. Leave it out of the domain")
    if column.labels is not None:
        return np.asarray(codes)
    return column.positions(codes)
