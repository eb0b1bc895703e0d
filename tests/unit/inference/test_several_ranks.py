"""Simulation-based calibration of several tables: where a statistic of the truth ranks among those of the tables.

A population is drawn, a confidential table from it, and a release of it. Each released table comes from one draw of the
posterior of the population, so a further sample of the true population, of the same size, is one more such table: its
rank among them is uniform. A posterior that is too narrow puts it first or last too often.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer
from discreet.mechanisms import Marginals, measured_tables
from discreet.mechanisms.measured_tables import MeasuredTables
from discreet.privacy import Budget

SHAPE = (3, 3)
DOMAIN = Domain(columns={name: Integer(lower=1, upper=size) for name, size in zip("ab", SHAPE, strict=True)})
TABLES, WORLDS = 4, 54
NOISE_RULES, SAMPLING_RULES = (30_000, 0.03), (500, 20.0)
"""Numbers of records held and epsilons: what of the two the posterior's width is nearly all of."""
FALSE_ALARM = 1e-4
"""Of a test of three statistics, together."""


def statistics(counts: np.ndarray) -> list[float]:
    """Return a mean, the share of a pair and a slope: what the measured tables identify."""
    p = counts / counts.sum()
    a, b = np.arange(3), np.arange(3)
    centred = a - p.sum(axis=1) @ a
    return [float(p.sum(axis=1) @ a), float(p[0, 2]), float(centred @ p @ b / (p.sum(axis=1) @ centred**2))]


def counted(chunks: Iterator[Any]) -> np.ndarray:
    cells = np.concatenate([DOMAIN.flat(part) for part in chunks])
    return np.bincount(cells, minlength=DOMAIN.size or 0).reshape(SHAPE)


def least_p(records: int, epsilon: float) -> float:
    """Return three times the least p-value of the truth being first or last as often as each of five tables is."""
    rng, size, ends = seeded(15), max(5000, records), []
    made = Marginals.calibrated(Budget(epsilon=epsilon, delta=1e-6), domain=DOMAIN, n=records, tables=TABLES)
    for _ in range(WORLDS):
        shares = rng.dirichlet(np.full(DOMAIN.size or 0, 2.0))
        held = rng.multinomial(records, shares)
        some = np.flatnonzero(held)
        y = made.kernel(Counts(records=DOMAIN.unflat(some), frequencies=held[some]), rng=rng)
        tables = np.array([statistics(counted(made.reading(y, n=records).draw(size, rng=rng))) for _ in range(TABLES)])
        truth = statistics(rng.multinomial(size, shares).reshape(SHAPE))
        ends.append(np.isin((tables < truth).sum(axis=0), (0, TABLES)))
    share = 2.0 / (TABLES + 1)
    return min(3.0 * float(binomtest(int(each), WORLDS, share).pvalue) for each in np.sum(ends, axis=0))


@pytest.mark.parametrize(("records", "epsilon"), [NOISE_RULES, SAMPLING_RULES])
def test_ranks_are_uniform(records: int, epsilon: float) -> None:
    assert least_p(records, epsilon) > FALSE_ALARM


def test_ranks_are_not_where_noise_is_taken_for_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeasuredTables, "posterior_draw", lambda self, _rng: self)
    assert least_p(*NOISE_RULES) < FALSE_ALARM


def test_ranks_are_not_where_the_table_is_taken_for_the_population(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_tables, "copies", lambda _n, size, _rng: iter([np.ones(size, dtype=np.int64)]))
    assert least_p(*SAMPLING_RULES) < FALSE_ALARM
