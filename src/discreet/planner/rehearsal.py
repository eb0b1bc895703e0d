"""The error that pairs of columns of a release will have, from rehearsals on a public table. No data is read here.

How well two columns are kept together depends on how they depend on each other, which no invented table knows. So each
mechanism is run on the public reference table, scaled to the number of records held, and what it releases is compared
with that table as ``discreet compare --measures marginals-2`` would compare it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet._core.random import approximate
from discreet.domain import Counts
from discreet.mechanisms import Mechanism
from discreet.planner.options import Comparison, Option
from discreet.planner.predicted import places
from discreet.utility import DistinctRows, tables

_MOST_REHEARSALS = 3
_WORK = 1 << 22  # records times pairs, up to which there are several
_MOST_DRAWN = 1 << 20  # records: more of them have hardly less error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairErrors:
    """Predicted total variation of each table of two columns of a release."""

    errors: Floats
    measured: Integers | None
    rehearsals: int

    @property
    def mean(self) -> float:
        """Average over all pairs."""
        return float(self.errors.mean())

    @property
    def worst(self) -> Integers:
        """The numbers of the pairs, largest error first."""
        return np.argsort(-self.errors, kind="stable")


class Rehearsal:
    """Releases of the public reference table of a request, which must have one, and two columns or more."""

    def __init__(self, comparison: Comparison) -> None:
        table = comparison.reference.table
        if table is None:
            raise ParameterError("pairs of columns need a public table. Give reference=...")
        self.pairs = list(combinations(range(len(comparison.domain.columns)), 2))
        self._comparison = comparison
        # as many of each record as the table would have if it had n, and those of a shorter one from all over it
        often = np.diff(np.arange(len(table) + 1) * comparison.n // len(table))
        self._table, self._often = table.filter(pl.Series(often > 0)), often[often > 0].astype(np.int64)

    @property
    def drawn(self) -> int:
        """How many records are drawn in a rehearsal."""
        return min(self._comparison.size, _MOST_DRAWN)

    @property
    def runs(self) -> int:
        """How many rehearsals there are of each mechanism: fewer where one takes long."""
        return max(1, min(_MOST_REHEARSALS, _WORK // (self.drawn * len(self.pairs))))

    @cached_property
    def without_privacy(self) -> Floats:
        """The expected total variation of each pair's table in a sample of the same size, drawn without privacy."""
        (rows,) = self._rows()
        columns = [_labels(rows, i) for i in range(len(rows.columns))]
        cells = _by_pair(columns, rows.frequencies / rows.size, self.pairs)
        return np.array([0.5 * float(_deviation(p, self._comparison.size).sum()) for p in cells])

    def of(self, option: Option) -> PairErrors | None:
        """Return what is predicted of an option; None where the errors of its columns are not predicted either."""
        made, size = option.mechanism, self._comparison.size
        if made is None or option.errors is None or getattr(made, "given", None) is not None:
            return None
        drawn = self.drawn if getattr(made, "size", None) is None else size
        held = self._held(made)
        errors = np.zeros(len(self.pairs))
        measured: Integers | None = np.zeros(len(self.pairs), dtype=np.int64)
        for run in range(self.runs):
            rng = approximate(run)
            reading = made.reading(made.kernel(held, rng=rng), n=held.n)
            released = [made.domain.decode(chunk, rng=rng) for chunk in reading.draw(drawn, rng=rng)]
            errors += self._apart(pl.concat(released)) if sum(map(len, released)) else 1.0
            outcome = reading.outcome()
            if outcome is None or outcome.pairs is None or measured is None:
                measured = None
            else:
                measured += np.array([pair in outcome.pairs for pair in self.pairs])
        return PairErrors(errors=errors / self.runs, measured=measured, rehearsals=self.runs)

    def _held(self, made: Mechanism) -> Counts:
        """Return the table as a mechanism reads it, on its own cells."""
        records = made.domain.encode(self._table)
        place = places(records)
        _, first = np.unique(place, return_index=True)
        often = np.bincount(place, weights=self._often).astype(np.int64)
        return Counts(records=records.take(first), frequencies=often)

    def _rows(self, *released: pl.DataFrame) -> list[DistinctRows]:
        """Return the public table, and released ones, as measures read them."""
        sources = [(self._table, self._often), *((frame, np.ones(len(frame), dtype=np.int64)) for frame in released)]
        return tables([(source, "") for source in sources], self._comparison.domain, lambda source: source)

    def _apart(self, released: pl.DataFrame) -> Floats:
        """Return the total variation of each pair's table."""
        x, y = self._rows(released)
        shares = np.concatenate((x.frequencies / x.size, -y.frequencies / y.size))
        columns = [np.concatenate((_labels(x, i), _labels(y, i))) for i in range(len(x.columns))]
        return np.array([0.5 * float(np.abs(cells).sum()) for cells in _by_pair(columns, shares, self.pairs)])


def _labels(rows: DistinctRows, column: int) -> Integers:
    values = rows.columns[column]
    return values.labels[values.place]


def _by_pair(columns: Sequence[Integers], shares: Floats, pairs: Sequence[tuple[int, int]]) -> Iterator[Floats]:
    """Yield the sum of the shares in each cell of two columns that any row has."""
    numbered = [np.unique(labels, return_inverse=True)[1] for labels in columns]
    counts = [int(labels.max()) + 1 for labels in numbered]
    for i, j in pairs:
        cells = numbered[i] * counts[j] + numbered[j]
        if counts[i] * counts[j] > 4 * len(cells):
            cells = np.unique(cells, return_inverse=True)[1]
        yield np.bincount(cells, weights=shares).astype(np.float64)


def _deviation(p: Floats, size: int) -> Floats:
    """Return the mean absolute deviation of the share of ``size`` independent records, exactly (De Moivre)."""
    from scipy.special import betaln, xlog1py, xlogy

    p = np.clip(p, 0.0, 1.0)
    k = np.minimum(np.floor(size * p) + 1.0, size)
    log_mass = xlogy(k, p) + xlog1py(size - k, -p) - betaln(size - k + 1.0, k + 1.0) - np.log(size + 1.0)
    return np.asarray(np.where(p < 1.0, 2.0 * k * (1.0 - p) * np.exp(log_mass) / size, 0.0))
