"""Nearest of 10,000 candidates to each of 1,000,000 points: beside scikit-learn's brute force, and tree against blocks.

Points and candidates are standard normal, the worst case of a tree in many coordinates; "near a plane" means 64
coordinates that are random linear images of 3. scikit-learn answers the first 40,000 points, whose time is scaled
linearly to all; for these the two answers have to agree, but for points that rounding decides, which are counted and
checked to be such. The two take turns, least of three; the million is answered once. Matrix products and scikit-learn
have one thread each, so that processor time, which counts every thread of the tree, compares like with like on a busy
machine; ratios are scikit-learn's time to ours. "product alone" is what the single-precision matrix product by itself
takes. Where FAISS is installed, its flat index answers too, with one thread, right up to single precision only.
"""

from typing import Any

import numpy as np
from _bench import in_turn, save
from _harness import script, show, timed
from threadpoolctl import threadpool_limits

from discreet._core.random import seeded
from discreet.evolution.neighbours import NearestCandidates

CASES = [("normal", 2, "auto"), ("normal", 8, "auto"), ("normal", 64, "auto"), ("near a plane", 64, "auto"),
         ("near a plane", 64, "tree")]  # fmt: skip


def points_of(kind: str, d: int, count: int, seed: int) -> np.ndarray:
    """Return standard normal points, or images of points of three coordinates."""
    if kind == "normal":
        return seeded(seed).standard_normal((count, d))
    return seeded(seed).standard_normal((count, 3)) @ seeded(0).standard_normal((3, d))


def decided_by_rounding(points: np.ndarray, candidates: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> int:
    """Count the disagreements, and fail where ours is not the nearer one in extended precision, up to its rounding."""
    differ = np.flatnonzero(ours != theirs)
    x = points[differ].astype(np.longdouble)
    far = [np.square(x - candidates[one[differ]]).sum(axis=1) for one in (ours, theirs)]
    assert (far[0] <= far[1] * (1 + 1e-15)).all()
    return len(differ)


def faiss_seconds(points: np.ndarray, candidates: np.ndarray) -> float:
    """Return the least processor time of three runs of FAISS, or nan without it."""
    try:
        import faiss
    except ImportError:
        return float("nan")
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(candidates.shape[1])
    index.add(candidates.astype(np.float32))
    asked = points.astype(np.float32)
    return in_turn(3, lambda: index.search(asked, 1))[0][0]


def against_brute_force(kind: str, d: int, method: str, counts: list[int]) -> dict[str, Any]:
    """Return the seconds of both methods, and how they answer."""
    from sklearn.neighbors import NearestNeighbors

    count, few, asked = counts
    points, candidates = points_of(kind, d, count, 1), points_of(kind, d, few, 2)
    brute = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(candidates)
    (theirs_took, theirs), (ours_took, ours) = in_turn(
        3,
        lambda: brute.kneighbors(points[:asked], return_distance=False)[:, 0],
        lambda: NearestCandidates(candidates, method=method).nearest(points[:asked]),
    )
    seconds, whole = timed(lambda: NearestCandidates(candidates, method=method).nearest(points))
    assert (whole[:asked] == ours).all()
    left, right = points[:256].astype(np.float32), np.ascontiguousarray(candidates.T, dtype=np.float32)
    held, scale = left @ right, count / asked
    ((product, _),) = in_turn(9, lambda: np.matmul(left, right, out=held))
    return {
        "points": kind, "coordinates": d, "method": NearestCandidates(candidates, method=method).method,
        "sklearn_cpu_seconds_scaled": theirs_took * scale, "cpu_seconds": seconds,
        "cpu_seconds_product_alone": product * count / len(left),
        "faiss_cpu_seconds_scaled": faiss_seconds(points[:asked], candidates) * scale,
        "cpu_ratio_of_the_million": theirs_took * scale / seconds, "cpu_ratio": theirs_took / ours_took,
        "decided_by_rounding": decided_by_rounding(points[:asked], candidates, ours, theirs),
    }  # fmt: skip


@script(counts=([1_000_000, 10_000, 40_000], [40_000, 1_000, 4_000]))
def main(counts: list[int]) -> None:
    with threadpool_limits(1):
        found = [against_brute_force(*case, counts) for case in CASES]
    points, candidates, _ = counts
    print(f"{points:,} points, {candidates:,} candidates\n")
    show(found[0], found)
    save("nearest_neighbours", {"points": points, "candidates": candidates, "runs": found})
