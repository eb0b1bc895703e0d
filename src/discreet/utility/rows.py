"""Tables as measures read them: distinct rows with frequencies, and each column's distinct values. Confidential."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans, Floats, Indices, Integers
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet.domain import Column, Domain

BINS = 20
"""Into how many equal ranges ordered columns with more cells, or without cells, are cut where labels are compared."""

Reader = Callable[[Any], "tuple[pl.DataFrame, Integers]"]


@contextmanager
def problems_of(source: str) -> Iterator[None]:
    """Begin the message of a problem with the data by what they are."""
    try:
        yield
    except DataError as problem:
        raise DataError(problem.column, source + problem.problem, problem.remedy) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The distinct values of one column, and where the rows hold them."""

    name: str
    ordered: bool
    points: Floats  # shape (values,), sorted: coordinates where ordered, or codes of labels; a null is NaN, the last
    labels: Integers  # shape (values,): cells, cut into at most BINS ranges where ordered; a null has its own
    scale: float  # divides coordinates to a range of length 1
    place: Integers  # shape (rows,): which value each row holds

    @property
    def by_row(self) -> Integers:
        """The label that each row holds."""
        return self.labels[self.place]

    def masses(self, frequencies: Integers) -> Integers:
        """Return how many records hold each value."""
        return np.bincount(self.place, weights=frequencies, minlength=len(self.points)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctRows:
    """Distinct rows of a table and how often each occurs, 0 times too."""

    columns: tuple[Values, ...]
    weights: Floats  # the domain's metric weights, shape (columns,)
    frequencies: Integers

    @property
    def size(self) -> int:
        """Number of records."""
        return int(self.frequencies.sum())

    @property
    def present(self) -> Indices:
        """Which rows occur."""
        return np.flatnonzero(self.frequencies)

    @property
    def ordered(self) -> Booleans:
        """Which columns hold coordinates."""
        return np.array([column.ordered for column in self.columns])

    def scaled(self) -> Floats:
        """Return the rows that occur: coordinates scaled to a range of length 1, codes of labels, NaN for nulls."""
        present = self.present
        return np.column_stack([(column.points / column.scale)[column.place[present]] for column in self.columns])

    def bootstrap(self, size: int, rng: np.random.Generator) -> DistinctRows:
        """Return ``size`` records drawn from these with replacement."""
        return replace(self, frequencies=rng.multinomial(size, self.frequencies / self.size))

    def cut(self, size: int, rng: np.random.Generator) -> DistinctRows:
        """Return ``size`` of these records, drawn without replacement."""
        if size >= self.size:
            return self
        return replace(self, frequencies=rng.multivariate_hypergeometric(self.frequencies, size))


def tables(sources: Sequence[tuple[Any, str]], domain: Domain, read: Reader) -> list[DistinctRows]:
    """Read tables, each with what a message about it begins with, on one domain, with one coding of open labels."""
    encoded = []
    for source, name in sources:
        with problems_of(name):
            frame, frequencies = read(source)
            encoded.append(([_encode(*item, frame[item[0]]) for item in domain.columns.items()], frequencies))
    for index, column in enumerate(domain.columns.values()):
        if column.open:
            _number([codings[index] for codings, _ in encoded])
    metric = domain.metric_weights or {}
    weights = np.array([float(metric.get(name, 1.0)) for name in domain.names])
    return [
        DistinctRows(
            columns=tuple(_values(*item, coding) for item, coding in zip(domain.columns.items(), codings, strict=True)),
            weights=weights,
            frequencies=frequencies,
        )
        for codings, frequencies in encoded
    ]


@dataclass(slots=True)
class _Coding:
    """One column of one table, row by row: codes as the domain gives them, and coordinates where there are any."""

    codes: npt.NDArray[Any]
    missing: Booleans
    points: Floats


def compared(column: Column, values: pl.Series, name: str | None = None) -> tuple[npt.NDArray[Any], Booleans]:
    """Return codes of values, of an open column the labels, and which are a null's: a release has reserved labels."""
    if column.open:
        labels = values.cast(pl.String)
        missing = column._nulls_in(values, name).to_numpy() & column.nullable
        return (labels if column.nullable else labels.fill_null("other")).to_numpy().astype(object), missing
    codes = column.encode(values, name=name)
    return codes, np.asarray(codes == column.values if column.finite else np.isnan(codes))


def _encode(name: str, column: Column, values: pl.Series) -> _Coding:
    codes, missing = compared(column, values, name)  # open labels are numbered later
    points = np.full(len(values), np.nan)
    if column.labels is not None:
        points[~missing] = codes[~missing]
    elif not column.open:
        points[~missing] = column.coordinates(values.filter(~missing))
    return _Coding(codes=codes, missing=missing, points=points)


def _number(codings: list[_Coding]) -> None:
    """Give the open labels of all tables numbers, the same label the same number."""
    texts = [coding.codes[~coding.missing].astype(str) for coding in codings]
    numbers = np.unique(np.concatenate(texts), return_inverse=True)[1]
    parts = np.split(numbers, np.cumsum([len(part) for part in texts])[:-1])
    for coding, part in zip(codings, parts, strict=True):
        coding.points[~coding.missing] = part


def _values(name: str, column: Column, coding: _Coding) -> Values:
    points, index, place = np.unique(coding.points, return_index=True, return_inverse=True)
    if column.on_a_line:
        labels = _ranges(column, coding.codes[index], coding.missing[index])
        scale = float(column.scale or 1.0)
    else:
        labels, scale = np.where(np.isnan(points), -1, points).astype(np.int64), 1.0
    return Values(name=name, ordered=column.on_a_line, points=points, labels=labels, scale=scale, place=place)


def _ranges(column: Column, codes: npt.NDArray[Any], missing: Booleans) -> Integers:
    """Return the range of each code of an ordered column; -1 for a null."""
    if not column.finite:
        lower, scale = column.lower, column.scale  # type: ignore[attr-defined]  # columns without cells are numeric
        codes = (np.where(missing, lower, codes) - lower) / (scale or 1.0) * BINS
        return np.where(missing, -1, np.clip(codes.astype(np.int64), 0, BINS - 1))
    cells = (column.size or 1) - int(column.nullable)
    codes = codes.astype(np.int64)
    return np.where(missing, -1, codes if cells <= BINS else codes * BINS // cells)
