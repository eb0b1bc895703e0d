"""Shapes within cells: nothing was seen of them, so they are draws of the prior."""

from __future__ import annotations

import math

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet.domain import Domain, Numeric, Records

MOST_PIECES = 1 << 26
_LEFT = 1e-6  # expected share of a cell that the last value takes over from the infinitely many that follow


def continuous_domain(domain: Domain) -> Domain:
    """Return the domain whose only column is not cut into cells.

    Raises ParameterError when the domain is not one numeric column of intervals.
    """
    column = next(iter(domain.columns.values()))
    whole = isinstance(column, Numeric) and column.cells is not None and column.step is None and not column.nullable
    if len(domain.columns) != 1 or not whole or column.dtype not in ("float64", "float32"):  # type: ignore[attr-defined]
        raise ParameterError("shapes within cells need a single numeric column of intervals, without step or nulls")
    open_column = Numeric(lower=column.lower, upper=column.upper)  # type: ignore[attr-defined]
    return Domain(columns={domain.names[0]: open_column})


def shapes(domain: Domain, alpha: Floats, masses: Floats, rng: np.random.Generator) -> tuple[Records, Floats]:
    """Draw a Dirichlet process within each cell, uniform base, for each row of masses.

    Raises ParameterError when they are too many to hold.

    Returns
    -------
    records : Records
        ``draws * T`` values, row by row.
    weights : ndarray of float64, shape (draws, T)
        Their masses.
    """
    (column,) = domain.columns.values()
    low, high = (np.asarray(end, dtype=np.float64) for end in column.ends(np.arange(len(alpha))))
    sticks = [max(1, math.ceil(math.log(_LEFT) / math.log(a / (1.0 + a)))) for a in alpha.tolist()]
    if len(masses) * sum(sticks) > MOST_PIECES:
        raise ParameterError("the shapes within cells do not fit in memory. Ask for fewer draws")
    weights = []
    for cell, count in enumerate(sticks):
        broken = rng.beta(1.0, alpha[cell], size=(len(masses), count))
        broken[:, -1] = 1.0
        left = np.cumprod(1.0 - broken, axis=1)
        left = np.concatenate((np.ones((len(masses), 1)), left[:, :-1]), axis=1)
        weights.append(masses[:, cell, None] * broken * left)
    place = np.repeat(np.arange(len(alpha)), sticks)
    values = low[place] + (high - low)[place] * rng.random((len(masses), len(place)))
    return Records(columns=(values.ravel(),)), np.concatenate(weights, axis=1)
