"""Exact optimal transport of two weighted samples of 5,000 points in the plane, beside POT's own ``ot.emd2``.

Run: python benchmarks/transport_speed.py

Both are timed from the points to the distance, cost matrix included, in turn, on the clock of the processor; the least
of three runs counts. A second pair shares half of its points, which a plain call does not notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ot
from _report import save, show

from discreet.utility import transport_distance

POINTS, RUNS = 5_000, 3


def plain(x: Any, y: Any, p: Any, q: Any) -> float:
    return float(ot.emd2(p / p.sum(), q / q.sum(), ot.dist(x, y, metric="euclidean"), numItermax=10**9))


def ours(x: Any, y: Any, p: Any, q: Any) -> float:
    return transport_distance(x, y, x_weights=p, y_weights=q, norm="euclidean")


def timed(call: Callable[..., float], *sample: Any) -> tuple[float, float]:
    start = time.process_time()
    value = call(*sample)
    return time.process_time() - start, value


def main() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    x, y = rng.random((POINTS, 2)), rng.random((POINTS, 2))
    p, q = rng.integers(1, 100, POINTS), rng.integers(1, 100, POINTS)
    half = np.concatenate((x[: POINTS // 2], y[POINTS // 2 :]))
    cases = {"all points differ": (x, y, p, q), "half of them shared": (x, half, p, p)}
    rows, kept = [], {}
    for case, sample in cases.items():
        runs = [(timed(plain, *sample), timed(ours, *sample)) for _ in range(RUNS)]
        pot, mine = min(run[0][0] for run in runs), min(run[1][0] for run in runs)
        gap = abs(runs[0][0][1] - runs[0][1][1])
        rows.append((case, pot, mine, mine / pot, gap))
        kept[case] = {"emd2_seconds": pot, "discreet_seconds": mine, "ratio": mine / pot, "difference": gap}
    show(("points", "emd2 s", "discreet s", "ratio", "difference"), rows)
    save("transport_speed", {"points": POINTS, "pot": ot.__version__, "cases": kept})


if __name__ == "__main__":
    main()
