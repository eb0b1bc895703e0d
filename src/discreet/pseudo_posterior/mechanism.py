"""A posterior as a mechanism: the confidential table as a model reads it, and its own tables as they are released.

The certificate is made from public facts alone: the target, never what was measured.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DomainError, LawNotAvailable, ParameterError
from discreet._core.lazy import jnp, pl
from discreet.domain import Column, Commonness, Counts, Domain, Integer, Numeric, Records, nearest_codes
from discreet.mechanisms import NEIGHBOURS, Contents, DrawnTable, Forecast, Mechanism, Outcome, Reading, Traits
from discreet.privacy import Code, Guarantee, Relation
from discreet.pseudo_posterior.from_domain import bounds_of, sensitive_nulls
from discreet.pseudo_posterior.likelihood import Columns, quiet, redrawn
from discreet.pseudo_posterior.posterior import ModelPosterior
from discreet.pseudo_posterior.sampler import PosteriorDraws, Progress
from discreet.pseudo_posterior.synthesiser import FromModel, Synthesiser

# Tables of synthetic records from posterior draws.

_REDRAWS = 30


def synthetic_tables(
    synthesiser: Synthesiser,
    draws: PosteriorDraws,
    columns: Columns,
    *,
    tables: int,
    rng: np.random.Generator,
    size: int | None = None,
    within: Mapping[str, tuple[float, float]] | None = None,
) -> list[dict[str, npt.NDArray[Any]]]:
    """Draw tables, each from one posterior draw; the draws used are spread evenly over all, from a random first one.

    A record with a value outside its bounds is drawn again, so that records follow the model's law within them. Values
    that are still outside after 30 times go to the bounds. The model is handed the given columns of the confidential
    table, and types alone of the others. ``within``: public bounds in place of the synthesiser's own.
    """
    limits = {**synthesiser.bounds, **(within or {})}
    check_draws(tables, len(draws))
    n_held = len(columns[synthesiser.sensitive[0]])
    if synthesiser.given and size not in (None, n_held):
        raise ParameterError("a partially synthetic table must have as many records as the confidential one")
    exact = {name: np.asarray(columns[name]) for name in synthesiser.given}
    step = len(draws) // tables
    start = int(rng.integers(step))
    with quiet():
        data = synthesiser.blank(columns, n_held if size is None else size)
        return [
            {**exact, **_records_in_bounds(synthesiser, draws.one(index), data, limits, rng)}
            for index in range(start, start + step * tables, step)
        ]


def _records_in_bounds(
    synthesiser: Synthesiser,
    parameters: Mapping[str, Any],
    data: Mapping[str, Any],
    limits: Mapping[str, tuple[float, float]],
    rng: np.random.Generator,
) -> dict[str, npt.NDArray[Any]]:
    """Return records of which those with a value outside its bounds, or none, were drawn again."""
    records = _drawn_records(synthesiser, parameters, data, rng)
    for _ in range(_REDRAWS):
        inside = np.ones(len(next(iter(records.values()))), dtype=np.bool_)
        for name, (low, high) in limits.items():
            inside &= (records[name] >= low) & (records[name] <= high)
        if inside.all():
            break
        redraws = _drawn_records(synthesiser, parameters, data, rng)
        for name, values in records.items():
            records[name] = np.where(inside.reshape(-1, *(1,) * (values.ndim - 1)), values, redraws[name])
    for name, (low, high) in limits.items():
        records[name] = np.clip(np.nan_to_num(records[name]), low, high)
    return records


def _drawn_records(
    synthesiser: Synthesiser, parameters: Mapping[str, Any], data: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, npt.NDArray[Any]]:
    """Return records, one value of each sensitive column for each row of the data, in the unit of the table."""
    key = jnp.asarray(rng.integers(0, 2**32, size=2, dtype=np.uint32))
    try:
        sites = redrawn(synthesiser.model, parameters, data, key)
    except ValueError as error:  # NumPyro's, where a distribution's parameters are not in its domain
        raise ParameterError(
            "the model drew no records, since with some latent values a distribution has parameters outside its "
            "domain, or too large for single precision. Choose a prior or a grid that keeps them inside"
        ) from error
    for name in synthesiser.sensitive:
        if np.shape(sites[name])[:1] != data[name].shape[:1]:
            raise ParameterError(f"site {name!r} does not draw one value per record. Put it in a numpyro.plate")
    return {name: np.asarray(synthesiser.decoded(name, np.asarray(sites[name]))) for name in synthesiser.sensitive}


def check_draws(tables: int, draws: int) -> None:
    """Check that there is a posterior draw for each table. Raises ParameterError when there are fewer."""
    if tables > draws:
        raise ParameterError(f"{tables} tables need {tables} posterior draws, got {draws}. Raise draws")


@dataclass(frozen=True, kw_only=True)
class ModelMechanism(Mechanism):
    """A posterior on the domain of a confidential table: its kernel fits the model and draws the tables.

    The domain must hold the synthesiser's columns, those of survey weights and units and no others, none of them open
    labels, and no sensitive one with nulls. The model reads codes ``0, 1, ..`` of categories and booleans, of which a
    null is the last, and numbers in the unit of :meth:`~discreet.domain.Column.positions` of all others (days since
    1970-01-01 for dates, seconds for datetimes and durations), of which a null is NaN.

    ``certified``: the ``model`` and ``chains`` of a certificate, where the posterior is a stand-in: no promise depends
    on them.
    """

    traits: ClassVar[Traits] = Traits(
        free=(),
        needs_cells=False,
        randomness="operating-system-and-jax",
    )

    posterior: ModelPosterior
    certified: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.posterior.grid is None:  # else a draw is made for each table
            check_draws(self.posterior.tables, self.posterior.chains * self.posterior.draws)
        _check_columns(self.domain, self.posterior)
        self.posterior.check_domain(self.domain)

    # -- the private step ---------------------------------------------------------------------------------------

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> list[DrawnTable]:
        """Fit the model, and draw the tables: numbers of what is synthesised, codes of what is published exactly."""
        order = rng.permutation(x.n)
        rows = (np.repeat(column, x.frequencies)[order] for column in x.records.columns)
        codes = dict(zip(self.domain.names, rows, strict=True))
        columns = {name: numbers_of(self.domain.columns[name], column) for name, column in codes.items()}
        posterior, draws = self.posterior, self.posterior_draws(columns, rng=rng)
        bounds = {}
        for name in posterior.synthesiser.sensitive:
            column = self.domain.columns[name]
            if column.labels is None:
                lower, upper = bounds_of(column)
                half = 0.5 if isinstance(column, Integer) else 0.0  # an integer stands for all that are nearest to it
                bounds[name] = (lower - half, upper + half)
        tables = synthetic_tables(
            posterior.synthesiser, draws, columns, tables=posterior.tables, size=posterior.size, rng=rng, within=bounds
        )
        return [{**table, **{name: codes[name] for name in posterior.published_exactly}} for table in tables]

    @abstractmethod
    def posterior_draws(self, columns: Columns, *, rng: np.random.Generator) -> PosteriorDraws:
        """Fit to confidential columns."""

    def log_prob(self, y: Any, x: Counts) -> float:
        """Raise LawNotAvailable: what a fit gives has no closed form."""
        raise LawNotAvailable(f"the law of the tables of {self.name} is not known")

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the posterior's own guarantee."""
        return self.posterior.guarantee(relation, n=n)

    # -- its reading --------------------------------------------------------------------------------------------

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return its tables, of their public size or of as many records as are held.

        They lack what is read and not released: survey weights under full synthesis, and units.
        """
        posterior, domain = self.posterior, self.domain
        released = {*posterior.synthesiser.sensitive, *posterior.published_exactly}
        if released != set(domain.names):
            domain = Domain(columns={name: column for name, column in domain.columns.items() if name in released})
        contents = super().contents(n, counts=counts)
        return replace(contents, domain=domain, size=posterior.size or n, tables=posterior.tables)

    def reading(self, y: Sequence[DrawnTable], *, n: int) -> Reading:
        """Return the tables as the kernel drew them, which are only decoded."""
        outcome = None
        if self.posterior.grid is None:
            limits = self.parameters()["chains"]["refused_beyond"]
            finite = {name: limit for name, limit in limits.items() if limit is not None}
            outcome = Outcome((Code("chains-met", finite) if finite else Code("chains-unchecked"),))
        return TablesOfModel(iter(y), self.contents(n).domain, self.posterior.published_exactly, outcome)

    # -- its parameters -----------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        """Return what its guarantee depends on, and what a reader may want to know of the model and its chains."""
        posterior, synthesiser = self.posterior, self.posterior.synthesiser
        limits = {name: float(getattr(posterior.convergence, name)) for name in ("r_hat", "effective", "divergent")}
        parameters = {
            "model": synthesiser.function.__name__ if isinstance(synthesiser, FromModel) else repr(synthesiser),
            "synthesised": list(synthesiser.sensitive),
            "published_exactly": list(posterior.published_exactly),
            "densities_at_most_one": synthesiser.log_density_at_most_zero,
            "tables": posterior.tables,
            "chains": {
                "chains": posterior.chains,
                "draws": posterior.draws,
                "warm_up": posterior.warm_up,
                "doublings": posterior.convergence.doublings,
                # Limits alone, null where they are infinite: what was measured of the chains is confidential.
                "refused_beyond": {name: value if math.isfinite(value) else None for name, value in limits.items()},
            },
            **self.own_parameters(),
        }
        if posterior.survey_weight is not None:
            parameters["survey"] = {"weight": posterior.survey_weight, "mean": posterior.survey_mean}
        if posterior.unit is not None:
            parameters["unit"] = posterior.unit
        return {**parameters, **self.certified}

    @abstractmethod
    def own_parameters(self) -> dict[str, Any]:
        """Return what the guarantee of this posterior depends on, and that of the other does not."""

    @classmethod
    def certified_by(
        cls, parameters: Mapping[str, Any], *, domain: Domain, posterior: Callable[..., Any], **own: Any
    ) -> Self:
        """Return a mechanism with the promise and reading of a certificate: the model and its chains are a stand-in."""
        stand_in = FromModel(
            function=_no_model,
            columns=tuple(parameters["synthesised"]),
            others=tuple(parameters["published_exactly"]),
            densities_at_most_one=parameters["densities_at_most_one"] is True,
        )
        survey, tables = parameters.get("survey", {}), parameters["tables"]
        weights = {"survey_weight": survey.get("weight"), "survey_mean": survey.get("mean")}
        model = posterior(stand_in, **own, **weights, tables=tables, draws=tables, unit=parameters.get("unit"))
        return cls(domain=domain, posterior=model, certified={name: parameters[name] for name in ("model", "chains")})

    @classmethod
    def _solution(cls, search: Any) -> Any:
        """Refuse: a budget says nothing of the model."""
        raise ParameterError(f"{cls.name} is not calibrated from a budget. Make a posterior, and call its on(domain)")

    # -- what is known beforehand: nothing, since a model gives its own values wherever it does not fit ------------

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return that no share is known."""
        return Forecast(lost=math.nan, lost_is="prediction", lost_to="model")


