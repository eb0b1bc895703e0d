"""Simulation-based calibration of several tables: where a statistic of the truth ranks among those of the tables.

A population is drawn, a confidential table from it, and a release of it. Each released table comes from one draw of the
posterior of the population, so a further sample of the true population, of the same size, is one more such table: its
rank among them is uniform. Posteriors that are too narrow are told by ranks at the ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer
from discreet.mechanisms import Marginals, _measured_tables, marginals
from discreet.mechanisms._latent_classes import Table
from discreet.privacy import Budget

SHAPE = (4, 3, 2)
DOMAIN = Domain(columns={name: Integer(lower=1, upper=size) for name, size in zip("abc", SHAPE, strict=True)})
N, SIZE, TABLES, WORLDS = 3000, 6000, 9, 120
FALSE_ALARM = 1e-5
"""Of each statistic's test; of a test of all of them, at most five times this."""


def statistics(counts: np.ndarray) -> list[float]:
    """Return a mean, two shares of pairs, a conditional share and a slope: what measured tables identify."""
    p = counts / counts.sum()
    a, b, c = (np.arange(size) for size in SHAPE)
    one, ab, ac = p.sum(axis=(1, 2)), p.sum(axis=2), p.sum(axis=1)
    centred = a - one @ a
    slope = centred @ ab @ b / (one @ centred**2)
    return [float(one @ a), float(ab[0, 0]), float(p.sum(axis=0)[2, 1]), float(ac[3, 1] / one[3]), float(slope)]


def counted(codes: Iterator[Any] | list[Any]) -> np.ndarray:
    flat = np.concatenate([DOMAIN.flat(part) for part in codes])
    return np.bincount(flat, minlength=DOMAIN.size).reshape(SHAPE)


def ranks(worlds: int) -> np.ndarray:
    """Return, for each world, how many tables have a smaller statistic than the truth: shape (worlds, statistics)."""
    rng, found = seeded(15), []
    mechanism = Marginals.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=DOMAIN, n=N, tables=TABLES)
    for _ in range(worlds):
        shares = rng.dirichlet(np.full(DOMAIN.size or 0, 2.0))
        held = rng.multinomial(N, shares)
        some = np.flatnonzero(held)
        y = mechanism.kernel(Counts(records=DOMAIN.unflat(some), frequencies=held[some]), rng=rng)
        tables = [statistics(counted(mechanism.finish(y, size=SIZE, rng=rng))) for _ in range(TABLES)]
        truth = statistics(rng.multinomial(SIZE, shares).reshape(SHAPE))
        found.append((np.array(tables) < truth).sum(axis=0))
    return np.array(found)


def least_p(found: np.ndarray) -> float:
    """Return the least p-value of the statistics' ranks being uniform."""
    observed = [np.bincount(column, minlength=TABLES + 1) for column in found.T]
    return float(min(chisquare(each).pvalue for each in observed))


def test_ranks_are_uniform() -> None:
    assert least_p(ranks(WORLDS)) > FALSE_ALARM


def test_ranks_of_noise_taken_for_a_quarter_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    scales, denoised = _measured_tables.MeasuredTables._scales, _measured_tables.denoised

    def quarter(tables: Mapping[Any, Table], *others: Any) -> Any:
        return denoised({pair: Table(table.excess, table.error / 4) for pair, table in tables.items()}, *others)

    monkeypatch.setattr(_measured_tables, "denoised", quarter)
    monkeypatch.setattr(_measured_tables.MeasuredTables, "_scales", property(lambda self: scales.func(self) / 4))
    assert least_p(ranks(WORLDS // 2)) < FALSE_ALARM


def test_ranks_are_not_where_the_table_is_taken_for_the_population(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "copies", lambda _n, size, _rng: iter([np.ones(size, dtype=np.int64)]))
    assert least_p(ranks(WORLDS // 2)) < FALSE_ALARM
