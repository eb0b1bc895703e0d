"""Brute force: the whole law of a mechanism on a small table, and the exact divergence between two of them.

By its own ``log_prob``; sequences of records with the same counts are listed once, with their number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from discreet._core.errors import ParameterError
from discreet._core.numeric import Floats, Integers
from discreet._core.random import seeded
from discreet.domain import Counts, Records
from discreet.mechanisms import MOST_LISTED, DrawnMechanism, Mechanism, compositions
from discreet.privacy import RelationName


def neighbouring_pairs(
    n: int, cells: int, *, group: int = 1, relation: RelationName = "replacement"
) -> tuple[Integers, Integers, Integers]:
    """Return every ordered pair of tables that differ in at least one and at most ``group`` records.

    Parameters
    ----------
    n, cells, group : int
        Numbers of records, of cells, and of records that may be replaced, added or removed; each at least 1.
    relation : {"replacement", "add-remove"}
        Under add/remove the tables have ``n`` to ``n + group`` records.

    Returns
    -------
    tables : ndarray of int64, shape (tables, cells)
        All count vectors of these numbers of records.
    left, right : ndarray of int64, shape (pairs,)
        Rows of ``tables``; both orders of every pair are there.

    Examples
    --------
    >>> tables, left, right = neighbouring_pairs(1, 2)
    >>> [(tables[i].tolist(), tables[j].tolist()) for i, j in zip(left, right)]
    [([0, 1], [1, 0]), ([1, 0], [0, 1])]
    """
    if n < 1 or group < 1:
        raise ParameterError("neighbours must have at least one record, and differ in at least one")
    most, weight = (n, 2) if relation == "replacement" else (n + group, 1)
    tables = np.concatenate([compositions(total, cells) for total in range(n, most + 1)])
    changed = np.abs(tables[:, None, :] - tables[None, :, :]).sum(axis=2) // weight
    left, right = np.nonzero((changed >= 1) & (changed <= group))
    return tables, left.astype(np.int64), right.astype(np.int64)


def table_of(counts: npt.NDArray[np.integer]) -> Counts:
    """Return the table that holds cell ``l`` ``counts[l]`` times."""
    cells = np.flatnonzero(counts).astype(np.int64)
    return Counts(records=Records(columns=(cells,)), frequencies=np.asarray(counts)[cells].astype(np.int64))


def partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yield the integer partitions of ``total``, parts in falling order."""
    if total == 0:
        yield ()
        return
    for part in range(min(total, largest or total), 0, -1):
        for smaller_parts in partitions(total - part, part):
            yield (part, *smaller_parts)


@dataclass(frozen=True, kw_only=True)
class Law:
    """The law of a release of a small table, under each of several tables.

    ``outcomes``: all that can be released, up to order, as :func:`outcome_of` returns it. ``log_mass``, shape (tables,
    outcomes): their log-probabilities. ``neglected``: bounds the probability of all others, 0 but for unbounded noise.
    """

    outcomes: tuple[Hashable, ...]
    log_mass: Floats
    neglected: float = 0.0

    @cached_property
    def mass(self) -> Floats:
        """Probabilities, shape (tables, outcomes)."""
        return np.exp(self.log_mass)

    @cached_property
    def number(self) -> dict[Hashable, int]:
        """The place of each outcome in ``outcomes``."""
        return {outcome: i for i, outcome in enumerate(self.outcomes)}


def hockey_stick(log_p: Floats, log_q: Floats, epsilons: npt.ArrayLike) -> Floats:
    """Return ``sum (p - e^eps q)_+`` over the last axis, for each epsilon, without cancellation.

    Parameters
    ----------
    log_p, log_q : ndarray of float64, shape (.., outcomes)
        Log-probabilities, minus infinity allowed.
    epsilons : array_like of float, shape (E,)
        Any reals.

    Returns
    -------
    ndarray of float64, shape (.., E)

    Examples
    --------
    >>> coin, biased = np.log([0.5, 0.5]), np.log([0.75, 0.25])
    >>> hockey_stick(biased, coin, [0.0]).tolist()
    [0.25]
    """
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):
        loss = np.where(p > 0.0, log_p - log_q, 0.0)
    levels = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    return np.stack([(p * -np.expm1(np.minimum(0.0, level - loss))).sum(axis=-1) for level in levels], axis=-1)


def enumerate_law(mechanism: Mechanism, *tables: Counts) -> Law:
    """Return the law of the release under each of the tables, on one common list of outcomes.

    Examples
    --------
    >>> from discreet.domain import Counts, Domain, Integer
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=2)})
    >>> law = enumerate_law(SmoothedHistogram(domain=cells, size=3, mixing=0.5), Counts.of_cells([0, 0, 1]))
    >>> round(float(law.mass.sum()), 12)
    1.0
    """
    if not isinstance(mechanism, DrawnMechanism) or mechanism.traits.random_size:
        return _law_of_outputs(mechanism, tables)
    if mechanism.domain.finite:
        return _law_on_cells(mechanism, tables)
    return _law_on_values(mechanism, tables)


