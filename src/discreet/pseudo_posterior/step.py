"""A model as a step of the publisher: the confidential table as it is read, and its own tables as they are released.

The certificate is made from public facts alone: the target, never what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans
from discreet._core.errors import DomainError, ParameterError
from discreet._core.lazy import jnp, pl
from discreet._core.random import seeded
from discreet._core.text import as_written
from discreet.domain import Boolean, Category, Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.domain.column import Column
from discreet.domain.metric import nearest_codes
from discreet.privacy import Relation
from discreet.pseudo_posterior.from_domain import bounds_of, sensitive_nulls
from discreet.pseudo_posterior.likelihood import Columns, quiet, redrawn
from discreet.pseudo_posterior.sampler import Convergence, PosteriorDraws
from discreet.pseudo_posterior.survey_and_units import check_declared, check_unit_declared
from discreet.pseudo_posterior.synthesiser import FromModel, Synthesiser
from discreet.releases.step import Step

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

    Raises ParameterError when there are fewer draws than tables, or a size was asked for beside given columns.

    ``synthesiser``: the model, public.
    ``draws``: what to take parameters from; at least as many as tables.
    ``columns``: the confidential table. What draws the records is handed its given columns, and of the others types
    alone.
    ``tables``: how many.
    ``rng``: source of the choice of draws and of the records.
    ``size``: records a table, where nothing is given; as many as held by default.
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


def published_exactly(synthesiser: Synthesiser, survey_weight: str | None) -> tuple[str, ...]:
    """Return the columns that are published as they are: those given, and with them the survey weights."""
    if not synthesiser.given or survey_weight is None or survey_weight in synthesiser.given:
        return synthesiser.given
    return (*synthesiser.given, survey_weight)


def partial_caveats(synthesiser: Synthesiser, survey_weight: str | None) -> tuple[str, ...]:
    """Return what partial synthesis does not protect, in words."""
    exact = published_exactly(synthesiser, survey_weight)
    if not exact:
        return ()
    return (
        f"only {', '.join(synthesiser.sensitive)} is protected, in each record by itself; "
        f"{', '.join(exact)} {'is' if len(exact) == 1 else 'are'} published exactly as held",
    )


_RANDOMNESS = (
    "operating-system entropy, fresh for this release: ChaCha20 keyed with 256 bits of it; each Markov chain and each "
    "table of records runs on a 64-bit key of JAX's counter-based generator, drawn from the former"
)


def model_step(
    posterior: Any,
    domain: Domain,
    drawn: Callable[..., list[dict[str, npt.NDArray[Any]]]],
    *,
    own: Mapping[str, Any],
    name: str,
    size: int | None = None,
    exact: bool = False,
) -> Step:
    """Return the step of a posterior on a domain.

    ``posterior``: public facts.
    ``domain``: public: the one that the confidential table was encoded with. It must hold the synthesiser's columns,
    those of survey weights and units and no others, none of them open labels, and no sensitive one with nulls. The
    model reads codes ``0, 1, ..`` of categories and booleans, of which a null is the last, and numbers in the unit of
    :meth:`~discreet.domain.Column.positions` of all others (days since 1970-01-01 for dates, seconds for datetimes and
    durations), of which a null is NaN.
    ``drawn``: ``drawn(columns, rng=, within=)`` fits to confidential columns and draws the tables, within the domain's
    bounds.
    ``own``, ``name``: what its guarantee depends on beside the number of tables, and what it is called, in the
    certificate.
    ``size``, ``exact``: a public number of records of each table, as many as are held by default; whether no Markov
    chain is run.

    Raises DomainError when a column has open labels, or is sensitive and may hold nulls, or ParameterError when the
    domain and the synthesiser do not name the same columns.
    """
    synthesiser: Synthesiser = posterior.synthesiser
    weight: str | None = posterior.survey_weight
    read = tuple(name for name in (weight, posterior.unit) if name is not None)
    _check(domain, synthesiser, read)
    if weight is not None:
        check_declared(domain, weight)
    if posterior.unit is not None:
        check_unit_declared(domain, posterior.unit)
    limits = _limits(posterior.convergence)
    within = {name: bounds for name in synthesiser.sensitive if (bounds := _within(domain.columns[name])) is not None}
    exact_columns = published_exactly(synthesiser, weight)
    released = {name: domain.columns[name] for name in domain.names if name in {*synthesiser.sensitive, *exact_columns}}
    shown = domain if len(released) == len(domain.names) else Domain(columns=released)

    def run(x: Any, *, rng: np.random.Generator) -> list[dict[str, npt.NDArray[Any]]]:
        if not isinstance(x, Counts):
            raise ParameterError("a model does not read a table in parts. Give it the counts of confidential()")
        order = rng.permutation(x.n)
        codes = (np.repeat(column, x.frequencies)[order] for column in x.records.columns)
        held = dict(zip(domain.names, codes, strict=True))
        columns = {name: numbers_of(domain.columns[name], column) for name, column in held.items()}
        given = {name: held[name] for name in exact_columns}  # codes, which are released as they are held
        return [{**table, **given} for table in drawn(columns, rng=rng, within=within)]

    def frames(output: Any, *, rng: np.random.Generator) -> Iterator[Iterator[pl.DataFrame]]:
        for table in output:
            codes = [
                table[name] if name in exact_columns else codes_of(column, table[name], name, rng=rng)
                for name, column in shown.columns.items()
            ]
            yield iter([shown.decode(Records(columns=tuple(codes)), rng=rng)])

    def pure(relation: Relation) -> tuple[float, float]:
        each = posterior.epsilon_each(relation)
        return least_product(posterior.tables, each), each

    return Step(
        name=name,
        parameters={
            "model": synthesiser.function.__name__ if isinstance(synthesiser, FromModel) else repr(synthesiser),
            "synthesised": list(synthesiser.sensitive),
            "published_exactly": list(exact_columns),
            "densities_at_most_one": synthesiser.log_density_at_most_zero,
            "tables": posterior.tables,
            "chains": {
                "chains": posterior.chains,
                "draws": posterior.draws,
                "warm_up": posterior.warm_up,
                "doublings": posterior.convergence.doublings,
                "refused_beyond": limits,
            },
            **own,
            **({} if weight is None else {"survey": {"weight": weight, "mean": posterior.survey_mean}}),
            **({} if posterior.unit is None else {"unit": posterior.unit}),
        },
        domain=domain,
        run=run,
        frames=frames,
        guarantee=posterior.guarantee,
        rows=lambda n: range(n, n + 1) if size is None else range(size, size + 1),
        utility=_utility,
        tables=posterior.tables,
        protected=tuple(synthesiser.sensitive) if synthesiser.given else (),
        pure=pure,
        empty=None if shown is domain else shown.decode(shown.draw_base(0, seeded(0)), rng=seeded(0)),
        outcome=lambda _reading: {} if exact else {"outcome": _met(limits)},
        randomness=_RANDOMNESS,
    )


def _utility(_n: int) -> dict[str, Any]:
    """Say that nothing is known beforehand: a model gives its own values wherever it does not fit."""
    words = "how near the tables come to the data depends on how well the model fits, which no number tells beforehand"
    return {"share_not_from_data": None, "share_at_most": 1.0, "share_in_words": words}


def _check(domain: Domain, synthesiser: Synthesiser, read: tuple[str, ...]) -> None:
    """Refuse a domain that does not fit the synthesiser, and what is read beside it: by public facts alone."""
    wanted = {*synthesiser.sensitive, *synthesiser.given, *read}
    if wanted != set(domain.names):
        odd = sorted(wanted ^ set(domain.names))[0]
        raise ParameterError(f"column {odd!r}: the domain and the synthesiser must name the same columns")
    for name, column in domain.columns.items():
        if isinstance(column, OpenLabels):
            raise DomainError(
                f"column {name!r}: a model cannot have open labels. Declare the column as a category, or leave it out"
            )
        if column.nullable and name in synthesiser.sensitive:
            raise sensitive_nulls(name)


def numbers_of(column: Column, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what a model reads: codes of categories; values (or the middles of cells) of all others, null as NaN."""
    if isinstance(column, (Boolean, Category)):
        return np.asarray(codes)
    return np.asarray(column.positions(codes), dtype=np.float64)


def _within(column: Column) -> tuple[float, float] | None:
    """Return the bounds of the numbers that are released as values of a column; None for categories."""
    if isinstance(column, (Boolean, Category, OpenLabels)):
        return None
    lower, upper = bounds_of(column)
    half = 0.5 if isinstance(column, Integer) else 0.0  # an integer stands for all numbers that are nearest to it
    return lower - half, upper + half


def codes_of(column: Column, values: npt.NDArray[Any], name: str, *, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return the codes of synthetic values: those outside the bounds go to them, and all to the nearest point."""
    if isinstance(column, (Boolean, Category)):
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


def _met(limits: Mapping[str, float | None]) -> str:
    """Say in words which limits the chains met; others would have been refused."""
    forms = {
        "r_hat": "R-hat at most {}",
        "effective": "at least {} effective draws per chain",
        "divergent": "a share of divergent transitions of at most {}",
    }
    met = [form.format(as_written(limit)) for name, form in forms.items() if (limit := limits[name]) is not None]
    if not met:
        return "the Markov chains were not checked: no limit of convergence was set"
    return f"the Markov chains met the limits of convergence: {', '.join(met)}"
