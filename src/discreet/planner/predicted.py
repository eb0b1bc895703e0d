"""The errors that a release will have from its table, predicted from public facts alone.

Each mechanism's own kernel and reading are run on an invented table: a public reference table scaled to ``n`` records
where there is one, else the inner half of the base measure (a table distributed as the base measure itself would make a
release of nothing but prior look perfect). What drawing ``size`` records adds is integrated in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import Generator

from discreet._core.errors import ParameterError
from discreet._core.lazy import pl, special
from discreet._core.numeric import Floats, Integers
from discreet._core.random import ApproximateGenerator, seeded
from discreet.domain import Column, Commonness, Counts, Domain, Records, inner_half, invented_records
from discreet.mechanisms import Forecast, Mechanism

if TYPE_CHECKING:
    from discreet.planner.options import Option, PlanRequest

_MOST_CELLS = 1 << 22
_BASE_DRAWS = 4096  # also of records that an invented table has none of: a release may
_PIECES = 8  # of a cell that has a width
_LISTED = 1 << 16  # values of a column
_LAW_DRAWS = 1 << 16  # records that stand for a law of which only draws are known
_MOST_REHEARSALS = 3
_WORK = 1 << 22  # records times pairs, up to which there are several
_ANALYSIS = "discreet.inference"  # which stands above this package: loaded by name
_MEANS = 400  # draws of a posterior
_REHEARSED = 1 << 20  # records: more of them have hardly less error

Progress = Callable[[int, int], None] | None
_Shares = tuple[Any, Floats]  # codes of a column, and the share of the records that has each


@dataclass(frozen=True, eq=False)
class Reference:
    """A public table that the confidential one is expected to look like."""

    table: pl.DataFrame | None = None

    @classmethod
    def from_data(cls, data: Any, domain: Domain) -> Reference:
        """Read a public table's declared columns. Raises DataError when it does not fit the domain."""
        if data is None:
            return cls()
        from discreet.confidential import public_table

        return cls(public_table(data, domain))

    def shares(self, domain: Domain) -> tuple[Records, Floats]:
        """Return the support records and the share of each: all cells where they are few enough."""
        size = domain.size
        if size is None or size > _MOST_CELLS:
            if self.table is not None:
                support, counts = _tally(domain.encode(self.table))
                return support, counts / len(self.table)
            invented, elsewhere = invented_records(domain), domain.draw_base(_BASE_DRAWS, seeded(0))
            records = Records.concatenate([invented, elsewhere])
            support, counts = _tally(records, np.arange(len(records)) < len(invented))
            return support, counts / len(invented)
        cells = domain.unflat(np.arange(size))
        if self.table is not None:
            return cells, np.bincount(domain.flat(domain.encode(self.table)), minlength=size) / len(self.table)
        inner = np.ones(1)
        for column in domain.columns.values():  # the last one changes fastest from cell to cell
            codes = np.arange(column.size or 0)
            inner = np.outer(inner, np.exp(column.log_base(codes)) * inner_half(column, codes)).ravel()
        return cells, inner / inner.sum()

    def commonness(self, domain: Domain) -> Commonness | None:
        """Return how common the table's records are on a domain; None where there is no table."""
        if self.table is None:
            return None
        return Commonness.of_counts(_tally(domain.encode(self.table))[1], cells=domain.size)


def _with_absence(domain: Domain, records: Records, shares: Floats) -> tuple[Records, Floats]:
    """Return records of units in which slots have the code of what is not there where the number of rows says so."""
    if not domain.tables:
        return records, shares
    columns = list(records.columns[: len(domain.own_columns)])
    sizes = domain.parts([column.size or 0 for column in domain.columns.values()])
    for name, codes in domain.parts(records.columns).items():
        table = domain.row_tables[name]
        uses = table.used(codes, least=int(domain.units is None))
        parts = zip(table.slot_numbers.tolist(), codes, sizes[name], strict=True)
        columns += [x if slot < 1 else np.where(uses[slot - 1], x, size) for slot, x, size in parts]
    return Records(columns=tuple(columns)), shares


def _tally(records: Records, weights: Any = None) -> tuple[Records, Any]:
    """Return the distinct records, in the order in which they come, and how often each occurs, or its weight."""
    numbers: dict[Any, int] = {}
    places = np.array([numbers.setdefault(row, len(numbers)) for row in records.rows()], dtype=np.int64)
    _, index = np.unique(places, return_index=True)
    return records.take(index), np.bincount(places, weights=weights)


