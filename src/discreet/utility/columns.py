"""Tables as measures read them, and one column of the confidential table against the same column of a release."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet._core.numeric import Booleans, Floats, Indices, Integers
from discreet.confidential import Confidential, column_values, linked_rows, open_confidential, row_values
from discreet.domain import Column, Domain, moment_text
from discreet.utility.distances import ks_distance, summary, total_variation, wasserstein_1d

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
    unit_columns: int = 0  # that come first, of linked tables: pairs are of one of them and another column

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


def compared(column: Column, values: pl.Series, name: str | None) -> tuple[npt.NDArray[Any], Booleans]:
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


IN_RELEASE = "in the release: "
"""How a message about the released table begins."""


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnComparison:
    """One column of the confidential table against the same column of the release. Confidential.

    ``name``, ``kind``: the column, and its declared type.
    ``metric``: what the distance is measured with, in words.
    ``wasserstein``: Wasserstein-1 distance between the values that are not null: in the column's own unit (days for
    dates, seconds for datetimes and durations), in ranks over ``K - 1`` for ordered categories, the total variation for
    unordered ones, nulls included there. None where a side holds nulls only.
    ``wasserstein_scaled``: the same, divided by ``upper - lower``: between 0 and 1 whatever the column.
    ``ks``: Kolmogorov-Smirnov distance; None for unordered columns.
    ``null_shares``: share of nulls in the table and in the release.
    ``data``, ``release``: Summary of each side's values; None for columns without arithmetic.
    ``shares``: share of each declared category in the table and in the release.
    """

    name: str
    kind: str
    metric: str
    wasserstein: float | None
    wasserstein_scaled: float | None
    ks: float | None
    null_shares: tuple[float, float]
    data: dict[str, float] | None = None
    release: dict[str, float] | None = None
    shares: dict[str, tuple[float, float]] | None = None


def compare_column(data: Any, release: Any, name: str, column: Column) -> tuple[ColumnComparison, int, int]:
    """Return one column's comparison, and the numbers of confidential and of released records."""
    codings, frequencies = [], []
    for source, where in ((data, ""), (release, IN_RELEASE)):
        with problems_of(where):
            values, numbers = open_confidential(column_values(source, name, column), caller=__name__)
            codings.append(_encode(name, column, values))
            frequencies.append(numbers)
    if column.open:
        _number(codings)
    sides = list(zip(codings, frequencies, strict=True))
    (x, y), (n, m) = ([coding.points[~coding.missing] for coding in codings], map(int, map(np.sum, frequencies)))
    x_weights, y_weights = (numbers[~coding.missing] for coding, numbers in sides)
    x_nulls, y_nulls = (int(numbers[coding.missing].sum()) for coding, numbers in sides)
    fields: dict[str, Any] = dict.fromkeys(("wasserstein", "wasserstein_scaled", "ks"))
    if not column.on_a_line:  # nulls count as one more label
        weights = {"x_weights": np.append(x_weights, x_nulls), "y_weights": np.append(y_weights, y_nulls)}
        distance = total_variation(np.append(x, np.inf), np.append(y, np.inf), **weights)
        fields |= {"wasserstein": distance, "wasserstein_scaled": distance, "metric": "0 or 1 (total variation)"}
    else:
        fields["metric"] = column.position_unit or "the column's unit"
        if len(x) and len(y):
            distance = wasserstein_1d(x, y, x_weights=x_weights, y_weights=y_weights)
            fields |= {"wasserstein": distance, "wasserstein_scaled": distance / (column.scale or 1.0)}
            fields["ks"] = ks_distance(x, y, x_weights=x_weights, y_weights=y_weights)
        if column.labels is not None:
            fields |= {"wasserstein": fields["wasserstein_scaled"], "metric": "rank / (K - 1)"}
    samples = {"data": (x, x_weights, n), "release": (y, y_weights, m)}
    if column.words:
        counts = (np.bincount(p.astype(np.int64), w, len(column.words)) / size for p, w, size in samples.values())
        shares = zip(*(part.tolist() for part in counts), strict=True)
        fields["shares"] = dict(zip(column.words, shares, strict=True))
    elif column.on_a_line:
        fields |= {side: summary(points, weight) for side, (points, weight, _) in samples.items() if len(points)}
    return ColumnComparison(name=name, kind=column.kind, null_shares=(x_nulls / n, y_nulls / m), **fields), n, m


