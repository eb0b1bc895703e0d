"""Exact optimal transport of two weighted samples of 5,000 points in the plane, beside POT's own ``ot.emd2``.

Both are timed from the points to the distance, cost matrix included, in turn, on the clock of the processor; the least
of three runs counts. A second pair shares half of its points, which a plain call does not notice.
"""

from functools import partial
from typing import Any

import numpy as np
import ot
from _bench import in_turn, save
from _harness import script, show

from discreet._core.random import seeded
from discreet.utility import transport_distance


def plain(x: Any, y: Any, p: Any, q: Any) -> float:
    return float(ot.emd2(p / p.sum(), q / q.sum(), ot.dist(x, y, metric="euclidean"), numItermax=10**9))


def ours(x: Any, y: Any, p: Any, q: Any) -> float:
    return transport_distance(x, y, x_weights=p, y_weights=q, norm="euclidean")


@script(points=(5_000, 500), runs=3)
def main(points: int, runs: int) -> None:
    rng = seeded(1)
    x, y = rng.random((points, 2)), rng.random((points, 2))
    p, q = rng.integers(1, 100, points), rng.integers(1, 100, points)
    half = np.concatenate((x[: points // 2], y[points // 2 :]))
    cases = {}
    for case, sample in {"all points differ": (x, y, p, q), "half of them shared": (x, half, p, p)}.items():
        (pot, theirs), (mine, own) = in_turn(runs, partial(plain, *sample), partial(ours, *sample))
        gap = abs(theirs - own)
        cases[case] = {"emd2_seconds": pot, "discreet_seconds": mine, "ratio": mine / pot, "difference": gap}
    head = ("points", "emd2 s", "discreet s", "ratio", "difference")
    show(head, [(case, *found.values()) for case, found in cases.items()])
    save("transport_speed", {"points": points, "pot": ot.__version__, "cases": cases})