def outcome_of(mechanism: Mechanism, release: Any, *tables: Counts) -> Hashable:
    """Return what ``kernel`` returned as an outcome of the law under the same tables: its counts, up to order."""
    if isinstance(release, np.ndarray):
        return tuple(release.ravel().tolist())
    if isinstance(release, list):  # steps, given their candidates
        return tuple(tuple(step.votes.tolist()) for step in release)
    if isinstance(release, Counts):
        return frozenset(zip(release.records.rows(), release.frequencies.tolist(), strict=True))
    records = release if isinstance(release, Records) else Records.concatenate(cast("Iterable[Records]", release))
    if mechanism.domain.finite:
        return tuple(np.bincount(mechanism.domain.flat(records), minlength=cast(int, mechanism.domain.size)).tolist())
    table_rows = _distinct_rows(tables)
    counts = Counter(records.rows())
    new = sorted((count for row, count in counts.items() if row not in table_rows), reverse=True)
    return tuple(counts[row] for row in table_rows), tuple(new)


def _require_few(count: int) -> None:
    if count > MOST_LISTED:
        raise ParameterError(f"{count:,} outcomes are too many to enumerate. Take a smaller universe")


def _log_arrangements(counts: Collection[int]) -> float:
    return math.lgamma(sum(counts) + 1) - sum(math.lgamma(c + 1) for c in counts)


def _law_on_cells(mechanism: DrawnMechanism, tables: Sequence[Counts]) -> Law:
    """List the counts of the released cells; each stands for its arrangements."""
    size, cells = mechanism.size, cast(int, mechanism.domain.size)
    _require_few(math.comb(size + cells - 1, cells - 1))
    outcomes = compositions(size, cells)
    log_mass = np.empty((len(tables), len(outcomes)))
    for i, counts in enumerate(outcomes):
        release = mechanism.domain.unflat(np.repeat(np.arange(cells), counts))
        arrangements = _log_arrangements(counts.tolist())
        log_mass[:, i] = [mechanism.log_prob(release, x) + arrangements for x in tables]
    return Law(outcomes=tuple(map(tuple, outcomes.tolist())), log_mass=log_mass)


def _distinct_rows(tables: Sequence[Counts]) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(row for x in tables for row in x.records.rows()))


def _law_on_values(mechanism: DrawnMechanism, tables: Sequence[Counts]) -> Law:
    """List, for a base measure without atoms, the counts of the tables' values and the frequencies of the new ones."""
    rows, new = _distinct_rows(tables), mechanism.domain.draw_base(mechanism.size, seeded(7), first=1)
    columns = [np.array([row[c] for row in rows] + v.tolist(), dtype=v.dtype) for c, v in enumerate(new.columns)]
    records, density = Records(columns=tuple(columns)), mechanism.domain.log_base(new)
    holdings = [set(x.records.rows()) for x in tables]
    outcomes: list[Hashable] = []
    log_mass: list[list[float]] = []
    for *old, total in compositions(mechanism.size, len(rows) + 1).tolist():
        for parts in partitions(total):
            release = records.take(np.repeat(np.arange(len(rows) + len(parts)), (*old, *parts)))
            ties = sum(math.lgamma(c + 1) for c in Counter(parts).values())
            # Densities of new values integrate to one.
            arrangements = _log_arrangements((*old, *parts)) - ties - float(density[: len(parts)].sum())
            masses = [-math.inf] * len(tables)
            for i, (x, holding) in enumerate(zip(tables, holdings, strict=True)):
                # A value that a table does not hold has probability zero under it.
                if all(row in holding for row, count in zip(rows, old, strict=True) if count):
                    masses[i] = mechanism.log_prob(release, x) + arrangements
            outcomes.append((tuple(old), parts))
            log_mass.append(masses)
            _require_few(len(outcomes))
    return Law(outcomes=tuple(outcomes), log_mass=np.array(log_mass).T)


def _law_of_outputs(mechanism: Mechanism, tables: Sequence[Counts]) -> Law:
    """List what the mechanism says it can give; records stand for their arrangements."""
    outputs, neglected = mechanism.outputs(*tables)
    _require_few(len(outputs))
    outcomes = tuple(outcome_of(mechanism, y, *tables) for y in outputs)
    arrangements = [_log_arrangements(Counter(y.rows()).values()) if isinstance(y, Records) else 0.0 for y in outputs]
    log_mass = np.array([[mechanism.log_prob(y, x) for y in outputs] for x in tables])
    return Law(outcomes=outcomes, log_mass=log_mass + arrangements, neglected=neglected)
