"""What a domain declares of its columns, for models: synthesisers, bounds, numbers of codes and codes of numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.checks import choice
from discreet._core.errors import DomainError, ParameterError
from discreet._core.lazy import pl
from discreet._core.text import with_article
from discreet.domain import Column, Date, Datetime, Domain, Integer, Numeric, Time, nearest_codes
from discreet.pseudo_posterior import regressions
from discreet.pseudo_posterior.mixture import MixtureRegression
from discreet.pseudo_posterior.synthesiser import Synthesiser

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
        return regressions.LinearRegression(response=response, design=design, degrees={"robust": 4.0}.get(model))
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
    """Return a model of one column alone."""
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
    return regressions.Response.between(name, *_bounds(name, column), transform=transform)


def _predictor(name: str, column: Column) -> regressions.Predictor:
    if column.labels is not None:
        return regressions.Predictor(column=name, categories=column.size)
    lower, upper = _bounds(name, column)
    return regressions.Predictor(column=name, lower=lower, upper=upper, nulls=column.nullable)


def _step(name: str, column: Column, transform: str | None) -> regressions.Step:
    if column.labels is not None:
        return regressions.Step(column=name, kind="category", categories=len(column.labels))
    return regressions.Step(column=name, kind="numeric", response=_response_of(name, column, transform))


def _bounds(name: str, column: Column) -> tuple[float, float]:
    """Return a column's bounds in the unit of its positions, or refuse one that has none."""
    if column.labels is not None or column.open:
        raise DomainError(f"column {name!r}: {with_article(column.kind)} cannot be a number. Leave it out or recode it")
    return bounds_of(column)


def sensitive_nulls(name: str) -> DomainError:
    """Return the error of a sensitive column that may hold nulls."""
    return DomainError(
        f"column {name!r}: a sensitive column cannot have nulls, which no model draws. Fill them in or leave their "
        "records out beforehand, and declare the column without nulls"
    )


def bounds_of(column: Column) -> tuple[float, float]:
    """Return the bounds of a column of numbers, dates or times in the unit of its positions."""
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
