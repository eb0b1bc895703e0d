"""Tables of synthetic records from posterior draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import ParameterError
from discreet.pseudo_posterior._fit import PosteriorDraws
from discreet.pseudo_posterior._likelihood import quiet, redrawn
from discreet.pseudo_posterior._synthesiser import Columns, Synthesiser, records_of, rows

__all__ = ["check_draws", "partial_caveats", "synthetic_tables"]


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

    Parameters
    ----------
    synthesiser : Synthesiser
        The model, public.
    draws : PosteriorDraws
        What to take parameters from; at least as many as tables.
    columns : mapping of str to ndarray
        The confidential table; only its given columns, and its number of records, reach the output.
    tables : int
        How many.
    rng : numpy.random.Generator
        Source of the choice of draws and of the records.
    size : int, optional
        Records a table, where nothing is given.

    Raises
    ------
    ParameterError
        When there are fewer draws than tables, or a size was asked for beside given columns.
    """
    check_draws(tables, len(draws))
    data = synthesiser.encoded(columns)
    held = records_of(data)
    if size is not None and size != held:
        if synthesiser.given:
            raise ParameterError("a partially synthetic table has as many records as the confidential one")
        data = rows(data, np.resize(np.arange(held), size))
    step = len(draws) // tables
    first = int(rng.integers(step))
    made = []
    with quiet():
        import jax.numpy as jnp

        for index in range(first, first + step * tables, step):
            key = jnp.asarray(rng.integers(0, 2**32, size=2, dtype=np.uint32))
            new = redrawn(synthesiser.model, draws.one(index), data, key)
            table = {name: np.asarray(columns[name]) for name in synthesiser.given}
            table.update({name: synthesiser.decoded(name, new[name]) for name in synthesiser.sensitive})
            made.append(table)
    return made


def check_draws(tables: int, draws: int) -> None:
    """Check that there is a posterior draw for each table.

    Raises
    ------
    ParameterError
        When there are fewer.
    """
    if tables > draws:
        raise ParameterError(f"{tables} tables need as many posterior draws, and there are {draws}: raise draws")


def partial_caveats(synthesiser: Synthesiser) -> tuple[str, ...]:
    """Return what partial synthesis does not protect, in words."""
    if not synthesiser.given:
        return ()
    return (
        f"only {', '.join(synthesiser.sensitive)} is protected, in each record by itself; "
        f"{', '.join(synthesiser.given)} {'is' if len(synthesiser.given) == 1 else 'are'} published exactly as held",
    )
