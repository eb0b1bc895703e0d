"""Tables of synthetic records from posterior draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans
from discreet._core.errors import ParameterError
from discreet._core.lazy import jnp
from discreet.pseudo_posterior._fit import PosteriorDraws
from discreet.pseudo_posterior._likelihood import quiet, redrawn
from discreet.pseudo_posterior._rows import Columns
from discreet.pseudo_posterior._synthesiser import Synthesiser

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
