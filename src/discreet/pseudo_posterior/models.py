"""Mixtures of regressions (PP22, appendix B), the models of a domain's columns, and codes as the numbers they read.

A mixture's cluster label is summed out: one sampler then serves every weighting.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DomainError, ParameterError, choice, integer
from discreet._core.lazy import dist, jax, jnp, numpyro, pl
from discreet._core.numeric import Arrays, Floats
from discreet._core.random import seeded
from discreet._core.text import with_article
from discreet.domain import Column, Date, Datetime, Domain, Integer, Numeric, Time, nearest_codes
from discreet.pseudo_posterior import regressions
from discreet.pseudo_posterior.likelihood import SHARED, Columns, Data, records_of
from discreet.pseudo_posterior.mixture_chain import HALF_LOG_TAU, DirichletShares, StickShares, mixture_chain
from discreet.pseudo_posterior.synthesiser import Chain, Synthesiser

_LEVELS = (0.1, 0.5, 0.9)
_STEPS, _RIDGE = 40, 1.0
_MAP = f"{SHARED}map"


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureRegression(regressions.ResponseRegression):
    r"""A numeric column given others, by a mixture of up to K normal regressions.

    .. math:: y_i\sim\sum_{k\le K}\pi_kN(x_i^\top\beta_k,\sigma_k),\quad
       \beta_k\sim N_R(0,\mathrm{diag}(s)\,\Omega\,\mathrm{diag}(s)),\quad \sigma_k=\sigma_0+|t_3|,\; s_r\sim|t_3|

    with :math:`\Omega` uniform over correlation matrices, and either sparse Dirichlet weights,
    :math:`\pi\sim\mathrm{Dir}(a/K,\dots,a/K)`, or a truncated Dirichlet process,
    :math:`\pi_k=v_k\prod_{j<k}(1-v_j)`, :math:`v_k\sim\mathrm{Beta}(1,a)`; :math:`a\sim\mathrm{Gamma}(1,1)`.

    Parameters
    ----------
    response : Response
        The column, its public transformation and unit, and the least scale :math:`\sigma_0`, without which the
        posterior would not exist where values repeat.
    design : Design
        The columns it depends on, at least one: correlations of coefficients need two of them.
    clusters : int
        K, from 2 to 100: more than are needed, since the prior empties those that are not.
    weights : {"dirichlet", "sticks"}
        The prior of the clusters' shares.

    References
    ----------
    PP22, appendix B; Ishwaran and James (2001) for the truncated process.
    """

    monitored: ClassVar[tuple[str, ...]] = ("fitted_mean", "fitted_spread", "fitted_shares_below")
    """The fitted population's mean and spread, and its shares below the table's 10th, 50th and 90th percentiles."""

    clusters: int = 10
    weights: str = "dirichlet"

    def __post_init__(self) -> None:
        integer("clusters", self.clusters, least=2, most=100)
        choice("weights", self.weights, ("dirichlet", "sticks"))
        if not self.design.columns:
            raise ParameterError("a mixture needs at least one given column. Take LinearRegression, or declare one")

    def public(self, columns: Columns, count: int) -> Arrays:
        """Return the design in orthonormal coordinates, and the map to them.

        The map depends on the given columns, which are published as they are; the model's law does not depend on it.
        """
        plain = self.design.matrix(columns, count)
        gram = plain.T @ plain / count + 1e-6 * np.eye(plain.shape[1])
        lower = np.linalg.cholesky(gram[::-1, ::-1])[::-1, ::-1].T  # lower triangular, lower.T @ lower = gram
        return {"design": np.linalg.solve(lower.T, plain.T).T, _MAP: lower}

    def model(self, data: Data) -> None:
        """Run the model."""
        from jax.scipy.stats import norm

        design = jnp.asarray(data["design"], dtype=jnp.float32)
        width = design.shape[1]
        shares = self._shares()
        spreads = numpyro.sample("coefficient_spreads", regressions.half_t().expand([width]).to_event(1))
        correlations = numpyro.sample("correlations", dist.LKJCholesky(width, 1.0))
        normal = dist.MultivariateNormal(jnp.zeros(width), scale_tril=spreads[:, None] * correlations)
        to_orthonormal = dist.transforms.LowerCholeskyAffine(jnp.zeros(width), jnp.asarray(data[_MAP], jnp.float32))
        coefficients = numpyro.sample(
            "coefficients", dist.TransformedDistribution(normal.expand([self.clusters]), [to_orthonormal]).to_event(1)
        )
        excess = numpyro.sample("excess_scales", regressions.half_t().expand([self.clusters]).to_event(1))
        scales = self.response.least_scale + excess
        means = coefficients @ design.T
        centre = shares @ means.mean(axis=1)
        numpyro.deterministic("fitted_mean", centre)
        second = shares @ ((means**2).mean(axis=1) + scales**2)
        numpyro.deterministic("fitted_spread", jnp.sqrt(jnp.maximum(second - centre**2, 0.0)))
        levels = jnp.quantile(jnp.asarray(data[self.response.column]), jnp.asarray(_LEVELS))
        below = norm.cdf((levels[:, None, None] - means) / scales[:, None])
        numpyro.deterministic("fitted_shares_below", below.mean(axis=2) @ shares)
        numpyro.sample(self.response.column, _mixture(shares, means, scales), obs=data[self.response.column])

    def _shares(self) -> Any:
        total = numpyro.sample("concentration", dist.Gamma(1.0, 1.0))
        if self.weights == "dirichlet":
            return numpyro.sample("shares", dist.Dirichlet(jnp.full(self.clusters, total / self.clusters)))
        sticks = numpyro.sample("sticks", dist.Beta(1.0, total).expand([self.clusters - 1]).to_event(1))
        remainder = jnp.concatenate((jnp.ones(1), jnp.cumprod(1.0 - sticks)))
        return jnp.concatenate((sticks, jnp.ones(1))) * remainder

    def chain(self, data: Data, *, warm_up: int, bound: float | None) -> Chain:
        """Return the chain of :mod:`discreet.pseudo_posterior.mixture_chain`: NUTS does not converge here."""
        shares: DirichletShares | StickShares = StickShares(clusters=self.clusters)
        if self.weights == "dirichlet":
            shares = DirichletShares(clusters=self.clusters, knee=-math.log(records_of(data)))
        return mixture_chain(shares, self.response, map_name=_MAP, warm_up=warm_up, bound=bound)

    def start(self, data: Data, *, chain: int) -> Arrays:
        """Return where expectation-maximisation ends, from another beginning for every chain.

        Chains that agree have then found each other from different places.
        """
        design = np.nan_to_num(np.asarray(data["design"], dtype=np.float64))
        y = np.nan_to_num(np.asarray(data[self.response.column], dtype=np.float64))
        least = self.response.least_scale
        shares, coefficients, scales = _expectation_maximisation(design, y, self.clusters, least, seed=chain)
        order = np.argsort(-shares)
        shares, coefficients, scales = shares[order], coefficients[order], scales[order]
        plain = np.linalg.solve(np.asarray(data[_MAP]), coefficients.T).T
        values: Arrays = {
            "concentration": np.asarray(1.0),
            "coefficient_spreads": np.maximum(np.sqrt((plain**2).mean(axis=0)), 0.1),
            "correlations": np.eye(design.shape[1]),
            "coefficients": coefficients,
            "excess_scales": np.maximum(scales - self.response.least_scale, 0.02),
        }
        if self.weights == "dirichlet":
            return {**values, "shares": shares}
        remainder = 1.0 - np.concatenate(([0.0], np.cumsum(shares)[:-2]))
        return {**values, "sticks": np.clip(shares[:-1] / np.maximum(remainder, 1e-6), 1e-4, 1.0 - 1e-4)}


def _mixture(shares: Any, means: Any, scales: Any) -> Any:
    """Return the mixture of normals as a distribution over n records, given (K,) shares and (K, n) means."""

    class NormalMixture(dist.Distribution):  # type: ignore[misc]
        support = dist.constraints.real

        def __init__(self) -> None:
            super().__init__(batch_shape=means.shape[1:])

        def log_prob(self, value: Any) -> Any:
            offset = jnp.log(shares) - jnp.log(scales) - HALF_LOG_TAU
            logs = offset[:, None] - 0.5 * ((value[None, :] - means) / scales[:, None]) ** 2
            highest = jax.lax.stop_gradient(logs.max(axis=0))
            return highest + jnp.log(jnp.exp(logs - highest).sum(axis=0))

        def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
            labels_key, noise_key = jax.random.split(key)
            shape = (*sample_shape, *means.shape[1:])
            labels = jax.random.categorical(labels_key, jnp.log(shares), shape=shape)
            centres = jnp.take_along_axis(means, labels.reshape(-1, means.shape[1]), axis=0).reshape(shape)
            return centres + scales[labels] * jax.random.normal(noise_key, shape)

    return NormalMixture()


def _expectation_maximisation(
    design: Floats, y: Floats, clusters: int, least: float, *, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return shares, coefficients and scales after some steps, with a little regularisation."""
    blurred = y + seeded(seed).normal(scale=0.5 * y.std() + 1e-9, size=len(y))
    labels = np.digitize(blurred, np.quantile(blurred, np.linspace(0, 1, clusters + 1)[1:-1]))
    memberships = np.eye(clusters)[labels]
    width = design.shape[1]
    for _ in range(_STEPS):
        sizes = memberships.sum(axis=0)
        shares = (sizes + 0.1) / (len(y) + 0.1 * clusters)
        gram = np.einsum("nk,nr,ns->krs", memberships, design, design, optimize=True) + _RIDGE * np.eye(width)
        coefficients = np.linalg.solve(gram, ((memberships * y[:, None]).T @ design)[:, :, None])[:, :, 0]
        gaps = (y[:, None] - design @ coefficients.T) ** 2
        scales = np.maximum(np.sqrt(((memberships * gaps).sum(axis=0) + 1.0) / (sizes + 1.0)), least + 0.02)
        logs = np.log(shares) - np.log(scales) - HALF_LOG_TAU - 0.5 * gaps / scales**2
        masses = np.exp(logs - logs.max(axis=1, keepdims=True))
        memberships = masses / masses.sum(axis=1, keepdims=True)
    return shares, coefficients, scales


