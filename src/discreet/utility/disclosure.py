"""What a released table tells about single people: matches, guesses and singling out, beside a control. Confidential.

These are rates of attacks that were tried, no bounds: a guarantee is a bound, whatever is tried. They are for the
custodian who has to say what an intruder with ordinary means would reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet._core.arrays import Booleans, Integers, row_numbers
from discreet._core.checks import choice
from discreet._core.errors import ParameterError
from discreet.utility.rows import BINS, Rows

_MOST_TARGETS = 2_000  # records of each table whose nearest released records are looked for
_MOST_RELEASED = 20_000
_SETS, _MOST_DESCRIBED = 24, 10_000  # sets of columns that records are described by, and records described
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often an attack is right, with a 95 % Wilson interval as if its tries were independent. Confidential.

    ``right``: tries that are right; a sum of shares for expected matches.
    """

    right: float
    tries: int

    @property
    def rate(self) -> float:
        """The share that is right; NaN where nothing could be tried."""
        return self.right / self.tries if self.tries else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        r"""Ends of :math:`\frac{p+z^2/2t\pm z\sqrt{p(1-p)/t+z^2/4t^2}}{1+z^2/t}` (Wilson, 1927)."""
        if not self.tries:
            return 0.0, 1.0
        p, part = self.rate, _Z * _Z / self.tries
        half = _Z * math.sqrt(max(0.0, p * (1.0 - p)) / self.tries + part / (4.0 * self.tries))
        low, high = ((p + part / 2.0 + side * half) / (1.0 + part) for side in (-1.0, 1.0))
        return max(0.0, low), min(1.0, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """One attack on the records of the table, and on those of the control, if there is one. Confidential.

    ``of``: the column that it is after, or all columns. ``how``: what it does, in words.
    """

    attack: str
    of: str
    table: Rate
    control: Rate | None
    how: str

    @property
    def excess(self) -> tuple[float, float, float] | None:
        """By how much the rate in the table is above that in the control, with a 95 % interval (Newcombe, 1998)."""
        if self.control is None or not (self.table.tries and self.control.tries):
            return None
        one, other = self.table, self.control
        (low, high), (least, most) = one.interval, other.interval
        apart = one.rate - other.rate
        down = math.hypot(one.rate - low, most - other.rate)
        up = math.hypot(high - one.rate, other.rate - least)
        return apart, apart - down, apart + up


_HOW = {
    "matched alone": "share of records that exactly one released record is like in the known columns",
    "matched rightly": "the same, and that record has the right value; as a share of all records",
    "matched wrongly": "share of the records matched alone whose match has another value",
    "expected match": "mean share of the right value among released records that are alike in the known columns",
    "guessed": "share of values guessed rightly as the commonest among the nearest released records",
    "guessed blindly": "the same with the commonest value of the release, whoever it is",
    "singled out": "share of descriptions of one released record that fit exactly one record",
}


def disclosed(
    data: Rows,
    release: Rows,
    control: Rows | None,
    *,
    sensitive: str,
    known: Sequence[str] | None,
    rng: np.random.Generator,
) -> tuple[Disclosure, ...]:
    """Return what attacks reach that know some columns of a record and look for another one in the release.

    Values count as equal in the same cell or range. ``known``: all other columns by default.
    """
    names = [column.name for column in data.columns]
    at = names.index(choice("sensitive", sensitive, names))
    used = [name for name in names if name != sensitive] if known is None else list(known)
    kept = [names.index(choice("known", name, names)) for name in dict.fromkeys(used)]
    if not kept or at in kept:
        raise ParameterError("known columns are needed besides the sensitive one. Name at least one in known=")
    sides = [data, release] if control is None else [data, release, control]
    tables = [_Table.of(side, kept, at) for side in sides]
    # One number for each combination of known labels, and for each sensitive label, over all tables.
    ends = np.cumsum([len(table.frequencies) for table in tables])[:-1]
    keys = np.split(row_numbers(np.concatenate([table.known for table in tables])), ends)
    labels = np.unique(np.concatenate([table.sensitive for table in tables]), return_inverse=True)[1]
    values = np.split(labels, ends)
    found: dict[str, list[Rate]] = {name: [] for name in _HOW}
    shown = _Released(tables[1], keys[1], values[1])
    for which in range(0, len(tables), 2):
        for name, rate in shown.rates(tables[which], keys[which], values[which], rng).items():
            found[name].append(rate)
    found["singled out"] = _singled_out(sides, rng)
    return tuple(
        Disclosure(
            attack=name,
            of="all columns" if name == "singled out" else sensitive,
            table=rates[0],
            control=rates[1] if len(rates) > 1 else None,
            how=_HOW[name],
        )
        for name, rates in found.items()
    )


def mean_of(found: Sequence[tuple[Disclosure, ...]]) -> tuple[Disclosure, ...]:
    """Return the mean of the same attacks on several released tables, with intervals for the tries on one table."""
    if len(found) == 1:
        return found[0]

    def mean(rates: Sequence[Rate]) -> Rate:
        right, tries = sum(rate.right for rate in rates), sum(rate.tries for rate in rates)
        each = round(tries / len(rates))
        return Rate(right=right / tries * each if tries else 0.0, tries=each)

    out = []
    for same in zip(*found, strict=True):
        controls = [one.control for one in same if one.control is not None]
        out.append(
            replace(same[0], table=mean([one.table for one in same]), control=mean(controls) if controls else None)
        )
    return tuple(out)


# -- matches and guesses ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    """Labels of known columns, shape (rows, columns), those of the sensitive one, and how often each row occurs."""

    known: Integers
    ordered: Booleans
    sensitive: Integers
    frequencies: Integers

    @classmethod
    def of(cls, rows: Rows, kept: Sequence[int], at: int) -> _Table:
        held, labels = rows.held, _labels(rows)
        known = np.asarray(kept, dtype=np.int64)
        return cls(labels[held][:, known], rows.ordered[known], labels[held, at], rows.frequencies[held])

    def some(self, count: int, rng: np.random.Generator) -> Integers:
        """Return rows of at most ``count`` records drawn without replacement, each as often as it was drawn."""
        total = int(self.frequencies.sum())
        if total <= count:
            return np.repeat(np.arange(len(self.frequencies)), self.frequencies)
        places = np.sort(rng.choice(total, size=count, replace=False))
        return np.searchsorted(np.cumsum(self.frequencies), places, side="right").astype(np.int64)


def _labels(rows: Rows) -> Integers:
    return np.column_stack([column.by_row for column in rows.columns])


class _Released:
    """The released table, as attacks read it."""

    def __init__(self, table: _Table, keys: Integers, values: Integers) -> None:
        self.table, self.values = table, values
        self.alike = _counter(keys, table.frequencies)
        self.width = int(values.max(initial=0)) + 1
        self.right = _counter(keys * self.width + values, table.frequencies)
        totals = np.bincount(values, weights=table.frequencies)
        self.commonest = int(totals.argmax())
        order = np.argsort(-table.frequencies, kind="stable")[:_MOST_RELEASED]
        self.near, self.masses = order, np.zeros((len(order), self.width))
        self.masses[np.arange(len(order)), values[order]] = table.frequencies[order]

    def rates(self, table: _Table, keys: Integers, values: Integers, rng: np.random.Generator) -> dict[str, Rate]:
        """Return how often matches and guesses about the records of a table are right."""
        n, records = table.frequencies, int(table.frequencies.sum())
        alike = self.alike(keys)
        possible = values < self.width  # a value that the release has nowhere is never found
        right = np.where(possible, self.right(keys * self.width + np.where(possible, values, 0)), 0)
        alone = alike == 1
        matched = int(n[alone].sum())
        rightly = int(n[alone & (right == 1)].sum())
        expected = float((n * right / np.maximum(alike, 1)).sum())
        tried = table.some(_MOST_TARGETS, rng)
        guesses = self._guesses(table.known[tried])
        return {
            "matched alone": Rate(right=matched, tries=records),
            "matched rightly": Rate(right=rightly, tries=records),
            "matched wrongly": Rate(right=matched - rightly, tries=matched),
            "expected match": Rate(right=expected, tries=records),
            "guessed": Rate(right=int((guesses == values[tried]).sum()), tries=len(tried)),
            "guessed blindly": Rate(right=int(n[values == self.commonest].sum()), tries=records),
        }

    def _guesses(self, known: Integers) -> Integers:
        """Return the commonest value among the released records that are nearest in known labels (Gower's distance)."""
        released, out = self.table.known[self.near], np.empty(len(known), dtype=np.int64)
        for start in range(0, len(known), 200):
            part = known[start : start + 200]
            apart = np.zeros((len(part), len(released)), dtype=np.float32)
            for j, ordered in enumerate(self.table.ordered):
                own, other = part[:, j, None], released[None, :, j]
                steps = np.abs(own - other) / BINS if ordered else np.ones(1)
                apart += np.where((own < 0) != (other < 0), 1.0, np.where(own == other, 0.0, steps)).astype(np.float32)
            nearest = apart <= apart.min(axis=1, keepdims=True) + 1e-5
            out[start : start + 200] = (nearest @ self.masses).argmax(axis=1)
        return out


def _counter(keys: Integers, frequencies: Integers) -> Callable[[Integers], Integers]:
    """Return a function from keys to how many records have them."""
    held, places = np.unique(keys, return_inverse=True)
    counts = np.bincount(places, weights=frequencies).astype(np.int64)

    def count(asked: Integers) -> Integers:
        where = np.minimum(np.searchsorted(held, asked), len(held) - 1)
        return np.where(held[where] == asked, counts[where], 0)

    return count


# -- singling out -----------------------------------------------------------------------------------------------------


def _singled_out(sides: Sequence[Rows], rng: np.random.Generator) -> list[Rate]:
    """Return how often a description of one released record alone fits one record alone, in tables of one size.

    A description is the labels of up to four columns. It fits more records of a larger table, so the tables are cut.
    """
    targets = [side for which, side in enumerate(sides) if which != 1]
    size = min(side.size for side in targets)
    tables = [sides[1], *(side.cut(size, rng) for side in targets)]
    labels = [_labels(side)[side.held] for side in tables]
    weights = [side.frequencies[side.held] for side in tables]
    ends, width = np.cumsum([len(part) for part in labels])[:-1], labels[0].shape[1]
    described = rng.permutation(len(labels[0]))[:_MOST_DESCRIBED]
    drawn = [rng.choice(width, size=int(rng.integers(1, min(4, width) + 1)), replace=False) for _ in range(_SETS)]
    sets = sorted({tuple(sorted(one.tolist())) for one in drawn})
    right, tries = np.zeros(len(targets), dtype=np.int64), 0
    for columns, own in zip(sets, np.array_split(described, len(sets)), strict=True):
        keys = np.split(row_numbers(np.concatenate(labels)[:, columns]), ends)
        total = max(int(part.max(initial=0)) for part in keys) + 1
        counts = [np.bincount(key, weights=w, minlength=total) for key, w in zip(keys, weights, strict=True)]
        asked = keys[0][own]
        alone = asked[counts[0][asked] == 1]
        tries += len(alone)
        right += [int((count[alone] == 1).sum()) for count in counts[1:]]
    return [Rate(right=int(one), tries=tries) for one in right]
