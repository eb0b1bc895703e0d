"""Brute force: the whole law of a mechanism on a small table, and the exact divergence between two of them.

Nothing here knows a theorem. Every possible release is listed, its probability is read from the mechanism's own
``log_prob``, and the hockey-stick divergence is summed. Records come in exchangeable order, so sequences with the same
counts are listed once with their number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, Integers
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet.domain import Counts, Records
from discreet.mechanisms import Mechanism
from discreet.mechanisms.base import MOST_LISTED
from discreet.mechanisms.drawn import DrawnMechanism

# Small universes: every table of ``n`` records on ``k`` cells, and every pair of neighbours among them.


def count_vectors(total: int, cells: int) -> Integers:
    """Return all vectors of ``cells`` non-negative integers that sum to ``total``.

    Parameters
    ----------
    total : int
        At least 0.
    cells : int
        At least 1.

    Returns
    -------
    ndarray of int64, shape (C(total + cells - 1, cells - 1), cells)
        In lexicographic order.

    Examples
    --------
    >>> count_vectors(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    if total < 0 or cells < 1:
        raise ParameterError("a count vector must have at least one cell and a total of at least 0")
    if cells == 1:
        return np.array([[total]], dtype=np.int64)
    parts = []
    for first in range(total + 1):
        rest = count_vectors(total - first, cells - 1)
        parts.append(np.column_stack((np.full(len(rest), first, dtype=np.int64), rest)))
    return np.concatenate(parts)


def neighbouring_pairs(n: int, cells: int, *, group: int = 1) -> tuple[Integers, Integers, Integers]:
    """Return every ordered pair of tables that differ in at least one and at most ``group`` records.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    cells : int
        Number of cells.
    group : int
        Number of records that may be replaced, at least 1.

    Returns
    -------
    tables : ndarray of int64, shape (tables, cells)
        All count vectors of ``n`` records.
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
    tables = count_vectors(n, cells)
    moved = np.abs(tables[:, None, :] - tables[None, :, :]).sum(axis=2) // 2
    left, right = np.nonzero((moved >= 1) & (moved <= group))
    return tables, left.astype(np.int64), right.astype(np.int64)


def table_of(counts: npt.NDArray[np.integer], values: npt.NDArray[np.generic] | None = None) -> Counts:
    """Return the table that holds value ``l`` ``counts[l]`` times; cells ``0, 1, ..`` where no values are given.

    Examples
    --------
    >>> table_of(np.array([2, 0, 1])).frequencies.tolist()
    [2, 1]
    """
    held = np.flatnonzero(counts)
    column = held.astype(np.int64) if values is None else values[held]
    return Counts(records=Records(columns=(column,)), frequencies=np.asarray(counts)[held].astype(np.int64))


def partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yield the integer partitions of ``total``, parts in falling order."""
    if total == 0:
        yield ()
        return
    for part in range(min(total, total if largest is None else largest), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)


@dataclass(frozen=True, kw_only=True)
class Law:
    """The law of a release of a small table, under each of several tables.

    Parameters
    ----------
    outcomes : tuple of hashable
        Everything that can be released, up to order: what :func:`outcome_of` returns.
    log_mass : ndarray of float64, shape (tables, outcomes)
        Log-probability of each outcome under each table.
    neglected : float
        A bound on the probability that is not listed: 0 but for unbounded noise.
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


def enumerate_profile(mechanism: Mechanism, x: Counts, y: Counts, epsilons: npt.ArrayLike) -> Floats:
    """Return the exact divergence ``sup_B P(M(x) in B) - e^eps P(M(y) in B)`` by listing every release.

    ``mechanism``: any with a law, on a domain and of a size that are small.
    ``x``, ``y``: Two tables; for a privacy profile, neighbours, in both orders.
    ``epsilons``, shape (E,): where to evaluate it.
    Returns, shape (E,): Never above the truth by more than rounding, nor below it by more than the neglected 1e-13 of
    unbounded noise.

    Raises
    ------
    ParameterError
        When there are more than two million outcomes.
    LawNotAvailable
        When the mechanism has no law.

    Examples
    --------
    >>> from discreet.domain import Counts, Domain, Integer
    >>> from discreet.mechanisms import DirichletMultinomial
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=2)})
    >>> mechanism = DirichletMultinomial(domain=cells, size=2, prior=1.0)
    >>> brute = enumerate_profile(mechanism, Counts.of_cells([0, 2]), Counts.of_cells([1, 2]), [0.5])
    >>> bool(abs(brute[0] - mechanism.guarantee(n=2).delta(0.5)) < 1e-12)
    True
    """
    law = enumerate_law(mechanism, x, y)
    return hockey_stick(law.log_mass[0], law.log_mass[1], epsilons)


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
        return _listed(mechanism, tables)
    if mechanism.domain.finite:
        return _cells(mechanism, tables)
    return _values(mechanism, tables)


def outcome_of(mechanism: Mechanism, release: Any, *tables: Counts) -> Hashable:
    """Return a release as an outcome of the law under the same tables: its counts, or its noisy counts.

    Records, and the labels of noisy counts, are compared up to order; votes of steps, in the order of their candidates.

    ``mechanism``: what made it.
    ``release``: what ``kernel`` returned.
    ``*tables``: those given to :func:`enumerate_law`.
    """
    if isinstance(release, np.ndarray):
        return tuple(release.ravel().tolist())
    if isinstance(release, list):  # steps, given their candidates
        return tuple(tuple(step.votes.tolist()) for step in release)
    if isinstance(release, Counts):
        return frozenset(zip(release.records.rows(), release.frequencies.tolist(), strict=True))
    records = release if isinstance(release, Records) else Records.concatenate(cast("Iterable[Records]", release))
    if mechanism.domain.finite:
        return tuple(np.bincount(mechanism.domain.flat(records), minlength=_size(mechanism)).tolist())
    known = _union(tables)
    seen = Counter(records.rows())
    fresh = sorted((count for row, count in seen.items() if row not in known), reverse=True)
    return tuple(seen.get(row, 0) for row in known), tuple(fresh)


def _size(mechanism: Mechanism) -> int:
    return cast(int, mechanism.domain.size)


def _release_size(mechanism: Mechanism) -> int:
    return int(cast(Any, mechanism).size)


def _few(count: int) -> None:
    if count > MOST_LISTED:
        raise ParameterError(f"{count:,} outcomes are too many to enumerate. Take a smaller universe")


def _log_arrangements(counts: Sequence[int]) -> float:
    return math.lgamma(sum(counts) + 1) - sum(math.lgamma(c + 1) for c in counts)


def _cells(mechanism: Mechanism, tables: Sequence[Counts]) -> Law:
    """List the counts of the released cells; each stands for its arrangements."""
    size, cells = _release_size(mechanism), _size(mechanism)
    _few(math.comb(size + cells - 1, cells - 1))
    outcomes = count_vectors(size, cells)
    log_mass = np.empty((len(tables), len(outcomes)))
    for i, counts in enumerate(outcomes):
        release = mechanism.domain.unflat(np.repeat(np.arange(cells), counts))
        arrangements = _log_arrangements(counts.tolist())
        log_mass[:, i] = [mechanism.log_prob(release, x) + arrangements for x in tables]
    return Law(outcomes=tuple(map(tuple, outcomes.tolist())), log_mass=log_mass)


def _union(tables: Sequence[Counts]) -> list[tuple[Any, ...]]:
    rows: dict[tuple[Any, ...], None] = {}
    for x in tables:
        rows.update(dict.fromkeys(x.records.rows()))
    return list(rows)


def _values(mechanism: Mechanism, tables: Sequence[Counts]) -> Law:
    """List, for a base measure without atoms, the counts of all held values and the frequencies of the new ones.

    A value that a table does not hold has probability zero under it. Densities of new values integrate to one.
    """
    known, size = _union(tables), _release_size(mechanism)
    holders = [set(_union([x])) for x in tables]
    fresh = mechanism.domain.draw_base(size, seeded(7), first=1)
    density = mechanism.domain.log_base(fresh)
    columns = [
        np.array([row[c] for row in known] + column.tolist(), dtype=column.dtype)
        for c, column in enumerate(fresh.columns)
    ]
    everything = Records(columns=tuple(columns))
    outcomes: list[Hashable] = []
    log_mass: list[list[float]] = []
    for counts in count_vectors(size, len(known) + 1).tolist():
        for parts in partitions(counts[-1]):
            old = tuple(counts[:-1])
            index = np.repeat(np.arange(len(known) + len(parts)), (*old, *parts))
            release = everything.take(index)
            same = sum(math.lgamma(c + 1) for c in Counter(parts).values())
            arrangements = _log_arrangements((*old, *parts)) - same - float(density[: len(parts)].sum())
            outcomes.append((old, parts))
            log_mass.append(
                [
                    mechanism.log_prob(release, x) + arrangements
                    if all(row in held for row, c in zip(known, old, strict=True) if c)
                    else -math.inf
                    for x, held in zip(tables, holders, strict=True)
                ]
            )
            _few(len(outcomes))
    return Law(outcomes=tuple(outcomes), log_mass=np.array(log_mass).T)


def _listed(mechanism: Mechanism, tables: Sequence[Counts]) -> Law:
    """List what the mechanism says it can give; records stand for their arrangements."""
    values, neglected = mechanism.outputs(*tables)
    _few(len(values))
    outcomes = tuple(outcome_of(mechanism, y, *tables) for y in values)
    arrangements = [
        _log_arrangements(list(Counter(y.rows()).values())) if isinstance(y, Records) else 0.0 for y in values
    ]
    log_mass = np.array([[mechanism.log_prob(y, x) for y in values] for x in tables])
    return Law(outcomes=outcomes, log_mass=log_mass + arrangements, neglected=neglected)
