"""A model's data, record by record: arrays with one row per record, and arrays that belong to all records together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.errors import ParameterError
from discreet._core.lazy import jnp

SHARED = "shared: "
"""How the names of arrays begin that belong to all records together."""

SURVEY = "survey: weight"
"""The array of survey weights, beside those that a model reads: it multiplies log-likelihoods, and no model sees it."""

Columns = Mapping[str, npt.NDArray[Any]]
"""Columns of a table, one entry per record: numbers, and codes ``0, 1, ..`` of categories."""


def records_of(data: Mapping[str, Any]) -> int:
    """Return the number of records of encoded data.

    Raises ParameterError when the arrays disagree on it, or there is none.
    """
    counts = {len(value) for name, value in data.items() if not name.startswith(SHARED)}
    if len(counts) != 1 or 0 in counts:
        raise ParameterError("every array of the model's data must have one row per record")
    return counts.pop()


def rows(data: Mapping[str, Any], index: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the data of some records, in memory of their own: what belongs to all of them stays."""
    return {
        name: np.asarray(value) if name.startswith(SHARED) else _owned(np.asarray(value)[index])
        for name, value in data.items()
    }


def _owned(taken: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values that lead to no others: a view would, through its base."""
    return taken if taken.base is None else taken.copy()


def repeated(row: npt.ArrayLike, count: int) -> npt.NDArray[Any]:
    """Return an array of one row, as often as that."""
    return np.repeat(np.asarray(row), count, axis=0)


def without(data: Mapping[str, Any], sensitive: Collection[str]) -> dict[str, Any]:
    """Return the data with zeros for the sensitive columns, whose shapes and types alone are used."""
    return {name: jnp.zeros_like(value) if name in sensitive else value for name, value in data.items()}