# Shares of a column's values in a few bins, for a picture. The bins are public, made from the declared domain and the
# released values: the confidential values never choose them.

_MOST_BINS, _MOST_WAYS = 40, 12  # of a column alone, and of two together
_TAIL = 0.005  # share of the released records that a picture may leave out at either end


class Shares(NamedTuple):
    """Shares of the records of one column: in each bin, beyond all bins, and without a value."""

    bins: npt.NDArray[np.float64]
    beyond: float
    nulls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Where the values of a column are counted for a picture. Public."""

    column: Column
    names: tuple[str, ...]
    starts: tuple[str, ...] = ()  # the cuts in words
    points: bool = False  # whether each bin is one value
    cuts: npt.NDArray[np.float64] | None = None  # if ordered, the ends of the bins, in cells or coordinates
    labels: tuple[Any, ...] = ()  # if not, the label (or the cell) of each bin

    def places(self, values: pl.Series) -> Integers:
        """Return the bin of each value: one above the last where it is beyond them, one more where it is null."""
        codes, missing = compared(self.column, values, values.name or None)
        line = codes[~missing]
        if self.cuts is not None:
            place = np.searchsorted(self.cuts, line, side="right") - 1
            if self.column.size is None:  # the last interval holds its upper end
                place[line == self.cuts[-1]] = len(self.names) - 1
            place[(place < 0) | (place >= len(self.names))] = len(self.names)
        else:
            numbers = {label: i for i, label in enumerate(self.labels)}
            place = np.array([numbers.get(label, len(self.names)) for label in line.tolist()], dtype=np.int64)
        places = np.full(len(codes), len(self.names) + 1)
        places[~missing] = place
        return places

    def shares(self, values: pl.Series, weights: npt.NDArray[Any]) -> Shares:
        """Return the share of each bin among values with weights; a negative sum of noisy counts is taken as 0."""
        counts = np.maximum(np.bincount(self.places(values), weights=weights, minlength=len(self.names) + 2), 0.0)
        shares = counts / (counts.sum() or 1.0)
        return Shares(shares[:-2], float(shares[-2]), float(shares[-1]))


def bins_of(column: Column, values: pl.Series, weights: npt.NDArray[Any], most: int = _MOST_BINS) -> Bins:
    """Choose bins for a public column: whole cells that cover the released values, or its commonest labels."""
    codes, missing = compared(column, values, values.name or None)
    line = codes[~missing]
    weight = np.maximum(np.asarray(weights, dtype=np.float64)[~missing], 0.0)
    if column.open or column.labels is not None:
        return _labels_of_bins(column, line, weight, most)
    if not weight.sum() > 0:
        return Bins(column=column, names=())
    low, high = _range(line, weight)
    if column.size is not None:
        return _cells_of_bins(column, int(low), int(high), most)
    cuts = np.linspace(low, high, most + 1) if high > low else np.array([low, np.nextafter(low, math.inf)])
    starts = tuple(shown(column.kind, cut, 4) for cut in cuts)
    names = tuple(f"{a} to {b}" for a, b in pairwise(starts))
    return Bins(column=column, names=names, starts=starts, cuts=cuts)


def confidential_shares(data: Any, domain: Domain, bins: Mapping[str, Bins]) -> Confidential[dict[str, Shares]]:
    """Return the closed shares of a confidential table's records in public bins; no error's message holds a value."""
    shares, tables, columns = {}, [data], domain.row_domain.columns
    if domain.units is not None:
        linked = open_confidential(linked_rows(data, domain), caller=__name__)
        tables = [*linked.values()]  # of which the units' own columns are in all
    for name, column_bins in bins.items():
        table = next((part for part in tables[:-1] if name in part.columns), tables[-1])
        values, frequencies = open_confidential(column_values(table, name, columns[name]), caller=__name__)
        shares[name] = column_bins.shares(values, frequencies)
    return Confidential(shares)


class PairShares(NamedTuple):
    """Shares of the records in the bins of two columns; those of each column may be beyond all bins, or null."""

    names: tuple[str, str]
    bins: list[list[str]]
    released: Floats  # shape (bins of the first, bins of the second)
    confidential: Floats
    dependence: float  # what share of the confidential records other ones would be were the columns independent
    loss: float  # what share of the released records are in other bins than the confidential ones

    @property
    def largest(self) -> list[tuple[str, str, float, float]]:
        """The bins that differ most, and their shares."""
        order = np.argsort(-np.abs(self.released - self.confidential), axis=None, kind="stable")[:8]
        places = zip(*np.unravel_index(order, self.released.shape), strict=True)
        return [(self.bins[0][i], self.bins[1][j], self.released[i, j], self.confidential[i, j]) for i, j in places]


def confidential_pairs(
    data: Any, release: Any, columns: Mapping[str, Column], most: int = 6
) -> Confidential[list[PairShares]]:
    """Return the closed pairs of columns with the greatest dependence, and of the others those with the most loss."""
    sides, bins, pairs = [], dict[str, Bins](), []
    for source, where in ((release, IN_RELEASE), (data, "")):
        with problems_of(where):
            rows, weights = open_confidential(row_values(source, columns), caller=__name__)
            bins = bins or {name: bins_of(column, rows[name], weights, _MOST_WAYS) for name, column in columns.items()}
            sides.append(({name: bins[name].places(rows[name]) for name in bins}, weights / weights.sum()))
    for a, b in combinations(columns, 2):
        names = [np.array([*bins[name].names, "other values", "null"]) for name in (a, b)]
        m, n = map(len, names)
        shares = np.reshape([np.bincount(code[a] * n + code[b], w, m * n) for code, w in sides], (2, m, n))
        independent = np.outer(shares[1].sum(axis=1), shares[1].sum(axis=0))
        distances = [float(np.abs(shares[1] - table).sum() / 2) for table in (independent, shares[0])]
        used = [shares.sum(axis=axes) > 0 for axes in ((0, 2), (0, 1))]
        labels = [texts[mask].tolist() for texts, mask in zip(names, used, strict=True)]
        pairs.append(PairShares((a, b), labels, *shares[:, used[0]][:, :, used[1]], *distances))
    pairs.sort(key=lambda pair: -pair.dependence)
    return Confidential(pairs[:most] + sorted(pairs[most:], key=lambda pair: -pair.loss)[:most])


def shown(kind: str, value: float, digits: int = 6) -> str:
    """Write a coordinate of a column of this kind: dates and times as such, other numbers in so many digits."""
    if kind == "duration":
        return str(dt.timedelta(seconds=round(float(value))))
    return moment_text(kind, value, timespec="minutes") or f"{float(f'{value:.{digits}g}'):,.12g}"


def _range(line: npt.NDArray[Any], weight: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the values, or of all but a tail where that would take more than a third of the picture."""
    order = np.argsort(line)
    ordered, masses = np.asarray(line[order], dtype=np.float64), np.cumsum(weight[order])
    positive = ordered[weight[order] > 0]
    low, high = float(positive[0]), float(positive[-1])
    inner_low, inner_high = ordered[np.searchsorted(masses, [_TAIL * masses[-1], (1.0 - _TAIL) * masses[-1]])].tolist()
    third = (high - low) / 3
    return inner_low if inner_low - low > third else low, inner_high if high - inner_high > third else high