MODELS = ("mixture", "dirichlet-process", "linear", "robust", "hierarchical", "poisson", "categorical", "sequential")
"""Names of the models that can be built from a domain."""


@sealed
def synthesiser_for(
    domain: Domain,
    sensitive: tuple[str, ...],
    *,
    model: str = "mixture",
    clusters: int | None = None,
    transform: str | None = None,
    group: str | None = None,
    survey_weight: str | None = None,
    unit: str | None = None,
) -> Synthesiser:
    """Return a synthesiser of some columns of a domain given all the others, from public facts alone.

    Parameters
    ----------
    domain : Domain
        Public. Categories and booleans enter as indicators, of a null too; numbers, decimals, dates and times scaled
        between their bounds, with an indicator of a null. A sensitive column has no nulls.
    sensitive : tuple of str
        The columns to synthesise.
    model : str
        One of :data:`MODELS`; "sequential" alone takes several columns.
    clusters : int, optional
        For mixtures; 10 by default.
    transform : {"identity", "log", "asinh"}, optional
        Of a numeric response; by default chosen from its bounds, and the identity for dates and datetimes.
    group : str, optional
        For the hierarchical model: the category or boolean, such as a region, whose values have intercepts of their own
        that are drawn together. It is published exactly, like all others.
    survey_weight, unit : str, optional
        Columns that the model does not read, since they hold survey weights or name the privacy unit. Name them to the
        posterior too.

    Raises
    ------
    ParameterError, DomainError
        When model and columns do not fit together.

    Examples
    --------
    >>> from discreet.domain import Category, Domain, Numeric
    >>> domain = Domain(columns={"income": Numeric(lower=0, upper=1e6), "sex": Category(categories=["f", "m"])})
    >>> synthesiser = synthesiser_for(domain, ("income",))
    >>> synthesiser.sensitive, synthesiser.given
    (('income',), ('sex',))
    """
    _check_request(domain, sensitive, model, clusters, (group, survey_weight, unit))
    beside = {*sensitive, survey_weight, unit}
    predictors = {name: column for name, column in domain.columns.items() if name not in beside}
    target = domain.columns[sensitive[0]]
    if model in ("poisson", "categorical"):
        return _without_predictors(predictors, target, sensitive[0], model)
    read = tuple(_predictor(name, column) for name, column in predictors.items() if name != group)
    design = regressions.Design(predictors=read)
    if model == "sequential":
        steps = tuple(_step(name, domain.columns[name], transform) for name in sensitive)
        return regressions.SequentialRegression(steps=steps, design=design)
    response = _response_of(sensitive[0], target, transform)
    if group is not None:
        if group not in predictors:
            raise ParameterError(
                f"column {group!r} cannot be the group and be sensitive, the survey weight or the unit. Name another "
                "column as the group"
            )
        groups = _categories(group, predictors[group]) + predictors[group].nullable  # a null is a group of its own
        return regressions.LinearRegression(response=response, design=design, group=group, groups=groups)
    if model in ("linear", "robust"):
        degrees = 4.0 if model == "robust" else None
        return regressions.LinearRegression(response=response, design=design, degrees=degrees)
    weights = {"mixture": "dirichlet", "dirichlet-process": "sticks"}[model]
    options = {} if clusters is None else {"clusters": clusters}
    return MixtureRegression(response=response, design=design, weights=weights, **options)