@dataclass(frozen=True, eq=False)
class TablesOfModel(Reading):
    """The tables that a kernel drew from a model, one after the other.

    ``exact``: the columns whose codes are as held. ``convergence``: the limits that chains met, where there were any.
    """

    tables: Iterator[DrawnTable]
    domain: Domain
    exact: tuple[str, ...]
    convergence: Outcome | None

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Yield the next table, whole."""
        table = next(self.tables)
        columns = self.domain.columns.items()
        drawn = {name: codes_of(c, table[name], name, rng=rng) for name, c in columns if name not in self.exact}
        yield Records(columns=tuple({**table, **drawn}[name] for name in self.domain.names))

    def outcome(self) -> Outcome | None:
        """Return which limits of convergence the chains met."""
        return self.convergence


def _no_model(_data: Mapping[str, Any]) -> None:
    raise NotImplementedError  # stands for a model that a certificate names and does not hold


def _check_columns(domain: Domain, posterior: ModelPosterior) -> None:
    """Refuse a domain that does not fit the synthesiser, and what is read beside it: by public facts alone."""
    synthesiser = posterior.synthesiser
    names = {*synthesiser.sensitive, *synthesiser.given, posterior.survey_weight, posterior.unit} - {None}
    if names != set(domain.names):
        odd = min(names ^ set(domain.names))
        raise ParameterError(f"column {odd!r}: the domain and the synthesiser must name the same columns")
    for name, column in domain.columns.items():
        if column.open:
            raise DomainError(
                f"column {name!r}: a model cannot have open labels. Declare the column as a category, or leave it out"
            )
        if column.nullable and name in synthesiser.sensitive:
            raise sensitive_nulls(name)


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
