"""The Wasserstein-1 distance that a release will have from its table, predicted from public facts alone.

Each mechanism's own kernel and reading are run on an invented table: a public reference table scaled to ``n`` records
where there is one, else the inner half of the base measure (a table distributed as the base measure itself would make a
release of nothing but prior look perfect). What drawing ``size`` records adds is integrated in closed form.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.errors import DomainError
from discreet._core.lazy import pl
from discreet._core.random import approximate, seeded
from discreet.domain import Column, Commonness, Counts, Domain, Records, inner_half, invented_records
from discreet.mechanisms import Forecast, Mechanism

_MOST_CELLS = 1 << 22
_BASE_DRAWS = 4096
_ELSEWHERE = 4096  # records of the base measure that an invented table has none of: a release may
_WITHIN = 8
_LISTED = 1 << 16  # values of a column
_DRAWN = 1 << 16  # records that stand for a law of which only draws are known

_Shares = tuple[Any, Floats]  # codes of a column, and the share of the records that has each


@dataclass(frozen=True, eq=False)
class Reference:
    """A public table that the confidential one is expected to look like."""

    table: pl.DataFrame | None = None

    @classmethod
    def of(cls, data: Any, domain: Domain) -> Reference:
        """Read a public table's declared columns from a dataframe or a path.

        Raises DataError when it does not fit the domain.
        """
        if data is None or isinstance(data, Reference):
            return data or cls()
        from discreet.confidential import public_table

        return cls(public_table(data if not isinstance(data, os.PathLike) else os.fspath(data), domain))

    def shares(self, domain: Domain) -> tuple[Records, Floats]:
        """Return the support records and the share of each: all cells where they are few enough."""
        size = domain.size
        cells = domain.unflat(np.arange(size)) if size is not None and size <= _MOST_CELLS else None
        if self.table is None:
            if cells is None:
                invented, elsewhere = invented_records(domain), domain.draw_base(_ELSEWHERE, seeded(0))
                records = Records.concatenate([invented, elsewhere])
                index, counts = _distinct(records, held=len(invented))
                return records.take(index), counts / len(invented)
            inner = np.ones(1)
            for column in domain.columns.values():  # the last one changes fastest from cell to cell
                codes = np.arange(column.size or 0)
                inner = np.outer(inner, np.exp(column.log_base(codes)) * inner_half(column, codes)).ravel()
            return cells, inner / inner.sum()
        records = domain.encode(self.table)
        if cells is not None:
            shares = np.bincount(domain.flat(records), minlength=len(cells)) / len(records)
            return cells, shares
        index, counts = _distinct(records)
        return records.take(index), counts / len(records)

    def commonness(self, domain: Domain) -> Commonness | None:
        """Return how common the table's records are on a domain; None where there is no table."""
        if self.table is None:
            return None
        return Commonness.of_counts(_distinct(domain.encode(self.table))[1], cells=domain.size)


def common(reference: Any, domain: Domain) -> Commonness | None:
    """Return how common the records of a public reference table are; None without one.

    Raises DataError when it does not fit the domain.
    """
    return Reference.of(reference, domain).commonness(domain)


def places(records: Records) -> Integers:
    """Return the number of each record among the distinct ones, in the order in which they come."""
    first: dict[Any, int] = {}
    return np.array([first.setdefault(row, len(first)) for row in records.rows()], dtype=np.int64)


def _distinct(records: Records, held: int | None = None) -> tuple[Any, Any]:
    """Return the places of the first of each distinct record, and how often it occurs among the first ``held``."""
    place = places(records)
    _, index = np.unique(place, return_index=True)
    return index, np.bincount(place[:held], minlength=len(index))


def predicted_w1(
    mechanism: Mechanism, *, n: int, size: int, reference: Reference | None = None, draws: int | None = None
) -> float:
    """Predict the Wasserstein-1 distance between a release and the confidential table, from public facts alone.

    The arguments are those of :func:`predicted_errors`.
    Returns: in the column's unit for a single numeric or temporal column, else the sum over columns on the scaled
    ground metric, each column's marginal distribution by itself.
    """
    errors = predicted_errors(mechanism, n=n, size=size, reference=reference, draws=draws)
    return summed(mechanism.domain, errors)


