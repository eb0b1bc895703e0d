"""A posterior as a mechanism: the confidential table as a model reads it, and its own tables as they are released.

The certificate is made from public facts alone: the target, never what was measured.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans
from discreet._core.errors import DomainError, LawNotAvailable, ParameterError
from discreet._core.lazy import jnp, pl
from discreet.domain import Commonness, Counts, Domain, Integer, Numeric, Records
from discreet.domain.column import Column
from discreet.domain.metric import nearest_codes
from discreet.mechanisms import Mechanism
from discreet.mechanisms.base import NEIGHBOURS, DrawnTable
from discreet.mechanisms.forecast import Forecast, Traits
from discreet.mechanisms.reading import Contents, Outcome, Reading
from discreet.privacy import Code, Guarantee, Relation
from discreet.pseudo_posterior.from_domain import bounds_of, sensitive_nulls
from discreet.pseudo_posterior.likelihood import Columns, quiet, redrawn
from discreet.pseudo_posterior.sampler import Convergence, PosteriorDraws, Progress
from discreet.pseudo_posterior.survey_and_units import check_declared, check_unit_declared
from discreet.pseudo_posterior.synthesiser import FromModel, Synthesiser

# Tables of synthetic records from posterior draws.

_AGAIN = 30


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

    A record with a value outside its bounds is drawn again, so that records follow the model's law within them. What is
    still outside after 30 times goes to the bounds.

    ``columns``: the confidential table. What draws the records is handed its given columns, and of the others types
    alone.
    ``within``: public bounds of sensitive columns, in the unit of the table, in place of the synthesiser's own.
    """
    limits = {**synthesiser.bounds, **(within or {})}
    check_draws(tables, len(draws))
    held = len(columns[synthesiser.sensitive[0]])
    if synthesiser.given and size not in (None, held):
        raise ParameterError("a partially synthetic table must have as many records as the confidential one")
    step = len(draws) // tables
    first = int(rng.integers(step))
    made = []
    with quiet():
        data = synthesiser.blank(columns, held if size is None else size)
        for index in range(first, first + step * tables, step):
            new = _records(synthesiser, draws.one(index), data, rng)
            for _ in range(_AGAIN):
                outside = _outside(new, limits)
                if not outside.any():
                    break
                again = _records(synthesiser, draws.one(index), data, rng)
                for name, values in new.items():
                    new[name] = np.where(outside.reshape(-1, *(1,) * (values.ndim - 1)), again[name], values)
            for name, (low, high) in limits.items():
                new[name] = np.clip(np.nan_to_num(new[name]), low, high)
            made.append({**{name: np.asarray(columns[name]) for name in synthesiser.given}, **new})
    return made


def _outside(table: Mapping[str, npt.NDArray[Any]], limits: Mapping[str, tuple[float, float]]) -> Booleans:
    """Return which records have a value that is outside its bounds, or none."""
    count = len(next(iter(table.values())))
    inside = np.ones(count, dtype=np.bool_)
    for name, (low, high) in limits.items():
        inside &= (table[name] >= low) & (table[name] <= high)
    return ~inside


def _records(
    synthesiser: Synthesiser, one: Mapping[str, Any], data: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, npt.NDArray[Any]]:
    """Return records, one value of each sensitive column for each row of the data, in the unit of the table."""
    key = jnp.asarray(rng.integers(0, 2**32, size=2, dtype=np.uint32))
    try:
        new = redrawn(synthesiser.model, one, data, key)
    except ValueError as error:  # NumPyro's, where a distribution's parameters are not in its domain
        raise ParameterError(
            "the model drew no records, since with some latent values a distribution has parameters outside its "
            "domain, or too large for single precision. Choose a prior or a grid that keeps them inside"
        ) from error
    made = {name: np.asarray(new[name]) for name in synthesiser.sensitive}
    for name, values in made.items():
        if values.shape[:1] != data[name].shape[:1]:
            raise ParameterError(f"site {name!r} does not draw one value per record. Put it in a numpyro.plate")
    return {name: np.asarray(synthesiser.decoded(name, values)) for name, values in made.items()}


