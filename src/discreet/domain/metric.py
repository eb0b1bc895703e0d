"""Where records lie: ordered columns as coordinates and back, and the ground distance of a domain as an L1 distance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet.domain.column import Column
from discreet.domain.domain import Domain
from discreet.domain.records import Records


def first_and_last(column: Column) -> tuple[float, float]:
    """Return the positions of an ordered column's first and last cells, or the bounds of a continuous one."""
    ends = np.array([0, column.values - 1]) if column.values is not None else np.array([column.lower, column.upper])  # type: ignore[attr-defined]
    low, high = column.positions(ends).tolist()
    return low, high


def nearest_codes(column: Column, positions: Floats) -> npt.NDArray[np.generic]:
    """Return the codes whose positions are nearest, the smaller one in a tie; what lies outside goes to the end.

    Positions grow with the code, so a bisection finds them on a column of any size.

    Examples
    --------
    >>> from discreet.domain import Integer
    >>> nearest_codes(Integer(lower=10, upper=19), np.array([-3.0, 12.4, 12.5, 99.0])).tolist()
    [0, 2, 2, 9]
    """
    if column.values is None:
        return np.clip(positions, *first_and_last(column))
    low = np.zeros(positions.shape, dtype=np.int64)
    high = np.full(positions.shape, column.values - 1)
    for _ in range((column.values - 1).bit_length()):
        middle = low + (high - low + 1) // 2
        right = column.positions(middle) <= positions
        low, high = np.where(right, middle, low), np.where(right, high, middle - 1)
    above = np.minimum(low + 1, column.values - 1)
    nearer = column.positions(above) - positions < positions - column.positions(low)
    return np.where(nearer, above, low)


def ground_embedding(domain: Domain, records: Records) -> Floats:
    r"""Embed records so that the L1 distance of two embeddings is their ground distance, exactly up to rounding.

    With ``w`` the column's weight in the ground distance: an ordered column is one coordinate,
    :math:`w (x - l)/(u - l)`. Where it has nulls, it is two: :math:`w (x', 1 - x')/2` with ``x'`` the scaled value, and
    :math:`w (3/4, 3/4)` for a null, which is then at distance ``w`` from every value. A column without an order is
    :math:`w/2` at the place of its category (a null is one more), 0 elsewhere: two unequal ones are ``w`` apart.

    The shape is (len(records), d): columns of weight 0 are left out. The domain has no open labels.

    Examples
    --------
    >>> from discreet.domain import Boolean, Integer
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=100, nulls="category"), "smokes": Boolean()})
    >>> points = ground_embedding(domain, Records(columns=(np.array([20, 70, 101]), np.array([1, 0, 0]))))
    >>> [float(np.abs(points[a] - points[b]).sum()) for a, b in ((0, 1), (1, 2), (0, 2))]
    [1.5, 1.0, 2.0]
    """
    weights = domain.metric_weights or {}
    parts = [np.zeros((len(records), 0))]
    for (name, column), codes in zip(domain.columns.items(), records.columns, strict=True):
        weight = weights.get(name, 1.0)
        if weight == 0:
            continue
        if column.on_a_line:
            scaled = (column.positions(codes) - first_and_last(column)[0]) / (column.scale or 1.0)
            pair = np.stack((scaled, 1 - scaled), axis=1) / 2
            parts.append(weight * (np.where(np.isnan(pair), 0.75, pair) if column.nullable else scaled[:, None]))
        else:
            corners = np.zeros((len(codes), column.size or 0))
            corners[np.arange(len(codes)), codes.astype(np.int64)] = weight / 2
            parts.append(corners)
    return np.concatenate(parts, axis=1)


def ground_diameter(domain: Domain) -> float:
    """Return the sum of the columns' weights: no two records are farther apart."""
    weights = domain.metric_weights or {}
    return sum(weights.get(name, 1.0) for name in domain.names)


def refuse_open_labels(domain: Domain, api: str) -> None:
    """Refuse a domain that has a column of open labels. Raises ParameterError naming the first of them."""
    for name, column in domain.columns.items():
        if column.open:
            raise ParameterError(
                f"column {name!r}: the API {api} cannot invent or compare open labels. Use Callables or a text "
                "model, which bring their own embedding, or declare the labels as a category"
            )