def _cells_of_bins(column: Column, low: int, high: int, most: int) -> Bins:
    step = -(-(high - low + 1) // most)
    begins = np.arange(low, high + 1, step)
    lasts = np.minimum(begins + step - 1, (column.values or 1) - 1)
    lower, upper = column.ends(begins)[0], column.ends(lasts)[1]
    points = bool((lower == upper).all())
    starts = tuple(shown(column.kind, cut, 6 if points else 4) for cut in (*lower, upper[-1]))
    names = starts[:-1]
    if not points:
        names = tuple(f"{shown(column.kind, a)} to {shown(column.kind, b)}" for a, b in zip(lower, upper, strict=True))
    cuts = np.append(begins, lasts[-1] + 1).astype(np.float64)
    return Bins(column=column, names=names, starts=starts, points=points, cuts=cuts)


def _labels_of_bins(column: Column, line: npt.NDArray[Any], weight: npt.NDArray[np.float64], most: int) -> Bins:
    """Return the most frequent labels, those that are declared in their order."""
    if column.open:
        labels, places = np.unique(line, return_inverse=True)
        words = tuple(labels.tolist())
    else:
        words, labels, places = column.words, np.arange(len(column.words)), line.astype(np.int64)
    commonest = np.argsort(-np.bincount(places, weights=weight, minlength=len(words)), kind="stable")[:most]
    if not column.open:
        commonest = np.sort(commonest)
    names = tuple(words[index] for index in commonest.tolist())
    return Bins(column=column, names=names, labels=tuple(labels[commonest].tolist()))