def check_draws(tables: int, draws: int) -> None:
    """Check that there is a posterior draw for each table. Raises ParameterError when there are fewer."""
    if tables > draws:
        raise ParameterError(f"{tables} tables need {tables} posterior draws, got {draws}. Raise draws")


def least_product(count: int, value: float) -> float:
    """Return the least float that is not below ``count * value``.

    Examples
    --------
    >>> least_product(2, 0.5), least_product(3, 0.1) > 0.3
    (1.0, True)
    """
    product = count * value
    exact = math.isinf(product) or Fraction(product) >= count * Fraction(value)
    return product if exact else math.nextafter(product, math.inf)


def exact_columns(synthesiser: Synthesiser, survey_weight: str | None) -> tuple[str, ...]:
    """Return the columns that are published as they are: those given, and with them the survey weights."""
    if not synthesiser.given or survey_weight is None or survey_weight in synthesiser.given:
        return synthesiser.given
    return (*synthesiser.given, survey_weight)


def partial_caveats(synthesiser: Synthesiser, survey_weight: str | None) -> tuple[Code, ...]:
    """Return what partial synthesis does not protect."""
    exact = exact_columns(synthesiser, survey_weight)
    if not exact:
        return ()
    return (Code("protected-alone", {"protected": list(synthesiser.sensitive), "exact": list(exact)}),)


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

    posterior: Any
    certified: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.posterior.grid is None:  # else a draw is made for each table
            check_draws(self.posterior.tables, self.posterior.chains * self.posterior.draws)
        weight, unit = self.posterior.survey_weight, self.posterior.unit
        _check(self.domain, self.posterior.synthesiser, tuple(name for name in (weight, unit) if name is not None))
        if weight is not None:
            check_declared(self.domain, weight)
        if unit is not None:
            check_unit_declared(self.domain, unit)

    @property
    def published_exactly(self) -> tuple[str, ...]:
        """The columns that are published as they are: those given, and with them the survey weights."""
        return exact_columns(self.posterior.synthesiser, self.posterior.survey_weight)

    # -- the private step ---------------------------------------------------------------------------------------

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> list[DrawnTable]:
        """Fit the model, and draw the tables: numbers of what is synthesised, codes of what is published exactly."""
        order = rng.permutation(x.n)
        codes = (np.repeat(column, x.frequencies)[order] for column in x.records.columns)
        held = dict(zip(self.domain.names, codes, strict=True))
        columns = {name: numbers_of(self.domain.columns[name], column) for name, column in held.items()}
        exactly = {name: held[name] for name in self.published_exactly}
        sensitive = {name: _within(self.domain.columns[name]) for name in self.posterior.synthesiser.sensitive}
        within = {name: bounds for name, bounds in sensitive.items() if bounds is not None}
        posterior, draws = self.posterior, self.posterior_draws(columns, rng=rng)
        tables = synthetic_tables(
            posterior.synthesiser, draws, columns, tables=posterior.tables, size=posterior.size, rng=rng, within=within
        )
        return [{**table, **exactly} for table in tables]

    @abstractmethod
    def posterior_draws(self, columns: Columns, *, rng: np.random.Generator) -> PosteriorDraws:
        """Fit to confidential columns."""

    def log_prob(self, y: Any, x: Counts) -> float:
        """Raise LawNotAvailable: what a fit gives has no closed form."""
        raise LawNotAvailable(f"the law of the tables of {self.name} is not known")

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the posterior's own guarantee."""
        promised: Guarantee = self.posterior.guarantee(relation, n=n)
        return promised

    # -- its reading --------------------------------------------------------------------------------------------

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return its tables, of their public size or of as many records as are held.

        They lack what is read and not released: survey weights under full synthesis, and units.
        """
        released = {*self.posterior.synthesiser.sensitive, *self.published_exactly}
        columns = {name: column for name, column in self.domain.columns.items() if name in released}
        domain = self.domain if released == set(self.domain.names) else Domain(columns=columns)
        size = n if self.posterior.size is None else self.posterior.size
        return replace(super().contents(n, counts=counts), domain=domain, size=size, tables=self.posterior.tables)

    def reading(self, y: Sequence[DrawnTable], *, n: int) -> Reading:
        """Return the tables as the kernel drew them, which are only decoded."""
        chains = self.parameters()["chains"]
        met = Outcome((_met(chains["refused_beyond"]),)) if self.posterior.grid is None else None
        return TablesOfModel(iter(y), self.contents(n).domain, self.published_exactly, met)

    # -- its parameters -----------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        """Return what its guarantee depends on, and what a reader may want to know of the model and its chains."""
        posterior, synthesiser = self.posterior, self.posterior.synthesiser
        chains = {
            "chains": posterior.chains,
            "draws": posterior.draws,
            "warm_up": posterior.warm_up,
            "doublings": posterior.convergence.doublings,
            "refused_beyond": _limits(posterior.convergence),
        }
        survey = {"weight": posterior.survey_weight, "mean": posterior.survey_mean}
        return {
            "model": synthesiser.function.__name__ if isinstance(synthesiser, FromModel) else repr(synthesiser),
            "synthesised": list(synthesiser.sensitive),
            "published_exactly": list(self.published_exactly),
            "densities_at_most_one": synthesiser.log_density_at_most_zero,
            "tables": posterior.tables,
            "chains": chains,
            **self.own_parameters(),
            **({} if posterior.survey_weight is None else {"survey": survey}),
            **({} if posterior.unit is None else {"unit": posterior.unit}),
            **self.certified,
        }

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
        made = posterior(
            stand_in,
            **own,
            tables=tables,
            draws=tables,
            survey_weight=survey.get("weight"),
            survey_mean=survey.get("mean"),
            unit=parameters.get("unit"),
        )
        certified = {name: parameters[name] for name in ("model", "chains")}
        return cls(domain=domain, posterior=made, certified=certified)

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

    ``exactly``: the columns whose codes are as held. ``met``: limits that the chains met; None where there were none.
    """

    tables: Iterator[DrawnTable]
    domain: Domain
    exactly: tuple[str, ...]
    met: Outcome | None

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Yield the next table, whole."""
        table = next(self.tables)
        codes = (
            table[name] if name in self.exactly else codes_of(column, table[name], name, rng=rng)
            for name, column in self.domain.columns.items()
        )
        yield Records(columns=tuple(codes))

    def outcome(self) -> Outcome | None:
        """Return which limits of convergence the chains met."""
        return self.met


def _no_model(_data: Mapping[str, Any]) -> None:
    raise NotImplementedError  # stands for a model that a certificate names and does not hold


def _check(domain: Domain, synthesiser: Synthesiser, read: tuple[str, ...]) -> None:
    """Refuse a domain that does not fit the synthesiser, and what is read beside it: by public facts alone."""
    wanted = {*synthesiser.sensitive, *synthesiser.given, *read}
    if wanted != set(domain.names):
        odd = sorted(wanted ^ set(domain.names))[0]
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


def _within(column: Column) -> tuple[float, float] | None:
    """Return the bounds of the numbers that are released as values of a column; None for categories."""
    if column.labels is not None or column.open:
        return None
    lower, upper = bounds_of(column)
    half = 0.5 if isinstance(column, Integer) else 0.0  # an integer stands for all numbers that are nearest to it
    return lower - half, upper + half


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


def _limits(convergence: Convergence) -> dict[str, float | None]:
    """Return the limits of convergence that were asked for, None for one that is infinite: it never refuses.

    What was measured of the chains is confidential and not in a certificate; so is how long they became.
    """
    limits = {name: float(getattr(convergence, name)) for name in ("r_hat", "effective", "divergent")}
    return {name: value if math.isfinite(value) else None for name, value in limits.items()}


def _met(limits: Mapping[str, float | None]) -> Code:
    """Say which limits the chains met; others would have been refused."""
    met = {name: limit for name, limit in limits.items() if limit is not None}
    return Code("chains-met", met) if met else Code("chains-unchecked")
