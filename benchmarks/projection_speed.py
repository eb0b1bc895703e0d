"""Projection of noisy histograms in bounded-Lipschitz distance, beside general solvers; and the sizes aimed at.

Against the dense linear programme (scipy's HiGHS, a row for each pair of 600 points) and against POT's ``ot.emd`` on
all pairs of a supply and a deficit of 2,000 points, from the points to the result, in turn, on the clock of the
processor; the least of three runs counts (of one, for the dense programme). Then 10,000 points in the plane, a million
on a line and 100,000 in the plane, once each: seconds, and the gap that the certificate leaves. The noisy histograms
have as many records as points, spread over the square, in one cluster, or all at one point. A quick run has a tenth as
many points.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import ot
from _bench import in_turn, save
from _harness import script, show, timed
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from discreet._core.random import seeded
from discreet.mechanisms.bounded_lipschitz import bounded_lipschitz_projection

NOISE = 5.0
BESIDE = ("beside", "points", "seconds", "discreet s", "ratio", "difference")
ALONE = ("records", "points", "dimensions", "total", "seconds", "distance", "gap")
SIZES = (
    *((10_000, 2, kind, None) for kind in ("spread", "cluster", "point")),
    *((1_000_000, 1, kind, 1.003) for kind in ("spread", "cluster")),
    (100_000, 2, "cluster", None),
)


def noisy(size: int, kind: str, dimensions: int, total: float | None = None) -> Any:
    rng = seeded(size)
    points = rng.random((size, dimensions))
    chances = np.exp(-((points - 0.3) ** 2).sum(axis=1) / 0.005) if kind == "cluster" else np.ones(size)
    if kind == "point":
        chances[1:] = 0.0
    counts = rng.multinomial(size, chances / chances.sum()) + rng.normal(0.0, NOISE, size)
    masses = counts / size
    return masses if total is None else masses + (total - masses.sum()) / size, points


def ours(masses: Any, points: Any) -> tuple[float, float]:
    diameter = math.sqrt(points.shape[1])
    found = bounded_lipschitz_projection(masses, points, diameter=diameter, tolerance=5e-7)
    return found.distance, found.gap


def dense(masses: Any, points: Any) -> float:
    """The dual over all pairs: ``max f.v - t`` with ``f <= t``, 1-Lipschitz and bounded."""
    v, diameter = len(masses), math.sqrt(points.shape[1])
    i, j = np.nonzero(~np.eye(v, dtype=bool))
    rows = np.zeros((len(i) + v, v + 1))
    rows[np.arange(len(i)), i], rows[np.arange(len(i)), j] = 1.0, -1.0
    rows[len(i) :, :v], rows[len(i) :, v] = np.eye(v), -1.0
    right = np.concatenate((cdist(points, points)[i, j], np.zeros(v)))
    solved = linprog(np.append(-masses, 1.0), A_ub=rows, b_ub=right, bounds=[(-diameter, diameter)] * (v + 1))
    return -float(solved.fun)


def bipartite(masses: Any, points: Any) -> float:
    """All pairs of a supply and a deficit, for a total of at least one: what is left stays in a further sink."""
    plus, minus = masses > 0, masses < 0
    costs = np.hstack((cdist(points[plus], points[minus]), np.zeros((plus.sum(), 1))))
    supply, deficit = masses[plus], -masses[minus]
    into = np.append(deficit, supply.sum() - deficit.sum())
    plan = ot.emd(supply / supply.sum(), into / supply.sum(), costs, numItermax=2**31 - 1)
    return math.sqrt(points.shape[1]) * (masses.sum() - 1.0) + float((plan * costs).sum() * supply.sum())


def compared(name: str, other: Callable[..., float], size: int, runs: int) -> tuple[Any, ...]:
    sample = noisy(size, "spread", 2, 1.01)
    (theirs, value), (mine, (distance, _)) = in_turn(runs, lambda: other(*sample), lambda: ours(*sample))
    return name, size, theirs, mine, mine / theirs, abs(value - distance)


@script(share=(1.0, 0.1))
def main(share: float) -> None:
    beside = [
        compared("dense linear programme", dense, int(600 * share), 1),
        compared("ot.emd on all pairs", bipartite, int(2_000 * share), 3),
    ]
    show(BESIDE, beside)
    print()
    sizes = []
    for points, dimensions, kind, total in SIZES:
        sample = noisy(int(points * share), kind, dimensions, total)
        seconds, found = timed(ours, *sample)
        sizes.append((kind, len(sample[0]), dimensions, float(sample[0].sum()), seconds, *found))
    show(ALONE, sizes)
    kept = {"beside": [dict(zip(BESIDE, row, strict=True)) for row in beside]}
    kept["sizes"] = [dict(zip(ALONE, row, strict=True)) for row in sizes]
    save("projection_speed", {"pot": ot.__version__, "noise": NOISE, **kept})
