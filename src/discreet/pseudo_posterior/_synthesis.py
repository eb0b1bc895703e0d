"""Tables of synthetic records from posterior draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.errors import ParameterError
from discreet._core.lazy import jnp
from discreet.pseudo_posterior._fit import PosteriorDraws
from discreet.pseudo_posterior._likelihood import quiet, redrawn
from discreet.pseudo_posterior._rows import Columns
from discreet.pseudo_posterior._synthesiser import Synthesiser


def synthetic_tables(
    synthesiser: Synthesiser,
    draws: PosteriorDraws,
    columns: Columns,
    *,
    tables: int,
    rng: np.random.Generator,
    size: int | None = None,
) -> list[dict[str, npt.NDArray[Any]]]:
    """Draw tables, each from one posterior draw; the draws used are spread evenly over all, from a random first one.

    Raises ParameterError when there are fewer draws than tables, or a size was asked for beside given columns.

    ``synthesiser``: the model, public.
    ``draws``: what to take parameters from; at least as many as tables.
    ``columns``: the confidential table. What draws the records is handed its given columns, and of the others types
    alone.
    ``tables``: how many.
    ``rng``: source of the choice of draws and of the records.
    ``size``: records a table, where nothing is given; as many as held by default.
    """
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
            key = jnp.asarray(rng.integers(0, 2**32, size=2, dtype=np.uint32))
            new = _records(synthesiser, draws.one(index), data, key)
            table = {name: np.asarray(columns[name]) for name in synthesiser.given}
            table.update({name: synthesiser.decoded(name, new[name]) for name in synthesiser.sensitive})
            made.append(table)
    return made


def _records(synthesiser: Synthesiser, one: Mapping[str, Any], data: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """Return encoded records: one value of each sensitive column for each row of the data."""
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
    return made


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