def _check_request(
    domain: Domain, sensitive: tuple[str, ...], model: str, clusters: int | None, columns: tuple[str | None, ...]
) -> None:
    """Refuse a model that does not exist, or that does not take these columns (the first for groups) or clusters."""
    choice("model", model, MODELS)
    if clusters is not None and model not in ("mixture", "dirichlet-process"):
        raise ParameterError(f"the {model} model has no clusters")
    if (columns[0] is not None) != (model == "hierarchical"):
        raise ParameterError("the hierarchical model needs the column of its groups (group=...), and no other takes it")
    if len(set(sensitive)) < len(sensitive):
        raise ParameterError("a sensitive column is named twice")
    if not sensitive or (len(sensitive) > 1 and model != "sequential"):
        raise ParameterError("name one sensitive column, or several with the sequential model")
    for name in (*sensitive, *columns):
        if name is not None and name not in domain.columns:
            raise ParameterError(f"{name!r} is not a column of the domain")
    for name in sensitive:
        if domain.columns[name].nullable:
            raise sensitive_nulls(name)


def _without_predictors(predictors: Collection[str], column: Column, name: str, model: str) -> Synthesiser:
    if predictors:
        raise ParameterError(
            f"the {model} model has no predictors: the domain declares the sensitive column alone, and the table's "
            "others are left out (accept={'other-columns'})"
        )
    if model == "categorical":
        return regressions.CategoricalShares(column=name, categories=_categories(name, column))
    if not isinstance(column, Integer) or column.lower < 0:
        raise DomainError(f"column {name!r}: this model needs counts, an integer of at least 0")
    return regressions.PoissonMean(column=name)


