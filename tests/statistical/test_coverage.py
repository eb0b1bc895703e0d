"""Mechanism-aware posteriors over simulated worlds: intervals cover as often as they say, and a wrong law is noticed.

400 worlds drawn from the prior, one 90 % interval each. A right posterior covers Binomial(400, 0.9) of them: fewer than
325 (0.8125) with probability 4e-8, 397 or more with probability 1e-14. A twin that takes the noise for a quarter of
what it is covers less than 0.7 of them here: 325 or more with probability below 2e-7.
"""

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer
from discreet.inference.prior import Prior
from discreet.inference.samplers import ReleasedCounts, ReleasedRecords, draw_counts
from discreet.mechanisms import PerturbedHistogram, SmoothedHistogram, StabilityHistogram

WORLDS, DRAWS, HELD, RELEASED = 400, 200, 60, 60
LEAST, MOST = 325, 396
CELLS = Domain(columns={"x": Integer(lower=1, upper=4)})
ALPHA = np.full(4, 1.0)
POSITIONS = np.arange(1.0, 5.0)


def worlds(mechanism, form, rng):
    truth, released = [], []
    for _ in range(WORLDS):
        p = rng.dirichlet(ALPHA)
        held = rng.multinomial(HELD, p)
        cells = np.flatnonzero(held)
        output = mechanism.kernel(Counts(records=CELLS.unflat(cells), frequencies=held[cells]), rng=rng)
        if form == "counts":
            table = mechanism.reading(output, n=HELD).estimates()
            seen = np.full(4, np.nan)
            seen[CELLS.flat(table.records)] = table.counts
        else:
            seen = np.zeros(4, dtype=np.int64)
            for chunk in mechanism.reading(output, n=HELD).draw(RELEASED, rng=rng):
                np.add.at(seen, CELLS.flat(chunk), 1)
        truth.append(p @ POSITIONS)
        released.append(seen)
    return np.array(truth), np.stack(released)


def covered(mechanism, form, truth, released, rng):
    kind, prior, inside = ReleasedCounts if form == "counts" else ReleasedRecords, Prior.process(ALPHA), 0
    for value, seen in zip(truth, released, strict=True):
        counts = draw_counts(mechanism.likelihood(), [prior], kind(HELD, seen), DRAWS, rng).counts
        masses = rng.standard_gamma(ALPHA + counts)
        means = (masses @ POSITIONS) / masses.sum(axis=1)
        low, high = np.quantile(means, [0.05, 0.95], method="weibull")
        inside += low <= value <= high
    return inside


PERTURBED = {"domain": CELLS, "records": HELD}


@pytest.mark.parametrize(
    ("mechanism", "form"),
    [
        (PerturbedHistogram(**PERTURBED, scale=8.0), "counts"),
        (PerturbedHistogram(**PERTURBED, scale=8.0, noise="gaussian"), "counts"),
        pytest.param(PerturbedHistogram(**PERTURBED, scale=8.0), "records", marks=pytest.mark.exhaustive),
        (StabilityHistogram(domain=CELLS, scale=4.0, threshold=15), "counts"),
        (SmoothedHistogram(domain=CELLS, size=RELEASED, mixing=0.4), "records"),
    ],
    ids=["laplace", "gaussian", "records", "stability", "smoothed"],
)
def test_intervals_cover_as_often_as_they_say(mechanism, form):
    rng = seeded(17)
    truth, released = worlds(mechanism, form, rng)
    assert LEAST <= covered(mechanism, form, truth, released, rng) <= MOST


def test_a_posterior_with_a_quarter_of_the_noise_does_not():
    rng = seeded(18)
    truth, released = worlds(PerturbedHistogram(**PERTURBED, scale=8.0), "counts", rng)
    twin = PerturbedHistogram(**PERTURBED, scale=2.0)
    assert covered(twin, "counts", truth, released, rng) < LEAST