def predicted_errors(
    mechanism: Mechanism, *, n: int, size: int, reference: Reference | None = None, draws: int | None = None
) -> dict[str, float]:
    """Predict the Wasserstein-1 distance of each column of a release to the same column of the confidential table.

    Notes
    -----
    With ``F`` the reference's distribution function and ``G`` that of the records' law after one run of the kernel, a
    column's error is the mean over such runs of the integral of ``E|G - F + Z|``, where ``Z`` is normal with the
    variance of drawing ``size`` records: the mean of a folded normal. An invented table does not say where in its cells
    its values are, and a twelfth of their mean width is added: as if a quarter of the records held values that many
    share, each a third of a width from a value put anywhere in its cell. The prediction is as good as the reference is
    like the table.
    """
    reference = reference or Reference()
    domain = mechanism.domain
    support, shares = reference.shares(domain)
    forecast = mechanism.forecast(n)
    most = forecast.draws if draws is None else min(draws, forecast.draws)
    runs = max(min(2, most), min(most, (1 << 19) // len(shares)))
    if forecast.rest and math.isinf(forecast.urn):  # nothing is drawn
        runs = 1
    # where the kernel draws the records, their counts are its own
    exact = forecast.stratified or not (forecast.rest or mechanism.contents(n).size is None)
    sample = _Sample(max(1.0, size * forecast.released_share), len(domain.columns), exact)
    laws = zip(*released_shares(mechanism, support, shares, n=n, runs=runs), strict=True)
    widths = _width_errors(domain) if reference.table is None else dict.fromkeys(domain.names, 0.0)
    return {
        name: widths[name] + _in_unit(column, _column_error(name, column, (codes, shares), law, sample, reference))
        for (name, column), codes, law in zip(domain.columns.items(), support.columns, laws, strict=True)
    }


def released_shares(
    mechanism: Mechanism, support: Records, shares: Floats, *, n: int, runs: int
) -> Iterator[Sequence[_Shares]]:
    """Yield the shares of each column that records are drawn with, after several runs on a public table.

    An evolution reads a table drawn from these shares, any other kernel one that has them, in whole numbers.
    """
    forecast = mechanism.forecast(n, Commonness.of_counts(shares, cells=mechanism.domain.size))
    table = _table(support, np.diff(np.rint(n * np.cumsum(shares)), prepend=0.0).astype(np.int64))
    for rng in map(approximate, range(runs)):
        if forecast.rest:
            yield _continued(mechanism.domain, support, shares, forecast, rng)
            continue
        if forecast.stand_in:
            table = _table(support, rng.multinomial(n, shares / shares.sum()))
        made = forecast.stand_in or mechanism
        reading = made.reading(made.kernel(table, rng=rng), n=n)
        columns = reading.column_shares(rng=rng)
        if columns is None:
            records = Records.concatenate(list(reading.draw(mechanism.contents(n).size or _DRAWN, rng=rng)))
            columns = [(codes, np.full(len(records), 1.0 / len(records))) for codes in records.columns]
        yield columns


def _table(support: Records, frequencies: Integers) -> Counts:
    held = np.flatnonzero(frequencies)
    return Counts(records=support.take(held), frequencies=frequencies[held])


def _continued(
    domain: Domain, support: Records, shares: Floats, forecast: Forecast, rng: np.random.Generator
) -> list[_Shares]:
    """Return the shares of many records that are the table's but for a share; those of an urn are drawn."""
    law, rest = (1.0 - forecast.lost) * shares, forecast.lost
    if len(support) == domain.size:
        uniform = forecast.rest == "uniform"
        law += rest * (1.0 / len(support) if uniform else np.exp(domain.log_base(support)))
        rest = 0.0
    if math.isfinite(forecast.urn):
        weights = rng.standard_gamma(forecast.urn * np.append(law, rest))
        law = weights[:-1] / weights.sum()
    return [(codes, law) for codes in support.columns]


def width_error(domain: Domain) -> float:
    """Return the error that the width of cells is taken for: a twelfth of what cells of an invented table have."""
    return summed(domain, {name: _in_unit(domain.columns[name], w) for name, w in _width_errors(domain).items()})


def _width_errors(domain: Domain) -> dict[str, float]:
    moved = {}
    for name, column in domain.columns.items():
        cells = np.arange(column.size) if column.size is not None and column.size <= _MOST_CELLS else None
        low, high = (None, None) if cells is None else _ends(column, cells)
        if cells is None or low is None or high is None:
            moved[name] = 0.0
            continue
        shares = np.exp(column.log_base(cells)) * inner_half(column, cells)
        moved[name] = float(shares @ np.nan_to_num(high - low)) / (12.0 * float(shares.sum()))
    return moved


def _in_unit(column: Column, moved: float) -> float:
    """Return a distance of positions in the unit that is shown: ranks over ``K - 1`` for categories."""
    return moved / (column.scale or 1.0) if column.labels is not None else moved


def summed(domain: Domain, errors: Mapping[str, float]) -> float:
    """Return the columns' errors together: a single one in its own unit, several on the scaled ground metric."""
    if len(errors) == 1:
        return next(iter(errors.values()))
    weights = domain.metric_weights or {}
    scaled = {
        name: each if (column := domain.columns[name]).labels is not None else each / (column.scale or 1.0)
        for name, each in errors.items()
    }
    return sum(weights.get(name, 1.0) * each for name, each in scaled.items())


def sampling_errors(domain: Domain, size: int, reference: Reference) -> dict[str, float]:
    """Return the errors that independent records drawn from the table itself are predicted to have: without privacy."""
    support, shares = reference.shares(domain)
    sample = _Sample(float(size), len(domain.columns), stratified=False)
    own = {name: (codes, shares) for name, codes in zip(domain.names, support.columns, strict=True)}
    return {
        name: _in_unit(column, _column_error(name, column, own[name], [own[name]], sample, reference))
        for name, column in domain.columns.items()
    }


@dataclass(frozen=True, slots=True)
class _Sample:
    """How many records are drawn from a law, in how many columns, and whether stratified."""

    size: float
    columns: int
    stratified: bool

    def variance(self, law: Floats, start: Floats, mass: Floats) -> Floats:
        """Return the variance of the share of drawn records below some points of one column.

        Notes
        -----
        Stratified records are as many as the law says below the end of each cell, but for a fraction of a record, in
        ``size^((d-1)/d)`` runs of neighbouring cells where there are ``d`` columns; within cells they are independent.
        """
        independent = law * (1.0 - law) / self.size
        if not self.stratified:
            return independent
        runs = self.size ** (1.0 - 1.0 / self.columns)
        fraction = np.mod(self.size * start, 1.0)
        between = fraction * (1.0 - fraction) if self.columns == 1 else np.full(len(law), runs / 6.0)
        within = np.maximum(0.0, self.size * (law - start) * (start + mass - law) / np.maximum(mass, 1e-300))
        return np.asarray(np.minimum(independent, (between + within) / self.size**2))


def _column_error(
    name: str,
    column: Column,
    own: _Shares,
    released: Sequence[_Shares],
    sample: _Sample,
    reference: Reference,
) -> float:
    """Return one column's predicted distance, in its own unit (total variation where it has no order)."""
    values, (f, *laws) = _on_values(column, [own, *released])
    beyond = [max(0.0, 1.0 - float(law.sum())) for law in laws]
    if not column.open and (len(values) == column.size):
        base = np.exp(column.log_base(values))
        laws, beyond = [law + b * base for law, b in zip(laws, beyond, strict=True)], [0.0] * len(laws)
    low, high = _ends(column, values)
    if low is None or high is None:
        return _apart(column, values, f, laws, beyond, sample)
    at = np.isfinite(low)
    base = np.sort(_middle(column, column.draw(_BASE_DRAWS, seeded(1)))) if max(beyond) > 1e-12 else np.empty(0)
    base = base[np.isfinite(base)]
    points, cell_of = _spread(low[at], high[at])
    # the table's own values where a reference has them, else spread over the cells as a release is
    raw = reference.table is not None and column.labels is None  # categories are their codes
    exact = _values(column, reference.table[name]) if raw and reference.table is not None else None
    x = np.unique(np.concatenate((points, base, np.empty(0) if exact is None else exact[0])))
    gaps, place = np.diff(x), np.searchsorted(x, np.concatenate((points, base)))
    pieces = np.bincount(cell_of)[cell_of]
    distribution = _distribution(x, place[: len(points)], f[at][cell_of] / pieces)
    if exact is not None:
        distribution = _distribution(x, np.searchsorted(x, exact[0]), exact[1])
    order = np.argsort(low[at], kind="stable")
    cell = np.maximum(0, np.searchsorted(low[at][order], x, side="right") - 1)
    total = 0.0
    for g, b in zip(laws, beyond, strict=True):
        law = _distribution(x, place, np.append(g[at][cell_of] / pieces, np.full(len(base), b / max(1, len(base)))))
        inside = g[at][order] / max(float(g[at].sum()), 1e-300)
        start = np.cumsum(inside) - inside
        total += float(gaps @ _folded(law - distribution, sample.variance(law, start[cell], inside[cell]))[:-1])
    return total / len(laws)


def _on_values(column: Column, laws: Sequence[_Shares]) -> tuple[Any, list[Floats]]:
    """Return values of a column, all where they are few, and the shares of each by several laws."""
    if column.size is not None and column.size <= _LISTED:
        return np.arange(column.size), [_sums(codes.astype(np.int64), law, column.size) for codes, law in laws]
    listed = [codes.astype(str) if column.open else codes for codes, _ in laws]
    values, place = np.unique(np.concatenate(listed), return_inverse=True)
    places = np.split(place, np.cumsum(list(map(len, listed)))[:-1])
    return values, [_sums(own, law, len(values)) for own, (_, law) in zip(places, laws, strict=True)]


def _sums(place: Any, shares: Floats, places: int) -> Floats:
    return np.bincount(place, weights=shares, minlength=places).astype(np.float64)


def _apart(column: Column, values: Any, f: Floats, laws: list[Floats], beyond: list[float], sample: _Sample) -> float:
    """Return the total variation between a column without order and what is drawn for it."""
    if not column.open:
        laws = [g + b * np.exp(column.log_base(values)) for g, b in zip(laws, beyond, strict=True)]
        beyond = [0.0] * len(beyond)
    none = np.zeros(len(f))
    apart = [
        0.5 * (b + float(_folded(g - f, sample.variance(g, g, none)).sum())) for g, b in zip(laws, beyond, strict=True)
    ]
    return float(np.mean(apart))


def _folded(mean: Floats, variance: Floats) -> Floats:
    """Return ``E|Z|`` of normal variables."""
    from scipy.special import erf

    deviation = np.sqrt(2.0 * np.maximum(variance, 1e-300))
    z = np.abs(mean) / deviation
    result: Floats = deviation / math.sqrt(math.pi) * np.exp(-np.minimum(z * z, 700.0)) + np.abs(mean) * erf(z)
    return result


def _distribution(x: Floats, place: Any, mass: Floats) -> Floats:
    """Return the distribution function of masses at some places of a grid."""
    total: Floats = np.cumsum(np.bincount(place, weights=mass, minlength=len(x)))
    return np.minimum(total / total[-1], 1.0) if total[-1] > 0 else total


def _spread(low: Floats, high: Floats) -> tuple[Floats, Any]:
    """Return points equally spread over each cell, and the cell of each."""
    wide = bool((high > low).any())
    pieces = _WITHIN if wide and len(low) <= (1 << 18) else 1
    step = (np.arange(pieces) + 0.5) / pieces
    points = (low[:, None] + (high - low)[:, None] * step).ravel()
    return points, np.repeat(np.arange(len(low)), pieces)


def _ends(column: Column, codes: Any) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return the coordinates of each cell's ends, or None where the column has no order."""
    try:
        return column.ends(codes)
    except DomainError:
        return None, None


def _middle(column: Column, codes: Any) -> Floats:
    low, high = column.ends(codes)
    return low + (high - low) / 2.0


def _values(column: Column, values: pl.Series) -> tuple[Floats, Floats]:
    """Return the coordinates of the values that are not null, and the share of each."""
    distinct, counts = np.unique(column.coordinates(values.drop_nulls()), return_counts=True)
    known = np.isfinite(distinct)
    return distinct[known], counts[known] / counts[known].sum()