def predicted_w1(
    mechanism: Mechanism, *, n: int, size: int, reference: Reference | None = None, draws: float = math.inf
) -> float:
    """Predict W1 between a release and its table: in the column's unit for a single one, else on the scaled metric."""
    errors = predicted_errors(mechanism, n=n, size=size, reference=reference, draws=draws)
    return summed(mechanism.domain, errors)


def predicted_errors(
    mechanism: Mechanism, *, n: int, size: int, reference: Reference | None = None, draws: float = math.inf
) -> dict[str, float]:
    """Predict the Wasserstein-1 distance of each column of a release to the same column of the confidential table."""
    # With F the reference's distribution function and G that of the records' law after one run of the kernel, a
    # column's error is the mean over such runs of the integral of E|G - F + Z|, where Z is normal with the variance of
    # drawing so many records: the mean of a folded normal. An invented table does not say where in its cells its values
    # are, and a twelfth of their mean width is added: as if a quarter of the records held values that many share, each
    # a third of a width from a value put anywhere in its cell.
    reference = reference or Reference()
    domain, forecast = mechanism.domain, mechanism.forecast(n)
    support, shares = _with_absence(domain, *reference.shares(domain))
    most = int(min(draws, forecast.draws))
    runs = max(min(2, most), min(most, (1 << 19) // len(shares)))
    if forecast.rest and math.isinf(forecast.urn):  # nothing is drawn
        runs = 1
    # where the kernel draws the records, their counts are its own
    exact = forecast.stratified or not (forecast.rest or mechanism.contents(n).size is None)
    sample = _Sampling(domain, max(1.0, size * forecast.released_share), exact)
    laws = list(zip(*released_shares(mechanism, support, shares, n=n, runs=runs), strict=True))
    errors = _errors(support, shares, laws, sample, reference)
    if reference.table is None:
        errors = {name: width + errors[name] for name, width in _width_errors(domain).items()}
    return errors


def mean_lengths(mechanism: Mechanism, reference: Reference, *, n: int, size: int) -> list[float]:
    """Return how long a mean's interval is, beside that without privacy; then with a range twice as wide."""
    # In as many cells, that is as if values were half as spread. An invented table has even ones in the inner half.
    (name, column), *_ = mechanism.domain.columns.items()
    low, high = column.lower, column.upper  # type: ignore[attr-defined]
    values = low + (high - low) * np.linspace(0.25, 0.75, 1 << 16)
    if reference.table is not None:
        values = reference.table[name].drop_nulls().to_numpy().astype(np.float64)
    cells, lengths = mechanism.domain.size or 0, list[float]()
    middles = column.positions(np.arange(cells))
    middles = middles[: cells - int(column.nullable)]
    for rng, part in zip(map(ApproximateGenerator, (0, 0)), (1.0, 0.5), strict=True):
        points = (low + high) / 2.0 + part * (values - (low + high) / 2.0)
        if column.kind == "integer":
            points = np.rint(points)
        if not (spread := float(np.std(points))):
            return []
        place = np.searchsorted((middles[1:] + middles[:-1]) / 2.0, points)
        shares = np.bincount(place, minlength=cells) / len(points)
        table = _scaled(mechanism.domain.unflat(np.arange(cells)), shares, n)
        records = Records.concatenate(mechanism.reading(mechanism.kernel(table, rng=rng), n=n).draw(size, rng=rng))
        numbers = np.bincount(mechanism.domain.flat(records), minlength=cells)
        row = import_module(_ANALYSIS).of_records(mechanism, n, numbers, _MEANS, rng).summary(["mean"]).rows[0]
        lengths.append((row.upper - row.lower) / (2.0 * 1.96 * spread / math.sqrt(n)))
    return lengths


def _scaled(support: Records, shares: Floats, n: int) -> Counts:
    """Return a table of ``n`` records that has some shares, in whole numbers."""
    frequencies = np.diff(np.rint(n * np.cumsum(shares)), prepend=0.0).astype(np.int64)
    present = np.flatnonzero(frequencies)
    return Counts(records=support.take(present), frequencies=frequencies[present])


def sampling_errors(domain: Domain, size: int, reference: Reference) -> dict[str, float]:
    """Return the errors that independent records drawn from the table itself are predicted to have: without privacy."""
    support, shares = _with_absence(domain, *reference.shares(domain))
    laws = [list[_Shares]() for _ in domain.columns]  # those of the table itself
    return _errors(support, shares, laws, _Sampling(domain, float(size)), reference)


def released_shares(
    mechanism: Mechanism, support: Records, shares: Floats, *, n: int, runs: int
) -> Iterator[Sequence[_Shares]]:
    """Yield the shares of each column that records are drawn with, after several runs on a public table."""
    # An evolution reads a table drawn from these shares, any other kernel one that has them, in whole numbers.
    forecast = mechanism.forecast(n, Commonness.of_counts(shares, cells=mechanism.domain.size))
    runner = forecast.stand_in or mechanism
    table = _scaled(support, shares, n)
    for rng in map(ApproximateGenerator, range(runs)):
        if forecast.rest:
            yield _continued(mechanism.domain, support, shares, forecast, rng)
            continue
        if forecast.stand_in:
            table = _scaled(support, rng.multinomial(n, shares / shares.sum()) / n, n)
        reading = runner.reading(runner.kernel(table, rng=rng), n=n)
        columns = reading.column_shares(rng=rng)
        if columns is None:
            records = Records.concatenate(list(reading.draw(mechanism.contents(n).size or _LAW_DRAWS, rng=rng)))
            columns = [(codes, np.full(len(records), 1.0 / len(records))) for codes in records.columns]
        yield columns


def _continued(domain: Domain, support: Records, shares: Floats, forecast: Forecast, rng: Generator) -> list[_Shares]:
    """Return the shares of records that are the table's but for the share that is lost; those of an urn are drawn."""
    law, remainder = (1.0 - forecast.lost) * shares, forecast.lost
    if len(support) == domain.size:
        base: Any = 1.0 / len(support)
        if forecast.rest != "uniform":
            base = np.exp(domain.log_base(support))
        law, remainder = law + remainder * base, 0.0
    if math.isfinite(forecast.urn):
        weights = rng.standard_gamma(forecast.urn * np.append(law, remainder))
        law = weights[:-1] / weights.sum()
    return [(codes, law) for codes in support.columns]


def width_error(domain: Domain) -> float:
    """Return the error that the width of cells is taken for: a twelfth of what cells of an invented table have."""
    return summed(domain, _width_errors(domain))


def _width_errors(domain: Domain) -> dict[str, float]:
    errors = dict.fromkeys(domain.names, 0.0)
    for name, column in domain.columns.items():
        if column.on_a_line and column.size is not None and column.size <= _MOST_CELLS:
            cells = np.arange(column.size)
            low, high = column.ends(cells)
            shares = np.exp(column.log_base(cells)) * inner_half(column, cells)
            errors[name] = float(shares @ np.nan_to_num(high - low)) / (12.0 * float(shares.sum()))
    return errors


def summed(domain: Domain, errors: Mapping[str, float]) -> float:
    """Return the columns' errors together: a single one in its own unit, several on the scaled ground metric."""
    if len(errors) == 1:
        return next(iter(errors.values()))
    weights = domain.metric_weights or {}
    # an error of labels is a share already
    scales = {name: column.scale or 1.0 for name, column in domain.columns.items() if column.labels is None}
    return sum(weights.get(name, 1.0) * (error / scales.get(name, 1.0)) for name, error in errors.items())


@dataclass(frozen=True, slots=True)
class _Sampling:
    """How many records of a domain are drawn from a law, and whether stratified."""

    domain: Domain
    size: float
    stratified: bool = False

    def variance(self, law: Floats, start: Floats, mass: Floats) -> Floats:
        """Return the variance of the share of drawn records below some points of one column."""
        # Stratified records are as many as the law says below the end of each cell, but for a fraction of a record, in
        # size^((d-1)/d) runs of neighbouring cells where there are d columns; within cells they are independent.
        independent = law * (1.0 - law) / self.size
        if not self.stratified:
            return independent
        fraction = np.mod(self.size * start, 1.0)
        boundary = fraction * (1.0 - fraction)
        if (columns := len(self.domain.columns)) > 1:
            boundary = np.full(len(law), self.size ** (1.0 - 1.0 / columns) / 6.0)
        inside = np.maximum(0.0, self.size * (law - start) * (start + mass - law) / np.maximum(mass, 1e-300))
        return np.asarray(np.minimum(independent, (boundary + inside) / self.size**2))


def _errors(
    support: Records, shares: Floats, laws: Sequence[Sequence[_Shares]], sample: _Sampling, reference: Reference
) -> dict[str, float]:
    """Return the predicted error of each column in its own unit: of labels, ranks over ``K - 1``."""
    domain, errors = sample.domain, {}
    for (name, column), codes, released in zip(domain.columns.items(), support.columns, laws, strict=True):
        table, weight = (codes, shares), 1.0
        if domain.tables:  # a unit that has no such row has no error in it
            rows = np.less(codes, column.size or 0)
            weight = float(shares[rows].sum())
            table = codes[rows], shares[rows] / max(weight, 1e-300)
        law = released or [table]
        if column.labels is None:
            values = None if reference.table is None else reference.table[name]
            errors[name] = weight * _column_error(column, table, law, sample, values)
        else:
            errors[name] = weight * _column_error(column, table, law, sample) / (column.scale or 1.0)
    return errors


def _column_error(
    column: Column, table: _Shares, released: Sequence[_Shares], sample: _Sampling, values: pl.Series | None = None
) -> float:
    """Return one column's predicted distance in its positions; the total variation where it has no order."""
    # The table's own values are taken where a reference has them; else they spread over the cells as a release does.
    codes, (f, *laws) = _on_codes(column, [table, *released])
    outside = [max(0.0, 1.0 - float(law.sum())) for law in laws]
    if not column.open and (not column.on_a_line or len(codes) == column.size):
        base = np.exp(column.log_base(codes))
        laws, outside = [g + share * base for g, share in zip(laws, outside, strict=True)], [0.0] * len(laws)
    if not column.on_a_line:
        variances = [sample.variance(g, g, np.zeros(len(g))) for g in laws]
        variation = [_folded(g - f, variance).sum() for g, variance in zip(laws, variances, strict=True)]
        return float(np.mean([0.5 * (share + float(v)) for share, v in zip(outside, variation, strict=True)]))
    low, high = column.ends(codes)
    finite = np.isfinite(low)
    low, high, f, laws = low[finite], high[finite], f[finite], [g[finite] for g in laws]
    base = np.empty(0)
    if max(outside) > 1e-12:
        first, last = column.ends(column.draw(_BASE_DRAWS, seeded(1)))
        base = np.sort(first + (last - first) / 2.0)
        base = base[np.isfinite(base)]
    pieces = _PIECES if bool((high > low).any()) and len(low) <= (1 << 18) else 1
    points = (low[:, None] + (high - low)[:, None] * ((np.arange(pieces) + 0.5) / pieces)).ravel()
    positions, masses = points, np.repeat(f, pieces) / pieces
    if values is not None:
        positions, counts = np.unique(column.coordinates(values.drop_nulls()), return_counts=True)
        ordinary = np.isfinite(positions)
        positions, masses = positions[ordinary], counts[ordinary] / counts[ordinary].sum()
    x = np.unique(np.concatenate((points, base, positions)))
    gaps, places = np.diff(x), np.searchsorted(x, np.concatenate((points, base)))
    distribution = _distribution(x, np.searchsorted(x, positions), masses)
    order = np.argsort(low, kind="stable")
    cell = np.maximum(0, np.searchsorted(low[order], x, side="right") - 1)
    total = 0.0
    for g, share in zip(laws, outside, strict=True):
        spread = np.append(np.repeat(g, pieces) / pieces, np.full(len(base), share / max(1, len(base))))
        law = _distribution(x, places, spread)
        inside = g[order] / max(float(g.sum()), 1e-300)
        start = np.cumsum(inside) - inside
        total += float(gaps @ _folded(law - distribution, sample.variance(law, start[cell], inside[cell]))[:-1])
    return total / len(laws)


def _on_codes(column: Column, laws: Sequence[_Shares]) -> tuple[Any, list[Floats]]:
    """Return codes of a column, all where they are few, and the share of each by several laws."""
    if column.size is not None and column.size <= _LISTED:
        distinct, places = np.arange(column.size), [codes.astype(np.int64) for codes, _ in laws]
    else:
        listed = [codes.astype(str) if column.open else codes for codes, _ in laws]
        distinct, place = np.unique(np.concatenate(listed), return_inverse=True)
        places = np.split(place, np.cumsum(list(map(len, listed)))[:-1])
    sums = [np.bincount(at, weights=law, minlength=len(distinct)) for at, (_, law) in zip(places, laws, strict=True)]
    return distinct, [total.astype(np.float64) for total in sums]


def _folded(mean: Floats, variance: Floats) -> Floats:
    """Return ``E|Z|`` of normal variables."""
    deviation = np.sqrt(2.0 * np.maximum(variance, 1e-300))
    z = np.abs(mean) / deviation
    result: Floats = deviation / math.sqrt(math.pi) * np.exp(-np.minimum(z * z, 700.0)) + np.abs(mean) * special.erf(z)
    return result


def _distribution(x: Floats, places: Any, masses: Floats) -> Floats:
    """Return the distribution function of masses at some places of a grid."""
    total: Floats = np.cumsum(np.bincount(places, weights=masses, minlength=len(x)))
    return np.minimum(total / total[-1], 1.0) if total[-1] > 0 else total


class PairErrors(NamedTuple):
    """Predicted total variation of each table of two columns, and in how many rehearsals each was measured."""

    errors: Floats
    measured: Integers | None


class Rehearsal:
    """Releases of the public reference table of a request, which must have one, and two columns or more."""

    def __init__(self, comparison: PlanRequest) -> None:
        table = comparison.reference.table
        if table is None:
            raise ParameterError("pairs of columns need a public table. Give reference=...")
        self.pairs = list(combinations(range(len(comparison.domain.columns)), 2))
        self._comparison = comparison
        # as many of each record as the table would have if it had n, and those of a shorter one from all over it
        often = np.diff(np.arange(len(table) + 1) * comparison.n // len(table))
        self.table, self.frequencies = table.filter(pl.Series(often > 0)), often[often > 0].astype(np.int64)
        self.size = min(comparison.size, _REHEARSED)
        # fewer rehearsals where one takes long
        self.runs = max(1, min(_MOST_REHEARSALS, _WORK // (self.size * len(self.pairs))))

    @cached_property
    def without_privacy(self) -> Floats:
        """The expected total variation of each pair's table in a sample of the same size, drawn without privacy."""
        return np.array([0.5 * float(_deviation(p, self._comparison.size).sum()) for p in self._shares_by_pair()])

    def variations(self, released: pl.DataFrame) -> Floats:
        """Return the total variation of each pair's table between the reference and a release."""
        return np.array([0.5 * float(np.abs(p).sum()) for p in self._shares_by_pair(released)])

    def pair_errors(self, option: Option) -> PairErrors | None:
        """Return what is predicted of an option; None where the errors of its columns are not predicted either."""
        mechanism = option.mechanism
        if mechanism is None or option.errors is None or getattr(mechanism, "given", None) is not None:
            return None
        size = self.size if getattr(mechanism, "size", None) is None else self._comparison.size
        x = self.counts(mechanism.domain)
        errors, measurements = np.zeros(len(self.pairs)), []
        for rng in map(ApproximateGenerator, range(self.runs)):
            reading = mechanism.reading(mechanism.kernel(x, rng=rng), n=x.n)
            released = [mechanism.domain.decode(chunk, rng=rng) for chunk in reading.draw(size, rng=rng)]
            errors += self.variations(pl.concat(released)) if sum(map(len, released)) else 1.0
            measurements.append(getattr(reading.outcome(), "pairs", None))
        measured = None
        if None not in measurements:
            counts = [sum(pair in (pairs or ()) for pairs in measurements) for pair in self.pairs]
            measured = np.array(counts, dtype=np.int64)
        return PairErrors(errors / self.runs, measured)

    def counts(self, domain: Domain) -> Counts:
        """Return the table as a mechanism reads it, on its own cells."""
        records, often = _tally(domain.encode(self.table), self.frequencies)
        return Counts(records=records, frequencies=often.astype(np.int64))

    def _shares_by_pair(self, *released: pl.DataFrame) -> Iterator[Floats]:
        """Yield the share of the reference in each cell of two columns that any row has, less that of a release."""
        from discreet.utility import tables

        ones = [np.ones(len(frame), dtype=np.int64) for frame in released]
        sources = [(self.table, self.frequencies), *zip(released, ones, strict=True)]
        rows = tables([(source, "") for source in sources], self._comparison.domain, lambda source: source)
        signed = zip((1, -1), rows, strict=False)
        shares = np.concatenate([sign * table.frequencies / table.size for sign, table in signed])
        columns = zip(*(table.columns for table in rows), strict=True)
        labels = [np.concatenate([values.labels[values.place] for values in column]) for column in columns]
        numbers = [np.unique(column, return_inverse=True)[1] for column in labels]
        sizes = [int(column.max()) + 1 for column in numbers]
        for i, j in self.pairs:
            cells = numbers[i] * sizes[j] + numbers[j]
            if sizes[i] * sizes[j] > 4 * len(cells):
                cells = np.unique(cells, return_inverse=True)[1]
            yield np.bincount(cells, weights=shares).astype(np.float64)


def _deviation(p: Floats, size: int) -> Floats:
    """Return the mean absolute deviation of the share of ``size`` independent records, exactly (De Moivre)."""
    p = np.clip(p, 0.0, 1.0)
    k = np.minimum(np.floor(size * p) + 1.0, size)
    ways = special.betaln(size - k + 1.0, k + 1.0)
    log_mass = special.xlogy(k, p) + special.xlog1py(size - k, -p) - ways - np.log(size + 1.0)
    return np.asarray(np.where(p < 1.0, 2.0 * k * (1.0 - p) * np.exp(log_mass) / size, 0.0))