def _categories(name: str, column: Column) -> int:
    if column.labels is None:
        raise DomainError(f"column {name!r} must be a category or a boolean, got {with_article(column.kind)}")
    return len(column.labels)


def _response_of(name: str, column: Column, transform: str | None) -> regressions.Response:
    if isinstance(column, (Date, Datetime, Time)) and transform is None:
        transform = "identity"  # neither 1970 nor midnight is a zero that anything is relative to
    return regressions.Response.between(name, *bounds_of(name, column), transform=transform)


def _predictor(name: str, column: Column) -> regressions.Predictor:
    if column.labels is not None:
        return regressions.Predictor(column=name, categories=column.size)
    lower, upper = bounds_of(name, column)
    return regressions.Predictor(column=name, lower=lower, upper=upper, nulls=column.nullable)


def _step(name: str, column: Column, transform: str | None) -> regressions.Step:
    if column.labels is not None:
        return regressions.Step(column=name, kind="category", categories=len(column.labels))
    return regressions.Step(column=name, kind="numeric", response=_response_of(name, column, transform))


def sensitive_nulls(name: str) -> DomainError:
    """Return the error of a sensitive column that may hold nulls."""
    return DomainError(
        f"column {name!r}: a sensitive column cannot have nulls, which no model draws. Fill them in or leave their "
        "records out beforehand, and declare the column without nulls"
    )


def bounds_of(name: str, column: Column) -> tuple[float, float]:
    """Return a column's bounds in the unit of its positions, or refuse one that has none."""
    if column.labels is not None or column.open:
        raise DomainError(f"column {name!r}: {with_article(column.kind)} cannot be a number. Leave it out or recode it")
    if isinstance(column, Numeric):
        return column.lower, column.upper
    (lower, _), (_, upper) = column.ends(np.array([0, (column.values or 1) - 1]))
    return float(lower), float(upper)


def numbers_of(column: Column, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what a model reads: codes of categories; values (or the middles of cells) of all others, null as NaN."""
    if column.labels is not None:
        return np.asarray(codes)
    return np.asarray(column.positions(codes), dtype=np.float64)


def codes_of(column: Column, values: npt.NDArray[Any], name: str, *, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return the codes of synthetic values: those outside the bounds go to them, and all to the nearest point."""
    if column.labels is not None:
        return np.asarray(values, dtype=np.int64)
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64))
    if isinstance(column, Numeric):
        return column.encode(pl.Series(np.clip(numbers, column.lower, column.upper)), name=name)
    # Every point as a cell of its own, to find the nearest; then the cell that holds it.
    finest: dict[str, Any] = {"base": None, "cells": None}
    if isinstance(column, Integer):
        finest["spacing"] = "linear"
    points = replace(column, **finest)
    return column.encode(points.decode(nearest_codes(points, numbers), rng=rng), name=name)
