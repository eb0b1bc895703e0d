"""Tables as measures read them: distinct rows with frequencies, and each column's distinct values. Confidential."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans, Floats, Indices, Integers
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet.domain import Domain
from discreet.domain.column import Column

BINS = 20
"""Into how many equal ranges ordered columns with more cells, or without cells, are cut where labels are compared."""

Reader = Callable[[Any], "tuple[pl.DataFrame, Integers]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The distinct values of one column, and where the rows hold them.

    ``points``, shape (v,): sorted: coordinates where ordered, or codes of labels; a null is NaN, the last.
    ``labels``, shape (v,): the label of each: cells, cut into at most :data:`BINS` ranges where ordered; a null has its
    own. ``scale``: divides coordinates to a range of length 1. ``place``, shape (rows,): which value each row holds.
    """

    name: str
    ordered: bool
    points: Floats
    labels: Integers
    scale: float
    place: Integers

    @property
    def by_row(self) -> Integers:
        """The label that each row holds."""
        return self.labels[self.place]

    def masses(self, frequencies: Integers) -> Integers:
        """Return how many records hold each value."""
        return np.bincount(self.place, weights=frequencies, minlength=len(self.points)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Distinct rows of a table and how often each occurs, 0 times too.

    ``weights``, shape (columns,): the domain's metric weights.
    """

    columns: tuple[Values, ...]
    weights: Floats
    frequencies: Integers

    @property
    def size(self) -> int:
        """Number of records."""
        return int(self.frequencies.sum())

    @property
    def held(self) -> Indices:
        """Which rows occur."""
        return np.flatnonzero(self.frequencies)

    @property
    def ordered(self) -> Booleans:
        """Which columns hold coordinates."""
        return np.array([column.ordered for column in self.columns])

    def scaled(self) -> Floats:
        """Return the rows that occur: coordinates scaled to a range of length 1, codes of labels, NaN for nulls."""
        held = self.held
        return np.column_stack([(one.points / one.scale)[one.place[held]] for one in self.columns])

    def resampled(self, size: int, rng: np.random.Generator) -> Rows:
        """Return ``size`` records drawn from these with replacement: a bootstrap sample."""
        return replace(self, frequencies=rng.multinomial(size, self.frequencies / self.size))

    def cut(self, size: int, rng: np.random.Generator) -> Rows:
        """Return ``size`` of these records, drawn without replacement."""
        if size >= self.size:
            return self
        drawn = rng.multivariate_hypergeometric(self.frequencies, size)
        return replace(self, frequencies=drawn)


def tables(sources: list[tuple[Any, str]], domain: Domain, read: Reader) -> list[Rows]:
    """Read tables on one domain, with one coding of open labels.

    ``sources``: each table, and what a message about it begins with.
    """
    read_tables = []
    for source, what in sources:
        try:
            frame, frequencies = read(source)
            coded = [_coded(name, column, frame[name]) for name, column in domain.columns.items()]
        except DataError as problem:
            raise DataError(problem.column, what + problem.problem, problem.remedy) from None
        read_tables.append((coded, frequencies))
    for index, column in enumerate(domain.columns.values()):
        if column.open:
            _number([coded[index] for coded, _ in read_tables])
    metric = domain.metric_weights or {}
    weights = np.array([float(metric.get(name, 1.0)) for name in domain.names])
    return [
        Rows(
            columns=tuple(_values(*item, one) for item, one in zip(domain.columns.items(), coded, strict=True)),
            weights=weights,
            frequencies=frequencies,
        )
        for coded, frequencies in read_tables
    ]


@dataclass(slots=True)
class _Coded:
    """One column of one table, row by row: codes as the domain gives them, and coordinates where there are any."""

    codes: npt.NDArray[Any]
    missing: Booleans
    points: Floats


def _coded(name: str, column: Column, values: pl.Series) -> _Coded:
    missing = column._nulls_in(values, name).to_numpy()
    # A release holds labels of the reserved namespace, so open labels are numbered later, not encoded.
    codes = values.to_numpy() if column.open else column.encode(values, name=name)
    points = np.full(len(values), np.nan)
    if column.labels is not None:
        points[~missing] = codes[~missing]
    elif not column.open:
        points[~missing] = column.coordinates(values.filter(~missing))
    return _Coded(codes=codes, missing=missing, points=points)


def _number(sides: list[_Coded]) -> None:
    """Give the open labels of all tables numbers, the same label the same number."""
    texts = [side.codes[~side.missing].astype(str) for side in sides]
    _, numbers = np.unique(np.concatenate(texts), return_inverse=True)
    start = 0
    for side, own in zip(sides, texts, strict=True):
        side.points[~side.missing] = numbers[start : start + len(own)]
        start += len(own)


def _values(name: str, column: Column, coded: _Coded) -> Values:
    points, first, place = np.unique(coded.points, return_index=True, return_inverse=True)
    ordered = column.on_a_line
    return Values(
        name=name,
        ordered=ordered,
        points=points,
        labels=_labels(column, coded, first) if ordered else np.where(np.isnan(points), -1, points).astype(np.int64),
        scale=float(column.scale or 1.0) if ordered else 1.0,
        place=place,
    )


def _labels(column: Column, coded: _Coded, first: Indices) -> Integers:
    """Return the range of each distinct value of an ordered column; -1 for a null."""
    codes, missing = coded.codes[first], coded.missing[first]
    if not column.finite:
        lower, scale = column.lower, column.scale  # type: ignore[attr-defined]  # columns without cells are numeric
        codes = (np.where(missing, lower, codes) - lower) / (scale or 1.0) * BINS
        return np.where(missing, -1, np.clip(codes.astype(np.int64), 0, BINS - 1))
    cells = (column.size or 1) - int(column.nullable)
    codes = codes.astype(np.int64) if cells <= BINS else codes.astype(np.int64) * BINS // cells
    return np.where(missing, -1, codes)
