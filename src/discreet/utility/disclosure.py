"""What a released table tells about single people: matches, guesses and singling out, beside a control. Confidential.

These are rates of attacks that were tried, no bounds: a guarantee is a bound, whatever is tried. They are for the
custodian who has to say what an intruder with ordinary means would reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from discreet._core.errors import ParameterError, choice
from discreet._core.numeric import Booleans, Integers, row_numbers
from discreet.utility.columns import BINS, DistinctRows
from discreet.wording import ATTACKS

_MOST_TARGETS = 2_000  # records of each table whose nearest released records are looked for
_MOST_RELEASED = 20_000
_SETS, _MOST_DESCRIBED = 24, 10_000  # sets of columns that records are described by, and records described
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRate:
    """How often an attack is right, with a 95 % Wilson interval as if its tries were independent. Confidential."""

    right: float  # tries that are right; a sum of shares for expected matches
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
    """One attack on the records of the table, and on those of the control, if there is one. Confidential."""

    attack: str
    of: str  # the column that it is after, or all columns
    table: AttackRate
    control: AttackRate | None
    how: str  # what it does, in words

    @property
    def excess(self) -> tuple[float, float, float] | None:
        """By how much the rate in the table is above that in the control, with a 95 % interval (Newcombe, 1998)."""
        if self.control is None or not (self.table.tries and self.control.tries):
            return None
        p, q = self.table.rate, self.control.rate
        (p_low, p_high), (q_low, q_high) = self.table.interval, self.control.interval
        return p - q, p - q - math.hypot(p - p_low, q_high - q), p - q + math.hypot(p_high - p, q - q_low)


def disclosures(
    data: DistinctRows,
    release: DistinctRows,
    control: DistinctRows | None = None,
    *,
    sensitive: str,
    known: str | Iterable[str] | None,
    rng: Generator,
) -> tuple[Disclosure, ...]:
    """Return what attacks reach that know some columns of a record, by default all others, and look for another one."""
    names = [column.name for column in data.columns]
    target = names.index(choice("sensitive", sensitive, names))
    if known is None:
        known = [name for name in names if name != sensitive]
    elif isinstance(known, str):
        known = [known]
    used = [names.index(choice("known", name, names)) for name in dict.fromkeys(known)]
    if not used or target in used:
        raise ParameterError("known columns are needed besides the sensitive one. Name at least one in known=")
    sides = [side for side in (data, release, control) if side is not None]
    table, released, *rest = _targets(sides, used, target)
    sets = [_match_rates(side, released, data.ordered[used], rng) for side in (table, *rest)]
    singled_out = _single_out(sides, rng)
    by_attack = [(name, sensitive, [rates[name] for rates in sets]) for name in sets[0]]
    return tuple(
        Disclosure(attack=name, of=column, table=rate, control=next(iter(controls), None), how=ATTACKS[name])
        for name, column, (rate, *controls) in [*by_attack, ("singled out", "all columns", singled_out)]
    )


def mean_attacks(releases: Sequence[tuple[Disclosure, ...]]) -> tuple[Disclosure, ...]:
    """Return the mean of the same attacks on several released tables, with intervals for the tries on one table."""
    if len(releases) == 1:
        return releases[0]

    def mean(rates: Sequence[AttackRate]) -> AttackRate:
        right, tries = sum(rate.right for rate in rates), sum(rate.tries for rate in rates)
        mean_tries = round(tries / len(rates))
        return AttackRate(right=right / (tries or 1) * mean_tries, tries=mean_tries)

    means = []
    for attacks in zip(*releases, strict=True):
        controls = [attack.control for attack in attacks if attack.control is not None]
        table = mean([attack.table for attack in attacks])
        means.append(replace(attacks[0], table=table, control=mean(controls) if controls else None))
    return tuple(means)


@dataclass(frozen=True, slots=True)
class _Targets:
    """What attacks read of a table, row by row; numbers stand for the same labels in all tables."""

    known: Integers  # labels, shape (rows, known columns)
    alike: Integers  # how many released records have the known labels
    right: Integers  # how many of them have the sensitive label too
    values: Integers  # a number for each label of the sensitive column
    frequencies: Integers

    def sample(self, count: int, rng: Generator) -> Integers:
        """Return rows of at most ``count`` records drawn without replacement, each as often as it was drawn."""
        total = int(self.frequencies.sum())
        if total <= count:
            return np.repeat(np.arange(len(self.frequencies)), self.frequencies)
        places = np.sort(rng.choice(total, size=count, replace=False))
        return np.searchsorted(np.cumsum(self.frequencies), places, side="right").astype(np.int64)


def _targets(sides: Sequence[DistinctRows], known: list[int], sensitive: int) -> list[_Targets]:
    """Read the table, its release and the control."""
    labels, weights = [_row_labels(side) for side in sides], [side.frequencies[side.present] for side in sides]
    ends, rows = np.cumsum([len(part) for part in labels])[:-1], np.concatenate(labels)

    def released(columns: list[int]) -> list[Integers]:
        """Return how many released records have the labels of each row in these columns."""
        numbers = row_numbers(rows[:, columns])
        of_release, total = np.split(numbers, ends)[1], int(numbers.max(initial=0)) + 1
        counts = np.bincount(of_release, weights=weights[1], minlength=total).astype(np.int64)
        return np.split(counts[numbers], ends)

    values = np.split(np.unique(rows[:, sensitive], return_inverse=True)[1], ends)
    facts = np.split(rows[:, known], ends), released(known), released([*known, sensitive]), values, weights
    return [_Targets(*of_table) for of_table in zip(*facts, strict=True)]


def _row_labels(rows: DistinctRows) -> Integers:
    """Return the labels of the rows that occur, shape (rows, columns)."""
    return np.column_stack([column.by_row for column in rows.columns])[rows.present]


def _match_rates(table: _Targets, release: _Targets, ordered: Booleans, rng: Generator) -> dict[str, AttackRate]:
    """Return how often matches and guesses about the records of a table are right."""
    n, values, records = table.frequencies, table.values, int(table.frequencies.sum())
    alone = table.alike == 1
    matched, rightly = int(n[alone].sum()), int(n[alone & (table.right == 1)].sum())
    expected = float((n * table.right / np.maximum(table.alike, 1)).sum())
    rows = table.sample(_MOST_TARGETS, rng)
    guessed = int((_nearest_values(table.known[rows], release, ordered) == values[rows]).sum())
    commonest = int(np.bincount(release.values, weights=release.frequencies).argmax())
    return {
        "matched alone": AttackRate(right=matched, tries=records),
        "matched rightly": AttackRate(right=rightly, tries=records),
        "matched wrongly": AttackRate(right=matched - rightly, tries=matched),
        "expected match": AttackRate(right=expected, tries=records),
        "guessed": AttackRate(right=guessed, tries=len(rows)),
        "guessed blindly": AttackRate(right=int(n[values == commonest].sum()), tries=records),
    }


def _nearest_values(known: Integers, release: _Targets, ordered: Booleans) -> Integers:
    """Return the commonest value among the released records that are nearest in known labels (Gower's distance)."""
    order = np.argsort(-release.frequencies, kind="stable")[:_MOST_RELEASED]
    masses = np.zeros((len(order), int(release.values.max()) + 1))
    masses[np.arange(len(order)), release.values[order]] = release.frequencies[order]
    guesses = np.empty(len(known), dtype=np.int64)
    for start in range(0, len(known), 200):
        part = known[start : start + 200]
        distance = np.zeros((len(part), len(order)), dtype=np.float32)
        for x, y, is_ordered in zip(part.T[:, :, None], release.known[order].T, ordered, strict=True):
            steps = np.abs(x - y) / BINS if is_ordered else np.ones(1)
            distance += np.where((x < 0) != (y < 0), 1.0, np.where(x == y, 0.0, steps)).astype(np.float32)
        nearest = distance <= distance.min(axis=1, keepdims=True) + 1e-5
        guesses[start : start + 200] = (nearest @ masses).argmax(axis=1)
    return guesses


def _single_out(sides: Sequence[DistinctRows], rng: Generator) -> list[AttackRate]:
    """Return how often the labels of up to four columns that single out a released record single out one of a table."""
    data, release, *controls = sides
    size = min(side.size for side in (data, *controls))  # a description fits more records of a larger table
    tables = [release, *(side.cut(size, rng) for side in (data, *controls))]
    labels, weights = [_row_labels(side) for side in tables], [side.frequencies[side.present] for side in tables]
    ends, width = np.cumsum([len(part) for part in labels])[:-1], labels[0].shape[1]
    rows = rng.permutation(len(labels[0]))[:_MOST_DESCRIBED]
    draws = [rng.choice(width, size=int(rng.integers(1, min(4, width) + 1)), replace=False) for _ in range(_SETS)]
    sets = sorted({tuple(sorted(draw.tolist())) for draw in draws})
    right, tries = np.zeros(len(sides) - 1, dtype=np.int64), 0
    for columns, part in zip(sets, np.array_split(rows, len(sets)), strict=True):
        numbers = row_numbers(np.concatenate(labels)[:, columns])
        keys, total = np.split(numbers, ends), int(numbers.max(initial=0)) + 1
        counts = [np.bincount(key, weights=w, minlength=total) for key, w in zip(keys, weights, strict=True)]
        descriptions = keys[0][part]
        alone = descriptions[counts[0][descriptions] == 1]
        tries += len(alone)
        right += [int((count[alone] == 1).sum()) for count in counts[1:]]
    return [AttackRate(right=number, tries=tries) for number in right.tolist()]
